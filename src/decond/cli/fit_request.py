"""From the options of `decond fit` to an estimator and its checked data, before anything is fitted."""

import contextlib
import glob
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from decond.errors import ArgumentError
from decond.tables import Mediators, Table, TableError, TextFormat, match_groups, match_mediators, read_table

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

    from decond.estimators import AggregateGP, SparseGP, TaskTransformedGP

__all__ = ["FitJob", "FitRequest", "prepare", "workers_for"]

CHECKED_SIZE = 150_000
"""Rows times targets up to which a fit is checked without being asked to: another model is fitted for that, which
takes up to half a minute at this size.
"""


@dataclass(frozen=True)
class FitRequest:
    """What the user asked for: the options of `decond fit`; None where the default of the estimator holds."""

    tables: list[Path]
    x: list[str]
    y: list[str]
    z: str
    labels: bool = False
    aggregate: bool = False
    sparse: bool = False
    targets: Literal["mean", "single"] | None = None
    drift: float | None = None
    group_sizes: str | None = None
    """A number, "inf", or the name of a column of the second table."""
    z_std: str | None = None
    """The name of a column of the second table."""
    uncertainty: Literal["honest", "plain"] | None = None
    inducing: int | None = None
    restarts: int | None = None
    max_iterations: int | None = None
    seed: int = 0
    workers: int | None = None
    cluster: str | None = None
    text_format: TextFormat | None = None

    def settings(self) -> dict[str, Any]:
        """Return the settings of the estimator that were asked for; the others keep its defaults."""
        names = {"inducing": "n_inducing", "restarts": "n_restarts"}
        options = ("seed", "uncertainty", "max_iterations", "targets", "drift", *names)
        given = {names.get(name, name): getattr(self, name) for name in options}
        return {name: value for name, value in given.items() if value is not None}

    def read(self) -> list[Table]:
        """Return the tables, with the columns that are needed."""
        tables = [read_table(path, self.text_format) for path in self.tables]
        sizes = self.group_sizes if _number(self.group_sizes) is None else None
        facts = [name for name in (sizes, self.z_std) if name is not None]
        needed = [[*self.x, *self.y], [*self.y, self.z, *facts]] if len(tables) == 2 else [[*self.x, self.z]]
        for table, columns, other in zip(tables, needed, reversed(tables), strict=True):
            table.check_columns(columns, other)
            table.check_length(2, "fitting")
        return tables


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
    _check_tables(request)
    _check_options(request)
    if request.sparse:
        return _sparse_on_disk(request) if all(map(_is_on_disk, request.tables)) else _sparse(request)
    return _aggregate(request) if request.aggregate else _task_transformed(request)


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


def _check_tables(request: FitRequest) -> None:
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


def _check_options(request: FitRequest) -> None:
    """Raise if an option is missing, or has no meaning beside the others."""
    if request.sparse:
        of_tables = ("targets", "drift", "group_sizes", "z_std", "y", "labels", "aggregate", "uncertainty")
        _refuse_idle(request, of_tables, "with --sparse")
        if request.workers is not None:
            _refuse_idle(request, ("cluster",), "with --workers")
        return
    _refuse_idle(request, ("inducing", "max_iterations", "workers", "cluster"), "without --sparse")
    if not request.y:
        raise ArgumentError("--y", "name the mediator that both tables share: --y COLUMN.")
    if request.aggregate:
        _refuse_idle(request, ("targets", "drift"), "with --aggregate")
        if len(request.y) > 1:
            raise ArgumentError("--y", f"--aggregate takes one column of groups; --y names {', '.join(request.y)}.")
    repeated = sorted({*request.x} & {*request.y, request.z})
    if repeated:
        raise ArgumentError("--x", f"column {repeated[0]!r} is named as x and as y or z. Name each column once.")


def _refuse_idle(request: FitRequest, names: tuple[str, ...], kind: str) -> None:
    for name in names:
        value = getattr(request, name)
        if value is not None and value is not False and value != []:  # zero was asked for
            option = f"--{name.replace('_', '-')}"
            raise ArgumentError(option, f"{option} has no meaning {kind}; leave one of them out.")


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


def _task_transformed(request: FitRequest) -> FitJob:
    from decond.estimators import TaskTransformedGP

    pairs, task = request.read()
    found = match_mediators(pairs, task, request.y, request.labels)
    data = {
        "x": pairs.numbers(request.x)[found.used].reset_index(drop=True),
        "y": found.y[found.used],
        "y_task": found.y_task[found.used_task],
        "z_task": task.numbers([request.z])[request.z].to_numpy()[found.used_task],
        **_facts(request, found, task),
    }
    notes = [*found.notes, *_like_labels(found.y)]
    return FitJob(TaskTransformedGP(**request.settings()), data, data["x"], None, notes)


def _aggregate(request: FitRequest) -> FitJob:
    from decond.estimators import AggregateGP

    rows, groups = request.read()
    [column] = request.y
    found = match_groups(rows, groups, column)
    labels = found.y_task[column][found.used_task]
    facts = _facts(request, found, groups)
    if "z_std" in facts:
        facts["z_std"] = facts["z_std"].set_axis(labels)
    data = {
        "x": rows.numbers(request.x)[found.used].reset_index(drop=True),
        "groups": found.y[column][found.used],
        "z_groups": groups.numbers([request.z])[request.z][found.used_task].set_axis(labels),
        **facts,
    }
    return FitJob(AggregateGP(**request.settings()), data, data["x"], None, found.notes)


def _sparse(request: FitRequest) -> FitJob:
    from decond.estimators import SparseGP

    [table] = request.read()
    x, z = table.numbers(request.x), table.numbers([request.z])[request.z].to_numpy()
    return FitJob(SparseGP(**request.settings()), {"X": x, "y": z}, x, z)


def _sparse_on_disk(request: FitRequest) -> FitJob:
    from decond.estimators import SparseGP
    from decond.streaming import ParquetTable

    table = ParquetTable(request.tables, request.x, request.z)
    if len(table) < 2:
        raise TableError(f"{table.files[0]} has {len(table)} row; fitting needs at least 2.", count=len(table))
    return FitJob(SparseGP(**request.settings()), {"X": table})


def _facts(request: FitRequest, found: Mediators, task: Table) -> dict[str, Any]:
    """Return what the user knows about the targets, as arguments of `fit`."""
    facts: dict[str, Any] = {}
    sizes, errors = request.group_sizes, request.z_std
    if sizes is not None:
        size = _number(sizes)
        facts["group_sizes"] = size if size is not None else _sizes(sizes, found, task)
    if errors is not None:
        facts["z_std"] = task.numbers([errors])[errors][found.used_task]
    return facts


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
