"""One array code for two engines: NumPy for numbers, JAX while it is tracing.

Everything that needs no gradient runs on NumPy and SciPy, which compile nothing. When JAX traces a function
(under ``jit`` or ``grad``) its tracers flow through the same kernel code and `namespace` hands out
``jax.numpy`` instead. Concrete JAX arrays count as numbers: they become NumPy arrays at the door.
JAX is not imported here; if nobody imported it, nobody can be tracing.
"""

import sys
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["is_traced", "namespace"]


def is_traced(value: Any) -> bool:
    """Tell whether `value` is an abstract array of a running JAX trace.

    >>> is_traced(1.0)
    False
    """
    core = getattr(sys.modules.get("jax"), "core", None)
    tracer = getattr(core, "Tracer", None)  # another thread may be in the middle of importing JAX
    return tracer is not None and isinstance(value, tracer)


def namespace(*values: Any) -> ModuleType:
    """Return ``jax.numpy`` if any of the values is traced, else ``numpy``.

    >>> namespace(np.ones(3)).__name__
    'numpy'
    """
    if any(is_traced(value) for value in values):
        import jax.numpy

        return jax.numpy
    return np
