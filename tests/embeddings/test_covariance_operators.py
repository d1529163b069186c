"""Covariance operators whose weights are a vector of pairs, or a matrix between points of x and of y."""

import numpy as np
import pytest
from expected import refused

from decond import ConditionalMeanOperator, CovarianceOperator, CrossCovarianceOperator, kernels

K, L = kernels.RBF(0.8), kernels.Matern32(1.2)
RNG = np.random.default_rng(0)
X, Y, W = RNG.standard_normal((4, 2)), RNG.standard_normal((3, 1)), RNG.standard_normal((4, 3))
F, G = RNG.standard_normal(4), RNG.standard_normal(3)


def test_a_matrix_of_weights_is_a_double_sum():
    operator = CrossCovarianceOperator(K, L, X, Y, W)
    expected = sum(F[i] * W[i, j] * G[j] for i in range(4) for j in range(3))
    assert operator.expectation(F, G) == pytest.approx(expected)
    np.testing.assert_allclose(operator(X, Y), K(X) @ W @ L(Y), rtol=1e-12)
    np.testing.assert_allclose(operator.apply(G).weights, W @ G, rtol=1e-12)
    np.testing.assert_allclose(operator.T.apply(F).weights, W.T @ F, rtol=1e-12)
    np.testing.assert_allclose(operator.T(Y, X), operator(X, Y).T, rtol=1e-12)


def test_a_diagonal_matrix_is_a_vector():
    weights = np.array([0.1, -0.3, 0.7])
    vector = CrossCovarianceOperator(K, L, X[:3], Y, weights)
    full = CrossCovarianceOperator(K, L, X[:3], Y, np.diag(weights))
    np.testing.assert_allclose(vector(X, Y), full(X, Y), rtol=1e-12)
    np.testing.assert_allclose(vector.T(Y, X), full.T(Y, X), rtol=1e-12)
    assert vector.expectation(F[:3], G) == pytest.approx(full.expectation(F[:3], G))
    np.testing.assert_allclose(vector.apply(G).weights, full.apply(G).weights, rtol=1e-12)


def test_the_representation_shows_both_sizes():
    assert "4 x 3 points" in repr(CrossCovarianceOperator(K, L, X, Y, W))
    assert "4 points" in repr(CovarianceOperator(K, X))


def test_weights_that_do_not_fit_are_refused():
    for argument, call in {
        "weights": lambda: CrossCovarianceOperator(K, L, X, Y, W.T),
        "y": lambda: CrossCovarianceOperator(K, L, X, Y),
    }.items():
        with refused(argument):
            call()
    with refused("weights"):
        CrossCovarianceOperator(K, L, X, Y, W[:, :2])
    with refused("weights"):
        CovarianceOperator(L, Y, [[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


def test_rounding_does_not_make_a_covariance_asymmetric():
    gram = W @ W.T
    gram[0, 1] *= 1.0 + 1e-13
    assert CovarianceOperator(K, X, gram).expectation(F, F) == pytest.approx(F @ W @ W.T @ F)


def test_third_order_operators_check_their_queries():
    cmo = ConditionalMeanOperator(K, L).fit(X[:3], Y)
    with refused("y_query"):
        cmo.covariance([[0.0, 1.0]])
    with refused("weights"):
        cmo.cross_covariance([0.0, 1.0], weights=[1.0])
    with pytest.raises(RuntimeError):
        ConditionalMeanOperator(K, L).covariance([0.0])
