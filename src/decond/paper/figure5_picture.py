"""The picture of Figure 5: a small panel for each density, and bars; in grey behind them what was published."""

from typing import Any

import numpy as np

from decond.paper.figure5_runs import GRID, Bar, Curve, Runs
from decond.paper.published import PUBLISHED_BARS, PUBLISHED_CURVES, PUBLISHED_SECOND
from decond.paper.stand_ins import stand_ins
from decond.plotting.style import COLORS, plot_line, title_panel

__all__ = ["draw"]

COLUMNS = 3
PUBLISHED_COLOR = "#D0D0D0"
STAND_IN = "gamma density with the\npublished peak and distance\nwithin the panel\n(on either side of the truth)"

HIGHEST = -2.0
"""Upper end of the axis of log θ₁; the prior goes on to 2, and an arrow stands where a bar does so too."""

THINNEST = 0.012
"""Height of a bar that collapsed onto a point, so that it can be seen."""


def draw(runs: Runs, truth: np.ndarray, true_log_rate: float) -> Any:
    """Return the figure: densities of the rate on the left, intervals of log θ₁ on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(16.0, 8.0), layout="constrained")
    parts: Any = figure.subfigures(1, 2, width_ratios=(1.0, 1.15), wspace=0.03)
    left, right = parts
    _draw_densities(left, runs.curves, truth)
    _draw_intervals(right.subplots(), runs.bars, true_log_rate)
    return figure


def _draw_densities(part: Any, curves: dict[str, list[Curve]], truth: np.ndarray) -> None:
    rows = -(-(len(curves) + 1) // COLUMNS)  # one place is left for the legend
    panels = part.subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False).ravel()
    for ax, (name, found) in zip(panels, curves.items(), strict=False):
        for known in (shown[name] for shown in (PUBLISHED_CURVES, PUBLISHED_SECOND) if name in shown):
            for density in stand_ins(known, GRID, truth):
                plot_line(ax, GRID, density, "band", STAND_IN, color=PUBLISHED_COLOR, linewidth=4.0)
        for curve in found[:0:-1]:
            plot_line(ax, GRID, curve.density, "band", "ours, other seeds", linewidth=0.7)
        plot_line(ax, GRID, found[0].density, "model", "ours, first seed")
        plot_line(ax, GRID, truth, "truth", "true posterior", "--", linewidth=1.2)
        title_panel(ax, name)
        words = {"ha": "right", "va": "top", "fontsize": 8, "color": "#555555"}
        ax.text(0.97, 0.95, _distances(name, found, truth), transform=ax.transAxes, **words)
    panels[0].set(xlim=(GRID[0], GRID[-1]), ylim=(0.0, 1.8 * truth.max()))  # spikes would flatten all others
    for ax in panels[max(0, len(curves) - COLUMNS) : len(curves)]:  # the lowest of each column
        ax.tick_params(labelbottom=True)
    legend = panels[len(curves)]
    for ax in panels[len(curves) :]:
        ax.set_axis_off()
    handles, labels = panels[0].get_legend_handles_labels()
    unique = dict(zip(reversed(labels), reversed(handles), strict=True))
    legend.legend(unique.values(), unique.keys(), frameon=False, fontsize=9, loc="center")
    part.suptitle("exponential–gamma: density of the rate, and total variation to the truth", fontsize=11)
    part.supxlabel("rate θ", fontsize=10)


def _distances(name: str, found: list[Curve], truth: np.ndarray) -> str:
    ours = f"{np.mean([curve.total_variation(truth) for curve in found]):.2f}"
    known = [shown[name].total_variation for shown in (PUBLISHED_CURVES, PUBLISHED_SECOND) if name in shown]
    return f"{ours}\npublished {' and '.join(f'{distance:.2f}' for distance in known)}" if known else ours


def _draw_intervals(ax: Any, bars: dict[str, list[Bar]], true_log_rate: float) -> None:
    names = list(dict.fromkeys([*bars, *PUBLISHED_BARS]))
    for at, name in enumerate(names):
        if name in PUBLISHED_BARS:
            low, high = PUBLISHED_BARS[name]
            ax.bar(at, high - low, bottom=low, width=0.86, color=PUBLISHED_COLOR, label="published")
        for offset, bar in zip(_offsets(len(bars.get(name, []))), bars.get(name, []), strict=True):
            _draw_bar(ax, at + offset, bar.interval[:, 0], true_log_rate)
    ax.axhline(true_log_rate, color=COLORS["truth"], ls="--", lw=1.2, label="true value")
    ax.set_xticks(range(len(names)), names, rotation=40, ha="right")
    ax.set(xlim=(-0.6, len(names) - 0.4), ylim=(-5.1, HIGHEST))
    ax.set_ylabel("log θ₁")
    handles, labels = ax.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": len(unique)}
    ax.legend(unique.values(), unique.keys(), frameon=False, fontsize=9, **above)
    ax.set_title("Lotka–Volterra: 95 % intervals of log θ₁, one thin bar a seed", fontsize=11, pad=26)


def _draw_bar(ax: Any, at: float, interval: np.ndarray, truth: float) -> None:
    low, high = interval
    inside = low <= truth <= high
    color, label = (COLORS["model"], "ours, holds the truth") if inside else (COLORS["cascade"], "ours, misses it")
    height = max(high - low, THINNEST)
    ax.bar(
        at, height, bottom=low, width=0.1, color=color, hatch=None if inside else "////", edgecolor=color, label=label
    )
    if high > HIGHEST:
        arrow = {"marker": "^", "markersize": 5, "markerfacecolor": "white", "markeredgecolor": COLORS["truth"]}
        ax.plot(at, HIGHEST - 0.06, linestyle="none", label="goes on beyond the axis", **arrow)


def _offsets(n: int) -> np.ndarray:
    return (np.arange(n) - 0.5 * (n - 1)) * 0.15
