"""Products of large matrices, of which only as much is computed as is needed.

All of them go through SciPy's BLAS, never through NumPy's: the two bring their own threads, and those of the one spin
on the cores that the other needs. Both memory layouts are welcome; a row-major matrix is handed to BLAS as its
column-major transpose, so nothing is copied to change the layout.
"""

import numpy as np
from scipy import sparse
from scipy.linalg import blas

__all__ = ["add_to_diagonal", "mirrored", "multiply", "symmetric_product", "times_symmetric", "transposed_times"]

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
