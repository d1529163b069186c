"""MCMC ABC: a random walk that only steps where simulations come near the observation (Marjoram et al. 2003)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from decond.checks import as_count, as_generator
from decond.lfi.exceptions import DegenerateDrawsWarning
from decond.lfi.methods.method import SummaryOption
from decond.lfi.methods.rejection import Accepted, DistanceMethod, DistanceScale, check_tolerances, nearest_share
from decond.lfi.methods.simulating_method import BoundedSimulator, SimulatingMethod
from decond.lfi.posterior_draws import Posterior, Seed, WeightedDraws

__all__ = ["MCMCABC", "step_root"]


@dataclass(eq=False, repr=False)
class MCMCABC(SimulatingMethod, DistanceMethod):
    """Markov chains that move only to parameters whose own simulation lies within a tolerance of the observation.

    `fit` takes pilot simulations from the prior; they count in `n_simulations`. Chains start at the nearest of them
    and take Gaussian steps in working coordinates with the covariance of those within the tolerance, times 2.38²/d.
    A failed simulation is a refused step. The first fifth of each chain is left out.

    Parameters
    ----------
    simulator : callable, optional
        The simulator that made the pilot.
    n_simulations : int, optional
        Simulations in all.
    batched : bool, optional
        Whether the simulator takes many rows of parameters at once.
    quantile : float, optional
        The tolerance is the distance of this share of the pilot, the nearest.
    tolerance : float, optional
        The tolerance itself, instead.
    n_chains : int, optional
        Chains that run side by side, in one call of the simulator if it is `batched`.
    scale : {"observation", "spread", "none"}, optional
        The unit of each summary in the distance, see `DistanceMethod`: "observation", "spread" or "none".
    time_limit : float, optional
        Seconds after which no further simulation begins.
    seed : int, Generator or None, optional
        Seed of everything random.
    summary : {"auto", "none", "learned"}, optional
        What the method sees of the data, see `Method`.

    References
    ----------
    P. Marjoram et al., Markov chain Monte Carlo without likelihoods, PNAS 100, 2003.
    https://doi.org/10.1073/pnas.0306899100

    Examples
    --------
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

    simulator: Callable[..., ArrayLike] | None = None
    n_simulations: int = 2000
    batched: bool = False
    quantile: float = 0.05
    tolerance: float | None = None
    n_chains: int = 10
    scale: DistanceScale = "observation"
    time_limit: float = 600.0
    seed: Seed = 0
    summary: SummaryOption = "auto"

    def _fit(self) -> None:
        check_tolerances(self.quantile, self.tolerance)
        as_count(self.n_chains, "n_chains")
        self._check_scale()
        self._check_budget()

    def _posterior(self, observed: np.ndarray) -> Posterior:
        rng = as_generator(self.seed)
        self._set_unit(observed)
        pilot = nearest_share(self.phi_, self.x_, self._distance(self.x_), self.quantile, None)
        self.tolerance_ = pilot.tolerance if self.tolerance is None else float(self.tolerance)
        with self._running() as runner:
            chains, accepted = self._walk(pilot, runner, rng)
        self.acceptance_ = accepted / max(1, runner.n_run)
        notes = runner.notes()
        if accepted < 10 * chains.shape[1]:
            text = (
                f"the chains made {accepted} moves in {runner.n_run} simulations; draws repeat. Raise the tolerance "
                "or the number of simulations."
            )
            notes.append(DegenerateDrawsWarning(text, accepted, runner.n_run))
        kept = chains[len(chains) // 5 :].reshape(-1, self.prior_.dim)
        sampler = WeightedDraws(self.prior_.from_working(kept), np.ones(len(kept)))
        return Posterior(self.prior_, sampler, effective=float(accepted), notes=notes, seed=self.seed)

    def _walk(self, pilot: Accepted, runner: BoundedSimulator, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Return the states of the chains (steps, chains, d) in working coordinates and the number of moves made.

        A step is first tried against the prior; only where it passes is the simulator run. A chain that only proposes
        what the prior refuses ends after 50 steps for each simulation of the budget.
        """
        order = np.argsort(pilot.distance)[: self.n_chains]
        state = pilot.theta[order]
        log_prior = self.prior_.log_density_working(state)
        root = step_root(pilot.theta, pilot.weights) * (2.38 / np.sqrt(self.prior_.dim))
        states, moves = [state], 0
        for _ in range(1 + 50 * max(1, runner.left) // len(state)):
            proposed = state + rng.standard_normal(state.shape) @ root.T
            log_proposed = self.prior_.log_density_working(proposed)
            tried = np.flatnonzero(np.log(rng.random(len(state))) < log_proposed - log_prior)
            if runner.left < max(1, len(tried)):
                break
            x = runner.run(self.prior_.from_working(proposed[tried]), rng)
            if len(x) < len(tried):
                break
            moved = tried[self._distance(self._summaries(x)) <= self.tolerance_]
            state, log_prior = state.copy(), log_prior.copy()
            state[moved], log_prior[moved] = proposed[moved], log_proposed[moved]
            states.append(state)
            moves += len(moved)
        return np.stack(states), moves


def step_root(phi: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return a square root of a weighted covariance, with a little added where it is flat.

    Parameters
    ----------
    phi : ndarray of shape (n, d)
        Working coordinates.
    weights : ndarray of shape (n,)
        Weights of the rows.
    """
    covariance = np.atleast_2d(np.cov(phi.T, aweights=weights)) if len(phi) > 1 else np.eye(phi.shape[1])
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 1e-6 * max(values.max(), 1e-6)))
