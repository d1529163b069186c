"""Hyperparameters by maximal log evidence: L-BFGS-B from several starts, with a result that tells what happened."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.optimize import minimize

from decond.errors import ArgumentError
from decond.gp.variables import Learnable, Variable
from decond.linalg import JitterWarning, NotPositiveDefiniteError
from decond.messages import warn
from decond.notebook import card, number, table

__all__ = [
    "BoundWarning",
    "FitResult",
    "NoSignalWarning",
    "Objective",
    "constant_log_evidence",
    "maximize_evidence",
    "warn_if_constant",
    "warn_if_no_better",
]

MORE = "more restarts, or more iterations where max_iterations is offered"
"""What to try when a search has stopped early; whoever has other names for the two says it in those."""


class BoundWarning(UserWarning):
    """Learned parameters lie on the bounds of their allowed ranges.

    Attributes:
        parameters: Their paths, as in `FitResult.on_bounds`.
    """

    def __init__(self, message: str, *, parameters: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.parameters = parameters


class NoSignalWarning(UserWarning):
    """A search has found nothing that explains the targets better than a constant function does.

    Attributes:
        log_evidence: The log evidence that the search reached.
        constant: The largest log-likelihood of a constant with independent noise, in the same units of the targets.
    """

    def __init__(self, message: str, *, log_evidence: float = np.nan, constant: float = np.nan) -> None:
        super().__init__(message)
        self.log_evidence, self.constant = log_evidence, constant


@dataclass(frozen=True, repr=False)
class FitResult:
    """What learning found, and how it went.

    >>> from decond.kernels import RBF
    >>> from decond.gp import Model, select
    >>> from decond.gp import Direct, FunctionPrior
    >>> model = Model(FunctionPrior(RBF(1.0)), Direct([0.0, 1.0, 2.0], noise=1.0))
    >>> result = maximize_evidence(model, [3.0, 3.1, 3.0], select(model, free=["prior.mean"]), n_restarts=0)
    >>> result.status, result.on_bounds, round(result.parameters["prior.mean"], 2)
    ('converged', (), 3.02)
    """

    model: Any
    """The model at the best parameters."""
    parameters: dict[str, Any]
    """The learned parameters by path, in natural units."""
    log_evidence: float
    """log p(z̃) at the best parameters, without hyperpriors."""
    status: str
    """Either "converged" or "stopped" (before an optimum was reached)."""
    message: str
    """What happened, and what to do about it."""
    evaluations: int
    """How many evidences were computed, over all starts."""
    failures: int
    """How many of these could not be computed, because a matrix was not positive definite."""
    starts: tuple[float, ...]
    """The objective (log evidence plus log hyperprior) that each start ended at."""
    on_bounds: tuple[str, ...] = ()
    """Names of the parameters on the edge of their range."""
    history: tuple[float, ...] = ()
    """The objective at every evaluation of the best start."""
    optima: tuple[dict[str, Any], ...] = ()
    """The parameters that each start ended at, in the order of `starts`; not kept in files."""

    def state(self) -> dict[str, Any]:
        """Return everything but the model and the other optima as plain data, as a file holds it."""
        left_out = ("model", "optima")
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in left_out}

    @classmethod
    def from_state(cls, state: dict[str, Any], model: Any) -> "FitResult":
        """Return the result that `state` was taken from, with this model."""
        lists = {name: tuple(state[name]) for name in ("starts", "on_bounds", "history")}
        return cls(**{**state, **lists, "model": model})

    def __repr__(self) -> str:
        """Show how it went, the log evidence and the learned parameters."""
        learned = ", ".join(f"{path} = {number(value)}" for path, value in self.parameters.items())
        return f"FitResult({self.status}; log evidence {self.log_evidence:.6g}; {learned})"

    def _repr_html_(self) -> str:
        """Show what was learned as a table, for notebooks."""
        edges = {path for names in self.on_bounds for path in names.split(" = ")}
        rows = [
            [path, number(value), "on the edge of its range" if path in edges else ""]
            for path, value in self.parameters.items()
        ]
        said = f"{self.status}: {self.message} Log evidence {self.log_evidence:.6g}, {self.evaluations} evaluations."
        return card("FitResult", said, table(["learned", "value", ""], rows))


def maximize_evidence(
    model: Learnable,
    z: Any,
    variables: list[Variable],
    n_restarts: int = 4,
    seed: int = 0,
    max_iterations: int = 200,
    progress: Callable[[int, float], None] | None = None,
    quiet: Sequence[str] = (),
    also: Sequence[Mapping[str, Any]] = (),
) -> FitResult:
    """Learn the variables of a model from targets z.

    The first start is the model as given; `n_restarts` more are drawn around it (a factor of about e for positive
    parameters). `also` are further starts, as values by path: what they leave out is as in the model, and what is
    outside a range is moved to its end. The best optimum is returned. `progress` is called with the number of
    evaluations and the best objective so far. A parameter that ends on the edge of its range is warned of, unless
    its path is in `quiet`.

    >>> from decond.kernels import RBF
    >>> from decond.gp import Model, select
    >>> from decond.gp import Direct, FunctionPrior
    >>> x = np.linspace(0, 6, 40)
    >>> model = Model(FunctionPrior(RBF(1.0)), Direct(x, noise=1.0))
    >>> result = maximize_evidence(model, np.sin(x), select(model, free=["prior.kernel.lengthscale"]), n_restarts=0)
    >>> result.status
    'converged'
    """
    if n_restarts < 0:
        raise ArgumentError("n_restarts", f"n_restarts is {n_restarts}; it must be 0 (one start) or more.")
    objective = Objective(model, z, variables, progress)
    rng = np.random.default_rng(seed)
    start, *others = (objective.start_at(values) for values in ({}, *also))
    restarts = [start + rng.standard_normal(start.shape) for _ in range(n_restarts)]
    lower, upper = objective.bounds
    runs = []
    for attempt, begin in enumerate([start, *others, *restarts]):
        objective.begin()
        found = minimize(
            objective,
            np.clip(begin, lower, upper),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(lower, upper, strict=True)),
            options={"maxiter": max_iterations},
        )
        runs.append((objective.best_value, attempt, objective.best_vector, tuple(objective.history), found))
    value, _, vector, history, found = max(runs, key=lambda run: (run[0], -run[1]))
    if vector is None:
        raise NotPositiveDefiniteError(
            "the evidence could not be computed at any of the starting points, because a matrix was not positive "
            "definite. Start from a larger noise, and check the kernels and the scales of the columns."
        )
    result = _result(objective, value, vector, history, found, runs, (lower, upper))
    _warn_of_bounds([name for name in result.on_bounds if name not in quiet])
    return result


def warn_if_constant(log_evidence: float, z: np.ndarray) -> None:
    """Warn if a log evidence of targets z, (n,) or (n, t), is not better than that of a constant function.

    Both are log densities of the same z, so they can be compared only in the units of z and summed over its columns.
    The constant has a mean of each column and one noise, at their best: see `constant_log_evidence`. A model that
    learns its noise and the size of f includes the constant, so a search that finds anything is above it. It counts
    as better from one unit on: that is what one more parameter has to be worth (Akaike 1974), and what a difference
    of log evidences has to be to deserve more than a bare mention (Kass and Raftery 1995). Of a lower bound of the
    evidence too little may be known, and the warning can be a false alarm. Targets that are all equal are a constant,
    and nothing is to be found there.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_if_constant(-3.0, np.array([1.0, 2.0, 3.0]))  # that of their mean is -3.65
    ...     warn_if_constant(-2.0, np.array([1.0, 2.0, 3.0]))
    >>> [warning.category.__name__ for warning in caught]
    ['NoSignalWarning']
    """
    warn_if_no_better(log_evidence, constant_log_evidence(np.size(z), float(np.mean(np.var(z, axis=0)))))


def constant_log_evidence(count: int, variance: float) -> float:
    """Return max log N(z; mean, s²I) over mean and s², for so many values with this mean squared deviation.

    It is -n/2 (1 + log 2πs²) at s² = `variance`; of values that are all equal, infinite.

    >>> round(constant_log_evidence(3, 2 / 3), 2)
    -3.65
    """
    return float(-0.5 * count * (1.0 + np.log(2.0 * np.pi * variance))) if variance > 0.0 else np.inf


def warn_if_no_better(log_evidence: float, constant: float) -> None:
    """Warn if a log evidence is less than one unit above that of a constant, unless the constant is perfect."""
    if np.isfinite(constant) and log_evidence < constant + 1.0:
        warn(
            NoSignalWarning(
                "what was learned explains the targets no better than a constant does: its log evidence is "
                f"{log_evidence:.6g}, that of their mean with independent noise {constant:.6g}. Either the rows say "
                "nothing about the targets, or the search has not found what they say. Check the columns, leave out "
                "the kernel and the noise so that they come from the data, or give more restarts.",
                log_evidence=log_evidence,
                constant=constant,
            )
        )


class Objective:
    """The negative log evidence (with hyperpriors) as a function of the unconstrained vector."""

    def __init__(self, model: Learnable, z: Any, variables: list[Variable], progress: Any = None) -> None:
        self.model, self.z, self.variables, self.progress = model, z, variables, progress
        self.evaluations = self.failures = 0
        self.best_ever = -np.inf
        self.learns_points = any(path in model.points() for variable in variables for path in variable.paths)
        self.begin()

    def begin(self) -> None:
        """Forget the last start."""
        self.history: list[float] = []
        self.best_value = -np.inf
        self.best_vector: np.ndarray | None = None

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the negative objective and its gradient."""
        self.evaluations += 1
        try:
            value, gradient = self.evaluate(vector)
        except NotPositiveDefiniteError:
            return self._turn_back(vector)
        self.history.append(value)
        if value > self.best_value:
            self.best_value, self.best_vector = value, vector.copy()
        self.best_ever = max(self.best_ever, value)
        if self.progress is not None:
            self.progress(self.evaluations, self.best_ever)
        return -value, -gradient

    def evaluate(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log evidence plus log hyperprior, and the gradient with respect to the vector."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", JitterWarning)
            value, slopes = self.model_at(vector).log_evidence_and_gradient(self.z, points=self.learns_points)
        pieces = []
        for variable, piece in self._pieces(vector):
            slope = sum(np.ravel(slopes[path]) for path in variable.paths)
            if variable.positive:
                slope = slope * np.exp(piece)
            if variable.hyperprior is not None:
                log_density, extra = variable.hyperprior.log_density_and_slope(piece)
                value, slope = value + log_density, slope + extra
            pieces.append(slope)
        return value, np.concatenate(pieces)

    def model_at(self, vector: np.ndarray) -> Learnable:
        """Return the model at a vector."""
        return self.model.with_values(self.parameters_at(vector))

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of the vector."""
        ends = [(v.free(v.lower), v.free(v.upper)) for v in self.variables]
        return np.concatenate([low for low, _ in ends]), np.concatenate([high for _, high in ends])

    def start_at(self, values: Mapping[str, Any]) -> np.ndarray:
        """Return the vector of the start with some variables replaced; values of anything else do not matter."""
        chosen = [next((values[path] for path in v.paths if path in values), v.start) for v in self.variables]
        pairs = zip(self.variables, chosen, strict=True)
        return np.concatenate([v.free(np.broadcast_to(value, v.start.shape)) for v, value in pairs])

    def vector_of(self, parameters: Mapping[str, Any]) -> np.ndarray:
        """Return the vector of natural parameters by path."""
        return np.concatenate([v.free(parameters[v.paths[0]]) for v in self.variables])

    def value(self, vector: np.ndarray) -> float:
        """Return log evidence plus log hyperprior, without a gradient."""
        return self.model_at(vector).log_evidence(self.z) + self.log_hyperprior(vector)

    def log_hyperprior(self, vector: np.ndarray) -> float:
        """Return the log density of the hyperpriors."""
        return sum(
            variable.hyperprior.log_density_and_slope(piece)[0]
            for variable, piece in self._pieces(vector)
            if variable.hyperprior is not None
        )

    def parameters_at(self, vector: np.ndarray) -> dict[str, Any]:
        """Return natural parameters by path at a vector."""
        return {path: v.natural(piece) for v, piece in self._pieces(vector) for path in v.paths}

    def _pieces(self, vector: np.ndarray) -> list[tuple[Variable, np.ndarray]]:
        ends = np.cumsum([variable.start.size for variable in self.variables])
        return list(zip(self.variables, np.split(vector, ends[:-1]), strict=True))

    def _turn_back(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Answer where no evidence can be computed: a slope that leads back to the best point so far."""
        self.failures += 1
        if self.best_vector is None:
            return 1e12, np.zeros_like(vector)
        step = vector - self.best_vector
        return -self.best_value + 1e3 * (1.0 + float(step @ step)), 2e3 * step


def _result(
    objective: Objective, value: float, vector: np.ndarray, history: Any, found: Any, runs: Any, bounds: Any
) -> FitResult:
    parameters = objective.parameters_at(vector)
    model = objective.model_at(vector)
    hyper = objective.log_hyperprior(vector)
    edge = np.isclose(vector, bounds[0], atol=1e-6) | np.isclose(vector, bounds[1], atol=1e-6)
    on_bounds = tuple(v.name for v, piece in objective._pieces(edge) if piece.any())
    status, message = _verdict(found, objective, on_bounds)
    optima = tuple(objective.parameters_at(run[2]) for run in runs if run[2] is not None)
    starts = tuple(run[0] for run in runs if run[2] is not None)
    return FitResult(
        model, parameters, value - hyper, status, message, objective.evaluations, objective.failures, starts,
        on_bounds, history, optima,
    )  # fmt: skip


def _warn_of_bounds(names: list[str]) -> None:
    if names:
        warn(
            BoundWarning(
                f"the learned {', '.join(names)} sit(s) on the edge of the allowed range: the data say little about "
                "it. Leave out a column that tells nothing, or choose the value yourself: a kernel that you give is "
                "used as it is with optimize=False. Ranges of your own go into gp.select(..., bounds=...).",
                parameters=tuple(names),
            )
        )


def _verdict(found: Any, objective: Objective, on_bounds: tuple[str, ...]) -> tuple[str, str]:
    note = f" {objective.failures} evaluation(s) failed and were avoided." if objective.failures else ""
    if found.success:
        where = " on the edge of the allowed range" if on_bounds else ""
        return "converged", f"an optimum was found{where}.{note}"
    if found.status == 1:
        kept = "the iterations ran out before an optimum was reached; the best point so far was kept."
        return "stopped", f"{kept} Try {MORE}.{note}"
    return "stopped", f"the line search ended early ({found.message}); the best point so far was kept.{note}"
