"""LFVI: likelihood-free variational inference with a learned log ratio (Tran, Ranganath & Blei 2017)."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from decond.checks import as_generator, check_choice
from decond.lfi.exceptions import PosteriorWarning
from decond.lfi.methods.method import SummaryOption
from decond.lfi.methods.simulating_method import NetworkMethod
from decond.lfi.neural.gaussian_mixture import fit_quadratic
from decond.lfi.posterior_draws import FromWorking, Posterior, Seed
from decond.linalg import cholesky, inverses
from decond.parameters import Kept
from decond.threads import one_blas_thread

if TYPE_CHECKING:
    from decond.lfi.neural.networks import LogRatio

__all__ = ["LFVI", "BoxedGaussian", "FitSettings", "LFVISettings", "fit_gaussian", "lower_bound"]

LogDensity = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class LFVISettings:
    """Where LFVI starts and simulates; rules of thumb."""

    widened: float = 1.5
    """Factor on the standard deviations of q where simulations are proposed."""
    least_round: int = 50
    """Simulations of a round, if so many are left: fewer would hardly change the ratio."""
    narrow: float = 0.2
    """Working-unit standard deviation of a Gaussian around the best simulated parameters that q may start from."""
    start_draws: int = 4000
    """Draws of the prior whose moments q starts from."""


@dataclass(frozen=True)
class FitSettings:
    """The effort of `fit_gaussian` and its bounds; rules of thumb."""

    points: int = 2**11
    """Quasi-random points behind each step."""
    sweeps: int = 20
    """Gibbs sweeps over the coordinates of a cut Gaussian, after importance weights chose where it starts."""
    iterations: int = 60
    """Most steps."""
    tolerance: float = 1e-3
    """Change of mean and covariance, in standard deviations, below which there are no more steps."""
    damping: float = 0.5
    """Share of the way to the fitted quadratic that a step goes."""
    farthest: float = 2.0
    """Farthest that a step moves the draws, in their standard deviations."""
    steepest: float = 4.0
    """Largest factor by which a step may change a precision."""
    flattest: float = 0.5
    """Smallest such factor."""
    narrowest: float = 1e-6
    """Least standard deviation in any direction, in working units."""
    widest: float = 3.0
    """Largest standard deviation in any direction, in working units; it is almost flat on a box."""


@dataclass(eq=False, repr=False)
class LFVI(NetworkMethod):
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

    Parameters
    ----------
    simulator : callable, optional
        The simulator that made the simulations, to be run by `posterior`; None to use only these.
    n_simulations : int, optional
        Simulations in all, those given to `fit` included.
    batched : bool, optional
        Whether the simulator takes many rows of parameters at once.
    loss : {"log", "hinge"}, optional
        Loss of the classifier, "log" or "hinge".
    rounds : int, optional
        Most rounds of simulations, or 0 for none; a small budget has fewer.
    steps : int, optional
        Most steps of training for the last ratio; the others take half as many.
    time_limit : float, optional
        Seconds after which no further simulation begins, and for each training.
    seed : int, Generator or None, optional
        Seed of everything random.
    summary : {"auto", "none", "learned"}, optional
        What the networks see of the data, as in `Method`.

    References
    ----------
    D. Tran, R. Ranganath and D. Blei, Hierarchical implicit models and likelihood-free variational inference, NeurIPS
    2017.

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> theta = prior.sample(500, seed=0)
    >>> sims = Simulations(theta=theta, x=theta + rng.standard_normal(theta.shape))
    >>> posterior = LFVI(steps=500).fit(sims, prior).posterior([1.0])  # exact: mean 0.5, standard deviation 0.71
    >>> bool(abs(posterior.mean()[0] - 0.5) < 0.15), bool(abs(posterior.std()[0] - 0.71) < 0.15)
    (True, True)
    """

    simulator: Callable[..., ArrayLike] | None = None
    n_simulations: int = 2000
    batched: bool = False
    _: KW_ONLY
    loss: Literal["log", "hinge"] = "log"
    rounds: int = 6
    steps: int = 4000
    time_limit: float = 600.0
    seed: Seed = 0
    summary: SummaryOption = "none"

    settings = LFVISettings()

    def _fit(self) -> None:
        check_choice(self.loss, "loss", ("log", "hinge"))
        self._check_training()
        self.ratio_: LogRatio | None = None
        if not self._has_rounds:
            self.ratio_ = self._learned_ratio(self.phi_, self.x_, self.steps)

    @one_blas_thread()
    def _posterior(self, observed: np.ndarray) -> Posterior:
        rng = as_generator(self.seed)
        q, notes = self._start(), list[PosteriorWarning]()
        if self._has_rounds:
            q, notes = self._in_rounds(q, observed, rng)
        assert self.ratio_ is not None
        q = self.q_ = self._fitted(q, self.ratio_, observed)
        trained = self.ratio_.trained
        return Posterior(
            self.prior_,
            FromWorking(self.prior_, q),
            proposer=FromWorking(self.prior_, q.widened(self.settings.widened)),
            notes=[*notes, *self._training_notes(trained.finished, trained.steps)],
            seed=self.seed,
        )

    def _in_rounds(
        self, q: "BoxedGaussian", observed: np.ndarray, rng: np.random.Generator
    ) -> tuple["BoxedGaussian", list[PosteriorWarning]]:
        """Simulate at draws of q, learn the ratio anew and fit q again, in turns; learn the ratio that counts."""
        self._validity = None  # of the pilot again, whatever was observed before
        phi, x = self.phi_, self.x_
        with self._running() as runner:
            for number in range(self.rounds):
                size = min(max(-(-runner.left // (self.rounds - number)), self.settings.least_round), runner.left)
                if size == 0:
                    break
                q = self._fitted(q, self._learned_ratio(phi, x, max(1, self.steps // 2)), observed)
                theta = self._proposed(q, size, rng)
                data = runner.run(theta, rng)
                valid = np.isfinite(data).all(axis=1)
                if valid.any():
                    phi = np.concatenate([phi, self.prior_.to_working(theta[: len(data)][valid])])
                    x = np.concatenate([x, self._summarize(data[valid])])
        self._learn_validity(self.simulations_)
        self.ratio_ = self._learned_ratio(phi, x, self.steps)
        return q, runner.notes()

    def _learned_ratio(self, phi: np.ndarray, x: np.ndarray, steps: int) -> "LogRatio":
        from decond.lfi.neural.networks import fit_ratio

        self._known = phi
        seed = int(as_generator(self.seed).integers(2**31))
        return fit_ratio(phi, x, loss=self.loss, steps=steps, seed=seed, seconds=self.time_limit)

    def _fitted(self, start: "BoxedGaussian", ratio: "LogRatio", observed: np.ndarray) -> "BoxedGaussian":
        """Return q for a ratio: the best from several starts, since a step from far away may lead astray."""

        def log_posterior(phi: np.ndarray) -> np.ndarray:
            return ratio.at(phi, observed) + self.prior_.log_density_working(phi) + self.log_valid_(phi)

        peak = self._known[int(np.argmax(log_posterior(self._known)))]
        narrow = replace(start, mean=peak, root=self.settings.narrow * np.eye(len(peak)))
        found = [fit_gaussian(log_posterior, begin, seed=0) for begin in (start, narrow)]
        return max(found, key=lambda q: lower_bound(log_posterior, q, seed=0))

    def _start(self) -> "BoxedGaussian":
        """Return the Gaussian with the moments of the prior."""
        prior = self.prior_
        phi = prior.to_working(prior.sample(self.settings.start_draws))
        root = cholesky(np.atleast_2d(np.cov(phi, rowvar=False)), "the prior's covariance").lower
        return BoxedGaussian(phi.mean(axis=0), root, prior.to_working(prior.low), prior.to_working(prior.high))

    def _proposed(self, q: "BoxedGaussian", n: int, rng: np.random.Generator) -> np.ndarray:
        """Return parameters for a round: draws of the widened q, and a tenth from the prior."""
        theta = self.prior_.from_working(q.widened(self.settings.widened).sample(n, rng))
        from_prior = rng.random(n) < Posterior.prior_share
        if from_prior.any():
            theta[from_prior] = self.prior_.sample(int(from_prior.sum()), rng)
        return theta


@dataclass(frozen=True)
class BoxedGaussian(Kept):
    """A Gaussian with a full covariance, cut to a box; its mean, before the cut, may lie outside.

    >>> box = BoxedGaussian(np.full(1, -30.0), np.eye(1), np.zeros(1), np.full(1, np.inf))
    >>> draws = box.sample(1000, np.random.default_rng(0))
    >>> bool(draws.min() > 0.0), bool(abs(draws.mean() - 1 / 30) < 0.005)
    (True, True)
    """

    mean: np.ndarray
    root: np.ndarray
    """Lower triangular; the covariance is its product with its transpose."""
    low: np.ndarray
    high: np.ndarray

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws (n, d): exact where no cut depends on other coordinates, else by Gibbs sampling.

        Parameters
        ----------
        n : int
            How many.
        rng : numpy.random.Generator
            Source of randomness.
        """
        settings = FitSettings()
        if np.isinf(self.low).all() and np.isinf(self.high).all():
            return self.mean + rng.standard_normal((n, len(self.mean))) @ self.root.T
        phi, log_weights = self.inside(rng.random((max(n, settings.points), len(self.mean))))
        if np.ptp(log_weights) < 1e-9:  # equal up to rounding
            return phi[:n]
        phi = phi[rng.choice(len(phi), size=n, p=special.softmax(log_weights))]
        precision = inverses(self.root @ self.root.T)
        for i in np.tile(np.arange(phi.shape[1]), settings.sweeps):
            scale = 1.0 / np.sqrt(precision[i, i])
            center = phi[:, i] - scale**2 * ((phi - self.mean) @ precision[i])
            low, high = (self.low[i] - center) / scale, (self.high[i] - center) / scale
            z, _ = _cut_normal(rng.random(n), low, high)
            phi[:, i] = np.clip(center + scale * z, self.low[i], self.high[i])
        return phi

    def widened(self, factor: float) -> Self:
        """Return the Gaussian with standard deviations times a factor, in the same box."""
        return type(self)(self.mean, factor * self.root, self.low, self.high)

    def inside(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return points of the box (n, d) for rows of the unit cube, and the logs of their weights.

        Each coordinate is a quantile of its Gaussian given the coordinates before it, cut to the box; the weight is
        the product of the shares that these cuts keep. Weighted so, the points are those of the cut Gaussian, and
        the mean weight is the share of the Gaussian inside the box.
        """
        phi, log_weights = np.empty_like(points), np.zeros(len(points))
        z = np.zeros_like(points)
        for i, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            center, scale = self.mean[i] + z @ self.root[i], self.root[i, i]
            z[:, i], log_share = _cut_normal(points[:, i], (low - center) / scale, (high - center) / scale)
            phi[:, i] = np.clip(center + scale * z[:, i], low, high)
            log_weights += log_share
        return phi, log_weights


def fit_gaussian(log_density: LogDensity, start: BoxedGaussian, seed: int) -> BoxedGaussian:
    """Return the boxed Gaussian q that maximizes E_q[log p − log q], from any start.

    At the optimum, log q is the regression of log p on 1, φ and φφᵀ under q itself (Salimans & Knowles 2013). Each
    step fits this quadratic at draws of the current q and goes half the way to it. It needs no gradients, and it
    holds for a Gaussian that is cut to a box, too, also where its mean is outside: a posterior that leans on a bound.
    The same quasi-random numbers serve all steps: they converge.

    Parameters
    ----------
    log_density : callable
        log p at rows of working coordinates, up to a constant.
    start : BoxedGaussian
        Where the search begins.
    seed : int
        Seed of the quasi-random numbers.

    References
    ----------
    T. Salimans and D. A. Knowles, Fixed-form variational posterior approximation through stochastic linear
    regression, Bayesian Analysis 8, 2013. https://doi.org/10.1214/13-BA858

    Examples
    --------
    >>> flat = BoxedGaussian(np.zeros(1), np.eye(1), np.full(1, -5.0), np.full(1, 5.0))
    >>> q = fit_gaussian(lambda phi: -0.5 * ((phi[:, 0] - 2.0) / 0.1) ** 2, flat, seed=0)
    >>> q.mean.round(3), q.root.round(3)
    (array([2.]), array([[0.1]]))
    """
    settings = FitSettings()
    current, points = start, _even_points(settings.points, len(start.mean), seed)
    for _ in range(settings.iterations):
        phi, log_weights = current.inside(points)
        values = log_density(phi).reshape(len(phi))
        usable = np.isfinite(values)
        weights = special.softmax(log_weights[usable])
        z = np.linalg.solve(current.root, (phi[usable] - current.mean).T).T
        before, current = current, _stepped(current, z, weights, values[usable], settings)
        if _change(before, current) < settings.tolerance:
            break
    return current


def lower_bound(log_density: LogDensity, q: BoxedGaussian, seed: int) -> float:
    """Return E_q[log p − log q], which `fit_gaussian` maximizes; a bound on the log evidence.

    Parameters
    ----------
    log_density : callable
        log p at rows of working coordinates.
    q : BoxedGaussian
        The Gaussian.
    seed : int
        Seed of the quasi-random numbers.

    Examples
    --------
    >>> normal = BoxedGaussian(np.zeros(1), np.eye(1), np.full(1, -np.inf), np.full(1, np.inf))
    >>> round(lower_bound(stats.norm(0.0, 1.0).logpdf, normal, seed=0), 3) + 0.0  # the evidence is 1
    0.0
    """
    phi, log_weights = q.inside(_even_points(4 * FitSettings().points, len(q.mean), seed))
    log_share = special.logsumexp(log_weights) - np.log(len(phi))
    z = np.linalg.solve(q.root, (phi - q.mean).T).T
    log_q = -0.5 * (z**2 + np.log(2.0 * np.pi)).sum(axis=1) - np.log(np.diag(q.root)).sum() - log_share
    weights = special.softmax(log_weights)
    return float(np.where(weights > 0.0, weights * (log_density(phi).reshape(len(phi)) - log_q), 0.0).sum())


def _even_points(n: int, d: int, seed: int) -> np.ndarray:
    """Return quasi-random points (n, d) of the unit cube."""
    return np.asarray(stats.qmc.Sobol(d, seed=seed).random(n))


def _cut_normal(share: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return quantiles of a standard normal cut to [low, high], and the log of the mass there, also in far tails."""
    flipped = low > -high  # in the lower tail, logarithms lose nothing
    below, above = np.where(flipped, -high, low), np.where(flipped, -low, high)
    log_below, log_above = special.log_ndtr(below), special.log_ndtr(above)
    log_mass = log_above + np.log(-np.expm1(np.minimum(log_below - log_above, -1e-15)))
    quantile = np.maximum(np.where(flipped, 1.0 - share, share), 1e-300)
    z = np.clip(special.ndtri_exp(np.logaddexp(log_below, np.log(quantile) + log_mass)), below, above)
    return np.where(flipped, -z, z), log_mass


def _stepped(
    current: BoxedGaussian, z: np.ndarray, weights: np.ndarray, values: np.ndarray, settings: FitSettings
) -> BoxedGaussian:
    """Return the Gaussian part of the way to the quadratic of values at its draws, in standardized coordinates z.

    Bounds on its width leave the slope of log q amid the draws as it is: where q leans on a bound, that slope counts.
    """
    center, damping = weights @ z, settings.damping
    g, H, _ = fit_quadratic(z - center, values, weights)
    precisions, vectors = np.linalg.eigh((1.0 - damping) * np.eye(len(g)) - damping * H)
    precisions = np.clip(precisions, settings.flattest, settings.steepest)
    towards = damping * (g + center)  # the slope of log q there is -center
    moved = (z - center) @ (vectors @ (vectors.T @ towards / precisions))
    towards *= min(1.0, settings.farthest / max(float(np.sqrt(weights @ moved**2)), 1e-300))
    slope = np.linalg.solve(current.root.T, towards - center)
    stretched = current.root @ (vectors / np.sqrt(precisions))
    spread, axes = np.linalg.eigh(stretched @ stretched.T)
    covariance = (axes * np.clip(spread, settings.narrowest**2, settings.widest**2)) @ axes.T
    mean = current.mean + current.root @ center + covariance @ slope
    return BoxedGaussian(mean, cholesky(covariance, "the covariance of q").lower, current.low, current.high)


def _change(before: BoxedGaussian, after: BoxedGaussian) -> float:
    """Return how far mean and root moved, in standard deviations."""
    moved = np.column_stack([after.mean - before.mean, after.root - before.root])
    return float(np.abs(np.linalg.solve(before.root, moved)).max())
