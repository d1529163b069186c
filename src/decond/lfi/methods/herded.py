"""What the kernel methods share: lengthscales, draws by herding, and what to say about weights."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from decond.embeddings import MeanEmbedding
from decond.kernels import RBF, Kernel, median_heuristic
from decond.lfi.exceptions import (
    DegenerateDrawsWarning,
    FewSimulationsWarning,
    PosteriorWarning,
    PriorReturnedWarning,
    WeightSumWarning,
)
from decond.lfi.methods.base import Method
from decond.lfi.methods.units import InUnits
from decond.lfi.posterior import Posterior
from decond.lfi.prior import Prior

__all__ = [
    "HerdedSampler",
    "clipped_posterior",
    "effective_number",
    "evidence_in_data_units",
    "herded_posterior",
    "kernel_posterior",
    "lengthscales_of",
    "median_kernel",
    "narrowed",
    "valid_prior_draws",
    "weight_notes",
]

HERDING = 0.25
"""Lengthscale of the kernel between herded samples, as a share of that of θ."""

BANK = 10_000
"""Herded draws that are made at once; any number of them comes in random order."""

PREVIEW = 1_000
"""Herded draws that are looked at before a posterior is handed out."""

FEW_DISTINCT = 50
"""Fewer distinct draws than this among the first `PREVIEW` are worth a warning."""

FEW_EFFECTIVE = 10.0
"""Fewer effective simulations than this are worth a warning."""

TRIES = 200
"""Batches of prior draws after which the valid ones are taken to be too rare to wait for."""


class HerdedSampler:
    """Draws of parameters from an embedding on working coordinates, by herding among candidates.

    The first 10,000 are herded once. A call returns some of them in random order, or herds further.
    """

    def __init__(
        self, prior: Prior, embedding: MeanEmbedding, candidates: np.ndarray, kernel: Kernel | None = None
    ) -> None:
        self._candidates = prior.from_working(candidates)
        self._herding = embedding.herding(candidates, kernel)
        self._bank = np.empty(0, dtype=int)

    def distinct(self, n: int = PREVIEW) -> int:
        """Return how many distinct candidates there are among the first n draws."""
        return len(np.unique(self._first(n)))

    def __call__(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws (n, d)."""
        chosen = rng.permutation(self._first(max(n, BANK)))[:n]
        return self._candidates[chosen]

    def _first(self, n: int) -> np.ndarray:
        if n > len(self._bank):
            self._bank = np.concatenate([self._bank, self._herding.draw_indices(n - len(self._bank))])
        return self._bank[:n]


def herded_posterior(
    prior: Prior,
    embedding: MeanEmbedding,
    kernel: Kernel | None = None,
    *,
    candidates: np.ndarray | None = None,
    notes: Iterable[str | PosteriorWarning] = (),
    **known: Any,
) -> Posterior:
    """Return a posterior whose draws are herded from an embedding, with a note if they are nearly all the same.

    Draws are among the candidates, by default the points of the embedding. This is the published way: weights keep
    their signs, and the kernel between draws is that of the embedding unless another is given.
    """
    sampler = HerdedSampler(prior, embedding, embedding.points if candidates is None else candidates, kernel)
    told = list(notes)
    distinct = sampler.distinct()
    if distinct < FEW_DISTINCT:
        text = (
            f"only {distinct} of the first {PREVIEW} draws are distinct: the posterior sits on few points. More "
            "simulations near the observation, or another round, give it a shape."
        )
        told.append(DegenerateDrawsWarning(text, distinct, PREVIEW))
    return Posterior(prior, sampler, embedding=known.pop("shown", embedding), notes=told, **known)


def clipped_posterior(
    prior: Prior, embedding: MeanEmbedding, kernel: Kernel | None = None, **known: Any
) -> Posterior:
    """Return a posterior that carries an embedding and herds it with negative weights set to zero.

    The kernel to herd with is narrow: a wide one, good as it is for learning, is content with a few points.
    By default it has a quarter of the lengthscale of the embedding's kernel, and its units.
    """
    weights = np.maximum(embedding.weights, 0.0)
    notes = list(known.pop("notes", ()))
    if weights.sum() <= 0.0:
        weights = np.ones(len(weights))
        notes.append(PriorReturnedWarning("no weight is positive, so the posterior is the prior."))
    narrow = kernel or narrowed(embedding.kernel, embedding.points)
    herded = MeanEmbedding(narrow, embedding.points, weights / weights.sum())
    return herded_posterior(prior, herded, shown=embedding, notes=notes, **known)


def kernel_posterior(prior: Prior, embedding: MeanEmbedding, robust: bool, **known: Any) -> Posterior:
    """Return the posterior of an embedding: herded as published, or without negative weights and narrowly."""
    return (clipped_posterior if robust else herded_posterior)(prior, embedding, **known)


def narrowed(kernel: Kernel, rows: np.ndarray) -> Kernel:
    """Return a Gaussian kernel with a quarter of a kernel's lengthscale, or of half the rows' median distance."""
    inner = kernel.kernel if isinstance(kernel, InUnits) else kernel
    lengthscale = getattr(inner, "lengthscale", None)
    if lengthscale is None:
        return RBF(HERDING * 0.5 * median_heuristic(rows))
    narrow = RBF(HERDING * lengthscale)
    return InUnits(narrow, kernel.back) if isinstance(kernel, InUnits) else narrow


def lengthscales_of(kernel: Kernel, rows: np.ndarray) -> np.ndarray:
    """Return a kernel's lengthscale in each column of rows; half their median distance if it has none.

    For a kernel in other units it is as large a share of each column's spread as it is there.
    """
    inner = kernel.kernel if isinstance(kernel, InUnits) else kernel
    lengthscale = getattr(inner, "lengthscale", None)
    if lengthscale is None:
        return np.full(rows.shape[1], 0.5 * median_heuristic(rows))
    per_unit = np.ones(rows.shape[1])
    if isinstance(kernel, InUnits):
        spread = kernel.back(rows).std(axis=0)
        per_unit = rows.std(axis=0) / np.where(spread > 0.0, spread, 1.0)
    return np.asarray(lengthscale, dtype=np.float64) * per_unit


def weight_notes(total: float, effective: float, expected: float = 1.0, slack: float = 2.0) -> list[PosteriorWarning]:
    """Return warnings of a sum of weights far from the expected one, and of few effective simulations."""
    notes: list[PosteriorWarning] = []
    if not 1.0 / slack <= total / expected <= slack:
        text = (
            f"the weights of the posterior sum to {total:.3g} where {expected:.3g} is expected: the observation lies "
            "where few simulations went, or the hyperparameters do not fit. Draws follow their shape only."
        )
        notes.append(WeightSumWarning(text, total, expected))
    if effective < FEW_EFFECTIVE:
        text = (
            f"the posterior rests on {effective:.1f} effective simulations only. Run more, for example another round "
            "of proposals from this posterior."
        )
        notes.append(FewSimulationsWarning(text, effective, FEW_EFFECTIVE))
    return notes


def effective_number(weights: np.ndarray) -> float:
    """Return how many equal weights would be worth as much as these: (Σ|w|)² / Σw², 0 if all are zero.

    >>> effective_number(np.array([1.0, 1.0, 0.0]))
    2.0
    """
    size = float(np.abs(weights).max(initial=0.0))
    if size == 0.0 or not np.isfinite(size):
        return 0.0
    scaled = np.abs(weights) / size
    return float(scaled.sum() ** 2 / (scaled**2).sum())


def median_kernel(rows: np.ndarray, factor: float = 1.0) -> RBF:
    """Return a Gaussian kernel with a multiple of the median distance as lengthscale."""
    return RBF(factor * median_heuristic(rows))


def evidence_in_data_units(method: Method, log_evidence: float | None) -> float | None:
    """Return the log evidence of standardized data as that of the data; None if summaries are learned."""
    if log_evidence is None or method._learned is not None:
        return None
    return log_evidence - float(np.log(method._scale.scale).sum() + np.log(method._summary_scale.scale).sum())


def valid_prior_draws(method: Method, n: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Return n draws φ of the prior at which a simulation is valid, and the share of draws that are kept as such.

    Each draw is kept with probability P(valid | θ): an observation is a valid simulation.
    """
    kept = np.empty((0, method.prior_.dim))
    tried = 0
    for _ in range(TRIES):
        phi = method.prior_.to_working(method.prior_.sample(n, rng))
        chance = np.exp(method.log_valid_(phi))
        kept = np.concatenate([kept, phi[rng.random(n) < chance]])
        tried += n
        if len(kept) >= n:
            return kept[:n], len(kept) / tried
    return method.phi_[rng.integers(len(method.phi_), size=n)], max(len(kept), 1) / tried
