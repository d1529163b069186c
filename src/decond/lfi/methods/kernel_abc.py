"""Approximate Bayesian computation with kernels: K-ABC by regression on summaries, K2-ABC on raw data sets."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from decond.checks import as_number
from decond.embeddings import ConditionalMeanOperator, MeanEmbedding
from decond.errors import ArgumentError
from decond.kernels import RBF, Kernel, median_heuristic
from decond.lfi.exceptions import ExtrapolationWarning, PosteriorWarning
from decond.lfi.methods.base import Method
from decond.lfi.methods.herded import effective_number, kernel_posterior, median_kernel, weight_notes
from decond.lfi.methods.units import on_data, on_parameters
from decond.lfi.posterior import Posterior
from decond.lfi.simulations import Simulations

__all__ = ["K2ABC", "KABC"]

POOLED = 2000
"""Raw values that the median distance is taken over."""


class KABC(Method):
    """Weights (K + nλI)⁻¹ k(y) on the simulated parameters: kernel regression of θ on x (Nakagome et al. 2013).

    It is the conditional mean embedding of θ given x. The simulations have to be draws from the prior.
    `regularization` is λ. Kernels that are given are in the units of the data (with ``summary="none"``) and of the
    parameters; the others are Gaussian, with median distances as lengthscales, on standardized data and working
    coordinates.

    `robust` sets negative weights to zero and herds with a quarter of the lengthscale of θ; False is as published:
    signed weights, and the same kernel.

    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> theta = prior.sample(200, seed=0)
    >>> sims = Simulations(theta=theta, x=theta + rng.standard_normal(theta.shape))
    >>> bool(abs(KABC().fit(sims, prior).posterior([1.0]).mean()[0] - 0.5) < 0.3)  # exact: 0.5
    True
    """

    needs_prior_draws = True

    def __init__(
        self,
        kernel_x: Kernel | None = None,
        kernel_theta: Kernel | None = None,
        regularization: float = 1e-2,
        robust: bool = True,
        seed: Any = 0,
        summary: str = "auto",
    ) -> None:
        self.kernel_x, self.kernel_theta, self.regularization = kernel_x, kernel_theta, regularization
        self.robust = robust
        self.seed, self.summary = seed, summary

    def _fit(self) -> None:
        kernel_theta = on_parameters(self, self.kernel_theta) or median_kernel(self.phi_)
        kernel_x = on_data(self, self.kernel_x) or median_kernel(self.x_)
        self.operator_ = ConditionalMeanOperator(kernel_theta, kernel_x, self.regularization).fit(self.phi_, self.x_)

    def _posterior(self, observed: np.ndarray) -> Posterior:
        embedding = self.operator_.embedding(observed[0])
        effective = effective_number(self.operator_.kernel_y.gram(self.x_, observed))
        notes = weight_notes(float(embedding.weights.sum()), effective)
        return kernel_posterior(self.prior_, embedding, self.robust, notes=notes, effective=effective, seed=self.seed)


class K2ABC(Method):
    """Weights exp(-MMD²/ε) on the simulated parameters, from whole data sets (Park, Jitkrittum & Sejdinovic 2016).

    No summaries are needed: the distance between the observed data set and a simulated one is that of their mean
    embeddings. Simulations carry their data sets in `raw`, of shape (n, N) or (n, N, p), and `posterior` takes the
    observed data set, (N,) or (N, p), of any length N. The simulations have to be draws from the prior.

    `kernel_raw` compares single values, by default Gaussian with the median distance as lengthscale; `kernel_theta`
    is in the units of the parameters. ε is `epsilon`, or, if that is None, the MMD² below which a share `quantile` of
    the simulations lies. `robust` herds with a quarter of the lengthscale of θ; False, as published, with all of it.

    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> theta = prior.sample(200, seed=0)
    >>> raw = theta + rng.standard_normal((200, 10))
    >>> sims = Simulations(theta=theta, x=raw.mean(axis=1, keepdims=True), raw=raw)
    >>> posterior = K2ABC().fit(sims, prior).posterior(1.0 + rng.standard_normal(10))
    >>> bool(abs(posterior.mean()[0] - 0.9) < 0.4)  # near 10/11 of the observed mean
    True
    """

    needs_prior_draws = True
    takes_raw = True

    def __init__(
        self,
        kernel_raw: Kernel | None = None,
        kernel_theta: Kernel | None = None,
        epsilon: float | None = None,
        quantile: float = 0.1,
        robust: bool = True,
        seed: Any = 0,
        summary: str = "none",
    ) -> None:
        self.kernel_raw, self.kernel_theta = kernel_raw, kernel_theta
        self.epsilon, self.quantile, self.robust = epsilon, quantile, robust
        self.seed, self.summary = seed, summary

    def check_observation(self, observed: Any, sims: Simulations) -> np.ndarray:
        """Return the observed data set as rows (N, p); raise unless its values are like those simulated."""
        return _data_set(observed, _width(sims.raw))

    def _fit(self) -> None:
        if self.epsilon is not None:
            as_number(self.epsilon, "epsilon", minimum=0.0, strict=True)
        if not 0.0 < as_number(self.quantile, "quantile") <= 1.0:
            raise ArgumentError(
                "quantile", f"quantile is {self.quantile!r}; give a share of the simulations, for example 0.1."
            )
        self.raw_ = _data_sets(self.sims_.raw, self.sims_.valid)
        pooled = self.raw_.reshape(-1, self.raw_.shape[2])
        step = max(1, len(pooled) // POOLED)
        self.kernel_raw_: Kernel = self.kernel_raw or RBF(median_heuristic(pooled[::step]))
        self.kernel_theta_ = on_parameters(self, self.kernel_theta) or median_kernel(self.phi_)
        self._within = np.array([self.kernel_raw_.gram(rows, rows).mean() for rows in self.raw_])

    def _posterior(self, observed: np.ndarray) -> Posterior:
        self.discrepancy_ = self._squared_mmd(observed)
        epsilon = self.epsilon if self.epsilon is not None else float(np.quantile(self.discrepancy_, self.quantile))
        weights = np.exp(-(self.discrepancy_ - self.discrepancy_.min()) / max(epsilon, 1e-300))
        effective = effective_number(weights)
        embedding = MeanEmbedding(self.kernel_theta_, self.phi_, weights / weights.sum())
        notes = weight_notes(1.0, effective)
        return kernel_posterior(self.prior_, embedding, self.robust, notes=notes, effective=effective, seed=self.seed)

    def _squared_mmd(self, observed: np.ndarray) -> np.ndarray:
        """Return MMD² between the observed data set and each simulated one."""
        n, size, width = self.raw_.shape
        across = self.kernel_raw_.gram(self.raw_.reshape(n * size, width), observed).mean(axis=1)
        own = self.kernel_raw_.gram(observed, observed).mean()
        squared: np.ndarray = self._within + own - 2.0 * across.reshape(n, size).mean(axis=1)
        return np.maximum(squared, 0.0)

    def _summarize(self, row: np.ndarray) -> np.ndarray:
        return row

    def _outside_notes(self, row: np.ndarray, names: Sequence[str] | None) -> list[PosteriorWarning]:
        nearest = float(self.discrepancy_.min())
        if nearest < FAR:
            return []
        text = (
            f"the observed data set lies outside what was simulated: its smallest MMD² to a simulation is "
            f"{nearest:.2g}. The posterior is an extrapolation; check the model, or widen the prior."
        )
        return [ExtrapolationWarning(text, nearest)]


FAR = 0.5
"""An MMD² that data sets of the same kind hardly reach; with a Gaussian kernel it is at most 2."""


def _width(raw: Any) -> int:
    """Return the number p of values in each row of the raw data sets; raise if there are none of one shape."""
    if raw is None:
        raise ArgumentError(
            "sims.raw",
            "K2-ABC compares raw data sets, but the simulations have none. Give Simulations(theta, x, raw=...) with "
            "raw of shape (n, N) or (n, N, p), or simulate with summarize=..., which keeps them; for summaries use "
            "KABC.",
        )
    sets = np.asarray(raw)
    if sets.dtype == object:
        raise ArgumentError(
            "sims.raw", "raw has data sets of different shapes; those simulated have to be of one, (N,) or (N, p)."
        )
    if sets.ndim not in (2, 3) or 0 in sets.shape:
        raise ArgumentError(
            "sims.raw", f"raw has shape {sets.shape}; give one data set for each simulation, (n, N) or (n, N, p)."
        )
    return 1 if sets.ndim == 2 else int(sets.shape[2])


def _data_sets(raw: Any, valid: np.ndarray) -> np.ndarray:
    """Return the raw data sets of valid simulations, (n, N, p)."""
    width = _width(raw)
    sets = np.asarray(raw, dtype=np.float64)[valid]
    if not np.isfinite(sets).all():
        raise ArgumentError(
            "sims.raw", "raw has NaN or infinite values in valid simulations; mark those simulations as failed."
        )
    return sets.reshape(len(sets), -1, width)


def _data_set(observed: Any, width: int) -> np.ndarray:
    data = np.asarray(observed, dtype=np.float64)
    data = data[:, None] if data.ndim == 1 else data
    if data.ndim != 2 or data.shape[1] != width or len(data) == 0 or not np.isfinite(data).all():
        raise ArgumentError(
            "observed",
            f"observed has shape {np.shape(observed)}; K2-ABC takes the raw data set observed, N finite rows of "
            f"{width} value(s), not its summaries.",
        )
    return data
