"""A fitted model as plain data: models, weighted hyperparameters, targets. Its posterior is a function of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from decond.learning import FitResult, HyperparameterSample, Model
from decond.regression import MixturePosterior, condition

__all__ = ["Ensemble", "Member", "averaged", "single"]


class Member(NamedTuple):
    """One set of hyperparameters: which model they belong to, their weight, and their weight in the mean."""

    model: int
    values: dict[str, Any]
    weight: float
    center: float


class Ensemble(NamedTuple):
    """Models of the same targets, each at one or several sets of hyperparameters."""

    models: tuple[Model, ...]
    members: tuple[Member, ...]
    z: np.ndarray

    def posterior(self) -> Any:
        """Return the posterior: that of the only member, or the weighted average of all."""
        parts = []
        for member in self.members:
            model = self.models[member.model].with_values(member.values)
            parts.append(condition(model.prior, model.observation, self.z))
        if len(parts) == 1:
            return parts[0]
        return MixturePosterior(parts, [m.weight for m in self.members], [m.center for m in self.members])

    def state(self) -> dict[str, Any]:
        """Return everything as plain dictionaries, lists, arrays and modules."""
        return {
            "models": [{"prior": model.prior, "observation": model.observation} for model in self.models],
            "members": [member._asdict() for member in self.members],
            "z": self.z,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Ensemble":
        """Return the ensemble that `state` describes."""
        models = tuple(Model(entry["prior"], entry["observation"]) for entry in state["models"])
        return cls(models, tuple(Member(**entry) for entry in state["members"]), state["z"])


def single(model: Model, z: np.ndarray) -> Ensemble:
    """Return an ensemble of one model as it is."""
    return Ensemble((model,), (Member(0, {}, 1.0, 1.0),), z)


def averaged(
    results: list[FitResult],
    samples: list[HyperparameterSample],
    z: np.ndarray,
    weights: Sequence[float] | np.ndarray,
) -> Ensemble:
    """Average models by their weights, and each over its hyperparameters.

    The mean is taken at the optimum of every model, the deviation over all hyperparameters.
    """
    members = []
    for i, (share, sample) in enumerate(zip(weights, samples, strict=True)):
        for s, (values, weight) in enumerate(zip(sample.values, sample.weights, strict=True)):
            members.append(Member(i, values, float(share * weight), float(share) if s == 0 else 0.0))
    return Ensemble(tuple(result.model for result in results), tuple(members), z)


def shares(results: list[FitResult], kinds: Sequence[int]) -> np.ndarray:
    """Return the weights of models: equal for each kind, and within a kind by their best objective."""
    best, kind = np.array([max(result.starts) for result in results]), np.asarray(kinds)
    weights = np.zeros(len(best))
    for one in np.unique(kind):
        own = kind == one
        weights[own] = np.exp(best[own] - best[own].max())
        weights[own] /= weights[own].sum()
    return weights / weights.sum()
