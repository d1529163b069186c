"""The paper's cube of twelve models, as combinations of a prior, an observation and a kind of answer.

Linear or kernel is the prior, direct or transformed or task-transformed the observation, and Bayesian or point
estimate the answer: `condition` gives a posterior, `estimate` its mean alone, which is the ridge regression with
the same regularization (Theorem 5.3, part 5).
"""

from typing import Any

import numpy as np

from decond.gp.conditioning import condition
from decond.gp.observations import Observation
from decond.gp.posterior import Posterior
from decond.gp.priors import Prior, WeightPrior

__all__ = ["PointEstimate", "estimate"]


class PointEstimate:
    """A fitted function without error bars: ridge regression, possibly transformed.

    `weights` are dual weights on the rows of x for a `FunctionPrior` (the mean is Σ_i ᾱ_i k(x_i, x)) and weights
    of the features for a `WeightPrior`.

    >>> from decond.kernels import Linear
    >>> from decond.gp import Direct, FunctionPrior
    >>> found = estimate(FunctionPrior(Linear()), Direct([1.0, 2.0], noise=1.0), [2.0, 4.0])
    >>> found, found.weights.round(3), found.mean([[6.0]])  # 10/6: the ridge pulls the slope 2 towards zero
    (PointEstimate(2 weights), array([0.333, 0.667]), array([10.]))
    """

    def __init__(self, posterior: Posterior, weights: np.ndarray) -> None:
        self._posterior, self.weights = posterior, weights

    def mean(self, x: Any) -> np.ndarray:
        """Return the estimate of f at the rows of x."""
        return self._posterior.mean(x)

    def __repr__(self) -> str:
        """Show the size of the weights."""
        return f"PointEstimate({len(self.weights)} weights)"


def estimate(prior: Prior, observation: Observation, z: Any, form: str = "auto") -> PointEstimate:
    """Return the point estimate of f: LRR, KRR and their transformed and task-transformed versions.

    The penalties are those of the Gaussian model: nλ = τ² / β² and mε = σ² / γ², see the glossary.

    >>> from decond.kernels import Linear
    >>> from decond.gp import Direct, FunctionPrior
    >>> estimate(FunctionPrior(Linear()), Direct([1.0, 2.0], noise=0.001), [2.0, 4.0]).mean([[3.0]]).round(3)
    array([6.])
    """
    posterior = condition(prior, observation, z, form)
    weights = posterior.weights
    if isinstance(prior, WeightPrior) and posterior.form != "weight":
        weights = prior.variance * (prior.features.transform(posterior.points).T @ weights)
    return PointEstimate(posterior, weights)
