"""Regression from indirect data: a prior, an observation, one conditioning routine.

Everything here is one equation, z̃ = Mᵀ f(x) + noise(Σ). The prior says what f may be, the observation yields
(M, Σ), and `condition` returns the posterior. See `decond.gp.models` for the paper's cube. `compare` runs
whole estimators beside each other; it lives with them, in `decond.estimators.comparison`.
"""

from importlib import import_module
from typing import Any

from decond.gp.conditional import (
    ConditionalChoice,
    ConditionalFit,
    ConditionalGrid,
    conditional_model,
    learn_conditional,
)
from decond.gp.conditioning import condition, log_evidence, log_evidence_and_gradient
from decond.gp.fit import BoundWarning, FitResult, NoSignalWarning, maximize_evidence, warn_if_constant
from decond.gp.laplace import HyperparameterSample, LaplaceSettings, sample_hyperparameters
from decond.gp.latent_input import LatentInput
from decond.gp.latent_inputs import SamplerSettings, sample_latent_inputs
from decond.gp.mixture import MixturePosterior
from decond.gp.model_average import Candidate, ModelAverage, stacking_weights
from decond.gp.models import PointEstimate, estimate
from decond.gp.observations import Aggregated, Direct, Observation, TaskTransformed, Transformed
from decond.gp.posterior import Posterior
from decond.gp.priors import FunctionPrior, Prior, WeightPrior
from decond.gp.variables import Learnable, LogNormal, Model, Variable, select

__all__ = [
    "Aggregated",
    "BoundWarning",
    "Candidate",
    "ConditionalChoice",
    "ConditionalFit",
    "ConditionalGrid",
    "Direct",
    "FitResult",
    "FunctionPrior",
    "HyperparameterSample",
    "LaplaceSettings",
    "LatentInput",
    "Learnable",
    "LogNormal",
    "MixturePosterior",
    "Model",
    "ModelAverage",
    "NoSignalWarning",
    "Observation",
    "PointEstimate",
    "Posterior",
    "Prior",
    "SamplerSettings",
    "TaskTransformed",
    "Transformed",
    "Variable",
    "WeightPrior",
    "compare",
    "condition",
    "conditional_model",
    "estimate",
    "learn_conditional",
    "log_evidence",
    "log_evidence_and_gradient",
    "maximize_evidence",
    "sample_hyperparameters",
    "sample_latent_inputs",
    "select",
    "stacking_weights",
    "warn_if_constant",
]


def __getattr__(name: str) -> Any:
    """Find `compare` on first use (PEP 562): estimators stand on this package, which may not import them."""
    if name == "compare":
        return import_module("decond.estimators.comparison").compare
    raise AttributeError(f"module 'decond.gp' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, imported yet or not."""
    return sorted({*globals(), *__all__})
