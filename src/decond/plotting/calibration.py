"""Is a posterior right on average? Coverage of its intervals, and ranks of true parameters."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from decond.plotting.figures import Display
from decond.plotting.style import COLORS, title_panel, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CoverageDisplay", "RanksDisplay"]


class CoverageDisplay(Display):
    """How often intervals of each level hold the truth; a calibrated method stays in the band.

    `lfi.diagnostics.Coverage.plot()` makes one. After `plot`: `lines_` by name, `diagonal_` and `band_`.

    Parameters:
        levels: of the intervals.
        shares: for each name the share of truths inside, at each level.
        band: levels, and low and high ends that a calibrated method keeps to; None draws no band.
        band_label: of the band in the legend.
        joint: the name of the curve for all parameters together, which has a color of its own.

    >>> CoverageDisplay([0.5, 0.9], {"rate": [0.4, 0.8]}).plot().lines_["rate"].get_ydata()
    array([0.4, 0.8])
    """

    def __init__(
        self,
        levels: Any,
        shares: Mapping[str, Any],
        *,
        band: tuple[Any, Any, Any] | None = None,
        band_label: str = "calibrated",
        joint: str = "",
    ) -> None:
        self.levels, self.shares, self.band = np.asarray(levels, dtype=np.float64), dict(shares), band
        self.band_label, self.joint = band_label, joint

    def plot(self, ax: Any = None) -> Self:
        """Draw the curves and their band."""
        (panel,) = self._panels(ax, 1, 1, (5.0, 4.4))
        self.band_ = None
        if self.band is not None:
            at, low, high = self.band
            self.band_ = panel.fill_between(
                at, low, high, color=COLORS["band"], alpha=0.3, lw=0, label=self.band_label
            )
        self.diagonal_ = panel.plot([0.0, 1.0], [0.0, 1.0], color=COLORS["truth"], lw=0.8)[0]
        self.lines_ = self._plot_curves(panel)
        panel.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
        panel.set(xlabel="level of the interval", ylabel="share that holds the truth")
        panel.tick_params(labelsize=8)
        panel.legend(frameon=False, fontsize=8, loc="upper left")
        return self

    def _plot_curves(self, ax: "Axes") -> dict[str, Any]:
        """Draw one curve for each parameter, which share a color, and one for all together."""
        lines = {}
        label: str | None = "each parameter"
        for name, values in self.shares.items():
            together = name == self.joint
            color = COLORS["density" if together else "posterior"]
            words = verbatim(self.joint) if together else label
            style: Any = {"marker": "s" if together else ".", "ms": 4, "ls": "--" if together else "-", "lw": 1.3}
            lines[name] = ax.plot(self.levels, values, color=color, alpha=0.8, label=words, **style)[0]
            label = label if together else None
        return lines


class RanksDisplay(Display):
    """Histograms of ranks of true parameters, relative to uniform ones, beside the band that uniform ranks keep to.

    `lfi.diagnostics.Calibration.plot()` makes one. After `plot`: `bars_`, one for each panel.

    Parameters:
        counts: for each name the number of ranks in each bin.
        shares: for each name the probability of each bin under uniform ranks.
        notes: for each name a few words above its panel.
        wrong: names whose bars are drawn in the color of what is odd.
        level: probability with which each bin of uniform ranks leaves the band.

    >>> RanksDisplay({"rate": [10, 30]}, {"rate": [0.25, 0.75]}).plot().bars_[0].get_data().values
    array([1., 1.])
    """

    def __init__(
        self,
        counts: Mapping[str, Any],
        shares: Mapping[str, Any],
        *,
        notes: Mapping[str, str] | None = None,
        wrong: Sequence[str] = (),
        level: float = 0.01,
    ) -> None:
        self.counts, self.shares = dict(counts), dict(shares)
        self.notes, self.wrong, self.level = dict(notes or {}), tuple(wrong), level

    def plot(self, ax: Any = None) -> Self:
        """Draw one panel for each name."""
        count = len(self.counts)
        size = (max(2.9 * min(4, count), 4.0), 2.5 * -(-count // 4))
        axes = self._panels(ax, count, 4, size)
        self.bars_ = [self._plot_one(panel, name) for panel, name in zip(axes, self.counts, strict=True)]
        if ax is None:
            self.figure_.supxlabel("rank of the true parameter among draws", fontsize=9)
            self.figure_.supylabel("relative to uniform", fontsize=9)
        return self

    def _plot_one(self, ax: "Axes", name: str) -> Any:
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
