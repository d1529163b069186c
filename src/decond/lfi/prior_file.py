"""A prior in a TOML file: one table for each parameter."""

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from decond.lfi.exceptions import PriorFileError
from decond.lfi.prior import Prior

__all__ = ["prior_of", "read_prior"]

EXAMPLE = (
    '[rate]\ndistribution = "gamma"\na = 2.0\nscale = 1.0\n\n[delay]\ndistribution = "uniform"\nlow = 0.0\nhigh = 5.0'
)
RANGES = ("uniform", "loguniform")
USUAL = ("norm", "uniform", "gamma", "beta", "expon", "lognorm", "loguniform", "halfnorm", "truncnorm", "t")


def read_prior(path: Any) -> Prior:
    """Return the prior in a TOML file.

    Each table is a parameter: its `distribution` by the name that scipy.stats gives it, and that distribution's
    arguments. "uniform" and "loguniform" take `low` and `high`.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "prior.toml"
    >>> _ = path.write_text(EXAMPLE)
    >>> read_prior(path)
    Prior(rate in [0, inf], delay in [0, 5])
    """
    path = Path(path)
    if not path.is_file():
        found = f"{path} is a folder." if path.is_dir() else f"there is no file {path}{_near(path)}"
        raise FileNotFoundError(f"{found} A prior is a TOML file such as:\n{EXAMPLE}")
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PriorFileError(f"{path} is not valid TOML: {error}. A prior looks like:\n{EXAMPLE}", path) from None
    return prior_of(tables, path)


def prior_of(tables: Mapping[str, Any], path: Path) -> Prior:
    """Return the prior in tables of a TOML file, one for each parameter; messages name the file."""
    if not tables:
        raise PriorFileError(f"{path} has no parameters. A prior looks like:\n{EXAMPLE}", path)
    return Prior({name: _distribution(name, table, path) for name, table in tables.items()})


def _distribution(name: str, table: Any, path: Path) -> Any:
    from scipy import stats

    if not isinstance(table, dict) or not isinstance(table.get("distribution"), str):
        raise PriorFileError(
            f"{path}: parameter {name!r} has no distribution. Write it as a table, such as:\n{EXAMPLE}",
            path,
            name,
            ["distribution"],
        )
    arguments = {key: value for key, value in table.items() if key != "distribution"}
    kind = table["distribution"]
    found = getattr(stats, kind, None)
    if not isinstance(found, stats.rv_continuous):
        known = [other for other in dir(stats) if isinstance(getattr(stats, other), stats.rv_continuous)]
        meant = difflib.get_close_matches(kind.lower(), known, n=1, cutoff=0.85)
        meant = meant or difflib.get_close_matches(kind.lower(), USUAL, n=1)
        raise PriorFileError(
            f"{path}: {kind!r}, the distribution of {name!r}, is not a continuous distribution of scipy.stats"
            f"{_did_you_mean(meant)} Examples: {', '.join(USUAL[:7])}.",
            path,
            name,
            ["distribution"],
            meant[0] if meant else None,
        )
    for key, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise PriorFileError(f"{path}: {key} of {name!r} is {value!r}; a number is needed.", path, name, [key])
    shapes = [shape.strip() for shape in (found.shapes or "").split(",") if shape.strip()]
    _check_arguments(path, name, kind, arguments, shapes)
    if kind in RANGES and {"low", "high"} & set(arguments):
        arguments = _range(name, kind, arguments, path)
    frozen = found(**arguments)
    if not frozen.support()[0] < frozen.support()[1]:
        raise PriorFileError(
            f"{path}: {name!r} cannot be a {kind} with {arguments}; check the signs of its arguments.",
            path,
            name,
            list(arguments),
        )
    return frozen


def _check_arguments(path: Path, name: str, kind: str, arguments: dict[str, float], shapes: list[str]) -> None:
    """Raise unless a distribution has the arguments that it needs, and no other."""
    ends = ["low", "high"] if kind in RANGES else []
    known = [*ends, *shapes, "loc", "scale"]
    takes = f"{kind} takes {'low and high, or ' if ends else ''}{', '.join([*shapes, 'loc'])} and scale."
    unknown = [key for key in arguments if key not in known]
    if unknown:
        meant = difflib.get_close_matches(unknown[0].lower(), known, n=1, cutoff=0.7)
        raise PriorFileError(
            f"{path}: {name!r} has {unknown[0]!r}, which {kind} does not take{_did_you_mean(meant)} {takes}",
            path,
            name,
            unknown[:1],
            meant[0] if meant else None,
        )
    missing = [] if set(ends) & set(arguments) else [shape for shape in shapes if shape not in arguments]
    if missing:
        lacking = missing if set(shapes) & set(arguments) else ends or missing
        words = " and ".join(map(repr, lacking))
        raise PriorFileError(
            f"{path}: {name!r} lacks {words}, without which there is no {kind}. {takes}", path, name, lacking
        )


def _did_you_mean(meant: list[str]) -> str:
    return f"; did you mean {meant[0]!r}?" if meant else "."


def _near(path: Path) -> str:
    """Return what to say after the name of a missing file: the prior that was probably meant, if there is one."""
    beside = sorted(found.stem for found in path.parent.glob("*.toml")) if path.parent.is_dir() else []
    meant = difflib.get_close_matches(path.stem, beside, n=1)
    return _did_you_mean([f"{stem}.toml" for stem in meant])


def _range(name: str, kind: str, arguments: dict[str, float], path: Path) -> dict[str, float]:
    if set(arguments) != {"low", "high"} or not arguments["low"] < arguments["high"]:
        raise PriorFileError(
            f"{path}: {name!r} has {arguments}; give low and high, with low below high.", path, name, ["low", "high"]
        )
    low, high = arguments["low"], arguments["high"]
    return {"loc": low, "scale": high - low} if kind == "uniform" else {"a": low, "b": high}
