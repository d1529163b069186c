"""What can be checked of a posterior: with a diagnosis its findings, without one what costs nothing."""

from typing import Any

import numpy as np

from decond.lfi import Posterior, diagnostics
from decond.lfi.diagnostics.calibration import FEWEST
from decond.lfi.diagnostics.predictive import share_as_remote
from decond.lfi.diagnostics.report import FEW_EFFECTIVE, REMOTE
from decond.lfi.diagnostics.words import percent
from decond.reports.checks import Check
from decond.reports.document import number

__all__ = ["posterior_checks"]

MANY_FAILED = 0.2
"""Share of failed simulations from which on they are worth a second look."""

HARDLY_NARROWER = 0.9
"""A posterior whose deviation is at least this share of the prior's has learned next to nothing."""

EDGE = 0.01
"""Share of a support that counts as its edge."""

PILED_UP = 0.1
"""Share of the draws on an edge that makes a prior look too narrow."""


def posterior_checks(posterior: Posterior, observed: np.ndarray, diagnosis: diagnostics.Report | None) -> list[Check]:
    """Return the checks of a posterior, those that matter most first."""
    return [
        _calibration(diagnosis),
        *_predictive(diagnosis),
        *_remote(posterior, observed),
        *_effective(posterior),
        *_failed(posterior),
        *_narrowed(posterior),
        *_on_edges(posterior),
    ]


def _calibration(diagnosis: diagnostics.Report | None) -> Check:
    question = "Are its uncertainties right?"
    if diagnosis is None or diagnosis.calibration is None:
        why = "Refitting on held-out simulations tells: decond infer --diagnose, or lfi.diagnose."
        if diagnosis is not None:
            why = diagnosis.why_not
        return Check(question, "open", "the calibration of the posterior was not checked", f"Not checked. {why}")
    sufficiency = [] if diagnosis.sufficiency is None else diagnosis.sufficiency.sentences
    sentences, found = [*diagnosis.calibration.sentences, *sufficiency], diagnosis.calibration.findings
    if diagnosis.calibration.n < FEWEST:
        few = "there were too few trials to judge the calibration of the posterior"
        return Check(question, "open", few, " ".join(sentences))
    if found:
        return Check(question, "bad", f"the posterior is {' and '.join(found)}", " ".join(sentences))
    if diagnosis.sufficiency is not None and not diagnosis.sufficiency.passed:
        return Check(question, "doubt", "more simulations would help", " ".join(sentences))
    return Check(question, "good", "the posterior is calibrated on held-out simulations", " ".join(sentences))


def _predictive(diagnosis: diagnostics.Report | None) -> list[Check]:
    if diagnosis is None or not diagnosis.from_posterior:
        return []
    question, passed = "Do its parameters reproduce the observation?", diagnosis.predictive.passed
    finding = (
        "its parameters reproduce the observation" if passed else "its parameters fail to reproduce the observation"
    )
    return [Check(question, "good" if passed else "bad", finding, " ".join(diagnosis.predictive.sentences))]


def _remote(posterior: Posterior, observed: np.ndarray) -> list[Check]:
    sims = posterior.simulations
    if sims is None or sims.n_valid < 3 or sims.x.shape[1] != observed.shape[1]:
        return []
    share = share_as_remote(sims, observed)
    question = "Does the observation lie among the simulations?"
    said = f"{percent(share)} of the simulations lie as far from their nearest fellow as the observation does."
    if share < REMOTE:
        return [Check(question, "bad", "the observation lies outside what was simulated", said)]
    return [Check(question, "good", "the observation lies among the simulations", said)]


def _effective(posterior: Posterior) -> list[Check]:
    if posterior.effective is None:
        return []
    wanted = FEW_EFFECTIVE * posterior.prior.dim
    few = posterior.effective < wanted
    said = (
        f"The answer rests on {number(posterior.effective, 3)} effective simulations; at least {wanted} are wanted."
    )
    finding = "it rests on too few simulations" if few else ""
    return [Check("Are there enough simulations?", "bad" if few else "good", finding, said)]


def _failed(posterior: Posterior) -> list[Check]:
    sims = posterior.simulations
    if sims is None:
        return []
    share = sims.n_failed / max(1, len(sims))
    many = share > MANY_FAILED
    said = f"{sims.n_failed:,} of {len(sims):,} failed" + (f" ({percent(share)})." if sims.n_failed else ".")
    reasons = "; ".join(f"{reason} ({count:,})" for reason, count in list(sims.failures.items())[:3])
    finding = "many simulations failed" if many else ""
    return [Check("Did the simulations run?", "doubt" if many else "good", finding, f"{said} {reasons}".strip())]


def _narrowed(posterior: Posterior) -> list[Check]:
    """Compare the spread with the prior's, in quantiles: heavy tails have no deviation to speak of."""
    prior = posterior.prior.sample(4000, 0)
    width: Any = np.subtract(*np.quantile(prior, [0.84, 0.16], axis=0))
    ours: Any = np.subtract(*np.quantile(posterior.samples, [0.84, 0.16], axis=0))
    ratio = ours / np.where(width > 0.0, width, np.inf)
    parts = ", ".join(f"{name} {percent(value)}" for name, value in zip(posterior.names, ratio, strict=True))
    unlearned = [name for name, value in zip(posterior.names, ratio, strict=True) if value >= HARDLY_NARROWER]
    finding = f"the observation tells next to nothing about {', '.join(unlearned)}" if unlearned else ""
    said = f"Width of the middle 68 % beside the prior's: {parts}."
    return [Check("What did the observation tell?", "doubt" if unlearned else "good", finding, said)]


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
    return [
        Check("Is the prior wide enough?", "doubt", f"{', '.join(piled)} is pressed against the prior's range", said)
    ]
