"""One call from a simulator and an observation to a posterior, in rounds."""

import contextlib
import copy
import hashlib
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_count, as_number, as_row, as_rows, value_names
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.exceptions import FewValidWarning, PosteriorWarning, SimulationError, StoreMismatchError
from decond.lfi.methods.method import Method, check_measured, summarized_observation
from decond.lfi.methods.simulating_method import SimulatingMethod, SimulatorCalls
from decond.lfi.posterior_draws import Observation, Posterior, Seed
from decond.lfi.prior import Prior
from decond.lfi.simulation import SimulationOptions, SimulationStore, open_store, simulate_with, takes_batches
from decond.lfi.simulations import Simulations
from decond.messages import warn
from decond.progress import progress_bar

__all__ = ["METHODS", "check_budget", "check_on_few", "infer", "method_named", "round_sizes"]

METHODS = {
    "residual": "ResidualLikelihood",
    "dme": "DME",
    "kelfi": "KELFI",
    "kbr": "KBR",
    "kabc": "KABC",
    "k2abc": "K2ABC",
    "gpsabc": "GPSABC",
    "rejection": "RejectionABC",
    "mcmc": "MCMCABC",
    "smc": "SMCABC",
    "mdn": "MDN",
    "lfvi": "LFVI",
}
"""Names that `infer` and the command line accept; "auto" is the residual likelihood."""

Simulator = Callable[..., ArrayLike]


def infer(
    simulator: Simulator,
    prior: Prior,
    observed: Observation,
    n_simulations: int = 1000,
    rounds: int = 3,
    method: str | Method = "auto",
    *,
    batched: bool = False,
    seed: Seed = 0,
    n_jobs: int | None = None,
    store: SimulationStore | str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    summarize: Callable[..., ArrayLike] | None = None,
    timeout: float | None = None,
    iid: bool = False,
    tolerance: float | None = None,
) -> Posterior:
    """Return the posterior of a simulator's parameters given one observation.

    The first round simulates at draws of the prior; each further round at draws of the posterior so far, widened,
    with a tenth from the prior. All simulations are kept, and no correction is needed; methods that need draws of the
    prior (`needs_prior_draws`) have one round. With a `store` an interrupted run goes on where it stopped. Further
    rounds belong to one observation: give each a store of its own, or ``rounds=1``.

    "mcmc", "smc", "gpsabc", "mdn" and "lfvi" (`runs_simulator`) spend a fifth of the budget on round 0 and then run
    the simulator themselves, step after step: in one process whatever `n_jobs` is, and they do not resume: after an
    interruption they start again from round 0. `timeout` holds, and what they ran is in the store as round "method".

    Parameters
    ----------
    simulator : callable
        ``simulator(theta, rng)`` with parameters (d,) in the prior's order and a NumPy generator; it returns
        summaries (s,).
    prior : Prior
        The prior of the parameters.
    observed : array_like or dict
        The observation, values in the order in which the simulator returns them; NaN stands for a value that was
        not measured. If both have names (a dict, or a
        pandas Series; `observed` also a frame of one row), these have to be the same, and their order does not
        matter.
    n_simulations : int, optional
        Simulations in all.
    rounds : int, optional
        Rounds of simulations.
    method : str or Method, optional
        A name of `lfi.METHODS`, "auto", or a method. A method that you give stays as it was: look at
        ``posterior.simulations`` for what was run.
    batched : bool, optional
        Whether the simulator takes many rows of parameters at once, (n, d) → (n, s).
    seed : int, Generator or None, optional
        Seed of everything random.
    n_jobs : int, optional
        How many simulations run at once, as in `lfi.simulate`.
    store : SimulationStore, str or path-like, optional
        A `SimulationStore`, or its path.
    progress : bool, optional
        Show a bar; by default on a terminal only.
    summarize : callable, optional
        Turns what the simulator returns into summaries; the observation is raw then, too, and is summarized in
        the same way. Methods that take raw data sets (`takes_raw`) need it, and see the observation as it is.
    timeout : float, optional
        Seconds after which a simulation counts as failed.
    iid : bool, optional
        Whether `observed` has several rows, independent observations at the same parameters, as in
        `Method.posterior`. A simulation still gives one.
    tolerance : float, optional
        Stop after a round that moved no posterior mean by more than this many standard deviations, and changed no
        standard deviation by more than this share. `n_simulations` and `rounds` are then the most that are used.

    Returns
    -------
    Posterior
        The posterior.

    Examples
    --------
    >>> from scipy import stats
    >>> prior = Prior({"mean": stats.norm(0, 2)})
    >>> def simulator(theta, rng):
    ...     return theta + 0.5 * rng.standard_normal(1)
    >>> posterior = infer(simulator, prior, [1.0], n_simulations=90)
    >>> bool(abs(posterior.mean()[0] - 0.94) < 0.15)
    True
    """
    seed = int(seed.integers(2**31)) if isinstance(seed, np.random.Generator) else seed
    if not isinstance(prior, Prior):
        raise ArgumentTypeError("prior", f"prior is {type(prior).__name__}; give an lfi.Prior.")
    options = SimulationOptions(n_jobs, store, timeout, batched or takes_batches(simulator), summarize)
    chosen = copy.copy(method_named(method, seed))
    seen = _as_seen(chosen, observed, summarize, iid)
    if tolerance is not None:
        as_number(tolerance, "tolerance", minimum=0.0)
    total, few = check_budget(n_simulations, prior, chosen), Method.n_needed(prior.dim)
    sizes = round_sizes(total, 1 if chosen.needs_prior_draws else as_count(rounds, "rounds"), few)
    with contextlib.ExitStack() as closing:
        report = closing.enter_context(progress_bar("inferring", shown=progress))
        if store is None:
            options = replace(options, store=closing.enter_context(SimulationStore(":memory:", prior)))
        if chosen.runs_simulator:
            sizes = [min(max(total // 5, few), total - 1)]
        check_on_few(chosen, simulator, prior, seen, sizes[0], seed, options, iid)
        run = _Run(chosen, simulator, prior, seed, options, iid)
        if isinstance(chosen, SimulatingMethod) and chosen.runs_simulator:
            return run.with_own_simulations(chosen, seen, sizes[0], total)
        for number, size in enumerate(sizes):
            report(status=f"round {number + 1} of {len(sizes)}")
            with warnings.catch_warnings():
                if number < len(sizes) - 1:  # warnings of the last round are the ones that count
                    warnings.simplefilter("ignore", PosteriorWarning)
                before = run.posterior
                run.next_round(number, size, seen, observed)
            assert run.posterior is not None
            posterior: Posterior = run.posterior
            if tolerance is not None and before is not None and _change(before, posterior) <= tolerance:
                for warning in posterior.warnings if number < len(sizes) - 1 else ():
                    warn(warning)
                break
        return posterior


class _Run:
    """An inference under way: the simulations and the posterior so far."""

    def __init__(
        self,
        method: Method,
        simulator: Simulator,
        prior: Prior,
        seed: Seed,
        options: SimulationOptions,
        iid: bool = False,
    ) -> None:
        self._method, self._simulator, self._prior, self._iid = method, simulator, prior, iid
        self._seed, self._options, self._store = seed, options, options.store
        self._sims: Simulations | None = None
        self.posterior: Posterior | None = None

    def next_round(self, number: int, size: int, seen: Observation, observed: Observation) -> None:
        """Simulate at draws of the prior or of the posterior so far, and fit again.

        Parameters
        ----------
        number : int
            The number of the round.
        size : int
            Its simulations.
        seen : array_like or dict
            The observation as the method takes it.
        observed : array_like or dict
            The observation as the user gave it.
        """
        label, proposal = str(number), None
        if self.posterior is not None and self._sims is not None:
            raw = self._options.summarize is not None
            values = observed if raw else self._method.check_observation(seen, self._sims, self._iid)
            self._check_stored_observation(label, np.asarray(values, dtype=np.float64))
            proposal = self._proposal(self.posterior, number, label, size)
        new = simulate_with(
            self._options, self._simulator, self._prior, size, seed=self._seed, proposal=proposal, round=label
        )
        self._sims = new if self._sims is None else self._sims + new
        self.posterior = self._method.fit(self._sims, self._prior).posterior(seen, iid=self._iid)

    def with_own_simulations(self, method: SimulatingMethod, seen: Observation, pilot: int, total: int) -> Posterior:
        """Return the posterior of a method that runs the simulator itself, after a pilot.

        Parameters
        ----------
        method : SimulatingMethod
            The method.
        seen : array_like or dict
            The observation as the method takes it.
        pilot : int
            Simulations of the pilot.
        total : int
            Simulations in all.
        """
        options = self._options
        sims = simulate_with(options, self._simulator, self._prior, pilot, seed=self._seed, round=0)
        method.simulator, method.batched, method.n_simulations = self._simulator, options.batched, total
        with open_store(self._store, self._prior) as file:
            calls = SimulatorCalls(self._simulator, method.batched, options.summarize, options.limit, file.keeper())
            with contextlib.closing(calls) as method.calls:
                return method.fit(sims, self._prior).posterior(seen, iid=self._iid)

    def _check_stored_observation(self, label: str, observed: NDArray[np.float64]) -> None:
        """Raise if the store holds this round for another observation."""
        mark = hashlib.sha256(observed.tobytes()).hexdigest()[:8]
        with open_store(self._store, self._prior) as file:
            if file.observation_of(label, mark) != mark:
                raise StoreMismatchError(
                    f"round {label} in the store {file.path} was proposed for another observation. Use a new file "
                    "for each observation, or rounds=1, which they may share.",
                    argument="observed",
                    path=file.path,
                    round=label,
                )

    def _proposal(self, posterior: Posterior, number: int, label: str, size: int) -> np.ndarray:
        """Return the parameters of a round: those that the store holds already, and new ones."""
        with open_store(self._store, self._prior) as file:
            found = file.parameters(label)
        planned = np.empty((0, self._prior.dim)) if found is None else found[:size]
        if len(planned) == size:
            return planned
        assert not isinstance(self._seed, np.random.Generator)
        seed = np.random.SeedSequence([int(self._seed or 0), number, len(planned)])
        return np.concatenate([planned, posterior.propose(size - len(planned), seed)])


def method_named(method: str | Method, seed: Seed = 0) -> Method:
    """Return a method by its name.

    Parameters
    ----------
    method : str or Method
        The name, or a method, which is returned as it is.
    seed : int, Generator or None, optional
        The seed of a method by name.
    """
    if isinstance(method, Method):
        return method
    name = "residual" if method == "auto" else method
    if name not in METHODS:
        raise ArgumentError(
            "method", f"method is {method!r}; choose one of 'auto', {', '.join(map(repr, METHODS))}, or a method."
        )
    found: Method = getattr(import_module("decond.lfi"), METHODS[name])(seed=seed)
    return found


def round_sizes(total: int, rounds: int, first: int = 1) -> list[int]:
    """Return how many simulations each round gets: the first a third more than the others.

    If the first round takes all that there is, or almost, there are fewer rounds.

    Parameters
    ----------
    total : int
        Simulations in all.
    rounds : int
        Most rounds.
    first : int, optional
        Least simulations of the first round.

    Examples
    --------
    >>> round_sizes(1000, 3)
    [400, 300, 300]
    >>> round_sizes(20, 3, first=12)
    [12, 4, 4]
    """
    if first == 1 and total < rounds:
        raise ArgumentError(
            "n_simulations",
            f"n_simulations is {total}, fewer than the {rounds} rounds; give more, or fewer rounds.",
        )
    shares = np.cumsum([4.0, *[3.0] * (rounds - 1)]) / (1.0 + 3.0 * rounds)
    sizes = np.diff([0, *np.round(shares * total).astype(int)]).tolist()
    if sizes[0] >= first and min(sizes) > 0:
        return sizes
    start = min(max(first, sizes[0]), total)
    further = min(rounds - 1, total - start)
    steps = np.round(np.linspace(start, total, further + 1)).astype(int) if further else [total]
    return [int(steps[0]), *np.diff(steps).tolist()]


def check_budget(n_simulations: int, prior: Prior, method: Method | None = None) -> int:
    """Return the number of simulations; raise if it is too small to begin with.

    Parameters
    ----------
    n_simulations : int
        Simulations in all.
    prior : Prior
        The prior of the parameters.
    method : Method, optional
        The method; None for any.
    """
    total = as_count(n_simulations, "n_simulations")
    needed = Method.n_needed(prior.dim) + (1 if method is None or method.runs_simulator else 0)
    if total < needed:
        needs = "methods need" if method is None else f"{type(method).__name__} needs"
        raise ArgumentError(
            "n_simulations",
            f"n_simulations is {total}, but {needs} at least {needed} simulations for {prior.dim} parameter(s), and "
            "many more for a good answer. Nothing was run; give a larger number.",
        )
    return total


def check_on_few(
    method: Method,
    simulator: Simulator,
    prior: Prior,
    observed: Observation,
    size: int,
    seed: Seed,
    options: SimulationOptions,
    iid: bool = False,
) -> None:
    """Raise if the observation is not like the first simulations, which the store keeps for the round.

    They are as many as run at once. If the observation is not like these, or all fail, more are run to be sure: one
    simulation alone may be the odd one.

    Parameters
    ----------
    method : Method
        The method.
    simulator : callable
        The simulator.
    prior : Prior
        The prior of the parameters.
    observed : array_like or dict
        The observation as the method takes it.
    size : int
        Simulations of the first round.
    seed : int, Generator or None
        The seed of the simulations.
    options : SimulationOptions
        How simulations are run.
    iid : bool, optional
        Whether there are several independent observations.
    """
    n_jobs = options.n_jobs
    few = 1 if n_jobs == 0 else joblib.effective_n_jobs(n_jobs)  # simulate refuses 0
    while few < size:
        with warnings.catch_warnings(), contextlib.suppress(SimulationError):
            warnings.simplefilter("ignore", FewValidWarning)  # issued for all of them later
            first = simulate_with(replace(options, progress=False), simulator, prior, few, seed=seed, round=0)
            try:
                method.check_observation(observed, first, iid)
                return
            except ValueError:
                if first.n_valid >= 5:
                    raise
        few *= 2


def _change(before: Posterior, after: Posterior) -> float:
    """Return how far means moved, in standard deviations, or by which share these changed: the largest."""
    moved = np.abs(after.mean() - before.mean()) / after.std()
    return float(np.maximum(moved, np.abs(before.std() / after.std() - 1.0)).max())


def _as_seen(
    method: Method, observed: Observation, summarize: Callable[..., ArrayLike] | None, iid: bool
) -> Observation:
    """Return the observation as the method takes it: where the simulations are summarized, summarized or raw."""
    if not method.takes_raw:
        if summarize is not None and iid:
            sets = [summarized_observation(each, summarize) for each in np.asarray(observed, dtype=np.float64)]
            return np.concatenate([as_row(each, "observed") for each in sets])
        if summarize is not None:
            return summarized_observation(observed, summarize)
        given: Any = observed
        row = as_rows(given, "observed", missing=True) if iid else as_row(observed, "observed", missing=True)
        check_measured(row)
        return row if value_names(observed) is None else observed
    if summarize is None:
        raise ArgumentError(
            "summarize",
            f"{type(method).__name__} compares raw data sets, and these are kept where simulations are summarized. "
            "Give summarize=..., a function of what the simulator returns, for example numpy.mean, and the raw data "
            "set as observed.",
        )
    return observed
