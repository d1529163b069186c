"""`decond fit`: tables in; a model, a picture and a readable summary out."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from decond.cli.completion import complete_column
from decond.cli.console import console, learning_bar, say_json, wrong_input
from decond.cli.jobs import Facts, Job, Request, prepare, workers_for
from decond.cli.options import AsJson, Seed, column, file, flag, number
from decond.cli.outputs import check_model, check_picture, check_report, check_unread, say_wrote, times_of
from decond.cli.reporting import command_of
from decond.cli.summary import Summary, as_options, summarize
from decond.progress import progress_bar

if TYPE_CHECKING:
    from decond.reports import Report

__all__ = ["command"]

TOO_LARGE = (
    "This model holds matrices of all rows by all rows: fit a sample of some thousand rows, or, where x and z stand "
    "in one table, use --sparse."
)
MORE = "Add --report page.html to get all of this as one page, with the learned function, the data and the checks."
NOT_CHECKED = "The fit was not checked, which takes a while with this many rows. Add --check or --report page.html."
TOO_LARGE_SPARSE = "Use fewer --inducing points, or Parquet files, which are read in parts."


class Targets(StrEnum):
    """What a target is."""

    mean = "mean"
    single = "single"


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
    targets: Annotated[
        Targets | None,
        typer.Option(
            help="What each z is: the mean over all x that go with its y (mean, the default), or one measurement at "
            "one x that was not recorded (single).",
        ),
    ] = None,
    drift: Annotated[
        float | None,
        number(
            "With --targets single, if the x of a y may differ between the tables (another year, another place): by "
            "how much the mean of x may be stretched, such as 0.1 for about 10 %. 0 by default.",
            least=0.0,
        ),
    ] = None,
    aggregate: Annotated[
        bool, flag("--aggregate", "Each z is the mean over a group: the rows of the first table with the same y.")
    ] = False,
    group_sizes: Annotated[
        str | None,
        typer.Option(
            "--group-sizes",
            metavar="VALUE",
            help="With --aggregate or a --y of labels, if the first table lists only a random sample of each group: "
            "how many rows a group really has. A number, inf for very many, or a column of the second table. "
            "Without it, all rows of each group count as listed.",
            autocompletion=complete_column,
        ),
    ] = None,
    z_std: Annotated[
        str | None, column("--z-std", "Column of the second table with the known standard error of each z.")
    ] = None,
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
        flag("--check", "Check the fit even if that takes longer than the fit; small fits are always checked."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Learn z as a function of x from tables in which they never stand together.

    Two tables that share a mediator y, each power being one measurement:
        decond fit pairs.csv task.csv --x wind --y pressure --z power --targets single

    Means of groups (8 of the 24 hours of each day in the first table, the mean of each day in the second):
        decond fit hours.csv days.csv --x wind --y day --z power --aggregate --group-sizes 24

    One large table:
        decond fit table.csv --x wind --x height --z power --sparse

    One in Parquet files, which may be larger than memory; here or on a cluster:
        decond fit table/*.parquet --x wind --z power --sparse --workers 2

    With --report page.html the result can be read, shown and kept as one page.
    """
    bars = None if uncertainty is None else uncertainty.value
    model = (inducing, bars, restarts, max_iterations, seed)
    facts = Facts(None if targets is None else targets.value, drift, group_sizes, z_std)
    request = Request(tables, x, y or [], z, labels, aggregate, sparse, *model, workers, cluster, facts)
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
    found: "Report | None"
    """What the checks found; None if nothing was checked."""

    def as_json(self) -> dict[str, Any]:
        """Return the results for machines."""
        files = {name: str(path) for name, path in self.files._asdict().items() if path is not None}
        checked: dict[str, Any] = {"verdict": None, "checks": {}}
        if self.found is not None:
            checked["verdict"] = self.found.verdict
            for check in self.found.checks.values():
                sentence = as_options(check.sentence)
                checked["checks"][check.name] = {"state": check.state, "sentence": sentence, **check.numbers}
        return {**asdict(self.summary), **checked, **files}

    def say(self) -> None:
        """Print the results for people."""
        sentences = [NOT_CHECKED]
        if self.found is not None:
            verdict, *reasons = map(as_options, self.found.sentences)
            more = [MORE] if self.files.report is None else []
            sentences = [f"Verdict: {verdict}", *reasons, *more]
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
    found = None
    if report is not None:
        found = _write_report(job, summary, command_line, report)
    elif check or job.is_checked_quickly:
        found = _assess(job)
    return Outcome(summary, files, before, found)


def _assess(job: Job) -> "Report":
    """Check a fitted job; the other setting is fitted for that."""
    from decond.reports import fit_report

    data, _ = job.shown_data()
    with progress_bar("checking the fit"):
        return fit_report(job.estimator, data, target=job.request.z, baselines={})


def _write_report(job: Job, summary: Summary, command_line: str, path: Path) -> "Report":
    """Write the report of a fitted job, for which baselines and the other setting are fitted; return its checks."""
    from decond.reports import fit_report

    data, notes = job.shown_data()
    with progress_bar("checking the fit and writing the report"):
        page = fit_report(
            job.estimator,
            data,
            target=job.request.z,
            warnings=summary.warnings,
            notes=notes,
            command=command_line,
        )
    page.write(path)
    return page


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
    from decond.gp import BoundWarning

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
