"""One large table: a sparse Gaussian process with learned inducing points, whose fit holds sums instead of rows."""

import dataclasses
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from decond.checks import as_count, as_number, as_rows, check_choice
from decond.errors import ArgumentError, ArgumentTypeError
from decond.estimators.base import MEANS, AnsweringRegressor, noise_range, noise_start
from decond.estimators.defaults import NOISE_START, KernelChoice, in_data_units, smooth_kernel
from decond.features.feature_maps import as_kernel
from decond.gp import FitResult
from decond.gp.fit import constant_log_evidence, warn_if_no_better
from decond.streaming import (
    Reading,
    Search,
    Source,
    SparseModel,
    Survey,
    Table,
    deviation,
    learn,
    starting_points,
    survey,
)
from decond.streaming.cluster import as_cluster_source

__all__ = ["SparseGP"]


class SparseGP(AnsweringRegressor):
    """Regression on a table of any length through a few inducing points (section 8.2 of the paper).

    Time grows with the number of rows, memory does not: a fitted model keeps O(n²) sums. Of many rows a sample is
    learned from first, and then all of them for some more iterations.

    Rows may be an array or a data frame, a table on disk (`ParquetTable`), blocks of rows (`Batches`) or a Dask
    collection; with a Dask `client`, workers read them and only sums travel. The answer is the same.

    Parameters:
        n_inducing: how many inducing points to choose from the rows; fewer if there are fewer distinct rows.
        inducing: the inducing points (n, d) instead, or where they start if they are learned.
        kernel: covariance in the units of the data, where learning starts; None chooses from the data: Matern-3/2
            with a lengthscale for each column. Learning also starts from the scales of the data, and the better
            optimum is kept. A kernel without a variance of its own is given one to learn, since it says nothing of
            the scale of the targets. Where it is not learned, a kernel is used exactly as given.
        noise: σ, the standard deviation of the noise: where learning starts, besides a start from the data, or what
            is used if it is not learned. None takes it from the data.
        mean: "constant" subtracts the mean of the targets and adds it back in predictions, "zero" does not.
        prediction: "targets" predicts g(x) = E[f | x], of which targets are noisy values; "latent" predicts the f
            behind it, which is the paper's predictive mean.
        optimize: whether to learn anything; if not, everything is used as given. A fit that explains the targets no
            better than a constant warns (`gp.NoSignalWarning`).
        learn_inducing: whether the inducing points are learned.
        learn_hyperparameters: whether kernel and noise are.
        n_restarts: how many more starts to try, from other inducing points and from hyperparameters around the scales
            of the data.
        max_iterations: for each start.
        sample_size: rows of the sample that is learned from first, of tables that have more than twice as many.
        full_iterations: over all rows, after those over a sample.
        seed: the same seed gives the same model.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 6, (500, 1))
    >>> gp = SparseGP(n_inducing=10).fit(x, np.sin(x[:, 0]) + 0.1 * rng.standard_normal(500))
    >>> gp.predict([[1.5], [4.5]]).round(1)
    array([ 1., -1.])
    """

    def __init__(
        self,
        n_inducing: int = 100,
        inducing: Any = None,
        kernel: Any = None,
        noise: float | None = None,
        mean: str = "constant",
        prediction: str = "targets",
        optimize: bool = True,
        learn_inducing: bool = True,
        learn_hyperparameters: bool = True,
        n_restarts: int = 0,
        max_iterations: int = 100,
        sample_size: int = 10_000,
        full_iterations: int = 10,
        seed: int = 0,
    ) -> None:
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.kernel = kernel
        self.noise = noise
        self.mean = mean
        self.prediction = prediction
        self.optimize = optimize
        self.learn_inducing = learn_inducing
        self.learn_hyperparameters = learn_hyperparameters
        self.n_restarts = n_restarts
        self.max_iterations = max_iterations
        self.sample_size = sample_size
        self.full_iterations = full_iterations
        self.seed = seed

    def fit(self, X: Any, y: Any = None, client: Any = None, progress: Any = None) -> Self:
        """Learn from rows X and targets y: (m,), or (m, t); or from a source X that has both, without y.

        `client` is a Dask client whose workers read the rows. `progress` is called with the number of evaluations and
        the best objective so far.
        """
        source = self._source(X, y, client, first=True)
        seen = self._survey(source)
        if not self.optimize or not (self.learn_inducing or self.learn_hyperparameters):
            return self._conclude(self._as_given(seen).having_read(source), None)
        reading, result = self._learned(source, seen, progress)
        return self._conclude(reading.having_read(source), result)

    def partial_fit(self, X: Any, y: Any = None, client: Any = None) -> Self:
        """Add rows and learn nothing: neither kernel, noise nor inducing points change. Rows may come in any order.

        After `fit` it adds to what was learned there. Without `fit`, give the inducing points: otherwise they are
        chosen from the first rows, whatever these are. Without a given kernel, lengthscales come from the inducing
        points, and variance and noise follow the targets.
        """
        first = not hasattr(self, "_reading")
        source = self._source(X, y, client, first)
        reading = self._as_given(self._survey(source)) if first else self._reading
        return self._conclude(reading.having_read(source), None if first else self.fit_result_)

    def unread(self) -> Self:
        """Return a model like this one, with all that was learned, that has read no rows: for rows elsewhere.

        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(0, 6, (500, 1))
        >>> z = np.sin(x[:, 0]) + 0.1 * rng.standard_normal(500)
        >>> here = SparseGP(n_inducing=10).fit(x[:300], z[:300])
        >>> there = here.unread().partial_fit(x[300:], z[300:])
        >>> here.merge(there).posterior_
        ConditionalMeanPosterior(10 inducing points, 500 rows, ...)
        """
        check_is_fitted(self)
        other = clone(self)
        other._restore_columns(self._fitted_columns())
        other._reading, other.fit_result_ = dataclasses.replace(self._reading, sums=None), self.fit_result_
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
        return self._conclude(self._reading.merged(other._reading), self.fit_result_)

    def log_marginal_likelihood(self) -> float:
        """Return the log evidence of all targets at the hyperparameters that are used."""
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

    def _known_columns(self, x: Any) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, x, reset=False, dtype=np.float64)

    def _source(self, X: Any, y: Any, client: Any, first: bool) -> Source:
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
            X, y = validate_data(self, X, y, reset=first, multi_output=True, y_numeric=True, dtype=np.float64)
            X = Table(X, np.asarray(y, dtype=np.float64))
        return X if client is None else as_cluster_source(X, client=client)

    def _survey(self, source: Source) -> Survey:
        return survey(source, self.seed, as_count(self.sample_size, "sample_size"))

    def _points(self, rows: np.ndarray) -> np.ndarray:
        """Return the inducing points that were given, or some chosen from the rows; check the other settings."""
        check_choice(self.mean, "mean", MEANS)
        check_choice(self.prediction, "prediction", ("targets", "latent"))
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
        return None if self.noise is None else as_number(self.noise, "noise", minimum=0.0, strict=True, remedy=remedy)

    def _as_given(self, seen: Survey) -> Reading:
        """Return a reading that learns nothing; a noise that is not given is in proportion to the amplitude."""
        points, noise = self._points(seen.sample.x), self._given_noise()
        if self.kernel is None:
            variance = 1.0 if noise is None else (noise / NOISE_START) ** 2
            kernel = smooth_kernel(points, variance, trend=False).kernel
        else:
            kernel = as_kernel(self.kernel, "kernel")
        if noise is None:
            noise = NOISE_START * float(np.sqrt(np.mean(kernel.diag(points))))
        follows = self.kernel is None and self.noise is None
        return self._reading_with(SparseModel(kernel, points, noise), seen, follows=follows)

    def _reading_with(self, model: SparseModel, seen: Survey, **settings: Any) -> Reading:
        return Reading(model, centered=self.mean == "constant", origin=self._offset(seen), **settings)

    def _offset(self, seen: Survey) -> np.ndarray:
        return seen.mean if self.mean == "constant" else np.zeros_like(seen.mean)

    def _learned(self, source: Source, seen: Survey, progress: Any) -> tuple[Reading, FitResult]:
        """Learn a model; return a reading that uses it, and how learning went."""
        points = self._points(seen.sample.x)
        offset, scale = self._offset(seen), np.ones(len(seen.mean))
        if len(scale) > 1 and (self.kernel is None or self.learn_hyperparameters):
            squares = seen.squares / seen.count + (seen.mean - offset) ** 2
            scale = np.array([deviation(*pair) for pair in zip(squares, offset, strict=True)])
        scaled = seen.standardized(offset, scale)
        choice = self._choice(scaled.sample)
        starts = self._starts(choice, points, scaled.sample, scale)
        search = self._search(starts, scaled.sample.z, choice, progress)
        others = [start.values() for start in starts[1:]]
        result = learn(starts[0], source.standardized(offset, scale), scaled, search, others)
        warn_if_no_better(result.log_evidence, _constant(seen, scale))
        return Reading(result.model, centered=self.mean == "constant", scale=scale, origin=offset), result

    def _choice(self, sample: Table) -> KernelChoice:
        variance = deviation(float(np.mean(sample.z**2)), 0.0) ** 2
        if self.kernel is None:
            return smooth_kernel(sample.x, variance, trend=False).under("kernel.")
        kernel = as_kernel(self.kernel, "kernel")
        return KernelChoice(in_data_units(kernel, sample.x, variance) if self.learn_hyperparameters else kernel)

    def _starts(
        self, choice: KernelChoice, points: np.ndarray, sample: Table, scale: np.ndarray
    ) -> list[SparseModel]:
        """Return where learning starts: at the scales of the data and, if anything was given, from that."""
        noise, from_data = self._given_noise(), noise_start(sample.z)
        if not self.learn_hyperparameters:
            return [SparseModel(choice.kernel, points, from_data if noise is None else noise)]
        starts = [SparseModel(choice.kernel, points, from_data)]
        unit = float(np.sqrt(np.mean(scale**2)))  # what is given is in the units of the targets
        if self.kernel is not None or noise is not None:
            kernel = choice.kernel if self.kernel is None else as_kernel(self.kernel, "kernel").rescaled(unit**-2)
            starts += [SparseModel(kernel, points, from_data if noise is None else noise / unit)]
        return starts

    def _search(self, starts: list[SparseModel], z: np.ndarray, choice: KernelChoice, progress: Any) -> Search:
        values = starts[0].values()
        everything = [path for path, value in values.items() if path.startswith("kernel.") and np.any(value)]
        hyperparameters = (*(everything if choice.free is None else choice.free), "noise")
        noises = [*noise_range(z), *(model.noise for model in starts)]
        return Search(
            (*hyperparameters * self.learn_hyperparameters, *("inducing",) * self.learn_inducing),
            {**choice.bounds, "noise": (min(noises), max(noises))},
            choice.hyperpriors,
            self.n_restarts,
            as_count(self.max_iterations, "max_iterations"),
            as_count(self.full_iterations, "full_iterations"),
            self.seed,
            progress,
        )

    def _conclude(self, reading: Reading, result: FitResult | None) -> Self:
        """Build the posterior from the sums: the only way to one, so a loaded model is the same to the last bit."""
        model, statistics, offset, scale = reading.settled()
        self._reading, self.fit_result_ = reading, result
        self.posterior_ = model.condition(statistics, reading.flat, of=self.prediction)
        self.kernel_, self.inducing_, self.noise_ = model.kernel, model.inducing, model.noise
        self.offset_: Any = float(offset[0]) if reading.flat else offset
        self.scale_: Any = float(scale[0]) if reading.flat else scale
        return self

    def _range_seen(self) -> Any:
        check_is_fitted(self)
        span = self._reading.span
        return None if span is None else np.array([span.low, span.high])

    def _fitted_state(self) -> dict[str, Any]:
        """Return what makes a fresh estimator a fitted one, as plain data."""
        check_is_fitted(self)
        summary = None if self.fit_result_ is None else self.fit_result_.state()
        return {**self._fitted_columns(), "reading": self._reading.state(), "fit_result": summary}

    def _restore(self, state: dict[str, Any]) -> None:
        """Take up a state that `_fitted_state` returned."""
        self._restore_columns(state)
        reading, summary = Reading.from_state(state["reading"]), state["fit_result"]
        self._conclude(reading, None if summary is None else FitResult.from_state(summary, reading.reader))


def _constant(seen: Survey, scale: np.ndarray) -> float:
    """Return the log evidence of a constant, for the targets of all rows divided by `scale`."""
    spread = np.sqrt(seen.squares / seen.count)
    moving = np.where(spread > 1e-12 * np.abs(seen.mean), spread / scale, 0.0)  # the rest is rounding
    return constant_log_evidence(seen.count * len(scale), float(np.mean(moving**2)))
