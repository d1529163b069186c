"""What networks see of data and parameters."""

import numpy as np

from decond.lfi.summaries import Standardizer

__all__ = ["network_inputs"]


def network_inputs(scale: Standardizer, rows: np.ndarray) -> np.ndarray:
    """Return standardized rows, far values drawn in as by a logarithm: none bends much, and none is lost.

    >>> scale = Standardizer(np.array([[-1.0], [0.0], [1.0]]))
    >>> near, far, farther = network_inputs(scale, np.array([[0.1], [1e3], [1e6]]))[:, 0]
    >>> bool(near < 0.2), bool(far < farther < 20.0)
    (True, True)
    """
    return np.arcsinh(scale.apply(rows))
