"""`decond compare`: several methods on one problem; one table, one picture."""

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from decond.cli.console import console, errors, say_json, wrong_input
from decond.cli.options import AsJson, Folder, number
from decond.cli.outputs import check_unread, make_folder, say_wrote, times_of
from decond.cli.problem_file import BUILT_IN, read_task
from decond.cli.reporting import stdout_for_json

if TYPE_CHECKING:
    from decond.cli.problem_file import Task
    from decond.comparison import Comparison

__all__ = ["command"]

FILES = ("compare.csv", "compare.json", "compare.png")
"""What is written."""

HIDDEN = (" low", " median", " high")
"""Ends of columns that are in the files only."""

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
        _check_folder(output, task.read)
        before = times_of(output / name for name in FILES)
        found = _run(task)
        make_folder(output)
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
        found: Comparison = task.run()
    except KeyboardInterrupt:
        errors.print("Stopped; nothing was written.", highlight=False)
        raise typer.Exit(130) from None
    return found


def _check_folder(folder: Path, read: list[Path]) -> None:
    """Raise if the folder cannot be made, or if something in it would be lost; nothing is left there."""
    _check_makeable(folder)
    places = [folder / name for name in FILES]
    check_unread(places, read)
    strangers = [place for place in places if place.exists() and not _is_ours(place)]
    if strangers:
        raise FileExistsError(
            f"{strangers[0]} is there already, not from a comparison, and would be lost. Give another folder with "
            "--output."
        )


def _check_makeable(folder: Path) -> None:
    """Make the folder, and take away again what was not there before."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    make_folder(folder)
    for place in missing:
        place.rmdir()


def _is_ours(path: Path) -> bool:
    """Tell whether a file is what a comparison writes."""
    from decond.plotting.figures import is_drawn_here

    if path.suffix == ".png":
        return is_drawn_here(path)
    if not path.is_file():
        return False
    begin = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".csv":
        return begin.startswith("method,") and "notes" in begin.partition("\n")[0].split(",")
    try:
        return {"problem", "measure", "methods", "runs"} <= set(json_module.loads(begin))
    except (TypeError, ValueError):
        return False


def _say(name: str, found: "Comparison", notes: list[str]) -> None:
    """Print the table, what holds for all of it, and what is to be known of single methods."""
    console.print(_as_table(name, found))
    for note in notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    for method, note in found.frame["notes"].items():
        if note:
            errors.print(f"{method}: {note}", style="yellow", markup=False, highlight=False, soft_wrap=True)


def _as_table(name: str, found: "Comparison") -> Table:
    columns = [column for column in found.frame.columns if column != "notes" and not column.endswith(HIDDEN)]
    table = Table(title=name)
    table.add_column("method")
    for column in columns:
        table.add_column(Text(column), justify="right")
    for method, row in found.frame[columns].iterrows():
        table.add_row(Text(str(method)), *(_cell(value) for value in row))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not np.isfinite(value):
        return "–"
    return f"{value:.0f}" if float(value).is_integer() and abs(value) >= 10 else f"{value:.3g}"
