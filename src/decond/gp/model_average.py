"""Uncertain hyperparameters and rival models: what a fitted Gaussian-process estimator keeps, as plain data.

`sample_hyperparameters` returns a few weighted points around every mode that a search has found. A candidate is one
model of the targets at one or several sets of hyperparameters. Where several candidates remain
after the user has stated the facts, their weights maximize the leave-one-out predictive density of the targets
(Yao, Vehtari, Simpson & Gelman 2018, doi:10.1214/17-BA1091).
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtri

from decond.checks import as_weights
from decond.gp.conditioning import condition
from decond.gp.posteriors import LeftOut, MixturePosterior, Posterior
from decond.gp.search import FitResult, Model, Objective, Variable
from decond.linalg import NotPositiveDefiniteError

__all__ = [
    "Candidate",
    "HyperparameterSample",
    "LaplaceSettings",
    "ModelAverage",
    "sample_hyperparameters",
    "stacking_weights",
]


@dataclass(frozen=True)
class LaplaceSettings:
    """Settings of `sample_hyperparameters`.

    >>> LaplaceSettings(points=32).points
    32
    """

    points: int = 16
    """Points around each mode, a power of two as Sobol sequences ask."""
    entries: int = 10**8
    """Entries of the matrices that posteriors at all points hold (0.8 GB): of more than 2,500 targets there are fewer
    points. So many targets leave the hyperparameters less open."""
    step: float = 1e-4
    """Step of the central differences of the gradient, on the unconstrained scale."""
    least_curvature: float = 1.0
    """Curvatures below this are taken as this: no proposal is wider than a factor of e."""
    negligible: float = 1e-3
    """Points and modes with less than this share of the weight are dropped."""

    def affordable(self, side: int) -> "LaplaceSettings":
        """Return the settings for posteriors that hold a matrix of this side.

        >>> [LaplaceSettings().affordable(side).points for side in (100, 3000, 20_000)]
        [16, 8, 0]
        """
        points = self.entries // max(1, side**2)
        return replace(self, points=min(self.points, 2 ** (points.bit_length() - 1)) if points else 0)


class HyperparameterSample(NamedTuple):
    """Values of the hyperparameters by path, each with a weight.

    >>> sample = HyperparameterSample(({"noise": 0.1}, {"noise": 0.2}), np.array([0.75, 0.25]))
    >>> float(sum(weight * values["noise"] for values, weight in zip(*sample)))
    0.125
    """

    values: tuple[dict[str, Any], ...]
    weights: np.ndarray


class _Mode(NamedTuple):
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


def _modes(objective: Objective, result: FitResult, settings: LaplaceSettings) -> list[_Mode]:
    """Return the distinct modes, the best first, without those whose mass must be negligible.

    An optimum less than one standard deviation from a better one counts as the same. The mass of a mode is at most
    that of one with the least curvature, which spares the Hessian of most that do not matter.
    """
    ends = sorted(zip(result.starts, result.optima, strict=True), key=lambda end: -end[0])
    modes: list[_Mode] = []
    for value, parameters in ends or [(0.0, result.parameters)]:
        vector = objective.vector_of(parameters)
        widest = 0.5 * len(vector) * np.log(2.0 * np.pi / settings.least_curvature)
        if modes and value + widest < modes[0].log_mass + np.log(settings.negligible):
            break
        if all(mode.squared_distance(vector)[0] > 1.0 for mode in modes):
            modes.append(_mode(objective, vector, settings))
    return [mode for mode in modes if mode.log_mass >= modes[0].log_mass + np.log(settings.negligible)]


def _mode(objective: Objective, vector: np.ndarray, settings: LaplaceSettings) -> _Mode:
    """Return the mode at an optimum, its Hessian from central differences of the gradient."""
    hessian = np.zeros((len(vector), len(vector)))
    for i, step in enumerate(settings.step * np.eye(len(vector))):
        with contextlib.suppress(NotPositiveDefiniteError):  # then the curvature is the least one
            ahead, behind = (objective.evaluate(vector + sign * step)[1] for sign in (1.0, -1.0))
            hessian[i] = (behind - ahead) / (2.0 * settings.step)
    curvatures, axes = np.linalg.eigh(0.5 * (hessian + hessian.T))
    return _Mode(vector, _value(objective, vector), np.maximum(curvatures, settings.least_curvature), axes)


def _value(objective: Objective, vector: np.ndarray) -> float:
    try:
        return objective.value(vector)
    except NotPositiveDefiniteError:
        return -np.inf


def stacking_weights(log_densities: np.ndarray, draws: int = 4096) -> np.ndarray:
    """Return stacking weights from log densities of held-out targets.

    Stacking maximizes Σ_j log Σ_k w_k p_k(z_j), which with few targets puts all weight on one of several candidates
    that are about as good. These are posterior means of the weights instead, with that sum as the log-likelihood and
    a uniform prior on the simplex (Yao, Pirš, Vehtari & Gelman 2022, doi:10.1214/21-BA1287), from draws of the prior.

    Parameters
    ----------
    log_densities : ndarray of shape (k, m)
        Of each held-out target under each candidate.
    draws : int
        Draws of the prior.

    Returns
    -------
    ndarray of shape (k,)

    Examples
    --------
    >>> stacking_weights(np.log([[0.9, 0.8, 0.9], [0.1, 0.1, 0.1]])).round(1)
    array([0.8, 0.2])
    >>> stacking_weights(np.zeros((2, 50))).round(2)
    array([0.5, 0.5])
    """
    densities = np.exp(log_densities - log_densities.max(axis=0))
    weights = np.random.default_rng(0).dirichlet(np.ones(len(densities)), draws)
    weights = np.vstack([weights, np.eye(len(densities))])  # one candidate may be all that counts
    with np.errstate(divide="ignore"):
        logs = np.log(weights @ densities).sum(axis=1)
    importance = np.exp(logs - logs.max())
    return importance @ weights / importance.sum()


class Candidate(NamedTuple):
    """One model at weighted sets of hyperparameters; `left_out` is there where its posterior cannot give it.

    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior
    >>> model = Model(FunctionPrior(RBF(1.0)), Direct([0.0, 1.0], noise=0.1))
    >>> noises = ({"observation.noise": 0.1}, {"observation.noise": 0.3})
    >>> Candidate("direct", model, noises, np.array([0.2, 0.8])).medians()
    {'observation.noise': 0.3}
    """

    name: str
    model: Model
    values: tuple[dict[str, Any], ...]
    weights: np.ndarray
    left_out: LeftOut | None = None

    @classmethod
    def of(cls, name: str, model: Model, sample: HyperparameterSample) -> "Candidate":
        """Return a candidate from a sample of its hyperparameters.

        Parameters
        ----------
        name : str
            What tables call it.
        model : Model
            The model.
        sample : HyperparameterSample
            Values with weights.
        """
        return cls(name, model, sample.values, sample.weights)

    def medians(self) -> dict[str, Any]:
        """Return the weighted median of every hyperparameter, by path; data such as an assignment are left out."""
        known = self.model.values()
        return {
            path: _median([v[path] for v in self.values], self.weights) for path in self.values[0] if path in known
        }

    def parts(self, z: np.ndarray) -> Iterator[Any]:
        """Yield the posterior of f at each set of hyperparameters: each is as large as the covariance of z."""
        for values in self.values:
            model = self.model.with_values(values)
            yield condition(model.prior, model.observation, z)

    def predicted(self, parts: Iterable[Any], z: np.ndarray) -> LeftOut:
        """Return every target predicted from the others.

        Parameters
        ----------
        parts : iterable of Posterior
            The posteriors that `parts` yields.
        z : ndarray of shape (m,) or (m, t)
            The centered targets.
        """
        return self.left_out or _left_out(parts, self.weights, z)


class ModelAverage(NamedTuple):
    """Candidates with their weights, and the targets they explain.

    Attributes
    ----------
    candidates : tuple of Candidate
        The models that have a weight.
    weights : ndarray of shape (k,)
        Their weights, which sum to one.
    z : ndarray
        The centered targets.
    dropped : dict
        Stacking weights of the candidates that were dropped, by name.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior
    >>> model = Model(FunctionPrior(RBF(1.0)), Direct([0.0, 1.0], noise=0.1))
    >>> ModelAverage.single(model, np.array([1.0, 2.0])).posterior().mean([[0.0]]).round(2)
    array([1.])
    """

    candidates: tuple[Candidate, ...]
    weights: np.ndarray
    z: np.ndarray
    dropped: Mapping[str, float] = {}

    @classmethod
    def single(cls, model: Model, z: np.ndarray, name: str = "model as given") -> "ModelAverage":
        """Return one model as it is.

        Parameters
        ----------
        model : Model
            The model.
        z : ndarray of shape (m,) or (m, t)
            The centered targets.
        name : str
            What tables call it.
        """
        return cls((Candidate(name, model, ({},), np.ones(1)),), np.ones(1), z)

    @classmethod
    def stacked(cls, candidates: Sequence[Candidate], z: np.ndarray, threshold: float = 0.01) -> "ModelAverage":
        """Average candidates by stacking.

        Parameters
        ----------
        candidates : sequence of Candidate
            The models.
        z : ndarray of shape (m,) or (m, t)
            The centered targets.
        threshold : float
            Candidates with a smaller weight are dropped.
        """
        if len(candidates) == 1:
            return cls(tuple(candidates), np.ones(1), z)
        densities = [candidate.predicted(candidate.parts(z), z).log_density for candidate in candidates]
        weights = stacking_weights(np.array(densities))
        kept = [int(k) for k in np.flatnonzero(weights >= threshold)]
        dropped = {c.name: float(weights[k]) for k, c in enumerate(candidates) if k not in kept}
        return cls(tuple(candidates[k] for k in kept), weights[kept] / weights[kept].sum(), z, dropped)

    def posterior(self) -> Any:
        """Return the posterior: that of the only part, or the weighted average of all."""
        parts = [part for candidate in self.candidates for part in candidate.parts(self.z)]
        weights = [w * c.weights for w, c in zip(self.weights, self.candidates, strict=True)]
        return parts[0] if len(parts) == 1 else MixturePosterior(parts, np.concatenate(weights))

    def leave_one_out(self, posterior: Posterior | MixturePosterior) -> LeftOut:
        """Return every target predicted from the others, from the posterior of this average."""
        parts, found, start = getattr(posterior, "parts", [posterior]), [], 0
        for candidate in self.candidates:
            found.append(candidate.predicted(parts[start : start + len(candidate.values)], self.z))
            start += len(candidate.values)
        return LeftOut.mixture(found, self.weights)

    @property
    def best(self) -> Model:
        """The heaviest model at its best hyperparameters or, where these were sampled, at their medians."""
        candidate = self.candidates[int(np.argmax(self.weights))]
        sampled = candidate.left_out is not None
        return candidate.model.with_values(candidate.medians() if sampled else candidate.values[0])

    def median(self, path: str) -> float:
        """Return the weighted median of a scalar hyperparameter, by path; of the noise in units of the targets."""
        values, weights = [], []
        for own, candidate in zip(self.weights, self.candidates, strict=True):
            unit = candidate.model.observation.noise_unit if path == "observation.noise" else 1.0
            fixed = candidate.model.values()[path]
            values += [unit * float(part.get(path, fixed)) for part in candidate.values]
            weights += [own * weight for weight in candidate.weights]
        return float(_median(values, np.array(weights)))

    def table(self) -> list[tuple[str, float]]:
        """Return the names of all candidates with their stacking weights, the heaviest first."""
        kept = {c.name: float(w) for c, w in zip(self.candidates, self.weights, strict=True)}
        return sorted({**self.dropped, **kept}.items(), key=lambda entry: -entry[1])

    def state(self) -> dict[str, Any]:
        """Return everything as plain dictionaries, lists, arrays and modules."""
        entries = []
        for candidate in self.candidates:
            left_out = None if candidate.left_out is None else candidate.left_out._asdict()
            entries.append(
                {
                    "name": candidate.name,
                    "prior": candidate.model.prior,
                    "observation": candidate.model.observation,
                    "values": [dict(values) for values in candidate.values],
                    "weights": candidate.weights,
                    "left_out": left_out,
                }
            )
        return {"candidates": entries, "weights": self.weights, "z": self.z, "dropped": dict(self.dropped)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "ModelAverage":
        """Return the average that `state` describes."""
        candidates = []
        for entry in state["candidates"]:
            left_out = None if entry["left_out"] is None else LeftOut(**entry["left_out"])
            model = Model(entry["prior"], entry["observation"])
            model.observation.checked(model.prior, state["z"])
            as_weights(entry["weights"], "weights", len(entry["values"]), "values")
            candidates.append(Candidate(entry["name"], model, tuple(entry["values"]), entry["weights"], left_out))
        return cls(tuple(candidates), state["weights"], state["z"], state["dropped"])


def _median(values: Sequence[Any], weights: np.ndarray) -> Any:
    """Return the weighted median of numbers, or of arrays entry by entry."""
    table = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    found = []
    for column in table.T:
        order = np.argsort(column)
        cumulative = np.cumsum(weights[order])
        found.append(column[order][np.searchsorted(cumulative, 0.5 * cumulative[-1])])
    return float(found[0]) if np.ndim(values[0]) == 0 else np.array(found).reshape(np.shape(values[0]))


def _left_out(parts: Iterable[Any], weights: np.ndarray, z: np.ndarray) -> LeftOut:
    """Return every target predicted from the others, of a mixture of Gaussian posteriors.

    The weights of the parts are those given all targets. With several target columns log densities are summed.
    """
    views = [part.leave_one_out() for part in parts]
    found = []
    for mean, variance in views:
        spread = np.broadcast_to(variance[:, None], mean.shape) if mean.ndim == 2 else variance
        logs = -0.5 * ((z - mean) ** 2 / spread + np.log(2.0 * np.pi * spread))
        found.append(LeftOut(mean, spread, logs.sum(axis=1) if logs.ndim == 2 else logs))
    return LeftOut.mixture(found, weights)
