"""A million pairs and a million task rows of the paper's toy, against the exact model on 2,000 of each.

The fit runs in a fresh process, for its peak memory. Passes over the tables are counted: with its defaults a model
looks at each table once to draw a sample and reads it once for its sums. `one pass` takes the features that the first
rows have taught, and reads each table exactly once. Coverage is that of the 95 % band on [-5, 5], for several sizes.
"""

import json
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np

from benchmarks.honest_bands import FIRST_SEED, GRID, toy
from decond.estimators import TaskTransformedFeatures, TaskTransformedGP
from decond.problems import LatentFunctionProblem
from decond.streaming import Source, Table

FIT = """
import json, resource, sys
from benchmarks.task_features import large
figures = large(int(sys.argv[1]))
figures["peak_gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
print(json.dumps(figures))
"""

FIRST_ROWS = 5_000

SIZES = ((100, 100), (1_000, 1_000), (10_000, 10_000), (10_000, 100), (100, 10_000))
"""Pairs and task rows of the tables that coverage is measured on."""


class Counted(Source):
    """A table in memory that counts how often it is read from its first row to its last."""

    def __init__(self, x: np.ndarray, z: np.ndarray) -> None:
        self.table, self.passes = Table(x, z), 0
        self.flat = self.table.flat

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.table.width

    def total(self, work: Any) -> Any:
        """Count one pass."""
        self.passes += 1
        return self.table.total(work)

    def __len__(self) -> int:
        return len(self.table)


def score(model: Any) -> tuple[float, float]:
    """Return RMSE and coverage of the 95 % band on [-5, 5]."""
    truth = LatentFunctionProblem.f(GRID)[:, 0]
    mean, std = model.predict(GRID, return_std=True)
    inside = np.mean(np.abs(mean - truth) <= 1.96 * std)
    return float(np.sqrt(np.mean((mean - truth) ** 2))), float(inside)


def large(rows: int) -> dict[str, Any]:
    """Fit large tables with the defaults, and in one pass with features that are known before."""
    x, y, y_task, z = toy(FIRST_SEED, n=rows, m=rows)
    pairs, task = Counted(x, y), Counted(y_task, z)
    start = time.perf_counter()
    model = TaskTransformedFeatures().fit(pairs, task)
    figures: dict[str, Any] = {"seconds": time.perf_counter() - start}
    figures["rmse"], figures["coverage"] = score(model)
    figures["passes over pairs, task"] = f"{pairs.passes}, {task.passes}"
    few = slice(FIRST_ROWS)
    taught = TaskTransformedFeatures().fit(x[few], y[few], y_task[few], z[few])
    pairs, task = Counted(x, y), Counted(y_task, z)
    start = time.perf_counter()
    model = TaskTransformedFeatures(taught.features_x_, taught.features_y_).fit(pairs, task)
    figures["one pass: seconds"] = time.perf_counter() - start
    figures["one pass: rmse"], figures["one pass: coverage"] = score(model)
    figures["one pass: passes over pairs, task"] = f"{pairs.passes}, {task.passes}"
    return figures


def average_score(pairs: int, task_rows: int, draws: int) -> tuple[float, float]:
    """Return mean RMSE and coverage over some draws of the toy."""
    seeds = range(FIRST_SEED, FIRST_SEED + draws)
    found = [score(TaskTransformedFeatures().fit(*toy(seed, n=pairs, m=task_rows))) for seed in seeds]
    rmse, inside = np.mean(found, axis=0)
    return float(rmse), float(inside)


def run(rows: int = 1_000_000, exact_rows: int = 2_000, draws: int = 3) -> dict[str, Any]:
    """Compare accuracy and honesty."""
    answer = subprocess.run([sys.executable, "-c", FIT, str(rows)], check=True, capture_output=True, text=True).stdout
    results: dict[str, Any] = {"benchmark": "task-transformed features of two large tables", "rows of each": rows}
    results.update(json.loads(answer))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        exact = TaskTransformedGP(uncertainty="plain", n_restarts=0).fit(*toy(FIRST_SEED, n=exact_rows, m=exact_rows))
        results["exact: seconds"] = time.perf_counter() - start
        results["exact: rmse"], results["exact: coverage"] = score(exact)
        for size in SIZES:
            results["rmse, coverage at {} + {}".format(*size)] = "{:.3f}, {:.3f}".format(*average_score(*size, draws))
    results["rmse / exact rmse"] = results["rmse"] / results["exact: rmse"]
    return results
