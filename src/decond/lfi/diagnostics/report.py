"""The report of a diagnosis: a verdict in words, the numbers behind it, and a page of plots."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from decond.lfi.diagnostics.calibration import Calibration
from decond.lfi.diagnostics.predictive import PredictiveCheck
from decond.lfi.diagnostics.sufficiency import Sufficiency
from decond.lfi.diagnostics.words import percent
from decond.lfi.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Report"]

REMOTE = 0.005
"""The observation is outside if a smaller share of the simulations is as far from their nearest fellow as it is."""

FEW_EFFECTIVE = 10
"""Effective simulations for each parameter below which there are too few."""

RANKS_ACROSS, CHECKS_ACROSS = 5, 6
"""Panels beside each other on the page."""


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """What `diagnose` found: a verdict in words, the sentences with the numbers behind it, and the page of plots."""

    posterior: Posterior
    calibration: Calibration | None
    """None where it could not be done; a sentence says why."""
    sufficiency: Sufficiency | None
    predictive: PredictiveCheck
    """Of data at draws of the posterior, or of the given simulations where there was no simulator."""
    from_posterior: bool
    remote_share: float
    """Share of the simulations that are as far from their nearest fellow as the observation is from them."""
    why_not: str = ""
    truth: np.ndarray | None = None

    @property
    def outside(self) -> bool:
        """Whether the observation lies outside what was simulated."""
        return self.remote_share < REMOTE

    @property
    def few_effective(self) -> bool:
        """Whether the posterior says that it rests on too few simulations."""
        effective = self.posterior.effective
        return effective is not None and effective < FEW_EFFECTIVE * self.posterior.prior.dim

    @property
    def findings(self) -> list[str]:
        """Everything that is wrong, gravest first; empty if nothing is."""
        found = ["observation outside the simulations"] if self.outside else []
        if self.few_effective or (self.sufficiency is not None and not self.sufficiency.passed):
            found.append("too few simulations")
        if self.calibration is not None:
            found += self.calibration.findings
        if self.from_posterior and not self.predictive.passed:
            found.append(self.predictive.verdict)
        return found

    @property
    def verdict(self) -> str:
        """What is wrong, or "fine"; "fine as far as checked" if calibration could not be judged."""
        return "; ".join(self.findings) or ("fine" if self.calibration is not None else "fine as far as checked")

    @property
    def sentences(self) -> list[str]:
        """The numbers behind the verdict."""
        said = []
        if self.outside:
            share = f"Only {percent(self.remote_share)}" if self.remote_share else "None"
            said.append(f"{share} of the simulations lie as far from their nearest fellow as the observation does.")
        if self.few_effective:
            said.append(
                f"The posterior rests on {self.posterior.effective:.0f} effective simulations; at least "
                f"{FEW_EFFECTIVE * self.posterior.prior.dim} are wanted."
            )
        said += [self.why_not] if self.why_not else []
        for part in (self.calibration, self.sufficiency):
            said += [] if part is None else part.sentences
        if self.from_posterior:
            said += self.predictive.sentences
        return said + [note[:1].upper() + note[1:] for note in self.posterior.notes]

    @cached_property
    def figure(self) -> "Figure":
        """The page."""
        return _page(self)

    def plot(self) -> "Figure":
        """Return the page of plots."""
        return self.figure

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, as PNG, PDF or SVG by its ending; return the path."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        self.figure.savefig(target, dpi=130)
        return target

    def __repr__(self) -> str:
        """Show the verdict."""
        return f"Report({self.verdict})"

    def __str__(self) -> str:
        """Show verdict and sentences."""
        return "\n".join([self.verdict, *(f"- {sentence}" for sentence in self.sentences)])


def _page(report: Report) -> "Figure":
    """Return the page: pairs on the left; ranks, coverage and predictions on the right; the verdict on top."""
    from matplotlib.figure import Figure

    from decond.plotting import MAX_PREDICTIVE, plot_pairs, plot_text

    figure = Figure(figsize=(15.0, 10.0), layout="constrained")
    d = report.posterior.prior.dim
    halves: Any = figure.subfigures(1, 2, width_ratios=(0.75 if d < 3 else 1.0, 1.0), wspace=0.03)
    left, right = halves
    left.suptitle("posterior", fontsize=11, x=0.02, ha="left")
    plot_pairs(report.posterior.samples, report.posterior.names, report.truth, left.subplots(d, d, squeeze=False))

    calibration, check = report.calibration, report.predictive
    shown = min(len(check.names), MAX_PREDICTIVE)
    check_height = 0.9 - (-shown // CHECKS_ACROSS)
    if calibration is None:
        top, bottom = right.subfigures(2, 1, height_ratios=(3.4, check_height))
        plot_text(top.subplots(), report.verdict, report.sentences, 90)
    else:
        rank_height = 1.0 - 0.9 * (-d // RANKS_ACROSS)
        top, middle, bottom = right.subfigures(3, 1, height_ratios=(3.4, rank_height, check_height))
        words, curve = top.subplots(1, 2)
        plot_text(words, report.verdict, report.sentences, 52)
        calibration.coverage.draw(curve)
        curve.set_title("coverage", fontsize=11, loc="left")
        middle.suptitle("ranks of true parameters, relative to uniform", fontsize=11, x=0.02, ha="left")
        calibration.draw(_panels(middle, d, RANKS_ACROSS))
    kind = "predicted by the posterior" if report.from_posterior else "simulations given (no simulator was given)"
    bottom.suptitle(f"summaries: {kind}, and the observation", fontsize=11, x=0.02, ha="left")
    check.draw(_panels(bottom, shown, CHECKS_ACROSS))
    return figure


def _panels(figure: Any, count: int, across: int) -> list[Any]:
    """Return panels in rows of at most `across`."""
    across = min(across, count)
    axes = figure.subplots(-(-count // across), across, squeeze=False).ravel()
    for ax in axes[count:]:
        ax.set_axis_off()
    return list(axes[:count])
