"""The dual embedding beside the task-transformed model and the usual baselines, on the paper's toy; and its speed.

RMSE is to the true f on [-6, 6]: on the paper's own draw of the toy, and on draws that chose nothing. "best
settings" is the closed-form saddle point with the lengthscales and the ridge, of those that DualEmbedding chooses
from, that are best for the truth: what the method could do if it knew how to choose.
"""

import itertools
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.honest_bands import Tables, toy
from decond import kernels
from decond.estimators import (
    CascadeGP,
    DualEmbedding,
    EcologicalGP,
    ImputeGP,
    TaskTransformedFeatures,
    TaskTransformedGP,
)
from decond.estimators.dual import SETTINGS, _Dual, _features
from decond.features import Nystrom
from decond.plotting import COLORS
from decond.plotting.display import new_figure
from decond.problems import LatentFunctionProblem, latent_function

GRID = np.linspace(-6.0, 6.0, 241)[:, None]
TRUTH = LatentFunctionProblem.f(GRID)[:, 0]
FIRST_SEED = 9100
"""Where fresh draws begin: draws that nothing was chosen on, not even by looking at their errors."""

FEATURES = 200
OWN, BEST = "the paper's draw", "dual embedding, best settings"
MODELS: dict[str, Callable[[], Any]] = {
    "TaskTransformedGP, honest": lambda: TaskTransformedGP(targets="single"),
    "TaskTransformedGP, plain": lambda: TaskTransformedGP(uncertainty="plain"),
    "DualEmbedding": DualEmbedding,
    "cascade": CascadeGP,
    "impute": ImputeGP,
    "regression on mean x": EcologicalGP,
}


def rmse(mean: np.ndarray) -> float:
    return float(np.sqrt(np.mean((mean - TRUTH) ** 2)))


def best_possible(tables: Tables) -> float:
    """Return the smallest error of any of the settings, which only the truth can tell."""
    x, y, y_task, z = tables
    centered, ridges = (z - z.mean())[:, None], np.array(SETTINGS.ridges) / min(len(x), len(z))
    found = []
    for scale_x, scale_y in itertools.product(SETTINGS.scales_x, SETTINGS.scales_y):
        features = Nystrom.pivoted(kernels.RBF(scale_x * x.std(axis=0)), x, FEATURES)
        psi = _features(kernels.RBF(scale_y * y.std(axis=0)), y, y_task, FEATURES)
        saddle = _Dual(*psi, centered, is_smooth=True)
        weights = saddle.weights(saddle.cross(features.transform(x)), ridges)
        found += [rmse(features(GRID) @ w[:, 0] + z.mean()) for w in weights]
    return min(found)


def errors(tables: Tables) -> dict[str, float]:
    found = {name: rmse(make().fit(*tables).predict(GRID)) for name, make in MODELS.items()}
    return {**found, BEST: best_possible(tables)}


def large(rows: int) -> list[dict[str, Any]]:
    """Return seconds and RMSE from two tables of so many rows."""
    tables = toy(FIRST_SEED, n=rows, m=rows)
    model, dual_times = timed(lambda: DualEmbedding().fit(*tables))
    other, other_times = timed(lambda: TaskTransformedFeatures().fit(*tables))
    means = (
        ("DualEmbedding", dual_times, model.predict(GRID)),
        ("TaskTransformedFeatures", other_times, other.predict(GRID)),
    )
    return [{"system": name, **times, "RMSE": rmse(mean)} for name, times, mean in means]


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Return what a function returns, and what that took; processor seconds count every core."""
    start, processor = time.perf_counter(), time.process_time()
    found = work()
    return found, {"seconds": time.perf_counter() - start, "processor seconds": time.process_time() - processor}


def summary(draws: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return mean, median and worst error of every model over the fresh draws, and that on the paper's own."""
    own, fresh = draws[0], draws[1:]
    return [
        {
            "model": name,
            "mean": float(np.mean([draw[name] for draw in fresh])),
            "median": float(np.median([draw[name] for draw in fresh])),
            "worst": float(np.max([draw[name] for draw in fresh])),
            OWN: own[name],
        }
        for name in (*MODELS, BEST)
    ]


def run(draws: int = 10, rows: int = 100_000) -> dict[str, Any]:
    """Compare accuracy on draws of the toy, then speed on large tables."""
    p = latent_function()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        speed = large(rows)
        found = [{"draw": OWN, **errors((p.x, p.y, p.y_task, p.z_task))}]
        found += [{"draw": str(seed), **errors(toy(seed))} for seed in range(FIRST_SEED, FIRST_SEED + draws)]
    return {
        "benchmark": f"dual embedding on the paper's toy, {draws} draws from seed {FIRST_SEED}",
        "notes": [
            "RMSE to the true f on [-6, 6]; 100 pairs and 150 task rows. “Mean x” is E[x given y].",
            f"“{BEST}” knows the truth: it shows how much of the error is the choice of lengthscales and ridge.",
        ],
        "RMSE": summary(found),
        f"{rows:,} pairs and as many task rows": speed,
        "every draw": found,
    }


def plot(result: dict[str, Any]) -> Any:
    """Draw every error as a dot, a row for each model, with the mean of the fresh draws as a bar."""
    figure, (ax,) = new_figure(1, size=(8.0, 3.6))
    names = [row["model"] for row in result["RMSE"]]
    for height, row in enumerate(result["RMSE"]):
        color = COLORS["model"] if "Dual" in row["model"] or row["model"] == BEST else COLORS["observed"]
        values = [draw[row["model"]] for draw in result["every draw"][1:]]
        ax.plot(values, np.full(len(values), height), "o", color=color, ms=4, alpha=0.6)
        ax.plot([row["mean"]] * 2, [height - 0.3, height + 0.3], color=color, lw=2.5)
        ax.plot(row[OWN], height, "D", color=COLORS["truth"], ms=4.5, mfc="none")
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlim(left=0.0)
    ax.set_xlabel("RMSE to f on [-6, 6]: dots are draws, bars their mean, diamonds the paper's draw")
    ax.grid(axis="x", alpha=0.25, lw=0.5)
    return figure
