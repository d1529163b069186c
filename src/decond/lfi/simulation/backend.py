"""Where simulations run: in joblib's workers, or on a Dask cluster if joblib is configured for one.

joblib's own way to Dask waits for ever when Dask gives a task up, because its workers died or could not load it.
So joblib's configuration is read, and Dask's client is used here.
"""

import contextlib
import functools
import itertools
import os
import pickle
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import BrokenExecutor
from typing import TYPE_CHECKING, Any, Literal

import joblib
import numpy as np
from joblib.parallel import get_active_backend
from numpy.typing import NDArray

from decond.lfi.exceptions import SimulationError, TransferError, WorkerError
from decond.lfi.simulation.worker import (
    Functions,
    Result,
    StartError,
    WorkerProcess,
    call,
    companion,
    describe,
    generator,
)

if TYPE_CHECKING:
    from distributed import Future
    from joblib._dask import DaskDistributedBackend

__all__ = ["Rows", "Task", "Work", "packed", "results"]

CRASHED = (
    "the simulator crashed, or there was not enough memory. A store keeps what had finished. With timeout=... "
    "simulations run in processes of their own, and a crash is one failed row."
)

Task = tuple[list[int], NDArray[np.float64]]
"""Rows, and their parameters (b, d): what runs in one piece."""

Rows = tuple[list[int], list[Result]]
"""Rows, and their results."""


class Work:
    """What a worker needs to run rows. The functions are pickled by value, once, when a worker is another process.

    Parameters
    ----------
    functions : tuple
        The simulator, `summarize` or None, and whether the simulator takes batches.
    limit : float, optional
        Seconds for one call.
    seed : int
        Fixes the generator of each row.
    label : str
        The round.
    """

    def __init__(self, functions: Functions, limit: float | None, seed: int, label: str) -> None:
        self.functions, self.limit, self.seed, self.label = functions, limit, seed, label
        self._payload: bytes | None = None

    def __call__(self, rows: list[int], theta: NDArray[np.float64]) -> Rows:
        """Run rows: one, or a batch, and the rows of a batch one by one if it fails as a whole.

        Parameters
        ----------
        rows : list of int
            Row numbers.
        theta : ndarray of shape (b, d)
            Their parameters.
        """
        purpose = 2 if self.functions[2] else 1
        results = self._call(theta, generator(self.seed, purpose, self.label, rows[0]))
        if len(rows) > 1 and all(result.x is None for result in results):
            single = (generator(self.seed, 1, self.label, row) for row in rows)
            results = [self._call(theta[i : i + 1], rng)[0] for i, rng in enumerate(single)]
        return rows, results

    def payload(self) -> bytes:
        """Return the functions, pickled."""
        if self._payload is None:
            self._payload = packed(self.functions)
        return self._payload

    def _call(self, theta: NDArray[np.float64], rng: np.random.Generator) -> list[Result]:
        if self.limit is None:
            return call(self.functions, theta, rng)
        try:
            return _process(self.payload(), self.limit)(theta, rng)
        except StartError as error:
            raise TransferError(str(error)) from error

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "functions": None, "_payload": self.payload()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.functions = _loaded(state["_payload"])


def packed(functions: Functions) -> bytes:
    """Return functions, pickled by value, as another process takes them; raise if one of them cannot be sent."""
    try:
        return _pickled(functions)
    except Exception as error:
        raise _unsendable(error, functions) from error


def results(work: Work, tasks: Iterator[Task], n_jobs: int | None) -> Generator[Rows, None, None]:
    """Yield the rows and the results of tasks as they finish.

    Parameters
    ----------
    work : Work
        What runs.
    tasks : iterator
        Rows and their parameters; the next one is asked for when a worker is free.
    n_jobs : int, optional
        How many run at once, as in joblib.
    """
    backend, wanted = get_active_backend()
    try:
        if hasattr(backend, "client"):  # of joblib's backends, the one for Dask
            arriving = _DaskRun(backend, work, wanted if n_jobs is None else n_jobs).results(tasks)
        else:
            arriving = _from_joblib(work, tasks, n_jobs)
        with contextlib.closing(arriving):
            yield from arriving
    finally:
        _close_process()


def _pickled(value: object) -> bytes:
    return pickle.dumps(joblib.wrap_non_picklable_objects(value, keep_wrapper=False))


@functools.lru_cache(maxsize=1)
def _loaded(payload: bytes) -> Functions:
    """Return the functions of a run, unpickled once in each process."""
    functions: Functions = pickle.loads(payload)
    return functions


def _unsendable(error: Exception, functions: Functions) -> TransferError:
    """Return the error for a function that cannot be pickled."""
    name: Literal["simulator", "summarize"] = "summarize"
    try:
        _pickled(functions[0])
    except Exception:
        name = "simulator"
    return TransferError(
        f"the function {name} cannot be sent to another process: {error}. Let it open files and connections itself, "
        "when it is called; or use n_jobs=1 without timeout and without a cluster.",
        function=name,
    )


_own = threading.local()
"""The worker process of each thread, for calls with a limit; it ends by itself when it is idle."""


def _process(payload: bytes, limit: float) -> WorkerProcess:
    """Return the worker process of this thread, a new one for each run."""
    process: WorkerProcess | None = getattr(_own, "process", None)
    if process is None or (process.payload, process.limit) != (payload, limit):
        _close_process()
        _own.process = process = WorkerProcess(payload, limit)
    return process


def _close_process() -> None:
    process = getattr(_own, "process", None)
    _own.process = None
    if process is not None:
        process.close()


# ---- joblib --------------------------------------------------------------------------------------------------


def _from_joblib(work: Work, tasks: Iterator[Task], n_jobs: int | None) -> Generator[Rows, None, None]:
    """Yield results as they finish; in small groups where joblib's backend can only return lists."""
    calls = (joblib.delayed(work)(rows, theta) for rows, theta in tasks)
    options: dict[str, Any] = {"n_jobs": n_jobs, "initializer": companion(), "initargs": (os.getpid(),)}
    try:
        try:
            parallel = joblib.Parallel(return_as="generator_unordered", **options)
        except ValueError:  # of joblib's own, the multiprocessing backend cannot
            size = 2 * joblib.effective_n_jobs(n_jobs)
            with joblib.Parallel(**options) as parallel:
                while group := list(itertools.islice(calls, size)):
                    yield from parallel(group)
            return
        yield from _as_they_come(parallel(calls))
    except pickle.PicklingError as error:
        work.payload()  # says which function it is
        raise _unsendable(error, work.functions) from error
    except BrokenExecutor as error:
        if "un-serialize" in str(error):
            raise TransferError(
                "the simulator could not be loaded in a worker process: the module that defines it cannot be "
                "imported there. Define it in a module that can be imported, or use n_jobs=1."
            ) from error
        raise WorkerError(f"a worker process died: {CRASHED}") from error


def _as_they_come(arriving: Generator[Rows, None, None]) -> Iterator[Rows]:
    """Yield results; when we are interrupted, end what is running without joblib's warning that it is ended."""
    try:
        for result in arriving:  # noqa: UP028  ("yield from" would close the results before we can)
            yield result
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arriving.close()


# ---- Dask ----------------------------------------------------------------------------------------------------


class _DaskRun:
    """A Dask cluster at work on one run.

    The simulator goes to the cluster once. Workers hand it on to each other, and the scheduler has it again if they
    all die. What a dead worker was running runs elsewhere; Dask gives up after its `allowed-failures`. While nothing
    arrives, workers are looked for every `wait_for_workers_timeout` seconds, an option of joblib's backend.

    Parameters
    ----------
    backend : object
        joblib's backend for Dask, with the client and the options that the user gave.
    work : Work
        What runs.
    n_jobs : int, optional
        How many tasks run at once; None or -1 for as many as the cluster has threads, -2 for one less.
    """

    def __init__(self, backend: "DaskDistributedBackend", work: Work, n_jobs: int | None) -> None:
        self._backend, self._client, self._work = backend, backend.client, work
        self._token = uuid.uuid4().hex
        self._n_jobs = -1 if n_jobs is None else n_jobs
        self._patience = float(backend.wait_for_workers_timeout)
        self._threads, self._looked = 0, float("-inf")
        self._running: set[Any] = set()
        self._arriving: Any = None

    def results(self, tasks: Iterator[Task]) -> Generator[Rows, None, None]:
        """Yield the rows and the results of tasks as they finish; what still runs at the end is given up."""
        payload = pickle.dumps(self._work)
        self._threads = self._backend.effective_n_jobs(-1)  # waits a while for the first worker
        try:
            with self._backend.retrieval_context():
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "Sending large graph")  # it is sent once
                    simulator = self._submit(bytes, payload, key=f"simulator-{self._token}")
                self._arriving = self._tracked()
                self._fill(tasks, simulator)
                while self._running:
                    future, reply = self._next()
                    self._running.discard(future)
                    found = _checked(future, reply)
                    self._fill(tasks, simulator)
                    yield found
        except OSError as error:
            raise _lost(error) from error
        finally:
            for future in self._running:
                future.release()

    def _submit(self, function: Callable[..., Any], *arguments: Any, key: str) -> Any:
        return self._client.submit(function, *arguments, key=key, **self._backend.submit_kwargs)

    def _tracked(self) -> Any:
        """Return an iterator over the tasks that are out, as they finish; it stops waiting after a while."""
        from distributed import as_completed

        options = {"with_results": True, "raise_errors": False, "timeout": self._patience}
        return as_completed(self._running, loop=self._client.loop, **options)

    def _next(self) -> tuple[Any, Any]:
        """Return the next task that finishes, with its reply; raise if there are no workers any more."""
        without = 0
        while True:
            try:
                return next(self._arriving)
            except TimeoutError:
                without = 0 if self._has_workers() else without + 1
                if without > 1:
                    raise WorkerError(
                        f"the Dask cluster has had no worker for {self._patience:.0f} s: they are gone, or paused "
                        "because their memory is full. A store keeps what had finished; add workers (dask worker "
                        "ADDRESS), and the same call goes on."
                    ) from None
                self._arriving = self._tracked()

    def _has_workers(self) -> bool:
        def running(dask_scheduler: Any = None) -> int:  # local, so that it is sent by value
            return len(dask_scheduler.running)

        return bool(self._client.run_on_scheduler(running))

    def _fill(self, tasks: Iterator[Task], simulator: "Future") -> None:
        """Send tasks until the cluster has enough."""
        while len(self._running) < self._room() and (task := next(tasks, None)) is not None:
            future = self._submit(_launcher(), simulator, *task, key=f"simulate-{self._token}-{task[0][0]}")
            self._running.add(future)
            self._arriving.add(future)

    def _room(self) -> int:
        """Return how many tasks may be out: if the number is not limited, also one for each thread to go on with."""
        if self._n_jobs > 0:
            return self._n_jobs
        if time.monotonic() - self._looked > 1.0:  # seconds; looking asks the scheduler
            self._threads = max(1, sum(self._client.nthreads().values()))
            self._looked = time.monotonic()
        return 2 * self._threads if self._n_jobs == -1 else max(1, self._threads + 1 + self._n_jobs)


def _launcher() -> Callable[[bytes, list[int], NDArray[np.float64]], Rows]:
    """Return what workers run: a local function, which is sent by value.

    A worker that cannot import something then says so. Dask tries for ever to send functions that it has to import.
    """

    def _simulate(payload: bytes, rows: list[int], theta: NDArray[np.float64]) -> Rows:
        import pickle

        try:
            work: Work = pickle.loads(payload)
        except Exception as error:
            raise ImportError(f"{type(error).__name__}: {error}") from None
        return work(rows, theta)

    return _simulate


def _checked(future: "Future", reply: Any) -> Rows:
    """Return the results of a task, or raise what kept Dask from running it; failed simulations are results."""
    from distributed import CancelledError, KilledWorker

    if future.status == "finished":
        found: Rows = reply
        return found
    error: BaseException = reply[1] if future.status == "error" else reply
    if isinstance(error, KilledWorker):
        raise WorkerError(
            f"workers of the Dask cluster died, one after the other, while they ran the same simulations: {CRASHED}"
        ) from error
    if isinstance(error, CancelledError):
        raise _lost(error) from error
    if isinstance(error, ImportError):
        raise TransferError(
            f"the simulator could not be loaded by a worker of the Dask cluster ({error}). Install decond and the "
            "module that defines the simulator on the workers; client.upload_file(...) sends a single file."
        ) from error
    raise SimulationError(f"a worker of the Dask cluster could not run the simulator ({describe(error)}).") from error


def _lost(error: BaseException) -> WorkerError:
    return WorkerError(
        f"the Dask cluster gave up the simulations ({describe(error)}). It was closed or restarted, or "
        "the connection broke. A store keeps what had finished; connect again, and the same call goes on."
    )
