"""Learning from conditional distributions as a saddle point: a neighbor of the paper, on the same two tables."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_count, as_number, as_rows, as_seed, as_targets, check_answer, check_finite, order_of_rows
from decond.conditional.mediator import linked_mediators, numeric_columns
from decond.errors import DataWarning
from decond.estimators.defaults import plain_kernel
from decond.estimators.regressor import IndirectRegressor
from decond.features import Nystrom
from decond.kernels.kernel import Kernel
from decond.linalg import add_to_diagonal, cholesky
from decond.messages import warn
from decond.parameters import leaves, with_leaves
from decond.threads import one_blas_thread

__all__ = ["DualEmbedding"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DualSettings:
    """How `DualEmbedding` chooses lengthscales and ridges; tuned on draws of the paper's toy and of three columns."""

    scales_x: tuple[float, ...] = (0.2, 0.4, 0.8, 1.6, 3.2)
    """Lengthscales of f that are tried, relative to the spread of each column."""
    scales_y: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
    """Lengthscales of u that are tried."""
    ridges: tuple[float, ...] = tuple(10.0 ** np.arange(-4.0, 4.0))
    """Ridges ν of f that are tried, times the number of rows."""
    dual_ridge: float = 0.05
    """η, the ridge of u, times the number of rows."""
    ratio_ridge: float = 0.5
    """Ridge of the density ratio, times the number of rows."""
    ratio_scale: float = 0.5
    """Lengthscale of the density ratio, relative to that of u, with as many more features: it has to weigh products
    of u and E[f | y] right, which vary faster than u."""
    label_ridge: float = 1e-6
    """Both of these if the mediator is labels alone."""
    judge_scale: float = 0.1
    """Lengthscale of the functions that judge, times the squared number of columns (at most a half): in many columns
    there are too few rows to tell fine functions apart."""
    judge_ridge: float = 1e-2
    """Ridge of the functions that judge."""
    splits: int = 4
    """How often the tables are halved; each half teaches once."""
    rows: int = 1000
    """Rows of each table that the choice is made with at most."""
    features: int = 100
    """Features that the choice is made with at most."""


SETTINGS = DualSettings()


@dataclass(eq=False, repr=False)
class DualEmbedding(IndirectRegressor):
    """f from pairs (x, y) and task rows (y, z) by the dual embedding of Dai, He, Pan, Boots & Song (2017).

    E[f(x) | y] is never estimated. A second function u, of the mediator, asks where it differs from E[z | y], and f
    is what leaves u nothing to say: min over f, max over u of E[f(x) u(y)] - E[z u(y)] - ½ E[u(y)²]. Both are linear
    in Nyström features of Gaussian kernels (categorical for labels of the mediator), with a ridge each, ν and η. The
    saddle point is found in closed form, from sums over the rows: the published stochastic updates lead to the same
    point at a higher cost. There are no error bars.

    The published u is a function of mediator and target. With a squared loss one of the mediator alone has the same
    f: the objective changes by a constant. The published method has triples; here the first mean is over pairs and
    the others over task rows, so pairs are weighted by a density ratio: how frequent their y is among task rows.
    Lengthscales and ν are chosen by the objective on held-out task rows. If the largest ν that is tried does best, a
    warning says that f is hardly more than a constant.

    Parameters
    ----------
    n_features : int
        How many features f and u have each, at most.
    regularization : float, optional
        ν, the ridge of f, times the number of rows of the shorter table; by default it is chosen.
    seed : int, Generator or None
        Of samples and splits.

    Attributes
    ----------
    features_x_, weights_
        f is their product.
    regularization_ : float
        ν times rows.

    References
    ----------
    B. Dai, N. He, Y. Pan, B. Boots and L. Song (2017). Learning from conditional distributions via dual embeddings.
    AISTATS. https://proceedings.mlr.press/v54/dai17a.html

    Examples
    --------
    >>> from decond.problems import latent_function
    >>> p = latent_function()
    >>> DualEmbedding().fit(p.x, p.y, p.y_task, p.z_task).predict(p.x[:5]).shape
    (5,)
    """

    n_features: int = 200
    regularization: float | None = None
    seed: int | np.random.Generator | None = 0

    @one_blas_thread()
    def fit(self, x: ArrayLike, y: ArrayLike, y_task: ArrayLike, z_task: ArrayLike) -> Self:
        """Learn from pairs and task rows.

        Parameters
        ----------
        x, y : array_like of shape (n, d) and (n, e)
            Pairs; y may hold labels.
        y_task, z_task : array_like of shape (m, e) and (m,) or (m, t)
            Task rows.

        Returns
        -------
        DualEmbedding
            This estimator.
        """
        ridges = SETTINGS.ridges
        as_count(self.n_features, "n_features")
        if self.regularization is not None:
            remedy = "None chooses it."
            ridges = (as_number(self.regularization, "regularization", minimum=0.0, strict=True, remedy=remedy),)
        rows = as_rows(self._remember_columns(x, "x"), "x")
        pairs, task = linked_mediators(rows, y, y_task)
        z = as_targets(z_task, "z_task", len(task), "y_task")
        first, second = order_of_rows(rows, pairs), order_of_rows(task, z.reshape(len(z), -1))
        rows, pairs, task, z = rows[first], pairs[first], task[second], z[second]
        self.offset_, spread = z.mean(axis=0), z.std(axis=0)
        scale = np.where(spread > 0.0, spread, 1.0)  # settings are chosen for all target columns together
        tables = _Tables(rows, pairs, task, ((z - self.offset_) / scale).reshape(len(z), -1))
        chosen = _choose(tables, min(self.n_features, SETTINGS.features), ridges, as_seed(self.seed))
        if len(ridges) > 1 and chosen.ridge == ridges[-1]:
            warn(
                DataWarning(
                    "x",
                    f"the largest ridge that is tried, {chosen.ridge:g}, does best on held-out task rows, so f is "
                    "hardly more than a constant: the tables say little about f, or it has too many columns for "
                    "their rows. Give more rows or fewer columns, or regularization.",
                )
            )
        self.features_x_ = Nystrom.pivoted(chosen.kernel_x, rows, self.n_features)
        dual = _Dual(*_features(chosen.kernel_y, pairs, task, self.n_features), tables.z, tables.is_smooth)
        ridge = np.array([chosen.ridge]) / min(len(rows), len(z))
        weights = dual.weights(dual.cross(self.features_x_.transform(rows)), ridge)
        self.weights_, self.regularization_ = scale * weights[0].reshape(-1, *z.shape[1:]), chosen.ridge
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Return f at the rows of X."""
        rows = as_rows(self._known_columns(X), "x")
        return check_answer(self.features_x_.transform(rows) @ self.weights_ + self.offset_, "X")

    def _fitted_state(self) -> dict[str, Any]:
        names = ("features_x", "weights", "offset", "regularization")
        return {**self._fitted_columns(), **{name: getattr(self, f"{name}_") for name in names}}

    def _restore(self, state: dict[str, Any]) -> None:
        self._restore_columns(state)
        for name in ("features_x", "weights", "offset", "regularization"):
            setattr(self, f"{name}_", state[name])
        check_finite(self.offset_, "offset", self.weights_.shape[1:])
        check_finite(self.weights_, "weights", (len(self.features_x_.landmarks), *self.weights_.shape[1:]))


class _Tables(NamedTuple):
    """Both tables, with targets less their mean."""

    x: Array
    y: NDArray[Any]
    y_task: NDArray[Any]
    z: Array

    @property
    def is_smooth(self) -> bool:
        """Whether the mediator has columns of numbers."""
        return bool(numeric_columns(self.y))


class _Choice(NamedTuple):
    """What is chosen: kernels of x and of the mediator, and ν times the number of rows."""

    kernel_x: Kernel
    kernel_y: Kernel
    ridge: float
    loss: float


class _MediatorFeatures(NamedTuple):
    """Features of rows of the mediator for u (n, q), and finer ones for the density ratio."""

    psi: Array
    fine: Array

    def take(self, rows: NDArray[Any]) -> "_MediatorFeatures":
        """Return those of some rows."""
        return _MediatorFeatures(self.psi[rows], self.fine[rows])


def _features(
    kernel: Kernel, y: NDArray[Any], y_task: NDArray[Any], count: int
) -> tuple[_MediatorFeatures, _MediatorFeatures]:
    """Return the features of the pairs and of the task rows."""
    rows, scale = np.concatenate([y, y_task]), SETTINGS.ratio_scale
    psi = Nystrom.pivoted(kernel, rows, count)
    fine = Nystrom.pivoted(_scaled(kernel, scale), rows, round(count / scale))
    pairs, task = (_MediatorFeatures(psi.transform(table), fine.transform(table)) for table in (y, y_task))
    return pairs, task


class _Dual:
    """The saddle point in features ψ of the mediator, f(x) = φ(x)·w and u(y) = ψ(y)·v.

    With C = E_pairs[ρψφᵀ], ρ the density ratio, G = E_task[ψψᵀ] and b = E_task[ψz], w = (CᵀPC + νI)⁻¹CᵀPb with
    P = (G + ηI)⁻¹ = R⁻ᵀR⁻¹. For an f that is given, the largest objective over u is ½|R⁻¹(E_pairs[ρψf] - b)|².
    """

    def __init__(
        self,
        pairs: _MediatorFeatures,
        task: _MediatorFeatures,
        z: Array,
        is_smooth: bool,
        ridge: float | None = None,
    ) -> None:
        settings, rows = SETTINGS, min(len(pairs.psi), len(task.psi))
        dual_ridge = (settings.dual_ridge if is_smooth else settings.label_ridge) / rows if ridge is None else ridge
        moments = pairs.fine.T @ pairs.fine / len(pairs.fine)
        add_to_diagonal(moments, (settings.ratio_ridge if is_smooth else settings.label_ridge) / rows)
        means = task.fine.mean(axis=0)[:, None]
        ratio = np.maximum(pairs.fine @ cholesky(moments, "the covariance of the features of y").solve(means), 0.0)
        self.psi, self.ratio = pairs.psi, ratio / ratio.mean() if ratio.any() else np.ones_like(ratio)
        """ρ (n, 1), how much more frequent the y of each pair is among task rows."""
        gram = task.psi.T @ task.psi / len(z)
        add_to_diagonal(gram, dual_ridge)
        self.factor = cholesky(gram, "the covariance of the features of y_task")
        self.target = self.factor.half_solve(task.psi.T @ z / len(z))
        """R⁻¹b."""

    def cross(self, phi: Array) -> Array:
        """Return R⁻¹C (q, p) from the features of x of the pairs (n, p)."""
        return self.factor.half_solve(self.psi.T @ (self.ratio * phi) / len(phi))

    def weights(self, cross: Array, ridges: Array) -> Array:
        """Return w for every ridge ν, by one eigendecomposition, from R⁻¹C: (ridges, p, targets).

        Parameters
        ----------
        cross : ndarray of shape (q, p)
            R⁻¹C.
        ridges : ndarray of shape (r,)
            Every ν.

        Returns
        -------
        ndarray of shape (r, p, t)
        """
        values, vectors = np.linalg.eigh(cross.T @ cross)
        shrunk = (vectors.T @ (cross.T @ self.target)) / (np.maximum(values, 0.0)[:, None] + ridges[:, None, None])
        return vectors @ shrunk


def _choose(tables: _Tables, n_features: int, ridges: tuple[float, ...], seed: int) -> _Choice:
    """Return the kernels and the ridge with the smallest objective on held-out rows.

    f is taught by half of both tables and judged by the other task rows and all pairs: means over half of the pairs
    alone are so noisy that the smoothest f would win. All candidates are judged by the same functions u.
    """
    rng = np.random.default_rng(seed)
    kernel_x, kernel_y = (plain_kernel(rows, 1.0).kernel for rows in (tables.x, tables.y))
    pairs, task = (rng.permutation(len(rows))[: SETTINGS.rows] for rows in (tables.x, tables.z))
    few = _Tables(tables.x[pairs], tables.y[pairs], tables.y_task[task], tables.z[task])
    n, smooth = len(few.y), tables.is_smooth
    judge_scale = min(SETTINGS.judge_scale * tables.y.shape[1] ** 2, 0.5)
    judged, judged_task = _features(_scaled(kernel_y, judge_scale), few.y, few.y_task, n_features)
    halves = []
    for _ in range(SETTINGS.splits):
        first, second = (rng.permutation(len(rows)) % 2 == 0 for rows in (few.x, few.z))
        halves += [(first, second), (~first, ~second)]
    ridge = SETTINGS.judge_ridge if smooth else None
    judges = [_Dual(judged, judged_task.take(~half), few.z[~half], smooth, ridge) for _, half in halves]
    scaled_x = [_scaled(kernel_x, scale) for scale in SETTINGS.scales_x]
    phis = [Nystrom.pivoted(kernel, few.x, n_features).transform(few.x) for kernel in scaled_x]
    best = _Choice(kernel_x, kernel_y, 0.0, np.inf)
    for scale in SETTINGS.scales_y if smooth else (1.0,):
        kernel = _scaled(kernel_y, scale)
        pairs_psi, task_psi = _features(kernel, few.y, few.y_task, n_features)
        duals = [_Dual(pairs_psi.take(one), task_psi.take(two), few.z[two], smooth) for one, two in halves]
        for candidate, phi in zip(scaled_x, phis, strict=True):
            losses = np.zeros(len(ridges))
            for dual, judge, (one, _) in zip(duals, judges, halves, strict=True):
                w = dual.weights(dual.cross(phi[one]), 2.0 * np.array(ridges) / min(n, len(few.z)))
                f = np.moveaxis(phi @ w, 0, 1)
                misfit = judge.cross(f.reshape(n, -1)).reshape(-1, *f.shape[1:]) - judge.target[:, None]
                losses += 0.5 * np.square(misfit).sum(axis=(0, 2))
            least = int(np.argmin(losses))
            if losses[least] < best.loss:
                best = _Choice(candidate, kernel, ridges[least], float(losses[least]))
    return best


def _scaled(kernel: Kernel, factor: float) -> Kernel:
    """Return the kernel with all of its lengthscales multiplied."""
    scales = {path: factor * value for path, value in leaves(kernel).items() if path.endswith("lengthscale")}
    scaled: Kernel = with_leaves(kernel, scales)
    return scaled
