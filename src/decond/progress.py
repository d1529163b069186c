"""Progress bars on a terminal; work within other work has a line of its own below it."""

import contextlib
import multiprocessing
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

__all__ = ["Report", "progress_bar"]

_lines: ContextVar["Progress | bool"] = ContextVar("lines", default=True)
"""The display to which a bar adds its line; True if it has to open one first, False if nothing is to be shown."""


class Report(Protocol):
    """What long work calls with its progress: how much is done, of how much, and a few words.

    >>> with progress_bar("reading", shown=False) as report:
    ...     report(3, 10, words="reading the second table", status="no gaps so far")
    """

    def __call__(
        self, done: float | None = None, total: float | None = None, *, words: str = "", status: str = ""
    ) -> None:
        """Show it; what is left out stays as it was shown last."""


@contextlib.contextmanager
def progress_bar(words: str, total: float | None = None, shown: bool | None = None) -> Iterator[Report]:
    """Draw a bar on stderr until the work ends; where that is not a terminal, do nothing.

    Parameters
    ----------
    words : str
        What is being done.
    total : float, optional
        How much there is to do, if known.
    shown : bool, optional
        True draws everywhere, and the bar stays. False draws nothing for this work and all within it, except in
        threads that it starts. By default there is a bar on a terminal, drawn by the main process only.

    Yields
    ------
    Report
        What to call with the progress.

    Examples
    --------
    >>> with progress_bar("counting", total=2) as report:  # not on a terminal: draws nothing
    ...     report(1, status="half of it")
    """
    lines = _lines.get() if shown is not False else False
    if lines is True and not shown and not _on_terminal():
        yield _say_nothing
        return
    with contextlib.ExitStack() as closing:
        if lines is True:
            lines = closing.enter_context(_display(transient=not shown))
        token = _lines.set(lines)
        closing.callback(_lines.reset, token)
        yield _say_nothing if isinstance(lines, bool) else closing.enter_context(_line(lines, words, total))


@contextlib.contextmanager
def _line(lines: "Progress", words: str, total: float | None) -> Iterator[Report]:
    """Yield what moves a new line of a display; the line goes with the work, except the outermost."""
    task = lines.add_task(words, total=total, status="")

    def _report(done: float | None = None, total: float | None = None, *, words: str = "", status: str = "") -> None:
        said: dict[str, Any] = {"status": status} if status else {}
        lines.update(task, completed=done, total=total, description=words or None, **said)

    try:
        yield _report
    finally:
        if len(lines.tasks) > 1:
            lines.remove_task(task)


def _say_nothing(done: float | None = None, total: float | None = None, *, words: str = "", status: str = "") -> None:
    """Take a report that is not to be shown."""


def _on_terminal() -> bool:
    """Tell whether stderr is a terminal, and this process the main one: its workers share the terminal with it."""
    from rich.console import Console

    return multiprocessing.parent_process() is None and Console(stderr=True).is_terminal


def _display(transient: bool) -> "Progress":
    from rich.console import Console
    from rich.progress import Progress

    both = Console().is_terminal  # what is printed meanwhile goes above the bar, unless it goes elsewhere
    unbroken = Console(stderr=True, soft_wrap=True)
    return Progress(*_columns(), console=unbroken, transient=transient, redirect_stdout=both)


def _columns() -> "list[ProgressColumn]":
    from rich.progress import BarColumn, MofNCompleteColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.text import Text

    class IfKnown(MofNCompleteColumn):
        def render(self, task: Task) -> Text:
            return Text() if task.total is None else super().render(task)

    class LeftIfKnown(TimeRemainingColumn):
        def render(self, task: Task) -> Text:
            return Text() if task.time_remaining is None else super().render(task)

    words, status = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[status]}"))
    return [words, BarColumn(), IfKnown(), status, TimeElapsedColumn(), LeftIfKnown()]
