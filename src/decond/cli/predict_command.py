"""`decond predict`: a fitted model and a table give a table with mean and standard deviation."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from decond.cli import console
from decond.errors import ArgumentError
from decond.tables import Table, TableError, is_parquet, read_table, write_table

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.base import BaseEstimator

__all__ = ["predict"]


def predict(
    model: Annotated[Path, typer.Argument(help="A model that `decond fit` or decond.save wrote.")],
    table: Annotated[Path, typer.Argument(help="A table (.csv, .tsv or .parquet) with the columns of x.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write: .csv, .tsv or .parquet.")
    ] = Path("predictions.csv"),
    level: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=0.9999,
            metavar="NUMBER",
            help="Also write low and high: the interval in which a new target without a known error of its own lies "
            "with this probability, such as 0.9.",
        ),
    ] = None,
    encoding: console.Encoding = "utf-8",
    separator: console.Separator = None,
    decimal: console.Decimal = ".",
    force: console.Force = False,
    json: console.AsJson = False,
) -> None:
    """Predict z for every row of a table, with its standard deviation.

    The output has the columns of TABLE and two more, mean and sd: those of the function, without noise.

        decond predict model.decond new.csv --output predictions.csv

    With --level there are low and high as well, which include the noise of a target.

    With --json a summary is printed; the predictions are in --output.
    """
    from decond.io import load
    from decond.plotting.regression_plot import mean_and_std

    typed = is_parquet(output) or decimal != "."
    console.check_outputs([output], force, [model, table])
    given = read_table(table, console.text_format(encoding, separator, decimal))
    given.check_length(1, "predicting")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        estimator = load(model)
    columns = _columns(estimator, given)
    x = given.numbers([name.strip() for name in columns]).set_axis(columns, axis=1)
    mean, sd = mean_and_std(estimator, x)
    added = {"mean": mean, **({} if sd is None else {"sd": sd})}
    if level is not None:
        if sd is None:
            raise ArgumentError("--level", f"{type(estimator).__name__} has no error bars; leave --level out.")
        added |= dict(zip(("low", "high"), estimator.predict_interval(x, level), strict=True))
    taken = next((name for name in added if name in given.frame.columns), None)
    if taken is not None:
        raise TableError(
            f"{given.name} has a column {taken!r} already; rename it, since predictions are called so.",
            table=given.name,
            column=taken,
        )
    write_table((given.typed() if typed else given.frame).assign(**added), output)
    notes = console.messages_of(caught) + _about_extrapolation(estimator, x)
    if json:
        ranges = {
            name: {"least": values.min(), "average": values.mean(), "most": values.max()}
            for name, values in added.items()
        }
        found = {"predictions": output, "model": type(estimator).__name__, "rows": len(x)}
        console.print_json({**found, **ranges, "notes": notes})
        return
    console.print_warnings(notes)
    console.print_wrote(output)


def _columns(estimator: "BaseEstimator", table: Table) -> list[str]:
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


def _about_extrapolation(estimator: "BaseEstimator", x: "pd.DataFrame") -> list[str]:
    """Return a note if rows lie outside the range of the data of the fit, where the model knows it."""
    seen = estimator._range_seen()
    if seen is None:
        return []
    low, high = seen
    outside = ((x < low) | (x > high)).to_numpy()
    if not outside.any():
        return []
    ranges = [f"{x.columns[j]} {low[j]:.4g} to {high[j]:.4g}" for j in np.flatnonzero(outside.any(axis=0))]
    return [
        f"{outside.any(axis=1).sum()} of {len(x)} rows lie outside the range of the data ({', '.join(ranges)}): "
        "predictions there are extrapolations."
    ]
