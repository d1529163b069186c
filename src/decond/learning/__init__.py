"""Learning hyperparameters: variables of a model ↔ one vector, maximal log evidence, and what is left uncertain."""

from decond.learning.conditional import (
    ConditionalChoice,
    ConditionalFit,
    ConditionalGrid,
    conditional_model,
    learn_conditional,
)
from decond.learning.fit import BoundWarning, FitResult, NoSignalWarning, maximize_evidence, warn_if_constant
from decond.learning.laplace import HyperparameterSample, LaplaceSettings, sample_hyperparameters
from decond.learning.latent_inputs import SamplerSettings, sample_latent_inputs
from decond.learning.model_average import Candidate, ModelAverage, stacking_weights
from decond.learning.variables import Learnable, LogNormal, Model, Variable, select

__all__ = [
    "BoundWarning",
    "Candidate",
    "ConditionalChoice",
    "ConditionalFit",
    "ConditionalGrid",
    "FitResult",
    "HyperparameterSample",
    "LaplaceSettings",
    "Learnable",
    "LogNormal",
    "Model",
    "ModelAverage",
    "NoSignalWarning",
    "SamplerSettings",
    "Variable",
    "conditional_model",
    "learn_conditional",
    "maximize_evidence",
    "sample_hyperparameters",
    "sample_latent_inputs",
    "select",
    "stacking_weights",
    "warn_if_constant",
]
