"""How a comparison judges posteriors: by the true posterior where it is known, else by held-out simulations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.ndimage import gaussian_filter1d

from decond.checks import as_rows, frozen
from decond.errors import ArgumentError
from decond.lfi.diagnostics import c2st, simulation_based_calibration
from decond.lfi.methods.base import Method
from decond.lfi.posterior import Posterior
from decond.lfi.prior import Prior
from decond.lfi.sampling import temper
from decond.lfi.simulations import Simulations

__all__ = ["Judge", "as_reference"]

DENSITY, CLASSIFIER = "total variation", "C2ST"
"""Measures of accuracy, for one parameter and for several."""

INSIDE, HELD_OUT, VERDICT = "truth inside 95 %", "held out inside 95 %", "calibration"
LEVEL = 0.95

DRAWS = 1000
"""Draws of each posterior that a classifier sees."""

PARTICLES = 2000
"""Draws that a log density is turned into."""

GRID, ZOOMS = 4001, 3
"""Points of a grid over one parameter, and how often it closes in on where the density is."""

FEWEST = 200
"""Draws of the true posterior that are needed to tell anything."""

LEVELS, BINS, BLUR = 4000, 400, 0.02
"""Quantiles of each posterior that a total variation sees, bins of their ranks, and the blur of ranks."""

TRIALS, TRIAL_DRAWS, FOLDS = 100, 199, 3
"""Held-out simulations that calibration is judged on, draws of each posterior, and refits."""

SECONDS = 60.0
"""Seconds after which the calibration of a method makes do with the trials done."""

RUNS_ITSELF = "calibration is not judged: this method runs the simulator itself for each observation"


class Reference:
    """The true posterior: its log density up to a constant, or draws of it."""

    def __init__(self, prior: Prior, log_density: Any = None, draws: np.ndarray | None = None) -> None:
        self._prior, self._log_density, self._given = prior, log_density, draws

    @cached_property
    def draws(self) -> np.ndarray:
        """Draws (n, d): those given, or of the density: its quantiles for one parameter, else by tempering."""
        if self._given is not None:
            return self._given
        if self._prior.dim == 1:
            return self._quantiles()
        prior, rng = self._prior, np.random.default_rng(0)

        def ratio(phi: np.ndarray) -> np.ndarray:
            theta = prior.from_working(phi)
            return self._values(theta) - prior.log_density(theta)

        start = prior.to_working(prior.sample(PARTICLES, rng))
        cloud = temper(prior.log_density_working, ratio, start, rng)[0]
        return prior.from_working(cloud.draw(PARTICLES, rng))

    def _quantiles(self) -> np.ndarray:
        """Return evenly spread quantiles (n, 1) of a single parameter, from a grid that closes in on the mass."""
        phi = self._prior.to_working(self._prior.sample(PARTICLES, 0))
        low, high = float(phi.min()) - 1.0, float(phi.max()) + 1.0
        levels = (np.arange(PARTICLES) + 0.5) / PARTICLES
        for _ in range(ZOOMS):
            grid = self._prior.from_working(np.linspace(low, high, GRID)[:, None])[:, 0]
            grid = np.unique(np.clip(grid, self._prior.low[0], self._prior.high[0]))
            below = cumulative_trapezoid(self._density(grid), grid, initial=0.0)
            ends = np.interp([1e-9, 1.0 - 1e-9], below / below[-1], grid)
            low, high = self._prior.to_working(ends[:, None])[:, 0]
        return np.interp(levels, below / below[-1], grid)[:, None]

    def _density(self, grid: np.ndarray) -> np.ndarray:
        """Return the density of a single parameter on a grid, up to a constant."""
        log_values = self._values(grid[:, None])
        if log_values.max() == -np.inf:
            raise ArgumentError(
                "reference", "reference is -inf wherever the prior is; give the log density of the true posterior."
            )
        return np.exp(log_values - log_values.max())

    def interval(self, column: int) -> tuple[float, float]:
        """Return the central 95 % interval of a parameter."""
        low, high = np.quantile(self.draws[:, column], [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
        return float(low), float(high)

    def _values(self, theta: np.ndarray) -> np.ndarray:
        values = np.asarray(self._log_density(theta), dtype=np.float64).reshape(-1)
        if values.shape != (len(theta),):
            raise ArgumentError(
                "reference",
                f"reference gives values of shape {values.shape} for {len(theta)} rows of parameters; it has to give "
                "one log density for each row.",
            )
        if np.isnan(values).any():
            at = theta[int(np.argmax(np.isnan(values)))]
            raise ArgumentError(
                "reference",
                f"reference is not a number at the parameters {at}, where the prior is; a log density is a number "
                "there, or -inf.",
            )
        return values


def as_reference(prior: Prior, reference: Any) -> Reference | None:
    """Return the true posterior from its log density or from draws of it; raise if it is neither."""
    if reference is None:
        return None
    if callable(reference):
        found = Reference(prior, log_density=reference)
        found._values(prior.sample(3))
        _ = found.draws
        return found
    draws = as_rows(reference, "reference")
    if draws.shape[1] != prior.dim:
        raise ArgumentError(
            "reference",
            f"reference has {draws.shape[1]} column(s) but the prior has {prior.dim} parameter(s): give draws of the "
            "true posterior, one column for each, or its log density as a function of rows.",
        )
    if len(draws) < FEWEST:
        raise ArgumentError(
            "reference",
            f"reference has {len(draws)} draws of the true posterior; at least {FEWEST} are needed to tell how far "
            "another one is from it. Give more, or leave it out.",
        )
    return Reference(prior, draws=frozen(draws))


@dataclass(frozen=True)
class Judge:
    """What is known of a problem, and the columns that follow from it.

    >>> from scipy import stats
    >>> prior = Prior({"rate": stats.gamma(2)})
    >>> judge = Judge.of(prior, stats.gamma(4, scale=0.5).logpdf, [2.0], None)
    >>> posterior = Posterior(prior, lambda n, rng: rng.gamma(4.0, 0.5, (n, 1)))
    >>> scores = judge.scores(posterior)
    >>> scores["total variation"] < 0.05, scores["truth inside 95 %"]
    (True, 1.0)
    """

    prior: Prior
    reference: Reference | None
    true_parameters: np.ndarray | None
    calibrates: bool
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, prior: Prior, reference: Any, true_parameters: Any, calibrate: bool | None) -> "Judge":
        """Check what is given; calibration is judged where asked for, or where there is no reference."""
        known = as_reference(prior, reference)
        truth = _true_parameters(prior, true_parameters)
        judged = known is None if calibrate is None else bool(calibrate)
        notes = []
        if known is not None:
            meaning = "0 is perfect, 1 hopeless" if prior.dim == 1 else "0.5 is perfect, 1 hopeless"
            notes.append(
                f"{DENSITY if prior.dim == 1 else CLASSIFIER} is the distance to the true posterior: {meaning}."
            )
        if judged:
            notes.append(
                f"Calibration is from up to {TRIALS} held-out simulations and {FOLDS} refits on draws of the prior, "
                "in one round, with the first seed only; 0.95 of the truths should lie inside."
            )
        return cls(prior, known, truth, judged, notes)

    @property
    def measure(self) -> str:
        """The column that says how far a posterior is from the truth; empty if that is not known."""
        if self.reference is None:
            return ""
        return DENSITY if self.prior.dim == 1 else CLASSIFIER

    @property
    def columns(self) -> list[str]:
        """All columns of the table, in order; notes come last."""
        spans = [f"{name} {end}" for name in self.prior.names for end in ("low", "median", "high", "width")]
        judged = [self.measure, INSIDE, HELD_OUT, VERDICT]
        return [*filter(None, judged), *spans, "seconds", "simulations", "failed"]

    @property
    def shown(self) -> list[tuple[str, float, float]]:
        """The columns of judgment that a picture shows, with the best value and where the axis begins."""
        best = 0.0 if self.prior.dim == 1 else 0.5  # a classifier that guesses is right half of the time
        accuracy = [(self.measure, best, best)] if self.measure else []
        return [*accuracy, *([(HELD_OUT, LEVEL, 0.0)] if self.calibrates else [])]

    def exact_span(self, column: int) -> tuple[float, float] | None:
        """Return the true 95 % interval of a parameter, where it is known."""
        return None if self.reference is None else self.reference.interval(column)

    def scores(self, posterior: Posterior) -> dict[str, float]:
        """Return accuracy, whether the true parameters lie inside, and intervals."""
        return {**self.accuracy(posterior), **self.intervals(posterior)}

    def intervals(self, posterior: Posterior) -> dict[str, float]:
        """Return the interval of each parameter, and the share of the true parameters that lie inside."""
        low, middle, high = posterior.quantile([(1.0 - LEVEL) / 2.0, 0.5, (1.0 + LEVEL) / 2.0])
        found: dict[str, float] = {}
        if self.true_parameters is not None:
            found[INSIDE] = float(np.mean((low <= self.true_parameters) & (self.true_parameters <= high)))
        for j, name in enumerate(self.prior.names):
            ends = {"low": low[j], "median": middle[j], "high": high[j], "width": high[j] - low[j]}
            found |= {f"{name} {end}": float(value) for end, value in ends.items()}
        return found

    def accuracy(self, posterior: Posterior) -> dict[str, float]:
        """Return the distance to the true posterior, where that is known."""
        if self.reference is None:
            return {}
        if self.prior.dim == 1:
            return {DENSITY: _variation(posterior.samples[:, 0], self.reference.draws[:, 0])}
        known = np.random.default_rng(0).permutation(self.reference.draws)[:DRAWS]
        return {CLASSIFIER: c2st(posterior.sample(len(known)), known)}

    def calibration(self, method: Method, sims: Simulations, seed: int) -> dict[str, Any]:
        """Return how often intervals hold the parameters of held-out simulations, or why that is not known."""
        if method.runs_simulator:
            return {HELD_OUT: np.nan, VERDICT: "", "said": RUNS_ITSELF}
        found = simulation_based_calibration(
            method, sims, self.prior, TRIALS, seed=seed, n_draws=TRIAL_DRAWS, folds=FOLDS, seconds=SECONDS
        )
        inside = found.coverage.at(LEVEL)
        judged = {HELD_OUT: float(np.mean([inside[name] for name in self.prior.names])), VERDICT: found.verdict}
        if found.n < min(TRIALS, sims.n_valid):
            judged["said"] = (
                f"calibration is from {found.n} held-out simulations, as many as {SECONDS:g} seconds allow"
            )
        return judged


def _true_parameters(prior: Prior, given: Any) -> np.ndarray | None:
    """Return one value for each parameter, from a row or from a mapping by name."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        if set(given) != set(prior.names):
            raise ArgumentError(
                "true_parameters",
                f"true_parameters has {', '.join(map(str, given)) or 'nothing'}, but the parameters are called "
                f"{', '.join(prior.names)}; give a number for each of them.",
            )
        given = [given[name] for name in prior.names]
    truth = prior.rows(given, "true_parameters")
    if len(truth) != 1:
        raise ArgumentError(
            "true_parameters", f"true_parameters has {len(truth)} rows; give one value for each parameter."
        )
    row: np.ndarray = truth[0]
    return row


# ---- total variation from draws ------------------------------------------------------------------------------


def _variation(draws: np.ndarray, known: np.ndarray) -> float:
    """Return half the area between two densities of one parameter, seen along the ranks of both sets of draws.

    The area is the same along any scale. Along ranks neither density exceeds two, however narrow or far apart their
    modes are, and the same small blur does for all. 10,000 draws of the exact posterior get
    about 0.015 against its quantiles.
    """
    both = [_even_quantiles(draws), _even_quantiles(known)]
    first, second = (_blurred(np.mean([_shares_below(points, at) for points in both], axis=0)) for at in both)
    return float(0.5 * np.mean(np.abs(first - second)))


def _even_quantiles(draws: np.ndarray) -> np.ndarray:
    """Return quantiles at even levels, where each distinct draw is spread halfway to its neighbors."""
    values, counts = np.unique(draws, return_counts=True)
    between = 0.5 * (values[1:] + values[:-1])
    ends = values[[0, -1]]
    if len(values) > 1:
        ends = 2.0 * ends - between[[0, -1]]
    levels = (np.arange(LEVELS) + 0.5) / LEVELS
    below = np.concatenate([[0.0], np.cumsum(counts)]) / len(draws)
    return np.interp(levels, below, np.concatenate([ends[:1], between, ends[1:]]))


def _shares_below(points: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return which share of sorted points is below each of some values; equal ones count half."""
    counts: np.ndarray = np.searchsorted(points, at, "left") + np.searchsorted(points, at, "right")
    return 0.5 * counts / len(points)


def _blurred(ranks: np.ndarray) -> np.ndarray:
    """Return the density of ranks between 0 and 1, blurred by a Gaussian kernel with reflection at the ends."""
    counts = np.histogram(ranks, BINS, (0.0, 1.0))[0] * (BINS / len(ranks))
    density: np.ndarray = gaussian_filter1d(counts, BLUR * BINS, mode="reflect", truncate=6.0)
    return density
