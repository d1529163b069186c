"""Writes the page about the command line from the commands themselves: python docs/command_line.py."""

import inspect
import itertools
import textwrap
from pathlib import Path
from typing import Any

import typer

from decond.cli import app

PAGE = Path(__file__).parent / "api" / "command_line.md"

INTRODUCTION = """\
# Command line

`decond COMMAND --help` prints what is below. Wrong arguments end with status 2 and a sentence that says what to do
next. `decond --install-completion` lets your shell complete commands and options.
"""

ABOUT_SHELLS = ("install_completion", "show_completion")
"""Options whose help depends on the shell of whoever asks."""


def page() -> str:
    """Return the page."""
    group: Any = typer.main.get_command(app)
    commands = [
        _section(f"decond {name}", command.params, command.help)
        for name, command in group.commands.items()
    ]
    return "\n".join(
        [INTRODUCTION, _section("decond", group.params, group.help), *commands]
    )


def _section(name: str, parameters: list[Any], text: str) -> str:
    words = "\n\n".join(
        map(
            _shown,
            _alike(inspect.cleandoc(text).replace("\b\n", "").replace("\\[", "[")),
        )
    )
    rows = [
        f"| {_names(parameter)} | {_default(parameter)} | {_meaning(parameter)} |"
        for parameter in parameters
        if _meaning(parameter)
        and parameter.name not in ABOUT_SHELLS
        and not getattr(parameter, "hidden", False)
    ]
    table = "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])
    return f"## {name}\n\n{words}\n\n{table}\n"


def _alike(text: str) -> list[str]:
    """Split a help text where prose and indented examples meet, and where paragraphs end."""
    groups = itertools.groupby(
        text.splitlines(),
        key=lambda line: line[:4] if line.startswith("    ") else bool(line),
    )
    return ["\n".join(lines) for kind, lines in groups if kind]


def _shown(paragraph: str) -> str:
    return (
        f"```text\n{textwrap.dedent(paragraph)}\n```"
        if paragraph.startswith(" ")
        else paragraph
    )


def _names(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    names = (
        [*parameter.opts, *parameter.secondary_opts]
        if is_option
        else [parameter.name.upper()]
    )
    return ", ".join(f"`{name}`" for name in names)


def _default(parameter: Any) -> str:
    value = getattr(
        parameter.default, "value", parameter.default
    )  # that of an enumeration
    return (
        f"`{value}`"
        if isinstance(value, int | float | str | Path) and not isinstance(value, bool)
        else ""
    )


def _meaning(parameter: Any) -> str:
    return " ".join((getattr(parameter, "help", None) or "").split()).replace(
        "|", "\\|"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
