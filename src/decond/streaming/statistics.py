"""Sums over rows: all that a sparse model needs to know of its data, in O(n²) numbers."""

from dataclasses import dataclass

import numpy as np

from decond.errors import ArgumentError

__all__ = ["Statistics"]


@dataclass(frozen=True, eq=False)
class Statistics:
    """WWᵀ, Wz, zᵀz, W1, 1ᵀz, the number of rows and their variance, for whitened rows W (n, m) and targets z (m, t).

    They are the products of one stack [W; zᵀ; 1ᵀ] with itself, and they add up: the statistics of two tables together
    are the sum of theirs, in any order.

    >>> stack = np.array([[0.5, 1.0], [2.0, 4.0], [1.0, 1.0]])  # one whitened row, one target, ones
    >>> both = Statistics.from_block(stack, 1)
    >>> parts = Statistics.from_block(stack[:, :1], 1) + Statistics.from_block(stack[:, 1:], 1)
    >>> both.count, both.gram.item(), parts.gram.item()
    (2, 1.25, 1.25)
    """

    products: np.ndarray
    """(n + t + 1, n + t + 1), symmetric up to rounding."""
    size: int
    """The number n of whitened rows."""
    variance: float = 0.0
    """The sum of k(x, x) over the rows."""

    @classmethod
    def zero(cls, size: int, targets: int) -> "Statistics":
        """Return the statistics of no rows at all."""
        return cls(np.zeros((size + targets + 1, size + targets + 1)), size)

    @classmethod
    def from_block(cls, stack: np.ndarray, size: int, variance: float = 0.0) -> "Statistics":
        """Return the statistics of a block, stacked as [W; zᵀ; 1ᵀ]."""
        return cls(np.matmul(stack, stack.T), size, variance)

    def __add__(self, other: "Statistics") -> "Statistics":
        """Return the statistics of both sets of rows."""
        if self.products.shape != other.products.shape or self.size != other.size:
            raise ArgumentError(
                "other",
                f"statistics of {self.size} inducing points and {self.targets} target(s) cannot be added to those of "
                f"{other.size} and {other.targets}; sum only blocks that one model has read.",
            )
        return Statistics(self.products + other.products, self.size, self.variance + other.variance)

    @property
    def targets(self) -> int:
        """The number t of target columns."""
        return len(self.products) - self.size - 1

    @property
    def count(self) -> int:
        """The number m of rows."""
        return round(float(self.products[-1, -1]))

    @property
    def gram(self) -> np.ndarray:
        """WWᵀ (n, n)."""
        return self.products[: self.size, : self.size]

    @property
    def cross(self) -> np.ndarray:
        """Wz (n, t)."""
        return self.products[self.size : -1, : self.size].T

    @property
    def squares(self) -> np.ndarray:
        """The squared length of each target column, (t,)."""
        return np.diagonal(self.products)[self.size : -1]

    @property
    def unresolved(self) -> float:
        """The mean over the rows of k(x, x) - wᵀw: the variance that the inducing points leave open."""
        return max(self.variance - float(np.trace(self.gram)), 0.0) / max(self.count, 1)

    @property
    def means(self) -> np.ndarray:
        """The mean of each target column, (t,)."""
        return self.products[-1, self.size : -1] / max(self.count, 1)

    def standardized(self, offset: np.ndarray, scale: np.ndarray) -> "Statistics":
        """Return what they would be for targets (z - offset) / scale, with one of each for every column."""
        full = self.products.copy()
        targets = slice(self.size, -1)
        full[targets] = (full[targets] - np.outer(offset, full[-1])) / scale[:, None]
        full[:, targets] = (full[:, targets] - np.outer(full[:, -1], offset)) / scale
        return Statistics(full, self.size, self.variance)

    def scaled(self, factor: float) -> "Statistics":
        """Return what they would be with W multiplied by `factor`, and k by its square."""
        full = self.products.copy()
        full[: self.size] *= factor
        full[:, : self.size] *= factor
        return Statistics(full, self.size, self.variance * factor**2)
