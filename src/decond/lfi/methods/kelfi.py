"""KELFI: a surrogate likelihood from conditional embeddings (Hsu & Ramos 2019, AISTATS)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from decond.checks import as_generator
from decond.embeddings import ConditionalMeanOperator, MeanEmbedding
from decond.kernels import Kernel
from decond.lfi.exceptions import PriorReturnedWarning
from decond.lfi.methods.deconditioning import ripple
from decond.lfi.methods.kernel_search import Choice, Evidence, SearchingMethod
from decond.lfi.methods.method import SummaryOption
from decond.lfi.posterior_draws import Posterior, Seed
from decond.lfi.sampling import effective_sample_size

__all__ = ["KELFI"]


@dataclass(eq=False, repr=False)
class KELFI(SearchingMethod):
    """The likelihood q(y | θ) = κ_ε(y)ᵀ (L + nλI)⁻¹ ℓ(θ), times the prior, as an embedding on draws of the prior.

    κ_ε(y, x) is the density of the observation given that the simulator gave x. Simulations may come from anywhere.
    KELFI as published is ``KELFI(objective="evidence", robust=False)``, which is fragile.

    Parameters
    ----------
    kernel_x : Kernel, optional
        κ_ε, in the units of the data, with ``summary="none"``; by default a Gaussian of width ε on standardized
        data.
    kernel_theta : Kernel, optional
        ℓ, in the units of the parameters; by default Gaussian on working coordinates.
    regularization : float or "learned", optional
        λ, a number or "learned".
    objective : {"validation", "evidence"}, optional
        What chooses lengthscales, ε and λ: "validation", as in `DME`, or "evidence", the marginal surrogate
        likelihood, its average over the prior.
    optimum : {"global", "local"}, optional
        "global" searches widely, "local" climbs from the median heuristic.
    robust : bool, optional
        Set negative values of the likelihood and positive ones of the same size to zero, draw anew from the prior
        where the posterior is (twice), and herd with a quarter of the lengthscale of θ.
    n_prior : int, optional
        The number of draws of the prior.
    seed : int, Generator or None, optional
        Of the draws of the prior, and of the order of samples.
    summary : {"auto", "none", "learned"}, optional
        What the method sees of the data, see `Method`.

    References
    ----------
    K. Hsu and F. Ramos, Bayesian learning of conditional kernel mean embeddings for automatic likelihood-free
    inference, AISTATS 2019.

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> theta = prior.sample(100, seed=0)
    >>> sims = Simulations(theta=theta, x=theta + rng.standard_normal(theta.shape))
    >>> posterior = KELFI(n_prior=300).fit(sims, prior).posterior([1.0])
    >>> bool(abs(posterior.mean()[0] - 0.5) < 0.3)  # exact: 0.5
    True
    """

    kernel_x: Kernel | None = None
    kernel_theta: Kernel | None = None
    regularization: float | Literal["learned"] = "learned"
    objective: Literal["validation", "evidence"] = "validation"
    optimum: Literal["global", "local"] = "global"
    robust: bool = True
    n_prior: int = 2000
    seed: Seed = 0
    summary: SummaryOption = "auto"

    def _fit(self) -> None:
        self._check_search()
        self._kernels = self._on_parameters(self.kernel_theta), self._on_data(self.kernel_x)

    def _posterior(self, observed: np.ndarray) -> Posterior:
        rng = as_generator(self.seed)
        draws, valid = self._valid_prior_draws(self.n_prior, rng)
        evidence = Evidence(self.phi_, self.x_, observed, draws, *self._kernels, valid, self.search)
        self.choice_ = self._chosen(observed, evidence, rng)
        kernel_theta, kernel_x = self.choice_.kernel_theta, self.choice_.kernel_x
        closeness = kernel_x.gram(self.x_, observed)[:, 0]
        operator = ConditionalMeanOperator(kernel_x, kernel_theta, self.choice_.regularization)
        operator = operator.fit(self.x_, self.phi_)
        effective = effective_sample_size(closeness)
        notes = self._weight_notes(1.0, effective)
        weights = np.full(len(draws), 1.0 / len(draws))
        likelihood = self._likelihood(operator, closeness, draws, weights)
        for _ in range(self.settings.refreshes if self.robust else 0):
            if likelihood.any():
                draws, weights = self._refreshed(kernel_theta, draws, weights * likelihood, self.n_prior, rng)
                likelihood = self._likelihood(operator, closeness, draws, weights)
        if weights @ likelihood <= 0.0:
            likelihood = np.ones(len(draws))
            text = "no draw of the prior has a positive likelihood, so the posterior is the prior."
            notes.append(PriorReturnedWarning(text))
        return self._embedded_posterior(
            MeanEmbedding(kernel_theta, draws, weights * likelihood / (weights @ likelihood)),
            effective=effective,
            notes=notes,
            log_evidence=self._log_evidence_of_data(evidence.log_at(self.choice_)),
        )

    def _likelihood(
        self, operator: ConditionalMeanOperator, closeness: np.ndarray, draws: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Return q(y | θ) at the draws: as it is, or if robust without negative values and ripples."""
        signed = operator.expectation(closeness, draws)
        return np.maximum(signed - ripple(signed[:, None], weights)[0], 0.0) if self.robust else signed

    def _chosen(self, observed: np.ndarray, evidence: Evidence, rng: np.random.Generator) -> Choice:
        if self.objective == "evidence":
            return evidence.best(self._ridge, wide=self.optimum == "global")
        prior = self.prior_
        large = [1e8]  # a δ at which the deconditional posterior is that of the surrogate likelihood
        return self._chosen_by_validation(
            self.phi_,
            self.x_,
            observed,
            self._kernels,
            large,
            lambda phi: prior.contains(prior.from_working(phi)),
            rng,
        )[0]
