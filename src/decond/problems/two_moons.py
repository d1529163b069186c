"""Two moons: two parameters whose posterior is a pair of thin crescents."""

from collections.abc import Sequence

import numpy as np

from decond.problems.simulator_problem import SimulatorProblem, observe

__all__ = ["two_moons"]

MEAN_RADIUS, SD_RADIUS, OFFSET = 0.1, 0.01, 0.25


def two_moons(observed: Sequence[float] | np.ndarray | None = None, seed: int = 0) -> SimulatorProblem:
    """Return the two-moons task of public benchmarks; without `observed`, one observation is simulated from `seed`.

    θ ~ U(−1, 1)²; x = (r cos a + 0.25, r sin a) + (−|θ₁+θ₂|, θ₂−θ₁)/√2 with a ~ U(−π/2, π/2), r ~ N(0.1, 0.01²).

    >>> two_moons().observed.shape
    (2,)
    """
    from scipy import stats

    from decond.lfi import Prior

    prior = Prior({name: stats.uniform(-1.0, 2.0) for name in ("theta_1", "theta_2")})
    truth, seen = observe(prior, _simulate, observed, seed)

    def log_posterior(theta: np.ndarray) -> np.ndarray:
        along, across = (seen - _shift(theta) - [OFFSET, 0.0]).T
        radius = np.hypot(along, across)
        with np.errstate(divide="ignore"):
            log_likelihood = np.where(
                along > 0.0, stats.norm.logpdf(radius, MEAN_RADIUS, SD_RADIUS) - np.log(np.pi * radius), -np.inf
            )
        return prior.log_density(theta) + log_likelihood

    return SimulatorProblem("two_moons", prior, _simulate, True, seen, truth, log_posterior=log_posterior)


def _shift(theta: np.ndarray) -> np.ndarray:
    return np.stack([-np.abs(theta[:, 0] + theta[:, 1]), theta[:, 1] - theta[:, 0]], axis=1) / np.sqrt(2.0)


def _simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    angle = rng.uniform(-np.pi / 2.0, np.pi / 2.0, len(theta))
    radius = rng.normal(MEAN_RADIUS, SD_RADIUS, len(theta))
    moon = np.stack([radius * np.cos(angle) + OFFSET, radius * np.sin(angle)], axis=1)
    return moon + _shift(theta)
