"""Section 4: deconditional mean operators and the two estimators."""

import numpy as np
import oracles
import pytest

from decond import DeconditionalMeanOperator, features, kernels
from decond.gp import FunctionPrior, TaskTransformed, WeightPrior, condition, estimate

LAMBDA, EPSILON = 0.02, 0.03
SMALL = 1e-8  # a limit to about five digits: the bias is of order 1e-8 over the smallest eigenvalue of C_XX
FORMS = ["task", "transformation", "features"]


def fit_table(table, y_prior, lam, eps, form="auto"):
    """Fit on the table with one-hot x, so that the form in features applies as well."""
    dmo = DeconditionalMeanOperator(
        features.Identity(), kernels.Categorical(), regularization=lam, evidence_regularization=eps, form=form
    )
    return dmo.fit(table.Phi.T, table.y, y_prior)


def operator_on_table(table, y_prior, lam, eps, form="auto"):
    """The (size of Y, size of X) matrix of the fitted operator."""
    Psi_tilde = (y_prior == np.arange(table.counts.shape[1])).T.astype(float)
    return Psi_tilde @ fit_table(table, y_prior, lam, eps, form).weights(np.eye(table.counts.shape[0]))


@pytest.mark.parametrize("form", FORMS)
def test_definition_4_1_deconditional_mean_problem(wide, form):
    """f is recovered from its conditional mean alone."""
    f = np.array([2.0, -1.0, 0.5])
    g = f @ wide.x_given_y
    dmo = fit_table(wide, wide.y, SMALL, SMALL, form)
    recovered = dmo.deconditional_mean(g[wide.y[:, 0].astype(int)], np.eye(3))
    np.testing.assert_allclose(recovered, f, atol=1e-5)


def test_definition_4_2_operator_inverts_conditional_means_whatever_the_prior(wide):
    """(C'_{X|Y})^T E[f(X) | Y = .] = f for all f; if Y has more values than X, several operators do this."""
    y_other = np.repeat([0.0, 1.0, 2.0, 3.0], [1, 2, 3, 9])[:, None]
    operators = [operator_on_table(wide, y_prior, SMALL, SMALL) for y_prior in (wide.y, y_other)]
    for operator in operators:
        np.testing.assert_allclose(operator.T @ wide.x_given_y.T, np.eye(3), atol=1e-5)
    assert np.abs(operators[0] - operators[1]).max() > 0.1


@pytest.mark.parametrize("form", FORMS)
def test_theorem_4_1_deconditional_mean_operator(wide, form):
    """C'_{X|Y} = (C_{X|Y} C_YY)^T (C_{X|Y} C_YY C_{X|Y}^T)^-1, regularized and in the limit."""
    C_XY, C_YY = oracles.cross_covariance(wide.Phi, wide.Psi), oracles.covariance(wide.Psi)
    regularized = oracles.dmo(oracles.cmo(C_XY, C_YY, LAMBDA), C_YY, EPSILON)
    np.testing.assert_allclose(operator_on_table(wide, wide.y, LAMBDA, EPSILON, form), regularized, rtol=1e-9)
    limit = oracles.dmo(oracles.cmo(C_XY, C_YY), C_YY)
    np.testing.assert_allclose(operator_on_table(wide, wide.y, SMALL, SMALL, form), limit, atol=1e-5)


def test_theorem_4_2_operator_is_the_pseudo_inverse(table):
    """Where C_{X|Y}^T C_{X|Y} is invertible as well, the deconditional operator is its pseudo-inverse."""
    square = table([[6, 1, 1], [1, 5, 2], [1, 2, 8]])
    expected = oracles.pseudo_inverse(square.x_given_y)
    np.testing.assert_allclose(operator_on_table(square, square.y, SMALL, SMALL), expected, atol=1e-5)
    np.testing.assert_allclose(expected @ square.x_given_y, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_definition_4_3_empirical_deconditional_mean_operator(sample, form):
    phi, psi = features.Polynomial(2), features.Polynomial(3)
    dmo = DeconditionalMeanOperator(phi, psi, regularization=LAMBDA, evidence_regularization=EPSILON, form=form).fit(
        sample.x, sample.y, sample.y_tilde
    )
    Psi_tilde = psi(sample.y_tilde).T
    operator = oracles.empirical_dmo(phi(sample.x).T, psi(sample.y).T, Psi_tilde, LAMBDA, EPSILON)
    expected = operator @ phi(sample.x_star).T
    np.testing.assert_allclose(Psi_tilde @ dmo.weights(sample.x_star), expected, rtol=1e-8)
    embedding = dmo.embedding(sample.x_star[0])
    np.testing.assert_allclose(embedding(sample.y_star), psi(sample.y_star) @ expected[:, 0], rtol=1e-8)


@pytest.mark.parametrize("form", FORMS)
def test_definition_4_3_kernels_of_scaled_features(sample, form):
    """Kernels gamma^2 phi^T phi and beta^2 psi^T psi: the operator of features gamma phi and beta psi."""
    phi, psi, gamma, beta = features.Polynomial(2), features.Polynomial(3), 0.7, 1.5
    kernel_x, kernel_y = phi.kernel(variance=gamma**2), psi.kernel(variance=beta**2)
    dmo = DeconditionalMeanOperator(kernel_x, kernel_y, LAMBDA, EPSILON, form=form).fit(
        sample.x, sample.y, sample.y_tilde
    )
    Phi, Psi, Psi_tilde = gamma * phi(sample.x).T, beta * psi(sample.y).T, beta * psi(sample.y_tilde).T
    operator = oracles.empirical_dmo(Phi, Psi, Psi_tilde, LAMBDA, EPSILON)
    expected = operator @ (gamma * phi(sample.x_star).T)
    np.testing.assert_allclose(Psi_tilde @ dmo.weights(sample.x_star), expected, rtol=1e-8)


@pytest.mark.parametrize("form", ["auto", "task", "transformation"])
def test_theorem_4_3_empirical_dmo_nonparametric_form(sample, form):
    """The m x m and the n x n form give the weights of the theorem."""
    dmo = DeconditionalMeanOperator(
        sample.kernel_x, sample.kernel_y, regularization=LAMBDA, evidence_regularization=EPSILON, form=form
    ).fit(sample.x, sample.y, sample.y_tilde)
    A = sample.A(LAMBDA)
    weights = oracles.dmo_weights(sample.K, A, sample.k_star, EPSILON)
    np.testing.assert_allclose(dmo.weights(sample.x_star), weights, rtol=1e-9)
    np.testing.assert_allclose(oracles.dmo_weights_woodbury(sample.K, A, sample.k_star, EPSILON), weights, rtol=1e-9)


def test_definition_4_4_nonparametric_dme_estimator(sample):
    """Three ways to write it, the operator applied to targets, and the point estimate's dual weights."""
    A, K, z = sample.A(LAMBDA), sample.K, sample.z
    expected = oracles.dme_nonparametric(K, A, z, sample.k_star, EPSILON)
    dmo = DeconditionalMeanOperator(
        sample.kernel_x, sample.kernel_y, regularization=LAMBDA, evidence_regularization=EPSILON
    ).fit(sample.x, sample.y, sample.y_tilde)
    np.testing.assert_allclose(dmo.deconditional_mean(z, sample.x_star), expected, rtol=1e-9)
    np.testing.assert_allclose(oracles.dme_alternative(K, A, z, sample.k_star, EPSILON), expected, rtol=1e-9)
    fit = estimate(FunctionPrior(sample.kernel_x), task_transformed(sample, sample.kernel_y), z)
    alpha = oracles.dme_dual_weights(K, A, z, EPSILON)
    np.testing.assert_allclose(fit.weights, alpha, rtol=1e-9)
    np.testing.assert_allclose(fit.mean(sample.x_star), expected, rtol=1e-9)
    np.testing.assert_allclose(alpha @ sample.k_star, expected, rtol=1e-9)


def test_definition_4_4_alternative_form_is_the_inducing_form(sample):
    posterior = condition(
        FunctionPrior(sample.kernel_x), task_transformed(sample, sample.kernel_y), sample.z, form="inducing"
    )
    expected = oracles.dme_alternative(sample.K, sample.A(LAMBDA), sample.z, sample.k_star, EPSILON)
    np.testing.assert_allclose(posterior.mean(sample.x_star), expected, rtol=1e-9)


def task_transformed(sample, kernel_y):
    """The observation whose point estimate has the paper's n lambda and m epsilon, chosen freely."""
    return TaskTransformed(
        sample.x,
        sample.y,
        sample.y_tilde,
        kernel_y,
        noise=np.sqrt(sample.m * EPSILON),
        mediator="map",
        mediator_noise=np.sqrt(sample.n * LAMBDA),
    )


def test_definition_4_5_parametric_dme_estimator(sample):
    phi, psi = features.Polynomial(2), features.Polynomial(3)
    Phi, Phi_star = phi(sample.x).T, phi(sample.x_star).T
    A = oracles.transformation_parametric(psi(sample.y).T, psi(sample.y_tilde).T, LAMBDA)
    fit = estimate(WeightPrior(phi), task_transformed(sample, psi.kernel()), sample.z)
    np.testing.assert_allclose(fit.weights, oracles.dme_primal_weights(Phi, A, sample.z, EPSILON), rtol=1e-8)
    expected = oracles.dme_parametric(Phi, A, sample.z, Phi_star, EPSILON)
    np.testing.assert_allclose(fit.mean(sample.x_star), expected, rtol=1e-8)


def test_definition_4_5_parametric_equals_nonparametric_for_polynomial_features(sample):
    phi, psi = features.Polynomial(2), features.Polynomial(3)
    expected = oracles.dme_nonparametric(
        phi(sample.x) @ phi(sample.x).T,
        oracles.transformation(psi(sample.y) @ psi(sample.y).T, psi(sample.y) @ psi(sample.y_tilde).T, LAMBDA),
        sample.z,
        phi(sample.x) @ phi(sample.x_star).T,
        EPSILON,
    )
    for kernel_x, kernel_y in [(phi, psi), (phi.kernel(), psi.kernel())]:
        dmo = DeconditionalMeanOperator(
            kernel_x, kernel_y, regularization=LAMBDA, evidence_regularization=EPSILON
        ).fit(sample.x, sample.y, sample.y_tilde)
        np.testing.assert_allclose(dmo.deconditional_mean(sample.z, sample.x_star), expected, rtol=1e-8)
    for prior in (WeightPrior(phi), FunctionPrior(phi.kernel())):
        fit = estimate(prior, task_transformed(sample, psi.kernel()), sample.z)
        np.testing.assert_allclose(fit.mean(sample.x_star), expected, rtol=1e-8)


def test_section_4_cost_is_that_of_the_smallest_matrix(sample):
    """Beside L + n lambda I one matrix is factored, in the smaller of two forms: m x m, or n x n for few pairs."""
    few, many = sample.y[:3], np.tile(sample.y, (3, 1))
    for prior, form, size in ((few, "task", 3), (many, "transformation", sample.n)):
        dmo = DeconditionalMeanOperator(sample.kernel_x, sample.kernel_y).fit(sample.x, sample.y, prior)
        factor = dmo.evidence_factor_ if form == "task" else dmo.evidence_.core
        assert (dmo.form_, factor.size) == (form, size)
