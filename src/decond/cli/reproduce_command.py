"""`decond reproduce`: the paper's figures."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from decond.cli import console
from decond.progress import progress_bar

if TYPE_CHECKING:
    from decond.paper.published import PrintedTable, Row

__all__ = ["reproduce"]


def reproduce(
    figure: Annotated[
        Literal["all", "figure3", "figure4", "figure5"],
        typer.Argument(
            help="figure3: a function recovered from two tables. figure4: 100 rows represented by five points. "
            "figure5: posteriors of two simulators, many methods, five seeds (minutes). all: each of them, and a "
            "page that compares every number with the published one.",
        ),
    ],
    output: console.Folder = Path("decond-paper"),
    force: console.Force = False,
    json: console.AsJson = False,
) -> None:
    """Reproduce a figure of the paper, or all of them: a PNG each, and a JSON with its numbers.

    Example: `decond reproduce figure3 --output figures`
    """
    from decond.paper import FIGURES, TABLES
    from decond.paper.published import compare, write_comparison

    names = list(FIGURES) if figure == "all" else [figure]
    written = [*names, *(["figures"] if figure == "all" else [])]
    endings = {"figures": (".md", ".json")}
    console.check_folder(
        output, [f"{name}{end}" for name in written for end in endings.get(name, (".png", ".json"))], force
    )
    numbers: dict[str, Any] = {}
    paths: list[Path] = []
    rows: list[Row] = []
    tables: dict[str, list[PrintedTable]] = {}
    for name in names:
        with progress_bar(f"computing {name}") as report:
            made, numbers[name] = FIGURES[name](output, report)
        paths += made
        rows += compare(name, numbers[name])
        tables[name] = TABLES[name](numbers[name])
        if not json:
            for table in tables[name]:
                console.print_table(*table)
    if figure == "all":
        paths += write_comparison(output, rows, tables)
    if json:
        console.print_json({"figures": numbers, "comparison": [row.as_dict() for row in rows], "files": paths})
        return
    _print_comparison(rows)
    console.print_wrote(*paths)


def _print_comparison(rows: "list[Row]") -> None:
    """Print what is known of each figure beside ours; reasons for a difference follow by number, then notes."""
    from decond.paper.published import figure_notes, reasons, tabulated

    for name in dict.fromkeys(row.figure for row in rows):
        shown = [row for row in rows if row.figure == name]
        _, headings, cells = tabulated(shown)
        console.print_table(f"{name}: {headings[1]} and reproduced", headings, cells)
        console.print_sentences(f"{number}. {reason}" for reason, number in reasons(shown).items())
        console.print_sentences(figure_notes()[name])
