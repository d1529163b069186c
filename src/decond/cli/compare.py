"""`decond compare`: several methods on one problem; one table, one picture."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table

from decond.cli.console import console, errors, say_json, wrong_input
from decond.cli.options import AsJson, Folder, number
from decond.cli.outputs import (
    as_dict,
    check_folder,
    check_unread,
    columns_of,
    is_picture,
    json_in,
    say_wrote,
    times_of,
)
from decond.cli.problem_file import BUILT_IN, read_task
from decond.cli.reporting import stdout_for_json
from decond.cli.wide_tables import Column, fitting_tables

if TYPE_CHECKING:
    from decond.cli.problem_file import Task
    from decond.comparison_table import Comparison

__all__ = ["command", "comparison_tables"]

HIDDEN = (" low", " median", " high")
"""Ends of columns that are in the files only."""

WIDTH = " width"
"""End of columns of which there is one a parameter."""

TOO_LARGE = "Give fewer rows, or ask for fewer --simulations."


def command(
    problem: Annotated[
        str,
        typer.Argument(
            metavar="PROBLEM", help=f"A TOML file, or a problem that comes with decond: {', '.join(BUILT_IN)}."
        ),
    ],
    methods: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Methods to run, by name, with commas between them, or all, the default."),
    ] = None,
    simulations: Annotated[
        int | None,
        number("How many simulations each method may use, all counted; 1000 by default.", "--simulations", "-n"),
    ] = None,
    seeds: Annotated[int | None, number("How many seeds; the table has means over them. 1 by default.")] = None,
    output: Folder = Path("decond-compare"),
    json: AsJson = False,
) -> None:
    r"""Run several methods on one problem at equal budget: one table, one picture.

    Accuracy where the truth is known, calibration where it is not, time, and simulations used:
        decond compare exponential_gamma
        decond compare problem.toml --methods residual,dme,smc

    The file names a simulator:

        \[problem]
        simulator = "waits:simulate"
        observed = \[0.59, 0.6]

        \[prior.rate]
        distribution = "gamma"
        a = 2.0

    or two tables that share a mediator:

        \[problem]
        pairs = "hours.csv"
        task = "days.csv"
        x = \["wind"]
        mediator = \["day"]
        target = "power"
    """
    with wrong_input(TOO_LARGE), stdout_for_json(json):
        names = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
        task = read_task(problem).with_options(names, simulations, seeds)
        _check_files(output, task.read)
        before = times_of(output / name for name in FILES)
        found = _run(task)
        files = found.write(output)
    notes = [*task.notes, *found.notes]
    if json:
        say_json({**found.as_dict(), "problem": task.name, "notes": notes, "files": [str(path) for path in files]})
        return
    _say(task.name, found, notes)
    say_wrote(*files, before=before)


def _run(task: "Task") -> "Comparison":
    """Compare; one sentence if the user stops it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the notes of the comparison say it
            found: Comparison = task.run()
    except KeyboardInterrupt:
        errors.print("Stopped; nothing was written.", highlight=False)
        raise typer.Exit(130) from None
    return found


def _check_files(folder: Path, read: list[Path]) -> None:
    """Raise if something cannot be written, or would be lost."""
    check_unread((folder / name for name in FILES), read)
    check_folder(folder, FILES, "from a comparison")


def _is_json(path: Path) -> bool:
    return set(json_in(path)) == {"problem", "measure", "methods", "runs", "notes"}


def _is_table(path: Path) -> bool:
    """Tell whether a table has the columns of the JSON file beside it."""
    beside = path.with_suffix(".json")
    methods = as_dict(json_in(beside)["methods"]) if _is_json(beside) else {}
    columns = columns_of(path)
    return any(columns == ["method", *as_dict(row)] for row in methods.values())


FILES: dict[str, Callable[[Path], bool]] = {
    "compare.csv": _is_table,
    "compare.json": _is_json,
    "compare.png": is_picture,
}
"""What is written, and how each file is known again."""


def _say(name: str, found: "Comparison", notes: list[str]) -> None:
    """Print the table or tables, what holds for all of it, and what is to be known of single methods."""
    for table in comparison_tables(name, found, console.width):
        console.print(table, crop=False)
    for note in notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    for method, note in found.frame["notes"].items():
        if note:
            errors.print(f"{method}: {note}", style="yellow", markup=False, highlight=False, soft_wrap=True)


def comparison_tables(name: str, found: "Comparison", width: int) -> list[Table]:
    """Return one table, or several where a terminal of that width has no room: widths of parameters come last."""
    shown = [column for column in found.frame.columns if column != "notes" and not column.endswith(HIDDEN)]
    methods = Column("method", [str(method) for method in found.frame.index])
    columns = [
        Column(column, [_cell(value) for value in found.frame[column]], below=column.endswith(WIDTH))
        for column in shown
    ]
    return fitting_tables(name, methods, columns, width)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not np.isfinite(value):
        return "–"
    return f"{value:.0f}" if float(value).is_integer() and abs(value) >= 10 else f"{value:.3g}"
