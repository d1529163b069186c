"""What all displays share: the axes they draw in, a color for each role, lines, bands and dots."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

    AxesLike = Axes | Sequence[Axes] | np.ndarray | None

__all__ = ["COLORS", "Display", "new_figure", "plot_band", "plot_line", "plot_points"]

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
"""One color for each role in a picture, from the palette of Okabe & Ito (2008), safe for color-blind readers."""


class Display:
    """Base of all displays: what was drawn stays within reach, as with those of scikit-learn.

    A display holds what it shows; `plot(ax=None)` draws it and returns the display.

    Attributes
    ----------
    axes_ : ndarray of matplotlib axes
        The axes that it drew in.
    ax_ : matplotlib axes
        The first of them.
    figure_ : matplotlib figure
        Their figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from decond.plotting import FunctionDisplay
    >>> figure = Figure()
    >>> left, right = figure.subplots(1, 2)
    >>> display = FunctionDisplay.from_predictions([0.0, 1.0], [2.0, 3.0], ax=right)
    >>> isinstance(display, Display), display.ax_ is right, display.figure_ is figure
    (True, True, True)
    """

    axes_: np.ndarray
    ax_: Any
    figure_: Any
    _made_figure = False

    def save(self, path: str | Path, dpi: float = 100.0) -> Path:
        """Write the picture to a file, as PNG, PDF or SVG by its ending, and close a figure made for it.

        Parameters
        ----------
        path : str or Path
            The file; its folder is made.
        dpi : float
            Resolution of a PNG.

        Returns
        -------
        Path
            The file.

        Examples
        --------
        >>> import tempfile
        >>> from decond.plotting import FunctionDisplay
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     FunctionDisplay.from_predictions([0, 1], [2, 3]).save(f"{folder}/line.svg").stat().st_size > 0
        True
        """
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        self.figure_.savefig(target, dpi=dpi)
        if self._made_figure and "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close(self.figure_)
        return target

    def _panels(
        self,
        ax: "AxesLike",
        count: int,
        across: int = 4,
        size: tuple[float, float] | None = None,
        sharey: bool = False,
    ) -> np.ndarray:
        """Return axes for `count` panels in rows of at most `across`, and keep them.

        `ax` is None for a new figure, one of the user's axes, within which the panels are laid out, or as many axes
        as there are panels.
        """
        across = min(across, count)
        down = -(-count // across)
        given = np.array([] if ax is None else ax, dtype=object).ravel()
        if ax is None:
            figure = make_figure(size or (max(2.9 * across, 4.0), 2.5 * down))
            self._keep(figure.subplots(down, across, squeeze=False, sharey=sharey).ravel(), count)
        elif len(given) == 1 and count > 1:
            place = given[0].get_subplotspec()
            if place is None:
                raise ArgumentError(
                    "ax", "ax was not made by subplots, so it cannot be divided into panels; give one for each panel."
                )
            given[0].set_axis_off()
            self._keep(place.subgridspec(down, across).subplots(squeeze=False, sharey=sharey).ravel(), count)
        elif len(given) < count:
            raise ArgumentError(
                "ax",
                f"ax holds {len(given)} axes but this {type(self).__name__} has {count} panels; give {count} axes, "
                "one to be divided among them, or None for a new figure.",
            )
        else:
            self._keep(given[:count], count)
        self._made_figure = ax is None
        return self.axes_

    def _keep(self, axes: np.ndarray, count: int) -> None:
        """Keep the first axes of a grid, and leave the others blank."""
        for ax in axes[count:]:
            ax.set_axis_off()
        self.axes_, self.ax_, self.figure_ = axes[:count], axes[0], axes[0].figure


def new_figure(count: int, size: tuple[float, float]) -> "tuple[Figure, list[Axes]]":
    """Return a figure that pyplot does not know, with this many panels, at most four beside each other.

    Parameters
    ----------
    count : int
        Number of panels.
    size : tuple of float
        Width and height in inches.

    Returns
    -------
    figure : matplotlib figure
    axes : list of matplotlib axes
        One for each panel.

    Examples
    --------
    >>> figure, axes = new_figure(5, (11.6, 5.0))
    >>> len(axes)
    5
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, list(grid_of(figure, count, 4))


def grid_of(figure: "Figure | SubFigure", count: int, across: int, **options: Any) -> NDArray[np.object_]:
    """Return axes for panels in rows of at most `across`; the places that are left stay blank.

    Parameters
    ----------
    figure : matplotlib figure or subfigure
    count : int
        Number of panels.
    across : int
        Panels beside each other.
    **options
        Those of `subplots`.

    Returns
    -------
    ndarray of axes of shape (count,)
    """
    across = min(across, count)
    axes = figure.subplots(-(-count // across), across, squeeze=False, **options).ravel()
    for ax in axes[count:]:
        ax.set_axis_off()
    return axes[:count]


def make_figure(size: tuple[float, float]) -> "Figure":
    """Return a new figure: one of pyplot's where that is in use or somebody sits at a prompt, so that it is shown."""
    from matplotlib.figure import Figure

    at_prompt = hasattr(sys, "ps1") or sys.flags.interactive
    if "matplotlib.pyplot" in sys.modules or at_prompt:
        import matplotlib.pyplot as plt

        return plt.figure(figsize=size, layout="constrained")
    return Figure(figsize=size, layout="constrained")


def plot_points(
    ax: "Axes", x: ArrayLike, z: ArrayLike, role: str = "data", label: str | None = None, **options: object
) -> "Line2D":
    """Draw data as small dots.

    Parameters
    ----------
    ax : matplotlib axes
    x, z : array_like of shape (n,)
        Positions of the dots.
    role : str
        The role in `COLORS` that gives the color.
    label : str, optional
        The entry in the legend.
    **options
        Further options of `matplotlib.lines.Line2D`.

    Returns
    -------
    matplotlib line
        The dots.
    """
    defaults = {"marker": ".", "linestyle": "none", "markersize": 4, "color": COLORS[role], "label": label}
    return ax.plot(np.ravel(x), np.ravel(z), **_line_options(defaults, options))[0]


def plot_line(
    ax: "Axes", x: ArrayLike, z: ArrayLike, role: str, label: str, style: str = "-", **options: object
) -> "Line2D":
    """Draw a function.

    Parameters
    ----------
    ax : matplotlib axes
    x, z : array_like of shape (n,)
        The function at n points.
    role : str
        The role in `COLORS` that gives the color.
    label : str
        The entry in the legend.
    style : str
        Line style of matplotlib.
    **options
        Further options of `matplotlib.lines.Line2D`.

    Returns
    -------
    matplotlib line
        The line.
    """
    defaults = {"linestyle": style, "linewidth": 1.8, "color": COLORS[role], "label": label}
    return ax.plot(np.ravel(x), np.ravel(z), **_line_options(defaults, options))[0]


def plot_band(
    ax: "Axes", x: ArrayLike, mean: ArrayLike, std: ArrayLike, role: str, label: str
) -> "tuple[Line2D, PolyCollection]":
    """Draw a mean with a band of two standard deviations on either side.

    Parameters
    ----------
    ax : matplotlib axes
    x, mean, std : array_like of shape (n,)
        The mean and the standard deviation at n points.
    role : str
        The role in `COLORS` that gives the color.
    label : str
        The entry in the legend.

    Returns
    -------
    line, band : matplotlib artists
    """
    at, center, half = np.ravel(x), np.ravel(mean), 2.0 * np.ravel(std)
    band = ax.fill_between(at, center - half, center + half, color=COLORS[role], alpha=0.2, linewidth=0)
    return plot_line(ax, at, center, role, f"{label} ± 2 sd"), band


def _line_options(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a line with those of the user on top, whether they say "lw" or "linewidth"."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return {**defaults, **normalize_kwargs(dict(given), Line2D)}


def verbatim(text: object) -> str:
    r"""Return a name so that matplotlib writes it as it is: text between two dollar signs is not a formula.

    >>> print(verbatim("cost_$_a_$^"), verbatim("wind"))
    cost_\$_a_\$^ wind
    """
    return str(text).replace("$", r"\$")


def title_panel(ax: "Axes", name: str, note: str = "") -> None:
    """Write a name above the left end of a panel, and a short note above its right end.

    Parameters
    ----------
    ax : matplotlib axes
    name, note : str
        Texts of the user; they are not read as formulas.
    """
    ax.set_title(verbatim(name), fontsize=9, loc="left", pad=3)
    ax.set_title(verbatim(note), fontsize=7, loc="right", pad=3, color="#555555")


def set_few_ticks(ax: "Axes", size: float, *, both: bool = False, most: int = 3) -> None:
    """Leave a few round ticks, so that numbers do not run into each other.

    Parameters
    ----------
    ax : matplotlib axes
    size : float
        Font size of the numbers.
    both : bool
        Whether the vertical axis gets few ticks, too.
    most : int
        Number of intervals between ticks.
    """
    from matplotlib.ticker import MaxNLocator

    ax.tick_params(labelsize=size)
    for line in (ax.xaxis, ax.yaxis) if both else (ax.xaxis,):
        line.set_major_locator(MaxNLocator(most, min_n_ticks=2))
        line.get_offset_text().set_fontsize(size)
    ax.ticklabel_format(axis="both" if both else "x", style="sci", scilimits=(-2, 4))
