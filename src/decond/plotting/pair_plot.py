"""Draws of several parameters: marginals on the diagonal, pairs below it, correlations above; and their densities."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.errors import ArgumentError
from decond.plotting.display import COLORS, Display, set_few_ticks, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from decond.plotting.display import AxesLike

__all__ = ["PairsDisplay"]

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
        if self.truth is not None and len(self.truth) != d:
            raise ArgumentError(
                "truth", f"truth has {len(self.truth)} values but there are {d} names; give one for each."
            )

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
