"""What the pairs alone tell of a mediator: weights M and covariance C of E[f(X) | y], for honest error bars.

The paper ties the smoothness of x given y to the noise of the targets. Here it is chosen from the pairs, by the
leave-one-out loss of the conditional embedding, for two descriptions of the mediator: y itself, and its estimate
m(y) = E[x | y], which is better where the mediator bends sharply.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from decond.conditional.smoother import Smoother
from decond.estimators.defaults import label_columns, numeric_columns, spread
from decond.estimators.input_density import InputDensity
from decond.gp.conditional import ConditionalChoice, ConditionalGrid
from decond.kernels import Categorical, Matern32
from decond.kernels.kernel import Kernel

__all__ = ["MOST_PAIRS", "Mediation", "Transformation", "density_transformation", "descriptions"]

SMOOTHNESSES = 2.0 ** np.arange(-5.0, 4.0)
"""Lengthscales of the mediator that are tried, relative to the spread of its columns."""

RIDGES = 10.0 ** np.linspace(-3.0, 1.0, 9)
"""Ridges ρ that are tried: the variance of k(x, ·) given y, relative to that of E[k(x, ·) | y]."""

MOST_PAIRS = 500
"""Pairs that x given y is learned from; of more, a random part."""


class Transformation(NamedTuple):
    """M (n, m) and C (m, m): E[f(X) | ỹ] = Mᵀ f(points) plus an error with covariance C, per unit variance of f."""

    points: np.ndarray
    weights: np.ndarray
    covariance: np.ndarray


class Mediation:
    """One description u of the mediator at pairs and at task rows, with the smoothness that fits the pairs best."""

    def __init__(self, pairs: np.ndarray, task: np.ndarray, seed: int, most_pairs: int = MOST_PAIRS) -> None:
        self.pairs, self.task = pairs, task
        chosen = np.random.default_rng(seed).permutation(len(pairs))[:most_pairs]
        self.chosen = np.sort(chosen)
        kernels = [mediator_kernel(pairs, factor) for factor in SMOOTHNESSES]
        self._grid = ConditionalGrid(kernels, pairs[self.chosen], RIDGES)

    def transformation(self, kernel_x: Kernel, x: np.ndarray) -> Transformation:
        """Return M and C at the smoothness that predicts k(x, ·) best."""
        best = self._chosen(kernel_x, x)
        smoother = Smoother(best.kernel, self.pairs, best.ridge)
        rows = smoother.rows(self.task)
        covariance = best.kernel.gram(self.task, self.task) - rows.T @ rows
        return Transformation(x, smoother.bridge_transposed(rows), 0.5 * (covariance + covariance.T))

    def probabilities(self, kernel_x: Kernel, x: np.ndarray) -> np.ndarray:
        """Return how probable every row of x is for each task row, (n, m): the weights M without what is negative."""
        best = self._chosen(kernel_x, x)
        positive = np.maximum(Smoother(best.kernel, self.pairs, best.ridge).weights(self.task), 0.0)
        positive[:, positive.sum(axis=0) == 0.0] = 1.0
        return np.asarray(positive / positive.sum(axis=0))

    def _chosen(self, kernel_x: Kernel, x: np.ndarray) -> ConditionalChoice:
        return self._grid.choose(kernel_x.gram(x[self.chosen], x[self.chosen]))

    def expectation(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the estimate of E[x | y] at pairs and at task rows."""
        center, scale = x.mean(axis=0), spread(x)
        standard = (x - center) / scale
        best = self._grid.choose(standard[self.chosen] @ standard[self.chosen].T)
        smoother = Smoother(best.kernel, self.pairs, best.ridge)
        estimates = (smoother.weights(rows).T @ standard * scale + center for rows in (self.pairs, self.task))
        return tuple(estimates)


def descriptions(x: np.ndarray, y: np.ndarray, y_task: np.ndarray, seed: int) -> list[Mediation]:
    """Return the mediator as y and, where x is numbers, as m(y) = E[x | y]."""
    direct = Mediation(y, y_task, seed)
    if x.dtype.kind != "f":
        return [direct]
    return [direct, Mediation(*direct.expectation(x), seed)]


def density_transformation(density: InputDensity, tables: int = 8) -> Callable[[Kernel], Transformation]:
    """Return a function from the kernel of x to M and C by a density of x given y.

    M is the mean of bootstrap tables W_b of the density; C is the covariance of W_bᵀ f over the tables that the prior
    of f expects, mean_b W_bᵀKW_b - MᵀKM.
    """
    found = density.bootstrap(tables)
    mean = np.mean(found, axis=0)

    def transformation(kernel: Kernel) -> Transformation:
        gram = kernel.gram(density.support, density.support)
        size = float(np.mean(np.diagonal(gram)))
        spread = [table - mean for table in found]
        covariance = sum(one.T @ (gram @ one) for one in spread) / (size * max(1, tables - 1))
        return Transformation(density.support, mean, 0.5 * (covariance + covariance.T))

    return transformation


def mediator_kernel(rows: np.ndarray, factor: float) -> Kernel:
    """Return the covariance of the mediating function: Matern-3/2 in numbers, independent between labels."""
    numeric, labels = numeric_columns(rows), label_columns(rows)
    if not numeric:
        return Categorical()
    smooth = Matern32(factor * spread(rows, numeric))
    return smooth.on(numeric) * Categorical().on(labels) if labels else smooth
