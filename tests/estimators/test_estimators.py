"""Estimators one by one: the models they stand for, the labels and tables they take, what they warn of."""

import numpy as np
import oracle_kernels
import oracles
import pandas as pd
import pytest
from expected import refused, says_little, warned

from decond import DeconditionalMeanOperator, features, kernels
from decond.errors import ArgumentTypeError, DataWarning
from decond.estimators import (
    AggregateGP,
    DirectGP,
    DualEmbedding,
    ImputeGP,
    InstrumentalVariablesGP,
    TaskTransformedGP,
    TaskTransformedRidge,
    TransformedGP,
)
from decond.gp import Aggregated, FunctionPrior, Model, NoSignalWarning, TaskTransformed, maximize_evidence, select
from decond.problems import latent_function

pytestmark = pytest.mark.filterwarnings("ignore::decond.gp.BoundWarning")  # some tables here are tiny

PROBLEM = latent_function()
TOY = (PROBLEM.x, PROBLEM.y, PROBLEM.y_task, PROBLEM.z_task)
RNG = np.random.default_rng(0)


# ---- two tables and a mediator of numbers --------------------------------------------------------------------


@pytest.mark.parametrize("uncertainty", ["honest", "plain"])
def test_everything_is_used_as_given_without_learning(uncertainty):
    gp = TaskTransformedGP(
        kernels.RBF(1.0), kernels.RBF(1.0), noise=0.1, mean="zero", optimize=False, uncertainty=uncertainty
    ).fit(*TOY)
    assert gp.log_marginal_likelihood() == pytest.approx(-1548.0821503, abs=5e-7)
    assert gp.fit_result_ is None
    assert gp.noise_ == 0.1
    assert gp.kernel_.lengthscale == 1.0


def test_the_papers_model_learns_its_published_optimum():
    """With variances of one, as published; kernels that are given have variances that are learned, and fit better."""
    observation = TaskTransformed(*TOY[:3], kernels.RBF(1.0), noise=0.1)
    model = Model(FunctionPrior(kernels.RBF(1.0)), observation)
    result = maximize_evidence(model, TOY[3], select(model), n_restarts=0)
    lengthscales = result.model.prior.kernel.lengthscale, result.model.observation.kernel_y.lengthscale
    np.testing.assert_allclose([*lengthscales, result.model.observation.noise], PROBLEM.learned, rtol=1e-4)
    assert -result.log_evidence <= 105.7278
    given = {"kernel_x": result.model.prior.kernel, "kernel_y": result.model.observation.kernel_y, "mean": "zero"}
    gp = TaskTransformedGP(**given, noise=result.model.observation.noise, optimize=False).fit(*TOY)
    grid = np.linspace(-6, 6, 241)[:, None]
    mean, std = gp.predict(grid, return_std=True)
    truth = oracles.toy_f(grid)
    assert np.sqrt(np.mean((mean - truth) ** 2)) <= 0.168
    assert np.mean(np.abs(mean - truth) <= 2 * std) == pytest.approx(0.976, abs=0.005)
    learned = TaskTransformedGP(**given, noise=0.1, uncertainty="plain", n_restarts=0).fit(*TOY)
    assert learned.fit_result_.status == "converged"
    assert learned.log_marginal_likelihood() > result.log_evidence
    averaged = TaskTransformedGP(**given, noise=0.1, n_restarts=0).fit(*TOY)
    assert averaged.fit_result_.log_evidence == pytest.approx(learned.log_marginal_likelihood(), abs=1e-4)
    assert np.mean(averaged.predict(grid, return_std=True)[1]) > np.mean(learned.predict(grid, return_std=True)[1])


@pytest.mark.parametrize("mediator", ["full", "map"])
@pytest.mark.parametrize("mean", ["constant", "zero"])
@says_little()
def test_given_kernels_are_the_papers_formulas(mediator, mean):
    x, y, y_task, z = (table[:12] for table in TOY)
    gp = TaskTransformedGP(
        2.0 * kernels.RBF(1.2), kernels.RBF(0.8), noise=0.3, mean=mean, mediator=mediator, optimize=False
    ).fit(x, y, y_task, z)
    L, L_tilde, L_tilde_tilde = (oracle_kernels.rbf(*pair, 0.8) for pair in ((y, y), (y, y_task), (y_task, y_task)))
    M, Sigma = oracles.ttbkr(L, L_tilde, L_tilde_tilde, 0.3)
    Sigma = Sigma if mediator == "full" else oracles.map_noise(12, 0.3)
    new = np.array([[-1.0], [2.0]])
    K, K_star, K_new = (2.0 * oracle_kernels.rbf(*pair, 1.2) for pair in ((x, x), (x, new), (new, new)))
    offset = z.mean() if mean == "constant" else 0.0
    expected, covariance = oracles.tbkr_predictive(K, M, Sigma, z - offset, K_star, K_new)
    found, cov = gp.predict(new, return_cov=True)
    np.testing.assert_allclose(found, expected + offset, rtol=1e-9)
    np.testing.assert_allclose(cov, covariance, rtol=1e-8)
    left_out, deviation = gp.leave_one_out()
    means, variances = oracles.leave_one_out(K, M, Sigma, z - offset)
    np.testing.assert_allclose(left_out, means + offset, rtol=1e-8)
    np.testing.assert_allclose(deviation, np.sqrt(variances), rtol=1e-8)


@says_little()
def test_what_is_learned():
    """The paper's variances are fixed; of kernels that are given everything is learned, also the variance of f."""
    tables = [table[:20] for table in TOY]

    def learned(**settings):
        return set(TaskTransformedGP(n_restarts=0, **settings).fit(*tables).fit_result_.parameters)

    lengths = {"prior.kernel.kernel.lengthscale", "observation.kernel_y.kernel.lengthscale"}
    variances = {"prior.kernel.variance", "observation.kernel_y.variance"}
    assert learned(uncertainty="plain") == lengths | {"observation.noise"}
    kernel = 2.0 * kernels.RBF(1.0)
    assert learned(uncertainty="plain", kernel_x=kernel, kernel_y=kernel) == lengths | variances | {
        "observation.noise"
    }
    honest = {"prior.kernel.kernel.lengthscale", "prior.kernel.variance", "observation.noise", "observation.scale"}
    assert learned() == honest
    assert learned(kernel_x=kernels.RBF(1.0)) == honest


@says_little()
def test_an_honest_map_drops_the_uncertainty_of_the_mediator():
    models = [
        TaskTransformedGP(n_restarts=0, mediator=mediator).fit(*(t[:15] for t in TOY)) for mediator in ("full", "map")
    ]
    full, point = (model.average_.candidates[0].model.observation for model in models)
    assert full.noise_covariance.shape == (15, 15)
    assert point.noise_covariance == 0.0
    with refused("mediator"):
        TaskTransformedGP(mediator="mean").fit(*TOY)


# ---- labels --------------------------------------------------------------------------------------------------

LABELS = np.array(["mon", "tue", "wed", "thu", "fri"])
X = RNG.uniform(-2, 2, (20, 1))
INDEX = np.concatenate([np.arange(5), RNG.integers(0, 5, 15)])
Z = np.array([np.sin(X[j == INDEX, 0]).mean() for j in range(5)])
NEW = np.array([[-1.0], [0.5]])


def labeled(**settings):
    return TaskTransformedGP(**{"n_restarts": 0, **settings})


@says_little()
@pytest.mark.parametrize("sizes", [None, 9.0, dict(zip(LABELS, [20.0, 9.0, np.inf, 12.0, 30.0], strict=True))])
def test_labels_are_averages_over_their_rows(sizes):
    """With a kernel that is given and learned, the posterior is recomputed at what was learned, in plain NumPy."""
    task = np.array([0, 1, 1, 2, 3, 4, 4, 4])  # some labels were measured several times
    errors = np.linspace(0.0, 0.3, 8)
    z = Z[task] + 0.2 * np.random.default_rng(1).standard_normal(8)
    gp = labeled(kernel_x=1.0 * kernels.RBF(1.0), noise=0.2)
    gp.fit(X, LABELS[INDEX], LABELS[task], z, z_std=errors, group_sizes=sizes)
    [only] = gp.average_.candidates
    assert only.name == ("the listed rows" if sizes is None else "completed groups")
    learned, posterior = only.values[0], next(only.parts(gp.average_.z))
    seen, variance = only.model.observation, learned["prior.kernel.variance"]
    K, K_star = (
        variance * oracle_kernels.rbf(seen.x, rows, learned["prior.kernel.kernel.lengthscale"])
        for rows in (seen.x, NEW)
    )
    if sizes is None:
        M = oracles.averaging(INDEX)
        np.testing.assert_array_equal(
            seen.x[np.argsort(seen.groups, kind="stable")], X[np.argsort(INDEX, kind="stable")]
        )
    else:  # the completion of each group in this draw, which keeps what is listed
        M = seen.transformation[:, learned["observation.assignment"]]
    counts, means = np.bincount(task), np.bincount(task, z) / np.bincount(task)
    known = np.bincount(task, errors**2) / counts**2
    Sigma = np.diag(learned["observation.noise"] ** 2 / counts + known)
    expected, _ = oracles.tbkr_predictive(K, M, Sigma, means - z.mean(), K_star, np.eye(2))
    np.testing.assert_allclose(posterior.mean(NEW), expected, rtol=1e-8)
    evidence = oracles.tbkr_evidence(K, M, Sigma, means - z.mean())
    assert posterior.log_evidence == pytest.approx(evidence, rel=1e-10)


def test_labels_of_every_kind_are_the_same():
    expected = labeled().fit(X, LABELS[INDEX], LABELS, Z).predict(NEW)
    dates = pd.Series(pd.date_range("2024-01-29", periods=5))
    numbers = 2**60 + np.arange(5)
    steps = np.arange(5).astype("m8[ns]")
    kinds = {
        "object": LABELS.astype(object),
        "list": LABELS.tolist(),
        "categorical": pd.Series(pd.Categorical(LABELS)),
        "string": pd.Series(LABELS, dtype="string"),
        "dates": dates,
        "days": dates.to_numpy().astype("M8[D]"),
        "date objects": dates.dt.date.to_numpy(),
        "large numbers": numbers,
        "durations": steps,
    }
    for kind, values in kinds.items():
        rows = np.asarray(values)[INDEX] if kind != "categorical" else values.iloc[INDEX]
        found = labeled().fit(X, rows, values, Z).predict(NEW)
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=kind)
    mixed_units = labeled().fit(X, dates.to_numpy().astype("M8[D]")[INDEX], dates, Z).predict(NEW)
    np.testing.assert_allclose(mixed_units, expected, rtol=1e-6)


def test_two_columns_of_labels_are_one_label():
    both = pd.DataFrame({"week": ["a", "a", "b", "b", "b"], "day": ["x", "y", "x", "y", "z"]})
    found = labeled().fit(X, both.iloc[INDEX], both, Z).predict(NEW)
    np.testing.assert_allclose(found, labeled().fit(X, LABELS[INDEX], LABELS, Z).predict(NEW), rtol=1e-6)


def test_the_order_of_rows_and_labels_does_not_matter():
    expected, std = labeled().fit(X, LABELS[INDEX], LABELS, Z).predict(NEW, return_std=True)
    rows, task = np.random.default_rng(3).permutation(20), [3, 0, 4, 2, 1]
    found = labeled().fit(X[rows], LABELS[INDEX][rows], LABELS[task], Z[task]).predict(NEW, return_std=True)
    np.testing.assert_allclose(found, [expected, std], rtol=1e-4)


@says_little()
def test_labels_that_one_table_lacks_are_left_out_with_a_warning():
    shared = [1, 3, 4]
    inside = np.isin(INDEX, shared)
    reduced = (X[inside], LABELS[INDEX[inside]], LABELS[shared], Z[shared])
    extra = np.append(Z[shared], [100.0, -50.0])
    expected = labeled().fit(*reduced)
    more = np.append(LABELS[shared], ["sat", "sun"])
    with warned(DataWarning, argument="y_task") as caught:
        found = labeled().fit(X, LABELS[INDEX], more, extra)
    with warned(DataWarning, argument="y_task") as also_caught:
        imputed = ImputeGP(n_restarts=0).fit(X, LABELS[INDEX], more, extra)
    np.testing.assert_allclose(imputed.predict(NEW), ImputeGP(n_restarts=0).fit(*reduced).predict(NEW), rtol=1e-9)
    for warnings in (caught, also_caught):  # they point to the line that called fit
        assert any(str(warning.filename) == __file__ for warning in warnings)
    for view in ("return_std", "return_cov"):
        ours, theirs = (model.predict(NEW, **{view: True}) for model in (found, expected))
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-9)
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-9)
    assert found.offset_ == expected.offset_


@pytest.mark.parametrize("model", [ImputeGP(n_restarts=0), DualEmbedding()], ids=["ImputeGP", "DualEmbedding"])
@says_little()
def test_mediators_of_numbers_that_do_not_meet_are_warned_of_at_the_line_that_called_fit(model):
    y = np.linspace(950.0, 1050.0, len(X))
    with pytest.warns(DataWarning) as caught:
        model.fit(X, y, 100.0 * np.linspace(960.0, 1040.0, len(Z)), Z)
    told = [one for one in caught if issubclass(one.category, DataWarning) and one.message.argument == "y_task"]
    assert [one.filename for one in told] == [__file__]


def test_tables_without_a_common_label_are_refused():
    with refused("y_task"):
        labeled().fit(X, LABELS[INDEX], np.char.upper(LABELS), Z)
    with refused("y_task"):
        TaskTransformedGP(uncertainty="plain").fit(X, LABELS[INDEX], np.char.upper(LABELS), Z)
    frame = pd.DataFrame({"p": np.arange(5.0), "q": np.arange(5.0)})
    with refused("y_task"):
        TaskTransformedGP().fit(X[:5], frame, frame[["q", "p"]], Z)
    with refused("y_task"):
        labeled().fit(X, LABELS[INDEX], ["mon", "sun"], Z[:2])
    with refused("y_task", ArgumentTypeError):
        labeled().fit(X, LABELS[INDEX], np.arange(5), Z)
    with refused("y_task"):
        labeled().fit(X, np.column_stack([INDEX, INDEX]), np.arange(5), Z)
    with refused("y"):
        labeled().fit(X[:2], ["mon", None], ["mon", "tue"], Z[:2])
    with refused("x"):
        labeled().fit(X[:1], LABELS[:1], LABELS, Z)


@pytest.mark.parametrize("uncertainty", ["honest", "plain"])
def test_a_mediator_of_labels_and_numbers_separates_the_labels(uncertainty):
    """Within a label z follows x; between labels nothing is shared, as if they were fitted apart."""
    rng = np.random.default_rng(2)
    side, task_side = np.repeat(["left", "right"], 25), np.repeat(["left", "right"], 20)
    x = np.concatenate([rng.uniform(-3, -1, 25), rng.uniform(1, 3, 25)])
    y, y_task = np.abs(x) + 0.05 * rng.standard_normal(50), rng.uniform(1, 3, 40)
    z = np.where(task_side == "left", -y_task, y_task) + 0.02 * rng.standard_normal(40)
    frames = [pd.DataFrame({"side": s, "distance": d}) for s, d in ((side, y), (task_side, y_task))]
    gp = labeled(uncertainty=uncertainty).fit(x, frames[0], frames[1], z)
    np.testing.assert_allclose(gp.predict([-2.5, -1.5, 1.5, 2.5]), [-2.5, -1.5, 1.5, 2.5], atol=0.2)
    with says_little():
        blind = labeled(uncertainty=uncertainty).fit(x, y, y_task, z)
    assert np.abs(blind.predict([-2.5, 2.5]) - [-2.5, 2.5]).max() > 1.0


@says_little()
def test_labels_among_the_columns_of_x():
    """f is a level for each site plus a smooth part."""
    rng = np.random.default_rng(4)
    x = pd.DataFrame({"site": np.tile(["a", "b", "c"], 30), "t": rng.uniform(-2, 2, 90)})
    level = x["site"].map({"a": 0.0, "b": 4.0, "c": -4.0}).to_numpy()
    groups = np.arange(90) // 3 % 30 * 3 + np.arange(90) % 3 // 2  # a with b, c alone: levels can be told apart
    f = level + np.sin(x["t"].to_numpy())
    labels = np.unique(groups)
    z = np.array([f[groups == label].mean() for label in labels])
    text = np.array([f"g{label}" for label in labels])
    new = pd.DataFrame({"site": ["a", "b", "c", "c"], "t": [0.0, 0.0, 0.0, 1.5]})
    for gp in (
        AggregateGP(n_restarts=0).fit(x, groups, z),
        TaskTransformedGP(n_restarts=0).fit(x, [f"g{g}" for g in groups], text, z),
    ):
        np.testing.assert_allclose(gp.predict(new)[2:], [-4.0, -4.0 + np.sin(1.5)], atol=0.8)
        assert gp.predict(new)[0] + gp.predict(new)[1] == pytest.approx(4.0, abs=1.0)
        with refused("x"):
            gp.predict(new.rename(columns={"site": "place"}))


# ---- groups --------------------------------------------------------------------------------------------------


def aggregate(**settings):
    given = {"noise": 0.2, "optimize": False, **settings}
    return AggregateGP(kernels.RBF(0.9), **given)


def textbook(groups, z, Sigma, weights=None, mean=None):
    K, K_star = oracle_kernels.rbf(X, X, 0.9), oracle_kernels.rbf(X, NEW, 0.9)
    offset = z.mean() if mean is None else mean
    M = oracles.averaging(groups, weights)
    return oracles.tbkr_predictive(K, M, Sigma, z - offset, K_star, oracle_kernels.rbf(NEW, NEW, 0.9)), offset


def check(gp, groups, z, Sigma, weights=None, mean=None):
    (expected, covariance), offset = textbook(groups, z, Sigma, weights, mean)
    found, cov = gp.predict(NEW, return_cov=True)
    np.testing.assert_allclose(found, expected + offset, rtol=1e-9)
    np.testing.assert_allclose(cov, covariance, rtol=1e-8, atol=1e-12)


ORDER = np.argsort(LABELS)  # the order of np.unique
SORTED = LABELS[ORDER]
DATES = pd.date_range("2024-01-29", periods=5)
GROUP_VALUES = {
    "array": (LABELS, lambda z: z[ORDER]),
    "list": (LABELS, lambda z: z[ORDER].tolist()),
    "dict": (LABELS, lambda z: dict(zip(LABELS.tolist(), z, strict=True))),
    "Series by label": (LABELS, lambda z: pd.Series(z, index=LABELS)),
    "frame by label": (LABELS, lambda z: pd.DataFrame({"z": z}, index=LABELS)["z"]),
    "whole numbers": (np.arange(10, 15), lambda z: {10 + j: value for j, value in enumerate(z)}),
    "whole numbers out of order": (np.arange(5), lambda z: pd.Series(z[::-1], index=np.arange(5)[::-1])),
    "dates": (DATES, lambda z: pd.Series(z, index=DATES)[::-1]),
    "dict of dates": (DATES, lambda z: dict(zip(DATES.date, z, strict=True))),
    "Series of date objects": (DATES.date, lambda z: pd.Series(z, index=DATES)),
}


@pytest.mark.parametrize("kind", list(GROUP_VALUES))
def test_values_of_groups_in_every_form(kind):
    labels, values = GROUP_VALUES[kind]
    gp = aggregate().fit(X, np.asarray(labels)[INDEX], values(Z))
    Sigma = 0.04 * np.eye(5)
    check(gp, INDEX, Z, Sigma)


def test_groups_of_several_columns_are_matched_by_label_alone():
    rows = pd.DataFrame({"a": np.repeat([1, 2], 33), "b": np.tile(np.repeat(np.arange(1, 12), 3), 2)})
    x = rows["b"] + 0.1 * np.tile([-1.0, 0.0, 1.0], 22)
    means = x.groupby([rows["a"], rows["b"]]).mean()
    with says_little():
        found = AggregateGP(n_restarts=0).fit(x.to_numpy(), rows, means).predict([[2.0], [10.0]])
    np.testing.assert_allclose(found, [2.0, 10.0], atol=0.1)
    with refused("z_groups"):
        AggregateGP().fit(x.to_numpy(), rows, means.to_numpy())
    with refused("groups"):
        AggregateGP().fit(x.to_numpy(), rows.astype(float).replace(11.0, np.nan), means)


def test_values_in_numbered_rows_are_not_taken_by_place():
    with refused("z_groups"):
        aggregate().fit(X, LABELS[INDEX], pd.Series(Z))


@says_little()
def test_several_values_of_groups_in_a_frame():
    frame = pd.DataFrame({"a": Z, "b": Z**2}, index=LABELS)
    found = aggregate().fit(X, LABELS[INDEX], frame).predict(NEW)
    for t, column in enumerate((Z, Z**2)):
        (expected, _), offset = textbook(INDEX, column, 0.04 * np.eye(5))
        np.testing.assert_allclose(found[:, t], expected + offset, rtol=1e-9)


@says_little()
def test_groups_with_weights_individual_noise_and_sampling():
    weights = np.random.default_rng(5).uniform(0.5, 3.0, 20)
    Sigma = oracles.aggregated_noise(INDEX, 0.2, 0.5, weights)
    check(aggregate(individual_noise=0.5).fit(X, INDEX, Z, weights), INDEX, Z, Sigma, weights)
    check(aggregate(individual_noise=0.5, mean="zero").fit(X, INDEX, Z, weights), INDEX, Z, Sigma, weights, mean=0.0)
    sampled = Sigma + oracles.sampled_groups_noise(oracle_kernels.rbf(X, X, 0.9), INDEX, weights)
    gp = aggregate(individual_noise=0.5).fit(X, INDEX, Z, weights, group_sizes=np.inf)
    check(gp, INDEX, Z, sampled, weights)
    errors = np.linspace(0.1, 0.5, 5)
    gp = aggregate(individual_noise=0.5).fit(X, INDEX, Z, weights, z_std=dict(enumerate(errors)))
    check(gp, INDEX, Z, Sigma + np.diag(errors**2), weights)


def test_noises_are_learned_where_they_are_there():
    learned = AggregateGP(n_restarts=0, individual_noise=0.3).fit(X, INDEX, Z).fit_result_.parameters
    assert {"observation.noise", "observation.individual_noise"} <= set(learned)
    assert learned["observation.individual_noise"] != 0.3
    assert "observation.individual_noise" not in AggregateGP(n_restarts=0).fit(X, INDEX, Z).fit_result_.parameters


GROUP_SLIPS = {
    "missing": {"mon": 1.0},
    "twice": pd.Series(np.ones(6), index=[*LABELS, "mon"]),
    "extra": dict.fromkeys([*LABELS, "sun"], 1.0),
    "other": dict.fromkeys("abcde", 1.0),
    "too few": np.ones(4),
    "NaN": np.append(np.ones(4), np.nan),
}


@pytest.mark.parametrize("slip", list(GROUP_SLIPS))
def test_slips_with_groups(slip):
    with refused("z_groups"):
        aggregate().fit(X, LABELS[INDEX], GROUP_SLIPS[slip])


def test_other_slips_with_groups():
    with refused("groups"):
        aggregate().fit(X, np.zeros(20), [1.0])
    with refused("groups", ArgumentTypeError):
        aggregate().fit(X[:3], np.array(["a", 1, 2], dtype=object), np.ones(3))
    with refused("repeats"):
        Aggregated(X[:3], [0, 1, 1], repeats=[0, 1])


# ---- given weights, direct, ridge ----------------------------------------------------------------------------


def test_a_given_identity_is_ordinary_regression():
    x, z = PROBLEM.x[:15], np.random.default_rng(6).standard_normal(15)
    settings = {"kernel": 1.5 * kernels.Matern32(0.7), "noise": 0.3, "mean": "constant", "optimize": False}
    given, direct = TransformedGP(**settings).fit(x, np.eye(15), z), DirectGP(**settings).fit(x, z)
    for view in ("return_std", "return_cov"):
        ours, theirs = (model.predict(NEW, **{view: True}) for model in (given, direct))
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-10)
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-8)
    assert given.log_marginal_likelihood() == pytest.approx(direct.log_marginal_likelihood(), rel=1e-12)
    K, K_star = 1.5 * oracle_kernels.matern32(x, x, 0.7), 1.5 * oracle_kernels.matern32(x, NEW, 0.7)
    expected = z.mean() + K_star.T @ np.linalg.solve(K + 0.09 * np.eye(15), z - z.mean())
    np.testing.assert_allclose(direct.predict(NEW), expected, rtol=1e-9)


def test_given_weights_and_noise():
    rng = np.random.default_rng(7)
    x, M, root, z = rng.standard_normal((9, 1)), rng.standard_normal((9, 6)), rng.standard_normal((6, 6)), np.ones(6)
    covariance = root @ root.T + np.eye(6)
    K, K_star = oracle_kernels.rbf(x, x, 0.9), oracle_kernels.rbf(x, NEW, 0.9)
    for noise, given, Sigma in (
        (0.2, None, 0.04 * np.eye(6)),
        (0.2, covariance, covariance + 0.04 * np.eye(6)),
        (0.0, np.arange(1.0, 7.0), np.diag(np.arange(1.0, 7.0))),
    ):
        gp = TransformedGP(kernels.RBF(0.9), noise=noise, optimize=False).fit(x, M, z, given)
        expected, _ = oracles.tbkr_predictive(K, M, Sigma, z, K_star, np.eye(2))
        np.testing.assert_allclose(gp.predict(NEW), expected, rtol=1e-8)
        assert gp.offset_ == 0.0
    exact = TransformedGP(kernels.RBF(0.9), noise=0.0, n_restarts=0, uncertainty="plain").fit(x, M, z, covariance)
    assert exact.noise_ == 0.0  # absent, so nothing to learn
    with refused("noise"):
        TransformedGP(noise=0.0).fit(x, M, z)


@pytest.mark.parametrize("size", [1.0, 1e-4, 1e4])
def test_the_size_of_given_weights_does_not_matter(size):
    x, M = PROBLEM.x[:30], np.random.default_rng(8).dirichlet(np.ones(30), 25).T
    z = M.T @ np.sin(x[:, 0])
    gp = TransformedGP(n_restarts=0).fit(x, size * M, z)
    reference = TransformedGP(n_restarts=0).fit(x, M, z)
    np.testing.assert_allclose(size * gp.predict(NEW), reference.predict(NEW), rtol=1e-3, atol=1e-4)


def test_ridge_is_the_deconditional_mean_of_centered_targets():
    x, y, y_task, z = (table[:25] for table in TOY)
    settings = {"regularization": 1e-2, "evidence_regularization": 3e-3}
    ridge = TaskTransformedRidge(kernels.RBF(0.9), kernels.RBF(0.6), **settings).fit(x, y, y_task, z)
    operator = DeconditionalMeanOperator(kernels.RBF(0.9), kernels.RBF(0.6), **settings).fit(x, y, y_task)
    expected = operator.deconditional_mean(z - z.mean(), NEW) + z.mean()
    np.testing.assert_allclose(ridge.predict(NEW), expected, rtol=1e-8)
    A = oracles.transformation(oracle_kernels.rbf(y, y, 0.6), oracle_kernels.rbf(y, y_task, 0.6), 1e-2)
    K, k_star = oracle_kernels.rbf(x, x, 0.9), oracle_kernels.rbf(x, NEW, 0.9)
    textbook = oracles.dme_nonparametric(K, A, z - z.mean(), k_star, 3e-3) + z.mean()
    np.testing.assert_allclose(ridge.predict(NEW), textbook, rtol=1e-7)


def test_linear_ridge_is_kernel_ridge_with_the_kernel_of_its_features():
    x, y, y_task, z = (table[:25] for table in TOY)
    settings = {"regularization": 1e-3, "evidence_regularization": 1e-2}
    phi, psi = features.Polynomial(3), features.RandomFourier(kernels.RBF(1.0), 8, seed=1)
    linear = TaskTransformedRidge(phi, psi, **settings).fit(x, y, y_task, z)
    kernel = TaskTransformedRidge(phi.kernel(), psi.kernel(), **settings).fit(x, y, y_task, z)
    assert linear.posterior_.form == "weight"
    np.testing.assert_allclose(linear.predict(NEW), kernel.predict(NEW), rtol=1e-7)
    Phi, Phi_star = phi(x).T, phi(NEW).T
    A = oracles.transformation_parametric(psi(y).T, psi(y_task).T, 1e-3)
    textbook = oracles.dme_parametric(Phi, A, z - z.mean(), Phi_star, 1e-2) + z.mean()
    np.testing.assert_allclose(linear.predict(NEW), textbook, rtol=1e-6)


def test_ridge_takes_labels():
    ridge = TaskTransformedRidge(kernels.RBF(0.9)).fit(X, LABELS[INDEX], LABELS, Z)
    counts = np.bincount(INDEX)
    A = (INDEX[:, None] == np.arange(5)) / (counts + 20 * 1e-3)
    K, k_star = oracle_kernels.rbf(X, X, 0.9), oracle_kernels.rbf(X, NEW, 0.9)
    expected = oracles.dme_nonparametric(K, A, Z - Z.mean(), k_star, 1e-3) + Z.mean()
    np.testing.assert_allclose(ridge.predict(NEW), expected, rtol=1e-7)


# ---- instruments ---------------------------------------------------------------------------------------------


def demand(n=150, seed=0):
    """Outcome = -treatment + error, where the error moves the treatment too; the instrument does not know it."""
    rng = np.random.default_rng(seed)
    instrument, confounder = rng.uniform(-2.5, 2.5, n), rng.standard_normal(n)
    treatment = instrument + confounder
    return treatment, instrument, -treatment + 2.5 * confounder + 0.1 * rng.standard_normal(n)


def test_instruments_undo_confounding_with_one_table_and_with_two():
    treatment, instrument, outcome = demand()
    grid = np.linspace(-2.5, 2.5, 41)

    def error(answer):
        return np.sqrt(np.mean((answer + grid) ** 2))

    confounded = error(
        DirectGP(n_restarts=0, uncertainty="plain").fit(treatment[:, None], outcome).predict(grid[:, None])
    )
    assert confounded > 0.7
    one = InstrumentalVariablesGP(n_restarts=0).fit(treatment, instrument, outcome)
    assert error(one.predict(grid)) < 0.5 * confounded
    half = slice(None, 75), slice(75, None)
    tables = (treatment[half[0]], instrument[half[0]], outcome[half[1]], instrument[half[1]])
    two = InstrumentalVariablesGP(n_restarts=0).fit(*tables)
    assert error(two.predict(grid)) < 0.5 * confounded
    same = TaskTransformedGP(n_restarts=0).fit(tables[0], tables[1], tables[3], tables[2])
    np.testing.assert_array_equal(two.predict(grid), same.predict(grid))


def test_slips_with_instruments_are_told_in_their_words():
    treatment, instrument, outcome = demand(20)
    iv = InstrumentalVariablesGP(n_restarts=0)
    with refused("outcome"):
        iv.fit(treatment, instrument, outcome, instrument[:18])
    with refused("instrument_of_outcome"):
        iv.fit(treatment, instrument, outcome, np.zeros((20, 2)))


def test_categories_are_labels_even_if_they_look_like_numbers():
    numbers = INDEX * 10
    text = labeled().fit(X, numbers.astype(str), (np.arange(5) * 10).astype(str), Z)
    categories = labeled().fit(X, pd.Categorical(numbers), pd.Series(pd.Categorical(np.arange(5) * 10)), Z)
    np.testing.assert_array_equal(categories.predict(X), text.predict(X))


def test_targets_that_say_nothing_leave_wide_bands():
    """Without a prior on the amplitude the evidence would make f constant, with bands of nothing."""
    rng = np.random.default_rng(0)
    x, z = rng.uniform(0, 6, (40, 1)), rng.standard_normal(40)
    with warned(NoSignalWarning):
        gp = DirectGP(n_restarts=0).fit(x, z)
    assert gp.predict(x, return_std=True)[1].mean() > 0.1
    means = TransformedGP(mean="constant")
    with refused("mean"):
        means.fit(x, 2.0 * np.eye(40), z)
