"""A table and its columns: numbers or labels, checked, with the line or row and the value in every message.

Cells of text files stay text until a column is asked for. A column holds numbers if every cell reads as one, and
labels if none does; a column that mixes them is taken as labels only when the user says so.
"""

import difflib
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Table", "TableError"]

MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "nat"}
"""What an absent number may look like in a text file, in lower case."""

DATE = re.compile(r"(?:\d{4}-\d{1,2}-\d{1,2}|\d{4}/\d{1,2}/\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4})(?!\d)")
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+(?:[eE][+-]?\d+)?\s*")
DECIMAL_POINT = re.compile(r"\s*[+-]?\d+\.\d+(?:[eE][+-]?\d+)?\s*")
THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:[.,' ]\d{3})+(?:[.,]\d+)?")
EITHER = re.compile(r"\s*[+-]?[1-9]\d{0,2}[.,]\d{3}\s*")
"""A number that may be one of thousands, or one with three decimals."""
WHOLE = re.compile(r"\s*[+-]?\d+\s*")


PLAINLY = "Write numbers with a decimal point, and with nothing between the thousands."
CORRECTED = "Correct the cell or remove its row, or choose another column."
CODED = (
    "It is text, and numbers are needed: choose another column, or code it as columns of 0 and 1, one for each value "
    "(pandas.get_dummies does that)."
)


class TableError(ValueError):
    """A table in a file is not what was asked for; the message says what to change.

    Attributes:
        table: The name of the table, such as "hours.csv".
        column: The name of the column, if one column is at fault.
        line: The line of a text file, from 1, as an editor counts them.
        row: The row below the header, from 1, where there are no lines.
        value: The cell at fault, as it stands in the file.
        count: How many cells are at fault, or how many rows there are.

    Attributes that do not apply are None.

    >>> import pandas as pd
    >>> try:
    ...     Table(pd.DataFrame({"wind": ["7.1", "calm"]}), "hours").numbers(["wind"])
    ... except TableError as error:
    ...     print(error.table, error.column, error.row, error.value)
    hours wind 2 calm
    """

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        column: str | None = None,
        line: int | None = None,
        row: int | None = None,
        value: str | None = None,
        count: int | None = None,
    ) -> None:
        super().__init__(message)
        self.table, self.column, self.line, self.row = table, column, line, row
        self.value, self.count = value, count


@dataclass(frozen=True)
class Table:
    """A table with the name that messages call it by, and for a text file the line of each of its rows.

    >>> import pandas as pd
    >>> table = Table(pd.DataFrame({"day": ["mon", "tue"], "wind": ["7.1", "6.5"]}), "hours.csv")
    >>> table.reads_as_numbers("wind"), table.reads_as_numbers("day")
    (True, False)
    """

    frame: "pd.DataFrame"
    name: str
    line_of: Callable[[int], int | None] | None = None
    """Returns on which line of the file, from 1, a row begins, from 0; None if that cannot be found out."""
    notes: tuple[str, ...] = ()
    """What was assumed when the file was read."""
    unclear: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """A row and what it has, for which a column with numbers cannot be read as numbers, by name."""

    def __len__(self) -> int:
        """Return the number of rows, the header not counted."""
        return len(self.frame)

    def check_columns(self, columns: Sequence[str], other: "Table | None" = None) -> None:
        """Raise unless every column is there, once; ask whether `other` was meant if it has them all."""
        names = [str(name) for name in self.frame.columns]
        for column in columns:
            if column not in names:
                if other is not None and set(columns) <= set(other.frame.columns):
                    raise TableError(
                        f"{self.name} has no column {column!r}, but {other.name} has. Are the two tables swapped?",
                        table=self.name,
                        column=column,
                    )
                close = difflib.get_close_matches(column, names, n=1) or _same_but_case(column, names)
                hint = f"; did you mean {close[0]!r}?" if close else "."
                raise TableError(
                    f"{self.name} has no column {column!r}{hint} Its columns are {', '.join(names)}.",
                    table=self.name,
                    column=column,
                )
            if list(columns).count(column) > 1:
                raise TableError(f"column {column!r} was named twice. Name each column once.", column=column)

    def check_length(self, least: int, purpose: str) -> None:
        """Raise unless there are enough rows."""
        if len(self) < least:
            count = {0: "no rows", 1: "one row"}.get(len(self), f"{len(self)} rows")
            raise TableError(
                f"{self.name} has {count} below its header; {purpose} needs at least {least}.",
                table=self.name,
                count=len(self),
            )

    def numbers(self, columns: Sequence[str]) -> "pd.DataFrame":
        """Return columns as float64, or raise with the row and the value that is no finite number."""
        import pandas as pd

        self.check_columns(columns)
        return pd.DataFrame({column: self._numbers(column) for column in columns})

    def labels(self, columns: Sequence[str]) -> "pd.DataFrame":
        """Return columns as text; a missing label raises."""
        import pandas as pd

        self.check_columns(columns)
        return pd.DataFrame({column: self._labels(column) for column in columns}, dtype=object)

    def typed(self) -> "pd.DataFrame":
        """Return the whole table with numbers where every cell of a column is one."""
        frame = self.frame.copy()
        for column in frame.columns:
            values = parsed(frame[column])
            if values.notna().all() and column not in self.unclear:
                frame[column] = values
        return frame

    def reads_as_numbers(self, column: str, more: str = "") -> bool:
        """Tell whether a column holds numbers; raise if only some of its cells are numbers.

        `more` says what else to do then.
        """
        self.check_columns([column])
        self._refuse_unclear(column, more)
        cells = self.frame[column]
        if _is_typed(cells):
            return cells.dtype.kind in "biuf"
        present = ~missing(cells)
        numeric = parsed(cells).notna() & present
        if numeric.any() and (present & ~numeric).any():
            self._refuse_text(column, cells, (present & ~numeric).to_numpy(), more)
        return bool(numeric.any())

    def _numbers(self, column: str) -> np.ndarray:
        self._refuse_unclear(column)
        cells = self.frame[column]
        if _is_typed(cells) and cells.dtype.kind not in "biuf":
            raise self._error(
                column,
                f"column {column!r} of {self.name} holds {_kind(cells)}, but numbers are needed. "
                f"{remedy(cells.iloc[0])}",
            )
        values = parsed(cells).to_numpy(dtype=np.float64, na_value=np.nan)
        if not _is_typed(cells):
            text = np.isnan(values) & ~missing(cells).to_numpy()
            if text.any():
                self._refuse_text(column, cells, text)
        self._refuse_missing(column, np.isnan(values), "Fill or remove these rows first.")
        if np.isinf(values).any():
            row = int(np.flatnonzero(np.isinf(values))[0])
            raise self._error(
                column,
                f"column {column!r} of {self.name} has an infinite value in {self._place(row)}. "
                "Correct or remove it.",
                row=row,
                value=str(cells.iloc[row]),
            )
        return values

    def _labels(self, column: str) -> list[str]:
        cells = self.frame[column]
        absent = cells.isna() if _is_typed(cells) else cells.isna() | (cells.astype(str).str.strip() == "")
        self._refuse_missing(
            column, absent.to_numpy(), "Remove these rows, or give unknown labels a name of their own."
        )
        if _is_typed(cells) and cells.dtype.kind == "M":
            return [stamp.isoformat().removesuffix("T00:00:00") for stamp in cells]
        alike = _canonical if parsed(cells).notna().all() else as_name
        return [alike(str(cell)) for cell in cells]

    def _refuse_unclear(self, column: str, more: str = "") -> None:
        if column in self.unclear:
            row, found = self.unclear[column]
            message = f"column {column!r} of {self.name}: {self._place(row)} has {found}{more}"
            raise self._error(column, message, row=row, value=str(self.frame[column].iloc[row]))

    def _refuse_text(self, column: str, cells: Any, where: np.ndarray, more: str = "") -> None:
        rows = np.flatnonzero(where)
        value = str(cells.iloc[rows[0]])
        if len(rows) == (~missing(cells)).sum():
            seen = [repr(str(cell)) for cell in cells[where].drop_duplicates()[:3]]
            values = ", ".join(seen[:2] + ["…"] * (len(seen) > 2))
            raise self._error(
                column,
                f"column {column!r} of {self.name} holds no numbers ({values}). {remedy(value, CODED)}{more}",
                row=rows[0],
                value=value,
                count=len(rows),
            )
        others = f" (and {len(rows) - 1} more like it)" if len(rows) > 1 else ""
        raise self._error(
            column,
            f"column {column!r} of {self.name} should hold numbers, but {self._place(rows[0])} has {value!r}{others}."
            f" {remedy(value)}{more}",
            row=rows[0],
            value=value,
            count=len(rows),
        )

    def _refuse_missing(self, column: str, where: np.ndarray, advice: str) -> None:
        if where.any():
            first = np.flatnonzero(where)[0]
            count = int(where.sum())
            raise self._error(
                column,
                f"column {column!r} of {self.name} has {count} empty cell(s), the first in {self._place(first)}. "
                f"{advice}",
                row=first,
                count=count,
            )

    def _error(
        self, column: str, message: str, *, row: int | None = None, value: str | None = None, count: int | None = None
    ) -> TableError:
        """Return an error about a column, with the line of a row, from 0, or else its number."""
        line = None if row is None else self._line(row)
        number = None if row is None or line is not None else int(row) + 1
        return TableError(message, table=self.name, column=column, line=line, row=number, value=value, count=count)

    def _line(self, row: int) -> int | None:
        return None if self.line_of is None else self.line_of(int(row))

    def _place(self, row: int) -> str:
        """Return where a row is: the line of a text file, which an editor shows, or else its number."""
        line = self._line(row)
        return f"row {row + 1}" if line is None else f"line {line}"


def _is_typed(cells: "pd.Series") -> bool:
    """Tell whether a column has a type of its own (Parquet) and is not mere text or Python objects."""
    return cells.dtype.kind not in "OU" and str(cells.dtype) not in ("str", "string")


def parsed(cells: "pd.Series") -> "pd.Series":
    """Return cells as numbers, with NaN where they are none."""
    import pandas as pd

    if _is_typed(cells):
        return cells
    numbers = pd.to_numeric(cells, errors="coerce")
    if numbers.dtype.kind == "f":  # to the last digit, which pandas before 3.1 may miss
        found = numbers.notna()
        numbers[found] = cells[found].astype(np.float64)
    return numbers


def missing(cells: "pd.Series") -> "pd.Series":
    """Return where a cell that should hold a number is empty, or says that it is missing."""
    return cells.isna() | cells.astype(str).str.strip().str.lower().isin(MISSING)


def as_name(text: str) -> str:
    r"""Return a text without blanks around it, and each letter with its accents as one sign: ö may be written as two.

    >>> as_name(" Ko\N{COMBINING DIAERESIS}ln") == "Köln"
    True
    """
    return unicodedata.normalize("NFC", text.strip())


def _canonical(number: str) -> str:
    """Return a number as a label, the same however it is written: 7, 007 and 7.0 are one."""
    if WHOLE.fullmatch(number):
        return str(int(number))
    value = float(number)
    return str(int(value)) if value.is_integer() else repr(value)


def _kind(cells: "pd.Series") -> str:
    return {"M": "dates", "m": "durations"}.get(cells.dtype.kind, f"values of type {cells.dtype}")


def remedy(value: Any, otherwise: str = CORRECTED) -> str:
    """Return what to do about a cell that is no number."""
    text = str(value).strip()
    if DATE.match(text):
        return "It looks like a date: convert it to a number with a unit, such as days since the start."
    if EITHER.fullmatch(text) and "," in text:
        return f"Is it {either(text)}? {PLAINLY}"
    if DECIMAL_COMMA.fullmatch(text):
        return "Write numbers with a decimal point, not a comma."
    if THOUSANDS.fullmatch(text):
        return PLAINLY
    return otherwise


def either(text: str) -> str:
    """Return both readings of a number that is one of thousands or has three decimals.

    >>> either("1,050")
    '1050 or 1.05'
    """
    return f"{re.sub('[.,]', '', text.strip())} or {float(text.replace(',', '.')):g}"


def _same_but_case(column: str, names: list[str]) -> list[str]:
    return [name for name in names if name.lower() == column.lower()]
