"""Mixtures of Gaussians in working coordinates, and what is left of one after prior/proposal is multiplied in."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import logsumexp, softmax

from decond.lfi.prior import Prior

__all__ = ["GaussianMixture", "LogQuadratic", "prior_quadratic"]

LEAST_INFORMATION = 0.01
"""Precision, in units of the prior's, that a corrected component has at least of its own in every direction."""

PRIOR_DRAWS = 2000
"""Draws that tell the shape of the prior in working coordinates."""

SAME = 1e-6
"""Largest difference of log densities up to which a prior is Gaussian, or flat, in working coordinates."""


@dataclass(frozen=True)
class LogQuadratic:
    """The function exp(-½ φᵀPφ + hᵀφ): a Gaussian without its constant, or flat where P and h are zero.

    >>> LogQuadratic.gaussian(np.array([2.0]), np.array([[0.5]]))
    LogQuadratic(precision=array([[2.]]), shift=array([4.]))
    """

    precision: np.ndarray
    shift: np.ndarray

    @classmethod
    def gaussian(cls, mean: np.ndarray, covariance: np.ndarray) -> Self:
        """Return the Gaussian of a mean and a covariance."""
        precision = np.linalg.inv(covariance)
        return cls(precision, precision @ mean)

    def log_value(self, phi: np.ndarray) -> np.ndarray:
        """Return the logarithm at rows."""
        return phi @ self.shift - 0.5 * np.einsum("ni,ij,nj->n", phi, self.precision, phi)


@dataclass(frozen=True)
class GaussianMixture:
    """A mixture of Gaussians with log weights (k,), means (k, d) and precisions (k, d, d).

    >>> one = GaussianMixture(np.zeros(1), np.zeros((1, 1)), np.ones((1, 1, 1)))
    >>> one.log_density(np.zeros((1, 1))).round(3)
    array([-0.919])
    >>> one.moments()
    (array([0.]), array([[1.]]))
    """

    log_weights: np.ndarray
    means: np.ndarray
    precisions: np.ndarray

    def log_density(self, phi: np.ndarray) -> np.ndarray:
        """Return the log density at rows (n, d)."""
        away = phi[:, None, :] - self.means
        squares = np.einsum("nki,kij,nkj->nk", away, self.precisions, away)
        heights = 0.5 * np.linalg.slogdet(self.precisions)[1] - 0.5 * phi.shape[1] * np.log(2.0 * np.pi)
        return np.asarray(logsumexp(self.log_weights + heights - 0.5 * squares, axis=1))

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws (n, d)."""
        chosen = rng.choice(len(self.means), size=n, p=softmax(self.log_weights))
        draws = rng.standard_normal((n, self.means.shape[1]))
        for k, root in enumerate(np.linalg.cholesky(np.linalg.inv(self.precisions))):
            rows = chosen == k
            draws[rows] = self.means[k] + draws[rows] @ root.T
        return draws

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean (d,) and the covariance (d, d)."""
        weights = softmax(self.log_weights)
        mean = weights @ self.means
        away = self.means - mean
        spread = np.linalg.inv(self.precisions) + np.einsum("ki,kj->kij", away, away)
        return mean, np.einsum("k,kij->ij", weights, spread)

    def taken(self, chosen: np.ndarray) -> Self:
        """Return some of the components, chosen by True and False; their weights sum to one again."""
        log_weights = self.log_weights[chosen]
        return type(self)(log_weights - logsumexp(log_weights), self.means[chosen], self.precisions[chosen])

    def moved(self, center: np.ndarray, root: np.ndarray) -> Self:
        """Return the mixture of center + root φ."""
        inverse = np.linalg.inv(root)
        precisions = np.einsum("ia,kij,jb->kab", inverse, self.precisions, inverse)
        return replace(self, means=center + self.means @ root.T, precisions=precisions)

    def corrected(
        self, prior: LogQuadratic, proposal: LogQuadratic, prior_root: np.ndarray
    ) -> tuple[Self, np.ndarray]:
        """Return prior/proposal times this mixture, and which of its components had to be repaired.

        A component N(m, P⁻¹) becomes one of precision P + P_prior - P_proposal, and its weight takes up the ratio of
        the constants. What a component adds to the prior, P - P_proposal, is what the data tell; a network may say
        less than nothing in some direction, and then there is no such Gaussian. In these directions, found in units
        of the prior (covariance `prior_root` `prior_root`ᵀ), the component adds a hundredth of the prior's precision,
        around its own mean.

        >>> one = GaussianMixture(np.zeros(1), np.ones((1, 1)), np.full((1, 1, 1), 3.0))
        >>> flat, proposal = LogQuadratic(np.zeros((1, 1)), np.zeros(1)), LogQuadratic(np.eye(1), np.zeros(1))
        >>> result, repaired = one.corrected(flat, proposal, np.eye(1))
        >>> result.means, result.precisions, repaired
        (array([[1.5]]), array([[[2.]]]), array([False]))
        """
        own_shift = np.einsum("kij,kj->ki", self.precisions, self.means)
        told = self.precisions - proposal.precision
        told_shift = own_shift - proposal.shift
        told, told_shift, bad = _repaired(told, told_shift, self.means, prior_root)
        precisions, shifts = told + prior.precision, told_shift + prior.shift
        means = np.linalg.solve(precisions, shifts[:, :, None])[:, :, 0]
        log_ratio = 0.5 * (np.linalg.slogdet(self.precisions)[1] - np.linalg.slogdet(precisions)[1])
        log_ratio += 0.5 * ((means * shifts).sum(axis=1) - (self.means * own_shift).sum(axis=1))
        log_weights = self.log_weights + log_ratio
        return type(self)(log_weights - logsumexp(log_weights), means, precisions), bad


def _repaired(
    told: np.ndarray, shift: np.ndarray, means: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return precisions and shifts with at least the least information in every direction, and where it was less."""
    values, vectors = np.linalg.eigh(root.T @ told @ root)
    low = values < LEAST_INFORMATION
    bad = np.asarray(low.any(axis=1))
    if not bad.any():
        return told, shift, bad
    unit = np.linalg.inv(root)
    axes = np.einsum("kia,ib->kab", vectors, unit)  # rows: directions, as functions of φ
    centers = np.einsum("kab,kb->ka", axes, means)
    sides = np.einsum("kia,ki->ka", vectors, shift @ root)  # shifts go with rootᵀ, points with its inverse
    values = np.where(low, LEAST_INFORMATION, values)
    sides = np.where(low, LEAST_INFORMATION * centers, sides)
    repaired = np.einsum("kai,ka,kaj->kij", axes, values, axes)
    return repaired, np.einsum("kai,ka->ki", axes, sides), bad


def prior_quadratic(prior: Prior) -> tuple[LogQuadratic, np.ndarray, bool]:
    """Return a prior in working coordinates as a quadratic, the root of its covariance, and whether this is exact.

    It is exact where the log density is a quadratic inside the support: Gaussian or flat in working coordinates. For
    any other prior it is the Gaussian with the same mean and covariance.

    >>> from scipy import stats
    >>> prior_quadratic(Prior({"share": stats.uniform(0, 1)}))[2]
    True
    >>> prior_quadratic(Prior({"rate": stats.gamma(2)}))[2]
    False
    """
    phi = prior.to_working(prior.sample(PRIOR_DRAWS, np.random.default_rng(0)))
    mean, covariance = phi.mean(axis=0), np.atleast_2d(np.cov(phi, rowvar=False))
    root = np.linalg.cholesky(covariance)
    quadratic, left_over = _fitted_quadratic(phi, prior.log_density_working(phi))
    if left_over < SAME:
        return quadratic, root, True
    return LogQuadratic.gaussian(mean, covariance), root, False


def _fitted_quadratic(phi: np.ndarray, heights: np.ndarray) -> tuple[LogQuadratic, float]:
    """Return the quadratic nearest to log densities at rows, and the largest difference from them."""
    first, second = np.triu_indices(phi.shape[1])
    columns = np.column_stack([np.ones(len(phi)), phi, phi[:, first] * phi[:, second]])
    coefficients, *_ = np.linalg.lstsq(columns, heights)
    left_over = float(np.abs(columns @ coefficients - heights).max())
    shift, products = coefficients[1 : 1 + phi.shape[1]], coefficients[1 + phi.shape[1] :]
    precision = np.zeros((phi.shape[1], phi.shape[1]))
    precision[first, second] -= products
    precision[second, first] -= products
    tidy = np.where(np.abs(precision) < SAME, 0.0, precision)  # flat is flat
    return LogQuadratic(tidy, np.where(np.abs(shift) < SAME, 0.0, shift)), left_over
