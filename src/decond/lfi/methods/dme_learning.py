"""How DME and KELFI choose kernels and regularization: by held-out simulations, or by the evidence q̄ of the paper."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize

from decond.checks import as_number, check_choice
from decond.kernels import RBF, Kernel, median_heuristic
from decond.lfi.methods.deconditioning import DataFeatures, Deconditioner, PriorBasis, ThetaFeatures, ripple
from decond.linalg import cholesky

__all__ = ["Choice", "Evidence", "Validation", "check_learning", "chosen_by_validation"]

Inside = Callable[[np.ndarray], np.ndarray]

FOLDS = 3
SMOOTHED = 500
"""Draws that stand for the prior while choosing."""

FACTORS_THETA = 2.0 ** np.arange(-4.0, 2.0)
FACTORS_X = 2.0 ** np.arange(-6.0, 2.0)
REGULARIZATIONS = 10.0 ** np.arange(-6.0, 0.0)
DELTAS = 10.0 ** np.arange(-5.0, 2.5, 0.5)
"""The grid: lengthscales as multiples of the median distance, λ, and δ."""

STARTS = ((3, 3, 3), (1, 2, 3), (4, 5, 3))
LOCAL_START = (4, 6, 3)
"""Points of the grid to climb from; the local optimum is climbed to from the median heuristic."""

LANDMARKS = 200
"""Features of θ while choosing; the final fit has more."""

FLOOR = 0.02
"""Share of the prior that a held-out density is mixed with: one miss then costs no more than log 50."""

MAX_HELD_OUT = 150
"""Held-out simulations that are scored, the nearest to the observation."""

REACH = np.array([np.log(16.0), np.log(64.0), np.log(1e3)])
"""How far the lengthscale of θ, ε and λ may go from their start under the evidence, as logarithms."""

GRID = (9, 25, 7)
EVALUATIONS = 150
LAMBDA = 1e-3
WORST = 1e10


class Choice(NamedTuple):
    """Kernels of θ and x, λ, δ, and the objective that they reach."""

    kernel_theta: Kernel
    kernel_x: Kernel
    regularization: float
    evidence_regularization: float
    objective: float


class Validation:
    """The mean log density, relative to the proposal, that posteriors give to the true θ_i of held-out simulations.

    For each fold the operator is built from the other simulations. Draws of a kernel estimate from the simulated
    parameters stand for the prior, so what is scored is the posterior under whatever proposal made the simulations:
    no correction is needed here either. `contains` tells which parameters are possible.
    Simulations near the observation count most; all count the same if there is none.
    """

    def __init__(
        self,
        phi: np.ndarray,
        x: np.ndarray,
        observed: np.ndarray | None,
        kernels_theta: Sequence[Kernel],
        kernels_x: Sequence[Kernel],
        regularizations: np.ndarray,
        evidence_regularizations: np.ndarray,
        rng: np.random.Generator,
        contains: Inside | None = None,
    ) -> None:
        self.phi, self.x = phi, x
        self.draws = _smooth_bootstrap(phi, rng, contains)
        self.kernels_theta, self.kernels_x = kernels_theta, kernels_x
        self.regularizations, self.deltas = regularizations, evidence_regularizations
        self.shape = (len(kernels_theta), len(kernels_x), len(regularizations))
        self._importance = _nearness(x, observed, rng)
        self._folds = np.array_split(rng.permutation(len(x)), FOLDS)
        self._landmark_seed = int(rng.integers(2**31))
        self._bases: dict[tuple[int, int], PriorBasis] = {}
        self._data: dict[tuple[int, int, int], tuple[DataFeatures, np.ndarray]] = {}
        self._scores: dict[tuple[int, ...], np.ndarray] = {}

    def climb(self, start: tuple[int, ...], wide: bool) -> None:
        """Climb from a point of the grid, one axis at a time: along the whole axis if `wide`, else to neighbours."""
        at, value = tuple(min(i, size - 1) for i, size in zip(start, self.shape, strict=True)), -np.inf
        while True:
            before = value
            for axis in range(3):
                reach = range(self.shape[axis]) if wide else range(at[axis] - 1, at[axis] + 2)
                points = [(*at[:axis], i, *at[axis + 1 :]) for i in reach if 0 <= i < self.shape[axis]]
                values = [float(self.scores(point).max()) for point in points]
                at, value = points[int(np.argmax(values))], max(values)
            if value <= before:
                return

    def choices(self, n: int) -> list[Choice]:
        """Return the best n points of the grid that were seen, each with its best δ."""
        ranked = sorted(self._scores, key=lambda point: -float(self._scores[point].max()))[:n]
        return [
            Choice(
                self.kernels_theta[point[0]],
                self.kernels_x[point[1]],
                float(self.regularizations[point[2]]),
                float(self.deltas[int(np.argmax(self._scores[point]))]),
                float(self._scores[point].max()),
            )
            for point in ranked
        ]

    def scores(self, point: tuple[int, ...]) -> np.ndarray:
        """Return the objective for every δ at a point of the grid of ℓ, k and λ."""
        if point not in self._scores:
            folds = [self._fold_scores(number, point) for number in range(FOLDS)]
            self._scores[point] = np.sum(folds, axis=0) / self._importance.sum()
        return self._scores[point]

    def _fold_scores(self, number: int, point: tuple[int, ...]) -> np.ndarray:
        held_out = self._folds[number]
        held_out = held_out[self._importance[held_out] > 0.0]
        if held_out.size == 0:
            return np.zeros(len(self.deltas))
        training = np.setdiff1d(np.arange(len(self.x)), self._folds[number])
        basis = self._basis(number, point[0], training)
        data, at_held_out = self._data_features(number, point, training, held_out)
        rule = Deconditioner(basis, data, float(self.regularizations[point[2]]))
        projected = rule.projected(at_held_out)
        at_draws, at_truth = rule.along(basis.at_draws), rule.along(basis.at(self.phi[held_out]))
        result = []
        for delta in self.deltas:
            coefficients = projected / (rule.spectrum + delta)[:, None]
            ratio = at_draws.T @ coefficients
            height = ripple(ratio, basis.weights)
            total = basis.weights @ np.maximum(ratio - height, 0.0)
            truth = np.maximum((at_truth * coefficients).sum(axis=0) - height, 0.0)
            density = np.where(total > 0.0, truth / np.maximum(total, 1e-300), 0.0)
            result.append(self._importance[held_out] @ np.log((1.0 - FLOOR) * density + FLOOR))
        return np.array(result)

    def _basis(self, number: int, i: int, training: np.ndarray) -> PriorBasis:
        key = (number, i)
        if key not in self._bases:
            rng = np.random.default_rng(self._landmark_seed)
            features = ThetaFeatures(self.kernels_theta[i], self.phi[training], LANDMARKS, rng)
            equal = np.full(len(self.draws), 1.0 / len(self.draws))
            self._bases[key] = PriorBasis(features, self.draws, equal)
        return self._bases[key]

    def _data_features(
        self, number: int, point: tuple[int, ...], training: np.ndarray, held_out: np.ndarray
    ) -> tuple[DataFeatures, np.ndarray]:
        key = (number, point[0], point[1])
        if key not in self._data:
            features = self._basis(number, point[0], training).features
            data = DataFeatures(features, self.kernels_x[point[1]], self.x[training])
            self._data[key] = data, data.at(self.x[held_out])
        return self._data[key]


def chosen_by_validation(
    phi: np.ndarray,
    x: np.ndarray,
    observed: np.ndarray | None,
    kernels: tuple[Kernel | None, Kernel | None],
    regularization: float | str,
    *,
    wide: bool,
    n: int,
    rng: np.random.Generator,
    deltas: np.ndarray = DELTAS,
    contains: Inside | None = None,
) -> list[Choice]:
    """Return the best n choices that held-out simulations lead to; kernels (of θ, of x) and λ that are given stay."""
    grids = [
        [RBF(factor * median_heuristic(rows)) for factor in factors] if kernel is None else [kernel]
        for kernel, rows, factors in zip(kernels, (phi, x), (FACTORS_THETA, FACTORS_X), strict=True)
    ]
    lambdas = REGULARIZATIONS if isinstance(regularization, str) else np.array([float(regularization)])
    validation = Validation(phi, x, observed, grids[0], grids[1], lambdas, deltas, rng, contains)
    for start in STARTS if wide else (LOCAL_START,):
        validation.climb(start, wide)
    return validation.choices(n)


def check_learning(optimum: str, regularization: float | str) -> None:
    """Raise unless both say how to learn."""
    check_choice(optimum, "optimum", ("global", "local"))
    if isinstance(regularization, str):
        check_choice(regularization, "regularization", ("learned",))
    else:
        as_number(regularization, "regularization", minimum=0.0, strict=True)


def _smooth_bootstrap(phi: np.ndarray, rng: np.random.Generator, contains: Inside | None) -> np.ndarray:
    """Return possible draws of a kernel estimate of the proposal, so that gaps between simulations count too."""
    n, d = phi.shape
    width = phi.std(axis=0) * n ** (-1.0 / (d + 4))
    draws = phi[rng.integers(n, size=SMOOTHED)] + width * rng.standard_normal((SMOOTHED, d))
    possible = np.ones(SMOOTHED, dtype=bool) if contains is None else contains(draws)
    return np.concatenate([phi[: max(SMOOTHED - int(possible.sum()), 1)], draws[possible]])


def _nearness(x: np.ndarray, observed: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """Return the weight of each simulation in the objective; zero for those that are not scored."""
    n = len(x)
    weights = np.zeros(n)
    if observed is None:
        weights[rng.choice(n, min(n, MAX_HELD_OUT), replace=False)] = 1.0
        return weights
    distance = np.sqrt(((x - observed) ** 2).sum(axis=1))
    order = np.argsort(distance)
    width = distance[order[min(n - 1, max(30, n // 20))]]
    nearest = order[:MAX_HELD_OUT]
    weights[nearest] = np.exp(-0.5 * (distance[nearest] / max(width, 1e-300)) ** 2)
    return weights


class Evidence:
    """The approximate marginal likelihood q̄ = mean(Aᵀκ_ε) of one observation (Theorem G.1) and its maximum.

    κ_ε is a Gaussian density of width ε, or a kernel that is given, as it is. `valid` is the share of prior draws
    that would give a valid simulation; `draws` are from those.
    """

    def __init__(
        self,
        phi: np.ndarray,
        x: np.ndarray,
        observed: np.ndarray,
        draws: np.ndarray,
        kernel_theta: Kernel | None = None,
        kernel_x: Kernel | None = None,
        valid: float = 1.0,
    ) -> None:
        self.phi, self.draws, self.dimension = phi, draws, x.shape[1]
        self.kernel_theta, self.kernel_x = kernel_theta, kernel_x
        self.scales = (median_heuristic(phi), median_heuristic(x))
        self._squared = ((x - observed) ** 2).sum(axis=1)
        self._given = None if kernel_x is None else kernel_x.gram(x, observed)[:, 0]
        self._log_valid = float(np.log(valid))
        self._smoothed: tuple[float, _SmoothedPrior] | None = None

    def log_value(self, lengthscale: float, widths: np.ndarray, regularizations: np.ndarray) -> np.ndarray:
        """Return log q̄ (widths, regularizations) for one lengthscale of θ; -inf where q̄ is not positive."""
        return self._log_value(widths, self._smoothed_prior(lengthscale).weights(regularizations))

    def log_at(self, choice: Choice) -> float | None:
        """Return log q̄ at a choice of Gaussian kernels; None for kernels that are given, which have no scale."""
        if self.kernel_theta is not None or self.kernel_x is not None:
            return None
        width = float(np.mean(choice.kernel_x.lengthscale))  # type: ignore[attr-defined]
        gram = choice.kernel_theta.gram(self.phi, self.phi)
        gram[np.diag_indices(len(gram))] += len(gram) * choice.regularization
        mean = choice.kernel_theta.gram(self.phi, self.draws).mean(axis=1)
        weights = cholesky(gram, "L + nλI").solve(mean[:, None])  # A1/m for one λ, cheaper than for every one
        return float(self._log_value(np.array([width]), weights)[0, 0])

    def best(self, regularization: float | None, wide: bool) -> Choice:
        """Return the kernels and λ at a maximum: the best of a whole grid climbed on if `wide`, else a near one."""
        start = np.array([*self.scales, LAMBDA if regularization is None else regularization])
        free = np.array([self.kernel_theta is None, self.kernel_x is None, regularization is None])
        reach = np.where(free, REACH, 0.0)
        at = self._best_of_grid(start, reach) if wide else np.log(start)
        if free.any():
            bounds = list(zip(np.log(start) - reach, np.log(start) + reach, strict=True))
            options = {"maxfev": EVALUATIONS, "xatol": 1e-2, "fatol": 1e-3, "initial_simplex": _simplex(at, reach)}
            at = minimize(self._loss, at, method="Nelder-Mead", bounds=bounds, options=options).x
        lengthscale, width, chosen = np.exp(at)
        ridge = float(chosen)
        delta = len(self.phi) * ridge / len(self.draws)
        kernel_theta, kernel_x = self.kernel_theta or RBF(lengthscale), self.kernel_x or RBF(width)
        return Choice(kernel_theta, kernel_x, ridge, delta, -self._loss(at))

    def _log_value(self, widths: np.ndarray, weights: np.ndarray) -> np.ndarray:
        nearest = self._squared.min()
        if self._given is not None:
            values, peak = np.tile(self._given, (len(widths), 1)), np.zeros(len(widths))
        else:
            values = np.exp(-0.5 * (self._squared - nearest) / widths[:, None] ** 2)
            peak = -0.5 * nearest / widths**2 - 0.5 * self.dimension * np.log(2.0 * np.pi * widths**2)
        inner = values @ weights
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(inner > 0.0, np.log(inner), -np.inf) + peak[:, None] + self._log_valid

    def _loss(self, logs: np.ndarray) -> float:
        lengthscale, width, ridge = np.exp(logs)
        value = float(self.log_value(lengthscale, np.array([width]), np.array([ridge]))[0, 0])
        return -value if np.isfinite(value) else WORST

    def _best_of_grid(self, start: np.ndarray, reach: np.ndarray) -> np.ndarray:
        axes = [
            np.unique(np.linspace(np.log(s) - r, np.log(s) + r, k))
            for s, r, k in zip(start, reach, GRID, strict=True)
        ]
        best, value = np.log(start), -np.inf
        for lengthscale in axes[0]:
            values = self.log_value(float(np.exp(lengthscale)), np.exp(axes[1]), np.exp(axes[2]))
            i, j = np.unravel_index(int(np.argmax(values)), values.shape)
            if values[i, j] > value:
                best, value = np.array([lengthscale, axes[1][i], axes[2][j]]), values[i, j]
        return best

    def _smoothed_prior(self, lengthscale: float) -> "_SmoothedPrior":
        if self._smoothed is None or self._smoothed[0] != lengthscale:
            kernel = self.kernel_theta or RBF(lengthscale)
            self._smoothed = (lengthscale, _SmoothedPrior(self.phi, self.draws, kernel))
        return self._smoothed[1]


class _SmoothedPrior:
    """A1/m = (L + nλI)⁻¹ L̃1/m for every λ, from one eigendecomposition of L."""

    def __init__(self, phi: np.ndarray, draws: np.ndarray, kernel: Kernel) -> None:
        self._values, self._vectors = eigh(kernel.gram(phi, phi), check_finite=False)
        self._mean = self._vectors.T @ kernel.gram(phi, draws).mean(axis=1)

    def weights(self, regularizations: np.ndarray) -> np.ndarray:
        """Return A1/m (n, λ)."""
        ridge = np.maximum(self._values, 0.0)[:, None] + len(self._values) * regularizations
        return self._vectors @ (self._mean[:, None] / ridge)


def _simplex(at: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Return a starting simplex with edges of an eighth of the reach, tiny along what is fixed."""
    return np.vstack([at, at + np.diag(np.where(reach > 0.0, -0.125 * reach * np.sign(at + 1e-9), 0.0))])
