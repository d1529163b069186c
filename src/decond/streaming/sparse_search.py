"""Learning a sparse model: where inducing points start, few passes over many rows, and which objective to trust.

Titsias' bound of the evidence cannot overfit through the inducing points, but holds what they leave open against a
model, which costs accuracy where they are few. The evidence of the sparse model does not, and takes what they leave
open for noise; with many points and few rows it overfits. So the search goes from the bound on to the evidence, and
stays there if rows that were held out are clearly better predicted.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from decond.errors import ArgumentError
from decond.gp import FitResult, LogNormal, Variable, maximize_evidence, select
from decond.gp.search import warn_of_bounds
from decond.parameters import Constraint
from decond.streaming.sources import Chunk, Source, Table, Work
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
class HoldOutSettings:
    """Which rows are held out, and what they decide."""

    share: float = 0.1
    """Of the rows that are learned from first: the convention of early stopping in scikit-learn."""
    most: int = 2_000
    """Rows at most, which give the mean log density to about two hundredths."""
    every: int = 5
    """Iterations from one look at them to the next."""
    patience: int = 10
    """Iterations in which the objective has to rise by one, or the search ends."""
    advantage: float = 4.0
    """Smaller differences of held-out log densities are not reliable (Sivula, Magnusson & Vehtari 2020)."""
    standard_errors: float = 2.0
    """Nor are those of fewer standard errors (the same)."""
    fractions: int = 33
    """Fractions of the residuals that may not be noise, of which a mean is taken."""


@dataclass(frozen=True)
class SparseSearch:
    """What is learned of a sparse model, within which ranges and with which hyperpriors, and how long."""

    free: tuple[str, ...]
    """Paths of parameters, and "inducing"."""
    bounds: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    hyperpriors: Mapping[str, LogNormal] = dataclasses.field(default_factory=dict)
    objective: Literal["auto", "evidence", "bound"] = "auto"
    n_restarts: int = 0
    max_iterations: int = 100
    full_iterations: int = 50
    """Iterations over all rows, after those over a sample or without rows held out; `max_iterations` at most."""
    seed: int = 0
    progress: Callable[[int, float], None] | None = None
    hold_out: HoldOutSettings = HoldOutSettings()

    def __post_init__(self) -> None:
        if self.n_restarts < 0:
            raise ArgumentError("n_restarts", f"n_restarts is {self.n_restarts}; it must be 0 (one start) or more.")

    @property
    def _full(self) -> int:
        return min(self.full_iterations, self.max_iterations)

    def run(
        self, model: SparseModel, source: Source, summary: Summary, also: Iterable[Mapping[str, Any]] = ()
    ) -> FitResult:
        """Maximize the objective over what is free.

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
        start = _InUnits.of(model, summary.sample.x)
        starts = [*(start.relative(values) for values in also), *self._restarts(start, summary.sample.x)]
        held = _HeldOut.of(summary, self.seed, self.hold_out)
        if model.mediator_noise is None or self.objective == "bound" or held is None:
            return self._without_held_out(start, source, summary, starts)
        rounds: list[_Round] = []
        if self.objective == "auto":
            rounds.append(self._search(start.with_objective("bound"), held.rest, self.max_iterations, starts))
            start, starts = rounds[0].model.with_objective("evidence"), []
        rounds.append(self._search(start, held.rest, self.max_iterations, starts, held))
        best = rounds[-1].best
        assert best is not None
        if self.objective == "auto" and not held.prefers(best, held.judged(rounds[0].model.model, held.rest)):
            last = self._search(rounds[0].model, source, self._full)
            return self._concluded([*rounds, last], last.model.model, summary)
        if not summary.complete:
            rest = _Without(source, held.positions)
            rounds.append(self._search(start.at(best.model), rest, self._full))
            best = held.judged(rounds[-1].model.model, rest)
        return self._concluded(rounds, best.model, summary)

    def _without_held_out(
        self, start: "_InUnits", source: Source, summary: Summary, also: list[dict[str, Any]]
    ) -> FitResult:
        """Maximize one objective: from all rows, or from a sample and then from all rows."""
        rounds = [self._search(start, summary.sample, self.max_iterations, also)]
        if not summary.complete:
            rounds.append(self._search(rounds[0].model, source, self._full))
        return self._concluded(rounds, rounds[-1].model.model, summary)

    def _search(
        self,
        start: "_InUnits",
        source: Source,
        iterations: int,
        also: Iterable[Mapping[str, Any]] = (),
        held: "_HeldOut | None" = None,
    ) -> "_Round":
        """Maximize the objective of `start`; with rows held out, look at them on the way."""
        watch = _Watch(held, self.hold_out)
        result = maximize_evidence(
            start,
            source,
            self._variables(start),
            n_restarts=0,
            max_iterations=iterations,
            progress=self.progress,
            quiet=self.free,
            also=list(also),
            watch=watch,
        )
        if held is not None and watch.best is None:
            watch.best = held.judged(result.model.model, held.rest)
        if result.status == "stopped" and watch.values and not watch.verdict:
            result = dataclasses.replace(result, message=f"{result.message} {watch.rise()}.")
        return _Round(result, watch.best, watch.verdict)

    def _concluded(self, rounds: list["_Round"], model: SparseModel, summary: Summary) -> FitResult:
        """Return one result of all rounds, with the model that was chosen."""
        results = [one.result for one in rounds]
        last, values = rounds[-1], {**model.values(), **model.points()}
        first = (
            ""
            if summary.complete
            else f"of {summary.count} rows, {len(summary.sample)} were learned from first, then all of them; "
        )
        warn_of_bounds(last.result.on_bounds)
        return dataclasses.replace(
            last.result,
            model=model,
            parameters={path: values[path] for path in self.free},
            status="converged" if last.verdict else last.result.status,
            message=f"{first}{model.objective}: {last.verdict or last.result.message}",
            evaluations=sum(result.evaluations for result in results),
            failures=sum(result.failures for result in results),
            starts=results[0].starts,
        )

    def _variables(self, model: "_InUnits") -> list[Variable]:
        bounds = {path: tuple(end / model.units[path] for end in ends) for path, ends in self.bounds.items()}
        hyperpriors = {
            path: LogNormal(prior.median / model.units[path], prior.spread)
            for path, prior in self.hyperpriors.items()
        }
        return select(model, self.free, bounds=bounds, hyperpriors=hyperpriors)

    def _restarts(self, start: "_InUnits", x: Array) -> Iterator[dict[str, Any]]:
        """Yield values near those of the model, and other inducing points, for every restart."""
        rng = np.random.default_rng(self.seed)
        for attempt in range(self.n_restarts):
            values: dict[str, Any] = {}
            for variable in self._variables(start):
                if variable.name == "inducing":
                    points = starting_points(x, len(start.model.inducing), self.seed + attempt + 1)
                    if len(points) == len(start.model.inducing):  # else there are too few distinct rows for others
                        values |= start.relative({"inducing": points})
                    continue
                free = variable.free(variable.start) + rng.standard_normal(variable.start.size)
                values[variable.name] = variable.natural(free)
            yield values


class _Round(NamedTuple):
    """One search, the best model on rows that were held out, and why it ended, if not for want of iterations."""

    result: FitResult
    best: "_Judged | None"
    verdict: str

    @property
    def model(self) -> "_InUnits":
        """The model at the end of the search."""
        found: _InUnits = self.result.model
        return found


class _Judged(NamedTuple):
    """A model and the log density of each row that was held out, targets with their noise."""

    model: SparseModel
    densities: Array


class _HeldOut:
    """Rows that nothing is learned from, except how much of the residuals is noise."""

    def __init__(self, summary: Summary, chosen: NDArray[np.intp], settings: HoldOutSettings) -> None:
        sample, left = summary.sample, np.ones(len(summary.sample), dtype=bool)
        left[chosen] = False
        self.rest, self.rows = Table(sample.x[left], sample.z[left]), Table(sample.x[chosen], sample.z[chosen])
        self.positions = summary.positions[chosen]
        self.settings = settings

    @classmethod
    def of(cls, summary: Summary, seed: int, settings: HoldOutSettings) -> "_HeldOut | None":
        """Return some of the rows of a sample; None of so few that a share of them is less than two."""
        count = min(settings.most, int(settings.share * len(summary.sample)))
        if count < 2:
            return None
        return cls(summary, np.random.default_rng(seed).permutation(len(summary.sample))[:count], settings)

    def judged(self, model: SparseModel, source: Source) -> _Judged:
        """Return how well a model that has read a source predicts these rows.

        The bound says itself what the inducing points leave open. The evidence takes that for noise: here it is told
        from noise by its pattern, as the share s and the noise that predict these rows best.

        Parameters
        ----------
        model : SparseModel
        source : Source
            What it has read.
        """
        mean, resolved, left_open = model.condition(model.statistics(source), flat=False).parts(self.rows.x)
        errors = np.square(self.rows.z - mean)
        if model.objective == "evidence":
            model = _calibrated(model, errors, resolved, left_open, self.settings)
        variance = resolved + model.open_share * left_open + model.measurement_noise**2
        densities = norm.logpdf(np.sqrt(errors), scale=np.sqrt(variance)[:, None]).sum(axis=1)
        return _Judged(model, densities)

    def prefers(self, one: _Judged, other: _Judged) -> bool:
        """Return whether these rows are clearly better predicted by one model than by another.

        Parameters
        ----------
        one, other : _Judged
        """
        difference = one.densities - other.densities
        error = float(np.sqrt(len(difference)) * difference.std())
        least = max(self.settings.advantage, self.settings.standard_errors * error)
        return float(difference.sum()) > least


def _calibrated(
    model: SparseModel, errors: Array, resolved: Array, left_open: Array, settings: HoldOutSettings
) -> SparseModel:
    """Return the model with the noise, and share of what is left open, that these errors suggest.

    Which fraction of their variance is left open and not noise, shows only in the pattern of their sizes. So it is
    the mean over all fractions, weighted by likelihood, where the likeliest would take little knowledge for much.
    """
    level = max(float(left_open.mean()), np.finfo(float).tiny)

    def _fitted(fraction: float) -> tuple[float, float]:
        """Return the highest log-likelihood, and the variance there."""
        pattern = 1.0 - fraction + fraction * left_open / level

        def _loss(logarithm: float) -> float:
            variance = (resolved + model.noise**2 * np.exp(logarithm) * pattern)[:, None]
            return 0.5 * float(np.sum(np.log(variance) + errors / variance))

        found = minimize_scalar(_loss, bounds=(np.log(1e-3), np.log(1e3)), method="bounded")
        return -float(found.fun), model.noise**2 * float(np.exp(found.x))

    fractions = np.linspace(0.0, min(1.0, level / model.noise**2), settings.fractions)
    likelihoods = np.array([_fitted(fraction)[0] for fraction in fractions])
    weights = np.exp(likelihoods - likelihoods.max())
    fraction = float(fractions @ weights / weights.sum())
    variance = _fitted(fraction)[1]
    share = min(fraction * variance / level, 1.0)
    noise = max(1.0 - fraction, np.finfo(float).eps) * variance
    return model.replace(target_noise=float(np.sqrt(noise)), open_share=share)


class _Watch:
    """Ends a search that no longer gains anything: of the objective, or on rows that were held out."""

    def __init__(self, held: _HeldOut | None, settings: HoldOutSettings) -> None:
        self.held, self.settings = held, settings
        self.best: _Judged | None = None
        self.verdict = ""
        self.values: list[float] = []

    def __call__(self, model: "_InUnits", value: float) -> None:
        """Take note of the model after an iteration."""
        self.values.append(value)
        patience = self.settings.patience
        if len(self.values) > patience and value - self.values[-1 - patience] < 1.0:
            self.verdict = f"{self.rise()}."
        if self.held is not None and len(self.values) % self.settings.every == 0:
            self._look(self.held.judged(model.model, self.held.rest))
        if self.verdict:
            raise StopIteration

    def rise(self) -> str:
        """Return how much the objective rose in the last iterations, in words."""
        last = self.values[-1 - self.settings.patience :]
        return f"The objective rose by {last[-1] - last[0]:.2g} in the last {len(last) - 1} iterations"

    def _look(self, found: _Judged) -> None:
        assert self.held is not None
        if self.best is None or found.densities.sum() > self.best.densities.sum():
            self.best = found
        elif self.held.prefers(self.best, found):
            self.verdict = "Held-out rows were clearly better predicted some iterations before."


class _Without(Source):
    """A source without some of its rows."""

    def __init__(self, source: Source, positions: NDArray[np.intp]) -> None:
        self.source, self.positions = source, np.sort(positions)
        self.names, self.flat, self.chunks = source.names, source.flat, source.chunks

    @property
    def width(self) -> int:
        return self.source.width

    def total(self, work: Work[Any]) -> Any:
        return self.source.total(_Dropping(work, self.positions))

    def __len__(self) -> int:
        return len(self.source) - len(self.positions)


@dataclass(frozen=True, eq=False)
class _Dropping:
    """Work on chunks without some rows; a chunk that would be empty stays, because sums need a row."""

    work: Work[Any]
    positions: NDArray[np.intp]

    def __call__(self, chunk: Chunk) -> Any:
        stop = chunk.start + len(chunk.rows)
        first, last = np.searchsorted(self.positions, [chunk.start, stop])
        if 0 < last - first < len(chunk.rows):
            left = np.delete(np.arange(len(chunk.rows)), self.positions[first:last] - chunk.start)
            chunk = chunk._replace(rows=chunk.rows[left], targets=chunk.targets[left])
        return self.work(chunk)


@dataclass(frozen=True, eq=False)
class _InUnits:
    """A sparse model in units in which a search takes the same steps whatever the units of the table are.

    Inducing points are in units of their columns, positive parameters in units of where they started.
    """

    model: SparseModel
    units: Mapping[str, Any]
    center: Array

    @classmethod
    def of(cls, model: SparseModel, x: Array) -> "_InUnits":
        """Return a model in units of itself, and of the columns of x."""
        limits = model.constraints()
        units = {
            path: np.where((limits[path].lower == 0.0) & (np.asarray(value) > 0.0), value, 1.0)
            for path, value in model.values().items()
            if value is not None
        }
        center, units["inducing"] = _units(x)
        return cls(model, units, center)

    def at(self, model: SparseModel) -> "_InUnits":
        """Return another model in the same units."""
        return dataclasses.replace(self, model=model)

    def with_objective(self, objective: Literal["evidence", "bound"]) -> "_InUnits":
        """Return the same model with another objective."""
        return self.at(self.model.replace(objective=objective))

    def relative(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values by path in these units."""
        origin = {"inducing": self.center}
        return {
            path: (value - origin.get(path, 0.0)) / self.units[path]
            for path, value in values.items()
            if path in self.units
        }

    def values(self) -> dict[str, Any]:
        return self.relative(self.model.values())

    def points(self) -> dict[str, Any]:
        return self.relative(self.model.points())

    def constraints(self) -> dict[str, Constraint]:
        return self.model.constraints()

    def with_values(self, values: Mapping[str, Any]) -> "_InUnits":
        natural = {path: value * self.units[path] for path, value in values.items()}
        if "inducing" in natural:
            natural["inducing"] += self.center
        return self.at(self.model.with_values(natural))

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
        return value, {path: slope * self.units[path] for path, slope in gradient.items()}


def _units(x: Array) -> tuple[Array, Array]:
    """Return center and deviation of every column; a column that never changes has the unit one."""
    center, spread = x.mean(axis=0), x.std(axis=0)
    return center, np.where(spread > 1e-12 * np.maximum(np.abs(center), 1e-300), spread, 1.0)
