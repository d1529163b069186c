"""What every posterior must satisfy: the forms agree, and all views belong to one Gaussian."""

import copy

import numpy as np
import oracle_kernels
import oracles
import pytest

from decond import features, kernels
from decond.gp import (
    Aggregated,
    Direct,
    FunctionPrior,
    LatentInput,
    TaskTransformed,
    Transformed,
    WeightPrior,
    condition,
    log_evidence,
    log_evidence_and_gradient,
)
from decond.gp.posteriors import ChunkSettings
from decond.parameters import leaves, with_leaves

RNG = np.random.default_rng(5)
N, M = 12, 17
X, Y, Y_TASK = RNG.standard_normal((N, 2)), RNG.standard_normal((N, 1)), RNG.standard_normal((M, 1))
MATRIX = RNG.standard_normal((N, M))
ROOT = RNG.standard_normal((M, M))
SHARES = np.random.default_rng(7).dirichlet(np.full(N, 0.3), M).T
PICKED = np.random.default_rng(9).dirichlet(np.full(M, 0.3), M).T
REPEATS = np.arange(1.0, M + 1.0)
GROUPS = np.array([0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 0, 2])  # of 3 and 4 there is one row each
ROW_WEIGHTS = np.linspace(0.5, 2.0, N)
SIZES = np.array([8.0, 4.0, 3.0, np.inf, 2.0])  # 4, 3, 3, 1 and 1 rows are listed
KNOWN = np.linspace(0.05, 0.6, M)
PSI = features.Polynomial(2)

PRIORS = {
    "kernel": FunctionPrior(1.3 * kernels.RBF([0.7, 1.1]), mean=0.4),
    "weights": WeightPrior(features.Polynomial(2), variance=0.6, mean=-0.2),
}
OBSERVATIONS = {
    "direct": Direct(X, noise=0.3),
    "direct, repeated": Direct(X, noise=0.3, repeats=np.arange(1.0, N + 1.0)),
    "direct, known": Direct(X, noise=0.3, target_variance=KNOWN[:N]),
    "direct, repeated, known": Direct(X, noise=0.3, repeats=np.arange(1.0, N + 1.0), target_variance=KNOWN[:N]),
    "given, isotropic": Transformed(X, MATRIX, noise=0.5),
    "given, diagonal": Transformed(X, MATRIX, noise_covariance=np.linspace(0.1, 0.9, M), noise=0.2),
    "given, full": Transformed(X, MATRIX, noise_covariance=ROOT @ ROOT.T + np.eye(M), noise=0.2),
    "given, scaled number": Transformed(X, MATRIX, noise_covariance=0.3, noise=0.2, scale=1.7),
    "given, scaled diagonal": Transformed(X, MATRIX, noise_covariance=np.linspace(0.1, 0.9, M), noise=0.1, scale=1.7),
    "given, scaled full": Transformed(X, MATRIX, noise_covariance=ROOT @ ROOT.T, noise=0.2, scale=1.7),
    "given, repeated": Transformed(X, MATRIX, noise=0.5, repeats=np.arange(1.0, M + 1.0)),
    "given, full, repeated": Transformed(
        X, MATRIX, ROOT @ ROOT.T, noise=0.5, scale=1.7, repeats=np.arange(1.0, M + 1.0)
    ),
    "given, known": Transformed(X, MATRIX, noise=0.5, target_variance=KNOWN),
    "given, scaled full, known": Transformed(X, MATRIX, ROOT @ ROOT.T, noise=0.2, scale=1.7, target_variance=KNOWN),
    "aggregated": Aggregated(X, np.arange(N) % 5, noise=0.2, individual_noise=0.3),
    "aggregated, known": Aggregated(
        X, GROUPS, noise=0.2, individual_noise=0.3, weights=ROW_WEIGHTS, target_variance=KNOWN[:5]
    ),
    "aggregated, many unlisted": Aggregated(
        X, GROUPS, noise=0.2, individual_noise=0.3, weights=ROW_WEIGHTS, group_sizes=np.inf, repeats=[1, 2, 5, 1, 3]
    ),
    "aggregated, some unlisted": Aggregated(
        X, GROUPS, noise=0.2, individual_noise=0.3, group_sizes=SIZES, target_variance=KNOWN[:5]
    ),
    "mediated, full": TaskTransformed(X, Y, Y_TASK, kernels.RBF(0.8), noise=0.3),
    "mediated, map": TaskTransformed(X, Y, Y_TASK, kernels.RBF(0.8), noise=0.3, mediator="map"),
    "mediated, untied": TaskTransformed(X, Y, Y_TASK, kernels.RBF(0.8), noise=0.3, mediator_noise=0.7),
    "mediated, full, known": TaskTransformed(X, Y, Y_TASK, kernels.RBF(0.8), noise=0.3, target_variance=KNOWN),
    "mediated, map, known": TaskTransformed(
        X, Y, Y_TASK, kernels.RBF(0.8), noise=0.3, mediator="map", target_variance=KNOWN
    ),
    "mediated by features": TaskTransformed(X, Y, Y_TASK, PSI.kernel(0.8), noise=0.3),
    "mediated by features, map": TaskTransformed(X, Y, Y_TASK, PSI.kernel(0.8), noise=0.3, mediator="map"),
}
LATENT = {
    "latent": LatentInput(X, SHARES, noise=0.4),
    "latent, known": LatentInput(X, SHARES, noise=0.4, target_variance=KNOWN),
    "latent, assigned": LatentInput(X, SHARES, noise=0.4, assignment=np.arange(M) % N),
    "latent, transformed": LatentInput(X, PICKED, noise=0.4, transformation=SHARES, repeats=REPEATS),
    "latent, transformed, assigned": LatentInput(
        X, PICKED, noise=0.4, transformation=SHARES, repeats=REPEATS, assignment=np.arange(M) // 3
    ),
    "latent, assigned, known": LatentInput(X, SHARES, noise=0.4, target_variance=KNOWN, assignment=np.arange(M) // 3),
}
"""Observations whose posterior or whose forms are not those of the linear-Gaussian model."""

X_NEW = np.random.default_rng(8).standard_normal((6, 2))


def forms_of(prior, observation):
    forms = ["function"]
    if observation.linearize().isotropic:
        forms.append("inducing")
    if isinstance(prior, WeightPrior) and observation.linearize().sampling is None:
        forms.append("weight")
    return forms


def given(covariance):
    return lambda: (MATRIX, covariance)


def mediated(full=True, tau=0.3, gram=lambda a, b: oracle_kernels.rbf(a, b, 0.8)):
    """M and Sigma of Theorem 5.3 with noise 0.3, and a noise tau of the mediator."""
    inverse = np.linalg.inv(gram(Y, Y) + tau**2 * np.eye(N))
    cross = gram(Y, Y_TASK)
    within = gram(Y_TASK, Y_TASK) - cross.T @ inverse @ cross if full else 0.0
    return inverse @ cross, within + 0.3**2 * np.eye(M)


def polynomial(a, b):
    return 0.8 * oracle_kernels.polynomial(a, b, 2)


DIAGONAL, FULL, ONE = np.diag(np.linspace(0.1, 0.9, M)), ROOT @ ROOT.T, np.eye(M)
REPEATS = np.array([1, 2, 5, 1, 3])
EXPECTED = {
    "direct": lambda: (np.eye(N), 0.3**2 * np.eye(N)),
    "direct, repeated": lambda: (np.eye(N), np.diag(0.3**2 / np.arange(1.0, N + 1.0))),
    "direct, known": lambda: (np.eye(N), np.diag(0.3**2 + KNOWN[:N])),
    "direct, repeated, known": lambda: (np.eye(N), np.diag(0.3**2 / np.arange(1.0, N + 1.0) + KNOWN[:N])),
    "given, isotropic": given(0.5**2 * ONE),
    "given, diagonal": given(DIAGONAL + 0.2**2 * ONE),
    "given, full": given(FULL + ONE + 0.2**2 * ONE),
    "given, scaled number": given((1.7 * 0.3 + 0.2**2) * ONE),
    "given, scaled diagonal": given(1.7 * DIAGONAL + 0.1**2 * ONE),
    "given, scaled full": given(1.7 * FULL + 0.2**2 * ONE),
    "given, repeated": given(np.diag(0.5**2 / np.arange(1.0, M + 1.0))),
    "given, full, repeated": given(1.7 * FULL + np.diag(0.5**2 / np.arange(1.0, M + 1.0))),
    "given, known": given(0.5**2 * ONE + np.diag(KNOWN)),
    "given, scaled full, known": given(1.7 * FULL + 0.2**2 * ONE + np.diag(KNOWN)),
    "aggregated": lambda: (oracles.averaging(np.arange(N) % 5), oracles.aggregated_noise(np.arange(N) % 5, 0.2, 0.3)),
    "aggregated, known": lambda: (
        oracles.averaging(GROUPS, ROW_WEIGHTS),
        oracles.aggregated_noise(GROUPS, 0.2, 0.3, ROW_WEIGHTS) + np.diag(KNOWN[:5]),
    ),
    "aggregated, many unlisted": lambda: (
        oracles.averaging(GROUPS, ROW_WEIGHTS),
        oracles.aggregated_noise(GROUPS, 0.2, 0.3, ROW_WEIGHTS, REPEATS),
    ),
    "aggregated, some unlisted": lambda: (
        oracles.averaging(GROUPS),
        oracles.aggregated_noise(GROUPS, 0.2, 0.3) + np.diag(KNOWN[:5]),
    ),
    "mediated, full": mediated,
    "mediated, map": lambda: mediated(full=False),
    "mediated, untied": lambda: mediated(tau=0.7),
    "mediated, full, known": lambda: (mediated()[0], mediated()[1] + np.diag(KNOWN)),
    "mediated, map, known": lambda: (mediated(full=False)[0], 0.3**2 * ONE + np.diag(KNOWN)),
    "mediated by features": lambda: mediated(gram=polynomial),
    "mediated by features, map": lambda: mediated(full=False, gram=polynomial),
}
"""M and Sigma of the observations as the paper writes them, without the noise of rows that are not known."""

SAMPLED = {
    "aggregated, many unlisted": lambda K: oracles.sampled_groups_noise(K, GROUPS, ROW_WEIGHTS),
    "aggregated, some unlisted": lambda K: (1.0 - LISTED / SIZES) * oracles.sampled_groups_noise(K, GROUPS),
}
"""The noise of rows that are not known, from the prior covariance of f at those that are."""

LISTED = np.bincount(GROUPS)


def covariance(prior, a, b):
    """The prior covariance of f in plain NumPy."""
    if isinstance(prior, WeightPrior):
        return 0.6 * oracle_kernels.polynomial(a, b, 2)
    return 1.3 * oracle_kernels.rbf(a, b, np.array([0.7, 1.1]))


def transformation_and_noise(prior, observation):
    """Return M and Sigma in full from oracles alone."""
    [name] = [name for name, one in OBSERVATIONS.items() if one is observation]
    M_, noise = EXPECTED[name]()
    if name in SAMPLED:
        noise = noise + SAMPLED[name](covariance(prior, X, X))
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
    K, K_star = covariance(prior, X, X), covariance(prior, X, X_NEW)
    S = M_.T @ K @ M_ + noise
    gain = K_star.T @ M_ @ np.linalg.inv(S)
    residual = z - prior.mean * M_.sum(axis=0)
    mean = prior.mean + gain @ residual
    reduced = covariance(prior, X_NEW, X_NEW) - gain @ M_.T @ K_star
    log_evidence = -0.5 * (
        residual @ np.linalg.solve(S, residual) + np.linalg.slogdet(S)[1] + len(z) * np.log(2 * np.pi)
    )
    for form in forms_of(prior, observation):
        posterior = condition(prior, observation, z, form=form)
        assert posterior.form == form
        np.testing.assert_allclose(posterior.mean(X_NEW), mean, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(posterior.covariance(X_NEW), reduced, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(posterior.variance(X_NEW), np.diag(reduced), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(posterior.std(X_NEW) ** 2, np.diag(reduced), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(posterior.log_evidence, log_evidence, rtol=1e-10)


@pytest.mark.parametrize("columns", [None, 2])
def test_rows_in_chunks_are_the_same_rows_and_moments_are_mean_and_variance(prior, observation, columns):
    z = targets(observation, columns)
    for form in forms_of(prior, observation):
        posterior = condition(prior, observation, z, form=form)
        mean, variance = posterior.mean(X_NEW), posterior.variance(X_NEW)
        assert mean.shape == ((6,) if columns is None else (6, 2))
        in_chunks = copy.copy(posterior)
        in_chunks.chunks = ChunkSettings(entries=0, least_rows=4)
        for one, other in zip(in_chunks.moments(X_NEW), (mean, variance), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        for one, other in zip(posterior.moments(X_NEW), (mean, variance), strict=True):
            np.testing.assert_array_equal(one, other)


def test_leave_one_out_equals_leaving_one_out(prior, observation):
    z = targets(observation)
    M_, noise = transformation_and_noise(prior, observation)
    S = M_.T @ covariance(prior, X, X) @ M_ + noise
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
@pytest.mark.parametrize("name", [*OBSERVATIONS, *LATENT])
def test_gradient_of_the_evidence_is_that_of_central_differences(prior, name, columns):
    """For every observation: one value from both functions, and a slope in every parameter."""
    observation = {**OBSERVATIONS, **LATENT}[name]
    z = targets(observation, 1 if columns and name in LATENT else columns)
    value, gradient = log_evidence_and_gradient(prior, observation, z)
    expected = slopes(prior, observation, z)
    assert value == pytest.approx(log_evidence(prior, observation, z), rel=1e-10)
    assert set(gradient) == set(expected)
    for path, slope in expected.items():
        assert np.shape(gradient[path]) == slope.shape
        np.testing.assert_allclose(gradient[path], slope, rtol=1e-6, atol=1e-6 * abs(value), err_msg=path)


@pytest.mark.parametrize("name", [*OBSERVATIONS, *LATENT])
def test_gradient_of_the_evidence_in_the_points(name):
    observation, prior = {**OBSERVATIONS, **LATENT}[name], PRIORS["kernel"]
    z = targets(observation)
    value, gradient = log_evidence_and_gradient(prior, observation, z, points=True)
    for path in [path for path in ("x", "y") if f"observation.{path}" in gradient]:
        at = np.array(getattr(observation, path))
        for index in [(0, 0), (5, at.shape[1] - 1), (11, 0)]:
            step = np.zeros_like(at)
            step[index] = 1e-5
            ends = [log_evidence(prior, observation.replace(**{path: at + s * step}), z) for s in (1.0, -1.0)]
            slope = (ends[0] - ends[1]) / 2e-5
            found = gradient[f"observation.{path}"][index]
            assert found == pytest.approx(slope, rel=1e-6, abs=1e-6 * abs(value)), path


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


# ---- mixtures --------------------------------------------------------------------------------------------------
