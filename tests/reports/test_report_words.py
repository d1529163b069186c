"""Reports follow from what was computed: resolution, sufficiency, widths, and curves of priors."""

import numpy as np
import pandas as pd
import pytest
from report_pages import ReportPage, chart_of
from scipy import stats

from decond import AggregateGP, DirectGP, lfi
from decond.kernels import RBF
from decond.lfi import diagnostics
from decond.lfi.diagnostics import Sufficiency
from decond.lfi.diagnostics.predictive_checks import observation_among
from decond.reports import fit_report, inference_report
from decond.reports.report_page import State


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


def test_a_long_lengthscale_is_called_straight():
    x = pd.DataFrame({"salinity": np.linspace(0.0, 18.0, 40)})
    z = pd.Series(0.78 + 0.78 * x["salinity"] / 18.0 + 0.02 * np.random.default_rng(0).standard_normal(40))
    data = {"X": x, "y": z.rename("growth")}
    gp = DirectGP(4.0 * RBF(5.0), n_restarts=0, uncertainty="plain").fit(**data)
    rows = {name: sentence for sentence, _, name in ReportPage(fit_report(gp, data).html).rows("hyperparameters")}
    assert "straight" in rows["lengthscale of salinity"]


PRIOR = lfi.Prior({"rate": stats.uniform(0.0, 2.0), "share": stats.gamma(0.5)})


@pytest.fixture(scope="module")
def posterior():
    """Return a posterior that rests on more effective simulations than are wanted."""
    theta = PRIOR.sample(120, 0)

    def draw(n, rng):
        return np.column_stack([rng.uniform(0.5, 0.9, n), rng.gamma(4.0, 0.02, n)])

    made = lfi.Posterior(PRIOR, draw, effective=52.1)
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
    assert report.checks["observation"].numbers == {"share as far": 0.35}


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
    share = PRIOR.marginal("share").cdf(gamma["x"][-1])
    assert np.sum(gamma["y"][1:-1]) * gamma["x"][-1] / (len(gamma["y"]) - 2) == pytest.approx(share, rel=1e-6)


def test_priors_that_are_joint_are_drawn_from_draws():
    joint = lfi.Prior(stats.multivariate_normal([0.0, 1.0], np.eye(2)), names=["a", "b"])
    assert joint.marginal("a") is None
    first, _ = marginal_charts(lfi.Posterior(joint, lambda n, rng: rng.standard_normal((n, 2))))
    curve = next(item for item in first["series"] if item["key"] == "prior")
    np.testing.assert_allclose(curve["y"], stats.norm.pdf(curve["x"]), atol=0.03)
