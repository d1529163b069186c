"""Checks of a result, each with a state and a sentence, and the verdict that they add up to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from decond.notebook import listed, number, percent
from decond.reports.edges import edges
from decond.reports.fitted_data import FittedData
from decond.reports.function import predictions

__all__ = ["Assessment", "Check", "State", "assess", "fit_checks", "verdict"]

HELPED, HELPED_SOMEWHAT = 3.0, 1.0
"""Resolutions from which deconditioning is said to have helped, and to have helped somewhat. Below the second, the
error bars of f cannot be relied on."""

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

LEFT_OUT = "when each is left out"

UNRELIABLE = "the error bars of the function cannot be relied on"

QUESTIONS = {
    "deconditioning": "Did deconditioning help?",
    "error bars": "Are the error bars of held-out targets right?",
    "facts": "Do the targets look as you said?",
    "bounds": "Is the optimum inside the range that was searched?",
    "search": "Did learning finish?",
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
    """The outcome of a check; a verdict has the worst state of its checks."""

    GOOD = "good"
    OPEN = "open"
    DOUBT = "doubt"
    BAD = "bad"


@dataclass(frozen=True)
class Check:
    """One question about a result, and the answer.

    Attributes:
        name: What is checked, such as "error bars" or "calibration".
        state: The outcome.
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
    (<State.BAD: 'bad'>, 'Do not rely on this: the bars are too narrow.')
    """
    for state, opening in ((State.BAD, "Do not rely on this: "), (State.DOUBT, "Use with caution: ")):
        if any(check.state == state for check in checks):
            found = [check.finding for check in checks if check.state in (State.BAD, State.DOUBT) and check.finding]
            return state, f"{opening}{_joined(found)}."
    good, unknown = (
        [c.finding for c in checks if c.state == state and c.finding] for state in (State.GOOD, State.OPEN)
    )
    text = ", but ".join(filter(None, [_joined(good) or otherwise, _joined(unknown)]))
    return State.OPEN if unknown else State.GOOD, f"{text[:1].upper()}{text[1:]}."


@dataclass(frozen=True)
class Assessment:
    """The checks of a fit, their worst `state`, and the `verdict` in one sentence."""

    state: State
    verdict: str
    checks: list[Check]

    @property
    def sentences(self) -> list[str]:
        """The verdict, then what is said about deconditioning and about facts that are in doubt."""
        reasons = (
            c for c in self.checks if c.name == "deconditioning" or (c.name == "facts" and c.state == State.DOUBT)
        )
        return [self.verdict, *(check.sentence for check in reasons)]


def assess(estimator: Any, data: FittedData) -> Assessment:
    """Return the checks of a fitted estimator, and their verdict."""
    checks = fit_checks(estimator, data)
    return Assessment(*verdict(checks, f"learned from {data.words}"), checks)


def fit_checks(estimator: Any, data: FittedData) -> list[Check]:
    """Return what can be checked of a fitted estimator without further data; the other setting is fitted for it."""
    resolution = _resolution(estimator, data)
    bars = _left_out(estimator, data) if hasattr(estimator, "leave_one_out") else _rows_inside(estimator, data)
    unresolved = any(check.state == State.DOUBT for check in resolution)
    return [
        *resolution,
        _with_unreliable_band(bars) if unresolved else bars,
        *_facts(estimator, data),
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
    meaning = f"Within one {what} the function varies by {number(value, 2)} times its error bar"
    tells = f"{meaning}: rows that share a {what} can be told apart"
    if value >= HELPED_SOMEWHAT and _is_plain(estimator):
        said = f"{meaning}. That may overstate it, because plain error bars can be too narrow."
        return [Check(name, State.OPEN, "", said, numbers)]
    if value >= HELPED:
        return [Check(name, State.GOOD, "deconditioning helped", f"{tells}.", numbers)]
    if value >= HELPED_SOMEWHAT:
        better = "smaller groups" if kind == "groups" else "a mediator that is closer to x"
        said = f"{tells}, though not sharply. More rows and targets, or {better}, would help."
        return [Check(name, State.GOOD, "deconditioning helped somewhat", said, numbers)]
    said = (
        f"{meaning}, which is less than one: the targets do not say how {data.target} varies there. A regression on "
        f"E[x | y] does as well, and {UNRELIABLE}."
    )
    return [Check(name, State.DOUBT, f"deconditioning did not help, and {UNRELIABLE}", said, numbers)]


def _with_unreliable_band(bars: Check) -> Check:
    """Return a check of error bars where the resolution is below one: nothing about them is good then."""
    said = f"{bars.sentence} The resolution is below one: {UNRELIABLE}, however well targets are predicted."
    if bars.state == State.GOOD:
        return replace(bars, state=State.OPEN, finding="", sentence=said)
    return replace(bars, sentence=said)


def _facts(estimator: Any, data: FittedData) -> list[Check]:
    """Compare the fit with one of the other setting, and look at the residuals of the targets."""
    if not hasattr(estimator, "check"):
        return []
    try:
        found = estimator.check()
    except ValueError as error:
        return [Check("facts", State.OPEN, "", f"Not checked: {error}")]
    numbers = {"advantage": found.advantage, "standard error": found.standard_error}
    numbers = numbers if np.isfinite(found.advantage) else {}
    if found.hint:
        normal = "the errors of targets are far from normal"
        finding = "the targets do not look as you said" if found.prefers_other else normal
        return [Check("facts", State.DOUBT, finding, found.hint, numbers)]
    if not numbers:
        return []  # there is no other setting
    other = "the other kind of targets" if _has_numbers(data) else "the other answer to whether all rows are listed"
    said = (
        f"A second model was fitted with {other}. It does not predict held-out targets clearly better: the log "
        f"density differs by {number(found.advantage, 2)} ± {number(found.standard_error, 2)}."
    )
    return [Check("facts", State.GOOD, "", said, numbers)]


def _is_alike_within(data: FittedData) -> bool:
    """Tell whether x is the same in all rows of a group or of a label; with a mediator of numbers, in all rows."""
    assert data.mediator is not None
    if data.kind == "pairs" and all(kind.kind in "biuf" for kind in data.mediator.dtypes):
        return bool((data.x.nunique() <= 1).all())
    return bool((data.x.groupby([column for _, column in data.mediator.items()]).nunique() <= 1).all(axis=None))


def _has_numbers(data: FittedData) -> bool:
    """Tell whether the mediator has a column of numbers; groups are labels."""
    return data.kind == "pairs" and data.mediator is not None and any(k.kind in "biuf" for k in data.mediator.dtypes)


def _left_out(estimator: Any, data: FittedData) -> Check:
    """Compare each target with its prediction from the others; of labels, the mean of their targets."""
    count = len(estimator.average_.z)
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
    unknown = {"pairs": "x given y and ", "groups": "x within a group and "}.get(kind, "")
    finding = f"plain error bars leave out the uncertainty of {unknown}hyperparameters"
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
            f"Not checked: {data.n_rows:,} rows are too few for {points:,} inducing points to check a model on the "
            f"rows it was fitted to. From {ROWS_PER_POINT * points:,} rows on it is checked."
        )
        return Check("error bars", State.OPEN, finding, said)
    mean, std = predictions(estimator, data.x)
    deviation = np.hypot(0.0 if std is None else std, estimator.noise_ * estimator.scale_)
    how = "compared with the prediction, its own row among the data"
    return _bars((data.z - mean) / deviation, "target", how, "on the rows read")


def _bars(errors: np.ndarray, unit: str, how: str, where: str) -> Check:
    """Check errors in units of their error bars: how many are inside an interval, and how large they are."""
    from scipy.stats import binomtest, norm

    inside = np.abs(errors) <= norm.ppf((1.0 + LEVEL) / 2.0)
    name, coverage, typical = "error bars", float(np.mean(inside)), float(np.sqrt(np.mean(errors**2)))
    if len(errors) < FEWEST:
        few = f"There are only {len(errors)} {unit}s, too few to tell."
        finding = f"there are too few {unit}s to check the error bars"
        return Check(name, State.DOUBT, finding, few, {"targets": len(errors)})
    said = (
        f"Each {unit} was {how}: {percent(coverage)} of {len(errors):,} lie inside their {percent(LEVEL)} "
        f"interval, and errors are {number(typical, 2)} times what the error bars say. This checks predictions of "
        "targets; it says less about the band of the function."
    )
    numbers = {"targets": len(errors), "coverage": coverage, "typical error": typical}
    narrow = binomtest(int(inside.sum()), len(errors), LEVEL).pvalue < SURE and coverage < LEVEL - SLACK
    if narrow:
        return Check(name, State.BAD, "the error bars of targets are too narrow", said, numbers)
    if typical > FAR:
        return Check(name, State.DOUBT, "some targets lie far outside their error bars", said, numbers)
    if typical < WIDE:
        finding = "the error bars of targets are wider than necessary; those of the function may be right"
        return Check(name, State.OPEN, finding, said, numbers)
    return Check(name, State.GOOD, f"the error bars of targets are right {where}", said, numbers)


def _bounds(result: Any, targets: np.ndarray) -> list[Check]:
    if result is None or result.status == "sampled":  # draws stay inside their ranges
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
        return [Check("search", State.GOOD, "", "Nothing was learned: all numbers were given.")]
    ended = np.asarray(result.starts, dtype=np.float64)
    same = int(np.sum(ended > ended.max() - 0.5)) if len(ended) else 0
    starts = f" {same} of {len(ended)} starts ended within 0.5 of the best log evidence." if len(ended) > 1 else ""
    unit = "sweeps of the Gibbs sampler" if result.status == "sampled" else "evaluations"
    sentence = f"{result.message[:1].upper()}{result.message[1:]} {result.evaluations:,} {unit}.{starts}"
    stopped = result.status == "stopped"
    finding = "the search stopped before it reached an optimum" if stopped else ""
    return [Check("search", State.DOUBT if stopped else State.GOOD, finding, sentence)]


def _joined(findings: Sequence[str]) -> str:
    """Return all findings as one sentence's worth: none of them may be left out."""
    return f"{', '.join(findings[:-1])} and {findings[-1]}" if len(findings) > 1 else "".join(findings)
