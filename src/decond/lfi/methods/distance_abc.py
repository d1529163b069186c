"""ABC, which compares simulations with the observation by a distance: rejection, Markov chains and populations."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from decond.checks import as_count, as_generator, as_number, check_choice
from decond.errors import ArgumentError
from decond.lfi.exceptions import DegenerateDrawsWarning, FewSimulationsWarning, PosteriorWarning
from decond.lfi.methods.method import Method, SummaryOption
from decond.lfi.methods.simulating_method import BoundedSimulator, SimulatingMethod
from decond.lfi.posterior_draws import Posterior, Seed, WeightedDraws
from decond.lfi.prior import Prior
from decond.lfi.sampling import effective_sample_size

__all__ = ["MCMCABC", "SMCABC", "Accepted", "Adjustment", "DistanceMethod", "DistanceScale", "RejectionABC"]

Adjustment = Literal["none", "linear"]
DistanceScale = Literal["observation", "spread", "none"]


class DistanceMethod(Method):
    """A method that compares simulations with the observation by a scaled Euclidean distance.

    Attributes
    ----------
    scale : {"observation", "spread", "none"}
        The unit in which each summary is measured. "observation" is its median distance from the observation over
        the simulations: every summary then counts alike, also where simulations crowd in one place and the
        observation is elsewhere. "spread" is its robust spread over the simulations. "none" takes the data's own
        units.
    """

    scale: DistanceScale

    def _check_scale(self) -> None:
        check_choice(self.scale, "scale", ("observation", "spread", "none"))

    def _set_unit(self, observed: np.ndarray) -> None:
        """Fix the unit of each standardized summary."""
        self._observed = observed
        self._unit = np.ones(self.x_.shape[1])
        if self.scale == "observation":
            gaps = np.abs(self.x_ - observed)
            middle, mean = np.median(gaps, axis=0), gaps.mean(axis=0)
            self._unit = np.where(middle > 0.0, middle, np.where(mean > 0.0, mean, 1.0))
        elif self.scale == "none" and self._learned is None:
            self._unit = 1.0 / (self._scale.scale * self._summary_scale.scale)

    def _distance(self, x: np.ndarray) -> np.ndarray:
        """Return the distance of rows of summaries from the observation; infinite where the simulation failed."""
        distance = np.sqrt((((x - self._observed) / self._unit) ** 2).sum(axis=1))
        return np.where(np.isnan(distance), np.inf, distance)

    def _summaries(self, data: np.ndarray) -> np.ndarray:
        """Return the standardized summaries of rows of data; NaN where the simulation failed."""
        valid = np.isfinite(data).all(axis=1)
        rows = np.full((len(data), self.x_.shape[1]), np.nan)
        if valid.any():
            rows[valid] = self._summarize(data[valid])
        return rows


@dataclass(frozen=True)
class Accepted:
    """Parameters (k, d) whose data (k, s) came within a tolerance of the observation; their weights sum to one."""

    theta: np.ndarray
    x: np.ndarray
    distance: np.ndarray
    weights: np.ndarray
    tolerance: float

    def posterior(
        self, method: DistanceMethod, observed: np.ndarray, adjustment: Adjustment, notes: list[PosteriorWarning]
    ) -> Posterior:
        """Return the posterior whose draws are these parameters, in proportion to their weights.

        Parameters
        ----------
        method : DistanceMethod
            The method that accepted them.
        observed : ndarray of shape (1, s)
            The observation, standardized.
        adjustment : {"none", "linear"}
            "linear" moves them to the observation along a local line, if there are enough.
        notes : list of PosteriorWarning
            Warnings that the posterior is to have.
        """
        kept, needed = self, 2 * (self.x.shape[1] + 1)
        if adjustment == "linear" and len(self.theta) < needed:
            text = (
                f"{len(self.theta)} simulations were accepted, but a regression on {self.x.shape[1]} summaries needs "
                f"{needed}: they are not adjusted. Accept more, or use summary='learned'."
            )
            notes = [*notes, FewSimulationsWarning(text, len(self.theta), needed)]
        elif adjustment == "linear":
            kept = self.adjusted(method.prior_, observed)
        effective, few = effective_sample_size(kept.weights), 30.0  # quantiles of fewer draws are rough
        if effective < few:
            text = (
                f"the posterior rests on {effective:.0f} effective simulations only; accept more of them, or "
                "run more simulations."
            )
            notes = [*notes, FewSimulationsWarning(text, effective, few)]
        sampler = WeightedDraws(kept.theta, kept.weights)
        return Posterior(method.prior_, sampler, effective=effective, notes=notes, seed=method.seed)

    def adjusted(self, prior: Prior, observed: np.ndarray) -> "Accepted":
        """Return parameters moved along a local line to the observation (Beaumont et al. 2002).

        θ*_i = t⁻¹(t(θ_i) − Bᵀ(x_i − x_observed)), where B is the least-squares slope with Epanechnikov weights. t is
        the prior's working coordinate, and the logit of a parameter that is bounded on both sides, so that θ* lies
        inside the support.

        Parameters
        ----------
        prior : Prior
            The prior of the parameters.
        observed : ndarray of shape (1, s)
            The observation, standardized.
        """
        weights = self.weights
        if self.tolerance > 0.0:  # lifted a little, so that the farthest keeps some weight
            weights = weights * (1.0 - (self.distance / (self.tolerance * 1.000001)) ** 2)
        weights = weights / weights.sum()
        target, offset = _unbounded(prior, self.theta), self.x - observed
        root = np.sqrt(weights)[:, None]
        design = np.hstack([np.ones((len(offset), 1)), offset])
        slope = np.linalg.lstsq(root * design, root * target, rcond=1e-8)[0][1:]
        theta = _bounded(prior, target - offset @ slope)
        return Accepted(theta, self.x, self.distance, weights, self.tolerance)


@dataclass(eq=False, repr=False)
class RejectionABC(DistanceMethod):
    """The posterior is the parameters of the simulations that came nearest to the observation.

    The simulations have to be draws from the prior. Failed ones are never kept, which accounts for their probability.

    Parameters
    ----------
    quantile : float, optional
        The share of the simulations that is kept, the nearest.
    tolerance : float, optional
        Keep all within this distance instead.
    adjustment : {"none", "linear"}, optional
        "linear" moves the kept ones to the observation along a local line (Beaumont et al. 2002).
    scale : {"observation", "spread", "none"}, optional
        The unit of each summary in the distance, see `DistanceMethod`: "observation", "spread" or "none".
    seed : int, Generator or None, optional
        Of the order of samples.
    summary : {"auto", "none", "learned"}, optional
        What the method sees of the data, see `Method`.

    References
    ----------
    J. K. Pritchard et al., Population growth of human Y chromosomes, Molecular Biology and Evolution 16, 1999.
    https://doi.org/10.1093/oxfordjournals.molbev.a026091

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> theta = prior.sample(2000, seed=0)
    >>> sims = Simulations(theta=theta, x=theta + rng.standard_normal(theta.shape))
    >>> RejectionABC(adjustment="linear").fit(sims, prior).posterior([1.0]).mean().round(1)
    array([0.5])
    """

    quantile: float = 0.05
    tolerance: float | None = None
    adjustment: Adjustment = "none"
    scale: DistanceScale = "observation"
    seed: Seed = 0
    summary: SummaryOption = "auto"

    needs_prior_draws = True

    def _fit(self) -> None:
        check_tolerances(self.quantile, self.tolerance)
        check_choice(self.adjustment, "adjustment", ("none", "linear"))
        self._check_scale()

    def _posterior(self, observed: np.ndarray) -> Posterior:
        self._set_unit(observed)
        accepted = nearest_share(self.theta_, self.x_, self._distance(self.x_), self.quantile, self.tolerance)
        self.tolerance_ = accepted.tolerance
        return accepted.posterior(self, observed, self.adjustment, [])


def check_tolerances(quantile: float, tolerance: float | None) -> None:
    """Raise unless the settings are possible.

    Parameters
    ----------
    quantile : float
        A share above 0 and up to 1.
    tolerance : float, optional
        A positive distance, or None.
    """
    if not 0.0 < as_number(quantile, "quantile") <= 1.0:
        raise ArgumentError(
            "quantile", f"quantile is {quantile!r}; give the share of simulations to keep, for example 0.05."
        )
    if tolerance is not None:
        as_number(tolerance, "tolerance", minimum=0.0, strict=True)


def nearest_share(
    theta: np.ndarray, x: np.ndarray, distance: np.ndarray, quantile: float, tolerance: float | None
) -> Accepted:
    """Return the simulations within a tolerance, or else the nearest share of them, equally weighted.

    Parameters
    ----------
    theta : ndarray of shape (n, d)
        Parameters.
    x : ndarray of shape (n, s)
        Summaries.
    distance : ndarray of shape (n,)
        Distances from the observation.
    quantile : float
        The share.
    tolerance : float, optional
        The tolerance, or None.
    """
    if tolerance is None:
        count = min(len(theta), max(1, int(np.ceil(quantile * len(theta)))))
        tolerance = float(np.partition(distance, count - 1)[count - 1])
    kept = np.flatnonzero(distance <= tolerance)
    if not len(kept):
        raise ArgumentError(
            "tolerance",
            f"no simulation lies within tolerance {tolerance:g} of the observation; the nearest is "
            f"{distance.min():.3g} away. Raise the tolerance, or give a quantile instead.",
        )
    weights = np.full(len(kept), 1.0 / len(kept))
    return Accepted(theta[kept], x[kept], distance[kept], weights, tolerance)


def _unbounded(prior: Prior, theta: np.ndarray) -> np.ndarray:
    """Return coordinates without bounds: logits of parameters in a box, working coordinates of the others."""
    t, box = prior.to_working(theta), np.isfinite(prior.low) & np.isfinite(prior.high)
    position = (theta[:, box] - prior.low[box]) / (prior.high[box] - prior.low[box])
    position = np.clip(position, 1e-9, 1.0 - 1e-9)  # the logit of a bound is infinite
    t[:, box] = np.log(position) - np.log1p(-position)
    return t


def _bounded(prior: Prior, t: np.ndarray) -> np.ndarray:
    """Return the parameters at coordinates without bounds."""
    box = np.isfinite(prior.low) & np.isfinite(prior.high)
    theta = prior.from_working(np.where(box, 0.0, t))
    position = 0.5 * (1.0 + np.tanh(0.5 * t[:, box]))
    theta[:, box] = prior.low[box] + position * (prior.high[box] - prior.low[box])
    return theta


# ---- Markov chains ---------------------------------------------------------------------------------------------


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


# ---- populations ------------------------------------------------------------------------------------------------


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
