"""Second-order embeddings: the covariance operators Ĉ_YY and Ĉ_XY and the expectations they encode."""

from typing import Any

import numpy as np

from decond.checks import as_weights, check_same_length, frozen
from decond.embeddings.mean import MeanEmbedding
from decond.features.base import as_kernel
from decond.kernels.base import Kernel
from decond.notebook import card, definitions

__all__ = ["CovarianceOperator", "CrossCovarianceOperator"]


class CrossCovarianceOperator:
    """Ĉ_XY = Σ_i w_i k(x_i, ·) ⊗ ℓ(y_i, ·), the embedding of the joint distribution (Table E.1 of the paper).

    It is not centered, as usual in this field. Weights default to 1/n.

    >>> from decond.kernels import RBF
    >>> joint = CrossCovarianceOperator(RBF(), RBF(), x=[0.0, 1.0], y=[2.0, 3.0])
    >>> joint.expectation([1.0, 2.0], [10.0, 20.0])
    25.0
    """

    def __init__(self, kernel_x: Kernel, kernel_y: Kernel, x: Any, y: Any, weights: Any = None) -> None:
        self.kernel_x, self.kernel_y = as_kernel(kernel_x, "kernel_x"), as_kernel(kernel_y, "kernel_y")
        self.x: np.ndarray = frozen(self.kernel_x.points(x, "x"))
        self.y: np.ndarray = frozen(self.kernel_y.points(y, "y"))
        check_same_length(self.y, "y", len(self.x), "x")
        self.weights: np.ndarray = frozen(as_weights(weights, "weights", len(self.x), "x"))

    def __call__(self, x_query: Any, y_query: Any) -> np.ndarray:
        """Return μ_XY(x, y) = Σ_i w_i k(x_i, x) ℓ(y_i, y) for all pairs of queries, shape (q_x, q_y)."""
        weighted = self.weights[:, None] * self.kernel_y(self.y, y_query)
        return self.kernel_x(x_query, self.x) @ weighted

    def expectation(self, f_values: Any, g_values: Any) -> float:
        """Return ⟨f, Ĉ_XY g⟩ = E[f(X) g(Y)], given f at x and g at y."""
        f = as_weights(f_values, "f_values", len(self.x), "x")
        g = as_weights(g_values, "g_values", len(self.y), "y")
        return float((self.weights * f) @ g)

    def apply(self, g_values: Any) -> MeanEmbedding:
        """Return the function Ĉ_XY g, an embedding on x with weights w_i g(y_i)."""
        g = as_weights(g_values, "g_values", len(self.y), "y")
        return MeanEmbedding(self.kernel_x, self.x, self.weights * g)

    @property
    def T(self) -> "CrossCovarianceOperator":
        """The adjoint Ĉ_YX."""
        return CrossCovarianceOperator(self.kernel_y, self.kernel_x, self.y, self.x, self.weights)

    def __repr__(self) -> str:
        """Show kernels and size."""
        return f"{type(self).__name__}({self.kernel_x!r}, {self.kernel_y!r}, {len(self.x)} points)"

    def _repr_html_(self) -> str:
        """Show the same as a table, for notebooks."""
        kernels = {"kernel of x": repr(self.kernel_x), "kernel of y": repr(self.kernel_y)}
        return card(type(self).__name__, f"of {len(self.x)} points", definitions(kernels))


class CovarianceOperator(CrossCovarianceOperator):
    """Ĉ_YY = Σ_i w_i ℓ(y_i, ·) ⊗ ℓ(y_i, ·), the second-order embedding of one variable.

    >>> from decond.kernels import RBF
    >>> CovarianceOperator(RBF(), [0.0, 1.0]).expectation([1.0, 2.0], [1.0, 2.0])
    2.5
    """

    def __init__(self, kernel: Kernel, points: Any, weights: Any = None) -> None:
        super().__init__(kernel, kernel, points, points, weights)
