"""The command line from tables to predictions, and how it ends when something is wrong."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import decond, invoke, refusal
from expected import raised, refused
from report_pages import ReportPage

from decond.cli import demo
from decond.cli.jobs import Facts, Request, prepare
from decond.estimators import TaskTransformedRidge
from decond.io import load, save
from decond.tables import TableError

PNG = b"\x89PNG"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return an empty folder in which commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def write_pairs_and_task(folder, n=40, m=50):
    rng = np.random.default_rng(0)
    y, y_task = rng.uniform(-3, 3, n), rng.uniform(-3, 3, m)
    x = np.sin(y) + 0.1 * rng.standard_normal(n)
    z = 10.0 * (np.sin(y_task) + 0.1 * rng.standard_normal(m)) ** 2
    pd.DataFrame({"wind": x, "other": x + y, "pressure": y}).to_csv(folder / "pairs.csv", index=False)
    pd.DataFrame({"pressure": y_task, "power": z}).to_csv(folder / "task.csv", index=False)


def write_days(folder, n_days=12, readings=4):
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(n_days), readings)
    wind = rng.uniform(0, 10, len(day))
    pd.DataFrame({"day": day, "wind": wind}).to_csv(folder / "hours.csv", index=False)
    power = pd.Series(3.0 * wind).groupby(day).mean()
    pd.DataFrame({"day": np.arange(n_days), "power": power}).to_csv(folder / "days.csv", index=False)


TWO_TABLES = ("fit", "pairs.csv", "task.csv", "--x", "wind", "--y", "pressure", "--z", "power", "--restarts", 0)
DAYS = ("fit", "hours.csv", "days.csv", "--x", "wind", "--y", "day", "--z", "power", "--aggregate", "--restarts", 0)


def of_pairs(**options):
    """Return what `TWO_TABLES` asks for, and more."""
    return Request([Path("pairs.csv"), Path("task.csv")], ["wind"], ["pressure"], "power", **options)


def of_days(**options):
    """Return what `DAYS` asks for unless options say otherwise."""
    return Request(
        [Path("hours.csv"), Path("days.csv")], ["wind"], ["day"], "power", **{"aggregate": True, **options}
    )


# ---- what works ----------------------------------------------------------------------------------------------


def test_two_tables_become_a_model_a_picture_and_predictions(folder):
    write_pairs_and_task(folder)
    result = invoke(*TWO_TABLES, "--output", "curve.decond")
    assert (result.exit_code, result.stderr) == (0, "")  # no bar where there is no terminal
    for name in ("wind", "power", "curve.decond", "curve.png"):
        assert name in result.stdout
    assert (folder / "curve.png").read_bytes().startswith(PNG)
    decond("predict", "curve.decond", "pairs.csv", "--output", "predictions.csv")
    given, found = (pd.read_csv(f"{name}.csv", dtype=str).astype(float) for name in ("pairs", "predictions"))
    assert list(found) == ["wind", "other", "pressure", "mean", "sd"]
    assert found[list(given)].equals(given)
    mean, std = load("curve.decond").predict(given[["wind"]], True)
    np.testing.assert_array_equal(found["mean"], mean)
    np.testing.assert_array_equal(found["sd"], std)
    inside = np.abs(found["mean"] - 10.0 * given["wind"] ** 2) < 3 * found["sd"]
    assert inside.mean() > 0.8


def test_several_columns_and_another_format(folder):
    write_pairs_and_task(folder)
    for name in ("pairs", "task"):
        pd.read_csv(f"{name}.csv").to_parquet(f"{name}.parquet")
    arguments = [str(a).replace(".csv", ".parquet") for a in TWO_TABLES]
    learned = json.loads(decond(*arguments, "--x", "other", "--uncertainty", "plain", "--json"))["hyperparameters"]
    assert {"lengthscale of wind", "lengthscale of other"} <= set(learned)
    decond("predict", "model.decond", "pairs.csv", "-o", "out.parquet")
    found = pd.read_parquet("out.parquet")
    assert found.dtypes.astype(str).tolist() == ["float64"] * 5
    assert list(load("model.decond").feature_names_in_) == ["wind", "other"]


def test_means_of_groups_in_a_summary_for_machines(folder):
    write_days(folder)
    summary = json.loads(decond(*DAYS, "--json"))
    assert summary["hyperparameters"]["lengthscale of wind"] > 0
    assert np.isfinite(summary["log_evidence"])
    assert summary["status"] in ("converged", "stopped")
    assert (summary["model"], summary["picture"]) == ("model.decond", "model.png")
    (folder / "new.csv").write_text("wind\n5\n")
    decond("predict", "model.decond", "new.csv", "--output", "out.tsv")
    assert pd.read_csv("out.tsv", sep="\t")["mean"][0] == pytest.approx(15.0, abs=1.0)


def with_columns(name, **columns):
    """Add columns to a table."""
    pd.read_csv(name).assign(**columns).to_csv(name, index=False)


def test_facts_about_pairs_reach_the_estimator(folder):
    write_pairs_and_task(folder, 20, 20)
    with_columns("task.csv", se=np.linspace(0.1, 0.3, 20))
    job = prepare(of_pairs(facts=Facts(targets="single", drift=0.1, z_std="se")))
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
def test_sizes_of_groups_reach_the_estimator(folder, given, sizes, aggregate):
    write_days(folder)
    with_columns("days.csv", hours=24)
    job = prepare(of_days(labels=True, aggregate=aggregate, facts=Facts(group_sizes=given)))
    assert job.data["group_sizes"] == sizes


def test_errors_of_groups_are_matched_by_label(folder):
    write_days(folder)
    days = pd.read_csv("days.csv").assign(se=np.arange(1.0, 13.0))
    days.iloc[::-1].to_csv("days.csv", index=False)
    errors = prepare(of_days(facts=Facts(z_std="se"))).data["z_std"]
    assert errors.to_dict() == {str(day): day + 1.0 for day in range(12)}


def test_a_fit_of_groups_tells_its_facts_and_its_candidates(folder):
    write_days(folder)
    with_columns("days.csv", hours=24, se=0.5)
    printed = json.loads(decond(*DAYS, "--group-sizes", "hours", "--z-std", "se", "--json"))
    assert any("24" in fact for fact in printed["facts"])
    assert sum(printed["candidates"].values()) == pytest.approx(1.0, abs=0.02)  # dropped ones are listed too
    assert len(printed["candidates"]) > 1
    said = decond(*DAYS, "--group-sizes", "24")
    assert all(name in said for name in printed["candidates"])
    assert load("model.decond").average_.candidates[0].model.observation.x.shape == (48, 1)


def test_single_measurements_are_sampled_and_saved(folder):
    write_pairs_and_task(folder, 20, 20)
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


def test_wrong_facts_are_hinted_at(folder):
    rng = np.random.default_rng(1)
    y, y_task = rng.uniform(0, 10, 40), rng.uniform(0, 10, 60)
    x, x_task = y + rng.standard_normal(40), y_task + rng.standard_normal(60)
    pd.DataFrame({"wind": x, "pressure": y}).to_csv("pairs.csv", index=False)
    power = 100.0 / (1.0 + np.exp(-2.0 * (x_task - 5.0))) + rng.standard_normal(60)
    pd.DataFrame({"pressure": y_task, "power": power}).to_csv("task.csv", index=False)
    facts = json.loads(decond(*TWO_TABLES, "--report", "page.html", "--json"))["checks"]["facts"]
    assert facts["state"] == "doubt"
    assert facts["advantage"] > 0.0
    assert "--targets single" in facts["sentence"]
    assert 'targets="single"' in ReportPage((folder / "page.html").read_text()).sections["trust"].text


def test_nothing_about_error_bars_is_good_below_a_resolution_of_one(folder):
    write_days(folder, n_days=30)
    noise = np.random.default_rng(1).standard_normal(30)
    with_columns("days.csv", power=noise)
    printed = json.loads(decond(*DAYS, "--json"))
    assert printed["checks"]["deconditioning"]["resolution"] < 1.0
    assert printed["checks"]["deconditioning"]["state"] == "doubt"
    assert printed["checks"]["error bars"]["state"] != "good"


def test_labels_as_a_mediator_without_aggregation(folder):
    write_days(folder)
    arguments = [a for a in DAYS if a != "--aggregate"]
    decond(*arguments, "--labels")
    (folder / "new.csv").write_text("wind\n5\n")
    decond("predict", "model.decond", "new.csv")
    assert pd.read_csv("predictions.csv")["mean"][0] == pytest.approx(15.0, abs=3.0)


def test_a_large_table(folder):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 6, 300)
    table = pd.DataFrame({"x": x, "z": np.sin(x) + 0.1 * rng.standard_normal(300)})
    table.to_csv("table.csv", index=False)
    decond("fit", "table.csv", "--x", "x", "--z", "z", "--sparse", "--inducing", 8, "--restarts", 0)
    decond("predict", "model.decond", "table.csv")
    error = pd.read_csv("predictions.csv")["mean"] - np.sin(x)
    assert np.sqrt(np.mean(error**2)) < 0.1


def test_columns_may_have_any_name(folder):
    x, z = "cost_$_a_$^", "[/b] gain_$_{"
    at = np.random.default_rng(0).uniform(0, 6, 30)
    pd.DataFrame({x: at, z: np.sin(at)}).to_csv("table.csv", index=False)
    fit = ("fit", "table.csv", "--x", x, "--z", z, "--sparse", "--inducing", 5, "--max-iterations", 2)
    printed = decond(*fit, "--report", "page.html")
    assert x in printed
    assert z in printed
    assert (folder / "model.png").read_bytes().startswith(PNG)


def test_few_targets_are_warned_of(folder):
    write_days(folder, n_days=3)
    [warning] = prepare(of_days()).warnings
    result = json.loads(decond(*DAYS, "--json"))
    assert warning in result["warnings"]
    write_days(folder, n_days=10)
    assert prepare(of_days()).warnings == []


def test_warnings_are_printed(folder):
    write_days(folder, n_days=3)
    printed = " ".join(decond(*DAYS).split())
    assert f"Warning: {prepare(of_days()).warnings[0]}" in printed
    assert "--report" in printed


def test_whole_numbers_that_look_like_labels_are_warned_of(folder):
    write_days(folder)
    assert len(prepare(of_days(aggregate=False)).warnings) == 1
    assert prepare(of_days(aggregate=False, labels=True)).warnings == []
    write_pairs_and_task(folder)
    assert prepare(of_pairs()).warnings == []


def test_a_search_that_stops_early_names_the_option_that_prolongs_it(folder):
    at = np.random.default_rng(0).uniform(0, 6, 60)
    pd.DataFrame({"x": at, "z": np.sin(at)}).to_csv("table.csv", index=False)
    arguments = ("fit", "table.csv", "--x", "x", "--z", "z", "--sparse", "--inducing", 8)
    summary = json.loads(decond(*arguments, "--max-iterations", 1, "--json"))
    assert summary["status"] == "stopped"
    assert all(option in summary["message"] for option in ("--restarts", "--max-iterations"))


def test_rows_that_are_left_out_are_noted_and_many_are_warned_of(folder):
    write_days(folder, n_days=24)
    days = pd.read_csv("days.csv")
    days[1:].to_csv("days.csv", index=False)
    few = prepare(of_days())
    assert (len(few.x), len(few.notes), few.warnings) == (92, 1, [])
    assert few.notes[0].startswith("4 of 96 rows of hours.csv")
    days[6:].to_csv("days.csv", index=False)
    many = prepare(of_days())
    assert (len(many.x), many.notes, len(many.warnings)) == (72, [], 1)


def test_notes_are_printed(folder):
    write_days(folder)
    table = pd.read_csv("days.csv")
    table[1:].to_csv("days.csv", index=False)
    assert prepare(of_days()).notes[0] in " ".join(decond(*DAYS).split())


def test_the_same_seed_gives_the_same_file(folder):
    write_days(folder, n_days=4)
    decond(*DAYS, "--seed", 3, "-o", "one")
    decond(*DAYS, "--seed", 3, "-o", "two")
    assert (folder / "one").read_bytes() == (folder / "two").read_bytes()


# ---- wrong input ---------------------------------------------------------------------------------------------


def spoil(column, row, value, file="task.csv"):
    def change():
        table = pd.read_csv(file, dtype=str)
        table.loc[row, column] = value
        table.to_csv(file, index=False)

    return change


def cut(file, rows):
    def change():
        pd.read_csv(file)[:rows].to_csv(file, index=False)

    return change


def rewrite(file, text):
    def change():
        with open(file, "w") as stream:
            stream.write(text)

    return change


WRONG_TABLES = {
    # what is changed, and what the error names
    "text in a number": (
        spoil("power", 4, "high"),
        {"table": "task.csv", "column": "power", "line": 6, "value": "high"},
    ),
    "empty cell": (spoil("power", 4, ""), {"table": "task.csv", "column": "power", "line": 6, "count": 1}),
    "NaN": (
        spoil("pressure", 2, "nan", "pairs.csv"),
        {"table": "pairs.csv", "column": "pressure", "line": 4, "count": 1},
    ),
    "text in the mediator": (
        spoil("pressure", 1, "low", "pairs.csv"),
        {"table": "pairs.csv", "column": "pressure", "line": 3, "value": "low"},
    ),
    "empty table": (cut("task.csv", 0), {"table": "task.csv", "count": 0}),
    "one row": (cut("pairs.csv", 1), {"table": "pairs.csv", "count": 1}),
    "empty file": (rewrite("pairs.csv", ""), {"table": "pairs.csv"}),
    "missing column": (rewrite("task.csv", "pressure,powr\n1,2\n"), {"table": "task.csv", "column": "power"}),
    "bars": (rewrite("task.csv", "pressure|power\n1|2\n"), {"table": "task.csv", "column": "pressure|power"}),
}


@pytest.mark.parametrize(("change", "fault"), WRONG_TABLES.values(), ids=WRONG_TABLES.keys())
def test_wrong_tables_are_refused_before_fitting(folder, change, fault):
    write_pairs_and_task(folder, 6, 6)
    change()
    with raised(TableError, **fault) as caught:
        prepare(of_pairs())
    assert refusal(*TWO_TABLES) == f"{caught.value}\n"
    assert not (folder / "model.decond").exists()


@pytest.mark.parametrize("aggregate", [False, True])
def test_labels_without_a_common_value(folder, aggregate):
    write_days(folder)
    days = pd.read_csv("days.csv")
    days.assign(day=days["day"] + 100).to_csv("days.csv", index=False)
    with raised(TableError, column="day"):
        prepare(of_days(labels=True, aggregate=aggregate))


def test_one_common_group_is_too_few(folder):
    write_days(folder)
    days = pd.read_csv("days.csv")
    days.assign(day=days["day"] + len(days) - 1).to_csv("days.csv", index=False)
    with raised(TableError, column="day", count=1):
        prepare(of_days())


WRONG_OPTIONS = {
    # arguments, and what is named: options, files, choices
    "one table": (("fit", "pairs.csv", "--x", "wind", "--y", "pressure", "--z", "power"), ("TASK", "--sparse")),
    "three tables": ((*TWO_TABLES, "pairs.csv"), ("TASK", "3")),
    "two tables for one": ((*TWO_TABLES, "--sparse"), ("--sparse", "pairs.csv")),
    "both kinds": ((*TWO_TABLES, "--sparse", "--aggregate"), ("--aggregate", "--sparse")),
    "targets of groups": ((*TWO_TABLES, "--aggregate", "--targets", "single"), ("--targets", "--aggregate")),
    "targets of one table": (
        ("fit", "task.csv", "--x", "pressure", "--z", "power", "--sparse", "--targets", "mean"),
        ("--targets", "--sparse"),
    ),
    "unknown targets": ((*TWO_TABLES, "--targets", "sum"), ("--targets", "'sum'", "mean, single")),
    "plain single targets": (
        (*TWO_TABLES, "--targets", "single", "--uncertainty", "plain"),
        ("--targets single", "--uncertainty plain"),
    ),
    "drift of means": ((*TWO_TABLES, "--drift", 0.1), ("--drift", "--targets single")),
    "negative drift": ((*TWO_TABLES, "--targets", "single", "--drift", -1), ("--drift", "-1")),
    "endless drift": ((*TWO_TABLES, "--targets", "single", "--drift", "inf"), ("--drift", "inf")),
    "sizes without groups": ((*TWO_TABLES, "--group-sizes", 24), ("--group-sizes", "--aggregate", "--labels")),
    "sizes of single targets": (
        (*TWO_TABLES, "--targets", "single", "--group-sizes", 24),
        ("--group-sizes", "--targets single"),
    ),
    "sizes of nothing": ((*TWO_TABLES, "--aggregate", "--group-sizes", 0), ("--group-sizes", "'0'")),
    "sizes in no column": (
        (*TWO_TABLES, "--aggregate", "--group-sizes", "many"),
        ("--group-sizes", "'many'", "task.csv", "pressure, power"),
    ),
    "errors in no column": ((*TWO_TABLES, "--z-std", "se"), ("--z-std", "'se'", "task.csv", "pressure, power")),
    "errors in the targets": ((*TWO_TABLES, "--z-std", "power"), ("--z-std", "'power'")),
    "no mediator": (("fit", "pairs.csv", "task.csv", "--x", "wind", "--z", "power"), ("--y COLUMN",)),
    "a mediator too many": (("fit", "task.csv", "--x", "pressure", "--y", "b", "--z", "power", "--sparse"), ("--y",)),
    "idle option": ((*TWO_TABLES, "--inducing", 5), ("--inducing", "--sparse")),
    "idle iterations": ((*TWO_TABLES, "--max-iterations", 5), ("--max-iterations", "--sparse")),
    "another idle one": (
        ("fit", "task.csv", "--x", "pressure", "--z", "power", "--sparse", "--uncertainty", "plain"),
        ("--uncertainty", "--sparse"),
    ),
    "two groups": ((*TWO_TABLES, "--y", "other", "--aggregate"), ("--aggregate", "--y", "pressure, other")),
    "x again": ((*TWO_TABLES, "--x", "pressure"), ("'pressure'",)),
    "no file": (("fit", "p.csv", "task.csv", "--x", "wind", "--y", "p", "--z", "power"), ("p.csv",)),
    "output is a folder": ((*TWO_TABLES, "--output", "."), ("--output model.decond",)),
    "output nowhere": ((*TWO_TABLES, "--output", "a/b"), (" a ",)),
    "output is the picture": ((*TWO_TABLES, "--output", "a.png"), ("a.png", "a.decond")),
    "unknown choice": ((*TWO_TABLES, "--uncertainty", "none"), ("--uncertainty", "'none'", "honest, plain")),
    "unknown figure": (("reproduce", "figure9"), ("FIGURE", "'figure9'", "figure3")),
    "no model": (("predict", "m.decond", "pairs.csv"), ("m.decond",)),
    "a table for a model": (("predict", "task.csv", "pairs.csv"), ("task.csv",)),
    "predictions as JSON": (("predict", "m.decond", "pairs.csv", "-o", "p.json"), ("p.json", ".csv")),
}


@pytest.mark.parametrize(("arguments", "names"), WRONG_OPTIONS.values(), ids=WRONG_OPTIONS.keys())
def test_wrong_options_are_named(folder, arguments, names):
    write_pairs_and_task(folder, 6, 6)
    said = refusal(*arguments)
    assert all(name in said for name in names), said
    assert not (folder / "model.decond").exists()


def test_groups_are_not_smaller_than_what_is_listed_of_them(folder):
    write_days(folder)
    assert "hours.csv" in refusal(*DAYS, "--group-sizes", 3)
    with_columns("days.csv", hours=[3.0] + [24.0] * 11)
    with refused("--group-sizes"):
        prepare(of_days(facts=Facts(group_sizes="hours")))


def test_a_group_has_one_size(folder):
    write_days(folder)
    days = pd.read_csv("days.csv").assign(hours=24)
    pd.concat([days, days.assign(hours=23)]).to_csv("days.csv", index=False)
    with refused("--group-sizes"):
        prepare(of_days(labels=True, aggregate=False, facts=Facts(group_sizes="hours")))


def test_standard_errors_are_not_negative(folder):
    write_days(folder)
    with_columns("days.csv", se=-1.0)
    with refused("--z-std"):
        prepare(of_days(facts=Facts(z_std="se")))


def test_predictions_need_the_columns_of_the_fit_and_a_whole_model(folder):
    write_days(folder, n_days=4)
    decond(*DAYS)
    predict = ("predict", "model.decond", "new.csv")
    for content, named in (("Wind\n5\n", "'wind'"), ("wind,mean\n5,1\n", "'mean'"), ("wind\n", "new.csv")):
        (folder / "new.csv").write_text(content)
        assert named in refusal(*predict)
    content = (folder / "model.decond").read_bytes()
    (folder / "model.decond").write_bytes(content[: len(content) // 2])
    (folder / "new.csv").write_text("wind\n5\n")
    assert "model.decond" in refusal(*predict)
    assert not (folder / "predictions.csv").exists()


def test_a_model_of_another_version_predicts_with_a_warning(folder):
    write_days(folder, n_days=4)
    decond(*DAYS)
    with zipfile.ZipFile("model.decond") as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents["header.json"] = re.sub(rb'"decond": "[^"]*"', b'"decond": "0.99.0"', contents["header.json"])
    with zipfile.ZipFile("model.decond", "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    result = invoke("predict", "model.decond", "hours.csv")
    assert result.exit_code == 0
    assert result.stderr.startswith("Warning: model.decond")
    assert "0.99.0" in result.stderr
    assert (folder / "predictions.csv").exists()


def test_models_without_error_bars_predict_means_alone(folder):
    write_pairs_and_task(folder, 6, 6)
    x = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 0.0]])
    model = TaskTransformedRidge().fit(x, [0.0, 1.0, 2.0], [0.5, 1.5], [1.0, 2.0])
    save(model, "ridge.decond")  # fitted on arrays: columns have no names
    assert "pairs.csv" in refusal("predict", "ridge.decond", "pairs.csv")  # three columns for two
    decond("predict", "ridge.decond", "task.csv")
    found = pd.read_csv("predictions.csv")
    assert list(found) == ["pressure", "power", "mean"]
    np.testing.assert_allclose(found["mean"], model.predict(pd.read_csv("task.csv").to_numpy()))


def test_predictions_are_summarized_for_machines(folder):
    write_days(folder)
    decond(*DAYS)
    printed = json.loads(decond("predict", "model.decond", "hours.csv", "--json"))
    found = pd.read_csv("predictions.csv")
    assert (printed["predictions"], printed["rows"], printed["model"]) == ("predictions.csv", 48, "AggregateGP")
    assert printed["mean"]["average"] == pytest.approx(found["mean"].mean())
    assert printed["sd"]["most"] == pytest.approx(found["sd"].max())


# ---- the demonstration ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def few_days():
    """Return the demonstration's problem with fewer and shorter days."""
    return demo.turbine(n_days=12, readings=4)


def test_demo_tells_its_story_and_writes_its_files(few_days, folder, capsys):
    demo.demonstrate(few_days, folder / "out")
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "\x1b" not in shown.out  # no colors where there is no terminal
    for name, is_own in demo._own(few_days).items():
        assert f"{name}\n" in shown.out
        assert is_own(folder / "out" / name)
    assert list(pd.read_csv("out/hours.csv")) == ["day", "wind"]
    assert list(pd.read_csv("out/days.csv")) == ["day", "power"]
    demo.demonstrate(few_days, folder / "out")  # its own files may be written again


def test_demo_tells_its_scores_to_machines(few_days, folder, capsys):
    demo.demonstrate(few_days, Path("out"), json=True)
    printed = json.loads(capsys.readouterr().out)
    assert list(printed["answers"]) == ["decond", *demo.NAIVE]
    assert printed["answers"] == json.loads((folder / "out" / "numbers.json").read_text())
    assert printed["files"][0] == "out/report.html"


def test_demo_says_how_the_shell_finds_the_command(folder, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(folder))
    environment = folder / ".venv"
    demo._say_where_decond_is(environment)
    assert capsys.readouterr().out == ""  # not an environment
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "activate").touch()
    demo._say_where_decond_is(environment)
    assert "source .venv/bin/activate\n" in capsys.readouterr().out
    (folder / "decond").touch(0o755)
    demo._say_where_decond_is(environment)
    assert capsys.readouterr().out == ""


# ---- real processes ------------------------------------------------------------------------------------------


def run(folder, *arguments):
    command = [sys.executable, "-W", "error", "-m", "decond", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


@pytest.mark.slow
def test_commands_as_a_user_runs_them(folder):
    write_days(folder)
    fitted = run(folder, *DAYS)
    assert (fitted.returncode, fitted.stderr) == (0, "")  # no bar where there is no terminal
    predicted = run(folder, "predict", "model.decond", "hours.csv", "--output", "out.csv")
    assert (predicted.returncode, predicted.stdout, predicted.stderr) == (0, "wrote out.csv\n", "")


@pytest.mark.slow
def test_demo_recovers_the_power_curve(folder):
    made = run(folder, "demo", "--output", "out")
    assert (made.returncode, made.stderr) == (0, "")
    assert max(map(len, made.stdout.splitlines())) <= 120  # commands alone are longer than a line of 80
    assert (folder / "out" / "power_curve.png").read_bytes().startswith(PNG)
    ours, *naive = json.loads((folder / "out" / "numbers.json").read_text()).values()
    assert ours["rmse_kw"] < 80
    assert ours["rmse_kw"] < min(answer["rmse_kw"] for answer in naive)
    assert ours["coverage_2sd"] > 0.9
    assert all(is_own(folder / "out" / name) for name, is_own in demo._own(demo.turbine()).items())
