"""The paper's cube of twelve models as a prior, an observation and a kind of answer.

Linear or kernel is the prior; direct, transformed or task-transformed the observation; Bayesian or point estimate the
answer. `condition` gives a posterior; `estimate` its mean alone, which is the ridge regression with the same
regularization (Theorem 5.3, part 5). `cascade` and `impute` are the two naive answers that the paper compares with.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.errors import ArgumentTypeError
from decond.gp.linear_gaussian import Gradient
from decond.gp.observations import Direct, Observation, Targets
from decond.gp.posteriors import Posterior
from decond.gp.priors import Prior

__all__ = [
    "PointEstimate",
    "cascade",
    "condition",
    "estimate",
    "impute",
    "log_evidence",
    "log_evidence_and_gradient",
]

Tables = tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike]


def condition(prior: Prior, observation: Observation, z: Targets, form: str = "auto") -> Posterior:
    """Return the posterior of f given targets.

    Three algebraic forms give the same answer and are chosen by size: "function" (m x m), "inducing" (the size of
    the transformation set; needs isotropic noise) and "weight" (the number of features; needs a `WeightPrior`).
    A `LatentInput` has one form only.

    Parameters
    ----------
    prior : Prior
        Prior of f.
    observation : Observation
        How the targets see f.
    z : array_like of shape (m,) or (m, t), dict or Series
        Targets, in one or several columns; those of groups may be labeled.
    form : {"auto", "function", "inducing", "weight"}
        The algebraic form.

    Returns
    -------
    Posterior or MixturePosterior
        A mixture for a `LatentInput` of unknown assignment.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior
    >>> posterior = condition(FunctionPrior(RBF()), Direct([0.0, 1.0], noise=0.01), [1.0, -1.0])
    >>> posterior.mean([[0.0], [1.0]]).round(2)
    array([ 1., -1.])
    """
    return _checked(observation).condition(prior, z, form)


def log_evidence(prior: Prior, observation: Observation, z: Targets, form: str = "auto") -> float:
    """Return log p(z̃) of the model, summed over target columns; of a `LatentInput` a lower bound.

    Parameters
    ----------
    prior : Prior
        Prior of f.
    observation : Observation
        How the targets see f.
    z : array_like of shape (m,) or (m, t), dict or Series
        Targets.
    form : {"auto", "function", "inducing", "weight"}
        The algebraic form, as for `condition`.

    Returns
    -------
    float

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior
    >>> round(log_evidence(FunctionPrior(RBF()), Direct([0.0], noise=1.0), [0.0]), 4)
    -1.2655
    """
    return _checked(observation).log_evidence(prior, z, form)


def log_evidence_and_gradient(
    prior: Prior, observation: Observation, z: Targets, *, points: bool = False
) -> tuple[float, Gradient]:
    """Return log p(z̃) and its gradient by parameter path, such as "prior.kernel.lengthscale".

    Parameters
    ----------
    prior : Prior
        Prior of f.
    observation : Observation
        How the targets see f.
    z : array_like of shape (m,) or (m, t), dict or Series
        Targets.
    points : bool
        Whether the gradient has "observation.x" too and, for a mediator, "observation.y": inducing points are learned
        that way.

    Returns
    -------
    tuple of float and dict

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> from decond.gp import Direct, FunctionPrior
    >>> value, gradient = log_evidence_and_gradient(FunctionPrior(RBF()), Direct([0.0], noise=1.0), [0.0])
    >>> sorted(gradient)
    ['observation.noise', 'prior.kernel.lengthscale', 'prior.mean']
    """
    return _checked(observation).log_evidence_and_gradient(prior, z, points=points)


class PointEstimate:
    """A fitted function without error bars: ridge regression, possibly transformed.

    `weights` are dual weights on the rows of x for a `FunctionPrior` (the mean is Σ_i ᾱ_i k(x_i, x)) and weights
    of the features for a `WeightPrior`.

    >>> from decond.kernels import Linear
    >>> from decond.gp import Direct, FunctionPrior
    >>> found = estimate(FunctionPrior(Linear()), Direct([1.0, 2.0], noise=1.0), [2.0, 4.0])
    >>> found, found.weights.round(3), found.mean([[6.0]])  # 10/6: the ridge pulls the slope 2 towards zero
    (PointEstimate(2 weights), array([0.333, 0.667]), array([10.]))
    """

    def __init__(self, posterior: Posterior, weights: NDArray[np.float64]) -> None:
        self._posterior, self.weights = posterior, weights

    def mean(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return the estimate of f at the rows of x."""
        return self._posterior.mean(x)

    def __repr__(self) -> str:
        """Show the size of the weights."""
        return f"PointEstimate({len(self.weights)} weights)"


def estimate(prior: Prior, observation: Observation, z: Targets, form: str = "auto") -> PointEstimate:
    """Return the point estimate of f: LRR, KRR and their transformed and task-transformed versions.

    The penalties are those of the Gaussian model: nλ = τ² / β² and mε = σ² / γ², see the glossary.

    Parameters
    ----------
    prior : Prior
        Prior of f.
    observation : Observation
        How the targets see f, linear in it.
    z : array_like of shape (m,) or (m, t), dict or Series
        Targets.
    form : {"auto", "function", "inducing", "weight"}
        The algebraic form, as for `condition`.

    Returns
    -------
    PointEstimate

    Examples
    --------
    >>> from decond.kernels import Linear
    >>> from decond.gp import Direct, FunctionPrior
    >>> estimate(FunctionPrior(Linear()), Direct([1.0, 2.0], noise=0.001), [2.0, 4.0]).mean([[3.0]]).round(3)
    array([6.])
    """
    posterior: Any = condition(prior, observation, z, form)
    weights = posterior.weights
    if prior.feature_map is not None and posterior.form != "weight":
        features = prior.feature_map.transform(posterior.points)
        weights = prior.variance * (features.T @ weights)  # type: ignore[attr-defined]
    return PointEstimate(posterior, weights)


def cascade(prior_x: Prior, prior_y: Prior, noise: float, tables: Tables, x: ArrayLike) -> NDArray[np.float64]:
    """Predict y from x, then z from the predicted y.

    It fails where y given x has several modes, because the mean between them is a y that never occurs.

    Parameters
    ----------
    prior_x : Prior
        Prior of y as a function of x.
    prior_y : Prior
        Prior of z as a function of y.
    noise : float
        Standard deviation of the noise in both.
    tables : tuple of array_like
        x and y of the pairs, y and z of the task rows.
    x : array_like of shape (q, d)
        Where to predict.

    Returns
    -------
    ndarray of shape (q,)

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> from decond.gp import FunctionPrior
    >>> y = np.linspace(-2, 2, 30)
    >>> prior, tables = FunctionPrior(RBF(1.0)), (2 * y, y, y, y**2)  # x = 2y and z = y², so z = x²/4
    >>> cascade(prior, prior, 0.01, tables, [[2.0]]).round(2)
    array([1.])
    """
    x_pairs, y_pairs, y_task, z_task = tables
    predicted = condition(prior_x, Direct(x_pairs, noise), y_pairs).mean(x)
    return condition(prior_y, Direct(y_task, noise), z_task).mean(predicted)


def impute(prior_x: Prior, prior_y: Prior, noise: float, tables: Tables, x: ArrayLike) -> NDArray[np.float64]:
    """Predict z at the pairs' y, then regress these imputed z on the pairs' x.

    It estimates E[E[Z | Y] | X = x], which smooths f twice.

    Parameters
    ----------
    prior_x : Prior
        Prior of z as a function of x.
    prior_y : Prior
        Prior of z as a function of y.
    noise : float
        Standard deviation of the noise in both.
    tables : tuple of array_like
        x and y of the pairs, y and z of the task rows.
    x : array_like of shape (q, d)
        Where to predict.

    Returns
    -------
    ndarray of shape (q,)

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> from decond.gp import FunctionPrior
    >>> y = np.linspace(-2, 2, 30)
    >>> prior, tables = FunctionPrior(RBF(1.0)), (2 * y, y, y, y**2)  # x = 2y and z = y², so z = x²/4
    >>> impute(prior, prior, 0.01, tables, [[2.0]]).round(2)
    array([1.])
    """
    x_pairs, y_pairs, y_task, z_task = tables
    imputed = condition(prior_y, Direct(y_task, noise), z_task).mean(y_pairs)
    return condition(prior_x, Direct(x_pairs, noise), imputed).mean(x)


def _checked(observation: Observation) -> Observation:
    if not isinstance(observation, Observation):
        raise ArgumentTypeError(
            "observation",
            f"observation is a {type(observation).__name__}; say how the data see the function, for example "
            "Direct(x, noise=0.1) or TaskTransformed(x, y, y_task, kernel_y).",
        )
    return observation
