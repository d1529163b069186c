"""What is known of f after the data: an immutable posterior, every answer a view of one factorization.

Three algebraic forms give the same posterior and are chosen by size. `MixturePosterior` averages several posteriors,
where hyperparameters or assignments are uncertain too.
"""

import abc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from decond.checks import Seed, frozen
from decond.errors import ArgumentError
from decond.features import FeatureMap
from decond.gp.linear_gaussian import Linearization, evidence_factor, low_rank_evidence
from decond.gp.priors import Prior
from decond.linalg import (
    Factor,
    LowRankPlusNoise,
    add_to_diagonal,
    cholesky,
    gaussian_log_density,
    multiply,
    transposed_times,
)

__all__ = ["FunctionPosterior", "InducingPosterior", "MixturePosterior", "Posterior", "WeightPosterior"]

FORMS = ("auto", "function", "inducing", "weight")
"""Values of `form`."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ChunkSettings:
    """How many rows of x an answer takes at a time."""

    entries: int = 2**21
    """Entries of k(x_i, x), or of φ(x), that are held at a time (16 MB), if these are `least_rows` rows of x."""
    least_rows: int = 500
    """Rows in a chunk at least, as matrix products of fewer are slow."""


class Posterior(abc.ABC):
    """The Gaussian posterior of f: `mean`, `variance`, `covariance`, `sample`, `log_evidence`, `leave_one_out`.

    `moments` gives mean and variance for little more than the price of the variance. All three work in chunks.
    With several target columns, means have shape (q, t); variances are shared by all columns.

    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior, condition
    >>> posterior = condition(FunctionPrior(RBF(1.0)), Direct([0.0, 1.0], noise=0.1), [1.0, 2.0])
    >>> posterior.mean([[0.0]]).round(2), posterior.std([[0.0], [9.0]]).round(2)
    (array([1.]), array([0.1, 1. ]))
    >>> posterior.sample([[0.0], [9.0]], n=5, seed=0).shape
    (5, 2)
    """

    chunks = ChunkSettings()
    _weights: Array
    form: str
    """The algebraic form behind it: "function" (m x m), "inducing" (r x r) or "weight" (p x p)."""

    def __init__(self, prior: Prior, points: Array, linear: Linearization, z: Array) -> None:
        self.prior, self.points = prior, points
        self._flat = z.ndim == 1
        self._z: Array = frozen(z[:, None] if self._flat else z)
        self._mean = prior.mean_of(self._z.shape[1])
        ones = np.asarray(linear.transformation.sum(axis=0)) if self._mean.any() else np.zeros(len(z))
        self._residual = self._z - np.outer(ones, self._mean)

    @property
    @abc.abstractmethod
    def log_evidence(self) -> float:
        """Log p(z̃), summed over target columns."""

    @abc.abstractmethod
    def _cross(self, x: Array) -> Array:
        """Return what the weights of the mean are weights of, k(x_i, x) or φ(x): a column for each row of x."""

    @abc.abstractmethod
    def _variances(self, x: Array, cross: Array) -> Array:
        """Return var[f(x) | z̃], possibly negative by rounding, from `_cross` at x."""

    @abc.abstractmethod
    def _covariances(self, x: Array, cross: Array) -> Array:
        """Return cov[f(x) | z̃], from `_cross` at x."""

    @abc.abstractmethod
    def _inverse(self) -> tuple[Array, Array]:
        """Return S⁻¹ r (m, t) and the diagonal of S⁻¹, S the covariance of z̃."""

    @property
    def weights(self) -> Array:
        """The weights behind the mean: ᾱ on the rows of x (the mean is Σ_i ᾱ_i k(x_i, x)), or w̄ of the features."""
        return self._weights[:, 0] if self._flat else self._weights

    def mean(self, x: ArrayLike) -> Array:
        """Return the posterior mean of f at the rows of x: (q,), or (q, t) for several targets."""
        return self._shaped([self._means(cross) for _, cross in self._in_chunks(x)])

    def variance(self, x: ArrayLike) -> Array:
        """Return the posterior variance of f at the rows of x, (q,); the noise of the targets is not in it."""
        return np.maximum(np.concatenate([self._variances(*chunk) for chunk in self._in_chunks(x)]), 0.0)

    def moments(self, x: ArrayLike) -> tuple[Array, Array]:
        """Return `mean` and `variance` at the rows of x."""
        chunks = [(self._means(cross), self._variances(rows, cross)) for rows, cross in self._in_chunks(x)]
        means, variances = zip(*chunks, strict=True)
        return self._shaped(means), np.maximum(np.concatenate(variances), 0.0)

    def std(self, x: ArrayLike) -> Array:
        """Return the posterior standard deviation of f at the rows of x, (q,)."""
        return np.sqrt(self.variance(x))

    def covariance(self, x: ArrayLike) -> Array:
        """Return the posterior covariance of f between the rows of x, (q, q)."""
        rows = self._queries(x)
        covariance = self._covariances(rows, self._cross(rows))
        return 0.5 * (covariance + covariance.T)

    def sample(self, x: ArrayLike, n: int, seed: Seed = None) -> Array:
        """Return joint draws of f, also where its covariance is singular (repeated rows, or no uncertainty left).

        Parameters
        ----------
        x : array_like of shape (q, d)
            Where to draw f.
        n : int
            How many draws.
        seed : int or numpy.random.Generator, optional
            Seed of the draws.

        Returns
        -------
        ndarray of shape (n, q) or (n, q, t)
        """
        queries = self._queries(x)
        values, vectors = np.linalg.eigh(self.covariance(queries))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        mean = self._means(self._cross(queries))
        draws = np.random.default_rng(seed).standard_normal((n, len(queries), mean.shape[1]))
        samples = mean + np.einsum("qr,nrt->nqt", root, draws)
        return samples[:, :, 0] if self._flat else samples

    def leave_one_out(self) -> tuple[Array, Array]:
        """Return means and variances of each z̃_j predicted from the other targets, noise included.

        Closed form from the one factorization: z̃_j - α_j / (S⁻¹)_jj and 1 / (S⁻¹)_jj.
        """
        alpha, diagonal = self._inverse()
        mean = self._z - alpha / diagonal[:, None]
        return (mean[:, 0] if self._flat else mean), 1.0 / diagonal

    def _means(self, cross: Array) -> Array:
        """Return E[f(x) | z̃], (q, t), from `_cross` at x."""
        return multiply(cross.T, self._weights) + self._mean

    def _shaped(self, means: Sequence[Array]) -> Array:
        joined = np.concatenate(means)
        return joined[:, 0] if self._flat else joined

    def _in_chunks(self, x: ArrayLike) -> Iterator[tuple[Array, Array]]:
        """Yield rows of x, at least one chunk of them, with `_cross` at them."""
        queries = self._queries(x)
        height = max(self.chunks.least_rows, self.chunks.entries // max(1, len(self._weights)))
        for start in range(0, max(1, len(queries)), height):
            rows = queries[start : start + height]
            yield rows, self._cross(rows)

    def _queries(self, x: ArrayLike) -> Array:
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
    def _project(self, cross: Array) -> Array:
        """Return G cross: the covariance of the targets with f(x*), from that of f(x)."""

    def _variances(self, x: Array, cross: Array) -> Array:
        explained = self._factor.half_solve(self._project(cross))
        return self.prior.covariance.diagonal(x) - (explained**2).sum(axis=0)

    def _covariances(self, x: Array, cross: Array) -> Array:
        explained = self._factor.half_solve(self._project(cross))
        return self.prior.covariance.gram(x, x) - multiply(explained.T, explained)

    def _cross(self, x: Array) -> Array:
        return self.prior.covariance.gram(self.points, x)


class FunctionPosterior(_ProjectedPosterior):
    """Function space: the covariance S = MᵀKM + Σ of the targets, m x m (Table C.1, right column).

    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior, condition
    >>> condition(FunctionPrior(RBF(1.0)), Direct([0.0, 1.0], noise=0.1), [1.0, 2.0], form="function")
    FunctionPosterior(2 points, 2 targets, log evidence -3.63569)
    """

    form = "function"

    def __init__(self, prior: Prior, points: Array, linear: Linearization, z: Array, factor: Factor) -> None:
        super().__init__(prior, points, linear, z)
        self._factor, self._transformation = factor, linear.transformation  # Σ is as large, and not needed any more
        self._weights = np.asarray(self._transformation @ factor.solve(self._residual))

    @property
    def log_evidence(self) -> float:
        """Log N(z̃; 0, S)."""
        return gaussian_log_density(self._factor, self._residual)

    def _project(self, cross: Array) -> Array:
        return transposed_times(self._transformation, cross)

    def _inverse(self) -> tuple[Array, Array]:
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
        points: Array,
        linear: Linearization,
        z: Array,
        low_rank: LowRankPlusNoise,
    ) -> None:
        super().__init__(prior, points, linear, z)
        self._linear, self._low_rank, self._factor = linear, low_rank, low_rank.core
        self._weights = linear.bridge_transposed(low_rank.rows_solve(self._residual))

    @property
    def log_evidence(self) -> float:
        """Log N(Qᵀz̃; 0, RK̃Rᵀ + σ²I) plus the density of the remainder under the noise."""
        return self._low_rank.log_density(self._residual)

    def _project(self, cross: Array) -> Array:
        return multiply(self._low_rank.triangle, self._linear.bridge(cross))

    def _inverse(self) -> tuple[Array, Array]:
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

    def __init__(self, prior: Prior, points: Array, linear: Linearization, z: Array) -> None:
        super().__init__(prior, points, linear, z)
        self._linear = linear
        self._features: FeatureMap = prior.features  # type: ignore[attr-defined]
        self._variance: float = prior.variance  # type: ignore[attr-defined]
        features = self._features.transform(points)  # Φᵀ
        if linear.isotropic:
            self._design = multiply(linear.bridge(features).T, linear.rows) / np.sqrt(linear.noise)
            self._white = self._residual / np.sqrt(linear.noise)
        else:
            design = transposed_times(linear.transformation, features)
            self._design = linear.noise_factor.half_solve(design).T
            self._white = linear.noise_factor.half_solve(self._residual)
        precision = multiply(self._design, self._design.T)
        add_to_diagonal(precision, 1.0 / self._variance)
        self._precision = cholesky(precision, "the posterior precision of the weights")
        self._weights = self._precision.solve(multiply(self._design, self._white))

    @property
    def log_evidence(self) -> float:
        """Log N(z̃; 0, γ²ΘᵀΘ + Σ) by the determinant lemma, with the fit and the size of the weights apart."""
        m, targets = self._white.shape
        variance = self._variance
        misfit = ((self._white - multiply(self._design.T, self._weights)) ** 2).sum()
        penalty = (self._weights**2).sum() / variance
        log_noise = (
            m * np.log(self._linear.noise) if self._linear.isotropic else self._linear.noise_factor.log_determinant
        )
        log_ratio = self._precision.log_determinant + len(self._weights) * np.log(variance)
        return -0.5 * float(misfit + penalty + targets * (log_noise + log_ratio + m * np.log(2.0 * np.pi)))

    def _cross(self, x: Array) -> Array:
        return self._features.transform(x).T

    def _variances(self, x: Array, cross: Array) -> Array:
        return (self._precision.half_solve(cross) ** 2).sum(axis=0)

    def _covariances(self, x: Array, cross: Array) -> Array:
        white = self._precision.half_solve(cross)
        return multiply(white.T, white)

    def _inverse(self) -> tuple[Array, Array]:
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


class MixturePosterior:
    """Posteriors of f with weights: variance = Σ_s w_s [v_s + (mean_s - mean)²].

    Parameters
    ----------
    parts : sequence of Posterior
        The posteriors.
    weights : array_like of shape (s,)
        Their weights, which sum to one.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior, condition
    >>> one, two = (condition(FunctionPrior(RBF(l)), Direct([0.0], noise=0.1), [1.0]) for l in (1.0, 2.0))
    >>> MixturePosterior([one, two], [0.5, 0.5]).mean([[1.0]]).round(2)
    array([0.74])
    """

    chunks = ChunkSettings()

    def __init__(self, parts: Sequence[Posterior], weights: ArrayLike) -> None:
        self.parts = tuple(parts)
        self.weights = np.asarray(weights, dtype=np.float64)

    @property
    def prior(self) -> Prior:
        """The prior of the heaviest part."""
        return self._heaviest.prior

    @property
    def log_evidence(self) -> float:
        """Log p(z̃) of the heaviest part."""
        return self._heaviest.log_evidence

    @property
    def _heaviest(self) -> Posterior:
        return self.parts[int(np.argmax(self.weights))]

    def mean(self, x: ArrayLike) -> Array:
        """Return the mean of f at the rows of x: (q,), or (q, t) for several targets."""
        return _averaged([part.mean(x) for part in self.parts], self.weights)

    def variance(self, x: ArrayLike) -> Array:
        """Return the variance of f at the rows of x: (q,), or (q, t) for several targets."""
        return self.moments(x)[1]

    def moments(self, x: ArrayLike) -> tuple[Array, Array]:
        """Return `mean` and `variance` at the rows of x."""
        rows = self.prior.covariance.points(x, "x")
        height = max(1, self.chunks.entries // len(self.parts))
        chunks = [self._moments(rows[start : start + height]) for start in range(0, len(rows), height)]
        means, variances = zip(*chunks, strict=True)
        return np.concatenate(means), np.concatenate(variances)

    def _moments(self, x: Array) -> tuple[Array, Array]:
        """Return them from those of all parts, which are held at once."""
        return _combined([part.moments(x) for part in self.parts], self.weights)

    def std(self, x: ArrayLike) -> Array:
        """Return the standard deviation of f at the rows of x, shaped like the mean."""
        return np.sqrt(self.variance(x))

    def covariance(self, x: ArrayLike) -> Array:
        """Return the covariance of f between the rows of x: (q, q), or (q, q, t) for several targets."""
        center = self.mean(x)
        total = np.zeros((len(center), *center.shape))
        for part, weight in zip(self.parts, self.weights, strict=True):
            step = part.mean(x) - center
            within = part.covariance(x)
            within = within[:, :, None] if center.ndim == 2 else within
            total += weight * (within + step[:, None] * step[None, :])
        return total

    def sample(self, x: ArrayLike, n: int, seed: Seed = None) -> Array:
        """Return joint draws of f, each from a part drawn by weight.

        Parameters
        ----------
        x : array_like of shape (q, d)
            Where to draw f.
        n : int
            How many draws.
        seed : int or numpy.random.Generator, optional
            Seed of the draws.

        Returns
        -------
        ndarray of shape (n, q) or (n, q, t)
        """
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(n, self.weights)
        draws = [part.sample(x, int(count), rng) for part, count in zip(self.parts, counts, strict=True) if count]
        return rng.permutation(np.concatenate(draws))

    def leave_one_out(self) -> tuple[Array, Array]:
        """Return means and variances of each target predicted from the others, noise included."""
        return _combined([part.leave_one_out() for part in self.parts], self.weights)

    def __repr__(self) -> str:
        """Show the number of parts and the log evidence."""
        return f"MixturePosterior({len(self.parts)} parts, log evidence {self.log_evidence:.6g})"


def _averaged(values: Sequence[Array], weights: Array) -> Array:
    """Return Σ_s w_s value_s."""
    return np.asarray(sum(weight * value for value, weight in zip(values, weights, strict=True)))


def _combined(views: Sequence[tuple[Array, Array]], weights: Array) -> tuple[Array, Array]:
    """Return mean and variance of a mixture from those of its parts."""
    center = _averaged([mean for mean, _ in views], weights)
    within = [variance[:, None] if center.ndim > variance.ndim else variance for _, variance in views]
    spread = [part + (mean - center) ** 2 for part, (mean, _) in zip(within, views, strict=True)]
    return center, _averaged(spread, weights)


def posterior_of(
    prior: Prior, points: NDArray[Any], linear: Linearization, targets: Array, form: str = "auto"
) -> Posterior:
    """Return the posterior of f, in the form asked for or the cheapest one.

    Parameters
    ----------
    prior : Prior
        Prior of f.
    points : ndarray of shape (n, d)
        Rows at which f is seen.
    linear : Linearization
        M and Σ.
    targets : ndarray of shape (m,) or (m, t)
        z̃.
    form : {"auto", "function", "inducing", "weight"}
        The algebraic form.
    """
    chosen = _cheapest_form(prior, points, linear) if form == "auto" else form
    _check_form(chosen, prior, linear)
    if chosen == "weight":
        return WeightPosterior(prior, points, linear, targets)
    gram = prior.covariance.gram(points, points)
    if chosen == "inducing":
        return InducingPosterior(prior, points, linear, targets, low_rank_evidence(gram, linear))
    factor, _ = evidence_factor(gram, linear)
    return FunctionPosterior(prior, points, linear, targets, factor)


def _cheapest_form(prior: Prior, points: Array, linear: Linearization) -> str:
    """Return the form with the smallest matrix to factor; between equals the simplest."""
    sizes = {"function": linear.size}
    if linear.isotropic:
        sizes["inducing"] = linear.rank
    if prior.feature_map is not None and linear.sampling is None:
        sizes["weight"] = prior.feature_map.transform(points[:1]).shape[1]
    return min(sizes, key=lambda form: sizes[form])


def _check_form(form: str, prior: Prior, linear: Linearization) -> None:
    """Raise if a form is not there for this prior and observation."""
    if form == "weight" and prior.feature_map is None:
        raise ArgumentError(
            "form", f'form="weight" needs a WeightPrior, but prior is a {type(prior).__name__}. Use "auto".'
        )
    if form == "weight" and linear.sampling is not None:
        raise ArgumentError(
            "form",
            'form="weight" is not there for groups of which only some rows are listed, whose noise depends on the '
            'prior of f. Use form="auto".',
        )
    if form == "inducing" and not linear.isotropic:
        raise ArgumentError(
            "form",
            'form="inducing" needs the same independent noise for every target (Σ = σ²I), which this observation '
            'does not have. Use mediator="map", or form="auto".',
        )


class LeftOut(NamedTuple):
    """Every target predicted from the others: mean, variance and log density."""

    mean: np.ndarray
    variance: np.ndarray
    log_density: np.ndarray

    @classmethod
    def mixture(cls, parts: Sequence["LeftOut"], weights: np.ndarray) -> "LeftOut":
        """Return the predictions of a mixture of models, whose weights sum to one.

        Parameters
        ----------
        parts : sequence of LeftOut
            Predictions of each model.
        weights : ndarray of shape (k,)
            Weights of the models.

        Returns
        -------
        LeftOut
        """
        mean = np.tensordot(weights, np.array([part.mean for part in parts]), 1)
        second = np.tensordot(weights, np.array([part.variance + part.mean**2 for part in parts]), 1)
        logs = logsumexp([part.log_density for part in parts], axis=0, b=weights[:, None])
        return cls(mean, second - mean**2, logs)
