"""Learning a sparse model: where inducing points start, and few passes over many rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from decond.errors import ArgumentError
from decond.gp import FitResult, LogNormal, Variable, maximize_evidence, select
from decond.parameters import Constraint
from decond.streaming.model import SparseModel
from decond.streaming.sources import Source
from decond.streaming.surveys import SAMPLE, Survey

__all__ = ["Search", "learn", "starting_points"]


class Search(NamedTuple):
    """What is learned of a sparse model, within which ranges and with which hyperpriors, and how long.

    >>> search = Search(free=("noise", "inducing"), bounds={"noise": (0.01, 1.0)})
    >>> search.n_restarts, search.full_iterations
    (0, 10)
    """

    free: tuple[str, ...]
    bounds: Mapping[str, tuple[Any, Any]] = {}
    hyperpriors: Mapping[str, LogNormal] = {}
    n_restarts: int = 0
    max_iterations: int = 100
    full_iterations: int = 10
    """Iterations over all rows, after those over a sample, where there are more rows than that."""
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


def learn(
    model: SparseModel, source: Source, seen: Survey, search: Search, also: Sequence[Mapping[str, Any]] = ()
) -> FitResult:
    """Maximize the evidence over what is free; the first start is the model as given.

    `also` are further starts, as hyperparameters by path. Restarts draw other inducing points (if these are free) and
    hyperparameters around those of the model. Of many rows a sample is learned from first; the best start then goes
    on with all rows for a few iterations. Targets of the source and of what was seen of it are in the same units.

    >>> from decond.kernels import RBF
    >>> from decond.streaming import Table, survey
    >>> x = np.linspace(0, 6, 50)[:, None]
    >>> table = Table(x, np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(50))
    >>> model = SparseModel(RBF(1.0), inducing=x[::10], noise=1.0)
    >>> result = learn(model, table, survey(table, seed=0), Search(free=("noise",)))
    >>> result.status, round(result.model.noise, 2)
    ('converged', 0.1)
    """
    if search.n_restarts < 0:
        raise ArgumentError("n_restarts", f"n_restarts is {search.n_restarts}; it must be 0 (one start) or more.")
    sample = seen.sample
    scaled = _InColumnUnits(model, *_units(sample.x))
    starts = [*also, *_restarts(scaled, sample.x, search)]
    first = maximize_evidence(
        scaled,
        sample,
        search.variables(scaled),
        n_restarts=0,
        max_iterations=search.max_iterations,
        progress=search.progress,
        quiet=() if seen.complete else search.free,
        also=starts,
    )
    return _in_data_units(first if seen.complete else _continued(first, source, len(sample), search))


def _continued(first: FitResult, source: Source, sampled: int, search: Search) -> FitResult:
    """Go on with all rows from what a sample has taught; the counts are those of both searches."""
    final = maximize_evidence(
        first.model,
        source,
        search.variables(first.model),
        n_restarts=0,
        max_iterations=search.full_iterations,
        progress=search.progress,
    )
    story = f"of {len(source)} rows, {sampled} were learned from first ({first.status}), then all of them: "
    end = final.message if final.status == "converged" else f"{search.full_iterations} more iterations at most."
    return replace(
        final,
        message=story + end,
        evaluations=first.evaluations + final.evaluations,
        failures=first.failures + final.failures,
        starts=first.starts + final.starts,
    )


def _restarts(model: "_InColumnUnits", x: np.ndarray, search: Search) -> Iterator[dict[str, Any]]:
    """Yield values near those of the model, and other inducing points, for every restart."""
    rng = np.random.default_rng(search.seed)
    for attempt in range(search.n_restarts):
        values: dict[str, Any] = {}
        for variable in search.variables(model):
            if variable.name == "inducing":
                points = starting_points(x, len(model.model.inducing), search.seed + attempt + 1)
                if len(points) == len(model.model.inducing):  # else there are too few distinct rows for others
                    values["inducing"] = (points - model.center) / model.scale
                continue
            free = variable.free(variable.start) + rng.standard_normal(variable.start.size)
            values[variable.name] = variable.natural(free)
        yield values


def _in_data_units(result: FitResult) -> FitResult:
    """Return the result with its inducing points in the units of the data."""
    model = result.model.model
    parameters = {**result.parameters, **({"inducing": model.inducing} if "inducing" in result.parameters else {})}
    return replace(result, model=model, parameters=parameters)


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

    def log_evidence(self, z: Source) -> float:
        return self.model.log_evidence(z)

    def log_evidence_and_gradient(self, z: Source, *, points: bool = True) -> tuple[float, dict[str, Any]]:
        value, gradient = self.model.log_evidence_and_gradient(z, points=points)
        return value, {**gradient, "inducing": gradient["inducing"] * self.scale}


def _units(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return center and deviation of every column; a column that never changes has the unit one."""
    center = x.mean(axis=0)
    deviation = x.std(axis=0)
    return center, np.where(deviation > 1e-12 * np.maximum(np.abs(center), 1e-300), deviation, 1.0)


def _some(x: np.ndarray, count: int, seed: int) -> np.ndarray:
    if len(x) <= count:
        return x
    return x[np.sort(np.random.default_rng(seed).choice(len(x), count, replace=False))]
