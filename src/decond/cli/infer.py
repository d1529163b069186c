"""`decond infer`: a simulator, a prior and an observation give a posterior."""

import warnings
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.table import Table

from decond.cli.console import console, errors, say_json, say_notes, wrong_input
from decond.cli.options import AsJson, Seed, file, flag, number
from decond.cli.outputs import check_draws, check_picture, check_report, check_unread, say_wrote, times_of
from decond.cli.reporting import command_of, stdout_for_json
from decond.cli.simulators import read_observation, simulator_named
from decond.cli.wide_tables import Column, fitting_tables
from decond.errors import ArgumentError
from decond.tables import check_output, write_table

if TYPE_CHECKING:
    from decond.lfi import Method, Posterior, Prior, diagnostics
    from decond.reports import Report

__all__ = ["command"]

CHECK = "--check judges whether its uncertainties are right (a minute or more)."


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
    mdn = "mdn"
    lfvi = "lfvi"


def command(
    ctx: typer.Context,
    simulator: Annotated[
        str,
        typer.Argument(
            metavar="SIMULATOR",
            help="The simulator as module:function; the module is looked for in this folder too.",
        ),
    ],
    prior: Annotated[Path, file("The prior: a TOML file with one table for each parameter.")],
    observed: Annotated[
        Path,
        file(
            "The observation: a table with one row of summaries, in the order in which the simulator returns them. "
            "If it returns names too (a dict, a Series), the header has to have the same, in any order."
        ),
    ],
    simulations: Annotated[int, number("How many simulations in all.", "--simulations", "-n")] = 1000,
    rounds: Annotated[int, number("Rounds; later ones simulate where the posterior is.")] = 3,
    method: Annotated[
        MethodName, typer.Option(help="How to infer; auto is the residual likelihood.")
    ] = MethodName.auto,
    batched: Annotated[bool, flag("--batched", "The simulator takes many rows of parameters at once.")] = False,
    jobs: Annotated[int, number("Processes that simulate side by side; -1 for all cores.", least=None)] = 1,
    timeout: Annotated[
        float | None,
        number("Seconds after which a simulation is ended and counted as failed.", least=0.001, metavar="SECONDS"),
    ] = None,
    store: Annotated[
        Path | None, file("SQLite file that keeps every simulation; run again to go on where it stopped.")
    ] = None,
    seed: Seed = 0,
    output: Annotated[Path, file("Where to write 10,000 draws; a picture goes beside it.", "--output", "-o")] = Path(
        "posterior.csv"
    ),
    report: Annotated[Path | None, file("Where to write a report: one HTML page, *.html.", "--report")] = None,
    check: Annotated[
        bool, flag("--check", "Judge the posterior: refit on held-out simulations, and simulate 400 times more.")
    ] = False,
    diagnose: Annotated[bool, flag("--diagnose", "The name of --check before.", hidden=True)] = False,
    json: AsJson = False,
) -> None:
    r"""Find which parameters of a simulator fit an observation.

    The simulator is a Python function of one row of parameters and a numpy random generator that returns a row of
    summaries:

        decond infer epidemic:simulate --prior prior.toml --observed week.csv

    With --store runs.sqlite every simulation is kept, and the same command goes on where it stopped.

    The prior is a TOML file with one table for each parameter. Distributions have the names and the arguments of
    scipy.stats; uniform and loguniform take low and high:

        \[rate]
        distribution = "gamma"
        a = 2.0

        \[delay]
        distribution = "uniform"
        low = 0.0
        high = 5.0
    """
    check = check or diagnose
    with wrong_input("Ask for fewer --simulations."), stdout_for_json(json):
        files = _check_files(output, report, [prior, observed, store])
        options = {"batched": batched, "n_jobs": _checked_jobs(jobs), "timeout": timeout}
        chosen = _method(method.value, seed, check)
        belief = _prior(prior)
        check_draws(files.draws, files.picture, belief.names)
        what = (simulator_named(simulator), belief, *read_observation(observed))
        task = Task(*what, chosen, simulations, rounds, seed, store, options)
        outcome = _run(task, files, check, command_of(ctx))
    if json:
        say_json(outcome.as_json())
    else:
        outcome.say()


class Task(NamedTuple):
    """What is inferred from what, and how."""

    simulator: Callable[..., Any]
    prior: "Prior"
    observed: dict[str, float]
    """Its values by name."""
    read: tuple[str, ...]
    """What was assumed when the observation was read."""
    method: "Method"
    simulations: int
    rounds: int
    seed: int
    store: Path | None
    options: dict[str, Any]
    """How the simulator is run."""


class Files(NamedTuple):
    """What is written."""

    draws: Path
    picture: Path
    report: Path | None


class Outcome(NamedTuple):
    """What was found, and where it was written."""

    posterior: "Posterior"
    diagnosis: "diagnostics.Report | None"
    verdict: str
    notes: list[str]
    """What was warned of."""
    read: tuple[str, ...]
    """How the observation was read."""
    files: Files
    before: Mapping[Path, str]
    """Files that were there, and their times."""
    hint: str = ""
    """What would tell more."""

    def as_json(self) -> dict[str, Any]:
        """Return the results for machines; what was not asked for is left out."""
        sims = self.posterior.simulations
        found: dict[str, Any] = {"parameters": self.posterior.summary().to_dict("index")}
        if sims is not None:
            found |= {"simulations": len(sims), "failed": sims.n_failed}
        if self.diagnosis is not None:
            found["diagnosis"] = {"verdict": self.diagnosis.verdict, "sentences": self.diagnosis.sentences}
        files = {name: str(path) for name, path in self.files._asdict().items() if path is not None}
        return {**found, "verdict": self.verdict, "notes": [*self.read, *self.notes], **files}

    def say(self) -> None:
        """Print the results for people."""
        for table in _tables(self.posterior):
            console.print(table, crop=False)
        judged = [f"Verdict: {self.verdict}", *self._reasons()]
        for sentence in [*judged, *([self.hint] if self.hint else [])]:
            console.print(sentence, markup=False, highlight=False, soft_wrap=True)
        say_notes(self.read)
        for note in (note for note in self.notes if note.lower() not in "\n".join(judged).lower()):
            errors.print(f"Warning: {note}", style="yellow", markup=False, soft_wrap=True)
        say_wrote(*self.files, before=self.before)

    def _reasons(self) -> list[str]:
        """Return the numbers behind the verdict, if there was a diagnosis."""
        return [] if self.diagnosis is None else [f"- {_for_readers(text)}" for text in self.diagnosis.sentences]


def _run(task: Task, files: Files, check: bool, command_line: str) -> Outcome:
    """Infer, and write draws, picture and report; draws are kept also if judging them fails."""
    before = times_of(files)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        posterior = _inferred(task)
        write_table(posterior.frame(), files.draws)
        posterior.plot().save(files.picture, dpi=120)
        diagnosis = _diagnosed(task, posterior) if check else None
    notes = list(dict.fromkeys(_for_readers(str(warning.message)) for warning in caught))
    hint = CHECK if diagnosis is None and not task.method.runs_simulator else ""
    if files.report is None:
        verdict = _verdict(task, posterior, diagnosis)
    else:
        page = _report(task, posterior, diagnosis, notes, command_line)
        page.write(files.report)
        verdict = page.verdict
    return Outcome(posterior, diagnosis, verdict, notes, task.read, files, before, hint)


def _for_readers(text: str) -> str:
    """Return a text without what only somebody who writes Python can follow."""
    return text.replace(" (see probability_valid)", "")


def _inferred(task: Task) -> "Posterior":
    from decond.lfi import infer

    return infer(
        task.simulator,
        task.prior,
        task.observed,
        task.simulations,
        task.rounds,
        task.method,
        seed=task.seed,
        store=task.store,
        **task.options,
    )


def _check_files(output: Path, report: Path | None, read: list[Path | None]) -> Files:
    """Return where everything goes; raise if something cannot be written, or if a file of the user would be lost."""
    check_output(output)
    picture = (output.with_suffix("") if output.suffix == ".gz" else output).with_suffix(".png")
    check_unread([output, picture, report], read)
    check_report(report)
    check_picture(picture)
    return Files(output, picture, report)


def _checked_jobs(jobs: int) -> int:
    if jobs == 0:
        raise ArgumentError(
            "--jobs", "--jobs is 0; give how many processes simulate side by side, or -1 for all cores."
        )
    return jobs


def _prior(path: Path) -> "Prior":
    from decond.lfi.prior_file import read_prior

    return read_prior(path)


def _method(name: str, seed: int, check: bool) -> "Method":
    """Return the method of that name; raise if it is to be judged and cannot be."""
    from decond.lfi.inference import method_named

    method = method_named(name, seed)
    if check and method.runs_simulator:
        raise ArgumentError(
            "--check",
            f"--check refits on held-out simulations, and --method {name} runs the simulator itself each time. "
            "Leave --check out, or choose another method.",
        )
    return method


def _diagnosed(task: Task, posterior: "Posterior") -> "diagnostics.Report":
    from decond.lfi import diagnose

    assert posterior.simulations is not None
    return diagnose(
        task.method, posterior.simulations, task.prior, task.observed, task.simulator, seed=task.seed, **task.options
    )


def _verdict(task: Task, posterior: "Posterior", diagnosis: "diagnostics.Report | None") -> str:
    """Return the verdict that a report would have."""
    from decond.reports import inference_report

    return inference_report(posterior, task.observed, diagnosis=diagnosis).verdict


def _report(
    task: Task,
    posterior: "Posterior",
    diagnosis: "diagnostics.Report | None",
    notes: list[str],
    command_line: str,
) -> "Report":
    from decond.reports import inference_report

    return inference_report(
        posterior,
        task.observed,
        diagnosis=diagnosis,
        warnings=notes,
        notes=task.read,
        method=type(task.method).__name__,
        seed=task.seed,
        command=command_line,
    )


def _tables(posterior: "Posterior") -> list[Table]:
    """Return a summary of the posterior as one table, or as several where the terminal is narrow."""
    frame = posterior.summary()
    sims = posterior.simulations
    title = "posterior" if sims is None else f"posterior from {len(sims)} simulations ({sims.n_failed} failed)"
    names = Column("parameter", [str(name) for name in frame.index])
    columns = [Column(str(heading), [f"{value:.4g}" for value in frame[heading]]) for heading in frame.columns]
    return fitting_tables(title, names, columns, console.width)
