"""`decond fit --sparse` on Parquet files: streamed by this process, by workers beside it, or by a cluster."""

import json
import subprocess
import sys

import distributed
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from decond.cli import app
from decond.cli.jobs import Request, prepare
from decond.io import load
from decond.scale import cluster

ROWS = 3000
SPARSE = ("--x", "wind", "--x", "height", "--z", "power", "--sparse", "--inducing", 12, "--max-iterations", 8)
"""Few iterations: sums that differ anywhere show in the first ones, and each is two passes over all workers."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder in which commands run, with a table in three Parquet files and as CSV."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"wind": rng.uniform(0, 6, ROWS), "height": rng.uniform(0, 1, ROWS)})
    table["power"] = np.sin(table["wind"]) + table["height"] + 0.1 * rng.standard_normal(ROWS)
    table.to_csv("table.csv", index=False)
    (tmp_path / "table").mkdir()
    for i in range(3):
        table[i * ROWS // 3 : (i + 1) * ROWS // 3].to_parquet(f"table/part{i}.parquet", row_group_size=301)
    return tmp_path


def decond(*arguments, code=0):
    """Run a command in this process and return what it printed."""
    result = CliRunner().invoke(app, ["fit", *map(str, arguments)])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.stderr if code else result.stdout


def run(*arguments):
    """Run a command in a process of its own, where every warning is an error."""
    command = [sys.executable, "-W", "error", "-m", "decond", "fit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_files_give_the_model_of_the_same_table_as_text(folder):
    printed = decond("table.csv", *SPARSE, "-o", "text.decond")
    assert "power as a function of wind, height, from 3000 rows" in printed
    expected = load("text.decond")
    query = pd.DataFrame({"wind": [1.0, 4.0], "height": [0.5, 0.2]})
    for name, paths in {
        "files": sorted(folder.glob("table/*")),
        "folder": ["table"],
        "pattern": ["table/part*"],
    }.items():
        printed = decond(*paths, *SPARSE, "-o", f"{name}.decond")
        assert "power as a function of wind, height, from 3000 rows in 3 files" in printed
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        np.testing.assert_array_equal(load(f"{name}.decond").predict(query), expected.predict(query))


def test_the_picture_shows_a_sample_of_a_table_on_disk(folder):
    request = Request([folder / "table"], ["wind", "height"], [], "power", sparse=True)
    job = prepare(request)
    assert job.x is None  # nothing was read yet
    seen, table = job.with_rows(None), pd.read_csv("table.csv")
    pd.testing.assert_frame_equal(seen.x, table[["wind", "height"]])
    np.testing.assert_array_equal(seen.z_of_rows, table["power"])


def assert_same_model(name, other):
    """Compare predictions: sums are added in the same order everywhere, so they are the same to the last bit."""
    query = pd.DataFrame({"wind": np.linspace(0.5, 5.5, 9), "height": np.linspace(0.1, 0.9, 9)})
    np.testing.assert_array_equal(load(name).predict(query), load(other).predict(query))


def test_workers_on_this_machine_give_the_same_answer_and_no_noise(folder):
    decond("table", *SPARSE)
    found = run("table", *SPARSE, "--workers", 2, "--json", "-o", "workers.decond")
    assert (found.returncode, found.stderr) == (0, "")
    assert json.loads(found.stdout)["title"] == "power as a function of wind, height, from 3000 rows in 3 files"
    assert_same_model("workers.decond", "model.decond")


def test_a_running_cluster_does_the_work(folder):
    decond("table", *SPARSE)
    options = {
        "n_workers": 1,
        "threads_per_worker": 2,
        "processes": False,
        "protocol": "tcp",
        "dashboard_address": "127.0.0.1:0",
    }
    with distributed.LocalCluster(**options, silence_logs="ERROR") as local:
        for table in ("table", "table.csv"):
            decond(table, *SPARSE, "--cluster", local.scheduler_address, "-o", "cluster.decond")
            assert_same_model("cluster.decond", "model.decond")
        (folder / "table" / "part1.parquet").write_bytes(b"PAR1 and then nothing")
        said = decond("table", *SPARSE, "--cluster", local.scheduler_address, code=2)
        assert "part1.parquet cannot be read as Parquet" in said


WRONG = {
    "both": (
        ("table", *SPARSE, "--workers", 2, "--cluster", "tcp://a:1"),
        "--workers and --cluster exclude each other",
    ),
    "not sparse": (
        ("a.csv", "b.csv", "--x", "a", "--y", "b", "--z", "c", "--workers", 2),
        "--workers has no meaning without --sparse; leave it out",
    ),
    "no cluster": (
        ("table", *SPARSE, "--cluster", "tcp://127.0.0.1:9"),
        "no Dask scheduler answers at 'tcp://127.0.0.1:9'",
    ),
    "several texts": (
        ("table.csv", "table", *SPARSE),
        "--sparse takes one table, but 2 were given. Several files are read as one table if all of them are Parquet; "
        "table.csv is not.",
    ),
    "no such column": (("table", *SPARSE, "--x", "widn"), "part0.parquet has no column 'widn'; did you mean 'wind'?"),
    "no such file": (("table/part9.parquet", *SPARSE), "no file table/part9.parquet; did you mean table/part"),
    "no such pattern": (("table/x*.parquet", *SPARSE), "no file matches the pattern 'table/x*.parquet'"),
    "an empty folder": (("empty", *SPARSE), "the folder empty and those below have no files"),
    "a single row": (("one.parquet", *SPARSE), "one.parquet has 1 row; fitting needs at least 2"),
    "a missing value": (("gap.parquet", *SPARSE), "gap.parquet has an empty cell in row 2"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_fitted_says_what_to_do(folder, arguments, message, monkeypatch):
    monkeypatch.setattr(cluster, "TIMEOUT", 0.5)
    (folder / "empty").mkdir()
    row = {"wind": [1.0], "height": [2.0], "power": [3.0]}
    pd.DataFrame(row).to_parquet("one.parquet")
    gap = pd.DataFrame({**row, "height": [np.nan]})
    pd.concat([pd.DataFrame(row), gap]).to_parquet("gap.parquet")
    assert message in decond(*arguments, code=2)
    assert not (folder / "model.decond").exists()
