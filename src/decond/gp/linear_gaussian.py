"""The linear-Gaussian model z̃ = Mᵀ f(x) + noise(Σ) in numbers: (M, Σ), its log evidence, and the gradient of that.

Σ is kept as `noise` minus Mᵀ `shared`, where `noise` is a number (σ²I), a vector (a diagonal) or a matrix. So the
products of MᵀKM + Σ = noise + Mᵀ(KM - shared) are merged into one. Wherever there is a `shared`, it is EM for a
symmetric E, which makes it noise + Mᵀ(K - E)M.

Every matrix adjoint is written by hand. The adjoints of the Gram matrices and of the noise come from the algebra
below in a handful of matrix products; the kernels carry them to their parameters.
"""

import functools
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from decond.conditional.smoother import Smoother
from decond.gp.priors import Prior
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
    transposed_times,
)

__all__ = ["Linearization", "MediatedLinearization", "SamplingNoise"]

Array = NDArray[np.float64]
Matrix = Any
"""A dense or a sparse matrix."""

Noise = float | Array
"""A variance σ² of all targets, a diagonal (m,) or a covariance (m, m); or the adjoint of one."""

Gradient = dict[str, Any]
"""Derivatives by path, each in the shape of its parameter."""


class Linearization:
    """M and Σ of an observation at given parameters, in the forms that conditioning asks for.

    Parameters
    ----------
    transformation : ndarray or sparse array of shape (n, m)
        M.
    noise : float or ndarray of shape (m,) or (m, m)
        Variance of the noise: σ² of all targets, a diagonal, or a matrix.
    sampling : SamplingNoise, optional
        Noise that depends on the prior covariance of f, in addition.
    identity : bool
        Whether M = I, so that no product with it is worth computing. The adjoint of the noise is then a lower
        triangle with junk above.

    Examples
    --------
    >>> linear = Linearization(np.array([[0.5], [0.5]]), noise=0.01)
    >>> linear.size, linear.rank, linear.noise_covariance, linear.isotropic
    (1, 2, array([[0.01]]), True)
    """

    shared: Array | None = None
    has_parameters = False
    """Whether M depends on parameters, so that its adjoint is worth computing."""

    def __init__(
        self,
        transformation: Matrix,
        noise: Noise,
        sampling: "SamplingNoise | None" = None,
        identity: bool = False,
    ) -> None:
        self._transformation, self.noise = transformation, noise
        self.sampling, self.identity = sampling, identity

    @property
    def transformation(self) -> Matrix:
        """M (n, m), dense or sparse."""
        return self._transformation

    @property
    def rows(self) -> Array:
        """W (r, m), where M = Bᵀ W; M itself unless a smoother is behind it."""
        dense: Array = self.transformation
        return dense.toarray() if hasattr(dense, "toarray") else dense

    def bridge(self, values: Array) -> Array:
        """Return B @ values (r, k) for values (n, k)."""
        return values

    def bridge_transposed(self, values: Array) -> Array:
        """Return Bᵀ @ values (n, k) for values (r, k)."""
        return values

    @property
    def size(self) -> int:
        """The number m of observed values."""
        return int(self.transformation.shape[1])

    @property
    def rank(self) -> int:
        """The number r of rows of W."""
        return int(self.transformation.shape[0])

    @property
    def isotropic(self) -> bool:
        """Whether Σ = σ²I, which the forms with small matrices need."""
        return np.ndim(self.noise) == 0 and self.shared is None and self.sampling is None

    @property
    def noise_covariance(self) -> Array:
        """Σ (m, m), in full; without the noise of sampling, which depends on the prior."""
        covariance = np.zeros((self.size, self.size))
        self.add_noise(covariance)
        if self.shared is not None:
            covariance -= transposed_times(self.transformation, self.shared)
        return covariance

    def add_noise(self, matrix: Array) -> None:
        """Add `noise` to a matrix, in place."""
        if np.ndim(self.noise) == 2:
            matrix += self.noise
        else:
            add_to_diagonal(matrix, self.noise)

    @cached_property
    def noise_factor(self) -> Factor:
        """The Cholesky factor of Σ."""
        return cholesky(self.noise_covariance, "the noise covariance Σ")


class MediatedLinearization(Linearization):
    """M = A = (L + τ²I)⁻¹ L̃ learned from pairs, and Σ of the paper's Theorem 5.3.

    Parameters
    ----------
    smoother : Smoother
        Of the pairs, with ridge τ².
    y_task : ndarray of shape (m, e)
        Mediator of the task rows.
    noise : float or ndarray of shape (m,)
        Variance of the noise of the targets.
    full : bool
        Whether Σ = L̃̃ + σ²I - L̃ᵀA (τ² WᵀW + σ²I in finite features); otherwise Σ = σ²I.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> smoother = Smoother(RBF(0.1), np.array([[0.0], [1.0]]), ridge=1e-4)
    >>> linear = MediatedLinearization(smoother, np.array([[0.0]]), 1e-4, full=True)
    >>> linear.transformation.round(2).ravel()  # the task row has the y of the first pair
    array([1., 0.])
    """

    has_parameters = True

    def __init__(self, smoother: Smoother, y_task: NDArray[Any], noise: Noise, full: bool) -> None:
        self.smoother, self.noise = smoother, noise
        self.sampling, self.identity = None, False
        if full and smoother.features is None:
            self.shared = smoother.kernel.gram(smoother.points, y_task)
            self._rows = smoother.factor.half_solve(self.shared)
            covariance = smoother.kernel.gram(y_task, y_task)
        else:
            self._rows = smoother.rows(y_task)
            covariance = smoother.ridge * multiply(self._rows.T, self._rows) if full else np.empty((0, 0))
        if full:
            add_to_diagonal(covariance, noise)
            self.noise = covariance

    @cached_property
    def transformation(self) -> Array:
        """A."""
        return self.smoother.bridge_transposed(self._rows)

    @property
    def size(self) -> int:
        """The number m of task rows."""
        return int(self._rows.shape[1])

    @property
    def rank(self) -> int:
        """The number of pairs, or of features of y if these are fewer."""
        return int(self._rows.shape[0])

    @property
    def rows(self) -> Array:
        """W = R⁻¹ L̃, with R Rᵀ = L + τ²I."""
        return self._rows

    def bridge(self, values: Array) -> Array:
        """Return R⁻¹ values."""
        return self.smoother.bridge(values)

    def bridge_transposed(self, values: Array) -> Array:
        """Return R⁻ᵀ values."""
        return self.smoother.bridge_transposed(values)


class SamplingNoise:
    """Noise of targets that were measured at a random sample of x, of which M only holds the distribution.

    Column j of M holds the weights of the rows under the distribution of x that belongs to target j, so the prior
    expects f to vary within it by v_j = Σ_i M_ij k_ii - (MᵀKM)_jj. The noise is `shares` v, shares (m, m): the
    identity for targets measured at one latent input each, smaller for averages. Where weights of both signs make v_j
    negative it counts as zero.

    >>> noise = SamplingNoise(np.array([[0.5], [0.5]]), np.eye(1))
    >>> noise._variances(diagonal=np.ones(2), averaged=np.array([0.75]))  # of two rows whose f is half correlated
    array([0.25])
    """

    def __init__(self, transformation: Matrix, shares: Matrix) -> None:
        self.transformation, self.shares = transformation, sparse.csr_array(shares)

    @classmethod
    def of_groups(cls, averaging: Matrix, counts: Array, unlisted: Array) -> "SamplingNoise":
        """Return the noise of averages over groups of which only some rows are listed.

        The variance of f in the group is estimated as v_j n_j / (n_j - 1), and the average of n_j rows has that
        divided by n_j, times the share of the rows of the group that is `unlisted` (the correction for a finite
        population). A group of a single row takes the mean variance of the others.

        Parameters
        ----------
        averaging : sparse array of shape (n, m)
            Weights of the rows in each average.
        counts : ndarray of shape (m,)
            Effective numbers n_j of listed rows.
        unlisted : ndarray of shape (m,)
            Fraction of the rows of each group that is not listed.
        """
        several = counts > 1.0 + 1e-9
        own = np.where(several, 1.0 / np.where(several, counts - 1.0, 1.0), 0.0)
        shares = sparse.csr_array(sparse.diags_array(own))
        if several.any() and not several.all():
            shares = shares + sparse.csr_array(np.outer(~several, counts * own / several.sum()))
        return cls(averaging, sparse.diags_array(unlisted) @ shares)

    def _variances(self, diagonal: Array, averaged: Array) -> Array:
        """Return the variance of every target, from diag K and diag MᵀKM."""
        return self.shares @ np.maximum(self._within(diagonal, averaged), 0.0)

    def _pullback(self, bar: Array, diagonal: Array, averaged: Array) -> tuple[Array, Array]:
        """Return the adjoints of diag K and of diag MᵀKM, given that of the variances."""
        within_bar = np.where(self._within(diagonal, averaged) > 0.0, self.shares.T @ bar, 0.0)
        return self.transformation @ within_bar, -within_bar

    def _within(self, diagonal: Array, averaged: Array) -> Array:
        return self.transformation.T @ diagonal - averaged


class Pullback(Protocol):
    """Carries adjoints on to the parameters of an observation, see `Observation._gradient`."""

    def __call__(
        self,
        noise_bar: Noise,
        rows_bar: Array | None = None,
        middle_bar: Array | None = None,
        *,
        points: bool = True,
    ) -> Gradient:
        """Return the gradient by path."""


def evidence_and_gradient(
    prior: Prior, x: NDArray[Any], linear: Linearization, targets: Array, points: bool, pullback: Pullback
) -> tuple[float, Gradient]:
    """Return the log evidence and its gradient by parameter path.

    Parameters
    ----------
    prior : Prior
        Prior of f.
    x : ndarray of shape (n, d)
        Rows at which f is seen.
    linear : Linearization
        M and Σ, without the shortcut through finite features.
    targets : ndarray of shape (m,) or (m, t)
        z̃.
    points : bool
        Whether the gradient has that of the rows too.
    pullback : Pullback
        From the adjoints of M and Σ to the gradient of the observation.
    """
    columns = targets[:, None] if targets.ndim == 1 else targets
    gram = prior.covariance.gram(x, x)
    mean = prior.mean_of(columns.shape[1])
    route = _through_points if linear.isotropic and len(x) < linear.size else _through_targets
    carry = functools.partial(pullback, points=points)
    value, gram_bar, mean_bar, observation_gradient = route(gram, linear, columns, mean, carry)
    pulled = prior.covariance.symmetric_pullback(x, gram_bar, points=points)
    gradient = prior.gradient(pulled.parameters, mean_bar)
    gradient.update({f"observation.{path}": bar for path, bar in observation_gradient.items()})
    if points:
        gradient["observation.x"] = pulled.a + pulled.b
    _check_finite(gradient)
    return value, gradient


def evidence_factor(gram: Array, linear: Linearization) -> tuple[Factor, Array]:
    """Factor S = noise + Mᵀ(KM - shared), m x m; also return KM - shared.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        K.
    linear : Linearization
        M and Σ.
    """
    evidence, inner = (gram.copy(order="K"), gram) if linear.identity else _transformed(gram, linear)
    if linear.sampling is not None:
        averaged = _averaged_variances(gram, linear, inner)
        add_to_diagonal(evidence, linear.sampling._variances(np.diagonal(gram), averaged))
    linear.add_noise(evidence)
    return cholesky(evidence, "MᵀKM + Σ"), inner


def _transformed(gram: Array, linear: Linearization) -> tuple[Array, Array]:
    """Return Mᵀ(KM - shared) and KM - shared."""
    M = linear.transformation
    dense = isinstance(M, np.ndarray)
    inner = multiply(gram, M) if dense else (M.T @ gram).T  # K is symmetric
    if linear.shared is not None:
        inner -= linear.shared
    return multiply(M.T, inner) if dense else np.array(M.T @ inner), inner


def _averaged_variances(gram: Array, linear: Linearization, KM: Array) -> Array:
    """Return the diagonal of AᵀKA for the averages A that sampling noise is about, which is M or else sparse."""
    A = linear.sampling.transformation  # type: ignore[union-attr]
    if isinstance(A, np.ndarray):
        return np.einsum("nm,nm->m", A, KM)
    product = KM if A is linear.transformation else (A.T @ gram).T
    return np.asarray(A.multiply(product).sum(axis=0)).ravel()


def low_rank_evidence(gram: Array, linear: Linearization) -> LowRankPlusNoise:
    """Factor the same S through the bridge of the observation (r x r), for isotropic noise.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        K.
    linear : Linearization
        M and Σ.
    """
    prior = linear.bridge(linear.bridge(gram).T)
    return LowRankPlusNoise(linear.rows, prior, float(linear.noise), "RK̃Rᵀ + σ²I")


def _check_finite(gradient: Gradient) -> None:
    bad = [path for path, bar in gradient.items() if not np.isfinite(bar).all()]
    if bad:
        raise FloatingPointError(
            f"the gradient with respect to {', '.join(bad)} is not finite, although the evidence is. A parameter "
            "sits where the kernel has no derivative, or columns differ too much in scale: move it, or rescale them."
        )


def _through_targets(gram: Array, linear: Linearization, z: Array, mean: Array, pullback: Pullback) -> Any:
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
        return value, G, mean_bar, pullback(G)
    if not linear.has_parameters:
        full = mirrored(G)
        return value, _gram_bar(linear, gram, inner, full), mean_bar, pullback(full)
    gram_bar = adjoint.sandwich(M)
    M_bar = times_symmetric(inner, G, 2.0)
    if mean.any():
        M_bar -= residual_bar @ mean
    return value, gram_bar, mean_bar, pullback(G, linear.bridge(M_bar), gram_bar)


def _gram_bar(linear: Linearization, gram: Array, KM: Array, G: Array) -> Array:
    """Return the adjoint of K for a fixed M: MGMᵀ, and what comes through noise that depends on K."""
    M = linear.transformation
    if linear.sampling is None:
        return _sandwich(M, G)
    A, averaged = linear.sampling.transformation, _averaged_variances(gram, linear, KM)
    gram_diagonal_bar, averaged_bar = linear.sampling._pullback(np.diagonal(G), np.diagonal(gram), averaged)
    if A is M:
        inner = G.copy()
        add_to_diagonal(inner, averaged_bar)
        gram_bar = _sandwich(M, inner)
    else:
        gram_bar = _sandwich(M, G) + ((A * averaged_bar) @ A.T).toarray()
    add_to_diagonal(gram_bar, gram_diagonal_bar)
    return gram_bar


def _sandwich(M: Matrix, G: Array) -> Array:
    """Return M G Mᵀ for a dense or sparse M."""
    if isinstance(M, np.ndarray):
        return symmetric_product(multiply(M, G), M.T)
    return np.asarray(M @ np.asarray(M @ G).T)


def _through_points(gram: Array, linear: Linearization, z: Array, mean: Array, pullback: Pullback) -> Any:
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
    return low_rank.log_density(residual), gram_bar, mean_bar, pullback(noise_bar, rows_bar)
