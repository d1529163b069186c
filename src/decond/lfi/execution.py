"""Running one call of a simulator: what it returns, or why it failed; in a process of its own if time is limited.

This file is also the program of that process. It imports nothing of decond, so that the process starts quickly.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["LimitedCaller", "Result", "StartError", "call", "described", "in_order", "names_of", "summarized"]

NOT_FINITE = "returned NaN or infinity"
"""The reason of a simulation whose result cannot be used."""

Simulator = Callable[..., Any]


class StartError(RuntimeError):
    """The process for calls with a limit on time could not load the simulator."""


class Result(NamedTuple):
    """What came of one simulation: summaries (s,), raw data if there are any, the reason if it failed, its time.

    `names` are those of the summaries, where they came in a dict or a pandas Series or frame; `raw_names`, those of
    the raw data.
    """

    x: np.ndarray | None
    raw: np.ndarray | None
    reason: str
    seconds: float
    names: tuple[str, ...] | None = None
    raw_names: tuple[str, ...] | None = None


def call(
    simulator: Simulator, summarize: Simulator | None, batched: bool, theta: np.ndarray, rng: np.random.Generator
) -> list[Result]:
    """Call the simulator once, for one row or a batch of rows (b, d); return one result for each row."""
    start = time.perf_counter()
    try:
        output = simulator(theta.copy() if batched else theta[0].copy(), rng)
        outputs = _split(output, len(theta)) if batched else [output]
    except (Exception, SystemExit) as error:
        return [Result(None, None, described(error), (time.perf_counter() - start) / len(theta))] * len(theta)
    of_all = names_of(output, batch=True) if batched else None
    results = [_digested(item, of_all or names_of(item), summarize) for item in outputs]
    seconds = (time.perf_counter() - start) / len(theta)
    return [result._replace(seconds=seconds) for result in results]


def in_order(result: Result, names: Sequence[str] | None, raw_names: Sequence[str] | None = None) -> Result:
    """Return a result with its summaries in the order of `names`, which are those of the first simulation.

    One with as many values under other names has failed, and so has one whose raw data are not in the order of
    `raw_names`: they were summarized by position. Numbers of values are compared elsewhere.

    >>> in_order(Result(np.array([1.0, 2.0]), None, "", 0.1, ("sd", "mean")), ["mean", "sd"]).x
    array([2., 1.])
    """
    if result.raw_names is not None and raw_names is not None and list(result.raw_names) != list(raw_names):
        reason = (
            f"returned raw data {', '.join(result.raw_names)} where the first simulation has {', '.join(raw_names)}, "
            "and summarize gets values without names; return them in one order"
        )
        return result._replace(x=None, raw=None, reason=result.reason or reason)
    found = result.names
    if found is None or names is None or result.x is None or list(found) == list(names) or len(found) != len(names):
        return result
    if sorted(found) != sorted(names):
        reason = f"returned {', '.join(found)} where the first simulation has {', '.join(names)}"
        return result._replace(x=None, reason=result.reason or reason)
    return result._replace(x=result.x[[found.index(name) for name in names]], names=tuple(names))


def summarized(raw: np.ndarray, summarize: Simulator) -> Result:
    """Return the summaries of raw data, or a reason why there are none."""
    try:
        output = summarize(raw.copy())
        return _as_summaries(output, names_of(output))._replace(raw=raw)
    except (Exception, SystemExit) as error:
        return Result(None, raw, f"summarize: {described(error)}", 0.0)


def described(error: BaseException) -> str:
    """Return type and message of an error, on one short line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # an error that cannot even be shown
        text = ""
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__


def _split(output: Any, n: int) -> list[Any]:
    """Return the rows of a batch; a dict has one column of them under each name."""
    if isinstance(output, Mapping):
        return _rows(output, n)
    if hasattr(output, "to_numpy"):  # iterating a pandas frame would give its columns
        output = output.to_numpy()
    rows = len(output) if hasattr(output, "__len__") else 0
    if rows != n:
        raise ValueError(f"returned {rows} rows for a batch of {n}")
    return list(output)


def _rows(columns: Mapping[Any, Any], n: int) -> list[Any]:
    """Return rows from columns by name; a column (n, 1) is one of n values."""
    values = [np.asarray(column) for column in columns.values()]
    for name, column in zip(columns, values, strict=True):
        if column.shape not in ((n,), (n, 1)):
            raise ValueError(
                f"returned a dict whose {name!r} has shape {column.shape}; with batched=True each name needs a "
                "column, one number for each row of theta"
            )
    return list(np.column_stack(values)) if values else [[]] * n


def names_of(output: Any, *, batch: bool = False) -> tuple[str, ...] | None:
    """Return the names of values: keys of a dict, columns of a frame, or the index of a Series unless it is a batch.

    Numbers are names as keys of a dict only: in pandas they count rows.

    >>> names_of({1: 0.5, 0: 2.0}), names_of([0.5, 2.0])
    (('1', '0'), None)
    """
    if isinstance(output, Mapping):
        return tuple(str(name) for name in output) or None
    if not hasattr(output, "to_numpy"):
        return None
    names = list(getattr(output, "columns", [] if batch else getattr(output, "index", [])))
    return tuple(names) if names and all(isinstance(name, str) for name in names) else None


def _digested(output: Any, names: tuple[str, ...] | None, summarize: Simulator | None) -> Result:
    if summarize is None:
        return _as_summaries(output, names)
    raw, reason = _as_numbers(output)
    if raw is None:
        return Result(None, None, reason, 0.0)
    return summarized(raw, summarize)._replace(raw_names=names)


def _as_summaries(output: Any, names: tuple[str, ...] | None) -> Result:
    x, reason = _as_numbers(output)
    if x is not None:
        reason = _unusable(x, names)
    if x is None or reason:
        return Result(None, None, reason, 0.0)
    x = np.atleast_1d(x)
    return Result(x, None, "" if np.isfinite(x).all() else NOT_FINITE, 0.0, names)


def _unusable(x: np.ndarray, names: tuple[str, ...] | None) -> str:
    """Return why numbers are no summaries, or an empty text."""
    if x.ndim > 1:
        return f"returned shape {x.shape}; summaries are flat (give summarize=... for raw data)"
    if x.size == 0:
        return "returned an empty array"
    repeated = names is not None and len(set(names)) < len(names)
    return f"returned {', '.join(names or ())}, where a name stands twice" if repeated else ""


def _as_numbers(output: Any) -> tuple[np.ndarray | None, str]:
    if output is None:
        return None, "returned None"
    try:
        array = np.asarray(list(output.values()) if isinstance(output, Mapping) else output)
        if array.dtype.kind not in "biufO":
            return None, f"returned values of type {array.dtype}; numbers are needed"
        return array.astype(np.float64), ""
    except Exception as error:  # whatever the object does when it is read is one failed simulation
        why = "" if isinstance(error, TypeError | ValueError) else f" ({described(error)})"
        return None, f"returned {type(output).__name__} that is no array of numbers{why}"


# ---- a limit on time -----------------------------------------------------------------------------------------


class LimitedCaller:
    """Calls the simulator in another process, which is ended when a call takes longer than `limit` seconds.

    Ending the process works for code that never comes back to the interpreter, and for programs that the simulator
    started. The process is kept for the next call; a new one replaces it after it was ended, or crashed.

    Args:
        payload: What the process is to run: (simulator, summarize, batched), pickled by value.
        limit: Seconds for one call.
    """

    def __init__(self, payload: bytes, limit: float) -> None:
        self.payload = payload
        self.limit = limit
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._in_use = threading.Lock()
        self._last_use = time.monotonic()
        self._waiting = False
        self._overdue = False

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> list[Result]:
        """Return one result for each row."""
        with self._in_use:
            try:
                return self._call(theta, rng)
            finally:
                self._last_use = time.monotonic()

    def close_if_idle(self, seconds: float) -> bool:
        """End the process if it had no call for so long; return whether it is at an end."""
        if not self._in_use.acquire(blocking=False):
            return False
        try:
            if time.monotonic() - self._last_use >= seconds:
                self.close()
            return self._process is None
        finally:
            self._in_use.release()

    def _call(self, theta: np.ndarray, rng: np.random.Generator) -> list[Result]:
        process = self._process if self._process is not None and self._process.poll() is None else self._start()
        start = time.perf_counter()
        self._waiting, self._overdue = True, False
        timer = threading.Timer(self.limit, self._end_call, args=(process,))
        timer.daemon = True
        timer.start()
        try:
            self._send((theta, rng))
            results = [Result(*parts) for parts in self._receive()]
        except (EOFError, OSError, pickle.UnpicklingError):
            reason = f"took longer than {self.limit:g} s" if self._overdue else _ending(process.wait())
            seconds = (time.perf_counter() - start) / len(theta)
            results = [Result(None, None, reason, seconds)] * len(theta)
        finally:
            with self._lock:
                self._waiting = False
            timer.cancel()
        if self._overdue or process.poll() is not None:
            self.close()
        return results

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        _kill(process)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _start(self) -> subprocess.Popen[bytes]:
        self.close()
        program = f"import runpy; runpy.run_path({os.path.abspath(__file__)!r}, run_name='__main__')"
        self._process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        try:
            self._send((sys.path, self.payload, self.limit))
            problem = self._receive()
        except (EOFError, OSError) as error:
            problem = _ending(self._process.wait()) or described(error)
        if problem:
            self.close()
            raise StartError(
                f"the simulator cannot be run in a process of its own, which timeout needs: {problem}. Define it in "
                "a module that can be imported, or leave timeout out."
            )
        return self._process

    def _send(self, message: Any) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(pickle.dumps(message))
        self._process.stdin.flush()

    def _receive(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        return pickle.load(self._process.stdout)

    def _end_call(self, process: "subprocess.Popen[bytes]") -> None:
        with self._lock:
            if self._waiting:
                self._overdue = True
                _kill(process)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End a process and, where there are sessions, every program that it started."""
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _ending(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


def _serve() -> None:
    """Answer calls from standard input until it closes; what the simulator prints goes to standard error."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    path, payload, limit = pickle.load(requests)
    sys.path[:] = path
    try:
        simulator, summarize, batched = pickle.loads(payload)
    except Exception as error:
        _answer(answers, described(error))
        return
    _answer(answers, "")
    while True:
        try:
            theta, rng = pickle.load(requests)
        except EOFError:
            return
        _set_alarm(limit + 1.0)
        results = call(simulator, summarize, batched, theta, rng)
        _set_alarm(0.0)
        _answer(answers, [tuple(result) for result in results])


def _set_alarm(seconds: float) -> None:
    """End this process if nobody else does: the one that set the limit may have died."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _answer(answers: Any, message: Any) -> None:
    answers.write(pickle.dumps(message))
    answers.flush()


if __name__ == "__main__":
    _serve()
