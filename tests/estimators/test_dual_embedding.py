"""DualEmbedding: the saddle point by hand, the density ratio, the choice of settings, and labels."""

import numpy as np
import pytest
from expected import refused, warned

from decond.errors import ArgumentTypeError, DataWarning
from decond.estimators import DualEmbedding, dual
from decond.features import Nystrom
from decond.kernels import RBF, Categorical
from decond.problems import LatentFunctionProblem, latent_function

PROBLEM = latent_function()
TABLES = (PROBLEM.x, PROBLEM.y, PROBLEM.y_task, PROBLEM.z_task)
GRID = np.linspace(-6, 6, 121)[:, None]
TRUTH = LatentFunctionProblem.f(GRID)[:, 0]


def large_tables(n, m, seed=0, task_y=None):
    """Return tables of the toy; y of the task rows may be given."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(-6, 6, (n, 1))
    y_task = rng.uniform(-6, 6, (m, 1)) if task_y is None else task_y
    hidden = LatentFunctionProblem.r(y_task) + 0.25 * rng.standard_normal(y_task.shape)
    z = LatentFunctionProblem.f(hidden)[:, 0] + 0.25 * rng.standard_normal(len(y_task))
    return LatentFunctionProblem.r(y) + 0.25 * rng.standard_normal(y.shape), y, y_task, z


def tabulated(psi, y):
    """Return the same features for u and for the density ratio."""
    return dual._MediatorFeatures(psi(y), psi(y))


# ---- the saddle point ----------------------------------------------------------------------------------------


def test_the_closed_form_is_where_both_gradients_vanish():
    """The saddle point as one linear system."""
    x, y, y_task, z = large_tables(2100, 90)
    phi = Nystrom.pivoted(RBF(1.5), x, 15).transform
    psi = Nystrom.pivoted(RBF(0.7), y, 20).transform
    targets, nu, eta = np.column_stack([z, z**2]), 1e-3, 0.05 / 90
    saddle = dual._Dual(tabulated(psi, y), tabulated(psi, y_task), targets, is_smooth=True)
    C = psi(y).T @ (saddle.ratio * phi(x)) / len(x)
    G = psi(y_task).T @ psi(y_task) / len(z) + eta * np.eye(20)
    system = np.block([[nu * np.eye(15), C.T], [C, -G]])
    solution = np.linalg.solve(system, np.concatenate([np.zeros((15, 2)), psi(y_task).T @ targets / len(z)]))
    found = saddle.weights(saddle.cross(phi(x)), np.array([nu]))[0]
    np.testing.assert_allclose(phi(x) @ found, phi(x) @ solution[:15], rtol=1e-6, atol=1e-7)


def test_the_toy_is_learned_and_better_from_more_rows():
    """The targets deviate by 1.1 from their mean."""

    def error(tables):
        return np.sqrt(np.mean((DualEmbedding(n_features=100).fit(*tables).predict(GRID) - TRUTH) ** 2))

    assert error(TABLES) < 0.5
    assert error(large_tables(1500, 1500)) < 0.3


@pytest.mark.parametrize("f", [lambda x: x[:, 0] ** 2, lambda x: x[:, 0] + 0.5 * x[:, 2]])
def test_three_columns_are_learned(f):
    rng = np.random.default_rng(4)
    y, y_task, at = (rng.standard_normal((count, 3)) for count in (400, 400, 300))
    x, hidden = (rows + 0.5 * rng.standard_normal(rows.shape) for rows in (y, y_task))
    model = DualEmbedding(n_features=100).fit(x, y, y_task, f(hidden) + 0.3 * rng.standard_normal(400))
    assert np.sqrt(np.mean((model.predict(at) - f(at)) ** 2)) < 0.6 * f(at).std()


def test_tables_that_say_nothing_are_warned_of():
    rng = np.random.default_rng(1)
    x, y, y_task, z = (rng.standard_normal((100, 1)) for _ in range(4))
    with warned(DataWarning, argument="x"):
        model = DualEmbedding(n_features=30).fit(x, y, y_task, z[:, 0])
    assert np.ptp(model.predict(x)) < 0.2


def test_a_given_ridge_is_used():
    model = DualEmbedding(n_features=30, regularization=0.3).fit(*TABLES)
    assert model.regularization_ == 0.3
    smooth = DualEmbedding(n_features=30, regularization=1e6).fit(*TABLES)
    assert np.ptp(smooth.predict(GRID)) < 1e-2 * np.ptp(model.predict(GRID))


def test_labels_in_x_are_refused():
    words = np.where(PROBLEM.x > 0, "up", "down")
    with refused("x", ArgumentTypeError):
        DualEmbedding().fit(words, *TABLES[1:])


# ---- where y is distributed otherwise in the two tables -------------------------------------------------------


def test_the_density_ratio_of_numbers_is_the_true_one():
    """Pairs are uniform on [0, 1]; task rows have density 2y."""
    rng = np.random.default_rng(0)
    y, y_task = rng.uniform(0, 1, (4000, 1)), np.sqrt(rng.uniform(0, 1, (4000, 1)))
    psi = Nystrom.pivoted(RBF(0.5), y, 10).transform
    ratio = dual._Dual(tabulated(psi, y), tabulated(psi, y_task), np.zeros((4000, 1)), is_smooth=True).ratio
    assert ratio.mean() == pytest.approx(1.0)
    inner = (y[:, 0] > 0.1) & (y[:, 0] < 0.9)
    assert np.abs(ratio - 2 * y)[inner].max() < 0.15
    np.testing.assert_allclose((psi(y) * ratio).mean(axis=0), psi(y_task).mean(axis=0), atol=3e-3)


def test_the_density_ratio_of_labels_is_that_of_their_proportions():
    y, y_task = (np.array(list(labels), dtype=object)[:, None] for labels in ("aabbbc", "caabc"))
    psi = Nystrom.pivoted(Categorical(), np.concatenate([y, y_task]), 10).transform
    ratio = dual._Dual(tabulated(psi, y), tabulated(psi, y_task), np.zeros((5, 1)), is_smooth=False).ratio[:, 0]
    proportions = np.array([0.4 / (2 / 6), 0.2 / (3 / 6), 0.4 / (1 / 6)])
    np.testing.assert_allclose(ratio, proportions[[0, 0, 1, 1, 1, 2]], rtol=1e-5)


def test_tables_with_other_mediators_need_the_weights(monkeypatch):
    """Task rows crowd where y is large; without weights pairs are asked for the wrong mean."""
    crowded = 12.0 * np.random.default_rng(5).beta(2.0, 1.0, (1000, 1)) - 6.0
    tables = large_tables(1000, 1000, task_y=crowded)

    def error():
        return np.sqrt(np.mean((DualEmbedding(n_features=80).fit(*tables).predict(GRID) - TRUTH) ** 2))

    weighted, plain = error(), dual._Dual.cross

    def unweighted(self, phi):
        self.ratio = np.ones_like(self.ratio)
        return plain(self, phi)

    monkeypatch.setattr(dual._Dual, "cross", unweighted)
    assert weighted < 0.3
    assert error() > 2 * weighted


# ---- labels --------------------------------------------------------------------------------------------------


def test_labels_make_it_a_ridge_regression_of_means_on_mean_features():
    """u has a value of its own for each label, so f fits the mean of z with the mean of φ(x), label by label."""
    rng = np.random.default_rng(0)
    group = rng.integers(12, size=90)
    x = rng.uniform(-2, 2, (90, 1)) + 0.2 * group[:, None]
    task = np.concatenate([np.arange(12), rng.integers(12, size=8)])
    means = np.array([np.sin(x[group == g]).mean() for g in range(12)])
    z = means[task] + 0.05 * rng.standard_normal(20)
    names = np.array([f"day {g}" for g in range(12)])
    model = DualEmbedding(n_features=30).fit(x, names[group], names[task], z)
    features = model.features_x_(x)
    phi = np.array([features[group == g].mean(axis=0) for g in range(12)])
    share = np.bincount(task) / 20
    centered = np.array([z[task == g].mean() for g in range(12)]) - z.mean()
    nu = model.regularization_ / 20
    w = np.linalg.solve(phi.T @ (share[:, None] * phi) + nu * np.eye(phi.shape[1]), phi.T @ (share * centered))
    at = np.linspace(-1, 3, 9)[:, None]
    np.testing.assert_allclose(model.predict(at), model.features_x_(at) @ w + z.mean(), rtol=1e-3, atol=1e-4)


def test_labels_of_one_table_alone_do_not_count():
    x = np.arange(8.0)[:, None]
    y, y_task, z = np.array(list("aabbccdd")), np.array(list("abce")), np.array([0.5, 2.5, 4.5, 3.0])
    model, other = (
        DualEmbedding(n_features=20, regularization=0.1).fit(x, np.where(y == "d", name, y), y_task, z)
        for name in ("d", "f")
    )
    np.testing.assert_allclose(model.predict(x[:6]), other.predict(x[:6]), rtol=1e-6)


def test_labels_beside_numbers():
    """In one season x rises with y, in the other it falls: without the label y says nothing about x."""
    rng = np.random.default_rng(1)

    def table(count):
        y = rng.uniform(-2, 2, count)
        season = np.where(rng.uniform(size=count) < 0.5, "summer", "winter")
        mediator = np.empty((count, 2), dtype=object)
        mediator[:, 0], mediator[:, 1] = y, season
        return mediator, np.where(season == "summer", y, -y) + 0.2 * rng.standard_normal(count)

    (y, x), (y_task, hidden) = table(400), table(400)
    model = DualEmbedding(n_features=100).fit(x, y, y_task, hidden + 0.1 * rng.standard_normal(400))
    at = np.linspace(-1.5, 1.5, 7)
    np.testing.assert_allclose(model.predict(at), at, atol=0.25)


def test_ten_labels_beside_numbers():
    """Each label has a center of its own that x is near."""
    rng = np.random.default_rng(500)
    centers = rng.uniform(-2, 2, 10)

    def table(count):
        label, y = rng.integers(10, size=count), rng.uniform(-1, 1, count)
        mediator = np.column_stack([y.astype(object), [f"place {k}" for k in label]])
        return mediator, centers[label] + y + 0.3 * rng.standard_normal(count)

    (y, x), (y_task, hidden) = table(500), table(500)
    z = np.sin(1.5 * hidden) + 0.1 * rng.standard_normal(500)
    at = np.linspace(-1.5, 1.5, 31)
    error = DualEmbedding(n_features=100).fit(x, y, y_task, z).predict(at) - np.sin(1.5 * at)
    assert np.sqrt(np.mean(error**2)) < 0.1
