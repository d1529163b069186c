"""Reading and writing tables; the suffix says the format."""

import csv
import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decond.messages import near_files
from decond.tables.columns import DECIMAL_COMMA, Table, TableError, as_name
from decond.tables.decimals import with_decimal_points
from decond.tables.encodings import encoding_of, open_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_output", "declared_separator", "read_rows", "read_table", "separator_of", "write_table"]

SEPARATORS = {".csv": ",", ".tsv": "\t"}
WORDS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
DECLARED = re.compile(r"sep=([,;|\t])\r?\n?", re.IGNORECASE)
"""A first line that spreadsheets write and read; it is no header."""

END = "\x1a"
"""Ctrl-Z, which was the end of a file once."""

PARQUET = (".parquet", ".pq")
SUFFIXES = (*SEPARATORS, *(f"{suffix}.gz" for suffix in SEPARATORS), *PARQUET)
ACCEPTED = ".csv, .tsv (also with .gz) or .parquet"
GIVE = f"Give the path of a file, {ACCEPTED}."


def read_table(path: Any) -> Table:
    r"""Return the table in a CSV, TSV or Parquet file. Cells of text files stay text until a column is asked for.

    Semicolons, and decimal commas beside them, are understood where a column leaves no doubt; a note says so. Text is
    UTF-8, or UTF-16 or UTF-32 with a byte-order mark; other text is read as Windows-1252, and a note says that too.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "hours.csv"
    >>> _ = path.write_text("day;wind\nmonday;7,1")
    >>> table = read_table(path)
    >>> table.numbers(["wind"]).to_numpy()
    array([[7.1]])
    >>> table.notes
    ('hours.csv was read as separated by semicolons, with decimal commas.',)
    """
    return _read(Path(path))


def read_rows(path: Any) -> Table:
    r"""Return a table of numbers alone as `read_table` does, but a first line of numbers is a row, and no header.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "counts.csv"
    >>> _ = path.write_text("1,2\n2,1")
    >>> table = read_rows(path)
    >>> table.numbers(list(table.frame)).to_numpy()
    array([[1., 2.],
           [2., 1.]])
    >>> table.notes
    ('counts.csv has no header: its first line was read as numbers.',)
    """
    return _read(Path(path), may_lack_header=True)


def write_table(frame: "pd.DataFrame", path: Any) -> None:
    r"""Write a table as CSV, TSV or Parquet, by the suffix; numbers are written with all their digits.

    >>> import tempfile, pathlib, pandas as pd
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "out.csv"
    >>> write_table(pd.DataFrame({"mean": [0.1, 0.2]}), path)
    >>> path.read_text()
    'mean\n0.1\n0.2\n'
    """
    path = Path(path)
    suffix = _suffix(path)
    if suffix in PARQUET:
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, sep=SEPARATORS[suffix], index=False)


def check_output(path: Any) -> None:
    """Raise unless a table can be written there: a known suffix in a folder that exists.

    >>> check_output("predictions.csv")
    >>> check_output("predictions.xlsx")
    Traceback (most recent call last):
        ...
    decond.tables.columns.TableError: predictions.xlsx ends in '.xlsx'; tables are read as ... Save the sheet as CSV.
    """
    path = Path(path)
    if path.is_dir():
        raise TableError(f"{path} is a folder. Give the name of a file, {ACCEPTED}.", table=path.name)
    _suffix(path)
    if not path.parent.is_dir():
        raise TableError(
            f"the folder {path.parent} does not exist. Make it first, or give another place.", table=path.name
        )


def _read(path: Path, may_lack_header: bool = False) -> Table:
    if path.is_dir():
        raise TableError(f"{path} is a folder. Give one file, {ACCEPTED}.", table=path.name)
    suffix = _suffix(path)
    if not path.exists():
        raise TableError(f"there is no file {path}{near_files(path, SUFFIXES, GIVE)}", table=path.name)
    if suffix in PARQUET:
        return Table(_read_parquet(path), path.name)
    return _read_text(path, SEPARATORS[suffix], may_lack_header)


def _suffix(path: Path) -> str:
    suffix = Path(path.stem).suffix if path.suffix.lower() == ".gz" else path.suffix
    suffix = suffix.lower()
    if suffix not in (*SEPARATORS, *PARQUET) or (suffix in PARQUET and path.suffix.lower() == ".gz"):
        hint = " Save the sheet as CSV." if suffix in (".xlsx", ".xls", ".ods") else ""
        raise TableError(
            f"{path.name} ends in {path.suffix!r}; tables are read as {ACCEPTED}.{hint}", table=path.name
        )
    return suffix


def _line_of(path: Path, encoding: str, separator: str, above: int, row: int) -> int | None:
    """Return on which line a row below the header, and what is above that, begins.

    Lines may be blank, and quoted cells may span several.
    """
    try:
        with open_text(path, encoding) as file:
            reader = csv.reader(file, delimiter=separator, skipinitialspace=True)
            first, passed = 1, -1 - above
            for cells in reader:
                if len(cells) > 1 or any(cell.strip() for cell in cells):
                    if passed == row:
                        return first
                    passed += 1
                first = reader.line_num + 1
    except (OSError, csv.Error):
        return None
    return None


def _read_text(path: Path, usual: str, may_lack_header: bool) -> Table:
    """Read every cell as text, header included, so that nothing is renamed or dropped; say what was guessed."""
    import pandas as pd

    encoding = encoding_of(path)
    declared = declared_separator(path, encoding.name)
    above = 0 if declared is None else 1
    cells = functools.partial(_cells, path, encoding.name, above)
    separator = declared or separator_of([str(name) for name in cells(usual, rows=1).iloc[0]], usual)
    names = [as_name(name) for name in cells(separator, rows=1).iloc[0]]
    headless = may_lack_header and all(map(_is_number, names))
    if headless:
        names = [f"column {number}" for number in range(1, len(names) + 1)]
    _check_names(names, path.name, separator)
    frame = _without_end_sign(cells(separator)).iloc[0 if headless else 1 :].reset_index(drop=True)
    frame.columns = pd.Index(names)
    frame, unclear, commas = with_decimal_points(frame) if separator == ";" else (frame, {}, False)
    decimal = ", with decimal commas" if commas else ""
    guessed = (f"{path.name} was read as separated by {WORDS[separator]}{decimal}.",) if separator != usual else ()
    if headless:
        guessed = (*guessed, f"{path.name} has no header: its first line was read as numbers.")
    line_of = functools.partial(_line_of, path, encoding.name, separator, above - headless)
    return Table(frame, path.name, line_of, (*guessed, *encoding.notes), unclear)


def _is_number(cell: str) -> bool:
    """Tell whether a cell of text is a number, with a decimal point or comma."""
    try:
        float(cell.replace(",", ".") if DECIMAL_COMMA.fullmatch(cell) else cell)
    except ValueError:
        return False
    return True


def declared_separator(path: Path, encoding: str) -> str | None:
    r"""Return what separates cells if the first line of a file says so and nothing else, as sep=; does.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "hours.csv"
    >>> _ = path.write_text("sep=;\nday;wind\nmonday;7,1")
    >>> declared_separator(path, "utf-8")
    ';'
    """
    with open_text(path, encoding) as file:
        found = DECLARED.fullmatch(file.readline(10))
    return None if found is None else found[1]


def separator_of(header: Sequence[str], usual: str) -> str:
    r"""Return what separates the cells of a file whose first line was split at the usual sign.

    It is another sign if the line was not split, and that is the only one in it.

    >>> separator_of(["day;wind"], ","), separator_of(["day", "wind"], "\t"), separator_of(["a;b|c"], ",")
    (';', '\t', ',')
    """
    others = [sign for sign in WORDS if sign != usual and sign in header[0]]
    return others[0] if len(header) == 1 and others in ([";"], ["\t"], [","]) else usual


def _cells(path: Path, encoding: str, above: int, separator: str, rows: int | None = None) -> "pd.DataFrame":
    """Return the first rows below some lines, or all, as text."""
    import pandas as pd

    options: dict[str, Any] = {"header": None, "index_col": False, "dtype": str, "keep_default_na": False}
    options |= {"skiprows": above, "nrows": rows, "skipinitialspace": True, "encoding": encoding}
    try:
        return pd.read_csv(path, sep=separator, **options)
    except pd.errors.EmptyDataError:
        raise TableError(f"{path.name} is empty. Its first line should name the columns.", table=path.name) from None
    except pd.errors.ParserError as error:
        reason = str(error).strip().rpartition("C error: ")[2].rstrip(".")
        line = re.search(r"fields in line (\d+)", reason)
        raise TableError(
            f"{path.name} is not a regular table: {reason}. Every line needs as many fields as the first; put quotes "
            "around text that holds a separator.",
            table=path.name,
            line=None if line is None else int(line[1]),
        ) from None


def _without_end_sign(cells: "pd.DataFrame") -> "pd.DataFrame":
    """Return rows of text without a last Ctrl-Z."""
    first, *others = (str(cell) for cell in cells.iloc[-1].fillna(""))
    if first == END and not any(others):
        return cells.iloc[:-1]
    if [first, *others][-1].endswith(END):
        cells.iloc[-1, -1] = [first, *others][-1].removesuffix(END)
    return cells


def _read_parquet(path: Path) -> "pd.DataFrame":
    from decond.streaming.parquet import import_pyarrow

    pyarrow = import_pyarrow()
    try:
        table = pyarrow.parquet.ParquetFile(path).read()
    except (pyarrow.ArrowException, OSError) as error:
        raise TableError(f"{path.name} is not a Parquet file, or it is damaged ({error}).", table=path.name) from None
    table = table.rename_columns([as_name(name) for name in table.column_names])
    _check_names(table.column_names, path.name, ",")
    frame = table.to_pandas(ignore_metadata=True)
    categories = frame.select_dtypes("category").columns
    return frame.astype(dict.fromkeys(categories, object))


def _check_names(names: list[str], file: str, separator: str) -> None:
    if len(names) == 1:
        for other, word in WORDS.items():
            if other != separator and other in names[0]:
                raise TableError(
                    f"{file} has a single column {names[0]!r}: it seems to be separated by {word}. Save it again "
                    f"with {'commas' if separator == ',' else 'tabs'} (and with decimal points).",
                    table=file,
                    column=names[0],
                )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise TableError(
            f"{file} has more than one column named {repeated[0]!r}. Give every column its own name.",
            table=file,
            column=repeated[0],
        )
