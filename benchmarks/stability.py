"""Random problems with exact likelihoods: which posteriors of few simulations are wrong, and which are warned of."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from decond import lfi
from decond.lfi.exceptions import UnstablePosteriorWarning
from decond.lfi.sampling import temper

KINDS = ("linear", "exponential", "poisson", "stragglers", "banana")
WRONG_MEAN, WRONG_SCALE = 1.0, 1.5
"""A posterior is wrong if a mean misses by more exact deviations, or a deviation by a larger factor."""
FIRST_SEED = 1000
"""Settings were chosen on seeds below; those from here judge."""


@dataclass(frozen=True)
class Problem:
    """A prior, a simulator of batches, its exact log-likelihood, an observation, and a budget."""

    prior: lfi.Prior
    simulator: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    log_likelihood: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """Of an observation (s,) at rows of parameters."""
    observed: np.ndarray
    n_simulations: int

    def exact(self, particles: int = 4000) -> tuple[np.ndarray, np.ndarray]:
        """Return means and deviations of the exact posterior, by tempering with the exact likelihood."""
        rng = np.random.default_rng(0)
        prior = self.prior
        [cloud] = temper(
            prior.log_density_working,
            lambda phi: self.log_likelihood(self.observed, prior.from_working(phi)),
            prior.to_working(prior.sample(particles, rng)),
            rng,
        )
        draws = prior.from_working(cloud.draw(2 * particles, rng))
        return draws.mean(axis=0), draws.std(axis=0)


def problem(kind: str, seed: int) -> Problem:
    """Return a random problem of a kind of `KINDS`."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    prior, simulator, log_likelihood = globals()[f"_{kind}"](rng)
    observed = simulator(prior.sample(1, rng), rng)[0]
    if kind == "stragglers":  # late counts that few parameters give
        observed[-3:] += rng.integers(0, 4, 3)
    return Problem(prior, simulator, log_likelihood, observed, int(rng.choice([50, 100, 300])))


def _linear(rng: np.random.Generator) -> tuple[Any, ...]:
    d = int(rng.integers(1, 5))
    design = rng.standard_normal((int(rng.integers(d, 2 * d + 2)), d))
    noise = np.exp(rng.uniform(np.log(0.1), np.log(1.5), len(design)))
    prior = lfi.Prior({f"theta_{i}": stats.norm(0, 1) for i in range(d)})
    return (
        prior,
        lambda theta, rng: theta @ design.T + noise * rng.standard_normal((len(theta), len(design))),
        lambda x, theta: stats.norm.logpdf(x, theta @ design.T, noise).sum(axis=1),
    )


def _exponential(rng: np.random.Generator) -> tuple[Any, ...]:
    n, shape = int(rng.integers(3, 40)), float(rng.uniform(1.0, 4.0))
    return (
        lfi.Prior({"rate": stats.gamma(shape)}),
        lambda theta, rng: rng.gamma(n, 1.0 / (n * theta)),
        lambda x, theta: stats.gamma.logpdf(x, n, scale=1.0 / (n * theta))[:, 0],
    )


def _poisson(rng: np.random.Generator) -> tuple[Any, ...]:
    d = int(rng.integers(1, 4))
    design = rng.standard_normal((int(rng.integers(d, 2 * d + 2)), d)) / np.sqrt(d)
    level = rng.uniform(0.0, 3.0)
    prior = lfi.Prior({f"theta_{i}": stats.norm(0, 1) for i in range(d)})
    return (
        prior,
        lambda theta, rng: rng.poisson(np.exp(level + theta @ design.T)).astype(float),
        lambda x, theta: stats.poisson.logpmf(x, np.exp(level + theta @ design.T)).sum(axis=1),
    )


def _stragglers(rng: np.random.Generator) -> tuple[Any, ...]:
    """Counts that grow, fall, and end in a few late ones, as in an epidemic."""
    days = np.arange(10.0)
    grows, falls, peak = rng.uniform(0.8, 2.0), rng.uniform(0.5, 1.5), rng.uniform(2.0, 5.0)

    def share(theta: np.ndarray) -> np.ndarray:
        late = days - peak - theta[:, :1]
        rates = np.exp(0.3 * theta[:, 1:])
        return 0.2 / (np.exp(-grows * late) + np.exp(falls * rates * late))

    return (
        lfi.Prior({"shift": stats.norm(0, 1), "rate": stats.norm(0, 1)}),
        lambda theta, rng: rng.binomial(1000, share(theta)).astype(float),
        lambda x, theta: stats.binom.logpmf(x, 1000, share(theta)).sum(axis=1),
    )


def _banana(rng: np.random.Generator) -> tuple[Any, ...]:
    bend, noise = rng.uniform(0.2, 1.5), np.exp(rng.uniform(np.log(0.05), np.log(0.7), 2))

    def mean(theta: np.ndarray) -> np.ndarray:
        return np.column_stack([0.3 * theta[:, 0], theta[:, 1] + bend * theta[:, 0] ** 2])

    return (
        lfi.Prior({"a": stats.norm(0, 1), "b": stats.uniform(-2, 4)}),
        lambda theta, rng: mean(theta) + noise * rng.standard_normal((len(theta), 2)),
        lambda x, theta: stats.norm.logpdf(x, mean(theta), noise).sum(axis=1),
    )


def run(draws: int = 10, first_seed: int = FIRST_SEED, kinds: tuple[str, ...] = KINDS) -> dict[str, Any]:
    """Return how many posteriors are wrong, and how many of those and of the others are warned of."""
    rows = []
    for kind in kinds:
        for seed in range(first_seed, first_seed + draws):
            rows.append(_judged(kind, seed))
            print("  " + ", ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    wrong = [row for row in rows if row["wrong"]]
    right = [row for row in rows if not row["wrong"]]
    return {
        "benchmark": f"stability of the default posterior on {len(rows)} random problems",
        "wrong": len(wrong),
        "warned of wrong": sum(row["warned"] for row in wrong),
        "warned of others": sum(row["warned"] for row in right) / max(len(right), 1),
        "problems": rows,
    }


def _judged(kind: str, seed: int) -> dict[str, Any]:
    made = problem(kind, seed)
    mean, sd = made.exact()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = lfi.infer(made.simulator, made.prior, made.observed, made.n_simulations, batched=True, seed=seed)
        error = np.abs(posterior.mean() - mean) / sd
        factor = np.exp(np.abs(np.log(posterior.std() / sd)))
    return {
        "kind": kind,
        "seed": seed,
        "simulations": made.n_simulations,
        "error": round(float(error.max()), 2),
        "factor": round(float(factor.max()), 2),
        "stability": None if posterior.stability is None else round(posterior.stability, 2),
        "wrong": bool(error.max() > WRONG_MEAN or factor.max() > WRONG_SCALE),
        "warned": any(isinstance(warning, UnstablePosteriorWarning) for warning in posterior.warnings),
        "notes": sorted({type(warning).__name__ for warning in posterior.warnings}),
    }
