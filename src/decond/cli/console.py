"""What all commands share: where they print, how they end on wrong input, options, and files that they write."""

import contextlib
import inspect
import json
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from decond.messages import printable
from decond.tables import TextFormat

__all__ = [
    "AsJson",
    "Commands",
    "Decimal",
    "Encoding",
    "Folder",
    "Force",
    "ReportFile",
    "Seed",
    "Separator",
    "as_command",
    "check_folder",
    "check_outputs",
    "command_line",
    "messages_of",
    "print_json",
    "print_sentences",
    "print_table",
    "print_warnings",
    "print_wrote",
    "stdout_for_json",
    "text_format",
]

_out = Console()
_errors = Console(stderr=True)


class Commands(TyperGroup):
    """All commands. Wrong input ends each with one message and exit code 2."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Keep what was typed for `command_line`.

        Parameters
        ----------
        ctx : typer.Context
        args : list of str
            What was typed after the name of the program.
        """
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
        _errors.print(Text.assemble(("Error: ", "bold red"), printable(message)), soft_wrap=True)
        raise typer.Exit(2) from None


def _is_simulation_error(error: RuntimeError) -> bool:
    from decond.lfi import SimulationError

    return isinstance(error, SimulationError)


def as_command(options: type[Any], run: Callable[[typer.Context, Any], None]) -> Callable[..., None]:
    """Return a command whose options are the fields of a dataclass, and whose help is its docstring.

    Parameters
    ----------
    options : dataclass
    run : callable
        What the command does with the context and the options that were given.
    """

    def command(ctx: typer.Context, **given: Any) -> None:
        run(ctx, options(**given))

    kinds = {"ctx": typer.Context, **{one.name: one.type for one in fields(options)}}
    defaults = {one.name: one.default for one in fields(options) if one.default is not MISSING}
    keyword, required = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    own = [
        inspect.Parameter(name, keyword, annotation=kind, default=defaults.get(name, required))
        for name, kind in kinds.items()
    ]
    command.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    command.__annotations__, command.__doc__ = kinds, options.__doc__
    return command


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
    text = json.dumps(plain, indent=2, ensure_ascii=False)
    controls = [*range(0x7F, 0xA0), *range(0xD800, 0xE000)]  # those that JSON leaves as they are
    typer.echo(text.translate({code: f"\\u{code:04x}" for code in controls}))


def print_sentences(sentences: Iterable[str]) -> None:
    """Print each as a paragraph."""
    for sentence in sentences:
        _out.print(Text(printable(sentence)), soft_wrap=True)


def print_warnings(sentences: Iterable[str]) -> None:
    """Print each on stderr."""
    for sentence in sentences:
        _errors.print(Text(f"Warning: {printable(sentence)}", "yellow"), soft_wrap=True)


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
    lines = [[printable(cell) for cell in line] for line in (headings, *rows)]
    longest = [
        max(len(word) for cell in column for word in ["", *cell.split()]) for column in zip(*lines, strict=True)
    ]
    table = Table(title=Text(printable(title)) if title else None)
    for number, (heading, least) in enumerate(zip(lines[0], longest, strict=True)):
        table.add_column(Text(heading), justify="right" if number else "left", min_width=least)
    for row in lines[1:]:
        table.add_row(*map(Text, row))
    if sum(longest) + 3 * len(longest) + 1 > _out.width:
        table.width = sum(longest) + 3 * len(longest) + 1  # lines that are too long are better than broken words
    _out.print(table, crop=False)


# ---- options that several commands have, with the same words in the help of each ------------------------------


def _html_only(path: Path | None) -> Path | None:
    if path is not None and path.suffix not in (".html", ".htm"):
        raise typer.BadParameter(f"{path} does not end in .html.")
    return path


AsJson = Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]
Folder = Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write into.")]
ReportFile = Annotated[
    Path | None, typer.Option(metavar="FILE", callback=_html_only, help="Write a report to this file: one HTML page.")
]
Encoding = Annotated[str, typer.Option(metavar="NAME", help="Encoding of text files, such as utf-8 or cp1252.")]
Separator = Annotated[
    str | None,
    typer.Option(metavar="SIGN", help="What separates cells of text files. By default ',' in .csv, a tab in .tsv."),
]
Decimal = Annotated[str, typer.Option(metavar="SIGN", help="Decimal sign in text files: '.' or ','.")]


def text_format(encoding: str, separator: str | None, decimal: str) -> TextFormat:
    """Return how text files are read.

    Parameters
    ----------
    encoding, separator, decimal : str
        What the options of these names say.
    """
    if decimal not in (".", ","):
        raise typer.BadParameter("give one sign, '.' or ','.", param_hint="--decimal")
    return TextFormat(encoding, separator, decimal)


# ---- files that commands write: refused before any work if something is there or cannot be written ------------


def check_outputs(written: Iterable[Path | None], force: bool, read: Iterable[Path | None] = ()) -> None:
    """Raise unless all files can be written, and none is lost.

    Parameters
    ----------
    written : iterable of Path or None
        The files that a command writes; None for one that is not asked for.
    force : bool
        Whether files that exist may be overwritten.
    read : iterable of Path or None
        Files that the command reads; they are never overwritten.
    """
    sources = {path.resolve() for path in read if path is not None}
    for path in written:
        if path is None:
            continue
        if path.resolve() in sources:
            raise ValueError(f"{path} is read by this command and would be lost. Give the output another name.")
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder. Give the name of a file.")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"the folder {path.parent} does not exist. Make it first, or give another place.")
        if path.exists() and not force:
            raise FileExistsError(f"{path} exists already. Add --force to overwrite it, or another name.")
        _check_writable(path)


def check_folder(folder: Path, names: Iterable[str], force: bool) -> list[Path]:
    """Make a folder, and return the paths of files in it; raise unless all can be written.

    Parameters
    ----------
    folder : Path
        Made if it does not exist.
    names : iterable of str
        The files that a command writes there.
    force : bool
        Whether files that exist may be overwritten.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{folder} cannot be made: {error.strerror}. Give another folder with --output.") from None
    paths = [folder / name for name in names]
    check_outputs(paths, force)
    return paths


def _check_writable(path: Path) -> None:
    """Open a file as it will be opened later, and leave everything as it was."""
    target = path.resolve()
    existed = target.exists()
    try:
        with target.open("ab"):
            pass
    except OSError as error:
        raise OSError(f"{path} cannot be written: {error.strerror}. Give the output another name.") from None
    if not existed:
        target.unlink()
