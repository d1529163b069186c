"""The command line: `decond demo`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, add_completion=True, help="Learn from indirect data with kernels.")
console = Console()


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


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Folder to write pictures and numbers into.")] = Path("decond-demo"),
) -> None:
    """Recover a function from two tables that share only a mediator, and draw it.

    Table 1 holds pairs (x, y), table 2 pairs (y, z). Wanted is z as a function of x, with error bars, although no
    row has both. The truth is known here, so that you can see how well it works.
    """
    if output.exists() and not output.is_dir():
        console.print(f"[red]{output} is a file.[/] Give a folder: decond demo --output some-folder", soft_wrap=True)
        raise typer.Exit(2)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        console.print(
            f"[red]{output} cannot be made: {error.strerror}.[/] Give another folder with --output.", soft_wrap=True
        )
        raise typer.Exit(2) from None
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        progress.add_task("recovering f from the two tables", total=None)
        from decond.cli.demo import write

        paths, numbers = write(output)
    console.print(_as_table(numbers))
    for path in paths:
        console.print(f"wrote {path}", soft_wrap=True)


def _as_table(numbers: dict[str, dict[str, float | None]]) -> Table:
    table = Table(title="How far from the true f, on [-6, 6]")
    for heading in ("answer", "RMSE", "inside ± 2 sd", "negative log evidence"):
        table.add_column(heading, justify="left" if heading == "answer" else "right")
    for name, row in numbers.items():
        inside, evidence = row["coverage_2sd"], row["negative_log_evidence"]
        table.add_row(
            name,
            f"{row['rmse']:.3f}",
            "no error bars" if inside is None else f"{inside:.1%}",
            "" if evidence is None else f"{evidence:.4f}",
        )
    return table
