"""`decond reproduce`: the paper's figures."""

import functools
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from decond.cli.console import console, say_json, wrong_input
from decond.cli.options import Folder, flag
from decond.cli.outputs import check_folder, is_picture, json_in, say_wrote, times_of
from decond.cli.wide_tables import Column, fitting_tables
from decond.progress import progress_bar

if TYPE_CHECKING:
    from decond.paper.published import PrintedTable, Row

__all__ = ["command"]

KEYS = {
    "figure3": {"figure", "answers"},
    "figure4": {"figure", "answers", "slips_of_the_published_panels"},
    "figure5": {
        "figure",
        "seeds",
        "answers",
        "lotka_volterra",
        "left_out",
        "published",
        "true_log_theta_1",
    },
}
"""What is in the JSON file of each figure."""


class Figure(StrEnum):
    """The figures that can be made again."""

    all = "all"
    figure3 = "figure3"
    figure4 = "figure4"
    figure5 = "figure5"


def command(
    figure: Annotated[
        Figure,
        typer.Argument(
            help="figure3: a function recovered from two tables. figure4: 100 rows represented by five points. "
            "figure5: posteriors of two simulators, many methods, five seeds (minutes). all: each of them, and a "
            "page that compares every number with the published one.",
            metavar="FIGURE",
        ),
    ],
    output: Folder = Path("decond-paper"),
    json: Annotated[bool, flag("--json", "Print the numbers as JSON, and nothing else.")] = False,
) -> None:
    """Make a figure of the paper again, or all of them: a PNG each, and a JSON with its numbers.

    Example: decond reproduce figure3 --output figures
    """
    from decond.paper import FIGURES, TABLES
    from decond.paper.published import compare, write_comparison

    names = list(FIGURES) if figure is Figure.all else [figure.value]
    files = _own(names, with_page=figure is Figure.all)
    with wrong_input():
        check_folder(output, files, "from decond reproduce")
    before = times_of(output / name for name in files)
    numbers: dict[str, Any] = {}
    paths: list[Path] = []
    rows: list[Row] = []
    for name in names:
        with progress_bar(f"computing {name}") as report:
            written, numbers[name] = FIGURES[name](output, report)
        paths += written
        rows += compare(name, numbers[name])
        if not json:
            _show_numbers(name, numbers[name])
    if figure is Figure.all:
        tables = {name: TABLES[name](numbers[name]) for name in names if name in TABLES}
        paths += write_comparison(output, rows, tables)
    if json:
        comparison = [row.as_dict() for row in rows]
        say_json({"figures": numbers, "comparison": comparison, "files": [str(path) for path in paths]})
        return
    _show_comparison(rows)
    say_wrote(*paths, before=before)


def _own(figures: list[str], with_page: bool) -> dict[str, Callable[[Path], bool]]:
    """Return the names of what is written, and how each file is known again."""
    files: dict[str, Callable[[Path], bool]] = {}
    for name in figures:
        files |= {f"{name}.png": is_picture, f"{name}.json": functools.partial(_has_numbers_of, name)}
    if with_page:
        files["figures.md"] = lambda path: path.read_text(encoding="utf-8", errors="replace").startswith(
            "# Figures of the paper"
        )
        files["figures.json"] = lambda path: set(json_in(path)) == {"rows", "notes"}
    return files


def _has_numbers_of(figure: str, path: Path) -> bool:
    found = json_in(path)
    return set(found) == KEYS[figure] and str(found["figure"]).endswith(f"Figure {figure.removeprefix('figure')})")


def _show_numbers(name: str, numbers: dict[str, Any]) -> None:
    """Print the numbers of a figure as tables with nothing cut."""
    from decond.paper import TABLES

    for title, headings, rows in TABLES[name](numbers) if name in TABLES else _as_tables(numbers):
        first, *others = (Column(heading, list(cells)) for heading, *cells in zip(headings, *rows, strict=True))
        for table in fitting_tables(title, first, others, console.width):
            console.print(table, crop=False)


def _as_tables(numbers: dict[str, Any]) -> "list[PrintedTable]":
    """Return a table for each set of answers: one row an answer, one column for each of its plain numbers."""
    parts = {
        words: part
        for words, part in numbers.items()
        if isinstance(part, dict) and all(isinstance(answer, dict) for answer in part.values())
    }
    return [_as_table(numbers["figure"] if len(parts) == 1 else words, part) for words, part in parts.items()]


def _as_table(title: str, answers: dict[str, dict[str, Any]]) -> "PrintedTable":
    from decond.paper.published import PrintedTable

    keys = next(iter(answers.values()))
    numeric = [key for key in keys if any(isinstance(answer[key], float) for answer in answers.values())]
    rows = [
        [name, *("" if answer[key] is None else f"{answer[key]:.4g}" for key in numeric)]
        for name, answer in answers.items()
    ]
    return PrintedTable(title.replace("_", " "), ["answer", *(key.replace("_", " ") for key in numeric)], rows)


def _show_comparison(rows: "list[Row]") -> None:
    """Print what is known of each figure beside ours; reasons for a difference follow by number, then notes."""
    from decond.paper.published import figure_notes, reasons, tabulated

    for name in dict.fromkeys(row.figure for row in rows):
        shown = [row for row in rows if row.figure == name]
        _, headings, cells = tabulated(shown)
        table = Table(title=f"figure {name.removeprefix('figure')}: {headings[1]} and reproduced")
        for at, heading in enumerate(headings):
            table.add_column(heading, justify="right" if at else "left")
        for line in cells:
            table.add_row(*map(Text, line))
        console.print(table)
        for reason, number in reasons(shown).items():
            console.print(Text(f"{number}. {reason}"))
        for note in figure_notes()[name]:
            console.print(Text(note))
