"""Large arrays in memory that is used again: fresh pages can cost as much as the algebra that fills them."""

import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

__all__ = ["new_copy", "new_matrix", "reused_memory"]

LARGE = 2**22
"""Bytes from which memory is kept for another use; the system's allocator keeps what is smaller, most of the time."""

_CURRENT = threading.local()
"""The store of a thread that is within `reused_memory`, if it is."""


@contextlib.contextmanager
def reused_memory() -> Iterator[None]:
    """Keep the memory of large matrices that are no longer used for the next ones, until the outermost scope ends.

    Each thread has its own: what one keeps does not grow with what others do beside it.

    >>> with reused_memory():
    ...     address = new_matrix(3000, 3000).ctypes.data
    ...     new_matrix(3000, 3000).ctypes.data == address  # nobody had the first one any more
    True
    """
    if getattr(_CURRENT, "store", None) is not None:
        yield
        return
    _CURRENT.store = store = _Store()
    try:
        yield
    finally:
        _CURRENT.store = None
        store.close()


def new_matrix(rows: int, columns: int) -> np.ndarray:
    """Return a row-major matrix with anything in it; where `reused_memory` holds, in memory that was used before.

    >>> new_matrix(2, 3).shape
    (2, 3)
    """
    store = getattr(_CURRENT, "store", None)
    if store is None or 8 * rows * columns < LARGE:
        return np.empty((rows, columns))
    return np.asarray(_Lease(store.take(rows * columns), store)).reshape(rows, columns)


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


class _Store:
    """Memory that nobody uses at the moment, by its size; closed, it keeps nothing."""

    def __init__(self) -> None:
        self.kept: defaultdict[int, list[np.ndarray]] = defaultdict(list)
        self._lock = threading.RLock()  # a lease may end in the middle of anything, also of the lines that hold it
        self._open = True

    def take(self, size: int) -> np.ndarray:
        """Return memory for so many numbers."""
        with self._lock:
            return self.kept[size].pop() if self.kept[size] else np.empty(size)

    def keep(self, memory: np.ndarray) -> None:
        """Take memory back; it may come from another thread, or after the end."""
        with self._lock:
            if self._open:
                self.kept[memory.size].append(memory)

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._open = False
            self.kept.clear()


class _Lease:
    """Memory that goes back to its store when the last array on it is gone."""

    def __init__(self, memory: np.ndarray, store: _Store) -> None:
        self._memory, self._store = memory, store
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._store.keep(self._memory)
