"""A first look at a table: how many rows it has, where its targets lie, and a sample of it."""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from decond.streaming.sources import Piece, Source, Table

__all__ = ["SAMPLE", "Chosen", "Survey", "survey"]

SAMPLE = 10_000
"""Rows of a sample, of tables that have more than twice as many."""


class Chosen(NamedTuple):
    """Some rows of a table, with their numbers in it."""

    positions: np.ndarray
    rows: np.ndarray
    targets: np.ndarray


@dataclass(frozen=True, eq=False)
class Survey:
    """What is known of a table after one pass: moments of the targets of all rows, and some rows or all of them.

    >>> one, two = (survey(Table([[0.0]], [z]), seed=0) for z in (2.0, 6.0))
    >>> (one + two).mean, (one + two).squares
    (array([4.]), array([8.]))
    """

    count: int
    mean: np.ndarray
    """The mean of each target column (t,)."""
    squares: np.ndarray
    """The sum of squared deviations from it (t,)."""
    chosen: tuple[Chosen, ...]

    def __add__(self, other: "Survey") -> "Survey":
        count = self.count + other.count
        apart = other.mean - self.mean
        mean = self.mean + apart * (other.count / count)
        squares = self.squares + other.squares + apart**2 * (self.count * other.count / count)
        return Survey(count, mean, squares, self.chosen + other.chosen)

    @functools.cached_property
    def sample(self) -> Table:
        """The rows that were chosen, in their order."""
        parts = sorted(self.chosen, key=lambda part: part.positions[0])
        return Table(np.concatenate([part.rows for part in parts]), np.concatenate([part.targets for part in parts]))

    @property
    def complete(self) -> bool:
        """Whether all rows were chosen."""
        return sum(len(part.positions) for part in self.chosen) == self.count

    def standardized(self, offset: np.ndarray, scale: np.ndarray) -> "Survey":
        """Return what would be known if targets were (z - offset) / scale."""
        chosen = tuple(part._replace(targets=(part.targets - offset) / scale) for part in self.chosen)
        return Survey(self.count, (self.mean - offset) / scale, self.squares / scale**2, chosen)


def survey(source: Source, seed: int, size: int = SAMPLE) -> Survey:
    """Look at a table: all of it where it has up to twice `size` rows, else so many at random.

    Which rows these are depends on the seed and on the number of rows, not on where the table lies.

    >>> found = survey(Table([[0.0], [1.0], [2.0]], [1.0, 2.0, 6.0]), seed=0)
    >>> found.mean, found.squares, found.complete
    (array([3.]), array([14.]), True)
    """
    count = len(source)
    if count <= 2 * size:
        return source.total(_Look(np.arange(count)))
    return source.total(_Look(np.sort(np.random.default_rng(seed).choice(count, size, replace=False))))


@dataclass(frozen=True, eq=False)
class _Look:
    """From a piece of rows to its survey."""

    positions: np.ndarray

    def __call__(self, piece: Piece) -> Survey:
        first, last = np.searchsorted(self.positions, [piece.start, piece.start + len(piece.rows)])
        positions = self.positions[first:last]
        local = positions - piece.start
        chosen = (Chosen(positions, piece.rows[local], piece.targets[local]),) if len(local) else ()
        mean = piece.targets.mean(axis=0)
        return Survey(len(piece.rows), mean, np.square(piece.targets - mean).sum(axis=0), chosen)
