"""Appendices B and C: the steps of the proofs that no other test names."""

import numpy as np
import oracles
import pytest
from scipy.stats import multivariate_normal

from decond import ConditionalMeanOperator, features
from decond.gp import Direct, FunctionPrior, TaskTransformed, WeightPrior, condition, estimate, log_evidence

LAMBDA, SIGMA, BETA = 0.02, 0.4, 1.5


@pytest.fixture
def z(sample):
    """Pseudo-targets of the pairs."""
    return np.linspace(-1.0, 1.0, sample.n)


def test_equations_b_5_and_b_6_joint_and_evidence_operators(sample):
    phi, psi = features.Polynomial(2), features.Polynomial(3)
    likelihood = ConditionalMeanOperator(phi, psi, regularization=LAMBDA).fit(sample.x, sample.y)
    Phi, Psi, Psi_tilde = phi(sample.x).T, psi(sample.y).T, psi(sample.y_tilde).T
    A = likelihood.weights(sample.y_tilde)
    operator, prior = oracles.empirical_cmo(Phi, Psi, LAMBDA), Psi_tilde @ Psi_tilde.T / sample.m
    np.testing.assert_allclose(Phi @ A @ Psi_tilde.T / sample.m, operator @ prior, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(Phi @ A @ A.T @ Phi.T / sample.m, operator @ prior @ operator.T, rtol=1e-8, atol=1e-10)


def test_equations_c_7_to_c_10_regression_of_g_on_features(sample, z):
    """Evidence, posterior of the weights and predictive distribution of g(y) = v^T psi(y)."""
    psi = features.Polynomial(3)
    Psi, Psi_tilde = psi(sample.y).T, psi(sample.y_tilde).T
    prior, seen = WeightPrior(psi, variance=BETA**2), Direct(sample.y, noise=SIGMA)
    evidence = multivariate_normal(np.zeros(sample.n), BETA**2 * Psi.T @ Psi + SIGMA**2 * np.eye(sample.n))
    assert log_evidence(prior, seen, z) == pytest.approx(evidence.logpdf(z), rel=1e-9)
    inverse = np.linalg.inv(Psi @ Psi.T + SIGMA**2 / BETA**2 * np.eye(len(Psi)))
    np.testing.assert_allclose(estimate(prior, seen, z).weights, inverse @ Psi @ z, rtol=1e-8)
    predictive = condition(prior, seen, z, form="weight").covariance(sample.y_tilde)
    covariance = SIGMA**2 * Psi_tilde.T @ inverse @ Psi_tilde
    np.testing.assert_allclose(predictive, covariance, rtol=1e-8, atol=1e-10)
    observation = TaskTransformed(sample.x, sample.y, sample.y_tilde, psi.kernel(variance=BETA**2), noise=SIGMA)
    linear = observation.linearize()
    np.testing.assert_allclose(linear.transformation.T @ z, Psi_tilde.T @ inverse @ Psi @ z, rtol=1e-8)
    np.testing.assert_allclose(linear.noise_covariance, covariance + SIGMA**2 * np.eye(sample.m), rtol=1e-8)


def test_equations_c_20_to_c_24_regression_of_g_with_a_kernel(sample, z):
    """Evidence, posterior at the pairs and at the task rows of g ~ GP(0, ell)."""
    prior, seen = FunctionPrior(sample.kernel_y), Direct(sample.y, noise=SIGMA)
    L = sample.ell(sample.y, sample.y)
    noisy = L + SIGMA**2 * np.eye(sample.n)
    assert log_evidence(prior, seen, z) == pytest.approx(
        multivariate_normal(np.zeros(sample.n), noisy).logpdf(z), rel=1e-10
    )
    posterior = condition(prior, seen, z)
    for rows in (sample.y, sample.y_tilde):
        cross = sample.ell(sample.y, rows)
        np.testing.assert_allclose(posterior.mean(rows), cross.T @ np.linalg.inv(noisy) @ z, rtol=1e-9)
        expected = sample.ell(rows, rows) - cross.T @ np.linalg.inv(noisy) @ cross
        np.testing.assert_allclose(posterior.covariance(rows), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("variable", ["x", "y"])
def test_equations_c_23_and_c_31_field_given_its_values(sample, z, variable):
    """A process conditioned on its own values, as the limit of small noise."""
    kernel, gram = (sample.kernel_x, sample.k) if variable == "x" else (sample.kernel_y, sample.ell)
    rows, queries = (sample.x, sample.x_star) if variable == "x" else (sample.y, sample.y_tilde)
    posterior = condition(FunctionPrior(kernel), Direct(rows, noise=1e-5), z)
    cross, inverse = gram(rows, queries), np.linalg.inv(gram(rows, rows))
    np.testing.assert_allclose(posterior.mean(queries), cross.T @ inverse @ z, atol=1e-6)
    expected = gram(queries, queries) - cross.T @ inverse @ cross
    np.testing.assert_allclose(posterior.covariance(queries), expected, atol=1e-6)


def test_equations_c_30_to_c_33_posterior_and_predictive_of_f(sample):
    """The predictive distribution is that of the field given f(x), averaged over the posterior of f(x)."""
    observation = TaskTransformed(sample.x, sample.y, sample.y_tilde, sample.kernel_y, noise=SIGMA)
    pairs = [(sample.y, sample.y), (sample.y, sample.y_tilde), (sample.y_tilde, sample.y_tilde)]
    A, Sigma = oracles.ttbkr(*(sample.ell(a, b) for a, b in pairs), SIGMA)
    posterior = condition(FunctionPrior(sample.kernel_x), observation, sample.z)
    mean, covariance = oracles.tbkr_posterior(sample.K, A, Sigma, sample.z)
    np.testing.assert_allclose(posterior.mean(sample.x), mean, rtol=1e-9)
    np.testing.assert_allclose(posterior.covariance(sample.x), covariance, rtol=1e-9, atol=1e-12)
    gain = sample.k_star.T @ np.linalg.inv(sample.K)
    field = sample.k(sample.x_star, sample.x_star) - gain @ sample.k_star
    np.testing.assert_allclose(posterior.mean(sample.x_star), gain @ mean, rtol=1e-8)
    expected = field + gain @ covariance @ gain.T
    np.testing.assert_allclose(posterior.covariance(sample.x_star), expected, rtol=1e-8, atol=1e-10)
