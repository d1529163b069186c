"""Targets that were each measured at one unseen x: models that use their whole distribution, not only its mean.

They need p(x | y) as it is where the targets come from, and the pairs may come from elsewhere (another year, another
sensor). So they are fitted for several *drifts*: x follows the mediator more strongly than in the pairs, or less.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from decond.estimators.defaults import spread
from decond.estimators.mediation import Mediation
from decond.learning import FitResult, HyperparameterSample, Model
from decond.learning.unseen import Beginning, locate
from decond.learning.variables import Variable

__all__ = ["START_NOISE", "UnseenFits", "unseen_fits"]

DRIFTS = (-0.2, -0.1, 0.0, 0.1, 0.2)
"""How much more strongly x may follow the mediator in the task table than in the pairs."""

DRIFT_SPREAD = 0.1
"""Standard deviation of the drift, before the targets are looked at."""

START_NOISE, LEAST_NOISE = 0.3, 0.2
"""Noise to begin with, and the least, in units of the targets' deviation: with less noise a target would be placed at
single rows, as if p(x | y) were known without error."""

STEPS = 60

MOST_WEIGHT = 0.75
"""The evidence takes p(x | y) for known, which it is not: so these models never have more weight than that."""

NEGLIGIBLE = 1e-2
"""Drifts of less weight are left out."""


class UnseenFits(NamedTuple):
    """One fit for every drift that counts, with the weight of each among all models, and what to tell of it."""

    fits: list[tuple[FitResult, HyperparameterSample]]
    weights: np.ndarray
    evaluations: int
    """Spent on drifts that nothing was kept of."""
    story: str


def straight(start: Beginning, x: np.ndarray, expected: np.ndarray, z: np.ndarray) -> Beginning:
    """Return another beginning: f as the straight line of z on E[x | y].

    A wiggle of the first one may put targets at the wrong rows, and from there no step leads back.
    """
    center, scale = expected.mean(axis=0), spread(expected)
    slopes, *_ = np.linalg.lstsq((expected - center) / scale, z - z.mean(), rcond=None)
    line = z.mean() + (x - center) / scale @ slopes
    return start._replace(mean=np.clip(line, z.min(), z.max()), variance=np.full(len(x), float(np.var(z)) / 4.0))


def unseen_fits(
    start: Beginning,
    mediation: Mediation,
    x: np.ndarray,
    z: np.ndarray,
    variables: Callable[[Model], list[Variable]],
    rival: float,
    progress: Any,
) -> UnseenFits:
    """Return fits whose weights come from Bayes' rule, `rival` being the best objective of the other models.

    Drifts begin where the better of two beginnings was, without drift. Of an x with labels there is only one.
    """
    least_noise = LEAST_NOISE / START_NOISE * start.noise
    drifts = DRIFTS if mediation.task.dtype.kind == "f" else (0.0,)
    tables = dict(zip(drifts, mediation.probabilities(start.prior.covariance, x, drifts), strict=True))

    def search(begin: Beginning, drift: float) -> FitResult:
        return locate(begin, x, tables[drift], z, variables, least_noise, STEPS, progress)

    starts = [start] if x.dtype.kind != "f" else [start, straight(start, x, mediation.task, z)]
    first = [search(begin, 0.0) for begin in starts]
    best = int(np.argmax([max(result.starts) for result in first]))
    moved = {drift: search(starts[best], drift) for drift in drifts if drift}
    results = [moved.get(drift, first[best]) for drift in drifts]
    total = sum(result.evaluations for result in [*first, *moved.values()])
    return _weighted(results, np.array(drifts), rival, total)


def _weighted(results: list[FitResult], drifts: np.ndarray, rival: float, evaluations: int) -> UnseenFits:
    """Return the fits that count with their weights."""
    beforehand = -0.5 * (drifts / DRIFT_SPREAD) ** 2
    logs = np.array([max(result.starts) for result in results]) + beforehand - logsumexp(beforehand)
    probability = float(expit(logsumexp(logs) - rival))
    shares = np.exp(logs - logsumexp(logs))
    kept = np.flatnonzero(shares >= NEGLIGIBLE) if probability >= NEGLIGIBLE else np.array([], dtype=int)
    weights = min(probability, MOST_WEIGHT) * shares[kept] / shares[kept].sum()
    fits = [(results[i], HyperparameterSample((results[i].parameters,), np.ones(1))) for i in kept]
    spent = evaluations - sum(results[i].evaluations for i in kept)
    story = (
        f"Each target was taken for a measurement at one unseen x with weight {weights.sum():.0%}; x then follows "
        f"the mediator {1.0 + float(shares @ drifts):.2f} times as strongly as in the pairs."
    )
    return UnseenFits(fits, weights, spent, story if len(kept) else "")
