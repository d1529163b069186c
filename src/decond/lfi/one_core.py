"""Matrix products on one core: for matrices of a thousand rows and less, threads wait longer than they work."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

__all__ = ["on_one_core"]


@contextlib.contextmanager
def on_one_core() -> Iterator[None]:
    """Keep BLAS to one thread inside; what was set before holds again afterwards.

    NumPy and SciPy bring a BLAS each, whose threads go on spinning for a while after a product: code that takes turns
    between the two is slower on two cores than on one.

    >>> with on_one_core():
    ...     sorted({library["num_threads"] for library in _blas().info()})
    [1]
    """
    with _blas().limit(limits=1):
        yield


@functools.cache
def _blas() -> Any:
    import scipy.linalg  # noqa: F401  its BLAS has to be there to be found

    return ThreadpoolController().select(user_api="blas")
