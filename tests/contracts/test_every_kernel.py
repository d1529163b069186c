"""What every kernel must satisfy, whatever it is."""

import numpy as np
import pandas as pd
import pytest
from expected import refused

from decond import kernels
from decond.gp import Direct, FunctionPrior, Model
from decond.kernels import Kernel
from decond.parameters import leaves, parameter, positive, with_leaves


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


class Wrapped:
    """An array of another library, such as JAX or PyTorch."""

    def __init__(self, values):
        self._values = values

    def __array__(self, dtype=None, copy=None):
        return self._values.astype(dtype or float)


def test_gram_is_symmetric_and_positive_semidefinite(kernel, points):
    gram = kernel(points)
    np.testing.assert_array_equal(gram, kernel(points, points))
    np.testing.assert_allclose(gram, gram.T, rtol=1e-14, atol=1e-14)
    assert np.linalg.eigvalsh(gram).min() > -1e-10 * np.trace(gram)


def test_diagonal_is_that_of_the_gram_matrix(kernel, points):
    np.testing.assert_allclose(kernel.diag(points), np.diag(kernel(points)), rtol=1e-13)


def test_result_is_float64_numpy_whatever_goes_in(kernel, points):
    expected = kernel(points, points[:4])
    for given in (points.tolist(), pd.DataFrame(points, columns=list("abc")), Wrapped(points)):
        result = kernel(given, points[:4])
        assert type(result) is np.ndarray
        assert result.dtype == np.float64
        np.testing.assert_array_equal(result, expected)


def test_blocked_product_equals_the_whole(kernel, points, monkeypatch):
    v = np.random.default_rng(0).standard_normal((len(points), 2))
    expected = kernel(points[:7], points) @ v
    seen = []
    original = type(kernel)._gram

    def counted(self, a, b):
        if self is kernel:
            seen.append(len(a) * len(b))
        return original(self, a, b)

    monkeypatch.setattr(type(kernel), "_gram", counted)
    np.testing.assert_allclose(
        kernel.matmul(points[:7], points, v, block_entries=20), expected, rtol=1e-12, atol=1e-13
    )
    assert max(seen) <= 20
    assert kernel.matmul(points[:7], points, v[:, 0]).shape == (7,)


def check_pullback(kernel, a, b, points=True):
    """Compare gradients of a random combination of the Gram matrix with central differences."""
    adjoint = np.random.default_rng(1).standard_normal((len(a), len(b)))
    pulled = kernel.pullback(a, b, adjoint)
    gram, pull = kernel.gram_with_pullback(a, b)
    np.testing.assert_allclose(gram, kernel.gram(a, b), rtol=1e-12, atol=1e-14)
    again, left_out = pull(adjoint, True), kernel.pullback(a, b, adjoint, points=False)
    assert set(pulled.parameters) == set(leaves(kernel))
    for path, value in leaves(kernel).items():

        def objective(moved, path=path):
            return (adjoint * with_leaves(kernel, {path: moved}).gram(a, b)).sum()

        slope = pulled.parameters[path]
        assert np.shape(slope) == np.shape(value)
        np.testing.assert_allclose(slope, central_difference(objective, value), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose([again.parameters[path], left_out.parameters[path]], [slope, slope], rtol=1e-10)
    assert not left_out.a.any()
    assert not left_out.b.any()
    if points:
        expected_a = central_difference(lambda moved: (adjoint * kernel.gram(moved, b)).sum(), a)
        expected_b = central_difference(lambda moved: (adjoint * kernel.gram(a, moved)).sum(), b)
        np.testing.assert_allclose(pulled.a, expected_a, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(pulled.b, expected_b, rtol=1e-6, atol=1e-8)


def test_gradient_with_respect_to_parameters_where_rows_repeat(kernel, points):
    check_pullback(kernel, points, points[:5], points=False)  # a kernel may have a kink at zero


def test_gradient_with_respect_to_parameters_and_points(kernel):
    rng = np.random.default_rng(1)
    check_pullback(kernel, rng.standard_normal((6, 3)), rng.standard_normal((4, 3)))


def test_gradient_of_large_matrices_adds_up(kernel):
    """Blocks of rows, also of the triangle, equal one block."""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((300, 3)), rng.standard_normal((700, 3))
    adjoint, whole = rng.standard_normal((300, 700)), rng.standard_normal((700, 700))
    whole += whole.T
    gram, pull = kernel._gram_with_pullback(a, b)
    np.testing.assert_allclose(kernel.gram(a, b), gram, rtol=1e-12, atol=1e-14)
    junk = np.where(np.tri(len(b), dtype=bool), whole, np.nan)
    symmetric, full = kernel.symmetric_pullback(b, junk), kernel._gram_with_pullback(b, b)[1](whole, True)
    for one, other in (
        (kernel.pullback(a, b, adjoint), pull(adjoint, True)),
        (kernel.gram_with_pullback(a, b)[1](adjoint, True), pull(adjoint, True)),
        (symmetric._replace(a=symmetric.a + symmetric.b), full._replace(a=full.a + full.b)),
    ):
        for path, slope in other.parameters.items():
            np.testing.assert_allclose(one.parameters[path], slope, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(one.a, other.a, rtol=1e-8, atol=1e-9 * np.abs(other.a).max())


class OwnKernel(Kernel):
    """A kernel without a derivative: that of functions of tanh((x - middle) / width)."""

    middle: float = parameter(default=0.3)
    width: float = parameter(default=1.5, constraint=positive)
    lengthscale: float = parameter(default=0.7, constraint=positive, per_column=True)

    def _gram(self, a, b):
        squashed = [np.tanh((rows - self.middle) / self.width) / self.lengthscale for rows in (a, b)]
        return np.exp(-0.5 * ((squashed[0][:, None] - squashed[1][None]) ** 2).sum(axis=2))

    def diagonal(self, a):
        return np.ones(len(a))


OWN = {
    "alone": OwnKernel(),
    "per column": OwnKernel(lengthscale=[0.5, 0.7, 0.9]),
    "composed": 1.4 * (OwnKernel().on([0]) * kernels.RBF(0.8).on([1, 2])) + kernels.Linear(),
}


@pytest.mark.parametrize("kernel", OWN.values(), ids=list(OWN))
def test_a_kernel_of_the_user_needs_no_derivative(kernel, points):
    rng = np.random.default_rng(1)
    check_pullback(kernel, rng.standard_normal((6, 3)), rng.standard_normal((4, 3)))
    z = rng.standard_normal(len(points))

    def evidence(kernel):
        return Model(FunctionPrior(kernel), Direct(points, noise=0.5))

    _, gradient = evidence(kernel).log_evidence_and_gradient(z, points=True)
    for path, value in leaves(kernel).items():
        moved = central_difference(lambda v, p=path: evidence(with_leaves(kernel, {p: v})).log_evidence(z), value)
        np.testing.assert_allclose(gradient[f"prior.kernel.{path}"], moved, rtol=1e-5, atol=1e-8)
    x_bar = central_difference(lambda x: Model(FunctionPrior(kernel), Direct(x, noise=0.5)).log_evidence(z), points)
    np.testing.assert_allclose(gradient["observation.x"], x_bar, rtol=1e-5, atol=1e-7)


def test_labels_among_the_columns():
    a, b = np.array([["x", 1.5], ["y", 2.5]], dtype=object), np.array([["y", 0.5]], dtype=object)
    kernel = 1.4 * (kernels.Categorical().on([0]) * kernels.RBF(0.9).on([1])) + kernels.White(0.5).on([0])
    pulled = kernel.pullback(a, b, np.array([[0.3], [0.7]]))
    decay = np.exp(-0.5 * (2.0 / 0.9) ** 2)
    assert pulled.parameters["parts.0.variance"] == pytest.approx(0.7 * decay)
    assert pulled.parameters["parts.1.kernel.variance"] == pytest.approx(0.7)
    np.testing.assert_allclose(pulled.a, [[0.0, 0.0], [0.0, -0.7 * 1.4 * decay * 2.0 / 0.81]], rtol=1e-12)


@pytest.mark.parametrize("reach", [1.0, 100.0])  # within the reach of products, and beyond it
@pytest.mark.parametrize("lengthscale", [0.5, [0.4, 0.7]])
def test_slopes_of_lengthscales_keep_their_digits(reach, lengthscale):
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-reach, reach, (64, 2)), rng.uniform(-reach, reach, (1024, 2))
    adjoint = rng.standard_normal((64, 1024))
    slope = kernels.RBF(lengthscale).pullback(a, b, adjoint).parameters["lengthscale"]
    scaled = ((a[:, None] - b).astype(np.longdouble) / lengthscale) ** 2
    terms = adjoint[..., None] * np.exp(-0.5 * scaled.sum(axis=2))[..., None] * scaled / lengthscale
    expected = terms.sum() if np.ndim(lengthscale) == 0 else terms.sum(axis=(0, 1))
    error = np.abs(slope - expected) / np.abs(terms).sum(axis=(0, 1)).min()
    assert error.max() < 1e-14


@pytest.mark.parametrize("lengthscale", [0.8, [0.5, 1.0, 2.0]])
def test_rows_that_are_equal_but_for_rounding_have_no_slope(lengthscale, points):
    """The kink of exp(-r) at zero has a slope of either sign; those of all other pairs are left."""
    rng = np.random.default_rng(1)
    other, adjoint = points + 1e-12 * rng.standard_normal(points.shape), rng.standard_normal((9, 9))
    steps = (points[:, None] - other) / lengthscale
    r = np.sqrt((steps**2).sum(axis=2))
    pull = (
        np.where(r > 1e-6, -adjoint * np.exp(-r) / np.where(r > 1e-6, r, 1.0), 0.0)[..., None] * steps / lengthscale
    )
    pulled = kernels.Matern12(lengthscale).pullback(points, other, adjoint)
    np.testing.assert_allclose(pulled.a, pull.sum(axis=1), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(pulled.b, -pull.sum(axis=0), rtol=1e-8, atol=1e-8)


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
