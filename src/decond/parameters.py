"""Models as frozen dataclasses whose numeric fields are parameters in natural units.

A subclass of `Parametrized` declares its fields like a dataclass. Fields made with `parameter` are the numbers
that learning may change; each states its constraint. Other modules nest as fields; arrays are data; what is
left (integers, tuples, names) is configuration. `leaves` names the parameters by path, `with_leaves` puts new
values in.

>>> class Line(Parametrized):
...     slope: float = parameter(default=2.0)
...     scale: float = parameter(default=1.0, constraint=positive)
>>> leaves(Line())
{'slope': 2.0, 'scale': 1.0}
>>> with_leaves(Line(), {"slope": 3.0})
Line(slope=3.0, scale=1.0)
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from decond.checks import frozen
from decond.errors import ArgumentError, ArgumentTypeError

__all__ = [
    "Constraint",
    "Kept",
    "Parametrized",
    "constraints",
    "leaves",
    "nonnegative",
    "parameter",
    "positive",
    "real",
    "same",
    "short",
    "with_leaves",
]


class Constraint(NamedTuple):
    """The values a parameter may take: those above `lower` (or at it, unless `open`).

    >>> positive.allows(np.array([1.0, 2.0])), positive.allows(np.array([0.0])), nonnegative.allows(np.array([0.0]))
    (True, False, True)
    """

    description: str
    lower: float
    open: bool

    def allows(self, value: np.ndarray) -> bool:
        """Tell whether every entry is finite and within the constraint."""
        inside = value > self.lower if self.open else value >= self.lower
        return bool(np.all(np.isfinite(value) & inside))


real = Constraint("finite", -np.inf, False)
"""Any finite number."""

positive = Constraint("positive and finite", 0.0, True)
"""A number above zero: lengthscales, variances, noises. Learning searches its logarithm."""

nonnegative = Constraint("zero or positive, and finite", 0.0, False)
"""A number that may be zero: a noise that may be absent."""


def parameter(*, default: Any = dataclasses.MISSING, constraint: Constraint = real, per_column: bool = False) -> Any:
    """Declare a dataclass field as a parameter: one number or, if `per_column`, possibly one for each column.

    Parameters
    ----------
    default : float, optional
        The default of the field.
    constraint : Constraint
        The values that it may take.
    per_column : bool
        Whether it may be a list with one number for each column.

    Returns
    -------
    dataclasses.Field

    Examples
    --------
    >>> class Bump(Parametrized):
    ...     width: float = parameter(default=1.0, constraint=positive)
    >>> Bump(width=0.0)
    Traceback (most recent call last):
        ...
    decond.errors.ArgumentError: Bump(width=0.0): width must be positive and finite...
    """
    return dataclasses.field(default=default, metadata={"constraint": constraint, "per_column": per_column})


class Kept:
    """Base of other classes that a file may hold: arguments that make an equal object stand for it.

    >>> @dataclasses.dataclass
    ... class Draws(Kept):
    ...     points: list[float]
    >>> Draws._restored(**Draws([1.0])._fields())
    Draws(points=[1.0])
    """

    def _fields(self) -> dict[str, Any]:
        """Return the arguments of `_restored`: by default those of a dataclass."""
        found = dataclasses.fields(self)  # type: ignore[arg-type]
        return {field.name: getattr(self, field.name) for field in found if field.init}

    @classmethod
    def _restored(cls, **fields: Any) -> Self:
        """Return the object that `_fields` describes."""
        return cls(**fields)


@dataclass_transform(frozen_default=True, field_specifiers=(parameter, dataclasses.field))
class Parametrized(Kept):
    """Base of kernels, features, priors and observations: a frozen dataclass with declared parameters.

    >>> class Line(Parametrized):
    ...     slope: float = parameter(default=2.0)
    >>> Line().replace(slope=3.0)
    Line(slope=3.0)
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Make every subclass a frozen dataclass."""
        super().__init_subclass__(**options)
        dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)

    def __post_init__(self) -> None:
        """Check every parameter against its constraint."""
        for field in _parameter_fields(self):
            object.__setattr__(self, field.name, _checked(self, field, getattr(self, field.name)))

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def __repr__(self) -> str:
        """Show the class with its fields, arrays by their shape."""
        parts = (f"{field.name}={short(getattr(self, field.name))}" for field in _fields(self))
        return f"{type(self).__name__}({', '.join(parts)})"


def leaves(module: Parametrized, prefix: str = "") -> dict[str, Any]:
    """Return the parameters of a module and of all modules within it, by path.

    Parameters
    ----------
    module : Parametrized
        What holds the parameters.
    prefix : str
        What all paths begin with.

    Returns
    -------
    dict

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> leaves(2.0 * RBF(0.5))
    {'kernel.lengthscale': 0.5, 'variance': 2.0}
    """
    return {path: value for path, value, _ in _walk(module, prefix)}


def constraints(module: Parametrized, prefix: str = "") -> dict[str, Constraint]:
    """Return the constraints of the parameters, by the same paths as `leaves`.

    Parameters
    ----------
    module : Parametrized
        What holds the parameters.
    prefix : str
        What all paths begin with.

    Returns
    -------
    dict

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> constraints(RBF())["lengthscale"].description
    'positive and finite'
    """
    return {path: constraint for path, _, constraint in _walk(module, prefix)}


def with_leaves(module: Parametrized, values: Mapping[str, Any]) -> Any:
    """Return a copy of the module with the parameters at these paths replaced.

    Parameters
    ----------
    module : Parametrized
        What holds the parameters.
    values : mapping of str to float or ndarray
        New values by path.

    Returns
    -------
    Parametrized

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> with_leaves(2.0 * RBF(0.5), {"kernel.lengthscale": 1.5})
    2.0 * RBF(lengthscale=1.5)
    """
    unknown = set(values) - set(leaves(module))
    if unknown:
        raise KeyError(f"{sorted(unknown)} are no parameters of this model; it has {sorted(leaves(module))}.")
    changes: dict[str, Any] = {}
    for field in _fields(module):
        value = getattr(module, field.name)
        if "constraint" in field.metadata:
            if field.name in values:
                changes[field.name] = values[field.name]
            continue
        new = [with_leaves(child, _below(values, path)) for path, child in _children(field.name, value)]
        if new:
            changes[field.name] = tuple(new) if isinstance(value, tuple) else new[0]
    return _with_trusted(module, changes)


def _with_trusted(module: Parametrized, changes: dict[str, Any]) -> Any:
    """Return a copy with some fields changed; parameters are checked, data need not be checked again."""
    copy: Any = object.__new__(type(module))
    fields = {field.name: field for field in _fields(module)}
    for name, field in fields.items():
        value = changes.get(name, getattr(module, name))
        if name in changes and "constraint" in field.metadata:
            value = _checked(module, field, value)
        object.__setattr__(copy, name, value)
    return copy


def same(one: Parametrized, other: Parametrized) -> bool:
    """Tell whether two modules are equal in structure, parameters and data.

    Parameters
    ----------
    one : Parametrized
        A module.
    other : Parametrized
        Another one.

    Returns
    -------
    bool

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> same(RBF(0.5), RBF(0.5)), same(RBF(0.5), RBF(0.6))
    (True, False)
    """
    return type(one) is type(other) and all(
        _same_values(getattr(one, field.name), getattr(other, field.name)) for field in _fields(one)
    )


def _same_values(one: object, other: object) -> bool:
    if isinstance(one, Parametrized) and isinstance(other, Parametrized):
        return same(one, other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same_values, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(np.asarray(one), np.asarray(other))
    return bool(one == other)


Gradient = dict[str, Any]
"""Slopes of an objective by the path of a parameter: a number, or an array of its shape."""


def added(*parts: Mapping[str, Any]) -> Gradient:
    """Return the sum of gradients, path by path.

    >>> added({"scale": 1.0}, {"scale": 2.0, "slope": 3.0})
    {'scale': 3.0, 'slope': 3.0}
    """
    total: Gradient = {}
    for part in parts:
        for path, value in part.items():
            total[path] = total[path] + value if path in total else value
    return total


def below(name: str, gradient: Mapping[str, Any]) -> Gradient:
    """Return the gradient of a module within another one, where it is the field `name`.

    Parameters
    ----------
    name : str
        The field.
    gradient : mapping of str to float or ndarray
        Slopes by path within it.

    Returns
    -------
    dict

    Examples
    --------
    >>> below("kernel", {"lengthscale": 2.0})
    {'kernel.lengthscale': 2.0}
    """
    return {f"{name}.{path}": value for path, value in gradient.items()}


def difference_slopes(
    module: Parametrized, function: Callable[[Any], NDArray[np.float64]], adjoint: NDArray[np.float64]
) -> Gradient:
    """Return the gradient of ``sum(adjoint * function(module))`` by central differences, one for each number.

    Parameters
    ----------
    module : Parametrized
        Where the parameters are.
    function : callable
        From a module to an array.
    adjoint : ndarray
        The derivative of the objective with respect to each entry of that array.

    Returns
    -------
    dict
        Slopes by path.

    Examples
    --------
    >>> from decond.kernels import RBF
    >>> slopes = difference_slopes(RBF(1.0), lambda kernel: kernel([[0.0]], [[1.0]]), np.ones((1, 1)))
    >>> round(slopes["lengthscale"], 4)
    0.6065
    """
    slopes: Gradient = {}
    for path, value, limit in _walk(module, ""):
        numbers = np.array(value, dtype=np.float64)
        found = np.empty(numbers.shape)
        for index in np.ndindex(numbers.shape):
            step = np.cbrt(np.finfo(float).eps) * (abs(numbers[index]) or 1.0)
            upper, lower = numbers.copy(), numbers.copy()
            upper[index] += step
            lower[index] = max(numbers[index] - step, limit.lower)
            ends = [function(with_leaves(module, {path: moved})) for moved in (upper, lower)]
            found[index] = (adjoint * (ends[0] - ends[1])).sum() / (upper[index] - lower[index])
        slopes[path] = found if found.shape else float(found)
    return slopes


def _fields(module: Parametrized) -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(module)  # type: ignore[arg-type]


def _parameter_fields(module: Parametrized) -> list[dataclasses.Field]:
    return [field for field in _fields(module) if "constraint" in field.metadata]


def _walk(module: Parametrized, prefix: str) -> Iterator[tuple[str, Any, Constraint]]:
    """Yield path, value and constraint of every parameter that is set."""
    for field in _fields(module):
        value = getattr(module, field.name)
        if "constraint" not in field.metadata:
            for path, child in _children(field.name, value):
                yield from _walk(child, f"{prefix}{path}.")
        elif value is not None:
            yield prefix + field.name, value, field.metadata["constraint"]


def _children(name: str, value: object) -> Iterator[tuple[str, Parametrized]]:
    if isinstance(value, Parametrized):
        yield name, value
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            if isinstance(item, Parametrized):
                yield f"{name}.{i}", item


def _below(values: Mapping[str, Any], path: str) -> dict[str, Any]:
    start = path + "."
    return {key[len(start) :]: value for key, value in values.items() if key.startswith(start)}


def _checked(module: Parametrized, field: dataclasses.Field, value: object) -> Any:
    """Return the parameter as a float or a flat float64 array, or raise."""
    constraint: Constraint = field.metadata["constraint"]
    accepted = "a number, or a flat list with one for each column" if field.metadata["per_column"] else "a number"
    if value is None:
        if field.default is None:
            return None
        raise ArgumentTypeError(field.name, f"{_given(module, field, value)}: a number is needed.")
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            field.name, f"{_given(module, field, value)}: {field.name} must be {accepted}."
        ) from None
    if array.ndim > field.metadata["per_column"] or array.size == 0:
        given = _given(module, field, value)
        raise ArgumentError(field.name, f"{given}: {field.name} has shape {array.shape}; it must be {accepted}.")
    if not constraint.allows(array):
        raise ArgumentError(
            field.name,
            f"{_given(module, field, value)}: {field.name} must be {constraint.description}. Give a value in the "
            "units of your data.",
        )
    return float(array) if array.ndim == 0 else frozen(array)


def _given(module: Parametrized, field: dataclasses.Field, value: object) -> str:
    return f"{type(module).__name__}({field.name}={value!r})"


def short(value: object) -> str:
    """Return a field as it is shown: numbers with six digits, arrays by their shape unless they are small.

    >>> short(1 / 3), short(2.0), short(np.zeros((4, 2)))
    ('0.333333', '2.0', 'array(4, 2)')
    """
    if isinstance(value, float):
        return repr(float(f"{value:.6g}"))
    if isinstance(value, np.ndarray):
        small = value.ndim == 1 and value.size <= 8
        return f"[{', '.join(map(short, value.tolist()))}]" if small else f"array{value.shape}"
    return repr(value)
