"""One call from a simulator and an observation to a posterior, in rounds."""

import contextlib
import copy
import hashlib
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

import joblib
import numpy as np

from decond.checks import as_count, as_row, value_names
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.exceptions import FewValidWarning, PosteriorWarning, SimulationError, StoreWarning
from decond.lfi.methods.base import FEW, Method, summarized_observation
from decond.lfi.methods.running import Calls
from decond.lfi.posterior import Posterior
from decond.lfi.prior import Prior
from decond.lfi.simulation import SimulationOptions, SimulationStore, open_store, simulate_with, takes_batches
from decond.lfi.simulation.worker import names_of
from decond.lfi.simulations import Simulations
from decond.messages import warn
from decond.progress import Report, progress_bar

__all__ = ["METHODS", "check_on_few", "infer", "method_named", "round_sizes"]

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

PILOT = 0.2
"""Share of the budget that methods which run the simulator themselves spend on fixing scales."""

SURE = 5
"""Valid simulations that an observation has to differ from to be refused; one alone may be the odd one."""


def infer(
    simulator: Callable[..., Any],
    prior: Prior,
    observed: Any,
    n_simulations: int = 1000,
    rounds: int = 3,
    method: str | Method = "auto",
    *,
    batched: bool = False,
    seed: Any = 0,
    n_jobs: int | None = None,
    store: SimulationStore | str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    summarize: Callable[[Any], Any] | None = None,
    timeout: float | None = None,
) -> Posterior:
    """Return the posterior of a simulator's parameters given one observation.

    The first round simulates at draws of the prior; each further round at draws of the posterior so far, widened,
    with a tenth from the prior. All simulations are kept, and no correction is needed; methods that need draws of the
    prior (`needs_prior_draws`) have one round. Options are those of `lfi.simulate`; with a `store` an interrupted
    run goes on where it stopped. With `summarize`, the observation is raw too and is summarized in the same way;
    methods that take raw data sets (`takes_raw`) need it, and see the observation as it is. A `method` that you give
    stays as it was: look at ``posterior.simulations`` for what was run.

    A store may serve several observations: round 0 is shared, and further rounds are run for each, with a warning.

    "mcmc", "smc", "gpsabc", "mdn" and "lfvi" (`runs_simulator`) spend a fifth of the budget on round 0 and then run
    the simulator themselves, step after step: in one process whatever `n_jobs` is, and they do not resume: after an
    interruption they start again from round 0. `timeout` holds, and what they ran is in the store as round "method".

    The values of `observed` are in the order in which the simulator returns them. If both have names (a dict, or a
    pandas Series; `observed` also a frame of one row), these have to be the same, and their order does not matter.

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
    seen = _seen(chosen, observed, summarize)
    total = _checked_budget(chosen, prior, n_simulations)
    few = _needed(prior)
    sizes = round_sizes(total, 1 if chosen.needs_prior_draws else as_count(rounds, "rounds"), few)
    with contextlib.ExitStack() as closing:
        report = closing.enter_context(progress_bar("inferring", shown=progress))
        if store is None:
            options = replace(options, store=closing.enter_context(SimulationStore(":memory:", prior)))
        pilot = min(max(int(PILOT * total), few), total - 1) if chosen.runs_simulator else sizes[0]
        check_on_few(chosen, simulator, prior, seen, pilot, seed, options)
        if summarize is not None:
            _check_raw_names(observed, prior, options.store)
        if chosen.runs_simulator:
            return _with_its_own_simulations(chosen, simulator, prior, seen, (pilot, total), seed, options)
        return _in_rounds(chosen, simulator, prior, seen, sizes, seed, options, observed, report)


def method_named(method: str | Method, seed: Any = 0) -> Method:
    """Return a method: the one given, or one by its name with the given seed."""
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
    """Return how many simulations each round gets: the first a third more than the others, and at least `first`.

    If the first round takes all that there is, or almost, there are fewer rounds.

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


def _needed(prior: Prior) -> int:
    """Return how many valid simulations every method needs."""
    return 10 + FEW * prior.dim


def _checked_budget(method: Method, prior: Prior, n_simulations: Any) -> int:
    """Return the number of simulations; raise if it is too small for the method to begin with."""
    total = as_count(n_simulations, "n_simulations")
    needed = _needed(prior) + (1 if method.runs_simulator else 0)
    if total < needed:
        raise ArgumentError(
            "n_simulations",
            f"n_simulations is {total}, but {type(method).__name__} needs at least {needed} simulations for "
            f"{prior.dim} parameter(s), and many more for a good answer. Nothing was run; give a larger number.",
        )
    return total


def _in_rounds(
    method: Method,
    simulator: Callable[..., Any],
    prior: Prior,
    observed: Any,
    sizes: list[int],
    seed: Any,
    options: SimulationOptions,
    given: Any,
    report: Report,
) -> Posterior:
    """Return the posterior after all rounds; `observed` is what the method takes, and `given` what the user gave."""
    sims: Simulations | None = None
    posterior: Posterior | None = None
    for number, size in enumerate(sizes):
        report(status=f"round {number + 1} of {len(sizes)}")
        label, proposal = str(number), None
        if posterior is not None:
            assert sims is not None
            label = _label(number, _mark(given, sims), prior, options.store)
            proposal = _proposal(posterior, prior, label, size, (int(seed or 0), number), options.store)
        new = simulate_with(options, simulator, prior, size, seed=seed, proposal=proposal, round=label)
        sims = new if sims is None else sims + new
        with warnings.catch_warnings():
            if number < len(sizes) - 1:  # what is said of the last round is what counts
                warnings.simplefilter("ignore", PosteriorWarning)
            posterior = method.fit(sims, prior).posterior(observed)
    assert posterior is not None
    return posterior


def _mark(observed: Any, sims: Simulations) -> str:
    """Return a short text that tells one observation from another, in whatever order it names its values."""
    names = value_names(observed)
    values = list(observed.values()) if isinstance(observed, Mapping) else observed
    same = names and sims.summary_names and sorted(names) == sorted(sims.summary_names)
    if same and np.shape(observed)[:-1] in ((), (1,)):  # a raw data set of several rows may have these names too
        values = sims.observed_row(observed)
    try:
        content = np.asarray(values, dtype=np.float64).tobytes()
    except (TypeError, ValueError):  # raw data sets may have parts of different lengths
        content = repr(observed).encode()
    return hashlib.sha256(content).hexdigest()[:8]


def _label(number: int, mark: str, prior: Prior, store: Any) -> str:
    """Return the label of a round: its number, and the observation if the store holds it for another one."""
    with open_store(store, prior) as file:
        if file.observation_of(str(number), mark) == mark:
            return str(number)
        if number == 1:
            message = (
                f"the further rounds in the store {file.path} were proposed for another observation. Round 0 is "
                f"shared; the others are run anew for this observation, and kept as round 1:{mark} and so on."
            )
            warn(StoreWarning(message, argument="observed", path=file.path))
    return f"{number}:{mark}"


def _proposal(
    posterior: Posterior, prior: Prior, label: str, size: int, seed: tuple[int, int], store: Any
) -> np.ndarray:
    """Return the parameters of a round: those that the store holds already, and new ones."""
    with open_store(store, prior) as file:
        found = file.parameters(label)
    planned = np.empty((0, prior.dim)) if found is None else found[:size]
    if len(planned) == size:
        return planned
    new = posterior.propose(size - len(planned), np.random.SeedSequence([*seed, len(planned)]))
    return np.concatenate([planned, new])


def _with_its_own_simulations(
    method: Any,
    simulator: Callable[..., Any],
    prior: Prior,
    observed: Any,
    budget: tuple[int, int],
    seed: Any,
    options: SimulationOptions,
) -> Posterior:
    pilot, total = budget
    sims = simulate_with(options, simulator, prior, pilot, seed=seed, round=0)
    method.simulator, method.batched, method.n_simulations = simulator, options.batched, total
    with open_store(options.store, prior) as file:
        calls = Calls(simulator, options.batched, options.summarize, options.limit, file.keeper())
        with contextlib.closing(calls) as method.calls:
            posterior: Posterior = method.fit(sims, prior).posterior(observed)
    return posterior


def _seen(method: Method, observed: Any, summarize: Callable[[Any], Any] | None) -> Any:
    """Return the observation as the method takes it: where the simulations are summarized, summarized or raw."""
    if not method.takes_raw:
        if summarize is not None:
            return summarized_observation(observed, summarize)
        row = as_row(observed, "observed")
        return row if value_names(observed) is None else observed
    if summarize is None:
        raise ArgumentError(
            "summarize",
            f"{type(method).__name__} compares raw data sets, and these are kept where simulations are summarized. "
            "Give summarize=..., a function of what the simulator returns, for example numpy.mean, and the raw data "
            "set as observed.",
        )
    return observed


def _check_raw_names(observed: Any, prior: Prior, store: Any) -> None:
    """Raise if a raw observation has names, and the simulator returns others or has them in another order."""
    names = names_of(observed)
    if names is None:
        return
    with open_store(store, prior) as file:
        known = file.raw_names(len(names))
    if known is not None and list(names) != known:
        raise ArgumentError(
            "observed",
            f"observed has raw data {', '.join(names)} where the simulator returns {', '.join(known)}, and summarize "
            "gets values without names. Give them in that order.",
        )


def check_on_few(
    method: Method,
    simulator: Callable[..., Any],
    prior: Prior,
    observed: Any,
    size: int,
    seed: Any,
    options: SimulationOptions,
) -> None:
    """Raise if the observation is not like the first simulations, which the store keeps for the round.

    They are as many as run at once. If the observation is not like these, or all fail, more are run to be sure.
    """
    n_jobs = options.n_jobs
    few = 1 if n_jobs == 0 else joblib.effective_n_jobs(n_jobs)  # simulate refuses 0
    while few < size:
        with warnings.catch_warnings(), contextlib.suppress(SimulationError):
            warnings.simplefilter("ignore", FewValidWarning)  # said of all of them later
            first = simulate_with(replace(options, progress=False), simulator, prior, few, seed=seed, round=0)
            try:
                method.check_observation(observed, first)
                return
            except ValueError:
                if first.n_valid >= SURE:
                    raise
        few *= 2
