"""`decond demo`: a turbine's power curve from the mean power of each day, with the truth beside it."""

import json as json_text
import shlex
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from decond.cli import story
from decond.cli.console import console, learning_bar, say_json, wrong_input
from decond.cli.options import Folder, flag
from decond.cli.outputs import as_dict, check_folder, is_picture, is_report, json_in, make_folder, say_wrote, times_of
from decond.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Problem", "Result", "command", "demonstrate", "solve", "turbine"]

BIN = 0.5
"""Width in m/s of the bins in which the true curve is averaged."""

HOURS = 24
"""Hours of a day, of which the first table lists some."""

LEAST_HOURS = 20
"""Hours that a bin needs to count as truth."""

OURS = "decond"
NAIVE = {
    "mean power on mean wind": ("EcologicalGP", "cascade"),
    "each reading has its day's power": ("ImputeGP", "impute"),
}
"""Answers without deconditioning: words, estimator, and role in the picture."""

FILES = ("report.html", "power_curve.png", "numbers.json", "hours.csv", "days.csv")
"""What is written."""

HEADING = "power curve from daily means"
"""What the report is about."""

SOURCE = "Data: ENGIE, La Haute Borne wind farm, Etalab Open Licence 2.0."


@dataclass(frozen=True)
class Problem:
    """Two tables that the answers may see, and hours on other days that score them."""

    hours: "pd.DataFrame"
    """Columns day and wind."""
    days: "pd.DataFrame"
    """Columns day and power."""
    wind_true: np.ndarray
    power_true: np.ndarray

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Return wind speeds and the mean power there over the hidden hours."""
        index = (self.wind_true / BIN).astype(int)
        hours = np.bincount(index)
        known = hours >= LEAST_HOURS
        speeds, powers = (np.bincount(index, v)[known] / hours[known] for v in (self.wind_true, self.power_true))
        return speeds, powers


@dataclass(frozen=True)
class Result:
    """Fitted answers by name, how well each does, and what was warned of."""

    models: dict[str, Any]
    numbers: dict[str, dict[str, float | None]]
    warnings: list[str]


def command(
    output: Folder = Path("decond-demo"),
    json: Annotated[bool, flag("--json", "Print the scores as JSON, and nothing else.")] = False,
) -> None:
    """Recover a wind turbine's power curve from daily means, and see it beside the truth.

    One table has eight wind speeds a day, the other the mean power of each day; no row has a wind speed with its
    power. Wanted is power as a function of wind, with error bars. The hourly truth on other days scores the answer.
    Writes a report for the browser, a picture, the scores and the two tables; opens nothing.
    """
    demonstrate(turbine(), output, json)


def demonstrate(problem: Problem, output: Path, json: bool = False) -> None:
    """Solve a problem, write everything into a folder, and tell the story of it, or print its scores as JSON."""
    with wrong_input():
        check_folder(output, _own(problem), "from the demo")
    before = times_of(output / name for name in FILES)
    if not json:
        story.tell_problem(console, problem.hours, problem.days, list(NAIVE))
    with learning_bar("learning the power curve") as report:
        result = solve(problem, report)
    paths = _write(output, problem, result)
    if json:
        say_json({"answers": result.numbers, "files": [str(path) for path in paths]})
        return
    story.tell_answer(console, _curves(problem, result), result.numbers)
    story.tell_next(console, output)
    _say_where_decond_is(Path(sys.prefix))
    console.print(SOURCE, highlight=False)
    say_wrote(*paths, before=before)


def _say_where_decond_is(environment: Path) -> None:
    """Say how the shell finds the command, where it is in an environment that is not active."""
    activate = environment / "bin" / "activate"
    if shutil.which("decond") is None and activate.is_file():
        shown = activate.relative_to(Path.cwd()) if activate.is_relative_to(Path.cwd()) else activate
        words = f"If your shell does not find decond: source {shlex.quote(str(shown))}"
        console.print(words, markup=False, highlight=False, soft_wrap=True)


def turbine(n_days: int = 120, readings: int = 8) -> Problem:
    """Return the demo's tables and the hidden truth."""
    import pandas as pd

    from decond.datasets import wind_day

    given = wind_day(n_days=n_days, readings=readings)
    hours = pd.DataFrame({"day": given.groups, "wind": given.x["ws_hub"].to_numpy()})
    days = pd.DataFrame({"day": given.z.index.to_numpy(), "power": given.z.to_numpy()})
    return Problem(hours, days, given.x_true["ws_hub"].to_numpy(), given.z_true)


def solve(problem: Problem, progress: Any = None) -> Result:
    """Fit decond and the answers without deconditioning, and score each on hours that none has seen."""
    import pandas as pd

    from decond import estimators

    hours, days = problem.hours, problem.days
    power = pd.Series(days["power"].to_numpy(), index=days["day"], name="power")
    labels = (hours["day"].astype(str).to_numpy(), days["day"].astype(str).to_numpy(), days["power"].to_numpy())
    models, seconds = {}, {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        begin = time.perf_counter()
        models[OURS] = estimators.AggregateGP(seed=0).fit(
            hours[["wind"]], hours["day"].to_numpy(), power, group_sizes=HOURS, progress=progress
        )
        seconds[OURS] = time.perf_counter() - begin
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what they warn of says nothing about the model
        for words, (name, _) in NAIVE.items():
            begin = time.perf_counter()
            models[words] = getattr(estimators, name)(n_restarts=0).fit(hours[["wind"]], *labels)
            seconds[words] = time.perf_counter() - begin
    numbers = {name: {**_score(name, model, problem), "seconds": seconds[name]} for name, model in models.items()}
    return Result(models, numbers, [str(warning.message) for warning in caught])


def _winds(values: Any) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame({"wind": np.asarray(values, dtype=np.float64)})


def _score(name: str, model: Any, problem: Problem) -> dict[str, float | None]:
    error = model.predict(_winds(problem.wind_true)) - problem.power_true
    inside = None
    if name == OURS:
        speeds, truth = problem.curve()
        mean, std = model.predict(_winds(speeds), return_std=True)
        inside = float(np.mean(np.abs(mean - truth) <= 2.0 * std))
    return {"rmse_kw": float(np.sqrt(np.mean(error**2))), "coverage_2sd": inside}


def _curves(problem: Problem, result: Result) -> story.Curves:
    """Return the answers four times a m/s, as far as the truth is known."""
    speeds, truth = problem.curve()
    at = np.arange(0.0, speeds.max(), 0.25)
    mean, std = result.models[OURS].predict(_winds(at), return_std=True)
    naive = {words: result.models[words].predict(_winds(at)) for words in NAIVE}
    return story.Curves(at, np.interp(at, speeds, truth), mean, 2.0 * std, naive)


def _write(folder: Path, problem: Problem, result: Result) -> list[Path]:
    """Write the two tables, the report, the picture and the scores."""
    from decond.plotting.display import save_figure

    report, picture, scores, hours, days = (folder / name for name in FILES)
    make_folder(folder)
    problem.hours.to_csv(hours, index=False)
    problem.days.to_csv(days, index=False)
    with progress_bar("checking the fit and writing the report"):
        _report(folder, problem, result).write(report)
    save_figure(_draw(problem, result), picture)
    scores.write_text(json_text.dumps(result.numbers, indent=2) + "\n")
    return [report, picture, scores, hours, days]


def _own(problem: Problem) -> dict[str, Callable[[Path], bool]]:
    """Return the names of what is written, and how each file is known again; the tables are always the same."""
    scores = {name: {"rmse_kw", "coverage_2sd", "seconds"} for name in (OURS, *NAIVE)}
    known: tuple[Callable[[Path], bool], ...] = (
        lambda path: is_report(path) and HEADING in _text(path),
        is_picture,
        lambda path: {name: set(as_dict(row)) for name, row in json_in(path).items()} == scores,
        lambda path: _text(path) == problem.hours.to_csv(index=False),
        lambda path: _text(path) == problem.days.to_csv(index=False),
    )
    return dict(zip(FILES, known, strict=True))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _report(folder: Path, problem: Problem, result: Result) -> Any:
    from decond.reports import fit_report

    hours, days = problem.hours, problem.days
    return fit_report(
        result.models[OURS],
        {
            "x": hours[["wind"]],
            "groups": hours["day"],
            "z_groups": days.set_index("day")["power"],
            "group_sizes": HOURS,
        },
        target="power",
        units={"wind": "m/s", "power": "kW"},
        baselines={words: result.models[words] for words in NAIVE},
        lines={"truth: hourly means on other days": problem.curve()},
        warnings=result.warnings,
        notes=[SOURCE],
        title=f"A wind turbine's {HEADING}",
        command=shlex.join(["decond", "demo", "--output", str(folder)]),
    )


def _draw(problem: Problem, result: Result) -> Any:
    from matplotlib.figure import Figure

    from decond.plotting.display import plot_band, plot_line, plot_points

    figure = Figure(figsize=(9.0, 5.5), layout="constrained")
    ax = figure.subplots()
    speeds, truth = problem.curve()
    grid = _winds(np.linspace(0.0, speeds.max(), 200))
    means = problem.hours.groupby("day")["wind"].mean()
    plot_points(
        ax, means, problem.days.set_index("day")["power"].loc[means.index], label=f"means of {len(means)} days"
    )
    mean, std = result.models[OURS].predict(grid, return_std=True)
    plot_band(ax, grid, mean, std, "model", OURS)
    for words, (_, role) in NAIVE.items():
        plot_line(ax, grid, result.models[words].predict(grid), role, words, "--")
    plot_line(ax, speeds, truth, "truth", "truth: hourly means on other days")
    ax.set(xlabel="wind speed at the hub (m/s)", ylabel="power (kW)", title="A power curve from daily means")
    ax.legend(frameon=False, fontsize=9, loc="upper left")
    return figure
