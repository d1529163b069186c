"""Solves and Gaussian log densities with their adjoints, written by hand.

For a scalar objective, `X_bar` is its derivative with respect to X.
"""

import numpy as np
from scipy.linalg import blas

from decond.linalg.factors import Factor
from decond.linalg.products import multiply

__all__ = [
    "LogDensityAdjoint",
    "gaussian_log_density",
    "gaussian_log_density_pullback",
    "half_solve_pullback",
    "solve_pullback",
]


def solve_pullback(factor: Factor, solution: np.ndarray, half_bar: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (B_bar, S_bar) of X = S⁻¹B, given R⁻¹X_bar, which is overwritten.

    One more solve with the same factor, B_bar = S⁻¹X_bar = R⁻ᵀ(R⁻¹X_bar). Of S_bar = -B_bar Xᵀ the lower triangle of
    its symmetric part is computed.

    Parameters
    ----------
    factor : Factor
        R with S = R Rᵀ.
    solution : ndarray of shape (m, k)
        X.
    half_bar : ndarray of shape (m, k)
        R⁻¹X_bar, which is overwritten.

    Returns
    -------
    right_bar : ndarray of shape (m, k)
    matrix_bar : ndarray of shape (m, m)

    Examples
    --------
    >>> from decond.linalg import cholesky
    >>> factor = cholesky(np.array([[2.0]]), "S")
    >>> solution = factor.solve(np.array([[6.0]]))  # x = b/s, so db = 1/s and ds = -x/s
    >>> solve_pullback(factor, solution, factor.half_solve(np.array([[1.0]])))
    (array([[0.5]]), array([[-1.5]]))
    """
    right_bar = factor.half_solve_transposed(half_bar, overwrite=True)
    matrix_bar = np.zeros((factor.size, factor.size)).T  # nothing is written above the diagonal
    return right_bar, blas.dsyr2k(-0.5, right_bar.T, solution.T, c=matrix_bar, trans=1, lower=0, overwrite_c=1).T


def half_solve_pullback(factor: Factor, white: np.ndarray, white_bar: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (B_bar, S_bar) of W = R⁻¹B.

    B_bar = R⁻ᵀW_bar and S_bar = -½R⁻ᵀ(P + Pᵀ)R⁻¹ with P the lower triangle of W_bar Wᵀ, half of its diagonal.

    Parameters
    ----------
    factor : Factor
        R with S = R Rᵀ.
    white : ndarray of shape (m, k)
        W.
    white_bar : ndarray of shape (m, k)
        W_bar.

    Returns
    -------
    right_bar : ndarray of shape (m, k)
    matrix_bar : ndarray of shape (m, m)

    Examples
    --------
    >>> from decond.linalg import cholesky
    >>> factor = cholesky(np.array([[4.0]]), "S")
    >>> half_solve_pullback(factor, np.array([[3.0]]), np.array([[1.0]]))  # w = b/√s, so dw = db/2 and dw = -w/2s ds
    (array([[0.5]]), array([[-0.375]]))
    """
    lower = np.tril(multiply(white_bar, white.T))
    lower[np.diag_indices(len(lower))] *= 0.5
    half = factor.half_solve_transposed(lower + lower.T)
    return factor.half_solve_transposed(white_bar), -0.5 * factor.half_solve_transposed(half.T).T


def gaussian_log_density(factor: Factor, residual: np.ndarray) -> float:
    """Return log N(residual; 0, S), summed over the columns of `residual` (m,) or (m, t).

    Parameters
    ----------
    factor : Factor
        R with S = R Rᵀ.
    residual : ndarray of shape (m,) or (m, t)
        One or several vectors.

    Returns
    -------
    float

    Examples
    --------
    >>> from decond.linalg import cholesky
    >>> factor = cholesky(np.eye(2), "S")
    >>> round(gaussian_log_density(factor, np.zeros(2)), 4)  # -log 2π
    -1.8379
    """
    white = factor.half_solve(residual)
    columns = 1 if residual.ndim == 1 else residual.shape[1]
    constant = columns * (factor.log_determinant + factor.size * np.log(2.0 * np.pi))
    return -0.5 * float((white**2).sum() + constant)


def gaussian_log_density_pullback(factor: Factor, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (residual_bar, S_bar) of the log density: -α and the lower triangle of ½(ααᵀ - S⁻¹), α = S⁻¹r.

    Parameters
    ----------
    factor : Factor
        R with S = R Rᵀ.
    residual : ndarray of shape (m,) or (m, t)
        One or several vectors.

    Returns
    -------
    residual_bar : ndarray of the shape of `residual`
    matrix_bar : ndarray of shape (m, m)

    Examples
    --------
    >>> from decond.linalg import cholesky
    >>> gaussian_log_density_pullback(cholesky(np.array([[1.0]]), "S"), np.array([2.0]))  # -r, ½(r² - 1)
    (array([-2.]), array([[1.5]]))
    """
    adjoint = LogDensityAdjoint(factor, residual)
    return adjoint.residual, adjoint.covariance()


class LogDensityAdjoint:
    """What the log density log N(r; 0, S) asks of S: G = ½(ααᵀ - tS⁻¹), α = S⁻¹r with t columns.

    >>> from decond.linalg import cholesky
    >>> adjoint = LogDensityAdjoint(cholesky(np.array([[1.0]]), "S"), np.array([2.0]))
    >>> adjoint.residual, adjoint.covariance(), adjoint.sandwich(np.array([[3.0]]))  # -r, ½(r² - 1), nine times that
    (array([-2.]), array([[1.5]]), array([[13.5]]))
    """

    def __init__(self, factor: Factor, residual: np.ndarray) -> None:
        columns = residual[:, None] if residual.ndim == 1 else residual
        self._alpha, self._root = factor.solve(columns), factor.inverse_root()
        self.residual = (-self._alpha).reshape(residual.shape)
        """The adjoint of r, -α."""

    def covariance(self) -> np.ndarray:
        """Return the lower triangle of G; the part above it is junk."""
        return self._plus_squares(self._root.inverse(), self._alpha)

    def sandwich(self, rows: np.ndarray) -> np.ndarray:
        """Return the lower triangle of M G Mᵀ for rows M (n, m), with zeros above."""
        return self._plus_squares(self._root.sandwich(rows), multiply(rows, self._alpha))

    def _plus_squares(self, product: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        """Return ½(ααᵀ - t product), in the memory of the product."""
        share = -0.5 * alpha.shape[1]
        return blas.dsyrk(0.5, alpha.T, trans=1, beta=share, c=product.T, lower=0, overwrite_c=1).T
