"""Table E.1: mean embeddings and their encoded expectations, one test for each equation claimed."""

import numpy as np
import pytest

from decond import (
    ConditionalMeanOperator,
    CovarianceOperator,
    CrossCovarianceOperator,
    MeanEmbedding,
    kernels,
)


@pytest.fixture
def functions(sample):
    """f in H_k and g, g' in H_ell, as weighted sums of canonical features."""
    f = MeanEmbedding(sample.kernel_x, sample.x_star, np.array([0.3, -1.0, 2.0, 0.5, -0.7]))
    g = MeanEmbedding(sample.kernel_y, sample.y_star, np.array([1.0, -0.5, 0.2, 0.9]))
    g_prime = MeanEmbedding(sample.kernel_y, sample.y_star, np.array([-0.4, 1.1, 0.8, -0.6]))
    return f, g, g_prime


@pytest.fixture
def operators(sample):
    C_XY = CrossCovarianceOperator(sample.kernel_x, sample.kernel_y, sample.x, sample.y)
    return C_XY, CovarianceOperator(sample.kernel_y, sample.y)


def test_table_e_1_y_mean_map_definition(sample):
    mu = MeanEmbedding(sample.kernel_y, sample.y)
    np.testing.assert_allclose(mu(sample.y_star), sample.ell(sample.y_star, sample.y).mean(1), rtol=1e-12)


def test_table_e_1_y_encoded_expectation(sample, functions):
    """<mu_Y, g> = E[g(Y)]."""
    _, g, _ = functions
    g_values = sample.ell(sample.y, sample.y_star) @ g.weights
    assert MeanEmbedding(sample.kernel_y, sample.y).inner(g) == pytest.approx(g_values.mean(), rel=1e-12)


def test_table_e_1_y_operator_equivalences(wide):
    """C_{X|Y} C_YY = C_XY, and f^T C_XY = g^T C_YY for g = E[f(X) | Y = .]."""
    labels = kernels.Categorical()
    cmo = ConditionalMeanOperator(labels, labels, regularization=1e-8).fit(wide.x, wide.y)
    C_XY = CrossCovarianceOperator(labels, labels, wide.x, wide.y)(wide.x_values, wide.y_values)
    C_YY = CovarianceOperator(labels, wide.y)(wide.y_values, wide.y_values)
    np.testing.assert_allclose(C_XY, wide.joint, rtol=1e-12)
    np.testing.assert_allclose(wide.Phi @ cmo.weights(wide.y_values) @ C_YY, C_XY, atol=1e-6)
    f = np.array([2.0, -1.0, 0.5])
    g = cmo.expectation(f[wide.x[:, 0].astype(int)], wide.y_values)
    np.testing.assert_allclose(f @ C_XY, g @ C_YY, atol=1e-6)


def test_table_e_1_yy_mean_map_definition(sample, operators):
    ell = sample.ell(sample.y_star, sample.y)
    np.testing.assert_allclose(operators[1](sample.y_star, sample.y_star), ell @ ell.T / sample.n, rtol=1e-12)


def test_table_e_1_yy_encoded_expectation(sample, operators, functions):
    """<mu_YY, g' g^T> = <g', C_YY g> = E[g'(Y) g(Y)]."""
    _, g, g_prime = functions
    expected = np.mean(g_prime(sample.y) * g(sample.y))
    C_YY = operators[1]
    assert C_YY.expectation(g_prime(sample.y), g(sample.y)) == pytest.approx(expected, rel=1e-12)
    assert C_YY.apply(g(sample.y)).inner(g_prime) == pytest.approx(expected, rel=1e-11)


def test_table_e_1_yy_operator_is_symmetric(sample, operators, functions):
    """<g', C_YY g> = <g, C_YY g'>."""
    _, g, g_prime = functions
    C_YY = operators[1]
    forward, backward = C_YY.apply(g(sample.y)).inner(g_prime), C_YY.apply(g_prime(sample.y)).inner(g)
    assert forward == pytest.approx(backward, rel=1e-11)
    evaluations = C_YY.T(sample.y_star, sample.y_tilde)
    np.testing.assert_allclose(evaluations, C_YY(sample.y_star, sample.y_tilde), rtol=1e-12)


def test_table_e_1_xy_mean_map_definition(sample, operators):
    expected = sample.k(sample.x_star, sample.x) @ sample.ell(sample.y, sample.y_star) / sample.n
    np.testing.assert_allclose(operators[0](sample.x_star, sample.y_star), expected, rtol=1e-12)


def test_table_e_1_xy_encoded_expectation(sample, operators, functions):
    """<mu_XY, f g^T> = <f, C_XY g> = E[f(X) g(Y)]."""
    f, g, _ = functions
    expected = np.mean(f(sample.x) * g(sample.y))
    assert operators[0].expectation(f(sample.x), g(sample.y)) == pytest.approx(expected, rel=1e-12)
    assert operators[0].apply(g(sample.y)).inner(f) == pytest.approx(expected, rel=1e-11)


def test_table_e_1_xy_transpose_is_the_operator_of_the_other_direction(sample, operators):
    """C_XY^T = C_YX."""
    C_YX = CrossCovarianceOperator(sample.kernel_y, sample.kernel_x, sample.y, sample.x)
    transposed = operators[0].T(sample.y_star, sample.x_star)
    np.testing.assert_allclose(transposed, C_YX(sample.y_star, sample.x_star), rtol=1e-12)
    np.testing.assert_allclose(transposed, operators[0](sample.x_star, sample.y_star).T, rtol=1e-12)


def test_table_e_1_x_given_y_mean_map_definition(wide):
    """mu_{X|Y=y}(x) = E[k(X, x) | Y = y] = p(x | y) for the categorical kernel."""
    labels = kernels.Categorical()
    cmo = ConditionalMeanOperator(labels, labels, regularization=1e-8).fit(wide.x, wide.y)
    for y, column in zip(wide.y_values, wide.x_given_y.T, strict=True):
        np.testing.assert_allclose(cmo.embedding(y)(wide.x_values), column, atol=1e-6)


def test_table_e_1_x_given_y_encoded_expectation(sample, functions):
    """<mu_{X|Y=y}, f> = E[f(X) | Y = y] = (C_{X|Y}^T f)(y)."""
    f, _, _ = functions
    cmo = ConditionalMeanOperator(sample.kernel_x, sample.kernel_y, regularization=0.02).fit(sample.x, sample.y)
    adjoint = cmo.expectation(f(sample.x), sample.y_star)
    inner = [cmo.embedding(y).inner(f) for y in sample.y_star]
    np.testing.assert_allclose(inner, adjoint, rtol=1e-10)
