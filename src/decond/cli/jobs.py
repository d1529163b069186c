"""From the options of `decond fit` to an estimator and its checked data, before anything is fitted."""

import contextlib
import glob
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from decond.errors import ArgumentError
from decond.tables import Mediators, Table, TableError, match_groups, match_mediators, read_table
from decond.tables.columns import as_name

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Facts", "Job", "Request", "prepare", "workers_for"]

LEAST = 2
"""Rows without which nothing can be learned."""

FEW = 10
"""Targets below which a fit is little more than a guess."""

MANY = 0.1
"""Share of rows that cannot be left out without a warning."""

SHOWN = 5000
"""Rows of a table on disk that the picture is drawn from."""


QUICK, QUICK_GROUPS, QUICK_SPARSE = 100_000, 200_000, 100_000
"""Rows times targets of pairs and of groups, and rows of a sparse model, up to which a fit is checked without being
asked to. The other setting is fitted for that, which takes up to half a minute at these sizes.
"""


GROUP_SIZES = "Give a number from 1 on, inf for very large groups, or a column of the second table."
"""What --group-sizes takes."""


@dataclass(frozen=True)
class Facts:
    """What the user says about the targets, as the options say it."""

    targets: str | None = None
    drift: float | None = None
    group_sizes: str | None = None
    """A number, "inf", or the name of a column of the second table."""
    z_std: str | None = None
    """The name of a column of the second table."""

    @property
    def size(self) -> float | None:
        """The size of every group; None where a column has the sizes, or none are given."""
        try:
            return None if self.group_sizes is None else float(self.group_sizes)
        except ValueError:
            return None

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the second table that hold facts, by option."""
        sizes = self.group_sizes if self.size is None else None
        named = {"--group-sizes": sizes, "--z-std": self.z_std}
        return {option: column for option, column in named.items() if column is not None}

    def options(self) -> dict[str, Any]:
        """Return what was given, by option."""
        given = {"targets": self.targets, "drift": self.drift, "group-sizes": self.group_sizes, "z-std": self.z_std}
        return {f"--{name}": value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    tables: list[Path]
    x: list[str]
    y: list[str]
    z: str
    labels: bool = False
    aggregate: bool = False
    sparse: bool = False
    inducing: int | None = None
    uncertainty: str | None = None
    restarts: int | None = None
    max_iterations: int | None = None
    seed: int = 0
    workers: int | None = None
    cluster: str | None = None
    facts: Facts = Facts()

    def with_plain_names(self) -> "Request":
        """Return it with columns called as tables call them, whose letters have their accents in one sign."""
        x, y = ([as_name(name) for name in names] for names in (self.x, self.y))
        sizes, errors = (
            None if name is None else as_name(name) for name in (self.facts.group_sizes, self.facts.z_std)
        )
        facts = replace(self.facts, group_sizes=sizes, z_std=errors)
        return replace(self, x=x, y=y, z=as_name(self.z), facts=facts)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the estimator that were asked for; the others keep its defaults."""
        given = {
            "n_inducing": self.inducing,
            "uncertainty": self.uncertainty,
            "n_restarts": self.restarts,
            "max_iterations": self.max_iterations,
            "targets": self.facts.targets,
            "drift": self.facts.drift,
        }
        return {"seed": self.seed, **{name: value for name, value in given.items() if value is not None}}


@dataclass(frozen=True)
class Job:
    """An estimator with the data it is to be fitted on."""

    request: Request
    words: str
    """What the data are, in a few words."""
    estimator: Any
    data: dict[str, Any]
    """The arguments of `fit`."""
    x: "pd.DataFrame | None" = None
    """Rows to draw; None for a table on disk that has not been looked at."""
    z_of_rows: Any = None
    """Targets of the rows of x, where there are any."""
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def with_rows(self, client: Any) -> "Job":
        """Return the job with rows to draw: of a table on disk a sample, for which workers read it once."""
        if self.x is not None:
            return self
        import pandas as pd

        from decond.streaming import summarize
        from decond.streaming.cluster import as_cluster_source

        table = self.data["X"]
        sample = summarize(table if client is None else as_cluster_source(table, client=client), 0, SHOWN).sample
        return replace(self, x=pd.DataFrame(sample.x, columns=table.names), z_of_rows=sample.z[:, 0])

    @property
    def is_checked_quickly(self) -> bool:
        """Whether checks of the fitted model take less than about half a minute."""
        assert self.x is not None
        for name, most in (("z_groups", QUICK_GROUPS), ("z_task", QUICK)):
            if name in self.data:
                return len(self.x) * len(self.data[name]) <= most
        return len(self.x) <= QUICK_SPARSE

    def shown_data(self) -> tuple[dict[str, Any], list[str]]:
        """Return the arguments of `fit` for a report, of a table on disk the rows to draw, and notes about them."""
        if "y" in self.data or "groups" in self.data:
            return self.data, self.notes
        assert self.x is not None
        note = f"Ranges, data and checks on this page are from {len(self.x):,} of the {len(self.data['X']):,} rows."
        sampled = len(self.x) < len(self.data["X"])
        return {"X": self.x, "y": self.z_of_rows}, [*self.notes, *([note] if sampled else [])]


def prepare(request: Request) -> Job:
    """Read and check the tables, and choose the estimator."""
    _check(request)
    if request.sparse and all(map(_is_parquet, request.tables)):
        return _sparse_on_disk(request)
    request = request.with_plain_names()
    tables = [read_table(path) for path in request.tables]
    needed = [[*request.x, request.z]] if request.sparse else [[*request.x, *request.y], [*request.y, request.z]]
    for table, columns, other in zip(tables, needed, reversed(tables), strict=True):
        table.check_columns(columns, other)
        table.check_length(LEAST, "fitting")
    for option, column in request.facts.columns.items():
        _check_fact_column(option, column, request, tables[-1])
    if request.sparse:
        return _sparse(request, tables[0])
    return (_aggregate if request.aggregate else _task_transformed)(request, *tables)


@contextlib.contextmanager
def workers_for(request: Request) -> Iterator[Any]:
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


def _check(request: Request) -> None:
    if request.aggregate and request.sparse:
        raise ArgumentError("--sparse", "--aggregate and --sparse exclude each other. Choose one.")
    _check_number_of_tables(request)
    _check_options(request)
    _check_facts(request)
    repeated = {*request.x} & {*request.y, request.z}
    if repeated:
        raise ArgumentError(
            "--x", f"column {sorted(repeated)[0]!r} is named as x and again as y or z. Name each column once."
        )


def _check_number_of_tables(request: Request) -> None:
    needed, given = (1 if request.sparse else 2), len(request.tables)
    if given == needed:
        return
    if not request.sparse:
        kind = "two tables are needed, PAIRS and TASK"
        if given == 1:
            raise ArgumentError(
                "TASK", f"{kind}, but one was given. If x and z stand together in this one, add --sparse."
            )
        raise ArgumentError("TASK", f"{kind}, but {given} were given. See decond fit --help.")
    texts = [str(path) for path in request.tables if not _is_parquet(path)]
    if texts:
        raise ArgumentError(
            "PAIRS",
            f"--sparse takes one table, but {given} were given. Several files are read as one table if all of them "
            f"are Parquet; {texts[0]} is not.",
        )


def _is_parquet(path: Path) -> bool:
    """Tell whether a path stands for Parquet files: by its suffix, or as a folder or pattern."""
    return (
        path.suffix.lower() in (".parquet", ".pq") or path.is_dir() or (not path.suffix and glob.has_magic(str(path)))
    )


def _check_options(request: Request) -> None:
    """Raise if an option is missing, or has no meaning beside the others."""
    if not request.sparse and not request.y:
        raise ArgumentError("--y", "name the mediator that both tables share: --y COLUMN.")
    if request.aggregate and len(request.y) > 1:
        raise ArgumentError("--y", f"--aggregate takes one column of groups, but --y names {', '.join(request.y)}.")
    if request.sparse:
        idle = {"--y": request.y, "--labels": request.labels, "--uncertainty": request.uncertainty}
    else:
        idle = {
            "--inducing": request.inducing,
            "--max-iterations": request.max_iterations,
            "--workers": request.workers,
            "--cluster": request.cluster,
        }
    if request.workers is not None and request.cluster is not None:
        raise ArgumentError(
            "--cluster",
            "--workers and --cluster exclude each other: workers on this machine, or those of a cluster.",
        )
    for option, value in idle.items():
        if value not in (None, False, []):
            raise ArgumentError(
                option, f"{option} has no meaning {'with' if request.sparse else 'without'} --sparse; leave it out."
            )


def _check_facts(request: Request) -> None:
    """Raise if the facts contradict each other or the kind of data."""
    facts = request.facts
    if request.sparse and facts.options():
        option = next(iter(facts.options()))
        raise ArgumentError(option, f"{option} is about targets of two tables; leave it out with --sparse.")
    if request.aggregate and facts.targets is not None:
        raise ArgumentError(
            "--targets",
            "with --aggregate all targets are means of groups; leave out --targets, or --aggregate.",
        )
    if facts.targets == "single" and request.uncertainty == "plain":
        raise ArgumentError(
            "--targets",
            "--targets single needs honest error bars; leave out --uncertainty plain.",
        )
    if facts.drift is not None and facts.targets != "single":
        raise ArgumentError("--drift", "--drift is used with --targets single only; add that, or leave out --drift.")
    if facts.drift is not None and not math.isfinite(facts.drift):
        raise ArgumentError("--drift", f"--drift is {facts.drift}. Give a number from 0 on, such as 0.1 for 10 %.")
    if facts.targets == "single" and facts.group_sizes is not None:
        raise ArgumentError(
            "--group-sizes", "--group-sizes is about targets that are means; leave it out with --targets single."
        )
    if facts.size is not None and not facts.size >= 1.0:
        raise ArgumentError("--group-sizes", f"--group-sizes is {facts.group_sizes!r}. {GROUP_SIZES}")


def _check_fact_column(option: str, column: str, request: Request, task: Table) -> None:
    """Raise unless the second table has a column with facts, which is not named for something else."""
    if column in (*request.y, request.z):
        raise ArgumentError(option, f"{option} names {column!r}, which is a column of y or z. Name another column.")
    if column not in task.frame.columns:
        accepted = GROUP_SIZES if option == "--group-sizes" else "Give a column of the second table."
        names = ", ".join(map(str, task.frame.columns))
        raise ArgumentError(
            option, f"{option} is {column!r}, but {task.name} has no such column. {accepted} It has {names}."
        )


def _task_transformed(request: Request, pairs: Table, task: Table) -> Job:
    from decond.estimators import TaskTransformedGP

    found = match_mediators(pairs, task, request.y, request.labels)
    if request.facts.group_sizes is not None and not _is_about_groups(request, found):
        raise ArgumentError(
            "--group-sizes",
            "--group-sizes is about groups: it needs --aggregate, or a --y of labels with honest error bars. If the "
            "numbers in --y are names, add --labels.",
        )
    x = pairs.numbers(request.x)[found.used].reset_index(drop=True)
    z = task.numbers([request.z])[request.z].to_numpy()[found.used_task]
    data = {"x": x, "y": found.y[found.used], "y_task": found.y_task[found.used_task], "z_task": z}
    data |= _group_sizes(request, found, pairs, task)
    data |= {name: errors.to_numpy() for name, errors in _standard_errors(request, found, task).items()}
    estimator = TaskTransformedGP(**request.parameters())
    notes, warnings = _about_rows(found, pairs, task)
    warnings += [*_few(len(z)), *_like_labels(found.y)]
    if found.remarks and len(request.y) == 1:
        notes += _like_groups(found.y.iloc[:, 0][found.used], found.y_task.iloc[:, 0][found.used_task])
    return Job(request, f"{len(x)} pairs and {len(z)} task rows", estimator, data, x, None, notes, warnings)


def _aggregate(request: Request, rows: Table, groups: Table) -> Job:
    from decond.estimators import AggregateGP

    found, column = match_groups(rows, groups, request.y[0]), request.y[0]
    x = rows.numbers(request.x)[found.used].reset_index(drop=True)
    z = groups.numbers([request.z])[request.z].set_axis(found.y_task[column])[found.used_task]
    if len(z) < LEAST:
        raise TableError(
            f"only one {column!r} is in both tables; fitting needs at least {LEAST}.", column=column, count=len(z)
        )
    data = {"x": x, "groups": found.y[column][found.used], "z_groups": z}
    data |= _group_sizes(request, found, rows, groups)
    data |= {name: errors.set_axis(z.index) for name, errors in _standard_errors(request, found, groups).items()}
    estimator = AggregateGP(**request.parameters())
    notes, warnings = _about_rows(found, rows, groups)
    warnings += _few(len(z))
    return Job(request, f"{len(x)} rows in {len(z)} groups", estimator, data, x, None, notes, warnings)


def _is_about_groups(request: Request, found: Mediators) -> bool:
    return request.uncertainty != "plain" and found.y.select_dtypes("number").empty


def _group_sizes(request: Request, found: Mediators, rows: Table, groups: Table) -> dict[str, Any]:
    """Return the sizes of the groups as an argument of `fit`; raise if one is smaller than what is listed of it."""
    size, column = request.facts.size, request.facts.columns.get("--group-sizes")
    if size is None and column is None:
        return {}
    listed = Counter(_labels(found.y[found.used]))
    sizes: dict[Any, Any] = dict.fromkeys(listed, size)
    if column is not None:
        given = groups.numbers([column])[column].to_numpy()[found.used_task]
        for label, value in zip(_labels(found.y_task[found.used_task]), given, strict=True):
            if sizes[label] not in (None, value):
                raise ArgumentError(
                    "--group-sizes",
                    f"{groups.name} has two sizes for {label!r} in {column!r}: {sizes[label]:g} and {value:g}. Give "
                    "each group one size.",
                )
            sizes[label] = value
    small = next((label for label, value in sizes.items() if value is not None and value < listed[label]), None)
    if small is not None:
        raise ArgumentError(
            "--group-sizes",
            f"--group-sizes says that {small!r} has {sizes[small]:g} rows, but {rows.name} lists {listed[small]}. "
            "Count all rows of a group, listed or not; leave the option out if all are listed.",
        )
    return {"group_sizes": sizes if size is None else size}


def _labels(y: "pd.DataFrame") -> list[Any]:
    """Return the label of each row; a tuple where there are several columns."""
    return y.iloc[:, 0].tolist() if y.shape[1] == 1 else list(y.itertuples(index=False, name=None))


def _standard_errors(request: Request, found: Mediators, task: Table) -> "dict[str, pd.Series]":
    """Return the standard errors of the targets as an argument of `fit`; raise if one is negative."""
    column = request.facts.z_std
    if column is None:
        return {}
    errors = task.numbers([column])[column][found.used_task]
    if (errors < 0.0).any():
        raise ArgumentError(
            "--z-std",
            f"column {column!r} of {task.name} has values down to {errors.min():g}; standard errors are never "
            "negative. Correct them, or name another column with --z-std.",
        )
    return {"z_std": errors}


def _about_rows(found: Mediators, *tables: Table) -> tuple[list[str], list[str]]:
    """Return notes about how tables were read, and notes or, if they are many, warnings about rows left out."""
    read = [note for table in tables for note in table.notes] + list(found.remarks)
    many = any(np.mean(~used) > MANY for used in (found.used, found.used_task))
    return (read, list(found.notes)) if many else (read + list(found.notes), [])


def _few(targets: int) -> list[str]:
    if targets >= FEW:
        return []
    return [f"there are only {targets} targets: from fewer than {FEW}, what is learned is little more than a guess."]


def _like_labels(y: "pd.DataFrame") -> list[str]:
    """Return a warning if numbers of the mediator look like names: whole, few, and each in several rows."""
    if y.shape[1] > 1 or y.iloc[:, 0].dtype.kind not in "iuf":
        return []
    counts = y.iloc[:, 0].value_counts()
    whole = bool(np.all(np.mod(counts.index.to_numpy(), 1) == 0))
    if not whole or counts.min() < 2 or 3 * len(counts) > len(y):
        return []
    seen = f"{len(counts)} whole numbers, each in about {counts.median():.0f} rows"
    return [
        f"{y.columns[0]!r} looks like a label ({seen}) and is taken as a number. "
        "If it is a name, add --labels; if z is the mean of its rows, --aggregate."
    ]


def _like_groups(y: "pd.Series", y_task: "pd.Series") -> list[str]:
    """Return a note if dates look like groups: one target for each, and several rows."""
    counts = y.value_counts()
    if y_task.duplicated().any() or counts.median() < 2:
        return []
    seen = f"{y.name!r} has one target for each date, and about {counts.median():.0f} rows"
    return [f"{seen}: if the target is the mean over these rows, add --aggregate."]


def _sparse(request: Request, table: Table) -> Job:
    from decond.estimators import SparseGP

    x, z = table.numbers(request.x), table.numbers([request.z])[request.z].to_numpy()
    estimator = SparseGP(**request.parameters())
    words = f"{len(table)} rows"
    notes = list(table.notes)
    return Job(request, words, estimator, {"X": x, "y": z}, x, z_of_rows=z, notes=notes, warnings=_few(len(table)))


def _sparse_on_disk(request: Request) -> Job:
    from decond.estimators import SparseGP
    from decond.streaming import ParquetTable

    request = _called_as_on_disk(request)
    table = ParquetTable(request.tables, request.x, request.z)
    if len(table) < LEAST:
        raise TableError(
            f"{table.files[0]} has {len(table)} row; fitting needs at least {LEAST}.",
            table=Path(table.files[0]).name,
            count=len(table),
        )
    files = f" in {len(table.files)} files" if len(table.files) > 1 else ""
    words, estimator = f"{len(table)} rows{files}", SparseGP(**request.parameters())
    return Job(request, words, estimator, {"X": table}, warnings=_few(len(table)))


def _called_as_on_disk(request: Request) -> Request:
    """Return it with the columns of Parquet files as these call them, whose accents may be signs of their own."""
    from decond.streaming.parquet import import_pyarrow, parquet_files

    pyarrow = import_pyarrow()
    names: dict[str, str] = {}
    with contextlib.suppress(pyarrow.ArrowException, OSError, ValueError):  # what cannot be read is refused later
        names = {as_name(name): name for name in pyarrow.parquet.read_schema(parquet_files(request.tables)[0]).names}
    x = [names.get(as_name(name), name) for name in request.x]
    return replace(request, x=x, z=names.get(as_name(request.z), request.z))
