"""The picture of Figure 5: a small panel for each algorithm's density, and bars, as published and as improved."""

from typing import Any

import numpy as np

from decond.paper.figure5_methods import Entry
from decond.paper.figure5_runs import GRID, Bar, Curve, Plan, Runs
from decond.paper.published import published_bar, published_curves
from decond.plotting.style import COLORS, plot_line, title_panel

__all__ = ["draw"]

COLUMNS = 3
PUBLISHED_COLOR = "#D0D0D0"
ROLES = {"as published": "cascade", "as improved": "model", "ours": "density"}
"""The role that gives each form its color."""

LEGEND = ("true posterior", "true value", "in the paper", *ROLES, "misses the true value", "goes on beyond the axis")
"""The order of the legends."""

MISSES: dict[str, Any] = {"facecolor": "white", "hatch": "//////"}
"""How a bar is drawn that misses the true value."""

HIGHEST = -2.0
"""Upper end of the axis of log θ₁; the prior goes on to 2, and an arrow stands where a bar does so too."""

THINNEST = 0.012
"""Length of a bar that collapsed onto a point, so that it can be seen."""


def draw(plan: Plan, runs: Runs, truth: np.ndarray, true_log_rate: float) -> Any:
    """Return the figure: densities of the rate on the left, intervals of log θ₁ on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(17.0, 8.5), layout="constrained")
    parts: Any = figure.subfigures(1, 2, width_ratios=(1.0, 1.2), wspace=0.03)
    left, right = parts
    _draw_densities(left, [entry for entry in plan.curves if entry.label in runs.curves], runs.curves, truth)
    _draw_intervals(right.subplots(), [e for e in plan.bars if e.label in runs.bars], runs.bars, true_log_rate)
    return figure


def _draw_densities(part: Any, entries: list[Entry], curves: dict[str, list[Curve]], truth: np.ndarray) -> None:
    algorithms = list(dict.fromkeys(entry.algorithm for entry in entries))
    rows = -(-(len(algorithms) + 1) // COLUMNS)  # one place is left for the legend
    panels = part.subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False).ravel()
    for ax, algorithm in zip(panels, algorithms, strict=False):
        shown = [entry for entry in entries if entry.algorithm == algorithm]
        for entry in shown:
            role, found = ROLES[entry.form], curves[entry.label]
            for curve in found[1:]:
                plot_line(ax, GRID, curve.density, role, "_other seeds", linewidth=0.5, alpha=0.5)
            plot_line(ax, GRID, found[0].density, role, entry.form)
        plot_line(ax, GRID, truth, "truth", "true posterior", "--", linewidth=1.2)
        title_panel(ax, algorithm)
        text = {"ha": "right", "va": "top", "fontsize": 8, "color": "#555555", "zorder": 5}
        text["bbox"] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}  # curves run behind it
        ax.text(0.97, 0.95, _distances(shown, curves, truth), transform=ax.transAxes, **text)
    panels[0].set(xlim=(GRID[0], GRID[-1]), ylim=(0.0, 1.8 * truth.max()))  # spikes would flatten all others
    for ax in panels[max(0, len(algorithms) - COLUMNS) : len(algorithms)]:  # the lowest of each column
        ax.tick_params(labelbottom=True)
    for ax in panels[len(algorithms) :]:
        ax.set_axis_off()
    handles: dict[str, Any] = {}
    for ax in panels[: len(algorithms)]:
        handles |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    title = "thick: first seed, thin: others"
    handles = {label: handles[label] for label in LEGEND if label in handles}
    panels[len(algorithms)].legend(
        handles.values(), handles.keys(), frameon=False, fontsize=9, loc="center", title=title, title_fontsize=8
    )
    part.suptitle("exponential–gamma: density of the rate, and total variation to the truth", fontsize=11)
    part.supxlabel("rate θ", fontsize=10)


def _distances(entries: list[Entry], curves: dict[str, list[Curve]], truth: np.ndarray) -> str:
    lines = [
        f"{entry.form} {np.mean([curve.total_variation(truth) for curve in curves[entry.label]]):.2f}"
        for entry in entries
    ]
    known = published_curves(entries[0].algorithm, "total_variation")
    return "\n".join([*lines, *(f"in the paper {distance:.2f}" for distance in known)])


def _draw_intervals(ax: Any, entries: list[Entry], bars: dict[str, list[Bar]], true_log_rate: float) -> None:
    from matplotlib.patches import Patch

    for at, entry in enumerate(entries):
        known = published_bar(entry.algorithm) if entry.form == "as published" else None
        if known is not None:
            ax.barh(at, known[1] - known[0], left=known[0], height=0.86, color=PUBLISHED_COLOR, label="in the paper")
        found = bars[entry.label]
        for offset, bar in zip(_offsets(len(found)), found, strict=True):
            _draw_bar(ax, at + offset, bar.interval[:, 0], true_log_rate, entry.form)
    ax.axvline(true_log_rate, color=COLORS["truth"], ls="--", lw=1.2, label="true value")
    names = [
        f"{entry.algorithm}\n{entry.form}, {np.mean([b.n_simulations for b in bars[entry.label]]):,.0f} simulations"
        for entry in entries
    ]
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.set(xlim=(-5.1, HIGHEST), ylim=(len(names) - 0.4, -0.6))  # the first on top
    ax.set_xlabel("log θ₁")
    handles = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    handles |= {form: Patch(color=COLORS[ROLES[form]]) for form in {entry.form for entry in entries}}
    handles["misses the true value"] = Patch(edgecolor=COLORS["truth"], **MISSES)
    handles = {label: handles[label] for label in LEGEND if label in handles}
    above = {"loc": "lower center", "bbox_to_anchor": (0.4, 1.0), "ncols": 4}
    ax.legend(handles.values(), handles.keys(), frameon=False, fontsize=9, **above)
    ax.set_title("Lotka–Volterra: 95 % intervals of log θ₁, one thin bar a seed", fontsize=11, pad=42)


def _draw_bar(ax: Any, at: float, interval: np.ndarray, truth: float, form: str) -> None:
    low, high = interval
    color = COLORS[ROLES[form]]
    style = {"color": color} if low <= truth <= high else MISSES
    ax.barh(at, max(high - low, THINNEST), left=low, height=0.1, edgecolor=color, **style)
    if high > HIGHEST:
        arrow = {"marker": ">", "markersize": 5, "markerfacecolor": "white", "markeredgecolor": COLORS["truth"]}
        ax.plot(HIGHEST - 0.04, at, linestyle="none", label="goes on beyond the axis", **arrow)


def _offsets(n: int) -> np.ndarray:
    return (np.arange(n) - 0.5 * (n - 1)) * 0.15
