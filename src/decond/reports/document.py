"""The page itself: templates filled in, numbers embedded so that no text of the user can end a script."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from decond.notebook import MOST_DIGITS, number
from decond.reports.checks import Check, State

__all__ = ["Report", "rendered"]

DIGITS = 7
"""Digits of the numbers that charts are drawn from, counted from the first that changes along a curve."""

SIGNS = {State.GOOD: "✓", State.OPEN: "?", State.DOUBT: "!", State.BAD: "✗"}
STATE_WORDS = {
    State.GOOD: "good",
    State.OPEN: "not known",
    State.DOUBT: "caution",
    State.BAD: "problem",
}
"""How the states of checks are shown, and read aloud."""


@dataclass(frozen=True)
class Report:
    """One self-contained HTML page, and what it says in one sentence.

    >>> report = Report("A title", "All is well.", "<!doctype html>…")
    >>> import tempfile
    >>> report.write(tempfile.mkdtemp() + "/page.html").read_text(encoding="utf-8")
    '<!doctype html>…'
    """

    title: str
    verdict: str
    html: str = field(repr=False)
    sentences: tuple[str, ...] = field(default=(), repr=False)
    """The verdict, and what it rests on first of all; for a terminal."""
    state: State = State.GOOD
    """The worst state of the checks: "good", "open", "doubt" or "bad"."""
    checks: Mapping[str, Check] = field(default_factory=dict, repr=False)
    """What was checked, by name: each check has a `state`, a `sentence` and the `numbers` that were measured."""

    def write(self, path: str | Path) -> Path:
        """Write the page to a file and return its path."""
        target = Path(path)
        target.write_text(self.html, encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own."""
        from html import escape

        return f'<iframe srcdoc="{escape(self.html)}" style="width:100%;height:40rem;border:0"></iframe>'


def rendered(template: str, **values: Any) -> str:
    """Return a template filled in; texts are escaped, `data` is embedded as JSON."""
    return str(_templates().get_template(template).render(**values))


def embedded(data: Any) -> Any:
    r"""Return data as JSON that may stand inside a script element, whatever texts it holds.

    Columns of arrays are rounded to what can be seen, and numbers that JSON does not have become null.

    >>> print(embedded({"</script>": [0.1 + 0.2, float("nan")], "line": "a\u2028b"}))
    {"\u003c/script\u003e":[0.3,null],"line":"a\u2028b"}
    """
    from markupsafe import Markup

    text = json.dumps(_plain(data), separators=(",", ":"), allow_nan=False)  # ASCII: U+2028 is escaped too
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _plain(data: Any) -> Any:
    """Return nested lists and dictionaries of plain numbers and texts."""
    if isinstance(data, np.ndarray) and data.ndim and data.size and data.dtype.kind == "f":
        columns = data.reshape(len(data), -1).T
        return np.stack([_rounded(column) for column in columns], axis=-1).reshape(data.shape).tolist()
    if hasattr(data, "tolist"):
        data = data.tolist()
    if isinstance(data, dict):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(value) for value in data]
    if isinstance(data, float):
        return float(f"{data:.{MOST_DIGITS}g}") if math.isfinite(data) else None
    return data


def _rounded(column: np.ndarray) -> np.ndarray:
    """Return a column as objects, with digits enough for its own range: times need more than their size tells."""
    finite = column[np.isfinite(column)]
    digits = MOST_DIGITS
    half = float(finite.max() / 2.0 - finite.min() / 2.0) if len(finite) else 0.0  # the range itself may overflow
    if half > 0.0:
        beyond = math.log10(float(np.abs(finite).max()) / half)
        digits = min(MOST_DIGITS, DIGITS + max(0, math.ceil(beyond)))
    values = [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in column.tolist()]
    return np.array([*values, None], dtype=object)[:-1]


@lru_cache(maxsize=1)
def _templates() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = str(resources.files("decond.reports") / "templates")
    made = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(embedded=embedded, number=number)
    made.globals.update(signs=SIGNS, state_words=STATE_WORDS)
    return made
