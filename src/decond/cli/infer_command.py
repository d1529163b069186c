"""`decond infer`: a simulator, a prior and an observation give a posterior."""

import importlib
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from decond.cli.console import (
    command_line,
    messages_of,
    print_json,
    print_sentences,
    print_table,
    print_warnings,
    print_wrote,
    stdout_for_json,
)
from decond.cli.options import AsJson, Decimal, Encoding, Force, ReportFile, Seed, Separator, text_format
from decond.cli.output_files import check_outputs
from decond.errors import ArgumentError
from decond.tables import TableError, TextFormat, is_parquet, read_table, write_table

if TYPE_CHECKING:
    from decond.lfi import Method, Posterior, Prior, diagnostics
    from decond.reports import Report

__all__ = ["infer"]

MethodName = Literal[
    "auto", "residual", "dme", "kelfi", "kbr", "kabc", "gpsabc", "rejection", "mcmc", "smc", "mdn", "lfvi"
]

# ---- the options ---------------------------------------------------------------------------------------------

_SimulatorName = Annotated[
    str, typer.Argument(help="The simulator as module:function; modules of this folder are found too.")
]
_PriorFile = Annotated[
    Path, typer.Option(metavar="FILE", help="The prior: a TOML file with one table for each parameter.")
]
_ObservedFile = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        help="The observation: a table with one row of summaries, in the order in which the simulator returns them. "
        "If it returns names too (a dict, a Series), the header needs the same names, in any order.",
    ),
]
_Simulations = Annotated[int, typer.Option("--simulations", "-n", min=1, help="How many simulations in all.")]
_Rounds = Annotated[int, typer.Option(min=1, help="Rounds; later ones simulate where the posterior is.")]
_Method = Annotated[MethodName, typer.Option(help="How to infer; auto is the residual likelihood.")]
_Batched = Annotated[bool, typer.Option("--batched", help="The simulator takes many rows of parameters at once.")]
_Jobs = Annotated[int, typer.Option(min=-1, help="Processes that simulate side by side; -1 for all cores.")]
_Timeout = Annotated[
    float | None,
    typer.Option(min=0.001, metavar="SECONDS", help="A simulation that takes longer is ended and counts as failed."),
]
_StoreFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="SQLite file that keeps every simulation; run again to go on where it stopped."
    ),
]
_Output = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="FILE", help="Where to write 10,000 draws; a picture goes beside it."),
]
_Check = Annotated[
    bool,
    typer.Option("--check", help="Check the posterior: refit on held-out simulations, and simulate 400 times more."),
]


def infer(
    ctx: typer.Context,
    simulator: _SimulatorName,
    prior: _PriorFile,
    observed: _ObservedFile,
    simulations: _Simulations = 1000,
    rounds: _Rounds = 3,
    method: _Method = "auto",
    batched: _Batched = False,
    jobs: _Jobs = 1,
    timeout: _Timeout = None,
    store: _StoreFile = None,
    encoding: Encoding = "utf-8",
    separator: Separator = None,
    decimal: Decimal = ".",
    seed: Seed = 0,
    output: _Output = Path("posterior.csv"),
    report: ReportFile = None,
    check: _Check = False,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Find which parameters of a simulator fit an observation.

    The simulator is a Python function of one row of parameters and a NumPy random generator that returns a row of
    summaries:

        decond infer epidemic:simulate --prior prior.toml --observed week.csv

    With --store runs.sqlite every simulation is kept, and the same command goes on where it stopped.

    The prior is a TOML file with one table for each parameter. Distributions have the names and the arguments of
    scipy.stats; uniform and loguniform take low and high:

        [rate]
        distribution = "gamma"
        a = 2.0

        [delay]
        distribution = "uniform"
        low = 0.0
        high = 5.0
    """
    picture = (output.with_suffix("") if output.suffix == ".gz" else output).with_suffix(".png")
    is_parquet(output)  # raises if this is not a table
    check_outputs([output, picture], force, [prior, observed, store])
    check_outputs([report], force, [prior, observed, store], "--report")
    chosen = _method(method, seed, check)
    values = _observation(observed, text_format(encoding, separator, decimal))
    sizes = {"n_simulations": simulations, "rounds": rounds}
    options = {"seed": seed, "batched": batched, "n_jobs": jobs, "timeout": timeout}
    run = _Inference(_simulator(simulator), _prior(prior), values, chosen, options)
    with stdout_for_json(json), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        posterior = run.infer(**sizes, store=store)
        write_table(posterior.frame(), output)
        posterior.plot().save(picture, dpi=120)
        diagnosis = run.diagnose(posterior) if check else None
    notes = messages_of(caught)
    page = run.report(posterior, diagnosis, notes, command_line(ctx))
    if report is not None:
        page.write(report)
    files = {"draws": output, "picture": picture, **({} if report is None else {"report": report})}
    if json:
        print_json({**_as_dict(posterior, page, diagnosis), "notes": notes, **files})
        return
    _print_posterior(posterior, page, diagnosis, notes)
    if diagnosis is None and not run.method.runs_simulator:
        print_sentences(["Add --check to see whether its uncertainties are right (a minute or more)."])
    print_wrote(*files.values())


@dataclass(frozen=True)
class _Inference:
    """What is inferred from what, and how."""

    simulator: Callable[..., Any]
    prior: "Prior"
    observed: dict[str, float]
    method: "Method"
    options: dict[str, Any]
    """How the simulator is run."""

    def infer(self, **sizes: Any) -> "Posterior":
        from decond.lfi import infer

        return infer(self.simulator, self.prior, self.observed, method=self.method, **sizes, **self.options)

    def diagnose(self, posterior: "Posterior") -> "diagnostics.Report":
        from decond.lfi import diagnose

        assert posterior.simulations is not None
        return diagnose(self.method, posterior.simulations, self.prior, self.observed, self.simulator, **self.options)

    def report(
        self, posterior: "Posterior", diagnosis: "diagnostics.Report | None", notes: list[str], command: str
    ) -> "Report":
        """Return the report, which has the verdict.

        Parameters
        ----------
        posterior : Posterior
        diagnosis : diagnostics.Report, optional
            What `diagnose` found.
        notes : list of str
            What was warned of.
        command : str
            The command line.
        """
        from decond.reports import inference_report

        return inference_report(
            posterior,
            self.observed,
            diagnosis=diagnosis,
            warnings=notes,
            method=type(self.method).__name__,
            seed=self.options["seed"],
            command=command,
        )


# ---- what the arguments name ---------------------------------------------------------------------------------


def _simulator(name: str) -> Callable[..., Any]:
    """Return the function that module:function names."""
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name or module_name.endswith(".py"):
        raise ArgumentError("SIMULATOR", f"the simulator is {name!r}; name it as module:function, without .py.")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ArgumentError(
            "SIMULATOR",
            f"{module_name} cannot be imported: there is no module {error.name!r} in this folder or among installed "
            "packages.",
        ) from None
    except Exception as error:
        raise ArgumentError(
            "SIMULATOR", f"{module_name} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    found = getattr(module, function_name, None)
    if not callable(found):
        functions = ", ".join(sorted(key for key, value in vars(module).items() if callable(value) and key[0] != "_"))
        raise ArgumentError(
            "SIMULATOR", f"{module_name} has no function {function_name!r}. It has: {functions or 'none'}."
        )
    return cast(Callable[..., Any], found)


def _observation(path: Path, text_format: TextFormat) -> dict[str, float]:
    """Return the values of an observation by name."""
    table = read_table(path, text_format)
    names = [str(name) for name in table.frame.columns]
    rows = table.numbers(names).to_numpy()
    if len(rows) != 1:
        raise TableError(
            f"{path} has {len(rows)} rows; an observation is one row of summaries under a header.",
            table=table.name,
            count=len(rows),
        )
    return dict(zip(names, rows[0].tolist(), strict=True))


def _prior(path: Path) -> "Prior":
    from decond.lfi.prior_file import read_prior

    return read_prior(path)


def _method(name: str, seed: int, check: bool) -> "Method":
    """Return the method of that name; raise if it is to be checked and cannot be."""
    from decond.lfi.rounds import method_named

    method = method_named(name, seed)
    if check and method.runs_simulator:
        raise ArgumentError(
            "--check",
            f"--check refits on held-out simulations, and --method {name} runs the simulator itself each time. "
            "Leave --check out, or choose another method.",
        )
    return method


# ---- what is printed -----------------------------------------------------------------------------------------


def _as_dict(posterior: "Posterior", page: "Report", diagnosis: "diagnostics.Report | None") -> dict[str, Any]:
    found: dict[str, Any] = {"parameters": posterior.summary().to_dict("index"), "verdict": page.verdict}
    if posterior.simulations is not None:
        found |= {"simulations": len(posterior.simulations), "failed": posterior.simulations.n_failed}
    if diagnosis is not None:
        found["diagnosis"] = {"verdict": diagnosis.verdict, "sentences": diagnosis.sentences}
    return found


def _print_posterior(
    posterior: "Posterior", page: "Report", diagnosis: "diagnostics.Report | None", notes: list[str]
) -> None:
    frame, sims = posterior.summary(), posterior.simulations
    title = "posterior" if sims is None else f"posterior from {len(sims)} simulations ({sims.n_failed} failed)"
    rows = [[str(name), *(f"{value:.4g}" for value in row)] for name, *row in frame.itertuples()]
    print_table(title, ["parameter", *map(str, frame.columns)], rows)
    reasons = [] if diagnosis is None else [f"- {sentence}" for sentence in diagnosis.sentences]
    print_sentences([f"Verdict: {page.verdict}", *reasons])
    print_warnings(notes)
