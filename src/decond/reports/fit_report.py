"""The report of a fit: what was learned, what it rests on, and whether to trust it."""

import inspect
import warnings as warning_filters
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from decond.errors import ArgumentError
from decond.estimators import CascadeGP, DualEmbedding, EcologicalGP, ImputeGP
from decond.linalg import NotPositiveDefiniteError
from decond.messages import number
from decond.plotting import COLORS
from decond.plotting.regression_plot import mean_and_std, rows_along
from decond.reports.fit_checks import check_fit
from decond.reports.fit_description import (
    FittedData,
    candidate_weights,
    fitted_data,
    hyperparameters,
    numeric_columns,
)
from decond.reports.report_page import Report, rendered

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FitChartSettings", "fit_report", "naive_baselines"]

Series = dict[str, Any]


@dataclass(frozen=True)
class FitChartSettings:
    """How much the charts of a fit show."""

    points: int = 161
    """Points of a curve."""
    table_step: int = 16
    """Every so many points of a curve, one is a row of the table of values."""
    most_columns: int = 12
    """Columns that are drawn at most."""
    most_dots: int = 1500
    """Targets that are drawn at most, evenly chosen."""
    most_ticks: int = 300
    """Rows that are drawn at most, evenly chosen."""
    baseline_rows: int = 1000
    """Rows of each table that baselines are fitted to at most: they must not take long."""


def fit_report(
    estimator: BaseEstimator,
    data: Mapping[str, Any],
    *,
    target: str | None = None,
    units: Mapping[str, str] | None = None,
    baselines: Mapping[str, Any] | None = None,
    lines: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
    title: str | None = None,
    command: str | None = None,
) -> Report:
    """Return a page about a fitted estimator.

    Parameters
    ----------
    estimator : fitted estimator
    data : mapping of str to array_like
        The arguments that `fit` was called with, by name; columns of data frames keep their names.
    target : str, optional
        What z is called; the name of a pandas Series is used where there is one.
    units : mapping of str to str, optional
        Units by the name of a column or target, for example {"wind": "m/s", "power": "kW"}.
    baselines : mapping of str to fitted estimator, optional
        Estimators drawn beside the function. None fits the usual ones (cascade, impute, regression on E[x | y], dual
        embedding) where there is a mediator or there are groups; an empty mapping draws none.
    lines : mapping of str to (x, z), optional
        Further curves by label: a known truth, for example. x needs a single column then.
    warnings : sequence of str
        Warnings of the fit.
    notes : sequence of str
        Further sentences to show.
    title, command : str, optional
        A heading other than "z as a function of x", and the command that repeats the fit.

    Returns
    -------
    Report

    Examples
    --------
    >>> import numpy as np
    >>> from decond.estimators import AggregateGP
    >>> x, days = np.linspace(0, 10, 40), np.repeat(np.arange(10), 4)
    >>> data = {"x": x, "groups": days, "z_groups": np.sin(x).reshape(10, 4).mean(axis=1)}
    >>> gp = AggregateGP(n_restarts=0).fit(**data)
    >>> report = fit_report(gp, data, target="power", baselines={}, lines={"truth": (x, np.sin(x))})
    >>> report.title
    'power as a function of x'
    """
    seen, units, settings = fitted_data(estimator, data, target), dict(units or {}), FitChartSettings()
    if lines and len(seen.x.columns) != 1:
        listed = ", ".join(seen.x.columns)
        raise ArgumentError(
            "lines",
            f"lines are curves over a single column, but x has {len(seen.x.columns)}: {listed}. Leave them out.",
        )
    more: list[str] = []
    if baselines is None:
        baselines, more = naive_baselines(seen, int(getattr(estimator, "seed", 0) or 0), settings.baseline_rows)
    charts = _charts(estimator, seen, baselines, lines or {}, units, settings)
    return rendered(
        "fit.html",
        title or f"{seen.target} as a function of {', '.join(seen.x.columns)}",
        check_fit(estimator, seen),
        subtitle=f"{type(estimator).__name__} · {seen.words}",
        data={"groups": {"function": charts}},
        charts=[{**chart, "values": _values(chart, settings.table_step)} for chart in charts],
        several=len(seen.x.columns) > 1,
        columns=list(seen.columns()),
        groups=seen.groups(),
        facts=seen.facts,
        learned=hyperparameters(estimator, seen, units),
        evidence=_evidence(estimator),
        candidates=candidate_weights(estimator),
        warnings=list(dict.fromkeys(warnings)),
        notes=[*notes, *more, *_hidden_columns(seen, len(charts))],
        seed=getattr(estimator, "seed", None),
        command=command,
        settings=" ".join(repr(estimator).split()),
    )


def _hidden_columns(seen: FittedData, drawn: int) -> list[str]:
    """Return a note if there are columns without a chart."""
    count = len(seen.x.columns)
    hidden = f"{count - drawn} of {count} columns are not drawn: labels, and those after the first few."
    return [hidden] if count > drawn else []


def _evidence(estimator: BaseEstimator) -> dict[str, str] | None:
    """Return how well the model explains the targets: the log evidence, or another score where it is intractable."""
    result: Any = getattr(estimator, "fit_result_", None)
    if getattr(result, "status", None) == "sampled":
        return {"name": "log density of held-out targets", "value": number(result.log_evidence, 6)}
    if not hasattr(estimator, "log_marginal_likelihood"):
        return None
    return {"name": "log evidence", "value": number(estimator.log_marginal_likelihood(), 6)}


def _values(chart: Series, step: int) -> list[dict[str, str]]:
    """Return some points of the learned function, with its band where there is one."""
    by_key = {series["key"]: series for series in chart["series"]}
    columns = {"x": by_key["model"]["x"], "mean": by_key["model"]["y"]}
    columns |= {end: by_key["band"][end] for end in ("low", "high") if "band" in by_key}
    shown = {
        name: [number(value, span=float(np.ptp(values))) for value in values[::step]]
        for name, values in columns.items()
    }
    count = len(shown["x"])
    return [{name: shown.get(name, ["–"] * count)[i] for name in ("x", "mean", "low", "high")} for i in range(count)]


# ---- charts --------------------------------------------------------------------------------------------------


def _charts(
    estimator: BaseEstimator,
    seen: FittedData,
    baselines: Mapping[str, Any],
    lines: Mapping[str, tuple[ArrayLike, ArrayLike]],
    units: Mapping[str, str],
    settings: FitChartSettings,
) -> list[Series]:
    """Return one chart for each column of x that holds numbers, the other columns at their median."""
    return [
        {
            "x": _titled(name, units),
            "y": _titled(seen.target, units),
            "series": [
                *_curves(estimator, seen.x, name, seen.target, baselines, settings),
                *_dots(estimator, seen, name, settings),
                *(_line(j, label, *pair) for j, (label, pair) in enumerate(lines.items())),
            ],
        }
        for name in numeric_columns(seen.x)[: settings.most_columns]
    ]


def _titled(name: str, units: Mapping[str, str]) -> str:
    return f"{name} ({units[name]})" if units.get(name) else name


def _curves(
    estimator: BaseEstimator,
    x: "pd.DataFrame",
    name: str,
    target: str,
    baselines: Mapping[str, Any],
    settings: FitChartSettings,
) -> Iterator[Series]:
    """Yield the learned function along a column with its band and that of new targets, and the baselines."""
    grid = rows_along(x, name, settings.points)
    at = grid[name].to_numpy()

    def _rows(model: BaseEstimator) -> Any:
        return grid if hasattr(model, "feature_names_in_") else grid.to_numpy()

    mean, std = mean_and_std(estimator, _rows(estimator))
    color = COLORS["model"]
    yield {"key": "model", "label": "learned function", "kind": "line", "color": color, "x": at, "y": mean}
    if std is not None:
        ends = {"low": mean - 2.0 * std, "high": mean + 2.0 * std}
        yield {"key": "band", "label": "± 2 sd", "kind": "band", "color": color, "x": at, **ends}
    if "include_noise" in inspect.signature(estimator.predict).parameters:
        _, wide = estimator.predict(_rows(estimator), return_std=True, include_noise=True)
        ends = {"low": mean - 2.0 * wide, "high": mean + 2.0 * wide}
        style: Series = {"label": f"± 2 sd of a new {target}", "kind": "band", "color": COLORS["data"], "off": True}
        yield {"key": "targets", **style, "x": at, **ends}
    for j, (label, model) in enumerate(baselines.items()):
        color = COLORS[("cascade", "impute", "density", "initial")[j % 4]]
        note = {"note": _BASELINES[label][1]} if label in _BASELINES else {}
        line = {"label": label, "kind": "line", "color": color, "dash": True, "x": at}
        line["y"] = mean_and_std(model, _rows(model))[0]
        yield {"key": f"baseline{j}", **line, **note}


def _line(j: int, label: str, x: ArrayLike, z: ArrayLike) -> Series:
    at, values = (np.ravel(np.asarray(v, dtype=np.float64)) for v in (x, z))
    if len(at) != len(values) or len(at) < 2:
        raise ArgumentError(
            f"lines[{label!r}]",
            f"the line {label!r} has {len(at)} x and {len(values)} z; give as many of each, at least 2.",
        )
    order, color = np.argsort(at, kind="stable"), COLORS[("truth", "band")[j % 2]]
    return {"key": f"line{j}", "label": label, "kind": "line", "color": color, "x": at[order], "y": values[order]}


def _dots(estimator: BaseEstimator, data: FittedData, name: str, settings: FitChartSettings) -> Iterator[Series]:
    """Yield where rows lie, as ticks, and, if x has one column, the targets as dots."""
    rows = data.x[name].to_numpy(dtype=np.float64)
    style = {"color": COLORS["data"]}
    ticks = _thinned(np.sort(rows), settings.most_ticks)
    yield {"key": "rows", "label": "where the rows lie", "kind": "ticks", **style, "x": ticks}
    if len(data.x.columns) != 1:
        return
    found = (rows, data.z) if data.kind == "rows" else _mean_inputs(estimator)
    if found is None:
        return
    labels = {"rows": "data", "groups": "targets, at the mean x of their group"}
    style["label"] = labels.get(data.kind, "targets, at E[x | y]")
    if data.kind not in labels:
        style["note"] = (
            "E[x | y] is the mean of x where the mediator is y. Each target is drawn at that of its own y."
        )
    x, z = (_thinned(values, settings.most_dots) for values in found)
    yield {"key": "data", "kind": "dots", **style, "x": x, "y": z}


def _mean_inputs(estimator: BaseEstimator) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return Mᵀx beside the targets, if targets are averages over the rows of x: columns of M sum to about one."""
    average = getattr(estimator, "average_", None)
    observation = getattr(getattr(getattr(estimator, "fit_result_", None), "model", None), "observation", None)
    if average is None or observation is None:
        return None
    M = observation.linearize().transformation
    sums = np.ravel(M.sum(axis=0))
    if abs(float(np.mean(sums)) - 1.0) > 0.3:
        return None
    x = np.ravel(M.T @ np.asarray(observation.x, dtype=np.float64)[:, 0]) / sums
    return x, np.ravel(np.asarray(average.z) * estimator.scale_ + estimator.offset_)


def _thinned(values: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Return at most so many values, evenly chosen."""
    return values[:: -(-len(values) // most)]


# ---- baselines -----------------------------------------------------------------------------------------------


_BASELINES: dict[str, tuple[Any, str]] = {
    "cascade: x to y to z": (
        CascadeGP,
        "Two regressions in a chain: the mediator or group y from x, then z from that y.",
    ),
    "impute z, then regress": (
        ImputeGP,
        "Each row of x is given the z that its mediator or group suggests; then z is learned from x as if it had "
        "been observed.",
    ),
    "regression on E[x | y]": (
        EcologicalGP,
        "A regression of each target on E[x | y], the mean of x at its mediator or group.",
    ),
    "dual embedding": (
        DualEmbedding,
        "Another way to undo the averaging (Dai et al. 2017): the curve is fitted so that no function of the "
        "mediator or group can distinguish its means from the targets. Held-out targets choose its settings.",
    ),
}
"""What people do without deconditioning, or by another method: estimators, and what they do."""


def naive_baselines(data: FittedData, seed: int, max_rows: int) -> tuple[dict[str, Any], list[str]]:
    """Return baselines that are fitted quickly, and notes about those that failed or saw only a sample.

    Parameters
    ----------
    data : FittedData
    seed : int
    max_rows : int
        Rows of each table that they are fitted to at most.

    Returns
    -------
    fitted : dict of str to estimator
    notes : list of str
    """
    if data.mediator is None or data.mediator_task is None:
        return {}, []
    y, y_task = data.mediator, data.mediator_task
    if data.kind == "groups":
        y, y_task = y.astype(str), y_task.astype(str)
    rng = np.random.default_rng(seed)
    task, rows = _some(np.arange(len(y_task)), max_rows, rng), np.arange(len(y))
    if not numeric_columns(y):  # labels: rows of labels that have a target
        rows = np.flatnonzero(y.apply(tuple, axis=1).isin(set(y_task.iloc[task].apply(tuple, axis=1))))
    rows = _some(rows, max_rows, rng)
    notes = []
    if max(len(y), len(y_task)) > max_rows:
        notes = [
            f"To be quick, baselines were fitted to a sample, {len(rows):,} of {len(y):,} rows and {len(task):,} of "
            f"{len(y_task):,} targets: with all of them they might do a little better."
        ]
    tables, fitted = (data.x.iloc[rows], y.iloc[rows], y_task.iloc[task], data.z[task]), {}
    for label, (kind, _) in _BASELINES.items():
        quick = {} if kind is DualEmbedding else {"n_restarts": 0}
        with warning_filters.catch_warnings():
            warning_filters.simplefilter("ignore", UserWarning)  # warnings of a baseline do not concern the model
            try:
                fitted[label] = kind(seed=seed, **quick).fit(*tables)
            except (TypeError, ValueError, NotPositiveDefiniteError) as error:
                notes.append(f"The baseline “{label}” could not be fitted: {error}")
    return fitted, notes


def _some(rows: NDArray[np.int_], most: int, rng: np.random.Generator) -> NDArray[np.int_]:
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))
