"""Tables that fit the terminal with nothing cut: headers wrap at words, and columns go on in further tables below."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

__all__ = ["Column", "fitting_tables"]

MOST_LINES = 3
"""Lines that a header may take."""

FRAME = 3
"""Signs that a column takes beside its words: a line, and a blank on either side."""

UNBROKEN = "\N{NO-BREAK SPACE}"


class Column(NamedTuple):
    r"""A header, and one cell a row.

    >>> Column("held out inside 95 %", ["0.78"]).heading(2)
    'held out\ninside 95 %'
    """

    header: str
    cells: list[str]
    below: bool = False
    """Whether it comes last where there is no room for all in one table."""

    def heading(self, lines: int) -> str:
        """Return the header on that many lines at most, as narrow as can be; a percent sign stays with its number."""
        words = self.header.replace(" %", f"{UNBROKEN}%")
        for width in range(max(map(len, words.split(" "))), len(words)):
            wrapped = textwrap.wrap(words, width, break_on_hyphens=False)
            if len(wrapped) <= lines:
                return "\n".join(wrapped).replace(UNBROKEN, " ")
        return self.header

    def width(self, lines: int) -> int:
        """Return how many signs across the column takes, its frame included."""
        return FRAME + max(map(cell_len, [*self.heading(lines).split("\n"), *self.cells]))


def fitting_tables(title: str, first: Column, others: Sequence[Column], room: int) -> list[Table]:
    """Return one table if all columns have room beside each other, else several, one below the other.

    Each begins with the first column, and has as many of the others as there is room for, and at least one. Print
    them with ``crop=False``: where even one column has no room, lines are longer than the terminal, but not cut.

    >>> first, others = Column("method", ["smc"]), [Column("seconds", ["0.5"]), Column("failed", ["0"])]
    >>> [len(fitting_tables("toy", first, others, room)) for room in (80, 20)]
    [1, 2]
    """
    parts = [list(others)]
    if _lines([first, *others], room) is None:
        parts = _parted(first, sorted(others, key=lambda column: column.below), room)
    return [_as_table("" if number else title, [first, *part], room) for number, part in enumerate(parts)]


def _lines(columns: Sequence[Column], room: int) -> int | None:
    """Return the fewest lines of headers with which columns have room; None if they have none."""
    counts = range(1, MOST_LINES + 1)
    return next((lines for lines in counts if 1 + sum(column.width(lines) for column in columns) <= room), None)


def _parted(first: Column, columns: Sequence[Column], room: int) -> list[list[Column]]:
    """Return the columns in parts that have room beside the first one."""
    parts: list[list[Column]] = []
    for column in columns:
        if parts and _lines([first, *parts[-1], column], room) is not None:
            parts[-1].append(column)
        else:
            parts.append([column])
    return parts


def _as_table(title: str, columns: Sequence[Column], room: int) -> Table:
    lines = _lines(columns, room) or MOST_LINES
    table = Table(title=Text(title) or None, width=1 + sum(column.width(lines) for column in columns))
    for number, column in enumerate(columns):
        table.add_column(Text(column.heading(lines)), justify="right" if number else "left", no_wrap=True)
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, row))
    return table
