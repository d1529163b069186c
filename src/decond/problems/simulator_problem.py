"""What a problem of likelihood-free inference consists of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from decond.checks import as_row, frozen

if TYPE_CHECKING:
    from decond.lfi import Prior

__all__ = ["SimulatorProblem", "observe"]

Simulator = Callable[[np.ndarray, np.random.Generator], np.ndarray]


@dataclass(frozen=True, eq=False)
class SimulatorProblem:
    """A prior, a simulator and an observation: everything that likelihood-free inference is given.

    `simulator` maps parameters in the order of `prior.names` and a random generator to summaries: rows (n, d) to rows
    (n, s) if `batched`. Where summaries are made from larger data, `raw_simulator` gives these data, `summarize`
    makes the summaries (of one simulation or of many), and `observed_raw` are the data observed.

    >>> from decond.problems import exponential_gamma
    >>> problem = exponential_gamma()
    >>> problem.prior.names, problem.observed.round(2)
    (('rate',), array([0.59]))
    >>> problem.simulator(problem.prior.sample(3, seed=0), np.random.default_rng(0)).shape
    (3, 1)
    """

    name: str
    prior: Prior
    simulator: Simulator
    batched: bool
    observed: np.ndarray
    """The summaries observed, of shape (s,)."""
    true_parameters: np.ndarray | None = None
    """The parameters that the observation was made with, of shape (d,), where they are known."""
    raw_simulator: Simulator | None = None
    summarize: Callable[[np.ndarray], np.ndarray] | None = None
    observed_raw: np.ndarray | None = None
    log_posterior: Callable[[np.ndarray], np.ndarray] | None = None
    """The exact log density of the posterior at rows of parameters, up to a constant, where it is known."""


def observe(
    prior: Prior, simulator: Simulator, observed: Sequence[float] | np.ndarray | None, seed: int
) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the true parameters, if known, and the observation: the one given, or one simulated from `seed`."""
    if observed is not None:
        return None, frozen(as_row(observed, "observed")[0])
    rng = np.random.default_rng(seed)
    truth = prior.sample(1, rng)
    return frozen(truth[0]), frozen(simulator(truth, rng)[0])
