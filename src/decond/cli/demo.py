"""`decond demo`: a turbine's power curve from the mean power of each day, with the truth beside it."""

import json as json_text
import shlex
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.cli.console import messages_of, print_json, print_sentences, print_table, print_wrote
from decond.cli.options import AsJson, Folder, Force
from decond.cli.output_files import check_folder
from decond.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from decond.reports import Report

__all__ = ["Demonstration", "WindTurbine", "demonstrate", "wind_turbine"]

OURS = "decond"
SHORTCUTS = {
    "mean power on mean wind": ("EcologicalGP", "cascade"),
    "each reading has its day's power": ("ImputeGP", "impute"),
}
"""Answers without deconditioning: words, estimator, and role in the picture."""

SOURCE = "Data: ENGIE, La Haute Borne wind farm, Etalab Open Licence 2.0."


def demonstrate(output: Folder = Path("decond-demo"), force: Force = False, json: AsJson = False) -> None:
    """Recover a wind turbine's power curve from daily means, and see it beside the truth.

    One table has eight wind speeds a day, the other the mean power of each day; no row has a wind speed with its
    power. Wanted is power as a function of wind, with error bars. The hourly truth on other days scores the answer.
    Writes a report for the browser, a picture, the scores and the two tables.
    """
    names = ("report.html", "power_curve.png", "numbers.json", "hours.csv", "days.csv")
    files = check_folder(output, names, force)
    problem = wind_turbine()
    if not json:
        _print_problem(problem)
    demonstration = Demonstration.of(problem)
    demonstration.write(files, shlex.join(["decond", "demo", "--output", str(output)]))
    if json:
        print_json({"answers": demonstration.scores, "files": files})
        return
    demonstration.print()
    _print_next(output)
    print_wrote(*files)


@dataclass(frozen=True)
class WindTurbine:
    """Two tables that the answers may see, and hours on other days that score them."""

    hours: "pd.DataFrame"
    """Columns day and wind."""
    days: "pd.DataFrame"
    """Columns day and power."""
    wind_true: NDArray[np.float64]
    power_true: NDArray[np.float64]

    def curve(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the true curve: mean power in bins of 0.5 m/s with at least 20 hours."""
        index = (self.wind_true / 0.5).astype(int)
        hours = np.bincount(index)
        known = hours >= 20
        speeds, powers = (np.bincount(index, v)[known] / hours[known] for v in (self.wind_true, self.power_true))
        return speeds, powers

    def fit_data(self) -> dict[str, Any]:
        """Return the arguments of `AggregateGP.fit`: each day has 24 hours, of which the first table lists some."""
        return {
            "x": self.hours[["wind"]],
            "groups": self.hours["day"],
            "z_groups": self.days.set_index("day")["power"],
            "group_sizes": 24,
        }


def wind_turbine(n_days: int = 120, readings: int = 8) -> WindTurbine:
    """Return the tables of the demonstration and the hidden truth.

    Parameters
    ----------
    n_days : int
        How many days the tables have.
    readings : int
        How many wind speeds of each day are listed.
    """
    import pandas as pd

    from decond.datasets import wind_day

    given = wind_day(n_days=n_days, readings=readings)
    hours = pd.DataFrame({"day": given.groups, "wind": given.x["ws_hub"].to_numpy()})
    days = pd.DataFrame({"day": given.z.index.to_numpy(), "power": given.z.to_numpy()})
    return WindTurbine(hours, days, given.x_true["ws_hub"].to_numpy(), given.z_true)


@dataclass(frozen=True)
class Demonstration:
    """Fitted answers by name, how well each does, and what was warned of."""

    problem: WindTurbine
    models: dict[str, Any]
    scores: dict[str, dict[str, float | None]]
    warnings: list[str]

    @classmethod
    def of(cls, problem: WindTurbine) -> "Demonstration":
        """Fit decond and the shortcuts, and score each on hours that none has seen."""
        from decond import estimators

        hours, days = problem.hours, problem.days
        labels = (hours["day"].astype(str).to_numpy(), days["day"].astype(str).to_numpy(), days["power"].to_numpy())
        models, seconds = {}, {}
        for words, name in {OURS: "AggregateGP", **{words: name for words, (name, _) in SHORTCUTS.items()}}.items():
            begin = time.perf_counter()
            with warnings.catch_warnings(record=True) as caught, progress_bar(f"fitting {words}"):
                warnings.simplefilter("always", UserWarning)
                if words == OURS:
                    models[words] = estimators.AggregateGP(seed=0).fit(**problem.fit_data())
                    ours = messages_of(caught)
                else:
                    models[words] = getattr(estimators, name)(n_restarts=0).fit(hours[["wind"]], *labels)
            seconds[words] = time.perf_counter() - begin
        scores = {
            words: {**_score(words, model, problem), "seconds": seconds[words]} for words, model in models.items()
        }
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
        report, picture, scores, hours, days = files
        self.problem.hours.to_csv(hours, index=False)
        self.problem.days.to_csv(days, index=False)
        with progress_bar("checking the fit and writing the report"):
            self._report(command).write(report)
        self._draw().savefig(picture, dpi=120)
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
        print_table("Power (kW) at a wind speed", headings, zip(*columns, strict=True))
        rows = []
        for name, score in self.scores.items():
            inside = score["coverage_2sd"]
            covered = "no error bars" if inside is None else f"{inside:.0%}"
            rows.append((name, f"{score['rmse_kw']:.0f}", covered, f"{score['seconds']:.1f}"))
        headings = ("answer", "RMSE (kW)", "true curve inside ± 2 sd", "seconds")
        print_table("Error for each hour on days that were not seen", headings, rows)

    def _report(self, command: str) -> "Report":
        from decond.reports import fit_report

        return fit_report(
            self.models[OURS],
            self.problem.fit_data(),
            target="power",
            units={"wind": "m/s", "power": "kW"},
            baselines={words: self.models[words] for words in SHORTCUTS},
            lines={"truth: hourly means on other days": self.problem.curve()},
            warnings=self.warnings,
            notes=[SOURCE],
            title="A wind turbine's power curve from daily means",
            command=command,
        )

    def _draw(self) -> "Figure":
        from matplotlib.figure import Figure

        from decond.plotting.display import plot_band, plot_line, plot_points

        figure = Figure(figsize=(9.0, 5.5), layout="constrained")
        ax = figure.subplots()
        speeds, truth = self.problem.curve()
        grid = _winds(np.linspace(0.0, speeds.max(), 200))
        wind = self.problem.hours.groupby("day")["wind"].mean()
        power = self.problem.days.set_index("day")["power"].loc[wind.index]
        plot_points(ax, wind, power, label=f"means of {len(wind)} days")
        mean, std = self.models[OURS].predict(grid, return_std=True)
        plot_band(ax, grid, mean, std, "model", OURS)
        for words, (_, role) in SHORTCUTS.items():
            plot_line(ax, grid, self.models[words].predict(grid), role, words, "--")
        plot_line(ax, speeds, truth, "truth", "truth: hourly means on other days")
        ax.set(xlabel="wind speed at the hub (m/s)", ylabel="power (kW)", title="A power curve from daily means")
        ax.legend(frameon=False, fontsize=9, loc="upper left")
        return figure


def _winds(values: ArrayLike) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame({"wind": np.asarray(values, dtype=np.float64)})


def _score(name: str, model: Any, problem: WindTurbine) -> dict[str, float | None]:
    error = model.predict(_winds(problem.wind_true)) - problem.power_true
    inside = None
    if name == OURS:
        speeds, truth = problem.curve()
        mean, std = model.predict(_winds(speeds), return_std=True)
        inside = float(np.mean(np.abs(mean - truth) <= 2.0 * std))
    return {"rmse_kw": float(np.sqrt(np.mean(error**2))), "coverage_2sd": inside}


# ---- what is printed -----------------------------------------------------------------------------------------


def _print_problem(problem: WindTurbine) -> None:
    """Print what is known and what is wanted."""
    n_days, readings = len(problem.days), len(problem.hours) // len(problem.days)
    print_sentences(
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
    print_sentences(
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
