"""Two tables that share only a mediator: z as a function of x, with error bars."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from decond.checks import as_number, as_targets, check_choice
from decond.conditional import InputDensity, MediatorSmoother
from decond.conditional.mediator import (
    SharedGroups,
    label_columns,
    linked_mediators,
    shared_groups,
)
from decond.conditional.smoother import ConditionalExpectation
from decond.errors import ArgumentError
from decond.estimators.aggregate import LOOKS_LISTED, LOOKS_SAMPLED, learn_groups
from decond.estimators.defaults import (
    KernelChoice,
    SearchRanges,
    deviation_of,
    noise_range,
    plain_kernel,
)
from decond.estimators.posterior_regressor import Extra, Fit, PosteriorRegressor, fitted_quietly
from decond.estimators.regressor import rows_range
from decond.features import FeatureMap
from decond.gp import (
    Aggregated,
    FunctionPrior,
    LatentInput,
    LogNormal,
    Model,
    SamplerSettings,
    TaskTransformed,
    Transformed,
)
from decond.gp.observations import Targets
from decond.gp.search import Progress
from decond.kernels.kernel import Kernel
from decond.parameters import leaves
from decond.threads import threads_by_rows

__all__ = ["InstrumentalVariablesGP", "TaskTransformedGP"]

LOOKS_SINGLE = 'Your targets look like single measurements, not like means: see targets="single".'
LOOKS_MEAN = 'Your targets look like means over all x of their y, not like single measurements: see targets="mean".'
"""Hints of `check`, where the other kind of target predicts better."""

Description = Callable[[Kernel], ConditionalExpectation]
"""From the kernel of x to E[f(X) | y]."""


class _Tables(NamedTuple):
    """Pairs, and task rows with their centered targets and known variances."""

    x: np.ndarray
    y: np.ndarray
    y_task: np.ndarray
    z: np.ndarray
    variance: np.ndarray | None


@dataclass(eq=False, repr=False)
class TaskTransformedGP(PosteriorRegressor):
    """z as a function of x from pairs (x, y) and task rows (y, z), which share only the mediator y.

    With ``targets="mean"`` the model is the paper's: z = E[f(X) | y] + noise with f a Gaussian process. With
    ``targets="single"`` each z was measured at one x that belongs to its y and was not recorded: z = f(x̃) + noise
    with x̃ from p(x | y). Then the whole distribution of the targets says something about f. If all targets are
    positive the noise may also multiply f, whichever predicts held-out targets better.

    Parameters
    ----------
    kernel_x, kernel_y : Kernel, optional
        Covariances of f and of the mediating function, in the units of the data. By default they come from the data:
        per-column lengthscales, and a categorical kernel for columns of labels. Where a given kernel is learned, the
        search starts from it and from the scales of the data, and the better optimum wins. If `kernel_y` is given,
        the model is the plain one, and "honest" adds only the integration over hyperparameters.
    noise : float, optional
        σ, the standard deviation of the noise of the targets: a further start where it is learned, the value with
        ``optimize=False``. By default it is learned, from a start in the units of the targets.
    mean : {"constant", "zero"}
        "constant" centers the targets, "zero" does not.
    mediator : {"full", "map"}
        "full" keeps the uncertainty of the mediating function, "map" drops it.
    targets : {"mean", "single"}
        What a target is: a mean over all x that go with its y, or one measurement at one x that was not recorded.
    drift : float
        For ``targets="single"``: the prior standard deviation of a relative stretch of E[x | y] about its mean, where
        x given y may differ between the two tables (another year, another place). Zero says that it does not.
    uncertainty : {"honest", "plain"}
        "plain" is the paper's formulas exactly, at maximal evidence with noise and regularization tied (λ = σ²/n);
        its error bars are too narrow. "honest" learns p(x | y) from the pairs alone and integrates over
        hyperparameters (docs/adr/0014-facts-not-guesses.md).
    optimize : bool
        Whether to learn; otherwise everything is used as given.
    n_restarts : int
        Further starts of the search; ``targets="single"`` samples instead and does not use it.
    seed : int
        Seed of everything random.

    Attributes
    ----------
    average_ : ModelAverage
        Candidate models with their stacking weights.
    kernel_, noise_ : Kernel, float
        Kernel of the heaviest candidate; median of the noise, in units of the targets. With several target columns
        both are in units of the scaled targets. Where the noise multiplies, the kernel is of the logarithm of f, and
        the noise is that of a target at their geometric mean.
    fit_result_ : FitResult
        How the search went.

    Examples
    --------
    >>> from decond.problems import latent_function
    >>> p = latent_function()
    >>> gp = TaskTransformedGP(targets="single").fit(p.x, p.y, p.y_task, p.z_task)
    >>> mean, std = gp.predict([[0.0], [2.0]], return_std=True)
    >>> bool(np.all(np.abs(mean - [2.0, -1.0]) < 3 * std))
    True
    """

    kernel_x: Kernel | FeatureMap | None = None
    kernel_y: Kernel | FeatureMap | None = None
    noise: float | None = None
    mean: str = "constant"
    mediator: str = "full"
    targets: Literal["mean", "single"] = "mean"
    drift: float = 0.0
    uncertainty: str = "honest"
    optimize: bool = True
    n_restarts: int = 4
    seed: int = 0

    @threads_by_rows
    def fit(
        self,
        x: ArrayLike,
        y: ArrayLike,
        y_task: ArrayLike,
        z_task: ArrayLike,
        z_std: ArrayLike | None = None,
        group_sizes: Targets | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from pairs (x, y), row by row, and from task rows (y_task, z_task).

        Parameters
        ----------
        x : array_like of shape (n, d)
            Inputs of the pairs.
        y : array_like of shape (n, e)
            Their mediator: numbers, labels or both.
        y_task : array_like of shape (m, e)
            Mediator of the task rows.
        z_task : array_like of shape (m,) or (m, t)
            Targets.
        z_std : array_like of shape (m,), optional
            Known standard errors of the targets. The learned noise is in addition to them.
        group_sizes : float or dict, optional
            For a mediator of labels: how many rows each label really has, of which the pairs list a sample; one
            number, infinity for "many", or a number for each label. None says that all are listed.
        progress : callable, optional
            Called with the number of evaluations and the best objective so far.

        Returns
        -------
        self
        """
        names = ("x", "y", "y_task", "z_task")
        return self._fit_tables((x, y, y_task, z_task), names, z_std, group_sizes, progress)

    def _fit_tables(
        self,
        tables: tuple[Any, ...],
        names: tuple[str, ...],
        z_std: ArrayLike | None,
        group_sizes: Targets | None,
        progress: Progress | None,
    ) -> Self:
        """Learn from x, y, y_task and z_task, which messages call by these names."""
        check_choice(self.mediator, "mediator", ("full", "map"))
        check_choice(self.targets, "targets", ("mean", "single"))
        as_number(self.drift, "drift", minimum=0.0, remedy="It is the standard deviation of a relative stretch.")
        rows = self._remember_columns(tables[0], names[0])
        self._x_range = rows_range(rows)
        y, y_task = linked_mediators(rows, tables[1], tables[2], names)
        targets = as_targets(tables[3], names[3], len(y_task), names[2])
        self._data = (rows, y, y_task, targets, z_std, group_sizes)
        errors = None if z_std is None else self._known_errors(z_std, targets, names[2])
        paper = self.uncertainty == "plain" or self.kernel_y is not None or not self.optimize
        only_labels = len(label_columns(y)) == y.shape[1]
        any_labels = bool(label_columns(y)) or rows.dtype.kind != "f"
        self._check_facts(targets, paper, only_labels, any_labels, group_sizes)
        if not paper and only_labels and self.targets == "mean":
            groups = shared_groups(y, y_task, targets)
            self._fit_labels(rows, y, groups, targets, errors, group_sizes, progress)
        else:
            z = self._centered(targets)
            variance = None if errors is None else (errors / self._unit()) ** 2
            learn = self._fit_paper if paper else self._fit_single if self.targets == "single" else self._fit_mean
            learn(_Tables(rows, y, y_task, z, variance), progress)
        self._warn_of_resolution()
        return self

    def _check_facts(
        self, targets: np.ndarray, paper: bool, only_labels: bool, any_labels: bool, group_sizes: Targets | None
    ) -> None:
        """Raise if the facts that were stated do not go together, or not with these tables."""
        if self.targets == "single" and paper:
            raise ArgumentError(
                "targets",
                'targets="single" has no plain form: it needs uncertainty="honest", optimize=True and no kernel_y. '
                'Leave these out, or use targets="mean".',
            )
        if self.targets == "single" and targets[0].size > 1:
            raise ArgumentError(
                "targets", 'targets="single" takes one target column; fit each target column by itself.'
            )
        if self.drift and (self.targets != "single" or any_labels):
            raise ArgumentError(
                "drift",
                'drift is about targets="single" and a mediator of numbers, whose E[x | y] may be stretched. '
                "Leave it out.",
            )
        if group_sizes is not None and (not only_labels or paper or self.targets == "single"):
            raise ArgumentError(
                "group_sizes",
                "group_sizes is about a mediator that is a label, with targets that are means and "
                'uncertainty="honest". If the numbers of the mediator are labels, give them as text (--labels or '
                "--aggregate on the command line); otherwise leave it out.",
            )

    def _fit_paper(self, data: _Tables, progress: Progress | None) -> None:
        """Learn the paper's model, with the kernels that were given or Gaussian ones."""
        x, y, y_task, z, variance = data
        self._warn_of_memory(len(x), len(z))
        size = deviation_of(z) ** 2
        first = (
            plain_kernel(x, size)
            if self.kernel_x is None
            else self._chosen_kernel(self.kernel_x, x, z, name="kernel_x")
        )
        second = (
            plain_kernel(y, size)
            if self.kernel_y is None
            else self._chosen_kernel(self.kernel_y, y, z, name="kernel_y")
        )
        noise = self._start_noise(z)
        observation = TaskTransformed(
            x, y, y_task, second.kernel, noise=noise, mediator=self.mediator, target_variance=variance
        )
        model = Model(FunctionPrior(first.kernel), observation)
        if not self.optimize:
            self._use_as_given(model, z)
            return
        choice = _joined(model, first.under("prior.kernel."), second.under("observation.kernel_y."))
        given = {} if second.given is None else leaves(second.given, "observation.kernel_y.")
        given |= {} if first.given is None else leaves(first.given, "prior.kernel.")
        given |= {} if self.noise is None else {"observation.noise": self._given_noise()}
        extra = Extra(["observation.noise"], also=[given] if given else [])
        self._conclude([self._learn("the paper's model", model, z, choice, extra, progress)], z)

    def _fit_labels(
        self,
        x: np.ndarray,
        y: np.ndarray,
        groups: SharedGroups,
        targets: np.ndarray,
        errors: np.ndarray | None,
        group_sizes: Targets | None,
        progress: Progress | None,
    ) -> None:
        """Learn from labels that both tables have: each target is a mean over the rows with its label."""
        z = self._centered(targets[groups.task])
        means = (groups.means - self.offset_) / self.scale_
        variance = None
        if errors is not None:
            squares = np.bincount(groups.task_group, (errors[groups.task] / self._unit()) ** 2)
            variance = squares / groups.counts**2
        observation = Aggregated(
            x[groups.rows],
            groups.group,
            noise=self._start_noise(z),
            group_sizes=_sizes_by_group(group_sizes, y[groups.rows], groups.group),
            repeats=groups.counts,
            target_variance=variance,
        )
        choice = self._chosen_kernel(self.kernel_x, observation.x, z, name="kernel_x")
        learn_groups(self, observation, means, choice, progress)

    def _fit_mean(self, data: _Tables, progress: Progress | None) -> None:
        """Learn from means, with p(x | y) from the pairs, for every description of the mediator.

        The weights depend a little on the kernel of x, so they are chosen again after a first search. Only the very
        first search is restarted; the others begin where the last one ended.
        """
        x, y, y_task, z, variance = data
        self._warn_of_memory(len(x), len(z), candidates=3)
        choice = self._scaled_kernel(x, z).under("prior.kernel.")
        prior, noise, restarts = FunctionPrior(choice.kernel), self._start_noise(z), None
        fits: list[Fit] = []
        spent = 0
        also: list[dict[str, Any]] = []
        for name, description in self._descriptions(x, y, y_task):
            for last in (False, True) if not fits else (True,):
                model = self._transformed_model(prior, description(prior.covariance), noise, choice, variance)
                extra = Extra(
                    ["observation.noise"],
                    {"observation.noise": noise_range(z)},
                    [(choice.amplitude or "", "observation.scale")],
                    restarts,
                    also,
                )
                fit = self._learn(name, model, z, choice, extra, progress, integrate=last)
                prior, noise, restarts = fit.result.model.prior, fit.result.model.observation.noise, 0
                if last:
                    fits.append(fit)
                else:
                    ends = zip(fit.result.optima, fit.result.starts, strict=True)
                    also = [values for values, objective in ends if objective < max(fit.result.starts)]
                    spent += fit.result.evaluations
        self._conclude(fits, z, spent)

    def _descriptions(self, x: np.ndarray, y: np.ndarray, y_task: np.ndarray) -> list[tuple[str, Description]]:
        """Return the ways to describe p(x | y): by name, a function from the kernel of x to E[f(X) | y]."""
        smoothers = _smoothers(x, y, y_task, self.seed)
        names = ("x given y by smoothing over y", "x given y by smoothing over E[x | y]")
        found: list[tuple[str, Description]] = [
            (name, smoother.expectation) for name, smoother in zip(names, smoothers, strict=False)
        ]
        if x.dtype.kind == "f" and not label_columns(y):
            density = InputDensity(x, y.astype(np.float64), y_task.astype(np.float64), self.seed)
            found.append(("x given y by shifted residuals", density.expectation()))
        return found

    def _fit_single(self, data: _Tables, progress: Progress | None) -> None:
        """Learn from single measurements at latent inputs, by Gibbs sampling.

        The noise adds to f or, where all targets are positive, it may multiply f, if that predicts held-out targets
        better.
        """
        x, y, y_task, z, variance = data
        z = z.ravel()
        settings = SamplerSettings()
        numbers = x.dtype.kind == "f" and not label_columns(y)
        if numbers:
            density = InputDensity(x, y.astype(np.float64), y_task.astype(np.float64), self.seed)
            support, tables = density.support, density.bootstrap(settings.tables, self.drift)
        else:
            kernel = plain_kernel(x, 1.0).kernel
            smoothers = _smoothers(x, y, y_task, self.seed)
            support, tables = x, [smoother.probabilities(kernel) for smoother in smoothers]
        weights = np.mean(tables, axis=0)
        seen = LatentInput(support, weights / weights.sum(axis=0), target_variance=variance)
        rivals = {"latent inputs": seen}
        positive = z + self.offset_
        if variance is None and np.all(positive > 0.0):
            logarithm = (float(np.squeeze(self.offset_)), np.exp(np.mean(np.log(positive))))
            rivals["latent inputs, noise that multiplies"] = seen.replace(logarithm=logarithm)
        fits = []
        for name, rival in rivals.items():
            choice = self._chosen_kernel(self.kernel_x, x, rival.transformed(z), name="kernel_x")
            stack = self.drift > 0.0 or not numbers
            fits.append(self._sample_latent(name, rival, tables, z, choice, settings, stack, progress=progress))
        self._conclude([max(fits, key=lambda fit: fit.result.log_evidence)], z)

    def _transformed_model(
        self,
        prior: FunctionPrior,
        expectation: ConditionalExpectation,
        noise: float,
        choice: KernelChoice,
        variance: np.ndarray | None,
    ) -> Model:
        """Return the model with M and C of an expectation E[f(X) | y]; C is scaled by the variance of f."""
        amplitude = leaves(prior, "prior.")[choice.amplitude or ""]
        covariance = expectation.covariance if self.mediator == "full" else None
        observation = Transformed(
            expectation.points,
            expectation.weights,
            covariance,
            noise=noise,
            scale=amplitude,
            target_variance=variance,
        )
        return Model(prior, observation)

    def _scaled_kernel(self, x: np.ndarray, z: np.ndarray) -> KernelChoice:
        """Return the kernel of x that was given, with an amplitude in front, or one from the data.

        Parts of a sum keep their proportions: the amplitude alone is learned, so that it is the variance of f.
        """
        choice = self._chosen_kernel(self.kernel_x, x, z, trend=False, name="kernel_x")
        if choice.amplitude is not None:
            return choice
        if hasattr(choice.kernel, "variance"):
            return choice._replace(amplitude="variance")
        inner, first = choice.under("kernel."), [choice.kernel, choice.given]
        sizes = [float(np.mean(kernel.diag(x))) for kernel in first if kernel is not None]
        kernel, given = (size * one.rescaled(1.0 / size) for size, one in zip(sizes, first, strict=True) if one)
        bounds = {path: limits for path, limits in inner.bounds.items() if not path.endswith("variance")}
        priors = {path: prior for path, prior in inner.hyperpriors.items() if not path.endswith("variance")}
        free = tuple(path for path in leaves(kernel) if path == "variance" or not path.endswith("variance"))
        priors["variance"] = LogNormal(sizes[0], SearchRanges.amplitude_spread)
        bounds["variance"] = (SearchRanges.variances[0] * min(sizes), SearchRanges.variances[1] * max(sizes))
        return KernelChoice(kernel, "variance", bounds, priors, free, given)

    def _with_other_setting(self) -> tuple[str, Any] | None:
        x, y, y_task, z, z_std, group_sizes = self._fitted_data()
        only_labels = len(label_columns(y)) == y.shape[1]
        if self.uncertainty == "plain" or self.kernel_y is not None or not self.optimize or z[0].size > 1:
            return None
        if only_labels and self.targets == "single":
            return None  # the other setting has one target for each label: their densities cannot be compared
        if only_labels:
            words = LOOKS_SAMPLED if group_sizes is None else LOOKS_LISTED
            sizes = np.inf if group_sizes is None else None
            return words, fitted_quietly(clone(self), x, y, y_task, z, z_std, sizes)
        other = clone(self).set_params(targets="single" if self.targets == "mean" else "mean", drift=0.0)
        words = LOOKS_SINGLE if self.targets == "mean" else LOOKS_MEAN
        return words, fitted_quietly(other, x, y, y_task, z, z_std, None)


@dataclass(eq=False, repr=False)
class InstrumentalVariablesGP(TaskTransformedGP):
    """The structural function f of outcome = f(treatment) + error, error correlated with the treatment.

    Two-stage kernel instrumental-variable regression is the algebra of task-transformed regression in other words:
    the first stage learns the treatment given the instrument, which is the mediator, and the second the outcome.

    An instrument moves the treatment, is independent of the error, and acts on the outcome through the treatment
    only: then E[outcome | instrument] = E[f(treatment) | instrument], which can be solved for f. An ordinary
    regression of the outcome on the treatment would be biased. Parameters are those of `TaskTransformedGP`
    without `targets` and `drift`: the model is always one of means given the instrument. `kernel_x` is the kernel of
    the treatment, `kernel_y` that of the instrument.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> instrument, confounder = rng.uniform(-3, 3, 200), rng.standard_normal(200)
    >>> treatment = instrument + 0.5 * confounder
    >>> outcome = 2 * np.sin(treatment) + confounder + 0.1 * rng.standard_normal(200)
    >>> iv = InstrumentalVariablesGP().fit(treatment, instrument, outcome)
    >>> iv.predict([[0.0]]).shape
    (1,)
    """

    # The error is correlated with the treatment, so only means given the instrument can be used.
    targets: Literal["mean", "single"] = field(default="mean", init=False)
    drift: float = field(default=0.0, init=False)

    @threads_by_rows
    def fit(  # type: ignore[override]
        self,
        treatment: ArrayLike,
        instrument: ArrayLike,
        outcome: ArrayLike,
        instrument_of_outcome: ArrayLike | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn f from rows of (treatment, instrument) and of (instrument, outcome).

        Parameters
        ----------
        treatment : array_like of shape (n, d)
            Treatment in the first table.
        instrument : array_like of shape (n, e)
            Instrument in the first table.
        outcome : array_like of shape (m,) or (m, t)
            Outcome in the second table.
        instrument_of_outcome : array_like of shape (m, e), optional
            Instrument in the second table; None says that there is one table only.
        progress : callable, optional
            Called with the number of evaluations and the best objective so far.

        Returns
        -------
        self
        """
        one_table = instrument_of_outcome is None
        second = instrument if one_table else instrument_of_outcome
        names = ("treatment", "instrument", "instrument" if one_table else "instrument_of_outcome", "outcome")
        return self._fit_tables((treatment, instrument, second, outcome), names, None, None, progress)

    def _with_other_setting(self) -> None:
        """Return nothing: targets are always means given the instrument."""
        return


def _sizes_by_group(group_sizes: Targets | None, labels: np.ndarray, group: np.ndarray) -> Any:
    """Return group sizes by the number of the group, from sizes by label."""
    if group_sizes is None or np.isscalar(group_sizes):
        return group_sizes
    if not isinstance(group_sizes, dict):
        raise ArgumentError(
            "group_sizes",
            f"group_sizes is a {type(group_sizes).__name__}; give one number, infinity, or a dict from label to "
            "number.",
        )
    first = {int(number): row for number, row in zip(group[::-1], labels[::-1], strict=True)}
    keys = {number: row[0] if len(row) == 1 else tuple(row) for number, row in first.items()}
    missing = [key for key in keys.values() if key not in group_sizes]
    if missing:
        raise ArgumentError(
            "group_sizes", f"group_sizes has no size for the label {missing[0]!r}; give one for every label of y."
        )
    return {number: group_sizes[key] for number, key in keys.items()}


def _joined(model: Model, first: KernelChoice, second: KernelChoice) -> KernelChoice:
    """Return one choice of what is learned in two kernels: named parameters, or all where none are named."""
    names = model.values()
    free: list[str] = []
    for choice, prefix in ((first, "prior.kernel."), (second, "observation.kernel_y.")):
        own = [path for path in names if path.startswith(prefix)]
        free += own if choice.free is None else choice.free
    return KernelChoice(first.kernel, bounds={**first.bounds, **second.bounds}, free=tuple(free))


def _smoothers(x: np.ndarray, y: np.ndarray, y_task: np.ndarray, seed: int) -> list[MediatorSmoother]:
    """Return a smoother over y and, where x is numbers, one over m(y) = E[x | y]."""
    direct = MediatorSmoother(x, y, y_task, seed)
    return [direct, direct.of_means()] if x.dtype.kind == "f" else [direct]
