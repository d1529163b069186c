"""Names of summaries: whatever order a simulator, a table or an observation has them in, values stay with names."""

import warnings

import numpy as np
import pandas as pd
import pytest
from expected import refused
from scipy import stats

from decond.errors import ArgumentTypeError
from decond.lfi import Prior, RejectionABC, SimulationError, Simulations, SimulationStore, diagnose, infer, simulate
from decond.lfi.diagnostics import posterior_predictive_check, simulation_based_calibration
from decond.lfi.exceptions import StoreWarning

PRIOR = Prior({"low": stats.norm(0, 1), "high": stats.norm(100, 1)})
METHOD = RejectionABC(quantile=0.3, adjustment="linear")


def turned(named, rng):
    """The same dict, or in the other order, by chance."""
    return named if rng.random() < 0.5 else dict(reversed(named.items()))


def either_order(theta, rng):
    low, high = theta + 0.3 * rng.standard_normal(2)
    return turned({"low": low, "high": high}, rng)


def batch_in_either_order(theta, rng):
    return turned({"low": theta[:, 0], "high": theta[:, 1]}, rng)


def assert_in_order(sims, names=("low", "high")):
    """Values near 100 are under the name "high", the others under "low"."""
    assert sorted(sims.summary_names) == sorted(names)
    np.testing.assert_array_equal(sims.x[sims.valid, sims.summary_names.index(names[1])] > 50.0, True)
    np.testing.assert_array_equal(sims.x[sims.valid, sims.summary_names.index(names[0])] < 50.0, True)


# ---- several sets of simulations --------------------------------------------------------------------------------


def two_sets(n=300, m=60):
    """Simulations in one order of names, and others in the other order."""
    rng = np.random.default_rng(0)
    first, second = PRIOR.sample(n, seed=1), PRIOR.sample(m, seed=2)
    x, y = first + 0.3 * rng.standard_normal(first.shape), second + 0.3 * rng.standard_normal(second.shape)
    sims = Simulations(first, x, names=PRIOR.names, summary_names=["low", "high"])
    return sims, Simulations(second, y[:, ::-1], names=PRIOR.names, summary_names=["high", "low"])


def test_columns_are_put_in_the_order_of_given_names():
    theta, x = np.arange(4.0).reshape(2, 2), np.array([[1.0, 2.0], [np.nan, 3.0]])
    raw = np.array([[5.0], [6.0]])
    sims = Simulations(theta, x, None, ["", "burst"], raw, ["u", "v"], ["a", "b"])
    other = sims.ordered_as(["b", "a"])
    np.testing.assert_array_equal(other.x[0], [2.0, 1.0])
    assert other.summary_names == ("b", "a")
    assert other.names == ("u", "v")
    assert other.failures == {"burst": 1}
    np.testing.assert_array_equal(other.theta, theta)
    np.testing.assert_array_equal(other.raw, raw)
    assert sims.ordered_as(None) is sims
    unnamed = Simulations(theta, x)
    assert unnamed.ordered_as(["b", "a"]) is unnamed


@pytest.mark.parametrize(("mine", "others"), [("ab", "ac"), ("aa", "ba"), ("ab", "a")])
def test_other_names_are_refused(mine, others):
    sims = Simulations([[1.0]], [[1.0, 2.0]], summary_names=list(mine))
    with refused("names"):
        sims.ordered_as(list(others))


def test_simulations_in_two_orders_are_added_by_name():
    first, second = two_sets()
    both = first + second
    assert both.summary_names == ("low", "high")
    assert_in_order(both)
    with refused("names"):
        first + Simulations(second.theta, second.x, names=PRIOR.names, summary_names=["low", "top"])


# ---- diagnostics ------------------------------------------------------------------------------------------------


def test_test_simulations_are_judged_by_name():
    sims, test = two_sets()
    found, expected = (
        simulation_based_calibration(METHOD, sims, PRIOR, 60, test=judged, n_draws=99)
        for judged in (test, test.ordered_as(sims.summary_names))
    )
    np.testing.assert_array_equal(found.ranks, expected.ranks)


def test_predictions_are_compared_by_name():
    sims, predicted = two_sets()
    posterior = METHOD.fit(sims, PRIOR).posterior([0.0, 100.0])
    expected = posterior_predictive_check(posterior, predicted.ordered_as(sims.summary_names), [0.0, 100.0])
    for observed in ([0.0, 100.0], {"high": 100.0, "low": 0.0}):
        check = posterior_predictive_check(posterior, predicted, observed)
        assert check.names == ("low", "high")
        np.testing.assert_array_equal(check.tail_shares, expected.tail_shares)
    by_hand = posterior_predictive_check(None, predicted, [0.0, 100.0], names=["low", "high"])
    np.testing.assert_array_equal(by_hand.tail_shares, expected.tail_shares)


@pytest.mark.parametrize("named", [True, False])
def test_a_diagnosis_goes_by_name(named):
    """Both orders of the simulations are tried: one of them is not that of the predictions."""
    seen = {"high": 100.2, "low": 0.1}
    theta = np.concatenate([PRIOR.sample(300, seed=3), np.tile([0.0, 100.0], (300, 1))])  # no draws of the prior
    x = theta + 0.3 * np.random.default_rng(4).standard_normal(theta.shape)
    for order in (["low", "high"], ["high", "low"]):
        columns = x[:, [PRIOR.names.index(name) for name in order]]
        sims = Simulations(theta, columns, summary_names=order if named else None)
        observed = seen if named else {name: seen[name] for name in order}
        report = diagnose(METHOD, sims, PRIOR, observed, either_order, n=30, n_predictive=60, level=0.05)
        assert report.predictive.names == tuple(order)
        assert_in_order(Simulations(np.zeros((60, 1)), report.predictive.simulated, summary_names=order))
        assert np.abs(report.predictive.observed - [seen[name] for name in order]).max() == 0.0
        assert report.calibration.verdict not in ("biased", "over-confident")


# ---- summarize --------------------------------------------------------------------------------------------------


def named_summaries(raw):
    named = {"low": raw[0], "high": raw[1]}
    return named if raw[0] > 0 else dict(reversed(named.items()))


@pytest.mark.parametrize("batched", [True, False])
def test_names_from_summarize_are_kept_and_put_in_order(batched):
    sims = simulate(lambda theta, rng: theta, PRIOR, 40, batched=batched, summarize=named_summaries)
    assert sims.n_valid == 40
    assert_in_order(sims)


@pytest.mark.parametrize("method", [METHOD, "smc"])
def test_an_observation_is_summarized_by_name(method):
    """The observation's summaries come in another order than those of all simulations."""

    def simulator(theta, rng):
        return theta + 0.1 * rng.standard_normal(2)

    def summarize(raw):
        named = {"low": raw[0], "high": raw[1]}
        return dict(reversed(named.items())) if raw[0] == 0.5 else named

    posterior = infer(simulator, PRIOR, [0.5, 100.0], 400, 1, method=method, summarize=summarize, seed=0)
    assert posterior.mean() == pytest.approx([0.5, 100.0], abs=0.4)


def test_a_raw_observation_by_name_is_refused_where_names_are_lost():
    with refused("observed", ArgumentTypeError):
        infer(either_order, PRIOR, {"low": 0.0, "high": 100.0}, 100, 1, summarize=lambda raw: raw[0])


NAMED_RAW = {
    "dict": (either_order, False),
    "Series": (lambda theta, rng: pd.Series(either_order(theta, rng)), False),
    "dict of a batch": (batch_in_either_order, True),
    "frame of a batch": (lambda theta, rng: pd.DataFrame(batch_in_either_order(theta, rng)), True),
}


@pytest.mark.parametrize("kind", NAMED_RAW)
def test_raw_data_by_name_are_failures(kind):
    """`summarize` sees positions only; no value may be taken for another one."""
    simulator, batched = NAMED_RAW[kind]
    with pytest.raises(SimulationError) as caught:
        simulate(simulator, PRIOR, 10, batched=batched, summarize=lambda raw: raw[0])
    for reason in caught.value.failures:
        assert all(name in reason for name in ("low", "high", "summarize"))


def test_summaries_computed_again_have_their_new_names():
    def again(summarize):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StoreWarning)
            return simulate(lambda theta, rng: theta, PRIOR, 30, summarize=summarize, store=store)

    with SimulationStore(":memory:", PRIOR) as store:
        before = again(named_summaries)
        assert again(lambda raw: {"upper": raw[1], "lower": raw[0]}).summary_names == ("upper", "lower")
        assert_in_order(again(lambda raw: {"lower": raw[0], "upper": raw[1]}), ("lower", "upper"))
        after = again(lambda raw: raw)
        assert after.summary_names is None
        np.testing.assert_array_equal(after.x, before.theta)


# ---- numbers of values, kinds of names --------------------------------------------------------------------------


def test_a_first_result_with_fewer_values_does_not_mix_up_the_others():
    calls = []

    def starts_short(theta, rng):
        calls.append(theta)
        named = either_order(theta, rng)
        return {"low": named["low"]} if len(calls) == 1 else named

    sims = simulate(starts_short, PRIOR, 60)
    assert sims.failures == {"returned 1 values where most returned 2": 1}
    assert_in_order(sims)


@pytest.mark.parametrize("batched", [True, False])
def test_numbers_are_names_in_a_dict(batched):
    def numbered(theta, rng):
        named = batch_in_either_order(theta, rng) if batched else either_order(theta, rng)
        return {("low", "high").index(name): value for name, value in named.items()}

    sims = simulate(numbered, PRIOR, 400, batched=batched, seed=1)
    assert sims.n_valid == 400
    assert_in_order(sims, ("0", "1"))
    np.testing.assert_array_equal(sims.observed_row({1: 99.0, 0: 1.0}), sims.observed_row({0: 1.0, 1: 99.0}))


def test_the_numbers_of_a_series_count_its_rows():
    sims = simulate(lambda theta, rng: pd.Series(theta[::-1]).sort_values(), PRIOR, 10)
    assert sims.summary_names is None
    np.testing.assert_array_equal(sims.x, sims.theta)


@pytest.mark.parametrize("batched", [True, False])
def test_a_repeated_name_is_a_failure(batched):
    def repeated(theta, rng):
        values = np.column_stack([theta, theta[:, :1]]) if batched else [*theta, theta[0]]
        names = ["low", "high", "low"]
        return pd.DataFrame(values, columns=names) if batched else pd.Series(values, index=names)

    with pytest.raises(SimulationError) as caught:
        simulate(repeated, PRIOR, 10, batched=batched)
    assert caught.value.failures == {"returned low, high, low, where a name stands twice": 10}
