"""Does the model produce data like those observed? Simulated summaries, and the observation among them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from decond.errors import ArgumentError
from decond.plotting.figures import Display
from decond.plotting.style import COLORS, few_ticks, title_panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PredictiveDisplay"]


class PredictiveDisplay(Display):
    """A histogram of each simulated summary, with the observation as a line.

    `lfi.diagnostics.PredictiveCheck.plot()` makes one. After `plot`: `observed_lines_` and `bars_`, one a panel.

    Parameters:
        simulated: summaries (n, s).
        observed: those observed (s,).
        names: of the summaries.
        notes: a few words above each panel.

    >>> rng = np.random.default_rng(0)
    >>> display = PredictiveDisplay(rng.normal(size=(100, 2)), [0.0, 9.0], ["mean", "spread"]).plot()
    >>> [ax.get_title(loc="left") for ax in display.axes_]
    ['mean', 'spread']
    """

    def __init__(
        self, simulated: Any, observed: Any, names: Sequence[str], *, notes: Sequence[str] | None = None
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

    def plot(self, ax: Any = None) -> Self:
        """Draw one panel for each summary."""
        count = len(self.names)
        size = (max(2.9 * min(4, count), 4.0), 2.5 * -(-count // 4))
        axes = self._panels(ax, count, 4, size)
        self.bars_: list[Any] = []
        self.observed_lines_: list[Any] = []
        for j, panel in enumerate(axes):
            self._plot_one(panel, j)
        if ax is None:
            self.figure_.supxlabel("simulated summaries, and the observation as a line", fontsize=9)
        return self

    def _plot_one(self, ax: "Axes", j: int) -> None:
        values = self.simulated[:, j]
        low, high = np.quantile(values, [0.005, 0.995])
        shown = values[(values >= low) & (values <= high)]
        bins = int(np.clip(len(values) ** 0.5, 5, 25))
        self.bars_.append(ax.hist(shown, bins=bins, color=COLORS["posterior"], alpha=0.5)[2])
        self.observed_lines_.append(ax.axvline(self.observed[j], color=COLORS["observed"], lw=1.8))
        few_ticks(ax, 7.0)
        ax.set_yticks([])
        title_panel(ax, self.names[j], self.notes[j])
