"""Rivals in processes of their own, perhaps with another Python: started once, warm, and run each time they are told.

Their scripts are in `benchmarks/peers/`, one file a peer; `serving.py` there has the other end of the conversation.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

SCRIPTS = Path(__file__).parent / "peers"
MOST_SECONDS = 30.0
MOST_GIGABYTES = 8.0
"""A peer is not asked for one evaluation that would take more than this."""

NOT_RUN = "not run"
MARK = "answer "
"""What an answer's line starts with."""


class Peer:
    """One script at work on one problem; arrays of the problem go to it as a file, the rest as JSON."""

    def __init__(self, script: str, problem: Mapping[str, Any], interpreter: str = sys.executable) -> None:
        self.script = script
        self.peak = self.grown = 0.0
        self.best: dict[str, float] = {}
        self._folder = tempfile.TemporaryDirectory()
        arrays = Path(self._folder.name) / "problem.npz"
        np.savez(arrays, **{name: value for name, value in problem.items() if isinstance(value, np.ndarray)})
        options = {name: value for name, value in problem.items() if not isinstance(value, np.ndarray)}
        self._errors = (Path(self._folder.name) / "errors").open("w+")
        self._started = time.perf_counter()
        self._process = subprocess.Popen(
            [os.path.abspath(interpreter), str(SCRIPTS / f"{script}.py"), str(arrays), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=self._folder.name,
        )

    def ask(self, command: str = "evaluate") -> dict[str, Any]:
        """Run a command and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(command, file=self._process.stdin, flush=True)
            line = next(line for line in self._process.stdout if line.startswith(MARK))
        except (BrokenPipeError, StopIteration):
            self._errors.seek(0)
            tail = self._errors.read()[-2000:]
            raise RuntimeError(f"{self.script} ended without an answer to {command!r}:\n{tail}") from None
        told = json.loads(line.removeprefix(MARK))
        self.peak, self.grown = told["peak"], told["peak"] - told["before"]
        self.best[command] = min(told["seconds"], self.best.get(command, np.inf))
        self._seconds = told["seconds"]
        answer: dict[str, Any] = told["answer"]
        return answer

    def clock(self, command: str = "evaluate") -> float:
        """Run a command and return the seconds it took, by the peer's own clock."""
        self.ask(command)
        return float(self._seconds)

    def age(self) -> float:
        """Return the seconds since the process was started."""
        return time.perf_counter() - self._started

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            stream.close()
        self._folder.cleanup()


class Costs(NamedTuple):
    """What one evaluation's time and memory are proportional to."""

    operations: float
    entries: float


class Field:
    """The rivals of a benchmark, which leave it at the size that would take them too long or too much memory.

    `scripts` gives each its script; those in `foreign` need the interpreter of the peers and do not run without it.
    """

    def __init__(self, scripts: Mapping[str, str], foreign: set[str], interpreter: str | None) -> None:
        self.scripts, self.foreign, self.interpreter = scripts, foreign, interpreter
        self._rates: dict[str, tuple[float, float]] = {}

    @contextmanager
    def ready(self, problem: Mapping[str, Any], costs: Costs) -> Iterator[tuple[dict[str, Peer], dict[str, str]]]:
        """Start those that can take part at this size; also tell why the others do not."""
        absent = {name: reason for name in self.scripts if (reason := self._reason(name, costs))}
        with ExitStack() as stack:
            peers = {
                name: stack.enter_context(Peer(script, problem, self._python(name)))
                for name, script in self.scripts.items()
                if name not in absent
            }
            yield peers, absent
            for name, peer in peers.items():
                self._rates[name] = (peer.best["evaluate"] / costs.operations, peer.grown / costs.entries)

    def _python(self, name: str) -> str:
        return self.interpreter if name in self.foreign and self.interpreter else sys.executable

    def _reason(self, name: str, costs: Costs) -> str:
        if name in self.foreign and self.interpreter is None:
            return NOT_RUN
        seconds, gigabytes = self._rates.get(name, (0.0, 0.0))
        if seconds * costs.operations > MOST_SECONDS:
            return "too slow"
        return "too large" if gigabytes * costs.entries > MOST_GIGABYTES else ""
