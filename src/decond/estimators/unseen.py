"""Targets that were each measured at one unseen x: models that use their whole distribution, not only its mean."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logsumexp, softmax

from decond.estimators.chances import Chances
from decond.estimators.defaults import label_columns, spread
from decond.estimators.mediation import Mediation
from decond.kernels.base import Kernel
from decond.learning import FitResult, HyperparameterSample, Model
from decond.learning.unseen import Beginning, locate
from decond.learning.variables import Variable
from decond.regression import condition

__all__ = ["START_NOISE", "UnseenFits", "places_of", "unseen_fits"]

START_NOISE, LEAST_NOISE = 0.3, 0.2
"""Noise to begin with, and the least, in units of the targets' deviation: with less noise a target would be placed at
single rows, as if p(x | y) were known without error."""

STEPS = 60

MOST_WEIGHT = 3.0 / 4.0
"""The evidence takes p(x | y) for known, which it is not: so these models never have more weight than that."""

STRETCHES = (0.9, 1.1)
"""How much more x may follow the mediator in the task table than in the pairs, of another time or place; or less."""

ENDS_POWER = 0.25
"""Power of the evidence where ends of searches are compared: of two mirror images that nothing can tell apart one is
ahead by up to 15 units by chance."""

NEGLIGIBLE = 1e-2
"""Models of less weight are left out."""

OTHER_PLACES = 0.02
"""Share of the targets that two searches have at other rows, from which they count as two."""


class UnseenFits(NamedTuple):
    """The fits that count, with the weight of each among all models, and what to tell of them."""

    fits: list[tuple[FitResult, HyperparameterSample]]
    weights: np.ndarray
    probability: float
    """That targets are such measurements, by Bayes' rule."""
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


def moved(found: FitResult, x: np.ndarray, z: np.ndarray, stretch: float) -> Beginning:
    """Return a beginning with f stretched about the mean of x; by -1 it is turned over.

    Where x given y is symmetric, f and its mirror image explain the targets equally well: then both have to be kept.
    """
    model, center = found.model, x.mean(axis=0)
    posterior = condition(model.prior, model.observation, z)
    back = center + (x - center) / stretch
    return Beginning(model.prior, model.observation.noise, *posterior.moments(back))


class Places(NamedTuple):
    """How probable every row of x is for each target, (n, m): one table or rivals.

    `stretched` gives the table of another stretch, where there are such; `pairs` is the number of pairs from which
    they were learned.
    """

    tables: list[np.ndarray]
    stretched: Callable[[float], np.ndarray] | None
    pairs: int


def places_of(mediators: Sequence[Mediation], kernel_x: Kernel, x: np.ndarray, seed: int) -> Places:
    """Return the probabilities from shifted residuals where all columns are numbers, else those of the embedding."""
    y, y_task = mediators[0].pairs, mediators[0].task
    if x.dtype.kind != "f" or label_columns(y):
        return Places([mediator.probabilities(kernel_x, x) for mediator in mediators], None, len(x))
    chances = Chances(x, y, y_task, seed)
    return Places([chances.table()], chances.table, chances.pairs)


def unseen_fits(
    start: Beginning,
    places: Places,
    x: np.ndarray,
    expected: np.ndarray,
    z: np.ndarray,
    variables: Callable[[Model], list[Variable]],
    rival: float,
    progress: Any,
) -> UnseenFits:
    """Return fits whose weights come from Bayes' rule, `rival` being the best objective of the other models.

    For each table searches begin at two places and at the mirror image of the better end; for each stretch where
    those ended, unless the other models leave them no weight. All ends that differ are kept. `expected` is E[x | y]
    at the task rows. Of an x with labels there is no line and no mirror image.
    """
    least_noise = LEAST_NOISE / START_NOISE * start.noise
    numbers = x.dtype.kind == "f"
    starts = [start, straight(start, x, expected, z)] if numbers else [start]
    spent = []

    def search(begin: Beginning, table: np.ndarray) -> FitResult:
        result = locate(begin, x, table, z, variables, least_noise, STEPS, progress)
        spent.append(result.evaluations)
        return result

    def optima(table: np.ndarray) -> Optima:
        found = [search(begin, table) for begin in starts]
        if numbers:
            found.append(search(moved(max(found, key=_objective), x, z, -1.0), table))
        return distinct(found)

    plain = [optima(table) for table in places.tables]
    stretched = []
    if places.stretched is not None and _probability(plain, rival) >= NEGLIGIBLE:
        for stretch in STRETCHES:
            table = places.stretched(stretch)
            stretched.append(distinct([search(moved(fit, x, z, stretch), table) for fit in plain[0].likely()]))
    return _weighted(plain, stretched, rival, tables_power(places.pairs, len(z)), sum(spent))


def tables_power(pairs: int, targets: int) -> float:
    """Return the power of the evidence where tables of chances are compared.

    The evidence takes p(x | y) for known, so an error in it counts once for every target. With this power what it
    says grows as 1 / (1/pairs + 1/targets): with the smaller of two samples.

    >>> tables_power(500, 500)
    0.5
    """
    return pairs / (pairs + targets)


class Optima(NamedTuple):
    """Fits that put targets at different rows, the best one first, with the weight of each among them."""

    fits: list[FitResult]
    shares: np.ndarray

    @property
    def objective(self) -> float:
        """That of the best one."""
        return _objective(self.fits[0])

    def likely(self) -> list[FitResult]:
        """Return the fits that count."""
        return [fit for fit, share in zip(self.fits, self.shares, strict=True) if share >= NEGLIGIBLE]


def distinct(found: list[FitResult]) -> Optima:
    """Return the fits without those that put targets where a better one does."""
    kept: list[FitResult] = []
    for fit in sorted(found, key=_objective, reverse=True):
        if all(_differ(fit, other) for other in kept):
            kept.append(fit)
    return Optima(kept, softmax(ENDS_POWER * np.array([_objective(fit) for fit in kept])))


def _objective(result: FitResult) -> float:
    return max(result.starts)


def _differ(one: FitResult, other: FitResult) -> bool:
    """Return whether two searches have put targets at other rows."""
    distance = np.abs(one.model.observation.shares - other.model.observation.shares).sum(axis=0) / 2.0
    return bool(distance.mean() > OTHER_PLACES)


def _probability(plain: list[Optima], rival: float) -> float:
    """Return the probability of these tables against the models of the mean, by Bayes' rule."""
    logs = np.array([optima.objective for optima in plain])
    return float(expit(logsumexp(logs) - np.log(len(logs)) - rival))


def _weighted(
    plain: list[Optima], stretched: list[Optima], rival: float, power: float, evaluations: int
) -> UnseenFits:
    """Return the fits that count with their weights.

    Tables, stretched or not, have equal odds beforehand, and among each other the evidence to this power; those that
    are not stretched have Bayes' rule against the models of the mean.
    """
    probability, tables = _probability(plain, rival), [*plain, *stretched]
    held = softmax(power * np.array([optima.objective for optima in tables]))
    every = [fit for optima in tables for fit in optima.fits]
    shares = np.concatenate([share * optima.shares for share, optima in zip(held, tables, strict=True)])
    kept = np.flatnonzero(shares >= NEGLIGIBLE) if probability >= NEGLIGIBLE else np.array([], dtype=int)
    weights = min(probability, MOST_WEIGHT) * shares[kept] / shares[kept].sum()
    fits = [(every[i], HyperparameterSample((every[i].parameters,), np.ones(1))) for i in kept]
    spent = evaluations - sum(result.evaluations for result, _ in fits)
    story = f"Each target was taken for a measurement at one unseen x with weight {weights.sum():.0%}."
    return UnseenFits(fits, weights, probability, spent, story if len(kept) else "")
