"""Pictures in one style, with colors that color-blind readers can tell apart (Okabe & Ito 2008)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLORS",
    "MAX_PANELS",
    "MAX_PREDICTIVE",
    "new_figure",
    "plot_band",
    "plot_coverage",
    "plot_line",
    "plot_model",
    "plot_pairs",
    "plot_points",
    "plot_predictive",
    "plot_ranks",
    "plot_text",
]

MAX_PANELS = 6
"""Columns of x that a picture of a model shows at most."""

MAX_DOTS = 2000
"""Rows of data that a picture shows at most, evenly chosen."""

MAX_PREDICTIVE = 12
"""Summaries that a predictive check shows at most."""

CONTOURS = (0.5, 0.8, 0.95)
"""Shares of the draws inside the contours of a pair plot."""

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


def new_figure(panels: int, size: tuple[float, float] | None = None) -> "tuple[Figure, list[Axes]]":
    """Return a figure with this many panels, at most four beside each other."""
    from matplotlib.figure import Figure

    across = min(4, panels)
    down = -(-panels // across)
    figure = Figure(figsize=size or (max(2.9 * across, 4.0), 2.5 * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for ax in axes[panels:]:
        ax.set_axis_off()
    return figure, list(axes[:panels])


def plot_pairs(samples: Any, names: Sequence[str], truth: Any = None, axes: Any = None) -> "Figure":
    """Draw draws of several parameters: their densities on the diagonal, pairs below it, correlations above.

    The contours of a pair hold 50, 80 and 95 % of the draws. `truth` is drawn as lines, where it is known. Without
    `axes`, an array (d, d) of them, a new figure is made.

    >>> rng = np.random.default_rng(0)
    >>> figure = plot_pairs(rng.normal(size=(500, 2)), ["rate", "share"], truth=[0.0, 0.0])
    >>> len(figure.axes)
    4
    """
    from matplotlib.figure import Figure

    rows = np.asarray(samples, dtype=np.float64)
    d = len(names)
    if rows.ndim != 2 or rows.shape[1] != d or len(rows) < 2:
        raise ValueError(f"samples has shape {rows.shape}; give at least two rows of {d} columns, one for each name.")
    known = None if truth is None else np.asarray(truth, dtype=np.float64).ravel()
    if known is not None and len(known) != d:
        raise ValueError(f"truth has {len(known)} values but there are {d} names; give one for each.")
    if axes is None:
        side = 4.0 if d == 1 else max(1.15, 2.2 - 0.12 * d) * d + 0.8
        axes = Figure(figsize=(side, side), layout="constrained").subplots(d, d, squeeze=False)
    ranges = [_range(column, None if known is None else known[j]) for j, column in enumerate(rows.T)]
    small = max(6.5, 9.5 - 0.4 * d)
    for i in range(d):
        for j in range(d):
            ax = axes[i, j]
            if i == j:
                _plot_marginal(ax, rows[:, i], ranges[i])
            elif i > j:
                _plot_pair(ax, rows[:, j], rows[:, i], ranges[j], ranges[i])
            else:
                _write_correlation(ax, rows[:, i], rows[:, j], small)
                continue
            _mark_truth(ax, known, i, j)
            _label_pair(ax, i, j, names, small)
    figure: Figure = axes[0, 0].figure
    return figure


def plot_ranks(
    ax: "Axes", counts: Any, shares: Any, name: str, note: str = "", *, wrong: bool = False, level: float = 0.01
) -> "Axes":
    """Draw a histogram of ranks beside the band that each bin of uniform ranks leaves with probability `level`."""
    from scipy.stats import binom

    bins, expected = np.asarray(counts, dtype=np.float64), np.asarray(shares, dtype=np.float64)
    n = int(bins.sum())
    edges = np.concatenate([[0.0], np.cumsum(expected)])
    scale = n * expected
    low, high = (binom.ppf(tail, n, expected) / scale for tail in (level / 2.0, 1.0 - level / 2.0))
    ax.stairs(bins / scale, edges, fill=True, color=COLORS["observed" if wrong else "posterior"], alpha=0.5)
    ax.stairs(high, edges, baseline=low, fill=True, color=COLORS["band"], alpha=0.25)
    for end in (low, high):
        ax.stairs(end, edges, baseline=None, color=COLORS["truth"], lw=0.7, ls=":")
    ax.axhline(1.0, color=COLORS["truth"], lw=0.8)
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, max(2.4, 1.25 * float((bins / scale).max()))))
    ax.set(xticks=[0.0, 0.5, 1.0], xticklabels=["0", ".5", "1"])
    ax.tick_params(labelsize=7)
    ax.set_title(name, fontsize=9, loc="left", pad=3)
    _note(ax, note)
    return ax


def plot_coverage(
    ax: "Axes",
    levels: Any,
    shares: dict[str, Any],
    band: tuple[Any, Any, Any],
    band_label: str = "calibrated",
    joint: str = "",
) -> "Axes":
    """Draw how often intervals of each level hold the truth; a calibrated method stays in the band.

    The curve called `joint` has a color of its own; the others, one for each parameter, share theirs.
    """
    at, low, high = band
    ax.fill_between(at, low, high, color=COLORS["band"], alpha=0.3, lw=0, label=band_label)
    ax.plot([0.0, 1.0], [0.0, 1.0], color=COLORS["truth"], lw=0.8)
    label: str | None = "each parameter"
    for name, values in shares.items():
        together = name == joint
        color = COLORS["density" if together else "posterior"]
        ax.plot(levels, values, ".-", ms=4, lw=1.3, color=color, alpha=0.8, label=joint if together else label)
        label = label if together else None
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), xlabel="level of the interval", ylabel="share that holds the truth")
    ax.tick_params(labelsize=8)
    ax.legend(frameon=False, fontsize=8, loc="upper left")
    return ax


def plot_predictive(ax: "Axes", simulated: Any, observed: float, name: str, note: str = "") -> "Axes":
    """Draw a histogram of one simulated summary, with the observation as a line."""
    values = np.asarray(simulated, dtype=np.float64)
    low, high = np.quantile(values, [0.005, 0.995])
    shown = values[(values >= low) & (values <= high)]
    ax.hist(shown, bins=int(np.clip(len(values) ** 0.5, 5, 25)), color=COLORS["posterior"], alpha=0.5)
    ax.axvline(observed, color=COLORS["observed"], lw=1.8)
    _few_ticks(ax, 7.0)
    ax.set_yticks([])
    ax.set_title(name, fontsize=9, loc="left", pad=3)
    _note(ax, note)
    return ax


def plot_text(ax: "Axes", title: str, sentences: Sequence[str], width: int = 60, most: int = 24) -> "Axes":
    """Write a title and sentences, in at most `most` lines of at most `width` letters."""
    import textwrap

    head = textwrap.wrap(title, width * 3 // 5)
    lines = [line for sentence in sentences for line in textwrap.wrap(sentence, width, subsequent_indent="   ")]
    if len(lines) > most:
        lines = [*lines[: most - 1], "…"]
    ax.set_axis_off()
    top = ax.annotate("\n".join(head), (0.0, 1.0), xycoords="axes fraction", fontsize=14, weight="bold", va="top")
    drop = -22.0 * len(head)
    body = ax.annotate(
        "\n".join(lines),
        (0.0, 1.0),
        (0.0, drop),
        "axes fraction",
        "offset points",
        fontsize=9,
        va="top",
        linespacing=1.35,
    )
    for text in (top, body):
        text.set_in_layout(False)  # words may be long, and panels keep their size
    return ax


def _note(ax: "Axes", note: str) -> None:
    """Write a few words above the right end of a panel."""
    ax.set_title(note, fontsize=7, loc="right", pad=3, color="#555555")


def _few_ticks(ax: "Axes", size: float, axis: str = "x", most: int = 3) -> None:
    """Leave a few round ticks, so that numbers do not run into each other."""
    from matplotlib.ticker import MaxNLocator

    ax.tick_params(labelsize=size)
    for letter in axis:
        line = ax.xaxis if letter == "x" else ax.yaxis
        line.set_major_locator(MaxNLocator(most, min_n_ticks=2))
        line.get_offset_text().set_fontsize(size)
    ax.ticklabel_format(axis="both" if len(axis) == 2 else "x", style="sci", scilimits=(-2, 4))


def _range(column: np.ndarray, truth: float | None) -> tuple[float, float]:
    """Return the span of almost all draws, and of the truth, a little widened."""
    low, high = (float(value) for value in np.quantile(column, [0.001, 0.999]))
    if truth is not None:
        low, high = min(low, truth), max(high, truth)
    margin = 0.04 * (high - low) or 0.05 * abs(low) or 1.0
    return low - margin, high + margin


def _plot_marginal(ax: "Axes", values: np.ndarray, span: tuple[float, float]) -> None:
    """Draw a histogram that is smoothed as much as its spread and size call for; it ends where the draws end."""
    from scipy.ndimage import gaussian_filter1d

    inside = (max(span[0], values.min()), min(span[1], values.max()))
    ends = inside if inside[1] > inside[0] else span
    density, edges = np.histogram(values, bins=200, range=ends, density=True)
    width = 1.06 * len(np.unique(values)) ** -0.2 * _local_spread(values) / (edges[1] - edges[0])
    height = gaussian_filter1d(density, max(width, 1.0), mode="reflect")
    middle = (edges[1:] + edges[:-1]) / 2.0
    ax.fill_between(middle, height, color=COLORS["posterior"], alpha=0.25, lw=0)
    ax.plot(middle, height, color=COLORS["posterior"], lw=1.4)
    ax.set(xlim=span, ylim=(0.0, None), yticks=[])


def _plot_pair(
    ax: "Axes", x: np.ndarray, y: np.ndarray, x_span: tuple[float, float], y_span: tuple[float, float]
) -> None:
    """Draw contours that hold given shares of the draws, from a smoothed histogram."""
    from scipy.ndimage import gaussian_filter

    counts, x_edges, y_edges = np.histogram2d(x, y, bins=80, range=[x_span, y_span])
    widths = [_local_spread(v) / (e[1] - e[0]) for v, e in ((x, x_edges), (y, y_edges))]
    shrink = len(np.unique(x)) ** (-1.0 / 6.0)  # draws may repeat, and repeated draws tell nothing new
    height = gaussian_filter(counts, np.maximum(np.multiply(widths, shrink), 1.0))
    falling = np.sort(height.ravel())[::-1]
    held = np.cumsum(falling) / falling.sum()
    levels = sorted({float(falling[np.searchsorted(held, share)]) for share in CONTOURS})
    middles = [(edges[1:] + edges[:-1]) / 2.0 for edges in (x_edges, y_edges)]
    for level in levels:
        ax.contourf(*middles, height.T, levels=[level, np.inf], colors=[COLORS["posterior"]], alpha=0.25)
    ax.contour(*middles, height.T, levels=levels, colors=[COLORS["posterior"]], linewidths=0.7)
    ax.set(xlim=x_span, ylim=y_span)


def _local_spread(values: np.ndarray) -> float:
    """Return the standard deviation of a normal peak as narrow as the narrowest quarter of the draws."""
    order, quarter = np.sort(values), max(1, len(values) // 4)
    return float((order[quarter:] - order[:-quarter]).min()) / 0.637


def _write_correlation(ax: "Axes", x: np.ndarray, y: np.ndarray, size: float) -> None:
    ax.set_axis_off()
    if x.std() > 0.0 and y.std() > 0.0:
        r = round(float(np.corrcoef(x, y)[0, 1]), 2) + 0.0
        shade = f"{0.75 * (1.0 - abs(r)):.2f}"
        ax.text(
            0.5, 0.5, f"{r:+.2f}", transform=ax.transAxes, ha="center", va="center", fontsize=size + 2.0, color=shade
        )


def _mark_truth(ax: "Axes", truth: np.ndarray | None, i: int, j: int) -> None:
    if truth is None:
        return
    ax.axvline(truth[j], color=COLORS["observed"], lw=1.1)
    if i != j:
        ax.axhline(truth[i], color=COLORS["observed"], lw=1.1)


def _label_pair(ax: "Axes", i: int, j: int, names: Sequence[str], size: float) -> None:
    """Label the left column and the bottom row only."""
    _few_ticks(ax, size - 1.0, "x" if i == j else "xy", 5 if len(names) < 4 else 3)
    if i == len(names) - 1:
        ax.set_xlabel(names[j], fontsize=size)
        ax.tick_params(axis="x", labelrotation=45.0 if len(names) > 3 else 0.0)
    else:
        ax.tick_params(labelbottom=False)
    if j == 0 and i > 0:
        ax.set_ylabel(names[i], fontsize=size)
    elif i != j:
        ax.tick_params(labelleft=False)
