"""Calibration: over simulations whose parameters are known, is the truth as often inside as the posterior says?"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from decond.lfi.diagnostics.coverage import Coverage, expected_coverage
from decond.lfi.diagnostics.trials import Plan, Progress, run_trials, whole_seed
from decond.lfi.diagnostics.uniformity import UniformityTest, chi_square, rank_counts
from decond.lfi.diagnostics.words import listed, p_value, percent, times
from decond.lfi.methods.base import Method
from decond.lfi.prior import Prior
from decond.lfi.simulations import Simulations
from decond.notebook import card, sentences, table

if TYPE_CHECKING:
    import pandas as pd

    from decond.plotting import RanksDisplay

__all__ = ["Calibration", "simulation_based_calibration"]

DENSITY, ELLIPSOID = "highest density", "ellipsoids"
"""Regions of all parameters together stand beside the single parameters under one of these names."""

CLEAR = 3.0
"""Standard errors that a bias or a wrong width must exceed to be named."""

FEWEST = 20
"""Trials below which nothing is said."""


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """Ranks of true parameters among posterior draws; uniform if the posteriors are right on average.

    `passed` says whether all ranks pass the test of Säilynoja et al. (2022) with the chance of a false alarm below
    `level` over all of them. `bias` and `spread` say how they fail, in normal scores of the ranks: a bias of 0.5
    means that the truth lies above the posterior's middle by half of its standard deviation on average; a spread of
    1.5, that errors are half as large again as the posterior says.

    >>> ranks = np.arange(99)[:, None]  # of 99 truths, each among 98 draws
    >>> even = Calibration(("rate",), ranks, 98, np.zeros((99, 1)), np.arange(99))
    >>> low = Calibration(("rate",), ranks // 2, 98, np.zeros((99, 1)), np.arange(99))
    >>> even.verdict, low.verdict, round(low.bias["rate"], 1)
    ('fine', 'biased', -0.8)
    """

    names: tuple[str, ...]
    ranks: np.ndarray
    """(n, d), each from 0 to `n_draws`."""
    n_draws: int
    scores: np.ndarray
    """(n, d) continuous ranked probability scores in working coordinates; small is good."""
    rows: np.ndarray
    """(n,) which test simulations were judged."""
    joint_ranks: np.ndarray | None = None
    """(n,) ranks of the truth's posterior density, or of its nearness to the middle; None for a single parameter."""
    joint: str = ""
    """"highest density" or, for methods without a density, "ellipsoids"."""
    planned: int | None = None
    level: float = 0.01
    seed: int = 0

    @property
    def n(self) -> int:
        """The number of posteriors that were judged."""
        return len(self.ranks)

    @cached_property
    def uniforms(self) -> dict[str, np.ndarray]:
        """For each parameter, and all together, ranks as numbers in [0, 1): uniform if calibrated."""
        columns = dict(zip(self.names, self.ranks.T, strict=True))
        if self.joint_ranks is not None:
            columns[self.joint] = self.joint_ranks
        rng = np.random.default_rng(self.seed)
        return {name: (ranks + rng.random(self.n)) / (self.n_draws + 1.0) for name, ranks in columns.items()}

    @cached_property
    def p_values(self) -> dict[str, float]:
        """Of the hypothesis that the ranks are uniform."""
        test = UniformityTest(self.n)
        return {name: test.p_value(values) for name, values in self.uniforms.items()}

    @property
    def chi_square(self) -> dict[str, float]:
        """The p-value of the chi-square test on about ten ranks a bin, for each parameter."""
        return {name: chi_square(ranks, self.n_draws) for name, ranks in zip(self.names, self.ranks.T, strict=True)}

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
        return {name: float(scores.mean()) for name, scores in self._normal_scores().items()}

    @property
    def spread(self) -> dict[str, float]:
        """How many times larger errors are than the posterior says."""
        return {name: float(scores.std()) for name, scores in self._normal_scores().items()}

    @cached_property
    def coverage(self) -> Coverage:
        """Coverage of central intervals, and of regions of all parameters, at levels from 0.1 to 0.95."""
        return expected_coverage(self)

    @property
    def worst_region(self) -> tuple[float, float]:
        """The level of the regions of all parameters that are off most, and the share of truths inside these.

        Where regions are too small or too large on the whole, only levels at which they are so count.
        """
        gaps = self.coverage.shares[self.joint] - self.coverage.levels
        off = {"over-confident": -gaps, "under-confident": gaps}.get(self._words(self.joint)[0], np.abs(gaps))
        worst = int(np.argmax(off))
        return float(self.coverage.levels[worst]), float(self.coverage.shares[self.joint][worst])

    @property
    def findings(self) -> list[str]:
        """Everything that is wrong, in the words of `verdict`."""
        if self.n < FEWEST:
            return ["too few trials"]
        telling = [name for name in self.failing if name != self.joint] or self.failing
        return list(dict.fromkeys(word for name in telling for word in self._words(name)))

    @property
    def verdict(self) -> str:
        """Either "fine", or what is wrong: "over-confident", "under-confident", "biased", "not calibrated"."""
        return ", ".join(self.findings) or "fine"

    @property
    def sentences(self) -> list[str]:
        """The numbers behind the verdict."""
        if self.n < FEWEST:
            return [f"Only {self.n} posteriors were judged; at least {FEWEST} are needed to say anything."]
        inside = self.coverage.at(0.9)
        shares = times([100.0 * inside[name] for name in self.names])
        said = [f"Of {self.n} simulated truths, 90 % intervals hold {shares} %."]
        if self.planned is not None and self.n < self.planned:
            said.append(f"Time allowed {self.n} of {self.planned} planned posteriors.")
        said += self._failures()
        if self.passed:
            worst = min(self.p_values.values())
            said.append(f"Ranks are uniform as far as can be told (smallest {p_value(worst)}).")
        return said

    def __repr__(self) -> str:
        """Show the verdict."""
        return f"Calibration({self.verdict}; {self.n} posteriors of {', '.join(self.names)})"

    def _repr_html_(self) -> str:
        """Show the verdict, its sentences and the numbers of each parameter, for notebooks."""
        frame = self.frame()
        rows = [[name, *values] for name, values in zip(frame.index, frame.to_numpy(), strict=True)]
        numbers = table(["", *frame.columns], rows)
        return card("Calibration:", self.verdict, sentences(self.sentences), numbers)

    def frame(self) -> "pd.DataFrame":
        """Return p-values, bias, spread and the coverage of 90 % intervals as a pandas frame, a row a parameter."""
        import pandas as pd

        columns = {"p": self.p_values, "chi-square p": self.chi_square, "bias": self.bias, "spread": self.spread}
        table = pd.DataFrame({**columns, "inside 90 %": self.coverage.at(0.9)})
        return table.reindex(list(self.p_values))

    def plot(self, ax: Any = None) -> "RanksDisplay":
        """Draw the rank histograms, with the band that uniform ranks keep to, and return the display.

        `ax` is one of your axes or one for each parameter; without it a new figure is made.
        """
        from decond.plotting import RanksDisplay

        found = {name: rank_counts(ranks, self.n_draws) for name, ranks in zip(self.names, self.ranks.T, strict=True)}
        counts, shares = ({name: pair[k] for name, pair in found.items()} for k in (0, 1))
        notes = {name: p_value(self.p_values[name]) for name in self.names}
        return RanksDisplay(counts, shares, notes=notes, wrong=self.failing).plot(ax)

    def _normal_scores(self) -> dict[str, np.ndarray]:
        from scipy.special import ndtri

        middle = (self.ranks + 0.5) / (self.n_draws + 1.0)
        return dict(zip(self.names, ndtri(middle).T, strict=True))

    def _words(self, name: str) -> list[str]:
        if name == self.joint:
            gap = (self.uniforms[name].mean() - 0.5) * np.sqrt(12.0 * self.n)
            return ["over-confident" if gap < 0.0 else "under-confident"] if abs(gap) > CLEAR else ["not calibrated"]
        bias, spread = self.bias[name], self.spread[name]
        biased = abs(bias) * np.sqrt(self.n) > CLEAR * spread
        width = np.log(spread) * np.sqrt(2.0 * self.n)
        words = ["biased"] if biased else []
        if width > CLEAR:
            words.append("over-confident")
        elif width < -CLEAR and not biased:
            words.append("under-confident")
        return words or ["not calibrated"]

    def _failures(self) -> list[str]:
        """Return a sentence for each way of failing, with the parameters that fail so."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for name in self.failing:
            groups.setdefault((name,) if name == self.joint else tuple(self._words(name)), []).append(name)
        return [
            self._joint_sentence() if words == (self.joint,) else self._sentence(words, names)
            for words, names in groups.items()
        ]

    def _sentence(self, words: tuple[str, ...], names: list[str]) -> str:
        off = times([abs(self.bias[name]) for name in names])
        sides = {"low" if self.bias[name] > 0.0 else "high" for name in names}
        factor = times([self.spread[name] for name in names])
        meaning = {
            "biased": f"too {' or '.join(sorted(sides))}, by {off} standard deviations",
            "over-confident": f"too narrow, errors being {factor} times what is said",
            "under-confident": f"too wide, errors being {factor} times what is said",
            "not calibrated": "of the wrong shape, its ranks not being uniform",
        }
        worst = p_value(max(self.p_values[name] for name in names))
        return f"The posterior of {listed(names)} is {', and '.join(meaning[word] for word in words)} ({worst})."

    def _joint_sentence(self) -> str:
        """Return a sentence with the level at which the regions are off most, in the direction that it names."""
        sizes = {
            "over-confident": "too small",
            "under-confident": "too large",
            "not calibrated": "of the wrong size",
        }
        size, (level, inside) = sizes[self._words(self.joint)[0]], self.worst_region
        kind = "Regions of highest density" if self.joint == DENSITY else "Ellipsoids of all parameters"
        p = p_value(self.p_values[self.joint])
        return f"{kind} are {size}: those of {percent(level)} hold {percent(inside)} ({p})."


def simulation_based_calibration(
    method: Method,
    sims: Simulations,
    prior: Prior,
    n: int = 200,
    *,
    seed: Any = 0,
    n_draws: int = 999,
    folds: int = 5,
    test: Simulations | None = None,
    level: float = 0.01,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Return the ranks of true parameters among draws of their posteriors (Talts et al. 2018).

    Parameters from the prior, data simulated at them, and draws of the posterior given these data: if the posterior
    is right, truth and draws are alike, and the rank of the truth is uniform. The check is on average over the prior;
    it says whether stated uncertainties are right, not whether they are as small as they could be.

    Without `test`, n of the valid simulations are judged, in folds: the method is fitted anew for each fold without
    the rows of that fold, so that nothing is judged on what it was fitted on. This needs simulations from the prior;
    where they come from rounds, give `test`, simulations at fresh draws of the prior. Failed simulations are
    conditioned away on both sides: only valid ones are judged, and the posteriors carry P(valid | θ).

    It stops after `seconds`, with the trials done by then. `progress` is called with the numbers done and planned.

    >>> from scipy import stats
    >>> from decond.lfi import RejectionABC
    >>> prior = Prior({"mean": stats.norm(0, 1)})
    >>> theta = prior.sample(600, seed=0)
    >>> sims = Simulations(theta, theta + np.random.default_rng(1).standard_normal(theta.shape))
    >>> method = RejectionABC(quantile=0.2, adjustment="linear")
    >>> simulation_based_calibration(method, sims, prior, n=40, n_draws=99, folds=2).verdict
    'fine'
    """
    plan = Plan(n, n_draws, folds, test, seconds=seconds, seed=whole_seed(seed))
    trials = run_trials(method, sims, prior, plan, progress)
    source = sims if test is None else test
    return Calibration(
        names=prior.names,
        ranks=np.array([trial.ranks for trial in trials]),
        n_draws=n_draws,
        joint_ranks=np.array([trial.joint_rank for trial in trials]) if prior.dim > 1 else None,
        joint="" if prior.dim == 1 else DENSITY if all(trial.by_density for trial in trials) else ELLIPSOID,
        scores=np.array([trial.score for trial in trials]),
        rows=np.array([trial.row for trial in trials]),
        planned=min(n, source.n_valid),
        level=level,
        seed=plan.seed,
    )
