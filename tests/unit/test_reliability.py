"""Averages over a few rows of a group: how much of their differences is real, and what honest models make of it."""

import dataclasses

import numpy as np
import oracle_kernels
import oracles
import pytest
from expected import refused

from decond import kernels
from decond.estimators import AggregateGP, TaskTransformedGP
from decond.estimators.reliability import COMPLETE, LEAST_RELIABILITY, probability_of_complete, reliabilities
from decond.learning import FitResult
from decond.linalg import NotPositiveDefiniteError
from decond.regression import Aggregated, FunctionPrior, condition, log_evidence_and_gradient

RNG = np.random.default_rng(0)
X = RNG.standard_normal((11, 2))
X_NEW = RNG.standard_normal((4, 2))
GROUPS = np.array(["b", "a", "c", "b", "a", "d", "b", "e", "a", "b", "d"])  # one row of c, one of e
WEIGHTS = RNG.uniform(0.5, 2.0, 11)
SHARES = np.array([0.9, 0.6, 1.0, 0.75, 0.5])
ROOT = 0.2 * RNG.standard_normal((11, 11))


@pytest.fixture(autouse=True)
def _same_draws():
    """Each test draws the same numbers, whatever ran before it."""
    RNG.bit_generator.state = np.random.default_rng(1).bit_generator.state


def drawn_together(M, reliability):
    """M with every column replaced by r of itself and 1 - r of the mean column."""
    return np.array([r * column + (1.0 - r) * M.mean(axis=1) for column, r in zip(M.T, reliability, strict=True)]).T


# ---- reliability of averages ---------------------------------------------------------------------------------


def found_reliabilities(mean, covariance, M):
    return reliabilities(mean, np.diag(covariance), M.T @ covariance @ M, M)


def textbook_reliabilities(mean, covariance, M):
    """b / (b + w / n_j), every variance as E[fᵀQf] = mᵀQm + tr(QC) with Q written out; several columns add up."""

    def expected(Q):
        return sum(column @ Q @ column + np.trace(Q @ covariance) for column in mean.reshape(len(mean), -1).T)

    m = M.shape[1]
    sizes = 1.0 / (M**2).sum(axis=0)
    several = [j for j in range(m) if sizes[j] > 1.5]
    within = [expected(np.diag(M[:, j]) - np.outer(M[:, j], M[:, j])) for j in several]
    w = sum(v * sizes[j] for v, j in zip(within, several, strict=True)) / sum(sizes[j] - 1.0 for j in several)
    listed = expected(M @ (np.eye(m) - np.full((m, m), 1.0 / m)) @ M.T) / (m - 1)
    b = listed - np.mean(w / sizes)
    return b / (b + w / sizes)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("columns", [(), (2,)], ids=["one target", "two targets"])
def test_reliability_is_the_share_of_variance_between_groups(weights, columns):
    M = oracles.averaging(GROUPS, weights)
    level = np.array([3.0 * (ord(group) - ord("a")) for group in GROUPS])  # groups differ, so no share is at its edge
    mean = (level + X[:, 0] if not columns else np.column_stack([level + X[:, 0], X[:, 1] - level])).astype(float)
    covariance = ROOT @ ROOT.T
    expected = textbook_reliabilities(mean, covariance, M)
    assert LEAST_RELIABILITY < expected.min() < expected.max() < 1.0
    np.testing.assert_allclose(found_reliabilities(mean, covariance, M), expected, rtol=1e-10)
    without = found_reliabilities(mean, np.zeros((11, 11)), M)
    np.testing.assert_allclose(without, textbook_reliabilities(mean, np.zeros((11, 11)), M), rtol=1e-10)


def test_reliability_where_there_is_nothing_to_tell():
    known, level = np.zeros((11, 11)), np.arange(11.0)
    assert np.all(found_reliabilities(level, known, np.eye(11)) == 1.0)  # groups of one row each
    assert np.all(found_reliabilities(np.full(11, 2.0), known, oracles.averaging(GROUPS)) == 1.0)  # f is flat
    assert found_reliabilities(level, known, np.full((11, 1), 1 / 11)) == [1.0]  # one group
    alike = np.tile([1.0, -1.0], 6)  # f varies within groups and not between them
    pairs = oracles.averaging(np.arange(12) // 2)
    assert np.all(found_reliabilities(alike, np.zeros((12, 12)), pairs) == LEAST_RELIABILITY)


def test_reliability_tells_the_slope_that_simulation_finds():
    """For f(x) = x, a regression of group means on means of a few rows is too flat by just this factor."""
    rng = np.random.default_rng(1)
    centers = rng.standard_normal(4000)
    rows = centers[:, None] + 0.8 * rng.standard_normal((4000, 3))
    listed = rows.mean(axis=1)
    slope = (listed @ centers) / (listed @ listed)
    few = rows[:400].ravel()
    found = found_reliabilities(few, np.zeros((1200, 1200)), oracles.averaging(np.arange(1200) // 3))
    assert found == pytest.approx(1.0 / (1.0 + 0.64 / 3), abs=0.03)
    assert slope == pytest.approx(1.0 / (1.0 + 0.64 / 3), abs=0.02)


# ---- the observation -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampled", [False, True])
def test_averages_are_drawn_together(sampled):
    K, K_new = (1.4 * oracle_kernels.matern32(X, other, 0.9) for other in (X, X_NEW))
    seen = Aggregated(
        X, GROUPS, noise=0.2, individual_noise=0.3, weights=WEIGHTS, sampled=sampled, reliability=SHARES
    )
    M = drawn_together(oracles.averaging(GROUPS, WEIGHTS), SHARES)
    Sigma = oracles.aggregated_noise(GROUPS, 0.2, 0.3, WEIGHTS)
    if sampled:
        Sigma = Sigma + SHARES * oracles.sampled_groups_noise(K, GROUPS, WEIGHTS)
    z = RNG.standard_normal(5)
    posterior = condition(FunctionPrior(1.4 * kernels.Matern32(0.9)), seen, z)
    mean, covariance = oracles.tbkr_predictive(
        K, M, Sigma, z, K_new, 1.4 * oracle_kernels.matern32(X_NEW, X_NEW, 0.9)
    )
    np.testing.assert_allclose(posterior.mean(X_NEW), mean, rtol=1e-10)
    np.testing.assert_allclose(posterior.covariance(X_NEW), covariance, rtol=1e-9, atol=1e-12)
    assert posterior.log_evidence == pytest.approx(oracles.tbkr_evidence(K, M, Sigma, z), rel=1e-12)


def test_evidence_of_averages_drawn_together_has_the_right_slope():
    z = RNG.standard_normal(5)

    def evaluate(lengthscale, noise):
        seen = Aggregated(X, GROUPS, noise=noise, weights=WEIGHTS, sampled=True, reliability=SHARES)
        return log_evidence_and_gradient(FunctionPrior(1.4 * kernels.Matern52(lengthscale)), seen, z)

    at, step = np.array([0.9, 0.2]), 1e-6
    gradient = evaluate(*at)[1]
    for path, shift in (("prior.kernel.kernel.lengthscale", [step, 0.0]), ("observation.noise", [0.0, step])):
        slope = (evaluate(*(at + shift))[0] - evaluate(*(at - shift))[0]) / (2.0 * step)
        assert gradient[path] == pytest.approx(slope, rel=1e-6)


def test_what_strays_is_what_simulation_finds():
    """The average of a whole group strays from r of the listed rows' average by r of its sampling variance."""
    rng = np.random.default_rng(2)
    within, between, listed = 0.8, 1.0, 3
    reliability = between / (between + within / listed)
    centers = rng.normal(0.0, np.sqrt(between), 40_000)
    averages = centers + rng.normal(0.0, np.sqrt(within / listed), 40_000)
    strays = np.mean((centers - reliability * averages) ** 2)
    groups = np.repeat(np.arange(3), listed)
    sampling = Aggregated(X[:9], groups, sampled=True, reliability=np.full(3, reliability)).linearize().sampling
    model = sampling.variances(np.full(9, within), np.full(3, within / listed))  # rows of a group do not depend
    np.testing.assert_allclose(model, strays, rtol=0.03)


def test_full_reliability_changes_nothing_and_shares_are_checked():
    exact, same = (Aggregated(X, GROUPS, reliability=r).linearize() for r in (None, np.ones(5)))
    np.testing.assert_array_equal(exact.transformation.toarray(), same.transformation)
    for wrong in (0.0, 1.2):
        with refused("reliability"):
            Aggregated(X, GROUPS, reliability=[0.5, 1.0, wrong, 1.0, 1.0])
    with refused("reliability"):
        Aggregated(X, GROUPS, reliability=[0.5, 0.5])


# ---- the estimators ------------------------------------------------------------------------------------------


def draw(seed, whole, groups=60, listed=4, noise=0.02):
    """Tables of groups with `whole` rows, of which some are listed; f(x) = x."""
    rng = np.random.default_rng(seed)
    x = 0.7 * rng.standard_normal((groups, 1)) + rng.standard_normal((groups, whole))
    labels = np.array([f"group {j:02d}" for j in range(groups)])
    z = x.mean(axis=1) + noise * rng.standard_normal(groups)
    return x[:, :listed].reshape(-1, 1), np.repeat(labels, listed), labels, z


def slope(posterior):
    low, high = posterior.mean([[-1.0], [1.0]])
    return (high - low) / 2.0


def test_rows_that_are_a_sample_flatten_f_less():
    slopes = []
    for seed in range(3):
        gp = TaskTransformedGP(n_restarts=0).fit(*draw(seed, whole=100))
        second = next(i for i, member in enumerate(gp.ensemble_.members) if member.model == 1)
        parts = (gp.posterior_.parts[0], gp.posterior_.parts[second], gp.posterior_)
        slopes.append([slope(part) for part in parts])
        mean, std = gp.predict([[-1.0], [1.0]], return_std=True)
        assert np.all(np.abs(mean - [-1.0, 1.0]) < 1.96 * std)
    without, with_reliability, together = np.mean(slopes, axis=0)
    assert without == pytest.approx(0.49 / (0.49 + 0.25), abs=0.1)
    assert with_reliability == pytest.approx(1.0, abs=0.1)
    assert without + 0.1 < together < with_reliability


def test_offsets_of_f_do_not_matter():
    M, level = oracles.averaging(GROUPS), np.array([3.0 * (ord(group) - ord("a")) for group in GROUPS]) + X[:, 0]
    shifted = found_reliabilities(level + 1e6, np.zeros((11, 11)), M)
    np.testing.assert_allclose(shifted, found_reliabilities(level, np.zeros((11, 11)), M), rtol=1e-6)


def test_groups_that_are_complete_are_taken_as_they_are():
    tables = draw(0, whole=4)
    gp, known = (
        TaskTransformedGP(n_restarts=0).fit(*tables),
        TaskTransformedGP(n_restarts=0, sampled=False).fit(*tables),
    )
    assert [model.observation.sampled for model in gp.ensemble_.models] == [
        False
    ]  # the others have lost their weight
    grid = np.linspace(-2.0, 2.0, 9)[:, None]
    np.testing.assert_allclose(gp.predict(grid), known.predict(grid), atol=0.01)


def test_who_says_that_rows_were_left_out_is_believed():
    gp = TaskTransformedGP(n_restarts=0, sampled=True).fit(*draw(0, whole=4))
    first, second = gp.ensemble_.models
    assert first.observation.sampled
    assert first.observation.reliability is None
    assert second.observation.reliability is not None
    assert [member.center for member in gp.ensemble_.members if member.center] == [0.5, 0.5]


def test_the_ensemble_has_three_models_with_weights_by_bayes_rule():
    x, groups, labels, z = draw(1, whole=100, groups=12)
    gp = AggregateGP(n_restarts=0).fit(x, groups, dict(zip(labels, z, strict=True)))
    first, second, third = gp.ensemble_.models
    assert first.observation.reliability is None
    mean, covariance = (view(x) for view in (gp.posterior_.parts[0].mean, gp.posterior_.parts[0].covariance))
    expected = np.maximum(textbook_reliabilities(mean, covariance, oracles.averaging(groups)), LEAST_RELIABILITY)
    np.testing.assert_allclose(second.observation.reliability, expected, rtol=1e-6)
    assert not third.observation.sampled
    tops = [member.center for member in gp.ensemble_.members if member.center]
    assert sum(tops) == pytest.approx(1.0)
    assert tops[0] == tops[1]


def test_a_search_that_fails_does_not_lose_the_fit(monkeypatch):
    learn = TaskTransformedGP._learn

    def picky(self, model, *rest, **options):
        if model.observation.reliability is not None:
            raise NotPositiveDefiniteError("as it happens")
        return learn(self, model, *rest, **options)

    monkeypatch.setattr(TaskTransformedGP, "_learn", picky)
    gp = TaskTransformedGP(n_restarts=0).fit(*draw(0, whole=100))
    assert [model.observation.sampled for model in gp.ensemble_.models] == [True]


def test_weights_by_bayes_rule():
    blank = FitResult(None, {}, 0.0, "converged", "", 0, 0, (0.0,))
    for advantage in (-3.0, 0.0, 2.0):
        complete = dataclasses.replace(blank, starts=(-50.0, advantage))
        expected = COMPLETE * np.exp(advantage) / (COMPLETE * np.exp(advantage) + 1.0 - COMPLETE)
        assert probability_of_complete(blank, complete) == pytest.approx(expected, rel=1e-12)
    assert probability_of_complete(blank, dataclasses.replace(blank, starts=(1e6,))) == 1.0


@pytest.mark.parametrize("settings", [{"uncertainty": "plain", "sampled": True}, {"sampled": False}])
def test_without_honest_samples_there_is_one_model(settings):
    x, groups, _, z = draw(2, whole=100, groups=8)
    models = AggregateGP(n_restarts=0, **settings).fit(x, groups, z).ensemble_.models
    assert [model.observation.reliability for model in models] == [None]
