"""A model that reads tables one after the other, and what it knows at the end of each."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from decond.errors import ArgumentError
from decond.parameters import same
from decond.streaming.model import SparseModel
from decond.streaming.sources import Source
from decond.streaming.spans import Span, Watched, both_spans
from decond.streaming.statistics import Statistics
from decond.streaming.surveys import survey

__all__ = ["Reading", "Settled", "deviation"]


class Settled(NamedTuple):
    """A model with the statistics of targets (z - offset) / scale.

    >>> from decond.kernels import RBF
    >>> from decond.streaming import Table
    >>> reading = Reading(SparseModel(RBF(), [[0.0]]), centered=True).having_read(Table([[0.0], [1.0]], [6.0, 2.0]))
    >>> settled = reading.settled()
    >>> settled.offset, settled.statistics.count
    (array([4.]), 2)
    """

    model: SparseModel
    statistics: Statistics
    offset: np.ndarray
    scale: np.ndarray


@dataclass(frozen=True, eq=False)
class Reading:
    """The sums over all rows that a model has read, in any order.

    The offset of the targets is settled at the end, from all of them. So are their scales and the model's amplitude
    if it `follows` them: then it reads with a variance of about one, and its noise is relative to that.

    >>> from decond.kernels import RBF
    >>> reading = Reading(SparseModel(1.0 * RBF(), [[0.0]], noise=0.3), centered=True, follows=True)
    >>> from decond.streaming import Table
    >>> settled = reading.having_read(Table([[0.0]], [6.0])).having_read(Table([[1.0]], [2.0])).settled()
    >>> settled.offset, settled.model.noise
    (array([4.]), 0.6)
    """

    reader: SparseModel
    centered: bool
    follows: bool = False
    flat: bool = True
    scale: np.ndarray | None = None
    """What the targets are divided by, if that is known before; one for each column."""
    origin: np.ndarray | None = None
    """What is subtracted while reading: near the mean, so that sums of squares keep their digits."""
    sums: Statistics | None = None
    span: Span | None = None
    """The range of the rows; None if it is not known."""

    def having_read(self, source: Source) -> "Reading":
        """Return what is known after these rows too."""
        origin = self.origin
        if origin is None:
            mean = survey(source, seed=0, size=0).mean
            origin = mean if self.centered else np.zeros_like(mean)
        rows = Watched(source)
        found = self.reader.statistics(rows.standardized(origin, np.ones(len(origin))))
        if self.sums is None:
            return replace(self, flat=source.flat, origin=origin, sums=found, span=rows.span)
        return replace(self, sums=self.sums + found, span=both_spans(self.span, rows.span))

    def merged(self, other: "Reading") -> "Reading":
        """Return what both know together; both have to read with the same model, in the same units."""
        assert self.sums is not None
        assert other.sums is not None
        assert self.origin is not None
        if different := self._differences(other):
            raise ArgumentError(
                "other",
                f"the two models do not read their rows alike, so their sums cannot be added: {', '.join(different)} "
                "differ. Let one of them come from the other before it reads its rows: other = gp.unread(), then "
                "other.partial_fit(rows, targets) and gp.merge(other).",
            )
        moved = other.sums.standardized(self.origin - other.origin, np.ones(len(self.origin)))
        return replace(self, sums=self.sums + moved, span=both_spans(self.span, other.span))

    def _differences(self, other: "Reading") -> list[str]:
        """Return what keeps the sums of two readings from being added."""
        one, two = self.reader, other.reader
        alike = {
            "kernels": same(one.kernel, two.kernel),
            "inducing points": np.array_equal(one.inducing, two.inducing),
            "noises": (one.noise, one.mediator_noise) == (two.noise, two.mediator_noise),
            "means (constant or zero)": self.centered == other.centered,
            "target columns or their units": self._units == other._units,
        }
        return [name for name, equal in alike.items() if not equal]

    @property
    def _units(self) -> tuple[Any, ...]:
        """What targets are turned into before they are added up, whatever the origin."""
        assert self.sums is not None
        scale = np.ones(self.sums.targets) if self.scale is None else self.scale
        return self.follows, self.flat, tuple(scale)

    def settled(self) -> Settled:
        """Return the model and the statistics of all rows, with targets in their final units."""
        sums, model = self.sums, self.reader
        assert sums is not None
        assert self.origin is not None
        shift = sums.means if self.centered else np.zeros(sums.targets)
        offset = self.origin + shift
        scale = np.ones(sums.targets) if self.scale is None else self.scale
        factor = 1.0
        if self.follows:
            squares = sums.standardized(shift, scale).squares / sums.count
            deviations = np.array([deviation(*pair) for pair in zip(squares, offset, strict=True)])
            if self.flat:
                factor = float(deviations[0])
                kernel: Any = model.kernel
                kernel = kernel.replace(variance=kernel.variance * factor**2)
                model = model.replace(kernel=kernel, noise=model.noise * factor)
            else:
                scale = deviations
        return Settled(model, sums.standardized(shift, scale).scaled(factor), offset, scale)

    def state(self) -> dict[str, Any]:
        """Return everything as plain data."""
        assert self.sums is not None
        names = ("reader", "centered", "follows", "flat", "scale", "origin")
        sums = {"products": self.sums.products, "variance": self.sums.variance}
        span = None if self.span is None else self.span.state()
        return {**{name: getattr(self, name) for name in names}, "sums": sums, "span": span}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Reading":
        """Return the reading that `state` describes."""
        sums = Statistics(state["sums"]["products"], len(state["reader"].inducing), state["sums"]["variance"])
        span = state.get("span")  # files of before have none
        return cls(**{**state, "sums": sums, "span": None if span is None else Span(**span)})


def deviation(square: float, offset: float) -> float:
    """Return the root of a mean square; one if it is nothing but rounding beside the offset.

    >>> deviation(9.0, offset=1.0), deviation(1e-30, offset=1.0)
    (3.0, 1.0)
    """
    root = float(np.sqrt(max(square, 0.0)))
    return root if root > 1e-12 * max(abs(offset), 1e-300) else 1.0
