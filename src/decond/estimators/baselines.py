"""What people do without deconditioning, with the same interface: cascade, impute, regression on E[x | y].

Each trains ordinary regressors one after the other, so that no uncertainty passes from one to the next. They are the
yardstick: if one of them does as well as a `TaskTransformedGP`, the mediator leaves little to recover.
"""

import abc
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from decond.checks import as_targets
from decond.conditional import MediatorSmoother
from decond.conditional.mediator import label_columns, linked_mediators, shared_groups
from decond.errors import ArgumentTypeError
from decond.estimators.direct import DirectGP
from decond.estimators.regressor import IndirectRegressor

__all__ = ["CascadeGP", "EcologicalGP", "ImputeGP"]


@dataclass(eq=False, repr=False)
class _Baseline(IndirectRegressor, abc.ABC):
    """Two ordinary regressions in a row; labels are replaced by indicators of each label."""

    uncertainty: str = "plain"
    n_restarts: int = 1
    seed: int = 0

    def fit(self, x: ArrayLike, y: ArrayLike, y_task: ArrayLike, z_task: ArrayLike) -> Self:
        """Learn from pairs and task rows.

        Parameters
        ----------
        x : array_like of shape (n, d)
            Inputs of the pairs, numbers.
        y : array_like of shape (n, e)
            Their mediator: numbers or labels.
        y_task : array_like of shape (m, e)
            Mediator of the task rows.
        z_task : array_like of shape (m,) or (m, t)
            Targets.

        Returns
        -------
        self
        """
        rows = self._remember_columns(x, "x")
        y, y_task = linked_mediators(rows, y, y_task)
        z = as_targets(z_task, "z_task", len(y_task), "y_task")
        self._check_numbers(rows, "x")
        for name in ("mediator_", "outcome_", "_means"):  # of an earlier fit to tables of another kind
            self.__dict__.pop(name, None)
        if len(label_columns(y)) == y.shape[1]:
            groups = shared_groups(y, y_task, z)
            self._fit_labels(rows[groups.rows], groups.group, groups.means)
        else:
            self._fit_numbers(rows, y, y_task, z)
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the estimate of z at the rows of X."""
        return self._answer(self._known_columns(X))

    @abc.abstractmethod
    def _fit_labels(self, x: np.ndarray, index: np.ndarray, means: np.ndarray) -> None:
        """Learn from rows x with the number of their label, and the mean target of every label."""

    @abc.abstractmethod
    def _fit_numbers(self, x: np.ndarray, y: np.ndarray, y_task: np.ndarray, z: np.ndarray) -> None:
        """Learn from a mediator of numbers."""

    def _answer(self, x: np.ndarray) -> np.ndarray:
        return self.outcome_.predict(x)

    def _check_numbers(self, rows: np.ndarray, name: str) -> None:
        labels = label_columns(rows)
        if labels:
            raise ArgumentTypeError(
                name,
                f"{name} has labels in column(s) {labels}, which {type(self).__name__} cannot take beside numbers. "
                "Leave them out, or replace them by indicator columns, for example with pandas.get_dummies.",
            )

    def _regressor(self) -> DirectGP:
        return DirectGP(uncertainty=self.uncertainty, n_restarts=self.n_restarts, seed=self.seed)

    def _fitted_state(self) -> dict[str, Any]:
        models = {name: value._fitted_state() for name, value in vars(self).items() if isinstance(value, DirectGP)}
        return {**self._fitted_columns(), "models": models, "means": getattr(self, "_means", None)}

    def _restore(self, state: dict[str, Any]) -> None:
        self._restore_columns(state)
        for name in sorted(state["models"]):
            if name not in ("outcome_", "mediator_"):
                raise ValueError(f"{name!r} is no part of a {type(self).__name__}.")
            model = self._regressor()
            model._restore(state["models"][name])
            setattr(self, name, model)
        if state["means"] is not None:
            self._means = state["means"]


class CascadeGP(_Baseline):
    """Predict y from x, then z from the predicted y; of labels, predict the share of each, then the mean of their z.

    It fails where y given x has several modes, because the mean between them is a y that never occurs.

    >>> from decond.problems import latent_function
    >>> p = latent_function()
    >>> CascadeGP().fit(p.x, p.y, p.y_task, p.z_task).predict(p.x[:5]).shape
    (5,)
    """

    def _fit_labels(self, x: np.ndarray, index: np.ndarray, means: np.ndarray) -> None:
        self.mediator_ = self._regressor().fit(x, np.eye(len(means))[index])
        self._means = means

    def _fit_numbers(self, x: np.ndarray, y: np.ndarray, y_task: np.ndarray, z: np.ndarray) -> None:
        self._check_numbers(y, "y")
        self.mediator_ = self._regressor().fit(x, y)
        self.outcome_ = self._regressor().fit(y_task, z)

    def _answer(self, x: np.ndarray) -> np.ndarray:
        mediator = self.mediator_.predict(x)
        if hasattr(self, "outcome_"):
            return self.outcome_.predict(mediator.reshape(len(x), -1))
        return mediator @ self._means


class ImputeGP(_Baseline):
    """Predict z at the y of the pairs, then regress these imputed z on x: it smooths f twice.

    >>> from decond.problems import latent_function
    >>> p = latent_function()
    >>> ImputeGP().fit(p.x, p.y, p.y_task, p.z_task).predict(p.x[:5]).shape
    (5,)
    """

    def _fit_labels(self, x: np.ndarray, index: np.ndarray, means: np.ndarray) -> None:
        self.outcome_ = self._regressor().fit(x, means[index])

    def _fit_numbers(self, x: np.ndarray, y: np.ndarray, y_task: np.ndarray, z: np.ndarray) -> None:
        self._check_numbers(y, "y")
        self.outcome_ = self._regressor().fit(x, self._regressor().fit(y_task, z).predict(y))


class EcologicalGP(_Baseline):
    """Regress z on E[x | y], the mean of x that belongs to each task row: strong where f is nearly linear.

    >>> from decond.problems import latent_function
    >>> p = latent_function()
    >>> EcologicalGP().fit(p.x, p.y, p.y_task, p.z_task).predict(p.x[:5]).shape
    (5,)
    """

    def _fit_labels(self, x: np.ndarray, index: np.ndarray, means: np.ndarray) -> None:
        centers = np.array([x[index == j].mean(axis=0) for j in range(len(means))])
        self.outcome_ = self._regressor().fit(centers, means)

    def _fit_numbers(self, x: np.ndarray, y: np.ndarray, y_task: np.ndarray, z: np.ndarray) -> None:
        _, expected = MediatorSmoother(x, y, y_task, self.seed).means()
        self.outcome_ = self._regressor().fit(expected, z)
