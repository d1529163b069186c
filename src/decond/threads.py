"""BLAS on one thread: around work that has threads of its own, and for matrices too small to be worth several.

Threads of BLAS wait for each other at the end of each product. Where another process needs a core, they wait for it.

Chunks of rows run on all cores, one thread a chunk, each with a BLAS of its own thread. A chunk takes turns between
matrix products and elementwise work. Two libraries that both use all cores would wait for each other's threads; so
every chunk stays on one core from beginning to end. Its products are NumPy's, which run without the interpreter's
lock (SciPy's do not).
"""

import contextlib
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

__all__ = ["ThreadSettings", "ahead", "map_in_order", "one_blas_thread", "threads_by_rows", "threads_for"]

Function = TypeVar("Function", bound=Callable[..., Any])
Item = TypeVar("Item")
Value = TypeVar("Value")


@dataclass(frozen=True)
class ThreadSettings:
    """When BLAS may use more than one thread.

    >>> ThreadSettings().smallest_side
    300
    """

    smallest_side: int = 300
    """Side of a matrix from which BLAS runs on as many threads as the user allows: on an idle machine two need
    two thirds of the time at 500 rows. Beside other processes two threads lost at every size that was tried."""
    between_passes: int = 1024
    """The same for algebra between two passes over rows: threads of BLAS that have nothing left to do go on spinning
    for a while, on cores that the next pass needs."""


_CHANGING = threading.Lock()
"""Held while BLAS is looked at and changed: what is seen is then never half of a change."""


def threads_for(
    side: int, smallest_side: int = ThreadSettings.smallest_side
) -> contextlib.AbstractContextManager[Any]:
    """Return a context for algebra with matrices of this side: small ones run on one thread of BLAS.

    Contexts nest: the outermost one thread holds until its end. To enter and to leave takes 10 microseconds.

    Parameters
    ----------
    side : int
        The largest side of a matrix.
    smallest_side : int
        The side from which matrices are large.

    Returns
    -------
    context manager

    Examples
    --------
    >>> with threads_for(side=3):
    ...     sorted({library["num_threads"] for library in _blas().info()})
    [1]
    """
    return contextlib.nullcontext() if side >= smallest_side else one_blas_thread()


def threads_by_rows(fit: Function) -> Function:
    """Run a method within `threads_for` the longest of its arguments.

    >>> @threads_by_rows
    ... def threads(self, x):
    ...     return sorted({library["num_threads"] for library in _blas().info()})
    >>> threads(None, [1.0, 2.0])
    [1]
    """

    @functools.wraps(fit)
    def limited(self: Any, *arguments: Any, **options: Any) -> Any:
        with threads_for(max(map(_rows, (*arguments, *options.values())), default=0)):
            return fit(self, *arguments, **options)

    return limited  # type: ignore[return-value]


def _rows(value: object) -> int:
    if hasattr(value, "shape"):
        return int(value.shape[0]) if value.shape else 0
    return len(value) if hasattr(value, "__len__") else 0


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


# ---- chunks of rows on all cores -------------------------------------------------------------------------------


def map_in_order(function: Callable[[Item], Value], items: Iterable[Item]) -> Generator[Value, None, None]:
    """Yield the function's values at the items, in their order, from a pool of threads.

    There are as many threads as BLAS would use, so that its settings (OMP_NUM_THREADS and the like) hold here too.

    Parameters
    ----------
    function : callable
        What is called with each item, in some thread.
    items : iterable
        Only a few of them are taken ahead of time.

    Yields
    ------
    object
        The function's value at each item.

    Examples
    --------
    >>> list(map_in_order(abs, [-1, -2]))
    [1, 2]
    """
    with one_blas_thread() as threads:
        if threads == 1:
            yield from map(function, items)
            return
        pool, waiting = _pool(threads), deque[Future[Value]]()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def ahead(items: Generator[Item, None, None]) -> Generator[Item, None, None]:
    """Yield the items, the next of which another thread fetches already: reading goes on beside the work.

    >>> list(ahead(number for number in [1, 2, 3]))
    [1, 2, 3]
    """
    with contextlib.closing(items), ThreadPoolExecutor(1, thread_name_prefix="decond-reader") as reader:
        following = reader.submit(next, items, None)
        while (item := following.result()) is not None:
            following = reader.submit(next, items, None)
            yield item


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="decond")


if hasattr(os, "register_at_fork"):  # a child must not begin with a lock that nobody will open, nor with dead threads
    os.register_at_fork(before=_CHANGING.acquire, after_in_parent=_CHANGING.release, after_in_child=_CHANGING.release)
    os.register_at_fork(after_in_child=_pool.cache_clear)
