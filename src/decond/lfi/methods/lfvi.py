"""LFVI: likelihood-free variational inference with a learned log ratio (Tran, Ranganath & Blei 2017)."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from decond.checks import as_count, as_generator, as_number, check_choice
from decond.lfi.exceptions import PosteriorWarning, TimeLimitWarning
from decond.lfi.methods.base import Method
from decond.lfi.methods.running import BoundedSimulator, check_budget, check_rounds
from decond.lfi.neural.extra import require
from decond.lfi.neural.variational import BoxedGaussian, fit_gaussian, lower_bound
from decond.lfi.posterior import PRIOR_SHARE, Posterior
from decond.threads import one_blas_thread

if TYPE_CHECKING:
    from decond.lfi.neural.ratio import LogRatio

__all__ = ["LFVI"]

RATIO_LOSSES = ("log", "hinge")

WIDENED = 1.5
"""Factor on the standard deviations of q where simulations are proposed."""

LEAST_ROUND = 50
"""Simulations of a round, if so many are left: fewer would hardly change the ratio."""

NARROW = 0.2
"""Standard deviation, in working units, of a Gaussian around the best simulated parameters that q may start from."""

START_DRAWS = 4000
"""Draws of the prior whose moments q starts from."""


class LFVI(Method):
    """A Gaussian q(θ) fitted to a likelihood ratio that a classifier learns, in turns with simulations at draws of q.

    q has a full covariance in the prior's working coordinates, is cut to the prior's box, and maximizes

        E_q[r(observed, θ) + log P(valid | θ)] − KL(q ‖ prior),

    where r(x, θ) is the mean of three small networks trained to tell simulated pairs (θ_i, x_i) from shuffled ones
    (θ_j, x_i). With ``loss="log"`` r estimates log p(x | θ) / p(x). The hinge loss, the other one of the paper, is
    smallest at the sign of the log ratio, not at the log ratio; r is taken as it is, as there. It is too flat
    where the data tell much, and with several parameters q may stay almost as wide as the prior.

    The paper contrasts simulations with the data's empirical distribution; of one observation that is a point, and
    the ratio degenerates. Any distribution of x that does not depend on θ changes r by a constant only, hence the
    shuffled pairs. θ has the same distribution in both, so simulations may come from any proposal.

    With a `simulator`, `posterior` runs it in up to `rounds` rounds of equal size at draws of q, widened, a tenth
    from the prior, until there are `n_simulations` in all, those given to `fit` included. Without one, or with
    ``rounds=0``, the ratio is learned in `fit` from the simulations given, once for all observations.

    q is one Gaussian: of a posterior with several modes it finds one. Its maximum is found by regressions instead of
    the paper's stochastic gradients, so that the prior needs no derivatives. The posterior has no `log_likelihood`:
    draws are those of q, and r is not normalized. It needs the extra: ``decond[neural]``.

    Args:
        simulator: The simulator that made the simulations, to be run by `posterior`; None to use only these.
        n_simulations: Simulations in all, those given to `fit` included.
        batched: Whether the simulator takes many rows of parameters at once.
        loss: Loss of the classifier, "log" or "hinge".
        rounds: Most rounds of simulations, or 0 for none; a small budget has fewer.
        steps: Most steps of training for the last ratio; the others take half as many.
        time_limit: Seconds after which no further simulation begins, and for each training.
        seed: Seed of everything random.
        summary: What the networks see of the data, as in `Method`.

    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> theta = prior.sample(500, seed=0)
    >>> sims = Simulations(theta=theta, x=theta + rng.standard_normal(theta.shape))
    >>> posterior = LFVI(steps=500).fit(sims, prior).posterior([1.0])  # exact: mean 0.5, standard deviation 0.71
    >>> bool(abs(posterior.mean()[0] - 0.5) < 0.15), bool(abs(posterior.std()[0] - 0.71) < 0.15)
    (True, True)
    """

    def __init__(
        self,
        simulator: Callable[..., Any] | None = None,
        n_simulations: int = 2000,
        batched: bool = False,
        *,
        loss: str = "log",
        rounds: int = 6,
        steps: int = 4000,
        time_limit: float = 600.0,
        seed: Any = 0,
        summary: str = "none",
    ) -> None:
        require("lfi.LFVI")
        self.simulator, self.n_simulations, self.batched = simulator, n_simulations, batched
        self.loss, self.rounds, self.steps = loss, rounds, steps
        self.time_limit, self.seed, self.summary = time_limit, seed, summary

    @property
    def runs_simulator(self) -> bool:  # type: ignore[override]
        """Whether there are rounds for which `infer` gives the simulator."""
        return self.rounds > 0

    def _fit(self) -> None:
        check_choice(self.loss, "loss", RATIO_LOSSES)
        as_count(self.steps, "steps")
        check_rounds(self.rounds)
        as_number(self.time_limit, "time_limit", minimum=0.0)
        self.ratio_: LogRatio | None = None
        if self._has_rounds:
            check_budget(self.simulator, self.n_simulations, len(self.sims_), self.time_limit)
        else:
            self.ratio_ = self._learned_ratio(self.phi_, self.x_, self.steps)

    @one_blas_thread()
    def _posterior(self, observed: np.ndarray) -> Posterior:
        rng = as_generator(self.seed)
        q, notes = self._start(), list[PosteriorWarning]()
        if self._has_rounds:
            q, notes = self._in_rounds(q, observed, rng)
        assert self.ratio_ is not None
        q = self.q_ = self._fitted(q, self.ratio_, observed)
        return Posterior(
            self.prior_,
            lambda n, rng: self.prior_.from_working(q.sample(n, rng)),
            proposer=lambda n, rng: self.prior_.from_working(q.widened(WIDENED).sample(n, rng)),
            notes=[*notes, *self._training_notes()],
            seed=self.seed,
        )

    def _in_rounds(
        self, q: BoxedGaussian, observed: np.ndarray, rng: np.random.Generator
    ) -> tuple[BoxedGaussian, list[PosteriorWarning]]:
        """Simulate at draws of q, learn the ratio anew and fit q again, in turns; learn the ratio that counts."""
        self._validity = None  # of the pilot again, whatever was observed before
        phi, x = self.phi_, self.x_
        with BoundedSimulator.of(self) as runner:
            for number in range(self.rounds):
                size = min(max(-(-runner.left // (self.rounds - number)), LEAST_ROUND), runner.left)
                if size == 0:
                    break
                q = self._fitted(q, self._learned_ratio(phi, x, max(1, self.steps // 2)), observed)
                theta = self._proposed(q, size, rng)
                data = runner.run(theta, rng)
                valid = np.isfinite(data).all(axis=1)
                if valid.any():
                    phi = np.concatenate([phi, self.prior_.to_working(theta[: len(data)][valid])])
                    x = np.concatenate([x, self._summarize(data[valid])])
        self.simulations_ = runner.simulations(self.sims_)
        self._learn_validity(self.simulations_)
        self.n_simulations_, self.n_failed_ = len(self.sims_) + runner.n_run, runner.n_failed
        self.ratio_ = self._learned_ratio(phi, x, self.steps)
        return q, runner.notes()

    def _learned_ratio(self, phi: np.ndarray, x: np.ndarray, steps: int) -> "LogRatio":
        from decond.lfi.neural.ratio import fit_ratio

        self._known = phi
        seed = int(as_generator(self.seed).integers(2**31))
        return fit_ratio(phi, x, loss=self.loss, steps=steps, seed=seed, seconds=self.time_limit)

    def _fitted(self, start: BoxedGaussian, ratio: "LogRatio", observed: np.ndarray) -> BoxedGaussian:
        """Return q for a ratio: the best from several starts, since a step from far away may lead astray."""

        def log_posterior(phi: np.ndarray) -> np.ndarray:
            return ratio.at(phi, observed) + self.prior_.log_density_working(phi) + self.log_valid_(phi)

        peak = self._known[int(np.argmax(log_posterior(self._known)))]
        narrow = replace(start, mean=peak, root=NARROW * np.eye(len(peak)))
        found = [fit_gaussian(log_posterior, begin, seed=0) for begin in (start, narrow)]
        return max(found, key=lambda q: lower_bound(log_posterior, q, seed=0))

    def _start(self) -> BoxedGaussian:
        """Return the Gaussian with the moments of the prior."""
        prior = self.prior_
        phi = prior.to_working(prior.sample(START_DRAWS))
        root = np.linalg.cholesky(np.atleast_2d(np.cov(phi, rowvar=False)))
        return BoxedGaussian(phi.mean(axis=0), root, prior.to_working(prior.low), prior.to_working(prior.high))

    def _proposed(self, q: BoxedGaussian, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return parameters for a round: draws of the widened q, and a tenth from the prior."""
        theta = self.prior_.from_working(q.widened(WIDENED).sample(n, rng))
        from_prior = rng.random(n) < PRIOR_SHARE
        if from_prior.any():
            theta[from_prior] = self.prior_.sample(int(from_prior.sum()), rng)
        return theta

    def _training_notes(self) -> list[PosteriorWarning]:
        assert self.ratio_ is not None
        if self.ratio_.trained.finished:
            return []
        steps = self.ratio_.trained.steps
        text = f"training ran out of time after {steps} steps; raise time_limit."
        return [TimeLimitWarning(text, "training", steps)]

    @property
    def _has_rounds(self) -> bool:
        return self.simulator is not None and self.rounds > 0
