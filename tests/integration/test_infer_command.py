"""`decond infer`: from a module with a simulator, a prior in TOML and an observation to draws and a picture."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

from decond.cli import app
from decond.cli.infer import Files, MethodName, Outcome
from decond.lfi import METHODS, Posterior, PosteriorWarning, Prior, Simulations
from decond.lfi.diagnostics import Report
from decond.lfi.diagnostics.predictive import compare

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


def infer(simulator="waiting:simulate", *extra, prior="prior.toml", observed="seen.csv", code=0):
    arguments = ["infer", simulator, "--prior", prior, "--observed", observed, "-n", "60", "--rounds", "2", *extra]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.stderr if code else result.stdout


def test_writes_draws_and_a_picture(folder):
    said = infer()
    assert "posterior from 60 simulations (0 failed)" in said
    draws = pd.read_csv(folder / "posterior.csv")
    assert draws.shape == (10_000, 1)
    assert 1.2 < draws["rate"].mean() < 2.3  # 1.72 exactly
    assert (folder / "posterior.png").read_bytes().startswith(b"\x89PNG")


def test_json_and_a_store_that_is_used_again(folder):
    first = json.loads(infer("waiting:simulate", "--store", "runs.sqlite", "--json"))
    (folder / "waiting.py").unlink()  # nothing has to be simulated again
    second = json.loads(infer("waiting:simulate", "--store", "runs.sqlite", "--json", "--output", "second.parquet"))
    assert first["parameters"] == second["parameters"]
    assert (folder / "second.png").exists()


def test_names_in_the_header_are_those_of_the_simulator_in_any_order(folder):
    (folder / "turned.csv").write_text("std,middle\n0.6,0.59\n")
    (folder / "same.csv").write_text("middle,std\n0.59,0.6\n")
    turned, same = (
        json.loads(infer("waiting:named", "--json", "--report", "page.html", observed=name))
        for name in ("turned.csv", "same.csv")
    )
    assert turned == same


def test_a_prior_may_begin_with_a_byte_order_mark(folder):
    expected = infer("waiting:simulate", "--json")
    (folder / "prior.toml").write_text((folder / "prior.toml").read_text(), encoding="utf-8-sig")
    assert infer("waiting:simulate", "--json") == expected


def test_the_verdict_says_what_would_check_it(folder):
    assert "was not checked.\n--check judges whether its uncertainties are right (a minute or more).\n" in infer()
    assert "--check" not in infer("waiting:simulate", "--method", "mcmc")  # which would refuse it


@pytest.mark.parametrize("name", ["--check", "--diagnose"])  # the second is its name of before
def test_a_posterior_is_checked_by_the_option_that_checks_a_fit(folder, name):
    said = infer("waiting:simulate", "--method", "mcmc", name, code=2)
    assert "--check refits on held-out simulations, and --method mcmc runs the simulator itself" in said
    found = json.loads(infer("waiting:simulate", "--method", "rejection", "--json", name))
    assert found["diagnosis"]["verdict"]


def test_the_name_of_before_is_not_shown():
    for arguments in (["infer", "--help"], ["infer", "--no-such-option"]):
        said = CliRunner().invoke(app, arguments).output
        assert "--check" in said
        assert "--diagnose" not in said


def test_failures_are_counted(folder):
    result = CliRunner().invoke(
        app, ["infer", "waiting:failing", "--prior", "prior.toml", "--observed", "seen.csv", "-n", "100"]
    )
    assert result.exit_code == 0, result.output
    assert "too fast" in result.stderr
    assert "simulations failed" in result.stderr


def test_a_diagnosis_is_said_once_and_for_readers(capsys):
    notes = ["9 of 80 simulations failed (see probability_valid).", "the posterior rests on few."]
    prior = Prior({"[/rate]": stats.gamma(2)})
    with pytest.warns(PosteriorWarning):
        posterior = Posterior(prior, lambda n, rng: rng.gamma(4.0, 0.5, (n, 1)), notes=notes)
    simulated = np.random.default_rng(0).standard_normal((50, 1))
    check = compare(Simulations(simulated, simulated), np.array([[0.0]]))
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
    said = CliRunner().invoke(app, ["infer", "--help"]).output
    assert "[rate]" in said
    assert {name.value for name in MethodName} == {"auto", *METHODS} - {"k2abc"}  # K2-ABC wants raw data


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"simulator": "waiting"}, "module:function"),
        ({"simulator": "waiting.py:simulate"}, "without .py"),
        ({"simulator": "waitin:simulate"}, "no module 'waitin'"),
        ({"simulator": "waitin:simulate"}, "did you mean waiting?"),
        ({"simulator": "waiting:greedy"}, "with size 1 (the prior has 1 parameter: rate). Mend the simulator."),
        ({"simulator": "waiting:named"}, "observed has the names mean, std, but the simulator returns middle, std."),
        ({"simulator": "waiting:number"}, "It has: failing, greedy, named, simulate"),
        ({"prior": "none.toml"}, "no file none.toml"),
        ({"prior": "bad.toml"}, "not a continuous distribution"),
        ({"observed": "rows.csv"}, "has 2 rows"),
        ({"observed": "text.csv"}, "much"),
        ({"observed": "none.csv"}, "no file none.csv"),
    ],
)
def test_says_what_is_wrong(folder, changes, words):
    said = infer(**changes, code=2)
    assert words in " ".join(said.split()), said
