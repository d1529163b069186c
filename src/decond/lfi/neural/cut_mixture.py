"""A mixture of Gaussians where the prior is: cut to its support, and put right where the prior is no Gaussian."""

import numpy as np

from decond.lfi.neural.mixture import GaussianMixture, LogQuadratic
from decond.lfi.prior import Prior
from decond.lfi.sampling import TemperedCloud, temper

__all__ = ["CutMixture"]

PILOT = 10_000
"""Draws that tell how much of the mixture lies inside the support, and how large weights get."""

LEAST_KEPT = 1e-3
"""Share of the mixture's draws below which the sampler of `temper` takes their place."""

BLOCK = 50_000
"""Most draws of the mixture at once, for the sake of memory."""

PARTICLES = 2000


class CutMixture:
    """The density ∝ mixture(φ) · prior(φ) / assumed(φ) inside the prior's support, in working coordinates.

    `assumed` is what the mixture took for the prior; None if it took the prior itself: then the support is cut and,
    with `simulated`, the tails. mixture(φ) / prior(φ) is a likelihood, and beyond the range of the parameters that
    were simulated a mixture knows nothing of it. The tails of a Gaussian may be far heavier than the prior's there,
    so the likelihood is taken to be nowhere larger than it is inside that range.

    Args:
        mixture: The mixture.
        prior: The prior.
        assumed: What the mixture took for the prior, or None.
        simulated: Working coordinates (n, d) of the draws of the prior that taught the mixture; None to keep its
            tails.

    Attributes:
        kept: Share of the mixture's draws that are kept: near 1 if the mixture is inside and assumed what is true.

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
        self._mixture, self._prior, self._assumed = mixture, prior, assumed
        pilot = mixture.sample(PILOT, np.random.default_rng(0))
        self._log_limit = np.inf if simulated is None else self._largest_likelihood(simulated, pilot)
        log_weights = self._log_weight(pilot)
        self._largest = float(log_weights.max())
        share = np.exp(log_weights - self._largest).mean() if np.isfinite(self._largest) else 0.0
        self.kept = float(share)
        self._cloud = self._tempered() if share < LEAST_KEPT else None
        self._log_mass = self._largest + np.log(share) if self._cloud is None else self._cloud.log_evidence

    def log_density(self, phi: np.ndarray) -> np.ndarray:
        """Return the log density of φ at rows; -inf outside the support."""
        return self._log_product(phi) - self._log_mass

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws (n, d)."""
        if self._cloud is not None:
            return self._cloud.draw(n, rng)
        parts, missing = [], n
        while missing > 0:
            phi = self._mixture.sample(min(int(1.1 * missing / self.kept) + 10, BLOCK), rng)
            parts.append(phi[np.log(rng.random(len(phi))) < self._log_weight(phi) - self._largest][:missing])
            missing -= len(parts[-1])
        return np.concatenate(parts)

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
        start = prior.to_working(prior.sample(PARTICLES, rng))

        def log_ratio(phi: np.ndarray) -> np.ndarray:
            return self._log_product(phi) - prior.log_density_working(phi)

        [cloud] = temper(prior.log_density_working, log_ratio, start, rng)
        return cloud
