"""Where rows come from: every table, wherever it lies, is asked for sums over its rows and for nothing else.

*Work* is a function from a `Piece` of rows to something that can be added, such as `Statistics`. A source applies it
to all pieces and returns the sum: on the cores of this machine, or on a cluster (`decond.streaming.cluster`), to
which work travels, pickled.
"""

import abc
import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from decond.checks import as_rows, as_targets, column_names
from decond.errors import ArgumentError
from decond.streaming.parallel import closing, in_order

__all__ = [
    "FAN_IN",
    "HEIGHT",
    "Block",
    "Chunking",
    "Part",
    "PartedSource",
    "Piece",
    "Source",
    "Table",
    "Work",
    "added",
    "part_total",
    "share_rows",
]

HEIGHT = 1280
"""Rows of a piece, where they are many: it fits the cache of a core, starting it takes little of its time, and the
cores end nearly together when there are only a few pieces (8 in 10,000 rows)."""

FAN_IN = 8
"""Sums that are added at a time."""

NO_ROWS = "there are no rows to learn from; give at least one block with one row."

Sum = TypeVar("Sum")
Work = Callable[["Piece"], Sum]
"""A function from a piece of rows to something that can be added."""


@dataclass(frozen=True)
class Chunking:
    """How a table is cut: into pieces for the cores of a machine, and into shares of whole pieces for processes.

    The last digits of sums depend on it, for it says which numbers are added first.

    >>> Chunking(height=16, smallest=2).share_rows(100)
    32
    """

    height: int = HEIGHT
    """Rows of a piece."""
    smallest: int = 32
    """Pieces of the smallest share."""
    most_shares: int = 64
    """Tables are cut into no more shares than that, unless shares became too large for one process."""
    largest: int = 512
    """Pieces of the largest share."""

    def share_rows(self, count: int) -> int:
        """Return how many rows each share has in a table with `count` rows."""
        pieces = self.smallest
        while pieces * self.height * self.most_shares < count and pieces < self.largest:
            pieces *= 2
        return pieces * self.height


CHUNKING = Chunking()


class Piece(NamedTuple):
    """Consecutive rows of a table, few enough to work on at a time.

    >>> piece = Piece(start=2, rows=np.array([[5.0]]), targets=np.array([[1.0]]))
    >>> piece.start, piece.rows.shape
    (2, (1, 1))
    """

    start: int
    """The number of the first row in the whole table."""
    rows: np.ndarray
    """(b, d)"""
    targets: np.ndarray
    """(b, t)"""


class Part(Protocol):
    """Consecutive rows of a table that one process can read.

    >>> part: Part = Block(np.array([[0.0], [1.0]]), np.array([2.0, 3.0]), "january")
    >>> part.name, part.count, [targets.sum().item() for _, targets in part.read()]
    ('january', 2, [5.0])
    """

    @property
    def name(self) -> str:
        """What messages call it, such as the name of a file."""

    @property
    def count(self) -> int:
        """How many rows it has."""

    @property
    def holds_rows(self) -> bool:
        """Whether it holds its rows; otherwise it only knows where they are."""

    @property
    def only_whole(self) -> bool:
        """Whether it can be read only from its beginning to its end, so that it is never cut."""

    def read(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield rows (b, d) and targets (b,) or (b, t), checked, in blocks of any size."""


class Source(abc.ABC):
    """A table of rows and targets that is read as often as needed.

    >>> class Ramp(Source):
    ...     flat, width = True, 1
    ...
    ...     def total(self, work):
    ...         rows = np.arange(4.0)[:, None]
    ...         return work(Piece(0, rows, 2.0 * rows))
    ...
    ...     def __len__(self):
    ...         return 4
    >>> float(Ramp().total(lambda piece: piece.targets.sum()))
    12.0
    """

    names: Sequence[str] | None = None
    """The names of the columns, where they have any."""
    target_names: Sequence[str] | None = None
    """Those of the target columns."""
    flat: bool = True
    """Whether targets are a flat array, or columns."""
    chunking: Chunking = CHUNKING
    """How its rows are cut."""

    @property
    @abc.abstractmethod
    def width(self) -> int:
        """The number of columns of the rows."""

    @abc.abstractmethod
    def total(self, work: Work[Sum]) -> Sum:
        """Return the sum of the work over all rows: one pass."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    def standardized(self, offset: np.ndarray, scale: np.ndarray) -> "Source":
        """Return the same table with targets (z - offset) / scale, one of each for every column."""
        return _Standardized(self, offset, scale)


class PartedSource(Source):
    """A source in parts; here they are read one after the other, and their pieces go to all cores.

    >>> class Months(PartedSource):
    ...     width = 1
    ...
    ...     def parts(self):
    ...         return [Block(np.full((2, 1), month), np.full(2, 10.0 * month), f"month {month}") for month in (1, 2)]
    >>> len(Months()), float(Months().total(lambda piece: piece.targets.sum()))
    (4, 60.0)
    """

    @abc.abstractmethod
    def parts(self) -> Sequence[Part]:
        """Return the parts as they lie, in the order of the rows."""

    def shares(self) -> Sequence[Part]:
        """Return the same rows in shares of equal height, each for one process: they depend on nothing else."""
        return list(_cut(self.parts(), self.chunking.share_rows(len(self))))

    def total(self, work: Work[Sum]) -> Sum:
        return _summed(work, _blocks_of(self.parts()), 0, len(self), self.chunking)

    def __len__(self) -> int:
        return sum(part.count for part in self.parts())


class Table(PartedSource):
    """A table in memory, checked once: rows x (m, d) and targets z, (m,) or (m, t).

    >>> table = Table([[0.0], [1.0]], [2.0, 3.0])
    >>> float(table.total(lambda piece: piece.targets.sum()))
    5.0
    """

    def __init__(self, x: Any, z: Any, *, labels: bool = False, chunking: Chunking = CHUNKING) -> None:
        self.x = as_rows(x, "x", labels=labels)
        self.z = as_targets(z, "z", len(self.x), "x")
        self.names, self.flat, self.chunking = column_names(x), self.z.ndim == 1, chunking

    @property
    def width(self) -> int:
        return self.x.shape[1]

    def parts(self) -> Sequence[Part]:
        return [Block(self.x, self.z, "the table")]

    def __len__(self) -> int:
        return len(self.x)


def share_rows(count: int) -> int:
    """Return how many rows each share of a table has, from their number alone, unless it has a `Chunking` of its own.

    >>> share_rows(1_000), share_rows(100_000_000)
    (40960, 655360)
    """
    return CHUNKING.share_rows(count)


def part_total(work: Work[Sum], part: Part, start: int, count: int, chunking: Chunking = CHUNKING) -> Sum:
    """Return the sum of the work over one part of a table with `count` rows, in which it begins at row `start`.

    >>> part = Block(np.array([[0.0], [1.0]]), np.array([2.0, 3.0]), "january")
    >>> float(part_total(lambda piece: piece.targets.sum(), part, start=0, count=2))
    5.0
    """
    return _summed(work, part.read(), start, count, chunking)


def added(sums: Iterable[Sum]) -> Sum:
    """Return the sum of some sums, from the first to the last.

    >>> added([1, 2, 3])
    6
    """
    return functools.reduce(operator.add, sums)


@dataclass(frozen=True, eq=False)
class Block:
    """A part that holds its rows.

    >>> Block(np.array([[0.0], [1.0], [2.0]]), np.array([2.0, 3.0, 4.0]), "january").between(1, 3).count
    2
    """

    rows: np.ndarray
    targets: np.ndarray
    name: str
    holds_rows = True
    only_whole = False

    @property
    def count(self) -> int:
        """How many rows it has."""
        return len(self.rows)

    def between(self, start: int, stop: int) -> "Block":
        """Return some of the rows."""
        return Block(self.rows[start:stop], self.targets[start:stop], self.name)

    def read(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield all rows with their targets."""
        yield self.rows, self.targets


class _Standardized(Source):
    """Another source, with its targets in other units."""

    def __init__(self, source: Source, offset: np.ndarray, scale: np.ndarray) -> None:
        self.source, self.offset, self.scale = source, offset, scale
        self.names, self.flat, self.chunking = source.names, source.flat, source.chunking

    @property
    def width(self) -> int:
        return self.source.width

    def total(self, work: Work[Sum]) -> Sum:
        return self.source.total(_InUnits(work, self.offset, self.scale))

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, eq=False)
class _InUnits:
    """Work on pieces whose targets are standardized first."""

    work: Work[Any]
    offset: np.ndarray
    scale: np.ndarray

    def __call__(self, piece: Piece) -> Any:
        given, known = piece.targets.shape[1], len(self.offset)
        if given != known:
            raise ArgumentError(
                "z", f"z has {given} column(s) but the model has read {known}; give the same targets each time."
            )
        return self.work(piece._replace(targets=(piece.targets - self.offset) / self.scale))


@dataclass(frozen=True, eq=False)
class _Range:
    """Consecutive rows that lie in one part or several, of which the first may begin before them."""

    parts: tuple[Part, ...]
    skipped: int
    count: int
    only_whole = False

    @property
    def name(self) -> str:
        names = list(dict.fromkeys(part.name for part in self.parts))
        return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"

    @property
    def holds_rows(self) -> bool:
        return any(part.holds_rows for part in self.parts)

    def read(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        first, missing = self.skipped, self.count
        with closing(_blocks_of(self.parts)) as blocks:
            for rows, targets in blocks:
                chosen = slice(first, first + missing)
                first = max(first - len(rows), 0)
                if len(rows[chosen]):
                    yield rows[chosen], targets[chosen]
                missing -= len(rows[chosen])
                if not missing:
                    return


def _blocks_of(parts: Sequence[Part]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for part in parts:
        with closing(part.read()) as blocks:
            yield from blocks


def _cut(parts: Sequence[Part], height: int) -> Iterator[Part]:
    """Yield the same rows in shares of this height; what can only be read from its beginning stays whole."""
    if any(part.only_whole for part in parts):
        yield from parts
        return
    ends = np.cumsum([part.count for part in parts])
    for start in range(0, int(ends[-1]) if len(ends) else 0, height):
        stop = min(start + height, int(ends[-1]))
        first, last = np.searchsorted(ends, [start, stop - 1], side="right")
        inside = []
        for part, end in zip(parts[first : last + 1], ends[first : last + 1], strict=True):
            begin = int(end) - part.count
            if isinstance(part, Block):
                part = part.between(max(start - begin, 0), stop - begin)
            inside.append(part)
        holds = isinstance(parts[first], Block)
        yield _Range(tuple(inside), 0 if holds else start - int(ends[first] - parts[first].count), stop - start)


def _summed(
    work: Work[Sum], blocks: Iterable[tuple[np.ndarray, np.ndarray]], start: int, count: int, chunking: Chunking
) -> Sum:
    """Return the sum of the work over blocks, always in the same order: shares first, then these in a tree."""
    tree, within, share = _Tree(), None, chunking.share_rows(count)
    with closing(in_order(work, _pieces(blocks, start, chunking.height))) as sums:
        for i, found in enumerate(sums):
            if within is not None and i * chunking.height % share == 0:
                tree.add(within)
                within = None
            within = found if within is None else within + found
    if within is None:
        raise ArgumentError("blocks", NO_ROWS)
    tree.add(within)
    return tree.total()


class _Tree:
    """Sums that are added as a tree adds them, as soon as a branch is complete."""

    def __init__(self) -> None:
        self._levels: list[list[Any]] = []

    def add(self, leaf: Any) -> None:
        """Add the next leaf."""
        for level in self._levels:
            level.append(leaf)
            if len(level) < FAN_IN:
                return
            leaf = added(level)
            level.clear()
        self._levels.append([leaf])

    def total(self) -> Any:
        """Return the sum of all leaves."""
        rest: list[Any] = []
        for level in self._levels:
            if level or rest:
                rest = [added([*level, *rest])]
        return rest[0]


def _pieces(blocks: Iterable[tuple[np.ndarray, np.ndarray]], start: int, height: int) -> Iterator[Piece]:
    """Yield pieces of equal height, whatever the blocks were, and a last one that may be lower.

    Equal heights are compiled for once; and the same rows give the same sums to the last bit, in whatever blocks.
    """
    with closing(blocks):
        yield from _cut_evenly(blocks, start, height)


def _cut_evenly(blocks: Iterable[tuple[np.ndarray, np.ndarray]], start: int, height: int) -> Iterator[Piece]:
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    for rows, targets in blocks:
        z = np.asarray(targets, dtype=np.float64).reshape(len(targets), -1)
        missing = (height - sum(len(part) for part, _ in kept)) % height if kept else 0
        if kept:
            kept.append((rows[:missing], z[:missing]))
            if sum(len(part) for part, _ in kept) < height:
                continue
            yield _joined(kept, start)
            start, kept = start + height, []
        whole = missing + (len(rows) - missing) // height * height
        for i in range(missing, whole, height):
            yield Piece(start, rows[i : i + height], z[i : i + height])
            start += height
        if whole < len(rows):
            kept = [(rows[whole:], z[whole:])]
    if kept:
        yield _joined(kept, start)


def _joined(kept: list[tuple[np.ndarray, np.ndarray]], start: int) -> Piece:
    if len(kept) == 1:
        return Piece(start, *kept[0])
    return Piece(start, *(np.concatenate(arrays) for arrays in zip(*kept, strict=True)))
