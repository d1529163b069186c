"""The mediator of two tables: its columns of labels, whether the tables can be linked, and by what groups."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_rows, check_same_length, check_size, column_names
from decond.errors import ArgumentError, ArgumentTypeError, DataWarning
from decond.messages import warn

__all__ = [
    "SharedGroups",
    "label_columns",
    "linked_mediators",
    "mediator_of_numbers",
    "numeric_columns",
    "ranges_apart",
    "shared_groups",
    "spread",
    "varying_columns",
]


def label_columns(rows: NDArray[Any]) -> list[int]:
    """Return which columns hold labels: text, whole numbers beyond float64, or anything that is not a number."""
    if rows.dtype.kind == "f":
        return []
    return [j for j, column in enumerate(rows.T) if not all(map(_is_number, column))]


def _is_number(item: object) -> bool:
    return isinstance(item, float | np.floating) or (isinstance(item, int | np.integer) and abs(int(item)) <= 2**53)


def numeric_columns(rows: NDArray[Any]) -> list[int]:
    """Return the columns that hold numbers."""
    labels = label_columns(rows)
    return [j for j in range(rows.shape[1]) if j not in labels]


def varying_columns(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which columns of numbers change by more than rounding, as a mask."""
    values = values.astype(np.float64)
    tiny = np.finfo(float).tiny
    return np.asarray(values.std(axis=0) > 1e-12 * np.maximum(np.abs(values).max(axis=0), tiny))


def spread(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Return the standard deviation of each column of numbers; a column that never changes gets one."""
    values = rows.astype(np.float64)
    return np.where(varying_columns(values), values.std(axis=0), 1.0)


def linked_mediators(
    x: NDArray[Any],
    y: ArrayLike,
    y_task: ArrayLike,
    names: tuple[str, ...] = ("x", "y", "y_task"),
    whole: bool = True,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the mediator of pairs and of task rows; raise unless they can be compared and tell something.

    Parameters
    ----------
    x : ndarray of shape (n, d)
        Rows of the pairs.
    y : array_like of shape (n, e)
        Their mediator.
    y_task : array_like of shape (m, e)
        Mediator of the task rows.
    names : tuple of str
        What messages call the three.
    whole : bool
        Whether these are whole tables, whose ranges should overlap, and not some of their rows.

    Returns
    -------
    tuple of ndarray
        The two mediators as rows.
    """
    ours, theirs = column_names(y), column_names(y_task)
    if ours is not None and theirs is not None and list(ours) != list(theirs):
        raise ArgumentError(
            names[2],
            f"{names[1]} has the columns {list(ours)} but {names[2]} has {list(theirs)}; the mediator links the two "
            "tables, so both need the same columns in the same order.",
        )
    pairs, task = as_rows(y, names[1], labels=True), as_rows(y_task, names[2], labels=True)
    check_size(pairs, names[1], ours)
    check_size(task, names[2], theirs)
    _check_tables(x, pairs, task, names)
    if whole:
        for sentence in ranges_apart(pairs, task, names, ours):
            warn(DataWarning(names[2], sentence))
    return pairs, task


def ranges_apart(
    y: NDArray[Any],
    y_task: NDArray[Any],
    names: tuple[str, ...] = ("x", "y", "y_task"),
    columns: list[str] | None = None,
) -> list[str]:
    """Return a sentence for each column of numbers in which most task rows lie outside the range of the pairs.

    Parameters
    ----------
    y, y_task : ndarray of shape (n, e) and (m, e)
        Mediator of pairs and of task rows.
    names : tuple of str
        What the sentences call x, y and y_task.
    columns : list of str, optional
        Names of the columns.

    Examples
    --------
    >>> ranges_apart(np.array([[0.0], [1.0]]), np.array([[0.5], [1.0]]))
    []
    """
    sentences = []
    for j in numeric_columns(y):
        ours, theirs = y[:, j].astype(float), y_task[:, j].astype(float)
        inside = np.mean((theirs >= ours.min()) & (theirs <= ours.max()))
        if inside < 0.5:
            column = f"{columns[j] if columns else f'column {j}'} of " if columns or y.shape[1] > 1 else ""
            sentences.append(
                f"{1.0 - inside:.0%} of the task rows lie outside what the pairs tell of: {column}{names[2]} goes "
                f"from {theirs.min():.4g} to {theirs.max():.4g}, and {names[1]} from {ours.min():.4g} to "
                f"{ours.max():.4g}. Little is learned from such rows. Check that both are in the same units."
            )
    return sentences


def mediator_of_numbers(value: ArrayLike, name: str, taker: str) -> NDArray[np.float64]:
    """Return the mediator of a table for an estimator that takes numbers only; raise if it has labels.

    Parameters
    ----------
    value : array_like of shape (n, e)
        The mediator.
    name : str
        What messages call it.
    taker : str
        The estimator.
    """
    rows = as_rows(value, name, labels=True)
    labels = label_columns(rows)
    if labels:
        raise ArgumentTypeError(
            name,
            f"{name} holds labels (for example {rows[0, labels[0]]!r}); {taker} links tables by numbers only. Use "
            "TaskTransformedGP, or AggregateGP for means of groups.",
        )
    return as_rows(value, name)


def _check_tables(x: NDArray[Any], y: NDArray[Any], y_task: NDArray[Any], names: tuple[str, ...]) -> None:
    """Raise unless the mediator of the two tables can be compared and tells something."""
    check_same_length(y, names[1], len(x), names[0])
    if y_task.shape[1] != y.shape[1]:
        raise ArgumentError(
            names[2],
            f"{names[2]} has {y_task.shape[1]} column(s) but {names[1]} has {y.shape[1]}; the mediator links the two "
            "tables, so both need the same columns.",
        )
    if label_columns(y) != label_columns(y_task):
        raise ArgumentTypeError(
            names[2],
            "the mediator is text in one table and numbers in the other, so no two values would be equal. Convert "
            "both to text, or both to numbers.",
        )
    if len(x) < 2 or len(y_task) < 2:
        raise ArgumentError(
            names[0] if len(x) < 2 else names[2],
            f"there are {len(x)} pair(s) and {len(y_task)} task row(s); at least 2 of each are needed to learn from. "
            "Some tens of each are a good start.",
        )
    for j in label_columns(y):
        if not {*y[:, j]} & {*y_task[:, j]}:
            ours, theirs = (", ".join(sorted({str(label) for label in rows[:, j]})[:3]) for rows in (y, y_task))
            raise ArgumentError(
                names[2],
                f"{names[1]} and {names[2]} have no label in common ({ours}… in {names[1]}; {theirs}… in "
                f"{names[2]}). Check spelling, upper and lower case, and blanks.",
            )


class SharedGroups(NamedTuple):
    """The groups that two tables have in common."""

    rows: NDArray[np.bool_]
    """Which pairs belong to one of them, as a mask."""
    task: NDArray[np.bool_]
    """Which task rows belong to one of them, as a mask."""
    group: NDArray[np.intp]
    """The group of each of these pairs, from 0."""
    task_group: NDArray[np.intp]
    """The group of each of these task rows."""
    means: NDArray[np.float64]
    """The mean target of every group."""
    counts: NDArray[np.intp]
    """The number of task rows of every group."""


def shared_groups(y: NDArray[Any], y_task: NDArray[Any], z: NDArray[np.float64], least: int = 2) -> SharedGroups:
    """Match two tables by label; warn of rows whose label only one table has, which say nothing about f.

    Parameters
    ----------
    y : ndarray of shape (n, e)
        Labels of the pairs.
    y_task : ndarray of shape (m, e)
        Labels of the task rows.
    z : ndarray of shape (m,) or (m, t)
        Targets of the task rows.
    least : int
        How many labels the tables have to share.

    Returns
    -------
    SharedGroups
    """
    numbers: dict[tuple[object, ...], int] = {}
    codes = np.array([numbers.setdefault(tuple(row), len(numbers)) for table in (y, y_task) for row in table])
    pairs, task = codes[: len(y)], codes[len(y) :]
    shared = np.intersect1d(pairs, task)
    if len(shared) < least:
        ours, theirs = (sorted({str(row[0]) for row in table})[:5] for table in (y, y_task))
        raise ArgumentError(
            "y_task",
            f"y and y_task have {len(shared)} label(s) in common (y has {', '.join(ours)}…; y_task has "
            f"{', '.join(theirs)}…); at least {least} are needed. Check spelling, upper and lower case, and blanks.",
        )
    rows, task_rows = np.isin(pairs, shared), np.isin(task, shared)
    if not (rows.all() and task_rows.all()):
        warn(
            DataWarning(
                "y_task",
                f"{np.sum(~rows)} pair(s) and {np.sum(~task_rows)} task row(s) have a label that the other table "
                "does not have; they say nothing about f and are not used.",
            )
        )
    counts = np.array([np.sum(task == code) for code in shared])
    means = np.array([z[task == code].mean(axis=0) for code in shared])
    group, task_group = (np.searchsorted(shared, found) for found in (pairs[rows], task[task_rows]))
    return SharedGroups(rows, task_rows, group, task_group, means, counts)
