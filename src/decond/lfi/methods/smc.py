"""SMC ABC: generations of simulations that close in on the observation (Beaumont et al. 2009, Toni et al. 2009)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from decond.checks import as_count, as_generator, check_choice
from decond.lfi.methods.adjustment import ADJUSTMENTS, Accepted
from decond.lfi.methods.distance import DistanceMethod
from decond.lfi.methods.mcmc import step_root
from decond.lfi.methods.running import BoundedSimulator, check_budget
from decond.lfi.posterior import Posterior
from decond.lfi.prior import Prior

__all__ = ["SMCABC"]

TRIES = 200
"""Batches of proposals after which a generation makes do with those inside the support."""

BLOCK = 2000
"""Rows at which the density of a proposal is evaluated at once."""


class SMCABC(DistanceMethod):
    """Population Monte Carlo with tolerances that shrink by themselves, bounded by a number of simulations.

    `fit` takes pilot simulations from the prior; they are generation zero and count in `n_simulations`. Each of
    `n_generations` more proposes parameters from the current population, moved by a Gaussian of twice its
    covariance in working coordinates, and simulates them. Every simulation i then has the weight prior/proposal,

        w_i = π(φ_i) / Σ_t (n_t/n) q_t(φ_i),

    where q_0 is the prior and q_t the mixture that generation t was drawn from; no simulation is thrown away
    (deterministic mixture, Cornuet et al. 2012). The population is all simulations within the smallest tolerance at
    which they are worth `n_particles` equally weighted ones. `adjustment="linear"` moves the last population to the
    observation along a local line (Beaumont et al. 2002). `scale` is the unit of each summary in the distance, as in
    `DistanceMethod`. Failed simulations are infinitely far. After `time_limit` seconds no further simulation begins.

    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> def simulator(theta, rng):
    ...     return theta + rng.standard_normal(theta.shape)
    >>> theta = prior.sample(500, seed=0)
    >>> pilot = Simulations(theta=theta, x=simulator(theta, rng))
    >>> method = SMCABC(simulator, n_simulations=3000, batched=True)
    >>> posterior = method.fit(pilot, prior).posterior([1.0])  # exact: mean 0.5, standard deviation 0.71
    >>> bool(abs(posterior.mean()[0] - 0.5) < 0.15), method.n_simulations_
    (True, 3000)
    """

    runs_simulator = True

    def __init__(
        self,
        simulator: Callable[..., Any] | None = None,
        n_simulations: int = 2000,
        batched: bool = False,
        n_particles: int | None = None,
        n_generations: int = 8,
        adjustment: str = "none",
        scale: str = "observation",
        time_limit: float = 600.0,
        seed: Any = 0,
        summary: str = "auto",
    ) -> None:
        self.simulator, self.n_simulations, self.batched = simulator, n_simulations, batched
        self.n_particles, self.n_generations = n_particles, n_generations
        self.adjustment, self.time_limit = adjustment, time_limit
        self.scale, self.seed, self.summary = scale, seed, summary

    def _fit(self) -> None:
        check_choice(self.adjustment, "adjustment", ADJUSTMENTS)
        as_count(self.n_generations, "n_generations")
        self._check_scale()
        check_budget(self.simulator, self.n_simulations, len(self.sims_), self.time_limit)
        if self.n_particles is not None:
            as_count(self.n_particles, "n_particles")

    def _posterior(self, observed: np.ndarray) -> Posterior:
        rng = as_generator(self.seed)
        self._set_unit(observed)
        history = _History(self.prior_, self.n_particles or self._default_particles())
        start, x = self.prior_.to_working(self.sims_.theta), self._pilot_summaries()
        history.add(None, start, x, self._distance(x))
        with BoundedSimulator.of(self) as runner:
            for generation in range(self.n_generations):
                size = -(-runner.left // (self.n_generations - generation))
                if size == 0:
                    break
                proposal = _Mixture.around(history.population(), self.prior_)
                phi = proposal.sample(size, rng)
                x = self._summaries(runner.run(self.prior_.from_working(phi), rng))
                history.add(proposal, phi[: len(x)], x, self._distance(x))
        self.n_simulations_, self.n_failed_ = len(self.sims_) + runner.n_run, runner.n_failed
        self.simulations_ = runner.simulations(self.sims_)
        self.tolerances_ = history.tolerances
        population = history.population()
        accepted = replace(population, theta=self.prior_.from_working(population.theta))
        adjusted, notes = accepted.adjusted(self.prior_, observed, self.adjustment)
        return adjusted.posterior(self.prior_, [*runner.notes(), *notes], self.seed)

    def _default_particles(self) -> int:
        """Return one particle for 40 simulations; twice as many where a regression corrects for the tolerance."""
        share = 40 if self.adjustment == "none" else 20
        return int(np.clip(self.n_simulations // share, 50, 1000))


class _Mixture:
    """The proposal of a generation: Gaussians around a weighted population, cut to the prior's support."""

    def __init__(self, centers: np.ndarray, weights: np.ndarray, root: np.ndarray, prior: Prior) -> None:
        self._centers, self._weights, self._root, self._prior = centers, weights, root, prior
        self._log_inside = 0.0

    @classmethod
    def around(cls, population: Accepted, prior: Prior) -> "_Mixture":
        """Return the mixture with twice the covariance of a population of working coordinates."""
        root = np.sqrt(2.0) * step_root(population.theta, population.weights)
        return cls(population.theta, population.weights, root, prior)

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return up to n draws inside the support, and learn the share of the mixture that lies there."""
        kept, n_kept, n_drawn = [], 0, 0
        for _ in range(TRIES):
            chosen = rng.choice(len(self._centers), size=n, p=self._weights)
            phi = self._centers[chosen] + rng.standard_normal((n, self._centers.shape[1])) @ self._root.T
            kept.append(phi[np.isfinite(self._prior.log_density_working(phi))])
            n_kept, n_drawn = n_kept + len(kept[-1]), n_drawn + n
            if n_kept >= n:
                break
        self._log_inside = float(np.log(max(n_kept, 1) / n_drawn))
        return np.concatenate(kept)[:n]

    def log_density(self, phi: np.ndarray) -> np.ndarray:
        """Return the log density of `sample` at rows inside the support, a block of rows at a time."""
        inverse = np.linalg.inv(self._root)
        centers, points = self._centers @ inverse.T, phi @ inverse.T
        constant = np.linalg.slogdet(inverse)[1] - 0.5 * phi.shape[1] * np.log(2.0 * np.pi) - self._log_inside
        density = np.empty(len(points))
        for at in range(0, len(points), BLOCK):
            squares = cdist(points[at : at + BLOCK], centers, "sqeuclidean")
            density[at : at + BLOCK] = np.exp(-0.5 * squares) @ self._weights
        return np.log(np.maximum(density, 1e-300)) + constant


class _History:
    """Every simulation of all generations, with its distance and its log density under each generation's proposal."""

    def __init__(self, prior: Prior, n_particles: int) -> None:
        self._prior, self._n_particles = prior, n_particles
        self._proposals: list[_Mixture | None] = []
        self._phi: list[np.ndarray] = []
        self._x: list[np.ndarray] = []
        self._distance: list[np.ndarray] = []
        self._log_density: list[np.ndarray] = []
        self.tolerances: list[float] = []

    def add(self, proposal: _Mixture | None, phi: np.ndarray, x: np.ndarray, distance: np.ndarray) -> None:
        """Take in a generation; its proposal is None if it was drawn from the prior."""
        earlier = np.concatenate([np.empty((0, self._prior.dim)), *self._phi])
        for t, known in enumerate(self._proposals):
            self._log_density[t] = np.concatenate([self._log_density[t], self._density_of(known, phi)])
        self._log_density.append(self._density_of(proposal, np.concatenate([earlier, phi])))
        for store, value in ((self._phi, phi), (self._x, x), (self._distance, distance)):
            store.append(value)
        self._proposals.append(proposal)
        self.tolerances.append(self.population().tolerance)

    def population(self) -> Accepted:
        """Return the nearest simulations that are worth `n_particles` equal ones, or all that did not fail."""
        distance = np.concatenate(self._distance)
        order = np.argsort(distance, kind="stable")[: int(np.isfinite(distance).sum())]
        weights = self._weights()[order]
        effective = np.cumsum(weights) ** 2 / np.cumsum(weights**2)
        enough = np.flatnonzero(effective >= self._n_particles)
        kept = order[: enough[0] + 1] if len(enough) else order
        share = weights[: len(kept)] / weights[: len(kept)].sum()
        phi, x = np.concatenate(self._phi)[kept], np.concatenate(self._x)[kept]
        return Accepted(phi, x, distance[kept], share, float(distance[kept[-1]]))

    def _weights(self) -> np.ndarray:
        """Return prior/proposal for every simulation; the proposal is the mixture of all generations."""
        sizes = np.array([len(phi) for phi in self._phi], dtype=np.float64)
        log_proposal = logsumexp(np.stack(self._log_density), b=(sizes / sizes.sum())[:, None], axis=0)
        return np.exp(self._prior.log_density_working(np.concatenate(self._phi)) - log_proposal)

    def _density_of(self, proposal: _Mixture | None, phi: np.ndarray) -> np.ndarray:
        return self._prior.log_density_working(phi) if proposal is None else proposal.log_density(phi)
