"""The runs behind Figure 5: every method on both simulators, with every seed, side by side in processes."""

import itertools
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import joblib
import numpy as np

from decond import lfi
from decond.paper.figure5_methods import BARS, CURVES, Entry
from decond.problems import SimulatorProblem, exponential_gamma, lotka_volterra
from decond.threads import one_blas_thread

__all__ = ["GRID", "Bar", "Curve", "Plan", "Runs", "run"]

GRID = np.linspace(0.0, 3.5, 701)
SEEDS = (0, 1, 2, 3, 4)

Report = Callable[[int, int], None]
"""Told how many runs have ended, and of how many."""


@dataclass(frozen=True)
class Plan:
    """What is run: entries of both panels, seeds, and how many simulations each run has."""

    curves: Sequence[Entry] = tuple(CURVES)
    bars: Sequence[Entry] = tuple(BARS)
    seeds: tuple[int, ...] = SEEDS
    toy_simulations: int = 100
    simulations: int = 2000
    pilot: int = 500
    """Lotka–Volterra: what methods with a simulator of their own start from; it counts in the simulations."""
    n_jobs: int = -1
    """Processes; -1 is one for each core. Numbers do not depend on it."""


class Curve(NamedTuple):
    """A posterior density of the rate on the grid, and how it was come by."""

    density: np.ndarray
    n_simulations: int
    seconds: float
    notes: list[str]

    def total_variation(self, truth: np.ndarray) -> float:
        """Return the total variation distance to a density on the grid."""
        distance = 0.5 * np.trapezoid(np.abs(self.density - truth), GRID)
        return min(float(distance), 1.0)  # the grid cannot resolve a spike, and may find more


class Bar(NamedTuple):
    """95 % intervals (2, 4) of the log rates, and how they were come by."""

    interval: np.ndarray
    n_simulations: int
    n_failed: int
    seconds: float
    notes: list[str]

    @property
    def width(self) -> float:
        """Length of the interval of log θ₁."""
        return float(self.interval[1, 0] - self.interval[0, 0])

    def covered(self, truth: np.ndarray) -> np.ndarray:
        """Tell which parameters (4,) are inside their intervals."""
        low, high = self.interval
        return (low <= truth) & (truth <= high)


class Runs(NamedTuple):
    """The answers of each entry by its label, one for each seed; those that could not run, with the reason."""

    curves: dict[str, list[Curve]]
    bars: dict[str, list[Bar]]
    left_out: dict[str, str]


def run(plan: Plan, report: Report | None = None) -> Runs:
    """Run everything: first what is simulated at draws of the prior, then each method with each seed."""
    left_out = _not_installed(plan)
    bars = [entry for entry in plan.bars if entry.label not in left_out]
    total = len(plan.seeds) * (1 + len(bars) + len(plan.curves))
    ended = itertools.count(1)

    def tell() -> None:
        if report is not None:
            report(next(ended), total)

    drawn = _side_by_side([partial(_prior_simulations, plan, seed) for seed in plan.seeds], plan.n_jobs, tell)
    jobs: list[Callable[[], Any]] = [
        partial(_bar, plan, entry, seed, sims)
        for entry in reversed(bars)  # the slow ones first, so that no core waits for them at the end
        for seed, sims in zip(plan.seeds, drawn, strict=True)
    ]
    jobs += [partial(_curve, plan, entry, seed) for entry in plan.curves for seed in plan.seeds]
    answers = iter(_side_by_side(jobs, plan.n_jobs, tell))
    found = {entry.label: list(itertools.islice(answers, len(plan.seeds))) for entry in reversed(bars)}
    curves = {entry.label: list(itertools.islice(answers, len(plan.seeds))) for entry in plan.curves}
    return Runs(curves, {entry.label: found[entry.label] for entry in bars}, left_out)


def _not_installed(plan: Plan) -> dict[str, str]:
    """Return the methods of the right panel whose packages are not installed, with what to install."""
    problem, reasons = lotka_volterra(), {}
    for entry in plan.bars:
        try:
            entry.build(problem, plan.simulations, 0)
        except ImportError as error:
            reasons[entry.label] = str(error)
    return reasons


def _side_by_side(jobs: list[Callable[[], Any]], n_jobs: int, tell: Callable[[], None]) -> list[Any]:
    """Return what the jobs return, in their order, and tell whenever one has ended."""
    answers: list[Any] = [None] * len(jobs)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped while some jobs")  # joblib replaces those that grew
        parallel = joblib.Parallel(n_jobs, backend="loky", return_as="generator_unordered")
        for at, answer in parallel(joblib.delayed(_numbered)(at, job) for at, job in enumerate(jobs)):
            answers[at] = answer
            tell()
    return answers


def _numbered(at: int, job: Callable[[], Any]) -> tuple[int, Any]:
    with one_blas_thread():
        return at, job()


def _prior_simulations(plan: Plan, seed: int) -> lfi.Simulations:
    problem = lotka_volterra()
    return lfi.simulate(
        problem.simulator, problem.prior, plan.simulations, seed=seed, batched=problem.batched, progress=False
    )


def _bar(plan: Plan, entry: Entry, seed: int, sims: lfi.Simulations) -> Bar:
    """Return the 95 % intervals of the four log rates.

    Simulations are proposed where the posterior is for entries with rounds. All others get the given draws of the
    prior, or the first of them if they run the simulator themselves.
    """
    start, problem = time.perf_counter(), lotka_volterra()
    method = entry.build(problem, plan.simulations, seed)
    if entry.rounds == 1:
        given = sims.take(np.arange(plan.pilot)) if method.runs_simulator else sims
        posterior = _quietly(partial(_fitted_posterior, method, given, problem.prior, problem.observed))
        n, n_failed = method.n_simulations_, given.n_failed + getattr(method, "n_failed_", 0)
    else:
        posterior = _quietly(partial(_in_rounds, plan, method, problem, entry.rounds, seed))
        assert posterior.simulations is not None
        n, n_failed = len(posterior.simulations), posterior.simulations.n_failed
    return Bar(posterior.interval(0.95), n, n_failed, time.perf_counter() - start, posterior.notes)


def _in_rounds(plan: Plan, method: lfi.Method, problem: SimulatorProblem, rounds: int, seed: int) -> lfi.Posterior:
    return lfi.infer(
        problem.simulator,
        problem.prior,
        problem.observed,
        plan.simulations,
        rounds=rounds,
        method=method,
        batched=problem.batched,
        seed=seed,
        progress=False,
    )


def _curve(plan: Plan, entry: Entry, seed: int) -> Curve:
    """Return the posterior density of the rate by one method, from simulations that all methods have."""
    toy = exponential_gamma()
    assert toy.raw_simulator is not None
    sims = lfi.simulate(
        toy.raw_simulator,
        toy.prior,
        plan.toy_simulations,
        seed=seed,
        batched=True,
        summarize=toy.summarize,
        progress=False,
    )
    start = time.perf_counter()
    method = entry.build(toy, plan.toy_simulations, seed)
    observed = toy.observed_raw if method.takes_raw else toy.observed
    posterior = _quietly(partial(_fitted_posterior, method, sims, toy.prior, observed))
    return Curve(_density(posterior), method.n_simulations_, time.perf_counter() - start, posterior.notes)


def _density(posterior: lfi.Posterior) -> np.ndarray:
    """Return the density of the rate on the grid: a spike if all draws are the same."""
    draws = posterior.samples[:, 0]
    if np.ptp(draws) > 0.0:
        return posterior.marginal_density(0, GRID)
    density = np.zeros(len(GRID))
    density[int(np.argmin(np.abs(GRID - draws[0])))] = 1.0 / (GRID[1] - GRID[0])
    return density


def _fitted_posterior(method: lfi.Method, sims: lfi.Simulations, prior: lfi.Prior, observed: Any) -> lfi.Posterior:
    return method.fit(sims, prior).posterior(observed)


def _quietly(make: Callable[[], lfi.Posterior]) -> lfi.Posterior:
    """Return a posterior without warnings: its own go into the numbers as notes, failed simulations are counted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        warnings.simplefilter("ignore", lfi.SimulationWarning)
        posterior = make()
        posterior.samples  # noqa: B018 - draws are made here, so that their time counts
        return posterior
