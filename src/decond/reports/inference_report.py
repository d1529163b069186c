"""The report of an inference: the posterior beside the prior, what it rests on, and whether to trust it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_row, value_names
from decond.lfi import Posterior, diagnostics
from decond.lfi.diagnostics.predictive_checks import share_as_remote
from decond.lfi.exceptions import UnstablePosteriorWarning
from decond.messages import listed, number, percent
from decond.plotting.display import COLORS, new_figure, plot_line, set_few_ticks, title_panel
from decond.plotting.posterior_plot import PairsDisplay, marginal_density, range_of
from decond.reports.report_page import Check, Report, State, picture, rendered

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["InferenceCheckSettings", "check_inference", "draw_marginals", "inference_report"]

Floats = NDArray[np.float64]
Range = tuple[float, float]


@dataclass(frozen=True)
class InferenceCheckSettings:
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


@dataclass(frozen=True)
class InferencePictureSettings:
    """How much a report of an inference shows."""

    most_parameters: int = 12
    """Parameters that are drawn at most."""
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
    sims, settings = posterior.simulations, InferencePictureSettings()
    row = (as_row(observed, "observed") if sims is None else sims.observed_row(observed))[0]
    named = (None if sims is None else sims.summary_names) or value_names(observed)
    names = [f"x{j + 1}" for j in range(len(row))] if named is None else [str(name) for name in named]
    known = None if truth is None else posterior.prior.rows(truth, "truth")[0]
    prior = posterior.prior.sample(settings.prior_draws, 0)
    shown = min(posterior.prior.dim, settings.most_parameters)
    hidden = posterior.prior.dim - shown
    more = [f"The last {hidden} of {posterior.prior.dim} parameters are not drawn."] if hidden > 0 else []
    used = "" if sims is None else f"{len(sims):,} simulations, {sims.n_failed:,} of them failed"
    return rendered(
        "inference.html",
        title or f"Posterior of {listed(posterior.names)}",
        check_inference(posterior, row, diagnosis, known),
        "nothing was found wrong",
        subtitle=" · ".join(part for part in (method, used) if part),
        marginals=picture(draw_marginals(posterior, prior, known, shown)),
        pairs=None if shown < 2 else picture(_draw_pairs(posterior, known, shown)),
        coverage=_coverage(diagnosis),
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


# ---- pictures ------------------------------------------------------------------------------------------------


def draw_marginals(posterior: Posterior, prior: Floats, truth: Floats | None, count: int) -> "Figure":
    """Draw for each parameter the densities of posterior and prior, the 95 % interval and the truth.

    Parameters
    ----------
    posterior : Posterior
    prior : ndarray of shape (n, d)
        Draws of the prior.
    truth : ndarray of shape (d,) or None
        The parameters that made the observation, where they are known.
    count : int
        How many parameters to draw.

    Returns
    -------
    matplotlib figure
    """
    across = min(count, 4)
    figure, axes = new_figure(count, (max(2.6 * across, 4.0), 2.4 * -(-count // across)))
    for j, (ax, ends) in enumerate(zip(axes, posterior.interval(0.95).T, strict=False)):
        span = _shown(posterior, prior[:, j], j, *([] if truth is None else [float(truth[j])]))
        ax.axvspan(*ends, color=COLORS["band"], alpha=0.2, linewidth=0, label="95 % interval")
        plot_line(ax, *_density(prior[:, j], span), "prior", "prior")
        at, height = _density(posterior.samples[:, j], span)
        ax.fill_between(at, height, color=COLORS["posterior"], alpha=0.25, linewidth=0)
        plot_line(ax, at, height, "posterior", "posterior")
        if truth is not None:
            ax.axvline(truth[j], color=COLORS["observed"], linewidth=1.4, label="truth")
        ax.set(xlim=span, ylim=(0.0, 1.15 * float(height.max())), yticks=[])  # a steep prior may leave the picture
        set_few_ticks(ax, 8.0)
        title_panel(ax, posterior.names[j])
    axes[0].legend(frameon=False, fontsize=7)
    return figure


def _shown(posterior: Posterior, prior: Floats, j: int, truth: float | None = None) -> Range:
    """Return what a panel spans: almost all draws of prior and posterior, or a prior's range if hardly wider."""
    ends = float(posterior.prior.low[j]), float(posterior.prior.high[j])
    (low, high), seen = np.quantile(prior, [0.01, 0.99]), range_of(posterior.samples[:, j], truth)
    span = max(ends[0], min(float(low), seen[0])), min(ends[1], max(float(high), seen[1]))
    return ends if ends[1] - ends[0] < 1.1 * (span[1] - span[0]) else span


def _density(draws: Floats, span: Range) -> tuple[Floats, Floats]:
    """Return the density of draws; those outside the span are not drawn, but count."""
    inside = draws[(draws >= span[0]) & (draws <= span[1])]
    at, height = marginal_density(inside if len(inside) > 1 else draws, span)
    return at, max(len(inside), 1) / len(draws) * height


def _draw_pairs(posterior: Posterior, truth: Floats | None, count: int) -> "Figure":
    side = min(8.0, 2.0 * count)
    figure, [ax] = new_figure(1, (side, side))
    known = None if truth is None else truth[:count]
    PairsDisplay(posterior.samples[:, :count], posterior.names[:count], truth=known).plot(ax)
    return figure


def _coverage(diagnosis: diagnostics.Report | None) -> str | None:
    """Return the picture of how often intervals hold the truth, where that was checked."""
    found = None if diagnosis is None else diagnosis.calibration
    if found is None or found.n < InferenceCheckSettings().fewest_trials:
        return None
    figure, [ax] = new_figure(1, (5.4, 4.6))
    found.coverage.plot(ax)
    return picture(figure)


# ---- checks --------------------------------------------------------------------------------------------------


def check_inference(
    posterior: Posterior,
    observed: Floats,
    diagnosis: diagnostics.Report | None = None,
    truth: Floats | None = None,
    settings: InferenceCheckSettings | None = None,
) -> list[Check]:
    """Return what can be checked of a posterior.

    Parameters
    ----------
    posterior : Posterior
    observed : ndarray of shape (s,)
        The observation, in the order of the simulations.
    diagnosis : lfi.diagnostics.Report, optional
        What `lfi.diagnose` found; without it only what costs nothing is checked.
    truth : ndarray of shape (d,), optional
        The parameters that made the observation, where they are known.
    settings : InferenceCheckSettings, optional

    Returns
    -------
    list of Check
        Those that matter most first.
    """
    settings = settings or InferenceCheckSettings()
    widths = _relative_widths(posterior)
    found = [
        None if truth is None else _check_truth(posterior, truth, settings),
        _check_calibration(diagnosis, settings),
        _check_simulations(posterior, diagnosis, settings),
        _check_prediction(diagnosis),
        _check_observation(posterior, observed, diagnosis, settings),
        _check_failures(posterior, settings),
        _check_width(widths, settings),
        _check_draws(posterior, widths, settings),
        _check_edges(posterior, settings),
    ]
    return [check for check in found if check is not None]


def _check_truth(posterior: Posterior, truth: Floats, settings: InferenceCheckSettings) -> Check:
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


def _check_calibration(diagnosis: diagnostics.Report | None, settings: InferenceCheckSettings) -> Check:
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
    posterior: Posterior, diagnosis: diagnostics.Report | None, settings: InferenceCheckSettings
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


def _check_prediction(diagnosis: diagnostics.Report | None) -> Check | None:
    if diagnosis is None or not diagnosis.from_posterior:
        return None
    passed, said = diagnosis.predictive.passed, " ".join(diagnosis.predictive.sentences)
    finding = f"its parameters {'reproduce' if passed else 'fail to reproduce'} the observation"
    question = "Do its parameters reproduce the observation?"
    return Check("prediction", State.GOOD if passed else State.BAD, finding, said, question=question)


def _check_observation(
    posterior: Posterior, observed: Floats, diagnosis: diagnostics.Report | None, settings: InferenceCheckSettings
) -> Check | None:
    sims = posterior.simulations
    observed = observed if diagnosis is None else diagnosis.predictive.observed  # summaries, also of raw data
    if sims is None or sims.n_valid < 3 or sims.x.shape[1] != len(observed):
        return None
    share = share_as_remote(sims, observed[None, :])
    said = (
        f"{percent(share)} of the simulations are at least as far from the simulation nearest to them as the "
        f"observation is. With less than {percent(settings.outside)} the observation counts as lying outside."
    )
    is_outside = share < settings.outside
    finding = f"the observation lies {'outside what was simulated' if is_outside else 'among the simulations'}"
    state, question = State.BAD if is_outside else State.GOOD, "Does the observation lie among the simulations?"
    return Check("observation", state, finding, said, {"share as far": share}, question)


def _check_failures(posterior: Posterior, settings: InferenceCheckSettings) -> Check | None:
    sims = posterior.simulations
    if sims is None:
        return None
    many = sims.n_failed > settings.many_failed * len(sims)
    reasons = "; ".join(f"{reason} ({count:,})" for reason, count in list(sims.failures.items())[:3])
    said = f"{sims.n_failed:,} of {len(sims):,} failed. {reasons}".strip()
    state, finding = (State.DOUBT, "many simulations failed") if many else (State.GOOD, "")
    return Check("failures", state, finding, said, {"failed": sims.n_failed}, "Did the simulations run?")


def _relative_widths(posterior: Posterior) -> dict[str, float]:
    """Return the width of each parameter relative to the prior's, in quantiles: heavy tails have no deviation."""
    quantiles = [
        np.quantile(draws, [0.16, 0.84], axis=0) for draws in (posterior.prior.sample(4000, 0), posterior.samples)
    ]
    prior, ours = (high - low for low, high in quantiles)
    return dict(zip(posterior.names, (ours / np.where(prior > 0.0, prior, np.inf)).tolist(), strict=True))


def _check_width(widths: dict[str, float], settings: InferenceCheckSettings) -> Check:
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


def _check_draws(posterior: Posterior, widths: dict[str, float], settings: InferenceCheckSettings) -> Check | None:
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


def _check_edges(posterior: Posterior, settings: InferenceCheckSettings) -> Check | None:
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
