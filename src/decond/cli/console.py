"""What all commands share: where they print, and how they end on wrong input."""

import contextlib
import json
import os
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

__all__ = [
    "Commands",
    "command_line",
    "console",
    "messages_of",
    "print_json",
    "print_sentences",
    "print_table",
    "print_warnings",
    "print_wrote",
    "stdout_for_json",
]

console = Console()
_errors = Console(stderr=True)


class Commands(TyperGroup):
    """All commands. Wrong input ends each with one message and exit code 2."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Keep what was typed for `command_line`."""
        ctx.obj = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except MemoryError as error:
            what = str(error).rstrip(".") or "the data do not fit into memory"
            message = f"{what}. Give fewer rows or simulations; `decond fit --sparse` takes large tables."
        except (FloatingPointError, ImportError, OSError, TypeError, ValueError) as error:
            message = str(error)
        except RuntimeError as error:
            if isinstance(error, typer.Exit) or not _is_simulation_error(error):
                raise
            message = str(error)
        _errors.print(Text.assemble(("Error: ", "bold red"), message), soft_wrap=True)
        raise typer.Exit(2) from None


def _is_simulation_error(error: RuntimeError) -> bool:
    from decond.lfi import SimulationError

    return isinstance(error, SimulationError)


def command_line(ctx: typer.Context) -> str:
    """Return the command line that was given, as a shell reads it."""
    return shlex.join(["decond", *ctx.obj])


@contextlib.contextmanager
def stdout_for_json(wanted: bool) -> Iterator[None]:
    """Send to stderr what code of the user prints meanwhile, in this process and in those it starts."""
    if not wanted:
        yield
        return
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as undo:
        with contextlib.suppress(OSError):  # a process may have no stdout, or no stderr
            kept = os.dup(1)
            undo.callback(os.close, kept)
            os.dup2(2, 1)
            undo.callback(os.dup2, kept, 1)
        yield


def messages_of(caught: Iterable[warnings.WarningMessage]) -> list[str]:
    """Return what was warned of, each message once."""
    return list(dict.fromkeys(str(warning.message) for warning in caught))


def print_json(data: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout; numbers that JSON does not have become null."""
    plain = json.loads(json.dumps(data, default=str), parse_constant=lambda name: None)
    typer.echo(json.dumps(plain, indent=2, ensure_ascii=False))


def print_sentences(sentences: Iterable[str]) -> None:
    """Print each as a paragraph."""
    for sentence in sentences:
        console.print(Text(sentence), soft_wrap=True)


def print_warnings(sentences: Iterable[str]) -> None:
    """Print each on stderr."""
    for sentence in sentences:
        _errors.print(Text(f"Warning: {sentence}", "yellow"), soft_wrap=True)


def print_wrote(*paths: Path | None) -> None:
    """Name the files that were written."""
    print_sentences(f"wrote {path}" for path in paths if path is not None)


def print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table.

    Parameters
    ----------
    title : str
        Printed above it.
    headings : sequence of str
        One for each column; the first column is aligned left, all others right.
    rows : iterable of sequences of str
        The cells.
    """
    lines = [headings, *rows]
    longest = [
        max(len(word) for cell in column for word in ["", *cell.split()]) for column in zip(*lines, strict=True)
    ]
    table = Table(title=Text(title) if title else None)
    for number, (heading, least) in enumerate(zip(headings, longest, strict=True)):
        table.add_column(Text(heading), justify="right" if number else "left", min_width=least)
    for row in lines[1:]:
        table.add_row(*map(Text, row))
    if sum(longest) + 3 * len(longest) + 1 > console.width:
        table.width = sum(longest) + 3 * len(longest) + 1  # lines that are too long are better than broken words
    console.print(table, crop=False)
