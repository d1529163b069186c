"""What every peer's script shares: read a problem, then run what standard input asks for and tell how long it took.

A script is called with an .npz file and a JSON text of options. It answers each line of input, the name of a command,
with a line that starts with `answer ` and goes on in JSON: seconds, the process's memory in gigabytes (its peak, and
what it held before the first command), and what the command returned.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MARK = "answer "
"""Tells an answer from what libraries may print."""

Command = Callable[[], dict[str, Any]]


def serve(prepare: Callable[[dict[str, Any]], dict[str, Command]]) -> None:
    """Prepare the commands for the problem named on the command line, then obey."""
    with np.load(sys.argv[1]) as arrays:
        commands = prepare({**arrays, **json.loads(sys.argv[2])})
    before = _gigabytes("VmRSS")
    for line in sys.stdin:
        start = time.perf_counter()
        answer = commands[line.strip()]()
        seconds = time.perf_counter() - start
        told = {"seconds": seconds, "peak": _gigabytes("VmHWM"), "before": before, "answer": answer}
        print(f"\n{MARK}{json.dumps(told)}", flush=True)  # libraries may have left a line open


def maximize(
    evaluate: Callable[[np.ndarray], tuple[float, np.ndarray]], start: Any, **options: Any
) -> dict[str, Any]:
    """Maximize over positive parameters with SciPy's L-BFGS-B on their logarithms."""
    from scipy.optimize import minimize

    def negative(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        parameters = np.exp(logarithms)
        value, gradient = evaluate(parameters)
        return -value, -gradient * parameters

    found = minimize(negative, np.log(start), jac=True, method="L-BFGS-B", options=options)
    return {"value": float(-found.fun), "parameters": np.exp(found.x).tolist(), "evaluations": int(found.nfev)}


def _gigabytes(field: str) -> float:
    """Return the process's resident memory (VmRSS) or the peak of it (VmHWM); zero where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next(float(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith(field))
