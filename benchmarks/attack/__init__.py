"""What breaks decond? Mutated files, odd tables, killed processes, damaged stores, signals: seeded, minutes long.

    python -m benchmarks attack --tries 0.01

Each try survives if it ends in an answer that holds, or in an error of decond's own, in time and within its memory.
Every other end is printed: an exception of somebody else, a wrong number, a hang, a death, a process left behind.
Tries run in a child process, so that one that hangs or dies is one line of the table.
"""

import datetime
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.attack.estimator_cases import cases
from benchmarks.attack.harness import Try, attacked
from benchmarks.attack.model_files import models
from benchmarks.attack.processes import kills, signals
from benchmarks.attack.stores import stores
from benchmarks.attack.table_files import tables

FULL = {"models": 10_000, "tables": 5_000, "cases": 1_000, "kills": 20, "stores": 200, "signals": 20}
"""Tries of a whole campaign."""

ATTACKS: dict[str, Callable[[Path], tuple[Try, float]]] = {
    "models": models,
    "tables": tables,
    "cases": cases,
    "kills": kills,
    "stores": stores,
    "signals": signals,
}
"""From a folder to a try and its limit of seconds."""


def run(tries: float = 0.02, first_seed: int = 0, parts: Sequence[str] | None = None) -> dict[str, Any]:
    """Attack, and count what survives.

    Parameters
    ----------
    tries : float
        The fraction of a whole campaign; 1 is all of it.
    first_seed : int
        The seed of the first try.
    parts : sequence of str, optional
        Parts of the campaign, of `FULL`; all by default.
    """
    rows, problems = [], []
    for name in parts or FULL:
        start = time.perf_counter()
        with TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            attempt, limit = ATTACKS[name](Path(folder))
            seeds = range(first_seed, first_seed + max(1, round(tries * FULL[name])))
            found = list(attacked(attempt, seeds, limit))
        survived = sum(not problem for _, problem in found)
        rows.append({"part": name, "tries": len(found), "survived": survived, "s": time.perf_counter() - start})
        kinds = Counter(problem for _, problem in found if problem)
        first = {problem: seed for seed, problem in reversed(found)}
        problems += [
            {"part": name, "times": count, "first seed": first[kind], "problem": kind}
            for kind, count in kinds.most_common()
        ]
    return {
        "benchmark": "What breaks it?",
        "date": f"{datetime.date.today():%Y-%m-%d}",
        "first seed": first_seed,
        "tries": rows,
        "what did not survive": problems,
    }
