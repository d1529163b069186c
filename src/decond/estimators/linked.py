"""Two tables that are linked by a mediator: checked once, at the door of every estimator that takes them."""

from typing import Any

import numpy as np

from decond.checks import as_rows, check_same_length, column_names
from decond.errors import ArgumentError, ArgumentTypeError, DataWarning
from decond.estimators.defaults import label_columns
from decond.messages import warn

__all__ = ["linked_mediators", "mediator_of_numbers", "ranges_apart"]

NAMES = ("x", "y", "y_task")

LEAST_INSIDE = 0.5
"""Share of the task rows below which it is warned of those whose mediator lies outside the range of the pairs."""


def linked_mediators(
    x: np.ndarray, y: Any, y_task: Any, names: tuple[str, ...] = NAMES, whole: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mediator of pairs and of task rows; raise unless they can be compared and tell something.

    Numbers that hardly overlap are warned of, if these are the `whole` tables and not some of their rows. Messages
    call the tables by `names`.
    """
    _check_same_names(y, y_task, names)
    pairs, task = as_rows(y, names[1], labels=True), as_rows(y_task, names[2], labels=True)
    _check_tables(x, pairs, task, names)
    _check_labels_meet(pairs, task, names)
    if whole:
        for sentence in ranges_apart(pairs, task, names, column_names(y)):
            warn(DataWarning(names[2], sentence))
    return pairs, task


def ranges_apart(
    y: np.ndarray, y_task: np.ndarray, names: tuple[str, ...] = NAMES, columns: list[str] | None = None
) -> list[str]:
    """Return a sentence for each column of numbers in which most task rows lie outside the range of the pairs.

    >>> ranges_apart(np.array([[0.0], [1.0]]), np.array([[0.5], [1.0]]))
    []
    """
    sentences = []
    for j in sorted({*range(y.shape[1])} - {*label_columns(y)}):
        ours, theirs = y[:, j].astype(float), y_task[:, j].astype(float)
        inside = np.mean((theirs >= ours.min()) & (theirs <= ours.max()))
        if inside < LEAST_INSIDE:
            column = f"{columns[j] if columns else f'column {j}'} of " if columns or y.shape[1] > 1 else ""
            sentences.append(
                f"{1.0 - inside:.0%} of the task rows lie outside what the pairs tell of: {column}{names[2]} goes "
                f"from {theirs.min():.4g} to {theirs.max():.4g}, and {names[1]} from {ours.min():.4g} to "
                f"{ours.max():.4g}. Little is learned from such rows. Check that both are in the same units."
            )
    return sentences


def mediator_of_numbers(value: Any, name: str, taker: str) -> np.ndarray:
    """Return the mediator of a table for a `taker` that knows no labels; raise if it has any."""
    rows = as_rows(value, name, labels=True)
    labels = label_columns(rows)
    if labels:
        raise ArgumentTypeError(
            name,
            f"{name} holds labels (for example {rows[0, labels[0]]!r}); {taker} links tables by numbers only. Use "
            "TaskTransformedGP, or AggregateGP for means of groups.",
        )
    return as_rows(value, name)


def _check_tables(x: np.ndarray, y: np.ndarray, y_task: np.ndarray, names: tuple[str, ...]) -> None:
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


def _check_same_names(y: Any, y_task: Any, names: tuple[str, ...]) -> None:
    """Raise if both mediators have named columns, but not the same in the same order."""
    ours, theirs = column_names(y), column_names(y_task)
    if ours is not None and theirs is not None and list(ours) != list(theirs):
        raise ArgumentError(
            names[2],
            f"{names[1]} has the columns {list(ours)} but {names[2]} has {list(theirs)}; the mediator links the two "
            "tables, so both need the same columns in the same order.",
        )


def _check_labels_meet(y: np.ndarray, y_task: np.ndarray, names: tuple[str, ...]) -> None:
    """Raise if a column of labels has no value in common."""
    for j in label_columns(y):
        if not {*y[:, j]} & {*y_task[:, j]}:
            ours, theirs = (", ".join(sorted({str(label) for label in rows[:, j]})[:3]) for rows in (y, y_task))
            raise ArgumentError(
                names[2],
                f"{names[1]} and {names[2]} have no label in common ({ours}… in {names[1]}; {theirs}… in "
                f"{names[2]}). Check spelling, upper and lower case, and blanks.",
            )
