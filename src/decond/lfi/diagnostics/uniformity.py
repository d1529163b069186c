"""Are ranks uniform? A test with a simultaneous band for their distribution function, and the chi-square test."""

from functools import lru_cache

import numpy as np

__all__ = ["UniformityTest", "chi_square", "rank_counts"]

GRID = 99
"""Points at which a distribution function is compared with that of the uniform."""

SIMULATED = 10_000
"""Uniform samples that tell how far a distribution function strays by chance."""


class UniformityTest:
    """The test of Säilynoja, Bürkner & Vehtari (2022) for n numbers in [0, 1).

    At each grid point the count of numbers below it is binomial; the statistic is the smallest two-sided tail
    probability over the grid, and its distribution is simulated. It is as sensitive in the tails as in the middle.

    >>> test = UniformityTest(200)
    >>> test.p_value((np.arange(200) + 0.5) / 200) > 0.9, test.p_value(np.full(200, 0.5)) < 0.001
    (True, True)
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.grid = np.arange(1, GRID + 1) / (GRID + 1.0)
        self._tails, self._by_chance = _null(n)

    def p_value(self, values: np.ndarray) -> float:
        """Return the p-value of the hypothesis that the values are uniform."""
        smaller = int(np.count_nonzero(self._by_chance <= self._statistic(values)))
        return (1.0 + smaller) / (1.0 + SIMULATED)

    def band(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Return low and high ends, at the grid, that uniform values leave anywhere with probability `level`."""
        from scipy.stats import binom

        tail = np.quantile(self._by_chance, level) / 2.0
        return binom.ppf(tail, self.n, self.grid) / self.n, binom.ppf(1.0 - tail, self.n, self.grid) / self.n

    def _statistic(self, values: np.ndarray) -> float:
        counts = np.searchsorted(np.sort(values), self.grid)
        return float(self._tails[counts, np.arange(GRID)].min())


@lru_cache(maxsize=16)
def _null(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two-sided tail probabilities of each count at each grid point, and simulated minima of them."""
    from scipy.stats import binom

    counts, grid = np.arange(n + 1)[:, None], np.arange(1, GRID + 1) / (GRID + 1.0)
    tails = 2.0 * np.minimum(binom.cdf(counts, n, grid), binom.sf(counts - 1, n, grid))
    rng = np.random.default_rng(n)
    cells = rng.multinomial(n, np.full(GRID + 1, 1.0 / (GRID + 1)), size=SIMULATED)
    below = cells.cumsum(axis=1)[:, :-1]
    return tails, tails[below, np.arange(GRID)].min(axis=1)


def rank_counts(ranks: np.ndarray, n_draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how many ranks fall in each bin, and the probability of each bin; about ten ranks a bin, at most 20."""
    bins = int(np.clip(len(ranks) // 10, 2, min(20, n_draws + 1)))
    edges = np.round(np.linspace(0, n_draws + 1, bins + 1)).astype(int)
    counts = np.histogram(ranks, bins=edges - 0.5)[0]
    return counts, np.diff(edges) / (n_draws + 1.0)


def chi_square(ranks: np.ndarray, n_draws: int) -> float:
    """Return the p-value of the chi-square test on binned ranks."""
    from scipy.stats import chisquare

    counts, shares = rank_counts(ranks, n_draws)
    return float(chisquare(counts, shares * len(ranks)).pvalue)
