"""Accepted simulations: weights, local-linear regression adjustment, and draws from them."""

from dataclasses import dataclass

import numpy as np

from decond.errors import ArgumentError
from decond.lfi.exceptions import FewSimulationsWarning, PosteriorWarning
from decond.lfi.posterior import Posterior
from decond.lfi.prior import Prior

__all__ = ["ADJUSTMENTS", "Accepted", "nearest", "regression_adjusted"]

ADJUSTMENTS = ("none", "linear")

FEW_EFFECTIVE = 30.0
"""An answer that rests on fewer simulations says so."""

EDGE = 1e-9
"""How close to an end of its support a parameter may come, as a share of the support's width."""


@dataclass(frozen=True)
class Accepted:
    """Parameters (k, d) whose data (k, s) came within a tolerance of the observation; their weights sum to one."""

    theta: np.ndarray
    x: np.ndarray
    distance: np.ndarray
    weights: np.ndarray
    tolerance: float

    @property
    def effective(self) -> float:
        """The number of equally weighted simulations that would be worth as much."""
        return float(1.0 / np.sum(self.weights**2))

    def adjusted(
        self, prior: Prior, observed: np.ndarray, adjustment: str
    ) -> tuple["Accepted", list[PosteriorWarning]]:
        """Return these simulations after the adjustment asked for, and a warning if there were too few for it."""
        if adjustment == "none":
            return self, []
        needed = 2 * (self.x.shape[1] + 1)
        if len(self.theta) < needed:
            text = (
                f"{len(self.theta)} simulations were accepted, but a regression on {self.x.shape[1]} summaries needs "
                f"{needed}: they are not adjusted. Accept more, or use summary='learned'."
            )
            return self, [FewSimulationsWarning(text, len(self.theta), needed)]
        weights = self.weights * _epanechnikov(self.distance, self.tolerance)
        weights = weights / weights.sum()
        theta = regression_adjusted(prior, self.theta, self.x, observed, weights)
        return Accepted(theta, self.x, self.distance, weights, self.tolerance), []

    def posterior(self, prior: Prior, notes: list[PosteriorWarning], seed: object) -> Posterior:
        """Return the posterior whose draws are these parameters, in proportion to their weights."""
        if self.effective < FEW_EFFECTIVE:
            text = (
                f"the posterior rests on {self.effective:.0f} effective simulations only; accept more of them, or "
                "run more simulations."
            )
            notes = [*notes, FewSimulationsWarning(text, self.effective, FEW_EFFECTIVE)]

        def draw(n: int, rng: np.random.Generator) -> np.ndarray:
            return self.theta[_systematic(self.weights, n, rng)]

        return Posterior(prior, draw, effective=self.effective, notes=notes, seed=seed)


def nearest(
    theta: np.ndarray, x: np.ndarray, distance: np.ndarray, *, quantile: float, tolerance: float | None
) -> Accepted:
    """Return the simulations within a tolerance, or else the nearest share `quantile` of them, equally weighted."""
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


def regression_adjusted(
    prior: Prior, theta: np.ndarray, x: np.ndarray, observed: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return parameters moved along a local line to where they would be at the observation (Beaumont et al. 2002).

    θ*_i = t⁻¹(t(θ_i) − Bᵀ(x_i − x_observed)), where B is the weighted least-squares slope. t is the prior's working
    coordinate, and the logit of a parameter that is bounded on both sides, so that θ* lies inside the support.
    """
    target = _unbounded(prior, theta)
    offset = x - observed
    root = np.sqrt(weights)[:, None]
    design = np.hstack([np.ones((len(x), 1)), offset])
    slope = np.linalg.lstsq(root * design, root * target, rcond=1e-8)[0][1:]
    return _bounded(prior, target - offset @ slope)


def _epanechnikov(distance: np.ndarray, tolerance: float) -> np.ndarray:
    """Return 1 − (distance/tolerance)², lifted a little so that the farthest keeps some weight."""
    if tolerance == 0.0:
        return np.ones(len(distance))
    return 1.0 - (distance / (tolerance * 1.000001)) ** 2


def _boxed(prior: Prior) -> np.ndarray:
    return np.isfinite(prior.low) & np.isfinite(prior.high)


def _unbounded(prior: Prior, theta: np.ndarray) -> np.ndarray:
    """Return coordinates without bounds: logits of parameters in a box, working coordinates of the others."""
    t, box = prior.to_working(theta), _boxed(prior)
    share = (theta[:, box] - prior.low[box]) / (prior.high[box] - prior.low[box])
    share = np.clip(share, EDGE, 1.0 - EDGE)
    t[:, box] = np.log(share) - np.log1p(-share)
    return t


def _bounded(prior: Prior, t: np.ndarray) -> np.ndarray:
    """Return the parameters at coordinates without bounds."""
    box = _boxed(prior)
    theta = prior.from_working(np.where(box, 0.0, t))
    share = 0.5 * (1.0 + np.tanh(0.5 * t[:, box]))
    theta[:, box] = prior.low[box] + share * (prior.high[box] - prior.low[box])
    return theta


def _systematic(weights: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n indices in random order, each as often as its weight says up to one."""
    cumulative = np.cumsum(weights)
    positions = (np.arange(n) + rng.random()) / n * cumulative[-1]
    return rng.permutation(np.minimum(np.searchsorted(cumulative, positions), len(weights) - 1))
