"""Real processes, really killed: the same call resumes, loses nothing, and runs nothing twice."""

import contextlib
import itertools
import os
import runpy
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from decond.lfi import execution
from decond.lfi.simulate import simulate
from decond.lfi.store import SimulationStore

N = 40

SCRIPT = '''
import os
import sys
import time
from pathlib import Path

import numpy as np
from scipy import stats

from decond.lfi.prior import Prior
from decond.lfi.simulate import simulate

FOLDER = Path(__file__).parent
PRIOR = Prior({"rate": stats.gamma(2), "share": stats.uniform(0, 1)})


def note(text):
    """Append a line in one piece, also when several processes do."""
    log = os.open(FOLDER / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, f"{text}\\n".encode())
    os.close(log)


def simulator(theta, rng):
    note(f"begin {theta[0].hex()} {NAME}")
    time.sleep(SECONDS)
    note(f"end {theta[0].hex()} {NAME}")
    if theta[1] < 0.1:
        raise ValueError("share too small")
    return theta + rng.normal(size=2)


NAME, SECONDS = "reference", 0.0

if __name__ == "__main__":
    NAME, SECONDS, n, n_jobs, processes = sys.argv[1], *map(float, sys.argv[2:])
    note(f"ready {NAME}")
    while (FOLDER / "log").read_text().count("ready") < processes:
        time.sleep(0.01)
    sims = simulate(simulator, PRIOR, int(n), store=FOLDER / "runs.sqlite", n_jobs=int(n_jobs))
    np.savez(FOLDER / f"{NAME}.npz", theta=sims.theta, x=sims.x)
'''


class Workshop:
    """A folder with a script that simulates, its log, and its processes."""

    def __init__(self, folder):
        self.folder = folder
        self.script = folder / "script.py"
        self.script.write_text(SCRIPT)
        self.processes = []

    def start(self, name, *, seconds=0.01, n=N, n_jobs=1, processes=0):
        command = [sys.executable, self.script, name, str(seconds), str(n), str(n_jobs), str(processes)]
        process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def log(self):
        """Return the lines of the log as tuples of words."""
        path = self.folder / "log"
        return [tuple(line.split()) for line in path.read_text().splitlines()] if path.exists() else []

    def wait_for(self, condition, process):
        """Wait until the log meets a condition."""
        for _ in range(4000):
            if condition(self.log()):
                return
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.005)
        pytest.fail(f"waited too long; the log is {self.log()[-5:]}")

    def stored(self):
        with SimulationStore(self.folder / "runs.sqlite") as store:
            return {rate.hex() for rate in store.frame()["rate"]}

    def result(self, name):
        with np.load(self.folder / f"{name}.npz") as file:
            return file["theta"], file["x"]

    def reference(self, n=N):
        """Return an uninterrupted run, without a store, in this process."""
        names = runpy.run_path(str(self.script))
        names["simulator"].__globals__["note"] = lambda text: None
        sims = simulate(names["simulator"], names["PRIOR"], n)
        return sims.theta, sims.x

    def close(self):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also the workers of a process that was killed
            process.wait()
            process.stderr.close()


@pytest.fixture
def workshop(tmp_path):
    place = Workshop(tmp_path)
    yield place
    place.close()


def done(log):
    return sum(line[0] == "end" for line in log)


def same(result, expected):
    for one, two in zip(result, expected, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(("n_jobs", "kills"), [(1, (10, 25)), (2, (15,))])
def test_killed_again_and_again_it_ends_as_if_nothing_had_happened(workshop, n_jobs, kills):
    safe = []
    for kill, enough in enumerate(kills):
        process = workshop.start(f"run{kill}", n_jobs=n_jobs, seconds=0.06)
        workshop.wait_for(lambda log, enough=enough: done(log) >= enough, process)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        safe.append(workshop.stored())
    assert workshop.start("last").wait(60) == 0

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
        assert len(runs) <= N + len(kills)  # again only the one that each kill interrupted


def test_two_processes_share_one_store(workshop):
    both = [workshop.start(name, processes=2, seconds=0.02) for name in ("one", "two")]
    assert [process.wait(60) for process in both] == [0, 0]
    expected = workshop.reference()
    for name in ("one", "two"):
        same(workshop.result(name), expected)
    runs = [line for line in workshop.log() if line[0] == "begin"]
    assert Counter(rate for _, rate, _ in runs) == dict.fromkeys((rate.hex() for rate in expected[0][:, 0]), 1)
    assert min(Counter(name for _, _, name in runs).values()) >= 3  # both did a part


def test_the_work_of_a_dead_process_is_taken_over_by_a_living_one(workshop):
    stuck = workshop.start("stuck", seconds=1000)
    workshop.wait_for(lambda log: len(log) >= 2, stuck)
    living = workshop.start("living", n=10)
    workshop.wait_for(lambda log: done(log) >= 9, living)
    time.sleep(0.3)
    assert living.poll() is None  # it waits for the row that the other one holds
    os.kill(stuck.pid, signal.SIGKILL)
    assert living.wait(30) == 0
    same(workshop.result("living"), workshop.reference(10))
    runs = Counter(line[1] for line in workshop.log() if line[0] == "begin")
    assert sorted(runs.values()) == [1] * 9 + [2]


def test_an_interrupt_from_the_keyboard_stops_at_once_and_keeps_what_is_done(workshop):
    process = workshop.start("interrupted", n_jobs=2, seconds=0.1)
    workshop.wait_for(lambda log: done(log) >= 8, process)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(30) != 0
    assert "KeyboardInterrupt" in process.stderr.read()
    with SimulationStore(workshop.folder / "runs.sqlite") as store:
        counts = store.counts()
    assert counts["running"] == 0
    assert 0 < counts["done"] + counts["failed"] < N
    assert workshop.start("resumed").wait(60) == 0
    same(workshop.result("resumed"), workshop.reference())


ENDLESS = """
import os
import pickle
import runpy
import sys
from pathlib import Path

import numpy as np


def simulator(theta, rng):
    Path(__file__).with_name("pid").write_text(f"{os.getpid()}.")
    while True:
        pass


if __name__ == "__main__":
    import endless

    caller = runpy.run_path(sys.argv[1])["LimitedCaller"](pickle.dumps((endless.simulator, None, False)), 1.0)
    caller(np.ones((1, 1)), np.random.default_rng(0))
"""


def test_a_limited_simulation_ends_also_when_nobody_is_left_to_end_it(tmp_path):
    script, pid = tmp_path / "endless.py", tmp_path / "pid"
    script.write_text(ENDLESS)
    with subprocess.Popen([sys.executable, script, execution.__file__]) as parent:
        wait_until(lambda: pid.exists() and pid.read_text().endswith("."))
        parent.kill()
    wait_until(lambda: not alive(int(pid.read_text()[:-1])))


def wait_until(condition):
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("waited too long")


def alive(pid):
    """Tell whether a process runs; one that ended and was not collected by its new parent does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
