"""Pictures in one style, with colors that color-blind readers can tell apart (Okabe & Ito 2008)."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLORS", "MAX_PANELS", "plot_band", "plot_line", "plot_model", "plot_points"]

MAX_PANELS = 6
"""Columns of x that a picture of a model shows at most."""

MAX_DOTS = 2000
"""Rows of data that a picture shows at most, evenly chosen."""

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


def plot_model(estimator: Any, x: "pd.DataFrame", target: str, z: Any = None) -> "Figure":
    """Draw a fitted model over the range of its data: one panel for each column, the others at their median.

    Ticks along the bottom show where the rows of x are; `z`, where there is one for each row, is drawn as dots if x
    has a single column. At most `MAX_PANELS` columns are drawn.

    >>> import pandas as pd
    >>> from decond.estimators import DirectGP
    >>> from decond.kernels import RBF
    >>> x = pd.DataFrame({"wind": [0.0, 1.0, 2.0], "height": [5.0, 5.0, 6.0]})
    >>> gp = DirectGP(RBF(1.0), optimize=False).fit(x, [0.0, 1.0, 4.0])
    >>> [ax.get_xlabel() for ax in plot_model(gp, x, "power").axes]
    ['wind', 'height']
    """
    from matplotlib.figure import Figure

    names = list(x.columns)[:MAX_PANELS]
    across = min(3, len(names))
    down = -(-len(names) // across)
    size = (9.0, 5.0) if len(names) == 1 else (4.4 * across, 3.6 * down)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    shown = x.iloc[:: -(-len(x) // MAX_DOTS)]
    for ax, name in zip(axes, names, strict=False):
        at = _along(x, name)
        mean, std = estimator.predict(at, return_std=True)
        if z is not None and x.shape[1] == 1:
            plot_points(ax, shown[name], np.asarray(z)[:: -(-len(x) // MAX_DOTS)], label="data")
        plot_band(ax, at[name], mean, std, "model", "mean")
        ax.plot(
            shown[name], np.zeros(len(shown)), "|", color=COLORS["data"], ms=9, transform=ax.get_xaxis_transform()
        )
        ax.set(xlabel=name)
    for ax in axes[len(names) :]:
        ax.set_axis_off()
    axes[0].set(ylabel=target)
    axes[0].legend(frameon=False, fontsize=9)
    if x.shape[1] > 1:
        figure.suptitle("each column alone, the others at their median", fontsize=10)
    return figure


def _along(x: "pd.DataFrame", name: str) -> "pd.DataFrame":
    """Return rows along one column of x, the other columns at their median."""
    import pandas as pd

    line = np.linspace(x[name].min(), x[name].max(), 200)
    return pd.DataFrame({column: line if column == name else float(x[column].median()) for column in x})
