"""Figure 4: a table of 100 rows represented by five points, learned by the evidence (section 8.2)."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from decond import kernels
from decond.gp import FunctionPrior, Model, Posterior, TaskTransformed, condition, maximize_evidence, select
from decond.paper.figure3 import GRID
from decond.paper.published import figure_notes, save_numbers
from decond.plotting.display import plot_band, plot_line, plot_points
from decond.problems import LatentFunctionProblem

__all__ = ["Panel", "panels", "sparse_toy", "write"]


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


def write(folder: Path) -> tuple[list[Path], dict[str, Any]]:
    """Write ``figure4.png`` and ``figure4.json`` into a folder; return the files and the numbers."""
    answers = panels()
    numbers = {
        "figure": "sparse representation learning (section 8.2, Figure 4)",
        "answers": {name: panel.numbers() for name, panel in answers.items()},
        "slips_of_the_published_panels": figure_notes()["figure4"][1:],
    }
    return save_numbers(folder, "figure4", _draw(answers), numbers), numbers


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


def _draw(answers: dict[str, Panel]) -> Any:
    from matplotlib.figure import Figure

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
