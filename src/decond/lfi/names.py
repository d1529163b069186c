"""Names of summaries in a store: the order in which a simulation first gives so many of them holds for all others."""

import json
import sqlite3
from collections.abc import Iterable, Sequence

from decond.errors import ArgumentError
from decond.lfi.execution import Result, in_order

__all__ = ["NAMED", "RAW", "forget_names", "in_first_order", "names_by_number", "told_in_order"]

SUMMARIES, RAW = "names of {} summaries", "names of {} raw values"
"""Keys of the header. Each number of values has an order of its own: one simulation may return too few."""

NAMED = f"SELECT value FROM header WHERE key LIKE '{SUMMARIES.format('%')}'"
"""Selects the names of summaries."""


def in_first_order(connection: sqlite3.Connection, results: Sequence[Result]) -> list[Result]:
    """Return results whose named values are in the order that came first, which is noted here; see `in_order`."""
    ordered = []
    for result in results:
        raw_names = _first(connection, RAW, result.raw_names, result)
        names = _first(connection, SUMMARIES, result.names, result)
        ordered.append(in_order(result, names, raw_names))
    return ordered


def told_in_order(connection: sqlite3.Connection, results: Sequence[Result]) -> list[Result]:
    """Return results made elsewhere in the first order; raise for other names, since a row is told only once."""
    ordered = in_first_order(connection, results)
    for i, (given, result) in enumerate(zip(results, ordered, strict=True)):
        if result.reason != given.reason:
            raise ArgumentError(
                "x",
                f"row {i} of x {result.reason}. Give the same names, or values without names, in that order; nothing "
                "of this call was recorded.",
            )
    return ordered


def names_by_number(found: Iterable[tuple[str]]) -> dict[int, list[str]]:
    """Return the names of summaries that `NAMED` selected, for each number of them that simulations returned."""
    orders = [json.loads(value) for (value,) in found]
    return {len(names): names for names in orders}


def forget_names(connection: sqlite3.Connection, results: Sequence[Result]) -> None:
    """Forget the names of summaries that were computed again, with these results, under other names or none."""
    now = {len(result.names): result.names for result in reversed(results) if result.names and not result.reason}
    for number, names in names_by_number(connection.execute(NAMED).fetchall()).items():
        if sorted(now.get(number, ())) != sorted(names):
            connection.execute("DELETE FROM header WHERE key = ?", (SUMMARIES.format(number),))


def _first(connection: sqlite3.Connection, key: str, names: Sequence[str] | None, result: Result) -> list[str] | None:
    """Return the first order of so many names; it is that of this result if there was none."""
    if names is None:
        return None
    key = key.format(len(names))
    if not result.reason:
        connection.execute("INSERT OR IGNORE INTO header VALUES (?, ?)", (key, json.dumps(names)))
    found = connection.execute("SELECT value FROM header WHERE key = ?", (key,)).fetchone()
    return None if found is None else list(json.loads(found[0]))
