"""`decond demo`: a turbine's power curve from the mean power of each day, with the truth beside it."""

import json
import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.table import Table

from decond.cli.console import console, make_folder, progress_bar, say_wrote, wrong_input

__all__ = ["command", "write"]

BIN = 0.5
"""Width in m/s of the bins in which the true curve is averaged."""

LEAST_HOURS = 20
"""Hours that a bin needs to count as truth."""


NAIVE = {
    "mean power on mean wind": ("EcologicalGP", "cascade"),
    "each reading has its day's power": ("ImputeGP", "impute"),
}
"""Answers without deconditioning: words, estimator, and role in the picture."""


class Answer(NamedTuple):
    """One estimate of the power curve."""

    predict: Any
    """From wind speeds to power."""
    seconds: float
    has_bars: bool = False
    """Whether `predict` gives standard deviations too."""


def command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write into.")] = Path("decond-demo"),
) -> None:
    """Recover a wind turbine's power curve from daily means, and draw it beside the truth.

    One table has eight wind speeds a day, the other the mean power of each day; no row has a wind speed with its
    power. Wanted is power as a function of wind, with error bars. The hourly truth on other days scores the answer.
    """
    with wrong_input():
        make_folder(output)
    with progress_bar("learning the power curve") as report:
        paths, numbers = write(output, report)
    console.print(_as_table(numbers))
    console.print("Data: ENGIE, La Haute Borne wind farm, Etalab Open Licence 2.0.", highlight=False)
    say_wrote(*paths)


def write(folder: Path, progress: Any = None) -> tuple[list[Path], dict[str, Any]]:
    """Run the demo and write its picture and numbers into a folder."""
    from decond.datasets import wind_day

    problem = wind_day()
    speeds, truth = true_curve(problem)
    answers = {
        "deconditional": _timed(lambda: _ours(problem, progress), has_bars=True),
        **{words: _timed(lambda name=name: _naive(problem, name)) for words, (name, _) in NAIVE.items()},
    }
    numbers = {name: _score(answer, problem, speeds, truth) for name, answer in answers.items()}
    paths = [folder / "power_curve.png", folder / "numbers.json"]
    _draw(problem, answers, speeds, truth).savefig(paths[0], dpi=120)
    paths[1].write_text(json.dumps(numbers, indent=2) + "\n")
    return paths, numbers


def true_curve(problem: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return wind speeds and the mean power there over the hidden hours."""
    speed, power = problem.x_true["ws_hub"].to_numpy(), problem.z_true
    index = (speed / BIN).astype(int)
    hours = np.bincount(index)
    known = hours >= LEAST_HOURS
    mean_speed, mean_power = (np.bincount(index, v)[known] / hours[known] for v in (speed, power))
    return mean_speed, mean_power


def _ours(problem: Any, progress: Any) -> Any:
    from decond.estimators import AggregateGP

    model = AggregateGP(seed=0).fit(problem.x, problem.groups, problem.z, progress=progress)
    return model.predict


def _naive(problem: Any, name: str) -> Any:
    """Return the prediction of one of the answers without deconditioning, whose warnings do not matter here."""
    import warnings

    from decond import estimators

    days, target_days = problem.groups.astype(str), problem.z.index.to_numpy().astype(str)
    model = getattr(estimators, name)(n_restarts=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(problem.x, days, target_days, problem.z.to_numpy())
    return model.predict


def _timed(fit: Any, has_bars: bool = False) -> Answer:
    begin = time.perf_counter()
    predict = fit()
    return Answer(predict, time.perf_counter() - begin, has_bars)


def _score(answer: Answer, problem: Any, speeds: np.ndarray, truth: np.ndarray) -> dict[str, float | None]:
    import pandas as pd

    error = answer.predict(problem.x_true) - problem.z_true
    inside = None
    if answer.has_bars:
        mean, std = answer.predict(pd.DataFrame({"ws_hub": speeds}), return_std=True)
        inside = float(np.mean(np.abs(mean - truth) <= 2.0 * std))
    return {"rmse_kw": float(np.sqrt(np.mean(error**2))), "coverage_2sd": inside, "seconds": answer.seconds}


def _draw(problem: Any, answers: dict[str, Answer], speeds: np.ndarray, truth: np.ndarray) -> Any:
    import pandas as pd
    from matplotlib.figure import Figure

    from decond.plotting import plot_band, plot_line, plot_points

    figure = Figure(figsize=(9.0, 5.5), layout="constrained")
    ax = figure.subplots()
    grid = pd.DataFrame({"ws_hub": np.linspace(0.0, speeds.max(), 200)})
    days = problem.x["ws_hub"].groupby(problem.groups).mean()
    plot_points(ax, days, problem.z.loc[days.index], label="what was seen: means of 120 days")
    mean, std = answers["deconditional"].predict(grid, return_std=True)
    plot_band(ax, grid, mean, std, "model", "deconditional")
    for words, (_, role) in NAIVE.items():
        plot_line(ax, grid, answers[words].predict(grid), role, words, "--")
    plot_line(ax, speeds, truth, "truth", "truth: hourly means on other days")
    ax.set(xlabel="wind speed at the hub (m/s)", ylabel="power (kW)", title="A power curve from daily means")
    ax.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def _as_table(numbers: dict[str, dict[str, float | None]]) -> Table:
    table = Table(title="Power of each hour on days that were not seen")
    for heading in ("answer", "RMSE (kW)", "true curve inside ± 2 sd", "seconds"):
        table.add_column(heading, justify="left" if heading == "answer" else "right")
    for name, row in numbers.items():
        inside = row["coverage_2sd"]
        table.add_row(
            name,
            f"{row['rmse_kw']:.0f}",
            "no error bars" if inside is None else f"{inside:.0%}",
            f"{row['seconds']:.1f}",
        )
    return table
