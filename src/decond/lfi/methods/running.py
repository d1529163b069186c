"""Running a simulator inside a method: never more than a number of simulations, never much longer than a time."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from decond.checks import as_count, as_number
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.exceptions import FailedSimulationsWarning, PosteriorWarning, TimeLimitWarning
from decond.lfi.simulation.backend import packed
from decond.lfi.simulation.run import takes_batches
from decond.lfi.simulation.worker import BATCH_SIZE, Result, Simulator, WorkerProcess, call, in_order
from decond.lfi.simulations import Simulations
from decond.progress import Report, progress_bar

__all__ = ["BoundedSimulator", "Calls", "check_budget", "check_rounds"]


class Calls:
    """How `infer` lets a method call the simulator: summarized, with a limit on time, and with results kept.

    Each call has a random generator of its own, so that results do not depend on the limit.

    Args:
        simulator: The simulator, as `simulate` takes it.
        batched: Whether it takes many rows at once; it gets at most 100.
        summarize: Turns what it returns into summaries.
        limit: Seconds for one call.
        keep: Called with the parameters and the results after each call; returns these, named values in one order.
    """

    def __init__(
        self,
        simulator: Simulator,
        batched: bool,
        summarize: Simulator | None,
        limit: float | None,
        keep: Callable[[np.ndarray, Sequence[Result]], list[Result]],
    ) -> None:
        self._functions = (simulator, summarize, batched)
        self._keep = keep
        self._limited = None if limit is None else WorkerProcess(packed(self._functions), limit)

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> list[Result]:
        """Run one row, or a batch, and the rows of a batch one by one if it fails as a whole."""
        results = self._attempt(theta, rng)
        if len(theta) > 1 and all(result.x is None for result in results):
            results = [self._attempt(row[None, :], rng)[0] for row in theta]
        return self._keep(theta, results)

    def close(self) -> None:
        """End the process that calls with a limit run in."""
        if self._limited is not None:
            self._limited.close()

    def _attempt(self, theta: np.ndarray, rng: np.random.Generator) -> list[Result]:
        own = np.random.default_rng(int(rng.integers(2**63)))
        return self._limited(theta, own) if self._limited is not None else call(self._functions, theta, own)


class BoundedSimulator:
    """A simulator with a budget; simulations that fail become rows of NaN, and are counted.

    `left` is the number of simulations that may still be run, 0 once the time is over.
    """

    def __init__(
        self,
        simulator: Simulator,
        batched: bool,
        width: int,
        budget: int,
        time_limit: float,
        calls: Calls | None = None,
        names: Sequence[str] | None = None,
        report: Report | None = None,
    ) -> None:
        self._report = report
        self._functions = (simulator, None, batched or takes_batches(simulator))
        self._width, self._calls = width, calls
        self._names = names
        self._budget, self._deadline = budget, time.monotonic() + time_limit
        self.n_run, self.n_failed = 0, 0
        self.first_reason = ""
        self._made: list[tuple[np.ndarray, np.ndarray]] = []
        self._reasons: list[str] = []

    @classmethod
    @contextlib.contextmanager
    def of(cls, method: Any) -> Iterator[Self]:
        """Yield the simulator of a fitted method, with what its pilot leaves of budget and time, and a bar."""
        budget = method.n_simulations - len(method.sims_)
        width, calls = method.sims_.x.shape[1], getattr(method, "calls", None)
        names = method.sims_.summary_names
        with progress_bar("simulations", budget) as report:
            yield cls(method.simulator, method.batched, width, budget, method.time_limit, calls, names, report)

    @property
    def left(self) -> int:
        """The number of simulations that may still be run."""
        return 0 if self.out_of_time else self._budget - self.n_run

    @property
    def out_of_time(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self._deadline

    def run(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return data (n, s) at rows of parameters; fewer rows, the first ones, if the budget or the time ends."""
        rows = theta[: max(0, self._budget - self.n_run)]
        size = 1
        if self._functions[2]:
            size = max(1, len(rows)) if self._calls is None else BATCH_SIZE
        parts = [np.empty((0, self._width))]
        for at in range(0, len(rows), size):
            if self.out_of_time:
                break
            parts.append(self._attempt(rows[at : at + size], rng))
            self.n_run += len(parts[-1])
            if self._report is not None:
                self._report(self.n_run)
        x = np.concatenate(parts)
        failed = ~np.isfinite(x).all(axis=1)
        self.n_failed += int(failed.sum())
        x[failed] = np.nan
        if len(x):
            self._made.append((rows[: len(x)].copy(), x.copy()))
        return x

    def simulations(self, pilot: Simulations) -> Simulations:
        """Return the pilot and all simulations that were run after it."""
        if not self._made:
            return pilot
        theta, x = (np.concatenate(parts) for parts in zip(*self._made, strict=True))
        return pilot + Simulations(theta, x, reasons=self._reasons, names=pilot.names)

    def notes(self) -> list[PosteriorWarning]:
        """Return warnings of failures and of time that ran out."""
        notes: list[PosteriorWarning] = []
        if self.n_failed:
            reason = f", for example: {self.first_reason}" if self.first_reason else ""
            text = f"{self.n_failed} of the {self.n_run} simulations run by this method failed{reason}."
            reasons = Counter(reason for reason in self._reasons if reason)
            notes.append(FailedSimulationsWarning(text, self.n_failed, self.n_run, reasons))
        if self.out_of_time:
            text = (
                f"time ran out after {self.n_run} of {self._budget} simulations; the posterior rests on these. Raise "
                "time_limit for a sharper one."
            )
            notes.append(TimeLimitWarning(text, "simulation", self.n_run))
        return notes

    def _attempt(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return data at rows of parameters; the rows of a batch that fails as a whole are run one by one."""
        results = self._results(theta, rng)
        x = np.full((len(theta), self._width), np.nan)
        for i, result in enumerate(results):
            reason = result.reason
            if result.x is not None and len(result.x) == self._width:
                x[i] = result.x
            elif result.x is not None:
                reason = f"returned {len(result.x)} values, expected {self._width}"
            self.first_reason = self.first_reason or reason
            self._reasons.append(reason)
        return x

    def _results(self, theta: np.ndarray, rng: np.random.Generator) -> list[Result]:
        if self._calls is not None:
            return self._calls(theta, rng)
        results = call(self._functions, theta, rng)
        if len(theta) > 1 and all(result.x is None for result in results):
            results = [call(self._functions, row[None, :], rng)[0] for row in theta]
        return [in_order(result, self._names) for result in results]


def check_budget(simulator: Any, n_simulations: Any, n_pilot: int, time_limit: Any) -> None:
    """Raise unless there is a simulator, and something left to simulate after the pilot."""
    if not callable(simulator):
        raise ArgumentTypeError(
            "simulator",
            f"simulator is {simulator!r}; this method runs the simulator itself. Give the function that made the "
            "simulations, for example simulator=my_simulator.",
        )
    if as_count(n_simulations, "n_simulations") <= n_pilot:
        raise ArgumentError(
            "n_simulations",
            f"n_simulations is {n_simulations}, all simulations counted, but {n_pilot} pilot simulations are given "
            "already; ask for more, or give a smaller pilot.",
        )
    as_number(time_limit, "time_limit", minimum=0.0)


def check_rounds(rounds: Any) -> None:
    """Raise unless a number of rounds is whole; 0 is none.

    >>> check_rounds(-1)
    Traceback (most recent call last):
        ...
    decond.errors.ArgumentError: rounds is -1; give a whole number of rounds, or 0 to use only the simulations...
    """
    if isinstance(rounds, bool) or not isinstance(rounds, int | np.integer) or rounds < 0:
        raise ArgumentError(
            "rounds",
            f"rounds is {rounds!r}; give a whole number of rounds, or 0 to use only the simulations given to fit.",
        )
