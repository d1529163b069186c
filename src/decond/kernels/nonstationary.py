"""Kernels of the points themselves: linear, polynomial, constant, white, categorical, precomputed."""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decond.checks import as_count, frozen
from decond.errors import ArgumentError, ArgumentTypeError
from decond.kernels.kernel import Kernel, Pull, Pullback
from decond.kernels.stationary import check_columns, shaped_like
from decond.parameters import nonnegative, parameter, positive

__all__ = ["Categorical", "Constant", "Linear", "Polynomial", "Precomputed", "White"]


class Linear(Kernel):
    """Inner product of the points, each column divided by its lengthscale: linear functions through zero.

    With a `center` (one value for each column) they are zero there instead: for data far from the origin.

    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    has_variance = True
    lengthscale: Any = parameter(default=1.0, constraint=positive, per_column=True)
    center: Any = None

    def __post_init__(self) -> None:
        """Check the center too."""
        if self.center is not None:
            center = np.asarray(self.center, dtype=np.float64)
            if center.ndim != 1 or not np.isfinite(center).all():
                raise ArgumentError(
                    "center", f"Linear: center is {self.center!r}; give a flat list, one finite number a column."
                )
            object.__setattr__(self, "center", frozen(center))
        super().__post_init__()

    def _gram(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
        return self._scaled(a) @ self._scaled(b).T

    def _gram_with_pullback(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.float64], Pull]:
        scaled = self._scaled(a), self._scaled(b)
        return scaled[0] @ scaled[1].T, functools.partial(_product_pullback, self, scaled)

    def diagonal(self, a: NDArray[Any]) -> NDArray[np.float64]:
        """Return scaled squared norms."""
        return (self._scaled(a) ** 2).sum(axis=1)

    def rescaled(self, factor: float) -> "Linear":
        """Return it with its lengthscales divided by the root."""
        return self.replace(lengthscale=self.lengthscale / np.sqrt(factor))

    def with_lengthscales(self, scales: NDArray[np.float64]) -> "Linear":
        """Return it at these lengthscales."""
        return self.replace(lengthscale=shaped_like(self.lengthscale, scales))

    def _scaled(self, a: NDArray[Any]) -> NDArray[np.float64]:
        if self.center is not None:
            check_columns(self, "center", self.center, a.shape[1])
            a = a - self.center
        return _scaled_columns(self, a)


class Polynomial(Kernel):
    """Polynomial kernel (a·b + offset)^degree.

    >>> Polynomial(degree=2, offset=1.0)([[1.0]], [[2.0]])
    array([[9.]])
    """

    has_variance = True
    degree: int = 2
    offset: Any = parameter(default=1.0, constraint=nonnegative)
    lengthscale: Any = parameter(default=1.0, constraint=positive, per_column=True)

    def __post_init__(self) -> None:
        """Check the degree too."""
        as_count(self.degree, "Polynomial: degree")
        super().__post_init__()

    def _gram(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
        return (_scaled_columns(self, a) @ _scaled_columns(self, b).T + self.offset) ** self.degree

    def _gram_with_pullback(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.float64], Pull]:
        scaled = _scaled_columns(self, a), _scaled_columns(self, b)
        inner = scaled[0] @ scaled[1].T + self.offset

        def _pull(adjoint: NDArray[np.float64], points: bool) -> Pullback:
            bar = self.degree * inner ** (self.degree - 1) * adjoint
            pulled = _product_pullback(self, scaled, bar, points)
            return pulled._replace(parameters={"offset": float(bar.sum()), **pulled.parameters})

        return inner**self.degree, _pull

    def diagonal(self, a: NDArray[Any]) -> NDArray[np.float64]:
        """Return powers of shifted squared norms."""
        return ((_scaled_columns(self, a) ** 2).sum(axis=1) + self.offset) ** self.degree

    def rescaled(self, factor: float) -> "Polynomial":
        """Return it with lengthscales and offset changed so that the power is multiplied."""
        root = factor ** (1.0 / self.degree)
        return self.replace(lengthscale=self.lengthscale / np.sqrt(root), offset=self.offset * root)

    def with_lengthscales(self, scales: NDArray[np.float64]) -> "Polynomial":
        """Return it at these lengthscales."""
        return self.replace(lengthscale=shaped_like(self.lengthscale, scales))


class Constant(Kernel):
    """The same covariance for every pair: an unknown constant with variance `value`.

    >>> Constant(2.0)([[0.0]], [[5.0]])
    array([[2.]])
    """

    accepts_labels = True
    has_variance = True
    value: Any = parameter(default=1.0, constraint=positive)

    def _gram(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
        return np.full((len(a), len(b)), self.value)

    def _gram_with_pullback(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.float64], Pull]:
        return self._gram(a, b), lambda adjoint, points: _flat(a, b, value=adjoint.sum())

    def diagonal(self, a: NDArray[Any]) -> NDArray[np.float64]:
        """Return a full vector."""
        return np.full(len(a), self.value)

    def rescaled(self, factor: float) -> "Constant":
        """Return it with its value multiplied."""
        return self.replace(value=factor * self.value)


class Categorical(Kernel):
    """One if two points are equal in every column, else zero: for labels such as day, cell or district.

    >>> Categorical()(["mon", "tue"], ["tue"])
    array([[0.],
           [1.]])
    """

    accepts_labels = True

    def _gram(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
        return _equal(a, b).astype(np.float64)

    def _gram_with_pullback(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.float64], Pull]:
        return self._gram(a, b), lambda adjoint, points: _flat(a, b)

    def diagonal(self, a: NDArray[Any]) -> NDArray[np.float64]:
        """Return ones."""
        return np.ones(len(a))


class White(Kernel):
    """Independent noise at every distinct point: `variance` where two points are equal, else zero.

    Like every kernel it is a function of two points, so repeated rows share one draw of the noise.

    >>> White(0.5)([[0.0], [1.0]])
    array([[0.5, 0. ],
           [0. , 0.5]])
    """

    accepts_labels = True
    has_variance = True
    variance: Any = parameter(default=1.0, constraint=positive)

    def _gram(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
        return self.variance * _equal(a, b).astype(np.float64)

    def _gram_with_pullback(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.float64], Pull]:
        same = _equal(a, b)
        return self.variance * same, lambda adjoint, points: _flat(a, b, variance=adjoint[same].sum())

    def diagonal(self, a: NDArray[Any]) -> NDArray[np.float64]:
        """Return the variance."""
        return np.full(len(a), self.variance)

    def rescaled(self, factor: float) -> "White":
        """Return it with its variance multiplied."""
        return self.replace(variance=factor * self.variance)


class Precomputed(Kernel):
    """A Gram matrix that you already have; points are row numbers into it.

    >>> Precomputed([[2.0, 1.0], [1.0, 3.0]])([0, 1], [1])
    array([[1.],
           [3.]])
    """

    matrix: Any

    def __post_init__(self) -> None:
        """Check that the matrix is square, finite and symmetric."""
        matrix = np.asarray(self.matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
            raise ArgumentError(
                "matrix",
                f"Precomputed: matrix has shape {matrix.shape}; a square Gram matrix (n, n) over all points, old "
                "and new, is needed. Points are then row numbers 0 to n - 1.",
            )
        if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T, rtol=1e-8, atol=0.0):
            raise ArgumentError(
                "matrix",
                "Precomputed: matrix is not finite and symmetric, as a Gram matrix is. Check how it was computed, "
                "or average it with its transpose if the difference is rounding.",
            )
        object.__setattr__(self, "matrix", frozen(matrix))

    def _gram(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
        return self.matrix[self._index(a)[:, None], self._index(b)[None, :]]

    def _gram_with_pullback(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.float64], Pull]:
        return self._gram(a, b), lambda adjoint, points: _flat(a, b)

    def diagonal(self, a: NDArray[Any]) -> NDArray[np.float64]:
        """Look the diagonal entries up."""
        index = self._index(a)
        return self.matrix[index, index]

    def _index(self, a: NDArray[Any]) -> NDArray[np.int_]:
        index = a[:, 0].astype(int)
        if a.shape[1] != 1 or np.any(index != a[:, 0]) or index.min() < 0 or index.max() >= len(self.matrix):
            raise ArgumentError(
                "a",
                f"Precomputed: points must be one column of whole row numbers from 0 to {len(self.matrix) - 1}; "
                f"got values from {a.min()} to {a.max()} in {a.shape[1]} column(s).",
            )
        return index


def _scaled_columns(kernel: Linear | Polynomial, a: NDArray[Any]) -> NDArray[np.float64]:
    """Return the points with each column divided by its lengthscale."""
    check_columns(kernel, "lengthscale", kernel.lengthscale, a.shape[1])
    return a / kernel.lengthscale


def _product_pullback(
    kernel: Linear | Polynomial,
    scaled: tuple[NDArray[np.float64], NDArray[np.float64]],
    adjoint: NDArray[np.float64],
    points: bool,
) -> Pullback:
    """Return the gradient of ``sum(adjoint * (a @ b.T))`` for scaled points a and b."""
    a, b = scaled
    a_bar = adjoint @ b
    slope = -2.0 * (a_bar * a).sum(axis=0) / kernel.lengthscale
    parameters = {"lengthscale": slope if np.ndim(kernel.lengthscale) == 1 else float(slope.sum())}
    if not points:
        return Pullback(parameters, np.zeros(a.shape), np.zeros(b.shape))
    return Pullback(parameters, a_bar / kernel.lengthscale, adjoint.T @ a / kernel.lengthscale)


def _flat(a: NDArray[Any], b: NDArray[Any], **parameters: float) -> Pullback:
    """Return the gradient of a kernel that does not change when points move a little."""
    return Pullback(parameters, np.zeros(a.shape), np.zeros(b.shape))


def _equal(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where all columns of two sets of rows are equal, column by column to save memory."""
    _check_comparable(a, b)
    same = a[:, None, 0] == b[None, :, 0]
    for j in range(1, a.shape[1]):
        same = same & (a[:, None, j] == b[None, :, j])
    return same


def _check_comparable(a: NDArray[Any], b: NDArray[Any]) -> None:
    """Raise if one set of labels is numbers and the other text: they would never be equal."""
    for j in range(a.shape[1]):
        texts = [rows.dtype == object and any(isinstance(label, str) for label in rows[:, j]) for rows in (a, b)]
        if texts[0] != texts[1]:
            raise ArgumentTypeError(
                "b",
                f"labels in column {j} are text in one table and numbers in the other, so none would be equal. "
                "Convert both to text, or both to numbers.",
            )
