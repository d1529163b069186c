"""Mixtures of posteriors against plain NumPy."""

import numpy as np
import oracles
import pytest

from decond import kernels
from decond.gp import Direct, FunctionPrior, MixturePosterior, condition
from decond.gp.posteriors import ChunkSettings

RNG = np.random.default_rng(0)
X, X_NEW = RNG.standard_normal((11, 2)), RNG.standard_normal((4, 2))


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
