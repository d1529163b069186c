"""Random Fourier features of stationary kernels (Rahimi & Recht 2007; orthogonal: Yu et al. 2016)."""

from typing import Any

import numpy as np

from decond.backend import namespace
from decond.checks import as_count
from decond.errors import ArgumentTypeError
from decond.features.base import FeatureMap, as_kernel
from decond.kernels.base import Kernel

__all__ = ["RandomFourier"]


class RandomFourier(FeatureMap):
    """Cosines and sines at random frequencies: φ(a)·φ(b) is an unbiased estimate of k(a, b).

    `n_frequencies` frequencies give twice as many features. With `orthogonal`, frequencies are orthogonal within
    blocks, which lowers the variance. The same seed gives the same frequencies, scaled by the kernel's
    lengthscale.

    >>> from decond.kernels import RBF
    >>> phi = RandomFourier(RBF(), n_frequencies=2000, seed=0)
    >>> abs(phi.kernel()([[0.0]], [[1.0]]) - RBF()([[0.0]], [[1.0]])).item() < 0.05
    True
    """

    base: Kernel
    n_frequencies: int = 100
    seed: int = 0
    orthogonal: bool = False

    def __post_init__(self) -> None:
        """Check the number of frequencies."""
        object.__setattr__(self, "base", as_kernel(self.base, "base"))
        as_count(self.n_frequencies, "RandomFourier: n_frequencies")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int | np.integer):
            raise ArgumentTypeError(
                "seed",
                f"RandomFourier: seed is {self.seed!r}; a whole number is needed, so that every call draws the same "
                "frequencies.",
            )
        super().__post_init__()

    def transform(self, a: Any) -> Any:
        """Return √(k(0)/D) [cos(a·w), sin(a·w)]."""
        rng = np.random.default_rng(self.seed)
        spectrum = self.base.spectrum(self.n_frequencies, a.shape[1], rng, self.orthogonal)
        xp = namespace(a, spectrum.frequencies, spectrum.variance)
        angle = a @ spectrum.frequencies.T
        scale = xp.sqrt(spectrum.variance / self.n_frequencies)
        return scale * xp.concatenate([xp.cos(angle), xp.sin(angle)], axis=1)
