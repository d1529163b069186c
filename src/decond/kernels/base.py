"""What every kernel can do: Gram matrices, diagonals, blocked products, and composition with + * **."""

import abc
import math
from typing import Any

import numpy as np

from decond.backend import namespace
from decond.checks import as_rows, as_targets
from decond.errors import ArgumentError, ArgumentTypeError
from decond.parameters import Parametrized

__all__ = ["Kernel", "Spectrum"]

BLOCK_ENTRIES = 4_000_000
"""Gram entries that a blocked product holds at a time (32 MB)."""


class Kernel(Parametrized, abc.ABC):
    """A positive definite function of two points.

    Subclasses give `gram` and `diagonal` for trusted rows, in array code that runs on NumPy and, while JAX
    traces, on ``jax.numpy`` (see `decond.backend`). Calling the kernel checks its arguments first.

    >>> class Brownian(Kernel):
    ...     def gram(self, a, b):
    ...         return namespace(a, b).minimum(a, b.T)
    ...
    ...     def diagonal(self, a):
    ...         return a[:, 0]
    >>> Brownian()([[1.0], [3.0]])
    array([[1., 1.],
           [1., 3.]])
    """

    accepts_labels = False
    """Whether points may hold labels (text) instead of numbers."""

    has_variance = False
    """Whether some values of its parameters multiply it by any positive number."""

    @abc.abstractmethod
    def gram(self, a: Any, b: Any) -> Any:
        """Return the Gram matrix (len(a), len(b)) of trusted rows."""

    @abc.abstractmethod
    def diagonal(self, a: Any) -> Any:
        """Return k(a_i, a_i) for trusted rows, shape (len(a),)."""

    def __call__(self, a: Any, b: Any = None) -> np.ndarray:
        """Return the Gram matrix (len(a), len(b)); `b` defaults to `a`."""
        a = self.points(a, "a")
        b = a if b is None else self.points(b, "b")
        _check_same_columns(a, b)
        return self.gram(a, b)

    def diag(self, a: Any) -> np.ndarray:
        """Return the diagonal of the Gram matrix of `a` with itself, without forming it."""
        return self.diagonal(self.points(a, "a"))

    def matmul(self, a: Any, b: Any, v: Any, block_entries: int = BLOCK_ENTRIES) -> np.ndarray:
        """Return ``k(a, b) @ v`` block by block, never holding the whole Gram matrix."""
        a, b = self.points(a, "a"), self.points(b, "b")
        _check_same_columns(a, b)
        v = as_targets(v, "v", len(b), "b")
        rows = max(1, block_entries // len(b))
        blocks = [self.gram(a[start : start + rows], b) @ v for start in range(0, len(a), rows)]
        return np.concatenate(blocks)

    def points(self, value: Any, name: str) -> Any:
        """Return rows of points that this kernel accepts, checked; traced arrays pass through."""
        if namespace(value) is np:
            return as_rows(value, name, labels=self.accepts_labels)
        return value if value.ndim == 2 else value[:, None]

    def on(self, columns: Any) -> "Kernel":
        """Return this kernel applied to some columns of the points only."""
        from decond.kernels.composite import Columns

        picked = (columns,) if isinstance(columns, int | np.integer) else tuple(columns)
        return Columns(self, picked)

    def rescaled(self, factor: float) -> "Kernel":
        """Return this kernel times a positive number: in its own parameters if it can, else with a variance in front.

        >>> from decond.kernels import RBF, White
        >>> RBF().rescaled(3.0), (2.0 * RBF() + White(0.1)).rescaled(3.0)
        (3.0 * RBF(lengthscale=1.0), 6.0 * RBF(lengthscale=1.0) + White(variance=0.3))
        """
        return self * factor

    def with_lengthscales(self, scales: np.ndarray) -> "Kernel":
        """Return this kernel with the lengthscales `scales`, one for each column of the points.

        One lengthscale for several columns becomes the root mean square of theirs, which leaves the mean squared
        distance of points as it is. Lengthscales that are not in units of columns stay.

        >>> from decond.kernels import RBF, Periodic
        >>> (RBF([1.0, 1.0]) + RBF(1.0) + Periodic().on([0])).with_lengthscales(np.array([1.0, 7.0]))
        RBF(lengthscale=[1.0, 7.0]) + RBF(lengthscale=5.0) + Periodic(lengthscale=1.0, period=1.0).on([0])
        """
        return self

    def __add__(self, other: "Kernel | float") -> "Kernel":
        """Add a kernel or a constant."""
        from decond.kernels.composite import Sum
        from decond.kernels.nonstationary import Constant

        return Sum((self, other if isinstance(other, Kernel) else Constant(other)))

    def __mul__(self, other: "Kernel | float") -> "Kernel":
        """Multiply by a kernel or by a positive number."""
        from decond.kernels.composite import Product, Scaled

        return Product((self, other)) if isinstance(other, Kernel) else Scaled(self, other)

    def __pow__(self, exponent: int) -> "Kernel":
        """Raise to a positive whole power."""
        from decond.kernels.composite import Power

        return Power(self, exponent)

    def __radd__(self, other: float) -> "Kernel":
        """Add from the left; zero is neutral, so that kernels can be summed with ``sum``."""
        return self if isinstance(other, int) and other == 0 else self + other

    __rmul__ = __mul__
    __array_ufunc__ = None  # so that NumPy numbers multiply from the left through __rmul__

    def spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> "Spectrum":
        """Draw n frequencies from the kernel's spectral measure (Bochner); stationary kernels only."""
        raise ArgumentTypeError(
            "base",
            f"{type(self).__name__} is not stationary, so it has no spectral measure to sample. Use features "
            "of another kind, for example features.Nystrom.",
        )


class Spectrum:
    """Frequencies (n, d) of a stationary kernel and its variance k(0): k(r) = variance * E[cos(w.r)]."""

    def __init__(self, frequencies: Any, variance: Any = 1.0) -> None:
        self.frequencies = frequencies
        self.variance = variance


def isotropic_directions(n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> np.ndarray:
    """Return n unit vectors, uniform on the sphere; orthogonal within each block of `dimension` if asked."""
    if not orthogonal:
        normal = rng.standard_normal((n, dimension))
        return normal / np.linalg.norm(normal, axis=1, keepdims=True)
    blocks = rng.standard_normal((math.ceil(n / dimension), dimension, dimension))
    q, r = np.linalg.qr(blocks)
    uniform = q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]  # the signs make q uniform (Haar)
    return np.swapaxes(uniform, 1, 2).reshape(-1, dimension)[:n]


def _check_same_columns(a: Any, b: Any) -> None:
    if a.shape[1] != b.shape[1]:
        raise ArgumentError(
            "b",
            f"a has {a.shape[1]} columns but b has {b.shape[1]}; a kernel compares points of the same kind. Give "
            "both the same columns, in the same order.",
        )
