"""What `decond demo` shows: a latent function recovered from two tables that share only a mediator."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from decond import kernels
from decond.plotting import plot_band, plot_line, plot_points
from decond.problems import LatentFunctionProblem, latent_function
from decond.regression import FunctionPrior, Posterior, TaskTransformed, condition
from decond.regression.baselines import cascade, impute

__all__ = ["draw", "recover", "write"]

GRID = np.linspace(-6.0, 6.0, 241)[:, None]


def recover(problem: LatentFunctionProblem, hyperparameters: tuple[float, float, float]) -> Posterior:
    """Return the posterior of f at given (lengthscale of x, lengthscale of y, noise)."""
    length_x, length_y, noise = hyperparameters
    observation = TaskTransformed(problem.x, problem.y, problem.y_task, kernels.RBF(length_y), noise=noise)
    return condition(FunctionPrior(kernels.RBF(length_x)), observation, problem.z_task)


def curves(problem: LatentFunctionProblem) -> dict[str, Any]:
    """Return all answers on the grid: means and, where there are any, standard deviations."""
    tables = (problem.x, problem.y, problem.y_task, problem.z_task)
    prior = FunctionPrior(kernels.RBF(1.0))
    initial, learned = recover(problem, problem.initial), recover(problem, problem.learned)
    return {
        "learned": (learned.mean(GRID), learned.std(GRID), -learned.log_evidence),
        "initial": (initial.mean(GRID), initial.std(GRID), -initial.log_evidence),
        "impute": (impute(prior, prior, 0.25, tables, GRID), None, None),
        "cascade": (cascade(prior, prior, 0.25, tables, GRID), None, None),
    }


def summary(problem: LatentFunctionProblem, answers: dict[str, Any]) -> dict[str, dict[str, float | None]]:
    """Return error, coverage and negative log evidence of every answer."""
    truth = problem.f(GRID)[:, 0]
    table = {}
    for name, (mean, std, evidence) in answers.items():
        inside = None if std is None else float(np.mean(np.abs(truth - mean) <= 2.0 * std))
        error = float(np.sqrt(np.mean((truth - mean) ** 2)))
        table[name] = {"rmse": error, "coverage_2sd": inside, "negative_log_evidence": evidence}
    return table


def draw(problem: LatentFunctionProblem, answers: dict[str, Any], folder: Path) -> list[Path]:
    """Write the two pictures and return where they are."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    data, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    plot_points(left, problem.y, problem.x, label="pairs (y, x)")
    plot_line(left, GRID, problem.r(GRID), "truth", "E[x | y]")
    left.set(xlabel="mediator y", ylabel="input x", title="Table 1: how x relates to the mediator")
    plot_points(right, problem.y_task, problem.z_task, label="task rows (y, z)")
    right.set(xlabel="mediator y", ylabel="target z", title="Table 2: what was measured")

    result, ax = plt.subplots(figsize=(9, 5), layout="constrained")
    plot_band(ax, GRID, answers["initial"][0], answers["initial"][1], "initial", "initial hyperparameters")
    plot_band(ax, GRID, answers["learned"][0], answers["learned"][1], "model", "learned hyperparameters")
    for name in ("cascade", "impute"):
        plot_line(ax, GRID, answers[name][0], name, name, "--")
    plot_line(ax, GRID, problem.f(GRID), "truth", "true f")
    ax.set(xlabel="input x", ylabel="target z", title="z as a function of x, which were never seen together")
    for axes in (left, right, ax):
        axes.legend(frameon=False, fontsize=9)
    paths = [folder / "tables.png", folder / "recovered_function.png"]
    for figure, path in zip((data, result), paths, strict=True):
        figure.savefig(path, dpi=120)
        plt.close(figure)
    return paths


def write(folder: Path) -> tuple[list[Path], dict[str, dict[str, float | None]]]:
    """Run the demo and write pictures and numbers into a folder."""
    problem = latent_function()
    answers = curves(problem)
    table = summary(problem, answers)
    folder.mkdir(parents=True, exist_ok=True)
    numbers = folder / "numbers.json"
    numbers.write_text(json.dumps(table, indent=2) + "\n")
    return [*draw(problem, answers, folder), numbers], table
