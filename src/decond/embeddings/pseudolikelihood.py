"""How likely the rows are under their own embedding, as a function of the RBF kernel's lengthscales.

Two pseudo-likelihoods, both with μ integrated out, both with gradients for the logarithms of the lengthscales.

*Predictive*, the default: a row has the density μ(x) / ∫μ, given μ. That is linear in μ, so μ is integrated out by
taking its posterior mean given the other rows. It is a density of x for every lengthscale, so lengthscales can be
compared. With a vague prior it is the leave-one-out likelihood of a kernel density estimate.

*Gaussian*, that of Flaxman et al. (2016): the features φ(x_i) = k(x_i, z) at m anchors z are N(μ(z), τ²I), times
det(JᵀJ)^½ with J = ∂φ/∂x. It is a Gaussian density in m dimensions on a surface of d, not a density of x: its
normalizing constant is missing and depends on lengthscale and τ. With τ free it grows without bound (τ → 0,
lengthscale → ∞), so τ has to be given.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from decond.embeddings.embedding_prior import EmbeddingPrior
from decond.kernels import RBF
from decond.linalg import add_to_diagonal, cholesky, gaussian_log_density, gaussian_log_density_pullback, mirrored

__all__ = ["GaussianPseudolikelihood", "Optimum", "PredictivePseudolikelihood", "maximize"]

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""From one lengthscale a column to a value and its slopes for their logarithms."""

SEARCHED = np.array([[1e-3], [1e2]])
"""Lengthscales are searched between these multiples of what is typical."""


@dataclass(frozen=True)
class PseudolikelihoodSettings:
    """Numbers of both pseudo-likelihoods."""

    background: float = 2.0
    """Width of the broad Gaussian that counts as one row, in standard deviations of the columns."""
    block_entries: int = 30_000
    """Differences that are held at a time for a gradient."""
    ridge: float = 1e-8
    """What keeps J of full rank where only one anchor is near, relative to its norm."""


class PredictivePseudolikelihood:
    """Σ_i log p(x_i | the other rows), p = (Σ_j k(x_i, x_j) / ∫k + g(x_i)) / (number of other rows + 1).

    The posterior mean of μ given the other rows, under a vague prior, is their average feature. g, a Gaussian of
    twice the columns' deviations, counts as one row more, so that a single far row cannot widen the kernel for all.
    Copies of a row are left out with it: they would be predicted best by a kernel of no width.

    >>> value, slope = PredictivePseudolikelihood(np.array([[0.0], [1.0], [3.0]]))(np.array([1.0]))
    >>> round(value, 4), slope.shape
    (-6.7189, (1,))
    """

    def __init__(self, x: np.ndarray) -> None:
        self.others = cdist(x, x, "chebyshev") > 0.0
        self.x = x - x[:1]
        width = PseudolikelihoodSettings.background * self.x.std(axis=0)
        score = (self.x - self.x.mean(axis=0)) / width
        log_density = -0.5 * (score**2 + np.log(2.0 * np.pi)) - np.log(width)
        self.background = log_density.sum(axis=1)

    def __call__(self, lengthscale: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and its gradient for the logarithm of each column's lengthscale."""
        scaled = self.x / lengthscale
        log_constant = np.log(lengthscale).sum() + 0.5 * len(lengthscale) * np.log(2.0 * np.pi)
        exponent = np.where(self.others, -0.5 * cdist(scaled, scaled, "sqeuclidean") - log_constant, -np.inf)
        largest = np.maximum(exponent.max(axis=1), self.background)
        share = np.exp(exponent - largest[:, None])
        total = share.sum(axis=1) + np.exp(self.background - largest)
        share /= total[:, None]
        value = float((largest + np.log(total) - np.log(self.others.sum(axis=1) + 1.0)).sum())
        return value, _shared_squares(share, scaled) - share.sum()


def _shared_squares(share: np.ndarray, scaled: np.ndarray) -> np.ndarray:
    """Return Σ_ij share_ij (scaled_i - scaled_j)² of each column, a few rows at a time to stay in cache."""
    n, d = scaled.shape
    squares, height = np.zeros(d), max(1, PseudolikelihoodSettings.block_entries // n)
    for start in range(0, n, height):
        some = slice(start, start + height)
        apart = np.empty_like(share[some])
        for k, column in enumerate(scaled.T):
            np.subtract(column[some, None], column, out=apart)
            squares[k] += np.vdot(share[some], np.square(apart, out=apart))
    return squares


class Features(NamedTuple):
    """Scaled differences (n, m, d) of rows and anchors, and the features (n, m)."""

    scaled: np.ndarray
    values: np.ndarray


class GaussianPseudolikelihood:
    """log N(φ; 0, s² 11ᵀ ⊗ R + τ²I) + Σ_i ½ log det(J_iᵀJ_i) over all n features of m values (Flaxman et al. 2016).

    `anchors` (m, d) are the points z, `noise` is τ, `amplitude` is s and `prior` gives R = r(z, z). The large
    covariance is never formed: the mean feature is N(0, s²R + τ²I/n), the deviations from it are independent.

    >>> x, z = np.array([[0.0], [1.0], [3.0]]), np.array([[0.5], [2.0]])
    >>> value, slope = GaussianPseudolikelihood(x, z, noise=0.5)(np.array([1.0]))
    >>> round(value, 4), slope.shape
    (-6.6003, (1,))
    """

    def __init__(
        self,
        x: np.ndarray,
        anchors: np.ndarray,
        noise: float,
        amplitude: float = 1.0,
        prior: EmbeddingPrior | None = None,
    ) -> None:
        self.differences = x[:, None, :] - anchors[None]
        self.x, self.anchors, self.noise, self.amplitude = x, anchors, noise, amplitude
        self.prior = EmbeddingPrior() if prior is None else prior

    def __call__(self, lengthscale: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and its gradient for the logarithm of each column's lengthscale."""
        scaled = self.differences / lengthscale
        features = Features(scaled, RBF(lengthscale).gram(self.x, self.anchors))
        parts = (
            self._of_the_mean(features, lengthscale),
            self._of_deviations(features),
            _log_volume(features, lengthscale),
        )
        return float(sum(value for value, _ in parts)), np.sum([slope for _, slope in parts], axis=0)

    def _of_the_mean(self, features: Features, lengthscale: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log density of √n times the mean feature, which is N(0, n s²R + τ²I), and its slopes."""
        n = len(self.x)
        prior = self.prior.replace(lengthscale=lengthscale)
        covariance = n * self.amplitude**2 * prior.covariance(self.anchors, self.anchors)
        add_to_diagonal(covariance, self.noise**2)
        factor = cholesky(covariance, "the covariance of the mean feature")
        mean = np.sqrt(n) * features.values.mean(axis=0)
        mean_bar, covariance_bar = gaussian_log_density_pullback(factor, mean)
        slopes = np.sqrt(n) * (features.values[:, :, None] * features.scaled**2).mean(axis=0)
        through_covariance = n * self.amplitude**2 * prior.slopes(self.anchors) * mirrored(covariance_bar)
        return gaussian_log_density(factor, mean), mean_bar @ slopes + through_covariance.sum(axis=(1, 2))

    def _of_deviations(self, features: Features) -> tuple[float, np.ndarray]:
        """Return the log density of what remains, (n - 1) m independent normal numbers, and its slopes."""
        residual = (features.values - features.values.mean(axis=0)) / self.noise**2
        n, m = features.values.shape
        constant = m * (n - 1) * np.log(2.0 * np.pi * self.noise**2)
        value = -0.5 * (float((residual**2).sum()) * self.noise**2 + constant)
        return value, -np.einsum("im,im,imd->d", residual, features.values, features.scaled**2)


def _log_volume(features: Features, lengthscale: np.ndarray) -> tuple[float, np.ndarray]:
    """Return Σ_i ½ log det(J_iᵀJ_i) and its slopes, tr(J_i⁺ dJ_i), J = -φ (x - z) / lengthscale², one row an anchor.

    φ is taken relative to that of the nearest other anchor, so that it does not underflow where all are far, and J is
    factored as QR, because JᵀJ would lose half of the digits where one anchor is much nearer than the others.
    """
    u = features.scaled
    n, _, d = u.shape
    squared = (u**2).sum(axis=2)
    log_phi = np.where(squared > 0.0, -0.5 * squared, -np.inf)
    largest = log_phi.max(axis=1)
    phi = np.exp(log_phi - largest[:, None])[:, :, None]
    jacobian = phi * u
    norm = np.linalg.norm(jacobian, axis=(1, 2))[:, None, None]
    Q, R = np.linalg.qr(np.concatenate([jacobian, PseudolikelihoodSettings.ridge * norm * np.eye(d)], axis=1))
    volumes = np.log(np.abs(np.diagonal(R, axis1=1, axis2=2))).sum(axis=1)
    slopes = np.empty(d)
    for k in range(d):
        change = phi * u[:, :, k, None] * (u[:, :, k, None] * u - np.eye(d)[k])
        norm_change = (jacobian * change).sum(axis=(1, 2))[:, None, None] / norm
        whole = np.concatenate([change, PseudolikelihoodSettings.ridge * norm_change * np.eye(d)], axis=1)
        slopes[k] = np.trace(np.linalg.solve(R, np.swapaxes(Q, 1, 2) @ whole), axis1=1, axis2=2).sum() - n
    return float((volumes + d * largest).sum()) - n * float(np.log(lengthscale).sum()), slopes


class Optimum(NamedTuple):
    """The best lengthscales (one, or one for each column), their value, and which of them sit on a bound."""

    lengthscale: np.ndarray
    value: float
    on_bounds: np.ndarray


def maximize(objective: Objective, width: int, starts: Sequence[np.ndarray], typical: np.ndarray) -> Optimum:
    """Search logarithms of lengthscales from each start; one that all `width` columns share if a start has one only.

    A prior goes with the objective, log lengthscale ~ N(log `typical`, 1): the objective is often flat over a factor
    of several, and its top there is chance.

    Parameters
    ----------
    objective : callable
        From one lengthscale a column to a value and its slopes for their logarithms.
    width : int
        The number of columns.
    starts : sequence of ndarray
        Lengthscales to start from, one or one a column.
    typical : ndarray
        Centers of the prior, in the shape of a start.

    Returns
    -------
    Optimum

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((50, 1))
    >>> found = maximize(PredictivePseudolikelihood(rows), 1, [np.ones(1)], typical=np.ones(1))
    >>> found.lengthscale.round(2), found.on_bounds
    (array([0.53]), array([False]))
    """
    from scipy.optimize import minimize

    def negative(logarithm: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = objective(np.array(np.broadcast_to(np.exp(logarithm), width)))
        score = logarithm - np.log(typical)
        slope = slope if len(logarithm) == width else slope.sum(keepdims=True)
        return 0.5 * float(score @ score) - value, score - slope

    logs = np.log(SEARCHED * typical)
    runs = [
        minimize(negative, np.clip(np.log(start), *logs), jac=True, method="L-BFGS-B", bounds=logs.T)
        for start in starts
    ]
    best = min(runs, key=lambda run: float(run.fun))
    value, _ = objective(np.array(np.broadcast_to(np.exp(best.x), width)))
    return Optimum(np.exp(best.x), value, np.isclose(logs, best.x, atol=1e-6).any(axis=0))
