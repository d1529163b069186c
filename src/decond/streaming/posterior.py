"""The posterior of a sparse model: it holds sums over the rows, not the rows."""

from typing import Any

import numpy as np

from decond.gp import FunctionPrior, Posterior
from decond.linalg import multiply
from decond.streaming.head import Head, Whitening
from decond.streaming.statistics import Statistics

__all__ = ["ConditionalMeanPosterior", "SparsePosterior"]


class SparsePosterior(Posterior):
    """The posterior of f given all rows that the statistics have seen.

    With F, q and T = FᵀK̃F + σ²I of the head and w = R⁻¹k(u, x): E[f(x)] = wᵀFT⁻¹q, var[f(x)] = k(x, x) - wᵀFT⁻¹Fᵀw.

    >>> from decond.kernels import RBF
    >>> from decond.streaming import SparseModel, Table
    >>> model = SparseModel(RBF(), inducing=[[0.0], [2.0]], noise=0.1)
    >>> model.condition(model.statistics(Table([[0.0], [2.0]], [1.0, -1.0]))).std([[0.0], [9.0]]).round(2)
    array([0.1, 1. ])
    """

    form = "inducing"

    def __init__(self, model: Any, statistics: Statistics, flat: bool) -> None:
        self.prior, self.points, self.statistics = FunctionPrior(model.kernel), model.inducing, statistics
        self._flat = flat
        self._mean = np.zeros(statistics.targets)
        self._whitening = Whitening(model.kernel, model.inducing, model.ridges.mediator)
        self._head = Head(statistics, self._whitening.prior, model.ridges.noise)
        self._weights = multiply(self._whitening.root.T, self._head.coefficients)

    @property
    def log_evidence(self) -> float:
        """Log p(z), summed over target columns."""
        return self._head.log_evidence

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Refuse: single targets are not kept."""
        raise NotImplementedError(
            "a sparse posterior keeps sums over its rows, not the rows, so it cannot leave one out. Use "
            "cross-validation, or gp.condition on a smaller table."
        )

    def _cross(self, x: np.ndarray) -> np.ndarray:
        return self.prior.covariance.gram(self.points, x)

    def _variances(self, x: np.ndarray, cross: np.ndarray) -> np.ndarray:
        return self.prior.covariance.diagonal(x) - (self._explained(cross) ** 2).sum(axis=0)

    def _covariances(self, x: np.ndarray, cross: np.ndarray) -> np.ndarray:
        explained = self._explained(cross)
        return self.prior.covariance.gram(x, x) - multiply(explained.T, explained)

    def _explained(self, cross: np.ndarray) -> np.ndarray:
        """Return T^(-1/2) Fᵀ R⁻¹ k(u, x)."""
        return self._head.core.half_solve(multiply(self._head.root.T, multiply(self._whitening.root, cross)))

    def _inverse(self) -> tuple[np.ndarray, np.ndarray]:
        return self.leave_one_out()

    def __repr__(self) -> str:
        """Show sizes and log evidence."""
        n, m = len(self.points), self.statistics.count
        return f"{type(self).__name__}({n} inducing points, {m} rows, log evidence {self.log_evidence:.6g})"


class ConditionalMeanPosterior(SparsePosterior):
    """The posterior of g(x) = E[f | x], of which the targets are noisy values: better to predict these with than f.

    With w = R⁻¹k(u, x) and R Rᵀ = k(u, u) + τ²I, w ↦ wᵀμ̃ is the mean of g(x) and wᵀVw' its covariance as far as the
    inducing points resolve it. What they leave open is k(x, x') - wᵀw' (Theorem 5.3, part 2). Learning has taken that
    for noise, so that it is no more than σ² for the average row: it is scaled down to that where it is more.

    >>> from decond.kernels import RBF
    >>> from decond.streaming import SparseModel, Table
    >>> model = SparseModel(RBF(), inducing=[[0.0], [2.0]], noise=0.1)
    >>> posterior = model.condition(model.statistics(Table([[0.0], [2.0]], [1.0, -1.0])), of="targets")
    >>> posterior.mean([[0.0]]).round(2)
    array([0.99])
    """

    def __init__(self, model: Any, statistics: Statistics, flat: bool) -> None:
        super().__init__(model, statistics, flat)
        self._weights = multiply(self._whitening.root.T, self._head.mean)
        noise = model.ridges.noise
        self._share = noise / max(noise, statistics.unresolved)

    def _variances(self, x: np.ndarray, cross: np.ndarray) -> np.ndarray:
        white = multiply(self._whitening.root, cross)
        resolved = (white * multiply(self._head.covariance, white)).sum(axis=0)
        return resolved + self._share * (self.prior.covariance.diagonal(x) - (white**2).sum(axis=0))

    def _covariances(self, x: np.ndarray, cross: np.ndarray) -> np.ndarray:
        white = multiply(self._whitening.root, cross)
        resolved = multiply(white.T, multiply(self._head.covariance, white))
        return resolved + self._share * (self.prior.covariance.gram(x, x) - multiply(white.T, white))
