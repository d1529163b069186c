"""Are error bars right? Each target against its prediction from the others."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from decond.errors import ArgumentError, ArgumentTypeError
from decond.plotting.figures import Display
from decond.plotting.style import COLORS, plot_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ResidualsDisplay"]

NORMAL_95 = 1.959963984540054


class ResidualsDisplay(Display):
    """Errors of predictions in units of their error bars, with the normal density that they should follow beside.

    The title says how many of the targets the 95 % intervals hold. After `plot`: `points_`, `band_` (where 95 %
    should lie), `bars_` and `normal_` in `side_ax_`.

    Parameters:
        predicted: mean of each target, predicted from the others.
        residuals: (target - mean) / deviation of each.

    >>> rng = np.random.default_rng(0)
    >>> ResidualsDisplay(rng.uniform(size=200), rng.normal(size=200)).plot().ax_.get_title()
    '95 % intervals hold 94 % of 200 targets'
    """

    def __init__(self, predicted: Any, residuals: Any) -> None:
        self.predicted, self.residuals = (np.ravel(np.asarray(v, dtype=np.float64)) for v in (predicted, residuals))
        if len(self.predicted) != len(self.residuals) or not len(self.predicted):
            raise ArgumentError(
                "residuals",
                f"predicted has {len(self.predicted)} values and residuals {len(self.residuals)}; give one for each "
                "target.",
            )

    @property
    def coverage(self) -> float:
        """The share of targets inside their 95 % intervals."""
        return float(np.mean(np.abs(self.residuals) <= NORMAL_95))

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, color: str | None = None) -> Self:
        """Draw each target of a fitted estimator against its prediction from the others (leave-one-out).

        Estimators that keep sums instead of rows cannot leave one out; score those on other rows.

        >>> from decond.estimators import DirectGP
        >>> from decond.kernels import RBF
        >>> x = np.linspace(0.0, 6.0, 30)[:, None]
        >>> gp = DirectGP(RBF(1.0), noise=0.1, optimize=False).fit(x, np.sin(x[:, 0]))
        >>> len(ResidualsDisplay.from_estimator(gp).residuals)
        30
        """
        if not hasattr(estimator, "standardized_residuals"):
            raise ArgumentTypeError(
                "estimator",
                f"{type(estimator).__name__} cannot leave one out: it keeps no single targets, or has no error bars. "
                "Use cross-validation, and ResidualsDisplay(predicted, residuals).plot().",
            )
        predicted, _ = estimator.leave_one_out()
        options = {} if color is None else {"color": color}
        return cls(predicted, estimator.standardized_residuals()).plot(ax, **options)

    def plot(self, ax: Any = None, *, color: str = COLORS["model"]) -> Self:
        """Draw the errors against the predictions, and their histogram at the right end."""
        (panel,) = self._panels(ax, 1, 1, (8.0, 4.2))
        self.band_ = panel.axhspan(-NORMAL_95, NORMAL_95, color=COLORS["band"], alpha=0.15, lw=0)
        panel.axhline(0.0, color=COLORS["truth"], lw=0.8)
        self.points_ = plot_points(panel, self.predicted, self.residuals, color=color, alpha=0.7)
        panel.set(xlabel="predicted from the other targets", ylabel="error / its standard deviation")
        count = len(self.residuals)
        panel.set_title(f"95 % intervals hold {100.0 * self.coverage:.0f} % of {count} targets", fontsize=10)
        self._plot_side(panel, color)
        return self

    def _plot_side(self, ax: "Axes", color: str) -> None:
        """Draw the histogram beside the normal density, on the same vertical axis."""
        from scipy.stats import norm

        self.side_ax_ = ax.inset_axes((1.02, 0.0, 0.22, 1.0), sharey=ax)
        reach = max(4.0, 1.05 * float(np.abs(self.residuals).max()))
        bins = int(np.clip(2.0 * len(self.residuals) ** 0.5, 8, 40) * reach / 4.0)
        edges = np.linspace(-reach, reach, min(bins, 200) + 1)
        heights = np.histogram(self.residuals, edges, density=True)[0]
        self.bars_ = self.side_ax_.stairs(
            heights, edges, orientation="horizontal", fill=True, color=color, alpha=0.45
        )
        at = np.linspace(-reach, reach, 400)
        self.normal_ = self.side_ax_.plot(norm.pdf(at), at, color=COLORS["truth"], lw=1.2)[0]
        self.side_ax_.set(ylim=(-reach, reach), xlim=(0.0, None), xticks=[])
        self.side_ax_.set_title("histogram, normal", fontsize=8, color="#555555")
        self.side_ax_.tick_params(labelleft=False)
