"""What the Gaussian-process estimators share: units of the targets, learning, model averages, and checks of a fit."""

import dataclasses
import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from decond.checks import as_deviation, as_targets, check_choice, check_finite
from decond.conditional.mediator import numeric_columns, spread
from decond.errors import ArgumentError, MemoryWarning, ResolutionWarning
from decond.estimators.defaults import (
    KernelChoice,
    deviation_of,
    given_kernel,
    noise_range,
    noise_start,
    plain_kernel,
    smooth_kernel,
)
from decond.estimators.regressor import ProbabilisticRegressor
from decond.features import FeatureMap, as_kernel
from decond.gp import (
    Candidate,
    FitResult,
    FunctionPrior,
    HyperparameterSample,
    LaplaceSettings,
    LatentInput,
    Model,
    ModelAverage,
    Observation,
    SamplerSettings,
    maximize_evidence,
    sample_hyperparameters,
    sample_latent_inputs,
    select,
    warn_if_constant,
)
from decond.gp.search import Progress
from decond.kernels.kernel import Kernel
from decond.messages import warn
from decond.parameters import leaves
from decond.threads import threads_for

__all__ = ["FitCheck", "PosteriorRegressor"]


class FitCheck(NamedTuple):
    """What `check` of a fitted estimator found.

    Attributes
    ----------
    resolution : float
        How much f varies within what a target averages over, in units of its error bar; nan if there is nothing to
        resolve, because each target is about one value of x.
    hint : str
        What to try instead, if the other setting predicts held-out targets clearly better, or if standardized
        residuals are far from normal; empty otherwise.
    advantage : float
        Held-out log density of the targets under the other setting less that under this one; nan without another one.
    standard_error : float
        Standard error of the advantage.

    Examples
    --------
    >>> found = FitCheck(resolution=0.5, hint="", advantage=1.0, standard_error=2.0)
    >>> found.is_reliable, found.prefers_other
    (False, False)
    """

    resolution: float
    hint: str
    advantage: float
    standard_error: float

    @property
    def is_reliable(self) -> bool:
        """Whether nothing was found against the error bars of f, which themselves cannot be checked.

        The resolution is not below one, and the other setting does not predict clearly better.
        """
        return not self.resolution < 1.0 and not self.prefers_other

    @property
    def prefers_other(self) -> bool:
        """Whether the other setting is clearly better: by more than two standard errors, and by more than 4.

        Smaller differences of held-out log densities are not reliable (Sivula, Magnusson & Vehtari 2020,
        arXiv:2008.10296).
        """
        return self.advantage > max(4.0, 2.0 * self.standard_error)


@dataclasses.dataclass(frozen=True)
class MemorySettings:
    """When a fit warns of the memory that it needs."""

    large: float = 8.0
    """Gigabytes: the memory of a small laptop."""
    matrices: int = 20
    """Matrices that one evidence with gradient holds, the tables of p(x | y) included (measured)."""


class Fit(NamedTuple):
    """One candidate model, and how the search for its hyperparameters went."""

    candidate: Candidate
    result: FitResult


class PosteriorRegressor(ProbabilisticRegressor):
    """Base of the Gaussian-process estimators, with a posterior of all rows.

    Fitted attributes, beside those of every one with error bars: `kernel_` and `noise_` (learned), `average_` (the
    candidate models with their weights), `fit_result_`.
    """

    noise: Any
    mean: str
    uncertainty: str
    optimize: bool
    n_restarts: int
    seed: int
    _data: tuple[Any, ...]
    _memory = MemorySettings()

    def _noise_variance(self, mean: np.ndarray, variance: np.ndarray) -> Any:
        square = np.square(self.scale_)
        observation = self.average_.best.observation
        return square * observation.noise_variance(
            self.noise_, (mean - self.offset_) / self.scale_, variance / square
        )

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation of every target, predicted from the others (noise included)."""
        check_is_fitted(self)
        found = self._left_out()
        mean = self._in_units(found.mean)
        return mean, np.sqrt(found.variance).reshape(mean.shape) * self.scale_

    def standardized_residuals(self) -> np.ndarray:
        """Return (target - mean) / deviation of every target, mean and deviation predicted from the other targets.

        If the error bars are right they are like draws of N(0, 1); `plotting.ResidualsDisplay` draws them.
        """
        mean, deviation = self.leave_one_out()
        return (self._in_units(self.average_.z) - mean) / deviation

    def log_marginal_likelihood(self) -> float:
        """Return the log evidence of the targets at the learned hyperparameters; of labels, that of their means.

        Of targets at latent inputs it is a variational lower bound.
        """
        check_is_fitted(self)
        return self.average_.best.log_evidence(self.average_.z) - len(self.average_.z) * float(
            np.sum(np.log(self.scale_))
        )

    def resolution(self) -> float:
        """Return how much f varies within what a target averages over, in units of its error bar.

        Well above one, the model distinguishes rows that share a group or a mediator value. Below one it says no more
        than the targets themselves do: deconditioning does not help, a regression on E[x | y] does as well, and the
        error bars of f cannot be relied on.
        """
        check_is_fitted(self)
        model = self.average_.best
        M = model.observation.linearize().transformation
        if abs(float(np.mean(M.sum(axis=0))) - 1.0) > 0.3:
            raise ValueError("resolution is there only for targets that are averages: columns of M that sum to one.")
        x = self.posterior_.prior.covariance.points(model.observation.x, "x")
        mean, variance = self.posterior_.moments(x)
        within = np.maximum(M.T @ mean**2 - (M.T @ mean) ** 2, 0.0)
        return float(np.sqrt(np.mean(within) / np.mean(variance)))

    def summary(self) -> Any:
        """Return the candidate models with their stacking weights, the heaviest first, as a data frame.

        >>> from decond import AggregateGP
        >>> x, groups = np.arange(12.0), np.repeat(np.arange(6), 2)
        >>> AggregateGP(n_restarts=0).fit(x, groups, np.arange(6.0)).summary()
                         weight
        candidate
        the listed rows     1.0
        """
        import pandas as pd

        check_is_fitted(self)
        names, weights = zip(*self.average_.table(), strict=True)
        return pd.DataFrame({"weight": weights}, index=pd.Index(names, name="candidate"))

    def check(self) -> "FitCheck":
        """Compare this fit with one of the other setting, and say whether its error bars can be relied on.

        The other setting is the other kind of target (`targets`), or for groups the other answer to whether all rows
        are listed (`group_sizes`). It is fitted to the same data; held-out log densities of the targets are compared.

        Returns
        -------
        FitCheck
            Resolution, hint and the numbers behind it.
        """
        check_is_fitted(self)
        found = FitCheck(self._resolution_if_any(), "", np.nan, np.nan)
        other = self._with_other_setting()
        if other is not None:
            words, fitted = other
            difference = fitted._left_out().log_density - self._left_out().log_density
            error = float(np.sqrt(len(difference)) * difference.std(ddof=1))
            found = found._replace(advantage=float(difference.sum()), standard_error=error)
            if found.prefers_other:
                return found._replace(hint=words)
        if self._has_gaussian_targets() and _is_far_from_normal(np.ravel(self.standardized_residuals())):
            return found._replace(
                hint="The standardized residuals of the targets are far from normal: if the noise grows with z, fit "
                "the logarithm of z; if single targets are outliers, look at them."
            )
        return found

    def _with_other_setting(self) -> tuple[str, Any] | None:
        """Return what the other setting is, in words, and a model fitted with it; None if there is none."""
        return None

    def _fitted_data(self) -> tuple[Any, ...]:
        """Return the tables that the model was fitted on; the last two are z_std and group_sizes."""
        if not hasattr(self, "_data"):
            raise ValueError(
                "check needs the tables that the model was fitted on, which a file does not hold. Fit it again."
            )
        return self._data

    def _left_out(self) -> Any:
        """Return leave-one-out predictions of the centered targets."""
        return self.average_.leave_one_out(self.posterior_)

    def _rows_seen(self) -> np.ndarray:
        return np.asarray(self.average_.candidates[0].model.observation.x)

    def _range_seen(self) -> Any:
        known = getattr(self, "_x_range", None)  # models may put points of their own beyond the rows
        return super()._range_seen() if known is None else known

    def _centered(self, z: np.ndarray) -> np.ndarray:
        """Return the targets less their mean; several columns are scaled to unit mean square for learning."""
        check_choice(self.mean, "mean", ("constant", "zero"))
        check_choice(self.uncertainty, "uncertainty", ("honest", "plain"))
        flat = z.ndim == 1
        offset = z.mean(axis=0) if self.mean == "constant" else np.zeros(z.shape[1:])
        centered = z - offset
        constant = np.abs(centered).max(axis=0) <= 1e-12 * np.abs(z).max(axis=0)
        centered = np.where(constant, 0.0, centered)  # what is left of equal targets is rounding
        scale = np.ones(z.shape[1:])
        if self.optimize and z[0].size > 1:
            scale = np.where(constant, 1.0, np.sqrt(np.mean(centered**2, axis=0)))
        self.offset_, self.scale_ = (float(offset), float(scale)) if flat else (offset, scale)
        return centered / self.scale_

    def _known_errors(self, z_std: ArrayLike, z: np.ndarray, partner: str) -> np.ndarray:
        """Return known standard errors of the targets, checked."""
        if z[0].size > 1:
            raise ArgumentError("z_std", "z_std takes one target column; fit each target column by itself.")
        errors = as_targets(z_std, "z_std", len(z), partner)
        if errors.ndim != 1 or np.any(errors < 0.0):
            raise ArgumentError(
                "z_std", "z_std has several columns or negative values; give one standard error for each target."
            )
        return errors

    def _start_noise(self, z: np.ndarray) -> float:
        """Return the noise to use as given or, where it is learned, to start from: in the units of the targets."""
        given = self._given_noise()
        return noise_start(z) if self.optimize or given is None else given

    def _given_noise(self) -> float | None:
        """Return the noise that was given, in units of the scaled targets."""
        if self.noise is None:
            return None
        noise = as_deviation(self.noise, "noise", "It is a standard deviation of z.")
        return noise / self._unit()

    def _unit(self) -> float:
        return float(np.sqrt(np.mean(np.square(self.scale_))))

    def _chosen_kernel(
        self,
        kernel: Kernel | FeatureMap | None,
        x: np.ndarray,
        z: np.ndarray,
        trend: bool = True,
        gain: float = 1.0,
        name: str = "kernel",
    ) -> KernelChoice:
        """Return the default kernel for this kind of error bars, or the one that was given.

        Where a given kernel is learned, the search starts from the scales of the data as well as from the kernel.
        `gain` is the variance that the targets would have if f had unit variance.
        """
        variance = deviation_of(z) ** 2 / gain
        if kernel is not None:
            given = as_kernel(kernel, name)
            if not self.optimize:
                return KernelChoice(given)
            return given_kernel(given.rescaled(self._unit() ** -2), x, variance, self.uncertainty == "honest")
        if self.uncertainty == "plain":
            return plain_kernel(x, variance, learn_variance=True)
        return smooth_kernel(x, variance, trend)

    def _learn(
        self,
        name: str,
        model: Model,
        z: np.ndarray,
        choice: KernelChoice,
        extra: "Extra",
        progress: Progress | None = None,
        integrate: bool = True,
    ) -> Fit:
        """Maximize the evidence and, for honest error bars, integrate over the hyperparameters."""
        variables = select(
            model,
            free_paths(model, choice, extra),
            extra.tied,
            {**choice.bounds, **extra.bounds},
            choice.hyperpriors,
        )
        restarts = self.n_restarts if extra.restarts is None else extra.restarts
        quiet = extra.noises if integrate else list(model.values())  # a first search need not warn
        also = extra.also if extra.restarts == 0 else [*extra.also, *self._given_values(model, choice)]
        result = maximize_evidence(
            model, z, variables, restarts, self.seed, progress=progress, quiet=quiet, also=also
        )
        sample = HyperparameterSample((result.parameters,), np.ones(1))
        if self.uncertainty == "honest" and integrate:
            linear = model.observation.linearize()
            settings = LaplaceSettings().affordable(min(len(z), linear.rank) if linear.isotropic else len(z))
            sample = sample_hyperparameters(result, z, variables, self.seed, settings)
        return Fit(Candidate.of(name, result.model, sample), result)

    def _warn_of_memory(self, rows: int, targets: int, candidates: int = 1) -> None:
        """Warn of a fit that needs much memory: its posterior holds a matrix for each point of every candidate."""
        points = 1 + LaplaceSettings().affordable(targets).points * (self.uncertainty == "honest")
        entries = self._memory.matrices * max(rows, targets) ** 2 + candidates * points * targets**2
        gigabytes = 8e-9 * entries
        if gigabytes > self._memory.large:
            warn(
                MemoryWarning(
                    f"this fit of {rows} rows and {targets} targets needs about {gigabytes:.0f} GB of memory. Fit a "
                    "random part of the rows, or use SparseGP for one table and TaskTransformedFeatures for two.",
                    gigabytes=gigabytes,
                )
            )

    def _given_values(self, model: Model, choice: KernelChoice) -> list[dict[str, Any]]:
        """Return a start from the kernel and the noise that the user gave, if any."""
        values: dict[str, Any] = {}
        if choice.given is not None:
            values |= leaves(choice.given, "prior.kernel.")
        if self.noise and model.values().get("observation.noise"):
            values["observation.noise"] = self._given_noise()
        return [values] if values else []

    def _conclude(self, fits: Sequence[Fit], z: np.ndarray, evaluations: int = 0) -> Self:
        """Average the candidates by stacking and keep what was learned.

        `evaluations` were spent on searches of which nothing is kept.
        """
        average = ModelAverage.stacked([fit.candidate for fit in fits], z)
        results = {fit.candidate.name: fit.result for fit in fits}
        best = results[average.candidates[int(np.argmax(average.weights))].name]
        total = evaluations + sum(result.evaluations for result in results.values())
        failures = sum(result.failures for result in results.values())
        self._set_average(average, dataclasses.replace(best, evaluations=total, failures=failures))
        if best.status != "sampled":
            warn_if_constant(best.log_evidence, z)
        return self

    def _learn_or_use(
        self, observation: Observation, z: np.ndarray, choice: KernelChoice, progress: Progress | None
    ) -> Self:
        """Learn the kernel and the noises that are there, for an observation with a fixed M; or use all as given."""
        if not self.optimize:
            return self._use_as_given(Model(FunctionPrior(choice.kernel), observation), z)
        return self._conclude([self._learn_fixed("model", observation, z, choice, progress)], z)

    def _learn_fixed(
        self,
        name: str,
        observation: Observation,
        z: np.ndarray,
        choice: KernelChoice,
        progress: Progress | None,
        restarts: int | None = None,
        integrate: bool = True,
    ) -> Fit:
        """Learn the kernel and the noises that are there, for an observation with a fixed M."""
        self._warn_of_memory(len(observation.x), len(z))
        model = Model(FunctionPrior(choice.kernel), observation)
        values = model.values()
        noises = [f"observation.{name}" for name in ("noise", "individual_noise")]
        paths = [path for path in noises if values.get(path)]
        bounds = {path: noise_range(z) for path in paths}
        extra = Extra(paths, bounds, restarts=restarts)
        return self._learn(name, model, z, choice.under("prior.kernel."), extra, progress, integrate)

    def _sample_latent(
        self,
        name: str,
        seen: LatentInput,
        tables: Sequence[np.ndarray],
        z: np.ndarray,
        choice: KernelChoice,
        settings: SamplerSettings,
        stack_tables: bool = False,
        first: FitResult | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Sample the posterior of targets that may each have seen f in several ways, with tables of their weights.

        After the `first` search for another observation of the same targets, chains start where that one ended.
        """
        targets = seen.transformed(z)
        choice = choice.under("prior.kernel.")
        noise = noise_start(targets) if seen.logarithm is not None else self._given_noise() or noise_start(targets)
        model = Model(FunctionPrior(choice.kernel), seen.replace(noise=noise))
        if first is not None:
            model = model.with_values(first.parameters)
        extra = Extra(["observation.noise"], bounds={"observation.noise": noise_range(targets)})
        variables = select(
            model, free_paths(model, choice, extra), (), {**choice.bounds, **extra.bounds}, choice.hyperpriors
        )
        starts = functools.partial(_starts, model, z=targets)
        candidate = sample_latent_inputs(
            name, model, tables, starts, z, variables, self.seed, settings, stack_tables, progress
        )
        held_out = float(np.sum(candidate.left_out.log_density)) if candidate.left_out else np.nan
        words = f"{len(candidate.values)} draws from {2 * len(tables)} chains."
        sweeps = len(tables) * 2 * (settings.warmup + settings.sweeps)
        return Fit(
            candidate, FitResult(candidate.model, candidate.medians(), held_out, "sampled", words, sweeps, 0, ())
        )

    def _use_as_given(self, model: Model, z: np.ndarray) -> Self:
        """Keep a model without learning anything."""
        self._set_average(ModelAverage.single(model, z), None)
        return self

    def _resolution_if_any(self) -> float:
        """Return the resolution; nan where x does not vary within what a target averages over."""
        model = self.average_.best
        M, x = model.observation.linearize().transformation, model.observation.x
        if x.dtype.kind == "f":
            scaled = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0.0, x.std(axis=0), 1.0)
            if np.max(M.T @ scaled**2 - (M.T @ scaled) ** 2) <= 1e-9:
                return float("nan")
        try:
            return self.resolution()
        except ValueError:
            return float("nan")

    def _has_gaussian_targets(self) -> bool:
        """Return whether targets are Gaussian about E[f | y]: not at latent inputs, nor with unlisted rows."""
        return all(
            candidate.left_out is None and candidate.model.observation.linearize().sampling is None
            for candidate in self.average_.candidates
        )

    def _warn_of_resolution(self) -> None:
        """Warn if f cannot be resolved within what a target averages over."""
        resolution = self._resolution_if_any()
        if resolution < 1.0:
            warn(
                ResolutionWarning(
                    f"the resolution is {resolution:.2g}, below one: the targets do not say how z varies with x "
                    "within one value of the mediator or one group. The error bars of f cannot be relied on; a "
                    "regression on E[x | y] does as well.",
                    resolution=resolution,
                )
            )

    @functools.cached_property
    def posterior_(self) -> Any:
        """The posterior of the centered targets, once somebody asks: last digits depend on the threads of BLAS."""
        with threads_for(len(self.average_.z)):
            return self.average_.posterior()

    def _set_average(self, average: ModelAverage, result: FitResult | None) -> None:
        self.average_, self.fit_result_ = average, result
        self.__dict__.pop("posterior_", None)
        self.kernel_ = average.best.prior.covariance
        self.noise_ = average.median("observation.noise")

    def _fitted_state(self) -> dict[str, Any]:
        """Return what makes a fresh estimator a fitted one, as plain data."""
        check_is_fitted(self)
        return {
            **self._fitted_columns(),
            "offset": self.offset_,
            "scale": self.scale_,
            "x_range": getattr(self, "_x_range", None),
            "average": self.average_.state(),
            "fit_result": None if self.fit_result_ is None else self.fit_result_.state(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        """Take up a state that `_fitted_state` returned."""
        self._restore_columns(state)
        self.offset_, self.scale_ = state["offset"], state["scale"]
        self._x_range = state.get("x_range")  # older files have none
        self._set_average(ModelAverage.from_state(state["average"]), None)
        for name in ("offset", "scale"):
            check_finite(state[name], name, self.average_.z.shape[1:])
        if state["fit_result"] is not None:
            self.fit_result_ = FitResult.from_state(state["fit_result"], self.average_.best)


@dataclasses.dataclass(frozen=True)
class Extra:
    """What the observation adds to the parameters of a kernel choice when a model is learned, by path."""

    free: Sequence[str]
    bounds: Mapping[str, tuple[Any, Any]] = dataclasses.field(default_factory=dict)
    tied: Sequence[tuple[str, ...]] = ()
    restarts: int | None = None
    also: Sequence[Mapping[str, Any]] = ()

    @property
    def noises(self) -> tuple[str, ...]:
        """Parameters that may well be next to nothing, of which no warning is needed."""
        return tuple(path for path in self.free if path.endswith("noise"))


def fitted_quietly(model: "PosteriorRegressor", *tables: Any) -> Any:
    """Return a model fitted to tables of `_fitted_data`, without warnings that are not about the user's own fit."""
    *data, z_std, group_sizes = tables
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data, z_std=z_std, group_sizes=group_sizes)


def free_paths(model: Model, choice: KernelChoice, extra: Extra) -> list[str]:
    """Return what is learned: the named parameters of the kernel, or all of them, and those of the observation.

    Parameters
    ----------
    model : Model
        The model.
    choice : KernelChoice
        The kernel, its paths as in the model.
    extra : Extra
        What the observation adds.
    """
    if choice.free is not None:
        return [*choice.free, *extra.free]
    kernel = {path: value for path, value in model.values().items() if path.startswith("prior.kernel.")}
    return [*(path for path, value in kernel.items() if np.any(value)), *extra.free]  # what is zero is absent


def _starts(model: Model, table: np.ndarray, z: np.ndarray) -> Sequence[np.ndarray]:
    """Return two functions at the rows to start chains from: z on E[x | y] as a straight line, and a smooth fit."""
    seen: Any = model.observation
    points, averages = model.prior.covariance.points(seen.x, "x"), seen.averages(table)
    gram = model.prior.covariance.gram(points, points)
    covariance = averages.T @ gram @ averages
    least = 1e-10 * float(np.diagonal(covariance).mean())  # a start needs no more digits, and can be solved for
    covariance += np.diag(np.maximum(seen.variance, least))
    smooth = gram @ (averages @ np.linalg.solve(covariance, z))
    numeric = numeric_columns(seen.x)
    if not numeric:
        return [smooth]
    x = seen.x[:, numeric].astype(np.float64)
    scaled = (x - x.mean(axis=0)) / spread(x)
    slopes, *_ = np.linalg.lstsq(averages.T @ scaled, z, rcond=None)
    return [np.clip(scaled @ slopes, z.min(), z.max()), smooth]


def _is_far_from_normal(residuals: np.ndarray, fewest: int = 20, level: float = 1e-4) -> bool:
    """Tell whether skewness and kurtosis of residuals refute a normal distribution (D'Agostino & Pearson 1973)."""
    from scipy.stats import normaltest

    if len(residuals) < fewest or np.ptp(residuals) == 0.0:
        return False
    return bool(normaltest(residuals).pvalue < level)
