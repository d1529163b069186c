"""The log evidence and its gradient in two passes over the rows.

The first pass sums the statistics; the head turns them into the evidence and adjoints; the second pass multiplies
each block once more and carries its adjoint through the kernel. For n inducing points and m rows that is 3mn²
operations, a symmetric product and a full one; where k(u, u) + τ²I is ill-conditioned, each pass also whitens its
blocks, with a triangular product of mn² more.
"""

import functools
import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from decond.kernels.composite import Scaled
from decond.kernels.kernel import Kernel, Pull
from decond.linalg import multiply
from decond.streaming.head import MILD, Adjoints, Head, Whitening
from decond.streaming.parallel import Workspace
from decond.streaming.sources import Piece, Source
from decond.streaming.statistics import Statistics
from decond.threads import threads_for

__all__ = ["Gradient", "Ridges", "collect", "log_evidence_and_gradient"]


class Ridges(NamedTuple):
    """The noise of the targets and the ridge of the mediator, both variances."""

    noise: float
    mediator: float


class Gradient(NamedTuple):
    """The gradient of the log evidence."""

    kernel: dict[str, Any]
    inducing: np.ndarray
    noise: float
    """With respect to σ²."""
    mediator: float
    """With respect to τ²."""


def collect(kernel: Kernel, inducing: np.ndarray, whitening: Whitening, source: Source) -> Statistics:
    """Return the statistics of all rows: the first pass."""
    sums = source.total(_FirstPass(_Grams(kernel, inducing), whitening))
    with threads_for(len(inducing)):
        return whitening.whitened(sums) if whitening.mild else sums


def log_evidence_and_gradient(
    kernel: Kernel, inducing: np.ndarray, ridges: Ridges, source: Source, mild: float = MILD
) -> tuple[float, Gradient]:
    """Return log p(z) and its gradient: both passes; `mild` is that of `Whitening`.

    P = k(u, u) + τ²I and k(u, u) meet in one Gram matrix: its adjoint is R⁻ᵀ(K̃_bar - K̃K̃_bar - K̃_barK̃)R⁻¹. That of
    P alone is the same without the first term, and τ² only asks for its trace. What the
    rows add to the slope of an amplitude is Σ L̃∘L̃_bar = 2 Σ K̃∘K̃_bar, since both make up WᵀK̃W. The misfit is summed
    in the second pass, from residuals: as a difference of sums it would lose its digits.
    """
    calm = functools.partial(threads_for, len(inducing))
    with calm():
        whitening = Whitening(kernel, inducing, ridges.mediator, mild)
    statistics = collect(kernel, inducing, whitening, source)
    with calm():
        head = Head(statistics, whitening.prior, ridges.noise)
        adjoints = head.adjoints()
        coefficients = _Coefficients(whitening, head, adjoints)
    slopes = source.total(_SecondPass(_Grams(kernel, inducing), coefficients))
    with calm():
        turned = multiply(head.prior, adjoints.bridged)
        white_bar = adjoints.bridged - turned - turned.T
        ridge_bar = -2.0 * float((turned * whitening.spread).sum())
        grams = _Grams(kernel, inducing)
        within, moved = grams.pulled(
            grams.inner.gram_with_pullback(inducing, inducing)[1], whitening.unwhitened(white_bar)
        )
        parameters = {path: bar + within[path] for path, bar in slopes.parameters.items()}
        if isinstance(kernel, Scaled):
            parameters["variance"] = (head.prior * (2.0 * adjoints.bridged + white_bar)).sum() / kernel.variance
    noise_bar = 0.5 * (slopes.squares - statistics.targets * adjoints.trace_inverse)
    value = head.log_density(ridges.noise**2 * slopes.squares)
    return value, Gradient(parameters, slopes.points + 2.0 * moved, noise_bar, ridge_bar)


@dataclass(frozen=True, eq=False)
class _FirstPass:
    """From a piece of rows to its statistics, which are whitened unless that can wait."""

    grams: "_Grams"
    whitening: Whitening

    def __call__(self, piece: Piece) -> Statistics:
        stack = self.grams.stack(piece, _SCRATCH.workspace)
        if not self.whitening.mild:
            stack = self.whitening.whiten(stack, _SCRATCH.workspace)
        variance = float(np.sum(self.grams.kernel.diagonal(piece.rows)))
        return Statistics.from_block(stack, len(self.grams.inducing), variance)


@dataclass(frozen=True, eq=False)
class _Slopes:
    """What the second pass sums: pullbacks to the kernel's parameters and the inducing points, and α²."""

    parameters: dict[str, Any]
    points: np.ndarray
    squares: float

    def __add__(self, other: "_Slopes") -> "_Slopes":
        parameters = {path: bar + other.parameters[path] for path, bar in self.parameters.items()}
        return _Slopes(parameters, self.points + other.points, self.squares + other.squares)


@dataclass(frozen=True, eq=False)
class _SecondPass:
    """From a piece of rows to its slopes."""

    grams: "_Grams"
    coefficients: "_Coefficients"

    def __call__(self, piece: Piece) -> _Slopes:
        n = len(self.grams.inducing)
        stack, pull = self.grams.stack_with_pullback(piece, _SCRATCH.workspace)
        bar = self.coefficients.apply(stack, _SCRATCH.workspace)
        parameters, points = self.grams.pulled(pull, bar[:n])
        return _Slopes(parameters, points, float((bar[n:] ** 2).sum()))


@dataclass(frozen=True, eq=False)
class _Grams:
    """Gram matrices k(u, rows) of pieces, and the way back from their adjoints."""

    kernel: Kernel
    inducing: np.ndarray

    @property
    def inner(self) -> Kernel:
        """The kernel without its amplitude, whose slope is known without rows."""
        return self.kernel.kernel if isinstance(self.kernel, Scaled) else self.kernel

    @property
    def amplitude(self) -> float:
        """The variance in front of the kernel."""
        return float(self.kernel.variance) if isinstance(self.kernel, Scaled) else 1.0

    def stack(self, piece: Piece, workspace: Workspace) -> np.ndarray:
        """Return the stack [k(u, rows); zᵀ; 1ᵀ] in memory of the workspace."""
        stack = self._stack(piece, workspace)
        self.kernel.gram(self.inducing, piece.rows, out=stack[: len(self.inducing)])
        return stack

    def stack_with_pullback(self, piece: Piece, workspace: Workspace) -> tuple[np.ndarray, Pull]:
        """Return the same, and the way back through the kernel without its amplitude."""
        stack = self._stack(piece, workspace)
        gram, pull = self.inner.gram_with_pullback(self.inducing, piece.rows, out=stack[: len(self.inducing)])
        gram *= self.amplitude
        return stack, pull

    def _stack(self, piece: Piece, workspace: Workspace) -> np.ndarray:
        n, t = len(self.inducing), piece.targets.shape[1]
        stack = workspace.array("stack", (n + t + 1, len(piece.rows)))
        stack[n:-1] = piece.targets.T
        stack[-1] = 1.0
        return stack

    def pulled(self, pull: Pull, bar: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
        """Carry an adjoint on to parameters and points, but not to an amplitude."""
        found = pull(self.amplitude * bar, True)
        scope = "kernel." if isinstance(self.kernel, Scaled) else ""
        return {scope + path: slope for path, slope in found.parameters.items()}, found.a


class _Scratch(threading.local):
    """Memory of each thread, used again for its next piece."""

    def __init__(self) -> None:
        self.workspace = Workspace()


_SCRATCH = _Scratch()


class _Coefficients:
    """A matrix that turns the stack [L̃; zᵀ; 1ᵀ] of a block into [L̃_bar; αᵀ], α = S⁻¹z.

    With a = R⁻ᵀμ̃ and E = R⁻ᵀVR⁻¹ it is α = (z - L̃ᵀa)/σ² and L̃_bar = aαᵀ - tEL̃/σ². Unless the whitening is mild, the
    stack is whitened first and the matrix has μ̃ and R⁻ᵀV in place of a and E.
    """

    def __init__(self, whitening: Whitening, head: Head, adjoints: Adjoints) -> None:
        self.whitening = None if whitening.mild else whitening
        mean = multiply(whitening.root.T, head.mean)
        n, t = mean.shape
        if whitening.mild:
            read, spread = mean, whitening.unwhitened(adjoints.covariance)
        else:
            read, spread = head.mean, multiply(whitening.root.T, adjoints.covariance)
        self.matrix = np.zeros((n + t, n + t + 1))
        self.matrix[:n, :n] = -(multiply(mean, read.T) + t * spread) / head.noise
        self.matrix[:n, n:-1] = mean / head.noise
        self.matrix[n:, :n] = -read.T / head.noise
        self.matrix[n:, n:-1] = np.eye(t) / head.noise

    def apply(self, stack: np.ndarray, workspace: Workspace) -> np.ndarray:
        """Return [L̃_bar; αᵀ], in memory of the workspace."""
        if self.whitening is not None:
            stack = self.whitening.whiten(stack, workspace)
        out = workspace.array("adjoint", (len(self.matrix), stack.shape[1]))
        return np.matmul(self.matrix, stack, out=out)
