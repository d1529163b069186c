"""Mixtures of Gaussians in working coordinates: corrected for a proposal, and cut to the support of the prior."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from decond.lfi.prior import Prior
from decond.lfi.sampling import TemperedCloud, temper
from decond.linalg import cholesky, inverses
from decond.parameters import Kept

__all__ = ["CutMixture", "GaussianMixture", "LogQuadratic", "MixtureSettings", "fit_quadratic", "prior_quadratic"]


@dataclass(frozen=True)
class MixtureSettings:
    """Numbers of the correction and of the cut; rules of thumb unless noted."""

    least_information: float = 0.01
    """Precision, in units of the prior's, that a corrected component adds at least in every direction."""
    prior_draws: int = 2000
    """Draws from which the shape of the prior in working coordinates is found."""
    same: float = 1e-6
    """Largest difference of log densities up to which a prior is Gaussian, or flat: rounding."""
    pilot: int = 10_000
    """Draws from which the share of the mixture inside the support, and the largest weight, are estimated."""
    least_kept: float = 1e-3
    """Share of the mixture's draws below which tempered particles take their place."""
    chunk: int = 50_000
    """Most draws of the mixture at once, for the sake of memory."""
    particles: int = 2000
    """Particles that are tempered."""


@dataclass(frozen=True)
class LogQuadratic(Kept):
    """The function exp(-½ φᵀPφ + hᵀφ): a Gaussian without its constant, or flat where P and h are zero.

    >>> LogQuadratic.gaussian(np.array([2.0]), np.array([[0.5]]))
    LogQuadratic(precision=array([[2.]]), shift=array([4.]))
    """

    precision: np.ndarray
    shift: np.ndarray

    @classmethod
    def gaussian(cls, mean: np.ndarray, covariance: np.ndarray) -> Self:
        """Return a Gaussian.

        Parameters
        ----------
        mean : ndarray of shape (d,)
            Its mean.
        covariance : ndarray of shape (d, d)
            Its covariance.
        """
        precision = inverses(covariance)
        return cls(precision, precision @ mean)

    def log_value(self, phi: np.ndarray) -> np.ndarray:
        """Return the logarithm at rows."""
        return phi @ self.shift - 0.5 * np.einsum("ni,ij,nj->n", phi, self.precision, phi)


@dataclass(frozen=True)
class GaussianMixture(Kept):
    """A mixture of Gaussians with log weights (k,), means (k, d) and precisions (k, d, d).

    >>> one = GaussianMixture(np.zeros(1), np.zeros((1, 1)), np.ones((1, 1, 1)))
    >>> one.log_density(np.zeros((1, 1))).round(3)
    array([-0.919])
    >>> one.moments()
    (array([0.]), array([[1.]]))
    """

    log_weights: np.ndarray
    means: np.ndarray
    precisions: np.ndarray

    def log_density(self, phi: np.ndarray) -> np.ndarray:
        """Return the log density at rows (n, d)."""
        away = phi[:, None, :] - self.means
        squares = np.einsum("nki,kij,nkj->nk", away, self.precisions, away)
        heights = 0.5 * np.linalg.slogdet(self.precisions)[1] - 0.5 * phi.shape[1] * np.log(2.0 * np.pi)
        return np.asarray(logsumexp(self.log_weights + heights - 0.5 * squares, axis=1))

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws (n, d).

        Parameters
        ----------
        n : int
            How many.
        rng : numpy.random.Generator
            Source of randomness.
        """
        chosen = rng.choice(len(self.means), size=n, p=softmax(self.log_weights))
        draws = rng.standard_normal((n, self.means.shape[1]))
        for k, covariance in enumerate(inverses(self.precisions)):
            rows, root = chosen == k, cholesky(covariance, "the covariance of a component").lower
            draws[rows] = self.means[k] + draws[rows] @ root.T
        return draws

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean (d,) and the covariance (d, d)."""
        weights = softmax(self.log_weights)
        mean = weights @ self.means
        away = self.means - mean
        spread = inverses(self.precisions) + np.einsum("ki,kj->kij", away, away)
        return mean, np.einsum("k,kij->ij", weights, spread)

    def taken(self, chosen: np.ndarray) -> Self:
        """Return some of the components, chosen by True and False; their weights sum to one again."""
        log_weights = self.log_weights[chosen]
        return type(self)(log_weights - logsumexp(log_weights), self.means[chosen], self.precisions[chosen])

    def moved(self, center: np.ndarray, root: np.ndarray) -> Self:
        """Return the mixture of center + root φ.

        Parameters
        ----------
        center : ndarray of shape (d,)
            A point.
        root : ndarray of shape (d, d)
            A matrix.
        """
        inverse = inverses(root)
        precisions = np.einsum("ia,kij,jb->kab", inverse, self.precisions, inverse)
        return replace(self, means=center + self.means @ root.T, precisions=precisions)

    def corrected(
        self, prior: LogQuadratic, proposal: LogQuadratic, prior_root: np.ndarray
    ) -> tuple[Self, np.ndarray]:
        """Return prior/proposal times this mixture, and which of its components had to be repaired.

        A component N(m, P⁻¹) becomes one of precision P + P_prior - P_proposal, and its weight takes up the ratio of
        the constants. What a component adds to the prior, P - P_proposal, is what the data tell; a network may say
        less than nothing in some direction, and then there is no such Gaussian. In these directions, found in units
        of the prior (covariance `prior_root` `prior_root`ᵀ), the component adds a hundredth of the prior's precision,
        around its own mean.

        Parameters
        ----------
        prior : LogQuadratic
            The prior, or the Gaussian that stands for it.
        proposal : LogQuadratic
            What the simulations were drawn from.
        prior_root : ndarray of shape (d, d)
            Square root of the prior's covariance.

        Examples
        --------
        >>> one = GaussianMixture(np.zeros(1), np.ones((1, 1)), np.full((1, 1, 1), 3.0))
        >>> flat, proposal = LogQuadratic(np.zeros((1, 1)), np.zeros(1)), LogQuadratic(np.eye(1), np.zeros(1))
        >>> result, repaired = one.corrected(flat, proposal, np.eye(1))
        >>> result.means, result.precisions, repaired
        (array([[1.5]]), array([[[2.]]]), array([False]))
        """
        own_shift = np.einsum("kij,kj->ki", self.precisions, self.means)
        gain, gain_shift, bad = _repaired(
            self.precisions - proposal.precision, own_shift - proposal.shift, self.means, prior_root
        )
        precisions, shifts = gain + prior.precision, gain_shift + prior.shift
        means = np.linalg.solve(precisions, shifts[:, :, None])[:, :, 0]
        log_ratio = 0.5 * (np.linalg.slogdet(self.precisions)[1] - np.linalg.slogdet(precisions)[1])
        log_ratio += 0.5 * ((means * shifts).sum(axis=1) - (self.means * own_shift).sum(axis=1))
        log_weights = self.log_weights + log_ratio
        return type(self)(log_weights - logsumexp(log_weights), means, precisions), bad


def _repaired(
    gain: np.ndarray, shift: np.ndarray, means: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return precisions and shifts with at least the least information in every direction, and where it was less."""
    least = MixtureSettings().least_information
    values, vectors = np.linalg.eigh(root.T @ gain @ root)
    low = values < least
    bad = np.asarray(low.any(axis=1))
    if not bad.any():
        return gain, shift, bad
    axes = np.einsum("kia,ib->kab", vectors, inverses(root))  # rows: directions, as functions of φ
    centers = np.einsum("kab,kb->ka", axes, means)
    sides = np.einsum("kia,ki->ka", vectors, shift @ root)  # shifts go with rootᵀ, points with its inverse
    values = np.where(low, least, values)
    sides = np.where(low, least * centers, sides)
    repaired = np.einsum("kai,ka,kaj->kij", axes, values, axes)
    return repaired, np.einsum("kai,ka->ki", axes, sides), bad


def prior_quadratic(prior: Prior) -> tuple[LogQuadratic, np.ndarray, bool]:
    """Return a prior in working coordinates as a quadratic, the root of its covariance, and whether this is exact.

    It is exact where the log density is a quadratic inside the support: Gaussian or flat in working coordinates. For
    any other prior it is the Gaussian with the same mean and covariance.

    >>> from scipy import stats
    >>> prior_quadratic(Prior({"share": stats.uniform(0, 1)}))[2]
    True
    >>> prior_quadratic(Prior({"rate": stats.gamma(2)}))[2]
    False
    """
    settings = MixtureSettings()
    phi = prior.to_working(prior.sample(settings.prior_draws, np.random.default_rng(0)))
    mean, covariance = phi.mean(axis=0), np.atleast_2d(np.cov(phi, rowvar=False))
    root = cholesky(covariance, "the prior's covariance").lower
    slope, curvature, difference = fit_quadratic(phi, prior.log_density_working(phi))
    if difference < settings.same:
        tidy = [np.where(np.abs(part) < settings.same, 0.0, part) for part in (-curvature, slope)]  # flat is flat
        return LogQuadratic(*tidy), root, True
    return LogQuadratic.gaussian(mean, covariance), root, False


def fit_quadratic(
    z: NDArray[np.float64], values: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return the quadratic c + gᵀz + ½ zᵀHz that fits values at rows best.

    Parameters
    ----------
    z : ndarray of shape (n, d)
        Points.
    values : ndarray of shape (n,)
        Values there.
    weights : ndarray of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    tuple
        The slope g (d,), the curvature H (d, d), and the largest difference from a value.
    """
    d = z.shape[1]
    first, second = np.triu_indices(d)
    columns = np.column_stack([np.ones(len(z)), z, z[:, first] * z[:, second]])
    roots = np.ones(len(z)) if weights is None else np.sqrt(weights)
    found = np.linalg.lstsq(roots[:, None] * columns, roots * values, rcond=None)[0]
    half = np.zeros((d, d))
    half[first, second] = found[1 + d :]
    return found[1 : 1 + d], half + half.T, float(np.abs(columns @ found - values).max())


class CutMixture(Kept):
    """The density ∝ mixture(φ) · prior(φ) / assumed(φ) inside the prior's support, in working coordinates.

    `assumed` is what the mixture took for the prior; None if it took the prior itself: then the support is cut and,
    with `simulated`, the tails. mixture(φ) / prior(φ) is a likelihood, and beyond the range of the parameters that
    were simulated a mixture knows nothing of it. The tails of a Gaussian may be far heavier than the prior's there,
    so the likelihood is taken to be nowhere larger than it is inside that range.

    Parameters
    ----------
    mixture : GaussianMixture
        The mixture.
    prior : Prior
        The prior.
    assumed : LogQuadratic, optional
        What the mixture took for the prior, or None.
    simulated : ndarray of shape (n, d), optional
        Working coordinates of the draws of the prior that taught the mixture; None to keep its tails.

    Attributes
    ----------
    kept
        Share of the mixture's draws that are kept: near 1 if the mixture is inside and assumed what is true.
    rarely_inside
        Whether so few are kept that tempered particles take their place.

    Examples
    --------
    >>> from scipy import stats
    >>> prior = Prior({"share": stats.uniform(0, 1)})
    >>> wide = GaussianMixture(np.zeros(1), np.zeros((1, 1)), np.full((1, 1, 1), 0.01))
    >>> cut = CutMixture(wide, prior)
    >>> draws = prior.from_working(cut.sample(1000, np.random.default_rng(0)))
    >>> bool(prior.contains(draws).all()), bool(abs(draws.mean() - 0.5) < 0.05)
    (True, True)
    """

    def __init__(
        self,
        mixture: GaussianMixture,
        prior: Prior,
        assumed: LogQuadratic | None = None,
        simulated: np.ndarray | None = None,
    ) -> None:
        self._mixture, self._prior, self._assumed, self._simulated = mixture, prior, assumed, simulated
        self._settings = MixtureSettings()
        pilot = mixture.sample(self._settings.pilot, np.random.default_rng(0))
        self._log_limit = np.inf if simulated is None else self._largest_likelihood(simulated, pilot)
        log_weights = self._log_weight(pilot)
        self._largest = float(log_weights.max())
        share = np.exp(log_weights - self._largest).mean() if np.isfinite(self._largest) else 0.0
        self.kept = float(share)
        self.rarely_inside = share < self._settings.least_kept
        self._cloud = self._tempered() if self.rarely_inside else None
        self._log_mass = self._largest + np.log(share) if self._cloud is None else self._cloud.log_evidence

    def _fields(self) -> dict[str, Any]:
        return {
            "mixture": self._mixture,
            "prior": self._prior,
            "assumed": self._assumed,
            "simulated": self._simulated,
        }

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        """Return the log density over that of the prior, at rows of parameters; -inf outside the support."""
        phi = self._prior.to_working(self._prior.rows(theta))
        log_prior = self._prior.log_density_working(phi)
        inside = np.isfinite(log_prior)
        return np.where(inside, self.log_density(phi) - np.where(inside, log_prior, 0.0), -np.inf)

    def log_density(self, phi: np.ndarray) -> np.ndarray:
        """Return the log density of φ at rows; -inf outside the support."""
        return self._log_product(phi) - self._log_mass

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws (n, d).

        Parameters
        ----------
        n : int
            How many.
        rng : numpy.random.Generator
            Source of randomness.
        """
        if self._cloud is not None:
            return self._cloud.draw(n, rng)
        chunks, missing = [], n
        while missing > 0:
            phi = self._mixture.sample(min(int(1.1 * missing / self.kept) + 10, self._settings.chunk), rng)
            accepted = np.log(rng.random(len(phi))) < self._log_weight(phi) - self._largest
            chunks.append(phi[accepted][:missing])
            missing -= len(chunks[-1])
        return np.concatenate(chunks)

    def _log_product(self, phi: np.ndarray) -> np.ndarray:
        return self._mixture.log_density(phi) + self._log_weight(phi)

    def _log_weight(self, phi: np.ndarray) -> np.ndarray:
        """Return log prior/assumed, without constants; at most zero if the prior itself was assumed."""
        log_prior = self._prior.log_density_working(phi)
        inside = np.isfinite(log_prior)
        if self._assumed is not None:
            return np.where(inside, log_prior - self._assumed.log_value(phi), -np.inf)
        if np.isinf(self._log_limit):
            return np.where(inside, 0.0, -np.inf)
        return np.minimum(0.0, self._log_limit + log_prior - self._mixture.log_density(phi))

    def _largest_likelihood(self, simulated: np.ndarray, pilot: np.ndarray) -> float:
        """Return log mixture/prior where it is largest, in the range of the simulated parameters."""
        low, high = simulated.min(axis=0), simulated.max(axis=0)
        within = pilot[((pilot >= low) & (pilot <= high)).all(axis=1)]
        phi = np.concatenate([simulated, within])
        log_prior = self._prior.log_density_working(phi)
        inside = np.isfinite(log_prior)
        return float((self._mixture.log_density(phi[inside]) - log_prior[inside]).max())

    def _tempered(self) -> TemperedCloud:
        prior, rng = self._prior, np.random.default_rng(0)
        start = prior.to_working(prior.sample(self._settings.particles, rng))

        def log_ratio(phi: np.ndarray) -> np.ndarray:
            return self._log_product(phi) - prior.log_density_working(phi)

        [cloud] = temper(prior.log_density_working, log_ratio, start, rng)
        return cloud
