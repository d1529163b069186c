"""What every estimator shares: scikit-learn's conventions, units of the targets, answers from one posterior."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from decond.checks import as_number, as_rows, check_choice, check_column_names, column_names
from decond.errors import ArgumentError
from decond.estimators.defaults import NOISE_START, NOISES, KernelChoice, plain_kernel, smooth_kernel
from decond.estimators.ensemble import Ensemble, averaged, single
from decond.estimators.reliability import NEGLIGIBLE, are_samples, doubted, probability_of_complete, story
from decond.estimators.showing import Shown
from decond.features.base import as_kernel
from decond.learning import FitResult, HyperparameterSample, Model, maximize_evidence, sample_hyperparameters, select
from decond.linalg import NotPositiveDefiniteError
from decond.regression import FunctionPrior, Observation

__all__ = ["AnsweringRegressor", "IndirectRegressor", "PosteriorRegressor"]

UNCERTAINTIES = ("honest", "plain")
MEANS = ("constant", "zero")
Fit = tuple[FitResult, HyperparameterSample]


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

    Fitted attributes, beside those of every one with error bars: `kernel_` and `noise_` (learned), `fit_result_`.
    """

    noise: Any
    mean: str
    uncertainty: str
    n_restarts: int
    seed: int

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation of every target, predicted from the others (noise included)."""
        check_is_fitted(self)
        mean, variance = self.posterior_.leave_one_out()
        deviation = np.sqrt(variance)
        deviation = deviation[:, None] if deviation.ndim < mean.ndim else deviation
        return mean * self.scale_ + self.offset_, np.broadcast_to(deviation * self.scale_, mean.shape).copy()

    def standardized_residuals(self) -> np.ndarray:
        """Return (target - mean) / deviation of every target, mean and deviation predicted from the other targets.

        If the error bars are right they are like draws of N(0, 1); `plotting.ResidualsDisplay` draws them.
        """
        mean, deviation = self.leave_one_out()
        return (self.ensemble_.z * self.scale_ + self.offset_ - mean) / deviation

    def log_marginal_likelihood(self) -> float:
        """Return the log evidence of the targets at the learned hyperparameters; of labels, that of their means.

        Of targets at unseen x (docs/adr/0012) it is a lower bound.
        """
        check_is_fitted(self)
        rows = len(self.ensemble_.z)
        return float(self.posterior_.log_evidence - rows * np.sum(np.log(self.scale_)))

    def resolution(self) -> float:
        """Return how much f varies within what a target averages over, in units of its error bar.

        Well above one, the model tells rows apart that share a group or a mediator value. Below one it says no more
        than the targets themselves do: then deconditioning does not help, and a regression on E[x | y] does as well.
        """
        check_is_fitted(self)
        model = self._heaviest_model()
        M = model.observation.linearize().transformation
        if abs(float(np.mean(M.sum(axis=0))) - 1.0) > 0.3:
            raise ValueError("resolution is there only for targets that are averages: columns of M that sum to one.")
        x = self.posterior_.prior.covariance.points(model.observation.x, "x")
        mean, variance = self.posterior_.moments(x)
        within = np.maximum(M.T @ mean**2 - (M.T @ mean) ** 2, 0.0)
        return float(np.sqrt(np.mean(within) / np.mean(variance)))

    def _rows_seen(self) -> np.ndarray:
        return np.asarray(self._heaviest_model().observation.x)

    def _heaviest_model(self) -> Model:
        heaviest = max(self.ensemble_.members, key=lambda member: member.center)
        return self.ensemble_.models[heaviest.model].with_values(heaviest.values)

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

    def _starting_noise(self, z: np.ndarray, given: bool) -> float:
        """Return the noise to use or to start from: as given together with a kernel, or from the data."""
        if self.noise is None:
            return noise_start(z)
        noise = as_number(self.noise, "noise", minimum=0.0, strict=True, remedy="It is a standard deviation of z.")
        return noise if given else noise_start(z)

    def _chosen_kernel(
        self, kernel: Any, x: np.ndarray, z: np.ndarray, trend: bool = True, gain: float = 1.0, name: str = "kernel"
    ) -> KernelChoice:
        """Return the kernel that was given, or the default one for this kind of error bars.

        `gain` is the variance that the targets would have if f had unit variance.
        """
        if kernel is not None:
            return KernelChoice(as_kernel(kernel, name))
        variance = deviation_of(z) ** 2 / gain
        if self.uncertainty == "plain":
            return plain_kernel(x, variance, learn_variance=True)
        return smooth_kernel(x, variance, trend)

    def _learn(
        self,
        model: Model,
        z: np.ndarray,
        choice: KernelChoice,
        extra: "Extra",
        progress: Any = None,
        look_around: bool = True,
    ) -> Fit:
        """Maximize the evidence and, for honest error bars, look around the optimum."""
        free = free_paths(model, choice, extra)
        variables = select(
            model, free, extra.tied, {**choice.bounds, **extra.bounds}, {**choice.hyperpriors, **extra.hyperpriors}
        )
        restarts = self.n_restarts if extra.restarts is None else extra.restarts
        quiet = extra.quiet if look_around else list(model.values())  # a first search need not warn
        result = maximize_evidence(model, z, variables, restarts, self.seed, progress=progress, quiet=quiet)
        if self.uncertainty == "plain" or not look_around:
            return result, HyperparameterSample((result.parameters,), np.ones(1))
        return result, sample_hyperparameters(result, z, variables, seed=self.seed)

    def _conclude(
        self,
        fits: list[Fit],
        z: np.ndarray,
        evaluations: int = 0,
        weights: Sequence[float] | np.ndarray = (1.0,),
        note: str = "",
    ) -> Self:
        """Keep what was learned, models with their weights, and build the posterior.

        `evaluations` were spent on searches that nothing was kept of; a `note` is added to what the search says.
        """
        results = [result for result, _ in fits]
        total = evaluations + sum(result.evaluations for result in results)
        best = results[int(np.argmax(weights))]
        failures, message = sum(result.failures for result in results), f"{best.message} {note}".rstrip()
        best = dataclasses.replace(best, evaluations=total, failures=failures, message=message)
        return self._set_ensemble(averaged(results, [sample for _, sample in fits], z, weights), best)

    def _learn_or_use(
        self, observation: Observation, z: np.ndarray, choice: KernelChoice, optimize: bool, progress: Any
    ) -> Self:
        """Learn the kernel and the noises that are there, for an observation with a fixed M; or use all as given."""
        model = Model(FunctionPrior(choice.kernel), observation)
        if not optimize:
            return self._use_as_given(model, z)
        values = model.values()
        noises = [f"observation.{name}" for name in ("noise", "individual_noise")]
        paths = [path for path in noises if values.get(path)]
        extra = Extra(paths, bounds={path: noise_range(z) for path in paths} if choice.free is not None else None)
        choice = choice.under("prior.kernel.")
        fit = self._learn(model, z, choice, extra, progress)
        if self.uncertainty == "honest" and are_samples(observation):
            return self._conclude_samples(fit, z, choice, extra, progress)
        return self._conclude([fit], z)

    def _conclude_samples(self, fit: Fit, z: np.ndarray, choice: KernelChoice, extra: "Extra", progress: Any) -> Self:
        """Beside a model of groups whose rows are a sample, keep one that counts their reliability.

        How many rows were left out is not known, so both have the same weight. Unless the user has said that rows
        were left out, a third one takes them for all of their group, with the weight that Bayes' rule gives it.
        """
        found = fit[0].model
        model = doubted(found, z)
        if model is None:
            return self._conclude([fit], z)
        extra = extra.from_here(found)
        others = [model]
        if not self.sampled:
            others.append(Model(found.prior, found.observation.replace(sampled=False)))
        try:
            fits = [fit, *(self._learn(other, z, choice, extra, progress) for other in others)]
        except NotPositiveDefiniteError:
            return self._conclude([fit], z)
        share = 0.0 if self.sampled else probability_of_complete(fits[1][0], fits[2][0])
        weights = np.array([0.5 * (1.0 - share), 0.5 * (1.0 - share), share])[: len(fits)]
        kept = np.flatnonzero(weights >= NEGLIGIBLE)
        spent = sum(one[0].evaluations for i, one in enumerate(fits) if i not in kept)
        weights = weights[kept] / weights[kept].sum()
        return self._conclude([fits[i] for i in kept], z, spent, weights, story(share, model))

    def _use_as_given(self, model: Model, z: np.ndarray) -> Self:
        """Build the posterior without learning anything."""
        return self._set_ensemble(single(model, z), None)

    def _set_ensemble(self, ensemble: Ensemble, result: FitResult | None) -> Self:
        self.ensemble_, self.fit_result_ = ensemble, result
        self.posterior_ = ensemble.posterior()
        model = self._heaviest_model()
        self.kernel_ = model.prior.covariance
        self.noise_ = model.values()["observation.noise"]
        return self

    def _fitted_state(self) -> dict[str, Any]:
        """Return what makes a fresh estimator a fitted one, as plain data."""
        check_is_fitted(self)
        return {
            **self._fitted_columns(),
            "offset": self.offset_,
            "scale": self.scale_,
            "ensemble": self.ensemble_.state(),
            "fit_result": None if self.fit_result_ is None else self.fit_result_.state(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        """Take up a state that `_fitted_state` returned."""
        self._restore_columns(state)
        self.offset_, self.scale_ = state["offset"], state["scale"]
        self._set_ensemble(Ensemble.from_state(state["ensemble"]), None)
        if state["fit_result"] is not None:
            self.fit_result_ = FitResult.from_state(state["fit_result"], self._heaviest_model())


class Extra:
    """What the observation adds to the parameters of a kernel choice when a model is learned."""

    def __init__(
        self,
        free: Any = (),
        tied: Any = (),
        bounds: Any = None,
        hyperpriors: Any = None,
        restarts: int | None = None,
    ) -> None:
        self.free, self.tied, self.restarts = tuple(free), tuple(tied), restarts
        self.quiet = tuple(path for path in self.free if path.endswith("noise"))  # it may well be next to nothing
        self.bounds, self.hyperpriors = dict(bounds or {}), dict(hyperpriors or {})

    def from_here(self, model: Model) -> "Extra":
        """Return the same for a search that begins where another ended: no restarts, and no further warnings."""
        again = Extra(self.free, self.tied, self.bounds, self.hyperpriors, restarts=0)
        again.quiet = tuple(model.values())
        return again


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
