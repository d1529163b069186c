"""The report of a diagnosis: a verdict in words, the numbers behind it, and a page of plots."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from decond.lfi.diagnostics.calibration import Calibration
from decond.lfi.diagnostics.predictive import PredictiveCheck
from decond.lfi.diagnostics.sufficiency import Sufficiency
from decond.lfi.diagnostics.words import percent
from decond.lfi.posterior import Posterior
from decond.notebook import card, sentences

if TYPE_CHECKING:
    from decond.plotting import DiagnosisDisplay

__all__ = ["Report"]

REMOTE = 0.005
"""The observation is outside if a smaller share of the simulations is as far from their nearest fellow as it is."""

FEW_EFFECTIVE = 10
"""Effective simulations for each parameter below which there are too few."""


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """What `diagnose` found: a verdict in words, the sentences with the numbers behind it, and the page of plots.

    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> from decond.lfi.diagnostics.predictive import compare
    >>> posterior = Posterior(Prior({"rate": stats.gamma(2)}), lambda n, rng: rng.gamma(4.0, 0.5, (n, 1)))
    >>> simulated = np.random.default_rng(0).standard_normal((500, 1))
    >>> check = compare(Simulations(simulated, simulated), np.array([[9.0]]))
    >>> Report(posterior, None, None, check, from_posterior=True, remote_share=0.4)
    Report(observation unlike the predictions)
    """

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

    def plot(self, figure: Any = None) -> "DiagnosisDisplay":
        """Draw the page of plots, into a figure of yours or a new one, and return the display."""
        from decond.plotting import DiagnosisDisplay

        return DiagnosisDisplay(self).plot(figure)

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, as PNG, PDF or SVG by its ending; return the path."""
        return self.plot().save(path, dpi=130)

    def __repr__(self) -> str:
        """Show the verdict."""
        return f"Report({self.verdict})"

    def __str__(self) -> str:
        """Show verdict and sentences."""
        return "\n".join([self.verdict, *(f"- {sentence}" for sentence in self.sentences)])

    def _repr_html_(self) -> str:
        """Show verdict and sentences, for notebooks."""
        return card("Diagnosis:", self.verdict, sentences(self.sentences))
