"""A Gaussian inside a box that is as near as possible to a posterior, in Kullback–Leibler divergence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import special, stats

__all__ = ["BoxedGaussian", "fit_gaussian", "lower_bound"]

LogDensity = Callable[[np.ndarray], np.ndarray]

POINTS = 2**11
"""Quasi-random points behind each step of `fit_gaussian`."""

SWEEPS = 20
"""Times that Gibbs sampling draws every coordinate of a cut Gaussian anew, after weights chose where it starts."""

ITERATIONS, ENOUGH = 60, 1e-3
"""Most steps, and the change of mean and covariance, in standard deviations, below which there are no more."""

DAMPING = 0.5
"""Share of the way to the fitted quadratic that a step goes."""

FARTHEST, STEEPEST, FLATTEST = 2.0, 4.0, 0.5
"""Farthest that a step moves the draws, in their standard deviations; factors by which it may change a precision."""

NARROWEST, WIDEST = 1e-6, 3.0
"""Bounds on the standard deviation in any direction, in working units; the widest is almost flat on a box."""

SAME = 1e-9
"""Difference of log weights below which they are one."""


@dataclass(frozen=True)
class BoxedGaussian:
    """A Gaussian with a full covariance, cut to a box; its mean, before the cut, may lie outside.

    >>> box = BoxedGaussian(np.full(1, -30.0), np.eye(1), np.zeros(1), np.full(1, np.inf))
    >>> draws = box.sample(1000, np.random.default_rng(0))
    >>> bool(draws.min() > 0.0), bool(abs(draws.mean() - 1 / 30) < 0.005)
    (True, True)
    """

    mean: np.ndarray
    root: np.ndarray
    """Lower triangular; the covariance is its product with its transpose."""
    low: np.ndarray
    high: np.ndarray

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws (n, d): exact where no cut depends on other coordinates, else by Gibbs sampling."""
        if np.isinf(self.low).all() and np.isinf(self.high).all():
            return self.mean + rng.standard_normal((n, len(self.mean))) @ self.root.T
        phi, log_weights = self.inside(rng.random((max(n, POINTS), len(self.mean))))
        if np.ptp(log_weights) < SAME:
            return phi[:n]
        phi = phi[rng.choice(len(phi), size=n, p=special.softmax(log_weights))]
        precision = np.linalg.inv(self.root @ self.root.T)
        for i in np.tile(np.arange(phi.shape[1]), SWEEPS):
            scale = 1.0 / np.sqrt(precision[i, i])
            center = phi[:, i] - scale**2 * ((phi - self.mean) @ precision[i])
            low, high = (self.low[i] - center) / scale, (self.high[i] - center) / scale
            z, _ = _cut_normal(rng.random(n), low, high)
            phi[:, i] = np.clip(center + scale * z, self.low[i], self.high[i])
        return phi

    def widened(self, factor: float) -> Self:
        """Return the Gaussian with standard deviations times a factor, in the same box."""
        return type(self)(self.mean, factor * self.root, self.low, self.high)

    def inside(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return points of the box (n, d) for rows of the unit cube, and the logs of their weights.

        Each coordinate is a quantile of its Gaussian given the coordinates before it, cut to the box; the weight is
        the product of the shares that these cuts keep. Weighted so, the points are those of the cut Gaussian, and
        the mean weight is the share of the Gaussian inside the box.
        """
        phi, log_weights = np.empty_like(points), np.zeros(len(points))
        z = np.zeros_like(points)
        for i, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            center, scale = self.mean[i] + z @ self.root[i], self.root[i, i]
            z[:, i], log_share = _cut_normal(points[:, i], (low - center) / scale, (high - center) / scale)
            phi[:, i] = np.clip(center + scale * z[:, i], low, high)
            log_weights += log_share
        return phi, log_weights


def fit_gaussian(log_density: LogDensity, start: BoxedGaussian, seed: int) -> BoxedGaussian:
    """Return the boxed Gaussian q that maximizes E_q[log p − log q], from any start.

    At the optimum, log q is the regression of log p on 1, φ and φφᵀ under q itself (Salimans & Knowles 2013). Each
    step fits this quadratic at draws of the current q and goes half the way to it. It needs no gradients, and it
    holds for a Gaussian that is cut to a box, too, also where its mean is outside: a posterior that leans on a bound.
    The same quasi-random numbers serve all steps: they converge.

    >>> flat = BoxedGaussian(np.zeros(1), np.eye(1), np.full(1, -5.0), np.full(1, 5.0))
    >>> q = fit_gaussian(lambda phi: -0.5 * ((phi[:, 0] - 2.0) / 0.1) ** 2, flat, seed=0)
    >>> q.mean.round(3), q.root.round(3)
    (array([2.]), array([[0.1]]))
    """
    current, points = start, _even_points(POINTS, len(start.mean), seed)
    for _ in range(ITERATIONS):
        phi, log_weights = current.inside(points)
        values = log_density(phi).reshape(len(phi))
        usable = np.isfinite(values)
        weights = special.softmax(log_weights[usable])
        z = np.linalg.solve(current.root, (phi[usable] - current.mean).T).T
        before, current = current, _stepped(current, z, weights, values[usable])
        if _change(before, current) < ENOUGH:
            break
    return current


def lower_bound(log_density: LogDensity, q: BoxedGaussian, seed: int) -> float:
    """Return E_q[log p − log q], which `fit_gaussian` maximizes; a bound on the log evidence.

    >>> normal = BoxedGaussian(np.zeros(1), np.eye(1), np.full(1, -np.inf), np.full(1, np.inf))
    >>> round(lower_bound(stats.norm(0.0, 1.0).logpdf, normal, seed=0), 3) + 0.0  # the evidence is 1
    0.0
    """
    phi, log_weights = q.inside(_even_points(4 * POINTS, len(q.mean), seed))
    log_share = special.logsumexp(log_weights) - np.log(len(phi))
    z = np.linalg.solve(q.root, (phi - q.mean).T).T
    log_q = -0.5 * (z**2 + np.log(2.0 * np.pi)).sum(axis=1) - np.log(np.diag(q.root)).sum() - log_share
    weights = special.softmax(log_weights)
    return float(np.where(weights > 0.0, weights * (log_density(phi).reshape(len(phi)) - log_q), 0.0).sum())


def _even_points(n: int, d: int, seed: int) -> np.ndarray:
    """Return quasi-random points (n, d) of the unit cube."""
    return np.asarray(stats.qmc.Sobol(d, seed=seed).random(n))


def _cut_normal(share: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return quantiles of a standard normal cut to [low, high], and the log of the mass there, also in far tails."""
    flipped = low > -high  # in the lower tail, logarithms lose nothing
    below, above = np.where(flipped, -high, low), np.where(flipped, -low, high)
    log_below, log_above = special.log_ndtr(below), special.log_ndtr(above)
    log_mass = log_above + np.log(-np.expm1(np.minimum(log_below - log_above, -1e-15)))
    part = np.maximum(np.where(flipped, 1.0 - share, share), 1e-300)
    z = np.clip(special.ndtri_exp(np.logaddexp(log_below, np.log(part) + log_mass)), below, above)
    return np.where(flipped, -z, z), log_mass


def _quadratic(z: np.ndarray, values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slope g and the curvature H of the quadratic c + gᵀz + ½ zᵀHz that fits values at rows best."""
    d = z.shape[1]
    first, second = np.triu_indices(d)
    columns = np.column_stack([np.ones(len(z)), z, z[:, first] * z[:, second]])
    roots = np.sqrt(weights)
    found = np.linalg.lstsq(roots[:, None] * columns, roots * values, rcond=None)[0]
    H = np.zeros((d, d))
    H[first, second] = found[1 + d :]
    return found[1 : 1 + d], H + H.T


def _stepped(current: BoxedGaussian, z: np.ndarray, weights: np.ndarray, values: np.ndarray) -> BoxedGaussian:
    """Return the Gaussian part of the way to the quadratic of values at its draws, in standardized coordinates z.

    Bounds on its width leave the slope of log q amid the draws as it is: where q leans on a bound, that slope counts.
    """
    center = weights @ z
    g, H = _quadratic(z - center, values, weights)
    precisions, vectors = np.linalg.eigh((1.0 - DAMPING) * np.eye(len(g)) - DAMPING * H)
    precisions = np.clip(precisions, FLATTEST, STEEPEST)
    towards = DAMPING * (g + center)  # the slope of log q there is -center
    moved = (z - center) @ (vectors @ (vectors.T @ towards / precisions))
    towards *= min(1.0, FARTHEST / max(float(np.sqrt(weights @ moved**2)), 1e-300))
    slope = np.linalg.solve(current.root.T, towards - center)
    stretched = current.root @ (vectors / np.sqrt(precisions))
    spread, axes = np.linalg.eigh(stretched @ stretched.T)
    covariance = (axes * np.clip(spread, NARROWEST**2, WIDEST**2)) @ axes.T
    mean = current.mean + current.root @ center + covariance @ slope
    return BoxedGaussian(mean, np.linalg.cholesky(covariance), current.low, current.high)


def _change(before: BoxedGaussian, after: BoxedGaussian) -> float:
    """Return how far mean and root moved, in standard deviations."""
    moved = np.column_stack([after.mean - before.mean, after.root - before.root])
    return float(np.abs(np.linalg.solve(before.root, moved)).max())
