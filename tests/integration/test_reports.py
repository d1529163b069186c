"""Reports as text: what they say, that texts of the user stay texts, and how commands write them."""

import copy
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

from decond import AggregateGP, DirectGP, EcologicalGP, SparseGP, TaskTransformedGP, lfi
from decond.cli import app
from decond.io import load
from decond.learning import BoundWarning
from decond.reports import fit_report, inference_report
from decond.reports.document import number

HOSTILE = "</script><b>wind</b>\u2028&"


class Page(HTMLParser):
    """The parts of a page that tests ask for: its elements, the text of each section, and its numbers."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.text, self.scripts, self._inside = [], "", [], []
        self.feed(html)
        self.numbers = json.loads(next(text for kind, text in self.scripts if kind == "application/json"))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        while self._inside and self._inside.pop()[0] != tag:
            pass

    def handle_data(self, data):
        tag, attributes = self._inside[-1] if self._inside else ("", {})
        if tag == "script":
            self.scripts.append((attributes.get("type", ""), data))
        elif tag != "style":
            self.text += f"{data} "


def said(report):
    return " ".join(Page(report.html).text.split())


def days(n_days=24, readings=4, noise=0.5):
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(n_days), readings)
    wind = rng.uniform(0, 10, len(day))
    power = pd.Series(10.0 * np.sin(wind / 3.0)).groupby(day).mean() + noise * rng.standard_normal(n_days)
    return {"x": pd.DataFrame({"wind": wind}), "groups": day, "z_groups": power.rename("power")}


@pytest.fixture(scope="module")
def fitted():
    """Return a small model of groups and what it was fitted on."""
    data = days()
    return AggregateGP(n_restarts=0, uncertainty="plain").fit(**data), data


@pytest.fixture(scope="module")
def page(fitted):
    """Return a report with everything that can be in it."""
    gp, data = fitted
    return fit_report(
        gp,
        data,
        units={"wind": "m/s", "power": "kW"},
        baselines={"mean on mean": EcologicalGP(n_restarts=0).fit(data["x"], *_mediated(data))},
        lines={"truth": ([10.0, 0.0, 5.0], [-1.9, 0.0, 9.95])},
        warnings=["the wind was weak"],
        notes=["one day is missing"],
        command="decond fit 'my hours.csv'",
    )


def _mediated(data):
    return data["groups"].astype(str), data["z_groups"].index.to_numpy().astype(str), data["z_groups"].to_numpy()


# ---- a fit ---------------------------------------------------------------------------------------------------


def test_a_fit_says_what_was_learned_from_what_and_how_to_repeat_it(page):
    text = said(page)
    for words in (
        "power as a function of wind",
        page.verdict,
        "Each of 24 groups has 4 rows.",
        "wind input x 96 0.0",
        "group group of the targets 24 24 labels",
        "Rows closer than about",
        "m/s in wind have similar power; the rows span 9.9",
        "A single target scatters by about",
        "Did deconditioning help?",
        "Each target was predicted from the others",
        "An optimum was found.",
        "the wind was weak",
        "one day is missing",
        "decond fit 'my hours.csv'",
        "AggregateGP(n_restarts=0, uncertainty='plain')",
        "seed 0",
        f"numpy {np.__version__}",
        f"Python {sys.version.split()[0]}",
        "UTC",
    ):
        assert words in text, (words, text)


def test_curves_are_what_the_models_predict(page, fitted):
    gp, _ = fitted
    (chart,) = Page(page.html).numbers["groups"]["function"]
    series = {item["label"]: item for item in chart["series"]}
    assert (chart["x"], chart["y"]) == ("wind (m/s)", "power (kW)")
    at = pd.DataFrame({"wind": series["learned function"]["x"]})
    mean, std = gp.predict(at, return_std=True)
    np.testing.assert_allclose(series["learned function"]["y"], mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(series["± 2 sd"]["high"], mean + 2 * std, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(series["mean on mean"]["x"], at["wind"])
    assert series["truth"]["x"] == [0.0, 5.0, 10.0]
    assert series["truth"]["y"] == [0.0, 9.95, -1.9]


def test_dots_are_targets_at_the_mean_of_their_group(page, fitted):
    _, data = fitted
    (chart,) = Page(page.html).numbers["groups"]["function"]
    dots = next(item for item in chart["series"] if item["kind"] == "dots")
    means = data["x"]["wind"].groupby(data["groups"]).mean()
    np.testing.assert_allclose(dots["x"], means, rtol=1e-5)
    np.testing.assert_allclose(dots["y"], data["z_groups"], rtol=1e-5)


def test_usual_baselines_are_fitted_where_none_are_given(fitted):
    gp, data = fitted
    (chart,) = Page(fit_report(gp, data).html).numbers["groups"]["function"]
    dashed = [item["label"] for item in chart["series"] if item.get("dash")]
    assert [label.split(":")[0] for label in dashed] == [
        "cascade",
        "impute z, then regress",
        "regression on E[x | y]",
        "dual embedding",
    ]


def test_long_tables_give_baselines_a_sample_and_the_page_says_so(monkeypatch, fitted):
    gp, data = fitted
    monkeypatch.setattr("decond.reports.baselines.MAX_ROWS", 60)
    report = fit_report(gp, data)
    assert "a sample, 60 of 96 rows and 24 of 24 targets" in said(report)
    (chart,) = Page(report.html).numbers["groups"]["function"]
    means = next(item for item in chart["series"] if item["label"] == "regression on E[x | y]")
    whole = EcologicalGP(n_restarts=0).fit(data["x"], *_mediated(data))  # its rows only enter means of groups
    np.testing.assert_allclose(means["y"], whole.predict(pd.DataFrame({"wind": means["x"]})), rtol=1e-5, atol=1e-5)


def test_texts_of_the_user_stay_texts(fitted):
    gp, data = fitted
    x = data["x"].set_axis([HOSTILE], axis=1)
    gp = AggregateGP(gp.kernel_, optimize=False).fit(x, data["groups"], data["z_groups"])
    report = fit_report(gp, {**data, "x": x}, target=HOSTILE, baselines={HOSTILE: gp}, notes=[HOSTILE])
    parsed = Page(report.html)
    assert not [tag for tag, _ in parsed.elements if tag == "b" and "<b>wind" in report.html]
    assert report.html.count("</script>") == len([tag for tag, _ in parsed.elements if tag == "script"]) == 2
    assert "\u2028" not in re.search(r'id="data">(.*?)</script>', report.html, re.DOTALL).group(1)
    (chart,) = parsed.numbers["groups"]["function"]
    assert chart["x"] == chart["y"] == chart["series"][-1]["label"] == HOSTILE
    assert f"{HOSTILE} as a function of {HOSTILE}" in parsed.text


def test_nothing_is_loaded_from_elsewhere(page):
    for tag, attributes in Page(page.html).elements:
        assert tag not in ("img", "iframe", "object", "embed"), tag
        for name in ("src", "href", "action"):
            assert attributes.get(name, "data:,") == "data:,", (tag, attributes)
    assert not re.search(r"@import|url\(", page.html)
    assert "default-src 'none'" in page.html
    assert len(page.html) < 3_000_000


def test_tables_and_a_still_picture_are_there_without_scripts(page, fitted):
    gp, _ = fitted
    fallback = re.search(r"<noscript>(.*?)</noscript>", page.html, re.DOTALL).group(1)
    assert fallback.count("<polyline") == 3  # the function, a baseline, a line
    assert fallback.count("<circle") == 24
    text = said(page)
    first = float(Page(page.html).numbers["groups"]["function"][0]["series"][0]["x"][0])
    assert number(gp.predict(pd.DataFrame({"wind": [first]}))[0]) in text


def test_targets_that_tell_nothing_within_a_group_are_called_so():
    data = days()
    noise = np.random.default_rng(1).standard_normal(24)
    gp = AggregateGP(n_restarts=0).fit(data["x"], data["groups"], noise)
    report = fit_report(gp, {**data, "z_groups": noise}, baselines={})
    assert gp.resolution() < 1.0
    assert report.verdict.startswith("Look twice: deconditioning did not help")
    assert "A regression on E[x | y] does as well." in said(report)


def test_error_bars_that_are_too_narrow_are_called_so():
    data = days(n_days=40, noise=3.0)
    gp = AggregateGP(kernel=16.0 * _rbf(2.0), noise=0.3, optimize=False).fit(**data)
    report = fit_report(gp, data, baselines={})
    assert "the error bars of targets are too narrow" in report.verdict
    assert report.verdict.startswith("Use with care: ")
    assert "Nothing: all numbers were given." in said(report)


def test_a_number_on_the_edge_of_its_range_is_called_so():
    data = days(n_days=24, noise=0.0)
    flat = pd.Series(2.0 * data["x"]["wind"]).groupby(data["groups"]).mean()
    with pytest.warns(BoundWarning):
        gp = AggregateGP(n_restarts=0, uncertainty="plain").fit(data["x"], data["groups"], flat)
    report = fit_report(gp, {**data, "z_groups": flat}, baselines={})
    assert "on the edge of" in report.verdict
    assert "these data say little about it" in said(report)


def _rbf(lengthscale):
    from decond.kernels import RBF

    return RBF(lengthscale)


def test_several_columns_labels_and_ordinary_rows():
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"wind": rng.uniform(0, 9, 80), "height": rng.uniform(0, 9, 80)})
    z = np.sin(x["wind"]) + 0.1 * rng.standard_normal(80)
    sparse = fit_report(SparseGP(n_inducing=8, max_iterations=20).fit(x, z), {"X": x, "y": z}, target="power")
    assert [chart["x"] for chart in Page(sparse.html).numbers["groups"]["function"]] == ["wind", "height"]
    assert "its own row among the data" in said(sparse)
    assert "deconditioning" not in said(sparse).lower()
    direct = fit_report(DirectGP(n_restarts=0, uncertainty="plain").fit(x[["wind"]], z), {"X": x[["wind"]], "y": z})
    (chart,) = Page(direct.html).numbers["groups"]["function"]
    dots = next(item for item in chart["series"] if item["kind"] == "dots")
    np.testing.assert_allclose(dots["y"], z, rtol=1e-5)


def test_a_mediator_of_numbers_is_described():
    rng = np.random.default_rng(0)
    y, y_task = rng.uniform(-3, 3, 40), rng.uniform(-3, 3, 50)
    data = {"x": np.sin(y), "y": y, "y_task": y_task, "z_task": np.sin(y_task) ** 2}
    gp = TaskTransformedGP(n_restarts=0, uncertainty="plain").fit(**data)
    report = fit_report(gp, data, target="power")
    text = said(report)
    assert "40 pairs and 50 task rows" in text
    assert "in y tell much the same of x." in text
    (chart,) = Page(report.html).numbers["groups"]["function"]
    assert sum(bool(item.get("dash")) for item in chart["series"]) == 4
    assert next(item for item in chart["series"] if item["kind"] == "dots")["label"] == "targets, at E[x | y]"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": {"rows": [1.0]}}, "data has 'rows'; give the arguments of fit by name"),
        ({"data": {"x": [1.0], "groups": [1], "z_groups": np.ones((2, 2))}}, "a report shows one target"),
        ({"lines": {"truth": ([1.0], [1.0])}}, "the line 'truth' has 1 x and 1 z"),
    ],
)
def test_wrong_arguments_are_explained(fitted, change, words):
    gp, data = fitted
    with pytest.raises(ValueError, match=re.escape(words)):
        fit_report(gp, **{"data": data, "baselines": {}, **change})


def test_lines_need_a_single_column():
    x = pd.DataFrame({"wind": [0.0, 1.0, 2.0], "height": [5.0, 5.0, 6.0]})
    gp = DirectGP(_rbf(1.0), optimize=False).fit(x, [0.0, 1.0, 4.0])
    with pytest.raises(ValueError, match="x has 2: wind, height"):
        fit_report(gp, {"X": x, "y": [0.0, 1.0, 4.0]}, lines={"truth": ([0.0, 1.0], [0.0, 1.0])})


# ---- an inference --------------------------------------------------------------------------------------------


PRIOR = lfi.Prior({"rate": stats.gamma(2), HOSTILE: stats.uniform(0, 2)})


def simulate(theta, rng):
    return np.column_stack([theta[:, 0], theta[:, 1]]) + 0.1 * rng.standard_normal((len(theta), 2))


@pytest.fixture(scope="module")
def inferred():
    """Return a posterior from few simulations, by the cheapest method, with a diagnosis."""
    method, observed = lfi.RejectionABC(quantile=0.1, seed=0), [1.5, 0.7]
    sims = lfi.simulate(simulate, PRIOR, 800, batched=True, progress=False)
    posterior = method.fit(sims, PRIOR).posterior(observed)
    diagnosis = lfi.diagnose(method, sims, PRIOR, observed, simulate, n=40, n_predictive=50, batched=True)
    return posterior, diagnosis


def test_an_inference_says_what_was_found_from_what(inferred):
    posterior, diagnosis = inferred
    report = inference_report(
        posterior,
        [1.5, 0.7],
        summaries=["mean", HOSTILE],
        truth=[1.4, 0.8],
        diagnosis=diagnosis,
        warnings=["slow"],
        method="RejectionABC",
        seed=7,
        command="decond infer a:b",
    )
    text, numbers = said(report), Page(report.html).numbers
    low, high = posterior.interval(0.95)[:, 0]
    for words in ("RejectionABC · 800 simulations, 0 of them failed", "1.4", "slow", "seed 7", "decond infer a:b"):
        assert words in text, (words, text)
    assert f"{low:.4g}"[:5] in text
    assert f"{high:.4g}"[:5] in text
    for sentence in [*diagnosis.calibration.sentences, *diagnosis.predictive.sentences]:
        assert sentence in text
    assert numbers["pairs"]["names"] == ["rate", HOSTILE]
    np.testing.assert_allclose(numbers["pairs"]["truth"], [1.4, 0.8])
    (coverage,) = numbers["groups"]["coverage"]
    curve = next(item for item in coverage["series"] if item["label"] == "rate")
    np.testing.assert_allclose(curve["y"], diagnosis.calibration.coverage.shares["rate"], atol=1e-6)


def test_densities_integrate_to_one_and_regions_hold_their_share():
    posterior = lfi.Posterior(PRIOR, lambda n, rng: np.column_stack([rng.gamma(9, 0.1, n), rng.beta(4, 4, n)]))
    numbers = Page(inference_report(posterior, [1.5, 0.7]).html).numbers
    for chart in numbers["groups"]["marginals"]:
        for series in chart["series"]:
            if series["kind"] in ("line", "area"):
                assert 0.95 < np.trapezoid(series["y"], series["x"]) < 1.02, series["label"]
    from matplotlib.path import Path as Outline

    for rings, share in zip(numbers["pairs"]["contours"]["1,0"], (0.95, 0.8, 0.5), strict=True):
        inside = sum(Outline(ring).contains_points(posterior.samples) for ring in rings if len(ring) > 2) % 2
        assert inside.mean() == pytest.approx(share, abs=0.02)


def test_without_a_diagnosis_the_report_says_that_calibration_is_open(inferred):
    posterior, _ = inferred
    report = inference_report(posterior, [1.5, 0.7])
    assert report.verdict.endswith("but the calibration of the posterior was not checked.")
    assert "decond infer --check" in said(report)
    assert "<h2>Coverage" not in report.html


def test_an_observation_outside_the_simulations_is_called_so(inferred):
    posterior, _ = inferred
    report = inference_report(posterior, [60.0, -9.0])
    assert report.verdict.startswith("Use with care: ")
    assert "the observation lies outside what was simulated" in report.verdict


def test_one_parameter_needs_no_pairs_and_an_idle_observation_is_noticed():
    prior = lfi.Prior({"rate": stats.uniform(0, 1)})
    posterior = lfi.Posterior(prior, lambda n, rng: rng.uniform(0, 1, (n, 1)))
    report = inference_report(posterior, [0.5])
    assert Page(report.html).numbers["pairs"] is None
    assert report.verdict == (
        "Look twice: the posterior of rate is hardly narrower than the prior: the observation tells little about it, "
        "or the method learned too little."
    )


def test_names_put_an_observation_into_the_order_of_the_simulations(inferred):
    posterior, _ = inferred
    sims = posterior.simulations
    named = copy.copy(posterior)
    named.simulations = lfi.Simulations(sims.theta, sims.x, summary_names=["mean", "log sd"])
    pages = [inference_report(named, seen) for seen in ({"log sd": 0.7, "mean": 1.5}, [1.5, 0.7])]
    assert pages[0].verdict == pages[1].verdict
    texts = [re.sub(r"\d\d:\d\d UTC", "", said(page)) for page in pages]  # a minute may end in between
    assert texts[0] == texts[1]
    assert "log sd" in texts[0]


def test_groups_of_one_row_leave_nothing_to_undo():
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 6.0, 40)
    z = np.sin(x) + 0.1 * rng.standard_normal(40)
    for rows, groups in ((x, np.arange(40)), (np.repeat(x, 2), np.repeat(np.arange(40), 2))):
        data = {"x": rows, "groups": groups, "z_groups": z}
        model = AggregateGP(n_restarts=0, uncertainty="plain").fit(**data)
        report = fit_report(model, data, baselines={})
        assert "there was nothing to undo" in report.verdict
        assert "did not help" not in report.verdict


def test_names_of_summaries_have_to_match(inferred):
    with pytest.raises(ValueError, match="summaries has 1 names but the observation has 2 values"):
        inference_report(inferred[0], [1.5, 0.7], summaries=["mean"])


# ---- commands ------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with tables, in which commands run."""
    monkeypatch.chdir(tmp_path)
    data = days(n_days=12)
    pd.DataFrame({"day": data["groups"], "wind": data["x"]["wind"]}).to_csv("hours.csv", index=False)
    data["z_groups"].rename_axis("day").reset_index().to_csv("days.csv", index=False)
    return tmp_path


FIT = ("fit", "hours.csv", "days.csv", "--x", "wind", "--y", "day", "--z", "power", "--aggregate", "--restarts", "0")


INFER = ("infer", "waiting:simulate", "--prior", "p.toml", "--observed", "o.csv")


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def test_fit_writes_a_report_and_json_that_agree(folder):
    result = run(*FIT, "--report", "my report.html", "--json")
    found = json.loads(result.stdout)
    html = (folder / "my report.html").read_text(encoding="utf-8")
    text = said(type("Written", (), {"html": html}))
    assert found["report"] == "my report.html"
    assert found["verdict"] in text
    assert "decond fit hours.csv days.csv --x wind --z power --y day --aggregate --restarts 0" in text
    assert "--report 'my report.html' --json" in text
    assert "day group of the rows 48 12 labels" in text
    gp = load(folder / "model.decond")
    curve = Page(html).numbers["groups"]["function"][0]["series"][0]
    np.testing.assert_allclose(curve["y"], gp.predict(pd.DataFrame({"wind": curve["x"]})), rtol=1e-5, atol=1e-5)


def test_a_table_on_disk_is_reported_from_a_sample(folder):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"wind": rng.uniform(0, 9, 11_000)})
    table.assign(power=table["wind"] ** 2).to_parquet("table.parquet")
    run("fit", "table.parquet", "--x", "wind", "--z", "power", "--sparse", "--inducing", 5, "--report", "r.html")
    text = said(type("Written", (), {"html": (folder / "r.html").read_text(encoding="utf-8")}))
    assert "11,000 rows with a target each" in text
    assert "from 5,000 of the 11,000 rows" in text


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ("nowhere/out.html", "the folder nowhere does not exist"),
        (".", "is a folder"),
        ("out.pdf", "Call it out.html"),
        ("model.html/out.html", "does not exist"),
        ("dead.html", "cannot be written"),
    ],
)
@pytest.mark.parametrize("command", ["fit", "infer"])
def test_a_report_that_cannot_be_written_ends_before_the_work(folder, command, report, words):
    (folder / "dead.html").symlink_to(folder / "nowhere" / "out.html")
    (folder / "waiting.py").write_text("raise SystemExit('the simulator was imported')")
    arguments = FIT if command == "fit" else INFER
    before = sorted(folder.iterdir())
    error = " ".join(run(*arguments, "--report", report, code=2).stderr.split())
    assert words in error, error
    assert sorted(folder.iterdir()) == before


def test_a_report_does_not_take_the_place_of_the_model(folder):
    error = run(*FIT, "--output", "all.html", "--report", "all.html", code=2).stderr
    assert "a model is no page: --report writes one. Call it all.decond." in " ".join(error.split())


SIMULATOR = """
import os
import numpy as np

def simulate(theta, rng):
    print("from the simulator")
    if rng.random() < 0.02:  # takes a while
        os.system("echo from a child")
    return theta + 0.1 * rng.standard_normal(1)
"""


def test_json_of_infer_stands_alone_on_stdout_and_diagnosis_is_in_report_and_json(folder):
    (folder / "talking.py").write_text(SIMULATOR)
    (folder / "prior.toml").write_text('[rate]\ndistribution = "gamma"\na = 2.0\n')
    (folder / "seen.csv").write_text("mean\n1.3\n")
    command = "talking:simulate --prior prior.toml --observed seen.csv -n 40 --method rejection"
    options = "--check --report out.html --json"
    result = subprocess.run(
        [sys.executable, "-m", "decond", "infer", *command.split(), *options.split()],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert "from the simulator" in result.stderr
    assert "from a child" in result.stderr
    assert found["simulations"] == 40
    text = said(type("Written", (), {"html": (folder / "out.html").read_text(encoding="utf-8")}))
    assert found["verdict"] in text
    (judged,) = [
        sentence for sentence in found["diagnosis"]["sentences"] if "of 40 simulated truths" in sentence.lower()
    ]
    assert judged in text
    assert "mean 1.3" in text


def test_a_check_refuses_methods_that_run_the_simulator_themselves(folder):
    error = run(*INFER, "--method", "smc", "--check", code=2).stderr
    assert "--method smc runs the simulator itself" in " ".join(error.split())
