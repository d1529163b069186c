"""What kernel methods share: kernels in the user's units, prior draws, herded posteriors and their warnings."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from decond.embeddings import MeanEmbedding
from decond.errors import ArgumentError
from decond.features import as_kernel
from decond.kernels import RBF, Kernel, median_heuristic
from decond.lfi.exceptions import (
    DegenerateDrawsWarning,
    FewSimulationsWarning,
    PosteriorWarning,
    PriorReturnedWarning,
    WeightSumWarning,
)
from decond.lfi.methods.method import Method
from decond.lfi.posterior_draws import Posterior, ToParameters
from decond.lfi.prior import Prior
from decond.parameters import Kept

__all__ = ["InUnits", "KernelMethod", "KernelSettings", "lengthscales_of", "narrowed"]


@dataclass(frozen=True)
class KernelSettings:
    """How posteriors are herded and when the user is warned."""

    narrowing: float = 0.25
    """Lengthscale between robust super-samples, as a share of that of θ. Rule of thumb: a wide kernel, good as it is
    for learning, is content with a few points."""
    bank: int = 10_000
    """Super-samples that are herded at once; as many as the draws behind a posterior's summaries."""
    preview: int = 1_000
    """Super-samples that are looked at before a posterior is returned."""
    few_distinct: int = 50
    """Warn if fewer of the preview are distinct: quantiles need about as many. Rule of thumb."""
    few_effective: float = 10.0
    """Warn if the effective sample size is smaller. Rule of thumb."""
    refreshes: int = 2
    """How often robust methods draw anew where the posterior is. Rule of thumb."""
    near: float = 0.75
    """Share of refreshed draws that come from around the posterior so far. The rest, from the prior, bounds the
    importance weights by 4 (defensive mixture, Hesterberg 1995)."""
    centers: int = 500
    """Draws of the posterior so far around which new ones are made. Rule of thumb."""


class InUnits(Kernel):
    """A kernel of points in the user's units, as a kernel of the coordinates that a method computes with.

    `back` turns rows of these coordinates into the user's units.

    >>> from decond.kernels import Linear
    >>> InUnits(Linear(), lambda rows: 1000.0 * rows)([[1.0]], [[2.0]])
    array([[2000000.]])
    """

    kernel: Kernel
    back: Callable[[NDArray[np.float64]], NDArray[np.float64]]

    def _gram(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.kernel.gram(self.back(a), self.back(b))

    def diagonal(self, a: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the diagonal for rows in the user's units."""
        return self.kernel.diagonal(self.back(a))


@dataclass(frozen=True, eq=False)
class Destandardizer(Kept):
    """The map from a method's standardized data back to the data."""

    center: np.ndarray
    scale: np.ndarray

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return self.center + self.scale * rows


class KernelMethod(Method):
    """A method whose posterior is an embedding in the space of a kernel of the parameters.

    Attributes
    ----------
    robust : bool
        Whether negative weights are set to zero and super-samples are herded with a narrow kernel.
    settings
        Numbers that are not arguments of the methods.
    """

    robust: bool
    settings = KernelSettings()

    def _on_parameters(self, kernel: Kernel | None, name: str = "kernel_theta") -> Kernel | None:
        """Return a kernel of parameters, if one is given, as a kernel of working coordinates."""
        return None if kernel is None else InUnits(as_kernel(kernel, name), ToParameters(self.prior_))

    def _on_data(self, kernel: Kernel | None) -> Kernel | None:
        """Return a kernel of data, if given, as a kernel of standardized data; raise if summaries are learned."""
        if kernel is None:
            return None
        if self._learned is not None:
            width = self.sims_.x.shape[1]
            raise ArgumentError(
                "kernel_x",
                f"kernel_x is {kernel!r}, in the units of the data, but summary={self.summary!r} replaces the "
                f'{width} columns of data by learned summaries, which have no such units. Give summary="none" to use '
                "the kernel on the data, or leave kernel_x out.",
            )
        return InUnits(as_kernel(kernel, "kernel_x"), self._to_data())

    def _to_data(self) -> Destandardizer:
        inner, outer = self._summary_scale, self._scale
        return Destandardizer(outer.center + outer.scale * inner.center, outer.scale * inner.scale)

    def _valid_prior_draws(self, n: int, rng: np.random.Generator, tries: int = 200) -> tuple[np.ndarray, float]:
        """Return n draws φ of the prior at which a simulation is valid, and the share of draws that are kept.

        Each draw is kept with probability P(valid | θ): an observation is a valid simulation. Where valid ones are
        too rare to wait for, the simulated parameters take their place.
        """
        kept = np.empty((0, self.prior_.dim))
        tried = 0
        for _ in range(tries):
            phi = self.prior_.to_working(self.prior_.sample(n, rng))
            probability = np.exp(self.log_valid_(phi))
            kept = np.concatenate([kept, phi[rng.random(n) < probability]])
            tried += n
            if len(kept) >= n:
                return kept[:n], len(kept) / tried
        return self.phi_[rng.integers(len(self.phi_), size=n)], max(len(kept), 1) / tried

    def _refreshed(
        self, kernel_theta: Kernel, draws: np.ndarray, posterior_weights: np.ndarray, n: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return up to n draws φ around the posterior, mixed with the prior, and their weights as prior draws.

        It moves draws of the posterior so far by half a lengthscale of θ. Weights are those of prior draws
        at which a simulation is valid; draws outside the prior's support are left out.
        """
        near, count = self.settings.near, self.settings.centers
        width = 0.5 * lengthscales_of(kernel_theta, self.phi_)
        centers = draws[rng.choice(len(draws), count, p=posterior_weights / posterior_weights.sum())]
        moved = centers[rng.integers(count, size=round(near * n))]
        moved = moved + width * rng.standard_normal(moved.shape)
        prior = self.prior_
        fresh = np.concatenate([moved, prior.to_working(prior.sample(n - len(moved), rng))])
        log_prior = prior.log_density_working(fresh)
        fresh, log_prior = fresh[np.isfinite(log_prior)], log_prior[np.isfinite(log_prior)]
        squares = cdist(fresh / width, centers / width, "sqeuclidean")
        log_near = logsumexp(-0.5 * squares, axis=1) - np.log(count) - np.log(np.sqrt(2.0 * np.pi) * width).sum()
        log_proposal = np.logaddexp(np.log(near) + log_near, np.log1p(-near) + log_prior)
        log_weights = log_prior + self.log_valid_(fresh) - log_proposal
        weights = np.exp(log_weights - log_weights.max())
        return fresh, weights / weights.sum()

    def _log_evidence_of_data(self, log_evidence: float | None) -> float | None:
        """Return the log evidence of standardized data as that of the data; None if summaries are learned."""
        if log_evidence is None or self._learned is not None:
            return None
        return log_evidence - float(np.log(self._scale.scale).sum() + np.log(self._summary_scale.scale).sum())

    def _weight_notes(self, total: float, effective: float, slack: float = 2.0) -> list[PosteriorWarning]:
        """Return warnings of weights whose sum is far from one, and of a small effective sample size."""
        notes: list[PosteriorWarning] = []
        if not 1.0 / slack <= total <= slack:
            text = (
                f"the weights of the posterior sum to {total:.3g} where 1 is expected: the observation lies where "
                "few simulations went, or the hyperparameters do not fit. Draws follow their shape only."
            )
            notes.append(WeightSumWarning(text, total, 1.0))
        few = self.settings.few_effective
        if effective < few:
            text = (
                f"the posterior rests on {effective:.1f} effective simulations only. Run more, for example another "
                "round of proposals from this posterior."
            )
            notes.append(FewSimulationsWarning(text, effective, few))
        return notes

    def _embedded_posterior(
        self,
        embedding: MeanEmbedding,
        *,
        effective: float,
        notes: Iterable[PosteriorWarning],
        kernel: Kernel | None = None,
        candidates: np.ndarray | None = None,
        log_evidence: float | None = None,
    ) -> Posterior:
        """Return the posterior of an embedding; its draws are herded among candidates, by default its points.

        As published, weights keep their signs, and the kernel between draws is that of the embedding unless another
        is given. A robust method sets negative weights to zero and narrows the kernel.
        """
        notes, source = list(notes), embedding
        if self.robust:
            weights = np.maximum(embedding.weights, 0.0)
            if weights.sum() <= 0.0:
                weights = np.ones(len(weights))
                notes.append(PriorReturnedWarning("no weight is positive, so the posterior is the prior."))
            kernel = kernel or narrowed(embedding.kernel, embedding.points, self.settings.narrowing)
            source, kernel = MeanEmbedding(kernel, embedding.points, weights / weights.sum()), None
        points = embedding.points if candidates is None else candidates
        sampler = HerdedDraws(self.prior_, source, points, kernel, self.settings.bank)
        preview = self.settings.preview
        distinct = len(np.unique(sampler.first(preview)))
        if distinct < self.settings.few_distinct:
            text = (
                f"only {distinct} of the first {preview} draws are distinct: the posterior sits on few points. More "
                "simulations near the observation, or another round, give it a shape."
            )
            notes.append(DegenerateDrawsWarning(text, distinct, preview))
        return Posterior(
            self.prior_,
            sampler,
            embedding=embedding,
            effective=effective,
            log_evidence=log_evidence,
            notes=notes,
            seed=self.seed,
        )


@dataclass(eq=False)
class HerdedDraws(Kept):
    """Draws of an embedding by herding among points (m, d); a bank is herded once, and calls permute some of it."""

    prior: Prior
    source: MeanEmbedding
    points: np.ndarray
    kernel: Kernel | None
    bank: int

    def __post_init__(self) -> None:
        self._herding = self.source.herding(self.points, self.kernel)
        self._chosen = np.empty(0, dtype=int)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (
            self.prior,
            self.source,
            self.points,
            self.kernel,
            self.bank,
        )  # rows that are remembered are many

    def __call__(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return self.prior.from_working(self.points[rng.permutation(self.first(max(n, self.bank)))[:n]])

    def first(self, n: int) -> np.ndarray:
        """Return the numbers of the first n draws among the candidates."""
        if n > len(self._chosen):
            self._chosen = np.concatenate([self._chosen, self._herding.draw_indices(n - len(self._chosen))])
        return self._chosen[:n]


def narrowed(kernel: Kernel, rows: NDArray[np.float64], factor: float) -> Kernel:
    """Return a Gaussian kernel with a share of a kernel's lengthscale, or of half the rows' median distance.

    Parameters
    ----------
    kernel : Kernel
        The kernel; units stay those of an `InUnits`.
    rows : ndarray of shape (n, d)
        Points that say how far is far where the kernel has no lengthscale.
    factor : float
        The share.
    """
    inner = kernel.kernel if isinstance(kernel, InUnits) else kernel
    lengthscale = getattr(inner, "lengthscale", None)
    if lengthscale is None:
        return RBF(factor * 0.5 * median_heuristic(rows))
    narrow = RBF(factor * lengthscale)
    return InUnits(narrow, kernel.back) if isinstance(kernel, InUnits) else narrow


def lengthscales_of(kernel: Kernel, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a kernel's lengthscale in each column of rows; half their median distance if it has none.

    For a kernel in other units it is as large a share of each column's spread as it is there.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    rows : ndarray of shape (n, d)
        Points in the coordinates that the method computes with.
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
