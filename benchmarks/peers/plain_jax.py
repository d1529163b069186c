"""The formula of Theorem 5.3 (3) written plainly in JAX, compiled, and differentiated by JAX."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from serving import maximize, serve

jax.config.update("jax_enable_x64", True)


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


def prepare(problem: dict[str, Any]) -> dict[str, Any]:
    tables = [jnp.asarray(problem[name]) for name in ("x", "y", "y_task", "z")]
    compiled = jax.jit(jax.value_and_grad(log_evidence))

    def evaluate(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = compiled(jnp.asarray(parameters), *tables)
        return float(value), np.asarray(gradient)

    def once() -> dict[str, Any]:
        value, gradient = evaluate(np.array(problem["parameters"]))
        return {"value": value, "gradient": gradient.tolist()}

    return {"evaluate": once, "fit": lambda: maximize(evaluate, problem["parameters"])}


if __name__ == "__main__":
    serve(prepare)
