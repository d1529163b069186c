"""BLAS on one thread: around work that has threads of its own, and for matrices too small to be worth several."""

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

__all__ = ["one_blas_thread"]

_CHANGING = threading.Lock()
"""Held while BLAS is looked at and changed: what is seen is then never half of a change."""


@contextlib.contextmanager
def one_blas_thread() -> Iterator[int]:
    """Keep BLAS on one thread inside, and yield the number that it had; it has that number again afterwards.

    Only who found several threads puts them back, and in the thread that took them, for threadpoolctl ignores others.
    So of two that overlap, the second changes nothing. If the first ends before it, BLAS has its threads again early.

    NumPy and SciPy bring a BLAS each, whose threads go on spinning for a while after a product: code that takes turns
    between the two is slower on two cores than on one.

    >>> with one_blas_thread():
    ...     sorted({library["num_threads"] for library in _blas().info()})
    [1]
    """
    limit = contextlib.ExitStack()
    with _CHANGING:
        threads = _threads()
        if threads > 1:
            limit.enter_context(_blas().limit(limits=1))
    try:
        yield threads
    finally:
        with _CHANGING:
            limit.close()


def _threads() -> int:
    return max((library["num_threads"] for library in _blas().info()), default=1)


@functools.cache
def _blas() -> Any:
    import scipy.linalg  # noqa: F401  its BLAS has to be there to be found

    return ThreadpoolController().select(user_api="blas")


if hasattr(os, "register_at_fork"):  # a child must not begin with a lock that nobody will open
    os.register_at_fork(before=_CHANGING.acquire, after_in_parent=_CHANGING.release, after_in_child=_CHANGING.release)
