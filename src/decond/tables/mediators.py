"""What two tables have in common: a mediator of numbers or labels, or groups."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from decond.tables.columns import Table, TableError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Mediators", "match_groups", "match_mediators"]


class Mediators(NamedTuple):
    """The mediator columns of two tables, which rows of each are used, and notes about those that are not.

    >>> import pandas as pd
    >>> pairs = Table(pd.DataFrame({"day": ["mon", "tue"]}), "pairs")
    >>> task = Table(pd.DataFrame({"day": ["mon", "wed"]}), "task")
    >>> found = match_mediators(pairs, task, ["day"], labels=True)
    >>> found.used, found.used_task
    (array([ True, False]), array([ True, False]))
    >>> found.notes[0]
    "1 of 2 rows of pairs is left out: task has no row with its 'day'."
    """

    y: "pd.DataFrame"
    y_task: "pd.DataFrame"
    used: np.ndarray
    used_task: np.ndarray
    notes: list[str]


def match_mediators(pairs: Table, task: Table, columns: Sequence[str], labels: bool = False) -> Mediators:
    """Return the mediator of both tables, and which rows of each are used: those whose labels the other table has.

    A column of numbers stays numbers unless `labels` says that they are names; text and dates are labels. Rows are
    left out only where all columns are labels, and a note says how many; at least one label has to be shared.

    >>> import pandas as pd
    >>> pairs = Table(pd.DataFrame({"day": ["1", "2"]}), "pairs.csv")
    >>> task = Table(pd.DataFrame({"day": ["2", "3", "2"]}), "task.csv")
    >>> found = match_mediators(pairs, task, ["day"], labels=True)
    >>> found.used.tolist(), found.used_task.tolist(), found.notes[1]
    ([False, True], [True, False, True], "1 of 3 rows of task.csv is left out: pairs.csv has no row with its 'day'.")
    """
    import pandas as pd

    for table in (pairs, task):
        table.check_columns(columns)
    numeric = {column: _both_numbers(pairs, task, column, labels) for column in columns}
    y, y_task = (
        pd.concat([(table.numbers if numeric[c] else table.labels)([c]) for c in columns], axis=1)
        for table in (pairs, task)
    )
    names = [column for column in columns if not numeric[column]]
    shared, shared_task = _shared(y[names], y_task[names])
    if names and not shared.any():
        raise _nothing_in_common(names, (pairs.name, y[names]), (task.name, y_task[names]))
    if len(names) < len(columns):
        return Mediators(y, y_task, np.full(len(y), True), np.full(len(y_task), True), [])
    notes = _left_out(pairs.name, shared, task.name, names) + _left_out(task.name, shared_task, pairs.name, names)
    return Mediators(y, y_task, shared, shared_task, notes)


def match_groups(rows: Table, groups: Table, column: str) -> Mediators:
    """Return the labels of rows and groups, and which of both are used; every group stands once.

    >>> import pandas as pd
    >>> rows = Table(pd.DataFrame({"day": ["1", "1", "2"]}), "rows.csv")
    >>> days = Table(pd.DataFrame({"day": ["1", "7"]}), "days.csv")
    >>> found = match_groups(rows, days, "day")
    >>> found.used.tolist(), found.used_task.tolist()
    ([True, True, False], [True, False])
    """
    found = match_mediators(rows, groups, [column], labels=True)
    repeated = found.y_task[column][found.y_task[column].duplicated()]
    if len(repeated):
        raise TableError(
            f"{groups.name} has more than one row with {column!r} = {repeated.iloc[0]!r}; every group has one "
            "target. Is the table of groups the second one?"
        )
    return found


def _both_numbers(pairs: Table, task: Table, column: str, labels: bool) -> bool:
    """Tell whether a mediator is compared as numbers; raise if the two tables disagree."""
    if labels:
        return False
    kinds = [table.reads_as_numbers(column) for table in (pairs, task)]
    if kinds[0] != kinds[1]:
        texts, numbers = (pairs, task) if kinds[1] else (task, pairs)
        raise TableError(
            f"column {column!r} holds numbers in {numbers.name} but text in {texts.name}. Make both alike, or say "
            "--labels if the numbers are names."
        )
    return kinds[0]


def _shared(one: "pd.DataFrame", other: "pd.DataFrame") -> tuple[np.ndarray, np.ndarray]:
    """Return which rows of each table have labels that the other has too."""
    rows = [list(table.itertuples(index=False, name=None)) for table in (one, other)]
    common = set(rows[0]) & set(rows[1])
    mine, theirs = (np.array([row in common for row in table], dtype=bool) for table in rows)
    return mine, theirs


def _left_out(name: str, used: np.ndarray, other: str, columns: Sequence[str]) -> list[str]:
    count = int(np.sum(~used))
    if not count:
        return []
    verb, whose = ("is", "its") if count == 1 else ("are", "their")
    labels = ", ".join(map(repr, columns))
    return [f"{count} of {len(used)} rows of {name} {verb} left out: {other} has no row with {whose} {labels}."]


def _nothing_in_common(columns: Sequence[str], *tables: tuple[str, "pd.DataFrame"]) -> TableError:
    examples = (table.drop_duplicates()[:3].itertuples(index=False, name=None) for _, table in tables)
    words = [", ".join(" ".join(map(repr, row)) for row in rows) for rows in examples]
    seen = " and ".join(f"{some}, … in {name}" for some, (name, _) in zip(words, tables, strict=True))
    return TableError(
        f"the two tables have no value of {', '.join(map(repr, columns))} in common: {seen}. Write the labels alike "
        "in both tables, or name another column."
    )
