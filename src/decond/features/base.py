"""What every finite feature map can do: features of points, and the kernel they define."""

import abc
from typing import Any

import numpy as np

from decond.backend import namespace
from decond.checks import as_rows
from decond.errors import ArgumentTypeError
from decond.kernels.base import Kernel
from decond.parameters import Parametrized, parameter, positive

__all__ = ["FeatureKernel", "FeatureMap", "as_kernel"]


class FeatureMap(Parametrized, abc.ABC):
    """A finite-dimensional feature map; rows of points in, rows of features out.

    >>> class Powers(FeatureMap):
    ...     def transform(self, a):
    ...         return np.hstack([a, a**2])
    >>> Powers()([[1.0], [3.0]])
    array([[1., 1.],
           [3., 9.]])
    """

    @abc.abstractmethod
    def transform(self, a: Any) -> Any:
        """Return the features (len(a), p) of trusted rows."""

    def __call__(self, a: Any) -> np.ndarray:
        """Return the features (len(a), p)."""
        rows = as_rows(a, "a") if namespace(a) is np else a
        features = self.transform(rows)
        return features.copy() if features is rows else features

    def kernel(self, variance: float = 1.0) -> "FeatureKernel":
        """Return the kernel ``variance * φ(a)·φ(b)``: linear models in function space."""
        return FeatureKernel(self, variance)


class FeatureKernel(Kernel):
    """The kernel of a finite feature map, ``variance * φ(a)·φ(b)``.

    Operators and observations notice the features behind it and work with small matrices where that is cheaper.

    >>> from decond.features import Identity
    >>> FeatureKernel(Identity(), 2.0)([[3.0]], [[4.0]])
    array([[24.]])
    """

    has_variance = True
    features: FeatureMap
    variance: Any = parameter(default=1.0, constraint=positive)

    def gram(self, a: Any, b: Any) -> Any:
        """Return scaled inner products of features."""
        return self.variance * (self.features.transform(a) @ self.features.transform(b).T)

    def diagonal(self, a: Any) -> Any:
        """Return scaled squared norms of features."""
        return self.variance * (self.features.transform(a) ** 2).sum(axis=1)

    def rescaled(self, factor: float) -> "FeatureKernel":
        """Return it with its variance multiplied."""
        return self.replace(variance=factor * self.variance)


def as_kernel(value: Any, name: str) -> Kernel:
    """Return a kernel: itself, or the kernel of a feature map.

    >>> from decond.features import Identity
    >>> as_kernel(Identity(), "kernel")([[2.0]], [[3.0]])
    array([[6.]])
    """
    if isinstance(value, Kernel):
        return value
    if isinstance(value, FeatureMap):
        return value.kernel()
    raise ArgumentTypeError(
        name, f"{name} is {value!r}; a kernel or a feature map is needed, for example kernels.RBF(lengthscale=1.0)."
    )
