"""What every estimator shares: scikit-learn's conventions, units of the targets, answers from one posterior."""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from decond.checks import as_number, as_rows, as_targets, check_choice, check_column_names, column_names
from decond.errors import ArgumentError, ResolutionWarning
from decond.estimators.defaults import NOISE_START, NOISES, KernelChoice, given_kernel, plain_kernel, smooth_kernel
from decond.estimators.fit_check import FitCheck, compare_settings
from decond.estimators.showing import Shown
from decond.features.feature_maps import as_kernel
from decond.gp import (
    Candidate,
    FitResult,
    FunctionPrior,
    HyperparameterSample,
    Model,
    ModelAverage,
    Observation,
    maximize_evidence,
    sample_hyperparameters,
    select,
    warn_if_constant,
)
from decond.messages import warn
from decond.parameters import leaves

__all__ = ["AnsweringRegressor", "IndirectRegressor", "PosteriorRegressor"]

UNCERTAINTIES = ("honest", "plain")
MEANS = ("constant", "zero")


class Fit(NamedTuple):
    """One candidate model, and how the search for its hyperparameters went."""

    candidate: Candidate
    result: FitResult


class IndirectRegressor(Shown, RegressorMixin, BaseEstimator):
    """Base of all estimators: remembers columns, and refuses others at prediction."""

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that there may be several target columns."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _remember_columns(self, x: Any, name: str) -> np.ndarray:
        """Return x as rows, and keep the number and names of its columns."""
        rows = as_rows(x, name, labels=True)
        self.n_features_in_ = rows.shape[1]
        names = column_names(x)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return rows

    def _known_columns(self, x: Any) -> np.ndarray:
        """Return x as rows with the columns that the model was fitted on."""
        check_is_fitted(self)
        known = getattr(self, "feature_names_in_", None)
        check_column_names(x, "x", None if known is None else list(known))
        rows = as_rows(x, "x", labels=True)
        if rows.shape[1] != self.n_features_in_:
            raise ArgumentError(
                "x",
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input. Give the same columns as in fit, in the same order.",
            )
        return rows

    def _fitted_columns(self) -> dict[str, Any]:
        names = getattr(self, "feature_names_in_", None)
        return {"n_features_in": self.n_features_in_, "feature_names_in": None if names is None else list(names)}

    def _check_same_columns(self, other: "IndirectRegressor") -> None:
        """Raise unless another model has read the same columns, in the same order."""
        mine, theirs = (model._fitted_columns() for model in (self, other))
        if mine != theirs:
            words = [state["feature_names_in"] or f"{state['n_features_in']} column(s)" for state in (theirs, mine)]
            raise ArgumentError(
                "other",
                f"the other model has read {words[0]}, this one {words[1]}; merge models of the same columns, in the "
                "same order.",
            )

    def _restore_columns(self, state: dict[str, Any]) -> None:
        self.n_features_in_ = state["n_features_in"]
        if state["feature_names_in"] is not None:
            self.feature_names_in_ = np.array(state["feature_names_in"], dtype=object)


class AnsweringRegressor(IndirectRegressor):
    """Base of the estimators with error bars: every answer is a view of `posterior_`.

    Fitted attributes: `posterior_` (of the centered targets), `offset_` (what was subtracted), `scale_` (what they
    were divided by; one unless there are several target columns).
    """

    posterior_: Any
    offset_: Any
    scale_: Any

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Return E[f] at the rows of X; also the standard deviation of f, or its covariance between the rows.

        The noise of single measurements is not in them: they tell how well f itself is known.
        """
        check_is_fitted(self)
        posterior, rows = self.posterior_, self._known_columns(X)
        if return_std and return_cov:
            raise ArgumentError(
                "return_cov", "return_std and return_cov are both True; ask for one of them at a time."
            )
        if return_std:
            mean, variance = posterior.moments(rows)
            std = np.sqrt(variance[:, None] if variance.ndim < mean.ndim else variance)
            return mean * self.scale_ + self.offset_, np.broadcast_to(std * self.scale_, mean.shape).copy()
        mean = posterior.mean(rows) * self.scale_ + self.offset_
        if return_cov:
            covariance = posterior.covariance(rows)
            covariance = covariance[:, :, None] if mean.ndim == 2 and covariance.ndim == 2 else covariance
            return mean, covariance * np.square(self.scale_)
        return mean

    def sample(self, X: Any, n: int = 1, seed: Any = None) -> np.ndarray:
        """Return n joint draws of f at the rows of X: (n, q), or (n, q, t) for several targets."""
        check_is_fitted(self)
        posterior, rows = self.posterior_, self._known_columns(X)
        return posterior.sample(rows, n, seed) * self.scale_ + self.offset_


class PosteriorRegressor(AnsweringRegressor):
    """Base of the Gaussian-process estimators, with a posterior of all rows.

    Fitted attributes, beside those of every one with error bars: `kernel_` and `noise_` (learned), `average_` (the
    candidate models with their weights), `fit_result_`.
    """

    noise: Any
    mean: str
    uncertainty: str
    n_restarts: int
    seed: int
    _data: tuple[Any, ...]

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, include_noise: bool = False) -> Any:
        """Return E[f] at the rows of X; also its standard deviation, or its covariance between the rows.

        Parameters
        ----------
        X : array_like of shape (q, d)
            Where to predict.
        return_std, return_cov : bool
            Return the standard deviation (q,), or the covariance (q, q), as well: how well f itself is known.
        include_noise : bool
            Add the learned noise of a target, `noise_`, to the deviation or to the diagonal of the covariance.

        Returns
        -------
        mean : ndarray of shape (q,) or (q, t)
        std or cov : ndarray
            Only if asked for.
        """
        answer = super().predict(X, return_std, return_cov)
        if not include_noise or not (return_std or return_cov):
            return answer
        mean, spread = answer
        noise = self.noise_ * self.scale_
        if return_std:
            return mean, np.hypot(spread, noise)
        spread = spread.copy()
        spread[np.diag_indices(len(mean))] += np.square(noise)
        return mean, spread

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation of every target, predicted from the others (noise included)."""
        check_is_fitted(self)
        found = self._left_out()
        return found.mean * self.scale_ + self.offset_, np.sqrt(found.variance) * self.scale_

    def standardized_residuals(self) -> np.ndarray:
        """Return (target - mean) / deviation of every target, mean and deviation predicted from the other targets.

        If the error bars are right they are like draws of N(0, 1); `plotting.ResidualsDisplay` draws them.
        """
        mean, deviation = self.leave_one_out()
        return (self.average_.z * self.scale_ + self.offset_ - mean) / deviation

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

    def check(self) -> FitCheck:
        """Compare this fit with one of the other setting, and say whether its error bars can be relied on.

        The other setting is the other kind of target (`targets`), or for groups the other answer to whether all rows
        are listed (`group_sizes`). It is fitted to the same data; held-out log densities of the targets are compared.

        Returns
        -------
        FitCheck
            Resolution, hint and the numbers behind it.
        """
        check_is_fitted(self)
        other = self._with_other_setting()
        return compare_settings(self, other)

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

    def _centered(self, z: np.ndarray, own_units: bool) -> np.ndarray:
        """Return the targets less their mean; several columns are scaled to unit mean square if units are ours."""
        check_choice(self.mean, "mean", MEANS)
        check_choice(self.uncertainty, "uncertainty", UNCERTAINTIES)
        flat = z.ndim == 1
        offset = z.mean(axis=0) if self.mean == "constant" else np.zeros(z.shape[1:])
        centered = z - offset
        constant = np.abs(centered).max(axis=0) <= 1e-12 * np.abs(z).max(axis=0)
        centered = np.where(constant, 0.0, centered)  # what is left of equal targets is rounding
        scale = np.ones(z.shape[1:])
        if own_units and z[0].size > 1:
            scale = np.where(constant, 1.0, np.sqrt(np.mean(centered**2, axis=0)))
        self.offset_, self.scale_ = (float(offset), float(scale)) if flat else (offset, scale)
        return centered / self.scale_

    def _known_errors(self, z_std: Any, z: np.ndarray, partner: str) -> np.ndarray:
        """Return known standard errors of the targets, checked."""
        if z[0].size > 1:
            raise ArgumentError("z_std", "z_std takes one target column; fit each target column by itself.")
        errors = as_targets(z_std, "z_std", len(z), partner)
        if errors.ndim != 1 or np.any(errors < 0.0):
            raise ArgumentError(
                "z_std", "z_std has several columns or negative values; give one standard error for each target."
            )
        return errors

    def _start_noise(self, z: np.ndarray, optimize: bool) -> float:
        """Return the noise to use as given or, where it is learned, to start from: in the units of the targets."""
        given = self._given_noise()
        return noise_start(z) if optimize or given is None else given

    def _given_noise(self) -> float | None:
        """Return the noise that was given, in units of the scaled targets."""
        if self.noise is None:
            return None
        noise = as_number(self.noise, "noise", minimum=0.0, strict=True, remedy="It is a standard deviation of z.")
        return noise / self._unit()

    def _unit(self) -> float:
        return float(np.sqrt(np.mean(np.square(self.scale_))))

    def _chosen_kernel(
        self,
        kernel: Any,
        x: np.ndarray,
        z: np.ndarray,
        optimize: bool,
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
            if not optimize:
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
        progress: Any = None,
        integrate: bool = True,
    ) -> Fit:
        """Maximize the evidence and, for honest error bars, integrate over the hyperparameters."""
        variables = select(
            model,
            free_paths(model, choice, extra),
            extra.tied,
            {**choice.bounds, **extra.bounds},
            {**choice.hyperpriors, **extra.hyperpriors},
        )
        restarts = self.n_restarts if extra.restarts is None else extra.restarts
        quiet = extra.quiet if integrate else list(model.values())  # a first search need not warn
        also = extra.also if extra.restarts == 0 else [*extra.also, *self._given_values(model, choice)]
        result = maximize_evidence(
            model, z, variables, restarts, self.seed, progress=progress, quiet=quiet, also=also
        )
        sample = HyperparameterSample((result.parameters,), np.ones(1))
        if self.uncertainty == "honest" and integrate:
            sample = sample_hyperparameters(result, z, variables, seed=self.seed)
        return Fit(Candidate.of(name, result.model, sample), result)

    def _given_values(self, model: Model, choice: KernelChoice) -> list[dict[str, Any]]:
        """Return a start from the kernel and the noise that the user gave, if any."""
        values: dict[str, Any] = {}
        if choice.given is not None:
            values |= leaves(choice.given, "prior.kernel.")
        if self.noise and model.values().get("observation.noise"):
            values["observation.noise"] = self._given_noise()
        return [values] if values else []

    def _conclude(self, fits: Sequence[Fit], z: np.ndarray, evaluations: int = 0) -> Self:
        """Average the candidates by stacking, keep what was learned and build the posterior.

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
        self, observation: Observation, z: np.ndarray, choice: KernelChoice, optimize: bool, progress: Any
    ) -> Self:
        """Learn the kernel and the noises that are there, for an observation with a fixed M; or use all as given."""
        model = Model(FunctionPrior(choice.kernel), observation)
        if not optimize:
            return self._use_as_given(model, z)
        return self._conclude([self._learn_fixed("model", observation, z, choice, progress)], z)

    def _learn_fixed(
        self,
        name: str,
        observation: Observation,
        z: np.ndarray,
        choice: KernelChoice,
        progress: Any,
        first: FitResult | None = None,
    ) -> Fit:
        """Learn the kernel and the noises that are there, for an observation with a fixed M.

        After the `first` search for another observation, this one starts from where that one ended.
        """
        model = Model(FunctionPrior(choice.kernel), observation)
        values = model.values()
        noises = [f"observation.{name}" for name in ("noise", "individual_noise")]
        paths = [path for path in noises if values.get(path)]
        bounds = {path: noise_range(z) for path in paths}
        extra = Extra(paths, bounds=bounds)
        if first is not None:
            extra = Extra(paths, bounds=bounds, restarts=0, also=first.optima)
        return self._learn(name, model, z, choice.under("prior.kernel."), extra, progress)

    def _use_as_given(self, model: Model, z: np.ndarray) -> Self:
        """Build the posterior without learning anything."""
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

    def _set_average(self, average: ModelAverage, result: FitResult | None) -> None:
        self.average_, self.fit_result_ = average, result
        self.posterior_ = average.posterior()
        self.kernel_ = average.best.prior.covariance
        self.noise_ = average.median("observation.noise")

    def _fitted_state(self) -> dict[str, Any]:
        """Return what makes a fresh estimator a fitted one, as plain data."""
        check_is_fitted(self)
        return {
            **self._fitted_columns(),
            "offset": self.offset_,
            "scale": self.scale_,
            "average": self.average_.state(),
            "fit_result": None if self.fit_result_ is None else self.fit_result_.state(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        """Take up a state that `_fitted_state` returned."""
        self._restore_columns(state)
        self.offset_, self.scale_ = state["offset"], state["scale"]
        self._set_average(ModelAverage.from_state(state["average"]), None)
        if state["fit_result"] is not None:
            self.fit_result_ = FitResult.from_state(state["fit_result"], self.average_.best)


class Extra:
    """What the observation adds to the parameters of a kernel choice when a model is learned."""

    def __init__(
        self,
        free: Any = (),
        tied: Any = (),
        bounds: Any = None,
        hyperpriors: Any = None,
        restarts: int | None = None,
        also: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.free, self.tied, self.restarts, self.also = tuple(free), tuple(tied), restarts, list(also)
        self.quiet = tuple(path for path in self.free if path.endswith("noise"))  # it may well be next to nothing
        self.bounds, self.hyperpriors = dict(bounds or {}), dict(hyperpriors or {})


def fitted_quietly(model: Any, *tables: Any) -> Any:
    """Return a model fitted to tables of `_fitted_data`, without warnings that are not about the user's own fit."""
    *data, z_std, group_sizes = tables
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data, z_std=z_std, group_sizes=group_sizes)


def noise_range(z: np.ndarray) -> tuple[float, float]:
    """Return the range in which a noise is searched."""
    return NOISES[0] * deviation_of(z), NOISES[1] * deviation_of(z)


def noise_start(z: np.ndarray) -> float:
    """Return where the search for a noise starts."""
    return NOISE_START * deviation_of(z)


def deviation_of(z: np.ndarray) -> float:
    """Return the root mean square of centered targets; one if they are all equal."""
    deviation = float(np.sqrt(np.mean(np.square(z))))
    return deviation if deviation > 1e-12 * max(float(np.abs(z).max(initial=0.0)), 1e-300) else 1.0


def free_paths(model: Model, choice: KernelChoice, extra: Extra) -> list[str]:
    """Return what is learned: the named parameters of the kernel, or all of them, and those of the observation."""
    if choice.free is not None:
        return [*choice.free, *extra.free]
    kernel = {path: value for path, value in model.values().items() if path.startswith("prior.kernel.")}
    return [*(path for path, value in kernel.items() if np.any(value)), *extra.free]  # what is zero is absent
