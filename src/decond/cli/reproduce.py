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


def command(
    figure: Annotated[
        Figure,
        typer.Argument(
            help="figure3: a function recovered from two tables. figure4: 100 rows represented by five points."
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
    console.print(_as_table(numbers))
    say_wrote(*paths)


def _as_table(numbers: dict[str, Any]) -> Table:
    """Return one row for each answer and one column for each of its plain numbers."""
    answers = numbers["answers"]
    headings = [key for key, value in next(iter(answers.values())).items() if isinstance(value, float)]
    table = Table(title=numbers["figure"])
    table.add_column("answer")
    for heading in headings:
        table.add_column(heading.replace("_", " "), justify="right")
    for name, answer in answers.items():
        table.add_row(name, *("" if answer[key] is None else f"{answer[key]:.4g}" for key in headings))
    return table
