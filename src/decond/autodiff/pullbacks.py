"""From the adjoint of a Gram matrix, or of features, to the kernel's parameters and the points.

It is elementwise work, so XLA compiles it in a fraction of a second and runs it in one fused pass. Nothing here sees
the caller's sizes: adjoints are cut into tiles. (`gram_above` is the exception.)
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from decond.autodiff.running import in_float64
from decond.autodiff.tiles import Tile, aligned, coded, half_tiles, padded, padded_rows, side_for, spans, tiles
from decond.parameters import Parametrized, Structure, flatten, unflatten

__all__ = ["Pullback", "features_pullback", "gram_above", "gram_pullback", "rows_pullback", "symmetric_gram_pullback"]

COMPILER_OPTIONS = {"xla_cpu_prefer_vector_width": 512}
"""Registers as wide as the machine has them; XLA stops at 256 bits otherwise, which can take twice as long."""

ON_ONE_CORE = COMPILER_OPTIONS | {"xla_disable_hlo_passes": "cpu-parallel-task-assigner"}
"""For what several threads run side by side: a call that takes all cores would wait for those of the others."""

PARAMETERS, PARAMETERS_AND_A, EVERYTHING = (0,), (0, 1), (0, 1, 2)
"""What a gradient is taken with respect to: parameters, the points a, the points b."""


class Pullback(NamedTuple):
    """Gradients with respect to a module's parameters (by path) and to the two sets of points.

    >>> from decond.kernels import Linear
    >>> a, b = np.array([[2.0]]), np.array([[3.0]])
    >>> pulled = gram_pullback(Linear(), a, b, np.ones((1, 1)))  # of a·b
    >>> pulled.a, pulled.b
    (array([[3.]]), array([[2.]]))
    """

    parameters: dict[str, Any]
    a: np.ndarray
    b: np.ndarray


def gram_pullback(
    kernel: Parametrized, a: np.ndarray, b: np.ndarray, adjoint: np.ndarray, *, points: bool = True
) -> Pullback:
    """Return the gradient of ``sum(adjoint * kernel.gram(a, b))``; without `points` it leaves theirs at zero.

    >>> from decond.kernels import RBF
    >>> pulled = gram_pullback(RBF(1.0), np.array([[0.0]]), np.array([[1.0]]), np.ones((1, 1)))
    >>> round(float(pulled.parameters["lengthscale"]), 4)  # d/dl exp(-1/2l²) at l = 1 is exp(-1/2)
    0.6065
    """
    a, b = coded(a, b)
    return _pull_tiles(kernel, a, b, tiles(adjoint), EVERYTHING if points else PARAMETERS)


def rows_pullback(
    kernel: Parametrized, a: np.ndarray, rows: np.ndarray, adjoint: np.ndarray, tile: tuple[int, int]
) -> tuple[dict[str, Any], np.ndarray]:
    """Return the same gradient with respect to parameters and `a` only, for many fixed rows, on one core.

    All tiles have the sides of `tile`: who has many rows, or calls with many sizes, knows what is worth compiling.

    >>> from decond.kernels import Linear
    >>> rows = np.array([[3.0], [4.0]])
    >>> rows_pullback(Linear(), np.array([[2.0]]), rows, np.ones((1, 2)), tile=(1, 2))[1]
    array([[7.]])
    """
    a, rows = coded(a, rows)
    pulled = _pull_tiles(kernel, a, rows, tiles(adjoint, tile), PARAMETERS_AND_A, tile)
    return pulled.parameters, pulled.a


def gram_above(kernel: Parametrized, a: np.ndarray, rows: np.ndarray, below: np.ndarray, width: int) -> np.ndarray:
    """Return ``kernel.gram(a, rows)`` with other rows (k, len(rows)) below it, on one core.

    It always has `width` columns, with zeros after the last row: all pieces of a table then have one shape, which
    pays where there are many of them. It is compiled for just that shape.

    >>> from decond.kernels import Linear
    >>> gram_above(Linear(), np.array([[2.0]]), np.array([[3.0], [4.0]]), below=np.ones((1, 2)), width=3)
    array([[6., 8., 0.],
           [1., 1., 0.]])
    """
    a, rows = coded(a, rows)
    compiled = _prepared(kernel, _gram_values())
    there = np.arange(width) < len(rows)
    stack: np.ndarray = compiled(a, padded_rows(rows, width), padded(below, (len(below), width)), there)
    return stack


def features_pullback(features: Parametrized, rows: np.ndarray, adjoint: np.ndarray, height: int) -> dict[str, Any]:
    """Return the gradient of ``sum(adjoint * features.transform(rows))`` with respect to the parameters, by path.

    Rows are taken `height` at a time; code is compiled for that many.

    >>> from decond.features import RandomFourier
    >>> from decond.kernels import RBF
    >>> features, rows = RandomFourier(RBF(1.0), n_frequencies=2), np.array([[0.5]])
    >>> list(features_pullback(features, rows, np.ones((1, 4)), height=1))
    ['base.lengthscale']
    """
    total: dict[str, Any] = dict.fromkeys(flatten(features)[0], 0.0)
    compiled = _prepared(features, _feature_gradient())
    for span in spans(len(rows), height):
        part = compiled(padded(adjoint[span], (height, adjoint.shape[1])), padded_rows(rows[span], height))
        total = _added(total, part)
    return total


def symmetric_gram_pullback(
    kernel: Parametrized, a: np.ndarray, adjoint: np.ndarray, *, points: bool = True
) -> Pullback:
    """Return the gradient of ``sum(adjoint * kernel.gram(a, a))`` for a symmetric adjoint.

    Only the lower triangle of the adjoint is read. Both sets of points are `a`, so the gradient with respect to
    it is the sum of the two that are returned; without `points` they are zero.

    >>> from decond.kernels import Linear
    >>> pulled = symmetric_gram_pullback(Linear(), np.array([[3.0]]), np.ones((1, 1)))
    >>> pulled.a + pulled.b  # of a²
    array([[6.]])
    """
    a, _ = coded(a, a)
    half = _pull_tiles(kernel, a, a, half_tiles(adjoint), EVERYTHING if points else PARAMETERS)
    return Pullback(_added(half.parameters, half.parameters), 2.0 * half.a, 2.0 * half.b)


def _pull_tiles(
    kernel: Parametrized,
    a: np.ndarray,
    b: np.ndarray,
    pieces: Iterator[Tile],
    wanted: tuple[int, ...],
    tile: tuple[int, int] | None = None,
) -> Pullback:
    """Sum the pullbacks of tiles, on one core if the sides of the `tile` are given; what is not wanted stays zero."""
    parameters: dict[str, Any] = dict.fromkeys(flatten(kernel)[0], 0.0)
    totals = np.zeros(a.shape), np.zeros(b.shape)
    compiled = _prepared(kernel, _gram_gradient(tile is not None), wanted)
    for rows, columns, adjoint in pieces:
        height, width = adjoint.shape
        sides = tile or (side_for(height), side_for(width))
        arguments = padded(adjoint, sides), padded_rows(a[rows], sides[0]), padded_rows(b[columns], sides[1])
        gradient, *bars = compiled(*arguments)
        for total, span, bar in zip(totals, (rows, columns), bars, strict=False):
            total[span] += bar[: span.stop - span.start]
        parameters = _added(parameters, gradient)
    return Pullback(parameters, *totals)


def _prepared(kernel: Parametrized, compiled: Callable[..., Any], *options: Any) -> Callable[..., Any]:
    """Return a compiled function at a kernel, run in float64 whatever the caller's JAX settings are."""
    import jax

    parameters, constants, structure = flatten(kernel)

    def run(*arrays: np.ndarray) -> Any:
        fresh = {path: np.array(value) for path, value in parameters.items()}  # JAX remembers those seen in 32 bits
        with in_float64():
            values = [np.array(value) for value in constants]
            result = compiled(structure, *options, fresh, values, *(aligned(array) for array in arrays))
            return jax.tree.map(np.asarray, result)

    return run


@functools.cache
def _gram_gradient(on_one_core: bool) -> Callable[..., Any]:
    import jax

    options = ON_ONE_CORE if on_one_core else COMPILER_OPTIONS

    def contracted(parameters: Any, a: Any, b: Any, structure: Structure, constants: Any, adjoint: Any) -> Any:
        return (adjoint * unflatten(structure, parameters, constants).gram(a, b)).sum()

    @functools.partial(jax.jit, static_argnums=(0, 1), compiler_options=options)
    def gram_gradient(
        structure: Structure, wanted: tuple[int, ...], parameters: Any, constants: Any, adjoint: Any, a: Any, b: Any
    ) -> Any:
        return jax.grad(contracted, argnums=wanted)(parameters, a, b, structure, constants, adjoint)

    return gram_gradient


@functools.cache
def _feature_gradient() -> Callable[..., Any]:
    import jax

    def contracted(parameters: Any, structure: Structure, constants: Any, adjoint: Any, rows: Any) -> Any:
        return (adjoint * unflatten(structure, parameters, constants).transform(rows)).sum()

    @functools.partial(jax.jit, static_argnums=0, compiler_options=COMPILER_OPTIONS)
    def feature_gradient(structure: Structure, parameters: Any, constants: Any, adjoint: Any, rows: Any) -> Any:
        return jax.grad(contracted)(parameters, structure, constants, adjoint, rows)

    return feature_gradient


@functools.cache
def _gram_values() -> Callable[..., Any]:
    import jax

    @functools.partial(jax.jit, static_argnums=0, compiler_options=ON_ONE_CORE)
    def gram_values(
        structure: Structure, parameters: Any, constants: Any, a: Any, b: Any, below: Any, there: Any
    ) -> Any:
        gram = unflatten(structure, parameters, constants).gram(a, b)
        return jax.numpy.concatenate([jax.numpy.where(there, gram, 0.0), below])

    return gram_values


def _added(total: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    return {path: total[path] + value for path, value in part.items()}
