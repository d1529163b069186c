"""Ten Gaussian means with uniform priors: many parameters, a simple posterior."""

from collections.abc import Sequence

import numpy as np

from decond.problems.simulator_problem import SimulatorProblem, observe

__all__ = ["gaussian_linear_uniform"]

DIMENSION, VARIANCE = 10, 0.1


def gaussian_linear_uniform(observed: Sequence[float] | np.ndarray | None = None, seed: int = 0) -> SimulatorProblem:
    """Return the task of public benchmarks with θ ~ U(−1, 1)¹⁰ and x ~ N(θ, 0.1 I).

    Without `observed`, one observation is simulated from `seed`. The posterior is a product of truncated Gaussians.

    >>> gaussian_linear_uniform().prior.dim
    10
    """
    from scipy import stats

    from decond.lfi import Prior

    prior = Prior({f"theta_{i}": stats.uniform(-1.0, 2.0) for i in range(1, DIMENSION + 1)})
    truth, seen = observe(prior, _simulate, observed, seed)
    sd = np.sqrt(VARIANCE)
    exact = stats.truncnorm((-1.0 - seen) / sd, (1.0 - seen) / sd, loc=seen, scale=sd)
    return SimulatorProblem(
        "gaussian_linear_uniform",
        prior,
        _simulate,
        True,
        seen,
        truth,
        log_posterior=lambda theta: exact.logpdf(theta).sum(axis=1),
    )


def _simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + np.sqrt(VARIANCE) * rng.standard_normal(theta.shape)
