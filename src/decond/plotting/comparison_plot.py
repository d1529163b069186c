"""Several methods on one problem in one picture: what each found, how well, and in what time."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from decond.plotting.display import COLORS, Display, make_figure, set_few_ticks, title_panel, verbatim
from decond.plotting.regression_plot import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from decond.plotting.display import AxesLike

__all__ = ["ComparisonDisplay", "Lines", "Rows"]

Range = tuple[float, float]


class Rows(NamedTuple):
    """A panel with one row a method: a value each, or an interval (low, middle, high).

    >>> panel = Rows("seconds", {"smc": 0.5, "dme": 20.0}, log=True)
    >>> panel.is_spans, panel.ideal is None
    (False, True)
    """

    name: str
    values: Mapping[str, Any]
    ideal: float | None = None
    """Where a line is drawn: the truth of intervals, or the best possible value, which the title then names."""
    band: Range | None = None
    """A range behind the rows, such as the exact interval."""
    log: bool = False
    note: str = ""
    """A short title of the panel."""
    start: float | None = None
    """Where the axis begins if all values are above it; by default a little before the smallest value."""

    @property
    def is_spans(self) -> bool:
        """Whether rows are intervals."""
        return any(np.ndim(value) == 1 for value in self.values.values())

    def finite(self) -> dict[str, np.ndarray]:
        """Return the values of methods that have one."""
        values = {label: np.asarray(value, dtype=np.float64) for label, value in self.values.items()}
        return {label: value for label, value in values.items() if np.isfinite(value).all()}


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

    def finite(self) -> Mapping[str, Curve]:
        """Return the curves of methods that have one."""
        return self.curves

    def span(self, labels: Sequence[str]) -> Range | None:
        """Return the range of the truth and of the first half of the curves, in the order of labels."""
        means = [self.curves[label].mean for label in labels if label in self.curves]
        means = [mean for mean in means if np.isfinite(mean).any()]
        shown = means[: -(-len(means) // 2)] + ([] if self.truth is None else [self.truth.mean])
        return (min(map(np.nanmin, shown)), max(map(np.nanmax, shown))) if shown else None


class ComparisonDisplay(Display):
    """Panels beside each other that share one row, or one color, for each method.

    `lfi.compare(...).plot()` and `estimators.compare(...).plot()` make one. Methods without a value in any panel did
    not run, and the picture says so.

    Parameters
    ----------
    labels : sequence of str
        Methods, from top to bottom.
    panels : sequence of Rows and Lines
        From left to right.
    total : int
        How many parameters there are, or columns of x; the picture says so where it has panels for some only.

    Examples
    --------
    >>> panels = [Rows("rate", {"smc": (1.0, 1.7, 2.5)}, ideal=2.0), Rows("seconds", {"smc": 0.5}, log=True)]
    >>> display = ComparisonDisplay(["smc", "mdn"], panels).plot()
    >>> [ax.get_xlabel() for ax in display.axes_], [text.get_text() for text in display.axes_[0].texts]
    (['rate', 'seconds'], ['did not run'])
    """

    palette = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F6000", "#999999")
    """Colors of curves; where there are more curves than colors, they have other dashes, too."""

    def __init__(self, labels: Sequence[str], panels: Sequence[Rows | Lines], total: int = 0) -> None:
        self.labels, self.panels, self.total = list(labels), list(panels), total

    def plot(self, ax: "AxesLike" = None) -> Self:
        """Draw the panels into axes of yours, as many as there are panels, or into a new figure."""
        if ax is None:
            self._new_axes()
        else:
            self._panels(ax, len(self.panels), len(self.panels))
        rows = [(panel, part) for panel, part in zip(self.axes_, self.panels, strict=True) if isinstance(part, Rows)]
        lines = [
            (panel, part) for panel, part in zip(self.axes_, self.panels, strict=True) if isinstance(part, Lines)
        ]
        colors = self._colors(bool(lines))
        for panel, curves in lines:
            _draw_lines(panel, curves, colors, self.labels)
        for panel, values in rows:
            _draw_rows(panel, values, self.labels, colors)
            _name_rows(panel, self.labels if panel is rows[0][0] else [""] * len(self.labels))
        if rows:
            self._mark_absent(rows[0][0])
        _share_range(lines, self.labels)
        self._title(rows, lines)
        return self

    def _new_axes(self) -> None:
        spans = sum(isinstance(part, Rows) and part.is_spans for part in self.panels)
        has_lines = any(isinstance(part, Lines) for part in self.panels)
        inches = [
            4.2 if isinstance(part, Lines) else min(4.2, 8.4 / spans) if part.is_spans else 2.3
            for part in self.panels
        ]
        height = max(1.3 + 0.3 * len(self.labels), 4.0 if has_lines else 2.2)
        figure = make_figure((sum(inches) + 1.2, height))
        grid = figure.subplots(1, len(self.panels), squeeze=False, gridspec_kw={"width_ratios": inches})
        self._keep(grid.ravel(), len(self.panels))
        self._made_figure = True

    def _colors(self, has_lines: bool) -> dict[str, tuple[str, str]]:
        """Return color and dashes for each method: one for all unless curves are to be told apart."""
        if not has_lines:
            return dict.fromkeys(self.labels, (COLORS["posterior"], "-"))
        count, dashes = len(self.palette), ("-", "--", ":")
        return {label: (self.palette[i % count], dashes[i // count % 3]) for i, label in enumerate(self.labels)}

    def _mark_absent(self, ax: "Axes") -> None:
        shown = {label for part in self.panels for label in part.finite()}
        for row, label in enumerate(self.labels):
            if label not in shown:
                at: Any = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 8}
                ax.text(0.02, row, "did not run", color="#777777", **at)

    def _title(self, rows: "list[tuple[Axes, Rows]]", lines: "list[tuple[Axes, Lines]]") -> None:
        """Write above the first panel how many of all parameters or columns are shown."""
        spans = [(ax, part) for ax, part in rows if part.is_spans]
        if lines and max(len(lines), self.total) > 1:
            some = f"{len(lines)} of {self.total} columns, each" if len(lines) < self.total else "each column"
            title_panel(lines[0][0], f"{some} alone, the others at their median")
        elif 0 < len(spans) < self.total:
            ax, part = spans[0]
            some = f"first {len(spans)} of {self.total} parameters"
            title_panel(ax, f"{some}: {part.note}" if part.note else some)


def _share_range(lines: "list[tuple[Axes, Lines]]", labels: Sequence[str]) -> None:
    """Give all curves one range that holds the better half and the truth, so that wild ones do not flatten them."""
    spans = [span for _, part in lines if (span := part.span(labels)) is not None]
    if spans:
        low, high = min(span[0] for span in spans), max(span[1] for span in spans)
        room = 0.5 * (high - low) or 1.0
        bottoms, tops = zip(*(ax.get_ylim() for ax, _ in lines), strict=True)
        for ax, _ in lines:
            ax.set_ylim(max(min(bottoms), low - room), min(max(tops), high + room))


def _draw_rows(ax: "Axes", part: Rows, labels: Sequence[str], colors: Mapping[str, tuple[str, str]]) -> None:
    if part.band is not None:
        ax.axvspan(*part.band, color=COLORS["band"], alpha=0.2, linewidth=0)
    if part.ideal is not None:
        ax.axvline(part.ideal, color=COLORS["truth"], linewidth=0.9)
    for label, value in part.finite().items():
        row, color = labels.index(label), colors[label][0]
        if value.ndim:
            ax.plot(value[[0, -1]], [row, row], color=color, linewidth=3.0, alpha=0.55, solid_capstyle="butt")
            ax.plot(value[1], row, marker="o", markersize=5, color=color)
        else:
            ax.plot(value, row, marker="o", markersize=6, color=color)
            at: Any = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 7.5, "color": "#333333"}
            ax.text(1.03, row, f"{value:.3g}", **at)
    ax.set_xlabel(verbatim(part.name))
    best = f"line: {part.ideal:g}, the best" if part.ideal is not None and not part.is_spans else ""
    title_panel(ax, part.note or best)
    if part.log:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.tick_params(labelsize=8)
        return
    set_few_ticks(ax, 8)
    if part.start is not None and all(value.min() >= part.start for value in part.finite().values()):
        high = ax.get_xlim()[1]
        room = 0.04 * (high - part.start)
        ax.set_xlim(part.start - room, high + room)


def _name_rows(ax: "Axes", names: Sequence[str]) -> None:
    """Write the methods beside a panel of rows."""
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_yticks(range(len(names)), list(map(verbatim, names)))
    ax.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    ax.set_axisbelow(True)


def _draw_lines(ax: "Axes", part: Lines, colors: Mapping[str, tuple[str, str]], labels: Sequence[str]) -> None:
    for label in labels:
        if (curve := part.curves.get(label)) is not None:
            color, dashes = colors[label]
            ax.plot(curve.x, curve.mean, color=color, linestyle=dashes, linewidth=1.6, label=verbatim(label))
    if part.truth is not None:
        ax.plot(part.truth.x, part.truth.mean, color=COLORS["truth"], linewidth=1.4, label="truth")
    first = next(iter(part.curves.values()), None)
    ax.set(xlabel="" if first is None else verbatim(first.name), ylabel=verbatim(part.name))
    ax.legend(frameon=False, fontsize=7.5)
