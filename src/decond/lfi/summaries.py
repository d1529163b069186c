"""Learned summaries: the posterior mean of the parameters given the data (Fearnhead & Prangle 2012), by kernels."""

from typing import Self

import numpy as np

from decond.conditional import KernelFits

__all__ = ["LearnedSummary", "Standardizer"]

WIDEST = 10.0
"""Standardized values beyond this are pulled in by a logarithm, so that one wild simulation bends nothing."""


class Standardizer:
    """Columns centered at their median and scaled by their middle 68 %.

    >>> Standardizer(np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])).apply(np.array([[1.0, 1.0]]))
    array([[0., 0.]])
    """

    def __init__(self, x: np.ndarray) -> None:
        low, middle, high = np.quantile(x, [0.16, 0.5, 0.84], axis=0)
        spread, deviation = (high - low) / 2.0, x.std(axis=0)
        tiny = 1e-12 * np.maximum(np.abs(middle), 1e-300)
        self.center = middle
        self.scale = np.where(spread > tiny, spread, np.where(deviation > tiny, deviation, 1.0))

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Return standardized rows."""
        return (x - self.center) / self.scale


class LearnedSummary:
    """Maps rows of data to estimates of the parameters' working coordinates; d numbers instead of s.

    On the rows it was trained with, `training_values_` are leave-one-out estimates, so that they are spread as
    those of new data are.
    """

    def fit(self, x: np.ndarray, phi: np.ndarray) -> Self:
        """Learn E[φ | x] from standardized simulations."""
        self._fit = KernelFits(_tamed(x), np.ones(len(x))).fit(phi)
        self.training_values_ = phi - self._fit.residual
        return self

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Return the summaries (q, d) of standardized rows of data."""
        return self._fit.predict(_tamed(x))


def _tamed(x: np.ndarray) -> np.ndarray:
    """Return x with values beyond the widest pulled in by a logarithm."""
    size = np.abs(x)
    far = WIDEST * (1.0 + np.log(np.maximum(size, WIDEST) / WIDEST))
    return np.where(size > WIDEST, np.sign(x) * far, x)
