"""`decond fit`: tables in; a model, a picture and a readable summary out."""

import contextlib
import glob
import math
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer
from numpy.typing import NDArray

from decond.cli import console
from decond.errors import ArgumentError
from decond.progress import progress_bar
from decond.tables import Mediators, Table, TableError, match_groups, match_mediators, read_table

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

    from decond.estimators import AggregateGP, SparseGP, TaskTransformedGP
    from decond.reports import Report

__all__ = ["FitJob", "FitRequest", "fit", "prepare"]

CHECKED_SIZE = 150_000
"""Rows times targets up to which a fit is checked without being asked to: another model is fitted for that, which
takes up to half a minute at this size.
"""


@dataclass(frozen=True)
class FitRequest:
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

    tables: Annotated[
        list[Path],
        typer.Argument(
            help="Tables as .csv, .tsv or .parquet: PAIRS (x and y) and TASK (y and z). With --sparse one table, or "
            "any number of Parquet files and folders.",
        ),
    ]
    x: Annotated[list[str], typer.Option("--x", metavar="COLUMN", help="Column of x in PAIRS; repeat for several.")]
    z: Annotated[str, typer.Option("--z", metavar="COLUMN", help="Column of the target z in TASK.")]
    y: Annotated[
        list[str] | None,
        typer.Option(
            "--y",
            metavar="COLUMN",
            help="Column of the mediator y, or of the groups, in both tables; repeat for several.",
        ),
    ] = None
    labels: Annotated[bool, typer.Option("--labels", help="The numbers in --y are labels.")] = False
    targets: Annotated[
        Literal["mean", "single"] | None,
        typer.Option(
            help="What each z is: the mean over all x that go with its y (mean, the default), or one measurement at "
            "one x that was not recorded (single); a mean of readings at the same x is single, too.",
        ),
    ] = None
    drift: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="NUMBER",
            help="With --targets single, if the x of a y may differ between the tables (another year, another "
            "place): by how much the mean of x may be stretched, such as 0.1 for about 10 %. 0 by default.",
        ),
    ] = None
    aggregate: Annotated[
        bool, typer.Option("--aggregate", help="Each z is the mean over a group: the rows of PAIRS with the same y.")
    ] = False
    group_sizes: Annotated[
        str | None,
        typer.Option(
            metavar="VALUE",
            help="With --aggregate or a --y of labels, if PAIRS lists only a random sample of each group: how many "
            "rows a group really has. A number, inf for very many, or a column of TASK. Without it, all rows are "
            "listed.",
        ),
    ] = None
    z_std: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of TASK with the known standard error of each z.")
    ] = None
    sparse: Annotated[
        bool, typer.Option("--sparse", help="One large table with x and z, and a sparse model of it.")
    ] = False
    inducing: Annotated[
        int | None, typer.Option(min=1, metavar="NUMBER", help="With --sparse: inducing points; 100 by default.")
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(min=1, metavar="NUMBER", help="With --sparse: processes on this machine that share the work."),
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="With --sparse: the Dask cluster that does the work, tcp://HOST:PORT."),
    ] = None
    uncertainty: Annotated[
        Literal["honest", "plain"] | None,
        typer.Option(help="Error bars: honest (the default), or plain (the paper's formulas exactly)."),
    ] = None
    restarts: Annotated[
        int | None,
        typer.Option(min=0, metavar="NUMBER", help="Further starts of the search; 4 by default, 0 with --sparse."),
    ] = None
    max_iterations: Annotated[
        int | None,
        typer.Option(min=1, metavar="NUMBER", help="With --sparse: steps of each search at most; 100 by default."),
    ] = None
    encoding: console.Encoding = "utf-8"
    separator: console.Separator = None
    decimal: console.Decimal = "."
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows in which a column that is used has no value.")
    ] = False
    seed: console.Seed = 0
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write the model; a picture goes beside it."),
    ] = Path("model.decond")
    report: console.ReportFile = None
    check: Annotated[
        bool,
        typer.Option("--check", help="Check the fit even if that takes longer than the fit; small fits always are."),
    ] = False
    force: console.Force = False
    json: console.AsJson = False

    @property
    def mediator(self) -> list[str]:
        """The columns of y."""
        return self.y or []

    def settings(self) -> dict[str, Any]:
        """Return the settings of the estimator that were asked for; the others keep its defaults."""
        names = {"inducing": "n_inducing", "restarts": "n_restarts"}
        options = ("seed", "uncertainty", "max_iterations", "targets", "drift", *names)
        given = {names.get(name, name): getattr(self, name) for name in options}
        return {name: value for name, value in given.items() if value is not None}

    def read(self) -> tuple[list[Table], list[str]]:
        """Return the tables with the columns that are needed, and how many rows are left out of each, in words."""
        reading = console.text_format(self.encoding, self.separator, self.decimal)
        tables = [read_table(path, reading) for path in self.tables]
        sizes = self.group_sizes if _number(self.group_sizes) is None else None
        facts = [name for name in (sizes, self.z_std) if name is not None]
        needed = (
            [list(dict.fromkeys([*self.x, *self.mediator])), [*self.mediator, self.z, *facts]]
            if len(tables) == 2
            else [[*self.x, self.z]]
        )
        kept, notes = [], []
        for table, columns, other in zip(tables, needed, reversed(tables), strict=True):
            table.check_columns(columns, other)
            whole = table.without_missing(columns) if self.drop_missing else table
            if len(whole) < len(table):
                dropped = f"{len(table) - len(whole):,} of {len(table):,} rows of {table.name}"
                still = " They still count in the means of their groups: give --group-sizes."
                forgotten = self.aggregate and table is tables[0] and self.group_sizes is None
                notes.append(f"{dropped} are left out: a value is missing.{still if forgotten else ''}")
            whole.check_length(2, "fitting")
            kept.append(whole)
        return kept, notes


@dataclass(frozen=True)
class FitJob:
    """An estimator with the data it is to be fitted on."""

    estimator: "AggregateGP | SparseGP | TaskTransformedGP"
    data: dict[str, Any]
    """The arguments of `fit`."""
    x: "pd.DataFrame | None" = None
    """Rows to draw; None for a table on disk that has not been read yet."""
    z: NDArray[np.float64] | None = None
    """Targets of the rows of x, where there are any."""
    notes: list[str] = field(default_factory=list)

    def with_rows(self, client: "Client | None") -> "FitJob":
        """Return the job with rows to draw: of a table on disk a sample, for which workers read it once."""
        if self.x is not None:
            return self
        import pandas as pd

        from decond.streaming import summarize
        from decond.streaming.cluster import as_cluster_source

        table, drawn = self.data["X"], 5000  # rows are enough for a picture
        sample = summarize(table if client is None else as_cluster_source(table, client=client), 0, drawn).sample
        note = f"Ranges, data and checks are from {len(sample.x):,} of the {len(table):,} rows."
        notes = [*self.notes, *([note] if len(sample.x) < len(table) else [])]
        return replace(self, x=pd.DataFrame(sample.x, columns=table.names), z=sample.z[:, 0], notes=notes)

    @property
    def is_checked_quickly(self) -> bool:
        """Whether checks of the fitted model take less than about half a minute."""
        assert self.x is not None
        targets = next((len(self.data[name]) for name in ("z_groups", "z_task") if name in self.data), 1)
        return len(self.x) * targets <= CHECKED_SIZE

    @property
    def seen(self) -> dict[str, Any]:
        """The arguments of `fit` as a report takes them: of a table on disk the rows to draw."""
        return self.data if self.z is None else {"X": self.x, "y": self.z}


def prepare(request: FitRequest) -> FitJob:
    """Read and check the tables, and choose the estimator."""
    _check(request)
    return _one_table(request) if request.sparse else _two_tables(request)


@contextlib.contextmanager
def workers_for(request: FitRequest) -> "Iterator[Client | None]":
    """Yield a client of the workers that were asked for, or None if this process does the work."""
    if request.workers is None and request.cluster is None:
        yield None
        return
    from decond.streaming.cluster import ClusterError, cluster_of, connect

    try:
        with connect(request.cluster) if request.cluster is not None else cluster_of(request.workers or 1) as client:
            yield client
    except (ClusterError, ImportError) as error:
        raise ArgumentError("--workers" if request.cluster is None else "--cluster", str(error)) from error


# ---- checks of the options -----------------------------------------------------------------------------------


def _check(request: FitRequest) -> None:
    """Raise if a table or an option is missing, or has no meaning beside the others."""
    given = len(request.tables)
    if not request.sparse and given != 2:
        raise ArgumentError(
            "TABLES",
            f"two tables are needed, PAIRS and TASK, but {given} {'was' if given == 1 else 'were'} given. If x and z "
            "stand together in one table, add --sparse.",
        )
    text = next((path for path in request.tables if not _is_on_disk(path)), None)
    if request.sparse and given > 1 and text is not None:
        raise ArgumentError(
            "TABLES",
            f"--sparse takes one table, but {given} were given. Several files are read as one table if all of them "
            f"are Parquet; {text} is not.",
        )
    of_tables = ("targets", "drift", "group_sizes", "z_std", "y", "labels", "aggregate", "uncertainty")
    for kind, holds, idle in (
        ("with --sparse", request.sparse, of_tables),
        ("without --sparse", not request.sparse, ("inducing", "max_iterations", "workers", "cluster")),
        ("with --workers", request.workers is not None, ("cluster",)),
        ("with --aggregate", request.aggregate, ("targets", "drift")),
    ):
        for name in idle if holds else ():
            value = getattr(request, name)
            if value is not None and value is not False:  # zero was asked for
                option = f"--{name.replace('_', '-')}"
                raise ArgumentError(option, f"{option} has no meaning {kind}; leave one of them out.")
    if not request.sparse and not request.mediator:
        raise ArgumentError("--y", "name the mediator that both tables share: --y COLUMN.")
    repeated = sorted({*request.x, *request.mediator} & {request.z}) or sorted({*request.x} & {*request.mediator})
    if repeated and not request.sparse and (request.aggregate or repeated[0] == request.z):
        raise ArgumentError("--x", f"column {repeated[0]!r} is named twice. Name each column once.")


def _is_on_disk(path: Path) -> bool:
    """Return whether a path stands for Parquet files: by its suffix, or as a folder or pattern."""
    is_pattern = not path.suffix and glob.has_magic(str(path))
    return path.suffix.lower() in (".parquet", ".pq") or path.is_dir() or is_pattern


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


# ---- the estimators ------------------------------------------------------------------------------------------


def _two_tables(request: FitRequest) -> FitJob:
    """Return a job for pairs and task rows, or for groups, which are labels of their own."""
    import pandas as pd

    from decond.estimators import AggregateGP, TaskTransformedGP

    (pairs, task), dropped = request.read()
    if request.aggregate:
        found = match_groups(pairs, task, request.mediator)
    else:
        found = match_mediators(pairs, task, request.mediator, request.labels)
    x = pairs.numbers(request.x)[found.used].reset_index(drop=True)
    z = task.numbers([request.z])[request.z][found.used_task]
    facts: dict[str, Any] = {}
    if request.group_sizes is not None:
        size = _number(request.group_sizes)
        facts["group_sizes"] = size if size is not None else _sizes(request.group_sizes, found, task)
    if request.z_std is not None:
        facts["z_std"] = task.numbers([request.z_std])[request.z_std][found.used_task]
    y, y_task, notes = found.y[found.used], found.y_task[found.used_task], [*dropped, *found.notes]
    if not request.aggregate:
        data = {"x": x, "y": y, "y_task": y_task, "z_task": z.to_numpy(), **facts}
        return FitJob(TaskTransformedGP(**request.settings()), data, x, None, [*notes, *_like_labels(found.y)])
    labels = y_task.iloc[:, 0] if y_task.shape[1] == 1 else pd.MultiIndex.from_frame(y_task)
    if "z_std" in facts:
        facts["z_std"] = facts["z_std"].set_axis(labels)
    groups = y.iloc[:, 0] if y.shape[1] == 1 else y
    data = {"x": x, "groups": groups, "z_groups": z.set_axis(labels), **facts}
    return FitJob(AggregateGP(**request.settings()), data, x, None, notes)


def _one_table(request: FitRequest) -> FitJob:
    from decond.estimators import SparseGP
    from decond.streaming import ParquetTable

    model = SparseGP(**request.settings())
    if not all(map(_is_on_disk, request.tables)):
        [table], notes = request.read()
        x, z = table.numbers(request.x), table.numbers([request.z])[request.z].to_numpy()
        return FitJob(model, {"X": x, "y": z}, x, z, notes)
    if request.drop_missing:
        raise ArgumentError(
            "--drop-missing",
            "--drop-missing has no meaning for Parquet files and folders with --sparse, which are read where they "
            "lie; remove the rows there.",
        )
    stored = ParquetTable(request.tables, request.x, request.z)
    if len(stored) < 2:
        raise TableError(f"{stored.files[0]} has {len(stored)} row; fitting needs at least 2.", count=len(stored))
    return FitJob(model, {"X": stored})


def _sizes(column: str, found: Mediators, task: Table) -> dict[Any, float]:
    """Return the size of each group; raise if a group has two."""
    y = found.y_task[found.used_task]
    labels = y.iloc[:, 0] if y.shape[1] == 1 else y.itertuples(index=False, name=None)
    sizes: dict[Any, float] = {}
    for label, size in zip(labels, task.numbers([column])[column][found.used_task], strict=True):
        if sizes.setdefault(label, size) != size:
            raise ArgumentError(
                "--group-sizes",
                f"{task.name} has two sizes for {label!r} in {column!r}: {sizes[label]:g} and {size:g}. Give each "
                "group one size.",
            )
    return sizes


def _like_labels(y: "pd.DataFrame") -> list[str]:
    """Return a note if numbers of the mediator look like labels: whole, few, and each in several rows."""
    if y.shape[1] > 1 or y.iloc[:, 0].dtype.kind not in "iuf":
        return []
    counts = y.iloc[:, 0].value_counts()
    whole = bool(np.all(np.mod(counts.index.to_numpy(), 1) == 0))
    if not whole or counts.min() < 2 or 3 * len(counts) > len(y):
        return []
    return [
        f"{y.columns[0]!r} has {len(counts)} whole numbers in {len(y)} rows and is taken as a number. If it is a "
        "label, add --labels; if z is the mean of its rows, --aggregate."
    ]


# ---- fitting, and what is said of it -------------------------------------------------------------------------


def fit(ctx: typer.Context, request: FitRequest) -> None:
    """Fit, write what was asked for, and print what was found.

    Parameters
    ----------
    ctx : typer.Context
    request : FitRequest
        The options that were given.
    """
    files = {"model": request.output, "picture": request.output.with_suffix(".png"), "report": request.report}
    summary = _run(request, files, console.command_line(ctx))
    if request.json:
        console.print_json(summary)
    else:
        _print_summary(summary)
        console.print_wrote(*files.values())


def _run(request: FitRequest, files: dict[str, Path | None], command: str) -> dict[str, Any]:
    """Fit, write the model, its picture and the report, and return what was found."""
    from decond.io import save
    from decond.plotting import FunctionDisplay
    from decond.reports import fit_report

    model, picture, report = files.values()
    assert model is not None
    assert picture is not None
    if model.suffix in (".png", ".csv", ".tsv", ".html"):
        raise ArgumentError("--output", f"--output is {model}; call the model {model.with_suffix('.decond')}.")
    console.check_outputs([model, picture, report], request.force, request.tables)
    job = prepare(request)
    with workers_for(request) as client:
        job = job.with_rows(client)
        caught = _fit(job, client)
    assert job.x is not None
    save(job.estimator, model.resolve())  # which may be a link
    FunctionDisplay.from_estimator(job.estimator, job.x, job.z, target_name=request.z).save(picture, dpi=120)
    page = None
    if report is not None or request.check or job.is_checked_quickly:
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
    return console.messages_of(caught)


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
    console.print_sentences([summary["title"], *summary["facts"]])
    rows = []
    for name, value in summary["hyperparameters"].items():
        low, high = summary["ranges"].get(name, (None, None))
        rows.append((name, f"{value:.4g}" if low is None else f"{value:.4g} (95 %: {low:.3g} to {high:.3g})"))
    for key, name in (("log_evidence", "log evidence"), ("held_out_log_density", "log density of held-out targets")):
        if summary[key] is not None:
            rows.append((name, f"{summary[key]:.4f}"))
    console.print_table("", ("learned", "value"), rows)
    if len(summary["candidates"]) > 1:
        candidates = ((name, f"{weight:.2f}") for name, weight in summary["candidates"].items())
        console.print_table("", ("candidate model", "weight"), candidates)
    console.print_sentences([f"{summary['status']}: {summary['message']}", *summary["notes"]])
    console.print_warnings(summary["warnings"])
    if summary["verdict"] is None:
        console.print_sentences(
            ["The fit was not checked, which takes a while with this many rows: add --check or --report."]
        )
        return
    reasons = (
        _with_options(check["sentence"])
        for name, check in summary["checks"].items()
        if name == "deconditioning" or check["state"] in ("doubt", "bad")
    )
    console.print_sentences([f"Verdict: {summary['verdict']}", *reasons])
    if "report" not in summary:
        console.print_sentences(["Add --report page.html to see the learned function, the data and all checks."])
