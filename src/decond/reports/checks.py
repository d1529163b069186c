"""Checks with a state and a sentence, and the verdict that they come to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from decond.lfi.diagnostics.words import percent
from decond.reports.document import number
from decond.reports.fitted_data import FittedData
from decond.reports.function import predictions

__all__ = ["Check", "fit_checks", "verdict"]

HELPED, HELPED_LITTLE = 2.0, 1.0
"""Resolutions from which deconditioning is said to have helped, and to have helped a little."""

LEVEL = 0.95
"""Level of the intervals whose coverage is checked."""

FEWEST = 20
"""Targets below which coverage says nothing."""

SURE = 0.01
"""Chance of a false alarm of the test of coverage."""

WIDE = 0.7
"""Standardized errors below this are too small: the error bars are wider than they need be."""

SLACK = 0.02
"""Coverage that may be missing however many targets there are."""

MAX_LEFT_OUT = 3000
"""Targets up to which each is left out once."""

QUESTION_BARS = "Do the error bars hold?"


@dataclass(frozen=True)
class Check:
    """One question about a result: `state` is "good", "open", "doubt" or "bad"; `finding` goes into the verdict."""

    question: str
    state: str
    finding: str
    sentence: str


def verdict(checks: Sequence[Check], otherwise: str) -> tuple[str, str]:
    """Return the worst state and one sentence: what is wrong if something is, else what is good and what is open.

    >>> good, bad = Check("a", "good", "it helped", ""), Check("b", "bad", "the bars are too narrow", "")
    >>> verdict([good], "")
    ('good', 'It helped.')
    >>> verdict([good, bad], "")
    ('bad', 'Use with care: the bars are too narrow.')
    """
    for state, opening in (("bad", "Use with care: "), ("doubt", "Look twice: ")):
        if any(check.state == state for check in checks):
            found = [check.finding for check in checks if check.state in ("bad", "doubt") and check.finding]
            return state, f"{opening}{_listed(found)}."
    good, unknown = ([c.finding for c in checks if c.state == state and c.finding] for state in ("good", "open"))
    text = ", but ".join(filter(None, [_listed(good) or otherwise, _listed(unknown)]))
    return "open" if unknown else "good", f"{text[:1].upper()}{text[1:]}."


def fit_checks(estimator: Any, data: FittedData) -> list[Check]:
    """Return what can be checked of a fitted estimator without further data."""
    return [
        *_resolution(estimator, data.kind),
        *(_left_out(estimator) if hasattr(estimator, "leave_one_out") else _rows_inside(estimator, data)),
        *_bounds(getattr(estimator, "fit_result_", None)),
        *_search(getattr(estimator, "fit_result_", None)),
    ]


def _resolution(estimator: Any, kind: str) -> list[Check]:
    if kind not in ("groups", "pairs") or not hasattr(estimator, "resolution"):
        return []
    try:
        value = estimator.resolution()
    except ValueError:
        return []
    question, what = "Did deconditioning help?", "group" if kind == "groups" else "value of the mediator"
    meaning = f"Within one {what} the function varies by {number(value, 2)} of its error bars"
    if value >= HELPED:
        return [Check(question, "good", "deconditioning helped", f"{meaning}: it tells apart rows that share one.")]
    if value >= HELPED_LITTLE:
        said = f"{meaning}: it hardly tells apart rows that share one."
        return [Check(question, "doubt", "deconditioning helped little", said)]
    said = f"{meaning}: it says no more than the targets do. A regression on E[x | y] does as well."
    return [Check(question, "doubt", "deconditioning did not help", said)]


def _left_out(estimator: Any) -> list[Check]:
    """Compare each target with its prediction from the others."""
    z = np.asarray(estimator.ensemble_.z) * estimator.scale_ + estimator.offset_
    if len(z) > MAX_LEFT_OUT:
        said = f"Not checked: there are {len(z):,} targets, and each would have to be left out once."
        return [Check(QUESTION_BARS, "open", "the error bars were not checked", said)]
    mean, deviation = estimator.leave_one_out()
    return [_bars((z - mean) / deviation, "was predicted from the others", "on targets that were left out")]


def _rows_inside(estimator: Any, data: FittedData) -> list[Check]:
    """Compare the targets of rows with predictions from all rows, where leaving one out changes next to nothing."""
    if data.kind != "rows" or getattr(estimator, "prediction", "targets") != "targets":
        said = f"Not checked: {type(estimator).__name__} cannot leave out single targets."
        return [Check(QUESTION_BARS, "open", "the error bars were not checked", said)]
    mean, std = predictions(estimator, data.x)
    deviation = np.hypot(0.0 if std is None else std, estimator.noise_ * estimator.scale_)
    return [
        _bars(
            (data.z - mean) / deviation,
            "was compared with the prediction, its own row among the data",
            "on the rows read",
        )
    ]


def _bars(errors: np.ndarray, how: str, where: str) -> Check:
    """Judge errors in units of their error bars: how many are inside an interval, and how large they are."""
    from scipy.stats import binomtest, norm

    inside = np.abs(errors) <= norm.ppf((1.0 + LEVEL) / 2.0)
    typical = float(np.sqrt(np.mean(errors**2)))
    if len(errors) < FEWEST:
        few = f"There are only {len(errors)} targets, too few to tell."
        return Check(QUESTION_BARS, "doubt", "there are too few targets to judge the error bars", few)
    said = (
        f"Each target {how}: {percent(np.mean(inside))} of {len(errors):,} lie inside their {percent(LEVEL)} "
        f"interval, and errors are {number(typical, 2)} times what the error bars say. This judges targets, and "
        "the function only through them."
    )
    narrow = binomtest(int(inside.sum()), len(errors), LEVEL).pvalue < SURE and np.mean(inside) < LEVEL - SLACK
    if narrow:
        return Check(QUESTION_BARS, "bad", "the error bars of targets are too narrow", said)
    if typical < WIDE:
        return Check(QUESTION_BARS, "doubt", "the error bars of targets are wider than need be", said)
    return Check(QUESTION_BARS, "good", f"the error bars hold {where}", said)


def _bounds(result: Any) -> list[Check]:
    if result is None:
        return []
    question = "Is the optimum inside the range that was searched?"
    if not result.on_bounds:
        return [Check(question, "good", "", "Every learned number lies inside its range.")]
    names = sorted({edge_name(name) for name in result.on_bounds})
    doubtful = [name for name in names if "noise" not in name]
    words = _on_edge(doubtful or names)
    if not doubtful:
        return [Check(question, "good", "", f"The learned {words}, as a noise well may that is next to nothing.")]
    said = f"The learned {words}: these data say little about it. Trust the error bars less."
    return [Check(question, "doubt", f"the {words}", said)]


def _on_edge(names: Sequence[str]) -> str:
    verb = "sits on the edge of its range" if len(names) == 1 else "sit on the edge of their ranges"
    return f"{_listed(names)} {verb}"


def _search(result: Any) -> list[Check]:
    if result is None:
        return [Check("Did the search end well?", "good", "", "Nothing was searched: all numbers were given.")]
    ended = np.asarray(result.starts, dtype=np.float64)
    same = int(np.sum(ended > ended.max() - 0.5)) if len(ended) else 0
    starts = f" {same} of {len(ended)} starts ended within 0.5 of the best log evidence." if len(ended) > 1 else ""
    sentence = f"{result.message[:1].upper()}{result.message[1:]} {result.evaluations:,} evaluations.{starts}"
    stopped = result.status != "converged"
    finding = "the search stopped before an optimum was reached" if stopped else ""
    return [Check("Did the search end well?", "doubt" if stopped else "good", finding, sentence)]


def edge_name(name: str) -> str:
    """Return the plain name of a parameter from how a `FitResult` lists it among those on an edge.

    >>> edge_name("prior.kernel.lengthscale [0]"), edge_name("observation.mediator_noise")
    ('lengthscale', 'mediator noise')
    """
    return name.partition(" ")[0].rpartition(".")[2].partition("[")[0].replace("_", " ")


def _listed(phrases: Sequence[str]) -> str:
    return phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} and {phrases[-1]}" if phrases else ""
