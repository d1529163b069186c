"""The prior on an embedding and the two pseudo-likelihoods, against plain formulas and difference quotients."""

import tracemalloc

import numpy as np
import pytest
from oracle_kernels import rbf
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from decond.embeddings.bayesian_mean import EmbeddingPrior, GaussianPseudolikelihood, PredictivePseudolikelihood

LENGTHSCALE = np.array([0.8, 12.0])
ROWS = np.random.default_rng(0).standard_normal((9, 2)) * [1.0, 20.0]
PRIORS = {"flat": EmbeddingPrior(), "normal": EmbeddingPrior(spread=[1.5, 25.0], center=np.array([0.3, -4.0]))}


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
            at_center = np.exp(-(((u - prior.center[j]) / LENGTHSCALE[j]) ** 2))
            weight = np.exp(-0.5 * score**2) / np.trapezoid(at_center * np.exp(-0.5 * score**2), u)
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


def test_functions_of_the_prior_have_the_mass_of_its_measure_as_squared_norm():
    places = np.arange(-9.0, 9.1, 0.6)[:, None]
    gram, spread = rbf(places, places, 1.0), 1.5
    mass = np.sqrt(1.0 + 2.0 * spread**2)  # of the normal measure that makes r one at the center
    normal = np.trace(np.linalg.solve(gram, EmbeddingPrior(1.0, spread=spread).covariance(places, places)))
    assert normal == pytest.approx(mass, rel=1e-4)
    norms = [
        np.trace(np.linalg.solve(gram[:m, :m], EmbeddingPrior(1.0).covariance(places[:m], places[:m])))
        for m in (11, 21, 31)
    ]
    assert norms[2] - norms[1] > 0.8 * (norms[1] - norms[0]) > 1.0  # flat: grows with the region, without end


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
    x = np.random.default_rng(3).standard_normal((30, 1))
    values = [
        GaussianPseudolikelihood(x, x[:10], 1.0 / scale)(np.array([scale]))[0] for scale in (1e1, 1e2, 1e3, 1e4)
    ]
    assert np.all(np.diff(values) > 100.0)


def test_rows_far_from_zero_lose_no_digits():
    shifted = ROWS + 2.0**30
    value, slope = PredictivePseudolikelihood(shifted)(LENGTHSCALE)
    expected, expected_slope = PredictivePseudolikelihood(shifted - 2.0**30)(LENGTHSCALE)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-12)


def test_memory_of_the_predictive_pseudolikelihood_does_not_grow_with_columns():
    peaks = []
    for columns in (2, 40):
        x = np.random.default_rng(0).standard_normal((300, columns))
        tracemalloc.start()
        PredictivePseudolikelihood(x)(np.ones(columns))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
