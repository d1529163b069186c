"""Ten public tasks: C2ST of the default method beside published figures (sbibm, Lueckmann et al. 2021, and later)."""

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.task_simulators import files, task
from decond import lfi

ROUNDS = 3
LOADED_SAMPLES = 2000
"""Samples on each side; sbibm takes 10,000, which makes figures a little larger where they are not at .5."""

PUBLISHED = {
    "two_moons": (0.643, 0.570, 0.760),
    "gaussian_linear_uniform": (0.631, 0.555, None),
    "sir": (0.637, 0.525, 0.591),
    "gaussian_mixture": (0.669, 0.547, None),
    "gaussian_linear": (0.628, 0.538, None),
    "slcp": (0.921, 0.831, 0.941),
    "bernoulli_glm": (0.634, 0.639, 0.780),
    "lotka_volterra": (0.909, 0.619, 0.910),
    "slcp_distractors": (0.978, 0.912, None),
    "bernoulli_glm_raw": (0.870, 0.775, None),
}
"""Best published at 1,000 simulations: sbibm (MLP, sequential), later work (random forest); at 100, TSNPE-PFN."""


def run(
    tasks: Path | None = None,
    budgets: tuple[int, ...] = (100, 1000, 10_000),
    observations: tuple[int, ...] = (1, 2, 3),
    n_samples: int = LOADED_SAMPLES,
    names: tuple[str, ...] = tuple(PUBLISHED),
    method: str = "auto",
) -> dict[str, Any]:
    """Return a row for each task and budget: mean C2ST by network and by forest, their standard errors, seconds."""
    figures: dict[str, Any] = {"benchmark": f"C2ST, {n_samples} v {n_samples} samples, {ROUNDS} rounds"}
    if tasks is None:
        return {**figures, "not run": "name the folder with the tasks' observations and references with --tasks"}
    rows = []
    for name in names:
        for budget in budgets:
            found = np.array([_one(tasks, name, method, number, budget, n_samples) for number in observations])
            mean, errors = found.mean(axis=0), [None, None]
            if len(found) > 1:
                errors = (found.std(axis=0, ddof=1) / np.sqrt(len(found))).round(3).tolist()
            sequential, later, few = PUBLISHED[name]
            rows.append(
                {
                    "task": name,
                    "simulations": budget,
                    "observations": len(found),
                    "network": round(mean[0], 3),
                    "± (network)": errors[0],
                    "forest": round(mean[1], 3),
                    "± (forest)": errors[1],
                    "processor seconds": round(mean[2], 1),
                    "published, network": sequential if budget == 1000 else None,
                    "published, forest": {100: few, 1000: later}.get(budget),
                }
            )
    return {**figures, "C2ST": rows}


def _one(tasks: Path, name: str, method: str, number: int, budget: int, n_samples: int) -> tuple[float, float, float]:
    prior, simulator = task(name, tasks)
    observed, reference = files(name, tasks, number)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = lfi.infer(simulator, prior, observed, budget, ROUNDS, method, batched=True, seed=number, n_jobs=1)
        draws = posterior.sample(n_samples)
    seconds = time.process_time() - start
    known = reference[:n_samples]
    scores = lfi.diagnostics.c2st(draws, known), forest_score(draws, known)
    kinds = ", ".join(sorted({type(warning).__name__ for warning in posterior.warnings}))
    print(f"  {name} {number}, {budget}: {scores[0]:.3f} {scores[1]:.3f}, {seconds:.1f} s {kinds}", flush=True)
    return *scores, seconds


def forest_score(samples: np.ndarray, reference: np.ndarray, seed: int = 1) -> float:
    """Return C2ST by a random forest, as later work scores: 100 trees, five folds, standardized by the reference."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import KFold, cross_val_score

    both = np.concatenate([reference, samples])
    both = (both - reference.mean(axis=0)) / reference.std(axis=0)
    labels = np.repeat([0, 1], [len(reference), len(samples)])
    split = KFold(5, shuffle=True, random_state=seed)
    forest = RandomForestClassifier(random_state=seed)
    return float(cross_val_score(forest, both, labels, cv=split, scoring="accuracy").mean())
