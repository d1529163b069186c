"""From a simulator and an observation to a posterior in one call, also where simulations fail or were interrupted."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from expected import refused, warned
from light_simulators import LIMIT, TOO_LONG, gaussian, moody, sleepy, two_numbers
from scipy import stats

from decond import lfi
from decond.errors import ArgumentTypeError
from decond.lfi.exceptions import FailedSimulationsWarning, FewValidWarning, StoreMismatchError, StoreWarning
from decond.lfi.rounds import METHODS, method_named, round_sizes

PRIOR = lfi.Prior({"mean": stats.norm(0.0, 2.0)})


def exact(observed):
    precision = 1 / 2.0**2 + 1 / 0.5**2
    return observed / 0.5**2 / precision, precision**-0.5


def test_recovers_a_conjugate_posterior():
    mean, sd = exact(1.0)
    posterior = lfi.infer(gaussian, PRIOR, [1.0], n_simulations=300, seed=1)
    assert posterior.mean()[0] == pytest.approx(mean, abs=0.25 * sd)
    assert posterior.std()[0] == pytest.approx(sd, rel=0.25)
    assert len(posterior.simulations) == 300


def test_later_rounds_simulate_near_the_posterior():
    sims = lfi.infer(gaussian, PRIOR, [3.0], n_simulations=300, rounds=3).simulations
    distance = np.abs(sims.theta[:, 0] - 3.0)
    assert np.median(distance[120:]) < 0.5 * np.median(distance[:120])


def test_failures_of_every_kind_are_counted_and_the_posterior_stands():
    with warned(FailedSimulationsWarning, n_simulations=150) as caught:
        posterior = lfi.infer(moody, PRIOR, [1.0], n_simulations=150, rounds=1, timeout=LIMIT)
    failures = posterior.simulations.failures
    assert len(failures) == 4, failures
    assert "ArithmeticError: the reactor melted" in failures
    assert failures[TOO_LONG] == 1
    (warning,) = (one.message for one in caught if one.category is FailedSimulationsWarning)
    assert (warning.n_failed, warning.reasons) == (posterior.simulations.n_failed, failures)
    mean, sd = exact(1.0)
    assert posterior.mean()[0] == pytest.approx(mean, abs=0.6 * sd)


def test_the_chance_of_failing_is_part_of_the_likelihood():
    def picky(theta, rng):
        x = theta + 2.0 * rng.standard_normal(1)
        return x if rng.random() < 1.0 / (1.0 + np.exp(-3.0 * theta[0])) else [np.nan]

    grid = np.linspace(-8.0, 8.0, 4001)
    weight = np.exp(stats.norm(0, 2).logpdf(grid) + stats.norm(grid, 2.0).logpdf(0.0)) / (1.0 + np.exp(-3.0 * grid))
    truth = (weight @ grid) / weight.sum()  # 1.0; it would be 0 if failures were merely dropped
    with pytest.warns(FailedSimulationsWarning), pytest.warns(FewValidWarning):
        posterior = lfi.infer(picky, PRIOR, [0.0], n_simulations=600, rounds=1)
    assert posterior.mean()[0] == pytest.approx(truth, abs=0.3)


def test_an_interrupted_inference_goes_on_from_its_store(tmp_path):
    path = tmp_path / "runs.sqlite"
    calls = []

    def counted(theta, rng):
        calls.append(theta)
        if len(calls) == 70:
            raise KeyboardInterrupt
        return gaussian(theta, rng)

    with pytest.raises(KeyboardInterrupt):
        lfi.infer(counted, PRIOR, [1.0], 90, 3, store=path)
    done = len(calls) - 1
    resumed = lfi.infer(counted, PRIOR, [1.0], 90, 3, store=path)
    assert len(calls) - 1 == 90
    assert done < 90
    whole = lfi.infer(gaussian, PRIOR, [1.0], 90, 3)
    np.testing.assert_allclose(resumed.simulations.x, whole.simulations.x)


def test_a_larger_budget_adds_to_the_store(tmp_path):
    path = tmp_path / "runs.sqlite"
    first = lfi.infer(gaussian, PRIOR, [1.0], 150, 2, store=path).simulations
    more = lfi.infer(gaussian, PRIOR, [1.0], 300, 2, store=path).simulations
    kept = {float(x) for x in first.x[:, 0]}
    assert len(more) == 300
    assert kept <= {float(x) for x in more.x[:, 0]}


QUICKER = {"gpsabc": {"n_samples": 2000}, "lfvi": {"steps": 300}, "mdn": {"steps": 1000}}
"""Settings that are enough for one parameter, of methods whose own take seconds."""


def quicker(name):
    """Return a method by its name, with fewer steps where it takes many."""
    method = method_named(name)
    assert type(method).__name__ == METHODS[name]
    for setting, value in QUICKER.get(name, {}).items():
        assert getattr(method, setting) > value
        setattr(method, setting, value)
    return method if name in QUICKER else name


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"k2abc"}))
def test_every_method_by_name(name):
    rounds = 2 if name in ("residual", "dme") else 1
    mean, sd = exact(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        posterior = lfi.infer(gaussian, PRIOR, [1.0], n_simulations=240, rounds=rounds, method=quicker(name))
    draws = posterior.sample(2000)
    assert draws.shape == (2000, 1)
    assert np.abs(draws.mean() - mean) < 1.5 * sd
    assert 0.4 * sd < draws.std() < 4 * sd
    assert len(posterior.simulations) <= 240


def raw_gaussian(theta, rng):
    return theta + rng.standard_normal(20)


def test_raw_data_sets_reach_the_methods_that_take_them():
    observed = np.random.default_rng(1).normal(1.0, 1.0, 30)  # of another length, which is fine
    mean = observed.sum() / (30 + 1 / 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        raw = lfi.infer(raw_gaussian, PRIOR, observed, 300, method="k2abc", summarize=np.mean)
        summarized = lfi.infer(raw_gaussian, PRIOR, observed, 150, 1, method="kabc", summarize=np.mean)
    assert raw.simulations.raw.shape == (300, 20)
    assert raw.mean()[0] == pytest.approx(mean, abs=0.4)
    assert summarized.mean()[0] == pytest.approx(mean, abs=0.4)


def counting(simulator):
    """The simulator, and a list of the numbers of rows it was called with."""
    calls = []

    def counted(theta, rng):
        calls.append(len(np.atleast_2d(theta)))
        return simulator(theta, rng)

    return counted, calls


@pytest.mark.parametrize(
    ("observed", "options", "argument", "most"),
    [
        ([1.0, 2.0], {}, "observed", 8),
        ([1.0, 2.0], {"method": "smc"}, "observed", 8),
        ([1.0, 2.0], {"batched": True}, "observed", 100),
        ([[1.0], [2.0]], {}, "observed", 0),
        ([np.nan], {}, "observed", 0),
        (np.ones((3, 2)), {"method": "k2abc", "summarize": np.ravel}, "observed", 8),
        ([1.0], {"method": "k2abc"}, "summarize", 0),
        ([1.0], {"summarize": lambda raw: raw[7]}, "observed", 0),
    ],
)
def test_a_wrong_observation_costs_few_simulations(observed, options, argument, most):
    def simulator(theta, rng):
        return theta + 0.5 * rng.standard_normal(np.shape(theta))

    counted, calls = counting(simulator)
    with refused(argument):
        lfi.infer(counted, PRIOR, observed, 900, **options)
    assert sum(calls) <= most


@pytest.mark.parametrize("batched", [True, False])
def test_the_first_look_runs_nothing_twice(batched):
    counted, calls = counting(lambda theta, rng: theta + 0.5 * rng.standard_normal(np.shape(theta)))
    posterior = lfi.infer(counted, PRIOR, [1.0], 200, 1, batched=batched)
    assert sum(calls) == 200
    sims = lfi.simulate(counted, PRIOR, 200, batched=batched)
    np.testing.assert_array_equal(posterior.simulations.x, sims.x)


def test_one_odd_simulation_at_the_start_refuses_nothing():
    counted, calls = counting(lambda theta, rng: [1.0, 2.0] if len(calls) < 3 else gaussian(theta, rng))
    with warned(FailedSimulationsWarning, n_failed=2, n_simulations=240):
        posterior = lfi.infer(counted, PRIOR, [1.0], 240, 1)
    assert posterior.simulations.n_valid == 238


def test_failures_at_the_start_stop_nothing():
    def slow_start(theta, rng):
        if len(calls) < 5:
            raise ArithmeticError("cold")
        return gaussian(theta, rng)

    counted, calls = counting(slow_start)
    with warned(FailedSimulationsWarning, n_failed=4, n_simulations=240):
        lfi.infer(counted, PRIOR, [1.0], 240, 1)
    assert len(calls) == 240


def series(theta, rng):
    return pd.Series(two_numbers(theta, rng))


NAMED = {
    "Series": (series, {}),
    "dict": (two_numbers, {}),
    "frame of a batch": (
        lambda rows, rng: pd.DataFrame([two_numbers(theta, rng) for theta in rows]),
        {"batched": True},
    ),
    "with a limit": (two_numbers, {"timeout": 600.0}),
    "in two processes": (series, {"n_jobs": 2}),
}


@pytest.mark.parametrize(("simulator", "options"), NAMED.values(), ids=NAMED.keys())
def test_names_on_both_sides_are_not_mixed_up(simulator, options):
    """The same values under the same names are the same observation, in whatever order they stand."""
    prior = lfi.Prior({"mean": stats.norm(0, 3)})
    common = {"n_simulations": 150, "rounds": 2, "method": lfi.RejectionABC(quantile=0.5), **options}
    given = [{"mean": 2.0, "sd": 1.0}, {"sd": 1.0, "mean": 2.0}]
    posteriors = [lfi.infer(simulator, prior, observed, **common) for observed in given]
    np.testing.assert_array_equal(posteriors[0].samples, posteriors[1].samples)
    assert posteriors[0].simulations.summary_names == ("mean", "sd")
    with refused("observed"):
        lfi.infer(simulator, prior, {"mean": 2.0, "sdd": 1.0}, **common)


def test_names_are_known_again_from_a_store(tmp_path):
    prior, path = lfi.Prior({"mean": stats.norm(0, 3)}), tmp_path / "runs.sqlite"
    sims = lfi.simulate(series, prior, 30, store=path)
    again = lfi.simulate(series, prior, 30, store=path)
    assert sims.summary_names == again.summary_names == ("mean", "sd")
    assert (again + again.take(again.valid)).summary_names == ("mean", "sd")
    np.testing.assert_array_equal(again.observed_row(pd.Series({"sd": 1.0, "mean": 2.0})), [[2.0, 1.0]])


def test_a_name_stands_for_one_value():
    prior, calls = lfi.Prior({"mean": stats.norm(0, 3)}), []

    def simulator(theta, rng):
        calls.append(1)
        return [theta[0], 80.0 + rng.standard_normal()]

    common = {"n_simulations": 150, "rounds": 1, "method": lfi.RejectionABC(quantile=0.5)}
    with refused("observed['counts']"):
        lfi.infer(simulator, prior, {"counts": [0.5, 80.5]}, **common)
    assert not calls
    lists = lfi.infer(simulator, prior, {"a": [0.5], "b": np.array([80.5])}, **common)
    numbers = lfi.infer(simulator, prior, {"a": 0.5, "b": 80.5}, **common)
    np.testing.assert_array_equal(lists.samples, numbers.samples)


def test_a_generator_is_a_seed():
    draws = [lfi.infer(gaussian, PRIOR, [1.0], 90, 2, seed=np.random.default_rng(3)).sample(50) for _ in range(2)]
    np.testing.assert_array_equal(*draws)


def test_wrong_input():
    with refused("prior", ArgumentTypeError):
        lfi.infer(gaussian, stats.norm(), [1.0], 60)
    with refused("method"):
        method_named("magic")
    with refused("n_simulations"):
        round_sizes(3, 5)


# ---- small budgets -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"k2abc"}))
def test_a_small_budget_is_enough_or_refused_beforehand(name):
    counted, calls = counting(gaussian)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        posterior = lfi.infer(counted, PRIOR, [1.0], 20, method=quicker(name))
    assert len(posterior.simulations) <= 20
    calls.clear()
    with refused("n_simulations"):
        lfi.infer(counted, PRIOR, [1.0], 11, method=name)
    assert not calls


def test_ten_parameters_get_a_first_round_that_is_large_enough():
    prior = lfi.Prior({f"p{i}": stats.norm() for i in range(10)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        posterior = lfi.infer(lambda theta, rng: theta + rng.standard_normal(10), prior, np.zeros(10), 60)
    assert len(posterior.simulations) == 60
    assert round_sizes(60, 3, 30) == [30, 15, 15]
    assert round_sizes(31, 3, 30) == [30, 1]
    assert round_sizes(30, 3, 30) == [30]


# ---- methods that run the simulator themselves ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["mcmc", "smc", "gpsabc"])
def test_their_simulations_have_a_limit_and_are_kept(name, tmp_path):
    path = tmp_path / "runs.sqlite"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        method = lfi.GPSABC(n_samples=300) if name == "gpsabc" else name
        infer = partial(lfi.infer, sleepy, PRIOR, [1.0], 60, method=method, store=path, timeout=LIMIT)
        posterior = infer()
        again = infer() if name == "smc" else posterior
    assert set(posterior.simulations.failures) == {TOO_LONG}
    with lfi.SimulationStore(path) as store:
        kept = store.simulations("method")
        pilot = len(store.simulations(0))
    ran = posterior.simulations.take(slice(pilot, None))
    np.testing.assert_array_equal(kept.theta, ran.theta)  # the same chain again adds nothing
    np.testing.assert_array_equal(kept.x, ran.x)
    np.testing.assert_array_equal(again.simulations.x, posterior.simulations.x)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("name", ["mcmc", "smc", "gpsabc", "mdn", "lfvi"])
def test_they_go_on_where_they_were_interrupted(name, batched, tmp_path):
    quicker = {
        "gpsabc": {"n_samples": 100, "max_error": 0.02, "time_limit": 1e6},
        "mdn": {"components": 1, "rounds": 1, "steps": 50},
        "lfvi": {"steps": 50},
    }
    method = getattr(lfi, METHODS[name])(**quicker.get(name, {}))
    rows, last = [], 130

    def simulator(theta, rng):
        if len(rows) >= last:
            raise KeyboardInterrupt
        rows.extend(np.atleast_2d(theta).tolist())
        return theta + 0.5 * rng.standard_normal(theta.shape)

    infer = partial(lfi.infer, simulator, PRIOR, [1.0], 200, method=method, batched=batched)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(KeyboardInterrupt):
            infer(store=tmp_path / "runs.sqlite")
        last = 10**6
        resumed, n_run = infer(store=tmp_path / "runs.sqlite"), len(rows)
        at_once = infer()
    assert len(rows) == 2 * n_run
    np.testing.assert_array_equal(resumed.simulations.x, at_once.simulations.x)
    np.testing.assert_array_equal(resumed.samples, at_once.samples)


def test_a_limit_that_is_not_reached_changes_nothing():
    without, limited = (
        lfi.infer(gaussian, PRIOR, [1.0], 60, method="smc", timeout=timeout).simulations for timeout in (None, 600.0)
    )
    np.testing.assert_array_equal(without.x, limited.x)


def test_frames_of_a_batched_simulator_are_split_by_rows_everywhere():
    def frames(theta, rng):
        return pd.DataFrame(theta + rng.standard_normal((len(theta), 7)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        posterior = lfi.infer(
            frames, PRIOR, np.ones(7), 300, method="smc", batched=True, summarize=lambda raw: [raw.mean(), raw.std()]
        )
    sims = posterior.simulations
    assert sims.x.shape == (300, 2)
    assert sims.n_valid == 300
    assert np.corrcoef(sims.theta[60:, 0], sims.x[60:, 0])[0, 1] > 0.5


def test_the_method_of_the_user_stays_as_it_was():
    for method in (lfi.MCMCABC(n_simulations=7), lfi.ResidualLikelihood()):
        before = dict(vars(method))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lfi.PosteriorWarning)
            lfi.infer(gaussian, PRIOR, [1.0], 60, method=method)
        assert vars(method) == before


# ---- rounds --------------------------------------------------------------------------------------------------


def test_later_rounds_are_judged_by_the_first():
    first = 40
    counted, calls = counting(
        lambda theta, rng: [1.0, 2.0] if len(calls) > first and len(calls) % 3 else gaussian(theta, rng)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = lfi.infer(counted, PRIOR, [1.0], 100, 3)
    sims = posterior.simulations
    assert sims.x.shape == (100, 1)
    assert sims.valid[:40].all()
    assert sims.failures == {"returned 2 values where the first round has 1": 40}


def test_further_rounds_belong_to_one_observation(tmp_path):
    path = tmp_path / "runs.sqlite"
    counted, calls = counting(gaussian)
    near = lfi.infer(counted, PRIOR, [1.0], 100, 3, store=path)
    with pytest.raises(StoreMismatchError) as caught:
        lfi.infer(counted, PRIOR, [-4.0], 100, 3, store=path)
    assert caught.value.argument == "observed"
    same = lfi.infer(counted, PRIOR, 1.0, 100, 3, store=path)
    np.testing.assert_array_equal(same.simulations.x, near.simulations.x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        lfi.infer(counted, PRIOR, [-4.0], 40, 1, "rejection", store=path)
    assert len(calls) == 100


def two(theta, rng):
    """Return two summaries by name."""
    return dict(zip(["early", "late"], theta + 0.5 * rng.standard_normal(2), strict=True))


def test_an_observation_is_the_same_in_whatever_order_its_values_are_named(tmp_path):
    counted, calls = counting(two)
    turned = {"late": 1.5, "early": 1.0}
    seen = ({"early": 1.0, "late": 1.5}, turned, pd.Series(turned), pd.DataFrame([turned]), [1.0, 1.5])
    found = [lfi.infer(counted, PRIOR, one, 100, 3, store=tmp_path / "runs.sqlite") for one in seen]
    assert len(calls) == 100
    for other in found[1:]:
        np.testing.assert_array_equal(other.samples, found[0].samples)
    with pytest.raises(StoreMismatchError):
        lfi.infer(counted, PRIOR, {"early": 1.5, "late": 1.0}, 100, 3, store=tmp_path / "runs.sqlite")


@pytest.mark.parametrize("method", ["smc", "mcmc"])
def test_names_keep_their_order_where_a_method_runs_the_simulator(method):
    def turned(theta, rng):
        named = {"once": theta[0], "ten times": 10.0 * theta[0]}
        return named if rng.random() < 0.5 else dict(reversed(named.items()))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        sims = lfi.infer(turned, PRIOR, {"once": 1.0, "ten times": 10.0}, 100, method=method).simulations
    once, ten_times = (sims.x[:, sims.summary_names.index(name)] for name in ("once", "ten times"))
    np.testing.assert_array_equal(once, sims.theta[:, 0])
    np.testing.assert_array_equal(ten_times, 10.0 * sims.theta[:, 0])


def test_another_summarize_reaches_what_is_stored(tmp_path):
    path = tmp_path / "runs.sqlite"
    counted, calls = counting(raw_gaussian)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        lfi.infer(counted, PRIOR, np.ones(20), 60, 2, store=path, summarize=np.mean)
        with warned(StoreWarning, argument="summarize", n_recomputed=60):
            posterior = lfi.infer(counted, PRIOR, np.ones(20), 60, 2, store=path, summarize=np.max)
    assert len(calls) == 60
    sims = posterior.simulations
    np.testing.assert_array_equal(sims.x[:, 0], sims.raw.max(axis=1))


def test_rounds_go_to_the_joint_posterior_of_independent_observations():
    observed = np.array([[0.4], [1.6], [1.2], [0.7]])
    posterior = lfi.infer(gaussian, PRIOR, observed, n_simulations=300, iid=True)
    precision = 0.25 + 4.0 * len(observed)
    assert posterior.mean()[0] == pytest.approx(4.0 * observed.sum() / precision, abs=0.3 * precision**-0.5)
    assert posterior.std()[0] == pytest.approx(precision**-0.5, rel=0.25)
    summarized = lfi.infer(
        gaussian, PRIOR, observed, n_simulations=120, iid=True, summarize=lambda raw: [np.squeeze(raw)]
    )
    assert summarized.std()[0] < 0.6
    with refused("iid"):
        lfi.infer(gaussian, PRIOR, observed, n_simulations=60, iid=True, method="smc")


def test_it_stops_once_the_posterior_no_longer_changes():
    options = {"n_simulations": 400, "rounds": 8, "seed": 1}
    assert len(lfi.infer(gaussian, PRIOR, [1.0], tolerance=0.3, **options).simulations) < 400
    assert len(lfi.infer(gaussian, PRIOR, [1.0], tolerance=0.0, **options).simulations) == 400
    with refused("tolerance"):
        lfi.infer(gaussian, PRIOR, [1.0], tolerance=-1.0)
