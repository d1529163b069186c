"""Where simulations run: in joblib's workers, or on a Dask cluster if joblib was told to use one."""

import contextlib
import itertools
import pickle
import warnings
from collections.abc import Generator, Iterator
from concurrent.futures import BrokenExecutor
from typing import Any

import joblib
from joblib.parallel import get_active_backend

from decond.lfi.exceptions import SimulationError, TransferError, WorkerError
from decond.lfi.execution import Result
from decond.lfi.work import CRASHED, Task, Work, unsendable

__all__ = ["results"]


def results(
    work: Work, tasks: Iterator[Task], n_jobs: int | None
) -> Generator[tuple[list[int], list[Result]], None, None]:
    """Yield the rows and the results of tasks as they finish."""
    backend, wanted = get_active_backend()
    try:
        if hasattr(backend, "client"):  # of joblib's backends, the one for Dask
            from decond.lfi.cluster import Cluster  # not in workers of joblib: it brings decond.streaming along

            cluster = Cluster(backend, work, wanted if n_jobs is None else n_jobs)
            with contextlib.closing(cluster.results(tasks)) as arriving:
                yield from arriving
        else:
            yield from _from_joblib(work, tasks, n_jobs)
    finally:
        work.close()


def _from_joblib(work: Work, tasks: Iterator[Task], n_jobs: int | None) -> Iterator[Any]:
    """Yield results as they finish; in small groups where joblib's backend can only return lists."""
    calls = (joblib.delayed(work)(rows, theta) for rows, theta in tasks)
    try:
        parallel, at_once = _parallel(n_jobs)
        if at_once:
            yield from _as_they_come(parallel(calls))
            return
        size = 2 * joblib.effective_n_jobs(n_jobs)
        with parallel:
            while group := list(itertools.islice(calls, size)):
                yield from parallel(group)
    except (BrokenExecutor, pickle.PicklingError) as error:
        raise _explained(error, work) from error


def _explained(error: Exception, work: Work) -> SimulationError:
    if isinstance(error, pickle.PicklingError):
        try:
            work.payload()
        except TransferError as reason:
            return reason
        return unsendable(error)
    if "un-serialize" in str(error):
        return TransferError(
            "the simulator could not be loaded in a worker process: the module that defines it cannot be imported "
            "there. Define it in a module that can be imported, or use n_jobs=1."
        )
    return WorkerError(f"a worker process died: {CRASHED}")


def _as_they_come(arriving: Any) -> Iterator[Any]:
    """Yield results; when we are interrupted, end what is running without joblib's warning that it is ended."""
    try:
        for result in arriving:  # noqa: UP028  ("yield from" would close the results before we can)
            yield result
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arriving.close()


def _parallel(n_jobs: int | None) -> tuple[Any, bool]:
    """Return joblib's pool, and whether it hands over each result when it is ready."""
    try:
        return joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered"), True
    except ValueError:  # of joblib's own, the multiprocessing backend cannot
        return joblib.Parallel(n_jobs=n_jobs), False
