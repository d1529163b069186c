"""Clock and yardstick shared by all benchmarks."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm

MOST_PRODUCTS = 32
"""Products that a yardstick is measured with at most: half a trillion operations of size 2000."""


PAUSE = 0.2
"""Seconds between two that are timed."""

SPELL, MOST_CALLS = 1.0, 5
"""Whoever is quick is called again in the same round, until so many seconds have passed or so many calls: beside a
peer that takes long there are only two rounds, and one bad moment of the machine would decide."""


def best_times(
    functions: Mapping[str, Callable[[], Any]],
    clocks: Mapping[str, Callable[[], float]] | None = None,
    repeats: int = 5,
    budget: float = np.inf,
    warm_up: bool = True,
) -> dict[str, float]:
    """Time several functions in turn, so that slow and fast spells of the machine fall on all of them alike.

    Clocks take their own time and return it: peers in other processes. Rounds end after `repeats`, or once `budget`
    seconds have passed, but not before the second. The best round of each counts.
    """
    told = {name: _clock(function) for name, function in functions.items()} | dict(clocks or {})
    if warm_up:
        for clock in told.values():
            clock()
    end = time.perf_counter() + budget
    rounds: list[dict[str, float]] = []
    while len(rounds) < repeats and (len(rounds) < 2 or time.perf_counter() < end):
        rounds.append({name: _rested(clock) for name, clock in told.items()})
    return {name: min(times[name] for times in rounds) for name in told}


def _rested(clock: Callable[[], float]) -> float:
    """Return the best of a spell after a pause: threads of whoever ran before go on spinning for a while."""
    time.sleep(PAUSE)
    told = [clock()]
    while sum(told) < SPELL and len(told) < MOST_CALLS:
        told.append(clock())
    return min(told)


def matrix_products(operations: float, size: int = 2000) -> Callable[[], None]:
    """Return a function that does about so many operations as float64 matrix products, for a yardstick.

    A run of products as long as what it is compared with is a fairer measure of the machine's speed than the
    luckiest single one. `limit_seconds` turns its time into that of the exact number of operations.
    """
    rng = np.random.default_rng(0)
    a, b, product = (np.asfortranarray(rng.standard_normal((size, size))) for _ in range(3))
    count = product_count(operations, size)

    def multiply() -> None:
        for _ in range(count):
            dgemm(1.0, a, b, c=product, overwrite_c=1)

    return multiply


def product_count(operations: float, size: int = 2000) -> int:
    """Return how many products of this size make up the operations, rounded up, but not more than enough to tell."""
    return min(MOST_PRODUCTS, int(np.ceil(operations / (2.0 * size**3))))


def limit_seconds(measured: float, operations: float, size: int = 2000) -> float:
    """Return the time of the operations at the speed at which their `matrix_products` took `measured` seconds."""
    return measured * operations / (2.0 * size**3 * product_count(operations, size))


def matrix_gigaflops(size: int = 2000, repeats: int = 5) -> float:
    """Return the speed of float64 matrix products in 10⁹ operations a second."""
    operations = 2.0 * size**3
    return operations / best_times({"product": matrix_products(operations, size)}, repeats=repeats)["product"] / 1e9


def growth(sizes: Any, seconds: Any) -> float:
    """Return the exponent p of time ∝ sizeᵖ, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _clock(function: Callable[[], Any]) -> Callable[[], float]:
    def clock() -> float:
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    return clock
