"""Gradients through kernels and features: where JAX runs (and in `decond.lfi.neural`).

Matrix algebra has its adjoints written by hand (`decond.linalg` and the modules above it); what they need
from here is the last step of the chain rule, from the adjoint of a Gram matrix to the kernel's parameters and
the points. It is elementwise work, so XLA compiles it in a fraction of a second and runs it in one fused pass.

Nothing here sees the caller's sizes. Adjoints are cut into tiles, edge tiles are padded with zeros (a zero
adjoint adds nothing to any gradient), and tile sides come from a short list; so the number of compilations
depends on the structure of the kernel and the number of columns only. (`gram_above` is the exception.)
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
    "device",
    "features_pullback",
    "gram_above",
    "gram_pullback",
    "in_float64",
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

MANY_ENTRIES = 2**19
"""Entries of a tile from which it pays to compile a second, faster way to the slope of a lengthscale."""

NEAR = 16.0
"""Distance from the center, in lengthscales, up to which that way loses less than three digits of sixteen."""

SHORTEST_KEPT = 0.05
"""Code that took at least this many seconds to compile is kept for the next process."""


PARAMETERS, PARAMETERS_AND_A, EVERYTHING = (0,), (0, 1), (0, 1, 2)
"""What a gradient is taken with respect to: parameters, the points a, the points b."""

Tile = tuple[slice, slice, np.ndarray]
"""Rows, columns, and the part of an adjoint that is there."""


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


def device() -> str:
    """Return what JAX computes on, in words, or why it does not; imports JAX.

    >>> device().split()[0] in ("cpu", "gpu", "tpu")
    True
    """
    try:
        import jax

        first = jax.devices()[0]
    except Exception as error:  # a broken driver must not keep anybody from asking for versions
        return f"none ({type(error).__name__}: {error})"
    kind = "" if first.device_kind.lower() == first.platform else f" ({first.device_kind})"
    return f"{first.platform}{kind}"


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Have JAX compute in float64 inside, whatever the caller's settings are, and keep what it compiles.

    >>> import jax
    >>> with in_float64():
    ...     one = jax.numpy.ones(1)
    >>> one.dtype.name
    'float64'
    """
    import jax

    _set_up()
    with jax.enable_x64(True):
        yield


def gram_pullback(
    kernel: Parametrized, a: np.ndarray, b: np.ndarray, adjoint: np.ndarray, *, points: bool = True
) -> Pullback:
    """Return the gradient of ``sum(adjoint * kernel.gram(a, b))``; without `points` it leaves theirs at zero.

    >>> from decond.kernels import RBF
    >>> pulled = gram_pullback(RBF(1.0), np.array([[0.0]]), np.array([[1.0]]), np.ones((1, 1)))
    >>> round(float(pulled.parameters["lengthscale"]), 4)  # d/dl exp(-1/2l²) at l = 1 is exp(-1/2)
    0.6065
    """
    a, b = _coded(a, b)
    return _pull_tiles(kernel, a, b, _tiles(adjoint), EVERYTHING if points else PARAMETERS)


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
    a, rows = _coded(a, rows)
    pulled = _pull_tiles(kernel, a, rows, _tiles(adjoint, tile), PARAMETERS_AND_A, tile)
    return pulled.parameters, pulled.a


def gram_above(kernel: Parametrized, a: np.ndarray, rows: np.ndarray, below: np.ndarray, width: int) -> np.ndarray:
    """Return ``kernel.gram(a, rows)`` with other rows (k, len(rows)) below it, for at most `width` rows, on one core.

    It is compiled for just these numbers of points and rows, which pays where there are many pieces of `width` rows.

    >>> from decond.kernels import Linear
    >>> gram_above(Linear(), np.array([[2.0]]), np.array([[3.0], [4.0]]), below=np.ones((1, 2)), width=2)
    array([[6., 8.],
           [1., 1.]])
    """
    a, rows = _coded(a, rows)
    compiled = _prepared(kernel, _gram_values())
    stack = compiled(a, _padded_rows(rows, width), _padded(below, (len(below), width)))
    return stack[:, : len(rows)]


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
    for span in _spans(len(rows), height):
        part = compiled(_padded(adjoint[span], (height, adjoint.shape[1])), _padded_rows(rows[span], height))
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
    a, _ = _coded(a, a)
    half = _pull_tiles(kernel, a, a, _half_tiles(adjoint), EVERYTHING if points else PARAMETERS)
    return Pullback(_added(half.parameters, half.parameters), 2.0 * half.a, 2.0 * half.b)


def traced_squared_distance(a: Any, b: Any, lengthscale: Any) -> Any:
    """Return squared scaled distances of traced rows, with a backward pass that keeps its precision.

    Values and the adjoint of the lengthscale come from differences, -2/l Σ D∘(Δ/l)² for an adjoint D, so neither
    repeated rows nor data that range over many lengthscales cost digits. Adjoints of the points come from matrix
    products, 2(r∘a - D b)/l² with r the row sums of D, in coordinates about a common center. So does that of the
    lengthscale in tiles of many rows (`MANY_ENTRIES`) within `NEAR` lengthscales of the center, where it is nearly as
    precise and takes half the time.

    >>> import jax
    >>> a, b = np.array([[0.0]]), np.array([[3.0]])
    >>> with jax.enable_x64(True):
    ...     slope = jax.grad(lambda scale: traced_squared_distance(a, b, scale).sum())(1.0)
    >>> float(slope)  # d/dl 9/l² at l = 1
    -18.0
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

    def spread_by_differences(a: Any, b: Any, lengthscale: Any, squared: Any, adjoint: Any) -> Any:
        """Σ D∘(Δ/l)², for each lengthscale."""
        if lengthscale.size == 1:
            return (adjoint * squared).sum().reshape(lengthscale.shape)
        return sums(tuple(adjoint * column for column in columns(a, b, lengthscale)))

    def spread_by_products(a: Any, lengthscale: Any, row_sums: Any, first: Any, second: Any) -> Any:
        """The same from the row sums of D, D b and D b²."""
        spread = (((row_sums * a - 2.0 * first) * a + second) / lengthscale**2).sum(axis=0)
        return spread.sum().reshape(lengthscale.shape) if lengthscale.size == 1 else spread

    def backward(saved: Any, adjoint: Any) -> Any:
        a, b, lengthscale, squared = saved
        by_differences = functools.partial(spread_by_differences, a, b, lengthscale, squared, adjoint)
        scale = jax.numpy.broadcast_to(lengthscale, (a.shape[1],))
        center, many = a.mean(axis=0), adjoint.size >= MANY_ENTRIES
        a, b = a - center, b - center
        factors = [jax.numpy.ones((len(b), 1)), b, b**2] if many else [jax.numpy.ones((len(b), 1)), b]
        row_products = adjoint @ jax.numpy.concatenate(factors, axis=1)
        row_sums, first, second = jax.numpy.split(row_products, [1, 1 + len(scale)], axis=1)
        if many:
            extent = jax.numpy.maximum(abs(a).max(axis=0), abs(b).max(axis=0)) / scale
            by_products = functools.partial(spread_by_products, a, lengthscale, row_sums, first, second)
            spread = jax.lax.cond(extent.max() < NEAR, by_products, by_differences)
        else:
            spread = by_differences()
        column_products = (_with_ones(a).T @ adjoint).T
        a_bar = 2.0 * (row_sums * a - first) / scale**2
        b_bar = 2.0 * (column_products[:, -1:] * b - column_products[:, :-1]) / scale**2
        return a_bar, b_bar, -2.0 * spread / lengthscale

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
    wanted: tuple[int, ...],
    tile: tuple[int, int] | None = None,
) -> Pullback:
    """Sum the pullbacks of tiles, on one core if the sides of the `tile` are given; what is not wanted stays zero."""
    parameters: dict[str, Any] = dict.fromkeys(flatten(kernel)[0], 0.0)
    totals = np.zeros(a.shape), np.zeros(b.shape)
    compiled = _prepared(kernel, _gram_gradient(tile is not None), wanted)
    for rows, columns, adjoint in tiles:
        height, width = adjoint.shape
        sides = tile or (_side(height), _side(width))
        arguments = _padded(adjoint, sides), _padded_rows(a[rows], sides[0]), _padded_rows(b[columns], sides[1])
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
            result = compiled(structure, *options, fresh, values, *(_aligned(array) for array in arrays))
            return jax.tree.map(np.asarray, result)

    return run


@functools.cache
def _set_up() -> None:
    """Have JAX run code on the thread that calls it, and keep what it compiled.

    By default it hands every call to a thread of its own. Where several threads call it side by side, each would then
    wait for another one to wake up, on another core with another cache. Once a process has used JAX, its way stays.
    """
    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)
    _keep_compiled_code()


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
    def gram_values(structure: Structure, parameters: Any, constants: Any, a: Any, b: Any, below: Any) -> Any:
        return jax.numpy.concatenate([unflatten(structure, parameters, constants).gram(a, b), below])

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


def _aligned(array: np.ndarray) -> np.ndarray:
    """Return the array in memory that JAX takes as it is; it hands what it has to copy to a thread of its own."""
    if array.ctypes.data % 64 == 0 and array.flags.c_contiguous:
        return array
    raw = np.empty(array.nbytes + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


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
