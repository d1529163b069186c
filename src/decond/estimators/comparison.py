"""Several estimators on two tables that share a mediator: one table, one picture."""

import time
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone

from decond.checks import as_count, as_rows, as_targets, column_names
from decond.comparison import Comparison, averaged, checked_seeds, chosen_by_label, said
from decond.errors import ArgumentError, ArgumentTypeError
from decond.estimators.held_out import HeldOut
from decond.estimators.linked import linked_mediators, ranges_apart
from decond.plotting import ComparisonDisplay, Curve, Lines, Rows
from decond.plotting.regression_plot import mean_and_std, rows_along
from decond.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MODELS", "chosen_models", "compare"]

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "honest": ("TaskTransformedGP", {}),
    "plain": ("TaskTransformedGP", {"uncertainty": "plain"}),
    "features": ("TaskTransformedFeatures", {}),
    "ridge": ("TaskTransformedRidge", {}),
    "dual": ("DualEmbedding", {}),
    "cascade": ("CascadeGP", {}),
    "impute": ("ImputeGP", {}),
    "ecological": ("EcologicalGP", {}),
}
"""Names that `compare` and the command line accept: estimators, and options of theirs."""

ERROR, INSIDE = "RMSE", "truth inside 95 %"
HELD_OUT_ERROR, HELD_OUT_INSIDE = "held-out RMSE", "held out inside 95 %"
WIDTH = 1.96
"""Standard deviations on either side of a mean that hold 95 % of a normal distribution."""

SHOWN_COLUMNS = 3
"""Columns of x along which a picture shows functions at most."""


def compare(
    x: Any,
    y: Any,
    y_task: Any,
    z_task: Any,
    models: str | Sequence[str] | Mapping[str, Any] = "all",
    truth: Any = None,
    *,
    folds: int = 5,
    cross_validate: bool | None = None,
    seeds: int | Sequence[int] = 1,
    progress: bool | None = None,
) -> Comparison:
    """Fit several estimators to pairs (x, y) and task rows (y, z), and return one table and one picture.

    **Where the truth is known**: the root mean square error of f, and the share of the truth inside the 95 % band of
    models that have one. **Where it is not**: task rows are held out in folds. Their z is predicted as
    E[f(X) | y] = Σ_i a_i(y) f(x_i), with each model's f and the same weights a(y) for all models, which are learned
    from the pairs alone; so it is the functions that are compared. The held-out band adds to the error bars of f the
    scatter of z about the model's own fit of the rows that it saw; it is mostly that scatter, so that a share near
    0.95 is a weak test. For a mediator of labels, whole labels are held out, and a(y) is the mean over their rows.

    A model that cannot be fitted is a row with the reason among its notes.

    Args:
        x: Rows of the pairs.
        y: Their mediator.
        y_task: The mediator of the task rows.
        z_task: Their target, a single column.
        models: "all", names (see `estimators.comparison.MODELS`), or a mapping from labels to names or estimators.
        truth: f as a function of rows of x, looked at where the pairs are; or rows of x and f there, as (x, f). Where
            these values have noise, the error has it too, and the share inside says little.
        folds: In how many parts task rows are held out.
        cross_validate: Whether to hold out task rows; by default where the truth is not known.
        seeds: Of models and folds: how many, or which. The table holds means over them.
        progress: Show a bar; by default on a terminal only.

    >>> from decond.problems import latent_function
    >>> p = latent_function()
    >>> found = compare(p.x, p.y, p.y_task, p.z_task, ["plain", "cascade"], truth=p.f)
    >>> found.best, found.frame["RMSE"].between(0.0, 3.0).all()
    ('plain', np.True_)
    """
    tables = Tables.checked(x, y, y_task, z_task)
    chosen = chosen_models(models)
    known = None if truth is None else _truth(tables, truth)
    judged = None
    if known is None if cross_validate is None else cross_validate:
        judged = HeldOut(tables.x_rows, *tables.mediators, tables.z, as_count(folds, "folds"))
    runs: list[Run] = []
    chosen_seeds = checked_seeds(seeds)
    with progress_bar("comparing", len(chosen) * len(chosen_seeds), progress) as report:
        for seed in chosen_seeds:
            for label, model in chosen.items():
                report(len(runs), words=f"comparing: {label}")
                runs.append(_run(label, _built(model, seed), tables, known, judged, seed))
        report(len(runs), words="comparing")
    return _concluded(tables, known, judged, runs)


class Tables(NamedTuple):
    """Pairs and task rows; x as a frame with names."""

    x: "pd.DataFrame"
    y: Any
    y_task: Any
    z: np.ndarray
    x_rows: np.ndarray
    mediators: tuple[np.ndarray, np.ndarray]
    given: Any
    """x as it was given."""
    doubts: list[str]
    """What the tables were warned of: it holds for all models."""

    @classmethod
    def checked(cls, x: Any, y: Any, y_task: Any, z_task: Any) -> "Tables":
        """Raise unless the tables can be linked and there is one target."""
        import pandas as pd

        rows = as_rows(x, "x", labels=True)
        mediators = linked_mediators(rows, y, y_task)
        z = as_targets(z_task, "z_task", len(mediators[1]), "y_task")
        if z.ndim > 1:
            raise ArgumentError(
                "z_task", f"z_task has {z.shape[1]} columns; compare takes one target. Compare each in its turn."
            )
        names = ["x"] if rows.shape[1] == 1 else [f"x{j + 1}" for j in range(rows.shape[1])]
        frame = x if isinstance(x, pd.DataFrame) else pd.DataFrame(rows, columns=names).infer_objects()
        return cls(frame, y, y_task, z, rows, mediators, x, ranges_apart(*mediators, columns=column_names(y)))


class Truth(NamedTuple):
    """Rows of x, and f there."""

    x: "pd.DataFrame"
    f: np.ndarray
    function: Any = None
    """f itself, where it is known everywhere."""

    def curve(self, rows: "pd.DataFrame") -> Curve:
        """Return f of a single column, along given rows or where it is known."""
        name = str(rows.columns[0])
        if self.function is not None:
            values = np.asarray(self.function(rows.to_numpy(dtype=np.float64)), dtype=np.float64).reshape(-1)
            return Curve(name, rows.iloc[:, 0].to_numpy(), values)
        at = self.x.iloc[:, 0].to_numpy(dtype=np.float64)
        order = np.argsort(at)
        return Curve(name, at[order], self.f[order])


def _truth(tables: Tables, truth: Any) -> Truth:
    """Return rows and values of f; raise unless there is one value for each row."""
    import pandas as pd

    if callable(truth):
        values = np.asarray(truth(tables.x_rows), dtype=np.float64).reshape(-1)
        rows: pd.DataFrame = tables.x
    elif isinstance(truth, tuple | list) and len(truth) == 2:
        given = as_rows(_in_order(tables, truth[0]), "truth[0]", labels=True)
        if given.shape[1] != tables.x_rows.shape[1]:
            raise ArgumentError(
                "truth[0]", f"the x of truth has {given.shape[1]} column(s), but x has {tables.x_rows.shape[1]}."
            )
        rows = pd.DataFrame(given, columns=list(tables.x.columns)).infer_objects()
        values = np.asarray(truth[1], dtype=np.float64).reshape(-1)
    else:
        raise ArgumentTypeError(
            "truth", f"truth is {type(truth).__name__}; give a function of rows of x, or rows and values (x, f)."
        )
    if len(values) != len(rows) or not np.isfinite(values).all():
        raise ArgumentError(
            "truth", f"truth has {len(values)} values for {len(rows)} rows; give one finite number for each."
        )
    return Truth(rows, values, truth if callable(truth) else None)


def _in_order(tables: Tables, x: Any) -> Any:
    """Return rows of x with the columns in the order of the pairs, where both have names; raise if one is missing."""
    ours, theirs = column_names(tables.given), column_names(x)
    if ours is None or theirs is None:
        return x
    missing = [name for name in ours if name not in theirs]
    if missing:
        raise ArgumentError(
            "truth[0]",
            f"the x of truth has no column {missing[0]!r}, which x has; it has {', '.join(map(str, theirs))}. Give "
            "the columns of x.",
        )
    return x[ours]


def chosen_models(models: Any) -> dict[str, Any]:
    """Return estimators, or their names, by label; raise if a name is unknown."""
    return chosen_by_label(models, "model", list(MODELS), BaseEstimator, "an estimator such as TaskTransformedGP()")


def _built(model: Any, seed: int) -> Any:
    """Return an estimator of its own for one run, with the seed of that run if it takes one."""
    if isinstance(model, str):
        name, options = MODELS[model]
        own = getattr(import_module("decond.estimators"), name)(**options)
    else:
        own = clone(model)
    return own.set_params(seed=seed) if "seed" in own.get_params() else own


class Run(NamedTuple):
    """What one estimator gave with one seed."""

    label: str
    seed: int
    model: Any
    row: dict[str, Any]
    error: Exception | None = None


def _run(label: str, model: Any, tables: Tables, known: Truth | None, judged: HeldOut | None, seed: int) -> Run:
    """Fit one estimator and judge it; whatever it raises is the reason why its row, or a part of it, is empty."""
    begin = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            model.fit(tables.x, tables.y, tables.y_task, tables.z)
        row: dict[str, Any] = {"seconds": time.perf_counter() - begin}
        if known is not None:
            row |= _scores(model, known)
    except Exception as error:  # one model may not take the others down; the error is kept
        return Run(label, seed, None, {"notes": f"did not run: {error}"}, error)
    said_of_model = (str(warning.message) for warning in caught)
    notes, failed = [text for text in said_of_model if text not in tables.doubts], None
    if judged is not None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # said of the whole fit already
                row |= dict(zip((HELD_OUT_ERROR, HELD_OUT_INSIDE), judged.scores(model, tables, seed), strict=True))
        except Exception as error:  # the model itself is there; only this is not known of it
            failed = error
            notes.insert(0, f"held-out rows are not judged: {error}")
    return Run(label, seed, model, {**row, "notes": said(notes)}, failed)


def _scores(model: Any, known: Truth) -> dict[str, float]:
    mean, std = mean_and_std(model, known.x)
    error = mean - known.f
    inside = np.nan if std is None else float(np.mean(np.abs(error) <= WIDTH * std))
    return {ERROR: float(np.sqrt(np.mean(error**2))), INSIDE: inside}


def _concluded(tables: Tables, known: Truth | None, judged: HeldOut | None, runs: list[Run]) -> Comparison:
    import pandas as pd

    found = {run.label: run.model for run in reversed(runs) if run.model is not None}
    if not found:
        reasons = "; ".join(f"{run.label} {run.row['notes']}" for run in runs)
        raise ArgumentError("models", f"no model could be fitted: {reasons}")
    errors = {run.label: run.error for run in reversed(runs) if run.error is not None}
    measured = [*([ERROR, INSIDE] if known else []), *([HELD_OUT_ERROR, HELD_OUT_INSIDE] if judged else [])]
    rows = [{"method": run.label, "seed": run.seed, **run.row} for run in runs]
    table = pd.DataFrame(rows, columns=["method", "seed", *measured, "seconds", "notes"])
    measure = measured[0] if measured else ""
    frame = averaged(table, measure)
    ordered = {label: found[label] for label in frame.index if label in found}
    panels = _panels(tables, known, ordered, frame, measured)
    display = ComparisonDisplay(list(frame.index), panels, tables.x.shape[1])
    notes = [f"{len(tables.x)} pairs and {len(tables.z)} task rows.", *tables.doubts]
    if judged is not None:
        notes.append(
            "Held-out z is predicted by E[f(X) | y], with the same weights for all models, from the pairs alone."
        )
    return Comparison("two tables", frame, table, display, measure, ordered, errors, notes)


def _panels(
    tables: Tables, known: Truth | None, found: dict[str, Any], frame: Any, measured: list[str]
) -> list[Rows | Lines]:
    """Return functions along the first few columns of x, what was measured, and the seconds."""
    numbers = [name for name in tables.x.columns if tables.x[name].dtype.kind in "biuf"][:SHOWN_COLUMNS]
    panels: list[Rows | Lines] = []
    for name in numbers:
        rows = rows_along(tables.x, name, 200)
        curves = {
            label: Curve(str(name), rows[name].to_numpy(), *mean_and_std(model, rows))
            for label, model in found.items()
        }
        panels.append(Lines("f", curves, known.curve(rows) if known and tables.x.shape[1] == 1 else None))
    ideal = {INSIDE: 0.95, HELD_OUT_INSIDE: 0.95}
    shown = [name for name in measured if frame[name].notna().any()]
    panels += [Rows(name, frame[name].to_dict(), ideal.get(name), start=0.0) for name in shown]
    return [*panels, Rows("seconds", frame["seconds"].to_dict(), log=True)]
