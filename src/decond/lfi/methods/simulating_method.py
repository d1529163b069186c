"""Methods that run the simulator themselves: never more than a number of simulations, hardly longer than a time."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from decond.checks import as_count, as_number
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.exceptions import FailedSimulationsWarning, PosteriorWarning, TimeLimitWarning
from decond.lfi.methods.method import Method
from decond.lfi.neural import require
from decond.lfi.simulation.backend import packed
from decond.lfi.simulation.run import takes_batches
from decond.lfi.simulation.worker import BATCH_SIZE, Result, WorkerProcess, call, in_order
from decond.lfi.simulations import Simulations
from decond.progress import Report, progress_bar

__all__ = ["BoundedSimulator", "NetworkMethod", "SimulatingMethod", "SimulatorCalls"]

Function = Callable[..., ArrayLike]


class SimulatorCalls:
    """Calls of the simulator: as `infer` makes them, with a limit on time and with results kept, or directly.

    Parameters
    ----------
    simulator : callable
        The simulator, as `simulate` takes it.
    batched : bool
        Whether it takes many rows at once; where results are kept it gets at most 100.
    summarize : callable, optional
        Turns what it returns into summaries.
    limit : float, optional
        Seconds for one call.
    keep : callable, optional
        Called with the parameters and the results after each call; returns these, named values in one order. Each
        call then has a generator of its own, so that results do not depend on the limit.
    """

    def __init__(
        self,
        simulator: Function,
        batched: bool,
        summarize: Function | None = None,
        limit: float | None = None,
        keep: Callable[[np.ndarray, Sequence[Result]], list[Result]] | None = None,
    ) -> None:
        self._functions = (simulator, summarize, batched or takes_batches(simulator))
        self._keep = keep
        self._limited = None if limit is None else WorkerProcess(packed(self._functions), limit)

    def batch_size(self, n: int) -> int:
        """Return how many of n rows go into one call."""
        if not self._functions[2]:
            return 1
        return max(n, 1) if self._keep is None else BATCH_SIZE

    def run(self, theta: np.ndarray, rng: np.random.Generator, names: Sequence[str] | None) -> list[Result]:
        """Run a batch, and its rows one by one if it fails as a whole.

        Parameters
        ----------
        theta : ndarray of shape (b, d)
            Rows of parameters.
        rng : numpy.random.Generator
            Source of the simulations' randomness.
        names : sequence of str, optional
            Names of the summaries, in their order.

        Returns
        -------
        list of Result
            One for each row.
        """
        results = self._attempt(theta, rng)
        if len(theta) > 1 and all(result.x is None for result in results):
            results = [self._attempt(row[None, :], rng)[0] for row in theta]
        return [in_order(result, names) for result in results] if self._keep is None else self._keep(theta, results)

    def close(self) -> None:
        """End the process that calls with a limit run in."""
        if self._limited is not None:
            self._limited.close()

    def _attempt(self, theta: np.ndarray, rng: np.random.Generator) -> list[Result]:
        own = rng if self._keep is None else np.random.default_rng(int(rng.integers(2**63)))
        return call(self._functions, theta, own) if self._limited is None else self._limited(theta, own)


class SimulatingMethod(Method):
    """A method that runs the simulator after a pilot, which is given to `fit` and counts in `n_simulations`.

    Attributes
    ----------
    simulator : callable, optional
        The simulator that made the pilot.
    n_simulations : int
        Simulations in all.
    batched : bool
        Whether the simulator takes many rows of parameters at once.
    time_limit : float
        Seconds after which no further simulation begins.
    calls : SimulatorCalls, optional
        How to call the simulator; set by `infer`.
    """

    runs_simulator = True
    simulator: Function | None
    n_simulations: int
    batched: bool
    time_limit: float
    calls: SimulatorCalls | None = None

    def _check_budget(self) -> None:
        """Raise unless there is a simulator, and something left to simulate after the pilot."""
        if not callable(self.simulator):
            raise ArgumentTypeError(
                "simulator",
                f"simulator is {self.simulator!r}; this method runs the simulator itself. Give the function that "
                "made the simulations, for example simulator=my_simulator.",
            )
        if as_count(self.n_simulations, "n_simulations") <= len(self.sims_):
            raise ArgumentError(
                "n_simulations",
                f"n_simulations is {self.n_simulations}, all simulations counted, but {len(self.sims_)} pilot "
                "simulations are given already; ask for more, or give a smaller pilot.",
            )
        as_number(self.time_limit, "time_limit", minimum=0.0)

    @contextlib.contextmanager
    def _running(self) -> Iterator["BoundedSimulator"]:
        """Yield the simulator with what the pilot leaves of the budget, under a bar; keep what was run."""
        with progress_bar("simulations", self.n_simulations - len(self.sims_)) as report:
            runner = BoundedSimulator(self, report)
            yield runner
        self.simulations_ = runner.simulations(self.sims_)
        self.n_simulations_, self.n_failed_ = len(self.sims_) + runner.n_run, runner.n_failed


class BoundedSimulator:
    """The simulator of a fitted method with a budget; simulations that fail become rows of NaN, and are counted.

    Parameters
    ----------
    method : SimulatingMethod
        The method, fitted to its pilot.
    report : Report, optional
        Called with the number of simulations that were run.
    """

    def __init__(self, method: SimulatingMethod, report: Report | None = None) -> None:
        assert method.simulator is not None
        self._calls = method.calls or SimulatorCalls(method.simulator, method.batched)
        everything = np.ones(method.sims_.x.shape[1], dtype=bool), method.sims_.summary_names
        columns, names = method.columns_ or everything
        self._columns: np.ndarray = columns
        self._names: Sequence[str] | None = names
        self._width, self._report = len(self._columns), report
        self._budget = method.n_simulations - len(method.sims_)
        self._deadline = time.monotonic() + method.time_limit
        self.n_run, self.n_failed = 0, 0
        self._made: list[tuple[np.ndarray, np.ndarray]] = []
        self._reasons: list[str] = []

    @property
    def left(self) -> int:
        """The number of simulations that may still be run, 0 once the time is over."""
        return 0 if self.out_of_time else self._budget - self.n_run

    @property
    def out_of_time(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self._deadline

    def run(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Run the simulator until the budget or the time ends.

        Parameters
        ----------
        theta : ndarray of shape (n, d)
            Rows of parameters.
        rng : numpy.random.Generator
            Source of the simulations' randomness.

        Returns
        -------
        ndarray
            The data (n, s) of the rows that were run, the first ones.
        """
        rows = theta[: max(0, self._budget - self.n_run)]
        chunks = [np.empty((0, self._width))]
        size = self._calls.batch_size(len(rows))
        for at in range(0, len(rows), size):
            if self.out_of_time:
                break
            chunks.append(self._run_chunk(rows[at : at + size], rng))
            self.n_run += len(chunks[-1])
            if self._report is not None:
                self._report(self.n_run)
        x = np.concatenate(chunks)
        failed = ~np.isfinite(x).all(axis=1)
        self.n_failed += int(failed.sum())
        x[failed] = np.nan
        x = x[:, self._columns]
        if len(x):
            self._made.append((rows[: len(x)].copy(), x.copy()))
        return x

    def simulations(self, pilot: Simulations) -> Simulations:
        """Return the pilot and all simulations that were run after it."""
        if not self._made:
            return pilot
        theta, x = (np.concatenate(chunks) for chunks in zip(*self._made, strict=True))
        return pilot + Simulations(theta, x, reasons=self._reasons, names=pilot.names)

    def notes(self) -> list[PosteriorWarning]:
        """Return warnings of failures and of time that ran out."""
        notes: list[PosteriorWarning] = []
        if self.n_failed:
            reasons = Counter(filter(None, self._reasons))
            example = f", for example: {next(iter(reasons))}" if reasons else ""
            text = f"{self.n_failed} of the {self.n_run} simulations run by this method failed{example}."
            notes.append(FailedSimulationsWarning(text, self.n_failed, self.n_run, dict(reasons)))
        if self.out_of_time:
            text = (
                f"time ran out after {self.n_run} of {self._budget} simulations; the posterior rests on these. Raise "
                "time_limit for a sharper one."
            )
            notes.append(TimeLimitWarning(text, "simulation", self.n_run))
        return notes

    def _run_chunk(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return data at rows of parameters, NaN where simulations failed."""
        x = np.full((len(theta), self._width), np.nan)
        for i, result in enumerate(self._calls.run(theta, rng, self._names)):
            reason = result.reason
            if result.x is not None and len(result.x) == self._width:
                x[i] = result.x
            elif result.x is not None:
                reason = f"returned {len(result.x)} values, expected {self._width}"
            self._reasons.append(reason)
        return x


class NetworkMethod(SimulatingMethod):
    """A method that trains neural networks, with or without rounds of simulations; it needs ``decond[neural]``.

    Attributes
    ----------
    rounds : int
        Most rounds of simulations, or 0 for none.
    steps : int
        Most steps of training for the last network; the others take half as many.
    """

    rounds: int
    steps: int

    def __post_init__(self) -> None:
        """Raise unless Equinox and Optax are installed."""
        require(f"lfi.{type(self).__name__}")

    @property
    def runs_simulator(self) -> bool:  # type: ignore[override]
        """Whether there are rounds for which `infer` gives the simulator."""
        return self.rounds > 0

    @property
    def _has_rounds(self) -> bool:
        return self.simulator is not None and self.rounds > 0

    def _check_training(self) -> None:
        as_count(self.steps, "steps")
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, int | np.integer) or self.rounds < 0:
            raise ArgumentError(
                "rounds",
                f"rounds is {self.rounds!r}; give a whole number of rounds, or 0 to use only the simulations given "
                "to fit.",
            )
        as_number(self.time_limit, "time_limit", minimum=0.0)
        if self._has_rounds:
            self._check_budget()

    def _training_notes(self, finished: bool, steps: int) -> list[PosteriorWarning]:
        if finished:
            return []
        text = f"training ran out of time after {steps} steps; raise time_limit."
        return [TimeLimitWarning(text, "training", steps)]
