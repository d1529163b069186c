"""decond: learning from indirect data with kernels.

The map: estimators such as `TaskTransformedGP` and `AggregateGP` take tables and give a function with error bars;
`save` and `load` keep them in files; `datasets` has a real example. `lfi` takes a simulator and an observation and
gives the posterior of its parameters. `reports` writes what either found as one page. Below them, `kernels` and
`features` say which functions are likely; `embeddings` turn distributions into weighted points and condition or
decondition them; `gp` recovers f from data that see it only indirectly and learns its hyperparameters; `problems`
holds worked examples with known truth.
"""

import importlib
from typing import TYPE_CHECKING, Any

from decond import embeddings, features, kernels
from decond.embeddings import (
    BayesianMeanEmbedding,
    ConditionalMeanOperator,
    CovarianceOperator,
    CrossCovarianceOperator,
    DeconditionalMeanOperator,
    KernelBayesRule,
    MeanEmbedding,
)

if TYPE_CHECKING:
    from decond import datasets, estimators, gp, lfi, problems, reports
    from decond.estimators import (
        AggregateGP,
        CascadeGP,
        DirectGP,
        DualEmbedding,
        EcologicalGP,
        ImputeGP,
        InstrumentalVariablesGP,
        SparseGP,
        TaskTransformedFeatures,
        TaskTransformedGP,
        TaskTransformedRidge,
        TransformedGP,
    )
    from decond.io import load, save

__version__ = "0.1.0"

_ON_FIRST_USE = {
    "decond.estimators": (
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
    ),
    "decond.io": ("load", "save"),
    "decond": ("datasets", "estimators", "gp", "lfi", "problems", "reports"),
}
"""Names that bring scikit-learn, pandas or scipy.optimize along, which are slow to import: imported on first use."""

__all__ = [
    "AggregateGP",
    "BayesianMeanEmbedding",
    "CascadeGP",
    "ConditionalMeanOperator",
    "CovarianceOperator",
    "CrossCovarianceOperator",
    "DeconditionalMeanOperator",
    "DirectGP",
    "DualEmbedding",
    "EcologicalGP",
    "ImputeGP",
    "InstrumentalVariablesGP",
    "KernelBayesRule",
    "MeanEmbedding",
    "SparseGP",
    "TaskTransformedFeatures",
    "TaskTransformedGP",
    "TaskTransformedRidge",
    "TransformedGP",
    "datasets",
    "embeddings",
    "estimators",
    "features",
    "gp",
    "kernels",
    "lfi",
    "load",
    "problems",
    "reports",
    "save",
]


def __getattr__(name: str) -> Any:
    """Import a name on first use (PEP 562)."""
    for module, names in _ON_FIRST_USE.items():
        if name in names:
            found = importlib.import_module(f"{module}.{name}") if module == "decond" else None
            value = found or getattr(importlib.import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'decond' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, imported yet or not."""
    return sorted({*globals(), *__all__})
