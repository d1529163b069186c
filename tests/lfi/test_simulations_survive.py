"""Real processes, really killed: the same call resumes, loses nothing, and runs nothing twice."""

import contextlib
import itertools
import os
import runpy
import signal
import subprocess
import sys
from collections import Counter
from functools import partial

import numpy as np
import pytest
from processes import DEADLINE, alive, n_stored, wait_until

from decond.lfi import SimulationStore, simulate

N = 40

SCRIPT = '''
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
from scipy import stats

from decond.lfi.prior import Prior
from decond.lfi.simulation import SimulationStore, simulate
from decond.lfi.simulation.store import StoreSettings

FOLDER = Path(__file__).parent
PRIOR = Prior({"rate": stats.gamma(2), "share": stats.uniform(0, 1)})


def note(text):
    """Append a line in one piece, also when several processes do."""
    log = os.open(FOLDER / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, f"{text}\\n".encode())
    os.close(log)


def noted(word):
    """Return the other words of the lines that begin with a word."""
    lines = (FOLDER / "log").read_text().splitlines()
    return [line.split()[1:] for line in lines if line.split()[0] == word]


def simulator(theta, rng):
    note(f"begin {theta[0].hex()} {NAME}")
    while len({name for _, name in noted("begin")}) < TOGETHER or len(noted("end")) >= STOP:
        time.sleep(0.01)  # until others have begun too, or for ever
    note(f"end {theta[0].hex()} {NAME}")
    if theta[1] < 0.1:
        raise ValueError("share too small")
    return theta + rng.normal(size=2)


NAME = "reference"

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # below a background job it is ignored
    NAME, (n, n_jobs, STOP, TOGETHER, lease) = sys.argv[1], map(int, sys.argv[2:])
    settings = StoreSettings(lease=lease, heartbeat=0.2)
    with SimulationStore(FOLDER / "runs.sqlite", PRIOR, settings=settings) as store:
        sims = simulate(simulator, PRIOR, n, store=store, n_jobs=n_jobs)
    np.savez(FOLDER / f"{NAME}.npz", theta=sims.theta, x=sims.x)
'''


class Workshop:
    """A folder with a script that simulates, its log, and its processes."""

    def __init__(self, folder):
        self.folder = folder
        self.script = folder / "script.py"
        self.script.write_text(SCRIPT)
        self.store = folder / "runs.sqlite"
        self.processes = []

    def start(self, name, *, n=N, n_jobs=1, stop=10 * N, together=0, lease=3):
        """Start to simulate. Simulations hang once the log has `stop` ends, and until `together` names have begun."""
        numbers = (n, n_jobs, stop, together, lease)
        process = subprocess.Popen(
            [sys.executable, self.script, name, *map(str, numbers)], stdin=subprocess.DEVNULL, start_new_session=True
        )
        self.processes.append(process)
        return process

    def finish(self, name, **options):
        """Simulate to the end."""
        assert self.start(name, **options).wait(DEADLINE) == 0

    def log(self):
        """Return the lines of the log as tuples of words."""
        path = self.folder / "log"
        return [tuple(line.split()) for line in path.read_text().splitlines()] if path.exists() else []

    def has(self, ended, stored):
        """Tell whether so many simulations have ended, and so many of them are stored."""
        return sum(line[0] == "end" for line in self.log()) >= ended and n_stored(self.store) >= stored

    def wait_for(self, condition, process):
        """Wait until a condition holds while a process runs."""
        wait_until(
            lambda: condition() or process.poll() is not None, f"the simulations; the log is {self.log()[-5:]}"
        )
        assert process.poll() is None

    def stored(self):
        with SimulationStore(self.store) as store:
            return {rate.hex() for rate in store.simulations().theta[:, 0]}

    def result(self, name):
        with np.load(self.folder / f"{name}.npz") as file:
            return file["theta"], file["x"]

    def reference(self, n=N):
        """Return an uninterrupted run, without a store, in this process."""
        names = runpy.run_path(str(self.script))
        names["simulator"].__globals__.update(note=lambda text: None, noted=lambda word: [], TOGETHER=0, STOP=1)
        sims = simulate(names["simulator"], names["PRIOR"], n)
        return sims.theta, sims.x

    def close(self):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also the workers of a process that was killed
            process.wait()


@pytest.fixture
def workshop(tmp_path):
    place = Workshop(tmp_path)
    yield place
    place.close()


def same(result, expected):
    for one, two in zip(result, expected, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("n_jobs", "stops"),
    [
        (1, (10,)),
        pytest.param(1, (10, 25), marks=pytest.mark.slow),
        pytest.param(2, (15,), marks=pytest.mark.slow),
    ],
)
def test_killed_again_and_again_it_ends_as_if_nothing_had_happened(workshop, n_jobs, stops):
    safe = []
    for kill, stop in enumerate(stops):
        before = n_stored(workshop.store)
        process = workshop.start(f"run{kill}", n_jobs=n_jobs, stop=stop)
        workshop.wait_for(partial(workshop.has, stop, before + 1), process)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        safe.append(workshop.stored())
    workshop.finish("last")

    theta, x = workshop.result("last")
    same((theta, x), workshop.reference())
    assert len(np.unique(theta, axis=0)) == N
    for fewer, more in itertools.pairwise([set(), *safe, workshop.stored()]):
        assert fewer < more
    runs = [(line[1], line[2]) for line in workshop.log() if line[0] == "begin"]
    for kill, finished in enumerate(safe):
        later = {rate for rate, name in runs if name in ("last", f"run{kill + 1}")}
        assert not finished & later  # what was stored was never run again
    assert {rate for rate, _ in runs} == workshop.stored()
    if n_jobs == 1:
        assert len(runs) <= N + len(stops)  # again only the one that each kill interrupted


@pytest.mark.slow
def test_two_processes_share_one_store(workshop):
    both = [workshop.start(name, together=2, lease=60) for name in ("one", "two")]
    assert [process.wait(DEADLINE) for process in both] == [0, 0]
    expected = workshop.reference()
    for name in ("one", "two"):
        same(workshop.result(name), expected)
    runs = [line for line in workshop.log() if line[0] == "begin"]
    assert Counter(rate for _, rate, _ in runs) == dict.fromkeys((rate.hex() for rate in expected[0][:, 0]), 1)
    assert {name for _, _, name in runs} == {"one", "two"}  # both did a part


@pytest.mark.slow
def test_the_work_of_a_dead_process_is_taken_over_by_a_living_one(workshop):
    stuck = workshop.start("stuck", stop=0)
    workshop.wait_for(workshop.log, stuck)
    living = workshop.start("living", n=10)
    workshop.wait_for(partial(workshop.has, 9, 9), living)
    assert living.poll() is None  # it waits for the row that the other one holds
    os.kill(stuck.pid, signal.SIGKILL)
    assert living.wait(DEADLINE) == 0
    same(workshop.result("living"), workshop.reference(10))
    runs = Counter(line[1] for line in workshop.log() if line[0] == "begin")
    assert sorted(runs.values()) == [1] * 9 + [2]


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_from_the_keyboard_stops_at_once_and_keeps_what_is_done(workshop, n_jobs):
    process = workshop.start("interrupted", n_jobs=n_jobs, stop=8)
    workshop.wait_for(partial(workshop.has, 8, 1), process)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(DEADLINE) == -signal.SIGINT  # although simulations hang
    with SimulationStore(workshop.store) as store:
        counts = store.counts()
    assert counts["running"] == 0
    assert 0 < counts["done"] + counts["failed"] < N
    workshop.finish("resumed")
    same(workshop.result("resumed"), workshop.reference())


ENDLESS = """
import os
import sys
import time
from pathlib import Path

from scipy import stats

from decond.lfi import Prior, simulate


def simulator(theta, rng):
    for pid in (os.getpid(), os.getppid()):
        Path(__file__).with_name(f"{pid}.pid").touch()
    time.sleep(3600)


if __name__ == "__main__":
    simulate(simulator, Prior({"rate": stats.norm()}), 3, n_jobs=int(sys.argv[1]), timeout=float(sys.argv[2]) or None)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize(("n_jobs", "limit", "processes"), [(1, 3600, 2), (2, 0, 3), (2, 3600, 4)])
def test_what_simulates_ends_with_the_process_that_asked_for_it(tmp_path, end, n_jobs, limit, processes):
    def pids():
        return [int(path.stem) for path in tmp_path.glob("*.pid")]

    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    with subprocess.Popen([sys.executable, script, str(n_jobs), str(limit)], stdin=subprocess.DEVNULL) as parent:
        wait_until(lambda: len(pids()) >= processes, "the simulations")
        parent.send_signal(end)
    wait_until(lambda: not any(map(alive, pids())), "their end")
