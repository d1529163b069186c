"""`decond fit`: tables in; a model, a picture and a readable summary out."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from decond.cli.console import console, learning_bar, say_json, wrong_input
from decond.cli.jobs import Job, Request, prepare, workers_for
from decond.cli.options import AsJson, Seed, column, file, flag, number
from decond.cli.outputs import check_model, check_picture, check_report, check_unread, say_wrote, times_of
from decond.cli.reporting import command_of
from decond.cli.summary import Summary, summarize
from decond.progress import progress_bar

__all__ = ["command"]

TOO_LARGE = (
    "This model holds matrices of all rows by all rows: fit a sample of some thousand rows, or, where x and z stand "
    "in one table, use --sparse."
)
MORE = "With --report page.html all of this is one page, with the curve and what it rests on."
NOT_JUDGED = "It was not judged, since that takes a while with so many rows. Add --check, or --report page.html."
TOO_LARGE_SPARSE = "Use fewer --inducing points, or Parquet files, which are read in parts."


class Uncertainty(StrEnum):
    """The two kinds of error bars."""

    honest = "honest"
    plain = "plain"


def command(
    ctx: typer.Context,
    tables: Annotated[
        list[Path],
        typer.Argument(
            help="Tables as .csv, .tsv or .parquet: PAIRS (x and y) and TASK (y and z); with --sparse a single one, "
            "or any number of Parquet files and folders.",
            metavar="PAIRS [TASK]",
        ),
    ],
    x: Annotated[list[str], column("--x", "Column of x in the first table; repeat for several.")],
    z: Annotated[str, column("--z", "Column of the target z.")],
    y: Annotated[
        list[str] | None, column("--y", "Column of the mediator y, in both tables; repeat for several.")
    ] = None,
    labels: Annotated[bool, flag("--labels", "The numbers in --y are labels (names).")] = False,
    aggregate: Annotated[
        bool,
        flag("--aggregate", "z is a mean over rows with the same y, of which the first table lists some or all."),
    ] = False,
    complete: Annotated[
        bool, flag("--complete", "With --aggregate: the first table lists all rows that z is the mean of.")
    ] = False,
    means: Annotated[
        bool,
        flag(
            "--means",
            "With a --y of numbers: z are means over all x of their y, not one measurement each (honest bars).",
        ),
    ] = False,
    sparse: Annotated[bool, flag("--sparse", "One large table with x and z, summarized by a few points.")] = False,
    inducing: Annotated[int | None, number("With --sparse: how many points; 100 by default.")] = None,
    workers: Annotated[int | None, number("With --sparse: processes on this machine that share the work.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="With --sparse: the Dask cluster that does the work, tcp://HOST:PORT."),
    ] = None,
    uncertainty: Annotated[
        Uncertainty | None,
        typer.Option(help="Error bars: honest (the default), or plain (the paper's formulas exactly)."),
    ] = None,
    restarts: Annotated[
        int | None, number("Further starts of the search; 4 by default, 0 with --sparse.", least=0)
    ] = None,
    max_iterations: Annotated[
        int | None, number("With --sparse: steps of each search at most; 100 by default.")
    ] = None,
    seed: Seed = 0,
    output: Annotated[Path, file("Where to write the model; a picture goes beside it.", "--output", "-o")] = Path(
        "model.decond"
    ),
    report: Annotated[
        Path | None, file("Where to write a report of the fit: one HTML page, *.html.", "--report")
    ] = None,
    check: Annotated[
        bool,
        flag("--check", "Judge the fit also where that takes a while; small ones always are."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Learn z as a function of x from tables in which they never stand together.

    Two tables that share a mediator y:
        decond fit pairs.csv task.csv --x wind --y pressure --z power

    Means of groups (hours in the first table, one mean a day in the second):
        decond fit hours.csv days.csv --x wind --y day --z power --aggregate

    One large table:
        decond fit table.csv --x wind --x height --z power --sparse

    One in Parquet files, which may be larger than memory; here or on a cluster:
        decond fit table/*.parquet --x wind --z power --sparse --workers 2

    With --report page.html the result can be read, shown and kept as one page.
    """
    bars = None if uncertainty is None else uncertainty.value
    model = (inducing, bars, restarts, max_iterations, seed)
    request = Request(tables, x, y or [], z, labels, aggregate, sparse, *model, workers, cluster, complete, means)
    with wrong_input(TOO_LARGE_SPARSE if sparse else TOO_LARGE):
        outcome = _run(request, output, report, check, command_of(ctx))
    if json:
        say_json(outcome.as_json())
    else:
        outcome.say()


class Files(NamedTuple):
    """What is written."""

    model: Path
    picture: Path
    report: Path | None


class Outcome(NamedTuple):
    """What was found, and where it was written."""

    summary: Summary
    files: Files
    before: Mapping[Path, str]
    """Files that were there, and their times."""
    verdict: Sequence[str]
    """What to think of it, in one sentence, and why; nothing if it was not judged."""

    def as_json(self) -> dict[str, Any]:
        """Return the results for machines."""
        files = {name: str(path) for name, path in self.files._asdict().items() if path is not None}
        return {**asdict(self.summary), "verdict": self.verdict[0] if self.verdict else None, **files}

    def say(self) -> None:
        """Print the results for people."""
        sentences = [NOT_JUDGED]
        if self.verdict:
            sentences = [
                f"Verdict: {self.verdict[0]}",
                *self.verdict[1:],
                *([MORE] if self.files.report is None else []),
            ]
        for part in [*self.summary.parts(), *sentences]:
            console.print(part, markup=False, highlight=False)
        say_wrote(*self.files, before=self.before)


def _run(request: Request, output: Path, report: Path | None, check: bool, command_line: str) -> Outcome:
    """Fit, and write the model, its picture and the report; what can be refused is refused before."""
    files = _check_files(output, report, request.tables)
    before = times_of(files)
    job = prepare(request)
    with workers_for(request) as client:
        job = job.with_rows(client)
        caught = _fit(job, client)
    summary = summarize(job, caught)
    _write(job, files)
    verdict: Sequence[str] = ()
    if report is not None:
        verdict = _write_report(job, summary, command_line, report)
    elif check or job.is_judged_quickly:
        verdict = _judge(job)
    return Outcome(summary, files, before, verdict)


def _judge(job: Job) -> Sequence[str]:
    """Return what to think of a fitted job: a verdict, and why."""
    from decond.reports.checks import judged
    from decond.reports.fitted_data import fitted_data

    data, _ = job.shown_data()
    with progress_bar("judging the fit"):
        return judged(job.estimator, fitted_data(job.estimator, data, job.request.z)).sentences


def _write_report(job: Job, summary: Summary, command_line: str, path: Path) -> Sequence[str]:
    """Write the report of a fitted job, for which naive baselines are fitted; return its verdict, and why."""
    from decond.reports import fit_report

    data, notes = job.shown_data()
    with progress_bar("writing the report"):
        page = fit_report(
            job.estimator,
            data,
            target=job.request.z,
            warnings=summary.warnings,
            notes=notes,
            command=command_line,
        )
    page.write(path)
    return page.sentences


def _check_files(output: Path, report: Path | None, read: Sequence[Path]) -> Files:
    """Return where everything goes; raise if something cannot be written, or would be lost."""
    check_unread([output, report], read)
    check_model(output)
    picture = output.with_suffix(".png")
    check_report(report)
    check_picture(picture)
    return Files(output, picture, report)


def _fit(job: Job, client: Any) -> list[str]:
    """Fit, with a bar on a terminal, and return what was warned of (the summary speaks of bounds in words)."""
    from decond.learning import BoundWarning

    with warnings.catch_warnings(record=True) as caught, learning_bar(f"fitting {job.words}") as report:
        warnings.simplefilter("always", UserWarning)
        job.estimator.fit(**job.data, **({} if client is None else {"client": client}), progress=report)
    texts = (str(warning.message) for warning in caught if not issubclass(warning.category, BoundWarning))
    return list(dict.fromkeys(texts))


def _write(job: Job, files: Files) -> None:
    from decond.io import save
    from decond.plotting import FunctionDisplay

    assert job.x is not None
    save(job.estimator, files.model.resolve())  # which may be a link
    display = FunctionDisplay.from_estimator(job.estimator, job.x, job.z_of_rows, target_name=job.request.z)
    display.save(files.picture, dpi=120)
