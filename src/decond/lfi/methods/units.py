"""Coordinates that kernels see: those that a method computes with, or the user's own units."""

from collections.abc import Callable
from typing import Any

import numpy as np

from decond.errors import ArgumentError
from decond.features.feature_maps import as_kernel
from decond.kernels import Kernel
from decond.lfi.methods.base import Method

__all__ = ["InUnits", "RawCoordinates", "WorkingCoordinates", "on_data", "on_parameters"]


class InUnits(Kernel):
    """A kernel of points in the user's units, as a kernel of the coordinates that a method computes with.

    `back` turns rows of these coordinates into the user's units.

    >>> from decond.kernels import Linear
    >>> InUnits(Linear(), lambda rows: 1000.0 * rows)([[1.0]], [[2.0]])
    array([[2000000.]])
    """

    kernel: Kernel
    back: Callable[[Any], Any]

    def _gram(self, a: Any, b: Any) -> Any:
        """Return the Gram matrix of the rows in the user's units."""
        return self.kernel.gram(self.back(a), self.back(b))

    def diagonal(self, a: Any) -> Any:
        """Return the diagonal for rows in the user's units."""
        return self.kernel.diagonal(self.back(a))


def on_parameters(method: Method, kernel: Kernel | None, name: str = "kernel_theta") -> Kernel | None:
    """Return a kernel of parameters, if one is given, as a kernel of working coordinates."""
    return None if kernel is None else InUnits(as_kernel(kernel, name), method.prior_.from_working)


def on_data(method: Method, kernel: Kernel | None) -> Kernel | None:
    """Return a kernel of data, if one is given, as a kernel of standardized data; raise if summaries are learned."""
    if kernel is None:
        return None
    if method._learned is not None:
        width = method.sims_.x.shape[1]
        raise ArgumentError(
            "kernel_x",
            f"kernel_x is {kernel!r}, in the units of the data, but summary={method.summary!r} replaces the {width} "
            'columns of data by learned summaries, which have no such units. Give summary="none" to use the kernel '
            "on the data, or leave kernel_x out.",
        )
    return InUnits(as_kernel(kernel, "kernel_x"), _Affine.to_data(method))


class WorkingCoordinates:
    """Kernels are learned on working coordinates and standardized data; given ones keep the user's units."""

    def __init__(self, method: Method, kernel_theta: Kernel | None, kernel_x: Kernel | None) -> None:
        self.given = on_parameters(method, kernel_theta), on_data(method, kernel_x)
        self._prior = method.prior_

    def theta(self, phi: np.ndarray) -> np.ndarray:
        """Return rows of working coordinates as kernels of θ see them."""
        return phi

    def x(self, rows: np.ndarray) -> np.ndarray:
        """Return rows of standardized data as kernels of x see them."""
        return rows

    def contains(self, rows: np.ndarray) -> np.ndarray:
        """Return which rows, as kernels of θ see them, lie in the prior's support."""
        return self._prior.contains(self._prior.from_working(rows))

    def on_working(self, kernel_theta: Kernel, kernel_x: Kernel) -> tuple[Kernel, Kernel]:
        """Return learned kernels as kernels of working coordinates and standardized data."""
        return kernel_theta, kernel_x


class RawCoordinates(WorkingCoordinates):
    """All kernels see parameters and data in the user's units."""

    def __init__(self, method: Method, kernel_theta: Kernel | None, kernel_x: Kernel | None) -> None:
        if method._learned is not None:
            raise ArgumentError(
                "coordinates",
                f'coordinates is "raw", but summary={method.summary!r} replaces the data by learned summaries. Give '
                'summary="none", or coordinates="working".',
            )
        self.given = (
            None if kernel_theta is None else as_kernel(kernel_theta, "kernel_theta"),
            None if kernel_x is None else as_kernel(kernel_x, "kernel_x"),
        )
        self._prior, self._to_data = method.prior_, _Affine.to_data(method)

    def theta(self, phi: np.ndarray) -> np.ndarray:
        return self._prior.from_working(phi)

    def x(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self._to_data(rows))

    def contains(self, rows: np.ndarray) -> np.ndarray:
        return self._prior.contains(rows)

    def on_working(self, kernel_theta: Kernel, kernel_x: Kernel) -> tuple[Kernel, Kernel]:
        return InUnits(kernel_theta, self._prior.from_working), InUnits(kernel_x, self._to_data)


class _Affine:
    """Undoes a standardization."""

    @classmethod
    def to_data(cls, method: Method) -> "_Affine":
        """Return the map from a method's standardized data to the data."""
        inner, outer = method._summary_scale, method._scale
        return cls(outer.center + outer.scale * inner.center, outer.scale * inner.scale)

    def __init__(self, center: np.ndarray, scale: np.ndarray) -> None:
        self.center, self.scale = center, scale

    def __call__(self, rows: Any) -> Any:
        return self.center + self.scale * rows
