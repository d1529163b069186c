"""Simulations that fail or explode, and the probability of such an event given the parameters."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from decond.conditional import KernelFits, ResidualSettings
from decond.lfi.summaries import Standardizer, pulled_in

__all__ = ["EventProbability", "OutlierRule", "ValidityModel"]


class EventProbability:
    """P(event | θ): logistic regression on kernel features of working coordinates, and on the coordinates themselves.

    The lengthscale of the kernel and the penalty are those of the largest cross-validated log likelihood. The linear
    part carries the trend to where there are few simulations. The probability is 1 if the event always happened.

    Parameters
    ----------
    phi : ndarray of shape (n, d)
        Working coordinates of the parameters.
    happened : ndarray of bool of shape (n,)
        What happened at them.
    like : EventProbability, optional
        One whose lengthscale and penalty are taken; None chooses them.

    Attributes
    ----------
    share
        How often it happened.
    score
        Mean log likelihood of what happened, cross-validated; −∞ where there was too little to choose from.

    Examples
    --------
    >>> phi = np.random.default_rng(0).uniform(-2, 2, (400, 1))
    >>> model = EventProbability(phi, np.random.default_rng(1).random(400) < np.exp(-(phi[:, 0] ** 2)))
    >>> bool(np.abs(np.exp(model.log_probability([[0.0], [1.0]])) - [1.0, 0.37]).max() < 0.15)
    True
    """

    lengthscales: tuple[float, ...] = (0.5, 1.0, 2.0)
    """Candidates, in units of √d."""

    penalties: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
    """Candidates for the prior variance of the coefficients."""

    slope: float = 3.0
    """Prior standard deviation of the slopes of the linear part, relative to that of the kernel part."""

    choice_rows: int | None = 2000
    """Most simulations from which lengthscale and penalty are chosen; all are fitted."""

    landmarks: int = 100
    """Most landmarks of the kernel features."""

    _chosen: dict[str, float] | None = None

    def __init__(self, phi: np.ndarray, happened: np.ndarray, like: "EventProbability | None" = None) -> None:
        self.share, self.score = float(happened.mean()), -np.inf
        self._model = None if happened.all() else self._fitted(phi, happened, like)

    def log_probability(self, phi: np.ndarray) -> np.ndarray:
        """Return log P(event | φ) at rows of working coordinates."""
        rows = np.atleast_2d(np.asarray(phi, dtype=np.float64))
        if self._model is None:
            return np.zeros(len(rows))
        return np.asarray(log_expit(self._model.decision_function(rows)))

    def _fitted(self, phi: np.ndarray, happened: np.ndarray, like: "EventProbability | None") -> Any:
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import GridSearchCV, StratifiedKFold
        from sklearn.pipeline import Pipeline

        classifier = LogisticRegression(C=1.0, max_iter=1000)
        model = Pipeline([("features", self._features(phi)), ("classifier", classifier)])
        gamma = "features__kernel__gamma" if self.slope else "features__gamma"
        grid = {
            gamma: [0.5 / (phi.shape[1] * factor**2) for factor in self.lengthscales],
            "classifier__C": list(self.penalties),
        }
        if like is not None and like._chosen is not None:
            return model.set_params(**like._chosen).fit(phi, happened)
        rows = np.arange(len(phi))
        if self.choice_rows is not None and len(phi) > self.choice_rows:
            rows = np.random.default_rng(0).choice(len(phi), self.choice_rows, replace=False)
        folds = min(5, int(happened[rows].sum()), int((~happened[rows]).sum()))
        if folds < 2:
            return model.fit(phi, happened)
        split = StratifiedKFold(folds, shuffle=True, random_state=0)
        search = GridSearchCV(model, grid, scoring="neg_log_loss", cv=split).fit(phi[rows], happened[rows])
        self.score, self._chosen = float(search.best_score_), search.best_params_
        return search if len(rows) == len(phi) else search.best_estimator_.fit(phi, happened)

    def _features(self, phi: np.ndarray) -> Any:
        from sklearn.kernel_approximation import Nystroem
        from sklearn.pipeline import FeatureUnion

        landmarks = min(self.landmarks, len(phi) // 2)
        kernel = Nystroem(gamma=0.5 / phi.shape[1], n_components=landmarks, random_state=0)
        if not self.slope:
            return kernel
        parts = [("kernel", kernel), ("linear", "passthrough")]
        return FeatureUnion(parts, transformer_weights={"linear": self.slope})


class ValidityModel(EventProbability):
    """P(valid | θ), with one lengthscale and no linear part; certain where nothing failed.

    A failed simulation is an outcome too. The observation is a valid one, so its likelihood carries the factor
    P(valid | θ): parameters at which simulations mostly fail are less likely to have given it.

    >>> phi = np.linspace(-1, 1, 200)[:, None]
    >>> model = ValidityModel(phi, phi[:, 0] < 0.0)
    >>> np.exp(model.log_probability([[-0.8], [0.8]])).round(1)
    array([1., 0.])
    """

    lengthscales = (1.0,)
    penalties = (0.1, 1.0, 10.0, 100.0)
    slope = 0.0
    choice_rows = None


@dataclass(frozen=True)
class OutlierRule:
    """Which simulations are unlike others at such parameters, and far from what the observation could be.

    A column is regressed on the parameters by kernel ridge regression, as it is and with values beyond one spread
    on a logarithmic scale. A simulation is an outlier if its residual is large on both, in robust deviations. The
    outliers are left out and the regression is made again. The deviation may grow with the parameters.

    >>> rng = np.random.default_rng(0)
    >>> phi = rng.uniform(-1, 1, (200, 1))
    >>> x = np.exp(3.0 * phi) + rng.standard_normal((200, 1))
    >>> x[:3] *= 1e6
    >>> np.flatnonzero(OutlierRule().outliers(phi, x, np.array([[2.0]])))
    array([0, 1, 2])
    """

    deviations: float = 10.0
    """Robust deviations beyond which a residual is large; a Gaussian one never is."""
    log_deviations: float = 5.0
    """The same on the logarithmic scale: a Gaussian one is once in two million."""
    local_deviations: float = 5.0
    """Larger residuals count as this large for how the deviation grows."""
    wild: float = 10.0
    """No outlier is nearer to the middle of its column, in spreads; the first regression clips values here."""
    passes: int = 3
    """Regressions, each without the outliers of the one before."""
    rows: int = 300
    """Most simulations for a regression, an even choice: for time."""

    def outliers(
        self, phi: NDArray[np.float64], x: NDArray[np.float64], observed: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Return which simulations are outliers; none if the observation would be one everywhere.

        Parameters
        ----------
        phi : ndarray of shape (n, d)
            Working coordinates of the simulations.
        x : ndarray of shape (n, s)
            Their data.
        observed : ndarray of shape (1, s)
            The observation.
        """
        z, seen = self._standardized(x, observed)
        far = np.abs(z).max(axis=1) > self.wild
        outliers = np.zeros(len(phi), dtype=bool)
        if not far.any():
            return outliers
        outputs = _on_both_scales(np.clip(z, -self.wild, self.wild))
        for _ in range(self.passes):
            kept = np.flatnonzero(~outliers)
            rows = kept[np.linspace(0, len(kept) - 1, min(len(kept), self.rows)).round().astype(int)]
            fits = KernelFits(phi[rows], np.ones(len(rows)), ResidualSettings(lengthscales=(0.5, 1.0, 2.0)))
            predicted = fits.fit(outputs[rows]).predict(phi)
            outputs = _on_both_scales(z)
            size = np.abs(outputs - predicted)
            usual = np.median(size[kept], axis=0) / 0.6745 + 1e-12
            local = fits.fit(np.minimum(size[rows], self.local_deviations * usual)).predict(phi)
            scale = np.maximum(local * np.sqrt(np.pi / 2.0), usual)
            outliers = far & self._large((outputs - predicted) / scale)
        unlike = self._large((_on_both_scales(seen) - predicted) / scale)
        return outliers & ~unlike.all()

    def _standardized(
        self, x: NDArray[np.float64], observed: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return columns in units of the median distance from their median, which half of the rows cannot move."""
        center = np.median(x, axis=0)
        size = np.median(np.abs(x - center), axis=0) / 0.6745
        scale = np.where(size > 1e-12 * np.maximum(np.abs(center), 1e-300), size, Standardizer(x).scale)
        return (x - center) / scale, (observed - center) / scale

    def _large(self, residual: NDArray[np.float64]) -> NDArray[np.bool_]:
        plain, logarithmic = np.split(np.abs(residual), 2, axis=1)
        return np.any((plain > self.deviations) & (logarithmic > self.log_deviations), axis=1)


def _on_both_scales(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return columns as they are, and with values beyond one spread on a logarithmic scale."""
    return np.hstack([z, pulled_in(z, 1.0)])
