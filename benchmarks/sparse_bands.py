"""Error bars of `SparseGP` with its defaults, on functions that are known: are those of f as wide as its errors?"""

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from decond import SparseGP

FIRST_SEED = 9000
NEW_ROWS = 2_000


class Case(NamedTuple):
    """A function of rows that are uniform between `low` and `high`, and the noise of its targets."""

    function: Callable[[np.ndarray], np.ndarray]
    low: tuple[float, ...]
    high: tuple[float, ...]
    noise: float


def sine(x: np.ndarray) -> np.ndarray:
    """Return sin x."""
    return np.asarray(np.sin(x[:, 0]))


def pressure(x: np.ndarray) -> np.ndarray:
    """Return a blood pressure in mmHg, by age, body mass index and dose of a drug."""
    age, index, dose = x.T
    return np.asarray(95.0 + 0.5 * age + 0.9 * (index - 22.0) - 18.0 * dose / (dose + 20.0) * (1.0 + age / 100.0))


def products(x: np.ndarray) -> np.ndarray:
    """Return the function of docs/sparse_evidence.md, which needs more points than there are."""
    return np.asarray(np.sin(x[:, 0] * x[:, 1]) + x[:, 2] * np.cos(x[:, 3]) + 0.3 * x[:, 4])


def friedman(x: np.ndarray) -> np.ndarray:
    """Return Friedman's first function, of five of ten columns (Friedman 1991)."""
    waves = 10.0 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20.0 * (x[:, 2] - 0.5) ** 2
    return np.asarray(waves + 10.0 * x[:, 3] + 5.0 * x[:, 4])


CASES = {
    "sine": Case(sine, (0.0,), (10.0,), 0.1),
    "blood pressure": Case(pressure, (20.0, 18.0, 0.0), (90.0, 40.0, 100.0), 12.0),
    "products": Case(products, (-2.0,) * 5, (2.0,) * 5, 0.1),
    "Friedman": Case(friedman, (0.0,) * 10, (1.0,) * 10, 1.0),
}
SIZES = (
    ("sine", 1_500),
    ("sine", 20_000),
    ("blood pressure", 50_000),
    ("products", 4_000),
    ("products", 16_000),
    ("Friedman", 4_000),
    ("Friedman", 16_000),
)


def score(case: Case, rows: int, seed: int) -> dict[str, float]:
    """Return figures of one draw; `f in 95 %` is of the band of f, `new in 95 %` of that of new targets."""
    rng = np.random.default_rng(seed)
    x, new = (rng.uniform(case.low, case.high, (m, len(case.low))) for m in (rows, NEW_ROWS))
    z = case.function(x) + case.noise * rng.standard_normal(rows)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = SparseGP().fit(x, z)
    seconds = time.process_time() - start
    mean, std = gp.predict(new, return_std=True)
    errors = mean - case.function(new)
    lower, upper = gp.predict_interval(new, level=0.95)
    targets = case.function(new) + case.noise * rng.standard_normal(NEW_ROWS)
    rmse = float(np.sqrt(np.mean(errors**2)))
    return {
        "RMSE of f": rmse,
        "sd of f": float(std.mean()),
        "sd / RMSE": float(std.mean()) / rmse,
        "f in 95 %": float(np.mean(np.abs(errors) <= 1.96 * std)),
        "new in 95 %": float(np.mean((lower <= targets) & (targets <= upper))),
        "by the evidence": float(gp.posterior_.model.objective == "evidence"),
        "seconds": seconds,
    }


def run(draws: int = 3, first_seed: int = FIRST_SEED) -> dict[str, Any]:
    """Average over draws, case by case."""
    table = []
    for name, rows in SIZES:
        scores = [score(CASES[name], rows, seed) for seed in range(first_seed, first_seed + draws)]
        means = {key: float(np.mean([one[key] for one in scores])) for key in scores[0]}
        worst = min(one["f in 95 %"] for one in scores)
        table.append({"case": name, "rows": rows, **means, "f in 95 %, least": worst})
        print(table[-1], flush=True)
    return {
        "benchmark": f"Error bars of a sparse Gaussian process, {draws} draws from seed {first_seed}",
        "notes": ["100 inducing points and all other settings by default. Seconds are the processor's."],
        "means over the draws": table,
    }
