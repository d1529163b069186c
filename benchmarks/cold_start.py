"""From a fresh process to a prediction: import, fit the toy from its given start, predict; idle and beside others.

Users whose machine is busy wait longer, so every fresh process is timed twice: while nothing else of ours runs, and
while another process keeps one core busy.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

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
    return {"benchmark": f"cold start, {os.cpu_count()} cores", "processes": rows}


def _beside(others: Any, program: str) -> tuple[float, float]:
    with others:
        return fresh_process(program)
