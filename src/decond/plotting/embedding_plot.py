"""A distribution as weighted points: its weights, negative ones among them, and herded samples."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_rows, check_same_length
from decond.plotting.display import COLORS, Display, plot_points, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from decond.plotting.display import AxesLike

__all__ = ["EmbeddingDisplay"]


class EmbeddingDisplay(Display):
    """The weights of an embedding at its points, and samples that stand for it.

    One column of points: a stem for each weight. Several columns: markers at the first two, whose area is the size of
    the weight. Labels: a stem for the total weight of each. Upward triangles are positive, downward ones negative.

    Parameters
    ----------
    points : array_like of shape (n, d)
        Numbers or labels.
    weights : array_like of shape (n,)
        Possibly negative.
    samples : array_like of shape (m, d), optional
        Herded samples.

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

    def __init__(self, points: ArrayLike, weights: ArrayLike, *, samples: ArrayLike | None = None) -> None:
        self.points, self.weights = as_rows(points, "points", labels=True), np.ravel(weights)
        check_same_length(self.points, "points", len(self.weights), "weights")
        self.samples = None if samples is None else np.asarray(samples)

    @classmethod
    def from_embedding(cls, embedding: Any, samples: ArrayLike | int | None = None, *, ax: "AxesLike" = None) -> Self:
        """Draw a `MeanEmbedding`; `embedding.plot()` is short for it.

        Parameters
        ----------
        embedding : MeanEmbedding
        samples : array_like of shape (m, d) or int, optional
            Herded samples to show with it, or how many to herd.
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
        herded = embedding.herd(int(samples)) if isinstance(samples, int | np.integer) else samples
        return cls(embedding.points, embedding.weights, samples=herded).plot(ax)

    def plot(self, ax: "AxesLike" = None) -> Self:
        """Draw the weights, and the samples where there are some."""
        (panel,) = self._panels(ax, 1, 1, (6.4, 4.2))
        self.weights_: dict[str, Any] = {}
        self.samples_: Any = None
        if self.points.dtype.kind in "OUS":
            names, rows = np.unique([", ".join(map(str, row)) for row in self.points], return_inverse=True)
            self._plot_stems(panel, np.arange(len(names)), np.bincount(rows, self.weights), None)
            panel.set_xticks(range(len(names)), list(map(verbatim, names)), rotation=0 if len(names) < 8 else 60)
        elif self.points.shape[1] == 1:
            samples = None if self.samples is None else self.samples[:, 0]
            self._plot_stems(panel, self.points[:, 0], self.weights, samples)
        else:
            self._plot_plane(panel)
        negative = int((self.weights < 0.0).sum())
        total = f"{len(self.weights)} points, weights sum to {self.weights.sum():.3g}, {negative} negative"
        panel.set_title(total, fontsize=10)
        for handle in panel.legend(frameon=False, fontsize=9).legend_handles:
            if hasattr(handle, "set_sizes"):
                handle.set_sizes([40.0])
        return self

    def _plot_stems(self, ax: "Axes", at: NDArray[Any], weights: NDArray[Any], samples: NDArray[Any] | None) -> None:
        for name, chosen, color, marker in _by_sign(weights):
            ax.vlines(at[chosen], 0.0, weights[chosen], color=color, lw=0.9, alpha=0.6)
            style = {"label": f"{name} weights", "marker": marker, "color": color}
            self.weights_[name] = plot_points(ax, at[chosen], weights[chosen], **style)
        ax.axhline(0.0, color=COLORS["truth"], lw=0.8)
        ax.set(xlabel="point", ylabel="weight")
        if samples is not None:
            place: Any = {"marker": "|", "markersize": 12, "transform": ax.get_xaxis_transform()}
            words = f"{len(samples)} herded samples"
            self.samples_ = plot_points(ax, samples, np.full(len(samples), 0.03), "truth", words, **place)

    def _plot_plane(self, ax: "Axes") -> None:
        area = 120.0 * np.abs(self.weights) / (float(np.abs(self.weights).max()) or 1.0)
        for name, chosen, color, marker in _by_sign(self.weights):
            style: Any = {"label": f"{name} weights", "marker": marker, "color": color, "alpha": 0.5, "linewidth": 0}
            self.weights_[name] = ax.scatter(self.points[chosen, 0], self.points[chosen, 1], s=area[chosen], **style)
        if self.samples is not None:
            words = f"{len(self.samples)} herded samples"
            self.samples_ = plot_points(
                ax, self.samples[:, 0], self.samples[:, 1], "truth", words, marker="x", markersize=5
            )
        ax.set(xlabel="column 0 of the points", ylabel="column 1 of the points")


def _by_sign(weights: NDArray[Any]) -> Iterator[tuple[str, NDArray[np.bool_], str, str]]:
    """Yield for each sign that weights have its name, which they are, their color and their marker."""
    positive = weights >= 0.0
    if positive.any():
        yield "positive", positive, COLORS["posterior"], "^"
    if not positive.all():
        yield "negative", ~positive, COLORS["observed"], "v"
