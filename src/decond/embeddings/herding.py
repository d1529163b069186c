"""Kernel herding: points that together stand for an embedding (Chen, Welling & Smola 2010)."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from decond.kernels.kernel import Kernel
from decond.kernels.stationary import Stationary, check_columns

__all__ = ["Herding"]


@dataclass(frozen=True)
class HerdingSettings:
    """When rows of the Gram matrix are remembered, and when they are computed together."""

    cache_entries: int = 25_000_000
    """Kernel entries kept for candidates that may be chosen again (200 MB)."""
    row_overhead: int = 4_000
    """Kernel entries that could be computed in the time it takes to begin a row."""
    fewest_rows: int = 8
    """Rows computed one by one before it is asked whether all of them together would be cheaper."""


class Herding:
    """Greedy super-samples from candidates, as in the paper's Algorithm 8.1 (lines 6 to 9).

    Sample s is the candidate with the largest μ_r - a_r / s, where μ holds the values of the embedding at the
    candidates and a the sum of kernel rows of the samples so far; the first of equals is taken. Each sample costs one
    kernel row, rows of candidates chosen before are remembered, and where most candidates are going to be chosen
    their Gram matrix is computed at once. `draw` can be called again and continues.

    >>> from decond.kernels import RBF
    >>> candidates = np.array([[0.0], [1.0], [2.0]])
    >>> herding = Herding(np.array([0.9, 0.5, 0.8]), candidates, RBF(0.5))
    >>> herding.draw(2).ravel(), herding.draw(1).ravel()
    (array([0., 2.]), array([0.]))
    """

    def __init__(
        self,
        values: np.ndarray,
        candidates: np.ndarray,
        kernel: Kernel,
        cache_entries: int = HerdingSettings.cache_entries,
    ) -> None:
        self.values, self.candidates, self.kernel = values, candidates, kernel
        self.cache_entries = cache_entries
        self.total = np.zeros(len(candidates))
        self.count = 0
        self._rows: dict[int, np.ndarray] = {}
        self._seen: set[int] = set()
        self._scaled = _scaled(kernel, candidates)

    def draw(self, n: int) -> np.ndarray:
        """Return the next n samples (n, d)."""
        return self.candidates[self.draw_indices(n)]

    def draw_indices(self, n: int) -> np.ndarray:
        """Return the candidates' numbers of the next n samples."""
        chosen = np.empty(n, dtype=int)
        total, rows, score = self.total, self._rows, np.empty_like(self.total)
        new = 0
        for i in range(n):
            self.count += 1
            np.multiply(total, -1.0 / self.count, out=score)
            np.add(score, self.values, out=score)
            best = int(score.argmax())
            row = rows.get(best)
            if row is None:
                new += 1
                row = self._new_row(
                    best, expected=(n - i) * new / (i + 1) if new >= HerdingSettings.fewest_rows else 0.0
                )
            np.add(total, row, out=total)
            chosen[i] = best
        return chosen

    def _new_row(self, index: int, expected: float) -> np.ndarray:
        """Return a row that is not remembered, where as many are `expected` to be asked for, this one included.

        It is remembered if there is room for all rows, or if it was asked for before: to fill fresh memory takes as
        long as to compute a row.
        """
        size = len(self.candidates)
        room_for_all = size**2 <= self.cache_entries
        missing = size - len(self._rows)
        if room_for_all and expected * (size + HerdingSettings.row_overhead) > missing * size:
            self._remember_all()
            return self._rows[index]
        row: np.ndarray = self._gram(slice(index, index + 1))[0]
        if (room_for_all or index in self._seen) and (len(self._rows) + 1) * size <= self.cache_entries:
            self._rows[index] = row
        self._seen.add(index)
        return row

    def _remember_all(self) -> None:
        """Compute the rows that are missing together."""
        missing = [index for index in range(len(self.candidates)) if index not in self._rows]
        self._rows.update(zip(missing, self._gram(missing), strict=True))

    def _gram(self, which: slice | list[int]) -> np.ndarray:
        """Return rows of the candidates' Gram matrix."""
        if self._scaled is not None and isinstance(self.kernel, Stationary):
            return self.kernel.profile(cdist(self._scaled[which], self._scaled, "sqeuclidean"))
        return self.kernel.gram(self.candidates[which], self.candidates)


def _scaled(kernel: Kernel, candidates: np.ndarray) -> np.ndarray | None:
    """Return candidates in lengthscales for kernels of the distance; to scale them takes longer than a kernel row."""
    if not isinstance(kernel, Stationary) or type(kernel)._gram is not Stationary._gram:
        return None
    check_columns(kernel, "lengthscale", kernel.lengthscale, candidates.shape[1])
    return (candidates - candidates[:1]) / kernel.lengthscale
