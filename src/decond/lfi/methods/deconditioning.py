"""The deconditional posterior as a density: prior times a function, from weighted draws of the prior.

With simulations (θ_i, x_i), a(θ) = (L + nλI)⁻¹ ℓ(θ) and draws θ̃_j of the prior with weights v_j that sum to one (1/m
for plain draws, in proportion to p/q for draws of a proposal q), the second-order embedding of the prior is Σ_j v_j
ℓ(θ̃_j, ·) ⊗ ℓ(θ̃_j, ·) instead of its plain average, and the deconditional embedding (Definition 4.3) becomes

    Σ_j v_j g(θ̃_j) ℓ(θ̃_j, ·),   g(θ) = a(θ)ᵀ [K S + δI]⁻¹ k(y),   S = Σ_j v_j a(θ̃_j) a(θ̃_j)ᵀ,

which is Aᵀ[KAAᵀ + mδI]⁻¹ k(y) for v_j = 1/m. The draws enter g only through S, an average over the prior, so the
posterior is the density p(θ) g(θ), whatever the draws: they can be refreshed where it is large. As δ grows, g goes
to E[k(X, y) | θ] / δ, the surrogate likelihood of KELFI; as it falls, the blur of the kernel k is undone.

Everything is done in r features of θ. With ψ(θ) of r rows and ΨΨᵀ = Q diag(w) Qᵀ over the simulations, the functions
a(θ)ᵀ span those of ψ; f(θ) = Bᵀψ(θ) is a basis that is orthonormal under the prior draws, and

    g(θ) = f(θ)ᵀ (K̃ + δI)⁻¹ k̃(y),   K̃ = RᵀKR,  k̃ = Rᵀk(y),   a(θ) = R f(θ),

so that one eigendecomposition of K̃ serves every δ and every observation. With Ψ (r, n) the features at the
simulations, R = ΨᵀT with T of r rows, so K̃ = Tᵀ(ΨKΨᵀ)T: the only product that grows as n² serves every λ and every
set of prior draws.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from decond.kernels import Kernel
from decond.linalg import multiply

__all__ = ["DataFeatures", "Deconditioner", "PriorBasis", "ThetaFeatures", "ripple"]

Array = NDArray[np.float64]


class ThetaFeatures:
    """Features of θ for one kernel ℓ; exact if all simulations are landmarks.

    Parameters
    ----------
    kernel : Kernel
        The kernel ℓ.
    phi : ndarray of shape (n, d)
        Working coordinates of the simulations.
    n_landmarks : int
        The most simulations that features are made from.
    rng : numpy.random.Generator
        Chooses them.
    """

    def __init__(self, kernel: Kernel, phi: Array, n_landmarks: int, rng: np.random.Generator) -> None:
        chosen = np.arange(len(phi))
        if len(phi) > n_landmarks:
            chosen = np.sort(rng.choice(len(phi), n_landmarks, replace=False))
        self.kernel, self.landmarks = kernel, phi[chosen]
        values, vectors = _positive_eigh(kernel.gram(self.landmarks, self.landmarks))
        self._projection = vectors / np.sqrt(values)
        at_simulations = self.at(phi)
        self.spectrum, rotation = _positive_eigh(multiply(at_simulations, at_simulations.T))
        self._projection = multiply(self._projection, rotation)
        self.at_simulations = multiply(rotation.T, at_simulations)

    def at(self, phi: Array) -> Array:
        """Return the features (r, q) at rows of working coordinates."""
        return multiply(self._projection.T, self.kernel.gram(self.landmarks, phi))


class PriorBasis:
    """A basis of the features' span that is orthonormal under weighted draws of the prior.

    Parameters
    ----------
    features : ThetaFeatures
        The features of θ.
    draws : ndarray of shape (m, d)
        Working coordinates of the draws.
    weights : ndarray of shape (m,)
        Their weights, which sum to one.
    """

    def __init__(self, features: ThetaFeatures, draws: Array, weights: Array) -> None:
        self.features, self.draws, self.weights = features, draws, weights
        at_draws = features.at(draws)
        values, vectors = _positive_eigh(multiply(at_draws * weights, at_draws.T))
        self.whitening = vectors / np.sqrt(values)  # B
        self.unwhitening = vectors * np.sqrt(values)  # ψ = unwhitening f on the span
        self.at_draws = multiply(self.whitening.T, at_draws)

    def at(self, phi: Array) -> Array:
        """Return f (r, q) at rows of working coordinates."""
        return multiply(self.whitening.T, self.features.at(phi))


class DataFeatures:
    """The kernel k between the simulated data, seen through the features of their parameters: ΨKΨᵀ and Ψk(y).

    Parameters
    ----------
    features : ThetaFeatures
        The features of θ.
    kernel_x : Kernel
        The kernel k.
    x : ndarray of shape (n, s)
        The simulated data.
    """

    def __init__(self, features: ThetaFeatures, kernel_x: Kernel, x: Array) -> None:
        self._weights, self._kernel, self._x = features.at_simulations, kernel_x, x
        self.gram = multiply(self._weights, multiply(kernel_x.gram(x, x), self._weights.T))

    def at(self, observed: Array) -> Array:
        """Return Ψk(y) (r, q) for rows of observations."""
        return multiply(self._weights, self._kernel.gram(self._x, observed))


class Deconditioner:
    """The function g of the module's docstring, for one pair of kernels and one λ; any δ and any observation.

    Parameters
    ----------
    basis : PriorBasis
        The basis of functions of θ.
    data : DataFeatures
        The kernel of the data.
    regularization : float
        λ.
    """

    def __init__(self, basis: PriorBasis, data: DataFeatures, regularization: float) -> None:
        self.basis, self.data = basis, data
        features = basis.features
        ridge = features.spectrum + features.at_simulations.shape[1] * regularization
        self._bridge = basis.unwhitening / ridge[:, None]  # T
        values, self._vectors = eigh(multiply(self._bridge.T, multiply(data.gram, self._bridge)), check_finite=False)
        self.spectrum = np.maximum(values, 0.0)

    def coefficients(self, observed: Array, delta: float) -> Array:
        """Return (K̃ + δI)⁻¹ k̃ (r, q).

        Parameters
        ----------
        observed : ndarray of shape (q, s)
            Observations.
        delta : float
            δ.
        """
        projected = self.projected(self.data.at(observed))
        return multiply(self._vectors, projected / (self.spectrum + delta)[:, None])

    def projected(self, at_observed: Array) -> Array:
        """Return k̃ (r, q) along the eigenvectors of K̃, from Ψk(y)."""
        return multiply(self._vectors.T, multiply(self._bridge.T, at_observed))

    def along(self, at: Array) -> Array:
        """Return values of f (r, q) along the eigenvectors of K̃."""
        return multiply(self._vectors.T, at)

    def ratio(self, phi: Array, coefficients: Array) -> Array:
        """Return g, one column for each observation.

        Parameters
        ----------
        phi : ndarray of shape (q, d)
            Working coordinates.
        coefficients : ndarray of shape (r, observations)
            Those of the observations,.
        """
        return multiply(self.basis.at(phi).T, coefficients)


def ripple(ratio: Array, weights: Array, height: float = 2.0) -> Array:
    """Return the height of ripples in values of g at weighted prior draws, one for each column.

    A density ratio has no negative values. Those that g has are ripples of the estimate, and tell how high its
    positive ripples are.

    Parameters
    ----------
    ratio : ndarray of shape (m, q)
        Values of g.
    weights : ndarray of shape (m,)
        Weights of the draws.
    height : float, optional
        Ripples as a multiple of the root mean square of the negative values: two standard deviations.

    Examples
    --------
    >>> ripple(np.array([[-1.0], [1.0], [9.0], [1.0]]), np.full(4, 0.25))
    array([1.])
    """
    size: Array = height * np.sqrt(weights @ np.minimum(ratio, 0.0) ** 2)
    return size


def _positive_eigh(matrix: Array) -> tuple[Array, Array]:
    """Return the eigenvalues that are more than rounding, and their vectors."""
    values, vectors = eigh(matrix, check_finite=False)
    kept = values > 1e-10 * max(float(values[-1]), 1e-300)
    return values[kept], vectors[:, kept]
