"""Odd data for estimators: finite answers that depend on neither units nor the order of rows, or a refusal."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.attack.harness import Try

TOLERANCE = {"SparseGP": 0.05, "DualEmbedding": 0.05}
"""By how many standard deviations an answer may move; 0.01 for the others."""


class Data(NamedTuple):
    """Pairs (x, y) and task rows (y_task, z); of groups, y is a label and z has a value for each."""

    x: Any
    y: Any
    y_task: Any
    z: Any


class Estimator(NamedTuple):
    """How an estimator is made, and which of the tables it takes: "pairs", "rows" or "groups"."""

    make: Callable[[], Any]
    takes: str


def estimators() -> dict[str, Estimator]:
    """Return the estimators that are attacked, by name."""
    from decond import estimators as e

    quick = {"n_restarts": 0}
    return {
        "DirectGP": Estimator(partial(e.DirectGP, **quick), "rows"),
        "SparseGP": Estimator(partial(e.SparseGP, n_inducing=8), "rows"),
        "TaskTransformedGP": Estimator(partial(e.TaskTransformedGP, **quick), "pairs"),
        "TaskTransformedGP, plain": Estimator(
            partial(e.TaskTransformedGP, uncertainty="plain", optimize=False), "pairs"
        ),
        "AggregateGP": Estimator(partial(e.AggregateGP, **quick), "groups"),
        "TaskTransformedFeatures": Estimator(partial(e.TaskTransformedFeatures, n_features=15), "pairs"),
        "DualEmbedding": Estimator(partial(e.DualEmbedding, n_features=15), "pairs"),
        "CascadeGP": Estimator(partial(e.CascadeGP, **quick), "pairs"),
    }


def cases(folder: Path) -> tuple[Try, float]:
    """Fit an estimator to odd data and compare it with a fit to the same data told in another way."""
    return partial(_try_case, estimators()), 300.0


def _try_case(known: dict[str, Estimator], seed: int) -> str:
    rng = np.random.default_rng([6, seed])
    name = list(known)[seed % len(known)]
    model, takes = known[name]
    data = _data(takes, rng)
    change = _MISTAKES[rng.integers(len(_MISTAKES))] if rng.random() < 0.5 else None
    query = np.linspace(-2.5, 2.5, 7)[:, None] * np.ones(data.x.shape[1])
    if change is not None:
        table = Data._fields[rng.integers(4)]
        data = data._replace(**{table: change(np.array(getattr(data, table)), rng)})
        predicted = _fit(model(), takes, data).predict(query)
        return "" if np.isfinite(predicted).all() else f"{name}: a silent NaN"
    mean, std = _answer(_fit(model(), takes, data), query, data)
    far = _fit(model(), takes, data).predict(query * 10.0 ** rng.integers(1, 300)) if rng.random() < 0.3 else mean
    if not (np.isfinite(mean).all() and np.isfinite(std).all() and np.isfinite(far).all()):
        return f"{name}: a silent NaN"
    what, told, at, scale = _told_otherwise(data, query, takes, rng)
    if "plain" in name and what.startswith("unit"):
        return ""  # hyperparameters that are used as given have units
    moved, _ = _answer(_fit(model(), takes, told), at, told)
    change_in_sd = float(np.max(np.abs(moved / scale - mean) / std))
    allowed = TOLERANCE.get(name, 0.01)
    return f"{name}: moves with {what} by more than {allowed} sd" if not change_in_sd <= allowed else ""


def _data(takes: str, rng: np.random.Generator) -> Data:
    """Return a problem of random size, noise, type and scale."""
    n, m, d = int(rng.integers(12, 60)), int(rng.integers(12, 60)), int(rng.integers(1, 3))
    x = rng.uniform(-3.0, 3.0, (n, d))
    y = x[:, :1] + rng.choice([0.1, 1.0]) * rng.standard_normal((n, 1))
    y_task = rng.uniform(-3.0, 3.0, (m, 1))
    noise = rng.choice([0.01, 0.3, 2.0])
    if takes == "groups":
        label = rng.integers(0, 8, n)
        label[:8] = np.arange(8)
        z = np.array([np.sin(x[label == j, 0]).mean() for j in range(8)]) + 0.1 * noise * rng.standard_normal(8)
        return Data(x, label, None, z)
    source = x if takes == "rows" else y_task
    z = np.sin(source[:, 0]) + noise * rng.standard_normal(len(source))
    if rng.random() < 0.2:  # duplicates
        x[n // 2 :], y[n // 2 :] = x[: n - n // 2], y[: n - n // 2]
    if rng.random() < 0.2:  # whole numbers
        x, y, y_task = np.round(x), np.round(y), np.round(y_task)
    if rng.random() < 0.1 and takes != "rows":
        z = np.column_stack([z, rng.standard_normal(len(z))])
    return Data(x, y, y_task, z)


def _fit(model: Any, takes: str, data: Data) -> Any:
    if takes == "rows":
        return model.fit(data.x, data.z)
    if takes == "groups":
        return model.fit(data.x, data.y, data.z)
    return model.fit(*data)


def _answer(model: Any, query: np.ndarray, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Return means with their deviations; those of estimators without error bars are that of the targets."""
    if hasattr(model, "sample"):
        mean, std = model.predict(query, return_std=True)
    else:
        mean = model.predict(query)
        std = np.broadcast_to(np.std(data.z, axis=0), mean.shape)
    return mean, std + 1e-9 * np.std(data.z)


def _told_otherwise(
    data: Data, query: np.ndarray, takes: str, rng: np.random.Generator
) -> tuple[str, Data, np.ndarray, float]:
    """Return the same data in another unit or order; where to ask then, and the unit of the answers."""
    unit = float(rng.choice([2.0**-10, 2.0**10, 0.01, 1e6]))
    kind = rng.integers(4)
    if kind == 0:
        return "units of x", data._replace(x=data.x * unit), query * unit, 1.0
    if kind == 1:
        return "units of z", data._replace(z=data.z * unit), query, unit
    if kind == 2 and takes == "pairs":
        return "units of y", data._replace(y=data.y * unit, y_task=data.y_task * unit), query, 1.0
    pairs = rng.permutation(len(data.x))
    x, y = data.x[pairs], data.y[pairs]
    if takes == "groups":
        return "order of rows", data._replace(x=x, y=y), query, 1.0
    task = pairs if takes == "rows" else rng.permutation(len(data.z))
    return (
        "order of rows",
        Data(x, y, data.y_task[task] if takes == "pairs" else data.y_task, data.z[task]),
        query,
        1.0,
    )


Change = Callable[[np.ndarray, np.random.Generator], Any]


def _cell(value: float) -> Change:
    """Return a change that puts a number somewhere."""

    def change(table: np.ndarray, rng: np.random.Generator) -> Any:
        if table.size == 0 or table.ndim == 0:
            return None
        table = table.astype(np.float64)
        table.flat[rng.integers(table.size)] = value
        return table

    return change


def _as(kind: str) -> Change:
    """Return a change to another type."""
    return lambda table, rng: table.astype(kind)


def _sparse(table: np.ndarray, rng: np.random.Generator) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix(np.atleast_2d(table.astype(np.float64)))


def _frame(table: np.ndarray, rng: np.random.Generator) -> Any:
    import pandas as pd

    return pd.DataFrame(table, columns=["\x1b[31m", "b", "c"][: table.shape[1]]) if table.ndim == 2 else table


def _scaled(exponent: int) -> Change:
    def change(table: np.ndarray, rng: np.random.Generator) -> Any:
        return table * 10.0**exponent if table.dtype.kind == "f" else table

    return change


_MISTAKES: tuple[Change, ...] = (
    *map(_cell, (np.nan, np.inf, 1e155, 1e200, -1e308, 5e-324, 1e20)),
    *map(_as, ("float16", "float32", "longdouble", "object", "complex128", "U8", "bool", "int64")),
    *map(_scaled, (-300, -100, -30, 30, 100, 155, 300)),
    _sparse,
    _frame,
    lambda table, rng: None,
    lambda table, rng: [10**400] * len(table) if table.ndim else 10**400,
    lambda table, rng: table[:0] if table.ndim else table,
    lambda table, rng: table[:1] if table.ndim else table,
    lambda table, rng: table[: len(table) // 2] if table.ndim else table,
    lambda table, rng: table[None],
    lambda table, rng: np.zeros_like(table) if table.dtype.kind == "f" else table,
    lambda table, rng: np.asfortranarray(table)[::-1] if table.ndim else table,
    lambda table, rng: list(table) if table.ndim else table,
    lambda table, rng: "table.csv",
    lambda table, rng: {"a": 1},
    lambda table, rng: object(),
    lambda table, rng: np.ma.masked_array(table, mask=np.ones(table.shape, bool)),
    lambda table, rng: np.array(table, dtype="datetime64[D]") if table.dtype.kind == "i" else table,
)
"""What may happen to one of the tables."""
