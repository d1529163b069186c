"""Conditional mean operators with learned hyperparameters, where E[f(X) | Y = y] is known.

Three problems: a line with Gaussian noise, a sine whose noise grows with |y|, and two modes whose weights change with
y. The kernel of x is an RBF at the median distance for all. The kernel of y and λ are chosen by the evidence, by the
leave-one-out loss, or are the median distance and 1e-3.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from decond import ConditionalMeanOperator
from decond.conditional import SmootherGrid
from decond.gp import learn_conditional
from decond.kernels import RBF, median_heuristic

FIRST_SEED = 8000
SIZES = (100, 300)
FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "x": lambda x: x,
    "x²": lambda x: x**2,
    "sin 2x": lambda x: np.sin(2.0 * x),
}
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


class Problem(NamedTuple):
    """X given Y = y is a mixture of two Gaussians; y is uniform between -width and width."""

    width: float
    share: Callable[[np.ndarray], np.ndarray]
    """Weight of the first component."""
    means: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    deviation: Callable[[np.ndarray], np.ndarray]

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw n pairs (x, y)."""
        y = rng.uniform(-self.width, self.width, n)
        center = np.where(rng.random(n) < self.share(y), *self.means(y))
        return center + self.deviation(y) * rng.standard_normal(n), y

    def expectation(self, f: Callable[[np.ndarray], np.ndarray], y: np.ndarray) -> np.ndarray:
        """Return E[f(X) | Y = y] by Gauss-Hermite quadrature."""
        first, second = (
            f(mean[:, None] + self.deviation(y)[:, None] * NODES) @ NODE_WEIGHTS / NODE_WEIGHTS.sum()
            for mean in self.means(y)
        )
        return self.share(y) * first + (1.0 - self.share(y)) * second


PROBLEMS = {
    "linear-Gaussian": Problem(2.0, np.ones_like, lambda y: (0.8 * y, 0.8 * y), lambda y: np.full_like(y, 0.5)),
    "heteroscedastic sine": Problem(
        3.0, np.ones_like, lambda y: (np.sin(2.0 * y), np.sin(2.0 * y)), lambda y: 0.1 + 0.15 * np.abs(y)
    ),
    "two modes": Problem(
        2.0,
        lambda y: 1.0 / (1.0 + np.exp(-2.0 * y)),
        lambda y: (1.0 + 0.3 * y, -1.0 - 0.3 * y),
        lambda y: np.full_like(y, 0.2),
    ),
}


def operators(x: np.ndarray, y: np.ndarray) -> dict[str, ConditionalMeanOperator]:
    """Return the operator that each way to its hyperparameters gives."""
    kernel_x, kernel_y = RBF(median_heuristic(x)), RBF(median_heuristic(y))
    candidates = [RBF(factor * median_heuristic(y)) for factor in 2.0 ** np.arange(-5.0, 4.0)]
    best = SmootherGrid(candidates, y[:, None], 10.0 ** np.linspace(-4.0, 2.0, 13)).choose(kernel_x(x, x))
    return {
        "median": ConditionalMeanOperator(kernel_x, kernel_y, 1e-3).fit(x, y),
        "evidence": learn_conditional(kernel_x, kernel_y, x, y).operator,
        "leave-one-out": ConditionalMeanOperator(kernel_x, best.kernel, best.ridge / len(x)).fit(x, y),
    }


def error(operator: ConditionalMeanOperator, x: np.ndarray, problem: Problem) -> float:
    """Return the root mean square error of E[f(X) | Y = y] on a grid of y, relative to its spread, over all f."""
    grid = np.linspace(-problem.width, problem.width, 41)
    relative = []
    for f in FUNCTIONS.values():
        truth = problem.expectation(f, grid)
        relative.append(np.mean((operator.expectation(f(x), grid) - truth) ** 2) / np.var(truth))
    return float(np.sqrt(np.mean(relative)))


def run(draws: int = 10, sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    """Compare the three on all problems and sizes, over draws that chose nothing."""
    rows = []
    for number, (name, problem) in enumerate(PROBLEMS.items()):
        for n in sizes:
            results: dict[str, list[float]] = {}
            for draw in range(draws):
                x, y = problem.draw(n, np.random.default_rng([FIRST_SEED + draw, number, n]))
                for way, operator in operators(x, y).items():
                    results.setdefault(way, []).append(error(operator, x, problem))
            median = np.array(results["median"])
            means: dict[str, Any] = {way: float(np.mean(found)) for way, found in results.items()}
            wins = {
                f"{way} better than median": f"{int(np.sum(np.array(results[way]) < median))} of {draws}"
                for way in ("evidence", "leave-one-out")
            }
            rows.append({"problem": name, "n": n, **means, **wins})
            print(rows[-1], flush=True)
    return {
        "benchmark": f"conditional mean operators, {draws} draws from seed {FIRST_SEED}",
        "notes": NOTES,
        "errors": rows,
    }


NOTES = (
    "Cells are errors of E[f(X) | Y = y] on a grid, relative to its spread over y: root mean square over f = x, x², "
    "sin 2x; means over draws.",
)
