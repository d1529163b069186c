"""Telling whether a function is the one of before: a short hash of its code, kept beside what it made."""

import dis
import functools
import hashlib
import inspect
import sys
import types
from typing import Any

import numpy as np

__all__ = ["changed", "fingerprint"]

NONE = "none"
"""The fingerprint of no function."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def fingerprint(function: Any) -> str | None:
    """Return a hash of a function's code, or None where it is unknown.

    It covers the code, the functions of the same module that it calls, and numbers and text that it was made with
    (defaults, closures, arguments of `functools.partial`). Names of the function and its module, comments and the
    docstring do not count, nor does what a callable object holds: such an object may change while it runs.

    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1)
    True
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
    False
    """
    if function is None:
        return NONE
    try:
        described = _described(function, set())
    except Exception:  # a function may be any object, and this is only a help
        return None
    if described is None:
        return None
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"{version}:{hashlib.sha256(repr(described).encode()).hexdigest()[:24]}"


def changed(then: str | None, now: str | None) -> bool:
    """Tell whether two fingerprints are of different functions; those of different Python versions say nothing."""
    if then is None or now is None or then == now:
        return False
    return NONE in (then, now) or then.partition(":")[0] == now.partition(":")[0]


def _described(function: Any, seen: set[int]) -> Any:
    """Return what a callable is made of, as nested tuples of plain values; None if nothing is known."""
    if id(function) in seen:
        return "again"
    seen.add(id(function))
    if isinstance(function, functools.partial):
        inner = _described(function.func, seen)
        keywords = sorted(function.keywords.items())
        return inner and ("partial", inner, _value(function.args, seen), _value(tuple(keywords), seen))
    if inspect.ismethod(function):
        return _described(function.__func__, seen)
    if inspect.isfunction(function):
        return _function(function, seen)
    inside = getattr(function, "__wrapped__", getattr(function, "py_func", None))  # cached, or compiled
    if inspect.isfunction(inside) and inside.__module__.partition(".")[0] != "numpy":  # whose names say enough
        return _function(inside, seen)
    name, module = getattr(function, "__qualname__", None), getattr(function, "__module__", None)
    if isinstance(name, str) and not isinstance(function, type):  # written in C, or wrapped like those of NumPy
        return ("named", str(module), name)
    call = type(function).__call__ if callable(function) else None
    return _function(call, seen) if inspect.isfunction(call) else None


def _function(function: types.FunctionType, seen: set[int]) -> Any:
    code = function.__code__
    rebound = {step.argval for step in dis.get_instructions(code) if step.opname == "STORE_DEREF"}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    closure = tuple((name, _cell(cell, seen)) for name, cell in cells if name not in rebound)
    called = tuple((name, _sibling(function, name, seen)) for name in sorted(_names(code)))
    defaults = (
        _value(function.__defaults__, seen),
        _value(tuple(sorted((function.__kwdefaults__ or {}).items())), seen),
    )
    return ("function", _code(code, function.__doc__), closure, called, defaults)


def _code(code: types.CodeType, doc: str | None = None) -> Any:
    constants = [
        None if i == 0 and doc is not None and item == doc else item for i, item in enumerate(code.co_consts)
    ]
    plain = tuple(_code(item) if isinstance(item, types.CodeType) else _constant(item) for item in constants)
    return (code.co_code, plain, code.co_names, code.co_varnames, code.co_freevars)


def _constant(item: Any) -> Any:
    """Return a constant whose text is always the same: sets have no order of their own."""
    if isinstance(item, frozenset):
        return ("set", tuple(sorted(map(repr, item))))
    return tuple(map(_constant, item)) if isinstance(item, tuple) else repr(item)


def _names(code: types.CodeType) -> set[str]:
    inner = (_names(item) for item in code.co_consts if isinstance(item, types.CodeType))
    return set(code.co_names).union(*inner)


def _sibling(function: types.FunctionType, name: str, seen: set[int]) -> Any:
    """Return a function of the same module that may be called by this name."""
    other = function.__globals__.get(name)
    return _described(other, seen) if inspect.isfunction(other) and other.__module__ == function.__module__ else None


def _cell(cell: Any, seen: set[int]) -> Any:
    try:
        return _value(cell.cell_contents, seen)
    except ValueError:  # not filled yet
        return None


def _value(value: Any, seen: set[int]) -> Any:
    """Return a value that stays as it is, or nothing of one that may change or has no stable text."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, tuple):
        return tuple(_value(item, seen) for item in value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return hashlib.sha256(value.tobytes()).hexdigest()
    return _described(value, seen) if inspect.isroutine(value) else type(value).__qualname__
