"""Chunks of rows on all cores: one thread a chunk, each with a BLAS of its own thread.

A chunk takes turns between matrix products and elementwise work. Two libraries that both use all cores would wait for
each other's threads; so every chunk stays on one core from beginning to end. Its products are NumPy's, which run
without the interpreter's lock (SciPy's do not).
"""

import contextlib
import functools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from decond.threads import one_blas_thread

__all__ = ["ahead", "map_in_order"]

Item = TypeVar("Item")
Value = TypeVar("Value")


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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
