"""Likelihood-free inference: a simulator and an observation in, a posterior out.

`infer` does it in one call. Its parts: a `Prior`; `simulate`, with a `SimulationStore` that survives crashes, gives
`Simulations`; a method, ``method.fit(sims, prior).posterior(observed)``, gives a `Posterior`; `diagnostics` judge it.
"""

from decond.comparison import Comparison
from decond.lfi import diagnostics, exceptions
from decond.lfi.compare_methods import compare
from decond.lfi.diagnostics import diagnose
from decond.lfi.exceptions import PosteriorWarning, SimulationError, SimulationWarning, StoreError
from decond.lfi.methods.distance_abc import MCMCABC, SMCABC, RejectionABC
from decond.lfi.methods.dme import DME
from decond.lfi.methods.gps_abc import GPSABC
from decond.lfi.methods.kelfi import KELFI
from decond.lfi.methods.kernel_abc import K2ABC, KABC, KBR
from decond.lfi.methods.lfvi import LFVI
from decond.lfi.methods.mdn import MDN
from decond.lfi.methods.method import Method
from decond.lfi.methods.residual_likelihood import ResidualLikelihood
from decond.lfi.posterior_draws import ModelProbabilities, Posterior, model_probabilities
from decond.lfi.prior import Prior
from decond.lfi.rounds import METHODS, infer
from decond.lfi.simulation import SimulationStore, batched, simulate
from decond.lfi.simulations import Simulations

__all__ = [
    "DME",
    "GPSABC",
    "K2ABC",
    "KABC",
    "KBR",
    "KELFI",
    "LFVI",
    "MCMCABC",
    "MDN",
    "METHODS",
    "SMCABC",
    "Comparison",
    "Method",
    "ModelProbabilities",
    "Posterior",
    "PosteriorWarning",
    "Prior",
    "RejectionABC",
    "ResidualLikelihood",
    "SimulationError",
    "SimulationStore",
    "SimulationWarning",
    "Simulations",
    "StoreError",
    "batched",
    "compare",
    "diagnose",
    "diagnostics",
    "exceptions",
    "infer",
    "model_probabilities",
    "simulate",
]
