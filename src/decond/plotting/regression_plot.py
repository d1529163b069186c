"""What a regression learned: its function with error bars, and errors of held-out targets."""

import inspect
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_rows, check_same_length
from decond.errors import ArgumentError, ArgumentTypeError
from decond.plotting.display import COLORS, Display, plot_line, plot_points, verbatim

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator

    from decond.plotting.display import AxesLike

__all__ = ["Curve", "FunctionDisplay", "ResidualsDisplay"]

Floats = NDArray[np.float64]


class Curve(NamedTuple):
    """A function along one column: where, its mean, and its standard deviation if it has one.

    >>> curve = Curve("wind", np.array([0.0, 1.0]), np.array([2.0, 3.0]))
    >>> curve.name, curve.std is None
    ('wind', True)
    """

    name: str
    x: Floats
    mean: Floats
    std: Floats | None = None


class FunctionDisplay(Display):
    """A function of x with a band of error bars: one panel for each column, the others at their median.

    Make one with `from_estimator`, or with `from_predictions` from a mean that you have. Ticks along the bottom show
    where the rows of x are.

    Parameters
    ----------
    curves : sequence of Curve
        One for each panel.
    rows : sequence of array_like, optional
        For each panel, where the data are; None draws no ticks.
    z : array_like of shape (n,), optional
        Targets of these rows, drawn as dots where there is a single panel.
    target_name : str
        What the function is of, along the vertical axis.

    Attributes
    ----------
    lines_, bands_ : list of matplotlib artists
        One for each panel; no bands without error bars. `line_` and `band_` are the first of each.
    points_ : matplotlib line or None
        The dots.

    Examples
    --------
    >>> curve = Curve("wind", np.array([0.0, 1.0]), np.array([2.0, 3.0]))
    >>> display = FunctionDisplay([curve], target_name="power").plot()
    >>> display.ax_.get_xlabel(), display.ax_.get_ylabel(), display.band_ is None
    ('wind', 'power', True)
    """

    max_panels = 6
    """Columns of x that are drawn at most, unless they are named."""
    max_dots = 2000
    """Rows that are drawn at most, evenly chosen."""

    def __init__(
        self,
        curves: Sequence[Curve],
        *,
        rows: Sequence[ArrayLike] | None = None,
        z: ArrayLike | None = None,
        target_name: str = "z",
    ) -> None:
        self.curves, self.target_name = list(curves), target_name
        self.rows = None if rows is None else [np.asarray(at) for at in rows]
        self.z = None if z is None else np.asarray(z)
        if self.z is not None and self.rows is not None:
            check_same_length(self.z, "z", len(self.rows[0]), "x")

    @classmethod
    def from_estimator(
        cls,
        estimator: "BaseEstimator",
        x: ArrayLike,
        z: ArrayLike | None = None,
        *,
        columns: Sequence[Hashable] | None = None,
        target: int | None = None,
        target_name: str = "z",
        n_points: int = 200,
        ax: "AxesLike" = None,
        **options: Any,
    ) -> Self:
        """Draw what a fitted estimator predicts over the range of the rows x.

        Parameters
        ----------
        estimator : regressor
            Any will do; a band is drawn if its `predict` takes ``return_std=True``.
        x : array_like or DataFrame of shape (n, d)
            Rows over whose range to draw. Columns of text are held at their most frequent value.
        z : array_like of shape (n,) or (n, t), optional
            Targets of these rows, drawn if x has a single column.
        columns : sequence of names or numbers, optional
            Columns to draw; by default the first six that hold numbers.
        target : int, optional
            Number of the target column where there are several.
        target_name : str
            What the function is of.
        n_points : int
            Points of each curve.
        ax : axes or sequence of axes, optional
            Where to draw; by default in a new figure.
        **options
            Those of `plot`.

        Returns
        -------
        FunctionDisplay

        Examples
        --------
        >>> import pandas as pd
        >>> from decond.estimators import DirectGP
        >>> from decond.kernels import RBF
        >>> x = pd.DataFrame({"wind": [0.0, 1.0, 2.0], "height": [5.0, 5.0, 6.0]})
        >>> gp = DirectGP(RBF(1.0), optimize=False).fit(x, [0.0, 1.0, 4.0])
        >>> display = FunctionDisplay.from_estimator(gp, x, target_name="power")
        >>> [ax.get_xlabel() for ax in display.axes_]
        ['wind', 'height']
        """
        frame, as_frame = _as_frame(estimator, x)
        dots = None if z is None else _one_target(z, target, len(frame))
        names = cls._columns_to_draw(frame, columns)
        curves = []
        for name in names:
            grid = rows_along(frame, name, n_points)
            mean, std = mean_and_std(estimator, grid if as_frame else grid.to_numpy(), target)
            curves.append(Curve(str(name), grid[name].to_numpy(), mean, std))
        rows = [frame[name].to_numpy() for name in names]
        z = dots if frame.shape[1] == 1 else None
        return cls(curves, rows=rows, z=z, target_name=target_name).plot(ax, **options)

    @classmethod
    def from_predictions(
        cls,
        x: ArrayLike,
        mean: ArrayLike,
        std: ArrayLike | None = None,
        *,
        name: str = "x",
        target_name: str = "z",
        ax: "AxesLike" = None,
        **options: Any,
    ) -> Self:
        """Draw a mean, and a band where there is a standard deviation, at given values of one column.

        Parameters
        ----------
        x, mean : array_like of shape (n,)
            The function at n points.
        std : array_like of shape (n,), optional
            Its standard deviation there.
        name, target_name : str
            Labels of the axes.
        ax : axes, optional
            Where to draw; by default in a new figure.
        **options
            Those of `plot`.

        Returns
        -------
        FunctionDisplay

        Examples
        --------
        >>> display = FunctionDisplay.from_predictions([0.0, 1.0], [2.0, 3.0], [0.1, 0.1])
        >>> display.line_.get_label()
        'mean ± 2 sd'
        """
        at, values = np.ravel(np.asarray(x, dtype=np.float64)), {"mean": mean, "std": std}
        given = {words: np.ravel(np.asarray(value)) for words, value in values.items() if value is not None}
        for words, value in given.items():
            check_same_length(value, words, len(at), "x")
        return cls([Curve(name, at, **given)], target_name=target_name).plot(ax, **options)

    def plot(
        self,
        ax: "AxesLike" = None,
        *,
        label: str = "mean",
        color: str = COLORS["model"],
        line_kwargs: Mapping[str, Any] | None = None,
    ) -> Self:
        """Draw every curve with a band of two standard deviations on either side.

        Parameters
        ----------
        ax : axes or sequence of axes, optional
            One, or one for each panel: the axes of another display put two models into one picture.
        label : str
            The entry in the legend.
        color : str
            Color of curve and band.
        line_kwargs : mapping, optional
            Options of the line, as matplotlib names them.

        Returns
        -------
        FunctionDisplay
            Itself.
        """
        count, across = len(self.curves), min(3, len(self.curves))
        size = (8.0, 4.5) if count == 1 else (4.0 * across, 3.3 * -(-count // across))
        axes = self._panels(ax, count, 3, size, sharey=True)
        self.lines_: list[Any] = []
        self.bands_: list[Any] = []
        self.points_: Any = None
        for j, (panel, curve) in enumerate(zip(axes, self.curves, strict=True)):
            if self.rows is not None:
                self._plot_data(panel, self.rows[j])
            if curve.std is not None:
                low, high = curve.mean - 2.0 * curve.std, curve.mean + 2.0 * curve.std
                self.bands_.append(panel.fill_between(curve.x, low, high, color=color, alpha=0.2, linewidth=0))
            words = label if curve.std is None else f"{label} ± 2 sd"
            style: dict[str, Any] = {"color": color, **(line_kwargs or {})}
            self.lines_.append(plot_line(panel, curve.x, curve.mean, "model", words, **style))
            panel.set_xlabel(verbatim(curve.name))
        self.line_, self.band_ = self.lines_[0], next(iter(self.bands_), None)
        axes[0].set_ylabel(verbatim(self.target_name))
        axes[0].legend(frameon=False, fontsize=9)
        if count > 1 and ax is None:
            self.figure_.suptitle("each column alone, the others at their median", fontsize=10)
        return self

    def _plot_data(self, ax: "Axes", rows: NDArray[Any]) -> None:
        """Draw rows as ticks, and their targets as dots if they are known."""
        step = -(-len(rows) // self.max_dots)
        at = rows[::step]
        if self.z is not None:
            self.points_ = plot_points(ax, at, self.z[::step], label="data")
        plot_points(ax, at, np.zeros(len(at)), marker="|", markersize=9, transform=ax.get_xaxis_transform())

    @classmethod
    def _columns_to_draw(cls, frame: "pd.DataFrame", columns: Sequence[Hashable] | None) -> list[Any]:
        """Return the columns to draw: those named, or the first few that hold numbers."""
        numeric = [name for name in frame.columns if frame[name].dtype.kind in "biuf"]
        if columns is None:
            chosen = numeric[: cls.max_panels]
        else:
            chosen = [frame.columns[name] if isinstance(name, int) else name for name in columns]
        unknown = [name for name in chosen if name not in numeric]
        if unknown or not chosen:
            words = ", ".join(map(repr, unknown)) or "no column"
            raise ArgumentError("columns", f"{words} is not numeric; choose from {numeric}.")
        return chosen


def rows_along(frame: "pd.DataFrame", name: Hashable, n_points: int) -> "pd.DataFrame":
    """Return rows along the range of one column, the other columns at their median or most frequent value.

    Parameters
    ----------
    frame : DataFrame of shape (n, d)
    name : hashable
        The column.
    n_points : int
        Number of rows.

    Returns
    -------
    DataFrame of shape (n_points, d)
    """
    import pandas as pd

    low, high = float(frame[name].min()), float(frame[name].max())
    margin = 0.0 if high > low else 0.5 * abs(low) or 0.5
    others = {
        other: float(column.median()) if column.dtype.kind in "biuf" else column.mode().iloc[0]
        for other, column in frame.items()
    }
    return pd.DataFrame({**others, name: np.linspace(low - margin, high + margin, n_points)})


def mean_and_std(
    estimator: "BaseEstimator", rows: ArrayLike, target: int | None = None
) -> tuple[Floats, Floats | None]:
    """Return what an estimator predicts of one target column, and its standard deviation if it has one.

    Parameters
    ----------
    estimator : regressor
        Asked with ``return_std=True`` if its `predict` takes that.
    rows : array_like or DataFrame of shape (n, d)
    target : int, optional
        Number of the target column where there are several.

    Returns
    -------
    mean : ndarray of shape (n,)
    std : ndarray of shape (n,) or None
    """
    if "return_std" not in inspect.signature(estimator.predict).parameters:
        return _column(estimator.predict(rows), target), None
    mean, std = estimator.predict(rows, return_std=True)
    return _column(mean, target), _column(std, target)


def _as_frame(estimator: "BaseEstimator", x: ArrayLike) -> "tuple[pd.DataFrame, bool]":
    """Return x as a frame, and whether the estimator is to be asked with one."""
    import pandas as pd

    if isinstance(x, pd.DataFrame):
        return x, True
    rows = as_rows(x, "x", labels=True)
    names = list(getattr(estimator, "feature_names_in_", ()))
    as_frame = len(names) == rows.shape[1]
    plain = ["x"] if rows.shape[1] == 1 else [f"x{j + 1}" for j in range(rows.shape[1])]
    return pd.DataFrame(rows, columns=names if as_frame else plain).infer_objects(), as_frame


def _one_target(z: ArrayLike, target: int | None, count: int) -> Floats:
    """Return the values of one target column, one for each row of x."""
    values = np.atleast_1d(np.asarray(z))
    check_same_length(values, "z", count, "x")
    return _column(values, target)


def _column(values: ArrayLike, target: int | None) -> Floats:
    """Return one column of a table, or the values themselves where there is only one target."""
    values = np.asarray(values)
    if values.ndim == 1:
        return values
    count = values.shape[1]
    chosen = 0 if target is None and count == 1 else target
    if chosen is None or not 0 <= chosen < count:
        raise ArgumentError(
            "target", f"target is {target}, and there are {count} target columns; give a number from 0 on."
        )
    return np.asarray(values[:, chosen])


class ResidualsDisplay(Display):
    """Errors of predictions in units of their error bars, beside the normal density that they should follow.

    The title says how many of the targets the 95 % intervals hold.

    Parameters
    ----------
    predicted : array_like of shape (n,)
        Mean of each target, predicted from the others.
    residuals : array_like of shape (n,)
        (target - mean) / deviation of each.

    Attributes
    ----------
    points_, band_ : matplotlib artists
        The errors, and where 95 % of them should lie.
    bars_, normal_ : matplotlib artists
        Their histogram and the normal density, in `side_ax_`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ResidualsDisplay(rng.uniform(size=200), rng.normal(size=200)).plot().ax_.get_title()
    '95 % intervals hold 94 % of 200 targets'
    """

    def __init__(self, predicted: ArrayLike, residuals: ArrayLike) -> None:
        self.predicted, self.residuals = (np.ravel(np.asarray(v, dtype=np.float64)) for v in (predicted, residuals))
        check_same_length(self.residuals, "residuals", len(self.predicted), "predicted")

    @property
    def coverage(self) -> float:
        """The fraction of targets inside their 95 % intervals."""
        from scipy.stats import norm

        return float(np.mean(np.abs(self.residuals) <= norm.ppf(0.975)))

    @classmethod
    def from_estimator(
        cls, estimator: "BaseEstimator", *, ax: "AxesLike" = None, color: str = COLORS["model"]
    ) -> Self:
        """Draw each target of a fitted estimator against its prediction from the others (leave-one-out).

        Estimators that keep sums instead of rows cannot leave one out; score those on other rows.

        Parameters
        ----------
        estimator : estimator with `leave_one_out` and `standardized_residuals`
        ax : axes, optional
            Where to draw; by default in a new figure.
        color : str
            Color of the errors.

        Returns
        -------
        ResidualsDisplay

        Examples
        --------
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
        return cls(predicted, estimator.standardized_residuals()).plot(ax, color=color)

    def plot(self, ax: "AxesLike" = None, *, color: str = COLORS["model"]) -> Self:
        """Draw the errors against the predictions, and their histogram at the right end.

        Parameters
        ----------
        ax : axes, optional
            Where to draw; by default in a new figure.
        color : str
            Color of the errors.

        Returns
        -------
        ResidualsDisplay
            Itself.
        """
        from scipy.stats import norm

        (panel,) = self._panels(ax, 1, 1, (8.0, 4.2))
        self.band_ = panel.axhspan(*norm.interval(0.95), color=COLORS["band"], alpha=0.15, lw=0)
        panel.axhline(0.0, color=COLORS["truth"], lw=0.8)
        self.points_ = plot_points(panel, self.predicted, self.residuals, color=color, alpha=0.7)
        panel.set(xlabel="predicted from the other targets", ylabel="error / its standard deviation")
        count = len(self.residuals)
        panel.set_title(f"95 % intervals hold {100.0 * self.coverage:.0f} % of {count} targets", fontsize=10)
        self.side_ax_ = panel.inset_axes((1.02, 0.0, 0.22, 1.0), sharey=panel)
        reach = max(4.0, 1.05 * float(np.abs(self.residuals).max()))
        bins = int(np.clip(0.5 * reach * count**0.5, 8, 200))
        heights, edges = np.histogram(self.residuals, bins, range=(-reach, reach), density=True)
        self.bars_ = self.side_ax_.stairs(
            heights, edges, orientation="horizontal", fill=True, color=color, alpha=0.45
        )
        at = np.linspace(-reach, reach, 400)
        self.normal_ = self.side_ax_.plot(norm.pdf(at), at, color=COLORS["truth"], lw=1.2)[0]
        self.side_ax_.set(ylim=(-reach, reach), xlim=(0.0, None), xticks=[])
        self.side_ax_.set_title("histogram, normal", fontsize=8, color="#555555")
        self.side_ax_.tick_params(labelleft=False)
        return self
