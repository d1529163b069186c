"""The log evidence of task-transformed models in 60 digits, and its derivatives: an oracle where float64 hurts."""

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

DIGITS = 60


def log_evidence(
    x: Any, y: Any, y_task: Any, z: Any, length_x: Any, length_y: Any, sigma: Any, mediator: str
) -> mp.mpf:
    """log N(z; 0, AᵀKA + Σ) with RBF kernels, by explicit inverses (Theorem 5.3)."""
    with mp.workdps(DIGITS):
        noise = mp.mpf(sigma) ** 2
        L, L_tilde = rbf(y, y, length_y), rbf(y, y_task, length_y)
        A = (L + noise * mp.eye(len(y))) ** -1 * L_tilde
        S = A.T * rbf(x, x, length_x) * A + noise * mp.eye(len(y_task))
        if mediator == "full":
            S += rbf(y_task, y_task, length_y) - L_tilde.T * A
        targets = mp.matrix([mp.mpf(float(value)) for value in z])
        quadratic = (targets.T * (S**-1) * targets)[0]
        return -(quadratic + mp.log(mp.det(S)) + len(z) * mp.log(2 * mp.pi)) / 2


def rbf(a: Any, b: Any, lengthscale: Any) -> mp.matrix:
    """The Gaussian kernel, entry by entry."""
    scale = mp.mpf(lengthscale)
    gram = mp.matrix(len(a), len(b))
    for i, left in enumerate(np.asarray(a)):
        for j, right in enumerate(np.asarray(b)):
            squared = sum(
                ((mp.mpf(float(p)) - mp.mpf(float(q))) / scale) ** 2 for p, q in zip(left, right, strict=True)
            )
            gram[i, j] = mp.exp(-squared / 2)
    return gram


def gradient(function: Callable[..., mp.mpf], at: tuple[float, ...]) -> list[float]:
    """Central differences in 60 digits with a relative step of 1e-15: exact to 30 digits."""
    result = []
    with mp.workdps(DIGITS):
        for i, value in enumerate(at):
            step = mp.mpf(value) * mp.mpf("1e-15")
            ends = [
                function(*[mp.mpf(v) + (sign * step if j == i else 0) for j, v in enumerate(at)]) for sign in (1, -1)
            ]
            result.append(float((ends[0] - ends[1]) / (2 * step)))
    return result
