"""What people do without deconditioning, or by another method, fitted quickly to the data of a report."""

import warnings
from typing import Any

import numpy as np

from decond.estimators import CascadeGP, DualEmbedding, EcologicalGP, ImputeGP
from decond.linalg import NotPositiveDefiniteError
from decond.reports.fitted_data import FittedData

__all__ = ["EXPLAINED", "naive_baselines"]

MAX_ROWS = 1000
"""Rows of each table that baselines see at most: they are there to compare with, and must not take long."""

BASELINES: dict[str, tuple[Any, dict[str, Any]]] = {
    "cascade: x to y to z": (CascadeGP, {"n_restarts": 0}),
    "impute z, then regress": (ImputeGP, {"n_restarts": 0}),
    "regression on E[x | y]": (EcologicalGP, {"n_restarts": 0}),
    "dual embedding": (DualEmbedding, {}),
}
"""Estimators, with the settings that make them quick."""

EXPLAINED = {
    "cascade: x to y to z": "Two regressions in a chain: the mediator or group y from x, then z from that y.",
    "impute z, then regress": "Each row of x is given the z that its mediator or group suggests; then z is learned "
    "from x as if it had been observed.",
    "regression on E[x | y]": "A regression of each target on E[x | y], the mean of x at its mediator or group.",
    "dual embedding": "Another way to undo the averaging (Dai et al. 2017): the curve is fitted so that no function "
    "of the mediator or group can tell its means from those of the targets. Held-out targets choose its settings.",
}
"""What the baselines do."""


def naive_baselines(data: FittedData, seed: int = 0, max_rows: int = MAX_ROWS) -> tuple[dict[str, Any], list[str]]:
    """Return fitted baselines by label, and notes about those that could not be fitted or saw only a sample."""
    if data.mediator is None or data.mediator_task is None:
        return {}, []
    y, y_task = data.mediator, data.mediator_task
    if data.kind == "groups":
        y, y_task = y.astype(str), y_task.astype(str)
    labels = not any(column.dtype.kind in "biuf" for _, column in y.items())
    everything = (data.x, y, y_task, data.z)
    some, notes = _sampled(everything, labels, max_rows, np.random.default_rng(seed))
    fitted: dict[str, Any] = {}
    for label, (kind, settings) in BASELINES.items():
        spared = labels and kind is EcologicalGP and len(y_task) <= max_rows  # rows only enter means of groups
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what a baseline warns of says nothing about the model
            try:
                fitted[label] = kind(seed=seed, **settings).fit(*(everything if spared else some))
            except (TypeError, ValueError, NotPositiveDefiniteError) as error:
                notes.append(f"The baseline “{label}” could not be fitted: {error}")
    return fitted, notes


def _sampled(
    tables: tuple[Any, ...], labels: bool, most: int, rng: np.random.Generator
) -> tuple[tuple[Any, ...], list[str]]:
    """Return x, y, y_task and z_task, of long tables a sample; of labels one that both tables share."""
    x, y, y_task, z = tables
    task = _some(len(y_task), most, rng)
    rows = np.arange(len(y))
    if labels:
        rows = np.flatnonzero(y.apply(tuple, axis=1).isin(set(y_task.iloc[task].apply(tuple, axis=1))))
    rows = rows[_some(len(rows), most, rng)]
    notes = []
    if max(len(y), len(y_task)) > most:
        notes = [
            f"To be quick, baselines were fitted to a sample, {len(rows):,} of {len(y):,} rows and {len(task):,} of "
            f"{len(y_task):,} targets: with all of them they might do a little better."
        ]
    return (x.iloc[rows], y.iloc[rows], y_task.iloc[task], z[task]), notes


def _some(count: int, most: int, rng: np.random.Generator) -> np.ndarray:
    return np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False))
