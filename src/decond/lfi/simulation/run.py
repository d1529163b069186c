"""Running a simulator many times: in parallel, into a store that survives, and with failures kept."""

import contextlib
import inspect
import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_count, as_number
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.exceptions import FewValidWarning, SimulationError
from decond.lfi.prior import Prior
from decond.lfi.simulation.backend import Task, Work, results
from decond.lfi.simulation.store import RESERVED, Plan, SimulationStore, drawn_parameters, open_store
from decond.lfi.simulation.worker import BATCH_SIZE, Simulator
from decond.lfi.simulations import Simulations
from decond.messages import warn
from decond.progress import Report, progress_bar

__all__ = ["SimulationOptions", "batched", "simulate", "simulate_with", "takes_batches"]


def batched(simulator: Simulator) -> Simulator:
    """Mark a simulator as one that takes batches: rows of parameters (b, d) in, rows of summaries (b, s) out.

    Use it as a decorator. `simulate`, `infer` and the methods that run a simulator then need no ``batched=True``.

    Examples
    --------
    >>> @batched
    ... def simulator(theta, rng):
    ...     return theta + rng.standard_normal(theta.shape)
    >>> takes_batches(simulator)
    True
    """
    try:
        simulator.batched = True  # type: ignore[attr-defined]
    except AttributeError:
        raise ArgumentTypeError(
            "simulator", f"simulator is {simulator!r}, which cannot be marked; give batched=True instead."
        ) from None
    return simulator


def takes_batches(simulator: Simulator) -> bool:
    """Return whether a simulator was marked by `batched`."""
    return getattr(simulator, "batched", False) is True


@dataclass(frozen=True)
class SimulationOptions:
    """How simulations are run: the options of `simulate` and `infer` in one value.

    Parameters
    ----------
    n_jobs : int, optional
        How many run at once, as in joblib; -1 uses all cores.
    store : path-like or SimulationStore, optional
        Where results are kept.
    timeout : float, optional
        Seconds after which a call is ended.
    batched : bool
        Whether the simulator takes batches; not needed for one marked by `lfi.batched`.
    summarize : callable, optional
        Turns what the simulator returns into summaries.
    progress : bool, optional
        Show a progress bar; by default on a terminal only.
    """

    n_jobs: int | None = None
    store: SimulationStore | str | os.PathLike[str] | None = None
    timeout: float | None = None
    batched: bool = False
    summarize: Callable[[NDArray[np.float64]], Any] | None = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.batched, bool | np.bool_):
            raise ArgumentTypeError(
                "batched",
                f"batched is {self.batched!r}; give True if the simulator takes many rows at once, else False.",
            )
        if isinstance(self.timeout, str | bytes | bool):
            raise ArgumentTypeError(
                "timeout", f"timeout is {self.timeout!r}; give a number of seconds, or None for no limit."
            )
        if self.timeout is not None:
            as_number(self.timeout, "timeout", minimum=0.0, strict=True, remedy="Give seconds, or None for no limit.")
        jobs = self.n_jobs
        if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int | np.integer) or jobs == 0):
            raise ArgumentError(
                "n_jobs", f"n_jobs is {jobs!r}; give a whole number other than 0 (-1 for all cores), or None."
            )

    @property
    def limit(self) -> float | None:
        """Seconds for one call, as a float."""
        return None if self.timeout is None else float(self.timeout)


def simulate(
    simulator: Simulator,
    prior: Prior,
    n: int | None = None,
    *,
    seed: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    store: SimulationStore | str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    batched: bool = False,
    summarize: Callable[[NDArray[np.float64]], Any] | None = None,
    timeout: float | None = None,
    proposal: ArrayLike | None = None,
    round: int | str | None = None,
) -> Simulations:
    """Run a simulator n times, at draws from the prior or at the rows of a proposal, and return every attempt.

    A simulation that raises, returns NaN or the wrong number of values, or takes too long, is a row with a reason.
    Each has a random generator of its own, fixed by `seed`, the round and the row: results do not depend on
    `n_jobs`, on the order in which they finish, on interruptions, or on n. One exception: with batches, the rows of
    a proposal that fill its last batch of 100 only in part depend on how many they are.

    With a `store`, each result is written as soon as it is there. The same call resumes after any interruption and
    runs only what is missing; a larger n adds to what is there; two processes may make the same call at once and
    share the work. After a process was killed, the rows that it was running are free again within 20 seconds.

    What is stored is kept: use a new file after a change of the simulator. A `SimulationWarning` says so where its
    name or its source text has changed. After a change of `summarize`, summaries are computed again from raw data.

    Where simulations run is joblib's choice, and yours by ``joblib.parallel_config``. On a Dask cluster
    (``pip install "decond[dask]"``, on its workers too)::

        with Client("scheduler:8786"), joblib.parallel_config("dask"):
            sims = simulate(simulator, prior, n=1000, store="runs.sqlite")

    What a worker was running when it died runs on another one. Only this process writes the store. Dask does not end
    what a worker is running: without a `timeout`, a simulation that hangs holds it until the worker is restarted.

    Parameters
    ----------
    simulator : callable
        ``simulator(theta, rng)`` with one row of parameters (d,), returning summaries (s,); one that is marked by
        `lfi.batched` gets rows (b, d) and returns (b, s), 100 at a time; if a batch raises, its rows run one by one.
        Summaries may have names: a dict or a Series; of a batch a frame, a dict of columns, or a list of dicts. They
        are put in the order in which they come first.
    prior : Prior
        The prior; without a `proposal` its draws are the parameters.
    n : int
        How many simulations.
    seed : int or numpy.random.Generator, optional
        Fixes the parameters and the generators.
    n_jobs : int, optional
        How many run at once, as in joblib; -1 uses all cores. On a Dask cluster, None is as many as it has threads.
    store : path-like or SimulationStore, optional
        Where results are kept; None keeps nothing.
    progress : bool, optional
        Show a progress bar; by default on a terminal only.
    batched : bool
        Whether the simulator takes many rows at once, if it is not marked.
    summarize : callable, optional
        Turns what the simulator returns, an array of any shape, into summaries, which may have names; the raw data,
        which may not, are kept.
    timeout : float, optional
        Seconds after which a call is ended and counted as failed. It then runs in a process of its own, so that the
        limit holds for compiled code too, and a crash is one more failed simulation.
    proposal : array_like of shape (n, d), optional
        Parameters to run at instead of draws from the prior.
    round : int or str, optional
        A label that keeps rounds apart, in the store and in their random numbers; by default 0 for draws from the
        prior and 1 for a proposal. "method" is the store's own.

    Returns
    -------
    Simulations
        A row for each attempt.

    Examples
    --------
    >>> from scipy import stats
    >>> prior = Prior({"rate": stats.gamma(2)})
    >>> sims = simulate(lambda theta, rng: rng.exponential(1 / theta[0], 5).mean(), prior, n=20, seed=0)
    >>> sims.theta.shape, sims.x.shape, sims.n_valid
    ((20, 1), (20, 1), 20)
    """
    options = SimulationOptions(n_jobs, store, timeout, batched, summarize, progress)
    return simulate_with(options, simulator, prior, n, seed=seed, proposal=proposal, round=round)


def simulate_with(
    options: SimulationOptions,
    simulator: Simulator,
    prior: Prior,
    n: int | None = None,
    *,
    seed: int | np.random.Generator | None = 0,
    proposal: ArrayLike | None = None,
    round: int | str | None = None,
) -> Simulations:
    """Do what `simulate` does, with all options in one value.

    Parameters
    ----------
    options : SimulationOptions
        How to run.
    simulator, prior, n, seed, proposal, round
        What to run, as `simulate` takes it.
    """
    label = str(round if round is not None else 0 if proposal is None else 1)
    if label in RESERVED:
        raise ArgumentError(
            "round", f"round is {round!r}, which the store uses for its own rows; choose another label."
        )
    _check_call("simulator", simulator, "(theta, rng)")
    if options.summarize is not None:
        _check_call("summarize", options.summarize, "(raw)")
    in_batches = bool(options.batched) or takes_batches(simulator)
    entropy = _as_entropy(seed)
    theta, count = _parameters(prior, proposal, n, entropy, label, in_batches)
    plan = Plan.of(entropy, in_batches, proposal is not None, simulator, options.summarize)
    work = Work((simulator, options.summarize, in_batches), options.limit, entropy, label)
    with open_store(options.store, prior) as store:
        store.open_round(label, theta, plan, options.summarize)
        with progress_bar("simulations", count, options.progress) as report:
            _run(store, work, count, options.n_jobs, report)
        simulations = store.simulations(label, count)
    _report(simulations, label, store.path)
    return simulations


def _run(store: SimulationStore, work: Work, n: int, n_jobs: int | None, report: Report) -> None:
    """Run what is open until the first n rows are finished, here or by another process."""
    size = BATCH_SIZE if work.functions[2] else 1

    def tally() -> tuple[int, int]:
        finished, failed = store.tally(work.label, n)
        report(finished, status=f"{failed} failed")
        return finished, failed

    finished, failed = tally()
    if finished >= n:  # nothing is written: the store may be one that can only be read
        return
    with store.worker() as worker:
        while finished < n:
            tasks: Iterator[Task] = iter(lambda: store.lease(worker, work.label, n, size), None)
            first = next(tasks, None)
            if first is None:  # other processes run the rest, or one that died, whose lease has not expired
                time.sleep(store.settings.poll)
            else:
                with contextlib.closing(results(work, itertools.chain([first], tasks), n_jobs)) as arriving:
                    for rows, found in arriving:
                        store.finish(work.label, rows, found)
                        finished += len(rows)
                        failed += sum(bool(result.reason) for result in found)
                        report(min(finished, n), status=f"{failed} failed")
            finished, failed = tally()


def _check_call(name: str, function: object, arguments: str) -> None:
    if not callable(function):
        raise ArgumentTypeError(name, f"{name} is {function!r}; give a function, {name}{arguments}.")
    try:
        inspect.signature(function).bind(*[None] * (1 + arguments.count(",")))
    except ValueError:  # functions written in C may have no signature
        return
    except TypeError as error:
        called = str(getattr(function, "__qualname__", type(function).__qualname__))
        raise ArgumentTypeError(name, f"{name} {called} cannot be called as {name}{arguments}: {error}.") from None


def _as_entropy(seed: int | np.random.Generator | None) -> int:
    if seed is None:
        return 0
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ArgumentError(
            "seed", f"seed is {seed!r}; give a whole number of at least 0, a NumPy Generator, or None."
        )
    return int(seed)


def _parameters(
    prior: Prior, proposal: ArrayLike | None, n: int | None, entropy: int, label: str, in_batches: bool
) -> tuple[NDArray[np.float64], int]:
    """Return the parameters to plan, and how many of them were asked for: batches of prior draws are always full."""
    if not isinstance(prior, Prior):
        raise ArgumentTypeError(
            "prior", f"prior is {prior!r}; give a Prior, for example Prior({{'rate': scipy.stats.gamma(2)}})."
        )
    if proposal is None:
        count = as_count(n, "n")
        planned = -(-count // BATCH_SIZE) * BATCH_SIZE if in_batches else count
        return drawn_parameters(prior, entropy, label, planned), count
    theta = prior.rows(proposal, "proposal")
    if n is not None and as_count(n, "n") != len(theta):
        raise ArgumentError("n", f"n is {n} but proposal has {len(theta)} rows; leave n out, or give as many rows.")
    outside = ~prior.contains(theta)
    if outside.any():
        raise ArgumentError(
            "proposal",
            f"{outside.sum()} row(s) of proposal lie outside the prior's support, the first at row "
            f"{outside.argmax()} ({theta[outside.argmax()]}). Remove them: the posterior is zero there.",
        )
    return theta, len(theta)


def _report(simulations: Simulations, label: str, path: str) -> None:
    """Warn if fewer than half of the simulations are valid; raise if none is."""
    share = simulations.n_valid / len(simulations)
    if share >= 0.5:
        return
    reasons = "; ".join(f"{count} × {reason}" for reason, count in itertools.islice(simulations.failures.items(), 3))
    if simulations.n_valid > 0:
        message = (
            f"only {simulations.n_valid} of {len(simulations)} simulations are valid (P(valid) = {share:.2f} over "
            f"these parameters): {reasons}. Look at sims.failures; narrow the prior if it reaches where the "
            "simulator cannot go."
        )
        warn(FewValidWarning(message, n_valid=simulations.n_valid, n=len(simulations)))
        return
    why = reasons if len(simulations.failures) > 1 else next(iter(simulations.failures))
    if any(word in why for word in ("IndexError", "to unpack")):  # it reached for a parameter that is not there
        n = len(simulations.names)
        why += f" (the prior has {n} parameter{'s' if n > 1 else ''}: {', '.join(simulations.names)})"
    remedy = "Correct the simulator."
    if path != ":memory:":
        again = f"SimulationStore({path!r}).retry_failures({'' if label == '0' else repr(label)})"
        remedy += f" The store keeps failures too: use a new one, or open them again with {again}."
    raise SimulationError(
        f"all {len(simulations)} simulations failed: {why}. {remedy}", failures=simulations.failures
    )
