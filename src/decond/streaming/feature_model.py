"""The paper's task-transformed Bayesian linear model, as a function of sums over two tables of any length."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from decond.checks import check_choice
from decond.features import Nystrom
from decond.features.feature_maps import FeatureMap
from decond.gp import FunctionPrior, Posterior, WeightPrior
from decond.linalg import JitterWarning, multiply
from decond.messages import warn
from decond.parameters import Constraint, Parametrized, constraints, leaves, parameter, positive, with_leaves
from decond.streaming.feature_sums import (
    PairSums,
    PairsWork,
    SecondPairsWork,
    SecondTaskWork,
    Slopes,
    Sums,
    Tables,
    TaskSums,
    TaskWork,
    transform_of,
)
from decond.streaming.head import Head
from decond.streaming.sources import Source

__all__ = ["FeatureModel", "FeaturePosterior"]

ROUNDING = 1e-6
"""Rounding of the sums over pairs, relative to the ridge, beyond which there is a warning."""


class FeatureModel(Parametrized):
    """z = E[f(X) | y] + noise with f(x) = wᵀφ(x), p(x | y) known through pairs (Theorem 5.3, part 1, of the paper).

    w ~ N(0, γ²I), and the mediating function g(y) = E[f(X) | y] is linear in ψ(y) with weights of variance β²:
    `variance_x` is γ², `variance_y` is β², `noise` is σ, which is the paper's noise of the pairs as well. So
    z ~ N(0, Ψ̃ᵀCΨ̃ + σ²I) with C = γ²HᵀH + σ²G⁻¹, H = ΦΨᵀG⁻¹ and G = ΨΨᵀ + (σ²/β²)I. ``mediator="map"`` replaces g
    by its mean: C = γ²HᵀH.

    The rows are no part of the model. It reads them as sums, once; evidence and posterior are functions of these.
    Where features are nearly dependent, sums keep fewer digits of predictions the smaller σ is: `condition` warns
    once 2e-16 |ΨΨᵀ|β²/σ² is beyond 1e-6.

    >>> from decond.features import Identity
    >>> from decond.streaming import Table
    >>> model = FeatureModel(Identity(), Identity(), noise=0.1)
    >>> pairs, task = Table([1.0, 2.0], [[1.0], [2.0]]), Table([1.0, 2.0], [3.0, 6.0])
    >>> sums = Sums(model.pair_sums(pairs).statistics, model.task_sums(task).about(np.zeros(1), np.ones(1)))
    >>> model.condition(sums, columns=1).mean([[1.0]]).round(2)
    array([2.99])
    """

    features_x: FeatureMap
    features_y: FeatureMap
    noise: Any = parameter(default=0.1, constraint=positive)
    variance_x: Any = parameter(default=1.0, constraint=positive)
    variance_y: Any = parameter(default=1.0, constraint=positive)
    mediator: str = "full"

    def __post_init__(self) -> None:
        """Check the kind of mediator."""
        check_choice(self.mediator, "mediator", ("full", "map"))
        super().__post_init__()

    def pair_sums(self, pairs: Source) -> PairSums:
        """Return the sums over pairs, with rows x and targets y: one pass."""
        return pairs.total(PairsWork(transform_of(self.features_x), transform_of(self.features_y)))

    def task_sums(self, task: Source) -> TaskSums:
        """Return the sums over task rows, with rows y and targets z: one pass."""
        return task.total(TaskWork(transform_of(self.features_y)))

    def condition(self, sums: Sums, columns: int, flat: bool = True) -> "FeaturePosterior":
        """Return the posterior of f, a function of so many columns; `flat` if targets came as a flat array."""
        posterior = FeaturePosterior(self, sums, columns, flat)
        rounding = np.finfo(float).eps * float(sums.spectrum.values[-1]) * self.variance_y / self.noise**2
        if rounding > ROUNDING:
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

    def log_evidence(self, z: Sums | Tables) -> float:
        """Return log p(z), from sums or in one pass over both tables."""
        return FeatureHead(self, self._sums(z)).log_evidence

    def log_evidence_and_gradient(self, z: Sums | Tables, *, points: bool = True) -> tuple[float, dict[str, Any]]:
        """Return log p(z) and its gradient by path; there are no points to learn.

        From sums, the gradient of the noise and the variances, without a look at any row; from tables, also that of
        the features, in two passes over each.
        """
        head = FeatureHead(self, self._sums(z))
        gradient = head.gradient()
        if isinstance(z, Tables):
            gradient.update(head.feature_gradient(z))
        return head.log_evidence, gradient

    def _sums(self, z: Sums | Tables) -> Sums:
        if isinstance(z, Sums):
            return z
        pairs, task = self.pair_sums(z.pairs), self.task_sums(z.task)
        return Sums(pairs.statistics, task.about(np.zeros(len(task.origin)), np.ones(len(task.origin))))


class _Adjoints(NamedTuple):
    """Adjoints of the sums, in the basis that the features have."""

    gram: np.ndarray
    cross: np.ndarray
    task_gram: np.ndarray
    task_targets: np.ndarray


class FeatureHead:
    """The evidence of a feature model and what its posterior needs, in the basis of `Spectrum`.

    There G is diagonal, with the inverse D = diag(1 / (λ + ρ)), ρ = σ²/β²; and C = γ²DQD + σ²D with
    Q = UᵀΨΦᵀΦΨᵀU.
    """

    def __init__(self, model: FeatureModel, sums: Sums) -> None:
        self.model, self.spectrum = model, sums.spectrum
        self.noise, self.ridge = model.noise**2, model.noise**2 / model.variance_y
        self.shrinkage = 1.0 / (self.spectrum.values + self.ridge)
        self.signal = self.spectrum.cross_gram * np.outer(self.shrinkage, self.shrinkage)
        """DQD = HᵀH."""
        prior = model.variance_x * self.signal
        if model.mediator == "full":
            prior += np.diag(self.noise * self.shrinkage)
        self.head = Head(self.spectrum.task, prior, self.noise)

    @property
    def log_evidence(self) -> float:
        """Log p(z), summed over target columns."""
        return self.head.log_evidence

    @property
    def operator(self) -> np.ndarray:
        """H = ΦΨᵀG⁻¹ (p, q): E[φ(X) | y] is Hψ(y)."""
        return self.spectrum.cross * self.shrinkage

    def gradient(self) -> dict[str, Any]:
        """Return the gradient of noise and variances."""
        model, head, d = self.model, self.head, self.shrinkage
        found = head.adjoints()
        bar, diagonal = found.bridged, np.diagonal(found.bridged)
        shrinkage_bar = 2.0 * model.variance_x * multiply(bar * self.spectrum.cross_gram, d[:, None])[:, 0]
        noise_bar = 0.5 * (head.misfit / self.noise**2 - head.statistics.targets * found.trace_inverse)
        if model.mediator == "full":
            shrinkage_bar += self.noise * diagonal
            noise_bar += float(diagonal @ d)
        ridge_bar = -float(d**2 @ shrinkage_bar)
        noise_bar += ridge_bar / model.variance_y
        return {
            "noise": 2.0 * model.noise * noise_bar,
            "variance_x": float((bar * self.signal).sum()),
            "variance_y": -ridge_bar * self.ridge / model.variance_y,
        }

    def feature_gradient(self, tables: Tables) -> dict[str, Any]:
        """Return the gradient of the parameters of both feature maps: the second pass over both tables."""
        x, y = transform_of(self.model.features_x), transform_of(self.model.features_y)
        bars = self._adjoints()
        slopes: Slopes = tables.pairs.total(SecondPairsWork(x, y, bars.gram, bars.cross))
        slopes = slopes + tables.task.total(SecondTaskWork(y, bars.task_gram, bars.task_targets))
        parts = {"features_x.": x.gradient(slopes.x), "features_y.": y.gradient(slopes.y)}
        return {prefix + path: bar for prefix, part in parts.items() for path, bar in part.items()}

    def _adjoints(self) -> _Adjoints:
        """Return the adjoints of all sums.

        X_bar = 2γ²HC_barG⁻¹ and G_bar = -HᵀX_bar - σ²G⁻¹C_barG⁻¹; with mean μ and covariance V of the weights of g,
        N_bar = -(μμᵀ + tV)/σ² and ν_bar = μ/σ².
        """
        head, U, d = self.head, self.spectrum.vectors, self.shrinkage
        found = head.adjoints()
        cross_bar = 2.0 * self.model.variance_x * multiply(self.operator, found.bridged) * d
        gram_bar = -multiply(self.operator.T, cross_bar)
        gram_bar = 0.5 * (gram_bar + gram_bar.T)
        if self.model.mediator == "full":
            gram_bar -= self.noise * found.bridged * np.outer(d, d)
        task_bar = -(multiply(head.mean, head.mean.T) + head.statistics.targets * found.covariance) / self.noise
        return _Adjoints(
            multiply(multiply(U, gram_bar), U.T),
            multiply(cross_bar, U.T),
            multiply(multiply(U, task_bar), U.T),
            multiply(U, head.mean) / self.noise,
        )


class FeaturePosterior(Posterior):
    """The posterior of f given all rows that the sums have seen.

    w has the mean γ²Hβ, β = Ψ̃S⁻¹z, and the covariance γ²I - γ⁴HBHᵀ, B = Ψ̃S⁻¹Ψ̃ᵀ. Of a kernel seen through landmarks,
    what these leave open stays as uncertain as the prior has it: γ²(k(x, x') - φ(x)ᵀφ(x')) is in the covariance.

    >>> from decond.features import Identity
    >>> from decond.streaming import Table
    >>> model = FeatureModel(Identity(), Identity(), noise=0.1)
    >>> pairs, task = Table([1.0, 2.0], [[1.0], [2.0]]), Table([1.0, 2.0], [3.0, 6.0])
    >>> sums = Sums(model.pair_sums(pairs).statistics, model.task_sums(task).about(np.zeros(1), np.ones(1)))
    >>> posterior = model.condition(sums, columns=1)
    >>> posterior.weights.round(2), posterior.weight_covariance.round(4)
    (array([2.99]), array([[0.004]]))
    """

    form = "weight"

    def __init__(self, model: FeatureModel, sums: Sums, columns: int, flat: bool) -> None:
        features = model.features_x
        if isinstance(features, Nystrom):
            self.prior = FunctionPrior(model.variance_x * features.base)
        else:
            self.prior = WeightPrior(features, model.variance_x)
        self.model, self.sums, self.points = model, sums, np.empty((0, columns))
        self._flat, self._mean = flat, np.zeros(sums.task.targets)
        found = FeatureHead(model, sums)
        self._transform, self._log_evidence = transform_of(features), found.log_evidence
        operator = model.variance_x * found.operator
        self._weights = multiply(operator, found.head.coefficients)
        self._explaining = multiply(found.head.core.half_solve(found.head.root.T), operator.T)

    @property
    def log_evidence(self) -> float:
        """Log p(z), summed over target columns."""
        return self._log_evidence

    @property
    def weight_covariance(self) -> np.ndarray:
        """The posterior covariance of w, (p, p)."""
        explained = multiply(self._explaining.T, self._explaining)
        return self.model.variance_x * np.eye(len(explained)) - explained

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Refuse: single targets are not kept."""
        raise NotImplementedError(
            "this posterior keeps sums over its rows, not the rows, so it cannot leave one out. Use "
            "cross-validation, or TaskTransformedGP on a smaller table."
        )

    def _cross(self, x: np.ndarray) -> np.ndarray:
        return self._transform(x).T

    def _variances(self, x: np.ndarray, cross: np.ndarray) -> np.ndarray:
        return self.prior.covariance.diagonal(x) - (multiply(self._explaining, cross) ** 2).sum(axis=0)

    def _covariances(self, x: np.ndarray, cross: np.ndarray) -> np.ndarray:
        explained = multiply(self._explaining, cross)
        return self.prior.covariance.gram(x, x) - multiply(explained.T, explained)

    def _inverse(self) -> tuple[np.ndarray, np.ndarray]:
        return self.leave_one_out()

    def __repr__(self) -> str:
        """Show sizes and log evidence."""
        pairs, task = self.sums.pairs, self.sums.task
        return (
            f"{type(self).__name__}({pairs.targets} and {pairs.size} features, {pairs.count} pairs, {task.count} "
            f"task rows, log evidence {self.log_evidence:.6g})"
        )
