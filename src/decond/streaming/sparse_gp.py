"""The sparse representation of a large table (section 8.2 of the paper) as a function of sums over its rows.

The evidence and its gradient take two passes over the rows. The first sums the statistics, from which the evidence
and adjoints follow; the second multiplies each chunk once more and carries its adjoint through the kernel. For n
inducing points and m rows that is 3mn² operations, a symmetric product and a full one. Where k(u, u) + τ²I is
ill-conditioned, each pass also whitens its chunks, with a triangular product of mn² more.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from decond.checks import check_choice, check_same_length, frozen
from decond.features import as_kernel
from decond.gp import FunctionPrior, Posterior
from decond.kernels.kernel import Kernel, Pull
from decond.linalg import add_to_diagonal, cholesky, multiply
from decond.parameters import (
    Constraint,
    Parametrized,
    added,
    constraints,
    difference_slopes,
    leaves,
    nonnegative,
    parameter,
    positive,
    with_leaves,
)
from decond.streaming.sources import Chunk, Source
from decond.streaming.statistics import RegressionPosterior, Statistics
from decond.threads import ThreadSettings, threads_for

__all__ = ["SparseModel", "SparsePosterior", "WhiteningSettings", "evidence_and_gradient"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class WhiteningSettings:
    """When and how rows are whitened."""

    mild_condition: float = 1e5
    """Condition number of k(u, u) + τ²I up to which sums may be whitened instead of rows: its square does no harm, so
    that the evidence loses less than 1e-9 (measured against 60 digits)."""
    panel: int = 64
    """Rows of a triangular matrix that are multiplied at a time (measured)."""
    jitter: float = 1e-8
    """Added to the diagonal of k(u, u), relative to its mean, where τ is zero: the root of the precision of float64,
    so that what it changes and what rounding changes are about as small as each other."""


SETTINGS = WhiteningSettings()


class SparseModel(Parametrized):
    """z = E[f | rows] + noise through inducing points u: the sparse representation of section 8.2 of the paper.

    It is the task-transformed model with x = y = u, one kernel for both functions and a point estimate of the
    mediating one: z ~ N(0, AᵀKA + σ²I) with A = (K + τ²I)⁻¹ k(u, X), K = k(u, u). The rows are not part of the model:
    it reads them from a `Source`, such as a `Table`.

    Parameters
    ----------
    kernel : Kernel
        The covariance of f, and of the mediating function.
    inducing : array_like of shape (n, d)
        The inducing points u.
    noise : float
        σ, a standard deviation.
    mediator_noise : float, optional
        τ; tied to σ by default. At zero the model is the sparse Gaussian process whose f is known through f(u).
    objective : {"evidence", "bound"}
        What `log_evidence` is: that of the model, or Titsias' bound of the evidence of the Gaussian process itself,
        which is less by what the inducing points leave open of the variance of f, Σ_j (k(x_j, x_j) - w_jᵀw_j) / 2σ².
    open_share : float
        How much of what they leave open, k(x, x) - wᵀw, is there, for a posterior: 1 in the Gaussian process itself.
    target_noise : float, optional
        The noise of single targets, where a part of σ is known to stand for what the inducing points leave open.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> from decond.streaming import Table
    >>> model = SparseModel(RBF(), inducing=[[0.0], [2.0]], noise=0.1)
    >>> data = Table([[0.0], [1.0], [2.0]], [1.0, 0.0, -1.0])
    >>> model.condition(model.statistics(data)).mean([[0.0], [2.0]]).round(2)
    array([ 1., -1.])
    """

    kernel: Kernel
    inducing: Any
    noise: Any = parameter(default=0.1, constraint=positive)
    mediator_noise: Any = parameter(default=None, constraint=nonnegative)
    open_share: Any = parameter(default=1.0, constraint=nonnegative)
    target_noise: Any = parameter(default=None, constraint=positive)
    objective: Literal["evidence", "bound"] = "evidence"

    def __post_init__(self) -> None:
        """Check the inducing points."""
        kernel = as_kernel(self.kernel, "kernel")
        check_choice(self.objective, "objective", ("evidence", "bound"))
        object.__setattr__(self, "kernel", kernel)
        object.__setattr__(self, "inducing", frozen(kernel.points(self.inducing, "inducing")))
        super().__post_init__()

    def statistics(self, source: Source) -> Statistics:
        """Return the sums over all rows that this model needs of them; they add up over tables."""
        return _statistics(self, _whitening(self, SETTINGS), source)

    def condition(self, statistics: Statistics, flat: bool = True) -> "SparsePosterior":
        """Return the posterior given rows with these statistics.

        Parameters
        ----------
        statistics : Statistics
        flat : bool
            Whether targets came as a flat array.
        """
        check_same_length(self.inducing, "inducing", statistics.size, "statistics")
        return SparsePosterior(self, statistics, flat)

    def values(self) -> dict[str, Any]:
        """Return all parameters by path."""
        return leaves(self)

    def points(self) -> dict[str, Any]:
        """Return the inducing points, which can be learned as well."""
        return {"inducing": self.inducing}

    def constraints(self) -> dict[str, Constraint]:
        """Return the constraints of the parameters, by path."""
        return constraints(self)

    def with_values(self, values: Mapping[str, Any]) -> "SparseModel":
        """Return the model with the values at these paths replaced."""
        numbers = {path: value for path, value in values.items() if path != "inducing"}
        model: SparseModel = with_leaves(self, numbers)
        return model.replace(inducing=values["inducing"]) if "inducing" in values else model

    def log_evidence(self, z: Source) -> float:
        """Return log p(z), or its bound, in one pass over rows and targets."""
        whitening = _whitening(self, SETTINGS)
        sums = _statistics(self, whitening, z)
        return RegressionPosterior(sums, whitening.prior, self.noise**2).log_evidence - self.penalty(sums)

    @property
    def measurement_noise(self) -> float:
        """The noise of single targets."""
        return float(self.noise if self.target_noise is None else self.target_noise)

    def penalty(self, sums: Statistics) -> float:
        """Return how much less than the evidence the objective is, from the statistics."""
        open_variance = sums.count * sums.residual_variance if self.objective == "bound" else 0.0
        return 0.5 * sums.targets * open_variance / self.noise**2

    def log_evidence_and_gradient(self, z: Source, *, points: bool = True) -> tuple[float, dict[str, Any]]:
        """Return log p(z) and its gradient, in two passes over rows and targets.

        Parameters
        ----------
        z : Source
            Rows and targets.
        points : bool
            The gradient of the inducing points comes with the others, asked for or not.

        Returns
        -------
        value : float
        gradient : dict
            By path.
        """
        return evidence_and_gradient(self, z, SETTINGS)


def evidence_and_gradient(
    model: SparseModel, source: Source, settings: WhiteningSettings
) -> tuple[float, dict[str, Any]]:
    """Return log p(z) and its gradient by path: both passes.

    P = k(u, u) + τ²I and k(u, u) meet in one Gram matrix: its adjoint is R⁻ᵀ(K̃_bar - K̃K̃_bar - K̃_barK̃)R⁻¹. That of
    P alone is the same without the first term, and τ² only asks for its trace. The misfit is summed in the second
    pass, from residuals: as a difference of sums it would lose its digits.

    Parameters
    ----------
    model : SparseModel
        Where to evaluate.
    source : Source
        Rows and targets.
    settings : WhiteningSettings
        When rows are whitened.

    Returns
    -------
    value : float
    gradient : dict
        With respect to everything that `model.values()` and `model.points()` name.
    """
    threads = functools.partial(threads_for, len(model.inducing), ThreadSettings.between_passes)
    bounded = model.objective == "bound"
    with threads():
        whitening = _whitening(model, settings)
    statistics = _statistics(model, whitening, source)
    with threads():
        posterior = RegressionPosterior(statistics, whitening.prior, model.noise**2)
        coefficients = _adjoint_coefficients(whitening, posterior, bounded)
    each = -0.5 * statistics.targets / posterior.noise if bounded else 0.0
    slopes = source.total(_GradientWork(_Grams(model.kernel, model.inducing), whitening, coefficients, each))
    with threads():
        bar = posterior.prior_adjoint
        turned = multiply(posterior.prior, bar)
        gram_bar = whitening.gram_adjoint(bar - turned - turned.T + each * statistics.gram)
        within = model.kernel.symmetric_pullback(model.inducing, gram_bar)
        mediator_bar = -2.0 * float((turned * whitening.spread).sum())
    gradient = {f"kernel.{path}": slope + within.parameters[path] for path, slope in slopes.parameters.items()}
    gradient["inducing"] = slopes.points + within.a + within.b
    misfit, penalty = posterior.noise**2 * slopes.squares, model.penalty(statistics)
    gradient["noise"] = 2.0 * model.noise * (posterior.noise_adjoint(misfit) + penalty / posterior.noise)
    tied = model.mediator_noise is None
    gradient["noise" if tied else "mediator_noise"] = (
        gradient["noise"] + 2.0 * model.noise * mediator_bar if tied else 2.0 * model.mediator_noise * mediator_bar
    )
    return posterior.log_density(misfit) - penalty, gradient


class SparsePosterior(Posterior):
    """The posterior of f given all rows that the statistics have seen.

    With F, q and T = FᵀK̃F + σ²I of the regression and w = R⁻¹k(u, x): E[f(x)] = wᵀFT⁻¹q and
    var[f(x)] = k(x, x) - wᵀFT⁻¹Fᵀw. Where τ = 0, K̃ = I and this is the sparse Gaussian process given all rows,
    k(x, x) - k(x, u)[k(u, u)⁻¹ - (k(u, u) + σ⁻²LLᵀ)⁻¹]k(u, x) with L = k(u, X). Of what the
    inducing points leave open, k(x, x) - wᵀw, only the `open_share` counts.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> from decond.streaming import SparseModel, Table
    >>> model = SparseModel(RBF(), inducing=[[0.0], [2.0]], noise=0.1)
    >>> model.condition(model.statistics(Table([[0.0], [2.0]], [1.0, -1.0]))).std([[0.0], [9.0]]).round(2)
    array([0.1, 1. ])
    """

    form = "inducing"

    def __init__(self, model: SparseModel, statistics: Statistics, flat: bool) -> None:
        self.model, self.statistics = model, statistics
        self.prior, self.points = FunctionPrior(model.kernel), model.inducing
        self._flat = flat
        self._mean = np.zeros(statistics.targets)
        self._whitening = _whitening(model, SETTINGS)
        self._regression = RegressionPosterior(statistics, self._whitening.prior, model.noise**2)
        self._weights = multiply(self._whitening.root.T, self._regression.coefficients)
        self._share = model.open_share

    @property
    def log_evidence(self) -> float:
        """Log p(z), summed over target columns, or its bound."""
        return self._regression.log_evidence - self.model.penalty(self.statistics)

    def parts(self, x: Array) -> tuple[Array, Array, Array]:
        """Return the mean (q, t) at rows of x, and the variance of f there in two parts.

        Parameters
        ----------
        x : ndarray of shape (q, d)
            Not many rows.

        Returns
        -------
        mean : ndarray of shape (q, t)
        resolved : ndarray of shape (q,)
            The variance of f(u), as it is seen at x.
        left_open : ndarray of shape (q,)
            What inducing points leave open, k(x, x) - wᵀw.
        """
        cross = self._cross(x)
        white, explained = self._explained(cross)
        seen = (white**2).sum(axis=0)
        resolved = np.maximum(seen - (explained**2).sum(axis=0), 0.0)
        return self._means(cross), resolved, np.maximum(self.prior.covariance.diagonal(x) - seen, 0.0)

    def leave_one_out(self) -> tuple[Array, Array]:
        """Raise, because single targets are not kept."""
        raise NotImplementedError(
            "a sparse posterior keeps sums over its rows, not the rows, so it cannot leave one out. Use "
            "cross-validation, or gp.condition on a smaller table."
        )

    def _cross(self, x: Array) -> Array:
        return self.prior.covariance.gram(self.points, x)

    def _variances(self, x: Array, cross: Array) -> Array:
        white, explained = self._explained(cross)
        total = self._share * self.prior.covariance.diagonal(x) + (1.0 - self._share) * (white**2).sum(axis=0)
        return total - (explained**2).sum(axis=0)

    def _covariances(self, x: Array, cross: Array) -> Array:
        white, explained = self._explained(cross)
        total = self._share * self.prior.covariance.gram(x, x) + (1.0 - self._share) * multiply(white.T, white)
        return total - multiply(explained.T, explained)

    def _explained(self, cross: Array) -> tuple[Array, Array]:
        """Return w = R⁻¹k(u, x) and T^(-1/2) Fᵀw."""
        regression, white = self._regression, multiply(self._whitening.root, cross)
        return white, regression.core.half_solve(multiply(regression.root.T, white))

    def _inverse(self) -> tuple[Array, Array]:
        return self.leave_one_out()

    def __repr__(self) -> str:
        """Show sizes and log evidence."""
        n, m = len(self.points), self.statistics.count
        return f"{type(self).__name__}({n} inducing points, {m} rows, log evidence {self.log_evidence:.6g})"


class _Whitening:
    """R⁻¹ with R Rᵀ = k(u, u) + τ²I: it turns k(u, X) into W, and k(u, u) into K̃ = R⁻¹ k(u, u) R⁻ᵀ.

    Multiplying with R⁻¹ is faster than solving with R. K̃ is taken as I - τ²R⁻¹R⁻ᵀ, which also loses fewer digits: its
    second term is never larger than one, whereas k(u, u) is multiplied by numbers as large as 1/τ².
    """

    def __init__(self, kernel: Kernel, inducing: NDArray[Any], ridge: float, settings: WhiteningSettings) -> None:
        shifted = kernel.gram(inducing, inducing)
        self.added = 0.0 if ridge else settings.jitter
        """What was added to the diagonal of k(u, u), relative to its mean, as a part of it."""
        add_to_diagonal(shifted, ridge + self.added * float(np.trace(shifted)) / len(shifted))
        norm = float(np.abs(shifted).sum(axis=0).max())
        factor = cholesky(shifted, "k(u, u) + τ²I")
        self.panel = settings.panel
        self.is_mild = factor.condition(norm) <= settings.mild_condition
        """Whether sums over rows may be whitened instead of the rows."""
        self.root = factor.inverse_root().lower
        """R⁻¹."""
        self.spread = multiply(self.root, self.root.T)
        """R⁻¹R⁻ᵀ, what the ridge is turned into, but for τ²."""
        self.prior = -(ridge + factor.jitter if ridge else 0.0) * self.spread
        """K̃, which is I where τ is zero."""
        add_to_diagonal(self.prior, 1.0)

    def of_chunk(self, stack: Array) -> Array:
        """Return [R⁻¹L; …] of a stack [L; …], unless sums are whitened instead.

        A panel of rows of R⁻¹ is multiplied only with what is not zero in it.
        """
        if self.is_mild:
            return stack
        white = stack.copy()
        n = len(self.root)
        for start in range(0, n, self.panel):
            stop = min(start + self.panel, n)
            np.matmul(self.root[start:stop, :stop], stack[:stop], out=white[start:stop])
        return white

    def of_sums(self, sums: Statistics) -> Statistics:
        """Return the statistics of R⁻¹L from those of L, unless chunks were whitened."""
        return sums.with_features(self.root) if self.is_mild else sums

    def unwhitened(self, adjoint: Array) -> Array:
        """Return R⁻ᵀ adjoint R⁻¹."""
        return multiply(self.root.T, multiply(adjoint, self.root))

    def gram_adjoint(self, adjoint: Array) -> Array:
        """Return the adjoint of k(u, u) from that of R Rᵀ, whitened: what is added to the diagonal depends on it."""
        bar = self.unwhitened(adjoint)
        add_to_diagonal(bar, self.added * float(np.trace(bar)) / len(bar))
        return bar


def _whitening(model: SparseModel, settings: WhiteningSettings) -> _Whitening:
    ridge = model.noise if model.mediator_noise is None else model.mediator_noise
    return _Whitening(model.kernel, model.inducing, ridge**2, settings)


def _statistics(model: SparseModel, whitening: _Whitening, source: Source) -> Statistics:
    """Return the statistics of all rows: the first pass."""
    sums = source.total(_StatisticsWork(_Grams(model.kernel, model.inducing), whitening))
    with threads_for(len(model.inducing), ThreadSettings.between_passes):
        return whitening.of_sums(sums)


def _adjoint_coefficients(whitening: _Whitening, posterior: RegressionPosterior, bounded: bool) -> Array:
    """Return the matrix that turns the stack [L; zᵀ; 1ᵀ] of a chunk into [L_bar; αᵀ], α = S⁻¹z.

    With a = R⁻ᵀμ̃ and E = R⁻ᵀVR⁻¹ it is α = (z - Lᵀa)/σ² and L_bar = aαᵀ - tEL/σ². Where chunks are whitened first,
    the matrix has μ̃ and R⁻ᵀV in place of a and E. Of the bound, V - I is in place of V.
    """
    covariance = posterior.covariance.copy()
    add_to_diagonal(covariance, -float(bounded))
    mean = multiply(whitening.root.T, posterior.mean)
    n, t = mean.shape
    if whitening.is_mild:
        read, spread = mean, whitening.unwhitened(covariance)
    else:
        read, spread = posterior.mean, multiply(whitening.root.T, covariance)
    matrix = np.zeros((n + t, n + t + 1))
    matrix[:n, :n] = -(multiply(mean, read.T) + t * spread)
    matrix[:n, n:-1] = mean
    matrix[n:, :n] = -read.T
    matrix[n:, n:-1] = np.eye(t)
    return matrix / posterior.noise


@dataclass(frozen=True, eq=False)
class _Grams:
    """Gram matrices k(u, rows) of chunks, and the way back from their adjoints."""

    kernel: Kernel
    inducing: Array

    def stack(self, rows: NDArray[Any], targets: Array) -> Array:
        """Return the stack [k(u, rows); zᵀ; 1ᵀ].

        Parameters
        ----------
        rows : ndarray of shape (m, d)
            Rows of a chunk.
        targets : ndarray of shape (m, t)
            Their targets.

        Returns
        -------
        ndarray of shape (n + t + 1, m)
        """
        stack = self._above(rows, targets)
        self.kernel.gram(self.inducing, rows, out=stack[: len(self.inducing)])
        return stack

    def stack_with_pullback(self, rows: NDArray[Any], targets: Array) -> tuple[Array, Pull]:
        """Return the same, and the map from an adjoint of k(u, rows) to gradients.

        Parameters
        ----------
        rows : ndarray of shape (m, d)
            Rows of a chunk.
        targets : ndarray of shape (m, t)
            Their targets.

        Returns
        -------
        stack : ndarray of shape (n + t + 1, m)
        pull : callable
        """
        stack = self._above(rows, targets)
        _, pull = self.kernel.gram_with_pullback(self.inducing, rows, out=stack[: len(self.inducing)])
        return stack, pull

    def _above(self, rows: NDArray[Any], targets: Array) -> Array:
        """Return room for k(u, rows) above the targets and ones."""
        n = len(self.inducing)
        stack = np.empty((n + targets.shape[1] + 1, len(rows)))
        stack[n:-1] = targets.T
        stack[-1] = 1.0
        return stack


@dataclass(frozen=True, eq=False)
class _StatisticsWork:
    """From a chunk of rows to its statistics, which are whitened unless that can wait."""

    grams: _Grams
    whitening: _Whitening

    def __call__(self, chunk: Chunk) -> Statistics:
        origin = chunk.targets.mean(axis=0)
        stack = self.whitening.of_chunk(self.grams.stack(chunk.rows, chunk.targets - origin))
        variance = float(np.sum(self.grams.kernel.diagonal(chunk.rows)))
        return Statistics.of_stack(stack, origin, chunk.rows, variance)


@dataclass(frozen=True, eq=False)
class _Slopes:
    """What the second pass sums: pullbacks to the kernel's parameters and the inducing points, and |α|²."""

    parameters: dict[str, Any]
    points: Array
    squares: float

    def __add__(self, other: "_Slopes") -> "_Slopes":
        parameters = {path: bar + other.parameters[path] for path, bar in self.parameters.items()}
        return _Slopes(parameters, self.points + other.points, self.squares + other.squares)


@dataclass(frozen=True, eq=False)
class _GradientWork:
    """From a chunk of rows to its slopes."""

    grams: _Grams
    whitening: _Whitening
    coefficients: Array
    variance_bar: float
    """The adjoint of each k(x, x), which is not zero for the bound."""

    def __call__(self, chunk: Chunk) -> _Slopes:
        n = len(self.grams.inducing)
        stack, pull = self.grams.stack_with_pullback(chunk.rows, chunk.targets)
        bar = np.matmul(self.coefficients, self.whitening.of_chunk(stack))
        pulled = pull(bar[:n], True)
        parameters, kernel = pulled.parameters, self.grams.kernel
        if self.variance_bar:
            bars = np.full(len(chunk.rows), self.variance_bar)
            parameters = added(parameters, difference_slopes(kernel, lambda k: k.diagonal(chunk.rows), bars))
        return _Slopes(parameters, pulled.a, float((bar[n:] ** 2).sum()))
