"""p(x | φ) from rows that are shifted to the φ in question by a learned mean and scale."""

import numpy as np

from decond.conditional.density import ResidualDensity
from decond.conditional.mean import GAIN, MeanRegression
from decond.conditional.ridge import KernelFits

__all__ = ["EXACT", "ShiftedResiduals"]

SCALE_FLOOR = 0.2
"""Least scale s(φ), relative to its mean."""

EXACT = 1e-6
"""Noise, relative to the spread of the data, below which a column counts as an exact function of φ."""


class ShiftedResiduals:
    """p(x | φ) = Σ_i w_i(φ) κ_h((x − m(φ)) / s(φ) − u_i), u_i = (x_i − m₋ᵢ(φ_i)) / s₋ᵢ(φ_i), up to 1/s(φ).

    m and s are regressions on φ; residuals are those of fits that have not seen their own row. A column has a scale
    s(φ) only if that raises its Gaussian log likelihood by GAIN. Rows may have weights.

    Attributes:
        x: The rows.
        left_out: m₋ᵢ(φ_i) and s₋ᵢ(φ_i) at the rows.
        exact: For each column, whether it is an exact function of φ. Noise of EXACT is put in place of none.
        scaled: For each column, whether it has a scale.
        density: Of the residuals u.

    >>> rng = np.random.default_rng(0)
    >>> phi = rng.uniform(-2, 2, (300, 1))
    >>> found = ShiftedResiduals(phi, phi + 0.5 * rng.standard_normal((300, 1)), np.ones(300))
    >>> bool(abs(found.log_density(np.array([[1.0]]), np.array([[1.0]]))[0] + np.log(0.5 * 2.5066)) < 0.1)
    True
    """

    def __init__(self, phi: np.ndarray, x: np.ndarray, weights: np.ndarray) -> None:
        fits = KernelFits(phi, weights)
        share = weights / weights.sum()
        self.x = x
        self._mean = MeanRegression(phi, x, weights, fits)
        residual = self._mean.residual
        self.exact = share @ residual**2 < EXACT**2 * np.var(x, axis=0)
        if self.exact.any():
            noise = EXACT * x.std(axis=0) * np.random.default_rng(0).standard_normal(x.shape)
            residual = np.where(self.exact, noise, residual)
        size = np.abs(residual)
        self._usual = share @ size + 1e-300
        sizes = fits.fit(size)
        scale = np.maximum(size - sizes.residual, SCALE_FLOOR * self._usual)
        gain = _gaussian_score(residual, scale, share) - _gaussian_score(
            residual, np.broadcast_to(self._usual, size.shape), share
        )
        self.scaled = (gain / float(np.sum(share**2)) > GAIN) & ~self.exact
        self.left_out = x - residual, np.where(self.scaled, scale, self._usual)
        residual = residual / self.left_out[1]
        self.density = ResidualDensity(residual, phi, weights, width=1.0 if self.exact.any() else None)
        self._smooth = self._mean.kernel.joined(sizes, self._mean.smooth, self.scaled)

    def log_density(self, x: np.ndarray, phi: np.ndarray) -> np.ndarray:
        """Return log p(x | φ) for rows (q, s), or one row for all, at φ (q, d)."""
        mean, scale = self.mean_and_scale(phi)
        return self.density.log_density((x - mean) / scale, phi) - np.log(scale).sum(axis=1)

    def gaussian_log_density(self, x: np.ndarray, phi: np.ndarray) -> np.ndarray:
        """Return the log density of a Gaussian with the same mean and covariance, up to a constant."""
        mean, scale = self.mean_and_scale(phi)
        u = self.density.whitened((x - mean) / scale)
        return -0.5 * np.sum(u**2, axis=1) - np.log(scale).sum(axis=1)

    def mean_and_scale(self, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return m(φ) and s(φ), both (q, s), from one pass over the rows."""
        mean = self._mean.linear.predict(phi)
        scale = np.tile(self._usual, (len(phi), 1))
        smooth, scaled = self._mean.smooth, self.scaled
        if smooth.any() or scaled.any():
            predicted = self._smooth.predict(phi)
            mean[:, smooth] = predicted[:, : smooth.sum()]
            scale[:, scaled] = np.maximum(predicted[:, smooth.sum() :], SCALE_FLOOR * self._usual[scaled])
        return mean, scale


def _gaussian_score(residual: np.ndarray, scale: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return the mean log likelihood of a Gaussian with this scale, its factor fitted, up to a constant."""
    return -share @ np.log(scale) - 0.5 * np.log(share @ (residual / scale) ** 2 + 1e-300)
