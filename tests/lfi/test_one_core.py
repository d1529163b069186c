"""Small matrices run on one core, and the user's threads come back."""

import os
import subprocess
import sys

import numpy as np
import pytest
from processes import DEADLINE
from scipy import stats
from threadpoolctl import ThreadpoolController

from decond import lfi
from decond.threads import one_blas_thread


def threads():
    libraries = ThreadpoolController().select(user_api="blas").info()
    return {library["num_threads"] for library in libraries}


@pytest.fixture(autouse=True)
def _three_threads():
    with ThreadpoolController().limit(limits=3, user_api="blas"):
        yield


def test_threads_come_back_after_nested_use_and_after_an_error():
    with one_blas_thread() as before:
        assert before == 3
        with one_blas_thread() as inside:
            assert (inside, threads()) == (1, {1})
        assert threads() == {1}
    assert threads() == {3}
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        _ = 1 / 0
    assert threads() == {3}


OVERLAPPING = """
import sys
import threading

import numpy as np
from threadpoolctl import threadpool_info

from decond.streaming import Table
from decond.threads import one_blas_thread


def blas():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def limited(began, leave):
    with one_blas_thread():
        began.set()
        leave.wait(150)


def a_pass(began, leave):
    def work(piece):
        began.set()
        return leave.wait(150)

    Table(np.ones((9, 1)), np.ones(9)).total(work)


def begin(kind):
    began, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target={"limited": limited, "pass": a_pass}[kind], args=(began, leave))
    thread.start()
    assert began.wait(150)

    def end():
        leave.set()
        thread.join()

    return end


with one_blas_thread():  # both libraries are there from now on
    pass
before = blas()
for first, second in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
    for first_ends_first in (True, False):
        ends = [begin(first), begin(second)]
        assert max(blas()) == 1, "inside"
        for end in ends if first_ends_first else reversed(ends):
            end()
        assert blas() == before, (first, second, first_ends_first, blas())
print(max(before))
"""


def test_threads_come_back_when_two_callers_overlap():
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    pairs = ["limited", "limited", "limited", "pass", "pass", "limited", "pass", "pass"]
    command = [sys.executable, "-c", OVERLAPPING, *pairs]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = subprocess.run(command, env=environment, text=True, timeout=DEADLINE, check=False, **streams)
    assert (done.returncode, done.stderr) == (0, "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert int(done.stdout) == min(2, cores)  # OpenBLAS never begins with more threads than cores


def test_the_default_method_works_on_one_core():
    seen = []

    class Watched(lfi.ResidualLikelihood):
        def likelihood(self, observed):
            seen.append(threads())
            return super().likelihood(observed)

    prior = lfi.Prior({"mean": stats.norm(0, 1)})
    theta = prior.sample(100, seed=1)
    sims = lfi.Simulations(theta, theta + 0.5 * np.random.default_rng(2).standard_normal((100, 1)))
    posterior = Watched().fit(sims, prior).posterior([1.0])
    posterior.sample(100)
    assert seen == [{1}]
    assert threads() == {3}
