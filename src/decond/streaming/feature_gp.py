"""The paper's task-transformed Bayesian linear model as a function of sums over two tables of any length.

Features φ (p) are those of x and ψ (q) those of the mediator y. Pairs (x, y) give ΨΨᵀ and ΦΨᵀ, task rows (y, z) give
Ψ̃Ψ̃ᵀ, Ψ̃z and zᵀz. A second pass carries adjoints of these sums back to the parameters of the features.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from decond.checks import check_choice, check_same_length
from decond.errors import ArgumentError
from decond.features import FeatureMap, Nystrom
from decond.gp import FunctionPrior, Posterior, WeightPrior
from decond.linalg import JitterWarning, cholesky, multiply, with_jitter
from decond.messages import warn
from decond.parameters import Constraint, Parametrized, constraints, leaves, parameter, positive, with_leaves
from decond.streaming.sources import Chunk, Source
from decond.streaming.statistics import RegressionPosterior, Statistics

__all__ = ["FeatureModel", "FeaturePosterior", "FeatureStatistics", "Tables", "check_same_columns"]

Array = NDArray[np.float64]


class Tables(NamedTuple):
    """Pairs, with rows x and targets y, and task rows, with rows y and targets z; either may be missing.

    >>> from decond.streaming import Table
    >>> tables = Tables(pairs=Table([1.0, 2.0], [[1.0], [2.0]]), task=None)
    >>> len(tables.pairs)
    2
    """

    pairs: Source | None
    task: Source | None


@dataclass(frozen=True, eq=False)
class FeatureStatistics:
    """The sums over all pairs and task rows that a `FeatureModel` needs of them; they add up, in any order.

    >>> from decond.features import Identity
    >>> from decond.streaming import Table
    >>> model = FeatureModel(Identity(), Identity())
    >>> pairs = model.statistics(Tables(Table([1.0, 2.0], [[1.0], [2.0]]), None))
    >>> both = pairs + model.statistics(Tables(None, Table([1.0, 2.0], [3.0, 6.0])))
    >>> both.pairs.gram, both.task.means  # Σy², and the mean of z
    (array([[5.]]), array([4.5]))
    """

    pairs: Statistics | None = None
    """Of the stack [Ψ; Φ; 1ᵀ]: its gram is ΨΨᵀ, its cross is ΨΦᵀ. None if no pairs were read."""
    task: Statistics | None = None
    """Of the stack [Ψ̃; zᵀ; 1ᵀ]. None if no task rows were read."""
    pair_columns: int | None = None
    """How many columns the mediator of the pairs has: sums of features do not tell."""
    task_columns: int | None = None
    """How many that of the task rows has."""

    def __post_init__(self) -> None:
        """Check that the mediators of both tables have as many columns, as far as they are known."""
        check_same_columns("y_task", self.pair_columns, self.task_columns)

    def __add__(self, other: "FeatureStatistics") -> "FeatureStatistics":
        """Return the sums of both sets of rows."""
        pair_columns = check_same_columns("y", self.pair_columns, other.pair_columns)
        task_columns = check_same_columns("y_task", self.task_columns, other.task_columns)
        one, two = (None if task is None else task.targets for task in (self.task, other.task))
        check_same_columns("z_task", one, two)
        return FeatureStatistics(
            _sum(self.pairs, other.pairs), _sum(self.task, other.task), pair_columns, task_columns
        )

    def standardized(self, offset: Array, scale: Array) -> "FeatureStatistics":
        """Return the statistics of targets (z - offset) / scale.

        Parameters
        ----------
        offset, scale : ndarray of shape (t,)
            One of each for every target column.

        Returns
        -------
        FeatureStatistics
        """
        assert self.task is not None
        return dataclasses.replace(self, task=self.task.standardized(offset, scale))

    @cached_property
    def eigenbasis(self) -> "_Eigenbasis":
        """The pairs in the basis that makes every ridge cheap.

        Where an eigenvalue is rounding, its column of ΦΨᵀU need not be: it is of the order of √λ.
        """
        assert self.pairs is not None
        assert self.task is not None
        values, vectors = eigh(self.pairs.gram)
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        cross = multiply(self.pairs.cross.T, vectors)
        task = self.task.with_features(vectors.T)
        return _Eigenbasis(np.where(kept, values, 0.0), vectors, cross, multiply(cross.T, cross), task)

    def state(self) -> dict[str, Any]:
        """Return everything as plain data."""
        sides = {
            name: None if one is None else vars(one) for name, one in (("pairs", self.pairs), ("task", self.task))
        }
        return {**sides, "pair_columns": self.pair_columns, "task_columns": self.task_columns}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "FeatureStatistics":
        """Return the statistics that `state` describes."""
        sides = {name: None if state[name] is None else Statistics(**state[name]) for name in ("pairs", "task")}
        return cls(**{**state, **sides})


class FeatureModel(Parametrized):
    """z = E[f(X) | y] + noise with f(x) = wᵀφ(x), p(x | y) known through pairs (Theorem 5.3, part 1, of the paper).

    w ~ N(0, γ²I), and the mediating function g(y) = E[f(X) | y] is linear in ψ(y) with weights of variance β². So
    z ~ N(0, Ψ̃ᵀCΨ̃ + σ²I) with C = γ²HᵀH + σ²G⁻¹, H = ΦΨᵀG⁻¹ and G = ΨΨᵀ + (σ²/β²)I. The rows are not part of the
    model: it reads them as sums, once. Where features are nearly dependent, sums keep fewer digits of predictions the
    smaller σ is: `condition` warns once 2e-16 |ΨΨᵀ|β²/σ² is beyond 1e-6.

    Parameters
    ----------
    features_x, features_y : FeatureMap
        φ and ψ.
    noise : float
        σ, a standard deviation; the paper's noise of the pairs as well.
    variance_x, variance_y : float
        γ² and β².
    mediator : {"full", "map"}
        "map" replaces g by its mean: C = γ²HᵀH.

    Examples
    --------
    >>> from decond.features import Identity
    >>> from decond.streaming import Table
    >>> model = FeatureModel(Identity(), Identity(), noise=0.1)
    >>> pairs, task = Table([1.0, 2.0], [[1.0], [2.0]]), Table([1.0, 2.0], [3.0, 6.0])
    >>> model.condition(model.statistics(Tables(pairs, task)), columns=1).mean([[1.0]]).round(2)
    array([2.99])
    """

    features_x: FeatureMap
    features_y: FeatureMap
    noise: Any = parameter(default=0.1, constraint=positive)
    variance_x: Any = parameter(default=1.0, constraint=positive)
    variance_y: Any = parameter(default=1.0, constraint=positive)
    mediator: Literal["full", "map"] = "full"

    def __post_init__(self) -> None:
        """Check the kind of mediator."""
        check_choice(self.mediator, "mediator", ("full", "map"))
        super().__post_init__()

    def statistics(self, tables: Tables) -> FeatureStatistics:
        """Return the sums over the rows of both tables, or of the one that is there: one pass over each."""
        found, y = FeatureStatistics(), _transform(self.features_y)
        if tables.pairs is not None:
            found = found + tables.pairs.total(partial(_pairs_sums, _transform(self.features_x), y))
        if tables.task is not None:
            found = found + FeatureStatistics(task_columns=tables.task.width)
            found = found + tables.task.total(partial(_task_sums, y))
        return found

    def condition(self, statistics: FeatureStatistics, columns: int, flat: bool = True) -> "FeaturePosterior":
        """Return the posterior of f.

        Parameters
        ----------
        statistics : FeatureStatistics
            Sums of this model over the rows of both tables.
        columns : int
            How many columns x has.
        flat : bool
            Whether targets came as a flat array.

        Returns
        -------
        FeaturePosterior
        """
        posterior = FeaturePosterior(self, statistics, columns, flat)
        largest = float(statistics.eigenbasis.values[-1])
        rounding = np.finfo(float).eps * largest * self.variance_y / self.noise**2
        if rounding > 1e-6:
            message = (
                f"the noise ({self.noise:.1e}) is so small beside the sums over the pairs, of which {rounding:.0e} "
                "ridges are rounding, that predictions may show it. Use a larger noise or a smaller variance_y, or "
                "TaskTransformedGP on some of the rows."
            )
            warn(JitterWarning(message, matrix="the sums over the pairs", jitter=0.0))
        return posterior

    def values(self) -> dict[str, Any]:
        """Return all parameters by path."""
        return leaves(self)

    def points(self) -> dict[str, Any]:
        """Return nothing: landmarks stay where they are."""
        return {}

    def constraints(self) -> dict[str, Constraint]:
        """Return the constraints of the parameters, by path."""
        return constraints(self)

    def with_values(self, values: Mapping[str, Any]) -> "FeatureModel":
        """Return the model with the values at these paths replaced."""
        return with_leaves(self, values)

    def log_evidence(self, z: FeatureStatistics | Tables) -> float:
        """Return log p(z), from sums or in one pass over both tables."""
        return _Conditioned(self, self._sums(z)).regression.log_evidence

    def log_evidence_and_gradient(
        self, z: FeatureStatistics | Tables, *, points: bool = True
    ) -> tuple[float, dict[str, Any]]:
        """Return log p(z) and its gradient.

        Parameters
        ----------
        z : FeatureStatistics or Tables
            From sums, the gradient is that of the noise and the variances, without a look at any row; from tables,
            also that of the features, in two passes over each.
        points : bool
            There are no points to learn.

        Returns
        -------
        value : float
        gradient : dict
            By path.
        """
        found = _Conditioned(self, self._sums(z))
        gradient = found.gradient()
        if isinstance(z, Tables):
            gradient.update(found.feature_gradient(z))
        return found.regression.log_evidence, gradient

    def _sums(self, z: FeatureStatistics | Tables) -> FeatureStatistics:
        return self.statistics(z) if isinstance(z, Tables) else z


class FeaturePosterior(Posterior):
    """The posterior of f given all rows that the sums have seen.

    w has the mean γ²Hβ, β = Ψ̃S⁻¹z, and the covariance γ²I - γ⁴HBHᵀ, B = Ψ̃S⁻¹Ψ̃ᵀ. Of a kernel seen through landmarks,
    what these leave open stays as uncertain as the prior has it: γ²(k(x, x') - φ(x)ᵀφ(x')) is in the covariance.

    Examples
    --------
    >>> from decond.features import Identity
    >>> from decond.streaming import Table
    >>> model = FeatureModel(Identity(), Identity(), noise=0.1)
    >>> pairs, task = Table([1.0, 2.0], [[1.0], [2.0]]), Table([1.0, 2.0], [3.0, 6.0])
    >>> posterior = model.condition(model.statistics(Tables(pairs, task)), columns=1)
    >>> posterior.weights.round(2), posterior.weight_covariance.round(4)
    (array([2.99]), array([[0.004]]))
    """

    form = "weight"

    def __init__(self, model: FeatureModel, statistics: FeatureStatistics, columns: int, flat: bool) -> None:
        features = model.features_x
        if isinstance(features, Nystrom):
            self.prior = FunctionPrior(model.variance_x * features.base)
        else:
            self.prior = WeightPrior(features, model.variance_x)
        if isinstance(features, Nystrom) and statistics.pairs is not None:
            check_same_length(features.landmarks, "landmarks", statistics.pairs.targets, "the sums over the pairs")
        self.model, self.statistics, self.points = model, statistics, np.empty((0, columns))
        found = _Conditioned(model, statistics)
        regression, operator = found.regression, model.variance_x * found.operator
        self._flat, self._mean = flat, np.zeros(regression.statistics.targets)
        self._transform, self._log_evidence = _transform(features), regression.log_evidence
        self._weights = multiply(operator, regression.coefficients)
        self._explaining = multiply(regression.core.half_solve(regression.root.T), operator.T)

    @property
    def log_evidence(self) -> float:
        """Log p(z), summed over target columns."""
        return self._log_evidence

    @property
    def weight_covariance(self) -> Array:
        """The posterior covariance of w, (p, p)."""
        explained = multiply(self._explaining.T, self._explaining)
        return self.model.variance_x * np.eye(len(explained)) - explained

    def leave_one_out(self) -> tuple[Array, Array]:
        """Raise, because single targets are not kept."""
        raise NotImplementedError(
            "this posterior keeps sums over its rows, not the rows, so it cannot leave one out. Use "
            "cross-validation, or TaskTransformedGP on a smaller table."
        )

    def _cross(self, x: Array) -> Array:
        return self._transform(x).T

    def _variances(self, x: Array, cross: Array) -> Array:
        return self.prior.covariance.diagonal(x) - (multiply(self._explaining, cross) ** 2).sum(axis=0)

    def _covariances(self, x: Array, cross: Array) -> Array:
        explained = multiply(self._explaining, cross)
        return self.prior.covariance.gram(x, x) - multiply(explained.T, explained)

    def _inverse(self) -> tuple[Array, Array]:
        return self.leave_one_out()

    def __repr__(self) -> str:
        """Show sizes and log evidence."""
        pairs, task = self.statistics.pairs, self.statistics.task
        assert pairs is not None
        assert task is not None
        return (
            f"{type(self).__name__}({pairs.targets} and {pairs.size} features, {pairs.count} pairs, {task.count} "
            f"task rows, log evidence {self.log_evidence:.6g})"
        )


class _Eigenbasis(NamedTuple):
    """ΨΨᵀ = U diag(λ) Uᵀ of the pairs, with everything else in the basis U."""

    values: Array
    """λ (q,), zero where it is rounding."""
    vectors: Array
    """U (q, q)."""
    cross: Array
    """ΦΨᵀU (p, q)."""
    cross_gram: Array
    """UᵀΨΦᵀΦΨᵀU (q, q)."""
    task: Statistics
    """Those of the task rows, with UᵀΨ̃ in place of Ψ̃."""


class _Conditioned:
    """The evidence of a feature model and what its posterior needs, in the basis of `_Eigenbasis`.

    There G is diagonal, with the inverse D = diag(1 / (λ + ρ)), ρ = σ²/β²; and C = γ²DQD + σ²D with
    Q = UᵀΨΦᵀΦΨᵀU.
    """

    def __init__(self, model: FeatureModel, statistics: FeatureStatistics) -> None:
        self.model, self.basis = model, statistics.eigenbasis
        self.noise, self.ridge = model.noise**2, model.noise**2 / model.variance_y
        self.shrinkage = 1.0 / (self.basis.values + self.ridge)
        self.signal = self.basis.cross_gram * np.outer(self.shrinkage, self.shrinkage)
        """DQD = HᵀH."""
        prior = model.variance_x * self.signal
        if model.mediator == "full":
            prior += np.diag(self.noise * self.shrinkage)
        self.regression = RegressionPosterior(self.basis.task, prior, self.noise)

    @property
    def operator(self) -> Array:
        """H = ΦΨᵀG⁻¹ (p, q): E[φ(X) | y] is Hψ(y)."""
        return self.basis.cross * self.shrinkage

    def gradient(self) -> dict[str, Any]:
        """Return the gradient of noise and variances."""
        model, d, bar = self.model, self.shrinkage, self.regression.prior_adjoint
        shrinkage_bar = 2.0 * model.variance_x * ((bar * self.basis.cross_gram) @ d)
        noise_bar = self.regression.noise_adjoint(self.regression.misfit)
        if model.mediator == "full":
            shrinkage_bar += self.noise * np.diagonal(bar)
            noise_bar += float(np.diagonal(bar) @ d)
        ridge_bar = -float(d**2 @ shrinkage_bar)
        noise_bar += ridge_bar / model.variance_y
        return {
            "noise": 2.0 * model.noise * noise_bar,
            "variance_x": float((bar * self.signal).sum()),
            "variance_y": -ridge_bar * self.ridge / model.variance_y,
        }

    def feature_gradient(self, tables: Tables) -> dict[str, Any]:
        """Return the gradient of the parameters of both feature maps: the second pass over both tables.

        X_bar = 2γ²HC_barG⁻¹ and G_bar = -HᵀX_bar - σ²G⁻¹C_barG⁻¹; with mean μ and covariance V of the weights of g,
        N_bar = -(μμᵀ + tV)/σ² and ν_bar = μ/σ².
        """
        assert tables.pairs is not None
        assert tables.task is not None
        found, U, d = self.regression, self.basis.vectors, self.shrinkage
        cross_bar = 2.0 * self.model.variance_x * multiply(self.operator, found.prior_adjoint) * d
        gram_bar = -multiply(self.operator.T, cross_bar)
        gram_bar = 0.5 * (gram_bar + gram_bar.T)
        if self.model.mediator == "full":
            gram_bar -= self.noise * found.prior_adjoint * np.outer(d, d)
        task_bar = -(multiply(found.mean, found.mean.T) + found.statistics.targets * found.covariance) / self.noise
        x, y = _transform(self.model.features_x), _transform(self.model.features_y)
        work = partial(_pairs_slopes, x, y, multiply(multiply(U, gram_bar), U.T), multiply(cross_bar, U.T))
        task_work = partial(
            _task_slopes, y, multiply(multiply(U, task_bar), U.T), multiply(U, found.mean) / self.noise
        )
        slopes = tables.pairs.total(work) + tables.task.total(task_work)
        sides = {"features_x.": x.gradient(slopes.x), "features_y.": y.gradient(slopes.y)}
        return {prefix + path: bar for prefix, side in sides.items() for path, bar in side.items()}


class _Transform:
    """Features of many rows, and the way back from their adjoints to the parameters."""

    def __init__(self, features: FeatureMap) -> None:
        self.features = features

    def __call__(self, rows: NDArray[Any]) -> Array:
        return self.features.transform(rows)

    def pullback(self, rows: NDArray[Any], features: Array, adjoint: Array) -> dict[str, Any]:
        """Return what can be summed over chunks of the gradient of ``sum(adjoint * features)``.

        Parameters
        ----------
        rows : ndarray of shape (m, d)
            Rows of a chunk.
        features : ndarray of shape (m, p)
            What the transform made of them.
        adjoint : ndarray of shape (m, p)
            The derivative of the objective with respect to each feature.

        Returns
        -------
        dict
        """
        return self.features.pullback(rows, adjoint)[0]

    def gradient(self, total: dict[str, Any]) -> dict[str, Any]:
        """Return the gradient by path, from the sum of all pullbacks."""
        return total


class _LandmarkTransform(_Transform):
    """Nyström features k(x, u)R⁻ᵀ by products with R⁻¹, which is computed once.

    Back from an adjoint φ_bar: k(x, u)_bar = φ_bar R⁻¹, and k(u, u)_bar = -R⁻ᵀ ⌊Σφ_barᵀφ⌋ R⁻¹, where ⌊ ⌋ is the lower
    triangle with half of its diagonal.
    """

    features: Nystrom

    def __init__(self, features: Nystrom) -> None:
        super().__init__(features)
        gram = features.base.gram(features.landmarks, features.landmarks)
        factor = cholesky(with_jitter(gram), "the Gram matrix of the Nyström landmarks")
        self._inverse = factor.half_solve(np.eye(len(gram)))

    def __call__(self, rows: NDArray[Any]) -> Array:
        return np.matmul(self.features.base.gram(rows, self.features.landmarks), self._inverse.T)

    def pullback(self, rows: NDArray[Any], features: Array, adjoint: Array) -> dict[str, Any]:
        """Return the gradient through k(x, u), and Σφ_barᵀφ under the name "whitening".

        Parameters
        ----------
        rows : ndarray of shape (m, d)
            Rows of a chunk.
        features : ndarray of shape (m, p)
            What the transform made of them.
        adjoint : ndarray of shape (m, p)
            The derivative of the objective with respect to each feature.

        Returns
        -------
        dict
        """
        gram_bar = np.matmul(self._inverse.T, adjoint.T)
        return {**self._pulled(rows, gram_bar), "whitening": np.matmul(adjoint.T, features)}

    def gradient(self, total: dict[str, Any]) -> dict[str, Any]:
        """Add the gradient through k(u, u)."""
        found = dict(total)
        lower = np.tril(found.pop("whitening"))
        lower[np.diag_indices(len(lower))] *= 0.5
        bar = -multiply(multiply(self._inverse.T, lower), self._inverse)
        within = self._pulled(self.features.landmarks, 0.5 * (bar + bar.T))
        return {path: value + within[path] for path, value in found.items()}

    def _pulled(self, rows: NDArray[Any], gram_bar: Array) -> dict[str, Any]:
        found = self.features.base.pullback(self.features.landmarks, rows, gram_bar, points=False)
        return {f"base.{path}": bar for path, bar in found.parameters.items()}


def _transform(features: FeatureMap) -> _Transform:
    """Return the fastest way from many rows to these features."""
    return _LandmarkTransform(features) if isinstance(features, Nystrom) else _Transform(features)


def _pairs_sums(features_x: _Transform, features_y: _Transform, chunk: Chunk) -> FeatureStatistics:
    """Return the statistics of [Ψ; Φ; 1ᵀ] of a chunk of pairs."""
    psi, phi = features_y(chunk.targets), features_x(chunk.rows)
    sums = Statistics.of_stack(_stack(psi, phi), np.zeros(phi.shape[1]), chunk.rows)
    return FeatureStatistics(pairs=sums, pair_columns=chunk.targets.shape[1])


def _task_sums(features_y: _Transform, chunk: Chunk) -> FeatureStatistics:
    """Return the statistics of [Ψ̃; zᵀ; 1ᵀ] of a chunk of task rows."""
    psi, origin = features_y(chunk.rows), chunk.targets.mean(axis=0)
    sums = Statistics.of_stack(_stack(psi, chunk.targets - origin), origin, chunk.rows)
    return FeatureStatistics(task=sums, task_columns=chunk.rows.shape[1])


@dataclass(frozen=True, eq=False)
class _Slopes:
    """Pullbacks to the features of x and of y, which add up."""

    x: dict[str, Any]
    y: dict[str, Any]

    def __add__(self, other: "_Slopes") -> "_Slopes":
        x, y = (
            {path: one.get(path, 0.0) + two.get(path, 0.0) for path in {**one, **two}}
            for one, two in ((self.x, other.x), (self.y, other.y))
        )
        return _Slopes(x, y)


def _pairs_slopes(
    features_x: _Transform, features_y: _Transform, gram_bar: Array, cross_bar: Array, chunk: Chunk
) -> _Slopes:
    """Return the slopes of a chunk of pairs: Ψ_bar = 2G_bar Ψ + X_barᵀΦ and Φ_bar = X_bar Ψ.

    G_bar (q, q) is the adjoint of ΨΨᵀ, X_bar (p, q) that of ΦΨᵀ.
    """
    psi, phi = features_y(chunk.targets), features_x(chunk.rows)
    psi_bar = np.matmul(psi, 2.0 * gram_bar) + np.matmul(phi, cross_bar)
    phi_bar = np.matmul(psi, cross_bar.T)
    return _Slopes(features_x.pullback(chunk.rows, phi, phi_bar), features_y.pullback(chunk.targets, psi, psi_bar))


def _task_slopes(features_y: _Transform, gram_bar: Array, target_bar: Array, chunk: Chunk) -> _Slopes:
    """Return the slopes of a chunk of task rows: Ψ̃_bar = N_bar Ψ̃ + ν_bar zᵀ, N_bar (q, q) and ν_bar (q, t)."""
    psi = features_y(chunk.rows)
    bar = np.matmul(psi, gram_bar) + np.matmul(chunk.targets, target_bar.T)
    return _Slopes({}, features_y.pullback(chunk.rows, psi, bar))


def _stack(features: Array, others: Array) -> Array:
    return np.concatenate([features, others, np.ones((len(features), 1))], axis=1).T


def _sum(one: Statistics | None, other: Statistics | None) -> Statistics | None:
    """Return the sum of those that are there."""
    return (one or other) if one is None or other is None else one + other


def check_same_columns(name: str, one: int | None, other: int | None = None) -> int | None:
    """Return a number of columns, or raise if two are known that differ.

    Parameters
    ----------
    name : str
        The argument that the other number is of.
    one, other : int or None
        How many columns there are; None if that is not known.

    Returns
    -------
    int or None
        The one that is known.
    """
    if one is not None and other is not None and one != other:
        raise ArgumentError(
            name,
            f"{name} has {other} column(s) but {one} were read before; the mediator links the two tables, so give "
            "the same columns each time.",
        )
    return one if other is None else other
