"""What notebooks show of our objects: small tables, verdicts and curves as HTML; every text in them is escaped."""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["Html", "card", "curve", "definitions", "listed", "number", "percent", "sentences", "table"]

TABLE = "border-collapse:collapse;margin:4px 0;font-size:inherit"
CELL = "padding:2px 10px;border:none;text-align:{};vertical-align:middle"
CURVE_SIZE = (110, 26)
ACCENT = "#0072B2"
MOST_DIGITS = 15
"""Digits that a float64 is sure to have."""


class Html(str):
    """Text that is HTML already; everything else is escaped before it gets into a page.

    >>> table(["name"], [["<b>"], [Html("<b>bold</b>")]]).count("<b>")
    1
    """


def number(value: Any, digits: int = 4, span: float = 0.0) -> str:
    """Return a number, or the first few of several, with four digits; no exponent where it is of ordinary size.

    With a `span`, there are digits enough to tell apart numbers that lie so far from each other.

    >>> number(0.123456), number([1.0, 2.5]), number("text"), number(1234567.0), number(120000.0), number(3.2e-7)
    ('0.1235', '1, 2.5', 'text', '1.235e+06', '120000', '3.2e-07')
    >>> number(1.7e9 + 1800.0), number(1.7e9 + 1800.0, span=3600.0), number(float("nan"))
    ('1.7e+09', '1700001800', '–')
    """
    if isinstance(value, str) or not _is_numeric(value):
        return str(value)
    values = np.ravel(value)
    words = ", ".join(_in_digits(float(item), digits, span) for item in values[:6])
    return words if len(values) <= 6 else f"{words}, … ({len(values)})"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Html:
    """Return a table; cells that are numbers stand to the right.

    >>> "mean" in table(["parameter", "mean"], [["rate", 1.5]])
    True
    """
    body = [list(row) for row in rows]
    sides = ["right" if body and _is_numeric(body[0][j]) else "left" for j in range(len(head))]
    lines = [_row("th", head, sides), *(_row("td", row, sides) for row in body)]
    return Html(f'<table style="{TABLE}">{"".join(lines)}</table>')


def definitions(entries: Mapping[str, Any]) -> Html:
    """Return names and what they are, as a table without a head.

    >>> definitions({"kernel": "RBF", "noise": 0.1}).count("<tr")
    2
    """
    lines = (_row("td", entry, ("left", "left")) for entry in entries.items())
    return Html(f'<table style="{TABLE}">{"".join(lines)}</table>')


def sentences(said: Iterable[str]) -> Html:
    """Return a list of sentences; nothing if there are none.

    >>> sentences(["fine"]).count("<li>"), sentences([]) == ""
    (1, True)
    """
    items = "".join(f"<li>{_escaped(sentence)}</li>" for sentence in said)
    return Html(f'<ul style="margin:4px 0;padding-left:20px">{items}</ul>' if items else "")


def card(title: str, words: Any = "", *parts: Html) -> str:
    """Return a title, some words after it, and parts below.

    >>> card("Posterior", "of 2 <parameters>").count("&lt;parameters&gt;")
    1
    """
    after = f' <span style="opacity:0.75">{_escaped(words)}</span>' if words else ""
    head = f'<div style="margin-bottom:4px"><strong>{_escaped(title)}</strong>{after}</div>'
    return f'<div style="font-size:13px;line-height:1.45;overflow-x:auto">{head}{"".join(parts)}</div>'


def curve(x: Any, height: Any, color: str = ACCENT) -> Html:
    """Return a small filled curve over x, as SVG; the line of zero is at the bottom unless values go below it.

    Points that are not finite are left out; nothing is drawn where none is left.

    >>> curve([0.0, 1.0, 2.0], [0.0, 1.0, 0.0]).startswith("<svg"), curve([0.0], [np.nan])
    (True, '')
    """
    points = np.column_stack([np.asarray(x, dtype=np.float64), np.asarray(height, dtype=np.float64)])
    at, values = points[np.isfinite(points).all(axis=1)].T
    if not len(at):
        return Html("")
    width, tall = CURVE_SIZE
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    across = width * (at - at[0]) / (float(at[-1] - at[0]) or 1.0)
    down = tall - 1.0 - (tall - 2.0) * (values - low) / ((high - low) or 1.0)
    zero = tall - 1.0 - (tall - 2.0) * (0.0 - low) / ((high - low) or 1.0)
    line = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))
    area = f"{across[0]:.1f},{zero:.1f} {line} {across[-1]:.1f},{zero:.1f}"
    return Html(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{tall}" viewBox="0 0 {width} {tall}" '
        f'role="img" aria-label="curve"><polygon points="{area}" fill="{color}" fill-opacity="0.25"/>'
        f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.2"/></svg>'
    )


def _in_digits(value: float, digits: int, span: float) -> str:
    if not math.isfinite(value):
        return "–" if math.isnan(value) else str(value)
    if value == 0.0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if 0.0 < span < abs(value):
        digits = min(MOST_DIGITS, digits + size - math.floor(math.log10(span)))
    if not -4 <= size < 6:
        return f"{value:.{digits}g}"
    text = f"{value:.{max(0, digits - 1 - size)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _row(tag: str, cells: Sequence[Any], sides: Sequence[str]) -> str:
    inner = (
        f'<{tag} style="{CELL.format(side)}">{_escaped(cell)}</{tag}>'
        for cell, side in zip(cells, sides, strict=True)
    )
    return f'<tr style="background:none">{"".join(inner)}</tr>'


def _escaped(value: Any) -> str:
    return str(value) if isinstance(value, Html) else html.escape(number(value))


def _is_numeric(value: Any) -> bool:
    return not isinstance(value, str | bool) and np.asarray(value).dtype.kind in "iuf"


def percent(share: float) -> str:
    """Return a share as per cent, with two digits where it is small.

    >>> percent(0.996), percent(0.0449)
    ('100 %', '4.5 %')
    """
    value = 100.0 * share
    return f"{value:.0f} %" if value >= 9.95 else f"{value:.2g} %"


def listed(names: Sequence[str]) -> str:
    """Return names in a list, cut short where it is long.

    >>> listed(["a", "b", "c"]), listed(list("abcdef"))
    ('a, b and c', 'a, b, c and 3 others')
    """
    if len(names) > 4:
        names = [*names[:3], f"{len(names) - 3} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
