"""scikit-learn's Nyström features and ridge regression on them, at given hyperparameters."""

from typing import Any

import numpy as np
from serving import serve
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline


def prepare(problem: dict[str, Any]) -> dict[str, Any]:
    x, z = problem["x"], problem["z"]
    points = len(problem["inducing"])
    gamma = 0.5 / problem["nystroem_lengthscale"] ** 2

    features = Nystroem(kernel="rbf", gamma=gamma, n_components=points, random_state=0)
    model = make_pipeline(features, Ridge(alpha=problem["noise"] ** 2, fit_intercept=False, solver="cholesky"))

    def evaluate() -> dict[str, Any]:
        model.fit(x, z)
        return {}

    def predict() -> dict[str, Any]:
        mean = model.predict(problem["x_new"])
        return {"mean": mean.tolist(), "components": np.asarray(features.components_).tolist()}

    return {"evaluate": evaluate, "predict": predict}


if __name__ == "__main__":
    serve(prepare)
