"""What commands say of the slips of first users: one sentence that helps, and exit code 2 where it is an error."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from decond.cli import app
from decond.estimators import CascadeGP, DirectGP, SparseGP, TaskTransformedGP, TaskTransformedRidge
from decond.io import load, save
from decond.kernels import RBF

FIELD = "soil moisture (%)"
FIT = ("--x", FIELD, "--y", "pressure", "--z", "yield", "--restarts", "0")
INFER = ("--prior", "prior.toml", "--observed", "seen.csv", "-n", "24", "--rounds", "1")

SIMULATOR = """
def broken(theta, rng):
    raise ValueError("detector offline")

def works(theta, rng):
    return [rng.normal(theta[0]), rng.normal(theta[0])]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Make tables and a simulator, in a folder where commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    rng = np.random.default_rng(0)
    pressure = rng.uniform(-1.0, 1.0, 12)
    soil = {FIELD: 30.0 + 10.0 * pressure, "kind": ["A", "B"] * 6, "pressure": pressure}
    pd.DataFrame(soil).to_csv("soil2022.csv", index=False)
    pd.DataFrame({"pressure": pressure, "yield": 2.0 * pressure}).to_csv("harvest2022.csv", index=False)
    (tmp_path / "detector.py").write_text(SIMULATOR)
    (tmp_path / "prior.toml").write_text('[level]\ndistribution = "norm"\n')
    (tmp_path / "seen.csv").write_text("early,late\n99,0\n")
    return tmp_path


def decond(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def refusal(*arguments):
    """Return the one message of a command that must end with exit code 2."""
    result = decond(*arguments)
    assert isinstance(result.exception, SystemExit), result.exception
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").rstrip("\n")


# ---- fit -----------------------------------------------------------------------------------------------------


def test_swapped_tables_are_asked_about():
    expected = f"harvest2022.csv has no column '{FIELD}', but soil2022.csv has. Are the two tables swapped?"
    assert refusal("fit", "harvest2022.csv", "soil2022.csv", *FIT) == expected


def test_a_column_of_text_is_to_be_coded():
    said = refusal("fit", "soil2022.csv", "harvest2022.csv", *FIT, "--x", "kind")
    assert said.startswith("column 'kind' of soil2022.csv holds no numbers ('A', 'B'). It is text")
    assert "columns of 0 and 1" in said
    assert "row" not in said


def test_a_missing_table_names_the_nearest_one():
    said = refusal("fit", "soil2022.csv", "harvest202.csv", *FIT)
    assert said == "there is no file harvest202.csv; did you mean harvest2022.csv?"
    Path("empty").mkdir()
    said = refusal("fit", "soil2022.csv", "empty/harvest.csv", *FIT)
    assert said.startswith("there is no file empty/harvest.csv, nor any other table in its folder. Give the path")


# ---- predict -------------------------------------------------------------------------------------------------


def test_predictions_beyond_the_data_are_called_so(folder):
    x = pd.DataFrame({"moisture": [11.2, 20.0, 44.1], "depth": [1.0, 2.0, 3.0]})
    save(DirectGP(RBF(10.0), optimize=False).fit(x, [1.0, 2.0, 3.0]), "model.decond")
    pd.DataFrame({"moisture": [200.0, -50.0], "depth": [1.0, 2.0]}).to_csv("new.csv", index=False)
    note = (
        "2 of 2 rows lie outside the range of the data (moisture 11.2 to 44.1): predictions there are extrapolations."
    )
    result = decond("predict", "model.decond", "new.csv")
    assert (result.exit_code, result.stdout) == (0, "wrote predictions.csv\n")
    assert result.stderr == f"Warning: {note}\n"
    result = decond("predict", "model.decond", "new.csv", "--json", "--output", "other.csv")
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert (found["predictions"], found["rows"], found["notes"]) == ("other.csv", 2, [note])
    pd.DataFrame({"moisture": [11.2, 44.1], "depth": [3.0, 3.1]}).to_csv("new.csv", index=False)
    assert (
        "1 of 2 rows lies outside the range of the data (depth 1 to 3)"
        in decond("predict", "model.decond", "new.csv").stderr
    )
    x.to_csv("new.csv", index=False)
    assert decond("predict", "model.decond", "new.csv").stderr == ""


def test_the_help_says_where_the_predictions_are():
    said = " ".join(decond("predict", "--help").stdout.replace("│", " ").split())
    assert "Print a summary as JSON; the predictions are in --output." in said


# ---- infer ---------------------------------------------------------------------------------------------------


def test_a_simulator_that_always_raises_is_one_message(folder):
    said = refusal("infer", "detector:broken", *INFER)
    assert said == "all 24 simulations failed: ValueError: detector offline. Mend the simulator."
    said = refusal("infer", "detector:broken", *INFER, "--store", "runs.sqlite")
    assert said.endswith("use a new one, or open them again with SimulationStore('runs.sqlite').retry_failures().")


# ---- models --------------------------------------------------------------------------------------------------


X, Y = np.linspace(0.0, 5.0, 12), np.linspace(-1.0, 1.0, 12)
KEEPING = {
    "direct": (DirectGP(RBF(1.0), optimize=False), (X[:, None], Y)),
    "task": (TaskTransformedGP(n_restarts=0), (X, np.sin(X), np.sin(X[::2]), Y[::2])),
}


@pytest.mark.parametrize(("estimator", "tables"), KEEPING.values(), ids=KEEPING.keys())
def test_models_that_keep_their_rows_draw_over_them(estimator, tables, folder):
    save(estimator.fit(*tables), "model.decond")
    for model in (estimator, load("model.decond")):
        line = model.plot().line_.get_xdata()
        assert (line.min(), line.max()) == (0.0, 5.0)


@pytest.mark.parametrize(
    ("estimator", "tables"),
    [
        (SparseGP(3, kernel=RBF(1.0), optimize=False), (X[:, None], Y)),
        (TaskTransformedRidge(), (X, np.sin(X), np.sin(X[::2]), Y[::2])),
        (CascadeGP(n_restarts=0), (X, np.sin(X), np.sin(X[::2]), Y[::2])),
    ],
    ids=["sparse", "ridge", "cascade"],
)
def test_models_that_keep_no_rows_ask_for_some(estimator, tables):
    model = estimator.fit(*tables)
    with pytest.raises(ValueError, match=r"^\w+ cannot tell over which x.* Give rows .*: plot\(x\)\.$"):
        model.plot()
    assert model.plot(X).line_.get_xdata().max() == 5.0
