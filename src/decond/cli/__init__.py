"""The command line: `decond demo`, `fit`, `predict`, `infer`, `compare` and `reproduce`."""

from typing import Annotated

import typer

from decond.cli import (
    compare_command,
    demo,
    fit_command,
    infer_command,
    predict_command,
    reproduce_command,
)
from decond.cli.console import Commands, as_command

__all__ = ["app"]

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    epilog="New here? `decond demo` shows on real data what this is about, within a minute.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
)
"""What `decond` runs."""

app.command("demo")(demo.demonstrate)
app.command("fit")(as_command(fit_command.FitRequest, fit_command.fit))
app.command("predict")(predict_command.predict)
app.command("infer")(as_command(infer_command.InferRequest, infer_command.infer))
app.command("compare")(compare_command.compare)
app.command("reproduce")(reproduce_command.reproduce)


def _print_versions(wanted: bool) -> None:
    """Print what a report of a problem should name."""
    if not wanted:
        return
    import platform
    from importlib import metadata

    typer.echo(f"Python {platform.python_version()}")
    for name in ("decond", "numpy", "scipy", "scikit-learn"):
        typer.echo(f"{name} {metadata.version(name)}")
    raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_versions,
            is_eager=True,
            help="Print the versions of decond and its libraries.",
        ),
    ] = False,
) -> None:
    """Learn from indirect data with kernels."""
