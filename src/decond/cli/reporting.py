"""What commands say of themselves: the command line that repeats one, and a clean stdout."""

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator
from typing import Any

import typer

__all__ = ["command_of", "stdout_for_json"]


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
        values = [
            str(getattr(item, "value", item)) for item in (value if isinstance(value, list | tuple) else [value])
        ]
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
