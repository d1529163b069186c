"""A Gaussian inside a box that is as near as possible to a posterior, in Kullback–Leibler divergence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import stats

__all__ = ["BoxedGaussian", "fit_gaussian", "lower_bound"]

LogDensity = Callable[[np.ndarray], np.ndarray]

POINTS, MANY_POINTS, FEWEST = 2**11, 2**15, 500
"""Quasi-random points behind each step of `fit_gaussian`; many, if fewer than the last number lie in the box."""

TRIES = 500
"""Batches of draws after which a Gaussian makes do with those inside the box."""

ITERATIONS, ENOUGH = 60, 1e-3
"""Most steps, and the change of mean and covariance, in standard deviations, below which there are no more."""

DAMPING = 0.5
"""Share of the way to the fitted quadratic that a step goes."""

FARTHEST, STEEPEST, FLATTEST = 2.0, 4.0, 0.5
"""Farthest that a step moves the mean, in standard deviations; factors by which it may change a precision."""

NARROWEST, WIDEST = 1e-6, 3.0
"""Bounds on the standard deviation in any direction, in working units; the widest is almost flat on a box."""


@dataclass(frozen=True)
class BoxedGaussian:
    """A Gaussian with a full covariance, cut to a box; its mean lies in the box.

    >>> box = BoxedGaussian(np.zeros(1), np.eye(1), np.zeros(1), np.full(1, np.inf))
    >>> bool(box.sample(1000, np.random.default_rng(0)).min() > 0.0)
    True
    """

    mean: np.ndarray
    root: np.ndarray
    """Lower triangular; the covariance is its product with its transpose."""
    low: np.ndarray
    high: np.ndarray

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws (n, d) by rejection."""
        kept: list[np.ndarray] = []
        for _ in range(TRIES):
            kept.append(self.inside(rng.standard_normal((n, len(self.mean)))))
            if sum(map(len, kept)) >= n:
                break
        inside = np.concatenate(kept)
        return inside[:n] if len(inside) >= n else inside[rng.integers(len(inside), size=n)]

    def widened(self, factor: float) -> Self:
        """Return the Gaussian with standard deviations times a factor, in the same box."""
        return type(self)(self.mean, factor * self.root, self.low, self.high)

    def inside(self, z: np.ndarray) -> np.ndarray:
        """Return the points mean + root z, for rows z, that lie in the box."""
        draws = self.mean + z @ self.root.T
        return draws[((draws >= self.low) & (draws <= self.high)).all(axis=1)]


def fit_gaussian(log_density: LogDensity, start: BoxedGaussian, seed: int) -> BoxedGaussian:
    """Return the boxed Gaussian q that maximises E_q[log p − log q], from any start.

    At the optimum, log q is the regression of log p on 1, φ and φφᵀ under q itself (Salimans & Knowles 2013). Each
    step fits this quadratic at draws of the current q and goes half the way to it. It needs no gradients, and it
    holds for a Gaussian that is cut to a box, too. The same quasi-random numbers serve all steps: they converge.

    >>> flat = BoxedGaussian(np.zeros(1), np.eye(1), np.full(1, -5.0), np.full(1, 5.0))
    >>> q = fit_gaussian(lambda phi: -0.5 * ((phi[:, 0] - 2.0) / 0.1) ** 2, flat, seed=0)
    >>> q.mean.round(3), q.root.round(3)
    (array([2.]), array([[0.1]]))
    """
    current, points = start, _normal_points(POINTS, len(start.mean), seed)
    for _ in range(ITERATIONS):
        phi = current.inside(points)
        if len(phi) < FEWEST and len(points) < MANY_POINTS:
            points = _normal_points(MANY_POINTS, len(start.mean), seed)
            phi = current.inside(points)
        values = log_density(phi)
        usable = np.isfinite(values)
        z = np.linalg.solve(current.root, (phi[usable] - current.mean).T).T
        before, current = current, _stepped(current, *_quadratic(z, values[usable]))
        if _change(before, current) < ENOUGH:
            break
    return current


def lower_bound(log_density: LogDensity, q: BoxedGaussian, seed: int) -> float:
    """Return E_q[log p − log q], which `fit_gaussian` maximises; a bound on the log evidence.

    >>> normal = BoxedGaussian(np.zeros(1), np.eye(1), np.full(1, -np.inf), np.full(1, np.inf))
    >>> round(lower_bound(stats.norm(0.0, 1.0).logpdf, normal, seed=0), 3) + 0.0  # the evidence is 1
    0.0
    """
    points = _normal_points(MANY_POINTS, len(q.mean), seed)
    phi = q.inside(points)
    if not len(phi):
        return -np.inf
    share, phi = len(phi) / len(points), phi[: 4 * POINTS]
    z = np.linalg.solve(q.root, (phi - q.mean).T).T
    log_q = -0.5 * (z**2 + np.log(2.0 * np.pi)).sum(axis=1) - np.log(np.diag(q.root)).sum() - np.log(share)
    return float(np.mean(log_density(phi).reshape(len(phi)) - log_q))


def _normal_points(n: int, d: int, seed: int) -> np.ndarray:
    """Return quasi-random points (n, d) of a standard normal distribution."""
    return stats.norm.ppf(stats.qmc.Sobol(d, rng=seed).random(n))


def _quadratic(z: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slope g and the curvature H of the quadratic c + gᵀz + ½ zᵀHz that fits values at rows best."""
    d = z.shape[1]
    first, second = np.triu_indices(d)
    columns = np.column_stack([np.ones(len(z)), z, z[:, first] * z[:, second]])
    found = np.linalg.lstsq(columns, values, rcond=None)[0]
    H = np.zeros((d, d))
    H[first, second] = found[1 + d :]
    return found[1 : 1 + d], H + H.T


def _stepped(current: BoxedGaussian, g: np.ndarray, H: np.ndarray) -> BoxedGaussian:
    """Return the Gaussian part of the way to a quadratic in its own standardised coordinates."""
    values, vectors = np.linalg.eigh((1.0 - DAMPING) * np.eye(len(g)) - DAMPING * H)
    values = np.clip(values, FLATTEST, STEEPEST)
    shift = vectors @ (vectors.T @ (DAMPING * g) / values)
    shift *= min(1.0, FARTHEST / max(float(np.linalg.norm(shift)), 1e-300))
    mean = np.clip(current.mean + current.root @ shift, current.low, current.high)
    stretched = current.root @ (vectors / np.sqrt(values))
    spread, axes = np.linalg.eigh(stretched @ stretched.T)
    root = np.linalg.cholesky((axes * np.clip(spread, NARROWEST**2, WIDEST**2)) @ axes.T)
    return BoxedGaussian(mean, root, current.low, current.high)


def _change(before: BoxedGaussian, after: BoxedGaussian) -> float:
    """Return how far mean and root moved, in standard deviations."""
    moved = np.column_stack([after.mean - before.mean, after.root - before.root])
    return float(np.abs(np.linalg.solve(before.root, moved)).max())
