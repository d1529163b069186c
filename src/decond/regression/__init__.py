"""Regression from indirect data: a prior, an observation, one conditioning routine.

Everything here is one equation, z̃ = Mᵀ f(x) + noise(Σ). The prior says what f may be, the observation yields
(M, Σ), and `condition` returns the posterior. See `decond.regression.models` for the paper's cube. `compare` runs
whole estimators beside each other; it lives with them, in `decond.estimators.comparison`.
"""

from importlib import import_module
from typing import Any

from decond.regression.conditioning import condition, log_evidence, log_evidence_and_gradient
from decond.regression.latent_input import LatentInput
from decond.regression.mixture import MixturePosterior
from decond.regression.models import PointEstimate, estimate
from decond.regression.observations import Aggregated, Direct, Observation, TaskTransformed, Transformed
from decond.regression.posterior import Posterior
from decond.regression.priors import FunctionPrior, Prior, WeightPrior

__all__ = [
    "Aggregated",
    "Direct",
    "FunctionPrior",
    "LatentInput",
    "MixturePosterior",
    "Observation",
    "PointEstimate",
    "Posterior",
    "Prior",
    "TaskTransformed",
    "Transformed",
    "WeightPrior",
    "compare",
    "condition",
    "estimate",
    "log_evidence",
    "log_evidence_and_gradient",
]


def __getattr__(name: str) -> Any:
    """Find `compare` on first use (PEP 562): estimators stand on this package, which may not import them."""
    if name == "compare":
        return import_module("decond.estimators.comparison").compare
    raise AttributeError(f"module 'decond.regression' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, imported yet or not."""
    return sorted({*globals(), *__all__})
