"""`decond reproduce`: the paper's figures."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from decond.cli.console import console, make_folder, progress_bar, say_wrote, wrong_input

__all__ = ["command"]


class Figure(StrEnum):
    """The figures that can be made again."""

    figure3 = "figure3"
    figure4 = "figure4"
    figure5 = "figure5"


def command(
    figure: Annotated[
        Figure,
        typer.Argument(
            help="figure3: a function recovered from two tables. figure4: 100 rows represented by five points. "
            "figure5: posteriors of two simulators (minutes)."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write into.")] = Path("decond-paper"),
) -> None:
    """Make a figure of the paper again: a PNG, and a JSON with its numbers.

    Example: decond reproduce figure3 --output figures
    """
    with wrong_input():
        make_folder(output)
    with progress_bar(f"computing {figure.value}"):
        from decond.paper import FIGURES

        paths, numbers = FIGURES[figure.value](output)
    for table in _as_tables(numbers):
        console.print(table)
    say_wrote(*paths)


def _as_tables(numbers: dict[str, Any]) -> list[Table]:
    """Return a table for each set of answers: one row an answer, one column for each of its plain numbers."""
    parts = {
        words: part
        for words, part in numbers.items()
        if isinstance(part, dict) and all(isinstance(answer, dict) for answer in part.values())
    }
    return [_as_table(numbers["figure"] if len(parts) == 1 else words, part) for words, part in parts.items()]


def _as_table(title: str, answers: dict[str, dict[str, Any]]) -> Table:
    keys = next(iter(answers.values()))
    headings = [key for key in keys if any(isinstance(answer[key], float) for answer in answers.values())]
    table = Table(title=title.replace("_", " "))
    table.add_column("answer")
    for heading in headings:
        table.add_column(heading.replace("_", " "), justify="right")
    for name, answer in answers.items():
        table.add_row(name, *("" if answer[key] is None else f"{answer[key]:.4g}" for key in headings))
    return table
