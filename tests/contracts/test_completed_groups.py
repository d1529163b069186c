"""Groups of which some rows are listed: draws of the whole groups, and what estimators make of them."""

import numpy as np
import pytest
from expected import warned

from decond.conditional import completed_groups
from decond.errors import DataWarning
from decond.estimators import AggregateGP, TaskTransformedGP


def draw(seed, groups=60, whole=100, listed=4, noise=0.02):
    """Rows of groups with `whole` rows, of which some are listed, and the mean of f(x) = x over all of them."""
    rng = np.random.default_rng(seed)
    x = 0.7 * rng.standard_normal((groups, 1)) + rng.standard_normal((groups, whole))
    z = x.mean(axis=1) + noise * rng.standard_normal(groups)
    return x[:, :listed].reshape(-1, 1), np.repeat(np.arange(groups), listed), z


def moments(found):
    """Mean and variance of x in every completion, (m, k)."""
    m = found.probabilities.shape[1]
    first, second = (found.completions.T @ found.support[:, 0] ** power for power in (1, 2))
    return first.reshape(m, -1), (second - first**2).reshape(m, -1)


def test_groups_that_are_complete_are_their_own_completion():
    x, group, _ = draw(0, groups=8)
    found = completed_groups(x, group, np.full(8, 4.0), seed=0)
    means, _ = moments(found)
    np.testing.assert_allclose(means, np.repeat(x.reshape(8, 4).mean(axis=1), 50).reshape(8, 50))
    np.testing.assert_allclose(found.completions.sum(axis=0), 1.0)
    np.testing.assert_allclose(found.probabilities.sum(axis=0), 1.0)


def test_of_groups_without_end_completions_follow_a_random_effects_model():
    """By moments, in plain NumPy: variances within and between, how far means shrink, and how well they are known."""
    x, group, _ = draw(1, groups=150)
    rows = x.reshape(150, 4)
    listed, within = rows.mean(axis=1), rows.var(axis=1, ddof=1).mean()
    between = listed.var(ddof=1) - within / 4.0
    share = between / (between + within / 4.0)
    means, variances = moments(completed_groups(x, group, np.full(150, np.inf), seed=0))
    assert np.polyfit(listed, means.mean(axis=1), 1)[0] == pytest.approx(share, rel=0.1)
    assert variances.mean() == pytest.approx(within, rel=0.1)
    expected = share * within / 4.0 + within / 200.0  # of the center, and of 200 rows that stand for all
    assert means.var(axis=1).mean() == pytest.approx(expected, rel=0.15)


def test_what_is_not_listed_counts_by_its_share():
    x, group, _ = draw(2, groups=20)
    sizes = np.full(20, 8.0)
    half, none = (moments(completed_groups(x, group, size, seed=0))[0] for size in (sizes, np.full(20, np.inf)))
    listed = x.reshape(20, 4).mean(axis=1)
    assert np.abs(half.mean(axis=1) - 0.5 * (listed + none.mean(axis=1))).max() < 0.35


def test_a_completion_has_as_many_rows_as_its_group():
    """Each row of a group of six counts a sixth, however often it is drawn."""
    x, group, _ = draw(2, groups=20)
    rows = 6.0 * completed_groups(x, group, np.full(20, 6.0), seed=0).completions
    np.testing.assert_allclose(rows, rows.round(), atol=1e-9)
    np.testing.assert_allclose(rows.sum(axis=0), 6.0)


@pytest.mark.parametrize("truth", ["equal", "unequal"])
def test_scales_of_groups_are_shrunk_as_far_as_they_agree(truth):
    rng = np.random.default_rng(3)
    scale = np.ones(60) if truth == "equal" else np.exp(0.4 * rng.standard_normal(60))
    group = np.repeat(np.arange(60), 6)
    x = (2.0 * rng.standard_normal(60)[group] + scale[group] * rng.standard_normal(360))[:, None]
    found = completed_groups(x, group, np.full(60, np.inf), seed=0)
    found_scale = np.sqrt(moments(found)[1].mean(axis=1))
    own = x.reshape(60, 6).std(axis=1, ddof=1)
    assert np.abs(np.log(found_scale / scale)).mean() < 0.9 * np.abs(np.log(own / scale)).mean()


def test_the_shape_within_groups_is_learned():
    """x within groups has two peaks at -1 and 1, which centers at the means of four rows each would blur."""
    rng = np.random.default_rng(4)
    group = np.repeat(np.arange(100), 4)
    u = rng.choice([-1.0, 1.0], 400) + 0.1 * rng.standard_normal(400)
    x = (5.0 * rng.standard_normal(100)[group] + u)[:, None]
    found = completed_groups(x, group, np.full(100, np.inf), seed=0)
    means, variances = (values.ravel() for values in moments(found))
    fourth = (found.completions * (found.support - means) ** 4).sum(axis=0)
    assert np.median(fourth / variances**2) < 1.7  # 1 for two points, 1.8 for a uniform density, 3 for a Gaussian


def test_the_center_of_a_group_with_more_rows_is_better_known():
    rng = np.random.default_rng(4)
    counts = np.repeat([2, 8], 15)
    group = np.repeat(np.arange(30), counts)
    x = (rng.standard_normal(30)[group] + 0.5 * rng.standard_normal(len(group)))[:, None]
    spread = moments(completed_groups(x, group, np.full(30, np.inf), seed=0))[0].var(axis=1)
    assert spread[counts == 8].mean() < 0.5 * spread[counts == 2].mean()


def test_columns_do_not_depend_on_units_and_constant_ones_do_not_matter():
    x, group, _ = draw(5, groups=12)
    sizes = np.full(12, np.inf)
    both = np.column_stack([1000.0 * x[:, 0] + 5.0, np.full(len(x), 7.0)])
    one, two = (completed_groups(rows, group, sizes, seed=0) for rows in (x, both))
    np.testing.assert_allclose(two.completions, one.completions, atol=1e-9)
    np.testing.assert_allclose(two.support, np.column_stack([1000.0 * one.support + 5.0, np.full(300, 7.0)]))


@pytest.mark.parametrize(
    ("x", "group"),
    [
        (np.ones((6, 1)), np.array([0, 0, 1, 1, 2, 2])),
        (np.repeat([[0.0], [1.0], [2.0]], 2, axis=0), np.array([0, 0, 1, 1, 2, 2])),
        (np.arange(6.0)[:, None], np.arange(6)),
    ],
    ids=["x never varies", "x does not vary within groups", "one row each"],
)
def test_nothing_is_modeled_where_nothing_can_be_estimated(x, group):
    assert completed_groups(x, group, np.full(group.max() + 1, np.inf), seed=0) is None


# ---- estimators ----------------------------------------------------------------------------------------------


def slope(gp):
    low, high = gp.predict([[-1.0], [1.0]])
    return (high - low) / 2.0


def test_rows_that_are_a_sample_flatten_f_less_if_that_is_said():
    """A regression on means of four rows is too flat by 0.49 / (0.49 + 0.25)."""
    slopes, errors = [], []
    for seed in range(5):
        tables = draw(seed)
        listed, sampled = (
            AggregateGP(n_restarts=0).fit(*tables, group_sizes=sizes) for sizes in (None, np.full(60, 100.0))
        )
        slopes.append((slope(listed), slope(sampled)))
        mean, std = sampled.predict([[-1.0], [1.0]], return_std=True)
        errors.append((mean - [-1.0, 1.0]) / std)
    flat, steep = np.mean(slopes, axis=0)
    assert flat == pytest.approx(0.49 / 0.74, abs=0.12)
    assert steep == pytest.approx(1.0, abs=0.2)
    assert 0.3 < np.sqrt(np.mean(np.square(errors))) < 1.4  # of ten standard normal numbers, 99 % of the time


def test_labels_of_a_mediator_and_of_groups_give_the_same_model():
    x, group, z = draw(0)
    labels = np.array([f"group {j:02d}" for j in range(60)])
    gp = AggregateGP().fit(x, labels[group], z, group_sizes=dict.fromkeys(labels, 100))
    assert list(gp.summary().index) == ["completed groups"]
    same = TaskTransformedGP().fit(x, labels[group], labels, z, group_sizes=100)
    assert list(same.summary().index) == ["completed groups"]
    np.testing.assert_allclose(same.predict([[-1.0], [1.0]]), gp.predict([[-1.0], [1.0]]), rtol=1e-6)
    complete = AggregateGP(n_restarts=0).fit(x, labels[group], z)
    assert list(complete.summary().index) == ["the listed rows"]


def test_completions_that_no_draw_uses_are_dropped():
    x, group, z = draw(0, groups=12)
    gp = AggregateGP().fit(x, group, z, group_sizes=np.inf)
    seen = gp.average_.best.observation
    assert seen.transformation.shape[1] == len(seen.weights) < 12 * 50
    np.testing.assert_allclose(seen.weights.sum(axis=0), 1.0)
    owner = np.argmax(seen.weights, axis=1)
    for values in gp.average_.candidates[0].values:
        np.testing.assert_array_equal(owner[values["observation.assignment"]], np.arange(12))


def test_heaps_of_a_sample_are_warned_of():
    """Daily rain: dry days are no draws of a smooth distribution."""
    rng = np.random.default_rng(0)
    rain = rng.gamma(0.8, 8.0, 160) * (rng.random(160) < 0.5)
    groups = np.repeat(np.arange(20), 8)
    means = np.sqrt(rain).reshape(20, 8).mean(axis=1)
    with warned(DataWarning, argument="x"):
        AggregateGP(n_restarts=0).fit(rain, groups, means, group_sizes=30)
