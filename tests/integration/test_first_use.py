"""What first users bring to the commands: exports of a spreadsheet, dates, names, files that are in the way."""

import json
import re
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

from decond import lfi
from decond.cli import app
from decond.estimators import SparseGP, TaskTransformedFeatures
from decond.io import load, save
from decond.reports import fit_report

FIT = ("--x", "flow", "--y", "month", "--z", "load", "--restarts", "0")
PLAIN = ("--uncertainty", "plain")

SIMULATOR = """
def outbreak(theta, rng):
    return [rng.normal(theta[0]), rng.normal(theta[0]), rng.normal(theta[0], 0.1)]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Make an empty folder where commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def decond(*arguments, code=0):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    return result


def river(months=12):
    """Return daily flows, and the load of each month: the mean of the square root of flow."""
    rng = np.random.default_rng(0)
    month = np.repeat([f"2023-{i + 1:02d}-01" for i in range(months)], 10)
    flow = rng.gamma(2.0, 5.0, len(month)).round(2)
    days = pd.DataFrame({"month": month, "flow": flow})
    loads = np.sqrt(days["flow"]).groupby(days["month"]).mean().rename("load").reset_index()
    return days, loads


# ---- spreadsheets --------------------------------------------------------------------------------------------


def test_an_export_with_semicolons_is_fitted_as_its_twin_with_commas():
    days, loads = river()
    for frame, name in ((days, "days"), (loads, "loads")):
        frame.to_csv(f"{name}.csv", index=False)
        frame.to_csv(f"{name}_excel.csv", index=False, sep=";", decimal=",")
    options = (*FIT, *PLAIN, "--aggregate", "--json")
    plain = json.loads(decond("fit", "days.csv", "loads.csv", *options).stdout)
    excel = json.loads(decond("fit", "days_excel.csv", "loads_excel.csv", *options, "-o", "m2").stdout)
    assert (excel["log_evidence"], excel["verdict"]) == (plain["log_evidence"], plain["verdict"])
    assert plain["notes"] == []
    assert excel["notes"] == [
        f"{name}_excel.csv was read as separated by semicolons, with decimal commas." for name in ("days", "loads")
    ]
    found = decond("predict", "model.decond", "days_excel.csv")
    assert found.stderr == "days_excel.csv was read as separated by semicolons, with decimal commas.\n"
    assert pd.read_csv("predictions.csv")["flow"].tolist() == days["flow"].tolist()


def test_letters_of_windows_give_the_same_fit_and_predictions_in_utf_8():
    days, loads = river()
    sites = {date: f"Höxter {i}" for i, date in enumerate(loads["month"])}
    days = pd.DataFrame({"Fluß": days["month"].map(sites), "Abfluß (m³/s)": days["flow"]})
    loads = pd.DataFrame({"Fluß": loads["month"].map(sites), "load": loads["load"]})
    for frame, name in ((days, "days"), (loads, "loads")):
        frame.to_csv(f"{name}.csv", index=False)
        frame.to_csv(f"{name}_windows.csv", index=False, encoding="cp1252")
    options = ("--x", "Abfluß (m³/s)", "--y", "Fluß", "--z", "load", *PLAIN, "--aggregate", "--restarts", 0, "--json")
    plain = json.loads(decond("fit", "days.csv", "loads.csv", *options).stdout)
    windows = json.loads(decond("fit", "days_windows.csv", "loads_windows.csv", *options, "-o", "m2").stdout)
    assert (windows["log_evidence"], windows["verdict"]) == (plain["log_evidence"], plain["verdict"])
    assert plain["notes"] == []
    assert [note.partition(". ")[0] for note in windows["notes"]] == [
        f"{name}_windows.csv is not UTF-8 and was read as Windows-1252" for name in ("days", "loads")
    ]
    said = decond("predict", "m2", "days_windows.csv").stderr
    assert "was read as Windows-1252. If its letters look wrong, save it again as UTF-8" in said
    assert pd.read_csv("predictions.csv", encoding="utf-8")["Fluß"].tolist() == days["Fluß"].tolist()


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize(("ending", "options"), [("csv", ()), ("parquet", ()), ("parquet", ("--sparse",))])
def test_accents_match_however_they_are_written(ending, options, form):
    """Columns of a table, options, and the names that a model keeps: ü may be one sign or two in each."""
    other = "NFD" if form == "NFC" else "NFC"
    here, there = (unicodedata.normalize(each, "Abflüsse") for each in (form, other))
    days, loads = river()
    days = days.assign(load=np.sqrt(days["flow"])).rename(columns={"flow": here})
    for frame, name in ((days, f"days.{ending}"), (loads, f"loads.{ending}")):
        getattr(frame, f"to_{ending}")(name, index=False)
    tables = (f"days.{ending}", "--inducing", 4) if options else (f"days.{ending}", f"loads.{ending}", "--y", "month")
    decond("fit", *tables, "--x", there, "--z", "load", "--restarts", 0, *(options or ("--aggregate", *PLAIN)))
    days.rename(columns={here: there}).drop(columns="load").to_csv("new.csv", index=False)
    decond("predict", "model.decond", "new.csv")
    assert "replaced predictions.csv of " in decond("predict", "model.decond", "new.csv").stdout
    assert np.isfinite(pd.read_csv("predictions.csv")["sd"]).all()


# ---- dates ---------------------------------------------------------------------------------------------------


def test_dates_as_a_mediator_are_said_to_be_labels():
    days, loads = river()
    days.to_csv("days.csv", index=False)
    loads.to_csv("loads.csv", index=False)
    note, fit = "'month' holds dates, and these are labels", ("fit", "days.csv", "loads.csv", *FIT, *PLAIN)
    assert note in decond(*fit).stdout
    assert note not in decond(*fit, "--labels").stdout


def test_a_time_of_day_that_keeps_dates_apart_is_told():
    days, loads = river()
    loads.to_csv("loads.csv", index=False)
    days.assign(month=days["month"] + " 06:00").to_csv("days.csv", index=False)
    said = decond("fit", "days.csv", "loads.csv", *FIT, "--aggregate", code=2).stderr
    assert "no value of 'month' in common" in said
    assert said.endswith("says more than in loads.csv ('2023-01-01 06:00'): keep its first 10 letters there.\n")
    first = np.arange(len(days)) % 10 < 2
    days.assign(month=days["month"].where(first, days["month"] + " 06:00")).to_csv("days.csv", index=False)
    said = decond("fit", "days.csv", "loads.csv", *FIT, *PLAIN, "--aggregate").stdout
    assert "Warning: 96 of 120 rows of days.csv are left out" in said
    assert "In days.csv 'month' says more than in loads.csv" in said


def test_dates_that_are_written_in_two_ways_are_told():
    days, loads = river()
    loads.to_csv("loads.csv", index=False)
    days["month"] = pd.to_datetime(days["month"]).dt.strftime("%d.%m.%Y")
    days.to_csv("days.csv", index=False)
    said = decond("fit", "days.csv", "loads.csv", *FIT, "--aggregate", code=2).stderr
    assert "Dates are written in two ways: choose one, such as 2024-01-31" in said
    loads.assign(month=loads["month"].str[:7]).to_csv("loads.csv", index=False)
    river()[0].to_csv("days.csv", index=False)
    said = decond("fit", "days.csv", "loads.csv", *FIT, "--aggregate", code=2).stderr
    assert "('2023-01-01'): keep its first 7 letters there." in said


def test_forgetting_that_targets_are_means_of_a_date_is_noticed():
    days, loads = river()
    days.to_csv("days.csv", index=False)
    loads.to_csv("loads.csv", index=False)
    hint = "'month' has one target for each date, and about 10 rows: if the target is the mean over these rows, add"
    fit = ("fit", "days.csv", "loads.csv", *FIT, *PLAIN)
    assert hint in " ".join(decond(*fit).stdout.split())
    assert hint not in " ".join(decond(*fit, "--aggregate").stdout.split())


def test_predict_leaves_text_as_it_is():
    """Only columns in which every cell is a number lose their decimal commas."""
    x = np.linspace(0.0, 1.0, 20)
    pd.DataFrame({"wind": x, "power": x**2}).to_csv("rows.csv", index=False)
    decond("fit", "rows.csv", "--x", "wind", "--z", "power", "--sparse", "--inducing", "5", "--max-iterations", "3")
    Path("new.csv").write_text("wind;site;note\n0,5;3,5;a\n0,25;low;b\n")
    decond("predict", "model.decond", "new.csv")
    found = pd.read_csv("predictions.csv", dtype=str)
    assert found["site"].tolist() == ["3,5", "low"]
    assert found["wind"].tolist() == ["0.5", "0.25"]


# ---- the verdict ---------------------------------------------------------------------------------------------


def test_the_verdict_of_the_report_is_printed_without_one():
    days, loads = river(24)
    days.to_csv("days.csv", index=False)
    loads.to_csv("loads.csv", index=False)
    printed = " ".join(decond("fit", "days.csv", "loads.csv", *FIT, "--aggregate").stdout.split())
    data = {"x": days[["flow"]], "groups": days["month"], "z_groups": loads.set_index("month")["load"]}
    assert fit_report(load("model.decond"), data, baselines={}).verdict in printed
    assert re.search(r"Within one group the function varies by [\d.]+ of its error bars", printed)
    assert "With --report page.html all of this is one page" in printed


def test_a_large_fit_is_judged_when_that_is_asked_for(monkeypatch):
    days, loads = river()
    days.to_csv("days.csv", index=False)
    loads.to_csv("loads.csv", index=False)
    fit = ("fit", "days.csv", "loads.csv", *FIT, *PLAIN, "--aggregate")
    monkeypatch.setattr("decond.cli.jobs.QUICK_GROUPS", 120 * 12)
    assert "Verdict: " in decond(*fit).stdout
    monkeypatch.setattr("decond.cli.jobs.QUICK_GROUPS", 120 * 12 - 1)
    said = " ".join(decond(*fit).stdout.split())
    assert "Verdict: " not in said
    assert "It was not judged, since that takes a while with so many rows. Add --check, or --report" in said
    assert json.loads(decond(*fit, "--json").stdout)["verdict"] is None
    assert "Verdict: " in decond(*fit, "--check").stdout


def test_an_inference_ends_with_a_verdict_and_names_summaries(folder):
    (folder / "outbreaks.py").write_text(SIMULATOR)
    (folder / "prior.toml").write_text('[level]\ndistribution = "norm"\n')
    (folder / "seen.csv").write_text("first;second;peak day\n0,5;0,4;80,5\n")
    arguments = ("infer", "outbreaks:outbreak", "--prior", "prior.toml", "--observed", "seen.csv", "-n", "40")
    result = decond(*arguments, "--rounds", "1")
    assert "Use with care: " in result.stdout
    assert "(summary 3, peak day, lies beyond all simulations)" in result.stderr
    assert "\nseen.csv was read as separated by semicolons, with decimal commas.\n" in f"\n{result.stderr}"
    found = json.loads(decond(*arguments, "--rounds", "1", "--json").stdout)
    assert found["verdict"].startswith("Use with care: ")
    (folder / "seen.csv").write_text("first,peak day\n0.5,80.5\n")
    assert "observed has 2 value(s) (first, peak day) but each" in decond(*arguments, code=2).stderr


NAMED = {
    "dict": {"first": 0.5, "peak day": 80.5},
    "series": pd.Series({"first": 0.5, "peak day": 80.5}),
    "frame": pd.DataFrame({"first": [0.5], "peak day": [80.5]}),
}


@pytest.mark.parametrize("observed", NAMED.values(), ids=NAMED)
def test_names_of_an_observation_reach_messages_and_change_nothing(observed):
    prior = lfi.Prior({"level": stats.norm()})
    theta = prior.sample(60, seed=0)
    sims = lfi.Simulations(theta, theta + np.random.default_rng(0).standard_normal((60, 2)))
    method = lfi.RejectionABC(quantile=0.5).fit(sims, prior)
    with pytest.warns(lfi.PosteriorWarning, match=r"\(summary 2, peak day, lies beyond all simulations\)"):
        named = method.posterior(observed)
    with pytest.warns(lfi.PosteriorWarning, match=r"\(summary 2 lies beyond all simulations\)"):
        plain = method.posterior([0.5, 80.5])
    np.testing.assert_array_equal(named.samples, plain.samples)


def test_a_named_observation_shares_its_rounds_in_a_store_with_the_plain_one(tmp_path):
    def simulator(theta, rng):
        return theta + rng.standard_normal(2)

    prior, store = lfi.Prior({"level": stats.norm()}), tmp_path / "runs.sqlite"
    options = {"n_simulations": 90, "rounds": 2, "store": store}
    found = [lfi.infer(simulator, prior, seen, **options) for seen in ([0.5, 0.4], {"first": 0.5, "peak": 0.4})]
    np.testing.assert_array_equal(found[0].samples, found[1].samples)
    with pytest.raises(ValueError, match=r"observed has 1 value\(s\) \(first\) but each simulation has 2"):
        lfi.infer(simulator, prior, {"first": 0.5}, **options)


# ---- predictions beyond the data -----------------------------------------------------------------------------


def sparse(x, rng):
    return SparseGP(n_inducing=5, max_iterations=2).fit(x, rng.standard_normal(len(x)))


def features(x, rng):
    z = rng.standard_normal(len(x))
    return TaskTransformedFeatures(n_features=5, optimize=False, lengthscales="given").fit(x, z, z, z)


@pytest.mark.parametrize("fitted", [sparse, features])
def test_models_that_keep_sums_know_the_range_of_their_rows(fitted):
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"flow": rng.uniform(2.0, 30.0, 40), "depth": rng.uniform(0.0, 1.0, 40)})
    save(fitted(x, rng), "model.decond")
    pd.DataFrame({"flow": [12.0, 31.0], "depth": [0.5, 0.5]}).to_csv("new.csv", index=False)
    low, high = x["flow"].min(), x["flow"].max()
    expected = f"1 of 2 rows lies outside the range of the data (flow {low:.4g} to {high:.4g})"
    assert expected in decond("predict", "model.decond", "new.csv").stderr
    x.to_csv("new.csv", index=False)
    assert decond("predict", "model.decond", "new.csv").stderr == ""


def test_rows_that_come_later_widen_the_range():
    rng = np.random.default_rng(0)
    gp = sparse(rng.uniform(0.0, 1.0, (30, 1)), rng)
    other = gp.unread().partial_fit([[7.0], [8.0]], [0.0, 0.0])
    assert other._range_seen().tolist() == [[7.0], [8.0]]
    gp.partial_fit([[3.0], [-2.0]], [0.0, 0.0])
    assert gp._range_seen().tolist() == [[-2.0], [3.0]]
    assert gp.merge(other)._range_seen().tolist() == [[-2.0], [8.0]]
    save(gp, "model.decond")
    assert load("model.decond")._range_seen().tolist() == [[-2.0], [8.0]]


def test_pairs_that_come_later_widen_the_range():
    rng = np.random.default_rng(0)
    z = rng.standard_normal(30)
    model = TaskTransformedFeatures(n_features=5).fit(rng.uniform(0.0, 1.0, 30), z, z, z)
    model.partial_fit([4.0], [0.0])
    model.partial_fit(None, None, [9.0], [0.0])  # the mediator has no part in it
    assert model._range_seen()[1].tolist() == [4.0]
    maps = {"kernel_x": model.features_x_, "kernel_y": model.features_y_}
    later = TaskTransformedFeatures(**maps).partial_fit([-3.0], [0.0])
    only_task = TaskTransformedFeatures(**maps).partial_fit(None, None, [50.0], [0.0])
    assert model.merge(only_task).merge(later)._range_seen().tolist() == [[-3.0], [4.0]]
    assert only_task.merge(later)._range_seen().tolist() == [[-3.0], [-3.0]]


# ---- files in the way, and files that are not there ----------------------------------------------------------


@pytest.mark.parametrize("name", ["hours.csv", "report.html", "numbers.json"])
def test_the_demo_keeps_the_files_of_others(name):
    Path(name).write_text("mine")
    said = decond("demo", "-o", ".", code=2).stderr
    assert f"{name} is there already, and it is not from the demo: it would be lost. Move or delete it" in said
    assert Path(name).read_text() == "mine"
    assert len(list(Path().iterdir())) == 1


def test_a_model_behind_the_table_is_told_to_come_first():
    rng = np.random.default_rng(0)
    save(sparse(rng.uniform(0.0, 1.0, (9, 1)), rng), "river.decond")
    pd.DataFrame({"x": [0.5]}).to_csv("new.csv", index=False)
    said = decond("predict", "new.csv", "river.decond", code=2).stderr
    assert said == "Error: river.decond is a model, and the model comes first: decond predict river.decond new.csv\n"


def test_a_missing_model_names_the_nearest_one():
    rng = np.random.default_rng(0)
    save(sparse(rng.uniform(0.0, 1.0, (9, 1)), rng), "river.decond")
    pd.DataFrame({"x": [0.5]}).to_csv("new.csv", index=False)
    said = decond("predict", "rivers.decond", "new.csv", code=2).stderr
    assert said == "Error: there is no file rivers.decond; did you mean river.decond?\n"
    pd.DataFrame({"x": [0.5], "z": [1.0]}).to_parquet("table.parquet")
    said = decond("fit", "tabel.parquet", "--sparse", "--x", "x", "--z", "z", code=2).stderr
    assert said == "Error: there is no file tabel.parquet; did you mean table.parquet?\n"


# ---- help ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["fit", "predict", "infer", "compare", "demo", "reproduce"])
def test_help_speaks_of_columns_files_and_numbers_not_of_types(command):
    said = decond(command, "--help").stdout
    assert not re.search(r"<(int|str|path|float|list)", said), said
    if command == "reproduce":
        assert "all|figure3" in said
