"""`decond infer`: a simulator, a prior and an observation give a posterior."""

import importlib
import sys
import warnings
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.table import Table

from decond.cli.console import console, errors, say_json, say_wrote, wrong_input
from decond.cli.reporting import check_report, command_of, stdout_for_json
from decond.tables import check_output, read_table, write_table

if TYPE_CHECKING:
    import numpy as np

    from decond.lfi import Method, Posterior, Prior, diagnostics
    from decond.reports import Report

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
    ctx: typer.Context,
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
        float | None,
        typer.Option(min=0.001, help="Seconds after which a simulation is ended and counted as failed."),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="SQLite file that keeps every simulation; run again to go on where it stopped."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write 10,000 draws; a picture goes beside it.")
    ] = Path("posterior.csv"),
    report: Annotated[
        Path | None, typer.Option("--report", help="Where to write a report: one HTML page, *.html.")
    ] = None,
    diagnose: Annotated[
        bool,
        typer.Option(
            "--diagnose", help="Judge the posterior: refit on held-out simulations, and simulate 400 times more."
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the results as one JSON object, and nothing else on stdout.")
    ] = False,
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
    with wrong_input("Ask for fewer --simulations."), stdout_for_json(json):
        from decond.lfi.inference import method_named
        from decond.lfi.prior_file import read_prior

        check_output(output)
        check_report(report, output, _picture(output))
        chosen = method_named(method.value, seed)
        if diagnose:
            _check_can_be_judged(chosen, method.value)
        task = Task(_simulator(simulator), read_prior(prior), *_observation(observed), chosen)
        options = {"batched": batched, "n_jobs": jobs, "timeout": timeout}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            posterior = _inferred(task, simulations, rounds, seed, store, options)
            picture = _write(posterior, output)
            diagnosis = _diagnosed(task, posterior, seed, options) if diagnose else None
        notes = list(dict.fromkeys(str(warning.message) for warning in caught))
        page = None
        if report is not None:
            page = _report(task, posterior, diagnosis, notes, seed, command_of(ctx))
            page.write(report)
    if json:
        say_json(_as_json(posterior, diagnosis, page, notes, {"draws": output, "picture": picture, "report": report}))
        return
    console.print(_as_table(posterior))
    for sentence in [] if diagnosis is None else str(diagnosis).splitlines():
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    if page is not None:
        console.print(page.verdict, markup=False, highlight=False, soft_wrap=True)
    for note in notes:
        errors.print(f"Warning: {note}", style="yellow", markup=False, soft_wrap=True)
    say_wrote(output, picture, *([] if report is None else [report]))


class Task(NamedTuple):
    """What is inferred from what, and how."""

    simulator: Callable[..., Any]
    prior: "Prior"
    observed: "np.ndarray"
    summaries: list[str]
    method: "Method"


def _inferred(
    task: Task, simulations: int, rounds: int, seed: int, store: Path | None, options: dict[str, Any]
) -> "Posterior":
    from decond.lfi import infer

    return infer(
        task.simulator,
        task.prior,
        task.observed,
        simulations,
        rounds,
        task.method,
        seed=seed,
        store=store,
        **options,
    )


def _check_can_be_judged(method: "Method", name: str) -> None:
    if method.runs_simulator:
        raise ValueError(
            f"--diagnose refits on held-out simulations, and --method {name} runs the simulator itself each time. "
            "Leave --diagnose out, or choose another method."
        )


def _diagnosed(task: Task, posterior: "Posterior", seed: int, options: dict[str, Any]) -> "diagnostics.Report":
    from decond.lfi import diagnose

    assert posterior.simulations is not None
    return diagnose(
        task.method, posterior.simulations, task.prior, task.observed, task.simulator, seed=seed, **options
    )


def _report(
    task: Task,
    posterior: "Posterior",
    diagnosis: "diagnostics.Report | None",
    notes: list[str],
    seed: int,
    command_line: str,
) -> "Report":
    from decond.reports import inference_report

    return inference_report(
        posterior,
        task.observed,
        summaries=task.summaries,
        diagnosis=diagnosis,
        warnings=notes,
        method=type(task.method).__name__,
        seed=seed,
        command=command_line,
    )


def _as_json(
    posterior: "Posterior",
    diagnosis: "diagnostics.Report | None",
    page: "Report | None",
    notes: list[str],
    files: dict[str, Path | None],
) -> dict[str, Any]:
    """Return the results; what was not asked for is left out."""
    sims = posterior.simulations
    found: dict[str, Any] = {"parameters": posterior.summary().to_dict("index")}
    if sims is not None:
        found |= {"simulations": len(sims), "failed": sims.n_failed}
    if diagnosis is not None:
        found["diagnosis"] = {"verdict": diagnosis.verdict, "sentences": diagnosis.sentences}
    if page is not None:
        found["verdict"] = page.verdict
    return {**found, "notes": notes, **{name: str(path) for name, path in files.items() if path is not None}}


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


def _observation(path: Path) -> "tuple[np.ndarray, list[str]]":
    """Return the one row of an observation's table, and its names."""
    table = read_table(path)
    names = [str(name) for name in table.frame.columns]
    rows = table.numbers(names).to_numpy()
    if len(rows) != 1:
        raise ValueError(f"{path} has {len(rows)} rows; an observation is one row of summaries under a header.")
    return rows[0], names


def _picture(output: Path) -> Path:
    """Return where the picture goes: beside the draws."""
    return (output.with_suffix("") if output.suffix == ".gz" else output).with_suffix(".png")


def _write(posterior: "Posterior", output: Path) -> Path:
    picture = _picture(output)
    write_table(posterior.frame(), output)
    posterior.plot().save(picture, dpi=120)
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
