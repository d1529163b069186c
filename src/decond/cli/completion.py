"""What the tab key offers beyond commands and options: the columns of tables that were named already."""

import contextlib
import csv
import itertools
from pathlib import Path

import typer

from decond.tables.columns import as_name
from decond.tables.encodings import encoding_of, open_text
from decond.tables.files import declared_separator, separator_of

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

        return [as_name(name) for name in parquet.read_schema(path).names]
    encoding = encoding_of(path, whole=False).name
    declared = declared_separator(path, encoding)
    separator = declared or ("\t" if ".tsv" in path.suffixes else ",")
    with open_text(path, encoding) as stream:
        lines = csv.reader(stream, delimiter=separator)
        names = next(itertools.islice(lines, 0 if declared is None else 1, None))
    if declared is None and separator_of(names, separator) != separator:
        names = next(csv.reader(names, delimiter=separator_of(names, separator)))
    return [as_name(name) for name in names]
