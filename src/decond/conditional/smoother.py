"""The kernel smoother at the heart of conditioning: (L + ρI)⁻¹ ℓ(y) in its cheapest form, and its smoothness.

Conditional operators (ρ = nλ) and task-transformed observations (ρ = σ²) are both built on it. The smoother is
kept in two halves: `rows` W (r, q) of the queries and a `bridge` B (r, n) of the data, so that the weights are
A = Bᵀ W. In the kernel form r = n, B = R⁻¹ and W = R⁻¹ ℓ(y_query) with R Rᵀ = L + ρI; in the feature form r is
the number of features, B = R⁻¹ Ψ and W = R⁻¹ ψ(y_query) with R Rᵀ = ΨΨᵀ + (ρ/v) I.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh

from decond.checks import order_of_rows
from decond.conditional.mediator import label_columns, numeric_columns, spread
from decond.features import FeatureKernel
from decond.kernels import Categorical, Matern32
from decond.kernels.kernel import Kernel
from decond.linalg import add_to_diagonal, cholesky, multiply

__all__ = [
    "ConditionalExpectation",
    "MediatorSmoother",
    "Smoother",
    "SmootherChoice",
    "SmootherGrid",
    "SmootherSettings",
]


class Smoother:
    """Kernel ridge weights of data at `points`, with ridge ρ.

    Parameters
    ----------
    kernel : Kernel
        ℓ.
    points : ndarray of shape (n, e)
        The data.
    ridge : float
        ρ.
    name : str
        What messages call L + ρI.
    use_features : bool
        Whether to use the finite features of a kernel that has fewer of them than there are points.

    Examples
    --------
    >>> from decond.kernels import Linear
    >>> Smoother(Linear(), np.array([[1.0], [1.0]]), ridge=2.0).weights(np.array([[1.0]]))
    array([[0.25],
           [0.25]])
    """

    def __init__(
        self,
        kernel: Kernel,
        points: NDArray[Any],
        ridge: float,
        name: str = "L + ρI",
        use_features: bool = True,
    ) -> None:
        self.kernel, self.points, self.ridge = kernel, points, ridge
        self.features: NDArray[np.float64] | None = None
        if use_features and isinstance(kernel, FeatureKernel):
            features = kernel.features.transform(points)
            if features.shape[1] < features.shape[0]:
                self.features = features
        if self.features is None:
            matrix = kernel.gram(points, points)
            add_to_diagonal(matrix, ridge)
        else:
            matrix = multiply(self.features.T, self.features)
            add_to_diagonal(matrix, ridge / kernel.variance)  # type: ignore[attr-defined]
        self.factor = cholesky(matrix, name)

    @property
    def rank(self) -> int:
        """The number r of rows: data points, or features if these are fewer."""
        return self.factor.size

    def rows(self, queries: NDArray[Any]) -> NDArray[np.float64]:
        """Return W (r, q)."""
        if self.features is None:
            return self.factor.half_solve(self.kernel.gram(self.points, queries))
        return self.factor.half_solve(self.kernel.features.transform(queries).T)  # type: ignore[attr-defined]

    def bridge(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return B @ values (r, k) for values (n, k) at the data points."""
        return self.factor.half_solve(values if self.features is None else multiply(self.features.T, values))

    def bridge_transposed(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Bᵀ @ values (n, k) for values (r, k)."""
        spread = self.factor.half_solve_transposed(values)
        return spread if self.features is None else multiply(self.features, spread)

    def weights(self, queries: NDArray[Any]) -> NDArray[np.float64]:
        """Return A = (L + ρI)⁻¹ ℓ(queries), shape (n, q)."""
        return self.bridge_transposed(self.rows(queries))

    def sandwich(self, gram: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return B K Bᵀ (r, r) for a symmetric K (n, n)."""
        return self.bridge(self.bridge(gram).T)


class SmootherChoice(NamedTuple):
    """The kernel of y and the ridge ρ (the paper's nλ) with the smallest leave-one-out loss."""

    kernel: Kernel
    ridge: float
    loss: float


class SmootherGrid:
    """Some kernels of y and some ridges, from which leave-one-out chooses for any kernel of x.

    The loss is that of the conditional mean embedding (section 3 of the paper) when each pair is left out in turn, in
    closed form: mean_i [(I - H) K (I - H)]_ii / (1 - H_ii)² with H = L (L + ρI)⁻¹.

    Parameters
    ----------
    kernels : sequence of Kernel
        Candidate kernels of y.
    y : ndarray of shape (n, e)
        Mediator of the pairs.
    ridges : array_like of shape (r,)
        Candidate ridges.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> y = np.linspace(0, 6, 50)[:, None]
    >>> grid = SmootherGrid([RBF(0.01), RBF(1.0), RBF(100.0)], y, [1e-3, 1.0])
    >>> grid.choose(RBF(0.5)(np.sin(y))).kernel
    RBF(lengthscale=1.0)
    """

    def __init__(self, kernels: Sequence[Kernel], y: NDArray[Any], ridges: ArrayLike) -> None:
        self.kernels, self.ridges = tuple(kernels), np.asarray(ridges, dtype=np.float64)
        self._spectra = [eigh(kernel.gram(y, y)) for kernel in kernels]

    def choose(self, gram_x: NDArray[np.float64]) -> SmootherChoice:
        """Return the best pair for embedding x given y, x seen through its Gram matrix (n, n)."""
        best = SmootherChoice(self.kernels[0], float(self.ridges[0]), np.inf)
        for kernel, spectrum in zip(self.kernels, self._spectra, strict=True):
            losses = self._losses(gram_x, *spectrum)
            least = int(np.argmin(losses))
            if losses[least] < best.loss:
                best = SmootherChoice(kernel, float(self.ridges[least]), float(losses[least]))
        return best

    def _losses(
        self, gram_x: NDArray[np.float64], w: NDArray[np.float64], U: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the loss at every ridge, from L = U diag(w) Uᵀ.

        I - H = U diag(ρ / (w + ρ)) Uᵀ, so a ridge costs one product of n x n matrices.
        """
        rotated = multiply(multiply(U.T, gram_x), U)
        losses = np.empty(len(self.ridges))
        for i, ridge in enumerate(self.ridges):
            residual = U * (ridge / (np.maximum(w, 0.0) + ridge))
            errors = (multiply(residual, rotated) * residual).sum(axis=1)
            losses[i] = np.mean(errors / (residual * U).sum(axis=1) ** 2)
        return losses


class ConditionalExpectation(NamedTuple):
    """M (n, m) and C (m, m): E[f(X) | ỹ] = Mᵀ f(points) plus an error with covariance C, per unit variance of f."""

    points: NDArray[Any]
    weights: NDArray[np.float64]
    covariance: NDArray[np.float64]


@dataclass(frozen=True)
class SmootherSettings:
    """Settings of `MediatorSmoother`."""

    smoothness: tuple[float, ...] = tuple(2.0 ** np.arange(-5.0, 4.0))
    """Candidate lengthscales of the mediator, relative to the spread of its columns."""
    ridges: tuple[float, ...] = tuple(10.0 ** np.linspace(-3.0, 1.0, 9))
    """Candidate ridges ρ: the variance of k(x, ·) given y, relative to that of E[k(x, ·) | y]."""
    most_pairs: int = 500
    """Pairs that the smoothness is chosen from, as its cost is cubic; of more, a random part."""


class MediatorSmoother:
    """Weights of E[f(X) | y] at task rows, with the smoothness that leave-one-out chooses from the pairs alone.

    The paper ties the smoothness of x given y to the noise of the targets; here the targets have no part in it.

    Parameters
    ----------
    x : ndarray of shape (n, d)
        Rows of the pairs.
    y : ndarray of shape (n, e)
        Their mediator, or a description of it such as E[x | y].
    y_task : ndarray of shape (m, e)
        The same at the task rows.
    seed : int
        Seed of the random part of the pairs.
    settings : SmootherSettings, optional
        Candidates and sizes.

    Examples
    --------
    >>> y = np.linspace(-3, 3, 50)[:, None]
    >>> smoother = MediatorSmoother(np.sin(y), y, np.array([[0.1], [1.5]]), seed=0)
    >>> smoother.means()[1].round(1).ravel()  # sin(0.1) and sin(1.5)
    array([0.1, 1. ])
    """

    def __init__(
        self,
        x: NDArray[Any],
        y: NDArray[Any],
        y_task: NDArray[Any],
        seed: int,
        settings: SmootherSettings | None = None,
    ) -> None:
        settings = settings or SmootherSettings()
        self._x, self._pairs, self._task, self._seed = x, y, y_task, seed
        self._chosen = np.sort(
            order_of_rows(y, x)[np.random.default_rng(seed).permutation(len(y))[: settings.most_pairs]]
        )
        kernels = [_mediator_kernel(y, factor) for factor in settings.smoothness]
        self._grid = SmootherGrid(kernels, y[self._chosen], settings.ridges)

    def expectation(self, kernel_x: Kernel) -> ConditionalExpectation:
        """Return M and C at the smoothness that predicts k(x, ·) best."""
        smoother = self._best(kernel_x)
        rows = smoother.rows(self._task)
        covariance = smoother.kernel.gram(self._task, self._task) - rows.T @ rows
        weights = smoother.bridge_transposed(rows)
        return ConditionalExpectation(self._x, weights, 0.5 * (covariance + covariance.T))

    def probabilities(self, kernel_x: Kernel) -> NDArray[np.float64]:
        """Return how probable every row of x is for each task row, (n, m): the weights M without what is negative."""
        positive = np.maximum(self._best(kernel_x).weights(self._task), 0.0)
        positive[:, positive.sum(axis=0) == 0.0] = 1.0
        return np.asarray(positive / positive.sum(axis=0))

    def means(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the estimate of E[x | y] at pairs and at task rows."""
        center, scale = self._x.mean(axis=0), spread(self._x)
        standard = (self._x - center) / scale
        smoother = self._smoother(self._grid.choose(standard[self._chosen] @ standard[self._chosen].T))
        pairs, task = (smoother.weights(y).T @ standard * scale + center for y in (self._pairs, self._task))
        return pairs, task

    def of_means(self) -> "MediatorSmoother":
        """Return the smoother over E[x | y] in place of y, which is better where the mediator bends sharply."""
        return MediatorSmoother(self._x, *self.means(), self._seed)

    def _best(self, kernel_x: Kernel) -> Smoother:
        rows = self._x[self._chosen]
        return self._smoother(self._grid.choose(kernel_x.gram(rows, rows)))

    def _smoother(self, choice: SmootherChoice) -> Smoother:
        return Smoother(choice.kernel, self._pairs, choice.ridge)


def _mediator_kernel(rows: NDArray[Any], factor: float) -> Kernel:
    """Return the covariance of the mediating function: Matern-3/2 in numbers, independent between labels."""
    numeric, labels = numeric_columns(rows), label_columns(rows)
    if not numeric:
        return Categorical()
    smooth = Matern32(factor * spread(rows[:, numeric]))
    return smooth.on(numeric) * Categorical().on(labels) if labels else smooth
