"""`decond fit --sparse` on Parquet files: streamed by this process, by workers beside it, or by a cluster."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import distributed
import numpy as np
import pandas as pd
import pytest
from commands import decond, invoke, refusal
from processes import DEADLINE, wait_until
from report_pages import ReportPage

from decond.cli.fit_command import FitRequest, prepare
from decond.io import load

ROWS = 3000
SPARSE = ("--x", "wind", "--x", "height", "--z", "power", "--sparse", "--inducing", 12, "--max-iterations", 8)
"""Few iterations: sums that differ anywhere show in the first ones, and each is two passes over all workers."""


@pytest.fixture(autouse=True)
def inputs(folder):
    """Write a table as three Parquet files and as CSV."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"wind": rng.uniform(0, 6, ROWS), "height": rng.uniform(0, 1, ROWS)})
    table["power"] = np.sin(table["wind"]) + table["height"] + 0.1 * rng.standard_normal(ROWS)
    table.to_csv("table.csv", index=False)
    (folder / "table").mkdir()
    for i in range(3):
        table[i * ROWS // 3 : (i + 1) * ROWS // 3].to_parquet(f"table/part{i}.parquet", row_group_size=301)


def test_files_give_the_model_of_the_same_table_as_text(folder):
    decond("fit", "table.csv", *SPARSE, "-o", "text.decond")
    expected = load("text.decond")
    query = pd.DataFrame({"wind": [1.0, 4.0], "height": [0.5, 0.2]})
    for name, paths in {
        "files": sorted(folder.glob("table/*")),
        "folder": ["table"],
        "pattern": ["table/part*"],
    }.items():
        found = json.loads(decond("fit", *paths, *SPARSE, "-o", f"{name}.decond", "--json"))
        assert f"{ROWS:,}" in found["title"]
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        np.testing.assert_allclose(load(f"{name}.decond").predict(query), expected.predict(query), rtol=1e-6)


def test_the_picture_shows_a_sample_of_a_table_on_disk(folder):
    request = FitRequest([folder / "table"], ["wind", "height"], "power", sparse=True)
    job = prepare(request)
    assert job.x is None  # nothing was read yet
    seen, table = job.with_rows(None), pd.read_csv("table.csv", dtype=str).astype(float)
    pd.testing.assert_frame_equal(seen.x, table[["wind", "height"]])
    np.testing.assert_array_equal(seen.z, table["power"])


def test_a_table_on_disk_is_reported_from_a_sample(folder):
    wind = np.random.default_rng(0).uniform(0, 9, 11_000)
    pd.DataFrame({"wind": wind, "power": wind**2}).to_parquet("long.parquet")
    decond("fit", "long.parquet", "--x", "wind", "--z", "power", "--sparse", "--inducing", 5, "--report", "r.html")
    read = ReportPage(Path("r.html").read_text(encoding="utf-8"))
    assert [line[2] for line in read.rows("data-shape")] == ["11,000", "11,000"]
    assert [re.findall(r"[\d,]*\d", note) for note in read.items("notes")] == [["5,000", "11,000"]]


def assert_same_model(name, other):
    """Compare predictions: sums are equal to rounding, which the search for hyperparameters amplifies."""
    query = pd.DataFrame({"wind": np.linspace(0.5, 5.5, 9), "height": np.linspace(0.1, 0.9, 9)})
    np.testing.assert_allclose(load(name).predict(query), load(other).predict(query), rtol=1e-6)


@pytest.mark.slow  # a process that starts three others
def test_workers_on_this_machine_give_the_same_answer_and_no_noise(folder):
    decond("fit", "table", *SPARSE)
    command = [sys.executable, "-W", "error", "-m", "decond", "fit", "table", *map(str, SPARSE), "--json"]
    options = ["--workers", "2", "-o", "workers.decond"]
    found = subprocess.run([*command, *options], capture_output=True, text=True, timeout=600)
    assert (found.returncode, found.stderr) == (0, "")
    assert json.loads(found.stdout)["model"] == "workers.decond"
    assert_same_model("workers.decond", "model.decond")


def test_a_running_cluster_does_the_work(folder):
    decond("fit", "table", *SPARSE)
    options = {"processes": False, "protocol": "tcp", "dashboard_address": "127.0.0.1:0", "silence_logs": "ERROR"}
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, **options) as local:
        for table in ("table", "table.csv"):
            decond("fit", table, *SPARSE, "--cluster", local.scheduler_address, "-o", "cluster.decond", "--force")
            assert_same_model("cluster.decond", "model.decond")
        (folder / "table" / "part1.parquet").write_bytes(b"PAR1 and then nothing")
        assert "part1.parquet" in refusal("fit", "table", *SPARSE, "--cluster", local.scheduler_address, "--force")


WRONG = {
    # arguments, and what is named
    "both": (("table", *SPARSE, "--workers", 2, "--cluster", "tcp://a:1"), ("--workers", "--cluster")),
    "not sparse": (
        ("a.csv", "b.csv", "--x", "a", "--y", "b", "--z", "c", "--workers", 2),
        ("--workers", "--sparse"),
    ),
    "no cluster": (("table", *SPARSE, "--cluster", "tcp://127.0.0.1"), ("'tcp://127.0.0.1'",)),
    "several texts": (("table.csv", "table", *SPARSE), ("--sparse", "table.csv")),
    "no such column": (("table", *SPARSE, "--x", "widn"), ("part0.parquet", "'widn'", "'wind'")),
    "no such file": (("table/part9.parquet", *SPARSE), ("table/part9.parquet", "table/part2.parquet")),
    "no such pattern": (("table/x*.parquet", *SPARSE), ("'table/x*.parquet'",)),
    "an empty folder": (("empty", *SPARSE), ("empty",)),
    "a single row": (("one.parquet", *SPARSE), ("one.parquet",)),
    "a missing value": (("gap.parquet", *SPARSE), ("gap.parquet", "row 2")),
}


@pytest.mark.parametrize(("arguments", "names"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_fitted_is_named(folder, arguments, names):
    (folder / "empty").mkdir()
    row = {"wind": [1.0], "height": [2.0], "power": [3.0]}
    pd.DataFrame(row).to_parquet("one.parquet")
    gap = pd.DataFrame({**row, "height": [np.nan]})
    pd.concat([pd.DataFrame(row), gap]).to_parquet("gap.parquet")
    said = refusal("fit", *arguments)
    assert all(name in said for name in names), said
    assert not (folder / "model.decond").exists()


def test_a_cell_that_cannot_be_squared_is_named(folder):
    pd.DataFrame({"wind": [1.0, 2.0, 1e200], "height": [1.0, 2.0, 3.0], "power": [1.0, 2.0, 3.0]}).to_parquet("a.pq")
    found = refusal("fit", "a.pq", *SPARSE)
    assert all(word in found for word in ("a.pq", "'wind'", "row 3"))


def test_terminals_get_no_control_characters(folder):
    named = {"\x1b[31mwind": [1.0, 2.0], "b": [1.0, 2.0]}
    pd.DataFrame(named).to_csv("a.csv", index=False)
    result = invoke("fit", "a.csv", "--x", "wind", "--z", "b", "--sparse")
    assert result.exit_code == 2
    assert "x1b" in result.stderr
    assert "\x1b" not in result.stderr


@pytest.mark.slow  # a process that starts three others
def test_an_interrupt_stops_workers_without_tracebacks(folder):
    rng = np.random.default_rng(0)
    wind = rng.uniform(0, 6, (300_000, 2))
    frame = pd.DataFrame({"wind": wind[:, 0], "height": wind[:, 1], "power": np.sin(wind[:, 0])})
    frame.to_parquet("big.parquet", row_group_size=30_000)
    command = [sys.executable, "-m", "decond", "fit", "big.parquet", "--x", "wind", "--x", "height", "--z", "power"]
    program = subprocess.Popen(
        [*command, "--sparse", "--workers", "2", "--inducing", "200"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        text=True,
    )
    wait_until(lambda: n_workers(program.pid) >= 2, "the workers")
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does
    output, _ = program.communicate(timeout=DEADLINE)
    assert program.returncode == 130
    assert output == ""
    wait_until(lambda: n_workers(program.pid) == 0, "the end of the workers")


def n_workers(group):
    """Return how many processes of a group are workers."""
    found = subprocess.run(["ps", "-eo", "pgid,args"], capture_output=True, text=True).stdout.splitlines()
    return sum(line.split()[0] == str(group) and "spawn_main" in line for line in found[1:])
