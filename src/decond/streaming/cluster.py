"""Tables on a Dask cluster: workers sum over partitions of a table, and only the final sum travels back.

Dask is an optional extra, ``pip install "decond[dask]"``; it is imported when a cluster is used.
"""

import abc
import contextlib
import functools
import operator
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from decond.checks import as_count, as_rows, as_targets, check_same_length, column_names
from decond.errors import ArgumentError, ArgumentTypeError
from decond.streaming.sources import (
    ChunkSettings,
    Partition,
    PartitionedSource,
    Rows,
    Source,
    Sum,
    Work,
    as_source,
    partition_total,
)

if TYPE_CHECKING:
    from distributed import Client

__all__ = [
    "ClusterError",
    "DaskTable",
    "NoWorkersError",
    "OnCluster",
    "WorkerVersionError",
    "_WorkerWatch",
    "as_cluster_source",
    "cluster_of",
    "connect",
]

PATIENCE = 5.0
"""Seconds between two looks for workers, while nothing arrives: without any at two of them in a row, give up."""

FAN_IN = 8
"""Sums that one task adds."""


class ClusterError(RuntimeError):
    """The cluster could not finish its work; the message says why and what to do.

    Parameters
    ----------
    message : str
        What happened, and what to do.
    scheduler : str, optional
        The address of the scheduler.
    worker : str, optional
        That of the worker, if one is at fault.
    """

    def __init__(self, message: str, *, scheduler: str | None = None, worker: str | None = None) -> None:
        super().__init__(message)
        self.scheduler, self.worker = scheduler, worker


class NoWorkersError(ClusterError):
    """The scheduler has no worker that takes work: add some."""


class WorkerVersionError(ClusterError):
    """A worker does not have the same version of decond."""


class _WorkerWatch:
    """Looks whether a cluster still has workers, whenever nothing has arrived from it for a while."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._without = 0

    def abandoned(self) -> bool:
        """Look, and return whether no worker was running now nor at the look before."""

        def running(dask_scheduler: Any = None) -> int:  # local, so that it is sent by value
            return len(dask_scheduler.running)

        self._without = 0 if self._client.run_on_scheduler(running) else self._without + 1
        return self._without > 1


class _Task(NamedTuple):
    """What one task reads."""

    name: str
    start: int
    """The number of its first row in the whole table."""
    partition: Any
    """A partition, or a future of one."""


class _ClusterSource(Source):
    """A source whose sums are taken by the workers of a cluster, and added by them in a tree."""

    client: "Client"
    patience: float

    @abc.abstractmethod
    def _tasks(self) -> Sequence[_Task]:
        """Return what there is to work on in this pass."""

    def total(self, work: Work[Sum]) -> Sum:
        _check_running(self.client)
        future, names = self._submitted(work)
        try:
            return _awaited(future, self.client, names, self.patience)
        finally:
            future.release()

    def _submitted(self, work: Work[Any]) -> tuple[Any, dict[str, str]]:
        """Send a pass to the cluster; return the future of its sum, and what its tasks read, by their keys.

        No other future of the pass is held, so that the cluster forgets partitions and sums once they are added up.
        """
        tasks = self._tasks()
        if not tasks:
            raise ArgumentError("blocks", "there are no rows to learn from; give at least one row.")
        carried = self._submit(_itself, work)
        sums = [
            self._submit(_task_total, carried, task.partition, task.start, self.chunks, priority=1) for task in tasks
        ]
        names = {future.key: task.name for future, task in zip(sums, tasks, strict=True)}
        while len(sums) > 1:
            sums = [self._submit(_added, sums[i : i + FAN_IN], priority=2) for i in range(0, len(sums), FAN_IN)]
        return sums[0], names

    def close(self) -> None:
        """Let the cluster forget the rows that it holds; the next pass would send them anew."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _submit(self, function: Callable[..., Any], *arguments: Any, priority: int = 0) -> Any:
        """Return the future of a task; sums come before further partitions, so that these do not pile up."""
        import dask

        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):  # rows are sent once
            return self.client.submit(function, *arguments, pure=False, priority=priority)


class OnCluster(_ClusterSource):
    """Another source, whose partitions are read and summed by the workers of a Dask cluster.

    Partitions that only know where their rows are, such as those of Parquet files, are read by the workers in every
    pass, under the same paths. Partitions that hold their rows travel to the workers once; the scheduler keeps a
    copy, for a worker may die. They are released by `close`, or at the end of a ``with`` block.

    Parameters
    ----------
    source : Table, Batches or ParquetTable
        What to read.
    client : distributed.Client, optional
        A client of the cluster; by default the current one.
    patience : float
        Seconds between two looks for workers, while nothing arrives: without any at two of them in a row, it raises.

    Examples
    --------
    >>> from dask.distributed import Client
    >>> from decond.streaming import Table
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0") as client:
    ...     with OnCluster(Table([[0.0], [1.0]], [2.0, 3.0]), client) as table:
    ...         float(table.total(lambda chunk: chunk.targets.sum()))
    5.0
    """

    def __init__(self, source: Source, client: "Client | None" = None, *, patience: float = PATIENCE) -> None:
        if not isinstance(source, PartitionedSource):
            raise ArgumentTypeError(
                "source",
                f"a {type(source).__name__} has no partitions that could go to a cluster; give a Table, Batches or a "
                "ParquetTable, and standardize it afterwards.",
            )
        self.source, self.client, self.patience = source, _usable(client, patience), patience
        self.names, self.target_names, self.flat = source.names, source.target_names, source.flat
        self.chunks = source.chunks
        self._sent: list[_Task] = []

    @property
    def width(self) -> int:
        return self.source.width

    def _tasks(self) -> Sequence[_Task]:
        start = 0
        for partition in () if self._sent else self.source.partitions():
            if not partition.count:
                continue
            place = self._submit(_itself, partition) if partition.holds_rows else partition
            self._sent.append(_Task(partition.name, start, place))
            start += partition.count
        return self._sent

    def close(self) -> None:
        for task in self._sent:
            if hasattr(task.partition, "release"):
                task.partition.release()
        self._sent = []

    def __len__(self) -> int:
        return len(self.source)


class DaskTable(_ClusterSource):
    """A table in Dask collections: arrays or data frames x and z that are cut into the same rows.

    Their partitions stay on the workers. They are computed again in every pass, unless they were persisted:
    ``x.persist()`` keeps them in the workers' memory. Lengths that Dask does not know are computed once.

    Parameters
    ----------
    x : dask array of shape (m, d) or dask data frame
        Rows.
    z : dask array of shape (m,) or (m, t), series or data frame
        Targets.
    client : distributed.Client, optional
        A client of the cluster; by default the current one.
    patience : float
        As of `OnCluster`.

    Examples
    --------
    >>> import dask.array
    >>> from dask.distributed import Client
    >>> x = dask.array.arange(6.0, chunks=2).reshape(6, 1)
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0") as client:
    ...     table = DaskTable(x, x[:, 0] ** 2, client)
    ...     len(table), float(table.total(lambda chunk: chunk.targets.sum()))
    (6, 55.0)
    """

    def __init__(self, x: Any, z: Any, client: "Client | None" = None, *, patience: float = PATIENCE) -> None:
        import dask

        self.client, self.patience = _usable(client, patience), patience
        self.names, self.target_names = column_names(x), column_names(z)
        rows, targets = _as_array(x, "x", self.client), _as_array(z, "z", self.client)
        check_same_length(targets, "z", len(rows), "x")
        self.flat = targets.ndim == 1
        self._width = rows.shape[1] if rows.ndim > 1 else 1
        self._heights = rows.chunks[0]
        pairs = zip(rows.to_delayed().ravel(), targets.rechunk({0: self._heights}).to_delayed().ravel(), strict=True)
        checked = dask.delayed(_checked, pure=False)
        self._partitions = [checked(x, z, f"partition {i}") for i, (x, z) in enumerate(pairs)]

    @property
    def width(self) -> int:
        return self._width

    def _tasks(self) -> Sequence[_Task]:
        starts = np.cumsum([0, *self._heights])
        filled = [i for i, height in enumerate(self._heights) if height]
        futures = self.client.compute([self._partitions[i] for i in filled])
        return [_Task(f"partition {i}", int(starts[i]), one) for i, one in zip(filled, futures, strict=True)]

    def __len__(self) -> int:
        return int(sum(self._heights))


def as_cluster_source(x: Any, z: Any = None, client: "Client | None" = None) -> _ClusterSource:
    """Return a source on a cluster.

    Parameters
    ----------
    x : dask collection, Source or array_like
        Rows, or anything that `as_source` takes.
    z : dask collection or array_like, optional
        Targets, unless `x` has its own.
    client : distributed.Client, optional
        A client of the cluster; by default the current one.

    Returns
    -------
    DaskTable or OnCluster

    Examples
    --------
    >>> from dask.distributed import Client
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0") as client:
    ...     type(as_cluster_source([[0.0], [1.0]], [2.0, 3.0], client)).__name__
    'OnCluster'
    """
    if isinstance(x, _ClusterSource):
        return x
    if hasattr(x, "__dask_graph__"):
        return DaskTable(x, z, client)
    return OnCluster(as_source(x, z), client)


@contextlib.contextmanager
def cluster_of(workers: int) -> "Iterator[Client]":
    """Start so many workers on this machine, each with one thread; yields their client, and stops them at the end."""
    distributed = _distributed()
    options = {"n_workers": as_count(workers, "workers"), "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with contextlib.ExitStack() as closing:
        with _interrupts_blocked():
            cluster = closing.enter_context(distributed.LocalCluster(**options, silence_logs="CRITICAL"))
        yield closing.enter_context(distributed.Client(cluster, set_as_default=False))


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Keep interrupts from the keyboard out of threads and processes started meanwhile: this process ends them.

    An interrupt that comes meanwhile arrives here afterwards.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # starting it would let interrupts in again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def connect(address: str, timeout: float = 20.0) -> "Iterator[Client]":
    """Connect to a Dask scheduler.

    Parameters
    ----------
    address : str
        Such as ``tcp://10.0.0.1:8786``.
    timeout : float
        Seconds to wait for an answer.

    Yields
    ------
    distributed.Client
    """
    distributed = _distributed()
    if not re.fullmatch(r"(\w+://)?[^:/]+:\d+|\w+://.+:\d+", address):
        raise ClusterError(f"{address!r} is not an address of a Dask scheduler; give tcp://HOST:PORT.")
    try:
        client = distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address!r} ({error}). Check the address: `dask scheduler` prints it when "
            "it starts, and `dask worker ADDRESS` adds workers to it.",
            scheduler=address,
        ) from error
    with client:
        yield client


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError('a cluster needs Dask, which is not installed: pip install "decond[dask]"') from error
    return distributed


def _usable(client: "Client | None", patience: float) -> "Client":
    """Return a client that is connected to workers which have this version of decond, or raise."""
    distributed = _distributed()
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError:
            raise ArgumentError(
                "client",
                "there is no Dask client. Start one, such as client = dask.distributed.Client(), or "
                "Client('tcp://…:8786') for a cluster that runs already.",
            ) from None
    if not isinstance(client, distributed.Client) or client.asynchronous:
        raise ArgumentTypeError(
            "client", f"client is {client!r}; give a dask.distributed.Client that is not asynchronous."
        )
    _check_running(client)
    try:
        client.wait_for_workers(1, timeout=patience)
    except TimeoutError:
        raise NoWorkersError(
            f"the cluster at {_address(client)} has no workers. Add some: dask worker ADDRESS",
            scheduler=_address(client),
        ) from None
    _check_versions(client)
    return client


def _check_running(client: "Client") -> None:
    if client.status != "running":
        raise ClusterError(f"the Dask client is {client.status}. Make a new one, and give it to a new table.")


def _check_versions(client: "Client") -> None:
    """Raise unless workers have the same decond: they would read what is sent to them in another way."""
    found: Any = client.get_versions(packages=["decond"])
    mine = found["client"]["packages"]["decond"]
    for address, worker in found["workers"].items():
        theirs = worker["packages"]["decond"]
        if theirs != mine:
            raise WorkerVersionError(
                f"the worker {address} has decond {theirs or '(not installed)'}, but here is {mine}. Install decond "
                f"{mine} on all workers.",
                scheduler=_address(client),
                worker=address,
            )


def _as_array(collection: Any, name: str, client: "Client") -> Any:
    """Return a dask array of known length, cut by rows only."""
    import dask

    if not hasattr(collection, "__dask_graph__"):
        raise ArgumentTypeError(
            name, f"{name} is a {type(collection).__name__}; give Dask collections for both x and z, or for neither."
        )
    if hasattr(collection, "map_partitions") and not hasattr(collection, "chunks"):
        _check_numbers(collection, name)
        lengths = client.compute(collection.map_partitions(len)).result()
        collection = collection.to_dask_array(lengths=tuple(int(length) for length in lengths))
    if np.isnan(collection.chunks[0]).any():
        blocks = collection.to_delayed()
        first = blocks.reshape(len(blocks), -1)[:, 0]
        lengths = client.gather(client.compute([dask.delayed(len, pure=False)(block) for block in first]))
        chunks = (tuple(lengths), *collection.chunks[1:])
        collection = type(collection)(collection.dask, collection.name, chunks, meta=collection)
    return collection.rechunk({1: -1}) if collection.ndim > 1 else collection


def _check_numbers(frame: Any, name: str) -> None:
    """Raise if a column of a data frame holds anything but numbers."""
    kinds = frame.dtypes.items() if frame.ndim == 2 else [(frame.name, frame.dtype)]
    for column, kind in kinds:
        if getattr(kind, "kind", "O") not in "biuf":
            raise ArgumentTypeError(
                f"{name}[{column!r}]" if frame.ndim == 2 else name,
                f"column {column!r} of {name} holds values of type {kind}; numbers are needed. Convert it, or leave "
                "it out.",
            )


def _awaited(future: Any, client: "Client", names: dict[str, str], patience: float) -> Any:
    """Return the result of a future; raise if the cluster cannot give one any more."""
    distributed, watch = _distributed(), _WorkerWatch(client)
    while True:
        try:
            return future.result(timeout=patience)
        except TimeoutError:
            if future.status == "error":
                raise
            if watch.abandoned():
                raise NoWorkersError(
                    f"no worker of the cluster at {_address(client)} has taken any work for {patience:.0f} s: they "
                    "are gone, or paused because their memory is full. Look at their logs; give them more memory.",
                    scheduler=_address(client),
                ) from None
        except distributed.KilledWorker as error:
            raise ClusterError(
                f"{error.allowed_failures + 1} worker(s) died over {names.get(error.task, 'their sums')}, the last "
                f"of them {error.last_worker.address}. Most likely they ran out of memory: give them more of it or "
                "fewer threads each, or cut the table into smaller row groups or blocks.",
                worker=error.last_worker.address,
            ) from error
        except CancelledError as error:
            raise ClusterError(
                f"the cluster at {_address(client)} dropped the work ({error}). If it was closed or restarted, "
                "connect anew and start again.",
                scheduler=_address(client),
            ) from error


def _address(client: "Client") -> str | None:
    return client.scheduler.address if client.scheduler else None


def _task_total(work: Work[Sum], partition: Partition, start: int, chunks: ChunkSettings) -> Sum:
    return partition_total(work, [partition], start, chunks)


def _added(sums: list[Any]) -> Any:
    return functools.reduce(operator.add, sums)


def _itself(value: Any) -> Any:
    """Return the argument: as a task, so that it can be made again when a worker dies with it."""
    return value


def _checked(x: ArrayLike, z: ArrayLike, name: str) -> Partition:
    """Return the rows of a partition of Dask collections, checked."""
    rows = as_rows(x, f"x of {name}")
    return Rows(rows, as_targets(z, f"z of {name}", len(rows), f"x of {name}"), name)
