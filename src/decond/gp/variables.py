"""Which parameters are learned, and how they become one unconstrained vector."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from decond.errors import ArgumentError
from decond.gp.conditioning import log_evidence, log_evidence_and_gradient
from decond.gp.observations import Observation
from decond.gp.priors import Prior
from decond.parameters import Constraint, constraints, leaves, with_leaves

__all__ = ["Learnable", "LogNormal", "Model", "Variable", "select"]

WIDEST = 1e6
"""Positive parameters stay within this factor of their start, unless bounds are given."""

POINTS = ("observation.x", "observation.y")
"""Data that can be learned too: inducing points."""

DATA = (*POINTS, "observation.assignment")
"""Data that `Model.with_values` can replace beside the parameters."""


class Learnable(Protocol):
    """What learning needs of a model: its values by path, itself at other values, and its evidence with gradient.

    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior
    >>> model: Learnable = Model(FunctionPrior(RBF(1.0)), Direct([0.0, 1.0], noise=0.1))
    >>> model.with_values({"observation.noise": 0.2}).values()["observation.noise"]
    0.2
    """

    def values(self) -> dict[str, Any]:
        """Return all parameters by path."""

    def points(self) -> dict[str, Any]:
        """Return, by path, the data that can be learned as well: inducing points."""

    def constraints(self) -> dict[str, Constraint]:
        """Return the constraints of the parameters, by path."""

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """Return the model with the values at these paths replaced."""

    def log_evidence(self, z: Any) -> float:
        """Return the log evidence of targets z."""

    def log_evidence_and_gradient(self, z: Any, *, points: bool = True) -> tuple[float, dict[str, Any]]:
        """Return the log evidence of targets z and its gradient by path; that of points may be left out."""


class Model(NamedTuple):
    """A prior and an observation: what an evidence is a function of.

    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior
    >>> model = Model(FunctionPrior(RBF(1.0)), Direct([0.0, 1.0], noise=0.1))
    >>> model.values()
    {'prior.kernel.lengthscale': 1.0, 'prior.mean': 0.0, 'observation.noise': 0.1}
    >>> round(model.log_evidence([0.0, 0.0]), 4)
    -1.6242
    """

    prior: Prior
    observation: Observation

    def points(self) -> dict[str, Any]:
        """Return the points that can be learned as well."""
        found = {path: getattr(self.observation, path.split(".")[1], None) for path in POINTS}
        return {path: value for path, value in found.items() if value is not None}

    def constraints(self) -> dict[str, Constraint]:
        """Return the constraints of the parameters, by path."""
        return {**constraints(self.prior, "prior."), **constraints(self.observation, "observation.")}

    def log_evidence(self, z: Any) -> float:
        """Return log p(z̃)."""
        return log_evidence(self.prior, self.observation, z)

    def log_evidence_and_gradient(self, z: Any, *, points: bool = True) -> tuple[float, dict[str, Any]]:
        """Return log p(z̃) and its gradient by path."""
        return log_evidence_and_gradient(self.prior, self.observation, z, points=points)

    def values(self) -> dict[str, Any]:
        """Return all parameters by path."""
        return {**leaves(self.prior, "prior."), **leaves(self.observation, "observation.")}

    def with_values(self, values: Mapping[str, Any]) -> "Model":
        """Return the model with the values at these paths replaced; paths may name points and an assignment too."""
        scopes: dict[str, dict[str, Any]] = {"prior": {}, "observation": {}}
        data: dict[str, Any] = {}
        for path, value in values.items():
            scope, rest = path.split(".", 1)
            (data if path in DATA else scopes[scope])[rest] = value
        observation = with_leaves(self.observation, scopes["observation"])
        observation = observation.replace(**data) if data else observation
        return Model(with_leaves(self.prior, scopes["prior"]), observation)


class LogNormal(NamedTuple):
    """A prior on a positive hyperparameter: its logarithm is normal around log(`median`) with deviation `spread`.

    >>> log_density, slope = LogNormal(median=2.0).log_density_and_slope(np.log([2.0 * np.e]))
    >>> round(log_density, 6), slope.round(6)  # one deviation above the median
    (-0.5, array([-1.]))
    """

    median: Any
    spread: float = 1.0

    def log_density_and_slope(self, logarithm: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log density of the logarithm, up to a constant, and its derivative."""
        score = (logarithm - np.log(self.median)) / self.spread
        return -0.5 * float((score**2).sum()), -score / self.spread


class Variable(NamedTuple):
    """One piece of the vector: a parameter, or several that share one value.

    >>> variable = Variable(("noise",), np.array(0.1), True, np.array(1e-3), np.array(1.0))
    >>> variable.free(1.0), variable.natural(np.array([0.0]))
    (array([0.]), 1.0)
    """

    paths: tuple[str, ...]
    start: np.ndarray
    positive: bool
    lower: np.ndarray
    upper: np.ndarray
    hyperprior: LogNormal | None = None

    @property
    def name(self) -> str:
        """The paths, for messages."""
        return " = ".join(self.paths)

    def free(self, values: Any) -> np.ndarray:
        """Return natural values on the unconstrained scale: logarithms of positive parameters."""
        flat = np.asarray(values, dtype=np.float64).ravel()
        with np.errstate(divide="ignore"):
            return np.log(flat) if self.positive else flat

    def natural(self, free: np.ndarray) -> Any:
        """Return values in natural units, in the shape of the parameter."""
        values = np.exp(free) if self.positive else free.copy()
        return values.reshape(self.start.shape) if self.start.ndim else float(values[0])


def select(
    model: Learnable,
    free: Sequence[str] | None = None,
    tied: Sequence[Sequence[str]] = (),
    bounds: Mapping[str, tuple[Any, Any]] | None = None,
    hyperpriors: Mapping[str, LogNormal] | None = None,
) -> list[Variable]:
    """Return the variables of a learning problem: all parameters, or those in `free`; a group in `tied` shares one.

    A parameter that is exactly zero (an absent noise) stays as it is unless it is named.

    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior
    >>> model = Model(FunctionPrior(2.0 * RBF(1.0)), Direct([0.0, 1.0], noise=0.1))
    >>> [variable.name for variable in select(model)]
    ['prior.kernel.kernel.lengthscale', 'prior.kernel.variance', 'observation.noise']
    >>> [noise] = select(model, free=["observation.noise"], bounds={"observation.noise": (0.01, 1.0)})
    >>> float(noise.lower), float(noise.upper)
    (0.01, 1.0)
    """
    known, limits = model.values(), model.constraints()
    known.update({path: value for path, value in model.points().items() if free is not None and path in free})
    wanted = [path for path in known if np.any(known[path])] if free is None else list(free)
    _check_paths({*wanted, *(bounds or {}), *(hyperpriors or {}), *(p for tie in tied for p in tie)}, known)
    groups = [tuple(tie) for tie in tied]
    groups += [(path,) for path in wanted if not any(path in tie for tie in groups)]
    return [
        _variable(group, known, limits, dict(bounds or {}), dict(hyperpriors or {}))
        for group in groups
        if any(path in wanted for path in group)
    ]


def _variable(
    paths: tuple[str, ...],
    known: dict[str, Any],
    limits: dict[str, Any],
    bounds: dict[str, Any],
    priors: dict[str, Any],
) -> Variable:
    start = np.asarray(known[paths[0]], dtype=np.float64)
    positive = paths[0] in limits and limits[paths[0]].lower == 0.0
    given = next((bounds[path] for path in paths if path in bounds), None)
    if given is None:
        given = (start / WIDEST, start * WIDEST) if positive else (-np.inf, np.inf)
    lower, upper = (np.broadcast_to(np.asarray(end, dtype=np.float64), start.shape) for end in given)
    if np.any(lower > upper) or (positive and np.any(lower <= 0)):
        raise ArgumentError(
            f"bounds[{paths[0]!r}]",
            f"bounds of {paths[0]} are {given}; give (lower, upper) with lower < upper"
            f"{', both positive' if positive else ''}.",
        )
    prior = next((priors[path] for path in paths if path in priors), None)
    return Variable(paths, np.clip(start, lower, upper), positive, lower, upper, prior)


def _check_paths(paths: set[str], known: dict[str, Any]) -> None:
    unknown = sorted(paths - set(known))
    if unknown:
        raise KeyError(f"{unknown} are no parameters of this model; it has {sorted(known)}.")
