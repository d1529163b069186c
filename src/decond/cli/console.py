"""What all commands share: where they print, how they end on wrong input, and the bar that moves meanwhile."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

__all__ = [
    "check_picture",
    "check_unread",
    "console",
    "errors",
    "make_folder",
    "progress_bar",
    "refuse",
    "say_json",
    "say_wrote",
    "wrong_input",
]

console = Console()
errors = Console(stderr=True)


@contextlib.contextmanager
def wrong_input(too_large: str = "Give fewer rows.") -> Iterator[None]:
    """End the program with one clear message and exit code 2 where the input is wrong.

    `too_large` says what to do where memory runs out.
    """
    try:
        yield
    except MemoryError as error:
        refuse(f"{str(error).rstrip('.') or 'the data do not fit into memory'}. {too_large}")
    except (FloatingPointError, ImportError, OSError, TypeError, ValueError) as error:
        refuse(str(error))
    except RuntimeError as error:
        from decond.lfi import SimulationError

        if not isinstance(error, SimulationError):
            raise
        refuse(str(error))


def refuse(message: str) -> NoReturn:
    """Say what is wrong on stderr, and end with exit code 2."""
    errors.print(Text.assemble(("Error: ", "bold red"), message), soft_wrap=True)
    raise typer.Exit(2) from None


def make_folder(folder: Path) -> None:
    """Make a folder for what a command writes, or say why that cannot be."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file. Give a folder: --output some-folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{folder} cannot be made: {error.strerror}. Give another folder with --output.") from None


def check_unread(written: Iterable[Path | None], read: Iterable[Path | None]) -> None:
    """Raise if a command would write onto a file that it reads."""
    sources = {path.resolve() for path in read if path is not None}
    for path in written:
        if path is not None and path.resolve() in sources:
            raise ValueError(f"{path} is read by this command, and would be lost. Give the output another name.")


def check_picture(path: Path) -> None:
    """Raise if a picture, whose place nobody named, would take that of a file which decond did not draw."""
    from decond.plotting.figures import is_drawn_here

    if path.exists() and not is_drawn_here(path):
        raise ValueError(
            f"a picture goes beside the output, and {path} is there already, not drawn by decond. Move it, or give "
            "another --output."
        )


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


def say_json(data: Any) -> None:
    """Print one JSON object on stdout; numbers that JSON does not have become null."""
    console.print_json(data=_finite(data), allow_nan=False, default=str)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
