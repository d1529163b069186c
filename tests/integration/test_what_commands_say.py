"""What commands say of the slips of first users: one line that names the slip, and exit code 2."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import decond, invoke, refusal
from expected import refused, says_little

from decond.cli.predict import outside_range
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


def one_line(*arguments):
    """Return the message of a command that is refused, which is one line, without its end."""
    said = refusal(*arguments)
    assert said.count("\n") == 1
    return said.rstrip("\n")


# ---- fit -----------------------------------------------------------------------------------------------------


def test_swapped_tables_are_asked_about():
    said = one_line("fit", "harvest2022.csv", "soil2022.csv", *FIT)
    assert all(name in said for name in (FIELD, "harvest2022.csv", "soil2022.csv"))


def test_a_column_of_text_is_to_be_coded():
    said = one_line("fit", "soil2022.csv", "harvest2022.csv", *FIT, "--x", "kind")
    assert all(name in said for name in ("'kind'", "soil2022.csv", "'A', 'B'"))


def test_a_missing_table_names_the_nearest_one():
    said = one_line("fit", "soil2022.csv", "harvest202.csv", *FIT)
    assert all(name in said for name in ("harvest202.csv", "harvest2022.csv"))
    Path("empty").mkdir()
    assert "empty/harvest.csv" in one_line("fit", "soil2022.csv", "empty/harvest.csv", *FIT)


# ---- predict -------------------------------------------------------------------------------------------------


def test_predictions_beyond_the_data_are_called_so(folder):
    x = pd.DataFrame({"moisture": [11.2, 20.0, 44.1], "depth": [1.0, 2.0, 3.0]})
    save(DirectGP(RBF(10.0), optimize=False).fit(x, [1.0, 2.0, 3.0]), "model.decond")
    pd.DataFrame({"moisture": [200.0, -50.0], "depth": [1.0, 2.0]}).to_csv("new.csv", index=False)
    result = invoke("predict", "model.decond", "new.csv", "--json", "--output", "other.csv")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    [note] = found["notes"]
    assert (found["predictions"], found["rows"]) == ("other.csv", 2)
    assert "moisture 11.2 to 44.1" in note
    assert "depth" not in note
    result = invoke("predict", "model.decond", "new.csv")
    assert (result.exit_code, result.stdout) == (0, "wrote predictions.csv\n")
    assert result.stderr == f"Warning: {note}\n"
    x.to_csv("new.csv", index=False)
    assert invoke("predict", "model.decond", "new.csv").stderr == ""


def test_rows_outside_the_range_of_the_data_are_counted():
    model = DirectGP(RBF(10.0), optimize=False).fit([[11.2, 1.0], [20.0, 2.0], [44.1, 3.0]], [1.0, 2.0, 3.0])
    for moisture, depth, count, columns in (
        ([200.0, -50.0], [1.0, 2.0], 2, ["moisture"]),
        ([11.2, 44.1], [3.0, 3.1], 1, ["depth"]),
        ([11.0, 44.1], [3.0, 3.1], 2, ["moisture", "depth"]),
        ([11.2, 44.1], [1.0, 3.0], 0, []),
    ):
        outside = outside_range(model, pd.DataFrame({"moisture": moisture, "depth": depth}))
        assert outside.any(axis=1).sum() == count
        assert list(outside.columns[outside.any(axis=0)]) == columns


def test_the_help_says_where_the_predictions_are():
    assert "--output" in " ".join(decond("predict", "--help").split("--json", 1)[1].split())


# ---- infer ---------------------------------------------------------------------------------------------------


def test_a_simulator_that_always_raises_is_one_message(folder):
    said = one_line("infer", "detector:broken", *INFER)
    assert all(words in said for words in ("24", "ValueError: detector offline"))
    said = one_line("infer", "detector:broken", *INFER, "--store", "runs.sqlite")
    assert "SimulationStore('runs.sqlite').retry_failures()" in said


# ---- models --------------------------------------------------------------------------------------------------


X, Y = np.linspace(0.0, 5.0, 12), np.linspace(-1.0, 1.0, 12)
KEEPING = {
    "direct": (DirectGP(RBF(1.0), optimize=False), (X[:, None], Y)),
    "task": (TaskTransformedGP(n_restarts=0), (X, np.sin(X), np.sin(X[::2]), Y[::2])),
}


@pytest.mark.parametrize(("estimator", "tables"), KEEPING.values(), ids=KEEPING.keys())
def test_models_that_keep_their_rows_draw_over_them(estimator, tables, folder):
    with says_little():
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
    with says_little():
        model = estimator.fit(*tables)
    with refused("x"):
        model.plot()
    assert model.plot(X).line_.get_xdata().max() == 5.0
