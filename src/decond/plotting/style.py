"""One look for all pictures: a color for each role (Okabe & Ito 2008), lines, bands, dots, titles and ticks."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLORS", "few_ticks", "plot_band", "plot_line", "plot_points", "styled", "title_panel", "verbatim"]

COLORS = {
    "truth": "#000000",
    "model": "#0072B2",
    "initial": "#E69F00",
    "data": "#999999",
    "cascade": "#D55E00",
    "impute": "#CC79A7",
    "posterior": "#0072B2",
    "prior": "#999999",
    "observed": "#D55E00",
    "density": "#009E73",
    "band": "#56B4E9",
}
"""One color for each role in a picture."""

BAND_ALPHA = 0.2


def plot_points(ax: "Axes", x: Any, z: Any, role: str = "data", label: str | None = None, **options: Any) -> Any:
    """Draw data as small dots, and return them."""
    defaults = {"marker": ".", "linestyle": "none", "markersize": 4, "color": COLORS[role], "label": label}
    return ax.plot(np.ravel(x), np.ravel(z), **styled(defaults, options))[0]


def plot_line(ax: "Axes", x: Any, z: Any, role: str, label: str, style: str = "-", **options: Any) -> Any:
    """Draw a function, and return its line."""
    defaults = {"linestyle": style, "linewidth": 1.8, "color": COLORS[role], "label": label}
    return ax.plot(np.ravel(x), np.ravel(z), **styled(defaults, options))[0]


def plot_band(ax: "Axes", x: Any, mean: Any, std: Any, role: str, label: str, width: float = 2.0) -> tuple[Any, Any]:
    """Draw a mean with a band of `width` standard deviations on either side, and return line and band."""
    at, center, half = np.ravel(x), np.ravel(mean), width * np.ravel(std)
    band = ax.fill_between(at, center - half, center + half, color=COLORS[role], alpha=BAND_ALPHA, linewidth=0)
    return plot_line(ax, at, center, role, f"{label} ± {width:g} sd"), band


def styled(defaults: Mapping[str, Any], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return options of a line with those of the user on top, whether they say "lw" or "linewidth"."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return {**defaults, **normalize_kwargs(dict(given or {}), Line2D)}


def verbatim(words: Any) -> str:
    r"""Return a name so that matplotlib writes it as it is: what stands between two dollar signs is no formula.

    >>> print(verbatim("cost_$_a_$^"), verbatim("wind"))
    cost_\$_a_\$^ wind
    """
    return str(words).replace("$", r"\$")


def title_panel(ax: "Axes", name: str, note: str = "") -> None:
    """Write a name above the left end of a panel, and a few smaller words above its right end."""
    ax.set_title(verbatim(name), fontsize=9, loc="left", pad=3)
    ax.set_title(verbatim(note), fontsize=7, loc="right", pad=3, color="#555555")


def few_ticks(ax: "Axes", size: float, axis: str = "x", most: int = 3) -> None:
    """Leave a few round ticks, so that numbers do not run into each other."""
    from matplotlib.ticker import MaxNLocator

    ax.tick_params(labelsize=size)
    for letter in axis:
        line = ax.xaxis if letter == "x" else ax.yaxis
        line.set_major_locator(MaxNLocator(most, min_n_ticks=2))
        line.get_offset_text().set_fontsize(size)
    ax.ticklabel_format(axis="both" if len(axis) == 2 else "x", style="sci", scilimits=(-2, 4))
