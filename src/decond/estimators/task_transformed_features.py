"""Two tables of any length that share only a mediator: finite features, and a fit that holds sums instead of rows."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from decond.checks import Seed, as_count, as_deviation, as_rows, as_seed, as_targets, check_choice, check_same_length
from decond.conditional.mediator import linked_mediators, mediator_of_numbers
from decond.errors import ArgumentError, ArgumentTypeError
from decond.estimators.defaults import SearchRanges, smooth_kernel
from decond.estimators.regressor import ProbabilisticRegressor
from decond.features import FeatureKernel, FeatureMap, Nystrom, as_kernel
from decond.gp import FitResult, LogNormal, Variable, maximize_evidence, select
from decond.gp.search import Progress
from decond.kernels import Scaled
from decond.kernels.kernel import Kernel
from decond.parameters import same
from decond.streaming.cluster import as_cluster_source
from decond.streaming.feature_gp import FeatureModel, FeaturePosterior, FeatureStatistics, Tables, check_same_columns
from decond.streaming.sources import Source, Table
from decond.streaming.statistics import Summary, deviation, summarize

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["TaskTransformedFeatures"]

Array = NDArray[np.float64]
Rows = ArrayLike | Source


@dataclass(eq=False, repr=False)
class TaskTransformedFeatures(ProbabilisticRegressor):
    """z as a function of x from pairs (x, y) and task rows (y, z), of any number each, with f linear in features.

    The model is the paper's task-transformed Bayesian linear model (Theorem 5.3, part 1) in features of two kernels.
    Each table is read once for its sums, and a fitted model keeps these and no row. The noise σ and the prior
    variances of both functions are learned from the sums. As in the paper the noise of the pairs is tied to that of
    the targets. Error bars are the posterior's at the learned hyperparameters: for tables of a few hundred rows
    `TaskTransformedGP` has better ones. Both x and y are numbers. Sums round: where a tiny noise would let that be
    seen in predictions, there is a warning.

    Parameters
    ----------
    kernel_x, kernel_y : Kernel or FeatureMap, optional
        Covariances of f and of the mediating function, in the units of the data; by default Matern-3/2 with a
        lengthscale for each column. A kernel is seen through landmarks among some rows (Nyström features). A feature
        map, such as ``features.RandomFourier``, is used as it is, and nothing of it learned.
    n_features : int
        How many features each kernel gets.
    noise : float, optional
        σ, the standard deviation of the targets' noise, where learning starts; by default it starts from the data.
    mean : {"constant", "zero"}
        "constant" subtracts the mean of the targets and adds it back in predictions.
    mediator : {"full", "map"}
        "full" keeps the uncertainty of the mediating function, "map" drops it.
    optimize : bool
        Whether to learn; otherwise everything is used as given.
    lengthscales : {"subsample", "given"}
        Learned from a sample of each table, or used as given.
    sample_size : int
        Rows of this sample, of tables that have more than twice as many.
    seed : int, Generator or None
        Of everything random.

    Examples
    --------
    >>> from decond.problems import latent_function
    >>> p = latent_function(3000, 3000)
    >>> model = TaskTransformedFeatures(n_features=50).fit(p.x, p.y, p.y_task, p.z_task)
    >>> mean, std = model.predict([[0.0], [2.0]], return_std=True)
    >>> bool(np.all(np.abs(mean - [2.0, -1.0]) < 3 * std))
    True
    """

    _statistics: FeatureStatistics = field(init=False)
    _flat: bool = field(init=False)
    _answer: "_Answer | None" = field(init=False)

    kernel_x: Kernel | FeatureMap | None = None
    kernel_y: Kernel | FeatureMap | None = None
    n_features: int = 200
    noise: float | None = None
    mean: Literal["constant", "zero"] = "constant"
    mediator: Literal["full", "map"] = "full"
    optimize: bool = True
    lengthscales: Literal["subsample", "given"] = "subsample"
    sample_size: int = 5000
    seed: Seed = 0

    def fit(
        self,
        x: Rows,
        y: Rows | None,
        y_task: ArrayLike | None = None,
        z_task: ArrayLike | None = None,
        client: "Client | None" = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from pairs (x, y), row by row, and from task rows (y_task, z_task).

        Parameters
        ----------
        x, y : array_like of shape (n, d) and (n, e), or two Sources
            Pairs. Sources come as two: ``fit(pairs, task)``, pairs with rows x and targets y, task with rows y and
            targets z.
        y_task, z_task : array_like of shape (m, e) and (m,) or (m, t), optional
            Task rows, unless sources were given.
        client : distributed.Client, optional
            Its workers read the tables.
        progress : callable, optional
            Called with the number of evaluations and the best objective so far.

        Returns
        -------
        TaskTransformedFeatures
            This estimator.
        """
        self._check_settings()
        self._mediator_names: Sequence[str] | None = None
        self._lengthscales: FitResult | None = None
        tables = self._tables((x, y, y_task, z_task), client, first=True)
        if tables.pairs is None or tables.task is None:
            raise ArgumentError(
                "x" if tables.pairs is None else "y_task",
                "fit needs both tables, pairs (x, y) and task rows (y_task, z_task); partial_fit one.",
            )
        sides, samples = self._choose(tables)
        self.features_x_, self.features_y_ = (side.features for side in sides)
        if samples is not None and self.optimize and self.lengthscales != "given":
            self._learn_lengthscales(sides, samples, progress)
        return self._take(FeatureStatistics(), tables)

    def partial_fit(
        self,
        x: Rows | None = None,
        y: Rows | None = None,
        y_task: ArrayLike | None = None,
        z_task: ArrayLike | None = None,
        client: "Client | None" = None,
    ) -> Self:
        """Add pairs, task rows or both, in any order; features stay, noise and prior variances follow all rows.

        After `fit` it adds to what was learned there. Without `fit`, lengthscales and landmarks that are not given
        come from the first rows, which then have to be pairs.

        Parameters
        ----------
        x, y, y_task, z_task, client
            As in `fit`; either table may be None.

        Returns
        -------
        TaskTransformedFeatures
            This estimator.
        """
        self._check_settings()
        first = not self.__sklearn_is_fitted__()
        tables = self._tables((x, y, y_task, z_task), client, first=first or not hasattr(self, "n_features_in_"))
        if first:
            self._lengthscales = None
            sides, _ = self._choose(tables)
            self.features_x_, self.features_y_ = (side.features for side in sides)
            return self._take(FeatureStatistics(), tables)
        return self._take(self._statistics, tables)

    def merge(self, other: "TaskTransformedFeatures") -> Self:
        """Add the rows that another model with the same features has read.

        >>> from decond.features import RandomFourier
        >>> from decond.kernels import RBF
        >>> from decond.problems import latent_function
        >>> p, maps = latent_function(), (RandomFourier(RBF(1.0)), RandomFourier(RBF(0.5)))
        >>> here = TaskTransformedFeatures(*maps).partial_fit(p.x, p.y)
        >>> there = TaskTransformedFeatures(*maps).partial_fit(None, None, p.y_task, p.z_task)
        >>> here.merge(there).posterior_
        FeaturePosterior(200 and 200 features, 100 pairs, 150 task rows, ...)
        """
        check_is_fitted(self)
        if not isinstance(other, TaskTransformedFeatures):
            raise ArgumentTypeError(
                "other",
                f"other is a {type(other).__name__}; a fitted TaskTransformedFeatures can take up another one only.",
            )
        check_is_fitted(other)
        known = [hasattr(model, "n_features_in_") for model in (self, other)]
        if all(known):
            self._check_same_columns(other)
        self._check_same_mediators({"other": other._mediator_names})
        if not (same(self.features_x_, other.features_x_) and same(self.features_y_, other.features_y_)):
            raise ArgumentError(
                "other",
                "the two models do not have the same features, so their sums cannot be added. Fit one, and give its "
                "features to the other before that reads anything: "
                "TaskTransformedFeatures(kernel_x=a.features_x_, kernel_y=a.features_y_).",
            )
        statistics = self._statistics + other._statistics
        if self._statistics.task is None:
            self._flat = other._flat
        self._statistics, self._answer = statistics, None
        if not known[0] and known[1]:
            self._restore_columns(other._fitted_columns())
        return self

    def log_marginal_likelihood(self) -> float:
        """Return the log evidence of all targets at the hyperparameters that are used."""
        found, task = self._answered(), self._statistics.task
        assert task is not None
        return float(found.posterior.log_evidence - task.count * np.sum(np.log(found.scale)))

    @property
    def posterior_(self) -> FeaturePosterior:
        """The posterior of f, in units of (z - offset_) / scale_."""
        return self._answered().posterior

    @property
    def offset_(self) -> float | Array:
        """What is subtracted from the targets."""
        return self._in_shape(self._answered().offset)

    @property
    def scale_(self) -> float | Array:
        """What the targets are divided by; one unless there are several target columns."""
        return self._in_shape(self._answered().scale)

    @property
    def noise_(self) -> float:
        """The learned noise σ."""
        return float(self._answered().posterior.model.noise)

    @property
    def fit_result_(self) -> FitResult | None:
        """What learning found, and how it went; None if nothing was learned."""
        return self._answered().result

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is anything that was read."""
        return hasattr(self, "features_x_")

    # ---- settings and tables ----

    def _check_settings(self) -> None:
        check_choice(self.mean, "mean", ("constant", "zero"))
        check_choice(self.mediator, "mediator", ("full", "map"))
        check_choice(self.lengthscales, "lengthscales", ("subsample", "given"))
        for name in ("n_features", "sample_size"):
            as_count(getattr(self, name), name)
        if self.noise is not None:
            remedy = "It is a standard deviation of z; None starts from the data."
            as_deviation(self.noise, "noise", remedy)

    def _tables(self, given: tuple[Any, ...], client: "Client | None", first: bool) -> Tables:
        """Return the tables that were given, as sources; the first pairs say what columns x has."""
        x, y, y_task, z_task = given
        if any(isinstance(table, Source) for table in given):
            _check_sources(given)
            tables = Tables(x, y)
        elif hasattr(x, "__dask_graph__") or hasattr(y_task, "__dask_graph__"):
            sides = ((x, y), (y_task, z_task))
            tables = Tables(*(None if rows is None else as_cluster_source(rows, z, client) for rows, z in sides))
        else:
            tables = _in_memory(*given)
        pairs, task = tables
        if pairs is not None:
            import pandas as pd

            row = pd.DataFrame(np.zeros((1, pairs.width)), columns=pairs.names)
            self._remember_columns(row, "x") if first else self._known_columns(row)
        self._check_same_mediators(
            {
                "y": None if pairs is None else pairs.target_names or getattr(y, "columns", None),
                "y_task": None if task is None else task.names or getattr(y_task, "columns", None),
            }
        )
        if client is None:
            return tables
        return Tables(*(None if table is None else as_cluster_source(table, client=client) for table in tables))

    def _check_same_mediators(self, names: dict[str, Sequence[str] | None]) -> None:
        """Raise if arguments name other columns than those that are known; remember the first otherwise."""
        known = getattr(self, "_mediator_names", None)
        for argument, found in names.items():
            if found is None:
                continue
            known = list(found) if known is None else known
            if list(found) != known:
                raise ArgumentError(
                    argument,
                    f"the mediator has the columns {list(found)} here and {known} elsewhere; it links the two "
                    "tables, so both need the same columns in the same order.",
                )
        self._mediator_names = known

    # ---- features and what is learned of them ----

    def _choose(self, tables: Tables) -> tuple[tuple["_Side", "_Side"], tuple[Summary, Summary | None] | None]:
        """Return the features of x and y, as given or from samples; and the samples, if they were needed."""
        first = None if self.kernel_x is None else as_kernel(self.kernel_x, "kernel_x")
        second = None if self.kernel_y is None else as_kernel(self.kernel_y, "kernel_y")
        seed = as_seed(self.seed)
        if isinstance(first, FeatureKernel) and isinstance(second, FeatureKernel):
            return (_Side(first.features, free=False), _Side(second.features, free=False)), None
        if tables.pairs is None:
            raise ArgumentError(
                "x",
                "the first rows have to be pairs (x, y), because lengthscales or landmarks are chosen from them. To "
                "start with task rows, give kernel_x and kernel_y as feature maps.",
            )
        pairs = summarize(tables.pairs, seed, self.sample_size)
        task = None if tables.task is None else summarize(tables.task, seed + 1, self.sample_size)
        y = [pairs.sample.z.reshape(len(pairs.sample), -1)] + ([] if task is None else [task.sample.x])
        check_same_columns("y_task", *(rows.shape[1] for rows in y))
        return (self._side(first, pairs.sample.x), self._side(second, np.concatenate(y))), (pairs, task)

    def _side(self, kernel: Kernel | None, rows: Array) -> "_Side":
        """Return the features of one kernel, with the ranges and hyperpriors of what is learned of it."""
        if isinstance(kernel, FeatureKernel):
            return _Side(kernel.features, free=False)
        bounds, hyperpriors = {}, {}
        if kernel is None:
            choice: Any = smooth_kernel(rows, 1.0, trend=False)
            kernel = choice.kernel.kernel
            bounds["base.lengthscale"] = choice.bounds["kernel.lengthscale"]
            hyperpriors["base.lengthscale"] = choice.hyperpriors["kernel.lengthscale"]
        elif isinstance(kernel, Scaled):
            kernel = kernel.kernel
        return _Side(Nystrom.pivoted(kernel, rows, self.n_features), bounds, hyperpriors)

    def _learn_lengthscales(
        self,
        sides: tuple["_Side", "_Side"],
        samples: tuple[Summary, Summary | None],
        progress: Progress | None,
    ) -> None:
        """Learn the features from samples of both tables."""
        pairs, task = samples
        assert task is not None
        offset = self._offset(task.mean)
        scale = self._scale(task.mean_squares(offset), task.mean)
        sample = Tables(pairs.sample, task.sample.standardized(offset, scale))
        model = FeatureModel(self.features_x_, self.features_y_)
        start = self._start(model, model.statistics(sample), sides)
        found = maximize_evidence(
            start.model,
            sample,
            start.variables(),
            n_restarts=0,
            progress=progress,
            quiet=list(start.model.values()),
        )
        self._lengthscales, self.features_x_, self.features_y_ = found, found.model.features_x, found.model.features_y

    def _start(self, model: FeatureModel, sums: FeatureStatistics, sides: tuple["_Side", ...]) -> "_Start":
        """Return where learning starts: noise and variances as given, or where they are expected from the sums.

        Variances that are learned start from those of the targets, so that the result depends on nothing but sums.
        """
        assert sums.pairs is not None
        assert sums.task is not None
        task = sums.task.standardized()
        spread = float(deviation(np.mean(task.squares, keepdims=True) / task.count, np.zeros(1))[0])
        gains = (sums.pairs.squares.sum(), np.trace(sums.pairs.gram))
        expected = [spread**2 * sums.pairs.count / max(float(gain), np.finfo(float).tiny) for gain in gains]
        first, second = (
            value if self.optimize or kernel is None else getattr(as_kernel(kernel, "kernel"), "variance", 1.0)
            for kernel, value in zip((self.kernel_x, self.kernel_y), expected, strict=True)
        )
        noise = SearchRanges.noise_start * spread if self.noise is None else float(self.noise)
        model = model.replace(noise=noise, variance_x=first, variance_y=second, mediator=self.mediator)
        return _Start(model, sides, spread, *expected)

    # ---- from sums to answers ----

    def _take(self, known: FeatureStatistics, tables: Tables) -> Self:
        """Keep the sums over more rows; answers are computed when they are asked for."""
        found = FeatureModel(self.features_x_, self.features_y_).statistics(tables)
        if known.task is None and tables.task is not None:
            self._flat = tables.task.flat
        self._statistics = known + found
        self._answer = None
        return self

    def _answered(self) -> "_Answer":
        """Return what follows from the sums: units of the targets, noise and variances, the posterior."""
        check_is_fitted(self)
        if self._answer is not None:
            return self._answer
        task = self._statistics.task
        if self._statistics.pairs is None or task is None:
            missing = "pairs (x, y)" if self._statistics.pairs is None else "task rows (y_task, z_task)"
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: it has read no {missing}.")
        offset = self._offset(task.means)
        scale = self._scale(task.standardized(offset).squares / task.count, task.means)
        sums = self._statistics.standardized(offset, scale)
        start = self._start(FeatureModel(self.features_x_, self.features_y_), sums, ())
        model, result = start.model, None
        if self.optimize:
            quiet = ("noise", "variance_y")  # next to no noise, or no ridge: both may well be
            result = maximize_evidence(model, sums, start.variables(), n_restarts=0, quiet=quiet)
            model, result = result.model, _joined(self._lengthscales, result)
        posterior = model.condition(sums, self.n_features_in_, self._flat)
        self._answer = _Answer(posterior, offset, scale, result)
        return self._answer

    def _offset(self, means: Array) -> Array:
        return means if self.mean == "constant" else np.zeros_like(means)

    def _scale(self, squares: Array, means: Array) -> Array:
        """Return the units of the target columns: their own where there are several and something is learned."""
        units = deviation(squares, means)
        if len(squares) > 1 and self.optimize:
            return units
        if not np.all((units > 1e-60) & (units < 1e60)):
            raise ArgumentError(
                "z_task",
                f"the deviation of z_task is {units.min():.1e}; float64 cannot hold the squares of such "
                "variances. Give the targets in other units, in which they are nearer to one.",
            )
        return np.ones(len(squares))

    def _in_shape(self, values: Array) -> float | Array:
        return float(values[0]) if self._flat else values

    # ---- files ----

    def _range_seen(self) -> Array | None:
        pairs = self._statistics.pairs
        return None if pairs is None or pairs.low is None else np.array([pairs.low, pairs.high])

    def _fitted_state(self) -> dict[str, Any]:
        """Return what makes a fresh estimator a fitted one, as plain data."""
        found = self._answered()
        return {
            **self._fitted_columns(),
            "mediator_names": self._mediator_names,
            "statistics": self._statistics.state(),
            "flat": self._flat,
            "model": found.posterior.model,
            "offset": found.offset,
            "scale": found.scale,
            "fit_result": None if found.result is None else found.result.state(),
            "lengthscales": None if self._lengthscales is None else self._lengthscales.state(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        """Take up a state that `_fitted_state` returned."""
        self._restore_columns(state)
        model = state["model"]
        self._mediator_names, self._flat = state["mediator_names"], state["flat"]
        self.features_x_, self.features_y_ = model.features_x, model.features_y
        self._statistics = FeatureStatistics.from_state(state["statistics"])
        result, self._lengthscales = (
            None if state[name] is None else FitResult.from_state(state[name], model)
            for name in ("fit_result", "lengthscales")
        )
        sums = self._statistics.standardized(state["offset"], state["scale"])
        posterior = model.condition(sums, self.n_features_in_, self._flat)
        self._answer = _Answer(posterior, state["offset"], state["scale"], result)


class _Side(NamedTuple):
    """The features of one kernel, ranges and hyperpriors of their parameters."""

    features: FeatureMap
    bounds: Mapping[str, Any] = MappingProxyType({})
    hyperpriors: Mapping[str, LogNormal] = MappingProxyType({})
    free: bool = True
    """Whether its parameters are learned."""


class _Start(NamedTuple):
    """Where learning starts, with the deviation of the targets and the variances that it suggests."""

    model: FeatureModel
    sides: tuple[_Side, ...]
    spread: float
    variance_x: float
    variance_y: float

    def variables(self) -> list[Variable]:
        """Return what is learned: noise and variances, and the parameters of the features of the sides."""
        low, high = SearchRanges.noises[0] * self.spread, SearchRanges.noises[1] * self.spread
        bounds: dict[str, Any] = {"noise": (min(low, self.model.noise), max(high, self.model.noise))}
        hyperpriors: dict[str, LogNormal] = {}
        for path, value in (("variance_x", self.variance_x), ("variance_y", self.variance_y)):
            bounds[path] = (SearchRanges.variances[0] * value, SearchRanges.variances[1] * value)
            hyperpriors[path] = LogNormal(value, SearchRanges.amplitude_spread)
        free = ["noise", *hyperpriors]
        for side, prefix in zip(self.sides, ("features_x.", "features_y."), strict=False):
            if side.free:
                free += [p for p, value in self.model.values().items() if p.startswith(prefix) and np.any(value)]
                bounds.update({prefix + path: value for path, value in side.bounds.items()})
                hyperpriors.update({prefix + path: value for path, value in side.hyperpriors.items()})
        return select(self.model, free, (), bounds, hyperpriors)


class _Answer(NamedTuple):
    """What follows from all sums."""

    posterior: FeaturePosterior
    offset: Array
    scale: Array
    result: FitResult | None


def _joined(lengthscales: FitResult | None, amplitudes: FitResult) -> FitResult:
    """Return one result of two searches: lengthscales first, then noise and variances from all sums."""
    if lengthscales is None:
        return amplitudes
    learned = amplitudes.parameters
    features = {path: value for path, value in lengthscales.parameters.items() if path not in learned}
    first = f"lengthscales from rows ({lengthscales.status}), then noise and variances from all sums: "
    return dataclasses.replace(
        amplitudes,
        parameters={**features, **learned},
        message=first + amplitudes.message,
        evaluations=lengthscales.evaluations + amplitudes.evaluations,
        failures=lengthscales.failures + amplitudes.failures,
        on_bounds=(*(path for path in lengthscales.on_bounds if path not in learned), *amplitudes.on_bounds),
    )


def _in_memory(x: Any, y: Any, y_task: Any, z_task: Any) -> Tables:
    """Return arrays and frames as checked tables; either may be missing, but not a half of it."""
    if x is None and y is None and y_task is None and z_task is None:
        raise ArgumentError("x", "there is nothing to read; give pairs (x, y), task rows (y_task, z_task), or both.")
    for one, other, names in ((x, y, ("x", "y")), (y_task, z_task, ("y_task", "z_task"))):
        if (one is None) != (other is None):
            missing = names[other is None]
            raise ArgumentError(missing, "x goes with y, and y_task with z_task; give both of a table or neither.")
    if x is not None and y_task is not None:
        linked_mediators(as_rows(x, "x"), y, y_task, whole=False)
    pairs = task = None
    if x is not None:
        mediator = mediator_of_numbers(y, "y", "TaskTransformedFeatures")
        check_same_length(mediator, "y", len(as_rows(x, "x")), "x")
        pairs = Table(x, mediator)
    if y_task is not None:
        mediator = mediator_of_numbers(y_task, "y_task", "TaskTransformedFeatures")
        task = Table(mediator, as_targets(z_task, "z_task", len(mediator), "y_task"))
    return Tables(pairs, task)


def _check_sources(given: tuple[Any, ...]) -> None:
    """Raise unless they are two sources, of which either may be missing, and nothing else."""
    kinds = ", ".join(type(table).__name__ for table in given if table is not None)
    names = ("x", "y", "y_task", "z_task")
    strange = [name for name, table in zip(names, given, strict=True) if not isinstance(table, Source | None)]
    if strange and strange[0] in names[:2]:
        raise ArgumentTypeError(
            strange[0],
            f"sources and arrays are mixed ({kinds}). Give two sources, pairs (x, y) and task (y, z), or four arrays "
            "x, y, y_task, z_task; Table(rows, targets) makes a source of two arrays.",
        )
    for name, table in zip(names[2:], given[2:], strict=True):
        if table is not None:
            raise ArgumentError(
                name, "sources have their own targets: give two, pairs (x, y) and task (y, z), or None."
            )
