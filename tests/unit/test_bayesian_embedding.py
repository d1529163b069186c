"""The Gaussian process on an embedding: its prior, posterior, bands, and the lengthscales that it learns."""

import numpy as np
import pytest
from oracle_kernels import rbf
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from decond import BayesianMeanEmbedding, MeanEmbedding, kernels
from decond.embeddings.embedding_prior import EmbeddingPrior
from decond.embeddings.pseudolikelihood import GaussianPseudolikelihood, PredictivePseudolikelihood

LENGTHSCALE = np.array([0.8, 12.0])
ROWS = np.random.default_rng(0).standard_normal((9, 2)) * [1.0, 20.0]
PRIORS = {"flat": EmbeddingPrior(), "normal": EmbeddingPrior(spread=[1.5, 25.0], center=np.array([0.3, -4.0]))}


def two_modes(n, seed):
    rng = np.random.default_rng(seed)
    return rng.choice([-2.0, 2.0], (n, 1)) + 0.3 * rng.standard_normal((n, 1))


def smoothed_normal(q, center, variance, lengthscale):
    """Return E[k(q, X)] for X ~ N(center, variance) and an RBF kernel, in one column."""
    total = lengthscale**2 + variance
    return lengthscale / np.sqrt(total) * np.exp(-0.5 * (q - center) ** 2 / total)


def embedding_of_two_modes(q, lengthscale):
    return 0.5 * (smoothed_normal(q, -2.0, 0.09, lengthscale) + smoothed_normal(q, 2.0, 0.09, lengthscale))


def central_differences(function, at, step=1e-5):
    """Return the derivatives of a number for the logarithms of `at`."""
    moves = step * np.eye(len(at))
    return np.array([(function(at * np.exp(move)) - function(at * np.exp(-move))) / (2.0 * step) for move in moves])


# The prior


@pytest.mark.parametrize("kind", PRIORS)
def test_prior_covariance_is_the_integral_of_two_kernels(kind):
    prior = PRIORS[kind].replace(lengthscale=LENGTHSCALE)
    a, b = ROWS[:1], ROWS[1:2]
    expected = 1.0
    for j in range(2):
        u = np.linspace(-12.0, 12.0, 4001) * [1.0, 20.0][j]
        weight = np.full_like(u, 1.0 / (np.sqrt(np.pi) * LENGTHSCALE[j]))
        if prior.spread is not None:
            score = (u - prior.center[j]) / prior.spread[j]
            weight = np.exp(-0.5 * score**2) / (np.sqrt(2.0 * np.pi) * prior.spread[j])
        values = [np.exp(-0.5 * ((point[0, j] - u) / LENGTHSCALE[j]) ** 2) for point in (a, b)]
        expected *= np.trapezoid(values[0] * values[1] * weight, u)
    assert prior.covariance(a, b).item() == pytest.approx(expected, rel=1e-8)
    np.testing.assert_allclose(prior.diagonal(ROWS), np.diagonal(prior.covariance(ROWS, ROWS)), rtol=1e-12)


@pytest.mark.parametrize("kind", PRIORS)
def test_slopes_of_the_prior_are_derivatives(kind):
    def total(lengthscale):
        covariance = PRIORS[kind].replace(lengthscale=lengthscale).covariance(ROWS, ROWS)
        return (covariance * np.outer(np.arange(9), np.arange(9) ** 2)).sum()

    slopes = PRIORS[kind].replace(lengthscale=LENGTHSCALE).slopes(ROWS)
    found = (slopes * np.outer(np.arange(9), np.arange(9) ** 2)).sum(axis=(1, 2))
    np.testing.assert_allclose(found, central_differences(total, LENGTHSCALE), rtol=1e-7)


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


def test_amplitude_has_the_largest_evidence_nearby(posterior):
    x, model = posterior
    average, covariance = rbf(x, x, 0.5).mean(axis=0), rbf(x, x, 0.5 * np.sqrt(2.0))

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


def test_far_from_the_sample_the_prior_is_left(posterior):
    _, model = posterior
    mean, std = model.predict([[50.0]], return_std=True)
    assert mean.item() == pytest.approx(0.0, abs=1e-12)
    assert std.item() == pytest.approx(model.amplitude_)
    narrow = BayesianMeanEmbedding(kernels.RBF(0.5), objective=None, spread=3.0).fit(two_modes(40, seed=1))
    assert narrow.predict([[50.0]], return_std=True)[1].item() < 1e-6


# Pseudo-likelihoods


def test_gaussian_pseudolikelihood_is_that_of_one_large_gaussian_and_jacobians():
    x, anchors, noise, amplitude = ROWS[:4], ROWS[4:8], 0.3, 1.4
    features = rbf(x, anchors, LENGTHSCALE)
    prior = amplitude**2 * rbf(anchors, anchors, np.sqrt(2.0) * LENGTHSCALE)
    covariance = np.kron(np.ones((4, 4)), prior) + noise**2 * np.eye(16)
    expected = multivariate_normal.logpdf(features.ravel(), np.zeros(16), covariance)
    for row in x:
        moves = 1e-5 * np.diag(LENGTHSCALE)
        ahead, behind = (rbf(row + sign * moves, anchors, LENGTHSCALE) for sign in (1.0, -1.0))
        jacobian = (ahead - behind) / (2e-5 * LENGTHSCALE[:, None])
        expected += 0.5 * np.linalg.slogdet(jacobian @ jacobian.T)[1]
    value, _ = GaussianPseudolikelihood(x, anchors, noise, amplitude)(LENGTHSCALE)
    assert value == pytest.approx(expected, rel=1e-7)


def test_predictive_pseudolikelihood_is_a_product_of_densities_given_the_other_rows():
    x = np.concatenate([ROWS, ROWS[:2]])  # two rows twice
    expected = 0.0
    for row in x:
        others = x[(x != row).any(axis=1)]
        parts = [multivariate_normal.logpdf(row, other, np.diag(LENGTHSCALE**2)) for other in others]
        parts.append(multivariate_normal.logpdf(row, x.mean(axis=0), np.diag(4.0 * x.var(axis=0))))
        expected += logsumexp(parts) - np.log(len(parts))
    assert PredictivePseudolikelihood(x)(LENGTHSCALE)[0] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("lengthscale", [[0.8, 12.0], [0.1, 2.0], [5.0, 300.0]])
@pytest.mark.parametrize("kind", ["predictive", *PRIORS])
def test_gradients_are_derivatives(kind, lengthscale):
    if kind == "predictive":
        objective = PredictivePseudolikelihood(ROWS)
    else:
        objective = GaussianPseudolikelihood(ROWS, ROWS[:5] + 0.1, 0.3, 1.4, PRIORS[kind])
    at = np.array(lengthscale)
    expected = central_differences(lambda scale: objective(scale)[0], at)
    np.testing.assert_allclose(objective(at)[1], expected, rtol=1e-5, atol=1e-6)


def test_with_free_noise_the_gaussian_pseudolikelihood_has_no_maximum():
    x = two_modes(30, seed=3)
    values = [
        GaussianPseudolikelihood(x, x[:10], 1.0 / scale)(np.array([scale]))[0] for scale in (1e1, 1e2, 1e3, 1e4)
    ]
    assert np.all(np.diff(values) > 100.0)


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
    with pytest.warns(UserWarning, match="edge of what was searched"):
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
    ("options", "error", "words"),
    [
        ({"kernel": kernels.Matern32()}, TypeError, "closed form for RBF only"),
        ({"objective": "likelihood"}, ValueError, "'predictive', 'gaussian'"),
        ({"feature_noise": 0.0}, ValueError, "feature_noise"),
        ({"spread": -1.0}, ValueError, "spread must be positive"),
        ({"max_points": 0}, ValueError, "max_points"),
    ],
)
def test_wrong_options_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        BayesianMeanEmbedding(**options)


@pytest.mark.parametrize(
    ("options", "rows", "words"),
    [
        ({}, [[1.0]], "at least two"),
        ({}, [[1.0], [1.0]], "objective=None"),
        ({"kernel": kernels.RBF([1.0, 2.0])}, [[1.0], [2.0]], "2 values"),
        ({"spread": [1.0, 2.0]}, [[1.0], [2.0]], "spread has 2 values"),
        ({"objective": "gaussian", "n_anchors": 2}, ROWS, "Raise n_anchors"),
    ],
)
def test_wrong_rows_are_refused(options, rows, words):
    with pytest.raises(ValueError, match=words):
        BayesianMeanEmbedding(**options).fit(rows)


def test_equal_rows_are_fine_where_nothing_is_learned():
    model = BayesianMeanEmbedding(kernels.RBF(1.0), objective=None).fit([[1.0], [1.0], [1.0]])
    np.testing.assert_allclose(model.predict([[1.0], [2.0]])[0], 1.0, rtol=1e-6)


def test_queries_are_checked():
    model = BayesianMeanEmbedding()
    assert "not fitted" in repr(model)
    with pytest.raises(RuntimeError, match="not fitted"):
        model.predict([[0.0]])
    with pytest.raises(RuntimeError, match="not fitted"):
        model.embedding()
    with pytest.raises(ValueError, match=r"q has 2 column"):
        model.fit([0.0, 1.0, 3.0]).predict([[0.0, 1.0]])
