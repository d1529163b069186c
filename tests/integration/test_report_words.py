"""What reports say, and that it follows from what was computed."""

import html
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from decond import AggregateGP, DirectGP, lfi
from decond.kernels import RBF
from decond.lfi import diagnostics
from decond.lfi.diagnostics.predictive import compare
from decond.lfi.diagnostics.sufficiency import Sufficiency
from decond.reports import fit_report, inference_report
from decond.reports.baselines import EXPLAINED
from decond.reports.pairs import marginal_charts


def said(report):
    """Return the text of a page without its markup and scripts."""
    body = re.sub(r"<(script|style|noscript)\b.*?</\1>", " ", report.html, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


@pytest.fixture(scope="module")
def somewhat():
    """Return a model of noisy groups, which tells rows of a group apart but not sharply, and its data."""
    rng, day = np.random.default_rng(0), np.repeat(np.arange(24), 4)
    x = pd.DataFrame({"wind": rng.uniform(0, 10, 96)})
    z = pd.Series(10.0 * np.sin(x["wind"] / 3.0)).groupby(day).mean() + 1.5 * rng.standard_normal(24)
    data = {"x": x, "groups": day, "z_groups": z.rename("power")}
    return AggregateGP(n_restarts=0).fit(**data), data


def test_a_middling_resolution_is_no_alarm_and_says_what_would_help(somewhat):
    gp, data = somewhat
    assert 1.0 < gp.resolution() < 3.0
    report = fit_report(gp, data)
    assert report.verdict.startswith("Deconditioning helped somewhat")
    assert "tells apart rows of the same group, though not sharply. More rows and targets, or smaller groups" in said(
        report
    )
    for label, words in EXPLAINED.items():
        assert f"{label} {words}" in said(report)


def test_a_long_lengthscale_is_called_straight_and_not_flat():
    x = pd.DataFrame({"salinity": np.linspace(0.0, 18.0, 40)})
    z = pd.Series(0.78 + 0.78 * x["salinity"] / 18.0 + 0.02 * np.random.default_rng(0).standard_normal(40))
    data = {"X": x, "y": z.rename("growth")}
    gp = DirectGP(4.0 * RBF(5.0), n_restarts=0, uncertainty="plain").fit(**data)
    text = said(fit_report(gp, data))
    assert "Nearly straight in salinity: growth would bend over about" in text
    assert "hardly changes" not in text


def test_sentences_start_with_a_word_and_not_with_a_column(somewhat):
    gp, data = somewhat
    page = fit_report(gp, data, baselines={}).html
    sentences = re.findall(r"<tr><td>(.*?)</td>", page)
    assert len(sentences) >= 4
    for sentence in sentences:
        assert sentence[0].isupper(), sentence
    assert re.search(r"Rows closer than about [\d.]+ in wind have (a )?similar", " ".join(sentences))


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
    check = compare(sims, np.array([[0.7, 0.1]]))
    found = Sufficiency(n_simulations=120, ratio=ratio, error=0.04, n=trials)
    return diagnostics.Report(posterior, None, found, check, from_posterior=True, remote_share=0.95)


def test_too_few_simulations_are_too_few_on_the_page_as_well(posterior):
    found = diagnosed(posterior, 1.13, 60)
    report = inference_report(posterior, [0.7, 0.1], diagnosis=found)
    assert found.verdict == "too few simulations"
    assert "there are too few simulations" in report.verdict
    assert "Run about twice as many." in said(report)
    assert "✓ Are there enough simulations?" not in said(report)
    assert "95 % of the simulations are at least as far" in said(report)


def test_enough_simulations_and_too_few_trials_are_told_apart(posterior):
    fine = inference_report(posterior, [0.7, 0.1], diagnosis=diagnosed(posterior, 1.02, 60))
    assert "✓ Are there enough simulations? With half of the 120 simulations" in said(fine)
    unclear = inference_report(posterior, [0.7, 0.1], diagnosis=diagnosed(posterior, 1.02, 4))
    assert "? Are there enough simulations?" in said(unclear)
    assert "too few trials to tell" in said(unclear)


def test_the_width_is_given_with_what_it_is_compared_with(posterior):
    text = said(inference_report(posterior, [0.7, 0.1]))
    assert re.search(r"as a share of the prior's: rate 20 %, share [\d.]+ %\.", text)


def test_priors_are_drawn_exactly(posterior):
    level, steep = marginal_charts(posterior, None)
    uniform, gamma = (next(item for item in chart["series"] if item["key"] == "prior") for chart in (level, steep))
    np.testing.assert_allclose(uniform["y"], 0.5, rtol=1e-9)
    assert (uniform["x"][0], uniform["x"][-1]) == (0.0, 2.0)
    assert np.isfinite(gamma["y"]).all()  # though the density is infinite at 0
    share = PRIOR.marginal("share").cdf(gamma["x"][-1])
    assert np.sum(gamma["y"][1:-1]) * gamma["x"][-1] / (len(gamma["y"]) - 2) == pytest.approx(share, rel=1e-6)


def test_priors_that_are_joint_are_drawn_from_draws():
    joint = lfi.Prior(stats.multivariate_normal([0.0, 1.0], np.eye(2)), names=["a", "b"])
    assert joint.marginal("a") is None
    first, _ = marginal_charts(lfi.Posterior(joint, lambda n, rng: rng.standard_normal((n, 2))), None)
    curve = next(item for item in first["series"] if item["key"] == "prior")
    np.testing.assert_allclose(curve["y"], stats.norm.pdf(curve["x"]), atol=0.03)
