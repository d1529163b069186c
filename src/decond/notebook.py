"""What notebooks show of our objects: small tables, verdicts and curves as HTML; every text in them is escaped."""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Html", "card", "curve", "definitions", "listed", "number", "percent", "sentences", "table"]


class Html(str):
    """Text that is HTML already; everything else is escaped before it gets into a page.

    >>> table(["name"], [["<b>"], [Html("<b>bold</b>")]]).count("<b>")
    1
    """


def number(value: Any, digits: int = 4, span: float = 0.0) -> str:
    """Return a number, or the first few of several, in few digits; no exponent where it is of ordinary size.

    Parameters
    ----------
    value : number, array_like or str
        Texts are returned as they are.
    digits : int
        Significant digits.
    span : float
        With it, there are digits enough to distinguish numbers that lie so far from each other.

    Returns
    -------
    str

    Examples
    --------
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

    Parameters
    ----------
    head : sequence of str
    rows : iterable of sequences
        Cells of each row.

    Returns
    -------
    Html

    Examples
    --------
    >>> "mean" in table(["parameter", "mean"], [["rate", 1.5]])
    True
    """
    return Html(f"<table>{_row('th', head)}{''.join(_row('td', row) for row in rows)}</table>")


def definitions(entries: Mapping[str, Any]) -> Html:
    """Return names and what they are, as a table without a head.

    >>> definitions({"kernel": "RBF", "noise": 0.1}).count("<tr")
    2
    """
    return Html(f"<table>{''.join(_row('td', entry) for entry in entries.items())}</table>")


def sentences(said: Iterable[str]) -> Html:
    """Return a list of sentences; nothing if there are none.

    >>> sentences(["fine"]).count("<li>"), sentences([]) == ""
    (1, True)
    """
    items = "".join(f"<li>{_escaped(sentence)}</li>" for sentence in said)
    return Html(f"<ul>{items}</ul>" if items else "")


def card(title: str, words: Any = "", *parts: Html) -> str:
    """Return a title, some words after it, and parts below.

    Parameters
    ----------
    title : str
    words : object
        Shown after the title.
    *parts : Html

    Returns
    -------
    str

    Examples
    --------
    >>> card("Posterior", "of 2 <parameters>").count("&lt;parameters&gt;")
    1
    """
    return f"<div><strong>{_escaped(title)}</strong> {_escaped(words)}{''.join(parts)}</div>"


def curve(x: ArrayLike, height: ArrayLike) -> Html:
    """Return a small filled curve over x, as SVG; nothing if no point is finite.

    Parameters
    ----------
    x, height : array_like of shape (n,)
        Points that are not finite are left out.

    Returns
    -------
    Html

    Examples
    --------
    >>> curve([0.0, 1.0, 2.0], [0.0, 1.0, 0.0]).startswith("<svg"), curve([0.0], [np.nan])
    (True, '')
    """
    points = np.column_stack([np.asarray(x, dtype=np.float64), np.asarray(height, dtype=np.float64)])
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        return Html("")
    low, high = points.min(axis=0), points.max(axis=0)
    low[1] = min(0.0, low[1])
    size = np.where(high > low, high - low, 1.0)
    ends = np.array([[points[0, 0], 0.0], *points, [points[-1, 0], 0.0]])
    drawn = " ".join(f"{110.0 * across:.1f},{26.0 * (1.0 - up):.1f}" for across, up in (ends - low) / size)
    polygon = f'<polygon points="{drawn}" fill="#0072B2" fill-opacity="0.4"/>'
    return Html(f'<svg xmlns="http://www.w3.org/2000/svg" width="110" height="26">{polygon}</svg>')


def _in_digits(value: float, digits: int, span: float) -> str:
    if not math.isfinite(value):
        return "–" if math.isnan(value) else str(value)
    if value == 0.0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if 0.0 < span < abs(value):
        digits = min(15, digits + size - math.floor(math.log10(span)))
    if not -4 <= size < 6:
        return f"{value:.{digits}g}"
    text = f"{value:.{max(0, digits - 1 - size)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _row(tag: str, cells: Iterable[Any]) -> str:
    inner = (f'<{tag} align="{"right" if _is_numeric(cell) else "left"}">{_escaped(cell)}</{tag}>' for cell in cells)
    return f"<tr>{''.join(inner)}</tr>"


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
