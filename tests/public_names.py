"""What of decond is public: the names on the API pages."""

import functools
import importlib
import inspect
import re
from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs" / "api"
DIRECTIVE = re.compile(r"^::: (\S+)$", re.MULTILINE)


def public_paths():
    """Return the paths that the API pages name, in order."""
    return [path for page in sorted(PAGES.glob("*.md")) for path in DIRECTIVE.findall(page.read_text("utf-8"))]


def public_names():
    """Return every public class, function and constant by its path."""
    return {path: resolve(path) for path in public_paths()}


def identity(value, name):
    """Return what makes two names the same thing; equal constants with different names are different things."""
    return id(value) if inspect.isclass(value) or inspect.isroutine(value) else (id(value), name)


def resolve(path):
    """Return what is at a dotted path; a function that has the name of its module is found behind either."""
    parts = path.split(".")
    for split in range(1, len(parts) + 1):
        try:
            return functools.reduce(getattr, parts[split:], importlib.import_module(".".join(parts[:split])))
        except AttributeError:
            continue
    raise AttributeError(f"there is no {path}")
