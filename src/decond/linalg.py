"""Dense linear algebra: products, one Cholesky with one jitter, what follows from a factor, and adjoints by hand.

A factorization is a value that you hold and pass on.
"""

import warnings
from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgWarning, blas, lapack, qr, solve

from decond.messages import warn

__all__ = [
    "Factor",
    "InverseRoot",
    "JitterWarning",
    "LogDensityAdjoint",
    "LowRankPlusNoise",
    "NotPositiveDefiniteError",
    "add_to_diagonal",
    "cholesky",
    "cholesky_if",
    "gaussian_log_density",
    "gaussian_log_density_pullback",
    "half_solve_pullback",
    "inverses",
    "mirrored",
    "multiply",
    "pivoted_cholesky",
    "solve_general",
    "solve_pullback",
    "square_root",
    "symmetric_product",
    "times_symmetric",
    "transposed_times",
    "with_jitter",
]

# ---- products ------------------------------------------------------------------------------------------------------
#
# Products of large matrices, of which only as much is computed as is needed.
#
# All of them go through SciPy's BLAS, never through NumPy's: the two bring their own threads, and those of the one
# spin on the cores that the other needs. Both memory layouts are welcome; a row-major matrix is handed to BLAS as
# its column-major transpose, so nothing is copied to change the layout.

BLOCK = 256
"""Block side of products of which only one triangle is computed."""


def _keep_freed_memory() -> None:
    """Let the allocator of glibc hand freed matrices out again: fresh pages cost a third of an evaluation.

    It returns to the system what is freed at the top of its heap beyond twice the largest block freed so far, a block
    counting up to 32 MB. So one block of nearly that size, of which no page is ever touched, sets both limits. Other
    allocators are not affected.
    """
    np.empty(31 * 2**20, dtype=np.uint8)


_keep_freed_memory()


def multiply(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return ``left @ right`` of two matrices.

    Parameters
    ----------
    left : ndarray of shape (n, k)
        A matrix.
    right : ndarray of shape (k, m)
        Another one.

    Returns
    -------
    ndarray of shape (n, m)

    Examples
    --------
    >>> multiply(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    (a, trans_a), (b, trans_b) = _for_blas(left), _for_blas(right)
    product = np.empty((left.shape[0], right.shape[1]))
    if not product.size:
        return product
    blas.dgemm(1.0, b, a, c=product.T, trans_a=trans_b, trans_b=trans_a, overwrite_c=1)
    return product


def transposed_times(left: np.ndarray | sparse.sparray, right: np.ndarray) -> np.ndarray:
    """Return ``left.T @ right`` for a dense or a sparse left matrix.

    Parameters
    ----------
    left : ndarray or sparse array of shape (k, n)
        What is transposed.
    right : ndarray of shape (k, m)
        A dense matrix.

    Returns
    -------
    ndarray of shape (n, m)

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> transposed_times(csr_array([[2.0], [0.0]]), np.array([[1.0], [5.0]]))
    array([[2.]])
    """
    return multiply(left.T, right) if isinstance(left, np.ndarray) else np.asarray(left.T @ right)


def symmetric_product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return ``left @ right``, known to be symmetric: the lower triangle, with zeros above its blocks.

    It takes about three quarters of the time of the whole product if `left` is row-major and `right` column-major,
    and no less than it otherwise, because blocks are then copied.

    Parameters
    ----------
    left : ndarray of shape (n, k)
        A matrix, best row-major.
    right : ndarray of shape (k, n)
        Another one, best column-major.

    Returns
    -------
    ndarray of shape (n, n)

    Examples
    --------
    >>> root = np.array([[1.0, 0.0], [2.0, 1.0]])
    >>> np.tril(symmetric_product(root, root.T))
    array([[1., 0.],
           [2., 5.]])
    """
    product = np.empty((left.shape[0], right.shape[1]))
    for start in range(0, len(product), BLOCK):
        stop = start + BLOCK
        product[start:stop, :stop] = multiply(left[start:stop], right[:, :stop])
        product[start:stop, stop:] = 0.0
    return product


def times_symmetric(left: np.ndarray, lower: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """Return ``scale * left @ S`` for a symmetric S of which only the lower triangle is read.

    Parameters
    ----------
    left : ndarray of shape (n, m)
        A matrix.
    lower : ndarray of shape (m, m)
        S, of which the lower triangle is read.
    scale : float
        A factor.

    Returns
    -------
    ndarray of shape (n, m)

    Examples
    --------
    >>> lower = np.array([[1.0, np.nan], [2.0, 3.0]])
    >>> times_symmetric(np.array([[1.0, 1.0]]), lower)
    array([[3., 5.]])
    """
    if left.flags.f_contiguous:
        product = np.empty(left.T.shape)
        return blas.dsymm(scale, lower.T, left, c=product.T, side=1, lower=0, overwrite_c=1)
    product = np.empty(left.shape)
    return blas.dsymm(scale, lower.T, left.T, c=product.T, side=0, lower=0, overwrite_c=1).T


def _for_blas(matrix: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the transpose as a column-major view, or the matrix itself and that it is still to be transposed."""
    return (matrix.T, 0) if matrix.strides[0] >= matrix.strides[1] else (matrix, 1)


def mirrored(lower: np.ndarray) -> np.ndarray:
    """Return the full symmetric matrix of a lower triangle.

    >>> mirrored(np.array([[1.0, 0.0], [2.0, 3.0]]))
    array([[1., 2.],
           [2., 3.]])
    """
    full = lower.copy()
    for start in range(0, len(full), BLOCK):
        stop = start + BLOCK
        full[:start, start:stop] = full[start:stop, :start].T
        corner = full[start:stop, start:stop]
        corner[:] = np.tril(corner) + np.tril(corner, -1).T
    return full


def add_to_diagonal(matrix: np.ndarray, value: float | np.ndarray) -> None:
    """Add a number or a vector to the diagonal, in place.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        What is changed.
    value : float or ndarray of shape (m,)
        What is added.

    Examples
    --------
    >>> matrix = np.zeros((2, 2))
    >>> add_to_diagonal(matrix, 0.5)
    >>> matrix
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    matrix[np.diag_indices(len(matrix))] += value


# ---- factors -------------------------------------------------------------------------------------------------------

JITTERS = (1e-14, 1e-12, 1e-10, 1e-8)
"""What is added to the diagonal, in turn and relative to its mean, when a factorization fails."""

ALWAYS_ADDED = 1e-10
"""What is added, relative to the mean diagonal, where a factor has to change smoothly with the matrix."""

CORNER = 64
"""Size up to which a triangular solve is left to BLAS; larger ones are split, and become mostly products."""


class JitterWarning(UserWarning):
    """A matrix was singular up to rounding; where it has to be positive definite, a little was added to it.

    Attributes
    ----------
    matrix
        The name of the matrix.
    jitter
        What was added to its diagonal; 0.0 if it was used as it is.
    """

    def __init__(self, message: str, *, matrix: str | None = None, jitter: float | None = None) -> None:
        super().__init__(message)
        self.matrix = matrix
        self.jitter = jitter


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """A matrix that has to be positive definite is not, even with jitter.

    Attributes
    ----------
    matrix
        The name of the matrix; None if several failed.
    """

    def __init__(self, message: str, *, matrix: str | None = None) -> None:
        super().__init__(message)
        self.matrix = matrix


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
        """Return R⁻ᵀ b, in the memory of b if it may be overwritten.

        Parameters
        ----------
        b : ndarray of shape (m,) or (m, k)
            The right-hand side.
        overwrite : bool
            Whether the result may take its memory.

        Returns
        -------
        ndarray of the shape of `b`
        """
        return self._triangular(b, transposed=True, overwrite=overwrite)

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Return S⁻¹ b."""
        return self._triangular(self._triangular(b, transposed=False), transposed=True, overwrite=True)

    def inverse(self) -> np.ndarray:
        """Return the lower triangle of S⁻¹; the part above it is junk."""
        return self.inverse_root().inverse()

    def inverse_root(self) -> "InverseRoot":
        """Return R⁻¹."""
        upper, _ = lapack.dtrtri(self._upper.copy(order="K"), lower=0, overwrite_c=1)
        return InverseRoot(upper)

    def inverse_diagonal(self) -> np.ndarray:
        """Return the diagonal of S⁻¹."""
        return np.diagonal(self.inverse()).copy()

    def inverse_trace(self) -> float:
        """Return the trace of S⁻¹, which is the sum of squares of R⁻¹."""
        return self.inverse_root().squares()

    def _triangular(self, b: np.ndarray, transposed: bool, overwrite: bool = False) -> np.ndarray:
        """Solve with R or Rᵀ, from the left or, for the transpose of a row-major right-hand side, from the right."""
        if b.size == self.size:
            return blas.dtrsv(self._upper, b.ravel(), lower=0, trans=int(not transposed)).reshape(b.shape)
        if not b.flags.c_contiguous:
            return blas.dtrsm(1.0, self._upper, b, side=0, lower=0, trans_a=int(not transposed))
        solution = b if overwrite else b.copy(order="K")
        _solve_from_right(solution.T, self._upper, transposed)
        return solution


class InverseRoot:
    """R⁻¹ of a positive definite matrix S = R Rᵀ, from which products with S⁻¹ = R⁻ᵀR⁻¹ come by halves.

    >>> root = cholesky(np.array([[4.0]]), "S").inverse_root()
    >>> root.inverse(), root.sandwich(np.array([[2.0]]))
    (array([[0.25]]), array([[1.]]))
    """

    def __init__(self, upper: np.ndarray) -> None:
        self._upper = upper  # R⁻ᵀ, column-major; junk below the diagonal

    @property
    def lower(self) -> np.ndarray:
        """R⁻¹ as a full matrix with zeros above the diagonal."""
        return np.tril(self._upper.T)

    def inverse(self) -> np.ndarray:
        """Return the lower triangle of S⁻¹; the part above it is junk."""
        inverse, _ = lapack.dlauum(self._upper.copy(order="K"), lower=0, overwrite_c=1)
        return inverse.T

    def squares(self) -> float:
        """Return the sum of squares of R⁻¹, the trace of S⁻¹."""
        norm = float(lapack.dlantr("F", self._upper, uplo="U"))
        return norm * norm

    def sandwich(self, rows: np.ndarray) -> np.ndarray:
        """Return the lower triangle of M S⁻¹ Mᵀ for rows M (n, m), with zeros above."""
        white = blas.dtrmm(1.0, self._upper, np.array(rows, order="C").T, lower=0, trans_a=1, overwrite_b=1)
        product = np.zeros((len(rows), len(rows)))
        return blas.dsyrk(1.0, white, trans=1, c=product.T, lower=0, overwrite_c=1).T


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

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        S.
    name : str
        What messages call it.

    Returns
    -------
    Factor

    Examples
    --------
    >>> cholesky(np.array([[4.0, 0.0], [2.0, 5.0]]), "S").lower
    array([[2., 0.],
           [1., 2.]])
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
            warn(
                JitterWarning(
                    f"{name} is positive definite only up to rounding; added {relative * scale:.1e} to its diagonal. "
                    "More noise or regularization, or fewer repeated points, avoids this.",
                    matrix=name,
                    jitter=relative * scale,
                )
            )
            return Factor(upper, relative * scale)
    raise NotPositiveDefiniteError(
        f"{name} ({len(matrix)} x {len(matrix)}, mean diagonal {scale:.3g}) is not positive definite, even with "
        f"{JITTERS[-1]:g} of its mean diagonal added. Increase the noise or regularization, check that the kernel "
        "is positive definite, and look for huge differences in scale between columns.",
        matrix=name,
    )


def cholesky_if(matrix: np.ndarray, condition: float) -> Factor | None:
    """Factor a symmetric matrix if it is positive definite, with a condition number of at most this; else None.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        S.
    condition : float
        The largest condition number.

    Returns
    -------
    Factor or None

    Examples
    --------
    >>> cholesky_if(np.diag([1.0, 1e-9]), condition=1e8) is None
    True
    """
    upper = _try_cholesky(matrix)
    if upper is None:
        return None
    factor = Factor(upper)
    return factor if factor.condition(float(np.abs(matrix).sum(axis=0).max())) <= condition else None


def square_root(matrix: np.ndarray) -> np.ndarray:
    """Return R with R Rᵀ = matrix up to rounding, for drawing from N(0, matrix); the matrix may be singular.

    >>> square_root(np.array([[4.0, 4.0], [4.0, 4.0]])).round(3)
    array([[2., 0.],
           [2., 0.]])
    """
    scale = float(np.diagonal(matrix).mean())
    for relative in (0.0, *JITTERS):
        shifted = matrix.copy()
        add_to_diagonal(shifted, relative * scale)
        upper = _try_cholesky(shifted)
        if upper is not None:
            return np.tril(upper.T)
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _try_cholesky(matrix: np.ndarray) -> np.ndarray | None:
    """Return Rᵀ, or None if the matrix is not positive definite; LAPACK lets NaN pass, so that is looked for."""
    upper, info = lapack.dpotrf(matrix.T.copy(order="K"), lower=0, clean=0, overwrite_a=1)
    return upper if info == 0 and np.isfinite(np.diagonal(upper)).all() else None


def with_jitter(matrix: np.ndarray) -> np.ndarray:
    """Return a matrix with `ALWAYS_ADDED` of its mean diagonal on its diagonal; the adjoint of this map is itself.

    >>> with_jitter(np.array([[4.0]])) - 4.0 < 1e-9
    array([[ True]])
    """
    shifted = matrix.copy()
    add_to_diagonal(shifted, ALWAYS_ADDED * np.trace(matrix) / len(matrix))
    return shifted


def solve_general(matrix: np.ndarray, right: np.ndarray, name: str) -> np.ndarray:
    """Return matrix⁻¹ right for a square matrix that need not be symmetric.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        What is inverted.
    right : ndarray of shape (m,) or (m, k)
        The right-hand side.
    name : str
        What messages call the matrix.

    Returns
    -------
    ndarray of the shape of `right`

    Examples
    --------
    >>> solve_general(np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([4.0, 3.0]), "KD")
    array([3., 2.])
    """
    label = f"{name} ({len(matrix)} x {len(matrix)})"
    remedy = "Increase the regularization, or remove repeated points."
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LinAlgWarning)
        try:
            solution = solve(matrix, right, assume_a="general", check_finite=False)
        except np.linalg.LinAlgError:
            raise np.linalg.LinAlgError(f"{label} is singular. {remedy}") from None
    if caught:
        text = f"{label} is nearly singular, so its inverse is mostly rounding. {remedy}"
        warn(JitterWarning(text, matrix=name, jitter=0.0))
    return solution


def inverses(matrices: np.ndarray) -> np.ndarray:
    """Return the inverses of a stack of small matrices (..., d, d), such as the covariances of a mixture.

    >>> inverses(np.array([[[2.0]], [[4.0]]])).ravel()
    array([0.5 , 0.25])
    """
    return np.linalg.inv(matrices)


# ---- matrices of low rank: plus noise, and as an approximation of others ----------------------------------------


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


# ---- adjoints ------------------------------------------------------------------------------------------------------
#
# Solves and Gaussian log densities with their adjoints, written by hand.
#
# For a scalar objective, `X_bar` is its derivative with respect to X.


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
