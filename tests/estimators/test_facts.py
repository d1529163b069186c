"""Facts that users state about their data, and what a fit says about itself: errors, noise, kernels, checks."""

import pickle

import numpy as np
import pytest
from expected import refused, says_little, warned

from decond import kernels, load, save
from decond.errors import MemoryWarning, ResolutionWarning
from decond.estimators import (
    AggregateGP,
    DirectGP,
    InstrumentalVariablesGP,
    TaskTransformedGP,
    TransformedGP,
    task_transformed,
)
from decond.estimators.posterior_regressor import MemorySettings
from decond.gp import SamplerSettings

RNG = np.random.default_rng(0)
Y, Y_TASK = RNG.uniform(-4, 4, 80), RNG.uniform(-4, 4, 60)
X = Y + 0.5 * RNG.standard_normal(80)
Z = np.exp(-0.125) * np.sin(Y_TASK) + 0.03 * RNG.standard_normal(60)  # E[sin(x) | y]
GRID = np.linspace(-3.5, 3.5, 40)[:, None]
GROUPS = np.repeat(np.arange(60), 3)
X_GROUPS = np.sort(RNG.uniform(-4, 4, 180)) + 0.3 * RNG.standard_normal(180)
Z_GROUPS = np.sin(X_GROUPS).reshape(60, 3).mean(axis=1) + 0.03 * RNG.standard_normal(60)
LABELS = np.array([f"group {j:02d}" for j in range(60)])


def error(gp, unit=1.0):
    return float(np.sqrt(np.mean((gp.predict(GRID) / unit - np.sin(GRID[:, 0])) ** 2)))


# ---- facts that contradict each other ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings", [{"uncertainty": "plain"}, {"optimize": False}, {"kernel_y": kernels.RBF()}], ids=str
)
def test_single_measurements_have_no_plain_form(settings):
    with refused("targets"):
        TaskTransformedGP(targets="single", **settings).fit(X, Y, Y_TASK, Z)


def test_single_measurements_are_one_column():
    with refused("targets"):
        TaskTransformedGP(targets="single").fit(X, Y, Y_TASK, np.column_stack([Z, Z]))


def test_sizes_of_groups_are_about_means_of_labels():
    with refused("group_sizes"):
        TaskTransformedGP().fit(X, Y, Y_TASK, Z, group_sizes=9)
    labels = (X_GROUPS, LABELS[GROUPS], LABELS, Z_GROUPS)
    for settings in ({"targets": "single"}, {"uncertainty": "plain"}, {"kernel_y": kernels.Categorical()}):
        with refused("group_sizes"):
            TaskTransformedGP(**settings).fit(*labels, group_sizes=9)
    for wrong in (2, -1, np.nan, "many", {"group 00": 9}):
        with refused("group_sizes"):
            TaskTransformedGP().fit(*labels, group_sizes=wrong)


@pytest.mark.parametrize("wrong", [-0.1, np.nan, "some", None])
def test_a_drift_is_a_deviation(wrong):
    with refused("drift"):
        TaskTransformedGP(targets="single", drift=wrong).fit(X, Y, Y_TASK, Z)


@pytest.mark.parametrize(
    ("settings", "mediator"),
    [({}, Y), ({"targets": "single"}, np.where(Y > 0.0, "high", "low"))],
    ids=["means", "labels"],
)
def test_a_drift_is_about_single_targets_and_a_mediator_of_numbers(settings, mediator):
    task = Y_TASK if mediator is Y else np.where(Y_TASK > 0.0, "high", "low")
    with refused("drift"):
        TaskTransformedGP(drift=0.1, **settings).fit(X, mediator, task, Z)


@pytest.mark.parametrize(
    "wrong", [np.full(60, -0.1), np.full(60, np.nan), np.ones(59), np.ones((60, 2)), 0.1], ids=range(5)
)
def test_known_errors_are_one_deviation_for_each_target(wrong):
    with refused("z_std"):
        TaskTransformedGP().fit(X, Y, Y_TASK, Z, z_std=wrong)
    with refused("z_std"):
        AggregateGP().fit(X_GROUPS, GROUPS, Z_GROUPS, z_std=wrong)


# ---- noise ---------------------------------------------------------------------------------------------------


SPOILED = np.arange(60) % 4 == 0
KNOWN = np.where(SPOILED, 3.0, 0.0)
SPIKES = 3.0 * SPOILED * np.random.default_rng(1).standard_normal(60)


def numeric(**arguments):
    return TaskTransformedGP(n_restarts=0).fit(X, Y, Y_TASK, Z + SPIKES, **arguments)


def labeled(**arguments):
    return TaskTransformedGP(n_restarts=0).fit(X_GROUPS, LABELS[GROUPS], LABELS, Z_GROUPS + SPIKES, **arguments)


def grouped(**arguments):
    return AggregateGP(n_restarts=0).fit(X_GROUPS, GROUPS, Z_GROUPS + SPIKES, **arguments)


@pytest.mark.parametrize("fitted", [numeric, labeled, grouped])
def test_targets_with_large_known_errors_count_less(fitted):
    with says_little():
        blind, told = fitted(), fitted(z_std=KNOWN)
    assert error(told) < 0.5 * error(blind)
    assert told.noise_ < 0.3 * blind.noise_  # the learned noise is in addition to the known one
    _, deviation = told.leave_one_out()
    assert deviation[SPOILED].min() > 3.0
    assert deviation[~SPOILED].max() < 1.5


def test_single_measurements_with_large_known_errors_count_less(short_chains):
    blind, told = (
        TaskTransformedGP(targets="single").fit(X, Y, Y_TASK, Z + SPIKES, z_std=known) for known in (None, KNOWN)
    )
    assert error(told) < 0.5 * error(blind)


FITS = {
    "DirectGP": lambda unit, **settings: DirectGP(n_restarts=0, **settings).fit(
        X[:, None], unit * (np.sin(X) + 0.1 * np.random.default_rng(2).standard_normal(80))
    ),
    "TaskTransformedGP": lambda unit, **settings: TaskTransformedGP(
        n_restarts=0, **{name.replace("kernel", "kernel_x"): value for name, value in settings.items()}
    ).fit(X, Y, Y_TASK, unit * Z),
    "AggregateGP": lambda unit, **settings: AggregateGP(n_restarts=0, **settings).fit(
        X_GROUPS, GROUPS, unit * Z_GROUPS
    ),
}


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_noise_is_learned_in_the_units_of_the_targets(name, unit):
    one, other = FITS[name](1.0), FITS[name](unit)
    mean, std = one.predict(GRID, return_std=True)
    moved, spread = other.predict(GRID, return_std=True)
    np.testing.assert_allclose(moved / unit, mean, rtol=0.01, atol=3e-3)
    np.testing.assert_allclose(spread / unit, std, rtol=0.05, atol=3e-3)
    assert other.noise_ / unit == pytest.approx(one.noise_, rel=0.05)
    true = 0.1 if name == "DirectGP" else 0.03
    assert true / 1.5 < one.noise_ < 1.5 * true


@says_little()
@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_given_kernels_and_noises_in_wrong_units_do_not_ruin_a_fit(name, unit):
    free = error(FITS[name](unit), unit)
    for kernel in (50.0 * kernels.RBF(1.0), 1e6 * kernels.RBF(100.0), kernels.RBF(9.0) + 50.0 * kernels.Linear()):
        assert error(FITS[name](unit, kernel=kernel, noise=0.1), unit) < 1.2 * free


def test_the_noise_of_a_target_can_be_included():
    gp = AggregateGP(n_restarts=0).fit(X_GROUPS, GROUPS, np.column_stack([1000.0 * Z_GROUPS, Z_GROUPS]))
    flat = AggregateGP(n_restarts=0).fit(X_GROUPS, GROUPS, 1000.0 * Z_GROUPS)
    for model in (gp, flat):
        mean, std = model.predict(GRID, return_std=True)
        noisy_mean, noisy = model.predict(GRID, return_std=True, include_noise=True)
        np.testing.assert_array_equal(noisy_mean, mean)
        noise = np.broadcast_to(model.noise_ * model.scale_, std.shape)
        np.testing.assert_allclose(noisy**2 - std**2, noise**2, rtol=1e-8)
        covariance = model.predict(GRID, return_cov=True)[1]
        added = model.predict(GRID, return_cov=True, include_noise=True)[1] - covariance
        np.testing.assert_allclose(np.einsum("qq...->q...", added), noise**2, rtol=1e-8)
        added[np.diag_indices(len(GRID))] = 0.0
        assert np.all(added == 0.0)
        np.testing.assert_array_equal(model.predict(GRID, include_noise=True), mean)
    assert flat.noise_ == pytest.approx(30.0, rel=0.5)


# ---- what a fit says about itself ----------------------------------------------------------------------------


def two_tables(kind, seed=0):
    """X given y in two places: single measurements of tanh(1.5 x), or means over all x of their y."""
    rng = np.random.default_rng(seed)

    def inputs(y):
        return y + 2.0 * rng.integers(2, size=y.shape) + 0.2 * rng.standard_normal(y.shape)

    y, y_task = rng.uniform(-3, 3, 80), rng.uniform(-3, 3, 100)
    x, many = inputs(y), inputs(np.tile(y_task, (2000, 1)))
    values = np.tanh(1.5 * many)
    z = values[0] + 0.05 * rng.standard_normal(100) if kind == "single" else values.mean(axis=0)
    return x, y, y_task, z + 0.02 * rng.standard_normal(100)


@pytest.mark.parametrize("targets", ["mean", "single"])
def test_a_hint_where_the_other_kind_of_target_was_meant(targets, short_chains):
    other = {"mean": "single", "single": "mean"}[targets]
    right = TaskTransformedGP(targets=targets, n_restarts=0).fit(*two_tables(targets)).check()
    assert right.hint == ""
    assert right.advantage < 0.0
    wrong = TaskTransformedGP(targets=other, n_restarts=0).fit(*two_tables(targets)).check()
    assert f'targets="{targets}"' in wrong.hint
    assert wrong.advantage > max(4.0, 2.0 * wrong.standard_error)
    assert wrong.advantage == pytest.approx(-right.advantage)


def groups_of(kind, seed=0):
    """Means of sin(x) over groups of which 2 or 16 rows are listed: all of them, or some of 400."""
    rng = np.random.default_rng(seed)
    counts = np.tile([2, 16], 20)
    whole = [rng.standard_normal() + rng.standard_normal(400 if kind == "sampled" else n) for n in counts]
    z = np.array([np.sin(rows).mean() for rows in whole]) + 0.02 * rng.standard_normal(40)
    listed = np.concatenate([rows[:n] for rows, n in zip(whole, counts, strict=True)])
    return listed, np.repeat([f"group {j:02d}" for j in range(40)], counts), z


@pytest.mark.parametrize("kind", ["complete", "sampled"])
@pytest.mark.parametrize("estimator", [AggregateGP, TaskTransformedGP])
def test_a_hint_where_rows_are_a_sample_or_all_of_their_groups(kind, estimator):
    x, groups, z = groups_of(kind)
    tables = (x, groups, z) if estimator is AggregateGP else (x, groups, np.unique(groups), z)
    complete, sampled = (estimator(n_restarts=0).fit(*tables, group_sizes=sizes).check() for sizes in (None, np.inf))
    right, wrong = (complete, sampled) if kind == "complete" else (sampled, complete)
    assert right.hint == ""
    assert "group_sizes" in wrong.hint
    assert wrong.advantage > max(4.0, 2.0 * wrong.standard_error)


def test_residuals_far_from_normal_are_hinted_at():
    rng = np.random.default_rng(4)
    x = rng.uniform(0, 6, (80, 1))
    outliers = np.where(rng.random(80) < 0.05, 3.0, 0.0)
    calm = DirectGP(n_restarts=0).fit(x, np.sin(x[:, 0]) + 0.1 * rng.standard_normal(80)).check()
    wild = DirectGP(n_restarts=0).fit(x, np.sin(x[:, 0]) + 0.1 * rng.standard_normal(80) + outliers).check()
    assert calm.hint == ""
    assert "residuals" in wild.hint
    assert calm.is_reliable
    assert np.isnan(calm.advantage)


@pytest.mark.parametrize(
    "fitted",
    [
        lambda: TaskTransformedGP(n_restarts=0, uncertainty="plain").fit(X, Y, Y_TASK, Z),
        lambda: TaskTransformedGP(n_restarts=0, kernel_y=kernels.RBF(1.0)).fit(X, Y, Y_TASK, Z),
        lambda: AggregateGP(n_restarts=0, uncertainty="plain").fit(X_GROUPS, GROUPS, Z_GROUPS),
        lambda: InstrumentalVariablesGP(n_restarts=0).fit(X, Y, np.sin(X)),
        lambda: InstrumentalVariablesGP(n_restarts=0).fit(X_GROUPS, LABELS[GROUPS], Z_GROUPS, LABELS),
        lambda: TransformedGP(n_restarts=0).fit(X, np.eye(80), np.sin(X) + 0.1 * RNG.standard_normal(80)),
    ],
    ids=["plain", "given mediator", "plain groups", "instrument", "instrument of labels", "given weights"],
)
def test_without_another_setting_nothing_is_compared(fitted):
    with says_little():
        found = fitted().check()
    assert np.isnan(found.advantage)
    assert "targets=" not in found.hint
    assert "group_sizes" not in found.hint


def test_a_check_needs_the_tables_which_a_pickle_has_and_a_file_has_not(tmp_path):
    gp = AggregateGP(n_restarts=0).fit(X_GROUPS, GROUPS, Z_GROUPS)
    assert pickle.loads(pickle.dumps(gp)).check() == gp.check()
    save(gp, tmp_path / "gp.decond")
    with pytest.raises(ValueError, match="tables"):
        load(tmp_path / "gp.decond").check()


def test_a_fit_without_resolution_warns_and_says_so():
    """Groups are drawn alike, so their means hardly tell how z varies with x."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-3, 3, (20, 30))
    z = np.sin(3.0 * x).mean(axis=1) + 0.3 * rng.standard_normal(20)
    with says_little(), warned(ResolutionWarning) as caught:
        gp = AggregateGP(n_restarts=0).fit(x.ravel(), np.repeat(np.arange(20), 30), z)
    [warning] = [one.message for one in caught if isinstance(one.message, ResolutionWarning)]
    assert warning.resolution == gp.resolution() < 1.0
    found = gp.check()
    assert found.resolution == warning.resolution
    assert not found.is_reliable


@pytest.mark.parametrize("uncertainty", ["honest", "plain"])
def test_a_fit_that_needs_much_memory_says_so_first(uncertainty):
    class Small(TaskTransformedGP):
        _memory = MemorySettings(large=0.0)

    with says_little(), warned(MemoryWarning) as caught:
        gp = Small(uncertainty=uncertainty, n_restarts=0).fit(X, Y, Y_TASK, np.sin(Y_TASK))
    [warning] = [one.message for one in caught if isinstance(one.message, MemoryWarning)]
    held = len(getattr(gp.posterior_, "parts", [gp.posterior_]))
    assert warning.gigabytes >= 8e-9 * held * 60**2


LEVELS = np.linspace(-3, 3, 30)


@pytest.mark.parametrize(
    "tables",
    [
        (X_GROUPS, GROUPS, Z_GROUPS),
        (X[:40], np.arange(40), np.sin(X[:40])),
        (np.repeat(LEVELS, 4), np.repeat(np.arange(30), 4), np.sin(LEVELS) + 0.05 * RNG.standard_normal(30)),
    ],
    ids=["resolved", "one row each", "repeated rows"],
)
def test_no_warning_where_f_is_resolved_or_does_not_vary_within_groups(tables):
    gp = AggregateGP(n_restarts=0).fit(*tables)
    assert gp.check().is_reliable


# ---- single measurements -------------------------------------------------------------------------------------


def test_single_measurements_tell_more_than_their_means(short_chains):
    tables, queries = two_tables("single"), np.linspace(-3, 4, 60)
    single, means = (TaskTransformedGP(targets=kind, n_restarts=0).fit(*tables) for kind in ("single", "mean"))
    errors = [np.sqrt(np.mean((gp.predict(queries) - np.tanh(1.5 * queries)) ** 2)) for gp in (single, means)]
    assert errors[0] < 0.6 * errors[1]
    assert single.noise_ == pytest.approx(np.hypot(0.05, 0.02), rel=0.5)
    assert single.summary().index.tolist() == ["latent inputs"]
    assert single.fit_result_.status == "sampled"


@pytest.mark.filterwarnings("ignore::decond.errors.ResolutionWarning")  # with noise as large as f
def test_noise_of_positive_targets_may_multiply(short_chains, tmp_path):
    rng = np.random.default_rng(3)
    z = (2.0 + np.sin(Y_TASK + 0.5 * rng.standard_normal(60))) * np.exp(0.3 * rng.standard_normal(60))
    gp = TaskTransformedGP(targets="single").fit(X, Y, Y_TASK, z)
    assert gp.summary().index.tolist() == ["latent inputs, noise that multiplies"]
    assert 0.2 < gp.noise_ / np.exp(np.log(z).mean()) < 0.5
    mean, std = gp.predict(GRID, return_std=True)
    truth = (2.0 + np.sin(GRID[:, 0])) * np.exp(0.045)
    assert np.sqrt(np.mean(((mean - truth) / std) ** 2)) < 2.0
    save(gp, tmp_path / "model")
    np.testing.assert_allclose(load(tmp_path / "model").predict(GRID), mean)


@pytest.mark.parametrize("targets", ["mean", "single"])
def test_one_target_column_is_fitted_as_a_flat_array_is_and_answers_in_a_column(targets, short_chains):
    x, y, y_task, z = two_tables("single")
    settings = {"targets": targets, "n_restarts": 0}
    flat, column = (TaskTransformedGP(**settings).fit(x, y, y_task, part) for part in (z, z[:, None]))
    for answer in (
        lambda gp: gp.predict(GRID),
        lambda gp: gp.predict(GRID, return_std=True)[1],
        lambda gp: gp.predict(GRID, return_cov=True)[1],
        lambda gp: gp.sample(GRID, 2, seed=0),
        lambda gp: gp.leave_one_out()[0],
        lambda gp: gp.leave_one_out()[1],
        lambda gp: gp.standardized_residuals(),
    ):
        np.testing.assert_allclose(answer(column), answer(flat)[..., None], rtol=1e-9, atol=1e-12)


def test_drift_widens_the_bands(monkeypatch):
    """Of f = x, whose slope a stretch of E[x | y] changes; two tables are stretched to either side."""
    settings = SamplerSettings(tables=2, warmup=60, sweeps=40, kept=4)
    monkeypatch.setattr(task_transformed, "SamplerSettings", lambda: settings)
    rng = np.random.default_rng(6)
    z = Y_TASK + 0.5 * rng.standard_normal(60)
    still, drifting = (TaskTransformedGP(targets="single", drift=drift).fit(X, Y, Y_TASK, z) for drift in (0.0, 0.5))
    ends = [[-3.5], [3.5]]
    assert np.all(drifting.predict(ends, return_std=True)[1] > 1.5 * still.predict(ends, return_std=True)[1])


def test_x_of_labels_beside_a_mediator_of_numbers(short_chains):
    rng = np.random.default_rng(2)
    y, y_task = rng.uniform(-1, 1, 80), rng.uniform(-1, 1, 120)
    x, x_task = (np.where(rng.uniform(-1, 1, len(rows)) < rows, "a", "b") for rows in (y, y_task))
    z = np.where(x_task == "a", 1.0, -1.0) + 0.05 * rng.standard_normal(120)
    gp = TaskTransformedGP(targets="single").fit(x, y, y_task, z)
    np.testing.assert_allclose(gp.predict(np.array([["a"], ["b"]])), [1.0, -1.0], atol=0.2)


SPANNING = np.argsort(two_tables("single")[1][:40])[[0, 13, 26, 39]]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x, y, yt, z: (np.repeat(x, 2), np.repeat(y, 2), np.repeat(yt, 2), np.repeat(z, 2)),
        lambda x, y, yt, z: (np.repeat(x[:12], 10), np.repeat(y[:12], 10), yt, z),
        lambda x, y, yt, z: (x, y, yt, np.zeros_like(z)),
        lambda x, y, yt, z: (np.zeros_like(x), y, yt, z),
        lambda x, y, yt, z: (x[SPANNING], y[SPANNING], yt, z),
        lambda x, y, yt, z: (x, y, yt[:4], z[:4]),
        lambda x, y, yt, z: (x * 1e8, y * 1e-8, yt * 1e-8, z * 1e8 + 1e9),
    ],
    ids=["twice", "ten times", "constant z", "constant x", "few pairs", "few targets", "other units"],
)
@says_little()
def test_tables_that_hurt(spoil, short_chains):
    tables = spoil(*(table[:40] for table in two_tables("single")))
    gp = TaskTransformedGP(targets="single").fit(*tables)
    mean, std = gp.predict(tables[0][:5], return_std=True)
    assert np.isfinite(mean).all()
    assert np.all(np.isfinite(std) & (std > 0.0))
    assert np.abs(mean - np.mean(tables[3])).max() <= 10.0 * max(np.ptp(tables[3]), 1e-12)
