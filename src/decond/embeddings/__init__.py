"""Distributions as functions: mean embeddings, and operators that condition, decondition and apply Bayes' rule."""

from decond.embeddings.bayes import KernelBayesRule
from decond.embeddings.bayesian import BayesianMeanEmbedding
from decond.embeddings.conditional import ConditionalMeanOperator
from decond.embeddings.covariance import CovarianceOperator, CrossCovarianceOperator
from decond.embeddings.deconditional import DeconditionalMeanOperator
from decond.embeddings.mean import MeanEmbedding

__all__ = [
    "BayesianMeanEmbedding",
    "ConditionalMeanOperator",
    "CovarianceOperator",
    "CrossCovarianceOperator",
    "DeconditionalMeanOperator",
    "KernelBayesRule",
    "MeanEmbedding",
]
