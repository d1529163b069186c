"""Values and gradients of the evidence against 60 digits, where data are few, repeated or nearly noiseless."""

import warnings

import high_precision
import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from decond import kernels
from decond.gp import (
    Direct,
    FunctionPrior,
    TaskTransformed,
    condition,
    log_evidence_and_gradient,
)
from decond.linalg import JitterWarning

EPS = np.finfo(float).eps
PATHS = ("prior.kernel.lengthscale", "observation.kernel_y.lengthscale", "observation.noise")


def condition_numbers(x, y, y_task, length_x, length_y, sigma, mediator):
    """The product of the condition numbers of the two matrices that are inverted, in 60 digits."""
    with mp.workdps(high_precision.DIGITS):
        noise = mp.mpf(sigma) ** 2
        L = high_precision.rbf(y, y, length_y) + noise * mp.eye(len(y))
        L_tilde = high_precision.rbf(y, y_task, length_y)
        A = L**-1 * L_tilde
        S = A.T * high_precision.rbf(x, x, length_x) * A + noise * mp.eye(len(y_task))
        if mediator == "full":
            S += high_precision.rbf(y_task, y_task, length_y) - L_tilde.T * A
        product = mp.mpf(1)
        for matrix in (L, S):
            values = mp.eigsy(matrix, eigvals_only=True)
            product *= max(values) / min(values)
        return float(product)


@settings(max_examples=30)
@given(
    sizes=st.sampled_from([(1, 1), (1, 6), (6, 1), (2, 8), (7, 2), (4, 4), (5, 3), (3, 6)]),
    seed=st.integers(0, 10_000),
    sigma=st.sampled_from([1e-6, 1e-4, 1e-2, 0.3, 3.0]),
    lengthscales=st.tuples(st.sampled_from([0.2, 1.0, 3.0]), st.sampled_from([0.05, 0.3, 1.0])),
    repeated=st.booleans(),
    mediator=st.sampled_from(["full", "map"]),
)
def test_error_is_what_conditioning_allows(sizes, seed, sigma, lengthscales, repeated, mediator):
    """The relative error stays below a small multiple of eps times the condition numbers of both inverses."""
    (n, m), rng = sizes, np.random.default_rng(seed)
    x, y, y_task, z = (rng.standard_normal(shape) for shape in ((n, 1), (n, 1), (m, 1), m))
    if repeated:
        x[-1], y[-1], y_task[-1] = x[0], y[0], y_task[0]
    at = (*lengthscales, sigma)

    def exact(*parameters):
        return high_precision.log_evidence(x, y, y_task, z, *parameters, mediator)

    bound = 50 * EPS * condition_numbers(x, y, y_task, *at, mediator)
    assume(bound < 1e-3)  # beyond that float64 has few digits to give
    observation = TaskTransformed(x, y, y_task, kernels.RBF(at[1]), noise=sigma, mediator=mediator)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", JitterWarning)
        value, gradient = log_evidence_and_gradient(FunctionPrior(kernels.RBF(at[0])), observation, z)
    assert not caught, "jitter was added where it was not needed"
    expected, slopes = float(exact(*at)), np.array(high_precision.gradient(exact, at)) * at
    scale = max(1.0, abs(expected), *np.abs(slopes))
    np.testing.assert_allclose(value, expected, rtol=0.0, atol=bound * scale)
    found = np.array([gradient[path] for path in PATHS]) * at
    np.testing.assert_allclose(found, slopes, rtol=0.0, atol=bound * scale)


@pytest.mark.parametrize("mediator", ["full", "map"])
def test_well_separated_points_are_exact_to_many_digits_at_tiny_noise(mediator):
    """σ = 1e-6 costs digits only where it has to: here the mediator's matrices are well conditioned."""
    y, y_task = np.arange(6.0)[:, None], np.arange(4.0)[:, None] + 0.4
    x = np.sin(y)
    z = np.cos(y_task[:, 0])

    def exact(*parameters):
        return high_precision.log_evidence(x, y, y_task, z, *parameters, mediator)

    observation = TaskTransformed(x, y, y_task, kernels.RBF(0.6), noise=1e-6, mediator=mediator)
    value, gradient = log_evidence_and_gradient(FunctionPrior(kernels.RBF(0.5)), observation, z)
    np.testing.assert_allclose(value, float(exact(0.5, 0.6, 1e-6)), rtol=1e-11)
    slopes = high_precision.gradient(exact, (0.5, 0.6, 1e-6))
    np.testing.assert_allclose([gradient[path] for path in PATHS], slopes, rtol=1e-9)


@pytest.mark.parametrize("scale_x", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("scale_y", [1e-8, 1e8])
@pytest.mark.parametrize("kernel", [kernels.RBF, kernels.Matern12, kernels.Matern32, kernels.Matern52])
def test_units_of_the_columns_do_not_matter(kernel, scale_x, scale_y):
    rng = np.random.default_rng(0)
    x, y, y_task = rng.standard_normal((8, 2)), rng.standard_normal((8, 1)), rng.standard_normal((11, 1))
    z = rng.standard_normal(11)
    units = np.array([scale_x, 1.0])

    def evaluate(x, y, y_task, length_x, length_y):
        observation = TaskTransformed(x, y, y_task, kernel(length_y), noise=0.2)
        return log_evidence_and_gradient(FunctionPrior(kernel(length_x)), observation, z)

    value, gradient = evaluate(x, y, y_task, [0.7, 1.3], 0.9)
    scaled, scaled_gradient = evaluate(
        x * units, y * scale_y, y_task * scale_y, np.array([0.7, 1.3]) * units, 0.9 * scale_y
    )
    np.testing.assert_allclose(scaled, value, rtol=1e-12)
    np.testing.assert_allclose(scaled_gradient[PATHS[0]] * units, gradient[PATHS[0]], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(scaled_gradient[PATHS[1]] * scale_y, gradient[PATHS[1]], rtol=1e-9)
    np.testing.assert_allclose(scaled_gradient[PATHS[2]], gradient[PATHS[2]], rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_of_the_target_do_not_matter(scale):
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((9, 1)), rng.standard_normal(9)
    posterior = condition(FunctionPrior(2.0 * kernels.RBF(), mean=0.3), Direct(x, noise=0.1), z)
    scaled = condition(
        FunctionPrior((2.0 * scale**2) * kernels.RBF(), mean=0.3 * scale), Direct(x, noise=0.1 * scale), z * scale
    )
    np.testing.assert_allclose(scaled.mean(x) / scale, posterior.mean(x), rtol=1e-10)
    np.testing.assert_allclose(scaled.std(x) / scale, posterior.std(x), rtol=1e-8)
    np.testing.assert_allclose(scaled.log_evidence + len(z) * np.log(scale), posterior.log_evidence, rtol=1e-11)


@pytest.mark.parametrize("distance", [1e4, 1e6, 1e8, 1e10])
@pytest.mark.parametrize("kernel", [kernels.RBF, kernels.Matern12, kernels.Matern52])
def test_gradient_survives_clusters_many_lengthscales_apart(kernel, distance):
    """Columns × 1e8 with the lengthscale left alone: far clusters do not interact, so their evidences add."""
    rng = np.random.default_rng(0)
    left, right = rng.integers(-512, 512, (2, 6, 1)) / 256.0
    z = rng.standard_normal(12)
    prior = FunctionPrior(kernel(1.0))
    both = log_evidence_and_gradient(prior, Direct(np.concatenate([left, right + distance]), noise=0.3), z)
    parts = [
        log_evidence_and_gradient(prior, Direct(rows, noise=0.3), targets)
        for rows, targets in ((left, z[:6]), (right, z[6:]))
    ]
    np.testing.assert_allclose(both[0], parts[0][0] + parts[1][0], rtol=1e-12)
    np.testing.assert_allclose(both[1][PATHS[0]], parts[0][1][PATHS[0]] + parts[1][1][PATHS[0]], rtol=1e-9)


def test_columns_scaled_up_with_repeated_rows_have_no_slope():
    x = np.repeat(np.random.default_rng(1).standard_normal((5, 1)) * 1e8, 3, axis=0)
    z = np.random.default_rng(2).standard_normal(15)
    gradient = log_evidence_and_gradient(FunctionPrior(kernels.RBF(1.0)), Direct(x, noise=0.3), z)[1]
    assert gradient[PATHS[0]] == 0.0


@pytest.mark.parametrize("offset", [1e4, 1e6])
def test_gradient_survives_data_far_from_the_origin(offset):
    """Calendar years and projected coordinates: distances are small beside the coordinates themselves."""
    rng = np.random.default_rng(0)
    steps = rng.integers(-1000, 1000, (9, 2)) / 512.0  # exact in binary, so that the shift loses nothing
    z = rng.standard_normal(9)
    prior = FunctionPrior(kernels.Matern52([0.7, 1.3]))
    near = log_evidence_and_gradient(prior, Direct(steps, noise=0.1), z)
    far = log_evidence_and_gradient(prior, Direct(steps + offset, noise=0.1), z)
    np.testing.assert_allclose(far[0], near[0], rtol=1e-12)
    np.testing.assert_allclose(far[1][PATHS[0]], near[1][PATHS[0]], rtol=1e-8)


@pytest.mark.parametrize("kernel", [kernels.Matern12(0.7), kernels.Matern32(0.7), kernels.Matern52(0.7)])
def test_matern_gradients_with_rows_that_are_equal_but_for_rounding(kernel):
    z = np.random.default_rng(0).standard_normal(6)
    exact = np.array([0.3, 0.3, 0.6, 0.6, 1.1, 1.1])[:, None]
    rounded = np.array([0.3, 0.1 + 0.2, 0.6, 0.2 * 3, 1.1, 1.1 + 1e-15])[:, None]
    assert not np.array_equal(exact, rounded)
    slopes = [
        log_evidence_and_gradient(FunctionPrior(kernel), Direct(x, noise=0.3), z)[1][PATHS[0]]
        for x in (exact, rounded)
    ]
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-7)


def test_many_more_rows_in_one_table_than_in_the_other():
    """n ≫ m and m ≫ n: the forms that are chosen agree with the plain one."""
    rng = np.random.default_rng(0)
    for n, m in ((400, 3), (3, 400)):
        x, y, y_task = rng.standard_normal((n, 1)), rng.standard_normal((n, 1)), rng.standard_normal((m, 1))
        z = rng.standard_normal(m)
        prior = FunctionPrior(kernels.RBF(0.8))
        observation = TaskTransformed(x, y, y_task, kernels.RBF(0.8), noise=0.2, mediator="map")
        chosen, plain = condition(prior, observation, z), condition(prior, observation, z, form="function")
        assert chosen.form == ("function" if n > m else "inducing")
        np.testing.assert_allclose(chosen.log_evidence, plain.log_evidence, rtol=1e-10)
        np.testing.assert_allclose(chosen.mean(x[:3]), plain.mean(x[:3]), rtol=1e-8)
        value, _ = log_evidence_and_gradient(prior, observation, z)
        np.testing.assert_allclose(value, plain.log_evidence, rtol=1e-10)
