"""The page of a report: templates filled in with texts and numbers."""

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from decond.messages import number
from decond.verdict import Check, State, Verdict

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["Report", "rendered"]


@dataclass(frozen=True)
class Report:
    """One self-contained HTML page, and what it says in one sentence.

    Attributes
    ----------
    title : str
    verdict : str
        One sentence: what is wrong if something is, else what is good and what is not known.
    html : str
        The page.
    checks : mapping of str to Check
        What was checked, by name.
    state : State
        The worst state of the checks: "good", "open", "doubt" or "bad".

    Examples
    --------
    >>> report = Report("A title", "All is well.", "<!doctype html>…")
    >>> import tempfile
    >>> report.write(tempfile.mkdtemp() + "/page.html").read_text(encoding="utf-8")
    '<!doctype html>…'
    """

    title: str
    verdict: str
    html: str = field(repr=False)
    checks: Mapping[str, Check] = field(default_factory=dict, repr=False)
    state: State = State.GOOD

    def write(self, path: str | Path) -> Path:
        """Write the page to a file and return its path."""
        target = Path(path)
        target.write_text(self.html, encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own."""
        from html import escape

        return f'<iframe srcdoc="{escape(self.html)}" style="width:100%;height:40rem;border:0"></iframe>'


def rendered(template: str, title: str, verdict: Verdict, **values: object) -> Report:
    """Return a report from a template; texts are escaped, `data` is embedded as JSON.

    Parameters
    ----------
    template : str
        Name of a file in ``templates``.
    title : str
        The heading.
    verdict : Verdict
        What the checks say.
    **values
        What the template needs.

    Returns
    -------
    Report
    """
    now = datetime.now(UTC)
    values |= {"title": title, "checks": verdict.checks, "state": verdict.state, "verdict": verdict.sentence}
    values["versions"] = _versions()
    values["date"] = f"{now.day} {now:%B %Y, %H:%M} UTC"
    html = _templates().get_template(template).render(**values)
    return Report(title, verdict.sentence, html, {check.name: check for check in verdict.checks}, verdict.state)


def _versions() -> dict[str, str]:
    """Return the versions of what computed a result, by name.

    >>> list(_versions())
    ['decond', 'numpy', 'scipy', 'Python', 'platform']
    """
    found = {name: version(name) for name in ("decond", "numpy", "scipy")}
    return {**found, "Python": platform.python_version(), "platform": platform.platform(aliased=True, terse=True)}


@lru_cache(maxsize=1)
def _templates() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(str(resources.files("decond.reports") / "templates"))
    made = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters.update(embedded=_embedded, number=number)
    made.globals["signs"] = dict(zip(State, "✓?!✗", strict=True))
    made.globals["state_words"] = dict(zip(State, ("good", "not known", "caution", "problem"), strict=True))
    return made


def _embedded(data: object) -> str:
    r"""Return data as JSON that may stand inside a script element; numbers that JSON does not have become null.

    >>> print(_embedded({"</script>": [0.1 + 0.2, float("nan")], "line": "a\u2028b"}))
    {"\u003c/script\u003e":[0.3,null],"line":"a\u2028b"}
    """
    from markupsafe import Markup

    text = json.dumps(_plain(data), separators=(",", ":"), allow_nan=False)  # ASCII: U+2028 is escaped too
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _plain(data: object) -> object:
    """Return nested lists and dictionaries of plain texts, and of numbers with the digits that can be seen."""
    if isinstance(data, np.ndarray | np.generic):
        data = data.tolist()
    if isinstance(data, dict):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(value) for value in data]
    if isinstance(data, float):
        return float(f"{data:.14g}") if math.isfinite(data) else None  # times in seconds need 12 digits and more
    return data
