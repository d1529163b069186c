"""Decimal commas in files separated by semicolons: each column is judged by itself, and doubts are kept."""

import re
from typing import TYPE_CHECKING

from decond.tables.columns import (
    DECIMAL_COMMA,
    DECIMAL_POINT,
    EITHER,
    PLAINLY,
    WHOLE,
    either,
    missing,
    parsed,
    remedy,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["with_decimal_points"]

Doubt = tuple[int, str]
"""The row of a cell, and what to say of it."""

WRITTEN_OUT = re.compile(r"\s*[+-]?(?:0|[1-9]\d*)\.\d+(?:[eE][+-]?\d+)?\s*")
"""A number with a decimal point, and no month such as 01.2022."""


def with_decimal_points(frame: "pd.DataFrame") -> "tuple[pd.DataFrame, dict[str, Doubt], bool]":
    """Return a table with decimal points for commas, doubts about columns, and whether commas were replaced.

    A column has decimal commas if all its cells are numbers then. Other columns stay as they are, to the letter.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"wind": ["7,1", "6"], "site": ["1,5", "low"], "sales": ["1,050", "950"]})
    >>> frame, unclear, _ = with_decimal_points(table)
    >>> frame["wind"].tolist(), frame["site"].tolist()
    (['7.1', '6'], ['1,5', 'low'])
    >>> unclear["sales"]
    (0, "'1,050'. Is it 1050 or 1.05? Whole numbers such as '950' stand beside it. Write ...")
    """
    decimals = {sign: [name for name in frame if _surely(sign, frame[name])] for sign in ",."}
    unclear: dict[str, Doubt] = {}
    replaced = {}
    for name, cells in frame.items():
        doubt = _thousands(cells, decimals) or _mixed(cells)
        if doubt:
            unclear[str(name)] = doubt
        elif _are(DECIMAL_COMMA, cells).any():
            replaced[name] = _pointed(cells)
    return frame.assign(**replaced), unclear, bool(replaced)


def _thousands(cells: "pd.Series", decimals: dict[str, list[str]]) -> Doubt | None:
    """Return what to ask if 1,050 or 1.050 may be a thousand and fifty; None if there is no doubt."""
    for sign, form in ((",", DECIMAL_COMMA), (".", DECIMAL_POINT)):
        signed, whole = _are(form, cells), _are(WHOLE, cells)
        if not signed.any() or not _are(EITHER, cells[signed]).all() or not _numeric(cells):
            continue
        row, first = _first(cells, signed)
        asked = f"{first!r}. Is it {either(first)}?"
        if whole.any():
            return row, f"{asked} Whole numbers such as {_first(cells, whole)[1]!r} stand beside it. {PLAINLY}"
        others = decimals["." if sign == "," else ","]
        if others:
            other = "point" if sign == "," else "comma"
            return row, f"{asked} Column {others[0]!r} has numbers with a decimal {other}. {PLAINLY}"
    return None


def _mixed(cells: "pd.Series") -> Doubt | None:
    """Return why commas were not read as decimal commas; None if there are none, or if all cells are numbers."""
    commas = _are(DECIMAL_COMMA, cells)
    if not commas.any():
        return None
    points = _are(DECIMAL_POINT, cells)
    if points.any():
        row, first = _first(cells, commas)
        return row, f"{first!r}, and other numbers have a point ({_first(cells, points)[1]!r}). {PLAINLY}"
    texts = parsed(_pointed(cells)).isna() & ~missing(cells)
    if not texts.any():
        return None
    row, text = _first(cells, texts)
    seen = _first(cells, commas)[1]
    return row, f"{text!r}, so that its commas ({seen!r}) were not read as decimal commas. {remedy(text)}"


def _first(cells: "pd.Series", where: "pd.Series") -> tuple[int, str]:
    """Return the first of some cells, and its row."""
    row = int(where.to_numpy().argmax())
    return row, str(cells.iloc[row]).strip()


def _surely(sign: str, cells: "pd.Series") -> bool:
    """Tell whether all cells are numbers, and some have that sign where it cannot part thousands."""
    signed = _are(DECIMAL_COMMA if sign == "," else WRITTEN_OUT, cells)
    return bool(signed.any() and not _are(EITHER, cells[signed]).all() and _numeric(cells))


def _numeric(cells: "pd.Series") -> bool:
    """Tell whether all cells that are not missing are numbers, with commas or points."""
    return bool((parsed(_pointed(cells)).notna() | missing(cells)).all())


def _pointed(cells: "pd.Series") -> "pd.Series":
    return cells.where(~_are(DECIMAL_COMMA, cells), cells.str.replace(",", "."))


def _are(form: "re.Pattern[str]", cells: "pd.Series") -> "pd.Series":
    """Return which cells have a form; those that are missing at the end of a line have none."""
    return cells.str.fullmatch(form).fillna(False).astype(bool)
