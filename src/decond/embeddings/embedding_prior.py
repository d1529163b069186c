"""The Gaussian-process prior on an embedding: its covariance r(a, b) = ∫ k(a, u) k(u, b) ν(du) for the RBF kernel.

Functions g with this covariance have E‖g‖² = ∫ k(u, u) ν(du) in the space of k, where embeddings live: if ν is finite
they lie in it (Flaxman, Sejdinovic, Cunningham & Filippi 2016). Those with covariance k do not, and neither do those
of a flat ν, for which the integral is infinite; but their posterior mean does, as a finite sum of r(x, ·).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from decond.parameters import Parametrized, parameter, positive

__all__ = ["EmbeddingPrior"]


class EmbeddingPrior(Parametrized):
    """Covariance r of an embedding under RBF(lengthscale), a product over columns.

    Without `spread`, ν is flat and r is scaled to one at equal points: a Gaussian of √2 lengthscales. With `spread`,
    ν is normal with these standard deviations about `center`, so that an embedding is near zero far from there, and r
    is scaled to one at the center: a large spread is a flat ν.

    >>> EmbeddingPrior(1.0).covariance(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.3679]])
    """

    lengthscale: Any = parameter(default=1.0, constraint=positive, per_column=True)
    spread: Any = parameter(default=None, constraint=positive, per_column=True)
    center: Any = 0.0

    def covariance(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return r(a, b), (len(a), len(b)).

        Parameters
        ----------
        a : ndarray of shape (n, d)
            Rows.
        b : ndarray of shape (m, d)
            Other rows.

        Returns
        -------
        ndarray of shape (n, m)
        """
        exponent = np.zeros((len(a), len(b)))
        for j, scale, spread, center in self._columns(a.shape[1]):
            left, right = a[:, j, None] - center, b[None, :, j] - center
            exponent += _log_covariance(left, right, scale, spread)
        return np.exp(exponent)

    def diagonal(self, a: np.ndarray) -> np.ndarray:
        """Return r(a_i, a_i)."""
        exponent = np.zeros(len(a))
        for j, scale, spread, center in self._columns(a.shape[1]):
            exponent += _log_covariance(a[:, j] - center, a[:, j] - center, scale, spread)
        return np.exp(exponent)

    def slopes(self, a: np.ndarray) -> np.ndarray:
        """Return the derivatives of r(a, a) with respect to the logarithm of each column's lengthscale, (d, n, n)."""
        parts = []
        for j, scale, spread, center in self._columns(a.shape[1]):
            left, right = a[:, j, None] - center, a[None, :, j] - center
            parts.append(_log_covariance_slope(left, right, scale, spread))
        return self.covariance(a, a) * np.array(parts)

    def _columns(self, width: int) -> Iterator[tuple[int, float, float | None, float]]:
        """Yield the number of each column, its lengthscale, and the spread and center of ν there."""
        scales, centers = np.broadcast_to(self.lengthscale, width), np.broadcast_to(self.center, width)
        spreads = [None] * width if self.spread is None else np.broadcast_to(self.spread, width)
        for j in range(width):
            yield j, scales[j], spreads[j], centers[j]


def _log_covariance(left: np.ndarray, right: np.ndarray, scale: float, spread: float | None) -> Any:
    """Return log r of one column, for coordinates from the center of ν."""
    apart = -((left - right) ** 2) / (4.0 * scale**2)
    if spread is None:
        return apart
    return apart - (0.5 * (left + right) / np.hypot(scale, np.sqrt(2.0) * spread)) ** 2


def _log_covariance_slope(left: np.ndarray, right: np.ndarray, scale: float, spread: float | None) -> Any:
    """Return the derivative of the same with respect to log(scale)."""
    apart = (left - right) ** 2 / (2.0 * scale**2)
    if spread is None:
        return apart
    total = np.hypot(scale, np.sqrt(2.0) * spread)
    return apart + 2.0 * (scale / total) ** 2 * (0.5 * (left + right) / total) ** 2
