"""Where unseen x were, and f with its hyperparameters: shares and f in turn (`regression.unseen`)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from decond.errors import ArgumentError
from decond.learning.fit import FitResult, maximize_evidence
from decond.learning.variables import Model, Variable
from decond.regression import Direct, FunctionPrior, UnseenInput
from decond.regression.priors import prior_mean
from decond.regression.unseen import Sighting, shares_given, sighting

__all__ = ["Beginning", "locate"]

LEARNED_AT = (2, 5, 10, 20, 40)
"""Steps at which hyperparameters are learned again, with at most `ITERATIONS` each."""

ITERATIONS = 8

EARLIEST_END, SMALL_STEP = 20, 0.01
"""A later step that raises the objective by less than this ends the search."""

MESSAGES = {
    "converged": "where targets were measured, and f, no longer change.",
    "stopped": "where targets were measured, and f, still change a little; error bars do not count that.",
}

SEEN = 1e-6
"""Rows at which less than this of a target was measured do not speak for the hyperparameters."""


class Beginning(NamedTuple):
    """Where a search begins: a prior of f, σ, and mean and variance of f at the rows of x.

    >>> from decond.kernels import RBF
    >>> Beginning(FunctionPrior(RBF()), 0.5, mean=np.zeros(2), variance=np.ones(2)).noise
    0.5
    """

    prior: FunctionPrior
    noise: float
    mean: np.ndarray
    variance: np.ndarray


def locate(
    start: Beginning,
    x: np.ndarray,
    weights: np.ndarray,
    z: np.ndarray,
    variables: Callable[[Model], list[Variable]],
    least_noise: float,
    steps: int,
    progress: Any = None,
) -> FitResult:
    """Find shares, f, σ and the hyperparameters of a prior from targets that were measured at unseen x.

    Each step gives the best shares for f, then the best q(f) for the shares, then the best σ for both.

    >>> from decond.kernels import RBF
    >>> from decond.learning import select
    >>> x, z = np.array([[0.0], [5.0]]), np.array([1.0, 1.1, -1.0])
    >>> start = Beginning(FunctionPrior(RBF()), 0.5, np.array([0.5, -0.5]), np.ones(2))
    >>> variables = lambda model: select(model, free=["prior.kernel.lengthscale"])
    >>> result = locate(start, x, np.full((2, 3), 0.5), z, variables, least_noise=0.05, steps=30)
    >>> result.model.observation.shares.round(2)
    array([[1., 1., 0.],
           [0., 0., 1.]])
    """
    if np.any(prior_mean(start.prior, 1)):
        raise ArgumentError(
            "prior", "the prior of f has a mean; subtract it from the targets, and leave it out of the prior."
        )
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    prior, noise, seen = start.prior, start.noise, Sighting(start.mean, start.variance, -np.inf)
    gram, log_hyperprior = _gram(prior, x), 0.0
    evaluations, failures = 0, 0
    on_bounds: tuple[str, ...] = ()
    history, status = [], "stopped"
    for step in range(steps):
        shares = shares_given(log_weights, z, seen.mean, seen.variance, noise)
        if step in LEARNED_AT:
            result = _learn(prior, x, shares, z, noise, variables)
            prior, log_hyperprior = result.model.prior, max(result.starts) - result.log_evidence
            gram, on_bounds = _gram(prior, x), result.on_bounds
            evaluations, failures = evaluations + result.evaluations, failures + result.failures
        seen, used = sighting(gram, weights, shares, z, noise), noise
        history.append(seen.bound + log_hyperprior)
        noise = max(_misfit(seen, shares, z), least_noise)
        evaluations += 1
        if progress is not None:
            progress(evaluations, history[-1])
        if step > EARLIEST_END and history[-1] - history[-2] < SMALL_STEP and step not in LEARNED_AT:
            status = "converged"
            break
    model = Model(prior, UnseenInput(x, weights, shares, used))
    known = model.values()
    learned = {path: known[path] for variable in variables(_direct(prior, x, noise)) for path in variable.paths}
    return FitResult(
        model=model,
        parameters={**learned, "observation.noise": used},
        log_evidence=seen.bound,
        status=status,
        message=MESSAGES[status],
        evaluations=evaluations,
        failures=failures,
        starts=(history[-1],),
        on_bounds=on_bounds,
        history=tuple(history),
    )


def _misfit(seen: Sighting, shares: np.ndarray, z: np.ndarray) -> float:
    """Return the σ that fits shares and q(f) best."""
    squares = (z - seen.mean[:, None]) ** 2 + seen.variance[:, None]
    return float(np.sqrt((shares * squares).sum() / len(z)))


def _direct(prior: FunctionPrior, x: np.ndarray, noise: float, repeats: Any = None) -> Model:
    return Model(prior, Direct(x, noise, repeats))


def _learn(
    prior: FunctionPrior,
    x: np.ndarray,
    shares: np.ndarray,
    z: np.ndarray,
    noise: float,
    variables: Callable[[Model], list[Variable]],
) -> FitResult:
    counts = shares.sum(axis=1)
    kept = counts > SEEN
    model = _direct(prior, x[kept], noise, counts[kept])
    means = (shares @ z)[kept] / counts[kept]
    return maximize_evidence(
        model, means, variables(model), n_restarts=0, max_iterations=ITERATIONS, quiet=list(model.values())
    )


def _gram(prior: FunctionPrior, x: np.ndarray) -> np.ndarray:
    points = prior.covariance.points(x, "x")
    return np.asarray(prior.covariance.gram(points, points))
