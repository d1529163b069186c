"""Pictures in one style, with colors that color-blind readers can tell apart (Okabe & Ito 2008)."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLORS", "plot_band", "plot_line", "plot_points"]

COLORS = {
    "truth": "#000000",
    "model": "#0072B2",
    "initial": "#E69F00",
    "data": "#999999",
    "cascade": "#D55E00",
    "impute": "#CC79A7",
}
"""One color for each role in a picture."""


def plot_points(ax: "Axes", x: Any, z: Any, role: str = "data", label: str | None = None) -> "Axes":
    """Draw data as small dots."""
    ax.plot(np.ravel(x), np.ravel(z), ".", ms=4, color=COLORS[role], label=label)
    return ax


def plot_line(ax: "Axes", x: Any, z: Any, role: str, label: str, style: str = "-") -> "Axes":
    """Draw a function."""
    ax.plot(np.ravel(x), np.ravel(z), style, lw=1.8, color=COLORS[role], label=label)
    return ax


def plot_band(ax: "Axes", x: Any, mean: Any, std: Any, role: str, label: str, width: float = 2.0) -> "Axes":
    """Draw a mean with a band of `width` standard deviations on either side."""
    at, center, half = np.ravel(x), np.ravel(mean), width * np.ravel(std)
    ax.fill_between(at, center - half, center + half, color=COLORS[role], alpha=0.2, lw=0)
    return plot_line(ax, at, center, role, f"{label} ± {width:g} sd")
