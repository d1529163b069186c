"""How DME and KELFI choose kernels and regularization: by held-out simulations, or by the evidence q̄ of the paper."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize

from decond.checks import as_number, check_choice
from decond.kernels import RBF, Kernel, median_heuristic
from decond.lfi.methods.deconditioning import DataFeatures, Deconditioner, PriorBasis, ThetaFeatures, ripple
from decond.linalg import add_to_diagonal, cholesky

__all__ = ["Choice", "Evidence", "Validation", "chosen_by_validation", "given_or_learned"]

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
EVALUATIONS = 50
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
        """Climb from a point of the grid, one axis at a time: along the whole axis if `wide`, else to neighbors."""
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
    regularization: float | None,
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
    lambdas = REGULARIZATIONS if regularization is None else np.array([regularization])
    validation = Validation(phi, x, observed, grids[0], grids[1], lambdas, deltas, rng, contains)
    for start in STARTS if wide else (LOCAL_START,):
        validation.climb(start, wide)
    return validation.choices(n)


def given_or_learned(value: float | str, name: str) -> float | None:
    """Return a regularization that is given, or None for "learned"; raise if it is neither."""
    if isinstance(value, str):
        check_choice(value, name, ("learned",))
        return None
    return as_number(value, name, minimum=0.0, strict=True)


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
        self._column_scales = [np.sqrt(phi.shape[1]) * median_heuristic(phi[:, [i]]) for i in range(phi.shape[1])]
        self._squared = ((x - observed) ** 2).sum(axis=1)
        self._given = None if kernel_x is None else kernel_x.gram(x, observed)[:, 0]
        self._log_valid = float(np.log(valid))
        self._smoothed: tuple[bytes, _SmoothedPrior] | None = None

    def log_value(
        self, lengthscale: float | np.ndarray, widths: np.ndarray, regularizations: np.ndarray
    ) -> np.ndarray:
        """Return log q̄ (widths, regularizations) for given lengthscales of θ; -inf where q̄ is not positive."""
        return self._log_value(widths, self._smoothed_prior(lengthscale).weights(regularizations))

    def log_at(self, choice: Choice) -> float | None:
        """Return log q̄ at a choice of Gaussian kernels; None for kernels that are given, which have no scale."""
        if self.kernel_theta is not None or self.kernel_x is not None:
            return None
        width = np.array([np.mean(choice.kernel_x.lengthscale)])  # type: ignore[attr-defined]
        smoothed = _SmoothedPrior(self.phi, self.draws, choice.kernel_theta)
        return float(self._log_value(width, smoothed.weights(np.array([choice.regularization])))[0, 0])

    def best(
        self,
        regularization: float | None,
        evidence_regularization: float | None = None,
        *,
        wide: bool,
        per_parameter: bool = False,
    ) -> Choice:
        """Return the kernels and λ at a maximum: the best of a whole grid climbed on if `wide`, else a near one.

        q̄ does not depend on δ, which is nλ/m unless it is given. With `per_parameter` each column of θ has a
        lengthscale of its own; the grid then scales all of them alike.
        """
        lengths = self._column_scales if per_parameter and self.kernel_theta is None else [self.scales[0]]
        start = np.log([*lengths, self.scales[1], LAMBDA if regularization is None else regularization])
        free = [*([self.kernel_theta is None] * len(lengths)), self.kernel_x is None, regularization is None]
        reach = np.where(free, [*([REACH[0]] * len(lengths)), *REACH[1:]], 0.0)
        at = self._best_of_grid(start, reach) if wide else start
        if any(free):
            bounds = list(zip(start - reach, start + reach, strict=True))
            options: dict[str, Any] = {"maxfev": EVALUATIONS * len(start), "xatol": 1e-2, "fatol": 1e-3}
            options["initial_simplex"] = _simplex(at, reach)
            at = minimize(self._loss, at, method="Nelder-Mead", bounds=bounds, options=options).x
        lengthscale, width, ridge = _parameters(at)
        delta = (
            len(self.phi) * ridge / len(self.draws) if evidence_regularization is None else evidence_regularization
        )
        kernel_theta, kernel_x = self.kernel_theta or RBF(lengthscale), self.kernel_x or RBF(width)
        return Choice(kernel_theta, kernel_x, ridge, float(delta), -self._loss(at))

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
        lengthscale, width, ridge = _parameters(logs)
        value = float(self.log_value(lengthscale, np.array([width]), np.array([ridge]))[0, 0])
        return -value if np.isfinite(value) else WORST

    def _best_of_grid(self, start: np.ndarray, reach: np.ndarray) -> np.ndarray:
        steps = [np.unique(np.linspace(-r, r, k)) for r, k in zip(reach[[0, -2, -1]], GRID, strict=True)]
        widths, ridges = start[-2] + steps[1], start[-1] + steps[2]
        best, value = start, -np.inf
        for step in steps[0]:
            lengths = start[:-2] + step
            values = self.log_value(_lengthscale(lengths), np.exp(widths), np.exp(ridges))
            i, j = np.unravel_index(int(np.argmax(values)), values.shape)
            if values[i, j] > value:
                best, value = np.array([*lengths, widths[i], ridges[j]]), values[i, j]
        return best

    def _smoothed_prior(self, lengthscale: float | np.ndarray) -> "_SmoothedPrior":
        key = np.asarray(lengthscale).tobytes()
        if self._smoothed is None or self._smoothed[0] != key:
            kernel = self.kernel_theta or RBF(lengthscale)
            self._smoothed = (key, _SmoothedPrior(self.phi, self.draws, kernel))
        return self._smoothed[1]


def _parameters(logs: np.ndarray) -> tuple[float | np.ndarray, float, float]:
    """Return the lengthscale of θ (one, or one a column), ε and λ from their logarithms in one vector."""
    return _lengthscale(logs[:-2]), float(np.exp(logs[-2])), float(np.exp(logs[-1]))


def _lengthscale(logs: np.ndarray) -> float | np.ndarray:
    return float(np.exp(logs[0])) if len(logs) == 1 else np.exp(logs)


class _SmoothedPrior:
    """A1/m = (L + nλI)⁻¹ L̃1/m: by a Cholesky factor for one λ, by an eigendecomposition of L for several."""

    def __init__(self, phi: np.ndarray, draws: np.ndarray, kernel: Kernel) -> None:
        self._gram, self._mean = kernel.gram(phi, phi), kernel.gram(phi, draws).mean(axis=1)

    def weights(self, regularizations: np.ndarray) -> np.ndarray:
        """Return A1/m (n, λ)."""
        n = len(self._gram)
        if len(regularizations) == 1:
            ridged = self._gram.copy()
            add_to_diagonal(ridged, n * float(regularizations[0]))
            return cholesky(ridged, "L + nλI").solve(self._mean[:, None])
        values, vectors = self._spectrum
        ridge = np.maximum(values, 0.0)[:, None] + n * regularizations
        return vectors @ ((vectors.T @ self._mean)[:, None] / ridge)

    @functools.cached_property
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = eigh(self._gram, check_finite=False)
        return values, vectors


def _simplex(at: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Return a starting simplex with edges of an eighth of the reach, tiny along what is fixed."""
    return np.vstack([at, at + np.diag(np.where(reach > 0.0, -0.125 * reach * np.sign(at + 1e-9), 0.0))])
