"""GPyTorch's SGPR: an exact Gaussian process whose kernel goes through inducing points, with the trace term."""

import time
from typing import Any

import gpytorch
import numpy as np
import torch
from serving import serve

torch.set_default_dtype(torch.float64)


class Sparse(gpytorch.models.ExactGP):
    def __init__(self, x: torch.Tensor, z: torch.Tensor, likelihood: Any, kernel: Any) -> None:
        super().__init__(x, z, likelihood)
        self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), kernel

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class SGPR:
    """The model at the parameters of the problem, on its rows or on some of them."""

    def __init__(self, problem: dict[str, Any], rows: Any = slice(None)) -> None:
        self.x, self.z = torch.tensor(problem["x"][rows]), torch.tensor(problem["z"][rows])
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood(
            noise_constraint=gpytorch.constraints.GreaterThan(1e-12)
        )
        self.matern = gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=self.x.shape[1])
        self.scaled = gpytorch.kernels.ScaleKernel(self.matern)
        self.sparse = gpytorch.kernels.InducingPointKernel(
            self.scaled, torch.tensor(problem["inducing"]), self.likelihood
        )
        self.model = Sparse(self.x, self.z, self.likelihood, self.sparse).train()
        self.bound = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self.model)
        self.matern.lengthscale = torch.tensor(problem["lengthscale"])
        self.scaled.outputscale = problem["variance"]
        self.likelihood.noise = problem["noise"] ** 2

    def objective(self) -> torch.Tensor:
        """Return the bound, as GPyTorch's users maximize it."""
        return self.bound(self.model(self.x), self.z) * len(self.z)

    def evidence(self) -> torch.Tensor:
        """Return log N(z; 0, Q + σ²I): the bound without its trace term, which is our log evidence for τ → 0."""
        return self.likelihood(self.model(self.x)).log_prob(self.z)

    def differentiate(self, value: torch.Tensor) -> dict[str, Any]:
        """Return a value with its gradient with respect to natural parameters."""
        self.model.zero_grad()
        value.backward()
        noise = natural_slope(self.likelihood.noise_covar.raw_noise) * 2.0 * float(self.likelihood.noise) ** 0.5
        return {
            "value": float(value),
            "lengthscale": natural_slope(self.matern.raw_lengthscale).ravel().tolist(),
            "variance": float(natural_slope(self.scaled.raw_outputscale)),
            "noise": float(noise),
            "inducing": self.sparse.inducing_points.grad.tolist(),
        }

    def maximize(self, iterations: int) -> None:
        """Maximize the bound with SciPy's L-BFGS-B over GPyTorch's own unconstrained parameters."""
        from scipy.optimize import minimize
        from torch.nn.utils import parameters_to_vector, vector_to_parameters

        parameters = list(self.model.parameters())

        def negative(vector: np.ndarray) -> tuple[float, np.ndarray]:
            with torch.no_grad():
                vector_to_parameters(torch.tensor(vector), parameters)
            self.model.zero_grad()
            value = -self.objective()
            value.backward()
            return float(value), torch.cat([p.grad.ravel() for p in parameters]).numpy()

        start = parameters_to_vector(parameters).detach().numpy()
        found = minimize(negative, start, jac=True, method="L-BFGS-B", options={"maxiter": iterations})
        with torch.no_grad():
            vector_to_parameters(torch.tensor(found.x), parameters)


def natural_slope(raw: torch.Tensor) -> torch.Tensor:
    """Return the gradient with respect to the natural parameter behind a softplus."""
    return raw.grad / torch.sigmoid(raw.detach())


def fit(problem: dict[str, Any]) -> dict[str, Any]:
    """Learn everything by our recipe: of many rows a sample first, then all of them; predict new rows."""
    start, sgpr = time.process_time(), SGPR(problem)
    if len(problem["z"]) > 2 * problem["sample"]:
        chosen = np.random.default_rng(0).choice(len(problem["z"]), problem["sample"], replace=False)
        first = SGPR(problem, chosen)
        first.maximize(problem["iterations"])
        sgpr.model.load_state_dict(first.model.state_dict())
        sgpr.maximize(problem["full_iterations"])
    else:
        sgpr.maximize(problem["iterations"])
    sgpr.model.eval()
    with torch.no_grad():
        found = sgpr.likelihood.eval()(sgpr.model(torch.tensor(problem["x_new"])))
        errors, std = found.mean.numpy() - problem["f_new"], found.variance.sqrt().numpy()
    return {
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "nll": float(np.mean(0.5 * (errors / std) ** 2 + np.log(std)) + 0.5 * np.log(2.0 * np.pi)),
        "coverage": float(np.mean(np.abs(errors) <= 1.96 * std)),
        "processor_seconds": time.process_time() - start,
    }


def prepare(problem: dict[str, Any]) -> dict[str, Any]:
    sgpr = SGPR(problem)
    return {
        "check": lambda: sgpr.differentiate(sgpr.evidence()),
        "evaluate": lambda: sgpr.differentiate(sgpr.objective()),
        "fit": lambda: fit(problem),
    }


if __name__ == "__main__":
    serve(prepare)
