"""One call from a simulator and an observation to a posterior, in rounds."""

import contextlib
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from decond.checks import as_count, as_row
from decond.lfi.methods.base import Method, summarized_observation
from decond.lfi.posterior import Posterior, PosteriorWarning
from decond.lfi.prior import Prior
from decond.lfi.simulate import SimulationError, simulate
from decond.lfi.simulations import Simulations
from decond.lfi.store import SimulationStore, SimulationWarning, opened

__all__ = ["METHODS", "infer", "method_named", "round_sizes"]

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
    store: str | Path | None = None,
    progress: bool | None = None,
    summarize: Callable[[Any], Any] | None = None,
    timeout: float | None = None,
) -> Posterior:
    """Return the posterior of a simulator's parameters given one observation.

    The first round simulates at draws of the prior; each further round at draws of the posterior so far, widened,
    with a tenth from the prior. All simulations are kept, and no correction is needed; methods that need draws of the
    prior (`needs_prior_draws`) have one round. Options are those of `lfi.simulate`; with a `store` an interrupted
    run goes on where it stopped. With `summarize`, the observation is raw too and is summarized in the same way;
    methods that take raw data sets (`takes_raw`) need it, and see the observation as it is.

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
        raise TypeError(f"prior is {type(prior).__name__}; give an lfi.Prior.")
    chosen = method_named(method, seed)
    seen = _seen(chosen, observed, summarize)
    total = as_count(n_simulations, "n_simulations")
    sizes = round_sizes(total, 1 if chosen.needs_prior_draws else as_count(rounds, "rounds"))
    with contextlib.ExitStack() as closing:
        options = {
            "n_jobs": n_jobs,
            "store": closing.enter_context(SimulationStore(":memory:", prior)) if store is None else store,
            "progress": progress,
            "summarize": summarize,
            "timeout": timeout,
            "batched": batched,
        }
        if chosen.runs_simulator:
            return _with_its_own_simulations(chosen, simulator, prior, seen, total, seed, options)
        return _in_rounds(chosen, simulator, prior, seen, sizes, seed, options)


def method_named(method: str | Method, seed: Any = 0) -> Method:
    """Return a method: the one given, or one by its name with the given seed."""
    if isinstance(method, Method):
        return method
    name = "residual" if method == "auto" else method
    if name not in METHODS:
        raise ValueError(f"method is {method!r}; choose one of 'auto', {', '.join(map(repr, METHODS))}, or a method.")
    found: Method = getattr(import_module("decond.lfi"), METHODS[name])(seed=seed)
    return found


def round_sizes(total: int, rounds: int) -> list[int]:
    """Return how many simulations each round gets: the first a third more than the others.

    >>> round_sizes(1000, 3)
    [400, 300, 300]
    """
    if total < rounds:
        raise ValueError(f"n_simulations is {total}, fewer than the {rounds} rounds; give more, or fewer rounds.")
    shares = np.cumsum([4.0, *[3.0] * (rounds - 1)]) / (1.0 + 3.0 * rounds)
    return np.diff([0, *np.round(shares * total).astype(int)]).tolist()


def _in_rounds(
    method: Method,
    simulator: Callable[..., Any],
    prior: Prior,
    observed: Any,
    sizes: list[int],
    seed: Any,
    options: dict[str, Any],
) -> Posterior:
    _check_on_few(method, simulator, prior, observed, sizes[0], seed, options)
    sims: Simulations | None = None
    posterior: Posterior | None = None
    for number, size in enumerate(sizes):
        proposal = None if posterior is None else _proposal(posterior, prior, number, size, seed, options["store"])
        new = simulate(simulator, prior, size, seed=seed, proposal=proposal, round=number, **options)
        sims = new if sims is None else sims + new
        with warnings.catch_warnings():
            if number < len(sizes) - 1:  # what is said of the last round is what counts
                warnings.simplefilter("ignore", PosteriorWarning)
            posterior = method.fit(sims, prior).posterior(observed)
    assert posterior is not None
    return posterior


def _proposal(posterior: Posterior, prior: Prior, number: int, size: int, seed: Any, store: Any) -> np.ndarray:
    """Return the parameters of a round: those that the store holds already, and new ones."""
    with opened(store, prior) as file:
        found = file.parameters(number)
    planned = np.empty((0, prior.dim)) if found is None else found[:size]
    if len(planned) == size:
        return planned
    new = posterior.propose(size - len(planned), np.random.SeedSequence([int(seed or 0), number, len(planned)]))
    return np.concatenate([planned, new])


def _with_its_own_simulations(
    method: Any,
    simulator: Callable[..., Any],
    prior: Prior,
    observed: Any,
    total: int,
    seed: Any,
    options: dict[str, Any],
) -> Posterior:
    pilot = max(int(PILOT * total), 1)
    _check_on_few(method, simulator, prior, observed, pilot, seed, options)
    sims = simulate(simulator, prior, pilot, seed=seed, round=0, **options)
    method.simulator = _summarized(simulator, options["summarize"], options["batched"])
    method.batched, method.n_simulations = options["batched"], total
    posterior: Posterior = method.fit(sims, prior).posterior(observed)
    return posterior


def _summarized(simulator: Callable[..., Any], summarize: Callable[[Any], Any] | None, batched: bool) -> Any:
    """Return a simulator of summaries."""
    if summarize is None:
        return simulator
    if batched:
        return lambda theta, rng: np.array([np.ravel(summarize(raw)) for raw in simulator(theta, rng)])
    return lambda theta, rng: summarize(simulator(theta, rng))


def _seen(method: Method, observed: Any, summarize: Callable[[Any], Any] | None) -> Any:
    """Return the observation as the method takes it: where the simulations are summarized, summarized or raw."""
    if not method.takes_raw:
        return as_row(observed, "observed") if summarize is None else summarized_observation(observed, summarize)
    if summarize is None:
        raise ValueError(
            f"{type(method).__name__} compares raw data sets, and these are kept where simulations are summarized. "
            "Give summarize=..., a function of what the simulator returns, for example numpy.mean, and the raw data "
            "set as observed."
        )
    return observed


def _check_on_few(
    method: Method,
    simulator: Callable[..., Any],
    prior: Prior,
    observed: Any,
    size: int,
    seed: Any,
    options: dict[str, Any],
) -> None:
    """Raise if the observation is not like the first simulations, which the store keeps for the round.

    They are as many as run at once. If the observation is not like these, or all fail, more are run to be sure.
    """
    n_jobs = options["n_jobs"]
    few = 1 if n_jobs == 0 else joblib.effective_n_jobs(n_jobs)  # simulate refuses 0
    while few < size:
        with warnings.catch_warnings(), contextlib.suppress(SimulationError):
            warnings.simplefilter("ignore", SimulationWarning)  # said of all of them later
            first = simulate(simulator, prior, few, seed=seed, round=0, **{**options, "progress": False})
            try:
                method.check_observation(observed, first)
                return
            except ValueError:
                if first.n_valid >= SURE:
                    raise
        few *= 2
