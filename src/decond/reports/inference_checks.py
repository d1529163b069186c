"""What can be checked of a posterior: with a diagnosis its findings, without one what costs nothing."""

from typing import Any

import numpy as np

from decond.checks import as_row
from decond.lfi import Posterior, diagnostics
from decond.lfi.diagnostics.predictive_checks import share_as_remote
from decond.notebook import listed, number, percent
from decond.reports.checks import Check, State

__all__ = ["NOTHING_WRONG", "observed_row", "posterior_checks"]

NOTHING_WRONG = "nothing was found wrong"
"""What is said where no check has a finding."""

MANY_FAILED = 0.2
"""Share of failed simulations from which on they are worth a second look."""

HARDLY_NARROWER = 0.9
"""A posterior whose deviation is at least this share of the prior's has learned next to nothing."""

EDGE = 0.01
"""Share of a support that counts as its edge."""

FEW_DISTINCT = 30
"""Distinct draws below which neither intervals nor densities mean anything."""

NO_WIDTH = 1e-4
"""A posterior narrower than this share of the prior is more likely a mistake than knowledge."""

SURELY = 0.99
"""Level of the interval that a known truth should lie in."""

PILED_UP = 0.1
"""Share of the draws on an edge that makes a prior look too narrow."""


def posterior_checks(
    posterior: Posterior,
    observed: np.ndarray,
    diagnosis: diagnostics.Report | None,
    truth: np.ndarray | None = None,
) -> list[Check]:
    """Return the checks of a posterior, those that matter most first."""
    return [
        *_truth(posterior, truth),
        _calibration(diagnosis),
        *_enough(posterior, diagnosis),
        *_predictive(diagnosis),
        *_remote(posterior, observed, diagnosis),
        *_failed(posterior),
        *_narrowed(posterior),
        *_distinct(posterior),
        *_on_edges(posterior),
    ]


def observed_row(posterior: Posterior, observed: Any) -> np.ndarray:
    """Return an observation as a row in the order of the simulations, where the posterior has any."""
    sims = posterior.simulations
    return as_row(observed, "observed") if sims is None else sims.observed_row(observed)


def _truth(posterior: Posterior, truth: np.ndarray | None) -> list[Check]:
    """Compare with the parameters that made the observation, where they are known."""
    if truth is None:
        return []
    low, high = posterior.interval(SURELY)
    outside = [name for name, a, v, b in zip(posterior.names, low, truth, high, strict=True) if not a <= v <= b]
    level = percent(SURELY)
    if not outside:
        return [Check("truth", State.GOOD, "", f"Every parameter's {level} interval holds its true value.")]
    which = listed(outside)
    said = f"The true value of {which} lies outside the {level} interval. Of right intervals 1 in 100 misses it."
    return [Check("truth", State.BAD, f"the truth of {which} lies outside the {level} interval", said)]


def _distinct(posterior: Posterior) -> list[Check]:
    """Look for draws that are too few or too close to each other to be a posterior."""
    count = len(np.unique(posterior.samples, axis=0))
    if count < FEW_DISTINCT:
        said = f"Only {count:,} of {len(posterior.samples):,} draws are distinct: intervals mean little then."
        return [Check("draws", State.DOUBT, "the posterior has hardly any distinct draws", said, {"distinct": count})]
    narrow = [name for name, ratio in zip(posterior.names, _widths(posterior), strict=True) if ratio < NO_WIDTH]
    if narrow:
        which = listed(narrow)
        said = f"The middle 68 % of {which} are less than {percent(NO_WIDTH)} as wide as the prior's. Can that be?"
        finding = f"the posterior of {which} has next to no width"
        return [Check("draws", State.DOUBT, finding, said, {"distinct": count})]
    return []


def _calibration(diagnosis: diagnostics.Report | None) -> Check:
    if diagnosis is None or diagnosis.calibration is None:
        why = "Refitting on held-out simulations tells: decond infer --check, or lfi.diagnose."
        if diagnosis is not None:
            why = diagnosis.why_not
        return Check(
            "calibration", State.OPEN, "the calibration of the posterior was not checked", f"Not checked. {why}"
        )
    said, found = " ".join(diagnosis.calibration.sentences), diagnosis.calibration.findings
    trials = {"trials": diagnosis.calibration.n}
    if not diagnosis.calibration.enough:
        few = "there were too few trials to judge the calibration of the posterior"
        return Check("calibration", State.OPEN, few, said, trials)
    if found:
        return Check("calibration", State.BAD, f"the posterior is {' and '.join(found)}", said, trials)
    return Check("calibration", State.GOOD, "the posterior is calibrated on held-out simulations", said, trials)


def _predictive(diagnosis: diagnostics.Report | None) -> list[Check]:
    if diagnosis is None or not diagnosis.from_posterior:
        return []
    passed = diagnosis.predictive.passed
    finding = (
        "its parameters reproduce the observation" if passed else "its parameters fail to reproduce the observation"
    )
    state = State.GOOD if passed else State.BAD
    return [Check("prediction", state, finding, " ".join(diagnosis.predictive.sentences))]


def _remote(posterior: Posterior, observed: np.ndarray, diagnosis: diagnostics.Report | None) -> list[Check]:
    sims = posterior.simulations
    if diagnosis is not None:
        share = diagnosis.remote_share
    elif sims is None or sims.n_valid < 3 or sims.x.shape[1] != observed.shape[1]:
        return []
    else:
        share = share_as_remote(sims, observed)
    least = diagnostics.Report.least_remote_share
    said = (
        f"{percent(share)} of the simulations are at least as far from the simulation nearest to them as the "
        f"observation is. With less than {percent(least)} the observation counts as lying outside."
    )
    numbers = {"share as far": share}
    if share < least:
        return [Check("observation", State.BAD, "the observation lies outside what was simulated", said, numbers)]
    return [Check("observation", State.GOOD, "the observation lies among the simulations", said, numbers)]


def _enough(posterior: Posterior, diagnosis: diagnostics.Report | None) -> list[Check]:
    """Judge the number of simulations by what half of them would have given, and by how many count."""
    wanted, sufficiency = (
        diagnostics.Report.least_effective * posterior.prior.dim,
        None if diagnosis is None else diagnosis.sufficiency,
    )
    state, finding, said, numbers = State.GOOD, "", [], {}
    if sufficiency is not None:
        said += sufficiency.sentences
        numbers["error ratio"] = sufficiency.ratio
        state = State.OPEN if sufficiency.unclear else State.GOOD
        if not sufficiency.passed:
            state, finding = State.DOUBT, "there are too few simulations"
            said.append("Were there enough, half of them would do almost as well. Run about twice as many.")
    if posterior.effective is not None:
        count, numbers["effective"] = number(posterior.effective, 3), posterior.effective
        said.append(f"The answer rests on {count} effective simulations; at least {wanted} are wanted.")
        if posterior.effective < wanted:
            state, finding = State.BAD, "it rests on too few simulations"
    return [Check("simulations", state, finding, " ".join(said), numbers)] if said else []


def _failed(posterior: Posterior) -> list[Check]:
    sims = posterior.simulations
    if sims is None:
        return []
    share = sims.n_failed / max(1, len(sims))
    many = share > MANY_FAILED
    said = f"{sims.n_failed:,} of {len(sims):,} failed" + (f" ({percent(share)})." if sims.n_failed else ".")
    reasons = "; ".join(f"{reason} ({count:,})" for reason, count in list(sims.failures.items())[:3])
    finding = "many simulations failed" if many else ""
    state, numbers = State.DOUBT if many else State.GOOD, {"failed": sims.n_failed}
    return [Check("failures", state, finding, f"{said} {reasons}".strip(), numbers)]


def _widths(posterior: Posterior) -> np.ndarray:
    """Return the widths of the parameters beside the prior's, in quantiles: heavy tails have no deviation."""
    prior = posterior.prior.sample(4000, 0)
    width: Any = np.subtract(*np.quantile(prior, [0.84, 0.16], axis=0))
    ours: Any = np.subtract(*np.quantile(posterior.samples, [0.84, 0.16], axis=0))
    return np.asarray(ours / np.where(width > 0.0, width, np.inf))


def _narrowed(posterior: Posterior) -> list[Check]:
    """Say how much narrower than the prior it is; why it is not cannot be told from one posterior."""
    ratio = _widths(posterior)
    parts = ", ".join(f"{name} {percent(value)}" for name, value in zip(posterior.names, ratio, strict=True))
    unlearned = [name for name, value in zip(posterior.names, ratio, strict=True) if value >= HARDLY_NARROWER]
    finding = f"the posterior of {listed(unlearned)} is hardly narrower than the prior" if unlearned else ""
    said = f"Width of the middle 68 %, as a share of the prior's: {parts}."
    if unlearned:
        them = "it" if len(unlearned) == 1 else "them"
        finding += f": the observation tells little about {them}, or the method learned too little"
        said += (
            f" From {percent(HARDLY_NARROWER)} on, more simulations or another method tell which of the two it is."
        )
    numbers = dict(zip(posterior.names, ratio.tolist(), strict=True))
    return [Check("width", State.DOUBT if unlearned else State.GOOD, finding, said, numbers)]


def _on_edges(posterior: Posterior) -> list[Check]:
    low, high = posterior.prior.low, posterior.prior.high
    width = np.where(np.isfinite(high - low), high - low, 0.0)
    draws = posterior.samples
    near = ((draws < low + EDGE * width) | (draws > high - EDGE * width)) & (width > 0.0)
    shares = near.mean(axis=0)
    piled = [name for name, share in zip(posterior.names, shares, strict=True) if share > PILED_UP]
    if not piled:
        return []
    said = f"Draws of {', '.join(piled)} pile up at an end of the prior's range. Is that range wide enough?"
    return [Check("prior", State.DOUBT, f"{', '.join(piled)} is pressed against the prior's range", said)]
