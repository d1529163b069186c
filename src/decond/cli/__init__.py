"""The command line: `decond demo`, `fit`, `predict`, `infer`, `compare` and `reproduce`."""

import sys
from typing import Annotated

import typer

from decond.cli import compare, demo, fit, infer, predict, reproduce
from decond.cli.arguments import Command, Commands
from decond.cli.console import console, errors, refuse, say_json

__all__ = ["app"]

FIRST_STEP = "New here? decond demo shows on real data what this is about, within a minute."

app = typer.Typer(
    cls=Commands,
    invoke_without_command=True,
    help="Learn from indirect data with kernels.",
    epilog=FIRST_STEP,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
)
"""What `decond` runs: one command for each module named below."""

for module in (demo, fit, predict, infer, compare, reproduce):
    app.command(module.__name__.rpartition(".")[2], cls=Command)(module.command)


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the versions of decond and of what it stands on, and exit.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="With --version: print them as JSON.")] = False,
) -> None:
    """Learn from indirect data with kernels."""
    _print_any_letter()
    if version:
        found = versions()
        if json:
            say_json(found)
        else:
            console.print("\n".join(f"{name} {value}" for name, value in found.items()), highlight=False)
        raise typer.Exit
    if context.invoked_subcommand is None:
        console.print(context.get_help(), end="", markup=False, highlight=False)
        errors.print(f"Name a command. {FIRST_STEP}", highlight=False)
        raise typer.Exit(2)
    if json:
        refuse("--json goes after the command: decond COMMAND … --json")


def versions() -> dict[str, str]:
    """Return the versions that a report of a problem should name."""
    import platform
    from importlib import metadata

    import decond

    installed = {name: metadata.version(name.lower()) for name in ("NumPy", "SciPy")}
    return {"decond": decond.__version__, "Python": platform.python_version(), **installed}


def _print_any_letter() -> None:
    """Let a stream that cannot print a letter print a question mark in its place."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
