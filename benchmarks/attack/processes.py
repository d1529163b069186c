"""Killed and interrupted programs: nothing is lost, nothing changes, and nothing is left running."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attack.harness import Try
from benchmarks.attack.stores import differs

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys, time
from scipy import stats
from decond import lfi

def simulator(theta, rng):
    time.sleep(0.02)
    if theta[0] < 0.3:
        raise ValueError("rate too small")
    return theta[0] * rng.standard_normal(2)

if __name__ == "__main__":
    prior = lfi.Prior({"rate": stats.gamma(2)})
    n_jobs, timeout = int(sys.argv[1]), float(sys.argv[2]) or None
    store = sys.argv[3] if len(sys.argv) > 3 else None
    print("begin", flush=True)
    found = lfi.simulate(simulator, prior, 120, store=store, n_jobs=n_jobs, timeout=timeout, progress=False)
    print("end", found.n_valid, flush=True)
"""

ENDS = {"SIGKILL": 10.0, "SIGTERM": 3.0, "SIGINT": 3.0, "SIGHUP": 3.0, "SIGQUIT": 3.0}
"""Seconds within which everything has to end."""


def kills(folder: Path) -> tuple[Try, float]:
    """Kill a program that simulates, again and again, and let it end: the same simulations as of one that lived."""
    (folder / "program.py").write_text(PROGRAM)
    return partial(_try_kills, folder, _run(folder, 1, 0.0, folder / "whole.sqlite")), 300.0


def signals(folder: Path) -> tuple[Try, float]:
    """End a program that simulates by each signal: with all of its processes, in time, and without its store lost."""
    (folder / "program.py").write_text(PROGRAM)
    return partial(_try_signal, folder, _run(folder, 1, 0.0, folder / "whole.sqlite")), 300.0


def _run(folder: Path, n_jobs: int, limit: float, store: Path) -> Any:
    """Run the program to its end, and return what its store holds."""
    from decond import lfi

    subprocess.run(_command(n_jobs, limit, store), cwd=folder, env=_environment(), check=True, capture_output=True)
    with lfi.SimulationStore(store) as opened:
        return opened.simulations(0)


def _command(n_jobs: int, limit: float, store: Path) -> list[str]:
    return [sys.executable, "program.py", str(n_jobs), str(limit), str(store)]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def _try_kills(folder: Path, expected: Any, seed: int) -> str:
    rng = np.random.default_rng([4, seed])
    store = folder / f"store{seed}.sqlite"
    n_jobs, limit = [(1, 0.0), (2, 0.0), (1, 5.0), (2, 5.0)][seed % 4]
    for _ in range(2):
        problem = _ended(folder, n_jobs, limit, store, "SIGKILL", float(rng.uniform(0.0, 2.0)))
        if problem:
            return problem
    what = differs(_run(folder, n_jobs, limit, store), expected, len(expected))
    return f"after two kills there are other {what}" if what else ""


def _try_signal(folder: Path, expected: Any, seed: int) -> str:
    rng = np.random.default_rng([5, seed])
    store = folder / f"signal{seed}.sqlite"
    n_jobs, limit = [(1, 0.0), (2, 0.0), (1, 5.0), (2, 5.0)][seed // len(ENDS) % 4]
    name = list(ENDS)[seed % len(ENDS)]
    problem = _ended(folder, n_jobs, limit, store, name, float(rng.uniform(0.0, 2.0)))
    if problem:
        return problem
    what = differs(_run(folder, n_jobs, limit, store), expected, len(expected))
    return f"after {name} there are other {what}" if what else ""


def _ended(folder: Path, n_jobs: int, limit: float, store: Path, name: str, delay: float) -> str:
    """Start the program, end it by a signal, and return what outlives it."""
    program = subprocess.Popen(
        _command(n_jobs, limit, store),
        cwd=folder,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert program.stdout is not None
    program.stdout.readline()
    time.sleep(delay)
    how = f"{name}, n_jobs={n_jobs}, {'with' if limit else 'no'} limit"
    if name == "SIGINT":  # as a terminal does it, to the whole group
        os.killpg(program.pid, signal.SIGINT)
    else:
        program.send_signal(signal.Signals[name])
    deadline = time.monotonic() + ENDS[name]
    while time.monotonic() < deadline and (program.poll() is None or _within(folder)):
        time.sleep(0.1)
    left = _within(folder)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    program.kill()
    program.communicate()
    return f"{how}: processes live on after {ENDS[name]:g} s" if left else ""


def _within(folder: Path) -> list[int]:
    """Return the processes that work in a folder: what a program has started is there too."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "cwd").resolve() == folder.resolve() and "Z" not in (place / "stat").read_text().split()[2]:
                found.append(int(place.name))
        except OSError:
            continue
    return found
