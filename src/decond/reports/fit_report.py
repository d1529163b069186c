"""The report of a fit: what was learned, what it rests on, and whether to trust it."""

import inspect
import warnings as warning_filters
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from decond.errors import ArgumentError
from decond.estimators import CascadeGP, DualEmbedding, EcologicalGP, ImputeGP
from decond.linalg import NotPositiveDefiniteError
from decond.messages import number
from decond.plotting.display import new_figure, plot_line, plot_points, verbatim
from decond.plotting.regression_plot import Curve, FunctionDisplay, mean_and_std, rows_along
from decond.reports.fit_checks import check_fit
from decond.reports.fit_description import (
    FittedData,
    candidate_weights,
    fitted_data,
    hyperparameters,
    numeric_columns,
)
from decond.reports.report_page import Report, picture, rendered

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["FitPictureSettings", "draw_function", "fit_report", "naive_baselines"]


@dataclass(frozen=True)
class FitPictureSettings:
    """How much the pictures of a fit show."""

    points: int = 161
    """Points of a curve."""
    table_step: int = 16
    """Every so many points of a curve, one is a row of the table of values."""
    most_columns: int = 12
    """Columns that are drawn at most."""
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
    seen, units, settings = fitted_data(estimator, data, target), dict(units or {}), FitPictureSettings()
    if lines and len(seen.x.columns) != 1:
        listed = ", ".join(seen.x.columns)
        raise ArgumentError(
            "lines",
            f"lines are curves over a single column, but x has {len(seen.x.columns)}: {listed}. Leave them out.",
        )
    more: list[str] = []
    if baselines is None:
        baselines, more = naive_baselines(seen, int(getattr(estimator, "seed", 0) or 0), settings.baseline_rows)
    names = numeric_columns(seen.x)[: settings.most_columns]
    curves = [_curve(estimator, seen.x, name, settings.points) for name in names]
    return rendered(
        "fit.html",
        title or f"{seen.target} as a function of {', '.join(seen.x.columns)}",
        check_fit(estimator, seen),
        f"learned from {seen.words}",
        subtitle=f"{type(estimator).__name__} · {seen.words}",
        pictures={
            curve.name: picture(draw_function(estimator, seen, curve, baselines, lines or {}, units))
            for curve in curves
        },
        values={_titled(curve.name, units): _values(curve, settings.table_step) for curve in curves},
        target=_titled(seen.target, units),
        explained={label: _BASELINES[label][1] for label in baselines if label in _BASELINES},
        several=len(seen.x.columns) > 1,
        columns=list(seen.columns()),
        groups=seen.groups(),
        facts=seen.facts,
        learned=hyperparameters(estimator, seen, units),
        evidence=_evidence(estimator),
        candidates=candidate_weights(estimator),
        warnings=list(dict.fromkeys(warnings)),
        notes=[*notes, *more, *_hidden_columns(seen, len(names))],
        seed=getattr(estimator, "seed", None),
        command=command,
        settings=" ".join(repr(estimator).split()),
    )


def _hidden_columns(seen: FittedData, drawn: int) -> list[str]:
    """Return a note if there are columns without a picture."""
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


def _values(curve: Curve, step: int) -> list[list[str]]:
    """Return some points of the learned function, with the ends of its band where there is one."""
    columns = [curve.x, curve.mean]
    if curve.std is not None:
        columns += [curve.mean - 2.0 * curve.std, curve.mean + 2.0 * curve.std]
    shown = [[number(value, span=float(np.ptp(values))) for value in values[::step]] for values in columns]
    return [list(row) for row in zip(*shown, strict=True)]


# ---- pictures ------------------------------------------------------------------------------------------------


def draw_function(
    estimator: BaseEstimator,
    seen: FittedData,
    curve: Curve,
    baselines: Mapping[str, Any],
    lines: Mapping[str, tuple[ArrayLike, ArrayLike]],
    units: Mapping[str, str],
) -> "Figure":
    """Draw the learned function along one column, the interval of a new target, the data and what to compare with.

    Parameters
    ----------
    estimator : fitted estimator
    seen : FittedData
        What it was fitted on.
    curve : Curve
        The function along the column.
    baselines : mapping of str to fitted estimator
    lines : mapping of str to (x, z)
        Further curves.
    units : mapping of str to str
        Units by the name of a column or target.

    Returns
    -------
    matplotlib figure
    """
    figure, [ax] = new_figure(1, (8.0, 4.5))
    at, grid = curve.x, rows_along(seen.x, curve.name, len(curve.x))
    shown = curve._replace(name=_titled(curve.name, units))
    rows = [np.sort(seen.x[curve.name].to_numpy(dtype=np.float64))]
    FunctionDisplay([shown], rows=rows, target_name=_titled(seen.target, units)).plot(ax, label="learned function")
    if "include_noise" in inspect.signature(estimator.predict).parameters:
        _, wide = estimator.predict(_as_fitted(estimator, grid), return_std=True, include_noise=True)
        label = f"± 2 sd of a new {verbatim(seen.target)}"
        for half, words in ((-2.0 * wide, label), (2.0 * wide, "")):
            plot_line(ax, at, curve.mean + half, "data", words, ":", linewidth=1.2)
    if len(seen.x.columns) == 1 and (found := _dots(estimator, seen)) is not None:
        plot_points(ax, *found[1:], label=found[0])
    for j, (label, pair) in enumerate(lines.items()):
        plot_line(ax, *_sorted_line(label, *pair), ("truth", "band")[j % 2], verbatim(label))
    limits = ax.get_ylim()  # a wild baseline must not flatten the function
    for j, (label, model) in enumerate(baselines.items()):
        values, _ = mean_and_std(model, _as_fitted(model, grid))
        plot_line(ax, at, values, ("cascade", "impute", "density", "initial")[j % 4], verbatim(label), "--")
    ax.set_ylim(limits)
    ax.legend(frameon=False, fontsize=8)
    return figure


def _curve(estimator: BaseEstimator, x: "pd.DataFrame", name: str, points: int) -> Curve:
    grid = rows_along(x, name, points)
    return Curve(name, grid[name].to_numpy(), *mean_and_std(estimator, _as_fitted(estimator, grid)))


def _as_fitted(model: BaseEstimator, grid: "pd.DataFrame") -> Any:
    """Return rows as a model takes them: with names only if it was fitted with names."""
    return grid if hasattr(model, "feature_names_in_") else grid.to_numpy()


def _titled(name: str, units: Mapping[str, str]) -> str:
    return f"{name} ({units[name]})" if units.get(name) else name


def _sorted_line(label: str, x: ArrayLike, z: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    at, values = (np.ravel(np.asarray(v, dtype=np.float64)) for v in (x, z))
    if len(at) != len(values) or len(at) < 2:
        raise ArgumentError(
            f"lines[{label!r}]",
            f"the line {label!r} has {len(at)} x and {len(values)} z; give as many of each, at least 2.",
        )
    order = np.argsort(at, kind="stable")
    return at[order], values[order]


def _dots(estimator: BaseEstimator, data: FittedData) -> tuple[str, NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the targets with where to draw them, and what to call them; None where that is not known."""
    if data.kind == "rows":
        return "data", data.x.iloc[:, 0].to_numpy(dtype=np.float64), data.z
    found = _mean_inputs(estimator)
    words = "targets, at the mean x of their group" if data.kind == "groups" else "targets, at E[x | y]"
    return None if found is None else (words, *found)


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
