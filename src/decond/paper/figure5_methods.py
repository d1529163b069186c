"""The algorithms of Figure 5, each as published and as improved: functions of a problem, a number and a seed."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from decond import lfi
from decond.problems import SimulatorProblem

__all__ = ["Build", "Entry", "Form", "MethodSettings", "bars", "curves"]

Build = Callable[[SimulatorProblem, int, int], lfi.Method]
Form = Literal["as published", "as improved", "ours"]
Optimum = Literal["global", "local"]


@dataclass(frozen=True)
class MethodSettings:
    """Numbers that the paper leaves open."""

    regularization: float = 1e-3
    """λ of all kernel methods: the paper keeps it fixed without saying at what."""
    n_prior: int = 2000
    """Draws of the prior of KBR: as many as there are simulations."""
    n_chains: int = 25
    """Chains of MCMC-ABC, one from each of the nearest 5 % of the pilot: they need no burn-in."""
    rounds: int = 4
    """Rounds of simulations, the first from the prior, for improved methods that take them from anywhere."""


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
        """Return the method with every setting that has a value, except the simulator and the seed.

        Methods that run the simulator themselves have rounds, or generations, of their own among their settings.

        Parameters
        ----------
        problem : SimulatorProblem
        n : int
            Number of simulations.

        Returns
        -------
        str
        """
        method = self.build(problem, n, 0)
        names = [name for name in inspect.signature(type(method)).parameters if name not in ("simulator", "seed")]
        values = {name: getattr(method, name) for name in names if getattr(method, name, None) is not None}
        shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
        rounds = "" if method.runs_simulator else f", {self.rounds} round{'s' if self.rounds > 1 else ''}"
        return f"{type(method).__name__}({shown}){rounds}"


def curves(settings: MethodSettings = MethodSettings()) -> list[Entry]:  # noqa: B008 - it is frozen
    """Return the left panels. GPS-ABC may run as many simulations again as it is given, as in the paper."""
    fixed = {"regularization": settings.regularization, "summary": "none"}
    entries = []
    optima: tuple[Optimum, ...] = ("global", "local")
    for optimum in optima:
        by_evidence = {**fixed, "objective": "evidence", "optimum": optimum}
        published, improved = _both(lfi.DME, **by_evidence)
        entries += [
            Entry(f"DME (Algorithm 8.1), {optimum}", "as published", published),
            Entry(f"DME (evidence), {optimum}", "as improved", improved),
        ]
    entries.append(Entry("DME (validated)", "as improved", _plain(lfi.DME, summary="none")))
    for optimum in optima:
        by_evidence = {**fixed, "objective": "evidence", "optimum": optimum}
        entries += _pair(f"KELFI, {optimum}", _both(lfi.KELFI, **by_evidence))
    return [
        *entries,
        Entry("KELFI (validated)", "as improved", _plain(lfi.KELFI, summary="none")),
        *_pair("K-ABC", _both(lfi.KABC, **fixed)),
        *_pair("K2-ABC", _both(lfi.K2ABC)),
        *_pair("KBR", _kbr(settings)),
        Entry("GPS-ABC", "as published", _gps),
        Entry("residual likelihood", "ours", _plain(lfi.ResidualLikelihood)),
    ]


def bars(settings: MethodSettings = MethodSettings()) -> list[Entry]:  # noqa: B008 - it is frozen
    """Return the bars of the right panel, in the order of the published ones."""
    by_evidence = {"regularization": settings.regularization, "objective": "evidence", "optimum": "global"}
    kelfi, dme = (_plain(kind, **by_evidence, robust=False, summary="none") for kind in (lfi.KELFI, lfi.DME))
    rounds = settings.rounds
    rejection = [
        _plain(lfi.RejectionABC, quantile=quantile, adjustment=adjustment, summary="none")
        for quantile, adjustment in ((0.01, "none"), (0.05, "linear"))
    ]
    smc = [_running(lfi.SMCABC, adjustment=adjustment, summary="none") for adjustment in ("none", "linear")]
    mcmc = _running(lfi.MCMCABC, n_chains=settings.n_chains, summary="none")
    return [
        *_pair("REJ-ABC", rejection),
        Entry("MCMC-ABC", "as published", mcmc),
        *_pair("SMC-ABC", smc),
        Entry("LFVI log", "as published", _running(lfi.LFVI, loss="log")),
        Entry("LFVI hinge", "as published", _running(lfi.LFVI, loss="hinge")),
        Entry("MDN", "as published", _running(lfi.MDN)),
        *_pair("KBR", _kbr(settings), rounds),
        Entry("KELFI", "as published", kelfi),
        Entry("KELFI (validated)", "as improved", _plain(lfi.KELFI, summary="none"), rounds),
        Entry("DME (Algorithm 8.1)", "as published", dme),
        Entry("DME (validated)", "as improved", _plain(lfi.DME, summary="none"), rounds),
        Entry("residual likelihood", "ours", _plain(lfi.ResidualLikelihood), rounds),
    ]


def _pair(algorithm: str, builds: list[Build], rounds: int = 1) -> list[Entry]:
    published, improved = builds
    return [Entry(algorithm, "as published", published), Entry(algorithm, "as improved", improved, rounds)]


def _plain(method: Callable[..., lfi.Method], **options: Any) -> Build:
    """Return what builds a method that is given its simulations."""
    return lambda _, n, seed: method(**options, seed=seed)


def _both(method: Callable[..., lfi.Method], **options: Any) -> list[Build]:
    """Return a kernel method with signed weights, as published, and without, as improved."""
    return [_plain(method, **options, robust=robust) for robust in (False, True)]


def _kbr(settings: MethodSettings) -> list[Build]:
    fixed = dict.fromkeys(("regularization", "evidence_regularization"), settings.regularization)
    return _both(lfi.KBR, **fixed, n_prior=settings.n_prior, summary="none")


def _running(method: Callable[..., lfi.Method], **options: Any) -> Build:
    """Return what builds a method that runs the simulator itself."""
    return lambda problem, n, seed: method(problem.simulator, n, problem.batched, **options, seed=seed)


def _gps(problem: SimulatorProblem, n: int, seed: int) -> lfi.Method:
    return lfi.GPSABC(problem.simulator, 2 * n, batched=problem.batched, seed=seed)
