"""Which features two kernels get, and how they are learned: lengthscales from rows, noise and variances from sums."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from decond.errors import ArgumentError
from decond.estimators.defaults import AMPLITUDE_SPREAD, NOISE_START, NOISES, VARIANCES, smooth_kernel
from decond.features import FeatureKernel, FeatureMap, Nystrom, RandomFourier, as_kernel
from decond.gp import FitResult, LogNormal, Variable, maximize_evidence, select
from decond.kernels import Scaled
from decond.kernels.kernel import Kernel
from decond.streaming import FeatureModel, FeatureReading, Source, Sums, Survey, Tables, deviation, survey

__all__ = ["FeatureLearner", "Seen", "Side", "joined"]

ITERATIONS = 200
"""Iterations over the sample."""

AMPLITUDES = ("noise", "variance_x", "variance_y")
"""What is learned from sums alone."""


class Side(NamedTuple):
    """The features of one kernel, its variance if that was given, ranges and hyperpriors of its parameters."""

    features: FeatureMap
    variance: float | None = None
    bounds: Mapping[str, Any] = MappingProxyType({})
    hyperpriors: Mapping[str, LogNormal] = MappingProxyType({})
    free: bool = True
    """Whether its parameters are learned."""


class Seen(NamedTuple):
    """A first look at the tables."""

    pairs: Survey
    task: Survey | None

    @property
    def complete(self) -> bool:
        """Whether the samples are the tables."""
        return self.pairs.complete and (self.task is None or self.task.complete)

    @property
    def x(self) -> np.ndarray:
        """Rows of x."""
        return self.pairs.sample.x

    @property
    def y(self) -> np.ndarray:
        """Rows of the mediator, from both tables."""
        rows = self.pairs.sample.z.reshape(len(self.pairs.sample), -1)
        if self.task is None:
            return rows
        task = self.task.sample.x
        if task.shape[1] != rows.shape[1]:
            raise ArgumentError(
                "y_task",
                f"y_task has {task.shape[1]} column(s) but y has {rows.shape[1]}; the mediator links the two tables, "
                "so both need the same columns.",
            )
        return np.concatenate([rows, task])


class Start(NamedTuple):
    """Where learning starts, with the deviation of the targets and the variances that it suggests."""

    model: FeatureModel
    spread: float
    variance_x: float
    variance_y: float

    def variables(self, sides: tuple[Side, ...] = ()) -> list[Variable]:
        """Return what is learned: noise and variances, and the parameters of the features of these sides."""
        low, high = NOISES[0] * self.spread, NOISES[1] * self.spread
        bounds: dict[str, Any] = {"noise": (min(low, self.model.noise), max(high, self.model.noise))}
        hyperpriors: dict[str, LogNormal] = {}
        for path, value in (("variance_x", self.variance_x), ("variance_y", self.variance_y)):
            bounds[path] = (VARIANCES[0] * value, VARIANCES[1] * value)
            hyperpriors[path] = LogNormal(value, AMPLITUDE_SPREAD)
        free = list(AMPLITUDES)
        for side, prefix in zip(sides, ("features_x.", "features_y."), strict=False):
            if side.free:
                free += [p for p, value in self.model.values().items() if p.startswith(prefix) and np.any(value)]
                bounds.update({prefix + path: value for path, value in side.bounds.items()})
                hyperpriors.update({prefix + path: value for path, value in side.hyperpriors.items()})
        return select(self.model, free, (), bounds, hyperpriors)


class FeatureLearner(NamedTuple):
    """The settings of `TaskTransformedFeatures` that say which features there are and what is learned."""

    kernel_x: Any
    kernel_y: Any
    n_features: int
    features: str
    noise: float | None
    mediator: str
    optimize: bool
    lengthscales: str
    sample_size: int
    full_iterations: int
    seed: int

    @property
    def learns_lengthscales(self) -> bool:
        """Whether `fit` learns them."""
        return self.optimize and self.lengthscales != "given"

    def choose(self, pairs: Source | None, task: Source | None, learning: bool) -> tuple[tuple[Side, Side], Any]:
        """Return the features of x and y, as given or from a sample; and the sample (`Seen`), if it was needed."""
        first = None if self.kernel_x is None else as_kernel(self.kernel_x, "kernel_x")
        second = None if self.kernel_y is None else as_kernel(self.kernel_y, "kernel_y")
        fixed = [isinstance(kernel, FeatureKernel) for kernel in (first, second)]
        drawn = self.features == "fourier" and first is not None and second is not None and not learning
        if all(fixed) or drawn:
            return (self._side(first, None, 0, False), self._side(second, None, 1, False)), None
        if pairs is None:
            raise ArgumentError(
                "x",
                "the first rows have to be pairs (x, y), because lengthscales or landmarks are chosen from them. To "
                "start with task rows, give kernel_x and kernel_y as feature maps.",
            )
        looked = None if task is None else survey(task, self.seed + 1, self.sample_size)
        seen = Seen(survey(pairs, self.seed, self.sample_size), looked)
        return (self._side(first, seen.x, 0, learning), self._side(second, seen.y, 1, learning)), seen

    def learn(
        self, sides: tuple[Side, Side], sample: Tables, tables: Tables | None, progress: Any
    ) -> tuple[tuple[Side, Side], FitResult]:
        """Learn lengthscales from a sample and then, if `tables` are given, by passes over these.

        Targets are in their final units. Returns features of the kind that was asked for.
        """
        reading = FeatureReading(sides[0].features, sides[1].features).having_read(*sample)
        assert reading.task is not None
        columns = len(reading.task.origin)
        start = self._start(sides, reading.sums(np.zeros(columns), np.ones(columns)))
        first = _search(start, sides, sample, ITERATIONS, progress)
        if self.features == "fourier":
            first = self._in_frequencies(start, sides, first, sample, progress)
        sides = _having_learned(sides, first)
        if tables is None:
            return sides, first
        last = _search(start._replace(model=first.model), sides, tables, self.full_iterations, progress)
        return _having_learned(sides, last), dataclasses.replace(last, **_effort(first, last))

    def _in_frequencies(
        self, start: Start, sides: tuple[Side, Side], landmarks: FitResult, sample: Tables, progress: Any
    ) -> FitResult:
        """Learn again in Fourier features, from what landmarks have taught and from the first lengthscales.

        A learned lengthscale may be far wider than the data, so that the kernel has little but slow frequencies.
        Landmarks still see its small differences, a few random frequencies do not. The better of both is kept.
        """
        searches = [
            _search(start._replace(model=self._turned(sides, model)), sides, sample, ITERATIONS, progress)
            for model in (landmarks.model, start.model)
        ]
        best = max(searches, key=lambda found: max(found.starts))
        return dataclasses.replace(best, **_effort(landmarks, *searches))

    def _turned(self, sides: tuple[Side, Side], model: FeatureModel) -> FeatureModel:
        """Return the model with Fourier features of the same kernels, where these are learned."""
        x, y = (
            self._fourier(features.base, which) if side.free and isinstance(features, Nystrom) else features
            for which, (side, features) in enumerate(zip(sides, (model.features_x, model.features_y), strict=True))
        )
        return model.replace(features_x=x, features_y=y)

    def learn_amplitudes(self, reading: FeatureReading, sums: Sums) -> tuple[FeatureModel, FitResult | None]:
        """Return the model with noise and variances learned from sums, or as given."""
        sides = (
            Side(reading.features_x, _variance_of(self.kernel_x)),
            Side(reading.features_y, _variance_of(self.kernel_y)),
        )
        start = self._start(sides, sums)
        if not self.optimize:
            return start.model, None
        quiet = ("noise", "variance_y")  # next to no noise, or no ridge: both may well be
        result = maximize_evidence(start.model, sums, start.variables(), n_restarts=0, quiet=quiet)
        return result.model, result

    def _side(self, kernel: Any, rows: Any, which: int, learning: bool) -> Side:
        """Return the features of one kernel, with the ranges and hyperpriors of what is learned of it.

        Learning begins in Nyström features, in which the evidence is nearly that of the kernel itself.
        """
        if isinstance(kernel, FeatureKernel):
            return Side(kernel.features, kernel.variance, free=False)
        bounds, hyperpriors = {}, {}
        if kernel is None:
            choice: Any = smooth_kernel(rows, 1.0, trend=False)
            kernel = choice.kernel.kernel
            bounds["base.lengthscale"] = choice.bounds["kernel.lengthscale"]
            hyperpriors["base.lengthscale"] = choice.hyperpriors["kernel.lengthscale"]
        elif isinstance(kernel, Scaled):
            kernel = kernel.kernel
        if self.features == "fourier" and not learning:
            return Side(self._fourier(kernel, which), None, bounds, hyperpriors)
        return Side(Nystrom.pivoted(kernel, rows, self.n_features), None, bounds, hyperpriors)

    def _fourier(self, kernel: Kernel, which: int) -> RandomFourier:
        return RandomFourier(kernel, -(-self.n_features // 2), self.seed + which)

    def _start(self, sides: tuple[Side, Side], sums: Sums) -> Start:
        """Return the model with noise and variances as given, or where they are expected from the sums.

        Variances that are learned start from those of the targets, so that the result depends on nothing but sums.
        """
        spread = deviation(float(np.mean(sums.task.squares)) / sums.task.count, 0.0)
        gains = (sums.pairs.squares.sum(), np.trace(sums.pairs.gram))
        expected = [spread**2 * sums.pairs.count / max(float(gain), np.finfo(float).tiny) for gain in gains]
        first, second = (
            value if self.optimize or side.variance is None else side.variance
            for side, value in zip(sides, expected, strict=True)
        )
        noise = NOISE_START * spread if self.noise is None else float(self.noise)
        model = FeatureModel(sides[0].features, sides[1].features, noise, first, second, self.mediator)
        return Start(model, spread, *expected)


def _search(start: Start, sides: tuple[Side, Side], tables: Tables, iterations: int, progress: Any) -> FitResult:
    """Learn everything from these tables, with targets in their final units."""
    return maximize_evidence(
        start.model,
        tables,
        start.variables(sides),
        n_restarts=0,
        max_iterations=iterations,
        progress=progress,
        quiet=list(start.model.values()),
    )


def _having_learned(sides: tuple[Side, Side], found: FitResult) -> tuple[Side, Side]:
    """Return the sides with learned features."""
    x, y = sides
    return x._replace(features=found.model.features_x), y._replace(features=found.model.features_y)


def _effort(*searches: FitResult) -> dict[str, Any]:
    """Return what several searches took together."""
    return {name: sum(getattr(found, name) for found in searches) for name in ("evaluations", "failures")}


def joined(lengthscales: FitResult | None, amplitudes: FitResult | None) -> FitResult | None:
    """Return one result of two searches: lengthscales first, then noise and variances from all sums."""
    if lengthscales is None or amplitudes is None:
        return amplitudes
    features = {path: value for path, value in lengthscales.parameters.items() if path not in AMPLITUDES}
    on_bounds = [path for path in lengthscales.on_bounds if path not in AMPLITUDES]
    story = f"lengthscales from rows ({lengthscales.status}), then noise and variances from all sums: "
    return dataclasses.replace(
        amplitudes,
        parameters={**features, **amplitudes.parameters},
        message=story + amplitudes.message,
        evaluations=lengthscales.evaluations + amplitudes.evaluations,
        failures=lengthscales.failures + amplitudes.failures,
        on_bounds=(*on_bounds, *amplitudes.on_bounds),
    )


def _variance_of(kernel: Any) -> float | None:
    """Return the variance in front of a given kernel; None if none was given."""
    if kernel is None:
        return None
    return kernel.variance if isinstance(kernel, FeatureKernel | Scaled) else 1.0
