"""Distributions as functions: mean embeddings, and operators that condition, decondition and apply Bayes' rule."""

from decond.embeddings.bayes_rule import KernelBayesRule
from decond.embeddings.bayesian_mean import BayesianMeanEmbedding
from decond.embeddings.conditional_mean import ConditionalMeanOperator
from decond.embeddings.covariance import CovarianceOperator, CrossCovarianceOperator
from decond.embeddings.deconditional_mean import DeconditionalMeanOperator
from decond.embeddings.herding import Herding
from decond.embeddings.mean_embedding import MeanEmbedding

__all__ = [
    "BayesianMeanEmbedding",
    "ConditionalMeanOperator",
    "CovarianceOperator",
    "CrossCovarianceOperator",
    "DeconditionalMeanOperator",
    "Herding",
    "KernelBayesRule",
    "MeanEmbedding",
]
