"""p(y | θ) from simulations shifted to θ by a learned mean and scale, fitted around one observation."""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from decond.conditional import KernelFits, ResidualSettings, ShiftedResiduals
from decond.errors import ArgumentError
from decond.lfi.exceptions import DeterministicSimulatorWarning, DiscreteSummaryWarning, PosteriorWarning
from decond.lfi.methods.residual_columns import Columns

__all__ = ["ShiftedLikelihood", "closeness", "likelihood_at"]

NEAR = 2.0
"""Width of the closeness, in standard deviations of the residuals."""

PASSES = 2
"""Regressions from which closeness is found; each but the first is weighted by the closeness before it."""

NEAR_ROWS = 200
"""Effective simulations for which the width grows where it has to."""

FAR = 0.02
"""Least weight of a simulation: far ones still tell the trend."""

PILOT_ROWS = 500
"""Simulations from which closeness and the shapes of columns are found."""

ROWS = 1000
"""Simulations, the closest, from which the likelihood is fitted."""

COLUMNS = 0.04
"""Columns of data for each simulation (40 for 1,000) above which summaries are always learned."""

JUDGED = 200
"""Simulations, the closest, by which columns and learned summaries are compared."""

TOLD = 0.1
"""What learned summaries have to tell more, for each simulation, to be preferred to the columns."""

GUARD = 12.0
"""Log likelihood below that of the best simulation at which the columns overrule learned summaries."""

VARIES = 0.1
"""A column that equals the observed one in more than all but this share of the close simulations is left out."""

AT_EDGE, EDGE_TOLD = 0.05, 0.05
"""Share of the close simulations that repeat an observed value at the edge of its column, and what such columns tell
for each simulation beside the others, above which the user is warned."""


def likelihood_at(
    phi: np.ndarray, x: np.ndarray, observed: np.ndarray, *, summary: str, rng: np.random.Generator
) -> "ShiftedLikelihood":
    """Return the likelihood of one observation (1, s), fitted to simulations (n, d), (n, s).

    With `summary` "learned" the columns are replaced by estimates of the parameters, learned around the observation;
    with "auto" if there are more columns than the simulations can bear, or if that tells more about the parameters.
    """
    even = _even_columns(phi, x, observed, rng)
    rows = _closest(even.weights, ROWS)
    phi, x, observed, weights = phi[rows], even.x[rows], even.observed, even.weights[rows]
    bearable = x.shape[1] <= max(2 * phi.shape[1], COLUMNS * len(x))
    plain = None
    if summary == "none" or (summary == "auto" and bearable):
        plain = ShiftedLikelihood(phi, x, observed, weights, even.log_slope)
        plain.notes += _edge_notes(plain, weights, even)
        if summary == "none" or x.shape[1] <= 2 * phi.shape[1]:
            return plain
    estimates, seen = _learned(phi, x, observed, weights)
    learned = ShiftedLikelihood(phi, estimates, seen, closeness(phi, estimates, seen, rng))
    learned.of_data = False
    if plain is None:
        return learned
    if learned.information(weights) < plain.information(weights) + TOLD:
        return plain
    learned.guard_by(plain, phi)
    return learned


class _EvenColumns(NamedTuple):
    """Data and observation in columns of even noise that vary, the log slope of that, and closeness.

    `at_edge` says in which of them the observation is an often repeated edge, `numbers` where they were in the data.
    """

    x: np.ndarray
    observed: np.ndarray
    log_slope: float
    weights: np.ndarray
    at_edge: np.ndarray
    numbers: np.ndarray


def _even_columns(phi: np.ndarray, x: np.ndarray, observed: np.ndarray, rng: np.random.Generator) -> _EvenColumns:
    varying = np.ptp(x, axis=0) > 0.0
    if not varying.any():
        raise ArgumentError(
            "sims", "all simulations gave the same data, so nothing can be learned; check the simulator."
        )
    x, observed = x[:, varying], observed[:, varying]
    plain = Columns(x)
    weights = closeness(phi, plain.apply(x), plain.apply(observed), rng)
    rows = _closest(weights, PILOT_ROWS)
    shape = Columns.chosen(x[rows], phi[rows], weights[rows]).shape
    columns = Columns(x, np.where(plain.eligible, shape, 1.0))
    log_slope = columns.log_slopes(observed)[0]
    x, observed = columns.apply(x), columns.apply(observed)
    weights = closeness(phi, x, observed, rng)
    near = np.where(weights > FAR, weights, 0.0)
    differs = near @ (np.abs(x - observed) > 1e-9)
    varies = differs > VARIES * near.sum()
    if not varies.any():
        varies[:] = True
    edge = (observed[0] <= x.min(axis=0)) | (observed[0] >= x.max(axis=0))
    repeated = differs <= (1.0 - AT_EDGE) * near.sum()
    return _EvenColumns(
        x[:, varies],
        observed[:, varies],
        float(log_slope[varies].sum()),
        weights,
        (edge & repeated)[varies],
        np.flatnonzero(varying)[varies],
    )


def _edge_notes(fitted: "ShiftedLikelihood", weights: np.ndarray, even: _EvenColumns) -> list[PosteriorWarning]:
    """Return a warning if columns in which the observation is an often repeated edge tell much of the parameters."""
    if not even.at_edge.any():
        return []
    others = 0.0 if even.at_edge.all() else fitted.information(weights, ~even.at_edge)
    if fitted.information(weights) < others + EDGE_TOLD:
        return []
    numbers = even.numbers[even.at_edge] + 1
    listed = ", ".join(str(number) for number in numbers)
    named = f"summary {listed} takes" if len(numbers) == 1 else f"summaries {listed} take"
    text = (
        f"{named} few values and the observation sits at the edge; the likelihood there is approximate: compare with "
        "method='dme' or 'rejection', or give summaries that vary."
    )
    return [DiscreteSummaryWarning(text, [int(number) - 1 for number in numbers])]


class ShiftedLikelihood:
    """p(y | θ) of one observation y, the density of simulations that are shifted to θ (`residuals.ShiftedResiduals`).

    Attributes:
        effective: The effective number of simulations behind it.
        exact: For each column, whether it is an exact function of the parameters. Noise is put in place of
            none, so that the posterior can be sampled.
        notes: What the user should know.
        log_slope: Added to the log density, so that it is one of the data in their own units.
    """

    of_data = True
    """Whether it is a density of the data, not of summaries that were learned from them."""

    def __init__(
        self, phi: np.ndarray, x: np.ndarray, observed: np.ndarray, weights: np.ndarray, log_slope: float = 0.0
    ) -> None:
        self.observed, self.log_slope = observed, log_slope
        self._guard: tuple[ShiftedLikelihood, float] | None = None
        self._residuals = ShiftedResiduals(phi, x, weights)
        self.exact, self.scaled = self._residuals.exact, self._residuals.scaled
        self.notes = _exact_notes(self.exact)
        self.effective = weights.sum() ** 2 / float(np.sum(weights**2))

    def log_density(self, phi: np.ndarray) -> np.ndarray:
        """Return log p(observed | θ) at working coordinates (q, d)."""
        value = self._residuals.log_density(self.observed, phi) + self.log_slope
        if self._guard is not None:
            guard, least = self._guard
            value += np.minimum(guard.gaussian_log_density(phi) - least, 0.0)
        return value

    def gaussian_log_density(self, phi: np.ndarray) -> np.ndarray:
        """Return the log density of a Gaussian with the same mean and covariance, up to a constant."""
        return self._residuals.gaussian_log_density(self.observed, phi)

    def guard_by(self, other: "ShiftedLikelihood", phi: np.ndarray) -> None:
        """Let another likelihood rule out parameters whose data come nowhere near the observation.

        A summary that was learned around the observation says nothing of data far from it, which may map onto the
        observed summary by chance.
        """
        self._guard = other, float(other.gaussian_log_density(phi).max()) - GUARD

    def information(self, weights: np.ndarray, columns: np.ndarray | None = None) -> float:
        """Return what the data, or some columns of them, tell about the parameters.

        That is the mean over i of log p(x_i | θ_i) − log (mean over j of p(x_i | θ_j)): the expected gain in log
        posterior density at the true parameters. It compares likelihoods of different summaries. Means are weighted;
        densities are Gaussian, of fits without row j.
        """
        share = weights / weights.sum()
        judged = np.argsort(-weights, kind="stable")[:JUDGED]
        x, (mean, scale) = self._residuals.x, self._residuals.left_out
        if columns is not None:
            x, mean, scale = x[:, columns], mean[:, columns], scale[:, columns]
        missed = (x[judged][:, None, :] - mean) / scale
        u = self._residuals.density.whitened(missed.reshape(-1, missed.shape[2]), columns).reshape(missed.shape)
        log_density = -0.5 * np.sum(u**2, axis=2) - np.log(scale).sum(axis=1)
        own = log_density[np.arange(len(judged)), judged]
        average = logsumexp(log_density, axis=1, b=share)
        return float(np.average(own - average, weights=weights[judged]))


def _exact_notes(exact: np.ndarray) -> list[PosteriorWarning]:
    if not exact.any():
        return []
    which = "the data are" if exact.all() else f"{exact.sum()} of {len(exact)} summaries in use are"
    text = (
        f"the simulator looks deterministic: {which} an exact function of the parameters, as far as regression can "
        f"tell. The posterior is narrower than can be sampled; noise of {ResidualSettings.exact:g} of the data's "
        "spread was put in. Use a solver of equations, or add the noise of the measurement to the simulator."
    )
    return [DeterministicSimulatorWarning(text, int(exact.sum()), len(exact))]


def closeness(phi: np.ndarray, x: np.ndarray, observed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return weights (n,): how close the *predicted* data at each θ_i come to the observation.

    v_i = exp(−D_i² / 2b²), D_i the distance of m(θ_i) from the observation in standard deviations of the
    residuals, averaged over columns. Never the distance of x_i itself: that would select on the noise that the
    likelihood is to describe. The regression is made twice, the second time with these weights.
    """
    n = len(phi)
    rows = np.arange(n) if n <= PILOT_ROWS else np.sort(rng.choice(n, PILOT_ROWS, replace=False))
    weights = np.ones(n)
    for _ in range(PASSES):
        fit = KernelFits(phi[rows], weights[rows], ResidualSettings(lengthscales=(0.25, 0.5, 1.0, 2.0))).fit(x[rows])
        predicted = fit.predict(phi)
        predicted[rows] = x[rows] - fit.residual
        weights = _near(predicted - observed, fit.residual, weights[rows])
    return weights


def _near(missed: np.ndarray, residual: np.ndarray, weights: np.ndarray) -> np.ndarray:
    covariance = np.cov(residual, rowvar=False, aweights=weights).reshape(residual.shape[1], -1)
    covariance += (1e-9 * np.trace(covariance) / len(covariance) + 1e-300) * np.eye(len(covariance))
    squared = np.sum(missed @ np.linalg.inv(covariance) * missed, axis=1) / missed.shape[1]
    squared = np.maximum(squared, 0.0)
    width, wanted = NEAR, min(NEAR_ROWS, 0.5 * len(missed))
    near = np.exp(-0.5 * (squared - squared.min()) / width**2)
    for _ in range(100):
        if near.sum() ** 2 / np.sum(near**2) >= wanted:
            break
        width *= 1.2
        near = np.exp(-0.5 * (squared - squared.min()) / width**2)
    return np.maximum(near, FAR)


def _closest(weights: np.ndarray, most: int) -> np.ndarray:
    """Return row numbers: all, or the closest four fifths of `most` and an even choice of the rest, for the trend."""
    order = np.argsort(-weights, kind="stable")
    if len(order) <= most:
        return np.arange(len(order))
    near, rest = order[: 4 * most // 5], order[4 * most // 5 :]
    even = np.linspace(0, len(rest) - 1, most - len(near)).round().astype(int)
    return np.sort(np.concatenate([near, rest[even]]))


def _learned(
    phi: np.ndarray, x: np.ndarray, observed: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return estimates of the parameters in place of the data: leave-one-out where a row was used."""
    rows = _closest(weights, ROWS)
    fit = KernelFits(x[rows], weights[rows]).fit(phi[rows])
    estimates = fit.predict(x)
    estimates[rows] = phi[rows] - fit.residual
    share = weights / weights.sum()
    center = share @ estimates
    spread = np.sqrt(share @ (estimates - center) ** 2) + 1e-300
    return (estimates - center) / spread, (fit.predict(observed) - center) / spread
