"""What every figure writes: a picture and its numbers."""

import json
from pathlib import Path
from typing import Any

__all__ = ["write_figure"]


def write_figure(folder: Path, name: str, figure: Any, numbers: dict[str, Any]) -> list[Path]:
    """Write a figure as PNG and its numbers as JSON, and return both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    picture, table = folder / f"{name}.png", folder / f"{name}.json"
    figure.savefig(picture, dpi=120)
    table.write_text(json.dumps(numbers, indent=2) + "\n")
    return [picture, table]
