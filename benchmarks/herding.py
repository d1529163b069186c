"""Herding against a straightforward NumPy loop over the same algorithm."""

from typing import Any

import numpy as np

from benchmarks.timing import best_time
from decond import MeanEmbedding, kernels


def straightforward(values: np.ndarray, candidates: np.ndarray, lengthscale: float, n: int) -> np.ndarray:
    """Return the chosen candidates' numbers, the way one would write it down."""
    total = np.zeros(len(candidates))
    chosen = []
    for s in range(1, n + 1):
        best = int(np.argmax(values - total / s))
        chosen.append(best)
        squared = ((candidates - candidates[best]) ** 2).sum(axis=1)
        total += np.exp(-0.5 * squared / lengthscale**2)
    return np.array(chosen)


def run(n_candidates: int = 10_000, n_samples: int = 10_000, dimension: int = 4) -> dict[str, Any]:
    """Time both on a weighted embedding and check that they choose the same candidates."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((500, dimension))
    weights = rng.uniform(-0.2, 1.0, 500)
    embedding = MeanEmbedding(kernels.RBF(0.5), points, weights / weights.sum())
    candidates = 1.2 * rng.standard_normal((n_candidates, dimension))
    values = embedding(candidates)
    ours = embedding.herding(candidates).draw_indices(n_samples)
    theirs = straightforward(values, candidates, 0.5, n_samples)
    agreement = float(np.mean(ours == theirs))
    if agreement < 0.99:
        raise AssertionError(f"only {agreement:.1%} of the samples agree with the plain loop")
    seconds = best_time(lambda: embedding.herd(n_samples, candidates), repeats=2)
    rival = best_time(lambda: straightforward(values, candidates, 0.5, n_samples), repeats=2)
    return {
        "benchmark": "herding",
        "candidates": n_candidates,
        "samples": n_samples,
        "dimension": dimension,
        "distinct_samples": len(np.unique(ours)),
        "seconds": seconds,
        "numpy_loop_seconds": rival,
        "times_faster_than_numpy_loop": rival / seconds,
    }
