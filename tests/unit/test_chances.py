"""How probable rows of x are for each task row: against distributions that are known."""

from types import SimpleNamespace

import numpy as np
import pytest

from decond import TaskTransformedGP
from decond.estimators import unseen
from decond.estimators.chances import Chances
from decond.kernels import RBF
from decond.residuals import ShiftedResiduals


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def moments(table, x):
    mean = table.T @ x[:, 0]
    return mean, np.sqrt(table.T @ x[:, 0] ** 2 - mean**2)


def bent(y, rng, noise=0.4):
    return np.sin(y) * 2.0 + noise * rng.standard_normal(y.shape)


def test_moments_are_those_of_x_given_y_up_to_the_ends(rng):
    y = rng.uniform(-3, 3, (400, 1))
    x = bent(y, rng)
    task = np.linspace(-2.7, 2.7, 25)[:, None]
    table = Chances(x, y, task, seed=0).table()
    np.testing.assert_allclose(table.sum(axis=0), 1.0)
    assert table.min() >= 0.0
    mean, std = moments(table, x)
    np.testing.assert_allclose(mean, 2.0 * np.sin(task[:, 0]), atol=0.2)
    assert 0.9 < std.mean() / 0.4 < 1.1


def test_rows_in_a_crowd_count_for_less_each(rng):
    """Most pairs are at y near -1; a task row at 1 must not be pulled there."""
    y = np.concatenate([rng.normal(-1.0, 0.3, 450), rng.uniform(-2.0, 2.0, 50)])[:, None]
    x = y + 0.5 * rng.standard_normal((500, 1))
    mean, std = moments(Chances(x, y, np.array([[0.0], [1.0]]), seed=0).table(), x)
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
    table = Chances(x, y, task, seed=0).table()
    crowded = conditional / conditional.sum(axis=0)
    for j in range(3):
        distance = np.abs(table[:, j] - expected[:, j]).sum() / 2.0
        assert distance < 0.12
        assert distance < 0.5 * np.abs(crowded[:, j] - expected[:, j]).sum() / 2.0


def test_two_modes_of_x_are_kept_apart(rng):
    y = rng.uniform(-2, 2, (400, 1))
    x = y + 3.0 * rng.integers(2, size=y.shape) + 0.2 * rng.standard_normal(y.shape)
    table = Chances(x, y, np.array([[0.0]]), seed=0).table()[:, 0]
    at = x[:, 0]
    assert table[np.abs(at) < 0.7].sum() == pytest.approx(0.5, abs=0.1)
    assert table[np.abs(at - 3.0) < 0.7].sum() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("stretch", [0.9, 1.1])
def test_a_stretch_moves_the_mean_of_x_about_its_center(stretch, rng):
    y = rng.uniform(-3, 3, (500, 1))
    x = 4.0 + 2.0 * y + 0.5 * rng.standard_normal(y.shape)
    task = np.array([[-2.0], [0.0], [2.0]])
    chances = Chances(x, y, task, seed=0)
    (mean, std), (plain, usual) = moments(chances.table(stretch), x), moments(chances.table(), x)
    center = x.mean()
    np.testing.assert_allclose(mean - center, stretch * (plain - center), atol=0.12)
    np.testing.assert_allclose(std, usual, rtol=0.15)


def test_several_columns_and_a_constant_one(rng):
    y = rng.uniform(-2, 2, (300, 2))
    x = np.column_stack([y[:, 0] + y[:, 1], np.full(300, 7.0), y[:, 0] - y[:, 1]])
    x[:, [0, 2]] += 0.3 * rng.standard_normal((300, 2))
    task = np.array([[0.5, 0.5], [-1.0, 0.5]])
    means = Chances(x, y, task, seed=0).table().T @ x
    np.testing.assert_allclose(means, [[1.0, 7.0, 0.0], [-0.5, 7.0, -1.5]], atol=0.2)


def test_an_x_that_never_varies_is_equally_probable_everywhere():
    table = Chances(np.ones((5, 1)), np.arange(5.0)[:, None], np.zeros((2, 1)), seed=0).table(1.1)
    np.testing.assert_allclose(table, 0.2)


def test_an_x_that_y_determines_is_placed_at_the_nearest_row():
    y = np.linspace(-2, 2, 201)[:, None]
    table = Chances(3.0 * y, y, np.array([[0.5], [1.0]]), seed=0).table()
    np.testing.assert_allclose((table.T @ (3.0 * y)).ravel(), [1.5, 3.0], atol=0.06)


def test_more_pairs_than_are_learned_from(rng):
    y = rng.uniform(-3, 3, (1300, 1))
    x = bent(y, rng)
    mean, _ = moments(Chances(x, y, np.array([[1.0]]), seed=0).table(), x)
    assert mean[0] == pytest.approx(2.0 * np.sin(1.0), abs=0.2)


def test_rows_that_were_not_learned_from_do_not_attract_targets_from_afar(rng):
    y = rng.standard_t(3, (1500, 1))
    x = y + 1e-3 * rng.standard_normal(y.shape)
    task = rng.standard_t(3, (200, 1))
    task = task[np.abs(task[:, 0]) < np.abs(x).max()]
    found = (Chances(x, y, task, seed=0).table().T @ x)[:, 0]
    nearest = np.abs(x - task.T).min(axis=0)
    assert np.abs(found - task[:, 0]).mean() < 1.5 * nearest.mean()


def test_pairs_that_are_there_ten_times_tell_no_more_than_once(rng):
    y = rng.uniform(-2, 2, (40, 1))
    x = y + 0.3 * rng.standard_normal(y.shape)
    task = np.array([[-1.0], [0.5]])
    once = Chances(x, y, task, seed=0).table()
    often = Chances(np.repeat(x, 10, axis=0), np.repeat(y, 10, axis=0), task, seed=0).table()
    np.testing.assert_allclose(often.reshape(40, 10, 2).sum(axis=1), once, atol=0.02)


@pytest.mark.parametrize("unit", [1e-19, 1e-8, 1e12])
def test_units_of_the_mediator_do_not_matter(unit, rng):
    y = rng.uniform(-3, 3, (200, 1))
    x, task = bent(y, rng), np.array([[-1.0], [2.0]])
    expected = Chances(x, y, task, seed=0).table()
    np.testing.assert_allclose(Chances(x, unit * y, unit * task, seed=0).table(), expected, atol=1e-6)


def test_a_mediator_column_that_moves_only_between_the_tables_is_left_out(rng):
    """A year: 2014 in the pairs, 2015 in the task table."""
    y = rng.uniform(-3, 3, (200, 1))
    x, task = bent(y, rng), np.array([[-1.0], [2.0]])
    expected = Chances(x, y, task, seed=0).table()
    with_year = Chances(
        x, np.column_stack([y, np.full(200, 2014.0)]), np.column_stack([task, [2015.0, 2015.0]]), seed=0
    )
    np.testing.assert_allclose(with_year.table(), expected, atol=1e-12)
    only_year = Chances(x, np.full((200, 1), 2014.0), np.full((2, 1), 2015.0), seed=0)
    np.testing.assert_allclose(only_year.table(), 1.0 / 200)


def test_density_integrates_to_one(rng):
    phi = rng.uniform(-2, 2, (300, 1))
    found = ShiftedResiduals(phi, bent(phi, rng), np.ones(300))
    at = np.linspace(-6, 6, 2001)[:, None]
    for value in (-1.5, 0.0, 1.0):
        density = np.exp(found.log_density(at, np.full_like(at, value)))
        assert np.trapezoid(density, at[:, 0]) == pytest.approx(1.0, abs=1e-3)


# weights of the models


def fit_of(objective, places=0):
    """Return a stand-in for a fit that put its two targets at these rows."""
    shares = np.roll(np.eye(4)[:, :2], places, axis=0)
    model = SimpleNamespace(observation=SimpleNamespace(shares=shares))
    return SimpleNamespace(starts=(objective,), evaluations=10, parameters={"noise": 0.1}, model=model)


def optima(*objectives):
    return unseen.distinct([fit_of(value, places) for places, value in enumerate(objectives)])


def test_ends_at_the_same_rows_count_once_and_others_by_their_evidence_to_a_power():
    lower = 3.0 - np.log(2.0) / unseen.EVIDENCE_POWER
    found = unseen.distinct([fit_of(1.0), fit_of(3.0), fit_of(3.0, places=1), fit_of(lower, places=2)])
    assert [fit.starts[0] for fit in found.fits] == pytest.approx([3.0, 3.0, lower])
    np.testing.assert_allclose(found.shares, [0.4, 0.4, 0.2])
    assert found.objective == 3.0
    assert len(optima(3.0, -30.0).likely()) == 1


def test_tables_and_stretches_share_by_their_evidence_to_a_power():
    most = unseen.MOST_WEIGHT
    even = unseen._weighted([optima(50.0)], [optima(50.0), optima(50.0)], 0.0, 100)
    np.testing.assert_allclose(even.weights, most / 3)
    assert even.evaluations == 70
    assert even.probability == pytest.approx(1.0)
    tilted = unseen._weighted([optima(50.0)], [optima(46.0), optima(54.0)], 0.0, 100).weights
    np.testing.assert_allclose(tilted[1:] / tilted[0], np.exp(4.0 * unseen.EVIDENCE_POWER * np.array([-1.0, 1.0])))
    two_ends = unseen._weighted([optima(50.0, 50.0)], [optima(50.0)], 0.0, 100).weights
    np.testing.assert_allclose(two_ends, most * np.array([0.25, 0.25, 0.5]))
    rivals = unseen._weighted([optima(50.0), optima(50.0 + np.log(3.0) / unseen.EVIDENCE_POWER)], [], 0.0, 100)
    np.testing.assert_allclose(rivals.weights, most * np.array([0.25, 0.75]))


def test_models_that_explain_less_than_those_of_the_mean_are_left_out():
    found = unseen._weighted([optima(-20.0)], [optima(-20.0)], 0.0, 100)
    assert len(found.weights) == 0
    assert found.story == ""
    even = unseen._weighted([optima(0.0)], [], 0.0, 100)
    assert even.probability == pytest.approx(0.5)
    assert even.weights.sum() == pytest.approx(0.5)


def test_labels_have_the_weights_of_the_embedding_and_no_stretch(rng):
    y = np.empty((60, 2), dtype=object)
    y[:, 0], y[:, 1] = rng.uniform(-1, 1, 60), np.repeat(["a", "b"], 30)
    x = (np.array(y[:, 0], dtype=float) + np.where(y[:, 1] == "a", 0.0, 3.0))[:, None]
    z = np.sin(x[:, 0]) + 0.05 * rng.standard_normal(60)
    gp = TaskTransformedGP(n_restarts=0).fit(x, y, y, z)
    assert np.isfinite(gp.predict(x[:4])).all()
    mediators = unseen_mediators(x, y)
    places = unseen.places_of(mediators, RBF(), x, 0)
    assert len(places.tables) == len(mediators)
    assert places.stretched == {}


def unseen_mediators(x, y):
    from decond.estimators.mediation import descriptions

    return descriptions(x, y, y, 0)


@pytest.mark.parametrize("seed", [5, 9])
def test_bands_hold_a_curve_though_x_follows_the_mediator_more_in_the_task_table(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    y, y_task = rng.uniform(-3, 3, 150), rng.uniform(-3, 3, 200)
    x = y + 0.5 * rng.standard_normal(150)
    x_task = 1.1 * y_task + 0.5 * rng.standard_normal(200)
    z = np.tanh(2.0 * (x_task - 1.7)) + 0.05 * rng.standard_normal(200)
    queries = np.linspace(-2.5, 2.5, 60)

    def coverage():
        gp = TaskTransformedGP(n_restarts=0).fit(x, y, y_task, z)
        mean, std = gp.predict(queries[:, None], return_std=True)
        return np.mean(np.abs(mean - np.tanh(2.0 * (queries - 1.7))) <= 1.96 * std)

    counted = coverage()
    monkeypatch.setattr(unseen, "STRETCHES", ())
    assert counted > max(coverage(), 0.92)
