"""Second-order embeddings: the covariance operators Ĉ_YY and Ĉ_XY and the expectations they encode."""

import numpy as np
from numpy.typing import ArrayLike

from decond.checks import as_values, as_weights, check_same_length, frozen
from decond.embeddings.mean_embedding import MeanEmbedding
from decond.errors import ArgumentError
from decond.features import as_kernel
from decond.kernels.kernel import Kernel

__all__ = ["CovarianceOperator", "CrossCovarianceOperator"]


class CrossCovarianceOperator:
    """Ĉ_XY = Σ_ij W_ij k(x_i, ·) ⊗ ℓ(y_j, ·) = ΦWΨᵀ, the embedding of a joint distribution (Table E.1 of the paper).

    It is not centered, as usual in this field. Where x and y are pairs, W is diagonal. The joint operators of
    Bayes' rules (Table F.1) have a full W between n points x and m points y. Weights may be negative.

    Parameters
    ----------
    kernel_x, kernel_y : Kernel
        Kernels k and ℓ.
    x : array_like of shape (n, d)
        Points of X.
    y : array_like of shape (m, d_y)
        Points of Y. Without a matrix of weights they are paired with x, so m = n.
    weights : array_like of shape (n,) or (n, m), optional
        The diagonal of W, or all of it. By default every pair has weight 1/n.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> joint = CrossCovarianceOperator(RBF(), RBF(), x=[0.0, 1.0], y=[2.0, 3.0])
    >>> joint.expectation([1.0, 2.0], [10.0, 20.0])
    25.0
    >>> table = CrossCovarianceOperator(RBF(), RBF(), x=[0.0, 1.0], y=[2.0], weights=[[0.25], [0.75]])
    >>> table.expectation([1.0, 2.0], [10.0])
    17.5
    """

    def __init__(
        self, kernel_x: Kernel, kernel_y: Kernel, x: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        self.kernel_x, self.kernel_y = as_kernel(kernel_x, "kernel_x"), as_kernel(kernel_y, "kernel_y")
        self.x: np.ndarray = frozen(self.kernel_x.points(x, "x"))
        self.y: np.ndarray = frozen(self.kernel_y.points(y, "y"))
        self.weights: np.ndarray = frozen(_pair_weights(weights, self.x, self.y))

    def __call__(self, x_query: ArrayLike, y_query: ArrayLike) -> np.ndarray:
        """Return μ_XY(x, y) = Σ_ij W_ij k(x_i, x) ℓ(y_j, y) for all pairs of queries, shape (q_x, q_y)."""
        return self.kernel_x(x_query, self.x) @ self._weighted(self.kernel_y(self.y, y_query))

    def expectation(self, f_values: ArrayLike, g_values: ArrayLike) -> float:
        """Return ⟨f, Ĉ_XY g⟩ = E[f(X) g(Y)], given f at x and g at y.

        Parameters
        ----------
        f_values : array_like of shape (n,)
            f at x.
        g_values : array_like of shape (m,)
            g at y.

        Returns
        -------
        float
        """
        f = as_weights(f_values, "f_values", len(self.x), "x")
        g = as_weights(g_values, "g_values", len(self.y), "y")
        return float(f @ self._weighted(g))

    def apply(self, g_values: ArrayLike) -> MeanEmbedding:
        """Return the function Ĉ_XY g, an embedding on x with weights W g(y)."""
        g = as_weights(g_values, "g_values", len(self.y), "y")
        return MeanEmbedding(self.kernel_x, self.x, self._weighted(g))

    @property
    def T(self) -> "CrossCovarianceOperator":
        """The adjoint Ĉ_YX."""
        return CrossCovarianceOperator(self.kernel_y, self.kernel_x, self.y, self.x, self.weights.T)

    def _weighted(self, values: np.ndarray) -> np.ndarray:
        """Return W @ values for values (m,) or (m, q) at y."""
        if self.weights.ndim == 2:
            return self.weights @ values
        return (self.weights * values.T).T

    def __repr__(self) -> str:
        """Show kernels and size."""
        return f"{type(self).__name__}({self.kernel_x!r}, {self.kernel_y!r}, {self._size()})"

    def _size(self) -> str:
        n, m = len(self.x), len(self.y)
        return f"{n} points" if n == m else f"{n} x {m} points"


class CovarianceOperator(CrossCovarianceOperator):
    """Ĉ_YY = Σ_ij W_ij ℓ(y_i, ·) ⊗ ℓ(y_j, ·), the second-order embedding of one variable.

    Parameters
    ----------
    kernel : Kernel
        Kernel ℓ.
    points : array_like of shape (n, d)
        Points of the variable.
    weights : array_like of shape (n,) or (n, n), optional
        The diagonal of W, or all of it, symmetric. By default every point has weight 1/n.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> CovarianceOperator(RBF(), [0.0, 1.0]).expectation([1.0, 2.0], [1.0, 2.0])
    2.5
    """

    def __init__(self, kernel: Kernel, points: ArrayLike, weights: ArrayLike | None = None) -> None:
        super().__init__(kernel, kernel, points, points, weights)
        if np.abs(self.weights - self.weights.T).max() > 1e-8 * np.abs(self.weights).max():
            raise ArgumentError(
                "weights",
                "weights is not symmetric; a covariance operator is its own adjoint. Average it with its transpose "
                "if that is rounding, or use a CrossCovarianceOperator.",
            )


def _pair_weights(weights: ArrayLike | None, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return weights of pairs (n,), or of every x with every y (n, m), checked."""
    if weights is None or np.ndim(weights) != 2:
        check_same_length(y, "y", len(x), "x")
        return as_weights(weights, "weights", len(x), "x")
    matrix = as_values(weights, "weights", len(x), "x")
    if matrix.shape[1] != len(y):
        raise ArgumentError(
            "weights",
            f"weights has shape {matrix.shape}, but there are {len(x)} rows of x and {len(y)} of y. Give one weight "
            f"for each pair, shape ({len(x)},), or a matrix of shape ({len(x)}, {len(y)}).",
        )
    return matrix
