"""Running a simulator inside a method: never more than a number of simulations, never much longer than a time."""

import time
from typing import Any, Self

import numpy as np

from decond.checks import as_count, as_number
from decond.lfi.execution import Simulator, call
from decond.lfi.simulations import Simulations

__all__ = ["BoundedSimulator", "check_budget"]


class BoundedSimulator:
    """A simulator with a budget; simulations that fail become rows of NaN, and are counted.

    `left` is the number of simulations that may still be run, 0 once the time is over.
    """

    def __init__(self, simulator: Simulator, batched: bool, width: int, budget: int, time_limit: float) -> None:
        self._simulator, self._batched, self._width = simulator, batched, width
        self._budget, self._deadline = budget, time.monotonic() + time_limit
        self.n_run, self.n_failed = 0, 0
        self.first_reason = ""
        self._made: list[tuple[np.ndarray, np.ndarray]] = []

    @classmethod
    def of(cls, method: Any) -> Self:
        """Return the simulator of a fitted method, with the simulations and the time that its pilot leaves."""
        budget = method.n_simulations - len(method.sims_)
        return cls(method.simulator, method.batched, method.sims_.x.shape[1], budget, method.time_limit)

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
        size = max(1, len(rows)) if self._batched else 1
        parts = [np.empty((0, self._width))]
        for at in range(0, len(rows), size):
            if self.out_of_time:
                break
            parts.append(self._attempt(rows[at : at + size], rng))
            self.n_run += len(parts[-1])
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
        return pilot + Simulations(theta, x, names=pilot.names)

    def notes(self) -> list[str]:
        """Return sentences on failures and on time, where there is something to say."""
        notes = []
        if self.n_failed:
            reason = f", for example: {self.first_reason}" if self.first_reason else ""
            notes.append(
                f"{self.n_failed} of the {self.n_run} simulations run by this method failed{reason}. They count as "
                "infinitely far from the observation."
            )
        if self.out_of_time:
            notes.append(
                f"time ran out after {self.n_run} of {self._budget} simulations; the posterior rests on these. Raise "
                "time_limit for a sharper one."
            )
        return notes

    def _attempt(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return data at rows of parameters; the rows of a batch that fails as a whole are run one by one."""
        results = call(self._simulator, None, self._batched, theta, rng)
        if len(theta) > 1 and all(result.x is None for result in results):
            results = [call(self._simulator, None, True, row[None, :], rng)[0] for row in theta]
        x = np.full((len(theta), self._width), np.nan)
        for i, result in enumerate(results):
            reason = result.reason
            if result.x is not None and len(result.x) == self._width:
                x[i] = result.x
            elif result.x is not None:
                reason = f"returned {len(result.x)} values, expected {self._width}"
            self.first_reason = self.first_reason or reason
        return x


def check_budget(simulator: Any, n_simulations: Any, n_pilot: int, time_limit: Any) -> None:
    """Raise unless there is a simulator, and something left to simulate after the pilot."""
    if not callable(simulator):
        raise TypeError(
            f"simulator is {simulator!r}; this method runs the simulator itself. Give the function that made the "
            "simulations, for example simulator=my_simulator."
        )
    if as_count(n_simulations, "n_simulations") <= n_pilot:
        raise ValueError(
            f"n_simulations is {n_simulations}, all simulations counted, but {n_pilot} pilot simulations are given "
            "already; ask for more, or give a smaller pilot."
        )
    as_number(time_limit, "time_limit", minimum=0.0)
