"""Two tables that share only a mediator: z as a function of x, with error bars."""

from typing import Any, Self

import numpy as np

from decond.checks import as_targets, check_choice
from decond.estimators.base import Extra, Fit, PosteriorRegressor, deviation_of, free_paths, noise_range
from decond.estimators.defaults import KernelChoice, label_columns, plain_kernel, with_trend
from decond.estimators.ensemble import shares
from decond.estimators.groups import SharedGroups, shared_groups
from decond.estimators.linked import linked_mediators
from decond.estimators.mediation import Mediation, Transformation, descriptions
from decond.estimators.reliability import NEGLIGIBLE
from decond.estimators.unseen import START_NOISE, UnseenFits, places_of, unseen_fits
from decond.features.base import as_kernel
from decond.kernels import Scaled
from decond.learning import FitResult, HyperparameterSample, Model, Variable, select
from decond.learning.unseen import Beginning
from decond.linalg import NotPositiveDefiniteError
from decond.parameters import leaves
from decond.regression import Aggregated, FunctionPrior, TaskTransformed, Transformed, condition

__all__ = ["TaskTransformedGP"]


class TaskTransformedGP(PosteriorRegressor):
    """z as a function of x from pairs (x, y) and task rows (y, z), which share only the mediator y.

    The model is the paper's: z = E[f(X) | y] + noise with f a Gaussian process. ``uncertainty="plain"`` learns its
    hyperparameters by maximal evidence, noise and regularization tied (λ = σ²/n), and gives its formulas exactly; its
    error bars are then too narrow. ``"honest"`` chooses the smoothness of x given y from the pairs alone and averages
    over hyperparameters; for labels it counts that the rows of a label are a sample (docs/adr/0007). Where `kernel_y`
    is given, or with ``optimize=False``, the model is the plain one, and "honest" only adds the average.

    Parameters:
        kernel_x, kernel_y: covariances of f and of the mediating function, in the units of the data. None chooses
            from the data: per-column lengthscales, and a categorical kernel for columns of labels.
        noise: σ, the standard deviation of the targets' noise; learning starts from it where a kernel is given.
        mean: "constant" centers the targets, "zero" does not.
        mediator: "full" keeps the uncertainty of the mediating function, "map" drops it.
        uncertainty: "honest" or "plain".
        optimize: whether to learn; otherwise everything is used as given.
        n_restarts: further starts of the search.
        seed: of everything random.
        sampled: for a mediator of numbers and honest error bars, whether each target was measured at one unseen x
            (True) or is a mean over all x that go with its y (False). In the first case its whole distribution tells
            of f, not only its mean (docs/adr/0012). Models of that have at most ¾ of the weight, by Bayes' rule; the
            rest are models of the mean, with the scatter of f within one y as noise (True) or without it (False);
            None averages all. The models of single measurements, and no others, also count that x may follow the
            mediator up to a tenth more or less in the task table. Say False where z also depends on the mediator by
            other ways than x. For labels, whether the rows with a label are only a sample of what its target is the
            mean of: None averages, with no more than a little weight for "no" unless the evidence is for it.

    >>> from decond.problems import latent_function
    >>> p = latent_function()
    >>> gp = TaskTransformedGP().fit(p.x, p.y, p.y_task, p.z_task)
    >>> mean, std = gp.predict([[0.0], [2.0]], return_std=True)
    >>> bool(np.all(np.abs(mean - [2.0, -1.0]) < 3 * std))
    True
    """

    _outcome_needs_only_x = True
    """Whether z depends on the mediator through x alone, so that its whole distribution tells of f."""

    def __init__(
        self,
        kernel_x: Any = None,
        kernel_y: Any = None,
        noise: float | None = 0.1,
        mean: str = "constant",
        mediator: str = "full",
        uncertainty: str = "honest",
        optimize: bool = True,
        n_restarts: int = 4,
        seed: int = 0,
        sampled: bool | None = None,
    ) -> None:
        self.kernel_x = kernel_x
        self.kernel_y = kernel_y
        self.noise = noise
        self.mean = mean
        self.mediator = mediator
        self.uncertainty = uncertainty
        self.optimize = optimize
        self.n_restarts = n_restarts
        self.seed = seed
        self.sampled = sampled

    def fit(self, x: Any, y: Any, y_task: Any, z_task: Any, progress: Any = None) -> Self:
        """Learn from pairs (x, y), row by row, and from task rows (y_task, z_task)."""
        return self._fit_tables((x, y, y_task, z_task), ("x", "y", "y_task", "z_task"), progress)

    def _fit_tables(self, tables: tuple[Any, ...], names: tuple[str, ...], progress: Any) -> Self:
        """Learn from x, y, y_task and z_task, which messages call by these names."""
        check_choice(self.mediator, "mediator", ("full", "map"))
        rows = self._remember_columns(tables[0], names[0])
        y, y_task = linked_mediators(rows, tables[1], tables[2], names)
        targets = as_targets(tables[3], names[3], len(y_task), names[2])
        paper = self.uncertainty == "plain" or self.kernel_y is not None or not self.optimize
        if not paper and len(label_columns(y)) == y.shape[1]:
            return self._fit_labels(rows, shared_groups(y, y_task, targets), targets, progress)
        z = self._centered(targets, self.kernel_x is None and self.kernel_y is None and self.optimize)
        if paper:
            return self._fit_paper(rows, y, y_task, z, progress)
        return self._fit_mediated(rows, descriptions(rows, y, y_task, self.seed), z, progress)

    def _fit_paper(self, x: np.ndarray, y: np.ndarray, y_task: np.ndarray, z: np.ndarray, progress: Any) -> Self:
        """Learn the paper's model, with the kernels that were given or Gaussian ones."""
        variance = deviation_of(z) ** 2
        given = self.kernel_x is not None or self.kernel_y is not None
        first = (
            plain_kernel(x, variance) if self.kernel_x is None else KernelChoice(as_kernel(self.kernel_x, "kernel_x"))
        )
        second = (
            plain_kernel(y, variance) if self.kernel_y is None else KernelChoice(as_kernel(self.kernel_y, "kernel_y"))
        )
        noise = self._starting_noise(z, given or not self.optimize)
        observation = TaskTransformed(x, y, y_task, second.kernel, noise=noise, mediator=self.mediator)
        model = Model(FunctionPrior(first.kernel), observation)
        if not self.optimize:
            return self._use_as_given(model, z)
        choice = _joined(model, first.under("prior.kernel."), second.under("observation.kernel_y."))
        return self._conclude([self._learn(model, z, choice, Extra(["observation.noise"]), progress)], z)

    def _fit_labels(self, x: np.ndarray, groups: SharedGroups, targets: np.ndarray, progress: Any) -> Self:
        """Learn from labels that both tables have: each target is a mean over the rows with its label."""
        z = self._centered(targets[groups.task], self.kernel_x is None)
        means = (groups.means - self.offset_) / self.scale_
        noise = self._starting_noise(z, self.kernel_x is not None)
        sampled = self.sampled is None or bool(self.sampled)
        observation = Aggregated(x[groups.rows], groups.group, noise=noise, sampled=sampled, repeats=groups.counts)
        choice = self._chosen_kernel(self.kernel_x, observation.x, z, name="kernel_x")
        return self._learn_or_use(observation, means, choice, True, progress)

    def _fit_mediated(self, x: np.ndarray, mediators: list[Mediation], z: np.ndarray, progress: Any) -> Self:
        """Learn with the smoothness of x given y from the pairs, for every description of the mediator.

        The smoothness depends a little on the kernel of x, so it is chosen again after a first search. Only the very
        first search is restarted; the others begin where the last one of the first kind ended.
        """
        choice = self._scaled_kernel(x, z).under("prior.kernel.")
        prior, restarts = FunctionPrior(choice.kernel), None
        noise = self._starting_noise(z, self.kernel_x is not None)
        kinds = (False, True) if self.sampled is None else (bool(self.sampled),)
        fits: list[tuple[FitResult, HyperparameterSample]] = []
        spent = 0
        for mediator in mediators:
            for sampled, last in [(kinds[0], False), *((kind, True) for kind in kinds)]:
                transformation = mediator.transformation(prior.covariance, x)
                given = self._given(prior, x, transformation, noise, choice, sampled)
                extra = Extra(
                    ["observation.noise"],
                    [(choice.amplitude, "observation.scale")],
                    {"observation.noise": noise_range(z)},
                    restarts=restarts,
                )
                fit = self._learn(given, z, choice, extra, progress, look_around=last)
                if sampled == kinds[0]:
                    prior, noise, restarts = fit[0].model.prior, fit[0].model.observation.noise, 0
                if last:
                    fits.append(fit)
                else:
                    spent += fit[0].evaluations
        weights = shares([result for result, _ in fits], [*range(len(kinds))] * len(mediators))
        unseen = self._unseen(fits, weights, mediators, x, z, progress)
        if unseen is None:
            return self._conclude(fits, z, spent, weights)
        scattered = weights * [fit.model.observation.sampled for fit, _ in fits]  # as single measurements do
        weights = unseen.probability * scattered / scattered.sum() + (1.0 - unseen.probability) * weights
        weights = np.concatenate([(1.0 - unseen.weights.sum()) * weights, unseen.weights])
        fits += unseen.fits
        kept = np.flatnonzero(weights >= NEGLIGIBLE)
        spent += unseen.evaluations + sum(fit.evaluations for i, (fit, _) in enumerate(fits) if i not in kept)
        weights = weights[kept] / weights[kept].sum()
        return self._conclude([fits[i] for i in kept], z, spent, weights, unseen.story)

    def _unseen(
        self,
        fits: list[Fit],
        weights: np.ndarray,
        mediators: list[Mediation],
        x: np.ndarray,
        z: np.ndarray,
        progress: Any,
    ) -> UnseenFits | None:
        """Return models of targets that were each measured at one unseen x, unless that was said not to be so.

        They begin at the heaviest of the other models. Several target columns would each have places of their own. f
        has a trend, unless its kernel was given: where it is seen at places, its slope is known well enough.
        """
        said_means = self.sampled is not None and not self.sampled
        if said_means or not self._outcome_needs_only_x or z[0].size > 1:
            return None
        z = z.ravel()
        best = fits[int(np.argmax(weights))][0].model
        posterior = condition(best.prior, best.observation, z)
        noise = START_NOISE * deviation_of(z - z.mean())
        choice = self._scaled_kernel(x, z)._replace(kernel=best.prior.kernel)
        choice = with_trend(choice, x, deviation_of(z) ** 2)
        prior, choice = best.prior.replace(kernel=choice.kernel), choice.under("prior.kernel.")
        start = Beginning(prior, noise, *posterior.moments(x))

        def variables(model: Model) -> list[Variable]:
            return select(model, free_paths(model, choice, Extra()), (), choice.bounds, choice.hyperpriors)

        rival = max(max(result.starts) for result, _ in fits)
        try:
            places = places_of(mediators, best.prior.covariance, x, self.seed)
            return unseen_fits(start, places, x, mediators[-1].task, z, variables, rival, progress)
        except NotPositiveDefiniteError:
            return None

    def _given(
        self,
        prior: FunctionPrior,
        x: np.ndarray,
        transformation: Transformation,
        noise: float,
        choice: KernelChoice,
        sampled: bool,
    ) -> Model:
        """Return the model with M and C given; C has the variance of f."""
        amplitude = leaves(prior, "prior.")[choice.amplitude or ""]
        covariance = transformation.covariance if self.mediator == "full" else None
        observation = Transformed(
            x, transformation.weights, covariance, noise=noise, scale=amplitude, sampled=sampled
        )
        return Model(prior, observation)

    def _scaled_kernel(self, x: np.ndarray, z: np.ndarray) -> KernelChoice:
        """Return the kernel of x that was given, with an amplitude in front, or one from the data."""
        choice = self._chosen_kernel(self.kernel_x, x, z, trend=False, name="kernel_x")
        if choice.amplitude is not None:
            return choice
        kernel = choice.kernel
        return KernelChoice(kernel if isinstance(kernel, Scaled) else 1.0 * kernel, amplitude="variance")


def _joined(model: Model, first: KernelChoice, second: KernelChoice) -> KernelChoice:
    """Return one choice of what is learned in two kernels: named parameters, or all where none are named."""
    names = model.values()
    free: list[str] = []
    for choice, prefix in ((first, "prior.kernel."), (second, "observation.kernel_y.")):
        own = [path for path in names if path.startswith(prefix)]
        free += own if choice.free is None else choice.free
    return KernelChoice(first.kernel, bounds={**first.bounds, **second.bounds}, free=tuple(free))
