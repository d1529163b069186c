"""Section 5 on tables of any length: Theorem 5.3, part 1, from sums over the rows of both tables alone."""

import numpy as np
import oracles
import pytest

from decond import features, kernels
from decond.streaming import FeatureModel, Table, Tables

SIGMA, BETA, GAMMA = 0.4, 1.5, 0.7


@pytest.fixture(params=["full", "map"])
def mediator(request):
    return request.param


@pytest.fixture(params=["polynomial", "fourier", "landmarks"])
def maps(request, sample):
    return {
        "polynomial": (features.Polynomial(2), features.Polynomial(3)),
        "fourier": (features.RandomFourier(kernels.RBF(0.8), 4), features.RandomFourier(kernels.Matern52(1.3), 3, 1)),
        "landmarks": (
            features.Nystrom(kernels.RBF(0.8), sample.x[:5]),
            features.Nystrom(kernels.Matern52(1.3), sample.y[:4]),
        ),
    }[request.param]


def model_of(maps, mediator):
    return FeatureModel(*maps, noise=SIGMA, variance_x=GAMMA**2, variance_y=BETA**2, mediator=mediator)


def sums_of(model, sample, z):
    return model.statistics(Tables(Table(sample.x, sample.y), Table(sample.y_tilde, z)))


def linear_model(maps, mediator, sample):
    """Phi, M and Sigma of the paper, from all rows."""
    phi, psi = maps
    M, Sigma = oracles.ttblr(psi(sample.y).T, psi(sample.y_tilde).T, SIGMA, BETA)
    return phi(sample.x).T, M, Sigma if mediator == "full" else oracles.map_noise(sample.m, SIGMA)


def test_theorem_5_3_part_1_evidence_from_sums(sample, maps, mediator):
    model = model_of(maps, mediator)
    expected = oracles.tblr_evidence(*linear_model(maps, mediator, sample), sample.z, GAMMA)
    assert model.log_evidence(sums_of(model, sample, sample.z)) == pytest.approx(expected, rel=1e-9)
    tables = Tables(Table(sample.x, sample.y), Table(sample.y_tilde, sample.z))
    assert model.log_evidence(tables) == pytest.approx(expected, rel=1e-9)


def test_theorem_5_3_part_1_weights_from_sums(sample, maps, mediator):
    model = model_of(maps, mediator)
    posterior = model.condition(sums_of(model, sample, sample.z), columns=sample.x.shape[1])
    mean, covariance = oracles.tblr_posterior(*linear_model(maps, mediator, sample), sample.z, GAMMA)
    np.testing.assert_allclose(posterior.weights, mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(posterior.weight_covariance, covariance, rtol=1e-7, atol=1e-10)


def test_theorem_5_3_part_1_predictions_from_sums(sample, maps, mediator):
    """Landmarks leave a part of the kernel open, which stays as uncertain as before."""
    phi, _ = maps
    model = model_of(maps, mediator)
    posterior = model.condition(sums_of(model, sample, sample.z), columns=sample.x.shape[1])
    star = phi(sample.x_star).T
    mean, covariance = oracles.tblr_predictive(*linear_model(maps, mediator, sample), sample.z, star, GAMMA)
    if isinstance(phi, features.Nystrom):
        covariance = covariance + GAMMA**2 * (sample.k(sample.x_star, sample.x_star) - star.T @ star)
    np.testing.assert_allclose(posterior.mean(sample.x_star), mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(posterior.covariance(sample.x_star), covariance, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(posterior.variance(sample.x_star), np.diag(covariance), rtol=1e-7, atol=1e-9)


def test_several_targets_share_the_covariance_of_the_weights(sample, maps, mediator):
    model = model_of(maps, mediator)
    z = np.column_stack([sample.z, sample.z**2])
    both = model.condition(sums_of(model, sample, z), columns=sample.x.shape[1], flat=False)
    each = [model.condition(sums_of(model, sample, column), columns=sample.x.shape[1]) for column in z.T]
    np.testing.assert_allclose(both.weights, np.column_stack([one.weights for one in each]), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(both.weight_covariance, each[0].weight_covariance, rtol=1e-9, atol=1e-12)
    assert both.log_evidence == pytest.approx(sum(one.log_evidence for one in each), rel=1e-10)
