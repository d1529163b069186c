"""The command line: `decond demo`, `fit`, `predict`, `infer` and `reproduce`."""

from typing import Annotated

import typer

from decond.cli import demo, fit, infer, predict, reproduce
from decond.cli.console import console

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, add_completion=True, help="Learn from indirect data with kernels.")
for module in (demo, fit, predict, infer, reproduce):
    app.command(module.__name__.rpartition(".")[2])(module.command)


def _print_version(wanted: bool) -> None:
    if wanted:
        import decond

        console.print(f"decond {decond.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Learn from indirect data with kernels."""
