"""Two large tables: gradients, sums in any order and from anywhere, units, files, and what is refused."""

import warnings

import dask.array
import distributed
import numpy as np
import pandas as pd
import pytest
from expected import refused
from sklearn.exceptions import NotFittedError

from decond import load, save
from decond.errors import ArgumentTypeError
from decond.estimators import TaskTransformedFeatures, TaskTransformedGP
from decond.features import Identity, Nystrom, Polynomial, RandomFourier
from decond.gp import BoundWarning
from decond.kernels import RBF, Matern32
from decond.problems import LatentFunctionProblem, latent_function
from decond.streaming import Batches, ChunkSettings, FeatureModel, ParquetTable, Source, Table, Tables

QUERY = np.linspace(-4.0, 4.0, 9)[:, None]
MAPS = (RandomFourier(RBF(1.0), 40), RandomFourier(RBF(0.5), 40, seed=1))


@pytest.fixture(scope="module")
def toy():
    p = latent_function(300, 400)
    return p.x, p.y, p.y_task, p.z_task


@pytest.fixture(scope="module")
def whole(toy):
    return TaskTransformedFeatures(*MAPS).fit(*toy)


def assert_same(one, other):
    """Answers agree to 1e-8, whatever way the rows came."""
    for ours, theirs in zip(one.predict(QUERY, return_std=True), other.predict(QUERY, return_std=True), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)
    assert one.noise_ == pytest.approx(other.noise_, rel=1e-8)
    assert one.log_marginal_likelihood() == pytest.approx(other.log_marginal_likelihood(), rel=1e-8)


# ---- gradients -----------------------------------------------------------------------------------------------


def two_columns(n=60, m=50):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 2))
    y, y_task = x[:, :1] + 0.3 * rng.standard_normal((n, 1)), rng.standard_normal((m, 1))
    return x, y, y_task, np.column_stack([np.sin(2.0 * y_task[:, 0]), y_task[:, 0] ** 2])


@pytest.mark.parametrize("mediator", ["full", "map"])
@pytest.mark.parametrize("kind", ["fourier", "landmarks", "polynomial"])
def test_gradients_agree_with_differences(kind, mediator):
    x, y, y_task, z = two_columns()
    maps = {
        "fourier": (RandomFourier(Matern32([1.0, 2.0]), 6), RandomFourier(RBF(0.7), 5, 1)),
        "landmarks": (Nystrom(Matern32([1.0, 2.0]), x[:8]), Nystrom(RBF(0.5), y[:6])),
        "polynomial": (Polynomial(2, offset=0.5), Nystrom(RBF(0.5), y[:6])),
    }[kind]
    model = FeatureModel(*maps, noise=0.3, variance_x=1.4, variance_y=2.2, mediator=mediator)
    tables = Tables(Table(x, y), Table(y_task, z))
    value, gradient = model.log_evidence_and_gradient(tables)
    assert value == pytest.approx(model.log_evidence(tables), rel=1e-12)
    assert set(gradient) == set(model.values())
    for path, start in model.values().items():
        slopes = np.atleast_1d(gradient[path])
        for i, slope in enumerate(slopes):
            step = np.zeros(len(slopes))
            step[i] = 1e-5
            ends = [model.with_values({path: start + (s if np.ndim(start) else s[0])}) for s in (step, -step)]
            difference = (ends[0].log_evidence(tables) - ends[1].log_evidence(tables)) / 2e-5
            assert slope == pytest.approx(difference, rel=1e-5, abs=1e-5), path


def test_gradients_do_not_depend_on_the_blocks():
    x, y, y_task, z = two_columns()
    model = FeatureModel(Nystrom(Matern32([1.0, 2.0]), x[:8]), RandomFourier(RBF(0.5), 5))
    value, gradient = model.log_evidence_and_gradient(Tables(Table(x, y), Table(y_task, z)))
    low = ChunkSettings(rows=16)
    again, cut = model.log_evidence_and_gradient(Tables(Table(x, y, chunks=low), Table(y_task, z, chunks=low)))
    assert again == pytest.approx(value, rel=1e-12)
    for path, slope in gradient.items():
        np.testing.assert_allclose(cut[path], slope, rtol=1e-8, atol=1e-9)


# ---- rows from anywhere, in any order ------------------------------------------------------------------------


def blocks(a, b, size):
    return [(a[i : i + size], b[i : i + size]) for i in range(0, len(a), size)]


def test_blocks_and_files_give_the_same_answer(toy, whole, tmp_path):
    x, y, y_task, z = toy
    batches = TaskTransformedFeatures(*MAPS).fit(Batches(blocks(x, y, 70)), Batches(blocks(y_task, z, 33)))
    assert_same(batches, whole)
    pd.DataFrame({"x": x[:, 0], "y": y[:, 0]}).to_parquet(tmp_path / "pairs.parquet", row_group_size=50)
    pd.DataFrame({"y": y_task[:, 0], "z": z}).to_parquet(tmp_path / "task.parquet", row_group_size=90)
    pairs, task = (ParquetTable(tmp_path / f"{a}.parquet", *b) for a, b in (("pairs", "xy"), ("task", "yz")))
    files = TaskTransformedFeatures(*MAPS).fit(pairs, task)
    np.testing.assert_allclose(files.predict(pd.DataFrame({"x": QUERY[:, 0]})), whole.predict(QUERY), rtol=1e-8)
    assert list(files.feature_names_in_) == ["x"]


def test_a_cluster_gives_the_same_answer(toy, whole):
    with distributed.Client(processes=False, dashboard_address="127.0.0.1:0", set_as_default=False) as client:
        there = TaskTransformedFeatures(n_features=15).fit(*toy, client=client)
        collections = [dask.array.from_array(table, chunks=(100, *table.shape[1:])) for table in toy]
        assert_same(TaskTransformedFeatures(*MAPS).fit(*collections, client=client), whole)
    assert_same(there, TaskTransformedFeatures(n_features=15).fit(*toy))


@pytest.mark.parametrize("order", ["task first", "pairs first", "in turns"])
def test_rows_may_come_in_any_order(toy, whole, order):
    x, y, y_task, z = toy
    pairs = [(a, b, None, None) for a, b in blocks(x, y, 110)]
    task = [(None, None, a, b) for a, b in blocks(y_task, z, 150)]
    calls = {
        "task first": task[::-1] + pairs,
        "pairs first": pairs[::-1] + task,
        "in turns": [(*a[:2], *b[2:]) for a, b in zip(pairs, task, strict=True)],
    }[order]
    model = TaskTransformedFeatures(*MAPS)
    for call in calls:
        assert model.partial_fit(*call) is model
    assert_same(model, whole)


def test_targets_far_from_zero_keep_their_digits(toy, whole):
    x, y, y_task, z = toy
    model = TaskTransformedFeatures(*MAPS)
    for a, b in blocks(y_task, z + 1e6, 150):
        model.partial_fit(None, None, a, b)
    model.partial_fit(x, y)
    np.testing.assert_allclose(model.predict(QUERY) - 1e6, whole.predict(QUERY), atol=1e-7)


def test_two_models_merge_into_one(toy, whole):
    x, y, y_task, z = toy
    here = TaskTransformedFeatures(*MAPS).partial_fit(x[:120], y[:120], y_task[:50], z[:50])
    there = TaskTransformedFeatures(*MAPS).partial_fit(x[120:], y[120:], y_task[50:], z[50:])
    assert here.merge(there) is here
    assert_same(here, whole)
    only_task = TaskTransformedFeatures(*MAPS).partial_fit(None, None, y_task, z)
    only_pairs = TaskTransformedFeatures(*MAPS).partial_fit(x, y)
    assert_same(only_task.merge(only_pairs), whole)


def test_learned_features_serve_another_model(toy):
    x, y, y_task, z = toy
    first = TaskTransformedFeatures(n_features=15).fit(x[:150], y[:150], y_task[:200], z[:200])
    second = TaskTransformedFeatures(first.features_x_, first.features_y_)
    second.partial_fit(x[150:], y[150:], y_task[200:], z[200:])
    later = first.features_x_
    assert_same(second.merge(first), first.partial_fit(x[150:], y[150:], y_task[200:], z[200:]))
    assert first.features_x_ is later


def test_each_table_is_read_once_with_features_that_are_given(toy, whole):
    x, y, y_task, z = toy
    pairs, task = Counted(x, y), Counted(y_task, z)
    assert_same(TaskTransformedFeatures(*MAPS).fit(pairs, task), whole)
    assert (pairs.passes, task.passes) == (1, 1)
    pairs, task = Counted(x, y), Counted(y_task, z)
    TaskTransformedFeatures(n_features=10).fit(pairs, task)
    assert (pairs.passes, task.passes) == (2, 2)  # the first for a sample


class Counted(Source):
    """A table that counts how often it is read."""

    def __init__(self, x, z):
        self.table, self.passes = Table(x, z), 0
        self.flat = self.table.flat

    @property
    def width(self):
        return self.table.width

    def total(self, work):
        self.passes += 1
        return self.table.total(work)

    def __len__(self):
        return len(self.table)


# ---- learning ------------------------------------------------------------------------------------------------


def test_many_features_are_as_good_as_the_exact_model(toy):
    truth = LatentFunctionProblem.f(QUERY)[:, 0]
    settings = {"kernel_x": 0.8 * RBF(1.0), "kernel_y": 0.7 * RBF(0.35), "noise": 0.35, "optimize": False}
    exact = TaskTransformedGP(**settings).fit(*toy)
    finite = TaskTransformedFeatures(**settings, n_features=80).fit(*toy)
    for ours, theirs in zip(finite.predict(QUERY, True), exact.predict(QUERY, True), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3)
    mean, std = TaskTransformedFeatures(n_features=60).fit(*toy).predict(QUERY, return_std=True)
    assert np.all(np.abs(mean - truth) < 3.0 * std)


def test_noise_and_variances_are_where_the_evidence_is_largest(toy, whole):
    """With both prior variances expected within a factor of e of that of the targets."""
    x, y, _, z = toy
    expected = {
        "variance_x": z.var() / (MAPS[0](x) ** 2).sum(axis=1).mean(),
        "variance_y": z.var() / (MAPS[1](y) ** 2).sum(axis=1).mean(),
    }
    model, sums = whole.posterior_.model, whole.posterior_.statistics

    def objective(**changes):
        values = {**model.values(), **changes}
        priors = sum(-0.5 * np.log(values[path] / median) ** 2 for path, median in expected.items())
        return model.with_values(changes).log_evidence(sums) + priors

    best = objective()
    assert whole.fit_result_.status == "converged"
    for path in ("noise", "variance_x", "variance_y"):
        assert max(objective(**{path: model.values()[path] * factor}) for factor in (0.95, 1.05)) < best


def test_lengthscales_of_a_sample_raise_the_evidence(toy):
    learned, given = (
        TaskTransformedFeatures(n_features=15, lengthscales=kind, sample_size=60).fit(*toy)
        for kind in ("subsample", "given")
    )
    assert given.log_marginal_likelihood() < learned.log_marginal_likelihood()


def test_nothing_is_learned_unless_asked_for(toy):
    settings = {"kernel_x": 2.0 * RBF(1.5), "kernel_y": 3.0 * RBF(0.5), "noise": 0.4, "n_features": 20}
    model = TaskTransformedFeatures(**settings, optimize=False).fit(*toy)
    found = model.posterior_.model
    assert (found.noise, found.variance_x, found.variance_y) == (0.4, 2.0, 3.0)
    assert found.features_x.base.lengthscale == 1.5
    assert model.fit_result_ is None
    partly = TaskTransformedFeatures(**settings, lengthscales="given").fit(*toy)
    assert partly.features_x_.base.lengthscale == 1.5
    assert set(partly.fit_result_.parameters) == {"noise", "variance_x", "variance_y"}


def test_far_from_all_landmarks_f_is_as_uncertain_as_before(toy):
    model = TaskTransformedFeatures(n_features=30).fit(*toy)
    _, std = model.predict([[1e6]], return_std=True)
    assert std[0] == pytest.approx(np.sqrt(model.posterior_.model.variance_x), rel=1e-6)


def test_linear_features_recover_a_line():
    rng = np.random.default_rng(0)
    y, y_task = rng.uniform(-1, 1, (5000, 1)), rng.uniform(-1, 1, (5000, 1))
    x, x_task = 2.0 * y + rng.standard_normal(y.shape), 2.0 * y_task + rng.standard_normal(y.shape)
    z = 3.0 * x_task[:, 0] + 0.1 * rng.standard_normal(5000)
    model = TaskTransformedFeatures(Identity(), Identity(), mean="zero").fit(x, y, y_task, z)
    mean, std = model.predict([[1.0]], return_std=True)
    assert abs(mean[0] - 3.0) < 3.0 * std[0] < 0.3


# ---- files, shapes and what is refused -----------------------------------------------------------------------


def test_a_saved_model_answers_alike_and_goes_on(toy, tmp_path):
    x, y, y_task, z = toy
    model = TaskTransformedFeatures(n_features=15).fit(x[:200], y[:200], y_task, np.column_stack([z, z**2]))
    save(model, tmp_path / "model.decond")
    loaded = load(tmp_path / "model.decond")
    for ours, theirs in zip(loaded.predict(QUERY, True), model.predict(QUERY, True), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.fit_result_.parameters.keys() == model.fit_result_.parameters.keys()
    assert loaded.log_marginal_likelihood() == model.log_marginal_likelihood()
    assert_same(loaded.partial_fit(x[200:], y[200:]), model.partial_fit(x[200:], y[200:]))


def test_a_model_that_has_read_one_table_says_what_is_missing(toy):
    x, y, y_task, z = toy
    with pytest.raises(NotFittedError, match=r"\(y_task, z_task\)"):
        TaskTransformedFeatures().partial_fit(x, y).predict(QUERY)
    with pytest.raises(NotFittedError, match=r"\(x, y\)"):
        TaskTransformedFeatures(*MAPS).partial_fit(None, None, y_task, z).predict(QUERY)


def test_what_does_not_fit_is_refused(toy, whole):
    x, y, y_task, z = toy
    model = TaskTransformedFeatures(n_features=5)
    with refused("y_task"):  # fit needs both tables
        model.fit(x, y)
    with refused("x"):
        model.fit(None, Table(y_task, z))
    with refused("x"):  # the first rows have to be pairs
        model.partial_fit(None, None, y_task, z)
    with refused("y"):
        model.partial_fit(x, None, y_task, z)
    with refused("z_task"):
        model.partial_fit(x, y, y_task)
    with refused("x"):
        model.partial_fit()
    with refused("y_task"):
        model.fit(Table(x, y), Table(y_task, z), y_task, z)
    with refused("z_task"):
        model.fit(Table(x, y), Table(y_task, z), None, z)
    with refused("y_task"):
        model.fit(Table(x, y), Table(np.column_stack([y_task, y_task]), z))
    with refused("z_task"):
        TaskTransformedFeatures(*MAPS).fit(*toy).partial_fit(None, None, y_task, np.column_stack([z, z]))
    with refused("other"):  # other features
        whole.merge(TaskTransformedFeatures(n_features=5, optimize=False).fit(*toy))
    with refused("other", ArgumentTypeError):
        whole.merge(TaskTransformedGP())


def test_the_mediator_has_as_many_columns_everywhere(toy, whole, tmp_path):
    x, y, y_task, z = toy
    wide, wide_task = np.column_stack([y, y]), np.column_stack([y_task, y_task])

    def fresh():
        return TaskTransformedFeatures(*MAPS)

    save(whole, tmp_path / "model.decond")
    mistakes = {
        "other tables": ("y_task", lambda: fresh().fit(Table(x, y), Table(wide_task, z))),
        "later task": ("y_task", lambda: fresh().partial_fit(x, wide).partial_fit(None, None, y_task, z)),
        "later pairs": ("y_task", lambda: fresh().partial_fit(None, None, wide_task, z).partial_fit(x, y)),
        "other pairs": ("y", lambda: fresh().partial_fit(x, y).partial_fit(x, wide)),
        "merged": ("y_task", lambda: fresh().partial_fit(x, wide).merge(fresh().partial_fit(None, None, y_task, z))),
        "loaded": ("y", lambda: load(tmp_path / "model.decond").partial_fit(x, wide)),
    }
    for argument, mistake in mistakes.values():
        with refused(argument):
            mistake()


def test_sources_and_arrays_do_not_mix(toy):
    x, y, y_task, z = toy
    for array, given in {"y": (Table(x, y), y_task), "x": (x, Table(y_task, z))}.items():
        with refused(array, ArgumentTypeError):
            TaskTransformedFeatures(n_features=5).fit(*given)
    with refused("x", ArgumentTypeError):
        TaskTransformedFeatures(n_features=5).fit(x, y, Table(y_task, z))


@pytest.mark.parametrize("unit", [1e-150, 1e150])
def test_targets_whose_variances_have_no_squares_are_refused(toy, unit):
    x, y, y_task, z = toy
    with refused("z_task"):
        TaskTransformedFeatures(n_features=5).fit(x, y, y_task, z * unit)


@pytest.mark.parametrize("unit", [1e-50, 1e50])
def test_targets_in_extreme_units_give_the_same_answer(toy, whole, unit):
    x, y, y_task, z = toy
    model = TaskTransformedFeatures(*MAPS).fit(x, y, y_task, z * unit)
    mean, std = whole.predict(QUERY, return_std=True)
    assert np.all(np.abs(model.predict(QUERY) / unit - mean) < 0.01 * std)


def test_the_mediator_has_the_same_columns_in_the_same_order_everywhere(tmp_path):
    rng = np.random.default_rng(0)
    pairs = pd.DataFrame(rng.standard_normal((60, 3)), columns=["x", "p", "q"])
    task = pd.DataFrame(rng.standard_normal((60, 3)), columns=["p", "q", "z"])
    pairs.to_parquet(tmp_path / "pairs.parquet")
    task.to_parquet(tmp_path / "task.parquet")
    first = ParquetTable(tmp_path / "pairs.parquet", x="x", z=["p", "q"])
    turned = ParquetTable(tmp_path / "task.parquet", x=["q", "p"], z="z")
    model = TaskTransformedFeatures(n_features=5, optimize=False)
    with refused("y_task"):
        model.fit(first, turned)
    model.partial_fit(pairs[["x"]], pairs[["p", "q"]])
    with refused("y_task"):
        model.partial_fit(None, None, task[["q", "p"]], task["z"])
    model.partial_fit(None, None, task[["p", "q"]], task["z"])
    save(model, tmp_path / "model.decond")
    loaded = load(tmp_path / "model.decond")
    with refused("y_task"):
        loaded.partial_fit(None, None, task[["q", "p"]], task["z"])
    maps = (model.features_x_, model.features_y_)
    other = TaskTransformedFeatures(*maps, optimize=False).partial_fit(pairs[["x"]], pairs[["q", "p"]])
    with refused("other"):
        model.merge(other)


def test_labels_are_refused_with_what_takes_them():
    x, z = np.linspace(0.0, 1.0, 6), np.arange(2.0)
    with refused("y", ArgumentTypeError):
        TaskTransformedFeatures().fit(x, ["a", "a", "a", "b", "b", "b"], ["a", "b"], z)


def test_rows_in_the_order_of_the_mediator_are_no_reason_to_warn():
    y = np.linspace(0.0, 4.0, 200)
    model = TaskTransformedFeatures(n_features=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundWarning)
        for rows in np.array_split(np.arange(200), 4):
            model.partial_fit(np.sin(y[rows]), y[rows], y[::-1][rows], np.cos(y[::-1][rows]))
        assert np.isfinite(model.predict([[0.5]])).all()
