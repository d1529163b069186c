"""A fitted function with its band, along each column of x."""

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from decond.errors import ArgumentError
from decond.plotting.figures import Display
from decond.plotting.style import BAND_ALPHA, COLORS, plot_line, plot_points, verbatim

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Curve", "FunctionDisplay"]

MAX_PANELS = 6
"""Columns of x that a picture shows at most, unless they are named."""

MAX_DOTS = 2000
"""Rows of data that a picture shows at most, evenly chosen."""


class Curve(NamedTuple):
    """A function along one column: where, its mean, and its standard deviation if it has one.

    >>> curve = Curve("wind", np.array([0.0, 1.0]), np.array([2.0, 3.0]))
    >>> curve.name, curve.std is None
    ('wind', True)
    """

    name: str
    x: np.ndarray
    mean: np.ndarray
    std: np.ndarray | None = None


class FunctionDisplay(Display):
    """A function of x with a band of error bars: one panel for each column, the others at their median.

    Make one with `from_estimator`, or with `from_predictions` from a mean that you have. Ticks along the bottom show
    where the rows of x are. After `plot`: `lines_`, `bands_` (empty without error bars), `points_`, and the first of
    each as `line_`, `band_`.

    Parameters:
        curves: one `Curve` for each panel.
        rows: for each panel, where the data are; None draws no ticks.
        z: targets of these rows, drawn as dots where there is a single panel.
        target_name: what the function is of, along the vertical axis.

    >>> curve = Curve("wind", np.array([0.0, 1.0]), np.array([2.0, 3.0]))
    >>> display = FunctionDisplay([curve], target_name="power").plot()
    >>> display.ax_.get_xlabel(), display.ax_.get_ylabel(), display.band_ is None
    ('wind', 'power', True)
    """

    def __init__(
        self, curves: Sequence[Curve], *, rows: Sequence[Any] | None = None, z: Any = None, target_name: str = "z"
    ) -> None:
        self.curves, self.rows, self.target_name = list(curves), rows, target_name
        self.z = None if z is None else np.asarray(z)
        if self.z is not None and rows is not None and self.z.shape != (len(rows[0]),):
            raise ArgumentError(
                "z", f"z has shape {self.z.shape} but x has {len(rows[0])} rows; give one value for each."
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        x: Any,
        z: Any = None,
        *,
        columns: Sequence[Any] | None = None,
        target: int | None = None,
        target_name: str = "z",
        n_points: int = 200,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw what a fitted estimator predicts over the range of the rows x.

        Any regressor will do; a band is there if its `predict` takes ``return_std=True``. `z` has a value for each
        row, where there is one, and is drawn if x has a single column. At most six columns are drawn unless `columns`
        names them; columns of text are held at their most frequent value. `target` is the number of the target column
        where there are several, also of z; `options` are those of `plot`.

        >>> import pandas as pd
        >>> from decond.estimators import DirectGP
        >>> from decond.kernels import RBF
        >>> x = pd.DataFrame({"wind": [0.0, 1.0, 2.0], "height": [5.0, 5.0, 6.0]})
        >>> gp = DirectGP(RBF(1.0), optimize=False).fit(x, [0.0, 1.0, 4.0])
        >>> display = FunctionDisplay.from_estimator(gp, x, target_name="power")
        >>> [ax.get_xlabel() for ax in display.axes_]
        ['wind', 'height']
        """
        frame, as_given = _frame(estimator, x)
        dots = None if z is None else _one_target(z, target, len(frame))
        names = _drawn(frame, columns)
        curves = []
        for name in names:
            rows_along = along(frame, name, n_points)
            mean, std = predicted(estimator, rows_along if as_given else rows_along.to_numpy(), target)
            curves.append(Curve(str(name), rows_along[name].to_numpy(), mean, std))
        single = frame.shape[1] == 1
        rows = [frame[name].to_numpy() for name in names]
        return cls(curves, rows=rows, z=dots if single else None, target_name=target_name).plot(ax, **options)

    @classmethod
    def from_predictions(
        cls,
        x: Any,
        mean: Any,
        std: Any = None,
        *,
        name: str = "x",
        target_name: str = "z",
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw a mean, and a band where there is a standard deviation, at given values of one column.

        >>> display = FunctionDisplay.from_predictions([0.0, 1.0], [2.0, 3.0], [0.1, 0.1])
        >>> display.line_.get_label()
        'mean ± 2 sd'
        """
        at = np.ravel(np.asarray(x, dtype=np.float64))
        values = [None if value is None else np.ravel(np.asarray(value, dtype=np.float64)) for value in (mean, std)]
        for value, words in zip(values, ("mean", "std"), strict=True):
            if value is not None and len(value) != len(at):
                raise ArgumentError(words, f"{words} has {len(value)} values but x has {len(at)}; give one for each.")
        assert values[0] is not None
        return cls([Curve(name, at, values[0], values[1])], target_name=target_name).plot(ax, **options)

    def plot(
        self,
        ax: Any = None,
        *,
        width: float = 2.0,
        label: str = "mean",
        color: str = COLORS["model"],
        line_kwargs: Mapping[str, Any] | None = None,
        band_kwargs: Mapping[str, Any] | None = None,
        points_kwargs: Mapping[str, Any] | None = None,
    ) -> Self:
        """Draw every curve with a band of `width` standard deviations, in `color`.

        `ax` is one of your axes, or as many as there are panels: those of another display put two models into one
        picture.
        """
        count = len(self.curves)
        across = min(3, count)
        size = (8.0, 4.5) if count == 1 else (4.0 * across, 3.3 * -(-count // across))
        axes = self._panels(ax, count, 3, size, sharey=True)
        self.lines_: list[Any] = []
        self.bands_: list[Any] = []
        self.points_: Any = None
        for j, (panel, curve) in enumerate(zip(axes, self.curves, strict=True)):
            self._plot_data(panel, j, points_kwargs)
            words = label
            if curve.std is not None:
                words = f"{label} ± {width:g} sd"
                half = width * curve.std
                band = {"color": color, "alpha": BAND_ALPHA, "linewidth": 0, **(band_kwargs or {})}
                self.bands_.append(panel.fill_between(curve.x, curve.mean - half, curve.mean + half, **band))
            line = {"color": color, **(line_kwargs or {})}
            self.lines_.append(plot_line(panel, curve.x, curve.mean, "model", words, **line))
            panel.set_xlabel(verbatim(curve.name))
        self.line_, self.band_ = self.lines_[0], self.bands_[0] if self.bands_ else None
        axes[0].set_ylabel(verbatim(self.target_name))
        axes[0].legend(frameon=False, fontsize=9)
        if count > 1 and ax is None:
            self.figure_.suptitle("each column alone, the others at their median", fontsize=10)
        return self

    def _plot_data(self, ax: Any, j: int, options: Mapping[str, Any] | None) -> None:
        """Draw the rows of a column as ticks, and their targets as dots if they are known."""
        if self.rows is None:
            return
        step = -(-len(self.rows[j]) // MAX_DOTS)
        at = np.asarray(self.rows[j])[::step]
        if self.z is not None:
            self.points_ = plot_points(ax, at, self.z[::step], label="data", **(options or {}))
        ticks = {"marker": "|", "markersize": 9, "transform": ax.get_xaxis_transform()}
        plot_points(ax, at, np.zeros(len(at)), **ticks)


def _frame(estimator: Any, x: Any) -> "tuple[pd.DataFrame, bool]":
    """Return x as a frame, and whether the estimator is to be asked with one."""
    import pandas as pd

    if isinstance(x, pd.DataFrame):
        return x, True
    rows = np.asarray(x)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or not len(rows):
        raise ArgumentError(
            "x", f"x has shape {rows.shape}; give rows of a table, shape (n, d), over whose range to draw."
        )
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and len(names) == rows.shape[1]:
        return pd.DataFrame(rows, columns=list(names)).infer_objects(), True
    plain = ["x"] if rows.shape[1] == 1 else [f"x{j + 1}" for j in range(rows.shape[1])]
    return pd.DataFrame(rows, columns=plain).infer_objects(), False


def _drawn(frame: "pd.DataFrame", columns: Sequence[Any] | None) -> list[Any]:
    """Return the columns to draw: those named, or the first few that hold numbers."""
    numbers = [name for name in frame.columns if frame[name].dtype.kind in "biuf"]
    if columns is None:
        chosen = numbers[:MAX_PANELS]
    else:
        chosen = [frame.columns[name] if isinstance(name, int) else name for name in columns]
    unknown = [name for name in chosen if name not in numbers]
    if unknown or not chosen:
        words = ", ".join(map(repr, unknown)) or "no column"
        raise ArgumentError("columns", f"{words} cannot be drawn along; choose columns of numbers, from {numbers}.")
    return chosen


def along(frame: "pd.DataFrame", name: Any, n_points: int) -> "pd.DataFrame":
    """Return rows along one column of x, the other columns at their median."""
    import pandas as pd

    low, high = float(frame[name].min()), float(frame[name].max())
    margin = 0.0 if high > low else 0.5 * abs(low) or 0.5
    line = np.linspace(low - margin, high + margin, n_points)
    return pd.DataFrame({column: line if column == name else _middle(frame[column]) for column in frame.columns})


def _middle(column: "pd.Series") -> Any:
    return float(column.median()) if column.dtype.kind in "biuf" else column.mode().iloc[0]


def predicted(estimator: Any, rows: Any, target: int | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return mean and standard deviation, or None, of one target column."""
    std = None
    if "return_std" in inspect.signature(estimator.predict).parameters:
        mean, std = estimator.predict(rows, return_std=True)
    else:
        mean = estimator.predict(rows)
    return _column(mean, target), None if std is None else _column(std, target)


def _one_target(z: Any, target: int | None, count: int) -> np.ndarray:
    """Return the values of one target column, one for each row of x."""
    values = np.asarray(z)
    if values.ndim not in (1, 2) or len(values) != count:
        raise ArgumentError("z", f"z has shape {values.shape} but x has {count} rows; give one value for each.")
    return _column(values, target)


def _column(values: Any, target: int | None) -> np.ndarray:
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
