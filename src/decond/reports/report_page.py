"""The page of a report: its checks and their verdict, and templates filled in with texts and numbers."""

import base64
import io
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from decond.messages import number

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

__all__ = ["Check", "Report", "State", "picture", "rendered", "verdict"]


class State(StrEnum):
    """The outcome of a check; a verdict has the worst state of its checks."""

    GOOD = "good"
    OPEN = "open"
    DOUBT = "doubt"
    BAD = "bad"


@dataclass(frozen=True)
class Check:
    """One question about a result, and the answer.

    Attributes
    ----------
    name : str
        What is checked, such as "error bars" or "calibration".
    state : State
        The outcome.
    finding : str
        What the verdict says about it; empty if it adds nothing.
    sentence : str
        The answer in full.
    numbers : mapping of str to float
        What was measured; empty if nothing could be.
    question : str
        The question that it answers.
    """

    name: str
    state: State
    finding: str
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    question: str = ""


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


def verdict(checks: Sequence[Check], otherwise: str) -> tuple[State, str]:
    """Return the worst state and one sentence: what is wrong if something is, else what is good and what is open.

    Parameters
    ----------
    checks : sequence of Check
    otherwise : str
        What is said where no check has a finding.

    Returns
    -------
    state : State
    sentence : str

    Examples
    --------
    >>> good = Check("deconditioning", State.GOOD, "it helped", "")
    >>> bad = Check("error bars", State.BAD, "the bars are too narrow", "")
    >>> verdict([good], "")
    (<State.GOOD: 'good'>, 'It helped.')
    >>> verdict([good, bad], "")
    (<State.BAD: 'bad'>, 'Do not rely on this: the bars are too narrow.')
    """
    found = {state: [c.finding for c in checks if c.state == state and c.finding] for state in State}
    wrong = [check.finding for check in checks if check.state in (State.BAD, State.DOUBT) and check.finding]
    for state, opening in ((State.BAD, "Do not rely on this: "), (State.DOUBT, "Use with caution: ")):
        if any(check.state == state for check in checks):
            return state, f"{opening}{_joined(wrong)}."
    text = ", but ".join(filter(None, [_joined(found[State.GOOD]) or otherwise, _joined(found[State.OPEN])]))
    return State.OPEN if found[State.OPEN] else State.GOOD, f"{text[:1].upper()}{text[1:]}."


def _joined(findings: Sequence[str]) -> str:
    return f"{', '.join(findings[:-1])} and {findings[-1]}" if len(findings) > 1 else "".join(findings)


def rendered(template: str, title: str, checks: Sequence[Check], otherwise: str, **values: object) -> Report:
    """Return a report from a template; texts are escaped.

    Parameters
    ----------
    template : str
        Name of a file in ``templates``.
    title : str
        The heading.
    checks : sequence of Check
        Those that matter most first.
    otherwise : str
        The verdict where no check has a finding.
    **values
        What the template needs.

    Returns
    -------
    Report
    """
    state, sentence = verdict(checks, otherwise)
    now = datetime.now(UTC)
    values |= {"title": title, "checks": checks, "state": state, "verdict": sentence, "versions": _versions()}
    values["date"] = f"{now.day} {now:%B %Y, %H:%M} UTC"
    html = _templates().get_template(template).render(**values)
    return Report(title, sentence, html, {check.name: check for check in checks}, state)


def picture(figure: "Figure") -> str:
    """Return a figure as the source of an image, so that a page needs no other file.

    >>> from matplotlib.figure import Figure
    >>> picture(Figure((1.0, 1.0)))[:26]
    'data:image/svg+xml;base64,'
    """
    stream = io.BytesIO()
    figure.savefig(stream, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(stream.getvalue()).decode()}"


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
    made.filters["number"] = number
    made.globals["signs"] = dict(zip(State, "✓?!✗", strict=True))
    made.globals["state_words"] = dict(zip(State, ("good", "not known", "caution", "problem"), strict=True))
    return made
