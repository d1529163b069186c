"""An epidemic in a closed population, seen through ten small samples of who is infected."""

from collections.abc import Sequence

import numpy as np

from decond.problems.simulator_problem import SimulatorProblem, observe

__all__ = ["infected_fraction", "sir"]

POPULATION, TESTED = 1e6, 1000
DAYS_BETWEEN, N_VISITS = 17.0, 10
STEPS_BETWEEN = 340  # of 0.05 days: relative error below 1e-6 over the prior


def sir(observed: Sequence[float] | np.ndarray | None = None, seed: int = 0) -> SimulatorProblem:
    """Return the SIR task of public benchmarks: find the contact rate β and the recovery rate γ of an epidemic.

    β ~ LogNormal(log 0.4, 0.5), γ ~ LogNormal(log 0.125, 0.2); dS = −βSI/N, dI = βSI/N − γI, N = 10⁶, I₀ = 1;
    x_i ~ Binomial(1000, I(t_i)/N) on days 0, 17, …, 153.
    Without `observed`, one observation is simulated from `seed`.

    >>> sir().prior.names
    ('beta', 'gamma')
    """
    from scipy import stats

    from decond.lfi import Prior

    prior = Prior({"beta": stats.lognorm(0.5, scale=0.4), "gamma": stats.lognorm(0.2, scale=0.125)})
    truth, seen = observe(prior, _simulate, observed, seed)

    def log_posterior(theta: np.ndarray) -> np.ndarray:
        counts = stats.binom.logpmf(seen, TESTED, infected_fraction(theta))
        return prior.log_density(theta) + counts.sum(axis=1)

    return SimulatorProblem("sir", prior, _simulate, True, seen, truth, log_posterior=log_posterior)


def infected_fraction(theta: np.ndarray) -> np.ndarray:
    """Return I(t)/N at the ten visits for each row (β, γ), shape (n, 10).

    Runge–Kutta of order four with a fixed step, in the logarithms of S/N and I/N: there the exponential growth at the
    start is exact.
    """
    beta, gamma = theta.T
    step = DAYS_BETWEEN / STEPS_BETWEEN

    def slope(state: np.ndarray) -> np.ndarray:
        susceptible, infected = np.exp(state)
        return np.stack([-beta * infected, beta * susceptible - gamma])

    start = np.log([(POPULATION - 1.0) / POPULATION, 1.0 / POPULATION])
    state = np.repeat(start[:, None], len(theta), axis=1)
    visits = [state[1]]
    for _ in range(N_VISITS - 1):
        for _ in range(STEPS_BETWEEN):
            first = slope(state)
            second = slope(state + 0.5 * step * first)
            third = slope(state + 0.5 * step * second)
            fourth = slope(state + step * third)
            state = state + step / 6.0 * (first + 2.0 * (second + third) + fourth)
        visits.append(state[1])
    return np.exp(np.stack(visits, axis=1))


def _simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.binomial(TESTED, infected_fraction(theta)).astype(np.float64)
