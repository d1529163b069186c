"""Learned summaries: the posterior mean of the parameters given the data (Fearnhead & Prangle 2012), by kernels."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from decond.conditional import KernelFits, ResidualSettings

__all__ = ["LearnedSummary", "RedundancyRule", "Standardizer", "pulled_in"]


class Standardizer:
    """Columns centered at their median and scaled by their middle 68 %.

    >>> Standardizer(np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])).apply(np.array([[1.0, 1.0]]))
    array([[0., 0.]])
    """

    def __init__(self, x: np.ndarray) -> None:
        low, middle, high = np.quantile(x, [0.16, 0.5, 0.84], axis=0)
        largest = np.maximum(np.abs(x).max(axis=0), 1e-300)  # the square of a wild value would overflow
        spread, deviation = high / 2.0 - low / 2.0, largest * (x / largest).std(axis=0)
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

    widest: float = 10.0
    """Standardized values beyond this are pulled in by a logarithm, so that one wild simulation bends nothing."""

    def fit(self, x: np.ndarray, phi: np.ndarray) -> Self:
        """Learn E[φ | x] from standardized simulations.

        Parameters
        ----------
        x : ndarray of shape (n, s)
            Standardized data.
        phi : ndarray of shape (n, d)
            Working coordinates of the parameters.
        """
        self._fit = KernelFits(self._tamed(x), np.ones(len(x))).fit(phi)
        self.training_values_ = phi - self._fit.residual
        return self

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Return the summaries (q, d) of standardized rows of data."""
        return self._fit.predict(self._tamed(x))

    def _tamed(self, x: np.ndarray) -> np.ndarray:
        return pulled_in(x, self.widest)


def pulled_in(z: NDArray[np.float64], widest: float) -> NDArray[np.float64]:
    """Return standardized values, those beyond ±`widest` pulled in by a logarithm: one wild simulation bends nothing.

    Parameters
    ----------
    z : ndarray
        Standardized values.
    widest : float
        The largest size that is left as it is.

    Returns
    -------
    ndarray
    """
    far = widest * (1.0 + np.log(np.maximum(np.abs(z), widest) / widest))
    return np.where(np.abs(z) > widest, np.sign(z) * far, z)


@dataclass(frozen=True)
class RedundancyRule:
    """Which columns of data are functions of the others, such as a variance beside its deviation.

    Given the others such a column is known, so it tells nothing. But regressions on the parameters err for each
    column in a way of its own, and a likelihood takes that for information. Columns are left out one at a time, the
    most predictable first: one that the others predict much better than the parameters do, and of which what they
    leave tells nothing of the parameters.

    >>> rng = np.random.default_rng(0)
    >>> phi = rng.standard_normal((200, 1))
    >>> x = phi + 0.5 * rng.standard_normal((200, 2))
    >>> int(RedundancyRule().kept(phi, np.column_stack([x, x[:, 0] - 2.0 * x[:, 1]]), np.ones(200)).sum())
    2
    """

    ratio: float = 0.2
    """Leave out a column that the others predict with less than this share of its noise given the parameters."""
    told: float = 0.5
    """Keep it if the parameters explain more than this share of the variance of what the others leave."""
    rows: int = 200
    """Simulations, those of most weight, that decide."""

    def kept(
        self, phi: NDArray[np.float64], x: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Return which columns to keep.

        Parameters
        ----------
        phi : ndarray of shape (n, d)
            Working coordinates of the parameters.
        x : ndarray of shape (n, s)
            Data.
        weights : ndarray of shape (n,)
            Weights of the simulations.
        """
        kept = np.ones(x.shape[1], dtype=bool)
        rows = np.argsort(-weights, kind="stable")[: self.rows]
        phi, x, weights = phi[rows], x[rows], weights[rows]
        settings = ResidualSettings(lengthscales=(1.0, 4.0))
        fits = KernelFits(phi, weights, settings)
        noise = fits.fit(x).loss + 1e-300
        while kept.sum() > 1:
            ratios = np.full(x.shape[1], np.inf)
            for column in np.flatnonzero(kept):
                others = kept.copy()
                others[column] = False
                left = KernelFits(x[:, others], weights, settings).fit(x[:, [column]])
                told = 1.0 - fits.fit(left.residual).loss / np.maximum(left.loss, 1e-300)
                if told[0] <= self.told:
                    ratios[column] = left.loss[0] / noise[column]
            if ratios.min() > self.ratio**2:
                break
            kept[int(np.argmin(ratios))] = False
        return kept
