"""Large arrays in memory that is used again: fresh pages can cost as much as the algebra that fills them."""

import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

__all__ = ["new_copy", "new_matrix", "reused_memory"]

LARGE = 2**22
"""Bytes from which memory is kept for another use; the system's allocator keeps what is smaller, most of the time."""

_LOCK = threading.RLock()  # a lease may end in the middle of anything, also of the lines that hold it
_KEPT: defaultdict[int, list[np.ndarray]] = defaultdict(list)
_scopes = 0


@contextlib.contextmanager
def reused_memory() -> Iterator[None]:
    """Keep the memory of large matrices that are no longer used for the next ones, until the outermost scope ends.

    >>> with reused_memory():
    ...     address = new_matrix(3000, 3000).ctypes.data
    ...     new_matrix(3000, 3000).ctypes.data == address  # nobody had the first one any more
    True
    """
    global _scopes
    with _LOCK:
        _scopes += 1
    try:
        yield
    finally:
        with _LOCK:
            _scopes -= 1
            if not _scopes:
                _KEPT.clear()


def new_matrix(rows: int, columns: int) -> np.ndarray:
    """Return a row-major matrix with anything in it; where `reused_memory` holds, in memory that was used before.

    >>> new_matrix(2, 3).shape
    (2, 3)
    """
    size = 8 * rows * columns
    if not _scopes or size < LARGE:
        return np.empty((rows, columns))
    with _LOCK:
        memory = _KEPT[size].pop() if _KEPT[size] else np.empty(rows * columns)
    return np.asarray(_Lease(memory)).reshape(rows, columns)


def new_copy(matrix: np.ndarray) -> np.ndarray:
    """Return a copy of a matrix in its own layout, in memory as `new_matrix` gives it.

    >>> new_copy(np.eye(2).T).flags.f_contiguous
    True
    """
    if matrix.flags.f_contiguous and not matrix.flags.c_contiguous:
        return new_copy(matrix.T).T
    copy = new_matrix(*matrix.shape)
    copy[...] = matrix
    return copy


class _Lease:
    """Memory that is kept for the next use when the last array on it is gone."""

    def __init__(self, memory: np.ndarray) -> None:
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        with _LOCK:
            if _scopes:
                _KEPT[self._memory.nbytes].append(self._memory)
