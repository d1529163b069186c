"""Predictive checks: does the model, with the parameters found, produce data like those observed?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_number
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.methods.method import nearest_distances
from decond.lfi.posterior_draws import Observation, Posterior
from decond.lfi.simulations import Simulations
from decond.lfi.summaries import Standardizer
from decond.messages import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from decond.plotting import PredictiveDisplay

__all__ = ["PredictiveCheck", "observation_among", "posterior_predictive_check", "share_as_remote"]


@dataclass(frozen=True, eq=False, repr=False)
class PredictiveCheck:
    """Where the observation lies among simulated summaries.

    Shares count the observation itself, so that they are never zero.

    Attributes
    ----------
    observed : ndarray of shape (s,)
        The summaries of the observation.
    simulated : ndarray of shape (n, s)
        Those of valid simulations.
    tail_shares : ndarray
        Twice the share of simulations on the far side of the observation, for each summary.
    distance_share : float
        Share of simulations at least as far from the middle of all as the observation is, in the metric of their
        covariance.
    extreme_share : float
        Share of simulations whose farthest summary is at least as far out.
    n_failed : int
        Simulations that failed.
    level : float
        Probability of a false alarm.
    names : tuple
        Names of the summaries.

    Examples
    --------
    >>> simulated = np.random.default_rng(0).standard_normal((500, 1))
    >>> observation_among(Simulations(simulated, simulated), np.array([[0.3]]))
    PredictiveCheck(fine; 1 summaries of 500 simulations)
    >>> observation_among(Simulations(simulated, simulated), np.array([[9.0]])).verdict
    'observation unlike the predictions'
    """

    observed: NDArray[np.float64]
    simulated: NDArray[np.float64]
    tail_shares: NDArray[np.float64]
    distance_share: float
    extreme_share: float
    n_failed: int = 0
    level: float = 0.01
    names: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the observation may be one of the simulations, with a false alarm in `level` of the cases."""
        return min(self.distance_share, self.extreme_share) > self.level / 2.0

    @property
    def verdict(self) -> str:
        """Say "fine" or "observation unlike the predictions"."""
        return "fine" if self.passed else "observation unlike the predictions"

    @property
    def sentences(self) -> list[str]:
        """The numbers behind the verdict."""
        count = len(self.simulated)
        unusual = min(self.distance_share, self.extreme_share)
        lines = [f"{percent(unusual)} of {count} predicted data sets are at least as unusual as the observation."]
        far = np.argsort(self.tail_shares)[:3]
        named = [f"{self.names[j]} ({self.tail_shares[j]:.1%})" for j in far if self.tail_shares[j] < 0.05]
        if named and not self.passed:
            lines.append(f"It is in the tails of {', '.join(named)}.")
        if self.n_failed:
            lines.append(f"{self.n_failed} of {count + self.n_failed} predictive simulations failed.")
        return lines

    def plot(self, ax: "Axes | NDArray[np.object_] | None" = None) -> "PredictiveDisplay":
        """Draw a histogram of each simulated summary, with the observation as a line, and return the display.

        Of more than twelve summaries those in which the observation is oddest are drawn. `ax` is one of your axes or
        one for each of them; without it a new figure is made.
        """
        from decond.plotting import PredictiveDisplay

        shown = self.shown()
        names, notes = [self.names[j] for j in shown], [f"tail {percent(self.tail_shares[j])}" for j in shown]
        return PredictiveDisplay(self.simulated[:, shown], self.observed[shown], names, notes=notes).plot(ax)

    def shown(self) -> np.ndarray:
        """Return the numbers of the summaries that a picture shows."""
        return np.sort(np.argsort(self.tail_shares, kind="stable")[:12])

    def __repr__(self) -> str:
        """Show the verdict."""
        return f"PredictiveCheck({self.verdict}; {len(self.names)} summaries of {len(self.simulated)} simulations)"


def posterior_predictive_check(
    posterior: Posterior | None,
    simulator: Callable[..., ArrayLike] | Simulations,
    observed: Observation,
    n: int = 200,
    *,
    level: float = 0.01,
    names: Sequence[str] | None = None,
    **options: Any,
) -> PredictiveCheck:
    """Return where the observation lies among data simulated at draws of the posterior.

    A model that fails is wrong, or its posterior is; one that passes may still be wrong, since the same observation
    chose the parameters.

    Parameters
    ----------
    posterior : Posterior, optional
        The posterior.
    simulator : callable
        The simulator, or simulations at draws of the posterior that were made elsewhere.
    observed : array_like or dict
        The observation.
    n : int, optional
        Simulations; shares for the whole observation cannot fall below 1/(n + 1), so at least 2/level.
    level : float, optional
        Probability of a false alarm.
    names : sequence of str, optional
        Names of the values of `observed`; without them, the values are in the order of the simulations that the
        posterior was made from.
    options : object
        Options of `lfi.simulate`.

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi import Prior
    >>> posterior = Posterior(Prior({"mean": stats.norm(0, 1)}), lambda n, rng: rng.normal(1.0, 0.1, (n, 1)))
    >>> def simulator(theta, rng):
    ...     return theta + rng.standard_normal(theta.shape)
    >>> posterior_predictive_check(posterior, simulator, [1.2], batched=True).verdict
    'fine'
    >>> posterior_predictive_check(posterior, simulator, [7.0], batched=True).verdict
    'observation unlike the predictions'
    """
    if not 0.0 < as_number(level, "level") < 1.0:
        raise ArgumentError("level", f"level is {level!r}; give a number between 0 and 1, for example 0.01.")
    if isinstance(simulator, Simulations):
        sims = simulator
    elif callable(simulator) and posterior is not None:
        sims = posterior.predictive(simulator, n, **options)
    else:
        raise ArgumentTypeError(
            "simulator", f"simulator is {type(simulator).__name__}; give a function, or lfi.Simulations."
        )
    made_from = None if posterior is None else posterior.simulations
    order = None if made_from is None else made_from.summary_names
    if names is not None and sims.summary_names is not None and sorted(names) == sorted(sims.summary_names):
        order = tuple(names)
    sims = sims.ordered_as(order)
    return observation_among(sims, sims.observed_row(observed), level, names or sims.summary_names)


def observation_among(
    sims: Simulations, observed: NDArray[np.float64], level: float = 0.01, names: Sequence[str] | None = None
) -> PredictiveCheck:
    """Return where an observation lies among valid simulations.

    Parameters
    ----------
    sims : Simulations
        The simulations.
    observed : ndarray of shape (1, s)
        The observation.
    level : float, optional
        Probability of a false alarm.
    names : sequence of str, optional
        Names of the summaries.
    """
    if observed.shape[1] != sims.x.shape[1]:
        raise ArgumentError(
            "observed",
            f"observed has {observed.shape[1]} value(s) but each simulation has {sims.x.shape[1]}; give the same "
            "summaries, in the same order.",
        )
    x = sims.x[sims.valid]
    if len(x) < 2:
        raise ArgumentError(
            "simulator",
            f"only {len(x)} of {len(sims)} predictive simulations are valid; at least 2 are needed. Reasons: "
            f"{sims.failures}.",
        )
    below, above = (x <= observed).sum(axis=0), (x >= observed).sum(axis=0)
    tails = np.minimum(1.0, 2.0 * (1.0 + np.minimum(below, above)) / (1.0 + len(x)))
    named = tuple(names) if names is not None else tuple(f"x{j + 1}" for j in range(x.shape[1]))
    if len(named) != x.shape[1]:
        raise ArgumentError(
            "names", f"names has {len(named)} entries but there are {x.shape[1]} summaries; give one for each."
        )
    shares = _distance_share(x, observed), _extreme_share(x, observed)
    return PredictiveCheck(observed[0].copy(), x.copy(), tails, *shares, sims.n_failed, level, named)


def share_as_remote(sims: Simulations, observed: NDArray[np.float64]) -> float:
    """Return the share of simulations that are as far from their nearest neighbor as the observation is from them.

    Parameters
    ----------
    sims : Simulations
        The simulations.
    observed : ndarray of shape (1, s)
        The observation.
    """
    x = sims.x[sims.valid]
    scale = Standardizer(x)
    nearest, between = nearest_distances(scale.apply(x), scale.apply(observed))
    return float(np.mean(between >= nearest))


def _extreme_share(x: np.ndarray, observed: np.ndarray) -> float:
    """Return the rank of the observation's farthest summary, in robust units of all rows together."""
    rows = np.concatenate([x, observed])
    middle = np.median(rows, axis=0)
    spread = np.median(np.abs(rows - middle), axis=0)
    deviation = rows.std(axis=0)
    unit = np.where(spread > 0.0, spread, np.where(deviation > 0.0, deviation, 1.0))
    farthest = np.max(np.abs(rows - middle) / unit, axis=1)
    return float(np.mean(farthest >= farthest[-1] * (1.0 - 1e-12)))


def _distance_share(x: np.ndarray, observed: np.ndarray) -> float:
    """Return the rank of the observation's Mahalanobis distance, from one shrunk covariance of all rows together.

    The observation counts among the rows, so that all are treated alike and the rank is exactly uniform if it is one
    of them.
    """
    from sklearn.covariance import LedoitWolf

    rows = np.concatenate([x, observed])
    spread = rows.std(axis=0)
    rows = (rows - rows.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    distances = LedoitWolf(assume_centered=True).fit(rows).mahalanobis(rows)
    return float(np.mean(distances >= distances[-1] * (1.0 - 1e-12)))
