"""DME: the deconditional mean embedding as Bayes' rule for simulators (Hsu & Ramos 2019, Algorithm 8.1)."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from decond.checks import as_count, as_generator, check_choice
from decond.embeddings import DeconditionalMeanOperator, MeanEmbedding
from decond.errors import ArgumentError
from decond.kernels import Kernel
from decond.lfi.exceptions import PosteriorWarning, PriorReturnedWarning
from decond.lfi.methods.base import Method
from decond.lfi.methods.deconditioning import DataFeatures, Deconditioner, PriorBasis, ThetaFeatures, ripple
from decond.lfi.methods.dme_learning import DELTAS, Choice, Evidence, chosen_by_validation, given_or_learned
from decond.lfi.methods.herded import (
    clipped_posterior,
    effective_number,
    evidence_in_data_units,
    herded_posterior,
    valid_prior_draws,
    weight_notes,
)
from decond.lfi.methods.refreshing import REFRESHES, refreshed
from decond.lfi.methods.units import RawCoordinates, WorkingCoordinates, on_parameters
from decond.lfi.posterior import Posterior

__all__ = ["DME"]

LANDMARKS = 400
"""Features of θ in the final fit: exact up to this many simulations."""

AVERAGED = 5
"""Points of the grid whose posteriors are averaged: the objective cannot tell them apart."""


class DME(Method):
    """Weights on draws of the prior by the deconditional operator, and super-samples of them by herding.

    Two algorithms share this class. The default is our variant, "DME (validated)" in tables and figures. The paper's
    Algorithm 8.1 as it is written, "DME (Algorithm 8.1)", is ``DME(objective="evidence", robust=False)``; it is
    fragile, and mostly says so in its warnings. Simulations may come from any proposal; the prior enters by draws of
    its own, without a correction. Posteriors of four and more parameters come out wide.

    Args:
        kernel_x: The kernel k of the data, in their units. Learned summaries have no units, so it goes with
            ``summary="none"``. Without it, k is Gaussian with a learned lengthscale.
        kernel_theta: The kernel ℓ of the parameters, in their units, for example with a lengthscale for each. Without
            it, ℓ is Gaussian with learned lengthscales.
        regularization: The paper's λ, a number or "learned".
        evidence_regularization: The paper's δ (its ε outside section 8.3), a number or "learned". The objective
            "evidence" does not depend on it, so "learned" means nλ/m there, as the paper proposes.
        objective: What chooses the rest. "validation": the density that posteriors give to the true parameters of
            held-out simulations near the observation. "evidence": the approximate marginal likelihood q̄ (Theorem
            G.1).
        optimum: "global" searches widely, "local" climbs from the median heuristic.
        robust: Average the posteriors of the best few hyperparameters, set negative weights and positive ones of the
            same size to zero, draw anew from the prior where the posterior is (twice, weighted as prior draws), and
            herd with a quarter of the lengthscale of θ (an eighth of the median distance for kernels without one).
        local: Whether validation depends on the observation; False chooses once for all observations.
        lengthscales: "shared" learns one lengthscale for all parameters, "per_parameter" one for each, which goes
            with ``objective="evidence"``.
        coordinates: Where kernels are learned: "working" coordinates of the prior and standardized data, or "raw"
            parameters and data.
        n_prior: The number m of draws of the prior.
        query_points: Points θ* (R, d) among which herding chooses; by default the draws of the prior.
        herding_kernel: The kernel ℓ′ between super-samples, in the units of the parameters; by default ℓ, narrowed if
            `robust`.
        seed: Of the draws of the prior, and of the order of samples.
        summary: What the method sees of the data, see `Method`.

    Reference: K. Hsu and F. Ramos, Bayesian deconditional kernel mean embeddings, ICML 2019.

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
        evidence_regularization: float | str = "learned",
        objective: Literal["validation", "evidence"] = "validation",
        optimum: Literal["global", "local"] = "global",
        robust: bool = True,
        local: bool = True,
        lengthscales: Literal["shared", "per_parameter"] = "shared",
        coordinates: Literal["working", "raw"] = "working",
        n_prior: int = 2000,
        query_points: ArrayLike | None = None,
        herding_kernel: Kernel | None = None,
        seed: Any = 0,
        summary: str = "auto",
    ) -> None:
        self.kernel_x, self.kernel_theta = kernel_x, kernel_theta
        self.regularization, self.evidence_regularization = regularization, evidence_regularization
        self.objective, self.optimum, self.robust, self.local = objective, optimum, robust, local
        self.lengthscales, self.coordinates = lengthscales, coordinates
        self.n_prior, self.query_points, self.herding_kernel = n_prior, query_points, herding_kernel
        self.seed, self.summary = seed, summary

    def _fit(self) -> None:
        check_choice(self.objective, "objective", ("validation", "evidence"))
        check_choice(self.optimum, "optimum", ("global", "local"))
        check_choice(self.lengthscales, "lengthscales", ("shared", "per_parameter"))
        check_choice(self.coordinates, "coordinates", ("working", "raw"))
        if self.lengthscales == "per_parameter" and self.kernel_theta is not None:
            raise ArgumentError(
                "lengthscales",
                'lengthscales is "per_parameter", but kernel_theta is given, so none is learned. Leave one out.',
            )
        if self.lengthscales == "per_parameter" and self.objective == "validation":
            raise ArgumentError(
                "lengthscales",
                'lengthscales is "per_parameter", but objective="validation" searches a grid with one lengthscale '
                'for all. Use objective="evidence", or give kernel_theta with a lengthscale for each parameter.',
            )
        self._ridge = given_or_learned(self.regularization, "regularization")
        self._delta = given_or_learned(self.evidence_regularization, "evidence_regularization")
        as_count(self.n_prior, "n_prior")
        coordinates = RawCoordinates if self.coordinates == "raw" else WorkingCoordinates
        self._seen = coordinates(self, self.kernel_theta, self.kernel_x)
        self._herding = on_parameters(self, self.herding_kernel, "herding_kernel")
        self._candidates = self._query_points()
        self._shared: list[Choice] = []
        if not self.local and self.objective == "validation":
            self._shared = self._chosen_by_validation(None, as_generator(self.seed))

    def _query_points(self) -> np.ndarray | None:
        """Return the query points in working coordinates."""
        if self.query_points is None:
            return None
        rows = self.prior_.rows(self.query_points)
        inside = self.prior_.contains(rows)
        if not inside.all():
            first = int(np.argmin(inside))
            raise ArgumentError(
                "query_points",
                f"query_points has {int((~inside).sum())} row(s) outside the prior's support, the first at row "
                f"{first} ({rows[first]}). Leave them out: the posterior is zero there.",
            )
        return self.prior_.to_working(rows)

    def _posterior(self, observed: np.ndarray) -> Posterior:
        rng = as_generator(self.seed)
        draws, valid = valid_prior_draws(self, self.n_prior, rng)
        seen = self._seen
        evidence = Evidence(
            seen.theta(self.phi_), seen.x(self.x_), seen.x(observed), seen.theta(draws), *seen.given, valid
        )
        if self._shared:
            choices = self._shared
        elif self.objective == "validation":
            choices = self._chosen_by_validation(observed, rng)
        else:
            wide, per_parameter = self.optimum == "global", self.lengthscales == "per_parameter"
            choices = [evidence.best(self._ridge, self._delta, wide=wide, per_parameter=per_parameter)]
        log_evidence = evidence.log_at(choices[0])
        self.choices_ = [self._on_working(choice) for choice in choices]
        self.choice_ = self.choices_[0]
        known = {
            "effective": effective_number(self.choice_.kernel_x.gram(self.x_, observed)),
            "log_evidence": log_evidence if self.coordinates == "raw" else evidence_in_data_units(self, log_evidence),
            "seed": self.seed,
            "candidates": self._candidates,
        }
        if not self.robust:
            return self._plain_posterior(observed, draws, known)
        return self._robust_posterior(observed, draws, rng, known)

    def _on_working(self, choice: Choice) -> Choice:
        kernel_theta, kernel_x = self._seen.on_working(choice.kernel_theta, choice.kernel_x)
        return choice._replace(kernel_theta=kernel_theta, kernel_x=kernel_x)

    def _plain_posterior(self, observed: np.ndarray, draws: np.ndarray, known: dict[str, Any]) -> Posterior:
        """Algorithm 8.1 as written: signed weights on plain draws of the prior."""
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
        notes: list[PosteriorWarning] = []
        for refresh in range(REFRESHES + 1):
            ratio, share = self._ratio(features, data, observed, draws, weights)
            if refresh == 0:
                notes = weight_notes(share, known["effective"], slack=20.0)
            if not ratio.any():
                ratio = np.ones(len(draws))
                text = "no draw of the prior has a positive weight, so the posterior is the prior."
                notes.append(PriorReturnedWarning(text))
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
        seen = self._seen
        return chosen_by_validation(
            seen.theta(self.phi_),
            seen.x(self.x_),
            None if observed is None else seen.x(observed),
            seen.given,
            self._ridge,
            wide=self.optimum == "global",
            n=AVERAGED if self.robust else 1,
            rng=rng,
            deltas=DELTAS if self._delta is None else np.array([self._delta]),
            contains=seen.contains,
        )
