"""The evidence as a function of sums over rows: the small part that is done once, whatever the number of rows."""

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from decond.kernels.kernel import Kernel
from decond.linalg import add_to_diagonal, cholesky, cholesky_if, multiply
from decond.streaming.parallel import Workspace
from decond.streaming.statistics import Statistics

__all__ = ["Adjoints", "Head", "Whitening"]

PANEL = 64
"""Rows of a triangular matrix that are multiplied at a time."""

MILD = 1e5
"""Condition number of k(u, u) + τ²I up to which its square does no harm: sums over rows lose less than 1e-9 of the
evidence when they are whitened at the end. Beyond it each block is whitened, before it is summed."""

SAFE = 1e8
"""Condition number of the sums WWᵀ up to which their Cholesky factor is as good as their eigenvectors."""


class Whitening:
    """R⁻¹ with R Rᵀ = k(u, u) + τ²I: it turns k(u, X) into W, and k(u, u) into K̃ = R⁻¹ k(u, u) R⁻ᵀ.

    Multiplying with R⁻¹ is faster than solving with R. K̃ is taken as I - τ²R⁻¹R⁻ᵀ, which also loses fewer digits: its
    second term is never larger than one, whereas k(u, u) is multiplied by numbers as large as 1/τ².
    """

    def __init__(self, kernel: Kernel, inducing: np.ndarray, ridge: float, mild: float = MILD) -> None:
        shifted = kernel.gram(inducing, inducing)
        add_to_diagonal(shifted, ridge)
        norm = float(np.abs(shifted).sum(axis=0).max())
        factor = cholesky(shifted, "k(u, u) + τ²I")
        self.mild = factor.condition(norm) <= mild
        """Whether sums over rows may be whitened instead of the rows."""
        self.root = factor.inverse_root().lower
        """R⁻¹."""
        self.spread = multiply(self.root, self.root.T)
        """R⁻¹R⁻ᵀ, what the ridge is turned into, but for τ²."""
        self.prior = -(ridge + factor.jitter) * self.spread
        """K̃."""
        add_to_diagonal(self.prior, 1.0)

    def whiten(self, stack: np.ndarray, workspace: Workspace) -> np.ndarray:
        """Return [R⁻¹L̃; …] of a stack [L̃; …] in memory of the workspace; what is below L̃ stays as it is.

        A panel of rows of R⁻¹ is multiplied only with what is not zero in it.
        """
        white = workspace.array("white", stack.shape)
        n = len(self.root)
        for start in range(0, n, PANEL):
            stop = min(start + PANEL, n)
            np.matmul(self.root[start:stop, :stop], stack[:stop], out=white[start:stop])
        white[n:] = stack[n:]
        return white

    def whitened(self, raw: Statistics) -> Statistics:
        """Return the statistics of R⁻¹L̃ from those of L̃."""
        full, n = raw.products.copy(), len(self.root)
        full[:n] = multiply(self.root, full[:n])
        full[:, :n] = multiply(full[:, :n], self.root.T)
        return replace(raw, products=full)

    def unwhitened(self, adjoint: np.ndarray) -> np.ndarray:
        """Return R⁻ᵀ adjoint R⁻¹."""
        return multiply(self.root.T, multiply(adjoint, self.root))


class Adjoints(NamedTuple):
    """What the gradient needs from the head; t is the number of target columns."""

    bridged: np.ndarray
    """K̃_bar = ½(ββᵀ - tB), with B = WS⁻¹Wᵀ."""
    covariance: np.ndarray
    """V = K̃ - K̃BK̃, the posterior covariance of the whitened values (n, n)."""
    trace_inverse: float
    """The trace of S⁻¹."""


class Head:
    """log N(z; 0, S) with S = WᵀK̃W + σ²I, from the statistics of W and z (Theorem 5.3, part 4).

    With WWᵀ = FFᵀ the m targets act like r targets q = F⁺Wz with covariance FᵀK̃F + σ²I, and what is left of z is
    noise: the paper's alternative evidence without its non-symmetric matrix, and without a root of K̃.
    """

    def __init__(self, statistics: Statistics, prior: np.ndarray, noise: float) -> None:
        self.statistics, self.prior, self.noise = statistics, prior, noise
        self.root, targets = _root(statistics)
        core = multiply(multiply(self.root.T, prior), self.root)
        add_to_diagonal(core, noise)
        self.core = cholesky(core, "FᵀK̃F + σ²I")
        self.coefficients = multiply(self.root, self.core.solve(targets))
        """β = WS⁻¹z (n, t)."""
        self.mean = multiply(prior, self.coefficients)
        """μ̃ = K̃β, the posterior mean of the whitened values (n, t)."""

    @property
    def misfit(self) -> float:
        """|z - Wᵀμ̃|², summed over target columns."""
        explained = 2.0 * self.statistics.cross - multiply(self.statistics.gram, self.mean)
        return max(float(self.statistics.squares.sum() - (self.mean * explained).sum()), 0.0)

    @property
    def log_evidence(self) -> float:
        """Log p(z), summed over target columns."""
        return self.log_density(self.misfit)

    def log_density(self, misfit: float) -> float:
        """Return log N(z; 0, S), given |z - Wᵀμ̃|²: zᵀS⁻¹z is that over σ², plus βᵀK̃β.

        As the smallest value of such a sum it does not feel small errors of β.
        """
        count, targets = self.statistics.count, self.statistics.targets
        log_determinant = self.core.log_determinant + (count - self.core.size) * np.log(self.noise)
        quadratic = misfit / self.noise + (self.coefficients * self.mean).sum()
        return -0.5 * float(quadratic + targets * (log_determinant + count * np.log(2.0 * np.pi)))

    def adjoints(self) -> Adjoints:
        """Return what the gradient needs."""
        beta, half = self.coefficients, self._half
        inside = multiply(half.T, half)
        bridged = 0.5 * (multiply(beta, beta.T) - self.statistics.targets * inside)
        return Adjoints(bridged, self.covariance, self._trace_inverse(inside))

    def _trace_inverse(self, inside: np.ndarray) -> float:
        """Return the trace of S⁻¹, from B: σ²S⁻¹ = I - WᵀK̃WS⁻¹, whose last term has the trace of K̃B.

        Where rows are few that difference would lose its digits, and the inverse of the core is taken.
        """
        count, size = self.statistics.count, self.core.size
        if count > 2 * size:
            return (count - float((self.prior * inside).sum())) / self.noise
        return (count - size) / self.noise + self.core.inverse_trace()

    @cached_property
    def covariance(self) -> np.ndarray:
        """V = K̃ - K̃BK̃, the posterior covariance of the whitened values (n, n)."""
        explained = multiply(self._half, self.prior)
        return self.prior - multiply(explained.T, explained)

    @cached_property
    def _half(self) -> np.ndarray:
        """H with B = HᵀH: the rows of Fᵀ, seen by the root of the core."""
        return self.core.half_solve(_turned(self.root))


def _turned(matrix: np.ndarray) -> np.ndarray:
    """Return the transpose, row-major: solving with it is faster than with a view."""
    return np.ascontiguousarray(matrix.T)


def _root(statistics: Statistics) -> tuple[np.ndarray, np.ndarray]:
    """Return F with WWᵀ = FFᵀ, and q = F⁺Wz.

    F is the Cholesky factor where that is safe. Elsewhere it comes from eigenvectors, without those whose eigenvalue
    is rounding: nearly as precise as a QR of all rows, and many times the work.
    """
    gram = statistics.gram
    factor = cholesky_if(gram, SAFE)
    if factor is not None:
        return factor.lower, factor.half_solve(statistics.cross)
    values, vectors = eigh(gram, driver="evd")
    kept = values > len(values) * np.finfo(float).eps * values[-1]
    kept[-1] = True
    scale = np.sqrt(np.maximum(values[kept], np.finfo(float).tiny))
    return vectors[:, kept] * scale, multiply(vectors[:, kept].T, statistics.cross) / scale[:, None]
