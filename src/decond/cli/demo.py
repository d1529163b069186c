"""`decond demo`: a turbine's power curve from the mean power of each day, with the truth beside it."""

import json as json_text
import shlex
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from decond.cli import console
from decond.datasets import WindDay, wind_day
from decond.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["demonstrate"]

OURS = "decond"
SHORTCUTS = {
    "mean power on mean wind": ("EcologicalGP", "cascade"),
    "each reading has its day's power": ("ImputeGP", "impute"),
}
"""Answers without deconditioning: words, estimator, and role in the picture."""

SOURCE = "Data: ENGIE, La Haute Borne wind farm, Etalab Open Licence 2.0."
TRUTH = "truth: hourly means on other days"


def demonstrate(
    output: console.Folder = Path("decond-demo"), force: console.Force = False, json: console.AsJson = False
) -> None:
    """Recover a wind turbine's power curve from daily means, and see it beside the truth.

    One table has eight wind speeds a day, the other the mean power of each day; no row has a wind speed with its
    power. Wanted is power as a function of wind, with error bars. The hourly truth on other days scores the answer.
    Writes a report for the browser, a picture, the scores and the two tables.
    """
    names = ("report.html", "power_curve.png", "numbers.json", "hours.csv", "days.csv")
    files = console.check_folder(output, names, force)
    problem = wind_day()
    if not json:
        _print_problem(problem)
    models, scores, notes = _fitted(problem)
    _write_tables(problem, scores, files[2:])
    _write_report(problem, models, notes, files[0], shlex.join(["decond", "demo", "--output", str(output)]))
    _draw(problem, models, files[1])
    if json:
        console.print_json({"answers": scores, "files": files})
        return
    _print_answers(problem, models, scores)
    _print_next(output)
    console.print_wrote(*files)


def _hours(problem: WindDay) -> "pd.DataFrame":
    """Return the first table, with columns day and wind."""
    return problem.x.set_axis(["wind"], axis=1).assign(day=problem.groups)[["day", "wind"]]


def _fit_data(problem: WindDay) -> dict[str, Any]:
    """Return the arguments of `AggregateGP.fit`: each day has 24 hours, of which the first table lists some."""
    hours = _hours(problem)
    return {"x": hours[["wind"]], "groups": hours["day"], "z_groups": problem.z, "group_sizes": 24}


def _winds(values: ArrayLike) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame({"wind": np.asarray(values, dtype=np.float64)})


def _fitted(problem: WindDay) -> tuple[dict[str, Any], dict[str, dict[str, float | None]], list[str]]:
    """Return decond and the shortcuts, fitted; their scores on hours that none has seen; warnings of decond."""
    from decond import estimators

    tables = (
        _hours(problem)[["wind"]],
        problem.groups.astype(str),
        problem.z.index.astype(str).to_numpy(),
        problem.z,
    )
    models: dict[str, Any] = {OURS: estimators.AggregateGP(seed=0)}
    models |= {words: getattr(estimators, name)(n_restarts=0) for words, (name, _) in SHORTCUTS.items()}
    scores: dict[str, dict[str, float | None]] = {}
    notes: list[str] = []
    speeds, truth = problem.curve()
    for words, model in models.items():
        begin = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught, progress_bar(f"fitting {words}"):
            warnings.simplefilter("always", UserWarning)
            model.fit(**_fit_data(problem)) if words == OURS else model.fit(*tables)
        seconds, inside = time.perf_counter() - begin, None
        if words == OURS:
            notes = console.messages_of(caught)
            mean, std = model.predict(_winds(speeds), return_std=True)
            inside = float(np.mean(np.abs(mean - truth) <= 2.0 * std))
        error = model.predict(_winds(problem.x_true["ws_hub"])) - problem.z_true
        rmse = float(np.sqrt(np.mean(error**2)))
        scores[words] = {"rmse_kw": rmse, "coverage_2sd": inside, "seconds": seconds}
    return models, scores, notes


# ---- what is written -----------------------------------------------------------------------------------------


def _write_tables(problem: WindDay, scores: dict[str, Any], files: list[Path]) -> None:
    numbers, hours, days = files
    numbers.write_text(json_text.dumps(scores, indent=2) + "\n")
    _hours(problem).to_csv(hours, index=False)
    problem.z.rename_axis("day").rename("power").to_csv(days)


def _write_report(problem: WindDay, models: dict[str, Any], notes: list[str], file: Path, command: str) -> None:
    from decond.reports import fit_report

    with progress_bar("checking the fit and writing the report"):
        fit_report(
            models[OURS],
            _fit_data(problem),
            target="power",
            units={"wind": "m/s", "power": "kW"},
            baselines={words: models[words] for words in SHORTCUTS},
            lines={TRUTH: problem.curve()},
            warnings=notes,
            notes=[SOURCE],
            title="A wind turbine's power curve from daily means",
            command=command,
        ).write(file)


def _draw(problem: WindDay, models: dict[str, Any], file: Path) -> None:
    from decond.plotting import FunctionDisplay
    from decond.plotting.display import plot_line, plot_points

    speeds, truth = problem.curve()
    grid = np.linspace(0.0, speeds.max(), 200)
    mean, std = models[OURS].predict(_winds(grid), return_std=True)
    names: Any = {"name": "wind speed at the hub (m/s)", "target_name": "power (kW)"}
    display = FunctionDisplay.from_predictions(grid, mean, std, **names, label=OURS)
    wind = problem.x["ws_hub"].groupby(problem.groups).mean()
    plot_points(display.ax_, wind, problem.z, label=f"means of {len(wind)} days")
    for words, (_, role) in SHORTCUTS.items():
        plot_line(display.ax_, grid, models[words].predict(_winds(grid)), role, words, "--")
    plot_line(display.ax_, speeds, truth, "truth", TRUTH)
    display.ax_.set_title("A power curve from daily means")
    display.ax_.legend(frameon=False, fontsize=9, loc="upper left")
    display.save(file, dpi=120)


# ---- what is printed -----------------------------------------------------------------------------------------


def _print_answers(problem: WindDay, models: dict[str, Any], scores: dict[str, Any]) -> None:
    """Print the answers beside the truth, and the scores."""
    speeds, truth = problem.curve()
    at = np.arange(2.0, speeds.max(), 2.0)
    mean, std = models[OURS].predict(_winds(at), return_std=True)
    columns = [
        [f"{speed:.0f}" for speed in at],
        [f"{power:,.0f}" for power in np.interp(at, speeds, truth)],
        [f"{m:,.0f} ± {2.0 * s:3,.0f}" for m, s in zip(mean, std, strict=True)],
        *([f"{power:,.0f}" for power in models[words].predict(_winds(at))] for words in SHORTCUTS),
    ]
    headings = ("wind (m/s)", "truth", "decond ± 2 sd", *SHORTCUTS)
    console.print_table("Power (kW) at a wind speed", headings, zip(*columns, strict=True))
    rows = []
    for name, score in scores.items():
        inside = score["coverage_2sd"]
        covered = "no error bars" if inside is None else f"{inside:.0%}"
        rows.append((name, f"{score['rmse_kw']:.0f}", covered, f"{score['seconds']:.1f}"))
    headings = ("answer", "RMSE (kW)", "true curve inside ± 2 sd", "seconds")
    console.print_table("Error for each hour on days that were not seen", headings, rows)


def _print_problem(problem: WindDay) -> None:
    """Print what is known and what is wanted."""
    n_days, readings = len(problem.z), len(problem.x) // len(problem.z)
    console.print_sentences(
        [
            f"Known: a wind turbine on {n_days} days. hours.csv has {readings} wind speeds of each day, taken at "
            "random hours; days.csv has the mean power of each day.",
            "Wanted: power as a function of wind, with error bars. No row has a wind speed with the power of that "
            "hour, and the mean power of a day is not the power at its mean wind.",
            "decond looks for a curve whose mean over the 24 hours of each day is the power of that day. Two "
            f"shortcuts are fitted for comparison: {' and '.join(SHORTCUTS)}. This takes less than a minute.",
            SOURCE,
        ]
    )


def _print_next(folder: Path) -> None:
    """Print how to look further, and how to do the same with other tables."""
    tables = shlex.join([str(folder / "hours.csv"), str(folder / "days.csv")])
    console.print_sentences(
        [
            f"Open {folder / 'report.html'} in a browser to explore the curve and the checks of the fit.",
            "The same fit from files:",
            f"  decond fit {tables} --x wind --y day --z power --aggregate --group-sizes 24 --report fit.html",
            "Tables that share a measured column instead of a label:",
            "  decond fit pairs.csv task.csv --x wind --y pressure --z power --targets single --report fit.html",
            "A simulator and an observation (docs/tutorials/epidemic.md makes these three files):",
            "  decond infer school:simulate --prior prior.toml --observed observed.csv",
        ]
    )
