"""Means over groups of rows: the value of each row's x, learned from group means."""

from typing import Any, Self

from decond.checks import as_targets
from decond.errors import ArgumentError
from decond.estimators.base import PosteriorRegressor
from decond.regression import Aggregated

__all__ = ["AggregateGP"]


class AggregateGP(PosteriorRegressor):
    """f(x) from means over groups: z of a group is the mean of f over its rows, plus noise.

    Parameters:
        kernel: the covariance of f in the units of the data; None chooses from the data.
        noise: σ of the noise of each group's value; learning starts from it where a kernel is given.
        individual_noise: σ of a noise of each row, which averages out within a group; zero is none, another value is
            where learning starts.
        sampled: whether the rows of a group are only a sample of what its value is the mean of (a few readings of a
            day). None says probably, for honest error bars, unless the evidence is against it; and no otherwise, or
            with ``optimize=False``.
        mean, uncertainty, optimize, n_restarts, seed: as for `TaskTransformedGP`.

    >>> import numpy as np
    >>> x = np.linspace(0, 10, 200)
    >>> days = np.repeat(np.arange(50), 4)
    >>> noise = 0.05 * np.random.default_rng(0).standard_normal(50)
    >>> gp = AggregateGP(sampled=False).fit(x, days, np.sin(x).reshape(50, 4).mean(axis=1) + noise)
    >>> float(gp.predict([[1.5]])[0].round(1))
    1.0
    """

    def __init__(
        self,
        kernel: Any = None,
        noise: float | None = 0.1,
        individual_noise: float = 0.0,
        mean: str = "constant",
        sampled: bool | None = None,
        uncertainty: str = "honest",
        optimize: bool = True,
        n_restarts: int = 4,
        seed: int = 0,
    ) -> None:
        self.kernel = kernel
        self.noise = noise
        self.individual_noise = individual_noise
        self.mean = mean
        self.sampled = sampled
        self.uncertainty = uncertainty
        self.optimize = optimize
        self.n_restarts = n_restarts
        self.seed = seed

    def fit(self, x: Any, groups: Any, z_groups: Any, weights: Any = None, progress: Any = None) -> Self:
        """Learn from rows x with a group each, and the mean of every group.

        `z_groups` is a Series or dict from label to mean, or an array in the order of ``np.unique(groups)``;
        `weights` (positive, one for each row) make weighted means.
        """
        rows = self._remember_columns(x, "x")
        sampled = (self.uncertainty == "honest" and self.optimize) if self.sampled is None else bool(self.sampled)
        seen = Aggregated(rows, groups, individual_noise=self.individual_noise, weights=weights, sampled=sampled)
        z = self._centered(
            as_targets(seen.ordered(z_groups, "z_groups"), "z_groups", seen.size, seen.partner),
            self.kernel is None and self.optimize,
        )
        if len(z) < 2:
            raise ArgumentError(
                "groups", "there is only one group; at least 2 are needed to learn from. Some tens are a good start."
            )
        noise = self._starting_noise(z, self.kernel is not None or not self.optimize)
        choice = self._chosen_kernel(self.kernel, rows, z)
        return self._learn_or_use(seen.replace(noise=noise), z, choice, self.optimize, progress)
