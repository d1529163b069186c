"""Gradients through kernels and features: the one place where JAX runs.

Matrix algebra has its adjoints written by hand (`decond.linalg` and the modules above it); what they need
from here is the last step of the chain rule, from the adjoint of a Gram matrix to the kernel's parameters and
the points. It is elementwise work, so XLA compiles it in a fraction of a second and runs it in one fused pass.

Nothing here sees the caller's sizes. Adjoints are cut into tiles, edge tiles are padded with zeros (a zero
adjoint adds nothing to any gradient), and tile sides come from a short list; so the number of compilations
depends on the structure of the kernel and the number of columns only.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from decond.backend import namespace
from decond.parameters import Parametrized, Structure, flatten, unflatten

__all__ = [
    "Pullback",
    "gram_pullback",
    "symmetric_gram_pullback",
    "traced_squared_distance",
]

SIDES = (16, 64, 256, 512)
"""The tile sides that code is compiled for."""


class Pullback(NamedTuple):
    """Gradients with respect to a module's parameters (by path) and to the two sets of points."""

    parameters: dict[str, Any]
    a: np.ndarray
    b: np.ndarray


def gram_pullback(kernel: Parametrized, a: np.ndarray, b: np.ndarray, adjoint: np.ndarray) -> Pullback:
    """Return the gradient of ``sum(adjoint * kernel.gram(a, b))``."""
    a, b = _coded(a, b)
    tiles = ((rows, columns, 1.0) for rows in _spans(len(a)) for columns in _spans(len(b)))
    return _pull_tiles(kernel, a, b, adjoint, tiles)


def symmetric_gram_pullback(kernel: Parametrized, a: np.ndarray, adjoint: np.ndarray) -> Pullback:
    """Return the gradient of ``sum(adjoint * kernel.gram(a, a))`` for a symmetric adjoint.

    Only the lower triangle of the adjoint is read. Both sets of points are `a`, so the gradient with respect to
    it is the sum of the two that are returned.
    """
    a, _ = _coded(a, a)
    spans = list(_spans(len(a)))
    tiles = ((rows, columns, 2.0) for i, rows in enumerate(spans) for columns in spans[:i])
    total = _pull_tiles(kernel, a, a, adjoint, tiles)
    for span in spans:
        block = np.tril(adjoint[span, span])
        block += np.tril(block, -1).T
        part = _pull_tiles(kernel, a[span], a[span], block, [(slice(0, len(block)), slice(0, len(block)), 1.0)])
        total.a[span] += part.a
        total.b[span] += part.b
        total = Pullback(_added(total.parameters, part.parameters), total.a, total.b)
    return total


def traced_squared_distance(a: Any, b: Any, lengthscale: Any) -> Any:
    """Return squared scaled distances of traced rows, with a backward pass that keeps its precision.

    Values and the adjoint of the lengthscale come from differences, -2/l Σ D∘(Δ/l)² for an adjoint D, so neither
    repeated rows nor data that range over many lengthscales cost digits. Adjoints of the points come from matrix
    products, 2(r∘a - D b)/l² with r the row sums of D, in coordinates about a common center.
    """
    import jax.numpy

    return _squared_distance()(a, b, jax.numpy.asarray(lengthscale, dtype=a.dtype))


@functools.cache
def _squared_distance() -> Callable[..., Any]:
    import jax

    def column(a: Any, b: Any, scale: Any, j: int) -> Any:
        return ((a[:, None, j] - b[None, :, j]) / scale[j]) ** 2

    @jax.custom_vjp
    def squared_distance(a: Any, b: Any, lengthscale: Any) -> Any:
        scale = jax.numpy.broadcast_to(lengthscale, (a.shape[1],))
        return sum(column(a, b, scale, j) for j in range(a.shape[1]))

    def forward(a: Any, b: Any, lengthscale: Any) -> Any:
        squared = squared_distance(a, b, lengthscale)
        return squared, (a, b, lengthscale, squared)

    def backward(saved: Any, adjoint: Any) -> Any:
        a, b, lengthscale, squared = saved
        scale = jax.numpy.broadcast_to(lengthscale, (a.shape[1],))
        if lengthscale.size == 1:
            sums = (adjoint * squared).sum().reshape(lengthscale.shape)
        else:
            sums = jax.numpy.stack([(adjoint * column(a, b, scale, j)).sum() for j in range(a.shape[1])])
        scale_bar = -2.0 * sums / lengthscale
        center = a.mean(axis=0)
        a, b = a - center, b - center
        row_products = adjoint @ _with_ones(b)  # the products and, last, the row sums, in one pass
        column_products = (_with_ones(a).T @ adjoint).T
        a_bar = 2.0 * (row_products[:, -1:] * a - row_products[:, :-1]) / scale**2
        b_bar = 2.0 * (column_products[:, -1:] * b - column_products[:, :-1]) / scale**2
        return a_bar, b_bar, scale_bar

    squared_distance.defvjp(forward, backward)
    return squared_distance


def _with_ones(rows: Any) -> Any:
    xp = namespace(rows)
    return xp.concatenate([rows, xp.ones((rows.shape[0], 1))], axis=1)


def _pull_tiles(kernel: Parametrized, a: np.ndarray, b: np.ndarray, adjoint: np.ndarray, tiles: Any) -> Pullback:
    """Sum the pullbacks of tiles, given as (rows, columns, multiplicity)."""
    parameters: dict[str, Any] = dict.fromkeys(flatten(kernel)[0], 0.0)
    a_total, b_total = np.zeros(a.shape), np.zeros(b.shape)
    for rows, columns, multiplicity in tiles:
        height, width = rows.stop - rows.start, columns.stop - columns.start
        sides = _side(height), _side(width)
        tile = _padded(adjoint[rows, columns], sides)
        arguments = tile, _padded_rows(a[rows], sides[0]), _padded_rows(b[columns], sides[1])
        gradient, a_bar, b_bar = _run(kernel, _gram_gradient(), *arguments)
        a_total[rows] += multiplicity * a_bar[:height]
        b_total[columns] += multiplicity * b_bar[:width]
        parameters = _added(parameters, gradient, multiplicity)
    return Pullback(parameters, a_total, b_total)


def _run(kernel: Parametrized, compiled: Callable[..., Any], *arrays: np.ndarray) -> Any:
    """Call a compiled gradient in float64, whatever the caller's JAX settings are."""
    import jax

    parameters, constants, structure = flatten(kernel)
    fresh = {
        path: np.array(value) for path, value in parameters.items()
    }  # JAX remembers arrays it has seen in 32 bits
    with jax.enable_x64(True):
        result = compiled(structure, fresh, [np.array(value) for value in constants], *arrays)
        return jax.tree.map(np.asarray, result)


@functools.cache
def _gram_gradient() -> Callable[..., Any]:
    import jax

    def contracted(parameters: Any, a: Any, b: Any, structure: Structure, constants: Any, adjoint: Any) -> Any:
        return (adjoint * unflatten(structure, parameters, constants).gram(a, b)).sum()

    @functools.partial(jax.jit, static_argnums=0)
    def gram_gradient(structure: Structure, parameters: Any, constants: Any, adjoint: Any, a: Any, b: Any) -> Any:
        return jax.grad(contracted, argnums=(0, 1, 2))(parameters, a, b, structure, constants, adjoint)

    return gram_gradient


def _spans(length: int) -> Iterator[slice]:
    for start in range(0, length, SIDES[-1]):
        yield slice(start, min(start + SIDES[-1], length))


def _side(length: int) -> int:
    return next(side for side in SIDES if side >= length)


def _padded(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if array.shape == shape:
        return np.ascontiguousarray(array)
    padded = np.zeros(shape)
    padded[tuple(slice(0, size) for size in array.shape)] = array
    return padded


def _padded_rows(rows: np.ndarray, height: int) -> np.ndarray:
    """Repeat the first row, so that padding never leaves the region where the kernel is defined."""
    if len(rows) == height:
        return rows
    return np.concatenate([rows, np.broadcast_to(rows[:1], (height - len(rows), rows.shape[1]))])


def _coded(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Replace labels by whole numbers, equal where the labels are; columns of numbers stay. JAX takes no text."""
    if a.dtype.kind == "f" and b.dtype.kind == "f":
        return a, b
    both = np.concatenate([a.astype(object), b.astype(object)])
    coded = np.empty(both.shape)
    for j, column in enumerate(both.T):
        if any(isinstance(label, str) for label in column):
            codes: dict[Any, int] = {}
            coded[:, j] = [codes.setdefault(label, len(codes)) for label in column]
        else:
            coded[:, j] = column.astype(np.float64)
    return coded[: len(a)], coded[len(a) :]


def _added(total: dict[str, Any], part: dict[str, Any], multiplicity: float = 1.0) -> dict[str, Any]:
    return {path: total.get(path, 0.0) + multiplicity * value for path, value in part.items()}
