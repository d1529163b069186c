"""p(x | φ) from pairs: rows shifted to the φ in question by a learned mean and scale.

Mean and scale are regressions on φ, sparse linear or kernel ridge, with exact leave-one-out residuals. The density of
the residuals lies between a Gaussian and a kernel estimate. `InputDensity` turns all of that into weights on support
points, for observations whose inputs are not recorded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import logsumexp, ndtri

from decond.checks import order_of_rows
from decond.conditional.mediator import spread, varying_columns
from decond.conditional.smoother import ConditionalExpectation
from decond.kernels.kernel import Kernel
from decond.linalg import cholesky

__all__ = ["DensitySettings", "InputDensity", "KernelFits", "ResidualDensity", "ResidualSettings", "ShiftedResiduals"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ResidualSettings:
    """Settings of `ShiftedResiduals` and its parts.

    >>> ResidualSettings(most_rows=500).gain
    5.0
    """

    lengthscales: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    """Candidate lengthscales in units of √d for inputs of unit spread. Powers of two, so that one Gram matrix gives
    the next."""
    ridges: tuple[float, ...] = tuple(np.logspace(-6.0, 3.0, 28))
    """Candidate ridges λ, relative to the variance 1 of the smooth part of the kernel."""
    linear_variance: float = 100.0
    """Prior variance of the constant and of the slopes, relative to the smooth part: vague."""
    gain: float = 5.0
    """What a richer model has to gain in log likelihood to be preferred; tuned on the problems of `lfi`."""
    widths: tuple[float, ...] = (0.05, 0.08, 0.12, 0.18, 0.27, 0.4, 0.55, 0.75)
    """Candidate widths h below 1, in steps that change a density visibly."""
    localities: tuple[float, ...] = (np.inf, 1.5, 0.75)
    """Candidate localities ρ, in units of the spread of φ."""
    negligible: float = 1e-3
    """Residuals of less than this share of the largest weight are left out."""
    most_rows: int = 1200
    """Most residuals of the density, drawn by weight from more of them, for time; all are in mean and covariance."""
    exact_rows: int = 500
    """Most rows of a regression with the full Gram matrix: its time is cubic."""
    landmarks: int = 300
    """Rank of the Gaussian part of the kernel for more rows; landmarks are drawn by weight."""
    tiny: float = 1e-11
    """Eigenvalues of less than this share of the largest are left out of a kernel of low rank."""
    scale_floor: float = 0.2
    """Least scale s(φ), relative to its mean."""
    exact: float = 1e-6
    """Noise, relative to the spread of the data, below which a column counts as an exact function of φ."""


class _Spectrum(NamedTuple):
    """Eigenvectors of S = V^½ K V^½, and the map from (e + λ)⁻¹ Uᵀ V^½ x to slopes and coefficients of points."""

    lengthscale: float
    values: Array
    vectors: Array
    basis: Array


class KernelFits:
    """Weighted kernel ridge regression on given inputs, for any outputs: the eigendecompositions are made once.

    The kernel has constant, linear and Gaussian parts. A fit minimizes Σ_i v_i (x_i − f(φ_i))² + λ ‖f‖². With
    V = diag(v), S = V^½ K V^½ and H = S (S + λI)⁻¹, the residual of row i in the fit that has not seen row i is
    [(I − H) V^½ x]_i / (v_i^½ [I − H]_ii). Lengthscale and λ of each output minimize Σ_i v_i residual_i². With more
    than `settings.exact_rows` rows the Gaussian part has rank `settings.landmarks` (Nyström), and time is linear.

    >>> rng = np.random.default_rng(0)
    >>> phi = rng.uniform(-2, 2, (80, 1))
    >>> fit = KernelFits(phi, np.ones(80)).fit(np.sin(2 * phi) + 0.1 * rng.standard_normal((80, 1)))
    >>> bool(abs(fit.predict(np.array([[0.5]]))[0, 0] - np.sin(1.0)) < 0.1)
    True
    """

    def __init__(self, inputs: Array, weights: Array, settings: ResidualSettings | None = None) -> None:
        self.settings = settings or ResidualSettings()
        self.share = weights / weights.sum()
        self.root = np.sqrt(weights / weights.max())
        self.origin = self.share @ inputs
        self.spread = np.sqrt(self.share @ (inputs - self.origin) ** 2) + 1e-12
        self.rows = self.points = (inputs - self.origin) / self.spread
        if len(inputs) > self.settings.exact_rows:
            rng = np.random.default_rng(0)
            self.points = self.rows[rng.choice(len(inputs), self.settings.landmarks, replace=False, p=self.share)]
        lengthscales = (factor * np.sqrt(inputs.shape[1]) for factor in self.settings.lengthscales)
        self._spectra = [self._spectrum(lengthscale) for lengthscale in lengthscales]

    def fit(self, outputs: Array) -> "KernelFit":
        """Return the best fit for each column of the outputs (n, q)."""
        center, q = self.share @ outputs, outputs.shape[1]
        targets, ridges = self.root[:, None] * (outputs - center), np.asarray(self.settings.ridges)
        size = 1 + self.rows.shape[1] + len(self.points)
        coefficients, residuals = np.zeros((size, q)), np.zeros(outputs.shape)
        best = KernelFit(self, center, np.ones(q), np.ones(q), coefficients, residuals, np.full(q, np.inf))
        for lengthscale, values, vectors, basis in self._spectra:
            rotated = vectors.T @ targets
            gains = values[:, None] / (values[:, None] + ridges)
            unseen = np.maximum(1.0 - vectors**2 @ gains, 1e-15)
            for ridge, gain, own in zip(ridges, gains.T, unseen.T, strict=True):
                residual = (targets - vectors @ (gain[:, None] * rotated)) / (own * self.root)[:, None]
                loss = self.share @ residual**2
                won = loss < best.loss
                best.loss[won], best.lengthscale[won], best.ridge[won] = loss[won], lengthscale, ridge
                best.residual[:, won] = residual[:, won]
            won = best.lengthscale == lengthscale
            best.coefficients[:, won] = basis @ (rotated[:, won] / (values[:, None] + best.ridge[won]))
        return best

    def _spectrum(self, lengthscale: float) -> _Spectrum:
        slope = np.sqrt(self.settings.linear_variance)
        lines = slope * np.column_stack([np.ones(len(self.rows)), self.rows])
        gram = np.exp(_squared_distances(self.rows, self.points) * (-0.5 / lengthscale**2))
        root = self.root[:, None]
        if self.points is self.rows:
            gram += lines @ lines.T
            values, vectors = eigh(root * gram * self.root, overwrite_a=True, check_finite=False)
            coefficients = root * vectors
            basis = np.vstack([slope * lines.T @ coefficients, coefficients])
            return _Spectrum(lengthscale, np.maximum(values, 0.0), vectors, basis)
        between = np.exp(_squared_distances(self.points, self.points) * (-0.5 / lengthscale**2))
        values, half = _positive(between, self.settings.tiny)
        half /= np.sqrt(values)
        features = root * np.hstack([lines, gram @ half])
        values, rotation = _positive(features.T @ features, self.settings.tiny)
        rotation /= np.sqrt(values)
        vectors = features @ rotation
        inner = lines.shape[1]
        return _Spectrum(
            lengthscale,
            values,
            vectors,
            values * np.vstack([slope * rotation[:inner], half @ rotation[inner:]]),
        )


def _positive(matrix: Array, tiny: float) -> tuple[Array, Array]:
    """Return the eigenvalues that are not tiny relative to the largest, and their vectors."""
    values, vectors = eigh(matrix, check_finite=False)
    kept = values > tiny * values[-1]
    return values[kept], vectors[:, kept]


@dataclass
class KernelFit:
    """The chosen fit of each output: hyperparameters, coefficients, leave-one-out residuals, their mean squares.

    Coefficients are those of the constant, of the slopes, and of the Gaussians at `inputs.points`.
    """

    inputs: KernelFits
    center: Array
    lengthscale: Array
    ridge: Array
    coefficients: Array
    residual: Array
    loss: Array

    def predict(self, inputs: Array) -> Array:
        """Return predictions (n, q)."""
        points = self.inputs.points
        rows = (inputs - self.inputs.origin) / self.inputs.spread
        constant, slopes, coefficients = np.split(self.coefficients, [1, 1 + rows.shape[1]])
        result = rows @ slopes + constant + self.center
        lengthscales = np.unique(self.lengthscale)[::-1]
        gram = _squared_distances(rows, points)
        gram *= -0.5 / lengthscales[0] ** 2
        np.exp(gram, out=gram)
        for wider, lengthscale in zip((lengthscales[0], *lengthscales), lengthscales, strict=False):
            for _ in range(2 * round(np.log2(wider / lengthscale))):  # half the lengthscale: the fourth power
                gram *= gram
            columns = self.lengthscale == lengthscale
            result[:, columns] += gram @ coefficients[:, columns]
        return result

    def _joined(self, other: "KernelFit", mine: NDArray[np.bool_], others: NDArray[np.bool_]) -> "KernelFit":
        """Return one fit for some outputs of this one, then some of another on the same inputs."""
        names = ("center", "lengthscale", "ridge", "coefficients", "residual", "loss")
        pairs = ((getattr(self, name), getattr(other, name)) for name in names)
        picked = (np.concatenate([left[..., mine], right[..., others]], axis=-1) for left, right in pairs)
        return KernelFit(self.inputs, *picked)


class _SparseLinear:
    """Weighted least squares that leaves out, for each output, the inputs that do not matter.

    The input of the smallest t statistic goes, one at a time, while t² < log of the effective sample size (as the
    Bayesian information criterion asks).
    """

    def __init__(self, inputs: Array, outputs: Array, weights: Array) -> None:
        share = weights / weights.sum()
        self.slopes = np.zeros((inputs.shape[1], outputs.shape[1]))
        self.constant = np.zeros(outputs.shape[1])
        self.residual = np.empty_like(outputs)
        design = np.column_stack([np.ones(len(inputs)), inputs]) * np.sqrt(share)[:, None]
        for column, output in enumerate(outputs.T):
            kept, beta, factor = _eliminated(design, np.sqrt(share) * output, 1.0 / np.sum(share**2))
            self.constant[column] = beta[0]
            self.slopes[np.array(kept[1:], dtype=int) - 1, column] = beta[1:]
            leverage = np.sum(factor**2, axis=1)
            missed = output - inputs @ self.slopes[:, column] - self.constant[column]
            self.residual[:, column] = missed / np.maximum(1.0 - leverage, 1e-6)
        self.loss = share @ self.residual**2

    def predict(self, inputs: Array) -> Array:
        """Return predictions (n, q)."""
        return inputs @ self.slopes + self.constant


def _eliminated(design: Array, output: Array, sample_size: float) -> tuple[list[int], Array, Array]:
    """Return the columns kept (the first always), their coefficients, and Q with QQᵀ the hat matrix."""
    kept = list(range(design.shape[1]))
    while True:
        factor, triangle = np.linalg.qr(design[:, kept])
        inverse = np.linalg.pinv(triangle)
        beta = inverse @ (factor.T @ output)
        error = np.sum((output - design[:, kept] @ beta) ** 2) / max(sample_size - len(kept), 1.0)
        t_squared = beta**2 / (np.sum(inverse**2, axis=1) * error + 1e-300)
        if len(kept) == 1 or t_squared[1:].min() >= np.log(sample_size):
            return kept, beta, factor
        del kept[1 + int(np.argmin(t_squared[1:]))]


class _MeanRegression:
    """m(φ): a sparse linear function where that is as good, else kernel ridge; chosen output by output."""

    def __init__(self, inputs: Array, outputs: Array, weights: Array, fits: KernelFits) -> None:
        self.linear, self.kernel = _SparseLinear(inputs, outputs, weights), fits.fit(outputs)
        sample_size = weights.sum() ** 2 / np.sum(weights**2)
        gain = 0.5 * sample_size * np.log((self.linear.loss + 1e-300) / (self.kernel.loss + 1e-300))
        self.smooth = gain > fits.settings.gain
        self.residual = np.where(self.smooth, self.kernel.residual, self.linear.residual)


class ResidualDensity:
    """p(r | φ) = Σ_i w_i(φ) N(u; √(1 − h²) u_i, h² I) / |R|, where u = R⁻¹ (r − center) whitens residuals.

    h = 1 is a Gaussian, a small h a kernel density; mean and covariance are the same for every h. The weights
    w_i(φ) ∝ v_i exp(−‖φ − φ_i‖² / 2ρ²) may favor residuals that were seen near φ. h and ρ maximize the leave-one-out
    log density, weighted by v; each step away from the Gaussian, and from ρ = ∞, has to gain `settings.gain`.

    Parameters
    ----------
    residual : ndarray of shape (n, s)
        Residuals.
    phi : ndarray of shape (n, d)
        Where each was seen.
    weights : ndarray of shape (n,)
        v, not negative.
    width : float, optional
        h; None chooses h and ρ.
    settings : ResidualSettings, optional
        Candidates and thresholds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> density = ResidualDensity(2 * rng.standard_normal((500, 1)), rng.standard_normal((500, 1)), np.ones(500))
    >>> log_density = density.log_density(np.zeros((1, 1)), np.zeros((1, 1)))[0]
    >>> density.width, bool(abs(log_density + np.log(2 * 2.5066)) < 0.1)
    (1.0, True)
    """

    def __init__(
        self,
        residual: Array,
        phi: Array,
        weights: Array,
        width: float | None = None,
        settings: ResidualSettings | None = None,
    ) -> None:
        self._settings = settings or ResidualSettings()
        kept = weights > self._settings.negligible * weights.max()
        residual, self.share = residual[kept], weights[kept] / weights[kept].sum()
        self.effective = 1.0 / float(np.sum(self.share**2))
        self.center = self.share @ residual
        self._covariance = _shrunk_covariance(residual - self.center, self.share, self.effective)
        self._factor = cholesky(self._covariance, "the covariance of residuals")
        self._log_volume = 0.5 * (self._factor.log_determinant + residual.shape[1] * np.log(2.0 * np.pi))
        phi = phi[kept]
        self._origin = self.share @ phi
        self._spread = np.sqrt(self.share @ (phi - self._origin) ** 2) + 1e-12
        if len(phi) > self._settings.most_rows:
            positions = (np.arange(self._settings.most_rows) + 0.5) / self._settings.most_rows
            drawn = np.searchsorted(np.cumsum(self.share), positions)
            residual, phi = residual[drawn], phi[drawn]
            self.share = np.full(len(phi), 1.0 / len(phi))
        self.points = self.whitened(residual)
        self._phi = (phi - self._origin) / self._spread
        self.width, self.locality = (1.0, np.inf) if width is None else (width, np.inf)
        if width is None:
            self._choose()

    def log_density(self, residual: Array, phi: Array) -> Array:
        """Return the log density of residuals.

        Parameters
        ----------
        residual : ndarray of shape (q, s)
            Residuals.
        phi : ndarray of shape (q, d) or (1, d)
            Where they are seen, or one row for all.

        Returns
        -------
        ndarray of shape (q,)
        """
        u = self.whitened(residual)
        if self.width == 1.0:
            return -0.5 * np.sum(u**2, axis=1) - self._log_volume
        exponent = _squared_distances(u, np.sqrt(1.0 - self.width**2) * self.points)
        exponent *= -0.5 / self.width**2
        exponent += _log_weights((phi - self._origin) / self._spread, self._phi, self.share, self.locality)
        return _log_sum_exp(exponent) - u.shape[1] * np.log(self.width) - self._log_volume

    def whitened(self, residual: Array, columns: NDArray[np.bool_] | None = None) -> Array:
        """Return residuals with mean zero and unit covariance.

        Parameters
        ----------
        residual : ndarray of shape (q, s)
            Residuals, of all columns or those that are named.
        columns : ndarray of bool, optional
            Which columns these are; None is all.

        Returns
        -------
        ndarray of shape (q, s)
        """
        if columns is None:
            return self._factor.half_solve((residual - self.center).T).T
        factor = cholesky(self._covariance[np.ix_(columns, columns)], "the covariance of some residuals")
        return factor.half_solve((residual - self.center[columns]).T).T

    def _choose(self) -> None:
        """Choose h and ρ by the weighted leave-one-out log density."""
        settings = self._settings
        u, phi, share = self.points, self._phi, self.share
        gaussian = -0.5 * np.sum(u**2, axis=1)
        margin = settings.gain / self.effective
        best = share @ gaussian + margin
        for locality in settings.localities:
            log_weights = _log_weights(phi, phi, share, locality) + np.zeros((len(u), 1))
            np.fill_diagonal(log_weights, -np.inf)
            log_weights -= _log_sum_exp(log_weights.copy())[:, None]
            for width in settings.widths:
                exponent = log_weights - 0.5 / width**2 * _squared_distances(u, np.sqrt(1.0 - width**2) * u)
                values = _log_sum_exp(exponent) - u.shape[1] * np.log(width)
                score = share @ np.maximum(values, gaussian - 20.0)  # one lonely residual does not decide
                if score > best + (margin if locality < self.locality else 0.0):
                    best, self.width, self.locality = score, width, locality


def _log_weights(phi: Array, seen: Array, share: Array, locality: float) -> Array:
    """Return log w_i(φ), (q, n) or, without locality, (n,)."""
    if not np.isfinite(locality):
        return np.log(share)
    local = _squared_distances(phi, seen) * (-0.5 / locality**2) + np.log(share)
    local -= _log_sum_exp(local.copy())[:, None]
    return local


def _shrunk_covariance(centered: Array, share: Array, effective: float) -> Array:
    """Return the weighted covariance, its correlations pulled toward zero as far as their noise asks."""
    covariance = centered.T @ (share[:, None] * centered) * (effective / max(effective - 1.0, 1.0))
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    correlation = covariance / np.outer(deviation, deviation)
    off = ~np.eye(len(deviation), dtype=bool)
    signal = np.sum(correlation[off] ** 2)
    noise = np.sum((1.0 - correlation[off] ** 2) ** 2) / effective
    correlation[off] *= 0.0 if signal <= noise else 1.0 - noise / signal
    return (correlation + 1e-9 * np.eye(len(deviation))) * np.outer(deviation, deviation)


class ShiftedResiduals:
    """p(x | φ) = Σ_i w_i(φ) κ_h((x − m(φ)) / s(φ) − u_i), u_i = (x_i − m₋ᵢ(φ_i)) / s₋ᵢ(φ_i), up to 1/s(φ).

    m and s are regressions on φ; residuals are those of fits that have not seen their own row. A column has a scale
    s(φ) only if that raises its Gaussian log likelihood by `settings.gain`.

    Parameters
    ----------
    phi : ndarray of shape (n, d)
        What is given.
    x : ndarray of shape (n, s)
        The rows.
    weights : ndarray of shape (n,)
        Weights of the rows, not negative.
    settings : ResidualSettings, optional
        Candidates and thresholds.

    Attributes
    ----------
    left_out : tuple of ndarray
        m₋ᵢ(φ_i) and s₋ᵢ(φ_i) at the rows.
    exact : ndarray of bool of shape (s,)
        Whether a column is an exact function of φ; a noise of `settings.exact` is put in place of none.
    scaled : ndarray of bool of shape (s,)
        Whether a column has a scale.
    density : ResidualDensity
        Of the residuals u.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> phi = rng.uniform(-2, 2, (300, 1))
    >>> found = ShiftedResiduals(phi, phi + 0.5 * rng.standard_normal((300, 1)), np.ones(300))
    >>> bool(abs(found.log_density(np.array([[1.0]]), np.array([[1.0]]))[0] + np.log(0.5 * 2.5066)) < 0.1)
    True
    """

    def __init__(self, phi: Array, x: Array, weights: Array, settings: ResidualSettings | None = None) -> None:
        self.settings = settings = settings or ResidualSettings()
        fits = KernelFits(phi, weights, settings)
        share = weights / weights.sum()
        self.x = x
        self._mean = _MeanRegression(phi, x, weights, fits)
        residual = self._mean.residual
        self.exact = share @ residual**2 < settings.exact**2 * np.var(x, axis=0)
        if self.exact.any():
            noise = settings.exact * x.std(axis=0) * np.random.default_rng(0).standard_normal(x.shape)
            residual = np.where(self.exact, noise, residual)
        size = np.abs(residual)
        self._usual = share @ size + 1e-300
        sizes = fits.fit(size)
        scale = np.maximum(size - sizes.residual, settings.scale_floor * self._usual)
        constant = np.broadcast_to(self._usual, size.shape)
        gain = _gaussian_score(residual, scale, share) - _gaussian_score(residual, constant, share)
        self.scaled = (gain / float(np.sum(share**2)) > settings.gain) & ~self.exact
        self.left_out = x - residual, np.where(self.scaled, scale, self._usual)
        residual = residual / self.left_out[1]
        self.density = ResidualDensity(residual, phi, weights, 1.0 if self.exact.any() else None, settings)
        self._smooth = self._mean.kernel._joined(sizes, self._mean.smooth, self.scaled)

    def log_density(self, x: Array, phi: Array) -> Array:
        """Return log p(x | φ).

        Parameters
        ----------
        x : ndarray of shape (q, s) or (1, s)
            Rows, or one row for all φ.
        phi : ndarray of shape (q, d)
            What is given.

        Returns
        -------
        ndarray of shape (q,)
        """
        mean, scale = self.mean_and_scale(phi)
        return self.density.log_density((x - mean) / scale, phi) - np.log(scale).sum(axis=1)

    def gaussian_log_density(self, x: Array, phi: Array) -> Array:
        """Return the log density of a Gaussian with the same mean and covariance, up to a constant.

        Parameters
        ----------
        x : ndarray of shape (q, s) or (1, s)
            Rows, or one row for all φ.
        phi : ndarray of shape (q, d)
            What is given.

        Returns
        -------
        ndarray of shape (q,)
        """
        mean, scale = self.mean_and_scale(phi)
        u = self.density.whitened((x - mean) / scale)
        return -0.5 * np.sum(u**2, axis=1) - np.log(scale).sum(axis=1)

    def mean_and_scale(self, phi: Array) -> tuple[Array, Array]:
        """Return m(φ) and s(φ), both (q, s), from one pass over the rows."""
        mean = self._mean.linear.predict(phi)
        scale = np.tile(self._usual, (len(phi), 1))
        smooth, scaled = self._mean.smooth, self.scaled
        if smooth.any() or scaled.any():
            predicted = self._smooth.predict(phi)
            floor = self.settings.scale_floor * self._usual[scaled]
            mean[:, smooth] = predicted[:, : smooth.sum()]
            scale[:, scaled] = np.maximum(predicted[:, smooth.sum() :], floor)
        return mean, scale


def _gaussian_score(residual: Array, scale: Array, share: Array) -> Array:
    """Return the mean log likelihood of a Gaussian with this scale, its factor fitted, up to a constant."""
    return -share @ np.log(scale) - 0.5 * np.log(share @ (residual / scale) ** 2 + 1e-300)


@dataclass(frozen=True)
class DensitySettings:
    """Settings of `InputDensity`: the cost of a fit is cubic in both."""

    support: int = 500
    """Support points: rows of x, completed by draws from the density where there are fewer."""
    most_pairs: int = 500
    """Pairs that the density is learned from; of more, a random part."""


class InputDensity:
    """p(x | y) at support points: w_ij ∝ p(x_i | ỹ_j) / q(x_i), q the density that the support points come from.

    p(x | y) has a mean and a scale by regression on y, and residuals of any shape (`ShiftedResiduals`).
    Support points are rows of x and, where these are few, draws from p(x | ỹ) at the task rows.

    Parameters
    ----------
    x : ndarray of shape (n, d)
        Numbers.
    y : ndarray of shape (n, e)
        Their mediator, numbers.
    y_task : ndarray of shape (m, e)
        Mediator of the task rows.
    seed : int
        Seed of the draws.
    settings : DensitySettings, optional
        Sizes.

    Attributes
    ----------
    support : ndarray of shape (s, d)
        The support points.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.standard_normal((300, 1))
    >>> x = y + 0.3 * rng.standard_normal((300, 1))
    >>> density = InputDensity(x, y, np.array([[0.5], [1.0]]), seed=0)
    >>> (density.table().T @ density.support).ravel().round(1)
    array([0.5, 1. ])
    """

    def __init__(
        self,
        x: Array,
        y: Array,
        y_task: Array,
        seed: int,
        settings: DensitySettings | None = None,
    ) -> None:
        self.settings = settings or DensitySettings()
        self._rng = np.random.default_rng(seed)
        self._columns, used = varying_columns(x), varying_columns(y)
        origin, scale = y.mean(axis=0), spread(y)
        pairs, self._task = (((rows - origin) / scale)[:, used] for rows in (y, y_task))
        self._varies = bool(self._columns.any() and used.any())
        joint, counts = np.unique(np.column_stack([pairs, x[:, self._columns]]), axis=0, return_counts=True)
        chosen = np.sort(self._rng.permutation(len(joint))[: self.settings.most_pairs])
        self._y, self._x = np.split(joint[chosen], [pairs.shape[1]], axis=1)
        self._counts = counts[chosen].astype(np.float64)  # a pair that is listed twice is one row of weight two
        some = self._rng.permutation(len(x))[: self.settings.support]
        rows = x[np.sort(order_of_rows(x)[some])]
        self.support, self._drawn = rows, 0
        if self._varies:
            self._learned = ShiftedResiduals(self._y, self._x, self._counts)
            missing = self.settings.support - len(rows)
            if missing > 0:
                self._drawn = missing
                drawn = np.tile(rows.mean(axis=0), (missing, 1))
                drawn[:, self._columns] = self._draws(missing)
                self.support = np.vstack([rows, drawn])

    def bootstrap(self, count: int, drift: float = 0.0) -> list[Array]:
        """Return tables for Bayesian bootstrap samples of the pairs, each like `table`.

        Parameters
        ----------
        count : int
            How many.
        drift : float
            E[x | y] is stretched about the mean of x in the pairs by factors 1 + s, s at quantiles of N(0, drift²),
            one for each sample.

        Returns
        -------
        list of ndarray of shape (s, m)

        References
        ----------
        Rubin (1981), The Bayesian bootstrap, doi:10.1214/aos/1176345338.
        """
        if not self._varies:
            return [self.table()] * count
        stretches = 1.0 + drift * ndtri((np.arange(count) + 0.5) / count)
        tables = []
        for stretch in self._rng.permutation(stretches):
            weights = self._rng.gamma(self._counts)
            tables.append(self._table(ShiftedResiduals(self._y, self._x, weights), weights, float(stretch)))
        return tables

    def table(self) -> Array:
        """Return probabilities (s, m) of the support points for each task row; columns sum to one."""
        if not self._varies:
            return np.full((len(self.support), len(self._task)), 1.0 / len(self.support))
        return self._table(self._learned, self._counts, 1.0)

    def expectation(self, tables: int = 8) -> Callable[[Kernel], ConditionalExpectation]:
        """Return a function from the kernel of x to M and C of E[f(X) | y].

        M is the mean of bootstrap tables W_b; C is the covariance of W_bᵀ f over the tables that the prior of f
        expects, mean_b W_bᵀKW_b - MᵀKM.
        """
        found = self.bootstrap(tables)
        mean = np.mean(found, axis=0)

        def expectation(kernel: Kernel) -> ConditionalExpectation:
            gram = kernel.gram(self.support, self.support)
            size = float(np.mean(np.diagonal(gram)))
            covariance = sum(one.T @ (gram @ one) for one in (table - mean for table in found))
            covariance = covariance / (size * max(1, tables - 1))
            return ConditionalExpectation(self.support, mean, 0.5 * (covariance + covariance.T))

        return expectation

    def _table(self, learned: ShiftedResiduals, weights: Array, stretch: float) -> Array:
        task = self._log_densities(learned, self._task, stretch)
        share = np.log(weights / weights.sum() * (len(self.support) - self._drawn))
        proposal = logsumexp(self._log_densities(learned, self._y, 1.0) + share, axis=1)
        if self._drawn:
            origin = task if stretch == 1.0 else self._log_densities(learned, self._task, 1.0)
            drawn = logsumexp(origin, axis=1) + np.log(self._drawn / len(self._task))
            proposal = np.logaddexp(proposal, drawn)
        logs = task - proposal[:, None]
        logs -= logs.max(axis=0)
        table = np.exp(logs, out=logs)
        table /= table.sum(axis=0)
        return table

    def _log_densities(self, learned: ShiftedResiduals, y: Array, stretch: float) -> Array:
        """Return log p(x_i | y_j) at all support points, (s, q)."""
        points = self.support[:, self._columns]
        mean, scale = learned.mean_and_scale(y)
        center = self._x.mean(axis=0)
        mean = center + stretch * (mean - center)
        logs = np.empty((len(points), len(y)))
        for j in range(len(y)):
            residual = (points - mean[j]) / scale[j]
            logs[:, j] = learned.density.log_density(residual, y[j : j + 1]) - np.log(scale[j]).sum()
        return logs

    def _draws(self, count: int) -> Array:
        """Draw rows of x, for task rows in turn, from residuals of the pairs smoothed as their density is."""
        order = order_of_rows(self._task)[self._rng.permutation(len(self._task))]
        mean, scale = self._learned.mean_and_scale(self._task[order[np.arange(count) % len(order)]])
        center, width = self._learned.left_out
        chosen = self._rng.choice(len(self._x), count, p=self._counts / self._counts.sum())
        residual = ((self._x - center) / width)[chosen]
        smoothing = min(self._learned.density.width, 1.0)
        noise = residual.std(axis=0) * self._rng.standard_normal(residual.shape)
        return mean + scale * (np.sqrt(1.0 - smoothing**2) * residual + smoothing * noise)


def _squared_distances(a: Array, b: Array) -> Array:
    """Return ‖a_i − b_j‖² for rows."""
    squared: Array = a @ (-2.0 * b.T)
    squared += (a**2).sum(axis=1)[:, None]
    squared += (b**2).sum(axis=1)
    return np.maximum(squared, 0.0, out=squared)


def _log_sum_exp(exponent: Array) -> Array:
    """Return log Σ_j exp(e_ij); the argument is overwritten."""
    top = np.maximum(exponent.max(axis=1), -1e300)
    exponent -= top[:, None]
    np.exp(exponent, out=exponent)
    total: Array = np.log(exponent.sum(axis=1))
    return total + top
