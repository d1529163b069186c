"""Numbers of the published figures: read off their vector graphics, or computed from their set-up without decond."""

import csv
import functools
from importlib import resources
from typing import NamedTuple

__all__ = ["PUBLISHED_RECOVERY", "Reading", "published_bar", "published_curves", "readings", "uncertainty_of"]


class Reading(NamedTuple):
    """One number of the published Figure 5, with its uncertainty; `published_figure5.csv` says how it was read."""

    panel: str
    algorithm: str
    result: int
    quantity: str
    value: float
    uncertainty: float


@functools.cache
def readings() -> tuple[Reading, ...]:
    """Return all readings of Figure 5.

    >>> readings()[0]
    Reading(panel='left', algorithm='DME (Algorithm 8.1), global', result=1, quantity='peak', value=0.98, ...)
    """
    text = resources.files("decond.paper").joinpath("published_figure5.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return tuple(
        Reading(
            row["panel"],
            row["algorithm"],
            int(row["result"]),
            row["quantity"],
            float(row["value"]),
            float(row["uncertainty"]),
        )
        for row in rows
    )


def published_curves(algorithm: str, quantity: str) -> list[float]:
    """Return a quantity of the published densities of an algorithm: none, one, or two for GPS-ABC.

    >>> published_curves("GPS-ABC", "total_variation"), published_curves("residual likelihood", "peak")
    ([0.275, 0.323], [])
    """
    return [one.value for one in readings() if one[:2] == ("left", algorithm) and one.quantity == quantity]


def uncertainty_of(panel: str, algorithm: str, quantity: str, value: float) -> float:
    """Return the uncertainty of a reading.

    >>> uncertainty_of("right", "MDN", "low", -4.929)
    0.0005
    """
    found = (one for one in readings() if (one.panel, one.algorithm, one.quantity) == (panel, algorithm, quantity))
    return next(one.uncertainty for one in found if one.value == value)


def published_bar(algorithm: str) -> tuple[float, float] | None:
    """Return the published 95 % interval of log θ₁ of an algorithm, if there is one.

    >>> published_bar("MDN")
    (-4.929, -4.369)
    """
    found = {one.quantity: one.value for one in readings() if one[:2] == ("right", algorithm)}
    return (found["low"], found["high"]) if found else None


PUBLISHED_RECOVERY: dict[str, dict[str, float]] = {
    "learned": {
        "rmse": 0.168,
        "coverage_2sd": 0.976,
        "negative_log_evidence": 105.7277,
        "lengthscale_x": 1.0374,
        "lengthscale_y": 0.3522,
        "noise": 0.4014,
    },
    "initial": {"rmse": 0.518, "negative_log_evidence": 1548.0822},
    "learned, MAP mediator": {"rmse": 0.137},
    "impute": {"rmse": 0.836},
    "cascade": {"rmse": 1.191},
}
"""Figure 3 prints no numbers; these are of its data and models, computed in plain NumPy."""
