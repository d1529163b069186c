"""One conditioning routine for every model: prior + observation + targets → posterior."""

from typing import Any

import numpy as np

from decond.checks import as_targets, check_choice
from decond.errors import ArgumentError, ArgumentTypeError
from decond.linalg import Factor, LowRankPlusNoise, add_to_diagonal, cholesky, multiply
from decond.memory import new_copy
from decond.regression.linearization import Linearization
from decond.regression.observations import Observation
from decond.regression.posterior import FunctionPosterior, InducingPosterior, Posterior, WeightPosterior
from decond.regression.priors import Prior, WeightPrior
from decond.regression.unseen import UnseenInput, UnseenInputPosterior

__all__ = ["condition"]

FORMS = ("auto", "function", "inducing", "weight")


def condition(prior: Prior, observation: Observation, z: Any, form: str = "auto") -> Posterior:
    """Return the posterior of f given targets z: (m,), or (m, t) for several target columns.

    Three algebraic forms give the same answer and are chosen by size: "function" (m x m), "inducing" (the size of
    the transformation set; needs isotropic noise) and "weight" (the number of features; needs a `WeightPrior`).
    An `UnseenInput` has one form only.

    >>> from decond.kernels import RBF
    >>> from decond.regression import Direct, FunctionPrior
    >>> posterior = condition(FunctionPrior(RBF()), Direct([0.0, 1.0], noise=0.01), [1.0, -1.0])
    >>> posterior.mean([[0.0], [1.0]]).round(2)
    array([ 1., -1.])
    """
    check_choice(form, "form", FORMS)
    points, targets = checked_data(prior, observation, z)
    if isinstance(observation, UnseenInput):
        return UnseenInputPosterior(prior, points, observation, targets)
    linear = observation.linearize()
    chosen = _cheapest_form(prior, points, linear) if form == "auto" else form
    _check_form(chosen, prior, linear)
    if chosen == "weight":
        return WeightPosterior(prior, points, linear, targets)
    gram = prior.covariance.gram(points, points)
    if chosen == "inducing":
        return InducingPosterior(prior, points, linear, targets, low_rank_evidence(gram, linear))
    factor, _ = evidence_factor(gram, linear)
    return FunctionPosterior(prior, points, linear, targets, factor)


def checked_data(prior: Prior, observation: Observation, z: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return points that the prior's kernel accepts and targets that fit the observation."""
    if not isinstance(prior, Prior):
        raise ArgumentTypeError(
            "prior",
            f"prior is {prior!r}; give a FunctionPrior or WeightPrior, for example FunctionPrior(kernels.RBF()).",
        )
    if not isinstance(observation, Observation):
        raise ArgumentTypeError(
            "observation",
            f"observation is a {type(observation).__name__}; say how the data see the function, for example "
            "Direct(x, noise=0.1) or TaskTransformed(x, y, y_task, kernel_y).",
        )
    points = prior.covariance.points(observation.x, "x")
    return points, as_targets(observation.ordered(z), "z", observation.size, observation.partner)


def evidence_factor(gram: np.ndarray, linear: Linearization) -> tuple[Factor, np.ndarray]:
    """Factor S = noise + Mᵀ(KM - shared), m x m; also return KM - shared."""
    evidence, inner = (new_copy(gram), gram) if linear.identity else _transformed(gram, linear)
    if linear.sampling is not None:
        averaged = averaged_variances(gram, linear, inner)
        add_to_diagonal(evidence, linear.sampling.variances(np.diagonal(gram), averaged))
    linear.add_noise(evidence)
    return cholesky(evidence, "MᵀKM + Σ"), inner


def _transformed(gram: np.ndarray, linear: Linearization) -> tuple[np.ndarray, np.ndarray]:
    """Return Mᵀ(KM - shared) and KM - shared."""
    M = linear.transformation
    dense = isinstance(M, np.ndarray)
    inner = multiply(gram, M) if dense else (M.T @ gram).T  # K is symmetric
    if linear.shared is not None:
        inner -= linear.shared
    return multiply(M.T, inner) if dense else np.array(M.T @ inner), inner


def averaged_variances(gram: np.ndarray, linear: Linearization, KM: np.ndarray) -> np.ndarray:
    """Return the diagonal of AᵀKA for the averages A that sampling noise is about, which is M or else sparse."""
    A = linear.sampling.transformation  # type: ignore[union-attr]
    if isinstance(A, np.ndarray):
        return np.einsum("nm,nm->m", A, KM)
    product = KM if A is linear.transformation else (A.T @ gram).T
    return np.asarray(A.multiply(product).sum(axis=0)).ravel()


def low_rank_evidence(gram: np.ndarray, linear: Linearization) -> LowRankPlusNoise:
    """Factor the same S through the bridge of the observation (r x r)."""
    prior = linear.bridge(linear.bridge(gram).T)
    return LowRankPlusNoise(linear.rows, prior, linear.noise, "RK̃Rᵀ + σ²I")


def _cheapest_form(prior: Prior, points: np.ndarray, linear: Linearization) -> str:
    """Return the form with the smallest matrix to factor; between equals the simplest."""
    sizes = {"function": linear.size}
    if linear.isotropic:
        sizes["inducing"] = linear.rank
    if isinstance(prior, WeightPrior) and linear.sampling is None:
        sizes["weight"] = prior.features.transform(points[:1]).shape[1]
    return min(sizes, key=lambda form: sizes[form])


def _check_form(form: str, prior: Prior, linear: Linearization) -> None:
    if form == "weight" and not isinstance(prior, WeightPrior):
        raise ArgumentError(
            "form", f'form="weight" needs a WeightPrior, but prior is a {type(prior).__name__}. Use "auto".'
        )
    if form == "weight" and linear.sampling is not None:
        raise ArgumentError(
            "form",
            'form="weight" is not there for groups that are samples (sampled=True), whose noise depends on the '
            'prior of f. Use form="auto".',
        )
    if form == "inducing" and not linear.isotropic:
        raise ArgumentError(
            "form",
            'form="inducing" needs the same independent noise for every target (Σ = σ²I), which this observation '
            'does not have. Use mediator="map", or form="auto".',
        )
