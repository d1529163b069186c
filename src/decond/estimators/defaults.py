"""What is used where the user leaves something open: kernels, starts, ranges and hyperpriors from the data.

Kernels are in the units of the data. Instead of rescaling columns, lengthscales start from each column's own spread
and variances from that of the targets, which comes to the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from decond.conditional.mediator import label_columns, numeric_columns, spread, varying_columns
from decond.gp import LogNormal
from decond.kernels import RBF, Categorical, Linear, Matern32
from decond.kernels.kernel import Kernel
from decond.parameters import leaves

__all__ = [
    "KernelChoice",
    "SearchRanges",
    "deviation_of",
    "given_kernel",
    "in_data_units",
    "noise_range",
    "noise_start",
    "plain_kernel",
    "smooth_kernel",
    "with_trend",
]


@dataclass(frozen=True)
class SearchRanges:
    """Where hyperparameters are expected and searched, relative to the data; tuned on the problems of the benchmarks.

    Ranges are relative to the spread of a column, the variance and the deviation of the targets.
    """

    smoothness: float = 2.0
    """Lengthscales are expected around this many standard deviations of their column."""
    trend: float = 0.3
    """The variance of the linear trend is expected around this fraction of that of the targets."""
    amplitude_spread: float = 1.0
    """The variance of f is expected within a factor of e of that of the targets: where they say nothing about f, the
    evidence would rather make it constant, with error bars of nothing."""
    lengthscales: tuple[float, float] = (0.05, 100.0)
    """From a twentieth of the spread of a column to a function that is linear in it."""
    variances: tuple[float, float] = (1e-3, 1e3)
    """From next to nothing to far more than the targets show."""
    noises: tuple[float, float] = (1e-3, 3.0)
    """From next to nothing to more than all of the targets."""
    noise_start: float = 0.3
    """Where the search for the noise starts, relative to the deviation of the targets."""


class KernelChoice(NamedTuple):
    """A kernel with the ranges and hyperpriors of its parameters by path, and the path of its amplitude."""

    kernel: Kernel
    amplitude: str | None = None
    bounds: Mapping[str, tuple[Any, Any]] = MappingProxyType({})
    hyperpriors: Mapping[str, LogNormal] = MappingProxyType({})
    free: tuple[str, ...] | None = None
    """Which parameters are learned; None is all of them."""
    given: Kernel | None = None
    """The kernel that the user gave, from which a search starts too."""

    def under(self, prefix: str) -> "KernelChoice":
        """Return the same choice with a prefix before every path."""
        return KernelChoice(
            self.kernel,
            None if self.amplitude is None else prefix + self.amplitude,
            {prefix + path: value for path, value in self.bounds.items()},
            {prefix + path: value for path, value in self.hyperpriors.items()},
            None if self.free is None else tuple(prefix + path for path in self.free),
            self.given,
        )


def smooth_kernel(x: np.ndarray, variance: float, trend: bool) -> KernelChoice:
    """Return the default covariance of f: smooth variation, plus an effect of labels, plus (if `trend`) a linear one.

    The smooth part is Matern-3/2 with a lengthscale for each column, log-normal around twice the column's spread.

    Parameters
    ----------
    x : ndarray of shape (n, d)
        Rows.
    variance : float
        That of the targets.
    trend : bool
        Whether to add a linear one.
    """
    numeric, labels = numeric_columns(x), label_columns(x)
    parts: list[Kernel] = []
    if numeric:
        parts += [
            variance * _on(Matern32(SearchRanges.smoothness * spread(x[:, numeric])), numeric if labels else None)
        ]
    if labels:
        parts += [variance * Categorical().on(labels)]
    kernel = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    choice = _described(kernel, parts, variance, bool(numeric))
    return with_trend(choice, x, variance) if trend else choice


def in_data_units(kernel: Kernel, x: np.ndarray, variance: float) -> Kernel:
    """Return a kernel that was given at the scales of the data, from which a search for its parameters starts too.

    Lengthscales follow the rule of `smooth_kernel`. The mean variance at the rows is that of the targets, through a
    variance in front if the kernel has none of its own; sums keep their proportions.

    Parameters
    ----------
    kernel : Kernel
        The kernel as given.
    x : ndarray of shape (n, d)
        Rows.
    variance : float
        That of the targets.
    """
    numeric = numeric_columns(x)
    scales = np.ones(x.shape[1])
    if numeric:
        own, moving = spread(x[:, numeric]), varying_columns(x[:, numeric])
        still = np.sqrt(np.mean(np.square(own[moving]))) if moving.any() else 1.0
        scales[numeric] = SearchRanges.smoothness * np.where(
            moving, own, still
        )  # a constant column does not count in a mean
    moved = kernel.with_lengthscales(scales)
    size = float(np.mean(moved.diag(x)))
    return moved.rescaled(variance / size if size > 0.0 else 1.0)


def given_kernel(given: Kernel, x: np.ndarray, variance: float, hyperpriors: bool) -> KernelChoice:
    """Return the choice for a kernel that was given: at the scales of the data, with the given one as another start.

    With `hyperpriors`, lengthscales and variances have the log-normal priors and the ranges of `smooth_kernel`, which
    an integral over them needs to be finite. Ranges are widened to hold the values that were given.

    Parameters
    ----------
    given : Kernel
        The kernel as given.
    x : ndarray of shape (n, d)
        Rows.
    variance : float
        That of the targets.
    hyperpriors : bool
        Whether to set priors and ranges.
    """
    kernel = in_data_units(given, x, variance)
    if not hyperpriors:
        return KernelChoice(kernel, given=given)
    bounds: dict[str, tuple[Any, Any]] = {}
    priors: dict[str, LogNormal] = {}
    starts = leaves(given.rescaled(1.0))
    for path, value in leaves(kernel).items():
        name = path.rpartition(".")[2]
        if name not in ("lengthscale", "variance") or not np.all(value):
            continue
        low, high = SearchRanges.lengthscales if name == "lengthscale" else SearchRanges.variances
        unit = np.asarray(value) / (SearchRanges.smoothness if name == "lengthscale" else 1.0)
        start = starts.get(path, value)
        bounds[path] = (np.minimum(low * unit, start), np.maximum(high * unit, start))
        priors[path] = LogNormal(value, 1.0 if name == "lengthscale" else SearchRanges.amplitude_spread)
    return KernelChoice(kernel, None, bounds, priors, given=given)


def with_trend(choice: KernelChoice, x: np.ndarray, variance: float) -> KernelChoice:
    """Return a choice of named parameters with a linear trend added, about each column's mean.

    Its variance is log-normal around `SearchRanges.trend` of that of the targets. Labels have no trend, nor columns
    that never change, of which data do not show the slope. A given kernel with no named parameters is left as it is.

    Parameters
    ----------
    choice : KernelChoice
        The smooth part.
    x : ndarray of shape (n, d)
        Rows.
    variance : float
        That of the targets.
    """
    columns = [j for j in numeric_columns(x) if varying_columns(x[:, [j]]).all()]
    if not columns or choice.free is None:
        return choice
    line = Linear(spread(x[:, columns]), x[:, columns].astype(np.float64).mean(axis=0))
    inner, path = choice.under("parts.0."), "parts.1.variance"
    size = SearchRanges.trend * variance
    first, *others = inner.free or ()  # variances stand before lengthscales
    return inner._replace(
        kernel=choice.kernel + size * _on(line, columns if len(columns) < x.shape[1] else None),
        bounds={**inner.bounds, path: _scaled(SearchRanges.variances, variance)},
        hyperpriors={**inner.hyperpriors, path: LogNormal(size, 1.5)},
        free=(first, path, *others),
    )


def _described(kernel: Kernel, parts: list[Kernel], variance: float, smooth: bool) -> KernelChoice:
    """Return paths, ranges and hyperpriors of one scaled part, or of the sum of two."""
    prefixes = [""] if len(parts) == 1 else ["parts.0.", "parts.1."]
    within = _scaled(SearchRanges.variances, variance)
    bounds: dict[str, tuple[Any, Any]] = {prefix + "variance": within for prefix in prefixes}
    hyperpriors = {prefixes[0] + "variance": LogNormal(variance, SearchRanges.amplitude_spread)}
    free = [prefix + "variance" for prefix in prefixes]
    if smooth:
        inner = parts[0].kernel  # type: ignore[attr-defined]
        path = prefixes[0] + ("kernel.kernel.lengthscale" if hasattr(inner, "columns") else "kernel.lengthscale")
        scale = getattr(inner, "kernel", inner).lengthscale / SearchRanges.smoothness
        bounds[path] = _scaled(SearchRanges.lengthscales, scale)
        hyperpriors[path] = LogNormal(SearchRanges.smoothness * scale, 1.0)
        free.append(path)
    return KernelChoice(kernel, prefixes[0] + "variance", bounds, hyperpriors, tuple(free))


def plain_kernel(rows: np.ndarray, variance: float, learn_variance: bool = False) -> KernelChoice:
    """Return the paper's kernel in the units of the data: Gaussian, categorical for labels.

    The paper's variances are fixed; of a function that is seen directly or through known weights it can be learned.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Rows of x or y.
    variance : float
        That of the targets.
    learn_variance : bool
        Whether it is learned.
    """
    numeric, labels = numeric_columns(rows), label_columns(rows)
    if not numeric:
        return KernelChoice(variance * Categorical(), free=("variance",) if learn_variance else ())
    scale = spread(rows[:, numeric])
    path = "kernel.parts.0.kernel.lengthscale" if labels else "kernel.lengthscale"
    gaussian = RBF(scale).on(numeric) * Categorical().on(labels) if labels else RBF(scale)
    bounds: dict[str, tuple[Any, Any]] = {path: _scaled(SearchRanges.lengthscales, scale)}
    if learn_variance:
        bounds["variance"] = _scaled(SearchRanges.variances, variance)
    return KernelChoice(variance * gaussian, bounds=bounds, free=tuple(bounds))


def _on(kernel: Kernel, columns: list[int] | None) -> Kernel:
    return kernel if columns is None else kernel.on(columns)


def noise_range(z: np.ndarray) -> tuple[float, float]:
    """Return the range in which a noise is searched."""
    return _scaled(SearchRanges.noises, deviation_of(z))


def noise_start(z: np.ndarray) -> float:
    """Return where the search for a noise starts."""
    return SearchRanges.noise_start * deviation_of(z)


def deviation_of(z: np.ndarray) -> float:
    """Return the root mean square of centered targets; one if they are all equal."""
    deviation = float(np.sqrt(np.mean(np.square(z))))
    return deviation if deviation > 1e-12 * max(float(np.abs(z).max(initial=0.0)), 1e-300) else 1.0


def _scaled(limits: tuple[float, float], unit: float | np.ndarray) -> tuple[Any, Any]:
    return limits[0] * unit, limits[1] * unit
