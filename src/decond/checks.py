"""The door: what users hand in becomes float64 arrays here, or an error that says what to do.

Code behind the door trusts its arguments. Every message names the argument, what was given, what is accepted
and the remedy.
"""

from collections.abc import Sized
from typing import Any

import numpy as np

__all__ = ["as_number", "as_row", "as_rows", "as_targets", "as_weights", "check_choice", "check_same_length"]


def as_rows(value: Any, name: str, *, labels: bool = False) -> np.ndarray:
    """Return points as rows: float64 of shape (n, d); a 1-D array is taken as (n, 1).

    With `labels` the entries may also be text or other labels, which are passed on as they are.

    >>> as_rows([1, 2, 3], "x").shape
    (3, 1)
    """
    rows = _as_array(value, name, labels)
    if rows.ndim == 0:
        raise ValueError(f"{name} is a single number; give rows of points, for example [[{value}]].")
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2:
        raise ValueError(
            f"{name} has {rows.ndim} dimensions (shape {rows.shape}); points are rows of a table with shape "
            f"(n, d). Reshape it, for example with {name}.reshape(len({name}), -1)."
        )
    if rows.shape[0] == 0 or rows.shape[1] == 0:
        raise ValueError(f"{name} is empty (shape {rows.shape}); give at least one row and one column.")
    if rows.dtype == np.float64:
        _check_finite(rows, name)
        return np.ascontiguousarray(rows)
    return rows


def as_row(value: Any, name: str, *, labels: bool = False) -> np.ndarray:
    """Return one point as a row (1, d): a number, a 1-D array of d values, or a single row of a table.

    >>> as_row([1.0, 2.0], "x").shape
    (1, 2)
    """
    array = _as_array(value, name, labels)
    rows = as_rows(array.reshape(1, -1) if array.ndim < 2 else array, name, labels=labels)
    if len(rows) != 1:
        raise ValueError(
            f"{name} has {len(rows)} rows; exactly one point is accepted here. Call once for each row, or use "
            "weights(...), which takes many."
        )
    return rows


def as_targets(value: Any, name: str, length: int, partner: str) -> np.ndarray:
    """Return targets as float64 of shape (length,) or (length, k)."""
    targets = _as_array(value, name, labels=False)
    if targets.ndim not in (1, 2) or targets.size == 0:
        raise ValueError(
            f"{name} has shape {targets.shape}; give one value for each row of {partner}, shape ({length},), or "
            f"several target columns, shape ({length}, k)."
        )
    check_same_length(targets, name, length, partner)
    _check_finite(targets, name)
    return targets


def as_weights(value: Any, name: str, length: int, partner: str) -> np.ndarray:
    """Return one finite weight for each row; weights may be negative. None means equal weights 1/length."""
    if value is None:
        return np.full(length, 1.0 / length)
    weights = as_targets(value, name, length, partner)
    if weights.ndim != 1:
        raise ValueError(f"{name} has shape {weights.shape}; give a flat array of {length} weights.")
    return weights


def as_number(value: Any, name: str, *, minimum: float = -np.inf, strict: bool = False, remedy: str = "") -> float:
    """Return a finite float that is at least `minimum` (or above it, if `strict`)."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}; a single number is needed.") from None
    if not np.isfinite(number) or number < minimum or (strict and number == minimum):
        accepted = "a finite number" if minimum == -np.inf else f"{'>' if strict else '>='} {minimum:g}"
        raise ValueError(f"{name} is {value!r}; it must be {accepted}.{' ' + remedy if remedy else ''}")
    return number


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> None:
    """Raise unless `value` is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; choose one of {', '.join(map(repr, choices))}.")


def check_same_length(value: Sized, name: str, length: int, partner: str) -> None:
    """Raise unless `value` has as many rows as its partner."""
    if len(value) != length:
        raise ValueError(
            f"{name} has {len(value)} rows but {partner} has {length}; they are paired row by row, so both need "
            "the same number. Check that no rows were dropped from one of them."
        )


def _as_array(value: Any, name: str, labels: bool) -> np.ndarray:
    """Convert to a float64 array, or to an array of labels where these are welcome."""
    array = np.asarray(value)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64, copy=False)
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        if labels:
            return array
    sample = array.ravel()[:1].tolist()
    raise TypeError(
        f"{name} holds values of type {array.dtype} (for example {sample[0] if sample else None!r}); numbers are "
        "needed. Convert the column to numbers, or use a Categorical kernel for labels."
    )


def _check_finite(array: np.ndarray, name: str) -> None:
    finite = np.isfinite(array)
    if finite.all():
        return
    where = np.argwhere(~finite)
    first = tuple(int(i) for i in where[0])
    position = f"row {first[0]}" + (f", column {first[1]}" if len(first) == 2 else "")
    raise ValueError(
        f"{name} has {len(where)} value(s) that are NaN or infinite, the first at {position} "
        f"({array[first]}). Remove or fill these rows first."
    )
