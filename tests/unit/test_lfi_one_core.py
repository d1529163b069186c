"""Small matrices run on one core, and the user's threads come back."""

import threading

import numpy as np
import pytest
from scipy import stats
from threadpoolctl import ThreadpoolController

from decond import lfi
from decond.lfi.one_core import on_one_core


def threads():
    libraries = ThreadpoolController().select(user_api="blas").info()
    return {library["num_threads"] for library in libraries}


@pytest.fixture(autouse=True)
def _three_threads():
    with ThreadpoolController().limit(limits=3, user_api="blas"):
        yield


def test_threads_come_back_after_nested_use_and_after_an_error():
    with on_one_core():
        with on_one_core():
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == {3}
    with pytest.raises(ZeroDivisionError), on_one_core():
        _ = 1 / 0
    assert threads() == {3}


def test_threads_come_back_when_two_callers_overlap():
    entered, leave = threading.Event(), threading.Event()

    def second():
        with on_one_core():
            entered.set()
            leave.wait()

    other = threading.Thread(target=second)
    with on_one_core():
        other.start()
        entered.wait()
    leave.set()
    other.join()
    assert threads() == {3}


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
