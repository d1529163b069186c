"""How smooth the distribution of x given y is: the kernel of y and the ridge, chosen from the pairs alone.

Two objectives. *Evidence*: the marginal likelihood of functions of x as functions of y plus noise, which is the
special case of the paper's marginal likelihood for conditional mean embeddings (section 7, Theorems 5.3 and 6.2).
*Leave-one-out*: the loss of the conditional mean embedding (section 3 of the paper) when each pair is left out in
turn, in closed form: mean_i [(I - H) K (I - H)]_ii / (1 - H_ii)² with H = L (L + ρI)⁻¹.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from scipy.linalg import eigh

from decond.checks import as_targets, check_choice, check_same_length
from decond.embeddings import ConditionalMeanOperator
from decond.embeddings.conditional_mean import feature_coordinates
from decond.features.feature_maps import FeatureMap, as_kernel
from decond.gp.fit import FitResult, maximize_evidence
from decond.gp.observations import Direct
from decond.gp.priors import FunctionPrior
from decond.gp.variables import Model, select
from decond.kernels.kernel import Kernel
from decond.linalg import multiply
from decond.parameters import leaves, with_leaves

__all__ = [
    "ConditionalChoice",
    "ConditionalFit",
    "ConditionalGrid",
    "conditional_model",
    "learn_conditional",
    "leave_one_out_losses",
]


class ConditionalChoice(NamedTuple):
    """The kernel of y and the ridge ρ (the paper's nλ) with the smallest loss.

    >>> from decond.kernels import RBF
    >>> y = np.linspace(0, 6, 20)[:, None]
    >>> choice = ConditionalGrid([RBF(1.0)], y, np.array([1e-3, 1.0])).choose(RBF(0.5)(np.sin(y)))
    >>> choice.kernel, choice.ridge
    (RBF(lengthscale=1.0), 0.001)
    """

    kernel: Kernel
    ridge: float
    loss: float


class ConditionalGrid:
    """Some kernels of y and some ridges, to choose from for any kernel of x.

    >>> from decond.kernels import RBF
    >>> y = np.linspace(0, 6, 50)[:, None]
    >>> grid = ConditionalGrid([RBF(0.01), RBF(1.0), RBF(100.0)], y, np.array([1e-3, 1.0]))
    >>> grid.choose(RBF(0.5)(np.sin(y))).kernel
    RBF(lengthscale=1.0)
    """

    def __init__(self, kernels: Sequence[Kernel], y: np.ndarray, ridges: np.ndarray) -> None:
        self.kernels, self.ridges = tuple(kernels), ridges
        self._spectra = [eigh(kernel.gram(y, y)) for kernel in kernels]

    @classmethod
    def around(
        cls,
        kernel: Kernel,
        y: np.ndarray,
        factors: Sequence[float] = tuple(2.0 ** np.arange(-5.0, 4.0)),
        ridges: Sequence[float] = tuple(10.0 ** np.linspace(-4.0, 2.0, 13)),
    ) -> Self:
        """Return a grid of one kernel: its lengthscales times factors, and ridges relative to its mean variance.

        The defaults reach from an interpolation of neighbors to a constant, in steps that change a fit visibly.

        >>> from decond.kernels import RBF
        >>> grid = ConditionalGrid.around(2.0 * RBF(3.0), np.zeros((1, 1)), factors=[0.5, 1.0], ridges=[0.1])
        >>> grid.kernels, grid.ridges
        ((2.0 * RBF(lengthscale=1.5), 2.0 * RBF(lengthscale=3.0)), array([0.2]))
        """
        scales = {path: np.asarray(value) for path, value in leaves(kernel).items() if path.endswith("lengthscale")}
        kernels = [
            with_leaves(kernel, {path: factor * value for path, value in scales.items()})
            for factor in (factors if scales else [1.0])
        ]
        return cls(kernels, y, np.asarray(ridges) * float(np.mean(kernel.diag(y))))

    def choose(self, gram_x: np.ndarray) -> ConditionalChoice:
        """Return the best pair for embedding x given y, x seen through its Gram matrix."""
        best = ConditionalChoice(self.kernels[0], float(self.ridges[0]), np.inf)
        for kernel, spectrum in zip(self.kernels, self._spectra, strict=True):
            losses = leave_one_out_losses(gram_x, spectrum, self.ridges)
            least = int(np.argmin(losses))
            if losses[least] < best.loss:
                best = ConditionalChoice(kernel, float(self.ridges[least]), float(losses[least]))
        return best


def leave_one_out_losses(
    gram_x: np.ndarray, spectrum: tuple[np.ndarray, np.ndarray], ridges: np.ndarray
) -> np.ndarray:
    """Return the leave-one-out loss of the conditional embedding for every ridge, from L = U diag(w) Uᵀ.

    I - H = U diag(ρ / (w + ρ)) Uᵀ, so a ridge costs one product of n x n matrices.
    """
    w, U = spectrum
    rotated = multiply(multiply(U.T, gram_x), U)
    losses = np.empty(len(ridges))
    for i, ridge in enumerate(ridges):
        residual = U * (ridge / (np.maximum(w, 0.0) + ridge))
        errors = (multiply(residual, rotated) * residual).sum(axis=1)
        losses[i] = np.mean(errors / (residual * U).sum(axis=1) ** 2)
    return losses


class ConditionalFit(NamedTuple):
    """What learning a conditional mean operator found.

    Attributes
    ----------
    operator : ConditionalMeanOperator
        The operator with the learned kernel of y and regularization, fitted on the pairs.
    objective : str
        What was optimized, "evidence" or "leave-one-out".
    value : float
        The log evidence, or the leave-one-out loss, at the optimum.
    result : FitResult or None
        How the search went; None for "leave-one-out", which tries every point of a grid.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> y = np.linspace(0, 6, 30)
    >>> found = learn_conditional(RBF(), RBF(), np.sin(y), y, objective="leave-one-out")
    >>> found.objective, found.result, found.value < 1e-4
    ('leave-one-out', None, True)
    """

    operator: ConditionalMeanOperator
    objective: str
    value: float
    result: FitResult | None = None


def learn_conditional(
    kernel_x: Kernel | FeatureMap,
    kernel_y: Kernel | FeatureMap,
    x: Any,
    y: Any,
    f_values: Any = None,
    *,
    objective: Literal["evidence", "leave-one-out"] = "evidence",
    n_restarts: int = 2,
    seed: int = 0,
) -> ConditionalFit:
    """Learn the kernel of y and the regularization λ of a conditional mean operator from its pairs.

    "evidence" maximizes Σ_t log N(f_t(x); 0, L + nλI), the marginal likelihood of section 7 of the paper, over all
    parameters of ℓ, its amplitude included, and λ. "leave-one-out" minimizes the leave-one-out loss on a grid of
    common factors of the lengthscales and of ridges (`ConditionalGrid.around`). That loss is flat about its minimum,
    so chance has a part in its choice; errors of conditional means are smaller with the evidence (benchmark
    `conditional`).

    `kernel_x` is kept as it is: it says which functions of x count, and objectives of other functions cannot be
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
    objective : {"evidence", "leave-one-out"}
        What is optimized.
    n_restarts : int
        Further starts of the search for the evidence.
    seed : int
        Seed of these starts.

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
    check_choice(objective, "objective", ("evidence", "leave-one-out"))
    kernel_x, kernel_y = as_kernel(kernel_x, "kernel_x"), as_kernel(kernel_y, "kernel_y")
    x_rows, y_rows = kernel_x.points(x, "x"), kernel_y.points(y, "y")
    check_same_length(y_rows, "y", len(x_rows), "x")
    values = feature_coordinates(kernel_x, x_rows) if f_values is None else f_values
    targets = as_targets(values, "f_values", len(x_rows), "x").reshape(len(x_rows), -1)
    if objective == "leave-one-out":
        best = ConditionalGrid.around(kernel_y, y_rows).choose(multiply(targets, targets.T))
        kernel, ridge, value, result = best.kernel, best.ridge, best.loss, None
    else:
        result = _maximal_evidence(kernel_y, y_rows, targets, n_restarts, seed)
        kernel, ridge, value = result.model.prior.kernel, result.model.observation.noise**2, result.log_evidence
    operator = ConditionalMeanOperator(kernel_x, kernel, ridge / len(x_rows)).fit(x_rows, y_rows)
    return ConditionalFit(operator, objective, value, result)


def conditional_model(kernel_y: Kernel, y: Any, regularization: float) -> Model:
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


def _maximal_evidence(
    kernel: Kernel,
    y: np.ndarray,
    targets: np.ndarray,
    n_restarts: int,
    seed: int,
    noises: tuple[float, float, float] = (1e-4, 0.3, 10.0),
) -> FitResult:
    """Maximize the evidence; `noises` are lower bound, start and upper bound, in root mean squares of the targets.

    The lower bound keeps L + nλI well conditioned, and a relation without noise ends there. The upper one is where
    nothing is learned from y.
    """
    scale = float(np.sqrt(np.mean(targets**2))) or 1.0
    amplified = kernel if kernel.has_variance else scale**2 * kernel
    lowest, start, highest = (scale * noise for noise in noises)
    model = conditional_model(amplified, y, start**2 / len(y))
    bounds = {"observation.noise": (lowest, highest)}
    variables = select(model, bounds=bounds)
    return maximize_evidence(model, targets, variables, n_restarts, seed, quiet=tuple(bounds))
