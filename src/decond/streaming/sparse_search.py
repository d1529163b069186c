"""Learning a sparse model: where inducing points start, and few passes over many rows."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decond.errors import ArgumentError
from decond.gp import FitResult, LogNormal, Variable, maximize_evidence, select
from decond.parameters import Constraint
from decond.streaming.sources import Source
from decond.streaming.sparse_gp import SparseModel
from decond.streaming.statistics import Summary

__all__ = ["SparseSearch", "starting_points"]

Array = NDArray[np.float64]


def starting_points(x: Array, n: int, seed: int) -> Array:
    """Return up to n distinct rows, spread out as k-means++ spreads them, with columns in units of their deviation.

    Parameters
    ----------
    x : ndarray of shape (m, d)
        Rows; of very many, 10,000 are looked at.
    n : int
        How many points.
    seed : int
        Of everything random.

    Returns
    -------
    ndarray of shape (n, d)

    References
    ----------
    D. Arthur and S. Vassilvitskii (2007). k-means++: the advantages of careful seeding. SODA.

    Examples
    --------
    >>> starting_points(np.array([[0.0], [0.0], [5.0], [9.0]]), 3, seed=0).ravel()
    array([0., 5., 9.])
    """
    from sklearn.cluster import kmeans_plusplus

    if len(x) > 10_000:
        x = x[np.sort(np.random.default_rng(seed).choice(len(x), 10_000, replace=False))]
    distinct, index = np.unique(x, axis=0, return_index=True)
    if len(distinct) <= n:
        return distinct
    rows = x[np.sort(index)]
    center, scale = _units(rows)
    _, chosen = kmeans_plusplus((rows - center) / scale, n, random_state=seed)
    return rows[np.unique(chosen)]


@dataclass(frozen=True)
class SparseSearch:
    """What is learned of a sparse model, within which ranges and with which hyperpriors, and how long."""

    free: tuple[str, ...]
    """Paths of parameters, and "inducing"."""
    bounds: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    hyperpriors: Mapping[str, LogNormal] = dataclasses.field(default_factory=dict)
    n_restarts: int = 0
    max_iterations: int = 100
    full_iterations: int = 10
    """Iterations over all rows, after those over a sample, where there are more rows than that."""
    seed: int = 0
    progress: Callable[[int, float], None] | None = None

    def __post_init__(self) -> None:
        if self.n_restarts < 0:
            raise ArgumentError("n_restarts", f"n_restarts is {self.n_restarts}; it must be 0 (one start) or more.")

    def run(
        self, model: SparseModel, source: Source, summary: Summary, also: Iterable[Mapping[str, Any]] = ()
    ) -> FitResult:
        """Maximize the evidence over what is free.

        Restarts draw other inducing points (if these are free) and hyperparameters around those of the model. Of many
        rows a sample is learned from first; the best start then goes on with all rows for a few iterations.

        Parameters
        ----------
        model : SparseModel
            The first start.
        source : Source
            All rows.
        summary : Summary
            A sample of them, with targets in the same units.
        also : iterable of mappings
            Further starts, as hyperparameters by path.

        Returns
        -------
        FitResult
        """
        sample = summary.sample
        scaled = _InColumnUnits(model, *_units(sample.x))
        result = maximize_evidence(
            scaled,
            sample,
            self._variables(scaled),
            n_restarts=0,
            max_iterations=self.max_iterations,
            progress=self.progress,
            quiet=() if summary.complete else self.free,
            also=[*also, *self._restarts(scaled, sample.x)],
        )
        if not summary.complete:
            final = maximize_evidence(
                result.model,
                source,
                self._variables(result.model),
                n_restarts=0,
                max_iterations=self.full_iterations,
                progress=self.progress,
            )
            message = (
                f"of {len(source)} rows, {len(sample)} were learned from first ({result.status}), then all of them: "
                f"{final.message}"
            )
            counts = {name: getattr(result, name) + getattr(final, name) for name in ("evaluations", "failures")}
            result = dataclasses.replace(final, message=message, starts=result.starts + final.starts, **counts)
        learned = result.model.model
        points = {"inducing": learned.inducing} if "inducing" in result.parameters else {}
        return dataclasses.replace(result, model=learned, parameters={**result.parameters, **points})

    def _variables(self, model: "_InColumnUnits") -> list[Variable]:
        return select(model, self.free, bounds=self.bounds, hyperpriors=self.hyperpriors)

    def _restarts(self, model: "_InColumnUnits", x: Array) -> Iterator[dict[str, Any]]:
        """Yield values near those of the model, and other inducing points, for every restart."""
        rng = np.random.default_rng(self.seed)
        for attempt in range(self.n_restarts):
            values: dict[str, Any] = {}
            for variable in self._variables(model):
                if variable.name == "inducing":
                    points = starting_points(x, len(model.model.inducing), self.seed + attempt + 1)
                    if len(points) == len(model.model.inducing):  # else there are too few distinct rows for others
                        values["inducing"] = (points - model.center) / model.scale
                    continue
                free = variable.free(variable.start) + rng.standard_normal(variable.start.size)
                values[variable.name] = variable.natural(free)
            yield values


class _InColumnUnits:
    """A sparse model with inducing points in units of their columns, so that one step fits all of them."""

    def __init__(self, model: SparseModel, center: Array, scale: Array) -> None:
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
        """Return log p(z) and its gradient, as `SparseModel.log_evidence_and_gradient`.

        Parameters
        ----------
        z : Source
            Rows and targets.
        points : bool
            As there.
        """
        value, gradient = self.model.log_evidence_and_gradient(z, points=points)
        return value, {**gradient, "inducing": gradient["inducing"] * self.scale}


def _units(x: Array) -> tuple[Array, Array]:
    """Return center and deviation of every column; a column that never changes has the unit one."""
    center, spread = x.mean(axis=0), x.std(axis=0)
    return center, np.where(spread > 1e-12 * np.maximum(np.abs(center), 1e-300), spread, 1.0)
