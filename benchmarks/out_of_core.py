"""Ten million rows from Parquet: memory of every process, and the rate of a pass beside that in memory.

A fresh process writes the files in blocks; another fits a `SparseGP` from them, on its own cores or with two Dask
workers, and each reports its own peak of resident memory. A third reads the same rows into memory and times one pass
over them (`SparseModel.statistics`) and one over the files, in turn.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import best_times

COLUMNS = [f"x{j}" for j in range(10)]
ROWS_A_FILE = 500_000

WRITE = "from benchmarks.out_of_core import write; import sys; write(sys.argv[1], int(sys.argv[2]))"

FIT = """
import json, sys, time
from benchmarks.out_of_core import COLUMNS, peak_gigabytes
from decond import SparseGP
from decond.streaming import ParquetTable

def main():
    folder, points, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    table = ParquetTable(folder, x=COLUMNS, z="z")
    gp = SparseGP(n_inducing=points, max_iterations=10, full_iterations=1)
    start = time.perf_counter()
    peaks = {}
    if workers:
        from distributed import Client, LocalCluster
        with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as c, Client(c) as client:
            gp.fit(table, client=client)
            peaks = client.run(peak_gigabytes)
    else:
        gp.fit(table)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "evaluations": gp.fit_result_.evaluations,
                      "log_evidence": gp.log_marginal_likelihood(), "noise": gp.noise_,
                      "gigabytes": [peak_gigabytes(), *peaks.values()]}))

if __name__ == "__main__":
    main()
"""

PASS = """
import json, sys
from benchmarks.out_of_core import one_pass
print(json.dumps(one_pass(sys.argv[1], int(sys.argv[2]))))
"""


def peak_gigabytes() -> float:
    """Return the largest resident memory that this process has had."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def write(folder: str, m: int) -> None:
    """Write m rows of a smooth function of ten columns with noise, as Parquet files."""
    import pyarrow as pa
    from pyarrow import parquet

    for number, start in enumerate(range(0, m, ROWS_A_FILE)):
        rng = np.random.default_rng(number)
        x = rng.uniform(-2.0, 2.0, (min(ROWS_A_FILE, m - start), len(COLUMNS)))
        z = np.sin(2.0 * x[:, 0]) * x[:, 1] + np.cos(x).sum(axis=1) + 0.3 * rng.standard_normal(len(x))
        columns = {name: x[:, j] for j, name in enumerate(COLUMNS)}
        parquet.write_table(pa.table({**columns, "z": z}), Path(folder) / f"{number:03d}.parquet")


def one_pass(folder: str, n: int) -> dict[str, float]:
    """Return the seconds of one pass over the rows, from files and in memory."""
    import pandas as pd

    from decond import kernels
    from decond.streaming import ParquetTable, SparseModel, Table

    files = ParquetTable(folder, x=COLUMNS, z="z")
    frame = pd.read_parquet(folder)
    memory = Table(frame[COLUMNS].to_numpy(), frame["z"].to_numpy())
    del frame
    model = SparseModel(kernels.Matern32(np.full(len(COLUMNS), 3.0)), memory.x[:n], noise=0.5)
    return best_times(
        {"files": lambda: model.statistics(files), "memory": lambda: model.statistics(memory)}, repeats=2
    )


def run(m: int = 10_000_000, n: int = 256) -> dict[str, Any]:
    """Write the files, fit from them, and time a pass."""
    with tempfile.TemporaryDirectory() as folder:
        _python(WRITE, folder, m)
        alone, cluster = _told(FIT, folder, n, 0), _told(FIT, folder, n, 2)
        seconds = _told(PASS, folder, n)
    return {
        "benchmark": "rows from Parquet",
        "rows": m,
        "columns": len(COLUMNS),
        "inducing_points": n,
        "pass_from_files_seconds": seconds["files"],
        "pass_in_memory_seconds": seconds["memory"],
        "rate_of_files_over_memory": seconds["memory"] / seconds["files"],
        "fit_seconds": alone["seconds"],
        "fit_evaluations": alone["evaluations"],
        "fit_peak_gigabytes": alone["gigabytes"],
        "two_workers_fit_seconds": cluster["seconds"],
        "two_workers_peak_gigabytes": cluster["gigabytes"],
        "relative_difference_of_evidence": abs(cluster["log_evidence"] / alone["log_evidence"] - 1.0),
    }


def _python(program: str, *arguments: Any) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(program)
        script.flush()
        command = [sys.executable, script.name, *map(str, arguments)]
        found = subprocess.run(command, capture_output=True, text=True, env=_environment())
    if found.returncode:
        raise RuntimeError(f"a benchmark process ended with\n{found.stderr}")
    return found.stdout


def _environment() -> dict[str, str]:
    folders = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def _told(program: str, *arguments: Any) -> Any:
    return json.loads(_python(program, *arguments).strip().splitlines()[-1])
