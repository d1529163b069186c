"""One large table: a sparse Gaussian process with learned inducing points, whose fit holds sums instead of rows."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from decond.checks import as_count, as_deviation, as_rows, check_choice
from decond.errors import ArgumentError, ArgumentTypeError
from decond.estimators.defaults import (
    KernelChoice,
    SearchRanges,
    in_data_units,
    noise_range,
    noise_start,
    smooth_kernel,
)
from decond.estimators.regressor import ProbabilisticRegressor
from decond.features import as_kernel
from decond.gp import FitResult
from decond.gp.search import constant_log_evidence, warn_if_no_better
from decond.kernels.kernel import Kernel
from decond.parameters import same
from decond.progress import progress_bar
from decond.streaming.cluster import as_cluster_source
from decond.streaming.sources import Source, Table
from decond.streaming.sparse_gp import SparseModel
from decond.streaming.sparse_search import SparseSearch, starting_points
from decond.streaming.statistics import Statistics, Summary, deviation, summarize

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["SparseGP"]

Array = NDArray[np.float64]


class SparseGP(ProbabilisticRegressor):
    """Regression on a table of any length through a few inducing points (section 8.2 of the paper).

    Time grows with the number of rows, memory does not: a fitted model keeps O(n²) sums. Of many rows a sample is
    learned from first, and then all of them for some more iterations.

    Parameters
    ----------
    n_inducing : int
        How many inducing points are chosen from the rows.
    inducing : array_like of shape (n, d), optional
        Inducing points that are given: where learning starts.
    kernel : Kernel, optional
        In the units of the data, where learning starts besides a start from the data; by default Matern-3/2 with a
        lengthscale for each column. If hyperparameters are not learned, a kernel is used exactly as given.
    noise : float, optional
        σ, the standard deviation of the noise: where learning starts, besides a start from the data, or what is used
        if it is not learned. By default it comes from the data.
    mean : {"constant", "zero"}
        "constant" subtracts the mean of the targets and adds it back in predictions.
    prediction : {"targets", "latent"}
        "targets" predicts the function that targets are noisy values of, by the sparse Gaussian process given all
        rows. "latent" is the paper's model with its noise of the mediator, and its predictive of the f behind that
        function; it is learned by the evidence of that model.
    objective : {"auto", "evidence", "bound"}
        What "targets" is learned by. "bound" is Titsias' lower bound of the evidence of the Gaussian process, which
        does not overfit through the inducing points. "evidence" is that of the sparse model, which predicts better
        where inducing points are few for the function, and overfits where they are many for the rows. "auto" starts
        with the bound, goes on with the evidence, and stays there if a tenth of the rows, held out, is clearly better
        predicted. After the evidence, `noise_` and the error bars of f come from those rows.
    optimize : bool
        Whether to learn anything; if not, everything is used as given. A fit that explains the targets no better than
        a constant warns (`gp.NoSignalWarning`).
    learn_inducing, learn_hyperparameters : bool
        Whether the inducing points are learned; whether kernel and noise are.
    n_restarts : int
        How many more starts to try, from other inducing points and hyperparameters around the scales of the data.
    max_iterations : int
        Of each search.
    sample_size : int
        Rows of the sample that is learned from first, of tables that have more than twice as many.
    full_iterations : int
        Over all rows, after those over a sample or without rows held out, if that is less.
    seed : int
        The same seed gives the same model.

    Attributes
    ----------
    kernel_, inducing_, noise_
        What was learned, or given; noise_ is that of a single target.
    posterior_ : SparsePosterior
        Of the targets less `offset_`, divided by `scale_`.
    fit_result_ : FitResult or None
        How learning went; `starts` are where the first search ended from each start. They and `history` are of
        targets divided by their deviation.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 6, (500, 1))
    >>> gp = SparseGP(n_inducing=10).fit(x, np.sin(x[:, 0]) + 0.1 * rng.standard_normal(500))
    >>> gp.predict([[1.5], [4.5]]).round(1)
    array([ 1., -1.])
    """

    fit_result_: FitResult | None

    def __init__(
        self,
        n_inducing: int = 100,
        inducing: ArrayLike | None = None,
        kernel: Kernel | None = None,
        noise: float | None = None,
        mean: Literal["constant", "zero"] = "constant",
        prediction: Literal["targets", "latent"] = "targets",
        objective: Literal["auto", "evidence", "bound"] = "auto",
        optimize: bool = True,
        learn_inducing: bool = True,
        learn_hyperparameters: bool = True,
        n_restarts: int = 0,
        max_iterations: int = 100,
        sample_size: int = 10_000,
        full_iterations: int = 50,
        seed: int = 0,
    ) -> None:
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.kernel = kernel
        self.noise = noise
        self.mean = mean
        self.prediction = prediction
        self.objective = objective
        self.optimize = optimize
        self.learn_inducing = learn_inducing
        self.learn_hyperparameters = learn_hyperparameters
        self.n_restarts = n_restarts
        self.max_iterations = max_iterations
        self.sample_size = sample_size
        self.full_iterations = full_iterations
        self.seed = seed

    def fit(
        self,
        X: "ArrayLike | Source",
        y: ArrayLike | None = None,
        client: "Client | None" = None,
        progress: Callable[[int, float], None] | None = None,
    ) -> Self:
        """Learn from rows and targets.

        Parameters
        ----------
        X : array_like of shape (m, d), dask collection, or Source
            Rows, or a source of rows with targets.
        y : array_like of shape (m,) or (m, t), optional
            Targets, unless the source has them.
        client : distributed.Client, optional
            Its workers read the rows.
        progress : callable, optional
            Called with the number of evaluations and the best objective so far.

        Returns
        -------
        SparseGP
            This estimator.
        """
        source = self._source(X, y, client, first=True)
        summary = self._summary(source)
        if not self.optimize or not (self.learn_inducing or self.learn_hyperparameters):
            return self._conclude(self._as_given(summary).plus(source), None)
        if progress is not None:
            return self._learn(source, summary, progress)
        with progress_bar("fitting") as bar:
            return self._learn(source, summary, lambda count, best: bar(count, status=f"log evidence {best:.6g}"))

    def partial_fit(
        self, X: "ArrayLike | Source", y: ArrayLike | None = None, client: "Client | None" = None
    ) -> Self:
        """Add rows and learn nothing: neither kernel, noise nor inducing points change. Rows may come in any order.

        After `fit` it adds to what was learned there. Without `fit`, give the inducing points: otherwise they are
        chosen from the first rows, whatever these are. Without a given kernel, lengthscales come from the inducing
        points, and variance and noise follow the targets.

        Parameters
        ----------
        X, y, client
            As in `fit`.

        Returns
        -------
        SparseGP
            This estimator.
        """
        first = not hasattr(self, "_partial")
        source = self._source(X, y, client, first)
        partial = self._as_given(self._summary(source)) if first else self._partial
        return self._conclude(partial.plus(source), None if first else self.fit_result_)

    def unread(self) -> Self:
        """Return a model like this one, with all that was learned, that has read no rows: for rows elsewhere.

        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(0, 6, (500, 1))
        >>> z = np.sin(x[:, 0]) + 0.1 * rng.standard_normal(500)
        >>> here = SparseGP(n_inducing=10).fit(x[:300], z[:300])
        >>> there = here.unread().partial_fit(x[300:], z[300:])
        >>> here.merge(there).posterior_
        SparsePosterior(10 inducing points, 500 rows, ...)
        """
        check_is_fitted(self)
        other = clone(self)
        other._restore_columns(self._fitted_columns())
        other._partial, other.fit_result_ = dataclasses.replace(self._partial, statistics=None), self.fit_result_
        return other

    def merge(self, other: "SparseGP") -> Self:
        """Add the rows that another model has read, with the same kernel, noise and inducing points: see `unread`."""
        check_is_fitted(self)
        if not isinstance(other, SparseGP):
            raise ArgumentTypeError(
                "other", f"other is a {type(other).__name__}; a fitted SparseGP can take up another one only."
            )
        check_is_fitted(other)
        self._check_same_columns(other)
        return self._conclude(self._partial.merged(other._partial), self.fit_result_)

    def log_marginal_likelihood(self) -> float:
        """Return the log evidence of all targets at the hyperparameters that are used, or its lower bound.

        It is what was learned from in the end: `posterior_.model.objective` says which.
        """
        check_is_fitted(self)
        rows = self.posterior_.statistics.count
        return float(self.posterior_.log_evidence - rows * np.sum(np.log(self.scale_)))

    def _check_columns(self, source: Source, first: bool) -> None:
        """Remember the columns of a source, or check that they are those of the first."""
        import pandas as pd

        columns = np.empty((0, source.width)) if source.names is None else pd.DataFrame(columns=list(source.names))
        validate_data(self, columns, reset=first, skip_check_array=True)

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether any rows were read."""
        return hasattr(self, "posterior_")

    def _known_columns(self, x: ArrayLike) -> Array:
        check_is_fitted(self)
        return self._validated(x, reset=False)

    def _source(self, X: Any, y: Any, client: "Client | None", first: bool) -> Source:
        """Return the rows to read, checked; the first ones say what columns there are."""
        if hasattr(X, "__dask_graph__") or hasattr(y, "__dask_graph__"):
            X, y = as_cluster_source(X, y, client), None
        if y is None and isinstance(X, str | Path | list | tuple):
            raise ArgumentTypeError(
                "X",
                f"X is a {type(X).__name__} and there is no y. Give rows and targets, or a source that has both: "
                "ParquetTable(paths, x=[...], z=...) for files, Batches([(rows, targets), ...]) for blocks.",
            )
        if isinstance(X, Source):
            if y is not None:
                raise ArgumentError("y", f"X is a {type(X).__name__}, which has its own targets; leave y out.")
            self._check_columns(X, first)
        else:
            X, y = self._validated(X, y, reset=first, multi_output=True, y_numeric=True)
            X = Table(X, np.asarray(y, dtype=np.float64))
        return X if client is None else as_cluster_source(X, client=client)

    def _summary(self, source: Source) -> Summary:
        return summarize(source, self.seed, as_count(self.sample_size, "sample_size"))

    def _points(self, rows: Array) -> Array:
        """Return the inducing points that were given, or some chosen from the rows; check the other settings."""
        check_choice(self.mean, "mean", ("constant", "zero"))
        check_choice(self.prediction, "prediction", ("targets", "latent"))
        check_choice(self.objective, "objective", ("auto", "evidence", "bound"))
        if self.inducing is None:
            return starting_points(rows, as_count(self.n_inducing, "n_inducing"), self.seed)
        points = as_rows(self.inducing, "inducing")
        if points.shape[1] != self.n_features_in_:
            raise ArgumentError(
                "inducing",
                f"inducing has {points.shape[1]} column(s) but X has {self.n_features_in_}; inducing points are rows "
                "of the same kind as those of X.",
            )
        return points

    def _given_noise(self) -> float | None:
        remedy = "It is a standard deviation in the units of the targets; None starts from the data."
        return None if self.noise is None else as_deviation(self.noise, "noise", remedy)

    def _as_given(self, summary: Summary) -> "_PartialFit":
        """Return a partial fit that learns nothing; a noise that is not given is in proportion to the amplitude."""
        points, noise = self._points(summary.sample.x), self._given_noise()
        if self.kernel is None:
            variance = 1.0 if noise is None else (noise / SearchRanges.noise_start) ** 2
            kernel = smooth_kernel(points, variance, trend=False).kernel
        else:
            kernel = as_kernel(self.kernel, "kernel")
        if noise is None:
            noise = SearchRanges.noise_start * float(np.sqrt(np.mean(kernel.diag(points))))
        follows = self.kernel is None and self.noise is None
        return _PartialFit(self._model(kernel, points, noise), self.mean == "constant", follows)

    def _learn(self, source: Source, summary: Summary, progress: Callable[[int, float], None]) -> Self:
        """Learn a model, with targets in units of their deviation, and read all rows with it."""
        points, centered = self._points(summary.sample.x), self.mean == "constant"
        offset = summary.mean if centered else np.zeros_like(summary.mean)
        scale = np.ones(len(offset))
        if self.kernel is None or self.learn_hyperparameters:
            scale = deviation(summary.mean_squares(offset), offset)
        scaled = summary.standardized(offset, scale)
        choice = self._choice(scaled.sample)
        starts = self._starts(choice, points, scaled.sample, scale)
        search = self._search(starts, scaled.sample.z, choice, progress)
        also = [start.values() for start in starts[1:]]
        result = search.run(starts[0], source.standardized(offset, scale), scaled, also)
        model = result.model
        if source.flat:
            model, scale = _with_targets_times(model, float(scale[0])), np.ones(1)
        self._conclude(_PartialFit(model, centered, scale=scale).plus(source), result)
        values = {**model.values(), **model.points()}
        self.fit_result_ = dataclasses.replace(
            result,
            model=model,
            log_evidence=self.log_marginal_likelihood(),
            parameters={path: values[path] for path in result.parameters},
        )
        evidence = model.replace(objective="evidence").condition(self.posterior_.statistics).log_evidence
        warn_if_no_better(evidence, _constant(summary, scale))
        return self

    def _choice(self, sample: Table) -> KernelChoice:
        variance = float(deviation(np.mean(sample.z**2, keepdims=True).ravel(), np.zeros(1))[0]) ** 2
        if self.kernel is None:
            return smooth_kernel(sample.x, variance, trend=False).under("kernel.")
        kernel = as_kernel(self.kernel, "kernel")
        return KernelChoice(in_data_units(kernel, sample.x, variance) if self.learn_hyperparameters else kernel)

    def _starts(self, choice: KernelChoice, points: Array, sample: Table, scale: Array) -> list[SparseModel]:
        """Return where learning starts: at the scales of the data and, if anything was given, from that."""
        noise, from_data = self._given_noise(), noise_start(sample.z)
        if not self.learn_hyperparameters:
            return [self._model(choice.kernel, points, from_data if noise is None else noise)]
        starts = [self._model(choice.kernel, points, from_data)]
        unit = float(np.sqrt(np.mean(scale**2)))  # what is given is in the units of the targets
        if self.kernel is not None or noise is not None:
            kernel = choice.kernel if self.kernel is None else as_kernel(self.kernel, "kernel").rescaled(unit**-2)
            starts += [self._model(kernel, points, from_data if noise is None else noise / unit)]
        return starts

    def _model(self, kernel: Kernel, points: Array, noise: float) -> SparseModel:
        """Return the paper's model, or the sparse Gaussian process: the same with a mediator that has no noise."""
        if self.prediction == "latent":
            return SparseModel(kernel, points, noise)
        objective: Any = "evidence" if self.objective == "evidence" else "bound"
        return SparseModel(kernel, points, noise, mediator_noise=0.0, objective=objective)

    @property
    def _objective(self) -> Literal["auto", "evidence", "bound"]:
        """What to maximize: with hyperparameters as given, inducing points are there to approach their posterior."""
        return "bound" if self.objective == "auto" and not self.learn_hyperparameters else self.objective

    def _search(
        self,
        starts: list[SparseModel],
        z: Array,
        choice: KernelChoice,
        progress: Callable[[int, float], None] | None,
    ) -> SparseSearch:
        values = starts[0].values()
        everything = [path for path, value in values.items() if path.startswith("kernel.") and np.any(value)]
        hyperparameters = (*(everything if choice.free is None else choice.free), "noise")
        noises = [*noise_range(z), *(model.noise for model in starts)]
        return SparseSearch(
            free=(*hyperparameters * self.learn_hyperparameters, *("inducing",) * self.learn_inducing),
            bounds={**choice.bounds, "noise": (min(noises), max(noises))},
            hyperpriors=choice.hyperpriors,
            objective=self._objective,
            n_restarts=self.n_restarts,
            max_iterations=as_count(self.max_iterations, "max_iterations"),
            full_iterations=as_count(self.full_iterations, "full_iterations"),
            seed=self.seed,
            progress=progress,
        )

    def _conclude(self, partial: "_PartialFit", result: FitResult | None) -> Self:
        """Build the posterior from the sums: the only way to one, so that a loaded model is the same."""
        model, statistics, offset, scale = partial.in_units()
        self._partial = partial
        self.fit_result_ = result
        self.posterior_ = model.condition(statistics, partial.flat)
        self.kernel_, self.inducing_, self.noise_ = model.kernel, model.inducing, model.measurement_noise
        self.offset_: Any = float(offset[0]) if partial.flat else offset
        self.scale_: Any = float(scale[0]) if partial.flat else scale
        return self

    def _range_seen(self) -> Array | None:
        check_is_fitted(self)
        statistics = self._partial.statistics
        assert statistics is not None
        return None if statistics.low is None else np.array([statistics.low, statistics.high])

    def _fitted_state(self) -> dict[str, Any]:
        """Return what makes a fresh estimator a fitted one, as plain data."""
        check_is_fitted(self)
        summary = None if self.fit_result_ is None else self.fit_result_.state()
        partial = {**vars(self._partial), "statistics": vars(self._partial.statistics)}
        return {**self._fitted_columns(), "partial": partial, "fit_result": summary}

    def _restore(self, state: dict[str, Any]) -> None:
        """Take up a state that `_fitted_state` returned."""
        self._restore_columns(state)
        statistics, summary = Statistics(**state["partial"]["statistics"]), state["fit_result"]
        partial = _PartialFit(**{**state["partial"], "statistics": statistics})
        self._conclude(partial, None if summary is None else FitResult.from_state(summary, partial.model))


def _with_targets_times(model: SparseModel, factor: float) -> SparseModel:
    """Return the model of targets that are multiplied by a factor."""
    if factor == 1.0:
        return model
    noise = None if model.target_noise is None else model.target_noise * factor
    kernel = model.kernel.rescaled(factor**2)
    return model.replace(kernel=kernel, noise=model.noise * factor, target_noise=noise)


class _InUnits(NamedTuple):
    """A model with the statistics of targets (z - offset) / scale."""

    model: SparseModel
    statistics: Statistics
    offset: Array
    scale: Array


@dataclass(frozen=True, eq=False)
class _PartialFit:
    """A model with the sums over all rows that it has read, in any order.

    The offset of the targets is known at the end, from all of them. So are their scales and the model's amplitude if
    it `follows` them: then it reads with a variance of about one, and its noise is relative to that.
    """

    model: SparseModel
    centered: bool
    follows: bool = False
    scale: Array | None = None
    """What the targets are divided by, if that is known before; one for each column."""
    flat: bool = True
    statistics: Statistics | None = None

    @property
    def _scale(self) -> Array:
        assert self.statistics is not None
        return np.ones(self.statistics.targets) if self.scale is None else self.scale

    def plus(self, source: Source) -> "_PartialFit":
        """Return what is known after these rows too."""
        found = self.model.statistics(source)
        if self.statistics is None:
            return dataclasses.replace(self, flat=source.flat, statistics=found)
        return dataclasses.replace(self, statistics=self.statistics + found)

    def merged(self, other: "_PartialFit") -> "_PartialFit":
        """Return what both know together; both have to read with the same model, in the same units."""
        assert self.statistics is not None
        assert other.statistics is not None
        one, two = self.model, other.model
        alike = {
            "kernels": same(one.kernel, two.kernel),
            "inducing points": np.array_equal(one.inducing, two.inducing),
            "noises": (one.noise, one.measurement_noise, self.follows)
            == (two.noise, two.measurement_noise, other.follows),
            "means (constant or zero)": self.centered == other.centered,
            "target columns": self.statistics.targets == other.statistics.targets and self.flat == other.flat,
            "units": np.array_equal(self._scale, other._scale),
        }
        different = [name for name, equal in alike.items() if not equal]
        if different:
            raise ArgumentError(
                "other",
                f"the two models do not read their rows alike, so their sums cannot be added: {', '.join(different)} "
                "differ. Let one of them come from the other before it reads its rows: other = gp.unread(), then "
                "other.partial_fit(rows, targets) and gp.merge(other).",
            )
        return dataclasses.replace(self, statistics=self.statistics + other.statistics)

    def in_units(self) -> _InUnits:
        """Return the model and the statistics of all rows, with targets in their final units."""
        sums, model = self.statistics, self.model
        assert sums is not None
        offset = sums.means if self.centered else np.zeros(sums.targets)
        scale = self._scale
        if not self.follows:
            return _InUnits(model, sums.standardized(offset, scale), offset, scale)
        spread = deviation(sums.standardized(offset).squares / sums.count, offset)
        if not self.flat:
            return _InUnits(model, sums.standardized(offset, spread), offset, spread)
        factor = float(spread[0])
        model = _with_targets_times(model, factor)
        return _InUnits(model, sums.standardized(offset).scaled(factor), offset, scale)


def _constant(summary: Summary, scale: Array) -> float:
    """Return the log evidence of a constant, for the targets of all rows divided by `scale`."""
    spread = np.sqrt(summary.squares / summary.count)
    moving = np.where(spread > 1e-12 * np.abs(summary.mean), spread / scale, 0.0)  # the rest is rounding
    return constant_log_evidence(summary.count * len(scale), float(np.mean(moving**2)))
