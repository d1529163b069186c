"""Two tables of any length that share only a mediator: finite features, and a fit that holds sums instead of rows."""

from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from decond.checks import as_count, as_number, as_rows, as_seed, as_targets, check_choice, check_same_length
from decond.conditional.mediator import linked_mediators, mediator_of_numbers
from decond.errors import ArgumentError, ArgumentTypeError
from decond.estimators.feature_learning import FeatureLearner, Seen, Side, joined
from decond.estimators.regressor import ProbabilisticRegressor
from decond.gp import FitResult
from decond.streaming import FeaturePosterior, FeatureReading, Source, Table, Tables, deviation
from decond.streaming.cluster import as_cluster_source

__all__ = ["TaskTransformedFeatures"]

FEATURES = ("nystrom", "fourier")
DEVIATIONS = (1e-60, 1e60)
"""Targets within these have squares of variances that are numbers."""

LENGTHSCALES = ("subsample", "passes", "given")


class TaskTransformedFeatures(ProbabilisticRegressor):
    """z as a function of x from pairs (x, y) and task rows (y, z), of any number each, with f linear in features.

    The model is the paper's task-transformed Bayesian linear model (Theorem 5.3, part 1) in features of two kernels.
    Each table is read once for its sums, and a fitted model keeps these and no row. The noise σ and the prior
    variances of both functions are learned from the sums. As in the paper the noise of the pairs is tied to that of
    the targets. Error bars are the posterior's at the learned hyperparameters: for tables of a few hundred rows
    `TaskTransformedGP` has better ones. Both x and y are numbers. Sums round: where a tiny noise would let that be
    seen in predictions, there is a warning.

    Parameters:
        kernel_x, kernel_y: covariances of f and of the mediating function, in the units of the data; None is
            Matern-3/2 with a lengthscale for each column. A feature map is used as it is, and nothing of it learned.
        n_features: how many features each kernel gets.
        features: "nystrom" sees a kernel from landmarks among some rows, "fourier" through random frequencies. It
            takes several times as many of these, and the error bars do not count what they leave out.
        noise: σ, the standard deviation of the targets' noise, where learning starts; None starts from the data.
        mean: "constant" subtracts the mean of the targets and adds it back in predictions, "zero" does not.
        mediator: "full" keeps the uncertainty of the mediating function, "map" drops it.
        optimize: whether to learn; otherwise everything is used as given.
        lengthscales: learned from a "subsample" of each table, from that and then by "passes" over all rows, or
            used as "given".
        sample_size: rows of this subsample, of tables that have more than twice as many.
        full_iterations: of these passes; each reads both tables twice or a little more often.
        seed: of everything random.

    >>> from decond.problems import latent_function
    >>> p = latent_function(3000, 3000)
    >>> model = TaskTransformedFeatures(n_features=50).fit(p.x, p.y, p.y_task, p.z_task)
    >>> mean, std = model.predict([[0.0], [2.0]], return_std=True)
    >>> bool(np.all(np.abs(mean - [2.0, -1.0]) < 3 * std))
    True
    """

    def __init__(
        self,
        kernel_x: Any = None,
        kernel_y: Any = None,
        n_features: int = 200,
        features: str = "nystrom",
        noise: float | None = None,
        mean: str = "constant",
        mediator: str = "full",
        optimize: bool = True,
        lengthscales: str = "subsample",
        sample_size: int = 5_000,
        full_iterations: int = 10,
        seed: int = 0,
    ) -> None:
        self.kernel_x = kernel_x
        self.kernel_y = kernel_y
        self.n_features = n_features
        self.features = features
        self.noise = noise
        self.mean = mean
        self.mediator = mediator
        self.optimize = optimize
        self.lengthscales = lengthscales
        self.sample_size = sample_size
        self.full_iterations = full_iterations
        self.seed = seed

    def fit(
        self, x: Any, y: Any, y_task: Any = None, z_task: Any = None, client: Any = None, progress: Any = None
    ) -> Self:
        """Learn from pairs (x, y), row by row, and from task rows (y_task, z_task).

        Tables that are sources (`ParquetTable`, `Batches`) come as two: ``fit(pairs, task)``, pairs with rows x and
        targets y, task with rows y and targets z. `client` is a Dask client whose workers read them. `progress` is
        called with the number of evaluations and the best objective so far.
        """
        self._check_settings()
        self._mediator_names: list[Any] | None = None
        tables = self._tables((x, y, y_task, z_task), client, first=True)
        if tables.pairs is None or tables.task is None:
            raise ArgumentError(
                "x" if tables.pairs is None else "y_task",
                "fit needs both tables, pairs (x, y) and task rows (y_task, z_task); partial_fit one.",
            )
        learner = self._learner()
        sides, seen = learner.choose(*tables, learning=learner.learns_lengthscales)
        self._lengthscales: FitResult | None = None
        if seen is not None and learner.learns_lengthscales:
            both = Tables(tables.pairs, tables.task)
            sides, self._lengthscales = self._learned(learner, sides, both, seen, progress)
        self._take(FeatureReading(sides[0].features, sides[1].features).having_read(*tables))
        self._settle()
        return self

    def partial_fit(
        self, x: Any = None, y: Any = None, y_task: Any = None, z_task: Any = None, client: Any = None
    ) -> Self:
        """Add pairs, task rows or both, in any order; features stay, noise and prior variances follow all rows.

        After `fit` it adds to what was learned there. Without `fit`, lengthscales and landmarks that are not given
        come from the first rows, which then have to be pairs. Of two sources either may be None.
        """
        self._check_settings()
        first = not self.__sklearn_is_fitted__()
        tables = self._tables((x, y, y_task, z_task), client, first=first or not hasattr(self, "n_features_in_"))
        if first:
            self._lengthscales = None
            sides, _ = self._learner().choose(*tables, learning=False)
            self._take(FeatureReading(sides[0].features, sides[1].features))
        self._take(self._reading.having_read(*tables))
        return self

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
        self._take(self._reading.merged(other._reading))
        if not known[0] and known[1]:
            self._restore_columns(other._fitted_columns())
        return self

    def log_marginal_likelihood(self) -> float:
        """Return the log evidence of all targets at the hyperparameters that are used."""
        check_is_fitted(self)
        settled = self._settle()
        return float(
            settled.posterior.log_evidence - settled.posterior.sums.task.count * np.sum(np.log(settled.scale))
        )

    @property
    def posterior_(self) -> Any:
        """The posterior of f, in units of (z - offset_) / scale_."""
        return self._settle().posterior

    @property
    def offset_(self) -> Any:
        """What is subtracted from the targets."""
        return self._in_shape(self._settle().offset)

    @property
    def scale_(self) -> Any:
        """What the targets are divided by; one unless there are several target columns."""
        return self._in_shape(self._settle().scale)

    @property
    def noise_(self) -> float:
        """The learned noise σ."""
        return self._settle().posterior.model.noise

    @property
    def fit_result_(self) -> FitResult | None:
        """What learning found, and how it went; None if nothing was learned."""
        return self._settle().result

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether there is anything that was read."""
        return hasattr(self, "features_x_")

    # ---- settings and tables ----

    def _check_settings(self) -> None:
        check_choice(self.features, "features", FEATURES)
        check_choice(self.mean, "mean", ("constant", "zero"))
        check_choice(self.mediator, "mediator", ("full", "map"))
        check_choice(self.lengthscales, "lengthscales", LENGTHSCALES)
        as_count(self.n_features, "n_features")
        as_count(self.sample_size, "sample_size")
        as_count(self.full_iterations, "full_iterations")
        if self.noise is not None:
            remedy = "It is a standard deviation of z; None starts from the data."
            as_number(self.noise, "noise", minimum=0.0, strict=True, remedy=remedy)

    def _tables(self, given: tuple[Any, ...], client: Any, first: bool) -> "_Given":
        """Return the tables that were given, as sources; the first pairs say what columns x has."""
        x, y, y_task, z_task = given
        if any(isinstance(table, Source) for table in given):
            _check_sources(given)
            tables = self._with_columns(_Given(x, y), first)
        elif hasattr(x, "__dask_graph__") or hasattr(y_task, "__dask_graph__"):
            pairs = None if x is None else as_cluster_source(x, y, client)
            task = None if y_task is None else as_cluster_source(y_task, z_task, client)
            tables = self._with_columns(_Given(pairs, task), first)
        else:
            tables = self._checked(x, y, y_task, z_task, first)
        self._check_mediators(given, tables)
        if client is None:
            return tables
        return _Given(*(None if table is None else as_cluster_source(table, client=client) for table in tables))

    def _checked(self, x: Any, y: Any, y_task: Any, z_task: Any, first: bool) -> "_Given":
        """Return tables in memory, checked."""
        for names, values in ((("x", "y"), (x, y)), (("y_task", "z_task"), (y_task, z_task))):
            missing = [name for name, value in zip(names, values, strict=True) if value is None]
            if len(missing) == 1:
                raise ArgumentError(
                    missing[0], "x goes with y, and y_task with z_task; give both of a table or neither."
                )
        if x is None and y_task is None:
            raise ArgumentError(
                "x", "there is nothing to read; give pairs (x, y), task rows (y_task, z_task), or both."
            )
        if x is not None and y_task is not None:
            linked_mediators(as_rows(x, "x"), y, y_task, whole=False)
        pairs = task = None
        if x is not None:
            rows = as_rows(self._remember_columns(x, "x") if first else self._known_columns(x), "x")
            y = mediator_of_numbers(y, "y", "TaskTransformedFeatures")
            check_same_length(y, "y", len(rows), "x")
            pairs = Table(rows, y)
        if y_task is not None:
            y_task = mediator_of_numbers(y_task, "y_task", "TaskTransformedFeatures")
            task = Table(y_task, as_targets(z_task, "z_task", len(y_task), "y_task"))
        return _Given(pairs, task)

    def _check_mediators(self, given: tuple[Any, ...], tables: "_Given") -> None:
        """Raise unless the mediator has the same columns in the same order wherever its columns have names."""
        pairs, task = tables
        self._check_same_mediators(
            {
                "y": None if pairs is None else pairs.target_names or getattr(given[1], "columns", None),
                "y_task": None if task is None else task.names or getattr(given[2], "columns", None),
            }
        )

    def _check_same_mediators(self, names: dict[str, Any]) -> None:
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

    def _with_columns(self, tables: "_Given", first: bool) -> "_Given":
        """Return the sources, with the columns of x remembered or checked."""
        import pandas as pd

        if tables.pairs is not None:
            row = pd.DataFrame(np.zeros((1, tables.pairs.width)), columns=tables.pairs.names)
            self._remember_columns(row, "x") if first else self._known_columns(row)
        return tables

    # ---- from rows to features, from sums to answers ----

    def _learner(self) -> FeatureLearner:
        settings = {name: getattr(self, name) for name in FeatureLearner._fields}
        return FeatureLearner(**{**settings, "seed": as_seed(self.seed)})

    def _learned(
        self, learner: FeatureLearner, sides: tuple[Side, Side], tables: Tables, seen: Seen, progress: Any
    ) -> tuple[tuple[Side, Side], FitResult]:
        """Learn lengthscales, with targets in the units that a first look at them tells."""
        assert seen.task is not None
        means = seen.task.mean
        offset = self._offset(means)
        scale = self._scale(seen.task.squares / seen.task.count + (means - offset) ** 2, means)
        sample = Tables(seen.pairs.sample, seen.task.sample.standardized(offset, scale))
        everything = Tables(tables.pairs, tables.task.standardized(offset, scale))
        passes = self.lengthscales == "passes" and not seen.complete
        return learner.learn(sides, sample, everything if passes else None, progress)

    def _take(self, reading: FeatureReading) -> None:
        """Keep what was read; answers are computed when they are asked for."""
        self._reading = reading
        self._settled: _Settled | None = None
        self.features_x_, self.features_y_ = reading.features_x, reading.features_y

    def _settle(self) -> "_Settled":
        """Return what follows from the sums: units of the targets, noise and variances, the posterior."""
        check_is_fitted(self)
        if self._settled is None:
            self._settled = self._answered()
        return self._settled

    def _answered(self) -> "_Settled":
        reading = self._reading
        if reading.pairs is None or reading.task is None:
            missing = "pairs (x, y)" if reading.pairs is None else "task rows (y_task, z_task)"
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: it has read no {missing}.")
        means = reading.task.means
        offset = self._offset(means)
        squares = reading.task.about(offset, np.ones_like(offset)).squares / reading.task.statistics.count
        scale = self._scale(squares, means)
        sums = reading.sums(offset, scale)
        model, result = self._learner().learn_amplitudes(reading, sums)
        posterior = model.condition(sums, self.n_features_in_, reading.flat)
        return _Settled(posterior, offset, scale, joined(self._lengthscales, result))

    def _offset(self, means: np.ndarray) -> np.ndarray:
        return means if self.mean == "constant" else np.zeros_like(means)

    def _scale(self, squares: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the units of the target columns: their own where there are several and something is learned."""
        units = np.array([deviation(*pair) for pair in zip(squares, means, strict=True)])
        if len(squares) > 1 and self.optimize:
            return units
        if not np.all((units > DEVIATIONS[0]) & (units < DEVIATIONS[1])):
            raise ArgumentError(
                "z_task",
                f"the deviation of z_task is {units.min():.1e}; float64 cannot hold the squares of such "
                "variances. Give the targets in other units, in which they are nearer to one.",
            )
        return np.ones(len(squares))

    def _in_shape(self, values: np.ndarray) -> Any:
        return float(values[0]) if self._reading.flat else values

    # ---- files ----

    def _range_seen(self) -> Any:
        span = self._reading.span
        return None if span is None else np.array([span.low, span.high])

    def _fitted_state(self) -> dict[str, Any]:
        """Return what makes a fresh estimator a fitted one, as plain data."""
        settled = self._settle()
        return {
            **self._fitted_columns(),
            "mediator_names": self._mediator_names,
            "reading": self._reading.state(),
            "model": settled.posterior.model,
            "offset": settled.offset,
            "scale": settled.scale,
            "fit_result": None if settled.result is None else settled.result.state(),
            "lengthscales": None if self._lengthscales is None else self._lengthscales.state(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        """Take up a state that `_fitted_state` returned."""
        self._restore_columns(state)
        self._mediator_names = state["mediator_names"]
        self._take(FeatureReading.from_state(state["reading"]))
        result, self._lengthscales = (
            None if state.get(name) is None else FitResult.from_state(state[name], state["model"])
            for name in ("fit_result", "lengthscales")
        )
        sums = self._reading.sums(state["offset"], state["scale"])
        posterior = state["model"].condition(sums, self.n_features_in_, self._reading.flat)
        self._settled = _Settled(posterior, state["offset"], state["scale"], result)


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


class _Given(NamedTuple):
    """The tables that a call brought; either may be missing."""

    pairs: Source | None
    task: Source | None


class _Settled(NamedTuple):
    """What follows from all sums."""

    posterior: FeaturePosterior
    offset: np.ndarray
    scale: np.ndarray
    result: FitResult | None
