"""The evidence from sums over rows against 60 digits, and against a QR of all rows where those are many."""

import warnings

import high_precision
import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from decond import kernels
from decond.gp import FunctionPrior, TaskTransformed, condition, log_evidence_and_gradient
from decond.linalg import JitterWarning
from decond.streaming import SparseModel, Table
from decond.streaming.sparse_gp import SETTINGS, WhiteningSettings, evidence_and_gradient

EPS = np.finfo(float).eps


def conditions(u, x, lengthscale, sigma):
    """The product of the condition numbers of P = K + σ²I and of S = AᵀKA + σ²I, in 60 digits.

    The smallest eigenvalue of S is taken as σ²: sums over rows do not know that few rows leave no remainder.
    """
    with mp.workdps(high_precision.DIGITS):
        noise = mp.mpf(sigma) ** 2
        K = high_precision.rbf(u, u, lengthscale)
        P = K + noise * mp.eye(len(u))
        A = P**-1 * high_precision.rbf(u, x, lengthscale)
        values = mp.eigsy(P, eigvals_only=True)
        signal = max(mp.eigsy(A.T * K * A, eigvals_only=True))
        return float(max(values) / min(values) * (signal + noise) / noise)


@settings(max_examples=60)
@given(
    sizes=st.sampled_from([(1, 1), (1, 6), (6, 1), (2, 8), (7, 2), (4, 4), (3, 12)]),
    seed=st.integers(0, 10_000),
    sigma=st.sampled_from([1e-6, 1e-4, 1e-2, 0.3, 3.0]),
    lengthscale=st.sampled_from([0.05, 0.3, 1.0]),
    repeated=st.booleans(),
)
def test_error_is_what_conditioning_allows(sizes, seed, sigma, lengthscale, repeated):
    """The relative error stays below a small multiple of eps times the condition numbers of both inverses."""
    (n, m), rng = sizes, np.random.default_rng(seed)
    u, x, z = rng.standard_normal((n, 1)), rng.standard_normal((m, 1)), rng.standard_normal(m)
    if repeated:
        u[-1], x[-1] = u[0], x[0]

    def exact(lengthscale, sigma):
        return high_precision.log_evidence(u, u, x, z, lengthscale, lengthscale, sigma, "map")

    at = (lengthscale, sigma)
    bound = 500 * EPS * conditions(u, x, *at)  # the model in memory, which sums no products, keeps one digit more
    assume(bound < 1e-3)  # beyond that float64 has few digits to give
    model = SparseModel(kernels.RBF(lengthscale), u, noise=sigma)
    with warnings.catch_warnings():
        warnings.simplefilter("error", JitterWarning)
        value, gradient = model.log_evidence_and_gradient(Table(x, z))
        from_sums = model.log_evidence(Table(x, z))
    expected, slopes = float(exact(*at)), np.array(high_precision.gradient(exact, at)) * at
    scale = max(1.0, abs(expected), *np.abs(slopes))
    np.testing.assert_allclose([value, from_sums], expected, rtol=0.0, atol=bound * scale)
    found = np.array([gradient["kernel.lengthscale"], gradient["noise"]]) * at
    np.testing.assert_allclose(found, slopes, rtol=0.0, atol=bound * scale)


def compared(n, m, lengthscale, noise, settings=SETTINGS):
    """Errors of value, gradient and mean, relative to the in-memory model with its QR of all rows."""
    rng = np.random.default_rng(0)
    x, u = rng.standard_normal((m, 2)), rng.standard_normal((n, 2))
    z = np.sin(3 * x[:, 0]) + 0.1 * rng.standard_normal(m)
    kernel = kernels.RBF(lengthscale)
    model, table = SparseModel(kernel, u, noise=noise), Table(x, z)
    value, gradient = evidence_and_gradient(model, table, settings)
    prior = FunctionPrior(kernel)
    observation = TaskTransformed(u, u, x, kernel, noise=noise, mediator="map")
    expected, slopes = log_evidence_and_gradient(prior, observation, z)
    slope = slopes["prior.kernel.lengthscale"] + slopes["observation.kernel_y.lengthscale"]
    scale = max(abs(expected), abs(slope) * lengthscale)
    mean = condition(prior, observation, z).mean(x[:50])
    errors = (
        abs(value - expected) / scale,
        abs(gradient["kernel.lengthscale"] - slope) * lengthscale / scale,
        np.abs(model.condition(model.statistics(table)).mean(x[:50]) - mean).max() / np.abs(mean).max(),
    )
    return np.array(errors)


@pytest.mark.parametrize(("noise", "allowed"), [(0.1, 1e-7), (1e-2, 1e-6), (1e-3, 1e-4)])
@pytest.mark.parametrize("lengthscale", [0.3, 1.0, 3.0])
def test_many_rows_lose_few_digits_although_their_products_are_summed(noise, allowed, lengthscale):
    assert compared(60, 3000, lengthscale, noise).max() < allowed


def test_small_noise_takes_the_precise_way():
    precise = compared(40, 300, 1.0, 1e-3)[1]
    direct = compared(40, 300, 1.0, 1e-3, WhiteningSettings(mild_condition=np.inf))[1]
    assert precise < 1e-6
    assert precise < direct


def test_units_do_not_matter():
    rng = np.random.default_rng(0)
    x, u = rng.standard_normal((30, 2)), rng.standard_normal((6, 2))
    z = rng.standard_normal(30)
    units, unit = np.array([1e-8, 1e6]), 1e5
    plain = SparseModel(1.5 * kernels.Matern52([0.7, 1.3]), u, noise=0.2)
    scaled = SparseModel(
        (1.5 * unit**2) * kernels.Matern52(np.array([0.7, 1.3]) * units), u * units, noise=0.2 * unit
    )
    value, gradient = plain.log_evidence_and_gradient(Table(x, z))
    other, slopes = scaled.log_evidence_and_gradient(Table(x * units, z * unit))
    assert other + 30 * np.log(unit) == pytest.approx(value, rel=1e-11)
    np.testing.assert_allclose(slopes["inducing"] * units, gradient["inducing"], rtol=1e-8, atol=1e-9)
    path = "kernel.kernel.lengthscale"
    np.testing.assert_allclose(slopes[path] * units, gradient[path], rtol=1e-8)


@pytest.mark.parametrize("offset", [1e4, 1e6])
def test_rows_far_from_the_origin(offset):
    rng = np.random.default_rng(0)
    x, u = (rng.integers(-1000, 1000, (size, 2)) / 512.0 for size in (30, 6))  # exact in binary
    z = rng.standard_normal(30)
    kernel = kernels.RBF([0.7, 1.3])
    near = SparseModel(kernel, u, noise=0.2).log_evidence_and_gradient(Table(x, z))
    far = SparseModel(kernel, u + offset, noise=0.2).log_evidence_and_gradient(Table(x + offset, z))
    assert far[0] == pytest.approx(near[0], rel=1e-11)
    np.testing.assert_allclose(far[1]["inducing"], near[1]["inducing"], rtol=1e-7, atol=1e-8)
