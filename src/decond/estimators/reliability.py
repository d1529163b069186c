"""Groups of which some rows are listed: how much of the differences between their averages is real.

The average of a few random rows strays from that of the whole group. A regression on such averages makes f too
flat, as errors in x do in every regression, and more noise in the targets does not mend that.
"""

from typing import Any

import numpy as np
from scipy import sparse

from decond.learning import FitResult, Model
from decond.linalg import multiply
from decond.regression import Aggregated, Observation, condition
from decond.regression.conditioning import evidence_factor

__all__ = ["NEGLIGIBLE", "are_samples", "doubted", "probability_of_complete", "reliabilities", "story"]

LEAST_RELIABILITY = 0.5
"""No group is taken to be less reliable: f gets at most twice as steep."""

NOTICEABLE = 1e-3
"""Groups whose reliability is this close to one are taken as they are."""

NEGLIGIBLE = 1e-4
"""Models of less weight are left out."""

COMPLETE = 0.05
"""How probable it is, before the targets are looked at, that the listed rows are all of their group."""


def are_samples(observation: Observation) -> bool:
    """Return whether the targets are averages over groups of which only a sample is listed."""
    return isinstance(observation, Aggregated) and bool(observation.sampled)


def doubted(model: Model, z: np.ndarray) -> Model | None:
    """Return the model with the reliability of its groups, judged by its posterior; None where they are reliable."""
    x, linear = model.observation.x, model.observation.linearize()
    posterior = condition(model.prior, model.observation, z)
    gram = model.prior.covariance.gram(x, x)
    factor, product = evidence_factor(gram, linear)
    averaged = np.asarray(linear.transformation.T @ product)
    explained = factor.half_solve(averaged)
    averaged = averaged - multiply(explained.T, explained)
    reliability = reliabilities(*posterior.moments(x), averaged, linear.transformation)
    if np.all(reliability > 1.0 - NOTICEABLE):
        return None
    return Model(model.prior, model.observation.replace(reliability=reliability))


def reliabilities(mean: np.ndarray, variance: np.ndarray, averaged: np.ndarray, averaging: Any) -> np.ndarray:
    """Return r_j = b / (b + w / n_j) of every group.

    The posterior of f is given by its `mean` and `variance` at the rows, and the covariance of its `averaged` values.
    w is the variance of f within groups, n_j the number of rows, and b the variance of f between groups: that of
    the listed averages less w / n_j. Both are expected values, so they count how little is known of f as well.
    """
    M = sparse.csr_array(averaging)
    values = mean.reshape(len(mean), -1)
    values = values - (M.T @ values).mean(axis=0)
    averages = M.T @ values
    m, targets = averages.shape
    counts = 1.0 / np.asarray(M.multiply(M).sum(axis=0)).ravel()
    several = counts > 1.0 + 1e-9
    if m < 2 or not several.any():
        return np.ones(m)
    second = (values**2).sum(axis=1) + targets * variance
    within = M.T @ second - (averages**2).sum(axis=1) - targets * np.diagonal(averaged)
    listed = (averages**2).sum() + targets * (np.trace(averaged) - averaged.sum() / m)
    sampling = (within * counts)[several].sum() / (counts[several] - 1.0).sum() / counts
    if sampling.mean() <= 1e-12 * second.mean():
        return np.ones(m)  # f is constant within groups, but for rounding
    between = max(float(listed / (m - 1) - sampling.mean()), 0.0)
    return np.maximum(between / (between + sampling), LEAST_RELIABILITY)


def probability_of_complete(with_reliability: FitResult, complete: FitResult) -> float:
    """Return how probable it is that the listed rows are all of their groups: Bayes' rule, `COMPLETE` beforehand."""
    advantage = max(complete.starts) - max(with_reliability.starts)
    odds = COMPLETE / (1.0 - COMPLETE) * np.exp(min(advantage, 500.0))
    return float(odds / (1.0 + odds))


def story(complete: float, model: Model) -> str:
    """Return in words what the rows of a group were taken for; `model` is the one that counts reliability."""
    reliability = np.mean(model.observation.reliability)  # type: ignore[attr-defined]
    return (
        f"The rows of a group were taken for a sample of it with weight {1.0 - complete:.0%} (mean reliability "
        f"{reliability:.2f}), for all of it with weight {complete:.0%}."
    )
