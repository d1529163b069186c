"""What tests of errors and warnings expect: a class, and what its attributes carry.

Wording belongs in `tests/test_messages.py`.
"""

import contextlib
import warnings

import pytest

from decond.errors import ArgumentError, ResolutionWarning
from decond.gp import NoSignalWarning


@contextlib.contextmanager
def refused(argument, error=ArgumentError):
    """Expect that an argument is refused by name, with the given class of error; give its ExceptionInfo."""
    with raised(error, argument=argument) as caught:
        yield caught


@contextlib.contextmanager
def warned(category, **attributes):
    """Expect exactly one warning of a category, whose attributes have these values; give the list that records it."""
    with pytest.warns(category) as caught:
        yield caught
    [warning] = [one.message for one in caught if issubclass(one.category, category)]
    assert {name: getattr(warning, name) for name in attributes} == attributes, warning


@contextlib.contextmanager
def raised(error, **attributes):
    """Expect an error of a class whose attributes have these values; give its ExceptionInfo."""
    with pytest.raises(error) as caught:
        yield caught
    assert {name: getattr(caught.value, name) for name in attributes} == attributes, caught.value


@contextlib.contextmanager
def says_little():
    """Let a table be too small to resolve f or to tell it from a constant, where a test is about something else."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResolutionWarning)
        warnings.simplefilter("ignore", NoSignalWarning)
        yield
