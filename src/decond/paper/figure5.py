"""Figure 5: posteriors of simulators from few simulations (section 8.3), the published answers beside ours."""

import inspect
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import joblib
import numpy as np

from decond import lfi
from decond.paper.published import PrintedTable, published_values, readings, save_numbers
from decond.plotting.display import COLORS, grid_of, plot_line, title_panel
from decond.problems import SimulatorProblem, exponential_gamma, lotka_volterra
from decond.threads import one_blas_thread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "RATES",
    "DensityRun",
    "Entry",
    "Figure5Settings",
    "IntervalRun",
    "MethodSettings",
    "run",
    "tables",
    "write",
]

# ---- the algorithms, each as published and as improved -------------------------------------------------------

Build = Callable[[SimulatorProblem, int, int], lfi.Method]
Form = Literal["as published", "as improved", "ours"]
Optimum = Literal["global", "local"]


@dataclass(frozen=True)
class MethodSettings:
    """Numbers that the paper leaves open."""

    regularization: float = 1e-3
    """λ of all kernel methods: the paper keeps it fixed without saying at what."""
    n_prior: int = 2000
    """Draws of the prior of KBR: as many as there are simulations."""
    n_chains: int = 25
    """Chains of MCMC-ABC, one from each of the nearest 5 % of the pilot: they need no burn-in."""
    rounds: int = 4
    """Rounds of simulations, the first from the prior, for improved methods that take them from anywhere."""


class Entry(NamedTuple):
    """One curve or bar.

    "as published" is the algorithm as its paper has it: signed weights, herding with the same kernel, simulations
    from the prior. "as improved" is the same algorithm with our changes: no negative weights, a narrow kernel for
    herding and rounds of simulations; for `DME` and `KELFI`, which weight draws of the prior, also new draws where
    the posterior is, and for "(validated)" hyperparameters chosen by held-out simulations. For ABC the changes are a
    regression adjustment and a tolerance that suits it. "ours" is not in the paper.
    """

    algorithm: str
    form: Form
    build: Build
    rounds: int = 1

    @property
    def label(self) -> str:
        """Algorithm and form."""
        return f"{self.algorithm}, {self.form}"

    def settings(self, problem: SimulatorProblem, n: int) -> str:
        """Return the method with every setting that has a value, except the simulator and the seed.

        Methods that run the simulator themselves have rounds, or generations, of their own among their settings.

        Parameters
        ----------
        problem : SimulatorProblem
        n : int
            Number of simulations.

        Returns
        -------
        str
        """
        method = self.build(problem, n, 0)
        names = [name for name in inspect.signature(type(method)).parameters if name not in ("simulator", "seed")]
        values = {name: getattr(method, name) for name in names if getattr(method, name, None) is not None}
        shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
        rounds = "" if method.runs_simulator else f", {self.rounds} round{'s' if self.rounds > 1 else ''}"
        return f"{type(method).__name__}({shown}){rounds}"


def curves(settings: MethodSettings = MethodSettings()) -> list[Entry]:  # noqa: B008 - it is frozen
    """Return the left panels. GPS-ABC may run as many simulations again as it is given, as in the paper."""
    fixed = {"regularization": settings.regularization, "summary": "none"}
    entries = []
    optima: tuple[Optimum, ...] = ("global", "local")
    for optimum in optima:
        by_evidence = {**fixed, "objective": "evidence", "optimum": optimum}
        published, improved = _both(lfi.DME, **by_evidence)
        entries += [
            Entry(f"DME (Algorithm 8.1), {optimum}", "as published", published),
            Entry(f"DME (evidence), {optimum}", "as improved", improved),
        ]
    entries.append(Entry("DME (validated)", "as improved", _plain(lfi.DME, summary="none")))
    for optimum in optima:
        by_evidence = {**fixed, "objective": "evidence", "optimum": optimum}
        entries += _pair(f"KELFI, {optimum}", _both(lfi.KELFI, **by_evidence))
    return [
        *entries,
        Entry("KELFI (validated)", "as improved", _plain(lfi.KELFI, summary="none")),
        *_pair("K-ABC", _both(lfi.KABC, **fixed)),
        *_pair("K2-ABC", _both(lfi.K2ABC)),
        *_pair("KBR", _kbr(settings)),
        Entry("GPS-ABC", "as published", _gps),
        Entry("residual likelihood", "ours", _plain(lfi.ResidualLikelihood)),
    ]


def bars(settings: MethodSettings = MethodSettings()) -> list[Entry]:  # noqa: B008 - it is frozen
    """Return the bars of the right panel, in the order of the published ones."""
    by_evidence = {"regularization": settings.regularization, "objective": "evidence", "optimum": "global"}
    kelfi, dme = (_plain(kind, **by_evidence, robust=False, summary="none") for kind in (lfi.KELFI, lfi.DME))
    rounds = settings.rounds
    rejection = [
        _plain(lfi.RejectionABC, quantile=quantile, adjustment=adjustment, summary="none")
        for quantile, adjustment in ((0.01, "none"), (0.05, "linear"))
    ]
    smc = [_running(lfi.SMCABC, adjustment=adjustment, summary="none") for adjustment in ("none", "linear")]
    mcmc = _running(lfi.MCMCABC, n_chains=settings.n_chains, summary="none")
    return [
        *_pair("REJ-ABC", rejection),
        Entry("MCMC-ABC", "as published", mcmc),
        *_pair("SMC-ABC", smc),
        Entry("LFVI log", "as published", _running(lfi.LFVI, loss="log")),
        Entry("LFVI hinge", "as published", _running(lfi.LFVI, loss="hinge")),
        Entry("MDN", "as published", _running(lfi.MDN)),
        *_pair("KBR", _kbr(settings), rounds),
        Entry("KELFI", "as published", kelfi),
        Entry("KELFI (validated)", "as improved", _plain(lfi.KELFI, summary="none"), rounds),
        Entry("DME (Algorithm 8.1)", "as published", dme),
        Entry("DME (validated)", "as improved", _plain(lfi.DME, summary="none"), rounds),
        Entry("residual likelihood", "ours", _plain(lfi.ResidualLikelihood), rounds),
    ]


def _pair(algorithm: str, builds: list[Build], rounds: int = 1) -> list[Entry]:
    published, improved = builds
    return [Entry(algorithm, "as published", published), Entry(algorithm, "as improved", improved, rounds)]


def _plain(method: Callable[..., lfi.Method], **options: Any) -> Build:
    """Return what builds a method that is given its simulations."""
    return lambda _, n, seed: method(**options, seed=seed)


def _both(method: Callable[..., lfi.Method], **options: Any) -> list[Build]:
    """Return a kernel method with signed weights, as published, and without, as improved."""
    return [_plain(method, **options, robust=robust) for robust in (False, True)]


def _kbr(settings: MethodSettings) -> list[Build]:
    fixed = dict.fromkeys(("regularization", "evidence_regularization"), settings.regularization)
    return _both(lfi.KBR, **fixed, n_prior=settings.n_prior, summary="none")


def _running(method: Callable[..., lfi.Method], **options: Any) -> Build:
    """Return what builds a method that runs the simulator itself."""
    return lambda problem, n, seed: method(problem.simulator, n, problem.batched, **options, seed=seed)


def _gps(problem: SimulatorProblem, n: int, seed: int) -> lfi.Method:
    return lfi.GPSABC(problem.simulator, 2 * n, batched=problem.batched, seed=seed)


# ---- runs ----------------------------------------------------------------------------------------------------

RATES = np.linspace(0.0, 3.5, 701)
"""Where densities of the rate are compared."""


@dataclass(frozen=True)
class Figure5Settings:
    """What is run: entries of both panels, seeds, and how many simulations each run has."""

    curves: Sequence[Entry] = field(default_factory=curves)
    bars: Sequence[Entry] = field(default_factory=bars)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    toy_simulations: int = 100
    """As in the paper."""
    simulations: int = 2000
    """Lotka–Volterra, for every method; the paper has 2,000 for DME."""
    pilot: int = 500
    """Lotka–Volterra: what methods that run the simulator themselves start from; it counts in the simulations."""
    n_jobs: int = -1
    """Processes; -1 is one for each core. Numbers do not depend on it."""


class DensityRun(NamedTuple):
    """A posterior density of the rate at `RATES`, and what it took."""

    density: np.ndarray
    n_simulations: int
    seconds: float
    notes: list[str]

    def total_variation(self, truth: np.ndarray) -> float:
        """Return the total variation distance to a density at `RATES`."""
        distance = 0.5 * np.trapezoid(np.abs(self.density - truth), RATES)
        return min(float(distance), 1.0)  # the grid cannot resolve a spike, and may find more


class IntervalRun(NamedTuple):
    """95 % intervals (2, 4) of the log rates, and what they took."""

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
        """Return which parameters (4,) are inside their intervals."""
        low, high = self.interval
        return (low <= truth) & (truth <= high)


class Runs(NamedTuple):
    """The answers of each entry by its label, one for each seed; methods that could not run, with the reason."""

    curves: dict[str, list[DensityRun]]
    bars: dict[str, list[IntervalRun]]
    left_out: dict[str, str]


def write(
    folder: Path, report: Callable[[int, int], None] | None = None, settings: Figure5Settings | None = None
) -> tuple[list[Path], dict[str, Any]]:
    """Write ``figure5.png`` and ``figure5.json`` into a folder.

    Parameters
    ----------
    folder : Path
    report : callable, optional
        Called with the number of runs that have ended, and of all runs.
    settings : Figure5Settings, optional

    Returns
    -------
    files : list of Path
    numbers : dict
    """
    settings = settings or Figure5Settings()
    toy, true_parameters = exponential_gamma(), lotka_volterra().true_parameters
    assert toy.log_posterior is not None
    assert true_parameters is not None
    truth = np.exp(toy.log_posterior(RATES))
    runs = run(settings, report)
    numbers = _numbers(settings, runs, truth, true_parameters)
    picture = _draw(settings, runs, truth, float(true_parameters[0]))
    return save_numbers(folder, "figure5", picture, numbers), numbers


# ---- runs ----------------------------------------------------------------------------------------------------


def run(settings: Figure5Settings, report: Callable[[int, int], None] | None = None) -> Runs:
    """Run each method with each seed, side by side in processes.

    Parameters
    ----------
    settings : Figure5Settings
    report : callable, optional
        Called with the number of runs that have ended, and of all runs.

    Returns
    -------
    Runs
    """
    left_out = _not_installed(settings)
    entries = [entry for entry in settings.bars if entry.label not in left_out]
    given = [_prior_simulations(settings, seed) for seed in settings.seeds]
    jobs: list[Callable[[], Any]] = [
        partial(_interval_run, settings, entry, seed, sims)
        for entry in reversed(entries)  # the slow ones first, so that no core waits for them at the end
        for seed, sims in zip(settings.seeds, given, strict=True)
    ]
    jobs += [partial(_density_run, settings, entry, seed) for entry in settings.curves for seed in settings.seeds]
    answers = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped while some jobs")  # joblib replaces those that grew
        parallel = joblib.Parallel(settings.n_jobs, backend="loky", return_as="generator")
        for answer in parallel(joblib.delayed(_on_one_thread)(job) for job in jobs):
            answers.append(answer)
            if report is not None:
                report(len(answers), len(jobs))
    labels = [entry.label for entry in [*reversed(entries), *settings.curves]]
    seeds = len(settings.seeds)
    found = [answers[at : at + seeds] for at in range(0, len(answers), seeds)]
    intervals = dict(zip(labels[: len(entries)], found, strict=False))
    densities = dict(zip(labels[len(entries) :], found[len(entries) :], strict=True))
    return Runs(densities, {entry.label: intervals[entry.label] for entry in entries}, left_out)


def _not_installed(settings: Figure5Settings) -> dict[str, str]:
    """Return the methods of the right panel whose packages are not installed, with what to install."""
    problem, reasons = lotka_volterra(), {}
    for entry in settings.bars:
        try:
            entry.build(problem, settings.simulations, 0)
        except ImportError as error:
            reasons[entry.label] = str(error)
    return reasons


def _on_one_thread(job: Callable[[], Any]) -> Any:
    with one_blas_thread():
        return job()


def _prior_simulations(settings: Figure5Settings, seed: int) -> lfi.Simulations:
    problem = lotka_volterra()
    options: dict[str, Any] = {"seed": seed, "batched": problem.batched, "progress": False}
    return lfi.simulate(problem.simulator, problem.prior, settings.simulations, **options)


def _interval_run(settings: Figure5Settings, entry: Entry, seed: int, sims: lfi.Simulations) -> IntervalRun:
    """Return the 95 % intervals of the four log rates.

    Entries with rounds propose simulations where the posterior is. All others get the given draws of the prior, or
    the first of them if they run the simulator themselves.
    """
    start, problem = time.perf_counter(), lotka_volterra()
    method = entry.build(problem, settings.simulations, seed)
    if entry.rounds == 1:
        given = sims.take(np.arange(settings.pilot)) if method.runs_simulator else sims
        posterior = _quietly(lambda: method.fit(given, problem.prior).posterior(problem.observed))
        n, n_failed = method.n_simulations_, given.n_failed + getattr(method, "n_failed_", 0)
    else:
        posterior = _quietly(partial(_in_rounds, problem, settings.simulations, entry.rounds, method, seed))
        assert posterior.simulations is not None
        n, n_failed = len(posterior.simulations), posterior.simulations.n_failed
    return IntervalRun(posterior.interval(0.95), n, n_failed, time.perf_counter() - start, posterior.notes)


def _in_rounds(problem: SimulatorProblem, n: int, rounds: int, method: lfi.Method, seed: int) -> lfi.Posterior:
    options: dict[str, Any] = {"batched": problem.batched, "seed": seed, "progress": False}
    return lfi.infer(problem.simulator, problem.prior, problem.observed, n, rounds=rounds, method=method, **options)


def _density_run(settings: Figure5Settings, entry: Entry, seed: int) -> DensityRun:
    """Return the posterior density of the rate by one method, from simulations that all methods have."""
    toy = exponential_gamma()
    assert toy.raw_simulator is not None
    assert toy.observed_raw is not None
    options: dict[str, Any] = {"batched": True, "summarize": toy.summarize, "progress": False}
    sims = lfi.simulate(toy.raw_simulator, toy.prior, settings.toy_simulations, seed=seed, **options)
    start = time.perf_counter()
    method = entry.build(toy, settings.toy_simulations, seed)
    observed = toy.observed_raw if method.takes_raw else toy.observed
    assert observed is not None
    posterior = _quietly(lambda: method.fit(sims, toy.prior).posterior(observed))
    return DensityRun(_density(posterior), method.n_simulations_, time.perf_counter() - start, posterior.notes)


def _density(posterior: lfi.Posterior) -> np.ndarray:
    """Return the density at `RATES`: a spike if all draws are the same."""
    draws = posterior.samples[:, 0]
    if np.ptp(draws) > 0.0:
        return posterior.marginal_density(0, RATES)
    density = np.zeros(len(RATES))
    density[int(np.argmin(np.abs(RATES - draws[0])))] = 1.0 / (RATES[1] - RATES[0])
    return density


def _quietly(make: Callable[[], lfi.Posterior]) -> lfi.Posterior:
    """Return a posterior without warnings: its own go into the numbers as notes, failed simulations are counted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        warnings.simplefilter("ignore", lfi.SimulationWarning)
        posterior = make()
        posterior.samples  # noqa: B018 - draws are made here, so that their time counts
        return posterior


# ---- numbers -------------------------------------------------------------------------------------------------


def _numbers(settings: Figure5Settings, runs: Runs, truth: np.ndarray, true_parameters: np.ndarray) -> dict[str, Any]:
    def _described(entry: Entry, problem: SimulatorProblem, n: int) -> dict[str, str]:
        return {"algorithm": entry.algorithm, "form": entry.form, "settings": entry.settings(problem, n)}

    return {
        "figure": "likelihood-free inference (section 8.3, Figure 5)",
        "seeds": list(settings.seeds),
        "answers": {
            entry.label: _described(entry, exponential_gamma(), settings.toy_simulations)
            | _score_curves(entry.algorithm, runs.curves[entry.label], truth)
            for entry in settings.curves
        },
        "lotka_volterra": {
            entry.label: _described(entry, lotka_volterra(), settings.simulations)
            | _score_bars(entry.algorithm, runs.bars[entry.label], true_parameters)
            for entry in settings.bars
            if entry.label in runs.bars
        },
        "left_out": runs.left_out,
        "published": [reading._asdict() for reading in readings()],
        "true_log_theta_1": float(true_parameters[0]),
    }


def _score_curves(algorithm: str, found: list[DensityRun], truth: np.ndarray) -> dict[str, Any]:
    """Return distances to the truth and peaks over the seeds, beside those published."""
    distances = [one.total_variation(truth) for one in found]
    peaks = [float(one.density.max()) for one in found]
    return {
        "n_simulations": _mean(one.n_simulations for one in found),
        "total_variation": _mean(distances),
        "lowest_total_variation": min(distances),
        "highest_total_variation": max(distances),
        "published_total_variation": published_values("left", algorithm, "total_variation"),
        "peak": float(np.median(peaks)),
        "published_peak": published_values("left", algorithm, "peak"),
        "seconds": _mean(one.seconds for one in found),
        "runs": [
            {"total_variation": distance, "peak": peak, "seconds": one.seconds, "notes": one.notes}
            for distance, peak, one in zip(distances, peaks, found, strict=True)
        ],
    }


def _score_bars(algorithm: str, found: list[IntervalRun], truth: np.ndarray) -> dict[str, Any]:
    """Return the interval of log θ₁ (medians of its ends), its width and coverage over the seeds."""
    covered = np.array([one.covered(truth) for one in found])
    low, high = np.median([one.interval[:, 0] for one in found], axis=0)
    return {
        "n_simulations": _mean(one.n_simulations for one in found),
        "low": float(low),
        "high": float(high),
        "width": _mean(one.width for one in found),
        "times_covered": int(covered[:, 0].sum()),
        "coverage_of_all_parameters": float(covered.mean()),
        "published_low": next(iter(published_values("right", algorithm, "low")), None),
        "published_high": next(iter(published_values("right", algorithm, "high")), None),
        "n_failed": _mean(one.n_failed for one in found),
        "seconds": _mean(one.seconds for one in found),
        "runs": [
            {"intervals": one.interval.T.tolist(), "covered": inside.tolist(), "n_simulations": one.n_simulations}
            | {"n_failed": one.n_failed, "seconds": one.seconds, "notes": one.notes}
            for one, inside in zip(found, covered, strict=True)
        ],
    }


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def tables(numbers: dict[str, Any]) -> list[PrintedTable]:
    """Return the two tables of the figure: densities on the left, intervals on the right."""
    seeds = len(numbers["seeds"])
    left = [_curve_cells(answer) for answer in numbers["answers"].values()]
    right = [_bar_cells(answer, seeds) for answer in numbers["lotka_volterra"].values()]
    titles = (f"exponential–gamma, {seeds} seeds", f"Lotka–Volterra, 95 % intervals, {seeds} seeds")
    return [
        PrintedTable(title, list(cells[0]), [list(row.values()) for row in cells])
        for title, cells in zip(titles, (left, right), strict=True)
    ]


def _curve_cells(answer: dict[str, Any]) -> dict[str, str]:
    """Return a row of the left table, by heading."""

    def _published(key: str, digits: str) -> str:
        return " and ".join(format(value, digits) for value in answer[f"published_{key}"]) or "–"

    return {
        "method": answer["algorithm"],
        "form": answer["form"],
        "simulations": f"{answer['n_simulations']:.0f}",
        "total variation": f"{answer['total_variation']:.3f}",
        "its range": f"{answer['lowest_total_variation']:.3f} to {answer['highest_total_variation']:.3f}",
        "published total variation": _published("total_variation", ".3f"),
        "peak": f"{answer['peak']:.2f}",
        "published peak": _published("peak", ".2f"),
        "seconds": f"{answer['seconds']:.1f}",
        "settings": answer["settings"],
    }


def _bar_cells(answer: dict[str, Any], seeds: int) -> dict[str, str]:
    """Return a row of the right table, by heading."""
    low, high = answer["published_low"], answer["published_high"]
    return {
        "method": answer["algorithm"],
        "form": answer["form"],
        "simulations": f"{answer['n_simulations']:.0f}",
        "log θ₁": f"{answer['low']:.3f} to {answer['high']:.3f}",
        "width": f"{answer['width']:.2f}",
        "covers θ₁": f"{answer['times_covered']} of {seeds}",
        "share of all four": f"{answer['coverage_of_all_parameters']:.2f}",
        "published log θ₁": "–" if low is None else f"{low:.3f} to {high:.3f}",
        "published width": "–" if low is None else f"{high - low:.2f}",
        "seconds": f"{answer['seconds']:.0f}",
        "settings": answer["settings"],
    }


# ---- the picture ---------------------------------------------------------------------------------------------


def _draw(settings: Figure5Settings, runs: Runs, truth: np.ndarray, true_log_rate: float) -> "Figure":
    """Return the figure: densities of the rate on the left, intervals of log θ₁ on the right, a line a seed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(17.0, 8.5), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=(1.0, 1.2), wspace=0.03)
    left, right = halves
    algorithms = list(dict.fromkeys(entry.algorithm for entry in settings.curves))
    panels = dict(zip(algorithms, grid_of(left, len(algorithms), 3, sharex=True, sharey=True), strict=True))
    for entry in settings.curves:
        for curve in runs.curves[entry.label]:
            style: Any = {"label": entry.form, "linewidth": 0.8, "color": _color_of(entry.form)}
            plot_line(panels[entry.algorithm], RATES, curve.density, "model", **style)
    for algorithm, ax in panels.items():
        plot_line(ax, RATES, truth, "truth", "true posterior", "--", linewidth=1.2)
        ax.set(xlim=(RATES[0], RATES[-1]), ylim=(0.0, 1.8 * truth.max()))  # spikes would flatten all others
        title_panel(ax, algorithm)
        _add_legend(ax)
    left.suptitle("exponential–gamma: density of the rate θ", fontsize=11)
    entries = [entry for entry in settings.bars if entry.label in runs.bars]
    ax = right.subplots()
    for at, entry in enumerate(entries):
        known = [published_values("right", entry.algorithm, end) for end in ("low", "high")]
        if entry.form == "as published" and all(known):
            plot_line(ax, known, [at, at], "data", "in the paper", linewidth=12.0, alpha=0.4, solid_capstyle="butt")
        for offset, one in zip(np.linspace(-0.3, 0.3, len(settings.seeds)), runs.bars[entry.label], strict=True):
            style = {"label": entry.form, "linewidth": 2.0, "color": _color_of(entry.form)}
            plot_line(ax, one.interval[:, 0], np.full(2, at + offset), "model", **style)
    ax.axvline(true_log_rate, color=COLORS["truth"], ls="--", lw=1.2, label="true value")
    ax.set_yticks(range(len(entries)), [f"{entry.algorithm}\n{entry.form}" for entry in entries], fontsize=8)
    ax.set(ylim=(len(entries) - 0.4, -0.6), xlabel="log θ₁")  # the first on top
    ax.set_title("Lotka–Volterra: 95 % intervals of log θ₁", fontsize=11)
    _add_legend(ax)
    return figure


def _color_of(form: str) -> str:
    return COLORS[{"as published": "cascade", "as improved": "model", "ours": "density"}[form]]


def _add_legend(ax: "Axes") -> None:
    handles, labels = ax.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    ax.legend(once.values(), once.keys(), frameon=False, fontsize=8, loc="upper right")
