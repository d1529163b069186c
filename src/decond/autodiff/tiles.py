"""Adjoints in tiles of a few sizes, and arrays as compiled code takes them.

Edge tiles are padded with zeros (a zero adjoint adds nothing to any gradient), and tile sides come from a short list;
so the number of compilations depends on the structure of the kernel and the number of columns only.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["Tile", "aligned", "coded", "half_tiles", "padded", "padded_rows", "side_for", "spans", "tiles"]

SIDES = (16, 64, 256, 512)
"""The tile sides that code is compiled for, unless others are asked for."""

Tile = tuple[slice, slice, np.ndarray]
"""Rows, columns, and the part of an adjoint that is there."""


def _grid(height: int, width: int, tile: tuple[int, int] | None = None) -> list[tuple[slice, slice]]:
    """Return the rows and columns of all tiles."""
    sides = tile or (SIDES[-1], SIDES[-1])
    return [(rows, columns) for rows in spans(height, sides[0]) for columns in spans(width, sides[1])]


def tiles(adjoint: np.ndarray, tile: tuple[int, int] | None = None) -> Iterator[Tile]:
    """Yield all tiles, with the sides of `tile` or else the largest ones."""
    for rows, columns in _grid(adjoint.shape[0], adjoint.shape[1], tile):
        yield rows, columns, adjoint[rows, columns]


def half_tiles(adjoint: np.ndarray) -> Iterator[Tile]:
    """Yield the tiles of the lower triangle, with half of the diagonal."""
    bands = list(spans(len(adjoint), SIDES[-1]))
    for i, rows in enumerate(bands):
        for columns in bands[:i]:
            yield rows, columns, adjoint[rows, columns]
        corner = np.tril(adjoint[rows, rows])
        corner[np.diag_indices(len(corner))] *= 0.5
        yield rows, rows, corner


def spans(length: int, side: int) -> Iterator[slice]:
    """Yield slices of `side` numbers that make up `length`; the last one may be shorter."""
    for start in range(0, length, side):
        yield slice(start, min(start + side, length))


def side_for(length: int) -> int:
    """Return the smallest side that holds so many numbers."""
    return next(side for side in SIDES if side >= length)


def aligned(array: np.ndarray) -> np.ndarray:
    """Return the array in memory that JAX takes as it is; it hands what it has to copy to a thread of its own."""
    if array.ctypes.data % 64 == 0 and array.flags.c_contiguous:
        return array
    raw = np.empty(array.nbytes + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def padded(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the array with zeros after its end in every direction."""
    if array.shape == shape:
        return np.ascontiguousarray(array)
    larger = np.zeros(shape)
    larger[tuple(slice(0, size) for size in array.shape)] = array
    return larger


def padded_rows(rows: np.ndarray, height: int) -> np.ndarray:
    """Repeat the first row, so that padding never leaves the region where the kernel is defined."""
    if len(rows) == height:
        return rows
    return np.concatenate([rows, np.broadcast_to(rows[:1], (height - len(rows), rows.shape[1]))])


def coded(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
