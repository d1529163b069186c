"""Kernel ridge regression: one eigendecomposition, every ridge, leave-one-out exact."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

__all__ = ["LINEAR", "KernelFit", "KernelFits", "squared_distances"]

LENGTHSCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Candidate lengthscales, in units of √d for inputs of unit spread. Powers of two, so that one Gram
matrix gives the next."""

RIDGES = np.logspace(-6.0, 3.0, 28)
"""Candidate ridges λ, relative to the variance 1 of the smooth part of the kernel."""

LINEAR = 100.0
"""Prior variance of the constant and of the slopes, relative to the smooth part."""


class KernelFits:
    """Weighted kernel ridge regression on given inputs, for any outputs: the eigendecompositions are made once.

    The kernel has constant, linear and Gaussian parts. A fit minimizes Σ_i v_i (x_i − f(φ_i))² + λ ‖f‖². With
    V = diag(v) and S = V^½ K V^½ the coefficients of f are V^½ (S + λI)⁻¹ V^½ x, and the residual of row i in the
    fit that has not seen row i is [(S + λI)⁻¹ V^½ x]_i / (v_i^½ [(S + λI)⁻¹]_ii). Lengthscale and λ of each output
    minimize Σ_i v_i residual_i².

    >>> rng = np.random.default_rng(0)
    >>> phi = rng.uniform(-2, 2, (80, 1))
    >>> fit = KernelFits(phi, np.ones(80)).fit(np.sin(2 * phi) + 0.1 * rng.standard_normal((80, 1)))
    >>> bool(abs(fit.predict(np.array([[0.5]]))[0, 0] - np.sin(1.0)) < 0.1)
    True
    """

    def __init__(
        self, inputs: np.ndarray, weights: np.ndarray, lengthscales: tuple[float, ...] = LENGTHSCALES
    ) -> None:
        self.share = weights / weights.sum()
        self.root = np.sqrt(weights / weights.max())
        self.origin = self.share @ inputs
        self.spread = np.sqrt(self.share @ (inputs - self.origin) ** 2) + 1e-12
        self.rows = (inputs - self.origin) / self.spread
        self.lengthscales = tuple(factor * np.sqrt(inputs.shape[1]) for factor in lengthscales)
        self._spectra = [self._spectrum(lengthscale) for lengthscale in self.lengthscales]

    def fit(self, outputs: np.ndarray) -> "KernelFit":
        """Return the best fit for each column of the outputs (n, q)."""
        center = self.share @ outputs
        targets = self.root[:, None] * (outputs - center)
        best = KernelFit.empty(self, center, targets.shape)
        for lengthscale, (values, vectors) in zip(self.lengthscales, self._spectra, strict=True):
            rotated = vectors.T @ targets
            inverses = 1.0 / (values[:, None] + RIDGES)
            diagonals = vectors**2 @ inverses
            for ridge, inverse, diagonal in zip(RIDGES, inverses.T, diagonals.T, strict=True):
                solved = vectors @ (inverse[:, None] * rotated)
                residual = solved / (diagonal * self.root)[:, None]
                best.improve(lengthscale, ridge, self.root[:, None] * solved, residual, self.share @ residual**2)
        return best

    def _spectrum(self, lengthscale: float) -> tuple[np.ndarray, np.ndarray]:
        gram = np.exp(squared_distances(self.rows, self.rows) * (-0.5 / lengthscale**2))
        gram += LINEAR * (1.0 + self.rows @ self.rows.T)
        values, vectors = eigh(self.root[:, None] * gram * self.root, overwrite_a=True, check_finite=False)
        return np.maximum(values, 0.0), vectors


@dataclass
class KernelFit:
    """The chosen fit of each output: hyperparameters, coefficients, leave-one-out residuals, their mean squares."""

    origin: np.ndarray
    spread: np.ndarray
    rows: np.ndarray
    center: np.ndarray
    lengthscale: np.ndarray
    ridge: np.ndarray
    coefficients: np.ndarray
    residual: np.ndarray
    loss: np.ndarray

    @classmethod
    def empty(cls, fits: KernelFits, center: np.ndarray, shape: tuple[int, ...]) -> "KernelFit":
        """Return a fit that every other one improves."""
        q = shape[1]
        arrays = np.ones(q), np.ones(q), np.zeros(shape), np.zeros(shape), np.full(q, np.inf)
        return cls(fits.origin, fits.spread, fits.rows, center, *arrays)

    def improve(
        self, lengthscale: float, ridge: float, coefficients: np.ndarray, residual: np.ndarray, loss: np.ndarray
    ) -> None:
        """Take over the outputs whose loss is smaller than the one held."""
        won = loss < self.loss
        self.loss[won], self.lengthscale[won], self.ridge[won] = loss[won], lengthscale, ridge
        self.coefficients[:, won], self.residual[:, won] = coefficients[:, won], residual[:, won]

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Return predictions (n, q)."""
        rows = (inputs - self.origin) / self.spread
        result = LINEAR * (self.coefficients.sum(axis=0) + rows @ (self.rows.T @ self.coefficients)) + self.center
        lengthscales = np.unique(self.lengthscale)[::-1]
        gram = squared_distances(rows, self.rows)
        gram *= -0.5 / lengthscales[0] ** 2
        np.exp(gram, out=gram)
        for wider, lengthscale in zip((lengthscales[0], *lengthscales), lengthscales, strict=False):
            for _ in range(2 * round(np.log2(wider / lengthscale))):  # half the lengthscale: the fourth power
                gram *= gram
            columns = self.lengthscale == lengthscale
            result[:, columns] += gram @ self.coefficients[:, columns]
        return result

    def joined(self, other: "KernelFit", mine: np.ndarray, others: np.ndarray) -> "KernelFit":
        """Return one fit for some outputs of this one, then some of another on the same inputs."""

        def both(left: np.ndarray, right: np.ndarray) -> np.ndarray:
            return np.concatenate([left[..., mine], right[..., others]], axis=-1)

        names = ("center", "lengthscale", "ridge", "coefficients", "residual", "loss")
        picked = (both(getattr(self, name), getattr(other, name)) for name in names)
        return KernelFit(self.origin, self.spread, self.rows, *picked)


def squared_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ‖a_i − b_j‖² for rows."""
    squared = a @ (-2.0 * b.T)
    squared += (a**2).sum(axis=1)[:, None]
    squared += (b**2).sum(axis=1)
    return np.maximum(squared, 0.0, out=squared)
