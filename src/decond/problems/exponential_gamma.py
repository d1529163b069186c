"""Exponential draws with a gamma prior on their rate: a posterior that is known exactly."""

from typing import NamedTuple

import numpy as np

from decond.checks import check_choice, frozen
from decond.problems.simulator_problem import SimulatorProblem

__all__ = ["exponential_gamma"]


class _Setup(NamedTuple):
    """Prior Gamma(shape, rate), the number of draws and the rate that the observed ones were made with."""

    shape: float
    rate: float
    n_draws: int
    true_rate: float


SETUPS = {
    "paper": _Setup(2.0, 1.0, 15, 2.0),
    "meeds": _Setup(0.1, 0.1, 500, 0.1),
}


def exponential_gamma(setup: str = "paper") -> SimulatorProblem:
    """Return the problem of finding the rate of exponential draws from their mean.

    `setup="paper"` is that of the paper's Figure 5: 15 draws, prior Gamma(2, rate 1), posterior Gamma(17, rate 9.89).
    `setup="meeds"` is that of Meeds and Welling (2014): 500 draws of mean 10.0867, prior Gamma(0.1, rate 0.1).

    >>> problem = exponential_gamma()
    >>> problem.prior.names, problem.observed.round(4)
    (('rate',), array([0.5927]))
    """
    from scipy import stats

    from decond.lfi import Prior

    check_choice(setup, "setup", tuple(SETUPS))
    given = SETUPS[setup]
    draws = np.random.RandomState(0).exponential(1.0 / given.true_rate, given.n_draws)
    exact = stats.gamma(given.shape + given.n_draws, scale=1.0 / (given.rate + draws.sum()))

    def raw_simulator(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_exponential((len(theta), given.n_draws)) / theta

    return SimulatorProblem(
        name=f"exponential_gamma ({setup})",
        prior=Prior({"rate": stats.gamma(given.shape, scale=1.0 / given.rate)}),
        simulator=lambda theta, rng: _mean(raw_simulator(theta, rng)),
        batched=True,
        observed=frozen(_mean(draws)),
        true_parameters=frozen([given.true_rate]),
        raw_simulator=raw_simulator,
        summarize=_mean,
        observed_raw=frozen(draws),
        log_posterior=lambda theta: exact.logpdf(np.reshape(theta, -1)),
    )


def _mean(draws: np.ndarray) -> np.ndarray:
    return draws.mean(axis=-1, keepdims=True)
