"""How DME and KELFI choose kernels and regularization: by held-out simulations, or by the evidence q̄ of the paper."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import minimize

from decond.checks import as_count, as_number, check_choice
from decond.kernels import RBF, Kernel, median_heuristic
from decond.lfi.methods.deconditioning import DataFeatures, Deconditioner, PriorBasis, ThetaFeatures, ripple
from decond.lfi.methods.kernel_posterior import KernelMethod
from decond.linalg import add_to_diagonal, cholesky

__all__ = ["Choice", "Evidence", "SearchSettings", "SearchingMethod", "Validation", "given_or_learned"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SearchSettings:
    """The grid and the effort of both searches; all numbers are rules of thumb unless noted."""

    theta_factors: tuple[float, ...] = tuple(2.0 ** np.arange(-4.0, 2.0))
    """Lengthscales of θ in the grid, as multiples of the median distance."""
    x_factors: tuple[float, ...] = tuple(2.0 ** np.arange(-6.0, 2.0))
    """Lengthscales of x, likewise: smaller, since the likelihood is often narrow."""
    regularizations: tuple[float, ...] = tuple(10.0 ** np.arange(-6.0, 0.0))
    """λ in the grid."""
    deltas: tuple[float, ...] = tuple(10.0 ** np.arange(-5.0, 2.5, 0.5))
    """δ in the grid; beyond its largest value the posterior is that of KELFI."""
    starts: tuple[tuple[int, int, int], ...] = ((3, 3, 3), (1, 2, 3), (4, 5, 3))
    """Points of the grid to climb from."""
    local_start: tuple[int, int, int] = (4, 6, 3)
    """The point that the local optimum is climbed to from: median distances (the median heuristic)."""
    folds: int = 3
    """Folds of held-out simulations."""
    prior_draws: int = 500
    """Draws that stand for the prior while choosing."""
    landmarks: int = 200
    """Features of θ while choosing; the final fit has more."""
    floor: float = 0.02
    """Share of the prior that a held-out density is mixed with: one miss then costs no more than log 50."""
    held_out: int = 150
    """Most held-out simulations that are scored, the nearest to the observation."""
    reach: tuple[float, float, float] = (np.log(16.0), np.log(64.0), np.log(1e3))
    """How far the lengthscale of θ, ε and λ may go from their start under the evidence, as logarithms."""
    evidence_grid: tuple[int, int, int] = (9, 25, 7)
    """Points of the evidence's grid along each of these."""
    evaluations: int = 50
    """Most evaluations of the evidence for each number that is climbed along."""
    start_regularization: float = 1e-3
    """λ that the evidence starts from."""


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
    no correction is needed here either. Simulations near the observation count most.

    Parameters
    ----------
    phi : ndarray of shape (n, d)
        Coordinates of the simulated parameters.
    x : ndarray of shape (n, s)
        Their data.
    observed : ndarray of shape (1, s), optional
        The observation, or None: then all simulations count the same.
    kernels_theta : sequence of Kernel
        Candidates for ℓ.
    kernels_x : sequence of Kernel
        Candidates for k.
    regularizations : ndarray
        Candidates for λ.
    evidence_regularizations : ndarray
        Candidates for δ.
    rng : numpy.random.Generator
        Draws folds and the stand-in for the prior.
    contains : callable, optional
        Tells which rows of parameters are possible.
    settings : SearchSettings, optional
        The numbers of the search.
    """

    def __init__(
        self,
        phi: Array,
        x: Array,
        observed: Array | None,
        kernels_theta: Sequence[Kernel],
        kernels_x: Sequence[Kernel],
        regularizations: Array,
        evidence_regularizations: Array,
        rng: np.random.Generator,
        contains: Callable[[Array], NDArray[np.bool_]] | None = None,
        settings: SearchSettings | None = None,
    ) -> None:
        self.phi, self.x, self.settings = phi, x, settings or SearchSettings()
        self.draws = self._smooth_bootstrap(rng, contains)
        self.kernels_theta, self.kernels_x = kernels_theta, kernels_x
        self.regularizations, self.deltas = regularizations, evidence_regularizations
        self.shape = (len(kernels_theta), len(kernels_x), len(regularizations))
        self._importance = self._nearness(observed, rng)
        self._folds = np.array_split(rng.permutation(len(x)), self.settings.folds)
        self._landmark_seed = int(rng.integers(2**31))
        self._bases: dict[tuple[int, int], PriorBasis] = {}
        self._data: dict[tuple[int, int, int], tuple[DataFeatures, Array]] = {}
        self._scores: dict[tuple[int, ...], Array] = {}

    def climb(self, start: tuple[int, ...], wide: bool) -> None:
        """Climb from a point of the grid, one axis at a time.

        Parameters
        ----------
        start : tuple
            The point, as positions of ℓ, k and λ among the candidates.
        wide : bool
            Whether to look along whole axes, or only at neighbors.
        """
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

    def scores(self, point: tuple[int, ...]) -> Array:
        """Return the objective for every δ at a point of the grid of ℓ, k and λ."""
        if point not in self._scores:
            folds = [self._fold_scores(number, point) for number in range(len(self._folds))]
            self._scores[point] = np.sum(folds, axis=0) / self._importance.sum()
        return self._scores[point]

    def _fold_scores(self, number: int, point: tuple[int, ...]) -> Array:
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
        floor, result = self.settings.floor, []
        for delta in self.deltas:
            coefficients = projected / (rule.spectrum + delta)[:, None]
            ratio = at_draws.T @ coefficients
            height = ripple(ratio, basis.weights)
            total = basis.weights @ np.maximum(ratio - height, 0.0)
            truth = np.maximum((at_truth * coefficients).sum(axis=0) - height, 0.0)
            density = np.where(total > 0.0, truth / np.maximum(total, 1e-300), 0.0)
            result.append(self._importance[held_out] @ np.log((1.0 - floor) * density + floor))
        return np.array(result)

    def _basis(self, number: int, i: int, training: NDArray[np.int_]) -> PriorBasis:
        key = (number, i)
        if key not in self._bases:
            rng = np.random.default_rng(self._landmark_seed)
            features = ThetaFeatures(self.kernels_theta[i], self.phi[training], self.settings.landmarks, rng)
            equal = np.full(len(self.draws), 1.0 / len(self.draws))
            self._bases[key] = PriorBasis(features, self.draws, equal)
        return self._bases[key]

    def _data_features(
        self, number: int, point: tuple[int, ...], training: NDArray[np.int_], held_out: NDArray[np.int_]
    ) -> tuple[DataFeatures, Array]:
        key = (number, point[0], point[1])
        if key not in self._data:
            features = self._basis(number, point[0], training).features
            data = DataFeatures(features, self.kernels_x[point[1]], self.x[training])
            self._data[key] = data, data.at(self.x[held_out])
        return self._data[key]

    def _smooth_bootstrap(
        self, rng: np.random.Generator, contains: Callable[[Array], NDArray[np.bool_]] | None
    ) -> Array:
        """Return possible draws of a kernel estimate of the proposal, so that gaps between simulations count too."""
        phi, wanted = self.phi, self.settings.prior_draws
        n, d = phi.shape
        width = phi.std(axis=0) * n ** (-1.0 / (d + 4))
        draws = phi[rng.integers(n, size=wanted)] + width * rng.standard_normal((wanted, d))
        possible = np.ones(wanted, dtype=bool) if contains is None else contains(draws)
        return np.concatenate([phi[: max(wanted - int(possible.sum()), 1)], draws[possible]])

    def _nearness(self, observed: Array | None, rng: np.random.Generator) -> Array:
        """Return the weight of each simulation in the objective; zero for those that are not scored."""
        n, most = len(self.x), self.settings.held_out
        weights = np.zeros(n)
        if observed is None:
            weights[rng.choice(n, min(n, most), replace=False)] = 1.0
            return weights
        distance = np.sqrt(((self.x - observed) ** 2).sum(axis=1))
        order = np.argsort(distance)
        width = distance[order[min(n - 1, max(30, n // 20))]]
        nearest = order[:most]
        weights[nearest] = np.exp(-0.5 * (distance[nearest] / max(width, 1e-300)) ** 2)
        return weights


class Evidence:
    """The approximate marginal likelihood q̄ = mean(Aᵀκ_ε) of one observation (Theorem G.1) and its maximum.

    κ_ε is a Gaussian density of width ε, or a kernel that is given, as it is.

    Parameters
    ----------
    phi : ndarray of shape (n, d)
        Coordinates of the simulated parameters.
    x : ndarray of shape (n, s)
        Their data.
    observed : ndarray of shape (1, s)
        The observation.
    draws : ndarray of shape (m, d)
        Draws of the prior at which a simulation is valid.
    kernel_theta : Kernel, optional
        ℓ; None to learn its lengthscale.
    kernel_x : Kernel, optional
        κ; None to learn ε.
    valid : float, optional
        The share of prior draws that would give a valid simulation.
    settings : SearchSettings, optional
        The numbers of the search.
    """

    def __init__(
        self,
        phi: Array,
        x: Array,
        observed: Array,
        draws: Array,
        kernel_theta: Kernel | None = None,
        kernel_x: Kernel | None = None,
        valid: float = 1.0,
        settings: SearchSettings | None = None,
    ) -> None:
        self.phi, self.draws, self.dimension = phi, draws, x.shape[1]
        self.kernel_theta, self.kernel_x = kernel_theta, kernel_x
        self.settings = settings or SearchSettings()
        self.scales = (median_heuristic(phi), median_heuristic(x))
        self._column_scales = [np.sqrt(phi.shape[1]) * median_heuristic(phi[:, [i]]) for i in range(phi.shape[1])]
        self._squared = ((x - observed) ** 2).sum(axis=1)
        self._given = None if kernel_x is None else kernel_x.gram(x, observed)[:, 0]
        self._log_valid = float(np.log(valid))
        self._smoothed: tuple[bytes, _SmoothedPrior] | None = None

    def log_value(self, lengthscale: float | Array, widths: Array, regularizations: Array) -> Array:
        """Return log q̄ (widths, regularizations); -inf where q̄ is not positive.

        Parameters
        ----------
        lengthscale : float or ndarray
            Of θ: one, or one for each column.
        widths : ndarray
            Values of ε.
        regularizations : ndarray
            Values of λ.
        """
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
        """Return the kernels and λ at a maximum of q̄.

        Parameters
        ----------
        regularization : float, optional
            λ; None to learn it.
        evidence_regularization : float, optional
            δ, on which q̄ does not depend; None for nλ/m.
        wide : bool
            Whether to climb from the best point of a whole grid, or from the median heuristic.
        per_parameter : bool, optional
            Whether each column of θ has a lengthscale of its own; the grid scales all of them alike.
        """
        lengths = self._column_scales if per_parameter and self.kernel_theta is None else [self.scales[0]]
        start_ridge = self.settings.start_regularization if regularization is None else regularization
        start = np.log([*lengths, self.scales[1], start_ridge])
        reach_theta, *reach_others = self.settings.reach
        free = [*([self.kernel_theta is None] * len(lengths)), self.kernel_x is None, regularization is None]
        reach = np.where(free, [*([reach_theta] * len(lengths)), *reach_others], 0.0)
        at = self._best_of_grid(start, reach) if wide else start
        if any(free):
            # a simplex with edges of an eighth of the reach, tiny along what is fixed
            edges = np.where(reach > 0.0, -0.125 * reach * np.sign(at + 1e-9), 0.0)
            options = {
                "maxfev": self.settings.evaluations * len(start),
                "xatol": 1e-2,
                "fatol": 1e-3,
                "initial_simplex": np.vstack([at, at + np.diag(edges)]),
            }
            bounds = list(zip(start - reach, start + reach, strict=True))
            at = minimize(self._loss, at, method="Nelder-Mead", bounds=bounds, options=options).x
        lengthscale, width, ridge = _parameters(at)
        delta = evidence_regularization
        if delta is None:
            delta = len(self.phi) * ridge / len(self.draws)
        kernel_theta, kernel_x = self.kernel_theta or RBF(lengthscale), self.kernel_x or RBF(width)
        return Choice(kernel_theta, kernel_x, ridge, float(delta), -self._loss(at))

    def _log_value(self, widths: Array, weights: Array) -> Array:
        nearest = self._squared.min()
        if self._given is not None:
            values, peak = np.tile(self._given, (len(widths), 1)), np.zeros(len(widths))
        else:
            values = np.exp(-0.5 * (self._squared - nearest) / widths[:, None] ** 2)
            peak = -0.5 * nearest / widths**2 - 0.5 * self.dimension * np.log(2.0 * np.pi * widths**2)
        inner = values @ weights
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(inner > 0.0, np.log(inner), -np.inf) + peak[:, None] + self._log_valid

    def _loss(self, logs: Array) -> float:
        lengthscale, width, ridge = _parameters(logs)
        value = float(self.log_value(lengthscale, np.array([width]), np.array([ridge]))[0, 0])
        return -value if np.isfinite(value) else 1e10  # finite, so that Nelder-Mead can compare it

    def _best_of_grid(self, start: Array, reach: Array) -> Array:
        sizes = self.settings.evidence_grid
        steps = [np.unique(np.linspace(-r, r, k)) for r, k in zip(reach[[0, -2, -1]], sizes, strict=True)]
        widths, ridges = start[-2] + steps[1], start[-1] + steps[2]
        best, value = start, -np.inf
        for step in steps[0]:
            lengths = start[:-2] + step
            values = self.log_value(_lengthscale(lengths), np.exp(widths), np.exp(ridges))
            i, j = np.unravel_index(int(np.argmax(values)), values.shape)
            if values[i, j] > value:
                best, value = np.array([*lengths, widths[i], ridges[j]]), values[i, j]
        return best

    def _smoothed_prior(self, lengthscale: float | Array) -> "_SmoothedPrior":
        key = np.asarray(lengthscale).tobytes()
        if self._smoothed is None or self._smoothed[0] != key:
            kernel = self.kernel_theta or RBF(lengthscale)
            self._smoothed = (key, _SmoothedPrior(self.phi, self.draws, kernel))
        return self._smoothed[1]


def _parameters(logs: Array) -> tuple[float | Array, float, float]:
    """Return the lengthscale of θ (one, or one a column), ε and λ from their logarithms in one vector."""
    return _lengthscale(logs[:-2]), float(np.exp(logs[-2])), float(np.exp(logs[-1]))


def _lengthscale(logs: Array) -> float | Array:
    return float(np.exp(logs[0])) if len(logs) == 1 else np.exp(logs)


class _SmoothedPrior:
    """A1/m = (L + nλI)⁻¹ L̃1/m: by a Cholesky factor for one λ, by an eigendecomposition of L for several."""

    def __init__(self, phi: Array, draws: Array, kernel: Kernel) -> None:
        self._gram, self._mean = kernel.gram(phi, phi), kernel.gram(phi, draws).mean(axis=1)

    def weights(self, regularizations: Array) -> Array:
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
    def _spectrum(self) -> tuple[Array, Array]:
        values, vectors = eigh(self._gram, check_finite=False)
        return values, vectors


class SearchingMethod(KernelMethod):
    """A kernel method whose kernels and regularization are learned by validation or by the evidence.

    Attributes
    ----------
    kernel_x : Kernel, optional
        The kernel of the data; None to learn it.
    kernel_theta : Kernel, optional
        The kernel of the parameters; None to learn it.
    regularization : float or "learned"
        λ, a number or "learned".
    objective : {"validation", "evidence"}
        What chooses.
    optimum : {"global", "local"}
        Whether to search widely, or near the median heuristic.
    n_prior : int
        The number of draws of the prior.
    search
        The numbers of the search.
    """

    kernel_x: Kernel | None
    kernel_theta: Kernel | None
    regularization: float | Literal["learned"]
    objective: Literal["validation", "evidence"]
    optimum: Literal["global", "local"]
    n_prior: int
    search = SearchSettings()

    def _check_search(self) -> None:
        check_choice(self.objective, "objective", ("validation", "evidence"))
        check_choice(self.optimum, "optimum", ("global", "local"))
        self._ridge = given_or_learned(self.regularization, "regularization")
        as_count(self.n_prior, "n_prior")

    def _chosen_by_validation(
        self,
        phi: Array,
        x: Array,
        observed: Array | None,
        kernels: tuple[Kernel | None, Kernel | None],
        deltas: Sequence[float],
        contains: Callable[[Array], NDArray[np.bool_]],
        rng: np.random.Generator,
        n: int = 1,
    ) -> list[Choice]:
        """Return the best n choices for held-out simulations; kernels (of θ, of x) and λ that are given stay."""
        search, wide = self.search, self.optimum == "global"
        grid_theta, grid_x = [
            [RBF(factor * median_heuristic(rows)) for factor in factors] if kernel is None else [kernel]
            for kernel, rows, factors in zip(kernels, (phi, x), (search.theta_factors, search.x_factors), strict=True)
        ]
        lambdas = search.regularizations if self._ridge is None else [self._ridge]
        validation = Validation(
            phi, x, observed, grid_theta, grid_x, np.array(lambdas), np.array(deltas), rng, contains, self.search
        )
        for start in search.starts if wide else (search.local_start,):
            validation.climb(start, wide)
        return validation.choices(n)


def given_or_learned(value: float | str, name: str) -> float | None:
    """Return a regularization that is given, or None for "learned"; raise if it is neither.

    Parameters
    ----------
    value : float or str
        The number, or "learned".
    name : str
        The name of the argument.
    """
    if isinstance(value, str):
        check_choice(value, name, ("learned",))
        return None
    return as_number(value, name, minimum=0.0, strict=True)
