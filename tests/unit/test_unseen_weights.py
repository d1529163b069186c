"""Which models of unseen x count, and how much: ends of searches, tables, stretches, models of the mean."""

from types import SimpleNamespace

import numpy as np
import pytest

from decond import TaskTransformedGP
from decond.estimators import unseen
from decond.estimators.mediation import descriptions
from decond.kernels import RBF


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def fit_of(objective, places=0):
    """Return a stand-in for a fit that put its two targets at these rows."""
    shares = np.roll(np.eye(4)[:, :2], places, axis=0)
    model = SimpleNamespace(observation=SimpleNamespace(shares=shares))
    return SimpleNamespace(starts=(objective,), evaluations=10, parameters={"noise": 0.1}, model=model)


def optima(*objectives):
    return unseen.distinct([fit_of(value, places) for places, value in enumerate(objectives)])


def test_ends_at_the_same_rows_count_once_and_others_by_their_evidence_to_a_power():
    lower = 3.0 - np.log(2.0) / unseen.ENDS_POWER
    found = unseen.distinct([fit_of(1.0), fit_of(3.0), fit_of(3.0, places=1), fit_of(lower, places=2)])
    assert [fit.starts[0] for fit in found.fits] == pytest.approx([3.0, 3.0, lower])
    np.testing.assert_allclose(found.shares, [0.4, 0.4, 0.2])
    assert found.objective == 3.0
    assert len(optima(3.0, -30.0).likely()) == 1


def test_tables_and_stretches_share_by_their_evidence_to_a_power():
    most = unseen.MOST_WEIGHT
    even = unseen._weighted([optima(50.0)], [optima(50.0), optima(50.0)], 0.0, 0.4, 100)
    np.testing.assert_allclose(even.weights, most / 3)
    assert even.evaluations == 70
    assert even.probability == pytest.approx(1.0)
    tilted = unseen._weighted([optima(50.0)], [optima(46.0), optima(54.0)], 0.0, 0.4, 100).weights
    np.testing.assert_allclose(tilted[1:] / tilted[0], np.exp([-1.6, 1.6]))
    two_ends = unseen._weighted([optima(50.0, 50.0)], [optima(50.0)], 0.0, 0.4, 100).weights
    np.testing.assert_allclose(two_ends, most * np.array([0.25, 0.25, 0.5]))
    rivals = unseen._weighted([optima(50.0), optima(50.0 + np.log(3.0) / 0.4)], [], 0.0, 0.4, 100)
    np.testing.assert_allclose(rivals.weights, most * np.array([0.25, 0.75]))


def test_the_evidence_counts_the_more_the_more_pairs_tell_of_x_given_y():
    powers = [unseen.tables_power(pairs, 100) for pairs in (10, 100, 10_000)]
    np.testing.assert_allclose(powers, [1 / 11, 1 / 2, 100 / 101])


@pytest.mark.parametrize("copies", [1, 3])
def test_only_pairs_that_differ_count_as_known(copies, monkeypatch, rng):
    powers, weighted = [], unseen._weighted

    def seen(plain, stretched, rival, power, evaluations):
        powers.append(power)
        return weighted(plain, stretched, rival, power, evaluations)

    monkeypatch.setattr(unseen, "_weighted", seen)
    y, y_task = rng.uniform(-2, 2, 30), rng.uniform(-2, 2, 45)
    x, x_task = (rows + 0.3 * rng.standard_normal(len(rows)) for rows in (y, y_task))
    z = np.sin(2.0 * x_task) + 0.1 * rng.standard_normal(45)
    TaskTransformedGP(n_restarts=0).fit(np.tile(x, copies), np.tile(y, copies), y_task, z)
    assert powers == [30 / 75]


def test_models_that_explain_less_than_those_of_the_mean_are_left_out():
    found = unseen._weighted([optima(-20.0)], [optima(-20.0)], 0.0, 0.4, 100)
    assert len(found.weights) == 0
    assert found.story == ""
    even = unseen._weighted([optima(0.0)], [], 0.0, 0.4, 100)
    assert even.probability == pytest.approx(0.5)
    assert even.weights.sum() == pytest.approx(0.5)


def test_labels_have_the_weights_of_the_embedding_and_no_stretch(rng):
    y = np.empty((60, 2), dtype=object)
    y[:, 0], y[:, 1] = rng.uniform(-1, 1, 60), np.repeat(["a", "b"], 30)
    x = (np.array(y[:, 0], dtype=float) + np.where(y[:, 1] == "a", 0.0, 3.0))[:, None]
    z = np.sin(x[:, 0]) + 0.05 * rng.standard_normal(60)
    gp = TaskTransformedGP(n_restarts=0).fit(x, y, y, z)
    assert np.isfinite(gp.predict(x[:4])).all()
    mediators = descriptions(x, y, y, 0)
    places = unseen.places_of(mediators, RBF(), x, 0)
    assert len(places.tables) == len(mediators)
    assert places.stretched is None


@pytest.mark.parametrize("seed", [5, pytest.param(9, marks=pytest.mark.slow)])
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
