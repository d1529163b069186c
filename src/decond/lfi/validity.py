"""The probability of an event given the parameters, such as that a simulation gives a result at all."""

from typing import Any

import numpy as np
from scipy.special import log_expit

__all__ = ["EventProbability", "ValidityModel"]


class EventProbability:
    """P(event | θ): logistic regression on kernel features of working coordinates, and on the coordinates themselves.

    The lengthscale of the kernel and the penalty are those of the largest cross-validated log likelihood. The linear
    part carries the trend to where there are few simulations. The probability is 1 if the event always happened.

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

    def __init__(self, phi: np.ndarray, happened: np.ndarray) -> None:
        self.share, self.score = float(happened.mean()), -np.inf
        self._model = None if happened.all() else self._fitted(phi, happened)

    def log_probability(self, phi: np.ndarray) -> np.ndarray:
        """Return log P(event | φ) at rows of working coordinates."""
        rows = np.atleast_2d(np.asarray(phi, dtype=np.float64))
        if self._model is None:
            return np.zeros(len(rows))
        return np.asarray(log_expit(self._model.decision_function(rows)))

    def _fitted(self, phi: np.ndarray, happened: np.ndarray) -> Any:
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
        rows = np.arange(len(phi))
        if self.choice_rows is not None and len(phi) > self.choice_rows:
            rows = np.random.default_rng(0).choice(len(phi), self.choice_rows, replace=False)
        folds = min(5, int(happened[rows].sum()), int((~happened[rows]).sum()))
        if folds < 2:
            return model.fit(phi, happened)
        split = StratifiedKFold(folds, shuffle=True, random_state=0)
        search = GridSearchCV(model, grid, scoring="neg_log_loss", cv=split).fit(phi[rows], happened[rows])
        self.score = float(search.best_score_)
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
