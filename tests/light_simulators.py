"""Simulators for calls with a limit on time: the process of such a call imports this file, which needs NumPy alone.

A process begins with each run and after each call that was ended. One that imported a test file instead would spend
seconds on decond and pandas, which these tests are not about.
"""

import time

import numpy as np


def gaussian(theta, rng):
    return theta + 0.5 * rng.standard_normal(1)


def moody(theta, rng):
    """Raise, return NaN, hang or return too much, each now and then."""
    mood = rng.random()
    if mood < 0.1:
        raise ArithmeticError("the reactor melted")
    if mood < 0.2:
        return [np.nan]
    if mood < 0.22:
        time.sleep(60)
    if mood < 0.3:
        return [1.0, 2.0]
    return gaussian(theta, rng)


def sleepy(theta, rng):
    """Hang in a narrow range of the parameter."""
    if 0.73 < theta[0] < 0.82:
        time.sleep(60)
    return gaussian(theta, rng)


def two_numbers(theta, rng):
    """Return two summaries by name."""
    data = theta[0] + rng.standard_normal(20)
    return {"mean": data.mean(), "sd": data.std()}
