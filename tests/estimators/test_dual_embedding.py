"""DualEmbedding: the saddle point, by hand and by stochastic updates, the density ratio, and labels."""

import numpy as np
import pytest
from expected import refused, warned
from sklearn.exceptions import ConvergenceWarning

from decond.errors import ArgumentTypeError, DataWarning
from decond.estimators import DualEmbedding, dual, saddle, saddle_choice
from decond.estimators.coded import CodedMediator, Indicators, SignedFourier, coded
from decond.estimators.feature_rows import feature_rows
from decond.estimators.saddle import Saddle, density_ratio, descend, solve
from decond.estimators.saddle_choice import LABEL_RIDGE, choose
from decond.features import RandomFourier
from decond.kernels import RBF
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


def by_hand(phi, psi, psi_task, z, ratio, nu, eta):
    """Return w and v of the saddle point as one linear system: both gradients are zero."""
    p, q = phi.shape[1], psi.shape[1]
    C = sum(r * np.outer(b, a) for r, a, b in zip(ratio, phi, psi, strict=True)) / len(phi)
    G = psi_task.T @ psi_task / len(psi_task) + eta * np.eye(q)
    system = np.block([[nu * np.eye(p), C.T], [C, -G]])
    right = np.concatenate([np.zeros((p, z.shape[1])), psi_task.T @ z / len(z)])
    solution = np.linalg.solve(system, right)
    return solution[:p], solution[p:]


def a_saddle(n, m, columns=1, nu=1e-4, eta=1e-4):
    x, y, y_task, z = large_tables(n, m)
    standard = (z - z.mean()) / z.std()
    targets = np.column_stack([standard, standard**2 - 1.0])[:, :columns]
    phi, psi = RandomFourier(RBF(1.5), 20, 0), RandomFourier(RBF(0.7), 25, 1)
    rows = [feature_rows(features, table) for features, table in ((phi, x), (psi, y), (psi, y_task))]
    ratio = density_ratio(rows[1], rows[2], 1e-3)
    return Saddle(*rows, targets, ratio, nu, eta)


# ---- the saddle point ----------------------------------------------------------------------------------------


def test_the_closed_form_is_where_both_gradients_vanish():
    problem = a_saddle(120, 90, columns=2)
    found = solve(problem)
    w, v = by_hand(problem.phi[:], problem.psi[:], problem.psi_task[:], problem.z, problem.ratio, 1e-4, 1e-4)
    np.testing.assert_allclose(found.w, w, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.v, v, rtol=1e-6, atol=1e-8)
    for part in problem.gradient(found):
        np.testing.assert_allclose(part, 0.0, atol=1e-12)


@pytest.mark.parametrize("kept", [True, False])
def test_stochastic_updates_come_to_the_closed_form(kept, monkeypatch):
    """Steps are first scaled by 300 of 3,000 pairs, and each update sees 200 rows of either table."""
    if not kept:
        monkeypatch.setattr("decond.estimators.feature_rows.KEPT", 0)
    problem = a_saddle(3000, 2500, columns=2)
    exact = problem.phi[:] @ solve(problem).w
    start = problem.phi[:] @ descend(problem, 200, 0, 1e-5, 300, np.random.default_rng(0)).point.w
    found = descend(problem, 200, 60, 1e-5, 300, np.random.default_rng(0))
    away = np.sqrt(np.mean((problem.phi[:] @ found.point.w - exact) ** 2))
    assert 0 < found.epochs < 60
    assert found.distance <= 1e-5
    assert away < 5e-5  # in deviations of the targets
    assert np.sqrt(np.mean((start - exact) ** 2)) > 1000 * away


def test_all_pairs_in_the_sample_make_the_first_step_the_last():
    problem = a_saddle(150, 100)
    found = descend(problem, 10, 60, 1e-9, 150, np.random.default_rng(0))
    assert found.epochs == 0
    np.testing.assert_allclose(found.point.w, solve(problem).w, rtol=1e-8, atol=1e-10)


def test_epochs_that_lead_away_are_undone(monkeypatch):
    problem = a_saddle(3000, 2500)
    start = descend(problem, 20, 0, 1e-5, 100, np.random.default_rng(0)).distance
    monkeypatch.setattr(saddle.Curvature, "noise", lambda *_: 0.0)  # steps as if batches were all rows
    found = descend(problem, 20, 15, 1e-5, 100, np.random.default_rng(0))
    assert found.distance < start


# ---- the estimator -------------------------------------------------------------------------------------------


def exact_predictions(model, tables, at):
    """Return what the closed form predicts, with the features and ridges that the estimator has chosen."""
    x, y, y_task, z = tables
    features = RandomFourier(RBF(model.lengthscale_y_), model.n_features // 2, model.seed + 1)
    psi, psi_task = features(y), features(y_task)
    rows = min(len(x), len(z))
    finer = RandomFourier(RBF(model.lengthscale_y_ / 2), model.n_features, model.seed + 1)
    moments = finer(y).T @ finer(y) / len(y) + 0.5 / rows * np.eye(2 * model.n_features)
    ratio = np.maximum(finer(y) @ np.linalg.solve(moments, finer(y_task).mean(axis=0)), 0.0)
    standard = ((z - z.mean()) / z.std())[:, None]
    nu, eta = model.regularization_ / rows, 0.05 / rows
    w, _ = by_hand(model.features_x_(x), psi, psi_task, standard, ratio / ratio.mean(), nu, eta)
    return z.mean() + z.std() * (model.features_x_(at) @ w)[:, 0]


def test_predictions_are_those_of_the_closed_form():
    model = DualEmbedding(n_features=60).fit(*TABLES)
    np.testing.assert_allclose(model.predict(GRID), exact_predictions(model, TABLES, GRID), rtol=1e-5, atol=1e-5)
    assert model.n_epochs_ == 0


def test_predictions_from_many_rows_are_those_of_the_closed_form_within_the_tolerance():
    tables = large_tables(dual.SAMPLE + 1000, 2500)
    model = DualEmbedding(n_features=60, batch_size=500).fit(*tables)
    exact = exact_predictions(model, tables, tables[0])
    assert 0 < model.n_epochs_ < model.max_epochs
    away = np.sqrt(np.mean((model.predict(tables[0]) - exact) ** 2)) / tables[3].std()
    assert away < 3 * model.tolerance


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


def test_the_seed_may_be_none_or_a_generator():
    def predictions(seed):
        return DualEmbedding(n_features=30, regularization=1.0, seed=seed).fit(*TABLES).predict(GRID)

    np.testing.assert_array_equal(predictions(None), predictions(0))
    drawn = int(np.random.default_rng(3).integers(2**31))
    np.testing.assert_array_equal(predictions(np.random.default_rng(3)), predictions(drawn))
    with refused("seed"):
        predictions("a")


def test_a_given_ridge_is_used():
    model = DualEmbedding(n_features=30, regularization=0.3).fit(*TABLES)
    assert model.regularization_ == 0.3
    smooth = DualEmbedding(n_features=30, regularization=1e6).fit(*TABLES)
    assert np.ptp(smooth.predict(GRID)) < 1e-2 * np.ptp(model.predict(GRID))


def test_updates_that_do_not_end_are_warned_of():
    hasty = DualEmbedding(n_features=20, batch_size=200, max_epochs=1, tolerance=1e-9, regularization=1.0)
    with pytest.warns(ConvergenceWarning):
        hasty.fit(*large_tables(dual.SAMPLE + 500, 500))
    assert hasty.distance_ > 1e-9
    assert hasty.n_epochs_ == 1


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [("n_features", 0), ("batch_size", 0), ("max_epochs", 0), ("tolerance", 0.0), ("regularization", -1.0)],
)
def test_settings_that_make_no_sense_are_named(setting, wrong):
    with refused(setting):
        DualEmbedding(**{setting: wrong}).fit(*TABLES)


def test_labels_in_x_are_refused():
    words = np.where(PROBLEM.x > 0, "up", "down")
    with refused("x", ArgumentTypeError):
        DualEmbedding().fit(words, *TABLES[1:])


# ---- where y is distributed otherwise in the two tables -------------------------------------------------------


def test_the_density_ratio_of_numbers_is_the_true_one():
    """Pairs are uniform on [0, 1]; task rows have density 2y."""
    rng = np.random.default_rng(0)
    y, y_task = rng.uniform(0, 1, (4000, 1)), np.sqrt(rng.uniform(0, 1, (4000, 1)))
    features = RandomFourier(RBF(0.5), 30, 0)
    ratio = density_ratio(feature_rows(features, y), feature_rows(features, y_task), 1e-5)
    assert ratio.mean() == pytest.approx(1.0)
    inner = (y[:, 0] > 0.1) & (y[:, 0] < 0.9)
    assert np.abs(ratio - 2 * y[:, 0])[inner].max() < 0.15
    psi, task = features(y), features(y_task)
    np.testing.assert_allclose((psi * ratio[:, None]).mean(axis=0), task.mean(axis=0), atol=3e-3)


def test_the_density_ratio_of_labels_is_that_of_their_shares():
    y = CodedMediator(np.array([[0.0], [0], [1], [1], [1], [2]]), np.array([[2.0], [0], [1], [2]]), 3)
    features = y.features(None, 10, 0)
    ratio = density_ratio(feature_rows(features, y.pairs), feature_rows(features, y.task), 1e-9)
    shares = np.array([0.25 / (2 / 6), 0.25 / (3 / 6), 0.5 / (1 / 6)])
    np.testing.assert_allclose(ratio, shares[[0, 0, 1, 1, 1, 2]], rtol=1e-6)


def test_tables_with_other_mediators_need_the_weights(monkeypatch):
    """Task rows crowd where y is large; without weights pairs are asked for the wrong mean."""
    crowded = 12.0 * np.random.default_rng(5).beta(2.0, 1.0, (1000, 1)) - 6.0
    tables = large_tables(1000, 1000, task_y=crowded)

    def error():
        return np.sqrt(np.mean((DualEmbedding(n_features=80).fit(*tables).predict(GRID) - TRUTH) ** 2))

    weighted = error()
    for module in (dual, saddle_choice):
        monkeypatch.setattr(module, "pair_weights", lambda mediator, *_: np.ones(len(mediator.pairs)))
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
    assert model.lengthscale_y_ is None
    phi = np.array([model.features_x_(x)[group == g].mean(axis=0) for g in range(12)])
    share = np.bincount(task) / 20
    centered = np.array([z[task == g].mean() for g in range(12)]) - z.mean()
    nu = model.regularization_ / 20
    w = np.linalg.solve(phi.T @ (share[:, None] * phi) + nu * np.eye(30), phi.T @ (share * centered))
    at = np.linspace(-1, 3, 9)[:, None]
    np.testing.assert_allclose(model.predict(at), model.features_x_(at) @ w + z.mean(), rtol=1e-3, atol=1e-4)
    assert LABEL_RIDGE < 1e-3


def test_labels_of_one_table_alone_are_left_out():
    x = np.arange(8.0)[:, None]
    y, y_task, z = np.array(list("aabbccdd")), np.array(list("abce")), np.array([0.5, 2.5, 4.5, 100.0])
    with warned(DataWarning, argument="y_task"):
        model = DualEmbedding(n_features=20).fit(x, y, y_task, z)
    inner = DualEmbedding(n_features=20).fit(x[:6], y[:6], y_task[:3], z[:3])
    np.testing.assert_array_equal(model.predict(x), inner.predict(x))


def test_signs_keep_labels_apart_beside_numbers():
    features = SignedFourier(RandomFourier(RBF(1.0), 4000, 0), 2, 0)
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    gram = features.transform(rows) @ features.transform(rows).T
    np.testing.assert_allclose(gram, [[1, np.exp(-0.5), 0], [np.exp(-0.5), 1, 0], [0, 0, 1]], atol=0.05)


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
    mediator, pairs, task = coded(y, y_task, hidden)
    assert mediator.n_labels == 2
    assert not mediator.only_labels
    assert pairs.all()
    assert task.all()


def test_ten_labels_beside_numbers():
    """Each label has a center of its own that x is near; judged as finely as without labels, f came out too flat."""
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


def test_more_labels_than_features_keep_apart_are_warned_of():
    y = np.column_stack([np.arange(60.0).astype(object), [f"place {k % 6}" for k in range(60)]])
    crowded = DualEmbedding(n_features=22, regularization=1.0)
    with warned(DataWarning, argument="y"):
        crowded.fit(np.arange(60.0), y, y, np.arange(60.0))
    crowded.set_params(n_features=24).fit(np.arange(60.0), y, y, np.arange(60.0))


def test_one_label_beside_numbers_changes_nothing():
    same = [np.column_stack([rows.astype(object), np.full(len(rows), "a")]) for rows in TABLES[1:3]]
    labelled = DualEmbedding(n_features=40).fit(PROBLEM.x, *same, PROBLEM.z_task)
    plain = DualEmbedding(n_features=40).fit(*TABLES)
    np.testing.assert_allclose(labelled.predict(GRID), plain.predict(GRID), rtol=1e-5, atol=1e-5)


def test_of_many_labels_the_choice_takes_some():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(300.0), 10)[:, None]
    mediator = CodedMediator(codes, np.arange(300.0)[:, None], 300)
    pairs, task = mediator.sample(1000, rng)
    assert len(pairs) == 1000
    assert len(task) == 100
    assert set(codes[pairs, 0]) == set(mediator.task[task, 0])
    some = mediator.part(pairs, task).recoded()
    assert some.n_labels == 100
    assert set(some.pairs[:, 0]) == set(range(100))
    x = rng.uniform(size=(3000, 1)) + codes / 100
    chosen = choose(x, mediator, np.sin(np.arange(300.0) / 100)[:, None], 20, 0)
    assert np.isfinite(chosen.loss)


def test_of_labels_with_many_rows_the_choice_takes_all_labels():
    """A sample of whole labels would hold two of these sixty."""
    codes = np.repeat(np.arange(60.0), 600)[:, None]
    mediator = CodedMediator(codes, np.repeat(np.arange(60.0), 2)[:, None], 60)
    pairs, task = mediator.sample(1000, np.random.default_rng(0))
    assert len(set(pairs)) == 1000
    assert sorted(task) == list(range(120))
    assert set(np.bincount(codes[pairs, 0].astype(int), minlength=60)) == {16, 17}


def test_of_labels_with_some_rows_a_sample_leaves_fifteen_to_each():
    codes = np.concatenate([np.repeat(np.arange(200.0), 30), np.arange(200.0, 300.0)])[:, None]
    mediator = CodedMediator(codes, np.arange(300.0)[:, None], 300)
    pairs, task = mediator.sample(1000, np.random.default_rng(0))
    assert len(pairs) <= 1000
    counts = np.bincount(codes[pairs, 0].astype(int), minlength=300)
    assert set(np.flatnonzero(counts)) == set(task)
    assert set(counts[200:]) == {0, 1}
    assert set(counts[:200][counts[:200] > 0]) <= set(range(15, 31))


def test_indicators_are_never_written_out_and_give_the_same():
    rng = np.random.default_rng(0)
    codes, weights = rng.integers(7, size=(50, 1)).astype(float), rng.standard_normal((50, 3))
    written = np.eye(7)[codes[:, 0].astype(int)]
    rows, some = feature_rows(Indicators(7), codes), np.arange(0, 50, 3)
    moment = written.T @ written / 50 + 0.1 * np.eye(7)
    np.testing.assert_allclose(rows.covariance(0.1).solve(np.eye(7)), np.linalg.inv(moment))
    np.testing.assert_allclose(rows.mean(weights), written.T @ weights / 50)
    np.testing.assert_allclose(rows.some(some).values(weights[:7]), written[some] @ weights[:7])
    white = written[some] / np.sqrt(np.diag(moment))
    np.testing.assert_allclose(rows.some(some).norms(rows.covariance(0.1)), np.linalg.norm(white, axis=1))
    weighted = white * weights[some, :1]
    largest = np.linalg.eigvalsh(weighted.T @ weighted / len(some))[-1]
    assert rows.some(some).spread(rows.covariance(0.1), weights[some, 0]) == pytest.approx(largest)
    huge = feature_rows(Indicators(10**6), np.arange(10.0)[:, None])  # its covariance would be 8 TB
    assert huge.covariance(1.0).solve(np.ones((10**6, 1))).sum() == pytest.approx(10 / 1.1 + 10**6 - 10)
