"""Estimators with scikit-learn's conventions: `fit`, `predict`, parameters stored untouched.

`TaskTransformedGP` (two tables that share a mediator), `TaskTransformedFeatures` (two large ones), `AggregateGP`
(means of groups), `TransformedGP` (known weights), `SparseGP` (one large table), `InstrumentalVariablesGP`,
`TaskTransformedRidge`, `DirectGP` (ordinary regression), and what to compare with: `CascadeGP`, `ImputeGP`,
`EcologicalGP`, `DualEmbedding`. `compare` runs several of them on the same tables.
"""

from typing import Any

from decond.estimators.aggregate import AggregateGP
from decond.estimators.baselines import CascadeGP, EcologicalGP, ImputeGP
from decond.estimators.direct import DirectGP
from decond.estimators.dual import DualEmbedding
from decond.estimators.sparse import SparseGP
from decond.estimators.task_transformed import InstrumentalVariablesGP, TaskTransformedGP
from decond.estimators.task_transformed_features import TaskTransformedFeatures
from decond.estimators.task_transformed_ridge import TaskTransformedRidge
from decond.estimators.transformed import TransformedGP

__all__ = [
    "AggregateGP",
    "CascadeGP",
    "DirectGP",
    "DualEmbedding",
    "EcologicalGP",
    "ImputeGP",
    "InstrumentalVariablesGP",
    "SparseGP",
    "TaskTransformedFeatures",
    "TaskTransformedGP",
    "TaskTransformedRidge",
    "TransformedGP",
]


def __getattr__(name: str) -> Any:
    """Import `compare`, which brings pictures along, on first use (PEP 562)."""
    if name == "compare":
        from decond.estimators.model_comparison import compare

        return compare
    raise AttributeError(f"module 'decond.estimators' has no attribute {name!r}")
