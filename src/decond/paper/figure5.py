"""Figure 5: posteriors of simulators from few simulations (section 8.3), the published answers beside ours."""

import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from decond import lfi
from decond.paper.output import write_figure
from decond.paper.published import PUBLISHED_BARS, PUBLISHED_CURVES, Published
from decond.plotting.style import COLORS, plot_line
from decond.problems import SimulatorProblem, exponential_gamma, lotka_volterra

__all__ = ["Bar", "Curve", "bars", "curves", "write"]

GRID = np.linspace(0.0, 3.5, 701)
TOY_SIMULATIONS, TOY_BUDGET_GPS = 100, 200
SIMULATIONS, PILOT, ROUNDS = 2000, 500, 4
"""Lotka–Volterra: simulations in all, those that methods with a simulator of their own start from, and rounds."""

FIXED = 1e-3
"""λ where the marginal likelihood chooses lengthscales: the paper keeps it fixed without saying at what."""

Build = Callable[[SimulatorProblem, Any], lfi.Method]


def _dme_as_written(optimum: str, seed: Any) -> lfi.Method:
    return lfi.DME(objective="evidence", optimum=optimum, robust=False, regularization=FIXED, seed=seed)


def _kelfi_as_written(optimum: str, seed: Any) -> lfi.Method:
    return lfi.KELFI(objective="evidence", optimum=optimum, regularization=FIXED, seed=seed)


CURVES: dict[str, tuple[Build, str, str]] = {
    "residual likelihood": (lambda _, seed: lfi.ResidualLikelihood(seed=seed), "cascade", "-"),
    "DME, validated": (lambda _, seed: lfi.DME(seed=seed), "model", "-"),
    "DME, evidence (global)": (lambda _, seed: _dme_as_written("global", seed), "model", "--"),
    "DME, evidence (local)": (lambda _, seed: _dme_as_written("local", seed), "model", ":"),
    "KELFI, evidence (global)": (lambda _, seed: _kelfi_as_written("global", seed), "density", "--"),
    "KELFI, evidence (local)": (lambda _, seed: _kelfi_as_written("local", seed), "density", ":"),
    "KELFI, validated": (lambda _, seed: lfi.KELFI(seed=seed), "density", "-"),
    "K-ABC": (lambda _, seed: lfi.KABC(seed=seed), "band", "-"),
    "KBR": (lambda _, seed: lfi.KBR(seed=seed), "initial", "-"),
    "K2-ABC": (lambda _, seed: lfi.K2ABC(seed=seed), "impute", "-"),
    "GPS-ABC": (
        lambda toy, seed: lfi.GPSABC(toy.simulator, TOY_BUDGET_GPS, batched=toy.batched, seed=seed),
        "data",
        "-",
    ),
}
"""The methods of the left panel, with the role that gives their color and the style of their line."""

BARS: dict[str, Build] = {
    "REJ-ABC": lambda _, seed: lfi.RejectionABC(0.01, seed=seed, summary="none"),
    "REJ-ABC, adjusted": lambda _, seed: lfi.RejectionABC(0.05, adjustment="linear", seed=seed, summary="none"),
    "MCMC-ABC": lambda lv, seed: lfi.MCMCABC(lv.simulator, SIMULATIONS, lv.batched, seed=seed, summary="none"),
    "SMC-ABC": lambda lv, seed: lfi.SMCABC(lv.simulator, SIMULATIONS, lv.batched, seed=seed, summary="none"),
    "SMC-ABC, adjusted": lambda lv, seed: lfi.SMCABC(
        lv.simulator, SIMULATIONS, lv.batched, adjustment="linear", seed=seed, summary="none"
    ),
    "KBR": lambda _, seed: lfi.KBR(seed=seed),
    "KELFI": lambda _, seed: lfi.KELFI(seed=seed),
    "DME": lambda _, seed: lfi.DME(seed=seed),
    "residual likelihood": lambda _, seed: lfi.ResidualLikelihood(seed=seed),
}
"""The methods of the right panel, in the order of the published bars."""


class Curve(NamedTuple):
    """A posterior density of the rate on the grid, and how it was come by."""

    density: np.ndarray
    n_simulations: int
    seconds: float
    notes: list[str]

    def score(self, truth: np.ndarray, published: Published | None) -> dict[str, Any]:
        """Return the distance to the truth and the peak, beside those published."""
        return {
            "total_variation": float(0.5 * np.trapezoid(np.abs(self.density - truth), GRID)),
            "published_total_variation": published.total_variation if published else None,
            "peak": float(self.density.max()),
            "published_peak": published.peak if published else None,
            "n_simulations": self.n_simulations,
            "seconds": self.seconds,
            "notes": self.notes,
        }


class Bar(NamedTuple):
    """95 % intervals (2, 4) of the log rates, and how they were come by."""

    interval: np.ndarray
    n_simulations: int
    n_failed: int
    seconds: float
    notes: list[str]

    def score(self, truth: np.ndarray, published: tuple[float, float] | None) -> dict[str, Any]:
        """Return the interval of log θ₁ beside the published one, and which parameters are covered."""
        low, high = self.interval
        return {
            "low": float(low[0]),
            "high": float(high[0]),
            "width": float(high[0] - low[0]),
            "published_low": published[0] if published else None,
            "published_high": published[1] if published else None,
            "covered": ((low <= truth) & (truth <= high)).tolist(),
            "intervals": self.interval.T.tolist(),
            "n_simulations": self.n_simulations,
            "n_failed": self.n_failed,
            "seconds": self.seconds,
            "notes": self.notes,
        }


def curves(seed: int = 0) -> dict[str, Curve]:
    """Return the posterior density of the rate by each method, from the same 100 simulations."""
    toy = exponential_gamma()
    assert toy.raw_simulator is not None
    sims = lfi.simulate(
        toy.raw_simulator,
        toy.prior,
        TOY_SIMULATIONS,
        seed=seed,
        batched=True,
        summarize=toy.summarize,
        progress=False,
    )
    found = {}
    for name, (build, _, _) in CURVES.items():
        start = time.perf_counter()
        method = build(toy, seed)
        observed = toy.observed_raw if name == "K2-ABC" else toy.observed
        posterior = _quietly(partial(_fitted_posterior, method, sims, toy.prior, observed))
        density = posterior.marginal_density("rate", GRID)
        found[name] = Curve(density, method.n_simulations_, time.perf_counter() - start, posterior.notes)
    return found


def bars(seed: int = 0) -> dict[str, Bar]:
    """Return the 95 % intervals of the four log rates by each method, from 2000 simulations each."""
    problem = lotka_volterra()
    found = {}
    for name, build in BARS.items():
        start = time.perf_counter()
        posterior, n_simulations, n_failed = _predators(problem, build(problem, seed), seed)
        interval = posterior.interval(0.95)
        found[name] = Bar(interval, n_simulations, n_failed, time.perf_counter() - start, posterior.notes)
    return found


def write(folder: Path, seed: int = 0) -> tuple[list[Path], dict[str, Any]]:
    """Write ``figure5.png`` and ``figure5.json`` into a folder."""
    toy, problem = exponential_gamma(), lotka_volterra()
    assert toy.log_posterior is not None
    assert problem.true_parameters is not None
    truth = np.exp(toy.log_posterior(GRID))
    left, right = curves(seed), bars(seed)
    numbers = {
        "figure": "likelihood-free inference (section 8.3, Figure 5)",
        "answers": {name: curve.score(truth, PUBLISHED_CURVES.get(name)) for name, curve in left.items()},
        "lotka_volterra": {
            name: bar.score(problem.true_parameters, PUBLISHED_BARS.get(name)) for name, bar in right.items()
        },
        "published_bars": {name: list(bar) for name, bar in PUBLISHED_BARS.items()},
        "true_log_theta_1": float(problem.true_parameters[0]),
    }
    return write_figure(folder, "figure5", _draw(truth, left, right, problem.true_parameters[0]), numbers), numbers


def _predators(problem: SimulatorProblem, method: Any, seed: int) -> tuple[lfi.Posterior, int, int]:
    """Return the posterior of the predators and prey, the number of simulations and how many of them failed.

    Simulations are draws of the prior for methods that need these, a pilot for those that run the simulator
    themselves, and proposed where the posterior is, in rounds, for all others.
    """
    from_the_prior = getattr(method, "needs_prior_draws", False)
    if from_the_prior or getattr(method, "runs_simulator", False):
        n = SIMULATIONS if from_the_prior else PILOT
        sims = lfi.simulate(problem.simulator, problem.prior, n, seed=seed, batched=True, progress=False)
        posterior = _quietly(partial(_fitted_posterior, method, sims, problem.prior, problem.observed))
        return posterior, method.n_simulations_, sims.n_failed + getattr(method, "n_failed_", 0)
    posterior = _quietly(
        partial(
            lfi.infer,
            problem.simulator,
            problem.prior,
            problem.observed,
            SIMULATIONS,
            rounds=ROUNDS,
            method=method,
            batched=problem.batched,
            seed=seed,
            progress=False,
        )
    )
    assert posterior.simulations is not None
    return posterior, len(posterior.simulations), posterior.simulations.n_failed


def _fitted_posterior(method: lfi.Method, sims: lfi.Simulations, prior: lfi.Prior, observed: Any) -> lfi.Posterior:
    return method.fit(sims, prior).posterior(observed)


def _quietly(run: Callable[[], lfi.Posterior]) -> lfi.Posterior:
    """Return a posterior without its warnings, which go into the numbers as notes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        posterior = run()
        posterior.samples  # noqa: B018 - draws are made here, so that their time counts
        return posterior


def _draw(truth: np.ndarray, left: dict[str, Curve], right: dict[str, Bar], true_log_rate: float) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.5, 5.2), layout="constrained")
    toy, predators = figure.subplots(1, 2)
    for name, curve in left.items():
        _, role, style = CURVES[name]
        plot_line(toy, GRID, curve.density, role, name, style)
    plot_line(toy, GRID, truth, "truth", "true posterior", "--")
    toy.set(xlabel="rate θ", ylabel="posterior density", title=f"exponential–gamma, {TOY_SIMULATIONS} simulations")
    toy.set_ylim(0.0, 1.6 * truth.max())  # a collapsed posterior is a spike that would flatten all others
    toy.legend(frameon=False, fontsize=9)
    names = list(dict.fromkeys([*PUBLISHED_BARS, *right]))
    for at, name in enumerate(names):
        _bar(predators, at - 0.14, PUBLISHED_BARS.get(name), COLORS["data"], "published")
        ours = right[name].interval[:, 0] if name in right else None
        _bar(predators, at + 0.14, ours, COLORS["model"], f"ours, {SIMULATIONS} simulations")
    predators.axhline(true_log_rate, color=COLORS["truth"], ls="--", lw=1.2, label="true value")
    predators.set_xticks(range(len(names)), names, rotation=40, ha="right")
    predators.set(ylabel="log θ₁, 95 % interval", title="Lotka–Volterra")
    handles, labels = predators.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    predators.legend(unique.values(), unique.keys(), frameon=False, fontsize=9)
    return figure


def _bar(ax: Any, at: float, interval: Any, color: str, label: str) -> None:
    """Draw one interval, if there is one."""
    if interval is not None:
        ends = {"marker": "_", "ms": 9, "mew": 2}  # a posterior that collapsed onto a point is a dash
        ax.plot([at, at], list(interval), color=color, lw=5, solid_capstyle="butt", label=label, **ends)
