"""The smoothness of x given y, which leave-one-out chooses from the pairs."""

import numpy as np
import oracle_kernels
import oracles
import pytest

from decond import kernels
from decond.conditional import MediatorSmoother, SmootherGrid
from decond.conditional.smoother import SmootherSettings


def pairs(n=14, seed=1):
    rng = np.random.default_rng(seed)
    y = rng.uniform(-2, 2, (n, 1))
    return np.sin(2 * y) + 0.2 * rng.standard_normal((n, 1)), y


def test_leave_one_out_loss_is_that_of_leaving_pairs_out():
    x, y = pairs()
    y[5] = y[2]  # a repeated y makes L singular
    gram_x = oracle_kernels.matern32(x, x, 0.7)
    for lengthscale in (0.1, 0.8, 5.0):
        gram_y = oracle_kernels.rbf(y, y, lengthscale)
        for ridge in (1e-3, 0.1, 3.0):
            found = SmootherGrid([kernels.RBF(lengthscale)], y, [ridge]).choose(gram_x).loss
            assert found == pytest.approx(oracles.leave_one_pair_out_loss(gram_x, gram_y, ridge), rel=1e-7)


def test_the_grid_chooses_what_leaving_pairs_out_chooses():
    x, y = pairs()
    lengthscales, ridges = (0.05, 0.4, 1.0, 4.0), np.array([0.01, 0.1, 1.0])
    grid = SmootherGrid([kernels.RBF(value) for value in lengthscales], y, ridges)
    chosen = set()
    for width in (0.1, 0.7, 10.0):
        gram_x = oracle_kernels.rbf(x, x, width)
        losses = {
            (lengthscale, ridge): oracles.leave_one_pair_out_loss(
                gram_x, oracle_kernels.rbf(y, y, lengthscale), ridge
            )
            for lengthscale in lengthscales
            for ridge in ridges
        }
        best = grid.choose(gram_x)
        assert (best.kernel.lengthscale, best.ridge) == min(losses, key=losses.get)
        assert best.loss == pytest.approx(min(losses.values()), rel=1e-8)
        chosen.add((best.kernel.lengthscale, best.ridge))
    assert len(chosen) > 1  # otherwise any answer would do


def best_smoothness(gram_x, u):
    """Lengthscale and ridge with the smallest loss, by brute force."""
    losses = {
        (factor * u.std(), ridge): oracles.leave_one_pair_out_loss(
            gram_x, oracle_kernels.matern32(u, u, factor * u.std()), ridge
        )
        for factor in SmootherSettings().smoothness
        for ridge in SmootherSettings().ridges
    }
    return min(losses, key=losses.get)


def test_both_descriptions_of_the_mediator():
    x, y = pairs()
    y_task = np.linspace(-2, 2, 9)[:, None]
    kernel_x = kernels.RBF(0.6)
    gram_x = oracle_kernels.rbf(x, x, 0.6)
    standard = (x - x.mean()) / x.std()
    lengthscale, ridge = best_smoothness(standard @ standard.T, y)
    smooth = oracle_kernels.matern32(y, np.vstack([y, y_task]), lengthscale)
    weights = np.linalg.solve(oracle_kernels.matern32(y, y, lengthscale) + ridge * np.eye(14), smooth)
    expected = (weights.T @ standard) * x.std() + x.mean()  # E[x | y] at pairs, then at task rows
    direct = MediatorSmoother(x, y, y_task, seed=0)
    for found, known in zip(direct.means(), (expected[:14], expected[14:]), strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-9)
    smoothers = (direct, direct.of_means())
    for smoother, u, u_task in zip(smoothers, (y, expected[:14]), (y_task, expected[14:]), strict=True):
        lengthscale, ridge = best_smoothness(gram_x, u)
        L, L_tilde = (oracle_kernels.matern32(u, other, lengthscale) for other in (u, u_task))
        inverse = np.linalg.inv(L + ridge * np.eye(14))
        found = smoother.expectation(kernel_x)
        np.testing.assert_allclose(found.weights, inverse @ L_tilde, rtol=1e-7, atol=1e-10)
        C = oracle_kernels.matern32(u_task, u_task, lengthscale) - L_tilde.T @ inverse @ L_tilde
        np.testing.assert_allclose(found.covariance, C, atol=1e-10)


def test_many_pairs_are_thinned_for_the_choice_only():
    x, y = pairs(30)
    settings, kernel_x = SmootherSettings(most_pairs=20), kernels.RBF(0.6)
    first, again, *others = (
        MediatorSmoother(x, y, y[:5], seed, settings).expectation(kernel_x).weights for seed in (3, *range(3, 9))
    )
    assert first.shape == (30, 5)
    np.testing.assert_array_equal(first, again)
    assert not all(np.array_equal(first, other) for other in others)
