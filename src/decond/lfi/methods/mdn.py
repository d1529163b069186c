"""MDN: a mixture density network that learns where to simulate (Papamakarios & Murray 2016)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from decond.checks import as_count, as_generator
from decond.lfi.exceptions import PosteriorWarning, UninformativeNetworkWarning
from decond.lfi.methods.method import SummaryOption
from decond.lfi.methods.simulating_method import BoundedSimulator, NetworkMethod
from decond.lfi.neural.gaussian_mixture import CutMixture, GaussianMixture, LogQuadratic, prior_quadratic
from decond.lfi.posterior_draws import FromWorking, Posterior, Seed

if TYPE_CHECKING:
    from decond.lfi.neural.networks import ConditionalMixture

__all__ = ["MDN", "MDNSettings"]


@dataclass(frozen=True)
class MDNSettings:
    """How simulations are spread over rounds, and which components count; rules of thumb."""

    least_round: int = 100
    """Simulations of a round; where the budget gives less, there are fewer rounds."""
    final_share: int = 2
    """How many times as many simulations the last round gets as a round before it."""
    least_weight: float = 0.05
    """Leave out components with a smaller weight. One that the network hardly uses is about as wide as the proposal:
    its few draws can make most of the variance. Divided by the proposal, it would be far wider, and take over."""
    little_information: float = 0.1
    """Warn if the data add less precision in a direction, in units of the prior's: the standard deviation then falls
    by less than 5 %."""


@dataclass(frozen=True)
class _Stage:
    """Valid simulations of one proposal: working coordinates, summaries, and the proposal; None is the prior."""

    phi: np.ndarray
    x: np.ndarray
    proposal: GaussianMixture | None = None

    def joined(self, other: "_Stage") -> "_Stage":
        """Return the simulations of both, which have one proposal."""
        return _Stage(np.concatenate([self.phi, other.phi]), np.concatenate([self.x, other.x]), self.proposal)


@dataclass(eq=False, repr=False)
class MDN(NetworkMethod):
    """A Bayesian mixture density network q(θ | x), trained where the posterior is.

    Each round trains a network with one Gaussian on simulations at draws of a proposal p̃, the first at draws of the
    prior, and takes q(θ | observed) · prior(θ) / p̃(θ), which is a Gaussian, as the next proposal (Algorithm 1). The
    last round trains a network with several `components`, and corrects each of them so (Algorithm 2). The networks
    see only the simulations of their round. Without a `simulator`, or with ``rounds=0``, one network with all
    components is trained in `fit`, once for all observations, and nothing has to be corrected. The simulations given
    have to be at draws of the prior: of any others the network learns another posterior, and cannot tell.

    All this happens in the prior's working coordinates, where many priors are Gaussian or flat: then the correction
    is exact. For any other prior it uses the Gaussian of the same mean and covariance, and the draws are put right
    in the end; without rounds, the mixture's tails may not outgrow such a prior's. Failed simulations teach nothing,
    but their absence does: the networks learn the density of θ given data that exist, P(valid | θ) included.

    A corrected Gaussian need not exist: where the network makes the observation say less than nothing. A round then
    keeps its proposal and simulates more there. In the last round such components are left out; if most of q is in
    them, they keep the prior in the directions concerned. After rounds, a warning says if components are about as
    wide as the prior in some direction. Those with less than 5 % of q(θ | observed) are left out as well, with and
    without rounds: a mode that small is not found. With few simulations a Bayesian network errs on the wide side, and
    so does the posterior. It needs the extra: ``decond[neural]``.

    Parameters
    ----------
    simulator : callable, optional
        The simulator that made the simulations, to be run by `posterior`; None to use only these.
    n_simulations : int, optional
        Simulations in all, those given to `fit` included.
    batched : bool, optional
        Whether the simulator takes many rows of parameters at once.
    components : int, optional
        Gaussians of the last network.
    hidden : int or sequence of int, optional
        Units of each tanh layer, or of the only one; by default one layer, with more units for more simulations,
        at most 50.
    rounds : int, optional
        Rounds before the last one, or 0 for none; the simulations given to `fit` are the first. A small budget
        has fewer.
    steps : int, optional
        Steps of training for the last network; the others take half as many.
    time_limit : float, optional
        Seconds after which no further simulation begins, and for each training.
    seed : int, Generator or None, optional
        Seed of everything random.
    summary : {"auto", "none", "learned"}, optional
        What the network sees of the data, as in `Method`.

    References
    ----------
    G. Papamakarios and I. Murray, Fast ε-free inference of simulation models with Bayesian conditional density
    estimation, NeurIPS 2016.

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi import Prior, Simulations
    >>> prior, rng = Prior({"mean": stats.norm(0, 1)}), np.random.default_rng(1)
    >>> def simulator(theta, rng):
    ...     return theta + 0.5 * rng.standard_normal(theta.shape)
    >>> theta = prior.sample(200, seed=0)
    >>> pilot = Simulations(theta=theta, x=simulator(theta, rng))
    >>> method = MDN(simulator, n_simulations=1000, batched=True, components=1, rounds=1)
    >>> posterior = method.fit(pilot, prior).posterior([1.0])  # exact: mean 0.8, standard deviation 0.45
    >>> bool(abs(posterior.mean()[0] - 0.8) < 0.15), bool(abs(posterior.std()[0] - 0.45) < 0.1)
    (True, True)
    >>> method.n_simulations_
    1000
    """

    simulator: Callable[..., ArrayLike] | None = None
    n_simulations: int = 2000
    batched: bool = False
    _: KW_ONLY
    components: int = 3
    hidden: int | Sequence[int] | None = None
    rounds: int = 3
    steps: int = 3000
    time_limit: float = 600.0
    seed: Seed = 0
    summary: SummaryOption = "none"

    needs_prior_draws = True
    settings = MDNSettings()

    def _fit(self) -> None:
        as_count(self.components, "components")
        if self.hidden is not None:
            _layers(self.hidden)
        self._check_training()
        self._prior_form, self._prior_root, self._prior_exact = prior_quadratic(self.prior_)
        self._network: ConditionalMixture | None = None
        if not self._has_rounds:
            self._network = self._last_network(_Stage(self.phi_, self.x_), as_generator(self.seed))

    def _posterior(self, observed: np.ndarray) -> Posterior:
        if self._network is not None:
            return self._answer(self._cut(self._used(self._network.at(observed)), self.phi_), self._notes())
        rng = as_generator(self.seed)
        with self._running() as runner:
            stage = self._rounds(observed, runner, rng)
        mixture, _ = self._corrected(self._last_network(stage, rng).at(observed), stage.proposal)
        notes = [*runner.notes(), *self._notes()]
        if stage.proposal is not None:
            least = self.settings.little_information
            notes += _empty_notes(mixture, self._prior_form, self._prior_root, least)
        return self._answer(self._cut(mixture, stage.phi if stage.proposal is None else None), notes)

    def _cut(self, mixture: GaussianMixture, simulated: np.ndarray | None) -> CutMixture:
        """Return the mixture put right for the prior; `simulated` if draws of the prior itself taught it."""
        if self._prior_exact:
            return CutMixture(mixture, self.prior_)
        if simulated is None:
            return CutMixture(mixture, self.prior_, assumed=self._prior_form)
        return CutMixture(mixture, self.prior_, simulated=simulated)

    def _rounds(self, observed: np.ndarray, runner: BoundedSimulator, rng: np.random.Generator) -> _Stage:
        """Return the simulations of the last round (Algorithm 1 of the paper)."""
        stage = _Stage(self.phi_, self.x_)
        self.proposals_: list[GaussianMixture] = []
        for size in _round_sizes(runner.left, self.rounds, self.settings):
            estimate, repaired = self._corrected(self._round_network(stage, rng).at(observed), stage.proposal)
            proposal = stage.proposal if stage.proposal is not None and repaired.any() else estimate
            new = self._simulated(proposal, size, runner, rng)
            if proposal is stage.proposal:
                stage = stage.joined(new)
            elif len(new.phi) >= self.n_needed(self.prior_.dim):
                stage = new
            else:
                break
            self.proposals_.append(proposal)
        return stage

    def _corrected(
        self, mixture: GaussianMixture, proposal: GaussianMixture | None
    ) -> tuple[GaussianMixture, np.ndarray]:
        """Return prior/proposal times the mixture, and which of its components had to be repaired."""
        used = self._used(mixture)
        if proposal is None:
            return used, np.zeros(len(used.means), dtype=bool)
        form = LogQuadratic(proposal.precisions[0], proposal.precisions[0] @ proposal.means[0])
        result, repaired = used.corrected(self._prior_form, form, self._prior_root)
        if np.exp(used.log_weights)[~repaired].sum() <= 0.5:
            return result, repaired
        return result.taken(~repaired), repaired[~repaired]

    def _simulated(
        self, proposal: GaussianMixture, size: int, runner: BoundedSimulator, rng: np.random.Generator
    ) -> _Stage:
        phi = CutMixture(proposal, self.prior_).sample(size, rng)
        x = runner.run(self.prior_.from_working(phi), rng)
        valid = np.isfinite(x).all(axis=1)
        return _Stage(phi[: len(x)][valid], self._summarize(x[valid]), proposal)

    def _last_network(self, stage: _Stage, rng: np.random.Generator) -> "ConditionalMixture":
        return self._trained(stage, rng, self.components, self.steps)

    def _round_network(self, stage: _Stage, rng: np.random.Generator) -> "ConditionalMixture":
        return self._trained(stage, rng, 1, max(1, self.steps // 2))

    def _trained(self, stage: _Stage, rng: np.random.Generator, components: int, steps: int) -> "ConditionalMixture":
        from decond.lfi.neural.networks import fit_mixture

        fitted = fit_mixture(
            stage.phi,
            stage.x,
            components=components,
            hidden=(_units(len(stage.phi)),) if self.hidden is None else _layers(self.hidden),
            steps=steps,
            seed=int(rng.integers(2**31)),
            seconds=self.time_limit,
        )
        self.training_ = fitted.trained
        return fitted

    def _answer(self, density: CutMixture, notes: list[PosteriorWarning]) -> Posterior:
        return Posterior(
            self.prior_,
            FromWorking(self.prior_, density),
            log_likelihood=density,
            log_normalizer=0.0,
            notes=[*notes, *_outside_notes(density)],
            seed=self.seed,
        )

    def _used(self, mixture: GaussianMixture) -> GaussianMixture:
        """Return the components that hold enough of the mixture, at least the largest."""
        weights = np.exp(mixture.log_weights)
        return mixture.taken(weights >= min(self.settings.least_weight, weights.max()))

    def _notes(self) -> list[PosteriorWarning]:
        return self._training_notes(self.training_.finished, self.training_.steps)


def _round_sizes(left: int, rounds: int, settings: MDNSettings) -> list[int]:
    """Return the sizes of the rounds after the first: equal ones, and the last round with twice as many.

    >>> _round_sizes(1600, 3, MDNSettings()), _round_sizes(80, 3, MDNSettings())
    ([400, 400, 800], [80])
    """
    further = int(np.clip(left // settings.least_round - settings.final_share, 0, rounds - 1))
    size = left // (further + settings.final_share)
    sizes = [*[size] * further, left - size * further]
    return [size for size in sizes if size > 0]


def _units(n: int) -> int:
    """Return the units of a layer: few where there are few simulations to learn their weights from."""
    return 5 if n <= 150 else 20 if n < 1000 else 50


def _layers(hidden: int | Sequence[int]) -> tuple[int, ...]:
    """Return the units of each layer, or raise.

    >>> _layers(10), _layers([30, 20])
    ((10,), (30, 20))
    """
    return tuple(as_count(units, "hidden") for units in (hidden if isinstance(hidden, Iterable) else [hidden]))


def _empty_notes(
    mixture: GaussianMixture, prior: LogQuadratic, prior_root: np.ndarray, least: float
) -> list[PosteriorWarning]:
    """Return a warning if components of a corrected mixture add less than `least` to the prior in some direction."""
    gain = prior_root.T @ (mixture.precisions - prior.precision) @ prior_root
    empty = np.linalg.eigvalsh(gain)[:, 0] < least
    if not empty.any():
        return []
    share = float(np.exp(mixture.log_weights)[empty].sum())
    text = (
        f"in some directions the network learned nothing beyond the proposal ({share:.0%} of the mixture): it is "
        "about as wide as the prior there. If the data should tell more, give more simulations or fewer rounds."
    )
    return [UninformativeNetworkWarning(text, share)]


def _outside_notes(density: CutMixture) -> list[PosteriorWarning]:
    if not density.rarely_inside:
        return []
    text = (
        "almost all of the mixture lies outside the prior's support, or far from the prior; the draws are those of "
        "its edge. Check the observation and the prior, or give more simulations."
    )
    return [PosteriorWarning(text)]
