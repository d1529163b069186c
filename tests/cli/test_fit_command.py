"""`decond fit`: from tables to a model, a picture and a summary."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import decond, invoke, refusal
from expected import raised, refused, says_little
from report_pages import ReportPage, chart_of

from decond.cli.fit_command import CHECKED_SIZE, FitJob, FitRequest, _with_options, prepare
from decond.estimators.aggregate import LOOKS_LISTED, LOOKS_SAMPLED
from decond.estimators.task_transformed import LOOKS_MEAN, LOOKS_SINGLE
from decond.io import load
from decond.reports import fit_report
from decond.tables import TableError

PNG = b"\x89PNG"

pytestmark = pytest.mark.usefixtures("folder")


def write_pairs_and_task(n=40, m=50):
    rng = np.random.default_rng(0)
    y, y_task = rng.uniform(-3, 3, n), rng.uniform(-3, 3, m)
    x = np.sin(y) + 0.1 * rng.standard_normal(n)
    z = 10.0 * (np.sin(y_task) + 0.1 * rng.standard_normal(m)) ** 2
    pd.DataFrame({"wind": x, "other": x + y, "pressure": y}).to_csv("pairs.csv", index=False)
    pd.DataFrame({"pressure": y_task, "power": z}).to_csv("task.csv", index=False)


def write_days(n_days=12, readings=4):
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(n_days), readings)
    wind = rng.uniform(0, 10, len(day))
    pd.DataFrame({"day": day, "wind": wind}).to_csv("hours.csv", index=False)
    power = pd.Series(3.0 * wind).groupby(day).mean()
    pd.DataFrame({"day": np.arange(n_days), "power": power}).to_csv("days.csv", index=False)


def write_rows(n=60):
    at = np.random.default_rng(0).uniform(0, 6, n)
    pd.DataFrame({"x": at, "z": np.sin(at)}).to_csv("table.csv", index=False)


TWO_TABLES = ("fit", "pairs.csv", "task.csv", "--x", "wind", "--y", "pressure", "--z", "power", "--restarts", 0)
DAYS = ("fit", "hours.csv", "days.csv", "--x", "wind", "--y", "day", "--z", "power", "--aggregate", "--restarts", 0)
SPARSE = ("fit", "table.csv", "--x", "x", "--z", "z", "--sparse", "--inducing", 8, "--restarts", 0)


def of_pairs(**options):
    """Return what `TWO_TABLES` asks for, and more."""
    return FitRequest([Path("pairs.csv"), Path("task.csv")], ["wind"], "power", ["pressure"], **options)


def of_days(**options):
    """Return what `DAYS` asks for unless options say otherwise."""
    options = {"aggregate": True, "restarts": 0, **options}
    return FitRequest([Path("hours.csv"), Path("days.csv")], ["wind"], "power", **{"y": ["day"], **options})


def fitted(request):
    """Return the estimator of a request, fitted."""
    job = prepare(request)
    with says_little():
        return job.estimator.fit(**job.data)


def with_columns(name, **columns):
    """Add columns to a table."""
    pd.read_csv(name).assign(**columns).to_csv(name, index=False)


# ---- what works ----------------------------------------------------------------------------------------------


def test_two_tables_become_a_model_a_picture_and_predictions():
    write_pairs_and_task()
    result = invoke(*TWO_TABLES, "--output", "curve.decond")
    assert (result.exit_code, result.stderr) == (0, "")  # no bar where there is no terminal
    for name in ("wind", "power", "curve.decond", "curve.png"):
        assert name in result.stdout
    assert Path("curve.png").read_bytes().startswith(PNG)
    decond("predict", "curve.decond", "pairs.csv", "--output", "predictions.csv")
    given, found = (pd.read_csv(f"{name}.csv", dtype=str).astype(float) for name in ("pairs", "predictions"))
    assert list(found) == ["wind", "other", "pressure", "mean", "sd"]
    assert found[list(given)].equals(given)
    mean, std = load("curve.decond").predict(given[["wind"]], True)
    np.testing.assert_array_equal(found["mean"], mean)
    np.testing.assert_array_equal(found["sd"], std)
    inside = np.abs(found["mean"] - 10.0 * given["wind"] ** 2) < 3 * found["sd"]
    assert inside.mean() > 0.8


def test_several_columns_and_another_format():
    write_pairs_and_task()
    for name in ("pairs", "task"):
        pd.read_csv(f"{name}.csv").to_parquet(f"{name}.parquet")
    arguments = [str(a).replace(".csv", ".parquet") for a in TWO_TABLES]
    learned = json.loads(decond(*arguments, "--x", "other", "--uncertainty", "plain", "--json"))["hyperparameters"]
    assert {"lengthscale of wind", "lengthscale of other"} <= set(learned)
    assert list(load("model.decond").feature_names_in_) == ["wind", "other"]


def test_means_of_groups_in_a_summary_for_machines():
    write_days()
    summary = json.loads(decond(*DAYS, "--json"))
    assert summary["hyperparameters"]["lengthscale of wind"] > 0
    assert np.isfinite(summary["log_evidence"])
    assert summary["status"] in ("converged", "stopped")
    assert (summary["model"], summary["picture"]) == ("model.decond", "model.png")
    Path("new.csv").write_text("wind\n5\n")
    decond("predict", "model.decond", "new.csv", "--output", "out.tsv")
    assert pd.read_csv("out.tsv", sep="\t")["mean"][0] == pytest.approx(15.0, abs=1.0)


def test_files_of_a_spreadsheet_are_fitted_as_their_twins():
    write_days()
    for name in ("hours", "days"):
        frame = pd.read_csv(f"{name}.csv").rename(columns={"wind": "größe"})
        frame.to_csv(f"{name}.csv", index=False)
        frame.to_csv(f"{name}_excel.csv", index=False, sep=";", decimal=",", encoding="cp1252")
    options = ("--x", "größe", "--y", "day", "--z", "power", "--aggregate", "--restarts", 0, "--json")
    plain = json.loads(decond("fit", "hours.csv", "days.csv", *options))
    excel = ("--separator", ";", "--decimal", ",", "--encoding", "cp1252")
    other = json.loads(decond("fit", "hours_excel.csv", "days_excel.csv", *options, *excel, "-o", "m2"))
    assert (other["log_evidence"], other["verdict"]) == (plain["log_evidence"], plain["verdict"])
    decond("predict", "m2", "hours_excel.csv", *excel)
    assert pd.read_csv("predictions.csv")["größe"].tolist() == pd.read_csv("hours.csv")["größe"].tolist()


def test_facts_about_pairs_reach_the_estimator():
    write_pairs_and_task(20, 20)
    with_columns("task.csv", se=np.linspace(0.1, 0.3, 20))
    job = prepare(of_pairs(targets="single", drift=0.1, z_std="se"))
    assert (job.estimator.targets, job.estimator.drift) == ("single", 0.1)
    np.testing.assert_array_equal(job.data["z_std"], np.linspace(0.1, 0.3, 20))
    plain = prepare(of_pairs())
    assert (plain.estimator.targets, plain.estimator.drift) == ("mean", 0.0)
    assert {"z_std", "group_sizes"}.isdisjoint(plain.data)


@pytest.mark.parametrize(
    ("given", "sizes"),
    [("24", 24.0), ("inf", np.inf), ("hours", dict.fromkeys(map(str, range(12)), 24.0))],
    ids=["number", "infinity", "column"],
)
@pytest.mark.parametrize("aggregate", [False, True])
def test_sizes_of_groups_reach_the_estimator(given, sizes, aggregate):
    write_days()
    with_columns("days.csv", hours=24)
    request = of_days(labels=True, aggregate=aggregate, group_sizes=given)
    assert prepare(request).data["group_sizes"] == sizes
    assert hasattr(fitted(request), "posterior_")


def test_errors_of_groups_are_matched_by_label():
    write_days()
    days = pd.read_csv("days.csv").assign(se=np.arange(1.0, 13.0))
    days.iloc[::-1].to_csv("days.csv", index=False)
    errors = prepare(of_days(z_std="se")).data["z_std"]
    assert errors.to_dict() == {str(day): day + 1.0 for day in range(12)}


def test_a_fit_of_groups_tells_its_facts_and_its_candidates():
    write_days()
    with_columns("days.csv", hours=24, se=0.5)
    printed = json.loads(decond(*DAYS, "--group-sizes", "hours", "--z-std", "se", "--json"))
    assert any("24" in fact for fact in printed["facts"])
    assert printed["candidates"] == {"completed groups": 1.0}
    assert len(load("model.decond").average_.candidates[0].model.observation.x) > 48  # also rows that are not listed


def test_a_fit_of_pairs_tells_its_candidates():
    write_pairs_and_task(20, 20)
    printed = json.loads(decond(*TWO_TABLES, "--json"))
    assert sum(printed["candidates"].values()) == pytest.approx(1.0, abs=0.02)  # dropped ones are listed too
    assert len(printed["candidates"]) > 1


def test_single_measurements_are_sampled_and_saved():
    write_pairs_and_task(20, 20)
    with_columns("task.csv", se=0.1)
    options = ("--targets", "single", "--drift", "0.1", "--z-std", "se", "--report", "page.html")
    printed = json.loads(decond(*TWO_TABLES, *options, "--json"))
    assert (printed["status"], printed["log_evidence"]) == ("sampled", None)
    assert np.isfinite(printed["held_out_log_density"])
    assert printed["checks"]["search"]["state"] == "good"
    for name, (low, high) in printed["ranges"].items():
        assert low <= printed["hyperparameters"][name] <= high
    assert "lengthscale of wind" in printed["ranges"]
    model = load("model.decond")
    assert (model.targets, model.drift) == ("single", 0.1)
    decond("predict", "model.decond", "pairs.csv")
    assert np.isfinite(pd.read_csv("predictions.csv")["sd"]).all()


def test_labels_as_a_mediator_without_aggregation():
    write_days()
    decond(*[a for a in DAYS if a != "--aggregate"], "--labels")
    Path("new.csv").write_text("wind\n5\n")
    decond("predict", "model.decond", "new.csv")
    assert pd.read_csv("predictions.csv")["mean"][0] == pytest.approx(15.0, abs=3.0)


def test_a_large_table_becomes_a_sparse_model():
    write_rows(300)
    decond(*SPARSE)
    decond("predict", "model.decond", "table.csv")
    error = pd.read_csv("predictions.csv")["mean"] - pd.read_csv("table.csv")["z"]
    assert np.sqrt(np.mean(error**2)) < 0.1


def test_columns_may_have_any_name():
    x, z = "cost_$_a_$^", "[/b] gain_$_{"
    write_rows(30)
    pd.read_csv("table.csv").set_axis([x, z], axis=1).to_csv("table.csv", index=False)
    printed = decond("fit", "table.csv", "--x", x, "--z", z, *SPARSE[6:], "--report", "page.html")
    assert x in printed
    assert z in printed
    assert Path("model.png").read_bytes().startswith(PNG)


def test_whole_numbers_that_look_like_labels_are_noted():
    write_days()
    assert len(prepare(of_days(aggregate=False)).notes) == 1
    assert prepare(of_days(aggregate=False, labels=True)).notes == []
    write_pairs_and_task()
    assert prepare(of_pairs()).notes == []


def test_a_search_that_stops_early_says_so():
    write_rows()
    summary = json.loads(decond(*SPARSE, "--max-iterations", 1, "--json"))
    assert summary["status"] == "stopped"
    assert summary["message"] in " ".join(decond(*SPARSE, "--max-iterations", 1, "--force").split())


def test_rows_that_are_left_out_are_noted():
    write_days(n_days=24)
    days = pd.read_csv("days.csv")
    days[1:].to_csv("days.csv", index=False)
    job = prepare(of_days())
    assert len(job.x) == 92
    [note] = job.notes
    assert note.startswith("4 of 96 rows of hours.csv")
    assert note in decond(*DAYS)


def test_the_same_seed_gives_the_same_file():
    write_days(n_days=4)
    decond(*DAYS, "--seed", 3, "-o", "one")
    decond(*DAYS, "--seed", 3, "-o", "two")
    assert Path("one").read_bytes() == Path("two").read_bytes()


# ---- the report and its verdict ------------------------------------------------------------------------------


def test_the_verdict_of_the_report_is_printed_without_one():
    write_days(24)
    printed = decond(*DAYS)
    job = prepare(of_days())
    assert fit_report(load("model.decond"), job.data, baselines={}).verdict in printed
    assert "--report" in printed


def test_the_report_and_json_agree():
    write_days()
    found = json.loads(decond(*DAYS, "--report", "my report.html", "--json"))
    read = ReportPage(Path("my report.html").read_text(encoding="utf-8"))
    assert found["report"] == "my report.html"
    assert found["verdict"] in read.verdict.text
    assert shlex.split(read.command) == ["decond", *map(str, DAYS), "--report", "my report.html", "--json"]
    assert [line[0] for line in read.rows("data-shape")] == ["wind", "day", "day", "power"]
    assert [line[2] for line in read.rows("data-shape")] == ["48", "48", "12", "12"]
    curve = chart_of(read)["series"]["model"]
    expected = load("model.decond").predict(pd.DataFrame({"wind": curve["x"]}))
    np.testing.assert_allclose(curve["y"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("targets", ["z_groups", "z_task"])
def test_a_fit_of_many_rows_and_targets_is_not_checked_quickly(targets):
    rows = pd.DataFrame(index=range(CHECKED_SIZE // 10))
    jobs = [FitJob(None, {targets: np.zeros(n)}, x=rows) for n in (10, 11)]
    assert [job.is_checked_quickly for job in jobs] == [True, False]


def test_a_large_fit_is_checked_when_that_is_asked_for():
    wind = np.random.default_rng(0).uniform(0.0, 9.0, CHECKED_SIZE + 1).round(2)
    pd.DataFrame({"x": wind, "z": wind**2}).to_csv("table.csv", index=False)
    fit = (*SPARSE[:-3], 2, "--max-iterations", 1)
    assert "--check" in decond(*fit)  # instead of a verdict
    assert json.loads(decond(*fit, "--json", "--check", "--force"))["verdict"]


# ---- wrong tables --------------------------------------------------------------------------------------------


def spoil(column, row, value, file="task.csv"):
    def change():
        table = pd.read_csv(file, dtype=str)
        table.loc[row, column] = value
        table.to_csv(file, index=False)

    return change


WRONG_TABLES = {
    # what is changed, and what the error names
    "text in a number": (
        spoil("power", 4, "high"),
        {"table": "task.csv", "column": "power", "row": 5, "value": "high"},
    ),
    "text in the mediator": (
        spoil("pressure", 1, "low", "pairs.csv"),
        {"table": "pairs.csv", "column": "pressure", "row": 2, "value": "low"},
    ),
    "one row": (
        lambda: Path("task.csv").write_text("pressure,power\n1,2\n"),
        {"table": "task.csv", "count": 1},
    ),
}


@pytest.mark.parametrize(("change", "fault"), WRONG_TABLES.values(), ids=WRONG_TABLES.keys())
def test_wrong_tables_are_refused_before_fitting(change, fault):
    write_pairs_and_task(6, 6)
    change()
    with raised(TableError, **fault) as caught:
        prepare(of_pairs())
    assert refusal(*TWO_TABLES) == " ".join(f"Error: {caught.value}".split())
    assert not Path("model.decond").exists()


def test_swapped_tables_are_asked_about():
    write_pairs_and_task(6, 6)
    with raised(TableError, table="task.csv", column="wind") as caught:
        prepare(FitRequest([Path("task.csv"), Path("pairs.csv")], ["wind"], "power", ["pressure"]))
    assert "pairs.csv" in str(caught.value)


def test_a_group_has_one_size():
    write_days()
    days = pd.read_csv("days.csv").assign(hours=24)
    pd.concat([days, days.assign(hours=23)]).to_csv("days.csv", index=False)
    with refused("--group-sizes"):
        prepare(of_days(labels=True, aggregate=False, group_sizes="hours"))


@pytest.mark.parametrize(
    ("sentence", "option"),
    [
        (LOOKS_SINGLE, "--targets single"),
        (LOOKS_MEAN, "--targets mean"),
        (LOOKS_SAMPLED, "--group-sizes"),
        (LOOKS_LISTED, "--group-sizes"),
    ],
)
def test_hints_name_options_of_the_command(sentence, option):
    said = _with_options(sentence)
    assert option in said
    assert "group_sizes" not in said
    assert "targets=" not in said


def test_groups_may_have_several_names():
    write_days()
    for name in ("hours.csv", "days.csv"):
        table = pd.read_csv(name)
        table.assign(week=table["day"] // 7, day=table["day"] % 7).to_csv(name, index=False)
    together = fitted(of_days(y=["week", "day"]))
    write_days()
    np.testing.assert_allclose(together.predict([[5.0]]), fitted(of_days()).predict([[5.0]]), rtol=1e-6)
    assert len(together.average_.best.observation.labels) == 12


def test_rows_with_missing_values_are_left_out_on_request():
    write_days()
    whole = prepare(of_days())
    hours = pd.read_csv("hours.csv")
    lost = pd.DataFrame({"day": [3, 4], "wind": [np.nan, np.nan]})
    pd.concat([hours, lost]).assign(unused=np.nan).to_csv("hours.csv", index=False)
    with raised(TableError, table="hours.csv", column="wind", count=2):
        prepare(of_days())
    kept = prepare(of_days(drop_missing=True))
    pd.testing.assert_frame_equal(kept.data["x"], whole.data["x"])
    assert [note[:7] for note in kept.notes] == ["2 of 50"]


def test_a_covariate_may_be_in_both_tables():
    write_pairs_and_task()
    with_columns("pairs.csv", age=lambda table: np.linspace(20, 60, len(table)))
    with_columns("task.csv", age=lambda table: np.linspace(20, 60, len(table)))
    job = prepare(replace(of_pairs(), x=["wind", "age"], y=["pressure", "age"]))
    assert [list(job.data[name]) for name in ("x", "y", "y_task")] == [["wind", "age"], *[["pressure", "age"]] * 2]
