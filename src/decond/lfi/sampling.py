"""Tempered sequential Monte Carlo with differential-evolution moves, bounded in time and in evaluations."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from decond.errors import ArgumentError

__all__ = [
    "TemperedCloud",
    "TemperingSettings",
    "effective_sample_size",
    "more_draws",
    "resampled_rows",
    "temper",
]

LogDensity = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""A function of rows (n, d) that returns (n,) log densities; minus infinity where there is no mass."""


@dataclass(frozen=True)
class TemperingSettings:
    """How particles are tempered and moved."""

    kept_effective: float = 0.5
    """Share of the particles that each temperature keeps effective, the convention of sequential Monte Carlo."""

    step: float = 2.38
    """Optimal step for a Gaussian, in standard deviations over √dimension (Roberts, Gelman and Gilks 1997)."""

    step_scales: tuple[float, ...] = (1.0, 0.5, 0.2, 0.08)
    """Multiples of that step: long ones travel, short ones follow thin, curved ridges (tuned on half circles)."""

    moving_shares: tuple[float, ...] = (1.0, 1.0, 0.5, 0.2)
    """Shares of the coordinates that a step changes, as in DREAM (Vrugt et al. 2009)."""

    jump: float = 0.15
    """Share of moves by a whole difference, from mode to mode (ter Braak 2006 takes a tenth)."""

    snooker: float = 0.1
    """Share of moves along a line through another particle (ter Braak and Vrugt 2008)."""

    most_sweeps: int = 25
    """Sweeps at a temperature after which particles stay where they are."""

    max_evaluations: int = 2_000_000
    """Evaluations of the likelihood after which no new move begins (a minute of a cheap one)."""


@dataclass(frozen=True)
class TemperedCloud:
    """Particles of the density ∝ prior · likelihood^power, and what it took to get them.

    Attributes
    ----------
    particles
        Equally weighted draws (n, d).
    power
        The power of the likelihood.
    log_evidence
        Logarithm of the integral of likelihood^power under the prior.
    acceptance
        Share of accepted moves at the last temperature.
    temperatures
        The powers that were visited on the way.
    evaluations
        Rows at which the likelihood was evaluated.
    finished
        False if time or evaluations ran out; the particles are then reweighted but little moved.
    """

    particles: NDArray[np.float64]
    power: float
    log_evidence: float
    acceptance: float
    temperatures: tuple[float, ...]
    evaluations: int
    finished: bool
    log_prior: LogDensity
    log_likelihood: LogDensity
    settings: TemperingSettings

    def draw(self, n: int, rng: np.random.Generator, *, time_limit: float = 60.0) -> NDArray[np.float64]:
        """Return draws: the particles replicated, and moved until each has left its origin several times.

        Parameters
        ----------
        n : int
            How many.
        rng : numpy.random.Generator
            The source of all randomness.
        time_limit : float
            Seconds after which no new move begins.

        Returns
        -------
        ndarray of shape (n, d)
        """
        functions = self.log_prior, self.log_likelihood
        return more_draws(*functions, self.particles, self.power, n, rng, time_limit, self.settings)


def temper(
    log_prior: LogDensity,
    log_likelihood: LogDensity,
    start: NDArray[np.float64],
    rng: np.random.Generator,
    *,
    powers: Sequence[float] = (1.0,),
    time_limit: float = 60.0,
    settings: TemperingSettings | None = None,
) -> list[TemperedCloud]:
    """Return particles of the densities ∝ prior · likelihood^power, one cloud for each of the rising `powers`.

    The particles start as draws from the prior and pass through temperatures 0 = β₀ < β₁ < …, each chosen so that the
    weights exp((β_{t+1} − β_t) log likelihood) keep half of the particles effective. After each resampling they move
    by differential evolution: half of them step along differences of the other half (in all or some of the
    coordinates, with four lengths of step), jump by a whole difference (from mode to mode), or step along the line
    through another particle (snooker). Every move is accepted by Metropolis' rule, so the density is kept.

    Parameters
    ----------
    log_prior : callable
        Log density of the prior at rows (n, d), minus infinity outside its support.
    log_likelihood : callable
        Log likelihood; called only at rows inside the support.
    start : ndarray of shape (particles, d)
        Draws from the prior.
    rng : numpy.random.Generator
        The source of all randomness.
    powers : sequence of float
        Powers of the likelihood at which clouds are kept, rising.
    time_limit : float
        Seconds after which no new move begins.
    settings : TemperingSettings, optional
        How particles are tempered and moved.

    Returns
    -------
    list of TemperedCloud

    References
    ----------
    Del Moral, Doucet and Jasra (2006), Sequential Monte Carlo samplers. doi:10.1111/j.1467-9868.2006.00553.x
    ter Braak and Vrugt (2008), Differential evolution with snooker updater. doi:10.1007/s11222-008-9104-9

    Examples
    --------
    >>> def log_prior(x):
    ...     return np.where(np.abs(x[:, 0]) < 5, -np.log(10), -np.inf)
    >>> rng = np.random.default_rng(0)
    >>> [cloud] = temper(log_prior, lambda x: -0.5 * x[:, 0] ** 2, rng.uniform(-5, 5, (1000, 1)), rng)
    >>> (
    ...     bool(abs(cloud.particles.std() - 1) < 0.1),
    ...     bool(abs(cloud.log_evidence - np.log(np.sqrt(2 * np.pi) / 10)) < 0.2),
    ... )
    (True, True)
    """
    settings = settings or TemperingSettings()
    mover = _Mover(log_prior, log_likelihood, np.array(start, dtype=np.float64), rng, time_limit, settings)
    log_evidence, visited, acceptance, clouds = 0.0, [0.0], 0.0, []
    for power in powers:
        while visited[-1] < power:
            longest = power - visited[-1]
            step = _next_step(mover.likelihood, longest, settings.kept_effective) if mover.may_go_on() else longest
            log_weights = step * mover.likelihood
            log_evidence += float(logsumexp(log_weights) - np.log(len(log_weights)))
            visited.append(power if step == longest else visited[-1] + step)
            mover._resample(log_weights, len(log_weights))
            acceptance = mover._move(visited[-1], _moves(mover.points.shape[1]))
        seen = (mover.points.copy(), power, log_evidence, acceptance, tuple(visited), mover.evaluations)
        clouds.append(TemperedCloud(*seen, mover.may_go_on(), log_prior, log_likelihood, settings))
    return clouds


def more_draws(
    log_prior: LogDensity,
    log_likelihood: LogDensity,
    particles: NDArray[np.float64],
    power: float,
    n: int,
    rng: np.random.Generator,
    time_limit: float = 60.0,
    settings: TemperingSettings | None = None,
) -> NDArray[np.float64]:
    """Return draws: particles replicated, and moved until each has left its origin several times.

    Parameters
    ----------
    log_prior, log_likelihood : callable
        Log densities at rows, as `temper` takes them.
    particles : ndarray of shape (particles, d)
        Draws of prior · likelihood^power.
    power : float
        The power of the likelihood.
    n : int
        How many draws.
    rng : numpy.random.Generator
        The source of all randomness.
    time_limit : float
        Seconds after which no new move begins.
    settings : TemperingSettings, optional
        How particles are moved.

    Returns
    -------
    ndarray of shape (n, d)
    """
    mover = _Mover(log_prior, log_likelihood, particles, rng, time_limit, settings or TemperingSettings())
    mover._resample(np.zeros(len(particles)), n)
    mover._move(power, 2.0 * _moves(particles.shape[1]))
    return mover.points


def _moves(dimension: int) -> float:
    """Return how many accepted moves each particle makes at a temperature: more in more dimensions."""
    return max(3.0, 0.7 * dimension)


def _next_step(log_likelihood: NDArray[np.float64], longest: float, kept: float) -> float:
    """Return the longest step in temperature that keeps the asked share of the particles effective."""
    wanted = kept * min(len(log_likelihood), max(1, np.isfinite(log_likelihood).sum()))

    def keeps(step: float) -> bool:
        return effective_sample_size(_relative(step * log_likelihood)) >= wanted

    if keeps(longest):
        return longest
    found = _halved(keeps, 0.0, longest)
    if found > 0.0:
        return found
    logarithm = np.log(longest)  # the likelihood spans too many powers of ten
    return float(np.exp(_halved(lambda step: keeps(np.exp(step)), logarithm - 500.0, logarithm, 60)))


def _halved(holds: Callable[[float], bool], low: float, high: float, n: int = 50) -> float:
    """Return the largest number between two at which a condition holds, to one part in 2ⁿ of their distance."""
    for _ in range(n):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def effective_sample_size(weights: NDArray[np.float64]) -> float:
    """Return how many equal weights would be worth as much as these: (Σ|w|)² / Σw², 0 if all are zero.

    >>> effective_sample_size(np.array([1.0, 1.0, 0.0]))
    2.0
    """
    size = float(np.abs(weights).max(initial=0.0))
    if size == 0.0 or not np.isfinite(size):
        return 0.0
    scaled = np.abs(weights) / size
    return float(scaled.sum() ** 2 / (scaled**2).sum())


def resampled_rows(weights: NDArray[np.float64], n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return row numbers in random order, each as often as its weight says up to one (systematic resampling).

    Parameters
    ----------
    weights : ndarray of shape (m,)
        Weights that are not negative.
    n : int
        How many.
    rng : numpy.random.Generator
        The source of all randomness.

    Returns
    -------
    ndarray of int of shape (n,)
    """
    cumulative = np.cumsum(weights)
    positions = (np.arange(n) + rng.random()) / n * cumulative[-1]
    return rng.permutation(np.minimum(np.searchsorted(cumulative, positions), len(weights) - 1))


def _relative(log_weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights, the largest of which is one."""
    log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights)  # 0 · (−∞) at a step of zero
    return np.exp(log_weights - log_weights.max())


@dataclass
class _Mover:
    """Particles with their prior and likelihood, and the budget for moving them."""

    log_prior: LogDensity
    log_likelihood: LogDensity
    points: NDArray[np.float64]
    rng: np.random.Generator
    time_limit: float
    settings: TemperingSettings
    evaluations: int = 0
    prior: NDArray[np.float64] = field(init=False)
    likelihood: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self._ends = time.monotonic() + self.time_limit
        self.prior, self.likelihood = self._evaluate(self.points)
        if not np.isfinite(self.likelihood).any():
            raise ArgumentError(
                "log_likelihood",
                f"the likelihood is zero at all {len(self.points)} draws from the prior: nothing can be sampled; "
                "check the observation, or give more draws to start from",
            )

    def may_go_on(self) -> bool:
        """Return whether time and evaluations are left."""
        return time.monotonic() < self._ends and self.evaluations < self.settings.max_evaluations

    def _resample(self, log_weights: NDArray[np.float64], n: int) -> None:
        """Replace the particles by `n` of them, drawn in proportion to the weights, in random order."""
        rows = resampled_rows(_relative(log_weights), n, self.rng)
        self.points, self.prior, self.likelihood = self.points[rows], self.prior[rows], self.likelihood[rows]

    def _move(self, power: float, moves: float) -> float:
        """Sweep until each particle has made `moves` accepted moves on average; return the share accepted."""
        accepted = sweeps = 0.0
        while self.may_go_on() and accepted < moves and sweeps < self.settings.most_sweeps:
            accepted += self._sweep(power)
            sweeps += 1
        return accepted / max(sweeps, 1)

    def _sweep(self, power: float) -> float:
        order = self.rng.permutation(len(self.points))
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        accepted = self._move_rows(halves[0], halves[1], power) + self._move_rows(halves[1], halves[0], power)
        return accepted / len(order)

    def _move_rows(self, rows: NDArray[np.intp], others: NDArray[np.intp], power: float) -> int:
        """Propose for `rows` from differences of `others`, accept or not; return how many moved."""
        if not len(rows) or len(others) < 3:
            return 0
        proposed, log_ratio = _propose(self.points[rows], self.points[others], self.rng, self.settings)
        prior, likelihood = self._evaluate(proposed)
        log_ratio += prior - self.prior[rows] + power * (likelihood - self.likelihood[rows])
        accept = np.log(self.rng.random(len(rows))) < log_ratio
        moved = rows[accept]
        self.points[moved] = proposed[accept]
        self.prior[moved], self.likelihood[moved] = prior[accept], likelihood[accept]
        return len(moved)

    def _evaluate(self, points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        prior = self.log_prior(points)
        likelihood = np.full(len(points), -np.inf)
        inside = np.isfinite(prior)
        if inside.any():
            values = self.log_likelihood(points[inside])
            likelihood[inside] = np.where(np.isnan(values), -np.inf, values)
        self.evaluations += int(inside.sum())
        return prior, likelihood


def _propose(
    points: NDArray[np.float64], others: NDArray[np.float64], rng: np.random.Generator, settings: TemperingSettings
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return proposals (n, d) and the logarithms of their Hastings factors (n,)."""
    n, d = points.shape
    first, second, third = (others[rng.integers(len(others), size=n)] for _ in range(3))
    kind = rng.random((n, 1))
    difference = first - second
    moving = rng.random((n, d)) < rng.choice(settings.moving_shares, size=(n, 1))
    moving[np.arange(n), rng.integers(d, size=n)] = True
    optimal = settings.step / np.sqrt(2 * moving.sum(axis=1, keepdims=True))
    gaussian_step = optimal * rng.choice(settings.step_scales, size=(n, 1))
    proposed = points + np.where(moving, gaussian_step * difference, 0.0)
    proposed = np.where(kind < settings.jump, points + difference, proposed)
    snooker, log_ratio = _snooker(points, third, difference, rng)
    along_line = kind > 1.0 - settings.snooker
    proposed = np.where(along_line, snooker, proposed)
    shaken = 1e-3 * others.std(axis=0) * rng.normal(size=(n, d))
    return np.where(along_line, proposed, proposed + shaken), np.where(along_line[:, 0], log_ratio, 0.0)


def _snooker(
    points: NDArray[np.float64],
    through: NDArray[np.float64],
    difference: NDArray[np.float64],
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return steps along the line from `through` to each point, by the projected difference, and log factors."""
    line = points - through
    length = np.maximum(np.linalg.norm(line, axis=1, keepdims=True), 1e-300)
    size = rng.uniform(1.2, 2.2, size=(len(points), 1)) * np.sum(difference * line, axis=1, keepdims=True) / length
    proposed = points + size * line / length
    new_length = np.maximum(np.linalg.norm(proposed - through, axis=1, keepdims=True), 1e-300)
    return proposed, (points.shape[1] - 1) * np.log(new_length / length)[:, 0]
