"""The API pages and the public names are the same list."""

import re
from collections import Counter
from pathlib import Path

import api_pages
import command_line
from public_names import identity, public_names, resolve

PAGES = Path(__file__).parents[2] / "docs" / "api"
DIRECTIVE = re.compile(r"^::: (\S+)$", re.MULTILINE)


def directives():
    return [path for page in sorted(PAGES.glob("*.md")) for path in DIRECTIVE.findall(page.read_text("utf-8"))]


def thing(path):
    """Return what is behind a path, with the name that it has there."""
    name = path.rpartition(".")[2]
    return name, identity(resolve(path), name)


def test_every_public_name_is_on_one_api_page():
    counts = Counter(map(thing, directives()))
    missing = [path for path in public_names() if not counts[thing(path)]]
    twice = sorted(name for (name, _), count in counts.items() if count > 1)
    assert not missing, (
        f"on no page under docs/api: {', '.join(missing)}. Add ::: lines to the page where they belong."
    )
    assert not twice, f"on more than one page under docs/api: {', '.join(twice)}."


def test_api_pages_show_public_names_only():
    public = set(map(thing, public_names()))
    extra = [path for path in directives() if thing(path) not in public]
    assert not extra, f"on a page under docs/api, but in no list of public names: {', '.join(extra)}."


def test_the_page_of_the_command_line_is_that_of_the_commands():
    written = command_line.PAGE.read_text(encoding="utf-8")
    assert written == command_line.page(), "options have changed; run: python docs/command_line.py"


def test_examples_are_shown_as_code():
    text = "Twice.\n\n>>> 2 * 3\n6\n\nAnd so on:\n\n    >>> 2 * 4\n    8"
    shown = "Twice.\n\n```pycon\n>>> 2 * 3\n6\n```\n\nAnd so on:\n\n    ```pycon\n    >>> 2 * 4\n    8\n    ```"
    assert api_pages.fenced(text) == shown
