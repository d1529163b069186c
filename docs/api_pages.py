"""What the API pages need beyond mkdocstrings: examples as code, and signatures of classes that declare fields."""

import inspect
import re
from pydoc import locate
from typing import Any

import griffe

from decond.parameters import Parametrized

EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?! *$).*)*", re.MULTILINE)
"""From a prompt to the next empty line; Markdown would take the prompt for a quotation."""


def fenced(text: str) -> str:
    """Return a docstring with a fence around each example."""
    return EXAMPLE.sub(
        lambda found: f"{found['indent']}```pycon\n{found[0]}\n{found['indent']}```",
        text,
    )


def declares_fields(cls: Any) -> bool:
    """Tell whether a class takes its fields as arguments, without a constructor or decorator that says so."""
    return inspect.isclass(cls) and (
        issubclass(cls, Parametrized) or hasattr(cls, "_field_defaults")
    )


def parameters_of(cls: Any) -> griffe.Parameters:
    """Return the arguments of a class as they are shown."""
    found = inspect.signature(cls).parameters.values()
    kind = griffe.ParameterKind.positional_or_keyword
    return griffe.Parameters(
        griffe.Parameter("self", kind=kind),
        *(
            griffe.Parameter(
                one.name,
                kind=kind,
                default=None if one.default is one.empty else repr(one.default),
            )
            for one in found
        ),
    )


class Reader(griffe.Extension):
    """Repairs what is read from the source before pages are made of it."""

    def on_object(self, *, obj: griffe.Object, **options: Any) -> None:
        if obj.docstring is not None and "```" not in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_class(self, *, cls: griffe.Class, **options: Any) -> None:
        if "__init__" not in cls.members and declares_fields(found := locate(cls.path)):
            cls.set_member(
                "__init__", griffe.Function("__init__", parameters=parameters_of(found))
            )
