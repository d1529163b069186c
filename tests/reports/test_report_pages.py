"""Reports as pages: their parts, and that texts of the user stay texts."""

import copy
import re
import sys

import numpy as np
import pandas as pd
import pytest
from expected import refused, says_little
from report_pages import ReportPage, chart_of
from scipy import stats

from decond import AggregateGP, DirectGP, EcologicalGP, SparseGP, TaskTransformedGP, lfi
from decond.estimators.posterior_regressor import FitCheck
from decond.io import load, save
from decond.messages import number
from decond.reports import fit_report, inference_report
from decond.reports.fit_description import facts_in_words, fitted_data
from decond.reports.fit_report import naive_baselines
from decond.verdict import State

HOSTILE = "</script><b>wind</b>\u2028&"


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
        baselines={"mean on mean": _ecological(data)},
        lines={"truth": ([10.0, 0.0, 5.0], [-1.9, 0.0, 9.95])},
        warnings=["the wind was weak"],
        notes=["one day is missing"],
        command="decond fit 'my hours.csv'",
    )


def _mediated(data):
    return data["groups"].astype(str), data["z_groups"].index.to_numpy().astype(str), data["z_groups"].to_numpy()


def _ecological(data):
    with says_little():
        return EcologicalGP(n_restarts=0).fit(data["x"], *_mediated(data))


# ---- a fit ---------------------------------------------------------------------------------------------------


def test_a_page_has_the_verdict_the_data_the_numbers_and_how_to_repeat_it(page, fitted):
    gp, _ = fitted
    read = ReportPage(page.html)
    assert page.title == read.heading
    assert page.verdict in read.verdict.text
    assert read.verdict.attributes["class"] == f"verdict {page.state}"
    assert read.checks == {check.question: check.state for check in page.checks.values()}
    assert set(page.checks) == {"deconditioning", "error bars", "signal", "bounds", "search", "assumptions"}
    counts = [(line[0], line[2]) for line in read.rows("data-shape")]
    assert counts == [("wind", "96"), ("group", "96"), ("group", "24"), ("power", "24")]
    learned = {line[0]: line[1] for line in read.rows("hyperparameters")}
    assert learned["log evidence"] == number(gp.log_marginal_likelihood(), 6)
    assert learned["lengthscale of wind"] == f"{number(gp.kernel_.kernel.lengthscale)} m/s"
    assert read.items("warnings") == ["the wind was weak"]
    assert read.items("notes") == ["one day is missing"]
    assert read.command == "decond fit 'my hours.csv'"
    repeat = read.facts("repeat")
    assert (repeat["made by"], repeat["seed"]) == ("AggregateGP(n_restarts=0, uncertainty='plain')", "0")
    assert (repeat["numpy"], repeat["Python"]) == (np.__version__, sys.version.split()[0])


def test_curves_are_what_the_models_predict(page, fitted):
    gp, _ = fitted
    chart = chart_of(ReportPage(page.html))
    series = chart["series"]
    assert (chart["x"], chart["y"]) == ("wind (m/s)", "power (kW)")
    at = pd.DataFrame({"wind": series["model"]["x"]})
    mean, std = gp.predict(at, return_std=True)
    np.testing.assert_allclose(series["model"]["y"], mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(series["band"]["high"], mean + 2 * std, rtol=1e-5, atol=1e-5)
    _, wide = gp.predict(at, return_std=True, include_noise=True)
    np.testing.assert_allclose(series["targets"]["low"], mean - 2 * wide, rtol=1e-5, atol=1e-5)
    assert series["targets"]["off"]  # a check box shows it
    np.testing.assert_allclose(series["baseline0"]["x"], at["wind"])
    assert series["line0"]["x"] == [0.0, 5.0, 10.0]
    assert series["line0"]["y"] == [0.0, 9.95, -1.9]


def test_dots_are_targets_at_the_mean_of_their_group(page, fitted):
    _, data = fitted
    dots = chart_of(ReportPage(page.html))["series"]["data"]
    means = data["x"]["wind"].groupby(data["groups"]).mean()
    np.testing.assert_allclose(dots["x"], means, rtol=1e-5)
    np.testing.assert_allclose(dots["y"], data["z_groups"], rtol=1e-5)


def test_long_tables_give_baselines_a_sample_and_a_note(fitted):
    gp, data = fitted
    found, notes = naive_baselines(fitted_data(gp, data), 0, max_rows=60)
    assert [re.findall(r"\d+", note) for note in notes] == [["60", "96", "24", "24"]]
    assert len(found) == 4
    assert naive_baselines(fitted_data(gp, data), 0, max_rows=96)[1] == []


def test_texts_of_the_user_stay_texts(fitted):
    gp, data = fitted
    x = data["x"].set_axis([HOSTILE], axis=1)
    gp = AggregateGP(gp.kernel_, optimize=False).fit(x, data["groups"], data["z_groups"])
    report = fit_report(gp, {**data, "x": x}, target=HOSTILE, baselines={HOSTILE: gp}, notes=[HOSTILE])
    parsed = ReportPage(report.html)
    assert "<b>wind" not in report.html
    assert report.html.count("</script>") == len(list(parsed.root.all("script"))) == 2
    assert "\u2028" not in re.search(r'id="data">(.*?)</script>', report.html, re.DOTALL).group(1)
    (chart,) = parsed.numbers["groups"]["function"]
    assert (
        chart["x"]
        == chart["y"]
        == next(one for one in chart["series"] if one["key"] == "baseline0")["label"]
        == HOSTILE
    )
    words = " ".join(HOSTILE.split())
    assert parsed.heading.count(words) == 2
    assert parsed.items("notes") == [words]


def test_nothing_is_loaded_from_elsewhere(page):
    for element in ReportPage(page.html).root.all():
        assert element.tag not in ("img", "iframe", "object", "embed"), element.tag
        for name in ("src", "href", "action"):
            assert element.attributes.get(name, "data:,") == "data:,", element
    assert not re.search(r"@import|url\(", page.html)
    assert "default-src 'none'" in page.html
    assert len(page.html) < 3_000_000


def test_a_table_has_the_values_without_scripts(page, fitted):
    gp, _ = fitted
    read = ReportPage(page.html)
    first = read.rows("function")[0]
    low = chart_of(read)["series"]["model"]["x"][0]
    mean, std = gp.predict(pd.DataFrame({"wind": [low]}), return_std=True)
    expected = [low, mean[0], mean[0] - 2 * std[0], mean[0] + 2 * std[0]]
    np.testing.assert_allclose([float(cell) for cell in first], expected, rtol=1e-3, atol=1e-2)


def test_targets_that_tell_nothing_within_a_group_are_doubted():
    data = days()
    noise = np.random.default_rng(1).standard_normal(24)
    with says_little():
        gp = AggregateGP(n_restarts=0).fit(data["x"], data["groups"], noise)
    report = fit_report(gp, {**data, "z_groups": noise}, baselines={})
    check = report.checks["deconditioning"]
    assert check.numbers == {"resolution": gp.resolution()}
    assert gp.resolution() < 1.0
    assert report.state == check.state == State.DOUBT
    assert check.finding in report.verdict
    assert report.checks["error bars"].state != State.GOOD
    assert report.checks["facts"].state == State.GOOD


def test_a_page_tells_facts_candidates_and_ranges_of_sampled_numbers():
    rng = np.random.default_rng(0)
    y, y_task = rng.uniform(0, 10, 25), rng.uniform(0, 10, 25)
    data = {"x": y + rng.standard_normal(25), "y": y, "y_task": y_task, "z_task": y_task + rng.standard_normal(25)}
    for targets, candidates in (("mean", 3), ("single", 0)):
        with says_little():
            gp = TaskTransformedGP(targets=targets, n_restarts=0).fit(**data)
        gp.check = lambda gp=gp: FitCheck(gp.resolution(), "look here", 9.0, 1.0)
        report = fit_report(gp, data, baselines={})
        read = ReportPage(report.html)
        weights = {name: float(weight) for name, weight in read.rows("candidates")} if candidates else {}
        assert weights == {name: round(weight, 2) for name, weight in gp.average_.table()[:candidates]}
        assert all(fact in read.sections["data-shape"].text for fact in facts_in_words(gp, data))
        assert {len(line) for line in read.rows("hyperparameters")} == {2 if candidates else 3}
        assert (report.checks["facts"].state, report.checks["facts"].sentence) == (State.DOUBT, "look here")


def test_a_model_from_a_file_is_reported_without_a_check_of_facts(fitted, tmp_path):
    data = days()
    save(AggregateGP(n_restarts=0).fit(**data), tmp_path / "model.decond")
    report = fit_report(load(tmp_path / "model.decond"), data, baselines={})
    assert report.checks["facts"].state == State.OPEN
    assert report.checks["facts"].finding == ""


def test_error_bars_that_are_too_narrow_are_bad():
    data = days(n_days=40, noise=3.0)
    gp = AggregateGP(kernel=16.0 * _rbf(2.0), noise=0.3, optimize=False).fit(**data)
    report = fit_report(gp, data, baselines={})
    check = report.checks["error bars"]
    assert report.state == check.state == State.BAD
    assert check.finding in report.verdict
    assert check.numbers["targets"] == 40
    assert check.numbers["coverage"] < 0.8
    assert report.checks["search"].state == State.OPEN  # all were given: there was nothing to test
    assert ReportPage(report.html).rows("hyperparameters") == []


def _rbf(lengthscale):
    from decond.kernels import RBF

    return RBF(lengthscale)


def test_several_columns_labels_and_ordinary_rows():
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"wind": rng.uniform(0, 9, 80), "height": rng.uniform(0, 9, 80)})
    z = np.sin(x["wind"]) + 0.1 * rng.standard_normal(80)
    sparse = fit_report(SparseGP(n_inducing=8, max_iterations=20).fit(x, z), {"X": x, "y": z}, target="power")
    assert [chart["x"] for chart in ReportPage(sparse.html).numbers["groups"]["function"]] == ["wind", "height"]
    assert sparse.checks["error bars"].numbers["targets"] == 80
    assert "deconditioning" not in sparse.checks
    direct = fit_report(DirectGP(n_restarts=0, uncertainty="plain").fit(x[["wind"]], z), {"X": x[["wind"]], "y": z})
    np.testing.assert_allclose(chart_of(ReportPage(direct.html))["series"]["data"]["y"], z, rtol=1e-5)


def test_a_mediator_of_numbers_is_described():
    rng = np.random.default_rng(0)
    y, y_task = rng.uniform(-3, 3, 40), rng.uniform(-3, 3, 50)
    data = {"x": np.sin(y), "y": y, "y_task": y_task, "z_task": np.sin(y_task) ** 2}
    gp = TaskTransformedGP(n_restarts=0, uncertainty="plain").fit(**data)
    report = fit_report(gp, data, target="power")
    read = ReportPage(report.html)
    assert [line[0::2][:2] for line in read.rows("data-shape")] == [
        ["x", "40"],
        ["y", "40"],
        ["y", "50"],
        ["power", "50"],
    ]
    assert "lengthscale of y" in [line[0] for line in read.rows("hyperparameters")]
    series = chart_of(read)["series"]
    assert sum(bool(item.get("dash")) for item in series.values()) == 4
    assert series["data"]["label"] == "targets, at E[x | y]"


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"data": {"rows": [1.0]}}, "data"),
        ({"data": {"x": [1.0], "groups": [1], "z_groups": np.ones((2, 2))}}, "data['z_groups']"),
        ({"lines": {"truth": ([1.0], [1.0])}}, "lines['truth']"),
        ({"data": {**days(), "groups": np.repeat(np.arange(5), 4)}}, "data['groups']"),
        ({"data": {**days(), "z_groups": np.ones(7)}}, "data['z_groups']"),
        ({"data": {"X": np.zeros((5, 1)), "y": np.zeros(4)}}, "data['y']"),
        (
            {
                "data": {"X": pd.DataFrame(np.zeros((5, 2))), "y": np.zeros(5)},
                "lines": {"truth": ([0.0, 1.0], [0.0, 1.0])},
            },
            "lines",
        ),
    ],
)
def test_wrong_arguments_are_refused(fitted, change, argument):
    gp, data = fitted
    with refused(argument):
        fit_report(gp, **{"data": data, "baselines": {}, **change})


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


def test_an_inference_has_its_parameters_its_observation_and_its_diagnosis(inferred):
    posterior, diagnosis = inferred
    report = inference_report(
        posterior,
        {"mean": 1.5, HOSTILE: 0.7},
        truth=[1.4, 0.8],
        diagnosis=diagnosis,
        warnings=["slow"],
        method="RejectionABC",
        seed=7,
        command="decond infer a:b",
    )
    read, name = ReportPage(report.html), " ".join(HOSTILE.split())
    assert report.verdict in read.verdict.text
    rate, other = read.rows("summary")
    assert (rate[0], rate[-1], other[0], other[-1]) == ("rate", "1.4", name, "0.8")
    ends = [float(end) for end in re.findall(r"[\d.]+", rate[4])]
    np.testing.assert_allclose(ends, posterior.interval(0.95)[:, 0], rtol=2e-3)
    assert [line[:2] for line in read.rows("observation")] == [["mean", "1.5"], [name, "0.7"]]
    assert "slow" in read.items("warnings")
    assert (read.facts("repeat")["seed"], read.command) == ("7", "decond infer a:b")
    assert report.checks["failures"].numbers == {"failed": 0}
    assert report.checks["calibration"].numbers == {"trials": diagnosis.calibration.n}
    assert report.checks["prediction"].state == (State.GOOD if diagnosis.predictive.passed else State.BAD)
    for sentence in [*diagnosis.calibration.sentences, *diagnosis.predictive.sentences]:
        assert sentence in read.sections["trust"].text
    assert read.numbers["pairs"]["names"] == ["rate", HOSTILE]
    np.testing.assert_allclose(read.numbers["pairs"]["truth"], [1.4, 0.8])
    (coverage,) = read.numbers["groups"]["coverage"]
    curve = next(item for item in coverage["series"] if item["label"] == "rate")
    np.testing.assert_allclose(curve["y"], diagnosis.calibration.coverage.shares["rate"], atol=1e-6)


def test_densities_integrate_to_one_and_regions_hold_their_share():
    posterior = lfi.Posterior(PRIOR, lambda n, rng: np.column_stack([rng.gamma(9, 0.1, n), rng.beta(4, 4, n)]))
    numbers = ReportPage(inference_report(posterior, [1.5, 0.7]).html).numbers
    for chart in numbers["groups"]["marginals"]:
        for series in chart["series"]:
            if series["kind"] in ("line", "area"):
                assert 0.95 < np.trapezoid(series["y"], series["x"]) < 1.02, series["label"]
    from matplotlib.path import Path as Outline

    for rings, share in zip(numbers["pairs"]["contours"]["1,0"], (0.95, 0.8, 0.5), strict=True):
        inside = sum(Outline(ring).contains_points(posterior.samples) for ring in rings if len(ring) > 2) % 2
        assert inside.mean() == pytest.approx(share, abs=0.02)


def test_without_a_diagnosis_calibration_is_open(inferred):
    posterior, _ = inferred
    report = inference_report(posterior, [1.5, 0.7])
    check = report.checks["calibration"]
    assert report.state == check.state == State.OPEN
    assert check.finding in report.verdict
    assert "--check" in check.sentence
    assert ReportPage(report.html).numbers["groups"]["coverage"] == []


def test_an_observation_outside_the_simulations_is_bad(inferred):
    posterior = copy.copy(inferred[0])
    posterior.observed = np.array([[60.0, -9.0]])
    report = inference_report(posterior, [60.0, -9.0])
    check = report.checks["observation"]
    assert report.state == check.state == State.BAD
    assert check.numbers["share as far"] < 0.01
    assert check.finding in report.verdict


def test_one_parameter_needs_no_pairs_and_an_idle_observation_is_doubted():
    prior = lfi.Prior({"rate": stats.uniform(0, 1)})
    posterior = lfi.Posterior(prior, lambda n, rng: rng.uniform(0, 1, (n, 1)))
    report = inference_report(posterior, [0.5])
    read = ReportPage(report.html)
    assert read.numbers["pairs"] is None
    assert "pairs" not in read.sections
    assert report.state == report.checks["width"].state == State.DOUBT
    assert report.checks["width"].numbers["rate"] > 0.9


def test_names_put_an_observation_into_the_order_of_the_simulations(inferred):
    posterior, _ = inferred
    sims = posterior.simulations
    named = copy.copy(posterior)
    named.simulations = lfi.Simulations(sims.theta, sims.x, summary_names=["mean", "log sd"])
    pages = [inference_report(named, seen) for seen in ({"log sd": 0.7, "mean": 1.5}, [1.5, 0.7])]
    assert pages[0].verdict == pages[1].verdict
    first, second = (ReportPage(page.html) for page in pages)
    assert first.rows("observation") == second.rows("observation")
    assert [line[:2] for line in first.rows("observation")] == [["mean", "1.5"], ["log sd", "0.7"]]
    assert first.sections["trust"].text == second.sections["trust"].text


def test_groups_of_one_row_leave_nothing_to_undo():
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 6.0, 40)
    z = np.sin(x) + 0.1 * rng.standard_normal(40)
    for rows, groups in ((x, np.arange(40)), (np.repeat(x, 2), np.repeat(np.arange(40), 2))):
        data = {"x": rows, "groups": groups, "z_groups": z}
        model = AggregateGP(n_restarts=0, uncertainty="plain").fit(**data)
        report = fit_report(model, data, baselines={})
        check = report.checks["deconditioning"]
        assert check.state == State.OPEN
        assert check.numbers["resolution"] < 1.0
        assert check.finding in report.verdict


def test_groups_with_two_names_are_one_column_and_have_baselines():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"basin": np.repeat(list("abcdefgh"), 10), "year": np.tile(np.repeat([1, 2], 5), 8)})
    wind = rng.uniform(0.0, 6.0, 80)
    means = pd.Series(np.sin(wind)).groupby([rows["basin"], rows["year"]]).mean()
    data = {"x": wind, "groups": rows, "z_groups": means}
    gp = AggregateGP(n_restarts=0).fit(**data)
    seen = fitted_data(gp, data)
    assert [(line["name"], line["range"]) for line in seen.columns()][1:3] == [("basin, year", "16 labels")] * 2
    assert len(naive_baselines(seen, 0, 1000)[0]) == 4
