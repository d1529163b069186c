"""Ridge versions: the paper's point estimates, without error bars and without learning."""

from typing import Any, Self

import numpy as np

from decond.checks import as_number, as_targets
from decond.estimators.base import IndirectRegressor
from decond.estimators.defaults import plain_kernel
from decond.estimators.linked import linked_mediators
from decond.features.feature_maps import FeatureMap, as_kernel
from decond.gp import FunctionPrior, TaskTransformed, WeightPrior, condition
from decond.kernels.kernel import Kernel

__all__ = ["TaskTransformedRidge"]


class TaskTransformedRidge(IndirectRegressor):
    """The deconditional mean: task-transformed kernel ridge regression, or linear where a feature map is given.

    The mean of the targets is subtracted before and added to predictions, so that f is drawn to it and not to zero;
    Definition 4.4 of the paper does not do that (`gp.estimate` is the definition as it stands).

    Parameters:
        kernel_x, kernel_y: a kernel (kernel ridge) or a feature map such as ``features.Polynomial(2)`` (linear
            ridge); None is a Gaussian kernel with the spread of each column as lengthscale, categorical for labels.
        regularization: the paper's λ, for x given y.
        evidence_regularization: the paper's ε, for z.

    >>> from decond import features
    >>> from decond.problems import latent_function
    >>> p = latent_function()
    >>> ridge = TaskTransformedRidge(features.Polynomial(3), regularization=1e-4).fit(p.x, p.y, p.y_task, p.z_task)
    >>> ridge.predict(p.x[:5]).shape
    (5,)
    """

    def __init__(
        self,
        kernel_x: Any = None,
        kernel_y: Any = None,
        regularization: float = 1e-3,
        evidence_regularization: float = 1e-3,
    ) -> None:
        self.kernel_x = kernel_x
        self.kernel_y = kernel_y
        self.regularization = regularization
        self.evidence_regularization = evidence_regularization

    def fit(self, x: Any, y: Any, y_task: Any, z_task: Any) -> Self:
        """Solve for f from pairs (x, y) and task rows (y_task, z_task)."""
        rows = self._remember_columns(x, "x")
        y, y_task = linked_mediators(rows, y, y_task)
        z = as_targets(z_task, "z_task", len(y_task), "y_task")
        ridges = [
            as_number(getattr(self, name), name, minimum=0.0, strict=True) * count
            for name, count in (("regularization", len(y)), ("evidence_regularization", len(z)))
        ]
        kernel_y = plain_kernel(y, 1.0).kernel if self.kernel_y is None else self.kernel_y
        return self._solve(self._prior(rows), rows, y, y_task, kernel_y, ridges, z)

    def predict(self, X: Any) -> np.ndarray:
        """Return the estimate of f at the rows of X."""
        rows = self._known_columns(X)
        return self.posterior_.mean(rows) + self.offset_

    def _prior(self, x: np.ndarray) -> FunctionPrior | WeightPrior:
        kernel: Kernel | FeatureMap = plain_kernel(x, 1.0).kernel if self.kernel_x is None else self.kernel_x
        return WeightPrior(kernel) if isinstance(kernel, FeatureMap) else FunctionPrior(as_kernel(kernel, "kernel_x"))

    def _solve(
        self,
        prior: FunctionPrior | WeightPrior,
        x: np.ndarray,
        y: np.ndarray,
        y_task: np.ndarray,
        kernel_y: Any,
        ridges: list[float],
        z: np.ndarray,
    ) -> Self:
        self.offset_ = z.mean(axis=0)
        seen = TaskTransformed(
            x, y, y_task, kernel_y, np.sqrt(ridges[1]), mediator="map", mediator_noise=np.sqrt(ridges[0])
        )
        self._parts = {"prior": prior, "observation": seen, "z": z - self.offset_}
        self.posterior_ = condition(prior, seen, self._parts["z"])
        return self

    def _fitted_state(self) -> dict[str, Any]:
        return {**self._fitted_columns(), "offset": np.asarray(self.offset_), **self._parts}

    def _restore(self, state: dict[str, Any]) -> None:
        self._restore_columns(state)
        self.offset_ = state["offset"]
        self._parts = {name: state[name] for name in ("prior", "observation", "z")}
        self.posterior_ = condition(**self._parts)
