"""Functions of one traced array that bring their own slope."""

from collections.abc import Callable
from typing import Any

__all__ = ["traced_with_slope"]


def traced_with_slope(profile: Callable[[Any], Any], slope: Callable[[Any], Any], values: Any) -> Any:
    """Return a profile at traced values, which JAX differentiates with this slope.

    Both are traced by themselves, because who differentiates without ``jit`` would call them with numbers.

    >>> import jax
    >>> with jax.enable_x64(True):
    ...     slope = jax.grad(lambda x: traced_with_slope(lambda x: x**2, lambda x: 2.0 * x, x))(3.0)
    >>> float(slope)
    6.0
    """
    import jax

    differentiable, traced_slope = jax.custom_jvp(jax.jit(profile)), jax.jit(slope)
    differentiable.defjvps(lambda tangent, _, at: traced_slope(at) * tangent)
    return differentiable(values)
