"""`decond demo`, `compare` and `reproduce`: what they print and write."""

import json
import shlex
from pathlib import Path

import pandas as pd
import pytest
from commands import decond, invoke, refusal

from decond.cli import demo

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def few_days(monkeypatch):
    """Let the demonstration have fewer and shorter days."""
    small = demo.wind_day(n_days=12, readings=4)
    monkeypatch.setattr(demo, "wind_day", lambda: small)


def test_demo_prints_and_writes_what_it_found(few_days):
    result = invoke("demo", "-o", "my demo")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "\x1b" not in result.stdout  # no colors where there is no terminal
    assert all(answer in result.stdout for answer in (demo.OURS, *demo.SHORTCUTS))
    for name in ("report.html", "power_curve.png", "numbers.json", "hours.csv", "days.csv"):
        assert f"wrote my demo/{name}\n" in result.stdout
        assert Path("my demo", name).stat().st_size > 0
    assert list(pd.read_csv("my demo/hours.csv")) == ["day", "wind"]
    assert list(pd.read_csv("my demo/days.csv")) == ["day", "power"]
    commands = [line for line in result.stdout.splitlines() if line.startswith("  decond ")]
    assert shlex.split(commands[0])[2] == "my demo/hours.csv"
    for command in commands[1:]:  # what is missing is a file, and not an option
        assert "no file" in refusal(*shlex.split(command)[1:])
    page = Path(__file__).parents[2] / "docs" / "tutorials" / "epidemic.md"
    assert commands[-1].strip() in page.read_text(encoding="utf-8")


def test_demo_prints_its_scores_for_machines(few_days):
    printed = json.loads(decond("demo", "-o", "out", "--json"))
    assert list(printed["answers"]) == ["decond", *demo.SHORTCUTS]
    assert printed["answers"] == json.loads(Path("out/numbers.json").read_text())
    assert printed["files"][0] == "out/report.html"


@pytest.mark.slow
def test_demo_recovers_the_power_curve():
    ours, *shortcuts = json.loads(decond("demo", "-o", "out", "--json"))["answers"].values()
    assert ours["rmse_kw"] < 80
    assert ours["rmse_kw"] < min(answer["rmse_kw"] for answer in shortcuts)
    assert ours["coverage_2sd"] > 0.9


def test_reproduce_writes_a_figure_and_its_numbers():
    said = decond("reproduce", "figure4", "-o", "out")
    assert "wrote out/figure4.png\nwrote out/figure4.json\n" in said
    for answer in json.loads(Path("out/figure4.json").read_text())["answers"].values():  # its own table
        assert all(f"{answer[key]:.4g}" in said for key in ("coverage_2sd", "rmse_within_data", "noise"))


# ---- compare -------------------------------------------------------------------------------------------------


def test_methods_are_compared_on_a_simulator():
    arguments = ("compare", "exponential_gamma", "--methods", "rejection, residual", "-n", "100", "--seeds", "2")
    printed = json.loads(decond(*arguments, "--json"))
    assert set(printed["methods"]) == {"rejection", "residual"}
    assert len(printed["runs"]) == 4
    assert printed["files"] == [f"decond-compare/compare.{ending}" for ending in ("csv", "json", "png")]
    table = pd.read_csv("decond-compare/compare.csv", index_col="method")
    assert set(table.index) == {"rejection", "residual"}
    said = decond(*arguments, "-o", "again")
    assert all(name in said for name in ("exponential_gamma", "rejection", "residual", "total variation"))


@pytest.mark.parametrize("problem", ["latent_function", "wind"])
def test_models_are_compared_on_two_tables(problem):
    printed = json.loads(decond("compare", problem, "--methods", "cascade,impute", "--json"))
    assert set(printed["methods"]) == {"cascade", "impute"}
    assert printed["measure"] == "RMSE"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("wnid",), ("'wnid'", "'wind'")),
        (("wind", "-n", "10"), ("--simulations", "wind")),
        (("wind", "--methods", "residual"), ("'residual'", "cascade")),
        (("two_moons", "--methods", "cascade"), ("'cascade'", "residual")),
    ],
)
def test_wrong_comparisons_are_refused(arguments, names):
    said = refusal("compare", *arguments)
    assert all(name in said for name in names), said
