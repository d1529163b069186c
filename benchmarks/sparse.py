"""A million rows: one evidence with gradient of the sparse model against its operation count, and memory of a fit.

The yardstick is the time that the machine takes for 4mn² operations as plain matrix products, in the same run. Memory
is the peak of a fresh process that makes the table, fits a `SparseGP` with its defaults, and predicts.
"""

import subprocess
import sys
from typing import Any

import numpy as np

from benchmarks.timing import best_times, matrix_products, product_count
from decond import kernels
from decond.scale import SparseModel, Table

FIT = """
import resource, sys, time
from benchmarks.sparse import problem
from decond.estimators import SparseGP
rows, points, columns = (int(argument) for argument in sys.argv[1:])
x, z = problem(rows, columns)
start = time.perf_counter()
gp = SparseGP(n_inducing=points).fit(x, z)
seconds = time.perf_counter() - start
gp.predict(x)
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, gp.score(x[:10_000], z[:10_000]))
"""


def problem(m: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and noisy targets of a smooth function of all columns."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (m, d))
    return x, np.sin(3.0 * x[:, 0]) * x[:, 1] + np.cos(x).sum(axis=1) + 0.3 * rng.standard_normal(m)


def run(m: int = 1_000_000, n: int = 256, d: int = 3) -> dict[str, Any]:
    """Time the evaluation, then measure the fit."""
    x, z = problem(m, d)
    table = Table(x, z - z.mean())
    model = SparseModel(1.5 * kernels.Matern32(np.linspace(1.0, 2.0, d)), x[:n], noise=0.3)
    operations = 4.0 * m * n**2
    times = best_times(
        {"us": lambda: model.log_evidence_and_gradient(table), "limit": matrix_products(operations)}, repeats=3
    )
    limit = times["limit"] * operations / (2.0 * 2000**3 * product_count(operations))
    command = [sys.executable, "-c", FIT, str(m), str(n), str(d)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    fit_seconds, gigabytes, score = (float(number) for number in answer.split())
    return {
        "benchmark": "sparse model of many rows",
        "rows": m,
        "inducing_points": n,
        "columns": d,
        "seconds": times["us"],
        "limit_seconds": limit,
        "times_the_limit": times["us"] / limit,
        "fit_seconds": fit_seconds,
        "fit_peak_gigabytes": gigabytes,
        "fit_score": score,
    }
