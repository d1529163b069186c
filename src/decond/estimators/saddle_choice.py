"""Lengthscales and ridge of `DualEmbedding`: those whose f does best in the saddle objective of held-out rows.

For an f that is fixed, the largest value over u of the objective on held-out rows is ½ rᵀ(G + ηI)⁻¹r, where
r = E_pairs[ρ ψ f] - E_task[ψ z]: how far E[f | y] and E[z | y] are apart, as far as these rows can tell. To be
comparable, all candidates are judged in the same features ψ of the mediator.

f is taught by half of both tables and judged by the other task rows and all pairs: means over half of the pairs alone
are so noisy that the smoothest f would win.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from decond.estimators.coded import CodedMediator, fourier, typical_distance
from decond.estimators.feature_rows import Covariance, feature_rows
from decond.estimators.saddle import density_ratio

__all__ = ["Choice", "choose", "dual_ridge", "pair_weights"]

SCALES_X = (0.2, 0.4, 0.8, 1.6, 3.2)
SCALES_Y = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Lengthscales that are tried, relative to the median distance."""

RIDGES = 10.0 ** np.arange(-4.0, 4.0)
"""Ridges ν that are tried, times the number of rows."""

DUAL_RIDGE = 0.05
RATIO_RIDGE = 0.5
LABEL_RIDGE = 1e-6
"""Ridges of u (η) and of the density ratio, times the number of rows; of indicators both are next to none."""

FINER = 2
"""The density ratio has so many times the features of u, at a lengthscale so many times shorter. It has to weigh
products of u and E[f | y] right, which vary faster than u. Even if y is distributed alike in both tables, that
takes away most of what two samples of y differ by chance."""

JUDGE, JUDGE_MOST = 0.1, 0.5
JUDGE_RIDGE = 1e-2
"""Lengthscale, relative to the median distance, and ridge of the functions u that judge. In several columns there are
too few rows to tell fine functions apart: a judge as fine as in one prefers a constant f to any other."""

SPLITS = 4
"""How often the tables are halved; each half teaches once."""

MOST_ROWS = 1000
MOST_FEATURES, MOST_FOR_LABELS = 100, 400
"""Rows of each table, and features, that the choice is made with at most; of u more if there are many labels beside
numbers."""


class Choice(NamedTuple):
    """What was chosen: lengthscales by column, and ν times the number of rows."""

    lengthscale_x: np.ndarray
    lengthscale_y: np.ndarray | None
    ridge: float
    loss: float


class Half(NamedTuple):
    """Which rows teach, and what judges, in features of the mediator that serve every candidate."""

    pairs: np.ndarray
    task: np.ndarray
    psi: np.ndarray
    """ρψ at all pairs, divided by their number."""
    mean: np.ndarray
    """E[ψ z] over the task rows that judge."""
    factor: Covariance

    def loss(self, f: np.ndarray) -> np.ndarray:
        """Return the objective for candidates f (ν, pairs, targets), summed over targets."""
        r = np.moveaxis(self.psi.T @ f - self.mean, 0, 1)
        white = self.factor.half_solve(np.ascontiguousarray(r).reshape(len(self.mean), -1))
        return 0.5 * (white**2).reshape(len(self.mean), len(f), -1).sum(axis=(0, 2))


def dual_ridge(mediator: CodedMediator) -> float:
    """Return η."""
    return (LABEL_RIDGE if mediator.only_labels else DUAL_RIDGE) / _rows(mediator)


def pair_weights(mediator: CodedMediator, lengthscale: np.ndarray | None, n_features: int, seed: int) -> np.ndarray:
    """Return ρ, how much more frequent the y of each pair is among task rows, for a u with these features."""
    finer = None if lengthscale is None else lengthscale / FINER
    features = mediator.features(finer, FINER * n_features, seed)
    pairs, task = (feature_rows(features, rows) for rows in (mediator.pairs, mediator.task))
    ridge = LABEL_RIDGE if mediator.only_labels else RATIO_RIDGE
    return density_ratio(pairs, task, ridge / _rows(mediator))


def choose(
    x: np.ndarray, mediator: CodedMediator, z: np.ndarray, n_features: int, seed: int, ridges: np.ndarray = RIDGES
) -> Choice:
    """Return the lengthscales and the ridge with the smallest held-out objective."""
    rng = np.random.default_rng(seed)
    scale_x, scale_y = typical_distance(x, seed), None if mediator.only_labels else mediator.lengthscale(seed)
    pairs, task = mediator.sample(MOST_ROWS, rng)
    x, mediator, z = x[pairs], mediator.part(pairs, task).recoded(), z[task]
    count = min(n_features, MOST_FEATURES)
    count_y = min(n_features, max(MOST_FEATURES, min(2 * mediator.n_labels, MOST_FOR_LABELS)))
    halves = list(_halves(mediator, z, scale_y, count_y, rng))
    best = Choice(scale_x, scale_y, 0.0, np.inf)
    for factor_y in (None,) if scale_y is None else SCALES_Y:
        lengthscale_y = None if scale_y is None else factor_y * scale_y
        taught = [_Taught(mediator, z, half, lengthscale_y, count_y, seed + 1) for half in halves]
        for factor_x in SCALES_X:
            phi = fourier(factor_x * scale_x, count, seed).transform(x)
            told = zip(taught, halves, strict=True)
            losses = np.sum([half.loss(part.candidates(phi, ridges)) for part, half in told], axis=0)
            least = int(np.argmin(losses))
            if losses[least] < best.loss:
                best = Choice(factor_x * scale_x, lengthscale_y, float(ridges[least]), float(losses[least]))
    return best


class _Taught:
    """One half of both tables in features of the mediator; gives f for all ridges at once."""

    def __init__(
        self,
        mediator: CodedMediator,
        z: np.ndarray,
        half: Half,
        lengthscale: np.ndarray | None,
        n_features: int,
        seed: int,
    ) -> None:
        part, features = mediator.part(half.pairs, half.task), mediator.features(lengthscale, n_features, seed)
        psi, task = (feature_rows(features, rows) for rows in (part.pairs, part.task))
        self.half, self.rows = half, _rows(part)
        self.psi = psi[:] * pair_weights(part, lengthscale, n_features, seed)[:, None] / len(psi)
        self.factor = task.covariance(dual_ridge(part))
        self.white = self.factor.half_solve(task.mean(z[half.task]))

    def candidates(self, phi: np.ndarray, ridges: np.ndarray) -> np.ndarray:
        """Return f at all pairs, for every ridge: w = (CᵀPC + νI)⁻¹CᵀPb by one eigendecomposition."""
        C = self.factor.half_solve(self.psi.T @ phi[self.half.pairs])
        values, vectors = np.linalg.eigh(C.T @ C)
        target = vectors.T @ (C.T @ self.white)
        shrunk = target / (np.maximum(values, 0.0)[:, None] + ridges[:, None, None] / self.rows)
        return phi @ vectors @ shrunk


def _halves(
    mediator: CodedMediator, z: np.ndarray, scale: np.ndarray | None, count: int, rng: np.random.Generator
) -> Iterator[Half]:
    """Yield what teaches and what judges."""
    lengthscale = None if scale is None else _judge(len(scale), mediator.n_labels) * scale
    seed = int(rng.integers(2**31))
    features = mediator.features(lengthscale, count, seed)
    for _ in range(SPLITS):
        first = _halved(mediator, rng)
        for pairs, task in (first, tuple(~rows for rows in first)):
            judges = mediator.part(slice(None), ~task)
            psi, psi_task = (feature_rows(features, rows) for rows in (judges.pairs, judges.task))
            ratio = pair_weights(judges, lengthscale, count, seed)
            factor = psi_task.covariance(dual_ridge(judges) if mediator.only_labels else JUDGE_RIDGE)
            yield Half(pairs, task, psi[:] * ratio[:, None] / len(psi), psi_task.mean(z[~task]), factor)


def _judge(columns: int, n_labels: int) -> float:
    """Return the lengthscale of what judges; labels beside numbers count as one column more."""
    return min(JUDGE * (columns + (n_labels > 1)) ** 2, JUDGE_MOST)


def _halved(mediator: CodedMediator, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows of both tables are in the first half; if there are labels only, half of these."""
    if mediator.only_labels:
        first = rng.permutation(mediator.n_labels) % 2 == 0
        return first[mediator.pairs[:, -1].astype(int)], first[mediator.task[:, -1].astype(int)]
    return rng.permutation(len(mediator.pairs)) % 2 == 0, rng.permutation(len(mediator.task)) % 2 == 0


def _rows(mediator: CodedMediator) -> int:
    return min(len(mediator.pairs), len(mediator.task))
