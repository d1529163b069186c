"""Ridge versions: the paper's point estimates, without error bars and without learning."""

import functools
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_number, as_targets, check_answer, check_finite
from decond.conditional.mediator import linked_mediators
from decond.estimators.defaults import plain_kernel
from decond.estimators.regressor import IndirectRegressor
from decond.features import FeatureMap, as_kernel
from decond.gp import FunctionPrior, TaskTransformed, WeightPrior, condition
from decond.kernels.kernel import Kernel

__all__ = ["TaskTransformedRidge"]


@dataclass(eq=False, repr=False)
class TaskTransformedRidge(IndirectRegressor):
    """The deconditional mean: task-transformed kernel ridge regression, or linear where a feature map is given.

    The mean of the targets is subtracted before and added to predictions, so that f is drawn to it and not to zero;
    Definition 4.4 of the paper does not do that (`gp.estimate` is the definition as it stands).

    Parameters
    ----------
    kernel_x, kernel_y : Kernel or FeatureMap, optional
        A kernel (kernel ridge) or a feature map such as ``features.Polynomial(2)`` (linear ridge); by default a
        Gaussian kernel with the spread of each column as lengthscale, categorical for labels.
    regularization : float
        The paper's λ, for x given y.
    evidence_regularization : float
        The paper's ε, for z.

    Examples
    --------
    >>> from decond import features
    >>> from decond.problems import latent_function
    >>> p = latent_function()
    >>> ridge = TaskTransformedRidge(features.Polynomial(3), regularization=1e-4).fit(p.x, p.y, p.y_task, p.z_task)
    >>> ridge.predict(p.x[:5]).shape
    (5,)
    """

    kernel_x: Kernel | FeatureMap | None = None
    kernel_y: Kernel | FeatureMap | None = None
    regularization: float = 0.001
    evidence_regularization: float = 0.001

    def fit(self, x: ArrayLike, y: ArrayLike, y_task: ArrayLike, z_task: ArrayLike) -> Self:
        """Solve for f.

        Parameters
        ----------
        x, y : array_like of shape (n, d) and (n, e)
            Pairs.
        y_task, z_task : array_like of shape (m, e) and (m,) or (m, t)
            Task rows.

        Returns
        -------
        TaskTransformedRidge
            This estimator.
        """
        rows = self._remember_columns(x, "x")
        pairs, task = linked_mediators(rows, y, y_task)
        z = as_targets(z_task, "z_task", len(task), "y_task")
        ridge, evidence_ridge = (
            as_number(getattr(self, name), name, minimum=0.0, strict=True) * count
            for name, count in (("regularization", len(pairs)), ("evidence_regularization", len(z)))
        )
        kernel_y: Any = plain_kernel(pairs, 1.0).kernel if self.kernel_y is None else self.kernel_y
        observation = TaskTransformed(
            rows,
            pairs,
            task,
            kernel_y,
            np.sqrt(evidence_ridge),
            mediator="map",
            mediator_noise=np.sqrt(ridge),
        )
        self.offset_ = z.mean(axis=0)
        self._model = {"prior": self._prior(rows), "observation": observation, "z": z - self.offset_}
        self.posterior_ = condition(**self._model)
        return self

    @functools.cached_property
    def posterior_(self) -> Any:
        """The posterior whose mean is the estimate; of a model from a file, once somebody asks."""
        return condition(**self._model)

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the estimate of f at the rows of X."""
        rows = self._known_columns(X)
        return check_answer(self.posterior_.mean(rows) + self.offset_, "X")

    def _prior(self, x: NDArray[Any]) -> FunctionPrior | WeightPrior:
        kernel: Kernel | FeatureMap = plain_kernel(x, 1.0).kernel if self.kernel_x is None else self.kernel_x
        return WeightPrior(kernel) if isinstance(kernel, FeatureMap) else FunctionPrior(as_kernel(kernel, "kernel_x"))

    def _fitted_state(self) -> dict[str, Any]:
        return {**self._fitted_columns(), "offset": np.asarray(self.offset_), **self._model}

    def _restore(self, state: dict[str, Any]) -> None:
        self._restore_columns(state)
        self.offset_ = state["offset"]
        self._model = {name: state[name] for name in ("prior", "observation", "z")}
        self._model["observation"].checked(state["prior"], state["z"])
        check_finite(self.offset_, "offset", state["z"].shape[1:])
