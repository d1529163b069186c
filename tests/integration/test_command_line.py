"""The command line from tables to predictions, and what it says when something is wrong."""

import json
import re
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from commands import decond
from typer.testing import CliRunner

from decond.cli import app, demo
from decond.io import load


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


# ---- what works ----------------------------------------------------------------------------------------------


def test_two_tables_become_a_model_a_picture_and_predictions(folder):
    write_pairs_and_task(folder)
    printed = decond(*TWO_TABLES, "--output", "curve.decond")
    assert "power as a function of wind, from 40 pairs and 50 task rows" in printed
    for words in (
        "lengthscale of wind",
        "noise of power (sd)",
        "log evidence",
        "wrote curve.decond",
        "wrote curve.png",
    ):
        assert words in printed
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    decond("predict", "curve.decond", "pairs.csv", "--output", "predictions.csv")
    given, found = pd.read_csv("pairs.csv"), pd.read_csv("predictions.csv")
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
    printed = decond(*arguments, "--x", "other", "--uncertainty", "plain")
    assert "lengthscale of other" in printed
    decond("predict", "model.decond", "pairs.csv", "-o", "out.parquet")
    found = pd.read_parquet("out.parquet")
    assert found.dtypes.astype(str).tolist() == ["float64"] * 5
    assert list(load("model.decond").feature_names_in_) == ["wind", "other"]


def test_means_of_groups(folder):
    write_days(folder)
    printed = decond(*DAYS)
    assert "power as a function of wind, from 48 rows in 12 groups" in printed
    (folder / "new.csv").write_text("wind\n5\n")
    decond("predict", "model.decond", "new.csv", "--output", "out.tsv")
    assert pd.read_csv("out.tsv", sep="\t")["mean"][0] == pytest.approx(15.0, abs=1.0)


def test_groups_may_be_said_to_be_complete(folder):
    write_days(folder)
    for more, sampled in (((), None), (("--complete",), False)):
        printed = decond(*DAYS, *more)
        assert load("model.decond").sampled is sampled
        assert ("for a sample of it with weight" in " ".join(printed.split())) == (not more)


def test_targets_may_be_said_to_be_means(folder):
    write_pairs_and_task(folder, 20, 20)
    decond(*TWO_TABLES, "--means")
    assert load("model.decond").sampled is False
    write_days(folder)
    arguments = [a for a in DAYS if a != "--aggregate"]
    assert "For groups there is --complete" in decond(*arguments, "--labels", "--means", code=2)


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
    printed = decond("fit", "table.csv", "--x", "x", "--z", "z", "--sparse", "--inducing", 8, "--restarts", 0)
    assert "z as a function of x, from 300 rows" in printed
    decond("predict", "model.decond", "table.csv")
    error = pd.read_csv("predictions.csv")["mean"] - np.sin(x)
    assert np.sqrt(np.mean(error**2)) < 0.1


def test_columns_may_have_any_name(folder):
    rng = np.random.default_rng(0)
    x, z = "cost_$_a_$^", "[/b] gain_$_{"
    at = rng.uniform(0, 6, 30)
    pd.DataFrame({x: at, z: np.sin(at)}).to_csv("table.csv", index=False)
    fit = ("fit", "table.csv", "--x", x, "--z", z, "--sparse", "--inducing", 5, "--report", "page.html")
    assert f"{z} as a function of {x}, from 30 rows" in decond(*fit)
    assert (folder / "model.png").read_bytes().startswith(b"\x89PNG")


def test_few_targets_are_warned_of(folder):
    write_days(folder, n_days=3)
    printed = decond(*DAYS)
    assert "Warning: there are only 3 targets" in printed
    assert "With --report page.html all of this is one page" in printed
    warnings = json.loads(decond(*DAYS, "--json"))["warnings"]
    assert any("only 3 targets" in warning for warning in warnings)
    write_days(folder, n_days=10)
    assert "targets:" not in decond(*DAYS)


def test_whole_numbers_that_look_like_labels_are_warned_of(folder):
    write_days(folder)
    bare = [argument for argument in DAYS if argument != "--aggregate"]
    assert "'day' looks like a label (12 whole numbers, each in about 4 rows)" in " ".join(decond(*bare).split())
    assert "looks like" not in decond(*bare, "--labels")
    write_pairs_and_task(folder)
    assert "looks like" not in decond(*TWO_TABLES)


def test_a_search_that_stops_early_names_the_option_that_prolongs_it(folder):
    at = np.random.default_rng(0).uniform(0, 6, 60)
    pd.DataFrame({"x": at, "z": np.sin(at)}).to_csv("table.csv", index=False)
    arguments = ("fit", "table.csv", "--x", "x", "--z", "z", "--sparse", "--inducing", 8)
    printed = " ".join(decond(*arguments, "--max-iterations", 1).split())
    assert "stopped: " in printed
    assert "Try more --restarts, or more --max-iterations." in printed
    assert "--max-iterations has no meaning without --sparse" in decond(*TWO_TABLES, "--max-iterations", 5, code=2)


def test_many_rows_that_are_left_out_are_warned_of(folder):
    write_days(folder, n_days=24)
    days = pd.read_csv("days.csv")
    days[1:].to_csv("days.csv", index=False)
    assert "\n4 of 96 rows of hours.csv are left out" in decond(*DAYS)
    days[6:].to_csv("days.csv", index=False)
    assert "Warning: 24 of 96 rows of hours.csv are left out" in decond(*DAYS)


def test_a_summary_for_machines(folder):
    write_days(folder)
    summary = json.loads(decond(*DAYS, "--json"))
    assert summary["hyperparameters"]["lengthscale of wind"] > 0
    assert np.isfinite(summary["log_evidence"])
    assert summary["status"] in ("converged", "stopped")
    assert summary["model"] == "model.decond"


def test_what_is_left_out_is_said(folder):
    write_days(folder)
    table = pd.read_csv("days.csv")
    table[1:].to_csv("days.csv", index=False)
    printed = decond(*DAYS)
    assert "4 of 48 rows of hours.csv are left out: days.csv has no row with their 'day'." in printed


def test_the_same_seed_gives_the_same_file(folder):
    write_days(folder)
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
    "text in a number": (
        spoil("power", 4, "high"),
        r"'power' of task.csv should hold numbers, but line 6 has 'high'",
    ),
    "empty cell": (spoil("power", 4, ""), r"'power' of task.csv has 1 empty cell(s), the first in line 6"),
    "NaN": (
        spoil("pressure", 2, "nan", "pairs.csv"),
        r"'pressure' of pairs.csv has 1 empty cell(s), the first in line 4",
    ),
    "text in the mediator": (spoil("pressure", 1, "low", "pairs.csv"), r"line 3 has 'low'"),
    "empty table": (cut("task.csv", 0), r"task.csv has no rows below its header; fitting needs at least 2"),
    "one row": (cut("pairs.csv", 1), r"pairs.csv has one row below its header; fitting needs at least 2"),
    "empty file": (rewrite("pairs.csv", ""), r"pairs.csv is empty"),
    "missing column": (rewrite("task.csv", "pressure,powr\n1,2\n"), r"no column 'power'; did you mean 'powr'?"),
    "bars": (rewrite("task.csv", "pressure|power\n1|2\n"), r"separated by bars"),
}


@pytest.mark.parametrize(("change", "message"), WRONG_TABLES.values(), ids=WRONG_TABLES.keys())
def test_wrong_tables_are_refused_before_fitting(folder, change, message):
    write_pairs_and_task(folder, 6, 6)
    change()
    assert message in decond(*TWO_TABLES, code=2)
    assert not (folder / "model.decond").exists()


def test_labels_without_a_common_value(folder):
    write_days(folder)
    days = pd.read_csv("days.csv")
    days.assign(day=days["day"] + 100).to_csv("days.csv", index=False)
    for more in ((), ("--aggregate",)):
        arguments = [a for a in DAYS if a != "--aggregate"]
        assert "no value of 'day' in common" in decond(*arguments, "--labels", *more, code=2)


def test_one_common_group_is_too_few(folder):
    write_days(folder)
    days = pd.read_csv("days.csv")
    days.assign(day=days["day"] + len(days) - 1).to_csv("days.csv", index=False)
    assert "only one 'day' is in both tables; fitting needs at least 2" in decond(*DAYS, code=2)


WRONG_OPTIONS = {
    "one table": (("fit", "pairs.csv", "--x", "wind", "--y", "pressure", "--z", "power"), "add --sparse"),
    "two tables for one": ((*TWO_TABLES, "--sparse"), "--sparse takes one table, but 2 were given"),
    "both kinds": ((*TWO_TABLES, "--sparse", "--aggregate"), "exclude each other"),
    "complete alone": ((*TWO_TABLES, "--complete"), "needs --aggregate"),
    "means of groups": ((*TWO_TABLES, "--aggregate", "--means"), "leave it out with --aggregate"),
    "no mediator": (("fit", "pairs.csv", "task.csv", "--x", "wind", "--z", "power"), "--y COLUMN"),
    "a mediator too many": (
        ("fit", "task.csv", "--x", "pressure", "--y", "b", "--z", "power", "--sparse"),
        "leave it out",
    ),
    "idle option": ((*TWO_TABLES, "--inducing", 5), "--inducing has no meaning without --sparse; leave it out"),
    "another idle one": (
        ("fit", "task.csv", "--x", "pressure", "--z", "power", "--sparse", "--uncertainty", "plain"),
        "--uncertainty has no meaning with --sparse; leave it out",
    ),
    "two groups": ((*TWO_TABLES, "--y", "other", "--aggregate"), "takes one column of groups"),
    "x again": ((*TWO_TABLES, "--x", "pressure"), "'pressure' is named as x and again as y or z"),
    "no file": (("fit", "p.csv", "task.csv", "--x", "wind", "--y", "p", "--z", "power"), "there is no file p.csv"),
    "output is a folder": ((*TWO_TABLES, "--output", "."), ". is a folder"),
    "output nowhere": ((*TWO_TABLES, "--output", "a/b"), "the folder a does not exist"),
    "output is the picture": ((*TWO_TABLES, "--output", "a.png"), "would be the picture's place"),
    "unknown choice": ((*TWO_TABLES, "--uncertainty", "none"), "honest"),
    "unknown figure": (("reproduce", "figure9"), "figure3"),
    "no model": (("predict", "m.decond", "pairs.csv"), "there is no file m.decond"),
    "a table for a model": (("predict", "task.csv", "pairs.csv"), "task.csv is not a decond model"),
    "predictions as JSON": (("predict", "m.decond", "pairs.csv", "-o", "p.json"), "ends in '.json'"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG_OPTIONS.values(), ids=WRONG_OPTIONS.keys())
def test_wrong_options_say_what_to_do(folder, arguments, message):
    write_pairs_and_task(folder, 6, 6)
    assert message in decond(*arguments, code=2)
    assert not (folder / "model.decond").exists()


def test_predictions_need_the_columns_of_the_fit_and_a_whole_model(folder):
    write_days(folder)
    decond(*DAYS)
    (folder / "new.csv").write_text("Wind\n5\n")
    assert "new.csv has no column 'wind'; did you mean 'Wind'?" in decond(
        "predict", "model.decond", "new.csv", code=2
    )
    (folder / "new.csv").write_text("wind,mean\n5,1\n")
    assert "has a column 'mean' already; rename it" in decond("predict", "model.decond", "new.csv", code=2)
    (folder / "new.csv").write_text("wind\n")
    assert "predicting needs at least 1" in decond("predict", "model.decond", "new.csv", code=2)
    content = (folder / "model.decond").read_bytes()
    (folder / "model.decond").write_bytes(content[: len(content) // 2])
    (folder / "new.csv").write_text("wind\n5\n")
    assert "damaged or cut short" in decond("predict", "model.decond", "new.csv", code=2)
    assert not (folder / "predictions.csv").exists()


def test_a_model_of_another_version_predicts_with_a_warning(folder):
    write_days(folder)
    decond(*DAYS)
    with zipfile.ZipFile("model.decond") as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents["header.json"] = re.sub(rb'"decond": "[^"]*"', b'"decond": "0.99.0"', contents["header.json"])
    with zipfile.ZipFile("model.decond", "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    result = CliRunner().invoke(app, ["predict", "model.decond", "hours.csv"])
    assert result.exit_code == 0
    assert "Warning: model.decond was written by decond 0.99.0" in result.stderr


def test_models_without_error_bars_predict_means_alone(folder):
    from decond.estimators import TaskTransformedRidge
    from decond.io import save

    write_pairs_and_task(folder, 6, 6)
    x = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 0.0]])
    model = TaskTransformedRidge().fit(x, [0.0, 1.0, 2.0], [0.5, 1.5], [1.0, 2.0])
    save(model, "ridge.decond")  # fitted on arrays: columns have no names
    assert "2 columns without names, and pairs.csv has 3" in decond("predict", "ridge.decond", "pairs.csv", code=2)
    decond("predict", "ridge.decond", "task.csv")
    found = pd.read_csv("predictions.csv")
    assert list(found) == ["pressure", "power", "mean"]
    np.testing.assert_allclose(found["mean"], model.predict(pd.read_csv("task.csv").to_numpy()))


# ---- real processes ------------------------------------------------------------------------------------------


def run(folder, *arguments):
    command = [sys.executable, "-W", "error", "-m", "decond", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def test_commands_as_a_user_runs_them(folder):
    write_days(folder)
    fitted = run(folder, *DAYS)
    assert (fitted.returncode, fitted.stderr) == (0, "")  # no bar where there is no terminal
    predicted = run(folder, "predict", "model.decond", "hours.csv", "--output", "out.csv")
    assert (predicted.returncode, predicted.stdout, predicted.stderr) == (0, "wrote out.csv\n", "")
    wrong = decond("predict", "model.decond", "days.csv", code=2)
    assert wrong == "Error: days.csv has no column 'wind'. Its columns are day, power.\n"


def test_demo_says_how_the_shell_finds_the_command(folder, monkeypatch, capsys):
    from decond.cli import demo

    monkeypatch.setattr(sys, "prefix", str(folder / ".venv"))
    monkeypatch.setenv("PATH", str(folder))
    demo._say_where_decond_is()
    assert capsys.readouterr().out == ""  # not an environment
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "activate").touch()
    demo._say_where_decond_is()
    assert capsys.readouterr().out == "If your shell does not find decond: source .venv/bin/activate\n"
    (folder / "decond").touch(0o755)
    demo._say_where_decond_is()
    assert capsys.readouterr().out == ""


def test_demo_tells_its_scores_to_machines(folder, monkeypatch):
    from decond.cli import demo

    problem = demo.turbine()
    hours = problem.hours[problem.hours["day"] < 300]
    days = problem.days[problem.days["day"] < 300]
    few = demo.Problem(hours, days, problem.wind_true, problem.power_true)
    monkeypatch.setattr(demo, "turbine", lambda: few)
    printed = json.loads(decond("demo", "--json", "--output", "out"))
    assert list(printed["answers"]) == ["decond", *demo.NAIVE]
    assert printed["answers"] == json.loads((folder / "out" / "numbers.json").read_text())
    assert printed["files"][0] == "out/report.html"


def test_predictions_are_summarized_for_machines(folder):
    write_days(folder)
    decond(*DAYS)
    printed = json.loads(decond("predict", "model.decond", "hours.csv", "--json"))
    found = pd.read_csv("predictions.csv")
    assert (printed["predictions"], printed["rows"], printed["model"]) == ("predictions.csv", 48, "AggregateGP")
    assert printed["mean"]["average"] == pytest.approx(found["mean"].mean())
    assert printed["sd"]["most"] == pytest.approx(found["sd"].max())


def test_reproduce_writes_a_figure_and_its_numbers(folder):
    made = run(folder, "reproduce", "figure4", "--output", "figures")
    assert (made.returncode, made.stderr) == (0, "")
    assert (folder / "figures" / "figure4.png").read_bytes().startswith(b"\x89PNG")
    assert "answers" in json.loads((folder / "figures" / "figure4.json").read_text())


def test_demo_recovers_the_power_curve(folder):
    made = run(folder, "demo", "--output", "out")
    assert (made.returncode, made.stderr) == (0, "")
    headings = ("What is known", "What is wanted", "Why averaging misleads", "Fitting", "The answer", "your own data")
    places = [made.stdout.index(words) for words in headings]
    assert places == sorted(places)
    assert "\x1b" not in made.stdout  # no colors where there is no terminal
    assert max(map(len, made.stdout.splitlines())) <= 110  # commands alone are longer than a line of 80
    for name in ("report.html", "power_curve.png", "numbers.json", "hours.csv", "days.csv"):
        assert f"wrote out/{name}" in made.stdout
    assert (folder / "out" / "power_curve.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "out" / "report.html").read_text()
    for words in ("power curve from daily means", "truth: hourly means on other days", "mean power on mean wind"):
        assert words in page
    assert list(pd.read_csv("out/hours.csv")) == ["day", "wind"]
    assert list(pd.read_csv("out/days.csv")) == ["day", "power"]
    ours, *naive = json.loads((folder / "out" / "numbers.json").read_text()).values()
    assert ours["rmse_kw"] < 80
    assert ours["rmse_kw"] < min(answer["rmse_kw"] for answer in naive)
    assert ours["coverage_2sd"] > 0.9
    assert all(is_own(folder / "out" / name) for name, is_own in demo._own(demo.turbine()).items())
