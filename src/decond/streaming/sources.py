"""Where rows come from: every table, wherever it lies, is asked for sums over its rows and for nothing else.

*Work* is a function from a `Chunk` of rows to something that can be added, such as `Statistics`. A source applies it
to all chunks and returns the sum: on the cores of this machine, or on a cluster (`decond.streaming.cluster`), to
which work travels pickled.
"""

import abc
import contextlib
import functools
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_rows, as_targets, check_size, column_names
from decond.errors import ArgumentError, ArgumentTypeError
from decond.threads import ahead, map_in_order

__all__ = [
    "Batches",
    "Chunk",
    "ChunkSettings",
    "PartitionedSource",
    "Source",
    "Table",
    "Work",
    "as_source",
]

Sum = TypeVar("Sum")
Work = Callable[["Chunk"], Sum]
"""A function from a chunk of rows to something that can be added."""
Arrays = tuple[NDArray[Any], NDArray[np.float64]]
"""Rows, which may be labels, and their targets."""


@dataclass(frozen=True)
class ChunkSettings:
    """How a table is cut for cores and for the workers of a cluster; sums depend on it by rounding only.

    >>> table = Table([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0], chunks=ChunkSettings(rows=2))
    >>> table.total(lambda chunk: [len(chunk.rows)])
    [2, 1]
    """

    rows: int = 1280
    """Rows of a chunk: it fits the cache of a core, and starting it takes little of its time (measured)."""
    partition_rows: int = 64_000
    """Rows of a partition, which one task of a cluster reads: milliseconds of overhead for a second of work."""


CHUNKS = ChunkSettings()


class Chunk(NamedTuple):
    """Consecutive rows of a table, few enough to work on at a time.

    >>> Chunk(start=2, rows=np.array([[5.0]]), targets=np.array([[1.0]])).rows.shape
    (1, 1)
    """

    start: int
    """The number of the first row in the whole table."""
    rows: NDArray[Any]
    """(b, d)"""
    targets: NDArray[np.float64]
    """(b, t)"""


class Partition(Protocol):
    """Consecutive rows of a table that one process can read."""

    @property
    def name(self) -> str:
        """What messages call it, such as the name of a file."""

    @property
    def count(self) -> int:
        """How many rows it has."""

    @property
    def holds_rows(self) -> bool:
        """Whether it holds its rows; otherwise it only knows where they are."""

    def read(self) -> Generator[Arrays, None, None]:
        """Yield rows (b, d) and targets (b,) or (b, t), checked, in batches of any size."""


class Source(abc.ABC):
    """A table of rows and targets that is read as often as needed.

    Attributes
    ----------
    names, target_names : sequence of str or None
        The names of the columns, where they have any.
    flat : bool
        Whether targets are a flat array; otherwise they are columns.
    chunks : ChunkSettings
        How rows are cut.

    Examples
    --------
    >>> class Ramp(Source):
    ...     width = 1
    ...
    ...     def total(self, work):
    ...         rows = np.arange(4.0)[:, None]
    ...         return work(Chunk(0, rows, 2.0 * rows))
    ...
    ...     def __len__(self):
    ...         return 4
    >>> float(Ramp().total(lambda chunk: chunk.targets.sum()))
    12.0
    """

    names: Sequence[str] | None = None
    target_names: Sequence[str] | None = None
    flat: bool = True
    chunks: ChunkSettings = CHUNKS

    @property
    @abc.abstractmethod
    def width(self) -> int:
        """The number of columns of the rows."""

    @abc.abstractmethod
    def total(self, work: Work[Sum]) -> Sum:
        """Return the sum of the work over all rows: one pass."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    def standardized(self, offset: NDArray[np.float64], scale: NDArray[np.float64]) -> "Source":
        """Return the same table with targets (z - offset) / scale.

        Parameters
        ----------
        offset, scale : ndarray of shape (t,)
            One of each for every target column.

        Returns
        -------
        Source
            It reads the rows of this one.
        """
        return _Standardized(self, offset, scale)


class PartitionedSource(Source):
    """A source in partitions; here they are read one after the other, and their chunks go to all cores.

    >>> class Months(PartitionedSource):
    ...     width = 1
    ...
    ...     def partitions(self):
    ...         return [Rows(np.full((2, 1), month), np.full(2, 10.0 * month), f"month {month}") for month in (1, 2)]
    >>> len(Months()), float(Months().total(lambda chunk: chunk.targets.sum()))
    (4, 60.0)
    """

    @abc.abstractmethod
    def partitions(self) -> Sequence[Partition]:
        """Return the partitions, in the order of the rows."""

    def total(self, work: Work[Sum]) -> Sum:
        return partition_total(work, self.partitions(), 0, self.chunks)

    def __len__(self) -> int:
        return sum(partition.count for partition in self.partitions())


class Table(PartitionedSource):
    """A table in memory, checked once.

    Parameters
    ----------
    x : array_like of shape (m, d)
        Rows; a data frame has names of columns.
    z : array_like of shape (m,) or (m, t)
        Targets.
    labels : bool
        Whether rows may hold labels.
    chunks : ChunkSettings
        How rows are cut.

    Examples
    --------
    >>> table = Table([[0.0], [1.0]], [2.0, 3.0])
    >>> float(table.total(lambda chunk: chunk.targets.sum()))
    5.0
    """

    def __init__(self, x: ArrayLike, z: ArrayLike, *, labels: bool = False, chunks: ChunkSettings = CHUNKS) -> None:
        self.x = as_rows(x, "x", labels=labels)
        check_size(self.x, "x", column_names(x))
        self.z = as_targets(z, "z", len(self.x), "x")
        self.names, self.flat, self.chunks = column_names(x), self.z.ndim == 1, chunks

    @property
    def width(self) -> int:
        return int(self.x.shape[1])

    def partitions(self) -> Sequence[Partition]:
        height = self.chunks.partition_rows
        starts = range(0, len(self.x), height)
        return [Rows(self.x[i : i + height], self.z[i : i + height], f"rows from {i}") for i in starts]

    def __len__(self) -> int:
        return len(self.x)


class Batches(PartitionedSource):
    """Blocks of rows: pairs (x, z) of any sizes, in a list or in anything whose ``iter`` starts over.

    The blocks of a list are checked once. Others are counted once before the first pass, and checked in every pass.
    Data frames keep the names of their columns, which have to be the same in all blocks. Blocks of a thousand rows
    and more are summed fastest.

    Parameters
    ----------
    blocks : iterable of (array_like, array_like)
        Rows and targets of every block.
    chunks : ChunkSettings
        How rows are cut.

    Examples
    --------
    >>> batches = Batches([([[0.0], [1.0]], [2.0, 3.0]), ([[4.0]], [5.0])])
    >>> len(batches), float(batches.total(lambda chunk: chunk.targets.sum()))
    (3, 10.0)
    """

    def __init__(self, blocks: Iterable[tuple[ArrayLike, ArrayLike]], *, chunks: ChunkSettings = CHUNKS) -> None:
        if iter(blocks) is blocks:
            raise ArgumentTypeError(
                "blocks",
                f"the blocks come from a {type(blocks).__name__}, which can be read only once; they are read again "
                "and again. Give a list of (rows, targets), or an object whose __iter__ starts over.",
            )
        self._listed = isinstance(blocks, Sequence | np.ndarray)
        for number, block in enumerate(blocks if self._listed else ()):
            _check_pair(block, number)
        self._blocks, self.chunks = blocks, chunks

    @property
    def flat(self) -> bool:  # type: ignore[override]
        """Whether targets are a flat array, or columns."""
        return self._layout.flat

    @property
    def names(self) -> list[str] | None:  # type: ignore[override]
        """The names of the columns, where the blocks are data frames."""
        return self._layout.names

    @property
    def width(self) -> int:
        if not self._layout.partitions:
            raise _no_rows()
        return self._layout.width

    def partitions(self) -> Sequence[Partition]:
        return self._layout.partitions

    @functools.cached_property
    def _layout(self) -> "_Layout":
        kept, count, width, flat, names = [], 0, 0, True, None
        for block, names in _checked_blocks(self._blocks):  # noqa: B007
            count, width, flat = count + block.count, block.rows.shape[1], flat and block.targets.ndim == 1
            if self._listed:
                kept.append(block)
        stream = [_Stream(self._blocks, count)] if count else []
        return _Layout(kept if self._listed else stream, width, flat, names)


def as_source(rows: Any, targets: ArrayLike | None = None) -> Source:
    """Return a source for what users give.

    Parameters
    ----------
    rows : Source, array_like of shape (m, d), or list of blocks
        A source is returned as it is.
    targets : array_like of shape (m,) or (m, t), optional
        Without them, `rows` is a list of blocks with targets of their own.

    Returns
    -------
    Source
        A table in memory, or batches.

    Examples
    --------
    >>> type(as_source([[0.0], [1.0]], [2.0, 3.0])).__name__, type(as_source([([[0.0]], [2.0])])).__name__
    ('Table', 'Batches')
    """
    if isinstance(rows, Source):
        return rows
    return Batches(rows) if targets is None else Table(rows, targets)


def partition_total(work: Work[Sum], partitions: Sequence[Partition], start: int, chunks: ChunkSettings) -> Sum:
    """Return the sum of the work over some partitions, on the cores of this machine.

    Parameters
    ----------
    work : callable
        From a `Chunk` to something that can be added.
    partitions : sequence of Partition
        What to read, in the order of the rows.
    start : int
        The number of the first row in the whole table.
    chunks : ChunkSettings
        How rows are cut.

    Returns
    -------
    object
        The sum, always added in the order of the rows.
    """
    total = None
    with (
        contextlib.closing(_chunks_of(partitions, start, chunks.rows)) as pending,
        contextlib.closing(map_in_order(work, pending)) as found,
    ):
        for one in found:
            total = one if total is None else total + one  # type: ignore[operator]
    if total is None:
        raise _no_rows()
    return total


def _chunks_of(partitions: Sequence[Partition], start: int, height: int) -> Generator[Chunk, None, None]:
    for partition in partitions:
        with contextlib.closing(partition.read()) as batches:
            for rows, targets in batches:
                if not len(rows):
                    continue
                z = np.asarray(targets, dtype=np.float64).reshape(len(targets), -1)
                for i in range(0, len(rows), height):
                    yield Chunk(start + i, rows[i : i + height], z[i : i + height])
                start += len(rows)


@dataclass(frozen=True, eq=False)
class Rows:
    """A partition that holds its rows."""

    rows: NDArray[Any]
    targets: NDArray[np.float64]
    name: str
    holds_rows = True

    @property
    def count(self) -> int:
        return len(self.rows)

    def read(self) -> Generator[Arrays, None, None]:
        yield self.rows, self.targets


@dataclass(frozen=True, eq=False)
class _Stream:
    """Blocks that can only be read one after the other, from the first."""

    blocks: Iterable[tuple[ArrayLike, ArrayLike]]
    count: int
    name = "the blocks"
    holds_rows = True

    def read(self) -> Generator[Arrays, None, None]:
        return ahead((block.rows, block.targets) for block, _ in _checked_blocks(self.blocks))


class _Layout(NamedTuple):
    """What is known of all blocks."""

    partitions: Sequence[Partition]
    width: int
    flat: bool
    names: list[str] | None


class _Standardized(Source):
    """Another source, with its targets in other units."""

    def __init__(self, source: Source, offset: NDArray[np.float64], scale: NDArray[np.float64]) -> None:
        self.source, self.offset, self.scale = source, offset, scale
        self.names, self.flat, self.chunks = source.names, source.flat, source.chunks

    @property
    def width(self) -> int:
        return self.source.width

    def total(self, work: Work[Sum]) -> Sum:
        return self.source.total(_InUnits(work, self.offset, self.scale))

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, eq=False)
class _InUnits:
    """Work on chunks whose targets are standardized first; a class, because work travels to other processes."""

    work: Work[Any]
    offset: NDArray[np.float64]
    scale: NDArray[np.float64]

    def __call__(self, chunk: Chunk) -> Any:
        return self.work(chunk._replace(targets=(chunk.targets - self.offset) / self.scale))


def _check_pair(block: object, number: int) -> None:
    if not (isinstance(block, tuple | list) and len(block) == 2 and all(hasattr(side, "__len__") for side in block)):
        raise ArgumentTypeError(
            f"blocks[{number}]",
            f"block {number} is a {type(block).__name__}, but each block is a pair (rows, targets). A single block "
            "is given as Batches([(x, z)]), a table in memory as Table(x, z).",
        )


def _checked_blocks(
    blocks: Iterable[tuple[ArrayLike, ArrayLike]],
) -> Generator[tuple[Rows, list[str] | None], None, None]:
    """Yield the blocks that have rows, checked, with the names of their columns; all need those of the first."""
    first: dict[str, Any] = {}
    for number, block in enumerate(blocks):
        _check_pair(block, number)
        x, z = block
        if not len(x):  # type: ignore[arg-type]
            continue
        name = f"block {number}"
        rows = as_rows(x, f"x of {name}", labels=True)
        check_size(rows, f"x of {name}", column_names(x))
        targets = as_targets(z, f"z of {name}", len(rows), f"x of {name}")
        names = column_names(x)
        columns = {"x": names or rows.shape[1], "z": 1 if targets.ndim == 1 else targets.shape[1]}
        first = first or columns
        for argument, given in columns.items():
            if given != first[argument]:
                raise ArgumentError(
                    f"{argument} of {name}",
                    f"{argument} of {name} has the columns {given}, but that of the first block has "
                    f"{first[argument]}; give the same columns, in the same order, in all blocks.",
                )
        yield Rows(rows, targets, name), names


def _no_rows() -> ArgumentError:
    return ArgumentError("blocks", "there are no rows to learn from; give at least one block with one row.")
