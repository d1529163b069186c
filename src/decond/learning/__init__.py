"""Learning hyperparameters: variables of a model ↔ one vector, maximal log evidence, and what is left uncertain."""

from decond.learning.conditional import ConditionalChoice, ConditionalGrid
from decond.learning.fit import BoundWarning, FitResult, maximize_evidence
from decond.learning.laplace import HyperparameterSample, sample_hyperparameters
from decond.learning.variables import Learnable, LogNormal, Model, Variable, select

__all__ = [
    "BoundWarning",
    "ConditionalChoice",
    "ConditionalGrid",
    "FitResult",
    "HyperparameterSample",
    "Learnable",
    "LogNormal",
    "Model",
    "Variable",
    "maximize_evidence",
    "sample_hyperparameters",
    "select",
]
