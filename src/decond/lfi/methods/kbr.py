"""Kernel Bayes' rule for simulators (Fukumizu, Song & Gretton 2013; Song et al. 2013; Xu et al. 2022)."""

from typing import Any

import numpy as np

from decond.checks import as_count, as_generator
from decond.embeddings import KernelBayesRule
from decond.kernels import Kernel
from decond.lfi.methods.base import Method
from decond.lfi.methods.herded import (
    effective_number,
    kernel_posterior,
    median_kernel,
    valid_prior_draws,
    weight_notes,
)
from decond.lfi.methods.units import on_data, on_parameters
from decond.lfi.posterior import Posterior

__all__ = ["KBR"]


class KBR(Method):
    """The posterior embedding by `decond.KernelBayesRule`, with median distances as lengthscales.

    `variant` is "a", "b" or "importance" and `regularizer` "I" or "II", as there. Kernels that are given are in
    the units of the data (with ``summary="none"``) and of the parameters. Simulations may come from any proposal.

    `robust` sets negative weights to zero and herds with a quarter of the lengthscale of θ; False is as published:
    signed weights, and the same kernel.

    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> theta = prior.sample(200, seed=0)
    >>> sims = Simulations(theta=theta, x=theta + rng.standard_normal(theta.shape))
    >>> bool(abs(KBR().fit(sims, prior).posterior([1.0]).mean()[0] - 0.5) < 0.3)  # exact: 0.5
    True
    """

    def __init__(
        self,
        variant: str = "b",
        regularizer: str = "I",
        kernel_x: Kernel | None = None,
        kernel_theta: Kernel | None = None,
        regularization: float = 1e-2,
        evidence_regularization: float = 1e-2,
        n_prior: int = 1000,
        robust: bool = True,
        seed: Any = 0,
        summary: str = "auto",
    ) -> None:
        self.variant, self.regularizer = variant, regularizer
        self.kernel_x, self.kernel_theta = kernel_x, kernel_theta
        self.regularization, self.evidence_regularization = regularization, evidence_regularization
        self.n_prior, self.robust = n_prior, robust
        self.seed, self.summary = seed, summary

    def _fit(self) -> None:
        draws, _ = valid_prior_draws(self, as_count(self.n_prior, "n_prior"), as_generator(self.seed))
        self.rule_ = KernelBayesRule(
            on_data(self, self.kernel_x) or median_kernel(self.x_),
            on_parameters(self, self.kernel_theta) or median_kernel(self.phi_),
            self.variant,
            self.regularizer,
            self.regularization,
            self.evidence_regularization,
        ).fit(self.x_, self.phi_, draws)

    def _posterior(self, observed: np.ndarray) -> Posterior:
        embedding = self.rule_.embedding(observed[0])
        effective = effective_number(self.rule_.kernel_x.gram(self.x_, observed))
        notes = weight_notes(float(embedding.weights.sum()), effective)
        return kernel_posterior(self.prior_, embedding, self.robust, notes=notes, effective=effective, seed=self.seed)
