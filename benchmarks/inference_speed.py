"""From a fresh process and 1,000 stored simulations to 10,000 posterior draws; pyABC's SMC with the same budget."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIMULATOR = """
import numpy as np
OBSERVED = np.array([0.3, -0.2, 0.5, 0.1])
def simulator(theta, rng):
    return theta + 0.3 * theta**2 + 0.1 * rng.standard_normal(4)
def truth():  # the exact posterior's means and deviations: parameters are independent given the observation
    grid = np.linspace(-1.0, 1.0, 20001)
    log = -0.5 * ((OBSERVED[:, None] - grid - 0.3 * grid**2) / 0.1) ** 2
    weight = np.exp(log - log.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    mean = weight @ grid
    return mean, np.sqrt(weight @ grid**2 - mean**2)
def score(mean, sd):
    exact_mean, exact_sd = truth()
    return {"error_of_means_in_sd": float(np.abs((mean - exact_mean) / exact_sd).mean()),
            "ratio_of_sd": float((sd / exact_sd).mean())}
"""

OURS_STORE = (
    SIMULATOR
    + """
import sys
from scipy import stats
from decond import lfi
prior = lfi.Prior({f"t{i}": stats.uniform(-1, 2) for i in range(4)})
lfi.simulate(simulator, prior, 1000, seed=0, store=sys.argv[1])
"""
)

OURS = (
    SIMULATOR
    + """
import json, sys
from scipy import stats
from decond import lfi
prior = lfi.Prior({f"t{i}": stats.uniform(-1, 2) for i in range(4)})
sims = lfi.simulate(simulator, prior, 1000, seed=0, store=sys.argv[1])
draws = lfi.ResidualLikelihood(seed=0).fit(sims, prior).posterior(OBSERVED).sample(10_000)
assert draws.shape == (10_000, 4)
print(json.dumps(score(draws.mean(axis=0), draws.std(axis=0))))
"""
)

PYABC = (
    SIMULATOR
    + """
import json, logging, sys
import pyabc
logging.disable(logging.CRITICAL)
rng = np.random.default_rng(0)
names = [f"t{i}" for i in range(4)]
prior = pyabc.Distribution(**{name: pyabc.RV("uniform", -1, 2) for name in names})
model = lambda p: {"x": simulator(np.array([p[name] for name in names]), rng)}
abc = pyabc.ABCSMC(model, prior, pyabc.PNormDistance(p=2), population_size=100,
                   sampler=pyabc.sampler.SingleCoreSampler())
abc.new("sqlite:///" + sys.argv[1], {"x": OBSERVED})
history = abc.run(max_total_nr_simulations=1000)
frame, weight = history.get_distribution()
rows = frame[names].to_numpy()
mean = weight @ rows
found = score(mean, np.sqrt(weight @ rows**2 - mean**2))
print(json.dumps({**found, "simulations": int(history.total_nr_simulations)}))
"""
)


def run(peers: str | None = None, repeats: int = 3) -> dict[str, Any]:
    """Time our method, and pyABC where an interpreter that has it is named."""
    figures: dict[str, Any] = {"benchmark": "cold start to 10,000 posterior draws, 1,000 simulations, 4 parameters"}
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "runs.sqlite")
        _program(sys.executable, OURS_STORE, store)
        _keep_best(figures, "decond", [_program(sys.executable, OURS, store) for _ in range(repeats)])
        if peers is not None:
            runs = [_program(peers, PYABC, str(Path(folder) / f"peer{i}.db")) for i in range(repeats)]
            _keep_best(figures, "pyABC SMC", runs)
    if peers is None:
        figures["pyABC SMC"] = "not run: name an interpreter that has it with --peers (see benchmarks/peers.txt)"
    return figures


def _program(interpreter: str, program: str, path: str) -> tuple[float, dict[str, float]]:
    start = time.perf_counter()
    done = subprocess.run([interpreter, "-c", program, path], check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    lines = done.stdout.strip().splitlines()
    return seconds, json.loads(lines[-1]) if lines else {}


def _keep_best(figures: dict[str, Any], name: str, runs: list[tuple[float, dict[str, float]]]) -> None:
    figures[f"{name}: seconds"] = min(seconds for seconds, _ in runs)
    for key, value in runs[0][1].items():
        figures[f"{name}: {key}"] = value
