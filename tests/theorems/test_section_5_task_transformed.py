"""Section 5: task transformed Gaussian processes (Theorem 5.3, its five parts and the steps of its proof)."""

from dataclasses import replace

import numpy as np
import oracles
import pytest

from decond import DeconditionalMeanOperator, features
from decond.gp import (
    Direct,
    FunctionPrior,
    TaskTransformed,
    WeightPrior,
    condition,
    estimate,
    log_evidence,
    log_evidence_and_gradient,
)

SIGMA, BETA, GAMMA = 0.4, 1.5, 0.7


@pytest.fixture
def phi():
    return features.Polynomial(2)


@pytest.fixture
def psi():
    return features.Polynomial(3)


def observe(sample, kernel_y, mediator="full", noise=SIGMA):
    return TaskTransformed(sample.x, sample.y, sample.y_tilde, kernel_y, noise=noise, mediator=mediator)


def gram_matrices(sample):
    """L, L_tilde and L_tilde_tilde."""
    return (
        sample.ell(sample.y, sample.y),
        sample.ell(sample.y, sample.y_tilde),
        sample.ell(sample.y_tilde, sample.y_tilde),
    )


def test_theorem_5_3_part_1_ttblr_is_a_tblr(sample, psi):
    M, Sigma = oracles.ttblr(psi(sample.y).T, psi(sample.y_tilde).T, SIGMA, BETA)
    linear = observe(sample, psi.kernel(variance=BETA**2)).linearize()
    np.testing.assert_allclose(linear.transformation, M, rtol=1e-8)
    np.testing.assert_allclose(linear.noise_covariance, Sigma, rtol=1e-8, atol=1e-10)


def test_theorem_5_3_part_2_ttbkr_is_a_tbkr(sample):
    M, Sigma = oracles.ttbkr(*gram_matrices(sample), SIGMA)
    linear = observe(sample, sample.kernel_y).linearize()
    np.testing.assert_allclose(linear.transformation, M, rtol=1e-10)
    np.testing.assert_allclose(linear.noise_covariance, Sigma, rtol=1e-10, atol=1e-12)


def test_theorem_5_3_part_2_likelihood_is_the_predictive_distribution_of_g(sample):
    """p(z_tilde | z) of the first Gaussian process gives M^T z and Sigma (proof, part 2)."""
    z = np.linspace(-1.0, 1.0, sample.n)
    predictive = condition(FunctionPrior(sample.kernel_y), Direct(sample.y, noise=SIGMA), z)
    linear = observe(sample, sample.kernel_y).linearize()
    np.testing.assert_allclose(linear.transformation.T @ z, predictive.mean(sample.y_tilde), rtol=1e-9)
    np.testing.assert_allclose(
        linear.noise_covariance,
        predictive.covariance(sample.y_tilde) + SIGMA**2 * np.eye(sample.m),
        rtol=1e-9,
        atol=1e-12,
    )


def test_theorem_5_3_part_3_ttbkr_marginal_likelihood(sample):
    M, Sigma = oracles.ttbkr(*gram_matrices(sample), SIGMA)
    expected = oracles.tbkr_evidence(sample.K, M, Sigma, sample.z)
    prior, observation = FunctionPrior(sample.kernel_x), observe(sample, sample.kernel_y)
    assert log_evidence(prior, observation, sample.z) == pytest.approx(expected, rel=1e-10)
    assert condition(prior, observation, sample.z).log_evidence == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("form", ["function", "weight"])
def test_theorem_5_3_part_3_ttblr_marginal_likelihood(sample, phi, psi, form):
    M, Sigma = oracles.ttblr(psi(sample.y).T, psi(sample.y_tilde).T, SIGMA, BETA)
    expected = oracles.tblr_evidence(phi(sample.x).T, M, Sigma, sample.z, GAMMA)
    posterior = condition(
        WeightPrior(phi, variance=GAMMA**2),
        observe(sample, psi.kernel(variance=BETA**2)),
        sample.z,
        form=form,
    )
    assert posterior.log_evidence == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("mediator", ["full", "map"])
def test_theorem_5_3_marginal_likelihoods_can_be_maximized(sample, mediator):
    """The gradient in both lengthscales and in sigma is the slope of the evidence as written (parts 3, 4)."""

    def oracle(lengthscale_x, lengthscale_y, sigma):
        moved = replace(sample, lengthscale_x=lengthscale_x, lengthscale_y=lengthscale_y)
        M, Sigma = oracles.ttbkr(*gram_matrices(moved), sigma)
        if mediator == "map":
            return oracles.ttbkr_alternative_evidence(moved.K, M, sample.z, sigma)
        return oracles.tbkr_evidence(moved.K, M, Sigma, sample.z)

    observation = observe(sample, sample.kernel_y, mediator)
    value, slopes = log_evidence_and_gradient(FunctionPrior(sample.kernel_x), observation, sample.z)
    at = np.array([sample.lengthscale_x, sample.lengthscale_y, SIGMA])
    assert value == pytest.approx(oracle(*at), rel=1e-10)
    names = ["prior.kernel.lengthscale", "observation.kernel_y.lengthscale", "observation.noise"]
    for name, step in zip(names, 1e-5 * np.eye(3), strict=True):
        difference = (oracle(*(at + step)) - oracle(*(at - step))) / 2e-5
        assert slopes[name] == pytest.approx(difference, rel=1e-6)


def test_theorem_5_3_part_4_map_for_g_makes_the_noise_isotropic(sample):
    linear = observe(sample, sample.kernel_y, mediator="map").linearize()
    M, _ = oracles.ttbkr(*gram_matrices(sample), SIGMA)
    np.testing.assert_allclose(linear.transformation, M, rtol=1e-10)
    np.testing.assert_allclose(linear.noise_covariance, oracles.map_noise(sample.m, SIGMA), rtol=1e-14)


@pytest.mark.parametrize("form", ["function", "inducing"])
def test_theorem_5_3_part_4_nonparametric_dme_is_the_predictive_mean_of_ttbkr(sample, form):
    """With lambda = sigma^2 / n and epsilon = sigma^2 / m, hence epsilon = (n / m) lambda (appendix G)."""
    lam = SIGMA**2 / sample.n
    dmo = DeconditionalMeanOperator(
        sample.kernel_x,
        sample.kernel_y,
        regularization=lam,
        evidence_regularization=sample.n / sample.m * lam,
    ).fit(sample.x, sample.y, sample.y_tilde)
    posterior = condition(
        FunctionPrior(sample.kernel_x), observe(sample, sample.kernel_y, "map"), sample.z, form=form
    )
    expected = oracles.dme_nonparametric(sample.K, sample.A(lam), sample.z, sample.k_star, SIGMA**2 / sample.m)
    np.testing.assert_allclose(posterior.mean(sample.x_star), expected, rtol=1e-9)
    np.testing.assert_allclose(dmo.deconditional_mean(sample.z, sample.x_star), expected, rtol=1e-9)


@pytest.mark.parametrize("form", ["function", "inducing", "weight"])
def test_theorem_5_3_part_4_parametric_dme_is_the_predictive_mean_of_ttblr(sample, phi, psi, form):
    """With lambda = sigma^2 / (n beta^2) and epsilon = sigma^2 / (m gamma^2)."""
    lam, eps = SIGMA**2 / (sample.n * BETA**2), SIGMA**2 / (sample.m * GAMMA**2)
    A = oracles.transformation_parametric(psi(sample.y).T, psi(sample.y_tilde).T, lam)
    expected = oracles.dme_parametric(phi(sample.x).T, A, sample.z, phi(sample.x_star).T, eps)
    observation = observe(sample, psi.kernel(variance=BETA**2), "map")
    posterior = condition(WeightPrior(phi, variance=GAMMA**2), observation, sample.z, form=form)
    np.testing.assert_allclose(posterior.mean(sample.x_star), expected, rtol=1e-7)


def test_theorem_5_3_part_4_alternative_marginal_likelihood(sample):
    """The n x n form equals the direct m x m one."""
    A = sample.A(SIGMA**2 / sample.n)
    direct = oracles.tbkr_evidence(sample.K, A, oracles.map_noise(sample.m, SIGMA), sample.z)
    alternative = oracles.ttbkr_alternative_evidence(sample.K, A, sample.z, SIGMA)
    assert alternative == pytest.approx(direct, rel=1e-10)
    prior, observation = FunctionPrior(sample.kernel_x), observe(sample, sample.kernel_y, "map")
    for form in ("function", "inducing"):
        posterior = condition(prior, observation, sample.z, form=form)
        assert posterior.log_evidence == pytest.approx(alternative, rel=1e-10)


def test_theorem_5_3_part_5_map_for_both_gives_ttkrr_and_ttlrr(sample, phi, psi):
    kernel_estimate = estimate(FunctionPrior(sample.kernel_x), observe(sample, sample.kernel_y, "map"), sample.z)
    A = sample.A(SIGMA**2 / sample.n)
    np.testing.assert_allclose(
        kernel_estimate.weights,
        oracles.dme_dual_weights(sample.K, A, sample.z, SIGMA**2 / sample.m),
        rtol=1e-9,
    )
    linear_estimate = estimate(
        WeightPrior(phi, variance=GAMMA**2), observe(sample, psi.kernel(variance=BETA**2), "map"), sample.z
    )
    A = oracles.transformation_parametric(psi(sample.y).T, psi(sample.y_tilde).T, SIGMA**2 / (sample.n * BETA**2))
    expected = oracles.dme_primal_weights(phi(sample.x).T, A, sample.z, SIGMA**2 / (sample.m * GAMMA**2))
    np.testing.assert_allclose(linear_estimate.weights, expected, rtol=1e-7)
