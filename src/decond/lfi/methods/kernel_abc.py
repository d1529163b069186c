"""Posterior embeddings in closed form: kernel Bayes' rule, K-ABC on summaries, K2-ABC on raw data sets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from decond.checks import as_count, as_generator, as_number
from decond.embeddings import ConditionalMeanOperator, KernelBayesRule, MeanEmbedding
from decond.errors import ArgumentError
from decond.kernels import RBF, Kernel, median_heuristic
from decond.lfi.exceptions import ExtrapolationWarning, PosteriorWarning
from decond.lfi.methods.kernel_posterior import KernelMethod
from decond.lfi.methods.method import SummaryOption
from decond.lfi.posterior_draws import Observation, Posterior, Seed
from decond.lfi.sampling import effective_sample_size
from decond.lfi.simulations import Simulations

__all__ = ["K2ABC", "KABC", "KBR"]


@dataclass(eq=False, repr=False)
class KBR(KernelMethod):
    """The posterior embedding by kernel Bayes' rule, `decond.KernelBayesRule`. Simulations may come from anywhere.

    Parameters
    ----------
    variant : {"a", "b", "importance"}, optional
        "a", "b" or "importance", as there.
    regularizer : {"I", "II"}, optional
        "I" or "II", as there.
    kernel_x : Kernel, optional
        The kernel of the data, in their units, with ``summary="none"``; by default Gaussian on standardized data,
        with the median distance as lengthscale.
    kernel_theta : Kernel, optional
        The kernel of the parameters, in their units; by default likewise, on working coordinates.
    regularization : float, optional
        The paper's λ.
    evidence_regularization : float, optional
        The paper's ε.
    n_prior : int, optional
        The number of draws of the prior.
    robust : bool, optional
        Set negative weights to zero and herd with a quarter of the lengthscale of θ; False is as published:
        signed weights, and the same kernel.
    seed : int, Generator or None, optional
        Of the draws of the prior, and of the order of samples.
    summary : {"auto", "none", "learned"}, optional
        What the method sees of the data, see `Method`.

    References
    ----------
    K. Fukumizu, L. Song and A. Gretton, Kernel Bayes' rule: Bayesian inference with positive definite kernels, JMLR
    14, 2013.

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> theta = prior.sample(200, seed=0)
    >>> sims = Simulations(theta=theta, x=theta + rng.standard_normal(theta.shape))
    >>> bool(abs(KBR().fit(sims, prior).posterior([1.0]).mean()[0] - 0.5) < 0.3)  # exact: 0.5
    True
    """

    variant: Literal["a", "b", "importance"] = "b"
    regularizer: Literal["I", "II"] = "I"
    kernel_x: Kernel | None = None
    kernel_theta: Kernel | None = None
    regularization: float = 1e-2
    evidence_regularization: float = 1e-2
    n_prior: int = 1000
    robust: bool = True
    seed: Seed = 0
    summary: SummaryOption = "auto"

    def _fit(self) -> None:
        draws, _ = self._valid_prior_draws(as_count(self.n_prior, "n_prior"), as_generator(self.seed))
        self.rule_ = KernelBayesRule(
            self._on_data(self.kernel_x) or RBF(median_heuristic(self.x_)),
            self._on_parameters(self.kernel_theta) or RBF(median_heuristic(self.phi_)),
            self.variant,
            self.regularizer,
            self.regularization,
            self.evidence_regularization,
        ).fit(self.x_, self.phi_, draws)

    def _posterior(self, observed: np.ndarray) -> Posterior:
        embedding = self.rule_.embedding(observed[0])
        effective = effective_sample_size(self.rule_.kernel_x.gram(self.x_, observed))
        notes = self._weight_notes(float(embedding.weights.sum()), effective)
        return self._embedded_posterior(embedding, effective=effective, notes=notes)


@dataclass(eq=False, repr=False)
class KABC(KernelMethod):
    """Weights (K + nλI)⁻¹ k(y) on the simulated parameters: kernel regression of θ on x.

    It is the conditional mean embedding of θ given x. The simulations have to be draws from the prior.

    Parameters
    ----------
    kernel_x : Kernel, optional
        The kernel of the data, in their units, with ``summary="none"``; by default Gaussian on standardized data,
        with the median distance as lengthscale.
    kernel_theta : Kernel, optional
        The kernel of the parameters, in their units; by default likewise, on working coordinates.
    regularization : float, optional
        The λ of the formula.
    robust : bool, optional
        Set negative weights to zero and herd with a quarter of the lengthscale of θ; False is as published:
        signed weights, and the same kernel.
    seed : int, Generator or None, optional
        Of the order of samples.
    summary : {"auto", "none", "learned"}, optional
        What the method sees of the data, see `Method`.

    References
    ----------
    S. Nakagome, K. Fukumizu and S. Mano, Kernel approximate Bayesian computation in population genetic inferences,
    SAGMB 12, 2013. https://doi.org/10.1515/sagmb-2012-0050

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> theta = prior.sample(200, seed=0)
    >>> sims = Simulations(theta=theta, x=theta + rng.standard_normal(theta.shape))
    >>> bool(abs(KABC().fit(sims, prior).posterior([1.0]).mean()[0] - 0.5) < 0.3)  # exact: 0.5
    True
    """

    kernel_x: Kernel | None = None
    kernel_theta: Kernel | None = None
    regularization: float = 1e-2
    robust: bool = True
    seed: Seed = 0
    summary: SummaryOption = "auto"

    needs_prior_draws = True

    def _fit(self) -> None:
        kernel_theta = self._on_parameters(self.kernel_theta) or RBF(median_heuristic(self.phi_))
        kernel_x = self._on_data(self.kernel_x) or RBF(median_heuristic(self.x_))
        self.operator_ = ConditionalMeanOperator(kernel_theta, kernel_x, self.regularization).fit(self.phi_, self.x_)

    def _posterior(self, observed: np.ndarray) -> Posterior:
        embedding = self.operator_.embedding(observed[0])
        effective = effective_sample_size(self.operator_.kernel_y.gram(self.x_, observed))
        notes = self._weight_notes(float(embedding.weights.sum()), effective)
        return self._embedded_posterior(embedding, effective=effective, notes=notes)


@dataclass(eq=False, repr=False)
class K2ABC(KernelMethod):
    """Weights exp(-MMD²/ε) on the simulated parameters, from whole data sets.

    No summaries are needed: the distance between the observed data set and a simulated one is that of their mean
    embeddings. Simulations carry their data sets in `raw`, of shape (n, N) or (n, N, p), and `posterior` takes the
    observed data set, (N,) or (N, p), of any length N. The simulations have to be draws from the prior.

    Parameters
    ----------
    kernel_raw : Kernel, optional
        The kernel of single values; by default Gaussian with the median distance as lengthscale.
    kernel_theta : Kernel, optional
        The kernel of the parameters, in their units; by default Gaussian on working coordinates.
    epsilon : float, optional
        The ε of the weights.
    quantile : float, optional
        Without `epsilon`, ε is the MMD² below which this share of the simulations lies.
    robust : bool, optional
        Herd with a quarter of the lengthscale of θ; False, as published, with all of it.
    seed : int, Generator or None, optional
        Of the order of samples.
    summary : {"auto", "none", "learned"}, optional
        Not used.

    References
    ----------
    M. Park, W. Jitkrittum and D. Sejdinovic, K2-ABC: approximate Bayesian computation with kernel embeddings, AISTATS
    2016.

    Examples
    --------
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

    kernel_raw: Kernel | None = None
    kernel_theta: Kernel | None = None
    epsilon: float | None = None
    quantile: float = 0.1
    robust: bool = True
    seed: Seed = 0
    summary: SummaryOption = "none"

    needs_prior_draws = True
    takes_raw = True

    def _fit(self) -> None:
        if self.epsilon is not None:
            as_number(self.epsilon, "epsilon", minimum=0.0, strict=True)
        if not 0.0 < as_number(self.quantile, "quantile") <= 1.0:
            raise ArgumentError(
                "quantile", f"quantile is {self.quantile!r}; give a share of the simulations, for example 0.1."
            )
        self.raw_ = _data_sets(self.sims_)
        pooled = self.raw_.reshape(-1, self.raw_.shape[2])
        step = max(1, len(pooled) // 2000)  # a median of 2,000 values is as good as one of all
        self.kernel_raw_: Kernel = self.kernel_raw or RBF(median_heuristic(pooled[::step]))
        self.kernel_theta_ = self._on_parameters(self.kernel_theta) or RBF(median_heuristic(self.phi_))
        self._within = np.array([self.kernel_raw_.gram(rows, rows).mean() for rows in self.raw_])

    def _posterior(self, observed: np.ndarray) -> Posterior:
        self.discrepancy_ = self._squared_mmd(observed)
        epsilon = self.epsilon if self.epsilon is not None else float(np.quantile(self.discrepancy_, self.quantile))
        weights = np.exp(-(self.discrepancy_ - self.discrepancy_.min()) / max(epsilon, 1e-300))
        effective = effective_sample_size(weights)
        embedding = MeanEmbedding(self.kernel_theta_, self.phi_, weights / weights.sum())
        return self._embedded_posterior(embedding, effective=effective, notes=self._weight_notes(1.0, effective))

    def _squared_mmd(self, observed: np.ndarray) -> np.ndarray:
        """Return MMD² between the observed data set and each simulated one."""
        n, size, width = self.raw_.shape
        across = self.kernel_raw_.gram(self.raw_.reshape(n * size, width), observed).mean(axis=1)
        own = self.kernel_raw_.gram(observed, observed).mean()
        squared: np.ndarray = self._within + own - 2.0 * across.reshape(n, size).mean(axis=1)
        return np.maximum(squared, 0.0)

    def _as_observation(self, observed: Observation, sims: Simulations, iid: bool) -> np.ndarray:
        """Return the observed data set as rows (N, p); raise unless its values are like those simulated."""
        width = _data_sets(sims).shape[2]
        data = np.asarray(observed, dtype=np.float64)
        data = data[:, None] if data.ndim == 1 else data
        if data.ndim != 2 or data.shape[1] != width or len(data) == 0 or not np.isfinite(data).all():
            raise ArgumentError(
                "observed",
                f"observed has shape {np.asarray(observed).shape}; K2-ABC takes the raw data set observed, N finite "
                f"rows of {width} value(s), not its summaries.",
            )
        return data

    def _summarize(self, row: np.ndarray) -> np.ndarray:
        return row

    def _outside_notes(self, row: np.ndarray, names: Sequence[str] | None) -> list[PosteriorWarning]:
        nearest = float(self.discrepancy_.min())
        if nearest < 0.5:  # with a Gaussian kernel MMD² is at most 2, and data sets of one kind hardly reach this
            return []
        text = (
            f"the observed data set lies outside what was simulated: its smallest MMD² to a simulation is "
            f"{nearest:.2g}. The posterior is an extrapolation; check the model, or widen the prior."
        )
        return [ExtrapolationWarning(text, nearest)]


def _data_sets(sims: Simulations) -> np.ndarray:
    """Return the raw data sets of valid simulations, (n, N, p); raise if there are none of one shape."""
    raw: ArrayLike | None = sims.raw
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
    valid = np.asarray(sets, dtype=np.float64)[sims.valid]
    if not np.isfinite(valid).all():
        raise ArgumentError(
            "sims.raw", "raw has NaN or infinite values in valid simulations; mark those simulations as failed."
        )
    return valid.reshape(len(valid), -1, 1 if sets.ndim == 2 else sets.shape[2])
