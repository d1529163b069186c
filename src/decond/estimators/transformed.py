"""Targets that are known linear combinations of f: z = Mᵀ f(x) + noise(Σ)."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from decond.checks import as_targets
from decond.errors import ArgumentError
from decond.estimators.defaults import smooth_kernel
from decond.estimators.posterior_regressor import PosteriorRegressor
from decond.features import FeatureMap
from decond.gp import Transformed
from decond.gp.search import Progress
from decond.kernels.kernel import Kernel
from decond.threads import threads_by_rows

__all__ = ["TransformedGP"]


@dataclass(eq=False, repr=False)
class TransformedGP(PosteriorRegressor):
    """f(x) from weighted sums: z = Mᵀ f(x) + noise with covariance Σ + σ²I, M and Σ given.

    Parameters
    ----------
    kernel : Kernel, optional
        The covariance of f in the units of the data; None chooses from the data.
    noise : float, optional
        σ of a noise in addition to Σ: a further start where it is learned, the value with ``optimize=False``. Zero is
        none; None learns it, from a start in the units of the targets.
    mean : {"zero", "constant"}
        "zero" is the default here, because the columns of M need not sum to one.
    uncertainty, optimize, n_restarts, seed
        As for `TaskTransformedGP`.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 6, 60)
    >>> differences = np.eye(60)[:, 1:] - np.eye(60)[:, :-1]
    >>> changes = differences.T @ np.sin(x) + 0.01 * np.random.default_rng(0).standard_normal(59)
    >>> gp = TransformedGP().fit(x, differences, changes)
    >>> float((gp.predict([[1.5]]) - gp.predict([[4.5]]))[0].round())
    2.0
    """

    kernel: Kernel | FeatureMap | None = None
    noise: float | None = None
    mean: str = "zero"
    uncertainty: str = "honest"
    optimize: bool = True
    n_restarts: int = 4
    seed: int = 0

    @threads_by_rows
    def fit(
        self,
        x: ArrayLike,
        transformation: ArrayLike,
        z: ArrayLike,
        noise_covariance: ArrayLike | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from rows and weighted sums of f over them.

        Parameters
        ----------
        x : array_like of shape (n, d)
            Rows.
        transformation : array_like of shape (n, m)
            M.
        z : array_like of shape (m,) or (m, t)
            Targets.
        noise_covariance : float or array_like of shape (m,) or (m, m), optional
            Σ: a variance, a diagonal or a matrix.
        progress : callable, optional
            Called with the number of evaluations and the best objective so far.

        Returns
        -------
        self
        """
        rows = self._remember_columns(x, "x")
        seen = Transformed(rows, transformation, noise_covariance, noise=1.0)
        if self.mean == "constant" and not np.allclose(seen.transformation.sum(axis=0), 1.0, atol=1e-6):
            raise ArgumentError(
                "mean",
                'mean="constant" needs columns of transformation that sum to one, so that f and z have one mean. '
                'Use mean="zero".',
            )
        targets = self._centered(as_targets(z, "z", seen.size, seen.partner))
        noise = 0.0 if self.noise == 0 else self._start_noise(targets)
        choice = self._chosen_kernel(self.kernel, rows, targets, gain=_gain(seen))
        return self._learn_or_use(seen.replace(noise=noise), targets, choice, progress)


def _gain(seen: Transformed) -> float:
    """Return the mean variance of Mᵀ f when f varies smoothly with unit variance."""
    unit = smooth_kernel(seen.x, 1.0, trend=False).kernel
    gain = float(np.mean((unit.gram(seen.x, seen.x) @ seen.transformation * seen.transformation).sum(axis=0)))
    return gain if gain > 0 else 1.0
