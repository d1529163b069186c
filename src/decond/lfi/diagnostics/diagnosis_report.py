"""One call, one report: is this posterior to be trusted?"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_number, value_names
from decond.errors import ArgumentError
from decond.lfi.diagnostics.posterior_checks import PosteriorCheckSettings
from decond.lfi.diagnostics.predictive_checks import (
    PredictiveCheck,
    observation_among,
    posterior_predictive_check,
)
from decond.lfi.diagnostics.rank_calibration import Calibration, simulation_based_calibration
from decond.lfi.diagnostics.trials import (
    Progress,
    Sufficiency,
    check_method,
    compare_with_half,
    difference_from_prior,
    whole_seed,
)
from decond.lfi.exceptions import ExtrapolationWarning, UnstablePosteriorWarning
from decond.lfi.methods.method import Method, summarized_observation
from decond.lfi.posterior_draws import Observation, Posterior, Seed
from decond.lfi.prior import Prior
from decond.lfi.simulations import Simulations
from decond.messages import card
from decond.progress import progress_bar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from decond.plotting import DiagnosisDisplay

__all__ = ["Report", "diagnose"]


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """What `diagnose` found: a verdict in words, the sentences with the numbers behind it, and the page of plots.

    Attributes
    ----------
    posterior : Posterior
        The posterior.
    calibration : Calibration, optional
        None where it could not be checked; a sentence says why.
    sufficiency : Sufficiency, optional
        Likewise.
    predictive : PredictiveCheck
        Where the observation lies among data at draws of the posterior, or among the given simulations where
        there was no simulator.
    from_posterior : bool
        Which of the two.
    why_not : str
        Why calibration was not checked.
    truth : ndarray, optional
        The true parameters, where they are known.
    least_effective
        Effective sample size for each parameter that is wanted. Rule of thumb.

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> from decond.lfi.diagnostics.predictive_checks import observation_among
    >>> posterior = Posterior(Prior({"rate": stats.gamma(2)}), lambda n, rng: rng.gamma(4.0, 0.5, (n, 1)))
    >>> simulated = np.random.default_rng(0).standard_normal((500, 1))
    >>> check = observation_among(Simulations(simulated, simulated), np.array([[9.0]]))
    >>> Report(posterior, None, None, check, from_posterior=True)
    Report(observation unlike the predictions)
    """

    posterior: Posterior
    calibration: Calibration | None
    sufficiency: Sufficiency | None
    predictive: PredictiveCheck
    from_posterior: bool
    why_not: str = ""
    truth: NDArray[np.float64] | None = None

    least_effective = PosteriorCheckSettings.effective_per_parameter

    @property
    def outside(self) -> bool:
        """Whether the posterior warned that the observation lies outside what was simulated."""
        return any(isinstance(warning, ExtrapolationWarning) for warning in self.posterior.warnings)

    @property
    def few_effective(self) -> bool:
        """Whether the effective sample size is too small."""
        effective = self.posterior.effective
        return effective is not None and effective < self.least_effective * self.posterior.prior.dim

    @property
    def unstable(self) -> bool:
        """Whether the posterior warned that parts of the simulations give other answers."""
        return any(isinstance(warning, UnstablePosteriorWarning) for warning in self.posterior.warnings)

    @property
    def findings(self) -> list[str]:
        """Everything that is wrong, gravest first; empty if nothing is."""
        found = ["observation outside the simulations"] if self.outside else []
        if self.few_effective or (self.sufficiency is not None and not self.sufficiency.passed):
            found.append("too few simulations")
        if self.unstable:
            found.append("unstable")
        if self.calibration is not None:
            found += self.calibration.findings
        if self.from_posterior and not self.predictive.passed:
            found.append(self.predictive.verdict)
        return found

    @property
    def verdict(self) -> str:
        """What is wrong, or "fine"; "fine as far as checked" if calibration could not be checked."""
        return "; ".join(self.findings) or ("fine" if self.calibration is not None else "fine as far as checked")

    @property
    def sentences(self) -> list[str]:
        """The numbers behind the verdict."""
        lines = []
        if self.few_effective:
            lines.append(
                f"The posterior rests on {self.posterior.effective:.0f} effective simulations; at least "
                f"{self.least_effective * self.posterior.prior.dim} are wanted."
            )
        if self.posterior.stability is not None and not self.unstable:
            lines.append(
                "Halves of the simulations agree: the error to expect of a mean or a deviation is "
                f"{self.posterior.stability:.2f}, where 1 is one posterior deviation or a factor of 1.5."
            )
        lines += [self.why_not] if self.why_not else []
        for check in (self.calibration, self.sufficiency, self.predictive if self.from_posterior else None):
            lines += [] if check is None else check.sentences
        return lines + [note[:1].upper() + note[1:] for note in self.posterior.notes]

    def plot(self, figure: "Figure | None" = None) -> "DiagnosisDisplay":
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
        return card("Diagnosis:", self.verdict, said=self.sentences)


def diagnose(
    method: Method,
    sims: Simulations,
    prior: Prior,
    observed: Observation,
    simulator: Callable[..., ArrayLike] | None = None,
    *,
    test: Simulations | None = None,
    n: int = 200,
    n_predictive: int = 200,
    seconds: float = 300.0,
    level: float = 0.01,
    seed: Seed = 0,
    truth: ArrayLike | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Return a report on the posterior of `observed`: one page of plots, and a verdict in words.

    The words, and what they mean:

    - "observation outside the simulations": the posterior says so in an `ExtrapolationWarning`.
    - "too few simulations": with half of them the errors of held-out posteriors grow by more than 10 % (and two
      standard errors), or the effective sample size is smaller than ten for each parameter.
    - "unstable": posteriors from halves of the simulations disagree, see `Posterior.stability`.
    - "biased", "over-confident", "under-confident", "not calibrated": the ranks of n true parameters among draws of
      their posteriors fail a test of uniformity at `level`, see `simulation_based_calibration`. The first three words
      need a bias or a width that is wrong by three standard errors; "too few trials" means fewer than 20.
    - "observation unlike the predictions": fewer than `level` of the data simulated at draws of the posterior are as
      unusual as the observation. This needs the simulator.
    - "fine": none of these. Stated uncertainties are right on average then; they may be larger than need be.

    Parameters
    ----------
    method : Method
        The method.
    sims : Simulations
        The simulations.
    prior : Prior
        The prior of the parameters.
    observed : array_like or dict
        The observation. For a method that takes raw data sets (`takes_raw`) it is one, and `options` have the
        function `summarize` that made the summaries of the simulations; the other checks look at these.
    simulator : callable, optional
        The simulator, for predictive checks.
    test : Simulations, optional
        Simulations at fresh draws of the prior. Where `sims` come from rounds, calibration needs them, or the
        simulator, which is then run n times at draws of the prior; without either, that check is left out, and a
        sentence says so.
    n : int, optional
        Posteriors for calibration.
    n_predictive : int, optional
        Simulations at draws of the posterior.
    seconds : float, optional
        Time after which refitting ends, with the trials done by then.
    level : float, optional
        Probability of a false alarm.
    seed : int, Generator or None, optional
        Seed of everything random.
    truth : array_like, optional
        The true parameters, where they are known; drawn as lines.
    progress : callable, optional
        Called with the numbers of posteriors done and planned; without it a bar shows them on a terminal.
    options : object
        Options of `lfi.simulate`; `n_jobs` holds for the posteriors, too.

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi import RejectionABC
    >>> prior = Prior({"mean": stats.norm(0, 1)})
    >>> theta = prior.sample(600, seed=0)
    >>> sims = Simulations(theta, theta + np.random.default_rng(1).standard_normal(theta.shape))
    >>> method = RejectionABC(quantile=0.2, adjustment="linear")
    >>> report = diagnose(method, sims, prior, [1.0], n=30)
    >>> report.verdict
    'fine'
    """
    check_method(method)
    as_number(seconds, "seconds", minimum=0.0, strict=True)
    row = _summaries(method, observed, sims, options)
    names = sims.summary_names or (None if method.takes_raw else value_names(observed))
    known = None if truth is None else prior.rows(truth, "truth")[0]
    posterior = copy.copy(method).fit(sims, prior).posterior(observed)
    check = observation_among(sims, row, level, names)
    if simulator is not None:
        predicted: dict[str, Any] = {"level": level, "names": names, **options}
        check = posterior_predictive_check(posterior, simulator, row, n_predictive, **predicted)
    why_not = ""
    if test is None:
        test, why_not = _fresh_simulations(sims, prior, simulator, n, seed, options)
        test = None if test is None else test.ordered_as(names)
    calibration = sufficiency = None
    if not why_not:
        with progress_bar("checking the posterior", shown=None if progress is None else False) as bar:
            n_jobs = options.get("n_jobs")
            trials: dict[str, Any] = {"test": test, "seed": seed, "level": level}
            trials |= {"progress": progress or bar, "n_jobs": n_jobs}
            # seven tenths of the time are for all simulations, the rest is for the fits with half of them
            calibration = simulation_based_calibration(method, sims, prior, n, seconds=0.7 * seconds, **trials)
            half: dict[str, Any] = {"seconds": 0.3 * seconds, "progress": progress or bar, "n_jobs": n_jobs}
            sufficiency = compare_with_half(method, sims, prior, calibration, test, **half)
    return Report(posterior, calibration, sufficiency, check, simulator is not None, why_not, known)


def _summaries(
    method: Method, observed: Observation, sims: Simulations, options: dict[str, Any]
) -> NDArray[np.float64]:
    """Return the summaries of the observation, as a row."""
    if not method.takes_raw:
        return sims.observed_row(observed)
    summarize = options.get("summarize")
    if summarize is None:
        raise ArgumentError(
            "summarize",
            f"{type(method).__name__} takes the raw data set observed, and its summaries are compared with those of "
            "the simulations. Give summarize=..., the function that made them.",
        )
    return sims.observed_row(summarized_observation(observed, summarize))


def _fresh_simulations(
    sims: Simulations,
    prior: Prior,
    simulator: Callable[..., ArrayLike] | None,
    n: int,
    seed: Seed,
    options: dict[str, Any],
) -> tuple[Simulations | None, str]:
    """Return test simulations (None for folds of those given), or a sentence on why there are none."""
    different = difference_from_prior(sims, prior)
    if not different:
        return None, ""
    if simulator is None:
        return None, (
            f"Calibration was not checked: the simulations are not draws of the prior ({different}). Give test "
            "simulations at draws of the prior, or the simulator."
        )
    from decond.lfi.simulation import simulate

    return simulate(simulator, prior, n, **{"round": "diagnose", "seed": whole_seed(seed), **options}), ""
