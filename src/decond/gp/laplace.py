"""The posterior of hyperparameters: a few weighted points around every mode that a search has found."""

import contextlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtri

from decond.gp.search import FitResult, Objective, Variable
from decond.linalg import NotPositiveDefiniteError

__all__ = ["HyperparameterSample", "LaplaceSettings", "sample_hyperparameters"]


@dataclass(frozen=True)
class LaplaceSettings:
    """Settings of `sample_hyperparameters`.

    >>> LaplaceSettings(points=32).points
    32
    """

    points: int = 16
    """Points around each mode, a power of two as Sobol sequences ask."""
    step: float = 1e-4
    """Step of the central differences of the gradient, on the unconstrained scale."""
    least_curvature: float = 1.0
    """Curvatures below this are taken as this: no proposal is wider than a factor of e."""
    negligible: float = 1e-3
    """Points and modes with less than this share of the weight are dropped."""


class HyperparameterSample(NamedTuple):
    """Values of the hyperparameters by path, each with a weight.

    >>> sample = HyperparameterSample(({"noise": 0.1}, {"noise": 0.2}), np.array([0.75, 0.25]))
    >>> float(sum(weight * values["noise"] for values, weight in zip(*sample)))
    0.125
    """

    values: tuple[dict[str, Any], ...]
    weights: np.ndarray


class Mode(NamedTuple):
    """An optimum of the objective, with the Gaussian of Laplace's approximation around it."""

    vector: np.ndarray
    objective: float
    curvatures: np.ndarray
    axes: np.ndarray

    @property
    def log_mass(self) -> float:
        """The log of the integral of exp(objective) around the mode, by Laplace's approximation."""
        return self.objective + 0.5 * float(np.sum(np.log(2.0 * np.pi / self.curvatures)))

    def squared_distance(self, vectors: np.ndarray) -> np.ndarray:
        """Return (θ - θ̂)ᵀH(θ - θ̂) for rows θ."""
        return np.square((np.atleast_2d(vectors) - self.vector) @ self.axes) @ self.curvatures

    def log_density(self, vectors: np.ndarray) -> np.ndarray:
        """Return log N(θ; θ̂, H⁻¹) for rows θ."""
        return self.objective - self.log_mass - 0.5 * self.squared_distance(vectors)


def sample_hyperparameters(
    result: FitResult, z: Any, variables: list[Variable], seed: int = 0, settings: LaplaceSettings | None = None
) -> HyperparameterSample:
    """Return points that stand for the posterior of the hyperparameters, over all modes that the restarts found.

    Each mode θ̂_k proposes itself and points of a Sobol sequence through N(θ̂_k, H_k⁻¹), H_k the Hessian of the
    negative objective. All points are weighted by exp(objective) over the density of the mixture of proposals, the
    balance heuristic of multiple importance sampling, so that a mode counts by its mass and not by its height.

    Parameters
    ----------
    result : FitResult
        What `maximize_evidence` found.
    z : array_like
        The targets.
    variables : list of Variable
        The variables that were learned.
    seed : int
        Seed of the Sobol sequence.
    settings : LaplaceSettings, optional
        Numbers of points and thresholds.

    Returns
    -------
    HyperparameterSample
        Values by path, the best first, and weights that sum to one.

    References
    ----------
    Veach & Guibas (1995), Optimally combining sampling techniques for Monte Carlo rendering,
    doi:10.1145/218380.218498.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> from decond.gp import Model, maximize_evidence, select
    >>> from decond.gp import Direct, FunctionPrior
    >>> x = np.linspace(0, 6, 20)
    >>> z = np.sin(x) + 0.1 * np.random.default_rng(0).standard_normal(20)
    >>> model = Model(FunctionPrior(RBF(1.0)), Direct(x, noise=0.1))
    >>> variables = select(model, free=["prior.kernel.lengthscale"])
    >>> result = maximize_evidence(model, z, variables, n_restarts=0)
    >>> sample = sample_hyperparameters(result, z, variables)
    >>> lengthscales = [values["prior.kernel.lengthscale"] for values in sample.values]
    >>> bool(min(lengthscales) < lengthscales[0] < max(lengthscales)), round(float(sample.weights.sum()), 6)
    (True, 1.0)
    """
    settings = settings or LaplaceSettings()
    objective = Objective(result.model, z, variables)
    modes = _modes(objective, result, settings)
    size = len(modes[0].vector)
    from scipy.stats import qmc  # takes a second to import, and those who only simulate do without it

    normal = ndtri(qmc.Sobol(size, seed=seed).random(settings.points)) if settings.points else np.zeros((0, size))
    spread = np.vstack([np.zeros(size), normal])
    vectors = np.vstack([mode.vector + (spread / np.sqrt(mode.curvatures)) @ mode.axes.T for mode in modes])
    lower, upper = objective.bounds
    inside = np.all((vectors >= lower) & (vectors <= upper), axis=1)
    inside[:: len(spread)] = True  # the modes, which may lie on a bound
    logs = np.array([_value(objective, v) if is_in else -np.inf for v, is_in in zip(vectors, inside, strict=True)])
    logs -= logsumexp([mode.log_density(vectors) for mode in modes], axis=0)
    weights = np.exp(logs - logs.max())
    kept = weights >= settings.negligible * weights.sum()
    kept[0] = True
    values = tuple(objective.parameters_at(vector) for vector in vectors[kept])
    return HyperparameterSample(values, weights[kept] / weights[kept].sum())


def _modes(objective: Objective, result: FitResult, settings: LaplaceSettings) -> list[Mode]:
    """Return the distinct modes, the best first, without those whose mass must be negligible.

    An optimum less than one standard deviation from a better one counts as the same. The mass of a mode is at most
    that of one with the least curvature, which spares the Hessian of most that do not matter.
    """
    ends = sorted(zip(result.starts, result.optima, strict=True), key=lambda end: -end[0])
    modes: list[Mode] = []
    for value, parameters in ends or [(0.0, result.parameters)]:
        vector = objective.vector_of(parameters)
        widest = 0.5 * len(vector) * np.log(2.0 * np.pi / settings.least_curvature)
        if modes and value + widest < modes[0].log_mass + np.log(settings.negligible):
            break
        if all(mode.squared_distance(vector)[0] > 1.0 for mode in modes):
            modes.append(_mode(objective, vector, settings))
    return [mode for mode in modes if mode.log_mass >= modes[0].log_mass + np.log(settings.negligible)]


def _mode(objective: Objective, vector: np.ndarray, settings: LaplaceSettings) -> Mode:
    """Return the mode at an optimum, its Hessian from central differences of the gradient."""
    hessian = np.zeros((len(vector), len(vector)))
    for i, step in enumerate(settings.step * np.eye(len(vector))):
        with contextlib.suppress(NotPositiveDefiniteError):  # then the curvature is the least one
            ahead, behind = (objective.evaluate(vector + sign * step)[1] for sign in (1.0, -1.0))
            hessian[i] = (behind - ahead) / (2.0 * settings.step)
    curvatures, axes = np.linalg.eigh(0.5 * (hessian + hessian.T))
    return Mode(vector, _value(objective, vector), np.maximum(curvatures, settings.least_curvature), axes)


def _value(objective: Objective, vector: np.ndarray) -> float:
    try:
        return objective.value(vector)
    except NotPositiveDefiniteError:
        return -np.inf
