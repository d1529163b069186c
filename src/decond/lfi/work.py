"""Work that travels: the simulator in worker processes and threads, wherever joblib puts them."""

import contextlib
import functools
import inspect
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import joblib
import numpy as np

from decond.lfi.draws import generator
from decond.lfi.exceptions import TransferError
from decond.lfi.execution import LimitedCaller, Result, StartError, call

__all__ = ["CRASHED", "Task", "Work", "packed", "unsendable"]

_ROW, _BATCH = 1, 2

IDLE = 3.0
"""Seconds without a call after which the process for calls with a limit is ended."""

CRASHED = (
    "the simulator crashed, or there was not enough memory. A store keeps what had finished. With timeout=... "
    "simulations run in processes of their own, and a crash is one failed row."
)
"""What is said when worker processes die."""

Simulator = Callable[..., Any]
Task = tuple[list[int], np.ndarray]
"""Rows, and their parameters (b, d): what runs in one piece."""


class Work:
    """What a worker needs to run rows. The simulator is pickled by value, once, when a worker is another process."""

    def __init__(
        self,
        simulator: Simulator,
        summarize: Simulator | None,
        batched: bool,
        limit: float | None,
        entropy: int,
        label: str,
    ) -> None:
        self.functions = (simulator, summarize, batched)
        self.limit = limit
        self.entropy = entropy
        self.label = label
        self.token = uuid.uuid4().hex
        self._payload: bytes | None = None

    def __call__(self, rows: list[int], theta: np.ndarray) -> tuple[list[int], list[Result]]:
        """Run rows: one, or a batch, and the rows of a batch one by one if it fails as a whole."""
        purpose = _BATCH if self.functions[2] else _ROW
        results = self._call(theta, generator(self.entropy, purpose, self.label, rows[0]))
        if len(rows) > 1 and all(result.x is None for result in results):
            single = (generator(self.entropy, _ROW, self.label, row) for row in rows)
            results = [self._call(theta[i : i + 1], rng)[0] for i, rng in enumerate(single)]
        return rows, results

    def close(self) -> None:
        """End the processes for calls with a limit that were started here; idle ones elsewhere end by themselves."""
        _CALLERS.close(self.token)

    def payload(self) -> bytes:
        """Return the functions, pickled."""
        if self._payload is None:
            self._payload = packed(*self.functions)
        return self._payload

    def _call(self, theta: np.ndarray, rng: np.random.Generator) -> list[Result]:
        if self.limit is None:
            return call(*self.functions, theta, rng)
        try:
            return _CALLERS.get(self.token, self.payload, self.limit)(theta, rng)
        except StartError as error:
            raise TransferError(str(error)) from error

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "functions": None, "_payload": self.payload()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.functions = _unpickled(self.token, state["_payload"])


def packed(simulator: Simulator, summarize: Simulator | None, batched: bool) -> bytes:
    """Return a simulator, pickled by value, as another process takes it; raise with the part that cannot be sent."""
    try:
        return _pickled((simulator, summarize, batched))
    except Exception as error:
        raise unsendable(error, *_culprit(simulator, summarize)) from error


def unsendable(error: Exception, function: str = "simulator", parts: Sequence[str] = ()) -> TransferError:
    """Return the error for a function that cannot be pickled, and what it holds that is to blame."""
    name = "the simulator" if function == "simulator" else function
    holds = f" (it holds {' and '.join(map(repr, parts[:3]))})" if parts else ""
    return TransferError(
        f"{name} cannot be sent to another process: {error}{holds}. Let it open files and connections itself, when "
        "it is called; or use n_jobs=1 without timeout and without a cluster.",
        function=function,
        parts=parts,
    )


def _pickled(value: Any) -> bytes:
    return pickle.dumps(joblib.wrap_non_picklable_objects(value, keep_wrapper=False))


def _culprit(simulator: Simulator, summarize: Simulator | None) -> tuple[str, list[str]]:
    """Return which function cannot be sent, and the names of what it holds that is to blame, where that is found."""
    name, function = ("summarize", summarize) if _travels(simulator) else ("simulator", simulator)
    with contextlib.suppress(Exception):  # this is only a help
        return name, [part for part, value in _parts(function) if not _travels(value)]
    return name, []


def _travels(value: Any) -> bool:
    try:
        _pickled(value)
    except Exception:
        return False
    return True


def _parts(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a function holds, by name: variables around it, arguments of a partial, attributes."""
    if isinstance(function, functools.partial):
        yield from ((f"argument {i + 1}", value) for i, value in enumerate(function.args))
        yield from function.keywords.items()
        yield from _parts(function.func)
    if inspect.ismethod(function):
        yield from _parts(function.__self__)
        return
    if inspect.isfunction(function):
        found = inspect.getclosurevars(function)
        yield from (*found.nonlocals.items(), *found.globals.items())
    elif hasattr(function, "__dict__"):
        yield from vars(function).items()


_unpickled_last: tuple[str, Any] = ("", None)
"""The run that this worker process belongs to, and its functions."""


def _unpickled(token: str, payload: bytes) -> Any:
    """Return the functions of a run, unpickled once in each process."""
    global _unpickled_last
    last, functions = _unpickled_last
    if last != token:
        functions = pickle.loads(payload)
        _unpickled_last = (token, functions)
    return functions


class _Callers:
    """The processes for calls with a limit: one for each thread of each run, ended when there is no more to do.

    A worker of joblib outlives the run, and nobody tells it that the run is over: what is idle ends after a while.
    """

    def __init__(self) -> None:
        self._callers: dict[tuple[str, int], LimitedCaller] = {}
        self._lock = threading.Lock()
        self._watched = False

    def get(self, token: str, payload: Callable[[], bytes], limit: float) -> LimitedCaller:
        """Return the caller of this thread, and end what this thread has left over from another run."""
        thread = threading.get_ident()
        with self._lock:
            for key in [key for key in self._callers if key[1] == thread and key[0] != token]:
                self._callers.pop(key).close()
            if (token, thread) not in self._callers:
                self._callers[token, thread] = LimitedCaller(payload(), limit)
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._watch, daemon=True).start()
            return self._callers[token, thread]

    def close(self, token: str) -> None:
        """End the processes of a run."""
        with self._lock:
            for key in [key for key in self._callers if key[0] == token]:
                self._callers.pop(key).close()

    def _watch(self) -> None:
        """End what is idle, until nothing is left."""
        while True:
            time.sleep(IDLE / 4.0)
            with self._lock:
                idle = [key for key, caller in self._callers.items() if caller.close_if_idle(IDLE)]
                for key in idle:
                    del self._callers[key]
                if not self._callers:
                    self._watched = False
                    return


_CALLERS = _Callers()
