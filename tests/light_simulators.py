"""Simulators for calls with a limit on time: the process of such a call imports this file, which needs NumPy alone.

A process begins with each run and after each call that was ended. One that imported a test file instead would spend
seconds on decond and pandas, which these tests are not about.
"""

import signal

import numpy as np

LIMIT = 3.0
"""Seconds for one call: many times what a quick one takes on a busy machine. Those that exceed it never end."""

TOO_LONG = "took longer than 3 s"
"""The reason of those that are ended."""


def hang():
    """Never return, and use no processor time."""
    while True:
        signal.pause()


def gaussian(theta, rng):
    return theta + 0.5 * rng.standard_normal(1)


def moody(theta, rng):
    """Raise, return NaN, hang or return too much, each now and then."""
    mood = rng.random()
    if mood < 0.1:
        raise ArithmeticError("the reactor melted")
    if mood < 0.2:
        return [np.nan]
    if mood < 0.21:
        hang()
    if mood < 0.3:
        return [1.0, 2.0]
    return gaussian(theta, rng)


def sleepy(theta, rng):
    """Hang in a narrow range of the parameter."""
    if 0.76 < theta[0] < 0.82:
        hang()
    return gaussian(theta, rng)


def hanging(theta, rng):
    """Hang in part of the range of the second parameter; rows that do not are theta + noise."""
    if theta[1] > 0.9:
        hang()
    return theta + rng.normal(size=2)


def hanging_batch(theta, rng):
    """Hang if the second parameter of any row is in part of its range; return theta otherwise."""
    if (theta[:, 1] > 0.9).any():
        hang()
    return theta


def two_numbers(theta, rng):
    """Return two summaries by name."""
    data = theta[0] + rng.standard_normal(20)
    return {"mean": data.mean(), "sd": data.std()}
