"""`decond infer`: from a module with a simulator, a prior in TOML and an observation to draws and a picture."""

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pandas as pd
import pytest
from commands import decond, invoke, refusal
from expected import refused
from report_pages import ReportPage

from decond.cli.infer_command import MethodName, _simulator
from decond.lfi import METHODS

SIMULATOR = """
import os
import numpy as np

def simulate(theta, rng):
    waits = rng.exponential(1 / theta[0], 15)
    return [waits.mean(), waits.std()]

def failing(theta, rng):
    if theta[0] > 2.0:
        raise ValueError("too fast")
    return simulate(theta, rng)

def broken(theta, rng):
    raise ValueError("detector offline")

def greedy(theta, rng):
    return [theta[1]]

def named(theta, rng):
    return dict(zip(["middle", "std"], simulate(theta, rng)))

def talking(theta, rng):
    print("from the simulator")
    if rng.random() < 0.02:  # takes a while
        os.system("echo from a child")
    return simulate(theta, rng)

number = 3
"""

JOINT = """
import numpy as np
from scipy import stats
from decond import lfi

spread = [[1.0, 0.9], [0.9, 1.0]]
prior = lfi.Prior(stats.multivariate_normal([0.0, 0.0], spread), names=["level", "slope"])

def simulate(theta, rng):
    return theta + 0.5 * rng.standard_normal(2)
"""


@pytest.fixture(autouse=True)
def inputs(folder):
    """Write everything that an inference needs."""
    Path("waiting.py").write_text(SIMULATOR)
    Path("prior.toml").write_text('[rate]\ndistribution = "gamma"\na = 2.0\n', encoding="utf-8-sig")
    Path("seen.csv").write_text("mean,std\n0.59,0.6\n")


def arguments_of(simulator="waiting:simulate", *extra, prior="prior.toml", observed="seen.csv"):
    return ("infer", simulator, "--prior", prior, "--observed", observed, "-n", "60", "--rounds", "2", *extra)


def infer(*extra, **changes):
    return decond(*arguments_of("waiting:simulate", *extra, **changes))


def test_writes_draws_and_a_picture():
    said = infer()
    assert all(name in said for name in ("rate", "Verdict", "--check", "posterior.csv", "posterior.png"))
    draws = pd.read_csv("posterior.csv")
    assert draws.shape == (10_000, 1)
    assert 1.2 < draws["rate"].mean() < 2.3  # 1.72 exactly
    assert Path("posterior.png").read_bytes().startswith(b"\x89PNG")


def test_a_joint_prior_is_named_like_the_simulator():
    Path("joint.py").write_text(JOINT)
    found = json.loads(
        decond(*arguments_of("joint:simulate", "--json", "--method", "rejection", prior="joint:prior"))
    )
    assert list(found["parameters"]) == ["level", "slope"]
    for name, problem in (("joint:absent", "not there"), ("joint:spread", "list"), ("nowhere:prior", "no module")):
        assert problem in refusal(*arguments_of("joint:simulate", "--force", prior=name))


def test_an_empty_cell_was_not_measured():
    Path("part.csv").write_text("mean,std\n0.59,\n")
    quick = ("--json", "--force", "--report", "page.html")
    part, whole = (json.loads(infer(*quick, observed=name)) for name in ("part.csv", "seen.csv"))
    assert part["parameters"]["rate"]["mean"] == pytest.approx(whole["parameters"]["rate"]["mean"], abs=0.5)
    assert part["parameters"] != whole["parameters"]
    assert "--check" in refusal(*arguments_of("waiting:simulate", "--check", "--force", observed="part.csv"))


def test_json_and_a_store_that_is_used_again():
    first = json.loads(infer("--store", "runs.sqlite", "--json"))
    Path("waiting.py").unlink()  # nothing has to be simulated again
    second = json.loads(infer("--store", "runs.sqlite", "--json", "--output", "second.parquet"))
    assert (first["simulations"], first["failed"]) == (60, 0)
    assert first["parameters"] == second["parameters"]
    assert Path("second.png").exists()


def test_names_in_the_header_are_those_of_the_simulator_in_any_order():
    Path("turned.csv").write_text("std,middle\n0.6,0.59\n")
    Path("same.csv").write_text("middle,std\n0.59,0.6\n")
    quick = ("--json", "--method", "rejection", "--report", "page.html", "--force")
    turned, same = (
        json.loads(decond(*arguments_of("waiting:named", *quick, observed=name)))
        for name in ("turned.csv", "same.csv")
    )
    assert turned == same


def test_an_observation_of_a_spreadsheet():
    quick = ("--json", "--method", "rejection", "--force")
    expected = infer(*quick)
    Path("seen.csv").write_text("mean;std\n0,59;0,6\n")
    assert infer(*quick, "--separator", ";", "--decimal", ",") == expected


def test_a_posterior_is_checked_when_that_is_asked_for():
    assert "--check" not in infer("--method", "mcmc")
    found = json.loads(infer("--method", "rejection", "--check", "--force", "--json"))
    assert found["diagnosis"]["verdict"]
    said = infer("--method", "rejection", "--check", "--force")
    assert all(sentence in said for sentence in found["diagnosis"]["sentences"])


def test_json_stands_alone_on_stdout_and_the_diagnosis_is_in_report_and_json():
    options = ("--method", "rejection", "--check", "--report", "out.html", "--json")
    command = [sys.executable, "-m", "decond", *arguments_of("waiting:talking", *options)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert "from the simulator" in result.stderr
    assert "from a child" in result.stderr
    assert found["simulations"] == 60
    read = ReportPage(Path("out.html").read_text(encoding="utf-8"))
    assert found["verdict"] in read.verdict.text
    (judged,) = [sentence for sentence in found["diagnosis"]["sentences"] if sentence.startswith("Of 60 ")]
    assert judged in read.sections["trust"].text
    assert read.rows("observation")[0][:2] == ["mean", "0.59"]


def test_failures_are_counted():
    result = invoke(*arguments_of("waiting:failing"))
    assert result.exit_code == 0, result.output
    assert "ValueError: too fast" in result.stderr
    counts = json.loads(decond(*arguments_of("waiting:failing", "--json", "--method", "rejection", "--force")))
    assert 0 < counts["failed"] < counts["simulations"] == 60


def test_help_shows_a_whole_prior_and_every_method_of_summaries():
    said = decond("infer", "--help")
    assert "[rate]" in said
    assert set(get_args(MethodName)) == {"auto", *METHODS} - {"k2abc"}  # K2-ABC wants raw data


@pytest.mark.parametrize(
    ("simulator", "changes", "names"),
    [
        ("waiting:greedy", {}, ["IndexError", "rate"]),
        ("waiting:named", {}, ["mean, std", "middle, std"]),
        ("waiting:broken", {}, ["simulations failed", "ValueError: detector offline"]),
        ("waiting:simulate", {"prior": "bad.toml"}, ["'gama'", "'gamma'"]),
        ("waiting:simulate", {"observed": "rows.csv"}, ["rows.csv has 2 rows"]),
        ("waiting:simulate", {"observed": "text.csv"}, ["text.csv", "'std'", "row 1", "'much'"]),
    ],
)
def test_what_is_wrong_is_named(simulator, changes, names):
    Path("rows.csv").write_text("mean,std\n0.59,0.6\n0.59,0.6\n")
    Path("text.csv").write_text("mean,std\n0.59,much\n")
    Path("bad.toml").write_text('[rate]\ndistribution = "gama"\n')
    said = refusal(*arguments_of(simulator, **changes))
    assert all(name in said for name in names), said


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("waiting", "module:function"),
        ("waiting.py:simulate", "module:function"),
        ("waitin:simulate", "'waitin'"),
        ("imports_missing:simulate", "'not_installed_anywhere'"),
        ("fails_to_import:simulate", "ZeroDivisionError"),
        ("waiting:number", "broken, failing, greedy, named, simulate, talking"),
    ],
)
def test_a_simulator_that_cannot_be_found_is_refused(name, named):
    Path("imports_missing.py").write_text("import not_installed_anywhere\n")
    Path("fails_to_import.py").write_text("1 / 0\n")
    with refused("SIMULATOR") as caught:
        _simulator(name)
    assert named in str(caught.value)
