"""One interface for every model: prior + observation + targets → posterior, log evidence, gradient."""

from typing import Any

import numpy as np

from decond.checks import as_targets, check_choice
from decond.errors import ArgumentTypeError
from decond.gp.linear_gaussian import FORMS
from decond.gp.linearization import Gradient
from decond.gp.observations import Observation
from decond.gp.posterior import Posterior
from decond.gp.priors import Prior
from decond.threads import threads_for

__all__ = ["condition", "log_evidence", "log_evidence_and_gradient"]


def condition(prior: Prior, observation: Observation, z: Any, form: str = "auto") -> Posterior:
    """Return the posterior of f given targets z: (m,), or (m, t) for several target columns.

    Three algebraic forms give the same answer and are chosen by size: "function" (m x m), "inducing" (the size of
    the transformation set; needs isotropic noise) and "weight" (the number of features; needs a `WeightPrior`).
    A `LatentInput` has one form only.

    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior
    >>> posterior = condition(FunctionPrior(RBF()), Direct([0.0, 1.0], noise=0.01), [1.0, -1.0])
    >>> posterior.mean([[0.0], [1.0]]).round(2)
    array([ 1., -1.])
    """
    check_choice(form, "form", FORMS)
    points, targets = _checked(prior, observation, z)
    with threads_for(max(len(points), len(targets))):
        return observation.posterior(prior, points, targets, form)


def log_evidence(prior: Prior, observation: Observation, z: Any, form: str = "auto") -> float:
    """Return log p(z̃) of the model, summed over target columns; of a `LatentInput` a lower bound.

    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior
    >>> round(log_evidence(FunctionPrior(RBF()), Direct([0.0], noise=1.0), [0.0]), 4)
    -1.2655
    """
    check_choice(form, "form", FORMS)
    points, targets = _checked(prior, observation, z)
    with threads_for(max(len(points), len(targets))):
        return observation.log_evidence(prior, points, targets, form)


def log_evidence_and_gradient(
    prior: Prior, observation: Observation, z: Any, *, points: bool = False
) -> tuple[float, Gradient]:
    """Return log p(z̃) and its gradient by parameter path, such as "prior.kernel.lengthscale".

    With `points` the gradient has "observation.x" too and, for a mediator, "observation.y": inducing points are
    learned that way.

    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior
    >>> value, gradient = log_evidence_and_gradient(FunctionPrior(RBF()), Direct([0.0], noise=1.0), [0.0])
    >>> sorted(gradient)
    ['observation.noise', 'prior.kernel.lengthscale', 'prior.mean']
    """
    rows, targets = _checked(prior, observation, z)
    with threads_for(max(len(rows), len(targets))):
        return observation.log_evidence_and_gradient(prior, rows, targets, points)


def _checked(prior: Prior, observation: Observation, z: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return points that the prior's kernel accepts and targets that fit the observation."""
    if not isinstance(prior, Prior):
        raise ArgumentTypeError(
            "prior",
            f"prior is {prior!r}; give a FunctionPrior or WeightPrior, for example FunctionPrior(kernels.RBF()).",
        )
    if not isinstance(observation, Observation):
        raise ArgumentTypeError(
            "observation",
            f"observation is a {type(observation).__name__}; say how the data see the function, for example "
            "Direct(x, noise=0.1) or TaskTransformed(x, y, y_task, kernel_y).",
        )
    points = prior.covariance.points(observation.x, "x")
    return points, as_targets(observation.ordered(z), "z", observation.size, observation.partner)
