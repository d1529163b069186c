"""The paper's toy of latent function recovery: f is to be found, but x and z are never seen together."""

from dataclasses import dataclass

import numpy as np

from decond.kernels import RBF
from decond.linalg import cholesky

__all__ = ["LatentFunctionProblem", "latent_function"]


@dataclass(frozen=True)
class LatentFunctionProblem:
    """Two tables that share only a mediator, and the truth behind them.

    Pairs (`x`, `y`) with x = r(y) + noise; task rows (`y_task`, `z_task`) with z = f(x̃) + noise at unseen x̃.

    >>> problem = latent_function(n=5, m=6)
    >>> problem.y_task.shape, problem.f(np.array([-1.0, 0.0])).round(2)
    ((6, 1), array([1., 2.]))
    """

    x: np.ndarray
    y: np.ndarray
    y_task: np.ndarray
    z_task: np.ndarray
    initial: tuple[float, float, float] = (1.0, 1.0, 0.1)
    """Hyperparameters (lengthscale of x, lengthscale of y, noise) that learning starts from."""
    learned: tuple[float, float, float] = (1.03741465, 0.35222978, 0.40144024)
    """Hyperparameters at which the log evidence is largest."""

    @staticmethod
    def f(x: np.ndarray) -> np.ndarray:
        """Return the latent function at x."""
        return _through(x, (-4.0, -3.0, -1.0, 0.0, 2.0), (-2.0, 0.0, 1.0, 2.0, -1.0))

    @staticmethod
    def r(y: np.ndarray) -> np.ndarray:
        """Return the conditional mean of x given y."""
        return _through(y, (-5.0, -3.0, -1.0, 1.0, 4.0), (-4.0, -2.0, -6.0, 4.0, 6.0))


def latent_function(n: int = 100, m: int = 150, noise: float = 0.25) -> LatentFunctionProblem:
    """Return the toy of the paper's Figure 3, with exactly its random draws at the default sizes.

    Parameters
    ----------
    n, m : int
        Numbers of pairs and of task rows.
    noise : float
        Standard deviation of the noise of x and of z.

    >>> problem = latent_function()
    >>> problem.x.shape, problem.z_task.shape
    ((100, 1), (150,))
    """
    pairs, task = np.random.RandomState(100), np.random.RandomState(0)
    y = pairs.uniform(-6.0, 6.0, (n, 1))
    x = LatentFunctionProblem.r(y) + noise * pairs.randn(n, 1)
    y_task = task.uniform(-6.0, 6.0, (m, 1))
    x_task = LatentFunctionProblem.r(y_task) + noise * task.randn(m, 1)
    z_task = LatentFunctionProblem.f(x_task)[:, 0] + noise * task.randn(m)
    return LatentFunctionProblem(x, y, y_task, z_task)


def _through(at: np.ndarray, inputs: tuple[float, ...], outputs: tuple[float, ...]) -> np.ndarray:
    """Return the noiseless Gaussian-process mean (unit Gaussian kernel) through a few points, shaped like `at`."""
    kernel, knots = RBF(1.0), np.array(inputs)[:, None]
    weights = cholesky(kernel(knots), "the Gram matrix of the knots").solve(np.array(outputs))
    values = np.asarray(at, dtype=np.float64)
    return (kernel.gram(values.reshape(-1, 1), knots) @ weights).reshape(values.shape)
