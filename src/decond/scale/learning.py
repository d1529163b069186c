"""Learning a sparse model: where inducing points start, and few passes over many rows."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from decond.learning import FitResult, LogNormal, Variable, maximize_evidence, select
from decond.parameters import Constraint
from decond.scale.blocks import Blocks, Table
from decond.scale.model import SparseModel

__all__ = ["Search", "learn", "starting_points"]

SAMPLE = 10_000
"""Rows that are learned from first, where there are more than twice as many."""

FULL_ITERATIONS = 10
"""Iterations over all rows that follow."""


class Search(NamedTuple):
    """What is learned of a sparse model, within which ranges and with which hyperpriors, and how long."""

    free: tuple[str, ...]
    bounds: Mapping[str, tuple[Any, Any]] = {}
    hyperpriors: Mapping[str, LogNormal] = {}
    n_restarts: int = 0
    max_iterations: int = 100
    seed: int = 0
    progress: Callable[[int, float], None] | None = None

    def variables(self, model: "_InColumnUnits") -> list[Variable]:
        """Return the variables of the model."""
        return select(model, self.free, bounds=self.bounds, hyperpriors=self.hyperpriors)


def starting_points(x: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Return up to n distinct rows, spread out as k-means++ spreads them, with columns in units of their deviation.

    >>> starting_points(np.array([[0.0], [0.0], [5.0], [9.0]]), 3, seed=0).ravel()
    array([0., 5., 9.])
    """
    from sklearn.cluster import kmeans_plusplus

    rows = _some(x, SAMPLE, seed)
    distinct, index = np.unique(rows, axis=0, return_index=True)
    if len(distinct) <= n:
        return distinct
    rows = rows[np.sort(index)]
    center, scale = _units(rows)
    _, chosen = kmeans_plusplus((rows - center) / scale, n, random_state=seed)
    return rows[np.unique(chosen)]


def learn(model: SparseModel, table: Table, search: Search) -> FitResult:
    """Maximize the evidence over what is free; the first start is the model as given.

    Further starts draw other inducing points (if these are free) and hyperparameters around the given ones. Of many
    rows a sample is learned from first; the best start then goes on with all rows for a few iterations.
    """
    if search.n_restarts < 0:
        raise ValueError(f"n_restarts is {search.n_restarts}; it must be 0 (one start) or more.")
    center, scale = _units(table.x)
    many = len(table) > 2 * SAMPLE
    sample = _sampled(table, search.seed) if many else table
    results = [
        _maximized(_InColumnUnits(start, center, scale), sample, search, search.max_iterations, quiet=many)
        for start in _starts(model, sample, search)
    ]
    best = max(results, key=lambda result: max(result.starts))
    if many:
        story = f"of {len(table)} rows, {SAMPLE} were learned from first ({best.status}), then all of them: "
        final = _maximized(best.model, table, search, FULL_ITERATIONS, quiet=False)
        results.append(final)
        end = final.message if final.status == "converged" else f"{FULL_ITERATIONS} more iterations at most."
        best = replace(final, message=story + end)
    return _told(best, results)


def _starts(model: SparseModel, table: Table, search: Search) -> list[SparseModel]:
    """Return the given model and, for every restart, one near it."""
    rng = np.random.default_rng(search.seed)
    center, scale = _units(table.x)
    starts = [model]
    for attempt in range(search.n_restarts):
        values: dict[str, Any] = {}
        for variable in search.variables(_InColumnUnits(model, center, scale)):
            if variable.name == "inducing":
                seed = search.seed + attempt + 1
                values["inducing"] = starting_points(table.x, len(model.inducing), seed)
                continue
            free = variable.free(variable.start) + rng.standard_normal(variable.start.size)
            lower, upper = variable.free(variable.lower), variable.free(variable.upper)
            values.update(dict.fromkeys(variable.paths, variable.natural(np.clip(free, lower, upper))))
        starts.append(model.with_values(values))
    return starts


def _maximized(model: "_InColumnUnits", data: Blocks, search: Search, iterations: int, quiet: bool) -> FitResult:
    return maximize_evidence(
        model,
        data,
        search.variables(model),
        n_restarts=0,
        max_iterations=iterations,
        progress=search.progress,
        quiet=search.free if quiet else (),
    )


def _told(best: FitResult, results: list[FitResult]) -> FitResult:
    """Return the best result in the units of the data, with the counts of all."""
    model = best.model.model
    parameters = {**best.parameters, **({"inducing": model.inducing} if "inducing" in best.parameters else {})}
    return replace(
        best,
        model=model,
        parameters=parameters,
        evaluations=sum(result.evaluations for result in results),
        failures=sum(result.failures for result in results),
        starts=tuple(start for result in results for start in result.starts),
    )


class _InColumnUnits:
    """A sparse model whose inducing points are seen in units of their columns, so that one step fits all of them."""

    def __init__(self, model: SparseModel, center: np.ndarray, scale: np.ndarray) -> None:
        self.model, self.center, self.scale = model, center, scale

    def values(self) -> dict[str, Any]:
        return self.model.values()

    def points(self) -> dict[str, Any]:
        return {"inducing": (self.model.inducing - self.center) / self.scale}

    def constraints(self) -> dict[str, Constraint]:
        return self.model.constraints()

    def with_values(self, values: Mapping[str, Any]) -> "_InColumnUnits":
        natural = dict(values)
        if "inducing" in natural:
            natural["inducing"] = self.center + self.scale * natural["inducing"]
        return _InColumnUnits(self.model.with_values(natural), self.center, self.scale)

    def log_evidence(self, z: Blocks) -> float:
        return self.model.log_evidence(z)

    def log_evidence_and_gradient(self, z: Blocks) -> tuple[float, dict[str, Any]]:
        value, gradient = self.model.log_evidence_and_gradient(z)
        return value, {**gradient, "inducing": gradient["inducing"] * self.scale}


def _units(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return center and deviation of every column; a column that never changes has the unit one."""
    center = x.mean(axis=0)
    deviation = x.std(axis=0)
    return center, np.where(deviation > 1e-12 * np.maximum(np.abs(center), 1e-300), deviation, 1.0)


def _sampled(table: Table, seed: int) -> Table:
    chosen = np.sort(np.random.default_rng(seed).choice(len(table), SAMPLE, replace=False))
    return Table(table.x[chosen], table.z[chosen])


def _some(x: np.ndarray, count: int, seed: int) -> np.ndarray:
    if len(x) <= count:
        return x
    return x[np.sort(np.random.default_rng(seed).choice(len(x), count, replace=False))]
