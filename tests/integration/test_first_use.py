"""What first users bring to the commands: exports of a spreadsheet, dates, names, files that are in the way."""

import json
import re
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from expected import refused, warned
from scipy import stats
from typer.testing import CliRunner

from decond import lfi
from decond.cli import app
from decond.cli.jobs import Job, Request
from decond.estimators import SparseGP, TaskTransformedFeatures
from decond.io import load, save
from decond.lfi.exceptions import ExtrapolationWarning
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
    assert [note.partition(" ")[0] for note in excel["notes"]] == ["days_excel.csv", "loads_excel.csv"]
    assert decond("predict", "model.decond", "days_excel.csv").stderr.startswith("days_excel.csv ")
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
    assert [note.partition(" ")[0] for note in windows["notes"]] == ["days_windows.csv", "loads_windows.csv"]
    assert "Windows-1252" in decond("predict", "m2", "days_windows.csv").stderr
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
    assert np.isfinite(pd.read_csv("predictions.csv")["sd"]).all()


# ---- dates ---------------------------------------------------------------------------------------------------


def notes_of(*options):
    """Return the notes of a fit of both tables."""
    return json.loads(decond("fit", "days.csv", "loads.csv", *FIT, *PLAIN, *options, "--json").stdout)["notes"]


def test_dates_are_labels_and_one_target_for_each_may_be_a_mean_with_a_note():
    days, loads = river()
    days.to_csv("days.csv", index=False)
    loads.to_csv("loads.csv", index=False)
    dates, means = notes_of()
    assert "'month'" in dates
    assert "--aggregate" in means
    assert notes_of("--labels") == notes_of("--aggregate") == []


def test_a_time_of_day_that_keeps_dates_apart_is_told():
    days, loads = river()
    loads.to_csv("loads.csv", index=False)
    days.assign(month=days["month"] + " 06:00").to_csv("days.csv", index=False)
    said = decond("fit", "days.csv", "loads.csv", *FIT, "--aggregate", code=2).stderr
    assert "'2023-01-01 06:00'" in said
    assert "first 10 letters" in said
    first = np.arange(len(days)) % 10 < 2
    days.assign(month=days["month"].where(first, days["month"] + " 06:00")).to_csv("days.csv", index=False)
    fitted = json.loads(decond("fit", "days.csv", "loads.csv", *FIT, *PLAIN, "--aggregate", "--json").stdout)
    assert "96 of 120 rows of days.csv" in fitted["warnings"][0]


def test_dates_that_are_written_in_two_ways_are_told():
    days, loads = river()
    loads.to_csv("loads.csv", index=False)
    days["month"] = pd.to_datetime(days["month"]).dt.strftime("%d.%m.%Y")
    days.to_csv("days.csv", index=False)
    said = decond("fit", "days.csv", "loads.csv", *FIT, "--aggregate", code=2).stderr
    assert "2024-01-31" in said  # as an example of one way to write dates
    loads.assign(month=loads["month"].str[:7]).to_csv("loads.csv", index=False)
    river()[0].to_csv("days.csv", index=False)
    said = decond("fit", "days.csv", "loads.csv", *FIT, "--aggregate", code=2).stderr
    assert "first 7 letters" in said


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
    assert "--report" in printed


@pytest.mark.parametrize(("targets", "most"), [("z_groups", 200_000), ("z_task", 100_000)])
def test_a_fit_of_many_rows_and_targets_is_not_checked_quickly(targets, most):
    rows = pd.DataFrame(index=range(most // 10))
    jobs = [Job(Request([], [], [], "z"), "", None, {targets: np.zeros(n)}, x=rows) for n in (10, 11)]
    assert [job.is_checked_quickly for job in jobs] == [True, False]


def test_a_large_fit_is_checked_when_that_is_asked_for():
    wind = np.random.default_rng(0).uniform(0.0, 9.0, 100_001).round(2)
    pd.DataFrame({"wind": wind, "power": wind**2}).to_csv("rows.csv", index=False)
    fit = ("fit", "rows.csv", "--x", "wind", "--z", "power", "--sparse", "--inducing", 2, "--max-iterations", 1)
    assert "--check" in decond(*fit).stdout  # instead of a verdict
    assert json.loads(decond(*fit, "--json", "--check").stdout)["verdict"]


def test_an_inference_ends_with_a_verdict_and_names_summaries(folder):
    (folder / "outbreaks.py").write_text(SIMULATOR)
    (folder / "prior.toml").write_text('[level]\ndistribution = "norm"\n')
    (folder / "seen.csv").write_text("first;second;peak day\n0,5;0,4;80,5\n")
    arguments = ("infer", "outbreaks:outbreak", "--prior", "prior.toml", "--observed", "seen.csv", "-n", "40")
    found = json.loads(decond(*arguments, "--rounds", "1", "--json").stdout)
    assert found["verdict"]
    assert found["notes"][0].startswith("seen.csv ")
    assert any("summary 3, peak day" in note for note in found["notes"])
    (folder / "seen.csv").write_text("first,peak day\n0.5,80.5\n")
    assert "first, peak day" in decond(*arguments, code=2).stderr


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
    with warned(ExtrapolationWarning, summary=1, name="peak day"):
        named = method.posterior(observed)
    with warned(ExtrapolationWarning, summary=1, name=None):
        plain = method.posterior([0.5, 80.5])
    np.testing.assert_array_equal(named.samples, plain.samples)


def test_a_named_observation_shares_its_rounds_in_a_store_with_the_plain_one(tmp_path):
    def simulator(theta, rng):
        return theta + rng.standard_normal(2)

    prior, store = lfi.Prior({"level": stats.norm()}), tmp_path / "runs.sqlite"
    options = {"n_simulations": 90, "rounds": 2, "store": store}
    found = [lfi.infer(simulator, prior, seen, **options) for seen in ([0.5, 0.4], {"first": 0.5, "peak": 0.4})]
    np.testing.assert_array_equal(found[0].samples, found[1].samples)
    with refused("observed"):
        lfi.infer(simulator, prior, {"first": 0.5}, **options)


# ---- predictions beyond the data -----------------------------------------------------------------------------


def sparse(x, rng):
    return SparseGP(n_inducing=5, optimize=False).fit(x, rng.standard_normal(len(x)))


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
    assert f"flow {low:.4g} to {high:.4g}" in decond("predict", "model.decond", "new.csv").stderr
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
    assert name in decond("demo", "-o", ".", code=2).stderr
    assert Path(name).read_text() == "mine"
    assert len(list(Path().iterdir())) == 1


def test_a_model_behind_the_table_is_told_to_come_first():
    rng = np.random.default_rng(0)
    save(sparse(rng.uniform(0.0, 1.0, (9, 1)), rng), "river.decond")
    pd.DataFrame({"x": [0.5]}).to_csv("new.csv", index=False)
    assert "decond predict river.decond new.csv" in decond("predict", "new.csv", "river.decond", code=2).stderr


def test_a_missing_model_names_the_nearest_one():
    rng = np.random.default_rng(0)
    save(sparse(rng.uniform(0.0, 1.0, (9, 1)), rng), "river.decond")
    pd.DataFrame({"x": [0.5]}).to_csv("new.csv", index=False)
    assert "river.decond?" in decond("predict", "rivers.decond", "new.csv", code=2).stderr
    pd.DataFrame({"x": [0.5], "z": [1.0]}).to_parquet("table.parquet")
    assert "table.parquet?" in decond("fit", "tabel.parquet", "--sparse", "--x", "x", "--z", "z", code=2).stderr


# ---- help ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["fit", "predict", "infer", "compare", "demo", "reproduce"])
def test_help_speaks_of_columns_files_and_numbers_not_of_types(command):
    said = decond(command, "--help").stdout
    assert not re.search(r"<(int|str|path|float|list)", said), said
    if command == "reproduce":
        assert "figure3" in said
