"""The only Cholesky and the only jitter: factors, solves, log densities, and their adjoints by hand.

A factorization is a value that you hold and pass on (`Factor`, `LowRankPlusNoise`); everything else is a view
of it. Adjoints follow the convention: for a scalar objective, `X_bar` is its derivative with respect to X.

All products of large matrices go through SciPy's BLAS, never through NumPy's: the two bring their own threads, and
those of the one spin on the cores that the other needs. Both memory layouts are welcome; a row-major matrix is
handed to BLAS as its column-major transpose, so nothing is copied to change the layout.
"""

import warnings
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning, blas, lapack, qr, solve

from decond.backend import namespace

__all__ = [
    "Factor",
    "JitterWarning",
    "LowRankPlusNoise",
    "NotPositiveDefiniteError",
    "add_to_diagonal",
    "cholesky",
    "gaussian_log_density",
    "gaussian_log_density_pullback",
    "mirrored",
    "multiply",
    "pivoted_cholesky",
    "solve_general",
    "solve_pullback",
    "symmetric_product",
    "times_symmetric",
    "transposed_times",
    "whiten",
]

JITTERS = (1e-14, 1e-12, 1e-10, 1e-8)
"""What is added to the diagonal, in turn and relative to its mean, when a factorization fails."""

TRACED_JITTER = 1e-10
"""What is always added to a matrix that JAX may trace, because its values cannot be looked at."""

CORNER = 64
"""Size up to which a triangular solve is left to BLAS; larger ones are split, and become mostly products."""

BLOCK = 256
"""Block side of products of which only one triangle is computed."""


class JitterWarning(UserWarning):
    """A matrix was singular up to rounding; where it has to be positive definite, a little was added to it."""


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """A matrix that has to be positive definite is not, even with jitter."""


class Factor:
    """The Cholesky factor R of a positive definite matrix S = R Rᵀ, R lower triangular.

    >>> factor = cholesky(np.array([[4.0, 0.0], [0.0, 9.0]]), "S")
    >>> factor.solve(np.array([4.0, 9.0]))
    array([1., 1.])
    >>> round(factor.log_determinant, 4)
    3.5835
    """

    def __init__(self, upper: np.ndarray, jitter: float = 0.0) -> None:
        self._upper = upper  # Rᵀ, column-major, so that its transpose is R, row-major; junk below the diagonal
        self.jitter = jitter
        """What was added to the diagonal, in absolute terms."""

    @property
    def size(self) -> int:
        """The number of rows of S."""
        return len(self._upper)

    @property
    def lower(self) -> np.ndarray:
        """R as a full matrix with zeros above the diagonal."""
        return np.tril(self._upper.T)

    @property
    def log_determinant(self) -> float:
        """Log |S|."""
        return 2.0 * float(np.log(np.diagonal(self._upper)).sum())

    def condition(self, norm: float) -> float:
        """Estimate the condition number of S, given the largest sum of absolute values in one of its columns."""
        reciprocal, _ = lapack.dpocon(self._upper, norm)
        return float(1.0 / max(reciprocal, np.finfo(float).tiny))

    def half_solve(self, b: np.ndarray) -> np.ndarray:
        """Return R⁻¹ b."""
        return self._triangular(b, transposed=False)

    def half_solve_transposed(self, b: np.ndarray, overwrite: bool = False) -> np.ndarray:
        """Return R⁻ᵀ b, in the memory of b if it may be overwritten."""
        return self._triangular(b, transposed=True, overwrite=overwrite)

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Return S⁻¹ b."""
        return self._triangular(self._triangular(b, transposed=False), transposed=True, overwrite=True)

    def inverse(self) -> np.ndarray:
        """Return the lower triangle of S⁻¹; the part above it is junk."""
        inverse, _ = lapack.dpotri(self._upper, lower=0)
        return inverse.T

    def inverse_diagonal(self) -> np.ndarray:
        """Return the diagonal of S⁻¹."""
        return np.diagonal(self.inverse()).copy()

    def _triangular(self, b: np.ndarray, transposed: bool, overwrite: bool = False) -> np.ndarray:
        """Solve with R or Rᵀ, from the left or, for the transpose of a row-major right-hand side, from the right."""
        if b.size == self.size:
            return blas.dtrsv(self._upper, b.ravel(), lower=0, trans=int(not transposed)).reshape(b.shape)
        if not b.flags.c_contiguous:
            return blas.dtrsm(1.0, self._upper, b, side=0, lower=0, trans_a=int(not transposed))
        solution = b if overwrite else b.copy()
        _solve_from_right(solution.T, self._upper, transposed)
        return solution


def _solve_from_right(b: np.ndarray, upper: np.ndarray, transposed: bool) -> None:
    """Solve X U = B (X Uᵀ = B if transposed) in the memory of a column-major B.

    One half of the columns, a product that takes it out of the other half, the other half: most of the work is then
    products of large matrices, which run faster than a triangular solve.
    """
    if len(upper) <= CORNER:
        _keep(blas.dtrsm(1.0, upper, b, side=1, lower=0, trans_a=int(transposed), overwrite_b=1), b)
        return
    middle = CORNER * -(-len(upper) // (2 * CORNER))
    before, behind = slice(0, middle), slice(middle, None)
    first, second = (behind, before) if transposed else (before, behind)
    _solve_from_right(b[:, first], upper[first, first], transposed)
    rest, coupling = b[:, second], upper[before, behind]
    _keep(blas.dgemm(-1.0, b[:, first], coupling, 1.0, rest, trans_b=int(transposed), overwrite_c=1), rest)
    _solve_from_right(rest, upper[second, second], transposed)


def _keep(result: np.ndarray, target: np.ndarray) -> None:
    """Write a result into its target, unless BLAS has done so already."""
    if result.ctypes.data != target.ctypes.data:
        target[...] = result


def cholesky(matrix: np.ndarray, name: str) -> Factor:
    """Factor a positive definite matrix, of which only the lower triangle is read.

    On failure a jitter relative to the mean diagonal is added, larger each time, with one warning that says how
    much was used. If the largest does not help, the error names the matrix and the remedy.
    """
    upper = _try_cholesky(matrix)
    if upper is not None:
        return Factor(upper)
    scale = float(np.abs(np.diagonal(matrix)).mean())
    for relative in JITTERS if np.isfinite(scale) else ():
        shifted = matrix.copy()
        add_to_diagonal(shifted, relative * scale)
        upper = _try_cholesky(shifted)
        if upper is not None:
            warnings.warn(
                f"{name} is positive definite only up to rounding; added {relative * scale:.1e} to its diagonal. "
                "More noise or regularization, or fewer repeated points, avoids this.",
                JitterWarning,
                stacklevel=3,
            )
            return Factor(upper, relative * scale)
    raise NotPositiveDefiniteError(
        f"{name} ({len(matrix)} x {len(matrix)}, mean diagonal {scale:.3g}) is not positive definite, even with "
        f"{JITTERS[-1]:g} of its mean diagonal added. Increase the noise or regularization, check that the kernel "
        "is positive definite, and look for huge differences in scale between columns."
    )


def _try_cholesky(matrix: np.ndarray) -> np.ndarray | None:
    """Return Rᵀ, or None if the matrix is not positive definite; LAPACK lets NaN pass, so that is looked for."""
    upper, info = lapack.dpotrf(matrix.T, lower=0, clean=0)
    return upper if info == 0 and np.isfinite(np.diagonal(upper)).all() else None


def whiten(matrix: Any, right: Any, name: str) -> Any:
    """Return R⁻¹ right with R Rᵀ = matrix + `TRACED_JITTER` of its mean diagonal, in numbers as when traced."""
    xp = namespace(matrix, right)
    shifted = matrix + TRACED_JITTER * xp.trace(matrix) / len(matrix) * np.eye(len(matrix))
    if xp is np:
        return cholesky(shifted, name).half_solve(right)
    return xp.linalg.solve(xp.linalg.cholesky(shifted), right)


def solve_pullback(factor: Factor, solution: np.ndarray, half_bar: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (B_bar, S_bar) of X = S⁻¹B, given R⁻¹X_bar, which is overwritten.

    One more solve with the same factor, B_bar = S⁻¹X_bar = R⁻ᵀ(R⁻¹X_bar). Of S_bar = -B_bar Xᵀ the lower triangle of
    its symmetric part is computed.
    """
    right_bar = factor.half_solve_transposed(half_bar, overwrite=True)
    return right_bar, blas.dsyr2k(-0.5, right_bar.T, solution.T, trans=1, lower=0).T


def gaussian_log_density(factor: Factor, residual: np.ndarray) -> float:
    """Return log N(residual; 0, S), summed over the columns of `residual` (m,) or (m, t)."""
    white = factor.half_solve(residual)
    columns = 1 if residual.ndim == 1 else residual.shape[1]
    constant = columns * (factor.log_determinant + factor.size * np.log(2.0 * np.pi))
    return -0.5 * float((white**2).sum() + constant)


def gaussian_log_density_pullback(factor: Factor, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (residual_bar, S_bar) of the log density: -α and the lower triangle of ½(ααᵀ - S⁻¹), α = S⁻¹r."""
    columns = residual[:, None] if residual.ndim == 1 else residual
    alpha = factor.solve(columns)
    share, inverse = -0.5 * columns.shape[1], factor.inverse()
    covariance_bar = blas.dsyrk(0.5, alpha.T, trans=1, beta=share, c=inverse.T, lower=0, overwrite_c=1).T
    return (-alpha).reshape(residual.shape), covariance_bar


def multiply(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return ``left @ right`` of two matrices."""
    (a, trans_a), (b, trans_b) = _for_blas(left), _for_blas(right)
    return blas.dgemm(1.0, b, a, trans_a=trans_b, trans_b=trans_a).T


def transposed_times(left: Any, right: np.ndarray) -> np.ndarray:
    """Return ``left.T @ right`` for a dense or a sparse left matrix."""
    return multiply(left.T, right) if isinstance(left, np.ndarray) else np.asarray(left.T @ right)


def symmetric_product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return ``left @ right``, known to be symmetric: the lower triangle, with zeros above its blocks.

    It takes about three quarters of the time of the whole product if `left` is row-major and `right` column-major,
    and no less than it otherwise, because blocks are then copied.
    """
    product = np.empty((left.shape[0], right.shape[1]))
    for start in range(0, len(product), BLOCK):
        stop = start + BLOCK
        product[start:stop, :stop] = multiply(left[start:stop], right[:, :stop])
        product[start:stop, stop:] = 0.0
    return product


def times_symmetric(left: np.ndarray, lower: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """Return ``scale * left @ S`` for a symmetric S of which only the lower triangle is read."""
    if left.flags.f_contiguous:
        return blas.dsymm(scale, lower.T, left, side=1, lower=0)
    return blas.dsymm(scale, lower.T, left.T, side=0, lower=0).T


def _for_blas(matrix: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the transpose as a column-major view, or the matrix itself and that it is still to be transposed."""
    return (matrix.T, 0) if matrix.strides[0] >= matrix.strides[1] else (matrix, 1)


def mirrored(lower: np.ndarray) -> np.ndarray:
    """Return the full symmetric matrix of a lower triangle."""
    full = lower.copy()
    for start in range(0, len(full), BLOCK):
        stop = start + BLOCK
        full[:start, start:stop] = full[start:stop, :start].T
        corner = full[start:stop, start:stop]
        corner[:] = np.tril(corner) + np.tril(corner, -1).T
    return full


def add_to_diagonal(matrix: np.ndarray, value: Any) -> None:
    """Add a number or a vector to the diagonal, in place."""
    matrix[np.diag_indices(len(matrix))] += value


class LowRankPlusNoise:
    """S = Wᵀ P W + s I (m x m) through r x r matrices, for rows W (r, m) with r <= m and P (r, r).

    With Wᵀ = Q R (orthonormal Q) it is S = Q (R P Rᵀ + s I) Qᵀ + s (I - Q Qᵀ): Woodbury's identity without its
    cancellation, and without an inverse or a root of P. `core` is the factor of R P Rᵀ + s I.
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
    diagonal: np.ndarray, row: Any, rank: int, tolerance: float = 1e-12
) -> tuple[np.ndarray, np.ndarray]:
    """Choose up to `rank` pivots greedily: the rows that explain most of what the chosen ones do not.

    `row(i)` returns row i of the positive semidefinite matrix; only the rows of the pivots are asked for. Returns
    the pivots and the partial factor (n, chosen); stops early when less than `tolerance` of the largest diagonal
    is left unexplained.
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


def solve_general(matrix: np.ndarray, right: np.ndarray, name: str) -> np.ndarray:
    """Return matrix⁻¹ right for a square matrix that need not be symmetric."""
    label = f"{name} ({len(matrix)} x {len(matrix)})"
    remedy = "Increase the regularization, or remove repeated points."
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LinAlgWarning)
        try:
            solution = solve(matrix, right, assume_a="general", check_finite=False)
        except np.linalg.LinAlgError:
            raise np.linalg.LinAlgError(f"{label} is singular. {remedy}") from None
    if caught:
        warnings.warn(f"{label} is nearly singular, so its inverse is mostly rounding. {remedy}", JitterWarning, 3)
    return solution
