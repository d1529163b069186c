"""Workers of a Dask cluster give the answer of one process, also when one of them dies; and errors say what to do."""

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

from decond import SparseGP, kernels
from decond.scale import Batches, ParquetTable, SparseModel, Table, cluster, sources, survey, surveys
from decond.scale.cluster import ClusterError, DaskTable, OnCluster, as_cluster_source, cluster_of, connect

ROWS = 30_000
RNG = np.random.default_rng(0)
X = RNG.standard_normal((ROWS, 2))
Z = np.sin(X).sum(axis=1) + 0.1 * RNG.standard_normal(ROWS)
MODEL = SparseModel(1.3 * kernels.Matern32([0.8, 1.2]), X[:30], noise=0.3)
QUERY = RNG.standard_normal((50, 2))
FRAME = pd.DataFrame({"wind": X[:, 0], "height": X[:, 1], "power": Z})


@pytest.fixture(scope="module")
def client():
    with cluster_of(2) as client:
        yield client


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(sources, "PART_PIECES", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four files with row groups of odd sizes."""
    folder = tmp_path_factory.mktemp("table")
    for i in range(4):
        FRAME[i * ROWS // 4 : (i + 1) * ROWS // 4].to_parquet(folder / f"quarter{i}.parquet", row_group_size=3001)
    return folder


def in_files(folder):
    return ParquetTable(folder, ["wind", "height"], "power")


def assert_same_answer(source, expected, model=MODEL):
    """Compare evidence, gradient and predictions."""
    (value, gradient), (other, slopes) = (model.log_evidence_and_gradient(one) for one in (source, expected))
    assert value == pytest.approx(other, rel=1e-8)
    for path, slope in slopes.items():
        np.testing.assert_allclose(gradient[path], slope, rtol=1e-8, atol=1e-8 * np.abs(slope).max(), err_msg=path)
    found, wanted = (model.condition(model.statistics(one), one.flat) for one in (source, expected))
    np.testing.assert_allclose(found.mean(QUERY), wanted.mean(QUERY), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.std(QUERY), wanted.std(QUERY), rtol=1e-8)


def test_workers_give_the_answer_of_one_process(client, folder, small_parts):
    blocks = [(X[i : i + 4000], Z[i : i + 4000]) for i in range(0, ROWS, 4000)]
    for source in (Table(X, Z), Batches(blocks), in_files(folder), Table(X, np.stack([Z, X[:, 0]], axis=1))):
        with OnCluster(source, client) as spread:
            assert (len(spread), spread.width, spread.flat, spread.names) == (ROWS, 2, source.flat, source.names)
            assert_same_answer(spread, source)


def test_a_fit_on_workers_is_that_of_one_process_to_the_last_bit(client, folder, monkeypatch):
    monkeypatch.setattr(surveys, "SAMPLE", 1000)
    settings = {"n_inducing": 12, "max_iterations": 5, "full_iterations": 3}
    here, there = (
        SparseGP(**settings).fit(in_files(folder)),
        SparseGP(**settings).fit(in_files(folder), client=client),
    )
    assert there.log_marginal_likelihood() == here.log_marginal_likelihood()
    np.testing.assert_array_equal(there.inducing_, here.inducing_)
    query = pd.DataFrame(QUERY, columns=["wind", "height"])
    np.testing.assert_array_equal(there.predict(query, return_std=True), here.predict(query, return_std=True))
    array = SparseGP(**settings).fit(X, Z, client=client)
    np.testing.assert_array_equal(array.predict(QUERY), here.predict(query))
    frame = dask.dataframe.from_pandas(FRAME, npartitions=3)
    named = SparseGP(**settings, optimize=False).fit(frame[["wind", "height"]], frame["power"], client=client)
    assert named.feature_names_in_.tolist() == ["wind", "height"]
    plain = SparseGP(**settings, optimize=False).fit(X, Z)
    np.testing.assert_allclose(named.predict(query), plain.predict(QUERY), rtol=1e-8)


def test_rows_keep_their_numbers_and_targets_their_units(client, folder):
    spread, table = OnCluster(in_files(folder), client), Table(X, Z)
    found, expected = survey(spread, seed=1, size=500), survey(table, seed=1, size=500)
    np.testing.assert_array_equal(found.sample.x, expected.sample.x)
    offset, scale = np.array([0.7]), np.array([2.0])
    value = MODEL.log_evidence(spread.standardized(offset, scale))
    assert value == pytest.approx(MODEL.log_evidence(table.standardized(offset, scale)), rel=1e-8)


def test_dask_collections_are_summed_where_they_are(client):
    frame = dask.dataframe.from_pandas(FRAME, npartitions=5)
    rows, targets = dask.array.from_array(X, chunks=(7000, 1)), dask.array.from_array(Z, chunks=11_000)
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
    rows, frame = dask.array.from_array(X, chunks=7000), dask.dataframe.from_pandas(FRAME, npartitions=2)
    with pytest.raises(ValueError, match="z has 29999 rows but x has 30000"):
        DaskTable(rows, dask.array.from_array(Z[1:], chunks=5000), client)
    with pytest.raises(TypeError, match="z is a ndarray; give Dask collections for both x and z"):
        as_cluster_source(rows, Z, client)
    text = frame.assign(site="north")
    with pytest.raises(TypeError, match=r"column 'site' of x holds values of type .*; numbers are needed"):
        DaskTable(text[["wind", "site"]], text["power"], client)
    with pytest.raises(TypeError, match="a _Standardized has no parts that could go to a cluster"):
        OnCluster(Table(X, Z).standardized(np.zeros(1), np.ones(1)), client)
    spoiled = X.copy()
    spoiled[20_000, 1] = np.nan
    table = DaskTable(dask.array.from_array(spoiled, chunks=7000), dask.array.from_array(Z, chunks=7000), client)
    with pytest.raises(ValueError, match="x of partition 2 has 1 value"):
        MODEL.log_evidence(table)


def test_rows_travel_once_and_are_released_at_the_end(client, small_parts):
    before = set(client.futures)
    with OnCluster(Table(X, Z), client) as table:
        first = MODEL.log_evidence(table)
        places = {share.part.key for share in table._shares()}
        assert MODEL.log_evidence(table) == first
        assert {share.part.key for share in table._shares()} == places
        assert happens(lambda: set(client.futures) - before == places)
    assert happens(lambda: not set(client.futures) - before)
    assert happens(lambda: not places & set(client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.tasks])))


def test_a_pass_over_collections_holds_nothing_but_its_sum(client):
    before = set(client.futures)
    table = DaskTable(dask.array.from_array(X, chunks=3000), dask.array.from_array(Z, chunks=3000), client)
    future, names = table._begun(lambda piece: len(piece.rows))
    assert happens(lambda: set(client.futures) - before == {future.key})
    assert future.result() == ROWS
    assert set(names.values()) == {f"partition {i}" for i in range(10)}


def test_no_rows_at_all_are_refused(client):
    with pytest.raises(ValueError, match="there are no rows to learn from"):
        MODEL.log_evidence(OnCluster(Batches([]), client))


def happens(condition, seconds=30):
    """Tell whether a condition becomes true soon: Dask releases what it holds a little later."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


@pytest.mark.parametrize("kind", ["in memory", "in files"])
def test_the_death_of_a_worker_in_the_middle_does_not_change_the_answer(client, folder, small_parts, kind):
    source = Table(X, Z) if kind == "in memory" else in_files(folder)
    noises = [0.3, 0.4, 0.5, 0.6]
    models = [MODEL.replace(noise=noise) for noise in noises]
    expected = [model.log_evidence_and_gradient(OnCluster(source, client))[0] for model in models]
    with OnCluster(source, client) as table:
        victim = _Killer(client, after_pass=3)
        found = [model.log_evidence_and_gradient(_Watched(table, victim))[0] for model in models]
        victim.thread.join()
    assert victim.busy_with, "the worker was killed while it had nothing to do"
    assert victim.passes == 2 * len(noises)
    assert victim.passes_when_killed == 3
    assert found == expected


class _Killer:
    """A thread that kills a worker process while it works on some pass."""

    def __init__(self, client, after_pass):
        self.client, self.after_pass = client, after_pass
        self.passes, self.begun = 0, threading.Event()
        self.pids = client.run(os.getpid)
        self.busy_with, self.passes_when_killed = (), None
        self.thread = threading.Thread(target=self.kill)
        self.thread.start()

    def kill(self):
        self.begun.wait(60)
        while not self.busy_with:
            busy = {address: keys for address, keys in self.client.processing().items() if keys}
            if busy:
                address, self.busy_with = next(iter(busy.items()))
        os.kill(self.pids[address], signal.SIGKILL)
        self.passes_when_killed = self.passes


class _Watched(sources.Source):
    """A source that tells the killer when a pass begins."""

    def __init__(self, source, killer):
        self.source, self.killer = source, killer

    @property
    def width(self):
        return self.source.width

    def total(self, work):
        self.killer.passes += 1
        if self.killer.passes == self.killer.after_pass:
            self.killer.begun.set()
        found = self.source.total(work)
        if self.killer.passes == self.killer.after_pass:
            self.killer.thread.join(60)
        return found

    def __len__(self):
        return len(self.source)


def test_a_worker_without_enough_memory_is_named_with_its_file(folder):
    def hungry(piece):
        held = [np.ones(10**7) for _ in range(12)]
        for _ in range(28):  # beyond the limit, slowly: the worker is looked at ten times a second
            held.append(np.ones(10**7))
            time.sleep(0.1)
        time.sleep(60)
        return float(sum(len(part) for part in held))

    options = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": "1GB", "dashboard_address": "127.0.0.1:0"}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(**options, silence_logs="CRITICAL") as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        table = OnCluster(ParquetTable(folder / "quarter2.parquet", ["wind"], "power"), client)
        with pytest.raises(
            ClusterError, match=r"died over .*quarter2\.parquet, the last of them tcp://.* with 1 GB of memory"
        ):
            table.total(hungry)


def test_work_that_finds_no_memory_is_named_with_its_file_and_worker(client, folder):
    def hungry(piece):
        return np.ones(10**17)

    table = OnCluster(ParquetTable(folder / "quarter2.parquet", ["wind"], "power"), client)
    message = (
        r"the worker tcp://\S+ has not enough memory for its share of .*quarter2\.parquet \(Unable to allocate .*\): "
        "give workers more of it"
    )
    with pytest.raises(ClusterError, match=message):
        table.total(hungry)


def test_damaged_files_are_named_by_the_workers(client, tmp_path):
    FRAME.to_parquet(tmp_path / "a.parquet", row_group_size=5000, compression="gzip")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2000] = b"\xff" * 2000
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.parquet cannot be read as Parquet"):
        MODEL.log_evidence(OnCluster(in_files(tmp_path), client))
    FRAME.to_parquet(tmp_path / "a.parquet")
    table = OnCluster(in_files(tmp_path), client)
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.parquet is not there, on the machine"):
        MODEL.log_evidence(table)


def test_threads_of_one_worker_do_not_disturb_each_other(small_parts):
    options = {"n_workers": 1, "threads_per_worker": 3, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(**options, silence_logs="ERROR") as local,
        distributed.Client(local, set_as_default=False) as client,
        OnCluster(Table(X, Z), client) as table,
    ):
        assert_same_answer(table, Table(X, Z))


def test_a_client_that_cannot_be_used_says_what_to_do(client, monkeypatch):
    with pytest.raises(ValueError, match=r"there is no Dask client. Start one, such as client = dask"):
        OnCluster(Table(X, Z))
    with pytest.raises(TypeError, match="client is 'tcp://here'; give a dask"):
        OnCluster(Table(X, Z), "tcp://here")
    with client.as_current():
        assert OnCluster(Table(X, Z)).client is client
    with connect(client.scheduler.address) as other:
        table = OnCluster(Table(X, Z), other)
        assert len(table) == ROWS
    with pytest.raises(ClusterError, match=r"the Dask client is closed\. Make a new one"):
        MODEL.log_evidence(table)
    monkeypatch.setattr(cluster, "TIMEOUT", 0.5)
    nobody = "tcp://127.0.0.1:9"
    with pytest.raises(ClusterError, match=f"no Dask scheduler answers at '{nobody}'"), connect(nobody):
        pass
    for address in ("nonsense://x", "foo", ""):
        with pytest.raises(ClusterError, match=f"'{address}' is no address of a Dask scheduler"), connect(address):
            pass
    with pytest.raises(ValueError, match="workers"), cluster_of(0):
        pass


def test_a_cluster_without_workers_or_with_another_version_is_refused(tmp_path, monkeypatch):
    installed = tmp_path / "decond-0.0.1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: decond\nVersion: 0.0.1\n")
    options = {
        "n_workers": 0,
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
        "preload": f"import sys; sys.path.insert(0, {str(tmp_path)!r})",
    }
    with (
        distributed.LocalCluster(**options, silence_logs="ERROR") as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        monkeypatch.setattr(cluster, "PATIENCE", 0.2)
        with pytest.raises(ClusterError, match=r"has no workers\. Add some: dask worker"):
            OnCluster(Table(X, Z), client)
        monkeypatch.undo()
        local.scale(1)
        with pytest.raises(ClusterError, match=r"the worker tcp://.* has decond 0\.0\.1, but here is"):
            OnCluster(Table(X, Z), client)


def test_workers_that_leave_for_good_end_the_wait(small_parts, monkeypatch):
    def slow(piece):
        time.sleep(0.3)
        return 1.0

    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(**options, silence_logs="CRITICAL") as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        table = OnCluster(Table(X, Z), client)
        monkeypatch.setattr(cluster, "PATIENCE", 0.3)
        leaving = threading.Timer(0.2, local.scale, args=(0,))
        leaving.start()
        with pytest.raises(ClusterError, match=r"no worker of the cluster at .* has taken any work"):
            table.total(slow)
        leaving.join()
