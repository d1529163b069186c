"""Rows of the simulation store: how arrays are kept in them, and how rows become arrays again."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from decond.checks import check_same_length
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.exceptions import StoreDamagedError
from decond.lfi.execution import NOT_FINITE, Result, names_of, summarized
from decond.lfi.fingerprint import NONE, fingerprint
from decond.lfi.names import forget_names, in_first_order
from decond.lfi.plans import plans, write_plan
from decond.lfi.simulations import Simulations

__all__ = ["Record", "array", "assembled", "blob", "finish", "insert", "parameters", "resummarize", "told"]


class Record(NamedTuple):
    """One finished simulation as it is stored."""

    id: int
    round: str
    theta: bytes
    x: bytes
    raw: bytes | None
    raw_shape: str | None
    done: int
    reason: str
    seconds: float | None


def assembled(
    records: Sequence[Record],
    names: Sequence[str],
    width: int | None,
    summary_names: Mapping[int, Sequence[str]],
) -> Simulations:
    """Return rows as arrays. The length of x is `width`, or that of most rows, whichever came first.

    `summary_names` are those of each number of summaries.
    """
    lengths = Counter(len(record.x) // 8 for record in records if record.done)
    s = width or (lengths.most_common(1)[0][0] if lengths else 1)
    others = "most returned" if width is None else "the first round has"
    x = np.full((len(records), s), np.nan)
    reasons = [record.reason for record in records]
    valid = np.array([bool(record.done) and len(record.x) == 8 * s for record in records])
    for i, record in enumerate(records):
        if valid[i]:
            x[i] = array(record.x)
        elif record.done:
            reasons[i] = f"returned {len(record.x) // 8} values where {others} {s}"
    theta = parameters([record.theta for record in records], len(names))
    return Simulations(theta, x, valid, reasons, _raw(records, valid), names, summary_names.get(s))


def parameters(blobs: Sequence[bytes], dim: int) -> np.ndarray:
    """Return stored parameters as rows (n, dim)."""
    if any(len(item) != 8 * dim for item in blobs):
        raise StoreDamagedError(
            "the store is damaged: a row of parameters has the wrong length. Go back to a copy of it."
        )
    return array(b"".join(blobs)).reshape(len(blobs), dim)


def insert(connection: sqlite3.Connection, label: str, start: int, theta: np.ndarray, status: str) -> None:
    """Append rows of parameters to a round."""
    connection.executemany(
        "INSERT INTO simulations (round, row, theta, status) VALUES (?, ?, ?, ?)",
        ((label, row, blob(values), status) for row, values in enumerate(theta, start)),
    )


def finish(connection: sqlite3.Connection, where: str, which: tuple[Any, ...], result: Result) -> bool:
    """Write a result into the row that `which` selects; return whether there was one."""
    raw, shape = (None, None) if result.raw is None else (blob(result.raw), json.dumps(result.raw.shape))
    x = None if result.x is None else blob(result.x)
    status = "failed" if result.reason else "done"
    changed = connection.execute(
        "UPDATE simulations SET status = ?, x = ?, raw = ?, raw_shape = ?, reason = ?, seconds = ?, owner = NULL "
        f"WHERE {where}",
        (status, x, raw, shape, result.reason, result.seconds, *which),
    )
    return changed.rowcount == 1


def resummarize(connection: sqlite3.Connection, summarize: Callable[[np.ndarray], Any]) -> int:
    """Compute the summaries of all raw data again, and note by what; return how many there are."""
    found = connection.execute("SELECT id, raw, raw_shape, seconds FROM simulations WHERE raw IS NOT NULL").fetchall()
    results = [
        summarized(array(stored).reshape(json.loads(shape)), summarize)._replace(seconds=seconds)
        for _, stored, shape, seconds in found
    ]
    forget_names(connection, results)
    for (identifier, *_), result in zip(found, in_first_order(connection, results), strict=True):
        finish(connection, "id = ?", (identifier,), result)
    for label, plan in plans(connection):
        if plan.summary != NONE:
            write_plan(connection, label, plan._replace(summary=fingerprint(summarize)))
    return len(found)


def told(x: Any, reasons: Sequence[str] | None, n: int, partner: str) -> list[Result]:
    """Return results made elsewhere, each finite or with a reason, and with names where it has them."""
    rows, of_all = _told_rows(x), names_of(x, batch=True)
    check_same_length(rows, "x", n, partner)
    texts = [""] * n if reasons is None else list(reasons)
    check_same_length(texts, "reasons", n, partner)
    results = []
    for row, text in zip(rows, texts, strict=True):
        values, names = None if row is None else _told_values(row), of_all or names_of(row)
        if names is not None and (len(set(names)) < len(names) or (values is not None and len(values) != len(names))):
            raise ArgumentError(
                "x", f"x has a row with the names {', '.join(names)}; give each once, with one number."
            )
        usable = values is not None and values.size > 0 and np.isfinite(values).all()
        reason = text or ("" if usable else "no result" if values is None else NOT_FINITE)
        results.append(Result(values, None, reason, np.nan, names))
    return results


def _told_values(row: Any) -> np.ndarray:
    try:
        values = list(row.values()) if isinstance(row, Mapping) else row
        return np.atleast_1d(np.asarray(values, dtype=np.float64)).ravel()
    except (TypeError, ValueError, OverflowError):
        raise ArgumentTypeError(
            "x", f"x has the row {row!r}; give numbers, or None for a simulation that failed."
        ) from None


def _told_rows(x: Any) -> list[Any]:
    values = x.to_numpy() if hasattr(x, "to_numpy") else x
    if np.ndim(values) == 0 if isinstance(values, np.ndarray) else isinstance(values, str | bytes | dict):
        values = None
    try:
        return list(values)
    except TypeError:
        raise ArgumentTypeError(
            "x",
            f"x is {x!r}; give one row of summaries for each simulation, (n, s), for example [[0.5], [1.5]], with "
            "None for one that failed.",
        ) from None


def _raw(rows: Sequence[Record], valid: np.ndarray) -> np.ndarray | None:
    """Return raw data as one array, NaN where there are none; an array of arrays if their shapes differ."""
    arrays = [None if row.raw is None else array(row.raw).reshape(json.loads(row.raw_shape or "[]")) for row in rows]
    if not any(array is not None for array in arrays):
        return None
    shapes = {array.shape for array, use in zip(arrays, valid, strict=True) if array is not None and use}
    if len(shapes) == 1:
        shape = shapes.pop()
        return np.array([np.full(shape, np.nan) if a is None or a.shape != shape else a for a in arrays])
    ragged = np.empty(len(rows), dtype=object)
    ragged[:] = arrays
    return ragged


def blob(values: np.ndarray) -> bytes:
    """Return numbers as they are stored: float64, little-endian."""
    return np.ascontiguousarray(values, dtype="<f8").tobytes()


def array(stored: bytes) -> np.ndarray:
    """Return stored numbers."""
    return np.frombuffer(stored, dtype="<f8").astype(np.float64)
