"""Memory that is used again: never by two at once, never after its scope, and without a trace in the numbers."""

import gc
import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from decond import kernels, memory
from decond.gp import FunctionPrior, TaskTransformed, log_evidence_and_gradient
from decond.memory import new_copy, new_matrix, reused_memory

SIDE = 800
"""Matrices of this side are large enough to be kept."""


def test_matrices_of_this_side_are_large():
    assert memory.LARGE <= 8 * 750 * 750 < 8 * SIDE**2


def test_arrays_that_live_never_share_memory():
    with reused_memory():
        first = new_matrix(SIDE, SIDE)
        view = first[10:20].T
        address = first.ctypes.data
        del first
        second = new_matrix(SIDE, SIDE)  # the view still needs the first one
        assert not np.shares_memory(view, second)
        del view
        assert new_matrix(SIDE, SIDE).ctypes.data == address


def test_nothing_is_kept_when_the_outermost_scope_ends():
    with reused_memory():
        store = memory._CURRENT.store
        with reused_memory():
            new_matrix(SIDE, SIDE)
        assert sum(map(len, memory._CURRENT.store.kept.values())) == 1
        survivor = new_matrix(SIDE, SIDE)
        survivor[...] = 3.0
    assert not store.kept
    assert (survivor == 3.0).all()
    del survivor
    gc.collect()
    assert not store.kept
    assert memory._CURRENT.store is None


def test_a_scope_that_ends_in_an_error_keeps_nothing():
    try:
        with reused_memory():
            new_matrix(SIDE, SIDE)
            raise RuntimeError("as it happens")
    except RuntimeError:
        pass
    assert memory._CURRENT.store is None


def test_a_thread_keeps_nothing_because_another_one_does():
    def elsewhere():
        for side in range(SIDE, SIDE + 20):
            new_matrix(side, side)
        return getattr(memory._CURRENT, "store", None)

    with reused_memory(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(elsewhere).result() is None
        assert not memory._CURRENT.store.kept
        lent = new_matrix(SIDE, SIDE)
        address = lent.ctypes.data
        pool.submit(id, lent).result()
        del lent  # whoever lets go of it last, it comes back to the one who took it
        gc.collect()
        assert new_matrix(SIDE, SIDE).ctypes.data == address


def test_copies_keep_their_layout_and_numbers():
    matrix = np.arange(SIDE * SIDE, dtype=float).reshape(SIDE, SIDE)
    with reused_memory():
        for given in (matrix, matrix.T, matrix[::2, ::3]):
            copy = new_copy(given)
            assert not np.shares_memory(copy, given)
            np.testing.assert_array_equal(copy, given)
            assert copy.flags.f_contiguous == (given.flags.f_contiguous and not given.flags.c_contiguous)


def test_evidence_does_not_depend_on_what_was_in_the_memory():
    rng = np.random.default_rng(0)
    y, y_task = rng.uniform(-3.0, 3.0, (750, 1)), rng.uniform(-3.0, 3.0, (760, 1))
    observation = TaskTransformed(np.sin(y), y, y_task, kernels.Matern52(0.7), noise=0.3)
    prior, z = FunctionPrior(kernels.RBF(1.0)), np.cos(y_task[:, 0])
    value, gradient = log_evidence_and_gradient(prior, observation, z)
    with reused_memory():
        for rows, columns in itertools.product((750, 760), repeat=2):
            junk = [new_matrix(rows, columns) for _ in range(12)]
            for matrix in junk:
                matrix.fill(np.nan)
            del junk, matrix
        assert set(memory._CURRENT.store.kept) == {750 * 750, 750 * 760, 760 * 760}
        again, slopes = log_evidence_and_gradient(prior, observation, z)
    assert again == value
    assert slopes == gradient
