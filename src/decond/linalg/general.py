"""Linear systems without symmetry."""

import warnings

import numpy as np
from scipy.linalg import LinAlgWarning, solve

from decond.linalg.factors import JitterWarning
from decond.messages import warn

__all__ = ["inverses", "solve_general"]


def solve_general(matrix: np.ndarray, right: np.ndarray, name: str) -> np.ndarray:
    """Return matrix⁻¹ right for a square matrix that need not be symmetric.

    >>> solve_general(np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([4.0, 3.0]), "KD")
    array([3., 2.])
    """
    label = f"{name} ({len(matrix)} x {len(matrix)})"
    remedy = "Increase the regularization, or remove repeated points."
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LinAlgWarning)
        try:
            solution = solve(matrix, right, assume_a="general", check_finite=False)
        except np.linalg.LinAlgError:
            raise np.linalg.LinAlgError(f"{label} is singular. {remedy}") from None
    if caught:
        text = f"{label} is nearly singular, so its inverse is mostly rounding. {remedy}"
        warn(JitterWarning(text, matrix=name, jitter=0.0))
    return solution


def inverses(matrices: np.ndarray) -> np.ndarray:
    """Return the inverses of a stack of small matrices (..., d, d), such as the covariances of a mixture.

    >>> inverses(np.array([[[2.0]], [[4.0]]])).ravel()
    array([0.5 , 0.25])
    """
    return np.linalg.inv(matrices)
