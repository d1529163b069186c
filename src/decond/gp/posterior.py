"""What is known of f after the data: an immutable posterior, every answer a view of one factorization."""

import abc
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from decond.checks import frozen
from decond.errors import ArgumentError
from decond.gp.linearization import Linearization
from decond.gp.priors import Prior, prior_mean
from decond.linalg import (
    Factor,
    LowRankPlusNoise,
    add_to_diagonal,
    cholesky,
    gaussian_log_density,
    multiply,
    transposed_times,
)

__all__ = ["FunctionPosterior", "InducingPosterior", "Posterior", "WeightPosterior"]

BLOCK_ENTRIES = 2**21
"""Entries of k(x_i, x), or of φ(x), that an answer holds at a time (16 MB), if these are `LEAST_ROWS` rows of x."""

LEAST_ROWS = 500
"""Rows of x in a block; matrix products of fewer are slow."""


class Posterior(abc.ABC):
    """The Gaussian posterior of f: `mean`, `variance`, `covariance`, `sample`, `log_evidence`, `leave_one_out`.

    `moments` gives mean and variance for little more than the price of the variance. All three work in blocks.
    With several target columns, means have shape (q, t); variances are shared by all columns.

    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior, condition
    >>> posterior = condition(FunctionPrior(RBF(1.0)), Direct([0.0, 1.0], noise=0.1), [1.0, 2.0])
    >>> posterior.mean([[0.0]]).round(2), posterior.std([[0.0], [9.0]]).round(2)
    (array([1.]), array([0.1, 1. ]))
    >>> posterior.sample([[0.0], [9.0]], n=5, seed=0).shape
    (5, 2)
    """

    _weights: np.ndarray
    form: str
    """The algebraic form behind it: "function" (m x m), "inducing" (r x r) or "weight" (p x p)."""

    def __init__(self, prior: Prior, points: np.ndarray, linear: Linearization, z: np.ndarray) -> None:
        self.prior, self.points = prior, points
        self._linear = linear
        self._flat = z.ndim == 1
        self._z: np.ndarray = frozen(z[:, None] if self._flat else z)
        self._mean = prior_mean(prior, self._z.shape[1])
        ones = np.asarray(linear.transformation.sum(axis=0)) if self._mean.any() else np.zeros(len(z))
        self._residual = self._z - np.outer(ones, self._mean)

    @property
    @abc.abstractmethod
    def log_evidence(self) -> float:
        """Log p(z̃), summed over target columns."""

    @abc.abstractmethod
    def _cross(self, x: np.ndarray) -> np.ndarray:
        """Return what the weights of the mean are weights of, k(x_i, x) or φ(x): a column for each row of x."""

    @abc.abstractmethod
    def _variances(self, x: np.ndarray, cross: np.ndarray) -> np.ndarray:
        """Return var[f(x) | z̃], possibly negative by rounding, from `_cross` at x."""

    @abc.abstractmethod
    def _covariances(self, x: np.ndarray, cross: np.ndarray) -> np.ndarray:
        """Return cov[f(x) | z̃], from `_cross` at x."""

    @abc.abstractmethod
    def _inverse(self) -> tuple[np.ndarray, np.ndarray]:
        """Return S⁻¹ r (m, t) and the diagonal of S⁻¹, S the covariance of z̃."""

    @property
    def weights(self) -> np.ndarray:
        """The weights behind the mean: ᾱ on the rows of x (the mean is Σ_i ᾱ_i k(x_i, x)), or w̄ of the features."""
        return self._weights[:, 0] if self._flat else self._weights

    def mean(self, x: Any) -> np.ndarray:
        """Return the posterior mean of f at the rows of x: (q,), or (q, t) for several targets."""
        return self._shaped([self._means(cross) for _, cross in self._in_blocks(x)])

    def variance(self, x: Any) -> np.ndarray:
        """Return the posterior variance of f at the rows of x, (q,); the noise of the targets is not in it."""
        return np.maximum(np.concatenate([self._variances(*block) for block in self._in_blocks(x)]), 0.0)

    def moments(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return `mean` and `variance` at the rows of x."""
        blocks = [(self._means(cross), self._variances(rows, cross)) for rows, cross in self._in_blocks(x)]
        means, variances = zip(*blocks, strict=True)
        return self._shaped(means), np.maximum(np.concatenate(variances), 0.0)

    def std(self, x: Any) -> np.ndarray:
        """Return the posterior standard deviation of f at the rows of x, (q,)."""
        return np.sqrt(self.variance(x))

    def covariance(self, x: Any) -> np.ndarray:
        """Return the posterior covariance of f between the rows of x, (q, q)."""
        rows = self._queries(x)
        covariance = self._covariances(rows, self._cross(rows))
        return 0.5 * (covariance + covariance.T)

    def sample(self, x: Any, n: int, seed: Any = None) -> np.ndarray:
        """Return n joint draws of f at the rows of x: (n, q), or (n, q, t) for several targets.

        The covariance is factored by its eigenvectors, so that it may be singular (repeated rows, or no
        uncertainty left).
        """
        queries = self._queries(x)
        values, vectors = np.linalg.eigh(self.covariance(queries))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        mean = self._means(self._cross(queries))
        draws = np.random.default_rng(seed).standard_normal((n, len(queries), mean.shape[1]))
        samples = mean + np.einsum("qr,nrt->nqt", root, draws)
        return samples[:, :, 0] if self._flat else samples

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances of each z̃_j predicted from the other targets, noise included.

        Closed form from the one factorization: z̃_j - α_j / (S⁻¹)_jj and 1 / (S⁻¹)_jj.
        """
        alpha, diagonal = self._inverse()
        mean = self._z - alpha / diagonal[:, None]
        return (mean[:, 0] if self._flat else mean), 1.0 / diagonal

    def _means(self, cross: np.ndarray) -> np.ndarray:
        """Return E[f(x) | z̃], (q, t), from `_cross` at x."""
        return multiply(cross.T, self._weights) + self._mean

    def _shaped(self, means: Sequence[np.ndarray]) -> np.ndarray:
        joined = np.concatenate(means)
        return joined[:, 0] if self._flat else joined

    def _in_blocks(self, x: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield rows of x, at least one block of them, with `_cross` at them."""
        queries = self._queries(x)
        height = max(LEAST_ROWS, BLOCK_ENTRIES // max(1, len(self._weights)))
        for start in range(0, max(1, len(queries)), height):
            rows = queries[start : start + height]
            yield rows, self._cross(rows)

    def _queries(self, x: Any) -> np.ndarray:
        rows = self.prior.covariance.points(x, "x")
        if rows.shape[1] != self.points.shape[1]:
            raise ArgumentError(
                "x",
                f"x has {rows.shape[1]} column(s) but the model was conditioned on {self.points.shape[1]}. Give the "
                "same columns in the same order.",
            )
        return rows

    def __repr__(self) -> str:
        """Show size, form and log evidence."""
        n, m = len(self.points), len(self._z)
        return f"{type(self).__name__}({n} points, {m} targets, log evidence {self.log_evidence:.6g})"


class _ProjectedPosterior(Posterior):
    """A posterior from targets with covariance factor T and cross-covariance G k(x, x*) (subclasses give them)."""

    _factor: Factor

    @abc.abstractmethod
    def _project(self, cross: np.ndarray) -> np.ndarray:
        """Return G cross: the covariance of the targets with f(x*), from that of f(x)."""

    def _variances(self, x: np.ndarray, cross: np.ndarray) -> np.ndarray:
        explained = self._factor.half_solve(self._project(cross))
        return self.prior.covariance.diagonal(x) - (explained**2).sum(axis=0)

    def _covariances(self, x: np.ndarray, cross: np.ndarray) -> np.ndarray:
        explained = self._factor.half_solve(self._project(cross))
        return self.prior.covariance.gram(x, x) - multiply(explained.T, explained)

    def _cross(self, x: np.ndarray) -> np.ndarray:
        return self.prior.covariance.gram(self.points, x)


class FunctionPosterior(_ProjectedPosterior):
    """Function space: the covariance S = MᵀKM + Σ of the targets, m x m (Table C.1, right column).

    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior, condition
    >>> condition(FunctionPrior(RBF(1.0)), Direct([0.0, 1.0], noise=0.1), [1.0, 2.0], form="function")
    FunctionPosterior(2 points, 2 targets, log evidence -3.63569)
    """

    form = "function"

    def __init__(
        self, prior: Prior, points: np.ndarray, linear: Linearization, z: np.ndarray, factor: Factor
    ) -> None:
        super().__init__(prior, points, linear, z)
        self._factor = factor
        self._weights = np.asarray(linear.transformation @ factor.solve(self._residual))

    @property
    def log_evidence(self) -> float:
        """Log N(z̃; 0, S)."""
        return gaussian_log_density(self._factor, self._residual)

    def _project(self, cross: np.ndarray) -> np.ndarray:
        return transposed_times(self._linear.transformation, cross)

    def _inverse(self) -> tuple[np.ndarray, np.ndarray]:
        return self._factor.solve(self._residual), self._factor.inverse_diagonal()


class InducingPosterior(_ProjectedPosterior):
    """The same posterior through r x r matrices, for isotropic noise: the paper's alternative forms.

    With M = BᵀW, K̃ = BKBᵀ and Wᵀ = QR, the m targets act like r targets Qᵀz̃ with covariance RK̃Rᵀ + σ²I; what
    is left of z̃ outside the span of Q is noise.

    >>> from decond.kernels import RBF
    >>> from decond.gp import FunctionPrior, Transformed, condition
    >>> seen = Transformed([0.0], [[1.0, 1.0, 1.0]], noise=0.1)  # the same f(0) thrice
    >>> condition(FunctionPrior(RBF(1.0)), seen, [1.0, 1.1, 0.9], form="inducing").mean([[0.0]]).round(2)
    array([1.])
    """

    form = "inducing"

    def __init__(
        self,
        prior: Prior,
        points: np.ndarray,
        linear: Linearization,
        z: np.ndarray,
        low_rank: LowRankPlusNoise,
    ) -> None:
        super().__init__(prior, points, linear, z)
        self._low_rank, self._factor = low_rank, low_rank.core
        self._weights = linear.bridge_transposed(low_rank.rows_solve(self._residual))

    @property
    def log_evidence(self) -> float:
        """Log N(Qᵀz̃; 0, RK̃Rᵀ + σ²I) plus the density of the remainder under the noise."""
        return self._low_rank.log_density(self._residual)

    def _project(self, cross: np.ndarray) -> np.ndarray:
        return multiply(self._low_rank.triangle, self._linear.bridge(cross))

    def _inverse(self) -> tuple[np.ndarray, np.ndarray]:
        low_rank = self._low_rank
        white = low_rank.core.half_solve(low_rank.basis.T)
        outside = np.maximum(1.0 - (low_rank.basis**2).sum(axis=1), 0.0)
        return low_rank.solve(self._residual), (white**2).sum(axis=0) + outside / low_rank.noise


class WeightPosterior(Posterior):
    """Weight space: p(w | z̃) = N(m, C), p x p, C = [ΦMΣ⁻¹MᵀΦᵀ + I/γ²]⁻¹ (Table C.1, left column).

    >>> from decond.features import Identity
    >>> from decond.gp import Direct, WeightPrior, condition
    >>> posterior = condition(WeightPrior(Identity()), Direct([1.0, 2.0], noise=0.1), [2.0, 4.0], form="weight")
    >>> posterior.weights.round(2)
    array([2.])
    """

    form = "weight"

    def __init__(self, prior: Any, points: np.ndarray, linear: Linearization, z: np.ndarray) -> None:
        super().__init__(prior, points, linear, z)
        features = prior.features.transform(points)  # Φᵀ
        if linear.isotropic:
            self._design = multiply(linear.bridge(features).T, linear.rows) / np.sqrt(linear.noise)
            self._white = self._residual / np.sqrt(linear.noise)
        else:
            design = transposed_times(linear.transformation, features)
            self._design = linear.noise_factor.half_solve(design).T
            self._white = linear.noise_factor.half_solve(self._residual)
        precision = multiply(self._design, self._design.T)
        add_to_diagonal(precision, 1.0 / prior.variance)
        self._precision = cholesky(precision, "the posterior precision of the weights")
        self._weights = self._precision.solve(multiply(self._design, self._white))

    @property
    def log_evidence(self) -> float:
        """Log N(z̃; 0, γ²ΘᵀΘ + Σ) by the determinant lemma, with the fit and the size of the weights apart."""
        m, targets = self._white.shape
        variance = self.prior.variance  # type: ignore[attr-defined]
        misfit = ((self._white - multiply(self._design.T, self._weights)) ** 2).sum()
        penalty = (self._weights**2).sum() / variance
        log_noise = (
            m * np.log(self._linear.noise) if self._linear.isotropic else self._linear.noise_factor.log_determinant
        )
        log_ratio = self._precision.log_determinant + len(self._weights) * np.log(variance)
        return -0.5 * float(misfit + penalty + targets * (log_noise + log_ratio + m * np.log(2.0 * np.pi)))

    def _cross(self, x: np.ndarray) -> np.ndarray:
        return self.prior.features.transform(x).T  # type: ignore[attr-defined]

    def _variances(self, x: np.ndarray, cross: np.ndarray) -> np.ndarray:
        return (self._precision.half_solve(cross) ** 2).sum(axis=0)

    def _covariances(self, x: np.ndarray, cross: np.ndarray) -> np.ndarray:
        white = self._precision.half_solve(cross)
        return multiply(white.T, white)

    def _inverse(self) -> tuple[np.ndarray, np.ndarray]:
        """Return S⁻¹r = R⁻ᵀ(r' - Θ'ᵀm) and diag R⁻ᵀ(I - Θ'ᵀCΘ')R⁻¹, R the factor of Σ, ' meaning whitened."""
        fitted = self._white - multiply(self._design.T, self._weights)
        half = self._precision.half_solve(self._design)
        if self._linear.isotropic:
            noise = self._linear.noise
            outside = np.maximum(1.0 - (half**2).sum(axis=0), np.finfo(float).eps)
            return fitted / np.sqrt(noise), outside / noise
        factor = self._linear.noise_factor
        unwhitened = factor.half_solve_transposed(half.T)
        return factor.half_solve_transposed(fitted), factor.inverse_diagonal() - (unwhitened**2).sum(axis=1)
