"""Simulations on a real Dask cluster: the rows of one process, also when workers or the caller are killed."""

import contextlib
import importlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import distributed
import joblib
import numpy as np
import pytest
from expected import warned
from light_simulators import LIMIT, TOO_LONG
from processes import DEADLINE, interruptible, n_stored, wait_until
from scipy import stats

from decond.lfi.exceptions import StoreWarning, TransferError, WorkerError
from decond.lfi.prior import Prior
from decond.lfi.simulation import SimulationStore, simulate

pytestmark = pytest.mark.slow

PRIOR = Prior({"rate": stats.gamma(2), "share": stats.uniform(0, 1)})


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL + 1
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=DEADLINE)
        yield client


@pytest.fixture
def dask(client):
    with joblib.parallel_config("dask"):
        yield client


@contextlib.contextmanager
def worker_of(client, folder):
    """Start a worker that may be killed, and yield its process once it is there."""
    there = len(client.nthreads())
    command = [sys.executable, "-m", "distributed.cli.dask_worker", client.scheduler.address, "--name", "spare"]
    options = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", folder]
    pipes = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, *options], **pipes) as process:
        try:
            client.wait_for_workers(there + 1, timeout=DEADLINE)
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def killable(folder, **options):
    """Start a cluster whose only worker may be killed; yield its client and the process of the worker."""
    quiet = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL + 1}
    with (
        distributed.LocalCluster(n_workers=0, **quiet, **options) as empty,
        distributed.Client(empty) as client,
        worker_of(client, folder) as process,
    ):
        yield client, process


@pytest.fixture
def spare(client, tmp_path):
    """Give the process of a third worker, which may be killed: nobody starts it again."""
    with worker_of(client, tmp_path) as process:
        yield process
    wait_until(lambda: len(client.nthreads()) == 2, "the scheduler to see that the worker is dead")


def noting(path, seconds=0.0, held=None):
    """Return a simulator that writes down when it begins and ends, and in which process; some rows fail.

    It waits before it ends as long as `held(log)` is true, a function of the text that is written down.
    """

    def simulator(theta, rng):
        note("begin", theta[0])
        time.sleep(seconds)
        for _ in range(18_000):  # the cluster is free again, some day, also where a test fails
            if held is None or not held(path.read_text()):
                break
            time.sleep(0.01)
        note("end", theta[0])
        if theta[1] < 0.1:
            raise ValueError("share too small")
        return theta + rng.normal(size=2)

    def note(what, value):
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(log, f"{what} {value.hex()} {os.getpid()}\n".encode())  # one piece, whoever else is writing
        os.close(log)

    return simulator


def lines(path):
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def begun(path):
    return [rate for what, rate, _ in lines(path) if what == "begin"]


@pytest.fixture
def meanwhile():
    """Give a function that does something in a thread while simulations run, once a condition is met."""
    threads, errors, over = [], [], threading.Event()

    def start(condition, action):
        def act():
            try:
                wait_until(lambda: over.is_set() or condition(), "the simulations")
                assert not over.is_set()
                action()
            except BaseException as error:
                errors.append(error)

        threads.append(threading.Thread(target=act))
        threads[-1].start()

    yield start
    over.set()
    for thread in threads:
        thread.join()
    assert not errors


def same(one, two):
    np.testing.assert_array_equal(one.theta, two.theta)
    np.testing.assert_array_equal(one.x, two.x)
    assert list(one.reasons) == list(two.reasons)


def reference(n):
    """Return an uninterrupted run in this process."""
    return simulate(noting(os.devnull), PRIOR, n)


# ---- the same rows -------------------------------------------------------------------------------------------


def test_rows_are_those_of_one_process(client, tmp_path, capfd):
    log, store = tmp_path / "log", tmp_path / "runs.sqlite"
    until_both = noting(log, held=lambda text: len({line.split()[2] for line in text.splitlines()}) < 2)
    with joblib.parallel_config("dask"):
        sims = simulate(until_both, PRIOR, 40, store=store, progress=True)
    assert "40/40" in capfd.readouterr().err
    same(sims, reference(40))
    assert sims.failures == {"ValueError: share too small": (sims.theta[:, 1] < 0.1).sum()}
    assert 0 < sims.n_valid < 40

    assert Counter(begun(log)) == {rate.hex(): 1 for rate in sims.theta[:, 0]}
    assert {int(pid) for _, _, pid in lines(log)} == set(client.run(os.getpid).values())
    with joblib.parallel_config("dask"):
        same(simulate(until_both, PRIOR, 50, store=store), reference(50))
    assert len(begun(log)) == 50


def test_batches_raw_data_and_more_than_one_round(client):
    def batch(theta, rng):
        return theta[:, :, None] + rng.standard_normal((*theta.shape, 80))

    def means(raw):
        return raw.mean(axis=1)

    options = {"batched": True, "summarize": means, "seed": 3}
    alone = simulate(batch, PRIOR, 250, **options)
    further = simulate(batch, PRIOR, proposal=alone.theta[:130], **options)
    with joblib.parallel_config("dask"):
        sims = simulate(batch, PRIOR, 250, **options)
        same(simulate(batch, PRIOR, proposal=alone.theta[:130], **options), further)
    same(sims, alone)
    np.testing.assert_array_equal(sims.raw, alone.raw)


# ---- how it runs ---------------------------------------------------------------------------------------------


def test_a_limit_on_time_ends_calls_that_hang_and_calls_that_crash(dask):
    def simulator(theta, rng):
        while theta[1] < 0.1:
            signal.pause()
        if theta[1] > 0.9:
            os.kill(os.getpid(), signal.SIGKILL)
        return theta

    sims = simulate(simulator, PRIOR, 24, timeout=LIMIT)
    slow, crashing = sims.theta[:, 1] < 0.1, sims.theta[:, 1] > 0.9
    assert slow.any()
    assert crashing.any()
    expected = np.where(slow, TOO_LONG, np.where(crashing, "its process was ended by SIGKILL", ""))
    assert list(sims.reasons) == list(expected)


@pytest.mark.parametrize("config", [{}, {"n_jobs": 1}])
def test_n_jobs_is_the_number_that_run_at_once(client, tmp_path, config):
    log, at_once = tmp_path / "log", config.get("n_jobs", 2)
    with joblib.parallel_config("dask", **config):
        simulate(noting(log, 0.05, held=lambda text: text.count("begin") < at_once), PRIOR, 12)
        running = np.cumsum([1 if what == "begin" else -1 for what, _, _ in lines(log)])
        assert running.max() == at_once
        log.unlink()
        simulate(noting(log, 0.05), PRIOR, 8, n_jobs=1)
        assert [what for what, _, _ in lines(log)] == ["begin", "end"] * 8


def test_an_interrupt_stops_at_once_and_keeps_what_is_done(dask, tmp_path, meanwhile):
    log, store, go = tmp_path / "log", tmp_path / "runs.sqlite", tmp_path / "go"
    hang = noting(log, held=lambda text: text.count("end") >= 10 and not go.exists())
    meanwhile(lambda: n_stored(store) >= 5, lambda: os.kill(os.getpid(), signal.SIGINT))
    with interruptible(), pytest.raises(KeyboardInterrupt):
        simulate(hang, PRIOR, 1000, store=store)
    with SimulationStore(store) as file:
        counts = file.counts()
        finished = {rate.hex() for rate in file.simulations().theta[:, 0]}
    assert counts["running"] == 0
    assert 0 < counts["done"] < 1000
    go.touch()
    wait_until(lambda: not any(dask.processing().values()), "the cluster to rest")
    log.unlink()
    same(simulate(hang, PRIOR, 60, store=store), reference(60))
    assert not finished & set(begun(log))


# ---- what goes wrong -----------------------------------------------------------------------------------------


def test_a_worker_that_is_killed_changes_nothing(spare, dask, tmp_path, meanwhile):
    log, store = tmp_path / "log", tmp_path / "runs.sqlite"
    doomed = str(spare.pid)  # others wait for it to begin, and it never ends
    meanwhile(lambda: any(pid == doomed for _, _, pid in lines(log)), spare.kill)
    held = noting(log, held=lambda text: doomed == str(os.getpid()) or f"{doomed}\n" not in text)
    sims = simulate(held, PRIOR, 60, store=store)
    assert spare.wait() == -signal.SIGKILL
    same(sims, reference(60))
    with SimulationStore(store) as file:
        counts = file.counts()
        assert counts["done"] + counts["failed"] == len(file.simulations()) == 60
    begins = Counter(begun(log))
    assert len(begins) == 60
    assert max(begins.values()) <= 2  # what the dead worker held, elsewhere


SCRIPT = """
import sys
import time
from pathlib import Path

import joblib
from distributed import Client

sys.path[:0] = sys.argv[4:]
from test_simulations_on_dask import PRIOR, noting
from decond.lfi.simulation import simulate

folder = Path(sys.argv[2])
note = noting(folder / "log", held=lambda text: text.count("end") >= 15 and not (folder / "go").exists())


def simulator(theta, rng):
    return note(theta, rng)


if __name__ == "__main__":
    with Client(sys.argv[1]), joblib.parallel_config("dask"):
        simulate(simulator, PRIOR, 60, store=sys.argv[3])
"""


def test_after_the_calling_process_was_killed_another_goes_on(dask, tmp_path):
    store, script, here = tmp_path / "runs.sqlite", tmp_path / "script.py", Path(__file__).parent
    script.write_text(SCRIPT)
    command = [sys.executable, script, dask.scheduler.address, tmp_path, store, here, here.parent]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        wait_until(lambda: n_stored(store) >= 5 or process.poll() is not None, "the first process")
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    (tmp_path / "go").touch()
    with SimulationStore(store) as file:
        finished = {rate.hex() for rate in file.simulations().theta[:, 0]}
        assert 0 < len(finished) < 60
    later = tmp_path / "later"
    with warned(StoreWarning, argument="simulator"):
        sims = simulate(noting(later), PRIOR, 60, store=store)
    same(sims, reference(60))
    assert {rate.hex() for rate in sims.theta[:, 0]} - finished == set(begun(later))
    assert len(begun(later)) == 60 - len(finished)


def test_a_simulator_that_kills_its_workers_is_an_error(tmp_path):
    def simulator(theta, rng):
        os.kill(os.getpid(), signal.SIGKILL)

    with killable(tmp_path, scheduler_kwargs={"allowed_failures": 0}) as (_, worker):
        with joblib.parallel_config("dask"), pytest.raises(WorkerError) as caught:
            simulate(simulator, PRIOR, 4)
        assert isinstance(caught.value.__cause__, distributed.KilledWorker)
        assert worker.wait() == -signal.SIGKILL


def test_without_workers_the_wait_ends_and_the_store_keeps_what_had_finished(tmp_path, meanwhile):
    log, store = tmp_path / "log", tmp_path / "runs.sqlite"
    with killable(tmp_path) as (_, only), joblib.parallel_config("dask", wait_for_workers_timeout=0.5):
        meanwhile(lambda: n_stored(store) >= 5, only.kill)
        with pytest.raises(WorkerError):
            simulate(noting(log, held=lambda text: text.count("end") >= 10), PRIOR, 200, store=store)
    assert 0 < n_stored(store) < 200


def test_a_module_that_workers_lack_is_an_error(dask, tmp_path, monkeypatch):
    path = tmp_path / "simulator_of_this_machine.py"
    path.write_text("def simulator(theta, rng):\n    return theta + rng.normal(size=2)\n")
    monkeypatch.syspath_prepend(tmp_path)
    simulator = importlib.import_module(path.stem).simulator
    with pytest.raises(TransferError) as caught:
        simulate(simulator, PRIOR, 10)
    assert path.stem in str(caught.value)
    dask.upload_file(str(path))
    same(simulate(simulator, PRIOR, 10), simulate(simulator, PRIOR, 10))


def test_a_simulator_that_cannot_be_sent_is_an_error(dask):
    lock = threading.Lock()

    def guarded(theta, rng):
        with lock:
            return theta

    with pytest.raises(TransferError) as caught:
        simulate(guarded, PRIOR, 10)
    assert caught.value.function == "simulator"
