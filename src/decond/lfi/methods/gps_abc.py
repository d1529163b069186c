"""GPS-ABC: a chain on a Gaussian-process surrogate that simulates where it is unsure (Meeds & Welling 2014)."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from decond.checks import as_count, as_generator, as_number
from decond.embeddings import MeanEmbedding
from decond.kernels import RBF, median_heuristic
from decond.lfi.exceptions import DegenerateDrawsWarning
from decond.lfi.methods.method import SummaryOption
from decond.lfi.methods.simulating_method import BoundedSimulator, SimulatingMethod
from decond.lfi.posterior_draws import Posterior, Seed, WeightedDraws
from decond.lfi.sampling import effective_sample_size
from decond.linalg import Factor, add_to_diagonal, cholesky
from decond.progress import progress_bar

__all__ = ["GPSABC", "ChainSettings"]


@dataclass(frozen=True)
class ChainSettings:
    """The effort of the chain; rules of thumb."""

    burn_in: float = 0.1
    """Steps that are left out at the beginning, as a share of those kept."""
    draws: int = 30
    """Draws of the surrogate behind each acceptance probability."""
    relearn: int = 20
    """New simulations after which the surrogate's hyperparameters are learned again."""
    most_new: int = 5
    """Most new simulations at one step of the chain."""
    few_moves: int = 20
    """Warn if the chain moved less often."""


@dataclass(eq=False, repr=False)
class GPSABC(SimulatingMethod):
    """A random walk whose synthetic likelihood comes from Gaussian processes, one for each summary.

    Each surrogate gives the mean of a summary as a function of θ with its uncertainty, and one variance of the
    simulator's noise. At each step the surrogate is drawn 30 times; if the probability to decide wrongly is above
    `max_error`, a simulation at one of the two points is run and the surrogate updated, until `n_simulations` are
    spent, pilots included; then the chain goes on without.

    Parameters
    ----------
    simulator : callable, optional
        The simulator that made the pilot.
    n_simulations : int, optional
        Simulations in all.
    batched : bool, optional
        Whether the simulator takes many rows of parameters at once.
    max_error : float, optional
        The probability of a wrong decision above which the simulator is run.
    n_samples : int, optional
        Steps of the chain.
    time_limit : float, optional
        Seconds after which the chain ends.
    seed : int, Generator or None, optional
        Seed of everything random.
    summary : {"auto", "none", "learned"}, optional
        What the method sees of the data, see `Method`.

    References
    ----------
    E. Meeds and M. Welling, GPS-ABC: Gaussian process surrogate approximate Bayesian computation, UAI 2014.

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> def simulator(theta, rng):
    ...     return theta + rng.standard_normal(theta.shape)
    >>> theta = prior.sample(40, seed=0)
    >>> pilot = Simulations(theta=theta, x=simulator(theta, rng))
    >>> method = GPSABC(simulator, n_simulations=60, batched=True, n_samples=300)
    >>> posterior = method.fit(pilot, prior).posterior([1.0])  # exact: mean 0.5, standard deviation 0.71
    >>> bool(abs(posterior.mean()[0] - 0.5) < 0.3), method.n_simulations_ <= 60
    (True, True)
    """

    simulator: Callable[..., ArrayLike] | None = None
    n_simulations: int = 200
    batched: bool = False
    max_error: float = 0.2
    n_samples: int = 10_000
    time_limit: float = 120.0
    seed: Seed = 0
    summary: SummaryOption = "auto"

    settings = ChainSettings()

    def _fit(self) -> None:
        as_count(self.n_samples, "n_samples")
        as_number(self.max_error, "max_error", minimum=0.0, strict=True)
        self._check_budget()

    def _posterior(self, observed: np.ndarray) -> Posterior:
        rng = as_generator(self.seed)
        with self._running() as runner:
            chain = _Chain(self, observed, runner, rng)
            phi = chain.run(self.n_samples, self.time_limit)
        notes = runner.notes()
        if chain.accepted < self.settings.few_moves:
            text = f"the chain moved only {chain.accepted} times in {len(phi)} steps; its draws say little."
            notes.append(DegenerateDrawsWarning(text, chain.accepted, len(phi)))

        thinned = phi[:: max(1, len(phi) // 1000)]
        effective = effective_sample_size(chain.surrogate.likelihood_of_simulations(observed))
        return Posterior(
            self.prior_,
            WeightedDraws(self.prior_.from_working(phi), np.ones(len(phi))),
            embedding=MeanEmbedding(RBF(median_heuristic(thinned)), thinned),
            effective=effective,
            notes=notes,
            seed=self.seed,
        )


class _Chain:
    """The random walk of GPS-ABC."""

    def __init__(
        self, method: GPSABC, observed: np.ndarray, runner: BoundedSimulator, rng: np.random.Generator
    ) -> None:
        self.method, self.observed, self.runner, self.rng = method, observed, runner, rng
        self.surrogate = _Surrogate(method.phi_, method.x_, method.settings.relearn)
        self.accepted = 0
        self._failed = 0
        """Failures that P(valid | θ) was last learned with."""

    def run(self, n: int, time_limit: float) -> np.ndarray:
        """Walk, and return the states after burn-in.

        Parameters
        ----------
        n : int
            How many states.
        time_limit : float
            Seconds after which there are fewer.
        """
        deadline = time.monotonic() + time_limit
        nearness = ((self.method.x_ - self.observed) ** 2).sum(axis=1)
        state = self.method.phi_[int(np.argmin(nearness))]
        nearest = self.method.phi_[np.argsort(nearness)[: max(10, len(nearness) // 5)]]
        step = 2.4 / np.sqrt(len(state)) * np.maximum(nearest.std(axis=0), 1e-6)
        burn_in = int(self.method.settings.burn_in * n)
        states = []
        with progress_bar("steps of the chain", n + burn_in) as report:
            for i in range(n + burn_in):
                state = self._next(state, step)
                if i >= burn_in:
                    states.append(state)
                report(i + 1)
                if time.monotonic() > deadline:
                    break
        return np.array(states or [state])

    def _next(self, state: np.ndarray, step: np.ndarray) -> np.ndarray:
        proposal = state + step * self.rng.standard_normal(len(state))
        pair = np.stack([state, proposal])
        log_prior = self.method.prior_.log_density_working(pair)
        if not np.isfinite(log_prior[1]):
            return state
        log_prior = log_prior + self.method.log_valid_(pair)
        for _ in range(self.method.settings.most_new):
            acceptance = self._acceptance(pair, log_prior)
            middle = float(np.median(acceptance))
            error = float(np.mean(np.abs(acceptance - middle)))
            if error <= self.method.max_error or not self._acquired(pair):
                break
        if self.rng.random() < middle:
            self.accepted += 1
            return proposal
        return state

    def _acceptance(self, pair: np.ndarray, log_prior: np.ndarray) -> np.ndarray:
        """Return draws of the acceptance probability under the surrogate's uncertainty of its means."""
        log_likelihood = self.surrogate.draw_log_likelihoods(
            pair, self.observed, self.method.settings.draws, self.rng
        )
        log_odds = log_likelihood[:, 1] - log_likelihood[:, 0] + log_prior[1] - log_prior[0]
        return np.exp(np.minimum(log_odds, 0.0))

    def _acquired(self, pair: np.ndarray) -> bool:
        """Run one simulation at one of the two points; False if the budget is spent."""
        if self.runner.left < 1:
            return False
        phi = pair[self.rng.integers(2)][None, :]
        x = self.runner.run(self.method.prior_.from_working(phi), self.rng)
        if len(x) and np.isfinite(x).all():
            self.surrogate.add(phi, self.method._summarize(x))
        last = self.runner.left == 0 or self.runner.n_run % self.method.settings.relearn == 0
        if self.runner.n_failed > self._failed and (last or not self._failed):
            self._failed = self.runner.n_failed
            self.method._learn_validity(self.runner.simulations(self.method.sims_))
        return True


class _Surrogate:
    """Independent Gaussian processes for the standardized summaries, around their medians."""

    def __init__(self, phi: np.ndarray, x: np.ndarray, relearn: int) -> None:
        self.phi, self.x = phi, x
        self._added, self._relearn = 0, relearn
        self._learn()

    def add(self, phi: np.ndarray, x: np.ndarray) -> None:
        """Add one simulation.

        Parameters
        ----------
        phi : ndarray of shape (1, d)
            Its working coordinates.
        x : ndarray of shape (1, s)
            Its summaries.
        """
        self.phi, self.x = np.concatenate([self.phi, phi]), np.concatenate([self.x, x])
        self._added += 1
        if self._added % self._relearn == 0:
            self._learn()
        else:
            self._factor()

    def draw_log_likelihoods(
        self, phi: np.ndarray, observed: np.ndarray, n: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return joint draws of the synthetic log likelihood.

        Parameters
        ----------
        phi : ndarray of shape (q, d)
            Working coordinates.
        observed : ndarray of shape (1, s)
            The observation.
        n : int
            How many draws.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray
            The draws (n, q).
        """
        total = np.zeros((n, len(phi)))
        for j, (lengthscale, amplitude, noise) in enumerate(self._parameters):
            kernel = RBF(lengthscale)
            cross = amplitude * kernel.gram(self.phi, phi)
            mean = self._center[j] + cross.T @ self._alpha[j]
            covariance = amplitude * kernel.gram(phi, phi) - cross.T @ self._factors[j].solve(cross)
            values, vectors = np.linalg.eigh(covariance)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            means = mean + rng.standard_normal((n, len(phi))) @ root.T
            total += -0.5 * (observed[0, j] - means) ** 2 / noise
        return total

    def likelihood_of_simulations(self, observed: np.ndarray) -> np.ndarray:
        """Return the synthetic likelihood at the simulated parameters, up to a factor."""
        total = np.zeros(len(self.phi))
        for j, (lengthscale, amplitude, noise) in enumerate(self._parameters):
            mean = self._center[j] + amplitude * RBF(lengthscale).gram(self.phi, self.phi) @ self._alpha[j]
            total -= 0.5 * (observed[0, j] - mean) ** 2 / noise
        return np.exp(total - total.max())

    def _learn(self) -> None:
        """Maximize each surrogate's marginal likelihood over lengthscale, amplitude and noise."""
        self._center = np.median(self.x, axis=0)
        spread = float(np.mean(self.phi.std(axis=0))) or 1.0
        self._parameters = []
        for j in range(self.x.shape[1]):
            target = self.x[:, j] - self._center[j]
            variance = float(np.var(target)) or 1.0
            start = np.log([spread, variance, 0.1 * variance])
            bounds = [(s - 4.0, s + 3.0) for s in start]
            bounds[2] = (start[2] - 8.0, start[2] + 3.0)
            found = minimize(
                _negative_log_marginal,
                start,
                args=(self.phi, target),
                method="Nelder-Mead",
                bounds=bounds,
                options={"maxfev": 120},
            )
            self._parameters.append(tuple(float(value) for value in np.exp(found.x)))
        self._factor()

    def _factor(self) -> None:
        self._factors = [_factor_of(self.phi, *parameters) for parameters in self._parameters]
        self._alpha = [
            factor.solve(column - center)
            for factor, column, center in zip(self._factors, self.x.T, self._center, strict=True)
        ]


def _factor_of(phi: np.ndarray, lengthscale: float, amplitude: float, noise: float) -> Factor:
    matrix = amplitude * RBF(lengthscale).gram(phi, phi)
    add_to_diagonal(matrix, noise + 1e-8 * amplitude)
    return cholesky(matrix, "the covariance of a summary's surrogate")


def _negative_log_marginal(logs: np.ndarray, phi: np.ndarray, target: np.ndarray) -> float:
    factor = _factor_of(phi, *np.exp(logs))
    return float(0.5 * target @ factor.solve(target) + 0.5 * factor.log_determinant)
