"""How a comparison judges posteriors: by the true posterior where it is known, else by held-out simulations."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.integrate import cumulative_trapezoid

from decond.checks import as_rows, frozen
from decond.lfi.diagnostics import c2st, simulation_based_calibration, total_variation
from decond.lfi.methods.base import Method
from decond.lfi.posterior import Posterior, reflected_density
from decond.lfi.prior import Prior
from decond.lfi.samplers import temper
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

POINTS = 100
"""Points that each of the densities adds to the grid of a total variation, by its mass and again evenly."""

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
            below = cumulative_trapezoid(self.density(grid), grid, initial=0.0)
            ends = np.interp([1e-9, 1.0 - 1e-9], below / below[-1], grid)
            low, high = self._prior.to_working(ends[:, None])[:, 0]
        return np.interp(levels, below / below[-1], grid)[:, None]

    def density(self, grid: np.ndarray) -> np.ndarray:
        """Return the density of a single parameter on a grid, with integral one."""
        if self._log_density is None:
            assert self._given is not None
            return reflected_density(self._given[:, 0], grid, self._prior.low[0], self._prior.high[0])
        log_values = self._values(grid[:, None])
        values = np.exp(log_values - log_values.max())
        return values / np.trapezoid(values, grid)

    def interval(self, column: int) -> tuple[float, float]:
        """Return the central 95 % interval of a parameter."""
        low, high = np.quantile(self.draws[:, column], [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
        return float(low), float(high)

    def _values(self, theta: np.ndarray) -> np.ndarray:
        values = np.asarray(self._log_density(theta), dtype=np.float64).reshape(-1)
        if values.shape != (len(theta),) or np.isnan(values).any():
            raise ValueError(
                f"reference gives values of shape {values.shape} for {len(theta)} rows of parameters; it has to give "
                "one log density for each row."
            )
        return values


def as_reference(prior: Prior, reference: Any) -> Reference | None:
    """Return the true posterior from its log density or from draws of it; raise if it is neither."""
    if reference is None:
        return None
    if callable(reference):
        found = Reference(prior, log_density=reference)
        found._values(prior.sample(3))
        return found
    draws = as_rows(reference, "reference")
    if draws.shape[1] != prior.dim:
        raise ValueError(
            f"reference has {draws.shape[1]} column(s) but the prior has {prior.dim} parameter(s): give draws of the "
            "true posterior, one column for each, or its log density as a function of rows."
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
        truth = None if true_parameters is None else prior.rows(true_parameters, "true_parameters")
        if truth is not None and len(truth) != 1:
            raise ValueError(f"true_parameters has {len(truth)} rows; give one value for each parameter.")
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
                "in one round; 0.95 of the truths should lie inside."
            )
        return cls(prior, known, None if truth is None else truth[0], judged, notes)

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
    def shown(self) -> list[tuple[str, float | None]]:
        """The columns of judgement that a picture shows, with the best value."""
        accuracy = [(self.measure, 0.0 if self.prior.dim == 1 else 0.5)] if self.measure else []
        return [*accuracy, *([(HELD_OUT, LEVEL)] if self.calibrates else [])]

    @property
    def start(self) -> float:
        """Where the axes of these columns begin: a classifier that guesses is right half of the time."""
        return 0.5 if self.measure == CLASSIFIER else 0.0

    def exact_span(self, column: int) -> tuple[float, float] | None:
        """Return the true 95 % interval of a parameter, where it is known."""
        return None if self.reference is None else self.reference.interval(column)

    def scores(self, posterior: Posterior) -> dict[str, float]:
        """Return accuracy, whether the true parameters lie inside, and intervals."""
        low, middle, high = posterior.quantile([(1.0 - LEVEL) / 2.0, 0.5, (1.0 + LEVEL) / 2.0])
        found: dict[str, float] = {}
        if self.reference is not None:
            found[self.measure] = self._distance(posterior, self.reference)
        if self.true_parameters is not None:
            found[INSIDE] = float(np.mean((low <= self.true_parameters) & (self.true_parameters <= high)))
        for j, name in enumerate(self.prior.names):
            ends = {"low": low[j], "median": middle[j], "high": high[j], "width": high[j] - low[j]}
            found |= {f"{name} {end}": float(value) for end, value in ends.items()}
        return found

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

    def _distance(self, posterior: Posterior, reference: Reference) -> float:
        if self.prior.dim > 1:
            return c2st(posterior.sample(DRAWS), reference.draws[:DRAWS])
        grid = self._grid(posterior)
        return total_variation(posterior.marginal_density(0, grid), reference.density(grid), grid)

    def _grid(self, posterior: Posterior) -> np.ndarray:
        """Return points as dense as the prior, the posterior and the draws of the reference are."""
        assert self.reference is not None
        levels = np.linspace(0.0, 1.0, POINTS)
        parts = [self.prior.sample(2000), posterior.samples, self.reference.draws]
        points = [np.quantile(part[:, 0], levels) for part in parts]
        return np.unique(np.concatenate([*points, *(np.linspace(p[0], p[-1], POINTS) for p in points)]))
