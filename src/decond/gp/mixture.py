"""Several posteriors averaged by their weights: what is known of f when hyperparameters are uncertain too."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from decond.gp.posterior import BLOCK_ENTRIES, Posterior

__all__ = ["MixturePosterior"]


class MixturePosterior:
    """Posteriors of f with weights: the views of one `Posterior`, with the spread between its parts added.

    `centers` are the weights of the mean: by default those of the mixture, but a mean may also be taken at the best
    hyperparameters only (weight zero for the rest), while deviations count every part:
    variance = Σ_s w_s [v_s + (mean_s - mean)²].

    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior, condition
    >>> one, two = (condition(FunctionPrior(RBF(l)), Direct([0.0], noise=0.1), [1.0]) for l in (1.0, 2.0))
    >>> MixturePosterior([one, two], [0.5, 0.5]).mean([[1.0]]).round(2)
    array([0.74])
    """

    def __init__(self, parts: Sequence[Posterior], weights: Any, centers: Any = None) -> None:
        self.parts = tuple(parts)
        self.weights = np.asarray(weights, dtype=np.float64)
        self.centers = self.weights if centers is None else np.asarray(centers, dtype=np.float64)

    @property
    def prior(self) -> Any:
        """The prior of the heaviest part."""
        return self._heaviest.prior

    @property
    def log_evidence(self) -> float:
        """Log p(z̃) of the heaviest part of the mean."""
        return self._heaviest.log_evidence

    @property
    def _heaviest(self) -> Posterior:
        return self.parts[int(np.argmax(self.centers))]

    def mean(self, x: Any) -> np.ndarray:
        """Return the mean of f at the rows of x: (q,), or (q, t) for several targets."""
        heavy = [(part, weight) for part, weight in zip(self.parts, self.centers, strict=True) if weight]
        return sum(weight * part.mean(x) for part, weight in heavy)

    def variance(self, x: Any) -> np.ndarray:
        """Return the variance of f at the rows of x: (q,), or (q, t) for several targets."""
        return self.moments(x)[1]

    def moments(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return `mean` and `variance` at the rows of x."""
        rows = self.prior.covariance.points(x, "x")
        height = max(1, BLOCK_ENTRIES // len(self.parts))
        blocks = [self._moments(rows[start : start + height]) for start in range(0, len(rows), height)]
        means, variances = zip(*blocks, strict=True)
        return np.concatenate(means), np.concatenate(variances)

    def _moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return them from those of all parts, which are held at once."""
        views = [part.moments(x) for part in self.parts]
        heavy = [(view, weight) for view, weight in zip(views, self.centers, strict=True) if weight]
        center = sum(weight * mean for (mean, _), weight in heavy)
        return center, _spread(views, self.weights, center)

    def std(self, x: Any) -> np.ndarray:
        """Return the standard deviation of f at the rows of x, shaped like the mean."""
        return np.sqrt(self.variance(x))

    def covariance(self, x: Any) -> np.ndarray:
        """Return the covariance of f between the rows of x: (q, q), or (q, q, t) for several targets."""
        center = self.mean(x)
        total = np.zeros((len(center), *center.shape))
        for part, weight in zip(self.parts, self.weights, strict=True):
            step = part.mean(x) - center
            within = part.covariance(x)
            within = within[:, :, None] if center.ndim == 2 else within
            total += weight * (within + step[:, None] * step[None, :])
        return total

    def sample(self, x: Any, n: int, seed: Any = None) -> np.ndarray:
        """Return n joint draws of f at the rows of x, each from a part drawn by weight: (n, q) or (n, q, t)."""
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(n, self.weights)
        draws = [part.sample(x, int(count), rng) for part, count in zip(self.parts, counts, strict=True) if count]
        return rng.permutation(np.concatenate(draws))

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances of each target predicted from the others, noise included."""
        views = [part.leave_one_out() for part in self.parts]
        mean = sum(weight * view[0] for view, weight in zip(views, self.weights, strict=True))
        return mean, _spread(views, self.weights, mean)

    def __repr__(self) -> str:
        """Show the number of parts and the log evidence."""
        return f"MixturePosterior({len(self.parts)} parts, log evidence {self.log_evidence:.6g})"


def _spread(views: Sequence[tuple[np.ndarray, np.ndarray]], weights: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Return Σ_s w_s [v_s + (mean_s - center)²] of views (mean_s, v_s)."""
    total = np.zeros_like(center)
    for (mean, variance), weight in zip(views, weights, strict=True):
        within = variance[:, None] if center.ndim == 2 else variance
        total += weight * (within + (mean - center) ** 2)
    return total
