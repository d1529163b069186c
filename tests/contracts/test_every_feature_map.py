"""What every feature map must satisfy."""

import numpy as np

from decond import ConditionalMeanOperator


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
