"""Groups of which only some rows are listed: draws of what the whole group may be.

A random-effects model of x: row i of group j is c_j + s_j u_i. Centers are Gaussian about a common one, scales of
each column are about a common one as in Smyth (2004, doi:10.2202/1544-6115.1027), and u has a density of any shape.
What the groups have in common is estimated from the listed rows: variances by moments, then the shape in a few
rounds. Each draws centers and scales given the shape, and learns the shape from the residuals (stochastic EM, Celeux
& Diebolt 1985).

Draws of c_j, s_j and of the rows that are not listed complete a group. Which draw is right, its target may tell.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.special import digamma, polygamma

from decond.conditional.mediator import varying_columns
from decond.conditional.residual_density import ResidualDensity, ResidualSettings

__all__ = ["CompletedGroups", "CompletionSettings", "completed_groups"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CompletionSettings:
    """Sizes of `completed_groups`: larger ones cost time and change answers little.

    >>> CompletionSettings(completions=100).support
    300
    """

    completions: int = 50
    """Completions of each group."""
    support: int = 300
    """Rows of x that completions put weights on: listed ones (of many a random part), then draws."""
    many: int = 200
    """Rows that stand for infinitely many."""
    proposals: int = 200
    """Draws of the center and scale of a group, from which those given the shape are resampled."""
    rounds: int = 5
    """Rounds in which the shape is learned."""
    components: int = 100
    """Residuals that the shape is made of, of more a random part."""


class CompletedGroups(NamedTuple):
    """Rows (s, d), the weights of the rows in each completion (s, c), and probabilities of completions (c, m)."""

    support: Array
    completions: Array
    probabilities: Array


def completed_groups(
    x: Array, group: NDArray[np.intp], sizes: Array, seed: int, settings: CompletionSettings | None = None
) -> CompletedGroups | None:
    """Return draws of what each group may be as a whole; None where they cannot be told.

    Parameters
    ----------
    x : ndarray of shape (n, d)
        Listed rows, numbers.
    group : ndarray of int of shape (n,)
        The group of each row, from 0.
    sizes : ndarray of shape (m,)
        How many rows each group has, possibly infinity.
    seed : int
        Seed of the draws.
    settings : CompletionSettings, optional
        Sizes.

    Returns
    -------
    CompletedGroups or None
        None if x does not vary, or not within groups, or if completions rest on fewer rows (in effective numbers)
        than are listed of a group, which then stand for it better.

    Examples
    --------
    >>> x = np.repeat([0.0, 10.0], 20)[:, None] + np.tile(np.linspace(-1.0, 1.0, 20), 2)[:, None]
    >>> found = completed_groups(x, np.repeat([0, 1], 20), np.array([40, 40]), seed=0)
    >>> means = found.completions.T @ found.support
    >>> (found.probabilities.T @ means).ravel().round(0)
    array([ 0., 10.])
    """
    settings, rng = settings or CompletionSettings(), np.random.default_rng(seed)
    moving, counts = varying_columns(x), np.bincount(group)
    effects = _RandomEffects.of(x[:, moving], group) if moving.any() and np.any(counts > 1) else None
    if effects is None:
        return None
    effects.learn_shape(settings, rng)
    m, k = len(counts), settings.completions
    owner = np.repeat(np.arange(m), k)
    scales, centers = (draws.reshape(m * k, -1) for draws in effects.draw(k, settings.proposals, rng))
    kept = np.sort(rng.permutation(len(x))[: settings.support])
    missing = settings.support - len(kept)
    chosen = rng.integers(m * k, size=missing)
    drawn = centers[chosen] + scales[chosen] * effects.residual[rng.integers(len(effects.residual), size=missing)]
    support = np.vstack([x[kept], np.tile(x.mean(axis=0), (missing, 1))])
    support[len(kept) :, moving] = drawn * effects.unit
    rows = np.vstack([effects.rows[kept], drawn])

    logs = effects.log_densities(rows[:, None, :] - centers, scales)
    densities = np.exp(logs - logs.max(axis=1, keepdims=True))
    origin = (counts * len(kept) / len(x) + missing / m) / len(rows)  # the density that the support comes from
    densities /= (densities.reshape(len(rows), m, k).mean(axis=2) @ origin)[:, None]
    densities /= densities.sum(axis=0)
    if np.mean(1.0 / (densities**2).sum(axis=0)) < np.mean(counts):
        return None
    left = np.where(np.isfinite(sizes), sizes - counts, settings.many)
    others = rng.multinomial(np.maximum(left, 1.0).astype(int)[owner], densities.T).T.astype(np.float64)
    listed = np.zeros((len(rows), m))
    np.add.at(listed, (cKDTree(rows).query(effects.rows)[1], group), 1.0 / counts[group])
    portion = (counts / sizes)[owner]
    completions = portion * listed[:, owner] + (1.0 - portion) * others / others.sum(axis=0)
    return CompletedGroups(support, completions, (owner[:, None] == np.arange(m)) / k)


@dataclass
class _RandomEffects:
    """The model, in units in which the mean squared scale is one in every column."""

    unit: Array
    rows: Array
    group: NDArray[np.intp]
    counts: NDArray[np.intp]
    between: Array
    """Variances of the centers (d,)."""
    freedom: Array
    squares: Array
    """(m, d) each: s_j² of a column is `squares` over χ² with `freedom` degrees, given the listed rows."""
    residual: Array
    """Draws of u."""

    @classmethod
    def of(cls, x: Array, group: NDArray[np.intp]) -> "_RandomEffects | None":
        """Return the model with variances by moments; None if x does not vary within groups."""
        counts = np.bincount(group)
        within = ((x - (_sums(group, x) / counts[:, None])[group]) ** 2).sum(axis=0) / (counts - 1).sum()
        if np.any(within <= 1e-12 * x.var(axis=0)):
            return None
        unit = np.sqrt(within)
        rows = x / unit
        means = _sums(group, rows) / counts[:, None]
        residual = rows - means[group]
        between = means.var(axis=0, ddof=1) - np.mean(1.0 / counts)
        squares, freedom = _sums(group, residual**2), (counts - 1.0).astype(np.float64)
        priors = np.array([_scale_prior(column, freedom) for column in squares.T])
        squares, freedoms = squares + priors[:, 0] * priors[:, 1], freedom[:, None] + priors[:, 0]
        several = (counts > 1)[group]
        scale = np.sqrt(np.maximum(1.0 - 1.0 / counts, 0.5)[:, None] * squares / freedoms)
        shape = (residual / scale[group])[several]
        return cls(unit, rows, group, counts, np.maximum(between, 1e-6), freedoms, squares, shape)

    def learn_shape(self, settings: CompletionSettings, rng: np.random.Generator) -> None:
        """Set the density of u by stochastic EM."""
        several = (self.counts > 1)[self.group]
        for last in range(settings.rounds, -1, -1):
            self._set_shape(settings.components, rng)
            if last:
                scales, centers = (draws[self.group, 0] for draws in self.draw(1, settings.proposals, rng))
                residual = ((self.rows - centers) / scales)[several]
                self.residual = residual - residual.mean(axis=0)

    def _set_shape(self, components: int, rng: np.random.Generator) -> None:
        everywhere = np.zeros((len(self.residual), 1))
        everyone, anywhere = np.ones(len(self.residual)), ResidualSettings(localities=(np.inf,))
        self._density = ResidualDensity(self.residual, everywhere, everyone, settings=anywhere)
        points = self._density.points[rng.permutation(len(self.residual))[:components]]
        points = (points - points.mean(axis=0)) / np.maximum(points.std(axis=0), 1e-12)
        self._components = np.sqrt(1.0 - self._density.width**2) * points

    def draw(self, count: int, proposals: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return draws of scales and centers of the groups, (m, count, d) each.

        Proposals come from the posterior for Gaussian u. They are resampled by the ratio of the density to that.
        """
        m = len(self.counts)
        means = _sums(self.group, self.rows) / self.counts[:, None]
        shape = (m, proposals, self.rows.shape[1])
        scales = np.sqrt(self.squares[:, None] / rng.chisquare(self.freedom[:, None], size=shape))
        sampling = scales**2 / self.counts[:, None, None]
        gain = self.between / (self.between + sampling)
        centers = means.mean(axis=0) + gain * (means - means.mean(axis=0))[:, None, :]
        centers = centers + np.sqrt(gain * sampling) * rng.standard_normal(centers.shape)
        difference, scale = self.rows[:, None, :] - centers[self.group], scales[self.group]
        gaussian = (-0.5 * (difference / scale) ** 2 - np.log(scale)).sum(axis=2)
        logs = _sums(self.group, self.log_densities(difference, scale) - gaussian)
        cumulative = np.exp(logs - logs.max(axis=1, keepdims=True)).cumsum(axis=1)
        heights = rng.random((m, count)) * cumulative[:, -1:]
        chosen = (cumulative[:, None, :] < heights[:, :, None]).sum(axis=2)
        groups = np.arange(m)[:, None]
        return scales[groups, chosen], centers[groups, chosen]

    def log_densities(self, difference: Array, scale: Array) -> Array:
        """Return log densities of rows less centers (q, k, d), given scales (q, k, d) or (k, d), up to a constant."""
        width = self._density.width
        u = self._density.whitened((difference / scale).reshape(-1, difference.shape[2]))
        if width == 1.0:
            logs = -0.5 * (u**2).sum(axis=1)
        else:
            total = np.zeros(len(u))
            for component in self._components:
                total += np.exp(-0.5 / width**2 * ((u - component) ** 2).sum(axis=1))
            logs = np.log(np.maximum(total, 1e-300))
        return logs.reshape(difference.shape[:2]) - np.log(scale).sum(axis=-1)


def _sums(group: NDArray[np.intp], values: Array) -> Array:
    """Return the sum over the rows of each group, column by column."""
    return np.array([np.bincount(group, column) for column in values.T]).T


def _scale_prior(squares: Array, freedom: Array) -> tuple[float, float]:
    """Return degrees of freedom and value of the common squared scale, from log variances of groups (Smyth 2004)."""
    seen = (freedom > 0.0) & (squares > 0.0)
    half = 0.5 * freedom[seen]
    logs = np.log(squares[seen] / freedom[seen]) - digamma(half) + np.log(half)
    excess = logs.var(ddof=1) - polygamma(1, half).mean() if len(logs) > 1 else 0.0
    if excess <= polygamma(1, 500.0):
        return 1000.0, float(np.exp(logs.mean()))  # as good as equal
    prior = 0.5 + 1.0 / excess
    for _ in range(50):  # Newton's method for trigamma(prior) = excess
        slope = polygamma(1, prior)
        prior += slope * (1.0 - slope / excess) / polygamma(2, prior)
    return 2.0 * float(prior), float(np.exp(logs.mean() + digamma(prior) - np.log(prior)))
