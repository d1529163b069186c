"""The regularized inverse at the heart of conditioning: (L + ρI)⁻¹ ℓ(y), in its cheapest form.

Conditional operators (ρ = nλ) and task-transformed observations (ρ = σ²) are both built on it. The smoother is
kept in two halves: `rows` W (r, q) of the queries and a `bridge` B (r, n) of the data, so that the weights are
A = Bᵀ W. In the kernel form r = n, B = R⁻¹ and W = R⁻¹ ℓ(y_query) with R Rᵀ = L + ρI; in the feature form r is
the number of features, B = R⁻¹ Ψ and W = R⁻¹ ψ(y_query) with R Rᵀ = ΨΨᵀ + (ρ/v) I.
"""

import numpy as np

from decond.features.feature_maps import FeatureKernel
from decond.kernels.kernel import Kernel
from decond.linalg import add_to_diagonal, cholesky, multiply

__all__ = ["Smoother"]


class Smoother:
    """Kernel ridge weights of data at `points`, with ridge ρ.

    >>> from decond.kernels import Linear
    >>> Smoother(Linear(), np.array([[1.0], [1.0]]), ridge=2.0).weights(np.array([[1.0]]))
    array([[0.25],
           [0.25]])
    """

    def __init__(
        self,
        kernel: Kernel,
        points: np.ndarray,
        ridge: float,
        name: str = "L + ρI",
        use_features: bool = True,
    ) -> None:
        self.kernel, self.points, self.ridge = kernel, points, ridge
        self.features: np.ndarray | None = None
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

    def rows(self, queries: np.ndarray) -> np.ndarray:
        """Return W (r, q)."""
        if self.features is None:
            return self.factor.half_solve(self.kernel.gram(self.points, queries))
        return self.factor.half_solve(self.kernel.features.transform(queries).T)  # type: ignore[attr-defined]

    def bridge(self, values: np.ndarray) -> np.ndarray:
        """Return B @ values (r, k) for values (n, k) at the data points."""
        return self.factor.half_solve(values if self.features is None else multiply(self.features.T, values))

    def bridge_transposed(self, values: np.ndarray) -> np.ndarray:
        """Return Bᵀ @ values (n, k) for values (r, k)."""
        spread = self.factor.half_solve_transposed(values)
        return spread if self.features is None else multiply(self.features, spread)

    def weights(self, queries: np.ndarray) -> np.ndarray:
        """Return A = (L + ρI)⁻¹ ℓ(queries), shape (n, q)."""
        return self.bridge_transposed(self.rows(queries))

    def sandwich(self, gram: np.ndarray) -> np.ndarray:
        """Return B K Bᵀ (r, r) for a symmetric K (n, n)."""
        return self.bridge(self.bridge(gram).T)
