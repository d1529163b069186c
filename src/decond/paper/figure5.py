"""Figure 5: posteriors of simulators from few simulations (section 8.3), the published answers beside ours."""

from pathlib import Path
from typing import Any

import numpy as np

from decond.paper.figure5_methods import Entry
from decond.paper.figure5_picture import draw
from decond.paper.figure5_runs import GRID, Bar, Curve, Plan, Report, Runs, run
from decond.paper.output import Table, write_figure
from decond.paper.published import published_bar, published_curves, readings
from decond.problems import exponential_gamma, lotka_volterra

__all__ = ["Plan", "tables", "write"]


def write(folder: Path, report: Report | None = None, plan: Plan | None = None) -> tuple[list[Path], dict[str, Any]]:
    """Write ``figure5.png`` and ``figure5.json`` into a folder, and report how many runs have ended."""
    plan = plan or Plan()
    toy, problem = exponential_gamma(), lotka_volterra()
    assert toy.log_posterior is not None
    assert problem.true_parameters is not None
    truth = np.exp(toy.log_posterior(GRID))
    runs = run(plan, report)
    numbers = _numbers(plan, runs, truth, problem.true_parameters)
    picture = draw(plan, runs, truth, float(problem.true_parameters[0]))
    return write_figure(folder, "figure5", picture, numbers), numbers


def tables(numbers: dict[str, Any]) -> list[Table]:
    """Return the two tables of the figure: densities on the left, intervals on the right."""
    seeds = len(numbers["seeds"])
    left = Table(
        f"exponential–gamma, {seeds} seeds",
        [
            "method",
            "form",
            "simulations",
            "total variation",
            "its range",
            "published total variation",
            "peak",
            "published peak",
            "seconds",
            "settings",
        ],
        [_curve_line(answer) for answer in numbers["answers"].values()],
    )
    right = Table(
        f"Lotka–Volterra, 95 % intervals, {seeds} seeds",
        [
            "method",
            "form",
            "simulations",
            "log θ₁",
            "width",
            "covers θ₁",
            "share of all four",
            "published log θ₁",
            "published width",
            "seconds",
            "settings",
        ],
        [_bar_line(bar, seeds) for bar in numbers["lotka_volterra"].values()],
    )
    return [left, right]


def _numbers(plan: Plan, runs: Runs, truth: np.ndarray, true_parameters: np.ndarray) -> dict[str, Any]:
    toy, problem = exponential_gamma(), lotka_volterra()
    return {
        "figure": "likelihood-free inference (section 8.3, Figure 5)",
        "seeds": list(plan.seeds),
        "answers": {
            entry.label: {
                **_described(entry, entry.settings(toy, plan.toy_simulations)),
                **_score_curves(entry.algorithm, runs.curves[entry.label], truth),
            }
            for entry in plan.curves
        },
        "lotka_volterra": {
            entry.label: {
                **_described(entry, entry.settings(problem, plan.simulations)),
                **_score_bars(entry.algorithm, runs.bars[entry.label], true_parameters),
            }
            for entry in plan.bars
            if entry.label in runs.bars
        },
        "left_out": runs.left_out,
        "published": [reading._asdict() for reading in readings()],
        "true_log_theta_1": float(true_parameters[0]),
    }


def _described(entry: Entry, settings: str) -> dict[str, str]:
    return {"algorithm": entry.algorithm, "form": entry.form, "settings": settings}


def _score_curves(algorithm: str, curves: list[Curve], truth: np.ndarray) -> dict[str, Any]:
    """Return distances to the truth and peaks over the seeds, beside those published."""
    distances = [curve.total_variation(truth) for curve in curves]
    peaks = [float(curve.density.max()) for curve in curves]
    seeds = [
        {"total_variation": distance, "peak": peak, "seconds": curve.seconds, "notes": curve.notes}
        for distance, peak, curve in zip(distances, peaks, curves, strict=True)
    ]
    return {
        "n_simulations": float(np.mean([curve.n_simulations for curve in curves])),
        "total_variation": float(np.mean(distances)),
        "lowest_total_variation": min(distances),
        "highest_total_variation": max(distances),
        "published_total_variation": published_curves(algorithm, "total_variation"),
        "peak": float(np.median(peaks)),
        "published_peak": published_curves(algorithm, "peak"),
        "seconds": float(np.mean([curve.seconds for curve in curves])),
        "runs": seeds,
    }


def _score_bars(algorithm: str, bars: list[Bar], truth: np.ndarray) -> dict[str, Any]:
    """Return the interval of log θ₁ (medians of its ends), its width and coverage over the seeds."""
    published = published_bar(algorithm)
    covered = np.array([bar.covered(truth) for bar in bars])
    low, high = np.median([bar.interval[:, 0] for bar in bars], axis=0)
    seeds = [
        {
            "intervals": bar.interval.T.tolist(),
            "covered": inside.tolist(),
            "n_simulations": bar.n_simulations,
            "n_failed": bar.n_failed,
            "seconds": bar.seconds,
            "notes": bar.notes,
        }
        for bar, inside in zip(bars, covered, strict=True)
    ]
    return {
        "n_simulations": float(np.mean([bar.n_simulations for bar in bars])),
        "low": float(low),
        "high": float(high),
        "width": float(np.mean([bar.width for bar in bars])),
        "times_covered": int(covered[:, 0].sum()),
        "coverage_of_all_parameters": float(covered.mean()),
        "published_low": published[0] if published else None,
        "published_high": published[1] if published else None,
        "n_failed": float(np.mean([bar.n_failed for bar in bars])),
        "seconds": float(np.mean([bar.seconds for bar in bars])),
        "runs": seeds,
    }


def _curve_line(answer: dict[str, Any]) -> list[str]:
    return [
        answer["algorithm"],
        answer["form"],
        f"{answer['n_simulations']:.0f}",
        f"{answer['total_variation']:.3f}",
        f"{answer['lowest_total_variation']:.3f} to {answer['highest_total_variation']:.3f}",
        _or_dash(answer["published_total_variation"], ".3f"),
        f"{answer['peak']:.2f}",
        _or_dash(answer["published_peak"], ".2f"),
        f"{answer['seconds']:.1f}",
        answer["settings"],
    ]


def _bar_line(bar: dict[str, Any], seeds: int) -> list[str]:
    low, high = bar["published_low"], bar["published_high"]
    return [
        bar["algorithm"],
        bar["form"],
        f"{bar['n_simulations']:.0f}",
        f"{bar['low']:.3f} to {bar['high']:.3f}",
        f"{bar['width']:.2f}",
        f"{bar['times_covered']} of {seeds}",
        f"{bar['coverage_of_all_parameters']:.2f}",
        "–" if low is None else f"{low:.3f} to {high:.3f}",
        "–" if low is None else f"{high - low:.2f}",
        f"{bar['seconds']:.0f}",
        bar["settings"],
    ]


def _or_dash(values: list[float], digits: str) -> str:
    return " and ".join(format(value, digits) for value in values) or "–"
