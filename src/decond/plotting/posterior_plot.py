"""Pictures of a posterior: its draws, and whether it is to be trusted (coverage, ranks, predictions)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import check_same_length
from decond.errors import ArgumentError
from decond.plotting.display import COLORS, Display, grid_of, make_figure, set_few_ticks, title_panel, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from decond.plotting.display import AxesLike

__all__ = ["CoverageDisplay", "DiagnosisDisplay", "PairsDisplay", "PredictiveDisplay", "RanksDisplay"]

Floats = NDArray[np.float64]
Range = tuple[float, float]


class PairsDisplay(Display):
    """Draws of several parameters: their densities on the diagonal, pairs below it, correlations above.

    The contours of a pair hold 50, 80 and 95 % of the draws.

    Parameters
    ----------
    samples : array_like of shape (n, d)
        Draws.
    names : sequence of str
        Names of the d parameters.
    truth : array_like of shape (d,), optional
        Values of the parameters where they are known, drawn as lines.

    Attributes
    ----------
    axes_ : ndarray of axes of shape (d, d)
    lines_ : list of matplotlib lines
        The d marginals.
    contours_ : dict
        Contours by the pair (i, j) of row and column.
    truth_lines_ : list of matplotlib lines

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> display = PairsDisplay(rng.normal(size=(500, 2)), ["rate", "share"], truth=[0.0, 0.0]).plot()
    >>> display.axes_.shape
    (2, 2)
    """

    def __init__(self, samples: ArrayLike, names: Sequence[str], *, truth: ArrayLike | None = None) -> None:
        self.samples, self.names = np.asarray(samples, dtype=np.float64), list(names)
        self.truth = None if truth is None else np.asarray(truth, dtype=np.float64).ravel()
        shape, d = self.samples.shape, len(self.names)
        if len(shape) != 2 or shape[1] != d or shape[0] < 2:
            raise ArgumentError(
                "samples", f"samples has shape {shape}; give at least two rows of {d} columns, one for each name."
            )
        if self.truth is not None:
            check_same_length(self.truth, "truth", d, "names")

    @classmethod
    def from_posterior(
        cls,
        posterior: Any,
        truth: ArrayLike | None = None,
        *,
        ax: "AxesLike" = None,
        color: str = COLORS["posterior"],
    ) -> Self:
        """Draw the draws of a posterior of `lfi`; `posterior.plot()` is short for it.

        Parameters
        ----------
        posterior : lfi.Posterior
        truth : array_like of shape (d,), optional
            Values of the parameters where they are known.
        ax, color
            As in `plot`.

        Returns
        -------
        PairsDisplay

        Examples
        --------
        >>> from scipy import stats
        >>> from decond.lfi import Posterior, Prior
        >>> posterior = Posterior(Prior({"rate": stats.gamma(2)}), lambda n, rng: rng.gamma(4.0, 0.5, (n, 1)))
        >>> PairsDisplay.from_posterior(posterior).ax_.get_xlabel()
        'rate'
        """
        return cls(posterior.samples, posterior.names, truth=truth).plot(ax, color=color)

    def plot(self, ax: "AxesLike" = None, *, color: str = COLORS["posterior"]) -> Self:
        """Draw all marginals and pairs.

        Parameters
        ----------
        ax : axes or array of axes of shape (d, d), optional
            One of your axes, one for each panel, or None for a new figure.
        color : str
            Color of the densities.

        Returns
        -------
        PairsDisplay
            Itself.
        """
        d = len(self.names)
        side = 4.0 if d == 1 else max(1.15, 2.2 - 0.12 * d) * d + 0.8
        self.axes_ = self._panels(ax, d * d, d, (side, side)).reshape(d, d)
        draws = self.samples.T
        spans = [range_of(row, None if self.truth is None else self.truth[j]) for j, row in enumerate(draws)]
        self.lines_: list[Any] = []
        self.contours_: dict[tuple[int, int], Any] = {}
        self.truth_lines_: list[Any] = []
        size = max(6.5, 9.5 - 0.4 * d)
        for (i, j), panel in np.ndenumerate(self.axes_):
            if i < j:
                _write_correlation(panel, draws[i], draws[j], size + 2.0)
                continue
            if i == j:
                self.lines_.append(_plot_marginal(panel, draws[i], spans[i], color))
            else:
                self.contours_[i, j] = _plot_pair(panel, draws[[j, i]], (spans[j], spans[i]), color)
            self._mark_truth(panel, i, j)
            self._label(panel, i, j, size)
        return self

    def _mark_truth(self, ax: "Axes", i: int, j: int) -> None:
        if self.truth is None:
            return
        self.truth_lines_.append(ax.axvline(self.truth[j], color=COLORS["observed"], lw=1.1))
        if i != j:
            self.truth_lines_.append(ax.axhline(self.truth[i], color=COLORS["observed"], lw=1.1))

    def _label(self, ax: "Axes", i: int, j: int, size: float) -> None:
        """Label the left column and the bottom row only."""
        d = len(self.names)
        set_few_ticks(ax, size - 1.0, both=i != j, most=5 if d < 4 else 3)
        if i == d - 1:
            ax.set_xlabel(verbatim(self.names[j]), fontsize=size)
            ax.tick_params(axis="x", labelrotation=45.0 if d > 3 else 0.0)
        else:
            ax.tick_params(labelbottom=False)
        if j == 0 and i > 0:
            ax.set_ylabel(verbatim(self.names[i]), fontsize=size)
        elif i != j:
            ax.tick_params(labelleft=False)


def _plot_marginal(ax: "Axes", values: Floats, span: Range, color: str) -> Any:
    at, height = marginal_density(values, span)
    ax.fill_between(at, height, color=color, alpha=0.25, lw=0)
    ax.set(xlim=span, yticks=[])
    line = ax.plot(at, height, color=color, lw=1.4)[0]
    ax.set_ylim(0.0, None)
    return line


def _plot_pair(ax: "Axes", pair: Floats, spans: tuple[Range, Range], color: str) -> Any:
    """Draw contours that hold given fractions of the draws, and return them."""
    grid, height, levels = joint_density(pair[0], pair[1], *spans)
    for level in levels:
        ax.contourf(*grid, height.T, levels=[level, np.inf], colors=[color], alpha=0.25)
    ax.set(xlim=spans[0], ylim=spans[1])
    return ax.contour(*grid, height.T, levels=levels, colors=[color], linewidths=0.7)


def _write_correlation(ax: "Axes", x: Floats, y: Floats, size: float) -> None:
    ax.set_axis_off()
    if x.std() > 0.0 and y.std() > 0.0:
        r = round(float(np.corrcoef(x, y)[0, 1]), 2) + 0.0  # no minus before a zero
        shade = f"{0.75 * (1.0 - abs(r)):.2f}"
        ax.text(0.5, 0.5, f"{r:+.2f}", fontsize=size, color=shade, transform=ax.transAxes, ha="center", va="center")


def range_of(draws: Floats, truth: float | None = None) -> Range:
    """Return the range of almost all draws, widened a little, and to hold the true value.

    Parameters
    ----------
    draws : ndarray of shape (n,)
    truth : float, optional

    Returns
    -------
    low, high : float
    """
    low, high = (float(value) for value in np.quantile(draws, [0.001, 0.999]))
    if truth is not None:
        low, high = min(low, truth), max(high, truth)
    margin = 0.04 * (high - low) or 0.05 * abs(low) or 1.0
    return low - margin, high + margin


def marginal_density(draws: Floats, span: Range) -> tuple[Floats, Floats]:
    """Return points and the density there: a smoothed histogram that ends where the draws end.

    Parameters
    ----------
    draws : ndarray of shape (n,)
    span : tuple of float
        Ends outside which nothing is returned.

    Returns
    -------
    at, density : ndarray of shape (200,)

    Examples
    --------
    >>> at, height = marginal_density(np.random.default_rng(0).uniform(size=1000), (-1.0, 2.0))
    >>> bool(at.min() > 0.0 and at.max() < 1.0)
    True
    """
    from scipy.ndimage import gaussian_filter1d

    inside = (max(span[0], draws.min()), min(span[1], draws.max()))
    ends = inside if inside[1] > inside[0] else span
    density, edges = np.histogram(draws, bins=200, range=ends, density=True)
    width = 1.06 * len(np.unique(draws)) ** -0.2 * _local_deviation(draws) / (edges[1] - edges[0])
    height = gaussian_filter1d(density, max(width, 1.0), mode="reflect")
    return (edges[1:] + edges[:-1]) / 2.0, height


def joint_density(x: Floats, y: Floats, x_span: Range, y_span: Range) -> tuple[list[Floats], Floats, list[float]]:
    """Return a grid, the smoothed counts on it, and the levels above which 95, 80 and 50 % of the draws lie.

    Parameters
    ----------
    x, y : ndarray of shape (n,)
        Draws of two parameters.
    x_span, y_span : tuple of float
        Ends of the grid.

    Returns
    -------
    grid : list of two ndarray of shape (80,)
    height : ndarray of shape (80, 80)
    levels : list of float
        In rising order.
    """
    from scipy.ndimage import gaussian_filter

    counts, x_edges, y_edges = np.histogram2d(x, y, bins=80, range=[x_span, y_span])
    widths = [_local_deviation(v) / (e[1] - e[0]) for v, e in ((x, x_edges), (y, y_edges))]
    shrink = len(np.unique(x)) ** (-1.0 / 6.0)  # repeated draws add no information
    height = gaussian_filter(counts, np.maximum(np.multiply(widths, shrink), 1.0))
    falling = np.sort(height.ravel())[::-1]
    inside = np.cumsum(falling) / falling.sum()
    levels = sorted({float(falling[np.searchsorted(inside, fraction)]) for fraction in (0.5, 0.8, 0.95)})
    return [(edges[1:] + edges[:-1]) / 2.0 for edges in (x_edges, y_edges)], height, levels


def _local_deviation(draws: Floats) -> float:
    """Return the standard deviation of a normal peak as narrow as the narrowest quarter of the draws."""
    order, quarter = np.sort(draws), max(1, len(draws) // 4)
    return float((order[quarter:] - order[:-quarter]).min()) / 0.637  # the middle quarter of N(0, 1) is as wide


# ---- is it to be trusted? ------------------------------------------------------------------------------------


class CoverageDisplay(Display):
    """How often intervals of each level hold the truth; a calibrated method stays in the band.

    `lfi.diagnostics.Coverage.plot()` makes one.

    Parameters
    ----------
    levels : array_like of shape (q,)
        Levels of the intervals.
    shares : mapping of str to array_like of shape (q,)
        For each name the fraction of truths inside, at each level.
    band : tuple of three array_like, optional
        Levels, and low and high ends that a calibrated method keeps to.
    band_label : str
        The entry of the band in the legend.
    joint : str
        Name of the curve for all parameters together, which has a color of its own.

    Attributes
    ----------
    lines_ : dict of matplotlib lines
        By name.
    diagonal_, band_ : matplotlib artists

    Examples
    --------
    >>> CoverageDisplay([0.5, 0.9], {"rate": [0.4, 0.8]}).plot().lines_["rate"].get_ydata()
    array([0.4, 0.8])
    """

    def __init__(
        self,
        levels: ArrayLike,
        shares: Mapping[str, ArrayLike],
        *,
        band: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
        band_label: str = "calibrated",
        joint: str = "",
    ) -> None:
        self.levels, self.shares, self.band = np.asarray(levels, dtype=np.float64), dict(shares), band
        self.band_label, self.joint = band_label, joint

    def plot(self, ax: "AxesLike" = None) -> Self:
        """Draw the curves and their band."""
        (panel,) = self._panels(ax, 1, 1, (5.0, 4.4))
        self.band_ = None
        if self.band is not None:
            style: Any = {"color": COLORS["band"], "alpha": 0.3, "lw": 0, "label": self.band_label}
            self.band_ = panel.fill_between(*self.band, **style)
        self.diagonal_ = panel.plot([0.0, 1.0], [0.0, 1.0], color=COLORS["truth"], lw=0.8)[0]
        self.lines_ = {name: self._plot_curve(panel, name, values) for name, values in self.shares.items()}
        panel.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
        panel.set(xlabel="level of the interval", ylabel="share that holds the truth")
        panel.tick_params(labelsize=8)
        handles = dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))  # each label once
        panel.legend(handles.values(), handles.keys(), frameon=False, fontsize=8, loc="upper left")
        return self

    def _plot_curve(self, ax: "Axes", name: str, values: ArrayLike) -> Any:
        if name == self.joint:
            style: Any = {"color": COLORS["density"], "marker": "s", "ls": "--", "label": verbatim(name)}
        else:
            style = {"color": COLORS["posterior"], "marker": ".", "ls": "-", "label": "each parameter"}
        return ax.plot(self.levels, values, alpha=0.8, ms=4, lw=1.3, **style)[0]


class RanksDisplay(Display):
    """Histograms of ranks of true parameters, relative to uniform ones, and the band that uniform ranks keep to.

    `lfi.diagnostics.Calibration.plot()` makes one.

    Parameters
    ----------
    counts : mapping of str to array_like of shape (b,)
        For each name the number of ranks in each bin.
    shares : mapping of str to array_like of shape (b,)
        For each name the probability of each bin under uniform ranks.
    notes : mapping of str to str, optional
        For each name a note above its panel.
    wrong : sequence of str
        Names whose bars are drawn in another color.
    level : float
        Probability with which each bin of uniform ranks leaves the band.

    Attributes
    ----------
    bars_ : list of matplotlib artists
        One for each panel.

    Examples
    --------
    >>> RanksDisplay({"rate": [10, 30]}, {"rate": [0.25, 0.75]}).plot().bars_[0].get_data().values
    array([1., 1.])
    """

    def __init__(
        self,
        counts: Mapping[str, ArrayLike],
        shares: Mapping[str, ArrayLike],
        *,
        notes: Mapping[str, str] | None = None,
        wrong: Sequence[str] = (),
        level: float = 0.01,
    ) -> None:
        self.counts, self.shares = dict(counts), dict(shares)
        self.notes, self.wrong, self.level = dict(notes or {}), tuple(wrong), level

    def plot(self, ax: "AxesLike" = None) -> Self:
        """Draw one panel for each name."""
        axes = self._panels(ax, len(self.counts))
        self.bars_ = [self._plot_ranks(panel, name) for panel, name in zip(axes, self.counts, strict=True)]
        if ax is None:
            self.figure_.supxlabel("rank of the true parameter among draws", fontsize=9)
            self.figure_.supylabel("relative to uniform", fontsize=9)
        return self

    def _plot_ranks(self, ax: "Axes", name: str) -> Any:
        from scipy.stats import binom

        bins, expected = (np.asarray(values[name], dtype=np.float64) for values in (self.counts, self.shares))
        n = int(bins.sum())
        edges = np.concatenate([[0.0], np.cumsum(expected)])
        scale = n * expected
        low, high = (binom.ppf(tail, n, expected) / scale for tail in (self.level / 2.0, 1.0 - self.level / 2.0))
        color = COLORS["observed" if name in self.wrong else "posterior"]
        bars = ax.stairs(bins / scale, edges, fill=True, color=color, alpha=0.5)
        ax.stairs(high, edges, baseline=low, fill=True, color=COLORS["band"], alpha=0.25)
        for end in (low, high):
            ax.stairs(end, edges, baseline=None, color=COLORS["truth"], lw=0.7, ls=":")
        ax.axhline(1.0, color=COLORS["truth"], lw=0.8)
        ax.set(xlim=(0.0, 1.0), ylim=(0.0, max(2.4, 1.25 * float((bins / scale).max()))))
        ax.set(xticks=[0.0, 0.5, 1.0], xticklabels=["0", ".5", "1"])
        ax.tick_params(labelsize=7)
        title_panel(ax, name, self.notes.get(name, ""))
        return bars


class PredictiveDisplay(Display):
    """A histogram of each simulated summary, with the observation as a line.

    `lfi.diagnostics.PredictiveCheck.plot()` makes one.

    Parameters
    ----------
    simulated : array_like of shape (n, s)
        Summaries of simulations.
    observed : array_like of shape (s,)
        Those observed.
    names : sequence of str
        Names of the summaries.
    notes : sequence of str, optional
        A note above each panel.

    Attributes
    ----------
    bars_, observed_lines_ : list of matplotlib artists
        One for each panel.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> display = PredictiveDisplay(rng.normal(size=(100, 2)), [0.0, 9.0], ["mean", "spread"]).plot()
    >>> [ax.get_title(loc="left") for ax in display.axes_]
    ['mean', 'spread']
    """

    def __init__(
        self, simulated: ArrayLike, observed: ArrayLike, names: Sequence[str], *, notes: Sequence[str] | None = None
    ) -> None:
        self.simulated = np.asarray(simulated, dtype=np.float64)
        self.observed = np.asarray(observed, dtype=np.float64).ravel()
        self.names = list(names)
        self.notes = [""] * len(self.names) if notes is None else list(notes)
        if self.simulated.ndim != 2 or not len(self.names) == len(self.observed) == self.simulated.shape[1]:
            raise ArgumentError(
                "simulated",
                f"simulated has shape {self.simulated.shape}, observed {len(self.observed)} values and names "
                f"{len(self.names)}; give one column, one value and one name for each summary.",
            )

    def plot(self, ax: "AxesLike" = None) -> Self:
        """Draw one panel for each summary."""
        axes = self._panels(ax, len(self.names))
        self.bars_: list[Any] = []
        self.observed_lines_: list[Any] = []
        for j, panel in enumerate(axes):
            values = self.simulated[:, j]
            bins = int(np.clip(len(values) ** 0.5, 5, 25))
            span = tuple(np.quantile(values, [0.005, 0.995]))
            self.bars_.append(panel.hist(values, bins=bins, range=span, color=COLORS["posterior"], alpha=0.5)[2])
            self.observed_lines_.append(panel.axvline(self.observed[j], color=COLORS["observed"], lw=1.8))
            set_few_ticks(panel, 7.0)
            panel.set_yticks([])
            title_panel(panel, self.names[j], self.notes[j])
        if ax is None:
            self.figure_.supxlabel("simulated summaries, and the observation as a line", fontsize=9)
        return self


class DiagnosisDisplay(Display):
    """The page of a diagnosis: pairs on the left; verdict, coverage, ranks and predictions on the right.

    `lfi.diagnose(...).plot()` makes one.

    Parameters
    ----------
    report : lfi.diagnostics.Report
        The diagnosis.

    Attributes
    ----------
    pairs_, coverage_, ranks_, predictive_ : Display
        Its parts; `coverage_` and `ranks_` are None where calibration was not checked.

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi import Posterior, Prior, Simulations
    >>> from decond.lfi.diagnostics import Report
    >>> from decond.lfi.diagnostics.predictive_checks import observation_among
    >>> posterior = Posterior(Prior({"rate": stats.gamma(2)}), lambda n, rng: rng.gamma(4.0, 0.5, (n, 1)))
    >>> simulated = np.linspace(0.0, 1.0, 100)[:, None]
    >>> check = observation_among(Simulations(simulated, simulated), np.array([[0.5]]))
    >>> page = DiagnosisDisplay(Report(posterior, None, None, check, from_posterior=True)).plot()
    >>> page.ranks_ is None, len(page.predictive_.axes_)
    (True, 1)
    """

    def __init__(self, report: Any) -> None:
        self.report = report

    def plot(self, figure: "Figure | SubFigure | None" = None) -> Self:
        """Draw the page into a figure, or a subfigure; without one a new figure is made."""
        self._made_figure = figure is None
        self.figure_ = make_figure((15.0, 10.0)) if figure is None else figure
        report, d = self.report, self.report.posterior.prior.dim
        left, right = self.figure_.subfigures(1, 2, width_ratios=(0.75 if d < 3 else 1.0, 1.0), wspace=0.03)
        _head(left, "posterior")
        grid = left.subplots(d, d, squeeze=False)
        self.pairs_ = PairsDisplay.from_posterior(report.posterior, report.truth, ax=grid)
        self.coverage_ = self.ranks_ = None
        summaries = len(report.predictive.shown())
        check_height, rank_height = 0.9 + (summaries + 5) // 6, 1.0 + 0.9 * ((d + 4) // 5)
        if report.calibration is None:
            top, bottom = right.subfigures(2, 1, height_ratios=(3.4, check_height))
            _write(top.subplots(), report.verdict, report.sentences, 90)
        else:
            top, middle, bottom = right.subfigures(3, 1, height_ratios=(3.4, rank_height, check_height))
            words, curve = top.subplots(1, 2)
            _write(words, report.verdict, report.sentences, 52)
            self.coverage_ = report.calibration.coverage.plot(curve)
            curve.set_title("coverage", fontsize=11, loc="left")
            _head(middle, "ranks of true parameters, relative to uniform")
            self.ranks_ = report.calibration.plot(grid_of(middle, d, 5))
        kind = "predicted by the posterior" if report.from_posterior else "simulations given (no simulator was given)"
        _head(bottom, f"summaries: {kind}, and the observation")
        self.predictive_ = report.predictive.plot(grid_of(bottom, summaries, 6))
        self.axes_ = np.array(self.figure_.axes, dtype=object)
        self.ax_ = self.axes_[0]
        return self


def _head(figure: "SubFigure", words: str) -> None:
    figure.suptitle(words, fontsize=11, x=0.02, ha="left")


def _write(ax: "Axes", title: str, sentences: Sequence[str], width: int = 60, most: int = 24) -> None:
    """Write a title and sentences, in at most `most` lines of at most `width` letters."""
    import textwrap

    head = textwrap.wrap(title, width * 3 // 5)
    lines = [line for sentence in sentences for line in textwrap.wrap(sentence, width, subsequent_indent="   ")]
    if len(lines) > most:
        lines = [*lines[: most - 1], "…"]
    ax.set_axis_off()
    top, body = (verbatim("\n".join(words)) for words in (head, lines))
    at: Any = {"xycoords": "axes fraction", "va": "top"}
    below: Any = {**at, "textcoords": "offset points", "fontsize": 9, "linespacing": 1.35}
    for text in (
        ax.annotate(top, (0.0, 1.0), fontsize=14, weight="bold", **at),
        ax.annotate(body, (0.0, 1.0), (0.0, -22.0 * len(head)), **below),
    ):
        text.set_in_layout(False)  # long texts must not squeeze the panels
