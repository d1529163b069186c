"""Running a simulator many times: in parallel, into a store that survives, and with failures kept."""

import contextlib
import inspect
import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from decond.checks import as_count, as_number
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.claims import Claimant
from decond.lfi.draws import BLOCK, drawn_parameters
from decond.lfi.exceptions import FewValidWarning, SimulationError
from decond.lfi.fingerprint import fingerprint
from decond.lfi.plans import RESERVED, Plan
from decond.lfi.pool import results
from decond.lfi.prior import Prior
from decond.lfi.simulations import Simulations
from decond.lfi.store import SimulationStore, opened
from decond.lfi.work import Task, Work
from decond.messages import warn
from decond.progress import Report, progress_bar

__all__ = ["SimulationError", "simulate"]

FEW = 0.5
"""A share of valid simulations below which a warning says so."""

POLL = 0.1
"""Seconds between two looks at what other processes are still running."""

Simulator = Callable[..., Any]


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
    summarize: Callable[[np.ndarray], Any] | None = None,
    timeout: float | None = None,
    proposal: Any = None,
    round: int | str | None = None,
) -> Simulations:
    """Run a simulator n times, at draws from the prior or at the rows of a proposal, and return every attempt.

    A simulation that raises, returns NaN or the wrong number of values, or takes too long, is a row with a reason.
    Each has a random generator of its own, fixed by `seed`, the round and the row: results do not depend on
    `n_jobs`, on the order in which they finish, on interruptions, or on n. One exception: with `batched`, the rows of
    a proposal that fill its last batch of 100 only in part depend on how many they are.

    With a `store`, each result is written as soon as it is there. The same call resumes after any interruption and
    runs only what is missing; a larger n adds to what is there; two processes may make the same call at once and
    share the work. What is stored is kept: use a new file after a change of the simulator; a `SimulationWarning` says
    so where its code is another one. After a change of `summarize`, summaries are computed again from the raw data.

    Where simulations run is joblib's choice, and yours by ``joblib.parallel_config``. On a Dask cluster
    (``pip install "decond[dask]"``, on its workers too)::

        with Client("scheduler:8786"), joblib.parallel_config("dask"):
            sims = simulate(simulator, prior, n=1000, store="runs.sqlite")

    What a worker was running when it died runs on another one. Only this process writes the store. Dask does not end
    what a worker is running: without a `timeout`, a simulation that hangs holds it until the worker is restarted.

    Args:
        simulator: ``simulator(theta, rng)`` with one row of parameters (d,), returning summaries (s,); with
            `batched`, rows (b, d) in and (b, s) out, 100 at a time; if a batch raises, its rows run one by one.
            Summaries may have names: a dict or a Series; of a batch a frame, a dict of columns, or a list of dicts.
            They are put in the order in which they come first.
        prior: The prior; without a `proposal` its draws are the parameters.
        n: How many simulations.
        seed: Fixes the parameters and the generators.
        n_jobs: How many run at once, as in joblib; -1 uses all cores. On a Dask cluster, None is as many as it has
            threads.
        store: A file name, a `SimulationStore`, or None to keep nothing.
        progress: Show a progress bar; by default on a terminal only.
        batched: Whether the simulator takes many rows at once.
        summarize: Turns what the simulator returns, an array of any shape, into summaries, which may have names too;
            the raw data are kept. It gets values without names: where raw data have names, those in another order
            than the first are failed simulations.
        timeout: Seconds after which a call is ended and counted as failed. It then runs in a process of its own,
            so that the limit holds for compiled code too, and a crash is one more failed simulation.
        proposal: Parameters (n, d) to run at instead of draws from the prior.
        round: A label that keeps rounds apart, in the store and in their random numbers; by default 0 for draws
            from the prior and 1 for a proposal. "asked", "added" and "method" are the store's own.

    >>> from scipy import stats
    >>> prior = Prior({"rate": stats.gamma(2)})
    >>> sims = simulate(lambda theta, rng: rng.exponential(1 / theta[0], 5).mean(), prior, n=20, seed=0)
    >>> sims.theta.shape, sims.x.shape, sims.n_valid
    ((20, 1), (20, 1), 20)
    """
    label = str(round if round is not None else 0 if proposal is None else 1)
    if label in RESERVED:
        raise ArgumentError(
            "round", f"round is {round!r}, which the store uses for rows made elsewhere; choose another label."
        )
    _check_call(simulator, summarize)
    check_options(batched, timeout)
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0):
        raise ArgumentError(
            "n_jobs", f"n_jobs is {n_jobs!r}; give a whole number other than 0 (-1 for all cores), or None."
        )
    limit = None if timeout is None else float(timeout)
    entropy = _as_entropy(seed)
    theta, count = _parameters(prior, proposal, n, entropy, label, batched)
    made = (_name(simulator), fingerprint(simulator), fingerprint(summarize))
    plan = Plan(entropy, bool(batched), proposal is not None, *made)
    with opened(store, prior) as file:
        file.plan(label, theta, plan, summarize)
        with progress_bar("simulations", count, progress) as report:
            _run(file, Work(simulator, summarize, batched, limit, entropy, label), count, n_jobs, report)
        simulations = file.simulations(label, count)
    _report(simulations, label, file.path)
    return simulations


# ---- running -------------------------------------------------------------------------------------------------


def _run(store: SimulationStore, work: Work, n: int, n_jobs: int | None, report: Report) -> None:
    """Run what is open until the first n rows are finished, here or by another process."""
    claimant = Claimant(store.database)
    batch = BLOCK if work.functions[2] else 1
    with claimant.at_work():
        while True:
            claimant.release_dead()
            finished, failed = store.tally(work.label, n)
            report(finished, status=f"{failed} failed")
            if finished >= n:
                return
            tasks = _claimed(claimant, work, n, batch)
            first = next(tasks, None)
            if first is None:  # other processes are running the rest
                time.sleep(POLL)
                continue
            with contextlib.closing(results(work, itertools.chain([first], tasks), n_jobs)) as arriving:
                for rows, found in arriving:
                    store.finish(work.label, rows, found)
                    finished += len(rows)
                    failed += sum(bool(result.reason) for result in found)
                    report(min(finished, n), status=f"{failed} failed")


def _claimed(claimant: Claimant, work: Work, n: int, batch: int) -> Iterator[Task]:
    """Claim rows one task after the other, when the next is asked for."""
    while claimed := claimant.claim(work.label, n, batch):
        theta = np.array([np.frombuffer(blob, dtype="<f8") for _, blob in claimed])
        yield [row for row, _ in claimed], theta


# ---- the door ------------------------------------------------------------------------------------------------


def _check_call(simulator: Any, summarize: Any) -> None:
    for name, function, arguments in (("simulator", simulator, "(theta, rng)"), ("summarize", summarize, "(raw)")):
        if function is None and name == "summarize":
            continue
        if not callable(function):
            raise ArgumentTypeError(name, f"{name} is {function!r}; give a function, {name}{arguments}.")
        try:
            inspect.signature(function).bind(*[None] * (1 + arguments.count(",")))
        except ValueError:  # functions written in C may not tell
            continue
        except TypeError as error:
            raise ArgumentTypeError(
                name, f"{name} {_name(function)} cannot be called as {name}{arguments}: {error}."
            ) from None


def check_options(batched: Any, timeout: Any) -> None:
    """Raise unless `batched` is True or False, and `timeout` None or a number of seconds."""
    if not isinstance(batched, bool | np.bool_):
        raise ArgumentTypeError(
            "batched", f"batched is {batched!r}; give True if the simulator takes many rows at once, else False."
        )
    if isinstance(timeout, str | bytes | bool):
        raise ArgumentTypeError("timeout", f"timeout is {timeout!r}; give a number of seconds, or None for no limit.")
    if timeout is not None:
        as_number(timeout, "timeout", minimum=0.0, strict=True, remedy="Give seconds, or None for no limit.")


def _as_entropy(seed: Any) -> int:
    if seed is None:
        return 0
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ArgumentError(
            "seed", f"seed is {seed!r}; give a whole number of at least 0, a NumPy Generator, or None."
        )
    return int(seed)


def _parameters(prior: Any, proposal: Any, n: Any, entropy: int, label: str, batched: bool) -> tuple[np.ndarray, int]:
    """Return the parameters to plan, and how many of them were asked for: batches of prior draws are always full."""
    if not isinstance(prior, Prior):
        raise ArgumentTypeError(
            "prior", f"prior is {prior!r}; give a Prior, for example Prior({{'rate': scipy.stats.gamma(2)}})."
        )
    if proposal is None:
        count = as_count(n, "n")
        planned = -(-count // BLOCK) * BLOCK if batched else count
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


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


# ---- what the user sees --------------------------------------------------------------------------------------


def _report(simulations: Simulations, label: str, path: str) -> None:
    """Say so if few simulations are valid; raise if none is."""
    share = simulations.n_valid / len(simulations)
    if share >= FEW:
        return
    reasons = "; ".join(f"{count} × {reason}" for reason, count in itertools.islice(simulations.failures.items(), 3))
    if simulations.n_valid == 0:
        why = reasons if len(simulations.failures) > 1 else next(iter(simulations.failures))
        many, names = len(simulations.names) > 1, ", ".join(simulations.names)
        short = f" (the prior has {len(simulations.names)} parameter{'s' if many else ''}: {names})"
        reached = any(word in why for word in ("IndexError", "to unpack"))  # for a parameter that is not there
        raise SimulationError(
            f"all {len(simulations)} simulations failed: {why}{short if reached else ''}. {_mend(label, path)}",
            failures=simulations.failures,
        )
    message = (
        f"only {simulations.n_valid} of {len(simulations)} simulations are valid (P(valid) = {share:.2f} over these "
        f"parameters): {reasons}. Look at sims.failures; narrow the prior if it reaches where the simulator "
        "cannot go."
    )
    warn(FewValidWarning(message, n_valid=simulations.n_valid, n=len(simulations)))


def _mend(label: str, path: str) -> str:
    """Return what to do when all simulations failed; a store in a file would give the same failures again."""
    if path == ":memory:":
        return "Mend the simulator."
    again = f"SimulationStore({path!r}).retry_failures({'' if label == '0' else repr(label)})"
    return f"Mend the simulator. The store keeps failures too: use a new one, or open them again with {again}."
