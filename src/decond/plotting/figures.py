"""Where a picture goes: axes of the user, panels within one of them, or those of a new figure."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from decond.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Display", "is_drawn_here", "new_figure"]

MARK = {"Software": "decond"}
"""What PNG files of displays say of their origin."""


class Display:
    """Base of all displays: what was drawn stays within reach, as with those of scikit-learn.

    A display holds what it shows; `plot(ax=None)` draws it and returns the display. Then `axes_` are the axes that it
    drew in, `ax_` is the first of them, and `figure_` the figure.

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
        """Write the picture to a file, as PNG, PDF or SVG by its ending, and let go of a figure made for it.

        >>> import tempfile
        >>> from decond.plotting import FunctionDisplay
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     FunctionDisplay.from_predictions([0, 1], [2, 3]).save(f"{folder}/line.svg").stat().st_size > 0
        True
        """
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        marked = {"metadata": MARK} if target.suffix.lower() == ".png" else {}
        self.figure_.savefig(target, dpi=dpi, **marked)
        if self._made_figure and "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close(self.figure_)
        return target

    def _panels(
        self, ax: Any, count: int, across: int, size: tuple[float, float], *, sharey: bool = False
    ) -> np.ndarray:
        """Return axes for `count` panels in rows of at most `across`, and keep them.

        `ax` is None for a new figure, one of the user's axes, within which the panels are laid out, or as many axes
        as there are panels.
        """
        across = min(across, count)
        down = -(-count // across)
        self._made_figure = ax is None
        given = np.array([] if ax is None else ax, dtype=object).ravel()
        if ax is None:
            grid = make_figure(size).subplots(down, across, squeeze=False, sharey=sharey).ravel()
            self.axes_ = _only(grid, count)
        elif len(given) == 1 and count > 1:
            self.axes_ = _only(_within(given[0], down, across, sharey), count)
        elif len(given) < count:
            raise ArgumentError(
                "ax",
                f"ax holds {len(given)} axes but this {type(self).__name__} has {count} panels; give {count} axes, "
                "one to be divided among them, or None for a new figure.",
            )
        else:
            self.axes_ = given[:count]
        self.ax_ = self.axes_[0]
        self.figure_ = self.ax_.figure
        return self.axes_


def is_drawn_here(path: Path) -> bool:
    """Tell whether a file is a PNG that a display wrote.

    >>> import tempfile
    >>> from decond.plotting import FunctionDisplay
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     is_drawn_here(FunctionDisplay.from_predictions([0, 1], [2, 3]).save(f"{folder}/line.png"))
    True
    """
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b"\0".join(word.encode() for word in next(iter(MARK.items()))) in file.read(500)


def new_figure(count: int, size: tuple[float, float] | None = None) -> "tuple[Figure, list[Axes]]":
    """Return a figure that pyplot does not know, with this many panels, at most four beside each other.

    >>> figure, axes = new_figure(5)
    >>> len(axes), figure.get_size_inches()
    (5, array([11.6,  5. ]))
    """
    from matplotlib.figure import Figure

    across = min(4, count)
    down = -(-count // across)
    figure = Figure(figsize=size or (max(2.9 * across, 4.0), 2.5 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False).ravel()
    return figure, list(_only(grid, count))


def make_figure(size: tuple[float, float]) -> Any:
    """Return a new figure: one of pyplot's where that is in use or somebody sits at a prompt, so that it is shown."""
    from matplotlib.figure import Figure

    at_prompt = hasattr(sys, "ps1") or sys.flags.interactive
    if "matplotlib.pyplot" in sys.modules or at_prompt:
        import matplotlib.pyplot as plt

        return plt.figure(figsize=size, layout="constrained")
    return Figure(figsize=size, layout="constrained")


def _within(ax: Any, down: int, across: int, sharey: bool) -> np.ndarray:
    """Return a grid of axes in the place of one, which is left blank."""
    place = ax.get_subplotspec()
    if place is None:
        raise ArgumentError(
            "ax",
            "ax was not made by subplots, so it cannot be divided into panels; give as many axes as there are "
            "panels.",
        )
    ax.set_axis_off()
    spec = place.subgridspec(down, across)
    return spec.subplots(squeeze=False, sharey=sharey).ravel()


def _only(grid: np.ndarray, count: int) -> np.ndarray:
    """Return the first axes of a grid, the others blank."""
    for ax in grid[count:]:
        ax.set_axis_off()
    return grid[:count]
