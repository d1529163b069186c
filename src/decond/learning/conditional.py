"""How smooth the distribution of x given y is: the kernel of y and the ridge, chosen from the pairs alone.

The loss is that of the conditional mean embedding (section 3 of the paper) when each pair is left out in turn,
in closed form: mean_i [(I - H) K (I - H)]_ii / (1 - H_ii)² with H = L (L + ρI)⁻¹.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from decond.kernels.base import Kernel
from decond.linalg import multiply

__all__ = ["ConditionalChoice", "ConditionalGrid", "leave_one_out_losses"]


class ConditionalChoice(NamedTuple):
    """The kernel of y and the ridge ρ (the paper's nλ) with the smallest loss.

    >>> from decond.kernels import RBF
    >>> y = np.linspace(0, 6, 20)[:, None]
    >>> choice = ConditionalGrid([RBF(1.0)], y, np.array([1e-3, 1.0])).choose(RBF(0.5)(np.sin(y)))
    >>> choice.kernel, choice.ridge
    (RBF(lengthscale=1.0), 0.001)
    """

    kernel: Kernel
    ridge: float
    loss: float


class ConditionalGrid:
    """Some kernels of y and some ridges, to choose from for any kernel of x.

    >>> from decond.kernels import RBF
    >>> y = np.linspace(0, 6, 50)[:, None]
    >>> grid = ConditionalGrid([RBF(0.01), RBF(1.0), RBF(100.0)], y, np.array([1e-3, 1.0]))
    >>> grid.choose(RBF(0.5)(np.sin(y))).kernel
    RBF(lengthscale=1.0)
    """

    def __init__(self, kernels: Sequence[Kernel], y: np.ndarray, ridges: np.ndarray) -> None:
        self.kernels, self.ridges = tuple(kernels), ridges
        self._spectra = [eigh(kernel.gram(y, y)) for kernel in kernels]

    def choose(self, gram_x: np.ndarray) -> ConditionalChoice:
        """Return the best pair for embedding x given y, x seen through its Gram matrix."""
        best = ConditionalChoice(self.kernels[0], float(self.ridges[0]), np.inf)
        for kernel, spectrum in zip(self.kernels, self._spectra, strict=True):
            losses = leave_one_out_losses(gram_x, spectrum, self.ridges)
            least = int(np.argmin(losses))
            if losses[least] < best.loss:
                best = ConditionalChoice(kernel, float(self.ridges[least]), float(losses[least]))
        return best


def leave_one_out_losses(
    gram_x: np.ndarray, spectrum: tuple[np.ndarray, np.ndarray], ridges: np.ndarray
) -> np.ndarray:
    """Return the leave-one-out loss of the conditional embedding for every ridge, from L = U diag(w) Uᵀ.

    I - H = U diag(ρ / (w + ρ)) Uᵀ, so a ridge costs one product of n x n matrices.
    """
    w, U = spectrum
    rotated = multiply(multiply(U.T, gram_x), U)
    losses = np.empty(len(ridges))
    for i, ridge in enumerate(ridges):
        residual = U * (ridge / (np.maximum(w, 0.0) + ridge))
        errors = (multiply(residual, rotated) * residual).sum(axis=1)
        losses[i] = np.mean(errors / (residual * U).sum(axis=1) ** 2)
    return losses
