"""What every kernel must satisfy, whatever it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from expected import refused

from decond.autodiff import gram_pullback, symmetric_gram_pullback
from decond.parameters import flatten, leaves, unflatten, with_leaves


def central_difference(function, value, step=1e-6):
    value = np.asarray(value, dtype=float)
    gradient = np.empty(value.shape)
    for index in np.ndindex(value.shape):
        ends = []
        for sign in (1.0, -1.0):
            moved = value.copy()
            moved[index] += sign * step
            ends.append(function(moved))
        gradient[index] = (ends[0] - ends[1]) / (2.0 * step)
    return gradient


def test_gram_is_symmetric_and_positive_semidefinite(kernel, points):
    gram = kernel(points)
    np.testing.assert_array_equal(gram, kernel(points, points))
    np.testing.assert_allclose(gram, gram.T, rtol=1e-14, atol=1e-14)
    assert np.linalg.eigvalsh(gram).min() > -1e-10 * np.trace(gram)


def test_diagonal_is_that_of_the_gram_matrix(kernel, points):
    np.testing.assert_allclose(kernel.diag(points), np.diag(kernel(points)), rtol=1e-13)


def test_result_is_float64_numpy_whatever_goes_in(kernel, points):
    expected = kernel(points, points[:4])
    with jax.enable_x64(True):
        wide = jnp.asarray(points)
    for given in (points.tolist(), pd.DataFrame(points, columns=list("abc")), wide):
        result = kernel(given, points[:4])
        assert type(result) is np.ndarray
        assert result.dtype == np.float64
        np.testing.assert_array_equal(result, expected)


def test_blocked_product_equals_the_whole(kernel, points, monkeypatch):
    v = np.random.default_rng(0).standard_normal((len(points), 2))
    expected = kernel(points[:7], points) @ v
    seen = []
    original = type(kernel).gram

    def counted(self, a, b):
        if self is kernel:
            seen.append(len(a) * len(b))
        return original(self, a, b)

    monkeypatch.setattr(type(kernel), "gram", counted)
    np.testing.assert_allclose(
        kernel.matmul(points[:7], points, v, block_entries=20), expected, rtol=1e-12, atol=1e-13
    )
    assert max(seen) <= 20
    assert kernel.matmul(points[:7], points, v[:, 0]).shape == (7,)


def test_traced_values_equal_numpy_values(kernel, points):
    parameters, constants, structure = flatten(kernel)

    def gram(parameters, a, b):
        rebuilt = unflatten(structure, parameters, constants)
        return rebuilt.gram(a, b), rebuilt.diagonal(a)

    with jax.enable_x64(True):
        traced, diagonal = jax.jit(gram)(parameters, points[:5], points)
    np.testing.assert_allclose(traced, kernel.gram(points[:5], points), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(diagonal, kernel.diagonal(points[:5]), rtol=1e-12)


def test_gradient_with_respect_to_parameters(kernel, points):
    adjoint = np.random.default_rng(1).standard_normal((len(points), 5))
    pulled = gram_pullback(kernel, points, points[:5], adjoint)
    assert set(pulled.parameters) == set(leaves(kernel))
    for path, value in leaves(kernel).items():

        def objective(moved, path=path):
            return (adjoint * with_leaves(kernel, {path: moved}).gram(points, points[:5])).sum()

        expected = central_difference(objective, value)
        np.testing.assert_allclose(pulled.parameters[path], expected, rtol=1e-6, atol=1e-7)


def test_gradient_with_respect_to_points(kernel, points):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((6, 3)), rng.standard_normal((4, 3))  # apart: a kernel may have a kink at zero
    adjoint = rng.standard_normal((6, 4))
    pulled = gram_pullback(kernel, a, b, adjoint)
    np.testing.assert_allclose(
        pulled.a,
        central_difference(lambda moved: (adjoint * kernel.gram(moved, b)).sum(), a),
        rtol=1e-6,
        atol=1e-8,
    )
    np.testing.assert_allclose(
        pulled.b,
        central_difference(lambda moved: (adjoint * kernel.gram(a, moved)).sum(), b),
        rtol=1e-6,
        atol=1e-8,
    )


def test_symmetric_pullback_reads_the_lower_triangle_only(kernel, points):
    adjoint = np.random.default_rng(1).standard_normal((len(points), len(points)))
    adjoint += adjoint.T
    whole = gram_pullback(kernel, points, points, adjoint)
    junk = np.where(np.tri(len(points), dtype=bool), adjoint, np.nan)
    half = symmetric_gram_pullback(kernel, points, junk)
    for path, value in whole.parameters.items():
        np.testing.assert_allclose(half.parameters[path], value, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(half.a + half.b, whole.a + whole.b, rtol=1e-10, atol=1e-11)


def test_parameters_round_trip(kernel):
    moved = {path: np.asarray(value) * 1.5 for path, value in leaves(kernel).items()}
    changed = leaves(with_leaves(kernel, moved))
    for path, value in moved.items():
        np.testing.assert_array_equal(changed[path], value)


def test_a_rescaled_kernel_is_the_kernel_times_a_number(kernel, points):
    rescaled = kernel.rescaled(3.0)
    np.testing.assert_allclose(rescaled(points), 3.0 * kernel(points), rtol=1e-12, atol=1e-14)
    assert rescaled.has_variance
    assert set(leaves(rescaled.rescaled(0.5))) == set(leaves(rescaled))  # one variance is enough
    if kernel.has_variance:
        assert set(leaves(rescaled)) == set(leaves(kernel))


def test_other_lengthscales_change_nothing_else(kernel):
    scales = np.array([0.3, 4.0, 20.0])
    moved, before = leaves(kernel.with_lengthscales(scales)), leaves(kernel)
    assert {path: np.shape(value) for path, value in moved.items()} == {p: np.shape(v) for p, v in before.items()}
    for path, value in moved.items():
        if not path.endswith("lengthscale"):
            np.testing.assert_array_equal(value, before[path])


def test_different_columns_are_refused(kernel, points):
    with refused("b"):
        kernel(points, points[:, :2])
