"""Workers of a Dask cluster give the answer of one process, also when one of them dies; and errors say what to do."""

import contextlib
import os
import signal
import threading
import time

import dask
import dask.array
import dask.dataframe
import distributed
import numpy as np
import pandas as pd
import pytest
from expected import refused

from decond import SparseGP, kernels
from decond.errors import ArgumentTypeError
from decond.streaming import (
    Batches,
    ChunkSettings,
    ClusterError,
    DamagedFileError,
    DaskTable,
    NoWorkersError,
    OnCluster,
    ParquetTable,
    Source,
    SparseModel,
    Table,
    WorkerVersionError,
    as_cluster_source,
    summarize,
)
from decond.streaming.cluster import cluster_of, connect

ROWS = 6000
LOW = ChunkSettings(rows=256, partition_rows=256)
"""Each partition is one chunk, of 256 rows."""
RNG = np.random.default_rng(0)
X = RNG.standard_normal((ROWS, 2))
Z = np.sin(X).sum(axis=1) + 0.1 * RNG.standard_normal(ROWS)
MODEL = SparseModel(1.3 * kernels.Matern32([0.8, 1.2]), X[:30], noise=0.3)
QUERY = RNG.standard_normal((50, 2))
FRAME = pd.DataFrame({"wind": X[:, 0], "height": X[:, 1], "power": Z})


@contextlib.contextmanager
def workers_in_this_process(n_workers=2, **options):
    """Yield a client of workers that are threads; what they are sent is pickled, as it is on its way to others."""
    settings = {"processes": False, "protocol": "tcp://", "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(n_workers=n_workers, **{**settings, **options}, silence_logs="CRITICAL") as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    with workers_in_this_process() as client:
        yield client


@pytest.fixture
def own_client():
    """A client for one test only, which leaves its cluster in a state that others should not see."""
    with workers_in_this_process() as client:
        yield client


@pytest.fixture(scope="module")
def processes():
    """The client of workers that are processes, as users have them."""
    with cluster_of(2) as client:
        yield client


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four files with row groups of odd sizes."""
    folder = tmp_path_factory.mktemp("table")
    for i in range(4):
        FRAME[i * ROWS // 4 : (i + 1) * ROWS // 4].to_parquet(folder / f"quarter{i}.parquet", row_group_size=601)
    return folder


def in_files(folder, chunks=LOW):
    return ParquetTable(folder, ["wind", "height"], "power", chunks=chunks)


def in_memory(x=X, z=Z):
    return Table(x, z, chunks=LOW)


def assert_same_answer(source, expected, model=MODEL):
    """Compare evidence, gradient and predictions."""
    (value, gradient), (other, slopes) = (model.log_evidence_and_gradient(one) for one in (source, expected))
    assert value == pytest.approx(other, rel=1e-8)
    for path, slope in slopes.items():
        np.testing.assert_allclose(gradient[path], slope, rtol=1e-8, atol=1e-8 * np.abs(slope).max(), err_msg=path)
    found, wanted = (model.condition(model.statistics(one), one.flat) for one in (source, expected))
    np.testing.assert_allclose(found.mean(QUERY), wanted.mean(QUERY), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.std(QUERY), wanted.std(QUERY), rtol=1e-8)


def test_workers_give_the_answer_of_one_process(client, folder):
    blocks = Batches([(X[i : i + 800], Z[i : i + 800]) for i in range(0, ROWS, 800)], chunks=LOW)
    for source in (in_memory(), blocks, in_files(folder), in_memory(z=np.stack([Z, X[:, 0]], axis=1))):
        with OnCluster(source, client) as spread:
            assert (len(spread), spread.width, spread.flat, spread.names) == (ROWS, 2, source.flat, source.names)
            assert_same_answer(spread, source)


@pytest.mark.parametrize("kind", ["client", pytest.param("processes", marks=pytest.mark.slow)])
def test_a_fit_on_workers_is_that_of_one_process(folder, kind, request):
    client = request.getfixturevalue(kind)
    settings = {"n_inducing": 12, "max_iterations": 5, "full_iterations": 3, "sample_size": 1000}
    here, there = (
        SparseGP(**settings).fit(in_files(folder)),
        SparseGP(**settings).fit(in_files(folder), client=client),
    )
    assert there.log_marginal_likelihood() == pytest.approx(here.log_marginal_likelihood(), rel=1e-8)
    np.testing.assert_allclose(there.inducing_, here.inducing_, rtol=1e-6, atol=1e-6)
    query = pd.DataFrame(QUERY, columns=["wind", "height"])
    np.testing.assert_allclose(there.predict(query, return_std=True), here.predict(query, return_std=True), rtol=1e-6)
    array = SparseGP(**settings).fit(in_memory(), client=client)
    np.testing.assert_allclose(array.predict(QUERY), here.predict(query), rtol=1e-6, atol=1e-8)
    frame = dask.dataframe.from_pandas(FRAME, npartitions=3)
    named = SparseGP(**settings, optimize=False).fit(frame[["wind", "height"]], frame["power"], client=client)
    assert named.feature_names_in_.tolist() == ["wind", "height"]
    plain = SparseGP(**settings, optimize=False).fit(X, Z)
    np.testing.assert_allclose(named.predict(query), plain.predict(QUERY), rtol=1e-8)


def test_rows_keep_their_numbers_and_targets_their_units(client, folder):
    spread, table = OnCluster(in_files(folder), client), in_memory()
    found, expected = summarize(spread, seed=1, sample_size=500), summarize(table, seed=1, sample_size=500)
    np.testing.assert_array_equal(found.sample.x, expected.sample.x)
    offset, scale = np.array([0.7]), np.array([2.0])
    value = MODEL.log_evidence(spread.standardized(offset, scale))
    assert value == pytest.approx(MODEL.log_evidence(table.standardized(offset, scale)), rel=1e-8)


def test_dask_collections_are_summed_where_they_are(client):
    frame = dask.dataframe.from_pandas(FRAME, npartitions=5)
    rows, targets = dask.array.from_array(X, chunks=(1400, 1)), dask.array.from_array(Z, chunks=2200)
    unknown = frame[["wind", "height"]].to_dask_array()
    pairs = [
        (rows, targets),
        (frame[["wind", "height"]], frame["power"]),
        (client.persist(frame[["wind", "height"]]), targets),
        (unknown, frame["power"].to_dask_array()),
    ]
    for x, z in pairs:
        table = as_cluster_source(x, z, client)
        assert isinstance(table, DaskTable)
        assert (len(table), table.width, table.flat) == (ROWS, 2, True)
        assert_same_answer(table, Table(X, Z))
    assert np.isnan(unknown.chunks[0]).all()  # the user's own array is as it was


def test_a_data_frame_has_names_empty_partitions_and_several_targets(client):
    frame = dask.dataframe.from_pandas(FRAME, npartitions=4)
    some = frame[frame["wind"] > FRAME["wind"][: ROWS // 4].max()]  # the first partition becomes empty
    here = FRAME[FRAME["wind"] > FRAME["wind"][: ROWS // 4].max()]
    assert len(here)
    table = DaskTable(some[["wind", "height"]], some[["power", "wind"]], client)
    assert (table.names, table.flat, len(table)) == (["wind", "height"], False, len(here))
    assert_same_answer(table, Table(here[["wind", "height"]], here[["power", "wind"]]))


def test_collections_that_do_not_fit_are_refused_at_the_door(client):
    rows, frame = dask.array.from_array(X, chunks=1400), dask.dataframe.from_pandas(FRAME, npartitions=2)
    with refused("z"):
        DaskTable(rows, dask.array.from_array(Z[1:], chunks=1000), client)
    with refused("z", ArgumentTypeError):
        as_cluster_source(rows, Z, client)
    text = frame.assign(site="north")
    with refused("x['site']", ArgumentTypeError):
        DaskTable(text[["wind", "site"]], text["power"], client)
    with refused("z", ArgumentTypeError):
        DaskTable(text[["wind"]], text["site"], client)
    with refused("source", ArgumentTypeError):
        OnCluster(Table(X, Z).standardized(np.zeros(1), np.ones(1)), client)
    spoiled = X.copy()
    spoiled[4000, 1] = np.nan
    table = DaskTable(dask.array.from_array(spoiled, chunks=1400), dask.array.from_array(Z, chunks=1400), client)
    with refused("x of partition 2"):
        MODEL.log_evidence(table)


def test_rows_travel_once_and_are_released_at_the_end(client):
    before = set(client.futures)
    with OnCluster(in_memory(), client) as table:
        first = MODEL.log_evidence(table)
        places = {task.partition.key for task in table._tasks()}
        assert MODEL.log_evidence(table) == first
        assert {task.partition.key for task in table._tasks()} == places
        assert happens(lambda: set(client.futures) - before == places)
    assert happens(lambda: not set(client.futures) - before)
    assert happens(lambda: not places & set(client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.tasks])))


def test_a_pass_over_collections_holds_nothing_but_its_sum(client):
    before = set(client.futures)
    table = DaskTable(dask.array.from_array(X, chunks=600), dask.array.from_array(Z, chunks=600), client)
    future, names = table._submitted(lambda chunk: len(chunk.rows))
    assert happens(lambda: set(client.futures) - before == {future.key})
    assert future.result() == ROWS
    assert set(names.values()) == {f"partition {i}" for i in range(10)}


def test_no_rows_at_all_are_refused(client):
    with refused("blocks"):
        MODEL.log_evidence(OnCluster(Batches([]), client))


def happens(condition, seconds=120):
    """Tell whether a condition becomes true soon: Dask releases what it holds a little later."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def until(path, seconds=120):
    """Return work's first line: it waits until a file is there. Work travels by value, so it is made here."""

    def wait():
        end = time.monotonic() + seconds
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.02)

    return wait


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["in memory", "in files"])
def test_the_death_of_a_worker_in_the_middle_does_not_change_the_answer(processes, folder, tmp_path, kind):
    source = in_memory() if kind == "in memory" else in_files(folder)
    models = [MODEL.replace(noise=noise) for noise in (0.3, 0.4)]
    expected = [model.log_evidence_and_gradient(source)[0] for model in models]
    with OnCluster(source, processes) as table:
        deadly = DeadlyPass(table, processes, number=3, killed=tmp_path / "killed")
        found = [model.log_evidence_and_gradient(deadly)[0] for model in models]
    assert deadly.passes == 2 * len(models)
    assert deadly.killed.exists()
    assert found == pytest.approx(expected, rel=1e-10)


class DeadlyPass(Source):
    """A source that kills a worker process in the middle of a pass, while all that work on it wait for that."""

    def __init__(self, source, client, number, killed):
        self.source, self.client, self.number, self.killed = source, client, number, killed
        self.chunks, self.passes = source.chunks, 0

    @property
    def width(self):
        return self.source.width

    def total(self, work):
        self.passes += 1
        if self.passes != self.number:
            return self.source.total(work)
        wait = until(self.killed)

        def held(chunk):
            wait()
            return work(chunk)

        killer = threading.Thread(target=self.kill)
        killer.start()
        try:
            return self.source.total(held)
        finally:
            killer.join()

    def kill(self):
        """Kill a worker as soon as one is busy."""
        pids, busy = self.client.run(os.getpid), {}
        assert happens(lambda: busy.update(self.busy()) or busy)
        os.kill(pids[next(iter(busy))], signal.SIGKILL)
        self.killed.touch()

    def busy(self):
        return {address: keys for address, keys in self.client.processing().items() if keys}

    def __len__(self):
        return len(self.source)


@pytest.mark.slow
def test_a_worker_that_is_killed_for_its_memory_is_named_with_its_file(folder):
    def hungry(chunk):
        held = [np.ones(10**7) for _ in range(15)]  # 1.2 GB, which the worker's guard finds within a second
        time.sleep(120)
        return float(sum(len(part) for part in held))

    options = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": "1GB", "dashboard_address": "127.0.0.1:0"}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(**options, silence_logs="CRITICAL") as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        path = folder / "quarter2.parquet"
        [worker] = client.run(os.getpid)
        table = OnCluster(ParquetTable(path, ["wind"], "power"), client)
        with pytest.raises(ClusterError, match=r"quarter2\.parquet") as caught:
            table.total(hungry)
        assert caught.value.worker == worker


def test_damaged_files_are_named_by_the_workers(client, tmp_path):
    path = tmp_path / "a.parquet"
    FRAME.to_parquet(path, row_group_size=1000, compression="gzip")
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2000] = b"\xff" * 2000
    path.write_bytes(data)
    with pytest.raises(DamagedFileError) as caught:
        MODEL.log_evidence(OnCluster(in_files(tmp_path), client))
    assert caught.value.path == path
    FRAME.to_parquet(path)
    table = OnCluster(in_files(tmp_path), client)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.parquet"):
        MODEL.log_evidence(table)


def test_threads_of_one_worker_do_not_disturb_each_other():
    with workers_in_this_process(1, threads_per_worker=3) as client, OnCluster(in_memory(), client) as table:
        assert_same_answer(table, in_memory())


def test_a_client_that_cannot_be_used_is_refused(client):
    with refused("client"):
        OnCluster(Table(X, Z))
    with refused("client", ArgumentTypeError):
        OnCluster(Table(X, Z), "tcp://here")
    with client.as_current():
        assert OnCluster(Table(X, Z)).client is client
    with connect(client.scheduler.address) as other:
        table = OnCluster(Table(X, Z), other)
        assert len(table) == ROWS
    with pytest.raises(ClusterError):
        MODEL.log_evidence(table)
    nobody = "tcp://127.0.0.1:9"
    with pytest.raises(ClusterError) as caught, connect(nobody, timeout=0.5):
        pass
    assert caught.value.scheduler == nobody
    for address in ("nonsense://x", "foo", ""):
        with pytest.raises(ClusterError, match=repr(address)), connect(address):
            pass
    with refused("workers"), cluster_of(0):
        pass


def test_a_cluster_without_workers_is_refused():
    with workers_in_this_process(0) as client:
        with pytest.raises(NoWorkersError) as caught:
            OnCluster(Table(X, Z), client, patience=0.2)
        assert caught.value.scheduler == client.scheduler.address


@pytest.mark.slow
def test_a_worker_with_another_version_is_refused(tmp_path):
    installed = tmp_path / "decond-0.0.1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: decond\nVersion: 0.0.1\n")
    options = {
        "n_workers": 1,
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
        "preload": f"import sys; sys.path.insert(0, {str(tmp_path)!r})",
    }
    with (
        distributed.LocalCluster(**options, silence_logs="ERROR") as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        with pytest.raises(WorkerVersionError, match=r"0\.0\.1") as caught:
            OnCluster(Table(X, Z), client)
        assert [caught.value.worker] == [*client.run(os.getpid)]


def test_work_that_the_cluster_drops_ends_the_wait(own_client, tmp_path):
    client = own_client
    wait = until(tmp_path / "dropped")

    def slow(chunk):
        wait()
        return 1.0

    def drop():
        assert happens(lambda: any(client.processing().values()))
        client.cancel([distributed.Future(key, client) for key in list(client.futures)], force=True)

    dropping = threading.Thread(target=drop)
    dropping.start()
    try:
        with pytest.raises(ClusterError) as caught:
            OnCluster(in_memory(), client).total(slow)
    finally:
        (tmp_path / "dropped").touch()
        dropping.join()
    assert caught.value.scheduler == client.scheduler.address


def test_workers_that_leave_for_good_end_the_wait(tmp_path):
    """However short the patience is, nothing is given up before the only worker has left."""
    wait = until(tmp_path / "left")

    def slow(chunk):
        wait()
        return 1.0

    with workers_in_this_process(1) as client:
        table = OnCluster(in_memory(), client, patience=0.3)

        def leave():
            assert happens(lambda: any(client.processing().values()))
            client.cluster.scale(0)

        leaving = threading.Thread(target=leave)
        leaving.start()
        try:
            with pytest.raises(NoWorkersError) as caught:
                table.total(slow)
        finally:
            (tmp_path / "left").touch()
            leaving.join()
        assert caught.value.scheduler == client.scheduler.address
