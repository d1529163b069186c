"""Verdicts of reports where it is easy to say too much: kernels of parts, narrow ranges, error bars, draws, edges."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from expected import says_little, warned
from report_pages import ReportPage, chart_of
from scipy import stats

from decond import AggregateGP, DirectGP, SparseGP, TaskTransformedGP, lfi
from decond.errors import DataWarning
from decond.gp import Direct, FitResult, FunctionPrior, Model
from decond.kernels import RBF, Columns, Linear
from decond.lfi import diagnostics
from decond.lfi.diagnostics import Sufficiency
from decond.lfi.diagnostics.predictive_checks import observation_among, share_as_remote
from decond.reports import fit_report, inference_report
from decond.reports.fit_checks import FitCheckSettings, check_fit, edges, judge_errors
from decond.reports.fit_description import FittedData, fitted_data, hyperparameters
from decond.verdict import State, Verdict


def checks_of(estimator, data):
    """Return the checks of a fit by name."""
    return {check.name: check for check in check_fit(estimator, fitted_data(estimator, data)).checks}


def waves(n=40, noise=0.1):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, n)
    return x, np.sin(x) + noise * rng.standard_normal(n)


def groups(n=40, noise=0.05):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 4 * n)
    return {
        "x": x,
        "groups": np.repeat(np.arange(n), 4),
        "z_groups": np.sin(x).reshape(n, 4).mean(axis=1) + noise * rng.standard_normal(n),
    }


# ---- kernels of several parts --------------------------------------------------------------------------------


def learned(kernel, columns, parameters):
    """Return what is said of parameters of a function's prior with this kernel."""
    model = Model(FunctionPrior(kernel), Direct(np.zeros((2, len(columns))), noise=0.1))
    values = {f"prior.kernel.{path}": value for path, value in parameters.items()}
    result = FitResult(model, values, 0.0, "converged", "an optimum was found.", 1, 0, (0.0,))
    data = FittedData("rows", pd.DataFrame(columns=columns), np.zeros(2), "z")
    return {item.name: item for item in hyperparameters(SimpleNamespace(fit_result_=result), data)}


def test_a_lengthscale_is_said_of_the_columns_that_its_kernel_sees():
    kernel = Columns(RBF(1.77), [0]) + Columns(RBF(875_444.0), [1])
    paths = {"parts.0.kernel.lengthscale": 1.77, "parts.1.kernel.lengthscale": 875_444.0}
    found = learned(kernel, ["wind", "height"], paths)
    assert {name: item.value for name, item in found.items()} == {
        "lengthscale of wind": 1.77,
        "lengthscale of height": 875_444.0,
    }


def test_columns_of_columns_are_followed():
    kernel = 2.0 * Columns(Columns(RBF([3.0]), [1]), [2, 0])
    assert list(learned(kernel, ["a", "b", "c"], {"kernel.kernel.kernel.lengthscale": np.array([3.0])})) == [
        "lengthscale of a"
    ]


def test_parts_with_one_name_are_numbered():
    kernel = 4.0 * RBF(1.0) + 9.0 * RBF(20.0)
    paths = {"parts.0.variance": 4.0, "parts.0.kernel.lengthscale": 1.0, "parts.1.variance": 9.0}
    found = learned(kernel, ["wind"], {**paths, "parts.1.kernel.lengthscale": 30.0})
    assert {name: item.value for name, item in found.items()} == {
        "smooth variation of z (sd), part 1": 2.0,
        "lengthscale of wind, part 1": 1.0,
        "smooth variation of z (sd), part 2": 3.0,
        "lengthscale of wind, part 2": 30.0,
    }


def test_a_straight_trend_has_no_distance_over_which_it_changes():
    (item,) = learned(Linear(2.0), ["wind"], {"lengthscale": 2.0}).values()
    assert item.name == "lengthscale of wind in the trend"


# ---- narrow ranges far from zero -----------------------------------------------------------------------------


def test_times_keep_the_digits_that_change():
    x, z = waves()
    time = 1.7e9 + 360.0 * x
    gp = DirectGP(RBF(600.0), noise=0.1, optimize=False).fit(pd.DataFrame({"time": time}), z)
    report = fit_report(gp, {"X": pd.DataFrame({"time": time}), "y": z})
    read = ReportPage(report.html)
    drawn = chart_of(read)["series"]["model"]["x"]
    steps = np.diff(drawn)
    assert len(drawn) == 161
    np.testing.assert_allclose(steps, np.ptp(time) / 160, rtol=1e-3)
    assert read.rows("data-shape")[0][3] == f"{time.min():.0f} to {time.max():.0f}"


def test_draws_far_from_zero_keep_their_ranges_and_a_small_neighbor_its_digits():
    prior = lfi.Prior({"onset": stats.norm(1.7e9, 1000.0), "rate": stats.gamma(2, scale=1e-3)})
    posterior = lfi.Posterior(
        prior, lambda n, rng: np.column_stack([1.7e9 + 30.0 * rng.standard_normal(n), rng.gamma(9.0, 1e-4, n)])
    )
    report = inference_report(posterior, [0.5], truth=[1.7e9 + 12.0, 9e-4])
    read = ReportPage(report.html)
    pairs = read.numbers["pairs"]
    np.testing.assert_allclose(
        np.ptp(pairs["intervals"], axis=1), np.ptp(posterior.interval(0.95), axis=0), rtol=1e-3
    )
    np.testing.assert_allclose(pairs["draws"], posterior.samples[: len(pairs["draws"])], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(np.std(pairs["draws"], axis=0)[0], np.std(posterior.samples[:400, 0]), rtol=1e-3)
    assert pairs["truth"] == [1.7e9 + 12.0, 9e-4]
    assert read.rows("summary")[0][-1] == "1700000012"


# ---- do the error bars hold? ---------------------------------------------------------------------------------


def test_plain_error_bars_are_never_called_good():
    data = groups()
    plain = AggregateGP(n_restarts=0, uncertainty="plain").fit(**data)
    found = checks_of(plain, data)
    assert plain.resolution() > 3.0
    assert found["error bars"].state == State.OPEN
    assert found["deconditioning"].state == State.OPEN
    verdict = Verdict(list(found.values()))
    assert verdict.state == State.OPEN
    assert found["error bars"].finding in verdict.sentence
    assert 'uncertainty="honest"' in found["error bars"].sentence


NORMAL = np.random.default_rng(0).standard_normal(300)


@pytest.mark.parametrize(
    ("errors", "state"),
    [
        (NORMAL, State.GOOD),
        (0.4 * NORMAL, State.OPEN),  # wider than they have to be: says nothing about the function
        (np.concatenate([NORMAL[:297], [60.0] * 3]), State.DOUBT),
        (3.0 * NORMAL, State.BAD),
        (NORMAL[:19], State.DOUBT),
    ],
    ids=["right", "wide", "a few far outside", "narrow", "too few"],
)
def test_error_bars_are_judged_by_the_errors_of_targets(errors, state):
    check = judge_errors(errors, "target", FitCheckSettings())
    assert check.state == state
    assert check.finding
    assert check.numbers["targets"] == len(errors)
    if len(errors) == 300:
        assert check.numbers["typical error"] == pytest.approx(np.sqrt(np.mean(errors**2)))
        assert check.numbers["coverage"] == np.mean(np.abs(errors) <= stats.norm.ppf(0.975))


def test_error_bars_are_never_good_on_training_data_alone():
    x, z = waves(100)
    gp = SparseGP(n_inducing=10, kernel=RBF(1.0), noise=0.1, optimize=False).fit(x[:, None], z)
    check = checks_of(gp, {"X": x[:, None], "y": z})["error bars"]
    assert check.numbers["targets"] == 100
    assert check.state == State.OPEN


def test_labels_are_counted_as_labels():
    rng = np.random.default_rng(0)
    y, y_task = rng.integers(0, 2, 40), rng.integers(0, 2, 30)
    data = {"x": y + 0.3 * rng.standard_normal(40), "y": y.astype(str), "y_task": y_task.astype(str)}
    data["z_task"] = y_task + 0.1 * rng.standard_normal(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        gp = TaskTransformedGP(n_restarts=0).fit(**data)
    check = checks_of(gp, data)["error bars"]
    assert (check.state, check.numbers) == (State.DOUBT, {"targets": 2})


def test_a_resolution_that_cannot_be_told_is_left_open():
    rng = np.random.default_rng(0)
    y, y_task = rng.uniform(0, 1, 30), rng.uniform(3, 4, 30)  # no pair tells anything about these mediators
    data = {"x": y, "y": y, "y_task": y_task, "z_task": rng.standard_normal(30)}
    with warned(DataWarning, argument="y_task"):
        gp = TaskTransformedGP(RBF(1.0), RBF(0.1), noise=1.0, optimize=False).fit(**data)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the check repeats its words
        gp.resolution()
    check = checks_of(gp, data)["deconditioning"]
    assert (check.state, check.numbers) == (State.OPEN, {})
    assert str(caught.value) in check.sentence


# ---- numbers on the edge of their range ----------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "state"), [(None, State.GOOD), (3.0, State.DOUBT)], ids=["lower", "upper"])
def test_check_and_warnings_agree_on_a_noise_on_the_edge(noise, state):
    x = np.linspace(0.0, 9.0, 20)
    data = {"X": x[:, None], "y": np.sin(x)}
    gp = DirectGP(n_restarts=0, uncertainty="plain").fit(**data)  # there is no noise: it ends on its lower edge
    assert gp.fit_result_.on_bounds == ("observation.noise",)
    if noise is not None:
        parameters = {**gp.fit_result_.parameters, "observation.noise": noise}
        gp.fit_result_ = replace(gp.fit_result_, parameters=parameters)
    (edge,) = edges(gp.fit_result_, data["y"])
    assert (edge.name, edge.harmless) == ("noise", state == State.GOOD)
    check = checks_of(gp, data)["bounds"]
    assert check.state == state
    assert edge.sentence in check.sentence


# ---- an inference --------------------------------------------------------------------------------------------


PRIOR = lfi.Prior({"rate": stats.norm(), "delay": stats.norm()})


def test_a_known_truth_outside_is_bad():
    posterior = lfi.Posterior(PRIOR, lambda n, rng: 0.1 * rng.standard_normal((n, 2)))
    assert inference_report(posterior, [0.5], truth=[0.0, 0.1]).checks["truth"].state == State.GOOD
    report = inference_report(posterior, [0.5], truth=[5.0, 0.1])
    assert report.state == report.checks["truth"].state == State.BAD
    assert "rate" in report.checks["truth"].finding
    assert "delay" not in report.checks["truth"].finding


@pytest.mark.parametrize(
    ("draws", "distinct"),
    [
        (lambda n, rng: rng.integers(0, 4, (n, 1)) * np.ones(2), 4),
        (lambda n, rng: np.zeros((n, 2)), 1),
        (lambda n, rng: 1.0 + rng.standard_normal((n, 2)) * [1e-12, 0.1], None),  # rate has next to no width
    ],
    ids=["four", "one", "no width"],
)
def test_draws_without_width_are_doubted(draws, distinct):
    posterior = lfi.Posterior(PRIOR, draws)
    report = inference_report(posterior, [0.5])
    check = report.checks["draws"]
    assert report.state == check.state == State.DOUBT
    assert check.numbers == {"distinct": distinct or len(posterior.samples)}
    assert ("rate" in check.finding) == (distinct is None)


# ---- what follows from what was computed ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def somewhat():
    """Return a model of noisy groups, which tells rows of a group apart but not sharply, and its data."""
    rng, day = np.random.default_rng(0), np.repeat(np.arange(24), 4)
    x = pd.DataFrame({"wind": rng.uniform(0, 10, 96)})
    z = pd.Series(10.0 * np.sin(x["wind"] / 3.0)).groupby(day).mean() + 1.5 * rng.standard_normal(24)
    data = {"x": x, "groups": day, "z_groups": z.rename("power")}
    return AggregateGP(n_restarts=0).fit(**data), data


def test_a_middling_resolution_is_good_and_baselines_are_explained(somewhat):
    gp, data = somewhat
    assert 1.0 < gp.resolution() < 3.0
    report = fit_report(gp, data)
    check = report.checks["deconditioning"]
    assert (check.state, check.numbers) == (State.GOOD, {"resolution": gp.resolution()})
    assert check.finding in report.verdict.lower()
    read = ReportPage(report.html)
    series = chart_of(read)["series"].values()
    explained = {item["label"]: item["note"] for item in series if "note" in item}
    assert read.facts("function") == explained
    assert set(explained) == {item["label"] for item in series if item.get("dash")}


WIDE = lfi.Prior({"rate": stats.uniform(0.0, 2.0), "share": stats.gamma(0.5)})


@pytest.fixture(scope="module")
def posterior():
    """Return a posterior that rests on more effective simulations than are wanted."""
    theta = WIDE.sample(120, 0)

    def draw(n, rng):
        return np.column_stack([rng.uniform(0.5, 0.9, n), rng.gamma(4.0, 0.02, n)])

    made = lfi.Posterior(WIDE, draw, effective=52.1)
    made.simulations = lfi.Simulations(theta, theta)
    return made


def diagnosed(posterior, ratio, trials):
    sims = posterior.simulations
    check = observation_among(sims, np.array([[0.7, 0.1]]))
    found = Sufficiency(n_simulations=120, ratio=ratio, error=0.04, n=trials)
    return diagnostics.Report(posterior, None, found, check, from_posterior=True)


def test_too_few_simulations_are_too_few_on_the_page_as_well(posterior):
    found = diagnosed(posterior, 1.13, 60)
    report = inference_report(posterior, [0.7, 0.1], diagnosis=found)
    assert found.verdict == "too few simulations"
    check = report.checks["simulations"]
    assert report.state == check.state == State.DOUBT
    assert check.numbers == {"error ratio": 1.13, "effective": 52.1}
    assert check.finding in report.verdict
    assert ReportPage(report.html).checks[check.question] == "doubt"
    share = share_as_remote(posterior.simulations, np.array([[0.7, 0.1]]))
    assert report.checks["observation"].numbers == {"share as far": share}


@pytest.mark.parametrize(("trials", "state"), [(60, State.GOOD), (4, State.OPEN)])
def test_enough_simulations_and_too_few_trials_are_told_apart(posterior, trials, state):
    report = inference_report(posterior, [0.7, 0.1], diagnosis=diagnosed(posterior, 1.02, trials))
    assert report.checks["simulations"].state == state


def test_widths_are_compared_with_those_of_the_prior(posterior):
    widths = inference_report(posterior, [0.7, 0.1]).checks["width"].numbers
    assert widths["rate"] == pytest.approx(0.4 / 2.0, rel=0.05)  # quantiles of some thousand draws
    share = np.diff(stats.gamma(4.0, scale=0.02).ppf([0.16, 0.84])) / np.diff(stats.gamma(0.5).ppf([0.16, 0.84]))
    assert widths["share"] == pytest.approx(share[0], rel=0.1)


def marginal_charts(posterior):
    """Return the charts of single parameters; their arrays have the digits of a page."""
    charts = ReportPage(inference_report(posterior, [0.7, 0.1]).html).numbers["groups"]["marginals"]
    return [
        {**chart, "series": [{name: _array(value) for name, value in one.items()} for one in chart["series"]]}
        for chart in charts
    ]


def _array(value):
    return np.array(value) if isinstance(value, list) else value


def test_priors_are_drawn_exactly(posterior):
    level, steep = marginal_charts(posterior)
    uniform, gamma = (next(item for item in chart["series"] if item["key"] == "prior") for chart in (level, steep))
    np.testing.assert_allclose(uniform["y"], 0.5, rtol=1e-9)
    assert (uniform["x"][0], uniform["x"][-1]) == (0.0, 2.0)
    assert np.isfinite(gamma["y"]).all()  # though the density is infinite at 0
    share = WIDE.marginal("share").cdf(gamma["x"][-1])
    assert np.sum(gamma["y"][1:-1]) * gamma["x"][-1] / (len(gamma["y"]) - 2) == pytest.approx(share, rel=1e-6)


def test_priors_that_are_joint_are_drawn_from_draws():
    joint = lfi.Prior(stats.multivariate_normal([0.0, 1.0], np.eye(2)), names=["a", "b"])
    assert joint.marginal("a") is None
    first, _ = marginal_charts(lfi.Posterior(joint, lambda n, rng: rng.standard_normal((n, 2))))
    curve = next(item for item in first["series"] if item["key"] == "prior")
    np.testing.assert_allclose(curve["y"], stats.norm.pdf(curve["x"]), atol=0.03)


@pytest.mark.parametrize(("known", "state"), [(True, State.GOOD), (False, State.DOUBT)])
def test_rows_that_say_nothing_about_targets_are_doubted(known, state):
    rng = np.random.default_rng(0)
    x, days = rng.uniform(0.0, 6.0, 160), np.repeat(np.arange(40), 4)
    means = np.sin(x).reshape(40, 4).mean(axis=1)
    data = {"x": x, "groups": days, "z_groups": means if known else rng.permutation(means)}
    with says_little():
        found = checks_of(AggregateGP(n_restarts=0).fit(**data), data)["signal"]
    assert found.state == state
    assert (found.numbers["gain"] > 0.5) == known
