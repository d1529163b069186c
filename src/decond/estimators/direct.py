"""Ordinary regression, z = f(x) + noise, with the same defaults and error bars as its indirect relatives."""

import dataclasses
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from decond.estimators.base import PosteriorRegressor, deviation_of, noise_range, noise_start
from decond.estimators.defaults import KernelChoice, in_data_units
from decond.learning import FitResult, Model, maximize_evidence, select
from decond.regression import Direct, FunctionPrior

__all__ = ["DirectGP"]


class DirectGP(PosteriorRegressor):
    """A Gaussian process of one table, z = f(x) + noise: what the indirect models are measured against.

    Parameters:
        kernel: the covariance of f in the units of the data; None chooses from the data. Where it is learned, the
            search also starts from the scales of the data, and a kernel without a variance of its own is given one.
            Where it is not, it is used exactly as given.
        noise: σ, the standard deviation of the noise: one of the starts where it is learned, else the value. None
            takes it from the targets.
        mean, uncertainty, optimize, n_restarts, seed: as for `TaskTransformedGP`.

    >>> x = np.linspace(0, 6, 60)[:, None]
    >>> z = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> DirectGP().fit(x, z).predict([[0.0], [1.5]]).round(0) + 0.0
    array([0., 1.])
    """

    def __init__(
        self,
        kernel: Any = None,
        noise: float | None = None,
        mean: str = "constant",
        uncertainty: str = "honest",
        optimize: bool = True,
        n_restarts: int = 1,
        seed: int = 0,
    ) -> None:
        self.kernel = kernel
        self.noise = noise
        self.mean = mean
        self.uncertainty = uncertainty
        self.optimize = optimize
        self.n_restarts = n_restarts
        self.seed = seed

    def fit(self, X: Any, y: Any, progress: Any = None) -> Self:
        """Learn from rows X and targets y: (n,), or (n, t)."""
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        z = self._centered(np.asarray(y, dtype=np.float64), self.optimize)
        noise = self._starting_noise(z, given=True)
        choice = self._chosen_kernel(self.kernel, X, z)
        if not self.optimize or (self.kernel is None and self.noise is None):
            return self._learn_or_use(Direct(X, noise), z, choice, self.optimize, progress)
        better = self._better_start(Model(FunctionPrior(choice.kernel), Direct(X, noise)), z, choice, progress)
        choice = choice._replace(kernel=better.model.prior.kernel)
        self._learn_or_use(better.model.observation, z, choice, True, progress)
        self.fit_result_ = _as_one_search(better, self.fit_result_)
        return self

    def _better_start(self, given: Model, z: np.ndarray, choice: KernelChoice, progress: Any) -> FitResult:
        """Return the better optimum of two: from what was given, and from the scales of the data."""
        kernel, x, unit = choice.kernel, given.observation.x, float(np.sqrt(np.mean(np.square(self.scale_))))
        if self.kernel is not None:
            kernel = in_data_units(kernel, x, deviation_of(z) ** 2)
            given = Model(FunctionPrior(choice.kernel.rescaled(unit**-2)), given.observation)
        if self.noise is not None:
            given = given.with_values({"observation.noise": self.noise / unit})
        model, choice = Model(FunctionPrior(kernel), Direct(x, noise_start(z))), choice.under("prior.kernel.")
        noise = "observation.noise"
        free, ranges = (None, {}) if choice.free is None else ([*choice.free, noise], {noise: noise_range(z)})
        variables = select(model, free, bounds={**choice.bounds, **ranges}, hyperpriors=choice.hyperpriors)
        quiet = list(model.values())  # the search that follows warns
        return maximize_evidence(model, z, variables, 0, progress=progress, quiet=quiet, also=[given.values()])

    def _known_columns(self, x: Any) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, x, reset=False, dtype=np.float64)


def _as_one_search(first: FitResult, last: Any) -> FitResult:
    """Return the result of a search from the optimum of another one, which cannot always be improved on."""
    counts = {"evaluations": first.evaluations + last.evaluations, "failures": first.failures + last.failures}
    stayed = np.isclose(max(last.starts), max(first.starts), rtol=1e-9, atol=0.0)
    verdict = {"status": first.status, "message": first.message} if stayed and last.status == "stopped" else {}
    return dataclasses.replace(last, **counts, **verdict)
