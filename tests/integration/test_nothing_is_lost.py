"""Commands write their own files again, and say so; a file that they did not write is never lost."""

import datetime
import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import decond, refusal
from expected import refused
from matplotlib.figure import Figure

from decond.cli.outputs import check_model
from decond.io import load

FIT = ("fit", "hours.csv", "days.csv", "--x", "wind", "--y", "day", "--z", "power", "--aggregate", "--restarts", "0")
INFER = ("infer", "waits_here:simulate", "--prior", "prior.toml", "--observed", "seen.csv", "-n", "30")
MINE = "site,height\nnorth,12\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return a folder with the inputs of all commands, in which they run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    wind = np.random.default_rng(0).uniform(0, 10, 40)
    hours = pd.DataFrame({"day": np.repeat(np.arange(10), 4), "wind": wind})
    hours.to_csv("hours.csv", index=False)
    hours.groupby("day")["wind"].mean().rename("power").to_csv("days.csv")
    Path("waits_here.py").write_text(
        "def simulate(theta, rng):\n    return [rng.exponential(1 / theta[0], 15).mean()]\n"
    )
    Path("prior.toml").write_text('[rate]\ndistribution = "gamma"\na = 2.0\n')
    Path("seen.csv").write_text("mean\n0.59\n")
    return tmp_path


def refused_and_kept(path, *arguments):
    """Run a command that would write onto a file; return why not, after a look at every file."""
    before = {file.name: file.read_bytes() for file in Path().iterdir() if file.is_file()}
    assert path in before
    said = refusal(*arguments)
    assert {file.name: file.read_bytes() for file in Path().iterdir() if file.is_file()} == before
    return said


# ---- what decond wrote ---------------------------------------------------------------------------------------


def test_a_fit_says_what_it_replaced_and_of_when():
    first = decond(*FIT, "--report", "page.html")
    assert first.endswith("wrote model.decond\nwrote model.png\nwrote page.html\n")
    then = datetime.datetime(2024, 5, 17, 15, 2).timestamp()
    os.utime("model.decond", (then, then))
    again = decond(*FIT, "--report", "page.html", "--seed", "1")
    assert "\nreplaced model.decond of 2024-05-17 15:02\n" in again
    assert re.search(r"\nreplaced model\.png of [\d: -]+\nreplaced page\.html of [\d: -]+\n$", again)
    assert load("model.decond").seed == 1
    assert set(json.loads(decond(*FIT, "--json"))) >= {"model", "picture"}  # one JSON object, and nothing else


def test_an_inference_says_what_it_replaced():
    assert decond(*INFER).endswith("wrote posterior.csv\nwrote posterior.png\n")
    assert re.search(r"\nreplaced posterior\.csv of [\d: -]+\nreplaced posterior\.png of [\d: -]+\n$", decond(*INFER))


@pytest.mark.parametrize("name", ["draws.parquet", "draws.csv.gz"])
def test_draws_are_known_by_their_picture_and_by_the_names_of_parameters(name):
    decond(*INFER, "-o", name)
    assert f"replaced {name} of " in decond(*INFER, "-o", name)
    Path("prior.toml").write_text('[speed]\ndistribution = "gamma"\na = 2.0\n')
    assert name in refused_and_kept(name, *INFER, "-o", name)
    Path("prior.toml").write_text('[rate]\ndistribution = "gamma"\na = 2.0\n')
    Path("draws.png").unlink()
    assert name in refused_and_kept(name, *INFER, "-o", name)


@pytest.mark.parametrize("name", ["predictions.csv", "predictions.tsv", "predictions.parquet"])
def test_predictions_for_the_same_columns_are_replaced_and_for_others_refused(name):
    decond(*FIT)
    predict = ("predict", "model.decond", "hours.csv", "-o", name)
    assert decond(*predict) == f"wrote {name}\n"
    pd.read_csv("hours.csv")[:3].to_csv("hours.csv", index=False)
    assert re.fullmatch(rf"replaced {name} of [\d: -]+\n", decond(*predict))
    pd.DataFrame({"site": ["a"], "wind": [5.0]}).to_csv("new.csv", index=False)
    assert name in refused_and_kept(name, "predict", "model.decond", "new.csv", "-o", name)


def test_an_empty_file_can_be_written_to():
    for name in ("model.decond", "page.html"):
        Path(name).touch()
    assert "replaced model.decond of " in decond(*FIT, "--report", "page.html")
    assert len(load("model.decond").predict(pd.DataFrame({"wind": [1.0]}))) == 1


# ---- what decond did not write -------------------------------------------------------------------------------

IN_THE_WAY = {
    "model": ("results.decond", (*FIT, "-o", "results.decond"), "--output"),
    "report": ("page.html", (*FIT, "--report", "page.html"), "--report"),
    "report of an inference": ("page.html", (*INFER, "--report", "page.html"), "--report"),
    "draws": ("table.csv", (*INFER, "-o", "table.csv"), "--output"),
    "predictions": ("predictions.csv", ("predict", "model.decond", "hours.csv"), "--output"),
}


@pytest.mark.parametrize(("name", "arguments", "option"), IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_a_file_of_the_user_is_kept(name, arguments, option):
    if arguments[0] == "predict":
        decond(*FIT)
    Path(name).write_text(MINE)
    said = refused_and_kept(name, *arguments)
    assert said.startswith(name)
    assert option in said


def test_a_table_of_the_users_own_means_is_not_a_prediction():
    decond(*FIT)
    for columns in ("site,mean,sd", "wind,mean,sd", "day,wind,mean", "wind,day,mean,sd"):
        Path("predictions.csv").write_text(columns + "\n" + ",".join("1" * len(columns.split(","))) + "\n")
        said = refused_and_kept("predictions.csv", "predict", "model.decond", "hours.csv")
        assert said.startswith("predictions.csv")
    Path("predictions.csv").write_bytes(b"\0")  # which is not a table at all
    assert refused_and_kept("predictions.csv", "predict", "model.decond", "hours.csv").startswith("predictions.csv")


def test_a_chain_of_the_user_is_not_a_set_of_draws():
    pd.DataFrame({"rate": np.ones(10_000)}).to_csv("mcmc.csv", index=False)
    assert refused_and_kept("mcmc.csv", *INFER, "-o", "mcmc.csv").startswith("mcmc.csv")


def test_a_table_beside_a_picture_of_decond_is_not_a_set_of_draws():
    decond(*FIT, "-o", "table.decond")
    Path("table.csv").write_text(MINE)
    assert refused_and_kept("table.csv", *INFER, "-o", "table.csv").startswith("table.csv")


def test_another_zip_is_not_a_model():
    pd.DataFrame({"x": [1.0]}).to_csv("model.decond", index=False, compression="zip")
    assert refused_and_kept("model.decond", *FIT).startswith("model.decond")


def test_another_picture_is_kept():
    Figure().savefig("posterior.png")
    assert "posterior.png" in refused_and_kept("posterior.png", *INFER)


@pytest.mark.parametrize("name", ["hours.csv", "./days.csv", "link.csv"])
def test_inputs_are_never_written_to(name):
    os.symlink("days.csv", "link.csv")
    assert refused_and_kept("days.csv", *FIT, "-o", name).startswith(str(Path(name)))


@pytest.mark.parametrize(("name", "writer"), [("model.csv", "decond predict"), ("model.html", "--report")])
def test_a_model_is_not_called_like_something_else(name, writer):
    with refused("--output") as caught:
        check_model(Path(name))
    said = refusal(*FIT, "-o", name)
    assert said == f"{caught.value}\n"
    assert writer in said
    assert "model.decond" in said
    assert not Path(name).exists()
