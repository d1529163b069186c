"""Figures 3 and 4: a function recovered from two tables that share only a mediator; a table in five points.

Sections 8.1 and 8.2 of the paper.
"""

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from decond import kernels
from decond.gp import FunctionPrior, Model, Posterior, TaskTransformed, condition, maximize_evidence, select
from decond.gp.conditioning import cascade, impute
from decond.paper.published import figure_notes, save_numbers
from decond.plotting.display import plot_band, plot_line, plot_points
from decond.problems import LatentFunctionProblem, latent_function

__all__ = ["GRID", "Answer", "Panel", "panels", "recover", "sparse_toy", "write_figure3", "write_figure4"]

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


def write_figure3(folder: Path) -> tuple[list[Path], dict[str, Any]]:
    """Write ``figure3.png`` and ``figure3.json`` into a folder; return the files and the numbers."""
    problem = latent_function()
    answers = recover(problem)
    truth = problem.f(GRID)[:, 0]
    numbers = {
        "figure": "latent function recovery (section 8.1, Figure 3)",
        "answers": {name: answer.score(truth) for name, answer in answers.items()},
    }
    return save_numbers(folder, "figure3", _draw_figure3(problem, answers), numbers), numbers


def _draw_figure3(problem: LatentFunctionProblem, answers: dict[str, Answer]) -> Any:
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


# ---- figure 4 ------------------------------------------------------------------------------------------------


class Panel(NamedTuple):
    """One panel: the posterior on five points, and what was learned for it."""

    title: str
    posterior: Posterior
    model: Model

    def numbers(self) -> dict[str, Any]:
        """Return error and coverage where the data are, evidence, hyperparameters and points."""
        grid = GRID[np.abs(GRID[:, 0]) <= 5.0]
        error = LatentFunctionProblem.f(grid)[:, 0] - self.posterior.mean(grid)
        values = self.model.values()
        return {
            "rmse_within_data": float(np.sqrt(np.mean(error**2))),
            "coverage_2sd": float(np.mean(np.abs(error) <= 2.0 * self.posterior.std(grid))),
            "negative_log_evidence": -self.posterior.log_evidence,
            "lengthscale": float(values["prior.kernel.lengthscale"]),
            "noise": float(values["observation.noise"]),
            "points": sorted(self.model.observation.x[:, 0].tolist()),
        }


def sparse_toy() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, targets and the five starting points of the toy, with the paper's draws.

    >>> x, z, u = sparse_toy()
    >>> x.shape, z.shape, u.shape
    ((100, 1), (100,), (5, 1))
    """
    random = np.random.RandomState(100)
    x = random.uniform(-5.0, 5.0, (100, 1))
    z = LatentFunctionProblem.f(x)[:, 0] + 0.25 * random.randn(100)
    return x, z, np.random.RandomState(100).uniform(-5.0, 5.0, (5, 1))


def panels() -> dict[str, Panel]:
    """Return the three sparse representations: random points, all learned jointly, points learned alone."""
    x, z, u = sparse_toy()
    true, far = _sparse_model(x, u, lengthscale=1.0, noise=0.25), _sparse_model(x, u, lengthscale=10.0, noise=1.0)
    jointly, points = _learned(far, z, points_only=False), _learned(true, z, points_only=True)
    return {
        "random": Panel("5 random points", _conditioned(true, z), true),
        "jointly": Panel("points and hyperparameters learned", _conditioned(jointly, z), jointly),
        "points": Panel("points learned, true hyperparameters", _conditioned(points, z), points),
    }


def write_figure4(folder: Path) -> tuple[list[Path], dict[str, Any]]:
    """Write ``figure4.png`` and ``figure4.json`` into a folder; return the files and the numbers."""
    answers = panels()
    numbers = {
        "figure": "sparse representation learning (section 8.2, Figure 4)",
        "answers": {name: panel.numbers() for name, panel in answers.items()},
        "slips_of_the_published_panels": figure_notes()["figure4"][1:],
    }
    return save_numbers(folder, "figure4", _draw_figure4(answers), numbers), numbers


def _sparse_model(x: np.ndarray, u: np.ndarray, lengthscale: float, noise: float) -> Model:
    """Return the model in which the transformation set is the inducing points, x = y = u, with MAP for g."""
    observation = TaskTransformed(u, u, x, kernels.RBF(lengthscale), noise=noise, mediator="map")
    return Model(FunctionPrior(kernels.RBF(lengthscale)), observation)


def _learned(model: Model, z: np.ndarray, *, points_only: bool) -> Model:
    """Return the model with the points, x tied to y, and the tied lengthscales learned by its evidence."""
    points = ("observation.x", "observation.y")
    lengthscales = ("prior.kernel.lengthscale", "observation.kernel_y.lengthscale")
    if points_only:
        chosen = select(model, free=list(points), tied=[points])
    else:
        chosen = select(model, free=[*lengthscales, "observation.noise", *points], tied=[lengthscales, points])
    return maximize_evidence(model, z, chosen, n_restarts=0).model


def _conditioned(model: Model, z: np.ndarray) -> Posterior:
    return condition(model.prior, model.observation, z)


def _draw_figure4(answers: dict[str, Panel]) -> Any:
    x, z, _ = sparse_toy()
    figure = Figure(figsize=(14, 4.2), layout="constrained")
    axes = figure.subplots(1, 4, sharey=True)
    knots = np.array([-4.0, -3.0, -1.0, 0.0, 2.0])[:, None]
    plot_points(axes[0], x, z, label="100 rows")
    axes[0].plot(knots, LatentFunctionProblem.f(knots), "kx", ms=8, mew=2, label="5 points that give f")
    axes[0].set(title="true function", ylabel="z")
    for ax, panel in zip(axes[1:], answers.values(), strict=True):
        plot_points(ax, x, z)
        plot_band(ax, GRID, panel.posterior.mean(GRID), panel.posterior.std(GRID), "model", "deconditional")
        u = panel.model.observation.x
        ax.plot(u, np.full(len(u), -3.0), "kx", ms=8, mew=2, label="inducing points")
        ax.set(title=panel.title)
    for ax in axes:
        plot_line(ax, GRID, LatentFunctionProblem.f(GRID), "truth", "true f", "--")
        ax.set(xlabel="x", ylim=(-3.4, 4.4))
        ax.legend(frameon=False, fontsize=8, loc="upper right")
    return figure
