"""What every posterior must satisfy: the forms agree, and all views belong to one Gaussian."""

import numpy as np
import oracles
import pytest

from decond import features, kernels
from decond.parameters import leaves, with_leaves
from decond.regression import (
    Aggregated,
    Direct,
    FunctionPrior,
    TaskTransformed,
    Transformed,
    WeightPrior,
    condition,
    log_evidence,
    log_evidence_and_gradient,
)
from decond.regression import posterior as posterior_module

RNG = np.random.default_rng(5)
N, M = 12, 17
X, Y, Y_TASK = RNG.standard_normal((N, 2)), RNG.standard_normal((N, 1)), RNG.standard_normal((M, 1))
MATRIX = RNG.standard_normal((N, M))
ROOT = RNG.standard_normal((M, M))
SHARES = np.random.default_rng(7).dirichlet(np.full(N, 0.3), M).T
SIGNED = SHARES - np.linspace(0.2, 1.3, M) * np.random.default_rng(9).dirichlet(np.full(N, 0.3), M).T
GROUPS = np.array([0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 0, 2])  # of 3 and 4 there is one row each
ROW_WEIGHTS = np.linspace(0.5, 2.0, N)
PSI = features.Polynomial(2)

PRIORS = {
    "kernel": FunctionPrior(1.3 * kernels.RBF([0.7, 1.1]), mean=0.4),
    "weights": WeightPrior(features.Polynomial(2), variance=0.6, mean=-0.2),
}
OBSERVATIONS = {
    "direct": Direct(X, noise=0.3),
    "given, isotropic": Transformed(X, MATRIX, noise=0.5),
    "given, diagonal": Transformed(X, MATRIX, noise_covariance=np.linspace(0.1, 0.9, M), noise=0.2),
    "given, full": Transformed(X, MATRIX, noise_covariance=ROOT @ ROOT.T + np.eye(M), noise=0.2),
    "given, scaled number": Transformed(X, MATRIX, noise_covariance=0.3, noise=0.2, scale=1.7),
    "given, scaled diagonal": Transformed(X, MATRIX, noise_covariance=np.linspace(0.1, 0.9, M), noise=0.1, scale=1.7),
    "given, scaled full": Transformed(X, MATRIX, noise_covariance=ROOT @ ROOT.T, noise=0.2, scale=1.7),
    "given, sampled": Transformed(X, SHARES, noise_covariance=np.linspace(0.1, 0.9, M), noise=0.2, sampled=True),
    "given, sampled, both signs": Transformed(X, SIGNED, ROOT @ ROOT.T, noise=0.2, scale=0.4, sampled=True),
    "aggregated": Aggregated(X, np.arange(N) % 5, noise=0.2, individual_noise=0.3),
    "aggregated, sampled": Aggregated(
        X, GROUPS, noise=0.2, individual_noise=0.3, weights=ROW_WEIGHTS, sampled=True, repeats=[1, 2, 5, 1, 3]
    ),
    "aggregated, reliability": Aggregated(
        X, GROUPS, noise=0.2, individual_noise=0.3, reliability=np.linspace(0.5, 1.0, 5)
    ),
    "mediated, full": TaskTransformed(X, Y, Y_TASK, kernels.RBF(0.8), noise=0.3),
    "mediated, map": TaskTransformed(X, Y, Y_TASK, kernels.RBF(0.8), noise=0.3, mediator="map"),
    "mediated, untied": TaskTransformed(X, Y, Y_TASK, kernels.RBF(0.8), noise=0.3, mediator_noise=0.7),
    "mediated by features": TaskTransformed(X, Y, Y_TASK, PSI.kernel(0.8), noise=0.3),
    "mediated by features, map": TaskTransformed(X, Y, Y_TASK, PSI.kernel(0.8), noise=0.3, mediator="map"),
}
X_NEW = np.random.default_rng(8).standard_normal((6, 2))


def forms_of(prior, observation):
    forms = ["function"]
    if observation.linearize().isotropic:
        forms.append("inducing")
    if isinstance(prior, WeightPrior) and not getattr(observation, "sampled", False):
        forms.append("weight")
    return forms


def transformation_and_noise(prior, observation):
    """Return M and Σ in full, with the noise of unseen x from the oracle."""
    linear = observation.linearize()
    M_ = linear.transformation.toarray() if hasattr(linear.transformation, "toarray") else linear.transformation
    noise = linear.noise_covariance
    if getattr(observation, "sampled", False):
        K = prior.covariance(X)
        aggregated = isinstance(observation, Aggregated)
        noise = noise + (
            oracles.sampled_groups_noise(K, GROUPS, ROW_WEIGHTS) if aggregated else oracles.unseen_x_noise(K, M_)
        )
    return M_, noise


def targets(observation, columns=None):
    shape = observation.size if columns is None else (observation.size, columns)
    return np.random.default_rng(6).standard_normal(shape)


@pytest.fixture(params=list(PRIORS))
def prior(request):
    return PRIORS[request.param]


@pytest.fixture(params=list(OBSERVATIONS))
def observation(request):
    return OBSERVATIONS[request.param]


def test_views_equal_the_textbook_gaussian(prior, observation):
    z = targets(observation)
    M_, noise = transformation_and_noise(prior, observation)
    K, K_star = prior.covariance(X), prior.covariance(X, X_NEW)
    S = M_.T @ K @ M_ + noise
    gain = K_star.T @ M_ @ np.linalg.inv(S)
    residual = z - prior.mean * M_.sum(axis=0)
    mean = prior.mean + gain @ residual
    covariance = prior.covariance(X_NEW) - gain @ M_.T @ K_star
    log_evidence = -0.5 * (
        residual @ np.linalg.solve(S, residual) + np.linalg.slogdet(S)[1] + len(z) * np.log(2 * np.pi)
    )
    for form in forms_of(prior, observation):
        posterior = condition(prior, observation, z, form=form)
        assert posterior.form == form
        np.testing.assert_allclose(posterior.mean(X_NEW), mean, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(posterior.covariance(X_NEW), covariance, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(posterior.variance(X_NEW), np.diag(covariance), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(posterior.std(X_NEW) ** 2, np.diag(covariance), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(posterior.log_evidence, log_evidence, rtol=1e-10)


@pytest.mark.parametrize("columns", [None, 2])
def test_rows_in_blocks_are_the_same_rows_and_moments_are_mean_and_variance(prior, observation, columns, monkeypatch):
    z = targets(observation, columns)
    for form in forms_of(prior, observation):
        posterior = condition(prior, observation, z, form=form)
        mean, variance = posterior.mean(X_NEW), posterior.variance(X_NEW)
        assert mean.shape == ((6,) if columns is None else (6, 2))
        with monkeypatch.context() as patch:
            patch.setattr(posterior_module, "BLOCK_ENTRIES", 0)
            patch.setattr(posterior_module, "LEAST_ROWS", 4)
            for one, other in zip(posterior.moments(X_NEW), (mean, variance), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        for one, other in zip(posterior.moments(X_NEW), (mean, variance), strict=True):
            np.testing.assert_array_equal(one, other)


def test_leave_one_out_equals_leaving_one_out(prior, observation):
    z = targets(observation)
    M_, noise = transformation_and_noise(prior, observation)
    S = M_.T @ prior.covariance(X) @ M_ + noise
    center = prior.mean * M_.sum(axis=0)
    means, variances = [], []
    for j in range(len(z)):
        rest = np.delete(np.arange(len(z)), j)
        gain = np.linalg.solve(S[np.ix_(rest, rest)], S[rest, j])
        means.append(center[j] + gain @ (z - center)[rest])
        variances.append(S[j, j] - gain @ S[rest, j])
    for form in forms_of(prior, observation):
        mean, variance = condition(prior, observation, z, form=form).leave_one_out()
        np.testing.assert_allclose(mean, means, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(variance, variances, rtol=1e-8)


def test_several_targets_are_several_posteriors(prior, observation):
    z = targets(observation, columns=3)
    for form in forms_of(prior, observation):
        joint = condition(prior, observation, z, form=form)
        single = [condition(prior, observation, z[:, t], form=form) for t in range(3)]
        np.testing.assert_allclose(joint.mean(X_NEW), np.stack([p.mean(X_NEW) for p in single], axis=1), rtol=1e-9)
        np.testing.assert_allclose(joint.variance(X_NEW), single[0].variance(X_NEW), rtol=1e-9)
        np.testing.assert_allclose(joint.log_evidence, sum(p.log_evidence for p in single), rtol=1e-10)
        assert joint.sample(X_NEW, 4, seed=0).shape == (4, 6, 3)
        assert joint.leave_one_out()[0].shape == z.shape


def test_samples_have_the_posterior_moments(prior, observation):
    posterior = condition(prior, observation, targets(observation))
    draws = posterior.sample(X_NEW, 20_000, seed=1)
    scale = np.sqrt(np.trace(posterior.covariance(X_NEW)))
    np.testing.assert_allclose(draws.mean(axis=0), posterior.mean(X_NEW), atol=0.05 * scale)
    np.testing.assert_allclose(np.cov(draws.T), posterior.covariance(X_NEW), atol=0.05 * scale**2)
    np.testing.assert_array_equal(draws[:5], posterior.sample(X_NEW, 20_000, seed=1)[:5])


def slopes(prior, observation, z):
    """Central differences of the log evidence with respect to every parameter, by path."""
    found = {}
    for scope, module in (("prior", prior), ("observation", observation)):
        for path, value in leaves(module).items():
            at = np.asarray(value, dtype=float)
            slope = np.empty(at.shape)
            for index in np.ndindex(at.shape):
                ends = []
                for sign in (1.0, -1.0):
                    moved = at.copy()
                    moved[index] += sign * 1e-5
                    new = {scope: with_leaves(module, {path: moved})}
                    ends.append(log_evidence(new.get("prior", prior), new.get("observation", observation), z))
                slope[index] = (ends[0] - ends[1]) / 2e-5
            found[f"{scope}.{path}"] = slope
    return found


@pytest.mark.parametrize("columns", [None, 3])
def test_gradient_of_the_evidence_is_that_of_central_differences(prior, observation, columns):
    z = targets(observation, columns)
    value, gradient = log_evidence_and_gradient(prior, observation, z)
    expected = slopes(prior, observation, z)
    assert value == pytest.approx(log_evidence(prior, observation, z), rel=1e-11)
    assert set(gradient) == set(expected)
    for path, slope in expected.items():
        assert np.shape(gradient[path]) == slope.shape
        np.testing.assert_allclose(gradient[path], slope, rtol=1e-6, atol=1e-6 * abs(value), err_msg=path)


def test_gradient_with_a_mean_for_each_target():
    prior = FunctionPrior(kernels.RBF([0.7, 1.1]), mean=[0.4, -1.0])
    for observation in OBSERVATIONS.values():
        z = targets(observation, 2)
        gradient, expected = log_evidence_and_gradient(prior, observation, z)[1], slopes(prior, observation, z)
        np.testing.assert_allclose(gradient["prior.mean"], expected["prior.mean"], rtol=1e-6, atol=1e-5)


def test_prediction_does_not_change_the_posterior(prior, observation):
    posterior = condition(prior, observation, targets(observation))
    before = posterior.mean(X_NEW), posterior.log_evidence
    posterior.covariance(X_NEW), posterior.sample(X_NEW, 3, seed=0), posterior.leave_one_out()
    np.testing.assert_array_equal(posterior.mean(X_NEW), before[0])
    assert posterior.log_evidence == before[1]
