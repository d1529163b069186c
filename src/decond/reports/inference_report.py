"""The report of an inference: the posterior beside the prior, what it rests on, and whether to trust it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_row, value_names
from decond.lfi import Posterior, diagnostics
from decond.lfi.diagnostics.posterior_checks import PosteriorCheckSettings
from decond.messages import listed, number
from decond.plotting import COLORS
from decond.plotting.posterior_plot import joint_density, marginal_density, range_of
from decond.reports.report_page import Report, rendered

__all__ = ["inference_report"]

Floats = NDArray[np.float64]
Range = tuple[float, float]


@dataclass(frozen=True)
class PairChartSettings:
    """How much the charts of an inference show."""

    most_paired: int = 12
    """Parameters of the pair plot at most: regions are kept for every pair."""
    paired_at_first: int = 6
    """Parameters that the pair plot shows at first; the others can be switched on."""
    draws: int = 400
    """Draws that can be switched on in the pair plot."""
    most_summaries: int = 40
    """Summaries of the observation that are listed at most."""
    prior_draws: int = 20_000
    """Draws that show the shape of a prior."""


def inference_report(
    posterior: Posterior,
    observed: ArrayLike | Mapping[str, float],
    *,
    truth: ArrayLike | None = None,
    diagnosis: diagnostics.Report | None = None,
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
    method: str | None = None,
    seed: int | None = None,
    title: str | None = None,
    command: str | None = None,
) -> Report:
    """Return a page about a posterior of a simulator's parameters.

    Parameters
    ----------
    posterior : Posterior
    observed : array_like of shape (s,) or mapping
        The summaries that were observed; a mapping or a Series has their names.
    truth : array_like of shape (d,), optional
        The parameters that made the observation, where they are known.
    diagnosis : lfi.diagnostics.Report, optional
        What `lfi.diagnose` found; without it only what costs nothing is checked.
    warnings : sequence of str
        Warnings of the inference; those of the posterior are shown anyway.
    notes : sequence of str
        Further sentences to show.
    method, seed : str and int, optional
        How it was inferred.
    title, command : str, optional
        Another heading, and the command that repeats the inference.

    Returns
    -------
    Report

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import stats
    >>> from decond.lfi import Prior
    >>> prior = Prior({"rate": stats.gamma(2)})
    >>> posterior = Posterior(prior, lambda n, rng: rng.gamma(4.0, 0.5, (n, 1)))
    >>> inference_report(posterior, [0.5]).title
    'Posterior of rate'
    """
    sims, settings = posterior.simulations, PairChartSettings()
    row = (as_row(observed, "observed") if sims is None else sims.observed_row(observed))[0]
    named = (None if sims is None else sims.summary_names) or value_names(observed)
    names = [f"x{j + 1}" for j in range(len(row))] if named is None else [str(name) for name in named]
    known = None if truth is None else posterior.prior.rows(truth, "truth")[0]
    prior = posterior.prior.sample(settings.prior_draws, 0)
    marginals = _marginal_charts(posterior, prior, known)
    pairs = None if posterior.prior.dim < 2 else _pair_plot(posterior, known, settings)
    hidden = posterior.prior.dim - settings.most_paired
    more = [f"The pair plot leaves out the last {hidden} of {posterior.prior.dim} parameters."] if hidden > 0 else []
    coverage = _coverage(diagnosis)
    used = "" if sims is None else f"{len(sims):,} simulations, {sims.n_failed:,} of them failed"
    return rendered(
        "inference.html",
        title or f"Posterior of {listed(posterior.names)}",
        posterior.check(diagnosis, truth=truth),
        subtitle=" · ".join(part for part in (method, used) if part),
        data={"groups": {"marginals": marginals, "coverage": coverage}, "pairs": pairs},
        marginals=marginals,
        coverage=coverage,
        pairs=pairs,
        summary=_summary(posterior, prior, known),
        observation=_observation(posterior, row, names[: settings.most_summaries], diagnosis),
        more_summaries=max(0, len(row) - settings.most_summaries),
        predicted=diagnosis is not None and diagnosis.from_posterior,
        simulated=sims is not None,
        truth=known is not None,
        warnings=list(dict.fromkeys([*warnings, *posterior.notes])),
        notes=[*notes, *more],
        seed=seed,
        command=command,
        settings="",
    )


# ---- tables --------------------------------------------------------------------------------------------------


def _summary(posterior: Posterior, prior: Floats, truth: Floats | None) -> list[dict[str, str]]:
    """Return a line for each parameter, with digits for the width of its interval."""
    lines = []
    for j, (name, line) in enumerate(posterior.summary().to_dict("index").items()):
        width = line["97.5 %"] - line["2.5 %"]
        shown = {key: number(value, span=width) for key, value in line.items()}
        interval = f"{shown['2.5 %']} to {shown['97.5 %']}"
        known = "" if truth is None else number(truth[j], span=width)
        lines.append(
            {"name": name, "mean": shown["mean"], "sd": number(line["std"], 3), "median": shown["median"]}
            | {"interval": interval, "prior": _middle(prior[:, j]), "truth": known}
        )
    return lines


def _observation(
    posterior: Posterior, row: Floats, names: list[str], diagnosis: diagnostics.Report | None
) -> list[dict[str, str]]:
    """Return a line for each summary: what was observed, the simulations, and what the posterior predicts."""
    sims = posterior.simulations
    rows = None if sims is None or sims.x.shape[1] != len(row) or not sims.n_valid else sims.x[sims.valid]
    predicted = diagnosis.predictive.simulated if diagnosis is not None and diagnosis.from_posterior else None
    return [
        {
            "name": name,
            "observed": number(row[j], span=0.0 if rows is None else float(np.ptp(rows[:, j]))),
            "simulated": "" if rows is None else _middle(rows[:, j]),
            "predicted": "" if predicted is None else _middle(predicted[:, j]),
        }
        for j, name in enumerate(names)
    ]


def _middle(values: Floats) -> str:
    """Return where the middle 95 % of some values lie."""
    low, high = np.quantile(values, [0.025, 0.975])
    return " to ".join(number(end, span=high - low) for end in (low, high))


# ---- charts --------------------------------------------------------------------------------------------------


def _marginal_charts(posterior: Posterior, prior: Floats, truth: Floats | None) -> list[dict[str, Any]]:
    """Return a chart for each parameter: densities of posterior and prior, the interval, the truth."""
    intervals, charts = posterior.interval(0.95).T, []
    for j, name in enumerate(posterior.names):
        known = [] if truth is None else [float(truth[j])]
        span = _shown(posterior, prior[:, j], j, *known)
        series: list[dict[str, Any]] = [
            {"key": "interval", "label": "95 % interval", "kind": "span", "color": COLORS["band"], "x": intervals[j]},
            {"key": "prior", "label": "prior", "kind": "line", "color": COLORS["prior"]}
            | _prior_curve(getattr(posterior.prior.marginal(name), "cdf", None), prior[:, j], span),
            {"key": "posterior", "label": "posterior", "kind": "area", "color": COLORS["posterior"]}
            | _curve(posterior.samples[:, j], span),
        ]
        if known:
            series.append({"key": "truth", "label": "truth", "kind": "mark", "color": COLORS["observed"], "x": known})
        charts.append({"x": name, "y": "density", "bare": True, "main": "posterior", "range": span, "series": series})
    return charts


def _shown(posterior: Posterior, prior: Floats, j: int, truth: float | None = None) -> Range:
    """Return what a chart spans: almost all draws of prior and posterior, or a prior's range if hardly wider."""
    ends = float(posterior.prior.low[j]), float(posterior.prior.high[j])
    (low, high), seen = np.quantile(prior, [0.01, 0.99]), range_of(posterior.samples[:, j], truth)
    span = max(ends[0], min(float(low), seen[0])), min(ends[1], max(float(high), seen[1]))
    return ends if ends[1] - ends[0] < 1.1 * (span[1] - span[0]) else span


def _prior_curve(cdf: Callable[[Floats], Floats] | None, draws: Floats, span: Range) -> dict[str, Floats]:
    """Return the exact density, averaged over narrow bins since it may be infinite; from draws if it is not known."""
    if cdf is None:
        return _curve(draws, span)
    edges = np.linspace(*span, 121)
    middles = (edges[1:] + edges[:-1]) / 2.0
    height = np.diff(cdf(edges)) / np.diff(edges)
    return {"x": np.concatenate([edges[:1], middles, edges[-1:]]), "y": np.pad(height, 1, mode="edge")}


def _curve(draws: Floats, span: Range) -> dict[str, Floats]:
    """Return the density of draws; those outside the span are not drawn, but count."""
    inside = draws[(draws >= span[0]) & (draws <= span[1])]
    at, height = marginal_density(inside if len(inside) > 1 else draws, span)
    return {"x": at, "y": max(len(inside), 1) / len(draws) * height}


def _pair_plot(posterior: Posterior, truth: Floats | None, settings: PairChartSettings) -> dict[str, Any]:
    """Return what the pair plot is drawn from."""
    names = posterior.names[: settings.most_paired]
    draws = posterior.samples[:, : len(names)]
    spans = [range_of(column, None if truth is None else float(truth[j])) for j, column in enumerate(draws.T)]
    marginals = []
    for column, span in zip(draws.T, spans, strict=True):
        at, height = marginal_density(column, span)
        marginals.append({"x": at, "y": height, "below": np.searchsorted(np.sort(column), at, "right") / len(column)})
    contours = {}
    for i in range(len(names)):
        for j in range(i):
            (across, up), height, levels = joint_density(draws[:, j], draws[:, i], spans[j], spans[i])
            contours[f"{i},{j}"] = [_rings(across, up, height.T, level) for level in levels]
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = np.nan_to_num(np.corrcoef(draws, rowvar=False))
    return {
        "names": names,
        "most": settings.paired_at_first,
        "ranges": spans,
        "marginals": marginals,
        "contours": contours,
        "correlations": correlations,
        "intervals": posterior.interval(0.95).T[: len(names)],
        "draws": draws[: settings.draws],
        "truth": None if truth is None else truth[: len(names)],
        "color": COLORS["posterior"],
        "shade": COLORS["band"],
        "mark": COLORS["observed"],
    }


def _rings(across: Floats, up: Floats, height: Floats, level: float) -> list[Floats]:
    """Return closed rings at a level; a border of zeros closes those that would leave the picture."""
    from contourpy import contour_generator

    x, y = (np.concatenate([[2.0 * v[0] - v[1]], v, [2.0 * v[-1] - v[-2]]]) for v in (across, up))
    rings = contour_generator(x=x, y=y, z=np.pad(height, 1)).lines(level)
    return [np.asarray(ring)[: -1 if len(ring) > 3 else None] for ring in rings if len(ring) > 2]


def _coverage(diagnosis: diagnostics.Report | None) -> list[dict[str, Any]]:
    """Return the chart of how often intervals hold the truth, where that was checked."""
    if diagnosis is None or diagnosis.calibration is None:
        return []
    if diagnosis.calibration.n < PosteriorCheckSettings().fewest_trials:
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
