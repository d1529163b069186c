"""Calibration on a conjugate Gaussian problem: ranks of 200 simulated posteriors, and coverage of 90 % intervals."""

from typing import Any

import numpy as np
from scipy import stats

from decond import lfi

NOISE = 0.5


def simulator(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + NOISE * rng.standard_normal(theta.shape)


def run(n_simulations: int = 500, n_posteriors: int = 200) -> dict[str, Any]:
    """Return uniformity p-values and coverage for the default method and for DME."""
    prior = lfi.Prior({"a": stats.norm(0, 1), "b": stats.norm(0, 1)})
    sims = lfi.simulate(simulator, prior, n_simulations, seed=1, batched=True)
    test = lfi.simulate(simulator, prior, n_posteriors, seed=2, batched=True)
    figures: dict[str, Any] = {"benchmark": f"calibration, {n_simulations} simulations, {n_posteriors} posteriors"}
    for method in (lfi.ResidualLikelihood(seed=0), lfi.DME(seed=0)):
        found = lfi.diagnostics.simulation_based_calibration(method, sims, prior, test=test, n=n_posteriors)
        name = type(method).__name__
        figures[f"{name}: uniformity_p_values"] = {key: round(p, 3) for key, p in found.p_values.items()}
        figures[f"{name}: chi_square_p_values"] = {key: round(p, 3) for key, p in found.chi_square.items()}
        figures[f"{name}: coverage_of_90"] = {key: round(share, 3) for key, share in found.coverage.at(0.9).items()}
        figures[f"{name}: verdict"] = found.verdict
    return figures
