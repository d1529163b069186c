"""A mixture of Gaussians where the prior is: cut to its support, and put right where the prior is no Gaussian."""

import numpy as np

from decond.lfi.neural.mixture import GaussianMixture, LogQuadratic
from decond.lfi.prior import Prior
from decond.lfi.samplers import temper

__all__ = ["CutMixture"]

PILOT = 10_000
"""Draws that tell how much of the mixture lies inside the support, and how large weights get."""

LEAST_KEPT = 1e-3
"""Share of the mixture's draws below which the sampler of `temper` takes their place."""

PARTICLES = 2000


class CutMixture:
    """The density ∝ mixture(φ) · prior(φ) / assumed(φ) inside the prior's support, in working coordinates.

    `assumed` is what the mixture took for the prior; None if it took the prior itself: then only the support is cut.

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

    def __init__(self, mixture: GaussianMixture, prior: Prior, assumed: LogQuadratic | None = None) -> None:
        self._mixture, self._prior, self._assumed = mixture, prior, assumed
        log_weights = self._log_weight(mixture.sample(PILOT, np.random.default_rng(0)))
        self._largest = float(log_weights.max())
        share = np.exp(log_weights - self._largest).mean() if np.isfinite(self._largest) else 0.0
        self.kept = float(share)
        self._log_mass = self._largest + np.log(share) if share else 0.0

    def log_density(self, phi: np.ndarray) -> np.ndarray:
        """Return the log density of φ at rows; -inf outside the support."""
        return self._mixture.log_density(phi) + self._log_weight(phi) - self._log_mass

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws (n, d)."""
        if self.kept < LEAST_KEPT:
            return self._tempered(n, rng)
        parts, missing = [], n
        while missing > 0:
            phi = self._mixture.sample(int(1.1 * missing / self.kept) + 10, rng)
            parts.append(phi[np.log(rng.random(len(phi))) < self._log_weight(phi) - self._largest][:missing])
            missing -= len(parts[-1])
        return np.concatenate(parts)

    def _log_weight(self, phi: np.ndarray) -> np.ndarray:
        """Return log prior/assumed, without constants; zero inside if the prior itself was assumed."""
        log_prior = self._prior.log_density_working(phi)
        inside = np.isfinite(log_prior)
        if self._assumed is None:
            return np.where(inside, 0.0, -np.inf)
        return np.where(inside, log_prior - self._assumed.log_value(phi), -np.inf)

    def _tempered(self, n: int, rng: np.random.Generator) -> np.ndarray:
        prior = self._prior
        start = prior.to_working(prior.sample(PARTICLES, rng))

        def log_ratio(phi: np.ndarray) -> np.ndarray:
            return self.log_density(phi) - prior.log_density_working(phi)

        [cloud] = temper(prior.log_density_working, log_ratio, start, rng)
        return cloud.draw(n, rng)
