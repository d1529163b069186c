"""Tables in Parquet files, read in batches: what is in memory at a time does not grow with the table."""

import difflib
import glob
import socket
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from decond.errors import ArgumentError
from decond.messages import near_files
from decond.streaming.parallel import ahead
from decond.streaming.sources import CHUNKING, Chunking, Part, PartedSource

__all__ = ["ChangedFileError", "DamagedFileError", "ParquetBatches", "ParquetError", "ParquetTable", "parquet_files"]

SUFFIXES = (".parquet", ".pq")


class ParquetError(ValueError):
    """A Parquet file does not have the numbers that were asked for.

    Attributes:
        path: The file.
        column: The name of the column, if one column is at fault.
        row: The row of the file, from 1, if one row is at fault.

    >>> error = ParquetError("hours.parquet has no column 'wind'.", path=Path("hours.parquet"), column="wind")
    >>> error.column, error.row
    ('wind', None)
    """

    def __init__(
        self, message: str, *, path: Path | None = None, column: str | None = None, row: int | None = None
    ) -> None:
        super().__init__(message)
        self.path, self.column, self.row = path, column, row


class DamagedFileError(ParquetError):
    """A file is damaged or incomplete: it has to be written anew.

    >>> issubclass(DamagedFileError, ParquetError)
    True
    """


class ChangedFileError(ParquetError):
    """A file has changed since it was first read: all passes need the same rows, so start again.

    >>> issubclass(ChangedFileError, ParquetError)
    True
    """


@dataclass(frozen=True)
class ParquetBatches:
    """How much of Parquet files is decoded at a time: measured to keep memory low without slowing the reading.

    >>> ParquetBatches(numbers=300).height(columns=3)
    100
    """

    rows: int = 65_536
    """Rows that are decoded at a time; fewer of them if they have many columns."""
    numbers: int = 4_194_304
    """Numbers that are decoded at a time."""
    part_rows: int = 65_536
    """Row groups go to one part until they have so many rows."""
    buffer: int = 1 << 20
    """Bytes of a column that are fetched from the file at a time."""

    def height(self, columns: int) -> int:
        """Return the rows of a batch with so many columns."""
        return max(min(self.rows, self.numbers // columns), 1)


BATCHES = ParquetBatches()


class ParquetTable(PartedSource):
    """A table in Parquet files, of which only a few batches of rows are in memory at a time.

    Files are read in the order of their names. Their columns are checked here, in every file, without reading any
    row; values are checked whenever they are read. Numbers of any type become float64.

    Pages with checksums (``write_page_checksum=True`` in pyarrow) are verified; without them, damage that leaves
    numbers readable cannot be noticed.

    Row groups of 10⁵ to 10⁶ rows are best. On a cluster, one that is larger than a share of the table (`share_rows`)
    is decoded again by every share that lies in it.

    Parameters:
        paths: a file, a folder (with all below it), a pattern such as ``"2024/*.parquet"``, or a list of these.
        x: the columns of the rows, in this order.
        z: the column of the targets, or a list of several.
        batches: how much is decoded at a time.
        chunking: how rows are cut for the cores of a machine and the workers of a cluster.

    >>> import pathlib, tempfile, pandas as pd
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for month in (1, 2):
    ...     frame = pd.DataFrame({"wind": [3.0, 7.5], "height": [80, 100], "power": [0.1, month]})
    ...     frame.to_parquet(folder / f"month{month}.parquet")
    >>> table = ParquetTable(folder, x=["wind", "height"], z="power")
    >>> len(table), float(table.total(lambda piece: piece.targets.sum()))
    (4, 3.2)
    """

    def __init__(
        self,
        paths: Any,
        x: Sequence[str] | str,
        z: Sequence[str] | str,
        *,
        batches: ParquetBatches = BATCHES,
        chunking: Chunking = CHUNKING,
    ) -> None:
        self.names: list[str] = [x] if isinstance(x, str) else list(x)
        self.flat = isinstance(z, str)
        self.target_names = [z] if isinstance(z, str) else list(z)
        columns = _Columns(tuple(self.names), (z,) if isinstance(z, str) else tuple(z), self.flat)
        _check_names(columns)
        self.files, self.chunking = parquet_files(paths), chunking
        self._parts = [part for path in self.files for part in _parts_of(path, columns, batches)]
        if not self._parts:
            raise ArgumentError(
                "paths", f"there are no rows in {_some_of(self.files)}; give at least one file that has some."
            )

    @property
    def width(self) -> int:
        return len(self.names)

    def parts(self) -> Sequence[Part]:
        return self._parts


def parquet_files(paths: Any) -> list[Path]:
    """Return the files that paths, folders and patterns stand for, sorted by name and each of them once."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise ArgumentError(
            "paths", "no Parquet files were given; name a file, a folder, or a pattern such as data/*.parquet."
        )
    return sorted({path.absolute() for one in given for path in _files_at(one)})


class _Columns(NamedTuple):
    """The columns that are read of every file."""

    x: tuple[str, ...]
    z: tuple[str, ...]
    flat: bool

    @property
    def all(self) -> list[str]:
        return [*self.x, *self.z]


@dataclass(frozen=True)
class _RowGroups:
    """Consecutive row groups of one file: a part that knows where its rows are."""

    path: Path
    seal: tuple[int, int]
    groups: tuple[int, ...]
    first: int
    """The number of their first row in the file, counted from zero."""
    count: int
    columns: _Columns
    batches: ParquetBatches
    holds_rows = False
    only_whole = False

    @property
    def name(self) -> str:
        return str(self.path)

    def read(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return ahead(self._blocks())

    def _blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        row, (x, z, flat) = self.first, self.columns
        for batch in self._batches():
            found = {column: _numbers(batch.column(column), column, self.path, row) for column in self.columns.all}
            rows = np.stack([found[column] for column in x], axis=1)
            yield rows, found[z[0]] if flat else np.stack([found[column] for column in z], axis=1)
            row += len(rows)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of rows; buffers keep whole column chunks out of memory, however large row groups are."""
        if _sealed(self.path) != self.seal:
            raise ChangedFileError(
                f"{self.path} has changed since it was first read. All passes need the same rows: start again, once "
                "nothing writes to it.",
                path=self.path,
            )
        try:
            height = self.batches.height(len(self.columns.all))
            options = {"pre_buffer": False, "buffer_size": self.batches.buffer, "page_checksum_verification": True}
            with pq.ParquetFile(self.path, **options) as file:
                yield from file.iter_batches(height, self.groups, self.columns.all, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(self.path, error) from error


def _files_at(given: str | Path) -> Iterable[Path]:
    """Return the files of one path, folder or pattern."""
    path = Path(given)
    if path.is_dir():
        found = [file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file()]
        if not found:
            raise FileNotFoundError(f"the folder {path} and those below have no files that end in .parquet or .pq.")
        return found
    if path.exists():
        return [path]
    if glob.has_magic(str(given)):
        found = [Path(name) for name in glob.glob(str(given), recursive=True) if Path(name).is_file()]
        if not found:
            raise FileNotFoundError(f"no file matches the pattern {str(given)!r}.")
        return found
    near = near_files(path, SUFFIXES, "Give a file that ends in .parquet or .pq, a folder, or a pattern.")
    raise FileNotFoundError(f"there is no file {path}{near}")


def _check_names(columns: _Columns) -> None:
    """Raise unless there are columns of both kinds, and no name stands twice."""
    for kind, names in (("x", columns.x), ("z", columns.z)):
        if not names:
            raise ArgumentError(kind, f"no column was named for {kind}; give at least one.")
    for column in columns.all:
        if columns.all.count(column) > 1:
            kind = "x" if columns.x.count(column) > 1 else "z"
            raise ArgumentError(kind, f"column {column!r} was named twice, among x and z. Name each column once.")


def _parts_of(path: Path, columns: _Columns, batches: ParquetBatches) -> Iterator[_RowGroups]:
    """Yield the parts of one file, whose columns are checked first; rows are not read."""
    seal = _sealed(path)
    try:
        metadata = pq.read_metadata(path)
        schema = metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error) from error
    _check_schema(schema, columns.all, path)
    groups: list[int] = []
    first = count = 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        count += metadata.row_group(group).num_rows
        last = group == metadata.num_row_groups - 1
        if count and (last or count >= batches.part_rows):
            yield _RowGroups(path, seal, tuple(groups), first, count, columns, batches)
            groups, first, count = [], first + count, 0


def _check_schema(schema: pa.Schema, columns: Sequence[str], path: Path) -> None:
    """Raise unless every column is there, once, and holds numbers."""
    for column in columns:
        count = schema.names.count(column)
        if count > 1:
            message = f"{path} has {count} columns called {column!r}; give them different names."
            raise ParquetError(message, path=path, column=column)
        if not count:
            near = difflib.get_close_matches(column, schema.names, n=1) or _same_but_case(column, schema.names)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            message = f"{path} has no column {column!r}{hint} Its columns are {', '.join(schema.names)}."
            raise ParquetError(message, path=path, column=column)
        if not _is_number(schema.field(column).type):
            raise ParquetError(
                f"column {column!r} of {path} holds values of type {schema.field(column).type}, but numbers are "
                "needed. Convert it to numbers, or choose another column.",
                path=path,
                column=column,
            )


def _same_but_case(column: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name.lower() == column.lower()]


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _numbers(cells: pa.Array, column: str, path: Path, start: int) -> np.ndarray:
    """Return the cells as float64, or raise with the row of the first that is not a finite number."""
    if cells.null_count:
        row = int(np.flatnonzero(cells.is_null().to_numpy(zero_copy_only=False))[0])
        raise _not_a_number("an empty cell", column, path, start + row)
    if pa.types.is_decimal(cells.type):
        cells = cells.cast(pa.float64())
    values = cells.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    finite = np.isfinite(values)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        damage = " If no such value was written, the file is damaged."
        raise _not_a_number(f"the value {values[row]}", column, path, start + row, damage)
    return values


def _not_a_number(what: str, column: str, path: Path, row: int, damage: str = "") -> ParquetError:
    place = f"column {column!r} of {path} has {what} in row {row + 1}, counted from 1."
    return ParquetError(f"{place} Remove or fill such rows first.{damage}", path=path, column=column, row=row + 1)


def _sealed(path: Path) -> tuple[int, int]:
    """Return the size of a file and a checksum of its footer, where Parquet says what is in it.

    Copies on other machines have the same; a file that was written anew has another.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - 8, 0))
            footer = min(int.from_bytes(file.read(4), "little") + 8, size)
            file.seek(size - footer)
            return size, zlib.crc32(file.read())
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path} is not there, on the machine {socket.gethostname()}. Every pass over the table reads it again, "
            "and every worker of a cluster has to find it under the same path."
        ) from None


def _damaged(path: Path, error: Exception) -> DamagedFileError:
    reason = str(error).rstrip(".")
    return DamagedFileError(
        f"{path} cannot be read as Parquet: {reason}. It is damaged or incomplete; write it anew.", path=path
    )


def _some_of(files: Sequence[Path]) -> str:
    names = ", ".join(map(str, files[:3]))
    return names + (f" and {len(files) - 3} more files" if len(files) > 3 else "")
