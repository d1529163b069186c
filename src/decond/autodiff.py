"""Gradients through kernels and features: the one place where JAX runs.

Matrix algebra has its adjoints written by hand (`decond.linalg` and the modules above it); what they need
from here is the last step of the chain rule, from the adjoint of a Gram matrix to the kernel's parameters and
the points. It is elementwise work, so XLA compiles it in a fraction of a second and runs it in one fused pass.

Nothing here sees the caller's sizes. Adjoints are cut into tiles, edge tiles are padded with zeros (a zero
adjoint adds nothing to any gradient), and tile sides come from a short list; so the number of compilations
depends on the structure of the kernel and the number of columns only.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from decond.backend import namespace
from decond.parameters import Parametrized, Structure, flatten, unflatten

__all__ = [
    "Pullback",
    "features_pullback",
    "fill_gram",
    "gram_pullback",
    "rows_pullback",
    "symmetric_gram_pullback",
    "traced_squared_distance",
]

SIDES = (16, 64, 256, 512)
"""The tile sides that code is compiled for, unless others are asked for."""

COMPILER_OPTIONS = {"xla_cpu_prefer_vector_width": 512}
"""Registers as wide as the machine has them; XLA stops at 256 bits otherwise, which can take twice as long."""

ON_ONE_CORE = COMPILER_OPTIONS | {"xla_disable_hlo_passes": "cpu-parallel-task-assigner"}
"""For what several threads run side by side: a call that takes all cores would wait for those of the others."""

SHORTEST_KEPT = 0.05
"""Code that took at least this many seconds to compile is kept for the next process."""


Tile = tuple[slice, slice, np.ndarray]
"""Rows, columns, and the part of an adjoint that is there."""


class Pullback(NamedTuple):
    """Gradients with respect to a module's parameters (by path) and to the two sets of points."""

    parameters: dict[str, Any]
    a: np.ndarray
    b: np.ndarray


def gram_pullback(kernel: Parametrized, a: np.ndarray, b: np.ndarray, adjoint: np.ndarray) -> Pullback:
    """Return the gradient of ``sum(adjoint * kernel.gram(a, b))``."""
    a, b = _coded(a, b)
    return _pull_tiles(kernel, a, b, _tiles(adjoint))


def rows_pullback(
    kernel: Parametrized, a: np.ndarray, rows: np.ndarray, adjoint: np.ndarray, tile: tuple[int, int]
) -> tuple[dict[str, Any], np.ndarray]:
    """Return the same gradient with respect to parameters and `a` only, for many fixed rows, on one core.

    All tiles have the sides of `tile`: who has many rows, or calls with many sizes, knows what is worth compiling.
    """
    a, rows = _coded(a, rows)
    pulled = _pull_tiles(kernel, a, rows, _tiles(adjoint, tile), tile)
    return pulled.parameters, pulled.a


def fill_gram(kernel: Parametrized, a: np.ndarray, b: np.ndarray, out: np.ndarray, tile: tuple[int, int]) -> None:
    """Write ``kernel.gram(a, b)`` into `out`, tile by tile on one core: compiled, which pays where rows are many."""
    a, b = _coded(a, b)
    compiled = _prepared(kernel, _gram_values())
    for rows, columns in _grid(len(a), len(b), tile):
        gram = compiled(_padded_rows(a[rows], tile[0]), _padded_rows(b[columns], tile[1]))
        out[rows, columns] = gram[: rows.stop - rows.start, : columns.stop - columns.start]


def features_pullback(features: Parametrized, rows: np.ndarray, adjoint: np.ndarray, height: int) -> dict[str, Any]:
    """Return the gradient of ``sum(adjoint * features.transform(rows))`` with respect to the parameters, by path.

    Rows are taken `height` at a time; code is compiled for that many.
    """
    total: dict[str, Any] = dict.fromkeys(flatten(features)[0], 0.0)
    compiled = _prepared(features, _feature_gradient())
    for span in _spans(len(rows), height):
        part = compiled(_padded(adjoint[span], (height, adjoint.shape[1])), _padded_rows(rows[span], height))
        total = _added(total, part)
    return total


def symmetric_gram_pullback(kernel: Parametrized, a: np.ndarray, adjoint: np.ndarray) -> Pullback:
    """Return the gradient of ``sum(adjoint * kernel.gram(a, a))`` for a symmetric adjoint.

    Only the lower triangle of the adjoint is read. Both sets of points are `a`, so the gradient with respect to
    it is the sum of the two that are returned.
    """
    a, _ = _coded(a, a)
    half = _pull_tiles(kernel, a, a, _half_tiles(adjoint))
    return Pullback(_added(half.parameters, half.parameters), 2.0 * half.a, 2.0 * half.b)


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

    def columns(a: Any, b: Any, lengthscale: Any) -> Any:
        rate = 1.0 / jax.numpy.broadcast_to(lengthscale, (a.shape[1],))
        return tuple(((a[:, None, j] - b[None, :, j]) * rate[j]) ** 2 for j in range(a.shape[1]))

    def sums(values: Any) -> Any:
        """Sum several arrays in one loop, which XLA does not find by itself; first along the rows."""
        zeros = (values[0].dtype.type(0.0),) * len(values)
        parts = jax.lax.reduce(values, zeros, lambda x, y: tuple(p + q for p, q in zip(x, y, strict=True)), (1,))
        return jax.numpy.stack(parts).sum(axis=1)

    @jax.custom_vjp
    def squared_distance(a: Any, b: Any, lengthscale: Any) -> Any:
        return sum(columns(a, b, lengthscale))

    def forward(a: Any, b: Any, lengthscale: Any) -> Any:
        squared = squared_distance(a, b, lengthscale)
        return squared, (a, b, lengthscale, squared)

    def backward(saved: Any, adjoint: Any) -> Any:
        a, b, lengthscale, squared = saved
        scale = jax.numpy.broadcast_to(lengthscale, (a.shape[1],))
        if lengthscale.size == 1:
            spread = (adjoint * squared).sum().reshape(lengthscale.shape)
        else:
            spread = sums(tuple(adjoint * column for column in columns(a, b, lengthscale)))
        scale_bar = -2.0 * spread / lengthscale
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


def _pull_tiles(
    kernel: Parametrized,
    a: np.ndarray,
    b: np.ndarray,
    tiles: Iterator[Tile],
    tile: tuple[int, int] | None = None,
) -> Pullback:
    """Sum the pullbacks of tiles; with a `tile` (its sides), b is fixed."""
    parameters: dict[str, Any] = dict.fromkeys(flatten(kernel)[0], 0.0)
    a_total, b_total = np.zeros(a.shape), np.zeros(b.shape)
    gradient_of, wanted = (_gram_gradient(), (0, 1, 2)) if tile is None else (_gram_gradient(True), (0, 1))
    compiled = _prepared(kernel, gradient_of, wanted)
    for rows, columns, adjoint in tiles:
        height, width = adjoint.shape
        sides = tile or (_side(height), _side(width))
        arguments = _padded(adjoint, sides), _padded_rows(a[rows], sides[0]), _padded_rows(b[columns], sides[1])
        gradient, a_bar, *b_bar = compiled(*arguments)
        a_total[rows] += a_bar[:height]
        for bar in b_bar:
            b_total[columns] += bar[:width]
        parameters = _added(parameters, gradient)
    return Pullback(parameters, a_total, b_total)


def _prepared(kernel: Parametrized, compiled: Callable[..., Any], *options: Any) -> Callable[..., Any]:
    """Return a compiled function at a kernel, run in float64 whatever the caller's JAX settings are."""
    import jax

    _keep_compiled_code()
    parameters, constants, structure = flatten(kernel)

    def run(*arrays: np.ndarray) -> Any:
        fresh = {path: np.array(value) for path, value in parameters.items()}  # JAX remembers those seen in 32 bits
        with jax.enable_x64(True):
            result = compiled(structure, *options, fresh, [np.array(value) for value in constants], *arrays)
            return jax.tree.map(np.asarray, result)

    return run


@functools.cache
def _keep_compiled_code() -> None:
    """Have JAX keep compiled code in the user's cache folder, so that the next process need not compile again.

    Where a folder is set already it stays; ``DECOND_COMPILATION_CACHE=off`` leaves JAX as it is.
    """
    import jax

    if jax.config.jax_compilation_cache_dir or os.environ.get("DECOND_COMPILATION_CACHE") == "off":  # type: ignore[attr-defined]
        return
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "decond" / "compiled"
    with contextlib.suppress(OSError, RuntimeError):  # no home, or nowhere to write: compile every time
        folder.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST_KEPT)


@functools.cache
def _gram_gradient(on_one_core: bool = False) -> Callable[..., Any]:
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
    def gram_values(structure: Structure, parameters: Any, constants: Any, a: Any, b: Any) -> Any:
        return unflatten(structure, parameters, constants).gram(a, b)

    return gram_values


def _grid(height: int, width: int, tile: tuple[int, int] | None = None) -> list[tuple[slice, slice]]:
    """Return the rows and columns of all tiles."""
    sides = tile or (SIDES[-1], SIDES[-1])
    return [(rows, columns) for rows in _spans(height, sides[0]) for columns in _spans(width, sides[1])]


def _tiles(adjoint: np.ndarray, tile: tuple[int, int] | None = None) -> Iterator[Tile]:
    for rows, columns in _grid(adjoint.shape[0], adjoint.shape[1], tile):
        yield rows, columns, adjoint[rows, columns]


def _half_tiles(adjoint: np.ndarray) -> Iterator[Tile]:
    """Yield the tiles of the lower triangle, with half of the diagonal."""
    spans = list(_spans(len(adjoint), SIDES[-1]))
    for i, rows in enumerate(spans):
        for columns in spans[:i]:
            yield rows, columns, adjoint[rows, columns]
        corner = np.tril(adjoint[rows, rows])
        corner[np.diag_indices(len(corner))] *= 0.5
        yield rows, rows, corner


def _spans(length: int, side: int) -> Iterator[slice]:
    for start in range(0, length, side):
        yield slice(start, min(start + side, length))


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


def _added(total: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    return {path: total[path] + value for path, value in part.items()}
