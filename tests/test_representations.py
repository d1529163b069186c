"""What a prompt and a notebook show of each object: short text, and HTML in which every name is escaped."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import sklearn
from expected import says_little
from scipy import stats

from decond import estimators, features, kernels
from decond.lfi import Posterior, PosteriorWarning, Prior, Simulations
from decond.lfi.diagnostics import Calibration, Report, Sufficiency, posterior_predictive_check
from decond.problems import latent_function

HOSTILE = "<script>alert('x')</script>&\""
RBF = kernels.RBF
RNG = np.random.default_rng(0)


class Page(HTMLParser):
    """Parses HTML, and raises where elements do not nest."""

    VOID = ("br", "hr", "img", "input", "link", "meta")

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.tags = [], "", []
        self.feed(text)
        self.close()
        assert self.open == []
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open and "script" not in self.open:
            self.text += data + " "


def page_of(shown):
    """Return what a notebook shows, parsed: like IPython, the bundle is asked first."""
    if hasattr(shown, "_repr_mimebundle_"):
        bundle = shown._repr_mimebundle_(include=None, exclude=None)
        assert bundle["text/plain"] == repr(shown)
        return Page(bundle["text/html"])
    return Page(shown._repr_html_())


# ---- kernels and modules --------------------------------------------------------------------------------

EXPRESSIONS = [
    "RBF(lengthscale=0.5)",
    "2.0 * RBF(lengthscale=[0.5, 1.5])",
    "2.0 * RBF(lengthscale=1.0) + Constant(value=3.0)",
    "3.0 * (RBF(lengthscale=1.0) + Constant(value=1.0))",
    "(RBF(lengthscale=1.0) + Constant(value=1.0)) * Matern32(lengthscale=2.0)",
    "(2.0 * RBF(lengthscale=1.0)) ** 2 + (RBF(lengthscale=1.0) * Constant(value=2.0)).on([0, 1])",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_kernels_are_shown_as_the_expression_that_makes_them(expression):
    kernel = eval(expression, vars(kernels))
    assert repr(kernel) == expression
    x = RNG.normal(size=(4, 2))
    assert eval(repr(kernel), vars(kernels))(x) == pytest.approx(kernel(x), rel=1e-15)


# ---- estimators -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables():
    p = latent_function(30, 30)
    return p.x, p.y, p.y_task, p.z_task


@pytest.mark.parametrize("name", estimators.__all__)
def test_every_estimator_has_its_diagram_before_it_is_fitted(name):
    page = page_of(getattr(estimators, name)())
    assert name in page.text
    assert "n_restarts" in page.text or "regularization" in page.text or "n_features" in page.text


FITTED = {
    "TaskTransformedGP": {"uncertainty": "plain", "n_restarts": 0},
    "TaskTransformedFeatures": {"n_features": 8, "optimize": False, "noise": 0.3},
    "TaskTransformedRidge": {},
    "EcologicalGP": {"n_restarts": 0},
    "DualEmbedding": {"n_features": 8},
}


@says_little()
@pytest.mark.parametrize("name", FITTED)
def test_estimators_of_two_tables_show_what_they_learned(name, tables):
    model = getattr(estimators, name)(**FITTED[name]).fit(*tables)
    page = page_of(model)
    assert name in page.text
    if name not in ("EcologicalGP", "DualEmbedding"):
        assert f"{name} fitted" in page.text
        assert repr(model.posterior_.prior.covariance) in page.text
    if getattr(model, "fit_result_", None) is not None:
        assert f"{model.fit_result_.log_evidence:.4g}" in page.text
        assert model.fit_result_.status in page.text


def test_kernels_that_were_given_can_be_read_in_full():
    kernel = 2.0 * RBF(0.5) + kernels.Linear(3.0)  # longer than scikit-learn lets a parameter be
    page = page_of(estimators.TaskTransformedGP(kernel_x=kernel))
    assert f"kernel_x given {kernel!r}" in page.text
    assert "not fitted" in page.text


def test_one_table_of_two_is_no_reason_to_fail(tables):
    maps = features.RandomFourier(RBF(1.0), 4), features.RandomFourier(RBF(0.5), 4)
    half = estimators.TaskTransformedFeatures(*maps).partial_fit(*tables[:2])
    assert "not fitted" in page_of(half).text


def test_columns_with_hostile_names_are_escaped():
    x = pd.DataFrame({HOSTILE: [0.0, 1.0, 2.0], "b": [1.0, 0.0, 1.0]})
    hostile, plain = (
        page_of(estimators.DirectGP(RBF(1.0), optimize=False).fit(rows, [0.0, 1.0, 4.0]))
        for rows in (x, x.set_axis(["a", "b"], axis=1))
    )
    assert hostile.tags == plain.tags


def test_consumers_without_bundles_see_the_same():
    gp = estimators.DirectGP(RBF(1.0), optimize=False).fit([[0.0], [1.0]], [0.0, 1.0])
    assert Page(gp._repr_html_()).text.split("Parameters")[-1] == page_of(gp).text.split("Parameters")[-1]
    assert "DirectGP fitted" in Page(gp._repr_html_()).text


def test_text_is_shown_where_scikit_learn_is_told_so():
    gp = estimators.DirectGP()
    with sklearn.config_context(display="text"):
        assert set(gp._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(gp, "_repr_html_")


# ---- likelihood-free inference --------------------------------------------------------------------------


def hostile_posterior():
    prior = Prior({HOSTILE: stats.norm(), "share": stats.uniform()})
    with pytest.warns(PosteriorWarning):
        posterior = Posterior(
            prior, lambda n, rng: rng.uniform(size=(n, 2)), effective=20.0, notes=[f"see {HOSTILE}"]
        )
    posterior.simulations = Simulations(np.zeros((5, 2)), np.zeros(5), names=prior.names)
    return posterior


def test_a_posterior_shows_its_summary_and_notes():
    posterior = hostile_posterior()
    page = page_of(posterior)
    assert "script" not in page.tags
    assert page.text.count(HOSTILE) == 2  # in the table and in the note
    assert f"{posterior.mean()[1]:.4g}" in page.text
    assert "5 simulations (0 failed)" in page.text
    assert "share = 0.5" in repr(posterior)


def test_a_posterior_stuck_at_a_point_can_be_shown():
    posterior = Posterior(Prior({"rate": stats.norm()}), lambda n, rng: np.full((n, 1), 2.0))
    assert "rate" in page_of(posterior).text


def test_a_diagnosis_shows_its_verdict():
    posterior = hostile_posterior()
    ranks = RNG.integers(0, 100, size=(60, 2))
    scores = np.ones((60, 2))
    calibration = Calibration(posterior.names, ranks // 3 + 33, 99, scores, np.arange(60))
    sims = Simulations(np.zeros((300, 2)), RNG.normal(size=(300, 2)))
    check = posterior_predictive_check(None, sims, [0.0, 9.0], names=[HOSTILE, "x2"])
    report = Report(posterior, calibration, Sufficiency(40, 1.0, 0.1, 40), check, True)
    assert "under-confident" in repr(report)
    page = page_of(report)
    assert report.verdict in page.text
    assert all(sentence in page.text for sentence in report.sentences)
    assert "script" not in page.tags
