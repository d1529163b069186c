"""P(valid | θ): how likely a simulation is to give a result at all."""

from typing import Any

import numpy as np

__all__ = ["ValidityModel"]

PENALTIES = (0.1, 1.0, 10.0, 100.0)
LANDMARKS = 100


class ValidityModel:
    """Logistic regression on kernel features of working coordinates; certain where nothing failed.

    A failed simulation is an outcome too. The observation is a valid one, so its likelihood carries the factor
    P(valid | θ): parameters at which simulations mostly fail are less likely to have given it.

    >>> phi = np.linspace(-1, 1, 200)[:, None]
    >>> model = ValidityModel(phi, phi[:, 0] < 0.0)
    >>> np.exp(model.log_probability([[-0.8], [0.8]])).round(1)
    array([1., 0.])
    """

    def __init__(self, phi: np.ndarray, valid: np.ndarray) -> None:
        self.share = float(valid.mean())
        self._model = None if valid.all() else _fitted(phi, valid)

    def log_probability(self, phi: np.ndarray) -> np.ndarray:
        """Return log P(valid | φ) at rows of working coordinates."""
        rows = np.atleast_2d(np.asarray(phi, dtype=np.float64))
        if self._model is None:
            return np.zeros(len(rows))
        return self._model.predict_log_proba(rows)[:, 1]


def _fitted(phi: np.ndarray, valid: np.ndarray) -> Any:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.pipeline import make_pipeline

    features = Nystroem(gamma=0.5 / phi.shape[1], n_components=min(LANDMARKS, len(phi) // 2), random_state=0)
    model = make_pipeline(features, LogisticRegression(C=1.0, max_iter=1000))
    folds = min(5, int(valid.sum()), int((~valid).sum()))
    if folds < 2:
        return model.fit(phi, valid)
    split = StratifiedKFold(folds, shuffle=True, random_state=0)
    grid = {"logisticregression__C": list(PENALTIES)}
    return GridSearchCV(model, grid, scoring="neg_log_loss", cv=split).fit(phi, valid)
