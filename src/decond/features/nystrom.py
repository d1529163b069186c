"""Nyström features: a kernel seen from a few landmarks."""

from typing import Any, Self

from decond.checks import as_count, frozen
from decond.features.base import FeatureMap, as_kernel
from decond.kernels.base import Kernel
from decond.linalg import pivoted_cholesky, whiten

__all__ = ["Nystrom"]


class Nystrom(FeatureMap):
    """Features whose inner products equal the kernel, up to a jitter of 1e-10, where one of the points is a landmark.

    `Nystrom.pivoted` chooses landmarks among the rows of a table, greedily, by pivoted Cholesky.

    >>> from decond.kernels import RBF
    >>> import numpy as np
    >>> phi = Nystrom.pivoted(RBF(), np.linspace(0, 1, 50), n_landmarks=6)
    >>> phi([[0.25]]).shape
    (1, 6)
    """

    base: Kernel
    landmarks: Any

    def __post_init__(self) -> None:
        """Check the landmarks."""
        base = as_kernel(self.base, "base")
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "landmarks", frozen(base.points(self.landmarks, "landmarks")))
        super().__post_init__()

    @classmethod
    def pivoted(cls, kernel: Kernel, x: Any, n_landmarks: int, tolerance: float = 1e-12) -> Self:
        """Choose up to `n_landmarks` rows of `x`; fewer if these explain all but `tolerance` of the variance."""
        as_count(n_landmarks, "n_landmarks")
        kernel = as_kernel(kernel, "kernel")
        rows = kernel.points(x, "x")
        pivots, _ = pivoted_cholesky(
            kernel.diagonal(rows), lambda i: kernel.gram(rows, rows[[i]])[:, 0], n_landmarks, tolerance
        )
        return cls(kernel, rows[pivots])

    def transform(self, a: Any) -> Any:
        """Return (R⁻¹ k(landmarks, a))ᵀ with R Rᵀ = k(landmarks, landmarks)."""
        gram = self.base.gram(self.landmarks, self.landmarks)
        cross = self.base.gram(self.landmarks, a)
        return whiten(gram, cross, "the Gram matrix of the Nyström landmarks").T
