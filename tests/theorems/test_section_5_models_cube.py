"""Figure 1: the twelve models, linear|kernel x point|Bayesian x direct|transformed|task transformed.

Each model is a (prior, observation) pair; the oracle is the row of Table C.1 with that pair's M and Sigma,
and for a point estimate the ridge solution that the same algebra gives.
"""

import numpy as np
import oracles
import pytest

from decond import features
from decond.gp import (
    Direct,
    FunctionPrior,
    TaskTransformed,
    Transformed,
    WeightPrior,
    condition,
    estimate,
)

SIGMA, BETA, GAMMA = 0.4, 1.5, 0.7
PHI, PSI = features.Polynomial(2), features.Polynomial(3)


def general_transformation(n, m):
    """A transformation and a full noise covariance with nothing special about them."""
    random = np.random.default_rng(3)
    root = random.standard_normal((m, m))
    return random.standard_normal((n, m)), 0.1 * root @ root.T + 0.2 * np.eye(m)


def direct(sample, point, is_linear):
    return Direct(sample.x, noise=SIGMA), np.eye(sample.n), SIGMA**2 * np.eye(sample.n), sample.z[: sample.n]


def transformed(sample, point, is_linear):
    M, Sigma = general_transformation(sample.n, sample.m)
    return Transformed(sample.x, transformation=M, noise_covariance=Sigma), M, Sigma, sample.z


def task_transformed(sample, point, is_linear):
    """A point estimate takes the point estimate of g as well (Theorem 5.3, part 5)."""
    if is_linear:
        kernel_y = PSI.kernel(variance=BETA**2)
        M, Sigma = oracles.ttblr(PSI(sample.y).T, PSI(sample.y_tilde).T, SIGMA, BETA)
    else:
        kernel_y = sample.kernel_y
        pairs = [(sample.y, sample.y), (sample.y, sample.y_tilde), (sample.y_tilde, sample.y_tilde)]
        M, Sigma = oracles.ttbkr(*(sample.ell(a, b) for a, b in pairs), SIGMA)
    observation = TaskTransformed(
        sample.x, sample.y, sample.y_tilde, kernel_y, noise=SIGMA, mediator="map" if point else "full"
    )
    return observation, M, oracles.map_noise(sample.m, SIGMA) if point else Sigma, sample.z


OBSERVATIONS = [direct, transformed, task_transformed]


@pytest.mark.parametrize("observe", OBSERVATIONS, ids=["LRR", "TLRR", "TTLRR"])
def test_figure_1_linear_point_models(sample, observe):
    observation, M, Sigma, z = observe(sample, True, True)
    fit = estimate(WeightPrior(PHI, variance=GAMMA**2), observation, z)
    weights, _ = oracles.tblr_posterior(PHI(sample.x).T, M, Sigma, z, GAMMA)
    np.testing.assert_allclose(fit.weights, weights, rtol=1e-7)
    np.testing.assert_allclose(fit.mean(sample.x_star), PHI(sample.x_star) @ weights, rtol=1e-7)


@pytest.mark.parametrize("observe", OBSERVATIONS, ids=["KRR", "TKRR", "TTKRR"])
def test_figure_1_kernel_point_models(sample, observe):
    observation, M, Sigma, z = observe(sample, True, False)
    fit = estimate(FunctionPrior(sample.kernel_x), observation, z)
    weights = M @ np.linalg.inv(M.T @ sample.K @ M + Sigma) @ z
    np.testing.assert_allclose(fit.weights, weights, rtol=1e-9)
    np.testing.assert_allclose(fit.mean(sample.x_star), sample.k_star.T @ weights, rtol=1e-9)


@pytest.mark.parametrize("form", ["function", "weight"])
@pytest.mark.parametrize("observe", OBSERVATIONS, ids=["BLR", "TBLR", "TTBLR"])
def test_figure_1_linear_bayesian_models(sample, observe, form):
    observation, M, Sigma, z = observe(sample, False, True)
    Phi, Phi_star = PHI(sample.x).T, PHI(sample.x_star).T
    posterior = condition(WeightPrior(PHI, variance=GAMMA**2), observation, z, form=form)
    mean, covariance = oracles.tblr_predictive(Phi, M, Sigma, z, Phi_star, GAMMA)
    np.testing.assert_allclose(posterior.mean(sample.x_star), mean, rtol=1e-7)
    np.testing.assert_allclose(posterior.covariance(sample.x_star), covariance, rtol=1e-7, atol=1e-10)
    assert posterior.log_evidence == pytest.approx(oracles.tblr_evidence(Phi, M, Sigma, z, GAMMA), rel=1e-8)


@pytest.mark.parametrize("observe", OBSERVATIONS, ids=["BKR", "TBKR", "TTBKR"])
def test_figure_1_kernel_bayesian_models(sample, observe):
    observation, M, Sigma, z = observe(sample, False, False)
    posterior = condition(FunctionPrior(sample.kernel_x), observation, z)
    mean, covariance = oracles.tbkr_predictive(
        sample.K, M, Sigma, z, sample.k_star, sample.k(sample.x_star, sample.x_star)
    )
    np.testing.assert_allclose(posterior.mean(sample.x_star), mean, rtol=1e-9)
    np.testing.assert_allclose(posterior.covariance(sample.x_star), covariance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(posterior.variance(sample.x_star), np.diag(covariance), rtol=1e-9)
    assert posterior.log_evidence == pytest.approx(oracles.tbkr_evidence(sample.K, M, Sigma, z), rel=1e-10)


@pytest.mark.parametrize("observe", OBSERVATIONS)
def test_figure_1_kernelizing_edge(sample, observe):
    """A linear model and the kernel model of its features' kernel are the same function."""
    observation, _, _, z = observe(sample, False, True)
    linear = condition(WeightPrior(PHI, variance=GAMMA**2), observation, z, form="weight")
    kernel = condition(FunctionPrior(PHI.kernel(variance=GAMMA**2)), observation, z, form="function")
    np.testing.assert_allclose(linear.mean(sample.x_star), kernel.mean(sample.x_star), rtol=1e-7)
    np.testing.assert_allclose(linear.variance(sample.x_star), kernel.variance(sample.x_star), rtol=1e-7)
    assert linear.log_evidence == pytest.approx(kernel.log_evidence, rel=1e-8)


@pytest.mark.parametrize("is_linear", [True, False])
@pytest.mark.parametrize("observe", OBSERVATIONS)
def test_figure_1_bayesian_edge(sample, observe, is_linear):
    """A point model minimizes a penalized sum of squares, and is the posterior mean of its Bayesian one."""
    observation, M, Sigma, z = observe(sample, True, is_linear)
    if is_linear:
        prior, root, at = WeightPrior(PHI, variance=GAMMA**2), GAMMA * PHI(sample.x), GAMMA * PHI(sample.x_star)
    else:
        prior, root = FunctionPrior(sample.kernel_x), np.linalg.cholesky(sample.K)
        at = np.linalg.solve(root, sample.k_star).T
    expected = at @ ridge(root, M, Sigma, z)
    for form in ("function", "weight") if is_linear else ("function",):
        for model in (estimate(prior, observation, z, form=form), condition(prior, observation, z, form=form)):
            np.testing.assert_allclose(model.mean(sample.x_star), expected, rtol=1e-7)


def ridge(root, M, Sigma, z):
    """Minimize |z - M^T root v|^2 in the metric Sigma^-1, plus |v|^2, as one least squares problem."""
    whitened = np.linalg.inv(np.linalg.cholesky(Sigma))
    rows = np.vstack([whitened @ M.T @ root, np.eye(root.shape[1])])
    targets = np.concatenate([whitened @ z, np.zeros(root.shape[1])])
    return np.linalg.lstsq(rows, targets, rcond=None)[0]


def test_figure_1_transforming_edge(sample):
    """A transformed model with M = I and isotropic noise is the direct model."""
    observation, M, Sigma, z = direct(sample, False, False)
    prior = FunctionPrior(sample.kernel_x)
    identity = condition(prior, Transformed(sample.x, transformation=M, noise_covariance=Sigma), z)
    plain = condition(prior, observation, z)
    np.testing.assert_allclose(identity.mean(sample.x_star), plain.mean(sample.x_star), rtol=1e-10)
    np.testing.assert_allclose(
        identity.covariance(sample.x_star), plain.covariance(sample.x_star), rtol=1e-10, atol=1e-13
    )
    assert identity.log_evidence == pytest.approx(plain.log_evidence, rel=1e-11)
