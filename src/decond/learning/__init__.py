"""Learning hyperparameters: variables of a model ↔ one vector, and maximal log evidence."""

from decond.learning.fit import BoundWarning, FitResult, maximize_evidence
from decond.learning.variables import Learnable, LogNormal, Model, Variable, select

__all__ = ["BoundWarning", "FitResult", "Learnable", "LogNormal", "Model", "Variable", "maximize_evidence", "select"]
