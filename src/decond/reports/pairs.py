"""Draws of parameters as numbers to draw: densities beside the prior's, and regions of pairs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from decond.lfi import Posterior
from decond.notebook import percent
from decond.plotting import COLORS
from decond.plotting.densities import joint_density, marginal_density, span_of

__all__ = ["marginal_charts", "pair_plot"]

PRIOR_DRAWS = 20_000
"""Draws that tell the shape of the prior."""

SHOWN_PAIRS = 6
"""Parameters that the pair plot shows at first; the others can be switched on."""

MAX_PAIRED = 12
"""Parameters that the pair plot has at most: regions are kept for every pair."""

SHOWN_DRAWS = 400
MARGINAL_STEP = 2
"""Draws that can be switched on, and the step by which points of a density are thinned."""

BINS = 120
"""Bins over which the density of a prior is averaged."""

HARDLY_WIDER = 1.1
"""A support up to this many times as wide as what would be shown is shown whole."""

LEVEL = 0.95
"""Of the intervals that are shaded."""


def marginal_charts(posterior: Posterior, truth: np.ndarray | None) -> list[dict[str, Any]]:
    """Return a chart for each parameter: densities of posterior and prior, the interval, the truth."""
    prior = posterior.prior.sample(PRIOR_DRAWS, 0)
    intervals = posterior.interval(LEVEL).T
    charts = []
    for j, name in enumerate(posterior.names):
        known = None if truth is None else float(truth[j])
        span = _shown(posterior, prior[:, j], j, known)
        series = [
            {"key": "interval", "label": f"{percent(LEVEL)} interval", "kind": "span", "color": COLORS["band"]}
            | {"x": intervals[j]},
            {"key": "prior", "label": "prior", "kind": "line", "color": COLORS["prior"]}
            | _prior_curve(posterior.prior.marginal(name), prior[:, j], span),
            {"key": "posterior", "label": "posterior", "kind": "area", "color": COLORS["posterior"]}
            | _curve(posterior.samples[:, j], span),
        ]
        if known is not None:
            series.append(
                {"key": "truth", "label": "truth", "kind": "mark", "color": COLORS["observed"], "x": [known]}
            )
        charts.append({"x": name, "y": "density", "bare": True, "main": "posterior", "range": span, "series": series})
    return charts


def pair_plot(posterior: Posterior, truth: np.ndarray | None) -> dict[str, Any] | None:
    """Return what the pair plot is drawn from; None for a single parameter."""
    if posterior.prior.dim < 2:
        return None
    names = posterior.names[:MAX_PAIRED]
    draws = posterior.samples[:, : len(names)]
    spans = [span_of(column, None if truth is None else float(truth[j])) for j, column in enumerate(draws.T)]
    return {
        "names": names,
        "most": SHOWN_PAIRS,
        "ranges": spans,
        "marginals": [_marginal(column, span) for column, span in zip(draws.T, spans, strict=True)],
        "contours": _contours(draws, spans),
        "correlations": _correlations(draws),
        "intervals": list(posterior.interval(LEVEL).T[: len(names)]),  # each with digits for its own width
        "draws": draws[:SHOWN_DRAWS],
        "truth": None if truth is None else truth[: len(names)].tolist(),
        "color": COLORS["posterior"],
        "shade": COLORS["band"],
        "mark": COLORS["observed"],
    }


def _shown(posterior: Posterior, prior: np.ndarray, j: int, known: float | None) -> tuple[float, float]:
    """Return what a chart spans: almost all draws of prior and posterior, or the prior's support if hardly wider."""
    ends = float(posterior.prior.low[j]), float(posterior.prior.high[j])
    (low, high), seen = np.quantile(prior, [0.01, 0.99]), span_of(posterior.samples[:, j], known)
    span = max(ends[0], min(float(low), seen[0])), min(ends[1], max(float(high), seen[1]))
    return ends if ends[1] - ends[0] < HARDLY_WIDER * (span[1] - span[0]) else span


def _prior_curve(marginal: Any, draws: np.ndarray, span: tuple[float, float]) -> dict[str, np.ndarray]:
    """Return the exact density, averaged over narrow bins since it may be infinite; from draws if it is not known."""
    if marginal is None:
        return _curve(draws, span)
    edges = np.linspace(*span, BINS + 1)
    middles = (edges[1:] + edges[:-1]) / 2.0
    height = np.diff(marginal.cdf(edges)) / np.diff(edges)
    return {"x": np.concatenate([edges[:1], middles, edges[-1:]]), "y": np.pad(height, 1, mode="edge")}


def _curve(draws: np.ndarray, span: tuple[float, float]) -> dict[str, np.ndarray]:
    """Return the density of draws; the share that lies outside the span is not drawn, but counts."""
    inside = draws[(draws >= span[0]) & (draws <= span[1])]
    at, height = marginal_density(inside if len(inside) > 1 else draws, span)
    share = max(len(inside), 1) / len(draws)
    return {"x": at[::MARGINAL_STEP], "y": (share * height)[::MARGINAL_STEP]}


def _marginal(draws: np.ndarray, span: tuple[float, float]) -> dict[str, Any]:
    at, height = marginal_density(draws, span)
    at, height = at[::MARGINAL_STEP], height[::MARGINAL_STEP]
    below = np.searchsorted(np.sort(draws), at, side="right") / len(draws)
    return {"x": at, "y": height, "below": below}


def _contours(draws: np.ndarray, spans: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Return for each pair "row,column" the rings around its regions, the widest region first."""
    found = {}
    for i in range(draws.shape[1]):
        for j in range(i):
            (across, up), height, levels = joint_density(draws[:, j], draws[:, i], spans[j], spans[i])
            found[f"{i},{j}"] = [_rings(across, up, height.T, level) for level in levels]
    return found


def _rings(across: np.ndarray, up: np.ndarray, height: np.ndarray, level: float) -> list[np.ndarray]:
    """Return closed rings at a level; a border of zeros closes those that would leave the picture."""
    from contourpy import contour_generator

    edge = [np.concatenate([[v[0] - (v[1] - v[0])], v, [v[-1] + (v[1] - v[0])]]) for v in (across, up)]
    rings = contour_generator(x=edge[0], y=edge[1], z=np.pad(height, 1)).lines(level)
    return [np.asarray(ring)[: -1 if len(ring) > 3 else None] for ring in rings if len(ring) > 2]


def _correlations(draws: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(np.corrcoef(draws, rowvar=False))
