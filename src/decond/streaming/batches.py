"""Blocks of rows that come one after the other: a list of them, or anything that can be gone through again."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from decond.checks import as_rows, as_targets, column_names
from decond.errors import ArgumentError, ArgumentTypeError
from decond.streaming.parallel import ahead
from decond.streaming.sources import CHUNKING, NO_ROWS, Block, Chunking, Part, PartedSource, Source, Table

__all__ = ["Batches", "as_source"]


class Batches(PartedSource):
    """Blocks of rows: pairs (x, z) of any sizes, in a list or in anything whose ``iter`` starts over.

    The blocks of a list are checked once, and are parts of their own. Others are one part: they are counted once
    before the first pass, and checked in every pass. Data frames keep the names of their columns, which have to be
    the same in all blocks.

    >>> batches = Batches([([[0.0], [1.0]], [2.0, 3.0]), ([[4.0]], [5.0])])
    >>> len(batches), float(batches.total(lambda piece: piece.targets.sum()))
    (3, 10.0)
    """

    def __init__(self, blocks: Iterable[tuple[Any, Any]], *, chunking: Chunking = CHUNKING) -> None:
        if iter(blocks) is blocks:
            raise ArgumentTypeError(
                "blocks",
                f"the blocks come from a {type(blocks).__name__}, which can be read only once; they are read again "
                "and again. Give a list of (rows, targets), or an object whose __iter__ starts over.",
            )
        if isinstance(blocks, Sequence | np.ndarray):
            for i, block in enumerate(blocks):
                _check_pair(block, i)
        self._blocks, self.chunking = blocks, chunking

    @property
    def flat(self) -> bool:  # type: ignore[override]
        """Whether targets are a flat array, or columns."""
        return self._look.flat

    @property
    def names(self) -> list[str] | None:  # type: ignore[override]
        """The names of the columns, where the blocks are data frames."""
        return self._look.names

    @property
    def width(self) -> int:
        if not self._look.width:
            raise ArgumentError("blocks", NO_ROWS)
        return self._look.width

    def parts(self) -> Sequence[Part]:
        return self._look.parts

    @functools.cached_property
    def _look(self) -> "_Look":
        if isinstance(self._blocks, Sequence):
            found = list(_agreeing(self._blocks))
            blocks, names = [block for block, _ in found], found[0][1] if found else None
            width = blocks[0].rows.shape[1] if blocks else 0
            return _Look(blocks, width, all(block.targets.ndim == 1 for block in blocks), names)
        count, width, flat, names = 0, 0, True, None
        for name, x, z in _filled(self._blocks):
            if not width:
                width, names = as_rows(x, f"x of {name}", labels=True).shape[1], column_names(x)
            count, flat = count + len(x), flat and np.ndim(z) == 1
        return _Look([_Stream(self._blocks, count)], width, flat, names)


def as_source(rows: Any, targets: Any = None) -> Source:
    """Return a source: itself, a table in memory, or a list of blocks if no targets are given beside it.

    >>> type(as_source([[0.0], [1.0]], [2.0, 3.0])).__name__, type(as_source([([[0.0]], [2.0])])).__name__
    ('Table', 'Batches')
    """
    if isinstance(rows, Source):
        return rows
    return Batches(rows) if targets is None else Table(rows, targets)


class _Look(NamedTuple):
    """What one look at all blocks tells."""

    parts: Sequence[Part]
    width: int
    """Columns of the rows; zero if there are none."""
    flat: bool
    names: list[str] | None


@dataclass(frozen=True, eq=False)
class _Stream:
    """Blocks that come one after the other."""

    blocks: Iterable[tuple[Any, Any]]
    count: int
    name = "the blocks"
    holds_rows = True
    only_whole = True

    def read(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return ahead((block.rows, block.targets) for block, _ in _agreeing(self.blocks))


def _check_pair(block: Any, number: int) -> None:
    if not (isinstance(block, tuple | list) and len(block) == 2 and all(hasattr(part, "__len__") for part in block)):
        raise ArgumentTypeError(
            f"blocks[{number}]",
            f"block {number} is a {type(block).__name__}, but each block is a pair (rows, targets). A single block "
            "is given as Batches([(x, z)]), a table in memory as Table(x, z).",
        )


def _filled(blocks: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, rows and targets of the blocks that have rows."""
    for i, block in enumerate(blocks):
        _check_pair(block, i)
        x, z = block
        if len(x):
            yield f"block {i}", x, z


def _agreeing(blocks: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Block, list[str] | None]]:
    """Yield the blocks that have rows, checked, with the names of their columns; all need those of the first."""
    first = None
    for name, x, z in _filled(blocks):
        rows = as_rows(x, f"x of {name}", labels=True)
        block = Block(rows, as_targets(z, f"z of {name}", len(rows), f"x of {name}"), name)
        columns = _columns(block)
        first = first or (name, columns, column_names(x))
        for what, given, known in zip("xz", columns, first[1], strict=True):
            if given != known:
                raise ArgumentError(
                    f"{what} of {name}",
                    f"{what} of {name} has {given} column(s), but that of {first[0]} has {known}; give the same "
                    "columns, in the same order, in all blocks.",
                )
        if column_names(x) != first[2]:
            raise ArgumentError(
                f"x of {name}",
                f"x of {name} has {_said(column_names(x))}, but that of {first[0]} has {_said(first[2])}; give the "
                "same columns, in the same order, in all blocks.",
            )
        yield block, first[2]


def _said(names: list[str] | None) -> str:
    return "columns without names" if names is None else f"the columns {', '.join(names)}"


def _columns(block: Block) -> tuple[int, int]:
    """Return how many columns the rows and the targets have."""
    return block.rows.shape[1], 1 if block.targets.ndim == 1 else block.targets.shape[1]
