"""Several methods on one problem in one picture: what each found, how well, and in what time."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from decond.plotting.figures import Display, make_figure
from decond.plotting.functions import Curve
from decond.plotting.style import BAND_ALPHA, COLORS, few_ticks, title_panel, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ComparisonDisplay", "Lines", "Rows"]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F6000", "#999999")
STYLES = ("-", "--", ":")
"""Lines have a color each; where there are more of them than colors, other dashes too."""

WIDE, NARROW = 4.2, 2.3
"""Inches across of a panel with lines or intervals, and of one with values."""

ROOM = 0.26
"""Share of a panel at its right that is kept for the values of its dots."""

FEW = 2
"""Panels of intervals that are drawn wide; more of them share the room."""


class Rows(NamedTuple):
    """A panel with one row a method: a value each, or an interval (low, middle, high).

    >>> panel = Rows("seconds", {"smc": 0.5, "dme": 20.0}, log=True)
    >>> panel.is_spans, panel.ideal is None
    (False, True)
    """

    name: str
    values: Mapping[str, Any]
    ideal: float | None = None
    """Where a line is drawn: the truth of intervals, or the best that a value can be, which is then said above."""
    band: tuple[float, float] | None = None
    """A range behind the rows, such as the exact interval."""
    log: bool = False
    note: str = ""
    """A few words above the panel."""
    start: float | None = None
    """Where the axis begins, or at the smallest value if that is less; by default a little before that."""

    @property
    def is_spans(self) -> bool:
        """Whether rows are intervals."""
        return any(np.ndim(value) == 1 for value in self.values.values())


class Lines(NamedTuple):
    """A panel with one curve a method, and the true one where it is known.

    >>> curve = Curve("wind", np.array([0.0, 1.0]), np.array([2.0, 3.0]))
    >>> Lines("power", {"honest": curve}).truth is None
    True
    """

    name: str
    """What the curves are of, along the vertical axis."""
    curves: Mapping[str, Curve]
    truth: Curve | None = None

    def span(self, labels: Sequence[str]) -> tuple[float, float] | None:
        """Return the range of the truth and of the first half of the curves, in the order of labels."""
        means = [self.curves[label].mean for label in labels if label in self.curves]
        means = [mean for mean in means if np.isfinite(mean).any()]
        shown = means[: -(-len(means) // 2)] + ([] if self.truth is None else [self.truth.mean])
        return (min(map(np.nanmin, shown)), max(map(np.nanmax, shown))) if shown else None


class ComparisonDisplay(Display):
    """Panels beside each other that share one row, or one color, for each method.

    `lfi.compare(...).plot()` and `estimators.compare(...).plot()` make one. Methods without a value in any panel
    of rows did not run, and it says so. After `plot`: `axes_`, one for each panel.

    Parameters:
        labels: methods, from top to bottom.
        panels: `Rows` and `Lines`, from left to right.
        total: how many parameters there are, or columns of x; the picture says so where it has panels for some only.

    >>> panels = [Rows("rate", {"smc": (1.0, 1.7, 2.5)}, ideal=2.0), Rows("seconds", {"smc": 0.5}, log=True)]
    >>> display = ComparisonDisplay(["smc", "mdn"], panels).plot()
    >>> [ax.get_xlabel() for ax in display.axes_], [text.get_text() for text in display.axes_[0].texts]
    (['rate', 'seconds'], ['did not run'])
    """

    def __init__(self, labels: Sequence[str], panels: Sequence[Rows | Lines], total: int = 0) -> None:
        self.labels, self.panels, self.total = list(labels), list(panels), total

    def plot(self, ax: Any = None) -> Self:
        """Draw the panels into axes of yours, as many as there are panels, or into a new figure."""
        if ax is None:
            self._new_axes()
        else:
            self._panels(ax, len(self.panels), len(self.panels), (8.0, 4.0))
        colors = self._colors()
        named = False
        for panel, part in zip(self.axes_, self.panels, strict=True):
            if isinstance(part, Lines):
                _draw_lines(panel, part, colors, self.labels)
            else:
                _draw_rows(panel, part, self.labels, colors)
                _name_rows(panel, self.labels, named)
                if not named:
                    self._mark_absent(panel)
                named = True
        self._share_range()
        self._say_what_is_shown()
        return self

    def _say_what_is_shown(self) -> None:
        """Write above the first panel which part of all parameters or columns is shown, and where others are held."""
        drawn = list(zip(self.axes_, self.panels, strict=True))
        lines = [ax for ax, part in drawn if isinstance(part, Lines)]
        spans = [(ax, part) for ax, part in drawn if isinstance(part, Rows) and part.is_spans]
        if lines and max(len(lines), self.total) > 1:
            some = f"{len(lines)} of {self.total} columns, each" if len(lines) < self.total else "each column"
            title_panel(lines[0], f"{some} alone, the others at their median")
        elif 0 < len(spans) < self.total:
            ax, part = spans[0]
            some = f"first {len(spans)} of {self.total} parameters"
            title_panel(ax, f"{some}: {part.note}" if part.note else some)

    def _share_range(self) -> None:
        """Keep wild curves from flattening the others: one range, which holds the better half and the truth."""
        drawn = [(ax, part) for ax, part in zip(self.axes_, self.panels, strict=True) if isinstance(part, Lines)]
        held = [part.span(self.labels) for _, part in drawn]
        spans = [span for span in held if span is not None]
        if not spans:
            return
        low, high = min(span[0] for span in spans), max(span[1] for span in spans)
        room = 0.5 * (high - low) or 1.0
        bottoms, tops = zip(*(ax.get_ylim() for ax, _ in drawn), strict=True)
        for ax, _ in drawn:
            ax.set_ylim(max(min(bottoms), low - room), min(max(tops), high + room))

    def _new_axes(self) -> None:
        spans = sum(isinstance(part, Rows) and part.is_spans for part in self.panels)
        widths = [
            WIDE * (1.0 if isinstance(part, Lines) else min(1.0, FEW / spans))
            if isinstance(part, Lines) or part.is_spans
            else NARROW
            for part in self.panels
        ]
        height = 1.3 + 0.3 * len(self.labels)
        tall = max(height, 4.0) if any(isinstance(part, Lines) for part in self.panels) else max(height, 2.2)
        figure = make_figure((sum(widths) + 1.2, tall))
        grid = {"width_ratios": widths}
        self._made_figure, self.figure_ = True, figure
        self.axes_ = figure.subplots(1, len(self.panels), squeeze=False, gridspec_kw=grid).ravel()
        self.ax_ = self.axes_[0]

    def _colors(self) -> dict[str, tuple[str, str]]:
        """Return color and dashes for each method: one for all unless curves are to be told apart."""
        if not any(isinstance(part, Lines) for part in self.panels):
            return dict.fromkeys(self.labels, (COLORS["posterior"], "-"))
        count = len(PALETTE)
        return {label: (PALETTE[i % count], STYLES[i // count % len(STYLES)]) for i, label in enumerate(self.labels)}

    def _mark_absent(self, ax: "Axes") -> None:
        shown = {
            label
            for part in self.panels
            for label, value in (part.values if isinstance(part, Rows) else part.curves).items()
            if isinstance(value, Curve) or np.isfinite(np.asarray(value, dtype=np.float64)).any()
        }
        for row, label in enumerate(self.labels):
            if label not in shown:
                at: Any = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 8}
                ax.text(0.02, row, "did not run", color="#777777", **at)


def _draw_rows(ax: "Axes", part: Rows, labels: Sequence[str], colors: Mapping[str, tuple[str, str]]) -> None:
    if part.band is not None:
        ax.axvspan(*part.band, color=COLORS["band"], alpha=BAND_ALPHA, linewidth=0)
    if part.ideal is not None:
        ax.axvline(part.ideal, color=COLORS["truth"], linewidth=0.9)
    if part.log:
        ax.set_xscale("log")
    for row, label in enumerate(labels):
        value = np.asarray(part.values.get(label, np.nan), dtype=np.float64)
        color = colors[label][0]
        if not np.isfinite(value).all():
            continue
        if value.ndim:
            ax.plot([value[0], value[-1]], [row, row], color=color, linewidth=3.0, alpha=0.55, solid_capstyle="butt")
            ax.plot([value[1]], [row], marker="o", markersize=5, color=color)
        else:
            ax.plot([float(value)], [row], marker="o", markersize=6, color=color)
            _write_value(ax, float(value), row)
    ax.set_xlabel(verbatim(part.name))
    best = f"line: {part.ideal:g}, the best" if part.ideal is not None and not part.is_spans else ""
    title_panel(ax, part.note or best)
    _leave_room(ax, part)


def _write_value(ax: "Axes", value: float, row: int) -> None:
    """Write a value at the right end of its row, where neither dots nor a line are."""
    at: Any = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "center", "fontsize": 7.5}
    ax.text(0.98, row, f"{value:.3g}", color="#333333", bbox={"color": ax.get_facecolor(), "pad": 1.0}, **at)


def _leave_room(ax: "Axes", part: Rows) -> None:
    """Set few ticks, and leave room at the right for the values."""
    if part.log:
        _set_decades(ax)
        return
    few_ticks(ax, 8)
    if not part.is_spans:
        low, high = ax.get_xlim()
        if part.start is not None:
            start = np.nanmin([part.start, *np.asarray(list(part.values.values()), dtype=np.float64)])
            low = start - 0.04 * (high - start)
        ax.set_xlim(low, low + (high - low) / (1.0 - ROOM))


def _set_decades(ax: "Axes") -> None:
    """Let a log axis begin and end at powers of ten, written as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = np.log10(ax.get_xlim())
    low = np.floor(low)
    ax.set_xlim(10.0**low, 10.0 ** np.ceil(low + (high - low) / (1.0 - ROOM)))
    ax.xaxis.set_major_locator(LogLocator(numticks=6))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(labelsize=8)


def _name_rows(ax: "Axes", labels: Sequence[str], named: bool) -> None:
    """Write the methods beside the first panel of rows; others have the same rows."""
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.set_yticks(range(len(labels)), [] if named else [verbatim(label) for label in labels])
    ax.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    ax.set_axisbelow(True)


def _draw_lines(ax: "Axes", part: Lines, colors: Mapping[str, tuple[str, str]], labels: Sequence[str]) -> None:
    for label in labels:
        curve = part.curves.get(label)
        if curve is None:
            continue
        color, dashes = colors[label]
        ax.plot(curve.x, curve.mean, color=color, linestyle=dashes, linewidth=1.6, label=verbatim(label))
    if part.truth is not None:
        ax.plot(part.truth.x, part.truth.mean, color=COLORS["truth"], linewidth=1.4, label="truth")
    first = next(iter(part.curves.values()), None)
    ax.set(xlabel="" if first is None else verbatim(first.name), ylabel=verbatim(part.name))
    ax.legend(frameon=False, fontsize=7.5)
