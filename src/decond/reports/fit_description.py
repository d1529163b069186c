"""What a fit is, in words: its data in one form for all estimators, the facts, and what was learned."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from decond.checks import as_labels, check_same_length
from decond.errors import ArgumentError
from decond.kernels import Categorical, Columns, Linear, Polynomial, White
from decond.messages import number

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FittedData",
    "Hyperparameter",
    "candidate_weights",
    "facts_in_words",
    "fitted_data",
    "hyperparameters",
    "numeric_columns",
]


@dataclass(frozen=True)
class FittedData:
    """Rows and targets with their names."""

    kind: Literal["groups", "pairs", "weights", "rows"]
    x: "pd.DataFrame"
    z: NDArray[np.float64]
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

    @property
    def has_numeric_mediator(self) -> bool:
        """Whether the mediator has a column of numbers; groups are labels."""
        return self.kind == "pairs" and self.mediator is not None and bool(numeric_columns(self.mediator))

    def columns(self) -> Iterator[dict[str, str]]:
        """Yield a line for each column: its name, role, rows, and range or number of labels."""
        roles = ("group of the rows", "group of the targets")
        if self.kind != "groups":
            roles = ("mediator y of the pairs", "mediator y of the task")
        for name, column in self.x.items():
            yield _line(str(name), "input x", column, self.n_rows)
        for frame, role in zip((self.mediator, self.mediator_task), roles, strict=True):
            for name, column in () if frame is None else frame.items():
                yield _line(str(name), role, column, len(column))
        yield _line(
            self.target, "target z", _frame(self.z, "z")["z"], self.n_rows if self.kind == "rows" else len(self.z)
        )

    def groups(self) -> str:
        """Return how many rows the groups have, in words; empty where there are none."""
        if self.kind != "groups" or self.mediator is None:
            return ""
        counts = self.mediator.value_counts()
        return (
            f"{len(counts):,} groups have {_range(counts)} listed rows each; the median is {number(counts.median())}."
        )


def fitted_data(estimator: BaseEstimator, data: Mapping[str, Any], target: str | None = None) -> FittedData:
    """Return the data of a fit from the arguments of `fit` by name.

    Parameters
    ----------
    estimator : fitted estimator
    data : mapping of str to array_like
        The arguments that `fit` was called with, by name.
    target : str, optional
        What z is called.

    Returns
    -------
    FittedData

    Examples
    --------
    >>> from decond.estimators import DirectGP
    >>> x, y = [[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0]
    >>> fitted_data(DirectGP(optimize=False).fit(x, y), {"X": x, "y": y}, "power").words
    '3 rows with a target each'
    """
    first = next((name for name in ("x", "X", "treatment") if name in data), None)
    targets = ("z_groups", "z_task", "outcome", "z", "y")  # y is a target of ordinary regressors only
    name = next((name for name in targets if data.get(name) is not None), None)
    if first is None or name is None:
        raise ArgumentError(
            "data",
            f"data has {', '.join(map(repr, data)) or 'nothing'}; give the arguments of fit by name, for example "
            '{"x": x, "groups": groups, "z_groups": z}.',
        )
    x = _frame(data[first], "x", getattr(estimator, "feature_names_in_", None))
    z, called = _targets(data[name], f"data[{name!r}]")
    mediator, mediator_task = _mediators(data)
    pairs: Any = "rows" if mediator is None else "pairs"
    kind: Any = "groups" if "groups" in data else "weights" if "transformation" in data else pairs
    if mediator is not None and mediator_task is not None:
        check_same_length(mediator, f"data[{'groups' if kind == 'groups' else 'y'!r}]", len(x), "x")
        check_same_length(z, f"data[{name!r}]", len(mediator_task), "the mediator of the targets")
    elif kind == "rows":
        check_same_length(z, f"data[{name!r}]", len(x), "x")
    seen = getattr(getattr(getattr(estimator, "posterior_", None), "statistics", None), "count", None)
    n_rows = len(x) if seen is None or kind != "rows" else int(seen)
    facts = facts_in_words(estimator, data)
    return FittedData(kind, x, z, target or called or "z", mediator, mediator_task, n_rows, facts)


def facts_in_words(estimator: BaseEstimator, data: Mapping[str, Any]) -> list[str]:
    """Return what a fit took the targets for, in sentences: what the user said, or the default.

    Parameters
    ----------
    estimator : fitted estimator
    data : mapping of str to array_like
        The arguments that `fit` was called with, by name.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from decond.estimators import AggregateGP
    >>> facts_in_words(AggregateGP(), {"groups": ["a", "a"], "group_sizes": 24})
    ['Each target is taken as the mean over a group of 24 rows, of which the listed ones are a random sample.']
    """
    targets, sizes = getattr(estimator, "targets", None), data.get("group_sizes")
    facts = []
    if "groups" in data or (targets == "mean" and "y" in data and not numeric_columns(_frame(data["y"], "y"))):
        group = "the listed rows of its group: all of its rows are listed"
        if sizes is not None:
            group = f"a group of {_range(sizes)} rows, of which the listed ones are a random sample"
        facts.append(f"Each target is taken as the mean over {group}.")
    elif targets is not None and "y" in data:
        kinds = {"mean": "a mean over all x that go with its y"}
        kinds["single"] = "one measurement, at one x that was not recorded"
        facts.append(f"Each target is taken as {kinds[targets]}.")
    if getattr(estimator, "drift", 0.0):
        facts.append(f"E[x | y] may be stretched by about ± {100.0 * estimator.drift:.3g} % between the tables.")
    if data.get("z_std") is not None:
        errors = _range(data["z_std"])
        facts.append(f"Known standard errors of targets are used ({errors}); the learned noise is in addition.")
    return facts


def numeric_columns(frame: "pd.DataFrame") -> list[str]:
    """Return the names of the columns that hold numbers."""
    return [str(name) for name, column in frame.items() if column.dtype.kind in "biuf"]


def _range(values: ArrayLike | Mapping[Any, float]) -> str:
    """Return the range of numbers, given as one, as an array or by label, in words."""
    found = np.asarray(list(values.values()) if isinstance(values, Mapping) else values, dtype=np.float64)
    low, high = float(np.min(found)), float(np.max(found))
    if np.isinf(low):
        return "very many"
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def _mediators(data: Mapping[str, Any]) -> "tuple[pd.DataFrame | None, pd.DataFrame | None]":
    """Return the mediator of rows and of targets."""
    if "groups" in data:
        groups, z = _frame(data["groups"], "group"), data["z_groups"]
        name, count = ", ".join(groups.columns), len(groups)
        of_rows = as_labels(data["groups"], "groups", count, "x")
        index = list(z) if isinstance(z, Mapping) else getattr(z, "index", None)
        if index is None:
            labels = np.unique(of_rows)
        else:
            known = np.empty(len(index), dtype=object)
            known[:] = list(index)
            labels = as_labels(known, "the labels of z_groups", len(index), "z_groups")
        return _frame(of_rows, name), _frame(labels, name)
    first, second = (data.get("y"), data["y_task"]) if "y_task" in data else (data.get("instrument"), None)
    if first is None:
        return None, None
    second = data.get("instrument_of_outcome") if second is None else second
    name = "y" if "y_task" in data else "instrument"
    return _frame(first, name), _frame(first if second is None else second, name)


def _targets(z: ArrayLike | Mapping[Any, float], name: str) -> tuple[NDArray[np.float64], str | None]:
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


def _frame(table: ArrayLike, name: str, names: Sequence[str] | None = None) -> "pd.DataFrame":
    """Return a table as a data frame; columns without names are called `name`, numbered if several."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return table.set_axis([str(column) for column in table.columns], axis=1).reset_index(drop=True)
    values = np.asarray(table)
    values = values[:, None] if values.ndim == 1 else values
    called = getattr(table, "name", None)
    several = [f"{name}{j + 1}" for j in range(values.shape[1])]
    plain = [name if called is None else called] if values.shape[1] == 1 else several
    return pd.DataFrame(
        values, columns=[str(column) for column in (plain if names is None else names)]
    ).infer_objects()


def _line(name: str, role: str, column: "pd.Series", rows: int) -> dict[str, str]:
    """Return one line of the table of columns."""
    line = {"name": name, "role": role, "rows": f"{rows:,}"}
    if column.dtype.kind not in "biuf" or role.startswith("group"):
        return {**line, "range": f"{column.nunique():,} labels", "middle": ""}
    low, middle, high = (float(value) for value in (column.min(), column.median(), column.max()))
    shown = [number(value, span=high - low) for value in (low, middle, high)]
    return {**line, "range": f"{shown[0]} to {shown[2]}", "middle": shown[1]}


# ---- what was learned ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hyperparameter:
    """One learned number: its name, its value in the user's units, and a 95 % range if it was sampled."""

    name: str
    value: float
    unit: str = ""
    range: tuple[float, float] | None = None


def candidate_weights(estimator: BaseEstimator) -> dict[str, float]:
    """Return the weights of the candidate models by name, the largest first; of estimators without them, none.

    >>> from decond.estimators import AggregateGP
    >>> x, groups = np.arange(12.0), np.repeat(np.arange(6), 2)
    >>> candidate_weights(AggregateGP(n_restarts=0).fit(x, groups, np.arange(6.0)))
    {'the listed rows': 1.0}
    """
    average = getattr(estimator, "average_", None)
    return {} if average is None else dict(average.table())


def hyperparameters(
    estimator: BaseEstimator, data: FittedData, units: Mapping[str, str] | None = None
) -> list[Hyperparameter]:
    """Return the learned hyperparameters that have a meaning in the user's units.

    Parameters
    ----------
    estimator : fitted estimator
    data : FittedData
        What it was fitted on, for the names of columns.
    units : mapping of str to str, optional
        Units by the name of a column or target.

    Returns
    -------
    list of Hyperparameter

    Examples
    --------
    >>> from decond.estimators import DirectGP
    >>> from decond.reports.fit_description import fitted_data
    >>> x = np.linspace(0, 10, 30)
    >>> gp = DirectGP(n_restarts=0).fit(x[:, None], np.sin(x))
    >>> found = hyperparameters(gp, fitted_data(gp, {"X": x[:, None], "y": np.sin(x)}, "power"), {"power": "kW"})
    >>> [(item.name, item.unit) for item in found][:2]
    [('smooth variation of power (sd)', 'kW'), ('linear trend of power (sd)', 'kW')]
    """
    result = getattr(estimator, "fit_result_", None)
    if result is None:
        return []
    sampled = _sampled_candidate(estimator)
    mediator = [] if data.mediator is None else data.mediator.columns
    found: list[Hyperparameter] = []
    for path, value in result.parameters.items():
        owner, _, name = path.rpartition(".")
        of_mediator = "kernel_y" in owner or "features_y" in owner
        columns = list(map(str, mediator if of_mediator else data.x.columns))
        module, columns = _placed(owner, result.model, columns)
        values = [value]
        if sampled is not None and path in sampled.values[0]:
            draws = np.array([draw[path] for draw in sampled.values])
            values += list(np.quantile(draws, [0.025, 0.975], axis=0, weights=sampled.weights, method="inverted_cdf"))
        for one, *ends in zip(
            *(_named(name, at, module, columns, data.target, units or {}) for at in values), strict=True
        ):
            found.append(replace(one, range=(ends[0].value, ends[1].value)) if ends else one)
    return _numbered(found)


def _sampled_candidate(estimator: BaseEstimator) -> Any:
    """Return the heaviest candidate of an estimator, if its hyperparameters were sampled; otherwise None."""
    average = getattr(estimator, "average_", None)
    if average is None:
        return None
    candidate = average.candidates[int(np.argmax(average.weights))]
    return candidate if len(candidate.values) >= 40 else None  # 2.5 % of fewer draws is less than one


def _numbered(found: list[Hyperparameter]) -> list[Hyperparameter]:
    """Return each number once (tied ones are there twice); those that share a name are numbered as parts."""
    distinct = list(dict.fromkeys(found))
    often, seen = Counter(item.name for item in distinct), Counter[str]()
    numbered = []
    for item in distinct:
        seen[item.name] += 1
        part = f"{item.name}, part {seen[item.name]}"
        numbered.append(item if often[item.name] == 1 else replace(item, name=part))
    return numbered


def _placed(owner: str, module: Any, columns: list[str]) -> tuple[object, list[str]]:
    """Return the module at a path such as "prior.kernel.parts.0", and the columns that it sees."""
    for step in [*owner.split("."), ""]:
        if isinstance(module, Columns):
            columns = [columns[j] for j in module.columns if j < len(columns)]
        if step:
            module = module[int(step)] if step.isdigit() else getattr(module, step, None)
    return module, columns


def _named(
    name: str, value: ArrayLike, module: object, columns: Sequence[str], target: str, units: Mapping[str, str]
) -> list[Hyperparameter]:
    """Return one parameter by name: a lengthscale for each column, deviations instead of variances."""
    if name == "lengthscale":
        values = np.broadcast_to(value, len(columns)) if np.size(value) in (1, len(columns)) else np.empty(0)
        ending = " in the trend" if isinstance(module, Linear | Polynomial) else ""
        return [
            Hyperparameter(f"lengthscale of {column}{ending}", float(each), units.get(column, ""))
            for column, each in zip(columns, values, strict=False)
        ]
    noises = {
        "noise": "noise",
        "individual_noise": "noise in a single row",
        "mediator_noise": "noise of the mediator",
    }
    words = _part(module) if name == "variance" else noises.get(name)
    if words is None:
        return []
    deviation = np.sqrt(value) if name == "variance" else np.asarray(value)
    return [Hyperparameter(f"{words} of {target} (sd)", float(deviation), units.get(target, ""))]


def _part(scaled: object) -> str:
    """Return what a scaled kernel contributes to the function, in words."""
    if isinstance(scaled, White):
        return "scatter of single rows"
    inner = getattr(scaled, "kernel", None)
    inner = inner.kernel if isinstance(inner, Columns) else inner
    if isinstance(inner, Linear):
        return "linear trend"
    return "effect of the labels" if isinstance(inner, Categorical) else "smooth variation"
