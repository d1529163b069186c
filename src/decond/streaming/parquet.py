"""Tables in Parquet files, read in batches: what is in memory at a time does not grow with the table.

pyarrow is an optional extra, ``pip install "decond[parquet]"``; it is imported when a file is read.
"""

import difflib
import glob
import socket
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decond.checks import SIZES
from decond.errors import ArgumentError
from decond.messages import near_files
from decond.streaming.sources import CHUNKS, Arrays, ChunkSettings, Partition, PartitionedSource
from decond.threads import ahead

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ChangedFileError", "DamagedFileError", "ParquetError", "ParquetTable", "_parquet_files", "import_pyarrow"]

SUFFIXES = (".parquet", ".pq")


class ParquetError(ValueError):
    """A Parquet file does not have the numbers that were asked for.

    Parameters
    ----------
    message : str
        What is wrong, and what to do.
    path : Path, optional
        The file.
    column : str, optional
        The name of the column, if one column is at fault.
    row : int, optional
        The row of the file, from 1, if one row is at fault.
    """

    def __init__(
        self, message: str, *, path: Path | None = None, column: str | None = None, row: int | None = None
    ) -> None:
        super().__init__(message)
        self.path, self.column, self.row = path, column, row


class DamagedFileError(ParquetError):
    """A file is damaged or incomplete: it has to be written anew."""


class ChangedFileError(ParquetError):
    """A file has changed since it was first read: all passes need the same rows, so start again."""


@dataclass(frozen=True)
class ReadSettings:
    """How much of Parquet files is decoded at a time: measured to keep memory low without slowing the reading.

    >>> ReadSettings(rows=10_000).numbers
    4194304
    """

    rows: int = 64_000
    """Rows that are decoded at a time; fewer of them if they have many columns."""
    numbers: int = 4_194_304
    """Numbers that are decoded at a time."""
    buffer: int = 1 << 20
    """Bytes of a column that are fetched from the file at a time."""


READ = ReadSettings()


class ParquetTable(PartitionedSource):
    """A table in Parquet files, of which only a few batches of rows are in memory at a time.

    Files are read in the order of their names. Their columns are checked here, in every file, without reading any
    row; values are checked whenever they are read. Numbers of any type become float64. Row groups of 10⁵ to 10⁶ rows
    are best. Pages with checksums (``write_page_checksum=True`` in pyarrow) are verified; without them, damage that
    leaves numbers readable cannot be noticed.

    Parameters
    ----------
    paths : path, str, or list of these
        A file, a folder (with all below it), a pattern such as ``"2024/*.parquet"``, or a list of these.
    x : str or sequence of str
        The columns of the rows, in this order.
    z : str or sequence of str
        The column of the targets, or several.
    read : ReadSettings
        How much is decoded at a time.
    chunks : ChunkSettings
        How rows are cut for the cores of a machine and the workers of a cluster.

    Examples
    --------
    >>> import pathlib, tempfile, pandas as pd
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for month in (1, 2):
    ...     frame = pd.DataFrame({"wind": [3.0, 7.5], "height": [80, 100], "power": [0.1, month]})
    ...     frame.to_parquet(folder / f"month{month}.parquet")
    >>> table = ParquetTable(folder, x=["wind", "height"], z="power")
    >>> len(table), float(table.total(lambda chunk: chunk.targets.sum()))
    (4, 3.2)
    """

    def __init__(
        self,
        paths: str | Path | Sequence[str | Path],
        x: Sequence[str] | str,
        z: Sequence[str] | str,
        *,
        read: ReadSettings = READ,
        chunks: ChunkSettings = CHUNKS,
    ) -> None:
        self.names: list[str] = [x] if isinstance(x, str) else list(x)
        self.target_names: list[str] = [z] if isinstance(z, str) else list(z)
        self.flat, self.chunks = isinstance(z, str), chunks
        columns = _Columns(self.names, self.target_names, self.flat)
        _check_names(columns)
        import_pyarrow()
        self.files = _parquet_files(paths)
        self._partitions = [
            one for path in self.files for one in _partitions_of(path, columns, read, chunks.partition_rows)
        ]
        if not self._partitions:
            raise ArgumentError(
                "paths",
                f"there are no rows in {', '.join(map(str, self.files[:3]))}; give at least one file that has some.",
            )

    @property
    def width(self) -> int:
        return len(self.names)

    def partitions(self) -> Sequence[Partition]:
        return self._partitions


def _parquet_files(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the files that paths, folders and patterns stand for, sorted by name and each of them once."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise ArgumentError(
            "paths", "no Parquet files were given; name a file, a folder, or a pattern such as data/*.parquet."
        )
    return sorted({path.absolute() for one in given for path in _files_at(one)})


def import_pyarrow() -> Any:
    """Return pyarrow with its module for Parquet, an optional extra; raise if it is not installed."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ArgumentError(
            "paths",
            "Parquet files are read with pyarrow, which is not installed: pip install 'decond[parquet]'. Or give the "
            "rows as arrays.",
        ) from error
    return pyarrow


class _Columns(NamedTuple):
    """The columns that are read of every file."""

    x: list[str]
    z: list[str]
    flat: bool

    @property
    def all(self) -> list[str]:
        return [*self.x, *self.z]


@dataclass(frozen=True)
class _RowGroups:
    """Consecutive row groups of one file: a partition that knows where its rows are."""

    path: Path
    fingerprint: tuple[int, int]
    groups: list[int]
    first: int
    """The number of their first row in the file, counted from zero."""
    count: int
    columns: _Columns
    settings: ReadSettings
    holds_rows = False

    @property
    def name(self) -> str:
        return str(self.path)

    def read(self) -> Generator[Arrays, None, None]:
        return ahead(self._decoded())

    def _decoded(self) -> Generator[Arrays, None, None]:
        row, (x, z, flat) = self.first, self.columns
        for batch in self._batches():
            found = {column: _numbers(batch.column(column), column, self.path, row) for column in self.columns.all}
            rows = np.stack([found[column] for column in x], axis=1)
            yield rows, found[z[0]] if flat else np.stack([found[column] for column in z], axis=1)
            row += len(rows)

    def _batches(self) -> "Iterator[pa.RecordBatch]":
        """Yield batches of rows; buffers keep whole column chunks out of memory, however large row groups are."""
        if _fingerprint(self.path) != self.fingerprint:
            raise ChangedFileError(
                f"{self.path} has changed since it was first read. All passes need the same rows: start again, once "
                "nothing writes to it.",
                path=self.path,
            )
        arrow, settings = import_pyarrow(), self.settings
        rows = max(min(settings.rows, settings.numbers // len(self.columns.all)), 1)
        options = {"pre_buffer": False, "buffer_size": settings.buffer, "page_checksum_verification": True}
        try:
            with arrow.parquet.ParquetFile(self.path, **options) as file:
                yield from file.iter_batches(rows, self.groups, self.columns.all, use_threads=False)
        except _unreadable() as error:
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


def _partitions_of(path: Path, columns: _Columns, settings: ReadSettings, least: int) -> Iterator[_RowGroups]:
    """Yield the row groups of one file, as many together as have `least` rows; its columns are checked first."""
    arrow, fingerprint = import_pyarrow(), _fingerprint(path)
    try:
        metadata = arrow.parquet.read_metadata(path)
        schema = metadata.schema.to_arrow_schema()
        _ = schema.names  # which have to be text
    except _unreadable() as error:
        raise _damaged(path, error) from error
    _check_schema(schema, columns.all, path)
    groups: list[int] = []
    first = count = 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        count += metadata.row_group(group).num_rows
        if count and (group == metadata.num_row_groups - 1 or count >= least):
            yield _RowGroups(path, fingerprint, groups, first, count, columns, settings)
            groups, first, count = [], first + count, 0


def _check_schema(schema: "pa.Schema", columns: Sequence[str], path: Path) -> None:
    """Raise unless every column is there, once, and holds numbers."""
    for column in columns:
        count = schema.names.count(column)
        if count > 1:
            message = f"{path} has {count} columns called {column!r}; give them different names."
            raise ParquetError(message, path=path, column=column)
        if not count:
            lower = {name.lower(): name for name in schema.names}
            near = [lower[name] for name in difflib.get_close_matches(column.lower(), lower, n=1)]
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


def _is_number(kind: "pa.DataType") -> bool:
    types = import_pyarrow().types
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _numbers(cells: "pa.Array", column: str, path: Path, start: int) -> NDArray[np.float64]:
    """Return the cells as float64, or raise with the row of the first that is not a number to compute with."""
    if cells.null_count:
        row = int(np.flatnonzero(cells.is_null().to_numpy(zero_copy_only=False))[0])
        raise _not_a_number("an empty cell", column, path, start + row)
    if import_pyarrow().types.is_decimal(cells.type):
        cells = cells.cast(import_pyarrow().float64())
    values = cells.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    usable = np.abs(values) <= SIZES.largest  # not NaN either
    if not usable.all():
        row = int(np.flatnonzero(~usable)[0])
        damage = " If no such value was written, the file is damaged."
        raise _not_a_number(f"the value {values[row]}", column, path, start + row, damage)
    return values


def _not_a_number(what: str, column: str, path: Path, row: int, damage: str = "") -> ParquetError:
    place = f"column {column!r} of {path} has {what} in row {row + 1}, counted from 1."
    return ParquetError(f"{place} Remove or fill such rows first.{damage}", path=path, column=column, row=row + 1)


def _fingerprint(path: Path) -> tuple[int, int]:
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


def _unreadable() -> tuple[type[Exception], ...]:
    """Return what pyarrow raises for files that it cannot read."""
    return import_pyarrow().ArrowException, OSError, ValueError, OverflowError


def _damaged(path: Path, error: Exception) -> DamagedFileError:
    reason = str(error).rstrip(".")
    return DamagedFileError(
        f"{path} cannot be read as Parquet: {reason}. It is damaged or incomplete; write it anew.", path=path
    )
