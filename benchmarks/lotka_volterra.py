"""Lotka–Volterra, 2000 simulations in all: 95 % intervals with the default method, and with ABC, over ten seeds."""

import time
import warnings
from typing import Any

import numpy as np

from decond import lfi, problems

SIMULATIONS = 2000
ROUNDS = 4
WIDTH = 0.43


def run(seeds: int = 10, methods: tuple[str, ...] = ("auto",)) -> dict[str, Any]:
    """Return for each method how many seeds cover the truth, and how wide the first interval is."""
    problem = problems.lotka_volterra()
    figures: dict[str, Any] = {"benchmark": f"Lotka–Volterra, {SIMULATIONS} simulations"}
    for name in methods:
        rows = [_one(problem, name, seed) for seed in range(seeds)]
        inside = np.array([row["inside"] for row in rows])
        width = np.array([row["width"] for row in rows])
        figures[f"{name}: seeds_covering_each_parameter"] = inside.sum(axis=0).tolist()
        figures[f"{name}: seeds_covering_and_narrow"] = int((inside[:, 0] & (width <= WIDTH)).sum())
        figures[f"{name}: mean_width"] = float(width.mean())
        figures[f"{name}: failed_simulations"] = [row["failed"] for row in rows]
        figures[f"{name}: mean_seconds"] = float(np.mean([row["seconds"] for row in rows]))
    return figures


def _one(problem: Any, name: str, seed: int) -> dict[str, Any]:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        posterior = lfi.infer(
            problem.simulator,
            problem.prior,
            problem.observed,
            SIMULATIONS,
            ROUNDS,
            name,
            batched=problem.batched,
            seed=seed,
        )
    low, high = posterior.interval(0.95)
    truth = np.asarray(problem.true_parameters)
    row = {
        "inside": (low <= truth) & (truth <= high),
        "width": float(high[0] - low[0]),
        "failed": None if posterior.simulations is None else posterior.simulations.n_failed,
        "seconds": time.perf_counter() - start,
    }
    print(f"  {name} seed {seed}: [{low[0]:.3f}, {high[0]:.3f}] covers {row['inside'].tolist()}", flush=True)
    return row
