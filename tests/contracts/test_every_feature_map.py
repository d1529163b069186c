"""What every feature map must satisfy."""

import numpy as np
import pytest
from expected import refused

from decond import ConditionalMeanOperator, features, kernels
from decond.errors import ArgumentTypeError
from decond.parameters import leaves, parameter, positive, with_leaves


def test_features_are_rows_of_floats(feature_map, points):
    features = feature_map(points)
    assert features.shape[0] == len(points)
    assert features.dtype == np.float64


def test_each_point_is_mapped_by_itself(feature_map, points):
    one_by_one = np.concatenate([feature_map(points[[i]]) for i in range(len(points))])
    np.testing.assert_allclose(one_by_one, feature_map(points), rtol=1e-13, atol=1e-15)


def test_kernel_is_the_scaled_inner_product(feature_map, points):
    features = feature_map(points)
    np.testing.assert_allclose(
        feature_map.kernel(2.0)(points, points[:3]), 2.0 * features @ features[:3].T, rtol=1e-13, atol=1e-14
    )


def test_operators_take_a_feature_map_for_a_kernel(feature_map, points):
    x = np.arange(len(points), dtype=float)
    by_features = ConditionalMeanOperator(feature_map, feature_map, 0.1).fit(points, points)
    gram = feature_map.kernel()(points)
    expected = np.linalg.solve(gram + len(points) * 0.1 * np.eye(len(points)), gram[:, :2])
    np.testing.assert_allclose(by_features.weights(points[:2]), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(by_features.expectation(x, points[:2]), x @ expected, rtol=1e-9, atol=1e-11)


class OwnFeatures(features.FeatureMap):
    """Features without a derivative."""

    width: float = parameter(default=1.5, constraint=positive)

    def transform(self, a):
        return np.hstack([np.tanh(a / self.width), self.width * a**2])


def test_gradient_equals_central_differences(feature_map, points):
    check_pullback(feature_map, points)


def test_features_of_the_user_need_no_derivative(points):
    check_pullback(OwnFeatures(), points)


def check_pullback(feature_map, points, step=1e-6):
    adjoint = np.random.default_rng(1).standard_normal(feature_map(points).shape)
    slopes, rows_bar = feature_map.pullback(points, adjoint)

    def difference(above, below):
        return (adjoint * (above - below)).sum() / (2.0 * step)

    assert set(slopes) == set(leaves(feature_map))
    for path, value in leaves(feature_map).items():
        for index in np.ndindex(np.shape(value)):
            shift = np.zeros(np.shape(value))
            shift[index] = step
            ends = [with_leaves(feature_map, {path: value + moved}).transform(points) for moved in (shift, -shift)]
            assert np.asarray(slopes[path])[index] == pytest.approx(difference(*ends), rel=1e-6, abs=1e-8)
    for index in np.ndindex(points.shape):
        shift = np.zeros(points.shape)
        shift[index] = step
        ends = [feature_map.transform(points + moved) for moved in (shift, -shift)]
        assert rows_bar[index] == pytest.approx(difference(*ends), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize(
    "kernel", [kernels.RationalQuadratic(), kernels.Periodic(), 2.0 * kernels.RBF() + kernels.RBF()]
)
def test_frequencies_that_are_drawn_at_a_parameter_have_no_gradient(kernel, points):
    phi = features.RandomFourier(kernel, 5)
    with refused("kernel", ArgumentTypeError):
        phi.pullback(points, np.ones((len(points), 10)))


def test_nystrom_features_give_the_kernel_at_landmarks_and_the_projection_elsewhere(points):
    kernel, landmarks = kernels.Matern32(0.8), points[:3]
    phi = features.Nystrom(kernel, landmarks)
    np.testing.assert_allclose(phi.kernel()(landmarks, points), kernel(landmarks, points), rtol=1e-8, atol=1e-9)
    cross = kernel(landmarks, points)
    expected = cross.T @ np.linalg.solve(kernel(landmarks), cross)
    np.testing.assert_allclose(phi.kernel()(points), expected, rtol=1e-8, atol=1e-9)
