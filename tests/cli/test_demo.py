"""`decond demo` and `reproduce`: what they print and write."""

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
