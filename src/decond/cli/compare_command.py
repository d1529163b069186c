"""`decond compare`: several methods on one problem; one table, one picture."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import numpy as np
import typer
from numpy.typing import ArrayLike

from decond.cli import console
from decond.errors import ArgumentError
from decond.messages import number

if TYPE_CHECKING:
    from decond.comparison import Comparison

__all__ = ["compare"]

_SimulatorName = Literal["exponential_gamma", "gaussian_linear_uniform", "lotka_volterra", "sir", "two_moons"]
_TablesName = Literal["latent_function", "wind"]


def compare(
    problem: Annotated[
        Literal[_SimulatorName, _TablesName],
        typer.Argument(help="A simulator with an observation, or two tables (latent_function, wind)."),
    ],
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="Methods to run, with commas between them, or all.")
    ] = "all",
    simulations: Annotated[
        int | None,
        typer.Option("--simulations", "-n", min=1, help="Simulations of each method at most; 1000 by default."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds; the table has means over them.")] = 1,
    output: console.Folder = Path("decond-compare"),
    force: console.Force = False,
    json: console.AsJson = False,
) -> None:
    """Run several methods on one problem with known truth, at equal budget: one table, one picture.

    The table has the accuracy, the time and the number of simulations of each method:

        decond compare exponential_gamma --methods residual,dme,smc

    `lfi.compare` and `estimators.compare` do the same in Python, for your own simulator and tables.
    """
    chosen = methods if methods == "all" else [name.strip() for name in methods.split(",")]
    console.check_folder(output, ("compare.csv", "compare.json", "compare.png"), force)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the notes of the comparison say it
        if problem in get_args(_TablesName):
            if simulations is not None:
                raise ArgumentError("--simulations", f"--simulations has no meaning for {problem}; leave it out.")
            found = _compare_on_tables(problem, chosen, seeds)
        else:
            found = _compare_on_simulator(problem, chosen, simulations or 1000, seeds)
    files = found.write(output)
    if json:
        console.print_json({**found.as_dict(), "problem": problem, "files": files})
        return
    _print_comparison(problem, found)
    console.print_wrote(*files)


def _compare_on_simulator(problem: str, methods: str | list[str], simulations: int, seeds: int) -> "Comparison":
    from decond import lfi, problems

    return lfi.compare(getattr(problems, problem)(), methods=methods, n_simulations=simulations, seeds=seeds)


def _compare_on_tables(problem: str, methods: str | list[str], seeds: int) -> "Comparison":
    from decond.estimators import compare

    if problem == "wind":
        from decond.datasets import wind_day

        wind = wind_day()
        days = wind.groups.astype(str)[:, None], wind.z.index.to_numpy().astype(str)[:, None]
        data: tuple[ArrayLike, ...] = (wind.x, *days, wind.z.to_numpy())
        truth = wind.curve()
    else:
        from decond.problems import latent_function

        p, grid = latent_function(), np.linspace(-6.0, 6.0, 241)[:, None]
        data, truth = (p.x, p.y, p.y_task, p.z_task), (grid, p.f(grid)[:, 0])
    return compare(*data, methods, truth, seeds=seeds)


def _print_comparison(problem: str, found: "Comparison") -> None:
    """Print the table, what holds for all of it, and what is to be known of single methods."""
    hidden = ("notes", "low", "median", "high")  # in the files only
    shown = found.frame[[name for name in found.frame.columns if name.rpartition(" ")[2] not in hidden]]
    methods = zip(shown.index, shown.to_numpy(), strict=True)
    rows = [[str(method), *(number(value, 3) for value in values)] for method, values in methods]
    console.print_table(problem, ["method", *shown.columns], rows)
    console.print_sentences(found.notes)
    console.print_warnings(f"{method}: {note}" for method, note in found.frame["notes"].items() if note)
