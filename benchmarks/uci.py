"""Public tables: `SparseGP` as it is, what users would pick instead, and GPyTorch's SGPR from the same points.

The tables (`--data FOLDER`) are not ours to distribute: a folder for each, with `data.csv.gz`, whose last column is
the target, and `test_mask.csv.gz`, a column of ones and zeros for each split. Without a folder there is
scikit-learn's table of diabetes, small enough for the exact Gaussian process. Targets are in units of their deviation
over the rows that are learned from. Every cell runs in a process of its own: seconds are the processor's, memory is
its peak.
"""

import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from benchmarks.peer import NOT_RUN, Peer
from decond import SparseGP
from decond.estimators import DirectGP
from decond.plotting.display import new_figure

TABLES = ("elevators", "pol", "kin40k", "protein", "bike", "keggdirected")
SMALL = "diabetes"
MOST_EXACT_ROWS = 10_000
PUBLISHED = {
    "exact GP (Wang et al. 2019, other splits)": (0.394, 0.151, 0.099, 0.536, 0.220, 0.086),
    "SGPR, n = 512": (0.401, 0.260, 0.205, 0.660, 0.284, 0.089),
    "SVGP, n = 1024": (0.389, 0.300, 0.192, 0.659, 0.268, 0.088),
    "SoftKI, n = 512": (0.389, 0.195, 0.237, 0.649, 0.204, 0.081),
}
"""RMSE that others have published for these tables, 90 % of the rows learned from."""

OURS, EXACT, BOOSTING, NYSTROEM, SGPR = "decond", "exact GP", "boosted trees", "Nyström + ridge", "GPyTorch SGPR"
COLORS = {OURS: "#0072B2", EXACT: "#000000", BOOSTING: "#E69F00", NYSTROEM: "#009E73", SGPR: "#D55E00"}
WITHOUT_POINTS = (EXACT, BOOSTING)


class Cell(NamedTuple):
    """One system on one split of a table, with so many inducing points, features or neither."""

    table: str
    split: int
    system: str
    points: int
    folder: Path | None


class Split(NamedTuple):
    """Rows to learn from and new ones; targets in units of the deviation of the first."""

    x: np.ndarray
    z: np.ndarray
    x_new: np.ndarray
    z_new: np.ndarray


def read(cell: Cell) -> Split:
    """Return the rows of a split."""
    if cell.folder is None:
        from sklearn.datasets import load_diabetes

        x, z = load_diabetes(return_X_y=True)
        new = np.random.default_rng(cell.split).permutation(len(z)) < len(z) // 10
    else:
        values = np.loadtxt(cell.folder / cell.table / "data.csv.gz", delimiter=",")
        masks = np.loadtxt(cell.folder / cell.table / "test_mask.csv.gz", delimiter=",", dtype=int)
        x, z, new = values[:, :-1], values[:, -1], masks[:, cell.split].astype(bool)
    z = (z - z[~new].mean()) / z[~new].std()
    return Split(x[~new], z[~new], x[new], z[new])


def predictions(cell: Cell, rows: Split) -> tuple[np.ndarray, np.ndarray | None]:
    """Return means and, from those that have them, deviations of new targets."""
    if cell.system in (OURS, EXACT):
        gp = SparseGP(n_inducing=cell.points) if cell.system == OURS else DirectGP()
        mean, std = gp.fit(rows.x, rows.z).predict(rows.x_new, return_std=True, include_noise=True)
        return mean, std
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model: Any = HistGradientBoostingRegressor(random_state=0)
    if cell.system == NYSTROEM:
        features = Nystroem(n_components=min(cell.points, len(rows.x)), gamma=1.0 / rows.x.shape[1], random_state=0)
        model = make_pipeline(StandardScaler(), features, RidgeCV(np.logspace(-6, 3, 10)))
    return model.fit(rows.x, rows.z).predict(rows.x_new), None


def measure(cell: Cell) -> dict[str, Any]:
    """Return the figures of one cell, measured in this process."""
    warnings.simplefilter("ignore")
    rows = read(cell)
    start = time.process_time()
    mean, std = predictions(cell, rows)
    seconds = time.process_time() - start
    row: dict[str, Any] = {"table": cell.table, "split": cell.split, "n": cell.points, "system": cell.system}
    row["RMSE"] = float(np.sqrt(np.mean((rows.z_new - mean) ** 2)))
    if std is not None:
        row["NLL"] = float(-norm.logpdf(rows.z_new, mean, std).mean())
        row["in 95 %"] = float(np.mean(np.abs(rows.z_new - mean) <= norm.ppf(0.975) * std))
    unit = 1e9 if sys.platform == "darwin" else 1e6
    return {**row, "seconds": seconds, "GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit}


def measure_peer(cell: Cell, interpreter: str) -> dict[str, Any]:
    """Return the figures of GPyTorch's SGPR, which learns by our schedule from where we start."""
    from decond.estimators.defaults import SearchRanges
    from decond.streaming.sparse_search import starting_points

    rows = read(cell)
    center, spread = rows.x.mean(axis=0), np.where(rows.x.std(axis=0) > 0.0, rows.x.std(axis=0), 1.0)
    x, x_new = ((one - center) / spread for one in (rows.x, rows.x_new))
    defaults = SparseGP()
    rows_and_points = {"x": x, "z": rows.z, "inducing": starting_points(x, cell.points, seed=0)}
    start = {
        "lengthscale": np.full(x.shape[1], SearchRanges.smoothness),
        "variance": 1.0,
        "noise": SearchRanges.noise_start,
    }
    schedule = {
        "sample": defaults.sample_size,
        "iterations": defaults.max_iterations,
        "full_iterations": defaults.full_iterations,
    }
    problem = {**rows_and_points, **start, **schedule, "x_new": x_new, "f_new": rows.z_new}
    with Peer("gpytorch_sparse", problem, interpreter) as peer:
        answer = peer.ask("fit")
        row = {"table": cell.table, "split": cell.split, "n": cell.points, "system": cell.system}
        figures = {"RMSE": answer["rmse"], "NLL": answer["nll"], "in 95 %": answer["coverage"]}
        return {**row, **figures, "seconds": answer["processor_seconds"], "GB": peer.peak}


def cells(folder: Path | None, splits: Iterable[int], points: Sequence[int]) -> list[Cell]:
    """Return everything that is to be run, the quickest first."""
    tables = TABLES if folder is not None else (SMALL,)
    found = []
    for split in splits:
        for name in tables:
            found += [Cell(name, split, system, 0, folder) for system in WITHOUT_POINTS]
            found += [Cell(name, split, system, n, folder) for n in points for system in (OURS, NYSTROEM, SGPR)]
    return sorted(found, key=lambda cell: cell.points)


def run(
    folder: Path | None = None,
    peers: str | None = None,
    splits: int = 3,
    points: Sequence[int] = (128, 256, 512),
    known: Sequence[dict[str, Any]] = (),
    report: Callable[[dict[str, Any]], object] = print,
) -> dict[str, Any]:
    """Run all cells but those that are known, one after the other, each in a new process."""
    points = points if folder is not None else (50,)
    rows = list(known)
    done = {(row["table"], row["split"], row["n"], row["system"]) for row in rows}
    for cell in cells(folder, range(splits), points):
        if (cell.table, cell.split, cell.points, cell.system) not in done:
            rows.append(_in_new_process(cell, peers))
            report(rows[-1])
    return result(rows)


def _in_new_process(cell: Cell, peers: str | None) -> dict[str, Any]:
    row = {"table": cell.table, "split": cell.split, "n": cell.points, "system": cell.system}
    if cell.system == SGPR:
        return measure_peer(cell, peers) if peers else {**row, "RMSE": NOT_RUN}
    if cell.system == EXACT and len(read(cell).z) > MOST_EXACT_ROWS:
        return {**row, "RMSE": "too many rows"}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, cell).result()


def result(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures as a benchmark's result: means over splits beside published figures, and all cells."""
    return {
        "benchmark": "Public tables",
        "notes": [
            "RMSE and NLL: targets in units of their deviation, on 10 % of the rows. Seconds are the processor's.",
            "Published figures are for the same tables, 90 % of the rows learned from; not for these very splits.",
            "Means over the splits that were run, whose number is in brackets.",
            "Published errors for bike are ten times all of ours, also of trees: probably they are of other columns.",
        ],
        "RMSE": summary(rows, "RMSE") + published(rows),
        "NLL": summary(rows, "NLL"),
        "new targets in 95 % intervals": summary(rows, "in 95 %"),
        "seconds": summary(rows, "seconds"),
        "cells": rows,
    }


def summary(rows: list[dict[str, Any]], figure: str) -> list[dict[str, Any]]:
    """Return the mean of a figure for every system by table, over the splits that were run, and their number."""
    names = list(dict.fromkeys(row["table"] for row in rows))
    found: list[dict[str, Any]] = []
    for system, points in dict.fromkeys((row["system"], row["n"]) for row in rows):
        line: dict[str, Any] = {"system": f"{system}, n = {points}" if points else system}
        for name in names:
            key = (system, points, name)
            cells = [row.get(figure) for row in rows if (row["system"], row["n"], row["table"]) == key]
            values = [value for value in cells if isinstance(value, float)]
            line[name] = f"{np.mean(values):.3g} ({len(values)})" if values else NOT_RUN
        if any(line[name] != NOT_RUN for name in names):
            found.append(line)
    return found


def published(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the errors that others have published for the tables of these rows."""
    names = [name for name in dict.fromkeys(row["table"] for row in rows) if name in TABLES]
    return [
        {"system": f"published: {label}", **{name: errors[TABLES.index(name)] for name in names}}
        for label, errors in PUBLISHED.items()
        if names
    ]


def plot(found: dict[str, Any]) -> Any:
    """Draw the error on new rows against the processor's seconds, a panel for each table."""
    names = list(dict.fromkeys(row["table"] for row in found["cells"]))
    figure, axes = new_figure(len(names), size=(13.0, 3.4 * -(-len(names) // 4)))
    for ax, name in zip(axes, names, strict=True):
        for system, color in COLORS.items():
            cells = [r for r in found["cells"] if (r["table"], r["system"]) == (name, system) and "seconds" in r]
            if cells:
                ax.plot(
                    [r["seconds"] for r in cells], [r["RMSE"] for r in cells], "o", color=color, label=system, ms=4
                )
        ax.set(xscale="log", xlabel="processor seconds", ylabel="RMSE")
        ax.set_title(name, fontsize=9, loc="left")
        ax.grid(alpha=0.25, lw=0.5)
    axes[0].legend(frameon=False, fontsize=8)
    return figure
