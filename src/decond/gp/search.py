"""Hyperparameters by maximal log evidence: which are learned, and L-BFGS-B from several starts."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import OptimizeResult, minimize

from decond.errors import ArgumentError
from decond.gp.observations import Observation
from decond.gp.priors import Prior
from decond.linalg import JitterWarning, NotPositiveDefiniteError
from decond.messages import number, warn
from decond.parameters import Constraint, constraints, leaves, with_leaves

__all__ = [
    "BoundWarning",
    "FitResult",
    "Learnable",
    "LogNormal",
    "Model",
    "NoSignalWarning",
    "Objective",
    "Variable",
    "constant_log_evidence",
    "maximize_evidence",
    "select",
    "warn_if_constant",
    "warn_if_no_better",
    "warn_of_bounds",
]

Array = NDArray[np.float64]

Progress = Callable[[int, float], object]
"""What a search calls with the number of evaluations and the best objective so far."""

MORE = "more restarts, or more iterations where max_iterations is offered"
"""What to try when a search has stopped early; whoever has other names for the two says it in those."""


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
        """Return the log evidence and its gradient by path.

        Parameters
        ----------
        z : array_like
            Targets.
        points : bool
            Whether the gradient has that of `points` too.
        """


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
        names = [name for name in ("x", "y") if hasattr(self.observation, name)]
        return {f"observation.{name}": getattr(self.observation, name) for name in names}

    def constraints(self) -> dict[str, Constraint]:
        """Return the constraints of the parameters, by path."""
        return {**constraints(self.prior, "prior."), **constraints(self.observation, "observation.")}

    def log_evidence(self, z: Any) -> float:
        """Return log p(z̃)."""
        return self.observation.log_evidence(self.prior, z)

    def log_evidence_and_gradient(self, z: Any, *, points: bool = True) -> tuple[float, dict[str, Any]]:
        """Return log p(z̃) and its gradient by path.

        Parameters
        ----------
        z : array_like of shape (m,) or (m, t)
            Targets.
        points : bool
            Whether the gradient has that of the points too.
        """
        return self.observation.log_evidence_and_gradient(self.prior, z, points=points)

    def values(self) -> dict[str, Any]:
        """Return all parameters by path."""
        return {**leaves(self.prior, "prior."), **leaves(self.observation, "observation.")}

    def with_values(self, values: Mapping[str, Any]) -> "Model":
        """Return the model with the values at these paths replaced; paths may name data of the observation too."""
        scopes: dict[str, dict[str, Any]] = {"prior": {}, "observation": {}}
        for path, value in values.items():
            scope, rest = path.split(".", 1)
            scopes[scope][rest] = value
        known = leaves(self.observation)
        names = {field.name for field in fields(self.observation)} - set(known)
        data = {name: scopes["observation"].pop(name) for name in names & set(scopes["observation"])}
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

    def log_density_and_slope(self, logarithm: Array) -> tuple[float, Array]:
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
    start: Array
    positive: bool
    lower: Array
    upper: Array
    hyperprior: LogNormal | None = None

    @property
    def name(self) -> str:
        """The paths, for messages."""
        return " = ".join(self.paths)

    def free(self, values: ArrayLike) -> Array:
        """Return natural values on the unconstrained scale: logarithms of positive parameters."""
        flat = np.asarray(values, dtype=np.float64).ravel()
        with np.errstate(divide="ignore"):
            return np.log(flat) if self.positive else flat

    def natural(self, free: Array) -> Any:
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
    """Return the variables of a learning problem.

    A parameter that is exactly zero (an absent noise) stays as it is unless it is named.

    Parameters
    ----------
    model : Learnable
        The model.
    free : sequence of str, optional
        Paths of what is learned; None is every parameter.
    tied : sequence of sequence of str
        Groups of paths that share one value.
    bounds : mapping of str to (lower, upper), optional
        Ranges by path. Positive parameters without one stay within a factor of 10⁶ of their start.
    hyperpriors : mapping of str to LogNormal, optional
        Priors by path.

    Returns
    -------
    list of Variable

    Examples
    --------
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
        given = (start * 1e-6, start * 1e6) if positive else (-np.inf, np.inf)
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
        raise KeyError(f"{unknown} are not parameters of this model; it has {sorted(known)}.")


class BoundWarning(UserWarning):
    """Learned parameters lie on the bounds of their allowed ranges.

    Attributes
    ----------
    parameters : tuple of str
        Their paths, as in `FitResult.on_bounds`.
    """

    def __init__(self, message: str, *, parameters: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.parameters = parameters


class NoSignalWarning(UserWarning):
    """A search has found nothing that explains the targets better than a constant function does.

    Attributes
    ----------
    log_evidence : float
        The log evidence that the search reached.
    constant : float
        The largest log-likelihood of a constant with independent noise, in the same units of the targets.
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
    """log p(z̃) at the best parameters, without hyperpriors; of a "sampled" fit that of held-out targets."""
    status: str
    """One of "converged", "stopped" (before an optimum was reached) and "sampled" (draws in place of a search)."""
    message: str
    """What happened, and what to do about it."""
    evaluations: int
    """How many evidences were computed, over all starts; of a "sampled" fit, sweeps of the sampler."""
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
    def from_state(cls, state: dict[str, Any], model: Learnable) -> "FitResult":
        """Return the result that a state was taken from.

        Parameters
        ----------
        state : dict
            As `state` returned it.
        model : Model
            The model at the best parameters.
        """
        lists = {name: tuple(state[name]) for name in ("starts", "on_bounds", "history")}
        return cls(**{**state, **lists, "model": model})

    def __repr__(self) -> str:
        """Show how it went, the log evidence and the learned parameters."""
        learned = ", ".join(f"{path} = {number(value)}" for path, value in self.parameters.items())
        return f"FitResult({self.status}; log evidence {self.log_evidence:.6g}; {learned})"


def maximize_evidence(
    model: Learnable,
    z: Any,
    variables: list[Variable],
    n_restarts: int = 4,
    seed: int = 0,
    max_iterations: int = 200,
    progress: Progress | None = None,
    quiet: Sequence[str] = (),
    also: Sequence[Mapping[str, Any]] = (),
    watch: Callable[[Any, float], None] | None = None,
) -> FitResult:
    """Learn the variables of a model from targets by maximal log evidence; the best optimum is returned.

    Parameters
    ----------
    model : Learnable
        The model, which is the first start.
    z : array_like
        Targets.
    variables : list of Variable
        What is learned, see `select`.
    n_restarts : int
        Further starts, drawn around the model (a factor of about e for positive parameters).
    seed : int
        Seed of these starts.
    max_iterations : int
        Iterations of each search.
    progress : callable, optional
        Called with the number of evaluations and the best objective so far.
    quiet : sequence of str
        Paths of which no warning says that they end on the edge of their range.
    also : sequence of mapping of str to value
        Further starts by path: what they leave out is as in the model, and what is outside a range is moved to its
        end.
    watch : callable, optional
        Called with the model and the best objective after every iteration; a search ends where it raises
        `StopIteration`.

    Returns
    -------
    FitResult

    Examples
    --------
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
    runs: list[_Run] = []
    for begin in [start, *others, *restarts]:
        objective.begin()
        found = minimize(
            objective,
            np.clip(begin, lower, upper),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(lower, upper, strict=True)),
            options={"maxiter": max_iterations},
            callback=None
            if watch is None
            else lambda vector: watch(objective.model_at(vector), objective.best_value),
        )
        if objective.best_vector is not None:
            history = tuple(objective.history)
            runs.append(_Run(objective.best_value, objective.best_vector, history, found))
    if not runs:
        raise NotPositiveDefiniteError(
            "the evidence could not be computed at any of the starting points, because a matrix was not positive "
            "definite. Start from a larger noise, and check the kernels and the scales of the columns."
        )
    result = objective.result(runs)
    warn_of_bounds([name for name in result.on_bounds if name not in quiet])
    return result


class _Run(NamedTuple):
    """The best point of the search from one start."""

    value: float
    vector: Array
    history: tuple[float, ...]
    found: Any


def warn_if_constant(log_evidence: float, z: Array) -> None:
    """Warn if a log evidence is not better than that of a constant function.

    Both are log densities of the same z, so they can be compared only in the units of z and summed over its columns.
    The constant has a mean of each column and one noise, at their best: see `constant_log_evidence`. A model that
    learns its noise and the size of f includes the constant, so a search that finds anything is above it. It counts
    as better from one unit on: that is what one more parameter has to be worth (Akaike 1974), and what a difference
    of log evidences has to be to deserve more than a bare mention (Kass and Raftery 1995). Of a lower bound of the
    evidence too little may be known, and the warning can be a false alarm. Targets that are all equal are a constant,
    and nothing is to be found there.

    Parameters
    ----------
    log_evidence : float
        Of the model.
    z : ndarray of shape (n,) or (n, t)
        Targets.

    Examples
    --------
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

    Parameters
    ----------
    count : int
        n.
    variance : float
        Mean squared deviation.

    Examples
    --------
    >>> round(constant_log_evidence(3, 2 / 3), 2)
    -3.65
    """
    return float(-0.5 * count * (1.0 + np.log(2.0 * np.pi * variance))) if variance > 0.0 else np.inf


def warn_if_no_better(log_evidence: float, constant: float) -> None:
    """Warn if a log evidence is less than one unit above that of a constant, unless the constant is perfect.

    Parameters
    ----------
    log_evidence : float
        Of the model.
    constant : float
        Of a constant, see `constant_log_evidence`.
    """
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

    def __init__(self, model: Learnable, z: Any, variables: list[Variable], progress: Progress | None = None) -> None:
        self.model, self.z, self.variables, self.progress = model, z, variables, progress
        self.evaluations = self.failures = 0
        self.best_ever = -np.inf
        self.learns_points = any(path in model.points() for variable in variables for path in variable.paths)
        self.begin()

    def begin(self) -> None:
        """Forget the last start."""
        self.history: list[float] = []
        self.best_value = -np.inf
        self.best_vector: Array | None = None

    def __call__(self, vector: Array) -> tuple[float, Array]:
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

    def evaluate(self, vector: Array) -> tuple[float, Array]:
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

    def model_at(self, vector: Array) -> Learnable:
        """Return the model at a vector."""
        return self.model.with_values(self.parameters_at(vector))

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The lower and upper ends of the vector."""
        ends = [(v.free(v.lower), v.free(v.upper)) for v in self.variables]
        return np.concatenate([low for low, _ in ends]), np.concatenate([high for _, high in ends])

    def start_at(self, values: Mapping[str, Any]) -> Array:
        """Return the vector of the start with some variables replaced; values of anything else do not matter."""
        chosen = [next((values[path] for path in v.paths if path in values), v.start) for v in self.variables]
        pairs = zip(self.variables, chosen, strict=True)
        return np.concatenate([v.free(np.broadcast_to(value, v.start.shape)) for v, value in pairs])

    def vector_of(self, parameters: Mapping[str, Any]) -> Array:
        """Return the vector of natural parameters by path."""
        return np.concatenate([v.free(parameters[v.paths[0]]) for v in self.variables])

    def value(self, vector: Array) -> float:
        """Return log evidence plus log hyperprior, without a gradient."""
        return self.model_at(vector).log_evidence(self.z) + self.log_hyperprior(vector)

    def log_hyperprior(self, vector: Array) -> float:
        """Return the log density of the hyperpriors."""
        return sum(
            variable.hyperprior.log_density_and_slope(piece)[0]
            for variable, piece in self._pieces(vector)
            if variable.hyperprior is not None
        )

    def result(self, runs: Sequence["_Run"]) -> FitResult:
        """Return the best of several runs as the result of the search."""
        best, (lower, upper) = max(runs, key=lambda run: run.value), self.bounds
        edge = np.isclose(best.vector, lower, atol=1e-6) | np.isclose(best.vector, upper, atol=1e-6)
        on_bounds = tuple(variable.name for variable, piece in self._pieces(edge) if piece.any())
        status, message = _verdict(best.found, self.failures, bool(on_bounds))
        return FitResult(
            model=self.model_at(best.vector),
            parameters=self.parameters_at(best.vector),
            log_evidence=best.value - self.log_hyperprior(best.vector),
            status=status,
            message=message,
            evaluations=self.evaluations,
            failures=self.failures,
            starts=tuple(run.value for run in runs),
            on_bounds=on_bounds,
            history=best.history,
            optima=tuple(self.parameters_at(run.vector) for run in runs),
        )

    def parameters_at(self, vector: Array) -> dict[str, Any]:
        """Return natural parameters by path at a vector."""
        return {path: v.natural(piece) for v, piece in self._pieces(vector) for path in v.paths}

    def _pieces(self, vector: Array) -> list[tuple[Variable, Array]]:
        ends = np.cumsum([variable.start.size for variable in self.variables])
        return list(zip(self.variables, np.split(vector, ends[:-1]), strict=True))

    def _turn_back(self, vector: Array) -> tuple[float, Array]:
        """Answer where no evidence can be computed: a slope that leads back to the best point so far."""
        self.failures += 1
        if self.best_vector is None:
            return 1e12, np.zeros_like(vector)
        step = vector - self.best_vector
        return -self.best_value + 1e3 * (1.0 + float(step @ step)), 2e3 * step


def warn_of_bounds(names: Sequence[str]) -> None:
    """Warn of these parameters, if any, that they ended on the edge of their range."""
    if names:
        warn(
            BoundWarning(
                f"the learned {', '.join(names)} sit(s) on the edge of the allowed range: the data say little about "
                "it. Leave out a column that tells nothing, or choose the value yourself: a kernel that you give is "
                "used as it is with optimize=False. Ranges of your own go into gp.select(..., bounds=...).",
                parameters=tuple(names),
            )
        )


def _verdict(found: OptimizeResult, failures: int, on_bounds: bool) -> tuple[str, str]:
    note = f" {failures} evaluation(s) failed and were avoided." if failures else ""
    if found.success:
        where = " on the edge of the allowed range" if on_bounds else ""
        return "converged", f"an optimum was found{where}.{note}"
    if found.status == 1:
        kept = "the iterations ran out before an optimum was reached; the best point so far was kept."
        return "stopped", f"{kept} Try {MORE}.{note}"
    return "stopped", f"the line search ended early ({found.message}); the best point so far was kept.{note}"
