"""Coverage: how often intervals and regions of a given level hold the truth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from decond.errors import ArgumentError
from decond.lfi.diagnostics.uniformity import UniformityTest

if TYPE_CHECKING:
    from decond.lfi.diagnostics.calibration import Calibration
    from decond.plotting import CoverageDisplay

__all__ = ["Coverage", "expected_coverage"]

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True, eq=False, repr=False)
class Coverage:
    """How often central intervals of each parameter, and regions of all together, hold the truth.

    >>> found = Coverage(np.array([0.5, 0.9]), {"rate": np.array([0.3, 0.6])}, {"rate": 1e-6}, n=200)
    >>> found.at(0.9), found.verdict
    ({'rate': 0.6}, 'over-confident')
    """

    levels: np.ndarray
    shares: dict[str, np.ndarray]
    """For each parameter, and `joint`, the share of trials inside, at each level."""
    p_values: dict[str, float]
    """Of the hypothesis that the shares equal the levels, at all levels at once."""
    n: int
    level: float = 0.01
    joint: str = ""
    """The name of the regions of all parameters together; empty for a single parameter."""

    @property
    def passed(self) -> bool:
        """Whether no curve leaves its band, with the chance of a false alarm below `level` over all curves."""
        return min(self.p_values.values()) >= self.level / len(self.p_values)

    @property
    def band(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Levels and the low and high ends that a calibrated method leaves anywhere with probability `level`."""
        test = UniformityTest(self.n)
        return (test.grid, *test.band(self.level))

    @property
    def verdict(self) -> str:
        """One of "fine", "over-confident", "under-confident", "not calibrated"."""
        if self.passed:
            return "fine"
        worst = min(self.p_values, key=lambda name: self.p_values[name])
        gap = float(np.mean(self.shares[worst] - self.levels))
        lasting = abs(gap) > 1.0 / np.sqrt(12.0 * self.n)
        return ("over-confident" if gap < 0.0 else "under-confident") if lasting else "not calibrated"

    def at(self, level: float) -> dict[str, float]:
        """Return for each parameter the share of trials whose interval of this level holds the truth."""
        return {name: float(np.interp(level, self.levels, shares)) for name, shares in self.shares.items()}

    def plot(self, ax: Any = None) -> "CoverageDisplay":
        """Draw the coverage curves with their band, in `ax` or a new figure, and return the display."""
        from decond.plotting import CoverageDisplay

        label = f"calibrated, {100.0 * (1.0 - self.level):g} %"
        display = CoverageDisplay(self.levels, self.shares, band=self.band, band_label=label, joint=self.joint)
        return display.plot(ax)

    def __repr__(self) -> str:
        """Show the verdict."""
        return f"Coverage({self.verdict}; {self.n} posteriors of {', '.join(self.shares)})"


def expected_coverage(calibration: "Calibration", levels: Sequence[float] = LEVELS) -> Coverage:
    """Return how often intervals and regions of given levels hold the truth, from the ranks of a calibration.

    The central interval of a level holds the truth if the rank is that close to the middle; the region of highest
    density, if not more than that share of the draws has a higher density. Methods without a density are judged by
    ellipsoids around the mean of the draws instead.

    >>> from decond.lfi.diagnostics import Calibration
    >>> ranks = np.arange(99)[:, None]  # of 99 truths, each among 98 draws
    >>> calibration = Calibration(("rate",), ranks, 98, np.zeros((99, 1)), np.arange(99))
    >>> found = expected_coverage(calibration, [0.5, 0.9])
    >>> found.shares["rate"].round(1), found.passed
    (array([0.5, 0.9]), True)
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
    test = UniformityTest(calibration.n)
    return Coverage(
        levels=at,
        shares={name: (values[:, None] <= at).mean(axis=0) for name, values in depth.items()},
        p_values={name: test.p_value(values) for name, values in depth.items()},
        n=calibration.n,
        level=calibration.level,
        joint=calibration.joint,
    )
