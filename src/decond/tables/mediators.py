"""What two tables have in common: a mediator of numbers or labels, or groups."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from decond.tables.columns import DATE, Table, TableError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Mediators", "match_groups", "match_mediators"]

MOMENT = re.compile(rf"{DATE.pattern}(?:[T ]+\d{{1,2}}:\d{{2}}.*)?|\d{{4}}-\d{{2}}")
"""A date, perhaps with a time of day, or a month."""

MONTHS = 12
TWO_WAYS = "Dates are written in two ways: choose one, such as 2024-01-31 for days and 2024-01 for months."


class Mediators(NamedTuple):
    """The mediator columns of two tables, which rows of each are used, notes about those that are not, remarks.

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
    remarks: tuple[str, ...] = ()
    """How columns were understood, where that may be another way than was meant."""


def match_mediators(
    pairs: Table, task: Table, columns: Sequence[str], labels: bool = False, say_labels: str = "--labels"
) -> Mediators:
    """Return the mediator of both tables, and which rows of each are used: those whose labels the other table has.

    A column of numbers stays numbers unless `labels` says that they are names; text and dates are labels. Rows are
    left out only where all columns are labels, and a note says how many; at least one label has to be shared.
    `say_labels` is how the user says that numbers are names: errors advise it.

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
    numeric = {column: _both_numbers(pairs, task, column, labels, say_labels) for column in columns}
    y, y_task = (
        pd.concat([(table.numbers if numeric[c] else table.labels)([c]) for c in columns], axis=1)
        for table in (pairs, task)
    )
    names = [column for column in columns if not numeric[column]]
    for name in names:
        _check_order_of_dates(name, (pairs.name, y[name]), (task.name, y_task[name]))
    shared, shared_task = _shared(y[names], y_task[names])
    if names and not shared.any():
        raise _nothing_in_common(names, (pairs.name, y[names]), (task.name, y_task[names]))
    remarks = (
        () if labels else tuple(_dates_are_labels(c) for c in names if _are_dates(y[c]) and _are_dates(y_task[c]))
    )
    if len(names) < len(columns):
        return Mediators(y, y_task, np.full(len(y), True), np.full(len(y_task), True), [], remarks)
    notes = _left_out(pairs.name, shared, task.name, names) + _left_out(task.name, shared_task, pairs.name, names)
    about = _about_dates(names, (pairs.name, y[names]), (task.name, y_task[names])) if notes else ""
    return Mediators(y, y_task, shared, shared_task, [note + about for note in notes], remarks)


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
            "target. Is the table of groups the second one?",
            table=groups.name,
            column=column,
            value=str(repeated.iloc[0]),
        )
    return found


def _both_numbers(pairs: Table, task: Table, column: str, labels: bool, say_labels: str) -> bool:
    """Tell whether a mediator is compared as numbers; raise if the two tables disagree."""
    if labels:
        return False
    remedy = f" If these are labels, say {say_labels}."
    kinds = [table.reads_as_numbers(column, remedy) for table in (pairs, task)]
    if kinds[0] != kinds[1]:
        texts, numbers = (pairs, task) if kinds[1] else (task, pairs)
        raise TableError(
            f"column {column!r} holds numbers in {numbers.name} but text in {texts.name}. Make both alike, or say "
            f"{say_labels} if the numbers are names.",
            table=texts.name,
            column=column,
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
    remedy = _about_dates(columns, *tables) or " Write the labels alike in both tables, or name another column."
    return TableError(
        f"the two tables have no value of {', '.join(map(repr, columns))} in common: {seen}.{remedy}",
        column=", ".join(columns),
    )


def _are_dates(labels: "pd.Series") -> bool:
    """Tell whether all labels are dates, months or times."""
    return all(MOMENT.fullmatch(label) for label in labels.unique())


def _dates_are_labels(column: str) -> str:
    return (
        f"{column!r} holds dates, and these are labels: rows belong together where the date is the same, and dates "
        "near each other have nothing in common. To use time as a number, give a column with one, such as days since "
        "the first date."
    )


def _about_dates(columns: Sequence[str], *tables: tuple[str, "pd.DataFrame"]) -> str:
    """Return why dates of two tables do not meet: one says more, or they are written in two ways; else nothing.

    >>> import pandas as pd
    >>> hours, days = (pd.DataFrame({"day": [day]}) for day in ("2024-01-01T10:00", "2024-01-01"))
    >>> _about_dates(["day"], ("hours.csv", hours), ("days.csv", days))
    " In hours.csv 'day' says more than in days.csv ('2024-01-01T10:00'): keep its first 10 letters there."
    """
    [column, *more] = columns
    if more or not all(_are_dates(table[column]) for _, table in tables):
        return ""
    (one, first), (other, second) = ((name, set(table[column])) for name, table in tables)
    for fine, labels, coarse, known in ((one, first, other, second), (other, second, one, first)):
        length = max(map(len, known))
        longer = sorted(label for label in labels if len(label) > length and label[:length] in known)
        if longer:
            seen = f"In {fine} {column!r} says more than in {coarse} ({longer[0]!r})"
            return f" {seen}: keep its first {length} letters there."
    return "" if set(map(_way, first)) == set(map(_way, second)) else f" {TWO_WAYS}"


def _way(date: str) -> tuple[bool, str]:
    """Return how a date is written: whether the year stands first, and the sign behind its first part."""
    digits = re.match(r"\d+", date)
    end = digits.end() if digits else 0
    return end == 4, date[end : end + 1]


def _check_order_of_dates(column: str, *tables: tuple[str, "pd.Series"]) -> None:
    """Raise if days stand first in one table and months in the other: equal labels would be different days."""
    if not all(_are_dates(labels) for _, labels in tables):
        return
    seen = [[_with_day(labels, part) for part in (0, 1)] for _, labels in tables]
    for day, month in ((0, 1), (1, 0)):
        one, other = seen[0][day], seen[1][month]
        if one and other and not (seen[0][month] or seen[1][day]):
            (first, _), (second, _) = tables
            raise TableError(
                f"{column!r} is {one!r} in {first} and {other!r} in {second}: the day stands first in one table and "
                f"the month in the other. {TWO_WAYS}",
                column=column,
            )


def _with_day(dates: "pd.Series", part: int) -> str:
    """Return a date whose first or second part is no month, though the year stands last; nothing if there is none."""
    for date in dates.unique():
        fields = re.split(r"[./]", date)
        if len(fields) == 3 and len(fields[0]) < 4 and int(fields[part]) > MONTHS:
            return str(date)
    return ""
