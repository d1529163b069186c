"""The log evidence and its gradient in two passes over the rows.

The first pass sums the statistics; the head turns them into the evidence and adjoints; the second pass multiplies
each block once more and carries its adjoint through the kernel. For n inducing points and m rows that is 4mn²
operations: a triangular product and a symmetric one, then a full one.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from decond.autodiff import fill_gram, rows_pullback
from decond.kernels.base import Kernel
from decond.linalg import multiply
from decond.scale.blocks import Blocks, pieces
from decond.scale.head import Adjoints, Head, Whitening
from decond.scale.statistics import Statistics

__all__ = ["collect", "log_evidence_and_gradient"]

BLOCK_ENTRIES = 2**20
"""Entries of k(u, X) that are held at a time (8 MB)."""

WIDE = 2048
"""Columns of a tile where rows are many: starting a tile takes as long as computing 30 of its columns."""

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
    total: Statistics | None = None
    for rows, stack in _stacks(kernel, inducing, blocks):
        variance = float(np.sum(kernel.diagonal(rows)))
        part = Statistics.from_block(whitening.whiten(stack), len(inducing), variance)
        total = part if total is None else total + part
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
    (parameters, points), squares = _second_pass(
        kernel, inducing, blocks, _Coefficients(whitening, head, adjoints), tile
    )
    turned = multiply(head.prior, adjoints.bridged)
    ridge_bar = -whitening.unwhitened(turned + turned.T)
    gram_bar = whitening.unwhitened(adjoints.bridged) + ridge_bar
    within, moved = rows_pullback(kernel, inducing, inducing, gram_bar, _tile(len(inducing), wide=False))
    parameters = {path: bar + within[path] for path, bar in parameters.items()}
    noise_bar = 0.5 * (squares - statistics.targets * adjoints.trace_inverse)
    value = head.log_density(ridges.noise**2 * squares)
    return value, Gradient(parameters, points + 2.0 * moved, noise_bar, float(np.trace(ridge_bar)))


class _Coefficients:
    """A matrix that turns the stack [L̃; zᵀ; 1ᵀ] of a block into [L̃_bar; αᵀ], α = S⁻¹z.

    With a = R⁻ᵀμ̃ and E = R⁻ᵀVR⁻¹ it is α = (z - L̃ᵀa)/σ² and L̃_bar = aαᵀ - tEL̃/σ². Where the noise is small, the
    stack is whitened first and the matrix has μ̃ and R⁻ᵀV in place of a and E.
    """

    def __init__(self, whitening: Whitening, head: Head, adjoints: Adjoints) -> None:
        precise = head.noise < SMALL_NOISE * whitening.scale
        self.whitening = whitening if precise else None
        mean = whitening.factor.half_solve_transposed(head.mean)
        t = mean.shape[1]
        if precise:
            read, spread = head.mean, whitening.factor.half_solve_transposed(adjoints.covariance)
        else:
            read, spread = mean, whitening.unwhitened(adjoints.covariance)
        n = len(mean)
        self.matrix = np.zeros((n + t, n + t + 1))
        self.matrix[:n, :n] = -(multiply(mean, read.T) + t * spread) / head.noise
        self.matrix[:n, n:-1] = mean / head.noise
        self.matrix[n:, :n] = -read.T / head.noise
        self.matrix[n:, n:-1] = np.eye(t) / head.noise

    def apply(self, stack: np.ndarray) -> np.ndarray:
        """Return [L̃_bar; αᵀ]; the stack is used up."""
        return multiply(self.matrix, stack if self.whitening is None else self.whitening.whiten(stack))


def _second_pass(
    kernel: Kernel, inducing: np.ndarray, blocks: Blocks, coefficients: _Coefficients, tile: tuple[int, int]
) -> tuple[tuple[dict[str, Any], np.ndarray], float]:
    """Return the sums of the blocks' pullbacks, to parameters and inducing points, and of α²."""
    total: dict[str, Any] = {}
    points, squares = np.zeros(inducing.shape), 0.0
    for rows, stack in _stacks(kernel, inducing, blocks):
        bar = coefficients.apply(stack)
        squares += float((bar[len(inducing) :] ** 2).sum())
        parameters, moved = rows_pullback(kernel, inducing, rows, bar[: len(inducing)], tile)
        points += moved
        total = {path: total.get(path, 0.0) + part for path, part in parameters.items()}
    return (total, points), squares


def _stacks(kernel: Kernel, inducing: np.ndarray, blocks: Blocks) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows and their stack [k(u, rows); zᵀ; 1ᵀ], in memory that is used again for the next ones."""
    n = len(inducing)
    height = max(WIDE, BLOCK_ENTRIES // n // WIDE * WIDE)
    stack = np.empty((0, 0))
    for rows, z in pieces(blocks, height):
        shape = (n + z.shape[1] + 1, len(rows))
        if stack.shape != shape:
            stack = np.empty(shape)
        if len(rows) >= WIDE:
            fill_gram(kernel, inducing, rows, stack[:n], _tile(n, wide=True))
        else:
            stack[:n] = kernel.gram(inducing, rows)
        stack[n:-1], stack[-1] = z.T, 1.0
        yield rows, stack


def _tile(n: int, wide: bool) -> tuple[int, int]:
    """Return the tile to compile for: a close fit where rows are many, one for all sizes where they are few."""
    if wide:
        return min(512, -(-n // 64) * 64), WIDE
    return (256 if n <= 256 else 512), 256
