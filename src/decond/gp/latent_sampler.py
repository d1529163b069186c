"""Sampling f, its hyperparameters and the assignment of targets to rows, for targets at latent inputs.

One sweep of the Gibbs sampler draws f at the rows given the assignment and the hyperparameters, then the assignment
given f. Every few sweeps the hyperparameters take a step of slice sampling, with f integrated out. Chains that end in
different modes are combined by stacking (Yao, Vehtari & Gelman 2022, jmlr.org/papers/v23/20-1426.html). The weights
of the rows, p(x | y), are estimates too: the chains are repeated for several bootstrap tables of them, and pooled.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from decond.gp.latent_input import GibbsState, LeftOut, PooledTargets, leave_one_out
from decond.gp.model_average import Candidate, stacking_weights
from decond.gp.observations import with_known_variance
from decond.gp.search import Model, Objective, Progress, Variable
from decond.linalg import NotPositiveDefiniteError, square_root
from decond.parameters import with_leaves
from decond.threads import one_blas_thread

__all__ = ["SamplerSettings", "sample_latent_inputs"]


@dataclass(frozen=True)
class SamplerSettings:
    """Settings of `sample_latent_inputs`. More of everything costs time and changes answers little.

    >>> SamplerSettings(sweeps=400).kept
    8
    """

    tables: int = 4
    """Bootstrap tables of p(x | y)."""
    warmup: int = 200
    """Sweeps of each chain before the first draw."""
    sweeps: int = 100
    """Sweeps of each chain after that."""
    kept: int = 8
    """Draws of each chain that predictions are made from."""
    sweeps_per_step: int = 5
    """Sweeps from one step of the hyperparameters to the next."""
    most_steps_out: int = 8
    """Widths of a slice at most, in units of the logarithm of a hyperparameter."""
    threshold: float = 0.01
    """Chains with a smaller stacking weight within their table are dropped."""


Starts = Callable[[np.ndarray], Sequence[np.ndarray]]


def sample_latent_inputs(
    name: str,
    model: Model,
    tables: Iterable[np.ndarray],
    starts: Starts,
    z: np.ndarray,
    variables: list[Variable],
    seed: int = 0,
    settings: SamplerSettings | None = None,
    stack_tables: bool = False,
    progress: Progress | None = None,
) -> Candidate:
    """Return a candidate whose parts are draws of the hyperparameters and the assignment.

    Parameters
    ----------
    name : str
        Name of the candidate.
    model : Model
        Prior of f and a `LatentInput`, at the hyperparameters where the chains start.
    tables : iterable of ndarray of shape (n, m)
        Probabilities of the rows for each target, one array for each bootstrap table.
    starts : callable
        From such an array to values of f at the rows, one for each chain.
    z : ndarray of shape (m,)
        The centered targets.
    variables : list of Variable
        The hyperparameters, among them "observation.noise".
    seed : int
        Seed of the chains.
    settings : SamplerSettings, optional
        Lengths and numbers of chains.
    stack_tables : bool
        Whether the tables are rival models, combined by stacking, and not bootstrap samples of one, which are pooled.
    progress : callable, optional
        Called after each sweep with the number of sweeps of the chain and nan.

    Returns
    -------
    Candidate
        Draws with weights, and leave-one-out predictions of the targets.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> from decond.gp import select
    >>> from decond.gp import FunctionPrior, LatentInput
    >>> weights, z = np.full((2, 4), 0.5), np.array([1.0, 1.1, -1.0, -0.9])
    >>> model = Model(FunctionPrior(RBF()), LatentInput([0.0, 5.0], weights, noise=0.1))
    >>> variables = select(model, free=["observation.noise"], bounds={"observation.noise": (0.01, 1.0)})
    >>> start = np.array([1.0, -1.0])  # f(0) = 1 and f(5) = -1; the mirror image would do as well
    >>> draws = sample_latent_inputs("latent inputs", model, [weights], lambda table: [start], z, variables)
    >>> draws.values[0]["observation.assignment"]
    array([0, 0, 1, 1])
    """
    with one_blas_thread():  # matrices are small, and there are many of them
        used = settings or SamplerSettings()
        return _sample(name, model, tables, starts, z, variables, seed, used, stack_tables, progress)


def _sample(
    name: str,
    model: Model,
    tables: Iterable[np.ndarray],
    starts: Starts,
    z: np.ndarray,
    variables: list[Variable],
    seed: int,
    settings: SamplerSettings,
    stack_tables: bool,
    progress: Progress | None,
) -> Candidate:
    rng = np.random.default_rng(seed)
    runs: list[list[_Run]] = []
    for table in tables:
        runs.append([])
        for f in starts(table):
            chain = _Chain(model, table, z, variables, f, rng, settings)
            runs[-1].append(chain.run(progress))
    groups = [[run for of_table in runs for run in of_table]] if stack_tables else runs
    kept = [(run, weight) for group in groups for run, weight in _stacked(group, settings.threshold)]
    shares = np.array([weight for _, weight in kept]) / len(groups)
    values = tuple(draw for run, _ in kept for draw in run.values)
    weights = np.concatenate(
        [np.full(len(run.values), share / len(run.values)) for (run, _), share in zip(kept, shares, strict=True)]
    )
    return Candidate(name, model, values, weights, LeftOut.mixture([run.left_out for run, _ in kept], shares))


def _stacked(runs: Sequence["_Run"], threshold: float) -> list[tuple["_Run", float]]:
    """Return the chains that have a stacking weight, with their weights, which sum to one."""
    weights = stacking_weights(np.array([run.left_out.log_density for run in runs]))
    weights = np.where(weights >= threshold, weights, 0.0)
    return [(run, float(w)) for run, w in zip(runs, weights / weights.sum(), strict=True) if w > 0.0]


class _Run(NamedTuple):
    values: list[dict[str, Any]]
    left_out: LeftOut


class _Chain:
    """One chain: hyperparameters as an unconstrained vector, f at the rows, and the assignment."""

    def __init__(
        self,
        model: Model,
        table: np.ndarray,
        z: np.ndarray,
        variables: list[Variable],
        f: np.ndarray,
        rng: np.random.Generator,
        settings: SamplerSettings,
    ) -> None:
        self._objective = Objective(model, z, variables)
        self._prior, self._x = model.prior, model.prior.covariance.points(model.observation.x, "x")
        self._known: np.ndarray | None = model.observation.target_variance  # type: ignore[attr-defined]
        self._seen, self._jacobian = model.observation, model.observation.log_jacobian(z)  # type: ignore[attr-defined]
        self._z, self._rng, self._settings = self._seen.transformed(z), rng, settings  # type: ignore[attr-defined]
        self._vector = self._objective.vector_of(model.values())
        self._lower, self._upper = self._objective.bounds
        self._state = GibbsState(table, self._z, rng)
        self._factored: bytes = b""
        self._state.draw_assignment(f, self._variance(self._vector))

    def run(self, progress: Progress | None) -> _Run:
        """Return the draws that are kept, and leave-one-out predictions from all draws after the warm-up."""
        settings = self._settings
        values, likelihoods, predictions = [], [], []
        every = max(1, settings.sweeps // settings.kept)
        for sweep in range(settings.warmup + settings.sweeps):
            if sweep % settings.sweeps_per_step == 0:
                self._step_hyperparameters()
            f, variance = self._draw_f(), self._variance(self._vector)
            self._state.draw_assignment(f, variance)
            after = sweep - settings.warmup
            if after >= 0:
                likelihoods.append(self._state.log_likelihood(f, variance))
                logarithm = self._seen.logarithm  # type: ignore[attr-defined]
                predictions.append(self._state.predictive_moments(f, variance, logarithm))
                if after % every == every - 1:
                    parameters = self._objective.parameters_at(self._vector)
                    values.append({**parameters, "observation.assignment": self._state.assignment})
            if progress is not None:
                progress(sweep + 1, np.nan)
        return _Run(values, leave_one_out(np.array(likelihoods) + self._jacobian, predictions))

    def _draw_f(self) -> np.ndarray:
        key = self._vector.tobytes()
        if key != self._factored:
            self._gram = self._kernel(self._vector).gram(self._x, self._x)
            self._root = square_root(self._gram)
            self._factored = key
        return self._pooled(self._vector).draw(self._gram, self._root, 0.0, self._rng)

    def _step_hyperparameters(self) -> None:
        """Take a step of slice sampling along a random direction (Neal 2003), with stepping out and shrinkage."""
        direction = self._rng.standard_normal(len(self._vector))
        direction /= np.linalg.norm(direction)
        level = self._log_density(self._vector) - self._rng.exponential()
        low = -self._rng.random()
        high = low + 1.0
        steps_down = int(self._rng.integers(self._settings.most_steps_out))
        for _ in range(steps_down):
            if self._log_density(self._vector + low * direction) <= level:
                break
            low -= 1.0
        for _ in range(self._settings.most_steps_out - 1 - steps_down):
            if self._log_density(self._vector + high * direction) <= level:
                break
            high += 1.0
        while high - low > 1e-9:
            step = self._rng.uniform(low, high)
            proposed = self._vector + step * direction
            if self._log_density(proposed) > level:
                self._vector = proposed
                return
            low, high = (step, high) if step < 0.0 else (low, step)

    def _log_density(self, vector: np.ndarray) -> float:
        """Return log p(z | assignment, hyperparameters) plus the log hyperprior; -inf outside the bounds."""
        if np.any(vector < self._lower) or np.any(vector > self._upper):
            return -np.inf
        pooled = self._pooled(vector)
        rows = self._x[pooled.rows]
        try:
            value = pooled.log_evidence(self._kernel(vector).gram(rows, rows))
        except NotPositiveDefiniteError:
            return -np.inf
        return value + self._objective.log_hyperprior(vector)

    def _pooled(self, vector: np.ndarray) -> PooledTargets:
        return PooledTargets.of(self._state.assignment, self._z, self._variance(vector))

    def _variance(self, vector: np.ndarray) -> np.ndarray:
        noise = self._objective.parameters_at(vector)["observation.noise"]
        return np.broadcast_to(with_known_variance(noise**2, self._known), self._z.shape)

    def _kernel(self, vector: np.ndarray) -> Any:
        values = self._objective.parameters_at(vector)
        prior = {path.removeprefix("prior."): v for path, v in values.items() if path.startswith("prior.")}
        return with_leaves(self._prior, prior).covariance
