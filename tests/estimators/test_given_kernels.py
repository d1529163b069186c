"""Regression of one table: kernels and noises that are given, and what learning makes of them."""

import numpy as np
import pytest
from expected import warned

from decond import SparseGP, kernels
from decond.estimators import DirectGP
from decond.estimators.defaults import SearchRanges
from decond.gp import NoSignalWarning
from decond.parameters import leaves, same

PLAIN = {"n_restarts": 0, "uncertainty": "plain"}


def direct(kernel=None, rows=100, **settings):
    return DirectGP(kernel, **PLAIN, **settings), waves(rows), 10.0


def sparse(kernel=None, rows=300, **settings):
    return SparseGP(n_inducing=20, kernel=kernel, **settings), waves(rows), 5.0


MODELS = pytest.mark.parametrize("made", [direct, sparse])
"""An estimator, a table, and how large its error may be."""


def waves(m, noise=10.0, seed=0):
    """Return rows, targets with a deviation of about 70, and rows with the truth."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, (2 * m, 1))
    f = 100.0 * np.sin(x[:, 0])
    return x[:m], f[:m] + noise * rng.standard_normal(m), x[m:], f[m:]


@MODELS
@pytest.mark.parametrize("units", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(
    "kernel", [1.0 * kernels.RBF(1.0), kernels.RBF(1.0), kernels.RBF(100.0), 1e8 * kernels.RBF(0.01)], ids=repr
)
def test_a_given_kernel_fits_as_well_as_none(made, kernel, units):
    errors = []
    for given in (None, kernel):
        gp, (x, z, new, truth), allowed = made(given)
        mean, std = gp.fit(x, units * z).predict(new, return_std=True)
        errors.append(np.sqrt(np.mean((mean / units - truth) ** 2)))
        assert gp.noise_ / units == pytest.approx(10.0, rel=0.2)
        if made is direct:
            assert gp.fit_result_.status == "converged"
        else:
            assert np.mean(np.abs(mean - units * truth) < 1.96 * std) > 0.9
    assert errors[1] < 1.2 * errors[0] < allowed


@MODELS
@pytest.mark.parametrize("noise", [1e-6, 1e4])
@pytest.mark.parametrize("kernel", [None, kernels.RBF(1.0)], ids=repr)
def test_a_given_noise_is_a_start_where_it_is_learned_and_else_the_value(made, kernel, noise):
    gp, (x, z, new, truth), allowed = made(kernel, noise=noise)
    assert gp.fit(x, z).noise_ == pytest.approx(10.0, rel=0.2)
    assert np.sqrt(np.mean((gp.predict(new) - truth) ** 2)) < allowed
    assert len(gp.fit_result_.starts) == 2
    assert made(kernel, noise=2.5, optimize=False)[0].fit(x, z).noise_ == 2.5


def test_without_a_noise_it_comes_from_the_targets():
    gp, (x, z, *_), _ = direct(4900.0 * kernels.RBF(1.0), optimize=False)
    assert gp.fit(x, z).noise_ == pytest.approx(SearchRanges.noise_start * z.std())


@MODELS
def test_a_kernel_without_a_variance_is_given_one_where_it_is_learned(made):
    plain, own = kernels.RBF(1.0), 2.0 * kernels.RBF(1.0) + kernels.Linear()
    x, z, *_ = made()[1]
    learned = made(plain)[0].fit(x, z).kernel_
    assert set(leaves(learned)) == {"kernel.lengthscale", "variance"}
    assert abs(np.log(learned.variance / np.var(z))) < np.log(10.0)
    assert set(leaves(made(own)[0].fit(x, z).kernel_)) == set(leaves(own))  # it has all that it needs
    assert same(made(plain, optimize=False)[0].fit(x, z).kernel_, plain)
    if made is sparse:
        with warned(NoSignalWarning):  # a variance of one for targets with that of 4,900
            assert same(made(plain, learn_hyperparameters=False)[0].fit(x, z).kernel_, plain)


@MODELS
def test_columns_of_targets_keep_their_units_under_a_given_kernel(made):
    gp, (x, z, new, truth), allowed = made(kernels.RBF(1.0))
    gp.fit(x, np.column_stack([z, 1e-4 * z]))
    assert np.all(np.sqrt(np.mean((gp.predict(new) / [1.0, 1e-4] - truth[:, None]) ** 2, axis=0)) < allowed)
