"""The distribution of x given a mediator of numbers, as weights on support points, learned from pairs."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtri

from decond.conditional import ShiftedResiduals
from decond.estimators.defaults import moves, spread

__all__ = ["DensitySettings", "InputDensity"]


@dataclass(frozen=True)
class DensitySettings:
    """Settings of `InputDensity`."""

    support: int = 500
    """Support points: rows of x, completed by draws from the density where there are fewer."""
    most_pairs: int = 500
    """Pairs that the density is learned from; of more, a random part."""


class InputDensity:
    """p(x | y) at support points: w_ij ∝ p(x_i | ỹ_j) / q(x_i), q the density that the support points come from.

    p(x | y) has a mean and a scale by regression on y, and residuals of any shape (`residuals.ShiftedResiduals`).
    Support points are rows of x and, where these are few, draws from p(x | ỹ) at the task rows.

    Parameters
    ----------
    x : ndarray of shape (n, d)
        Numbers.
    y : ndarray of shape (n, e)
        Their mediator, numbers.
    y_task : ndarray of shape (m, e)
        Mediator of the task rows.
    seed : int
        Seed of the draws.
    settings : DensitySettings, optional
        Sizes.

    Attributes
    ----------
    support : ndarray of shape (s, d)
        The support points.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.standard_normal((300, 1))
    >>> x = y + 0.3 * rng.standard_normal((300, 1))
    >>> density = InputDensity(x, y, np.array([[0.5], [1.0]]), seed=0)
    >>> (density.table().T @ density.support).ravel().round(1)
    array([0.5, 1. ])
    """

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray,
        y_task: np.ndarray,
        seed: int,
        settings: DensitySettings | None = None,
    ) -> None:
        self.settings = settings or DensitySettings()
        self._rng = np.random.default_rng(seed)
        self._columns, used = moves(x), moves(y)
        origin, scale = y.mean(axis=0), spread(y)
        pairs, self._task = (((rows - origin) / scale)[:, used] for rows in (y, y_task))
        self._varies = bool(self._columns.any() and used.any())
        joint, counts = np.unique(np.column_stack([pairs, x[:, self._columns]]), axis=0, return_counts=True)
        chosen = np.sort(self._rng.permutation(len(joint))[: self.settings.most_pairs])
        self._y, self._x = np.split(joint[chosen], [pairs.shape[1]], axis=1)
        self._counts = counts[chosen].astype(np.float64)  # a pair that is listed twice is one row of weight two
        rows = x[np.sort(self._rng.permutation(len(x))[: self.settings.support])]
        self.support, self._drawn = rows, 0
        if self._varies:
            self._learned = ShiftedResiduals(self._y, self._x, self._counts)
            missing = self.settings.support - len(rows)
            if missing > 0:
                self._drawn = missing
                drawn = np.tile(rows.mean(axis=0), (missing, 1))
                drawn[:, self._columns] = self._draws(missing)
                self.support = np.vstack([rows, drawn])

    def bootstrap(self, count: int, drift: float = 0.0) -> list[np.ndarray]:
        """Return tables for Bayesian bootstrap samples of the pairs (Rubin 1981), each like `table`.

        With `drift`, E[x | y] is stretched about the mean of x in the pairs by factors 1 + s, s at quantiles of
        N(0, drift²), one for each sample.
        """
        if not self._varies:
            return [self.table()] * count
        stretches = 1.0 + drift * ndtri((np.arange(count) + 0.5) / count)
        tables = []
        for stretch in self._rng.permutation(stretches):
            weights = self._rng.gamma(self._counts)
            tables.append(self._table(ShiftedResiduals(self._y, self._x, weights), weights, float(stretch)))
        return tables

    def table(self) -> np.ndarray:
        """Return probabilities (s, m) of the support points for each task row; columns sum to one."""
        if not self._varies:
            return np.full((len(self.support), len(self._task)), 1.0 / len(self.support))
        return self._table(self._learned, self._counts, 1.0)

    def _table(self, learned: ShiftedResiduals, weights: np.ndarray, stretch: float) -> np.ndarray:
        task = self._log_densities(learned, self._task, stretch)
        share = np.log(weights / weights.sum() * (len(self.support) - self._drawn))
        proposal = logsumexp(self._log_densities(learned, self._y, 1.0) + share, axis=1)
        if self._drawn:
            origin = task if stretch == 1.0 else self._log_densities(learned, self._task, 1.0)
            drawn = logsumexp(origin, axis=1) + np.log(self._drawn / len(self._task))
            proposal = np.logaddexp(proposal, drawn)
        logs = task - proposal[:, None]
        logs -= logs.max(axis=0)
        table = np.exp(logs, out=logs)
        table /= table.sum(axis=0)
        return table

    def _log_densities(self, learned: ShiftedResiduals, y: np.ndarray, stretch: float) -> np.ndarray:
        """Return log p(x_i | y_j) at all support points, (s, q)."""
        points = self.support[:, self._columns]
        mean, scale = learned.mean_and_scale(y)
        center = self._x.mean(axis=0)
        mean = center + stretch * (mean - center)
        logs = np.empty((len(points), len(y)))
        for j in range(len(y)):
            residual = (points - mean[j]) / scale[j]
            logs[:, j] = learned.density.log_density(residual, y[j : j + 1]) - np.log(scale[j]).sum()
        return logs

    def _draws(self, count: int) -> np.ndarray:
        """Draw rows of x, for task rows in turn, from residuals of the pairs smoothed as their density is."""
        order = self._rng.permutation(len(self._task))
        mean, scale = self._learned.mean_and_scale(self._task[order[np.arange(count) % len(order)]])
        center, width = self._learned.left_out
        chosen = self._rng.choice(len(self._x), count, p=self._counts / self._counts.sum())
        residual = ((self._x - center) / width)[chosen]
        smoothing = min(self._learned.density.width, 1.0)
        noise = residual.std(axis=0) * self._rng.standard_normal(residual.shape)
        return mean + scale * (np.sqrt(1.0 - smoothing**2) * residual + smoothing * noise)
