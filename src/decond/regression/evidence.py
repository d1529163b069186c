"""Log evidences and their gradients, with every matrix adjoint written by hand.

The adjoints of the Gram matrices and of the noise come from the algebra below in a handful of matrix products;
`decond.autodiff` carries them to the parameters of the kernels.
"""

from typing import Any

import numpy as np

from decond.autodiff import symmetric_gram_pullback
from decond.linalg import (
    LogDensityAdjoint,
    add_to_diagonal,
    gaussian_log_density,
    mirrored,
    multiply,
    symmetric_product,
    times_symmetric,
)
from decond.memory import reused_memory
from decond.regression.conditioning import (
    averaged_variances,
    checked_data,
    condition,
    evidence_factor,
    low_rank_evidence,
)
from decond.regression.linearization import Gradient, Linearization
from decond.regression.observations import Observation
from decond.regression.priors import Prior, prior_mean

__all__ = ["log_evidence", "log_evidence_and_gradient"]


def log_evidence(prior: Prior, observation: Observation, z: Any, form: str = "auto") -> float:
    """Return log p(z̃) of the model, summed over target columns.

    >>> from decond.kernels import RBF
    >>> from decond.regression import Direct, FunctionPrior
    >>> round(log_evidence(FunctionPrior(RBF()), Direct([0.0], noise=1.0), [0.0]), 4)
    -1.2655
    """
    return condition(prior, observation, z, form).log_evidence


def log_evidence_and_gradient(
    prior: Prior, observation: Observation, z: Any, *, points: bool = False
) -> tuple[float, Gradient]:
    """Return log p(z̃) and its gradient by parameter path, such as "prior.kernel.lengthscale".

    With `points` the gradient has "observation.x" too and, for a mediator, "observation.y": inducing points are
    learned that way.

    >>> from decond.kernels import RBF
    >>> from decond.regression import Direct, FunctionPrior
    >>> value, gradient = log_evidence_and_gradient(FunctionPrior(RBF()), Direct([0.0], noise=1.0), [0.0])
    >>> sorted(gradient)
    ['observation.noise', 'prior.kernel.lengthscale', 'prior.mean']
    """
    with reused_memory():
        return _differentiated(prior, observation, z, points)


def _differentiated(prior: Prior, observation: Observation, z: Any, points: bool) -> tuple[float, Gradient]:
    x, targets = checked_data(prior, observation, z)
    columns = targets[:, None] if targets.ndim == 1 else targets
    linear = observation.linearize(use_features=False)
    gram = prior.covariance.gram(x, x)
    mean = prior_mean(prior, columns.shape[1])
    route = _through_points if linear.isotropic and len(x) < linear.size else _through_targets
    value, gram_bar, mean_bar, observation_gradient = route(gram, linear, columns, mean, points)
    pulled = symmetric_gram_pullback(prior.covariance, x, gram_bar, points=points)
    scope = "prior.kernel." if hasattr(prior, "kernel") else "prior."
    gradient = {scope + path: bar for path, bar in pulled.parameters.items()}
    gradient["prior.mean"] = _shaped_like(prior.mean, mean_bar)  # type: ignore[attr-defined]
    gradient.update({f"observation.{path}": bar for path, bar in observation_gradient.items()})
    if points:
        gradient["observation.x"] = pulled.a + pulled.b
    _check_finite(gradient)
    return value, gradient


def _shaped_like(parameter: Any, bar: np.ndarray) -> Any:
    """Return adjoints of target columns in the shape of a parameter; one value shared by all gets their sum."""
    if np.ndim(parameter) == 0:
        return float(bar.sum())
    return bar if len(parameter) == len(bar) else bar.sum(keepdims=True)


def _check_finite(gradient: Gradient) -> None:
    bad = [path for path, bar in gradient.items() if not np.isfinite(bar).all()]
    if bad:
        raise FloatingPointError(
            f"the gradient with respect to {', '.join(bad)} is not finite, although the evidence is. A parameter "
            "sits where the kernel has no derivative, or columns differ too much in scale: move it, or rescale them."
        )


def _through_targets(gram: np.ndarray, linear: Linearization, z: np.ndarray, mean: np.ndarray, points: bool) -> Any:
    """Differentiate log N(r; 0, S), S = noise + Mᵀ(K - E)M, m x m, where EM is what `linear` calls shared.

    With G = ½(ααᵀ - S⁻¹): the adjoint of K - E is MGMᵀ, M_bar = 2(K - E)MG, noise_bar = G. The constant mean c adds
    to M_bar through r = z̃ - c Mᵀ1.
    """
    M = linear.transformation
    factor, inner = evidence_factor(gram, linear)
    sums = np.asarray(M.sum(axis=0))
    residual = z - np.outer(sums, mean)
    value = gaussian_log_density(factor, residual)
    adjoint = LogDensityAdjoint(factor, residual)
    residual_bar, G = adjoint.residual, adjoint.covariance()
    mean_bar = -(sums @ residual_bar)
    if linear.identity:
        return value, G, mean_bar, linear.pullback(G)
    if not linear.has_parameters:
        full = mirrored(G)
        return value, _gram_bar(linear, gram, inner, full), mean_bar, linear.pullback(full)
    gram_bar = adjoint.sandwich(M)
    M_bar = times_symmetric(inner, G, 2.0)
    if mean.any():
        M_bar -= residual_bar @ mean
    return value, gram_bar, mean_bar, linear.pullback(G, linear.bridge(M_bar), gram_bar, points=points)


def _gram_bar(linear: Linearization, gram: np.ndarray, KM: np.ndarray, G: np.ndarray) -> np.ndarray:
    """Return the adjoint of K for a fixed M: MGMᵀ, and what comes through noise that depends on K."""
    M = linear.transformation
    if linear.sampling is None:
        return _sandwich(M, G)
    A, averaged = linear.sampling.transformation, averaged_variances(gram, linear, KM)
    gram_diagonal_bar, averaged_bar = linear.sampling.pullback(np.diagonal(G), np.diagonal(gram), averaged)
    if A is M:
        inner = G.copy()
        add_to_diagonal(inner, averaged_bar)
        gram_bar = _sandwich(M, inner)
    else:
        gram_bar = _sandwich(M, G) + ((A * averaged_bar) @ A.T).toarray()
    add_to_diagonal(gram_bar, gram_diagonal_bar)
    return gram_bar


def _sandwich(M: Any, G: np.ndarray) -> np.ndarray:
    """Return M G Mᵀ for a dense or sparse M."""
    if isinstance(M, np.ndarray):
        return symmetric_product(multiply(M, G), M.T)
    return np.asarray(M @ np.asarray(M @ G).T)


def _through_points(gram: np.ndarray, linear: Linearization, z: np.ndarray, mean: np.ndarray, points: bool) -> Any:
    """Differentiate the same evidence through r x r matrices, for isotropic noise.

    V is the posterior covariance and μ̃ the posterior mean of the bridged values B f(x), with prior covariance
    K̃ = BKBᵀ: K̃_bar = ½(WS⁻¹Wᵀ - ββᵀ) with its sign turned, and W_bar = (μ̃eᵀ - VW)/σ², e = r - Wᵀμ̃.
    """
    low_rank = low_rank_evidence(gram, linear)
    core, noise, rows, t = low_rank.core, low_rank.noise, linear.rows, z.shape[1]
    ones = linear.bridge(np.ones((len(gram), 1)))[:, 0]
    residual = z - np.outer(ones @ rows, mean)
    alpha = low_rank.solve(residual)
    beta = low_rank.rows_solve(residual)
    half = core.half_solve(low_rank.triangle)  # WS⁻¹Wᵀ = halfᵀ half
    bridged_bar = 0.5 * (multiply(beta, beta.T) - t * multiply(half.T, half))
    explained = multiply(half, low_rank.prior)
    covariance = low_rank.prior - multiply(explained.T, explained)
    rows_bar = multiply(multiply(low_rank.prior, beta), alpha.T) - (t / noise) * multiply(covariance, rows)
    rows_bar += np.outer(ones, alpha @ mean)
    trace_inverse = (low_rank.size - core.size) / noise + core.inverse_trace()
    noise_bar = 0.5 * (float((alpha**2).sum()) - t * trace_inverse)
    gram_bar = linear.bridge_transposed(linear.bridge_transposed(bridged_bar).T)
    mean_bar = (ones @ rows) @ alpha
    return low_rank.log_density(residual), gram_bar, mean_bar, linear.pullback(noise_bar, rows_bar, points=points)
