"""The simulator of likelihood-free peers: a bent mean and Gaussian noise, with a posterior that is known."""

from typing import Any

import numpy as np

OBSERVED = np.array([0.3, -0.2, 0.5, 0.1])
NAMES = [f"t{i}" for i in range(len(OBSERVED))]


def simulator(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return one simulation at one θ, each of whose entries is uniform on [-1, 1]."""
    return theta + 0.3 * theta**2 + 0.1 * rng.standard_normal(len(OBSERVED))


def score(mean: Any, deviation: Any) -> dict[str, float]:
    """Compare with the exact posterior, in which parameters are independent."""
    grid = np.linspace(-1.0, 1.0, 20001)
    log = -0.5 * ((OBSERVED[:, None] - grid - 0.3 * grid**2) / 0.1) ** 2
    weight = np.exp(log - log.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    exact = weight @ grid
    spread = np.sqrt(weight @ grid**2 - exact**2)
    return {
        "error of means, in sd": float(np.abs((mean - exact) / spread).mean()),
        "sd / exact sd": float((deviation / spread).mean()),
    }
