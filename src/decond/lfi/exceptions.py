"""Errors and warnings of likelihood-free inference; attributes are for programs, the text is for people."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

__all__ = [
    "ComparisonError",
    "DegenerateDrawsWarning",
    "DeterministicSimulatorWarning",
    "ExtrapolationWarning",
    "FailedSimulationsWarning",
    "FewSimulationsWarning",
    "FewValidWarning",
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
    "WeightSumWarning",
    "WorkerError",
]

# Every class pickles: attributes are in `args`, or are keywords with defaults that a pickle copies over afterwards.


class StoreError(ValueError):
    """A simulation store cannot be opened, read or written, or does not hold what was asked for.

    Attributes:
        path: Its file, where that is known.
        round: The label of the round that the error is about, if it is about one.
    """

    def __init__(self, message: str, *, path: str | None = None, round: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.round = round


class StoreMismatchError(StoreError):
    """A store was filled in another way than it would be now; use a new file or another round, or ask as before.

    Attributes:
        argument: The name of the argument of `simulate` that differs, such as "seed" or "prior".
    """

    def __init__(
        self, message: str, *, argument: str | None = None, path: str | None = None, round: str | None = None
    ) -> None:
        super().__init__(message, path=path, round=round)
        self.argument = argument


class StoreFormatError(StoreError):
    """A file is not a simulation store that this version of decond can read; it was left as it is.

    Attributes:
        version: The format of a store that a newer version of decond wrote; None for a file that is not a store.
    """

    def __init__(self, message: str, *, path: str | None = None, version: int | None = None) -> None:
        super().__init__(message, path=path)
        self.version = version


class StoreDamagedError(StoreError):
    """The file of a store is damaged; go back to a copy of it."""


class StoreBusyError(StoreError):
    """Another process held the store for too long; try again later."""


class SimulationError(RuntimeError):
    """Simulations could not be run, or all of them failed.

    Attributes:
        failures: How often each reason occurred if all simulations failed; empty if they could not be run.
    """

    def __init__(self, message: str, *, failures: Mapping[str, int] | None = None) -> None:
        super().__init__(message)
        self.failures = dict(failures or {})


class TransferError(SimulationError):
    """A function cannot be sent to another process, or cannot be loaded there.

    Attributes:
        function: "simulator" or "summarize".
    """

    def __init__(self, message: str, *, function: Literal["simulator", "summarize"] = "simulator") -> None:
        super().__init__(message)
        self.function = function


class WorkerError(SimulationError):
    """Workers died, or a cluster is gone. A store keeps what had finished; the same call resumes."""


class SimulationWarning(UserWarning):
    """Something about the simulations deserves attention."""


class FewValidWarning(SimulationWarning):
    """Fewer than half of the simulations are valid.

    Attributes:
        n_valid: How many are.
        n: How many were run.
    """

    def __init__(self, message: str, *, n_valid: int = 0, n: int = 0) -> None:
        super().__init__(message)
        self.n_valid = n_valid
        self.n = n


class StoreWarning(SimulationWarning):
    """A store was filled with another simulator or another summarize than those given now.

    Attributes:
        argument: The name of the argument that differs: "simulator" or "summarize".
        path: The file of the store.
        n_recomputed: The number of simulations whose summaries were computed again with the summarize given now.
    """

    def __init__(
        self, message: str, *, argument: str | None = None, path: str | None = None, n_recomputed: int = 0
    ) -> None:
        super().__init__(message)
        self.argument = argument
        self.path = path
        self.n_recomputed = n_recomputed


class PosteriorWarning(UserWarning):
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


class ExtrapolationWarning(PosteriorWarning):
    """The observation lies outside what was simulated: check the model, or widen the prior.

    Attributes:
        distance: How far the nearest simulation is away, in units of the simulations' spread; MMD² for raw data sets.
        summary: The position, from 0, of the first summary that lies beyond all simulations; None if each alone is
            inside.
        name: The name of that summary, if it has one.
    """

    def __init__(self, message: str, distance: float, summary: int | None = None, name: str | None = None) -> None:
        super().__init__(message, distance, summary, name)
        self.distance, self.summary, self.name = distance, summary, name


class FewSimulationsWarning(PosteriorWarning):
    """Few simulations carry the answer: run more, in several rounds, or accept more of them.

    Attributes:
        effective: The effective sample size of the simulations in use.
        needed: The number below which the method warns.
    """

    def __init__(self, message: str, effective: float, needed: float) -> None:
        super().__init__(message, effective, needed)
        self.effective, self.needed = effective, needed


class FailedSimulationsWarning(PosteriorWarning):
    """Simulations failed; parameters at which they mostly do are less probable.

    Attributes:
        n_failed: How many failed.
        n_simulations: How many there were.
        reasons: Why, with the number of each where that is known.
    """

    def __init__(self, message: str, n_failed: int, n_simulations: int, reasons: Mapping[str, int]) -> None:
        super().__init__(message, n_failed, n_simulations, reasons)
        self.n_failed, self.n_simulations, self.reasons = n_failed, n_simulations, dict(reasons)


class RepeatedSimulationsWarning(PosteriorWarning):
    """Simulations are exact repeats of others, parameters and data, and were left out.

    Attributes:
        n_repeats: How many.
    """

    def __init__(self, message: str, n_repeats: int) -> None:
        super().__init__(message, n_repeats)
        self.n_repeats = n_repeats


class DeterministicSimulatorWarning(PosteriorWarning):
    """Summaries look like exact functions of the parameters: add the noise of the measurement to the simulator.

    Attributes:
        n_exact: How many summaries do.
        n_summaries: How many summaries are in use.
    """

    def __init__(self, message: str, n_exact: int, n_summaries: int) -> None:
        super().__init__(message, n_exact, n_summaries)
        self.n_exact, self.n_summaries = n_exact, n_summaries


class TimeLimitWarning(PosteriorWarning):
    """The time limit cut the computation short: raise `time_limit`.

    Attributes:
        stage: What was cut short: "simulation", "training" or "sampling".
        done: How many simulations were run, or steps taken; None for the sampler.
    """

    def __init__(
        self, message: str, stage: Literal["simulation", "training", "sampling"], done: int | None = None
    ) -> None:
        super().__init__(message, stage, done)
        self.stage, self.done = stage, done


class DegenerateDrawsWarning(PosteriorWarning):
    """Draws sit on few points: intervals and densities are not to be trusted.

    Attributes:
        distinct: How many distinct draws there are among the first `n_draws`; for a chain, how often it moved.
        n_draws: Draws, or steps of a chain.
    """

    def __init__(self, message: str, distinct: int, n_draws: int) -> None:
        super().__init__(message, distinct, n_draws)
        self.distinct, self.n_draws = distinct, n_draws


class WeightSumWarning(PosteriorWarning):
    """The weights of a kernel method sum to another number than they should: its hyperparameters may not fit.

    Attributes:
        total: Their sum.
        expected: What it should be.
    """

    def __init__(self, message: str, total: float, expected: float) -> None:
        super().__init__(message, total, expected)
        self.total, self.expected = total, expected


class UninformativeNetworkWarning(PosteriorWarning):
    """In some directions the network learned nothing beyond its proposal, and is about as wide as the prior.

    Attributes:
        share: The share of the mixture that is.
    """

    def __init__(self, message: str, share: float) -> None:
        super().__init__(message, share)
        self.share = share


class PriorReturnedWarning(PosteriorWarning):
    """The method found nothing that agrees with the observation, and gives the prior as the posterior."""


class PriorFileError(ValueError):
    """A file does not describe a prior.

    Attributes:
        path: The file.
        parameter: The parameter whose table is wrong; None if the file as a whole is.
        keys: The names in that table that are wrong or missing, such as ("low", "high").
    """

    def __init__(self, message: str, path: Path, parameter: str | None = None, keys: Sequence[str] = ()) -> None:
        super().__init__(message, path, parameter, keys)  # all, so that copies and pickles are whole
        self.path, self.parameter, self.keys = path, parameter, tuple(keys)

    def __str__(self) -> str:
        """Return the message alone."""
        return str(self.args[0])


class ComparisonError(ValueError):
    """None of the methods that were compared gave a posterior.

    Attributes:
        errors: What the methods raised, by label; a method that was left out has no entry.
    """

    def __init__(self, message: str, errors: Mapping[str, Exception]) -> None:
        super().__init__(message, errors)  # both, so that copies and pickles are whole
        self.errors = dict(errors)

    def __str__(self) -> str:
        """Return the message alone."""
        return str(self.args[0])
