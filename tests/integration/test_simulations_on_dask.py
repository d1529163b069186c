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

import distributed
import joblib
import numpy as np
import pytest
from scipy import stats

from decond.lfi.inference import infer
from decond.lfi.prior import Prior
from decond.lfi.simulate import SimulationError, simulate
from decond.lfi.store import SimulationStore
from decond.scale import cluster as workers

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
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture
def dask(client):
    with joblib.parallel_config("dask"):
        yield client


@contextlib.contextmanager
def worker_of(client, folder):
    """Start a worker that may be killed, and yield its process."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", client.scheduler.address, "--name", "spare"]
    options = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", folder]
    with subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL) as process:
        yield process
        process.kill()


@pytest.fixture
def spare(client, tmp_path):
    """Give the process of a third worker, which may be killed: nobody starts it again."""
    with worker_of(client, tmp_path) as process:
        client.wait_for_workers(3, timeout=60)
        yield process
    wait_until(lambda: len(client.nthreads()) == 2, "the scheduler to see that the worker is dead")


def noting(path, seconds):
    """Return a simulator that writes down when it begins and ends, and in which process; some rows fail."""

    def simulator(theta, rng):
        note("begin", theta[0])
        time.sleep(seconds)
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


def wait_until(condition, what):
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.005)
    pytest.fail(f"waited too long for {what}")


@pytest.fixture
def meanwhile():
    """Give a function that does something in a thread while simulations run, once a condition is met."""
    threads, errors = [], []

    def start(condition, action):
        def act():
            try:
                wait_until(condition, "the simulations")
                action()
            except BaseException as error:
                errors.append(error)

        threads.append(threading.Thread(target=act))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()
    assert not errors


def same(one, two):
    np.testing.assert_array_equal(one.theta, two.theta)
    np.testing.assert_array_equal(one.x, two.x)
    assert list(one.reasons) == list(two.reasons)


def reference(n):
    """Return an uninterrupted run in this process."""
    return simulate(noting(os.devnull, 0.0), PRIOR, n)


# ---- the same rows -------------------------------------------------------------------------------------------


def test_rows_are_those_of_one_process(client, tmp_path, capfd):
    log, store = tmp_path / "log", tmp_path / "runs.sqlite"
    with joblib.parallel_config("dask"):
        sims = simulate(noting(log, 0.01), PRIOR, 40, store=store, progress=True)
    assert "40/40" in capfd.readouterr().err
    same(sims, reference(40))
    assert sims.failures == {"ValueError: share too small": (sims.theta[:, 1] < 0.1).sum()}
    assert 0 < sims.n_valid < 40

    assert Counter(begun(log)) == {rate.hex(): 1 for rate in sims.theta[:, 0]}
    assert {int(pid) for _, _, pid in lines(log)} == set(client.run(os.getpid).values())
    with joblib.parallel_config("dask"):
        same(simulate(noting(log, 0.01), PRIOR, 50, store=store), reference(50))
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


def test_inference_gives_the_same_posterior(client, tmp_path):
    def simulator(theta, rng):
        return theta + 0.1 * rng.normal(size=2)

    alone = infer(simulator, PRIOR, [1.0, 0.5], 200, rounds=2)
    with joblib.parallel_config("dask"):
        posterior = infer(simulator, PRIOR, [1.0, 0.5], 200, rounds=2, store=tmp_path / "runs.sqlite")
    np.testing.assert_array_equal(posterior.mean(), alone.mean())
    same(posterior.simulations, alone.simulations)


# ---- how it runs ---------------------------------------------------------------------------------------------


def test_a_limit_on_time_ends_calls_that_hang_and_calls_that_crash(dask):
    def simulator(theta, rng):
        while theta[1] < 0.1:
            pass
        if theta[1] > 0.9:
            os.kill(os.getpid(), signal.SIGKILL)
        return theta

    sims = simulate(simulator, PRIOR, 24, timeout=0.4)
    slow, crashing = sims.theta[:, 1] < 0.1, sims.theta[:, 1] > 0.9
    assert slow.any()
    assert crashing.any()
    expected = np.where(slow, "took longer than 0.4 s", np.where(crashing, "its process was ended by SIGKILL", ""))
    assert list(sims.reasons) == list(expected)


@pytest.mark.parametrize("config", [{}, {"n_jobs": 1}])
def test_n_jobs_is_the_number_that_run_at_once(client, tmp_path, config):
    log = tmp_path / "log"
    with joblib.parallel_config("dask", **config):
        simulate(noting(log, 0.05), PRIOR, 12)
        running = np.cumsum([1 if what == "begin" else -1 for what, _, _ in lines(log)])
        assert running.max() == config.get("n_jobs", 2)
        log.unlink()
        simulate(noting(log, 0.05), PRIOR, 8, n_jobs=1)
        assert [what for what, _, _ in lines(log)] == ["begin", "end"] * 8


def test_quick_simulations_travel_together_and_slow_ones_alone(dask):
    def group_of(seconds):
        def simulator(theta, rng):
            import distributed

            time.sleep(seconds)
            return int(distributed.get_worker().get_current_task().rpartition("-")[2])

        return simulator

    assert len(np.unique(simulate(group_of(0.0), PRIOR, 400).x)) < 100
    assert len(np.unique(simulate(group_of(0.25), PRIOR, 6).x)) == 6


def test_an_interrupt_stops_at_once_and_keeps_what_is_done(dask, tmp_path, meanwhile):
    log, store = tmp_path / "log", tmp_path / "runs.sqlite"
    meanwhile(lambda: len(lines(log)) >= 20, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        simulate(noting(log, 0.05), PRIOR, 1000, store=store)
    with SimulationStore(store) as file:
        counts = file.counts()
        finished = {rate.hex() for rate in file.frame()["rate"]}
    assert counts["running"] == 0
    assert 0 < counts["done"] < 1000
    wait_until(lambda: not any(dask.processing().values()), "the cluster to rest")
    log.unlink()
    same(simulate(noting(log, 0.05), PRIOR, 60, store=store), reference(60))
    assert not finished & set(begun(log))


# ---- what goes wrong -----------------------------------------------------------------------------------------


def test_a_worker_that_is_killed_changes_nothing(spare, dask, tmp_path, meanwhile):
    log, store = tmp_path / "log", tmp_path / "runs.sqlite"
    meanwhile(lambda: any(pid == str(spare.pid) for _, _, pid in lines(log)), spare.kill)
    sims = simulate(noting(log, 0.05), PRIOR, 60, store=store)
    assert spare.wait() == -signal.SIGKILL
    same(sims, reference(60))
    with SimulationStore(store) as file:
        counts = file.counts()
        assert counts["done"] + counts["failed"] == len(file.frame()) == 60
    begins = Counter(begun(log))
    assert len(begins) == 60
    assert max(begins.values()) <= 2  # what the dead worker held, elsewhere


SCRIPT = """
import sys
import time
from pathlib import Path

import joblib
from distributed import Client

sys.path.insert(0, sys.argv[2])
from test_simulations_on_dask import PRIOR, noting
from decond.lfi.simulate import simulate

note = noting(sys.argv[3], 0.05)


def simulator(theta, rng):
    return note(theta, rng)


if __name__ == "__main__":
    with Client(sys.argv[1]), joblib.parallel_config("dask"):
        simulate(simulator, PRIOR, 60, store=sys.argv[4])
"""


def test_after_the_calling_process_was_killed_another_goes_on(dask, tmp_path):
    log, store, script = tmp_path / "log", tmp_path / "runs.sqlite", tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, script, dask.scheduler.address, os.path.dirname(__file__), log, store]
    with subprocess.Popen(command) as process:
        wait_until(lambda: len(lines(log)) >= 30 or process.poll() is not None, "the first process")
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    with SimulationStore(store) as file:
        finished = {rate.hex() for rate in file.frame()["rate"]}
        assert 0 < len(finished) < 60
    later = tmp_path / "later"
    with pytest.warns(UserWarning, match="was filled by the simulator"):
        sims = simulate(noting(later, 0.0), PRIOR, 60, store=store)
    same(sims, reference(60))
    assert {rate.hex() for rate in sims.theta[:, 0]} - finished == set(begun(later))
    assert len(begun(later)) == 60 - len(finished)


def test_a_simulator_that_kills_its_workers_is_an_error_with_a_remedy(cluster, client, spare, monkeypatch):
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)

    def simulator(theta, rng):
        os.kill(os.getpid(), signal.SIGKILL)

    with (
        joblib.parallel_config("dask", workers=["spare"]),
        pytest.raises(SimulationError, match=r"workers of the Dask cluster died, .* With timeout=\.\.\. simulations"),
    ):
        simulate(simulator, PRIOR, 4)
    assert spare.wait() == -signal.SIGKILL


def test_without_workers_the_wait_ends_and_the_store_keeps_what_had_finished(tmp_path, meanwhile, monkeypatch):
    log, store = tmp_path / "log", tmp_path / "runs.sqlite"
    monkeypatch.setattr(workers, "PATIENCE", 0.5)
    with (
        distributed.LocalCluster(
            n_workers=0, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL + 1
        ) as empty,
        distributed.Client(empty) as client,
        worker_of(client, tmp_path) as only,
        joblib.parallel_config("dask"),
    ):
        client.wait_for_workers(1, timeout=60)
        meanwhile(lambda: len(lines(log)) >= 20, only.kill)
        with pytest.raises(SimulationError, match=r"has had no worker for .* A store keeps what had finished; add"):
            simulate(noting(log, 0.05), PRIOR, 200, store=store)
    with SimulationStore(store) as file:
        assert 0 < len(file.frame()) < 200


def test_a_module_that_workers_lack_is_an_error_with_a_remedy(dask, tmp_path, monkeypatch):
    path = tmp_path / "simulator_of_this_machine.py"
    path.write_text("def simulator(theta, rng):\n    return theta + rng.normal(size=2)\n")
    monkeypatch.syspath_prepend(tmp_path)
    simulator = importlib.import_module(path.stem).simulator
    with pytest.raises(SimulationError, match=r"No module named 'simulator_of_this_machine'\)\. .*upload_file"):
        simulate(simulator, PRIOR, 10)
    dask.upload_file(str(path))
    same(simulate(simulator, PRIOR, 10), simulate(simulator, PRIOR, 10))


def test_a_simulator_that_cannot_be_sent_is_an_error_with_a_remedy(dask):
    lock = threading.Lock()

    def guarded(theta, rng):
        with lock:
            return theta

    with pytest.raises(SimulationError, match=r"\(it holds 'lock'\)\. .* without a cluster\.$"):
        simulate(guarded, PRIOR, 10)
