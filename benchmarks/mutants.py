"""Mutation check: does a theorem or contract test notice when the source says something else than the paper?

    python -m benchmarks mutants

Each mutant of `mutant_list` is the source with one edit. The tests that it names run on it until the first failure. A
mutant that survives is a statement that no test proves: write that test, against an oracle.
"""

import gc
import importlib
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.mutant_list import MUTANTS, Mutant

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "decond"
LIBRARIES = (
    "decond.estimators",
    "decond.lfi",
    "hypothesis",
    "pandas",
    "pytest",
    "sklearn.utils.estimator_checks",
)
OPTIONS = ("-x", "-q", "-n", "0", "--assert=plain", "-p", "no:cacheprovider")


class Verdict(NamedTuple):
    """What pytest returned, the first test that failed, and the first line of its error."""

    code: int
    test: str | None
    error: str | None

    @property
    def killed(self) -> bool:
        """Whether a test failed; a mutant that cannot be imported or collected is not killed."""
        return self.code == 1 and self.test is not None


class FirstFailure:
    """A plugin of pytest that keeps the name of the first test that fails, and its error."""

    test: str | None = None
    error: str | None = None

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Look at the result of a test."""
        if report.failed and self.test is None:
            self.test = report.nodeid
            self.error = report.longreprtext.partition("\nE ")[2].partition("\n")[0].strip()


class MutantFinder:
    """Import the mutated file from its edited text, and everything else as usual."""

    def __init__(self, mutant: Mutant) -> None:
        self.path = str(SOURCE / mutant.file)
        text = Path(self.path).read_text(encoding="utf-8").replace(mutant.before, mutant.after)
        self.code = compile(text, self.path, "exec", dont_inherit=True)
        self.imported = False

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Find a module of decond; leave other modules to the finders behind."""
        if name.partition(".")[0] != "decond":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin == self.path:
            spec.loader = _Loader(name, self)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, name: str, finder: MutantFinder) -> None:
        super().__init__(name, finder.path)
        self.finder = finder

    def get_code(self, fullname: str) -> Any:
        self.finder.imported = True
        return self.finder.code


def run() -> dict[str, Any]:
    """Run the tests on every mutant, as many at once as there are cores, and return which survive."""
    check_anchors(MUTANTS)
    began = time.perf_counter()
    _import_libraries()
    processor = _processor_seconds()
    tests = sorted({name for mutant in MUTANTS for name in mutant.tests.split()})
    with get_context("fork").Pool(os.cpu_count(), maxtasksperchild=1) as pool:
        unchanged = pool.apply_async(_judge, (None, tests))
        verdicts = pool.starmap(_judge, [(mutant, mutant.tests.split()) for mutant in MUTANTS], chunksize=1)
        if unchanged.get().code != 0:
            raise RuntimeError(
                f"The tests fail without any mutation, first {unchanged.get().test}: repair them first."
            )
    results = list(zip(MUTANTS, verdicts, strict=True))
    survivors = [
        {"file": mutant.file, "before": mutant.before, "after": mutant.after, "pytest returned": verdict.code}
        for mutant, verdict in results
        if not verdict.killed
    ]
    kills = [{"file": m.file, "before": m.before, "test": v.test, "error": v.error} for m, v in results if v.killed]
    return {
        "benchmark": "mutants of the source, and the tests that notice",
        "killed": kills,
        "survivors": survivors or 0,
        "mutants": len(MUTANTS),
        "seconds": time.perf_counter() - began,
        "processor seconds": _processor_seconds() - processor,
    }


def check_anchors(mutants: Sequence[Mutant]) -> None:
    """Raise unless every mutant can be made, naming all that cannot: code that moved needs a new anchor."""
    seen = Counter((mutant.file, mutant.before, mutant.after) for mutant in mutants)
    wrong = [f"{file}: {before!r} -> {after!r} is listed twice" for (file, before, after), n in seen.items() if n > 1]
    for mutant in mutants:
        path = SOURCE / mutant.file
        count = path.read_text(encoding="utf-8").count(mutant.before) if path.exists() else 0
        if count != 1:
            wrong.append(f"{mutant.file}: {mutant.before!r} occurs {count} times, not once")
        wrong += [
            f"{mutant.file}: {name} does not exist" for name in mutant.tests.split() if not (ROOT / name).exists()
        ]
    if wrong:
        raise ValueError("mutant_list.py does not fit the code:\n" + "\n".join(wrong))


def _processor_seconds() -> float:
    """Return what this process and those that it has waited for took, which does not depend on the machine's load."""
    return sum(os.times()[:4])


def _import_libraries() -> None:
    """Import what decond and its tests import before forking, instead of once for each mutant."""
    sys.path.insert(0, str(ROOT / "src"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in LIBRARIES:
            importlib.import_module(name)
    gc.freeze()  # what is there now is garbage in none of the processes


def _judge(mutant: Mutant | None, tests: list[str]) -> Verdict:
    """Run tests on a mutant, or on the source as it is, in a process of its own."""
    import pytest
    from threadpoolctl import threadpool_limits

    os.chdir(ROOT)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    for name in [name for name in sys.modules if name.partition(".")[0] == "decond"]:
        del sys.modules[name]
    finder = None if mutant is None else MutantFinder(mutant)
    if finder is not None:
        sys.meta_path.insert(0, finder)
    watch = FirstFailure()
    with threadpool_limits(1):
        code = int(pytest.main([*OPTIONS, *tests], plugins=[watch]))
    if finder is not None and not finder.imported:
        raise RuntimeError(f"{finder.path} is imported by none of {', '.join(tests)}: name other tests.")
    return Verdict(code, watch.test, watch.error)
