"""Noise of rows that are not listed, and what sizes of groups are accepted."""

import numpy as np
import oracle_kernels
import oracles
import pytest
from expected import refused

from decond import kernels
from decond.features import Identity, Polynomial
from decond.gp import Aggregated, FunctionPrior, WeightPrior, condition

RNG = np.random.default_rng(0)
X = RNG.standard_normal((11, 2))
X_NEW = RNG.standard_normal((4, 2))
SHARES = RNG.dirichlet(np.full(11, 0.4), 7).T
GROUPS = np.array(["b", "a", "c", "b", "a", "d", "b", "e", "a", "b", "d"])  # one row of c, one of e
KERNEL = 1.4 * kernels.Matern32(0.9)
K, K_NEW = 1.4 * oracle_kernels.matern32(X, X, 0.9), 1.4 * oracle_kernels.matern32(X, X_NEW, 0.9)
K_NEW_NEW = 1.4 * oracle_kernels.matern32(X_NEW, X_NEW, 0.9)


def check_against_the_textbook(observation, M, Sigma):
    z = np.random.default_rng(3).standard_normal(M.shape[1])
    posterior = condition(FunctionPrior(KERNEL), observation, z)
    mean, covariance = oracles.tbkr_predictive(K, M, Sigma, z, K_NEW, K_NEW_NEW)
    np.testing.assert_allclose(posterior.mean(X_NEW), mean, rtol=1e-10)
    np.testing.assert_allclose(posterior.covariance(X_NEW), covariance, rtol=1e-9, atol=1e-12)
    assert posterior.log_evidence == pytest.approx(oracles.tbkr_evidence(K, M, Sigma, z), rel=1e-12)
    assert posterior.form == "function"


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
    targets = np.zeros(seen.size)
    with refused("form"):
        condition(WeightPrior(Polynomial(2)), seen, targets, form="weight")
    with refused("form"):
        condition(FunctionPrior(KERNEL), seen, targets, form="inducing")
