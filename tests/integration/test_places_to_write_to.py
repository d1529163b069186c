"""Folders that commands write into keep the files of others; what cannot be written is refused before the work."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import decond, refusal
from matplotlib.figure import Figure

from decond.cli import demo
from decond.io import load
from decond.plotting.display import is_drawn_here

FIT = ("fit", "rows.csv", "--x", "wind", "--z", "power", "--sparse", "--inducing", "4", "--max-iterations", "2")
INFER = ("infer", "waits_counted:simulate", "--prior", "prior.toml", "--observed", "seen.csv", "-n", "30")
INFER += ("--rounds", "1", "--method", "rejection")
COMPARE = ("compare", "problem.toml", "-o", ".")
PROBLEM = """
[problem]
simulator = "waits_counted:simulate"
observed = [0.59]
simulations = 30
methods = ["rejection"]
prior = "prior.toml"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return a folder with the inputs of all commands, in which they run; the simulator leaves a trace."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    wind = np.linspace(0.0, 10.0, 20)
    pd.DataFrame({"wind": wind, "power": wind**2}).to_csv("rows.csv", index=False)
    Path("waits_counted.py").write_text(
        "def simulate(theta, rng):\n    open('ran', 'a').close()\n    return [rng.exponential(1 / theta[0])]\n"
    )
    Path("prior.toml").write_text('[rate]\ndistribution = "gamma"\na = 2.0\n')
    Path("seen.csv").write_text("mean\n0.59\n")
    Path("problem.toml").write_text(PROBLEM)
    return tmp_path


def contents():
    """Return every file by name, and links by what they name."""
    found = (path for path in Path().iterdir() if path.is_symlink() or path.is_file())
    return {path.name: os.readlink(path) if path.is_symlink() else path.read_bytes() for path in found}


def refused(*arguments):
    """Run a command that must be refused and change nothing, and return why."""
    before = contents()
    said = refusal(*arguments)
    assert contents() == before
    return said


# ---- before the work -----------------------------------------------------------------------------------------

WRITTEN = {
    "model.decond": FIT,
    "model.png": FIT,
    "page.html": (*FIT, "--report", "page.html"),
    "posterior.csv": INFER,
    "posterior.png": INFER,
    "predictions.csv": ("predict", "first.decond", "rows.csv"),
    "report.html": ("demo", "-o", "."),
    "days.csv": ("demo", "-o", "."),
    "figure3.png": ("reproduce", "figure3", "-o", "."),
    "figures.md": ("reproduce", "all", "-o", "."),
    "compare.png": COMPARE,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_cannot_be_written_is_refused_before_the_work(name):
    if name == "predictions.csv":
        decond(*FIT, "-o", "first.decond")
    Path(name).symlink_to("nowhere/there")  # which nobody can write to, whatever they may do
    said = refused(*WRITTEN[name])
    assert said.startswith(name)
    assert ("--report" if name == "page.html" else "--output") in said
    assert not Path("ran").exists()  # the simulator


def writable_file_in_a_closed_folder():
    """Return a file that can be written to but not replaced, whoever runs this: not even root writes into /proc."""
    comm = Path("/proc/self/comm")
    if comm.exists():
        return comm
    Path("closed").mkdir()
    Path("closed/model").touch()
    Path("closed").chmod(0o555)
    return Path("closed/model")


def test_a_model_that_cannot_be_written_beside_its_place_is_refused():
    Path("model.decond").symlink_to(writable_file_in_a_closed_folder())
    said = refused(*FIT)
    assert said.startswith("model.decond")
    assert "--output" in said


# ---- links ---------------------------------------------------------------------------------------------------


def test_links_are_written_through_also_before_their_files_are_there():
    Path("elsewhere").mkdir()
    for name in ("model.decond", "model.png", "page.html", "posterior.csv", "posterior.png"):
        Path(name).symlink_to(f"elsewhere/{name}")
    decond(*FIT, "--report", "page.html")
    decond(*INFER)
    assert "replaced model.decond" in decond(*FIT)
    assert sorted(path.name for path in Path("elsewhere").iterdir()) == sorted(
        path.name for path in Path().iterdir() if path.is_symlink()
    )
    assert len(load("elsewhere/model.decond").predict(pd.DataFrame({"wind": [1.0]}))) == 1


def test_a_refusal_leaves_links_as_they_are():
    Path("page.html").symlink_to("later.html")
    Path("model.decond").write_text("mine")
    assert "model.decond" in refused(*FIT, "--report", "page.html")
    Path("model.decond").unlink()
    Path("model.png").write_text("mine")
    assert "model.png" in refused(*FIT, "--report", "page.html")


# ---- files of others -----------------------------------------------------------------------------------------

NUMBERS = {name: {"rmse_kw": 1.0, "coverage_2sd": None, "seconds": 1.0} for name in (demo.OURS, *demo.NAIVE)}


@pytest.mark.parametrize("name", ["power_curve.png", "numbers.json"])
@pytest.mark.parametrize("content", ["mine", json.dumps({**NUMBERS, "mine": 3})])
def test_the_demo_keeps_other_files_beside_its_own_tables(name, content):
    problem = demo.turbine()
    problem.hours.to_csv("hours.csv", index=False)
    problem.days.to_csv("days.csv", index=False)
    Path(name).write_text(content)
    assert refused("demo", "-o", ".").startswith(name)


@pytest.mark.parametrize("figure", ["figure3", "all"])
@pytest.mark.parametrize(
    "content", ["mine", '{"figure": "my own", "answers": 3}', '{"figure": "(section 8.1, Figure 3)", "mine": 1}']
)
def test_reproduce_keeps_the_files_of_others(figure, content):
    Path("figure3.json").write_text(content)
    assert refused("reproduce", figure, "-o", ".").startswith("figure3.json")
    Path("figure3.json").unlink()
    Figure().savefig("figure3.png")
    assert refused("reproduce", figure, "-o", ".").startswith("figure3.png")


def test_reproduce_writes_a_figure_and_its_numbers_and_replaces_them():
    assert "wrote out/figure4.png\nwrote out/figure4.json\n" in decond("reproduce", "figure4", "-o", "out")
    assert is_drawn_here(Path("out/figure4.png"))
    assert "answers" in json.loads(Path("out/figure4.json").read_text())
    again = decond("reproduce", "figure4", "-o", "out")
    assert "replaced out/figure4.png of " in again
    assert "replaced out/figure4.json of " in again


@pytest.mark.parametrize("header", ["method,cost,notes", "method,simulations,notes"])
def test_a_comparison_keeps_a_table_of_the_user(header):
    decond(*COMPARE)
    assert "replaced compare.csv of " in decond(*COMPARE)
    Path("compare.csv").write_text(f"{header}\nmine,1,2\n")
    assert "compare.csv" in refused(*COMPARE)
    for name in ("compare.json", "compare.png"):
        Path(name).unlink()
    assert "compare.csv" in refused(*COMPARE)
