"""The algorithms of Figure 5, each as published and as improved: functions of a problem, a number and a seed."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from decond import lfi
from decond.problems import SimulatorProblem

__all__ = ["BARS", "CURVES", "Build", "Entry", "Form"]

Build = Callable[[SimulatorProblem, int, Any], lfi.Method]
Form = Literal["as published", "as improved", "ours"]

FIXED = 1e-3
"""λ where the marginal likelihood chooses lengthscales: the paper keeps it fixed without saying at what."""

CHAINS = 25
"""Chains of MCMC-ABC, one from each of the nearest 5 % of the pilot: they start where they are to go on."""

ROUNDS = 4
"""Rounds of simulations, the first from the prior, for methods as improved that take them from anywhere."""


class Entry(NamedTuple):
    """One curve or bar.

    "as published" is the algorithm as its paper has it: signed weights, herding with the same kernel, simulations
    from the prior. "as improved" is the same algorithm with our changes: no negative weights, a narrow kernel for
    herding, new draws where the posterior is, rounds of simulations, and for "(validated)" hyperparameters chosen by
    held-out simulations. For ABC the change is a regression adjustment. "ours" is not in the paper.
    """

    algorithm: str
    form: Form
    build: Build
    rounds: int = 1

    @property
    def label(self) -> str:
        """Algorithm and form."""
        return f"{self.algorithm}, {self.form}"

    def settings(self, problem: SimulatorProblem, n: int) -> str:
        """Return the method as it is written in Python, without the simulator and the seed."""
        method = self.build(problem, n, 0)
        rounds = f", {self.rounds} rounds" if self.rounds > 1 else ""
        return f"{method!r}{rounds}"


def _both(algorithm: str, published: Build, improved: Build, rounds: int = 1) -> list[Entry]:
    return [Entry(algorithm, "as published", published), Entry(algorithm, "as improved", improved, rounds)]


def _dme(optimum: Literal["global", "local"], robust: bool) -> Build:
    return lambda _, n, seed: lfi.DME(
        regularization=FIXED, objective="evidence", optimum=optimum, robust=robust, seed=seed
    )


def _kelfi(optimum: str, robust: bool) -> Build:
    return lambda _, n, seed: lfi.KELFI(
        regularization=FIXED, objective="evidence", optimum=optimum, robust=robust, seed=seed
    )


def _rejection(quantile: float, adjustment: str) -> Build:
    return lambda _, n, seed: lfi.RejectionABC(quantile, adjustment=adjustment, seed=seed, summary="none")


def _smc(adjustment: str) -> Build:
    return lambda lv, n, seed: lfi.SMCABC(
        lv.simulator, n, lv.batched, adjustment=adjustment, seed=seed, summary="none"
    )


def _lfvi(loss: str) -> Build:
    return lambda lv, n, seed: lfi.LFVI(lv.simulator, n, lv.batched, loss=loss, seed=seed)


CURVES: list[Entry] = [
    *_both("DME (Algorithm 8.1), global", _dme("global", robust=False), _dme("global", robust=True)),
    *_both("DME (Algorithm 8.1), local", _dme("local", robust=False), _dme("local", robust=True)),
    Entry("DME (validated)", "as improved", lambda _, n, seed: lfi.DME(seed=seed)),
    *_both("KELFI, global", _kelfi("global", robust=False), _kelfi("global", robust=True)),
    *_both("KELFI, local", _kelfi("local", robust=False), _kelfi("local", robust=True)),
    Entry("KELFI (validated)", "as improved", lambda _, n, seed: lfi.KELFI(seed=seed)),
    *_both("K-ABC", lambda _, n, seed: lfi.KABC(robust=False, seed=seed), lambda _, n, seed: lfi.KABC(seed=seed)),
    *_both("K2-ABC", lambda _, n, seed: lfi.K2ABC(robust=False, seed=seed), lambda _, n, seed: lfi.K2ABC(seed=seed)),
    *_both("KBR", lambda _, n, seed: lfi.KBR(robust=False, seed=seed), lambda _, n, seed: lfi.KBR(seed=seed)),
    Entry(
        "GPS-ABC",
        "as published",
        lambda toy, n, seed: lfi.GPSABC(toy.simulator, 2 * n, batched=toy.batched, seed=seed),
    ),
    Entry("residual likelihood", "ours", lambda _, n, seed: lfi.ResidualLikelihood(seed=seed)),
]
"""The left panels. GPS-ABC may run as many simulations again as it is given, as in the paper."""

BARS: list[Entry] = [
    *_both("REJ-ABC", _rejection(0.01, "none"), _rejection(0.05, "linear")),
    Entry(
        "MCMC-ABC",
        "as published",
        lambda lv, n, seed: lfi.MCMCABC(lv.simulator, n, lv.batched, n_chains=CHAINS, seed=seed, summary="none"),
    ),
    *_both("SMC-ABC", _smc("none"), _smc("linear")),
    Entry("LFVI log", "as published", _lfvi("log")),
    Entry("LFVI hinge", "as published", _lfvi("hinge")),
    Entry("MDN", "as published", lambda lv, n, seed: lfi.MDN(lv.simulator, n, lv.batched, seed=seed)),
    *_both("KBR", lambda _, n, seed: lfi.KBR(robust=False, seed=seed), lambda _, n, seed: lfi.KBR(seed=seed), ROUNDS),
    Entry("KELFI", "as published", _kelfi("global", robust=False)),
    Entry("KELFI (validated)", "as improved", lambda _, n, seed: lfi.KELFI(seed=seed), ROUNDS),
    Entry("DME (Algorithm 8.1)", "as published", _dme("global", robust=False)),
    Entry("DME (validated)", "as improved", lambda _, n, seed: lfi.DME(seed=seed), ROUNDS),
    Entry("residual likelihood", "ours", lambda _, n, seed: lfi.ResidualLikelihood(seed=seed), ROUNDS),
]
"""The right panel, in the order of the published bars."""
