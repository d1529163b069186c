"""Trials: posteriors for simulations whose parameters are known, each from a fit that did not see them.

`compare_with_half` makes them with half of the simulations, to see whether there are enough.
"""

import copy
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import joblib
import numpy as np

from decond.checks import as_count, as_generator, as_number
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.exceptions import PosteriorWarning
from decond.lfi.methods.method import Method, check_simulations
from decond.lfi.posterior_draws import Seed
from decond.lfi.prior import Prior
from decond.lfi.simulations import Simulations

if TYPE_CHECKING:
    from decond.lfi.diagnostics.rank_calibration import Calibration

__all__ = [
    "Progress",
    "Sufficiency",
    "TrialPlan",
    "check_method",
    "compare_with_half",
    "difference_from_prior",
    "run_trials",
    "whole_seed",
]

Progress = Callable[[int, int], None]
"""Called with the number of posteriors that are done, and of those planned."""


@dataclass(frozen=True)
class TrialPlan:
    """How trials are made: how many, with how many draws each, and from which simulations."""

    n: int = 200
    n_draws: int = 999
    folds: int = 5
    test: Simulations | None = None
    """Simulations at draws of the prior that no fit sees; without them, folds of those given are held out."""
    share: float = 1.0
    """Share of the simulations that each fit sees."""
    seconds: float | None = None
    seed: int = 0
    n_jobs: int | None = None
    """Processes, as in `lfi.simulate`."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("n", "n_draws", "folds"):
            as_count(getattr(self, name), name)
        if self.folds < 2:
            raise ArgumentError("folds", f"folds is {self.folds}; give at least 2.")
        if self.seconds is not None:
            as_number(self.seconds, "seconds", minimum=0.0, strict=True)


@dataclass(frozen=True)
class _Trial:
    """One posterior beside the parameters that made its observation."""

    row: int
    """Which row of the test simulations it was."""
    ranks: np.ndarray
    """(d,) how many of the draws lie below the truth; a tie falls either way by chance."""
    joint_rank: int
    """How many of the draws have a lower posterior density than the truth, or lie farther out in their ellipsoid."""
    by_density: bool
    """Whether the posterior has a density; without one, ellipsoids stand in."""
    score: np.ndarray
    """(d,) continuous ranked probability scores in working coordinates; small is good."""


def run_trials(
    method: Method, sims: Simulations, prior: Prior, plan: TrialPlan, progress: Progress | None = None
) -> list[_Trial]:
    """Return trials, as many as asked for and as time allows; at least one.

    Parameters
    ----------
    method : Method
        The method; a copy of it is fitted.
    sims : Simulations
        The simulations.
    prior : Prior
        The prior of the parameters.
    plan : TrialPlan
        How many trials, and from which simulations.
    progress : callable, optional
        Called with the numbers done and planned.
    """
    check_method(method)
    _check(sims, prior, plan)
    if plan.test is not None:
        plan = replace(plan, test=plan.test.ordered_as(sims.summary_names))
    started, trials = time.monotonic(), []
    splits = list(_splits(sims, plan))
    total = sum(len(rows) for _, rows in splits)
    source = sims if plan.test is None else plan.test
    parallel = joblib.Parallel(plan.n_jobs, return_as="generator")
    for train, rows in splits:
        fitted = copy.copy(method).fit(train, prior)
        observed = ((int(row), fitted.observation(source, row), source.theta[row]) for row in rows)
        for trial in parallel(joblib.delayed(_trial)(fitted, *each, plan) for each in observed):
            trials.append(trial)
            if progress is not None:
                progress(len(trials), total)
            if plan.seconds is not None and time.monotonic() - started > plan.seconds:
                return trials
    return trials


def _rank_among(values: np.ndarray, truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return for each column how many values lie below the truth; ties are broken by chance, which is fair."""
    below, equal = (values < truth).sum(axis=0), (values == truth).sum(axis=0)
    return below + rng.integers(0, equal + 1)


def difference_from_prior(sims: Simulations, prior: Prior) -> str:
    """Return "" if the parameters look like draws of the prior, else what differs.

    Compares each parameter, and the prior's log density, with fresh draws by a Kolmogorov–Smirnov test at level 1e-4.

    Parameters
    ----------
    sims : Simulations
        The simulations.
    prior : Prior
        The prior of the parameters.
    """
    from scipy.stats import ks_2samp

    drawn = prior.sample(max(4000, len(sims)), 0)
    names = [*prior.names, "the prior's density"]
    ours = np.column_stack([sims.theta, prior.log_density(sims.theta)])
    theirs = np.column_stack([drawn, prior.log_density(drawn)])
    p = np.array([ks_2samp(a, b, method="asymp").pvalue for a, b in zip(ours.T, theirs.T, strict=True)])
    worst = int(np.argmin(p))
    return "" if p[worst] * len(names) > 1e-4 else f"{names[worst]} differs (p = {p[worst]:.1g})"


def _splits(sims: Simulations, plan: TrialPlan) -> Iterator[tuple[Simulations, np.ndarray]]:
    """Yield pairs of simulations to fit and rows to score; a row that is scored is never among those fitted."""
    rng = np.random.default_rng([len(sims), plan.seed])
    source = sims if plan.test is None else plan.test
    candidates = rng.permutation(np.flatnonzero(source.valid))[: plan.n]
    if plan.test is not None:
        yield _subset(sims, np.arange(len(sims)), plan.share, rng), candidates
        return
    for rows in np.array_split(candidates, min(plan.folds, len(candidates))):
        kept = np.setdiff1d(np.arange(len(sims)), rows)
        yield _subset(sims, kept, plan.share, rng), rows


def _subset(sims: Simulations, rows: np.ndarray, share: float, rng: np.random.Generator) -> Simulations:
    if share < 1.0:
        rows = np.sort(rng.permutation(rows)[: round(share * len(rows))])
    return sims if len(rows) == len(sims) else sims.take(rows)


def _trial(method: Method, row: int, observed: np.ndarray, theta: np.ndarray, plan: TrialPlan) -> _Trial:
    prior, rng = method.prior_, np.random.default_rng([row, plan.seed])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)
        posterior = method.posterior(observed)
    draws = posterior.sample(plan.n_draws, rng)
    both = np.concatenate([draws, theta[None, :]])
    by_density = posterior.log_likelihood is not None
    if posterior.log_likelihood is not None:
        height = prior.log_density(both) + posterior.log_likelihood(both)
    else:
        height = -_squared_distance(prior.to_working(both))
    joint_rank = int(_rank_among(height[:-1, None], height[-1:], rng)[0])
    score = _ranked_score(prior.to_working(draws), prior.to_working(theta[None, :])[0])
    return _Trial(row, _rank_among(draws, theta, rng), joint_rank, by_density, score)


def _squared_distance(rows: np.ndarray) -> np.ndarray:
    """Return squared distances from the mean in the metric of the covariance, all rows being treated alike."""
    centered = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(centered, rowvar=False)))
    kept = values > 1e-12 * max(values[-1], 1e-300)
    return ((centered @ vectors[:, kept]) ** 2 / values[kept]).sum(axis=1)


def _ranked_score(draws: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return E|X - t| - ½ E|X - X'| for each column: the continuous ranked probability score of the draws."""
    m = len(draws)
    order = np.sort(draws, axis=0)
    pairs = (2.0 * np.arange(1, m + 1) - m - 1.0) @ order / m**2
    return np.abs(draws - truth).mean(axis=0) - pairs


def whole_seed(seed: Seed) -> int:
    """Return a whole number in place of a seed, so that several parts of a diagnosis can start from the same."""
    return int(as_generator(seed).integers(2**31))


def check_method(method: Method) -> None:
    """Raise unless it is a method; a class is not one yet."""
    if not isinstance(method, Method):
        given = f"the class {method.__name__}" if isinstance(method, type) else type(method).__name__
        raise ArgumentTypeError("method", f"method is {given}; give an lfi.Method, such as lfi.ResidualLikelihood().")


def _check(sims: Simulations, prior: Prior, plan: TrialPlan) -> None:
    """Raise unless trials can be made: from valid draws of the prior, none of them both fitted and tested."""
    check_simulations(sims, prior)
    source, name = (sims, "sims") if plan.test is None else (plan.test, "test")
    check_simulations(source, prior, name)
    if source.x.shape[1] != sims.x.shape[1]:
        raise ArgumentError(
            name, f"{name} has {source.x.shape[1]} summaries, but the simulations have {sims.x.shape[1]}."
        )
    if not source.n_valid:
        raise ArgumentError(
            name, f"none of the {len(source)} simulations in {name} is valid, so there is nothing to check."
        )
    different = difference_from_prior(source, prior)
    if different:
        raise ArgumentError(
            name,
            f"the parameters in {name} are not draws of the prior: {different}. They come from rounds or from chosen "
            "values, and calibration holds on average over the prior only. Give fresh ones: "
            'test=lfi.simulate(simulator, prior, 200, round="test").',
        )
    if plan.test is not None:
        fitted = {row.tobytes() for row in sims.theta}
        again = sum(row.tobytes() in fitted for row in plan.test.theta)
        if again:
            raise ArgumentError(
                "test",
                f"{again} of {len(plan.test)} rows of test are among sims too, and nothing may be checked on what it "
                'was fitted on. Simulate others, with another seed or round: lfi.simulate(..., round="test").',
            )


@dataclass(frozen=True, repr=False)
class Sufficiency:
    """How much worse the posteriors are if made from half of the simulations; more than 10 % is too much.

    Attributes
    ----------
    n_simulations : int
        The simulations.
    ratio : float
        The error with half of them, divided by that with all: the continuous ranked probability score of the true
        parameters, averaged over the trials, and over the parameters in the geometric mean.
    error : float
        The standard error of the ratio.
    n : int
        Trials.

    Examples
    --------
    >>> Sufficiency(n_simulations=500, ratio=1.3, error=0.05, n=60).sentences[0]
    'With half of the 500 simulations, errors change by +30 ± 5 % (60 trials): more of them would help.'
    """

    n_simulations: int
    ratio: float
    error: float
    n: int

    @property
    def passed(self) -> bool:
        """Whether half of the simulations did almost as well, as far as the trials can tell."""
        return self.n < 10 or self.ratio <= 1.1 or self.ratio - 2.0 * self.error <= 1.0

    @property
    def unclear(self) -> bool:
        """Whether the trials are too few to tell."""
        return self.passed and (self.n < 10 or self.ratio + 2.0 * self.error > 1.2)

    @property
    def verdict(self) -> str:
        """Say "fine" or "too few simulations"."""
        return "fine" if self.passed else "too few simulations"

    @property
    def sentences(self) -> list[str]:
        """The numbers behind the verdict."""
        if not self.passed:
            end = "more of them would help"
        elif self.unclear:
            end = "too few trials to tell whether more would help"
        else:
            end = "more would help little"
        return [
            f"With half of the {self.n_simulations} simulations, errors change by {self._change} ({self.n} trials): "
            f"{end}."
        ]

    @property
    def _change(self) -> str:
        return f"{100.0 * (self.ratio - 1.0):+.0f} ± {100.0 * self.error:.0f} %"

    def __repr__(self) -> str:
        """Show the verdict."""
        return f"Sufficiency({self.verdict}; errors {self._change} with half of {self.n_simulations} simulations)"


def compare_with_half(
    method: Method,
    sims: Simulations,
    prior: Prior,
    calibration: "Calibration",
    test: Simulations | None,
    seconds: float | None = None,
    progress: Progress | None = None,
    n_jobs: int | None = None,
) -> Sufficiency:
    """Return how errors grow if the method sees half of the simulations.

    The first 60 truths of a calibration are used again, with fits to half of the simulations that did not see them.

    Parameters
    ----------
    method : Method
        The method.
    sims : Simulations
        The simulations.
    prior : Prior
        The prior of the parameters.
    calibration : Calibration
        That of the same method and simulations, with all of them.
    test : Simulations, optional
        The test simulations of the calibration.
    seconds : float, optional
        Time after which it stops, with the trials done by then.
    progress : callable, optional
        Called with the numbers done and planned.
    n_jobs : int, optional
        Processes, as in `lfi.simulate`.

    Returns
    -------
    Sufficiency
    """
    n = min(60, calibration.n)
    plan = TrialPlan(n, folds=3, test=test, share=0.5, seconds=seconds, seed=calibration.seed, n_jobs=n_jobs)
    known = dict(zip(calibration.rows.tolist(), calibration.scores, strict=True))
    trials = [trial for trial in run_trials(method, sims, prior, plan, progress) if trial.row in known]
    whole = np.array([known[trial.row] for trial in trials])
    half = np.array([trial.score for trial in trials])
    ratio, error = _ratio(whole, half, np.random.default_rng(calibration.seed))
    return Sufficiency(len(sims), ratio, error, len(trials))


def _ratio(whole: np.ndarray, half: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Return the ratio of mean scores, and its standard error by the bootstrap over trials."""

    def ratio(rows: np.ndarray) -> float:
        means = np.log(half[rows].mean(axis=0)) - np.log(whole[rows].mean(axis=0))
        return float(np.exp(means.mean()))

    n = len(whole)
    resampled = [ratio(rng.integers(0, n, n)) for _ in range(200)]
    return ratio(np.arange(n)), float(np.std(resampled))
