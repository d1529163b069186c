"""The report of a fit: what was learned, what it rests on, and whether to trust it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from decond.notebook import number
from decond.reports.baselines import naive_baselines
from decond.reports.checks import assess
from decond.reports.document import Report, rendered
from decond.reports.environment import made_on, versions
from decond.reports.fitted_data import FittedData, fitted_data
from decond.reports.function import MAX_CHARTS, function_charts
from decond.reports.hyperparameters import Names, candidate_weights, hyperparameters, sampled_values
from decond.reports.still import still

__all__ = ["fit_report"]

TABLE_STEP = 16
"""Every so many points of a curve one goes into the table of values."""


def fit_report(
    estimator: Any,
    data: Mapping[str, Any],
    *,
    target: str | None = None,
    units: Mapping[str, str] | None = None,
    baselines: Mapping[str, Any] | None = None,
    lines: Mapping[str, tuple[Any, Any]] | None = None,
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
    title: str | None = None,
    command: str | None = None,
) -> Report:
    """Return a page about a fitted estimator.

    `data` are the arguments that `fit` was called with, by name; columns of data frames keep their names.

    Parameters:
        target: what z is called; the name of a pandas Series is used where there is one.
        units: units by the name of a column or target, for example {"wind": "m/s", "power": "kW"}.
        baselines: fitted estimators by label, drawn beside the function. None fits the usual ones (cascade, impute,
            regression on E[x | y]) where there is a mediator or there are groups; an empty mapping draws none.
        lines: further curves by label, each as (x, z): a known truth, for example. x needs a single column then.
        warnings: sentences that were warned of during the fit.
        notes: further sentences to show.
        title, command: a heading other than "z as a function of x", and the command that repeats the fit.

    >>> import numpy as np
    >>> from decond.estimators import AggregateGP
    >>> x, days = np.linspace(0, 10, 40), np.repeat(np.arange(10), 4)
    >>> data = {"x": x, "groups": days, "z_groups": np.sin(x).reshape(10, 4).mean(axis=1)}
    >>> gp = AggregateGP(n_restarts=0).fit(**data)
    >>> report = fit_report(gp, data, target="power", baselines={}, lines={"truth": (x, np.sin(x))})
    >>> report.title
    'power as a function of x'
    """
    seen, units = fitted_data(estimator, data, target), dict(units or {})
    title = title or f"{seen.target} as a function of {', '.join(seen.x.columns)}"
    charts, more = _charts(estimator, seen, baselines, lines or {}, units)
    found = assess(estimator, seen)
    html = rendered(
        "fit.html",
        kind="decond · report of a fit",
        title=title,
        verdict=found.verdict,
        state=found.state,
        subtitle=f"{type(estimator).__name__} · {seen.words}",
        data={"groups": {"function": charts}},
        charts=[{**chart, "still": still(chart), "values": _values(chart)} for chart in charts],
        several=len(seen.x.columns) > 1,
        columns=seen.columns(),
        groups=seen.groups(),
        facts=seen.facts,
        learned=_learned(estimator, seen, units),
        evidence=_evidence(estimator),
        candidates=candidate_weights(estimator),
        checks=found.checks,
        warnings=list(dict.fromkeys(warnings)),
        notes=[*notes, *more],
        versions=versions(),
        seed=getattr(estimator, "seed", None),
        command=command,
        settings=_settings(estimator),
        date=made_on(),
    )
    by_name = {check.name: check for check in found.checks}
    return Report(title, found.verdict, html, tuple(found.sentences), found.state, by_name)


def _charts(
    estimator: Any,
    seen: FittedData,
    baselines: Mapping[str, Any] | None,
    lines: Mapping[str, tuple[Any, Any]],
    units: Mapping[str, str],
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the charts of the function, and notes about what they leave out."""
    notes: list[str] = []
    if baselines is None:
        baselines, notes = naive_baselines(seen, int(getattr(estimator, "seed", 0) or 0))
    charts = function_charts(estimator, seen, baselines, lines, units)
    columns = len(seen.x.columns)
    if columns > len(charts):
        hidden = columns - len(charts)
        notes.append(f"{hidden} of {columns} columns are not drawn: labels, and those after {MAX_CHARTS}.")
    return charts, notes


def _learned(estimator: Any, seen: FittedData, units: Mapping[str, str]) -> Any:
    """Return the learned numbers with a sentence each."""
    result = getattr(estimator, "fit_result_", None)
    if result is None:
        return []
    numeric = {name: column for name, column in seen.x.items() if column.dtype.kind in "biuf"}
    ranges = {str(name): float(np.ptp(column.to_numpy(dtype=np.float64))) for name, column in numeric.items()}
    mediators = [] if seen.mediator is None else list(seen.mediator.columns)
    names = Names(list(seen.x.columns), mediators, seen.target, ranges, units)
    return hyperparameters(result, names, sampled_values(estimator))


def _evidence(estimator: Any) -> dict[str, str] | None:
    """Return how well the model explains the targets: the log evidence, or another score where it is intractable."""
    result: Any = getattr(estimator, "fit_result_", None)
    if getattr(result, "status", None) == "sampled":
        return {"name": "log density of held-out targets", "value": number(result.log_evidence, 6)}
    if not hasattr(estimator, "log_marginal_likelihood"):
        return None
    return {"name": "log evidence", "value": number(estimator.log_marginal_likelihood(), 6)}


def _settings(estimator: Any) -> str:
    """Return the estimator as Python writes it, with the settings that were changed."""
    return " ".join(repr(estimator).split())


def _values(chart: dict[str, Any]) -> list[dict[str, str]]:
    """Return some points of the learned function, with its band where there is one."""
    by_key = {series["key"]: series for series in chart["series"]}
    line, band = by_key["model"], by_key.get("band")
    columns = {"x": line["x"], "mean": line["y"]}
    if band is not None:
        columns |= {"low": band["low"], "high": band["high"]}
    spans = {name: float(np.ptp(values)) for name, values in columns.items()}
    return [
        {"low": "–", "high": "–"} | {name: number(columns[name][i], span=spans[name]) for name in columns}
        for i in range(0, len(line["x"]), TABLE_STEP)
    ]
