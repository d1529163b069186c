"""The figures of the paper, one file a figure: each writes a PNG and a JSON of its numbers.

>>> sorted(FIGURES)
['figure3', 'figure4', 'figure5']
"""

from decond.paper import figure3, figure4, figure5

__all__ = ["FIGURES"]

FIGURES = {"figure3": figure3.write, "figure4": figure4.write, "figure5": figure5.write}
"""What `decond reproduce` offers: functions from a folder to (paths written, numbers)."""
