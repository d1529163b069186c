"""Blocks of rows on all cores: one thread a block, each with a BLAS of its own thread.

A block takes turns between matrix products and compiled kernels. Two libraries that both use all cores would wait for
each other's threads; so every block stays on one core from beginning to end. Its products are NumPy's, which run
without the interpreter's lock (SciPy's do not).
"""

import functools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

__all__ = ["Workspace", "in_order"]


def in_order(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """Yield the function's values at the items in their order; only a few items are taken ahead of time.

    There are as many threads as BLAS would use, so that its settings (OMP_NUM_THREADS and the like) hold here too.

    >>> list(in_order(abs, [-1, -2]))
    [1, 2]
    """
    threads = _threads()
    with _blas().limit(limits=1):
        if threads == 1:
            yield from map(function, items)
            return
        pool, waiting = _pool(threads), deque[Future[Any]]()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


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
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")


def _threads() -> int:
    return max((library["num_threads"] for library in _blas().info()), default=1)


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="decond")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
