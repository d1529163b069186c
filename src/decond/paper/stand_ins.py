"""Curves that stand for published ones of which only the peak and the total variation to the truth are known."""

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import gamma

from decond.paper.published import Published

__all__ = ["stand_ins"]

LOWEST, HIGHEST = 0.2, 3.3
"""Modes that are tried."""


def stand_ins(known: Published, grid: np.ndarray, truth: np.ndarray) -> list[np.ndarray]:
    """Return the gamma densities that have the published peak and are as far from the truth as published.

    Distances are within the grid, as the published ones were read off a panel. There may be one curve on each side of
    the truth, and the numbers do not tell which it was. Where every density with this peak is farther away, it is
    the nearest one.

    >>> grid = np.linspace(0.0, 3.5, 701)
    >>> truth = gamma.pdf(grid, 17.0, scale=1.0 / 9.890968)
    >>> curves = stand_ins(Published(0.78, 0.144), grid, truth)
    >>> [round(float(curve.max()), 2) for curve in curves]
    [0.78, 0.78]
    >>> [round(float(0.5 * np.trapezoid(np.abs(curve - truth), grid)), 3) for curve in curves]
    [0.144, 0.144]
    """

    def excess(mode: float) -> float:
        density = _with_mode(mode, known.peak, grid)
        return 0.5 * float(np.trapezoid(np.abs(density - truth), grid)) - known.total_variation

    nearest = minimize_scalar(excess, bounds=(LOWEST, HIGHEST), method="bounded").x
    if excess(nearest) >= 0.0:
        return [_with_mode(nearest, known.peak, grid)]
    modes = (brentq(excess, LOWEST, nearest), brentq(excess, nearest, HIGHEST))
    return [_with_mode(mode, known.peak, grid) for mode in modes]


def _with_mode(mode: float, peak: float, grid: np.ndarray) -> np.ndarray:
    """Return the gamma density with this mode and this value at the mode."""

    def miss(log_shape: float) -> float:
        shape = 1.0 + np.exp(log_shape)
        return float(gamma.pdf(mode, shape, scale=mode / (shape - 1.0))) - peak

    shape = 1.0 + np.exp(brentq(miss, -12.0, 8.0))
    return np.asarray(gamma.pdf(grid, shape, scale=mode / (shape - 1.0)))
