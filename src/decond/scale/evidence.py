"""The log evidence and its gradient in two passes over the rows.

The first pass sums the statistics; the head turns them into the evidence and adjoints; the second pass multiplies
each block once more and carries its adjoint through the kernel. For n inducing points and m rows that is 4mn²
operations: a triangular product and a symmetric one, then a full one.
"""

import threading
from typing import Any, NamedTuple

import numpy as np

from decond.autodiff import fill_gram, rows_pullback
from decond.kernels.base import Kernel
from decond.linalg import multiply
from decond.scale.blocks import Blocks, pieces
from decond.scale.head import Adjoints, Head, Whitening
from decond.scale.parallel import Workspace, in_order
from decond.scale.statistics import Statistics

__all__ = ["Gradient", "Ridges", "collect", "log_evidence_and_gradient"]

WIDE = 2048
"""Rows of a block, where they are many: it fits the cache of a core, and starting it takes little of its time."""

SMALL_NOISE = 1e-4
"""Below this share of the kernel's variance the noise variance makes k(u, u) + τ²I so nearly singular that the second
pass whitens its blocks again (mn² more), which squares no condition number."""


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


def collect(kernel: Kernel, inducing: np.ndarray, whitening: Whitening, blocks: Blocks) -> Statistics:
    """Return the statistics of all rows: the first pass."""
    stacks = _Stacks(kernel, inducing)

    def part(piece: tuple[np.ndarray, np.ndarray]) -> Statistics:
        variance = float(np.sum(kernel.diagonal(piece[0])))
        stack = whitening.whiten(stacks.of(*piece), stacks.workspace)
        return Statistics.from_block(stack, len(inducing), variance)

    total: Statistics | None = None
    for found in in_order(part, pieces(blocks, WIDE)):
        total = found if total is None else total + found
    if total is None:
        raise ValueError("there are no rows to learn from; give at least one block with one row.")
    return total


def log_evidence_and_gradient(
    kernel: Kernel, inducing: np.ndarray, ridges: Ridges, blocks: Blocks
) -> tuple[float, Gradient]:
    """Return log p(z) and its gradient: both passes.

    P = k(u, u) + τ²I and k(u, u) meet in one Gram matrix: its adjoint is R⁻ᵀ(K̃_bar - K̃K̃_bar - K̃_barK̃)R⁻¹. The
    misfit is summed in the second pass, from residuals: as a difference of sums it would lose its digits.
    """
    whitening = Whitening(kernel, inducing, ridges.mediator)
    statistics = collect(kernel, inducing, whitening, blocks)
    head = Head(statistics, whitening.prior, ridges.noise)
    adjoints = head.adjoints()
    tile = _tile(len(inducing), wide=statistics.count >= WIDE)
    coefficients = _Coefficients(whitening, head, adjoints)
    (parameters, points), squares = _second_pass(_Stacks(kernel, inducing), blocks, coefficients, tile)
    turned = multiply(head.prior, adjoints.bridged)
    ridge_bar = -whitening.unwhitened(turned + turned.T)
    gram_bar = whitening.unwhitened(adjoints.bridged) + ridge_bar
    within, moved = rows_pullback(kernel, inducing, inducing, gram_bar, _tile(len(inducing), wide=False))
    parameters = {path: bar + within[path] for path, bar in parameters.items()}
    noise_bar = 0.5 * (squares - statistics.targets * adjoints.trace_inverse)
    value = head.log_density(ridges.noise**2 * squares)
    return value, Gradient(parameters, points + 2.0 * moved, noise_bar, float(np.trace(ridge_bar)))


class _Stacks(threading.local):
    """The stack [k(u, rows); zᵀ; 1ᵀ] of a block, in memory that each thread uses again for its next one."""

    def __init__(self, kernel: Kernel, inducing: np.ndarray) -> None:
        self.kernel, self.inducing, self.workspace = kernel, inducing, Workspace()

    def of(self, rows: np.ndarray, z: np.ndarray) -> np.ndarray:
        n = len(self.inducing)
        stack = self.workspace.array("stack", (n + z.shape[1] + 1, len(rows)))
        if len(rows) >= WIDE:
            fill_gram(self.kernel, self.inducing, rows, stack[:n], _tile(n, wide=True))
        else:
            stack[:n] = self.kernel.gram(self.inducing, rows)
        stack[n:-1], stack[-1] = z.T, 1.0
        return stack


class _Coefficients:
    """A matrix that turns the stack [L̃; zᵀ; 1ᵀ] of a block into [L̃_bar; αᵀ], α = S⁻¹z.

    With a = R⁻ᵀμ̃ and E = R⁻ᵀVR⁻¹ it is α = (z - L̃ᵀa)/σ² and L̃_bar = aαᵀ - tEL̃/σ². Where the noise is small, the
    stack is whitened first and the matrix has μ̃ and R⁻ᵀV in place of a and E.
    """

    def __init__(self, whitening: Whitening, head: Head, adjoints: Adjoints) -> None:
        precise = head.noise < SMALL_NOISE * whitening.scale
        self.whitening = whitening if precise else None
        mean = whitening.factor.half_solve_transposed(head.mean)
        n, t = mean.shape
        if precise:
            read, spread = head.mean, whitening.factor.half_solve_transposed(adjoints.covariance)
        else:
            read, spread = mean, whitening.unwhitened(adjoints.covariance)
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


def _second_pass(
    stacks: _Stacks, blocks: Blocks, coefficients: _Coefficients, tile: tuple[int, int]
) -> tuple[tuple[dict[str, Any], np.ndarray], float]:
    """Return the sums of the blocks' pullbacks, to parameters and inducing points, and of α²."""
    kernel, inducing = stacks.kernel, stacks.inducing
    n = len(inducing)

    def part(piece: tuple[np.ndarray, np.ndarray]) -> tuple[dict[str, Any], np.ndarray, float]:
        bar = coefficients.apply(stacks.of(*piece), stacks.workspace)
        return *rows_pullback(kernel, inducing, piece[0], bar[:n], tile), float((bar[n:] ** 2).sum())

    total: dict[str, Any] = {}
    points, squares = np.zeros(inducing.shape), 0.0
    for parameters, moved, square in in_order(part, pieces(blocks, WIDE)):
        points += moved
        squares += square
        total = {path: total.get(path, 0.0) + bar for path, bar in parameters.items()}
    return (total, points), squares


def _tile(n: int, wide: bool) -> tuple[int, int]:
    """Return the tile to compile for: a close fit where rows are many, one for all sizes where they are few."""
    if wide:
        return min(512, -(-n // 64) * 64), WIDE
    return (256 if n <= 256 else 512), 256
