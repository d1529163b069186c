"""Held-out task rows: how well a function of x explains targets that it has not seen, through one set of weights."""

import inspect
from typing import Any

import numpy as np

from decond.estimators.defaults import label_columns, plain_kernel
from decond.estimators.mediation import Mediation

__all__ = ["HeldOut"]

MOST_PAIRS = 2000
"""Pairs that expectations given y are taken over; of more, a random part."""

WIDTH = 1.96
"""Standard deviations on either side of a mean that hold 95 % of a normal distribution."""


class HeldOut:
    """Weights a(y) with E[f(X) | y] = Σ_i a_i(y) f(x_i), from the pairs alone, and folds of task rows.

    For labels a(y) is the mean over the rows of the label, and whole labels are held out. Otherwise it is the
    smoother that predicts a Gaussian kernel of x best, as the honest estimator chooses it.

    >>> x, y = np.array([[0.0], [1.0], [5.0]]), np.array([["a"], ["a"], ["b"]], dtype=object)
    >>> held_out = HeldOut(x, y, np.array([["a"], ["b"]], dtype=object), np.array([1.0, 2.0]), folds=2)
    >>> held_out.expectation(np.array([2.0, 4.0, 7.0]))
    array([3., 7.])
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, y_task: np.ndarray, z: np.ndarray, folds: int) -> None:
        self.z = z
        self._labels = _codes(y_task) if len(label_columns(y)) == y.shape[1] else None
        units = len(z) if self._labels is None else len(set(self._labels))
        if folds < 2:
            raise ValueError(f"folds is {folds}; give at least 2, or cross_validate=False.")
        self.folds = min(folds, units)
        self.pairs = np.sort(np.random.default_rng(0).permutation(len(x))[:MOST_PAIRS])
        x, y = x[self.pairs], y[self.pairs]
        if self._labels is not None:
            same = (y[:, None, :] == y_task[None, :, :]).all(axis=2).astype(np.float64)
            self.weights = same / np.maximum(same.sum(axis=0), 1.0)
        else:
            self.weights = Mediation(y, y_task, seed=0).transformation(plain_kernel(x, 1.0).kernel, x).weights
        self.known = self.weights.any(axis=0)
        """Which task rows have pairs that tell about them: of labels, those that pairs have too."""

    def expectation(self, f: np.ndarray) -> np.ndarray:
        """Return E[f(X) | y] at all task rows from f at the pairs; what weights lack to one is left at the mean."""
        return f.mean() + self.weights.T @ (f - f.mean())

    def scores(self, model: Any, tables: Any, seed: int) -> tuple[float, float]:
        """Return the root mean square error of held-out targets, and their share in the 95 % band (or NaN)."""
        from sklearn.base import clone

        errors, inside = [], []
        x = tables.x.iloc[self.pairs]
        for held in self._parts(seed):
            seen = ~held
            fitted = clone(model).fit(tables.x, tables.y, _rows(tables.y_task, seen), self.z[seen])
            mean, variance = self._predicted(fitted, x)
            error = self.z - mean
            errors.append(error[held & self.known])
            if variance is not None:
                scatter = np.mean(error[seen & self.known] ** 2)
                inside.append(np.abs(errors[-1]) <= WIDTH * np.sqrt(variance + scatter)[held & self.known])
        share = float(np.mean(np.concatenate(inside))) if inside else float("nan")
        return float(np.sqrt(np.mean(np.concatenate(errors) ** 2))), share

    def _predicted(self, model: Any, x: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Return mean and variance of E[f(X) | y] at all task rows; no variance where the model has none."""
        if "return_cov" not in inspect.signature(model.predict).parameters:
            return self.expectation(np.asarray(model.predict(x))), None
        mean, covariance = model.predict(x, return_cov=True)
        variance = np.einsum("ij,ij->j", self.weights, covariance @ self.weights)
        return self.expectation(np.asarray(mean)), np.maximum(variance, 0.0)

    def _parts(self, seed: int) -> list[np.ndarray]:
        """Return masks of task rows, each held out once."""
        units = np.arange(len(self.z)) if self._labels is None else self._labels
        order = np.random.default_rng(seed).permutation(np.unique(units))
        return [np.isin(units, part) for part in np.array_split(order, self.folds)]


def _codes(rows: np.ndarray) -> np.ndarray:
    """Return a whole number for each row, equal where all columns are."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(tuple(row), len(numbers)) for row in rows])


def _rows(table: Any, mask: np.ndarray) -> Any:
    """Return some rows of an array or a frame."""
    return table[mask] if not hasattr(table, "iloc") else table.iloc[np.flatnonzero(mask)]
