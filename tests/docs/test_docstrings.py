"""Every public name says what it is and shows how it is used; the suite runs the examples (``--doctest-modules``)."""

import ast
import doctest
import functools
import inspect
import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from public_names import public_names

import decond

PUBLIC = public_names()
DOCUMENTED = {path: value for path, value in PUBLIC.items() if inspect.isclass(value) or inspect.isroutine(value)}
CONSTANTS = sorted(set(PUBLIC) - set(DOCUMENTED))
CLASSES = {path: value for path, value in DOCUMENTED.items() if inspect.isclass(value)}
SOURCE = Path(decond.__file__).parent


def needs_example(value):
    """Errors and warnings are raised for the reader, who has nothing to call."""
    return not (inspect.isclass(value) and issubclass(value, BaseException))


def has_docstring_of_its_own(member):
    """Tell whether a name in a class is a method or property, so that its docstring is about it."""
    return (inspect.isroutine(member) or hasattr(member, "__get__")) and not inspect.isclass(member)


def members(cls):
    """Yield the names of public methods and properties that decond itself defines."""
    for owner in cls.__mro__:
        if owner.__module__.partition(".")[0] == "decond":
            yield from (name for name, member in vars(owner).items() if has_docstring_of_its_own(member))


def documented(cls, name):
    """Tell whether a method or property has a docstring here or where it overrides one."""
    found = (vars(owner)[name] for owner in cls.__mro__ if name in vars(owner))
    return any(has_docstring_of_its_own(member) and inspect.getdoc(member) for member in found)


@functools.cache
def described_constants():
    """Return the names that are assigned at the top of some module of decond and followed by a docstring."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for statement, follower in itertools.pairwise(body):
            if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(follower, ast.Expr):
                text = getattr(follower.value, "value", None)
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                names = (node.id for target in targets for node in ast.walk(target) if hasattr(node, "id"))
                found |= set(names) if isinstance(text, str) else set()
    return found


def test_the_public_names_are_those_that_users_know():
    known = {"estimators.TaskTransformedGP", "lfi.simulate", "io.load", "embeddings.Herding", "lfi.diagnostics.c2st"}
    assert {f"decond.{name}" for name in known} <= set(DOCUMENTED)
    assert len(DOCUMENTED) > 100


@pytest.mark.parametrize("path", sorted(DOCUMENTED))
def test_has_docstring_with_example(path):
    value = DOCUMENTED[path]
    text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    assert text, f"{path} has no docstring."
    examples = doctest.DocTestParser().get_examples(text)
    assert examples or not needs_example(value), f"the docstring of {path} has no example (>>>)."


@pytest.mark.parametrize("path", sorted(CLASSES))
def test_methods_and_properties_have_docstrings(path):
    public = {name for name in members(CLASSES[path]) if not name.startswith("_")}
    silent = sorted(name for name in public if not documented(CLASSES[path], name))
    assert not silent, f"{path} has no docstring for {', '.join(silent)}."


@pytest.mark.parametrize("path", CONSTANTS)
def test_constants_are_described(path):
    assert path.rpartition(".")[2] in described_constants(), f"{path} has no docstring below its assignment."


def test_packages_and_modules_have_docstrings():
    silent = [path for path in SOURCE.rglob("*.py") if not ast.get_docstring(ast.parse(path.read_text("utf-8")))]
    assert not silent


def test_import_says_nothing():
    command = [sys.executable, "-W", "error", "-c", "import decond"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
