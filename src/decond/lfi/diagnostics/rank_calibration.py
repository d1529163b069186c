"""Simulation-based calibration: over simulations whose parameters are known, are posteriors right on average?"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from decond.errors import ArgumentError
from decond.lfi.diagnostics.trials import Progress, TrialPlan, run_trials, whole_seed
from decond.lfi.methods.method import Method
from decond.lfi.posterior_draws import Seed
from decond.lfi.prior import Prior
from decond.lfi.simulations import Simulations

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from decond.plotting import CoverageDisplay, RanksDisplay

__all__ = [
    "Calibration",
    "Coverage",
    "UniformityTest",
    "expected_coverage",
    "rank_counts",
    "simulation_based_calibration",
]


class UniformityTest:
    """The test of Säilynoja, Bürkner & Vehtari (2022) for n numbers in [0, 1).

    At each grid point the count of numbers below it is binomial; the statistic is the smallest two-sided tail
    probability over the grid, and its distribution is simulated. It is as sensitive in the tails as in the middle.

    References
    ----------
    T. Säilynoja, P.-C. Bürkner and A. Vehtari, Graphical test for discrete uniformity, Statistics and Computing 32,
    2022. https://doi.org/10.1007/s11222-022-10090-6

    Examples
    --------
    >>> test = UniformityTest(200)
    >>> test.p_value((np.arange(200) + 0.5) / 200) > 0.9, test.p_value(np.full(200, 0.5)) < 0.001
    (True, True)
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.grid = np.arange(1, 100) / 100.0
        self._tails, self._by_chance = _smallest_tails(n)

    def p_value(self, values: NDArray[np.float64]) -> float:
        """Return the p-value of the hypothesis that the values are uniform."""
        counts = np.searchsorted(np.sort(values), self.grid)
        statistic = float(self._tails[counts, np.arange(len(self.grid))].min())
        smaller = int(np.count_nonzero(self._by_chance <= statistic))
        return (1.0 + smaller) / (1.0 + len(self._by_chance))

    def band(self, level: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return low and high ends, at the grid, that uniform values leave anywhere with probability `level`."""
        from scipy.stats import binom

        tail = np.quantile(self._by_chance, level) / 2.0
        return binom.ppf(tail, self.n, self.grid) / self.n, binom.ppf(1.0 - tail, self.n, self.grid) / self.n


@lru_cache(maxsize=16)
def _smallest_tails(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two-sided tail probabilities of each count at each grid point, and simulated minima of them."""
    from scipy.stats import binom

    cells = 100
    counts, grid = np.arange(n + 1)[:, None], np.arange(1, cells) / cells
    tails = 2.0 * np.minimum(binom.cdf(counts, n, grid), binom.sf(counts - 1, n, grid))
    drawn = np.random.default_rng(n).multinomial(n, np.full(cells, 1.0 / cells), size=10_000)
    below = drawn.cumsum(axis=1)[:, :-1]
    return tails, tails[below, np.arange(cells - 1)].min(axis=1)


def rank_counts(ranks: NDArray[np.int_], n_draws: int) -> tuple[NDArray[np.int_], NDArray[np.float64]]:
    """Return how many ranks fall in each bin, and the probability of each bin; about ten ranks a bin, at most 20.

    Parameters
    ----------
    ranks : ndarray of int of shape (n,)
        Ranks from 0 to `n_draws`.
    n_draws : int
        Draws among which the truths are ranked.
    """
    bins = int(np.clip(len(ranks) // 10, 2, min(20, n_draws + 1)))
    edges = np.round(np.linspace(0, n_draws + 1, bins + 1)).astype(int)
    counts = np.histogram(ranks, bins=edges - 0.5)[0]
    return counts, np.diff(edges) / (n_draws + 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class Coverage:
    """How often central intervals of each parameter, and regions of all together, hold the truth.

    Attributes
    ----------
    levels : ndarray
        The levels of the intervals and regions.
    shares : dict
        For each parameter, and `joint`, the share of trials inside, at each level.
    n : int
        Trials.
    level : float
        Probability of a false alarm over all curves.
    joint : str
        The name of the regions of all parameters together; empty for a single parameter.

    Examples
    --------
    >>> found = Coverage(np.array([0.5, 0.9]), {"rate": np.array([0.3, 0.6])}, n=200)
    >>> found.at(0.9)
    {'rate': 0.6}
    """

    levels: NDArray[np.float64]
    shares: dict[str, NDArray[np.float64]]
    n: int
    level: float = 0.01
    joint: str = ""

    @property
    def band(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Levels and the low and high ends that a calibrated method leaves anywhere with probability `level`."""
        test = UniformityTest(self.n)
        return (test.grid, *test.band(self.level))

    def at(self, level: float) -> dict[str, float]:
        """Return for each parameter the share of trials whose interval of this level holds the truth."""
        return {name: float(np.interp(level, self.levels, shares)) for name, shares in self.shares.items()}

    def plot(self, ax: "Axes | None" = None) -> "CoverageDisplay":
        """Draw the coverage curves with their band, in `ax` or a new figure, and return the display."""
        from decond.plotting import CoverageDisplay

        label = f"calibrated, {100.0 * (1.0 - self.level):g} %"
        display = CoverageDisplay(self.levels, self.shares, band=self.band, band_label=label, joint=self.joint)
        return display.plot(ax)

    def __repr__(self) -> str:
        """Show the parameters."""
        return f"Coverage({self.n} posteriors of {', '.join(self.shares)})"


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """Ranks of true parameters among posterior draws; uniform if the posteriors are right on average.

    Attributes
    ----------
    names : tuple
        The parameters.
    ranks : ndarray of int of shape (n, d)
        Ranks, each from 0 to `n_draws`.
    n_draws : int
        Draws among which each truth is ranked.
    scores : ndarray of shape (n, d)
        Continuous ranked probability scores in working coordinates; small is good.
    rows : ndarray of int of shape (n,)
        Which test simulations were used.
    joint_ranks : ndarray of int of shape (n,), optional
        Ranks of the truth's posterior density, or of its nearness to the middle; None for a single parameter.
    joint : str
        "highest density" or, for methods without a density, "ellipsoids".
    planned : int, optional
        Trials that were planned.
    level : float
        Probability of a false alarm over all ranks.
    seed : int
        Breaks ties of the uniform numbers.

    Examples
    --------
    >>> ranks = np.arange(99)[:, None]  # of 99 truths, each among 98 draws
    >>> even = Calibration(("rate",), ranks, 98, np.zeros((99, 1)), np.arange(99))
    >>> low = Calibration(("rate",), ranks // 2, 98, np.zeros((99, 1)), np.arange(99))
    >>> even.verdict, low.verdict, round(low.bias["rate"], 1)
    ('fine', 'biased', -0.8)
    """

    names: tuple[str, ...]
    ranks: NDArray[np.int_]
    n_draws: int
    scores: NDArray[np.float64]
    rows: NDArray[np.int_]
    joint_ranks: NDArray[np.int_] | None = None
    joint: str = ""
    planned: int | None = None
    level: float = 0.01
    seed: int = 0

    @property
    def n(self) -> int:
        """The number of trials."""
        return len(self.ranks)

    @property
    def enough(self) -> bool:
        """Whether there are enough trials for a verdict: 20."""
        return self.n >= 20

    @cached_property
    def uniforms(self) -> dict[str, NDArray[np.float64]]:
        """For each parameter, and all together, ranks as numbers in [0, 1): uniform if calibrated."""
        columns = dict(zip(self.names, self.ranks.T, strict=True))
        if self.joint_ranks is not None:
            columns[self.joint] = self.joint_ranks
        rng = np.random.default_rng(self.seed)
        return {name: (ranks + rng.random(self.n)) / (self.n_draws + 1.0) for name, ranks in columns.items()}

    @cached_property
    def p_values(self) -> dict[str, float]:
        """Of the hypothesis that the ranks are uniform (Säilynoja et al. 2022)."""
        test = UniformityTest(self.n)
        return {name: test.p_value(values) for name, values in self.uniforms.items()}

    @property
    def failing(self) -> list[str]:
        """The parameters, or regions of all together, whose ranks are not uniform."""
        return [name for name, p in self.p_values.items() if p < self.level / len(self.p_values)]

    @property
    def passed(self) -> bool:
        """Whether all ranks may be uniform."""
        return not self.failing

    @property
    def bias(self) -> dict[str, float]:
        """How far the truth lies above the middle of the posterior, in its standard deviations, on average."""
        return dict(zip(self.names, self._normal_scores.mean(axis=0).tolist(), strict=True))

    @property
    def spread(self) -> dict[str, float]:
        """By what factor errors are larger than the posterior says."""
        return dict(zip(self.names, self._normal_scores.std(axis=0).tolist(), strict=True))

    @cached_property
    def coverage(self) -> Coverage:
        """Coverage of central intervals, and of regions of all parameters, at levels from 0.1 to 0.95."""
        return expected_coverage(self)

    @property
    def findings(self) -> list[str]:
        """Everything that is wrong, in the words of `verdict`."""
        if not self.enough:
            return ["too few trials"]
        clear = [name for name in self.failing if name != self.joint] or self.failing
        return list(dict.fromkeys(word for name in clear for word in self._words(name)))

    @property
    def verdict(self) -> str:
        """Either "fine", or what is wrong: "over-confident", "under-confident", "biased", "not calibrated"."""
        return ", ".join(self.findings) or "fine"

    @property
    def sentences(self) -> list[str]:
        """The numbers behind the verdict."""
        if not self.enough:
            return [f"Only {self.n} posteriors were checked; at least 20 are needed for a verdict."]
        inside = self.coverage.at(0.9)
        shares = ", ".join(f"{100.0 * inside[name]:.0f}" for name in self.names)
        lines = [f"Of {self.n} simulated truths, 90 % intervals hold {shares} %."]
        if self.planned is not None and self.n < self.planned:
            lines.append(f"Time allowed {self.n} of {self.planned} planned posteriors.")
        for name in self.failing:
            words, value = " and ".join(self._words(name)), self.p_values[name]
            p = "p < 0.001" if value < 0.001 else f"p = {value:.2g}"
            if name == self.joint:
                levels, shares_held = self.coverage.levels, self.coverage.shares[name]
                worst = int(np.argmax(np.abs(shares_held - levels)))
                lines.append(
                    f"Regions of all parameters ({name}) are {words}: those of {100.0 * levels[worst]:.0f} % hold "
                    f"{100.0 * shares_held[worst]:.0f} % ({p})."
                )
                continue
            side = "low" if self.bias[name] > 0.0 else "high"
            lines.append(
                f"The posterior of {name} is {words}: too {side} by {abs(self.bias[name]):.2g} standard deviations, "
                f"errors {self.spread[name]:.2g} times as large as it says ({p})."
            )
        if self.passed:
            lines.append(
                f"Ranks are uniform as far as the test can see (smallest p = {min(self.p_values.values()):.2g})."
            )
        return lines

    def __repr__(self) -> str:
        """Show the verdict."""
        return f"Calibration({self.verdict}; {self.n} posteriors of {', '.join(self.names)})"

    def frame(self) -> "pd.DataFrame":
        """Return p-values, bias, spread and the coverage of 90 % intervals as a pandas frame, a row a parameter."""
        import pandas as pd

        columns = {"p": self.p_values, "bias": self.bias, "spread": self.spread}
        table = pd.DataFrame({**columns, "inside 90 %": self.coverage.at(0.9)})
        return table.reindex(list(self.p_values))

    def plot(self, ax: "Axes | NDArray[np.object_] | None" = None) -> "RanksDisplay":
        """Draw the rank histograms, with the band that uniform ranks keep to, and return the display.

        `ax` is one of your axes or one for each parameter; without it a new figure is made.
        """
        from decond.plotting import RanksDisplay

        found = {name: rank_counts(ranks, self.n_draws) for name, ranks in zip(self.names, self.ranks.T, strict=True)}
        counts, shares = ({name: pair[k] for name, pair in found.items()} for k in (0, 1))
        notes = {name: f"p = {self.p_values[name]:.2g}" for name in self.names}
        return RanksDisplay(counts, shares, notes=notes, wrong=self.failing).plot(ax)

    @cached_property
    def _normal_scores(self) -> np.ndarray:
        return ndtri((self.ranks + 0.5) / (self.n_draws + 1.0))

    def _words(self, name: str) -> list[str]:
        """Return what is wrong: a bias or a width is named if it is off by three standard errors."""
        if name == self.joint:
            gap = (self.uniforms[name].mean() - 0.5) * np.sqrt(12.0 * self.n)
            return ["over-confident" if gap < 0.0 else "under-confident"] if abs(gap) > 3.0 else ["not calibrated"]
        bias, spread = self.bias[name], self.spread[name]
        biased = abs(bias) * np.sqrt(self.n) > 3.0 * spread
        width = np.log(spread) * np.sqrt(2.0 * self.n)
        words = ["biased"] if biased else []
        if width > 3.0:
            words.append("over-confident")
        elif width < -3.0 and not biased:
            words.append("under-confident")
        return words or ["not calibrated"]


def simulation_based_calibration(
    method: Method,
    sims: Simulations,
    prior: Prior,
    n: int = 200,
    *,
    seed: Seed = 0,
    n_draws: int = 999,
    folds: int = 5,
    test: Simulations | None = None,
    level: float = 0.01,
    seconds: float | None = None,
    progress: Progress | None = None,
    n_jobs: int | None = None,
) -> Calibration:
    """Return the ranks of true parameters among draws of their posteriors.

    Parameters from the prior, data simulated at them, and draws of the posterior given these data: if the posterior
    is right, truth and draws are alike, and the rank of the truth is uniform. The check is on average over the prior;
    it says whether stated uncertainties are right, not whether they are as small as they could be. Failed simulations
    are conditioned away on both sides: only valid ones are used, and the posteriors carry P(valid | θ).

    Parameters
    ----------
    method : Method
        The method.
    sims : Simulations
        Simulations at draws of the prior; without `test`, n of them are held out in folds, and the method is
        fitted anew for each fold without its rows.
    prior : Prior
        The prior of the parameters.
    n : int, optional
        Posteriors.
    seed : int, Generator or None, optional
        Seed of folds and draws.
    n_draws : int, optional
        Draws of each posterior.
    folds : int, optional
        Fits, without `test`.
    test : Simulations, optional
        Simulations at fresh draws of the prior. They are needed where `sims` come from rounds.
    level : float, optional
        Probability of a false alarm.
    seconds : float, optional
        Time after which it stops, with the trials done by then.
    progress : callable, optional
        Called with the numbers done and planned.
    n_jobs : int, optional
        Processes, as in `lfi.simulate`; they change nothing but the time.

    References
    ----------
    S. Talts et al., Validating Bayesian inference algorithms with simulation-based calibration, 2018.
    https://doi.org/10.48550/arXiv.1804.06788

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi import RejectionABC
    >>> prior = Prior({"mean": stats.norm(0, 1)})
    >>> theta = prior.sample(600, seed=0)
    >>> sims = Simulations(theta, theta + np.random.default_rng(1).standard_normal(theta.shape))
    >>> method = RejectionABC(quantile=0.2, adjustment="linear")
    >>> simulation_based_calibration(method, sims, prior, n=40, n_draws=99, folds=2).verdict
    'fine'
    """
    plan = TrialPlan(n, n_draws, folds, test, seconds=seconds, seed=whole_seed(seed), n_jobs=n_jobs)
    trials = run_trials(method, sims, prior, plan, progress)
    source = sims if test is None else test
    regions = "highest density" if all(trial.by_density for trial in trials) else "ellipsoids"
    return Calibration(
        names=prior.names,
        ranks=np.array([trial.ranks for trial in trials]),
        n_draws=n_draws,
        joint_ranks=np.array([trial.joint_rank for trial in trials]) if prior.dim > 1 else None,
        joint=regions if prior.dim > 1 else "",
        scores=np.array([trial.score for trial in trials]),
        rows=np.array([trial.row for trial in trials]),
        planned=min(n, source.n_valid),
        level=level,
        seed=plan.seed,
    )


def expected_coverage(
    calibration: Calibration, levels: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
) -> Coverage:
    """Return how often intervals and regions of given levels hold the truth, from the ranks of a calibration.

    The central interval of a level holds the truth if the rank is that close to the middle; the region of highest
    density, if not more than that share of the draws has a higher density. For methods without a density there are
    ellipsoids around the mean of the draws instead.

    Parameters
    ----------
    calibration : Calibration
        The ranks.
    levels : sequence of float, optional
        Rising numbers between 0 and 1.

    Examples
    --------
    >>> from decond.lfi.diagnostics import Calibration
    >>> ranks = np.arange(99)[:, None]  # of 99 truths, each among 98 draws
    >>> calibration = Calibration(("rate",), ranks, 98, np.zeros((99, 1)), np.arange(99))
    >>> found = expected_coverage(calibration, [0.5, 0.9])
    >>> found.shares["rate"].round(1)
    array([0.5, 0.9])
    """
    at = np.asarray(levels, dtype=np.float64).ravel()
    if at.size == 0 or not ((at > 0.0) & (at < 1.0)).all() or not (np.diff(at) > 0.0).all():
        raise ArgumentError(
            "levels", f"levels is {levels!r}; give rising numbers between 0 and 1, such as [0.5, 0.9, 0.95]."
        )
    depth = {
        name: 1.0 - values if name == calibration.joint else np.abs(2.0 * values - 1.0)
        for name, values in calibration.uniforms.items()
    }
    return Coverage(
        levels=at,
        shares={name: (values[:, None] <= at).mean(axis=0) for name, values in depth.items()},
        n=calibration.n,
        level=calibration.level,
        joint=calibration.joint,
    )
