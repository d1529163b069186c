"""A feature model that reads two tables piece by piece: only sums of what it has read are kept."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from decond.errors import ArgumentError
from decond.features.feature_maps import FeatureMap
from decond.parameters import same
from decond.streaming.feature_model import FeatureModel
from decond.streaming.feature_sums import PairSums, Sums, TaskSums
from decond.streaming.sources import Source
from decond.streaming.spans import Span, Watched, both_spans
from decond.streaming.statistics import Statistics

__all__ = ["FeatureReading"]


@dataclass(frozen=True, eq=False)
class FeatureReading:
    """The sums over all pairs and task rows that were read with two feature maps, in any order.

    >>> from decond.features import Identity
    >>> from decond.streaming import Table
    >>> reading = FeatureReading(Identity(), Identity())
    >>> reading = reading.having_read(task=Table([1.0, 2.0], [3.0, 5.0])).having_read(pairs=Table([1.0], [[1.0]]))
    >>> reading.complete, reading.task.means
    (True, array([4.]))
    """

    features_x: FeatureMap
    features_y: FeatureMap
    pairs: PairSums | None = None
    task: TaskSums | None = None
    flat: bool = True
    """Whether targets came as a flat array."""
    task_columns: int | None = None
    """How many columns the mediator of the task rows has."""
    span: Span | None = None
    """The range of x; None if it is not known."""

    @property
    def complete(self) -> bool:
        """Whether there are rows of both tables."""
        return self.pairs is not None and self.task is not None

    def having_read(self, pairs: Source | None = None, task: Source | None = None) -> "FeatureReading":
        """Return what is known after these rows too: one pass over each table."""
        reader = FeatureModel(self.features_x, self.features_y)
        found = self
        if pairs is not None:
            rows = Watched(pairs)
            sums = reader.pair_sums(rows)
            span = rows.span if found.pairs is None else both_spans(found.span, rows.span)
            found = replace(found, pairs=_both(found.pairs, sums), span=span)._checked()
        if task is not None:
            _check_columns("y_task", task.width, found.task_columns)
            found = replace(found, task_columns=task.width)._checked()
            flat = task.flat if found.task is None else found.flat
            found = replace(found, task=_both(found.task, reader.task_sums(task)), flat=flat)
        return found

    def merged(self, other: "FeatureReading") -> "FeatureReading":
        """Return what both know together; both have to read with the same features."""
        if not (same(self.features_x, other.features_x) and same(self.features_y, other.features_y)):
            raise ArgumentError(
                "other",
                "the two models do not have the same features, so their sums cannot be added. Fit one, and give its "
                "features to the other before that reads anything: "
                "TaskTransformedFeatures(kernel_x=a.features_x_, kernel_y=a.features_y_).",
            )
        _check_columns("y_task", other.task_columns, self.task_columns)
        columns = other.task_columns if self.task_columns is None else self.task_columns
        flat = other.flat if self.task is None else self.flat
        pairs, task = _both(self.pairs, other.pairs), _both(self.task, other.task)
        spans = [reading.span for reading in (self, other) if reading.pairs is not None]
        span = both_spans(*spans) if len(spans) == 2 else next(iter(spans), None)
        return replace(self, pairs=pairs, task=task, flat=flat, task_columns=columns, span=span)._checked()

    def _checked(self) -> "FeatureReading":
        """Return it if the mediators of both tables have as many columns, as far as they are known."""
        if self.pairs is not None and self.task_columns not in (None, self.pairs.columns):
            raise ArgumentError(
                "y_task",
                f"y_task has {self.task_columns} column(s) but y has {self.pairs.columns}; the mediator links the "
                "two tables, so both need the same columns.",
            )
        return self

    def sums(self, offset: np.ndarray, scale: np.ndarray) -> Sums:
        """Return the sums of both tables with targets (z - offset) / scale."""
        assert self.pairs is not None
        assert self.task is not None
        return Sums(self.pairs.statistics, self.task.about(offset, scale))

    def state(self) -> dict[str, Any]:
        """Return everything as plain data."""
        pairs, task = self.pairs, self.task
        return {
            "features_x": self.features_x,
            "features_y": self.features_y,
            "pairs": None if pairs is None else _plain(pairs.statistics),
            "columns": None if pairs is None else pairs.columns,
            "task": None if task is None else _plain(task.statistics),
            "task_columns": self.task_columns,
            "origin": None if task is None else task.origin,
            "flat": self.flat,
            "span": None if self.span is None else self.span.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "FeatureReading":
        """Return the reading that `state` describes."""
        pairs = None if state["pairs"] is None else PairSums(Statistics(**state["pairs"]), state["columns"])
        task = None if state["task"] is None else TaskSums(Statistics(**state["task"]), state["origin"])
        span = None if state.get("span") is None else Span(**state["span"])  # files of before have none
        return cls(state["features_x"], state["features_y"], pairs, task, state["flat"], state["task_columns"], span)


def _check_columns(name: str, given: int | None, read: int | None) -> None:
    """Raise if rows have other columns than those that were read before."""
    if given is not None and read is not None and given != read:
        raise ArgumentError(
            name, f"{name} has {given} column(s) but the model has read {read}; give the same mediator each time."
        )


def _plain(statistics: Statistics) -> dict[str, Any]:
    return {"products": statistics.products, "size": statistics.size}


def _both(one: Any, other: Any) -> Any:
    """Return the sum of those that are there."""
    if one is None or other is None:
        return other if one is None else one
    return one + other
