"""Options that several commands have, with the same words in the help of each."""

from pathlib import Path
from typing import Annotated

import typer

from decond.tables import TextFormat

__all__ = ["AsJson", "Decimal", "Encoding", "Folder", "Force", "ReportFile", "Seed", "Separator", "text_format"]


def _html_only(path: Path | None) -> Path | None:
    if path is not None and path.suffix not in (".html", ".htm"):
        raise typer.BadParameter(f"{path} does not end in .html.")
    return path


AsJson = Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]
Folder = Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write into.")]
ReportFile = Annotated[
    Path | None, typer.Option(metavar="FILE", callback=_html_only, help="Write a report to this file: one HTML page.")
]
Encoding = Annotated[str, typer.Option(metavar="NAME", help="Encoding of text files, such as utf-8 or cp1252.")]
Separator = Annotated[
    str | None,
    typer.Option(metavar="SIGN", help="What separates cells of text files. By default ',' in .csv, a tab in .tsv."),
]
Decimal = Annotated[str, typer.Option(metavar="SIGN", help="Decimal sign in text files: '.' or ','.")]


def text_format(encoding: str, separator: str | None, decimal: str) -> TextFormat:
    """Return how text files are read.

    Parameters
    ----------
    encoding, separator, decimal : str
        What the options of these names say.
    """
    if len(decimal) != 1:
        raise typer.BadParameter("give one sign, '.' or ','.", param_hint="--decimal")
    return TextFormat(encoding, separator, decimal)
