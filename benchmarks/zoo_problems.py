"""Random problems with known truth, of four kinds: what a target is the value or the mean of differs between them.

- `single`: a mediator of numbers; each target is f at one latent input, drawn from x given the mediator.
- `mean`: a mediator of numbers; each target is E[f(X) | y].
- `complete`: groups whose rows are all listed; each target is the mean of f over them.
- `sampled`: groups of which only some rows are listed; each target is the mean of f over all rows of the group.

`problem(kind, seed)` draws f, the distribution of x, the sizes of the tables, the noise and the units. Everything is
drawn with x and f at unit scale, and is converted to the units of the data at the end.

A mediator of numbers has at least as many columns as x. With fewer, functions that vary across E[x | y] have almost
the same E[f(X) | y], so no method can tell them apart and a comparison of methods says nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]
Range = tuple[float, float]

KINDS = ("single", "mean", "complete", "sampled")
MULTIPLICATIVE, SMALL_NOISE = "multiplicative", "small noise"
SHAPES = ("Gaussian", "skewed", "heteroscedastic", "bimodal")
FUNCTIONS = ("smooth", "kinked", "saturating", "periodic")


@dataclass(frozen=True)
class Ranges:
    """What the problems are drawn from. Pairs of numbers are bounds, log-uniform unless a comment says otherwise."""

    rows: Range = (40, 500)
    """Pairs, and targets, with a mediator of numbers; groups list about as many rows at most."""
    columns_x: int = 3
    columns_y: int = 2
    identifiable: bool = True
    """Whether a mediator of numbers has at least as many columns as x; with fewer, no targets determine f."""
    groups: tuple[int, int] = (30, 120)
    """Uniform."""
    complete_rows: Range = (3, 30)
    """Most rows of a group that is listed completely; the fewest are 2."""
    sampled_rows: tuple[int, int] = (2, 10)
    """Fewest and most rows that are listed of a group, uniform."""
    group_size: Range = (40, 200)
    """Rows of a group of which only some are listed."""
    within: Range = (0.15, 1.2)
    """Spread of x given y relative to the spread of E[x | y]."""
    within_groups: Range = (0.2, 2.0)
    """Spread within groups relative to the spread of their centers."""
    noise: Range = (0.02, 0.5)
    """Noise relative to the spread of the noise-free targets."""
    unit: Range = (1e-2, 1e2)
    """Factors of each column of x, each column of y, and z."""
    lengthscale: Range = (0.4, 2.0)
    """Of a smooth f, relative to the spread of x."""
    period: Range = (1.5, 5.0)
    """Of a periodic f, relative to the spread of x."""
    saturation: Range = (0.2, 1.0)
    """Width of the step of a saturating f, relative to the spread of x."""
    pool: int = 2000
    """Residuals that x given y is drawn from, so that E[f(X) | y] is a finite mean, without Monte Carlo error."""
    test_rows: int = 400


@dataclass(frozen=True)
class Problem:
    """Two tables, the truth that scores a model, and what is known or hidden about their origin."""

    kind: str
    seed: int
    x: np.ndarray
    """Rows of the first table, of shape (n, d)."""
    y: np.ndarray
    """Their mediator: numbers of shape (n, e), or labels of shape (n,)."""
    y_task: np.ndarray
    """Mediator of the targets: numbers of shape (m, e), or each label once."""
    z: np.ndarray
    """Targets, of shape (m,)."""
    x_test: np.ndarray
    f_test: np.ndarray
    """True f at the test rows, which are drawn like the latent inputs of the targets."""
    noise: float
    """Standard deviation of the noise of the targets; nan where it is not constant."""
    group_sizes: dict[str, int] | None = None
    """Rows of each group where only some are listed."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What was drawn, for the record."""

    @property
    def has_groups(self) -> bool:
        """Return whether the mediator is a label."""
        return self.y.ndim == 1


def problem(kind: str, seed: int, ranges: Ranges | None = None) -> Problem:
    """Draw a problem; the same kind and seed give the same problem.

    Parameters
    ----------
    kind : {"single", "mean", "complete", "sampled"}
        What a target is.
    seed : int
        Nonnegative. Settings are chosen on seeds below 1000; seeds from 1000 are for reporting.
    ranges : Ranges, optional
        What the problem is drawn from.

    Returns
    -------
    Problem
        Tables, truth and facts.
    """
    rng = np.random.default_rng((KINDS.index(kind), seed))
    ranges = ranges or Ranges()
    draw = _mediated if kind in ("single", "mean") else _grouped
    return draw(kind, seed, rng, ranges)


def multiplicative(seed: int, rows: int = 200, spread: float = 0.4) -> Problem:
    """Draw a problem of the kind `single` with z = f(x)·exp(0.4 e) for standard normal e, and f = 2 + sin.

    The truth is E[z | x] = f(x)·exp(0.08), which is what a regression estimates.
    """
    rng = np.random.default_rng((len(KINDS), seed))
    bend, within = rng.uniform(0.5, 1.5), _log_uniform(rng, (0.2, 0.6))
    phase, period = rng.uniform(0.0, 2.0 * np.pi), rng.uniform(4.0, 8.0)

    def inputs(y: np.ndarray) -> np.ndarray:
        return y + bend * np.sin(y) + within * rng.standard_normal(y.shape)

    def f(x: np.ndarray) -> np.ndarray:
        return 2.0 + np.sin(2.0 * np.pi * x[:, 0] / period + phase)

    y, y_task = (rng.uniform(-3.0, 3.0, (rows, 1)) for _ in range(2))
    x = inputs(y)
    z = f(inputs(y_task)) * np.exp(spread * rng.standard_normal(rows))
    x_test = inputs(y_task[rng.integers(rows, size=Ranges.test_rows)])
    facts = {"f": "2 + sin", "period": period, "within": within}
    truth = f(x_test) * np.exp(0.5 * spread**2)
    return Problem(MULTIPLICATIVE, seed, x, y, y_task, z, x_test, truth, float("nan"), None, facts)


def small_noise(seed: int, groups: int = 48, noise: float = 0.02) -> Problem:
    """Draw a problem of the kind `complete` with 48 groups, two columns, and noise of 2 % of the spread of z."""
    rng = np.random.default_rng((len(KINDS) + 1, seed))
    fixed = Ranges(groups=(groups, groups), noise=(noise, noise))
    return replace(_grouped("complete", seed, rng, fixed, columns=2), kind=SMALL_NOISE)


def _mediated(kind: str, seed: int, rng: np.random.Generator, ranges: Ranges) -> Problem:
    columns, columns_y = (int(rng.integers(1, most + 1)) for most in (ranges.columns_x, ranges.columns_y))
    columns_y = max(columns, columns_y) if ranges.identifiable else columns_y
    n, m = (_whole(rng, ranges.rows) for _ in range(2))
    within = _log_uniform(rng, ranges.within)
    shape = str(rng.choice(SHAPES))
    conditional = _Conditional(rng, columns, columns_y, shape, within, ranges.pool)
    y, y_task = (conditional.mediators(rng, rows) for rows in (n, m))
    x = conditional.inputs(rng, y)
    reference = conditional.inputs(rng, conditional.mediators(rng, ranges.pool))
    f, described = _function(rng, reference, ranges)
    means = f(conditional.inputs(rng, y_task)) if kind == "single" else conditional.expectations(f, y_task)
    x_test = conditional.inputs(rng, y_task[rng.integers(m, size=ranges.test_rows)])
    facts = {"shape": shape, "within": within, **described}
    drawn = Problem(kind, seed, x, y, y_task, means, x_test, f(x_test), 0.0, None, facts)
    return _in_units(rng, drawn, ranges)


def _grouped(kind: str, seed: int, rng: np.random.Generator, ranges: Ranges, columns: int | None = None) -> Problem:
    columns = columns or int(rng.integers(1, ranges.columns_x + 1))
    count = int(rng.integers(ranges.groups[0], ranges.groups[1] + 1))
    within = _log_uniform(rng, ranges.within_groups)
    shape = str(rng.choice([name for name in SHAPES if name != "heteroscedastic"]))
    listed, sizes = _group_sizes(kind, rng, count, ranges)
    centers = (
        rng.standard_normal((count, columns)) if rng.random() < 0.5 else rng.uniform(-1.7, 1.7, (count, columns))
    )
    spreads = within * np.exp(rng.uniform(0.0, 0.5) * rng.standard_normal((count, 1)))
    residuals = _Residuals(rng, columns, shape)

    def rows_of(group: np.ndarray) -> np.ndarray:
        return centers[group] + spreads[group] * residuals(rng, len(group))

    group = np.repeat(np.arange(count), sizes)
    population = rows_of(group)
    f, described = _function(rng, rows_of(rng.integers(count, size=ranges.pool)), ranges)
    means = np.bincount(group, f(population)) / sizes
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_listed = np.arange(len(group)) - first < listed[group]  # rows are exchangeable: the first are as good as any
    labels = np.array([f"g{j:03d}" for j in range(count)])
    x_test = rows_of(rng.integers(count, size=ranges.test_rows))
    known = dict(zip(labels.tolist(), sizes.tolist(), strict=True)) if kind == "sampled" else None
    facts = {"shape": shape, "within": within, **described}
    drawn = Problem(
        kind,
        seed,
        population[is_listed],
        labels[group[is_listed]],
        labels,
        means,
        x_test,
        f(x_test),
        0.0,
        known,
        facts,
    )
    return _in_units(rng, drawn, ranges)


def _group_sizes(kind: str, rng: np.random.Generator, count: int, ranges: Ranges) -> tuple[np.ndarray, np.ndarray]:
    """Return how many rows of each group are listed, and how many there are."""
    most_in_table = int(2 * ranges.rows[1] / count) - 2  # sizes are uniform from 2 on, so this bounds the mean total
    if kind == "complete":
        most = min(_whole(rng, ranges.complete_rows), most_in_table)
        listed = rng.integers(2, most + 1, size=count)
        return listed, listed
    fewest, most = np.sort(rng.integers(ranges.sampled_rows[0], ranges.sampled_rows[1] + 1, size=2))
    listed = rng.integers(min(fewest, most_in_table), min(most, most_in_table) + 1, size=count)
    return listed, np.array([_whole(rng, ranges.group_size) for _ in range(count)])


def _in_units(rng: np.random.Generator, drawn: Problem, ranges: Ranges) -> Problem:
    """Add noise to the targets, and convert all columns to units of their own."""
    noise = _log_uniform(rng, ranges.noise) * drawn.z.std()
    z = drawn.z + noise * rng.standard_normal(len(drawn.z))
    units, origin = _units(rng, drawn.x.shape[1], ranges)
    (unit_z,), (origin_z,) = _units(rng, 1, ranges)
    y, y_task = drawn.y, drawn.y_task
    if not drawn.has_groups:
        units_y, origin_y = _units(rng, y.shape[1], ranges)
        y, y_task = (units_y * (rows + origin_y) for rows in (y, y_task))
    x, x_test = (units * (rows + origin) for rows in (drawn.x, drawn.x_test))
    facts = {
        "columns": x.shape[1],
        "rows": len(x),
        "targets": len(z),
        "noise": float(noise / drawn.z.std()),
        "targets' spread": float(drawn.z.std() / drawn.f_test.std()),
        **drawn.facts,
    }
    z, f_test = (unit_z * (values + origin_z) for values in (z, drawn.f_test))
    return Problem(
        drawn.kind, drawn.seed, x, y, y_task, z, x_test, f_test, float(unit_z * noise), drawn.group_sizes, facts
    )


class _Residuals:
    """Residuals of unit variance and mean zero, with a random shape and random correlations between columns."""

    def __init__(self, rng: np.random.Generator, columns: int, shape: str) -> None:
        mixing = np.eye(columns) + 0.4 * rng.standard_normal((columns, columns))
        self._mixing = mixing / np.linalg.norm(mixing, axis=1, keepdims=True)
        self._columns, self._shape = columns, shape
        self._log_normal = rng.random() < 0.5
        self._tail = _log_uniform(rng, (0.25, 0.6))  # σ of the log-normal; a gamma of shape 1/σ is as skewed
        self._sign = rng.choice([-1.0, 1.0], size=columns)
        self._weight, self._distance = rng.uniform(0.3, 0.7), rng.uniform(0.8, 0.97)

    def __call__(self, rng: np.random.Generator, n: int) -> np.ndarray:
        return self._independent(rng, (n, self._columns)) @ self._mixing.T

    def _independent(self, rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
        if self._shape == "skewed" and self._log_normal:
            square = np.exp(self._tail**2)
            values = np.exp(self._tail * rng.standard_normal(size))
            return self._sign * (values - np.sqrt(square)) / np.sqrt(square * (square - 1.0))
        if self._shape == "skewed":
            shape = 1.0 / self._tail
            return self._sign * (rng.gamma(shape, size=size) - shape) / np.sqrt(shape)
        if self._shape == "bimodal":
            p, d = self._weight, self._distance
            modes = np.where(rng.random(size) < p, np.sqrt((1.0 - p) / p), -np.sqrt(p / (1.0 - p)))
            return d * modes + np.sqrt(1.0 - d**2) * rng.standard_normal(size)
        return rng.standard_normal(size)


class _Conditional:
    """x given y: a random curve or surface E[x | y], and residuals around it from a finite pool."""

    def __init__(
        self, rng: np.random.Generator, columns: int, columns_y: int, shape: str, within: float, pool: int
    ) -> None:
        self._uniform, self._columns_y = rng.random() < 0.5, columns_y
        y = self.mediators(rng, pool)
        self._slopes = rng.standard_normal((columns_y, columns)) * rng.uniform(0.3, 1.5)
        self._bends = [_gaussian_process(rng, columns_y, _log_uniform(rng, (0.6, 2.0))) for _ in range(columns)]
        self._center, self._scale = np.zeros(columns), np.ones(columns)
        raw = self._means(y)
        self._center, self._scale = raw.mean(axis=0), raw.std(axis=0)
        residuals = _Residuals(rng, columns, shape)(rng, pool)
        self._pool = within * (residuals - residuals.mean(axis=0)) / residuals.std(axis=0)
        strength = rng.uniform(0.5, 1.0) if shape == "heteroscedastic" else 0.0
        self._strength, self._log_spread = strength, _gaussian_process(rng, columns_y, 1.5)

    def mediators(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw n values of the mediator, of unit variance."""
        size = (n, self._columns_y)
        return rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), size) if self._uniform else rng.standard_normal(size)

    def inputs(self, rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
        """Draw one x for each y."""
        return self._means(y) + self._spreads(y) * self._pool[rng.integers(len(self._pool), size=len(y))]

    def expectations(self, f: Function, y: np.ndarray) -> np.ndarray:
        """Return E[f(X) | y] at each y."""
        means, spreads = self._means(y), self._spreads(y)
        return np.array([f(mean + spread * self._pool).mean() for mean, spread in zip(means, spreads, strict=True)])

    def _means(self, y: np.ndarray) -> np.ndarray:
        bends = np.column_stack([bend(y) for bend in self._bends])
        return (y @ self._slopes + bends - self._center) / self._scale

    def _spreads(self, y: np.ndarray) -> np.ndarray:
        return np.exp(self._strength * self._log_spread(y))[:, None]


def _function(rng: np.random.Generator, x: np.ndarray, ranges: Ranges) -> tuple[Function, dict[str, Any]]:
    """Draw f with unit variance over rows x: a sum over columns, sometimes with one product of two columns."""
    columns = x.shape[1]
    families = [str(name) for name in rng.choice(FUNCTIONS, size=columns)]
    terms = [_univariate(rng, name, x[:, k], ranges) for k, name in enumerate(families)]
    weights = rng.uniform(0.4, 1.0, size=columns)
    pair = tuple(int(k) for k in rng.permutation(columns)[:2]) if columns > 1 and rng.random() < 0.5 else ()

    def raw(rows: np.ndarray) -> np.ndarray:
        values = np.column_stack([term(rows[:, k]) for k, term in enumerate(terms)])
        total = values @ weights
        return total + values[:, pair[0]] * values[:, pair[1]] if pair else total

    reference = raw(x)
    center, scale = reference.mean(), reference.std()
    return lambda rows: (raw(rows) - center) / scale, {"f": " + ".join(families), "interaction": bool(pair)}


def _univariate(rng: np.random.Generator, family: str, x: np.ndarray, ranges: Ranges) -> Function:
    """Draw a function of one column with mean zero and unit variance over x."""
    center, spread = x.mean(), x.std()
    shape = _shapes(rng, family, ranges)
    values = shape((x - center) / spread)
    middle, scale = values.mean(), values.std()
    return lambda column: (shape((column - center) / spread) - middle) / scale


def _shapes(rng: np.random.Generator, family: str, ranges: Ranges) -> Function:
    if family == "smooth":
        draw = _gaussian_process(rng, 1, _log_uniform(rng, ranges.lengthscale))
        return lambda u: draw(u[:, None])
    if family == "kinked":
        knots = rng.uniform(-1.2, 1.2, size=rng.integers(1, 4))
        changes, slope = rng.choice([-1.0, 1.0], len(knots)) * rng.uniform(0.5, 1.5, len(knots)), rng.uniform(-1, 1)
        return lambda u: slope * u + np.abs(u[:, None] - knots) @ changes
    if family == "saturating":
        middle, width = rng.uniform(-1.0, 1.0), _log_uniform(rng, ranges.saturation)
        sign = rng.choice([-1.0, 1.0])
        return lambda u: sign * np.tanh((u - middle) / width)
    period, phase = _log_uniform(rng, ranges.period), rng.uniform(0.0, 2.0 * np.pi)
    return lambda u: np.sin(2.0 * np.pi * u / period + phase)


def _gaussian_process(
    rng: np.random.Generator, columns: int, lengthscale: float, n_frequencies: int = 50
) -> Function:
    """Draw a function from a Gaussian process with a Gaussian kernel, by random Fourier features."""
    frequencies = rng.standard_normal((columns, n_frequencies)) / lengthscale
    phases = rng.uniform(0.0, 2.0 * np.pi, n_frequencies)
    weights = rng.standard_normal(n_frequencies) * np.sqrt(2.0 / n_frequencies)
    return lambda rows: np.cos(rows @ frequencies + phases) @ weights


def _units(rng: np.random.Generator, columns: int, ranges: Ranges) -> tuple[np.ndarray, np.ndarray]:
    """Return a factor and an origin for each column; the origin is added first."""
    return np.array([_log_uniform(rng, ranges.unit) for _ in range(columns)]), rng.normal(0.0, 2.0, columns)


def _log_uniform(rng: np.random.Generator, bounds: Range) -> float:
    return float(np.exp(rng.uniform(*np.log(bounds))))


def _whole(rng: np.random.Generator, bounds: Range) -> int:
    return round(_log_uniform(rng, bounds))
