"""Clock and yardstick shared by all benchmarks."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm


def best_time(function: Callable[[], Any], repeats: int = 5) -> float:
    """Return the shortest of several wall times in seconds, after one call to warm up."""
    function()
    return min(_time(function) for _ in range(repeats))


def best_times(functions: dict[str, Callable[[], Any]], repeats: int = 5) -> dict[str, float]:
    """Time several functions in turn, so that slow and fast spells of the machine fall on all of them alike."""
    for function in functions.values():
        function()
    rounds = [{name: _time(function) for name, function in functions.items()} for _ in range(repeats)]
    return {name: min(times[name] for times in rounds) for name in functions}


def matrix_products(operations: float, size: int = 2000) -> Callable[[], None]:
    """Return a function that does at least so many operations as float64 matrix products, for a yardstick.

    A run of products as long as what it is compared with is a fairer measure of the machine's speed than the
    luckiest single one. Divide its time by `product_count` and multiply by the exact number.
    """
    rng = np.random.default_rng(0)
    a, b = (np.asfortranarray(rng.standard_normal((size, size))) for _ in range(2))
    count = product_count(operations, size)

    def multiply() -> None:
        for _ in range(count):
            dgemm(1.0, a, b)

    return multiply


def product_count(operations: float, size: int = 2000) -> int:
    """Return how many products of this size make up the operations, rounded up."""
    return int(np.ceil(operations / (2.0 * size**3)))


def _time(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
