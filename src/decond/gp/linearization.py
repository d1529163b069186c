"""An observation in numbers: z̃ = Mᵀ f(x) + noise(Σ) at given parameters, with its adjoint.

Σ is kept as `noise` minus Mᵀ `shared`, where `noise` is a number (σ²I), a vector (a diagonal) or a matrix. So
the products of MᵀKM + Σ = noise + Mᵀ(KM - shared) are merged into one. Wherever there is a `shared`, it is EM for a
symmetric E, which makes it noise + Mᵀ(K - E)M.
"""

import abc
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from decond.conditional.smoother import Smoother
from decond.linalg import Factor, add_to_diagonal, cholesky, multiply, solve_pullback, transposed_times

__all__ = ["FixedLinearization", "Linearization", "MediatedLinearization", "SamplingNoise"]

Gradient = dict[str, Any]


class Linearization(abc.ABC):
    """M and Σ of an observation, in the forms that conditioning asks for.

    >>> from decond.gp import Transformed
    >>> linear = Transformed([0.0, 1.0, 2.0], [[0.5], [0.5], [0.0]], noise=0.1).linearize()
    >>> linear.transformation.ravel(), linear.noise_covariance, linear.isotropic
    (array([0.5, 0.5, 0. ]), array([[0.01]]), True)
    """

    noise: Any
    shared: np.ndarray | None = None
    sampling: "SamplingNoise | None" = None
    """Noise that depends on the prior covariance of f: the part of Σ that `noise` does not have."""
    has_parameters = False
    """Whether M depends on parameters, so that its adjoint is worth computing."""
    identity = False
    """Whether M = I, so that no product with it is worth computing. The noise's adjoint is then a lower triangle with
    junk above."""

    @property
    @abc.abstractmethod
    def transformation(self) -> Any:
        """M (n, m), dense or sparse."""

    @property
    @abc.abstractmethod
    def rows(self) -> np.ndarray:
        """W (r, m), where M = Bᵀ W."""

    @abc.abstractmethod
    def bridge(self, values: np.ndarray) -> np.ndarray:
        """Return B @ values (r, k) for values (n, k)."""

    @abc.abstractmethod
    def bridge_transposed(self, values: np.ndarray) -> np.ndarray:
        """Return Bᵀ @ values (n, k) for values (r, k)."""

    @abc.abstractmethod
    def pullback(
        self, noise_bar: Any, rows_bar: Any = None, middle_bar: Any = None, *, points: bool = True
    ) -> Gradient:
        """Return the gradient of the observation's parameters, by path; that of a mediator's points if wanted.

        `noise_bar` is the adjoint of the noise matrix: a lower triangle, or its trace if the noise is isotropic.
        `rows_bar` is the adjoint of W at fixed K and E (the adjoint of M, taken through Bᵀ); it is overwritten.
        `middle_bar` is the lower triangle of the adjoint of K - E.
        """

    _parameter_pullback: Callable[..., Gradient]
    """From adjoints to the gradient of the observation's parameters."""

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: everything but the way back to parameters.

        Only learning takes it, from a linearization of its own. A posterior holds one for its numbers, and has to be
        pickled even if an observation gave a lambda.
        """
        return {**self.__dict__, "_parameter_pullback": _not_pickled}

    @property
    def size(self) -> int:
        """The number m of observed values."""
        return self.transformation.shape[1]

    @property
    def rank(self) -> int:
        """The number r of rows of W."""
        return self.transformation.shape[0]

    @property
    def isotropic(self) -> bool:
        """Whether Σ = σ²I, which the forms with small matrices need."""
        return np.ndim(self.noise) == 0 and self.shared is None and self.sampling is None

    @property
    def noise_covariance(self) -> np.ndarray:
        """Σ (m, m), in full."""
        covariance = np.zeros((self.size, self.size))
        self.add_noise(covariance)
        if self.shared is not None:
            covariance -= transposed_times(self.transformation, self.shared)
        return covariance

    def add_noise(self, matrix: np.ndarray) -> None:
        """Add `noise` to a matrix, in place."""
        if np.ndim(self.noise) == 2:
            matrix += self.noise
        else:
            add_to_diagonal(matrix, self.noise)

    @cached_property
    def noise_factor(self) -> Factor:
        """The Cholesky factor of Σ."""
        return cholesky(self.noise_covariance, "the noise covariance Σ")


class FixedLinearization(Linearization):
    """M does not depend on parameters; Σ does so through `noise_pullback`.

    >>> linear = FixedLinearization(np.array([[0.5], [0.5]]), noise=0.01, noise_pullback=lambda bar: {})
    >>> linear.size, linear.rank, linear.noise_covariance
    (1, 2, array([[0.01]]))
    """

    def __init__(
        self,
        transformation: Any,
        noise: Any,
        noise_pullback: Callable[[Any], Gradient],
        sampling: "SamplingNoise | None" = None,
        identity: bool = False,
    ) -> None:
        self._transformation = transformation
        self.identity = identity
        self.noise = noise
        self.sampling = sampling
        self._parameter_pullback = noise_pullback

    @property
    def transformation(self) -> Any:
        """M as given."""
        return self._transformation

    @property
    def rows(self) -> np.ndarray:
        """M itself: the bridge is the identity."""
        dense = self._transformation
        return dense.toarray() if hasattr(dense, "toarray") else dense

    def bridge(self, values: np.ndarray) -> np.ndarray:
        """Return the values."""
        return values

    def bridge_transposed(self, values: np.ndarray) -> np.ndarray:
        """Return the values."""
        return values

    def pullback(
        self, noise_bar: Any, rows_bar: Any = None, middle_bar: Any = None, *, points: bool = True
    ) -> Gradient:
        """Return the gradient of the noise parameters."""
        return self._parameter_pullback(noise_bar)


class SamplingNoise:
    """Noise of targets that were measured at a random sample of x, when M only tells their distribution.

    Column j of M holds the weights of the rows under the distribution of x that belongs to target j, so the prior
    expects f to vary within it by v_j = Σ_i M_ij k_ii - (MᵀKM)_jj. The noise is `shares` v, shares (m, m): the
    identity for targets measured at one latent input each, smaller for averages. Where weights of both signs make v_j
    negative it counts as zero.

    >>> noise = SamplingNoise(np.array([[0.5], [0.5]]), np.eye(1))
    >>> noise.variances(diagonal=np.ones(2), averaged=np.array([0.75]))  # of two rows whose f is half correlated
    array([0.25])
    """

    def __init__(self, transformation: Any, shares: Any) -> None:
        self.transformation, self.shares = transformation, sparse.csr_array(shares)

    @classmethod
    def of_groups(cls, averaging: Any, counts: np.ndarray, unlisted: np.ndarray) -> "SamplingNoise":
        """Return the noise of averages over groups of which `counts` rows were drawn.

        The variance of f in the group is estimated as v_j n_j / (n_j - 1), and the average of n_j rows has that
        divided by n_j, times the share of the rows of the group that is `unlisted` (the correction for a finite
        population). A group of a single row takes the mean variance of the others.
        """
        several = counts > 1.0 + 1e-9
        own = np.where(several, 1.0 / np.where(several, counts - 1.0, 1.0), 0.0)
        shares = sparse.csr_array(sparse.diags_array(own))
        if several.any() and not several.all():
            shares = shares + sparse.csr_array(np.outer(~several, counts * own / several.sum()))
        return cls(averaging, sparse.diags_array(unlisted) @ shares)

    def variances(self, diagonal: np.ndarray, averaged: np.ndarray) -> np.ndarray:
        """Return the variance of every target, from diag K and diag MᵀKM."""
        return self.shares @ np.maximum(self._within(diagonal, averaged), 0.0)

    def pullback(self, bar: np.ndarray, diagonal: np.ndarray, averaged: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the adjoints of diag K and of diag MᵀKM, given that of the variances."""
        within_bar = np.where(self._within(diagonal, averaged) > 0.0, self.shares.T @ bar, 0.0)
        return self.transformation @ within_bar, -within_bar

    def _within(self, diagonal: np.ndarray, averaged: np.ndarray) -> np.ndarray:
        return self.transformation.T @ diagonal - averaged


class MediatedLinearization(Linearization):
    """M = A = (L + τ²I)⁻¹ L̃ learned from pairs, and Σ of the paper's Theorem 5.3.

    >>> from decond.kernels import RBF
    >>> from decond.gp import TaskTransformed
    >>> linear = TaskTransformed([5.0, 7.0], [0.0, 1.0], [0.0], RBF(0.1), noise=0.01).linearize()
    >>> type(linear).__name__, linear.transformation.round(2).ravel()  # the task row has the y of the first pair
    ('MediatedLinearization', array([1., 0.]))
    """

    has_parameters = True

    def __init__(
        self,
        smoother: Smoother,
        y_task: np.ndarray,
        noise_variance: float,
        full: bool,
        parameter_pullback: Callable[..., Gradient],
    ) -> None:
        self.smoother, self._parameter_pullback = smoother, parameter_pullback
        self.noise = noise_variance
        if full:
            self._add_mediator_covariance(y_task)
        else:
            self._rows = smoother.rows(y_task)

    def _add_mediator_covariance(self, y_task: np.ndarray) -> None:
        """Set Σ = L̃̃ + σ²I - L̃ᵀA, or τ² WᵀW + σ²I in finite features."""
        smoother, noise_variance = self.smoother, self.noise
        if smoother.features is None:
            self.shared = smoother.kernel.gram(smoother.points, y_task)
            self._rows = smoother.factor.half_solve(self.shared)
            self.noise = smoother.kernel.gram(y_task, y_task)
        else:
            self._rows = smoother.rows(y_task)
            self.noise = smoother.ridge * multiply(self._rows.T, self._rows)
        add_to_diagonal(self.noise, noise_variance)

    @property
    def size(self) -> int:
        """The number m of task rows."""
        return self._rows.shape[1]

    @property
    def rank(self) -> int:
        """The number of pairs, or of features of y if these are fewer."""
        return self._rows.shape[0]

    @cached_property
    def transformation(self) -> np.ndarray:
        """A."""
        return self.smoother.bridge_transposed(self._rows)

    @property
    def rows(self) -> np.ndarray:
        """W = R⁻¹ L̃, with R Rᵀ = L + τ²I."""
        return self._rows

    def bridge(self, values: np.ndarray) -> np.ndarray:
        """Return R⁻¹ values."""
        return self.smoother.bridge(values)

    def bridge_transposed(self, values: np.ndarray) -> np.ndarray:
        """Return R⁻ᵀ values."""
        return self.smoother.bridge_transposed(values)

    def pullback(
        self, noise_bar: Any, rows_bar: Any = None, middle_bar: Any = None, *, points: bool = True
    ) -> Gradient:
        """Carry adjoints on to L̃, L, L̃̃ and the noises.

        With T = R⁻ᵀ W_bar (= (L + τ²I)⁻¹ A_bar): L̃_bar = T and L_bar = -T Aᵀ, less `middle_bar` where L̃ is shared
        (there E is L + τ²I).
        """
        cross_bar, gram_bar = solve_pullback(self.smoother.factor, self.transformation, rows_bar)
        if self.shared is not None:
            gram_bar -= middle_bar
        return self._parameter_pullback(noise_bar, cross_bar, gram_bar, points)


def _not_pickled(*adjoints: Any) -> Gradient:
    """Stand for a pullback that was left out of a pickle."""
    raise RuntimeError(
        "a linearization that was pickled or copied has no gradient; call `linearize` of its observation."
    )
