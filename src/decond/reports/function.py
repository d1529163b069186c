"""The learned function along each column, as numbers to draw: lines, bands, baselines, data."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from decond.errors import ArgumentError
from decond.plotting import COLORS
from decond.plotting.functions import along, predicted
from decond.reports.baselines import EXPLAINED
from decond.reports.fitted_data import FittedData

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["function_charts", "predictions"]

STEPS = 161
"""Points of a curve."""

MAX_CHARTS = 12
"""Columns that are drawn at most."""

MAX_DOTS, MAX_TICKS = 1500, 300
"""Data that are drawn at most, evenly chosen."""

WIDTH = 2.0
"""Standard deviations on either side that a band shows."""

BASELINE_COLORS = (COLORS["cascade"], COLORS["impute"], COLORS["density"], COLORS["initial"])
LINE_COLORS = (COLORS["truth"], COLORS["band"])
MEAN_OF_X = "E[x | y] is the mean of x where the mediator is y. Each target is drawn at that of its own y."
"""What the place of a target means that belongs to no single x."""

SUM_TO_ONE = 0.3
"""Columns of M whose sums are on average this close to one are averages."""


def function_charts(
    estimator: Any,
    data: FittedData,
    baselines: Mapping[str, Any],
    lines: Mapping[str, tuple[Any, Any]],
    units: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Return one chart for each column of x that holds numbers, the other columns at their median."""
    columns = [name for name in data.x if data.x[name].dtype.kind in "biuf"]
    if lines and len(data.x.columns) != 1:
        raise ArgumentError(
            "lines",
            f"lines are curves over a single column, but x has {len(data.x.columns)}: {', '.join(data.x.columns)}. "
            "Leave them out.",
        )
    charts = []
    for name in columns[:MAX_CHARTS]:
        at = along(data.x, name, STEPS)
        line = at[name].to_numpy()
        series = [
            *_model(estimator, at, line),
            *_data(estimator, data, name),
            *(_baseline(j, label, model, at, line) for j, (label, model) in enumerate(baselines.items())),
            *(_line(j, label, *pair) for j, (label, pair) in enumerate(lines.items())),
        ]
        charts.append({"x": _titled(name, units), "y": _titled(data.target, units), "series": series})
    return charts


def _titled(name: str, units: Mapping[str, str]) -> str:
    return f"{name} ({units[name]})" if units.get(name) else name


def predictions(model: Any, at: "pd.DataFrame") -> tuple[np.ndarray, np.ndarray | None]:
    """Return mean and standard deviation at rows, the latter where a model has it."""
    rows = at if hasattr(model, "feature_names_in_") else at.to_numpy()
    return predicted(model, rows, None)


def _model(estimator: Any, at: "pd.DataFrame", line: np.ndarray) -> list[dict[str, Any]]:
    mean, std = predictions(estimator, at)
    learned = {"key": "model", "label": "learned function", "kind": "line", "color": COLORS["model"]}
    drawn = [{**learned, "x": line, "y": mean}]
    if std is not None:
        band = {"key": "band", "label": f"± {WIDTH:g} sd", "kind": "band", "color": COLORS["model"]}
        drawn.append({**band, "x": line, "low": mean - WIDTH * std, "high": mean + WIDTH * std})
    return drawn


def _baseline(j: int, label: str, model: Any, at: "pd.DataFrame", line: np.ndarray) -> dict[str, Any]:
    mean, _ = predictions(model, at)
    color = BASELINE_COLORS[j % len(BASELINE_COLORS)]
    drawn = {"key": f"baseline{j}", "label": label, "kind": "line", "color": color, "dash": True}
    note = {"note": EXPLAINED[label]} if label in EXPLAINED else {}
    return {**drawn, **note, "x": line, "y": mean}


def _line(j: int, label: str, x: Any, z: Any) -> dict[str, Any]:
    at, values = np.ravel(np.asarray(x, dtype=np.float64)), np.ravel(np.asarray(z, dtype=np.float64))
    if len(at) != len(values) or len(at) < 2:
        raise ArgumentError(
            f"lines[{label!r}]",
            f"the line {label!r} has {len(at)} x and {len(values)} z; give as many of each, at least 2.",
        )
    order = np.argsort(at, kind="stable")
    color = LINE_COLORS[j % len(LINE_COLORS)]
    return {"key": f"line{j}", "label": label, "kind": "line", "color": color, "x": at[order], "y": values[order]}


def _data(estimator: Any, data: FittedData, name: str) -> list[dict[str, Any]]:
    """Return where rows lie, as ticks, and, if x has one column, the targets as dots."""
    values = np.sort(data.x[name].to_numpy(dtype=np.float64))
    ticks = {"key": "rows", "label": "where the rows lie", "kind": "ticks", "color": COLORS["data"]}
    drawn = [{**ticks, "x": _thinned(values, MAX_TICKS)}]
    if len(data.x.columns) == 1:
        drawn += _dots(estimator, data, name)
    return drawn


def _dots(estimator: Any, data: FittedData, name: str) -> list[dict[str, Any]]:
    dots = {"key": "data", "kind": "dots", "color": COLORS["data"]}
    if data.kind == "rows":
        x, z, label = data.x[name].to_numpy(dtype=np.float64), data.z, "data"
    else:
        found = _means(estimator)
        if found is None:
            return []
        x, z = found
        label = "targets, at the mean x of their group" if data.kind == "groups" else "targets, at E[x | y]"
        if data.kind != "groups":
            dots["note"] = MEAN_OF_X
    return [{**dots, "label": label, "x": _thinned(x, MAX_DOTS), "y": _thinned(z, MAX_DOTS)}]


def _means(estimator: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return Mᵀx beside the targets, if targets are averages over the rows of x."""
    result, average = getattr(estimator, "fit_result_", None), getattr(estimator, "average_", None)
    if result is None or average is None or not hasattr(result.model, "observation"):
        return None
    seen = result.model.observation
    M = seen.linearize().transformation
    sums = np.ravel(M.sum(axis=0))
    if abs(float(np.mean(sums)) - 1.0) > SUM_TO_ONE:
        return None
    x = np.ravel(M.T @ np.asarray(seen.x, dtype=np.float64)[:, 0]) / sums
    return x, np.ravel(np.asarray(average.z) * estimator.scale_ + estimator.offset_)


def _thinned(values: np.ndarray, most: int) -> np.ndarray:
    """Return at most so many values, evenly chosen."""
    return values[:: -(-len(values) // most)]
