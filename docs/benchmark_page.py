"""Writes the page of benchmarks and the table of the README from the results: python docs/benchmark_page.py."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
TABLE = re.compile(
    r"(?<=<!-- figures: python docs/benchmark_page.py -->\n).*?(?=<!-- end of figures -->)",
    re.DOTALL,
)

INTRODUCTION = """\
# Benchmarks

Accuracy and speed beside other software. `python docs/benchmark_page.py` writes this page from the files in
`benchmarks/results`, and the command beside a figure writes its file. Times of one row were taken in turns on one
machine; compare them within a row only. `benchmarks/README.md` says how to repeat them, what the peers need, and how
the tables are read.

## At a glance

"""

SHOWN = {
    "sbi_tasks": (),
    "zoo": ("single", "mean", "complete", "sampled", "hints"),
    "evidence": (
        "value and gradient, task-transformed: n rows (x, y), m = n rows (y, z)",
        "value and gradient, one table (M = I): n rows (x, z)",
    ),
    "sparse": ("value and gradient", "fit with learned hyperparameters"),
    "uci": ("RMSE", "NLL", "new targets in 95 % intervals", "seconds"),
    "inference_speed": ("systems",),
    "herding": ("seconds",),
}
"""Benchmarks on the page, with the tables that are shown of them."""

COLUMNS = {
    "zoo": (
        "model",
        "RMSE",
        "RMSE / plain",
        "coverage",
        "coverage < 0.75",
        "resolution",
    ),
    "hints": (
        "kind",
        "right facts",
        "false hints",
        "facts matter",
        "hints where facts matter",
    ),
}
"""Columns that are shown of tables with many."""


ARGUMENTS = {
    "zoo": "--draws 10 --first-seed 2000",
    "uci": "--data FOLDER --points 512 --splits 1",
}
"""What the commands were given, where that is not the default."""


def command(name: str) -> str:
    """Return the command that prints the results of a benchmark."""
    return " ".join(["python -m benchmarks", name, ARGUMENTS.get(name, "")]).rstrip()


def read(name: str) -> dict[str, Any] | None:
    """Return the results of a benchmark; None if none are kept."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def row_of(rows: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    """Return the row of a table with these values."""
    return next(
        row for row in rows if all(row[key] == value for key, value in wanted.items())
    )


@dataclass(frozen=True)
class Line:
    """A line of the table at a glance: what is measured, by which benchmark, and where its two figures are."""

    what: str
    benchmark: str
    ours: Callable[[dict[str, Any]], str]
    other: Callable[[dict[str, Any]], str]


def _posterior(task: str) -> Line:
    def published(found: dict[str, Any]) -> str:
        rivals = found[f"{task}: published"]
        return f"{min(rivals['best single-round'], rivals['best sequential']):.3f}, best of sbibm's table"

    return Line(
        f"posterior of `{task}` from 1,000 simulations: C2ST, from 1 down to 0.5",
        "sbi_tasks",
        lambda found: f"{found[f'{task}: auto, mean of frozen']:.3f}",
        published,
    )


def _curve(kind: str, what: str, rival: str, words: str) -> Line:
    return Line(
        f"{what}: error of the curve, in its standard deviations",
        "zoo",
        lambda found: (
            f"{row_of(found[kind], model='default, right facts')['RMSE']:.2f}"
        ),
        lambda found: f"{row_of(found[kind], model=rival)['RMSE']:.2f}, {words}",
    )


def _table_of_uci(name: str, rows: str) -> Line:
    """Return the line of a public table, beside the best published sparse process with 512 or 1,024 points."""

    def cell(row: dict[str, Any]) -> float:
        return float(str(row[name]).split(" ")[0])

    def published(found: dict[str, Any]) -> str:
        sparse = ("SGPR", "SVGP", "SoftKI")
        rivals = {
            word: cell(row)
            for row in found["RMSE"]
            for word in sparse
            if row["system"].startswith(f"published: {word}")
        }
        best = min(rivals, key=lambda word: rivals[word])
        return f"{rivals[best]:.3f}, {best} as published"

    return Line(
        f"`{name}`, {rows} rows, 512 inducing points: error, in standard deviations of the target",
        "uci",
        lambda found: f"{cell(row_of(found['RMSE'], system='decond, n = 512')):.3f}",
        published,
    )


LINES = (
    _posterior("two_moons"),
    _posterior("gaussian_linear_uniform"),
    _posterior("sir"),
    Line(
        "posterior of 4 parameters in a fresh process: seconds",
        "inference_speed",
        lambda found: f"{row_of(found['systems'], system='decond')['seconds']:.1f}",
        lambda found: (
            f"{row_of(found['systems'], system='sbi NPE')['seconds']:.1f}, NPE of sbi"
        ),
    ),
    _curve(
        "single", "two tables, single readings", "cascade", "two regressions in a chain"
    ),
    _curve(
        "complete",
        "means of groups, all rows listed",
        "on E[x|y]",
        "regression on the mean x",
    ),
    _table_of_uci("protein", "46,000"),
    _table_of_uci("keggdirected", "49,000"),
    Line(
        "evidence of two tables of 2,000 rows, with gradient: seconds",
        "evidence",
        lambda found: f"{row_of(found[SHOWN['evidence'][0]], n=2000)['decond']:.2f}",
        lambda found: (
            f"{row_of(found[SHOWN['evidence'][0]], n=2000)['GPyTorch, LU']:.2f}, GPyTorch"
        ),
    ),
    Line(
        "evidence of 100,000 rows by 256 inducing points, with gradient: seconds",
        "sparse",
        lambda found: (
            f"{row_of(found['value and gradient'], m=100_000, n=256)['decond']:.2f}"
        ),
        lambda found: (
            f"{row_of(found['value and gradient'], m=100_000, n=256)['GPyTorch SGPR']:.2f}, GPyTorch's SGPR"
        ),
    ),
)


def at_a_glance() -> str:
    """Return the table of the README."""
    rows = ["| what | decond | beside it | printed by |", "|---|---:|---|---|"]
    rows += [
        f"| {line.what} | {line.ours(found)} | {line.other(found)} | `{command(line.benchmark)}` |"
        for line in LINES
        if (found := read(line.benchmark))
    ]
    return "\n".join(rows) + "\n"


def page() -> str:
    """Return the page of benchmarks."""
    found = {name: results for name in SHOWN if (results := read(name))}
    return (
        INTRODUCTION
        + at_a_glance()
        + "".join(_section(name, results) for name, results in found.items())
    )


def _section(name: str, results: dict[str, Any]) -> str:
    title = results["benchmark"]
    notes = "".join(f"- {note}\n" for note in results.get("notes", ()))
    tables = [_table(name, title, results[title]) for title in SHOWN[name]] or [
        _figures(results)
    ]
    machine = "; ".join(f"{key} {value}" for key, value in results["machine"].items())
    printed = f"Printed by `{command(name)}`. Machine: {machine}."
    return (
        "\n".join(
            [f"\n## {title[0].upper()}{title[1:]}\n", printed, "", notes, *tables]
        ).rstrip()
        + "\n"
    )


def _table(name: str, title: str, rows: list[dict[str, Any]]) -> str:
    columns = COLUMNS.get(title) or COLUMNS.get(name) or list(rows[0])
    shown = [[str(_cell(row.get(column, ""))) for column in columns] for row in rows]
    lines = [list(columns), ["---", *["---:"] * (len(columns) - 1)], *shown]
    table = "\n".join(
        "| "
        + " | ".join(cell.replace("E[x|y]", "E[x given y]") for cell in line)
        + " |"
        for line in lines
    )
    return f"**{title[0].upper()}{title[1:]}**\n\n{table}\n"


def _figures(results: dict[str, Any]) -> str:
    figures = {key: value for key, value in results.items() if isinstance(value, float)}
    rows = [f"| {key} | {_cell(value)} |" for key, value in figures.items()]
    return "\n".join(["| figure | value |", "|---|---:|", *rows]) + "\n"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else value


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    README.write_text(TABLE.sub(lambda _: at_a_glance(), text), encoding="utf-8")


if __name__ == "__main__":
    main()
