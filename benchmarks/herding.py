"""Herding from an embedding whose values at the candidates are known: us, coreax, and a plain NumPy loop."""

from typing import Any

import numpy as np

from benchmarks.peer import Costs, Field
from benchmarks.report import plot_times, with_ratios
from benchmarks.timing import best_times
from decond import MeanEmbedding, kernels
from decond.embeddings.herding import Herding
from decond.plotting.display import new_figure

CANDIDATES, SAMPLES = (10**3, 10**4, 10**5), (10**2, 10**3, 10**4)
QUICK_CANDIDATES, QUICK_SAMPLES = (300, 1000), (50, 100)
DIMENSION, LENGTHSCALE = 4, 0.5
MOST_LOOP_ENTRIES = 2 * 10**8
"""Kernel values up to which the plain loop is run as well: it takes seconds then."""


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


def run(peers: str | None = None, quick: bool = False) -> dict[str, Any]:
    """Time every system at every size."""
    candidates, samples = (QUICK_CANDIDATES, QUICK_SAMPLES) if quick else (CANDIDATES, SAMPLES)
    field = Field({"coreax": "coreax_herding"}, {"coreax"}, peers)
    rows = []
    for R in candidates:
        for S in (count for count in samples if count <= R):
            rows.append(with_ratios({"candidates": R, "samples": S, **compare(R, S, field)}))
            print(rows[-1], flush=True)
    return {
        "benchmark": "herding",
        "notes": [
            f"Seconds of the best of several rounds in turn; RBF kernel, {DIMENSION} columns, float64, all cores "
            "for everybody; the values of the embedding at the candidates are given to everybody.",
            "coreax: KernelHerding(unique=False), compiled before it is timed. It takes no more samples than "
            "candidates.",
            "`same choices` is the share of samples that are the same candidate as ours, in the same order; where "
            "choices differ, two candidates were equally good up to rounding. `MMD` is the distance of the first "
            "samples' embedding from the target, ours and coreax's.",
        ],
        "seconds": rows,
    }


def compare(n_candidates: int, n_samples: int, field: Field) -> dict[str, Any]:
    """Return seconds by system, and how well choices agree."""
    embedding, candidates = problem(n_candidates)
    values, kernel = embedding(candidates), embedding.kernel
    herd = lambda: Herding(values, candidates, kernel).draw_indices(n_samples)  # noqa: E731
    ours = herd()
    functions: dict[str, Any] = {"decond": herd}
    loop = n_candidates * n_samples <= MOST_LOOP_ENTRIES
    if loop:
        functions["plain NumPy"] = lambda: straightforward(values, candidates, LENGTHSCALE, n_samples)
    known = {"candidates": candidates, "values": values, "samples": n_samples, "lengthscale": LENGTHSCALE}
    entries = n_candidates * n_samples
    row: dict[str, Any] = {}
    with field.ready(known, Costs(entries, entries)) as (peers, absent):
        for name, peer in peers.items():
            theirs = np.array(peer.ask()["chosen"])
            row |= agreement(name, ours, theirs, embedding, candidates)
        clocks = {name: peer.clock for name, peer in peers.items()}
        times = best_times(functions, clocks, repeats=5, budget=20.0, warm_up=entries < 10**8)
    return {**({} if loop else {"plain NumPy": "too slow"}), **times, **absent, **row}


def problem(n_candidates: int) -> tuple[MeanEmbedding, np.ndarray]:
    """Return an embedding with weights of both signs, and candidates."""
    rng = np.random.default_rng(0)
    points, weights = rng.standard_normal((500, DIMENSION)), rng.uniform(-0.2, 1.0, 500)
    candidates = 1.2 * rng.standard_normal((n_candidates, DIMENSION))
    return MeanEmbedding(kernels.RBF(LENGTHSCALE), points, weights / weights.sum()), candidates


def agreement(
    name: str, ours: np.ndarray, theirs: np.ndarray, embedding: MeanEmbedding, candidates: np.ndarray
) -> dict[str, Any]:
    """Return the share of equal choices and both distances; refuse a peer that ends up somewhere else."""
    some = [MeanEmbedding(embedding.kernel, candidates[chosen[:2000]]) for chosen in (ours, theirs)]
    distances = [sample.mmd(embedding) for sample in some]
    np.testing.assert_allclose(distances[1], distances[0], rtol=1e-2, err_msg=name)
    return {"same choices": f"{np.mean(ours == theirs):.1%}", "MMD": " ".join(f"{d:.5f}" for d in distances)}


def plot(result: dict[str, Any]) -> Any:
    """Draw seconds against samples, a panel for each number of candidates."""
    rows = result["seconds"]
    counts = sorted({row["candidates"] for row in rows})
    figure, axes = new_figure(len(counts), size=(10.5, 3.6))
    for ax, count in zip(axes, counts, strict=True):
        plot_times(ax, [row for row in rows if row["candidates"] == count], "samples", f"{count:,} candidates")
    return figure
