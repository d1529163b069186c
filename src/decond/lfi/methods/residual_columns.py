"""Columns of the data on the scale on which their noise is even: as they are, square roots or logarithms."""

import numpy as np

from decond.conditional import KernelFits, ResidualSettings
from decond.lfi.summaries import Standardizer

__all__ = ["Columns"]

WIDEST = 10.0
"""Standardized values beyond this are pulled in by a logarithm, so that one wild simulation bends nothing."""

FEW_VALUES = 5
"""A column with fewer distinct values keeps its scale."""


class Columns:
    """Maps rows of data to standardized columns; each may be transformed first.

    `shape` holds a power for each column: 1 as it is, ½ the square root of x + c, 0 its logarithm; c is zero for
    positive columns and 0.4 of the smallest positive value where there are zeros (counts: x + 0.4).
    """

    def __init__(self, x: np.ndarray, shape: np.ndarray | None = None) -> None:
        positive = np.array([np.min(column[column > 0], initial=np.inf) for column in x.T])
        many = np.array([len(np.unique(column)) > FEW_VALUES for column in x.T])
        self.eligible = (x.min(axis=0) >= 0) & np.isfinite(positive) & many
        self.offset = np.where(self.eligible & (x.min(axis=0) <= 0), 0.4 * positive, 0.0)
        self.floor = np.where(np.isfinite(positive), positive, 1.0) * 0.4
        self.shape = np.ones(x.shape[1]) if shape is None else shape
        self._standard = Standardizer(self._bent(x))

    @classmethod
    def chosen(cls, x: np.ndarray, phi: np.ndarray, weights: np.ndarray) -> "Columns":
        """Return the columns with the powers that make x, given the parameters, Gaussian with even noise.

        That is the likelihood of Box & Cox (1964), with leave-one-out residuals of kernel ridge regression and with
        weights.
        """
        plain = cls(x)
        if not plain.eligible.any():
            return plain
        share = weights / weights.sum()
        effective = 1.0 / np.sum(share**2)
        fits = KernelFits(phi, weights, ResidualSettings(lengthscales=(0.5, 1.0, 2.0)))
        powers, scores = (1.0, 0.5, 0.0), []
        for power in powers:
            columns = cls(x, np.where(plain.eligible, power, 1.0))
            loss = fits.fit(columns.apply(x)).loss
            scores.append(effective * (share @ columns.log_slopes(x) - 0.5 * np.log(loss + 1e-300)))
        table = np.array(scores)
        best = np.where(table.max(axis=0) > table[0] + ResidualSettings.gain, table.argmax(axis=0), 0)
        return cls(x, np.array(powers)[best])

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Return standardized, transformed rows."""
        z = self._standard.apply(self._bent(x))
        size = np.maximum(np.abs(z), WIDEST)
        return np.where(np.abs(z) > WIDEST, np.sign(z) * WIDEST * (1.0 + np.log(size / WIDEST)), z)

    def log_slopes(self, x: np.ndarray) -> np.ndarray:
        """Return the logarithm of the derivative of each entry of `apply`."""
        base = self._base(x)
        slopes = np.where(self.shape == 0.5, -np.log(2.0) - 0.5 * np.log(base), 0.0)
        slopes = np.where(self.shape == 0.0, -np.log(base), slopes) - np.log(self._standard.scale)
        z = np.abs(self._standard.apply(self._bent(x)))
        return slopes - np.log(np.maximum(z, WIDEST) / WIDEST)

    def _base(self, x: np.ndarray) -> np.ndarray:
        return np.where(self.eligible, np.maximum(x + self.offset, self.floor * 1e-6), 1.0)

    def _bent(self, x: np.ndarray) -> np.ndarray:
        base = self._base(x)
        return np.where(self.shape == 0.5, np.sqrt(base), np.where(self.shape == 0.0, np.log(base), x))
