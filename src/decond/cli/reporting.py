"""What `decond fit` and `decond infer` share about reports: where they go, the command to repeat, a clean stdout."""

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

__all__ = ["check_report", "command_of", "stdout_for_json"]


def check_report(path: Path | None, *others: Path) -> None:
    """Raise if a report cannot be written there, or is one of the other files that are written."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give a file: --report {path / 'report.html'}")
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--report is {path}; a report is a page. Call it {path.with_suffix('.html')}.")
    if path.resolve() in [other.resolve() for other in others]:
        raise ValueError(f"--report is {path}, which is written to already. Give the report another name.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist. Make it first, or give another place.")
    try:
        _try_to_write(path)
    except OSError as error:
        raise OSError(f"--report is {path}, which cannot be written: {error.strerror}. Give another place.") from None


def _try_to_write(path: Path) -> None:
    """Open a file as it will be opened later, and leave everything as it was."""
    existed = path.exists()
    with path.open("ab"):
        pass
    if not existed:
        path.unlink()


def command_of(ctx: typer.Context) -> str:
    """Return the command line that was given, as a shell reads it.

    >>> app = typer.Typer()
    >>> @app.command()
    ... def run(ctx: typer.Context, name: str, z: str = "", deep: bool = False) -> None:
    ...     print(command_of(ctx))
    >>> from typer.testing import CliRunner
    >>> print(CliRunner().invoke(app, ["my table", "--z", "power"], prog_name="run").output)
    decond run 'my table' --z power
    """
    words = ["decond", str(ctx.info_name)]
    for parameter in ctx.command.params:
        name = str(parameter.name)
        source: Any = ctx.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        value = ctx.params[name]
        values = [str(getattr(item, "value", item)) for item in (value if isinstance(value, list) else [value])]
        if parameter.param_type_name == "argument":
            words += values
        else:
            option = str(max(parameter.opts, key=len))
            words += [option] if value is True else [word for item in values for word in (option, item)]
    return shlex.join(words)


@contextlib.contextmanager
def stdout_for_json(wanted: bool) -> Iterator[None]:
    """Send to stderr what code of the user prints meanwhile, in this process and in those it starts."""
    if not wanted:
        yield
        return
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as undo:
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()
        with contextlib.suppress(OSError):  # a process may have no stdout, or no stderr
            kept = os.dup(1)
            undo.callback(os.close, kept)
            os.dup2(2, 1)
            undo.callback(os.dup2, kept, 1)
        yield
