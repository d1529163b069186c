"""How far data are from the observation."""

from typing import Any

import numpy as np

from decond.checks import as_number, check_choice
from decond.errors import ArgumentError
from decond.lfi.methods.base import Method

__all__ = ["SCALES", "DistanceMethod", "check_tolerances"]

SCALES = ("observation", "spread", "none")


class DistanceMethod(Method):
    """A method that compares simulations with the observation by a scaled Euclidean distance.

    `scale` is the unit in which each summary is measured. "observation" is its median distance from the observation
    over the simulations: every summary then counts alike, also where simulations crowd in one place and the
    observation is elsewhere. "spread" is its robust spread over the simulations. "none" takes the data's own units.
    """

    scale: str

    def _check_scale(self) -> None:
        check_choice(self.scale, "scale", SCALES)

    def _set_unit(self, observed: np.ndarray) -> None:
        """Fix the unit of each standardized summary."""
        self._observed = observed
        self._unit = np.ones(self.x_.shape[1])
        if self.scale == "observation":
            gaps = np.abs(self.x_ - observed)
            middle, mean = np.median(gaps, axis=0), gaps.mean(axis=0)
            self._unit = np.where(middle > 0.0, middle, np.where(mean > 0.0, mean, 1.0))
        elif self.scale == "none" and self._learned is None:
            self._unit = 1.0 / (self._scale.scale * self._summary_scale.scale)

    def _distance(self, x: np.ndarray) -> np.ndarray:
        """Return the distance of rows of summaries from the observation; infinite where the simulation failed."""
        distance = np.sqrt((((x - self._observed) / self._unit) ** 2).sum(axis=1))
        return np.where(np.isnan(distance), np.inf, distance)

    def _summaries(self, data: np.ndarray) -> np.ndarray:
        """Return the standardized summaries of rows of data; NaN where the simulation failed."""
        valid = np.isfinite(data).all(axis=1)
        return self._spread_out(self._summarize(data[valid]) if valid.any() else self.x_[:0], valid)

    def _pilot_summaries(self) -> np.ndarray:
        """Return the standardized summaries of all pilot simulations; NaN where one failed."""
        return self._spread_out(self.x_, self.sims_.valid)

    def _spread_out(self, x: np.ndarray, valid: np.ndarray) -> np.ndarray:
        rows = np.full((len(valid), self.x_.shape[1]), np.nan)
        rows[valid] = x
        return rows


def check_tolerances(quantile: Any, tolerance: Any) -> None:
    """Raise unless `quantile` is a share above 0 and up to 1, and `tolerance` is positive or None."""
    if not 0.0 < as_number(quantile, "quantile") <= 1.0:
        raise ArgumentError(
            "quantile", f"quantile is {quantile!r}; give the share of simulations to keep, for example 0.05."
        )
    if tolerance is not None:
        as_number(tolerance, "tolerance", minimum=0.0, strict=True)
