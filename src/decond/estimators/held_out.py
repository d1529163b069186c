"""Held-out task rows: how well a function of x explains targets that it has not seen, through one set of weights."""

import inspect
from typing import Any

import numpy as np

from decond.errors import ArgumentError
from decond.estimators.defaults import label_columns, plain_kernel
from decond.estimators.mediation import Mediation

__all__ = ["HeldOut"]

MOST_PAIRS = 2000
"""Rows whose joint error bars are looked at together; and of pairs with numbers as mediator, a random part."""

MOST_OF_LABEL = 200
"""Rows of one label that tell its error bar; of more, a random part."""

WIDTH = 1.96
"""Standard deviations on either side of a mean that hold 95 % of a normal distribution."""


class HeldOut:
    """Expectations E[f(X) | y] = Σ_i a_i(y) f(x_i) with weights from the pairs alone, and folds of task rows.

    For labels a(y) is the mean over all rows of the label, and whole labels are held out. Otherwise it is the
    smoother that predicts a Gaussian kernel of x best, as the honest estimator chooses it; what its weights lack to
    one is shared among all pairs.

    >>> x, y = np.array([[0.0], [1.0], [5.0]]), np.array([["a"], ["a"], ["b"]], dtype=object)
    >>> held_out = HeldOut(x, y, np.array([["a"], ["b"]], dtype=object), np.array([1.0, 2.0]), folds=2)
    >>> held_out.expectation(np.array([2.0, 4.0, 7.0]))
    array([3., 7.])
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, y_task: np.ndarray, z: np.ndarray, folds: int) -> None:
        self.z = z
        if folds < 2:
            raise ArgumentError("folds", f"folds is {folds}; give at least 2, or cross_validate=False.")
        labels = len(label_columns(y)) == y.shape[1]
        self._weights: _LabelMeans | _Smoother = _LabelMeans(y, y_task) if labels else _Smoother(x, y, y_task)
        self._units = self._weights.task if isinstance(self._weights, _LabelMeans) else np.arange(len(z))
        self.known = self._weights.known
        """Which task rows have pairs that tell about them: of labels, those that pairs have too."""
        if len(np.unique(self._units[self.known])) < 2:
            raise ArgumentError(
                "y_task",
                "the two tables share one label only, so none can be held out. Give truth=..., or "
                "cross_validate=False to compare the functions without errors.",
            )
        self.folds = min(folds, len(np.unique(self._units)))

    def expectation(self, f: np.ndarray) -> np.ndarray:
        """Return E[f(X) | y] at all task rows from f at the pairs; the mean of f for labels that no pair has."""
        return self._weights.expectation(f)

    def scores(self, model: Any, tables: Any, seed: int) -> tuple[float, float]:
        """Return the root mean square error of held-out targets, and their share in the 95 % band (or NaN)."""
        from sklearn.base import clone

        errors, inside = [], []
        for held in self._parts(seed):
            seen, judged = ~held, np.flatnonzero(held & self.known)
            fitted = clone(model).fit(tables.x, tables.y, _rows(tables.y_task, seen), self.z[seen])
            error = self.z - self._weights.expectation_of(fitted, tables.x)
            errors.append(error[judged])
            if "return_cov" in inspect.signature(fitted.predict).parameters:
                scatter = np.mean(error[seen & self.known] ** 2)
                variance = self._weights.variance(fitted, tables.x, judged)
                inside.append(np.abs(error[judged]) <= WIDTH * np.sqrt(variance + scatter))
        share = float(np.mean(np.concatenate(inside))) if inside else float("nan")
        return float(np.sqrt(np.mean(np.concatenate(errors) ** 2))), share

    def _parts(self, seed: int) -> list[np.ndarray]:
        """Return masks of task rows, each held out once."""
        order = np.random.default_rng(seed).permutation(np.unique(self._units))
        return [np.isin(self._units, part) for part in np.array_split(order, self.folds)]


class _LabelMeans:
    """Means over all rows of a label."""

    def __init__(self, y: np.ndarray, y_task: np.ndarray) -> None:
        numbers: dict[Any, int] = {}
        self.task = np.array([numbers.setdefault(tuple(row), len(numbers)) for row in y_task])
        self.pairs = np.array([numbers.get(tuple(row), -1) for row in y])
        self.count = np.bincount(self.pairs[self.pairs >= 0], minlength=len(numbers))
        self.known = self.count[self.task] > 0
        order = np.random.default_rng(0).permutation(len(y))
        order = order[np.argsort(self.pairs[order], kind="stable")]
        starts = np.searchsorted(self.pairs[order], np.arange(len(numbers)))
        sizes = np.minimum(self.count, MOST_OF_LABEL)
        self._some = [order[start : start + size] for start, size in zip(starts, sizes, strict=True)]

    def expectation(self, f: np.ndarray) -> np.ndarray:
        used = self.pairs >= 0
        total = np.bincount(self.pairs[used], weights=f[used], minlength=len(self.count))
        means = np.where(self.count > 0, total / np.maximum(self.count, 1), f.mean())
        return means[self.task]

    def expectation_of(self, model: Any, x: Any) -> np.ndarray:
        return self.expectation(np.asarray(model.predict(x), dtype=np.float64))

    def variance(self, model: Any, x: Any, task: np.ndarray) -> np.ndarray:
        """Return the variance of these means at some task rows, from joint error bars of some rows of each label."""
        found = np.full(len(self.count), np.nan)
        labels = np.unique(self.task[task])
        sizes = np.cumsum([len(self._some[label]) for label in labels])
        for part in np.split(labels, np.flatnonzero(np.diff(sizes // MOST_PAIRS)) + 1):
            rows = np.concatenate([self._some[label] for label in part])
            covariance = model.predict(x.iloc[rows], return_cov=True)[1]
            ends = np.cumsum([len(self._some[label]) for label in part])
            for label, end in zip(part, ends, strict=True):
                own = slice(end - len(self._some[label]), end)
                found[label] = covariance[own, own].mean()
        return np.maximum(found[self.task[task]], 0.0)


class _Smoother:
    """Weights of a kernel smoother along a mediator of numbers; each column sums to one."""

    def __init__(self, x: np.ndarray, y: np.ndarray, y_task: np.ndarray) -> None:
        self.pairs = np.sort(np.random.default_rng(0).permutation(len(x))[:MOST_PAIRS])
        x, y = x[self.pairs], y[self.pairs]
        weights = Mediation(y, y_task, seed=0).transformation(plain_kernel(x, 1.0).kernel, x).weights
        self.known = weights.any(axis=0)
        self.weights = weights + (1.0 - weights.sum(axis=0)) / len(x)

    def expectation(self, f: np.ndarray) -> np.ndarray:
        return self.weights.T @ f[self.pairs]

    def expectation_of(self, model: Any, x: Any) -> np.ndarray:
        return self.weights.T @ np.asarray(model.predict(x.iloc[self.pairs]), dtype=np.float64)

    def variance(self, model: Any, x: Any, task: np.ndarray) -> np.ndarray:
        weights = self.weights[:, task]
        covariance = model.predict(x.iloc[self.pairs], return_cov=True)[1]
        return np.maximum(np.einsum("ij,ij->j", weights, covariance @ weights), 0.0)


def _rows(table: Any, mask: np.ndarray) -> Any:
    """Return some rows of an array, a frame or a list."""
    if isinstance(table, list | tuple):
        return [row for row, taken in zip(table, mask, strict=True) if taken]
    return table[mask] if not hasattr(table, "iloc") else table.iloc[np.flatnonzero(mask)]
