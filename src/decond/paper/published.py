"""What is published beside what comes out here: one row a number, with the reason where they differ."""

import csv
import functools
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "PrintedTable",
    "Reading",
    "Row",
    "answer_tables",
    "compare",
    "published_values",
    "readings",
    "write_comparison",
]


class Reading(NamedTuple):
    """One number of the published Figure 5, with its uncertainty; `published_figure5.csv` says how it was read."""

    panel: str
    algorithm: str
    result: int
    quantity: str
    value: float
    uncertainty: float


class PrintedTable(NamedTuple):
    """Cells as they are printed, one list a row."""

    title: str
    headings: list[str]
    rows: list[list[str]]

    def as_markdown(self) -> list[str]:
        """Return the lines of a Markdown table, the first column to the left and all others to the right.

        >>> PrintedTable("widths", ["method", "width"], [["DME", "0.43"]]).as_markdown()
        ['| method | width |', '|---|---:|', '| DME | 0.43 |']
        """
        head, *body = (f"| {' | '.join(line)} |" for line in [self.headings, *self.rows])
        return [head, f"|---|{'---:|' * (len(self.headings) - 1)}", *body]


@functools.cache
def readings() -> tuple[Reading, ...]:
    """Return all readings of Figure 5.

    >>> readings()[0]
    Reading(panel='left', algorithm='DME (Algorithm 8.1), global', result=1, quantity='peak', value=0.98, ...)
    """
    rows = csv.reader(line for line in _text_of("published_figure5.csv").splitlines() if not line.startswith("#"))
    _, *cells = rows
    return tuple(
        Reading(panel, name, int(result), quantity, *map(float, numbers))
        for panel, name, result, quantity, *numbers in cells
    )


def published_values(panel: str, algorithm: str, quantity: str) -> list[float]:
    """Return a quantity of the published results of an algorithm: none, one, or two for GPS-ABC.

    Parameters
    ----------
    panel : {"left", "right"}
    algorithm : str
    quantity : {"peak", "total_variation", "low", "high"}
        The first two are in the left panel, ends of intervals in the right one.

    Returns
    -------
    list of float

    Examples
    --------
    >>> published_values("left", "GPS-ABC", "total_variation"), published_values("right", "MDN", "low")
    ([0.275, 0.323], [-4.929])
    """
    return [one.value for one in _readings_of(panel, algorithm, quantity)]


def _readings_of(panel: str, algorithm: str, quantity: str) -> list[Reading]:
    key = (panel, algorithm, quantity)
    return [one for one in readings() if (one.panel, one.algorithm, one.quantity) == key]


@functools.cache
def figure_notes() -> dict[str, list[str]]:
    """Return what to know about each figure before its numbers are compared."""
    return tomllib.loads(_text_of("figure_notes.toml"))


def _text_of(name: str) -> str:
    return resources.files("decond.paper").joinpath(name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Row:
    """One number of a figure.

    Examples
    --------
    >>> row = Row("figure5", "peak density: DME", 0.168, 0.1676)
    >>> row.difference, row.agrees
    (-0.0004, True)
    """

    figure: str
    quantity: str
    published: float | None
    ours: float | None
    why: str = ""
    """What a difference would come from."""
    reference: float | None = None
    """The number by other means, where none is published."""
    form: str = ""
    """Whether the algorithm is as published or as improved, where that is a question."""
    uncertainty: float | None = None
    """Of the published number, where it was read off a figure."""

    @property
    def other(self) -> float | None:
        """What ours is compared with: the published number, or else the reference."""
        return self.reference if self.published is None else self.published

    @property
    def difference(self) -> float | None:
        """Ours minus the other, to the digits of that one and one more."""
        if self.other is None or self.ours is None:
            return None
        return round(self.ours - self.other, self._decimals + 1)

    @property
    def _decimals(self) -> int:
        """Decimals of the other number."""
        if self.uncertainty is not None:
            return round(-math.log10(2.0 * self.uncertainty))
        return len(repr(self.other).partition(".")[2])

    @property
    def agrees(self) -> bool:
        """Whether the difference is within one unit of the other's last digit."""
        return self.difference is not None and abs(self.difference) <= 10.0**-self._decimals

    @property
    def reason(self) -> str:
        """Why they differ; empty where they agree."""
        return "" if self.agrees else self.why

    def texts(self) -> tuple[str, str, str]:
        """Return the other, ours and the difference as they are printed: the digits of the other, and one more."""
        if self.other is None:
            return "–", f"{self.ours:.4g}", "–"
        if self.ours is None:
            return f"{self.other:.{self._decimals}f}", "–", "–"
        digits = self._decimals + 1
        return f"{self.other:.{digits - 1}f}", f"{self.ours:.{digits}f}", f"{self.difference:+.{digits}f}"

    def as_dict(self) -> dict[str, Any]:
        """Return the row for a JSON file."""
        values = {"figure": self.figure, "quantity": self.quantity, "published": self.published}
        values |= {} if self.reference is None else {"reference": self.reference}
        values |= {"form": self.form} if self.form else {}
        return {**values, "ours": self.ours, "difference": self.difference, "explanation": self.reason}


def compare(figure: str, numbers: Mapping[str, Any]) -> list[Row]:
    """Return the rows of one figure from the numbers that it wrote.

    Parameters
    ----------
    figure : {"figure3", "figure4", "figure5"}
    numbers : mapping
        What `FIGURES[figure]` returned.

    Returns
    -------
    list of Row
    """
    rows = {"figure3": _figure3_rows, "figure4": _figure4_rows, "figure5": _figure5_rows}[figure]
    return list(rows(numbers))


def reasons(rows: list[Row]) -> dict[str, int]:
    """Return the reasons for differences, numbered in the order of the rows."""
    found = dict.fromkeys(row.reason for row in rows if row.reason)
    return {reason: number for number, reason in enumerate(found, 1)}


def tabulated(rows: list[Row]) -> PrintedTable:
    """Return one figure's table; reasons are there by number, if there are any."""
    found = reasons(rows)
    other = "published" if all(row.reference is None for row in rows) else "reference"
    form = ["form"] if any(row.form for row in rows) else []
    headings = ["number", *form, other, "ours", "difference", *(["why"] if found else [])]
    cells = [
        [row.quantity, *([row.form] if form else []), *row.texts(), str(found.get(row.reason, ""))] for row in rows
    ]
    return PrintedTable("", headings, [line[: len(headings)] for line in cells])


def answer_tables(numbers: Mapping[str, Any]) -> list[PrintedTable]:
    """Return a table with all numbers of the answers of a figure, a row an answer."""
    answers = numbers["answers"]
    keys = [key for key in next(iter(answers.values())) if any(isinstance(a[key], float) for a in answers.values())]
    rows = [
        [name, *("–" if answer[key] is None else f"{answer[key]:.4g}" for key in keys)]
        for name, answer in answers.items()
    ]
    return [PrintedTable(numbers["figure"], ["answer", *(key.replace("_", " ") for key in keys)], rows)]


def save_numbers(folder: Path, name: str, figure: "Figure", numbers: Mapping[str, Any]) -> list[Path]:
    """Write a figure as PNG and its numbers as JSON.

    Parameters
    ----------
    folder : Path
    name : str
        Of both files, without ending.
    figure : matplotlib figure
    numbers : mapping

    Returns
    -------
    list of Path
        The two files.
    """
    picture, data = folder / f"{name}.png", folder / f"{name}.json"
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=120)
    data.write_text(json.dumps(numbers, indent=2) + "\n")
    return [picture, data]


def write_comparison(folder: Path, rows: list[Row], tables: Mapping[str, list[PrintedTable]]) -> list[Path]:
    """Write ``figures.md`` and ``figures.json``: all rows, tables of the figures' numbers, and what to know.

    Parameters
    ----------
    folder : Path
    rows : list of Row
        Of all figures.
    tables : mapping of str to list of PrintedTable
        Further tables of a figure.

    Returns
    -------
    list of Path
        The two files.
    """
    page, data = folder / "figures.md", folder / "figures.json"
    page.write_text(_as_markdown(rows, tables), encoding="utf-8")
    content = {"rows": [row.as_dict() for row in rows], "notes": figure_notes()}
    data.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return [page, data]


def _as_markdown(rows: list[Row], tables: Mapping[str, list[PrintedTable]]) -> str:
    """Return a page with a table for each figure, after what to know about it."""
    lines = ["# Figures of the paper, published and reproduced", ""]
    for figure, notes in figure_notes().items():
        name = f"Figure {figure.removeprefix('figure')}"
        shown = [row for row in rows if row.figure == figure]
        if not shown and name not in ("Figure 1", "Figure 2"):  # these are drawings, without numbers
            continue
        lines += [f"## {name}", "", *(f"- {note}" for note in notes), ""]
        if shown:
            lines += [*tabulated(shown).as_markdown(), ""]
            lines += [*(f"{number}. {reason}" for reason, number in reasons(shown).items()), ""]
            lines += [f"![{name}]({figure}.png)", ""]
        for table in tables.get(figure, []):
            lines += [f"### {table.title}", "", *table.as_markdown(), ""]
    return "\n".join(lines)


@functools.cache
def _reasons() -> dict[str, Any]:
    return tomllib.loads(_text_of("reasons.toml"))


def _figure3_rows(numbers: Mapping[str, Any]) -> Iterable[Row]:
    """Yield rows; the figure prints no numbers, and the references were computed from its data in plain NumPy."""
    for name, known in _reasons()["figure3"]["references"].items():
        answer = numbers["answers"][name]
        ours = {**answer, **(answer["hyperparameters"] or {})}
        for key, value in known.items():
            words = "coverage of two sd" if key == "coverage_2sd" else key.replace("_", " ")
            why = _reasons()["figure3"]["why"]
            yield Row("figure3", f"{words}: {name}", None, ours[key], why, reference=value)


def _figure4_rows(numbers: Mapping[str, Any]) -> Iterable[Row]:
    keys = {"rmse_within_data": "rmse within the data", "negative_log_evidence": "negative log evidence"}
    names = {"random": "random points", "jointly": "everything learned", "points": "points learned"}
    reasons_of = _reasons()["figure4"]
    for name, answer in numbers["answers"].items():
        for key, words in keys.items():
            yield Row("figure4", f"{words}: {names[name]}", None, answer[key], reasons_of["why"])
    for key, truth in (("lengthscale", 1.0), ("noise", 0.25)):
        ours = numbers["answers"]["jointly"][key]
        yield Row("figure4", f"{key}: everything learned", None, ours, reasons_of["learned"].format(truth=truth))


def _figure5_rows(numbers: Mapping[str, Any]) -> Iterable[Row]:
    seeds = len(numbers["seeds"])
    curve_keys = {"total_variation": "total variation", "peak": "peak density"}
    bar_keys = {"low": "log θ₁, 2.5 %", "high": "log θ₁, 97.5 %"}
    for answer in numbers["answers"].values():
        yield from _compared("left", answer, curve_keys, _why_curve(answer, seeds))
    for answer in numbers["lotka_volterra"].values():
        yield from _compared("right", answer, bar_keys, _why_bar(answer, seeds))
    for label, reason in numbers["left_out"].items():
        algorithm, _, form = label.rpartition(", ")
        yield from _compared("right", {"algorithm": algorithm, "form": form}, bar_keys, reason)


def _compared(panel: str, answer: Mapping[str, Any], keys: Mapping[str, str], why: str) -> Iterable[Row]:
    """Yield a row for each published number of an answer, or one for each quantity that is not published."""
    name, form = answer["algorithm"], answer["form"]
    for key, words in keys.items():
        row = Row("figure5", f"{words}: {name}", None, answer.get(key), why, form=form)
        known = _readings_of(panel, name, key)
        yield from [replace(row, published=one.value, uncertainty=one.uncertainty) for one in known] or [row]


def _why(panel: str, algorithm: str, **found: str) -> str:
    """Return the reason that belongs to an algorithm, with what was found."""
    texts = _reasons()[panel]
    text: str = next((text for start, text in texts.items() if algorithm.startswith(start)), texts["other"])
    return text.format(**found)


def _why_curve(answer: Mapping[str, Any], seeds: int) -> str:
    """Return why densities of the left panel are not the published one."""
    if not answer["published_peak"]:
        return "Not in the paper."
    low, high = answer["lowest_total_variation"], answer["highest_total_variation"]
    spread = f"Other simulations: over {seeds} seeds total variations are from {low:.2f} to {high:.2f}."
    return _why("curves", "improved" if answer["form"] == "as improved" else answer["algorithm"], spread=spread)


def _why_bar(answer: Mapping[str, Any], seeds: int) -> str:
    """Return why intervals of the right panel are not the published one."""
    if answer["published_low"] is None:
        return "Not in the paper."
    ratio = answer["width"] / (answer["published_high"] - answer["published_low"])
    inside = f"hold the true value in {answer['times_covered']} of {seeds} runs"
    found = f"Ours are {ratio:.1f} times as wide on average, and {inside}"
    widths = [run["intervals"][0][1] - run["intervals"][0][0] for run in answer["runs"]]
    points = sum(width < 0.01 for width in widths)  # of a prior of width 7
    if points:
        found += f"; {points} collapsed onto a point"
    return _why("bars", answer["algorithm"], found=found, count=f"{answer['n_simulations']:,.0f} simulations here")
