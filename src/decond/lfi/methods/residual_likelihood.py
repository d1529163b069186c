"""The residual likelihood: simulations shifted to the parameter in question; the default method."""

import contextlib
import copy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from decond.conditional import KernelFits, ResidualSettings, ShiftedResiduals
from decond.errors import ArgumentError
from decond.lfi.exceptions import (
    DeterministicSimulatorWarning,
    DiscreteSummaryWarning,
    FewSimulationsWarning,
    MisfitWarning,
    OutlyingSimulationsWarning,
    PosteriorWarning,
    TimeLimitWarning,
    UnstablePosteriorWarning,
)
from decond.lfi.methods.method import Method, SummaryOption
from decond.lfi.posterior_draws import Posterior, Seed
from decond.lfi.prior import Prior
from decond.lfi.sampling import TemperedCloud, effective_sample_size, more_draws, temper
from decond.lfi.simulations import Simulations
from decond.lfi.summaries import RedundancyRule, Standardizer, pulled_in
from decond.lfi.validity import EventProbability, OutlierRule, ValidityModel
from decond.linalg import cholesky
from decond.parameters import Kept
from decond.threads import one_blas_thread

__all__ = [
    "AtomLikelihood",
    "Columns",
    "Likelihood",
    "ObservedLikelihood",
    "ProductLikelihood",
    "ResidualLikelihood",
    "ResidualLikelihoodSettings",
    "ShiftedLikelihood",
    "closeness",
    "likelihood_at",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ResidualLikelihoodSettings:
    """The numbers of the residual likelihood; all are rules of thumb unless noted."""

    particles: int = 2000
    """Particles that are tempered from the prior to the posterior."""
    proposal_power: float = 0.5
    """Power of the likelihood from which further rounds are proposed: √2 times as wide as a Gaussian posterior."""
    few_effective: float = 50.0
    """Warn if the effective sample size is smaller."""
    width: float = 2.0
    """Width of the closeness, in standard deviations of the residuals."""
    passes: int = 2
    """Regressions from which closeness is found; each but the first is weighted by the closeness before it."""
    near_rows: int = 200
    """Effective sample size for which the width grows where it has to."""
    far_weight: float = 0.02
    """Least weight of a simulation: far ones still carry the trend."""
    pilot_rows: int = 500
    """Simulations from which closeness and the powers of columns are found."""
    rows: int = 20_000
    """Simulations, the closest, from which the likelihood is fitted: for memory."""
    columns_per_row: float = 0.04
    """Columns of data for each simulation (40 for 1,000) above which summaries are always learned."""
    scored_rows: int = 200
    """Simulations, the closest, by which columns and learned summaries are compared."""
    preference: float = 0.1
    """Information for each simulation by which learned summaries have to exceed the columns to be preferred."""
    guard: float = 12.0
    """Log-likelihood below that of the best simulation at which the columns overrule learned summaries."""
    constant: float = 0.9
    """Leave out a column that equals the observed one in more than this share of the close simulations."""
    redundant_columns: int = 20
    """Most columns of which those that are functions of others are looked for: for time."""
    splits: int = 2
    """Splits of the simulations into halves whose posteriors are compared."""
    unstable: float = 0.5
    """Warn, and average, if the expected error is larger: half a posterior deviation, or a factor of 1.22."""
    edge_rows: float = 0.05
    """Share of the close simulations that repeat an observed value at the edge of its column, above which the edge
    counts as discrete."""
    edge_information: float = 0.05
    """Warn if discrete edges add more information for each simulation than this."""
    gain: float = 5.0
    """What a transformed column or a probability has to gain in log-likelihood to be preferred: about three standard
    errors of a likelihood ratio with one degree of freedom."""
    table_reach: float = 20.0
    """Standard deviations to which the density of one column of residuals is tabulated for many observations."""
    table_step: float = 0.1
    """Step of that table, in widths of the kernel: a cubic spline is then exact to a millionth."""
    atom_rows: tuple[int, float, int] = (20, 0.02, 100)
    """Simulations that have to equal the observation for a probability: at least 20 and 2 %, or 100."""

    def halved(self) -> "ResidualLikelihoodSettings":
        """Return the settings for half of the simulations: with half of the rows for each step."""
        return replace(self, pilot_rows=self.pilot_rows // 2, rows=self.rows // 2, near_rows=self.near_rows // 2)


@dataclass(eq=False, repr=False, kw_only=True)
class ResidualLikelihood(Method):
    """A likelihood from simulations that are shifted to the parameter in question.

    p(y | θ) = Σ_i w_i(θ) κ_h((y − m(θ)) / s(θ) − u_i): m and s are the mean and the scale of the data given the
    parameters, by regression with kernels; u_i are the leave-one-out residuals of the simulations; κ_h
    lies between a Gaussian (h = 1) and a kernel density (small h). Everything is fitted with weights for closeness
    to the observation, when `posterior` is called. Where many simulations equal the observation, as with small
    counts, P(x = y | θ) takes its place. See ``docs/residual_likelihood.md``.

    Parameters
    ----------
    seed : int, Generator or None, optional
        Seed of the draws.
    summary : {"auto", "none", "learned"}, optional
        "none" uses the columns of the data; "learned" replaces them by estimates of the parameters, learned
        around the observation; "auto" does so if there are more than twice as many columns as parameters and the
        estimates tell more, or more columns than the simulations can bear.
    time_limit : float, optional
        Seconds for the sampler, for each call.

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi.prior import Prior
    >>> from decond.lfi.simulations import Simulations
    >>> prior = Prior({"mean": stats.norm(0, 1)})
    >>> theta = prior.sample(200, seed=1)
    >>> sims = Simulations(theta, theta + 0.5 * np.random.default_rng(2).standard_normal((200, 1)))
    >>> posterior = ResidualLikelihood().fit(sims, prior).posterior([1.0])
    >>> bool(abs(posterior.mean()[0] - 0.8) < 0.1), bool(abs(posterior.std()[0] - 0.447) < 0.06)
    (True, True)
    """

    seed: Seed = 0
    summary: SummaryOption = "auto"
    time_limit: float = 60.0

    settings = ResidualLikelihoodSettings()
    takes_iid = True

    def _learn_summary(self, x: Array) -> None:
        """Keep the data in their own units, sorted, so that the order they come in moves nothing."""
        x = self.sims_.x[self.sims_.valid]
        order = np.lexsort([*x.T, *self.phi_.T])
        self.theta_, self.phi_, self.x_ = self.theta_[order], self.phi_[order], x[order]

    def _summarize(self, row: Array) -> Array:
        return row

    def _fit(self) -> None:
        """Do nothing: what is worth learning depends on the observation."""

    def outliers(self, observed: Array) -> NDArray[np.bool_]:
        """Return which valid simulations exploded: a class of its own, as failures are (`OutlierRule`)."""
        return OutlierRule().outliers(self.phi_, self.x_, np.nanmedian(observed, axis=0, keepdims=True))

    def likelihood(self, observed: Array) -> "Likelihood":
        """Return the likelihood fitted around one observation (1, s), or around independent ones (t, s).

        Those with the same values missing have a likelihood of their own, of the other columns.
        """
        self._atoms: dict[bytes, list[AtomLikelihood | None]] = {}
        return self._likelihood_from(np.flatnonzero(~self.outliers(observed)), observed, self.settings)

    def _likelihood_from(
        self, rows: NDArray[np.int_], observed: Array, settings: ResidualLikelihoodSettings
    ) -> "Likelihood":
        phi, x = self.phi_[rows], self.x_[rows]
        patterns, numbers = np.unique(np.isnan(observed), axis=0, return_inverse=True)
        parts = []
        for number, missing in enumerate(patterns):
            alike = observed[numbers.ravel() == number]
            parts += self._likelihoods(phi, x[:, ~missing], alike[:, ~missing], settings, missing.tobytes())
        return parts[0][0] if len(observed) == 1 else ProductLikelihood(parts)

    def _likelihoods(
        self, phi: Array, x: Array, observed: Array, settings: ResidualLikelihoodSettings, pattern: bytes
    ) -> "list[tuple[Likelihood, int]]":
        """Return likelihoods of complete observations, and how often each counts.

        That of a row is a probability where many simulations equal it and it sits at the edge of what was simulated,
        or where a density predicts worse which of them do. Halves of the simulations take what all of them took.
        """
        distinct, numbers, counts = np.unique(observed, axis=0, return_inverse=True, return_counts=True)
        known = self._atoms.get(pattern)
        if known is not None:
            atoms = [atom and atom.refitted(phi, x, row) for atom, row in zip(known, distinct, strict=True)]
        else:
            atoms = [AtomLikelihood.at(phi, x, row[None, :], settings) for row in distinct]
        inside = np.array([atom is None or not (known or atom.at_edge) for atom in atoms])[numbers.ravel()]
        density = None
        if inside.any():
            rng = np.random.default_rng(0)  # only which rows a pilot sees
            density = likelihood_at(phi, x, observed, self.summary, rng, settings, inside)
            for i, atom in enumerate(atoms):
                row = np.array([np.argmax(numbers.ravel() == i)])
                if atom is not None and inside[row] and not atom.predicts_better_than(density.taken(row)):
                    atoms[i] = None
        self._atoms.setdefault(pattern, atoms)
        found: list[tuple[Likelihood, int]] = [
            (atom, int(count)) for atom, count in zip(atoms, counts, strict=True) if atom is not None
        ]
        left = np.array([atom is None for atom in atoms])[numbers.ravel()]
        if density is not None and left.any():
            found.append((density.taken(np.flatnonzero(left)), 1))
        return found

    def _learn_likelihood(self, observed: Array) -> None:
        self.likelihood_ = self.likelihood(observed)
        self.outliers_ = self.outliers(observed)
        self.regular_ = ValidityModel(self.phi_, ~self.outliers_)

    def _from_halves(self, observed: Array) -> "list[tuple[Likelihood, Likelihood]]":
        """Return likelihoods of both halves of random splits of the regular simulations."""
        settings, regular = self.settings.halved(), np.flatnonzero(~self.outliers_)
        pairs = []
        for seed in range(settings.splits if len(regular) >= 2 * self.n_needed(self.prior_.dim) else 0):
            order = np.random.default_rng(seed).permutation(regular)
            with contextlib.suppress(ArgumentError):  # in one half no column may vary
                first, second = (
                    self._likelihood_from(half, observed, settings) for half in (order[::2], order[1::2])
                )
                pairs.append((first, second))
        return pairs

    @one_blas_thread()
    def _posterior(self, observed: Array) -> Posterior:
        self._learn_likelihood(observed)
        likelihood = self.likelihood_
        prior, limit = self.prior_, self.time_limit
        log_likelihood = ObservedLikelihood(self._settings(), prior, self.sims_, observed)
        log_likelihood.fitted = copy.copy(self)
        rng = np.random.default_rng(self.seed)
        start = prior.to_working(prior.sample(self.settings.particles, rng))
        powers = (self.settings.proposal_power, 1.0)
        clouds = temper(prior.log_density_working, log_likelihood.at, start, rng, powers=powers, time_limit=limit)
        notes, stability = [*_outlier_notes(self.outliers_), *self._notes(likelihood, clouds[-1])], None
        if not any(isinstance(note, DeterministicSimulatorWarning | TimeLimitWarning) for note in notes):
            refits = Refits(clouds, likelihood, self._from_halves(observed))
            stability = refits.stability
            if stability is not None and stability > self.settings.unstable:
                notes.append(_unstable_note(stability))
                log_likelihood.halves, log_likelihood.averaged = refits.pairs, True
                clouds = temper(
                    prior.log_density_working, log_likelihood.at, start, rng, powers=powers, time_limit=limit
                )
        widened, cloud = clouds
        posterior = Posterior(
            prior,
            TemperedDraws(log_likelihood, cloud.particles, cloud.power, limit),
            proposer=TemperedDraws(log_likelihood, widened.particles, widened.power, limit),
            log_likelihood=log_likelihood,
            log_evidence=cloud.log_evidence if likelihood.of_data else None,
            log_normalizer=cloud.log_evidence,
            effective=likelihood.effective,
            notes=notes,
            seed=self.seed,
        )
        posterior.stability = stability
        return posterior

    def _notes(self, likelihood: "Likelihood", cloud: TemperedCloud) -> list[PosteriorWarning]:
        notes, few = list(likelihood.notes), self.settings.few_effective
        if likelihood.effective < few:
            text = (
                f"the posterior rests on the equivalent of {likelihood.effective:.0f} simulations close to the "
                "observation; run more, in several rounds."
            )
            notes.append(FewSimulationsWarning(text, likelihood.effective, few))
        if not cloud.finished:
            text = "the sampler ran out of time, so its draws are rough; raise time_limit."
            notes.append(TimeLimitWarning(text, "sampling"))
        return notes


class Likelihood(Protocol):
    """The likelihood of what was observed."""

    effective: float
    notes: list[PosteriorWarning]
    of_data: bool

    def log_density(self, phi: Array) -> Array:
        """Return log p(observed | θ) at working coordinates (q, d)."""


class ProductLikelihood:
    """The likelihood of independent observations: a product, each factor as often as it was observed."""

    def __init__(self, parts: list[tuple[Likelihood, int]]) -> None:
        self.parts = parts
        self.effective = min(part.effective for part, _ in parts)
        self.of_data = all(part.of_data for part, _ in parts)
        self.notes = [note for part, _ in parts for note in part.notes]

    def log_density(self, phi: Array) -> Array:
        """Return log p(observed | θ) at working coordinates (q, d)."""
        return np.sum([count * part.log_density(phi) for part, count in self.parts], axis=0)


@dataclass(eq=False)
class ObservedLikelihood(Kept):
    """The log-likelihood as a function of parameters, P(valid | θ) included.

    It stands for the simulations it is made from: a copy in a file is fitted again when it is first asked.
    """

    method: ResidualLikelihood
    prior: Prior
    simulations: Simulations
    observed: Array
    averaged: bool = False
    """Whether it is the mean of the likelihood and those of halves of the simulations: estimates of one density."""
    fitted: ResidualLikelihood | None = field(default=None, init=False)
    halves: list[tuple[Likelihood, Likelihood]] = field(default_factory=list, init=False)

    def __call__(self, theta: Array) -> Array:
        return self.at(self.prior.to_working(self.prior.rows(theta)))

    def at(self, phi: Array) -> Array:
        """Return the log-likelihood at working coordinates (q, d)."""
        if self.fitted is None:
            self.fitted = self.method.fit(self.simulations, self.prior)
            with one_blas_thread():
                self.fitted._learn_likelihood(self.observed)
                self.halves = self.fitted._from_halves(self.observed) if self.averaged else []
        log_regular = self.fitted.log_valid_(phi) + self.fitted.regular_.log_probability(phi)
        value = self.fitted.likelihood_.log_density(phi)
        if self.averaged:
            values = [value, *(half.log_density(phi) for pair in self.halves for half in pair)]
            value = logsumexp(values, axis=0, b=1.0 / len(values))
        return value + len(self.observed) * log_regular

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "fitted": None, "halves": []}


@dataclass(frozen=True, eq=False)
class TemperedDraws(Kept):
    """Draws of prior · likelihood^power that begin at particles of it."""

    likelihood: ObservedLikelihood
    particles: Array
    power: float
    time_limit: float

    @one_blas_thread()
    def __call__(self, n: int, rng: np.random.Generator) -> Array:
        prior, likelihood = self.likelihood.prior, self.likelihood.at
        particles = self.particles
        drawn = more_draws(prior.log_density_working, likelihood, particles, self.power, n, rng, self.time_limit)
        return prior.from_working(drawn)


class Refits:
    """Posteriors from halves of the simulations, found by weighting the particles of one that is at hand.

    The posterior means of two halves differ by about twice the error of all simulations together, if errors fall as
    one over the square root of their number.

    Parameters
    ----------
    clouds : list of TemperedCloud
        A widened posterior, and the posterior.
    likelihood : Likelihood
        That of all simulations.
    pairs : list of (Likelihood, Likelihood)
        Those of halves.

    Attributes
    ----------
    stability : float or None
        The error to expect, see `Posterior.stability`: a root mean square over pairs, for the worst parameter. None
        without pairs.
    """

    def __init__(
        self, clouds: list[TemperedCloud], likelihood: Likelihood, pairs: list[tuple[Likelihood, Likelihood]]
    ) -> None:
        self.pairs = pairs
        points = np.concatenate([cloud.particles for cloud in clouds])
        own, joint = likelihood.log_density(points), clouds[-1].log_likelihood(points)
        log_proposal = logsumexp([cloud.power * joint - cloud.log_evidence for cloud in clouds], axis=0)
        log_weights = [joint - log_proposal + half.log_density(points) - own for pair in pairs for half in pair]
        self.stability: float | None = None
        if pairs:
            weights = np.exp(np.array(log_weights) - logsumexp(log_weights, axis=1)[:, None])
            means = weights @ points
            spreads = [each @ (points - mean) ** 2 for each, mean in zip(weights, means, strict=True)]
            sd = np.sqrt(spreads) + 1e-300
            apart = (means[::2] - means[1::2]) / np.sqrt((sd[::2] ** 2 + sd[1::2] ** 2) / 2.0)
            wider = np.log(sd[::2] / sd[1::2]) / np.log(1.5)
            self.stability = float(0.5 * np.sqrt(np.mean(np.hstack([apart, wider]) ** 2, axis=0)).max())


def likelihood_at(
    phi: Array,
    x: Array,
    observed: Array,
    summary: SummaryOption,
    rng: np.random.Generator,
    settings: ResidualLikelihoodSettings | None = None,
    used: NDArray[np.bool_] | None = None,
) -> "ShiftedLikelihood":
    """Return the likelihood of one observation (1, s), fitted to simulations (n, d), (n, s).

    With `summary` "learned" the columns are replaced by estimates of the parameters, learned around the observation;
    with "auto" if there are more columns than the simulations can bear, or if that is more informative.

    Parameters
    ----------
    phi : ndarray of shape (n, d)
        Working coordinates of the simulations.
    x : ndarray of shape (n, s)
        Their data.
    observed : ndarray of shape (1, s)
        The observation.
    summary : {"auto", "none", "learned"}
        "none", "learned" or "auto".
    rng : numpy.random.Generator
        Chooses the rows of pilots.
    settings : ResidualLikelihoodSettings, optional
        The numbers of the method.
    used : ndarray of bool of shape (t,), optional
        The observations whose densities will be used, as far as is known; None is all.
    """
    settings = settings or ResidualLikelihoodSettings()
    even = _even_columns(phi, x, observed, rng, settings, used)
    rows = _closest(even.weights, settings.rows)
    phi, x, observed, weights = phi[rows], even.x[rows], even.observed, even.weights[rows]
    few_columns = x.shape[1] <= 2 * phi.shape[1]
    bearable = few_columns or x.shape[1] <= settings.columns_per_row * len(x)
    plain = None
    if summary == "none" or (summary == "auto" and bearable):
        plain = ShiftedLikelihood(phi, x, observed, weights, even.log_slope, settings)
        plain.notes += [*_edge_notes(plain, even, settings), *_misfit_notes(plain, phi)]
        if summary == "none" or few_columns:
            return plain
    estimates, seen = _learned_summaries(phi, x, observed, weights)
    learned = ShiftedLikelihood(phi, estimates, seen, closeness(phi, estimates, seen, rng, settings))
    learned.of_data = False
    if plain is None:
        return learned
    if learned.information(weights) < plain.information(weights) + settings.preference:
        return plain
    learned.guard_by(plain, phi)
    return learned


class ShiftedLikelihood:
    """p(y | θ) of one observation y, the density of simulations that are shifted to θ (`ShiftedResiduals`).

    Parameters
    ----------
    phi : ndarray of shape (n, d)
        Working coordinates of the simulations.
    x : ndarray of shape (n, s)
        Their data.
    observed : ndarray of shape (t, s)
        The observation, or independent ones.
    weights : ndarray of shape (n,)
        Weights of the simulations.
    log_slope : float or ndarray of shape (t,), optional
        Added to the log densities, so that they are of the data in their own units.
    settings : ResidualLikelihoodSettings, optional
        The numbers of the method.

    Attributes
    ----------
    effective
        The effective sample size.
    exact
        For each column, whether it is an exact function of the parameters. A little noise is put in place of
        none, so that the posterior can be sampled.
    notes
        Warnings for the user.
    of_data
        Whether it is a density of the data, not of summaries that were learned from them.
    """

    def __init__(
        self,
        phi: Array,
        x: Array,
        observed: Array,
        weights: Array,
        log_slope: Array | float = 0.0,
        settings: ResidualLikelihoodSettings | None = None,
    ) -> None:
        self.observed, self.log_slope = observed, np.broadcast_to(log_slope, len(observed))
        self._settings = settings or ResidualLikelihoodSettings()
        self.of_data, self.weights = True, weights
        self._guard: tuple[ShiftedLikelihood, float] | None = None
        self.effective = effective_sample_size(weights)
        self._residuals = ShiftedResiduals(phi, x, weights, _widths_for(len(observed), self.effective))
        self.exact, self.scaled = self._residuals.exact, self._residuals.scaled
        self.notes = _exact_notes(self.exact)
        self._n_parameters = phi.shape[1]
        self._table = self._tabulated()

    def log_density(self, phi: Array) -> Array:
        """Return log p(observed | θ) at working coordinates (q, d)."""
        mean, scale = self._residuals.mean_and_scale(phi)
        value = self.log_slope.sum() - len(self.observed) * np.log(scale).sum(axis=1)
        for row, count in zip(*np.unique(self.observed, axis=0, return_counts=True), strict=True):
            value += count * self._log_density_of((row - mean) / scale, phi)
        if self._guard is not None:
            guard, least = self._guard
            value += np.minimum(guard.gaussian_log_density(phi) - least, 0.0)
        return value

    def _log_density_of(self, residual: Array, phi: Array) -> Array:
        """Return the log density of residuals, from a table where there is one."""
        if self._table is None:
            return self._residuals.density.log_density(residual, phi)
        u = residual[:, 0]
        inside = (u > self._table.x[0]) & (u < self._table.x[-1])
        value = np.empty(len(u))
        value[inside] = self._table(u[inside])
        value[~inside] = self._residuals.density.log_density(residual[~inside], phi[~inside])
        return value

    def _tabulated(self) -> CubicSpline | None:
        """Return the density of one column of residuals, the same everywhere, as a spline for many observations."""
        density = self._residuals.density
        if len(self.observed) == 1 or self.observed.shape[1] > 1 or density.width == 1.0 or density.locality < np.inf:
            return None
        reach, step = self._settings.table_reach, self._settings.table_step * density.width
        deviation = 1.0 / density.whitened(density.center[None, :] + 1.0)[0, 0]
        points = density.center[0] + deviation * np.arange(-reach, reach, step)
        return CubicSpline(points, density.log_density(points[:, None], np.zeros((1, self._n_parameters))))

    def gaussian_log_density(self, phi: Array) -> Array:
        """Return the log density of a Gaussian with the same mean and covariance, up to a constant."""
        return np.sum([self._residuals.gaussian_log_density(row, phi) for row in self.observed[:, None]], axis=0)

    def taken(self, rows: NDArray[np.intp]) -> "ShiftedLikelihood":
        """Return the same fit for some of the observations."""
        some = copy.copy(self)
        some.observed, some.log_slope = self.observed[rows], self.log_slope[rows]
        return some

    def guard_by(self, other: "ShiftedLikelihood", phi: Array) -> None:
        """Let another likelihood rule out parameters whose data come nowhere near the observation.

        A summary that was learned around the observation says nothing of data far from it, which may map onto the
        observed summary by chance.

        Parameters
        ----------
        other : ShiftedLikelihood
            The likelihood of the columns themselves.
        phi : ndarray
            Working coordinates of the simulations.
        """
        self._guard = other, float(other.gaussian_log_density(phi).max()) - self._settings.guard

    def information(self, weights: Array, columns: NDArray[np.bool_] | None = None) -> float:
        """Return how much the data, or some columns of them, tell about the parameters.

        That is the mean over i of log p(x_i | θ_i) − log (mean over j of p(x_i | θ_j)): the expected gain in log
        posterior density at the true parameters. It compares likelihoods of different summaries. Means are weighted;
        densities are Gaussian, of fits without row j.

        Parameters
        ----------
        weights : ndarray of shape (n,)
            Weights of the rows.
        columns : ndarray of bool, optional
            Which columns count, as booleans; None for all.
        """
        normalized = weights / weights.sum()
        scored = np.argsort(-weights, kind="stable")[: self._settings.scored_rows]
        log_density = -0.5 * self._squared_misses(self._residuals.x[scored], columns)
        scale = self._residuals.left_out[1]
        log_density -= np.log(scale if columns is None else scale[:, columns]).sum(axis=1)
        own = log_density[np.arange(len(scored)), scored]
        average = logsumexp(log_density, axis=1, b=normalized)
        return float(np.average(own - average, weights=weights[scored]))

    def misfit(self) -> tuple[float, Array]:
        """Return how far the observation is from the nearest mean, and how far simulations are that are close to it.

        Distances are in standard deviations of the residuals; means are those at the parameters of the other
        simulations, of fits without them.
        """
        scored = np.argsort(-self.weights, kind="stable")[: self._settings.scored_rows]
        squared = self._squared_misses(np.concatenate([self.observed, self._residuals.x[scored]]))
        squared[np.arange(1, len(squared)), scored] = np.inf  # the parameters of the observation are not among them
        distance = np.sqrt(squared.min(axis=1))
        return float(distance[0]), distance[1:]

    def _squared_misses(self, x: Array, columns: NDArray[np.bool_] | None = None) -> Array:
        """Return the squared distances (q, n) of rows from the means at all simulations, in standard deviations."""
        mean, scale = self._residuals.left_out
        if columns is not None:
            x, mean, scale = x[:, columns], mean[:, columns], scale[:, columns]
        missed = (x[:, None, :] - mean) / scale
        u = self._residuals.density.whitened(missed.reshape(-1, missed.shape[2]), columns).reshape(missed.shape)
        return np.asarray(np.sum(u**2, axis=2))


class AtomLikelihood:
    """P(x = y | θ), a probability, where data have no density: simulations either equal the observation or do not.

    Parameters
    ----------
    phi : ndarray of shape (n, d)
        Working coordinates of the simulations.
    equal : ndarray of bool of shape (n,)
        Which of them equal the observation.
    at_edge : bool
        Whether the observation is the smallest or largest simulated value of a column.
    gain : float, optional
        By how much it has to predict better than a density, as a log-likelihood.
    like : EventProbability, optional
        One whose lengthscale and penalty are taken.

    Attributes
    ----------
    effective
        Simulations that equal the observation.
    notes
        Warnings for the user: none.
    of_data
        True.
    """

    of_data = True

    def __init__(
        self,
        phi: Array,
        equal: NDArray[np.bool_],
        at_edge: bool,
        gain: float = 5.0,
        like: EventProbability | None = None,
    ) -> None:
        self._gain = gain
        self.effective, self.at_edge = float(equal.sum()), at_edge
        self.notes: list[PosteriorWarning] = []
        self._phi, self._equal = phi, equal
        self._event = EventProbability(phi, equal, like)

    @classmethod
    def at(
        cls, phi: Array, x: Array, observed: Array, settings: ResidualLikelihoodSettings | None = None
    ) -> "AtomLikelihood | None":
        """Return the likelihood of an observation that many simulations equal in all columns, else None.

        Parameters
        ----------
        phi : ndarray of shape (n, d)
            Working coordinates of the simulations.
        x : ndarray of shape (n, s)
            Their data.
        observed : ndarray of shape (1, s)
            The observation.
        settings : ResidualLikelihoodSettings, optional
            The numbers of the method.
        """
        settings = settings or ResidualLikelihoodSettings()
        varying = np.ptp(x, axis=0) > 0.0
        x, observed = x[:, varying], observed[:, varying]
        equal = np.all(x == observed, axis=1)
        least, relative, enough = settings.atom_rows
        if not varying.any() or equal.sum() < min(max(least, relative * len(x)), enough):
            return None
        at_edge = (observed <= x.min(axis=0)) | (observed >= x.max(axis=0))
        return cls(phi, equal, bool(at_edge.any()), settings.gain)

    def refitted(self, phi: Array, x: Array, row: Array) -> "AtomLikelihood":
        """Return the same from other simulations, with the same settings.

        Parameters
        ----------
        phi : ndarray of shape (n, d)
            Working coordinates of the simulations.
        x : ndarray of shape (n, s)
            Their data.
        row : ndarray of shape (s,)
            The observation.
        """
        varying = np.ptp(x, axis=0) > 0.0
        equal = np.all(x[:, varying] == row[varying], axis=1)
        return AtomLikelihood(phi, equal, self.at_edge, self._gain, self._event)

    def log_density(self, phi: Array) -> Array:
        """Return log P(x = observed | θ) at working coordinates (q, d)."""
        return self._event.log_probability(phi)

    def predicts_better_than(self, density: ShiftedLikelihood) -> bool:
        """Return whether it predicts clearly better than a density which simulations equal the observation.

        The density becomes a probability by the best constant factor, which is the distance between values.
        """
        log_density = density.log_density(self._phi)
        start = np.log(self._equal.mean()) + np.log(len(self._phi)) - logsumexp(log_density)

        def loss(log_factor: float) -> float:
            log_probability = np.minimum(log_density + log_factor, np.log1p(-1e-3))  # a density may exceed 1
            log_other = np.log1p(-np.exp(log_probability))
            return -float(np.mean(np.where(self._equal, log_probability, log_other)))

        found = minimize_scalar(loss, bounds=(start - 5.0, start + 5.0), method="bounded")
        return len(self._phi) * (self._event.score + found.fun) > self._gain


# ---- which simulations count, and on which scale -----------------------------------------------------------------


def closeness(
    phi: Array,
    x: Array,
    observed: Array,
    rng: np.random.Generator,
    settings: ResidualLikelihoodSettings | None = None,
) -> Array:
    """Return weights (n,): how close the *predicted* data at each θ_i come to the observation.

    v_i = exp(−D_i² / 2b²), D_i the distance of m(θ_i) from the observation in standard deviations of the
    residuals, averaged over columns. Never the distance of x_i itself: that would select on the noise that the
    likelihood is to describe. The regression is made `settings.passes` times, each but the first with the weights
    that were found before.

    Parameters
    ----------
    phi : ndarray of shape (n, d)
        Working coordinates of the simulations.
    x : ndarray of shape (n, s)
        Their data.
    observed : ndarray of shape (1, s)
        The observation.
    rng : numpy.random.Generator
        Chooses the rows of the pilot.
    settings : ResidualLikelihoodSettings, optional
        The numbers of the method.
    """
    numbers = settings or ResidualLikelihoodSettings()
    n = len(phi)
    rows = np.arange(n)
    if n > numbers.pilot_rows:
        rows = np.sort(rng.choice(n, numbers.pilot_rows, replace=False))
    weights = np.ones(n)
    for _ in range(numbers.passes):
        fit = KernelFits(phi[rows], weights[rows], ResidualSettings(lengthscales=(0.25, 0.5, 1.0, 2.0))).fit(x[rows])
        predicted = fit.predict(phi)
        predicted[rows] = x[rows] - fit.residual
        weights = _nearness(predicted - observed.mean(axis=0), fit.residual, weights[rows], numbers)
    return weights


def _nearness(missed: Array, residual: Array, weights: Array, settings: ResidualLikelihoodSettings) -> Array:
    covariance = np.cov(residual, rowvar=False, aweights=weights).reshape(residual.shape[1], -1)
    covariance += (1e-9 * np.trace(covariance) / len(covariance) + 1e-300) * np.eye(len(covariance))
    white = cholesky(covariance, "the covariance of the residuals").half_solve(missed.T)
    squared = np.sum(white**2, axis=0) / missed.shape[1]
    width, wanted = settings.width, min(settings.near_rows, 0.5 * len(missed))
    near = np.exp(-0.5 * (squared - squared.min()) / width**2)
    for _ in range(100):
        if effective_sample_size(near) >= wanted:
            break
        width *= 1.2
        near = np.exp(-0.5 * (squared - squared.min()) / width**2)
    return np.maximum(near, settings.far_weight)


def _closest(weights: Array, most: int) -> NDArray[np.int_]:
    """Return row numbers: all, or the closest four fifths of `most` and an even choice of the rest, for the trend."""
    order = np.argsort(-weights, kind="stable")
    if len(order) <= most:
        return np.arange(len(order))
    near, rest = order[: 4 * most // 5], order[4 * most // 5 :]
    even = np.linspace(0, len(rest) - 1, most - len(near)).round().astype(int)
    return np.sort(np.concatenate([near, rest[even]]))


def _widths_for(t: int, effective: float) -> ResidualSettings:
    """Return settings with the widths h of the residuals' density that are wide enough for t observations.

    Where a density is estimated from n residuals, its slope has errors of order 1 / (h √n), the same ones for each
    of t observations. With h ≥ √(t/n) they move the posterior by less than its own standard deviation.
    """
    settings = ResidualSettings()
    wide = tuple(width for width in settings.widths if t == 1 or width**2 * effective >= t)
    return replace(settings, widths=wide)


def _learned_summaries(phi: Array, x: Array, observed: Array, weights: Array) -> tuple[Array, Array]:
    """Return leave-one-out estimates of the parameters in place of the data and of the observation."""
    fit = KernelFits(x, weights).fit(phi)
    estimates = phi - fit.residual
    normalized = weights / weights.sum()
    center = normalized @ estimates
    spread = np.sqrt(normalized @ (estimates - center) ** 2) + 1e-300
    return (estimates - center) / spread, (fit.predict(observed) - center) / spread


class _EvenColumns(NamedTuple):
    """Data and observation in columns of even noise that vary, the log slope of that, and closeness.

    `at_edge` says in which of them the observation is an often repeated edge, `numbers` where they were in the data.
    """

    x: Array
    observed: Array
    log_slope: Array
    weights: Array
    at_edge: NDArray[np.bool_]
    numbers: NDArray[np.int_]


def _even_columns(
    phi: Array,
    x: Array,
    observed: Array,
    rng: np.random.Generator,
    settings: ResidualLikelihoodSettings,
    used: NDArray[np.bool_] | None,
) -> _EvenColumns:
    """Return the columns that vary near the observation, transformed so that their noise is even, with closeness."""
    varying = np.ptp(x, axis=0) > 0.0
    if not varying.any():
        raise ArgumentError(
            "sims", "all simulations gave the same data, so nothing can be learned; check the simulator."
        )
    x, observed = x[:, varying], observed[:, varying]
    plain = Columns(x)
    weights = closeness(phi, plain.apply(x), plain.apply(observed), rng, settings)
    rows = _closest(weights, settings.pilot_rows)
    power = Columns.chosen(x[rows], phi[rows], weights[rows], settings.gain).power
    columns = Columns(x, np.where(plain.eligible, power, 1.0))
    log_slopes = columns.log_slopes(observed)
    x, observed = columns.apply(x), columns.apply(observed)
    weights = closeness(phi, x, observed, rng, settings)
    near = np.where(weights > settings.far_weight, weights, 0.0)
    differs = np.mean([near @ (np.abs(x - row) > 1e-9) for row in observed], axis=0)
    varies = differs > (1.0 - settings.constant) * near.sum()
    if not varies.any():
        varies[:] = True
    if varies.sum() <= settings.redundant_columns:
        varies[varies] = RedundancyRule().kept(phi, x[:, varies], weights)
    edge = ((observed <= x.min(axis=0)) | (observed >= x.max(axis=0)))[slice(None) if used is None else used].any(
        axis=0
    )
    repeated = differs <= (1.0 - settings.edge_rows) * near.sum()
    return _EvenColumns(
        x[:, varies],
        observed[:, varies],
        log_slopes[:, varies].sum(axis=1),
        weights,
        (edge & repeated)[varies],
        np.flatnonzero(varying)[varies],
    )


class Columns:
    """Maps rows of data to standardized columns; each may be transformed first, so that its noise is even.

    c is zero for positive columns and 0.4 of the smallest positive value where there are zeros (counts: x + 0.4).

    Parameters
    ----------
    x : ndarray of shape (n, s)
        The data.
    power : ndarray, optional
        One for each column: 1 as it is, ½ the square root of x + c, 0 its logarithm. None: all as they are.
    """

    def __init__(self, x: Array, power: Array | None = None) -> None:
        positive = np.array([np.min(column[column > 0], initial=np.inf) for column in x.T])
        many = np.array([len(np.unique(column)) > 5 for column in x.T])  # few values have no scale worth changing
        self.eligible = (x.min(axis=0) >= 0) & np.isfinite(positive) & many
        self._offset = np.where(self.eligible & (x.min(axis=0) <= 0), 0.4 * positive, 0.0)
        self._floor = np.where(np.isfinite(positive), positive, 1.0) * 0.4
        self._widest = 10.0  # standardized values beyond are pulled in: one wild simulation bends nothing
        self.power = np.ones(x.shape[1]) if power is None else power
        self._standard = Standardizer(self._bent(x))

    @classmethod
    def chosen(cls, x: Array, phi: Array, weights: Array, gain: float = 5.0) -> "Columns":
        """Return the columns with the powers that make x, given the parameters, Gaussian with even noise.

        That is the likelihood of Box & Cox (1964), with leave-one-out residuals of kernel ridge regression and with
        weights.

        Parameters
        ----------
        x : ndarray of shape (n, s)
            The data.
        phi : ndarray of shape (n, d)
            Working coordinates.
        weights : ndarray of shape (n,)
            Weights of the rows.
        gain : float, optional
            What another power has to gain in log-likelihood.
        """
        plain = cls(x)
        if not plain.eligible.any():
            return plain
        normalized, effective = weights / weights.sum(), effective_sample_size(weights)
        fits = KernelFits(phi, weights, ResidualSettings(lengthscales=(0.5, 1.0, 2.0)))
        powers, scores = (1.0, 0.5, 0.0), []
        for power in powers:
            columns = cls(x, np.where(plain.eligible, power, 1.0))
            loss = fits.fit(columns.apply(x)).loss
            scores.append(effective * (normalized @ columns.log_slopes(x) - 0.5 * np.log(loss + 1e-300)))
        table = np.array(scores)
        best = np.where(table.max(axis=0) > table[0] + gain, table.argmax(axis=0), 0)
        return cls(x, np.array(powers)[best])

    def apply(self, x: Array) -> Array:
        """Return standardized, transformed rows."""
        return pulled_in(self._standard.apply(self._bent(x)), self._widest)

    def log_slopes(self, x: Array) -> Array:
        """Return the logarithm of the derivative of each entry of `apply`."""
        base = self._base(x)
        slopes = np.where(self.power == 0.5, -np.log(2.0) - 0.5 * np.log(base), 0.0)
        slopes = np.where(self.power == 0.0, -np.log(base), slopes) - np.log(self._standard.scale)
        z = np.abs(self._standard.apply(self._bent(x)))
        return slopes - np.log(np.maximum(z, self._widest) / self._widest)

    def _base(self, x: Array) -> Array:
        return np.where(self.eligible, np.maximum(x + self._offset, self._floor * 1e-6), 1.0)

    def _bent(self, x: Array) -> Array:
        base = self._base(x)
        return np.where(self.power == 0.5, np.sqrt(base), np.where(self.power == 0.0, np.log(base), x))


# ---- warnings ----------------------------------------------------------------------------------------------------


def _edge_notes(
    fitted: ShiftedLikelihood, even: _EvenColumns, settings: ResidualLikelihoodSettings
) -> list[PosteriorWarning]:
    """Return a warning if columns in which the observation is an often repeated edge tell much of the parameters."""
    if not even.at_edge.any():
        return []
    weights = fitted.weights
    others = 0.0 if even.at_edge.all() else fitted.information(weights, ~even.at_edge)
    if fitted.information(weights) < others + settings.edge_information:
        return []
    numbers = even.numbers[even.at_edge] + 1
    listed = ", ".join(str(number) for number in numbers)
    named = f"summary {listed} takes" if len(numbers) == 1 else f"summaries {listed} take"
    text = (
        f"{named} few values and the observation sits at the edge; the likelihood there is approximate: compare with "
        "method='dme' or 'rejection', or give summaries that vary."
    )
    return [DiscreteSummaryWarning(text, tuple(int(number) - 1 for number in numbers))]


def _unstable_note(stability: float) -> UnstablePosteriorWarning:
    with np.errstate(over="ignore"):
        factor = np.exp(stability * np.log(1.5))
    text = (
        "posteriors from halves of the simulations disagree: expect an error of "
        f"{stability:.1f} posterior deviations in a mean, or a deviation wrong by a factor of "
        f"{factor:.3g}. The posterior is their average; run more simulations, or give better "
        "summaries."
    )
    return UnstablePosteriorWarning(text, stability)


def _misfit_notes(fitted: ShiftedLikelihood, phi: Array) -> list[PosteriorWarning]:
    """Return a warning if the observation is farther from what the model gives on average than any simulation.

    Were it a simulation, too, that would happen once in 201 times. It takes more data than parameters.
    """
    if len(fitted.observed) > 1 or fitted.observed.shape[1] <= phi.shape[1]:
        return []
    distance, usual = fitted.misfit()
    if distance <= usual.max():
        return []
    text = (
        f"the model hardly gives such an observation at any parameters: it is {distance:.3g} standard deviations "
        f"from the nearest mean, farther than each of {len(usual)} simulations close to it (at most "
        f"{usual.max():.3g}). Check the model and the observation; the posterior holds only if both are right."
    )
    return [MisfitWarning(text, distance, float(usual.max()))]


def _outlier_notes(outliers: NDArray[np.bool_]) -> list[PosteriorWarning]:
    if not outliers.any():
        return []
    text = (
        f"{outliers.sum()} of {len(outliers)} simulations gave data far from those of others at such parameters and "
        "count as failures, so only their probability matters. Look at them; the simulator may be unstable."
    )
    return [OutlyingSimulationsWarning(text, int(outliers.sum()), len(outliers))]


def _exact_notes(exact: NDArray[np.bool_]) -> list[PosteriorWarning]:
    if not exact.any():
        return []
    which = "the data are" if exact.all() else f"{exact.sum()} of {len(exact)} summaries in use are"
    text = (
        f"the simulator looks deterministic: {which} an exact function of the parameters, as far as regression can "
        "tell. The posterior is narrower than can be sampled; noise of a millionth of the data's spread was put in. "
        "Use a solver of equations, or add the noise of the measurement to the simulator."
    )
    return [DeterministicSimulatorWarning(text, int(exact.sum()), len(exact))]
