"""Regression from indirect data: a prior, an observation, one conditioning routine.

The equation is z̃ = Mᵀ f(x) + noise(Σ). The prior says what f may be, the observation yields (M, Σ), and `condition`
returns the posterior. A `LatentInput` is not linear in f and conditions in its own way. See
`decond.gp.conditioning` for the paper's cube.
"""

from decond.gp.conditional_learning import ConditionalFit, ConditionalSettings, conditional_model, learn_conditional
from decond.gp.conditioning import PointEstimate, condition, estimate, log_evidence, log_evidence_and_gradient
from decond.gp.latent_input import LatentInput, SamplerSettings, sample_latent_inputs
from decond.gp.model_average import (
    Candidate,
    HyperparameterSample,
    LaplaceSettings,
    ModelAverage,
    sample_hyperparameters,
    stacking_weights,
)
from decond.gp.observations import Aggregated, Direct, Observation, TaskTransformed, Transformed
from decond.gp.posteriors import MixturePosterior, Posterior
from decond.gp.priors import FunctionPrior, Prior, WeightPrior
from decond.gp.search import (
    BoundWarning,
    FitResult,
    Learnable,
    LogNormal,
    Model,
    NoSignalWarning,
    Variable,
    maximize_evidence,
    select,
    warn_if_constant,
)

__all__ = [
    "Aggregated",
    "BoundWarning",
    "Candidate",
    "ConditionalFit",
    "ConditionalSettings",
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
