"""Rejection ABC, and what it shares with MCMC and SMC ABC: distances, accepted simulations, regression adjustment."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from decond.checks import as_number, check_choice
from decond.errors import ArgumentError
from decond.lfi.exceptions import FewSimulationsWarning, PosteriorWarning
from decond.lfi.methods.method import Method, SummaryOption
from decond.lfi.posterior_draws import Posterior, Seed, WeightedDraws
from decond.lfi.prior import Prior
from decond.lfi.sampling import effective_sample_size

__all__ = [
    "Accepted",
    "Adjustment",
    "DistanceMethod",
    "DistanceScale",
    "RejectionABC",
    "check_tolerances",
    "nearest_share",
]

Adjustment = Literal["none", "linear"]
DistanceScale = Literal["observation", "spread", "none"]


class DistanceMethod(Method):
    """A method that compares simulations with the observation by a scaled Euclidean distance.

    Attributes
    ----------
    scale : {"observation", "spread", "none"}
        The unit in which each summary is measured. "observation" is its median distance from the observation over
        the simulations: every summary then counts alike, also where simulations crowd in one place and the
        observation is elsewhere. "spread" is its robust spread over the simulations. "none" takes the data's own
        units.
    """

    scale: DistanceScale

    def _check_scale(self) -> None:
        check_choice(self.scale, "scale", ("observation", "spread", "none"))

    def _set_unit(self, observed: np.ndarray) -> None:
        """Fix the unit of each standardized summary."""
        self._observed = observed
        self._unit = np.ones(self.x_.shape[1])
        if self.scale == "observation":
            gaps = np.abs(self.x_ - observed)
            middle, mean = np.median(gaps, axis=0), gaps.mean(axis=0)
            self._unit = np.where(middle > 0.0, middle, np.where(mean > 0.0, mean, 1.0))
        elif self.scale == "none" and self._learned is None:
            self._unit = 1.0 / (self._scale.scale * self._summary_scale.scale)

    def _distance(self, x: np.ndarray) -> np.ndarray:
        """Return the distance of rows of summaries from the observation; infinite where the simulation failed."""
        distance = np.sqrt((((x - self._observed) / self._unit) ** 2).sum(axis=1))
        return np.where(np.isnan(distance), np.inf, distance)

    def _summaries(self, data: np.ndarray) -> np.ndarray:
        """Return the standardized summaries of rows of data; NaN where the simulation failed."""
        valid = np.isfinite(data).all(axis=1)
        rows = np.full((len(data), self.x_.shape[1]), np.nan)
        if valid.any():
            rows[valid] = self._summarize(data[valid])
        return rows


@dataclass(frozen=True)
class Accepted:
    """Parameters (k, d) whose data (k, s) came within a tolerance of the observation; their weights sum to one."""

    theta: np.ndarray
    x: np.ndarray
    distance: np.ndarray
    weights: np.ndarray
    tolerance: float

    def posterior(
        self, method: DistanceMethod, observed: np.ndarray, adjustment: Adjustment, notes: list[PosteriorWarning]
    ) -> Posterior:
        """Return the posterior whose draws are these parameters, in proportion to their weights.

        Parameters
        ----------
        method : DistanceMethod
            The method that accepted them.
        observed : ndarray of shape (1, s)
            The observation, standardized.
        adjustment : {"none", "linear"}
            "linear" moves them to the observation along a local line, if there are enough.
        notes : list of PosteriorWarning
            Warnings that the posterior is to have.
        """
        kept, needed = self, 2 * (self.x.shape[1] + 1)
        if adjustment == "linear" and len(self.theta) < needed:
            text = (
                f"{len(self.theta)} simulations were accepted, but a regression on {self.x.shape[1]} summaries needs "
                f"{needed}: they are not adjusted. Accept more, or use summary='learned'."
            )
            notes = [*notes, FewSimulationsWarning(text, len(self.theta), needed)]
        elif adjustment == "linear":
            kept = self.adjusted(method.prior_, observed)
        effective, few = effective_sample_size(kept.weights), 30.0  # quantiles of fewer draws are rough
        if effective < few:
            text = (
                f"the posterior rests on {effective:.0f} effective simulations only; accept more of them, or "
                "run more simulations."
            )
            notes = [*notes, FewSimulationsWarning(text, effective, few)]
        sampler = WeightedDraws(kept.theta, kept.weights)
        return Posterior(method.prior_, sampler, effective=effective, notes=notes, seed=method.seed)

    def adjusted(self, prior: Prior, observed: np.ndarray) -> "Accepted":
        """Return parameters moved along a local line to the observation (Beaumont et al. 2002).

        θ*_i = t⁻¹(t(θ_i) − Bᵀ(x_i − x_observed)), where B is the least-squares slope with Epanechnikov weights. t is
        the prior's working coordinate, and the logit of a parameter that is bounded on both sides, so that θ* lies
        inside the support.

        Parameters
        ----------
        prior : Prior
            The prior of the parameters.
        observed : ndarray of shape (1, s)
            The observation, standardized.
        """
        weights = self.weights
        if self.tolerance > 0.0:  # lifted a little, so that the farthest keeps some weight
            weights = weights * (1.0 - (self.distance / (self.tolerance * 1.000001)) ** 2)
        weights = weights / weights.sum()
        target, offset = _unbounded(prior, self.theta), self.x - observed
        root = np.sqrt(weights)[:, None]
        design = np.hstack([np.ones((len(offset), 1)), offset])
        slope = np.linalg.lstsq(root * design, root * target, rcond=1e-8)[0][1:]
        theta = _bounded(prior, target - offset @ slope)
        return Accepted(theta, self.x, self.distance, weights, self.tolerance)


@dataclass(eq=False, repr=False)
class RejectionABC(DistanceMethod):
    """The posterior is the parameters of the simulations that came nearest to the observation.

    The simulations have to be draws from the prior. Failed ones are never kept, which accounts for their probability.

    Parameters
    ----------
    quantile : float, optional
        The share of the simulations that is kept, the nearest.
    tolerance : float, optional
        Keep all within this distance instead.
    adjustment : {"none", "linear"}, optional
        "linear" moves the kept ones to the observation along a local line (Beaumont et al. 2002).
    scale : {"observation", "spread", "none"}, optional
        The unit of each summary in the distance, see `DistanceMethod`: "observation", "spread" or "none".
    seed : int, Generator or None, optional
        Of the order of samples.
    summary : {"auto", "none", "learned"}, optional
        What the method sees of the data, see `Method`.

    References
    ----------
    J. K. Pritchard et al., Population growth of human Y chromosomes, Molecular Biology and Evolution 16, 1999.
    https://doi.org/10.1093/oxfordjournals.molbev.a026091

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> theta = prior.sample(2000, seed=0)
    >>> sims = Simulations(theta=theta, x=theta + rng.standard_normal(theta.shape))
    >>> RejectionABC(adjustment="linear").fit(sims, prior).posterior([1.0]).mean().round(1)
    array([0.5])
    """

    quantile: float = 0.05
    tolerance: float | None = None
    adjustment: Adjustment = "none"
    scale: DistanceScale = "observation"
    seed: Seed = 0
    summary: SummaryOption = "auto"

    needs_prior_draws = True

    def _fit(self) -> None:
        check_tolerances(self.quantile, self.tolerance)
        check_choice(self.adjustment, "adjustment", ("none", "linear"))
        self._check_scale()

    def _posterior(self, observed: np.ndarray) -> Posterior:
        self._set_unit(observed)
        accepted = nearest_share(self.theta_, self.x_, self._distance(self.x_), self.quantile, self.tolerance)
        self.tolerance_ = accepted.tolerance
        return accepted.posterior(self, observed, self.adjustment, [])


def check_tolerances(quantile: float, tolerance: float | None) -> None:
    """Raise unless the settings are possible.

    Parameters
    ----------
    quantile : float
        A share above 0 and up to 1.
    tolerance : float, optional
        A positive distance, or None.
    """
    if not 0.0 < as_number(quantile, "quantile") <= 1.0:
        raise ArgumentError(
            "quantile", f"quantile is {quantile!r}; give the share of simulations to keep, for example 0.05."
        )
    if tolerance is not None:
        as_number(tolerance, "tolerance", minimum=0.0, strict=True)


def nearest_share(
    theta: np.ndarray, x: np.ndarray, distance: np.ndarray, quantile: float, tolerance: float | None
) -> Accepted:
    """Return the simulations within a tolerance, or else the nearest share of them, equally weighted.

    Parameters
    ----------
    theta : ndarray of shape (n, d)
        Parameters.
    x : ndarray of shape (n, s)
        Summaries.
    distance : ndarray of shape (n,)
        Distances from the observation.
    quantile : float
        The share.
    tolerance : float, optional
        The tolerance, or None.
    """
    if tolerance is None:
        count = min(len(theta), max(1, int(np.ceil(quantile * len(theta)))))
        tolerance = float(np.partition(distance, count - 1)[count - 1])
    kept = np.flatnonzero(distance <= tolerance)
    if not len(kept):
        raise ArgumentError(
            "tolerance",
            f"no simulation lies within tolerance {tolerance:g} of the observation; the nearest is "
            f"{distance.min():.3g} away. Raise the tolerance, or give a quantile instead.",
        )
    weights = np.full(len(kept), 1.0 / len(kept))
    return Accepted(theta[kept], x[kept], distance[kept], weights, tolerance)


def _unbounded(prior: Prior, theta: np.ndarray) -> np.ndarray:
    """Return coordinates without bounds: logits of parameters in a box, working coordinates of the others."""
    t, box = prior.to_working(theta), np.isfinite(prior.low) & np.isfinite(prior.high)
    position = (theta[:, box] - prior.low[box]) / (prior.high[box] - prior.low[box])
    position = np.clip(position, 1e-9, 1.0 - 1e-9)  # the logit of a bound is infinite
    t[:, box] = np.log(position) - np.log1p(-position)
    return t


def _bounded(prior: Prior, t: np.ndarray) -> np.ndarray:
    """Return the parameters at coordinates without bounds."""
    box = np.isfinite(prior.low) & np.isfinite(prior.high)
    theta = prior.from_working(np.where(box, 0.0, t))
    position = 0.5 * (1.0 + np.tanh(0.5 * t[:, box]))
    theta[:, box] = prior.low[box] + position * (prior.high[box] - prior.low[box])
    return theta
