"""Lengthscales from the data, before anything is learned."""

from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from decond.checks import as_rows

__all__ = ["median_heuristic"]


def median_heuristic(x: Any, *, per_column: bool = False, max_points: int = 1000, seed: int = 0) -> Any:
    """Return the median distance between distinct points: a number, or one for each column.

    Pairs at distance zero (repeated rows) do not count; a column that never changes gets 1. Of more than
    `max_points` rows, a random choice is used.

    >>> median_heuristic([[0.0], [1.0], [3.0]])
    2.0
    """
    rows = as_rows(x, "x")
    if len(rows) > max_points:
        rows = rows[np.random.default_rng(seed).choice(len(rows), max_points, replace=False)]
    if per_column:
        return np.array([_median_distance(rows[:, [j]]) for j in range(rows.shape[1])])
    return _median_distance(rows)


def _median_distance(rows: np.ndarray) -> float:
    distances = pdist(rows)
    apart = distances[distances > 0]
    return float(np.median(apart)) if apart.size else 1.0
