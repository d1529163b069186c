"""Every distribution is a weighted set of points under a kernel."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from decond.checks import as_count, as_values, as_weights, frozen
from decond.embeddings.herding import Herding
from decond.errors import ArgumentError, ArgumentTypeError
from decond.features import as_kernel
from decond.kernels.kernel import Kernel
from decond.parameters import Kept, same

if TYPE_CHECKING:
    from decond.plotting import EmbeddingDisplay
    from decond.plotting.display import AxesLike

__all__ = ["MeanEmbedding"]


class MeanEmbedding(Kept):
    """The function μ(q) = Σ_i w_i k(x_i, q): a distribution in a reproducing kernel Hilbert space.

    Weights may be negative and need not sum to one, as those of conditional and deconditional embeddings do not.
    They default to 1/n, the empirical distribution.

    >>> from decond.kernels import RBF
    >>> mu = MeanEmbedding(RBF(), [[0.0], [2.0]])
    >>> mu.expectation(lambda x: x[:, 0])
    1.0
    >>> mu([[0.0]]).round(4)
    array([0.5677])
    """

    def __init__(self, kernel: Kernel, points: ArrayLike, weights: ArrayLike | None = None) -> None:
        self.kernel = as_kernel(kernel, "kernel")
        self.points: np.ndarray = frozen(self.kernel.points(points, "points"))
        self.weights: np.ndarray = frozen(as_weights(weights, "weights", len(self.points), "points"))

    def _fields(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "points": self.points, "weights": self.weights}

    def __call__(self, q: ArrayLike) -> np.ndarray:
        """Return μ at the rows of q."""
        return self.kernel.matmul(q, self.points, self.weights)

    def expectation(self, values: Any | Callable[[np.ndarray], Any]) -> Any:
        """Return Σ_i w_i f(x_i) = ⟨μ, f⟩, given f as a function of rows or as its values at the points."""
        given = values(self.points) if callable(values) else values
        f = as_values(given, "values", len(self.points), "points")
        result = self.weights @ f
        return float(result) if f.ndim == 1 else result

    def inner(self, other: "MeanEmbedding") -> float:
        """Return ⟨μ, ν⟩; the other embedding has to live under the same kernel."""
        self._check_same_space(other)
        return float(self.weights @ self.kernel.matmul(self.points, other.points, other.weights))

    def norm(self) -> float:
        """Return √⟨μ, μ⟩."""
        return float(np.sqrt(max(self.inner(self), 0.0)))

    def mmd(self, other: "MeanEmbedding") -> float:
        """Return the maximum mean discrepancy ‖μ - ν‖: the norm of the difference, not its square."""
        self._check_same_space(other)
        points = np.concatenate([self.points, other.points])
        difference = MeanEmbedding(self.kernel, points, np.concatenate([self.weights, -other.weights]))
        return difference.norm()

    def normalized(self) -> "MeanEmbedding":
        """Return the embedding with weights scaled to sum to one."""
        total = float(self.weights.sum())
        if abs(total) <= 1e-12 * float(np.abs(self.weights).sum()):
            raise ArgumentError(
                "weights",
                f"the weights sum to {total:.3g}, so they cannot be scaled to sum to one. The query is far from the "
                "data, or the regularization is too strong: widen the kernel or lower it.",
            )
        return MeanEmbedding(self.kernel, self.points, self.weights / total)

    def herd(self, n: int, candidates: ArrayLike | None = None, kernel: Kernel | None = None) -> np.ndarray:
        """Return n super-samples (n, d) from the candidates (by default the points), see `decond.embeddings.herding`.

        Parameters
        ----------
        n : int
            How many samples.
        candidates : array_like of shape (c, d), optional
            Points to choose from; by default those of the embedding.
        kernel : Kernel, optional
            The kernel ℓ' between samples in the paper's Algorithm 8.1; by default that of the embedding.

        Returns
        -------
        ndarray of shape (n, d)
        """
        return self.herding(candidates, kernel).draw(as_count(n, "n"))

    def herding(self, candidates: ArrayLike | None = None, kernel: Kernel | None = None) -> Herding:
        """Return the herding process itself, from which samples can be drawn again and again.

        Parameters
        ----------
        candidates : array_like of shape (c, d), optional
            Points to choose from; by default those of the embedding.
        kernel : Kernel, optional
            The kernel ℓ' between samples in the paper's Algorithm 8.1; by default that of the embedding.

        Returns
        -------
        Herding
        """
        rows = self.points if candidates is None else self.kernel.points(candidates, "candidates")
        return Herding(self(rows), rows, self.kernel if kernel is None else as_kernel(kernel, "kernel"))

    def plot(self, samples: ArrayLike | int | None = None, ax: "AxesLike" = None) -> "EmbeddingDisplay":
        """Draw the weights, negative ones too.

        Parameters
        ----------
        samples : array_like of shape (m, d) or int, optional
            Herded samples to be shown with them, or how many to herd.
        ax : axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        EmbeddingDisplay

        Examples
        --------
        >>> from decond.kernels import RBF
        >>> MeanEmbedding(RBF(), [[0.0], [2.0]], [1.2, -0.2]).plot(samples=3).ax_.get_title()
        '2 points, weights sum to 1, 1 negative'
        """
        from decond.plotting import EmbeddingDisplay

        return EmbeddingDisplay.from_embedding(self, samples, ax=ax)

    def _check_same_space(self, other: "MeanEmbedding") -> None:
        if not isinstance(other, MeanEmbedding):
            raise ArgumentTypeError(
                "other",
                f"the other embedding is a {type(other).__name__}; give a MeanEmbedding: of rows x it is "
                "MeanEmbedding(kernel, x), and of a BayesianMeanEmbedding embedding().",
            )
        if self.points.shape[1] != other.points.shape[1]:
            raise ArgumentError(
                "other",
                f"the points have {self.points.shape[1]} columns here but {other.points.shape[1]} there; embeddings "
                "can be compared only if they are of the same variables.",
            )
        if not same(self.kernel, other.kernel):
            raise ArgumentError(
                "other",
                f"one embedding has kernel {self.kernel!r}, the other {other.kernel!r}; they can be compared only in "
                "the space of one kernel. Rebuild one of them: MeanEmbedding(kernel, other.points, other.weights).",
            )

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.points)

    def __repr__(self) -> str:
        """Show kernel, size and the sum of the weights."""
        return (
            f"MeanEmbedding({self.kernel!r}, {len(self)} points in {self.points.shape[1]} dimension(s), "
            f"weights sum to {self.weights.sum():.4g}, {int((self.weights < 0).sum())} negative)"
        )


def weights_expectation(weights: np.ndarray, values: ArrayLike, name: str, partner: str) -> np.ndarray:
    """Return weightsᵀ values for weights (n, q): the shared last step of all operators, (q,) or (q, k).

    Parameters
    ----------
    weights : ndarray of shape (n, q)
        A column of weights for each query.
    values : array_like of shape (n,) or (n, k)
        Values at the points.
    name : str
        The name of the values, for errors.
    partner : str
        What the values are paired with, for errors.

    Returns
    -------
    ndarray of shape (q,) or (q, k)
    """
    return weights.T @ as_values(values, name, len(weights), partner)
