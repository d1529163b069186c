"""How options are declared, and those that several commands have, with the same words in the help of each."""

from pathlib import Path
from typing import Annotated, Any

import typer

from decond.cli.completion import complete_column

__all__ = ["AsJson", "Folder", "Seed", "column", "file", "flag", "number"]


def flag(name: str, words: str, hidden: bool = False) -> Any:
    """Return an option that is given or not."""
    return typer.Option(name, help=words, hidden=hidden)


def column(name: str, words: str) -> Any:
    """Return an option that takes the name of a column, which the shell completes."""
    return typer.Option(name, metavar="COLUMN", help=words, autocompletion=complete_column)


def number(words: str, *names: str, least: float | None = 1, metavar: str = "NUMBER") -> Any:
    """Return an option that takes a number; it is called as its argument unless names are given."""
    return typer.Option(*names, min=least, metavar=metavar, help=words)


def file(words: str, *names: str, metavar: str = "FILE") -> Any:
    """Return an option that takes the path of a file."""
    return typer.Option(*names, metavar=metavar, help=words)


AsJson = Annotated[bool, flag("--json", "Print the results as one JSON object, and nothing else on stdout.")]
Seed = Annotated[int, number("Seed of everything random.", least=0)]
Folder = Annotated[Path, file("Folder to write into.", "--output", "-o", metavar="FOLDER")]
