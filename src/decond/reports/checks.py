"""Checks with a state and a sentence, and the verdict that they come to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from decond.lfi.diagnostics.words import listed, percent
from decond.notebook import number
from decond.reports.edges import edges
from decond.reports.fitted_data import FittedData
from decond.reports.function import predictions

__all__ = ["Check", "Judgment", "State", "fit_checks", "judged", "verdict"]

HELPED, HELPED_SOMEWHAT = 3.0, 1.0
"""Resolutions from which deconditioning is said to have helped, and to have helped somewhat."""

LEVEL = 0.95
"""Level of the intervals whose coverage is checked."""

FEWEST = 20
"""Targets below which coverage says nothing."""

SURE = 0.01
"""Chance of a false alarm of the test of coverage."""

WIDE, FAR = 0.7, 1.5
"""Standardized errors below the first are too small: error bars are wider than they need be. Above the second some
targets lie far outside, however many lie inside."""

SLACK = 0.02
"""Coverage that may be missing however many targets there are."""

MAX_LEFT_OUT = 3000
"""Targets up to which each is left out once."""

ROWS_PER_POINT = 10
"""Rows for each inducing point from which on a row changes its own prediction but little."""

LEFT_OUT = "where each was left out"

QUESTIONS = {
    "deconditioning": "Did deconditioning help?",
    "error bars": "Do the error bars of targets hold?",
    "bounds": "Is the optimum inside the range that was searched?",
    "search": "Did the search end well?",
    "truth": "Is the known truth inside?",
    "calibration": "Are its uncertainties right?",
    "simulations": "Are there enough simulations?",
    "prediction": "Do its parameters reproduce the observation?",
    "observation": "Does the observation lie among the simulations?",
    "failures": "Did the simulations run?",
    "width": "What did the observation tell?",
    "draws": "Are the draws spread out?",
    "prior": "Is the prior wide enough?",
}
"""What is asked of a fit and of an inference, by the name of the check."""


class State(StrEnum):
    """What a check comes to; a verdict has the worst state of its checks."""

    GOOD = "good"
    OPEN = "open"
    DOUBT = "doubt"
    BAD = "bad"


@dataclass(frozen=True)
class Check:
    """One question about a result, and the answer.

    Attributes:
        name: What is checked, such as "error bars" or "calibration".
        state: What it comes to.
        finding: What the verdict says about it; empty if it adds nothing.
        sentence: The answer in full.
        numbers: What was measured, by name; empty if nothing could be.
    """

    name: str
    state: State
    finding: str
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def question(self) -> str:
        """The question that it answers."""
        return QUESTIONS[self.name]


def verdict(checks: Sequence[Check], otherwise: str) -> tuple[State, str]:
    """Return the worst state and one sentence: what is wrong if something is, else what is good and what is open.

    >>> good = Check("deconditioning", State.GOOD, "it helped", "")
    >>> bad = Check("error bars", State.BAD, "the bars are too narrow", "")
    >>> verdict([good], "")
    (<State.GOOD: 'good'>, 'It helped.')
    >>> verdict([good, bad], "")
    (<State.BAD: 'bad'>, 'Use with care: the bars are too narrow.')
    """
    for state, opening in ((State.BAD, "Use with care: "), (State.DOUBT, "Look twice: ")):
        if any(check.state == state for check in checks):
            found = [check.finding for check in checks if check.state in (State.BAD, State.DOUBT) and check.finding]
            return state, f"{opening}{_joined(found)}."
    good, unknown = (
        [c.finding for c in checks if c.state == state and c.finding] for state in (State.GOOD, State.OPEN)
    )
    text = ", but ".join(filter(None, [_joined(good) or otherwise, _joined(unknown)]))
    return State.OPEN if unknown else State.GOOD, f"{text[:1].upper()}{text[1:]}."


@dataclass(frozen=True)
class Judgment:
    """What the checks of a fit come to: the worst `state`, the `verdict` in one sentence, and the checks."""

    state: State
    verdict: str
    checks: list[Check]

    @property
    def sentences(self) -> list[str]:
        """The verdict, and what it rests on where it speaks of deconditioning."""
        return [self.verdict, *(check.sentence for check in self.checks if check.name == "deconditioning")]


def judged(estimator: Any, data: FittedData) -> Judgment:
    """Return what can be said of a fitted estimator and its data."""
    checks = fit_checks(estimator, data)
    return Judgment(*verdict(checks, f"learned from {data.words}"), checks)


def fit_checks(estimator: Any, data: FittedData) -> list[Check]:
    """Return what can be checked of a fitted estimator without further data."""
    return [
        *_resolution(estimator, data),
        _left_out(estimator, data) if hasattr(estimator, "leave_one_out") else _rows_inside(estimator, data),
        *_bounds(getattr(estimator, "fit_result_", None), data.z),
        *_search(getattr(estimator, "fit_result_", None)),
    ]


def _resolution(estimator: Any, data: FittedData) -> list[Check]:
    kind = data.kind
    if kind not in ("groups", "pairs") or not hasattr(estimator, "resolution"):
        return []
    name, what = "deconditioning", "group" if kind == "groups" else "value of the mediator"
    try:
        value = float(estimator.resolution())
    except ValueError as error:
        return [Check(name, State.OPEN, "whether deconditioning helped is not known", f"Not checked: {error}")]
    numbers = {"resolution": value}
    if value < HELPED_SOMEWHAT and _is_alike_within(data):
        said = f"x does not vary within one {what}. A regression on x does as well."
        return [Check(name, State.OPEN, "there was nothing to undo", said, numbers)]
    meaning = f"Within one {what} the function varies by {number(value, 2)} of its error bars"
    tells = f"{meaning}: it tells apart rows of the same {what}"
    if value >= HELPED_SOMEWHAT and _is_plain(estimator):
        said = f"{meaning}. That may be too much: plain error bars can be too narrow, and this counts in their units."
        return [Check(name, State.OPEN, "", said, numbers)]
    if value >= HELPED:
        return [Check(name, State.GOOD, "deconditioning helped", f"{tells}.", numbers)]
    if value >= HELPED_SOMEWHAT:
        better = "smaller groups" if kind == "groups" else "a mediator that tells more of x"
        said = f"{tells}, though not sharply. More rows and targets, or {better}, would sharpen it."
        return [Check(name, State.GOOD, "deconditioning helped somewhat", said, numbers)]
    said = f"{meaning}: it says no more than the targets do. A regression on E[x | y] does as well."
    return [Check(name, State.DOUBT, "deconditioning did not help", said, numbers)]


def _is_alike_within(data: FittedData) -> bool:
    """Tell whether x is the same in all rows of a group or of a label; with a mediator of numbers, in all rows."""
    assert data.mediator is not None
    numbers = data.kind == "pairs" and all(kind.kind in "biuf" for kind in data.mediator.dtypes)
    if numbers:
        return bool((data.x.nunique() <= 1).all())
    return bool((data.x.groupby([column for _, column in data.mediator.items()]).nunique() <= 1).all(axis=None))


def _left_out(estimator: Any, data: FittedData) -> Check:
    """Compare each target with its prediction from the others; of labels, the mean of their targets."""
    count = len(estimator.ensemble_.z)
    if count > MAX_LEFT_OUT:
        said = f"Not checked: there are {count:,} targets, and each would have to be left out once."
        return Check("error bars", State.OPEN, "the error bars were not checked", said)
    of_labels = data.kind == "pairs" and count < len(data.z)
    errors = np.ravel(estimator.standardized_residuals())
    found = _bars(errors, "distinct label" if of_labels else "target", "predicted from the others", LEFT_OUT)
    return _with_limits(found, data.kind) if _is_plain(estimator) else found


def _is_plain(estimator: Any) -> bool:
    return getattr(estimator, "uncertainty", None) == "plain"


def _with_limits(found: Check, kind: str) -> Check:
    """Return a check of plain error bars: what they leave out keeps them from being called good."""
    unknown = {"pairs": "of x given y and of", "groups": "of x within a group and of"}.get(kind, "of")
    finding = f"plain error bars leave out what is not known {unknown} hyperparameters"
    said = f'{found.sentence} {finding[:1].upper()}{finding[1:]}: use uncertainty="honest".'
    if found.state == State.GOOD:
        return replace(found, state=State.OPEN, finding=finding, sentence=said)
    return replace(found, sentence=said)


def _rows_inside(estimator: Any, data: FittedData) -> Check:
    """Compare the targets of rows with predictions from all rows, where leaving one out changes next to nothing."""
    finding, points = "the error bars were not checked", len(getattr(estimator, "inducing_", ()))
    if data.kind != "rows" or not points or estimator.prediction != "targets":
        said = f"Not checked: {type(estimator).__name__} cannot leave out single targets."
        return Check("error bars", State.OPEN, finding, said)
    if data.n_rows < ROWS_PER_POINT * points:
        said = (
            f"Not checked: it has learned from these rows, and {data.n_rows:,} for {points:,} inducing points "
            f"are too few to judge it by. At {ROWS_PER_POINT * points:,} rows it would be checked."
        )
        return Check("error bars", State.OPEN, finding, said)
    mean, std = predictions(estimator, data.x)
    deviation = np.hypot(0.0 if std is None else std, estimator.noise_ * estimator.scale_)
    how = "compared with the prediction, its own row among the data"
    return _bars((data.z - mean) / deviation, "target", how, "on the rows read")


def _bars(errors: np.ndarray, unit: str, how: str, where: str) -> Check:
    """Judge errors in units of their error bars: how many are inside an interval, and how large they are."""
    from scipy.stats import binomtest, norm

    inside = np.abs(errors) <= norm.ppf((1.0 + LEVEL) / 2.0)
    name, coverage, typical = "error bars", float(np.mean(inside)), float(np.sqrt(np.mean(errors**2)))
    if len(errors) < FEWEST:
        few = f"There are only {len(errors)} {unit}s, too few to tell."
        finding = f"there are too few {unit}s to judge the error bars"
        return Check(name, State.DOUBT, finding, few, {"targets": len(errors)})
    said = (
        f"Each {unit} was {how}: {percent(coverage)} of {len(errors):,} lie inside their {percent(LEVEL)} "
        f"interval, and errors are {number(typical, 2)} times what the error bars say. This judges targets, and "
        "the function only through them."
    )
    numbers = {"targets": len(errors), "coverage": coverage, "typical error": typical}
    narrow = binomtest(int(inside.sum()), len(errors), LEVEL).pvalue < SURE and coverage < LEVEL - SLACK
    if narrow:
        return Check(name, State.BAD, "the error bars of targets are too narrow", said, numbers)
    if typical > FAR:
        return Check(name, State.DOUBT, "some targets lie far outside their error bars", said, numbers)
    if typical < WIDE:
        finding = "error bars of new targets are wider than they have to be; those of the function may be right"
        return Check(name, State.OPEN, finding, said, numbers)
    return Check(name, State.GOOD, f"the error bars of targets hold {where}", said, numbers)


def _bounds(result: Any, targets: np.ndarray) -> list[Check]:
    if result is None:
        return []
    found = edges(result, targets)
    if not found:
        return [Check("bounds", State.GOOD, "", "Every learned number lies inside its range.")]
    said = " ".join(f"{edge.sentence[:1].upper()}{edge.sentence[1:]}" for edge in found)
    names = [edge.name for edge in found if not edge.harmless]
    if not names:
        return [Check("bounds", State.GOOD, "", said)]
    verb = "sits on the edge of its range" if len(names) == 1 else "sit on the edge of their ranges"
    return [Check("bounds", State.DOUBT, f"the learned {listed(names)} {verb}", said)]


def _search(result: Any) -> list[Check]:
    if result is None:
        return [Check("search", State.GOOD, "", "Nothing was searched: all numbers were given.")]
    ended = np.asarray(result.starts, dtype=np.float64)
    same = int(np.sum(ended > ended.max() - 0.5)) if len(ended) else 0
    starts = f" {same} of {len(ended)} starts ended within 0.5 of the best log evidence." if len(ended) > 1 else ""
    sentence = f"{result.message[:1].upper()}{result.message[1:]} {result.evaluations:,} evaluations.{starts}"
    stopped = result.status != "converged"
    finding = "the search stopped before an optimum was reached" if stopped else ""
    return [Check("search", State.DOUBT if stopped else State.GOOD, finding, sentence)]


def _joined(findings: Sequence[str]) -> str:
    """Return all findings as one sentence's worth: none of them may be left out."""
    return f"{', '.join(findings[:-1])} and {findings[-1]}" if len(findings) > 1 else "".join(findings)
