"""The figures of the paper, one file a figure: each writes a PNG and a JSON of its numbers.

>>> sorted(FIGURES)
['figure3', 'figure4', 'figure5']
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from decond.paper import figure3, figure4, figure5

__all__ = ["FIGURES", "TABLES"]

Written = tuple[list[Path], dict[str, Any]]


def _in_one_go(write: Callable[[Path], Written]) -> Callable[..., Written]:
    """Return a figure that is quick, and so reports nothing on the way."""
    return lambda folder, report=None: write(folder)


FIGURES: dict[str, Callable[..., Written]] = {
    "figure3": _in_one_go(figure3.write),
    "figure4": _in_one_go(figure4.write),
    "figure5": figure5.write,
}
"""What `decond reproduce` offers: functions from a folder to (paths written, numbers).

A second argument, a function of (runs that ended, all runs), is told how far it is.
"""

TABLES = {"figure5": figure5.tables}
"""Tables of a figure for people, from its numbers; of the others everything is in the comparison."""
