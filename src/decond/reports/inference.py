"""The report of an inference: the posterior beside the prior, what it rests on, and whether to trust it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from decond.checks import value_names
from decond.errors import ArgumentError
from decond.lfi import Posterior, diagnostics
from decond.notebook import listed, number
from decond.plotting import COLORS
from decond.reports.checks import verdict
from decond.reports.document import Report, rendered
from decond.reports.environment import made_on, versions
from decond.reports.inference_checks import NOTHING_WRONG, observed_row, posterior_checks
from decond.reports.pairs import marginal_charts, pair_plot
from decond.reports.still import still

__all__ = ["inference_report"]

MAX_SUMMARIES = 40
"""Summaries of the observation that are listed at most."""


def inference_report(
    posterior: Posterior,
    observed: Any,
    *,
    summaries: Sequence[str] | None = None,
    truth: Any = None,
    diagnosis: diagnostics.Report | None = None,
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
    method: str | None = None,
    seed: Any = None,
    title: str | None = None,
    command: str | None = None,
) -> Report:
    """Return a page about a posterior of a simulator's parameters.

    Parameters:
        observed: the summaries that were observed.
        summaries: their names, where it has none.
        truth: the parameters that made the observation, where they are known.
        diagnosis: what `lfi.diagnose` found; without it only what costs nothing is checked.
        warnings: sentences that were warned of; those of the posterior are shown anyway.
        notes: further sentences to show.
        method, seed: how it was inferred.
        title, command: another heading, and the command that repeats the inference.

    >>> import numpy as np
    >>> from scipy import stats
    >>> from decond.lfi import Prior
    >>> prior = Prior({"rate": stats.gamma(2)})
    >>> posterior = Posterior(prior, lambda n, rng: rng.gamma(4.0, 0.5, (n, 1)))
    >>> inference_report(posterior, [0.5]).title
    'Posterior of rate'
    """
    row = observed_row(posterior, observed)
    names = _names(_summary_names(posterior, observed) if summaries is None else summaries, row.shape[1])
    known = None if truth is None else posterior.prior.rows(truth, "truth")[0]
    title = title or f"Posterior of {listed(posterior.names)}"
    checks = posterior_checks(posterior, row, diagnosis, known)
    state, sentence = verdict(checks, NOTHING_WRONG)
    charts, more = _charts(posterior, known, diagnosis)
    html = rendered(
        "inference.html",
        kind="decond · report of an inference",
        title=title,
        verdict=sentence,
        state=state,
        subtitle=" · ".join(part for part in (method, _used(posterior)) if part),
        **charts,
        summary=_summary(posterior, known),
        observation=_observation(posterior, row[0], names, diagnosis),
        more_summaries=max(0, row.shape[1] - MAX_SUMMARIES),
        predicted=diagnosis is not None and diagnosis.from_posterior,
        simulated=posterior.simulations is not None,
        truth=known is not None,
        checks=checks,
        warnings=list(dict.fromkeys([*warnings, *posterior.notes])),
        notes=[*notes, *more],
        versions=versions(),
        seed=seed,
        command=command,
        settings="",
        date=made_on(),
    )
    return Report(title, sentence, html, state=state, checks={check.name: check for check in checks})


def _charts(
    posterior: Posterior, known: np.ndarray | None, diagnosis: diagnostics.Report | None
) -> tuple[dict[str, Any], list[str]]:
    """Return what the page draws, as numbers and as still pictures, and notes about what that leaves out."""
    marginals, pairs, coverage = marginal_charts(posterior, known), pair_plot(posterior, known), _coverage(diagnosis)
    drawn = {
        "data": {"groups": {"marginals": marginals, "coverage": coverage}, "pairs": pairs},
        "marginals": [{**chart, "still": still(chart)} for chart in marginals],
        "coverage": coverage,
        "pairs": pairs,
    }
    hidden = 0 if pairs is None else posterior.prior.dim - len(pairs["names"])
    notes = [f"The pair plot leaves out the last {hidden} of {posterior.prior.dim} parameters."] if hidden else []
    return drawn, notes


def _used(posterior: Posterior) -> str:
    sims = posterior.simulations
    return "" if sims is None else f"{len(sims):,} simulations, {sims.n_failed:,} of them failed"


def _summary_names(posterior: Posterior, observed: Any) -> Sequence[str] | None:
    """Return the names of the summaries: the simulator's, or else those of the observation."""
    sims = posterior.simulations
    return (None if sims is None else sims.summary_names) or value_names(observed)


def _names(summaries: Sequence[str] | None, count: int) -> list[str]:
    names = [f"x{j + 1}" for j in range(count)] if summaries is None else [str(name) for name in summaries]
    if len(names) != count:
        raise ArgumentError(
            "summaries",
            f"summaries has {len(names)} names but the observation has {count} values; give one for each.",
        )
    return names


def _summary(posterior: Posterior, truth: np.ndarray | None) -> list[dict[str, Any]]:
    """Return a line for each parameter: posterior, prior, and the truth where it is known."""
    prior = np.quantile(posterior.prior.sample(10_000, 0), [0.025, 0.975], axis=0)
    return [
        _parameter(name, line, prior[:, j], None if truth is None else float(truth[j]))
        for j, (name, line) in enumerate(posterior.summary().to_dict("index").items())
    ]


def _parameter(name: str, line: dict[str, float], prior: np.ndarray, truth: float | None) -> dict[str, str]:
    """Return one line of the table of parameters, with digits for the width of its interval."""
    width = line["97.5 %"] - line["2.5 %"]
    shown = {key: number(value, span=width) for key, value in line.items()}
    return {
        "name": name,
        "mean": shown["mean"],
        "sd": number(line["std"], 3),
        "median": shown["median"],
        "interval": f"{shown['2.5 %']} to {shown['97.5 %']}",
        "prior": _range(*prior),
        "truth": "" if truth is None else number(truth, span=width),
    }


def _range(low: float, high: float) -> str:
    return " to ".join(number(end, span=high - low) for end in (low, high))


def _observation(
    posterior: Posterior, row: np.ndarray, names: list[str], diagnosis: diagnostics.Report | None
) -> list[dict[str, str]]:
    """Return a line for each summary: what was observed, the simulations, and what the posterior predicts."""
    sims = posterior.simulations
    rows = None if sims is None or sims.x.shape[1] != len(row) else sims.x[sims.valid]
    predicted = diagnosis.predictive.simulated if diagnosis is not None and diagnosis.from_posterior else None
    return [
        {
            "name": name,
            "observed": number(row[j], span=0.0 if rows is None or not len(rows) else float(np.ptp(rows[:, j]))),
            "simulated": _middle(rows, j),
            "predicted": _middle(predicted, j),
        }
        for j, name in enumerate(names[:MAX_SUMMARIES])
    ]


def _middle(rows: np.ndarray | None, j: int) -> str:
    """Return where the middle 95 % of a column lie."""
    if rows is None or not len(rows):
        return ""
    return _range(*np.quantile(rows[:, j], [0.025, 0.975]))


def _coverage(diagnosis: diagnostics.Report | None) -> list[dict[str, Any]]:
    """Return the chart of how often intervals hold the truth, where that was judged."""
    if diagnosis is None or diagnosis.calibration is None or not diagnosis.calibration.enough:
        return []
    coverage = diagnosis.calibration.coverage
    at, low, high = coverage.band
    colors = [COLORS[role] for role in ("posterior", "initial", "impute", "cascade", "band")]
    lines = [
        {"key": f"curve{j}", "label": name, "kind": "line", "color": colors[j % len(colors)]}
        | {"x": coverage.levels, "y": shares, "dash": name == coverage.joint}
        for j, (name, shares) in enumerate(coverage.shares.items())
    ]
    band = {"key": "band", "label": "calibrated", "kind": "band", "color": COLORS["band"]}
    diagonal = {"key": "diagonal", "label": "exact", "kind": "line", "color": COLORS["truth"], "x": [0.0, 1.0]}
    series = [{**band, "x": at, "low": low, "high": high}, {**diagonal, "y": [0.0, 1.0]}, *lines]
    names = {"x": "level of the interval", "y": "share that holds the truth", "main": "curve0", "range": [0.0, 1.0]}
    return [{**names, "series": series}]
