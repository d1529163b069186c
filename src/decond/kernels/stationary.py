"""Kernels of the difference between two points: RBF, Matern, rational quadratic, periodic."""

import abc
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from decond.backend import is_traced, namespace
from decond.errors import ArgumentError, ArgumentTypeError
from decond.kernels.base import Kernel, Spectrum, isotropic_directions
from decond.memory import new_matrix
from decond.parameters import parameter, positive

__all__ = ["RBF", "Matern12", "Matern32", "Matern52", "Periodic", "RationalQuadratic", "Stationary"]

BLOCK_ENTRIES = 2**17
"""Entries of a Gram matrix that are computed at a time: what lies between distance and kernel stays in cache."""


def squared_distance(a: Any, b: Any, lengthscale: Any = 1.0) -> Any:
    """Return squared scaled distances from differences, so that equal rows are at exactly zero.

    Coordinates are taken from an origin among the points: data far from zero (calendar years, map coordinates)
    lose no digits when they are scaled.
    """
    if namespace(a, b, lengthscale) is np:
        origin = b[:1]
        return cdist((a - origin) / lengthscale, (b - origin) / lengthscale, "sqeuclidean")
    from decond.autodiff import traced_squared_distance

    return traced_squared_distance(a, b, lengthscale)


def exp_of_multiple(values: Any, factor: float) -> Any:
    """Return exp(factor * values); NumPy arrays are overwritten, to save two passes through memory."""
    xp = namespace(values)
    if xp is np:
        values *= factor
        return np.exp(values, out=values)
    return xp.exp(factor * values)


def distance(squared: Any) -> Any:
    """Return the square root of squared distances, with derivative zero (not NaN or huge) at zero distance.

    NumPy arrays are overwritten.

    That is the right derivative of the Matern kernels that are smooth there (3/2 and 5/2), and the subgradient of
    symmetry for the exponential one. Traced distances below 1e-8 lengthscales count as zero: rows that are equal but
    for rounding would otherwise swamp the gradient with their infinite slope.
    """
    xp = namespace(squared)
    if xp is np:
        return np.sqrt(squared, out=squared)
    apart = squared > 1e-16
    return xp.where(apart, xp.sqrt(xp.where(apart, squared, 1.0)), 0.0)


def with_slope(profile: Callable[[Any], Any], slope: Callable[[Any], Any], squared: Any) -> Any:
    """Return a profile at squared distances; where JAX differentiates it, with this slope.

    What JAX finds by itself for a function of a root divides by that root: a fifth of the time of a backward pass.
    """
    if namespace(squared) is np:
        return profile(squared)
    from decond.autodiff import traced_with_slope

    return traced_with_slope(profile, slope, squared)


def matern32(squared: Any) -> Any:
    """Return (1 + √3 r) exp(-√3 r)."""
    r = math.sqrt(3.0) * distance(squared)
    return (1.0 + r) * namespace(squared).exp(-r)


def matern32_slope(squared: Any) -> Any:
    """Return its derivative by r²: -3/2 exp(-√3 r)."""
    return -1.5 * exp_of_multiple(distance(squared), -math.sqrt(3.0))


def matern52(squared: Any) -> Any:
    """Return (1 + √5 r + 5r²/3) exp(-√5 r)."""
    r = math.sqrt(5.0) * distance(squared)
    return (1.0 + r + r * r / 3.0) * namespace(squared).exp(-r)


def matern52_slope(squared: Any) -> Any:
    """Return its derivative by r²: -5/6 (1 + √5 r) exp(-√5 r)."""
    r = math.sqrt(5.0) * distance(squared)
    return (-5.0 / 6.0) * (1.0 + r) * namespace(squared).exp(-r)


class Stationary(Kernel):
    """A kernel of the scaled distance; `lengthscale` is one number or one for each column.

    >>> a, b = [[0.0, 0.0]], [[1.0, 10.0]]  # one lengthscale apart in each column
    >>> [round(kernel([1.0, 10.0])(a, b).item(), 4) for kernel in (RBF, Matern12)]
    [0.3679, 0.2431]
    """

    lengthscale: Any = parameter(default=1.0, constraint=positive, per_column=True)

    @abc.abstractmethod
    def profile(self, squared: Any) -> Any:
        """Return the kernel as a function of the squared scaled distance, which may be overwritten; one at zero."""

    @abc.abstractmethod
    def radii(self, chi: np.ndarray, rng: np.random.Generator) -> Any:
        """Turn norms of standard normal vectors into norms of spectral frequencies (unit lengthscale)."""

    def gram(self, a: Any, b: Any) -> Any:
        """Return the profile at all scaled distances; of large matrices, a block of rows at a time."""
        check_columns(self, "lengthscale", self.lengthscale, a.shape[1])
        height = max(1, BLOCK_ENTRIES // len(b))
        if len(a) <= height or namespace(a, b, *vars(self).values()) is not np:
            return self.profile(squared_distance(a, b, self.lengthscale))
        gram = new_matrix(len(a), len(b))
        origin = b[:1]
        left, right = (a - origin) / self.lengthscale, (b - origin) / self.lengthscale
        for start in range(0, len(a), height):
            block = gram[start : start + height]
            values = self.profile(cdist(left[start : start + height], right, "sqeuclidean", out=block))
            if values is not block:
                block[...] = values
        return gram

    def diagonal(self, a: Any) -> Any:
        """Return ones."""
        check_columns(self, "lengthscale", self.lengthscale, a.shape[1])
        return namespace(a, self.lengthscale).ones(a.shape[0])

    def spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> Spectrum:
        """Draw frequencies: a uniform direction times a radius of this kernel's own law."""
        check_columns(self, "lengthscale", self.lengthscale, dimension)
        directions = isotropic_directions(n, dimension, rng, orthogonal)
        radii = self.radii(np.sqrt(rng.chisquare(dimension, n)), rng)
        return Spectrum(directions * radii[:, None] / self.lengthscale)

    def with_lengthscales(self, scales: np.ndarray) -> "Stationary":
        """Return the same kernel at these lengthscales."""
        return self.replace(lengthscale=shaped_like(self.lengthscale, scales))


class RBF(Stationary):
    """Gaussian kernel exp(-r²/2), r the distance divided by the lengthscale.

    >>> RBF(lengthscale=2.0)([[0.0]], [[2.0]]).round(4)
    array([[0.6065]])
    """

    def profile(self, squared: Any) -> Any:
        """Return exp(-r²/2)."""
        return exp_of_multiple(squared, -0.5)

    def radii(self, chi: np.ndarray, rng: np.random.Generator) -> Any:
        """Return the norms themselves: the spectral law is standard normal."""
        return chi


class _Matern(Stationary):
    """What the Matern kernels share: a spectral law of Student's t with 2ν degrees of freedom."""

    degrees = 1

    def radii(self, chi: np.ndarray, rng: np.random.Generator) -> Any:
        """Divide the norms by the root of a scaled chi-square."""
        return chi / np.sqrt(rng.chisquare(self.degrees, len(chi)) / self.degrees)


class Matern12(_Matern):
    """Exponential kernel exp(-r): rough, continuous functions.

    >>> Matern12()([[0.0]], [[1.0]]).round(4)
    array([[0.3679]])
    """

    degrees = 1

    def profile(self, squared: Any) -> Any:
        """Return exp(-r)."""
        return exp_of_multiple(distance(squared), -1.0)


class Matern32(_Matern):
    """Matern kernel (1 + √3 r) exp(-√3 r): functions with one derivative.

    >>> Matern32()([[0.0]], [[1.0]]).round(4)
    array([[0.4834]])
    """

    degrees = 3

    def profile(self, squared: Any) -> Any:
        """Return (1 + √3 r) exp(-√3 r)."""
        return with_slope(matern32, matern32_slope, squared)


class Matern52(_Matern):
    """Matern kernel (1 + √5 r + 5r²/3) exp(-√5 r): functions with two derivatives.

    >>> Matern52()([[0.0]], [[1.0]]).round(4)
    array([[0.524]])
    """

    degrees = 5

    def profile(self, squared: Any) -> Any:
        """Return (1 + √5 r + 5r²/3) exp(-√5 r)."""
        return with_slope(matern52, matern52_slope, squared)


class RationalQuadratic(Stationary):
    """Mixture of Gaussian kernels of many lengthscales: (1 + r²/(2 alpha))^(-alpha).

    >>> RationalQuadratic(alpha=1.0)([[0.0]], [[2.0]]).round(4)
    array([[0.3333]])
    """

    alpha: Any = parameter(default=1.0, constraint=positive)

    def profile(self, squared: Any) -> Any:
        """Return (1 + r²/(2 alpha))^(-alpha)."""
        xp = namespace(squared, self.alpha)
        return xp.exp(-self.alpha * xp.log1p(0.5 * squared / self.alpha))

    def radii(self, chi: np.ndarray, rng: np.random.Generator) -> Any:
        """Multiply the norms by the root of a gamma draw: a Gaussian scale mixture."""
        check_concrete(self, "alpha", self.alpha)
        return chi * np.sqrt(rng.gamma(self.alpha, 1.0 / self.alpha, len(chi)))


class Periodic(Kernel):
    """Periodic kernel exp(-2 Σ_j sin²(π d_j / period_j) / lengthscale_j²).

    It is the RBF kernel after each column is wound onto a circle, and is computed that way.

    >>> Periodic(period=3.0)([[0.0]], [[3.0]]).round(4)
    array([[1.]])
    """

    lengthscale: Any = parameter(default=1.0, constraint=positive, per_column=True)
    period: Any = parameter(default=1.0, constraint=positive, per_column=True)

    def gram(self, a: Any, b: Any) -> Any:
        """Return the RBF kernel on the circle."""
        origin = b[:1]
        return exp_of_multiple(squared_distance(self.wound(a - origin), self.wound(b - origin)), -0.5)

    def diagonal(self, a: Any) -> Any:
        """Return ones."""
        return namespace(a, self.lengthscale).ones(a.shape[0])

    def wound(self, a: Any) -> Any:
        """Map each column to a point on a circle of radius 1/lengthscale."""
        check_columns(self, "lengthscale", self.lengthscale, a.shape[1])
        check_columns(self, "period", self.period, a.shape[1])
        xp = namespace(a, self.lengthscale, self.period)
        angle = 2.0 * math.pi * a / self.period
        return xp.concatenate([xp.cos(angle) / self.lengthscale, xp.sin(angle) / self.lengthscale], axis=1)

    def spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> Spectrum:
        """Draw harmonics of the period: j has probability exp(-1/l²) I_|j|(1/l²) (Jacobi-Anger)."""
        from scipy.special import ive

        check_columns(self, "lengthscale", self.lengthscale, dimension)
        check_columns(self, "period", self.period, dimension)
        check_concrete(self, "lengthscale", self.lengthscale)
        concentration = np.broadcast_to(1.0 / np.square(self.lengthscale), dimension)
        harmonics = np.empty((n, dimension))
        for j, c in enumerate(concentration):
            order = np.arange(-_harmonics_needed(c), _harmonics_needed(c) + 1)
            mass = ive(np.abs(order), c)
            harmonics[:, j] = rng.choice(order, size=n, p=mass / mass.sum())
        return Spectrum(2.0 * math.pi * harmonics / self.period)


def check_concrete(kernel: Kernel, name: str, value: Any) -> None:
    """Raise if a number that frequencies are drawn from is being differentiated, which a draw does not allow."""
    if is_traced(value):
        raise ArgumentTypeError(
            "kernel",
            f"random frequencies of {type(kernel).__name__} are drawn at its {name}, so they have no gradient with "
            "respect to it. Use features.Nystrom, or Fourier features of RBF or Matern kernels.",
        )


def check_columns(kernel: Kernel, name: str, value: Any, columns: int) -> None:
    """Raise if a parameter with one value for each column does not fit the points."""
    size = np.shape(value)[0] if np.ndim(value) == 1 else 1
    if size not in (1, columns):
        raise ArgumentError(
            name,
            f"{type(kernel).__name__}: {name} has {size} values but the points have {columns} column(s). Give one "
            f"value for all columns, or {columns} values, or pick columns with .on([...]).",
        )


def shaped_like(lengthscale: Any, scales: np.ndarray) -> Any:
    """Return a lengthscale for each column, or their root mean square where one serves for all."""
    return scales if np.ndim(lengthscale) == 1 else float(np.sqrt(np.mean(np.square(scales))))


def _harmonics_needed(concentration: float) -> int:
    """Return how many harmonics carry all but a negligible part of the spectral mass."""
    return 20 + math.ceil(12.0 * math.sqrt(concentration))
