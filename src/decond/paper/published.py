"""Numbers read off the vector graphics of the published figures."""

from typing import NamedTuple

__all__ = ["PUBLISHED_BARS", "PUBLISHED_CURVES", "Published"]


class Published(NamedTuple):
    """Peak density and total variation distance to the truth, read off the published figure."""

    peak: float
    total_variation: float


PUBLISHED_CURVES = {
    "DME, evidence (global)": Published(0.98, 0.156),
    "DME, evidence (local)": Published(0.78, 0.144),
    "KELFI": Published(0.67, 0.182),
    "K-ABC": Published(0.47, 0.308),
    "KBR": Published(0.385, 0.374),
    "K2-ABC": Published(0.384, 0.397),
    "GPS-ABC": Published(0.58, 0.275),
}

PUBLISHED_BARS = {
    "REJ-ABC": (-4.932, -4.235),
    "MCMC-ABC": (-4.609, -3.967),
    "SMC-ABC": (-4.968, -4.262),
    "LFVI log": (-4.730, -4.070),
    "LFVI hinge": (-4.641, -4.116),
    "MDN": (-4.929, -4.369),
    "KBR": (-4.994, -4.133),
    "KELFI": (-4.904, -4.294),
    "DME": (-4.744, -4.313),
}
"""Published 95 % intervals of log θ₁."""
