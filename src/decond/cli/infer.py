"""`decond infer`: a simulator, a prior and an observation give a posterior."""

import importlib
import sys
import warnings
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from decond.cli.console import console, errors, say_wrote, wrong_input
from decond.tables import check_output, read_table, write_table

if TYPE_CHECKING:
    import numpy as np

    from decond.lfi import Posterior

__all__ = ["command"]


class MethodName(StrEnum):
    """Methods of likelihood-free inference."""

    auto = "auto"
    residual = "residual"
    dme = "dme"
    kelfi = "kelfi"
    kbr = "kbr"
    kabc = "kabc"
    gpsabc = "gpsabc"
    rejection = "rejection"
    mcmc = "mcmc"
    smc = "smc"


def command(
    simulator: Annotated[
        str, typer.Argument(help="The simulator as module:function; the module is looked for in this folder too.")
    ],
    prior: Annotated[Path, typer.Option(help="The prior: a TOML file with one table for each parameter.")],
    observed: Annotated[Path, typer.Option(help="The observation: a table with one row of summaries.")],
    simulations: Annotated[
        int, typer.Option("--simulations", "-n", min=1, help="How many simulations in all.")
    ] = 1000,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; later ones simulate where the posterior is.")] = 3,
    method: Annotated[
        MethodName, typer.Option(help="How to infer; auto is the residual likelihood.")
    ] = MethodName.auto,
    batched: Annotated[
        bool, typer.Option("--batched", help="The simulator takes many rows of parameters at once.")
    ] = False,
    jobs: Annotated[int, typer.Option(help="Processes that simulate side by side; -1 for all cores.")] = 1,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which a simulation is ended and counted as failed.")
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="SQLite file that keeps every simulation; run again to go on where it stopped."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write 10,000 draws; a picture goes beside it.")
    ] = Path("posterior.csv"),
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")] = False,
) -> None:
    r"""Find which parameters of a simulator fit an observation.

    The simulator is a Python function of one row of parameters and a numpy random generator that returns a row of
    summaries:

        decond infer epidemic:simulate --prior prior.toml --observed week.csv --store runs.sqlite

    The prior is a TOML file:

        \[rate]
        distribution = "gamma"
        a = 2.0
    """
    with wrong_input():
        from decond.lfi import infer
        from decond.lfi.prior_file import read_prior

        check_output(output)
        function = _simulator(simulator)
        parameters = read_prior(prior)
        row = _observation(observed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            posterior = infer(
                function,
                parameters,
                row,
                simulations,
                rounds,
                method.value,
                batched=batched,
                seed=seed,
                n_jobs=jobs,
                store=store,
                timeout=timeout,
            )
            picture = _write(posterior, output)
        notes = list(dict.fromkeys(str(warning.message) for warning in caught))
    if json:
        summary = posterior.summary().to_dict("index")
        console.print_json(
            data={"parameters": summary, "notes": notes, "draws": str(output), "picture": str(picture)}
        )
        return
    console.print(_as_table(posterior))
    for note in notes:
        errors.print(f"Warning: {note}", style="yellow", markup=False, soft_wrap=True)
    say_wrote(output, picture)


def _simulator(name: str) -> Callable[..., Any]:
    """Return the function that module:function names."""
    module_name, colon, function_name = name.partition(":")
    if not colon or not module_name or not function_name:
        raise ValueError(f"the simulator is {name!r}; name it as module:function, for example epidemic:simulate.")
    if module_name.endswith(".py"):
        raise ValueError(
            f"the simulator is {name!r}; name the module without .py: {module_name[:-3]}:{function_name}"
        )
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0]:
            raise ValueError(f"{module_name} imports {error.name}, which is not installed.") from None
        raise ValueError(f"there is no module {module_name!r} in this folder or among installed packages.") from None
    except Exception as error:
        raise ValueError(f"{module_name} cannot be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, function_name, None)
    if not callable(found):
        functions = ", ".join(sorted(key for key, value in vars(module).items() if callable(value) and key[0] != "_"))
        raise ValueError(f"{module_name} has no function {function_name!r}. It has: {functions or 'none'}.")
    return found


def _observation(path: Path) -> "np.ndarray":
    """Return the one row of an observation's table."""
    table = read_table(path)
    rows = table.numbers([str(name) for name in table.frame.columns]).to_numpy()
    if len(rows) != 1:
        raise ValueError(f"{path} has {len(rows)} rows; an observation is one row of summaries under a header.")
    return rows[0]


def _write(posterior: "Posterior", output: Path) -> Path:
    named = output.with_suffix("") if output.suffix == ".gz" else output
    picture = named.with_suffix(".png")
    write_table(posterior.frame(), output)
    posterior.plot().savefig(picture, dpi=120)
    return picture


def _as_table(posterior: "Posterior") -> Table:
    frame = posterior.summary()
    sims = posterior.simulations
    title = "posterior" if sims is None else f"posterior from {len(sims)} simulations ({sims.n_failed} failed)"
    table = Table(title=title)
    table.add_column("parameter")
    for heading in frame.columns:
        table.add_column(heading, justify="right")
    for name, row in frame.iterrows():
        table.add_row(str(name), *(f"{value:.4g}" for value in row))
    return table
