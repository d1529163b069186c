"""A problem to compare methods on: one that comes with decond, by its name, or one in a TOML file."""

import difflib
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from decond.cli.jobs import LEAST
from decond.errors import ArgumentError
from decond.tables import TableError, match_mediators, read_table
from decond.tables.columns import as_name

__all__ = ["BUILT_IN", "Task", "read_task"]

EXAMPLE = """\
[problem]
simulator = "waits:simulate"    # module:function
observed = "observed.csv"       # or [0.59, 0.6]

[prior.rate]
distribution = "gamma"
a = 2.0"""

TABLES_EXAMPLE = """\
[problem]
pairs = "hours.csv"
task = "days.csv"
x = ["wind"]
mediator = ["day"]
target = "power\""""

PRIOR_EXAMPLE = EXAMPLE[EXAMPLE.index("[prior") :]

SIMULATORS = ("exponential_gamma", "gaussian_linear_uniform", "lotka_volterra", "sir", "two_moons")
TABLES = ("latent_function", "wind")
BUILT_IN = (*SIMULATORS, *TABLES)
"""Problems that come with decond."""

WHOLE, SEVERAL, TEXT, TEXTS, NAMES, FLAG, TRUTHS, OBSERVED, RAW = (
    "a whole number of at least 1",
    "how many seeds, or a list of different whole numbers",
    "text",
    "a list of names",
    'a list of names, or "all"',
    "true or false",
    "a table of numbers, such as {rate = 2.0}",
    "a file, or a list of numbers; raw data in rows need summarize, a function that makes summaries",
    "a file, or a list of numbers, or a list of rows of the same length",
)
COMMON = {"methods": NAMES, "seeds": SEVERAL}
OF_SIMULATOR = {
    **COMMON,
    "simulator": TEXT,
    "prior": TEXT,
    "observed": OBSERVED,
    "summarize": TEXT,
    "batched": FLAG,
    "simulations": WHOLE,
    "rounds": WHOLE,
    "reference": TEXT,
    "truth": TRUTHS,
}
OF_RAW_SIMULATOR = {**OF_SIMULATOR, "observed": RAW}
OF_TABLES = {
    **COMMON,
    "pairs": TEXT,
    "task": TEXT,
    "x": TEXTS,
    "mediator": TEXTS,
    "target": TEXT,
    "labels": FLAG,
    "truth": TEXT,
    "folds": WHOLE,
}
OF_BUILT_IN_SIMULATOR = {**COMMON, "problem": TEXT, "simulations": WHOLE, "rounds": WHOLE}
OF_BUILT_IN_TABLES = {**COMMON, "problem": TEXT, "folds": WHOLE}
"""What each kind of problem may say, and of what kind it is."""


@dataclass(frozen=True)
class Task:
    """What is compared on what: the arguments of `lfi.compare`, or of `estimators.compare`."""

    name: str
    tables: bool
    arguments: dict[str, Any]
    read: list[Path] = field(default_factory=list)
    """Files that nothing may be written onto."""
    notes: list[str] = field(default_factory=list)

    def with_options(self, methods: list[str] | None, simulations: int | None, seeds: int | None) -> "Task":
        """Return the task with what was given on the command line in place of what the file says."""
        if self.tables and simulations is not None:
            raise ArgumentError("--simulations", "--simulations has no meaning for two tables; leave it out.")
        given = {"models" if self.tables else "methods": methods, "n_simulations": simulations, "seeds": seeds}
        changed = {name: value for name, value in given.items() if value is not None}
        task = Task(self.name, self.tables, {**self.arguments, **changed}, self.read, self.notes)
        task._check_methods()
        return task

    def run(self) -> Any:
        """Compare."""
        if self.tables:
            from decond.estimators.model_comparison import compare as compare_models

            return compare_models(**self.arguments)
        from decond.lfi import compare

        return compare(**self.arguments)

    def _check_methods(self) -> None:
        """Raise if a method has a name that nobody knows."""
        if self.tables:
            from decond.estimators.model_comparison import chosen_models

            chosen_models(self.arguments.get("models", "all"))
        else:
            from decond.lfi.compared import chosen_methods

            chosen_methods(self.arguments.get("methods", "all"))


def read_task(problem: str) -> Task:
    """Return a problem by its name, or from a TOML file; everything that it names is read and checked."""
    if problem in BUILT_IN:
        return _built_in(problem, {})
    path = Path(problem)
    if not path.is_file():
        raise FileNotFoundError(_nothing_there(problem, path))
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ArgumentError(
            "PROBLEM", f"{path} is not valid TOML: {error}. A problem looks like:\n{EXAMPLE}"
        ) from None
    return _Reader(path, *_settings(path, document)).task()


def _nothing_there(problem: str, path: Path) -> str:
    what = f"{path} is a folder" if path.is_dir() else f"there is no problem or file {problem!r}"
    beside = [str(found) for found in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    near = difflib.get_close_matches(problem, [*BUILT_IN, *beside], 1)
    hint = f"; did you mean {near[0]}?" if near else "."
    return f"{what}{hint} Give one of {', '.join(BUILT_IN)}, or a TOML file such as:\n{EXAMPLE}"


def _settings(path: Path, document: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return what a problem says, and its prior where that stands in tables of the file."""
    rest = dict(document)
    problem, prior = rest.pop("problem", None), rest.pop("prior", None)
    if isinstance(problem, str):
        return {"problem": problem, **rest, **({} if prior is None else {"prior": prior})}, None
    if not isinstance(problem, dict):
        raise ArgumentError("problem", f"{path} has no table [problem]. A problem looks like:\n{EXAMPLE}")
    if rest:
        key = next(iter(rest))
        raise ArgumentError(
            key,
            f"{path} has {key!r} outside of [problem]; put it below that line. Beside [problem] there is only "
            "[prior.NAME], one for each parameter.",
        )
    return problem, prior


@dataclass(frozen=True)
class _Reader:
    """Reads what the settings of a file name, relative to the folder of the file."""

    path: Path
    settings: dict[str, Any]
    prior: Any

    def task(self) -> Task:
        if "problem" in self.settings:
            name = self.settings["problem"]
            _check_name(name, f"{self.path}: ")
            self._check(OF_BUILT_IN_TABLES if name in TABLES else OF_BUILT_IN_SIMULATOR, (), "")
            return _built_in(name, self._options())
        if "pairs" in self.settings or "task" in self.settings:
            self._check(OF_TABLES, ("pairs", "task", "x", "mediator", "target"), TABLES_EXAMPLE)
            return self._of_tables()
        known = OF_RAW_SIMULATOR if "summarize" in self.settings else OF_SIMULATOR
        self._check(known, ("simulator", "observed"), EXAMPLE)
        return self._of_simulator()

    def _check(self, known: Mapping[str, str], needed: tuple[str, ...], example: str) -> None:
        """Raise unless every key is known and of its kind, and none is missing."""
        for key, value in self.settings.items():
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else "."
                raise ArgumentError(
                    key, f"{self.path} has an unknown key {key!r}{hint} Known are {', '.join(known)}."
                )
            if not _fits(value, known[key]):
                raise ArgumentError(key, f"{self.path}: {key} is {value!r}; give {known[key]}.")
        missing = [key for key in needed if key not in self.settings]
        if missing:
            raise ArgumentError(
                missing[0], f"{self.path} lacks {missing[0]!r} below [problem]. A problem looks like:\n{example}"
            )

    def _options(self) -> dict[str, Any]:
        """Return the settings that arguments of `compare` are called by."""
        words = {"simulations": "n_simulations"}
        passed = ("methods", "seeds", "simulations", "rounds", "batched", "folds")
        return {words.get(key, key): self.settings[key] for key in passed if key in self.settings}

    def _file(self, key: str) -> Path:
        return self.path.parent / str(self.settings[key])

    def _of_simulator(self) -> Task:
        from decond.cli.simulators import read_observation, read_raw_data, simulator_named

        folder = str(self.path.parent.resolve())
        if folder not in sys.path:
            sys.path.insert(0, folder)
        prior, read = self._prior()
        notes: tuple[str, ...] = ()
        arguments = {**self._options(), "simulator": simulator_named(self.settings["simulator"]), "prior": prior}
        if "summarize" in self.settings:
            arguments["summarize"] = simulator_named(self.settings["summarize"], "summarize")
        observed = self.settings["observed"]
        if isinstance(observed, str):
            read = [*read, self._file("observed")]
            observed, notes = (read_raw_data if "summarize" in self.settings else read_observation)(read[-1])
        if "reference" in self.settings:
            read = [*read, self._file("reference")]
            arguments["reference"] = read_table(read[-1]).numbers(list(prior.names)).to_numpy()
        if "truth" in self.settings:
            arguments["true_parameters"] = self._true_parameters(prior.names)
        return Task(self.path.stem, False, {**arguments, "observed": observed}, [self.path, *read], list(notes))

    def _prior(self) -> tuple[Any, list[Path]]:
        from decond.lfi.prior_file import prior_of, read_prior

        if "prior" in self.settings and self.prior is not None:
            raise ArgumentError(
                "prior", f"{self.path} has a prior as a file and as tables [prior.NAME]; leave one of them out."
            )
        if "prior" in self.settings:
            return read_prior(self._file("prior")), [self._file("prior")]
        if not isinstance(self.prior, dict) or not self.prior:
            raise ArgumentError(
                "prior", f"{self.path} has no prior. Give tables [prior.NAME], or prior = FILE:\n{EXAMPLE}"
            )
        odd = [name for name, table in self.prior.items() if not isinstance(table, dict)]
        if odd:
            raise ArgumentError(
                f"prior.{odd[0]}",
                f"{self.path}: {odd[0]!r} in [prior] is not a table. Give each parameter one, [prior.NAME], "
                f"such as:\n{PRIOR_EXAMPLE}",
            )
        return prior_of(self.prior, self.path), []

    def _true_parameters(self, names: tuple[str, ...]) -> list[float]:
        truth = self.settings["truth"]
        if set(truth) != set(names):
            raise ArgumentError(
                "truth",
                f"{self.path}: truth is of {', '.join(truth) or 'nothing'}, but the parameters are called "
                f"{', '.join(names)}. Give a number for each of them.",
            )
        return [float(truth[name]) for name in names]

    def _of_tables(self) -> Task:
        x, mediator = ([as_name(name) for name in self.settings[key]] for key in ("x", "mediator"))
        target = as_name(self.settings["target"])
        files = [self._file("pairs"), self._file("task")]
        pairs, task = (read_table(path) for path in files)
        pairs.check_columns([*x, *mediator], task)
        task.check_columns([*mediator, target], pairs)
        for table in (pairs, task):
            table.check_length(LEAST, "a comparison")
        labels = self.settings.get("labels", False)
        found = match_mediators(pairs, task, mediator, labels, f"labels = true in {self.path}")
        notes = [*pairs.notes, *task.notes, *found.notes]
        options = self._options()
        if "methods" in options:
            options["models"] = options.pop("methods")
        arguments = {
            **options,
            "x": pairs.numbers(x)[found.used].reset_index(drop=True),
            "y": found.y[found.used].reset_index(drop=True),
            "y_task": found.y_task[found.used_task].reset_index(drop=True),
            "z_task": task.numbers([target])[target].to_numpy()[found.used_task],
        }
        if "truth" in self.settings:
            files.append(self._file("truth"))
            arguments["truth"] = _truth(files[-1], x, target)
        return Task(self.path.stem, True, arguments, [self.path, *files], notes)


def _truth(path: Path, x: list[str], target: str) -> tuple[Any, Any]:
    """Return rows of x and the true value of the function there."""
    table = read_table(path)
    try:
        table.check_columns([*x, target])
    except TableError as error:
        message = f"{error} The truth is a table with the columns of x and with {target!r}."
        raise TableError(message, table=error.table, column=error.column) from None
    table.check_length(1, "the truth")
    return table.numbers(x), table.numbers([target])[target].to_numpy()


def _fits(value: Any, kind: str) -> bool:
    """Tell whether a value of a TOML file is of a kind."""
    whole = isinstance(value, int) and _is_number(value)
    texts = isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)
    numbers = isinstance(value, list) and bool(value) and all(map(_is_number, value))
    fits: dict[str, Callable[[], bool]] = {
        WHOLE: lambda: whole and value >= 1,
        SEVERAL: lambda: (whole and value >= 1) or (numbers and all(isinstance(item, int) for item in value)),
        TEXT: lambda: isinstance(value, str),
        TEXTS: lambda: texts,
        NAMES: lambda: texts or value == "all",
        FLAG: lambda: isinstance(value, bool),
        TRUTHS: lambda: isinstance(value, dict) and all(map(_is_number, value.values())),
        OBSERVED: lambda: isinstance(value, str) or numbers,
        RAW: lambda: isinstance(value, str) or _is_array(value),
    }
    return fits[kind]()


def _is_array(value: Any) -> bool:
    """Tell whether a value is a list of numbers, or of such lists that have the same lengths."""
    if not isinstance(value, list) or not value:
        return False
    return all(map(_is_number, value)) or (all(map(_is_array, value)) and len(set(map(np.shape, value))) == 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# ---- what comes with decond ----------------------------------------------------------------------------------


def _check_name(name: Any, source: str) -> None:
    """Raise if no problem has this name."""
    if name not in BUILT_IN:
        near = difflib.get_close_matches(str(name), BUILT_IN, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ArgumentError(
            "problem", f"{source}there is no problem {name!r}{hint} Choose from {', '.join(BUILT_IN)}."
        )


def _built_in(name: str, options: dict[str, Any]) -> Task:
    if name in SIMULATORS:
        from decond import problems

        return Task(name, False, {**options, "simulator": getattr(problems, name)()})
    if "methods" in options:
        options["models"] = options.pop("methods")
    return Task(name, True, {**options, **(_wind() if name == "wind" else _latent_function())})


def _latent_function() -> dict[str, Any]:
    """Return the paper's toy; its function is looked at between -6 and 6, also where there are no pairs."""
    from decond.problems import latent_function

    p, grid = latent_function(), np.linspace(-6.0, 6.0, 241)[:, None]
    return {"x": p.x, "y": p.y, "y_task": p.y_task, "z_task": p.z_task, "truth": (grid, p.f(grid)[:, 0])}


def _wind() -> dict[str, Any]:
    """Return the tables of the demo: wind speeds of days, the mean power of each day, and the hidden power curve."""
    from decond.cli.demo import turbine

    given = turbine()
    return {
        "x": given.hours[["wind"]],
        "y": given.hours[["day"]].astype(str),
        "y_task": given.days[["day"]].astype(str),
        "z_task": given.days["power"].to_numpy(),
        "truth": given.curve(),
    }
