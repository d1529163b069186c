"""From a fresh process to a prediction: import, fit the toy from its given start, predict; first and second time."""

import os
import subprocess
import sys
import tempfile
import time
from typing import Any

PROGRAM = """
from decond import TaskTransformedGP, kernels, problems
p = problems.latent_function()
gp = TaskTransformedGP(kernels.RBF(1.0), kernels.RBF(1.0), 0.1, mean="zero", uncertainty={kind!r}, n_restarts=0)
gp.fit(p.x, p.y, p.y_task, p.z_task).predict(p.x, return_std=True)
"""


def seconds(kind: str, cache: str) -> float:
    """Return the seconds of one fresh process whose compiled code is kept in a folder."""
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", PROGRAM.format(kind=kind)], check=True, env=environment)
    return time.perf_counter() - start


def run(repeats: int = 8) -> dict[str, Any]:
    """Time both kinds of error bars; the best of some repeats, each first time with an empty folder.

    Compiling takes some hundredths of a second, less than single runs differ by: hence the repeats.
    """
    figures: dict[str, Any] = {"benchmark": "cold start"}
    for kind in ("plain", "honest"):
        first, second = [], []
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as cache:
                first.append(seconds(kind, cache))
                second.append(seconds(kind, cache))
        figures[f"{kind}: first_seconds"], figures[f"{kind}: second_seconds"] = min(first), min(second)
    return figures
