"""What honest error bars are made of, piece by piece against plain NumPy; then coverage on fresh draws."""

import numpy as np
import oracle_kernels
import oracles
import pytest
from expected import refused
from scipy.stats import norm, qmc

from decond import kernels
from decond.estimators import TaskTransformedGP, task_transformed
from decond.estimators.mediation import RIDGES, SMOOTHNESSES, Mediation, descriptions
from decond.estimators.unseen import UnseenFits
from decond.features import Identity, Polynomial
from decond.learning import (
    ConditionalGrid,
    FitResult,
    LogNormal,
    Model,
    maximize_evidence,
    sample_hyperparameters,
    select,
)
from decond.learning.conditional import leave_one_out_losses
from decond.linalg import NotPositiveDefiniteError
from decond.parameters import positive
from decond.regression import (
    Aggregated,
    Direct,
    FunctionPrior,
    MixturePosterior,
    Transformed,
    WeightPrior,
    condition,
    log_evidence,
)
from decond.regression import mixture as mixture_module

RNG = np.random.default_rng(0)
X = RNG.standard_normal((11, 2))
X_NEW = RNG.standard_normal((4, 2))
SHARES = RNG.dirichlet(np.full(11, 0.4), 7).T
SIGNED = SHARES - np.linspace(0.2, 1.3, 7) * RNG.dirichlet(np.full(11, 0.4), 7).T
ROOT = RNG.standard_normal((7, 7))
GROUPS = np.array(["b", "a", "c", "b", "a", "d", "b", "e", "a", "b", "d"])  # one row of c, one of e
ROW_WEIGHTS = RNG.uniform(0.5, 2.0, 11)
KERNEL = 1.4 * kernels.Matern32(0.9)
K, K_NEW = 1.4 * oracle_kernels.matern32(X, X, 0.9), 1.4 * oracle_kernels.matern32(X, X_NEW, 0.9)
K_NEW_NEW = 1.4 * oracle_kernels.matern32(X_NEW, X_NEW, 0.9)


# ---- noise of unseen x ---------------------------------------------------------------------------------------


def check_against_the_textbook(observation, M, Sigma):
    z = np.random.default_rng(3).standard_normal(M.shape[1])
    posterior = condition(FunctionPrior(KERNEL), observation, z)
    mean, covariance = oracles.tbkr_predictive(K, M, Sigma, z, K_NEW, K_NEW_NEW)
    np.testing.assert_allclose(posterior.mean(X_NEW), mean, rtol=1e-10)
    np.testing.assert_allclose(posterior.covariance(X_NEW), covariance, rtol=1e-9, atol=1e-12)
    assert posterior.log_evidence == pytest.approx(oracles.tbkr_evidence(K, M, Sigma, z), rel=1e-12)
    assert posterior.form == "function"


@pytest.mark.parametrize("M", [SHARES, SIGNED], ids=["a distribution", "both signs"])
@pytest.mark.parametrize("covariance", [0.3, np.linspace(0.1, 0.9, 7), ROOT @ ROOT.T], ids=["0-d", "1-d", "2-d"])
def test_targets_at_one_unseen_x_each(M, covariance):
    known = 1.7 * (covariance if np.ndim(covariance) == 2 else np.diag(np.broadcast_to(covariance, 7)))
    Sigma = known + 0.2**2 * np.eye(7) + oracles.unseen_x_noise(K, M)
    check_against_the_textbook(Transformed(X, M, covariance, noise=0.2, scale=1.7, sampled=True), M, Sigma)


def test_weights_of_both_signs_can_ask_for_negative_variances_which_count_as_zero():
    within = SIGNED.T @ np.diag(K) - np.diag(SIGNED.T @ K @ SIGNED)
    assert within.min() < 0 < within.max()  # so the cases above and below have both
    np.testing.assert_allclose(np.diag(oracles.unseen_x_noise(K, SIGNED)), np.maximum(within, 0.0), atol=1e-14)


@pytest.mark.parametrize("weights", [None, ROW_WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("repeats", [None, np.array([1.0, 4.0, 2.0, 1.0, 9.0])], ids=["once", "repeated"])
def test_averages_over_samples_of_groups(weights, repeats):
    Sigma = oracles.aggregated_noise(GROUPS, 0.2, 0.3, weights, repeats)
    seen = Aggregated(X, GROUPS, noise=0.2, individual_noise=0.3, weights=weights, repeats=repeats)
    M = oracles.averaging(GROUPS, weights)
    check_against_the_textbook(seen, M, Sigma)
    sampled = Sigma + oracles.sampled_groups_noise(K, GROUPS, weights)
    check_against_the_textbook(seen.replace(sampled=True), M, sampled)


def test_groups_of_one_row_pool_the_others_and_alone_add_nothing():
    noise = np.diag(oracles.sampled_groups_noise(K, GROUPS))
    means = [noise[0] * 3, noise[1] * 4, noise[3] * 2]  # the variances within a, b and d
    np.testing.assert_allclose(noise[[2, 4]], np.mean(means), rtol=1e-12)
    single = Aggregated(X, np.arange(11), noise=0.2, sampled=True)
    check_against_the_textbook(single, np.eye(11), 0.04 * np.eye(11))


def test_a_sample_mean_has_the_variance_that_simulation_shows():
    """Groups are large populations; of each a few rows are listed, and its value is the mean of f over all."""
    rng = np.random.default_rng(5)
    population = rng.standard_normal((200, 1))
    gram = oracle_kernels.rbf(population, population)
    root = np.linalg.cholesky(gram + 1e-9 * np.eye(200))
    errors, expected = [], []
    for _ in range(300):
        f = root @ rng.standard_normal(200)
        rows = rng.choice(200, 5, replace=False)
        errors.append(f[rows].mean() - f.mean())
        seen = Aggregated(population[rows], np.zeros(5), sampled=True).linearize()
        averaged = gram[np.ix_(rows, rows)].mean()
        expected.append(seen.sampling.variances(np.ones(5), np.array([averaged]))[0])
    assert np.mean(np.square(errors)) == pytest.approx(np.mean(expected), rel=0.25)  # 3 standard errors


def test_features_use_function_space_for_samples_and_refuse_the_weight_form():
    prior, z = WeightPrior(Identity(), 0.8), np.arange(5.0)
    seen = Aggregated(X, GROUPS, noise=0.2, sampled=True)
    assert condition(prior, seen.replace(sampled=False), z).form == "weight"
    posterior = condition(prior, seen, z)
    assert posterior.form == "function"
    linear_gram = 0.8 * X @ X.T
    Sigma = 0.04 * np.eye(5) + oracles.sampled_groups_noise(linear_gram, GROUPS)
    mean, _ = oracles.tbkr_predictive(linear_gram, oracles.averaging(GROUPS), Sigma, z, 0.8 * X @ X_NEW.T, np.eye(4))
    np.testing.assert_allclose(posterior.mean(X_NEW), mean, rtol=1e-10)
    for observation in (seen, Transformed(X, SHARES, noise=0.2, sampled=True)):
        targets = np.zeros(observation.size)
        with refused("form"):
            condition(WeightPrior(Polynomial(2)), observation, targets, form="weight")
        with refused("form"):
            condition(FunctionPrior(KERNEL), observation, targets, form="inducing")


# ---- smoothness of x given y, from the pairs -----------------------------------------------------------------


def pairs(n=14, seed=1):
    rng = np.random.default_rng(seed)
    y = rng.uniform(-2, 2, (n, 1))
    return np.sin(2 * y) + 0.2 * rng.standard_normal((n, 1)), y


def test_leave_one_out_loss_is_that_of_leaving_pairs_out():
    x, y = pairs()
    y[5] = y[2]  # a repeated y makes L singular
    gram_x, ridges = oracle_kernels.matern32(x, x, 0.7), np.array([1e-3, 0.1, 3.0])
    for lengthscale in (0.1, 0.8, 5.0):
        gram_y = oracle_kernels.rbf(y, y, lengthscale)
        losses = leave_one_out_losses(gram_x, np.linalg.eigh(gram_y), ridges)
        expected = [oracles.leave_one_pair_out_loss(gram_x, gram_y, ridge) for ridge in ridges]
        np.testing.assert_allclose(losses, expected, rtol=1e-7)


def test_the_grid_chooses_what_leaving_pairs_out_chooses():
    x, y = pairs()
    lengthscales, ridges = (0.05, 0.4, 1.0, 4.0), np.array([0.01, 0.1, 1.0])
    grid = ConditionalGrid([kernels.RBF(value) for value in lengthscales], y, ridges)
    chosen = set()
    for width in (0.1, 0.7, 10.0):
        gram_x = oracle_kernels.rbf(x, x, width)
        losses = {
            (lengthscale, ridge): oracles.leave_one_pair_out_loss(
                gram_x, oracle_kernels.rbf(y, y, lengthscale), ridge
            )
            for lengthscale in lengthscales
            for ridge in ridges
        }
        best = grid.choose(gram_x)
        assert (best.kernel.lengthscale, best.ridge) == min(losses, key=losses.get)
        assert best.loss == pytest.approx(min(losses.values()), rel=1e-8)
        chosen.add((best.kernel.lengthscale, best.ridge))
    assert len(chosen) > 1  # otherwise any answer would do


def best_smoothness(gram_x, u):
    """Lengthscale and ridge with the smallest loss, by brute force."""
    losses = {
        (factor * u.std(), ridge): oracles.leave_one_pair_out_loss(
            gram_x, oracle_kernels.matern32(u, u, factor * u.std()), ridge
        )
        for factor in SMOOTHNESSES
        for ridge in RIDGES
    }
    return min(losses, key=losses.get)


def test_both_descriptions_of_the_mediator():
    x, y = pairs()
    y_task = np.linspace(-2, 2, 9)[:, None]
    kernel_x = kernels.RBF(0.6)
    gram_x = oracle_kernels.rbf(x, x, 0.6)
    standard = (x - x.mean()) / x.std()
    lengthscale, ridge = best_smoothness(standard @ standard.T, y)
    smooth = oracle_kernels.matern32(y, np.vstack([y, y_task]), lengthscale)
    weights = np.linalg.solve(oracle_kernels.matern32(y, y, lengthscale) + ridge * np.eye(14), smooth)
    expected = (weights.T @ standard) * x.std() + x.mean()  # E[x | y] at pairs, then at task rows
    described = descriptions(x, y, y_task, seed=0)
    np.testing.assert_allclose(described[1].pairs, expected[:14], rtol=1e-9)
    np.testing.assert_allclose(described[1].task, expected[14:], rtol=1e-9)
    for mediation, u, u_task in zip(described, (y, expected[:14]), (y_task, expected[14:]), strict=True):
        lengthscale, ridge = best_smoothness(gram_x, u)
        L, L_tilde = (oracle_kernels.matern32(u, other, lengthscale) for other in (u, u_task))
        inverse = np.linalg.inv(L + ridge * np.eye(14))
        found = mediation.transformation(kernel_x, x)
        np.testing.assert_allclose(found.weights, inverse @ L_tilde, rtol=1e-7, atol=1e-10)
        C = oracle_kernels.matern32(u_task, u_task, lengthscale) - L_tilde.T @ inverse @ L_tilde
        np.testing.assert_allclose(found.covariance, C, atol=1e-10)


def test_many_pairs_are_thinned_for_the_choice_only():
    x, y = pairs(30)
    mediation = Mediation(y, y[:5], seed=3, most_pairs=20)
    assert len(set(mediation.chosen.tolist())) == 20
    assert mediation.transformation(kernels.RBF(0.6), x).weights.shape == (30, 5)
    np.testing.assert_array_equal(mediation.chosen, Mediation(y, y[:5], seed=3, most_pairs=20).chosen)
    assert not np.array_equal(mediation.chosen, Mediation(y, y[:5], seed=4, most_pairs=20).chosen)


# ---- hyperparameters around their optimum --------------------------------------------------------------------


class Bell:
    """A model whose log evidence is -½ (t - c)ᵀ H (t - c) in the logarithms t of its three parameters."""

    NAMES = ("first", "second", "third")
    CENTER = np.log([2.0, 0.5, 7.0])

    def __init__(self, hessian, at=(2.0, 0.5, 7.0), fails_above=np.inf):
        self.hessian, self.at, self.fails_above = np.asarray(hessian), tuple(at), fails_above

    def values(self):
        return dict(zip(self.NAMES, self.at, strict=True))

    def points(self):
        return {}

    def constraints(self):
        return dict.fromkeys(self.values(), positive)

    def with_values(self, values):
        return Bell(self.hessian, [values[name] for name in self.NAMES], self.fails_above)

    def log_evidence(self, z):
        return self.log_evidence_and_gradient(z)[0]

    def log_evidence_and_gradient(self, z, *, points=True):
        if self.at[0] > self.fails_above:
            raise NotPositiveDefiniteError("too large")
        d = np.log(self.at) - self.CENTER
        slope = -self.hessian @ d / np.array(self.at)
        return -0.5 * d @ self.hessian @ d, dict(zip(self.NAMES, slope, strict=True))


def at_optimum(model, variables=None):
    values = model.values()
    return FitResult(model, values, 0.0, "converged", "", 1, 0, (0.0,)), variables or select(model)


def logs_of(sample):
    return np.log([[values[name] for name in Bell.NAMES] for values in sample.values])


def sobol(dimension, seed, n=16):
    return norm.ppf(qmc.Sobol(dimension, seed=seed).random(n))


def test_a_bell_is_sampled_by_its_hessian_with_equal_weights():
    H = np.array([[9.0, 3.0, -1.0], [3.0, 5.0, 2.0], [-1.0, 2.0, 7.0]])
    result, variables = at_optimum(Bell(H))
    sample = sample_hyperparameters(result, None, variables, seed=7)
    steps = logs_of(sample) - Bell.CENTER
    np.testing.assert_allclose(steps[0], 0.0, atol=1e-12)
    np.testing.assert_allclose(
        np.einsum("si,ij,sj->s", steps[1:], H, steps[1:]), (sobol(3, 7) ** 2).sum(axis=1), rtol=1e-5
    )
    assert np.linalg.matrix_rank(steps) == 3
    np.testing.assert_allclose(sample.weights, 1.0 / 17.0, rtol=1e-5)


def test_flat_directions_are_proposed_no_wider_than_a_factor_of_e():
    H = np.diag([4.0, 0.25, 9.0])
    result, variables = at_optimum(Bell(H))
    sample = sample_hyperparameters(result, None, variables, seed=1)
    steps = logs_of(sample)[1:] - Bell.CENTER
    normal = sobol(3, 1)
    widths = np.sort(np.abs(steps * [2.0, 1.0, 3.0]), axis=None)  # curvatures 4 and 9, and 1 instead of 0.25
    np.testing.assert_allclose(widths, np.sort(np.abs(normal), axis=None), rtol=1e-5)
    logs = np.concatenate([[0.0], 0.5 * (1.0 - 0.25) * steps[:, 1] ** 2])
    np.testing.assert_allclose(sample.weights, np.exp(logs) / np.exp(logs).sum(), rtol=1e-5)


def test_hyperpriors_count_in_the_curvature_and_in_the_weights():
    model = Bell(np.diag([4.0, 4.0, 4.0]))
    variables = select(model, hyperpriors={"first": LogNormal(2.0, 0.5)})  # at the optimum already
    sample = sample_hyperparameters(at_optimum(model)[0], None, variables, seed=2)
    steps = logs_of(sample)[1:] - Bell.CENTER
    widths = np.sort(np.abs(steps * np.sqrt([8.0, 4.0, 4.0])), axis=None)
    np.testing.assert_allclose(widths, np.sort(np.abs(sobol(3, 2)), axis=None), rtol=1e-5)
    np.testing.assert_allclose(sample.weights, 1.0 / 17.0, rtol=1e-5)


def test_points_where_nothing_can_be_computed_weigh_nothing():
    result, variables = at_optimum(Bell(np.eye(3), fails_above=2.2))
    with_failures = sample_hyperparameters(result, None, variables, seed=0)
    assert 1 < len(with_failures.values) < 17
    assert all(values["first"] <= 2.2 for values in with_failures.values)
    assert with_failures.weights.sum() == pytest.approx(1.0)


def test_points_stay_within_bounds_and_repeat_with_the_seed():
    model = Bell(np.eye(3))
    variables = select(model, bounds={"first": (1.0, 3.0), "second": (0.3, 0.9)})
    sample = sample_hyperparameters(at_optimum(model)[0], None, variables, seed=0)
    natural = np.exp(logs_of(sample))
    inside = natural[:, :2]
    assert np.all((inside >= [1.0, 0.3]) & (inside <= [3.0, 0.9]))
    assert np.all((inside > [1.0, 0.3]) & (inside < [3.0, 0.9])), "points outside are dropped, not moved to the edge"
    assert 1 < len(natural) < 17
    again = sample_hyperparameters(at_optimum(model)[0], None, variables, seed=0)
    np.testing.assert_array_equal(np.exp(logs_of(again)), natural)
    np.testing.assert_array_equal(again.weights, sample.weights)
    other = sample_hyperparameters(at_optimum(model)[0], None, variables, seed=1)
    assert not np.array_equal(np.exp(logs_of(other)), natural[: len(other.values)])


def test_no_further_points_is_the_optimum_alone():
    result, variables = at_optimum(Bell(np.eye(3)))
    sample = sample_hyperparameters(result, None, variables, n=0)
    assert sample.values[0]["first"] == pytest.approx(2.0)
    np.testing.assert_array_equal(sample.weights, [1.0])


def test_noise_alone_has_a_known_evidence():
    """With next to no f, log p(z) = -n log σ - Σz²/2σ²: σ̂² = mean z², and a curvature of 2n in log σ."""
    n, rng = 30, np.random.default_rng(4)
    z = rng.standard_normal(n)
    model = Model(FunctionPrior(1e-14 * kernels.RBF(1.0)), Direct(rng.standard_normal((n, 1)), noise=0.3))
    variables = select(model, free=["observation.noise"])
    result = maximize_evidence(model, z, variables, n_restarts=0)
    best = np.sqrt(np.mean(z**2))
    assert result.parameters["observation.noise"] == pytest.approx(best, rel=1e-4)
    sample = sample_hyperparameters(result, z, variables, n=8, seed=3)
    sigma = np.array([values["observation.noise"] for values in sample.values])
    assert sigma[0] == pytest.approx(result.parameters["observation.noise"], rel=1e-12)
    np.testing.assert_allclose(np.log(sigma[1:] / sigma[0]) * np.sqrt(2 * n), sobol(1, 3, 8)[:, 0], rtol=1e-3)
    logs = -n * np.log(sigma) - (z**2).sum() / (2 * sigma**2) + n * np.log(sigma / sigma[0]) ** 2
    np.testing.assert_allclose(sample.weights, np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum(), rtol=1e-3)


# ---- mixtures ------------------------------------------------------------------------------------------------


def parts(columns=None):
    z = np.random.default_rng(9).standard_normal(11 if columns is None else (11, columns))
    return [
        condition(FunctionPrior(variance * kernels.RBF(lengthscale)), Direct(X, noise=noise), z)
        for variance, lengthscale, noise in ((1.0, 0.8, 0.1), (2.0, 1.5, 0.3), (0.3, 0.4, 0.2))
    ]


WEIGHTS, CENTERS = np.array([0.5, 0.3, 0.2]), np.array([0.0, 0.9, 0.1])


@pytest.mark.parametrize("centers", [None, CENTERS], ids=["mean of all", "mean at some"])
@pytest.mark.parametrize("columns", [None, 2], ids=["one target", "two targets"])
def test_moments_of_a_mixture(columns, centers, monkeypatch):
    posteriors = parts(columns)
    mixture = MixturePosterior(posteriors, WEIGHTS, centers)
    means = np.array([part.mean(X_NEW) for part in posteriors]).reshape(3, 4, -1)
    covariances = [part.covariance(X_NEW) for part in posteriors]
    at = WEIGHTS if centers is None else centers
    center = np.einsum("s,sqt->qt", at, means)
    expected = np.stack(
        [oracles.mixture(means[:, :, t], covariances, WEIGHTS, center[:, t]) for t in range(means.shape[2])], axis=2
    )
    shape = (4,) if columns is None else (4, columns)
    np.testing.assert_allclose(mixture.mean(X_NEW), center.reshape(shape), rtol=1e-12)
    np.testing.assert_allclose(mixture.covariance(X_NEW), expected.reshape(4, *shape), rtol=1e-10)
    variance = np.einsum("qqt->qt", expected).reshape(shape)
    np.testing.assert_allclose(mixture.variance(X_NEW), variance, rtol=1e-10)
    np.testing.assert_allclose(mixture.std(X_NEW), np.sqrt(variance), rtol=1e-10)
    monkeypatch.setattr(mixture_module, "BLOCK_ENTRIES", 3 * len(posteriors))  # three rows in the first of two blocks
    for found, known in zip(mixture.moments(X_NEW), (center.reshape(shape), variance), strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-10)
    heaviest = posteriors[int(np.argmax(at))]
    assert mixture.log_evidence == heaviest.log_evidence
    assert mixture.prior is heaviest.prior


@pytest.mark.parametrize("columns", [None, 2], ids=["one target", "two targets"])
def test_leave_one_out_of_a_mixture(columns):
    posteriors = parts(columns)
    views = [part.leave_one_out() for part in posteriors]
    mean, variance = MixturePosterior(posteriors, WEIGHTS, CENTERS).leave_one_out()
    expected = sum(w * view[0] for w, view in zip(WEIGHTS, views, strict=True))
    within = [view[1] if columns is None else view[1][:, None] for view in views]
    spread = sum(w * (v + (view[0] - expected) ** 2) for w, v, view in zip(WEIGHTS, within, views, strict=True))
    np.testing.assert_allclose(mean, expected, rtol=1e-12)
    np.testing.assert_allclose(variance, spread, rtol=1e-12)


def test_samples_of_a_mixture_have_its_moments_in_any_order():
    posteriors = parts(2)
    mixture = MixturePosterior(posteriors, WEIGHTS)
    draws = mixture.sample(X_NEW, 40_000, seed=1)
    assert draws.shape == (40_000, 4, 2)
    np.testing.assert_allclose(draws.mean(axis=0), mixture.mean(X_NEW), atol=0.03)
    for t in range(2):
        np.testing.assert_allclose(np.cov(draws[:, :, t].T), mixture.covariance(X_NEW)[:, :, t], atol=0.03)
    np.testing.assert_allclose(draws[:4000].mean(axis=0), draws[-4000:].mean(axis=0), atol=0.1)  # parts are mixed
    np.testing.assert_allclose(draws[:4000].std(axis=0), draws[-4000:].std(axis=0), atol=0.1)
    np.testing.assert_array_equal(draws, mixture.sample(X_NEW, 40_000, seed=1))
    assert not np.array_equal(draws[:9], mixture.sample(X_NEW, 40_000, seed=2)[:9])
    assert MixturePosterior(parts(), WEIGHTS).sample(X_NEW, 3, seed=0).shape == (3, 4)


# ---- all of it together --------------------------------------------------------------------------------------


def toy_draw(seed, n=100, m=150):
    """A fresh draw of the paper's toy."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(-6, 6, (n, 1))
    x = oracles.toy_r(y) + 0.25 * rng.standard_normal((n, 1))
    y_task = rng.uniform(-6, 6, (m, 1))
    x_task = oracles.toy_r(y_task) + 0.25 * rng.standard_normal((m, 1))
    return x, y, y_task, oracles.toy_f(x_task) + 0.25 * rng.standard_normal(m)


@pytest.mark.parametrize("seeds", [[2], pytest.param(range(3), marks=pytest.mark.slow)], ids=["one", "three"])
def test_honest_bands_hold_the_truth_and_the_mean_is_better(seeds):
    x_new = np.linspace(-5, 5, 101)[:, None]
    truth = oracles.toy_f(x_new)
    error, inside = {"honest": [], "plain": []}, []
    for seed in seeds:
        for uncertainty, errors in error.items():
            gp = TaskTransformedGP(uncertainty=uncertainty, n_restarts=0).fit(*toy_draw(seed))
            mean, std = gp.predict(x_new, return_std=True)
            errors.append(np.sqrt(np.mean((mean - truth) ** 2)))
            if uncertainty == "honest":
                inside.append(np.mean(np.abs(mean - truth) < 1.96 * std))
    assert np.mean(error["honest"]) < np.mean(error["plain"])
    assert np.mean(inside) > 0.85


@pytest.mark.parametrize("probability", [0.0, 0.6])
def test_the_ensemble_averages_both_descriptions_by_their_evidence_and_both_noises(probability, monkeypatch):
    """Noises have equal weight, but for the probability that targets scatter as single measurements do."""
    none_of_them = UnseenFits([], np.array([]), probability, 0, "")
    monkeypatch.setattr(TaskTransformedGP, "_unseen", lambda *_: none_of_them)
    monkeypatch.setattr(task_transformed, "NEGLIGIBLE", 0.0)  # keep all, to see their weights
    x, y, y_task, z = toy_draw(3)
    gp = TaskTransformedGP(n_restarts=0, seed=5).fit(x, y, y_task, z)
    members, models = gp.ensemble_.members, gp.ensemble_.models
    assert [model.observation.sampled for model in models] == [False, True, False, True]
    assert sum(member.weight for member in members) == pytest.approx(1.0)
    tops = [member for member in members if member.center]
    assert [member.model for member in tops] == [0, 1, 2, 3]
    evidences = []
    for member in tops:
        model = models[member.model].with_values(member.values)
        log_length = np.log(model.prior.kernel.kernel.lengthscale / (2.0 * x.std(axis=0)))
        log_variance = np.log(model.prior.kernel.variance / z.var())
        hyper = -0.5 * float((log_length**2).sum() + log_variance**2)
        evidences.append(log_evidence(*model, z - z.mean()) + hyper)
        assert model.observation.scale == model.prior.kernel.variance  # C has the variance of f
    shares = np.exp(evidences - np.max(evidences))
    shares[0::2] *= 0.5 * (1.0 - probability) / shares[0::2].sum()
    shares[1::2] *= 0.5 * (1.0 + probability) / shares[1::2].sum()
    np.testing.assert_allclose([member.center for member in tops], shares, rtol=1e-6)
    for i, top in enumerate(tops):
        assert sum(member.weight for member in members if member.model == i) == pytest.approx(top.center)
    best = models[int(np.argmax(shares))].with_values(tops[int(np.argmax(shares))].values)
    assert gp.kernel_.variance == best.prior.kernel.variance == gp.fit_result_.model.prior.kernel.variance
    assert gp.noise_ == best.observation.noise == gp.fit_result_.parameters["observation.noise"]
    posteriors = [condition(*models[m.model].with_values(m.values), z - z.mean()) for m in members]
    x_new = np.linspace(-5, 5, 7)[:, None]
    mean, std = gp.predict(x_new, return_std=True)
    at = np.array([part.mean(x_new) for part in posteriors])
    expected = sum(m.center * row for m, row in zip(members, at, strict=True))
    np.testing.assert_allclose(mean, expected + z.mean(), rtol=1e-10)
    variance = sum(
        m.weight * (part.variance(x_new) + (row - expected) ** 2)
        for m, part, row in zip(members, posteriors, at, strict=True)
    )
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-8)


def of_means(model):
    return isinstance(model.observation, Transformed)


@pytest.mark.parametrize("sampled", [False, True])
def test_one_kind_of_noise_can_be_asked_for(sampled, monkeypatch):
    monkeypatch.setattr(TaskTransformedGP, "_unseen", lambda *_: None)
    tables = toy_draw(3, 30, 40)
    models, both = (
        [m for m in TaskTransformedGP(n_restarts=0, sampled=kind).fit(*tables).ensemble_.models if of_means(m)]
        for kind in (sampled, None)
    )
    assert [model.observation.sampled for model in models] == [sampled, sampled]
    for one, of_both in zip(models, both[int(sampled) :: 2], strict=True):
        assert one.observation.noise == pytest.approx(of_both.observation.noise, rel=0.3)
