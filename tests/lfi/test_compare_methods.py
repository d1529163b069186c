"""`lfi.compare`: accuracy against closed forms, equal budgets, shared simulations, reasons in place of crashes."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from expected import refused
from scipy import stats

from decond import lfi
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.compare_methods import method_by_label, methods_by_label
from decond.lfi.diagnostics.accuracy import Scorer
from decond.lfi.exceptions import ComparisonError
from decond.problems import exponential_gamma

PRIOR = lfi.Prior({"mean": stats.norm(0.0, 2.0)})
EXACT = stats.norm(16.0 / 17.0, np.sqrt(4.0 / 17.0))  # prior N(0, 4), data N(θ, 1/4), observed 1
DENSITY, CLASSIFIER = "total variation", "C2ST"
INSIDE, HELD_OUT = "truth inside 95 %", "held out inside 95 %"
OBSERVED = [1.0]


def scores_of(scorer, posterior):
    """Everything that is known of a posterior."""
    return {**scorer.accuracy(posterior), **scorer.intervals(posterior)}


def simulator(theta, rng):
    return theta + 0.5 * rng.standard_normal(theta.shape)


def compared(methods, n=100, **options):
    return lfi.compare(simulator, PRIOR, OBSERVED, methods, n, batched=True, **{"reference": EXACT.logpdf, **options})


def normal_posterior(prior, mean, dim):
    return lfi.Posterior(prior, lambda n, rng: mean + rng.standard_normal((n, dim)))


# ---- judging -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("as_draws", [False, True])
def test_total_variation_is_that_of_two_normals(shift, as_draws):
    exact = 2.0 * stats.norm.cdf(shift / 2.0) - 1.0
    known = stats.norm.rvs(size=5000, random_state=1)[:, None] if as_draws else stats.norm.logpdf
    scorer = Scorer.of(PRIOR, known, None, None)
    assert scorer.measure == DENSITY
    assert scores_of(scorer, normal_posterior(PRIOR, shift, 1))[DENSITY] == pytest.approx(exact, abs=0.04)


def test_a_density_of_two_parameters_is_drawn_from():
    prior = lfi.Prior({"a": stats.norm(0.0, 1.0), "b": stats.norm(0.0, 1.0)})
    covariance = np.array([[0.05, 0.04], [0.04, 0.08]])
    scorer = Scorer.of(prior, stats.multivariate_normal([0.3, -0.2], covariance).logpdf, None, None)
    draws = scorer.reference.draws
    np.testing.assert_allclose(draws.mean(axis=0), [0.3, -0.2], atol=0.03)
    np.testing.assert_allclose(np.cov(draws, rowvar=False), covariance, atol=0.012)
    np.testing.assert_allclose(
        scorer.reference.interval(0), 0.3 + 1.96 * np.sqrt(0.05) * np.array([-1.0, 1.0]), atol=0.05
    )


def test_a_density_of_one_parameter_is_found_where_it_is_narrow():
    narrow = stats.norm(1.5, 1e-5)
    scorer = Scorer.of(lfi.Prior({"mean": stats.uniform(-100, 200)}), narrow.logpdf, None, None)
    np.testing.assert_allclose(scorer.reference.interval(0), narrow.ppf([0.025, 0.975]), atol=1e-7)
    rate = Scorer.of(lfi.Prior({"rate": stats.gamma(2)}), stats.gamma(17, scale=0.1).logpdf, None, None)
    np.testing.assert_allclose(rate.reference.interval(0), stats.gamma(17, scale=0.1).ppf([0.025, 0.975]), rtol=2e-3)


def test_draws_of_several_parameters_are_told_apart_only_if_they_differ():
    prior = lfi.Prior({"a": stats.norm(0.0, 3.0), "b": stats.norm(0.0, 3.0)})
    scorer = Scorer.of(prior, np.random.default_rng(1).standard_normal((400, 2)), [5.0, 0.0], None)
    far = scores_of(scorer, normal_posterior(prior, np.array([6.0, 0.0]), 2))
    assert scorer.measure == CLASSIFIER
    assert far[CLASSIFIER] > 0.95
    assert far[INSIDE] == 1.0
    assert far["a width"] == pytest.approx(2 * 1.96, abs=0.15)


def two_modes(spread):
    """Return a posterior with modes at -2 and 2."""
    return lfi.Posterior(PRIOR, lambda n, rng: rng.choice([-2.0, 2.0], (n, 1)) + spread * rng.standard_normal((n, 1)))


def test_total_variation_of_two_narrow_modes_is_that_of_the_densities():
    def log_density(theta, spread=0.1):
        return np.logaddexp(*(stats.norm(mode, spread).logpdf(theta) for mode in (-2.0, 2.0))) - np.log(2.0)

    grid = np.linspace(-4.0, 4.0, 20001)
    exact = 0.5 * np.trapezoid(np.abs(np.exp(log_density(grid)) - np.exp(log_density(grid, 0.2))), grid)
    scorer = Scorer.of(PRIOR, log_density, None, None)
    assert scorer.accuracy(two_modes(0.1))[DENSITY] < 0.03
    assert scorer.accuracy(two_modes(0.2))[DENSITY] == pytest.approx(exact, abs=0.03)
    one = lfi.Posterior(PRIOR, lambda n, rng: 2.0 + 0.1 * rng.standard_normal((n, 1)))
    assert scorer.accuracy(one)[DENSITY] == pytest.approx(0.5, abs=0.03)


def test_draws_on_one_point_have_no_overlap():
    scorer = Scorer.of(PRIOR, stats.norm.logpdf, None, None)
    assert scorer.accuracy(lfi.Posterior(PRIOR, lambda n, rng: np.zeros((n, 1))))[DENSITY] == pytest.approx(1.0)


@pytest.mark.parametrize("order", ["few", "sorted"])
def test_the_exact_posterior_cannot_be_told_from_draws_of_it(order):
    prior = lfi.Prior({"a": stats.norm(0.0, 3.0), "b": stats.norm(0.0, 3.0)})
    draws = np.random.default_rng(1).standard_normal((250 if order == "few" else 3000, 2))
    known = draws[np.argsort(draws[:, 0])] if order == "sorted" else draws
    found = Scorer.of(prior, known, None, None).accuracy(normal_posterior(prior, 0.0, 2))
    assert found[CLASSIFIER] == pytest.approx(0.5, abs=0.06)


def test_true_parameters_by_name():
    prior = lfi.Prior({"a": stats.norm(0.0, 3.0), "b": stats.norm(0.0, 3.0)})
    np.testing.assert_array_equal(Scorer.of(prior, None, {"b": 2.0, "a": 1.0}, None).true_parameters, [1.0, 2.0])
    with refused("true_parameters"):
        Scorer.of(prior, None, {"a": 1.0, "c": 2.0}, None)


def test_intervals_hold_the_truth_or_do_not():
    scorer = Scorer.of(PRIOR, None, [1.9], None)
    scores = scores_of(scorer, normal_posterior(PRIOR, 0.0, 1))
    assert scores[INSIDE] == 1.0
    assert scores_of(Scorer.of(PRIOR, None, [2.1], None), normal_posterior(PRIOR, 0.0, 1))[INSIDE] == 0.0
    assert [scores["mean low"], scores["mean high"]] == pytest.approx([-1.96, 1.96], abs=0.08)
    assert DENSITY not in scores


# ---- the table -----------------------------------------------------------------------------------------------


def test_the_residual_likelihood_is_nearer_to_the_exact_posterior_than_rejection():
    found = compared(["rejection", "residual"], n=120, true_parameters=[1.0])
    assert list(found.frame.index) == ["residual", "rejection"]
    assert found.best == "residual"
    assert found.frame.loc["residual", DENSITY] < 0.15 < found.frame.loc["rejection", DENSITY]
    assert (found.frame["simulations"] == 120).all()
    assert found.found["residual"].mean()[0] == pytest.approx(EXACT.mean(), abs=0.15)
    assert found.frame.loc["residual", "mean width"] == pytest.approx(2 * 1.96 * EXACT.std(), rel=0.25)


def test_methods_share_the_draws_of_the_prior_and_keep_to_the_budget():
    run = []

    def counting(theta, rng):
        run.append(theta[0])
        return theta + 0.5 * rng.standard_normal(1)

    methods = ["rejection", "kabc", "smc", "kbr"]
    found = lfi.compare(counting, PRIOR, OBSERVED, methods, 60, rounds=2, reference=EXACT.logpdf)
    pilot, first = 12, 34  # of smc, a fifth; of two rounds, the first
    assert len(run) == 60 + (60 - pilot) + (60 - first)
    assert (found.frame["simulations"] <= 60).all()
    seen = found.found["rejection"].simulations.theta
    np.testing.assert_array_equal(found.found["kabc"].simulations.theta, seen)
    np.testing.assert_array_equal(found.found["smc"].simulations.theta[:pilot], seen[:pilot])


def test_each_run_is_what_infer_gives():
    found = compared(["rejection", "smc"], n=60, seeds=[3])
    for name in ("rejection", "smc"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lfi.PosteriorWarning)
            alone = lfi.infer(simulator, PRIOR, OBSERVED, 60, method=name, batched=True, seed=3)
        np.testing.assert_array_equal(found.found[name].samples, alone.samples)


def test_several_seeds_are_averaged():
    found = compared(["rejection", "kabc"], n=60, seeds=2)
    assert len(found.runs) == 4
    both = found.runs.set_index("method").loc["kabc", DENSITY]
    assert found.frame.loc["kabc", DENSITY] == pytest.approx(both.mean())
    assert found.frame.loc["kabc", f"{DENSITY} sd"] == pytest.approx(both.std())
    assert both.nunique() == 2


class Broken(lfi.RejectionABC):
    """A method that cannot be used here."""

    def _fit(self):
        raise ImportError("this method needs a package that is not installed")


def test_a_method_that_fails_is_a_row_with_the_reason():
    found = compared({"mine": Broken(), "near": lfi.RejectionABC(quantile=0.2)}, n=60)
    assert list(found.frame.index) == ["near", "mine"]
    assert str(found.errors["mine"]) in found.frame.loc["mine", "notes"]
    assert np.isnan(found.frame.loc["mine", DENSITY])
    assert isinstance(found.errors["mine"], ImportError)
    assert list(found.found) == ["near"]
    texts = [text.get_text() for ax in found.plot().axes_ for text in ax.texts]
    assert texts.count("did not run") == 1
    with pytest.raises(ComparisonError) as caught:
        compared({"mine": Broken()}, n=60)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert isinstance(error.errors["mine"], ImportError)


class Lucky(lfi.RejectionABC):
    """A method that works with the first seed only."""

    def _fit(self):
        if self.seed:
            raise ValueError("out of luck")
        super()._fit()


def test_methods_that_fail_with_some_seeds_come_last():
    found = compared({"lucky": Lucky(quantile=0.3), "poor": lfi.RejectionABC(quantile=0.02)}, n=60, seeds=3)
    assert found.frame.loc["lucky", DENSITY] < found.frame.loc["poor", DENSITY]
    assert list(found.frame.index) == ["poor", "lucky"]
    assert "1 of 3" in found.frame.loc["lucky", "notes"]
    assert str(found.errors["lucky"]) in found.frame.loc["lucky", "notes"]
    assert "1 of 3" not in found.frame.loc["poor", "notes"]


def test_a_method_stays_where_only_its_calibration_fails():
    found = compared(["rejection"], n=14, reference=None)  # too few to leave some out
    row = found.frame.loc["rejection"]
    assert isinstance(found.errors["rejection"], ArgumentError)
    assert str(found.errors["rejection"]) in row["notes"]
    assert HELD_OUT not in row
    assert np.isfinite([row["mean low"], row["mean high"], row["seconds"]]).all()
    assert list(found.found) == ["rejection"]


def test_a_simulator_that_fails_at_first_is_tried_again():
    def failing(theta, rng, calls=[]):  # noqa: B006 - counts its calls
        calls.append(1)
        if len(calls) <= 6:
            raise RuntimeError("not warm yet")
        return theta + 0.5 * rng.standard_normal(1)

    found = lfi.compare(failing, PRIOR, OBSERVED, ["rejection"], 60, reference=EXACT.logpdf)
    assert found.frame.loc["rejection", "failed"] == 6

    def broken(theta, rng):
        raise RuntimeError("never warm")

    with pytest.raises(lfi.SimulationError) as caught:
        lfi.compare(broken, PRIOR, OBSERVED, ["rejection"], 60)
    assert caught.value.failures == {"RuntimeError: never warm": 60}
    assert "store" not in str(caught.value)  # it is gone


def test_raw_data_sets_are_compared_where_there_are_some():
    without = compared(["k2abc", "rejection"], n=60)
    assert without.frame.loc["k2abc", "notes"]
    assert "k2abc" not in {**without.found, **without.errors}
    found = lfi.compare(exponential_gamma(), methods=["k2abc", "rejection"], n_simulations=60)
    assert set(found.found) == {"k2abc", "rejection"}
    assert found.found["k2abc"].simulations.raw.shape == (60, 15)


def test_a_problem_is_what_its_parts_are():
    p = exponential_gamma()
    whole = lfi.compare(p, methods="rejection", n_simulations=80)
    known = {"reference": p.log_posterior, "true_parameters": [2.0]}
    parts = lfi.compare(p.simulator, p.prior, p.observed, ["rejection"], 80, batched=True, **known)
    columns = [DENSITY, INSIDE, "rate low", "rate high"]
    pd.testing.assert_frame_equal(whole.frame[columns], parts.frame[columns])
    assert whole.title == "exponential_gamma (paper)"


def test_calibration_is_scorerd_where_the_truth_is_unknown():
    methods = {"wide": lfi.RejectionABC(quantile=0.15), "narrow": lfi.RejectionABC(quantile=0.02), "smc": "smc"}
    found = compared(methods, n=200, reference=None)
    assert found.measure == ""
    assert found.best is None
    assert found.frame.loc["narrow", HELD_OUT] < 0.6 < 0.85 < found.frame.loc["wide", HELD_OUT]
    assert "over-confident" in found.frame.loc["narrow", "calibration"]  # it rests on three simulations
    assert np.isnan(found.frame.loc["smc", HELD_OUT])
    assert found.frame.loc["smc", "notes"]
    assert [ax.get_xlabel() for ax in found.plot().axes_] == ["mean", HELD_OUT, "seconds"]


def test_a_picture_says_how_many_parameters_it_leaves_out():
    names = [f"p{j}" for j in range(6)]
    prior = lfi.Prior(dict.fromkeys(names, stats.norm()))
    few = lfi.compare(simulator, prior, np.zeros(6), ["rejection"], 60, true_parameters=np.zeros(6))
    axes = few.plot(seconds=False).axes_
    assert [ax.get_xlabel() for ax in axes] == [*names[:4], HELD_OUT]
    assert axes[0].get_title("left") == "first 4 of 6 parameters: 95 % intervals, line: true value"
    assert compared(["rejection"], n=60).plot().ax_.get_title("left") == "95 % intervals, band: exact"


def test_files_hold_the_table_and_the_picture(tmp_path):
    found = compared(["rejection", "<b>kabc"][:1], n=60)
    csv, numbers, picture = found.write(tmp_path / "new" / "folder")
    again = pd.read_csv(csv, index_col="method")
    assert again.loc["rejection", DENSITY] == pytest.approx(found.frame.loc["rejection", DENSITY])
    content = json.loads(numbers.read_text())
    assert content["methods"]["rejection"]["simulations"] == 60
    assert content["measure"] == DENSITY
    assert picture.read_bytes().startswith(b"\x89PNG")


# ---- wrong input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("methods", ["rejction"]),
        ("methods", []),
        ("n_simulations", 12),
        ("seeds", 0),
        ("seeds", [1, 1]),
        ("observed", [1.0, 2.0]),
        ("observed", None),
        ("prior", stats.norm(0, 1)),
        ("reference", np.zeros((5, 3))),
        ("reference", lambda theta: np.zeros(1)),
        ("reference", np.zeros((50, 1))),
        ("reference", lambda theta: np.full(len(theta), np.nan)),
        ("reference", lambda theta: np.full(len(theta), -np.inf)),
        ("rounds", 0),
        ("true_parameters", [1.0, 2.0]),
        ("true_parameters", [[1.0], [2.0]]),
    ],
)
def test_wrong_input_is_refused_before_anything_runs(argument, value):
    given = {"prior": PRIOR, "observed": OBSERVED, "methods": ["rejection"], "n_simulations": 60, argument: value}
    ran = []

    def quick(theta, rng):
        ran.append(theta)
        return theta

    with refused(argument, ArgumentTypeError if argument == "prior" or value is None else ArgumentError):
        lfi.compare(quick, **given)
    assert len(ran) <= 8  # as many as `infer` runs until it is sure


def test_a_class_is_not_a_method():
    with refused("methods['mine']", ArgumentTypeError):
        compared({"mine": lfi.DME})


@pytest.mark.parametrize(("argument", "value"), [("prior", PRIOR), ("batched", True), ("summarize", np.mean)])
def test_a_problem_comes_with_its_prior_and_the_way_to_call_it(argument, value):
    with refused(argument):
        lfi.compare(exponential_gamma(), methods="rejection", **{argument: value})


# ---- names ---------------------------------------------------------------------------------------------------


def test_all_methods_are_every_name_of_infer_and_the_other_loss():
    names = list(methods_by_label("all"))
    assert names == list(methods_by_label(["all"]))
    assert set(names) == {*lfi.METHODS, "lfvi_hinge"}
    assert names.index("lfvi_hinge") == names.index("lfvi") + 1
    assert (method_by_label("lfvi", 3).loss, method_by_label("lfvi_hinge", 3).loss) == ("log", "hinge")
    assert method_by_label("lfvi_hinge", 3).seed == 3


def test_methods_without_labels_are_called_by_their_settings():
    found = compared([lfi.RejectionABC(), lfi.RejectionABC(quantile=0.2), "rejection"], n=60)
    assert set(found.frame.index) == set(found.found) == {"RejectionABC()", "RejectionABC(quantile=0.2)", "rejection"}
    assert found.best in found.found
    assert set(found.as_dict()["methods"]) == set(found.found)
    with refused("methods"):
        compared([lfi.RejectionABC(), lfi.RejectionABC()], n=60)


def test_methods_that_are_given_stay_as_they_were():
    mine = lfi.RejectionABC(quantile=0.2, seed=7)
    compared({"mine": mine}, n=60, seeds=[3])
    assert mine.seed == 7
    assert not hasattr(mine, "sims_")
