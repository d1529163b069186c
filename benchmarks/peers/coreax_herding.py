"""Kernel herding by coreax, compiled, in float64, with the embedding's values given."""

from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import equinox as eqx  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from coreax import Data  # noqa: E402
from coreax.kernels import SquaredExponentialKernel  # noqa: E402
from coreax.solvers import KernelHerding  # noqa: E402
from coreax.solvers.coresubset import HerdingState  # noqa: E402
from serving import serve  # noqa: E402

BLOCK = 1000
"""Rows and columns of its initial sum of kernels that coreax holds at a time where all would not fit."""


def prepare(problem: dict[str, Any]) -> dict[str, Any]:
    candidates, state = Data(jnp.asarray(problem["candidates"])), HerdingState(jnp.asarray(problem["values"]))
    entries = len(problem["candidates"]) * problem["samples"]
    solver = KernelHerding(
        coreset_size=problem["samples"],
        kernel=SquaredExponentialKernel(length_scale=problem["lengthscale"]),
        unique=False,
        block_size=None if entries <= 10**8 else BLOCK,
    )
    reduce = eqx.filter_jit(solver.reduce)

    def evaluate() -> dict[str, Any]:
        coreset, _ = reduce(candidates, state)
        return {"chosen": coreset.unweighted_indices.tolist()}

    return {"evaluate": evaluate}


if __name__ == "__main__":
    serve(prepare)
