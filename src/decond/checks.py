"""The door: what users hand in becomes float64 arrays here, or an error that says what to do.

Code behind the door trusts its arguments. Every message names the argument, what was given, what is accepted
and the remedy.
"""

import datetime
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, SupportsFloat, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from decond.errors import ArgumentError, ArgumentTypeError

__all__ = [
    "SIZES",
    "SizeSettings",
    "as_count",
    "as_deviation",
    "as_generator",
    "as_labels",
    "as_number",
    "as_row",
    "as_rows",
    "as_seed",
    "as_targets",
    "as_values",
    "as_weights",
    "check_answer",
    "check_choice",
    "check_column_names",
    "check_finite",
    "check_same_length",
    "check_size",
    "check_text",
    "column_names",
    "frozen",
    "order_of_rows",
    "value_names",
]

Seed = int | np.random.Generator | None
"""What starts a random generator; None is 0."""


@dataclass(frozen=True)
class SizeSettings:
    """How large the numbers are that models compute with.

    Fits divide targets by their deviation and the noise by that: the square of any such ratio is then a float64.

    >>> SizeSettings().largest
    1e+60
    """

    smallest: float = 1e-60
    """The largest number of a column is at least this, unless all of them are zero."""
    largest: float = 1e60


SIZES = SizeSettings()


def as_rows(value: ArrayLike, name: str, *, labels: bool = False, missing: bool = False) -> np.ndarray:
    """Return points as rows: float64 of shape (n, d); a 1-D array is taken as (n, 1).

    With `labels` the entries may also be text or other labels, which are passed on as they are.

    Parameters
    ----------
    value : array_like of shape (n, d) or (n,)
        What the user gave.
    name : str
        The name of the argument, for errors.
    labels : bool
        Whether entries may be text or other labels.
    missing : bool
        Whether entries may be NaN.

    Returns
    -------
    ndarray of shape (n, d)

    Examples
    --------
    >>> as_rows([1, 2, 3], "x").shape
    (3, 1)
    """
    rows = _as_array(value, name, labels)
    if rows.ndim == 0:
        raise ArgumentError(name, f"{name} is a single number; give rows of points, for example [[{rows.item()!r}]].")
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2:
        raise ArgumentError(
            name,
            f"{name} has {rows.ndim} dimensions (shape {rows.shape}); points are rows of a table with shape "
            f"(n, d). Reshape it, for example with {name}.reshape(len({name}), -1).",
        )
    if rows.shape[0] == 0 or rows.shape[1] == 0:
        raise ArgumentError(name, f"{name} is empty (shape {rows.shape}); give at least one row and one column.")
    if rows.dtype == np.float64:
        _check_finite(np.where(np.isnan(rows), 0.0, rows) if missing else rows, name)
        return np.ascontiguousarray(rows)
    return rows


def as_row(
    value: ArrayLike | Mapping[str, Any], name: str, *, labels: bool = False, missing: bool = False
) -> np.ndarray:
    """Return one point as a row (1, d): a number, a 1-D array or dict of d values, or a single row of a table.

    Parameters
    ----------
    value : float, array_like of shape (d,) or (1, d), or dict
        What the user gave.
    name : str
        The name of the argument, for errors.
    labels : bool
        Whether entries may be text or other labels.
    missing : bool
        Whether entries may be NaN.

    Returns
    -------
    ndarray of shape (1, d)

    Examples
    --------
    >>> as_row([1.0, 2.0], "x").shape
    (1, 2)
    >>> as_row({"early": 1.0, "late": 2.0}, "x")
    array([[1., 2.]])
    """
    if isinstance(value, Mapping):
        value = [_one_value(item, f"{name}[{key!r}]") for key, item in value.items()]
    array = _as_array(value, name, labels)
    rows = as_rows(array.reshape(1, -1) if array.ndim < 2 else array, name, labels=labels, missing=missing)
    if len(rows) != 1:
        raise ArgumentError(
            name,
            f"{name} has {len(rows)} rows; exactly one point is accepted here. Call once for each row, or use "
            "weights(...), which takes many.",
        )
    return rows


def _one_value(item: Any, name: str) -> Any:
    """Return the value that one name stands for; a list of one is that one."""
    if isinstance(item, str | bytes) or not hasattr(item, "__len__") or np.shape(item) == ():
        return item
    if len(item) != 1:
        raise ArgumentError(name, f"{name} has {len(item)} values; give each a name of its own.")
    return _one_value(next(iter(item)), name)


def as_targets(value: ArrayLike, name: str, length: int, partner: str) -> np.ndarray:
    """Return targets as float64 of shape (length,) or (length, k): values whose squares can be computed with.

    Parameters
    ----------
    value : array_like of shape (length,) or (length, k)
        What the user gave.
    name : str
        The name of the argument, for errors.
    length : int
        How many there have to be.
    partner : str
        What it is paired with, for errors.

    Returns
    -------
    ndarray of shape (length,) or (length, k)

    Examples
    --------
    >>> as_targets([1, 2], "z", 2, "x")
    array([1., 2.])
    """
    targets = as_values(value, name, length, partner)
    check_size(targets, name, column_names(value))
    return targets


def as_values(value: ArrayLike, name: str, length: int, partner: str) -> np.ndarray:
    """Return finite numbers, one or several for each row, as float64 of shape (length,) or (length, k).

    Parameters
    ----------
    value : array_like of shape (length,) or (length, k)
        What the user gave.
    name : str
        The name of the argument, for errors.
    length : int
        How many there have to be.
    partner : str
        What it is paired with, for errors.

    Returns
    -------
    ndarray of shape (length,) or (length, k)

    Examples
    --------
    >>> as_values([1, 2], "f_values", 2, "x")
    array([1., 2.])
    """
    numbers = _as_array(value, name, labels=False)
    if numbers.ndim not in (1, 2) or numbers.size == 0:
        raise ArgumentError(
            name,
            f"{name} has shape {numbers.shape}; give one value for each row of {partner}, shape ({length},), or "
            f"several target columns, shape ({length}, k).",
        )
    check_same_length(numbers, name, length, partner)
    _check_finite(numbers, name)
    return numbers


def as_weights(value: ArrayLike | None, name: str, length: int, partner: str) -> np.ndarray:
    """Return one finite weight for each row; weights may be negative. None means equal weights 1/length.

    Parameters
    ----------
    value : array_like of shape (length,), optional
        What the user gave.
    name : str
        The name of the argument, for errors.
    length : int
        How many there have to be.
    partner : str
        What it is paired with, for errors.

    Returns
    -------
    ndarray of shape (length,)

    Examples
    --------
    >>> as_weights(None, "weights", 4, "x")
    array([0.25, 0.25, 0.25, 0.25])
    """
    if value is None:
        return np.full(length, 1.0 / length)
    weights = as_values(value, name, length, partner)
    if weights.ndim != 1:
        raise ArgumentError(name, f"{name} has shape {weights.shape}; give a flat array of {length} weights.")
    return weights


def as_number(
    value: SupportsFloat | SupportsIndex | str,
    name: str,
    *,
    minimum: float = -np.inf,
    strict: bool = False,
    remedy: str = "",
) -> float:
    """Return a finite float that is at least `minimum` (or above it, if `strict`).

    Parameters
    ----------
    value : float
        What the user gave.
    name : str
        The name of the argument, for errors.
    minimum : float
        The smallest number that is accepted.
    strict : bool
        Whether the minimum itself is not.
    remedy : str
        What the error adds.

    Returns
    -------
    float

    Examples
    --------
    >>> as_number("0.5", "noise", minimum=0.0)
    0.5
    >>> as_number(0.0, "noise", minimum=0.0, strict=True)
    Traceback (most recent call last):
        ...
    decond.errors.ArgumentError: noise is 0.0; it must be > 0.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ArgumentTypeError(name, f"{name} is {value!r}; a single number is needed.") from None
    if not np.isfinite(number) or number < minimum or (strict and number == minimum):
        accepted = "a finite number" if minimum == -np.inf else f"{'>' if strict else '>='} {minimum:g}"
        raise ArgumentError(name, f"{name} is {value!r}; it must be {accepted}.{' ' + remedy if remedy else ''}")
    return number


def as_deviation(value: SupportsFloat | SupportsIndex | str, name: str, remedy: str = "") -> float:
    """Return a standard deviation: a positive number whose square can be computed with.

    Parameters
    ----------
    value : float
        What the user gave.
    name : str
        The name of the argument, for errors.
    remedy : str
        What the error adds.

    Returns
    -------
    float

    Examples
    --------
    >>> as_deviation(0.5, "noise")
    0.5
    """
    deviation = as_number(value, name, minimum=0.0, strict=True, remedy=remedy)
    if not SIZES.smallest <= deviation <= SIZES.largest:
        raise ArgumentError(
            name,
            f"{name} is {value!r}; it must lie between {SIZES.smallest:g} and {SIZES.largest:g}"
            f"{'. ' + remedy if remedy else '.'}",
        )
    return deviation


def as_count(value: object, name: str) -> int:
    """Return a whole number of at least one.

    Parameters
    ----------
    value : int
        What the user gave.
    name : str
        The name of the argument, for errors.

    Returns
    -------
    int

    Examples
    --------
    >>> as_count(np.int64(3), "n_samples")
    3
    >>> as_count(0, "n_samples")
    Traceback (most recent call last):
        ...
    decond.errors.ArgumentError: n_samples is 0; a whole number of at least 1 is needed.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ArgumentError(name, f"{name} is {value!r}; a whole number of at least 1 is needed.")
    return int(value)


def as_generator(seed: Seed | np.random.SeedSequence) -> np.random.Generator:
    """Return a random generator: the one given, or one started from a whole number; None means 0.

    >>> bool(as_generator(None).random() == as_generator(0).random())
    True
    """
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, np.random.SeedSequence):
        return np.random.default_rng(seed)
    number = 0 if seed is None else seed
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
        raise ArgumentError(
            "seed", f"seed is {seed!r}; give a whole number of at least 0, or a numpy random Generator."
        )
    return np.random.default_rng(int(number))


def as_seed(seed: Seed | np.random.SeedSequence) -> int:
    """Return a whole number to start generators from: the one given, one drawn from a generator, or 0 for None.

    >>> as_seed(None), as_seed(7)
    (0, 7)
    """
    generator = as_generator(seed)
    if isinstance(seed, np.random.Generator | np.random.SeedSequence):
        return int(generator.integers(2**31))
    return 0 if seed is None else int(seed)


def as_labels(value: ArrayLike, name: str, length: int, partner: str) -> np.ndarray:
    """Return one label for each row: a flat array of numbers, or of objects where they are not numbers.

    Several columns, or tuples as of a pandas MultiIndex, are joined to one text label.

    Parameters
    ----------
    value : array_like of shape (length,) or (length, k)
        What the user gave.
    name : str
        The name of the argument, for errors.
    length : int
        How many there have to be.
    partner : str
        What it is paired with, for errors.

    Returns
    -------
    ndarray of shape (length,)

    Examples
    --------
    >>> as_labels(["a", "b"], "groups", 2, "x")
    array(['a', 'b'], dtype=object)
    >>> as_labels([["north", 1], ["north", 2]], "groups", 2, "x")
    array(['north, 1', 'north, 2'], dtype=object)
    """
    labels = _as_array(value, name, labels=True)
    if labels.ndim == 2:
        labels = labels[:, 0] if labels.shape[1] == 1 else _joined([tuple(row) for row in labels.tolist()], name)
    elif labels.ndim == 1 and any(isinstance(label, tuple) for label in labels):
        labels = _joined([label if isinstance(label, tuple) else (label,) for label in labels], name)
    if labels.ndim != 1:
        raise ArgumentError(
            name, f"{name} has shape {labels.shape}; give one label for each row of {partner}, or a column of labels."
        )
    check_same_length(labels, name, length, partner)
    if labels.dtype == np.float64:
        _check_finite(labels, name)
    return labels


def check_choice(value: object, name: str, choices: tuple[str, ...]) -> None:
    """Raise unless `value` is one of the choices.

    Parameters
    ----------
    value : str
        What the user gave.
    name : str
        The name of the argument, for errors.
    choices : tuple of str
        What is accepted.

    Examples
    --------
    >>> check_choice("half", "mediator", ("full", "map"))
    Traceback (most recent call last):
        ...
    decond.errors.ArgumentError: mediator is 'half'; choose one of 'full', 'map'.
    """
    if value not in choices:
        raise ArgumentError(name, f"{name} is {value!r}; choose one of {', '.join(map(repr, choices))}.")


def check_same_length(value: Sized, name: str, length: int, partner: str) -> None:
    """Raise unless `value` has as many rows as its partner.

    Parameters
    ----------
    value : sized
        What the user gave.
    name : str
        The name of the argument, for errors.
    length : int
        How many there have to be.
    partner : str
        What it is paired with, for errors.

    Examples
    --------
    >>> check_same_length([1.0, 2.0], "z", 3, "x")
    Traceback (most recent call last):
        ...
    decond.errors.ArgumentError: z has 2 rows but x has 3; they are paired row by row...
    """
    if len(value) != length:
        raise ArgumentError(
            name,
            f"{name} has {len(value)} rows but {partner} has {length}; they are paired row by row, so both need "
            "the same number. Check that no rows were dropped from one of them.",
        )


def check_finite(value: ArrayLike, name: str, shape: tuple[int, ...]) -> None:
    """Raise unless a value is finite numbers for an array of this shape: one, or as many as it has.

    Parameters
    ----------
    value : array_like
        What the user gave.
    name : str
        The name of the argument, for errors.
    shape : tuple of int
        What the value has to fit.

    Examples
    --------
    >>> check_finite([1.0, np.nan], "offset", (2,))
    Traceback (most recent call last):
        ...
    decond.errors.ArgumentError: offset has 1 value(s) that are NaN or infinite, the first at row 1 (nan)...
    """
    numbers = _as_array(value, name, labels=False)
    if numbers.ndim and numbers.shape != shape:
        raise ArgumentError(name, f"{name} has shape {numbers.shape}; {shape} is needed.")
    _check_finite(np.atleast_1d(numbers), name)


def check_size(values: np.ndarray, name: str, columns: Sequence[str] | None = None) -> None:
    """Raise if numbers are too large to compute with, or all numbers of a column too small.

    Parameters
    ----------
    values : ndarray of shape (n,) or (n, d)
        Finite numbers. Labels are passed over.
    name : str
        The name of the argument, for errors.
    columns : sequence of str, optional
        Names of the columns, for errors.

    Examples
    --------
    >>> check_size(np.array([[1.0, 1e200]]), "x", ["wind", "height"])
    Traceback (most recent call last):
        ...
    decond.errors.ArgumentError: column 'height' of x has 1e+200 in row 0; numbers beyond 1e+60 cannot be squared...
    """
    rows = values[:, None] if values.ndim == 1 else values
    for j in range(rows.shape[1]):
        column = rows[:, j]
        if column.dtype.kind == "O":
            column = np.array([item for item in column if isinstance(item, float)], dtype=np.float64)
        sizes = np.abs(column)
        largest = float(sizes.max(initial=0.0))
        if largest == 0.0 or SIZES.smallest <= largest <= SIZES.largest:
            continue
        place = f"column {(columns[j] if columns else j)!r} of {name}" if columns or rows.shape[1] > 1 else name
        if largest > SIZES.largest:
            row = int(sizes.argmax())
            found = f"has {column[row]:g} in row {row}; numbers beyond {SIZES.largest:g} cannot be squared and summed"
        else:
            found = f"has no number beyond {largest:g}; the squares of such numbers are zero"
        raise ArgumentError(name, f"{place} {found}. Correct it, or give {name} in another unit.")


def check_answer(answer: np.ndarray, name: str) -> np.ndarray:
    """Return an answer; raise if it is not finite, because it was asked for too far away.

    Parameters
    ----------
    answer : ndarray of shape (q, ...)
        A prediction for each row.
    name : str
        The name of the argument that has these rows.

    Returns
    -------
    ndarray of shape (q, ...)

    Examples
    --------
    >>> check_answer(np.array([1.0]), "X")
    array([1.])
    """
    finite = np.isfinite(answer)
    if not finite.all():
        row = int(np.argwhere(~finite)[0][0])
        raise ArgumentError(
            name,
            f"the prediction at row {row} of {name} is not finite. That row lies too far from those that the model "
            "was fitted on; remove it.",
        )
    return answer


def check_text(values: np.ndarray, name: str, columns: Sequence[str] | None = None) -> None:
    """Raise if a column of labels has text among what are mostly numbers, not all of them whole: a slip.

    Parameters
    ----------
    values : ndarray of shape (n, d)
        Rows, which may hold labels.
    name : str
        The name of the argument, for errors.
    columns : sequence of str, optional
        Names of the columns, for errors.

    Examples
    --------
    >>> check_text(np.array([["0.1"], ["0.2"], ["trace"]], dtype=object), "x", ["soil"])
    Traceback (most recent call last):
        ...
    decond.errors.ArgumentError: column 'soil' of x has 'trace' in row 2 among numbers. Correct it, or remove the row.
    """
    for j, column in enumerate(values.T if values.dtype.kind == "O" else ()):
        odd = [i for i, item in enumerate(column) if not _is_number(item)]
        measured = any(_is_number(item) and not float(item).is_integer() for item in column)
        if measured and 0 < len(odd) < len(column) / 2:
            place = f"column {(columns[j] if columns else j)!r} of {name}"
            raise ArgumentError(
                name,
                f"{place} has {column[odd[0]]!r} in row {odd[0]} among numbers. Correct it, or remove the row.",
            )


def _is_number(item: Any) -> bool:
    try:
        float(item)
    except (TypeError, ValueError):
        return False
    return True


def order_of_rows(*tables: np.ndarray) -> np.ndarray:
    """Return the order that sorts rows by their columns: what is chosen by position then depends on the rows alone.

    Parameters
    ----------
    *tables : ndarray of shape (n, d)
        Tables with the same rows; columns may hold labels.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> order_of_rows(np.array([[2.0], [1.0], [2.0]]), np.array([["b"], ["c"], ["a"]], dtype=object))
    array([1, 2, 0])
    """
    columns = [column for table in tables for column in table.T]
    return np.lexsort([_sortable(column) for column in reversed(columns)])


def _sortable(column: np.ndarray) -> np.ndarray:
    """Return a column of numbers as it is, or one with labels as text."""
    if column.dtype.kind != "O":
        return column
    return column.astype(np.float64 if _holds_numbers(column) and not _exceeds_float(column) else str)


def frozen(array: ArrayLike) -> Any:
    """Return a read-only copy, for objects that keep data: what the caller does to the original does not reach it.

    >>> original = np.array([1.0])
    >>> kept = frozen(original)
    >>> original[0] = 2.0
    >>> kept, kept.flags.writeable
    (array([1.]), False)
    """
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


def _as_array(value: Any, name: str, labels: bool) -> np.ndarray:
    """Convert to a float64 array, or to labels where these are welcome; the type decides, not what the text says."""
    if np.ma.isMaskedArray(value) and np.ma.is_masked(value):
        raise ArgumentError(name, f"{name} has masked values. Remove or fill these rows first.")
    if issparse(value):
        raise ArgumentTypeError(name, f"{name} is a sparse matrix; give it as an array, {name}.toarray().")
    if labels:
        value = _categories_as_text(value)
    try:
        array = np.asarray(value)
    except ValueError:
        raise ArgumentError(
            name, f"{name} has rows of different lengths; a table with shape (n, d) is needed."
        ) from None
    if array.ndim == 0 and array.dtype.kind not in ("biufSUmM" if labels else "biuf"):
        raise ArgumentTypeError(name, f"{name} is {_short(value)}; give numbers as an array, a list or a data frame.")
    if array.dtype.kind in "bf" or (array.dtype.kind in "iu" and not (labels and _exceeds_float(array))):
        return array.astype(np.float64, copy=False)
    if array.dtype.kind == "O" and _holds_numbers(array) and not (labels and _exceeds_float(array)):
        try:
            return array.astype(np.float64)
        except OverflowError:
            raise ArgumentError(name, f"{name} has whole numbers that are too large for float64.") from None
    if labels and array.dtype.kind != "c":
        return _as_labels(array, name)
    raise ArgumentTypeError(name, _not_numbers(array, name))


def _short(value: object) -> str:
    """Return a value in a few words: None and text as they are, of others the type."""
    return repr(value)[:60] if value is None or isinstance(value, str | bytes) else f"a {type(value).__name__}"


def _categories_as_text(value: Any) -> Any:
    """Return a pandas column or frame with categories as text: they are labels, also where they look like numbers."""
    if str(getattr(value, "dtype", "")) == "category":
        return value.astype(str)
    named = getattr(value, "dtypes", None)
    if named is None or not hasattr(value, "columns"):
        return value
    return value.astype({name: str for name, kind in named.items() if str(kind) == "category"})


def _not_numbers(array: np.ndarray, name: str) -> str:
    if array.dtype.kind in "mM":
        return (
            f"{name} holds dates or times ({array.dtype}); numbers are needed. Convert them to a unit you choose, "
            f"for example ({name} - {name}.min()) / np.timedelta64(1, 'D') for days."
        )
    items = array.ravel().tolist()
    sample = next((item for item in items if not _is_number(item)), items[0] if items else None)
    return f"{name} holds values of type {array.dtype} (for example {sample!r}); numbers are needed. Convert them."


def _holds_numbers(array: np.ndarray) -> bool:
    """Tell whether all of an array of objects are numbers."""
    return all(isinstance(item, int | float | np.number) for item in array.flat)


def _exceeds_float(array: np.ndarray) -> bool:
    """Tell whether whole numbers are too large to be told apart as float64."""
    if array.dtype.kind == "O":
        return any(isinstance(item, int | np.integer) and abs(int(item)) > 2**53 for item in array.flat)
    return bool(array.size) and max(int(array.max()), -int(array.min())) > 2**53


def _as_labels(array: np.ndarray, name: str) -> np.ndarray:
    """Return labels as Python objects; times in any unit become equal text, and missing labels are refused."""
    dates = array.dtype.kind in "mM"
    labels = (array.astype(f"{array.dtype.kind}8[ns]").astype(str) if dates else array).astype(object)
    for index, label in np.ndenumerate(labels):
        if _is_missing(label) or (dates and label == "NaT"):
            raise ArgumentError(
                name,
                f"{name} has a missing label at row {index[0]} ({label!r}). Remove the row, or give unknown labels a "
                "name of their own.",
            )
        if isinstance(label, datetime.date | np.datetime64):
            labels[index] = str(np.array(label, dtype="datetime64[ns]"))
        elif isinstance(label, datetime.timedelta | np.timedelta64):
            labels[index] = str(np.array(label, dtype="timedelta64[ns]"))
    return labels


def _joined(labels: list[tuple[Any, ...]], name: str) -> np.ndarray:
    """Return labels of several parts as text, whole numbers without a decimal point."""
    missing = next((row for row, label in enumerate(labels) if any(map(_is_missing, label))), None)
    if missing is not None:
        raise ArgumentError(
            name, f"{name} has a missing label at row {missing} ({labels[missing]!r}). Remove the row, or name it."
        )
    texts = {label: ", ".join(map(_part, label)) for label in dict.fromkeys(labels)}
    if len(set(texts.values())) < len(texts):
        raise ArgumentError(
            name, f"{name} has different labels that are alike once their parts are joined by commas; rename them."
        )
    return np.array([texts[label] for label in labels], dtype=object)


def _part(label: object) -> str:
    if isinstance(label, datetime.date | np.datetime64):
        return str(np.array(label, dtype="datetime64[ns]"))
    if isinstance(label, bool | np.bool_):
        return str(int(label))
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def _is_missing(label: object) -> bool:
    """Tell whether a label is None, NaN, NaT or pandas' NA: missing values do not equal themselves."""
    if label is None:
        return True
    try:
        return bool(label != label)
    except TypeError:
        return True


def _check_finite(array: np.ndarray, name: str) -> None:
    finite = np.isfinite(array)
    if finite.all():
        return
    where = np.argwhere(~finite)
    first = tuple(int(i) for i in where[0])
    position = f"row {first[0]}" + (f", column {first[1]}" if len(first) == 2 else "")
    raise ArgumentError(
        name,
        f"{name} has {len(where)} value(s) that are NaN or infinite, the first at {position} "
        f"({array[first]}). Remove or fill these rows first.",
    )


def column_names(rows: object) -> list[str] | None:
    """Return the names of the columns of a data frame; None if they are no text, or if there are none.

    >>> import pandas as pd
    >>> column_names(pd.DataFrame({"wind": [1.0]})), column_names(np.ones((1, 1)))
    (['wind'], None)
    """
    names = list(getattr(rows, "columns", []))
    return names if names and all(isinstance(name, str) for name in names) else None


def check_column_names(rows: object, name: str, known: list[str] | None) -> None:
    """Raise if rows and what a model was fitted on both have names of columns, but not the same in the same order.

    Parameters
    ----------
    rows : array_like or DataFrame
        What the user gave.
    name : str
        The name of the argument, for errors.
    known : list of str, optional
        Names that the model was fitted on.

    Examples
    --------
    >>> check_column_names(np.ones((1, 1)), "x", ["wind"])  # rows without names are taken as they are
    """
    names = column_names(rows)
    if names is not None and known is not None and names != known:
        raise ArgumentError(
            name,
            f"{name} has the columns {names}, but the model was fitted on {known}; feature names should match those "
            "that were passed during fit, in the same order.",
        )


def value_names(row: object) -> list[str] | None:
    """Return the names of the values of one point: of a dict, a Series or a frame; None if they have none.

    >>> value_names({"early": 1.0, "late": 2.0}), value_names([1.0, 2.0])
    (['early', 'late'], None)
    """
    if isinstance(row, Mapping):
        names = [str(name) for name in row]
    elif hasattr(row, "columns") or not hasattr(row, "to_numpy"):
        return column_names(row)
    else:
        names = list(getattr(row, "index", []))
    return names if names and all(isinstance(name, str) for name in names) else None
