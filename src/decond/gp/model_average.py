"""Candidate models averaged by stacking: what a fitted Gaussian-process estimator keeps, as plain data.

A candidate is one model of the targets at one or several sets of hyperparameters. Where several candidates remain
after the user has stated the facts, their weights maximize the leave-one-out predictive density of the targets
(Yao, Vehtari, Simpson & Gelman 2018, doi:10.1214/17-BA1091).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from decond.gp.conditioning import condition
from decond.gp.laplace import HyperparameterSample
from decond.gp.latent_input import LeftOut
from decond.gp.mixture import MixturePosterior
from decond.gp.variables import Model

__all__ = ["Candidate", "ModelAverage", "stacking_weights"]


def stacking_weights(log_densities: np.ndarray, draws: int = 4096) -> np.ndarray:
    """Return stacking weights from log densities of held-out targets, of shape (candidates, targets).

    Stacking maximizes Σ_j log Σ_k w_k p_k(z_j), which with few targets puts all weight on one of several candidates
    that are about as good. These are posterior means of the weights instead, with that sum as the log-likelihood and
    a uniform prior on the simplex (Yao, Pirš, Vehtari & Gelman 2022, doi:10.1214/21-BA1287), from draws of the prior.

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
        """Return a candidate from a sample of its hyperparameters."""
        return cls(name, model, sample.values, sample.weights)

    def medians(self) -> dict[str, Any]:
        """Return the weighted median of every hyperparameter, by path; data such as an assignment are left out."""
        known = self.model.values()
        return {
            path: _median([v[path] for v in self.values], self.weights) for path in self.values[0] if path in known
        }

    def parts(self, z: np.ndarray) -> list[Any]:
        """Return the posterior of f at each set of hyperparameters."""
        models = (self.model.with_values(values) for values in self.values)
        return [condition(model.prior, model.observation, z) for model in models]

    def predicted(self, parts: Sequence[Any], z: np.ndarray) -> LeftOut:
        """Return every target predicted from the others, given the posteriors of the parts."""
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
        """Return one model as it is."""
        return cls((Candidate(name, model, ({},), np.ones(1)),), np.ones(1), z)

    @classmethod
    def stacked(cls, candidates: Sequence[Candidate], z: np.ndarray, threshold: float = 0.01) -> "ModelAverage":
        """Average candidates by stacking; those with a weight below the threshold are dropped."""
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

    def leave_one_out(self, posterior: Any) -> LeftOut:
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
        for share, candidate in zip(self.weights, self.candidates, strict=True):
            unit = candidate.model.observation.noise_unit if path == "observation.noise" else 1.0
            fixed = candidate.model.values()[path]
            values += [unit * float(part.get(path, fixed)) for part in candidate.values]
            weights += [share * weight for weight in candidate.weights]
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


def _left_out(parts: Sequence[Any], weights: np.ndarray, z: np.ndarray) -> LeftOut:
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
