"""The methods of Figure 5: functions of a problem, a number of simulations and a seed."""

from collections.abc import Callable
from typing import Any

from decond import lfi
from decond.problems import SimulatorProblem

__all__ = ["BARS", "CURVES", "Build"]

Build = Callable[[SimulatorProblem, int, Any], lfi.Method]

FIXED = 1e-3
"""λ where the marginal likelihood chooses lengthscales: the paper keeps it fixed without saying at what."""

CHAINS = 25
"""Chains of MCMC-ABC, one from each of the nearest 5 % of the pilot: they start where they are to go on."""


def _dme_as_written(optimum: str) -> Build:
    return lambda _, n, seed: lfi.DME(
        objective="evidence", optimum=optimum, robust=False, regularization=FIXED, seed=seed
    )


def _kelfi_as_written(optimum: str) -> Build:
    return lambda _, n, seed: lfi.KELFI(objective="evidence", optimum=optimum, regularization=FIXED, seed=seed)


def _rejection(quantile: float, adjustment: str) -> Build:
    return lambda _, n, seed: lfi.RejectionABC(quantile, adjustment=adjustment, seed=seed, summary="none")


def _smc(adjustment: str) -> Build:
    return lambda lv, n, seed: lfi.SMCABC(
        lv.simulator, n, lv.batched, adjustment=adjustment, seed=seed, summary="none"
    )


def _lfvi(loss: str) -> Build:
    return lambda lv, n, seed: lfi.LFVI(lv.simulator, n, lv.batched, loss=loss, seed=seed)


CURVES: dict[str, Build] = {
    "DME, evidence (global)": _dme_as_written("global"),
    "DME, evidence (local)": _dme_as_written("local"),
    "DME, validated": lambda _, n, seed: lfi.DME(seed=seed),
    "KELFI, evidence (global)": _kelfi_as_written("global"),
    "KELFI, evidence (local)": _kelfi_as_written("local"),
    "KELFI, validated": lambda _, n, seed: lfi.KELFI(seed=seed),
    "K-ABC": lambda _, n, seed: lfi.KABC(seed=seed),
    "K2-ABC": lambda _, n, seed: lfi.K2ABC(seed=seed),
    "KBR": lambda _, n, seed: lfi.KBR(seed=seed),
    "GPS-ABC": lambda toy, n, seed: lfi.GPSABC(toy.simulator, 2 * n, batched=toy.batched, seed=seed),
    "residual likelihood": lambda _, n, seed: lfi.ResidualLikelihood(seed=seed),
}
"""The methods of the left panels. GPS-ABC may run as many simulations again as it is given, as in the paper."""

BARS: dict[str, Build] = {
    "REJ-ABC": _rejection(0.01, "none"),
    "REJ-ABC, adjusted": _rejection(0.05, "linear"),
    "MCMC-ABC": lambda lv, n, seed: lfi.MCMCABC(
        lv.simulator, n, lv.batched, n_chains=CHAINS, seed=seed, summary="none"
    ),
    "SMC-ABC": _smc("none"),
    "SMC-ABC, adjusted": _smc("linear"),
    "LFVI log": _lfvi("log"),
    "LFVI hinge": _lfvi("hinge"),
    "MDN": lambda lv, n, seed: lfi.MDN(lv.simulator, n, lv.batched, seed=seed),
    "KBR": lambda _, n, seed: lfi.KBR(seed=seed),
    "KELFI": lambda _, n, seed: lfi.KELFI(seed=seed),
    "DME": lambda _, n, seed: lfi.DME(seed=seed),
    "residual likelihood": lambda _, n, seed: lfi.ResidualLikelihood(seed=seed),
}
"""The methods of the right panel, in the order of the published bars."""
