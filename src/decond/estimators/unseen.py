"""Targets that were each measured at one unseen x: models that use their whole distribution, not only its mean."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from decond.estimators.defaults import spread
from decond.estimators.mediation import Mediation
from decond.learning import FitResult, HyperparameterSample, Model
from decond.learning.unseen import Beginning, locate
from decond.learning.variables import Variable
from decond.regression import condition

__all__ = ["START_NOISE", "UnseenFits", "unseen_fits"]

START_NOISE, LEAST_NOISE = 0.3, 0.2
"""Noise to begin with, and the least, in units of the targets' deviation: with less noise a target would be placed at
single rows, as if p(x | y) were known without error."""

STEPS = 60

MOST_WEIGHT = 2.0 / 3.0
"""The evidence takes p(x | y) for known, which it is not: so these models never have more weight than that."""

NEGLIGIBLE = 1e-2
"""Models of less weight are left out."""

OTHER_PLACES = 0.1
"""Share of the targets that two searches have at other rows, from which they count as two."""


class UnseenFits(NamedTuple):
    """The fits that count, with the weight of each among all models, and what to tell of them."""

    fits: list[tuple[FitResult, HyperparameterSample]]
    weights: np.ndarray
    evaluations: int
    """Spent on searches that nothing was kept of."""
    story: str


def straight(start: Beginning, x: np.ndarray, expected: np.ndarray, z: np.ndarray) -> Beginning:
    """Return another beginning: f as the straight line of z on E[x | y].

    A wiggle of the first one may put targets at the wrong rows, and from there no step leads back.
    """
    center, scale = expected.mean(axis=0), spread(expected)
    slopes, *_ = np.linalg.lstsq((expected - center) / scale, z - z.mean(), rcond=None)
    line = z.mean() + (x - center) / scale @ slopes
    return start._replace(mean=np.clip(line, z.min(), z.max()), variance=np.full(len(x), float(np.var(z)) / 4.0))


def mirrored(found: FitResult, x: np.ndarray, z: np.ndarray) -> Beginning:
    """Return a beginning with f turned over about the mean of x.

    Where x given y is symmetric, f and its mirror image explain the targets equally well: then both have to be kept.
    """
    model = found.model
    posterior = condition(model.prior, model.observation, z)
    turned = 2.0 * x.mean(axis=0) - x
    return Beginning(model.prior, model.observation.noise, posterior.mean(turned), posterior.variance(turned))


def unseen_fits(
    start: Beginning,
    mediators: Sequence[Mediation],
    x: np.ndarray,
    z: np.ndarray,
    variables: Callable[[Model], list[Variable]],
    rival: float,
    progress: Any,
) -> UnseenFits:
    """Return fits whose weights come from Bayes' rule, `rival` being the best objective of the other models.

    There is one for each description of the mediator, the better one of two beginnings, and the mirror image of the
    best of them; of an x with labels there is no line and no mirror image.
    """
    least_noise = LEAST_NOISE / START_NOISE * start.noise
    numbers = x.dtype.kind == "f"
    starts = [start, straight(start, x, mediators[-1].task, z)] if numbers else [start]

    def search(begin: Beginning, table: np.ndarray) -> FitResult:
        return locate(begin, x, table, z, variables, least_noise, STEPS, progress)

    tables = [mediator.probabilities(start.prior.covariance, x) for mediator in mediators]
    tried = [[search(begin, table) for begin in starts] for table in tables]
    results = [max(found, key=_objective) for found in tried]
    evaluations = sum(result.evaluations for found in tried for result in found)
    if numbers:
        best = max(results, key=_objective)
        other = search(mirrored(best, x, z), best.model.observation.weights)
        evaluations += other.evaluations
        if _differ(other, best):
            results.append(other)
    return _weighted(results, rival, evaluations)


def _objective(result: FitResult) -> float:
    return max(result.starts)


def _differ(one: FitResult, other: FitResult) -> bool:
    """Return whether two searches have put targets at other rows."""
    distance = np.abs(one.model.observation.shares - other.model.observation.shares).sum(axis=0) / 2.0
    return bool(distance.mean() > OTHER_PLACES)


def _weighted(results: list[FitResult], rival: float, evaluations: int) -> UnseenFits:
    """Return the fits that count with their weights."""
    logs = np.array([_objective(result) for result in results])
    total = logsumexp(logs)
    probability = float(expit(total - np.log(len(results)) - rival))
    shares = np.exp(logs - total)
    kept = np.flatnonzero(shares >= NEGLIGIBLE) if probability >= NEGLIGIBLE else np.array([], dtype=int)
    weights = min(probability, MOST_WEIGHT) * shares[kept] / shares[kept].sum()
    fits = [(results[i], HyperparameterSample((results[i].parameters,), np.ones(1))) for i in kept]
    spent = evaluations - sum(result.evaluations for result, _ in fits)
    story = f"Each target was taken for a measurement at one unseen x with weight {weights.sum():.0%}."
    return UnseenFits(fits, weights, spent, story if len(kept) else "")
