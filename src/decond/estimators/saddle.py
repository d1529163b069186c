"""The saddle point behind `DualEmbedding`, in finite features: exactly, and by stochastic updates.

With f(x) = φ(x)·w and u(y) = ψ(y)·v it is

    min_w max_v  E_pairs[ρ(y) f(x) u(y)] - E_task[z u(y)] - ½ E_task[u(y)²] - η/2 |v|² + ν/2 |w|²,

where ρ(y) is the density of y among task rows relative to that among pairs. Its solution has u(y) = E[f(x) - z | y].
In sums over rows, C = E_pairs[ρ ψφᵀ], G = E_task[ψψᵀ] and b = E_task[ψz], the gradients are Cᵀv + νw in w and
Cw - b - (G + ηI)v in v.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from decond.estimators.feature_rows import Covariance, FeatureRows
from decond.linalg import add_to_diagonal, cholesky

__all__ = ["Found", "Point", "Saddle", "density_ratio", "descend", "solve"]

LEAST_UPDATES = 10
"""Updates between two passes over all rows, at least."""

GAIN = 0.7
"""An epoch that leaves more than this share of the distance gained little."""


def density_ratio(pairs: FeatureRows, task: FeatureRows, ridge: float) -> np.ndarray:
    """Return how much more frequent the y of each pair is among task rows: least squares in the features.

    Of indicators, with a ridge of nearly nothing, that is the ratio of the shares of the label.
    """
    coefficients = pairs.covariance(ridge).solve(task.mean(np.ones((len(task), 1))))
    ratio = np.maximum(pairs.values(coefficients)[:, 0], 0.0)
    return ratio / ratio.mean() if ratio.any() else np.ones(len(pairs))


class Point(NamedTuple):
    """Weights of f and u, (p, t) and (q, t), or directions of such."""

    w: np.ndarray
    v: np.ndarray

    def moved(self, step: float, direction: "Point") -> "Point":
        """Return the point a step further."""
        return Point(self.w + step * direction.w, self.v + step * direction.v)

    def less(self, other: "Point") -> "Point":
        """Return the difference of two points."""
        return self.moved(-1.0, other)


class Saddle(NamedTuple):
    """Both tables in features, with the weights ρ of the pairs, the targets and the two ridges."""

    phi: FeatureRows
    psi: FeatureRows
    psi_task: FeatureRows
    z: np.ndarray
    ratio: np.ndarray
    nu: float
    eta: float

    def gradient(self, at: Point) -> Point:
        """Return the gradients over all rows: uphill in both."""
        f, u = self.phi.values(at.w), self.psi.values(at.v)
        weight = self.ratio[:, None]
        g_w = self.phi.mean(weight * u) + self.nu * at.w
        residual = self.z + self.psi_task.values(at.v)
        g_v = self.psi.mean(weight * f) - self.psi_task.mean(residual) - self.eta * at.v
        return Point(g_w, g_v)

    def cross_moment(self, rows: np.ndarray) -> np.ndarray:
        """Return C from some pairs."""
        return self.psi.some(rows).mean(self.ratio[rows, None] * self.phi[rows])

    def zero(self) -> Point:
        """Return f = 0 and u = 0."""
        columns = self.z.shape[1]
        return Point(np.zeros((self.phi.width, columns)), np.zeros((self.psi.width, columns)))


class Curvature:
    """How the saddle bends, from y, the covariance of all ψ(ỹ), and from C of some pairs: it sets the steps.

    P = (G + ηI)⁻¹ scales steps in v, Q = (CᵀPC + νI)⁻¹ those in w. If C is that of all pairs, one step of each from
    anywhere ends in the saddle point.
    """

    def __init__(self, saddle: Saddle, y: Covariance, rows: np.ndarray) -> None:
        self.y = y
        self.C = saddle.cross_moment(rows)
        half = self.y.half_solve(self.C)
        H = half.T @ half
        add_to_diagonal(H, saddle.nu)
        self.x = cholesky(H, "the curvature of the saddle")

    def newton(self, gradient: Point) -> Point:
        """Return the step to the saddle point that the gradients suggest: first v, then w."""
        dv = self.y.solve(gradient.v)
        dw = -self.x.solve(gradient.w + self.C.T @ dv)
        return Point(dw, dv + self.y.solve(self.C @ dw))

    def noise(self, saddle: Saddle, rows: np.ndarray, task_rows: np.ndarray) -> float:
        """Return how much single rows disagree about a step, relative to the step."""
        phi, psi, task = saddle.phi.some(rows), saddle.psi.some(rows), saddle.psi_task.some(task_rows)
        of_phi, of_psi = (table.norms(scale) * saddle.ratio[rows] for table, scale in ((phi, self.x), (psi, self.y)))
        pairs = phi.spread(self.x, of_psi) + psi.spread(self.y, of_phi)
        return pairs + task.spread(self.y, task.norms(self.y))


def solve(saddle: Saddle) -> Point:
    """Return the saddle point in closed form: w = (CᵀPC + νI)⁻¹CᵀPb with P = (G + ηI)⁻¹."""
    curvature = Curvature(saddle, saddle.psi_task.covariance(saddle.eta), np.arange(len(saddle.phi)))
    return curvature.newton(saddle.gradient(saddle.zero()))


class Found(NamedTuple):
    """Where stochastic updates ended, after how many epochs, and how far from the saddle point that is."""

    point: Point
    epochs: int
    distance: float
    """Root mean square of what is left to go, in f at a sample of x."""


def descend(
    saddle: Saddle, batch_size: int, max_epochs: int, tolerance: float, sample: int, rng: np.random.Generator
) -> Found:
    """Find the saddle point by updates on minibatches of both tables.

    An epoch takes the gradients over all rows once, and then follows minibatches: their gradient here, less theirs
    where the epoch began, plus that of all rows (variance reduction). Steps are scaled by `Curvature`; the mean of
    the later half of an epoch begins the next. Where an epoch gains little, twice as many pairs say how the saddle
    bends, or, if these are all pairs, steps are halved; one that leads away is undone.
    """
    y = saddle.psi_task.covariance(saddle.eta)
    scaled = _scaled(saddle, y, sample, batch_size, rng)
    here = _leap(saddle, scaled, _Reached.at(saddle, scaled, saddle.zero()))
    epochs = 0
    while here.distance > tolerance and epochs < max_epochs:
        there = _Reached.at(saddle, scaled, _epoch(saddle, scaled, here, batch_size, rng))
        epochs += 1
        little = not there.distance < GAIN * here.distance
        here = there if there.distance < here.distance else here
        if little and sample < len(saddle.phi):
            sample *= 2
            scaled = _scaled(saddle, y, sample, batch_size, rng)
            here = _leap(saddle, scaled, _Reached.at(saddle, scaled, here.point))
        elif little:
            scaled = scaled._replace(step=0.5 * scaled.step)
    return Found(here.point, epochs, here.distance)


class _Scaled(NamedTuple):
    """What scales steps, how long they are, and features of some x at which progress is measured."""

    curvature: Curvature
    step: float
    seen: np.ndarray


class _Reached(NamedTuple):
    """A point, the gradients there, the way to the saddle point that they suggest, and its length in f."""

    point: Point
    gradient: Point
    way: Point
    distance: float

    @classmethod
    def at(cls, saddle: Saddle, scaled: _Scaled, point: Point) -> "_Reached":
        """Look around at a point."""
        gradient = saddle.gradient(point)
        way = scaled.curvature.newton(gradient)
        length = float(np.sqrt(np.mean((scaled.seen @ way.w) ** 2)))
        return cls(point, gradient, way, length if np.isfinite(length) else np.inf)


def _scaled(saddle: Saddle, y: Covariance, sample: int, batch_size: int, rng: np.random.Generator) -> _Scaled:
    """Return how steps are scaled by a sample of so many rows; the noisier single rows are, the shorter."""
    pairs, task = (_some(len(table), sample, rng) for table in (saddle.phi, saddle.psi_task))
    curvature = Curvature(saddle, y, pairs)
    doubt = max(0.0, 1.0 / batch_size - 1.0 / max(len(saddle.phi), len(saddle.psi_task)))
    return _Scaled(curvature, 1.0 / (1.0 + curvature.noise(saddle, pairs, task) * doubt), saddle.phi[pairs])


def _leap(saddle: Saddle, scaled: _Scaled, here: _Reached) -> _Reached:
    """Return where the suggested way leads, unless that is farther from the saddle point."""
    there = _Reached.at(saddle, scaled, here.point.moved(1.0, here.way))
    return there if there.distance < here.distance else here


def _epoch(saddle: Saddle, scaled: _Scaled, start: _Reached, batch_size: int, rng: np.random.Generator) -> Point:
    """Return the mean of the later half of the points that minibatches lead to."""
    curvature, step, gradient = scaled.curvature, scaled.step, start.gradient
    rows = max(len(saddle.phi), len(saddle.psi_task))
    updates = max(-(-rows // batch_size), LEAST_UPDATES)
    batches = zip(*(_batches(len(t), batch_size, rng) for t in (saddle.phi, saddle.psi_task)), strict=True)
    moved, total = saddle.zero(), saddle.zero()
    for number, (pairs, task) in zip(range(updates), batches, strict=False):
        phi, psi, psi_task = saddle.phi.some(pairs), saddle.psi.some(pairs), saddle.psi_task.some(task)
        weight = saddle.ratio[pairs, None]
        left = psi_task.mean(psi_task.values(moved.v)) + saddle.eta * moved.v
        v = moved.v + step * curvature.y.solve(gradient.v + psi.mean(weight * phi.values(moved.w)) - left)
        slope = gradient.w + phi.mean(weight * psi.values(v)) + saddle.nu * moved.w
        moved = Point(moved.w - step * curvature.x.solve(slope), v)
        if number >= updates // 2:
            total = total.moved(1.0, moved)
    return start.point.moved(1.0 / (updates - updates // 2), total)


def _batches(count: int, size: int, rng: np.random.Generator) -> Iterator[Any]:
    """Yield rows in random order, so many at a time, again and again; all rows if they are no more than that."""
    while True:
        if count <= size:
            yield slice(None)
            continue
        order = rng.permutation(count)
        for start in range(0, count - size + 1, size):
            yield order[start : start + size]


def _some(count: int, most: int, rng: np.random.Generator) -> np.ndarray:
    return np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False))
