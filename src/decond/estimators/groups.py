"""Tables linked by a label: rows that belong to groups, and one or several targets for each group."""

from typing import Any, NamedTuple

import numpy as np

from decond.errors import ArgumentError, DataWarning
from decond.messages import warn

__all__ = ["SharedGroups", "shared_groups"]


class SharedGroups(NamedTuple):
    """The groups that two tables have in common."""

    rows: np.ndarray
    """Which pairs belong to one of them, as a mask."""
    task: np.ndarray
    """Which task rows belong to one of them, as a mask."""
    group: np.ndarray
    """The group of each of these pairs, from 0."""
    task_group: np.ndarray
    """The group of each of these task rows."""
    means: np.ndarray
    """The mean target of every group."""
    counts: np.ndarray
    """The number of task rows of every group."""


def shared_groups(y: np.ndarray, y_task: np.ndarray, z: np.ndarray, least: int = 2) -> SharedGroups:
    """Match two tables by label, of which they have to share so many at `least`.

    Rows and targets of labels that only one table has say nothing about f; a warning tells how many there are.
    """
    codes = _codes(y, y_task)
    pairs, task = codes[: len(y)], codes[len(y) :]
    shared = np.intersect1d(pairs, task)
    _check_shared(shared, y, y_task, least)
    rows, task_rows = np.isin(pairs, shared), np.isin(task, shared)
    _warn_of_strangers(rows, task_rows)
    counts = np.array([np.sum(task == code) for code in shared])
    means = np.array([z[task == code].mean(axis=0) for code in shared])
    group, task_group = (np.searchsorted(shared, codes) for codes in (pairs[rows], task[task_rows]))
    return SharedGroups(rows, task_rows, group, task_group, means, counts)


def _codes(y: np.ndarray, y_task: np.ndarray) -> np.ndarray:
    """Return a whole number for each row, equal where all label columns are."""
    numbers: dict[Any, int] = {}
    rows = (tuple(row) for table in (y, y_task) for row in table)
    return np.array([numbers.setdefault(row, len(numbers)) for row in rows])


def _check_shared(shared: np.ndarray, y: np.ndarray, y_task: np.ndarray, least: int) -> None:
    if len(shared) < least:
        ours, theirs = (sorted({str(row[0]) for row in table})[:5] for table in (y, y_task))
        raise ArgumentError(
            "y_task",
            f"y and y_task have {len(shared)} label(s) in common (y has {', '.join(ours)}…; y_task has "
            f"{', '.join(theirs)}…); at least {least} are needed. Check spelling, upper and lower case, and blanks.",
        )


def _warn_of_strangers(pairs: np.ndarray, task: np.ndarray) -> None:
    if pairs.all() and task.all():
        return
    warn(
        DataWarning(
            "y_task",
            f"{np.sum(~pairs)} pair(s) and {np.sum(~task)} task row(s) have a label that the other table does not "
            "have; they say nothing about f and are not used.",
        )
    )
