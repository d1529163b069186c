"""The Gaussian process on an embedding: its posterior, bands, and the lengthscales that it learns."""

import numpy as np
import pandas as pd
import pytest
from expected import refused, warned
from oracle_kernels import rbf
from scipy.stats import multivariate_normal

from decond import BayesianMeanEmbedding, MeanEmbedding, kernels
from decond.embeddings.bayesian_mean import EmbeddingPrior, GaussianPseudolikelihood
from decond.errors import ArgumentError, ArgumentTypeError, DataWarning


def two_modes(n, seed):
    rng = np.random.default_rng(seed)
    return rng.choice([-2.0, 2.0], (n, 1)) + 0.3 * rng.standard_normal((n, 1))


def smoothed_normal(q, center, variance, lengthscale):
    """Return E[k(q, X)] for X ~ N(center, variance) and an RBF kernel, in one column."""
    total = lengthscale**2 + variance
    return lengthscale / np.sqrt(total) * np.exp(-0.5 * (q - center) ** 2 / total)


def embedding_of_two_modes(q, lengthscale):
    return 0.5 * (smoothed_normal(q, -2.0, 0.09, lengthscale) + smoothed_normal(q, 2.0, 0.09, lengthscale))


# The posterior


@pytest.fixture(scope="module")
def posterior():
    x = two_modes(40, seed=1)
    return x, BayesianMeanEmbedding(kernels.RBF(0.5), objective=None).fit(x)


QUERIES = np.array([[-2.3], [-1.0], [0.0], [1.9], [5.0]])


def test_posterior_mean_and_deviation_are_those_of_dense_formulas(posterior):
    x, model = posterior
    features = rbf(x, x, 0.5)
    average, sampling = features.mean(axis=0), np.cov(features) / 40
    assert model.noise_ == pytest.approx(np.sqrt(np.diagonal(np.cov(features)).mean()), rel=1e-10)
    variance = model.amplitude_**2
    prior, cross = variance * rbf(x, x, 0.5 * np.sqrt(2.0)), variance * rbf(QUERIES, x, 0.5 * np.sqrt(2.0))
    shrink = cross @ np.linalg.inv(prior + model.noise_**2 / 40 * np.eye(40))
    mean, std = model.predict(QUERIES, return_std=True)
    np.testing.assert_allclose(mean, shrink @ average, rtol=1e-8, atol=1e-12)
    missed = variance - 2.0 * (shrink * cross).sum(axis=1) + (shrink @ prior * shrink).sum(axis=1)
    np.testing.assert_allclose(std**2, missed + (shrink @ sampling * shrink).sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(model.predict(QUERIES), mean)


@pytest.mark.parametrize("spread", [None, 1.0])
def test_amplitude_has_the_largest_evidence_nearby(spread):
    x = two_modes(40, seed=1)
    model = BayesianMeanEmbedding(kernels.RBF(0.5), objective=None, spread=spread).fit(x)
    average, covariance = rbf(x, x, 0.5).mean(axis=0), rbf(x, x, 0.5 * np.sqrt(2.0))
    if spread is not None:
        middle = 0.5 * (x + x.T) - x.mean()
        covariance = covariance * np.exp(-(middle**2) / (0.25 + 2.0 * spread**2))

    def evidence(amplitude):
        noise = model.noise_**2 / 40 * np.eye(40)
        return multivariate_normal.logpdf(average, np.zeros(40), amplitude**2 * covariance + noise)

    assert evidence(model.amplitude_) > max(evidence(0.8 * model.amplitude_), evidence(1.25 * model.amplitude_))


def test_deviation_is_the_error_of_the_mean_over_draws_of_prior_and_sample(posterior):
    x, model = posterior
    rng, draws = np.random.default_rng(2), 4000
    everywhere = np.concatenate([x, QUERIES])
    prior = model.amplitude_**2 * rbf(everywhere, everywhere, 0.5 * np.sqrt(2.0))
    mu = rng.multivariate_normal(np.zeros(45), prior, draws, method="eigh")
    averages = mu[:, :40] + rng.multivariate_normal(np.zeros(40), np.cov(rbf(x, x, 0.5)) / 40, draws, method="eigh")
    cross = prior[40:, :40]
    estimates = averages @ np.linalg.solve(prior[:40, :40] + model.noise_**2 / 40 * np.eye(40), cross.T)
    spread = np.sqrt(((estimates - mu[:, 40:]) ** 2).mean(axis=0))
    np.testing.assert_allclose(model.predict(QUERIES, return_std=True)[1], spread, rtol=0.05)


@pytest.mark.parametrize("spread", [1e3, 1e8, 1e200])
@pytest.mark.parametrize("objective", ["predictive", "gaussian", None])
def test_a_large_spread_is_a_flat_prior(objective, spread):
    x = np.random.default_rng(13).standard_normal((60, 3))
    flat, model = (BayesianMeanEmbedding(objective=objective, spread=given).fit(x) for given in (None, spread))
    np.testing.assert_allclose(model.kernel_.lengthscale, flat.kernel_.lengthscale, rtol=1e-4)
    assert model.amplitude_ == pytest.approx(flat.amplitude_, rel=1e-4)
    np.testing.assert_allclose(model.predict(x[:5] + 0.3), flat.predict(x[:5] + 0.3), rtol=1e-3)
    np.testing.assert_allclose(model.predict(x, return_std=True)[1], flat.predict(x, return_std=True)[1], rtol=1e-3)


@pytest.mark.parametrize("spread", [0.01, 0.5])
def test_a_spread_much_narrower_than_the_rows_warns(spread):
    with warned(DataWarning, argument="spread"):
        BayesianMeanEmbedding(kernels.RBF(0.5), objective=None, spread=spread).fit(two_modes(40, seed=1))


def test_far_from_the_sample_the_prior_is_left(posterior):
    _, model = posterior
    mean, std = model.predict([[50.0]], return_std=True)
    assert mean.item() == pytest.approx(0.0, abs=1e-12)
    assert std.item() == pytest.approx(model.amplitude_)
    narrow = BayesianMeanEmbedding(kernels.RBF(0.5), objective=None, spread=3.0).fit(two_modes(40, seed=1))
    assert narrow.predict([[50.0]], return_std=True)[1].item() < 1e-6


# What is learned


def squared_error(model, lengthscale):
    """Return ‖μ̂ - μ‖² under RBF(lengthscale), μ̂ that of the signed density of the posterior mean."""
    x, blur = model.points_[:, 0], model.kernel_.lengthscale**2
    weights = np.concatenate([np.sqrt(2.0) * model.weights_, [-0.5, -0.5]])
    centers, variances = np.append(x, [-2.0, 2.0]), np.append(np.full(len(x), blur), [0.09, 0.09])
    gram = smoothed_normal(centers[:, None], centers, variances[:, None] + variances, lengthscale)
    return weights @ gram @ weights


def test_the_density_behind_the_posterior_mean_has_it_as_embedding(posterior):
    _, model = posterior
    masses = np.sqrt(2.0) * model.weights_
    again = smoothed_normal(QUERIES, model.points_[:, 0], 0.25, 0.5) @ masses
    np.testing.assert_allclose(again, model.predict(QUERIES), rtol=1e-8, atol=1e-12)


def test_learned_lengthscales_estimate_two_modes_better_than_the_median_heuristic():
    for seed in range(5):
        x = two_modes(80, seed)
        learned, median = BayesianMeanEmbedding().fit(x), BayesianMeanEmbedding(objective=None).fit(x)
        assert median.kernel_.lengthscale == kernels.median_heuristic(x)
        for reference in (0.15, 0.3, 0.6, 1.2):
            assert squared_error(learned, reference) < squared_error(median, reference)


def test_in_its_own_space_an_average_errs_less_the_longer_the_lengthscale():
    """E‖μ̂ - μ‖² = (1 - ‖μ‖²) / n, so that errors in different spaces do not compare lengthscales (docs/adr/0013)."""
    n, samples = 20, [two_modes(20, seed) for seed in range(400)]
    found = []
    for lengthscale in (0.1, 0.4, 1.6, 6.4):
        norm = np.mean([smoothed_normal(a, b, 0.18, lengthscale) for a in (-2.0, 2.0) for b in (-2.0, 2.0)])
        averages = [MeanEmbedding(kernels.RBF(lengthscale), x) for x in samples]
        errors = [
            mu.inner(mu) - 2.0 * embedding_of_two_modes(x[:, 0], lengthscale).mean() + norm
            for mu, x in zip(averages, samples, strict=True)
        ]
        found.append(np.mean(errors))
        assert found[-1] == pytest.approx((1.0 - norm) / n, rel=0.15)
    assert np.all(np.diff(found) < 0.0)


def told_apart(gram, n, rng):
    """Tell whether the MMD of the first n rows and the others is among the largest 5 % of 199 permutations."""
    sides = np.where(np.arange(len(gram)) < n, -1.0, 1.0)
    permuted = rng.permuted(np.tile(sides, (199, 1)), axis=1)
    return np.mean(((permuted @ gram) * permuted).sum(axis=1) >= sides @ gram @ sides) < 0.05


def test_learned_lengthscales_tell_narrow_from_wider_modes_where_the_median_heuristic_does_not():
    found = []
    for seed in range(20):
        rng = np.random.default_rng([seed, 7])
        x = np.concatenate([two_modes(200, [seed, 8]), two_modes(200, [seed, 9])])
        x[200:] += 0.34 * rng.standard_normal((200, 1))  # deviation 0.45 instead of 0.3
        scales = BayesianMeanEmbedding().fit(x).kernel_.lengthscale, kernels.median_heuristic(x)
        found.append([told_apart(kernels.RBF(scale).gram(x, x), 200, rng) for scale in scales])
    learned, median = np.sum(found, axis=0)
    assert learned >= 10
    assert median <= 4


def test_bands_cover_the_true_embedding():
    inside, grid = [], np.linspace(-3.5, 3.5, 141)[:, None]
    for seed in range(30):
        model = BayesianMeanEmbedding().fit(two_modes(100, seed))
        mean, std = model.predict(grid, return_std=True)
        truth = embedding_of_two_modes(grid[:, 0], model.kernel_.lengthscale)
        inside.append(np.mean(np.abs(mean - truth) <= 1.96 * std))
    assert 0.92 < np.mean(inside) < 0.99


@pytest.mark.parametrize("objective", ["predictive", "gaussian"])
@pytest.mark.parametrize("units", [1e-3, 1e3])
def test_units_and_origin_do_not_matter(objective, units):
    x = np.random.default_rng(4).normal([-1.0, 5.0], [0.5, 3.0], (60, 2))
    model = BayesianMeanEmbedding(objective=objective).fit(x)
    other = BayesianMeanEmbedding(objective=objective).fit(units * x + [0.0, 7.0 * units])
    np.testing.assert_allclose(other.kernel_.lengthscale, units * model.kernel_.lengthscale, rtol=1e-3)
    mean, std = model.predict(x[:5], return_std=True)
    mean_other, std_other = other.predict(units * x[:5] + [0.0, 7.0 * units], return_std=True)
    np.testing.assert_allclose(mean_other, mean, rtol=5e-3)
    np.testing.assert_allclose(std_other, std, rtol=2e-2)


def test_each_column_gets_its_own_lengthscale_unless_a_kernel_has_one():
    x = np.random.default_rng(5).standard_normal((80, 2)) * [1.0, 50.0]
    apart = BayesianMeanEmbedding().fit(x).kernel_.lengthscale
    assert 25.0 < apart[1] / apart[0] < 100.0
    shared = BayesianMeanEmbedding(kernels.RBF(1.0)).fit(x).kernel_
    assert np.ndim(shared.lengthscale) == 0
    started = BayesianMeanEmbedding(kernels.RBF([1.0, 10.0])).fit(x).kernel_.lengthscale
    np.testing.assert_allclose(started, apart, rtol=1e-2)


@pytest.mark.parametrize("spread", [None, [1.0, 5.0]])
def test_gaussian_objective_is_maximal_at_what_is_learned(spread):
    x = np.random.default_rng(12).normal([-1.0, 5.0], [0.5, 3.0], (40, 2))
    model = BayesianMeanEmbedding(objective="gaussian", spread=spread, n_anchors=40, feature_noise=0.5).fit(x)
    prior = EmbeddingPrior(spread=spread, center=x.mean(axis=0))
    objective = GaussianPseudolikelihood(x, x, 0.5, prior=prior)
    value, slope = objective(model.kernel_.lengthscale)
    assert model.log_pseudolikelihood_ == pytest.approx(value, rel=1e-9)
    pull = np.log(kernels.median_heuristic(x, per_column=True) / model.kernel_.lengthscale)  # of the prior
    np.testing.assert_allclose(slope + pull, 0.0, atol=1e-2)


def test_one_far_row_does_not_widen_the_kernel_for_all():
    x = two_modes(100, seed=6)
    usual = BayesianMeanEmbedding().fit(x).kernel_.lengthscale
    assert BayesianMeanEmbedding().fit(np.append(x, 60.0)).kernel_.lengthscale < 3.0 * usual


def test_copies_of_rows_do_not_narrow_the_kernel():
    x = two_modes(60, seed=7)
    once, twice = BayesianMeanEmbedding().fit(x), BayesianMeanEmbedding().fit(np.repeat(x, 2, axis=0))
    assert twice.kernel_.lengthscale == pytest.approx(once.kernel_.lengthscale, rel=0.3)
    assert np.isfinite(twice.predict(QUERIES, return_std=True)).all()
    rounded = BayesianMeanEmbedding().fit(x.round(1)).kernel_.lengthscale
    assert rounded == pytest.approx(once.kernel_.lengthscale, rel=0.5)


@pytest.mark.parametrize("rows", [[0.0, 1.0], [0.0, 1.0, 5.0], [[0.0, 1.0], [2.0, 3.0]]])
def test_two_or_three_rows_are_enough(rows):
    model = BayesianMeanEmbedding().fit(rows)
    mean, std = model.predict(rows, return_std=True)
    assert np.all((mean > 0.0) & (mean < 1.0))
    assert np.all((std > 0.0) & (std < 1.0))


def test_a_column_that_never_changes_says_nothing():
    x = two_modes(50, seed=8)
    alone = BayesianMeanEmbedding().fit(x)
    padded = BayesianMeanEmbedding().fit(np.hstack([x, np.full((50, 1), 3.0)]))
    np.testing.assert_allclose(padded.kernel_.lengthscale, [alone.kernel_.lengthscale, 1.0], rtol=1e-6)
    np.testing.assert_allclose(padded.predict([[1.0, 3.0]]), alone.predict([[1.0]]), rtol=1e-6)


def test_a_column_of_few_values_warns():
    x = np.random.default_rng(9).standard_normal((200, 2))
    with warned(DataWarning, argument="x"):
        BayesianMeanEmbedding().fit(np.column_stack([x[:, 0], x[:, 1] > 0]))


# What it serves


def test_embedding_has_weights_on_points_near_the_posterior_mean():
    x = two_modes(100, seed=10)
    model = BayesianMeanEmbedding().fit(x)
    embedding = model.embedding()
    mean, std = model.predict(x, return_std=True)
    assert np.abs(embedding(x) - mean).max() < 0.05 * std.min()
    assert embedding.weights.sum() == pytest.approx(1.0, abs=0.05)
    assert embedding.mmd(MeanEmbedding(model.kernel_, x)) < 0.2 * embedding.norm()
    herded = embedding.herd(10)
    assert 3 <= (herded > 0).sum() <= 7


def test_weights_with_many_columns_agree_at_the_points_and_not_between():
    rng = np.random.default_rng(14)
    with warned(DataWarning, argument="x"):
        model = BayesianMeanEmbedding().fit(rng.standard_normal((200, 8)))
    embedding, fresh = model.embedding(), rng.standard_normal((200, 8))
    (mean, std), between = model.predict(model.points_, return_std=True), model.predict(fresh, return_std=True)
    assert np.abs(embedding(model.points_) - mean).max() < 0.05 * std.min()
    assert np.abs(embedding(fresh) - between[0]).max() > 0.5 * between[1].min()
    assert embedding.weights.sum() < 0.9


def test_many_rows_are_observed_at_some_points():
    x = two_modes(600, seed=11)
    whole = BayesianMeanEmbedding(kernels.RBF(0.3), objective=None).fit(x)
    some = BayesianMeanEmbedding(kernels.RBF(0.3), objective=None, max_points=100).fit(x)
    assert some.points_.shape == (100, 1)
    mean, std = whole.predict(QUERIES[:4], return_std=True)
    assert np.all(np.abs(some.predict(QUERIES[:4]) - mean) < std)
    assert "fitted on 600 rows" in repr(some)


# The door


@pytest.mark.parametrize(
    ("option", "wrong", "error"),
    [
        ("kernel", kernels.Matern32(), ArgumentTypeError),
        ("objective", "likelihood", ArgumentError),
        ("feature_noise", 0.0, ArgumentError),
        ("spread", -1.0, ArgumentError),
        ("max_points", 0, ArgumentError),
        ("max_points", 1, ArgumentError),
    ],
)
def test_wrong_options_are_refused(option, wrong, error):
    with refused(option, error):
        BayesianMeanEmbedding(**{option: wrong})


@pytest.mark.parametrize(
    ("options", "rows", "named"),
    [
        ({}, [[1.0]], "x"),
        ({}, [[1.0], [1.0]], "x"),
        ({"kernel": kernels.RBF([1.0, 2.0])}, [[1.0], [2.0]], "lengthscale"),
        ({"spread": [1.0, 2.0]}, [[1.0], [2.0]], "spread"),
        ({"spread": 0.1, "kernel": kernels.RBF(0.1), "objective": None}, [-9.0, 9.0], "spread"),
        ({"objective": "gaussian", "n_anchors": 2}, np.eye(3, 2), "n_anchors"),
    ],
)
def test_wrong_rows_are_refused(options, rows, named):
    with refused(named):
        BayesianMeanEmbedding(**options).fit(rows)


def test_equal_rows_are_fine_where_nothing_is_learned():
    model = BayesianMeanEmbedding(kernels.RBF(1.0), objective=None).fit([[1.0], [1.0], [1.0]])
    np.testing.assert_allclose(model.predict([[1.0], [2.0]])[0], 1.0, rtol=1e-6)


def test_columns_of_frames_are_known_by_their_names():
    rng = np.random.default_rng(16)
    frame = pd.DataFrame({"a": rng.normal(0.0, 1.0, 30), "b": rng.normal(5.0, 0.1, 30)})
    model = BayesianMeanEmbedding().fit(frame)
    np.testing.assert_array_equal(model.predict(frame), model.predict(frame.to_numpy()))
    with refused("q"):
        model.predict(frame[["b", "a"]])


def test_queries_are_checked():
    model = BayesianMeanEmbedding()
    assert "not fitted" in repr(model)
    with pytest.raises(RuntimeError):
        model.predict([[0.0]])
    with pytest.raises(RuntimeError):
        model.embedding()
    with refused("q"):
        model.fit([0.0, 1.0, 3.0]).predict([[0.0, 1.0]])
