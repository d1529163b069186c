"""Figure 5: posteriors of simulators from few simulations (section 8.3), the published answers beside ours."""

import inspect
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
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

__all__ = ["RATES", "Entry", "Figure5Settings", "MethodSettings", "Run", "Runs", "run", "tables", "write"]

RATES = np.linspace(0.0, 3.5, 701)
"""Where densities of the rate are compared."""

# ---- the algorithms, each as published and as improved -------------------------------------------------------


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
    """One curve or bar: a method with its options.

    "as published" is the algorithm as its paper has it: signed weights, herding with the same kernel, simulations
    from the prior. "as improved" is the same algorithm with our changes: no negative weights, a narrow kernel for
    herding and rounds of simulations; for `DME` and `KELFI`, which weight draws of the prior, also new draws where
    the posterior is, and for "(validated)" hyperparameters chosen by held-out simulations. For ABC the changes are a
    regression adjustment and a tolerance that suits it. "ours" is not in the paper.
    """

    algorithm: str
    form: Literal["as published", "as improved", "ours"]
    method: Callable[..., lfi.Method]
    options: Mapping[str, Any]
    rounds: int = 1
    budget: int = 1
    """How many simulations a method may use that runs them itself, relative to what it is given."""

    @property
    def label(self) -> str:
        """Algorithm and form."""
        return f"{self.algorithm}, {self.form}"

    def build(self, problem: SimulatorProblem, n: int, seed: int) -> lfi.Method:
        """Return the method for one run.

        Parameters
        ----------
        problem : SimulatorProblem
        n : int
            Number of simulations.
        seed : int

        Returns
        -------
        Method
        """
        running = "simulator" in inspect.signature(self.method).parameters
        own = (problem.simulator, self.budget * n, problem.batched) if running else ()
        return self.method(*own, **self.options, seed=seed)

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


def _both(
    algorithm: str, method: Callable[..., lfi.Method], options: Mapping[str, Any], rounds: int = 1, improved: str = ""
) -> list[Entry]:
    """Return a kernel method with signed weights, as published, and without, as improved."""
    signed, robust = ({**options, "robust": value} for value in (False, True))
    return [
        Entry(algorithm, "as published", method, signed),
        Entry(improved or algorithm, "as improved", method, robust, rounds),
    ]


def curves(settings: MethodSettings) -> list[Entry]:
    """Return the left panels. GPS-ABC may run as many simulations again as it is given, as in the paper."""
    plain, fixed, of_kbr, at_global, at_local = _options(settings)
    return [
        *_both("DME (Algorithm 8.1), global", lfi.DME, at_global, improved="DME (evidence), global"),
        *_both("DME (Algorithm 8.1), local", lfi.DME, at_local, improved="DME (evidence), local"),
        Entry("DME (validated)", "as improved", lfi.DME, plain),
        *_both("KELFI, global", lfi.KELFI, at_global),
        *_both("KELFI, local", lfi.KELFI, at_local),
        Entry("KELFI (validated)", "as improved", lfi.KELFI, plain),
        *_both("K-ABC", lfi.KABC, fixed),
        *_both("K2-ABC", lfi.K2ABC, {}),
        *_both("KBR", lfi.KBR, of_kbr),
        Entry("GPS-ABC", "as published", lfi.GPSABC, {}, budget=2),
        Entry("residual likelihood", "ours", lfi.ResidualLikelihood, {}),
    ]


def bars(settings: MethodSettings) -> list[Entry]:
    """Return the bars of the right panel, in the order of the published ones."""
    plain, _, of_kbr, at_global, _ = _options(settings)
    return [
        Entry("REJ-ABC", "as published", lfi.RejectionABC, {**plain, "quantile": 0.01, "adjustment": "none"}),
        Entry("REJ-ABC", "as improved", lfi.RejectionABC, {**plain, "quantile": 0.05, "adjustment": "linear"}),
        Entry("MCMC-ABC", "as published", lfi.MCMCABC, {**plain, "n_chains": settings.n_chains}),
        Entry("SMC-ABC", "as published", lfi.SMCABC, {**plain, "adjustment": "none"}),
        Entry("SMC-ABC", "as improved", lfi.SMCABC, {**plain, "adjustment": "linear"}),
        Entry("LFVI log", "as published", lfi.LFVI, {"loss": "log"}),
        Entry("LFVI hinge", "as published", lfi.LFVI, {"loss": "hinge"}),
        Entry("MDN", "as published", lfi.MDN, {}),
        *_both("KBR", lfi.KBR, of_kbr, settings.rounds),
        Entry("KELFI", "as published", lfi.KELFI, {**at_global, "robust": False}),
        Entry("KELFI (validated)", "as improved", lfi.KELFI, plain, settings.rounds),
        Entry("DME (Algorithm 8.1)", "as published", lfi.DME, {**at_global, "robust": False}),
        Entry("DME (validated)", "as improved", lfi.DME, plain, settings.rounds),
        Entry("residual likelihood", "ours", lfi.ResidualLikelihood, {}, settings.rounds),
    ]


def _options(settings: MethodSettings) -> list[dict[str, Any]]:
    """Return options of kernel methods: plain, with λ fixed, of KBR, and by the evidence at either optimum."""
    plain = {"summary": "none"}
    fixed = {**plain, "regularization": settings.regularization}
    of_kbr = {**fixed, "evidence_regularization": settings.regularization, "n_prior": settings.n_prior}
    return [
        *(plain, fixed, of_kbr),
        *({**fixed, "objective": "evidence", "optimum": optimum} for optimum in ("global", "local")),
    ]


# ---- runs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure5Settings:
    """What is run: entries of both panels, seeds, and how many simulations each run has."""

    curves: Sequence[Entry] = field(default_factory=lambda: curves(MethodSettings()))
    bars: Sequence[Entry] = field(default_factory=lambda: bars(MethodSettings()))
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    toy_simulations: int = 100
    """As in the paper."""
    simulations: int = 2000
    """Lotka–Volterra, for every method; the paper has 2,000 for DME."""
    pilot: int = 500
    """Lotka–Volterra: what methods that run the simulator themselves start from; it counts in the simulations."""
    n_jobs: int = -1
    """Processes; -1 is one for each core. Numbers do not depend on it."""


class Run(NamedTuple):
    """What one method gave with one seed, and what it took."""

    interval: np.ndarray
    """95 % intervals (2, d)."""
    density: np.ndarray
    """The density at `RATES` of a single parameter; empty for several."""
    n_simulations: int
    n_failed: int
    seconds: float
    notes: list[str]

    def total_variation(self, truth: np.ndarray) -> float:
        """Return the total variation distance to a density at `RATES`."""
        distance = 0.5 * np.trapezoid(np.abs(self.density - truth), RATES)
        return min(float(distance), 1.0)  # the grid cannot resolve a spike, and may find more


@dataclass(frozen=True)
class Runs:
    """The answers of each entry by its label, one for each seed; methods that could not run, with the reason."""

    curves: dict[str, list[Run]] = field(default_factory=dict)
    bars: dict[str, list[Run]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


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
    found = Runs(left_out=_not_installed(settings))
    bars = [entry for entry in settings.bars if entry.label not in found.left_out]
    slow_first = list(reversed(bars))  # so that no core waits for them at the end
    jobs: list[tuple[list[Run], Callable[[], Run]]] = []
    for answers, entries, make, count, pilot in (
        (found.bars, slow_first, lotka_volterra, settings.simulations, settings.pilot),
        (found.curves, settings.curves, exponential_gamma, settings.toy_simulations, settings.toy_simulations),
    ):
        given = [_prior_simulations(make, count, seed) for seed in settings.seeds]
        answers.update({entry.label: [] for entry in entries})
        jobs += [
            (answers[entry.label], partial(_run, make, entry, sims, pilot, seed))
            for entry in entries
            for seed, sims in zip(settings.seeds, given, strict=True)
        ]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped while some jobs")  # joblib replaces those that grew
        parallel = joblib.Parallel(settings.n_jobs, backend="loky", return_as="generator")
        ended = parallel(joblib.delayed(_on_one_thread)(job) for _, job in jobs)
        for number, ((answers_of_entry, _), answer) in enumerate(zip(jobs, ended, strict=True), 1):
            answers_of_entry.append(answer)
            if report is not None:
                report(number, len(jobs))
    return Runs(found.curves, {entry.label: found.bars[entry.label] for entry in bars}, found.left_out)


def _on_one_thread(job: Callable[[], Run]) -> Run:
    with one_blas_thread():
        return job()


def _not_installed(settings: Figure5Settings) -> dict[str, str]:
    """Return the methods of the right panel whose packages are not installed, with what to install."""
    problem, reasons = lotka_volterra(), {}
    for entry in settings.bars:
        try:
            entry.build(problem, settings.simulations, 0)
        except ImportError as error:
            reasons[entry.label] = str(error)
    return reasons


def _prior_simulations(make: Callable[[], SimulatorProblem], n: int, seed: int) -> lfi.Simulations:
    """Return simulations at draws of the prior, with their raw data where these are small."""
    problem = make()
    options: dict[str, Any] = {"seed": seed, "batched": True, "progress": False}
    if make is exponential_gamma:
        assert problem.raw_simulator is not None
        return lfi.simulate(problem.raw_simulator, problem.prior, n, summarize=problem.summarize, **options)
    return lfi.simulate(problem.simulator, problem.prior, n, **options)


def _run(make: Callable[[], SimulatorProblem], entry: Entry, sims: lfi.Simulations, pilot: int, seed: int) -> Run:
    """Return what one method infers.

    Entries with rounds propose simulations where the posterior is. All others get the given draws of the prior, or
    the first of them if they run the simulator themselves.
    """
    start, problem = time.perf_counter(), make()
    method = entry.build(problem, len(sims), seed)
    with warnings.catch_warnings():  # notes are among the numbers, and failed simulations are counted
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        warnings.simplefilter("ignore", lfi.SimulationWarning)
        if entry.rounds == 1:
            given = sims.take(np.arange(pilot)) if method.runs_simulator else sims
            observed = problem.observed_raw if method.takes_raw else problem.observed
            assert observed is not None
            posterior = method.fit(given, problem.prior).posterior(observed)
            n, n_failed = method.n_simulations_, given.n_failed + getattr(method, "n_failed_", 0)
        else:
            task: Any = (problem.simulator, problem.prior, problem.observed, len(sims), entry.rounds, method)
            posterior = lfi.infer(*task, batched=problem.batched, seed=seed, progress=False)
            assert posterior.simulations is not None
            n, n_failed = len(posterior.simulations), posterior.simulations.n_failed
        interval = posterior.interval(0.95)
    density = _density(posterior) if problem.prior.dim == 1 else np.empty(0)
    return Run(interval, density, n, n_failed, time.perf_counter() - start, posterior.notes)


def _density(posterior: lfi.Posterior) -> np.ndarray:
    """Return the density at `RATES`: a spike if all draws are the same."""
    draws = posterior.samples[:, 0]
    if np.ptp(draws) > 0.0:
        return posterior.marginal_density(0, RATES)
    density = np.zeros(len(RATES))
    density[int(np.argmin(np.abs(RATES - draws[0])))] = 1.0 / (RATES[1] - RATES[0])
    return density


# ---- numbers -------------------------------------------------------------------------------------------------


def _numbers(settings: Figure5Settings, runs: Runs, truth: np.ndarray, true_parameters: np.ndarray) -> dict[str, Any]:
    def _described(entry: Entry, problem: SimulatorProblem, n: int, found: list[Run]) -> dict[str, Any]:
        return {
            **{"algorithm": entry.algorithm, "form": entry.form, "settings": entry.settings(problem, n)},
            **{key: _mean(getattr(one, key) for one in found) for key in ("n_simulations", "n_failed", "seconds")},
        }

    toy, predators = exponential_gamma(), lotka_volterra()
    return {
        "figure": "likelihood-free inference (section 8.3, Figure 5)",
        "seeds": list(settings.seeds),
        "answers": {
            entry.label: _described(entry, toy, settings.toy_simulations, runs.curves[entry.label])
            | _score_curves(entry.algorithm, runs.curves[entry.label], truth)
            for entry in settings.curves
        },
        "lotka_volterra": {
            entry.label: _described(entry, predators, settings.simulations, runs.bars[entry.label])
            | _score_bars(entry.algorithm, runs.bars[entry.label], true_parameters)
            for entry in settings.bars
            if entry.label in runs.bars
        },
        "left_out": runs.left_out,
        "published": [reading._asdict() for reading in readings()],
        "true_log_theta_1": float(true_parameters[0]),
    }


def _score_curves(algorithm: str, found: list[Run], truth: np.ndarray) -> dict[str, Any]:
    """Return distances to the truth and peaks over the seeds, beside those published."""
    runs: list[dict[str, Any]] = [
        {"total_variation": one.total_variation(truth), "peak": float(one.density.max())}
        | {"seconds": one.seconds, "notes": one.notes}
        for one in found
    ]
    distances = [one["total_variation"] for one in runs]
    return {
        "total_variation": _mean(distances),
        "lowest_total_variation": min(distances),
        "highest_total_variation": max(distances),
        "published_total_variation": published_values("left", algorithm, "total_variation"),
        "peak": float(np.median([one["peak"] for one in runs])),
        "published_peak": published_values("left", algorithm, "peak"),
        "runs": runs,
    }


def _score_bars(algorithm: str, found: list[Run], truth: np.ndarray) -> dict[str, Any]:
    """Return the interval of log θ₁ (medians of its ends), its width and coverage over the seeds."""
    ends = np.array([one.interval for one in found])
    covered = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    low, high = np.median(ends[:, :, 0], axis=0)
    return {
        "low": float(low),
        "high": float(high),
        "width": _mean(ends[:, 1, 0] - ends[:, 0, 0]),
        "times_covered": int(covered[:, 0].sum()),
        "coverage_of_all_parameters": float(covered.mean()),
        "published_low": next(iter(published_values("right", algorithm, "low")), None),
        "published_high": next(iter(published_values("right", algorithm, "high")), None),
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
    panels: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], dict[str, str]]]] = {
        f"exponential–gamma, {seeds} seeds": (numbers["answers"], _curve_cells),
        f"Lotka–Volterra, 95 % intervals, {seeds} seeds": (numbers["lotka_volterra"], partial(_bar_cells, seeds)),
    }
    found = []
    for title, (answers, cells_of) in panels.items():
        rows = [
            {"method": answer["algorithm"], "form": answer["form"]}
            | {"simulations": f"{answer['n_simulations']:.0f}", **cells_of(answer)}
            | {"seconds": f"{answer['seconds']:.1f}", "settings": answer["settings"]}
            for answer in answers.values()
        ]
        found.append(PrintedTable(title, list(rows[0]), [list(row.values()) for row in rows]))
    return found


def _curve_cells(answer: dict[str, Any]) -> dict[str, str]:
    known, peaks = answer["published_total_variation"], answer["published_peak"]
    return {
        "total variation": f"{answer['total_variation']:.3f}",
        "its range": f"{answer['lowest_total_variation']:.3f} to {answer['highest_total_variation']:.3f}",
        "published total variation": " and ".join(f"{value:.3f}" for value in known) or "–",
        "peak": f"{answer['peak']:.2f}",
        "published peak": " and ".join(f"{value:.2f}" for value in peaks) or "–",
    }


def _bar_cells(seeds: int, answer: dict[str, Any]) -> dict[str, str]:
    low, high = answer["published_low"], answer["published_high"]
    return {
        "log θ₁": f"{answer['low']:.3f} to {answer['high']:.3f}",
        "width": f"{answer['width']:.2f}",
        "covers θ₁": f"{answer['times_covered']} of {seeds}",
        "share of all four": f"{answer['coverage_of_all_parameters']:.2f}",
        "published log θ₁": "–" if low is None else f"{low:.3f} to {high:.3f}",
        "published width": "–" if low is None else f"{high - low:.2f}",
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
