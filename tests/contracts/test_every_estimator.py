"""What every estimator must satisfy: scikit-learn's conventions, units that do not matter, tables of any shape."""

import copy
import functools
import inspect
import pickle
import tempfile
import warnings
from types import SimpleNamespace

import joblib
import numpy as np
import pandas as pd
import pytest
from expected import refused
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from decond import estimators, kernels
from decond.estimators.posterior_regressor import PosteriorRegressor
from decond.gp import BoundWarning
from decond.io import load, save
from decond.parameters import Parametrized, same

pytestmark = pytest.mark.filterwarnings(  # the tables here are tiny
    "ignore::decond.gp.BoundWarning",
    "ignore::decond.gp.NoSignalWarning",
    "ignore::decond.errors.ResolutionWarning",
)


def tables(n=24, m=20, seed=0):
    """Return rows of x in two columns, and everything that any estimator wants to know of them."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.uniform(-2, 2, n), rng.standard_normal(n)])
    y_task = rng.uniform(-2, 2, (m, 1))
    groups = np.arange(n) % max(2, n // 3)
    f = np.sin(x[:, 0]) + 0.3 * x[:, 1]
    count = groups.max() + 1
    z_groups = np.array([f[groups == j].mean() for j in range(count)]) + 0.05 * rng.standard_normal(count)
    M = rng.dirichlet(np.ones(n), m).T
    return SimpleNamespace(
        x=x,
        y=x[:, :1] + 0.2 * rng.standard_normal((n, 1)),
        y_task=y_task,
        z=np.sin(y_task[:, 0]) + 0.1 * rng.standard_normal(m),
        groups=groups,
        z_groups=z_groups,
        M=M,
        z_M=M.T @ f + 0.02 * rng.standard_normal(m),
        z_x=f + 0.1 * rng.standard_normal(n),
    )


TWO_TABLES = ("x", "y", "y_task", "z")
FITS = {
    "AggregateGP": ({"n_restarts": 0}, ("x", "groups", "z_groups")),
    "CascadeGP": ({"n_restarts": 0}, TWO_TABLES),
    "DirectGP": ({"n_restarts": 0}, ("x", "z_x")),
    "DualEmbedding": ({"n_features": 40}, TWO_TABLES),
    "EcologicalGP": ({"n_restarts": 0}, TWO_TABLES),
    "ImputeGP": ({"n_restarts": 0}, TWO_TABLES),
    "InstrumentalVariablesGP": ({"n_restarts": 0}, ("x", "y", "z", "y_task")),
    "SparseGP": ({"n_inducing": 10, "learn_inducing": False}, ("x", "z_x")),
    "TaskTransformedFeatures": ({"n_features": 20}, TWO_TABLES),
    "TaskTransformedGP": ({"n_restarts": 0}, TWO_TABLES),
    "TaskTransformedRidge": ({}, TWO_TABLES),
    "TransformedGP": ({"n_restarts": 0}, ("x", "M", "z_M")),
}
"""Settings that make a fit quick, and which of the tables `fit` takes, in its order. A new estimator belongs here."""

NAMES = [name for name in FITS if name in estimators.__all__]
TARGETS = ("z", "z_groups", "z_M", "z_x")
WITH_STD = [name for name in NAMES if issubclass(getattr(estimators, name), PosteriorRegressor)]
ORDINARY = ("DirectGP", "SparseGP")
"""Regressors of one table, with the names of scikit-learn (X, y) and its rule that X has two dimensions."""

X_NEW = np.array([[-1.0, 0.5], [0.0, 0.0], [1.2, -0.4]])


def make(name, **settings):
    return getattr(estimators, name)(**{**FITS[name][0], **settings})


def quick(name):
    """Return settings with which nothing is learned, where the estimator has them: for what does not depend on it."""
    return {"optimize": False} if "optimize" in inspect.signature(getattr(estimators, name)).parameters else {}


def fitted(name, data, **settings):
    return make(name, **settings).fit(*(getattr(data, part) for part in FITS[name][1]))


def changed(data, **changes):
    return SimpleNamespace(**{**vars(data), **changes})


def with_targets(data, change):
    """Return the tables with every kind of target changed by a function."""
    return changed(data, **{name: change(getattr(data, name)) for name in TARGETS})


def refuses(name, argument):
    """Expect that an argument is refused by name; ordinary regressors leave their tables to scikit-learn."""
    if name in ORDINARY:
        return pytest.raises(ValueError, match=r"\b([Xy]|NaN|features?|feature names)\b|sample")
    return refused(argument)


@pytest.fixture(params=NAMES, scope="module")
def name(request):
    return request.param


@pytest.fixture(params=WITH_STD, scope="module")
def gp_name(request):
    return request.param


@pytest.fixture(scope="module")
def data():
    return tables()


@functools.cache
def learned(name):
    """Return an estimator that was fitted to the tables that most tests here take."""
    return fitted(name, tables())


@pytest.fixture(scope="module")
def model(name):
    return learned(name)


def test_every_estimator_is_in_the_table_above():
    assert set(estimators.__all__) <= set(FITS)


# ---- parameters ----------------------------------------------------------------------------------------------


def equal(one, other):
    return same(one, other) if isinstance(one, Parametrized) else one == other


def test_parameters_go_in_and_out_unchanged(name):
    names = list(inspect.signature(getattr(estimators, name)).parameters)
    kernel = kernels.Matern52([1.0, 2.0])
    given = {key: kernel for key in ("kernel", "kernel_x") if key in names}
    given |= {key: value for key, value in {"noise": 0.7, "seed": 3, "regularization": 0.1}.items() if key in names}
    estimator = make(name, **given)
    parameters = estimator.get_params()
    assert sorted(parameters) == sorted(names)
    assert all(parameters[key] is value for key, value in given.items())
    copy = clone(estimator)
    assert copy is not estimator
    assert all(equal(value, parameters[key]) for key, value in copy.get_params().items())
    other = getattr(estimators, name)()
    assert other.set_params(**parameters) is other
    assert all(other.get_params()[key] is value for key, value in parameters.items())
    with pytest.raises(ValueError, match="width"):
        other.set_params(width=1.0)


def test_fitting_returns_the_estimator_and_touches_neither_parameters_nor_data(name, data):
    kernel = kernels.RBF([1.0, 2.0])
    names = inspect.signature(getattr(estimators, name)).parameters
    estimator = make(name, **quick(name), **{key: kernel for key in ("kernel", "kernel_x") if key in names})
    before = dict(estimator.get_params())
    own = {part: np.array(getattr(data, part)) for part in FITS[name][1]}
    kept = {part: value.copy() for part, value in own.items()}
    assert estimator.fit(*own.values()) is estimator
    assert all(estimator.get_params()[key] is value for key, value in before.items())
    np.testing.assert_array_equal(kernel.lengthscale, [1.0, 2.0])
    for part, value in kept.items():
        np.testing.assert_array_equal(own[part], value)
    answer = estimator.predict(X_NEW)
    for value in own.values():
        value[...] = 1  # the model has its own copies
    np.testing.assert_array_equal(estimator.predict(X_NEW), answer)


def test_the_same_seed_gives_the_same_answers(name, data, model):
    answer = model.predict(X_NEW)
    again = fitted(name, tables(8, 7))
    again.fit(*(getattr(data, part) for part in FITS[name][1]))  # a second fit starts afresh
    np.testing.assert_array_equal(again.predict(X_NEW), answer)


@pytest.mark.parametrize(
    ("taker", "settings"),
    [
        ("DualEmbedding", {"regularization": 1.0}),
        ("TaskTransformedFeatures", {"n_features": 5, "sample_size": 10, "optimize": False}),
    ],
)
def test_the_seed_may_be_none_or_a_generator(taker, settings, data):
    def predictions(seed):
        return fitted(taker, data, seed=seed, **settings).predict(X_NEW)

    np.testing.assert_array_equal(predictions(None), predictions(0))
    drawn = int(np.random.default_rng(3).integers(2**31))
    np.testing.assert_array_equal(predictions(np.random.default_rng(3)), predictions(drawn))
    for wrong in (-1, "a"):
        with refused("seed"):
            predictions(wrong)


# ---- columns -------------------------------------------------------------------------------------------------


def test_columns_are_remembered_and_others_refused(name, data):
    frame = pd.DataFrame(data.x, columns=["wind", "height"])
    named = fitted(name, changed(data, x=frame), **quick(name))
    assert named.n_features_in_ == 2
    assert list(named.feature_names_in_) == ["wind", "height"]
    new = pd.DataFrame(X_NEW, columns=["wind", "height"])
    plain = fitted(name, data, **quick(name))
    np.testing.assert_array_equal(named.predict(new), plain.predict(X_NEW))
    assert not hasattr(plain, "feature_names_in_")
    for wrong in (new[["height", "wind"]], new.rename(columns={"wind": "speed"})):
        with refuses(name, "x"):
            named.predict(wrong)
    with refuses(name, "x"):
        plain.predict(X_NEW[:, :1])
    named.fit(*(getattr(data, part) for part in FITS[name][1]))
    assert not hasattr(named, "feature_names_in_")


def test_no_view_answers_before_fitting(gp_name):
    estimator = make(gp_name)
    for call in (estimator.leave_one_out, estimator.log_marginal_likelihood, lambda: estimator.sample(X_NEW)):
        with pytest.raises(NotFittedError):
            call()


def test_flat_x_is_one_column(name, data):
    flat = changed(data, x=data.x[:, 0])
    if name in ORDINARY:
        with refuses(name, "X"):
            fitted(name, flat)
        return
    column = fitted(name, changed(data, x=data.x[:, :1]), **quick(name))
    answer = fitted(name, flat, **quick(name)).predict(X_NEW[:, 0])
    np.testing.assert_array_equal(answer, column.predict(X_NEW[:, :1]))
    assert column.n_features_in_ == 1


def test_lists_and_frames_are_as_good_as_arrays(name, data):
    expected = fitted(name, data, **quick(name)).predict(X_NEW)
    parts = [getattr(data, part) for part in FITS[name][1]]
    frames = [pd.Series(part) if part.ndim == 1 else pd.DataFrame(part) for part in parts]
    for other in ([part.tolist() for part in parts], frames):
        answer = make(name, **quick(name)).fit(*other).predict(X_NEW.tolist())
        assert isinstance(answer, np.ndarray)
        np.testing.assert_array_equal(answer, expected)


# ---- answers -------------------------------------------------------------------------------------------------


def test_shapes_of_answers(name, data, model):
    assert model.predict(X_NEW).shape == (3,)
    assert model.predict(X_NEW[:1]).shape == (1,)
    several = fitted(name, with_targets(data, lambda z: np.column_stack([z, 2 * z, z**2])))
    assert several.predict(X_NEW).shape == (3, 3)
    assert np.isfinite(model.score(X_NEW, [0.0, 1.0, 2.0]))


def test_shapes_of_deviations(gp_name, data):
    flat, several = learned(gp_name), fitted(gp_name, with_targets(data, lambda z: np.column_stack([z, z**2])))
    for model, tail in ((flat, ()), (several, (2,))):
        plain = model.predict(X_NEW)
        mean, std = model.predict(X_NEW, return_std=True)
        also_mean, covariance = model.predict(X_NEW, return_cov=True)
        assert mean.shape == std.shape == (3, *tail)
        assert covariance.shape[:2] == (3, 3)
        np.testing.assert_array_equal(mean, plain)
        np.testing.assert_array_equal(also_mean, plain)
        variances = np.moveaxis(np.diagonal(covariance), -1, 0)
        np.testing.assert_allclose(np.broadcast_to(variances, std.shape), std**2, rtol=1e-7, atol=1e-12)
        assert np.all(std > 0)
        with refused("return_cov"):
            model.predict(X_NEW, return_std=True, return_cov=True)
        draws = model.sample(X_NEW, 3000, seed=0)
        assert draws.shape == (3000, 3, *tail)
        np.testing.assert_array_equal(draws, model.sample(X_NEW, 3000, seed=0))
        far = np.abs(draws.mean(axis=0) - mean) / std
        assert np.all(far < 0.1)  # five standard errors
        np.testing.assert_allclose(draws.std(axis=0), std, rtol=0.2)
        left_out, deviation = model.leave_one_out()
        assert left_out.shape == deviation.shape == model.average_.z.shape
        assert np.isfinite(model.log_marginal_likelihood())
    one = fitted(gp_name, with_targets(data, lambda z: z[:, None]))
    np.testing.assert_allclose(one.predict(X_NEW)[:, 0], flat.predict(X_NEW), rtol=1e-9)


def test_target_columns_have_units_of_their_own(name, data):
    """In one model of two columns, a thousand times the units of the first change nothing in the second."""
    pair = fitted(name, with_targets(data, lambda z: np.column_stack([z, z**2])))
    scaled = fitted(name, with_targets(data, lambda z: np.column_stack([1000 * z, z**2])))
    factor = np.array([1000.0, 1.0])
    np.testing.assert_allclose(scaled.predict(X_NEW), pair.predict(X_NEW) * factor, rtol=1e-5, atol=1e-7)
    if name in WITH_STD:
        one, other = (model.predict(X_NEW, return_std=True)[1] for model in (pair, scaled))
        np.testing.assert_allclose(other, one * factor, rtol=1e-5)
        expected = pair.log_marginal_likelihood() - len(pair.average_.z) * np.log(1000.0)
        assert scaled.log_marginal_likelihood() == pytest.approx(expected, rel=1e-6)
        draws = [model.sample(X_NEW, 2, seed=0) for model in (pair, scaled)]
        np.testing.assert_allclose(draws[1], draws[0] * factor, rtol=1e-4, atol=1e-5)
        left = [model.leave_one_out() for model in (pair, scaled)]
        for view, ours in zip(left[1], left[0], strict=True):
            np.testing.assert_allclose(view, ours * factor, rtol=1e-4, atol=1e-5)


def test_units_of_the_targets_do_not_matter(name, data, model):
    """A search ends a little elsewhere in other units, because its tolerance is relative to the log evidence."""
    shift = 0.0 if name == "TransformedGP" else 5.0  # its targets need not be averages of f
    moved = fitted(name, with_targets(data, lambda z: 300.0 * z + shift))
    close = {"rtol": 3e-3, "atol": 3e-3}
    np.testing.assert_allclose((moved.predict(X_NEW) - shift) / 300.0, model.predict(X_NEW), **close)
    if name in WITH_STD:
        one, other = (estimator.predict(X_NEW, return_std=True)[1] for estimator in (model, moved))
        np.testing.assert_allclose(other / 300.0, one, **close)
        assert moved.noise_ / 300.0 == pytest.approx(model.noise_, rel=0.01, abs=2e-3)


def test_units_of_x_and_of_the_mediator_do_not_matter(name, data, model):
    scale, shift = np.array([0.01, 70.0]), np.array([3.0, -900.0])
    moved = fitted(
        name, changed(data, x=data.x * scale + shift, y=50.0 * data.y - 7.0, y_task=50.0 * data.y_task - 7.0)
    )
    close = {"rtol": 3e-3, "atol": 3e-3}
    np.testing.assert_allclose(moved.predict(X_NEW * scale + shift), model.predict(X_NEW), **close)
    if name in WITH_STD:
        std = moved.predict(X_NEW * scale + shift, return_std=True)[1]
        np.testing.assert_allclose(std, model.predict(X_NEW, return_std=True)[1], **close)


# ---- tables of any shape -------------------------------------------------------------------------------------


SHAPES = {
    "two rows": lambda: changed(tables(2, 2), y_task=tables(2, 2).y),
    "many pairs": lambda: tables(60, 4),
    "many task rows": lambda: tables(5, 60),
    "repeated rows": lambda: repeated(tables(8, 7), 3),
    "a column that never changes": lambda: changed(tables(), x=tables().x * [1.0, 0.0] + [0.0, 4.0]),
}


def repeated(data, times):
    """Return tables in which every row is there several times."""
    rows = ("x", "y", "y_task", "z", "groups", "z_x")
    more = {name: np.repeat(getattr(data, name), times, axis=0) for name in rows}
    M = np.repeat(np.repeat(data.M, times, axis=0), times, axis=1) / times
    return changed(data, **more, M=M, z_M=np.repeat(data.z_M, times))


@pytest.mark.parametrize("shape", list(SHAPES))
def test_tables_of_any_shape_have_an_answer(name, shape):
    model = fitted(name, SHAPES[shape]())
    assert np.isfinite(model.predict(X_NEW)).all()
    if name in WITH_STD:
        std = model.predict(X_NEW, return_std=True)[1]
        assert np.all(np.isfinite(std) & (std > 0))


def test_targets_that_are_all_equal_are_learned(name, data):
    """The mean of many times 0.1 is not quite 0.1 in floating point, that of 0.5 is."""
    models = [fitted(name, with_targets(data, lambda z, value=value: np.full(len(z), value))) for value in (0.1, 0.5)]
    if name == "TransformedGP":  # its prior mean is zero
        assert all(np.isfinite(model.predict(X_NEW)).all() for model in models)
        return
    for model, value in zip(models, (0.1, 0.5), strict=True):
        np.testing.assert_allclose(model.predict(X_NEW), value, atol=1e-9)
    if name in WITH_STD:
        stds = [model.predict(X_NEW, return_std=True)[1] for model in models]
        np.testing.assert_allclose(stds[0], stds[1], rtol=1e-6)


# ---- what is refused -----------------------------------------------------------------------------------------


def parameter_names(name):
    return list(inspect.signature(getattr(estimators, name).fit).parameters)[1:]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_no_numbers_are_refused_by_the_name_of_their_argument(name, data, bad):
    for position, part in enumerate(FITS[name][1]):
        value = np.array(getattr(data, part), dtype=np.float64)
        value[1, ...] = bad
        with refuses(name, parameter_names(name)[position]):
            fitted(name, changed(data, **{part: value}))


def test_tables_that_do_not_fit_together_are_refused(name, data):
    *_, targets = FITS[name][1] if name != "InstrumentalVariablesGP" else ("z",)
    names = dict(zip(FITS[name][1], parameter_names(name), strict=False))
    with refuses(name, names[targets]):
        fitted(name, changed(data, **{targets: getattr(data, targets)[:-1]}))
    with refuses(name, parameter_names(name)[1]):  # rows are counted against those of x
        fitted(name, changed(data, x=data.x[:-1]))
    with refuses(name, names["x"]):
        fitted(name, changed(data, x=data.x[:0]))


def test_queries_that_are_no_numbers_are_refused(name, model):
    with refuses(name, "x"):
        model.predict([[0.0, np.nan]])


SETTINGS = {
    "noise": -0.1,
    "n_restarts": -1,
    "regularization": 0.0,
    **dict.fromkeys(("n_features", "n_inducing", "sample_size"), 0),
    "evidence_regularization": -1.0,
    "drift": -0.1,
    **dict.fromkeys(("mean", "uncertainty", "mediator", "targets", "kernel", "kernel_x", "kernel_y"), "something"),
    **dict.fromkeys(("features", "lengthscales", "prediction"), "something"),
}


def test_settings_that_make_no_sense_are_named(name, data):
    for setting, wrong in SETTINGS.items():
        if setting in inspect.signature(getattr(estimators, name)).parameters:
            with refused(setting):
                fitted(name, data, **{setting: wrong})


# ---- copies --------------------------------------------------------------------------------------------------


def in_file(write, read):
    """Return a way of copying: through a file in a new folder."""

    def copied(model):
        with tempfile.TemporaryDirectory() as folder:
            write(model, f"{folder}/model")
            return read(f"{folder}/model")

    return copied


COPIES = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "deepcopy": copy.deepcopy,
    "joblib": in_file(joblib.dump, joblib.load),
    "saved": in_file(save, load),
}


VARIANTS = {
    "single targets": ("TaskTransformedGP", {"targets": "single", "drift": 0.2}, TWO_TABLES, {}),
    "known errors": ("TaskTransformedGP", {}, TWO_TABLES, {"z_std": np.linspace(0.0, 0.3, 20)}),
    "all rows of labels": ("TaskTransformedGP", {}, ("x", "labels", "labels_task", "z_groups"), {}),
    "some rows of labels": (
        "TaskTransformedGP",
        {},
        ("x", "labels", "labels_task", "z_groups"),
        {"group_sizes": 7, "z_std": np.linspace(0.0, 0.3, 8)},
    ),
    "groups of a sample": ("AggregateGP", {}, FITS["AggregateGP"][1], {"group_sizes": np.inf}),
    "groups of unlike size": ("AggregateGP", {}, FITS["AggregateGP"][1], {"group_sizes": np.arange(3.0, 11.0)}),
}
"""Facts about the data that estimators take, with what they do to a fit: name, settings, tables, arguments."""


@functools.cache
def variant(facts):
    """Return an estimator that was told some facts."""
    name, settings, parts, arguments = VARIANTS[facts]
    data = tables()
    named = np.array([f"group {j}" for j in range(8)])
    data = changed(data, labels=named[data.groups], labels_task=named)
    return make(name, **settings).fit(*(getattr(data, part) for part in parts), **arguments)


def answers(model):
    """Return all that a model answers, as bytes."""
    found = [model.predict(X_NEW)]
    if hasattr(model, "sample"):
        found += [*model.predict(X_NEW, return_std=True), *model.predict(X_NEW, return_cov=True)]
        found.append(model.sample(X_NEW, 2, seed=0))
    if hasattr(model, "sample") and getattr(model, "targets", "mean") == "mean":  # the other bound takes a second
        found.append(np.array(model.log_marginal_likelihood()))
    if hasattr(model, "leave_one_out"):
        found += model.leave_one_out()
    return [answer.tobytes() for answer in found]


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("which", [*NAMES, *VARIANTS])
def test_a_copy_of_a_fitted_estimator_answers_bit_for_bit(which, way):
    model = variant(which) if which in VARIANTS else learned(which)
    before = answers(model)
    other = COPIES[way](model)
    assert type(other) is type(model)
    assert answers(other) == before
    assert answers(model) == before  # what was copied is as it was
    np.testing.assert_array_equal(COPIES[way](other).predict(X_NEW), model.predict(X_NEW))


@pytest.mark.parametrize("facts", VARIANTS)
def test_facts_change_the_answer_and_do_not_disturb_its_shape(facts):
    model = variant(facts)
    mean, std = model.predict(X_NEW, return_std=True)
    assert mean.shape == std.shape == (3,)
    assert np.all(std > 0)
    assert not np.array_equal(mean, learned(VARIANTS[facts][0]).predict(X_NEW))
    left_out, deviation = model.leave_one_out()
    assert left_out.shape == deviation.shape == model.standardized_residuals().shape
    assert np.isfinite(model.log_marginal_likelihood())
    summary = model.summary()["weight"]
    assert summary.is_monotonic_decreasing
    assert summary.sum() == pytest.approx(1.0, abs=0.02 * len(summary))


@pytest.mark.parametrize("way", ["pickle", "deepcopy", "joblib"])
def test_an_estimator_that_is_not_fitted_can_be_copied(name, way):
    other = COPIES[way](make(name))
    assert other.get_params() == make(name).get_params()
    with pytest.raises(NotFittedError):
        other.predict(X_NEW)


# ---- scikit-learn's own checks -------------------------------------------------------------------------------


LEARNING = {"uncertainty": "plain", "n_restarts": 0}


@pytest.mark.parametrize("settings", [{"optimize": False}, pytest.param(LEARNING, marks=pytest.mark.slow)])
def test_direct_regression_passes_scikit_learns_checks(settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundWarning)
        results = check_estimator(estimators.DirectGP(**settings), on_skip=None)
    assert len(results) > 40
