"""Tempered sequential Monte Carlo with differential-evolution moves, bounded in time and in evaluations."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp

from decond.errors import ArgumentError

__all__ = ["TemperedCloud", "temper"]

LogDensity = Callable[[np.ndarray], np.ndarray]
"""A function of rows (n, d) that returns (n,) log densities; minus infinity where there is no mass."""

KEPT_EFFECTIVE = 0.5
"""Each temperature keeps at least this share of the particles effective."""

STEP_SCALES = (1.0, 0.5, 0.2, 0.08)
"""Differential-evolution steps come in these multiples of the optimal step of a Gaussian: the long ones travel, the
short ones follow thin, curved ridges."""


@dataclass(frozen=True)
class TemperedCloud:
    """Particles of the density ∝ prior · likelihood^power, and what it took to get them.

    Attributes:
        particles: Equally weighted draws (n, d).
        power: The power of the likelihood.
        log_evidence: Logarithm of the integral of likelihood^power under the prior.
        acceptance: Share of accepted moves at the last temperature.
        temperatures: The powers that were visited on the way.
        evaluations: Rows at which the likelihood was evaluated.
        finished: False if time or evaluations ran out; the particles are then reweighted but little moved.
    """

    particles: np.ndarray
    power: float
    log_evidence: float
    acceptance: float
    temperatures: tuple[float, ...]
    evaluations: int
    finished: bool
    log_prior: LogDensity
    log_likelihood: LogDensity

    def draw(
        self, n: int, rng: np.random.Generator, *, time_limit: float = 60.0, max_evaluations: int = 2_000_000
    ) -> np.ndarray:
        """Return `n` draws: the particles replicated, and moved until each has left its origin several times."""
        mover = _Mover(self.log_prior, self.log_likelihood, self.particles, rng, time_limit, max_evaluations)
        mover.resample(np.zeros(len(self.particles)), n)
        mover.move(self.power, 2.0 * _moves(self.particles.shape[1]))
        return mover.points


def temper(
    log_prior: LogDensity,
    log_likelihood: LogDensity,
    start: np.ndarray,
    rng: np.random.Generator,
    *,
    powers: Sequence[float] = (1.0,),
    time_limit: float = 60.0,
    max_evaluations: int = 2_000_000,
) -> list[TemperedCloud]:
    """Return particles of the densities ∝ prior · likelihood^power, one cloud for each of the rising `powers`.

    The particles start as draws from the prior and pass through temperatures 0 = β₀ < β₁ < …, each chosen so that the
    weights exp((β_{t+1} − β_t) log likelihood) keep half of the particles effective. After each resampling they move
    by differential evolution: half of them step along differences of the other half (in all or some of the
    coordinates, with four lengths of step), jump by a whole difference (from mode to mode), or step along the line
    through another particle (snooker). Every move is accepted by Metropolis' rule, so the density is kept.

    Args:
        log_prior: Log density of the prior, minus infinity outside its support.
        log_likelihood: Log likelihood; called only at rows inside the support.
        start: Draws from the prior (particles, d).
        rng: The source of all randomness.
        powers: Powers of the likelihood at which clouds are kept, rising.
        time_limit: Seconds after which no new move begins.
        max_evaluations: Likelihood evaluations after which no new move begins.

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
    mover = _Mover(log_prior, log_likelihood, np.array(start, dtype=np.float64), rng, time_limit, max_evaluations)
    log_evidence, visited, acceptance, clouds = 0.0, [0.0], 0.0, []
    for power in powers:
        while visited[-1] < power:
            longest = power - visited[-1]
            step = _next_step(mover.likelihood, longest) if mover.may_go_on() else longest
            log_weights = step * mover.likelihood
            log_evidence += float(logsumexp(log_weights) - np.log(len(log_weights)))
            visited.append(power if step == longest else visited[-1] + step)
            mover.resample(log_weights, len(log_weights))
            acceptance = mover.move(visited[-1], _moves(mover.points.shape[1]))
        seen = (mover.points.copy(), power, log_evidence, acceptance, tuple(visited), mover.evaluations)
        clouds.append(TemperedCloud(*seen, mover.may_go_on(), log_prior, log_likelihood))
    return clouds


def _moves(dimension: int) -> float:
    """Return how many accepted moves each particle makes at a temperature: more in more dimensions."""
    return max(3.0, 0.7 * dimension)


def _next_step(log_likelihood: np.ndarray, longest: float) -> float:
    """Return the longest step in temperature that keeps the asked share of the particles effective."""
    wanted = KEPT_EFFECTIVE * min(len(log_likelihood), max(1, np.isfinite(log_likelihood).sum()))
    if _effective(longest * log_likelihood) >= wanted:
        return longest
    low, high = 0.0, longest
    for _ in range(50):
        middle = 0.5 * (low + high)
        if _effective(middle * log_likelihood) >= wanted:
            low = middle
        else:
            high = middle
    return low if low > 0.0 else _tiny_step(log_likelihood, longest, wanted)


def _tiny_step(log_likelihood: np.ndarray, longest: float, wanted: float) -> float:
    """Return the step where halving cannot reach it: the likelihood spans too many powers of ten."""
    low, high = np.log(longest) - 500.0, np.log(longest)
    for _ in range(60):
        middle = 0.5 * (low + high)
        if _effective(np.exp(middle) * log_likelihood) >= wanted:
            low = middle
        else:
            high = middle
    return float(np.exp(low))


def _effective(log_weights: np.ndarray) -> float:
    log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights)  # 0 · (−∞) at a step of zero
    return float(np.exp(2 * logsumexp(log_weights) - logsumexp(2 * log_weights)))


def _systematic(log_weights: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return `n` row numbers in proportion to the weights, with the least randomness (systematic resampling)."""
    weights = np.exp(log_weights - logsumexp(log_weights))
    edges = np.cumsum(weights)
    return np.searchsorted(edges, (np.arange(n) + rng.random()) / n * edges[-1]).clip(max=len(weights) - 1)


@dataclass
class _Mover:
    """Particles with their prior and likelihood, and the budget for moving them."""

    log_prior: LogDensity
    log_likelihood: LogDensity
    points: np.ndarray
    rng: np.random.Generator
    time_limit: float
    max_evaluations: int
    evaluations: int = 0
    prior: np.ndarray = field(init=False)
    likelihood: np.ndarray = field(init=False)

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
        return time.monotonic() < self._ends and self.evaluations < self.max_evaluations

    def resample(self, log_weights: np.ndarray, n: int) -> None:
        """Replace the particles by `n` of them, drawn in proportion to the weights, in random order."""
        rows = self.rng.permutation(_systematic(log_weights, n, self.rng))
        self.points, self.prior, self.likelihood = self.points[rows], self.prior[rows], self.likelihood[rows]

    def move(self, power: float, moves: float, most_sweeps: int = 25) -> float:
        """Sweep until each particle has made `moves` accepted moves on average; return the share accepted."""
        accepted = sweeps = 0.0
        while self.may_go_on() and accepted < moves and sweeps < most_sweeps:
            accepted += self._sweep(power)
            sweeps += 1
        return accepted / max(sweeps, 1)

    def _sweep(self, power: float) -> float:
        order = self.rng.permutation(len(self.points))
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        accepted = self._move_rows(halves[0], halves[1], power) + self._move_rows(halves[1], halves[0], power)
        return accepted / len(order)

    def _move_rows(self, rows: np.ndarray, others: np.ndarray, power: float) -> int:
        """Propose for `rows` from differences of `others`, accept or not; return how many moved."""
        if not len(rows) or len(others) < 3:
            return 0
        proposed, log_ratio = _propose(self.points[rows], self.points[others], self.rng)
        prior, likelihood = self._evaluate(proposed)
        log_ratio += prior - self.prior[rows] + power * (likelihood - self.likelihood[rows])
        accept = np.log(self.rng.random(len(rows))) < log_ratio
        moved = rows[accept]
        self.points[moved] = proposed[accept]
        self.prior[moved], self.likelihood[moved] = prior[accept], likelihood[accept]
        return len(moved)

    def _evaluate(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        prior = self.log_prior(points)
        likelihood = np.full(len(points), -np.inf)
        inside = np.isfinite(prior)
        if inside.any():
            values = self.log_likelihood(points[inside])
            likelihood[inside] = np.where(np.isnan(values), -np.inf, values)
        self.evaluations += int(inside.sum())
        return prior, likelihood


def _propose(points: np.ndarray, others: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return proposals (n, d) and the logarithms of their Hastings factors (n,)."""
    n, d = points.shape
    first, second, third = (others[rng.integers(len(others), size=n)] for _ in range(3))
    kind = rng.random((n, 1))
    difference = first - second
    moving = rng.random((n, d)) < rng.choice([1.0, 1.0, 0.5, 0.2], size=(n, 1))
    moving[np.arange(n), rng.integers(d, size=n)] = True
    gaussian_step = 2.38 / np.sqrt(2 * moving.sum(axis=1, keepdims=True)) * rng.choice(STEP_SCALES, size=(n, 1))
    proposed = points + np.where(moving, gaussian_step * difference, 0.0)
    proposed = np.where(kind < 0.15, points + difference, proposed)
    snooker, log_ratio = _snooker(points, third, difference, rng)
    along_line = kind > 0.9
    proposed = np.where(along_line, snooker, proposed)
    shaken = 1e-3 * others.std(axis=0) * rng.normal(size=(n, d))
    return np.where(along_line, proposed, proposed + shaken), np.where(along_line[:, 0], log_ratio, 0.0)


def _snooker(
    points: np.ndarray, through: np.ndarray, difference: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return steps along the line from `through` to each point, by the projected difference, and log factors."""
    line = points - through
    length = np.maximum(np.linalg.norm(line, axis=1, keepdims=True), 1e-300)
    size = rng.uniform(1.2, 2.2, size=(len(points), 1)) * np.sum(difference * line, axis=1, keepdims=True) / length
    proposed = points + size * line / length
    new_length = np.maximum(np.linalg.norm(proposed - through, axis=1, keepdims=True), 1e-300)
    return proposed, (points.shape[1] - 1) * np.log(new_length / length)[:, 0]
