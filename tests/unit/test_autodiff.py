"""Tiles, padding and compilation of the gradient code."""

import jax
import numpy as np
import pytest

from decond import autodiff, kernels
from decond.autodiff import distances, pullbacks, tiles
from decond.gp import FunctionPrior, TaskTransformed, log_evidence_and_gradient

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _same_draws():
    """Each test draws the same numbers, whatever ran before it."""
    RNG.bit_generator.state = np.random.default_rng(1).bit_generator.state


def test_tiles_add_up():
    n, m = tiles.SIDES[-1] + 19, tiles.SIDES[-1] + 11  # two tiles each way
    a, b, adjoint = RNG.standard_normal((n, 2)), RNG.standard_normal((m, 2)), RNG.standard_normal((n, m))
    kernel = 1.3 * kernels.Matern52([0.7, 1.1])
    pulled = autodiff.gram_pullback(kernel, a, b, adjoint)
    step = 1e-6
    for path, value in (("variance", 1.3), ("kernel.lengthscale", np.array([0.7, 1.1]))):
        for index in np.ndindex(np.shape(value)):
            shift = np.zeros(np.shape(value))
            shift[index] = step
            ends = []
            for sign in (1, -1):
                moved = {"variance": 1.3, "kernel.lengthscale": np.array([0.7, 1.1])}
                moved[path] = moved[path] + sign * shift
                ends.append(
                    (adjoint * (moved["variance"] * kernels.Matern52(moved["kernel.lengthscale"]))(a, b)).sum()
                )
            slope = (ends[0] - ends[1]) / (2 * step)
            np.testing.assert_allclose(np.asarray(pulled.parameters[path])[index], slope, rtol=1e-6)
    whole = RNG.standard_normal((n, n))
    whole += whole.T
    full, half = autodiff.gram_pullback(kernel, a, a, whole), autodiff.symmetric_gram_pullback(kernel, a, whole)
    np.testing.assert_allclose(half.a + half.b, full.a + full.b, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(half.parameters["variance"], full.parameters["variance"], rtol=1e-10)


def test_lower_triangle_of_several_tiles_stands_for_the_whole():
    points, adjoint = RNG.standard_normal((600, 2)), RNG.standard_normal((600, 600))
    adjoint += adjoint.T
    kernel = 1.3 * kernels.Matern52([0.7, 1.1])
    whole = autodiff.gram_pullback(kernel, points, points, adjoint)
    half = autodiff.symmetric_gram_pullback(kernel, points, np.tril(adjoint))
    for path, value in whole.parameters.items():
        np.testing.assert_allclose(half.parameters[path], value, rtol=1e-10)
    np.testing.assert_allclose(half.a + half.b, whole.a + whole.b, rtol=1e-9, atol=1e-10)


def test_points_that_nobody_asked_for_are_left_at_zero():
    a, b, adjoint = RNG.standard_normal((20, 2)), RNG.standard_normal((30, 2)), RNG.standard_normal((20, 30))
    kernel = 1.3 * kernels.Matern52([0.7, 1.1])
    whole, part = (autodiff.gram_pullback(kernel, a, b, adjoint, points=points) for points in (True, False))
    for path, value in whole.parameters.items():
        np.testing.assert_allclose(part.parameters[path], value, rtol=1e-12)
    assert whole.a.any()
    assert whole.b.any()
    assert not part.a.any()
    assert not part.b.any()


def evaluate(n, m, lengthscale=1.0):
    x, y, y_task = RNG.standard_normal((n, 2)), RNG.standard_normal((n, 1)), RNG.standard_normal((m, 1))
    observation = TaskTransformed(x, y, y_task, kernels.Matern32(lengthscale), noise=0.3)
    return log_evidence_and_gradient(
        FunctionPrior(1.5 * kernels.RBF(lengthscale)), observation, RNG.standard_normal(m)
    )


def test_gradients_compile_for_structures_not_for_sizes():
    gradient = pullbacks._gram_gradient(False)
    evaluate(20, 30)
    evaluate(20, 70)
    evaluate(70, 20)
    evaluate(70, 70)
    compiled = gradient._cache_size()
    assert compiled >= 1
    for n in range(17, 64, 5):
        evaluate(n, 80 - n, lengthscale=0.5 + n / 100)
        evaluate(n + 48, n, lengthscale=0.5 + n / 100)
    assert gradient._cache_size() == compiled


def test_results_are_float64_and_the_flag_is_left_alone():
    before = jax.config.jax_enable_x64
    value, gradient = evaluate(5, 6)
    assert jax.config.jax_enable_x64 == before
    assert isinstance(value, float)
    assert all(np.asarray(slope).dtype == np.float64 for slope in gradient.values())


def test_labels_are_coded_for_jax():
    a, b = np.array([["x", 1.5], ["y", 2.5]], dtype=object), np.array([["y", 0.5]], dtype=object)
    kernel = 1.4 * (kernels.Categorical().on([0]) * kernels.RBF(0.9).on([1]))
    adjoint = np.array([[0.3], [0.7]])
    pulled = autodiff.gram_pullback(kernel, a, b, adjoint)
    assert pulled.parameters["variance"] == pytest.approx(0.7 * np.exp(-0.5 * (2.0 / 0.9) ** 2))


@pytest.mark.parametrize("tile", [(4, 8), (16, 64)])
def test_many_rows_in_tiles_of_a_given_size(tile):
    a, rows, adjoint = RNG.standard_normal((11, 2)), RNG.standard_normal((45, 2)), RNG.standard_normal((11, 45))
    for kernel in (1.3 * kernels.Matern52([0.7, 1.1]), 0.8 * kernels.RBF(0.9) + kernels.Linear([1.0, 2.0])):
        stack = autodiff.gram_above(kernel, a, rows, adjoint[:2], 64)
        np.testing.assert_allclose(stack[:11, :45], kernel.gram(a, rows), rtol=1e-13, atol=1e-14)
        np.testing.assert_array_equal(stack[11:, :45], adjoint[:2])
        assert stack.shape == (13, 64)
        np.testing.assert_array_equal(stack[:, 45:], 0.0)
        parameters, points = autodiff.rows_pullback(kernel, a, rows, adjoint, tile)
        expected = autodiff.gram_pullback(kernel, a, rows, adjoint)
        assert set(parameters) == set(expected.parameters)
        for path, bar in expected.parameters.items():
            np.testing.assert_allclose(parameters[path], bar, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(points, expected.a, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("reach", [1.0, 100.0])  # within the reach of products, and beyond it
@pytest.mark.parametrize("lengthscale", [0.5, [0.4, 0.7]])
def test_slopes_of_lengthscales_in_tiles_of_many_rows(reach, lengthscale):
    tile = (64, distances.MANY_ROWS)
    a, rows = RNG.uniform(-reach, reach, (64, 2)), RNG.uniform(-reach, reach, (tile[1], 2))
    adjoint = RNG.standard_normal(tile)
    parameters, _ = autodiff.rows_pullback(kernels.RBF(lengthscale), a, rows, adjoint, tile)
    scaled = ((a[:, None] - rows).astype(np.longdouble) / lengthscale) ** 2
    terms = adjoint[..., None] * np.exp(-0.5 * scaled.sum(axis=2))[..., None] * scaled / lengthscale
    expected = terms.sum() if np.ndim(lengthscale) == 0 else terms.sum(axis=(0, 1))
    error = np.abs(parameters["lengthscale"] - expected) / np.abs(terms).sum(axis=(0, 1)).min()
    assert error.max() < 1e-14
