"""The figures of the paper, one file a figure: each writes a PNG and a JSON of its numbers.

>>> sorted(FIGURES)
['figure3', 'figure4']
"""

from decond.paper import figure3, figure4

__all__ = ["FIGURES"]

FIGURES = {"figure3": figure3.write, "figure4": figure4.write}
"""What `decond reproduce` offers: functions from a folder to (paths written, numbers)."""
