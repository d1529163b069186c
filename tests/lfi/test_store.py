"""The simulation store: results from elsewhere, reading, leases, and files that are not what they should be."""

import os
import pickle
import runpy
import sqlite3
import time

import numpy as np
import pytest
from expected import refused, warned
from processes import wait_until
from scipy import stats

from decond.lfi import Prior, SimulationStore, simulate
from decond.lfi.exceptions import (
    FewValidWarning,
    SimulationError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFormatError,
    StoreMismatchError,
    StoreWarning,
    TransferError,
)
from decond.lfi.simulation.store import Plan, StoreSettings, drawn_parameters
from decond.lfi.simulation.worker import Result


@pytest.fixture
def prior():
    return Prior({"rate": stats.gamma(2), "share": stats.uniform(0, 1)})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


@pytest.fixture
def store(path, prior):
    with SimulationStore(path, prior) as opened:
        yield opened


def double(theta, rng):
    return 2.0 * theta


def changed(path, statement, *values):
    """Change a closed store behind its back."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement, values)
    connection.close()


def test_an_interrupt_leaves_no_transaction_behind(store):
    def interrupted():
        with store._transaction() as connection:
            connection.execute("DELETE FROM header")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with store._transaction() as connection:
        assert connection.execute("SELECT count(*) FROM header").fetchone() == (1,)


def test_a_new_store_needs_the_prior(path):
    with refused("prior"):
        SimulationStore(path)


# ---- reading -------------------------------------------------------------------------------------------------


def test_rounds_are_read_together_or_apart(store, prior):
    simulate(double, prior, 3, store=store)
    simulate(double, prior, store=store, proposal=[[1.0, 0.5], [2.0, 0.5]])
    simulate(double, prior, 5, store=store)  # the first round grows after others were made
    assert len(store.simulations()) == 7
    assert len(store.simulations(0)) == 5
    np.testing.assert_array_equal(store.simulations(1).x, [[2.0, 1.0], [4.0, 1.0]])
    np.testing.assert_array_equal(store.parameters(1), [[1.0, 0.5], [2.0, 0.5]])
    assert store.parameters("no such round") is None
    np.testing.assert_array_equal(store.simulations().x[5:], [[2.0, 1.0], [4.0, 1.0]])
    with pytest.raises(StoreError) as caught:
        store.simulations(7)
    assert (caught.value.path, caught.value.round) == (store.path, "7")


def test_it_shows_what_it_holds(store, prior):
    assert repr(store).endswith("runs.sqlite': empty)")
    simulate(double, prior, 1, store=store, round="pilot")
    assert repr(store).endswith("1 done)")
    with pytest.raises(StoreError) as caught:
        store.simulations(0)
    assert caught.value.round == "0"


# ---- another question ----------------------------------------------------------------------------------------


def test_other_parameters_are_refused(path, prior):
    SimulationStore(path, prior).close()
    other = Prior({"rate": stats.gamma(2), "size": stats.uniform(0, 1)})
    with refused("prior", StoreMismatchError):
        SimulationStore(path, other)
    with SimulationStore(path) as store, refused("prior", StoreMismatchError):
        simulate(double, other, 2, store=store)


def test_what_does_not_belong_together_is_not_mixed(path, prior):
    simulate(double, prior, 3, store=path)
    with refused("seed", StoreMismatchError) as caught:
        simulate(double, prior, 3, store=path, seed=1)
    assert (caught.value.path, caught.value.round) == (str(path), "0")
    with refused("batched", StoreMismatchError):
        simulate(double, prior, 3, store=path, batched=True)
    with refused("proposal", StoreMismatchError):
        simulate(double, prior, store=path, proposal=[[1.0, 0.5]], round=0)
    wider = Prior({"rate": stats.gamma(3), "share": stats.uniform(0, 1)})
    with refused("prior", StoreMismatchError):
        simulate(double, wider, 3, store=path)
    with SimulationStore(path) as store:
        assert store.counts() == {"open": 0, "running": 0, "done": 3, "failed": 0}


def test_another_simulator_is_mentioned(path, prior):
    def triple(theta, rng):
        return 3.0 * theta

    before = simulate(double, prior, 3, store=path)
    with warned(StoreWarning, argument="simulator", path=str(path)):
        after = simulate(triple, prior, 3, store=path)
    np.testing.assert_array_equal(before.x, after.x)


def test_the_same_simulator_with_other_code_is_mentioned(path, prior, tmp_path):
    def version(factor):
        script = tmp_path / f"version{factor}.py"
        script.write_text(f"def simulator(theta, rng):\n    return {factor} * theta\n")
        return runpy.run_path(str(script))["simulator"]

    before = simulate(version(2), prior, 3, store=path)
    simulate(version(2), prior, 4, store=path)
    with warned(StoreWarning, argument="simulator", path=str(path)):
        after = simulate(version(3), prior, 4, store=path)
    np.testing.assert_array_equal(before.x, after.x[:3])


def raw_data(theta, rng):
    return rng.normal(size=(3, 2))


def test_another_summarize_is_applied_to_the_raw_data_that_are_there(path, prior):
    simulate(raw_data, prior, 5, store=path, summarize=np.mean)
    simulate(raw_data, prior, 5, store=path, summarize=np.mean)
    simulate(raw_data, prior, store=path, summarize=np.mean, proposal=[[1.0, 0.5]])
    with warned(StoreWarning, argument="summarize", n_recomputed=6):
        sims = simulate(raw_data, prior, 8, store=path, summarize=np.max)
    np.testing.assert_array_equal(sims.x[:, 0], sims.raw.max(axis=(1, 2)))
    simulate(raw_data, prior, store=path, summarize=np.max, proposal=[[1.0, 0.5]])
    with refused("summarize", StoreMismatchError):
        simulate(raw_data, prior, 8, store=path)


def test_a_new_round_with_another_summarize_is_not_mixed_with_the_rounds_before(path, prior):
    simulate(raw_data, prior, 5, store=path, summarize=np.mean)
    with warned(StoreWarning, argument="summarize", n_recomputed=5):
        simulate(raw_data, prior, store=path, summarize=np.max, proposal=[[1.0, 0.5]])
    with SimulationStore(path) as store:
        sims = store.simulations()
    np.testing.assert_array_equal(sims.x[:, 0], sims.raw.max(axis=(1, 2)))


def test_summaries_made_by_the_simulator_are_not_summarized_again(path, prior):
    simulate(double, prior, 3, store=path)
    with refused("summarize", StoreMismatchError):
        simulate(double, prior, 3, store=path, summarize=np.mean)


# ---- hostile files -------------------------------------------------------------------------------------------


def other_table(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photographs (name TEXT)")
    connection.close()


@pytest.mark.parametrize("fill", [lambda path: path.write_text("rate,share\n1,2\n" * 10), other_table])
def test_files_of_other_programs_are_refused_and_left_alone(path, prior, fill):
    fill(path)
    content = path.read_bytes()
    with pytest.raises(StoreFormatError) as caught:
        SimulationStore(path, prior)
    assert caught.value.version is None
    assert path.read_bytes() == content


@pytest.mark.parametrize("version", [2, 99])
def test_other_formats_are_refused(path, prior, version):
    SimulationStore(path, prior).close()
    changed(path, f"PRAGMA user_version = {version}")
    with pytest.raises(StoreFormatError) as caught:
        SimulationStore(path, prior)
    assert caught.value.version == version


def test_places_without_a_regular_file_are_refused(tmp_path, prior):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "nowhere" / "runs.sqlite", tmp_path / "pipe", os.devnull):
        with pytest.raises(StoreError) as caught:
            SimulationStore(place, prior)
        assert caught.value.path == str(place)
    assert [found.name for found in tmp_path.iterdir()] == ["pipe"]


def test_an_empty_file_becomes_a_store(path, prior):
    path.touch()
    assert len(simulate(double, prior, 2, store=path)) == 2


@pytest.mark.parametrize("damage", ["cut", "overwritten"])
def test_damage_is_reported(path, prior, damage):
    simulate(double, prior, 500, store=path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        if damage == "cut":
            file.truncate(size // 2)
        else:
            file.seek(size // 3)
            file.write(b"\xff" * (size // 3))
    with pytest.raises(StoreDamagedError):
        SimulationStore(path, prior)


@pytest.mark.parametrize(
    ("column", "value"), [("theta", b"\0" * 16), ("theta", 3.0), ("x", b"\0" * 16), ("reason", "no"), ("row", 7)]
)
def test_a_changed_row_is_damage(path, prior, column, value):
    simulate(double, prior, 3, store=path)
    changed(path, f"UPDATE simulations SET {column} = ? WHERE row = 1", value)
    with SimulationStore(path) as store, pytest.raises(StoreDamagedError):
        store.simulations()


def test_a_row_that_cannot_be_run_is_not_waited_for(path, prior):
    with SimulationStore(path, prior) as store:
        simulate(double, prior, 3, store=store)
        store.open_round("0", drawn_parameters(prior, 0, "0", 5), Plan(0, simulator="double:"))
        changed(path, "UPDATE simulations SET theta = x'00' WHERE row = 4")
        with pytest.raises(StoreDamagedError):
            simulate(double, prior, 5, store=store)


@pytest.mark.parametrize(
    "damage",
    ["UPDATE simulations SET lease = NULL WHERE row = 4", "DELETE FROM simulations WHERE row = 2"],
    ids=["leased by nobody", "missing"],
)
def test_a_row_that_cannot_be_found_is_not_waited_for(path, prior, damage):
    with SimulationStore(path, prior) as store:
        simulate(double, prior, 3, store=store)
        store.open_round("0", drawn_parameters(prior, 0, "0", 5), Plan(0, simulator="double:"))
        with store.worker() as worker:
            assert [leased(store, worker, 5) for _ in range(3)] == [[3], [4], []]
            changed(path, damage)
            with pytest.raises(StoreDamagedError):
                leased(store, worker, 5)


@pytest.mark.parametrize(("table", "column"), [("header", "value"), ("rounds", "plan")])
@pytest.mark.parametrize("byte", [b"?", b"\xff"])
def test_changed_names_and_plans_are_damage(path, prior, table, column, byte):
    simulate(double, prior, 3, store=path)
    text = f"CAST(substr(CAST({column} AS BLOB), 1, 14) || ? || substr(CAST({column} AS BLOB), 16) AS TEXT)"
    changed(path, f"UPDATE {table} SET {column} = {text}", byte)
    with pytest.raises(StoreDamagedError):
        simulate(double, prior, 3, store=path)


def test_a_complete_store_can_be_read_where_nothing_can_be_written(path, prior, monkeypatch):
    before = simulate(double, prior, 3, store=path)
    monkeypatch.setattr(os, "access", lambda place, mode: False)  # as on a read-only file system
    again = simulate(double, prior, 3, store=path)
    np.testing.assert_array_equal(again.x, before.x)
    with pytest.raises(StoreError) as caught:
        simulate(double, prior, 4, store=path)
    assert caught.value.__cause__.sqlite_errorcode == sqlite3.SQLITE_READONLY
    path.with_name(f"{path.name}-wal").write_bytes(b"what was not written back")
    with pytest.raises(StoreError):
        SimulationStore(path)


def test_a_closed_store_says_so(path, prior):
    store = SimulationStore(path, prior)
    store.close()
    store.close()
    with pytest.raises(StoreError) as caught:
        store.counts()
    assert caught.value.path == str(path)


def test_a_store_that_another_process_holds_says_so(store, path, prior):
    store._execute("PRAGMA busy_timeout = 10")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusyError):
        simulate(double, prior, 1, store=store)
    other.execute("ROLLBACK")
    other.close()
    assert len(simulate(double, prior, 1, store=store)) == 1


def test_a_full_disk_is_reported_and_the_store_stays_usable(store, prior):
    pages = store._execute("PRAGMA page_count")[0][0]
    store._execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError) as caught:
        simulate(double, prior, 5000, store=store)
    assert caught.value.__cause__.sqlite_errorcode == sqlite3.SQLITE_FULL
    store._execute("PRAGMA max_page_count = 1000000")
    assert len(simulate(double, prior, 2, store=store)) == 2
    assert store.counts()["done"] == 2


# ---- second thoughts -----------------------------------------------------------------------------------------


def test_failures_are_run_again_on_request(path, prior):
    mended = False

    def simulator(theta, rng):
        if not mended and theta[1] < 0.3:
            raise ZeroDivisionError("share too small")
        return theta

    before = simulate(simulator, prior, 30, store=path)
    assert 0 < before.n_failed < 15
    assert simulate(simulator, prior, 30, store=path).n_failed == before.n_failed
    mended = True
    with SimulationStore(path) as store:
        assert store.retry_failures() == before.n_failed
    after = simulate(simulator, prior, 30, store=path)
    assert after.n_failed == 0
    np.testing.assert_array_equal(after.x[before.valid], before.x[before.valid])


def test_rows_of_the_wrong_length_are_run_again_too(path, prior):
    mended = []

    def simulator(theta, rng):
        return theta if mended or theta[1] > 0.3 else [1.0]

    before = simulate(simulator, prior, 30, store=path)
    assert before.n_failed > 0
    proposal = drawn_parameters(prior, 5, "1", 6)
    proposal[:, 1] *= 0.3 * np.array([1, 1, 1, 1, 0.9, 0.8])
    proposal[4:, 1] = 0.5
    with warned(FewValidWarning, n_valid=2, n=6):
        odd = simulate(simulator, prior, store=path, proposal=proposal)
    assert odd.failures == {"returned 1 values where the first round has 2": 4}
    mended.append(True)
    with SimulationStore(path) as store:
        assert store.retry_failures() == before.n_failed
        assert store.retry_failures(1) == 4
        assert store.retry_failures("method") == 0
    assert simulate(simulator, prior, 30, store=path).n_failed == 0
    assert simulate(simulator, prior, store=path, proposal=proposal).n_failed == 0


# ---- leases --------------------------------------------------------------------------------------------------


@pytest.fixture
def planned(store, prior):
    store.open_round("0", drawn_parameters(prior, 0, "0", 10), Plan(0))
    return store


def leased(store, worker, n=10, size=1):
    found = store.lease(worker, "0", n, size)
    return [] if found is None else found[0]


def test_two_workers_never_hold_the_same_row(planned):
    with planned.worker() as one, planned.worker() as two:
        assert [row for worker in (one, two) * 4 for row in leased(planned, worker, 8)] == list(range(8))
        assert leased(planned, one, 8) == []
        assert planned.counts()["running"] == 8
    assert planned.counts()["open"] == 10


@pytest.mark.parametrize("seconds", [-1.0, 1e6], ids=["expired", "of a wrong clock"])
def test_the_rows_of_a_dead_worker_are_taken_over(planned, seconds):
    assert leased(planned, "dead", size=5) == list(range(5))
    with planned.worker() as living:
        assert leased(planned, living) == [5]
        planned._execute("UPDATE simulations SET lease = ? WHERE worker = 'dead'", (time.time() + seconds,))
        assert leased(planned, living, size=3) == [0, 1, 2]
    assert planned.counts()["running"] == 0


def test_a_worker_renews_its_leases(path, prior, planned):
    with (
        SimulationStore(path, prior, settings=StoreSettings(heartbeat=0.005)) as store,
        store.worker() as worker,
    ):
        assert leased(store, worker) == [0]
        store._execute("UPDATE simulations SET lease = 0.0 WHERE status = 'running'")
        wait_until(lambda: store._execute("SELECT lease FROM simulations WHERE row = 0")[0][0] > 0.0, "a heartbeat")
        assert leased(planned, "another") == [1]


def test_a_late_result_does_not_replace_the_first(planned, prior):
    planned.finish("0", [0], [Result(np.array([1.0]))])
    planned.finish("0", [0], [Result(np.array([2.0]))])
    np.testing.assert_array_equal(planned.simulations().x, [[1.0]])


# ---- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        StoreError("text", path="runs.sqlite", round="1"),
        StoreMismatchError("text", argument="seed", path="runs.sqlite", round="1"),
        StoreFormatError("text", path="runs.sqlite", version=2),
        SimulationError("text", failures={"returned None": 3}),
        TransferError("text", function="summarize"),
        FewValidWarning("text", n_valid=2, n=6),
        StoreWarning("text", argument="summarize", path="runs.sqlite", n_recomputed=6),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_and_warnings_cross_borders_of_processes_whole(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), "text", vars(error))
