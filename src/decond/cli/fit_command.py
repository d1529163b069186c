"""`decond fit`: tables in; a model, a picture and a readable summary out."""

import math
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from decond.cli.console import (
    AsJson,
    Decimal,
    Encoding,
    Force,
    ReportFile,
    Seed,
    Separator,
    check_outputs,
    command_line,
    messages_of,
    print_json,
    print_sentences,
    print_table,
    print_warnings,
    print_wrote,
    text_format,
)
from decond.cli.fit_request import FitJob, FitRequest, prepare, workers_for
from decond.errors import ArgumentError
from decond.progress import progress_bar

if TYPE_CHECKING:
    from distributed import Client

    from decond.reports import Report

__all__ = ["fit"]

# ---- the options ---------------------------------------------------------------------------------------------

_Tables = Annotated[
    list[Path],
    typer.Argument(
        help="Tables as .csv, .tsv or .parquet: PAIRS (x and y) and TASK (y and z). With --sparse one table, or any "
        "number of Parquet files and folders.",
    ),
]
_InputColumn = Annotated[
    list[str], typer.Option("--x", metavar="COLUMN", help="Column of x in PAIRS; repeat for several.")
]
_TargetColumn = Annotated[str, typer.Option("--z", metavar="COLUMN", help="Column of the target z in TASK.")]
_MediatorColumn = Annotated[
    list[str] | None,
    typer.Option("--y", metavar="COLUMN", help="Column of the mediator y, in both tables; repeat for several."),
]
_Labels = Annotated[bool, typer.Option("--labels", help="The numbers in --y are labels.")]
_Targets = Annotated[
    Literal["mean", "single"] | None,
    typer.Option(
        help="What each z is: the mean over all x that go with its y (mean, the default), or one measurement at one "
        "x that was not recorded (single).",
    ),
]
_Drift = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        metavar="NUMBER",
        help="With --targets single, if the x of a y may differ between the tables (another year, another place): by "
        "how much the mean of x may be stretched, such as 0.1 for about 10 %. 0 by default.",
    ),
]
_Aggregate = Annotated[
    bool, typer.Option("--aggregate", help="Each z is the mean over a group: the rows of PAIRS with the same y.")
]
_GroupSizes = Annotated[
    str | None,
    typer.Option(
        metavar="VALUE",
        help="With --aggregate or a --y of labels, if PAIRS lists only a random sample of each group: how many rows "
        "a group really has. A number, inf for very many, or a column of TASK. Without it, all rows are listed.",
    ),
]
_ZStd = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of TASK with the known standard error of each z.")
]
_Sparse = Annotated[bool, typer.Option("--sparse", help="One large table with x and z, and a sparse model of it.")]
_Inducing = Annotated[
    int | None, typer.Option(min=1, metavar="NUMBER", help="With --sparse: inducing points; 100 by default.")
]
_Workers = Annotated[
    int | None,
    typer.Option(min=1, metavar="NUMBER", help="With --sparse: processes on this machine that share the work."),
]
_Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="With --sparse: the Dask cluster that does the work, tcp://HOST:PORT."),
]
_Uncertainty = Annotated[
    Literal["honest", "plain"] | None,
    typer.Option(help="Error bars: honest (the default), or plain (the paper's formulas exactly)."),
]
_Restarts = Annotated[
    int | None,
    typer.Option(min=0, metavar="NUMBER", help="Further starts of the search; 4 by default, 0 with --sparse."),
]
_MaxIterations = Annotated[
    int | None,
    typer.Option(min=1, metavar="NUMBER", help="With --sparse: steps of each search at most; 100 by default."),
]
_Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the model; a picture goes beside it.")
]
_Check = Annotated[
    bool,
    typer.Option("--check", help="Check the fit even if that takes longer than the fit; small fits always are."),
]


def fit(
    ctx: typer.Context,
    tables: _Tables,
    x: _InputColumn,
    z: _TargetColumn,
    y: _MediatorColumn = None,
    labels: _Labels = False,
    targets: _Targets = None,
    drift: _Drift = None,
    aggregate: _Aggregate = False,
    group_sizes: _GroupSizes = None,
    z_std: _ZStd = None,
    sparse: _Sparse = False,
    inducing: _Inducing = None,
    workers: _Workers = None,
    cluster: _Cluster = None,
    uncertainty: _Uncertainty = None,
    restarts: _Restarts = None,
    max_iterations: _MaxIterations = None,
    encoding: Encoding = "utf-8",
    separator: Separator = None,
    decimal: Decimal = ".",
    seed: Seed = 0,
    output: _Output = Path("model.decond"),
    report: ReportFile = None,
    check: _Check = False,
    force: Force = False,
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
    facts: dict[str, Any] = {"targets": targets, "drift": drift, "group_sizes": group_sizes, "z_std": z_std}
    search: dict[str, Any] = {"uncertainty": uncertainty, "restarts": restarts, "seed": seed}
    of_sparse = {"inducing": inducing, "max_iterations": max_iterations, "workers": workers, "cluster": cluster}
    reading = text_format(encoding, separator, decimal)
    options = {**facts, **search, **of_sparse, "text_format": reading}
    request = FitRequest(tables, x, y or [], z, labels, aggregate, sparse, **options)
    files = {"model": output, "picture": output.with_suffix(".png"), "report": report}
    summary = _run(request, files, force, check, command_line(ctx))
    if json:
        print_json(summary)
    else:
        _print_summary(summary)
        print_wrote(*files.values())


def _run(
    request: FitRequest, files: dict[str, Path | None], force: bool, check: bool, command: str
) -> dict[str, Any]:
    """Fit, write the model, its picture and the report, and return what was found."""
    from decond.io import save
    from decond.plotting import FunctionDisplay
    from decond.reports import fit_report

    model, picture, report = files.values()
    assert model is not None
    assert picture is not None
    if model.suffix in (".png", ".csv", ".tsv", ".html"):
        raise ArgumentError("--output", f"--output is {model}; call the model {model.with_suffix('.decond')}.")
    check_outputs([model, picture, report], force, request.tables)
    job = prepare(request)
    with workers_for(request) as client:
        job = job.with_rows(client)
        caught = _fit(job, client)
    assert job.x is not None
    save(job.estimator, model.resolve())  # which may be a link
    FunctionDisplay.from_estimator(job.estimator, job.x, job.z, target_name=request.z).save(picture, dpi=120)
    page = None
    if report is not None or check or job.is_checked_quickly:
        with progress_bar("checking the fit"):
            page = fit_report(
                job.estimator,
                job.seen,
                target=request.z,
                baselines={} if report is None else None,  # they are only shown
                warnings=caught,
                notes=job.notes,
                command=command,
            )
    if report is not None and page is not None:
        page.write(report)
    written = {name: path for name, path in files.items() if path}
    return {**_summary(job, request, page), "warnings": caught, "notes": job.notes, **written}


def _fit(job: FitJob, client: "Client | None") -> list[str]:
    """Fit, with a bar on a terminal, and return what was warned of."""
    workers: dict[str, Any] = {} if client is None else {"client": client}
    with warnings.catch_warnings(record=True) as caught, progress_bar("fitting") as bar:
        warnings.simplefilter("always", UserWarning)

        def _report(steps: int, best: float) -> None:
            bar(status=f"step {steps}{f', best {best:.2f}' if math.isfinite(best) else ''}")

        job.estimator.fit(**job.data, **workers, progress=_report)
    return messages_of(caught)


def _summary(job: FitJob, request: FitRequest, page: "Report | None") -> dict[str, Any]:
    """Return what was learned, in words and in the user's units, and what the checks say."""
    from decond.reports.fit_description import candidate_weights, fitted_data, hyperparameters

    assert job.estimator.fit_result_ is not None
    found, seen = job.estimator.fit_result_, fitted_data(job.estimator, job.seen, request.z)
    learned = hyperparameters(job.estimator, seen)
    sampled = found.status == "sampled"
    checks = {} if page is None else page.checks
    return {
        "title": f"{request.z} as a function of {', '.join(request.x)}, from {seen.words}",
        "facts": list(seen.facts),
        "hyperparameters": {item.name: item.value for item in learned},
        "ranges": {item.name: item.range for item in learned if item.range is not None},
        "candidates": candidate_weights(job.estimator),
        "log_evidence": None if sampled else float(found.log_evidence),
        "held_out_log_density": float(found.log_evidence) if sampled else None,
        "status": found.status,
        "message": found.message,
        "evaluations": found.evaluations,
        "verdict": None if page is None else page.verdict,
        "checks": {
            name: {"state": check.state, "sentence": check.sentence, **check.numbers}
            for name, check in checks.items()
        },
    }


def _with_options(sentence: str) -> str:
    """Return a sentence with options of the command for what the estimators call their arguments."""
    return re.sub(r'targets="(\w+)"', r"--targets \1", sentence).replace("group_sizes", "--group-sizes")


def _print_summary(summary: dict[str, Any]) -> None:
    """Print what a fit found for people."""
    print_sentences([summary["title"], *summary["facts"]])
    rows = []
    for name, value in summary["hyperparameters"].items():
        low, high = summary["ranges"].get(name, (None, None))
        rows.append((name, f"{value:.4g}" if low is None else f"{value:.4g} ({low:.3g} to {high:.3g})"))
    for key, name in (("log_evidence", "log evidence"), ("held_out_log_density", "log density of held-out targets")):
        if summary[key] is not None:
            rows.append((name, f"{summary[key]:.4f}"))
    print_table("", ("learned", "value"), rows)
    if len(summary["candidates"]) > 1:
        candidates = ((name, f"{weight:.2f}") for name, weight in summary["candidates"].items())
        print_table("", ("candidate model", "weight"), candidates)
    print_sentences([f"{summary['status']}: {summary['message']}", *summary["notes"]])
    print_warnings(summary["warnings"])
    if summary["verdict"] is None:
        print_sentences(
            ["The fit was not checked, which takes a while with this many rows: add --check or --report."]
        )
        return
    reasons = (
        _with_options(check["sentence"])
        for name, check in summary["checks"].items()
        if name == "deconditioning" or check["state"] in ("doubt", "bad")
    )
    print_sentences([f"Verdict: {summary['verdict']}", *reasons])
    if "report" not in summary:
        print_sentences(["Add --report page.html to see the learned function, the data and all checks."])
