"""Tables in finite features: their means, covariances and linear functions, in blocks of rows.

Of indicators of labels a covariance is diagonal and a mean is a sum by label, so nothing is computed that is zero.
"""

from collections.abc import Iterator
from copy import copy
from typing import Any, Protocol, Self

import numpy as np

from decond.estimators.coded import Features, Indicators
from decond.linalg import add_to_diagonal, cholesky

__all__ = ["Covariance", "FeatureRows", "LabelRows", "feature_rows"]

KEPT = 2e7
"""Numbers up to which the features of a table are kept; those of a larger one are computed anew in every pass."""

BLOCK = 2000
"""Rows that are summed at once."""


class Covariance(Protocol):
    """A positive definite matrix S = R Rᵀ that can be solved for."""

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Return S⁻¹ b."""
        ...

    def half_solve(self, b: np.ndarray) -> np.ndarray:
        """Return R⁻¹ b."""
        ...


class Diagonal:
    """A covariance that is zero off its diagonal."""

    def __init__(self, diagonal: np.ndarray) -> None:
        self.diagonal = diagonal

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Return S⁻¹ b."""
        return b / self.diagonal[:, None]

    def half_solve(self, b: np.ndarray) -> np.ndarray:
        """Return R⁻¹ b."""
        return b / np.sqrt(self.diagonal)[:, None]


class FeatureRows:
    """The features of the rows of a table, kept if they are few."""

    def __init__(self, features: Features, rows: np.ndarray) -> None:
        self._features, self._rows = features, rows
        self.width = features.transform(rows[:1]).shape[1]
        self._kept = features.transform(rows) if len(rows) * self.width <= KEPT else None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._rows)

    def __getitem__(self, which: Any) -> np.ndarray:
        """Return the features of some rows."""
        if self._kept is not None:
            return self._kept[which]
        return np.asarray(self._features.transform(self._rows[which]))

    def some(self, which: Any) -> Self:
        """Return the same of some rows, whose features are kept."""
        part = copy(self)
        part._rows, part._kept = self._rows[which], self[which]
        return part

    def covariance(self, ridge: float) -> Covariance:
        """Return E[ψψᵀ] with a ridge, factored."""
        total = np.zeros((self.width, self.width))
        for block in self._blocks():
            features = self[block]
            total += features.T @ features
        total /= len(self)
        add_to_diagonal(total, ridge)
        return cholesky(total, "the covariance of the mediator's features")

    def mean(self, weights: np.ndarray) -> np.ndarray:
        """Return E[ψ weightᵀ] for a row of weights for each row."""
        return sum((self[block].T @ weights[block] for block in self._blocks()), np.zeros(())) / len(self)

    def values(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the linear functions with these coefficients at every row."""
        return np.concatenate([self[block] @ coefficients for block in self._blocks()])

    def norms(self, scale: Covariance) -> np.ndarray:
        """Return |R⁻¹ψ| at every row."""
        return np.linalg.norm(self._white(scale), axis=1)

    def spread(self, scale: Covariance, weights: np.ndarray) -> float:
        """Return the largest eigenvalue of E[weight² R⁻¹ψ(R⁻¹ψ)ᵀ]."""
        weighted = self._white(scale) * weights[:, None]
        return float(np.linalg.eigvalsh(weighted.T @ weighted)[-1]) / len(self)

    def _white(self, scale: Covariance) -> np.ndarray:
        return scale.half_solve(np.ascontiguousarray(self[:].T)).T

    def _blocks(self) -> Iterator[slice]:
        return (slice(start, start + BLOCK) for start in range(0, len(self), BLOCK))


class LabelRows(FeatureRows):
    """The indicators of the labels of a table, which are kept as codes."""

    def __init__(self, features: Indicators, rows: np.ndarray) -> None:
        self._features, self._rows, self._kept = features, rows, None
        self.width = features.n_labels

    @property
    def _codes(self) -> np.ndarray:
        return self._rows[:, -1].astype(int)

    def some(self, which: Any) -> Self:
        """Return the same of some rows."""
        part = copy(self)
        part._rows = self._rows[which]
        return part

    def covariance(self, ridge: float) -> Diagonal:
        """Return the share of every label, with a ridge."""
        return Diagonal(np.bincount(self._codes, minlength=self.width) / len(self) + ridge)

    def mean(self, weights: np.ndarray) -> np.ndarray:
        """Return the sum of weights for each label, by the number of rows."""
        total = np.zeros((self.width, weights.shape[1]))
        np.add.at(total, self._codes, weights)
        return total / len(self)

    def values(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the coefficient of the label of every row."""
        return np.asarray(coefficients[self._codes])

    def norms(self, scale: Covariance) -> np.ndarray:
        """Return |R⁻¹ψ| at every row: one number for each label."""
        return scale.half_solve(np.ones((self.width, 1)))[self._codes, 0]

    def spread(self, scale: Covariance, weights: np.ndarray) -> float:
        """Return the largest eigenvalue, which is the largest entry of a diagonal."""
        return float(np.bincount(self._codes, (weights * self.norms(scale)) ** 2).max()) / len(self)


def feature_rows(features: Features, rows: np.ndarray) -> FeatureRows:
    """Return the features of a table."""
    return LabelRows(features, rows) if isinstance(features, Indicators) else FeatureRows(features, rows)
