r"""Tables in files: CSV, TSV and Parquet, columns by name, and what two tables have in common.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "hours.csv"
>>> _ = path.write_text("day,wind\nmonday,7.1\ntuesday,6.5\n")
>>> table = read_table(path)
>>> table.numbers(["wind"]).to_numpy()
array([[7.1],
       [6.5]])
>>> table.labels(["day"])["day"].tolist()
['monday', 'tuesday']
>>> table.numbers(["wnid"])
Traceback (most recent call last):
    ...
decond.tables.TableError: hours.csv has no column 'wnid'; did you mean 'wind'? Its columns are day, wind.
"""

import contextlib
import difflib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decond.checks import SIZES
from decond.errors import ArgumentError
from decond.messages import near_files

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Mediators",
    "Table",
    "TableError",
    "TextFormat",
    "is_parquet",
    "match_groups",
    "match_mediators",
    "read_table",
    "write_table",
]

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")


class TableError(ValueError):
    """A table in a file is not what was asked for; the message says what to change.

    Attributes
    ----------
    table, column : str or None
        The name of the table, such as "hours.csv", and of the column at fault.
    row : int or None
        The first row at fault, counted from 1 below the header; blank lines do not count.
    value : str or None
        The cell at fault, as it stands in the file.
    count : int or None
        How many cells are at fault, or how many rows there are.

    Examples
    --------
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
        row: int | None = None,
        value: str | None = None,
        count: int | None = None,
    ) -> None:
        super().__init__(message)
        self.table, self.column = table, column
        self.row, self.value, self.count = row, value, count


@dataclass(frozen=True)
class TextFormat:
    """How a text file is read: arguments of `pandas.read_csv`, which the commands have as options.

    >>> TextFormat(encoding="cp1252", separator=";", decimal=",")
    TextFormat(encoding='cp1252', separator=';', decimal=',')
    """

    encoding: str = "utf-8"
    separator: str | None = None
    """What separates cells; None: a comma in .csv, a tab in .tsv."""
    decimal: str = "."


# ---- one table -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table with the name that messages call it by.

    Cells of text files stay text until a column is asked for, so that labels such as 007 and NA stay what they are.

    >>> import pandas as pd
    >>> table = Table(pd.DataFrame({"day": ["mon", "tue"], "wind": ["7.1", "6.5"]}), "hours.csv")
    >>> len(table), table.is_numeric("wind"), table.is_numeric("day")
    (2, True, False)
    """

    frame: "pd.DataFrame"
    name: str
    decimal: str = "."

    def __len__(self) -> int:
        """Return the number of rows, the header not counted."""
        return len(self.frame)

    def check_columns(self, columns: Sequence[str], other: "Table | None" = None) -> None:
        """Raise unless every column is there.

        Parameters
        ----------
        columns : sequence of str
            Names of columns, each named once.
        other : Table, optional
            The message asks whether this one was meant, if it has all the columns.
        """
        names = [str(name) for name in self.frame.columns]
        for column in columns:
            if list(columns).count(column) > 1:
                raise TableError(f"column {column!r} was named twice. Name each column once.", column=column)
            if column in names:
                continue
            if other is not None and set(columns) <= set(other.frame.columns):
                hint = f", but {other.name} has. Are the two tables swapped?"
            else:
                near = difflib.get_close_matches(column, names, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else "."
                hint += f" Its columns are {', '.join(names)}."
            raise TableError(f"{self.name} has no column {column!r}{hint}", table=self.name, column=column)

    def check_length(self, least: int, purpose: str) -> None:
        """Raise unless there are enough rows.

        Parameters
        ----------
        least : int
            How many rows are needed.
        purpose : str
            What for, such as "fitting".
        """
        if len(self) < least:
            raise TableError(
                f"{self.name} has {len(self)} row(s) below its header; {purpose} needs at least {least}.",
                table=self.name,
                count=len(self),
            )

    def without_missing(self, columns: Sequence[str]) -> "Table":
        """Return the table without the rows in which one of these columns has no value."""
        import pandas as pd

        self.check_columns(columns)
        missing = pd.DataFrame({column: _is_missing(self.frame[column]) for column in columns}).any(axis=1)
        return replace(self, frame=self.frame[~missing].reset_index(drop=True))

    def numbers(self, columns: Sequence[str], missing: bool = False) -> "pd.DataFrame":
        """Return columns as float64; raise with the row and the value that is not a finite number.

        Parameters
        ----------
        columns : sequence of str
            Names of columns.
        missing : bool, default=False
            Whether numbers may be missing; they are NaN then.
        """
        import pandas as pd

        self.check_columns(columns)
        return pd.DataFrame({column: self._numbers(column, missing) for column in columns})

    def labels(self, columns: Sequence[str]) -> "pd.DataFrame":
        """Return columns as text; raise if a label is missing."""
        import pandas as pd

        self.check_columns(columns)
        return pd.DataFrame({column: self._labels(column) for column in columns}, dtype=object)

    def typed(self) -> "pd.DataFrame":
        """Return the whole table, with numbers where every cell of a column is one."""
        parsed = {name: self._parsed(cells) for name, cells in self.frame.items()}
        return self.frame.assign(**{str(name): cells for name, cells in parsed.items() if cells.notna().all()})

    def is_numeric(self, column: str) -> bool:
        """Return whether a column holds numbers; raise if only some of its cells are numbers."""
        self.check_columns([column])
        cells = self.frame[column]
        if _is_typed(cells):
            return cells.dtype.kind in "biuf"
        present = ~_is_missing(cells)
        numeric = self._parsed(cells).notna() & present
        if numeric.any() and (present & ~numeric).any():
            remedy = "Correct it, or use --labels (labels=True in Python) if these are labels."
            raise self._error(column, present & ~numeric, "is not a number, but other cells are", remedy)
        return bool(numeric.any())

    def _numbers(self, column: str, may_be_missing: bool) -> "pd.Series":
        cells = self.frame[column]
        numbers, missing = self._parsed(cells), _is_missing(cells)
        text = numbers.isna() & ~missing
        if text.any():
            remedy = (
                "Correct it, or name another column. Numbers with decimal commas need --decimal ','; code text as "
                "columns of 0 and 1, and dates as numbers with a unit."
            )
            raise self._error(column, text, "is not a number", remedy)
        if missing.any() and not may_be_missing:
            remedy = "Fill or remove these rows first; decond fit removes them with --drop-missing."
            raise self._error(column, missing, "is missing", remedy)
        if np.isinf(numbers).any():
            raise self._error(column, np.isinf(numbers), "is infinite", "Correct or remove it.")
        if (beyond := numbers.abs() > SIZES.largest).any():
            raise self._error(column, beyond, f"is beyond {SIZES.largest:g}", "Correct it, or use another unit.")
        return numbers

    def _labels(self, column: str) -> list[str]:
        cells = self.frame[column]
        missing = cells.isna() | (cells.astype(str).str.strip() == "")
        if missing.any():
            raise self._error(column, missing, "is missing", "Remove these rows, or name the unknown labels.")
        if cells.dtype.kind == "M":
            return [stamp.isoformat().removesuffix("T00:00:00") for stamp in cells]
        numbers = self._parsed(cells)
        if numbers.notna().all():
            return [_number_label(str(cell), number) for cell, number in zip(cells, numbers, strict=True)]
        return [str(cell).strip() for cell in cells]

    def _parsed(self, cells: "pd.Series") -> "pd.Series":
        """Return cells as float64, with NaN where they are not numbers."""
        import pandas as pd

        if cells.dtype.kind in "Mm":
            return pd.Series(np.nan, index=cells.index)
        if self.decimal != ".":
            pointed = cells.str.contains(".", regex=False, na=False)  # 1.050 may be a thousand and fifty
            cells = cells.mask(pointed, "").str.replace(self.decimal, ".", regex=False)
        numbers = pd.to_numeric(cells, errors="coerce").astype(np.float64)
        found = numbers.notna()
        numbers[found] = cells[found].astype(np.float64)  # to the last digit, which pandas before 3.1 may miss
        return numbers

    def _error(self, column: str, where: "pd.Series", problem: str, remedy: str) -> TableError:
        """Return an error about the cells of a column `where` something is wrong."""
        row, count = int(where.to_numpy().argmax()), int(where.sum())
        value = str(self.frame[column].iloc[row])
        others = f" ({count} such cells)" if count > 1 else ""
        return TableError(
            f"column {column!r} of {self.name}: {value!r} in row {row + 1} {problem}{others}. {remedy}",
            table=self.name,
            column=column,
            row=row + 1,
            value=value,
            count=count,
        )


def _is_typed(cells: "pd.Series") -> bool:
    """Return whether a column has a type of its own (Parquet) and is not text or Python objects."""
    return cells.dtype.kind not in "OU" and str(cells.dtype) not in ("str", "string")


def _is_missing(cells: "pd.Series") -> "pd.Series":
    """Return where a number is absent."""
    spelled = ("", "na", "n/a", "#n/a", "nan", "null", "none", "nat")
    return cells.isna() | cells.astype(str).str.strip().str.lower().isin(spelled)


def _number_label(cell: str, number: float) -> str:
    """Return a number as a label, the same however it is written: 7, 007 and 7.0 are one."""
    with contextlib.suppress(ValueError):
        return str(int(cell))
    return str(int(number)) if number.is_integer() else repr(float(number))


# ---- files ---------------------------------------------------------------------------------------------------


def read_table(path: str | PathLike[str], text_format: TextFormat | None = None) -> Table:
    r"""Return the table in a CSV, TSV or Parquet file.

    Parameters
    ----------
    path : path-like
        A file that ends in .csv, .tsv (also with .gz) or .parquet. Its first line names the columns.
    text_format : TextFormat, optional
        How a text file is read; by default UTF-8 with commas (tabs in .tsv) and decimal points.

    Returns
    -------
    Table
        With the cells of text files as text.

    Raises
    ------
    TableError
        If there is no such file, or if it is not a table in this format.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "hours.csv"
    >>> _ = path.write_text("day;wind\nmonday;7,1")
    >>> read_table(path, TextFormat(separator=";", decimal=",")).numbers(["wind"]).to_numpy()
    array([[7.1]])
    """
    path = Path(path)
    suffix = _suffix(path)
    if not path.is_file():
        found = f"{path} is a folder. " if path.is_dir() else f"there is no file {path}"
        advice = "Give the path of a .csv, .tsv or .parquet file."
        near = advice if path.is_dir() else near_files(path, (*_SEPARATORS, ".gz", *_PARQUET), advice)
        raise TableError(f"{found}{near}", table=path.name)
    if suffix in _PARQUET:
        return Table(_read_parquet(path), path.name)
    text_format = text_format or TextFormat()
    return Table(_read_text(path, suffix, text_format), path.name, text_format.decimal)


def write_table(frame: "pd.DataFrame", path: str | PathLike[str]) -> None:
    r"""Write a table as CSV, TSV or Parquet, by the suffix; numbers are written with all their digits.

    Parameters
    ----------
    frame : DataFrame
        The table; its index is not written.
    path : path-like
        A file that ends in .csv, .tsv (also with .gz) or .parquet.

    Examples
    --------
    >>> import tempfile, pandas as pd
    >>> path = Path(tempfile.mkdtemp()) / "out.csv"
    >>> write_table(pd.DataFrame({"mean": [0.1, 0.2]}), path)
    >>> path.read_text()
    'mean\n0.1\n0.2\n'
    """
    suffix = _suffix(Path(path))
    if suffix in _PARQUET:
        from decond.streaming.parquet import import_pyarrow

        import_pyarrow()  # raises if it is not there
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, sep=_SEPARATORS[suffix], index=False)


def is_parquet(path: str | PathLike[str]) -> bool:
    """Return whether a path stands for a Parquet table; raise if its suffix is not that of any table.

    >>> is_parquet("out.parquet"), is_parquet("out.csv.gz")
    (True, False)
    >>> is_parquet("out.xlsx")
    Traceback (most recent call last):
        ...
    decond.tables.TableError: out.xlsx ends in '.xlsx'; tables are .csv, .tsv (also with .gz) or .parquet files.
    """
    return _suffix(Path(path)) in _PARQUET


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    inner = Path(path.stem).suffix.lower() if suffix == ".gz" else suffix
    if inner not in _SEPARATORS and suffix not in _PARQUET:
        raise TableError(
            f"{path.name} ends in {path.suffix!r}; tables are .csv, .tsv (also with .gz) or .parquet files.",
            table=path.name,
        )
    return inner


def _read_text(path: Path, suffix: str, text_format: TextFormat) -> "pd.DataFrame":
    import pandas as pd

    separator = text_format.separator or _SEPARATORS[suffix]
    try:
        cells = pd.read_csv(
            path,
            sep=separator,
            encoding=text_format.encoding,
            header=None,  # pandas would rename columns of the same name
            index_col=False,
            dtype=str,
            keep_default_na=False,
            skipinitialspace=True,
            engine="c" if len(separator) == 1 else "python",
        )
    except LookupError as error:
        raise ArgumentError("encoding", f"{error}. Give an encoding that Python knows, such as cp1252.") from None
    except UnicodeError as error:
        raise TableError(
            f"{path.name} is not {text_format.encoding} text ({error}). Save it as UTF-8, or name its encoding, such "
            "as --encoding cp1252 for many files of Windows.",
            table=path.name,
        ) from None
    except pd.errors.EmptyDataError:
        raise TableError(f"{path.name} is empty. Its first line should name the columns.", table=path.name) from None
    except (pd.errors.ParserError, EOFError, OSError, zlib.error) as error:
        raise TableError(
            f"{path.name} cannot be read as a table with {separator!r} between cells: {str(error).strip()}. If "
            "another sign separates them, give --separator (and --decimal); put quotes around text that holds it.",
            table=path.name,
        ) from None
    names = [str(name).strip() for name in cells.iloc[0].fillna("")]
    _check_names(names, path.name, separator)
    return cells.iloc[1:].reset_index(drop=True).set_axis(names, axis=1)


def _read_parquet(path: Path) -> "pd.DataFrame":
    from decond.streaming.parquet import import_pyarrow

    pyarrow = import_pyarrow()
    try:
        table = pyarrow.parquet.ParquetFile(path).read()
        table.validate(full=True)  # of text, which is decoded only when it is looked at
        names, frame = table.column_names, table.to_pandas(ignore_metadata=True)
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise TableError(f"{path.name} is not a Parquet file, or it is damaged ({error}).", table=path.name) from None
    _check_names(names, path.name)
    return frame.astype(dict.fromkeys(frame.select_dtypes("category").columns, object))


def _check_names(names: list[str], table: str, separator: str = ",") -> None:
    """Raise if two columns share a name, or if the only one looks like several."""
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise TableError(
            f"{table} has more than one column named {repeated!r}. Give every column its own name.",
            table=table,
            column=repeated,
        )
    other = next((sign for sign in ";\t|," if len(names) == 1 and sign != separator and sign in names[0]), None)
    if other is not None:
        raise TableError(
            f"{table} has a single column {names[0]!r}. If {other!r} separates its cells, give --separator {other!r} "
            "(and --decimal ',' where numbers have decimal commas).",
            table=table,
            column=names[0],
        )


# ---- two tables ----------------------------------------------------------------------------------------------


class Mediators(NamedTuple):
    """The mediator columns of two tables, and which rows of each are used.

    Attributes
    ----------
    y, y_task : DataFrame
        The mediator of the pairs, and that of the task rows.
    used, used_task : ndarray of bool
        Which rows of each table have a label that the other table has too.
    notes : list of str
        How many rows are left out.

    Examples
    --------
    >>> import pandas as pd
    >>> pairs, task = (Table(pd.DataFrame({"day": days}), "t") for days in (["mon", "tue"], ["mon", "wed"]))
    >>> match_mediators(pairs, task, ["day"]).used
    array([ True, False])
    """

    y: "pd.DataFrame"
    y_task: "pd.DataFrame"
    used: NDArray[np.bool_]
    used_task: NDArray[np.bool_]
    notes: list[str]


def match_mediators(pairs: Table, task: Table, columns: Sequence[str], labels: bool = False) -> Mediators:
    """Return the mediator of two tables, and which of their rows are used.

    Columns of numbers stay numbers; text and dates are labels. Rows are left out only where all columns are labels.

    Parameters
    ----------
    pairs, task : Table
        The tables that share the mediator.
    columns : sequence of str
        The columns of the mediator, which both tables have.
    labels : bool, default=False
        Whether numbers are labels too.

    Returns
    -------
    Mediators

    Raises
    ------
    TableError
        If a column holds numbers in one table only, or if the tables have no label in common.

    Examples
    --------
    >>> import pandas as pd
    >>> pairs = Table(pd.DataFrame({"day": ["1", "2"]}), "pairs.csv")
    >>> task = Table(pd.DataFrame({"day": ["2", "3", "2"]}), "task.csv")
    >>> found = match_mediators(pairs, task, ["day"], labels=True)
    >>> found.used.tolist(), found.used_task.tolist(), found.notes[1]
    ([False, True], [True, False, True], "1 of 3 rows of task.csv are left out: their 'day' is not in pairs.csv.")
    """
    import pandas as pd

    for table in (pairs, task):
        table.check_columns(columns)
    names = [column for column in columns if labels or not _both_numeric(pairs, task, column)]
    y, y_task = (
        pd.concat([(table.labels if c in names else table.numbers)([c]) for c in columns], axis=1)
        for table in (pairs, task)
    )
    used, used_task = np.full(len(y), True), np.full(len(y_task), True)
    if names:
        rows, rows_task = (pd.MultiIndex.from_frame(frame[names]) for frame in (y, y_task))
        shared, shared_task = rows.isin(rows_task), rows_task.isin(rows)
        if not shared.any():
            seen = (
                f"{' '.join(map(repr, index[0]))} in {table.name}"
                for index, table in ((rows, pairs), (rows_task, task))
            )
            commas = any(
                table.decimal == "." and frame[name].astype(str).str.fullmatch(r"\s*[+-]?\d+,\d+\s*").any()
                for table, frame in ((pairs, y), (task, y_task))
                for name in names
            )
            remedy = "Numbers with decimal commas need --decimal ','. Otherwise write" if commas else "Write"
            raise TableError(
                f"the two tables have no value of {', '.join(map(repr, names))} in common (for example "
                f"{' and '.join(seen)}). {remedy} the labels alike in both tables, or name another column.",
                column=", ".join(names),
            )
        if len(names) == len(columns):
            used, used_task = shared, shared_task
    notes = [
        f"{np.sum(~kept)} of {len(kept)} rows of {table.name} are left out: their {', '.join(map(repr, names))} is "
        f"not in {other.name}."
        for kept, table, other in ((used, pairs, task), (used_task, task, pairs))
        if not kept.all()
    ]
    return Mediators(y, y_task, used, used_task, notes)


def match_groups(rows: Table, groups: Table, columns: Sequence[str]) -> Mediators:
    """Return the labels of rows and of groups, and which of both are used.

    Parameters
    ----------
    rows, groups : Table
        The rows of all groups, and a table with one row for each group.
    columns : sequence of str
        The columns with the labels of the groups, which both tables have; together they name a group.

    Returns
    -------
    Mediators

    Raises
    ------
    TableError
        If a group has several rows in the second table.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = Table(pd.DataFrame({"day": ["1", "1", "2"]}), "rows.csv")
    >>> days = Table(pd.DataFrame({"day": ["1", "7"]}), "days.csv")
    >>> match_groups(rows, days, ["day"]).used.tolist()
    [True, True, False]
    """
    found = match_mediators(rows, groups, columns, labels=True)
    repeated = found.y_task[found.y_task.duplicated()]
    if len(repeated):
        group = ", ".join(f"{name!r} = {label!r}" for name, label in repeated.iloc[0].items())
        raise TableError(
            f"{groups.name} has more than one row with {group}; every group has one target. Is the table of groups "
            "the second one? If a group has several names, repeat --y.",
            table=groups.name,
            column=", ".join(columns),
            value=", ".join(repeated.iloc[0]),
        )
    return found


def _both_numeric(pairs: Table, task: Table, column: str) -> bool:
    """Return whether a mediator is a number in both tables; raise if it is one in only one of them."""
    is_number, is_number_task = pairs.is_numeric(column), task.is_numeric(column)
    if is_number != is_number_task:
        number, text = (pairs, task) if is_number else (task, pairs)
        raise TableError(
            f"column {column!r} holds numbers in {number.name} but text in {text.name}. Make both alike, or use "
            "--labels (labels=True in Python) if the numbers are labels.",
            table=text.name,
            column=column,
        )
    return is_number
