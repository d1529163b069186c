"""Arguments that do not fit: one message that says what was given, what is accepted, and what to do next."""

import contextlib
import difflib
import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from decond.cli.console import refuse

__all__ = ["Command", "Commands"]

UsageError: Any = typer.BadParameter.__base__
"""What the parser raises; typer has it from its own copy of click or from click, depending on its age."""


class Command(TyperCommand):
    """A command that refuses wrong arguments in one sentence of its own, and whose help is laid out for people."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.help = _unwrapped(self.help or "")

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all parameters."""
        return _without_types(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what stands behind the name of the command in its usage."""
        arguments = [p for p in self.get_params(ctx) if p.param_type_name == "argument"]
        return ["[OPTIONS]", *map(_name, arguments)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _refused_in_words(ctx, args):
            return super().parse_args(ctx, args)


class Commands(TyperGroup):
    """All commands; a name that is none of them is answered with the nearest."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all parameters."""
        return _without_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _refused_in_words(ctx, args):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not ctx.resilient_parsing:
            names = list(self.commands)
            refuse(
                f"there is no command {args[0]!r}{_nearest(args[0], names)} The commands are {', '.join(names)}; "
                f"see {ctx.command_path} --help."
            )
        return super().resolve_command(ctx, args)


@contextlib.contextmanager
def _refused_in_words(ctx: Any, args: list[str]) -> Iterator[None]:
    """Refuse arguments that the parser does not take; completion asks with half a command, and is not refused."""
    given = list(args)
    try:
        yield
    except UsageError as error:
        if ctx.resilient_parsing:
            raise
        refuse(_explain(error, ctx, given))


def _explain(error: Any, ctx: Any, given: list[str]) -> str:
    """Return what is wrong, what is accepted, and where to read more."""
    more = f"See {ctx.command_path} --help."
    parameter = getattr(error, "param", None)
    if parameter is None:
        return f"{_explain_words(error, ctx)} {more}"
    name, choices = _name(parameter), _choices(parameter)
    if type(error).__name__ == "MissingParameter":
        accepted = f"Choose {choices}." if choices else _sentence(parameter.help or "")
        return f"{ctx.command_path} needs {name}. {accepted} {more}"
    value = ctx.command.make_parser(ctx).parse_args(args=given)[0].get(parameter.name)
    accepted = f"Choose {choices}." if choices else _sentence(error.message)
    return f"{name} is {_shown(value)}. {accepted} {more}"


def _explain_words(error: Any, ctx: Any) -> str:
    """Return what is wrong with words on the command line that belong to no option or argument."""
    option = getattr(error, "option_name", None)
    parameters = ctx.command.get_params(ctx)
    if option is None or any(option in parameter.opts for parameter in parameters):
        return f"{_sentence(error.format_message())} {_sentence(ctx.get_usage())}"
    shown = (parameter for parameter in parameters if not getattr(parameter, "hidden", False))
    known = sorted(name for parameter in shown for name in parameter.opts if name.startswith("--"))
    return f"{ctx.command_path} has no option {option}{_nearest(option, known)} Its options are {', '.join(known)}."


def _name(parameter: Any) -> str:
    """Return what a parameter is called: --option, or ARGUMENT."""
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.upper())


def _without_types(parameters: list[Any]) -> list[Any]:
    """Return parameters without types in help: flags take no value, and the name of an argument says its kind."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        if parameter.param_type_name == "argument" and not _choices(parameter):
            parameter.display_type_rich = _no_type
    return parameters


def _no_type(ctx: Any) -> None:
    """Stand in for what shows the Python type of an argument."""


def _choices(parameter: Any) -> str:
    kinds = [getattr(parameter, "type", None), getattr(parameter, "type_descriptor", None)]
    found: Iterable[Any] = next((choices for kind in kinds if (choices := getattr(kind, "choices", None))), ())
    return ", ".join(str(getattr(choice, "value", choice)) for choice in found)


def _nearest(name: str, known: list[str]) -> str:
    """Return the end of a sentence, which asks for the nearest known name if one is near."""
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else "."


def _shown(value: Any) -> str:
    return ", ".join(map(repr, value)) if isinstance(value, list | tuple) else repr(value)


def _unwrapped(text: str) -> str:
    """Return a text with each paragraph on one line, so that it is broken where the terminal ends.

    >>> print(
    ...     _unwrapped('''One
    ... paragraph.
    ...
    ... For example:
    ...     decond fit''')
    ... )
    One paragraph.
    <BLANKLINE>
    For example:
        decond fit
    """
    return re.sub(r"(?<=[^\s\b])\n(?=[^\s\b])", " ", inspect.cleandoc(text))


def _sentence(text: str) -> str:
    """Return a text that ends with a full stop."""
    return text if not text or text[-1] in ".?!" else f"{text}."
