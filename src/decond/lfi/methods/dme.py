"""DME: the deconditional mean embedding as Bayes' rule for simulators (Hsu & Ramos 2019, Algorithm 8.1)."""

from typing import Any

import numpy as np

from decond.checks import as_count, as_generator, check_choice
from decond.embeddings import DeconditionalMeanOperator, MeanEmbedding
from decond.kernels import Kernel
from decond.lfi.methods.base import Method
from decond.lfi.methods.deconditioning import DataFeatures, Deconditioner, PriorBasis, ThetaFeatures, ripple
from decond.lfi.methods.dme_learning import Choice, Evidence, check_learning, chosen_by_validation
from decond.lfi.methods.herded import (
    clipped_posterior,
    effective_number,
    evidence_in_data_units,
    herded_posterior,
    valid_prior_draws,
    weight_notes,
)
from decond.lfi.methods.refreshing import REFRESHES, refreshed
from decond.lfi.methods.units import on_data, on_parameters
from decond.lfi.posterior import Posterior

__all__ = ["DME"]

LANDMARKS = 400
"""Features of θ in the final fit: exact up to this many simulations."""

AVERAGED = 5
"""Points of the grid whose posteriors are averaged: the objective cannot tell them apart."""


class DME(Method):
    """Weights on draws of the prior by the deconditional operator, and super-samples of them by herding.

    Simulations may come from any proposal; the prior enters by draws of its own, without a correction. Kernels that
    are given are in the units of the data and of the parameters; learned summaries have no such units, so `kernel_x`
    goes with ``summary="none"``. Those not given are Gaussian, on standardised data and on the prior's working
    coordinates, with lengthscales chosen by the `objective`:

    - "validation": the density that the posterior gives to the true parameters of held-out simulations near the
      observation, λ and δ included. With ``local=False`` it is chosen once, by simulations anywhere, and serves all
      observations.
    - "evidence": the paper's approximate marginal likelihood q̄ (Theorem G.1), with λ learned and δ = nλ/m.

    `regularization` is λ, if it is not to be learned. `optimum="global"` searches widely, "local" climbs from the
    median heuristic. With `robust`, the posteriors of the best few hyperparameters are averaged, negative weights and
    positive ones of the same size are set to zero, the draws of the prior are refreshed twice where the posterior is
    (and weighted as prior draws), and herding uses a kernel with a quarter of the lengthscale of θ (an eighth of the
    median distance for kernels without one), or `herding_kernel`, in the units of the parameters. The paper's
    algorithm as it is written is ``DME(objective="evidence", robust=False)``; it is fragile, and mostly says so in
    its notes. Posteriors of four and more parameters come out wide.

    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> theta = prior.sample(200, seed=0)
    >>> sims = Simulations(theta=theta, x=theta + 0.5 * rng.standard_normal(theta.shape))
    >>> posterior = DME().fit(sims, prior).posterior([1.0])  # exact: mean 0.8, standard deviation 0.45
    >>> bool(abs(posterior.mean()[0] - 0.8) < 0.15), bool(abs(posterior.std()[0] - 0.45) < 0.15)
    (True, True)
    """

    def __init__(
        self,
        kernel_x: Kernel | None = None,
        kernel_theta: Kernel | None = None,
        regularization: float | str = "learned",
        objective: str = "validation",
        optimum: str = "global",
        robust: bool = True,
        local: bool = True,
        n_prior: int = 2000,
        herding_kernel: Kernel | None = None,
        seed: Any = 0,
        summary: str = "auto",
    ) -> None:
        self.kernel_x, self.kernel_theta, self.regularization = kernel_x, kernel_theta, regularization
        self.objective, self.optimum, self.robust, self.local = objective, optimum, robust, local
        self.n_prior, self.herding_kernel = n_prior, herding_kernel
        self.seed, self.summary = seed, summary

    def _fit(self) -> None:
        check_choice(self.objective, "objective", ("validation", "evidence"))
        check_learning(self.optimum, self.regularization)
        as_count(self.n_prior, "n_prior")
        self._kernels = on_parameters(self, self.kernel_theta), on_data(self, self.kernel_x)
        self._herding = on_parameters(self, self.herding_kernel, "herding_kernel")
        self._shared: list[Choice] = []
        if not self.local and self.objective == "validation":
            self._shared = self._chosen_by_validation(None, as_generator(self.seed))

    def _posterior(self, observed: np.ndarray) -> Posterior:
        rng = as_generator(self.seed)
        draws, valid = valid_prior_draws(self, self.n_prior, rng)
        evidence = Evidence(self.phi_, self.x_, observed, draws, *self._kernels, valid)
        if self._shared:
            self.choices_ = self._shared
        elif self.objective == "validation":
            self.choices_ = self._chosen_by_validation(observed, rng)
        else:
            ridge = None if isinstance(self.regularization, str) else float(self.regularization)
            self.choices_ = [evidence.best(ridge, wide=self.optimum == "global")]
        self.choice_ = self.choices_[0]
        known = {
            "effective": effective_number(self.choice_.kernel_x.gram(self.x_, observed)),
            "log_evidence": evidence_in_data_units(self, evidence.log_at(self.choice_)),
            "seed": self.seed,
        }
        if not self.robust:
            return self._plain_posterior(observed, draws, known)
        return self._robust_posterior(observed, draws, rng, known)

    def _plain_posterior(self, observed: np.ndarray, draws: np.ndarray, known: dict[str, Any]) -> Posterior:
        """Algorithm 8.1 as written: signed weights on plain draws of the prior, which are also the query points."""
        kernel_theta, kernel_x, ridge, delta, _ = self.choice_
        rule = DeconditionalMeanOperator(kernel_x, kernel_theta, ridge, delta).fit(self.x_, self.phi_, draws)
        embedding = rule.embedding(observed[0])
        notes = weight_notes(float(embedding.weights.sum()), known["effective"])
        return herded_posterior(self.prior_, embedding, self._herding, notes=notes, **known)

    def _robust_posterior(
        self,
        observed: np.ndarray,
        draws: np.ndarray,
        rng: np.random.Generator,
        known: dict[str, Any],
    ) -> Posterior:
        weights = np.full(len(draws), 1.0 / len(draws))
        features = [ThetaFeatures(choice.kernel_theta, self.phi_, LANDMARKS, rng) for choice in self.choices_]
        data = [
            DataFeatures(at, choice.kernel_x, self.x_) for at, choice in zip(features, self.choices_, strict=True)
        ]
        notes: list[str] = []
        for refresh in range(REFRESHES + 1):
            ratio, share = self._ratio(features, data, observed, draws, weights)
            if refresh == 0:
                notes = weight_notes(share, known["effective"], slack=20.0)
            if not ratio.any():
                ratio = np.ones(len(draws))
                notes.append("no draw of the prior has a positive weight, so the posterior is the prior.")
                break
            if refresh < REFRESHES:
                draws, weights = refreshed(self, self.choice_.kernel_theta, draws, weights * ratio, self.n_prior, rng)
        embedding = MeanEmbedding(self.choice_.kernel_theta, draws, weights * ratio / (weights @ ratio))
        return clipped_posterior(self.prior_, embedding, self._herding, notes=notes, **known)

    def _ratio(
        self,
        features: list[ThetaFeatures],
        data: list[DataFeatures],
        observed: np.ndarray,
        draws: np.ndarray,
        weights: np.ndarray,
    ) -> tuple[np.ndarray, float]:
        """Return posterior over prior at the draws, averaged over the choices, and the sum of weights of the first.

        Ripples and negative values count as zero. The sum is relative to what simulated data have.
        """
        mixture, share = np.zeros(len(draws)), 0.0
        for choice, at, seen in zip(self.choices_, features, data, strict=True):
            rule = Deconditioner(PriorBasis(at, draws, weights), seen, choice.regularization)
            coefficients = rule.coefficients(observed, choice.evidence_regularization)
            signed = rule.ratio(draws, coefficients)
            ratio = np.maximum(signed - ripple(signed, weights), 0.0)[:, 0]
            total = float(weights @ ratio)
            if choice is self.choice_:
                share = total / self._usual_total(rule, choice.evidence_regularization)
            if total > 0.0:
                mixture += ratio / total
        return mixture, share

    def _usual_total(self, rule: Deconditioner, delta: float) -> float:
        """Return the median sum of weights that simulated data have, the first hundred of them."""
        signed = rule.ratio(rule.basis.draws, rule.coefficients(self.x_[:100], delta))
        ratios = np.maximum(signed - ripple(signed, rule.basis.weights), 0.0)
        return max(float(np.median(rule.basis.weights @ ratios)), 1e-300)

    def _chosen_by_validation(self, observed: np.ndarray | None, rng: np.random.Generator) -> list[Choice]:
        return chosen_by_validation(
            self.phi_,
            self.x_,
            observed,
            self._kernels,
            self.regularization,
            wide=self.optimum == "global",
            n=AVERAGED if self.robust else 1,
            rng=rng,
            contains=lambda phi: self.prior_.contains(self.prior_.from_working(phi)),
        )
