"""The result of comparing methods: one table with a row for each method, one picture, and files of both."""

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from decond.checks import as_count
from decond.errors import ArgumentError, ArgumentTypeError
from decond.notebook import card
from decond.plotting import ComparisonDisplay

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Comparison"]

WORDS = ("calibration", "notes")
"""Columns of text."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Several methods on one problem at equal budget, as `lfi.compare` and `estimators.compare` return them.

    >>> import pandas as pd
    >>> from decond.plotting import Rows
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
        return ComparisonDisplay(self.display.labels, panels, self.display.total).plot(ax)

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
