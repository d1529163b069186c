"""Blocks of rows on all cores: one thread a block, each with a BLAS of its own thread.

A block takes turns between matrix products and compiled kernels. Two libraries that both use all cores would wait for
each other's threads; so every block stays on one core from beginning to end. Its products are NumPy's, which run
without the interpreter's lock (SciPy's do not).
"""

import contextlib
import functools
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from decond.threads import one_blas_thread

__all__ = ["Workspace", "ahead", "closing", "in_order"]

Items = TypeVar("Items", bound=Iterable[Any])


def in_order(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """Yield the function's values at the items in their order; only a few items are taken ahead of time.

    There are as many threads as BLAS would use, so that its settings (OMP_NUM_THREADS and the like) hold here too.

    >>> list(in_order(abs, [-1, -2]))
    [1, 2]
    """
    with one_blas_thread() as threads, closing(items):
        if threads == 1:
            yield from map(function, items)
            return
        pool, waiting = _pool(threads), deque[Future[Any]]()
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


@contextlib.contextmanager
def closing(items: Items) -> Iterator[Items]:
    """Yield the items, and close them at the end if they are a generator: also where an error keeps it alive.

    >>> numbers = (number for number in [1, 2])
    >>> with closing(numbers):
    ...     next(numbers)
    1
    >>> list(numbers)
    []
    """
    try:
        yield items
    finally:
        if isinstance(items, Generator):
            items.close()


def ahead(items: Iterable[Any], depth: int = 2) -> Iterator[Any]:
    """Yield the items, which another thread fetches a little ahead of time: reading goes on beside the work.

    >>> list(ahead([1, 2, 3]))
    [1, 2, 3]
    """
    fetched: queue.Queue[tuple[bool, Any]] = queue.Queue(depth)
    stopped = threading.Event()

    def fetch() -> None:
        try:
            for item in items:
                if not _put(fetched, (True, item), stopped):
                    return
            _put(fetched, (False, None), stopped)
        except BaseException as error:  # handed to the thread that asked
            _put(fetched, (False, error), stopped)

    reader = threading.Thread(target=fetch, name="decond-reader", daemon=True)
    reader.start()
    try:
        while True:
            more, item = fetched.get()
            if more:
                yield item
                continue
            if item is not None:
                raise item
            return
    finally:
        stopped.set()
        reader.join()


def _put(fetched: "queue.Queue[tuple[bool, Any]]", item: tuple[bool, Any], stopped: threading.Event) -> bool:
    """Put an item in the queue as soon as there is room; return False if nobody waits for it any more."""
    while not stopped.is_set():
        try:
            fetched.put(item, timeout=0.1)
            return True
        except queue.Full:
            continue
    return False


class Workspace:
    """Memory that one thread uses again and again: fresh memory costs as much as a product does."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}

    def array(self, name: str, shape: tuple[int, int]) -> np.ndarray:
        """Return an array of this shape, with whatever is in it; compiled code takes it without a copy."""
        found = self._arrays.get(name)
        if found is None or found.shape != shape:
            raw = np.empty(shape[0] * shape[1] + 8)
            start = -raw.ctypes.data // 8 % 8
            found = self._arrays[name] = raw[start : start + shape[0] * shape[1]].reshape(shape)
        return found


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="decond")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
