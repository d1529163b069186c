"""`decond infer`: from a module with a simulator, a prior in TOML and an observation to draws and a picture."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import decond, invoke, refusal
from expected import raised, refused
from scipy import stats

from decond.cli.infer import Files, MethodName, Outcome
from decond.cli.simulators import read_observation, simulator_named
from decond.lfi import METHODS, Posterior, PosteriorWarning, Prior, Simulations
from decond.lfi.diagnostics import Report
from decond.lfi.diagnostics.predictive_checks import observation_among
from decond.tables import TableError

SIMULATOR = """
import numpy as np

def simulate(theta, rng):
    waits = rng.exponential(1 / theta[0], 15)
    return [waits.mean(), waits.std()]

def failing(theta, rng):
    if theta[0] > 2.0:
        raise ValueError("too fast")
    return simulate(theta, rng)

def greedy(theta, rng):
    return [theta[1]]

def named(theta, rng):
    return dict(zip(["middle", "std"], simulate(theta, rng)))

number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with everything that an inference needs, in which commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "waiting.py").write_text(SIMULATOR)
    (tmp_path / "prior.toml").write_text('[rate]\ndistribution = "gamma"\na = 2.0\n')
    (tmp_path / "seen.csv").write_text("mean,std\n0.59,0.6\n")
    (tmp_path / "rows.csv").write_text("mean,std\n0.59,0.6\n0.59,0.6\n")
    (tmp_path / "text.csv").write_text("mean,std\n0.59,much\n")
    (tmp_path / "bad.toml").write_text('[rate]\ndistribution = "gama"\n')
    return tmp_path


def arguments_of(simulator="waiting:simulate", *extra, prior="prior.toml", observed="seen.csv"):
    return ("infer", simulator, "--prior", prior, "--observed", observed, "-n", "60", "--rounds", "2", *extra)


def infer(*extra, **changes):
    return decond(*arguments_of("waiting:simulate", *extra, **changes))


def test_writes_draws_and_a_picture(folder):
    said = infer()
    assert "--check" in said  # what would judge it
    assert all(name in said for name in ("rate", "posterior.csv", "posterior.png"))
    draws = pd.read_csv(folder / "posterior.csv")
    assert draws.shape == (10_000, 1)
    assert 1.2 < draws["rate"].mean() < 2.3  # 1.72 exactly
    assert (folder / "posterior.png").read_bytes().startswith(b"\x89PNG")


def test_json_and_a_store_that_is_used_again(folder):
    first = json.loads(infer("--store", "runs.sqlite", "--json"))
    (folder / "waiting.py").unlink()  # nothing has to be simulated again
    second = json.loads(infer("--store", "runs.sqlite", "--json", "--output", "second.parquet"))
    assert (first["simulations"], first["failed"]) == (60, 0)
    assert first["parameters"] == second["parameters"]
    assert (folder / "second.png").exists()


def test_names_in_the_header_are_those_of_the_simulator_in_any_order(folder):
    (folder / "turned.csv").write_text("std,middle\n0.6,0.59\n")
    (folder / "same.csv").write_text("middle,std\n0.59,0.6\n")
    quick = ("--json", "--method", "rejection", "--report", "page.html")
    turned, same = (
        json.loads(decond(*arguments_of("waiting:named", *quick, observed=name)))
        for name in ("turned.csv", "same.csv")
    )
    assert turned == same


def test_a_prior_may_begin_with_a_byte_order_mark(folder):
    expected = infer("--method", "rejection", "--json")
    (folder / "prior.toml").write_text((folder / "prior.toml").read_text(), encoding="utf-8-sig")
    assert infer("--method", "rejection", "--json") == expected


def test_a_method_that_cannot_be_checked_does_not_name_the_option(folder):
    assert "--check" not in infer("--method", "mcmc")


@pytest.mark.parametrize("name", ["--check", "--diagnose"])  # the second is its name of before
def test_a_posterior_is_checked_by_the_option_that_checks_a_fit(folder, name):
    said = refusal(*arguments_of("waiting:simulate", "--method", "mcmc", name))
    assert all(option in said for option in ("--check", "--method mcmc"))
    found = json.loads(infer("--method", "rejection", "--json", name))
    assert found["diagnosis"]["verdict"]


def test_the_name_of_before_is_not_shown():
    for arguments in (["infer", "--help"], ["infer", "--no-such-option"]):
        said = invoke(*arguments).output
        assert "--check" in said
        assert "--diagnose" not in said


def test_failures_are_counted(folder):
    result = invoke(*arguments_of("waiting:failing"))
    assert result.exit_code == 0, result.output
    assert "ValueError: too fast" in result.stderr
    counts = json.loads(decond(*arguments_of("waiting:failing", "--json", "--method", "rejection")))
    assert 0 < counts["failed"] < counts["simulations"] == 60


def test_a_diagnosis_is_said_once_and_for_readers(capsys):
    notes = ["9 of 80 simulations failed (see probability_valid).", "the posterior rests on few."]
    prior = Prior({"[/rate]": stats.gamma(2)})
    with pytest.warns(PosteriorWarning):
        posterior = Posterior(prior, lambda n, rng: rng.gamma(4.0, 0.5, (n, 1)), notes=notes)
    simulated = np.random.default_rng(0).standard_normal((50, 1))
    check = observation_among(Simulations(simulated, simulated), np.array([[0.0]]))
    diagnosis = Report(posterior, None, None, check, from_posterior=True, remote_share=0.4)
    files = Files(Path("draws.csv"), Path("draws.png"), None)
    warned = [notes[0].replace(" (see probability_valid)", ""), notes[1], "new"]
    Outcome(posterior, diagnosis, "All is well.", warned, (), files, {}).say()
    said = capsys.readouterr()
    assert "[/rate]" in said.out  # a name, no markup
    assert "Verdict: All is well.\n- " in said.out
    assert "9 of 80 simulations failed." in said.out
    assert "The posterior rests on few." in said.out
    assert said.err == "Warning: new\n"
    assert said.out.endswith("wrote draws.csv\nwrote draws.png\n")


def test_help_shows_a_whole_prior_and_every_method_of_summaries():
    said = decond("infer", "--help")
    assert "[rate]" in said
    assert {name.value for name in MethodName} == {"auto", *METHODS} - {"k2abc"}  # K2-ABC wants raw data


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"simulator": "waiting:greedy"}, ["IndexError", "rate"]),
        ({"simulator": "waiting:named"}, ["mean, std", "middle, std"]),
        ({"prior": "none.toml"}, ["none.toml"]),
        ({"prior": "bad.toml"}, ["'gama'", "'gamma'"]),
        ({"observed": "none.csv"}, ["none.csv"]),
    ],
)
def test_what_is_wrong_is_named(folder, changes, names):
    said = refusal(*arguments_of(**changes))
    assert all(name in said for name in names), said


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("waiting", "module:function"),
        ("waiting.py:simulate", "waiting:simulate"),
        ("waitin:simulate", "waiting?"),
        ("imports_missing:simulate", "not_installed_anywhere"),
        ("fails_to_import:simulate", "ZeroDivisionError"),
        ("waiting:number", "failing, greedy, named, simulate"),
    ],
)
def test_a_simulator_that_cannot_be_found_is_refused(folder, name, named):
    (folder / "imports_missing.py").write_text("import not_installed_anywhere\n")
    (folder / "fails_to_import.py").write_text("1 / 0\n")
    with refused("simulator") as caught:
        simulator_named(name)
    assert named in str(caught.value)


def test_an_observation_is_one_row_of_numbers(folder):
    with raised(TableError, table="rows.csv", count=2):
        read_observation(folder / "rows.csv")
    with raised(TableError, table="text.csv", column="std", line=2, value="much"):
        read_observation(folder / "text.csv")
