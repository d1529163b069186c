"""`decond demo`: a turbine's power curve from the mean power of each day, with the truth beside it."""

import json as json_text
import shlex
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from decond.cli import console
from decond.datasets import WindDay, wind_day
from decond.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.base import BaseEstimator

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
    answers = _Answers.of(problem)
    answers.write(files, shlex.join(["decond", "demo", "--output", str(output)]))
    if json:
        console.print_json({"answers": answers.scores, "files": files})
        return
    answers.print()
    _print_next(output)
    console.print_wrote(*files)


def _hours(problem: WindDay) -> "pd.DataFrame":
    """Return the first table, with columns day and wind."""
    return problem.x.set_axis(["wind"], axis=1).assign(day=problem.groups)[["day", "wind"]]


@dataclass(frozen=True)
class _Answers:
    """Fitted answers by name, how well each does, and what was warned of."""

    problem: WindDay
    models: dict[str, Any]
    scores: dict[str, dict[str, float | None]]
    warnings: list[str]

    @classmethod
    def of(cls, problem: WindDay) -> "_Answers":
        """Fit decond and the shortcuts, and score each on hours that none has seen."""
        from decond import estimators

        winds, days = _hours(problem)[["wind"]], problem.groups.astype(str)
        models: dict[str, Any] = {}
        scores = {}
        for words, name in {OURS: "AggregateGP", **{words: name for words, (name, _) in SHORTCUTS.items()}}.items():
            begin = time.perf_counter()
            with warnings.catch_warnings(record=True) as caught, progress_bar(f"fitting {words}"):
                warnings.simplefilter("always", UserWarning)
                if words == OURS:
                    models[words] = estimators.AggregateGP(seed=0).fit(**_fit_data(problem))
                    ours = console.messages_of(caught)
                else:
                    shortcut = getattr(estimators, name)(n_restarts=0)
                    models[words] = shortcut.fit(winds, days, problem.z.index.astype(str).to_numpy(), problem.z)
            seconds = time.perf_counter() - begin
            scores[words] = {**_score(words, models[words], problem), "seconds": seconds}
        return cls(problem, models, scores, ours)

    def write(self, files: list[Path], command: str) -> None:
        """Write the report, the picture, the scores and the two tables.

        Parameters
        ----------
        files : list of Path
            Where each of them goes.
        command : str
            The command line, which the report shows.
        """
        from decond.reports import fit_report

        report, picture, scores, hours, days = files
        _hours(self.problem).to_csv(hours, index=False)
        self.problem.z.rename_axis("day").rename("power").to_csv(days)
        with progress_bar("checking the fit and writing the report"):
            fit_report(
                self.models[OURS],
                _fit_data(self.problem),
                target="power",
                units={"wind": "m/s", "power": "kW"},
                baselines={words: self.models[words] for words in SHORTCUTS},
                lines={TRUTH: self.problem.curve()},
                warnings=self.warnings,
                notes=[SOURCE],
                title="A wind turbine's power curve from daily means",
                command=command,
            ).write(report)
        self._draw(picture)
        scores.write_text(json_text.dumps(self.scores, indent=2) + "\n")

    def print(self) -> None:
        """Print the answers beside the truth, and the scores."""
        speeds, truth = self.problem.curve()
        at = np.arange(2.0, speeds.max(), 2.0)
        mean, std = self.models[OURS].predict(_winds(at), return_std=True)
        columns = [
            [f"{speed:.0f}" for speed in at],
            [f"{power:,.0f}" for power in np.interp(at, speeds, truth)],
            [f"{m:,.0f} ± {2.0 * s:3,.0f}" for m, s in zip(mean, std, strict=True)],
            *([f"{power:,.0f}" for power in self.models[words].predict(_winds(at))] for words in SHORTCUTS),
        ]
        headings = ("wind (m/s)", "truth", "decond ± 2 sd", *SHORTCUTS)
        console.print_table("Power (kW) at a wind speed", headings, zip(*columns, strict=True))
        rows = []
        for name, score in self.scores.items():
            inside = score["coverage_2sd"]
            covered = "no error bars" if inside is None else f"{inside:.0%}"
            rows.append((name, f"{score['rmse_kw']:.0f}", covered, f"{score['seconds']:.1f}"))
        headings = ("answer", "RMSE (kW)", "true curve inside ± 2 sd", "seconds")
        console.print_table("Error for each hour on days that were not seen", headings, rows)

    def _draw(self, path: Path) -> None:
        from decond.plotting import FunctionDisplay
        from decond.plotting.display import plot_line, plot_points

        speeds, truth = self.problem.curve()
        grid = np.linspace(0.0, speeds.max(), 200)
        mean, std = self.models[OURS].predict(_winds(grid), return_std=True)
        names: Any = {"name": "wind speed at the hub (m/s)", "target_name": "power (kW)"}
        display = FunctionDisplay.from_predictions(grid, mean, std, **names, label=OURS)
        wind = self.problem.x["ws_hub"].groupby(self.problem.groups).mean()
        plot_points(display.ax_, wind, self.problem.z, label=f"means of {len(wind)} days")
        for words, (_, role) in SHORTCUTS.items():
            plot_line(display.ax_, grid, self.models[words].predict(_winds(grid)), role, words, "--")
        plot_line(display.ax_, speeds, truth, "truth", TRUTH)
        display.ax_.set_title("A power curve from daily means")
        display.ax_.legend(frameon=False, fontsize=9, loc="upper left")
        display.save(path, dpi=120)


def _fit_data(problem: WindDay) -> dict[str, Any]:
    """Return the arguments of `AggregateGP.fit`: each day has 24 hours, of which the first table lists some."""
    hours = _hours(problem)
    return {"x": hours[["wind"]], "groups": hours["day"], "z_groups": problem.z, "group_sizes": 24}


def _winds(values: ArrayLike) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame({"wind": np.asarray(values, dtype=np.float64)})


def _score(name: str, model: "BaseEstimator", problem: WindDay) -> dict[str, float | None]:
    error = model.predict(_winds(problem.x_true["ws_hub"])) - problem.z_true
    inside = None
    if name == OURS:
        speeds, truth = problem.curve()
        mean, std = model.predict(_winds(speeds), return_std=True)
        inside = float(np.mean(np.abs(mean - truth) <= 2.0 * std))
    return {"rmse_kw": float(np.sqrt(np.mean(error**2))), "coverage_2sd": inside}


# ---- what is printed -----------------------------------------------------------------------------------------


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
