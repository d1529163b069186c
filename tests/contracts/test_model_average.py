"""Stacking weights against numerical integration, and averages of candidates against plain NumPy."""

import numpy as np
import pytest
from oracles import leave_one_out
from scipy.stats import norm

from decond import kernels
from decond.gp import (
    Candidate,
    Direct,
    FunctionPrior,
    HyperparameterSample,
    MixturePosterior,
    Model,
    ModelAverage,
    condition,
    stacking_weights,
)

RNG = np.random.default_rng(0)
X = np.linspace(0, 6, 15)[:, None]
Z = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(15)
MODEL = Model(FunctionPrior(1.0 * kernels.RBF(1.0)), Direct(X, noise=0.1))
LENGTHSCALE = "prior.kernel.kernel.lengthscale"
X_NEW = np.array([[0.3], [2.0], [7.0]])


def candidate(name, lengthscales, weights):
    values = tuple({LENGTHSCALE: value, "observation.noise": 0.2} for value in lengthscales)
    return Candidate.of(name, MODEL, HyperparameterSample(values, np.array(weights)))


GOOD, POOR = candidate("good", [1.0, 2.0], [0.7, 0.3]), candidate("poor", [0.05], [1.0])


@pytest.mark.parametrize("lead", [0.0, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("count", [3, 40])
def test_two_weights_are_posterior_means_over_the_simplex(lead, count):
    """E[w | z] with the likelihood Π_j (w p_1j + (1 - w) p_2j) and w uniform, on a fine grid."""
    logs = np.random.default_rng(count).standard_normal((2, count))
    logs[0] += lead
    grid = (np.arange(20_000) + 0.5) / 20_000
    likelihood = np.log(np.outer(grid, np.exp(logs[0])) + np.outer(1.0 - grid, np.exp(logs[1]))).sum(axis=1)
    likelihood = np.exp(likelihood - likelihood.max())
    expected = (grid @ likelihood) / likelihood.sum()
    np.testing.assert_allclose(stacking_weights(logs), [expected, 1.0 - expected], atol=0.01)


def test_the_order_of_candidates_does_not_matter():
    logs = np.random.default_rng(1).standard_normal((3, 30)) + np.array([[0.0], [0.4], [0.8]])
    weights = stacking_weights(logs)
    assert weights.sum() == pytest.approx(1.0)
    order = [2, 0, 1]
    np.testing.assert_allclose(stacking_weights(logs[order]), weights[order], atol=0.03)  # from 4096 draws


def test_densities_of_any_size_have_weights():
    np.testing.assert_allclose(stacking_weights(np.array([[-5000.0] * 9, [-9000.0] * 9])).sum(), 1.0)
    assert stacking_weights(np.array([[0.0] * 60, [-50.0] * 60]))[0] > 0.98
    shifted = stacking_weights(np.array([[1.0, 2.0], [0.5, 2.5]]) - [700.0, -700.0])
    np.testing.assert_allclose(shifted, stacking_weights(np.array([[1.0, 2.0], [0.5, 2.5]])), rtol=1e-10)


def parts_of(*candidates):
    return [part for one in candidates for part in one.parts(Z)]


def test_a_candidate_is_a_mixture_over_its_hyperparameters():
    average = ModelAverage.stacked([GOOD], Z)
    posterior = average.posterior()
    expected = MixturePosterior(parts_of(GOOD), [0.7, 0.3])
    np.testing.assert_array_equal(posterior.mean(X_NEW), expected.mean(X_NEW))
    np.testing.assert_array_equal(posterior.variance(X_NEW), expected.variance(X_NEW))
    direct = condition(FunctionPrior(1.0 * kernels.RBF(2.0)), Direct(X, noise=0.2), Z)
    np.testing.assert_allclose(parts_of(GOOD)[1].mean(X_NEW), direct.mean(X_NEW), rtol=1e-12)


def left_out_density(lengthscale):
    K = np.exp(-0.5 * (X - X.T) ** 2 / lengthscale**2)
    mean, variance = leave_one_out(K, np.eye(15), 0.04 * np.eye(15), Z)
    return mean, variance, norm.pdf(Z, mean, np.sqrt(variance))


def test_weights_are_those_of_leave_one_out_densities():
    average = ModelAverage.stacked([GOOD, POOR], Z, threshold=0.0)
    one, two, poor = (left_out_density(length) for length in (1.0, 2.0, 0.05))
    densities = [0.7 * one[2] + 0.3 * two[2], poor[2]]
    np.testing.assert_allclose(average.weights, stacking_weights(np.log(densities)), rtol=1e-8)
    found = average.leave_one_out(average.posterior())
    weights = average.weights @ np.array([[0.7, 0.3, 0.0], [0.0, 0.0, 1.0]])
    mean = weights @ [one[0], two[0], poor[0]]
    second = weights @ [view[1] + view[0] ** 2 for view in (one, two, poor)]
    np.testing.assert_allclose(found.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(found.variance, second - mean**2, rtol=1e-8)
    np.testing.assert_allclose(found.log_density, np.log(average.weights @ densities), rtol=1e-8)


def test_the_posterior_is_a_mixture_over_candidates_and_their_hyperparameters():
    average = ModelAverage((GOOD, POOR), np.array([0.4, 0.6]), Z)
    expected = MixturePosterior(parts_of(GOOD, POOR), [0.28, 0.12, 0.6])
    np.testing.assert_allclose(average.posterior().mean(X_NEW), expected.mean(X_NEW), rtol=1e-12)
    np.testing.assert_allclose(average.posterior().variance(X_NEW), expected.variance(X_NEW), rtol=1e-12)


def test_candidates_below_the_threshold_are_dropped_and_named():
    full = ModelAverage.stacked([GOOD, POOR], Z, threshold=0.0)
    assert full.weights[1] < 0.2
    average = ModelAverage.stacked([GOOD, POOR], Z, threshold=0.2)
    assert [one.name for one in average.candidates] == ["good"]
    np.testing.assert_array_equal(average.weights, [1.0])
    assert average.dropped == {"poor": pytest.approx(full.weights[1])}
    assert [name for name, _ in average.table()] == ["good", "poor"]


def test_medians_are_weighted():
    three = candidate("three", [1.0, 4.0, 2.0], [0.2, 0.3, 0.5])
    assert three.medians()[LENGTHSCALE] == 2.0
    average = ModelAverage((three, POOR), np.array([0.4, 0.6]), Z)
    assert average.median(LENGTHSCALE) == 0.05
    assert average.median("prior.kernel.variance") == 1.0  # not learned
    assert average.best.prior.kernel.kernel.lengthscale == 0.05


def test_state_is_plain_data_that_gives_the_same_answers():
    average = ModelAverage.stacked([GOOD, POOR], Z, threshold=0.0)
    state = average.state()
    assert not any(isinstance(value, tuple) for value in state.values())
    again = ModelAverage.from_state(state)
    np.testing.assert_array_equal(again.posterior().mean(X_NEW), average.posterior().mean(X_NEW))
    assert again.table() == average.table()
