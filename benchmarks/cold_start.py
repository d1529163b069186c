"""From a fresh process to a prediction, and from how many rows on the threads of BLAS gain: idle and beside others.

Users whose machine is busy wait longer, so everything is timed twice: while nothing else of ours runs, and while
another process keeps one core busy. A fresh process imports, fits the toy from its given start and predicts.
`ThreadSettings` has its size from the second table.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.evidence import TRANSFORMED, setting

SIZES = (100, 200, 300, 400, 500, 700, 1000)

PROGRAM = """
from decond import TaskTransformedGP, kernels, problems
p = problems.latent_function()
gp = TaskTransformedGP(kernels.RBF(1.0), kernels.RBF(1.0), 0.1, mean="zero", uncertainty={kind!r}, n_restarts=0)
gp.fit(p.x, p.y, p.y_task, p.z_task).predict(p.x, return_std=True)
"""

PROGRAMS = {
    "import only": "import decond",
    "plain error bars": PROGRAM.format(kind="plain"),
    "honest error bars": PROGRAM.format(kind="honest"),
}


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep one core busy with another process."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            yield
        finally:
            other.kill()


def fresh_process(program: str) -> tuple[float, float]:
    """Run a program in a fresh process; return its seconds by the clock, and those of the processor."""
    before, start = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    after = os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, processor


def run(repeats: int = 8) -> dict[str, Any]:
    """Time every program in turn, idle and beside a busy process; the best of some repeats."""
    fresh_process("import decond")  # files are then in the system's cache
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in PROGRAMS}
    for _ in range(repeats):
        for name, program in PROGRAMS.items():
            (idle, processor), (busy, _) = (_beside(others, program) for others in (nullcontext(), busy_core()))
            found[name].append((idle, processor, busy))
    headings = ("seconds", "processor seconds", "seconds beside a busy process")
    rows = [
        {"fresh process": name, **dict(zip(headings, np.min(runs, axis=0).tolist(), strict=True))}
        for name, runs in found.items()
    ]
    evaluations = [evaluation(n, repeats) for n in SIZES]
    return {"benchmark": f"cold start, {os.cpu_count()} cores", "processes": rows, "n rows, m = n": evaluations}


def evaluation(n: int, repeats: int) -> dict[str, float]:
    """Return seconds of one evidence with gradient on one thread of BLAS and on all, the median of some."""
    _, model, z, _ = setting(TRANSFORMED, n)
    observation, prior = model.observation, model.prior
    rows, targets = observation._checked(prior, z)

    def seconds() -> float:
        start = time.perf_counter()
        observation._log_evidence_and_gradient(prior, rows, targets, False)  # within no `threads_for`
        return time.perf_counter() - start

    found: dict[str, list[float]] = {}
    for _ in range(repeats):
        for label, others in (("", nullcontext()), (" beside a busy process", busy_core())):
            with others:
                for name, threads in (("one thread", 1), ("all threads", None)):
                    with threadpool_limits(threads, "blas"):
                        found.setdefault(name + label, []).extend(seconds() for _ in range(10))
    return {"n": n, **{name: float(np.median(times)) for name, times in found.items()}}


def _beside(others: Any, program: str) -> tuple[float, float]:
    with others:
        return fresh_process(program)
