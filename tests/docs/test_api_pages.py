"""What the API pages show is what users import."""

import importlib
import inspect
import re
from collections import Counter

import api_pages
import command_line
import pytest
from public_names import PAGES, identity, public_names, public_paths

from decond.lfi import exceptions

FOR_USERS = ("", ".datasets", ".embeddings", ".estimators", ".io", ".lfi.diagnostics", ".problems", ".reports")
"""Packages of which users call every name; others have names that only the library uses."""


def things():
    """Return what the API pages name, whatever it is called."""
    return Counter(identity(value, path.rpartition(".")[2]) for path, value in public_names().items())


def test_no_name_is_on_two_pages():
    assert len(public_paths()) == len(set(public_paths()))
    assert set(things().values()) == {1}


@pytest.mark.parametrize("package", FOR_USERS)
def test_everything_for_users_is_on_a_page(package):
    module = importlib.import_module(f"decond{package}")
    values = {name: getattr(module, name) for name in module.__all__}
    shown = things()
    missing = [
        name for name, value in values.items() if not inspect.ismodule(value) and identity(value, name) not in shown
    ]
    assert not missing, f"on no page under docs/api: {', '.join(missing)}. Add a ::: line where each belongs."


@pytest.mark.parametrize("path", public_paths())
def test_a_name_on_a_page_is_declared_public(path):
    module, _, name = path.rpartition(".")
    assert name in importlib.import_module(module).__all__


def test_errors_of_inference_are_explained():
    text = (PAGES / "lfi.md").read_text("utf-8")
    explained = re.findall(r"^(?:::: decond\.lfi\.|\| `)(\w+(?:Error|Warning))", text, re.MULTILINE)
    assert sorted(explained) == exceptions.__all__


def test_the_page_of_the_command_line_is_that_of_the_commands():
    written = command_line.PAGE.read_text(encoding="utf-8")
    assert written == command_line.page(), "options have changed; run: python docs/command_line.py"


def test_examples_are_shown_as_code():
    text = "Twice.\n\n>>> 2 * 3\n6\n\nAnd so on:\n\n    >>> 2 * 4\n    8"
    shown = "Twice.\n\n```pycon\n>>> 2 * 3\n6\n```\n\nAnd so on:\n\n    ```pycon\n    >>> 2 * 4\n    8\n    ```"
    assert api_pages.fenced(text) == shown
