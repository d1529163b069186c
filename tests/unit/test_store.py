"""The simulation store: results from elsewhere, reading, and files that are not what they should be."""

import math
import os
import pickle
import sqlite3
import subprocess
import sys
from functools import lru_cache, partial

import numpy as np
import pandas as pd
import pytest
from expected import refused, warned
from processes import wait_until
from scipy import stats

from decond.errors import ArgumentTypeError
from decond.lfi.claims import Claimant
from decond.lfi.database import APPLICATION
from decond.lfi.draws import drawn_parameters
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
from decond.lfi.execution import Result
from decond.lfi.fingerprint import changed, fingerprint
from decond.lfi.plans import Plan
from decond.lfi.prior import Prior
from decond.lfi.simulate import simulate
from decond.lfi.store import SimulationStore


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


# ---- ask and tell --------------------------------------------------------------------------------------------


def test_results_made_elsewhere_come_back_as_told(store, prior):
    theta = store.ask(4)
    assert prior.contains(theta).all()
    store.tell(theta[2:], [[1.0, 2.0], [np.nan, 1.0]])
    store.tell(theta[:2], [None, [3.0, 4.0]], reasons=["the machine was down", ""])
    sims = store.simulations()
    np.testing.assert_array_equal(sims.theta, theta)
    np.testing.assert_array_equal(sims.valid, [False, True, True, False])
    np.testing.assert_array_equal(sims.x[1:3], [[3.0, 4.0], [1.0, 2.0]])
    assert sims.reasons.tolist() == ["the machine was down", "", "", "returned NaN or infinity"]
    assert sims.names == ("rate", "share")


def test_asking_again_gives_other_parameters_also_in_another_session(path, prior):
    with SimulationStore(path, prior) as store:
        first = store.ask(150)
    with SimulationStore(path, prior) as store:
        second = store.ask(3)
    np.testing.assert_array_equal(np.concatenate([first, second]), drawn_parameters(prior, 0, "asked", 153))
    assert len(np.unique(np.concatenate([first, second]), axis=0)) == 153


def test_rows_are_told_by_id(store):
    theta = store.ask(3)
    pending = store.pending()
    assert list(pending.columns) == ["rate", "share"]
    np.testing.assert_array_equal(pending.to_numpy(), theta)
    store.tell(pending.index[[2, 0]], pd.DataFrame({"a": [30.0, 10.0]}))
    np.testing.assert_array_equal(store.simulations().x, [[10.0], [30.0]])
    assert store.pending().index.tolist() == [pending.index[1]]


def test_one_parameter_may_be_told_as_a_flat_array(path):
    with SimulationStore(path, Prior({"rate": stats.gamma(2)})) as store:
        theta = store.ask(3)
        store.tell(theta[:, 0], [1.0, 2.0, 3.0])
        np.testing.assert_array_equal(store.simulations().x[:, 0], [1.0, 2.0, 3.0])


class _Interrupted:
    """A connection during which somebody presses Ctrl-C, just when a transaction has begun."""

    def __init__(self, connection):
        self.connection = connection

    def execute(self, statement, *rest):
        found = self.connection.execute(statement, *rest)
        if statement.startswith("BEGIN"):
            raise KeyboardInterrupt
        return found

    @property
    def in_transaction(self):
        return self.connection.in_transaction


def test_an_interrupt_leaves_no_transaction_behind(store, monkeypatch):
    database = store.database
    with monkeypatch.context() as patch:
        patch.setattr(database, "_connection", _Interrupted(database._connection))
        with pytest.raises(KeyboardInterrupt), database.transaction():
            pass
    with database.transaction() as connection:
        assert connection.in_transaction


def test_a_refused_call_records_nothing(store):
    theta = store.ask(2)
    with refused("which"):  # nobody asked for the second row
        store.tell(np.vstack([theta[0], [9.0, 0.5]]), [[1.0], [2.0]])
    with refused("which"):
        store.tell(theta[[0, 0]], [[1.0], [2.0]])
    with refused("x"):
        store.tell(theta, [[1.0]])
    with refused("which"):
        store.tell([[1.0, 2.0, 3.0]], [[1.0]])
    assert store.counts()["asked"] == 2
    store.tell(theta, [[1.0], [2.0]])
    with refused("which"):
        store.tell(theta[:1], [[5.0]])
    np.testing.assert_array_equal(store.simulations().x, [[1.0], [2.0]])


@pytest.mark.parametrize("x", [3.0, np.float64(3.0), np.array(3.0), None, "text", {"a": 1}])
def test_what_is_told_must_be_rows(store, x):
    theta = store.ask(1)
    with refused("x", ArgumentTypeError):
        store.tell(theta, x)
    with refused("x", ArgumentTypeError):
        store.tell(theta, [["much"]])
    assert len(store.pending()) == 1


def test_simulations_that_exist_already_are_added(store):
    store.add([[1.0, 0.5], [2.0, 0.25]], [[1.0], [np.inf]])
    store.add([[3.0, 0.75]], [[3.0]])
    sims = store.simulations("added")
    np.testing.assert_array_equal(sims.theta[:, 0], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(sims.valid, [True, False, True])


def test_ask_needs_the_prior(path, prior):
    with refused("prior"):
        SimulationStore(path)
    SimulationStore(path, prior).close()
    with SimulationStore(path) as store, refused("prior"):
        store.ask(1)


# ---- reading -------------------------------------------------------------------------------------------------


def test_rounds_are_read_together_or_apart(store, prior):
    simulate(double, prior, 3, store=store)
    simulate(double, prior, store=store, proposal=[[1.0, 0.5], [2.0, 0.5]])
    store.add([[4.0, 0.5]], [[8.0, 1.0]])
    simulate(double, prior, 5, store=store)  # the first round grows after others were made
    assert len(store.simulations()) == 8
    assert len(store.simulations(0)) == 5
    np.testing.assert_array_equal(store.simulations(1).x, [[2.0, 1.0], [4.0, 1.0]])
    np.testing.assert_array_equal(store.parameters(1), [[1.0, 0.5], [2.0, 0.5]])
    assert store.parameters("no such round") is None
    assert store.frame()["round"].tolist() == ["0"] * 5 + ["1"] * 2 + ["added"]
    with pytest.raises(StoreError) as caught:
        store.simulations(7)
    assert (caught.value.path, caught.value.round) == (store.path, "7")


def test_the_frame_names_everything(store):
    assert store.frame().empty
    store.add([[1.0, 0.5], [2.0, 0.5]], [[1.0, 2.0], [np.nan, 2.0]])
    frame = store.frame()
    assert list(frame.columns) == ["rate", "share", "x1", "x2", "valid", "reason", "round", "seconds"]
    assert frame["valid"].tolist() == [True, False]
    assert frame.index.name == "id"


def test_it_shows_what_it_holds(store):
    assert repr(store).endswith("runs.sqlite': empty)")
    store.ask(2)
    store.add([[1.0, 0.5]], [[1.0]])
    assert repr(store).endswith("2 asked, 1 done)")
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
        assert store.counts() == {"open": 0, "running": 0, "asked": 0, "done": 3, "failed": 0}


def test_another_simulator_is_mentioned(path, prior):
    def triple(theta, rng):
        return 3.0 * theta

    before = simulate(double, prior, 3, store=path)
    with warned(StoreWarning, argument="simulator", path=str(path)):
        after = simulate(triple, prior, 3, store=path)
    np.testing.assert_array_equal(before.x, after.x)


def test_the_same_simulator_with_other_code_is_mentioned(path, prior):
    def made(factor):
        def simulator(theta, rng):
            return factor * theta

        return simulator

    before = simulate(made(2.0), prior, 3, store=path)
    simulate(made(2.0), prior, 4, store=path)
    with warned(StoreWarning, argument="simulator", path=str(path)):
        after = simulate(made(3.0), prior, 4, store=path)
    np.testing.assert_array_equal(before.x, after.x[:3])


def test_stores_without_fingerprints_open_and_learn_them(path, prior):
    simulate(double, prior, 3, store=path)
    with SimulationStore(path) as store, store.database.transaction() as connection:
        text = '{"seed": "0", "batched": false, "proposal": false, "simulator": "double"}'
        connection.execute("UPDATE rounds SET plan = ?", (text,))
    assert len(simulate(double, prior, 5, store=path)) == 5
    with SimulationStore(path) as store:
        plan = Plan.read(store.database.rows("SELECT plan FROM rounds")[0][0])
    assert plan.code == fingerprint(double)


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


def test_summaries_made_by_the_simulator_are_not_summarized_again(path, prior):
    simulate(double, prior, 3, store=path)
    with refused("summarize", StoreMismatchError):
        simulate(double, prior, 3, store=path, summarize=np.mean)


def test_fingerprints_tell_functions_apart():
    class Scaled:
        def __init__(self, factor):
            self.factor, self.calls = factor, []

        def __call__(self, raw):
            return self.factor * raw

        def method(self, raw):
            return raw

    def counter():
        n = 0

        def count(raw):
            """Count."""
            nonlocal n
            n += 1
            return [n in {"a", "b", "c"} for _ in raw]

        return count

    one = counter()
    before = fingerprint(one)
    one([1.0])
    assert fingerprint(one) == before
    functions = [
        np.mean,
        np.max,
        math.sqrt,
        one,
        Scaled(2.0),
        Scaled(2.0).method,
        partial(np.quantile, q=0.1),
        partial(np.quantile, q=0.2),
        partial(np.dot, np.eye(2)),
        partial(np.dot, np.ones((2, 2))),
        partial(np.dot, [object()]),
        lru_cache(lambda raw: raw + 1),
        lru_cache(lambda raw: raw + 2),
        lambda raw, k=1: raw,
        lambda raw, k=2: raw,
        lambda raw: raw_data(raw, None),
    ]
    marks = [fingerprint(function) for function in functions]
    assert None not in marks
    assert len(set(marks)) == len(marks)
    assert marks == [fingerprint(function) for function in functions]
    assert fingerprint(object()) is None
    assert fingerprint(None) == "none"
    assert changed(marks[0], marks[1])
    assert not changed(None, marks[1])
    assert not changed("2.7:" + marks[0].partition(":")[2], marks[1])


# ---- hostile files -------------------------------------------------------------------------------------------


def test_other_files_are_refused_and_left_alone(path, prior):
    path.write_text("rate,share\n1,2\n" * 10)
    content = path.read_bytes()
    with pytest.raises(StoreFormatError):
        SimulationStore(path, prior)
    assert path.read_bytes() == content


def test_databases_of_other_programs_are_refused_and_left_alone(path, prior):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photographs (name TEXT)")
    connection.close()
    content = path.read_bytes()
    with pytest.raises(StoreFormatError):
        SimulationStore(path, prior)
    assert path.read_bytes() == content


def test_newer_formats_are_refused(path, prior):
    SimulationStore(path, prior).close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(StoreFormatError) as caught:
        SimulationStore(path, prior)
    assert caught.value.version == 2


def test_places_without_a_file_are_refused(tmp_path, prior):
    for place in (tmp_path, tmp_path / "nowhere" / "runs.sqlite"):
        with pytest.raises(StoreError) as caught:
            SimulationStore(place, prior)
        assert caught.value.path == str(place)
    assert not (tmp_path / "nowhere").exists()


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


def test_a_row_of_the_wrong_length_is_damage(path, prior):
    simulate(double, prior, 3, store=path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE simulations SET theta = x'00' WHERE row = 1")
    connection.close()
    with SimulationStore(path) as store, pytest.raises(StoreDamagedError):
        store.simulations()


def test_a_closed_store_says_so(path, prior):
    store = SimulationStore(path, prior)
    store.close()
    store.close()
    with pytest.raises(StoreError) as caught:
        store.counts()
    assert caught.value.path == str(path)


def test_a_store_that_another_process_holds_says_so(store, path):
    store.database.rows("PRAGMA busy_timeout = 10")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusyError):
        store.ask(1)
    other.execute("ROLLBACK")
    other.close()
    assert len(store.ask(1)) == 1


def test_a_full_disk_is_reported_and_the_store_stays_usable(store):
    pages = store.database.rows("PRAGMA page_count")[0][0]
    store.database.rows(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError) as caught:
        store.ask(5000)
    assert caught.value.__cause__.sqlite_errorcode == sqlite3.SQLITE_FULL
    store.database.rows("PRAGMA max_page_count = 1000000")
    assert len(store.ask(2)) == 2
    assert store.counts()["asked"] == 2


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
        assert store.retry_failures("asked") == 0
    assert simulate(simulator, prior, 30, store=path).n_failed == 0
    assert simulate(simulator, prior, store=path, proposal=proposal).n_failed == 0


def test_summaries_are_computed_again_from_raw_data(path, prior):
    def raw(theta, rng):
        return rng.normal(size=(3, 2))

    simulate(raw, prior, 5, store=path, summarize=lambda data: data.mean(axis=0))
    with SimulationStore(path) as store:
        store.resummarize(lambda data: [data.max()])
        sims = store.simulations()
    np.testing.assert_array_equal(sims.x[:, 0], sims.raw.max(axis=(1, 2)))


# ---- claims --------------------------------------------------------------------------------------------------


@pytest.fixture
def planned(store, prior):
    store.plan("0", drawn_parameters(prior, 0, "0", 10), Plan(0))
    return store


def test_two_claimants_never_hold_the_same_row(planned):
    one, two = Claimant(planned.database), Claimant(planned.database)
    with one.at_work(), two.at_work():
        taken = [row for claimant in (one, two) * 4 for row, _ in claimant.claim("0", 8, 1)]
        assert taken == list(range(8))
        one.release_dead()
        assert one.claim("0", 8, 1) == []
    assert planned.counts()["open"] == 10


def test_the_claims_of_a_dead_process_are_taken_over(planned):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    alive = Claimant(planned.database)
    with alive.at_work():
        assert [row for row, _ in alive.claim("0", 10, 5)] == list(range(5))
        with planned.database.transaction() as connection:
            connection.execute("UPDATE workers SET pid = ?", (dead.pid,))  # as if it had been that process
        dead.wait()
        heir = Claimant(planned.database)
        heir.release_dead()
        assert heir.claim("0", 10, 1)[0][0] == 0


def test_a_number_given_to_a_new_process_is_not_mistaken_for_the_old_one(planned):
    old = Claimant(planned.database)
    with old.at_work():
        old.claim("0", 10, 10)
        with planned.database.transaction() as connection:
            connection.execute("UPDATE workers SET born = 'long ago', pid = ?", (os.getpid(),))
        heir = Claimant(planned.database)
        heir.release_dead()
        assert len(heir.claim("0", 10, 10)) == 10


def test_a_process_elsewhere_is_dead_when_it_is_silent(planned):
    far = Claimant(planned.database)
    with far.at_work():
        far.claim("0", 10, 10)
        with planned.database.transaction() as connection:
            connection.execute("UPDATE workers SET machine = 'elsewhere'")
        heir = Claimant(planned.database)  # with the usual patience
        heir.release_dead()
        assert heir.claim("0", 10, 10) == []
        heir.silence = 0.0
        with planned.database.transaction() as connection:
            connection.execute("UPDATE workers SET beat = beat + 1")
        heir.release_dead()
        assert heir.claim("0", 10, 10) == []
        heir.release_dead()
        assert len(heir.claim("0", 10, 10)) == 10


def test_a_call_of_this_process_that_could_not_say_goodbye_is_dead(planned):
    lost = Claimant(planned.database)
    with lost.at_work():
        worker = planned.database.rows("SELECT * FROM workers")[0]
    with planned.database.transaction() as connection:  # as if it had been interrupted a second time
        connection.execute("INSERT INTO workers VALUES (?, ?, ?, ?, ?)", worker)
    assert len(lost.claim("0", 10, 10)) == 10
    heir = Claimant(planned.database)
    heir.release_dead()
    assert len(heir.claim("0", 10, 10)) == 10


def test_a_call_at_work_gives_signs_of_life(planned):
    with Claimant(planned.database, heartbeat=0.005).at_work():
        wait_until(lambda: planned.database.rows("SELECT beat FROM workers") >= [(3,)], "three signs of life")
    assert planned.database.rows("SELECT beat FROM workers") == []


def test_a_late_result_does_not_replace_the_first(planned, prior):
    planned.finish("0", [0], [Result(np.array([1.0]), None, "", 0.1)])
    planned.finish("0", [0], [Result(np.array([2.0]), None, "", 0.1)])
    np.testing.assert_array_equal(planned.simulations().x, [[1.0]])


# ---- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        StoreError("text", path="runs.sqlite", round="1"),
        StoreMismatchError("text", argument="seed", path="runs.sqlite", round="1"),
        StoreFormatError("text", path="runs.sqlite", version=2),
        SimulationError("text", failures={"returned None": 3}),
        TransferError("text", function="summarize", parts=["lock"]),
        FewValidWarning("text", n_valid=2, n=6),
        StoreWarning("text", argument="summarize", path="runs.sqlite", n_recomputed=6),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_and_warnings_cross_borders_of_processes_whole(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), "text", vars(error))
