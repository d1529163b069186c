"""`decond predict`: a fitted model and a table give a table with mean and standard deviation."""

import inspect
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from decond.cli.console import errors, say_json, say_notes, wrong_input
from decond.cli.options import file, flag
from decond.cli.outputs import check_predictions, check_unread, is_model, say_wrote, times_of
from decond.errors import ArgumentError
from decond.tables import Table, TableError, check_output, read_table, write_table
from decond.tables.columns import as_name

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["command", "outside_range"]

ADDED = ("mean", "sd")


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `decond fit` or decond.save wrote.")],
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="A table (.csv, .tsv or .parquet) with the columns of x.")
    ],
    output: Annotated[
        Path, file("Where to write; the suffix says the format: .csv, .tsv, .parquet.", "--output", "-o")
    ] = Path("predictions.csv"),
    json: Annotated[bool, flag("--json", "Print a summary as JSON; the predictions are in --output.")] = False,
) -> None:
    """Predict z for every row of a table, with its standard deviation.

    The output is a table, also with --json: the columns of TABLE and two more, mean and sd.

    Example: decond predict model.decond new.csv --output predictions.csv
    """
    with wrong_input("Give a table with fewer rows."):
        check_output(output)
        check_unread([output], [model, table])
        _check_order(model, table)
        given = read_table(table)
        given.check_length(1, "predicting")
        _check_names_are_free(given)
        estimator = _load(model)
        columns = _columns(estimator, given)
        check_predictions(output, [*map(str, given.frame.columns), *_added(estimator)], given.name)
        before = times_of([output])
        x = given.numbers([as_name(name) for name in columns]).set_axis(columns, axis=1)
        predicted = _with_predictions(given, estimator, x, output)
        notes = _about_extrapolation(estimator, x)
        write_table(predicted, output)
    if json:
        found = {"predictions": str(output), "model": type(estimator).__name__, **_summary(predicted)}
        say_json({**found, "notes": [*given.notes, *notes]})
        return
    say_notes(given.notes)
    for note in notes:
        errors.print(f"Warning: {note}", style="yellow", markup=False, soft_wrap=True)
    say_wrote(output, before=before)


def _check_order(model: Path, table: Path) -> None:
    """Raise if the model was given last."""
    if is_model(table) and not is_model(model):
        raise ArgumentError("MODEL", f"{table} is a model, and the model comes first: decond predict {table} {model}")


def _load(path: Path) -> Any:
    """Return a model; what loading warns of is said plainly."""
    from decond.io import load

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        estimator = load(path)
    for warning in caught:
        errors.print(f"Warning: {warning.message}", style="yellow", markup=False, soft_wrap=True)
    return estimator


def _columns(estimator: Any, table: Table) -> list[str]:
    """Return the names of the columns that the model was fitted on."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    if len(table.frame.columns) == estimator.n_features_in_:
        return [str(name) for name in table.frame.columns]
    raise TableError(
        f"the model was fitted on {estimator.n_features_in_} columns without names, and {table.name} has "
        f"{len(table.frame.columns)}. Give a table with exactly these columns, in the same order.",
        table=table.name,
        count=len(table.frame.columns),
    )


def _check_names_are_free(table: Table) -> None:
    for name in ADDED:
        if name in table.frame.columns:
            raise TableError(
                f"{table.name} has a column {name!r} already; rename it, since predictions are called so.",
                table=table.name,
                column=name,
            )


def _added(estimator: Any) -> tuple[str, ...]:
    """Return the columns that a model adds: some have no error bars."""
    return ADDED if "return_std" in inspect.signature(estimator.predict).parameters else ADDED[:1]


def _with_predictions(table: Table, estimator: Any, x: "pd.DataFrame", output: Path) -> "pd.DataFrame":
    """Return the table with its predictions; cells of text files pass as they are from one text file to another."""
    frame = table.typed() if output.suffix in (".parquet", ".pq") else table.frame
    if _added(estimator) == ADDED:
        mean, std = estimator.predict(x, return_std=True)
        return frame.assign(mean=mean, sd=std)
    errors.print(f"{type(estimator).__name__} has no error bars, so there is no column 'sd'.", markup=False)
    return frame.assign(mean=estimator.predict(x))


def outside_range(estimator: Any, x: "pd.DataFrame") -> "pd.DataFrame":
    """Return which values lie outside the range of the data of the fit; none where the model does not know it."""
    seen = estimator._range_seen()
    low, high = (-np.inf, np.inf) if seen is None else seen
    return (x < low) | (x > high)


def _about_extrapolation(estimator: Any, x: "pd.DataFrame") -> list[str]:
    """Return a note if rows lie outside the range of the data."""
    outside = outside_range(estimator, x).to_numpy()
    count = int(outside.any(axis=1).sum())
    if not count:
        return []
    low, high = estimator._range_seen()
    ranges = [f"{x.columns[j]} {low[j]:.4g} to {high[j]:.4g}" for j in outside.any(axis=0).nonzero()[0]]
    return [
        f"{count} of {len(x)} rows {'lies' if count == 1 else 'lie'} outside the range of the data "
        f"({', '.join(ranges)}): predictions there are extrapolations."
    ]


def _summary(predicted: "pd.DataFrame") -> dict[str, Any]:
    """Return how many rows there are, and the range of what was added to them."""
    added = {name: predicted[name] for name in ADDED if name in predicted}
    ranges = {
        name: {"least": float(values.min()), "average": float(values.mean()), "most": float(values.max())}
        for name, values in added.items()
    }
    return {"rows": len(predicted), **ranges}
