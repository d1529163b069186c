"""The likelihood where data have no density: the probability that a simulation equals the observation."""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from decond.conditional import ResidualSettings
from decond.lfi.exceptions import PosteriorWarning
from decond.lfi.methods.residual_likelihood import ShiftedLikelihood
from decond.lfi.validity import EventProbability

__all__ = ["AtomLikelihood", "atom_at"]

LEAST, SHARE, ENOUGH = 20, 0.02, 100
"""Simulations that have to equal the observation: at least 20 and 2 %, or 100."""

SURE = np.log1p(-1e-3)
"""Largest log probability that a density is taken for."""


class AtomLikelihood:
    """P(x = y | θ), a probability: simulations either equal the observation or do not.

    Attributes:
        effective: Simulations that equal the observation.
        at_edge: Whether the observation is the smallest or largest simulated value of a column.
        notes: What the user should know; nothing.
    """

    of_data = True

    def __init__(self, phi: np.ndarray, equal: np.ndarray, at_edge: bool) -> None:
        self.effective, self.at_edge = float(equal.sum()), at_edge
        self.notes: list[PosteriorWarning] = []
        self._phi, self._equal = phi, equal
        self._event = EventProbability(phi, equal)

    def log_density(self, phi: np.ndarray) -> np.ndarray:
        """Return log P(x = observed | θ) at working coordinates (q, d)."""
        return self._event.log_probability(phi)

    def tells_more_than(self, density: ShiftedLikelihood) -> bool:
        """Return whether it predicts which simulations equal the observation better than a density does.

        The density becomes a probability by the best constant factor, which is the distance between values.
        """
        log_density = density.log_density(self._phi)
        start = np.log(self._equal.mean()) + np.log(len(self._phi)) - logsumexp(log_density)

        def lost(log_factor: float) -> float:
            log_probability = np.minimum(log_density + log_factor, SURE)
            log_other = np.log1p(-np.exp(log_probability))
            return -float(np.mean(np.where(self._equal, log_probability, log_other)))

        found = minimize_scalar(lost, bounds=(start - 5.0, start + 5.0), method="bounded")
        return len(self._phi) * (self._event.score + found.fun) > ResidualSettings.gain


def atom_at(phi: np.ndarray, x: np.ndarray, observed: np.ndarray) -> AtomLikelihood | None:
    """Return the likelihood of an observation (1, s) that many simulations equal in all columns, else None."""
    varying = np.ptp(x, axis=0) > 0.0
    x, observed = x[:, varying], observed[:, varying]
    equal = np.all(x == observed, axis=1)
    if not varying.any() or equal.sum() < min(max(LEAST, SHARE * len(x)), ENOUGH):
        return None
    at_edge = (observed <= x.min(axis=0)) | (observed >= x.max(axis=0))
    return AtomLikelihood(phi, equal, bool(at_edge.any()))
