"""What all commands share: where they print, how they end on wrong input, and the bar that moves meanwhile."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from decond.progress import progress_bar

__all__ = ["console", "errors", "learning_bar", "refuse", "say_json", "say_notes", "wrong_input"]

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


@contextlib.contextmanager
def learning_bar(words: str) -> Iterator[Callable[[int, float], None]]:
    """Show a moving bar on a terminal, and nothing elsewhere; yields what learning reports to."""
    with progress_bar(words) as report:
        yield lambda steps, best: report(status=f"step {steps}{f', best {best:.2f}' if math.isfinite(best) else ''}")


def say_notes(notes: Iterable[str]) -> None:
    """Print on stderr how something was understood."""
    for note in notes:
        errors.print(note, markup=False, highlight=False, soft_wrap=True)


def say_json(data: Any) -> None:
    """Print one JSON object on stdout; numbers that JSON does not have become null."""
    console.print_json(data=_finite(data), allow_nan=False, default=str)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
