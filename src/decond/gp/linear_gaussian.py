"""The linear-Gaussian model z̃ = Mᵀ f(x) + noise(Σ): its posterior, its log evidence, and the gradient of that.

Every matrix adjoint is written by hand. The adjoints of the Gram matrices and of the noise come from the algebra
below in a handful of matrix products; `Kernel.symmetric_pullback` carries them to the parameters of the kernels.
"""

from typing import Any

import numpy as np

from decond.errors import ArgumentError
from decond.gp.linearization import Gradient, Linearization
from decond.gp.posterior import FunctionPosterior, InducingPosterior, Posterior, WeightPosterior
from decond.gp.priors import Prior, WeightPrior, prior_mean
from decond.linalg import (
    Factor,
    LogDensityAdjoint,
    LowRankPlusNoise,
    add_to_diagonal,
    cholesky,
    gaussian_log_density,
    mirrored,
    multiply,
    symmetric_product,
    times_symmetric,
)

__all__ = ["FORMS", "evidence_and_gradient", "posterior"]

FORMS = ("auto", "function", "inducing", "weight")


def posterior(prior: Prior, points: np.ndarray, linear: Linearization, targets: np.ndarray, form: str) -> Posterior:
    """Return the posterior of f given targets (m,) or (m, t), in the form asked for or the cheapest one."""
    chosen = _cheapest_form(prior, points, linear) if form == "auto" else form
    _check_form(chosen, prior, linear)
    if chosen == "weight":
        return WeightPosterior(prior, points, linear, targets)
    gram = prior.covariance.gram(points, points)
    if chosen == "inducing":
        return InducingPosterior(prior, points, linear, targets, low_rank_evidence(gram, linear))
    factor, _ = evidence_factor(gram, linear)
    return FunctionPosterior(prior, points, linear, targets, factor)


def evidence_and_gradient(
    prior: Prior, x: np.ndarray, linear: Linearization, targets: np.ndarray, points: bool
) -> tuple[float, Gradient]:
    """Return log p(z̃) and its gradient by parameter path, with `points` also that of the points."""
    columns = targets[:, None] if targets.ndim == 1 else targets
    gram = prior.covariance.gram(x, x)
    mean = prior_mean(prior, columns.shape[1])
    route = _through_points if linear.isotropic and len(x) < linear.size else _through_targets
    value, gram_bar, mean_bar, observation_gradient = route(gram, linear, columns, mean, points)
    pulled = prior.covariance.symmetric_pullback(x, gram_bar, points=points)
    scope = "prior.kernel." if hasattr(prior, "kernel") else "prior."
    gradient = {scope + path: bar for path, bar in pulled.parameters.items()}
    gradient["prior.mean"] = _shaped_like(prior.mean, mean_bar)  # type: ignore[attr-defined]
    gradient.update({f"observation.{path}": bar for path, bar in observation_gradient.items()})
    if points:
        gradient["observation.x"] = pulled.a + pulled.b
    _check_finite(gradient)
    return value, gradient


def evidence_factor(gram: np.ndarray, linear: Linearization) -> tuple[Factor, np.ndarray]:
    """Factor S = noise + Mᵀ(KM - shared), m x m; also return KM - shared."""
    evidence, inner = (gram.copy(order="K"), gram) if linear.identity else _transformed(gram, linear)
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
            'form="weight" is not there for groups of which only some rows are listed, whose noise depends on the '
            'prior of f. Use form="auto".',
        )
    if form == "inducing" and not linear.isotropic:
        raise ArgumentError(
            "form",
            'form="inducing" needs the same independent noise for every target (Σ = σ²I), which this observation '
            'does not have. Use mediator="map", or form="auto".',
        )


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
