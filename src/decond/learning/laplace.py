"""Hyperparameters around their optimum: a few weighted points that stand for their posterior."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from decond.learning.fit import FitResult, Objective
from decond.learning.variables import Variable
from decond.linalg import NotPositiveDefiniteError

__all__ = ["HyperparameterSample", "sample_hyperparameters"]

STEP = 1e-4
"""Step of the central differences, on the unconstrained scale."""

LEAST_CURVATURE = 1.0
"""Curvatures below this are taken as this: no proposal is wider than a factor of e."""

NEGLIGIBLE = 1e-3
"""Points with less than this share of the weight are left out."""


class HyperparameterSample(NamedTuple):
    """Values of the hyperparameters by path, each with a weight; the first is the optimum.

    >>> sample = HyperparameterSample(({"noise": 0.1}, {"noise": 0.2}), np.array([0.75, 0.25]))
    >>> float(sum(weight * values["noise"] for values, weight in zip(*sample)))
    0.125
    """

    values: tuple[dict[str, Any], ...]
    weights: np.ndarray


def sample_hyperparameters(
    result: FitResult, z: Any, variables: list[Variable], n: int = 16, seed: int = 0
) -> HyperparameterSample:
    """Return the optimum and n points around it, weighted by importance.

    The points are a Sobol sequence through the Gaussian of Laplace's approximation, N(θ̂, H⁻¹), H the Hessian of the
    negative objective with eigenvalues of at least `LEAST_CURVATURE`. Their weights correct the approximation:
    w_s ∝ exp(objective(θ_s) + ½ dᵀHd), d = θ_s - θ̂, and zero outside the bounds.

    >>> from decond.kernels import RBF
    >>> from decond.learning import Model, maximize_evidence, select
    >>> from decond.regression import Direct, FunctionPrior
    >>> x = np.linspace(0, 6, 20)
    >>> z = np.sin(x) + 0.1 * np.random.default_rng(0).standard_normal(20)
    >>> model = Model(FunctionPrior(RBF(1.0)), Direct(x, noise=0.1))
    >>> variables = select(model, free=["prior.kernel.lengthscale"])
    >>> result = maximize_evidence(model, z, variables, n_restarts=0)
    >>> sample = sample_hyperparameters(result, z, variables, n=8)
    >>> lengthscales = [values["prior.kernel.lengthscale"] for values in sample.values]
    >>> bool(min(lengthscales) < lengthscales[0] < max(lengthscales)), round(float(sample.weights.sum()), 6)
    (True, 1.0)
    """
    objective = Objective(result.model, z, variables)
    optimum = objective.vector_of(result.parameters)
    curvatures, axes = _curvature(objective, optimum)
    from scipy.stats import qmc  # takes a second to import, and those who only simulate do without it

    normal = ndtri(qmc.Sobol(len(optimum), seed=seed).random(n)) if n else np.zeros((0, len(optimum)))
    steps = np.vstack([np.zeros(len(optimum)), (normal / np.sqrt(curvatures)) @ axes.T])
    vectors = optimum + steps
    lower, upper = objective.bounds
    allowed = np.all((vectors >= lower) & (vectors <= upper), axis=1)
    allowed[0] = True
    logs = np.array([_value(objective, v) if inside else -np.inf for v, inside in zip(vectors, allowed, strict=True)])
    logs += 0.5 * np.concatenate([[0.0], (normal**2).sum(axis=1)])
    weights = np.exp(logs - logs.max())
    kept = weights >= NEGLIGIBLE * weights.sum()
    kept[0] = True  # the mean is taken there
    values = tuple(objective.parameters_at(vector) for vector in vectors[kept])
    return HyperparameterSample(values, weights[kept] / weights[kept].sum())


def _curvature(objective: Objective, optimum: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues and eigenvectors of the Hessian, by central differences of the gradient."""
    size = len(optimum)
    hessian = np.zeros((size, size))
    for i in range(size):
        step = np.zeros(size)
        step[i] = STEP
        ahead, behind = (objective.evaluate(optimum + sign * step)[1] for sign in (1.0, -1.0))
        hessian[i] = (behind - ahead) / (2.0 * STEP)
    curvatures, axes = np.linalg.eigh(0.5 * (hessian + hessian.T))
    return np.maximum(curvatures, LEAST_CURVATURE), axes


def _value(objective: Objective, vector: np.ndarray) -> float:
    try:
        return objective.value(vector)
    except NotPositiveDefiniteError:
        return -np.inf
