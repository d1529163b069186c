"""Known answers where simulations explode, observations repeat or are incomplete, and models compete."""

import warnings
from typing import Any

import numpy as np
from scipy import stats

from decond import lfi

BUDGETS = (100, 1000)
FACTORS = (1e3, 1e6, 1e50)
WILD_SHARE = 0.02
FIRST_SEED = 5000
"""No setting was chosen on these seeds."""


def run(draws: int = 1, first_seed: int = FIRST_SEED) -> dict[str, Any]:
    """Return errors of means, in exact deviations, and ratios of deviations, for each question and seed."""
    seeds = range(first_seed, first_seed + draws)
    return {
        "benchmark": f"posteriors of the default method with known answers, {draws} draw(s) of each",
        "exploding": [
            row for seed in seeds for kind in _PROBLEMS for n in BUDGETS for row in _exploding(kind, n, seed)
        ],
        "repeated": [
            _repeated(kind, t, seed) for seed in seeds for kind in ("gaussian", "exponential") for t in (1, 10, 100)
        ],
        "missing": [_missing(seed) for seed in seeds],
        "models": [row for seed in seeds for row in _models(seed)],
    }


def _posterior(prior: lfi.Prior, theta: np.ndarray, x: np.ndarray, observed: Any, iid: bool = False) -> lfi.Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lfi.ResidualLikelihood().fit(lfi.Simulations(theta, x), prior).posterior(observed, iid=iid)


def _compared(question: dict[str, Any], posterior: lfi.Posterior, mean: np.ndarray, sd: np.ndarray) -> dict[str, Any]:
    ratio = posterior.std() / sd
    row = {
        **question,
        "mean off, in sd": round(float(np.abs((posterior.mean() - mean) / sd).max()), 2),
        "sd ratio": round(float(ratio[np.argmax(np.abs(np.log(ratio)))]), 2),
        "warnings": sorted({type(warning).__name__ for warning in posterior.warnings}),
    }
    print("  " + ", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


def _linear(rng: np.random.Generator, n: int) -> tuple[lfi.Prior, np.ndarray, np.ndarray, np.ndarray]:
    prior = lfi.Prior({"a": stats.norm(0, 1), "b": stats.norm(0, 1)})
    design = np.array([[1.0, 0.5, -1.0], [0.0, 1.0, 1.0]])
    theta = prior.sample(n, rng)
    return prior, theta, theta @ design + 0.5 * rng.standard_normal((n, 3)), np.array([0.8, 0.2, -0.9])


def _exponential(rng: np.random.Generator, n: int) -> tuple[lfi.Prior, np.ndarray, np.ndarray, np.ndarray]:
    prior = lfi.Prior({"rate": stats.gamma(2.0)})
    theta = prior.sample(n, rng)
    return prior, theta, rng.gamma(15, 1.0 / (15 * theta)), np.array([0.6])


def _counts(rng: np.random.Generator, n: int) -> tuple[lfi.Prior, np.ndarray, np.ndarray, np.ndarray]:
    prior = lfi.Prior({"level": stats.norm(3.0, 0.5), "trend": stats.norm(0, 0.5)})
    theta = prior.sample(n, rng)
    rates = np.exp(theta[:, :1] + theta[:, 1:] * np.array([-1.0, 0.0, 1.0]))
    return prior, theta, rng.poisson(rates).astype(float), np.array([18.0, 25.0, 31.0])


_PROBLEMS = {"linear": _linear, "exponential": _exponential, "counts": _counts}


def _exploding(kind: str, n: int, seed: int) -> list[dict[str, Any]]:
    """Compare with the posterior from the same simulations before some of them are multiplied."""
    prior, theta, x, observed = _PROBLEMS[kind](np.random.default_rng(seed), n)
    calm = _posterior(prior, theta, x, observed)
    wild = np.random.default_rng(seed + 1).random(n) < WILD_SHARE
    rows = []
    for factor in FACTORS:
        found = _posterior(prior, theta, np.where(wild[:, None], factor * x, x), observed)
        question = {
            "problem": kind,
            "simulations": n,
            "factor": f"{factor:.0e}",
            "seed": seed,
            "multiplied": int(wild.sum()),
        }
        rows.append(_compared(question, found, calm.mean(), calm.std()))
    return rows


def _repeated(kind: str, t: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    if kind == "gaussian":
        prior = lfi.Prior({"mean": stats.norm(0, 2)})
        theta, y = prior.sample(1000, rng), 1.0 + rng.standard_normal((t, 1))
        x, variance = theta + rng.standard_normal(theta.shape), 1.0 / (t + 0.25)
        mean, sd = variance * y.sum(), np.sqrt(variance)
    else:
        prior = lfi.Prior({"rate": stats.gamma(2.0)})
        theta, y = prior.sample(1000, rng), rng.exponential(1.0, (t, 1))
        x = rng.exponential(1.0 / theta)
        mean, sd = (2.0 + t) / (1.0 + y.sum()), np.sqrt(2.0 + t) / (1.0 + y.sum())
    found = _posterior(prior, theta, x, y, iid=True)
    return _compared({"model": kind, "repetitions": t, "seed": seed}, found, np.array([mean]), np.array([sd]))


def _missing(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    prior = lfi.Prior({"mean": stats.norm(0, 2)})
    theta, noise = prior.sample(1000, rng), np.array([0.5, 1.0, 2.0])
    x, y = theta + noise * rng.standard_normal((1000, 3)), 1.0 + noise * rng.standard_normal(3)
    variance = 1.0 / (0.25 + np.sum(noise[1:] ** -2))
    mean = variance * np.sum(y[1:] / noise[1:] ** 2)
    found = _posterior(prior, theta, x, [np.nan, *y[1:]])
    return _compared(
        {"missing": "first of three", "seed": seed}, found, np.array([mean]), np.array([np.sqrt(variance)])
    )


def _models(seed: int) -> list[dict[str, Any]]:
    """Compare the evidence ratio of two models, which `lfi.model_probabilities` is made of, with the exact one."""
    rng, n = np.random.default_rng(seed), 1000
    normal = lfi.Prior({"mean": stats.norm(0, 1)})
    theta = normal.sample(n, rng)
    narrow, wide = (theta + sd * rng.standard_normal((n, 1)) for sd in (0.5, 1.5))
    rate = lfi.Prior({"rate": stats.gamma(2.0)})
    rates = rate.sample(n, rng)
    means = rng.gamma(10, 1.0 / (10 * rates))
    levels = lfi.Prior({"level": stats.norm(0, 1)})
    logs = levels.sample(n, rng)
    grid = np.linspace(1e-3, 30.0, 200_000)
    exact_mean = np.trapezoid(stats.gamma(2.0).pdf(grid) * stats.gamma.pdf(0.7, 10, scale=0.1 / grid), grid)
    pairs = {
        "noise 0.5 or 1.5": (
            (normal, theta, narrow, stats.norm(0, np.sqrt(1.25)).pdf(1.3)),
            (normal, theta, wide, stats.norm(0, np.sqrt(3.25)).pdf(1.3)),
            1.3,
        ),
        "shifted or not": (
            (normal, theta, narrow, stats.norm(0, np.sqrt(1.25)).pdf(0.9)),
            (normal, theta, narrow + 1.0, stats.norm(1, np.sqrt(1.25)).pdf(0.9)),
            0.9,
        ),
        "gamma or lognormal": (
            (rate, rates, means, exact_mean),
            (levels, logs, np.exp(logs + 0.5 * rng.standard_normal((n, 1))), stats.lognorm(np.sqrt(1.25)).pdf(0.7)),
            0.7,
        ),
    }
    rows = []
    for name, (*models, observed) in pairs.items():
        logs_found = [_posterior(*model[:3], [observed]).log_evidence or np.nan for model in models]
        exact = models[0][3] / models[1][3]
        ratio = float(np.exp(logs_found[0] - logs_found[1]))
        row = {"pair": name, "seed": seed, "exact ratio": round(exact, 3), "ratio": round(ratio, 3)}
        row["factor"] = round(float(np.exp(abs(np.log(ratio / exact)))), 2)
        print("  " + ", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        rows.append(row)
    return rows
