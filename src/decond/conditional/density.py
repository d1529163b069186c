"""The density of residuals: between a Gaussian and a kernel estimate, with the same mean and covariance."""

import numpy as np
from scipy.linalg import solve_triangular

from decond.conditional.mean import GAIN
from decond.conditional.ridge import squared_distances

__all__ = ["ResidualDensity"]

WIDTHS = (0.05, 0.08, 0.12, 0.18, 0.27, 0.4, 0.55, 0.75)
"""Candidate widths h below 1."""

LOCALITIES = (np.inf, 1.5, 0.75)
"""Candidate localities ρ, in units of the spread of φ."""

LEAST = 1e-3
"""Residuals of less than this share of the largest weight are left out."""

MOST = 1200
"""Residuals, those of most weight, from which h and ρ are chosen."""


class ResidualDensity:
    """p(r | φ) = Σ_i w_i(φ) N(u; √(1 − h²) u_i, h² I) / |R|, where u = R⁻¹ (r − center) whitens residuals.

    h = 1 is a Gaussian, a small h a kernel density; mean and covariance are the same for every h. The weights
    w_i(φ) ∝ v_i exp(−‖φ − φ_i‖² / 2ρ²) may favor residuals that were seen near φ. h and ρ maximize the leave-one-out
    log density, weighted by v; each step away from the Gaussian, and from ρ = ∞, has to gain GAIN.

    >>> rng = np.random.default_rng(0)
    >>> density = ResidualDensity(2 * rng.standard_normal((500, 1)), rng.standard_normal((500, 1)), np.ones(500))
    >>> (
    ...     density.width,
    ...     bool(abs(density.log_density(np.zeros((1, 1)), np.zeros((1, 1)))[0] + np.log(2 * 2.5066)) < 0.1),
    ... )
    (1.0, True)
    """

    def __init__(
        self, residual: np.ndarray, phi: np.ndarray, weights: np.ndarray, width: float | None = None
    ) -> None:
        kept = weights > LEAST * weights.max()
        residual, self.share = residual[kept], weights[kept] / weights[kept].sum()
        self.effective = 1.0 / float(np.sum(self.share**2))
        self.center = self.share @ residual
        self._root = np.linalg.cholesky(_covariance(residual - self.center, self.share, self.effective))
        self._log_volume = float(np.log(np.diag(self._root)).sum() + 0.5 * len(self._root) * np.log(2 * np.pi))
        self.points = self.whitened(residual)
        self._origin = self.share @ phi[kept]
        self._spread = np.sqrt(self.share @ (phi[kept] - self._origin) ** 2) + 1e-12
        self._phi = (phi[kept] - self._origin) / self._spread
        self.width, self.locality = (1.0, np.inf) if width is None else (width, np.inf)
        if width is None:
            self._choose()

    def log_density(self, residual: np.ndarray, phi: np.ndarray) -> np.ndarray:
        """Return the log density (q,) of residuals (q, s) seen at φ, (q, d) or one row for all."""
        u = self.whitened(residual)
        if self.width == 1.0:
            return -0.5 * np.sum(u**2, axis=1) - self._log_volume
        exponent = squared_distances(u, np.sqrt(1.0 - self.width**2) * self.points)
        exponent *= -0.5 / self.width**2
        log_weights = self._log_weights((phi - self._origin) / self._spread, self._phi, self.share, self.locality)
        exponent += log_weights
        return _log_sum_exp(exponent) - u.shape[1] * np.log(self.width) - self._log_volume

    def whitened(self, residual: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
        """Return residuals, of all or some of the columns, with mean zero and unit covariance."""
        root, center = self._root, self.center
        if columns is not None:
            root, center = np.linalg.cholesky((root @ root.T)[np.ix_(columns, columns)]), center[columns]
        return solve_triangular(root, (residual - center).T, lower=True, check_finite=False).T

    @staticmethod
    def _log_weights(phi: np.ndarray, seen: np.ndarray, share: np.ndarray, locality: float) -> np.ndarray:
        """Return log w_i(φ), (q, n) or, without locality, (n,)."""
        if not np.isfinite(locality):
            return np.log(share)
        local = squared_distances(phi, seen) * (-0.5 / locality**2) + np.log(share)
        local -= _log_sum_exp(local.copy())[:, None]
        return local

    def _choose(self) -> None:
        """Choose h and ρ by the weighted leave-one-out log density."""
        rows = np.argsort(-self.share, kind="stable")[:MOST]
        u, phi, share = self.points[rows], self._phi[rows], self.share[rows] / self.share[rows].sum()
        gaussian = -0.5 * np.sum(u**2, axis=1)
        margin = GAIN / self.effective
        best = share @ gaussian + margin
        for locality in LOCALITIES:
            log_weights = self._log_weights(phi, phi, share, locality) + np.zeros((len(rows), 1))
            np.fill_diagonal(log_weights, -np.inf)
            log_weights -= _log_sum_exp(log_weights.copy())[:, None]
            for width in WIDTHS:
                exponent = log_weights - 0.5 / width**2 * squared_distances(u, np.sqrt(1.0 - width**2) * u)
                values = _log_sum_exp(exponent) - u.shape[1] * np.log(width)
                score = share @ np.maximum(values, gaussian - 20.0)  # one lonely residual does not decide
                if score > best + (margin if locality < self.locality else 0.0):
                    best, self.width, self.locality = score, width, locality


def _covariance(centered: np.ndarray, share: np.ndarray, effective: float) -> np.ndarray:
    """Return the weighted covariance, its correlations pulled toward zero as far as their noise asks."""
    covariance = centered.T @ (share[:, None] * centered) * (effective / max(effective - 1.0, 1.0))
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    correlation = covariance / np.outer(deviation, deviation)
    off = ~np.eye(len(deviation), dtype=bool)
    signal = np.sum(correlation[off] ** 2)
    noise = np.sum((1.0 - correlation[off] ** 2) ** 2) / effective
    correlation[off] *= 0.0 if signal <= noise else 1.0 - noise / signal
    return (correlation + 1e-9 * np.eye(len(deviation))) * np.outer(deviation, deviation)


def _log_sum_exp(exponent: np.ndarray) -> np.ndarray:
    """Return log Σ_j exp(e_ij); the argument is overwritten."""
    top = np.maximum(exponent.max(axis=1), -1e300)
    exponent -= top[:, None]
    np.exp(exponent, out=exponent)
    return np.log(exponent.sum(axis=1)) + top
