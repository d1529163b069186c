"""Section 2: kernels, mean embeddings and covariance operators."""

import numpy as np
import oracle_kernels
import oracles
import pytest

from decond import CovarianceOperator, CrossCovarianceOperator, MeanEmbedding, features, kernels

KERNELS = [
    (kernels.RBF(lengthscale=0.7), lambda a, b: oracle_kernels.rbf(a, b, 0.7)),
    (kernels.RBF(lengthscale=[0.7, 2.0]), lambda a, b: oracle_kernels.rbf(a, b, np.array([0.7, 2.0]))),
    (kernels.Matern12(lengthscale=0.7), lambda a, b: oracle_kernels.matern12(a, b, 0.7)),
    (kernels.Matern32(lengthscale=0.7), lambda a, b: oracle_kernels.matern32(a, b, 0.7)),
    (kernels.Matern52(lengthscale=0.7), lambda a, b: oracle_kernels.matern52(a, b, 0.7)),
    (
        kernels.RationalQuadratic(lengthscale=0.7, alpha=1.9),
        lambda a, b: oracle_kernels.rational_quadratic(a, b, 0.7, 1.9),
    ),
    (kernels.Periodic(lengthscale=0.7, period=2.3), lambda a, b: oracle_kernels.periodic(a, b, 0.7, 2.3)),
    (kernels.Linear(), oracle_kernels.linear),
    (kernels.Polynomial(degree=3, offset=0.5), lambda a, b: oracle_kernels.polynomial(a, b, 3, 0.5)),
    (kernels.Categorical(), oracle_kernels.categorical),
]


@pytest.mark.parametrize(("kernel", "oracle"), KERNELS, ids=[type(kernel).__name__ for kernel, _ in KERNELS])
def test_section_2_gram_matrix(kernel, oracle, sample):
    b = np.vstack([sample.x_star, sample.x[:2]])
    np.testing.assert_allclose(kernel(sample.x, b), oracle(sample.x, b), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel.diag(b), np.diag(oracle(b, b)), rtol=1e-12)


def test_section_2_gram_matrix_is_the_inner_product_of_features(sample):
    phi = features.Polynomial(degree=3, offset=0.5)
    expected = oracle_kernels.polynomial_features(sample.x, 3, 0.5)
    np.testing.assert_allclose(phi(sample.x) @ phi(sample.x).T, expected.T @ expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        phi.kernel(variance=1.7)(sample.x, sample.x), 1.7 * expected.T @ expected, rtol=1e-12, atol=1e-12
    )


def test_section_2_empirical_mean_embedding(sample):
    Phi, Phi_star = (oracle_kernels.polynomial_features(x) for x in (sample.x, sample.x_star))
    mu = MeanEmbedding(kernels.Polynomial(degree=2), sample.x)
    np.testing.assert_allclose(mu(sample.x_star), Phi_star.T @ oracles.mean_embedding(Phi), rtol=1e-12)


def test_section_2_reproducing_property_encodes_expectations(sample):
    mu = MeanEmbedding(sample.kernel_x, sample.x)
    f = MeanEmbedding(sample.kernel_x, sample.x_star, np.array([0.3, -1.0, 2.0, 0.5, -0.7]))
    f_values = sample.k(sample.x, sample.x_star) @ f.weights
    assert mu.inner(f) == pytest.approx(f_values.mean(), rel=1e-12)
    assert mu.expectation(f) == pytest.approx(f_values.mean(), rel=1e-12)
    assert mu.expectation(f_values) == pytest.approx(f_values.mean(), rel=1e-12)


def test_section_2_evaluation_is_an_inner_product_with_the_canonical_feature(sample):
    mu = MeanEmbedding(sample.kernel_x, sample.x)
    point = MeanEmbedding(sample.kernel_x, sample.x_star[:1], np.ones(1))
    assert point.inner(mu) == pytest.approx(mu(sample.x_star[:1])[0], rel=1e-12)


def test_section_2_norm_and_distance_of_embeddings(sample):
    """|mu|^2 = w^T K w, the maximum mean discrepancy |mu - nu|, and weights that are scaled to sum to one."""
    v = np.array([0.3, -1.0, 2.0, 0.5, -0.7])
    mu = MeanEmbedding(sample.kernel_x, sample.x)
    nu = MeanEmbedding(sample.kernel_x, sample.x_star, v)
    w, K_star = np.full(sample.n, 1.0 / sample.n), sample.k(sample.x_star, sample.x_star)
    assert nu.norm() == pytest.approx(np.sqrt(v @ K_star @ v), rel=1e-12)
    squared = w @ sample.K @ w - 2.0 * w @ sample.k_star @ v + v @ K_star @ v
    assert mu.mmd(nu) == pytest.approx(np.sqrt(squared), rel=1e-12)
    assert mu.mmd(mu) == pytest.approx(0.0, abs=1e-7)
    np.testing.assert_allclose(nu.normalized().weights, v / v.sum(), rtol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
def test_section_2_covariance_operators(sample, weighted):
    weights = np.array([0.1, 0.3, -0.1, 0.2, 0.2, 0.1, 0.2]) if weighted else None
    Phi, Phi_star = (oracle_kernels.polynomial_features(x) for x in (sample.x, sample.x_star))
    Psi, Psi_star = (oracle_kernels.polynomial_features(y, 3) for y in (sample.y, sample.y_star))
    kernel_x, kernel_y = kernels.Polynomial(degree=2), kernels.Polynomial(degree=3)
    C_XY = CrossCovarianceOperator(kernel_x, kernel_y, sample.x, sample.y, weights)
    C_YY = CovarianceOperator(kernel_y, sample.y, weights)
    expected = Phi_star.T @ oracles.cross_covariance(Phi, Psi, weights) @ Psi_star
    np.testing.assert_allclose(C_XY(sample.x_star, sample.y_star), expected, rtol=1e-11)
    np.testing.assert_allclose(C_XY.T(sample.y_star, sample.x_star), expected.T, rtol=1e-11)
    np.testing.assert_allclose(
        C_YY(sample.y_star, sample.y_star),
        Psi_star.T @ oracles.covariance(Psi, weights) @ Psi_star,
        rtol=1e-11,
    )
