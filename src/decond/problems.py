"""Worked problems with known truth: two tables, or a prior, a simulator and an observation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_row, check_choice, frozen
from decond.kernels import RBF
from decond.linalg import cholesky

if TYPE_CHECKING:
    from decond.lfi import Prior

__all__ = [
    "LatentFunctionProblem",
    "SimulatorProblem",
    "exponential_gamma",
    "gaussian_linear_uniform",
    "latent_function",
    "lotka_volterra",
    "sir",
    "two_moons",
]

# ---- two tables ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LatentFunctionProblem:
    """Two tables that share only a mediator, and the truth behind them.

    Pairs (`x`, `y`) with x = r(y) + noise; task rows (`y_task`, `z_task`) with z = f(x̃) + noise at latent inputs x̃.

    >>> problem = latent_function(n=5, m=6)
    >>> problem.y_task.shape, problem.f(np.array([-1.0, 0.0])).round(2)
    ((6, 1), array([1., 2.]))
    """

    x: np.ndarray
    y: np.ndarray
    y_task: np.ndarray
    z_task: np.ndarray
    initial: tuple[float, float, float] = (1.0, 1.0, 0.1)
    """Hyperparameters (lengthscale of x, lengthscale of y, noise) that learning starts from."""
    learned: tuple[float, float, float] = (1.03741465, 0.35222978, 0.40144024)
    """Hyperparameters at which the log evidence is largest."""

    @staticmethod
    def f(x: np.ndarray) -> np.ndarray:
        """Return the latent function at x."""
        return _through(x, (-4.0, -3.0, -1.0, 0.0, 2.0), (-2.0, 0.0, 1.0, 2.0, -1.0))

    @staticmethod
    def r(y: np.ndarray) -> np.ndarray:
        """Return the conditional mean of x given y."""
        return _through(y, (-5.0, -3.0, -1.0, 1.0, 4.0), (-4.0, -2.0, -6.0, 4.0, 6.0))


def latent_function(n: int = 100, m: int = 150, noise: float = 0.25) -> LatentFunctionProblem:
    """Return the toy of the paper's Figure 3, with exactly its random draws at the default sizes.

    Parameters
    ----------
    n, m : int
        Numbers of pairs and of task rows.
    noise : float
        Standard deviation of the noise of x and of z.

    >>> problem = latent_function()
    >>> problem.x.shape, problem.z_task.shape
    ((100, 1), (150,))
    """
    pairs, task = np.random.RandomState(100), np.random.RandomState(0)
    y = pairs.uniform(-6.0, 6.0, (n, 1))
    x = LatentFunctionProblem.r(y) + noise * pairs.randn(n, 1)
    y_task = task.uniform(-6.0, 6.0, (m, 1))
    x_task = LatentFunctionProblem.r(y_task) + noise * task.randn(m, 1)
    z_task = LatentFunctionProblem.f(x_task)[:, 0] + noise * task.randn(m)
    return LatentFunctionProblem(x, y, y_task, z_task)


def _through(at: np.ndarray, inputs: tuple[float, ...], outputs: tuple[float, ...]) -> np.ndarray:
    """Return the noiseless Gaussian-process mean (unit Gaussian kernel) through a few points, shaped like `at`."""
    kernel, knots = RBF(1.0), np.array(inputs)[:, None]
    weights = cholesky(kernel(knots), "the Gram matrix of the knots").solve(np.array(outputs))
    values = np.asarray(at, dtype=np.float64)
    return (kernel.gram(values.reshape(-1, 1), knots) @ weights).reshape(values.shape)


# ---- simulators ---------------------------------------------------------------------------------------------------


Simulator = Callable[[NDArray[np.float64], np.random.Generator], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class SimulatorProblem:
    """A prior, a simulator and an observation: everything that likelihood-free inference is given.

    `simulator` maps rows (n, d) of parameters in the order of `prior.names` and a random generator to rows (n, s) of
    summaries, and is marked by `lfi.batched`. Where summaries are made from larger data, `raw_simulator` gives these
    data, `summarize` makes the summaries (of one simulation or of many), and `observed_raw` are the data observed.

    >>> from decond.problems import exponential_gamma
    >>> problem = exponential_gamma()
    >>> problem.prior.names, problem.observed.round(2)
    (('rate',), array([0.59]))
    >>> problem.simulator(problem.prior.sample(3, seed=0), np.random.default_rng(0)).shape
    (3, 1)
    """

    name: str
    prior: Prior
    simulator: Simulator
    observed: NDArray[np.float64]
    """The summaries observed, of shape (s,)."""
    true_parameters: NDArray[np.float64] | None = None
    """The parameters that the observation was made with, of shape (d,), where they are known."""
    raw_simulator: Simulator | None = None
    summarize: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None
    observed_raw: NDArray[np.float64] | None = None
    log_posterior: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None
    """The exact log density of the posterior at rows of parameters, up to a constant, where it is known."""

    def __post_init__(self) -> None:
        from decond.lfi import batched

        for simulator in (self.simulator, self.raw_simulator):
            if simulator is not None:
                batched(simulator)

    @property
    def batched(self) -> bool:
        """Whether the simulators take batches: always."""
        return True


# ---- exponential draws ---------------------------------------------------------------------------------------


def exponential_gamma(setup: Literal["paper", "meeds"] = "paper") -> SimulatorProblem:
    """Return the problem of finding the rate of exponential draws from their mean.

    `setup="paper"` is that of the paper's Figure 5: 15 draws, prior Gamma(2, rate 1), posterior Gamma(17, rate 9.89).
    `setup="meeds"` is that of Meeds and Welling (2014): 500 draws of mean 10.0867, prior Gamma(0.1, rate 0.1).

    >>> problem = exponential_gamma()
    >>> problem.prior.names, problem.observed.round(4)
    (('rate',), array([0.5927]))
    """
    from scipy import stats

    from decond.lfi import Prior

    setups = {"paper": (2.0, 1.0, 15, 2.0), "meeds": (0.1, 0.1, 500, 0.1)}
    check_choice(setup, "setup", tuple(setups))
    shape, rate, n_draws, true_rate = setups[setup]
    draws = np.random.RandomState(0).exponential(1.0 / true_rate, n_draws)
    exact = stats.gamma(shape + n_draws, scale=1.0 / (rate + draws.sum()))

    def _draw(theta: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        return rng.standard_exponential((len(theta), n_draws)) / theta

    def mean(draws: NDArray[np.float64]) -> NDArray[np.float64]:
        return draws.mean(axis=-1, keepdims=True)

    return SimulatorProblem(
        name=f"exponential_gamma ({setup})",
        prior=Prior({"rate": stats.gamma(shape, scale=1.0 / rate)}),
        simulator=lambda theta, rng: mean(_draw(theta, rng)),
        observed=frozen(mean(draws)),
        true_parameters=frozen([true_rate]),
        raw_simulator=_draw,
        summarize=mean,
        observed_raw=frozen(draws),
        log_posterior=lambda theta: exact.logpdf(np.reshape(theta, -1)),
    )


# ---- tasks of public benchmarks ------------------------------------------------------------------------------


def gaussian_linear_uniform(observed: ArrayLike | None = None, seed: int = 0) -> SimulatorProblem:
    """Return the task of public benchmarks with θ ~ U(−1, 1)¹⁰ and x ~ N(θ, 0.1 I).

    The posterior is a product of truncated Gaussians.

    Parameters
    ----------
    observed : array_like of shape (10,), optional
        The observation; without it, one is simulated.
    seed : int
        Fixes the simulated observation.

    Examples
    --------
    >>> gaussian_linear_uniform().prior.dim
    10
    """
    from scipy import stats

    from decond.lfi import Prior

    sd = np.sqrt(0.1)

    def _simulate(theta: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        return theta + sd * rng.standard_normal(theta.shape)

    prior = Prior({f"theta_{i}": stats.uniform(-1.0, 2.0) for i in range(1, 11)})
    truth, seen = _observation(prior, _simulate, observed, seed)
    exact = stats.truncnorm((-1.0 - seen) / sd, (1.0 - seen) / sd, loc=seen, scale=sd)

    def log_posterior(theta: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(exact.logpdf(theta).sum(axis=1))

    return SimulatorProblem("gaussian_linear_uniform", prior, _simulate, seen, truth, log_posterior=log_posterior)


def two_moons(observed: ArrayLike | None = None, seed: int = 0) -> SimulatorProblem:
    """Return the two-moons task of public benchmarks, whose posterior is a pair of thin crescents.

    θ ~ U(−1, 1)²; x = (r cos a + 0.25, r sin a) + (−|θ₁+θ₂|, θ₂−θ₁)/√2 with a ~ U(−π/2, π/2), r ~ N(0.1, 0.01²).

    Parameters
    ----------
    observed : array_like of shape (2,), optional
        The observation; without it, one is simulated.
    seed : int
        Fixes the simulated observation.

    Examples
    --------
    >>> two_moons().observed.shape
    (2,)
    """
    from scipy import stats

    from decond.lfi import Prior

    mean_radius, sd_radius, offset = 0.1, 0.01, 0.25

    def shift(theta: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([-np.abs(theta[:, 0] + theta[:, 1]), theta[:, 1] - theta[:, 0]], axis=1) / np.sqrt(2.0)

    def _simulate(theta: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        angle = rng.uniform(-np.pi / 2.0, np.pi / 2.0, len(theta))
        radius = rng.normal(mean_radius, sd_radius, len(theta))
        return np.stack([radius * np.cos(angle) + offset, radius * np.sin(angle)], axis=1) + shift(theta)

    prior = Prior({name: stats.uniform(-1.0, 2.0) for name in ("theta_1", "theta_2")})
    truth, seen = _observation(prior, _simulate, observed, seed)

    def log_posterior(theta: NDArray[np.float64]) -> NDArray[np.float64]:
        along, across = (seen - shift(theta) - [offset, 0.0]).T
        radius = np.hypot(along, across)
        with np.errstate(divide="ignore"):
            log_likelihood = np.where(
                along > 0.0, stats.norm.logpdf(radius, mean_radius, sd_radius) - np.log(np.pi * radius), -np.inf
            )
        return prior.log_density(theta) + log_likelihood

    return SimulatorProblem("two_moons", prior, _simulate, seen, truth, log_posterior=log_posterior)


def sir(observed: ArrayLike | None = None, seed: int = 0) -> SimulatorProblem:
    """Return the SIR task of public benchmarks: find the contact rate β and the recovery rate γ of an epidemic.

    β ~ LogNormal(log 0.4, 0.5), γ ~ LogNormal(log 0.125, 0.2); dS = −βSI/N, dI = βSI/N − γI, N = 10⁶, I₀ = 1;
    x_i ~ Binomial(1000, I(t_i)/N) on days 0, 17, …, 153.

    Parameters
    ----------
    observed : array_like of shape (10,), optional
        The observation; without it, one is simulated.
    seed : int
        Fixes the simulated observation.

    Examples
    --------
    >>> sir().prior.names
    ('beta', 'gamma')
    """
    from scipy import stats

    from decond.lfi import Prior

    n_tested = 1000

    def _simulate(theta: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        return rng.binomial(n_tested, infected_fraction(theta)).astype(np.float64)

    prior = Prior({"beta": stats.lognorm(0.5, scale=0.4), "gamma": stats.lognorm(0.2, scale=0.125)})
    truth, seen = _observation(prior, _simulate, observed, seed)

    def log_posterior(theta: NDArray[np.float64]) -> NDArray[np.float64]:
        counts = stats.binom.logpmf(seen, n_tested, infected_fraction(theta))
        return prior.log_density(theta) + counts.sum(axis=1)

    return SimulatorProblem("sir", prior, _simulate, seen, truth, log_posterior=log_posterior)


def infected_fraction(theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return I(t)/N on the ten days 0, 17, …, 153 for each row (β, γ), shape (n, 10).

    Runge–Kutta of order four with a fixed step of 0.05 days, in the logarithms of S/N and I/N: there the exponential
    growth at the start is exact. The relative error is below 1e-6 over the prior of `sir`.
    """
    beta, gamma = theta.T
    population, days, steps = 1e6, 17.0, 340
    step = days / steps

    def slope(state: NDArray[np.float64]) -> NDArray[np.float64]:
        susceptible, infected = np.exp(state)
        return np.stack([-beta * infected, beta * susceptible - gamma])

    start = np.log([(population - 1.0) / population, 1.0 / population])
    state = np.repeat(start[:, None], len(theta), axis=1)
    visits = [state[1]]
    for _ in range(9):
        for _ in range(steps):
            first = slope(state)
            second = slope(state + 0.5 * step * first)
            third = slope(state + 0.5 * step * second)
            fourth = slope(state + step * third)
            state = state + step / 6.0 * (first + 2.0 * (second + third) + fourth)
        visits.append(state[1])
    return np.exp(np.stack(visits, axis=1))


def _observation(
    prior: Prior, simulator: Simulator, observed: ArrayLike | None, seed: int
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64]]:
    """Return the true parameters, if known, and the observation: the one given, or one simulated from `seed`."""
    if observed is not None:
        return None, frozen(as_row(observed, "observed")[0])
    rng = np.random.default_rng(seed)
    truth = prior.sample(1, rng)
    return frozen(truth[0]), frozen(simulator(truth, rng)[0])


# ---- predators and prey -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LotkaVolterra:
    """The setting of the paper's Figure 5, as in Papamakarios and Murray (2016).

    `observed`, `pilot_mean` and `pilot_sd` are the published statistics of the observation and of 1000 simulations.
    """

    start: tuple[int, int] = (50, 100)
    true_rates: tuple[float, ...] = (0.01, 0.5, 1.0, 0.01)
    end: float = 30.0
    interval: float = 0.2
    n_records: int = 151
    max_reactions: int = 10_000
    at_once: int = 2048
    """Simulations that step together: enough to spread the cost of a step, few enough for memory."""
    observed: tuple[float, ...] = (
        *(95.2251656, 51.9668874, 8.67364561, 8.05149566),
        *(0.980002316, 0.934987651, 0.977287472, 0.926921876, 0.0229361846),
    )
    pilot_mean: tuple[float, ...] = (
        *(219.801775, 5.83081457, 6.63660858, 4.44470002),
        *(0.840878342, 0.737991900, 0.135018407, 0.0747472691, 0.124835855),
    )
    pilot_sd: tuple[float, ...] = (
        *(592.326107, 54.6649982, 2.96936149, 0.901873258),
        *(0.179811764, 0.256786090, 0.266208554, 0.202996380, 0.375751613),
    )

    def normalized(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return statistics (..., 9) in units of the pilot's standard deviations from its means."""
        return (np.asarray(values, dtype=np.float64) - self.pilot_mean) / np.asarray(self.pilot_sd)


def lotka_volterra() -> SimulatorProblem:
    """Return the problem of finding four log rates of predators and prey from nine statistics (paper's Figure 5).

    From 50 predators x and 100 prey y the reactions x+1, x−1, y+1, y−1 happen at rates θ·(xy, x, y, xy). Both numbers
    are recorded every 0.2 up to time 30, summarized by `statistics` and normalized by the mean and the standard
    deviation of a pilot of 1000 simulations. The parameters are log θ, each uniform on (−5, 2). A run of more than
    10,000 reactions is a failed simulation: a row of NaN.

    >>> problem = lotka_volterra()
    >>> problem.true_parameters.round(3)
    array([-4.605, -0.693,  0.   , -4.605])
    """
    from scipy import stats

    from decond.lfi import Prior

    setting = LotkaVolterra()
    return SimulatorProblem(
        name="lotka_volterra",
        prior=Prior({f"log_theta_{i}": stats.uniform(-5.0, 7.0) for i in (1, 2, 3, 4)}),
        simulator=lambda log_rates, rng: _summarize(_simulate(log_rates, rng)),
        observed=frozen(setting.normalized(setting.observed)),
        true_parameters=frozen(np.log(setting.true_rates)),
        raw_simulator=_simulate,
        summarize=_summarize,
    )


def statistics(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nine statistics of courses (..., records, 2), of shape (..., 9).

    Means of x and y, log(variance + 1) of both, autocorrelations of x at lags 1 and 2, of y at lags 1 and 2, and the
    cross-correlation. Correlations of a constant course are 0.
    """
    length = series.shape[-2]
    mean = series.mean(axis=-2)
    deviation = series - mean[..., None, :]
    variance = (deviation**2).sum(axis=-2) / (length - 1)
    sd = np.sqrt(variance)
    scaled = np.divide(deviation, sd[..., None, :], out=np.zeros_like(deviation), where=sd[..., None, :] != 0.0)
    lag_1, lag_2 = ((scaled[..., lag:, :] * scaled[..., :-lag, :]).sum(axis=-2) / (length - 1) for lag in (1, 2))
    cross = (scaled[..., 0] * scaled[..., 1]).sum(axis=-1) / (length - 1)
    auto = np.stack([lag_1, lag_2], axis=-1).reshape(*mean.shape[:-1], 4)  # x at lags 1, 2, then y
    return np.concatenate([mean, np.log(variance + 1.0), auto, cross[..., None]], axis=-1)


def gillespie(
    rates: NDArray[np.float64], rng: np.random.Generator, setting: LotkaVolterra | None = None
) -> NDArray[np.float64]:
    """Return the numbers of predators and prey at the 151 record times for each row of rates, shape (n, 151, 2).

    All runs take their reactions together, one each in a step; a run that has ended leaves. Runs of more than
    `max_reactions` are NaN.

    Parameters
    ----------
    rates : ndarray of shape (n, 4)
        Rates of the reactions x+1, x−1, y+1, y−1.
    rng : numpy.random.Generator
        The source of all randomness.
    setting : LotkaVolterra, optional
        Start, end and limits.
    """
    setting = setting or LotkaVolterra()
    size = setting.at_once
    chunks = [_step_together(rates[at : at + size], rng, setting) for at in range(0, len(rates), size)]
    return np.concatenate([np.empty((0, setting.n_records, 2)), *chunks])


def _step_together(
    rates: NDArray[np.float64], rng: np.random.Generator, setting: LotkaVolterra
) -> NDArray[np.float64]:
    """Run Gillespie's algorithm: the state after a reaction is written at the next record time, gaps are filled."""
    n = len(rates)
    records = np.full((n, setting.n_records, 2), np.nan)
    records[:, 0] = setting.start
    run = np.arange(n)
    predators, prey = (np.full(n, float(number)) for number in setting.start)
    time = np.zeros(n)
    birth, death, growth, predation = np.ascontiguousarray(rates.T)
    for _ in range(setting.max_reactions + 1):
        pairs = predators * prey
        first = birth * pairs
        second = first + death * predators
        third = second + growth * prey
        total = third + predation * pairs
        with np.errstate(divide="ignore"):
            time += rng.standard_exponential(len(run)) / total
        going = time < setting.end
        if not going.all():
            run, time, predators, prey = run[going], time[going], predators[going], prey[going]
            birth, death, growth, predation = birth[going], death[going], growth[going], predation[going]
            first, second, third, total = first[going], second[going], third[going], total[going]
            if not len(run):
                break
        event = rng.random(len(run)) * total
        is_first, is_second, is_third = event < first, event < second, event < third
        predators += is_first
        predators -= is_second ^ is_first
        prey += is_third ^ is_second
        prey -= ~is_third
        next_record = np.ceil(time / setting.interval).astype(np.intp)
        records[run, next_record, 0] = predators
        records[run, next_record, 1] = prey
    records = _filled(records)
    records[run] = np.nan
    return records


def _filled(records: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return records with each gap filled by the last record before it."""
    written = ~np.isnan(records[:, :, 0])
    last = np.maximum.accumulate(np.where(written, np.arange(records.shape[1]), 0), axis=1)
    return np.take_along_axis(records, last[:, :, None], axis=1)


def _simulate(log_rates: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    return gillespie(np.exp(log_rates), rng)


def _summarize(series: NDArray[np.float64]) -> NDArray[np.float64]:
    return LotkaVolterra().normalized(statistics(series))
