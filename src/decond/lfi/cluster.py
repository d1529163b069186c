"""Simulations on a Dask cluster: groups of rows go out, and come back in the order in which they finish.

joblib's own way to Dask waits for ever when Dask gives a task up, because its workers died or could not load it.
So what joblib was told is read, and the rest is said to Dask's client here.
"""

import itertools
import pickle
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from typing import Any

from decond.lfi.exceptions import SimulationError, TransferError, WorkerError
from decond.lfi.execution import Result, described
from decond.lfi.work import CRASHED, Task, Work
from decond.streaming import cluster as workers

__all__ = ["Cluster", "group_size"]

GROUP_SECONDS = 0.2
"""Seconds of simulation that go out together: a task of Dask costs about a millisecond."""

GROUP_MOST = 100
"""Tasks that go out together at most: those that follow quick ones may be slow."""

LOOK = 1.0
"""Seconds between two looks at how large the cluster is."""

_DESERTED = (
    "the Dask cluster has had no worker for {:.0f} s: they are gone, or paused because their memory is full. "
    "A store keeps what had finished; add workers (dask worker ADDRESS), and the same call goes on."
)

Rows = tuple[list[int], list[Result]]


class Cluster:
    """A Dask cluster at work on one run.

    The simulator goes to the cluster once. Workers hand it on to each other, and the scheduler has it again if they
    all die. What a dead worker was running runs elsewhere; Dask gives up after its `allowed-failures`.

    Args:
        backend: joblib's backend for Dask, with the client and the options that the user gave.
        work: What runs.
        n_jobs: How many tasks run at once; None or -1 for as many as the cluster has threads, -2 for one less.
    """

    def __init__(self, backend: Any, work: Work, n_jobs: int | None) -> None:
        self._client = backend.client
        self._backend = backend
        self._options = backend.submit_kwargs
        self._work = work
        self._n_jobs = -1 if n_jobs is None else n_jobs
        self._threads = 0
        self._looked = float("-inf")
        self._size = 1
        self._running: set[Any] = set()
        self._arriving: Any = None

    def results(self, tasks: Iterator[Task]) -> Generator[Rows, None, None]:
        """Yield the rows and the results of tasks as they finish; what still runs at the end is given up."""
        packed = pickle.dumps(self._work)
        self._threads = self._backend.effective_n_jobs(-1)  # waits a while for the first worker
        try:
            with self._backend.retrieval_context():
                simulator = self._sent(packed)
                self._arriving = self._tracked()
                self._fill(tasks, simulator)
                while self._running:
                    future, answer = self._next()
                    self._running.discard(future)
                    found = _checked(future, answer)
                    self._adapt(found)
                    self._fill(tasks, simulator)
                    yield from found
        except OSError as error:
            raise _lost(error) from error
        finally:
            for future in self._running:
                future.release()

    def _sent(self, packed: bytes) -> Any:
        """Return the simulator as it is on the cluster: bytes, because not every worker may be able to load it."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # it is sent once
            return self._client.submit(bytes, packed, key=f"simulator-{self._work.token}", **self._options)

    def _tracked(self) -> Any:
        """Return an iterator over the groups that are out, as they finish; it stops waiting after a while."""
        from distributed import as_completed

        options = {"with_results": True, "raise_errors": False, "timeout": workers.PATIENCE}
        return as_completed(self._running, loop=self._client.loop, **options)

    def _next(self) -> tuple[Any, Any]:
        """Return the next group that finishes, with its answer; raise if there are no workers any more."""
        watch = workers.WorkerWatch(self._client)
        while True:
            try:
                return next(self._arriving)
            except TimeoutError:
                if watch.abandoned():
                    raise WorkerError(_DESERTED.format(workers.PATIENCE)) from None
                self._arriving = self._tracked()

    def _fill(self, tasks: Iterator[Task], simulator: Any) -> None:
        """Send tasks until the cluster has enough."""
        room = self._room()
        while len(self._running) < room and (group := list(itertools.islice(tasks, self._size))):
            key = f"simulate-{self._work.token}-{group[0][0][0]}"
            future = self._client.submit(_launcher(), simulator, group, key=key, **self._options)
            self._running.add(future)
            self._arriving.add(future)

    def _room(self) -> int:
        """Return how many groups may be out: if the number is not limited, also one for each thread to go on with."""
        if self._n_jobs > 0:
            return self._n_jobs
        if time.monotonic() - self._looked > LOOK:
            self._threads = max(1, sum(self._client.nthreads().values()))
            self._looked = time.monotonic()
        return 2 * self._threads if self._n_jobs == -1 else max(1, self._threads + 1 + self._n_jobs)

    def _adapt(self, found: list[Rows]) -> None:
        """Choose the size of further groups by the time that this one took."""
        seconds = sum(result.seconds for _, results in found for result in results) / len(found)
        self._size = group_size(seconds, len(found))


def group_size(seconds: float, last: int) -> int:
    """Return how many tasks of so many seconds go out together, at most twice as many as last time.

    >>> group_size(1.0, last=8), group_size(0.05, last=8), group_size(0.0, last=8), group_size(0.0, last=90)
    (1, 4, 16, 100)
    """
    fitting = GROUP_SECONDS / max(seconds, GROUP_SECONDS / GROUP_MOST)
    return max(1, min(2 * last, int(fitting)))


def _launcher() -> Callable[[bytes, list[Task]], list[Rows]]:
    """Return what workers run: a local function, which is sent by value.

    A worker that cannot import something then says so. Dask tries for ever to send functions that it has to import.
    """

    def simulate(packed: bytes, group: list[Task]) -> list[Rows]:
        import pickle

        try:
            work = pickle.loads(packed)
        except Exception as error:
            raise ImportError(f"{type(error).__name__}: {error}") from None
        return [work(rows, theta) for rows, theta in group]

    return simulate


def _checked(future: Any, answer: Any) -> list[Rows]:
    """Return the results of a group, or raise what kept Dask from running it; failed simulations are results."""
    if future.status == "finished":
        results: list[Rows] = answer
        return results
    error = answer[1] if future.status == "error" else answer
    raise _explained(error) from error


def _explained(error: BaseException) -> SimulationError:
    from distributed import CancelledError, KilledWorker

    if isinstance(error, KilledWorker):
        return WorkerError(
            f"workers of the Dask cluster died, one after the other, while they ran the same simulations: {CRASHED}"
        )
    if isinstance(error, CancelledError):
        return _lost(error)
    if isinstance(error, ImportError):
        return TransferError(
            f"the simulator could not be loaded by a worker of the Dask cluster ({error}). Install decond and the "
            "module that defines the simulator on the workers; client.upload_file(...) sends a single file."
        )
    return SimulationError(f"a worker of the Dask cluster could not run the simulator ({described(error)}).")


def _lost(error: BaseException) -> WorkerError:
    return WorkerError(
        f"the Dask cluster gave up the simulations ({described(error)}). It was closed or restarted, or "
        "the connection broke. A store keeps what had finished; connect again, and the same call goes on."
    )
