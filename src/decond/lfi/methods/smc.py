"""SMC ABC: generations of simulations that close in on the observation (Beaumont et al. 2009, Toni et al. 2009)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from decond.checks import as_count, as_generator, check_choice
from decond.lfi.methods.mcmc import step_root
from decond.lfi.methods.method import SummaryOption
from decond.lfi.methods.rejection import Accepted, Adjustment, DistanceMethod, DistanceScale
from decond.lfi.methods.simulating_method import SimulatingMethod
from decond.lfi.posterior_draws import Posterior, Seed
from decond.lfi.prior import Prior

__all__ = ["SMCABC"]


@dataclass(eq=False, repr=False)
class SMCABC(SimulatingMethod, DistanceMethod):
    """Population Monte Carlo with tolerances that shrink by themselves, bounded by a number of simulations.

    `fit` takes pilot simulations from the prior; they are generation zero and count in `n_simulations`. Each of
    `n_generations` more proposes parameters from the current population, moved by a Gaussian of twice its
    covariance in working coordinates, and simulates them. Every simulation i then has the weight prior/proposal,

        w_i = π(φ_i) / Σ_t (n_t/n) q_t(φ_i),

    where q_0 is the prior and q_t the mixture that generation t was drawn from; no simulation is thrown away
    (deterministic mixture, Cornuet et al. 2012). The population is all simulations within the smallest tolerance at
    which they are worth `n_particles` equally weighted ones. Failed simulations are infinitely far.

    Parameters
    ----------
    simulator : callable, optional
        The simulator that made the pilot.
    n_simulations : int, optional
        Simulations in all.
    batched : bool, optional
        Whether the simulator takes many rows of parameters at once.
    n_particles : int, optional
        Effective sample size of the population; by default one particle for 40 simulations, twice as many where a
        regression corrects for the tolerance.
    n_generations : int, optional
        Generations after the pilot.
    adjustment : {"none", "linear"}, optional
        "linear" moves the last population to the observation along a local line.
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
    M. A. Beaumont et al., Adaptive approximate Bayesian computation, Biometrika 96, 2009.
    https://doi.org/10.1093/biomet/asp052

    Examples
    --------
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

    simulator: Callable[..., ArrayLike] | None = None
    n_simulations: int = 2000
    batched: bool = False
    n_particles: int | None = None
    n_generations: int = 8
    adjustment: Adjustment = "none"
    scale: DistanceScale = "observation"
    time_limit: float = 600.0
    seed: Seed = 0
    summary: SummaryOption = "auto"

    def _fit(self) -> None:
        check_choice(self.adjustment, "adjustment", ("none", "linear"))
        as_count(self.n_generations, "n_generations")
        self._check_scale()
        self._check_budget()
        if self.n_particles is not None:
            as_count(self.n_particles, "n_particles")

    def _posterior(self, observed: np.ndarray) -> Posterior:
        rng = as_generator(self.seed)
        self._set_unit(observed)
        per_particle = 40 if self.adjustment == "none" else 20
        default = int(np.clip(self.n_simulations // per_particle, 50, 1000))
        history = _History(self.prior_, self.n_particles or default)
        x = np.full((len(self.sims_), self.x_.shape[1]), np.nan)
        x[self.sims_.valid] = self.x_
        history.add(None, self.prior_.to_working(self.sims_.theta), x, self._distance(x))
        with self._running() as runner:
            for generation in range(self.n_generations):
                size = -(-runner.left // (self.n_generations - generation))
                if size == 0:
                    break
                proposal = _Mixture(history.population(), self.prior_)
                phi = proposal.sample(size, rng)
                x = self._summaries(runner.run(self.prior_.from_working(phi), rng))
                history.add(proposal, phi[: len(x)], x, self._distance(x))
        self.tolerances_ = history.tolerances
        population = history.population()
        accepted = replace(population, theta=self.prior_.from_working(population.theta))
        return accepted.posterior(self, observed, self.adjustment, runner.notes())


class _Mixture:
    """The proposal of a generation: Gaussians of twice the covariance around a population, cut to the support.

    Until it was sampled from, it is not known how much of the mixture lies inside.
    """

    def __init__(self, population: Accepted, prior: Prior) -> None:
        self._centers, self._weights, self._prior = population.theta, population.weights, prior
        self._root = np.sqrt(2.0) * step_root(population.theta, population.weights)
        self._log_inside = 0.0

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws inside the support, or fewer if they are too rare.

        Parameters
        ----------
        n : int
            How many.
        rng : numpy.random.Generator
            Source of randomness.
        """
        kept, n_kept, n_drawn = [], 0, 0
        while n_kept < n and n_drawn < 200 * n:
            chosen = rng.choice(len(self._centers), size=n, p=self._weights)
            phi = self._centers[chosen] + rng.standard_normal((n, self._centers.shape[1])) @ self._root.T
            kept.append(phi[np.isfinite(self._prior.log_density_working(phi))])
            n_kept, n_drawn = n_kept + len(kept[-1]), n_drawn + n
        self._log_inside = float(np.log(max(n_kept, 1) / n_drawn))
        return np.concatenate(kept)[:n]

    def log_density(self, phi: np.ndarray) -> np.ndarray:
        """Return the log density of `sample` at rows inside the support, a chunk of rows at a time."""
        centers, points = np.linalg.solve(self._root, self._centers.T).T, np.linalg.solve(self._root, phi.T).T
        log_determinant = np.linalg.slogdet(self._root)[1]
        constant = -log_determinant - 0.5 * phi.shape[1] * np.log(2.0 * np.pi) - self._log_inside
        density, chunk = np.empty(len(points)), 2000
        for at in range(0, len(points), chunk):
            squares = cdist(points[at : at + chunk], centers, "sqeuclidean")
            density[at : at + chunk] = np.exp(-0.5 * squares) @ self._weights
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
        """Add a generation.

        Parameters
        ----------
        proposal : _Mixture, optional
            What it was drawn from; None for the prior.
        phi : ndarray of shape (n, d)
            Working coordinates.
        x : ndarray of shape (n, s)
            Summaries.
        distance : ndarray of shape (n,)
            Distances from the observation.
        """
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
        normalized = weights[: len(kept)] / weights[: len(kept)].sum()
        phi, x = np.concatenate(self._phi)[kept], np.concatenate(self._x)[kept]
        return Accepted(phi, x, distance[kept], normalized, float(distance[kept[-1]]))

    def _weights(self) -> np.ndarray:
        """Return prior/proposal for every simulation; the proposal is the mixture of all generations."""
        sizes = np.array([len(phi) for phi in self._phi], dtype=np.float64)
        log_proposal = logsumexp(np.stack(self._log_density), b=(sizes / sizes.sum())[:, None], axis=0)
        return np.exp(self._prior.log_density_working(np.concatenate(self._phi)) - log_proposal)

    def _density_of(self, proposal: _Mixture | None, phi: np.ndarray) -> np.ndarray:
        return self._prior.log_density_working(phi) if proposal is None else proposal.log_density(phi)
