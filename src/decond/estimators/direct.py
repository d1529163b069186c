"""Ordinary regression, z = f(x) + noise, with the same defaults and error bars as its indirect relatives."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from decond.checks import as_targets, check_size, column_names
from decond.estimators.posterior_regressor import PosteriorRegressor
from decond.features import FeatureMap
from decond.gp import Direct
from decond.gp.search import Progress
from decond.kernels.kernel import Kernel
from decond.threads import threads_by_rows

__all__ = ["DirectGP"]


@dataclass(eq=False, repr=False)
class DirectGP(PosteriorRegressor):
    """A Gaussian process of one table, z = f(x) + noise: what the indirect models are measured against.

    Parameters
    ----------
    kernel : Kernel, optional
        The covariance of f in the units of the data; None chooses from the data. Where it is learned, the search also
        starts from the scales of the data, and a kernel without a variance of its own is given one. Where it is not,
        it is used exactly as given.
    noise : float, optional
        σ, the standard deviation of the noise: one of the starts where it is learned, else the value. None takes it
        from the targets.
    mean, uncertainty, optimize, n_restarts, seed
        As for `TaskTransformedGP`.

    Examples
    --------
    >>> x = np.linspace(0, 6, 60)[:, None]
    >>> z = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> DirectGP().fit(x, z).predict([[0.0], [1.5]]).round(0) + 0.0
    array([0., 1.])
    """

    kernel: Kernel | FeatureMap | None = None
    noise: float | None = None
    mean: str = "constant"
    uncertainty: str = "honest"
    optimize: bool = True
    n_restarts: int = 1
    seed: int = 0

    @threads_by_rows
    def fit(self, X: ArrayLike, y: ArrayLike, progress: Progress | None = None) -> Self:
        """Learn from rows and targets.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Rows.
        y : array_like of shape (n,) or (n, t)
            Targets.
        progress : callable, optional
            Called with the number of evaluations and the best objective so far.

        Returns
        -------
        self
        """
        rows, targets = self._validated(X, y, multi_output=True, y_numeric=True)
        check_size(rows, "X", column_names(X))
        z = self._centered(as_targets(targets, "y", len(rows), "X"))
        choice = self._chosen_kernel(self.kernel, rows, z)
        self._learn_or_use(Direct(rows, self._start_noise(z)), z, choice, progress)
        _ = self.posterior_  # scikit-learn's contract: `predict` leaves the estimator as it is
        return self

    def _known_columns(self, x: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        return self._validated(x, reset=False)
