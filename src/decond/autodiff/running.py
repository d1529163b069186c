"""JAX as decond runs it: in float64, on the thread that calls, with compiled code kept for the next process."""

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["device", "in_float64"]

SHORTEST_KEPT = 0.05
"""Code that took at least this many seconds to compile is kept for the next process."""


def device() -> str:
    """Return what JAX computes on, in words, or why it does not; imports JAX.

    >>> device().split()[0] in ("cpu", "gpu", "tpu")
    True
    """
    try:
        import jax

        first = jax.devices()[0]
    except Exception as error:  # a broken driver must not keep anybody from asking for versions
        return f"none ({type(error).__name__}: {error})"
    kind = "" if first.device_kind.lower() == first.platform else f" ({first.device_kind})"
    return f"{first.platform}{kind}"


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Have JAX compute in float64 inside, whatever the caller's settings are, and keep what it compiles.

    >>> import jax
    >>> with in_float64():
    ...     one = jax.numpy.ones(1)
    >>> one.dtype.name
    'float64'
    """
    import jax

    _set_up()
    with jax.enable_x64(True):
        yield


@functools.cache
def _set_up() -> None:
    """Have JAX run code on the thread that calls it, and keep what it compiled.

    By default it hands every call to a thread of its own. Where several threads call it side by side, each would then
    wait for another one to wake up, on another core with another cache. Once a process has used JAX, its way stays.
    """
    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)
    _keep_compiled_code()


def _keep_compiled_code() -> None:
    """Have JAX keep compiled code in the user's cache folder, so that the next process need not compile again.

    Where a folder is set already it stays; ``DECOND_COMPILATION_CACHE=off`` leaves JAX as it is.
    """
    import jax

    if jax.config.jax_compilation_cache_dir or os.environ.get("DECOND_COMPILATION_CACHE") == "off":  # type: ignore[attr-defined]
        return
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "decond" / "compiled"
    with contextlib.suppress(OSError, RuntimeError):  # no home, or nowhere to write: compile every time
        folder.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST_KEPT)
