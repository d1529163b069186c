"""A conditional mean operator learned from its pairs: the kernel of y and the regularization by maximal evidence.

The evidence is that of functions of x as functions of y plus noise, the special case of the paper's marginal
likelihood for conditional mean embeddings (section 7, Theorems 5.3 and 6.2).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from decond.checks import as_values, check_same_length
from decond.embeddings import ConditionalMeanOperator
from decond.embeddings.conditional_mean import feature_coordinates
from decond.features import FeatureMap, as_kernel
from decond.gp.observations import Direct
from decond.gp.priors import FunctionPrior
from decond.gp.search import FitResult, Model, maximize_evidence, select
from decond.kernels.kernel import Kernel

__all__ = ["ConditionalFit", "ConditionalSettings", "conditional_model", "learn_conditional"]


@dataclass(frozen=True)
class ConditionalSettings:
    """Start and range of the noise in `learn_conditional`, in root mean squares of the targets.

    >>> ConditionalSettings(start=0.1).lowest
    0.0001
    """

    start: float = 0.3
    """A noise that is neither negligible nor all there is."""
    lowest: float = 1e-4
    """Keeps L + nλI well conditioned; a relation without noise ends here."""
    highest: float = 10.0
    """Where nothing is learned from y."""


class ConditionalFit(NamedTuple):
    """What learning a conditional mean operator found.

    Attributes
    ----------
    operator : ConditionalMeanOperator
        The operator with the learned kernel of y and regularization, fitted on the pairs.
    result : FitResult
        How the search went, and its log evidence.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> y = np.linspace(0, 6, 30)
    >>> found = learn_conditional(RBF(), RBF(), np.sin(y), y, n_restarts=0)
    >>> found.result.status
    'converged'
    """

    operator: ConditionalMeanOperator
    result: FitResult


def learn_conditional(
    kernel_x: Kernel | FeatureMap,
    kernel_y: Kernel | FeatureMap,
    x: ArrayLike,
    y: ArrayLike,
    f_values: ArrayLike | None = None,
    *,
    n_restarts: int = 2,
    seed: int = 0,
    settings: ConditionalSettings | None = None,
) -> ConditionalFit:
    """Learn the kernel of y and the regularization λ of a conditional mean operator from its pairs.

    The search maximizes Σ_t log N(f_t(x); 0, L + nλI), the marginal likelihood of section 7 of the paper, over all
    parameters of ℓ, its amplitude included, and λ.

    `kernel_x` is kept as it is: it says which functions of x count, and evidences of other functions cannot be
    compared.

    Parameters
    ----------
    kernel_x : Kernel or FeatureMap
        Kernel k of x.
    kernel_y : Kernel or FeatureMap
        Kernel ℓ of y, where the search starts. One without a variance of its own is given one.
    x : array_like of shape (n, d)
        First half of the pairs.
    y : array_like of shape (n, d_y)
        Second half of the pairs.
    f_values : array_like of shape (n,) or (n, t), optional
        Functions of x at the pairs, whose conditional means are wanted. They share one amplitude, so give them a
        common scale. By default the features k(x, ·) themselves, see `ConditionalMeanOperator.log_evidence`.
    n_restarts : int
        Further starts of the search for the evidence.
    seed : int
        Seed of these starts.
    settings : ConditionalSettings, optional
        Start and range of the noise.

    Returns
    -------
    ConditionalFit
        The fitted operator, and how it was found.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(-3, 3, 200)
    >>> x = np.sin(2 * y) + 0.2 * rng.standard_normal(200)
    >>> found = learn_conditional(RBF(1.0), RBF(2.0), x, y)  # a lengthscale that is far too long
    >>> round(found.operator.kernel_y.kernel.lengthscale, 1)
    0.6
    >>> found.operator.expectation(x, [0.8]).round(1)  # sin(1.6) = 1.0
    array([1.])
    """
    settings = settings or ConditionalSettings()
    kernel_x, kernel_y = as_kernel(kernel_x, "kernel_x"), as_kernel(kernel_y, "kernel_y")
    x_rows, y_rows = kernel_x.points(x, "x"), kernel_y.points(y, "y")
    check_same_length(y_rows, "y", len(x_rows), "x")
    values = feature_coordinates(kernel_x, x_rows) if f_values is None else f_values
    targets = as_values(values, "f_values", len(x_rows), "x").reshape(len(x_rows), -1)
    scale = float(np.sqrt(np.mean(targets**2))) or 1.0
    amplified = kernel_y if kernel_y.has_variance else scale**2 * kernel_y
    model = conditional_model(amplified, y_rows, (scale * settings.start) ** 2 / len(y_rows))
    bounds = {"observation.noise": (scale * settings.lowest, scale * settings.highest)}
    result = maximize_evidence(model, targets, select(model, bounds=bounds), n_restarts, seed, quiet=tuple(bounds))
    regularization = result.model.observation.noise**2 / len(x_rows)
    operator = ConditionalMeanOperator(kernel_x, result.model.prior.kernel, regularization).fit(x_rows, y_rows)
    return ConditionalFit(operator, result)


def conditional_model(kernel_y: Kernel, y: ArrayLike, regularization: float) -> Model:
    """Return the model whose log evidence is that of a conditional mean operator: f(x) = g(y) + noise, g ~ GP(0, ℓ).

    It has the value and the gradient of `ConditionalMeanOperator.log_evidence` for given targets: Theorem 5.3 of the
    paper with M = I and Σ = nλI, which is where Theorem 6.2 leads.

    Parameters
    ----------
    kernel_y : Kernel
        Kernel ℓ of y.
    y : array_like of shape (n, d_y)
        The pairs' y.
    regularization : float
        The paper's λ; the standard deviation of the noise is √(nλ).

    Returns
    -------
    Model
        A `FunctionPrior` of ℓ and a `Direct` observation at y.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> model = conditional_model(RBF(), [0.0, 1.0], regularization=0.5)
    >>> operator = ConditionalMeanOperator(RBF(), RBF(), 0.5).fit([3.0, 4.0], [0.0, 1.0])
    >>> round(model.log_evidence([3.0, 4.0]), 6) == round(operator.log_evidence([3.0, 4.0]), 6)
    True
    """
    observation = Direct(y, noise=float(np.sqrt(np.size(y, 0) * regularization)))
    return Model(FunctionPrior(kernel_y), observation)
