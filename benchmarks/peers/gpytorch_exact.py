"""GPyTorch's exact Gaussian process: the covariance of Theorem 5.3 (3) for two tables, plain RBF for one."""

from typing import Any

import gpytorch
import numpy as np
import torch
from linear_operator import to_dense
from serving import maximize, serve

torch.set_default_dtype(torch.float64)


def rbf() -> gpytorch.kernels.Kernel:
    return gpytorch.kernels.RBFKernel()


def by_cholesky(matrix: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Solve with a positive definite matrix, the usual way."""
    return torch.cholesky_solve(right, torch.linalg.cholesky(matrix))


class Transformed(gpytorch.kernels.Kernel):
    """AᵀKA + Σ without the noise σ²I, which the likelihood adds; its input is the mediator of the task rows."""

    solve = staticmethod(by_cholesky)

    def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: gpytorch.likelihoods.GaussianLikelihood) -> None:
        super().__init__()
        self.kernel_x, self.kernel_y = rbf(), rbf()
        self.x, self.y, self.likelihood = x, y, likelihood

    def forward(self, y_task: torch.Tensor, other: torch.Tensor, **options: Any) -> torch.Tensor:
        K, L = to_dense(self.kernel_x(self.x)), to_dense(self.kernel_y(self.y))
        L_tilde = to_dense(self.kernel_y(self.y, y_task))
        A = self.solve(L + self.likelihood.noise * torch.eye(len(L)), L_tilde)
        return to_dense(self.kernel_y(y_task)) + A.T @ (K @ A - L_tilde)


class Exact(gpytorch.models.ExactGP):
    def __init__(self, inputs: torch.Tensor, z: torch.Tensor, likelihood: Any, kernel: Any) -> None:
        super().__init__(inputs, z, likelihood)
        self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), kernel

    def forward(self, inputs: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(inputs), self.covar_module(inputs))


def prepare(problem: dict[str, Any]) -> dict[str, Any]:
    x, z = torch.tensor(problem["x"]), torch.tensor(problem["z"])
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=gpytorch.constraints.GreaterThan(1e-12))
    if "y" in problem:
        inputs = torch.tensor(problem["y_task"])
        kernel = Transformed(x, torch.tensor(problem["y"]), likelihood)
        kernels = [kernel.kernel_x, kernel.kernel_y]
    else:
        inputs, kernel = x, rbf()
        kernels = [kernel]
    model = Exact(inputs, z, likelihood, kernel).train()
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

    def evaluate(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log evidence and gradient with respect to lengthscales and σ."""
        for part, lengthscale in zip(kernels, parameters[:-1], strict=True):
            part.lengthscale = float(lengthscale)
        likelihood.noise = float(parameters[-1]) ** 2
        model.zero_grad()
        with gpytorch.settings.max_cholesky_size(10**6):  # exact at every size, as we are
            value = evidence(model(inputs), z) * len(z)
            value.backward()
        slopes = [slope(part, "raw_lengthscale") for part in kernels]
        slopes.append(slope(likelihood.noise_covar, "raw_noise") * 2.0 * parameters[-1])
        return float(value), np.array(slopes)

    def once() -> dict[str, Any]:
        value, gradient = evaluate(np.array(problem["parameters"]))
        return {"value": value, "gradient": gradient.tolist()}

    return {"evaluate": once, "fit": lambda: maximize(evaluate, problem["parameters"])}


def slope(module: Any, name: str) -> float:
    """Return the derivative with respect to the natural parameter behind a softplus."""
    raw = getattr(module, name)
    return float(raw.grad / torch.sigmoid(raw.detach()))


if __name__ == "__main__":
    serve(prepare)
