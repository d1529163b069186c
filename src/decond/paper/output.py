"""What every figure writes: a picture, its numbers, and tables for people."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from decond.plotting.figures import MARK

__all__ = ["Table", "write_figure"]


class Table(NamedTuple):
    """Cells as they are printed, one list a row."""

    title: str
    headings: list[str]
    rows: list[list[str]]

    def as_markdown(self) -> list[str]:
        """Return the lines of a Markdown table, the first column to the left and all others to the right.

        >>> Table("widths", ["method", "width"], [["DME", "0.43"]]).as_markdown()
        ['| method | width |', '|---|---:|', '| DME | 0.43 |']
        """
        lines = [self.headings, *self.rows]
        head, *body = (f"| {' | '.join(line)} |" for line in lines)
        return [head, f"|---|{'---:|' * (len(self.headings) - 1)}", *body]


def write_figure(folder: Path, name: str, figure: Any, numbers: dict[str, Any]) -> list[Path]:
    """Write a figure as PNG and its numbers as JSON, and return both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    picture, table = folder / f"{name}.png", folder / f"{name}.json"
    figure.savefig(picture, dpi=120, metadata=MARK)
    table.write_text(json.dumps(numbers, indent=2) + "\n")
    return [picture, table]
