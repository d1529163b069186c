"""How probable every row of x is for each task row, learned from pairs of numbers."""

import numpy as np
from scipy.special import logsumexp

from decond.residuals import ShiftedResiduals

__all__ = ["Chances"]

MOST_PAIRS = 500
"""Pairs that p(x | y) is learned from; of more, a random part."""


class Chances:
    """w_ij ∝ p(x_i | ỹ_j) / p(x_i): rows of x stand for their surroundings, so crowded ones count for less each.

    p(x | y) has a mean and a scale by regression on y, and residuals of any shape (`residuals.ShiftedResiduals`).
    p(x) is its average over the y of the pairs.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.standard_normal((300, 1))
    >>> x = y + 0.3 * rng.standard_normal((300, 1))
    >>> table = Chances(x, y, np.array([[0.0], [1.0]]), seed=0).table()
    >>> (table.T @ x).ravel().round(1)
    array([0., 1.])
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, y_task: np.ndarray, seed: int) -> None:
        self._x, self._task = x[:, np.ptp(x, axis=0) > 0.0], y_task
        self._center = self._x.mean(axis=0)
        self._residuals: ShiftedResiduals | None = None
        if self._x.shape[1]:
            chosen = np.sort(np.random.default_rng(seed).permutation(len(x))[:MOST_PAIRS])
            self._residuals = ShiftedResiduals(y[chosen], self._x[chosen], np.ones(len(chosen)))
            self._marginal = logsumexp(self._log_densities(y[chosen], 1.0), axis=1)

    def table(self, stretch: float = 1.0) -> np.ndarray:
        """Return probabilities (n, m); x follows y `stretch` times as much in the task table as in the pairs."""
        if self._residuals is None:
            return np.full((len(self._x), len(self._task)), 1.0 / len(self._x))
        logs = self._log_densities(self._task, stretch) - self._marginal[:, None]
        logs -= logsumexp(logs, axis=0)
        return np.exp(logs, out=logs)

    def _log_densities(self, y: np.ndarray, stretch: float) -> np.ndarray:
        """Return log p(x_i | y_j) at all rows of x, up to a constant for each j, (n, q)."""
        assert self._residuals is not None
        mean, scale = self._residuals.mean_and_scale(y)
        mean = self._center + stretch * (mean - self._center)
        logs = np.empty((len(self._x), len(y)))
        for j in range(len(y)):
            residual = (self._x - mean[j]) / scale[j]
            given = np.broadcast_to(y[j], (len(self._x), y.shape[1]))
            logs[:, j] = self._residuals.density.log_density(residual, given) - np.log(scale[j]).sum()
        return logs
