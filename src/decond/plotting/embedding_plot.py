"""A distribution as weighted points: its weights, negative ones among them, and herded samples."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from decond.errors import ArgumentError
from decond.plotting.display import COLORS, Display, plot_points, verbatim

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

    from decond.plotting.display import AxesLike

__all__ = ["EmbeddingDisplay"]


class EmbeddingDisplay(Display):
    """The weights of an embedding at its points, and samples that stand for it.

    One column of points: a stem for each weight. Two columns: markers whose area is the size of the weight. Upward
    triangles are positive weights, downward ones negative. Labels: the total weight of each, as bars.

    Parameters
    ----------
    points : array_like of shape (n, d)
        Numbers or labels.
    weights : array_like of shape (n,)
        Possibly negative.
    samples : array_like of shape (m, d), optional
        Super-samples.
    columns : tuple of int, optional
        Which one or two columns to show; the first two by default.

    Attributes
    ----------
    weights_ : dict
        Artists, by "positive" and "negative".
    samples_ : matplotlib line or None

    Examples
    --------
    >>> display = EmbeddingDisplay([[0.0], [1.0], [2.0]], [0.7, 0.5, -0.2]).plot()
    >>> display.ax_.get_title()
    '3 points, weights sum to 1, 1 negative'
    """

    def __init__(
        self,
        points: ArrayLike,
        weights: ArrayLike,
        *,
        samples: ArrayLike | None = None,
        columns: tuple[int, ...] | None = None,
    ) -> None:
        self.points, self.weights = np.asarray(points), np.asarray(weights, dtype=np.float64).ravel()
        if self.points.ndim != 2 or len(self.points) != len(self.weights):
            raise ArgumentError(
                "points",
                f"points has shape {self.points.shape} and there are {len(self.weights)} weights; give rows (n, d) "
                "and one weight for each.",
            )
        self.samples = None if samples is None else np.asarray(samples)
        width = self.points.shape[1]
        self.columns = tuple(range(min(width, 2))) if columns is None else tuple(columns)
        if len(self.columns) not in (1, 2) or not all(0 <= column < width for column in self.columns):
            raise ArgumentError("columns", f"columns is {columns}; give one or two numbers from 0 to {width - 1}.")

    @classmethod
    def from_embedding(
        cls,
        embedding: Any,
        samples: ArrayLike | int | None = None,
        *,
        columns: tuple[int, ...] | None = None,
        ax: "AxesLike" = None,
    ) -> Self:
        """Draw a `MeanEmbedding`; `embedding.plot()` is short for it.

        Parameters
        ----------
        embedding : MeanEmbedding
        samples : array_like of shape (m, d) or int, optional
            Herded samples to show with it, or how many to herd.
        columns : tuple of int, optional
            Which one or two columns to show.
        ax : axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        EmbeddingDisplay

        Examples
        --------
        >>> from decond import MeanEmbedding
        >>> from decond.kernels import RBF
        >>> EmbeddingDisplay.from_embedding(MeanEmbedding(RBF(), [[0.0], [2.0]]), samples=4).samples.shape
        (4, 1)
        """
        herded = embedding.herd(samples) if isinstance(samples, int | np.integer) else samples
        return cls(embedding.points, embedding.weights, samples=herded, columns=columns).plot(ax)

    def plot(self, ax: "AxesLike" = None) -> Self:
        """Draw the weights, and the samples where there are some."""
        (panel,) = self._panels(ax, 1, 1, (6.4, 4.2))
        self.weights_: dict[str, Any] = {}
        self.samples_: Any = None
        if self.points.dtype.kind in "OUS":
            self._plot_labels(panel)
        elif len(self.columns) == 1:
            self._plot_stems(panel)
        else:
            self._plot_plane(panel)
        negative = int((self.weights < 0.0).sum())
        total = f"{len(self.weights)} points, weights sum to {self.weights.sum():.3g}, {negative} negative"
        panel.set_title(total, fontsize=10)
        if panel.get_legend_handles_labels()[0]:
            for handle in panel.legend(frameon=False, fontsize=9).legend_handles:
                if hasattr(handle, "set_sizes"):
                    handle.set_sizes([40.0])
        return self

    def _plot_stems(self, ax: "Axes") -> None:
        at = self.points[:, self.columns[0]]
        for name, chosen, color, marker in _by_sign(self.weights):
            ax.vlines(at[chosen], 0.0, self.weights[chosen], color=color, lw=0.9, alpha=0.6)
            style: Any = {"label": f"{name} weights", "marker": marker, "color": color}
            self.weights_[name] = plot_points(ax, at[chosen], self.weights[chosen], **style)
        ax.axhline(0.0, color=COLORS["truth"], lw=0.8)
        ax.set(xlabel=self._name(0), ylabel="weight")
        if self.samples is not None:
            drawn = self.samples[:, self.columns[0]]
            place: Any = {"marker": "|", "markersize": 12, "transform": ax.get_xaxis_transform()}
            words = f"{len(drawn)} herded samples"
            self.samples_ = plot_points(ax, drawn, np.full(len(drawn), 0.03), "truth", words, **place)

    def _plot_plane(self, ax: "Axes") -> None:
        across, up = (self.points[:, column] for column in self.columns)
        area = 120.0 * np.abs(self.weights) / (float(np.abs(self.weights).max()) or 1.0)
        for name, chosen, color, marker in _by_sign(self.weights):
            style: Any = {"label": f"{name} weights", "marker": marker, "color": color, "alpha": 0.5, "linewidth": 0}
            self.weights_[name] = ax.scatter(across[chosen], up[chosen], s=area[chosen], **style)
        if self.samples is not None:
            words = f"{len(self.samples)} herded samples"
            first, second = self.samples[:, list(self.columns)].T
            self.samples_ = plot_points(ax, first, second, "truth", words, marker="x", markersize=5)
        ax.set(xlabel=self._name(0), ylabel=self._name(1))

    def _plot_labels(self, ax: "Axes") -> None:
        names = [", ".join(map(str, row)) for row in self.points[:, list(self.columns)]]
        totals = dict.fromkeys(names, 0.0)
        for name, weight in zip(names, self.weights, strict=True):
            totals[name] += weight
        heights = np.array(list(totals.values()))
        for sign, chosen, color, _ in _by_sign(heights):
            self.weights_[sign] = ax.bar(np.flatnonzero(chosen), heights[chosen], color=color, alpha=0.7)
        ax.axhline(0.0, color=COLORS["truth"], lw=0.8)
        ax.set_xticks(range(len(totals)), list(map(verbatim, totals)), rotation=0 if len(totals) < 8 else 60)
        ax.set(ylabel="total weight")

    def _name(self, k: int) -> str:
        return "point" if self.points.shape[1] == 1 else f"column {self.columns[k]} of the points"


def _by_sign(weights: np.ndarray) -> "Iterator[tuple[str, np.ndarray, str, str]]":
    """Yield for each sign that weights have its name, which they are, their color and their marker."""
    positive = weights >= 0.0
    if positive.any():
        yield "positive", positive, COLORS["posterior"], "^"
    if not positive.all():
        yield "negative", ~positive, COLORS["observed"], "v"
