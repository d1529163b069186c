"""Ordinary regression: kernels and noises that are given, and what learning makes of them."""

import numpy as np
import pytest

from decond import kernels
from decond.estimators import DirectGP
from decond.estimators.defaults import SearchRanges
from decond.parameters import leaves, same

SETTINGS = {"n_restarts": 0, "uncertainty": "plain"}


def waves(m=100, noise=10.0, seed=0):
    """Return rows, targets with a deviation of about 70, and rows with the truth."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, (2 * m, 1))
    f = 100.0 * np.sin(x[:, 0])
    return x[:m], f[:m] + noise * rng.standard_normal(m), x[m:], f[m:]


@pytest.mark.parametrize("units", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(
    "kernel", [1.0 * kernels.RBF(1.0), kernels.RBF(1.0), kernels.RBF(100.0), 1e8 * kernels.RBF(0.01)], ids=repr
)
def test_a_given_kernel_fits_as_well_as_none(kernel, units):
    x, z, new, truth = waves()
    errors = []
    for given in (None, kernel):
        gp = DirectGP(given, **SETTINGS).fit(x, units * z)
        errors.append(np.sqrt(np.mean((gp.predict(new) / units - truth) ** 2)))
        assert gp.fit_result_.status == "converged"
        assert gp.noise_ / units == pytest.approx(10.0, rel=0.2)
    assert errors[1] < 1.2 * errors[0] < 10.0


@pytest.mark.parametrize("noise", [1e-6, 1e4])
@pytest.mark.parametrize("kernel", [None, kernels.RBF(1.0)], ids=repr)
def test_a_given_noise_is_a_start_where_it_is_learned_and_else_the_value(kernel, noise):
    x, z, *_ = waves()
    learned = DirectGP(kernel, noise=noise, **SETTINGS).fit(x, z)
    assert learned.noise_ == pytest.approx(10.0, rel=0.2)
    assert learned.fit_result_.evaluations > len(learned.fit_result_.history)  # those of both starts
    assert DirectGP(kernel, noise=2.5, optimize=False).fit(x, z).noise_ == 2.5


def test_without_a_noise_it_comes_from_the_targets():
    x, z, *_ = waves()
    gp = DirectGP(4900.0 * kernels.RBF(1.0), optimize=False).fit(x, z)
    assert gp.noise_ == pytest.approx(SearchRanges.noise_start * z.std())


def test_a_kernel_without_a_variance_is_given_one_where_it_is_learned():
    x, z, *_ = waves()
    plain, own = kernels.RBF(1.0), 2.0 * kernels.RBF(1.0) + kernels.Linear()
    assert set(leaves(DirectGP(plain, **SETTINGS).fit(x, z).kernel_)) == {"kernel.lengthscale", "variance"}
    assert set(leaves(DirectGP(own, **SETTINGS).fit(x, z).kernel_)) == set(leaves(own))
    assert same(DirectGP(plain, optimize=False).fit(x, z).kernel_, plain)


def test_columns_of_targets_keep_their_units_under_a_given_kernel():
    x, z, new, truth = waves()
    gp = DirectGP(kernels.RBF(1.0), **SETTINGS).fit(x, np.column_stack([z, 1e-4 * z]))
    error = np.sqrt(np.mean((gp.predict(new) / [1.0, 1e-4] - truth[:, None]) ** 2, axis=0))
    assert np.all(error < 10.0)
