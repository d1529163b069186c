"""Checks of a fitted estimator: resolution, error bars, facts, bounds and search."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from decond.estimators.posterior_regressor import FitCheck
from decond.gp import FitResult
from decond.messages import number, percent
from decond.plotting.regression_plot import mean_and_std
from decond.reports.fit_description import FittedData
from decond.verdict import Check, State, Verdict

__all__ = ["Edge", "FitCheckSettings", "check_fit", "edges"]


@dataclass(frozen=True)
class FitCheckSettings:
    """When a fit is good, doubtful or bad."""

    clear_resolution: float = 3.0
    """Resolution from which deconditioning helped clearly; convention: three standard deviations."""
    least_resolution: float = 1.0
    """Resolution below which the error bars of f cannot be relied on: variation is within its own error."""
    level: float = 0.95
    """Level of the intervals whose coverage is checked; convention."""
    fewest_targets: int = 20
    """Targets below which coverage says nothing: one miss is 5 %."""
    false_alarms: float = 0.01
    """Probability that right error bars are called too narrow."""
    slack: float = 0.02
    """Coverage that may be missing however many targets there are."""
    wide: float = 0.7
    """Typical standardized error below which error bars are called wide; tuned on simulated data."""
    far: float = 1.5
    """Typical standardized error above which some targets lie far outside; tuned on simulated data."""
    most_left_out: int = 3000
    """Targets up to which each is left out once: the work grows with their square."""
    small_noise: float = 0.01
    """Noises up to this fraction of the deviation of the targets are next to nothing."""


@dataclass(frozen=True)
class Edge:
    """A learned number on the edge of its range; it is `harmless` if it is a noise that is next to nothing."""

    name: str
    harmless: bool
    sentence: str


def check_fit(estimator: BaseEstimator, data: FittedData, settings: FitCheckSettings | None = None) -> Verdict:
    """Return what can be checked of a fitted estimator without further data; the other setting is fitted for it.

    Parameters
    ----------
    estimator : fitted estimator
    data : FittedData
        What it was fitted on.
    settings : FitCheckSettings, optional

    Returns
    -------
    Verdict
    """
    settings = settings or FitCheckSettings()
    own = _own_check(estimator)
    resolution = _check_resolution(estimator, data, own, settings)
    bars = _check_error_bars(estimator, data, settings)
    if resolution and resolution.state == State.DOUBT:
        said = f"{bars.sentence} The resolution is below one, so the error bars of the function cannot be relied on."
        bars = _not_good(bars, "", said)
    result = getattr(estimator, "fit_result_", None)
    bounds = _check_bounds(result, data.z, settings)
    found = [resolution, bars, _check_signal(estimator, settings), _check_facts(own, data), bounds]
    found += [_check_search(result), _assumptions(data)]
    return Verdict([check for check in found if check is not None], f"learned from {data.words}")


def _own_check(estimator: BaseEstimator) -> FitCheck | str | None:
    """Return what an estimator says of itself, or a sentence why it cannot; None if it has no check."""
    try:
        return estimator.check() if hasattr(estimator, "check") else None
    except ValueError as error:
        return str(error)


def _check_resolution(
    estimator: BaseEstimator, data: FittedData, own: FitCheck | str | None, settings: FitCheckSettings
) -> Check | None:
    """Tell whether f varies by more than its error bar within what a target averages over; None without such."""
    if data.kind not in ("groups", "pairs") or not hasattr(estimator, "resolution"):
        return None
    what = "group" if data.kind == "groups" else "value of the mediator"
    check = Check("deconditioning", State.OPEN, "", "", question="Did deconditioning help?")
    try:
        value = float(estimator.resolution())
    except ValueError as error:
        return replace(check, finding="whether deconditioning helped is not known", sentence=f"Not checked: {error}")
    check = replace(check, numbers={"resolution": value})
    meaning = f"Within one {what} the function varies by {number(value, 2)} times its error bar"
    if value < settings.least_resolution:
        if np.isnan(getattr(own, "resolution", value)):
            said = f"x does not vary within one {what}. A regression on x does as well."
            return replace(check, finding="there was nothing to undo", sentence=said)
        unreliable = "the error bars of the function cannot be relied on"
        said = (
            f"{meaning}, which is less than one: the targets do not say how {data.target} varies there. A regression "
            f"on E[x | y] does as well, and {unreliable}."
        )
        finding = f"deconditioning did not help, and {unreliable}"
        return replace(check, state=State.DOUBT, finding=finding, sentence=said)
    if _is_plain(estimator):
        return replace(check, sentence=f"{meaning}. Plain error bars can be too narrow, and overstate this.")
    clear = value >= settings.clear_resolution
    closer = "smaller groups" if data.kind == "groups" else "a mediator that is closer to x"
    more = "." if clear else f", though not sharply. More rows and targets, or {closer}, would help."
    said = f"{meaning}: rows that share a {what} can be distinguished{more}"
    finding = "deconditioning helped" if clear else "deconditioning helped somewhat"
    return replace(check, state=State.GOOD, finding=finding, sentence=said)


def _check_facts(own: FitCheck | str | None, data: FittedData) -> Check | None:
    """Compare the fit with one of the other setting, and look at the residuals of the targets."""
    check = Check("facts", State.OPEN, "", "", question="Do the targets look as you said?")
    if own is None or isinstance(own, str):
        return None if own is None else replace(check, sentence=f"Not checked: {own}")
    numbers = {"advantage": own.advantage, "standard error": own.standard_error}
    check = replace(check, numbers=numbers if np.isfinite(own.advantage) else {})
    if own.hint:
        finding = "the targets do not look as you said"
        finding = finding if own.prefers_other else "the errors of targets are far from normal"
        return replace(check, state=State.DOUBT, finding=finding, sentence=own.hint)
    if not check.numbers:
        return None  # there is no other setting
    other = "the other kind of targets"
    other = other if data.has_numeric_mediator else "the other answer to whether all rows are listed"
    said = (
        f"A second model was fitted with {other}. It does not predict held-out targets clearly better: the log "
        f"density differs by {number(own.advantage, 2)} ± {number(own.standard_error, 2)}."
    )
    return replace(check, state=State.GOOD, sentence=said)


def _is_plain(estimator: BaseEstimator) -> bool:
    return getattr(estimator, "uncertainty", None) == "plain"


def _check_error_bars(estimator: BaseEstimator, data: FittedData, settings: FitCheckSettings) -> Check:
    """Compare each target with its prediction: from the others, or else from all rows, its own among them."""
    if hasattr(estimator, "leave_one_out"):
        count = len(estimator.average_.z)
        if count > settings.most_left_out:
            return _not_checked(f"there are {count:,} targets, and each would have to be left out once.")
        unit = "distinct label" if data.kind == "pairs" and count < len(data.z) else "target"
        check = judge_errors(np.ravel(estimator.standardized_residuals()), unit, settings)
        if not _is_plain(estimator):
            return check
        unknown = {"pairs": "x given y and ", "groups": "x within a group and "}.get(data.kind, "")
        limit = f"plain error bars leave out the uncertainty of {unknown}hyperparameters"
        said = f'{check.sentence} {limit[:1].upper()}{limit[1:]}: use uncertainty="honest".'
        return _not_good(check, limit, said)
    if data.kind != "rows" or not hasattr(estimator, "inducing_") or estimator.prediction != "targets":
        return _not_checked(f"{type(estimator).__name__} cannot leave out single targets.")
    rows = data.x if hasattr(estimator, "feature_names_in_") else data.x.to_numpy()
    mean, std = mean_and_std(estimator, rows)
    deviation = np.hypot(0.0 if std is None else std, estimator.noise_ * estimator.scale_)
    check = judge_errors((data.z - mean) / deviation, "target", settings)
    own = "each target was among the data that predict it"
    return _not_good(
        check, f"the error bars were checked on training data only: {own}", f"{check.sentence} But {own}."
    )


def _assumptions(data: FittedData) -> Check | None:
    """Return what no check of these tables can tell."""
    if data.kind not in ("pairs", "groups"):
        return None
    said = "The listed rows are all rows of their group, or a random sample of them."
    if data.kind == "pairs":
        said = f"{', '.join(data.x.columns)} given the mediator is distributed alike in both tables."
    said += f" Given {', '.join(data.x.columns)}, nothing else that differs between targets moves {data.target}."
    return Check("assumptions", State.OPEN, "", said, question="What is assumed, and cannot be checked here?")


def _check_signal(estimator: BaseEstimator, settings: FitCheckSettings) -> Check | None:
    """Compare held-out targets with their predictions and with the mean of the others."""
    count = len(estimator.average_.z) if hasattr(estimator, "leave_one_out") else 0
    if not 2 < count <= settings.most_left_out:
        return None
    mean, _ = estimator.leave_one_out()
    z = estimator._in_units(estimator.average_.z)
    error, constant = np.mean((z - mean) ** 2), np.mean((count / (count - 1.0) * (z - z.mean(axis=0))) ** 2)
    if constant == 0.0:
        return None
    gain = 1.0 - float(error / constant)
    check = Check("signal", State.GOOD, "", "", {"gain": gain}, "Do the rows say anything about the targets?")
    if gain <= 0.0:
        said = "Held-out targets are predicted no better than by the mean of the others."
        return replace(check, state=State.DOUBT, finding="the rows say nothing about held-out targets", sentence=said)
    said = f"The squared error of held-out targets is {percent(gain)} less than that of the mean of the others."
    return replace(check, sentence=said)


def _not_checked(why: str) -> Check:
    question = "Are the error bars of held-out targets right?"
    return Check(
        "error bars", State.OPEN, "the error bars were not checked", f"Not checked: {why}", question=question
    )


def _not_good(check: Check, finding: str, sentence: str) -> Check:
    """Return a check with a longer sentence, and open where it would be good."""
    if check.state == State.GOOD:
        return replace(check, state=State.OPEN, finding=finding, sentence=sentence)
    return replace(check, sentence=sentence)


def judge_errors(errors: NDArray[np.float64], unit: str, settings: FitCheckSettings) -> Check:
    """Check errors in units of their error bars: how many are inside an interval, and how large they are.

    Parameters
    ----------
    errors : ndarray of shape (n,)
        Standardized errors.
    unit : str
        What each is the error of.
    settings : FitCheckSettings

    Returns
    -------
    Check
    """
    from scipy.stats import binomtest, norm

    check = replace(_not_checked(""), numbers={"targets": len(errors)})
    if len(errors) < settings.fewest_targets:
        said = f"There are only {len(errors)} {unit}s, too few to tell."
        finding = f"there are too few {unit}s to check the error bars"
        return replace(check, state=State.DOUBT, finding=finding, sentence=said)
    inside = np.abs(errors) <= norm.ppf((1.0 + settings.level) / 2.0)
    coverage, typical = float(np.mean(inside)), float(np.sqrt(np.mean(errors**2)))
    said = (
        f"Each {unit} was compared with its prediction: {100.0 * coverage:.3g} % of {len(errors):,} lie inside their "
        f"{100.0 * settings.level:g} % interval, and errors are {number(typical, 2)} times what the error bars say. "
        "This checks predictions of targets; it says less about the band of the function."
    )
    p = binomtest(int(inside.sum()), len(errors), settings.level).pvalue
    state, finding = State.GOOD, "the error bars of targets are right when each is left out"
    if p < settings.false_alarms and coverage < settings.level - settings.slack:
        state, finding = State.BAD, "the error bars of targets are too narrow"
    elif typical > settings.far:
        state, finding = State.DOUBT, "some targets lie far outside their error bars"
    elif typical < settings.wide:
        state = State.OPEN
        finding = "the error bars of targets are wider than necessary; those of the function may be right"
    numbers = {**check.numbers, "coverage": coverage, "typical error": typical}
    return replace(check, state=state, finding=finding, sentence=said, numbers=numbers)


def _check_bounds(result: FitResult | None, targets: NDArray[np.float64], settings: FitCheckSettings) -> Check | None:
    if result is None or result.status == "sampled":  # draws stay inside their ranges
        return None
    found = edges(result, targets, settings)
    names = [edge.name for edge in found if not edge.harmless]
    said = " ".join(edge.sentence for edge in found)
    state = State.DOUBT if names else State.GOOD
    finding = f"learned numbers sit on the edge of their range ({', '.join(names)})" if names else ""
    question = "Is the optimum inside the range that was searched?"
    return Check("bounds", state, finding, said or "Every learned number lies inside its range.", question=question)


def edges(result: FitResult, targets: ArrayLike, settings: FitCheckSettings | None = None) -> list[Edge]:
    """Return the learned numbers that are on the edge of their range, one for each name.

    Parameters
    ----------
    result : FitResult
    targets : array_like of shape (n,)
    settings : FitCheckSettings, optional

    Returns
    -------
    list of Edge

    Examples
    --------
    >>> import numpy as np
    >>> from decond.estimators import DirectGP
    >>> x = np.linspace(0.0, 9.0, 20)
    >>> gp = DirectGP(n_restarts=0, uncertainty="plain").fit(x[:, None], np.sin(x))
    >>> [(edge.name, edge.harmless) for edge in edges(gp.fit_result_, np.sin(x))]
    [('noise', True)]
    """
    deviation = float(np.std(np.asarray(targets, dtype=np.float64)))
    small = (settings or FitCheckSettings()).small_noise
    found: dict[str, Edge] = {}
    for listed in result.on_bounds:
        path = listed.partition(" ")[0]
        name = path.rpartition(".")[2].partition("[")[0].replace("_", " ")
        value = result.parameters.get(path)
        noise = np.max(value) if "noise" in name and value is not None else np.nan
        if noise <= small * deviation:
            said = "sits on the lower edge of its range: the model explains the targets without it."
        elif noise >= deviation:
            said = "sits on the upper edge of its range: the function explains next to nothing. Do not rely on it."
        else:
            said = "sits on the edge of its range: these data say little about it. Trust the error bars less."
        if name not in found or found[name].harmless:
            found[name] = Edge(name, bool(noise <= small * deviation), f"The learned {name} {said}")
    return list(found.values())


def _check_search(result: FitResult | None) -> Check:
    question = "Did learning finish?"
    if result is None:
        return Check("search", State.OPEN, "", "Nothing was learned: all numbers were given.", question=question)
    optima = np.asarray(result.starts, dtype=np.float64)
    starts = ""
    if len(optima) > 1:
        same = int(np.sum(optima > optima.max() - 0.5))
        starts = f" {same} of {len(optima)} starts ended within 0.5 of the best log evidence."
    unit = "sweeps of the Gibbs sampler" if result.status == "sampled" else "evaluations"
    said = f"{result.message[:1].upper()}{result.message[1:]} {result.evaluations:,} {unit}.{starts}"
    stopped = result.status == "stopped"
    finding = "the search stopped before it reached an optimum" if stopped else ""
    return Check("search", State.DOUBT if stopped else State.GOOD, finding, said, question=question)
