"""Groups of which some rows are listed: how much of the differences between their averages is real.

The average of a few random rows strays from that of the whole group. A regression on such averages makes f too
flat, as errors in x do in every regression, and more noise in the targets does not mend that.
"""

from typing import Any

import numpy as np
from scipy import sparse

from decond.learning import FitResult, Model
from decond.regression import Aggregated, Observation, condition

__all__ = ["are_samples", "doubted", "reliabilities", "weight_of_reliability"]

LEAST_RELIABILITY = 0.5
"""No group is taken to be less reliable: f gets at most twice as steep."""

NOTICEABLE = 1e-3
"""Groups whose reliability is this close to one are taken as they are."""

COMPLETE = 0.05
"""How probable it is, before the targets are looked at, that the listed rows are all of their group."""


def are_samples(observation: Observation) -> bool:
    """Return whether the targets are averages over groups of which only a sample is listed."""
    return isinstance(observation, Aggregated) and bool(observation.sampled)


def doubted(model: Model, z: np.ndarray) -> Model | None:
    """Return the model with the reliability of its groups, judged by its posterior; None where they are reliable."""
    posterior = condition(model.prior, model.observation, z)
    mean, covariance = posterior.mean(model.observation.x), posterior.covariance(model.observation.x)
    reliability = reliabilities(mean, covariance, model.observation.linearize().transformation)
    if np.all(reliability > 1.0 - NOTICEABLE):
        return None
    return Model(model.prior, model.observation.replace(reliability=reliability))


def reliabilities(mean: np.ndarray, covariance: np.ndarray, averaging: Any) -> np.ndarray:
    """Return r_j = b / (b + w / n_j) of every group, from the posterior of f at the rows.

    w is the variance of f within groups, n_j the number of rows, and b the variance of f between groups: that of
    the listed averages less w / n_j. Both are expected values, so they count how little is known of f as well.
    """
    M = sparse.csr_array(averaging)
    values = mean.reshape(len(mean), -1)
    averages, averaged = M.T @ values, (M.T @ covariance) @ M
    m, targets = averages.shape
    counts = 1.0 / np.asarray(M.multiply(M).sum(axis=0)).ravel()
    several = counts > 1.0 + 1e-9
    second = (values**2).sum(axis=1) + targets * np.diagonal(covariance)
    within = M.T @ second - (averages**2).sum(axis=1) - targets * np.diagonal(averaged)
    listed = ((averages - averages.mean(axis=0)) ** 2).sum() + targets * (np.trace(averaged) - averaged.sum() / m)
    if m < 2 or not several.any():
        return np.ones(m)
    sampling = np.mean((within * counts)[several] / (counts[several] - 1.0)) / counts
    if sampling.mean() <= 1e-12 * second.mean():
        return np.ones(m)  # f is constant within groups, but for rounding
    between = max(float(listed / (m - 1) - sampling.mean()), 0.0)
    return np.maximum(between / (between + sampling), LEAST_RELIABILITY)


def weight_of_reliability(with_it: FitResult, complete: FitResult) -> float:
    """Return the weight of the model that counts reliability, beside the one that does not.

    It is one half, for how many rows were left out is not known; and less where the evidence is for groups that are
    complete, by Bayes' rule with the probability `COMPLETE`.
    """
    advantage = max(complete.starts) - max(with_it.starts)
    odds = COMPLETE / (1.0 - COMPLETE) * np.exp(min(advantage, 500.0))
    return float(0.5 / (1.0 + odds))
