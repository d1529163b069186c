"""Kernels of the difference between two points: RBF, Matern, rational quadratic, periodic; lengthscales from data."""

import abc
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist, pdist

from decond.checks import as_rows
from decond.errors import ArgumentError
from decond.kernels.kernel import Kernel, Pull, Pullback, Spectrum, no_gradient
from decond.parameters import Gradient, parameter, positive

__all__ = [
    "RBF",
    "Matern12",
    "Matern32",
    "Matern52",
    "Periodic",
    "RationalQuadratic",
    "Stationary",
    "median_heuristic",
]

Array = NDArray[np.float64]

NEAR = 16.0
"""Distance from the center, in lengthscales, up to which matrix products lose less than three digits of sixteen in
the slope of a lengthscale, and scaled coordinates one in a distance."""

FAR = 1e300
"""Squared distance beyond which points are all as far apart: products with it are finite, and kernels zero."""


class Profile(NamedTuple):
    """A kernel as a function of the squared scaled distance, with its derivatives."""

    values: Array
    slope: Array
    """With respect to the squared distance."""
    own: dict[str, Array] = {}  # noqa: RUF012 - never written to
    """With respect to further parameters, by name."""


class Stationary(Kernel):
    """A kernel of the scaled distance; `lengthscale` is one number or one for each column.

    >>> a, b = [[0.0, 0.0]], [[1.0, 10.0]]  # one lengthscale apart in each column
    >>> [round(kernel([1.0, 10.0])(a, b).item(), 4) for kernel in (RBF, Matern12)]
    [0.3679, 0.2431]
    """

    lengthscale: Any = parameter(default=1.0, constraint=positive, per_column=True)

    def __init_subclass__(cls, **options: Any) -> None:
        """Differentiate a profile by differences unless its own derivative comes with it."""
        super().__init_subclass__(**options)
        if "profile" in vars(cls) and "_differentiated" not in vars(cls):
            cls._differentiated = Stationary._differentiated  # type: ignore[method-assign]

    @abc.abstractmethod
    def profile(self, squared: Array) -> Array:
        """Return the kernel as a function of the squared scaled distance, which may be overwritten; one at zero."""

    def _differentiated(self, squared: Array) -> Profile | None:
        """Return the profile with its derivatives; None if they are to be found by differences."""
        return None

    def _radii(self, chi: Array, rng: np.random.Generator) -> Array:
        """Turn norms of standard normal vectors into norms of spectral frequencies (unit lengthscale)."""
        raise NotImplementedError(f"{type(self).__name__} has no _radii, so that its spectrum cannot be drawn.")

    def _gram(self, a: NDArray[Any], b: NDArray[Any]) -> Array:
        check_columns(self, "lengthscale", self.lengthscale, a.shape[1])
        return self.profile(_squared_distance(a, b, self.lengthscale))

    def _gram_with_pullback(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[Array, Pull]:
        check_columns(self, "lengthscale", self.lengthscale, a.shape[1])
        squared = _squared_distance(a, b, self.lengthscale)
        profile = self._differentiated(squared)
        if profile is None:
            return super()._gram_with_pullback(a, b)

        def _pull(adjoint: Array, points: bool) -> Pullback:
            own = {name: float(np.vdot(adjoint, slope)) for name, slope in profile.own.items()}
            bar = adjoint * profile.slope
            slope, a_bar, b_bar = _distance_pullback(a, b, self.lengthscale, squared, bar, points)
            return Pullback({"lengthscale": slope, **own}, a_bar, b_bar)

        return profile.values, _pull

    def diagonal(self, a: NDArray[Any]) -> Array:
        """Return ones."""
        check_columns(self, "lengthscale", self.lengthscale, a.shape[1])
        return np.ones(len(a))

    def _spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> Spectrum:
        """Draw frequencies: a uniform direction times a radius of this kernel's own law."""
        check_columns(self, "lengthscale", self.lengthscale, dimension)
        directions = _isotropic_directions(n, dimension, rng, orthogonal)
        radii = self._radii(np.sqrt(rng.chisquare(dimension, n)), rng)
        frequencies = directions * radii[:, None] / self.lengthscale

        def _pull(adjoint: Array, variance_bar: float) -> Gradient:
            return {"lengthscale": _lengthscale_slope(-(adjoint * frequencies).sum(axis=0), self.lengthscale)}

        return Spectrum(frequencies, _pull)

    def with_lengthscales(self, scales: Array) -> "Stationary":
        """Return the same kernel at these lengthscales."""
        return self.replace(lengthscale=shaped_like(self.lengthscale, scales))


class RBF(Stationary):
    """Gaussian kernel exp(-r²/2), r the distance divided by the lengthscale.

    >>> RBF(lengthscale=2.0)([[0.0]], [[2.0]]).round(4)
    array([[0.6065]])
    """

    def profile(self, squared: Array) -> Array:
        """Return exp(-r²/2)."""
        return _exp_of_multiple(squared, -0.5)

    def _differentiated(self, squared: Array) -> Profile:
        values = _exp_of_multiple(squared.copy(), -0.5)
        return Profile(values, -0.5 * values)

    def _radii(self, chi: Array, rng: np.random.Generator) -> Array:
        """Return the norms themselves: the spectral law is standard normal."""
        return chi


class _Matern(Stationary):
    """What the Matern kernels share: a spectral law of Student's t with 2ν degrees of freedom."""

    degrees = 1

    def _radii(self, chi: Array, rng: np.random.Generator) -> Array:
        """Divide the norms by the root of a scaled chi-square."""
        return chi / np.sqrt(rng.chisquare(self.degrees, len(chi)) / self.degrees)


class Matern12(_Matern):
    """Exponential kernel exp(-r): rough, continuous functions.

    >>> Matern12()([[0.0]], [[1.0]]).round(4)
    array([[0.3679]])
    """

    degrees = 1

    def profile(self, squared: Array) -> Array:
        """Return exp(-r)."""
        return _exp_of_multiple(np.sqrt(squared, out=squared), -1.0)

    def _differentiated(self, squared: Array) -> Profile:
        """Return also -exp(-r)/(2r), which counts as zero below 1e-8 lengthscales.

        There is no slope at zero, and rows that are equal but for rounding would swamp the gradient with theirs.
        """
        r = np.sqrt(squared)
        values = np.exp(-r)
        return Profile(values, np.divide(-0.5 * values, r, out=np.zeros_like(r), where=squared > 1e-16))


class Matern32(_Matern):
    """Matern kernel (1 + √3 r) exp(-√3 r): functions with one derivative.

    >>> Matern32()([[0.0]], [[1.0]]).round(4)
    array([[0.4834]])
    """

    degrees = 3

    def profile(self, squared: Array) -> Array:
        """Return (1 + √3 r) exp(-√3 r)."""
        return _matern32(squared, squared)[0]

    def _differentiated(self, squared: Array) -> Profile:
        """Return also -3/2 exp(-√3 r)."""
        values, decay = _matern32(squared, np.empty_like(squared))
        decay *= -1.5
        return Profile(values, decay)


class Matern52(_Matern):
    """Matern kernel (1 + √5 r + 5r²/3) exp(-√5 r): functions with two derivatives.

    >>> Matern52()([[0.0]], [[1.0]]).round(4)
    array([[0.524]])
    """

    degrees = 5

    def profile(self, squared: Array) -> Array:
        """Return (1 + √5 r + 5r²/3) exp(-√5 r)."""
        return self._differentiated(squared).values

    def _differentiated(self, squared: Array) -> Profile:
        """Return also -5/6 (1 + √5 r) exp(-√5 r)."""
        r = np.sqrt(5.0 * squared)
        decay = np.exp(-r)
        r += 1.0
        r *= decay
        decay *= (5.0 / 3.0) * squared
        decay += r
        r *= -5.0 / 6.0
        return Profile(decay, r)


class RationalQuadratic(Stationary):
    """Mixture of Gaussian kernels of many lengthscales: (1 + r²/(2 alpha))^(-alpha).

    >>> RationalQuadratic(alpha=1.0)([[0.0]], [[2.0]]).round(4)
    array([[0.3333]])
    """

    alpha: Any = parameter(default=1.0, constraint=positive)

    def profile(self, squared: Array) -> Array:
        """Return (1 + r²/(2 alpha))^(-alpha)."""
        return np.exp(-self.alpha * np.log1p(0.5 * squared / self.alpha))

    def _differentiated(self, squared: Array) -> Profile:
        """Return also the slopes -½ k/(1 + u) and k (u/(1 + u) - log(1 + u)), u = r²/(2 alpha)."""
        u = 0.5 * squared / self.alpha
        logs = np.log1p(u)
        values = np.exp(-self.alpha * logs)
        return Profile(values, -0.5 * values / (1.0 + u), {"alpha": values * (u / (1.0 + u) - logs)})

    def _radii(self, chi: Array, rng: np.random.Generator) -> Array:
        """Multiply the norms by the root of a gamma draw: a Gaussian scale mixture."""
        return chi * np.sqrt(rng.gamma(self.alpha, 1.0 / self.alpha, len(chi)))

    def _spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> Spectrum:
        def _pull(adjoint: Array, variance_bar: float) -> Gradient:
            raise no_gradient(self, "alpha")

        return super()._spectrum(n, dimension, rng, orthogonal)._replace(pull=_pull)


class Periodic(Kernel):
    """Periodic kernel exp(-2 Σ_j sin²(π d_j / period_j) / lengthscale_j²).

    It is the RBF kernel after each column is wound onto a circle, and is computed that way.

    >>> Periodic(period=3.0)([[0.0]], [[3.0]]).round(4)
    array([[1.]])
    """

    lengthscale: Any = parameter(default=1.0, constraint=positive, per_column=True)
    period: Any = parameter(default=1.0, constraint=positive, per_column=True)

    def _gram(self, a: NDArray[Any], b: NDArray[Any]) -> Array:
        origin = b[:1]
        return _exp_of_multiple(cdist(self._wound(a - origin), self._wound(b - origin), "sqeuclidean"), -0.5)

    def _gram_with_pullback(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[Array, Pull]:
        turns = [rows - b[:1] for rows in (a, b)]  # the origin moves all distances by nothing
        circles = [self._wound(rows) for rows in turns]
        gram, pull_circles = RBF()._gram_with_pullback(*circles)

        def _pull(adjoint: Array, points: bool) -> Pullback:
            pulled = pull_circles(adjoint, True)
            found = [self._unwound(*given) for given in zip(turns, circles, pulled[1:], strict=True)]
            (lengthscale_a, turn_a), (lengthscale_b, turn_b) = found
            angles = (turns[0] * turn_a).sum(axis=0) + (turns[1] * turn_b).sum(axis=0)
            parameters = {
                "lengthscale": _lengthscale_slope(lengthscale_a + lengthscale_b, self.lengthscale),
                "period": _lengthscale_slope(-angles, self.period),
            }
            return (
                Pullback(parameters, turn_a, turn_b)
                if points
                else Pullback(parameters, np.zeros(a.shape), np.zeros(b.shape))
            )

        return gram, _pull

    def diagonal(self, a: NDArray[Any]) -> Array:
        """Return ones."""
        return np.ones(len(a))

    def _wound(self, a: Array) -> Array:
        """Map each column to a point on a circle of radius 1/lengthscale."""
        check_columns(self, "lengthscale", self.lengthscale, a.shape[1])
        check_columns(self, "period", self.period, a.shape[1])
        angle = 2.0 * math.pi * a / self.period
        return np.concatenate([np.cos(angle) / self.lengthscale, np.sin(angle) / self.lengthscale], axis=1)

    def _unwound(self, a: Array, circle: Array, circle_bar: Array) -> tuple[Array, Array]:
        """Return l ∂/∂l for each column, and the adjoint of the points, from that of points on the circle."""
        d = a.shape[1]
        cosine, sine, cosine_bar, sine_bar = circle[:, :d], circle[:, d:], circle_bar[:, :d], circle_bar[:, d:]
        turned = (cosine * sine_bar - sine * cosine_bar) * (2.0 * math.pi / self.period)
        return -(cosine * cosine_bar + sine * sine_bar).sum(axis=0), turned

    def _spectrum(self, n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> Spectrum:
        """Draw harmonics of the period: j has probability exp(-1/l²) I_|j|(1/l²) (Jacobi-Anger)."""
        from scipy.special import ive

        check_columns(self, "lengthscale", self.lengthscale, dimension)
        check_columns(self, "period", self.period, dimension)
        concentration = np.broadcast_to(1.0 / np.square(self.lengthscale), dimension)
        harmonics = np.empty((n, dimension))
        for j, c in enumerate(concentration):
            most = 20 + math.ceil(12.0 * math.sqrt(c))  # the others carry a negligible part of the mass
            order = np.arange(-most, most + 1)
            mass = ive(np.abs(order), c)
            harmonics[:, j] = rng.choice(order, size=n, p=mass / mass.sum())

        def _pull(adjoint: Array, variance_bar: float) -> Gradient:
            raise no_gradient(self, "lengthscale")

        return Spectrum(2.0 * math.pi * harmonics / self.period, _pull)


def median_heuristic(x: ArrayLike, *, per_column: bool = False, max_points: int = 1000, seed: int = 0) -> Any:
    """Return the median distance between distinct points.

    Pairs at distance zero (repeated rows) do not count; a column that never changes gets 1.

    Parameters
    ----------
    x : array_like of shape (n, d)
        Points.
    per_column : bool
        Whether each column gets a distance of its own.
    max_points : int
        Of more rows, so many are chosen at random.
    seed : int
        The seed of that choice.

    Returns
    -------
    float or ndarray of shape (d,)

    Examples
    --------
    >>> median_heuristic([[0.0], [1.0], [3.0]])
    2.0
    """
    rows = as_rows(x, "x")
    if len(rows) > max_points:
        rows = rows[np.random.default_rng(seed).choice(len(rows), max_points, replace=False)]
    if per_column:
        return np.array([_median_distance(rows[:, [j]]) for j in range(rows.shape[1])])
    return _median_distance(rows)


def check_columns(kernel: Kernel, name: str, value: float | Array, columns: int) -> None:
    """Raise if a parameter with one value for each column does not fit the points.

    Parameters
    ----------
    kernel : Kernel
        What has the parameter.
    name : str
        The name of the argument, for errors.
    value : float or ndarray of shape (d,)
        Its value.
    columns : int
        The number of columns of the points.
    """
    size = np.size(value)
    if size not in (1, columns):
        raise ArgumentError(
            name,
            f"{type(kernel).__name__}: {name} has {size} values but the points have {columns} column(s). Give one "
            f"value for all columns, or {columns} values, or pick columns with .on([...]).",
        )


def shaped_like(lengthscale: float | Array, scales: Array) -> Any:
    """Return a lengthscale for each column, or their root mean square where one serves for all.

    Parameters
    ----------
    lengthscale : float or ndarray of shape (d,)
        What has the shape.
    scales : ndarray of shape (d,)
        New lengthscales.

    Returns
    -------
    float or ndarray of shape (d,)
    """
    return scales if np.ndim(lengthscale) == 1 else float(np.sqrt(np.mean(np.square(scales))))


def _squared_distance(a: NDArray[Any], b: NDArray[Any], lengthscale: float | Array) -> Array:
    """Return squared scaled distances from differences, so that equal rows are at exactly zero.

    Coordinates are taken from an origin among the points: data far from zero (calendar years, map coordinates)
    lose no digits when they are scaled. Those that range over many lengthscales are scaled after they are subtracted.
    """
    origin = b[:1]
    a, b = a - origin, b - origin
    left, right = a / lengthscale, b / lengthscale
    if _reach(left, right) < NEAR:
        return cdist(left, right, "sqeuclidean")
    far = cdist(a, b, "sqeuclidean", w=np.broadcast_to(np.square(lengthscale) ** -1.0, a.shape[1]))
    return np.minimum(far, FAR, out=far)


def _reach(left: Array, right: Array) -> float:
    """Return the largest absolute coordinate."""
    return max(float(np.abs(rows).max(initial=0.0)) for rows in (left, right))


def _distance_pullback(
    a: Array, b: Array, lengthscale: float | Array, squared: Array, bar: Array, points: bool
) -> tuple[Any, Array, Array]:
    """Return the gradient of ``sum(bar * squared)`` with respect to lengthscale, a and b.

    That of one lengthscale comes from the distances, -2/l Σ D∘(Δ/l)² for an adjoint D, so neither repeated rows nor
    data that range over many lengthscales cost digits. Those of the points come from matrix products,
    2(r∘a - D b)/l² with r the row sums of D, in coordinates about a common center. So do those of one lengthscale a
    column within `NEAR` lengthscales of the center; beyond it they come from differences.
    """
    single = np.size(lengthscale) == 1
    if single and not points:
        slope = _lengthscale_slope(np.array([-2.0 * np.vdot(bar, squared)]), lengthscale)
        return slope, np.zeros(a.shape), np.zeros(b.shape)
    center = a.mean(axis=0)
    left, right = (a - center) / lengthscale, (b - center) / lengthscale
    first, row_sums = _products_and_sums(bar, right)
    second, column_sums = _products_and_sums(bar.T, left)
    if single:
        spread = np.array([np.vdot(bar, squared)])
    elif _reach(left, right) < NEAR:
        spread = ((row_sums * left - 2.0 * first) * left).sum(axis=0) + (column_sums * right**2).sum(axis=0)
    else:
        pairs = zip(a.T, b.T, strict=True)
        spread = np.array([np.vdot(bar, np.square(one[:, None] - other)) for one, other in pairs]) / lengthscale**2
    slope = _lengthscale_slope(-2.0 * spread, lengthscale)
    if not points:
        return slope, np.zeros(a.shape), np.zeros(b.shape)
    a_bar = 2.0 * (row_sums * left - first) / lengthscale
    return slope, a_bar, 2.0 * (column_sums * right - second) / lengthscale


def _products_and_sums(bar: Array, rows: Array) -> tuple[Array, Array]:
    """Return bar @ rows and the sums of the rows of bar (n, 1), in one product."""
    products = bar @ np.column_stack([rows, np.ones(len(rows))])
    return products[:, :-1], products[:, -1:]


def _lengthscale_slope(slopes: Array, lengthscale: float | Array) -> Any:
    """Return slopes for lengthscales, in their shape, from l ∂/∂l for each column."""
    if np.ndim(lengthscale) == 0:
        return float(slopes.sum()) / lengthscale
    return (slopes if np.size(lengthscale) == len(slopes) else slopes.sum(keepdims=True)) / lengthscale


def _matern32(squared: Array, out: Array) -> tuple[Array, Array]:
    """Return (1 + √3 r) exp(-√3 r), in the memory of `out`, and exp(-√3 r)."""
    r = np.sqrt(np.multiply(squared, 3.0, out=out), out=out)
    decay = np.negative(r)
    np.exp(decay, out=decay)
    r += 1.0
    r *= decay
    return r, decay


def _exp_of_multiple(values: Array, factor: float) -> Array:
    """Return exp(factor * values) in the memory of the values, to save two passes through it."""
    values *= factor
    return np.exp(values, out=values)


def _isotropic_directions(n: int, dimension: int, rng: np.random.Generator, orthogonal: bool) -> Array:
    """Return n unit vectors, uniform on the sphere; orthogonal within each block of `dimension` if asked."""
    if not orthogonal:
        normal = rng.standard_normal((n, dimension))
        return normal / np.linalg.norm(normal, axis=1, keepdims=True)
    blocks = rng.standard_normal((math.ceil(n / dimension), dimension, dimension))
    q, r = np.linalg.qr(blocks)
    uniform = q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]  # the signs make q uniform (Haar)
    return np.swapaxes(uniform, 1, 2).reshape(-1, dimension)[:n]


def _median_distance(rows: Array) -> float:
    distances = pdist(rows)
    apart = distances[distances > 0]
    return float(np.median(apart)) if apart.size else 1.0
