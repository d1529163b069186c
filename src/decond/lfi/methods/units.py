"""Kernels that a user gives: in the units of the data and of the parameters, whatever a method computes with."""

from collections.abc import Callable
from typing import Any

import numpy as np

from decond.features.base import as_kernel
from decond.kernels import Kernel
from decond.lfi.methods.base import Method

__all__ = ["InUnits", "on_data", "on_parameters"]


class InUnits(Kernel):
    """A kernel of points in the user's units, as a kernel of the coordinates that a method computes with.

    `back` turns rows of these coordinates into the user's units.

    >>> from decond.kernels import Linear
    >>> InUnits(Linear(), lambda rows: 1000.0 * rows)([[1.0]], [[2.0]])
    array([[2000000.]])
    """

    kernel: Kernel
    back: Callable[[Any], Any]

    def gram(self, a: Any, b: Any) -> Any:
        """Return the Gram matrix of the rows in the user's units."""
        return self.kernel.gram(self.back(a), self.back(b))

    def diagonal(self, a: Any) -> Any:
        """Return the diagonal for rows in the user's units."""
        return self.kernel.diagonal(self.back(a))


def on_parameters(method: Method, kernel: Kernel | None, name: str = "kernel_theta") -> Kernel | None:
    """Return a kernel of parameters, if one is given, as a kernel of working coordinates."""
    return None if kernel is None else InUnits(as_kernel(kernel, name), method.prior_.from_working)


def on_data(method: Method, kernel: Kernel | None) -> Kernel | None:
    """Return a kernel of data, if one is given, as a kernel of standardised data; raise if summaries are learned."""
    if kernel is None:
        return None
    if method._learned is not None:
        width = method.sims_.x.shape[1]
        raise ValueError(
            f"kernel_x is {kernel!r}, in the units of the data, but summary={method.summary!r} replaces the {width} "
            'columns of data by learned summaries, which have no such units. Give summary="none" to use the kernel '
            "on the data, or leave kernel_x out."
        )
    given = as_kernel(kernel, "kernel_x")
    inner, outer = method._summary_scale, method._scale
    return InUnits(given, _Affine(outer.center + outer.scale * inner.center, outer.scale * inner.scale))


class _Affine:
    """Undoes a standardisation."""

    def __init__(self, center: np.ndarray, scale: np.ndarray) -> None:
        self.center, self.scale = center, scale

    def __call__(self, rows: Any) -> Any:
        return self.center + self.scale * rows
