"""A simulator and an observation, as commands name them: module:function, and a table with one row or raw data."""

import difflib
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from decond.errors import ArgumentError
from decond.tables import TableError, read_table
from decond.tables.files import read_rows

__all__ = ["read_observation", "read_raw_data", "simulator_named"]


def simulator_named(name: str, argument: str = "simulator") -> Callable[..., Any]:
    """Return the function that module:function names; an error names the `argument` that says it."""
    module_name, colon, function_name = name.partition(":")
    if not colon or not module_name or not function_name:
        raise ArgumentError(
            argument, f"the {argument} is {name!r}; name it as module:function, for example epidemic:simulate."
        )
    if module_name.endswith(".py"):
        raise ArgumentError(
            argument, f"the {argument} is {name!r}; name the module without .py: {module_name[:-3]}:{function_name}"
        )
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0]:
            raise ArgumentError(argument, f"{module_name} imports {error.name}, which is not installed.") from None
        raise ArgumentError(
            argument,
            f"there is no module {module_name!r} in this folder or among installed packages{_meant(module_name)}",
        ) from None
    except Exception as error:
        raise ArgumentError(argument, f"{module_name} cannot be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, function_name, None)
    if not callable(found):
        functions = ", ".join(sorted(key for key, value in vars(module).items() if callable(value) and key[0] != "_"))
        raise ArgumentError(
            argument, f"{module_name} has no function {function_name!r}. It has: {functions or 'none'}."
        )
    return found


def _meant(module: str) -> str:
    """Return the end of a sentence, which asks for the module of this folder that was probably meant."""
    near = difflib.get_close_matches(module, sorted(path.stem for path in Path.cwd().glob("*.py")), n=1)
    return f"; did you mean {near[0]}?" if near else "."


def read_observation(path: Path) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the values of an observation by name, and notes on how its table was read."""
    table = read_table(path)
    names = [str(name) for name in table.frame.columns]
    rows = table.numbers(names).to_numpy()
    if len(rows) != 1:
        raise TableError(
            f"{path} has {len(rows)} rows; an observation is one row of summaries under a header.",
            table=table.name,
            count=len(rows),
        )
    return dict(zip(names, rows[0].tolist(), strict=True)), table.notes


def read_raw_data(path: Path) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return numbers as rows and columns, or as a list where there is one row or column, and notes on their table."""
    table = read_rows(path)
    table.check_length(1, "an observation")
    rows = table.numbers([str(name) for name in table.frame.columns]).to_numpy()
    return rows.ravel() if 1 in rows.shape else rows, table.notes
