"""Finite feature maps with their derivatives, and the kernels that they define: rows of points in, features out.

A feature map can stand wherever an operator takes a kernel; work is then done with matrices of the size of the
features where that is cheaper. `phi.kernel(variance)` is its kernel.
"""

import abc
import itertools
import math
import sys
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_count, as_rows, frozen
from decond.errors import ArgumentTypeError
from decond.kernels.kernel import Kernel, Pull, Pullback, difference_rows
from decond.linalg import Factor, cholesky, half_solve_pullback, pivoted_cholesky, with_jitter
from decond.parameters import Gradient, Parametrized, added, below, difference_slopes, parameter, positive

__all__ = ["FeatureKernel", "FeatureMap", "Identity", "Nystrom", "Polynomial", "RandomFourier", "as_kernel"]

Array = NDArray[np.float64]

RowsPull = Callable[[Array], tuple[Gradient, Array]]
"""From the adjoint of features to gradients with respect to parameters, by path, and to the rows."""


class FeatureMap(Parametrized, abc.ABC):
    """A finite-dimensional feature map; rows of points in, rows of features out.

    A subclass gives `transform`, for rows that have been checked. Derivatives are central differences of it unless
    the subclass overrides `_transform_with_pullback`.

    >>> class Powers(FeatureMap):
    ...     def transform(self, a):
    ...         return np.hstack([a, a**2])
    >>> Powers()([[1.0], [3.0]])
    array([[1., 1.],
           [3., 9.]])
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Differentiate features by differences unless their own derivative comes with them."""
        super().__init_subclass__(**options)
        if "transform" in vars(cls) and "_transform_with_pullback" not in vars(cls):
            cls._transform_with_pullback = FeatureMap._transform_with_pullback  # type: ignore[method-assign]

    @abc.abstractmethod
    def transform(self, a: Array) -> Array:
        """Return the features (len(a), p) of checked rows."""

    def __call__(self, a: ArrayLike) -> Array:
        """Return the features (len(a), p)."""
        rows = as_rows(a, "a")
        features = self.transform(rows)
        return features.copy() if features is rows else features

    def kernel(self, variance: float = 1.0) -> "FeatureKernel":
        """Return the kernel ``variance * φ(a)·φ(b)``: linear models in function space."""
        return FeatureKernel(self, variance)

    def pullback(self, rows: Array, adjoint: Array) -> tuple[Gradient, Array]:
        """Return the gradient of ``sum(adjoint * transform(rows))``.

        Parameters
        ----------
        rows : ndarray of shape (n, d)
            Checked rows.
        adjoint : ndarray of shape (n, p)
            The derivative of the objective with respect to each feature of each row.

        Returns
        -------
        parameters : dict
            Slopes by path.
        rows : ndarray of shape (n, d)

        Examples
        --------
        >>> Polynomial(degree=1, offset=4.0).pullback(np.array([[3.0]]), np.array([[1.0, 2.0]]))  # of √offset + 2x
        ({'offset': 0.25}, array([[2.]]))
        """
        return self._transform_with_pullback(rows)[1](adjoint)

    def _transform_with_pullback(self, a: Array) -> tuple[Array, RowsPull]:
        """Return the features and the map from their adjoint to gradients: here by central differences."""

        def _pull(adjoint: Array) -> tuple[Gradient, Array]:
            slopes = difference_slopes(self, lambda features: features.transform(a), adjoint)
            return slopes, difference_rows(self.transform, a, adjoint)

        return self.transform(a), _pull


class FeatureKernel(Kernel):
    """The kernel of a finite feature map, ``variance * φ(a)·φ(b)``.

    Operators and observations notice the features behind it and work with small matrices where that is cheaper.

    >>> FeatureKernel(Identity(), 2.0)([[3.0]], [[4.0]])
    array([[24.]])
    """

    has_variance = True
    features: FeatureMap
    variance: Any = parameter(default=1.0, constraint=positive)

    def _height(self, b: NDArray[Any]) -> int:
        """Return more rows than there are: one product, since blocks would repeat the features of b."""
        return sys.maxsize

    def _gram(self, a: NDArray[Any], b: NDArray[Any]) -> Array:
        return self.variance * (self.features.transform(a) @ self.features.transform(b).T)

    def _gram_with_pullback(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[Array, Pull]:
        phi, pull_a = self.features._transform_with_pullback(a)
        psi, pull_b = self.features._transform_with_pullback(b)
        gram = phi @ psi.T

        def _pull(adjoint: Array, points: bool) -> Pullback:
            slopes_a, a_bar = pull_a(self.variance * adjoint @ psi)
            slopes_b, b_bar = pull_b(self.variance * adjoint.T @ phi)
            slopes = {**below("features", added(slopes_a, slopes_b)), "variance": float(np.vdot(adjoint, gram))}
            return (
                Pullback(slopes, a_bar, b_bar) if points else Pullback(slopes, np.zeros(a.shape), np.zeros(b.shape))
            )

        return self.variance * gram, _pull

    def diagonal(self, a: NDArray[Any]) -> Array:
        """Return scaled squared norms of features."""
        return self.variance * (self.features.transform(a) ** 2).sum(axis=1)

    def rescaled(self, factor: float) -> "FeatureKernel":
        """Return it with its variance multiplied."""
        return self.replace(variance=factor * self.variance)


def as_kernel(value: Kernel | FeatureMap, name: str) -> Kernel:
    """Return a kernel: itself, or the kernel of a feature map.

    Parameters
    ----------
    value : Kernel or FeatureMap
        What the user gave.
    name : str
        The name of the argument, for errors.

    Returns
    -------
    Kernel

    Examples
    --------
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


class Identity(FeatureMap):
    """The points themselves: linear models.

    >>> Identity()([[1.0, 2.0]])
    array([[1., 2.]])
    """

    def transform(self, a: Array) -> Array:
        """Return the points."""
        return a

    def _transform_with_pullback(self, a: Array) -> tuple[Array, RowsPull]:
        return a, lambda adjoint: ({}, adjoint)


class Polynomial(FeatureMap):
    """Monomials with the weights that make φ(a)·φ(b) = (a·b + offset)^degree.

    >>> Polynomial(degree=2, offset=1.0)([[3.0]])
    array([[1.        , 4.24264069, 9.        ]])
    """

    degree: int = 2
    offset: Any = parameter(default=1.0, constraint=positive)

    def __post_init__(self) -> None:
        """Check the degree."""
        as_count(self.degree, "Polynomial: degree")
        super().__post_init__()

    def transform(self, a: Array) -> Array:
        """Return √(multinomial · offset^j₀) Π a_i^j_i for all exponents j that sum to the degree."""
        columns = [self._weight(powers) * np.prod(a ** powers[1:], axis=1) for powers in self._powers(a)]
        return np.stack(columns, axis=1)

    def _transform_with_pullback(self, a: Array) -> tuple[Array, RowsPull]:
        features = self.transform(a)

        def _pull(adjoint: Array) -> tuple[Gradient, Array]:
            powers, a_bar = self._powers(a), np.zeros(a.shape)
            for column, exponents in zip(adjoint.T, powers, strict=True):
                for i, j in enumerate(exponents[1:]):
                    if j:
                        lowered = exponents[1:] - np.eye(a.shape[1], dtype=int)[i]
                        a_bar[:, i] += column * self._weight(exponents) * j * np.prod(a**lowered, axis=1)
            slope = 0.5 * float(((adjoint * features).sum(axis=0) * powers[:, 0]).sum()) / self.offset
            return {"offset": slope}, a_bar

        return features, _pull

    def _weight(self, exponents: NDArray[np.int_]) -> float:
        multinomial = math.factorial(self.degree) / math.prod(math.factorial(j) for j in exponents)
        return math.sqrt(multinomial * self.offset ** int(exponents[0]))

    def _powers(self, a: Array) -> NDArray[np.int_]:
        """Return all rows of whole numbers that sum to the degree, that of the constant first."""
        terms = a.shape[1] + 1
        picks = itertools.combinations_with_replacement(range(terms), self.degree)
        return np.array([np.bincount(pick, minlength=terms) for pick in picks])


class RandomFourier(FeatureMap):
    """Cosines and sines at random frequencies: φ(a)·φ(b) is an unbiased estimate of k(a, b).

    The same seed gives the same frequencies, scaled by the kernel's lengthscale.

    Parameters
    ----------
    base : Kernel
        A stationary kernel.
    n_frequencies : int
        How many frequencies; there are twice as many features.
    seed : int
        The seed of the frequencies.
    orthogonal : bool
        Whether frequencies are orthogonal within blocks, which lowers the variance.

    References
    ----------
    Rahimi and Recht (2007), Random features for large-scale kernel machines, NeurIPS 20.
    Yu et al. (2016), Orthogonal random features, NeurIPS 29.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> phi = RandomFourier(RBF(), n_frequencies=2000, seed=0)
    >>> abs(phi.kernel()([[0.0]], [[1.0]]) - RBF()([[0.0]], [[1.0]])).item() < 0.05
    True
    """

    base: Kernel
    n_frequencies: int = 100
    seed: int = 0
    orthogonal: bool = False

    def __post_init__(self) -> None:
        """Check the number of frequencies."""
        object.__setattr__(self, "base", as_kernel(self.base, "base"))
        as_count(self.n_frequencies, "RandomFourier: n_frequencies")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int | np.integer):
            raise ArgumentTypeError(
                "seed",
                f"RandomFourier: seed is {self.seed!r}; a whole number is needed, so that every call draws the same "
                "frequencies.",
            )
        super().__post_init__()

    def transform(self, a: Array) -> Array:
        """Return √(k(0)/D) [cos(a·w), sin(a·w)]."""
        return self._transform_with_pullback(a)[0]

    def _transform_with_pullback(self, a: Array) -> tuple[Array, RowsPull]:
        rng = np.random.default_rng(self.seed)
        spectrum = self.base.spectrum(self.n_frequencies, a.shape[1], rng, self.orthogonal)
        angle = a @ spectrum.frequencies.T
        features = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
        features *= math.sqrt(spectrum.variance / self.n_frequencies)

        def _pull(adjoint: Array) -> tuple[Gradient, Array]:
            cosine, sine = np.split(features, 2, axis=1)
            cosine_bar, sine_bar = np.split(adjoint, 2, axis=1)
            angle_bar = sine_bar * cosine - cosine_bar * sine
            variance_bar = 0.5 * float(np.vdot(adjoint, features)) / spectrum.variance
            slopes = spectrum.pull(angle_bar.T @ a, variance_bar)
            return below("base", slopes), angle_bar @ spectrum.frequencies

        return features, _pull


class Nystrom(FeatureMap):
    """Features whose inner products equal the kernel, up to a jitter of 1e-10, where one of the points is a landmark.

    `Nystrom.pivoted` chooses landmarks among the rows of a table, greedily, by pivoted Cholesky.

    >>> from decond.kernels import RBF
    >>> phi = Nystrom.pivoted(RBF(), np.linspace(0, 1, 50), n_landmarks=6)
    >>> phi([[0.25]]).shape
    (1, 6)
    """

    base: Kernel
    landmarks: Any

    def __post_init__(self) -> None:
        """Check the landmarks."""
        base = as_kernel(self.base, "base")
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "landmarks", frozen(base.points(self.landmarks, "landmarks")))
        super().__post_init__()

    @classmethod
    def pivoted(cls, kernel: Kernel, x: ArrayLike, n_landmarks: int, tolerance: float = 1e-12) -> Self:
        """Choose landmarks among rows: fewer if they explain all but a negligible part of the variance.

        Parameters
        ----------
        kernel : Kernel
            The kernel that the features stand for.
        x : array_like of shape (n, d)
            Rows to choose from.
        n_landmarks : int
            How many landmarks at most.
        tolerance : float
            The part of the largest variance that may stay unexplained.

        Returns
        -------
        Nystrom
        """
        as_count(n_landmarks, "n_landmarks")
        kernel = as_kernel(kernel, "kernel")
        rows = kernel.points(x, "x")
        pivots, _ = pivoted_cholesky(
            kernel.diagonal(rows), lambda i: kernel.gram(rows, rows[[i]])[:, 0], n_landmarks, tolerance
        )
        return cls(kernel, rows[pivots])

    def transform(self, a: Array) -> Array:
        """Return (R⁻¹ k(landmarks, a))ᵀ with R Rᵀ = k(landmarks, landmarks)."""
        return self._factor().half_solve(self.base.gram(self.landmarks, a)).T

    def _transform_with_pullback(self, a: Array) -> tuple[Array, RowsPull]:
        factor = self._factor()
        cross, pull_cross = self.base.gram_with_pullback(self.landmarks, a)
        white = factor.half_solve(cross)

        def _pull(adjoint: Array) -> tuple[Gradient, Array]:
            cross_bar, gram_bar = half_solve_pullback(factor, white, adjoint.T)
            pulled = pull_cross(cross_bar, True)
            within = self.base.symmetric_pullback(self.landmarks, with_jitter(gram_bar), points=False)
            return below("base", added(pulled.parameters, within.parameters)), pulled.b

        return white.T, _pull

    def _factor(self) -> Factor:
        gram = self.base.gram(self.landmarks, self.landmarks)
        return cholesky(with_jitter(gram), "the Gram matrix of the Nyström landmarks")
