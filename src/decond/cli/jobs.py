"""From the options of `decond fit` to an estimator and its checked data, before anything is fitted."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decond.tables import Table, TableError, match_groups, match_mediators, read_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Job", "Request", "prepare"]

LEAST = 2
"""Rows without which nothing can be learned."""


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
    seed: int = 0

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the estimator that were asked for; the others keep its defaults."""
        given = {"n_inducing": self.inducing, "uncertainty": self.uncertainty, "n_restarts": self.restarts}
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
    x: "pd.DataFrame"
    z_of_rows: Any = None
    """Targets of the rows of x, where there are any."""
    notes: list[str] = field(default_factory=list)


def prepare(request: Request) -> Job:
    """Read and check the tables, and choose the estimator."""
    _check(request)
    tables = [read_table(path) for path in request.tables]
    needed = [[*request.x, request.z]] if request.sparse else [[*request.x, *request.y], [*request.y, request.z]]
    for table, columns in zip(tables, needed, strict=True):
        table.check_columns(columns)
        table.check_length(LEAST, "fitting")
    if request.sparse:
        return _sparse(request, tables[0])
    return (_aggregate if request.aggregate else _task_transformed)(request, *tables)


def _check(request: Request) -> None:
    if request.aggregate and request.sparse:
        raise TableError("--aggregate and --sparse exclude each other. Choose one.")
    needed, given = (1 if request.sparse else 2), len(request.tables)
    if given != needed:
        kind = "--sparse takes one table" if request.sparse else "two tables are needed, PAIRS and TASK"
        raise TableError(f"{kind}, but {given} {'was' if given == 1 else 'were'} given. See decond fit --help.")
    _check_options(request)
    repeated = {*request.x} & {*request.y, request.z}
    if repeated:
        raise TableError(f"column {sorted(repeated)[0]!r} is named as x and again as y or z. Name each column once.")


def _check_options(request: Request) -> None:
    """Raise if an option is missing, or has no meaning beside the others."""
    if not request.sparse and not request.y:
        raise TableError("name the mediator that both tables share: --y COLUMN.")
    if request.aggregate and len(request.y) > 1:
        raise TableError(f"--aggregate takes one column of groups, but --y names {', '.join(request.y)}.")
    if request.sparse:
        idle = {"--y": request.y, "--labels": request.labels, "--uncertainty": request.uncertainty}
    else:
        idle = {"--inducing": request.inducing}
    for option, value in idle.items():
        if value:
            raise TableError(
                f"{option} has no meaning {'with' if request.sparse else 'without'} --sparse; leave it out."
            )


def _task_transformed(request: Request, pairs: Table, task: Table) -> Job:
    from decond.estimators import TaskTransformedGP

    found = match_mediators(pairs, task, request.y, request.labels)
    x = pairs.numbers(request.x)[found.used].reset_index(drop=True)
    z = task.numbers([request.z])[request.z].to_numpy()[found.used_task]
    data = {"x": x, "y": found.y[found.used], "y_task": found.y_task[found.used_task], "z_task": z}
    estimator = TaskTransformedGP(**request.parameters())
    return Job(request, f"{len(x)} pairs and {len(z)} task rows", estimator, data, x, notes=found.notes)


def _aggregate(request: Request, rows: Table, groups: Table) -> Job:
    from decond.estimators import AggregateGP

    found, column = match_groups(rows, groups, request.y[0]), request.y[0]
    x = rows.numbers(request.x)[found.used].reset_index(drop=True)
    z = groups.numbers([request.z])[request.z].set_axis(found.y_task[column])[found.used_task]
    if len(z) < LEAST:
        raise TableError(f"only one {column!r} is in both tables; fitting needs at least {LEAST}.")
    data = {"x": x, "groups": found.y[column].to_numpy()[found.used], "z_groups": z}
    estimator = AggregateGP(**request.parameters())
    return Job(request, f"{len(x)} rows in {len(z)} groups", estimator, data, x, notes=found.notes)


def _sparse(request: Request, table: Table) -> Job:
    from decond.estimators import SparseGP

    x, z = table.numbers(request.x), table.numbers([request.z])[request.z].to_numpy()
    estimator = SparseGP(**request.parameters())
    return Job(request, f"{len(table)} rows", estimator, {"X": x, "y": z}, x, z_of_rows=z)
