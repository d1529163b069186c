"""Checks of a posterior: the simulations that it rests on, its width, and what a diagnosis found."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from decond.lfi.diagnostics.predictive_checks import share_as_remote
from decond.lfi.exceptions import (
    ExtrapolationWarning,
    FailedSimulationsWarning,
    MisfitWarning,
    UnstablePosteriorWarning,
)
from decond.messages import listed, number, percent
from decond.verdict import Check, State, Verdict

if TYPE_CHECKING:
    from decond.lfi.diagnostics.diagnosis_report import Report
    from decond.lfi.posterior_draws import Posterior

__all__ = ["PosteriorCheckSettings", "check_posterior"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PosteriorCheckSettings:
    """When a posterior is good, doubtful or bad."""

    fewest_trials: int = 20
    """Held-out posteriors below which calibration says nothing."""
    effective_per_parameter: int = 10
    """Effective sample size for each parameter that is wanted; convention."""
    outside: float = 0.005
    """Fraction of the simulations as far from their nearest neighbor below which the observation lies outside."""
    many_failed: float = 0.2
    """Fraction of failed simulations above which they need a second look."""
    hardly_narrower: float = 0.9
    """A posterior at least this wide, relative to the prior, has learned next to nothing."""
    least_width: float = 1e-4
    """A posterior narrower than this, relative to the prior, is more likely a mistake than knowledge."""
    fewest_distinct: int = 30
    """Distinct draws below which neither intervals nor densities mean anything."""
    truth_level: float = 0.99
    """Level of the interval that a known truth should lie in."""
    edge: float = 0.01
    """Fraction of a bounded prior's range that counts as its edge."""
    piled_up: float = 0.1
    """Fraction of the draws on an edge above which the prior looks too narrow."""


def check_posterior(
    posterior: "Posterior",
    diagnosis: "Report | None" = None,
    truth: Floats | None = None,
    settings: PosteriorCheckSettings | None = None,
) -> Verdict:
    """Return what can be checked of a posterior.

    Parameters
    ----------
    posterior : Posterior
    diagnosis : lfi.diagnostics.Report, optional
        What `lfi.diagnose` found; without it only what costs nothing is checked.
    truth : ndarray of shape (d,), optional
        The parameters that made the observation, where they are known.
    settings : PosteriorCheckSettings, optional

    Returns
    -------
    Verdict
    """
    settings = settings or PosteriorCheckSettings()
    widths = _relative_widths(posterior)
    found = [
        None if truth is None else _check_truth(posterior, truth, settings),
        _check_calibration(diagnosis, settings),
        _check_simulations(posterior, diagnosis, settings),
        _check_prediction(diagnosis),
        _check_observation(posterior, diagnosis, settings),
        _check_failures(posterior, settings),
        _check_width(widths, settings),
        _check_draws(posterior, widths, settings),
        _check_edges(posterior, settings),
        _check_warnings(posterior),
    ]
    return Verdict([check for check in found if check is not None])


def _check_truth(posterior: "Posterior", truth: Floats, settings: PosteriorCheckSettings) -> Check:
    """Compare with the parameters that made the observation."""
    low, high = posterior.interval(settings.truth_level)
    outside = [name for name, a, v, b in zip(posterior.names, low, truth, high, strict=True) if not a <= v <= b]
    level = percent(settings.truth_level)
    said = f"Every parameter's {level} interval holds its true value."
    check = Check("truth", State.GOOD, "", said, question="Is the known truth inside?")
    if not outside:
        return check
    finding = f"the true value of {listed(outside)} lies outside the {level} interval"
    return replace(check, state=State.BAD, finding=finding, sentence=f"{finding[:1].upper()}{finding[1:]}.")


def _check_calibration(diagnosis: "Report | None", settings: PosteriorCheckSettings) -> Check:
    finding, question = "the calibration of the posterior was not checked", "Are its uncertainties right?"
    check = Check("calibration", State.OPEN, finding, "", question=question)
    if diagnosis is None or diagnosis.calibration is None:
        why = "Refitting on held-out simulations tells: decond infer --check, or lfi.diagnose."
        return replace(check, sentence=f"Not checked. {why if diagnosis is None else diagnosis.why_not}")
    found = diagnosis.calibration
    check = replace(check, sentence=" ".join(found.sentences), numbers={"trials": found.n})
    if found.n < settings.fewest_trials:
        return replace(check, finding="there were too few trials to check the calibration of the posterior")
    if found.findings:
        return replace(check, state=State.BAD, finding=f"the posterior is {' and '.join(found.findings)}")
    return replace(check, state=State.GOOD, finding="the posterior is calibrated on held-out simulations")


def _check_simulations(
    posterior: "Posterior", diagnosis: "Report | None", settings: PosteriorCheckSettings
) -> Check | None:
    """Check the number of simulations by what half of them would have given, and by the effective sample size."""
    wanted = settings.effective_per_parameter * posterior.prior.dim
    sufficiency = None if diagnosis is None else diagnosis.sufficiency
    state, finding, said = State.GOOD, "", list[str]()
    numbers: dict[str, float] = {}
    if sufficiency is not None:
        said += sufficiency.sentences
        numbers["error ratio"] = sufficiency.ratio
        state = State.OPEN if sufficiency.unclear else State.GOOD
        if not sufficiency.passed:
            state, finding = State.DOUBT, "there are too few simulations"
            said.append("Run about twice as many.")
    if posterior.effective is not None:
        count, numbers["effective"] = number(posterior.effective, 3), posterior.effective
        said.append(f"The effective sample size is {count} simulations; at least {wanted} are wanted.")
        if posterior.effective < wanted:
            state, finding = State.BAD, "it rests on too few simulations"
    if posterior.stability is not None:
        numbers["stability"] = posterior.stability
        said.append(
            f"Halves of them lead to expect an error of {number(posterior.stability, 2)} in a mean or a deviation, "
            "where 1 is one posterior deviation or a factor of 1.5."
        )
        if any(isinstance(warning, UnstablePosteriorWarning) for warning in posterior.warnings):
            state, finding = State.BAD, "halves of the simulations give other posteriors"
    question = "Are there enough simulations?"
    return Check("simulations", state, finding, " ".join(said), numbers, question) if said else None


def _check_prediction(diagnosis: "Report | None") -> Check | None:
    if diagnosis is None or not diagnosis.from_posterior:
        return None
    passed, said = diagnosis.predictive.passed, " ".join(diagnosis.predictive.sentences)
    finding = f"its parameters {'reproduce' if passed else 'fail to reproduce'} the observation"
    question = "Do its parameters reproduce the observation?"
    return Check("prediction", State.GOOD if passed else State.BAD, finding, said, question=question)


def _check_observation(
    posterior: "Posterior", diagnosis: "Report | None", settings: PosteriorCheckSettings
) -> Check | None:
    sims, question = posterior.simulations, "Does the observation lie among the simulations?"
    misfit = next((warning for warning in posterior.warnings if isinstance(warning, MisfitWarning)), None)
    if misfit is not None:
        finding = "the model hardly gives such an observation"
        return Check("observation", State.BAD, finding, str(misfit), question=question)
    rows = (
        posterior.observed if diagnosis is None else diagnosis.predictive.observed[None, :]
    )  # summaries of raw data
    if sims is None or rows is None or sims.n_valid < 3 or rows.shape != (1, sims.x.shape[1]):
        return None
    share = share_as_remote(sims, rows)
    said = (
        f"{percent(share)} of the simulations are at least as far from the simulation nearest to them as the "
        f"observation is. With less than {percent(settings.outside)} the observation counts as lying outside."
    )
    is_outside = share < settings.outside
    finding = f"the observation lies {'outside what was simulated' if is_outside else 'among the simulations'}"
    state = State.BAD if is_outside else State.GOOD
    return Check("observation", state, finding, said, {"share as far": share}, question)


def _check_failures(posterior: "Posterior", settings: PosteriorCheckSettings) -> Check | None:
    sims = posterior.simulations
    if sims is None:
        return None
    many = sims.n_failed > settings.many_failed * len(sims)
    reasons = "; ".join(f"{reason} ({count:,})" for reason, count in list(sims.failures.items())[:3])
    said = f"{sims.n_failed:,} of {len(sims):,} failed. {reasons}".strip()
    state, finding = (State.DOUBT, "many simulations failed") if many else (State.GOOD, "")
    return Check("failures", state, finding, said, {"failed": sims.n_failed}, "Did the simulations run?")


def _relative_widths(posterior: "Posterior") -> dict[str, float]:
    """Return the width of each parameter relative to the prior's, in quantiles: heavy tails have no deviation."""
    quantiles = [
        np.quantile(draws, [0.16, 0.84], axis=0) for draws in (posterior.prior.sample(4000, 0), posterior.samples)
    ]
    prior, ours = (high - low for low, high in quantiles)
    return dict(zip(posterior.names, (ours / np.where(prior > 0.0, prior, np.inf)).tolist(), strict=True))


def _check_width(widths: dict[str, float], settings: PosteriorCheckSettings) -> Check:
    """Compare widths with the prior's; one posterior cannot tell why one is not narrower."""
    unlearned = [name for name, width in widths.items() if width >= settings.hardly_narrower]
    parts = ", ".join(f"{name} {percent(width)}" for name, width in widths.items())
    said, finding = f"Width of the middle 68 %, relative to the prior's: {parts}.", ""
    if unlearned:
        finding = (
            f"the posterior of {listed(unlearned)} is hardly narrower than the prior: the observation says little "
            "about it, or the method learned too little"
        )
        said += " More simulations or another method show which of the two it is."
    state, question = State.DOUBT if unlearned else State.GOOD, "What did the observation tell?"
    return Check("width", state, finding, said, widths, question)


def _check_draws(posterior: "Posterior", widths: dict[str, float], settings: PosteriorCheckSettings) -> Check | None:
    """Look for draws that are too few or too close to each other to be a posterior."""
    count = len(np.unique(posterior.samples, axis=0))
    narrow = [name for name, width in widths.items() if width < settings.least_width]
    if count < settings.fewest_distinct:
        finding = "the posterior has hardly any distinct draws"
        said = f"Only {count:,} of {len(posterior.samples):,} draws are distinct: intervals mean little then."
    elif narrow:
        finding = f"the posterior of {listed(narrow)} has next to no width"
        said = f"Its middle 68 % are less than {percent(settings.least_width)} as wide as the prior's."
    else:
        return None
    return Check("draws", State.DOUBT, finding, said, {"distinct": count}, "Are the draws spread out?")


def _check_edges(posterior: "Posterior", settings: PosteriorCheckSettings) -> Check | None:
    low, high, draws = posterior.prior.low, posterior.prior.high, posterior.samples
    width = np.where(np.isfinite(high - low), high - low, 0.0)
    near = ((draws < low + settings.edge * width) | (draws > high - settings.edge * width)) & (width > 0.0)
    piled = [
        name for name, share in zip(posterior.names, near.mean(axis=0), strict=True) if share > settings.piled_up
    ]
    if not piled:
        return None
    finding = f"{listed(piled)} is pressed against the prior's range"
    said = f"Draws of {listed(piled)} pile up at an end of the prior's range. Is that range wide enough?"
    return Check("prior", State.DOUBT, finding, said, question="Is the prior wide enough?")


def _check_warnings(posterior: "Posterior") -> Check | None:
    """Doubt what the inference itself warned of; some kinds of warnings have checks of their own."""
    own = (MisfitWarning, UnstablePosteriorWarning, FailedSimulationsWarning, ExtrapolationWarning)
    notes = [str(warning) for warning in posterior.warnings if not isinstance(warning, own)]
    repeats = posterior.repeats
    state, finding, said = State.DOUBT, "the inference gave warnings", " ".join(notes)
    if repeats > 1 and not notes:
        state, finding = State.OPEN, f"errors of the learned likelihood count {repeats} times"
        said = (
            f"The likelihoods of {repeats} observations are multiplied, and with them their errors: the posterior "
            "may be too narrow or shifted. More simulations, or another seed, show by how much."
        )
    if not said:
        return None
    return Check("warnings", state, finding, said, question="Was anything noticed on the way?")
