"""How good a posterior is: its distance to the true posterior where that is known, else by held-out simulations."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import cumulative_trapezoid
from scipy.ndimage import gaussian_filter1d

from decond.checks import as_rows, as_values, frozen
from decond.embeddings import MeanEmbedding
from decond.errors import ArgumentError
from decond.kernels import RBF, median_heuristic
from decond.kernels.kernel import Kernel
from decond.lfi.diagnostics.rank_calibration import simulation_based_calibration
from decond.lfi.methods.method import Method
from decond.lfi.posterior_draws import Posterior
from decond.lfi.prior import Prior
from decond.lfi.sampling import temper
from decond.lfi.simulations import Simulations

__all__ = ["AccuracySettings", "Scorer", "TruePosterior", "c2st", "mmd", "total_variation"]

Density = ArrayLike | Callable[[NDArray[np.float64]], ArrayLike]

LogDensity = Callable[[NDArray[np.float64]], ArrayLike]
Row = dict[str, float | str]


@dataclass(frozen=True)
class AccuracySettings:
    """The effort of scoring; rules of thumb unless noted."""

    level: float = 0.95
    """Level of the intervals: a convention."""
    draws: int = 1000
    """Draws of each posterior that a classifier sees."""
    reference_draws: int = 2000
    """Draws that a log density is turned into."""
    least_draws: int = 200
    """Draws of the true posterior that are needed for a score."""
    grid: int = 4001
    """Points of a grid over one parameter."""
    zooms: int = 3
    """How often the grid closes in on where the density is."""
    trials: int = 100
    """Held-out simulations of the calibration."""
    trial_draws: int = 199
    """Draws of each of their posteriors."""
    folds: int = 3
    """Refits of the calibration."""
    seconds: float = 60.0
    """Time after which calibration makes do with the trials done."""


class TruePosterior:
    """The true posterior.

    Parameters
    ----------
    prior : Prior
        The prior of the parameters.
    given : array_like or callable
        Its log density up to a constant, as a function of rows of parameters, or draws of it.
    settings : AccuracySettings
        The numbers of scoring.
    """

    def __init__(self, prior: Prior, given: ArrayLike | LogDensity, settings: AccuracySettings) -> None:
        self._prior, self._settings = prior, settings
        self._log_density: LogDensity | None = given if callable(given) else None
        self._given = None if callable(given) else self._checked_draws(given)
        if self._log_density is not None:
            self._values(prior.sample(3))
            _ = self.draws

    @cached_property
    def draws(self) -> NDArray[np.float64]:
        """Draws (n, d): those given, or of the density: its quantiles for one parameter, else by tempering."""
        if self._given is not None:
            return self._given
        if self._prior.dim == 1:
            return self._quantiles()
        prior, rng, n = self._prior, np.random.default_rng(0), self._settings.reference_draws

        def ratio(phi: np.ndarray) -> np.ndarray:
            theta = prior.from_working(phi)
            return self._values(theta) - prior.log_density(theta)

        [cloud] = temper(prior.log_density_working, ratio, prior.to_working(prior.sample(n, rng)), rng)
        return prior.from_working(cloud.draw(n, rng))

    def interval(self, column: int) -> tuple[float, float]:
        """Return the central 95 % interval of a parameter."""
        tail = 0.5 * (1.0 - self._settings.level)
        low, high = np.quantile(self.draws[:, column], [tail, 1.0 - tail])
        return float(low), float(high)

    def _quantiles(self) -> np.ndarray:
        """Return evenly spread quantiles (n, 1) of a single parameter, from a grid that closes in on the mass."""
        prior, n = self._prior, self._settings.reference_draws
        phi = prior.to_working(prior.sample(n, 0))
        low, high = float(phi.min()) - 1.0, float(phi.max()) + 1.0
        for _ in range(self._settings.zooms):
            grid = prior.from_working(np.linspace(low, high, self._settings.grid)[:, None])[:, 0]
            grid = np.unique(np.clip(grid, prior.low[0], prior.high[0]))
            log_values = self._values(grid[:, None])
            if log_values.max() == -np.inf:
                raise ArgumentError(
                    "reference",
                    "reference is -inf wherever the prior is; give the log density of the true posterior.",
                )
            below = cumulative_trapezoid(np.exp(log_values - log_values.max()), grid, initial=0.0)
            ends = np.interp([1e-9, 1.0 - 1e-9], below / below[-1], grid)
            low, high = prior.to_working(ends[:, None])[:, 0]
        return np.interp((np.arange(n) + 0.5) / n, below / below[-1], grid)[:, None]

    def _values(self, theta: np.ndarray) -> np.ndarray:
        assert self._log_density is not None
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

    def _checked_draws(self, given: ArrayLike) -> np.ndarray:
        draws, least = as_rows(given, "reference"), self._settings.least_draws
        if draws.shape[1] != self._prior.dim:
            raise ArgumentError(
                "reference",
                f"reference has {draws.shape[1]} column(s) but the prior has {self._prior.dim} parameter(s): give "
                "draws of the true posterior, one column for each, or its log density as a function of rows.",
            )
        if len(draws) < least:
            raise ArgumentError(
                "reference",
                f"reference has {len(draws)} draws of the true posterior; at least {least} are needed to tell how "
                "far another one is from it. Give more, or leave it out.",
            )
        return np.asarray(frozen(draws))


@dataclass(frozen=True)
class Scorer:
    """What is known of a problem, and the columns of a comparison that follow from it.

    Attributes
    ----------
    prior : Prior
        The prior of the parameters.
    reference : TruePosterior, optional
        The true posterior, where it is known.
    true_parameters : ndarray of shape (d,), optional
        The parameters that made the observation, where they are known.
    calibrates : bool
        Whether calibration is checked.

    Examples
    --------
    >>> from scipy import stats
    >>> prior = Prior({"rate": stats.gamma(2)})
    >>> scorer = Scorer.of(prior, stats.gamma(4, scale=0.5).logpdf, [2.0], None)
    >>> posterior = Posterior(prior, lambda n, rng: rng.gamma(4.0, 0.5, (n, 1)))
    >>> scores = {**scorer.accuracy(posterior), **scorer.intervals(posterior)}
    >>> scores["total variation"] < 0.05, scores["truth inside 95 %"]
    (True, 1.0)
    """

    prior: Prior
    reference: TruePosterior | None
    true_parameters: NDArray[np.float64] | None
    calibrates: bool
    settings: AccuracySettings = field(default_factory=AccuracySettings)

    @classmethod
    def of(
        cls,
        prior: Prior,
        reference: ArrayLike | LogDensity | None,
        true_parameters: ArrayLike | Mapping[str, float] | None,
        calibrate: bool | None,
    ) -> "Scorer":
        """Return the scorer of a problem, checked.

        Parameters
        ----------
        prior : Prior
            The prior of the parameters.
        reference : array_like or callable, optional
            The log density of the true posterior, or draws of it.
        true_parameters : array_like or dict, optional
            A row, or a dict by name.
        calibrate : bool, optional
            Whether to check calibration; by default where there is no reference.
        """
        known = None if reference is None else TruePosterior(prior, reference, AccuracySettings())
        truth = _true_parameters(prior, true_parameters)
        return cls(prior, known, truth, known is None if calibrate is None else bool(calibrate))

    @property
    def measure(self) -> str:
        """The column that says how far a posterior is from the truth; empty if that is not known."""
        if self.reference is None:
            return ""
        return "total variation" if self.prior.dim == 1 else "C2ST"

    @property
    def columns(self) -> list[str]:
        """All columns of the table, in order; notes come last."""
        ends = [f"{name} {end}" for name in self.prior.names for end in ("low", "median", "high", "width")]
        scores = [self.measure, "truth inside 95 %", "held out inside 95 %", "calibration"]
        return [*filter(None, scores), *ends, "seconds", "simulations", "failed"]

    @property
    def drawn(self) -> list[tuple[str, float]]:
        """The scores that a picture shows, with the best value."""
        best = 0.0 if self.prior.dim == 1 else 0.5  # a classifier that guesses is right half of the time
        accuracy = [(self.measure, best)] if self.measure else []
        return [*accuracy, *([("held out inside 95 %", self.settings.level)] if self.calibrates else [])]

    @property
    def notes(self) -> list[str]:
        """What the scores mean."""
        notes = []
        if self.reference is not None:
            meaning = "0 is perfect, 1 hopeless" if self.prior.dim == 1 else "0.5 is perfect, 1 hopeless"
            notes.append(f"{self.measure} is the distance to the true posterior: {meaning}.")
        if self.calibrates:
            notes.append(
                f"Calibration is from up to {self.settings.trials} held-out simulations and {self.settings.folds} "
                "refits on draws of the prior, in one round, with the first seed only; 0.95 of the truths should lie "
                "inside."
            )
        return notes

    def intervals(self, posterior: Posterior) -> Row:
        """Return the interval of each parameter, and the share of the true parameters that lie inside."""
        tail = 0.5 * (1.0 - self.settings.level)
        low, middle, high = posterior.quantile([tail, 0.5, 1.0 - tail])
        found: Row = {}
        if self.true_parameters is not None:
            inside = (low <= self.true_parameters) & (self.true_parameters <= high)
            found["truth inside 95 %"] = float(np.mean(inside))
        for j, name in enumerate(self.prior.names):
            ends = {"low": low[j], "median": middle[j], "high": high[j], "width": high[j] - low[j]}
            found |= {f"{name} {end}": float(value) for end, value in ends.items()}
        return found

    def accuracy(self, posterior: Posterior) -> Row:
        """Return the distance to the true posterior, where that is known."""
        if self.reference is None:
            return {}
        draws = self.reference.draws
        if self.prior.dim == 1:
            return {self.measure: variation_of_draws(posterior.samples[:, 0], draws[:, 0])}
        known = np.random.default_rng(0).permutation(draws)[: self.settings.draws]
        return {self.measure: c2st(posterior.sample(len(known)), known)}

    def calibration(self, method: Method, sims: Simulations, seed: int) -> Row:
        """Return how often intervals hold the parameters of held-out simulations, or a note on why not.

        Parameters
        ----------
        method : Method
            The method.
        sims : Simulations
            Simulations at draws of the prior.
        seed : int
            Seed of folds and draws.
        """
        if method.runs_simulator:
            note = "calibration is not checked: this method runs the simulator itself for each observation"
            return {"held out inside 95 %": np.nan, "calibration": "", "notes": note}
        s = self.settings
        found = simulation_based_calibration(
            method, sims, self.prior, s.trials, seed=seed, n_draws=s.trial_draws, folds=s.folds, seconds=s.seconds
        )
        inside = found.coverage.at(s.level)
        row: Row = {
            "held out inside 95 %": float(np.mean([inside[name] for name in self.prior.names])),
            "calibration": found.verdict,
        }
        if found.n < min(s.trials, sims.n_valid):
            row["notes"] = f"calibration is from {found.n} held-out simulations, as many as {s.seconds:g} s allow"
        return row


def _true_parameters(prior: Prior, given: ArrayLike | Mapping[str, float] | None) -> np.ndarray | None:
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
    return np.asarray(truth[0])


# ---- distances between samples -----------------------------------------------------------------------------------


def c2st(samples: ArrayLike, reference: ArrayLike, seed: int = 1) -> float:
    """Return the accuracy of a classifier that tells samples from a reference: 0.5 is perfect, 1 is hopeless.

    The protocol is that of the public benchmark of simulation-based inference (Lueckmann et al. 2021): a
    neural network with two hidden layers of 10 d units, trained on four fifths and scored on the fifth left out, five
    times; both sets standardized by the reference. It takes about a minute for 10,000 against 10,000.

    Parameters
    ----------
    samples : array_like of shape (n, d)
        Draws.
    reference : array_like of shape (m, d)
        Draws of the true posterior.
    seed : int, optional
        Seed of folds and networks.

    References
    ----------
    J.-M. Lueckmann et al., Benchmarking simulation-based inference, AISTATS 2021.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> c2st(rng.normal(5.0, 1.0, (100, 1)), rng.normal(0.0, 1.0, (100, 1))) > 0.9
    True
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection import KFold, cross_val_score
    from sklearn.neural_network import MLPClassifier

    folds, units = 5, 10  # of the protocol
    drawn, known = _two_samples(samples, reference)
    if min(len(drawn), len(known)) < folds:
        few = "samples" if len(drawn) < folds else "reference"
        raise ArgumentError(
            few, f"there are {len(drawn)} samples and {len(known)} of the reference; give at least {folds}."
        )
    spread = known.std(axis=0, ddof=1)
    both = (np.concatenate([known, drawn]) - known.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    labels = np.repeat([0, 1], [len(known), len(drawn)])
    layers = (units * known.shape[1],) * 2
    network = MLPClassifier(layers, activation="relu", solver="adam", max_iter=1000, random_state=seed)
    split = KFold(folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of steps is part of the protocol
        return float(cross_val_score(network, both, labels, cv=split, scoring="accuracy").mean())


def mmd(samples: ArrayLike, reference: ArrayLike, kernel: Kernel | None = None) -> float:
    """Return the maximum mean discrepancy between two sets of samples: the norm ‖μ - ν‖, not its square.

    The kernel is by default Gaussian, with the median distance within the reference as its lengthscale. Two samples
    of n rows from one distribution are up to about √(2/n) apart, not zero.

    Parameters
    ----------
    samples : array_like of shape (n, d)
        Draws.
    reference : array_like of shape (m, d)
        Draws of the true posterior.
    kernel : Kernel, optional
        The kernel.

    Examples
    --------
    >>> mmd([[0.0], [1.0]], [[1.0], [0.0]])
    0.0
    """
    drawn, known = _two_samples(samples, reference)
    used = RBF(median_heuristic(known)) if kernel is None else kernel
    return MeanEmbedding(used, drawn).mmd(MeanEmbedding(used, known))


def total_variation(density: Density, truth: Density, grid: ArrayLike) -> float:
    """Return ½ ∫ |p - q| over a grid of one parameter, for densities given as functions or as values on the grid.

    0 means equal, 1 means that they do not overlap. Mass outside the grid does not count, so let it span both.

    Parameters
    ----------
    density : callable or array_like
        A density, as a function or as values (g,).
    truth : callable or array_like
        The other density, likewise.
    grid : array_like of shape (g,)
        Rising values of the parameter.

    Examples
    --------
    >>> grid = np.linspace(0.0, 3.0, 3001)
    >>> round(total_variation(lambda t: 1.0 * (t < 1.0), lambda t: 0.5 * (t < 2.0), grid), 2)
    0.5
    """
    at = np.asarray(grid, dtype=np.float64).ravel()
    if at.size < 2 or not (np.diff(at) > 0.0).all():
        raise ArgumentError("grid", "grid has to hold at least two numbers that rise from each to the next.")
    p, q = (_values(function, name, at) for function, name in ((density, "density"), (truth, "truth")))
    return float(0.5 * np.trapezoid(np.abs(p - q), at))


def _values(function: Density, name: str, grid: np.ndarray) -> np.ndarray:
    values = as_values(function(grid) if callable(function) else function, name, len(grid), "grid")
    if values.ndim != 1:
        raise ArgumentError(
            name, f"{name} has shape {values.shape}; give one value for each of the {len(grid)} grid points."
        )
    return values


def _two_samples(samples: ArrayLike, reference: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    drawn, known = as_rows(samples, "samples"), as_rows(reference, "reference")
    if drawn.shape[1] != known.shape[1]:
        raise ArgumentError(
            "samples",
            f"samples has {drawn.shape[1]} column(s) but reference has {known.shape[1]}; they have to be draws of "
            "the same parameters, in the same order.",
        )
    return drawn, known


def variation_of_draws(draws: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    """Return the total variation between two densities of one parameter, from draws of both.

    It is half the area between the densities, which is the same along any scale. Along the ranks of both sets of
    draws neither density exceeds two, however narrow or far apart their modes are, and the same small blur does for
    all. 10,000 draws of the exact posterior get about 0.015 against its quantiles.

    Parameters
    ----------
    draws : ndarray of shape (n,)
        Draws of one parameter.
    reference : ndarray of shape (m,)
        Draws of its true posterior.
    """
    both = [_even_quantiles(draws), _even_quantiles(reference)]
    first, second = (_blurred(np.mean([_share_below(points, at) for points in both], axis=0)) for at in both)
    return float(0.5 * np.mean(np.abs(first - second)))


def _even_quantiles(draws: np.ndarray, n: int = 4000) -> np.ndarray:
    """Return quantiles at n even levels, where each distinct draw is spread halfway to its neighbors."""
    values, counts = np.unique(draws, return_counts=True)
    between = 0.5 * (values[1:] + values[:-1])
    ends = values[[0, -1]]
    if len(values) > 1:
        ends = 2.0 * ends - between[[0, -1]]
    below = np.concatenate([[0.0], np.cumsum(counts)]) / len(draws)
    return np.interp((np.arange(n) + 0.5) / n, below, np.concatenate([ends[:1], between, ends[1:]]))


def _share_below(points: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return which share of sorted points is below each of some values; equal ones count half."""
    counts: np.ndarray = np.searchsorted(points, at, "left") + np.searchsorted(points, at, "right")
    return 0.5 * counts / len(points)


def _blurred(ranks: np.ndarray, bins: int = 400, width: float = 0.02) -> np.ndarray:
    """Return the density of ranks between 0 and 1, blurred by a Gaussian kernel with reflection at the ends."""
    counts = np.histogram(ranks, bins, (0.0, 1.0))[0] * (bins / len(ranks))
    density: np.ndarray = gaussian_filter1d(counts, width * bins, mode="reflect", truncate=6.0)
    return density
