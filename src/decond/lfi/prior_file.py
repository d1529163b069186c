"""A prior in a TOML file: one table for each parameter."""

import tomllib
from pathlib import Path
from typing import Any

from decond.lfi.prior import Prior

__all__ = ["read_prior"]

EXAMPLE = '[rate]\ndistribution = "gamma"\na = 2.0\nscale = 1.0'
RANGES = ("uniform", "loguniform")


def read_prior(path: Any) -> Prior:
    """Return the prior in a TOML file.

    Each table is a parameter: its `distribution` by the name that scipy.stats gives it, and that distribution's
    arguments. "uniform" and "loguniform" take `low` and `high`.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "prior.toml"
    >>> _ = path.write_text(EXAMPLE)
    >>> read_prior(path)
    Prior(rate in [0, inf])
    """
    path = Path(path)
    if not path.is_file():
        found = f"{path} is a folder" if path.is_dir() else f"there is no file {path}"
        raise FileNotFoundError(f"{found}. A prior is a TOML file such as:\n{EXAMPLE}")
    try:
        tables = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}. A prior looks like:\n{EXAMPLE}") from None
    return Prior({name: _distribution(name, table, path) for name, table in tables.items()})


def _distribution(name: str, table: Any, path: Path) -> Any:
    from scipy import stats

    if not isinstance(table, dict) or not isinstance(table.get("distribution"), str):
        raise ValueError(f"{path}: parameter {name!r} has no distribution. Write it as a table, such as:\n{EXAMPLE}")
    arguments = {key: value for key, value in table.items() if key != "distribution"}
    kind = table["distribution"]
    found = getattr(stats, kind, None)
    if not isinstance(found, stats.rv_continuous):
        raise ValueError(
            f"{path}: {kind!r}, the distribution of {name!r}, is not a continuous distribution of scipy.stats. "
            "Examples: norm, uniform, gamma, beta, lognorm, loguniform."
        )
    for key, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{path}: {key} of {name!r} is {value!r}; a number is needed.")
    if kind in RANGES and {"low", "high"} & set(arguments):
        arguments = _range(name, kind, arguments, path)
    try:
        frozen = found(**arguments)
    except TypeError as error:
        raise ValueError(f"{path}: {name!r} cannot be a {kind} with {arguments}: {error}") from None
    if not frozen.support()[0] < frozen.support()[1]:
        raise ValueError(f"{path}: {name!r} cannot be a {kind} with {arguments}; check the signs of its arguments.")
    return frozen


def _range(name: str, kind: str, arguments: dict[str, float], path: Path) -> dict[str, float]:
    if set(arguments) != {"low", "high"} or not arguments["low"] < arguments["high"]:
        raise ValueError(f"{path}: {name!r} has {arguments}; give low and high, with low below high.")
    low, high = arguments["low"], arguments["high"]
    return {"loc": low, "scale": high - low} if kind == "uniform" else {"a": low, "b": high}
