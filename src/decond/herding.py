"""Kernel herding: points that together stand for an embedding (Chen, Welling & Smola 2010)."""

import numpy as np

from decond.kernels.base import Kernel

__all__ = ["Herding"]

ROW_CACHE_ENTRIES = 25_000_000
"""Kernel entries kept for candidates that may be chosen again (200 MB)."""


class Herding:
    """Greedy super-samples from candidates, as in the paper's Algorithm 8.1 (lines 6 to 9).

    Sample s is the candidate with the largest μ_r - a_r / s, where μ holds the values of the embedding at the
    candidates and a the sum of kernel rows of the samples so far. Each sample costs one kernel row, and rows of
    candidates chosen before are remembered. `draw` can be called again and continues.

    >>> from decond.kernels import RBF
    >>> candidates = np.array([[0.0], [1.0], [2.0]])
    >>> herding = Herding(np.array([0.9, 0.5, 0.8]), candidates, RBF(0.5))
    >>> herding.draw(2).ravel(), herding.draw(1).ravel()
    (array([0., 2.]), array([0.]))
    """

    def __init__(self, values: np.ndarray, candidates: np.ndarray, kernel: Kernel) -> None:
        self.values, self.candidates, self.kernel = values, candidates, kernel
        self.total = np.zeros(len(candidates))
        self.count = 0
        self._rows: dict[int, np.ndarray] = {}

    def draw(self, n: int) -> np.ndarray:
        """Return the next n samples (n, d)."""
        return self.candidates[self.draw_indices(n)]

    def draw_indices(self, n: int) -> np.ndarray:
        """Return the candidates' numbers of the next n samples."""
        chosen = np.empty(n, dtype=int)
        score = np.empty_like(self.total)
        for i in range(n):
            self.count += 1
            np.multiply(self.total, -1.0 / self.count, out=score)
            score += self.values
            chosen[i] = score.argmax()
            self.total += self._row(int(chosen[i]))
        return chosen

    def _row(self, index: int) -> np.ndarray:
        row = self._rows.get(index)
        if row is None:
            row = self.kernel.gram(self.candidates[index : index + 1], self.candidates)[0]
            if len(self._rows) * len(row) < ROW_CACHE_ENTRIES:
                self._rows[index] = row
        return row
