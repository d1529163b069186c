"""Means over groups of rows: the value of each row's x, learned from group means."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from decond.checks import as_targets
from decond.conditional import completed_groups
from decond.errors import ArgumentError, DataWarning
from decond.estimators.defaults import KernelChoice
from decond.estimators.posterior_regressor import PosteriorRegressor, fitted_quietly
from decond.estimators.regressor import rows_range
from decond.features import FeatureMap
from decond.gp import Aggregated, LatentInput, SamplerSettings
from decond.gp.observations import Targets
from decond.gp.search import Progress
from decond.kernels.kernel import Kernel
from decond.messages import percent, warn
from decond.threads import threads_by_rows

__all__ = ["LOOKS_LISTED", "LOOKS_SAMPLED", "AggregateGP", "learn_groups"]

LOOKS_SAMPLED = (
    "Held-out targets are predicted clearly better as if the listed rows were a sample of their groups. If they are, "
    "give group_sizes."
)
LOOKS_LISTED = (
    "Held-out targets are predicted clearly better as if the listed rows were all rows of their groups. If they are, "
    "leave out group_sizes. If they are a sample, the model of the other rows does not suit x: the error bars may be "
    "too narrow."
)
"""Hints of `check`, where the other answer to whether all rows are listed predicts better."""


@dataclass(eq=False, repr=False)
class AggregateGP(PosteriorRegressor):
    """f(x) from means over groups: z of a group is the mean of f over its rows, plus noise.

    Parameters
    ----------
    kernel : Kernel, optional
        The covariance of f in the units of the data. By default it comes from the data. Where a given kernel is
        learned, the search starts from it and from the scales of the data, and the better optimum wins.
    noise : float, optional
        σ of the noise of each group's value: a further start where it is learned, the value with ``optimize=False``.
        By default it is learned, from a start in the units of the targets.
    individual_noise : float
        σ of a noise of each row, which averages out within a group; zero is none, another value is where learning
        starts.
    mean, uncertainty, optimize, n_restarts, seed
        As for `TaskTransformedGP`.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 10, 200)
    >>> days = np.repeat(np.arange(50), 4)
    >>> noise = 0.05 * np.random.default_rng(0).standard_normal(50)
    >>> gp = AggregateGP().fit(x, days, np.sin(x).reshape(50, 4).mean(axis=1) + noise)
    >>> float(gp.predict([[1.5]])[0].round(1))
    1.0
    """

    kernel: Kernel | FeatureMap | None = None
    noise: float | None = None
    individual_noise: float = 0.0
    mean: str = "constant"
    uncertainty: str = "honest"
    optimize: bool = True
    n_restarts: int = 4
    seed: int = 0

    @threads_by_rows
    def fit(
        self,
        x: ArrayLike,
        groups: ArrayLike,
        z_groups: Targets,
        weights: ArrayLike | None = None,
        z_std: Targets | None = None,
        group_sizes: Targets | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from rows x with a group each, and the mean of every group.

        Parameters
        ----------
        x : array_like of shape (n, d)
            The listed rows.
        groups : array_like of shape (n,)
            The label of the group of each row.
        z_groups : dict, Series or array_like of shape (m,)
            The mean of each group, by label, or in the order of ``np.unique(groups)``.
        weights : array_like of shape (n,), optional
            Positive weights that make weighted means.
        z_std : dict, Series or array_like of shape (m,), optional
            Known standard errors of the means. The learned noise is in addition to them.
        group_sizes : float, dict, Series or array_like of shape (m,), optional
            How many rows each group really has, of which those listed are a random sample: one number for all,
            infinity for "many", or one for each group. None says that all rows are listed.
        progress : callable, optional
            Called with the number of evaluations and the best objective so far.

        Returns
        -------
        self
        """
        rows = self._remember_columns(x, "x")
        self._x_range = rows_range(rows)
        if _has_several_names(groups):
            for name, values in {"z_groups": z_groups, "z_std": z_std, "group_sizes": group_sizes}.items():
                if np.ndim(values) and not hasattr(values, "iloc"):  # type: ignore[arg-type]
                    raise ArgumentError(
                        name,
                        f"groups has several columns, whose order {name} cannot follow as a plain array. Give a "
                        "Series with these labels as its index, as groupby([...]).mean() does.",
                    )
        seen = Aggregated(
            rows, groups, individual_noise=self.individual_noise, weights=weights, group_sizes=group_sizes
        )
        targets = as_targets(seen.ordered(z_groups, "z_groups"), "z_groups", seen.size, seen.partner)
        z = self._centered(targets)
        if len(z) < 2:
            raise ArgumentError(
                "groups", "there is only one group; at least 2 are needed to learn from. Some tens are a good start."
            )
        if z_std is not None:
            errors = self._known_errors(seen.ordered(z_std, "z_std"), z, seen.partner)
            seen = seen.replace(target_variance=(errors / self._unit()) ** 2)
        self._data = (x, groups, z_groups, weights, z_std, group_sizes)
        seen = seen.replace(noise=self._start_noise(z))
        choice = self._chosen_kernel(self.kernel, rows, z)
        if self.optimize and self.uncertainty == "honest" and weights is None:
            learn_groups(self, seen, z, choice, progress)
        else:
            self._learn_or_use(seen, z, choice, progress)
        self._warn_of_resolution()
        return self

    def _with_other_setting(self) -> tuple[str, Any] | None:
        *tables, group_sizes = self._fitted_data()
        if self.uncertainty == "plain" or not self.optimize:
            return None
        words = LOOKS_SAMPLED if group_sizes is None else LOOKS_LISTED
        return words, fitted_quietly(clone(self), *tables, np.inf if group_sizes is None else None)


def _has_several_names(groups: ArrayLike) -> bool:
    given = np.asarray(groups)
    return (given.ndim == 2 and given.shape[1] > 1) or (given.dtype == object and isinstance(given.flat[0], tuple))


def warn_of_heaps(x: np.ndarray, share: float = 0.1) -> None:
    """Warn if many rows of a sample have one value of a column: the rows that are not listed are drawn without heaps.

    Parameters
    ----------
    x : ndarray of shape (n, d)
        The listed rows.
    share : float
        Share of the rows at one value from which to warn, if they are five at least.
    """
    for j, column in enumerate(x.T if x.dtype.kind == "f" else ()):
        values, counts = np.unique(column, return_counts=True)
        if max(share * len(column), 4) < counts.max() < len(column) and len(values) > 2:
            found = f"{percent(counts.max() / len(column))} of the rows have the value {values[counts.argmax()]:g}"
            warn(
                DataWarning(
                    "x",
                    f"{found} in column {j} of x. Rows that are not listed are drawn from smooth distributions, so "
                    "the error bars of f may be much too narrow. List all rows of the groups if you can.",
                )
            )


def learn_groups(
    estimator: PosteriorRegressor, seen: Aggregated, z: np.ndarray, choice: KernelChoice, progress: Progress | None
) -> None:
    """Learn from means of groups and, where rows are not listed, from a model of those as well.

    Parameters
    ----------
    estimator : PosteriorRegressor
        The estimator that is fitted.
    seen : Aggregated
        The listed rows with their groups.
    z : ndarray of shape (m,) or (m, t)
        The centered means of the groups.
    choice : KernelChoice
        Kernel of f, with its ranges and hyperpriors.
    progress : callable or None
        As for `fit`.
    """
    completed = None
    if seen.unlisted.any():
        warn_of_heaps(seen.x)
    if seen.unlisted.any() and seen.x.dtype.kind == "f" and z[0].size == 1 and not seen.individual_noise:
        group = np.unique(seen.groups, return_inverse=True)[1]
        completed = completed_groups(seen.x, group, np.asarray(seen.group_sizes), estimator.seed)
    if completed is None:
        estimator._conclude([estimator._learn_fixed("the listed rows", seen, z, choice, progress)], z)
        return
    start = estimator._learn_fixed("the listed rows", seen, z, choice, progress, restarts=0, integrate=False).result
    latent = LatentInput(
        completed.support,
        completed.probabilities,
        transformation=completed.completions,
        repeats=seen.repeats,
        target_variance=seen.target_variance,
    )
    settings = SamplerSettings(kept=25)  # of one table, where several would give as many draws together
    fit = estimator._sample_latent(
        "completed groups", latent, [completed.probabilities], z, choice, settings, False, start, progress
    )
    estimator._conclude([fit], z, start.evaluations)
