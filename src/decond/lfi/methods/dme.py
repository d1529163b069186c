"""DME: the deconditional mean embedding as Bayes' rule for simulators (Hsu & Ramos 2019, Algorithm 8.1)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from decond.checks import as_generator, check_choice
from decond.embeddings import DeconditionalMeanOperator, MeanEmbedding
from decond.errors import ArgumentError
from decond.features import as_kernel
from decond.kernels import Kernel
from decond.lfi.exceptions import PosteriorWarning, PriorReturnedWarning
from decond.lfi.methods.deconditioning import DataFeatures, Deconditioner, PriorBasis, ThetaFeatures, ripple
from decond.lfi.methods.kernel_posterior import InUnits
from decond.lfi.methods.kernel_search import Choice, Evidence, SearchingMethod, given_or_learned
from decond.lfi.methods.method import SummaryOption
from decond.lfi.posterior_draws import Posterior, Seed, ToParameters
from decond.lfi.sampling import effective_sample_size

__all__ = ["DME", "DMESettings"]


@dataclass(frozen=True)
class DMESettings:
    """Numbers of the robust variant of DME."""

    landmarks: int = 400
    """Features of θ in the final fit: exact up to this many simulations."""
    averaged: int = 5
    """Points of the grid whose posteriors are averaged: the objective cannot tell them apart. Rule of thumb."""
    usual_rows: int = 100
    """Simulations whose sum of weights says what is usual."""
    slack: float = 20.0
    """Warn if the sum of weights is smaller or larger than usual by this factor. Rule of thumb."""


@dataclass(eq=False, repr=False)
class DME(SearchingMethod):
    """Weights on draws of the prior by the deconditional operator, and super-samples of them by herding.

    Two algorithms share this class. The default is our variant, "DME (validated)" in tables and figures. The paper's
    Algorithm 8.1 as it is written, "DME (Algorithm 8.1)", is ``DME(objective="evidence", robust=False)``; it is
    fragile, and mostly says so in its warnings. Simulations may come from any proposal; the prior enters by draws of
    its own, without a correction. Posteriors of four and more parameters come out wide.

    Parameters
    ----------
    kernel_x : Kernel, optional
        The kernel k of the data, in their units. Learned summaries have no units, so it goes with
        ``summary="none"``. Without it, k is Gaussian with a learned lengthscale.
    kernel_theta : Kernel, optional
        The kernel ℓ of the parameters, in their units, for example with a lengthscale for each. Without it, ℓ is
        Gaussian with learned lengthscales.
    regularization : float or "learned", optional
        The paper's λ, a number or "learned".
    evidence_regularization : float or "learned", optional
        The paper's δ (its ε outside section 8.3), a number or "learned". The objective "evidence" does not depend
        on it, so "learned" means nλ/m there, as the paper proposes.
    objective : {"validation", "evidence"}, optional
        What chooses the rest. "validation": the density that posteriors give to the true parameters of held-out
        simulations near the observation. "evidence": the approximate marginal likelihood q̄ (Theorem G.1).
    optimum : {"global", "local"}, optional
        "global" searches widely, "local" climbs from the median heuristic.
    robust : bool, optional
        Average the posteriors of the best few hyperparameters, set negative weights and positive ones of the same
        size to zero, draw anew from the prior where the posterior is (twice, weighted as prior draws), and herd
        with a quarter of the lengthscale of θ (an eighth of the median distance for kernels without one).
    local : bool, optional
        Whether validation depends on the observation; False chooses once for all observations.
    lengthscales : {"shared", "per_parameter"}, optional
        "shared" learns one lengthscale for all parameters, "per_parameter" one for each, which goes with
        ``objective="evidence"``.
    coordinates : {"working", "raw"}, optional
        Where kernels are learned: "working" coordinates of the prior and standardized data, or "raw" parameters
        and data.
    n_prior : int, optional
        The number m of draws of the prior.
    query_points : array_like of shape (R, d), optional
        Points θ* among which herding chooses; by default the draws of the prior.
    herding_kernel : Kernel, optional
        The kernel ℓ′ between super-samples, in the units of the parameters; by default ℓ, narrowed if `robust`.
    seed : int, Generator or None, optional
        Of the draws of the prior, and of the order of samples.
    summary : {"auto", "none", "learned"}, optional
        What the method sees of the data, see `Method`.

    References
    ----------
    K. Hsu and F. Ramos, Bayesian deconditional kernel mean embeddings, ICML 2019.

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> theta = prior.sample(200, seed=0)
    >>> sims = Simulations(theta=theta, x=theta + 0.5 * rng.standard_normal(theta.shape))
    >>> posterior = DME().fit(sims, prior).posterior([1.0])  # exact: mean 0.8, standard deviation 0.45
    >>> bool(abs(posterior.mean()[0] - 0.8) < 0.15), bool(abs(posterior.std()[0] - 0.45) < 0.15)
    (True, True)
    """

    kernel_x: Kernel | None = None
    kernel_theta: Kernel | None = None
    regularization: float | Literal["learned"] = "learned"
    evidence_regularization: float | Literal["learned"] = "learned"
    objective: Literal["validation", "evidence"] = "validation"
    optimum: Literal["global", "local"] = "global"
    robust: bool = True
    local: bool = True
    lengthscales: Literal["shared", "per_parameter"] = "shared"
    coordinates: Literal["working", "raw"] = "working"
    n_prior: int = 2000
    query_points: ArrayLike | None = None
    herding_kernel: Kernel | None = None
    seed: Seed = 0
    summary: SummaryOption = "auto"

    robust_settings = DMESettings()

    def _fit(self) -> None:
        self._check_search()
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
        self._delta = given_or_learned(self.evidence_regularization, "evidence_regularization")
        self._given = self._given_kernels()
        self._herding = self._on_parameters(self.herding_kernel, "herding_kernel")
        self._candidates = self._query_points()
        self._shared: list[Choice] = []
        if not self.local and self.objective == "validation":
            self._shared = self._validated(None, as_generator(self.seed))

    def _posterior(self, observed: np.ndarray) -> Posterior:
        rng = as_generator(self.seed)
        draws, valid = self._valid_prior_draws(self.n_prior, rng)
        evidence = Evidence(
            self._seen_theta(self.phi_),
            self._seen_x(self.x_),
            self._seen_x(observed),
            self._seen_theta(draws),
            *self._given,
            valid,
            self.search,
        )
        if self.objective == "validation":
            choices = self._shared or self._validated(observed, rng)
        else:
            wide, per_parameter = self.optimum == "global", self.lengthscales == "per_parameter"
            choices = [evidence.best(self._ridge, self._delta, wide=wide, per_parameter=per_parameter)]
        log_evidence = evidence.log_at(choices[0])
        if self.coordinates == "working":
            log_evidence = self._log_evidence_of_data(log_evidence)
        self.choices_ = [self._on_working(choice) for choice in choices]
        self.choice_ = self.choices_[0]
        effective = effective_sample_size(self.choice_.kernel_x.gram(self.x_, observed))
        if self.robust:
            embedding, notes = self._robust_embedding(observed, draws, rng, effective)
        else:
            embedding, notes = self._plain_embedding(observed, draws, effective)
        return self._embedded_posterior(
            embedding,
            effective=effective,
            notes=notes,
            kernel=self._herding,
            candidates=self._candidates,
            log_evidence=log_evidence,
        )

    def _plain_embedding(
        self, observed: np.ndarray, draws: np.ndarray, effective: float
    ) -> tuple[MeanEmbedding, list[PosteriorWarning]]:
        """Algorithm 8.1 as written: signed weights on plain draws of the prior."""
        kernel_theta, kernel_x, ridge, delta, _ = self.choice_
        rule = DeconditionalMeanOperator(kernel_x, kernel_theta, ridge, delta).fit(self.x_, self.phi_, draws)
        embedding = rule.embedding(observed[0])
        return embedding, self._weight_notes(float(embedding.weights.sum()), effective)

    def _robust_embedding(
        self, observed: np.ndarray, draws: np.ndarray, rng: np.random.Generator, effective: float
    ) -> tuple[MeanEmbedding, list[PosteriorWarning]]:
        """Return the embedding of the averaged posterior, on draws of the prior where it is."""
        weights = np.full(len(draws), 1.0 / len(draws))
        numbers, refreshes = self.robust_settings, self.settings.refreshes
        features = [ThetaFeatures(choice.kernel_theta, self.phi_, numbers.landmarks, rng) for choice in self.choices_]
        data = [
            DataFeatures(at, choice.kernel_x, self.x_) for at, choice in zip(features, self.choices_, strict=True)
        ]
        notes: list[PosteriorWarning] = []
        for refresh in range(refreshes + 1):
            bases = [PriorBasis(at, draws, weights) for at in features]
            rules = [
                Deconditioner(basis, seen, choice.regularization)
                for basis, seen, choice in zip(bases, data, self.choices_, strict=True)
            ]
            ratio, total = self._ratio(rules, observed)
            if refresh == 0:
                notes = self._weight_notes(total, effective, numbers.slack)
            if not ratio.any():
                ratio = np.ones(len(draws))
                text = "no draw of the prior has a positive weight, so the posterior is the prior."
                notes.append(PriorReturnedWarning(text))
                break
            if refresh < refreshes:
                kernel_theta = self.choice_.kernel_theta
                draws, weights = self._refreshed(kernel_theta, draws, weights * ratio, self.n_prior, rng)
        return MeanEmbedding(self.choice_.kernel_theta, draws, weights * ratio / (weights @ ratio)), notes

    def _ratio(self, rules: Iterable[Deconditioner], observed: np.ndarray) -> tuple[np.ndarray, float]:
        """Return posterior over prior at the draws, averaged over the choices, and the sum of weights of the first.

        Ripples and negative values count as zero. The sum is relative to what simulated data have.
        """
        ratios, relative = [], 0.0
        for choice, rule in zip(self.choices_, rules, strict=True):
            weights, delta = rule.basis.weights, choice.evidence_regularization
            ratio = _positive_ratio(rule, observed, delta)[:, 0]
            total = float(weights @ ratio)
            if choice is self.choice_:
                usual = weights @ _positive_ratio(rule, self.x_[: self.robust_settings.usual_rows], delta)
                relative = total / max(float(np.median(usual)), 1e-300)
            ratios.append(ratio / total if total > 0.0 else np.zeros(len(ratio)))
        return np.sum(ratios, axis=0), relative

    def _validated(self, observed: np.ndarray | None, rng: np.random.Generator) -> list[Choice]:
        prior = self.prior_
        return self._chosen_by_validation(
            self._seen_theta(self.phi_),
            self._seen_x(self.x_),
            None if observed is None else self._seen_x(observed),
            self._given,
            self.search.deltas if self._delta is None else [self._delta],
            prior.contains if self.coordinates == "raw" else lambda phi: prior.contains(prior.from_working(phi)),
            rng,
            self.robust_settings.averaged if self.robust else 1,
        )

    # ---- coordinates: kernels see working coordinates and standardized data, or all in the user's units ----------

    def _given_kernels(self) -> tuple[Kernel | None, Kernel | None]:
        """Return the kernels of θ and of x that are given, as they see coordinates."""
        if self.coordinates == "working":
            return self._on_parameters(self.kernel_theta), self._on_data(self.kernel_x)
        if self._learned is not None:
            raise ArgumentError(
                "coordinates",
                f'coordinates is "raw", but summary={self.summary!r} replaces the data by learned summaries. Give '
                'summary="none", or coordinates="working".',
            )
        return (
            None if self.kernel_theta is None else as_kernel(self.kernel_theta, "kernel_theta"),
            None if self.kernel_x is None else as_kernel(self.kernel_x, "kernel_x"),
        )

    def _seen_theta(self, phi: np.ndarray) -> np.ndarray:
        return self.prior_.from_working(phi) if self.coordinates == "raw" else phi

    def _seen_x(self, rows: np.ndarray) -> np.ndarray:
        return self._to_data()(rows) if self.coordinates == "raw" else rows

    def _on_working(self, choice: Choice) -> Choice:
        """Return a choice whose kernels are ones of working coordinates and standardized data."""
        if self.coordinates == "working":
            return choice
        return choice._replace(
            kernel_theta=InUnits(choice.kernel_theta, ToParameters(self.prior_)),
            kernel_x=InUnits(choice.kernel_x, self._to_data()),
        )

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


def _positive_ratio(rule: Deconditioner, observed: np.ndarray, delta: float) -> np.ndarray:
    """Return posterior over prior at the draws, one column an observation; ripples are set to zero."""
    signed = rule.ratio(rule.basis.draws, rule.coefficients(observed, delta))
    return np.maximum(signed - ripple(signed, rule.basis.weights), 0.0)
