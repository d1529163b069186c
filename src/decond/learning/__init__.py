"""Learning hyperparameters: variables of a model ↔ one vector, maximal log evidence, and what is left uncertain."""

from decond.learning.conditional import (
    ConditionalChoice,
    ConditionalFit,
    ConditionalGrid,
    conditional_model,
    learn_conditional,
)
from decond.learning.fit import BoundWarning, FitResult, NoSignalWarning, maximize_evidence, warn_if_constant
from decond.learning.laplace import HyperparameterSample, sample_hyperparameters
from decond.learning.variables import Learnable, LogNormal, Model, Variable, select

__all__ = [
    "BoundWarning",
    "ConditionalChoice",
    "ConditionalFit",
    "ConditionalGrid",
    "FitResult",
    "HyperparameterSample",
    "Learnable",
    "LogNormal",
    "Model",
    "NoSignalWarning",
    "Variable",
    "conditional_model",
    "learn_conditional",
    "maximize_evidence",
    "sample_hyperparameters",
    "select",
    "warn_if_constant",
]
