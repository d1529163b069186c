"""Sequential Monte Carlo ABC by pyABC."""

import logging
import tempfile
from typing import Any

import numpy as np
import pyabc
from quadratic import NAMES, OBSERVED, score, simulator
from serving import serve


def prepare(problem: dict[str, Any]) -> dict[str, Any]:
    logging.disable(logging.CRITICAL)
    rng = np.random.default_rng(0)
    prior = pyabc.Distribution(**{name: pyabc.RV("uniform", -1, 2) for name in NAMES})

    def model(parameters: Any) -> dict[str, np.ndarray]:
        return {"x": simulator(np.array([parameters[name] for name in NAMES]), rng)}

    def evaluate() -> dict[str, Any]:
        abc = pyabc.ABCSMC(
            model,
            prior,
            pyabc.PNormDistance(p=2),
            population_size=100,
            sampler=pyabc.sampler.SingleCoreSampler(),
        )
        with tempfile.TemporaryDirectory() as folder:
            abc.new(f"sqlite:///{folder}/runs.db", {"x": OBSERVED})
            history = abc.run(max_total_nr_simulations=problem["simulations"])
            frame, weight = history.get_distribution()
            simulations = int(history.total_nr_simulations)
        rows = frame[NAMES].to_numpy()
        mean = weight @ rows
        return {**score(mean, np.sqrt(weight @ rows**2 - mean**2)), "simulations": simulations}

    return {"evaluate": evaluate}


if __name__ == "__main__":
    serve(prepare)
