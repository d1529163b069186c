"""Numbers of the published figures: read off their vector graphics, or computed from their set-up without decond."""

from typing import NamedTuple

__all__ = ["PUBLISHED_BARS", "PUBLISHED_CURVES", "PUBLISHED_RECOVERY", "PUBLISHED_SECOND", "Published"]


class Published(NamedTuple):
    """Peak density and total variation distance to the truth, read off the published figure."""

    peak: float
    total_variation: float


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

PUBLISHED_CURVES = {
    "DME, evidence (global)": Published(0.98, 0.156),
    "DME, evidence (local)": Published(0.78, 0.144),
    "KELFI, evidence (global)": Published(0.67, 0.182),
    "KELFI, evidence (local)": Published(0.63, 0.202),
    "K-ABC": Published(0.47, 0.308),
    "KBR": Published(0.385, 0.374),
    "K2-ABC": Published(0.384, 0.397),
    "GPS-ABC": Published(0.58, 0.275),
}

PUBLISHED_SECOND = {"GPS-ABC": Published(0.50, 0.323)}
"""Of GPS-ABC the paper shows its best two results; this is the other one."""

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
