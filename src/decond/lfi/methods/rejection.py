"""Rejection ABC: the simulations nearest to the observation (Pritchard et al. 1999)."""

from typing import Any

import numpy as np

from decond.checks import check_choice
from decond.lfi.methods.adjustment import ADJUSTMENTS, nearest
from decond.lfi.methods.distance import DistanceMethod, check_tolerances
from decond.lfi.posterior import Posterior

__all__ = ["RejectionABC"]


class RejectionABC(DistanceMethod):
    """The posterior is the parameters of the simulations that came nearest to the observation.

    Kept are the nearest share `quantile` of the simulations, or all within `tolerance`. `scale` is the unit of each
    summary in the distance, as in `DistanceMethod`. `adjustment="linear"` moves the kept ones to the observation
    along a local line (Beaumont et al. 2002). The simulations have to be draws from the prior. Failed ones are never
    kept, which accounts for their chance.

    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> theta = prior.sample(2000, seed=0)
    >>> sims = Simulations(theta=theta, x=theta + rng.standard_normal(theta.shape))
    >>> RejectionABC(adjustment="linear").fit(sims, prior).posterior([1.0]).mean().round(1)
    array([0.5])
    """

    needs_prior_draws = True

    def __init__(
        self,
        quantile: float = 0.05,
        tolerance: float | None = None,
        adjustment: str = "none",
        scale: str = "observation",
        seed: Any = 0,
        summary: str = "auto",
    ) -> None:
        self.quantile, self.tolerance, self.adjustment = quantile, tolerance, adjustment
        self.scale, self.seed, self.summary = scale, seed, summary

    def _fit(self) -> None:
        check_tolerances(self.quantile, self.tolerance)
        check_choice(self.adjustment, "adjustment", ADJUSTMENTS)
        self._check_scale()

    def _posterior(self, observed: np.ndarray) -> Posterior:
        self._set_unit(observed)
        distance = self._distance(self.x_)
        accepted = nearest(self.theta_, self.x_, distance, quantile=self.quantile, tolerance=self.tolerance)
        self.tolerance_ = accepted.tolerance
        adjusted, notes = accepted.adjusted(self.prior_, observed, self.adjustment)
        return adjusted.posterior(self.prior_, notes, self.seed)
