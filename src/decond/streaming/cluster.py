"""Tables on a Dask cluster: workers sum over parts of a table, and only the final sum travels back.

Dask is an optional extra, ``pip install "decond[dask]"``; it is imported when a cluster is used.
"""

import abc
import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, NamedTuple, Self

from decond.checks import as_count, as_rows, as_targets, check_same_length
from decond.errors import ArgumentError, ArgumentTypeError
from decond.streaming.batches import as_source
from decond.streaming.sources import (
    FAN_IN,
    NO_ROWS,
    Block,
    Chunking,
    Part,
    PartedSource,
    Source,
    Sum,
    Work,
    added,
    part_total,
)

__all__ = [
    "ClusterError",
    "ConnectionLostError",
    "DaskTable",
    "NoWorkersError",
    "OnCluster",
    "Vigil",
    "WorkerMemoryError",
    "WorkerVersionError",
    "as_cluster_source",
    "cluster_of",
    "connect",
]

PATIENCE = 60.0
"""Seconds between two looks for workers, while nothing arrives: without any at two of them in a row, give up."""

MORE_MEMORY = "give workers more of it or fewer threads each, or cut the table into smaller row groups or blocks."

TIMEOUT = 20.0
"""Seconds to wait for a scheduler that does not answer."""


class ClusterError(RuntimeError):
    """The cluster could not finish its work; the message says why and what to do.

    Attributes:
        scheduler: The address of the scheduler.
        worker: That of the worker, if one is at fault.
        part: What the worker had to read, such as the name of a file.

    Attributes that do not apply are None.

    >>> ClusterError("the worker at tcp://10.0.0.2:4 died.", worker="tcp://10.0.0.2:4").worker
    'tcp://10.0.0.2:4'
    """

    def __init__(
        self, message: str, *, scheduler: str | None = None, worker: str | None = None, part: str | None = None
    ) -> None:
        super().__init__(message)
        self.scheduler, self.worker, self.part = scheduler, worker, part


class ConnectionLostError(ClusterError):
    """There is no connection to a scheduler, or not any more: connect anew and start again.

    >>> issubclass(ConnectionLostError, ClusterError)
    True
    """


class NoWorkersError(ClusterError):
    """The scheduler has no worker that takes work: add some.

    >>> issubclass(NoWorkersError, ClusterError)
    True
    """


class WorkerMemoryError(ClusterError):
    """A worker does not have enough memory for its part of the table.

    >>> issubclass(WorkerMemoryError, ClusterError)
    True
    """


class WorkerVersionError(ClusterError):
    """A worker does not have the same version of decond.

    >>> issubclass(WorkerVersionError, ClusterError)
    True
    """


class Vigil:
    """Looks whether a cluster still has workers, whenever nothing has arrived from it for a while."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._without = 0

    def abandoned(self) -> bool:
        """Look, and tell whether no worker was running now nor at the look before."""

        def running(dask_scheduler: Any = None) -> int:  # local, so that it is sent by value
            return len(dask_scheduler.running)

        self._without = 0 if self._client.run_on_scheduler(running) else self._without + 1
        return self._without > 1


class _Share(NamedTuple):
    """What one task works on."""

    name: str
    start: int
    """The number of its first row in the whole table."""
    part: Any
    """A part, or a future of one."""


class _ClusterSource(Source):
    """A source whose sums are taken by the workers of a cluster, and added by them in a tree.

    Which numbers are added to which does not depend on the workers, so neither does the answer. Shares of a source
    are the same here as where it is read by one process, so that answer is the same too, to the last bit.
    """

    client: Any
    patience: float
    """Seconds between two looks for workers, while nothing arrives."""

    @abc.abstractmethod
    def _shares(self) -> Sequence[_Share]:
        """Return what there is to work on in this pass."""

    def total(self, work: Work[Sum]) -> Sum:
        _check_running(self.client)
        future, names = self._begun(work)
        try:
            return _awaited(future, self.client, names, self.patience)
        finally:
            future.release()

    def _begun(self, work: Work[Any]) -> tuple[Any, dict[str, str]]:
        """Send a pass to the cluster; return the future of its sum, and what its tasks work on, by their keys.

        No other future of the pass is held, so that the cluster forgets parts and sums once they are added up.
        """
        shares = self._shares()
        if not shares:
            raise ArgumentError("blocks", NO_ROWS)
        with _of_any_size():
            carried = self._submit(_itself, work)
            cut = (len(self), self.chunking)
            sums = [
                self._submit(_share_total, carried, share.part, share.start, *cut, priority=1) for share in shares
            ]
        names = {future.key: share.name for future, share in zip(sums, shares, strict=True)}
        names |= {share.part.key: share.name for share in shares if hasattr(share.part, "key")}
        while len(sums) > 1:
            groups = [sums[i : i + FAN_IN] for i in range(0, len(sums), FAN_IN)]
            sums = [self._submit(added, group, priority=2) for group in groups]
        return sums[0], names

    def close(self) -> None:
        """Let the cluster forget the rows that it holds; the next pass would send them anew."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _submit(self, function: Callable[..., Any], *arguments: Any, priority: int = 0) -> Any:
        """Return the future of a task. Sums come before further parts, so that these do not pile up in memory."""
        return self.client.submit(function, *arguments, pure=False, priority=priority)


class OnCluster(_ClusterSource):
    """Another source, whose parts are read and summed by the workers of a Dask cluster.

    Parts that only know where their rows are, such as those of Parquet files, are read by the workers in every pass;
    the workers need to find the files under the same paths. Parts that hold their rows travel to the workers once;
    the scheduler keeps a copy, for a worker may die. They are released by `close`, or at the end of a ``with`` block.
    While nothing arrives it looks for workers every `patience` seconds, and gives up if it finds none twice in a row.

    Row groups of 10⁵ to 10⁶ rows are best in Parquet files: one that is larger than a share of the table
    (`share_rows`) is decoded again by every share that lies in it.

    >>> from dask.distributed import Client
    >>> from decond.streaming import Table
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0") as client:
    ...     with OnCluster(Table([[0.0], [1.0]], [2.0, 3.0]), client) as table:
    ...         float(table.total(lambda piece: piece.targets.sum()))
    5.0
    """

    def __init__(self, source: Source, client: Any = None, *, patience: float = PATIENCE) -> None:
        if not isinstance(source, PartedSource):
            raise ArgumentTypeError(
                "source",
                f"a {type(source).__name__} has no parts that could go to a cluster; give a Table, Batches or a "
                "ParquetTable, and standardize it afterwards.",
            )
        self.source, self.client, self.patience = source, _usable(client, patience), patience
        self.chunking = source.chunking
        self.names, self.target_names, self.flat = source.names, source.target_names, source.flat
        self._placed: list[_Share] | None = None

    @property
    def width(self) -> int:
        return self.source.width

    def _shares(self) -> Sequence[_Share]:
        if self._placed is None:
            start, self._placed = 0, []
            for part in self.source.shares():
                with _of_any_size():
                    place = self._submit(_itself, part) if part.holds_rows else part
                self._placed.append(_Share(part.name, start, place))
                start += part.count
        return self._placed

    def close(self) -> None:
        for share in self._placed or []:
            if hasattr(share.part, "release"):
                share.part.release()
        self._placed = None

    def __len__(self) -> int:
        return len(self.source)


class DaskTable(_ClusterSource):
    """A table in Dask collections: arrays or data frames x and z that are cut into the same rows.

    Their partitions stay on the workers. They are computed again in every pass, unless they were persisted:
    ``x.persist()`` keeps them in the workers' memory. Lengths that Dask does not know are computed once.

    Parameters:
        x: a dask array (m, d), or a dask data frame.
        z: a dask array (m,) or (m, t), a series, or a data frame.
        client: a ``dask.distributed.Client``; None takes the current one.
        patience: seconds between two looks for workers, while nothing arrives: without any at two of them in a row,
            it gives up.

    >>> import dask.array
    >>> from dask.distributed import Client
    >>> x = dask.array.arange(6.0, chunks=2).reshape(6, 1)
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0") as client:
    ...     table = DaskTable(x, x[:, 0] ** 2, client)
    ...     len(table), float(table.total(lambda piece: piece.targets.sum()))
    (6, 55.0)
    """

    def __init__(self, x: Any, z: Any, client: Any = None, *, patience: float = PATIENCE) -> None:
        self.client, self.patience = _usable(client, patience), patience
        self.names, self.target_names = _names(x), _names(z)
        rows, targets = _as_array(x, "x", self.client), _as_array(z, "z", self.client)
        check_same_length(targets, "z", len(rows), "x")
        self.flat = targets.ndim == 1
        self._width = rows.shape[1] if rows.ndim > 1 else 1
        self._heights = rows.chunks[0]
        blocks = zip(rows.to_delayed().ravel(), targets.rechunk({0: self._heights}).to_delayed().ravel(), strict=True)
        self._partitions = [_delayed(_checked)(x, z, f"partition {i}") for i, (x, z) in enumerate(blocks)]

    @property
    def width(self) -> int:
        return self._width

    def _shares(self) -> Sequence[_Share]:
        starts = [sum(self._heights[:i]) for i in range(len(self._heights))]
        filled = [i for i, height in enumerate(self._heights) if height]
        futures = self.client.compute([self._partitions[i] for i in filled])
        return [_Share(f"partition {i}", starts[i], future) for i, future in zip(filled, futures, strict=True)]

    def __len__(self) -> int:
        return int(sum(self._heights))


def as_cluster_source(x: Any, z: Any = None, client: Any = None) -> _ClusterSource:
    """Return a source on a cluster: of Dask collections, or of anything that `as_source` takes.

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
def cluster_of(workers: int) -> Iterator[Any]:
    """Start so many workers on this machine, each with one thread; yields their client, and stops them at the end."""
    distributed = _distributed()
    options = {"n_workers": as_count(workers, "workers"), "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(**options, silence_logs="CRITICAL") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextlib.contextmanager
def connect(address: str, timeout: float | None = None) -> Iterator[Any]:
    """Connect to the scheduler at an address such as ``tcp://10.0.0.1:8786``; yields the client.

    It waits `TIMEOUT` seconds for an answer, or `timeout` if that is given.
    """
    distributed = _distributed()
    if not re.fullmatch(r"(\w+://)?[^:/]+:\d+|\w+://.+:\d+", address):
        raise ClusterError(f"{address!r} is not an address of a Dask scheduler; give tcp://HOST:PORT.")
    try:
        client = distributed.Client(address, timeout=TIMEOUT if timeout is None else timeout, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConnectionLostError(
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


def _delayed(function: Callable[..., Any]) -> Any:
    import dask

    return dask.delayed(function, pure=False)


def _usable(client: Any, patience: float) -> Any:
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
            f"{_place(client)} has no workers. Add some: dask worker ADDRESS", scheduler=_address(client)
        ) from None
    _check_versions(client)
    return client


def _check_running(client: Any) -> None:
    if client.status != "running":
        raise ConnectionLostError(f"the Dask client is {client.status}. Make a new one, and give it to a new table.")


def _check_versions(client: Any) -> None:
    """Raise unless workers have the same decond: they would read what is sent to them in another way."""
    found = client.get_versions(packages=["decond"])
    mine = found["client"]["packages"]["decond"]
    for address, worker in found["workers"].items():
        theirs = worker["packages"]["decond"]
        if theirs != mine:
            story = "has no decond" if theirs is None else f"has decond {theirs}"
            raise WorkerVersionError(
                f"the worker {address} {story}, but here is {mine}. Install decond {mine} on all workers.",
                scheduler=_address(client),
                worker=address,
            )


def _as_array(collection: Any, name: str, client: Any) -> Any:
    """Return a dask array of known length, cut by rows only."""
    if not hasattr(collection, "__dask_graph__"):
        raise ArgumentTypeError(
            name, f"{name} is a {type(collection).__name__}; give Dask collections for both x and z, or for neither."
        )
    if hasattr(collection, "map_partitions") and not hasattr(collection, "chunks"):
        _check_numbers(collection, name)
        lengths = client.compute(collection.map_partitions(len)).result()
        collection = collection.to_dask_array(lengths=tuple(int(length) for length in lengths))
    if any(size != size for size in collection.chunks[0]):
        lengths = client.gather(client.compute([_delayed(len)(row) for row in _first_column(collection)]))
        chunks = (tuple(lengths), *collection.chunks[1:])
        collection = type(collection)(collection.dask, collection.name, chunks, meta=collection)
    return collection.rechunk({1: -1}) if collection.ndim > 1 else collection


def _names(frame: Any) -> list[str] | None:
    """Return the names of columns; as in scikit-learn, only if all of them are text."""
    names = list(getattr(frame, "columns", []))
    return names if names and all(isinstance(name, str) for name in names) else None


def _first_column(array: Any) -> Any:
    """Return the blocks of an array, one for each chunk of rows."""
    blocks = array.to_delayed()
    return blocks.reshape(len(blocks), -1)[:, 0]


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


def _awaited(future: Any, client: Any, names: dict[str, str], patience: float) -> Any:
    """Return the result of a future; raise if the cluster cannot give one any more."""
    distributed = _distributed()
    vigil = Vigil(client)
    while True:
        try:
            return future.result(timeout=patience)
        except TimeoutError:
            if future.status == "error":
                raise
            if vigil.abandoned():
                raise NoWorkersError(
                    f"no worker of {_place(client)} has taken any work for {patience:.0f} s: they are gone, or "
                    "paused because their memory is full. Look at their logs, and give them more memory.",
                    scheduler=_address(client),
                ) from None
        except distributed.KilledWorker as error:
            raise _killed(error, names) from error
        except CancelledError as error:
            raise ConnectionLostError(
                f"{_place(client)} dropped the work ({error}). If it was closed or restarted, connect anew and "
                "start again.",
                scheduler=_address(client),
            ) from error


def _share_total(work: Work[Sum], part: Part, start: int, count: int, chunking: Chunking) -> Sum:
    """Return the sum over a share; if memory does not suffice, the error says where."""
    try:
        return part_total(work, part, start, count, chunking)
    except MemoryError as error:
        address = _distributed().get_worker().address
        raise WorkerMemoryError(
            f"the worker {address} does not have enough memory for its share of {part.name} ({error}): {MORE_MEMORY}",
            worker=address,
            part=part.name,
        ) from error


def _killed(error: Any, names: dict[str, str]) -> WorkerMemoryError:
    worker = error.last_worker
    where = names.get(error.task, "sums of other workers")
    return WorkerMemoryError(
        f"{error.allowed_failures + 1} worker(s) died over {where}, the last of them {worker.address} with "
        f"{worker.memory_limit / 1e9:.2g} GB of memory for {worker.nthreads} thread(s). Most likely it ran out of "
        f"memory: {MORE_MEMORY}",
        worker=worker.address,
        part=names.get(error.task),
    )


def _place(client: Any) -> str:
    return f"the cluster at {_address(client) or 'an unknown address'}"


def _address(client: Any) -> str | None:
    return client.scheduler.address if client.scheduler else None


@contextlib.contextmanager
def _of_any_size() -> Iterator[None]:
    """Let Dask not warn of large arguments: they are sent once, and meant to be kept by the scheduler."""
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        yield


def _itself(value: Any) -> Any:
    """Return the argument: as a task, so that it can be made again when a worker dies with it."""
    return value


def _checked(x: Any, z: Any, name: str) -> Block:
    rows = as_rows(x, f"x of {name}")
    return Block(rows, as_targets(z, f"z of {name}", len(rows), f"x of {name}"), name)
