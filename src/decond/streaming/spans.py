"""The range of rows, found in the same pass as whatever else is summed over them."""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from decond.errors import ArgumentError
from decond.streaming.sources import Piece, Source, Work

__all__ = ["Span", "Watched", "both_spans"]

Sum = TypeVar("Sum")


@dataclass(frozen=True, eq=False)
class Span:
    """The least and the largest value of each column; those of two tables together are the sum of theirs.

    >>> both = Span([0.0, 5.0], [1.0, 6.0]) + Span([-1.0, 7.0], [0.5, 8.0])
    >>> both.low, both.high
    (array([-1.,  5.]), array([1., 8.]))
    """

    low: Any
    high: Any

    def __post_init__(self) -> None:
        low, high = (np.asarray(end, dtype=np.float64) for end in (self.low, self.high))
        if low.ndim != 1 or low.shape != high.shape:
            raise ArgumentError(
                "high", f"a range has shapes {low.shape} and {high.shape}; both ends need one value a column."
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def __add__(self, other: "Span") -> "Span":
        return Span(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    def state(self) -> dict[str, np.ndarray]:
        """Return both ends as plain data."""
        return {"low": self.low, "high": self.high}


class Watched(Source):
    """Another source, which keeps the range of its rows from the first pass on; labels have none.

    >>> from decond.streaming import Table
    >>> table = Watched(Table([[3.0], [1.0]], [0.0, 0.0]))
    >>> float(table.total(lambda piece: piece.rows.sum())), table.span.low, table.span.high
    (4.0, array([1.]), array([3.]))
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.span: Span | None = None
        self.names, self.target_names, self.flat = source.names, source.target_names, source.flat
        self.chunking = source.chunking

    @property
    def width(self) -> int:
        return self.source.width

    def total(self, work: Work[Sum]) -> Sum:
        both = self.source.total(_AlsoSpan(work))
        self.span = both.span
        return both.sum

    def __len__(self) -> int:
        return len(self.source)


def both_spans(one: Span | None, other: Span | None) -> Span | None:
    """Return the range of two tables together; it is not known unless both are."""
    return None if one is None or other is None else one + other


@dataclass(frozen=True, eq=False)
class _AlsoSpan:
    """Work, and the range of the rows beside it."""

    work: Work[Any]

    def __call__(self, piece: Piece) -> "_Both":
        numbers = piece.rows.dtype.kind == "f"
        return _Both(self.work(piece), Span(piece.rows.min(axis=0), piece.rows.max(axis=0)) if numbers else None)


@dataclass(frozen=True, eq=False)
class _Both:
    sum: Any
    span: Span | None

    def __add__(self, other: "_Both") -> "_Both":
        return _Both(self.sum + other.sum, both_spans(self.span, other.span))
