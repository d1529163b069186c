"""Targets that were each measured at one unseen x: bound, posterior, search, and what estimators make of it."""

import itertools
import warnings

import numpy as np
import pytest
from expected import refused
from oracle_kernels import rbf

from decond import InstrumentalVariablesGP, TaskTransformedGP, kernels, load, save
from decond.learning import BoundWarning, select
from decond.learning.unseen import Beginning, locate
from decond.regression import Direct, FunctionPrior, UnseenInput, condition, log_evidence_and_gradient
from decond.regression.unseen import shares_given, sighting

RNG = np.random.default_rng(0)
X = np.array([[0.0], [0.8], [2.0]])
WEIGHTS = np.array([[0.2, 0.5, 0.1, 0.3], [0.3, 0.4, 0.1, 0.3], [0.5, 0.1, 0.8, 0.4]])
Z = np.array([0.3, 1.0, -0.7, 0.1])
NOISE = 0.4
CLEAR_WEIGHTS = np.array([[0.6, 0.6, 0.2, 0.1], [0.2, 0.3, 0.2, 0.2], [0.2, 0.1, 0.6, 0.7]])
CLEAR_Z = np.array([1.5, 1.4, -1.6, -1.4])


@pytest.fixture(autouse=True)
def _same_draws():
    """Each test draws the same numbers, whatever ran before it."""
    RNG.bit_generator.state = np.random.default_rng(1).bit_generator.state


def log_normal(z, covariance):
    _, log_determinant = np.linalg.slogdet(covariance)
    return -0.5 * (z @ np.linalg.solve(covariance, z) + log_determinant + len(z) * np.log(2.0 * np.pi))


def exact_log_evidence(K, weights, z, noise):
    """Sum over all ways to place the targets at rows."""
    n, m = weights.shape
    logs = [
        np.log(weights[list(places), range(m)]).sum()
        + log_normal(z, K[np.ix_(places, places)] + noise**2 * np.eye(m))
        for places in itertools.product(range(n), repeat=m)
    ]
    return np.logaddexp.reduce(logs)


def exact_mean(K, weights, z, noise):
    """Return E[f | z] at the rows: the mean over all ways to place the targets."""
    n, m = weights.shape
    logs, means = [], []
    for places in itertools.product(range(n), repeat=m):
        S = K[np.ix_(places, places)] + noise**2 * np.eye(m)
        logs.append(np.log(weights[list(places), range(m)]).sum() + log_normal(z, S))
        means.append(K[:, places] @ np.linalg.solve(S, z))
    shares = np.exp(logs - np.logaddexp.reduce(logs))
    return shares @ np.array(means)


def fixed_point(K, weights, z, noise, steps=300):
    mean, variance = np.zeros(len(K)), np.ones(len(K))
    for _ in range(steps):
        shares = shares_given(np.log(weights), z, mean, variance, noise)
        seen = sighting(K, weights, shares, z, noise)
        mean, variance = seen.mean, seen.variance
    return shares, seen


@pytest.mark.parametrize(
    ("weights", "z", "noise", "gap"), [(WEIGHTS, Z, NOISE, 1.0), (CLEAR_WEIGHTS, CLEAR_Z, 0.2, 0.2)]
)
def test_bound_is_below_the_evidence_of_all_placements_and_near_it_where_targets_tell_rows_apart(
    weights, z, noise, gap
):
    K = rbf(X, X, 1.0)
    _, seen = fixed_point(K, weights, z, noise)
    exact = exact_log_evidence(K, weights, z, noise)
    assert exact - gap < seen.bound < exact


def test_bound_is_the_evidence_where_places_are_known():
    K = rbf(X, X, 1.0)
    places = [0, 2, 1, 1]
    shares = np.eye(3)[:, places]
    seen = sighting(K, shares, shares, Z, NOISE)
    S = K[np.ix_(places, places)] + NOISE**2 * np.eye(4)
    np.testing.assert_allclose(seen.bound, log_normal(Z, S), rtol=1e-12)
    np.testing.assert_allclose(seen.mean, K[:, places] @ np.linalg.solve(S, Z), rtol=1e-12)
    explained = K[:, places] @ np.linalg.solve(S, K[places])
    np.testing.assert_allclose(seen.variance, np.diag(K - explained), rtol=1e-10)


def test_mean_is_near_that_over_all_placements_where_targets_tell_rows_apart():
    K = rbf(X, X, 1.0)
    _, seen = fixed_point(K, CLEAR_WEIGHTS, CLEAR_Z, 0.2)
    np.testing.assert_allclose(seen.mean, exact_mean(K, CLEAR_WEIGHTS, CLEAR_Z, 0.2), atol=0.15)


def test_rows_where_nothing_was_measured_keep_their_prior():
    K = np.eye(3)
    weights = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    seen = sighting(K, weights, weights, np.array([1.0, 2.0]), 0.1)
    np.testing.assert_allclose(seen.variance[1:], 1.0)
    np.testing.assert_allclose(seen.mean[1:], 0.0)


def test_posterior_is_the_ordinary_one_where_places_are_known():
    places = [0, 2, 1, 1]
    shares = np.eye(3)[:, places]
    prior = FunctionPrior(1.3 * kernels.RBF(0.7), mean=0.5)
    found = condition(prior, UnseenInput(X, shares, shares, NOISE), Z)
    expected = condition(prior, Direct(X[places], NOISE), Z)
    queries = np.array([[0.1], [1.0], [3.0]])
    np.testing.assert_allclose(found.mean(queries), expected.mean(queries), rtol=1e-9)
    np.testing.assert_allclose(found.covariance(queries), expected.covariance(queries), rtol=1e-3)
    for one, other in zip(found.leave_one_out(), expected.leave_one_out(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3)
    column = condition(prior, UnseenInput(X, shares, shares, NOISE), Z[:, None])
    np.testing.assert_allclose(column.mean(queries)[:, 0], found.mean(queries), rtol=1e-12)
    assert column.leave_one_out()[0].shape == (4, 1)


def test_many_rows_that_no_target_reached_keep_the_band_of_the_prior():
    x = np.concatenate([np.linspace(0, 1, 1000), [9.0]])[:, None]
    shares = np.zeros((1001, 3))
    shares[-1] = 1.0
    posterior = condition(FunctionPrior(kernels.RBF(1.0)), UnseenInput(x, shares, shares, 0.1), np.ones(3))
    np.testing.assert_allclose(posterior.std([[0.5]]), 1.0, rtol=2e-3)


def test_shares_where_weights_have_none_are_impossible():
    shares, weights = np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])
    assert sighting(np.eye(2), weights, shares, np.zeros(1), 0.1).bound == -np.inf


def test_information_left_is_the_curvature_of_the_likelihood():
    prior = FunctionPrior(kernels.RBF(1.0))
    K = rbf(X, X, 1.0)
    mean = np.array([0.9, 0.2, -0.8])
    for _ in range(500):  # the mode: shares without the variance of f
        shares = shares_given(np.log(WEIGHTS), Z, mean, np.zeros(3), NOISE)
        mean = sighting(K, WEIGHTS, shares, Z, NOISE).mean

    def log_posterior(f):
        densities = WEIGHTS * np.exp(-((Z - f[:, None]) ** 2) / (2 * NOISE**2))
        return np.log(densities.sum(axis=0)).sum() - 0.5 * f @ np.linalg.solve(K, f)

    step, curvature = 1e-4, np.zeros((3, 3))
    for i, j in itertools.product(range(3), repeat=2):
        a, b = step * np.eye(3)[i], step * np.eye(3)[j]
        ends = log_posterior(mean + a + b) - log_posterior(mean + a - b) - log_posterior(mean - a + b)
        curvature[i, j] = -(ends + log_posterior(mean - a - b)) / (4 * step**2)
    found = condition(prior, UnseenInput(X, WEIGHTS, shares, NOISE), Z)
    np.testing.assert_allclose(found.mean(X), mean, rtol=1e-6)
    np.testing.assert_allclose(found.covariance(X), np.linalg.inv(curvature), rtol=2e-3, atol=2e-4)


def test_uncertain_places_widen_the_bands():
    prior = FunctionPrior(kernels.RBF(1.0))
    shares, seen = fixed_point(rbf(X, X, 1.0), WEIGHTS, Z, NOISE)
    found = condition(prior, UnseenInput(X, WEIGHTS, shares, NOISE), Z)
    np.testing.assert_allclose(found.mean(X), seen.mean, rtol=1e-8)
    assert np.all(found.variance(X) > 1.05 * seen.variance)
    assert found.log_evidence == pytest.approx(seen.bound)


def placed_near(seed):
    """Return 30 rows, where each of 60 targets may have been measured, and the targets."""
    rng, x = np.random.default_rng(seed), np.linspace(0, 5, 30)[:, None]
    places = rng.integers(30, size=60)
    z = np.sin(x[places, 0]) + 0.3 * rng.standard_normal(60)
    weights = np.exp(-0.5 * (np.arange(30)[:, None] - places - rng.normal(0, 2, 60)) ** 2 / 4)
    return x, weights / weights.sum(axis=0), z


def conditioned(x, weights, z):
    shares, _ = fixed_point(rbf(x, x, 1.0), weights, z, 0.3, steps=100)
    return condition(FunctionPrior(kernels.RBF(1.0)), UnseenInput(x, weights, shares, 0.3), z)


def test_leave_one_out_is_close_to_leaving_one_out():
    x, weights, z = placed_near(seed=0)
    mean, variance = conditioned(x, weights, z).leave_one_out()
    for j in (0, 7, 31):
        others = np.arange(60) != j
        without = conditioned(x, weights[:, others], z[others])
        assert mean[j] == pytest.approx(weights[:, j] @ without.mean(x), abs=0.1 * np.sqrt(variance[j]))


def test_targets_left_out_stray_as_their_variances_say():
    """The mean of 60 squares has a standard error of 0.18, that of six such means of 0.08."""
    squares = []
    for seed in range(6):
        x, weights, z = placed_near(seed)
        mean, variance = conditioned(x, weights, z).leave_one_out()
        squares.append(np.mean((z - mean) ** 2 / variance))
    assert 0.7 < np.mean(squares) < 1.4


def test_search_raises_the_bound_at_every_step():
    x = np.sort(RNG.uniform(-3, 3, 25))[:, None]
    weights = RNG.dirichlet(np.ones(25), size=40).T
    z = RNG.standard_normal(40)
    start = Beginning(FunctionPrior(1.0 * kernels.Matern32(1.0)), 0.5, np.zeros(25), np.ones(25))
    result = locate(start, x, weights, z, lambda model: select(model, PATHS), least_noise=0.05, steps=60)
    assert np.diff(result.history).min() > -1e-8
    assert result.log_evidence == pytest.approx(
        condition(result.model.prior, result.model.observation, z).log_evidence
    )
    assert set(result.parameters) == {*PATHS, "observation.noise"}
    few = locate(start, x, weights, z, lambda model: select(model, PATHS), least_noise=0.05, steps=3)
    assert few.status == "stopped"


def test_a_prior_with_a_mean_is_refused_by_the_search():
    start = Beginning(FunctionPrior(kernels.RBF(), mean=5.0), 0.5, np.zeros(3), np.ones(3))
    with refused("prior"):
        locate(start, X, WEIGHTS, Z, lambda model: select(model), least_noise=0.1, steps=3)


PATHS = ["prior.kernel.variance", "prior.kernel.kernel.lengthscale"]


def test_repeats_of_direct_targets_are_rows_given_several_times():
    x, rows, z = np.array([[0.0], [1.0]]), [0, 0, 0, 1], np.array([1.0, 1.2, 0.8, -1.0])
    prior = FunctionPrior(kernels.RBF(0.8))
    means = condition(prior, Direct(x, 0.3, repeats=[3, 1]), [1.0, -1.0])
    each = condition(prior, Direct(x[rows], 0.3), z)
    queries = np.array([[0.2], [1.5]])
    np.testing.assert_allclose(means.mean(queries), each.mean(queries), rtol=1e-10)
    np.testing.assert_allclose(means.std(queries), each.std(queries), rtol=1e-10)
    _, gradient = log_evidence_and_gradient(prior, Direct(x, 0.3, repeats=[3, 1]), [1.0, -1.0])
    ahead, behind = (
        condition(prior, Direct(x, 0.3 + step, repeats=[3, 1]), [1.0, -1.0]).log_evidence for step in (1e-6, -1e-6)
    )
    np.testing.assert_allclose(gradient["observation.noise"], (ahead - behind) / 2e-6, rtol=1e-6)
    with refused("repeats"):
        Direct(x, 0.3, repeats=[3, 0])


@pytest.mark.parametrize(
    ("weights", "shares", "argument"),
    [
        (np.ones((3, 4)), WEIGHTS, "weights"),
        (WEIGHTS, -WEIGHTS, "shares"),
        (WEIGHTS, WEIGHTS[:, :3], "weights"),
        (WEIGHTS[:2], WEIGHTS, "weights"),
    ],
)
def test_wrong_probabilities_are_refused(weights, shares, argument):
    with refused(argument):
        UnseenInput(X, weights, shares, 0.1)


def test_several_target_columns_are_refused():
    seen = UnseenInput(X, WEIGHTS, WEIGHTS, 0.1)
    with refused("z"):
        condition(FunctionPrior(kernels.RBF()), seen, np.ones((4, 2)))


# estimators


def two_modes(seed=0, n=150, m=200):
    """X given y in two places, z a smooth function of x."""
    rng = np.random.default_rng(seed)

    def inputs(y):
        return y + 2.0 * rng.integers(2, size=len(y)) + 0.2 * rng.standard_normal(len(y))

    y, y_task = rng.uniform(-3, 3, n), rng.uniform(-3, 3, m)
    x, x_task = inputs(y), inputs(y_task)
    return x, y, y_task, np.tanh(1.5 * x_task) + 0.05 * rng.standard_normal(m)


def unseen_weight(gp):
    kinds = [isinstance(model.observation, UnseenInput) for model in gp.ensemble_.models]
    return sum(member.weight for member in gp.ensemble_.members if kinds[member.model])


def error(gp, truth=lambda x: np.tanh(1.5 * x)):
    queries = np.linspace(-3, 4, 60)
    return float(np.sqrt(np.mean((gp.predict(queries[:, None]) - truth(queries)) ** 2)))


def test_targets_at_one_unseen_x_tell_more_than_their_means():
    tables = two_modes(n=80, m=100)
    gp, means = (TaskTransformedGP(n_restarts=0, sampled=sampled).fit(*tables) for sampled in (None, False))
    assert unseen_weight(gp) == pytest.approx(3 / 4)
    assert unseen_weight(means) == 0.0
    assert error(gp) < 0.6 * error(means)
    assert np.isfinite(gp.resolution())
    assert np.isfinite(gp.standardized_residuals()).all()


def test_a_mirror_image_that_explains_targets_as_well_is_kept():
    """X is y or -y at random: f(x) and f(-x) give the same targets."""
    rng = np.random.default_rng(0)
    y, y_task = rng.uniform(0, 3, 80), rng.uniform(0, 3, 100)
    x, x_task = (rows * rng.choice([-1.0, 1.0], len(rows)) for rows in (y, y_task))
    gp = TaskTransformedGP(n_restarts=0).fit(x, y, y_task, np.tanh(x_task) + 0.05 * rng.standard_normal(100))
    queries = np.linspace(-2.5, 2.5, 41)
    mean, std = gp.predict(queries[:, None], return_std=True)
    for image in (np.tanh(queries), -np.tanh(queries)):
        assert np.mean(np.abs(mean - image) <= 1.96 * std) > 0.8


def test_targets_that_are_means_are_taken_for_means():
    rng = np.random.default_rng(1)
    y, y_task = rng.uniform(-3, 3, 80), rng.uniform(-3, 3, 50)
    x = y + 2.0 * rng.integers(2, size=80) + 0.2 * rng.standard_normal(80)
    many = y_task + 2.0 * rng.integers(2, size=(4000, 50)) + 0.2 * rng.standard_normal((4000, 50))
    z = np.sin(1.5 * many).mean(axis=0) + 0.01 * rng.standard_normal(50)
    gp = TaskTransformedGP(n_restarts=0).fit(x, y, y_task, z)
    assert unseen_weight(gp) == 0.0


def test_confounded_outcomes_and_several_targets_are_read_by_their_means():
    x, y, _, _ = two_modes(n=60)
    z = np.tanh(x) + 0.05 * RNG.standard_normal(len(x))
    assert unseen_weight(InstrumentalVariablesGP(n_restarts=0).fit(x, y, z)) == 0.0
    both = TaskTransformedGP(n_restarts=0).fit(x, y, y, np.column_stack([z, -z]))
    assert unseen_weight(both) == 0.0


def test_one_target_column_is_fitted_as_a_flat_array_is():
    x, y, y_task, z = two_modes(n=40, m=60)
    flat, column = (TaskTransformedGP(n_restarts=0).fit(x, y, y_task, targets) for targets in (z, z[:, None]))
    assert unseen_weight(column) == pytest.approx(unseen_weight(flat))
    assert column.predict(x[:5]).shape == (5, 1)
    assert column.standardized_residuals().shape == (60, 1)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x, y, yt, z: (np.repeat(x, 2), np.repeat(y, 2), np.repeat(yt, 2), np.repeat(z, 2)),
        lambda x, y, yt, z: (np.repeat(x[:12], 10), np.repeat(y[:12], 10), yt, z),
        lambda x, y, yt, z: (x, y, yt, np.zeros_like(z)),
        lambda x, y, yt, z: (np.zeros_like(x), y, yt, z),
        lambda x, y, yt, z: (x[:4], y[:4], yt, z),
        lambda x, y, yt, z: (x, y, yt[:4], z[:4]),
        lambda x, y, yt, z: (x * 1e8, y * 1e-8, yt * 1e-8, z * 1e8 + 1e9),
    ],
    ids=[
        "repeated rows",
        "rows repeated often",
        "constant z",
        "constant x",
        "few pairs",
        "few targets",
        "other units",
    ],
)
def test_tables_that_hurt(spoil):
    tables = spoil(*two_modes(n=30, m=40))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundWarning)
        gp = TaskTransformedGP(n_restarts=0).fit(*tables)
    mean, std = gp.predict(tables[0][:5], return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


def test_a_saved_model_predicts_the_same_to_the_last_bit(tmp_path):
    gp = TaskTransformedGP(n_restarts=0).fit(*two_modes(n=60, m=80))
    assert unseen_weight(gp) > 0.5
    save(gp, tmp_path / "gp.decond")
    queries = np.linspace(-3, 4, 9)[:, None]
    again = load(tmp_path / "gp.decond")
    for one, other in zip(gp.predict(queries, return_std=True), again.predict(queries, return_std=True), strict=True):
        np.testing.assert_array_equal(one, other)


def test_x_of_labels_beside_a_mediator_of_numbers():
    rng = np.random.default_rng(2)
    y, y_task = rng.uniform(-1, 1, 80), rng.uniform(-1, 1, 120)
    x, x_task = (np.where(rng.uniform(-1, 1, len(rows)) < rows, "a", "b") for rows in (y, y_task))
    z = np.where(x_task == "a", 1.0, -1.0) + 0.05 * rng.standard_normal(120)
    gp = TaskTransformedGP(n_restarts=0).fit(x, y, y_task, z)
    np.testing.assert_allclose(gp.predict(np.array([["a"], ["b"]])), [1.0, -1.0], atol=0.2)
