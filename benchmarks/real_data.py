"""Accuracy on real problems with a hidden truth: us with the facts given, the baselines, and a model of the pairs.

The facts of each table are stated with it: hours of a day are 24 readings, cells have so many rows, and the power of
one hour is a single measurement. Everything else is left at its default.

`wind_day` and `wind_merra` come with decond. `uk` and `cal` need a folder with their files (--data), which is not
ours to distribute. Every figure is a mean over draws of the rows; RMSE is on the hidden truth. In the last problem
deconditioning does not help, and its `resolution` says so.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from decond.datasets import load_wind, wind_day
from decond.estimators import CascadeGP, DirectGP, DualEmbedding, EcologicalGP, ImputeGP, TaskTransformedGP

HIDDEN_ROWS = 2000


@dataclass(frozen=True)
class Problem:
    """Two tables, the truth that scores them, and x with its own target, which only a know-all sees."""

    x: np.ndarray
    y: np.ndarray
    y_task: np.ndarray
    z_task: np.ndarray
    x_known: np.ndarray
    z_known: np.ndarray
    x_true: np.ndarray
    z_true: np.ndarray
    group_sizes: Any = None
    """Rows of each group, where the mediator is a label."""

    @property
    def has_groups(self) -> bool:
        """Whether the mediator is a label."""
        return self.y.ndim == 1


def draw_wind_day(seed: int, folder: Path | None) -> Problem:
    day = wind_day(seed)
    hours = load_wind().hourly
    power = hours.set_index(["day", "ws_hub"])["power_kw"].groupby(level=[0, 1]).first()
    pairs = power.loc[list(zip(day.groups, day.x["ws_hub"], strict=True))].to_numpy()
    chosen = _some(len(day.x_true), seed)
    labels = day.groups.astype(str)
    return Problem(
        day.x.to_numpy(), labels, day.z.index.to_numpy().astype(str), day.z.to_numpy(), day.x.to_numpy(), pairs,
        day.x_true.to_numpy()[chosen], day.z_true[chosen], 24,
    )  # fmt: skip


def draw_wind_merra(seed: int, folder: Path | None, rows: int = 500) -> Problem:
    hours = load_wind().hourly
    hours = hours[hours["downtime"] == 0].dropna()
    year = hours["time_utc"].dt.year
    pairs = hours[year == 2014].sample(rows, random_state=seed)
    task = hours[year == 2015].sample(rows, random_state=seed)
    hidden = hours[year == 2015].drop(task.index).sample(HIDDEN_ROWS, random_state=seed)
    return Problem(
        pairs[["ws_hub"]].to_numpy(), pairs[["merra_ws50"]].to_numpy(), task[["merra_ws50"]].to_numpy(),
        task["power_kw"].to_numpy(), task[["ws_hub"]].to_numpy(), task["power_kw"].to_numpy(),
        hidden[["ws_hub"]].to_numpy(), hidden["power_kw"].to_numpy(),
    )  # fmt: skip


def draw_uk(seed: int, folder: Path | None) -> Problem:
    return _cells(seed, folder, "uk_hires_pixels", "uk_coarse_cells", ["rlat", "rlon", "alt"], "temp", "temp_mean", 8)


def draw_cal(seed: int, folder: Path | None) -> Problem:
    columns = ["longitude", "latitude", "log_income"]
    return _cells(
        seed, folder, "california_blockgroups", "california_cells", columns, "log_value", "log_value_mean", 4
    )


def draw_no_help(seed: int, folder: Path | None) -> Problem:
    """Return `cal` with x = (longitude, latitude) only: within a cell it says next to nothing about the value."""
    columns = ["longitude", "latitude"]
    return _cells(
        seed, folder, "california_blockgroups", "california_cells", columns, "log_value", "log_value_mean", 4
    )


def _cells(
    seed: int, folder: Path | None, fine: str, coarse: str, x: list[str], z: str, mean: str, each: int
) -> Problem:
    assert folder is not None
    rows, cells = (pd.read_csv(folder / f"{name}.csv") for name in (fine, coarse))
    counts = rows["cell"].value_counts()
    pairs = rows[rows["cell"].isin(counts.index[counts >= each])].groupby("cell").sample(each, random_state=seed)
    hidden = rows.drop(pairs.index).sample(HIDDEN_ROWS, random_state=seed)
    targets = cells.set_index("cell")[mean].loc[np.unique(pairs["cell"])]
    sizes = {str(cell): int(count) for cell, count in counts.items()}
    return Problem(
        pairs[x].to_numpy(), pairs["cell"].to_numpy().astype(str), targets.index.to_numpy().astype(str),
        targets.to_numpy(), pairs[x].to_numpy(), pairs[z].to_numpy(), hidden[x].to_numpy(), hidden[z].to_numpy(),
        sizes,
    )  # fmt: skip


PROBLEMS: dict[str, Callable[[int, Path | None], Problem]] = {
    "wind_day": draw_wind_day,
    "wind_merra": draw_wind_merra,
    "uk": draw_uk,
    "cal": draw_cal,
    "cal, x = place only": draw_no_help,
}
SHIPPED = ("wind_day", "wind_merra")
FACTS, DRIFT = "facts given", "facts given, drift=0.1"


def _with_facts(problem: Problem, **settings: Any) -> Any:
    if problem.has_groups:
        model = TaskTransformedGP(**settings)
        return model.fit(problem.x, problem.y, problem.y_task, problem.z_task, group_sizes=problem.group_sizes)
    model = TaskTransformedGP(targets="single", **settings)
    return model.fit(problem.x, problem.y, problem.y_task, problem.z_task)


def _fitted(make: Callable[[], Any]) -> Callable[[Problem], Any]:
    return lambda problem: make().fit(problem.x, problem.y, problem.y_task, problem.z_task)


MODELS: dict[str, Callable[[Problem], Any]] = {
    FACTS: _with_facts,
    DRIFT: lambda problem: _with_facts(problem, drift=0.1),
    "no facts": _fitted(TaskTransformedGP),
    "plain": _fitted(lambda: TaskTransformedGP(uncertainty="plain", n_restarts=1)),
    "cascade": _fitted(CascadeGP),
    "impute": _fitted(ImputeGP),
    "on E[x|y]": _fitted(EcologicalGP),
    "dual embedding": _fitted(DualEmbedding),
}


def score(problem: Problem) -> dict[str, float]:
    """Return the RMSE of every model, and how often the 95 % bands contain E[z | x]."""
    reference = DirectGP(n_restarts=0).fit(problem.x_true[:700], problem.z_true[:700])
    expected, doubt = reference.predict(problem.x_true, return_std=True)
    known = DirectGP(n_restarts=0).fit(problem.x_known, problem.z_known)
    figures = {"knows pairs": _rmse(known.predict(problem.x_true), problem)}
    figures["constant"] = _rmse(np.full(len(problem.z_true), problem.z_task.mean()), problem)
    for name, fit in MODELS.items():
        if name == DRIFT and problem.has_groups:
            continue  # drift is about a mediator of numbers
        model = fit(problem)
        if isinstance(model, TaskTransformedGP):
            mean, std = model.predict(problem.x_true, return_std=True)
            figures[f"{name}: coverage"] = float(np.mean(np.abs(mean - expected) <= 1.96 * np.hypot(std, doubt)))
        else:
            mean = model.predict(problem.x_true)
        figures[name] = _rmse(mean, problem)
        if name == FACTS:
            figures["resolution"] = model.resolution()
    return figures


def run(folder: Path | None = None, draws: int = 10, first_seed: int = 0, names: Any = None) -> dict[str, Any]:
    """Score every problem that can be drawn."""
    results: dict[str, Any] = {"benchmark": f"real data, mean of {draws} draws"}
    for name in names or PROBLEMS:
        if name not in SHIPPED and folder is None:
            results[name] = "needs its files: give their folder with --data"
            continue
        table = pd.DataFrame(
            [_quietly(PROBLEMS[name], seed, folder) for seed in range(first_seed, first_seed + draws)]
        )
        figures = table.mean().to_dict()
        rivals = min(figures["cascade"], figures["impute"])
        figures["facts given / better of cascade and impute"] = figures[FACTS] / rivals
        figures["facts given / on E[x|y]"] = figures[FACTS] / figures["on E[x|y]"]
        figures["facts given / knows pairs"] = figures[FACTS] / figures["knows pairs"]
        results[name] = {key: round(value, 4) for key, value in figures.items()}
        print(name, results[name], flush=True)
    return results


def _quietly(draw: Callable[..., Problem], seed: int, folder: Path | None) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figures = score(draw(seed, folder))
    print(seed, {name: round(value, 3) for name, value in figures.items()}, flush=True)
    return figures


def _some(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(count)[:HIDDEN_ROWS]


def _rmse(mean: np.ndarray, problem: Problem) -> float:
    return float(np.sqrt(np.mean((mean - problem.z_true) ** 2)))
