"""Kernels written one pair of points at a time: the reference that every Gram matrix is compared with.

Points are rows: `a` has shape (n, d), `b` has shape (m, d), and each function gives the (n, m) Gram matrix.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Lengthscale = float | Array


def _gram(a: Array, b: Array, value: Callable[[Array, Array], float]) -> Array:
    """Evaluate `value` on each pair of rows."""
    return np.array([[value(p, q) for q in b] for p in a])


def _distance(p: Array, q: Array, lengthscale: Lengthscale) -> float:
    """Give the Euclidean distance of two points after division by the lengthscale."""
    return math.sqrt(sum(((p - q) / lengthscale) ** 2))


def rbf(a: Array, b: Array, lengthscale: Lengthscale = 1.0) -> Array:
    """Gaussian kernel exp(-d^2 / 2)."""
    return _gram(a, b, lambda p, q: math.exp(-0.5 * _distance(p, q, lengthscale) ** 2))


def matern12(a: Array, b: Array, lengthscale: Lengthscale = 1.0) -> Array:
    """Matern kernel of order 1/2, exp(-d)."""
    return _gram(a, b, lambda p, q: math.exp(-_distance(p, q, lengthscale)))


def matern32(a: Array, b: Array, lengthscale: Lengthscale = 1.0) -> Array:
    """Matern kernel of order 3/2, (1 + s) exp(-s) with s = sqrt(3) d."""

    def value(p: Array, q: Array) -> float:
        s = math.sqrt(3.0) * _distance(p, q, lengthscale)
        return (1.0 + s) * math.exp(-s)

    return _gram(a, b, value)


def matern52(a: Array, b: Array, lengthscale: Lengthscale = 1.0) -> Array:
    """Matern kernel of order 5/2, (1 + s + s^2 / 3) exp(-s) with s = sqrt(5) d."""

    def value(p: Array, q: Array) -> float:
        s = math.sqrt(5.0) * _distance(p, q, lengthscale)
        return (1.0 + s + s**2 / 3.0) * math.exp(-s)

    return _gram(a, b, value)


def rational_quadratic(a: Array, b: Array, lengthscale: Lengthscale = 1.0, alpha: float = 1.0) -> Array:
    """Rational quadratic kernel (1 + d^2 / (2 alpha))^(-alpha)."""
    return _gram(a, b, lambda p, q: (1.0 + _distance(p, q, lengthscale) ** 2 / (2.0 * alpha)) ** -alpha)


def periodic(a: Array, b: Array, lengthscale: Lengthscale = 1.0, period: float = 1.0) -> Array:
    """Periodic kernel exp(-2 sum_j sin^2(pi d_j / period) / lengthscale^2)."""

    def value(p: Array, q: Array) -> float:
        return math.exp(-2.0 * sum((np.sin(np.pi * (p - q) / period) / lengthscale) ** 2))

    return _gram(a, b, value)


def linear(a: Array, b: Array) -> Array:
    """Linear kernel a . b."""
    return _gram(a, b, lambda p, q: float(sum(p * q)))


def polynomial(a: Array, b: Array, degree: int = 2, offset: float = 1.0) -> Array:
    """Polynomial kernel (a . b + offset)^degree."""
    return _gram(a, b, lambda p, q: float(sum(p * q) + offset) ** degree)


def categorical(a: Array, b: Array) -> Array:
    """Categorical kernel: 1 if all columns are equal, else 0."""
    return _gram(a, b, lambda p, q: float(all(p == q)))


def polynomial_features(x: Array, degree: int = 2, offset: float = 1.0) -> Array:
    """Phi of shape (p, n) with Phi^T Phi the polynomial kernel: a row for each ordered choice of factors."""
    factors = np.vstack([x.T, np.full(len(x), math.sqrt(offset))])
    choices = itertools.product(range(len(factors)), repeat=degree)
    return np.array([np.prod(factors[list(choice)], axis=0) for choice in choices])


def one_hot(labels: Array, size: int) -> Array:
    """Features (size, n) of a finite space: column i is the unit vector of the label of row i."""
    return np.array([[float(label == row) for label in labels.ravel()] for row in range(size)])
