"""Problems of likelihood-free inference with known truth: a prior, a simulator and an observation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_row, check_choice, frozen

if TYPE_CHECKING:
    from decond.lfi import Prior

__all__ = [
    "SimulatorProblem",
    "exponential_gamma",
    "gaussian_linear_uniform",
    "infected_fraction",
    "sir",
    "two_moons",
]

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
