"""Section 3: conditional mean operators."""

import numpy as np
import oracle_kernels
import oracles
import pytest

from decond import ConditionalMeanOperator, MeanEmbedding, features, kernels

LAMBDA = 0.02
SMALL = 1e-8  # a limit to about six digits: the bias is of order lambda, the rounding of order 1e-16 / lambda


def fit_table(table, lam):
    return ConditionalMeanOperator(kernels.Categorical(), kernels.Categorical(), regularization=lam).fit(
        table.x, table.y
    )


def test_definition_3_1_conditional_mean_problem(wide):
    """On a finite space the estimate is the table's conditional mean, shrunk by n_y / (n_y + n lambda)."""
    f = np.array([2.0, -1.0, 0.5])
    n_y = wide.counts.sum(0)
    shrinkage = n_y / (n_y + len(wide.y) * LAMBDA)
    g = fit_table(wide, LAMBDA).expectation(f[wide.x[:, 0].astype(int)], wide.y_values)
    np.testing.assert_allclose(g, shrinkage * (f @ wide.x_given_y), rtol=1e-12)


def test_definition_3_2_adjoint_of_the_operator_gives_conditional_means(wide):
    """C_{X|Y}^T maps each basis function of H_k to its conditional mean as lambda -> 0."""
    cmo = fit_table(wide, SMALL)
    adjoint = np.array([cmo.expectation(indicator, wide.y_values) for indicator in wide.Phi])
    np.testing.assert_allclose(adjoint, wide.x_given_y, atol=1e-6)


def test_theorem_3_1_conditional_mean_operator(wide):
    """C_{X|Y} = C_XY C_YY^-1, regularized and in the limit."""
    C_XY, C_YY = oracles.cross_covariance(wide.Phi, wide.Psi), oracles.covariance(wide.Psi)
    np.testing.assert_allclose(oracles.cmo(C_XY, C_YY), wide.x_given_y, rtol=1e-12)
    for lam, expected in [(LAMBDA, oracles.cmo(C_XY, C_YY, LAMBDA)), (SMALL, oracles.cmo(C_XY, C_YY))]:
        operator = wide.Phi @ fit_table(wide, lam).weights(wide.y_values)
        np.testing.assert_allclose(operator, expected, atol=1e-6)


def test_lemma_3_2_two_definitions_are_equivalent(sample):
    """<C_{X|Y} ell(y, .), f> = E[f(X) | Y = y] for all f, and C_{X|Y} ell(y, .) = E[k(X, .) | Y = y]."""
    cmo = ConditionalMeanOperator(sample.kernel_x, sample.kernel_y, regularization=LAMBDA).fit(sample.x, sample.y)
    f = MeanEmbedding(sample.kernel_x, sample.x_star, np.array([0.3, -1.0, 2.0, 0.5, -0.7]))
    for row, y in enumerate(sample.y_star):
        mu = cmo.embedding(y)
        assert mu.inner(f) == pytest.approx(cmo.expectation(f(sample.x), sample.y_star)[row], rel=1e-10)
        kernel_mean = [cmo.expectation(column, y[None])[0] for column in sample.k_star.T]
        np.testing.assert_allclose(mu(sample.x_star), kernel_mean, rtol=1e-10)


@pytest.mark.parametrize("finite", [False, True], ids=["kernel", "features"])
def test_definition_3_3_empirical_conditional_mean_operator(sample, finite):
    phi, psi = features.Polynomial(2), features.Polynomial(3)
    given = (phi, psi) if finite else (phi.kernel(), psi.kernel())
    cmo = ConditionalMeanOperator(*given, regularization=LAMBDA).fit(sample.x, sample.y)
    Phi, Psi, Psi_star = phi(sample.x).T, psi(sample.y).T, psi(sample.y_star).T
    expected = oracles.empirical_cmo(Phi, Psi, LAMBDA) @ Psi_star
    np.testing.assert_allclose(Phi @ cmo.weights(sample.y_star), expected, rtol=1e-9)
    np.testing.assert_allclose(cmo.embedding(sample.y_star[0])(sample.x_star), phi(sample.x_star) @ expected[:, 0])


def test_theorem_3_3_nonparametric_form(sample):
    Phi = oracle_kernels.polynomial_features(sample.x)
    Psi = oracle_kernels.polynomial_features(sample.y, 3)
    np.testing.assert_allclose(
        oracles.empirical_cmo_nonparametric(Phi, Psi, LAMBDA),
        oracles.empirical_cmo(Phi, Psi, LAMBDA),
        rtol=1e-9,
    )
    cmo = ConditionalMeanOperator(sample.kernel_x, sample.kernel_y, regularization=LAMBDA).fit(sample.x, sample.y)
    L, ell = sample.ell(sample.y, sample.y), sample.ell(sample.y, sample.y_star)
    weights = oracles.transformation(L, ell, LAMBDA)
    np.testing.assert_allclose(cmo.weights(sample.y_star), weights, rtol=1e-11)
    f_values = sample.x[:, 0] ** 2
    np.testing.assert_allclose(cmo.expectation(f_values, sample.y_star), f_values @ weights, rtol=1e-11)


def test_section_3_operator_does_not_depend_on_the_marginal_of_y(table):
    """p(x | y) p(y) and p(x | y) q(y) have the same conditional mean operator."""
    p = table([[4, 1, 2], [2, 3, 2]])
    q = table([[2, 3, 4], [1, 9, 4]])
    np.testing.assert_allclose(p.x_given_y, q.x_given_y, rtol=1e-15)
    assert np.abs(p.joint - q.joint).max() > 0.1
    operators = [t.Phi @ fit_table(t, SMALL).weights(t.y_values) for t in (p, q)]
    np.testing.assert_allclose(operators[0], operators[1], atol=1e-6)
