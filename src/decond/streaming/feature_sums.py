"""Sums over two tables in finite features: all that the weight-space form of the task-transformed model asks of rows.

Features φ (p) are those of x and ψ (q) those of the mediator y. Pairs (x, y) give ΨΨᵀ and ΦΨᵀ, task rows (y, z) give
Ψ̃Ψ̃ᵀ, Ψ̃z and zᵀz. A second pass carries adjoints of these sums back to the parameters of the features.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh

from decond.errors import ArgumentError
from decond.features import Nystrom
from decond.features.feature_maps import FeatureMap
from decond.linalg import cholesky, multiply, with_jitter
from decond.streaming.sources import Piece, Source
from decond.streaming.statistics import Statistics

__all__ = [
    "PairSums",
    "PairsWork",
    "SecondPairsWork",
    "SecondTaskWork",
    "Slopes",
    "Spectrum",
    "Sums",
    "Tables",
    "TaskSums",
    "TaskWork",
    "Transform",
    "transform_of",
]

WHITENING = "whitening"
"""The name of Σφ_barᵀφ among the pullbacks to landmarks; no parameter is called so."""


class Tables(NamedTuple):
    """Pairs, with rows x and targets y, and task rows, with rows y and targets z.

    >>> from decond.streaming import Table
    >>> tables = Tables(pairs=Table([1.0, 2.0], [[1.0], [2.0]]), task=Table([1.0], [3.0]))
    >>> len(tables.pairs), len(tables.task)
    (2, 1)
    """

    pairs: Source
    task: Source


@dataclass(frozen=True, eq=False)
class PairSums:
    """Statistics of pairs, and how many columns their mediator has: sums of features do not tell."""

    statistics: Statistics
    columns: int

    def __add__(self, other: "PairSums") -> "PairSums":
        """Return the sums of both sets of rows."""
        if self.columns != other.columns:
            raise ArgumentError(
                "y",
                f"y has {other.columns} column(s) but the model has read {self.columns}; give the same mediator each "
                "time.",
            )
        return PairSums(self.statistics + other.statistics, self.columns)


@dataclass(frozen=True, eq=False)
class TaskSums:
    """Statistics of task rows with targets z - origin: near their mean, so that sums of squares keep their digits.

    The origin is that of the first rows; others are moved to it. So sums of any blocks add up, in any order.

    >>> parts = [TaskSums(Statistics(np.array([[1.0, 0.0], [0.0, 1.0]]), 0), np.array([z])) for z in (2.0, 6.0)]
    >>> (parts[0] + parts[1]).means
    array([4.])
    """

    statistics: Statistics
    origin: np.ndarray

    def __add__(self, other: "TaskSums") -> "TaskSums":
        """Return the sums of both sets of rows."""
        if len(self.origin) != len(other.origin):
            raise ArgumentError(
                "z_task",
                f"z_task has {len(other.origin)} column(s) but the model has read {len(self.origin)}; give the same "
                "targets each time.",
            )
        return TaskSums(self.statistics + other.about(self.origin, np.ones(len(self.origin))), self.origin)

    @property
    def means(self) -> np.ndarray:
        """The mean of each target column, (t,)."""
        return self.origin + self.statistics.means

    def about(self, offset: np.ndarray, scale: np.ndarray) -> Statistics:
        """Return the statistics of targets (z - offset) / scale."""
        return self.statistics.standardized(offset - self.origin, scale)


class Spectrum(NamedTuple):
    """ΨΨᵀ = U diag(λ) Uᵀ of the pairs, with everything else in the basis U."""

    values: np.ndarray
    """λ (q,), zero where it is rounding."""
    vectors: np.ndarray
    """U (q, q)."""
    cross: np.ndarray
    """ΦΨᵀU (p, q)."""
    cross_gram: np.ndarray
    """UᵀΨΦᵀΦΨᵀU (q, q)."""
    task: Statistics
    """Those of the task rows, with UᵀΨ̃ in place of Ψ̃."""


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums of both tables, with targets in their final units; what is computed from them once is kept.

    >>> from decond.features import Identity
    >>> from decond.streaming import FeatureModel, Table
    >>> model = FeatureModel(Identity(), Identity())
    >>> pairs, task = Table([1.0, 2.0], [[1.0], [2.0]]), Table([1.0, 2.0], [3.0, 6.0])
    >>> sums = Sums(model.pair_sums(pairs).statistics, model.task_sums(task).about(np.zeros(1), np.ones(1)))
    >>> sums.pairs.gram, sums.task.cross  # Σy², Σyz
    (array([[5.]]), array([[15.]]))
    """

    pairs: Statistics
    """Of the stack [Ψ; Φ; 1ᵀ]: its gram is ΨΨᵀ, its cross is ΨΦᵀ."""
    task: Statistics
    """Of the stack [Ψ̃; zᵀ; 1ᵀ]."""

    @cached_property
    def spectrum(self) -> Spectrum:
        """The pairs in the basis that makes every ridge cheap.

        Where an eigenvalue is rounding, its column of ΦΨᵀU need not be: it is of the order of √λ.
        """
        values, vectors = eigh(self.pairs.gram)
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        cross = multiply(self.pairs.cross.T, vectors)
        task = self.task.products.copy()
        q = self.task.size
        task[:q] = multiply(vectors.T, task[:q])
        task[:, :q] = multiply(task[:, :q], vectors)
        return Spectrum(np.where(kept, values, 0.0), vectors, cross, multiply(cross.T, cross), Statistics(task, q))


class Transform:
    """Features of many rows, and the way back from their adjoints to the parameters."""

    def __init__(self, features: FeatureMap) -> None:
        self.features = features

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the features (b, p)."""
        return self.features.transform(rows)

    def pullback(self, rows: np.ndarray, features: np.ndarray, adjoint: np.ndarray) -> dict[str, Any]:
        """Return what can be summed over blocks of the gradient of ``sum(adjoint * features)``."""
        return self.features.pullback(rows, adjoint)[0]

    def gradient(self, total: dict[str, Any]) -> dict[str, Any]:
        """Return the gradient by path, from the sum of all pullbacks."""
        return total


class LandmarkTransform(Transform):
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

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the features (b, p)."""
        return np.matmul(self.features.base.gram(rows, self.features.landmarks), self._inverse.T)

    def pullback(self, rows: np.ndarray, features: np.ndarray, adjoint: np.ndarray) -> dict[str, Any]:
        """Return the gradient through k(x, u), and Σφ_barᵀφ."""
        gram_bar = np.matmul(self._inverse.T, adjoint.T)
        return {**self._pulled(rows, gram_bar), WHITENING: np.matmul(adjoint.T, features)}

    def gradient(self, total: dict[str, Any]) -> dict[str, Any]:
        """Add the gradient through k(u, u)."""
        found = dict(total)
        lower = np.tril(found.pop(WHITENING))
        lower[np.diag_indices(len(lower))] *= 0.5
        bar = -multiply(multiply(self._inverse.T, lower), self._inverse)
        within = self._pulled(self.features.landmarks, 0.5 * (bar + bar.T))
        return {path: value + within[path] for path, value in found.items()}

    def _pulled(self, rows: np.ndarray, gram_bar: np.ndarray) -> dict[str, Any]:
        found = self.features.base.pullback(self.features.landmarks, rows, gram_bar, points=False)
        return {f"base.{path}": bar for path, bar in found.parameters.items()}


def transform_of(features: FeatureMap) -> Transform:
    """Return the fastest way from many rows to these features."""
    return LandmarkTransform(features) if isinstance(features, Nystrom) else Transform(features)


@dataclass(frozen=True, eq=False)
class PairsWork:
    """From a piece of pairs to its sums."""

    features_x: Transform
    features_y: Transform

    def __call__(self, piece: Piece) -> PairSums:
        """Return the statistics of [Ψ; Φ; 1ᵀ]."""
        psi, phi = self.features_y(piece.targets), self.features_x(piece.rows)
        return PairSums(Statistics.from_block(_stack(psi, phi), psi.shape[1]), piece.targets.shape[1])


@dataclass(frozen=True, eq=False)
class TaskWork:
    """From a piece of task rows to its sums."""

    features_y: Transform

    def __call__(self, piece: Piece) -> TaskSums:
        """Return the statistics of [Ψ̃; zᵀ; 1ᵀ], targets about their mean."""
        psi, origin = self.features_y(piece.rows), piece.targets.mean(axis=0)
        return TaskSums(Statistics.from_block(_stack(psi, piece.targets - origin), psi.shape[1]), origin)


@dataclass(frozen=True, eq=False)
class Slopes:
    """Pullbacks to the features of x and of y, which add up."""

    x: dict[str, Any]
    y: dict[str, Any]

    def __add__(self, other: "Slopes") -> "Slopes":
        """Add them path by path."""
        return Slopes(_added(self.x, other.x), _added(self.y, other.y))


@dataclass(frozen=True, eq=False)
class SecondPairsWork:
    """From a piece of pairs to its slopes: Ψ_bar = 2G_bar Ψ + X_barᵀΦ and Φ_bar = X_bar Ψ."""

    features_x: Transform
    features_y: Transform
    gram_bar: np.ndarray
    """G_bar (q, q), the adjoint of ΨΨᵀ."""
    cross_bar: np.ndarray
    """X_bar (p, q), the adjoint of ΦΨᵀ."""

    def __call__(self, piece: Piece) -> Slopes:
        """Carry the adjoints on to parameters."""
        psi, phi = self.features_y(piece.targets), self.features_x(piece.rows)
        psi_bar = np.matmul(psi, 2.0 * self.gram_bar) + np.matmul(phi, self.cross_bar)
        phi_bar = np.matmul(psi, self.cross_bar.T)
        return Slopes(
            self.features_x.pullback(piece.rows, phi, phi_bar), self.features_y.pullback(piece.targets, psi, psi_bar)
        )


@dataclass(frozen=True, eq=False)
class SecondTaskWork:
    """From a piece of task rows to its slopes: Ψ̃_bar = N_bar Ψ̃ + ν_bar zᵀ."""

    features_y: Transform
    gram_bar: np.ndarray
    """N_bar (q, q)."""
    target_bar: np.ndarray
    """ν_bar (q, t)."""

    def __call__(self, piece: Piece) -> Slopes:
        """Carry the adjoint on to parameters."""
        psi = self.features_y(piece.rows)
        bar = np.matmul(psi, self.gram_bar) + np.matmul(piece.targets, self.target_bar.T)
        return Slopes({}, self.features_y.pullback(piece.rows, psi, bar))


def _stack(features: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.concatenate([features, others, np.ones((len(features), 1))], axis=1).T


def _added(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {path: one.get(path, 0.0) + other.get(path, 0.0) for path in {**one, **other}}
