"""Figure 3: a latent function recovered from two tables that share only a mediator (section 8.1)."""

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from decond import kernels
from decond.gp import FunctionPrior, Model, TaskTransformed, condition, maximize_evidence, select
from decond.gp.conditioning import cascade, impute
from decond.paper.published import save_numbers
from decond.plotting.display import plot_band, plot_line, plot_points
from decond.problems import LatentFunctionProblem, latent_function

__all__ = ["GRID", "Answer", "recover", "write"]

GRID = np.linspace(-6.0, 6.0, 500)[:, None]
"""Where f is compared."""


class Answer(NamedTuple):
    """One curve of the figure: f on the grid and, for the Bayesian models, its deviation and evidence."""

    mean: np.ndarray
    std: np.ndarray | None = None
    negative_log_evidence: float | None = None
    hyperparameters: dict[str, float] | None = None

    def score(self, truth: np.ndarray) -> dict[str, Any]:
        """Return error, coverage and evidence."""
        inside = None if self.std is None else float(np.mean(np.abs(truth - self.mean) <= 2.0 * self.std))
        return {
            "rmse": float(np.sqrt(np.mean((truth - self.mean) ** 2))),
            "coverage_2sd": inside,
            "negative_log_evidence": self.negative_log_evidence,
            "hyperparameters": self.hyperparameters,
        }


def _paths() -> dict[str, str]:
    """Return where hyperparameters are in the model."""
    lengthscales = {"x": "prior.kernel", "y": "observation.kernel_y"}
    paths = {f"lengthscale_{name}": f"{kernel}.lengthscale" for name, kernel in lengthscales.items()}
    return {**paths, "noise": "observation.noise"}


def _initial_model(problem: LatentFunctionProblem, mediator: Literal["full", "map"]) -> Model:
    length_x, length_y, noise = problem.initial
    tables, kernel_y = (problem.x, problem.y, problem.y_task), kernels.RBF(length_y)
    observation = TaskTransformed(*tables, kernel_y, noise=noise, mediator=mediator)
    return Model(FunctionPrior(kernels.RBF(length_x)), observation)


def recover(problem: LatentFunctionProblem) -> dict[str, Answer]:
    """Return every curve: learned from the initial hyperparameters, these themselves, and the naive answers."""
    initial = _initial_model(problem, "full")
    free = select(initial, free=list(_paths().values()))
    learned = maximize_evidence(initial, problem.z_task, free, n_restarts=0).model
    as_map = Model(learned.prior, learned.observation.replace(mediator="map"))
    tables = (problem.x, problem.y, problem.y_task, problem.z_task)
    prior = FunctionPrior(kernels.RBF(1.0))
    return {
        "learned": _answer(learned, problem.z_task),
        "initial": _answer(initial, problem.z_task),
        "learned, MAP mediator": _answer(as_map, problem.z_task),
        "impute": Answer(impute(prior, prior, 0.25, tables, GRID)),
        "cascade": Answer(cascade(prior, prior, 0.25, tables, GRID)),
    }


def _answer(model: Model, z: np.ndarray) -> Answer:
    """Return the posterior of a model given the targets z."""
    posterior, values = condition(model.prior, model.observation, z), model.values()
    named = {name: float(values[path]) for name, path in _paths().items()}
    return Answer(posterior.mean(GRID), posterior.std(GRID), -posterior.log_evidence, named)


def write(folder: Path) -> tuple[list[Path], dict[str, Any]]:
    """Write ``figure3.png`` and ``figure3.json`` into a folder; return the files and the numbers."""
    problem = latent_function()
    answers = recover(problem)
    truth = problem.f(GRID)[:, 0]
    numbers = {
        "figure": "latent function recovery (section 8.1, Figure 3)",
        "answers": {name: answer.score(truth) for name, answer in answers.items()},
    }
    return save_numbers(folder, "figure3", _draw(problem, answers), numbers), numbers


def _draw(problem: LatentFunctionProblem, answers: dict[str, Answer]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.5), layout="constrained")
    axes = figure.subplot_mosaic([["pairs", "task"], ["result", "result"]], height_ratios=[2, 3])
    pairs, task, result = axes["pairs"], axes["task"], axes["result"]
    plot_points(pairs, problem.y, problem.x, label="pairs (y, x)")
    plot_line(pairs, GRID, problem.r(GRID), "truth", "E[x | y]")
    pairs.set(xlabel="mediator y", ylabel="input x", title="transformation set")
    plot_points(task, problem.y_task, problem.z_task, label="task rows (y, z)")
    task.set(xlabel="mediator y", ylabel="target z", title="task set")
    for name, role in (("initial", "initial"), ("learned", "model")):
        mean, std, *_ = answers[name]
        assert std is not None
        plot_band(result, GRID, mean, std, role, f"{name} hyperparameters")
    for name in ("cascade", "impute"):
        plot_line(result, GRID, answers[name].mean, name, name, "--")
    plot_line(result, GRID, problem.f(GRID), "truth", "true f")
    result.set(xlabel="input x", ylabel="target z", title="f recovered, though x and z were never seen together")
    for ax in axes.values():
        ax.legend(frameon=False, fontsize=9)
    return figure
