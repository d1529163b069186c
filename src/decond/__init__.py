"""decond: learning from indirect data with kernels.

The map: `kernels` and `features` say which functions are likely; `embeddings` turn distributions into weighted
points and condition or decondition them; `regression` recovers f from data that see it only indirectly;
`problems` holds worked examples with known truth.
"""

from decond import embeddings, features, kernels, problems, regression
from decond.embeddings import (
    ConditionalMeanOperator,
    CovarianceOperator,
    CrossCovarianceOperator,
    DeconditionalMeanOperator,
    KernelBayesRule,
    MeanEmbedding,
)

__version__ = "0.1.0"

__all__ = [
    "ConditionalMeanOperator",
    "CovarianceOperator",
    "CrossCovarianceOperator",
    "DeconditionalMeanOperator",
    "KernelBayesRule",
    "MeanEmbedding",
    "embeddings",
    "features",
    "kernels",
    "problems",
    "regression",
]
