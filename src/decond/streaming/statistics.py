"""Sums over rows, and what follows from them: all that a model of many rows needs to know of its data.

`Statistics` add up over chunks and tables. `RegressionPosterior` is Bayesian linear regression on them; `summarize`
takes a first look at a table: moments of its targets and a sample of its rows.
"""

import functools
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from decond.errors import ArgumentError
from decond.linalg import add_to_diagonal, cholesky, cholesky_if, multiply
from decond.streaming.sources import Chunk, Source, Table

__all__ = ["RegressionPosterior", "Statistics", "Summary", "deviation", "summarize"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Statistics:
    """WWᵀ, Wz, zᵀz, W1, 1ᵀz and the number of rows, for features W (n, m) of rows and targets z (m, t).

    They are the products of one stack [W; zᵀ; 1ᵀ] with itself, and they add up: the statistics of two tables together
    are the sum of theirs, in any order. Targets are taken about an origin near their mean, so that sums of squares
    keep their digits.

    >>> from decond.kernels import RBF
    >>> from decond.streaming import SparseModel
    >>> model = SparseModel(RBF(), [[0.0]])
    >>> both = model.statistics(Table([[0.0]], [2.0])) + model.statistics(Table([[1.0]], [4.0]))
    >>> both.count, both.means, both.low, both.high
    (2, array([3.]), array([0.]), array([1.]))
    """

    products: Array
    """(n + t + 1, n + t + 1), symmetric up to rounding, of targets less the origin."""
    size: int
    """The number n of features."""
    origin: Array
    """What was subtracted from the targets, (t,)."""
    variance: float = 0.0
    """The sum of k(x, x) over the rows, where features are those of a kernel."""
    low: Array | None = None
    """The least value of each column of the rows; None for labels."""
    high: Array | None = None
    """The largest."""

    def __post_init__(self) -> None:
        """Check that the sizes are those of the arrays, which may come from a file."""
        n = len(self.products)
        if self.products.shape != (n, n) or self.size < 0 or self.origin.shape != (n - self.size - 1,):
            raise ArgumentError("size", f"{self.size} features and {len(self.origin)} targets do not make {n} sums.")

    @classmethod
    def of_stack(cls, stack: Array, origin: Array, rows: NDArray[Any], variance: float = 0.0) -> "Statistics":
        """Return the statistics of a chunk.

        Parameters
        ----------
        stack : ndarray of shape (n + t + 1, b)
            Features, targets less the origin, and ones; columns of zeros may follow.
        origin : ndarray of shape (t,)
            What was subtracted from the targets.
        rows : ndarray of shape (b, d)
            The rows themselves, for the range of their columns.
        variance : float
            The sum of k(x, x) over the rows.

        Returns
        -------
        Statistics
        """
        ends = (rows.min(axis=0), rows.max(axis=0)) if rows.dtype.kind == "f" else (None, None)
        return cls(np.matmul(stack, stack.T), len(stack) - len(origin) - 1, origin, variance, *ends)

    def __add__(self, other: "Statistics") -> "Statistics":
        """Return the statistics of both sets of rows, about the origin of these."""
        if self.products.shape != other.products.shape or self.size != other.size:
            raise ArgumentError(
                "z",
                f"z has {other.targets} column(s) and {other.size} features, but the model has read {self.targets} "
                f"and {self.size}; give the same targets each time.",
            )
        moved = other.standardized(self.origin)
        low, high = (
            None if one is None or two is None else end(one, two)
            for end, one, two in ((np.minimum, self.low, other.low), (np.maximum, self.high, other.high))
        )
        total, variance = self.products + moved.products, self.variance + other.variance
        return replace(self, products=total, variance=variance, low=low, high=high)

    @property
    def targets(self) -> int:
        """The number t of target columns."""
        return len(self.products) - self.size - 1

    @property
    def count(self) -> int:
        """The number m of rows."""
        return round(float(self.products[-1, -1]))

    @property
    def gram(self) -> Array:
        """WWᵀ (n, n)."""
        return self.products[: self.size, : self.size]

    @property
    def cross(self) -> Array:
        """W(z - origin) (n, t)."""
        return self.products[self.size : -1, : self.size].T

    @property
    def squares(self) -> Array:
        """The squared length of each target column less its origin, (t,)."""
        return np.diagonal(self.products)[self.size : -1]

    @property
    def means(self) -> Array:
        """The mean of each target column, (t,)."""
        return self.origin + self.products[-1, self.size : -1] / max(self.count, 1)

    @property
    def residual_variance(self) -> float:
        """The mean over the rows of k(x, x) - wᵀw: the prior variance that the features do not resolve."""
        return max(self.variance - float(np.trace(self.gram)), 0.0) / max(self.count, 1)

    def standardized(self, offset: Array | float = 0.0, scale: Array | float = 1.0) -> "Statistics":
        """Return the statistics of targets (z - offset) / scale, about zero.

        Parameters
        ----------
        offset, scale : float or ndarray of shape (t,)
            One of each for every target column.

        Returns
        -------
        Statistics
        """
        shift, scale = (
            np.broadcast_to(offset, self.origin.shape) - self.origin,
            np.broadcast_to(scale, self.origin.shape),
        )
        full, targets = self.products.copy(), slice(self.size, -1)
        full[targets] = (full[targets] - np.outer(shift, full[-1])) / scale[:, None]
        full[:, targets] = (full[:, targets] - np.outer(full[:, -1], shift)) / scale
        return replace(self, products=full, origin=np.zeros(self.targets))

    def with_features(self, left: Array) -> "Statistics":
        """Return the statistics of features ``left @ W``."""
        full, n = self.products.copy(), self.size
        full[:n] = multiply(left, full[:n])
        full[:, :n] = multiply(full[:, :n], left.T)
        return replace(self, products=full)

    def scaled(self, factor: float) -> "Statistics":
        """Return what they would be with W multiplied by `factor`, and k by its square."""
        full = self.products.copy()
        full[: self.size] *= factor
        full[:, : self.size] *= factor
        return replace(self, products=full, variance=self.variance * factor**2)


@dataclass(frozen=True)
class RegressionSettings:
    """How `RegressionPosterior` takes a root of sums."""

    safe_condition: float = 1e8
    """Condition number of WWᵀ up to which its Cholesky factor is as good as its eigenvectors: 1/√eps."""


class RegressionPosterior:
    """The posterior of the weights w of z = Wᵀw + noise, w ~ N(0, K̃), from statistics (Theorem 5.3, part 4).

    With WWᵀ = FFᵀ the m targets act like r targets q = F⁺Wz with covariance FᵀK̃F + σ²I, and what is left of z is
    noise: the paper's alternative evidence without its non-symmetric matrix, and without a root of K̃.

    Parameters
    ----------
    statistics : Statistics
        Their targets are taken about zero.
    prior : ndarray of shape (n, n)
        K̃, the prior covariance of the weights.
    noise : float
        σ², the variance of the noise.
    settings : RegressionSettings
        Tolerances.
    """

    def __init__(
        self,
        statistics: Statistics,
        prior: Array,
        noise: float,
        settings: RegressionSettings = RegressionSettings(),  # noqa: B008
    ) -> None:
        self.statistics = statistics = statistics.standardized()
        self.prior, self.noise = prior, noise
        self.root, targets = _root(statistics, settings)
        core = multiply(multiply(self.root.T, prior), self.root)
        add_to_diagonal(core, noise)
        self.core = cholesky(core, "FᵀK̃F + σ²I")
        self.coefficients = multiply(self.root, self.core.solve(targets))
        """β = WS⁻¹z (n, t), with S = WᵀK̃W + σ²I."""
        self.mean = multiply(prior, self.coefficients)
        """μ̃ = K̃β, the posterior mean (n, t)."""

    @property
    def misfit(self) -> float:
        """|z - Wᵀμ̃|², summed over target columns."""
        explained = 2.0 * self.statistics.cross - multiply(self.statistics.gram, self.mean)
        return max(float(self.statistics.squares.sum() - (self.mean * explained).sum()), 0.0)

    @property
    def log_evidence(self) -> float:
        """Log p(z) = log N(z; 0, S), summed over target columns."""
        return self.log_density(self.misfit)

    def log_density(self, misfit: float) -> float:
        """Return log N(z; 0, S), given |z - Wᵀμ̃|²: zᵀS⁻¹z is that over σ², plus βᵀK̃β.

        As the smallest value of such a sum it does not feel small errors of β.
        """
        count, targets = self.statistics.count, self.statistics.targets
        log_determinant = self.core.log_determinant + (count - self.core.size) * np.log(self.noise)
        quadratic = misfit / self.noise + (self.coefficients * self.mean).sum()
        return -0.5 * float(quadratic + targets * (log_determinant + count * np.log(2.0 * np.pi)))

    @functools.cached_property
    def prior_adjoint(self) -> Array:
        """The adjoint of K̃: ½(ββᵀ - tB), with B = WS⁻¹Wᵀ."""
        beta = self.coefficients
        return 0.5 * (multiply(beta, beta.T) - self.statistics.targets * self._information)

    @functools.cached_property
    def covariance(self) -> Array:
        """V = K̃ - K̃BK̃, the posterior covariance (n, n)."""
        explained = multiply(self._half, self.prior)
        return self.prior - multiply(explained.T, explained)

    def noise_adjoint(self, misfit: float) -> float:
        """Return the adjoint of σ², given |z - Wᵀμ̃|²: ½(|S⁻¹z|² - t tr S⁻¹).

        By σ²S⁻¹ = I - WᵀK̃WS⁻¹ the trace follows from that of K̃B. Where rows are few that difference would lose its
        digits, and the inverse of the core is taken.
        """
        count, size = self.statistics.count, self.core.size
        if count > 2 * size:
            trace = (count - float((self.prior * self._information).sum())) / self.noise
        else:
            trace = (count - size) / self.noise + self.core.inverse_trace()
        return 0.5 * (misfit / self.noise**2 - self.statistics.targets * trace)

    @functools.cached_property
    def _information(self) -> Array:
        """B = WS⁻¹Wᵀ."""
        return multiply(self._half.T, self._half)

    @functools.cached_property
    def _half(self) -> Array:
        """H with B = HᵀH: the rows of Fᵀ, seen by the root of the core."""
        return self.core.half_solve(np.ascontiguousarray(self.root.T))


def _root(statistics: Statistics, settings: RegressionSettings) -> tuple[Array, Array]:
    """Return F with WWᵀ = FFᵀ, and q = F⁺Wz.

    F is the Cholesky factor where that is safe. Elsewhere it comes from eigenvectors, without those whose eigenvalue
    is rounding: nearly as precise as a QR of all rows, and many times the work.
    """
    gram = statistics.gram
    factor = cholesky_if(gram, settings.safe_condition)
    if factor is not None:
        return factor.lower, factor.half_solve(statistics.cross)
    values, vectors = eigh(gram, driver="evd")
    kept = values > len(values) * np.finfo(float).eps * values[-1]
    kept[-1] = True
    scale = np.sqrt(np.maximum(values[kept], np.finfo(float).tiny))
    return vectors[:, kept] * scale, multiply(vectors[:, kept].T, statistics.cross) / scale[:, None]


class _Chosen(NamedTuple):
    """Some rows of a table, with their numbers in it."""

    positions: NDArray[np.intp]
    rows: NDArray[Any]
    targets: Array


@dataclass(frozen=True, eq=False)
class Summary:
    """What is known of a table after one pass: moments of the targets of all rows, and some rows or all of them.

    >>> one, two = (summarize(Table([[0.0]], [z]), seed=0) for z in (2.0, 6.0))
    >>> (one + two).mean, (one + two).squares
    (array([4.]), array([8.]))
    """

    count: int
    mean: Array
    """The mean of each target column (t,)."""
    squares: Array
    """The sum of squared deviations from it (t,)."""
    chosen: tuple[_Chosen, ...]

    def __add__(self, other: "Summary") -> "Summary":
        count, apart = self.count + other.count, other.mean - self.mean
        mean = self.mean + apart * (other.count / count)
        squares = self.squares + other.squares + apart**2 * (self.count * other.count / count)
        return Summary(count, mean, squares, self.chosen + other.chosen)

    @functools.cached_property
    def sample(self) -> Table:
        """The rows that were chosen, in their order."""
        chosen = self._in_order
        return Table(np.concatenate([one.rows for one in chosen]), np.concatenate([one.targets for one in chosen]))

    @property
    def positions(self) -> NDArray[np.intp]:
        """The number of each of these rows in the whole table."""
        return np.concatenate([one.positions for one in self._in_order])

    @property
    def _in_order(self) -> list[_Chosen]:
        return sorted(self.chosen, key=lambda one: one.positions[0])

    @property
    def complete(self) -> bool:
        """Whether all rows were chosen."""
        return sum(len(one.positions) for one in self.chosen) == self.count

    def mean_squares(self, offset: Array) -> Array:
        """Return the mean of (z - offset)² for each target column."""
        return self.squares / self.count + (self.mean - offset) ** 2

    def standardized(self, offset: Array, scale: Array) -> "Summary":
        """Return the summary of targets (z - offset) / scale.

        Parameters
        ----------
        offset, scale : ndarray of shape (t,)
            One of each for every target column.

        Returns
        -------
        Summary
        """
        chosen = tuple(one._replace(targets=(one.targets - offset) / scale) for one in self.chosen)
        return Summary(self.count, (self.mean - offset) / scale, self.squares / scale**2, chosen)


def summarize(source: Source, seed: int, sample_size: int = 10_000) -> Summary:
    """Look at a table: all of it if it has up to twice `sample_size` rows, else at so many rows at random.

    Parameters
    ----------
    source : Source
        The table; it is read once.
    seed : int
        Which rows are chosen depends on it and on the number of rows, not on where the table lies.
    sample_size : int
        Rows of the sample.

    Returns
    -------
    Summary

    Examples
    --------
    >>> found = summarize(Table([[0.0], [1.0], [2.0]], [1.0, 2.0, 6.0]), seed=0)
    >>> found.mean, found.squares, found.complete
    (array([3.]), array([14.]), True)
    """
    count = len(source)
    if count <= 2 * sample_size:
        return source.total(_SummaryWork(np.arange(count)))
    return source.total(_SummaryWork(np.sort(np.random.default_rng(seed).choice(count, sample_size, replace=False))))


@dataclass(frozen=True, eq=False)
class _SummaryWork:
    """From a chunk of rows to its summary."""

    positions: NDArray[np.intp]

    def __call__(self, chunk: Chunk) -> Summary:
        first, last = np.searchsorted(self.positions, [chunk.start, chunk.start + len(chunk.rows)])
        positions = self.positions[first:last]
        local = positions - chunk.start
        chosen = (_Chosen(positions, chunk.rows[local], chunk.targets[local]),) if len(local) else ()
        mean = chunk.targets.mean(axis=0)
        return Summary(len(chunk.rows), mean, np.square(chunk.targets - mean).sum(axis=0), chosen)


def deviation(mean_square: Array, offset: Array) -> Array:
    """Return the standard deviation of each target column; one if it is nothing but rounding beside the offset.

    Parameters
    ----------
    mean_square : ndarray of shape (t,)
        The mean of (z - offset)².
    offset : ndarray of shape (t,)
        What was subtracted.

    Returns
    -------
    ndarray of shape (t,)

    Examples
    --------
    >>> deviation(np.array([9.0, 1e-30]), offset=np.array([1.0, 1.0]))
    array([3., 1.])
    """
    root = np.sqrt(np.maximum(mean_square, 0.0))
    return np.where(root > 1e-12 * np.maximum(np.abs(offset), 1e-300), root, 1.0)
