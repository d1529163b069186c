"""JAX as decond runs it: in float64, on the thread that calls."""

import contextlib
from collections.abc import Iterator

__all__ = ["in_float64"]


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Have JAX compute in float64 inside, whatever the caller's settings are.

    By default JAX hands every call to a thread of its own. Where several threads call it side by side, each would
    then wait for another one to wake up. Once a process has trained a network, code runs on the thread that calls it.

    >>> import jax
    >>> with in_float64():
    ...     one = jax.numpy.ones(1)
    >>> one.dtype.name
    'float64'
    """
    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)
    with jax.enable_x64(True):
        yield
