"""Deviations, intervals and densities of new measurements, for every estimator with error bars."""

import warnings

import numpy as np
import pytest
from expected import refused
from scipy.stats import norm

from decond import AggregateGP, SparseGP, TaskTransformedGP, kernels
from decond.errors import ResolutionWarning
from decond.estimators import DirectGP, TaskTransformedFeatures

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 6, (60, 1))
Z = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(60)
QUERY = np.array([[1.0], [3.0], [20.0]])
KERNEL = kernels.RBF(1.0)
MODELS = {
    "direct": lambda: DirectGP(KERNEL, noise=0.3, optimize=False).fit(X, Z),
    "sparse": lambda: SparseGP(inducing=X[:9], kernel=KERNEL, noise=0.3, optimize=False).fit(X, Z),
    "task": lambda: TaskTransformedGP(KERNEL, KERNEL, noise=0.02, optimize=False).fit(X, X, X, Z),
    "groups": lambda: AggregateGP(KERNEL, noise=0.02, optimize=False).fit(X, np.arange(60) // 2, Z[::2]),
    "features": lambda: TaskTransformedFeatures(n_features=20).fit(X, X, X, Z),
}


@pytest.fixture(scope="module", params=list(MODELS))
def gp(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResolutionWarning)
        return MODELS[request.param]()


def test_noise_is_added_to_the_variance_of_f(gp):
    mean, std = gp.predict(QUERY, return_std=True)
    noisy_mean, noisy = gp.predict(QUERY, return_std=True, include_noise=True)
    np.testing.assert_array_equal(noisy_mean, mean)
    np.testing.assert_allclose(noisy**2 - std**2, gp.noise_**2, rtol=1e-9)
    covariances = [gp.predict(QUERY, return_cov=True, include_noise=noise)[1] for noise in (False, True)]
    np.testing.assert_allclose(covariances[1] - covariances[0], gp.noise_**2 * np.eye(3), rtol=1e-9, atol=1e-12)


def test_intervals_and_densities_are_those_of_a_normal_distribution(gp):
    mean, noisy = gp.predict(QUERY, return_std=True, include_noise=True)
    for ends, deviation in (
        (gp.predict_interval(QUERY, level=0.8), noisy),
        (gp.predict_interval(QUERY, level=0.8, include_noise=False), gp.predict(QUERY, return_std=True)[1]),
    ):
        np.testing.assert_allclose(ends, norm.interval(0.8, mean, deviation), rtol=1e-9)
    measured = np.array([0.5, -0.2, 1.0])
    expected = norm.logpdf(measured, mean, noisy).mean()
    assert gp.score_log_density(QUERY, measured) == pytest.approx(expected, rel=1e-12)


def test_each_target_column_has_its_own_noise():
    gp = SparseGP(n_inducing=10, max_iterations=10).fit(X, np.column_stack([Z, 100.0 * Z]))
    lower, upper = gp.predict_interval(QUERY)
    np.testing.assert_allclose((upper - lower)[:, 1], 100.0 * (upper - lower)[:, 0], rtol=1e-6)
    with refused("z"):
        gp.score_log_density(QUERY, [0.0, 0.0, 0.0])


@pytest.mark.parametrize("level", [0.0, 1.0, 95, np.nan])
def test_a_level_is_a_probability(level):
    with refused("level"):
        MODELS["direct"]().predict_interval(QUERY, level=level)
