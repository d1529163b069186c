"""Matrices of low rank: plus noise, and as an approximation of others."""

from collections.abc import Callable

import numpy as np
from scipy.linalg import qr

from decond.linalg.factors import cholesky
from decond.linalg.products import add_to_diagonal, multiply

__all__ = ["LowRankPlusNoise", "pivoted_cholesky"]


class LowRankPlusNoise:
    """S = Wᵀ P W + s I (m x m) through r x r matrices, for rows W (r, m) with r <= m and P (r, r).

    With Wᵀ = Q R (orthonormal Q) it is S = Q (R P Rᵀ + s I) Qᵀ + s (I - Q Qᵀ): Woodbury's identity without its
    cancellation, and without an inverse or a root of P. `core` is the factor of R P Rᵀ + s I.

    >>> S = LowRankPlusNoise(np.array([[1.0, 1.0]]), prior=np.array([[3.0]]), noise=2.0, name="S")
    >>> round(S.log_determinant, 4)  # S = [[5, 3], [3, 5]], of determinant 16
    2.7726
    """

    def __init__(self, rows: np.ndarray, prior: np.ndarray, noise: float, name: str) -> None:
        self.basis, self.triangle = qr(rows.T, mode="economic", check_finite=False)
        core = multiply(multiply(self.triangle, prior), self.triangle.T)
        add_to_diagonal(core, noise)
        self.core = cholesky(core, name)
        self.prior, self.noise = prior, noise
        self.size = rows.shape[1]

    @property
    def log_determinant(self) -> float:
        """Log |S|."""
        return self.core.log_determinant + (self.size - self.core.size) * float(np.log(self.noise))

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Return S⁻¹ b."""
        inside = multiply(self.basis.T, b)
        return multiply(self.basis, self.core.solve(inside)) + (b - multiply(self.basis, inside)) / self.noise

    def log_density(self, residual: np.ndarray) -> float:
        """Return log N(residual; 0, S) for columns (m, t): the part within the span of Q, and noise outside it."""
        inside = multiply(self.basis.T, residual)
        outside = residual - multiply(self.basis, inside)
        quadratic = (self.core.half_solve(inside) ** 2).sum() + (outside**2).sum() / self.noise
        constant = self.log_determinant + self.size * np.log(2.0 * np.pi)
        return -0.5 * float(quadratic + residual.shape[1] * constant)

    def solve_rows(self, c: np.ndarray) -> np.ndarray:
        """Return S⁻¹ Wᵀ c."""
        return multiply(self.basis, self.core.solve(multiply(self.triangle, c)))

    def rows_solve(self, b: np.ndarray) -> np.ndarray:
        """Return W S⁻¹ b, without what rounding leaves of b outside the span of Q."""
        return multiply(self.triangle.T, self.core.solve(multiply(self.basis.T, b)))


def pivoted_cholesky(
    diagonal: np.ndarray, row: Callable[[int], np.ndarray], rank: int, tolerance: float = 1e-12
) -> tuple[np.ndarray, np.ndarray]:
    """Choose up to `rank` pivots greedily: the rows that explain most of what the chosen ones do not.

    Stops early when less than `tolerance` of the largest diagonal is left unexplained.

    Parameters
    ----------
    diagonal : ndarray of shape (n,)
        The diagonal of the matrix.
    row : callable
        From i to row i of the matrix; only the rows of the pivots are asked for.
    rank : int
        How many pivots at most.
    tolerance : float
        What may stay unexplained, relative to the largest diagonal.

    Returns
    -------
    pivots : ndarray of int of shape (r,)
    factor : ndarray of shape (n, r)

    Examples
    --------
    >>> matrix = np.array([[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 9.0]])  # of rank two
    >>> pivots, factor = pivoted_cholesky(np.diagonal(matrix), lambda i: matrix[i], rank=3)
    >>> pivots, factor.shape
    (array([2, 0]), (3, 2))
    """
    remaining = diagonal.astype(np.float64).copy()
    enough = tolerance * float(remaining.max(initial=0.0))
    factor = np.zeros((len(remaining), min(rank, len(remaining))))
    pivots: list[int] = []
    for k in range(factor.shape[1]):
        pivot = int(np.argmax(remaining))
        if remaining[pivot] <= enough:
            break
        column = row(pivot) - factor[:, :k] @ factor[pivot, :k]
        factor[:, k] = column / np.sqrt(remaining[pivot])
        remaining = np.maximum(remaining - factor[:, k] ** 2, 0.0)
        pivots.append(pivot)
        remaining[pivots] = 0.0
    return np.array(pivots, dtype=int), factor[:, : len(pivots)]
