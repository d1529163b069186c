"""How probable every row of x is for each task row, learned from pairs of numbers."""

import numpy as np
from scipy.special import logsumexp

from decond.estimators.defaults import moves, spread
from decond.estimators.mediation import MOST_PAIRS
from decond.residuals import ShiftedResiduals

__all__ = ["Chances"]


class Chances:
    """w_ij ∝ p(x_i | ỹ_j) / p(x_i): rows of x stand for their surroundings, so crowded ones count for less each.

    p(x | y) has a mean and a scale by regression on y, and residuals of any shape (`residuals.ShiftedResiduals`).
    p(x) is its average over the y of at most MOST_PAIRS pairs. Where x or y never changes, all rows are alike.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.standard_normal((300, 1))
    >>> x = y + 0.3 * rng.standard_normal((300, 1))
    >>> table = Chances(x, y, np.array([[0.5], [1.0]]), seed=0).table()
    >>> (table.T @ x).ravel().round(1)
    array([0.5, 1. ])
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, y_task: np.ndarray, seed: int) -> None:
        used = moves(y)
        origin, scale = y.mean(axis=0), spread(y)
        pairs, self._task = (((rows - origin) / scale)[:, used] for rows in (y, y_task))
        self._x = x[:, moves(x)]
        self._center = self._x.mean(axis=0)
        self._residuals: ShiftedResiduals | None = None
        self.pairs = len(x)
        """How many pairs it was learned from."""
        if self._x.shape[1] and used.any():
            self._learn(pairs, np.random.default_rng(seed))

    def _learn(self, pairs: np.ndarray, rng: np.random.Generator) -> None:
        """Learn p(x | y) and p(x). A pair that is there several times is one row with a weight: it tells no more."""
        joint = np.column_stack([pairs, self._x])
        rows, index, counts = np.unique(joint, axis=0, return_inverse=True, return_counts=True)
        chosen = np.sort(rng.permutation(len(rows))[:MOST_PAIRS])
        y, x = np.split(rows[chosen], [pairs.shape[1]], axis=1)
        self.pairs = len(chosen)
        self._residuals = ShiftedResiduals(y, x, counts[chosen].astype(float))
        self._marginal = logsumexp(self._log_densities(y, 1.0), axis=1, b=counts[chosen])
        others = ~np.isin(index.ravel(), chosen)  # their own y counts too, or they would look improbable
        own = self._residuals.log_density(self._x[others], pairs[others])
        self._marginal[others] = np.logaddexp(self._marginal[others], own)

    def table(self, stretch: float = 1.0) -> np.ndarray:
        """Return probabilities (n, m); x follows y `stretch` times as much in the task table as in the pairs."""
        if self._residuals is None:
            return np.full((len(self._x), len(self._task)), 1.0 / len(self._x))
        logs = self._log_densities(self._task, stretch)
        logs -= self._marginal[:, None]
        logs -= logs.max(axis=0)
        table = np.exp(logs, out=logs)
        table /= table.sum(axis=0)
        return table

    def _log_densities(self, y: np.ndarray, stretch: float) -> np.ndarray:
        """Return log p(x_i | y_j) at all rows of x, (n, q)."""
        assert self._residuals is not None
        mean, scale = self._residuals.mean_and_scale(y)
        mean = self._center + stretch * (mean - self._center)
        logs = np.empty((len(self._x), len(y)))
        for j in range(len(y)):
            residual = (self._x - mean[j]) / scale[j]
            logs[:, j] = self._residuals.density.log_density(residual, y[j : j + 1]) - np.log(scale[j]).sum()
        return logs
