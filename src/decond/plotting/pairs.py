"""Draws of several parameters: marginals on the diagonal, pairs below it, correlations above."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from decond.errors import ArgumentError
from decond.plotting.densities import joint_density, marginal_density, span_of
from decond.plotting.figures import Display
from decond.plotting.style import COLORS, few_ticks, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PairsDisplay"]


class PairsDisplay(Display):
    """Draws of several parameters: their densities on the diagonal, pairs below it, correlations above.

    The contours of a pair hold 50, 80 and 95 % of the draws. After `plot`: `axes_` (d, d), `lines_` (d marginals),
    `contours_` by the pair (i, j) of row and column, and `truth_lines_`.

    Parameters:
        samples: draws (n, d).
        names: of the d parameters.
        truth: values of the parameters, drawn as lines where they are known.

    >>> rng = np.random.default_rng(0)
    >>> display = PairsDisplay(rng.normal(size=(500, 2)), ["rate", "share"], truth=[0.0, 0.0]).plot()
    >>> display.axes_.shape
    (2, 2)
    """

    def __init__(self, samples: Any, names: Sequence[str], *, truth: Any = None) -> None:
        self.samples, self.names = np.asarray(samples, dtype=np.float64), list(names)
        self.truth = None if truth is None else np.asarray(truth, dtype=np.float64).ravel()
        shape, d = self.samples.shape, len(self.names)
        if len(shape) != 2 or shape[1] != d or shape[0] < 2:
            raise ArgumentError(
                "samples", f"samples has shape {shape}; give at least two rows of {d} columns, one for each name."
            )
        if self.truth is not None and len(self.truth) != d:
            raise ArgumentError(
                "truth", f"truth has {len(self.truth)} values but there are {d} names; give one for each."
            )

    @classmethod
    def from_posterior(cls, posterior: Any, truth: Any = None, *, ax: Any = None, color: str | None = None) -> Self:
        """Draw the draws of a posterior of `lfi`; `posterior.plot()` is short for it.

        >>> from scipy import stats
        >>> from decond.lfi import Posterior, Prior
        >>> posterior = Posterior(Prior({"rate": stats.gamma(2)}), lambda n, rng: rng.gamma(4.0, 0.5, (n, 1)))
        >>> PairsDisplay.from_posterior(posterior).ax_.get_xlabel()
        'rate'
        """
        options = {} if color is None else {"color": color}
        return cls(posterior.samples, posterior.names, truth=truth).plot(ax, **options)

    def plot(self, ax: Any = None, *, color: str = COLORS["posterior"]) -> Self:
        """Draw in `ax`: one of your axes, an array (d, d) of them, or a new figure."""
        d = len(self.names)
        side = 4.0 if d == 1 else max(1.15, 2.2 - 0.12 * d) * d + 0.8
        self.axes_ = self._panels(ax, d * d, d, (side, side)).reshape(d, d)
        spans = [span_of(column, None if self.truth is None else self.truth[j]) for j, column in self._columns()]
        self.lines_: list[Any] = []
        self.contours_: dict[tuple[int, int], Any] = {}
        self.truth_lines_: list[Any] = []
        small = max(6.5, 9.5 - 0.4 * d)
        for i, row in self._columns():
            for j, column in self._columns():
                panel = self.axes_[i, j]
                if i < j:
                    _write_correlation(panel, row, column, small)
                    continue
                if i == j:
                    self.lines_.append(_plot_marginal(panel, row, spans[i], color))
                else:
                    self.contours_[i, j] = _plot_pair(panel, column, row, spans[j], spans[i], color)
                self._mark_truth(panel, i, j)
                _label(panel, i, j, self.names, small)
        return self

    def _columns(self) -> list[tuple[int, np.ndarray]]:
        return list(enumerate(self.samples.T))

    def _mark_truth(self, ax: "Axes", i: int, j: int) -> None:
        if self.truth is None:
            return
        self.truth_lines_.append(ax.axvline(self.truth[j], color=COLORS["observed"], lw=1.1))
        if i != j:
            self.truth_lines_.append(ax.axhline(self.truth[i], color=COLORS["observed"], lw=1.1))


def _plot_marginal(ax: "Axes", values: np.ndarray, span: tuple[float, float], color: str) -> Any:
    at, height = marginal_density(values, span)
    ax.fill_between(at, height, color=color, alpha=0.25, lw=0)
    ax.set(xlim=span, yticks=[])
    line = ax.plot(at, height, color=color, lw=1.4)[0]
    ax.set_ylim(0.0, None)
    return line


def _plot_pair(
    ax: "Axes",
    x: np.ndarray,
    y: np.ndarray,
    x_span: tuple[float, float],
    y_span: tuple[float, float],
    color: str,
) -> Any:
    """Draw contours that hold given shares of the draws, and return them."""
    grid, height, levels = joint_density(x, y, x_span, y_span)
    for level in levels:
        ax.contourf(*grid, height.T, levels=[level, np.inf], colors=[color], alpha=0.25)
    ax.set(xlim=x_span, ylim=y_span)
    return ax.contour(*grid, height.T, levels=levels, colors=[color], linewidths=0.7)


def _write_correlation(ax: "Axes", x: np.ndarray, y: np.ndarray, size: float) -> None:
    ax.set_axis_off()
    if x.std() > 0.0 and y.std() > 0.0:
        r = round(float(np.corrcoef(x, y)[0, 1]), 2) + 0.0
        shade = f"{0.75 * (1.0 - abs(r)):.2f}"
        place: Any = {"transform": ax.transAxes, "ha": "center", "va": "center"}
        ax.text(0.5, 0.5, f"{r:+.2f}", fontsize=size + 2.0, color=shade, **place)


def _label(ax: "Axes", i: int, j: int, names: Sequence[str], size: float) -> None:
    """Label the left column and the bottom row only."""
    few_ticks(ax, size - 1.0, "x" if i == j else "xy", 5 if len(names) < 4 else 3)
    if i == len(names) - 1:
        ax.set_xlabel(verbatim(names[j]), fontsize=size)
        ax.tick_params(axis="x", labelrotation=45.0 if len(names) > 3 else 0.0)
    else:
        ax.tick_params(labelbottom=False)
    if j == 0 and i > 0:
        ax.set_ylabel(verbatim(names[i]), fontsize=size)
    elif i != j:
        ax.tick_params(labelleft=False)
