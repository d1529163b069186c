"""The residual likelihood: simulations shifted to the parameter in question; the default method."""

from typing import Any

import numpy as np

from decond.lfi.exceptions import FewSimulationsWarning, PosteriorWarning, TimeLimitWarning
from decond.lfi.methods.base import Method
from decond.lfi.methods.residual_atom import AtomLikelihood, atom_at
from decond.lfi.methods.residual_likelihood import ShiftedLikelihood, likelihood_at
from decond.lfi.posterior import Posterior
from decond.lfi.sampling import TemperedCloud, temper
from decond.threads import one_blas_thread

__all__ = ["ResidualLikelihood"]

PARTICLES = 2000
"""Particles that are tempered from the prior to the posterior."""

WIDENED = 0.5
"""Power of the likelihood from which further rounds are proposed."""

FEW = 50.0
"""Effective simulations below which the user is told."""


class ResidualLikelihood(Method):
    """A likelihood from simulations that are shifted to the parameter in question.

    p(y | θ) = Σ_i w_i(θ) κ_h((y − m(θ)) / s(θ) − u_i): m and s are the mean and the scale of the data given the
    parameters, by regression with kernels; u_i are the leave-one-out residuals of the simulations; κ_h
    lies between a Gaussian (h = 1) and a kernel density (small h). Everything is fitted with weights for closeness
    to the observation, when `posterior` is called. Where many simulations equal the observation, as with small
    counts, P(x = y | θ) takes its place. See ``docs/residual_likelihood.md``.

    Args:
        seed: Seed of the draws.
        summary: "none" uses the columns of the data; "learned" replaces them by estimates of the parameters, learned
            around the observation; "auto" does so if there are more than twice as many columns as parameters and the
            estimates tell more, or more columns than the simulations can bear.
        time_limit: Seconds for the sampler, for each call.

    >>> from scipy import stats
    >>> from decond.lfi.prior import Prior
    >>> from decond.lfi.simulations import Simulations
    >>> prior = Prior({"mean": stats.norm(0, 1)})
    >>> theta = prior.sample(200, seed=1)
    >>> sims = Simulations(theta, theta + 0.5 * np.random.default_rng(2).standard_normal((200, 1)))
    >>> posterior = ResidualLikelihood().fit(sims, prior).posterior([1.0])
    >>> bool(abs(posterior.mean()[0] - 0.8) < 0.1), bool(abs(posterior.std()[0] - 0.447) < 0.06)
    (True, True)
    """

    def __init__(self, *, seed: Any = 0, summary: str = "auto", time_limit: float = 60.0) -> None:
        self.seed, self.summary, self.time_limit = seed, summary, time_limit

    def _learn_summary(self, x: np.ndarray) -> None:
        """Keep the data in their own units: scales and summaries are learned around the observation."""
        self.x_ = self.sims_.x[self.sims_.valid]

    def _summarize(self, row: np.ndarray) -> np.ndarray:
        return row

    def _fit(self) -> None:
        """Do nothing: what is worth learning depends on the observation."""

    def likelihood(self, observed: np.ndarray) -> ShiftedLikelihood | AtomLikelihood:
        """Return the likelihood fitted around one observation (1, s).

        It is a probability where many simulations equal the observation and it sits at the edge of what was
        simulated, or where a density predicts worse which of them do.
        """
        atom = atom_at(self.phi_, self.x_, observed)
        if atom is not None and atom.at_edge:
            return atom
        rng = np.random.default_rng(0)  # only which rows a pilot sees
        shifted = likelihood_at(self.phi_, self.x_, observed, summary=self.summary, rng=rng)
        return atom if atom is not None and atom.tells_more_than(shifted) else shifted

    @one_blas_thread()
    def _posterior(self, observed: np.ndarray) -> Posterior:
        likelihood = self.likelihood(observed)
        self.likelihood_ = likelihood
        prior = self.prior_

        def log_likelihood(phi: np.ndarray) -> np.ndarray:
            return likelihood.log_density(phi) + self.log_valid_(phi)

        rng = np.random.default_rng(self.seed)
        start = prior.to_working(prior.sample(PARTICLES, rng))
        widened, cloud = temper(
            prior.log_density_working, log_likelihood, start, rng, powers=(WIDENED, 1.0), time_limit=self.time_limit
        )

        @one_blas_thread()
        def drawn_from(source: TemperedCloud, n: int, rng: np.random.Generator) -> np.ndarray:
            return prior.from_working(source.draw(n, rng, time_limit=self.time_limit))

        return Posterior(
            prior,
            lambda n, rng: drawn_from(cloud, n, rng),
            proposer=lambda n, rng: drawn_from(widened, n, rng),
            log_likelihood=lambda theta: log_likelihood(prior.to_working(prior.rows(theta))),
            log_evidence=cloud.log_evidence if likelihood.of_data else None,
            log_normalizer=cloud.log_evidence,
            effective=likelihood.effective,
            notes=_notes(likelihood, cloud),
            seed=self.seed,
        )


def _notes(likelihood: ShiftedLikelihood | AtomLikelihood, cloud: TemperedCloud) -> list[PosteriorWarning]:
    notes = list(likelihood.notes)
    if likelihood.effective < FEW:
        text = (
            f"the posterior rests on the equivalent of {likelihood.effective:.0f} simulations close to the "
            "observation; run more, in several rounds."
        )
        notes.append(FewSimulationsWarning(text, likelihood.effective, FEW))
    if not cloud.finished:
        text = "the sampler ran out of time, so its draws are rough; raise time_limit."
        notes.append(TimeLimitWarning(text, "sampling"))
    return notes
