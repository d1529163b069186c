"""One evaluation of the task-transformed log evidence with its gradient, against the operation count.

The yardstick is the time that the machine takes for the same number of operations as plain matrix products, in the
same run. The rival is the same formula written plainly in JAX and differentiated by JAX.
"""

from typing import Any

import numpy as np

from benchmarks.timing import best_time, best_times, matrix_products, product_count
from decond import kernels
from decond.regression import FunctionPrior, TaskTransformed, log_evidence_and_gradient


def operation_count(n: int, m: int) -> float:
    """Return the operations of value and gradient: n transformation rows, m task rows, full covariance.

    A product of general matrices counts 2 n m k, a Cholesky factorization n³/3, the inverse from it 2n³/3 and a
    solve with it 2n²m.
    """
    forward = n**3 / 3 + 2 * n**2 * m + 2 * n**2 * m + 2 * n * m**2 + m**3 / 3
    backward = 2 * m**3 / 3 + 2 * n * m**2 + 2 * n**2 * m + 2 * n * m**2 + 2 * n**2 * m + 2 * n**2 * m
    return forward + backward


def problem(n: int, m: int) -> tuple[Any, Any, Any, Any]:
    """Return tables (x, y, y_task, z_task) in two columns of x and one of y."""
    rng = np.random.default_rng(0)
    y, y_task = rng.uniform(-6, 6, (n, 1)), rng.uniform(-6, 6, (m, 1))
    x = np.hstack([np.sin(y), np.cos(y)]) + 0.25 * rng.standard_normal((n, 2))
    return x, y, y_task, np.sin(2 * y_task[:, 0]) + 0.25 * rng.standard_normal(m)


def plain_jax(x: Any, y: Any, y_task: Any, z: Any) -> Any:
    """Return a compiled function of (l_x, l_y, σ): the formula of Theorem 5.3 (3), differentiated by JAX."""
    import jax
    import jax.numpy as jnp

    def rbf(a: Any, b: Any, lengthscale: Any) -> Any:
        squared = (a**2).sum(1)[:, None] + (b**2).sum(1)[None, :] - 2 * a @ b.T
        return jnp.exp(-0.5 * squared / lengthscale**2)

    def log_evidence(parameters: Any, x: Any, y: Any, y_task: Any, z: Any) -> Any:
        length_x, length_y, sigma = parameters
        eye_n, eye_m = jnp.eye(len(x)), jnp.eye(len(z))
        L, L_tilde = rbf(y, y, length_y), rbf(y, y_task, length_y)
        R = jnp.linalg.cholesky(L + sigma**2 * eye_n)
        A = jax.scipy.linalg.cho_solve((R, True), L_tilde)
        Sigma = rbf(y_task, y_task, length_y) + sigma**2 * eye_m - L_tilde.T @ A
        S = A.T @ rbf(x, x, length_x) @ A + Sigma
        C = jnp.linalg.cholesky(S)
        white = jax.scipy.linalg.solve_triangular(C, z, lower=True)
        return -0.5 * white @ white - jnp.log(jnp.diag(C)).sum() - 0.5 * len(z) * jnp.log(2 * jnp.pi)

    compiled = jax.jit(jax.value_and_grad(log_evidence))

    def evaluate(parameters: Any) -> Any:
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, compiled(jnp.array(parameters), x, y, y_task, z))

    return evaluate


def run(n: int = 2000, m: int = 2000) -> dict[str, Any]:
    """Time both and check that they agree."""
    x, y, y_task, z = problem(n, m)
    prior = FunctionPrior(kernels.RBF(1.0))
    observation = TaskTransformed(x, y, y_task, kernels.RBF(0.7), noise=0.3)
    rival = plain_jax(x, y, y_task, z)

    value, gradient = log_evidence_and_gradient(prior, observation, z)
    rival_value, rival_gradient = rival([1.0, 0.7, 0.3])
    ours = [
        gradient[f"{path}"]
        for path in ("prior.kernel.lengthscale", "observation.kernel_y.lengthscale", "observation.noise")
    ]
    np.testing.assert_allclose(value, rival_value, rtol=1e-8)
    np.testing.assert_allclose(ours, rival_gradient, rtol=1e-6)

    operations = operation_count(n, m)
    times = best_times(
        {
            "us": lambda: log_evidence_and_gradient(prior, observation, z),
            "limit": matrix_products(operations),
        },
        repeats=9,
    )
    rival_seconds = best_time(lambda: rival([1.0, 0.7, 0.3]), repeats=3)
    limit = times["limit"] * operations / (2.0 * 2000**3 * product_count(operations))
    return {
        "benchmark": "evidence with gradient",
        "n": n,
        "m": m,
        "seconds": times["us"],
        "limit_seconds": limit,
        "plain_jax_seconds": rival_seconds,
        "times_the_limit": times["us"] / limit,
        "times_faster_than_plain_jax": rival_seconds / times["us"],
    }
