"""What the tab key offers beyond commands and options: the columns of tables that were named already."""

import contextlib
import csv
from pathlib import Path

import typer

from decond.tables.columns import as_name
from decond.tables.encodings import encoding_of, open_text
from decond.tables.files import separator_of

__all__ = ["complete_column"]


def complete_column(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the columns of the tables on the command line; files that cannot be read have none."""
    columns: list[str] = []
    for table in [*(ctx.params.get("tables") or []), *ctx.args]:
        with contextlib.suppress(Exception):  # a shell that completes shows no errors
            columns += _header(Path(table))
    return [name for name in dict.fromkeys(columns) if name.startswith(incomplete)]


def _header(path: Path) -> list[str]:
    """Return the names of the columns without reading the rows."""
    if path.suffix.lower() in (".parquet", ".pq"):
        from pyarrow import parquet

        return list(parquet.read_schema(path).names)
    separator = "\t" if ".tsv" in path.suffixes else ","
    with open_text(path, encoding_of(path).name) as stream:
        names = next(csv.reader(stream, delimiter=separator))
    if separator_of(names, separator) != separator:
        names = next(csv.reader(names, delimiter=separator_of(names, separator)))
    return [as_name(name) for name in names]
