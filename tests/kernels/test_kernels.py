"""Kernels against scalar loops, their composition, labels, and spectral sampling."""

import numpy as np
import oracle_kernels
import pandas as pd
import pytest

from decond import features, kernels

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((7, 2)), RNG.standard_normal((5, 2))


def test_composition_is_that_of_the_gram_matrices():
    k1, k2 = kernels.RBF(0.7), kernels.Matern32(1.2)
    np.testing.assert_allclose((2.0 * k1 + k2)(A, B), 2.0 * k1(A, B) + k2(A, B), rtol=1e-14)
    np.testing.assert_allclose((k1 * k2 * 3)(A, B), 3.0 * k1(A, B) * k2(A, B), rtol=1e-14)
    np.testing.assert_allclose((1.0 + k1)(A, B), k1(A, B) + 1.0, rtol=1e-14)
    np.testing.assert_allclose((np.float64(2.0) * k1)(A, B), 2.0 * k1(A, B), rtol=1e-14)
    np.testing.assert_allclose((k1**2)(A, B), k1(A, B) ** 2, rtol=1e-14)
    np.testing.assert_allclose(k1.on([1])(A, B), k1(A[:, [1]], B[:, [1]]), rtol=1e-14)
    np.testing.assert_allclose(k1.on(1)(A, B), k1.on([1])(A, B), rtol=1e-14)


def test_labels_go_with_numbers_in_one_frame():
    frame = pd.DataFrame({"day": ["mon", "tue", "mon"], "hour": [1.0, 2.0, 3.0]})
    mixed = kernels.Categorical().on([0]) * kernels.RBF().on([1])
    expected = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]]) * kernels.RBF()(frame[["hour"]])
    np.testing.assert_allclose(mixed(frame), expected, rtol=1e-14)
    np.testing.assert_allclose(mixed.diag(frame), np.ones(3))


def test_white_noise_is_the_same_in_blocks():
    x = np.array([[0.0], [1.0], [0.0]])
    np.testing.assert_array_equal(kernels.White(0.5)(x), 0.5 * (x == x.T))
    np.testing.assert_array_equal(kernels.White(0.5)(x[:1], x), [[0.5, 0.0, 0.5]])


def test_lines_through_another_point_than_zero():
    center, lengthscale = np.array([3.0, -700.0]), np.array([0.5, 2.0])
    kernel = kernels.Linear(lengthscale, center)
    expected = oracle_kernels.linear((A - center) / lengthscale, (B - center) / lengthscale)
    np.testing.assert_allclose(kernel(A, B), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(A), np.diag(kernel(A)), rtol=1e-14)
    np.testing.assert_array_equal(kernel([center]), [[0.0]])
    assert not kernel.center.flags.writeable
    adjoint = np.random.default_rng(1).standard_normal((7, 5))
    pulled = kernel.pullback(A, B, adjoint)
    for i, slope in enumerate(pulled.parameters["lengthscale"]):
        step = 1e-6 * np.eye(2)[i]
        ends = [kernels.Linear(lengthscale + sign * step, center)(A, B) for sign in (1.0, -1.0)]
        assert slope == pytest.approx((adjoint * (ends[0] - ends[1])).sum() / 2e-6, rel=1e-6)
    np.testing.assert_allclose(pulled.a, adjoint @ ((B - center) / lengthscale**2), rtol=1e-10)
    assert set(pulled.parameters) == {"lengthscale"}  # the center is data


def test_precomputed_gram_is_looked_up():
    gram = kernels.RBF()(A)
    kernel = kernels.Precomputed(gram)
    np.testing.assert_array_equal(kernel([0, 3], [1, 2, 3]), gram[[0, 3]][:, [1, 2, 3]])
    np.testing.assert_array_equal(kernel.diag([2, 4]), np.ones(2))


def test_kernels_are_frozen():
    with pytest.raises(AttributeError):
        kernels.RBF().lengthscale = 2.0


STATIONARY = {
    "rbf": kernels.RBF([0.8, 1.5]),
    "matern12": kernels.Matern12(1.5),
    "matern32": kernels.Matern32([0.8, 1.5]),
    "matern52": kernels.Matern52(1.1),
    "rational quadratic": kernels.RationalQuadratic(1.1, alpha=0.7),
    "periodic": kernels.Periodic([1.3, 0.6], period=[2.0, 3.0]),
    "scaled": 2.3 * kernels.RBF(0.9),
    "product": kernels.RBF(0.9) * kernels.Matern32(1.4),
    "power": kernels.Matern52(1.4) ** 2,
    "sum": 2.0 * kernels.RBF(0.9) + 0.5 * kernels.Matern32(0.4),
    "columns": kernels.RBF(0.9).on([0]) * kernels.Periodic(0.9).on([1]),
}


@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("name", list(STATIONARY))
def test_spectral_samples_reproduce_the_kernel(name, orthogonal):
    """Monte Carlo with 160,000 frequencies: the standard error of an entry is below 0.0018 times k(0)."""
    kernel = STATIONARY[name]
    estimate = features.RandomFourier(kernel, 160_000, seed=1, orthogonal=orthogonal).kernel()(A, B)
    np.testing.assert_allclose(estimate, kernel(A, B), atol=0.0075 * kernel.diag(A[:1]).item())


def test_orthogonal_frequencies_lower_the_error():
    x = np.random.default_rng(1).standard_normal((40, 8))
    kernel = kernels.RBF(3.0)

    def error(orthogonal):
        maps = [features.RandomFourier(kernel, 32, seed=seed, orthogonal=orthogonal) for seed in range(30)]
        return np.mean([np.abs(phi.kernel()(x) - kernel(x)).mean() for phi in maps])

    assert error(True) < 0.9 * error(False)


def test_fourier_features_repeat_with_the_seed_and_scale_with_the_lengthscale():
    phi = features.RandomFourier(kernels.RBF(1.0), 5, seed=3)
    np.testing.assert_array_equal(phi(A), features.RandomFourier(kernels.RBF(1.0), 5, seed=3)(A))
    np.testing.assert_allclose(features.RandomFourier(kernels.RBF(2.0), 5, seed=3)(2.0 * A), phi(A), rtol=1e-12)
    assert not np.allclose(features.RandomFourier(kernels.RBF(1.0), 5, seed=4)(A), phi(A))


def test_nystrom_is_exact_at_landmarks_and_pivots_are_chosen_well():
    x = np.random.default_rng(2).standard_normal((200, 2))
    kernel = kernels.RBF(0.8)
    phi = features.Nystrom.pivoted(kernel, x, n_landmarks=40)
    np.testing.assert_allclose(phi.kernel()(phi.landmarks, x), kernel(phi.landmarks, x), atol=1e-7)
    chosen = np.trace(kernel(x) - phi.kernel()(x))
    random = np.trace(kernel(x) - features.Nystrom(kernel, x[:40]).kernel()(x))
    assert chosen < 0.3 * random


def test_nystrom_stops_when_nothing_is_left_to_explain():
    x = np.repeat(np.array([[0.0], [1.0], [2.0]]), 5, axis=0)
    assert len(features.Nystrom.pivoted(kernels.RBF(), x, n_landmarks=10).landmarks) == 3


def test_polynomial_features_are_those_of_the_kernel():
    for degree in (1, 2, 3):
        phi = features.Polynomial(degree, offset=0.7)
        np.testing.assert_allclose(phi.kernel()(A, B), kernels.Polynomial(degree, 0.7)(A, B), rtol=1e-12)


def test_median_heuristic():
    x = np.array([[0.0, 5.0], [1.0, 5.0], [3.0, 5.0], [0.0, 5.0]])
    assert kernels.median_heuristic(x) == np.median(
        [1.0, 3.0, 2.0, 1.0, 3.0]
    )  # the repeated row at zero does not count
    np.testing.assert_allclose(kernels.median_heuristic(x, per_column=True), [2.0, 1.0])
    assert kernels.median_heuristic([[1.0], [1.0]]) == 1.0
    many = np.random.default_rng(0).standard_normal((5000, 1))
    assert kernels.median_heuristic(many, seed=1) == pytest.approx(0.954, abs=0.06)  # √2 times the normal median
