"""What all commands share: where they print, how they end on wrong input, and the bar that moves meanwhile."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

__all__ = ["console", "errors", "make_folder", "progress_bar", "say_wrote", "wrong_input"]

console = Console()
errors = Console(stderr=True)


@contextlib.contextmanager
def wrong_input() -> Iterator[None]:
    """End the program with one clear message and exit code 2 where the input is wrong."""
    try:
        yield
    except MemoryError as error:
        _say_error(
            f"{error}. These models hold a matrix of all rows by all rows: fit a sample of some thousand rows."
        )
        raise typer.Exit(2) from None
    except (FloatingPointError, OSError, TypeError, ValueError) as error:
        _say_error(str(error))
        raise typer.Exit(2) from None


def _say_error(message: str) -> None:
    errors.print(Text.assemble(("Error: ", "bold red"), message), soft_wrap=True)


def make_folder(folder: Path) -> None:
    """Make a folder for what a command writes, or say why that cannot be."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file. Give a folder: --output some-folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{folder} cannot be made: {error.strerror}. Give another folder with --output.") from None


@contextlib.contextmanager
def progress_bar(description: str) -> Iterator[Callable[[int, float], None]]:
    """Show a moving bar on a terminal, and nothing elsewhere; yields what learning reports to."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[status]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task(description, total=None, status="")

        def report(evaluations: int, best: float) -> None:
            progress.update(task, status=f"evaluation {evaluations}, best {best:.2f}")

        yield report


def say_wrote(*paths: Path) -> None:
    """Name the files that were written."""
    for path in paths:
        console.print(Text(f"wrote {path}"), soft_wrap=True)
