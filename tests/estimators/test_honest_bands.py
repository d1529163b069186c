"""What honest error bars are made of, piece by piece against plain NumPy; then coverage on fresh draws."""

import numpy as np
import oracle_kernels
import oracles
import pytest
from expected import refused, says_little

from decond import kernels
from decond.conditional import MediatorSmoother, SmootherGrid
from decond.conditional.smoother import SmootherSettings
from decond.estimators import TaskTransformedGP
from decond.features import Identity, Polynomial
from decond.gp import (
    Aggregated,
    Direct,
    FunctionPrior,
    MixturePosterior,
    Transformed,
    WeightPrior,
    condition,
)
from decond.gp.posteriors import ChunkSettings

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


# ---- noise of rows that are not listed -------------------------------------------------------------------------


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
def test_a_share_of_the_variance_within_is_noise(M, covariance):
    known = 1.7 * (covariance if np.ndim(covariance) == 2 else np.diag(np.broadcast_to(covariance, 7)))
    share = np.linspace(0.0, 1.0, 7)
    Sigma = known + 0.2**2 * np.eye(7) + share * oracles.within_noise(K, M)
    check_against_the_textbook(Transformed(X, M, covariance, noise=0.2, scale=1.7, sampling=share), M, Sigma)


def test_weights_of_both_signs_can_ask_for_negative_variances_which_count_as_zero():
    within = SIGNED.T @ np.diag(K) - np.diag(SIGNED.T @ K @ SIGNED)
    assert within.min() < 0 < within.max()  # so the cases above and below have both
    np.testing.assert_allclose(np.diag(oracles.within_noise(K, SIGNED)), np.maximum(within, 0.0), atol=1e-14)


SIZES = {"a": 6.0, "b": 5.0, "c": 9.0, "d": np.inf, "e": 1.0}  # 3, 4, 1, 2 and 1 rows are listed
UNLISTED = np.array([1 / 2, 1 / 5, 8 / 9, 1.0, 0.0])


@pytest.mark.parametrize("weights", [None, ROW_WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("repeats", [None, np.array([1.0, 4.0, 2.0, 1.0, 9.0])], ids=["once", "repeated"])
def test_averages_over_samples_of_groups(weights, repeats):
    """A sample of n of N rows has (1 - n/N) of the variance of one from a group without end."""
    Sigma = oracles.aggregated_noise(GROUPS, 0.2, 0.3, weights, repeats)
    seen = Aggregated(X, GROUPS, noise=0.2, individual_noise=0.3, weights=weights, repeats=repeats)
    M = oracles.averaging(GROUPS, weights)
    check_against_the_textbook(seen, M, Sigma)
    sampled = oracles.sampled_groups_noise(K, GROUPS, weights)
    check_against_the_textbook(seen.replace(group_sizes=np.inf), M, Sigma + sampled)
    check_against_the_textbook(seen.replace(group_sizes=SIZES), M, Sigma + UNLISTED * sampled)
    check_against_the_textbook(seen.replace(group_sizes=list(SIZES.values())), M, Sigma + UNLISTED * sampled)
    check_against_the_textbook(seen.replace(group_sizes=[3, 4, 1, 2, 1]), M, Sigma)


def test_groups_of_one_row_pool_the_others_and_alone_add_nothing():
    noise = np.diag(oracles.sampled_groups_noise(K, GROUPS))
    means = [noise[0] * 3, noise[1] * 4, noise[3] * 2]  # the variances within a, b and d
    np.testing.assert_allclose(noise[[2, 4]], np.mean(means), rtol=1e-12)
    single = Aggregated(X, np.arange(11), noise=0.2, group_sizes=np.inf)
    check_against_the_textbook(single, np.eye(11), 0.04 * np.eye(11))


@pytest.mark.parametrize("listed", [5, 15])
def test_a_sample_mean_has_the_variance_that_simulation_shows(listed):
    """Groups are populations of 20 rows; of each some are listed, and its value is the mean of f over all."""
    rng = np.random.default_rng(5)
    population = rng.standard_normal((20, 1))
    gram = oracle_kernels.rbf(population, population)
    root = np.linalg.cholesky(gram + 1e-9 * np.eye(20))
    errors, expected = [], []
    for _ in range(300):
        f = root @ rng.standard_normal(20)
        rows = rng.choice(20, listed, replace=False)
        errors.append(f[rows].mean() - f.mean())
        seen = Aggregated(population[rows], np.zeros(listed), group_sizes=20).linearize()
        averaged = gram[np.ix_(rows, rows)].mean()
        expected.append(seen.sampling._variances(np.ones(listed), np.array([averaged]))[0])
    assert np.mean(np.square(errors)) == pytest.approx(np.mean(expected), rel=0.25)  # 3 standard errors


@pytest.mark.parametrize("wrong", [2, [3, 4, 1, 2], [3, 4, 1, 1, 1], np.nan, {"a": 9}, "many"])
def test_sizes_that_make_no_sense_are_refused(wrong):
    with refused("group_sizes"):
        Aggregated(X, GROUPS, group_sizes=wrong)


def test_features_use_function_space_for_samples_and_refuse_the_weight_form():
    prior, z = WeightPrior(Identity(), 0.8), np.arange(5.0)
    seen = Aggregated(X, GROUPS, noise=0.2, group_sizes=np.inf)
    assert condition(prior, seen.replace(group_sizes=None), z).form == "weight"
    posterior = condition(prior, seen, z)
    assert posterior.form == "function"
    linear_gram = 0.8 * X @ X.T
    Sigma = 0.04 * np.eye(5) + oracles.sampled_groups_noise(linear_gram, GROUPS)
    mean, _ = oracles.tbkr_predictive(linear_gram, oracles.averaging(GROUPS), Sigma, z, 0.8 * X @ X_NEW.T, np.eye(4))
    np.testing.assert_allclose(posterior.mean(X_NEW), mean, rtol=1e-10)
    for observation in (seen, Transformed(X, SHARES, noise=0.2, sampling=np.ones(7))):
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
    gram_x = oracle_kernels.matern32(x, x, 0.7)
    for lengthscale in (0.1, 0.8, 5.0):
        gram_y = oracle_kernels.rbf(y, y, lengthscale)
        for ridge in (1e-3, 0.1, 3.0):
            found = SmootherGrid([kernels.RBF(lengthscale)], y, [ridge]).choose(gram_x).loss
            assert found == pytest.approx(oracles.leave_one_pair_out_loss(gram_x, gram_y, ridge), rel=1e-7)


def test_the_grid_chooses_what_leaving_pairs_out_chooses():
    x, y = pairs()
    lengthscales, ridges = (0.05, 0.4, 1.0, 4.0), np.array([0.01, 0.1, 1.0])
    grid = SmootherGrid([kernels.RBF(value) for value in lengthscales], y, ridges)
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
        for factor in SmootherSettings().smoothness
        for ridge in SmootherSettings().ridges
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
    direct = MediatorSmoother(x, y, y_task, seed=0)
    for found, known in zip(direct.means(), (expected[:14], expected[14:]), strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-9)
    smoothers = (direct, direct.of_means())
    for smoother, u, u_task in zip(smoothers, (y, expected[:14]), (y_task, expected[14:]), strict=True):
        lengthscale, ridge = best_smoothness(gram_x, u)
        L, L_tilde = (oracle_kernels.matern32(u, other, lengthscale) for other in (u, u_task))
        inverse = np.linalg.inv(L + ridge * np.eye(14))
        found = smoother.expectation(kernel_x)
        np.testing.assert_allclose(found.weights, inverse @ L_tilde, rtol=1e-7, atol=1e-10)
        C = oracle_kernels.matern32(u_task, u_task, lengthscale) - L_tilde.T @ inverse @ L_tilde
        np.testing.assert_allclose(found.covariance, C, atol=1e-10)


def test_many_pairs_are_thinned_for_the_choice_only():
    x, y = pairs(30)
    settings, kernel_x = SmootherSettings(most_pairs=20), kernels.RBF(0.6)
    first, again, other = (
        MediatorSmoother(x, y, y[:5], seed, settings).expectation(kernel_x).weights for seed in (3, 3, 4)
    )
    assert first.shape == (30, 5)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


# ---- mixtures ------------------------------------------------------------------------------------------------


def parts(columns=None):
    z = np.random.default_rng(9).standard_normal(11 if columns is None else (11, columns))
    return [
        condition(FunctionPrior(variance * kernels.RBF(lengthscale)), Direct(X, noise=noise), z)
        for variance, lengthscale, noise in ((1.0, 0.8, 0.1), (2.0, 1.5, 0.3), (0.3, 0.4, 0.2))
    ]


WEIGHTS = np.array([0.5, 0.3, 0.2])


@pytest.mark.parametrize("columns", [None, 2], ids=["one target", "two targets"])
def test_moments_of_a_mixture(columns):
    posteriors = parts(columns)
    mixture = MixturePosterior(posteriors, WEIGHTS)
    means = np.array([part.mean(X_NEW) for part in posteriors]).reshape(3, 4, -1)
    covariances = [part.covariance(X_NEW) for part in posteriors]
    center = np.einsum("s,sqt->qt", WEIGHTS, means)
    expected = np.stack(
        [oracles.mixture(means[:, :, t], covariances, WEIGHTS, center[:, t]) for t in range(means.shape[2])], axis=2
    )
    shape = (4,) if columns is None else (4, columns)
    np.testing.assert_allclose(mixture.mean(X_NEW), center.reshape(shape), rtol=1e-12)
    np.testing.assert_allclose(mixture.covariance(X_NEW), expected.reshape(4, *shape), rtol=1e-10)
    variance = np.einsum("qqt->qt", expected).reshape(shape)
    np.testing.assert_allclose(mixture.variance(X_NEW), variance, rtol=1e-10)
    np.testing.assert_allclose(mixture.std(X_NEW), np.sqrt(variance), rtol=1e-10)
    mixture.chunks = ChunkSettings(entries=3 * len(posteriors))  # three rows in the first of two chunks
    for found, known in zip(mixture.moments(X_NEW), (center.reshape(shape), variance), strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-10)
    heaviest = posteriors[int(np.argmax(WEIGHTS))]
    assert mixture.log_evidence == heaviest.log_evidence
    assert mixture.prior is heaviest.prior


@pytest.mark.parametrize("columns", [None, 2], ids=["one target", "two targets"])
def test_leave_one_out_of_a_mixture(columns):
    posteriors = parts(columns)
    views = [part.leave_one_out() for part in posteriors]
    mean, variance = MixturePosterior(posteriors, WEIGHTS).leave_one_out()
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


@pytest.mark.slow
def test_honest_bands_hold_the_truth_and_the_mean_is_better():
    """Single measurements, as in the paper's toy: on three draws."""
    x_new = np.linspace(-5, 5, 101)[:, None]
    truth = oracles.toy_f(x_new)
    errors, inside = [], []
    for seed in range(3):
        single, plain = (
            TaskTransformedGP(**settings).fit(*toy_draw(seed))
            for settings in ({"targets": "single"}, {"uncertainty": "plain", "n_restarts": 0})
        )
        mean, std = single.predict(x_new, return_std=True)
        errors.append([np.sqrt(np.mean((answer - truth) ** 2)) for answer in (mean, plain.predict(x_new))])
        inside.append(np.mean(np.abs(mean - truth) < 1.96 * std))
    ours, theirs = np.mean(errors, axis=0)
    assert ours < theirs
    assert np.mean(inside) > 0.85


def test_means_are_averaged_over_descriptions_of_the_mediator_by_stacking():
    """The posterior is recomputed from the candidates: their weights, their hyperparameters, one condition each."""
    x, y, y_task, z = toy_draw(4, 60, 80)
    with says_little():
        gp = TaskTransformedGP(n_restarts=0, seed=5).fit(x, y, y_task, z)
    average = gp.average_
    assert average.weights.sum() == pytest.approx(1.0)
    assert len(average.candidates) + len(average.dropped) == 3
    means, variances, weights = [], [], []
    x_new = np.linspace(-5, 5, 7)[:, None]
    for share, candidate in zip(average.weights, average.candidates, strict=True):
        for weight, values in zip(candidate.weights, candidate.values, strict=True):
            model = candidate.model.with_values(values)
            assert model.observation.scale == model.prior.kernel.variance  # C has the variance of f
            part = condition(*model, z - z.mean())
            means.append(part.mean(x_new))
            variances.append(part.variance(x_new))
            weights.append(share * weight)
    mean, std = gp.predict(x_new, return_std=True)
    expected = np.array(weights) @ means
    np.testing.assert_allclose(mean, expected + z.mean(), rtol=1e-10)
    second = np.array(weights) @ (np.array(variances) + np.square(means))
    np.testing.assert_allclose(std, np.sqrt(second - expected**2), rtol=1e-8)
