"""What the demo tells in the terminal: its chart, its example of two days, and its commands."""

import io
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from decond.cli import app, story


@pytest.fixture
def terminal():
    """Return a terminal of 80 letters a line, without colors, that remembers."""
    return Console(file=io.StringIO(), width=80)


def curves(truth):
    wind = np.arange(0.0, 10.25, 0.25)
    return story.Curves(wind, truth(wind), truth(wind), 0.0 * wind + 50.0, {"shortcut": 0.0 * wind})


def test_the_chart_puts_curves_where_they_belong():
    lines = story._chart(curves(lambda wind: 100.0 * wind)).plain.splitlines()
    rows, axis = lines[: story.HEIGHT], lines[story.HEIGHT]
    left = axis.index("└") + 1
    assert rows[0].startswith(" 1,000 kW │")
    assert rows[0][left + 40] == "●"  # 1,000 kW at 10 m/s, 40 quarters from zero
    assert rows[-1][left] == "●"  # nothing at no wind
    heights = [max(row for row in range(len(rows)) if rows[row][left + column] in "●·") for column in range(41)]
    assert heights == sorted(heights, reverse=True)
    assert rows[-1][left + 38] == "×"
    ticks = lines[story.HEIGHT + 1]
    assert [ticks.index(str(speed)) - left for speed in (2, 4, 6, 8, 10)] == [8, 16, 24, 32, 40]


def test_numbers_stand_at_even_speeds(terminal):
    terminal.print(story._numbers(curves(lambda wind: 200.0 * wind)))
    said = terminal.file.getvalue()
    assert "2,000 ±  50" in said
    assert said.count("±  50") == 5


def test_two_days_of_the_same_mean_show_what_averaging_hides(terminal):
    steady, gusty, windy = [5.0, 5.0, 5.0, 5.0], [0.0, 10.0, 0.0, 10.0], [9.0, 9.5, 9.0, 9.5]
    hours = pd.DataFrame({"day": np.repeat([3, 5, 8], 4), "wind": [*steady, *gusty, *windy]})
    days = pd.DataFrame({"day": [3, 5, 8], "power": [100.0, 400.0, 900.0]})
    story.tell_problem(terminal, hours, days, ["first", "second"])
    said = " ".join(terminal.file.getvalue().split())
    for fact in ("3 days", "4 wind speeds", "Days 3 and 5", "5.0 m/s", "100 kW", "5.8 m/s", "400 kW"):
        assert fact in said
    assert "900 kW" not in said


def test_commands_that_are_shown_are_commands_that_there_are(terminal, tmp_path, monkeypatch):
    """A folder with a space in its name is quoted; options are those of the commands."""
    from typer.testing import CliRunner

    monkeypatch.chdir(tmp_path)
    story.tell_next(terminal, Path("my demo"))
    shown = [line.strip() for line in terminal.file.getvalue().splitlines() if line.startswith("  decond ")]
    assert len(shown) == 3
    for line in shown:
        result = CliRunner().invoke(app, shlex.split(line)[1:], prog_name="decond")
        assert result.exit_code == 2
        assert "Usage:" not in result.stderr  # what is missing is a file, and not an option
    assert shlex.split(shown[0])[2] == "my demo/hours.csv"


def test_the_files_of_the_last_command_are_those_of_the_page_that_it_names(terminal):
    story.tell_next(terminal, Path("demo"))
    said = terminal.file.getvalue()
    page = "docs/tutorials/epidemic.md"
    assert page in said
    command = said.split("decond infer ")[1].split("\n")[0]
    assert f"decond infer {command}" in (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
