"""Targets measured at latent inputs: z_j = f(x̃_j) + noise, where x̃_j is one of the rows of x, and not known which.

The mean of such a target is the paper's E[f(X) | y_j], and the paper's model uses the mean alone. The whole
distribution says more about f: p(z_j | y_j) = Σ_i w_ij N(z_j; f(x_i), σ²), with w_ij = p(x̃_j = x_i | y_j). It is not
Gaussian in f. Given the *assignment* of targets to rows it is, and given f the assignments are independent: the
posterior is sampled by Gibbs sampling. A variational bound stands for the log evidence, which is intractable.

`sample_latent_inputs` samples the hyperparameters too: one sweep draws f at the rows given the assignment and the
hyperparameters, then the assignment given f. Every few sweeps all hyperparameters take a step of slice sampling with
f integrated out, and the noise another one with the assignment integrated out. Chains that end in different modes are
combined by stacking (Yao, Vehtari & Gelman 2022, jmlr.org/papers/v23/20-1426.html). The weights of the rows,
p(x | y), are estimates too: the chains are repeated for several bootstrap tables of them, and pooled.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import logsumexp, rel_entr

from decond.checks import Seed, as_rows, as_values, check_same_length
from decond.errors import ArgumentError
from decond.gp.linear_gaussian import Gradient, Linearization
from decond.gp.model_average import Candidate, stacking_weights
from decond.gp.observations import Observation, with_known_variance
from decond.gp.posteriors import LeftOut, MixturePosterior, Posterior, posterior_of
from decond.gp.priors import Prior
from decond.gp.search import Model, Objective, Progress, Variable
from decond.linalg import (
    NotPositiveDefiniteError,
    add_to_diagonal,
    cholesky,
    gaussian_log_density,
    multiply,
    square_root,
)
from decond.parameters import parameter, positive, with_leaves
from decond.threads import one_blas_thread

__all__ = [
    "LatentInput",
    "SamplerSettings",
    "sample_latent_inputs",
]


@dataclass(frozen=True)
class GibbsSettings:
    """Settings of the Gibbs sampler at given hyperparameters."""

    warmup: int = 200
    """Sweeps before the first draw."""
    draws: int = 100
    """Assignments that are kept."""
    thinning: int = 5
    """Sweeps from one draw to the next."""
    tolerance: float = 1e-10
    """Largest change of a responsibility at which the variational bound has converged."""
    most_iterations: int = 5000
    """Iterations of the variational bound at most."""


class LatentInput(Observation):
    """z_j = f(x̃_j) + noise, where x̃_j is row i of x with probability `weights`[i, j].

    With a `transformation` B it is z_j = b_iᵀ f(x) + noise, b_i the column i of B with probability `weights`[i, j]:
    means over groups whose rows are not all known.

    Parameters
    ----------
    x : array_like of shape (n, d)
        The rows.
    weights : array_like of shape (n, m)
        Probabilities of the rows for each target; columns sum to one.
    noise : float
        σ, the standard deviation of the noise.
    target_variance : array_like of shape (m,), optional
        Known variance of each target, in addition to σ².
    assignment : array_like of int of shape (m,), optional
        The row at which each target was measured, where it is known. None integrates over it.
    logarithm : array_like of shape (2,), optional
        Origin and unit of positive targets whose noise multiplies: log((z_j + origin) / unit) = g(x̃_j) + noise, with
        the prior on g. The posterior is then of f(x) = E[z | x]. None is noise that adds.
    transformation : array_like of shape (n, p), optional
        B, in columns that sum to one; then the `weights` are (p, m) and an assignment names columns of B. None is I.
    repeats : array_like of shape (m,), optional
        Of how many measurements each target is the mean: σ² is divided by it.

    Examples
    --------
    >>> seen = LatentInput([0.0, 1.0], weights=[[0.5], [0.5]], noise=0.1)
    >>> seen.linearize().transformation.ravel()  # its mean is a mean over both rows
    array([0.5, 0.5])
    """

    weights: Any
    noise: Any = parameter(default=0.1, constraint=positive)
    target_variance: Any = None
    assignment: Any = None
    logarithm: Any = None
    transformation: Any = None
    repeats: Any = None

    def __post_init__(self) -> None:
        """Check that columns are probabilities and that the assignment names rows."""
        super().__post_init__()
        weights = as_rows(self.weights, "weights")
        if self.transformation is None:
            check_same_length(weights, "weights", len(self.x), "x")
        else:
            columns = as_rows(self.transformation, "transformation")
            check_same_length(columns, "transformation", len(self.x), "x")
            check_same_length(weights, "weights", columns.shape[1], "the columns of transformation")
            self._set(transformation=columns)
        if np.any(weights < 0.0) or not np.allclose(weights.sum(axis=0), 1.0, atol=1e-6):
            raise ArgumentError(
                "weights",
                "weights has columns that are not probabilities; give one column for each target, with values from "
                "0 to 1 that sum to one.",
            )
        self._set(weights=weights)
        self._set_repeats()
        self._set_target_variance()
        if self.logarithm is not None:
            self._set(logarithm=np.asarray(self.logarithm, dtype=np.float64))
            if self.logarithm.shape != (2,) or not np.isfinite(self.logarithm).all() or self.logarithm[1] <= 0.0:
                raise ArgumentError("logarithm", "logarithm is not two numbers; give an origin and a positive unit.")
        if self.assignment is not None:
            self._set(assignment=self._checked_assignment())

    def _checked_assignment(self) -> np.ndarray:
        assignment = as_values(self.assignment, "assignment", self.size, self.partner)
        rows = assignment.astype(int)
        if (
            assignment.shape != (self.size,)
            or np.any(rows != assignment)
            or np.any((rows < 0) | (rows >= len(self.weights)))
        ):
            raise ArgumentError(
                "assignment",
                f"assignment has shape {assignment.shape}; give the number of a row of x, from 0 to "
                f"{len(self.weights) - 1}, for each of the {self.size} targets.",
            )
        return rows

    @property
    def size(self) -> int:
        """One value for each column."""
        return self.weights.shape[1]

    @property
    def partner(self) -> str:
        """Targets are paired with the columns of the weights."""
        return "the columns of weights"

    @property
    def variance(self) -> np.ndarray:
        """The noise variance of each target."""
        return self.variance_at(self.noise)

    def variance_at(self, noise: float) -> np.ndarray:
        """Return the variance of each target if σ were `noise`."""
        own = noise**2 if self.repeats is None else noise**2 / self.repeats
        return np.broadcast_to(with_known_variance(own, self.target_variance), (self.size,))

    @property
    def noise_unit(self) -> float:
        """What the noise is multiplied by to be in units of the targets, for the typical target if it multiplies."""
        return 1.0 if self.logarithm is None else float(self.logarithm[1])

    def noise_variance(self, noise: float, mean: np.ndarray, variance: np.ndarray) -> Any:
        """Return that of a new target, which grows with f where the noise multiplies it: that of a log-normal."""
        if self.logarithm is None:
            return super().noise_variance(noise, mean, variance)
        origin, unit = self.logarithm
        return np.expm1((noise / unit) ** 2) * ((mean + origin) ** 2 + variance)

    def transformed(self, z: np.ndarray) -> np.ndarray:
        """Return the targets to which the noise adds."""
        if self.logarithm is None:
            return z
        origin, unit = self.logarithm
        return np.asarray(np.log((z + origin) / unit))

    def log_jacobian(self, z: np.ndarray) -> np.ndarray:
        """Return what turns log densities of `transformed` targets into those of the targets, (m,)."""
        return np.zeros(len(z)) if self.logarithm is None else -np.log(z + self.logarithm[0])

    def linearize(self, *, use_features: bool = True) -> Linearization:
        """Return the model of the means, z ≈ Wᵀ f(x) + noise; conditioning uses the whole distribution instead."""
        mean = self.averages(self.weights)
        return Linearization(mean, self.noise**2 if self._has_equal_noise else self.variance)

    @property
    def _has_equal_noise(self) -> bool:
        return self.target_variance is None and self.repeats is None

    def averages(self, weights: np.ndarray) -> np.ndarray:
        """Return the distribution over the rows of x (n, m) that belongs to each target, given its weights."""
        return weights if self.transformation is None else multiply(self.transformation, weights)

    def _posterior(self, prior: Prior, points: np.ndarray, z: np.ndarray, form: str) -> Any:
        """Return the posterior of f: a mixture over sampled assignments, or Gaussian if the assignment is given."""
        targets = self._flat(z)
        if self.logarithm is not None and self.assignment is None:
            raise ArgumentError(
                "assignment", "logarithm needs an assignment here; sample it by sample_latent_inputs."
            )
        if self.assignment is not None:
            columns = (self.assignment, np.arange(self.size))
            indicator = sparse.csr_array((np.ones(self.size), columns), shape=(len(self.weights), self.size))
            chosen = indicator if self.transformation is None else self.transformation[:, self.assignment]
            linear = Linearization(chosen, self.variance)
            found = posterior_of(prior, points, linear, targets, "function")
            return found if self.logarithm is None else LogNormalPosterior(found, self.noise, *self.logarithm)
        settings = GibbsSettings()
        bound = _Bound(self, prior, points, targets, settings)
        state = _GibbsState(self.weights, targets, np.random.default_rng(0))
        through = _Transformation(self.transformation)
        gram = prior.covariance.gram(points, points)
        root = square_root(gram)
        state.draw_assignment(bound.mean, self.variance)
        parts, likelihoods, predictions = [], [], []
        for sweep in range(settings.warmup + settings.draws * settings.thinning):
            pooled = _PooledTargets.of(state.assignment, targets, self.variance)
            f = pooled.draw(gram, root, float(prior.mean_of(1)[0]), state.rng, through)
            state.draw_assignment(f, self.variance)
            if sweep >= settings.warmup and sweep % settings.thinning == 0:
                pooled = _PooledTargets.of(state.assignment, targets, self.variance)
                parts.append(pooled.posterior(prior, points, through))
                likelihoods.append(state.log_likelihood(f, self.variance))
                predictions.append(state.predictive_moments(f, self.variance))
        left_out = _leave_one_out(np.array(likelihoods), predictions)
        return LatentInputPosterior(parts, bound.value, left_out)

    def _log_evidence(self, prior: Prior, points: np.ndarray, z: np.ndarray, form: str) -> float:
        """Return the variational lower bound of log p(z), or log p(z | assignment) if the assignment is given."""
        bound = _Bound(self, prior, points, self._flat(z), GibbsSettings())
        return bound.value + float(self.log_jacobian(z.ravel()).sum())

    def _log_evidence_and_gradient(
        self, prior: Prior, points: np.ndarray, z: np.ndarray, with_points: bool
    ) -> tuple[float, Gradient]:
        """Return the same with its gradient, which by the envelope theorem holds the variational posterior fixed."""
        bound = _Bound(self, prior, points, self._flat(z), GibbsSettings())
        return bound.value + float(self.log_jacobian(z.ravel()).sum()), bound.gradient(with_points)

    def _flat(self, z: np.ndarray) -> np.ndarray:
        if z[0].size > 1:
            raise ArgumentError("z", "targets at latent inputs are one column; fit each target column by itself.")
        if self.logarithm is not None and np.any(z + self.logarithm[0] <= 0.0):
            raise ArgumentError(
                "z", "z has targets at or below the origin, where noise that multiplies has no logarithm."
            )
        return self.transformed(z.ravel())


class LogNormalPosterior:
    """The posterior of f(x) = E[z | x] = unit · exp(g(x) + σ²/2) - origin from that of g, for noise that multiplies.

    >>> from decond.kernels import RBF
    >>> from decond.gp import FunctionPrior, condition
    >>> seen = LatentInput([0.0], weights=[[1.0]], noise=0.01, assignment=[0], logarithm=[0.0, 1.0])
    >>> condition(FunctionPrior(RBF()), seen, [3.0]).mean([[0.0]]).round(1)
    array([3.])
    """

    def __init__(self, log: Posterior, noise: float, origin: float, unit: float) -> None:
        self._log, self._noise, self._origin, self._unit = log, noise, origin, unit

    @property
    def prior(self) -> Any:
        """The prior of g."""
        return self._log.prior

    @property
    def log_evidence(self) -> float:
        """Log density of the logarithms of the targets."""
        return self._log.log_evidence

    def mean(self, x: ArrayLike) -> np.ndarray:
        """Return the mean of f at the rows of x, (q,)."""
        return self.moments(x)[0]

    def moments(self, x: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of f at the rows of x."""
        mean, variance = self._log.moments(x)
        return self._moments(mean + 0.5 * self._noise**2, variance)

    def variance(self, x: ArrayLike) -> np.ndarray:
        """Return the variance of f at the rows of x, (q,)."""
        return self.moments(x)[1]

    def std(self, x: ArrayLike) -> np.ndarray:
        """Return the standard deviation of f at the rows of x, (q,)."""
        return np.asarray(np.sqrt(self.variance(x)))

    def covariance(self, x: ArrayLike) -> np.ndarray:
        """Return the covariance of f between the rows of x, (q, q)."""
        mean = self.mean(x) + self._origin
        return np.outer(mean, mean) * np.expm1(self._log.covariance(x))

    def sample(self, x: ArrayLike, n: int, seed: Seed = None) -> np.ndarray:
        """Return n joint draws of f at the rows of x, (n, q).

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
        ndarray of shape (n, q)
        """
        draws = self._log.sample(x, n, seed) + 0.5 * self._noise**2
        return np.asarray(self._unit * np.exp(draws) - self._origin)

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of each target, predicted from the others, noise included."""
        return self._moments(*self._log.leave_one_out())

    def _moments(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        center = self._unit * np.exp(mean + 0.5 * variance)
        return center - self._origin, center**2 * np.expm1(variance)


class _PooledTargets(NamedTuple):
    """Targets given their assignment: for each distinct row the mean of its targets and their joint precision."""

    rows: np.ndarray
    precision: np.ndarray
    mean: np.ndarray
    log_constant: float
    """What log p(z | f, assignment) has beside log N(mean; f at the rows, 1/precision)."""

    @classmethod
    def of(cls, assignment: np.ndarray, z: np.ndarray, variance: np.ndarray) -> "_PooledTargets":
        """Return the pooled targets of an assignment."""
        rows, index = np.unique(assignment, return_inverse=True)
        precision = np.bincount(index, 1.0 / variance)
        mean = np.bincount(index, z / variance) / precision
        scatter = float(((z - mean[index]) ** 2 / variance).sum())
        logs = float(np.log(precision / (2.0 * np.pi)).sum() + np.log(2.0 * np.pi * variance).sum())
        return cls(rows, precision, mean, -0.5 * (logs + scatter))

    def log_evidence(self, gram: np.ndarray, offset: float = 0.0) -> float:
        """Return log p(z | assignment) from the Gram matrix at the distinct rows and a constant prior mean."""
        covariance = gram.copy()
        add_to_diagonal(covariance, 1.0 / self.precision)
        factor = cholesky(covariance, "K + noise")
        return gaussian_log_density(factor, (self.mean - offset)[:, None]) + self.log_constant

    def posterior(self, prior: Prior, points: np.ndarray, through: "_Transformation | None" = None) -> Posterior:
        """Return the Gaussian posterior of f given the assignment."""
        rows, columns = (through or _Transformation(None)).support(self.rows)
        identity = columns is None
        matrix = sparse.eye_array(len(self.rows), format="csr") if columns is None else columns
        linear = Linearization(matrix, 1.0 / self.precision, identity=identity)
        return posterior_of(prior, points[rows], linear, self.mean, "function")

    def draw(
        self,
        gram: np.ndarray,
        root: np.ndarray,
        offset: float,
        rng: np.random.Generator,
        through: "_Transformation | None" = None,
    ) -> np.ndarray:
        """Draw Bᵀ f, for all columns of B, by Matheron's rule from K = root rootᵀ."""
        through = through or _Transformation(None)
        prior = root @ rng.standard_normal(root.shape[1])
        noise = rng.standard_normal(len(self.rows)) / np.sqrt(self.precision)
        rows, columns = through.support(self.rows)
        cross = gram[:, rows] if columns is None else multiply(gram, columns)
        covariance, seen = (cross[rows], prior[rows]) if columns is None else (columns.T @ cross, columns.T @ prior)
        add_to_diagonal(covariance, 1.0 / self.precision)
        weights = cholesky(covariance, "K + noise").solve((self.mean - offset - seen - noise)[:, None])
        return offset + through.apply(prior + multiply(cross, weights)[:, 0])


class _Transformation:
    """B, sparse: what a target may see of f is a column of it; without one, f at a row."""

    def __init__(self, matrix: np.ndarray | None) -> None:
        self._columns = matrix
        self._transposed = None if matrix is None else sparse.csr_array(matrix.T)

    def support(self, chosen: np.ndarray) -> tuple[Any, np.ndarray | None]:
        """Return which rows of x some columns of B take part of, and these columns; None for the identity."""
        return (chosen, None) if self._columns is None else (slice(None), self._columns[:, chosen])

    def apply(self, f: np.ndarray) -> np.ndarray:
        """Return Bᵀ f."""
        return f if self._transposed is None else np.asarray(self._transposed @ f)


class _GibbsState:
    """The assignment of targets to rows, and how it is drawn given f.

    For each target only the rows that hold nearly all of its probability are looked at, the likeliest first.
    """

    def __init__(
        self, weights: np.ndarray, z: np.ndarray, rng: np.random.Generator, negligible: float = 1e-4
    ) -> None:
        order = np.argsort(-weights, axis=0)
        ordered = np.take_along_axis(weights, order, axis=0)
        covered = np.cumsum(ordered, axis=0) >= 1.0 - negligible
        most = 1 + int(np.argmax(covered.all(axis=1))) if covered.all(axis=1).any() else len(weights)
        self._rows, self._weights = order[:most], ordered[:most]
        with np.errstate(divide="ignore"):
            self._log_weights = np.log(self._weights)
        self.z, self.rng = z, rng
        self.assignment = self._rows[0]

    def draw_assignment(self, f: np.ndarray, variance: np.ndarray) -> None:
        """Draw the row of each target, with probability ∝ w_ij N(z_j; f_i, variance_j)."""
        logs = self._joint(f, variance)
        logs -= logs.max(axis=0)
        cumulative = np.cumsum(np.exp(logs, out=logs), axis=0, out=logs)
        drawn = (cumulative < self.rng.random(len(self.z)) * cumulative[-1]).sum(axis=0)
        self.assignment = self._rows[drawn, np.arange(len(self.z))]

    def log_likelihood(self, f: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return log p(z_j | f) of each target, summed over the rows where it may have been measured."""
        logs = self._joint(f, variance)
        top = logs.max(axis=0)
        logs -= top
        return np.log(np.exp(logs, out=logs).sum(axis=0)) + top - 0.5 * np.log(2.0 * np.pi * variance)

    def predictive_moments(
        self, f: np.ndarray, variance: np.ndarray, logarithm: np.ndarray | None = None
    ) -> np.ndarray:
        """Return mean and second moment of a new target for each column, given f, (2, m)."""
        values, added = f[self._rows], variance
        if logarithm is not None:
            origin, unit = logarithm
            center = unit * np.exp(values + 0.5 * variance)
            values, added = center - origin, center**2 * np.expm1(variance)
        total = self._weights.sum(axis=0)
        mean = np.einsum("ij,ij->j", self._weights, values) / total
        second = np.einsum("ij,ij->j", self._weights, values**2 + added) / total
        return np.array([mean, second])

    def _joint(self, f: np.ndarray, variance: np.ndarray) -> np.ndarray:
        logs = f[self._rows]
        logs -= self.z
        logs *= logs
        logs *= -0.5 / variance
        logs += self._log_weights
        return logs


def _leave_one_out(log_likelihoods: np.ndarray, predictions: ArrayLike) -> LeftOut:
    """Return leave-one-out predictions of targets (m,) from posterior draws, by truncated importance sampling.

    Draw s counts for target j as 1 / p(z_j | f_s), truncated at √S times the mean (Ionides 2008,
    doi:10.1198/106186008X320456).

    >>> found = _leave_one_out(np.zeros((4, 2)), np.ones((4, 2, 2)))
    >>> found.mean, found.log_density
    (array([1., 1.]), array([0., 0.]))
    """
    ratios = np.exp(log_likelihoods.min(axis=0) - log_likelihoods)
    ratios = np.minimum(ratios, np.sqrt(len(ratios)) * ratios.mean(axis=0))
    ratios /= ratios.sum(axis=0)
    mean, second = np.einsum("sj,skj->kj", ratios, np.asarray(predictions))
    return LeftOut(mean, second - mean**2, logsumexp(log_likelihoods, axis=0, b=ratios))


class LatentInputPosterior(MixturePosterior):
    """The posterior of f given targets at latent inputs: a mixture over sampled assignments.

    >>> from decond.kernels import RBF
    >>> from decond.gp import FunctionPrior, condition
    >>> seen = LatentInput([0.0, 9.0], weights=[[0.9, 0.1], [0.1, 0.9]], noise=0.1)
    >>> condition(FunctionPrior(RBF()), seen, [1.0, -1.0]).mean([[0.0], [9.0]]).round(1)
    array([ 1., -1.])
    """

    def __init__(self, parts: list[Posterior], log_evidence: float, left_out: LeftOut) -> None:
        super().__init__(parts, np.full(len(parts), 1.0 / len(parts)))
        self._log_evidence, self._left_out = log_evidence, left_out

    @property
    def log_evidence(self) -> float:
        """The variational lower bound of log p(z)."""
        return self._log_evidence

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of each target, predicted from the others, noise included."""
        return self._left_out.mean, self._left_out.variance


class _Bound:
    """The variational bound with q(f) q(assignment), both at their optimum, and its gradient.

    With responsibilities r and P = diag Σ_j r_ij/v_j, q(f) has the covariance (K⁻¹ + P)⁻¹. The adjoint of K is
    ½(ββᵀ - (K + P⁻¹)⁻¹) with β_i = Σ_j r_ij (z_j - μ_i)/v_j, which needs no inverse of K. A given assignment is the
    case in which r is 0 or 1, where the bound is exact.
    """

    def __init__(
        self, seen: LatentInput, prior: Prior, points: np.ndarray, z: np.ndarray, settings: GibbsSettings
    ) -> None:
        self._seen, self._prior, self._points, self._z = seen, prior, points, z
        self._offset = float(prior.mean_of(1)[0])
        self._gram = prior.covariance.gram(points, points)
        if seen.transformation is not None:
            self._gram = multiply(seen.transformation.T, multiply(self._gram, seen.transformation))
        if seen.assignment is None:
            self._responsibilities = np.array(seen.weights)
            self._update()
            self._iterate(settings)
            divergence = float(rel_entr(self._responsibilities, seen.weights).sum())
        else:
            self._responsibilities = np.zeros_like(seen.weights)
            self._responsibilities[seen.assignment, np.arange(len(z))] = 1.0
            self._update()
            divergence = 0.0
        self.value = self._integral - divergence

    def _iterate(self, settings: GibbsSettings) -> None:
        """Update responsibilities and q(f) in turn until neither changes."""
        with np.errstate(divide="ignore"):
            log_weights = np.log(self._seen.weights)
        for _ in range(settings.most_iterations):
            logs = log_weights - 0.5 * self._squares() / self._seen.variance
            logs -= logs.max(axis=0)
            updated = np.exp(logs, out=logs)
            updated /= updated.sum(axis=0)
            change = np.abs(updated - self._responsibilities).max()
            self._responsibilities = updated
            self._update()
            if change < settings.tolerance:
                break

    def _update(self) -> None:
        """Set q(f), and the bound without the divergence of the responsibilities."""
        r, v = self._responsibilities, self._seen.variance
        root = np.sqrt((r / v).sum(axis=1))
        inner = root[:, None] * self._gram * root
        add_to_diagonal(inner, 1.0)
        factor = cholesky(inner, "I + √P K √P")
        pull = (r / v) @ (self._z - self._offset)
        white = factor.half_solve(np.where(root > 0.0, pull / np.where(root > 0.0, root, 1.0), 0.0)[:, None])[:, 0]
        half = factor.half_solve(root[:, None] * self._gram)
        self.mean = self._offset + half.T @ white
        self._variance = np.diagonal(self._gram) - (half**2).sum(axis=0)
        self._whitened = factor.half_solve(np.diag(root))  # its Gram matrix is (K + P⁻¹)⁻¹
        fit = float(((r / v) @ (self._z - self._offset) ** 2).sum())
        scatter = fit - float((pull[root > 0.0] ** 2 / root[root > 0.0] ** 2).sum())
        logs = float(np.log(2.0 * np.pi * v).sum())
        self._integral = -0.5 * (factor.log_determinant + float(white @ white) + scatter + logs)

    def _squares(self) -> np.ndarray:
        """Return E[(z_j - f_i)²] under q(f), (n, m)."""
        return (self._z - self.mean[:, None]) ** 2 + self._variance[:, None]

    def gradient(self, with_points: bool) -> Gradient:
        """Return the gradient of the bound by path."""
        r, v = self._responsibilities, self._seen.variance
        beta = (r * (self._z - self.mean[:, None]) / v).sum(axis=1)
        gram_bar = 0.5 * (np.outer(beta, beta) - multiply(self._whitened.T, self._whitened))
        if self._seen.transformation is not None:
            gram_bar = multiply(multiply(self._seen.transformation, gram_bar), self._seen.transformation.T)
        pulled = self._prior.covariance.symmetric_pullback(self._points, gram_bar, points=with_points)
        gradient = self._prior.gradient(pulled.parameters, np.array([beta.sum()]))
        slopes = (r * (self._squares() / v**2 - 1.0 / v)).sum(axis=0)
        repeats = 1.0 if self._seen.repeats is None else self._seen.repeats
        gradient["observation.noise"] = self._seen.noise * float(np.sum(slopes / repeats))
        if with_points:
            gradient["observation.x"] = pulled.a + pulled.b
        return gradient


@dataclass(frozen=True)
class SamplerSettings:
    """Settings of `sample_latent_inputs`. More of everything costs time and changes answers little.

    >>> SamplerSettings(sweeps=400).kept
    8
    """

    tables: int = 4
    """Bootstrap tables of p(x | y)."""
    warmup: int = 200
    """Sweeps of each chain before the first draw."""
    sweeps: int = 100
    """Sweeps of each chain after that."""
    kept: int = 8
    """Draws of each chain that predictions are made from."""
    sweeps_per_step: int = 5
    """Sweeps from one step of the hyperparameters to the next."""
    most_steps_out: int = 8
    """Widths of a slice at most, in units of the logarithm of a hyperparameter."""
    threshold: float = 0.01
    """Chains with a smaller stacking weight within their table are dropped."""


Starts = Callable[[np.ndarray], Sequence[np.ndarray]]


def sample_latent_inputs(
    name: str,
    model: Model,
    tables: Iterable[np.ndarray],
    starts: Starts,
    z: np.ndarray,
    variables: list[Variable],
    seed: int = 0,
    settings: SamplerSettings | None = None,
    stack_tables: bool = False,
    progress: Progress | None = None,
) -> Candidate:
    """Return a candidate whose parts are draws of the hyperparameters and the assignment.

    Parameters
    ----------
    name : str
        Name of the candidate.
    model : Model
        Prior of f and a `LatentInput`, at the hyperparameters where the chains start.
    tables : iterable of ndarray of shape (n, m)
        Probabilities of the rows for each target, one array for each bootstrap table.
    starts : callable
        From such an array to values of f at the rows, one for each chain.
    z : ndarray of shape (m,)
        The centered targets.
    variables : list of Variable
        The hyperparameters, among them "observation.noise".
    seed : int
        Seed of the chains.
    settings : SamplerSettings, optional
        Lengths and numbers of chains.
    stack_tables : bool
        Whether the tables are rival models, combined by stacking, and not bootstrap samples of one, which are pooled.
    progress : callable, optional
        Called after each sweep with the number of sweeps of the chain and nan.

    Returns
    -------
    Candidate
        Draws with weights, and leave-one-out predictions of the targets.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> from decond.gp import select
    >>> from decond.gp import FunctionPrior, LatentInput
    >>> weights = np.array([[0.9, 0.9, 0.1, 0.5], [0.1, 0.1, 0.9, 0.5]])
    >>> z = np.array([1.0, 1.1, -1.0, -0.9])
    >>> model = Model(FunctionPrior(RBF()), LatentInput([0.0, 5.0], weights, noise=0.1))
    >>> variables = select(model, free=["observation.noise"], bounds={"observation.noise": (0.01, 1.0)})
    >>> start = np.array([1.0, -1.0])  # f(0) = 1 and f(5) = -1
    >>> draws = sample_latent_inputs("latent inputs", model, [weights], lambda table: [start], z, variables)
    >>> draws.values[0]["observation.assignment"]
    array([0, 0, 1, 1])
    """
    with one_blas_thread():  # matrices are small, and there are many of them
        used = settings or SamplerSettings()
        return _sample(name, model, tables, starts, z, variables, seed, used, stack_tables, progress)


def _sample(
    name: str,
    model: Model,
    tables: Iterable[np.ndarray],
    starts: Starts,
    z: np.ndarray,
    variables: list[Variable],
    seed: int,
    settings: SamplerSettings,
    stack_tables: bool,
    progress: Progress | None,
) -> Candidate:
    rng = np.random.default_rng(seed)
    runs: list[list[_Run]] = []
    for table in tables:
        runs.append([])
        for f in starts(table):
            chain = _Chain(model, table, z, variables, f, rng, settings)
            runs[-1].append(chain.run(progress))
    groups = [[run for of_table in runs for run in of_table]] if stack_tables else runs
    kept = [(run, weight) for group in groups for run, weight in _stacked(group, settings.threshold)]
    shares = np.array([weight for _, weight in kept]) / len(groups)
    values = tuple(draw for run, _ in kept for draw in run.values)
    weights = np.concatenate(
        [np.full(len(run.values), share / len(run.values)) for (run, _), share in zip(kept, shares, strict=True)]
    )
    left_out = LeftOut.mixture([run.left_out for run, _ in kept], shares)
    return Candidate(name, *_without_unused_columns(model, values), weights, left_out)


def _without_unused_columns(
    model: Model, values: tuple[dict[str, Any], ...]
) -> tuple[Model, tuple[dict[str, Any], ...]]:
    """Return model and draws without the columns of a transformation that no draw uses, which would fill memory."""
    seen: Any = model.observation
    if seen.transformation is None:
        return model, values
    path = "observation.assignment"
    used, inverse = np.unique([draw[path] for draw in values], return_inverse=True)
    weights = seen.weights[used] / seen.weights[used].sum(axis=0)
    smaller = Model(model.prior, seen.replace(weights=weights, transformation=seen.transformation[:, used]))
    renumbered = inverse.reshape(len(values), -1)
    return smaller, tuple({**draw, path: rows} for draw, rows in zip(values, renumbered, strict=True))


def _stacked(runs: Sequence["_Run"], threshold: float) -> list[tuple["_Run", float]]:
    """Return the chains that have a stacking weight, with their weights, which sum to one."""
    weights = stacking_weights(np.array([run.left_out.log_density for run in runs]))
    weights = np.where(weights >= threshold, weights, 0.0)
    return [(run, float(w)) for run, w in zip(runs, weights / weights.sum(), strict=True) if w > 0.0]


class _Run(NamedTuple):
    values: list[dict[str, Any]]
    left_out: LeftOut


class _Chain:
    """One chain: hyperparameters as an unconstrained vector, f at the rows, and the assignment."""

    def __init__(
        self,
        model: Model,
        table: np.ndarray,
        z: np.ndarray,
        variables: list[Variable],
        f: np.ndarray,
        rng: np.random.Generator,
        settings: SamplerSettings,
    ) -> None:
        self._objective = Objective(model, z, variables)
        self._prior, self._x = model.prior, model.prior.covariance.points(model.observation.x, "x")
        self._seen = seen = cast(LatentInput, model.observation)
        self._jacobian, self._z = seen.log_jacobian(z), seen.transformed(z)
        self._rng, self._settings = rng, settings
        self._vector = self._objective.vector_of(model.values())
        self._lower, self._upper = self._objective.bounds
        sizes = [variable.start.size for variable in variables]
        self._is_noise = np.repeat([float("observation.noise" in v.paths) for v in variables], sizes)
        self._state = _GibbsState(table, self._z, rng)
        self._through = _Transformation(seen.transformation)
        self._offset = float(model.prior.mean_of(1)[0])
        self._factored: bytes | None = None  # of which hyperparameters the root is
        self._state.draw_assignment(self._through.apply(f), self._variance(self._vector))

    def run(self, progress: Progress | None) -> _Run:
        """Return the draws that are kept, and leave-one-out predictions from all draws after the warm-up."""
        settings = self._settings
        values, likelihoods, predictions = [], [], []
        every = max(1, settings.sweeps // settings.kept)
        for sweep in range(settings.warmup + settings.sweeps):
            steps = sweep % settings.sweeps_per_step == 0
            if steps:
                self._step_hyperparameters()
            f = self._draw_f()
            if steps:
                self._step_noise(f)
            variance = self._variance(self._vector)
            self._state.draw_assignment(f, variance)
            after = sweep - settings.warmup
            if after >= 0:
                likelihoods.append(self._state.log_likelihood(f, variance))
                predictions.append(self._state.predictive_moments(f, variance, self._seen.logarithm))
                if after % every == every - 1:
                    parameters = self._objective.parameters_at(self._vector)
                    values.append({**parameters, "observation.assignment": self._state.assignment})
            if progress is not None:
                progress(sweep + 1, np.nan)
        return _Run(values, _leave_one_out(np.array(likelihoods) + self._jacobian, predictions))

    def _draw_f(self) -> np.ndarray:
        key = self._vector[self._is_noise == 0.0].tobytes()
        if key != self._factored:
            self._gram = self._kernel(self._vector).gram(self._x, self._x)
            self._root = square_root(self._gram)
            self._factored = key
        return self._pooled(self._vector).draw(self._gram, self._root, self._offset, self._rng, self._through)

    def _step_hyperparameters(self) -> None:
        """Take a step along a random direction, with f integrated out and the assignment given."""
        direction = self._rng.standard_normal(len(self._vector))
        self._slice(direction / np.linalg.norm(direction), self._log_density)

    def _step_noise(self, f: np.ndarray) -> None:
        """Take a step of the noise, with the assignment integrated out and f given."""

        def log_density(vector: np.ndarray) -> float:
            if np.any(vector < self._lower) or np.any(vector > self._upper):
                return -np.inf
            likelihood = self._state.log_likelihood(f, self._variance(vector)).sum()
            return float(likelihood) + self._objective.log_hyperprior(vector)

        self._slice(self._is_noise, log_density)

    def _slice(self, direction: np.ndarray, log_density: Callable[[np.ndarray], float]) -> None:
        """Take a step of slice sampling along a direction (Neal 2003), with stepping out and shrinkage."""
        level = log_density(self._vector) - self._rng.exponential()
        low = -self._rng.random()
        high = low + 1.0
        steps_down = int(self._rng.integers(self._settings.most_steps_out))
        for _ in range(steps_down):
            if log_density(self._vector + low * direction) <= level:
                break
            low -= 1.0
        for _ in range(self._settings.most_steps_out - 1 - steps_down):
            if log_density(self._vector + high * direction) <= level:
                break
            high += 1.0
        while high - low > 1e-9:
            step = self._rng.uniform(low, high)
            proposed = self._vector + step * direction
            if log_density(proposed) > level:
                self._vector = proposed
                return
            low, high = (step, high) if step < 0.0 else (low, step)

    def _log_density(self, vector: np.ndarray) -> float:
        """Return log p(z | assignment, hyperparameters) plus the log hyperprior; -inf outside the bounds."""
        if np.any(vector < self._lower) or np.any(vector > self._upper):
            return -np.inf
        pooled = self._pooled(vector)
        rows, columns = self._through.support(pooled.rows)
        gram = self._kernel(vector).gram(self._x[rows], self._x[rows])
        if columns is not None:
            gram = multiply(columns.T, multiply(gram, columns))
        try:
            value = pooled.log_evidence(gram, self._offset)
        except NotPositiveDefiniteError:
            return -np.inf
        return value + self._objective.log_hyperprior(vector)

    def _pooled(self, vector: np.ndarray) -> _PooledTargets:
        return _PooledTargets.of(self._state.assignment, self._z, self._variance(vector))

    def _variance(self, vector: np.ndarray) -> np.ndarray:
        return np.asarray(self._seen.variance_at(self._objective.parameters_at(vector)["observation.noise"]))

    def _kernel(self, vector: np.ndarray) -> Any:
        values = self._objective.parameters_at(vector)
        prior = {path.removeprefix("prior."): v for path, v in values.items() if path.startswith("prior.")}
        return with_leaves(self._prior, prior).covariance
