"""Errors and warnings of likelihood-free inference; attributes are for programs, the text is for people."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from decond.parameters import Kept

__all__ = [
    "ComparisonError",
    "DegenerateDrawsWarning",
    "DeterministicSimulatorWarning",
    "DiscreteSummaryWarning",
    "ExtrapolationWarning",
    "FailedSimulationsWarning",
    "FewSimulationsWarning",
    "FewValidWarning",
    "MisfitWarning",
    "OutlyingSimulationsWarning",
    "PosteriorWarning",
    "PriorFileError",
    "PriorReturnedWarning",
    "RepeatedSimulationsWarning",
    "SimulationError",
    "SimulationWarning",
    "StoreBusyError",
    "StoreDamagedError",
    "StoreError",
    "StoreFormatError",
    "StoreMismatchError",
    "StoreWarning",
    "TimeLimitWarning",
    "TransferError",
    "UninformativeNetworkWarning",
    "UnstablePosteriorWarning",
    "WeightSumWarning",
    "WorkerError",
]


@dataclass(eq=False, repr=False)
class _WithMessage:
    """An error or a warning whose attributes are all in `args`, so that copies and pickles are whole."""

    message: str

    def __post_init__(self) -> None:
        self.args = tuple(getattr(self, each.name) for each in fields(self))

    def __str__(self) -> str:
        """Return the message alone."""
        return self.message


@dataclass(eq=False, repr=False)
class StoreError(_WithMessage, ValueError):
    """A simulation store cannot be opened, read or written, or does not hold what was asked for.

    Attributes
    ----------
    path
        Its file, where that is known.
    round
        The label of the round that the error is about, if it is about one.
    """

    path: str | None = None
    round: str | None = None


@dataclass(eq=False, repr=False)
class StoreMismatchError(StoreError):
    """A store was filled in another way than it would be now; use a new file or another round, or ask as before.

    Attributes
    ----------
    argument
        The name of the argument of `simulate` that differs, such as "seed" or "prior".
    """

    argument: str | None = None


@dataclass(eq=False, repr=False)
class StoreFormatError(StoreError):
    """A file is not a simulation store that this version of decond can read; it was left as it is.

    Attributes
    ----------
    version
        The format of a store that a newer version of decond wrote; None for a file that is not a store.
    """

    version: int | None = None


class StoreDamagedError(StoreError):
    """The file of a store is damaged; go back to a copy of it."""


class StoreBusyError(StoreError):
    """Another process held the store for too long; try again later."""


@dataclass(eq=False, repr=False)
class SimulationError(_WithMessage, RuntimeError):
    """Simulations could not be run, or all of them failed.

    Attributes
    ----------
    failures
        How often each reason occurred if all simulations failed; empty if they could not be run.
    """

    failures: Mapping[str, int] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class TransferError(SimulationError):
    """A function cannot be sent to another process, or cannot be loaded there.

    Attributes
    ----------
    function
        "simulator" or "summarize".
    """

    function: Literal["simulator", "summarize"] = "simulator"


class WorkerError(SimulationError):
    """Workers died, or a cluster is gone. A store keeps what had finished; the same call resumes."""


@dataclass(eq=False, repr=False)
class SimulationWarning(_WithMessage, UserWarning):
    """Something about the simulations deserves attention."""


@dataclass(eq=False, repr=False)
class FewValidWarning(SimulationWarning):
    """Fewer than half of the simulations are valid.

    Attributes
    ----------
    n_valid
        How many are.
    n
        How many were run.
    """

    n_valid: int = 0
    n: int = 0


@dataclass(eq=False, repr=False)
class StoreWarning(SimulationWarning):
    """A store was filled with another simulator or another summarize than those given now.

    Attributes
    ----------
    argument
        The name of the argument that differs: "simulator" or "summarize".
    path
        The file of the store.
    n_recomputed
        The number of simulations whose summaries were computed again with the summarize given now.
    """

    argument: str | None = None
    path: str | None = None
    n_recomputed: int = 0


@dataclass(eq=False, repr=False)
class PosteriorWarning(_WithMessage, Kept, UserWarning):
    """The posterior may be wrong, and why.

    Its subclasses are the reasons that a program can act on; they say in attributes what they are about. A reason
    of a single method has no class of its own.

    >>> warning = FewSimulationsWarning("the posterior rests on 5 simulations", effective=5.0, needed=30.0)
    >>> isinstance(warning, PosteriorWarning), str(warning), warning.effective
    (True, 'the posterior rests on 5 simulations', 5.0)
    """

    def __str__(self) -> str:
        """Return the message alone; `args` also has the attributes, so that copies and pickles are whole."""
        return str(self.args[0])


@dataclass(eq=False, repr=False)
class ExtrapolationWarning(PosteriorWarning):
    """The observation lies outside what was simulated: check the model, or widen the prior.

    Attributes
    ----------
    distance
        How far the nearest simulation is away, in units of the simulations' spread; MMD² for raw data sets.
    summary
        The position, from 0, of the first summary that lies beyond all simulations; None if each alone is
        inside.
    name
        The name of that summary, if it has one.
    """

    distance: float
    summary: int | None = None
    name: str | None = None


@dataclass(eq=False, repr=False)
class FewSimulationsWarning(PosteriorWarning):
    """Few simulations carry the answer: run more, in several rounds, or accept more of them.

    Attributes
    ----------
    effective
        The effective sample size of the simulations in use.
    needed
        The number below which the method warns.
    """

    effective: float
    needed: float


@dataclass(eq=False, repr=False)
class FailedSimulationsWarning(PosteriorWarning):
    """Simulations failed; parameters at which they mostly do are less probable.

    Attributes
    ----------
    n_failed
        How many failed.
    n_simulations
        How many there were.
    reasons
        Why, with the number of each where that is known.
    """

    n_failed: int
    n_simulations: int
    reasons: Mapping[str, int]


@dataclass(eq=False, repr=False)
class MisfitWarning(PosteriorWarning):
    """The model hardly gives such an observation at any parameters, although each value alone is in range.

    Attributes
    ----------
    distance
        How far the observation is from the nearest mean of the model, in standard deviations of the residuals.
    usual
        The largest such distance of simulations close to it.
    """

    distance: float
    usual: float


@dataclass(eq=False, repr=False)
class OutlyingSimulationsWarning(PosteriorWarning):
    """Simulations gave data unlike any other at such parameters; they are treated as a class of their own.

    Attributes
    ----------
    n_outliers
        How many did.
    n_simulations
        How many valid simulations there were.
    """

    n_outliers: int
    n_simulations: int


@dataclass(eq=False, repr=False)
class RepeatedSimulationsWarning(PosteriorWarning):
    """Simulations are exact repeats of others, parameters and data, and were left out.

    Attributes
    ----------
    n_repeats
        How many.
    """

    n_repeats: int


@dataclass(eq=False, repr=False)
class DeterministicSimulatorWarning(PosteriorWarning):
    """Summaries look like exact functions of the parameters: add the noise of the measurement to the simulator.

    Attributes
    ----------
    n_exact
        How many summaries do.
    n_summaries
        How many summaries are in use.
    """

    n_exact: int
    n_summaries: int


@dataclass(eq=False, repr=False)
class DiscreteSummaryWarning(PosteriorWarning):
    """Summaries take few values and the observation is at an extreme value, where the likelihood is approximate.

    Attributes
    ----------
    summaries
        Their positions, from 0.
    """

    summaries: tuple[int, ...]


@dataclass(eq=False, repr=False)
class TimeLimitWarning(PosteriorWarning):
    """The time limit cut the computation short: raise `time_limit`.

    Attributes
    ----------
    stage
        What was cut short: "simulation", "training" or "sampling".
    done
        How many simulations were run, or steps taken; None for the sampler.
    """

    stage: Literal["simulation", "training", "sampling"]
    done: int | None = None


@dataclass(eq=False, repr=False)
class DegenerateDrawsWarning(PosteriorWarning):
    """Draws sit on few points: intervals and densities are not to be trusted.

    Attributes
    ----------
    distinct
        How many distinct draws there are among the first `n_draws`; for a chain, how often it moved.
    n_draws
        Draws, or steps of a chain.
    """

    distinct: int
    n_draws: int


@dataclass(eq=False, repr=False)
class WeightSumWarning(PosteriorWarning):
    """The weights of a kernel method sum to another number than they should: its hyperparameters may not fit.

    Attributes
    ----------
    total
        Their sum.
    expected
        What it should be.
    """

    total: float
    expected: float


@dataclass(eq=False, repr=False)
class UninformativeNetworkWarning(PosteriorWarning):
    """In some directions the network learned nothing beyond its proposal, and is about as wide as the prior.

    Attributes
    ----------
    share
        The share of the mixture that is.
    """

    share: float


@dataclass(eq=False, repr=False)
class UnstablePosteriorWarning(PosteriorWarning):
    """Posteriors from parts of the simulations disagree by more than they claim: run more simulations.

    Attributes
    ----------
    stability
        The error to expect, see `Posterior.stability`.
    """

    stability: float


class PriorReturnedWarning(PosteriorWarning):
    """The method found nothing that agrees with the observation, and gives the prior as the posterior."""


@dataclass(eq=False, repr=False)
class PriorFileError(_WithMessage, ValueError):
    """A file does not describe a prior.

    Attributes
    ----------
    path
        The file.
    parameter
        The parameter whose table is wrong; None if the file as a whole is.
    keys
        The names in that table that are wrong or missing, such as ("low", "high").
    """

    path: Path
    parameter: str | None = None
    keys: tuple[str, ...] = ()


@dataclass(eq=False, repr=False)
class ComparisonError(_WithMessage, ValueError):
    """None of the methods that were compared gave a posterior.

    Attributes
    ----------
    errors
        What the methods raised, by label; a method that was left out has no entry.
    """

    errors: Mapping[str, Exception]
