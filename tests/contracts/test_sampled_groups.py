"""Groups of which some rows are listed: the model of the others, and what estimators make of it."""

import numpy as np
import oracles
import pytest

from decond.conditional.sampled_groups import unlisted_rows
from decond.estimators import AggregateGP, TaskTransformedGP


def draw(seed, groups=60, whole=100, listed=4, noise=0.02):
    """Rows of groups with `whole` rows, of which some are listed, and the mean of f(x) = x over all of them."""
    rng = np.random.default_rng(seed)
    x = 0.7 * rng.standard_normal((groups, 1)) + rng.standard_normal((groups, whole))
    z = x.mean(axis=1) + noise * rng.standard_normal(groups)
    return x[:, :listed].reshape(-1, 1), np.repeat(np.arange(groups), listed), z


def test_groups_that_are_complete_are_averages_without_noise():
    x, group, _ = draw(0, groups=8)
    found = unlisted_rows(x, group, np.full(8, 4.0))
    np.testing.assert_array_equal(found.weights, oracles.averaging(group))
    np.testing.assert_array_equal(found.sampling, 0.0)


def test_of_groups_without_end_the_mean_is_the_shrunk_center():
    """A random-effects model by moments, in plain NumPy: variances within and between, and how far means shrink."""
    x, group, _ = draw(1, groups=150)
    rows = x.reshape(150, 4)
    means, within = rows.mean(axis=1), rows.var(axis=1, ddof=1).mean()
    between = means.var(ddof=1) - within / 4.0
    share = between / (between + within / 4.0)
    assert share == pytest.approx(0.49 / (0.49 + 0.25), abs=0.1)
    found = unlisted_rows(x, group, np.full(150, np.inf))
    np.testing.assert_allclose(found.weights.sum(axis=0), 1.0)
    assert found.weights.min() >= 0.0
    centers = (found.weights.T @ x)[:, 0]
    np.testing.assert_allclose(centers, means.mean() + share * (means - means.mean()), atol=0.2)
    assert np.polyfit(means, centers, 1)[0] == pytest.approx(share, rel=0.02)
    spread = (found.weights.T @ x**2)[:, 0] - centers**2
    assert spread.mean() == pytest.approx(within + share * within / 4.0, rel=0.02)
    np.testing.assert_allclose(found.sampling, share / (share + 4.0), rtol=1e-10)


def test_what_is_not_listed_counts_by_its_share():
    x, group, _ = draw(2, groups=20)
    listed, others = (unlisted_rows(x, group, np.full(20, size)).weights for size in (4.0, np.inf))
    sizes = np.linspace(4.0, 40.0, 20)
    share = 1.0 - 4.0 / sizes
    found = unlisted_rows(x, group, sizes)
    np.testing.assert_allclose(found.weights, (1.0 - share) * listed + share * others, rtol=1e-12, atol=1e-15)


def test_noise_is_that_of_the_center_and_of_the_rows_left():
    x, group, _ = draw(3, groups=20)
    endless = unlisted_rows(x, group, np.full(20, np.inf)).sampling  # that of the center alone
    assert np.all((endless > 0.0) & (endless < 1.0))
    sizes = np.linspace(5.0, 40.0, 20)
    expected = (1.0 - 4.0 / sizes) ** 2 * (endless + (1.0 - endless) / (sizes - 4.0))
    np.testing.assert_allclose(unlisted_rows(x, group, sizes).sampling, expected, rtol=1e-12)


def test_the_center_of_a_group_with_more_rows_is_better_known():
    rng = np.random.default_rng(4)
    counts = np.repeat([2, 8], 15)
    group = np.repeat(np.arange(30), counts)
    x = (rng.standard_normal(30)[group] + 0.5 * rng.standard_normal(len(group)))[:, None]
    sampling = unlisted_rows(x, group, np.full(30, np.inf)).sampling
    assert np.all(sampling[counts == 8] < sampling[counts == 2])


def test_constant_columns_do_not_matter():
    x, group, _ = draw(5, groups=12)
    sizes = np.full(12, np.inf)
    both = np.column_stack([x[:, 0], np.full(len(x), 7.0)])
    np.testing.assert_array_equal(unlisted_rows(both, group, sizes).weights, unlisted_rows(x, group, sizes).weights)


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
    assert unlisted_rows(x, group, np.full(group.max() + 1, np.inf)) is None


# ---- estimators ----------------------------------------------------------------------------------------------


def slope(gp):
    low, high = gp.predict([[-1.0], [1.0]])
    return (high - low) / 2.0


def test_rows_that_are_a_sample_flatten_f_less_if_that_is_said():
    """A regression on means of four rows is too flat by 0.49 / (0.49 + 0.25)."""
    for seed in range(2):
        tables = draw(seed)
        listed, sampled = (
            AggregateGP(n_restarts=0).fit(*tables, group_sizes=sizes) for sizes in (None, np.full(60, 100.0))
        )
        assert slope(listed) == pytest.approx(0.49 / 0.74, abs=0.12)
        assert abs(slope(sampled) - 1.0) < abs(slope(listed) - 1.0)
        mean, std = sampled.predict([[-1.0], [1.0]], return_std=True)
        assert np.all(np.abs(mean - [-1.0, 1.0]) < 1.96 * std)


def test_candidates_are_the_listed_rows_and_a_model_of_the_others():
    x, group, z = draw(0)
    labels = np.array([f"group {j:02d}" for j in range(60)])
    gp = AggregateGP(n_restarts=0).fit(x, labels[group], z, group_sizes=dict.fromkeys(labels, 100))
    names = {"the listed rows", "shrunk centers and pooled spread"}
    assert set(gp.summary().index) == names
    same = TaskTransformedGP(n_restarts=0).fit(x, labels[group], labels, z, group_sizes=100)
    assert set(same.summary().index) == names
    np.testing.assert_allclose(same.predict([[-1.0], [1.0]]), gp.predict([[-1.0], [1.0]]), rtol=1e-6)
    complete = AggregateGP(n_restarts=0).fit(x, labels[group], z)
    assert list(complete.summary().index) == ["the listed rows"]
