"""The figures of the paper: each writes a PNG and a JSON of its numbers.

>>> sorted(FIGURES)
['figure3', 'figure4', 'figure5']
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from decond.paper import figure5
from decond.paper.figures_3_and_4 import write_figure3, write_figure4
from decond.paper.published import answer_tables

__all__ = ["FIGURES", "TABLES"]

FIGURES: dict[str, Callable[..., tuple[list[Path], dict[str, Any]]]] = {
    "figure3": lambda folder, report=None: write_figure3(folder),
    "figure4": lambda folder, report=None: write_figure4(folder),
    "figure5": figure5.write,
}
"""What `decond reproduce` offers: functions from a folder to (paths written, numbers).

A second argument, a function of (runs that ended, all runs), is called after each run.
"""

TABLES = {"figure3": answer_tables, "figure4": answer_tables, "figure5": figure5.tables}
"""Tables of a figure for people, from its numbers."""
