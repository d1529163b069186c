"""The prior: named parameters, their joint density and support, and coordinates in which kernels work well."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import as_count, as_generator, as_rows, frozen
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.exceptions import PriorFileError
from decond.parameters import Kept

__all__ = ["Prior"]


class _Marginal(Protocol):
    """A frozen continuous distribution of scipy.stats."""

    rvs: Callable[..., NDArray[np.float64]]
    logpdf: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ppf: Callable[[ArrayLike], NDArray[np.float64]]
    support: Callable[[], tuple[float, float]]
    mean: Callable[[], float]
    args: tuple[float, ...]
    kwds: dict[str, float]


class _JointDensity(Protocol):
    """A joint distribution, such as a frozen multivariate normal."""

    rvs: Callable[..., NDArray[np.float64]]
    logpdf: Callable[[NDArray[np.float64]], NDArray[np.float64]]


EXAMPLE = (
    '[rate]\ndistribution = "gamma"\na = 2.0\nscale = 1.0\n\n[delay]\ndistribution = "uniform"\nlow = 0.0\nhigh = 5.0'
)


@dataclass(frozen=True)
class PriorSettings:
    """How working coordinates and joint priors are found."""

    decades: float = 50.0
    """A positive parameter is worked with on a log scale if its middle 90 % spans a larger factor (convention)."""

    levels: tuple[float, ...] = (0.05, 0.16, 0.5, 0.84, 0.95)
    """Quantiles: the middle 90 % and 68 %, and the median."""

    joint_draws: int = 4000
    """Draws that give the location and spread of a joint prior, to 2 % of its spread."""

    mass_draws: int = 100_000
    """Draws that give how much of a joint prior lies inside its support, to 0.2 %."""

    tries: int = 1000
    """Batches of draws after which a joint prior counts as outside its support."""


class Prior(Kept):
    """Named parameters with `scipy.stats` distributions: independent, or one joint distribution.

    Independent: a mapping from names to frozen continuous distributions. Joint: an object with ``rvs`` and
    ``logpdf``, such as a frozen multivariate normal, with `names` and, where it is bounded, its `support` as
    (low, high).

    Working coordinates are where kernels and samplers live: each parameter centered and scaled by the prior, on a
    log scale if its support is a half line or spans decades. They are numbers without units.

    Parameters
    ----------
    distributions : mapping or object
        Distributions of `scipy.stats` by name, or a joint one.
    names : sequence of str, optional
        Names of the parameters of a joint distribution.
    support : tuple of array_like, optional
        Bounds (low, high) of a joint distribution.

    Attributes
    ----------
    names : tuple of str
    dim : int
        The number of parameters, d.
    low, high : ndarray of shape (d,)
        Bounds of the support.

    Examples
    --------
    >>> from scipy import stats
    >>> prior = Prior({"rate": stats.gamma(2), "share": stats.uniform(0, 1)})
    >>> prior.names, prior.dim
    (('rate', 'share'), 2)
    >>> theta = prior.sample(3, seed=0)
    >>> bool(np.allclose(prior.from_working(prior.to_working(theta)), theta))
    True
    >>> prior.log_density([[1.0, 2.0]])
    array([-inf])
    """

    def __init__(
        self,
        distributions: Mapping[str, _Marginal] | _JointDensity,
        *,
        names: Sequence[str] | None = None,
        support: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        self._law: _Law
        self._distributions, self._support = distributions, support
        if isinstance(distributions, Mapping):
            if names is not None or support is not None:
                raise ArgumentError(
                    "support" if names is None else "names",
                    "names and support go with a joint distribution; a mapping from names to distributions has its "
                    "names already, and each distribution knows its support. Leave them out.",
                )
            self.names = _checked_names(list(distributions), "distributions")
            self._law = _Independent(dict(distributions))
        else:
            self._law = _Joint(distributions, support, names)
            self.names = _checked_names(names or [f"theta_{i + 1}" for i in range(self._law.dim)], "names")
        self.dim = len(self.names)
        self.low: NDArray[np.float64] = frozen(self._law.low)
        self.high: NDArray[np.float64] = frozen(self._law.high)
        self._scale = _WorkingScale(self.low, self.high, self._law.quantiles())

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Return the prior in a TOML file.

        Each table is a parameter: its `distribution` by the name that scipy.stats gives it, and that distribution's
        arguments. "uniform" and "loguniform" take `low` and `high`.

        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "prior.toml"
        >>> _ = path.write_text(EXAMPLE)
        >>> Prior.from_file(path)
        Prior(rate in [0, inf], delay in [0, 5])
        """
        path = Path(path)
        if not path.is_file():
            found = f"{path} is a folder." if path.is_dir() else f"there is no file {path}."
            raise FileNotFoundError(f"{found} A prior is a TOML file such as:\n{EXAMPLE}")
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise PriorFileError(f"{path} is not valid TOML: {error}. A prior looks like:\n{EXAMPLE}", path) from None
        return cls.from_tables(tables, path)

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any], path: Path) -> Self:
        """Return the prior in tables of a TOML file.

        Parameters
        ----------
        tables : mapping
            A table for each parameter.
        path : Path
            The file, for messages.
        """
        if not tables:
            raise PriorFileError(f"{path} has no parameters. A prior looks like:\n{EXAMPLE}", path)
        return cls({name: _distribution(name, table, path) for name, table in tables.items()})

    def _fields(self) -> dict[str, Any]:
        if isinstance(self._distributions, Mapping):
            marginals = {name: _described(marginal) for name, marginal in self._distributions.items()}
            return {"distributions": marginals, "names": None, "support": None}
        support = None if self._support is None else (self.low, self.high)
        return {"distributions": _described(self._distributions), "names": self.names, "support": support}

    @classmethod
    def _restored(cls, **fields: Any) -> Self:
        distributions = fields.pop("distributions")
        if isinstance(distributions, Mapping):
            return cls({name: _distribution_of(*described) for name, described in distributions.items()})
        return cls(_distribution_of(*distributions), **fields)

    def sample(self, n: int, seed: int | np.random.Generator | None = 0) -> NDArray[np.float64]:
        """Return draws.

        Parameters
        ----------
        n : int
            How many.
        seed : int or numpy.random.Generator, optional
            Fixes them.

        Returns
        -------
        ndarray of shape (n, d)
        """
        return self._law._sample(as_count(n, "n"), as_generator(seed))

    def log_density(self, theta: ArrayLike) -> NDArray[np.float64]:
        """Return the log density at rows of parameters; -inf outside the support."""
        rows = self.rows(theta)
        result = np.full(len(rows), -np.inf)
        inside = self.contains(rows)
        if inside.any():
            result[inside] = self._law.log_density(rows[inside])
        return result

    def marginal(self, name: str) -> _Marginal | None:
        """Return the distribution of a parameter that is independent of the others; None if they have a joint one."""
        return self._law.marginal(self.names.index(name))

    def contains(self, theta: ArrayLike) -> NDArray[np.bool_]:
        """Return for each row whether it lies inside the support."""
        rows = np.atleast_2d(np.asarray(theta, dtype=np.float64))
        return np.all((rows >= self.low) & (rows <= self.high) & np.isfinite(rows), axis=1)

    def to_working(self, theta: ArrayLike) -> NDArray[np.float64]:
        """Return working coordinates φ of rows of parameters inside the support."""
        return self._scale.forward(np.asarray(theta, dtype=np.float64))

    def from_working(self, phi: ArrayLike) -> NDArray[np.float64]:
        """Return the parameters at working coordinates φ."""
        return self._scale.backward(np.asarray(phi, dtype=np.float64))

    def log_density_working(self, phi: ArrayLike) -> NDArray[np.float64]:
        """Return the log density of φ itself, with the Jacobian; -inf outside the support."""
        rows = np.atleast_2d(np.asarray(phi, dtype=np.float64))
        theta = self._scale.backward(rows)
        result = np.full(len(rows), -np.inf)
        inside = self.contains(theta)
        if inside.any():
            jacobian = self._scale.log_slope(rows[inside])
            result[inside] = self._law.log_density(theta[inside]) + jacobian
        return result

    def rows(self, theta: ArrayLike, name: str = "theta") -> NDArray[np.float64]:
        """Return rows of parameters with the right number of columns, or raise.

        Parameters
        ----------
        theta : array_like of shape (n, d) or (d,)
            Parameters.
        name : str
            The argument that messages name.
        """
        array = np.asarray(theta, dtype=np.float64)
        if array.ndim == 1 and self.dim > 1:
            array = array[None, :]
        rows = as_rows(array, name)
        if rows.shape[1] != self.dim:
            raise ArgumentError(
                name,
                f"{name} has {rows.shape[1]} column(s) but the prior has {self.dim} parameter(s): "
                f"{', '.join(self.names)}. Give one column for each, in this order.",
            )
        return rows

    def __repr__(self) -> str:
        """Show the names and supports."""
        parts = (
            f"{name} in [{low:g}, {high:g}]" for name, low, high in zip(self.names, self.low, self.high, strict=True)
        )
        return f"Prior({', '.join(parts)})"


class _Law(Protocol):
    """The distribution behind a prior."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def _sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]: ...
    def log_density(self, rows: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def quantiles(self) -> NDArray[np.float64]: ...
    def marginal(self, column: int) -> _Marginal | None: ...


class _Independent(_Law):
    """Independent marginals."""

    def __init__(self, marginals: dict[str, _Marginal]) -> None:
        for name, marginal in marginals.items():
            _check_marginal(name, marginal)
        self.marginals = list(marginals.values())
        supports = np.array([marginal.support() for marginal in self.marginals], dtype=np.float64)
        self.low, self.high = supports[:, 0], supports[:, 1]

    def _sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        columns = [marginal.rvs(size=n, random_state=rng) for marginal in self.marginals]
        return np.column_stack(columns).astype(np.float64)

    def log_density(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        total = np.zeros(len(rows))
        for marginal, column in zip(self.marginals, rows.T, strict=True):
            total += marginal.logpdf(column)
        return total

    def quantiles(self) -> NDArray[np.float64]:
        return np.array([marginal.ppf(PriorSettings().levels) for marginal in self.marginals]).T

    def marginal(self, column: int) -> _Marginal:
        return self.marginals[column]


class _Joint(_Law):
    """One joint distribution, cut to its support."""

    def __init__(
        self, joint: _JointDensity, support: tuple[ArrayLike, ArrayLike] | None, names: Sequence[str] | None
    ) -> None:
        if not (hasattr(joint, "rvs") and hasattr(joint, "logpdf")):
            raise ArgumentTypeError(
                "distributions",
                f"distributions is {joint!r}; give a mapping from names to scipy.stats distributions, for example "
                '{"rate": scipy.stats.gamma(2)}, or one joint distribution with rvs and logpdf, such as '
                "scipy.stats.multivariate_normal(mean, cov).",
            )
        self.joint, self.settings = joint, PriorSettings()
        draws = np.asarray(joint.rvs(size=2, random_state=np.random.default_rng(0)), dtype=np.float64)
        self.dim = 1 if draws.ndim == 1 else draws.shape[1]
        if names is not None and len(names) != self.dim:
            raise ArgumentError(
                "names",
                f"names has {len(names)} entries but the joint distribution has {self.dim} dimension(s); give one "
                "name for each.",
            )
        bounds = (-np.inf, np.inf) if support is None else support
        self.low, self.high = (np.broadcast_to(np.asarray(b, np.float64), (self.dim,)).copy() for b in bounds)
        if not (self.low < self.high).all():
            raise ArgumentError("support", f"support is {support!r}; each low bound has to be below its high bound.")
        self.log_mass = 0.0 if support is None else self._log_mass()
        self._check_rows()

    def _sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        kept = np.empty((0, self.dim))
        for _ in range(self.settings.tries):
            draws = np.asarray(self.joint.rvs(size=n, random_state=rng), np.float64).reshape(n, self.dim)
            kept = np.concatenate([kept, draws[self._inside(draws)]])
            if len(kept) >= n:
                return kept[:n]
        raise ArgumentError(
            "support",
            f"only {len(kept)} of {self.settings.tries * n} draws of the joint prior lie inside its support; widen "
            "the support, or give a distribution that lies in it.",
        )

    def log_density(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        values = np.asarray(self.joint.logpdf(rows if self.dim > 1 else rows[:, 0]), np.float64)
        return values.reshape(len(rows)) - self.log_mass

    def _log_mass(self) -> float:
        """Return the logarithm of the share inside the support: exact for one parameter, else from draws."""
        n = self.settings.mass_draws
        if self.dim == 1 and hasattr(self.joint, "cdf"):
            mass = float(np.squeeze(self.joint.cdf(self.high[0]) - self.joint.cdf(self.low[0])))
        else:
            draws = np.asarray(self.joint.rvs(size=n, random_state=np.random.default_rng(0)), np.float64)
            mass = float(self._inside(draws.reshape(n, self.dim)).mean())
        return float(np.log(max(mass, 1.0 / n)))

    def _check_rows(self) -> None:
        rows = self._sample(3, np.random.default_rng(0))
        try:
            values = self.log_density(rows)
        except ValueError:
            values = np.empty(0)
        if values.shape != (3,):
            raise ArgumentTypeError(
                "distributions",
                f"the joint distribution {self.joint!r} has no density for rows of {self.dim} parameters; its logpdf "
                "has to take rows (n, d) and return n values.",
            )

    def quantiles(self) -> NDArray[np.float64]:
        draws = self._sample(self.settings.joint_draws, np.random.default_rng(0))
        return np.quantile(draws, self.settings.levels, axis=0)

    def marginal(self, column: int) -> None:
        return None

    def _inside(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.asarray(((rows >= self.low) & (rows <= self.high)).all(axis=1))


class _WorkingScale:
    """φ = (t(θ) - center) / scale, where t is θ, log(θ - low) or -log(high - θ), column by column."""

    def __init__(self, low: NDArray[np.float64], high: NDArray[np.float64], quantiles: NDArray[np.float64]) -> None:
        decades = (low >= 0.0) & (quantiles[-1] > PriorSettings().decades * np.maximum(quantiles[0], 1e-300))
        self.upward = np.isfinite(low) & (~np.isfinite(high) | decades)
        self.downward = ~np.isfinite(low) & np.isfinite(high)
        self.origin = np.where(self.upward & np.isfinite(high), 0.0, np.where(self.downward, high, low))
        self.origin = np.where(np.isfinite(self.origin), self.origin, 0.0)
        self.center, self.scale = np.zeros(len(low)), np.ones(len(low))
        shape = self.forward(quantiles)
        self.center = shape[2].copy()
        self.scale = np.maximum((shape[3] - shape[1]) / 2.0, 1e-300)

    def forward(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        t = theta.astype(np.float64, copy=True)
        t[..., self.upward] = np.log(np.maximum((theta - self.origin)[..., self.upward], 1e-300))
        t[..., self.downward] = -np.log(np.maximum((self.origin - theta)[..., self.downward], 1e-300))
        return (t - self.center) / self.scale

    def backward(self, phi: NDArray[np.float64]) -> NDArray[np.float64]:
        t = phi * self.scale + self.center
        with np.errstate(over="ignore"):
            t[..., self.upward] = (self.origin + np.exp(np.where(self.upward, t, 0.0)))[..., self.upward]
            t[..., self.downward] = (self.origin - np.exp(np.where(self.downward, -t, 0.0)))[..., self.downward]
        return t

    def log_slope(self, phi: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log |dθ/dφ| summed over the columns."""
        t = phi * self.scale + self.center
        return np.log(self.scale).sum() + t[..., self.upward].sum(axis=-1) - t[..., self.downward].sum(axis=-1)


def _checked_names(names: Sequence[str], argument: str) -> tuple[str, ...]:
    if not names:
        raise ArgumentError(
            "distributions", 'the prior has no parameters; give at least one, such as {"rate": scipy.stats.gamma(2)}.'
        )
    for name in names:
        if not isinstance(name, str) or not name:
            raise ArgumentTypeError(argument, f"a parameter is called {name!r}; names are text.")
    if len(set(names)) != len(names):
        raise ArgumentError(argument, f"names {list(names)} repeat; each parameter needs its own.")
    return tuple(names)


def _check_marginal(name: str, marginal: _Marginal) -> None:
    argument = f"distributions[{name!r}]"
    if hasattr(getattr(marginal, "dist", marginal), "_pmf"):
        raise ArgumentTypeError(
            argument, f"the prior of {name!r} is discrete; only continuous parameters are supported."
        )
    if not all(hasattr(marginal, attribute) for attribute in ("rvs", "logpdf", "ppf", "support")):
        raise ArgumentTypeError(
            argument,
            f"the prior of {name!r} is {marginal!r}; give a frozen scipy.stats distribution, for example "
            "scipy.stats.norm(0, 1) or scipy.stats.uniform(low, width).",
        )
    if not hasattr(marginal, "dist"):
        raise ArgumentTypeError(
            argument,
            f"the prior of {name!r} has no parameters of its own; freeze it, such as scipy.stats.gamma(2, scale=1).",
        )
    if np.shape(marginal.mean()) not in ((), (1,)):
        raise ArgumentError(
            argument,
            f"the prior of {name!r} has arrays as parameters; give one distribution for each parameter of the model.",
        )
    low, high = marginal.support()
    if not (low < high and np.isfinite(marginal.ppf(0.5))):
        raise ArgumentError(
            argument,
            f"the prior of {name!r} has arguments that {marginal.dist.name} does not accept ({marginal.args}, "
            f"{marginal.kwds}); check their signs: a scale has to be positive.",
        )


# ---- files ---------------------------------------------------------------------------------------------------


JOINT = {"multivariate_normal": ("mean", "cov"), "multivariate_t": ("loc", "shape", "df")}
"""Joint distributions of scipy.stats that a file may hold, with their arguments."""


def _described(distribution: Any) -> tuple[str, dict[str, Any]]:
    """Return the name of a frozen distribution of scipy.stats and its arguments, or raise."""
    from scipy import stats

    family: Any = getattr(distribution, "dist", distribution)
    name = str(getattr(family, "name", ""))
    if isinstance(getattr(stats, name, None), stats.rv_continuous) and type(family) is type(getattr(stats, name)):
        shapes = [*(shape.strip() for shape in (family.shapes or "").split(",") if shape), "loc", "scale"]
        given = dict(zip(shapes, distribution.args, strict=False)) | distribution.kwds
        return name, {key: float(np.squeeze(value)) for key, value in given.items()}
    for name, arguments in JOINT.items():
        if type(distribution).__name__ == f"{name}_frozen" and type(distribution).__module__.startswith(
            "scipy.stats"
        ):
            return name, {key: np.asarray(getattr(distribution, key), dtype=np.float64) for key in arguments}
    raise ArgumentTypeError(
        "prior",
        f"the prior is {distribution!r}, from code of your own, and a file never holds code. Use a frozen "
        "distribution of scipy.stats (a joint one may be multivariate_normal or multivariate_t), or keep the "
        "posterior's draws instead, for example posterior.frame().to_csv(path).",
    )


def _distribution_of(name: str, arguments: Mapping[str, Any]) -> Any:
    """Return what `_described` describes; only names of distributions of scipy.stats are looked up."""
    from scipy import stats

    family: Any = getattr(stats, name, None)
    if name in JOINT:
        values = {key: np.asarray(value) for key, value in arguments.items()}
        return family(**{key: value if value.ndim else float(value) for key, value in values.items()})
    if not isinstance(family, stats.rv_continuous):
        raise ValueError(f"{name!r} is not a continuous distribution of scipy.stats")
    return family(**arguments)


def _distribution(name: str, table: object, path: Path) -> _Marginal:
    """Return the distribution in a table of a TOML file."""
    from scipy import stats

    def error(problem: str, *keys: str) -> PriorFileError:
        return PriorFileError(f"{path}: {problem}", path, name, keys)

    if not isinstance(table, dict) or not isinstance(table.get("distribution"), str):
        raise error(
            f"parameter {name!r} has no distribution. Write it as a table, such as:\n{EXAMPLE}", "distribution"
        )
    given = {key: value for key, value in table.items() if key != "distribution"}
    kind = table["distribution"]
    found = getattr(stats, kind, None)
    if not isinstance(found, stats.rv_continuous):
        raise error(
            f"{kind!r}, the distribution of {name!r}, is not a continuous distribution of scipy.stats, such as "
            "'norm', 'uniform', 'gamma', 'beta', 'expon', 'lognorm' or 'loguniform'.",
            "distribution",
        )
    for key, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise error(f"{key} of {name!r} is {value!r}; a number is needed.", key)
    shapes = [shape.strip() for shape in (found.shapes or "").split(",") if shape.strip()]
    ends = ["low", "high"] if kind in ("uniform", "loguniform") else []
    takes = f"{kind} takes {'low and high, or ' if ends else ''}{', '.join([*shapes, 'loc'])} and scale."
    unknown = [key for key in given if key not in [*ends, *shapes, "loc", "scale"]]
    if unknown:
        raise error(f"{name!r} has {unknown[0]!r}, which {kind} does not take. {takes}", unknown[0])
    if set(ends) & set(given):
        if set(given) != set(ends) or not given["low"] < given["high"]:
            raise error(f"{name!r} has {given}; give low and high, with low below high.", *ends)
        low, high = given["low"], given["high"]
        given = {"loc": low, "scale": high - low} if kind == "uniform" else {"a": low, "b": high}
    missing = [shape for shape in shapes if shape not in given]
    if missing:
        missing = ends if ends and len(missing) == len(shapes) else missing
        words = " and ".join(map(repr, missing))
        raise error(f"{name!r} lacks {words}, without which there is no {kind}. {takes}", *missing)
    frozen_one = found(**given)
    if not frozen_one.support()[0] < frozen_one.support()[1]:
        raise error(f"{name!r} cannot be a {kind} with {given}; check the signs of its arguments.", *given)
    return frozen_one
