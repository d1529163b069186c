"""Weights of x given a mediator of numbers: against distributions that are known."""

import numpy as np
import pytest

from decond.conditional import ShiftedResiduals
from decond.conditional.residual_density import DensitySettings, InputDensity


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def density_of(x, y, task, **settings):
    """Return a density whose support are the rows of x alone, unless settings say otherwise."""
    return InputDensity(x, y, task, 0, DensitySettings(**{"support": len(x), **settings}))


def moments(table, x):
    mean = table.T @ x[:, 0]
    return mean, np.sqrt(table.T @ x[:, 0] ** 2 - mean**2)


def bent(y, rng, noise=0.4):
    return np.sin(y) * 2.0 + noise * rng.standard_normal(y.shape)


def test_moments_are_those_of_x_given_y_up_to_the_ends(rng):
    y = rng.uniform(-3, 3, (400, 1))
    x = bent(y, rng)
    task = np.linspace(-2.7, 2.7, 25)[:, None]
    table = density_of(x, y, task).table()
    np.testing.assert_allclose(table.sum(axis=0), 1.0)
    assert table.min() >= 0.0
    mean, std = moments(table, x)
    np.testing.assert_allclose(mean, 2.0 * np.sin(task[:, 0]), atol=0.2)
    assert 0.9 < std.mean() / 0.4 < 1.1


def test_rows_in_a_crowd_count_for_less_each(rng):
    """Most pairs are at y near -1; a task row at 1 must not be pulled there."""
    y = np.concatenate([rng.normal(-1.0, 0.3, 450), rng.uniform(-2.0, 2.0, 50)])[:, None]
    x = y + 0.5 * rng.standard_normal((500, 1))
    mean, std = moments(density_of(x, y, np.array([[0.0], [1.0]])).table(), x)
    np.testing.assert_allclose(mean, [0.0, 1.0], atol=0.3)
    np.testing.assert_allclose(std, 0.5, rtol=0.3)


def test_weights_are_the_ratio_of_conditional_and_marginal_density(rng):
    """Against plain NumPy, where x given y is a Gaussian about a line and most y are small."""
    y = rng.exponential(1.0, (500, 1))
    x = 1.5 * y + 0.3 * rng.standard_normal(y.shape)
    task = np.array([[0.2], [1.0], [2.5]])
    conditional = np.exp(-0.5 * ((x - 1.5 * task.T) / 0.3) ** 2)
    marginal = np.exp(-0.5 * ((x - 1.5 * y.T) / 0.3) ** 2).mean(axis=1)
    expected = conditional / marginal[:, None]
    expected /= expected.sum(axis=0)
    table = density_of(x, y, task).table()
    crowded = conditional / conditional.sum(axis=0)
    for j in range(3):
        distance = np.abs(table[:, j] - expected[:, j]).sum() / 2.0
        assert distance < 0.12
        assert distance < 0.5 * np.abs(crowded[:, j] - expected[:, j]).sum() / 2.0


def test_two_modes_of_x_are_kept_apart(rng):
    y = rng.uniform(-2, 2, (400, 1))
    x = y + 3.0 * rng.integers(2, size=y.shape) + 0.2 * rng.standard_normal(y.shape)
    table = density_of(x, y, np.array([[0.0]])).table()[:, 0]
    at = x[:, 0]
    assert table[np.abs(at) < 0.7].sum() == pytest.approx(0.5, abs=0.1)
    assert table[np.abs(at - 3.0) < 0.7].sum() == pytest.approx(0.5, abs=0.1)


def test_drift_stretches_the_mean_of_x_about_its_center(rng):
    """With two tables the stretches are the quartiles of N(1, drift²); without a drift there is none."""
    y = rng.uniform(-3, 3, (500, 1))
    x = 4.0 + 2.0 * y + 0.5 * rng.standard_normal(y.shape)
    task = np.array([[-2.0], [0.0], [2.0]])
    slopes = {}
    for drift in (0.0, 0.2):
        means = [moments(table, x)[0] for table in density_of(x, y, task).bootstrap(2, drift)]
        slopes[drift] = sorted((mean[2] - mean[0]) / 8.0 for mean in means)
    np.testing.assert_allclose(slopes[0.0], 1.0, atol=0.05)
    np.testing.assert_allclose(slopes[0.2], [1.0 - 0.6745 * 0.2, 1.0 + 0.6745 * 0.2], atol=0.05)


def test_bootstrap_tables_differ_and_their_mean_is_near_the_table(rng):
    y = rng.uniform(-3, 3, (80, 1))
    x, task = bent(y, rng), np.array([[-1.0], [2.0]])
    density = density_of(x, y, task)
    tables = density.bootstrap(8)
    for table in tables:
        np.testing.assert_allclose(table.sum(axis=0), 1.0)
        assert table.min() >= 0.0
    means = np.array([moments(table, x)[0] for table in tables])
    assert np.all(means.std(axis=0) > 0.01)
    np.testing.assert_allclose(means.mean(axis=0), moments(density.table(), x)[0], atol=0.15)


def test_few_pairs_are_completed_by_draws_from_the_density(rng):
    y = rng.uniform(-2, 2, (30, 1))
    x = np.column_stack([3.0 * y[:, 0] + 0.3 * rng.standard_normal(30), np.full(30, 7.0)])
    task = np.array([[-1.0], [0.5]])
    density = density_of(x, y, task, support=400)
    assert density.support.shape == (400, 2)
    np.testing.assert_array_equal(density.support[:30], x)
    np.testing.assert_array_equal(density.support[:, 1], 7.0)
    drawn = density.support[30:, 0]
    for center, near in ((-3.0, drawn < -0.75), (1.5, drawn >= -0.75)):  # half of the draws for each task row
        assert near.sum() == 185
        assert drawn[near].mean() == pytest.approx(center, abs=0.15)
        assert drawn[near].std() == pytest.approx((x[:, 0] - 3.0 * y[:, 0]).std(), rel=0.2)
    mean, std = moments(density.table(), density.support)
    np.testing.assert_allclose(mean, [-3.0, 1.5], atol=0.15)
    np.testing.assert_allclose(std, 0.3, rtol=0.4)
    again = density_of(x, y, task, support=400)
    np.testing.assert_array_equal(density.support, again.support)


def test_several_columns_and_a_constant_one(rng):
    y = rng.uniform(-2, 2, (300, 2))
    x = np.column_stack([y[:, 0] + y[:, 1], np.full(300, 7.0), y[:, 0] - y[:, 1]])
    x[:, [0, 2]] += 0.3 * rng.standard_normal((300, 2))
    task = np.array([[0.5, 0.5], [-1.0, 0.5]])
    means = density_of(x, y, task).table().T @ x
    np.testing.assert_allclose(means, [[1.0, 7.0, 0.0], [-0.5, 7.0, -1.5]], atol=0.2)


def test_an_x_that_never_varies_is_equally_probable_everywhere():
    density = density_of(np.ones((5, 1)), np.arange(5.0)[:, None], np.zeros((2, 1)))
    for table in (density.table(), *density.bootstrap(2, 0.3)):
        np.testing.assert_allclose(table, 0.2)


def test_an_x_that_y_determines_is_placed_at_the_nearest_row():
    y = np.linspace(-2, 2, 201)[:, None]
    table = density_of(3.0 * y, y, np.array([[0.5], [1.0]])).table()
    np.testing.assert_allclose((table.T @ (3.0 * y)).ravel(), [1.5, 3.0], atol=0.06)


def test_more_pairs_than_are_learned_from(rng):
    y = rng.uniform(-3, 3, (1300, 1))
    x = bent(y, rng)
    mean, _ = moments(density_of(x, y, np.array([[1.0]])).table(), x)
    assert mean[0] == pytest.approx(2.0 * np.sin(1.0), abs=0.2)


def test_rows_that_were_not_learned_from_do_not_attract_targets_from_afar(rng):
    y = rng.standard_t(3, (1500, 1))
    x = y + 1e-3 * rng.standard_normal(y.shape)
    task = rng.standard_t(3, (200, 1))
    task = task[np.abs(task[:, 0]) < np.abs(x).max()]
    density = InputDensity(x, y, task, seed=0)
    found = (density.table().T @ density.support)[:, 0]
    nearest = np.abs(density.support - task.T).min(axis=0)
    assert np.abs(found - task[:, 0]).mean() < 1.5 * nearest.mean()


def test_pairs_that_are_there_ten_times_tell_no_more_than_once(rng):
    y = rng.uniform(-2, 2, (40, 1))
    x = y + 0.3 * rng.standard_normal(y.shape)
    task = np.array([[-1.0], [0.5]])
    once = density_of(x, y, task).table()
    often = density_of(np.repeat(x, 10, axis=0), np.repeat(y, 10, axis=0), task).table()
    np.testing.assert_allclose(often.reshape(40, 10, 2).sum(axis=1), once, atol=0.02)


@pytest.mark.parametrize("unit", [1e-19, 1e-8, 1e12])
def test_units_of_the_mediator_do_not_matter(unit, rng):
    y = rng.uniform(-3, 3, (200, 1))
    x, task = bent(y, rng), np.array([[-1.0], [2.0]])
    expected = density_of(x, y, task).table()
    np.testing.assert_allclose(density_of(x, unit * y, unit * task).table(), expected, atol=1e-6)


def test_a_mediator_column_that_moves_only_between_the_tables_is_left_out(rng):
    """A year: 2014 in the pairs, 2015 in the task table."""
    y = rng.uniform(-3, 3, (200, 1))
    x, task = bent(y, rng), np.array([[-1.0], [2.0]])
    expected = density_of(x, y, task).table()
    with_year = density_of(x, np.column_stack([y, np.full(200, 2014.0)]), np.column_stack([task, [2015.0, 2015.0]]))
    np.testing.assert_allclose(with_year.table(), expected, atol=1e-12)
    only_year = density_of(x, np.full((200, 1), 2014.0), np.full((2, 1), 2015.0))
    np.testing.assert_allclose(only_year.table(), 1.0 / 200)


def test_density_integrates_to_one(rng):
    phi = rng.uniform(-2, 2, (300, 1))
    found = ShiftedResiduals(phi, bent(phi, rng), np.ones(300))
    at = np.linspace(-6, 6, 2001)[:, None]
    for value in (-1.5, 0.0, 1.0):
        density = np.exp(found.log_density(at, np.full_like(at, value)))
        assert np.trapezoid(density, at[:, 0]) == pytest.approx(1.0, abs=1e-3)
