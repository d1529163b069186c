"""MCMC ABC: a random walk that only steps where simulations come near the observation (Marjoram et al. 2003)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from decond.checks import as_count, as_generator
from decond.lfi.exceptions import DegenerateDrawsWarning
from decond.lfi.methods.adjustment import Accepted, nearest
from decond.lfi.methods.distance import DistanceMethod, check_tolerances
from decond.lfi.methods.running import BoundedSimulator, check_budget
from decond.lfi.posterior import Posterior

__all__ = ["MCMCABC"]

BURN_IN = 0.2
"""Share of each chain that is left out."""

IDLE = 50
"""Steps for each simulation of the budget after which a chain that only proposes what the prior refuses is ended."""


class MCMCABC(DistanceMethod):
    """Markov chains that move only to parameters whose own simulation lies within a tolerance of the observation.

    `fit` takes pilot simulations from the prior; they count in `n_simulations`. The tolerance is their nearest share
    `quantile` unless `tolerance` is given; chains start at the nearest of them and take Gaussian steps in working
    coordinates with the covariance of those within the tolerance, times 2.38²/d. `n_chains` run side by side, in one
    call of the simulator if it is `batched`. A failed simulation is a refused step. `scale` is the unit
    of each summary in the distance, as in `DistanceMethod`. After `time_limit` seconds no further simulation begins.

    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> def simulator(theta, rng):
    ...     return theta + rng.standard_normal(theta.shape)
    >>> theta = prior.sample(500, seed=0)
    >>> pilot = Simulations(theta=theta, x=simulator(theta, rng))
    >>> method = MCMCABC(simulator, n_simulations=3000, batched=True)
    >>> posterior = method.fit(pilot, prior).posterior([1.0])  # exact: mean 0.5, standard deviation 0.71
    >>> bool(abs(posterior.mean()[0] - 0.5) < 0.15), method.n_simulations_ <= 3000
    (True, True)
    """

    runs_simulator = True

    def __init__(
        self,
        simulator: Callable[..., Any] | None = None,
        n_simulations: int = 2000,
        batched: bool = False,
        quantile: float = 0.05,
        tolerance: float | None = None,
        n_chains: int = 10,
        scale: str = "observation",
        time_limit: float = 600.0,
        seed: Any = 0,
        summary: str = "auto",
    ) -> None:
        self.simulator, self.n_simulations, self.batched = simulator, n_simulations, batched
        self.quantile, self.tolerance, self.n_chains, self.time_limit = quantile, tolerance, n_chains, time_limit
        self.scale, self.seed, self.summary = scale, seed, summary

    def _fit(self) -> None:
        check_tolerances(self.quantile, self.tolerance)
        as_count(self.n_chains, "n_chains")
        self._check_scale()
        check_budget(self.simulator, self.n_simulations, len(self.sims_), self.time_limit)

    def _posterior(self, observed: np.ndarray) -> Posterior:
        rng = as_generator(self.seed)
        self._set_unit(observed)
        pilot = nearest(self.phi_, self.x_, self._distance(self.x_), quantile=self.quantile, tolerance=None)
        self.tolerance_ = pilot.tolerance if self.tolerance is None else float(self.tolerance)
        with BoundedSimulator.of(self) as runner:
            chains, accepted = self._walk(pilot, runner, rng)
        self.n_simulations_, self.n_failed_ = len(self.sims_) + runner.n_run, runner.n_failed
        self.simulations_ = runner.simulations(self.sims_)
        self.acceptance_ = accepted / max(1, runner.n_run)
        notes = runner.notes()
        if accepted < 10 * chains.shape[1]:
            text = (
                f"the chains made {accepted} moves in {runner.n_run} simulations; draws repeat. Raise the tolerance "
                "or the number of simulations."
            )
            notes.append(DegenerateDrawsWarning(text, accepted, runner.n_run))
        kept = chains[int(BURN_IN * len(chains)) :].reshape(-1, self.prior_.dim)
        theta = self.prior_.from_working(kept)

        def draw(n: int, rng: np.random.Generator) -> np.ndarray:
            rows = np.arange(n) % len(theta)
            return theta[rng.permutation(len(theta))[rows]]

        return Posterior(self.prior_, draw, effective=float(accepted), notes=notes, seed=self.seed)

    def _walk(self, pilot: Accepted, runner: BoundedSimulator, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Return the states of the chains (steps, chains, d) in working coordinates and the number of moves made.

        A step is first tried against the prior; only where it passes is the simulator run.
        """
        order = np.argsort(pilot.distance)[: self.n_chains]
        state = pilot.theta[order]
        log_prior = self.prior_.log_density_working(state)
        root = step_root(pilot.theta, pilot.weights) * (2.38 / np.sqrt(self.prior_.dim))
        states, moves = [state], 0
        for _ in range(1 + IDLE * max(1, runner.left) // len(state)):
            proposed = state + rng.standard_normal(state.shape) @ root.T
            log_proposed = self.prior_.log_density_working(proposed)
            tried = np.flatnonzero(np.log(rng.random(len(state))) < log_proposed - log_prior)
            if runner.left < max(1, len(tried)):
                break
            x = runner.run(self.prior_.from_working(proposed[tried]), rng)
            if len(x) < len(tried):
                break
            went = tried[self._distance(self._summaries(x)) <= self.tolerance_]
            state, log_prior = state.copy(), log_prior.copy()
            state[went], log_prior[went] = proposed[went], log_proposed[went]
            states.append(state)
            moves += len(went)
        return np.stack(states), moves


def step_root(phi: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return a square root of the weighted covariance, with a little added where it is flat."""
    covariance = np.atleast_2d(np.cov(phi.T, aweights=weights)) if len(phi) > 1 else np.eye(phi.shape[1])
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 1e-6 * max(values.max(), 1e-6)))
