"""What every kernel can do: Gram matrices and their derivatives, diagonals, products, composition with + * **."""

import abc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_rows, as_values
from decond.errors import ArgumentError, ArgumentTypeError
from decond.parameters import Gradient, Parametrized, added, difference_slopes
from decond.threads import one_blas_thread

__all__ = ["Kernel", "Pull", "Pullback", "Spectrum"]

BLOCK_ENTRIES = 2**17
"""Entries of a Gram matrix that are computed at a time, so that intermediate results stay in cache (1 MB)."""


class Pullback(NamedTuple):
    """Gradients with respect to the parameters of a kernel, by path, and to both sets of points.

    >>> from decond.kernels import Linear
    >>> a, b = np.array([[2.0]]), np.array([[3.0]])
    >>> pulled = Linear().pullback(a, b, np.ones((1, 1)))  # of a·b
    >>> pulled.a, pulled.b
    (array([[3.]]), array([[2.]]))
    """

    parameters: Gradient
    a: NDArray[np.float64]
    b: NDArray[np.float64]


Pull = Callable[[NDArray[np.float64], bool], Pullback]
"""From the adjoint of a Gram matrix, and whether points are wanted, to gradients; without points theirs are zero."""


class Kernel(Parametrized, abc.ABC):
    """A positive definite function of two points.

    A subclass gives `_gram` and `diagonal`, for rows that have been checked. Calling the kernel checks its arguments
    first. Derivatives are central differences of `_gram` unless the subclass overrides `_gram_with_pullback`.

    >>> class Brownian(Kernel):
    ...     def _gram(self, a, b):
    ...         return np.minimum(a, b.T)
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

    def __init_subclass__(cls, **options: Any) -> None:
        """Differentiate a Gram matrix by differences unless its own derivative comes with it."""
        super().__init_subclass__(**options)
        if "_gram" in vars(cls) and "_gram_with_pullback" not in vars(cls):
            cls._gram_with_pullback = Kernel._gram_with_pullback  # type: ignore[method-assign]

    @abc.abstractmethod
    def _gram(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
        """Return the Gram matrix (len(a), len(b)) of checked rows."""

    @abc.abstractmethod
    def diagonal(self, a: NDArray[Any]) -> NDArray[np.float64]:
        """Return k(a_i, a_i) for checked rows, shape (len(a),)."""

    def __call__(self, a: ArrayLike, b: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the Gram matrix (len(a), len(b)); `b` defaults to `a`."""
        a = self.points(a, "a")
        b = a if b is None else self.points(b, "b")
        _check_same_columns(a, b)
        return self.gram(a, b)

    def diag(self, a: ArrayLike) -> NDArray[np.float64]:
        """Return the diagonal of the Gram matrix of `a` with itself, without forming it."""
        return self.diagonal(self.points(a, "a"))

    def gram(self, a: NDArray[Any], b: NDArray[Any], out: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the Gram matrix of checked rows, a block of rows at a time.

        Parameters
        ----------
        a : ndarray of shape (n, d)
            Points, as `points` returns them.
        b : ndarray of shape (m, d)
            Other points.
        out : ndarray of shape (n, m), optional
            Where to write the result.

        Returns
        -------
        ndarray of shape (n, m)
        """
        height = self._height(b)
        if len(a) <= height and out is None:
            return self._gram(a, b)
        gram = np.empty((len(a), len(b))) if out is None else out
        for start in range(0, len(a), height):
            gram[start : start + height] = self._gram(a[start : start + height], b)
        return gram

    def gram_with_pullback(
        self, a: NDArray[Any], b: NDArray[Any], out: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[np.float64], Pull]:
        """Return the Gram matrix and the map from its adjoint to gradients.

        The adjoint of a matrix K is the derivative of a scalar objective with respect to each of its entries; the
        gradients are those of ``sum(adjoint * K)``. The map takes the adjoint, and whether gradients with respect to
        the points are wanted.

        Parameters
        ----------
        a : ndarray of shape (n, d)
            Points, as `points` returns them.
        b : ndarray of shape (m, d)
            Other points.
        out : ndarray of shape (n, m), optional
            Where to write the Gram matrix.

        Returns
        -------
        gram : ndarray of shape (n, m)
        pull : callable
            From (adjoint, points) to a `Pullback`.
        """
        height = self._height(b)
        if len(a) <= height and out is None:
            return self._gram_with_pullback(a, b)
        blocks = [slice(start, min(start + height, len(a))) for start in range(0, len(a), height)]
        gram, pulls = np.empty((len(a), len(b))) if out is None else out, []
        for rows in blocks:
            gram[rows], pull = self._gram_with_pullback(a[rows], b)
            pulls.append(pull)

        def _pull_all(adjoint: NDArray[np.float64], points: bool) -> Pullback:
            total = _Total(a, b)
            for rows, pull in zip(blocks, pulls, strict=True):
                total.add(pull(adjoint[rows], points), rows, slice(None))
            return total.pullback

        return gram, _pull_all

    def pullback(
        self, a: NDArray[Any], b: NDArray[Any], adjoint: NDArray[np.float64], *, points: bool = True
    ) -> Pullback:
        """Return the gradient of ``sum(adjoint * gram(a, b))``.

        Parameters
        ----------
        a : ndarray of shape (n, d)
            Points, as `points` returns them.
        b : ndarray of shape (m, d)
            Other points.
        adjoint : ndarray of shape (n, m)
            The derivative of the objective with respect to each entry of the Gram matrix.
        points : bool
            Whether gradients with respect to the points are wanted; otherwise they are zero.

        Returns
        -------
        Pullback

        Examples
        --------
        >>> from decond.kernels import RBF
        >>> pulled = RBF(1.0).pullback(np.array([[0.0]]), np.array([[1.0]]), np.ones((1, 1)))
        >>> round(float(pulled.parameters["lengthscale"]), 4)  # d/dl exp(-1/2l²) at l = 1 is exp(-1/2)
        0.6065
        """
        total, height = _Total(a, b), self._height(b)
        with one_blas_thread():
            for start in range(0, len(a), height):
                rows = slice(start, min(start + height, len(a)))
                _, pull = self._gram_with_pullback(a[rows], b)
                total.add(pull(adjoint[rows], points), rows, slice(None))
        return total.pullback

    def symmetric_pullback(self, a: NDArray[Any], adjoint: NDArray[np.float64], *, points: bool = True) -> Pullback:
        """Return the gradient of ``sum(adjoint * gram(a, a))`` for a symmetric adjoint.

        Both sets of points are `a`, so the gradient with respect to it is the sum of the two that are returned.

        Parameters
        ----------
        a : ndarray of shape (n, d)
            Points, as `points` returns them.
        adjoint : ndarray of shape (n, n)
            A symmetric matrix, of which only the lower triangle is read.
        points : bool
            Whether gradients with respect to the points are wanted; otherwise they are zero.

        Returns
        -------
        Pullback

        Examples
        --------
        >>> from decond.kernels import Linear
        >>> pulled = Linear().symmetric_pullback(np.array([[3.0]]), np.ones((1, 1)))
        >>> pulled.a + pulled.b  # of a²
        array([[6.]])
        """
        total, start = _Total(a, a), 0
        with one_blas_thread():
            while start < len(a):
                stop = min(len(a), start + max(16, BLOCK_ENTRIES // (start + 256)))
                rows, columns = slice(start, stop), slice(0, stop)
                bar = 2.0 * adjoint[rows, columns]
                bar[:, start:] = np.tril(bar[:, start:])
                bar[np.arange(stop - start), np.arange(start, stop)] *= 0.5
                _, pull = self._gram_with_pullback(a[rows], a[columns])
                total.add(pull(bar, points), rows, columns)
                start = stop
        return total.pullback

    def _gram_with_pullback(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.float64], Pull]:
        """Return the Gram matrix of one block and its pullback: here by central differences."""

        def _pull(adjoint: NDArray[np.float64], points: bool) -> Pullback:
            parameters = difference_slopes(self, lambda kernel: kernel._gram(a, b), adjoint)
            if not points:
                return Pullback(parameters, np.zeros(a.shape), np.zeros(b.shape))
            a_bar = difference_rows(lambda moved: self._gram(moved, b), a, adjoint)
            return Pullback(parameters, a_bar, difference_rows(lambda moved: self._gram(a, moved).T, b, adjoint.T))

        return self._gram(a, b), _pull

    def _height(self, b: NDArray[Any]) -> int:
        """Return how many rows of a make a block with these rows b."""
        return max(1, BLOCK_ENTRIES // max(1, len(b)))

    def matmul(self, a: ArrayLike, b: ArrayLike, v: ArrayLike, block_entries: int = 4_000_000) -> NDArray[np.float64]:
        """Return ``k(a, b) @ v``, never holding the whole Gram matrix.

        Parameters
        ----------
        a : array_like of shape (n, d)
            Points.
        b : array_like of shape (m, d)
            Other points.
        v : array_like of shape (m,) or (m, t)
            What the Gram matrix is multiplied with.
        block_entries : int
            Entries of the Gram matrix that are held at a time; by default 32 MB of them.

        Returns
        -------
        ndarray of shape (n,) or (n, t)
        """
        a, b = self.points(a, "a"), self.points(b, "b")
        _check_same_columns(a, b)
        v = as_values(v, "v", len(b), "b")
        rows = max(1, block_entries // len(b))
        return np.concatenate([self.gram(a[start : start + rows], b) @ v for start in range(0, len(a), rows)])

    def points(self, value: ArrayLike, name: str) -> NDArray[Any]:
        """Return rows of points that this kernel accepts, checked.

        Parameters
        ----------
        value : array_like of shape (n, d) or (n,)
            What the user gave.
        name : str
            The name of the argument, for errors.

        Returns
        -------
        ndarray of shape (n, d)
        """
        return as_rows(value, name, labels=self.accepts_labels)

    def on(self, columns: int | Sequence[int]) -> "Kernel":
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

    def with_lengthscales(self, scales: NDArray[np.float64]) -> "Kernel":
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
        """Draw frequencies from the kernel's spectral measure (Bochner); stationary kernels only.

        Parameters
        ----------
        n : int
            How many frequencies.
        dimension : int
            The number of columns of the points.
        rng : numpy.random.Generator
            The source of randomness.
        orthogonal : bool
            Whether directions are orthogonal within each block of `dimension` frequencies.

        Returns
        -------
        Spectrum
        """
        return self._spectrum(n, dimension, rng, orthogonal)

    def _spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> "Spectrum":
        raise ArgumentTypeError(
            "base",
            f"{type(self).__name__} is not stationary, so it has no spectral measure to sample. Use features "
            "of another kind, for example features.Nystrom.",
        )


class Spectrum(NamedTuple):
    """Frequencies of a stationary kernel and its variance k(0): k(r) = variance * E[cos(w.r)]."""

    frequencies: NDArray[np.float64]
    """Shape (n, d)."""
    pull: Callable[[NDArray[np.float64], float], Gradient]
    """From the adjoints of frequencies and variance to gradients by path; raises where a draw has none."""
    variance: float = 1.0
    learned: bool = False
    """Whether the variance depends on parameters."""


def no_gradient(kernel: Kernel, name: str) -> ArgumentTypeError:
    """Return the error for a parameter that frequencies are drawn at.

    Parameters
    ----------
    kernel : Kernel
        What has no gradient.
    name : str
        The parameter.

    Returns
    -------
    ArgumentTypeError
    """
    return ArgumentTypeError(
        "kernel",
        f"random frequencies of {type(kernel).__name__} are drawn at its {name}, so they have no gradient with "
        "respect to it. Use features.Nystrom, or Fourier features of RBF or Matern kernels.",
    )


def difference_rows(
    function: Callable[[NDArray[Any]], NDArray[np.float64]], rows: NDArray[Any], adjoint: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the gradient of ``sum(adjoint * function(rows))`` where each row of the result depends on its own only.

    One central difference a column serves all rows; columns of labels have no gradient.

    Parameters
    ----------
    function : callable
        From rows to an array with a row for each.
    rows : ndarray of shape (n, d)
        Where to differentiate.
    adjoint : ndarray of shape (n, m)
        The derivative of the objective with respect to each entry of the array.

    Returns
    -------
    ndarray of shape (n, d)
    """
    gradient = np.zeros(rows.shape)
    if rows.dtype.kind != "f":
        return gradient
    for j, column in enumerate(rows.T):
        step = np.cbrt(np.finfo(float).eps) * (float(column.std()) or 1.0)
        ends = []
        for sign in (1.0, -1.0):
            moved = rows.copy()
            moved[:, j] += sign * step
            ends.append((moved[:, j], function(moved)))
        (upper, above), (lower, below) = ends
        gradient[:, j] = (adjoint * (above - below)).sum(axis=1) / (upper - lower)
    return gradient


class _Total:
    """The sum of the pullbacks of blocks."""

    def __init__(self, a: NDArray[Any], b: NDArray[Any]) -> None:
        self.pullback = Pullback({}, np.zeros(a.shape), np.zeros(b.shape))

    def add(self, part: Pullback, rows: slice, columns: slice) -> None:
        """Add the pullback of a block.

        Parameters
        ----------
        part : Pullback
            That of the block.
        rows : slice
            Which rows of a it is about.
        columns : slice
            Which rows of b it is about.
        """
        self.pullback.a[rows] += part.a
        self.pullback.b[columns] += part.b
        self.pullback.parameters.update(added(part.parameters, self.pullback.parameters))


def _check_same_columns(a: NDArray[Any], b: NDArray[Any]) -> None:
    if a.shape[1] != b.shape[1]:
        raise ArgumentError(
            "b",
            f"a has {a.shape[1]} columns but b has {b.shape[1]}; a kernel compares points of the same kind. Give "
            "both the same columns, in the same order.",
        )
