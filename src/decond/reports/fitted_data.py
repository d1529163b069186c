"""What a model was fitted on, in one form for all estimators: columns, targets, mediators, groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from decond.errors import ArgumentError
from decond.notebook import number

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FittedData", "facts_in_words", "fitted_data"]

INPUTS = ("x", "X", "treatment")
TARGETS = ("z_groups", "z_task", "outcome", "z", "y")
"""Arguments of `fit` that hold rows of x, and those that hold targets; the first that is there counts."""


@dataclass(frozen=True)
class FittedData:
    """Rows and targets with their names. `kind` is "groups", "pairs", "weights" or "rows"."""

    kind: str
    x: "pd.DataFrame"
    z: np.ndarray
    target: str
    mediator: "pd.DataFrame | None" = None
    """The mediator of the rows of x, or their groups as one column."""
    mediator_task: "pd.DataFrame | None" = None
    """The mediator of the targets, or the group of each, in their order."""
    n_rows: int = 0
    """Rows that were read; x may be a sample of them."""
    facts: Sequence[str] = ()
    """What the targets were taken for, in sentences."""

    @property
    def words(self) -> str:
        """What the data are, in a few words."""
        rows, targets = f"{self.n_rows:,}", f"{len(self.z):,}"
        return {
            "groups": f"{rows} rows in {targets} groups with one target each",
            "pairs": f"{rows} pairs and {targets} task rows",
            "weights": f"{rows} rows and {targets} targets that are weighted sums over them",
            "rows": f"{rows} rows with a target each",
        }[self.kind]

    def columns(self) -> list[dict[str, str]]:
        """Return a line for each column: its name, part, rows, and range or number of labels."""
        lines = [_line(name, "input x", self.x[name], self.n_rows) for name in self.x]
        roles = ("group of the rows", "group of the targets") if self.kind == "groups" else MEDIATOR_ROLES
        for frame, role in zip((self.mediator, self.mediator_task), roles, strict=True):
            lines += [] if frame is None else [_line(name, role, frame[name], len(frame)) for name in frame]
        count = self.n_rows if self.kind == "rows" else len(self.z)
        return [*lines, _line(self.target, "target z", _frame(self.z, "z").iloc[:, 0], count)]

    def groups(self) -> str:
        """Return how many rows the groups have, in words; empty where there are none."""
        if self.kind != "groups" or self.mediator is None:
            return ""
        counts = self.mediator.iloc[:, 0].value_counts()
        low, middle, high = int(counts.min()), float(counts.median()), int(counts.max())
        if low == high:
            return f"Each of {len(counts):,} groups has {low:,} listed row{'s' if low > 1 else ''}."
        return f"{len(counts):,} groups have {low:,} to {high:,} listed rows; the median is {number(middle)}."


MEDIATOR_ROLES = ("mediator y of the pairs", "mediator y of the task")


def fitted_data(estimator: Any, data: Mapping[str, Any], target: str | None = None) -> FittedData:
    """Return the data of a fit from the arguments of `fit` by name.

    >>> from decond.estimators import DirectGP
    >>> x, y = [[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0]
    >>> fitted_data(DirectGP(optimize=False).fit(x, y), {"X": x, "y": y}, "power").words
    '3 rows with a target each'
    """
    first = next((data[name] for name in INPUTS if name in data), None)
    name = next((name for name in TARGETS if data.get(name) is not None), None)
    if first is None or name is None:
        raise ArgumentError(
            "data",
            f"data has {', '.join(map(repr, data)) or 'nothing'}; give the arguments of fit by name, for example "
            '{"x": x, "groups": groups, "z_groups": z}.',
        )
    x = _frame(first, "x", getattr(estimator, "feature_names_in_", None))
    z, called = _targets(data[name], f"data[{name!r}]")
    kind, mediator, mediator_task = _linked(data)
    _check_lengths(data, kind, x, z, mediator, mediator_task)
    seen = getattr(getattr(getattr(estimator, "posterior_", None), "statistics", None), "count", None)
    rows = len(x) if seen is None or kind != "rows" else int(seen)
    facts = facts_in_words(estimator, data)
    return FittedData(kind, x, z, target or called or "z", mediator, mediator_task, rows, facts)


def facts_in_words(estimator: Any, data: Mapping[str, Any]) -> list[str]:
    """Return what a fit took the targets for, in sentences: what the user said, or the default.

    >>> from decond.estimators import AggregateGP
    >>> facts_in_words(AggregateGP(), {"groups": ["a", "a"], "group_sizes": 24})
    ['Each target is taken as the mean over a group of 24 rows, of which the listed ones are a random sample.']
    """
    targets = getattr(estimator, "targets", None)
    said = []
    if "groups" in data or (targets == "mean" and "y" in data and _is_labels(data["y"])):
        said.append(_about_sizes(data.get("group_sizes")))
    elif targets is not None and "y" in data:
        said.append(TARGET_WORDS[targets])
    if getattr(estimator, "drift", 0.0):
        said.append(f"E[x | y] may be stretched by about ± {100.0 * estimator.drift:.3g} % between the tables.")
    if data.get("z_std") is not None:
        errors = _values(data["z_std"])
        said.append(f"Known standard errors of targets are used ({_span(errors)}); the learned noise is in addition.")
    return said


TARGET_WORDS = {
    "mean": "Each target is taken as a mean over all x that go with its y.",
    "single": "Each target is taken as one measurement, at one x that was not recorded.",
}


def _about_sizes(sizes: Any) -> str:
    if sizes is None:
        return "Each target is taken as the mean over the listed rows of its group: all of its rows are listed."
    values = _values(sizes)
    count = "very many" if np.isinf(values).all() else _span(values)
    group = f"a group of {count} rows, of which the listed ones are a random sample"
    return f"Each target is taken as the mean over {group}."


def _span(values: np.ndarray) -> str:
    """Return the range of numbers in words; one number if all are equal."""
    low, high = float(np.min(values)), float(np.max(values))
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def _values(given: Any) -> np.ndarray:
    """Return numbers that are given as one, as an array or by label."""
    return np.asarray(list(given.values()) if isinstance(given, Mapping) else given, dtype=np.float64)


def _is_labels(y: Any) -> bool:
    return all(column.dtype.kind not in "biuf" for _, column in _frame(y, "y").items())


def _check_lengths(
    data: Mapping[str, Any],
    kind: str,
    x: "pd.DataFrame",
    z: np.ndarray,
    mediator: "pd.DataFrame | None",
    mediator_task: "pd.DataFrame | None",
) -> None:
    """Raise if parts of the data that belong together are not equally long."""
    called, target = (next(name for name in names if data.get(name) is not None) for names in (INPUTS, TARGETS))
    pairs: list[tuple[str, int, str, int]] = []
    if kind == "rows":
        pairs = [(called, len(x), target, len(z))]
    elif kind == "weights" and np.ndim(data["transformation"]) == 2:
        rows, columns = np.shape(data["transformation"])
        pairs = [(called, len(x), "transformation", rows), ("the columns of transformation", columns, target, len(z))]
    elif mediator is not None and mediator_task is not None:
        first, second = _mediators(data)
        pairs = [(called, len(x), first, len(mediator)), (second, len(mediator_task), target, len(z))]
    for one, count, other, there in pairs:
        if count != there:
            raise ArgumentError(
                f"data[{other!r}]",
                f"{one} has length {count:,} and {other} has {there:,}, but they belong together row by row. Give "
                "the same data that the model was fitted on.",
            )


def _mediators(data: Mapping[str, Any]) -> tuple[str, str]:
    """Return what the mediators of rows and of targets are called among the arguments."""
    if "groups" in data:
        return "groups", "the distinct groups"
    if "y_task" in data:
        return "y", "y_task"
    return "instrument", "instrument" if data.get("instrument_of_outcome") is None else "instrument_of_outcome"


def _linked(data: Mapping[str, Any]) -> "tuple[str, pd.DataFrame | None, pd.DataFrame | None]":
    """Return the kind of data, and the mediator of rows and targets."""
    if "groups" in data:
        groups = _frame(data["groups"], "group")
        labels = _group_labels(data["groups"], data["z_groups"])
        return "groups", groups, _frame(labels, str(groups.columns[0]))
    if "y_task" in data:
        return "pairs", _frame(data["y"], "y"), _frame(data["y_task"], "y")
    if "instrument" in data:
        task = data.get("instrument_of_outcome")
        first = _frame(data["instrument"], "instrument")
        return "pairs", first, first if task is None else _frame(task, "instrument")
    return ("weights" if "transformation" in data else "rows"), None, None


def _group_labels(groups: Any, z: Any) -> np.ndarray:
    """Return the group of each target: labels of a Series or dict, or the distinct groups in order."""
    if isinstance(z, Mapping):
        return np.array(list(z))
    return z.index.to_numpy() if hasattr(z, "index") and hasattr(z, "to_numpy") else np.unique(np.asarray(groups))


def _targets(z: Any, name: str) -> tuple[np.ndarray, str | None]:
    """Return targets as one column, and their name where they have one."""
    values = np.asarray(list(z.values()) if isinstance(z, Mapping) else z, dtype=np.float64)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ArgumentError(
            name,
            f"the targets have shape {values.shape}; a report shows one target. Fit a model for each column, and "
            "write a report of each.",
        )
    columns = getattr(z, "columns", None)
    called = getattr(z, "name", None) if columns is None else columns[0]
    return values, None if called is None else str(called)


def _frame(table: Any, name: str, names: Any = None) -> "pd.DataFrame":
    """Return a table as a data frame; columns without names are called `name`, numbered if several."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return table.set_axis([str(column) for column in table.columns], axis=1).reset_index(drop=True)
    called = getattr(table, "name", None)
    values = np.asarray(table)
    values = values[:, None] if values.ndim == 1 else values
    if names is None:
        names = [name if called is None else called]
        names = names if values.shape[1] == 1 else [f"{name}{j + 1}" for j in range(values.shape[1])]
    return pd.DataFrame(values, columns=[str(column) for column in names]).infer_objects()


def _line(name: str, role: str, column: "pd.Series", rows: int) -> dict[str, str]:
    """Return one line of the table of columns."""
    line = {"name": name, "role": role, "rows": f"{rows:,}"}
    if column.dtype.kind not in "biuf" or role.startswith("group"):
        return {**line, "range": f"{column.nunique():,} labels", "middle": ""}
    low, middle, high = (float(value) for value in (column.min(), column.median(), column.max()))
    shown = [number(value, span=high - low) for value in (low, middle, high)]
    return {**line, "range": f"{shown[0]} to {shown[2]}", "middle": shown[1]}
