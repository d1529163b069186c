"""Regression from indirect data: a prior, an observation, one conditioning routine.

Everything here is one equation, z̃ = Mᵀ f(x) + noise(Σ). The prior says what f may be, the observation yields
(M, Σ), and `condition` returns the posterior. See `decond.regression.models` for the paper's cube.
"""

from decond.regression.conditioning import condition
from decond.regression.evidence import log_evidence, log_evidence_and_gradient
from decond.regression.mixture import MixturePosterior
from decond.regression.models import PointEstimate, estimate
from decond.regression.observations import Aggregated, Direct, Observation, TaskTransformed, Transformed
from decond.regression.posterior import Posterior
from decond.regression.priors import FunctionPrior, Prior, WeightPrior

__all__ = [
    "Aggregated",
    "Direct",
    "FunctionPrior",
    "MixturePosterior",
    "Observation",
    "PointEstimate",
    "Posterior",
    "Prior",
    "TaskTransformed",
    "Transformed",
    "WeightPrior",
    "condition",
    "estimate",
    "log_evidence",
    "log_evidence_and_gradient",
]
