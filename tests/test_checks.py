"""What every estimator refuses at once, and that nothing else depends on sizes or order."""

import numpy as np
import pandas as pd
import pytest
from expected import refused
from scipy.sparse import csr_matrix

from decond.checks import (
    SIZES,
    as_deviation,
    as_rows,
    as_targets,
    check_answer,
    check_size,
    check_text,
    order_of_rows,
)
from decond.errors import ArgumentTypeError
from decond.estimators import DirectGP, DualEmbedding, SparseGP, TaskTransformedGP
from decond.kernels import Matern32, Matern52, RationalQuadratic

RNG = np.random.default_rng(0)
X = RNG.uniform(-3.0, 3.0, (30, 1))
Y = X + 0.3 * RNG.standard_normal(X.shape)
Y_TASK = RNG.uniform(-3.0, 3.0, (25, 1))
Z = np.sin(Y_TASK[:, 0])


@pytest.mark.parametrize(
    "value", [None, {"a": 1}, {1.0}, object(), csr_matrix([[1.0]])], ids=lambda value: type(value).__name__
)
@pytest.mark.parametrize("labels", [False, True])
def test_what_is_no_table_is_refused_by_its_type(value, labels):
    with refused("x", ArgumentTypeError):
        as_rows(value, "x", labels=labels)
    with refused("z", ArgumentTypeError):
        as_targets(value, "z", 1, "x")


def test_whole_numbers_beyond_float64_are_refused():
    with refused("x"):
        as_rows([[10**400]], "x")
    for model in (DirectGP(), SparseGP(n_inducing=3)):
        with refused("X"):
            model.fit([[10**400], [1]], [0.0, 1.0])


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_numbers_that_cannot_be_squared_are_refused_with_their_column(unit):
    frame = pd.DataFrame({"low": [1.0, 2.0], "wind": [3.0 * unit, 4.0 * unit]})
    with refused("x") as caught:
        check_size(frame.to_numpy(), "x", list(frame.columns))
    assert "'wind'" in str(caught.value)
    check_size(frame.to_numpy() * 0.0, "x")
    check_size(np.array([[1.0, "label"]], dtype=object), "x")


@pytest.mark.parametrize("noise", [1e-300, 1e150])
@pytest.mark.parametrize("model", [DirectGP, SparseGP])
def test_noise_whose_square_is_no_number_is_refused(model, noise):
    with refused("noise"):
        model(noise=noise).fit(X, np.sin(X[:, 0]))
    assert SIZES.smallest <= as_deviation(1e-50, "noise") <= SIZES.largest


def test_an_answer_that_is_not_finite_is_refused():
    model = DirectGP(n_restarts=0).fit(X, np.sin(X[:, 0]))
    with refused("X"), np.errstate(all="ignore"):
        model.predict([[1e200]], return_std=True)
    with refused("X"):
        check_answer(np.array([1.0, np.nan]), "X")


@pytest.mark.parametrize("kernel", [Matern32(), Matern52(), RationalQuadratic()], ids=repr)
def test_kernels_vanish_where_squared_distances_overflow(kernel):
    far = kernel([[0.0]], [[1e155], [1e300]])
    assert np.all(np.isfinite(far))
    np.testing.assert_allclose(far, 0.0, atol=1e-100)


def test_rows_are_sorted_by_numbers_and_labels():
    x, y = np.array([[2.0], [1.0], [2.0]]), np.array([["b"], ["c"], ["a"]], dtype=object)
    assert order_of_rows(x, y).tolist() == [1, 2, 0]


@pytest.mark.parametrize("make", [lambda: DualEmbedding(n_features=15), lambda: TaskTransformedGP(n_restarts=0)])
def test_the_order_of_rows_moves_nothing(make):
    query = np.linspace(-2.0, 2.0, 5)[:, None]
    expected = make().fit(X, Y, Y_TASK, Z).predict(query)
    pairs, task = np.random.default_rng(1).permutation(len(X)), np.random.default_rng(2).permutation(len(Z))
    found = make().fit(X[pairs], Y[pairs], Y_TASK[task], Z[task]).predict(query)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.std(Z))


def test_text_among_measurements_is_a_slip_and_among_codes_a_label():
    check_text(np.array([["1"], ["2"], ["A"]], dtype=object), "x")
    with refused("x"):
        check_text(np.array([["1.5"], ["2"], ["A"]], dtype=object), "x")
