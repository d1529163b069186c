"""scikit-learn's GaussianProcessRegressor for one table: RBF plus white noise."""

from typing import Any

import numpy as np
from serving import serve
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel


def prepare(problem: dict[str, Any]) -> dict[str, Any]:
    x, z = problem["x"], problem["z"]
    lengthscale, noise = problem["parameters"]
    kernel = RBF(lengthscale, (1e-6, 1e6)) + WhiteKernel(noise**2, (1e-12, 1e12))
    given = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(x, z)

    def evaluate() -> dict[str, Any]:
        value, slopes = given.log_marginal_likelihood(given.kernel_.theta, eval_gradient=True, clone_kernel=False)
        return {"value": float(value), "gradient": [slopes[0] / lengthscale, 2.0 * slopes[1] / noise]}

    def fit() -> dict[str, Any]:
        found = GaussianProcessRegressor(kernel, alpha=0.0).fit(x, z)
        natural = np.exp(found.kernel_.theta)
        parameters = [float(natural[0]), float(np.sqrt(natural[1]))]
        return {"value": float(found.log_marginal_likelihood_value_), "parameters": parameters}

    return {"evaluate": evaluate, "fit": fit}


if __name__ == "__main__":
    serve(prepare)
