"""Coverage, accuracy and cost of honest and plain error bars, on draws of the paper's toy that chose nothing.

Each target of the toy is a single measurement, and the honest models are told so. `two modes` is the same toy with x
given y in two places.
"""

import time
import warnings
from typing import Any

import numpy as np

from decond.estimators import TaskTransformedGP
from decond.problems import LatentFunctionProblem

FIRST_SEED = 9000
GRID = np.linspace(-5.0, 5.0, 201)[:, None]
Tables = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def toy(seed: int, modes: int = 1, n: int = 100, m: int = 150, noise: float = 0.25) -> Tables:
    """Draw the tables of the toy; with two modes, x lies 3 further on for half of the rows."""
    rng = np.random.default_rng(seed)

    def inputs(y: np.ndarray) -> np.ndarray:
        shift = 3.0 * rng.integers(modes, size=y.shape)
        return LatentFunctionProblem.r(y) - 1.5 * (modes - 1) + shift + noise * rng.standard_normal(y.shape)

    y = rng.uniform(-6.0, 6.0, (n, 1))
    x = inputs(y)
    y_task = rng.uniform(-6.0, 6.0, (m, 1))
    z = LatentFunctionProblem.f(inputs(y_task))[:, 0] + noise * rng.standard_normal(m)
    return x, y, y_task, z


def score(tables: Tables, uncertainty: str) -> tuple[float, float, float]:
    """Return RMSE and coverage of the 95 % band on [-5, 5], and the seconds of the fit."""
    truth = LatentFunctionProblem.f(GRID)[:, 0]
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        targets = "single" if uncertainty == "honest" else "mean"  # the plain model has no other form
        model = TaskTransformedGP(targets=targets, uncertainty=uncertainty).fit(*tables)
    seconds = time.perf_counter() - start
    mean, std = model.predict(GRID, return_std=True)
    inside = np.mean(np.abs(mean - truth) <= 1.96 * std)
    return float(np.sqrt(np.mean((mean - truth) ** 2))), float(inside), seconds


def run(draws: int = 20, first_seed: int = FIRST_SEED) -> dict[str, Any]:
    """Compare both kinds of error bars on the same draws."""
    score(toy(0), "honest"), score(toy(0), "plain")  # the first fit imports more
    results: dict[str, Any] = {"benchmark": f"honest bands, {draws} draws from seed {first_seed}"}
    for modes, label in ((1, "toy"), (2, "two modes")):
        figures = {}
        for kind in ("plain", "honest"):
            table = np.array([score(toy(seed, modes), kind) for seed in range(first_seed, first_seed + draws)])
            figures[kind] = table
            rmse, coverage, _ = table.T
            results[f"{label}, {kind}: coverage mean"] = coverage.mean()
            results[f"{label}, {kind}: coverage worst"] = coverage.min()
            results[f"{label}, {kind}: rmse mean"] = rmse.mean()
            results[f"{label}, {kind}: rmse median"] = float(np.median(rmse))
        plain, honest = (figures[kind].mean(axis=0) for kind in ("plain", "honest"))
        results[f"{label}: rmse honest / plain"] = honest[0] / plain[0]
        results[f"{label}: cost honest / plain"] = honest[2] / plain[2]
    return {key: float(value) if isinstance(value, np.floating) else value for key, value in results.items()}
