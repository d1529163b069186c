"""Smooth densities of draws, from histograms: as narrow as the draws call for, and cheap."""

import numpy as np

__all__ = ["CONTOURS", "joint_density", "marginal_density", "span_of"]

CONTOURS = (0.5, 0.8, 0.95)
"""Shares of the draws inside the contours of a pair."""


def span_of(column: np.ndarray, truth: float | None = None) -> tuple[float, float]:
    """Return the span of almost all draws, and of the truth, a little widened."""
    low, high = (float(value) for value in np.quantile(column, [0.001, 0.999]))
    if truth is not None:
        low, high = min(low, truth), max(high, truth)
    margin = 0.04 * (high - low) or 0.05 * abs(low) or 1.0
    return low - margin, high + margin


def marginal_density(values: np.ndarray, span: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Return points and the density there: a histogram smoothed as its spread and size call for.

    It ends where the draws end.

    >>> at, height = marginal_density(np.random.default_rng(0).uniform(size=1000), (-1.0, 2.0))
    >>> bool(at.min() > 0.0 and at.max() < 1.0)
    True
    """
    from scipy.ndimage import gaussian_filter1d

    inside = (max(span[0], values.min()), min(span[1], values.max()))
    ends = inside if inside[1] > inside[0] else span
    density, edges = np.histogram(values, bins=200, range=ends, density=True)
    width = 1.06 * len(np.unique(values)) ** -0.2 * _local_spread(values) / (edges[1] - edges[0])
    height = gaussian_filter1d(density, max(width, 1.0), mode="reflect")
    return (edges[1:] + edges[:-1]) / 2.0, height


def joint_density(
    x: np.ndarray, y: np.ndarray, x_span: tuple[float, float], y_span: tuple[float, float]
) -> tuple[list[np.ndarray], np.ndarray, list[float]]:
    """Return a grid, the smoothed counts on it, and the levels above which `CONTOURS` of the draws lie."""
    from scipy.ndimage import gaussian_filter

    counts, x_edges, y_edges = np.histogram2d(x, y, bins=80, range=[x_span, y_span])
    widths = [_local_spread(v) / (e[1] - e[0]) for v, e in ((x, x_edges), (y, y_edges))]
    shrink = len(np.unique(x)) ** (-1.0 / 6.0)  # draws may repeat, and repeated draws tell nothing new
    height = gaussian_filter(counts, np.maximum(np.multiply(widths, shrink), 1.0))
    falling = np.sort(height.ravel())[::-1]
    held = np.cumsum(falling) / falling.sum()
    levels = sorted({float(falling[np.searchsorted(held, share)]) for share in CONTOURS})
    return [(edges[1:] + edges[:-1]) / 2.0 for edges in (x_edges, y_edges)], height, levels


def _local_spread(values: np.ndarray) -> float:
    """Return the standard deviation of a normal peak as narrow as the narrowest quarter of the draws."""
    order, quarter = np.sort(values), max(1, len(values) // 4)
    return float((order[quarter:] - order[:-quarter]).min()) / 0.637
