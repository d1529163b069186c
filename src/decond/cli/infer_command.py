"""`decond infer`: a simulator, a prior and an observation give a posterior."""

import importlib
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from decond.cli import console
from decond.errors import ArgumentError
from decond.tables import TableError, TextFormat, is_parquet, read_table, write_table

if TYPE_CHECKING:
    from decond.lfi import Method, Posterior, Prior, diagnostics
    from decond.reports import Report

__all__ = ["infer"]

MethodName = Literal[
    "auto", "residual", "dme", "kelfi", "kbr", "kabc", "gpsabc", "rejection", "mcmc", "smc", "mdn", "lfvi"
]


@dataclass(frozen=True)
class InferRequest:
    """Find which parameters of a simulator fit an observation.

    The simulator is a Python function of one row of parameters and a NumPy random generator that returns a row of
    summaries (with `@lfi.batched`, many rows at once):

        decond infer epidemic:simulate --prior prior.toml --observed week.csv

    With --store runs.sqlite every simulation is kept, and the same command goes on where it stopped.

    The prior is a TOML file with one table for each parameter. The simulator gets them in this order, by position:
    theta[0] is the first. Distributions have the names and the arguments of
    scipy.stats; uniform and loguniform take low and high:

        [rate]
        distribution = "gamma"
        a = 2.0

        [delay]
        distribution = "uniform"
        low = 0.0
        high = 5.0

    A prior of another form, such as a joint one, is an lfi.Prior in a module: --prior epidemic:prior.
    """

    simulator: Annotated[
        str, typer.Argument(help="The simulator as module:function; modules of this folder are found too.")
    ]
    prior: Annotated[
        str,
        typer.Option(
            metavar="FILE|NAME",
            help="The prior: a TOML file with one table for each parameter, or module:name of an lfi.Prior, such as "
            "a joint one.",
        ),
    ]
    observed: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The observation: a table with one row of summaries, in the order in which the simulator returns "
            "them. If it returns names too (a dict, a Series), the header needs the same names, in any order. An "
            "empty cell was not measured.",
        ),
    ]
    simulations: Annotated[int, typer.Option("--simulations", "-n", min=1, help="How many simulations in all.")] = (
        1000
    )
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; later ones simulate where the posterior is.")] = 3
    method: Annotated[MethodName, typer.Option(help="How to infer; auto is the residual likelihood.")] = "auto"
    jobs: Annotated[int, typer.Option(min=-1, help="Processes that simulate side by side; -1 for all cores.")] = 1
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0.001, metavar="SECONDS", help="A simulation that takes longer is ended and counts as failed."
        ),
    ] = None
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="SQLite file that keeps every simulation; run again to go on where it stopped."
        ),
    ] = None
    encoding: console.Encoding = "utf-8"
    separator: console.Separator = None
    decimal: console.Decimal = "."
    seed: console.Seed = 0
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write 10,000 draws; a picture goes beside it."),
    ] = Path("posterior.csv")
    report: console.ReportFile = None
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Check the posterior: refit on held-out simulations, and simulate 400 times more."
        ),
    ] = False
    force: console.Force = False
    json: console.AsJson = False


def infer(ctx: typer.Context, asked: InferRequest) -> None:
    """Infer, write what was asked for, and print what was found.

    Parameters
    ----------
    ctx : typer.Context
    asked : InferRequest
        The options that were given.
    """
    from decond import lfi, reports

    is_parquet(asked.output)  # raises if this is not a table
    files = {"draws": asked.output, "picture": _picture_beside(asked.output)}
    files |= {} if asked.report is None else {"report": asked.report}
    console.check_outputs(files.values(), asked.force, [Path(asked.prior), asked.observed, asked.store])
    method = _method(asked)
    observed = _observation(asked.observed, console.text_format(asked.encoding, asked.separator, asked.decimal))
    if asked.check and any(value != value for value in observed.values()):
        raise ArgumentError(
            "--check",
            "--check simulates all summaries, but the observation has empty cells. Leave --check out, or in Python "
            "diagnose with the simulations of the summaries that were measured.",
        )
    options: dict[str, Any] = {"seed": asked.seed, "n_jobs": asked.jobs, "timeout": asked.timeout}
    simulator, prior = _simulator(asked.simulator), _prior(asked.prior)
    budget: Any = {"n_simulations": asked.simulations, "rounds": asked.rounds, "store": asked.store}
    with console.stdout_for_json(asked.json), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        posterior = lfi.infer(simulator, prior, observed, method=method, **budget, **options)
        write_table(posterior.frame(), asked.output)
        posterior.plot().save(files["picture"], dpi=120)
        diagnosis = None
        if asked.check:
            assert posterior.simulations is not None
            diagnosis = lfi.diagnose(method, posterior.simulations, prior, observed, simulator, **options)
    notes = console.messages_of(caught)
    about: dict[str, Any] = {
        "method": type(method).__name__,
        "seed": asked.seed,
        "command": console.command_line(ctx),
    }
    page = reports.inference_report(posterior, observed, diagnosis=diagnosis, warnings=notes, **about)
    if asked.report is not None:
        page.write(asked.report)
    found = _found(posterior, page, diagnosis)
    if asked.json:
        console.print_json({**found, "notes": notes, **files})
        return
    _print_found(found, can_be_checked=diagnosis is None and not method.runs_simulator, notes=notes)
    console.print_wrote(*files.values())


def _picture_beside(output: Path) -> Path:
    return output.with_name(output.name.removesuffix(".gz")).with_suffix(".png")


# ---- what the arguments name ---------------------------------------------------------------------------------


def _simulator(name: str) -> Callable[..., Any]:
    """Return the function that module:function names."""
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name or module_name.endswith(".py"):
        raise ArgumentError("SIMULATOR", f"the simulator is {name!r}; name it as module:function, without .py.")
    module = _imported(module_name, "SIMULATOR")
    found = getattr(module, function_name, None)
    if not callable(found):
        functions = ", ".join(sorted(key for key, value in vars(module).items() if callable(value) and key[0] != "_"))
        raise ArgumentError(
            "SIMULATOR", f"{module_name} has no function {function_name!r}. It has: {functions or 'none'}."
        )
    return cast(Callable[..., Any], found)


def _imported(name: str, option: str) -> ModuleType:
    """Return a module of this folder or an installed one."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ArgumentError(
            option,
            f"{name} cannot be imported: there is no module {error.name!r} in this folder or among installed "
            "packages.",
        ) from None
    except Exception as error:
        raise ArgumentError(option, f"{name} cannot be imported: {type(error).__name__}: {error}") from error


def _observation(path: Path, text_format: TextFormat) -> dict[str, float]:
    """Return the values of an observation by name."""
    table = read_table(path, text_format)
    names = [str(name) for name in table.frame.columns]
    rows = table.numbers(names, missing=True).to_numpy()
    if len(rows) != 1:
        raise TableError(
            f"{path} has {len(rows)} rows; an observation is one row of summaries under a header. Several "
            "independent observations go to lfi.infer(…, iid=True) in Python.",
            table=table.name,
            count=len(rows),
        )
    return dict(zip(names, rows[0].tolist(), strict=True))


def _prior(name: str) -> "Prior":
    """Return the prior in a TOML file, or the one that module:name names."""
    from decond.lfi import Prior

    module_name, _, prior_name = name.partition(":")
    if Path(name).is_file() or not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", name):
        return Prior.from_file(name)
    found = getattr(_imported(module_name, "--prior"), prior_name, None)
    if not isinstance(found, Prior):
        raise ArgumentError(
            "--prior",
            f"{prior_name!r} of {module_name} is {'not there' if found is None else type(found).__name__}; name an "
            "lfi.Prior, or give a TOML file.",
        )
    return found


def _method(asked: InferRequest) -> "Method":
    """Return the method of that name; raise if it is to be checked and cannot be."""
    from decond.lfi.rounds import method_named

    method = method_named(asked.method, asked.seed)
    if asked.check and method.runs_simulator:
        raise ArgumentError(
            "--check",
            f"--check refits on held-out simulations, and --method {asked.method} runs the simulator itself each "
            "time. Leave --check out, or choose another method.",
        )
    return method


def _found(posterior: "Posterior", page: "Report", diagnosis: "diagnostics.Report | None") -> dict[str, Any]:
    """Return the results for machines."""
    found: dict[str, Any] = {"parameters": posterior.summary().to_dict("index"), "verdict": page.verdict}
    if posterior.simulations is not None:
        found |= {"simulations": len(posterior.simulations), "failed": posterior.simulations.n_failed}
    if diagnosis is not None:
        found["diagnosis"] = {"verdict": diagnosis.verdict, "sentences": diagnosis.sentences}
    return found


def _print_found(found: dict[str, Any], can_be_checked: bool, notes: list[str]) -> None:
    """Print the results for people."""
    title = "posterior"
    if "simulations" in found:
        title += f" from {found['simulations']} simulations ({found['failed']} failed)"
    headings = next(iter(found["parameters"].values()))
    rows = [[name, *(f"{value:.4g}" for value in row.values())] for name, row in found["parameters"].items()]
    console.print_table(title, ["parameter", *headings], rows)
    reasons = found.get("diagnosis", {}).get("sentences", [])
    console.print_sentences([f"Verdict: {found['verdict']}", *(f"- {sentence}" for sentence in reasons)])
    if can_be_checked:
        console.print_sentences(["Add --check to judge its calibration (a minute or more)."])
    console.print_warnings(notes)
