"""Table C.1: each density of transformed Bayesian linear and kernel regression."""

import numpy as np
import oracles
import pytest

from decond import features
from decond.gp import FunctionPrior, Transformed, WeightPrior, condition, estimate, log_evidence

GAMMA = 0.7
PHI = features.Polynomial(2)


@pytest.fixture
def model(sample):
    """M, Sigma and the observation that carries them."""
    random = np.random.default_rng(11)
    root = random.standard_normal((sample.m, sample.m))
    M, Sigma = random.standard_normal((sample.n, sample.m)), 0.1 * root @ root.T + 0.2 * np.eye(sample.m)
    return M, Sigma, Transformed(sample.x, transformation=M, noise_covariance=Sigma)


def total_covariance(prior, observation, S, x):
    """Posterior covariance plus the covariance of the posterior mean under the evidence N(0, S)."""
    gain = condition(prior, observation, np.eye(len(S))).mean(x)
    posterior = condition(prior, observation, np.zeros(len(S))).covariance(x)
    return posterior + gain @ S @ gain.T


def test_table_c_1_prior_tbkr(sample, model):
    """By the law of total covariance the model's prior of f is N(0, K)."""
    M, Sigma, observation = model
    S = M.T @ sample.K @ M + Sigma
    total = total_covariance(FunctionPrior(sample.kernel_x), observation, S, sample.x_star)
    np.testing.assert_allclose(total, sample.k(sample.x_star, sample.x_star), rtol=1e-9, atol=1e-12)


def test_table_c_1_prior_tblr(sample, model):
    """The same for w: f has covariance gamma^2 Phi^T Phi."""
    M, Sigma, observation = model
    S = GAMMA**2 * M.T @ PHI(sample.x) @ PHI(sample.x).T @ M + Sigma
    total = total_covariance(WeightPrior(PHI, variance=GAMMA**2), observation, S, sample.x_star)
    expected = GAMMA**2 * PHI(sample.x_star) @ PHI(sample.x_star).T
    np.testing.assert_allclose(total, expected, rtol=1e-8, atol=1e-10)


def test_table_c_1_likelihood(sample, model):
    """z_tilde given f is N(M^T f, Sigma)."""
    M, Sigma, observation = model
    linear = observation.linearize()
    np.testing.assert_array_equal(linear.transformation, M)
    np.testing.assert_array_equal(linear.noise_covariance, Sigma)


def test_table_c_1_evidence_tbkr(sample, model):
    M, Sigma, observation = model
    expected = oracles.tbkr_evidence(sample.K, M, Sigma, sample.z)
    prior = FunctionPrior(sample.kernel_x)
    assert log_evidence(prior, observation, sample.z) == pytest.approx(expected, rel=1e-10)


def test_table_c_1_evidence_tblr(sample, model):
    """The Woodbury form, which equals N(0, gamma^2 M^T Phi^T Phi M + Sigma)."""
    M, Sigma, observation = model
    Phi = PHI(sample.x).T
    expected = oracles.tblr_evidence(Phi, M, Sigma, sample.z, GAMMA)
    direct = oracles.tbkr_evidence(GAMMA**2 * Phi.T @ Phi, M, Sigma, sample.z)
    assert expected == pytest.approx(direct, rel=1e-9)
    prior = WeightPrior(PHI, variance=GAMMA**2)
    assert log_evidence(prior, observation, sample.z) == pytest.approx(expected, rel=1e-9)
    posterior = condition(prior, observation, sample.z, form="weight")
    assert posterior.log_evidence == pytest.approx(expected, rel=1e-9)


def test_table_c_1_posterior_tbkr(sample, model):
    M, Sigma, observation = model
    mean, covariance = oracles.tbkr_posterior(sample.K, M, Sigma, sample.z)
    posterior = condition(FunctionPrior(sample.kernel_x), observation, sample.z)
    np.testing.assert_allclose(posterior.mean(sample.x), mean, rtol=1e-9)
    np.testing.assert_allclose(posterior.covariance(sample.x), covariance, rtol=1e-9, atol=1e-12)


def test_table_c_1_posterior_tblr(sample, model):
    """The mean m is the estimate's weights; C is read off the covariance at as many points as features."""
    M, Sigma, observation = model
    prior = WeightPrior(PHI, variance=GAMMA**2)
    mean, C = oracles.tblr_posterior(PHI(sample.x).T, M, Sigma, sample.z, GAMMA)
    np.testing.assert_allclose(estimate(prior, observation, sample.z).weights, mean, rtol=1e-8)
    points = sample.x[: len(C)]
    unmix = np.linalg.inv(PHI(points))
    recovered = unmix @ condition(prior, observation, sample.z, form="weight").covariance(points) @ unmix.T
    np.testing.assert_allclose(recovered, C, rtol=1e-6, atol=1e-9)


def test_table_c_1_predictive_tbkr(sample, model):
    M, Sigma, observation = model
    mean, covariance = oracles.tbkr_predictive(
        sample.K, M, Sigma, sample.z, sample.k_star, sample.k(sample.x_star, sample.x_star)
    )
    posterior = condition(FunctionPrior(sample.kernel_x), observation, sample.z)
    np.testing.assert_allclose(posterior.mean(sample.x_star), mean, rtol=1e-9)
    np.testing.assert_allclose(posterior.covariance(sample.x_star), covariance, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", ["function", "weight"])
def test_table_c_1_predictive_tblr(sample, model, form):
    M, Sigma, observation = model
    mean, covariance = oracles.tblr_predictive(PHI(sample.x).T, M, Sigma, sample.z, PHI(sample.x_star).T, GAMMA)
    posterior = condition(WeightPrior(PHI, variance=GAMMA**2), observation, sample.z, form=form)
    np.testing.assert_allclose(posterior.mean(sample.x_star), mean, rtol=1e-8)
    np.testing.assert_allclose(posterior.covariance(sample.x_star), covariance, rtol=1e-8, atol=1e-10)


def test_table_c_1_evidence_factorizes_into_leave_one_out_densities(sample, model):
    """p(z_j | the others) follows from the evidence's covariance S, one regression for each j."""
    M, Sigma, observation = model
    means, variances = oracles.leave_one_out(sample.K, M, Sigma, sample.z)
    left = condition(FunctionPrior(sample.kernel_x), observation, sample.z).leave_one_out()
    np.testing.assert_allclose(left[0], means, rtol=1e-9)
    np.testing.assert_allclose(left[1], variances, rtol=1e-9)
