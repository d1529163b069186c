"""Several methods on one problem: one table with a row for each method, one picture, and files of both."""

import difflib
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from decond.checks import as_count
from decond.errors import ArgumentError, ArgumentTypeError
from decond.messages import card
from decond.plotting.display import COLORS, Display, make_figure, set_few_ticks, title_panel, verbatim
from decond.plotting.regression_plot import Curve

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from decond.plotting.display import AxesLike

__all__ = ["Comparison", "ComparisonDisplay", "Lines", "Rows"]

WORDS = ("calibration", "notes")
"""Columns of text."""

# ---- the picture ---------------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """A panel with one row a method: a value each, or an interval (low, middle, high).

    >>> panel = Rows("seconds", {"smc": 0.5, "dme": 20.0}, log=True)
    >>> panel.is_spans, panel.ideal is None
    (False, True)
    """

    name: str
    values: Mapping[str, Any]
    ideal: float | None = None
    """Where a line is drawn: the truth of intervals, or the best possible value, which the title then names."""
    band: tuple[float, float] | None = None
    """A range behind the rows, such as the exact interval."""
    log: bool = False
    note: str = ""
    """A short title of the panel."""

    @property
    def is_spans(self) -> bool:
        """Whether rows are intervals."""
        return any(np.ndim(value) == 1 for value in self.values.values())

    def finite(self) -> dict[str, np.ndarray]:
        """Return the values of methods that have one."""
        values = {label: np.asarray(value, dtype=np.float64) for label, value in self.values.items()}
        return {label: value for label, value in values.items() if np.isfinite(value).all()}


class Lines(NamedTuple):
    """A panel with one curve a method, and the true one where it is known.

    >>> curve = Curve("wind", np.array([0.0, 1.0]), np.array([2.0, 3.0]))
    >>> Lines("power", {"honest": curve}).truth is None
    True
    """

    name: str
    """What the curves are of, along the vertical axis."""
    curves: Mapping[str, Curve]
    truth: Curve | None = None
    note: str = ""
    """A short title of the panel."""

    def finite(self) -> Mapping[str, Curve]:
        """Return the curves of methods that have one."""
        return self.curves


class ComparisonDisplay(Display):
    """Panels beside each other that share one row, or one color, for each method.

    `lfi.compare(...).plot()` and `estimators.compare(...).plot()` make one. Methods without a value in any panel did
    not run, and the picture says so.

    Parameters
    ----------
    labels : sequence of str
        Methods, from top to bottom.
    panels : sequence of Rows and Lines
        From left to right.

    Examples
    --------
    >>> panels = [Rows("rate", {"smc": (1.0, 1.7, 2.5)}, ideal=2.0), Rows("seconds", {"smc": 0.5}, log=True)]
    >>> display = ComparisonDisplay(["smc", "mdn"], panels).plot()
    >>> [ax.get_xlabel() for ax in display.axes_], [text.get_text() for text in display.axes_[0].texts]
    (['rate', 'seconds'], ['did not run'])
    """

    palette = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F6000", "#999999")
    """Colors of curves; where there are more curves than colors, they have other dashes, too."""

    def __init__(self, labels: Sequence[str], panels: Sequence[Rows | Lines]) -> None:
        self.labels, self.panels = list(labels), list(panels)

    def plot(self, ax: "AxesLike" = None) -> Self:
        """Draw the panels into axes of yours, as many as there are panels, or into a new figure."""
        if ax is None:
            self._new_axes()
        else:
            self._panels(ax, len(self.panels), len(self.panels))
        colors = self._colors(any(isinstance(part, Lines) for part in self.panels))
        first: Axes | None = None
        for panel, part in zip(self.axes_, self.panels, strict=True):
            if isinstance(part, Lines):
                _draw_lines(panel, part, colors, self.labels)
                continue
            _draw_rows(panel, part, self.labels, colors)
            _name_rows(panel, self.labels if first is None else [""] * len(self.labels))
            first = first or panel
        if first is not None:
            self._mark_absent(first)
        return self

    def _new_axes(self) -> None:
        spans = sum(isinstance(part, Rows) and part.is_spans for part in self.panels)
        has_lines = any(isinstance(part, Lines) for part in self.panels)
        inches = [
            4.2 if isinstance(part, Lines) else min(4.2, 8.4 / spans) if part.is_spans else 2.3
            for part in self.panels
        ]
        height = max(1.3 + 0.3 * len(self.labels), 4.0 if has_lines else 2.2)
        figure = make_figure((sum(inches) + 1.2, height))
        grid = figure.subplots(1, len(self.panels), squeeze=False, gridspec_kw={"width_ratios": inches})
        self._keep(grid.ravel(), len(self.panels))
        self._made_figure = True

    def _colors(self, has_lines: bool) -> dict[str, tuple[str, str]]:
        """Return color and dashes for each method: one for all unless curves are to be told apart."""
        if not has_lines:
            return dict.fromkeys(self.labels, (COLORS["posterior"], "-"))
        count, dashes = len(self.palette), ("-", "--", ":")
        return {label: (self.palette[i % count], dashes[i // count % 3]) for i, label in enumerate(self.labels)}

    def _mark_absent(self, ax: "Axes") -> None:
        shown = {label for part in self.panels for label in part.finite()}
        for row, label in enumerate(self.labels):
            if label not in shown:
                at: Any = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 8}
                ax.text(0.02, row, "did not run", color="#777777", **at)


def _draw_rows(ax: "Axes", part: Rows, labels: Sequence[str], colors: Mapping[str, tuple[str, str]]) -> None:
    if part.band is not None:
        ax.axvspan(*part.band, color=COLORS["band"], alpha=0.2, linewidth=0)
    if part.ideal is not None:
        ax.axvline(part.ideal, color=COLORS["truth"], linewidth=0.9)
    for label, value in part.finite().items():
        row, color = labels.index(label), colors[label][0]
        if value.ndim:
            ax.plot(value[[0, -1]], [row, row], color=color, linewidth=3.0, alpha=0.55, solid_capstyle="butt")
            ax.plot(value[1], row, marker="o", markersize=5, color=color)
        else:
            ax.plot(value, row, marker="o", markersize=6, color=color)
            at: Any = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 7.5, "color": "#333333"}
            ax.text(1.03, row, f"{value:.3g}", **at)
    ax.set_xlabel(verbatim(part.name))
    best = f"line: {part.ideal:g}, the best" if part.ideal is not None and not part.is_spans else ""
    title_panel(ax, part.note or best)
    if part.log:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.tick_params(labelsize=8)
        return
    set_few_ticks(ax, 8)


def _name_rows(ax: "Axes", names: Sequence[str]) -> None:
    """Write the methods beside a panel of rows."""
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_yticks(range(len(names)), list(map(verbatim, names)))
    ax.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    ax.set_axisbelow(True)


def _draw_lines(ax: "Axes", part: Lines, colors: Mapping[str, tuple[str, str]], labels: Sequence[str]) -> None:
    for label in labels:
        if (curve := part.curves.get(label)) is not None:
            color, dashes = colors[label]
            ax.plot(curve.x, curve.mean, color=color, linestyle=dashes, linewidth=1.6, label=verbatim(label))
    if part.truth is not None:
        ax.plot(part.truth.x, part.truth.mean, color=COLORS["truth"], linewidth=1.4, label="truth")
    shown = [part.curves[label] for label in labels if label in part.curves]
    better = [*shown[: -(-len(shown) // 2)], *([] if part.truth is None else [part.truth])]
    if better:  # wild curves would flatten all others
        low, high = min(np.nanmin(one.mean) for one in better), max(np.nanmax(one.mean) for one in better)
        room, (bottom, top) = 0.5 * (high - low) or 1.0, ax.get_ylim()
        ax.set(xlabel=verbatim(better[0].name), ylim=(max(bottom, low - room), min(top, high + room)))
    ax.set_ylabel(verbatim(part.name))
    title_panel(ax, part.note)
    ax.legend(frameon=False, fontsize=7.5)


# ---- the table ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Several methods on one problem at equal budget, as `lfi.compare` and `estimators.compare` return them.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"RMSE": [0.3, 0.5], "notes": ["", ""]}, index=["honest", "cascade"])
    >>> display = ComparisonDisplay(list(frame.index), [Rows("RMSE", frame["RMSE"].to_dict())])
    >>> found = Comparison("toy", frame, frame, display, measure="RMSE")
    >>> found, found.best, found.plot().ax_.get_xlabel()
    (Comparison(toy: 2 methods by RMSE, honest first), 'honest', 'RMSE')
    """

    title: str
    frame: "pd.DataFrame" = field(repr=False)
    """One row a method, best first; means over seeds."""
    runs: "pd.DataFrame" = field(repr=False)
    """One row a method and seed."""
    display: ComparisonDisplay = field(repr=False)
    measure: str = ""
    """The column by which rows are ordered; empty where nothing known says which is best."""
    found: dict[str, Any] = field(default_factory=dict, repr=False)
    """Posteriors, or fitted models, by method: those of the first seed."""
    errors: dict[str, Exception] = field(default_factory=dict, repr=False)
    """What methods that did not run have raised."""
    notes: list[str] = field(default_factory=list, repr=False)
    """What holds for all rows."""

    @property
    def best(self) -> str | None:
        """The first row, the best by `measure`; None where nothing known says which is best."""
        if not self.measure or np.isnan(self.frame[self.measure].iloc[0]):
            return None
        return str(self.frame.index[0])

    def plot(self, ax: "Axes | None" = None, seconds: bool = True) -> ComparisonDisplay:
        """Draw what each method found, how well, and in how many seconds; return the display.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw.
        seconds : bool
            Whether to draw the seconds.
        """
        panels = [panel for panel in self.display.panels if seconds or panel.name != "seconds"]
        return ComparisonDisplay(self.display.labels, panels).plot(ax)

    def as_dict(self) -> dict[str, Any]:
        """Return everything that the tables hold as plain data; what is not a number is None.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"RMSE": [float("nan")], "notes": ["did not run"]}, index=["dual"])
        >>> Comparison("toy", frame, frame, ComparisonDisplay(["dual"], [])).as_dict()["methods"]
        {'dual': {'RMSE': None, 'notes': 'did not run'}}
        """
        methods = self.frame.to_json(orient="index", double_precision=15)
        runs = self.runs.to_json(orient="records", double_precision=15)
        return {
            "problem": self.title,
            "measure": self.measure,
            "methods": json.loads(methods),
            "runs": json.loads(runs),
            "notes": self.notes,
        }

    def write(self, folder: str | Path) -> list[Path]:
        """Write compare.csv, compare.json and compare.png into a folder, which is made; return their paths."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        csv, numbers, picture = (place / f"compare.{ending}" for ending in ("csv", "json", "png"))
        self.frame.to_csv(csv, index_label="method")
        numbers.write_text(json.dumps(self.as_dict(), indent=2) + "\n", encoding="utf-8")
        self.plot().save(picture, dpi=120)
        return [csv, numbers, picture]

    def __repr__(self) -> str:
        """Show how many methods there are, and the best of them."""
        order = f" by {self.measure}, {self.best} first" if self.best else ""
        return f"Comparison({self.title}: {len(self.frame)} methods{order})"

    def _repr_html_(self) -> str:
        """Show the table, and the notes of all methods, for notebooks."""
        told = {str(name): note for name, note in self.frame.get("notes", {}).items() if note}
        said = [*self.notes, *(f"{name}: {note}" for name, note in told.items())]
        return card("Comparison", self.title, self.frame.drop(columns="notes", errors="ignore"), said)


# ---- running and concluding ----------------------------------------------------------------------------------


class Run(NamedTuple):
    """What one method gave with one seed; `error` is what it, or one of its scores, has raised."""

    label: str
    seed: int
    found: Any
    row: dict[str, Any]
    error: Exception | None = None

    @classmethod
    def failed(cls, label: str, seed: int, error: Exception) -> "Run":
        """Return the run of a method that gave nothing.

        Parameters
        ----------
        label : str
        seed : int
        error : Exception
            What it has raised.
        """
        return cls(label, seed, None, {"notes": f"did not run: {error}"}, error)

    def scored(self, notes: list[str], scores: Mapping[str, Callable[[], dict[str, Any]]]) -> "Run":
        """Return the run with its scores in front; one that raises is missing, with the reason among the notes.

        Parameters
        ----------
        notes : list of str
            What is to be said of the run itself.
        scores : mapping of str to callable
            Functions that return columns, by what they score.
        """
        row, error = self.row, None
        for name, score in scores.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # of further fits; the first has warned already
                    columns = score()
            except Exception as raised:  # the method has run; only this is not known of it
                error = raised
                notes.insert(0, f"{name} is not scored: {raised}")
            else:
                notes.insert(0, str(columns.pop("notes", "")))
                row = {**columns, **row}
        return self._replace(row={**row, "notes": said(notes)}, error=error)


def concluded(
    title: str,
    runs: Sequence[Run],
    columns: Sequence[str],
    measure: str,
    notes: list[str],
    panels: Callable[["pd.DataFrame", dict[str, Any]], Sequence[Rows | Lines]],
    nothing: Callable[[str, dict[str, Exception]], Exception],
) -> Comparison:
    """Return the comparison of all runs.

    Parameters
    ----------
    title : str
    runs : sequence of Run
    columns : sequence of str
        What is measured, in order; columns that no run has are left out.
    measure : str
        The column by which methods are ordered; empty for none.
    notes : list of str
        What holds for all methods.
    panels : callable
        From the table, and what each method found, to what is drawn.
    nothing : callable
        From the reasons, and what was raised, to the error to raise if no run gave anything.
    """
    import pandas as pd

    errors = {run.label: run.error for run in reversed(runs) if run.error is not None}
    found = {run.label: run.found for run in reversed(runs) if run.found is not None}
    if not found:
        raise nothing("; ".join(f"{run.label} {run.row['notes']}" for run in runs), errors)
    table = pd.DataFrame([{"method": run.label, "seed": run.seed, **run.row} for run in runs])
    table = table[["method", "seed", *(name for name in columns if name in table), "notes"]]
    frame = averaged(table, measure)
    ordered = {label: found[label] for label in frame.index if label in found}
    display = ComparisonDisplay(list(frame.index), panels(frame, ordered))
    return Comparison(title, frame, table, display, measure, ordered, errors, notes)


def averaged(runs: "pd.DataFrame", measure: str) -> "pd.DataFrame":
    """Return one row a method: means over seeds, all notes, and the spread of the measure.

    The best come first; those that did not run with all seeds last, and a note says so.

    Parameters
    ----------
    runs : DataFrame
        One row a method and seed.
    measure : str
        The column to order by; empty for none.
    """
    groups = runs.groupby("method", sort=False)
    frame = groups[[name for name in runs.columns if name not in ("method", "seed", *WORDS)]].mean()
    if measure and groups.size().max() > 1:
        frame[f"{measure} sd"] = groups[measure].std()
    for words in WORDS:
        if words in runs:
            frame[words] = groups[words].agg(lambda said: " ".join(dict.fromkeys(filter(_is_text, said))))
    ran, asked = groups["seconds"].count(), groups.size()
    part = ran < asked
    for method in frame.index[part & (ran > 0)]:
        frame.loc[method, "notes"] = said(
            [f"ran with {ran[method]} of {asked[method]} seeds", frame["notes"][method]]
        )
    order = [name for name in runs.columns if name in frame]
    if measure and f"{measure} sd" in frame:
        order.insert(order.index(measure) + 1, f"{measure} sd")
    ordered = frame[order].sort_values(measure, kind="stable") if measure else frame[order]
    return ordered.loc[part[ordered.index].sort_values(kind="stable").index]


def said(notes: Iterable[str]) -> str:
    """Return different notes as sentences, one after the other.

    >>> said(["few draws", "", "few draws", "Slow."])
    'Few draws. Slow.'
    """
    sentences = (note[:1].upper() + note[1:] for note in notes if note)
    return " ".join(dict.fromkeys(text if text.endswith((".", "!", "?")) else f"{text}." for text in sentences))


def checked_seeds(seeds: int | Sequence[int]) -> list[int]:
    """Return the seeds: as many as asked for, or those given."""
    if isinstance(seeds, int | np.integer) and not isinstance(seeds, bool):
        return list(range(as_count(seeds, "seeds")))
    found = [] if isinstance(seeds, str) or not np.iterable(seeds) else list(seeds)
    whole = all(isinstance(seed, int | np.integer) and not isinstance(seed, bool) and seed >= 0 for seed in found)
    if not found or not whole or len(set(found)) < len(found):
        raise ArgumentError("seeds", f"seeds is {seeds!r}; give how many, or different whole numbers of at least 0.")
    return [int(seed) for seed in found]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def chosen_by_label(given: Any, noun: str, known: Sequence[str], kind: type, example: str) -> dict[str, Any]:
    """Return what to compare by label: objects of a kind, or names of known ones; raise for anything else.

    Parameters
    ----------
    given : str, object, sequence or mapping
        What the user asked for; "all" is every known name.
    noun : str
        What messages call one.
    known : sequence of str
        The names.
    kind : type
        The class of objects.
    example : str
        What messages give as an example of an object.

    Examples
    --------
    >>> chosen_by_label("all", "method", ["smc", "dme"], float, "a number")
    {'smc': 'smc', 'dme': 'dme'}
    """
    if isinstance(given, Mapping):
        labels, chosen = list(given), list(given.values())
    else:
        chosen = [given] if isinstance(given, str | kind) else list(given)
        labels = chosen = list(known) if chosen == ["all"] else chosen
    found = dict(zip(map(str, labels), chosen, strict=True))
    if not found:
        raise ArgumentError(f"{noun}s", f'{noun}s is empty; name some, or say "all".')
    if len(found) < len(chosen):
        raise ArgumentError(
            f"{noun}s", f"{noun}s has some of the same label; leave out what is there twice, or give each its own."
        )
    for label, one in found.items():
        if isinstance(one, kind) or (isinstance(one, str) and one in known):
            continue
        if isinstance(one, str):
            near = difflib.get_close_matches(one, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise ArgumentError(f"{noun}s", f"there is no {noun} {one!r}{hint} Choose from {', '.join(known)}.")
        shown = f"the class {one.__name__}" if isinstance(one, type) else type(one).__name__
        raise ArgumentTypeError(f"{noun}s[{label!r}]", f"{noun}s[{label!r}] is {shown}; give a name, or {example}.")
    return found
