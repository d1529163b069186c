"""The two kinds of data behind the theorem tests: a small continuous sample, and finite tables of counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import oracle_kernels
import oracles
import pytest
from numpy.typing import NDArray

from decond import kernels

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """Pairs (x, y), prior or task points with their targets, queries, and the kernels that see them."""

    x: Array
    y: Array
    y_tilde: Array
    z: Array
    x_star: Array
    y_star: Array
    lengthscale_x: float = 0.8
    lengthscale_y: float = 1.3

    @property
    def kernel_x(self) -> kernels.RBF:
        return kernels.RBF(lengthscale=self.lengthscale_x)

    @property
    def kernel_y(self) -> kernels.Matern52:
        return kernels.Matern52(lengthscale=self.lengthscale_y)

    def k(self, a: Array, b: Array) -> Array:
        return oracle_kernels.rbf(a, b, self.lengthscale_x)

    def ell(self, a: Array, b: Array) -> Array:
        return oracle_kernels.matern52(a, b, self.lengthscale_y)

    @property
    def n(self) -> int:
        return len(self.x)

    @property
    def m(self) -> int:
        return len(self.y_tilde)

    @property
    def K(self) -> Array:
        return self.k(self.x, self.x)

    @property
    def k_star(self) -> Array:
        return self.k(self.x, self.x_star)

    def A(self, lam: float) -> Array:
        return oracles.transformation(self.ell(self.y, self.y), self.ell(self.y, self.y_tilde), lam)


@pytest.fixture(scope="session")
def sample() -> Sample:
    """Seven pairs, nine prior points, two columns of x: small enough for explicit inverses."""
    random = np.random.default_rng(7)
    y = np.linspace(-2.0, 2.0, 7)[:, None] + 0.1 * random.standard_normal((7, 1))
    x = np.hstack([np.sin(y), y**2 - 1.0]) + 0.3 * random.standard_normal((7, 2))
    y_tilde = random.uniform(-2.0, 2.0, (9, 1))
    z = np.cos(2.0 * y_tilde[:, 0]) + 0.2 * random.standard_normal(9)
    return Sample(x, y, y_tilde, z, random.standard_normal((5, 2)), random.uniform(-2.0, 2.0, (4, 1)))


@dataclass(frozen=True)
class Table:
    """A finite joint distribution given by counts: on one-hot features its population operators are matrices.

    The sample that repeats each cell by its count has exactly this distribution, so that the categorical
    kernel makes empirical operators equal to the (regularized) population ones.
    """

    counts: NDArray[np.int64]

    @property
    def x(self) -> Array:
        return self._repeat(0)

    @property
    def y(self) -> Array:
        return self._repeat(1)

    def _repeat(self, axis: int) -> Array:
        return np.repeat(np.indices(self.counts.shape)[axis].ravel(), self.counts.ravel())[:, None].astype(float)

    @property
    def x_values(self) -> Array:
        return np.arange(float(self.counts.shape[0]))[:, None]

    @property
    def y_values(self) -> Array:
        return np.arange(float(self.counts.shape[1]))[:, None]

    @property
    def Phi(self) -> Array:
        return oracle_kernels.one_hot(self.x, self.counts.shape[0])

    @property
    def Psi(self) -> Array:
        return oracle_kernels.one_hot(self.y, self.counts.shape[1])

    @property
    def joint(self) -> Array:
        return self.counts / self.counts.sum()

    @property
    def x_given_y(self) -> Array:
        """Column j is the distribution of X given the j-th value of Y."""
        return self.joint / self.joint.sum(0)

    @property
    def y_given_x(self) -> Array:
        """Column i is the distribution of Y given the i-th value of X."""
        return (self.joint / self.joint.sum(1)[:, None]).T


@pytest.fixture(scope="session")
def table() -> Callable[[list[list[int]]], Table]:
    """Make a finite joint distribution from counts: rows are values of X, columns values of Y."""
    return lambda counts: Table(np.array(counts))


@pytest.fixture(scope="session")
def wide(table) -> Table:
    """A noisy table with three values of X and four of Y, where every population inverse exists."""
    return table([[4, 1, 1, 2], [1, 5, 2, 1], [1, 2, 6, 3]])
