"""KELFI: a surrogate likelihood from conditional embeddings (Hsu & Ramos 2019, AISTATS)."""

from typing import Any

import numpy as np

from decond.checks import as_count, as_generator, check_choice
from decond.embeddings import ConditionalMeanOperator, MeanEmbedding
from decond.kernels import Kernel
from decond.lfi.exceptions import PriorReturnedWarning
from decond.lfi.methods.base import Method
from decond.lfi.methods.deconditioning import ripple
from decond.lfi.methods.dme_learning import Choice, Evidence, chosen_by_validation, given_or_learned
from decond.lfi.methods.herded import (
    effective_number,
    evidence_in_data_units,
    kernel_posterior,
    valid_prior_draws,
    weight_notes,
)
from decond.lfi.methods.refreshing import REFRESHES, refreshed
from decond.lfi.methods.units import on_data, on_parameters
from decond.lfi.posterior import Posterior

__all__ = ["KELFI"]

LARGE = np.array([1e8])
"""A δ at which the deconditional posterior is that of the surrogate likelihood."""


class KELFI(Method):
    """The likelihood q(y | θ) = κ_ε(y)ᵀ (L + nλI)⁻¹ ℓ(θ), times the prior, as an embedding on draws of the prior.

    κ_ε(y, x) is the density of the observation given that the simulator gave x: a Gaussian of width ε, or `kernel_x`.
    Lengthscales, ε and λ are chosen by validation, as `DME` does, or with ``objective="evidence"`` by the marginal
    surrogate likelihood, its average over the prior. `optimum="global"` searches widely, "local" climbs from the
    median heuristic. Kernels that are given are in the units of the data (with ``summary="none"``) and of the
    parameters; the others act on standardized data and on working coordinates. Simulations may come from anywhere.

    `robust` sets negative values of the likelihood and positive ones of the same size to zero, draws anew from the
    prior where the posterior is (twice), and herds with a quarter of the lengthscale of θ. KELFI as published is
    ``KELFI(objective="evidence", robust=False)``, which is fragile.

    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> theta = prior.sample(100, seed=0)
    >>> sims = Simulations(theta=theta, x=theta + rng.standard_normal(theta.shape))
    >>> posterior = KELFI(n_prior=300).fit(sims, prior).posterior([1.0])
    >>> bool(abs(posterior.mean()[0] - 0.5) < 0.3)  # exact: 0.5
    True
    """

    def __init__(
        self,
        kernel_x: Kernel | None = None,
        kernel_theta: Kernel | None = None,
        regularization: float | str = "learned",
        objective: str = "validation",
        optimum: str = "global",
        robust: bool = True,
        n_prior: int = 2000,
        seed: Any = 0,
        summary: str = "auto",
    ) -> None:
        self.kernel_x, self.kernel_theta, self.regularization = kernel_x, kernel_theta, regularization
        self.objective, self.optimum, self.robust, self.n_prior = objective, optimum, robust, n_prior
        self.seed, self.summary = seed, summary

    def _fit(self) -> None:
        check_choice(self.objective, "objective", ("evidence", "validation"))
        check_choice(self.optimum, "optimum", ("global", "local"))
        self._ridge = given_or_learned(self.regularization, "regularization")
        as_count(self.n_prior, "n_prior")
        self._kernels = on_parameters(self, self.kernel_theta), on_data(self, self.kernel_x)

    def _posterior(self, observed: np.ndarray) -> Posterior:
        rng = as_generator(self.seed)
        draws, valid = valid_prior_draws(self, self.n_prior, rng)
        evidence = Evidence(self.phi_, self.x_, observed, draws, *self._kernels, valid)
        self.choice_ = self._chosen(observed, evidence, rng)
        kernel_theta, kernel_x = self.choice_.kernel_theta, self.choice_.kernel_x
        closeness = kernel_x.gram(self.x_, observed)[:, 0]
        operator = ConditionalMeanOperator(kernel_x, kernel_theta, self.choice_.regularization)
        operator = operator.fit(self.x_, self.phi_)
        notes = weight_notes(1.0, effective_number(closeness))
        weights = np.full(len(draws), 1.0 / len(draws))
        likelihood = self._likelihood(operator, closeness, draws, weights)
        for _ in range(REFRESHES if self.robust else 0):
            if likelihood.any():
                draws, weights = refreshed(self, kernel_theta, draws, weights * likelihood, self.n_prior, rng)
                likelihood = self._likelihood(operator, closeness, draws, weights)
        if weights @ likelihood <= 0.0:
            likelihood = np.ones(len(draws))
            text = "no draw of the prior has a positive likelihood, so the posterior is the prior."
            notes.append(PriorReturnedWarning(text))
        embedding = MeanEmbedding(kernel_theta, draws, weights * likelihood / (weights @ likelihood))
        return kernel_posterior(
            self.prior_,
            embedding,
            self.robust,
            notes=notes,
            effective=effective_number(closeness),
            log_evidence=evidence_in_data_units(self, evidence.log_at(self.choice_)),
            seed=self.seed,
        )

    def _likelihood(
        self, operator: ConditionalMeanOperator, closeness: np.ndarray, draws: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Return q(y | θ) at the draws: as it is, or if robust without negative values and ripples."""
        signed = operator.expectation(closeness, draws)
        return np.maximum(signed - ripple(signed[:, None], weights)[0], 0.0) if self.robust else signed

    def _chosen(self, observed: np.ndarray, evidence: Evidence, rng: np.random.Generator) -> Choice:
        wide = self.optimum == "global"
        if self.objective == "evidence":
            return evidence.best(self._ridge, wide=wide)
        return chosen_by_validation(
            self.phi_,
            self.x_,
            observed,
            self._kernels,
            self._ridge,
            wide=wide,
            n=1,
            rng=rng,
            deltas=LARGE,
            contains=lambda phi: self.prior_.contains(self.prior_.from_working(phi)),
        )[0]
