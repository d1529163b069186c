"""The algorithms of Figure 5, each as published and as improved: functions of a problem, a number and a seed."""

import inspect
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from decond import lfi
from decond.problems import SimulatorProblem

__all__ = ["BARS", "CURVES", "Build", "Entry", "Form"]

Build = Callable[[SimulatorProblem, int, Any], lfi.Method]
Form = Literal["as published", "as improved", "ours"]

FIXED = 1e-3
"""λ of all kernel methods: the paper keeps it fixed without saying at what."""

PRIOR_DRAWS = 2000
"""Draws of the prior of the methods that have them."""

CHAINS = 25
"""Chains of MCMC-ABC, one from each of the nearest 5 % of the pilot: they start where they are to go on."""

ROUNDS = 4
"""Rounds of simulations, the first from the prior, for methods as improved that take them from anywhere."""


class Entry(NamedTuple):
    """One curve or bar.

    "as published" is the algorithm as its paper has it: signed weights, herding with the same kernel, simulations
    from the prior. "as improved" is the same algorithm with our changes: no negative weights, a narrow kernel for
    herding and rounds of simulations; for `DME` and `KELFI`, which weight draws of the prior, also new draws where
    the posterior is, and for "(validated)" hyperparameters chosen by held-out simulations. For ABC the changes are a
    regression adjustment and a tolerance that suits it. "ours" is not in the paper.
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
        """Return the method with every setting that has a value, but for the simulator and the seed.

        Methods that run the simulator themselves have rounds, or generations, of their own among their settings.
        """
        method = self.build(problem, n, 0)
        names = [name for name in inspect.signature(type(method)).parameters if name not in ("simulator", "seed")]
        values = {name: getattr(method, name) for name in names if getattr(method, name, None) is not None}
        shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
        rounds = "" if method.runs_simulator else f", {self.rounds} round{'s' if self.rounds > 1 else ''}"
        return f"{type(method).__name__}({shown}){rounds}"


def _both(algorithm: str, published: Build, improved: Build, rounds: int = 1) -> list[Entry]:
    return [Entry(algorithm, "as published", published), Entry(algorithm, "as improved", improved, rounds)]


def _dme(optimum: Literal["global", "local"], robust: bool) -> Build:
    chosen: dict[str, Any] = {"objective": "evidence", "optimum": optimum, "robust": robust}
    return lambda _, n, seed: lfi.DME(regularization=FIXED, **chosen, seed=seed, summary="none")


def _kelfi(optimum: Literal["global", "local"], robust: bool) -> Build:
    chosen: dict[str, Any] = {"objective": "evidence", "optimum": optimum, "robust": robust}
    return lambda _, n, seed: lfi.KELFI(regularization=FIXED, **chosen, seed=seed, summary="none")


def _kabc(robust: bool) -> Build:
    return lambda _, n, seed: lfi.KABC(regularization=FIXED, robust=robust, seed=seed, summary="none")


def _kbr(robust: bool) -> Build:
    chosen: dict[str, Any] = {"regularization": FIXED, "evidence_regularization": FIXED, "n_prior": PRIOR_DRAWS}
    return lambda _, n, seed: lfi.KBR(**chosen, robust=robust, seed=seed, summary="none")


def _validated(kind: Any) -> Build:
    return lambda _, n, seed: kind(seed=seed, summary="none")


def _rejection(quantile: float, adjustment: Literal["none", "linear"]) -> Build:
    return lambda _, n, seed: lfi.RejectionABC(quantile, adjustment=adjustment, seed=seed, summary="none")


def _smc(adjustment: Literal["none", "linear"]) -> Build:
    return lambda lv, n, seed: lfi.SMCABC(
        lv.simulator, n, lv.batched, adjustment=adjustment, seed=seed, summary="none"
    )


def _lfvi(loss: Literal["log", "hinge"]) -> Build:
    return lambda lv, n, seed: lfi.LFVI(lv.simulator, n, lv.batched, loss=loss, seed=seed)


CURVES: list[Entry] = [
    Entry("DME (Algorithm 8.1), global", "as published", _dme("global", robust=False)),
    Entry("DME (evidence), global", "as improved", _dme("global", robust=True)),
    Entry("DME (Algorithm 8.1), local", "as published", _dme("local", robust=False)),
    Entry("DME (evidence), local", "as improved", _dme("local", robust=True)),
    Entry("DME (validated)", "as improved", _validated(lfi.DME)),
    *_both("KELFI, global", _kelfi("global", robust=False), _kelfi("global", robust=True)),
    *_both("KELFI, local", _kelfi("local", robust=False), _kelfi("local", robust=True)),
    Entry("KELFI (validated)", "as improved", _validated(lfi.KELFI)),
    *_both("K-ABC", _kabc(robust=False), _kabc(robust=True)),
    *_both("K2-ABC", lambda _, n, seed: lfi.K2ABC(robust=False, seed=seed), lambda _, n, seed: lfi.K2ABC(seed=seed)),
    *_both("KBR", _kbr(robust=False), _kbr(robust=True)),
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
    *_both("KBR", _kbr(robust=False), _kbr(robust=True), ROUNDS),
    Entry("KELFI", "as published", _kelfi("global", robust=False)),
    Entry("KELFI (validated)", "as improved", _validated(lfi.KELFI), ROUNDS),
    Entry("DME (Algorithm 8.1)", "as published", _dme("global", robust=False)),
    Entry("DME (validated)", "as improved", _validated(lfi.DME), ROUNDS),
    Entry("residual likelihood", "ours", lambda _, n, seed: lfi.ResidualLikelihood(seed=seed), ROUNDS),
]
"""The right panel, in the order of the published bars."""
