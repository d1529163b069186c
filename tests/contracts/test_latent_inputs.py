"""Targets at latent inputs: posterior and bound against all assignments, the sampler's steps against plain NumPy."""

import itertools

import numpy as np
import pytest
from expected import refused
from oracle_kernels import rbf
from oracles import leave_one_out, log_normal

from decond import kernels
from decond.gp import Direct, FunctionPrior, LatentInput, condition, log_evidence
from decond.gp.latent_input import _GibbsState, _PooledTargets
from decond.gp.latent_input import _leave_one_out as leave_one_out_of_draws

X = np.array([[0.0], [0.8], [2.0], [3.1]])
WEIGHTS = np.array(
    [[0.5, 0.2, 0.1, 0.1, 0.4], [0.3, 0.4, 0.1, 0.2, 0.3], [0.1, 0.3, 0.5, 0.3, 0.2], [0.1, 0.1, 0.3, 0.4, 0.1]]
)
Z = np.array([0.3, 1.0, -0.7, 0.1, 0.6])
KNOWN = np.array([0.0, 0.4, 0.0, 0.1, 0.2])
MEAN, NOISE = 0.2, 0.4
PRIOR = FunctionPrior(1.3 * kernels.RBF(0.9), mean=MEAN)
X_NEW = np.array([[0.4], [1.4], [2.6], [5.0]])
ASSIGNMENTS = list(itertools.product(range(4), repeat=5))


def covariance(a, b):
    return 1.3 * rbf(a, b, 0.9)


def given(rows, variance):
    """Return log p(z | assignment), and mean and covariance of f at X_NEW, by plain Gaussian conditioning."""
    rows = list(rows)
    S = covariance(X[rows], X[rows]) + np.diag(variance)
    gain = covariance(X_NEW, X[rows]) @ np.linalg.inv(S)
    mean = MEAN + gain @ (Z - MEAN)
    return log_normal(Z, np.full(5, MEAN), S), mean, covariance(X_NEW, X_NEW) - gain @ covariance(X[rows], X_NEW)


def enumerated(variance):
    """Return log p(z), and mean and variance of f at X_NEW, by summing over all assignments."""
    logs, means, variances = [], [], []
    for rows in ASSIGNMENTS:
        log_density, mean, covariance_new = given(rows, variance)
        logs.append(log_density + np.log(WEIGHTS[list(rows), range(5)]).sum())
        means.append(mean)
        variances.append(np.diag(covariance_new))
    total = np.logaddexp.reduce(logs)
    shares, means = np.exp(logs - total), np.array(means)
    mean = shares @ means
    return total, mean, shares @ (np.array(variances) + means**2) - mean**2


CASES = pytest.mark.parametrize("known", [None, KNOWN], ids=["one noise", "known variances"])


def variance_with(known):
    return NOISE**2 + (np.zeros(5) if known is None else known)


@CASES
def test_posterior_is_that_over_all_assignments(known):
    posterior = condition(PRIOR, LatentInput(X, WEIGHTS, NOISE, known), Z)
    _, mean, variance = enumerated(variance_with(known))
    np.testing.assert_allclose(posterior.mean(X_NEW), mean, atol=0.06 * np.sqrt(1.3))
    ratio = posterior.std(X_NEW) / np.sqrt(variance)
    assert np.all((ratio > 0.93) & (ratio < 1.07))


def variational(variance, steps=2000):
    """Return the bound at its optimum over q(f) q(assignment), with explicit inverses."""
    K = covariance(X, X)
    r = WEIGHTS.copy()
    for _ in range(steps):
        V = np.linalg.inv(np.linalg.inv(K) + np.diag((r / variance).sum(axis=1)))
        m = V @ (r / variance) @ (Z - MEAN)
        squares = (Z - MEAN - m[:, None]) ** 2 + np.diag(V)[:, None]
        r = WEIGHTS * np.exp(-0.5 * squares / variance)
        r /= r.sum(axis=0)
    likelihood = -0.5 * (squares / variance + np.log(2.0 * np.pi * variance))
    divergence = 0.5 * (
        np.trace(np.linalg.solve(K, V)) + m @ np.linalg.solve(K, m) - 4
        + np.linalg.slogdet(K)[1] - np.linalg.slogdet(V)[1]
    )  # fmt: skip
    return (r * (likelihood + np.log(WEIGHTS / r))).sum() - divergence


@CASES
def test_bound_is_that_of_variational_inference_and_below_the_evidence(known):
    seen = LatentInput(X, WEIGHTS, NOISE, known)
    bound = log_evidence(PRIOR, seen, Z)
    assert bound == pytest.approx(variational(variance_with(known)), rel=1e-8)
    assert bound < enumerated(variance_with(known))[0]
    assert condition(PRIOR, seen, Z).log_evidence == bound


@CASES
def test_given_assignment_is_gaussian_conditioning(known):
    rows = [1, 1, 3, 3, 0]
    seen = LatentInput(X, WEIGHTS, NOISE, known, assignment=rows)
    log_density, mean, expected = given(rows, variance_with(known))
    posterior = condition(PRIOR, seen, Z)
    np.testing.assert_allclose(posterior.mean(X_NEW), mean, rtol=1e-10)
    np.testing.assert_allclose(posterior.covariance(X_NEW), expected, rtol=1e-10, atol=1e-10)
    assert log_evidence(PRIOR, seen, Z) == pytest.approx(log_density, rel=1e-10)
    assert posterior.log_evidence == pytest.approx(log_density, rel=1e-10)
    left, variance = posterior.leave_one_out()
    rest = leave_one_out(covariance(X[rows], X[rows]), np.eye(5), np.diag(variance_with(known)), Z - MEAN)
    np.testing.assert_allclose(left, rest[0] + MEAN, rtol=1e-9)
    np.testing.assert_allclose(variance, rest[1], rtol=1e-9)


def test_weights_that_leave_no_doubt_are_direct_regression():
    """The bound is the evidence, and every draw of the assignment is the same."""
    rows = [2, 0, 1, 3]
    seen, z = LatentInput(X, np.eye(4)[:, rows], NOISE), Z[:4]
    posterior, direct = condition(PRIOR, seen, z), condition(PRIOR, Direct(X[rows], NOISE), z)
    np.testing.assert_allclose(posterior.mean(X_NEW), direct.mean(X_NEW), rtol=1e-10)
    np.testing.assert_allclose(posterior.covariance(X_NEW), direct.covariance(X_NEW), rtol=1e-10, atol=1e-10)
    assert posterior.log_evidence == pytest.approx(direct.log_evidence, rel=1e-10)


def test_leave_one_out_of_certain_rows_is_that_of_direct_regression():
    """From 100 draws of f by importance sampling, which a noise as large as f makes accurate."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 6, 12)[:, None]
    z = np.sin(x[:, 0]) + rng.standard_normal(12)
    posterior = condition(FunctionPrior(kernels.RBF(1.5)), LatentInput(x, np.eye(12), 1.0), z)
    mean, variance = posterior.leave_one_out()
    expected, spread = leave_one_out(rbf(x, x, 1.5), np.eye(12), np.eye(12), z)
    np.testing.assert_allclose(mean, expected, atol=0.2)
    np.testing.assert_allclose(variance, spread, rtol=0.15)


def test_draws_of_the_assignment_have_the_posterior_probabilities():
    f, variance = np.array([0.5, -0.2, 1.0, 0.0]), variance_with(KNOWN)
    state = _GibbsState(WEIGHTS, Z, np.random.default_rng(0))
    counts = np.zeros_like(WEIGHTS)
    for _ in range(4000):
        state.draw_assignment(f, variance)
        counts[state.assignment, np.arange(5)] += 1.0
    densities = WEIGHTS * np.exp(-0.5 * (Z - f[:, None]) ** 2 / variance)
    np.testing.assert_allclose(counts / 4000, densities / densities.sum(axis=0), atol=0.03)
    expected = np.log((densities / np.sqrt(2.0 * np.pi * variance)).sum(axis=0))
    np.testing.assert_allclose(state.log_likelihood(f, variance), expected, rtol=1e-12)
    mean, second = state.predictive_moments(f, variance)
    np.testing.assert_allclose(mean, WEIGHTS.T @ f, rtol=1e-12)
    np.testing.assert_allclose(second, WEIGHTS.T @ f**2 + variance, rtol=1e-12)


def test_rows_without_probability_are_never_drawn():
    weights = np.vstack([WEIGHTS[:3] / WEIGHTS[:3].sum(axis=0), np.zeros(5)])
    state = _GibbsState(weights, Z, np.random.default_rng(0))
    for _ in range(200):
        state.draw_assignment(np.array([9.0, 9.0, 9.0, 0.1]), np.full(5, 0.1))
        assert state.assignment.max() < 3


def test_draws_of_f_have_the_posterior_moments():
    """Matheron's rule against the Gaussian posterior at all rows."""
    pooled = _PooledTargets.of(np.array([1, 1, 3, 3, 0]), Z, variance_with(KNOWN))
    gram, rng = covariance(X, X), np.random.default_rng(0)
    root = np.linalg.cholesky(gram)
    draws = np.array([pooled.draw(gram, root, MEAN, rng) for _ in range(5000)])
    posterior = pooled.posterior(PRIOR, X)
    np.testing.assert_allclose(draws.mean(axis=0), posterior.mean(X), atol=0.05)
    np.testing.assert_allclose(np.cov(draws.T), posterior.covariance(X), atol=0.05)


def test_pooled_targets_have_the_evidence_of_all_targets():
    rows = [1, 1, 3, 3, 0]
    pooled = _PooledTargets.of(np.array(rows), Z, variance_with(KNOWN))
    np.testing.assert_array_equal(pooled.rows, [0, 1, 3])
    found = pooled.log_evidence(covariance(X[pooled.rows], X[pooled.rows]), MEAN)
    assert found == pytest.approx(given(rows, variance_with(KNOWN))[0], rel=1e-12)


def test_leave_one_out_weighs_draws_by_the_inverse_of_their_likelihood():
    logs = np.log([[0.5, 0.2], [0.25, 0.2]])
    predictions = np.array([[[1.0, 2.0], [2.0, 5.0]], [[4.0, 2.0], [17.0, 5.0]]])  # mean and second moment
    found = leave_one_out_of_draws(logs, predictions)
    np.testing.assert_allclose(found.mean, [1.0 / 3.0 + 8.0 / 3.0, 2.0])
    np.testing.assert_allclose(found.variance, [2.0 / 3.0 + 34.0 / 3.0 - 9.0, 1.0])
    np.testing.assert_allclose(np.exp(found.log_density), [1.0 / 3.0, 0.2])  # harmonic means


def test_a_draw_that_hardly_explains_a_target_is_truncated():
    """One of 100 draws has a thousandth of the likelihood: it counts √100 times the mean, not a thousand times."""
    logs = np.full((100, 1), -1.0)
    logs[0] -= np.log(1000.0)
    predictions = np.ones((100, 2, 1))
    predictions[0] = 0.0
    cap = 10.0 * (1.0 + 99e-3) / 100.0
    assert leave_one_out_of_draws(logs, predictions).mean[0] == pytest.approx(99e-3 / (99e-3 + cap), rel=1e-12)


def test_the_same_targets_give_the_same_draws():
    seen = LatentInput(X, WEIGHTS, NOISE)
    one, other = (condition(PRIOR, seen, Z).mean(X_NEW) for _ in range(2))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("argument", "change"),
    [
        ("weights", {"weights": np.ones((4, 5))}),
        ("weights", {"weights": WEIGHTS * [1, 1, 1, 1, -1]}),
        ("weights", {"weights": WEIGHTS[:3]}),
        ("assignment", {"assignment": [0, 1, 2, 3]}),
        ("assignment", {"assignment": [0, 1, 2, 3, 4]}),
        ("assignment", {"assignment": [0, 1, 2, 3, 0.5]}),
        ("assignment", {"assignment": [0, 1, 2, 3, -1]}),
        ("target_variance", {"target_variance": [-1.0, 0, 0, 0, 0]}),
        ("target_variance", {"target_variance": [1.0, 1.0]}),
    ],
)
def test_what_makes_no_sense_is_refused(argument, change):
    with refused(argument):
        LatentInput(**{"x": X, "weights": WEIGHTS, "noise": NOISE, **change})


def test_several_target_columns_are_refused():
    with refused("z"):
        condition(PRIOR, LatentInput(X, WEIGHTS, NOISE), np.ones((5, 2)))


# ---- noise that multiplies -------------------------------------------------------------------------------------

ORIGIN, UNIT, ROWS = 3.0, 2.0, [0, 2, 1, 3, 0]
MULTIPLIED = LatentInput(X, WEIGHTS, NOISE, assignment=ROWS, logarithm=[ORIGIN, UNIT])
OF_LOGARITHMS = LatentInput(X, WEIGHTS, NOISE, assignment=ROWS)
LOGARITHMS = np.log((Z + ORIGIN) / UNIT)


def test_noise_that_multiplies_adds_to_logarithms():
    posterior, logs = condition(PRIOR, MULTIPLIED, Z), condition(PRIOR, OF_LOGARITHMS, LOGARITHMS)
    draws = UNIT * np.exp(logs.sample(X_NEW, 100_000, 0) + 0.5 * NOISE**2) - ORIGIN
    mean, variance = posterior.moments(X_NEW)
    np.testing.assert_allclose(mean, draws.mean(axis=0), atol=0.02 * np.sqrt(variance.max()))
    np.testing.assert_allclose(posterior.covariance(X_NEW), np.cov(draws.T), atol=0.1 * variance.max())
    np.testing.assert_allclose(np.diag(posterior.covariance(X_NEW)), variance)
    np.testing.assert_allclose(posterior.sample(X_NEW, 100_000, 0), draws)
    np.testing.assert_array_equal(posterior.mean(X_NEW), mean)
    np.testing.assert_array_equal(posterior.variance(X_NEW), variance)
    np.testing.assert_array_equal(posterior.std(X_NEW), np.sqrt(variance))


def test_noise_that_multiplies_needs_a_unit_and_targets_above_its_origin():
    for wrong in ([1.0], [0.0, -1.0], [np.nan, 1.0]):
        with refused("logarithm"):
            MULTIPLIED.replace(logarithm=wrong)
    for ask in (condition, log_evidence):
        with refused("z"):
            ask(PRIOR, MULTIPLIED, Z - 3.0)


def test_the_evidence_of_noise_that_multiplies_is_a_density_of_the_targets():
    expected = log_evidence(PRIOR, OF_LOGARITHMS, LOGARITHMS) - np.log(Z + ORIGIN).sum()
    assert log_evidence(PRIOR, MULTIPLIED, Z) == pytest.approx(expected)


def test_targets_are_predicted_from_the_others_with_noise_that_multiplies():
    mean, variance = condition(PRIOR, OF_LOGARITHMS, LOGARITHMS).leave_one_out()
    found, spread = condition(PRIOR, MULTIPLIED, Z).leave_one_out()
    np.testing.assert_allclose(found, UNIT * np.exp(mean + 0.5 * variance) - ORIGIN)
    np.testing.assert_allclose(spread, (found + ORIGIN) ** 2 * np.expm1(variance))


def test_new_targets_have_log_normal_moments():
    state, f, variance = (
        _GibbsState(WEIGHTS, Z, np.random.default_rng(0)),
        np.array([0.1, 0.4, -0.2, 0.3]),
        np.full(5, 0.2),
    )
    mean, second = state.predictive_moments(f, variance, MULTIPLIED.logarithm)
    z = UNIT * np.exp(f[:, None] + np.sqrt(0.2) * np.random.default_rng(1).standard_normal((4, 200_000))) - ORIGIN
    np.testing.assert_allclose(mean, WEIGHTS.T @ z.mean(axis=1), rtol=0.02)
    np.testing.assert_allclose(second, WEIGHTS.T @ (z**2).mean(axis=1), rtol=0.02)


def test_noise_that_multiplies_needs_an_assignment():
    with refused("assignment"):
        condition(PRIOR, MULTIPLIED.replace(assignment=None), Z)
