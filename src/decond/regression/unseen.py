"""Targets that were each measured at one x that nobody saw: z_j = f(x̃_j) + noise, with x̃_j one of the rows of x.

The mean of such a target is the paper's E[f(X) | y_j], and the paper's model knows nothing but the mean. The whole
distribution tells more of f: p(z_j | y_j) = Σ_i w_ij N(z_j; f(x_i), σ²), w_ij how probable x_i is given y_j. It is
not Gaussian in f. Given *shares* r_ij, how probable it is that target j was measured at row i, it is: f was seen at
row i as often as R_i = Σ_j r_ij, with the mean z̄_i = Σ_j r_ij z_j / R_i. Shares and f are found in turn, which raises
a lower bound of the evidence (variational inference with q(f) q(shares)); docs/adr/0012 has the reasons.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.special import rel_entr

from decond.checks import as_rows, check_same_length, frozen
from decond.errors import ArgumentError
from decond.linalg import Factor, add_to_diagonal, cholesky, multiply
from decond.parameters import parameter, positive
from decond.regression.linearization import FixedLinearization, Linearization
from decond.regression.observations import Observation
from decond.regression.posterior import FunctionPosterior
from decond.regression.priors import Prior, prior_mean

__all__ = ["Sighting", "UnseenInput", "UnseenInputPosterior", "shares_given", "sighting"]

LEAST_INFORMATION = 1e-3
"""Targets say at least so much of f in every direction, in units of what the prior says: uncertain shares can make it
less than nothing. (The least that the prior says is one over the trace of K, or more.)"""

LEAST_LEFT = 0.05
"""What is left of f's own uncertainty without a target, at least: shares that are uncertain can make it negative."""


class UnseenInput(Observation):
    """z_j = f(x̃_j) + noise, x̃_j a row of x: with probability `weights` beforehand, and `shares` given all targets.

    Both are (n, m), and their columns sum to one. `noise` is σ.

    >>> seen = UnseenInput([0.0, 1.0], weights=[[0.5], [0.5]], shares=[[0.9], [0.1]], noise=0.1)
    >>> seen.linearize().transformation.ravel()  # what its mean is a mean of
    array([0.5, 0.5])
    """

    weights: Any
    shares: Any
    noise: Any = parameter(default=0.1, constraint=positive)

    def __post_init__(self) -> None:
        """Check that columns are probabilities."""
        super().__post_init__()
        for name in ("weights", "shares"):
            columns = as_rows(getattr(self, name), name)
            check_same_length(columns, name, len(self.x), "x")
            if np.any(columns < 0.0) or not np.allclose(columns.sum(axis=0), 1.0, atol=1e-6):
                raise ArgumentError(
                    name,
                    f"{name} has columns that are no probabilities; give one column for each target, with values "
                    "from 0 to 1 that sum to one.",
                )
            object.__setattr__(self, name, frozen(columns))
        if self.weights.shape != self.shares.shape:
            raise ArgumentError(
                "weights",
                f"weights has shape {self.weights.shape} but shares has {self.shares.shape}; both need a row for "
                "each row of x and a column for each target.",
            )

    @property
    def size(self) -> int:
        """One value for each column."""
        return self.weights.shape[1]

    @property
    def partner(self) -> str:
        """Targets are paired with the columns of the weights."""
        return "the columns of weights"

    def linearize(self, *, use_features: bool = True) -> Linearization:
        """Return the view of the means, z ≈ Wᵀ f(x) + noise; `condition` uses the whole distribution instead."""
        return FixedLinearization(self.weights, self.noise**2, lambda bar: {"noise": 2.0 * self.noise * float(bar)})


class Sighting(NamedTuple):
    """q(f) at the rows of x, given shares: its mean and variance (n,), and the bound of the log evidence."""

    mean: np.ndarray
    variance: np.ndarray
    bound: float


def shares_given(
    log_weights: np.ndarray, z: np.ndarray, mean: np.ndarray, variance: np.ndarray, noise: float
) -> np.ndarray:
    """Return r_ij ∝ w_ij exp(-((z_j - mean_i)² + variance_i) / 2σ²), (n, m).

    >>> beforehand = np.log([[0.5], [0.5]])
    >>> shares_given(beforehand, np.array([1.0]), np.array([0.0, 1.0]), np.zeros(2), noise=0.5).round(2).ravel()
    array([0.12, 0.88])
    """
    logs = log_weights - ((z - mean[:, None]) ** 2 + variance[:, None]) / (2.0 * noise**2)
    logs -= logs.max(axis=0)
    shares = np.exp(logs, out=logs)
    shares /= shares.sum(axis=0)
    return shares


def sighting(gram: np.ndarray, weights: np.ndarray, shares: np.ndarray, z: np.ndarray, noise: float) -> Sighting:
    """Return q(f) of a prior with this Gram matrix, and the bound.

    With c = √R z̄/σ and B = I + √R K √R/σ² the bound is -½ log|B| - ½ cᵀB⁻¹c - ½ m log 2πσ² - (scatter of z about
    z̄)/2σ² + Σ r (log w - log r).

    >>> found = sighting(np.eye(1), np.ones((1, 2)), np.ones((1, 2)), np.array([1.0, 1.0]), noise=1.0)
    >>> found.mean.round(3), found.variance.round(3)  # two measurements of one value
    (array([0.667]), array([0.333]))
    """
    root, factor, seen = _information(gram, shares, z, noise)
    half = factor.half_solve(root[:, None] * gram)
    white = factor.half_solve(seen[:, None])[:, 0]
    scatter = float((shares @ z**2).sum() / noise**2 - (seen**2).sum())
    bound = -0.5 * (factor.log_determinant + white @ white + len(z) * np.log(2.0 * np.pi * noise**2) + scatter)
    bound -= rel_entr(shares, weights).sum()
    return Sighting(half.T @ white, np.diagonal(gram) - (half**2).sum(axis=0), float(bound))


class UnseenInputPosterior(FunctionPosterior):
    """The Gaussian that stands for the posterior of f: q(f)'s mean, and a covariance that counts uncertain shares.

    What targets say of f at the rows, given the shares, is a precision R/σ². They are not given: what is missing is
    the covariance of their scores under the shares (Louis 1982), which leaves the precision
    J = diag Σ_j r_ij (1 - d_ij²/σ²)/σ² + GGᵀ, d_ij = z_j - f(x_i), G = r∘d/σ².

    >>> from decond.kernels import RBF
    >>> from decond.regression import FunctionPrior, condition
    >>> where = {"weights": [[0.5, 0.5], [0.5, 0.5]], "shares": [[1.0, 0.0], [0.0, 1.0]]}
    >>> posterior = condition(FunctionPrior(RBF()), UnseenInput([0.0, 9.0], **where, noise=0.1), [1.0, -1.0])
    >>> posterior.mean([[0.0], [9.0]]).round(2)
    array([ 0.99, -0.99])
    """

    def __init__(self, prior: Prior, points: np.ndarray, observation: UnseenInput, z: np.ndarray) -> None:
        if z[0].size > 1:
            raise ArgumentError("z", "targets at unseen x are one column; fit each target column by itself.")
        self._observation = observation
        self._offset = float(prior_mean(prior, 1)[0])
        self._measured = z.ravel() - self._offset
        gram = prior.covariance.gram(points, points)
        weights, shares = observation.weights, observation.shares
        self._sighting = sighting(gram, weights, shares, self._measured, observation.noise)
        values, axes, score = self._information_left(gram)
        transformation = axes * np.sqrt(values)
        pull = score + multiply(transformation, multiply(transformation.T, self._sighting.mean[:, None]))[:, 0]
        targets = (axes.T @ pull) / np.sqrt(values) + self._offset * transformation.sum(axis=0)
        linear = FixedLinearization(transformation, 1.0, lambda bar: {})
        evidence = multiply(transformation.T, multiply(gram, transformation))
        add_to_diagonal(evidence, 1.0)
        super().__init__(prior, points, linear, targets.reshape(-1, *z.shape[1:]), cholesky(evidence, "MᵀKM + I"))

    def _information_left(self, gram: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return eigenvalues and eigenvectors of J, and the score Σ_j r_ij d_ij / σ² at the rows."""
        shares, noise = self._observation.shares, self._observation.noise**2
        distance = self._measured - self._sighting.mean[:, None]
        scores = shares * distance / noise
        information = multiply(scores, scores.T)
        add_to_diagonal(information, (shares.sum(axis=1) - (scores * distance).sum(axis=1)) / noise)
        values, axes = eigh(information, driver="evd")
        least = LEAST_INFORMATION / float(np.trace(gram))
        return np.maximum(values, least), axes, scores.sum(axis=1)

    @property
    def log_evidence(self) -> float:
        """The lower bound of log p(z)."""
        return self._sighting.bound

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of each target, predicted from the others at the shares found, noise included.

        Without target j the mean of f changes by -V(r_j∘d_j)/σ²(1 - h_j) and its covariance grows by
        Vr_jr_jᵀV/σ²(1 - h_j), V the covariance of f at the rows and h_j = r_jᵀVr_j/σ². That is exact where places are
        known, and of first order elsewhere.
        """
        shares, noise = self._observation.shares, self._observation.noise**2
        covariance = self.covariance(self.points)
        spread = multiply(covariance, shares)
        left = np.maximum(1.0 - (shares * spread).sum(axis=0) / noise, LEAST_LEFT) * noise
        pulls = multiply(covariance, shares * (self._measured - self._sighting.mean[:, None]))
        values = self._sighting.mean[:, None] - pulls / left
        variances = np.diagonal(covariance)[:, None] + spread**2 / left
        weights = self._observation.weights
        mean = (weights * values).sum(axis=0)
        variance = (weights * (values**2 + variances)).sum(axis=0) - mean**2 + noise
        mean = mean + self._offset
        return (mean if self._flat else mean[:, None]), variance


def _information(
    gram: np.ndarray, shares: np.ndarray, z: np.ndarray, noise: float
) -> tuple[np.ndarray, Factor, np.ndarray]:
    """Return √R/σ, the factor of B = I + √R K √R/σ², and √R z̄/σ."""
    counts = shares.sum(axis=1)
    root = np.sqrt(counts) / noise
    inner = root[:, None] * gram * root
    add_to_diagonal(inner, 1.0)
    means = (shares @ z) / np.maximum(counts, np.finfo(float).tiny)
    return root, cholesky(inner, "I + √R K √R/σ²"), root * means
