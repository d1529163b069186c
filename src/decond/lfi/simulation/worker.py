"""One call of a simulator: what it returns, or why it failed; in a process of its own where time is limited.

This file is also the program of that process. It imports nothing of decond, so that the process starts quickly.
"""

import contextlib
import functools
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BATCH_SIZE",
    "Functions",
    "Result",
    "Simulator",
    "StartError",
    "WorkerProcess",
    "call",
    "companion",
    "describe",
    "generator",
    "in_order",
    "names_of",
    "summarized",
]

BATCH_SIZE = 100
"""Parameters are drawn, and batches are run, this many at a time: a row does not depend on how many follow."""

CONTROLS = dict.fromkeys([*range(9), *range(14, 32), *range(127, 160)])
"""Characters that a terminal obeys, without spaces and line feeds: they are left out of reasons."""

NOT_FINITE = "returned NaN or infinity"

Simulator = Callable[..., Any]
Functions = tuple[Simulator, Simulator | None, bool]
"""What runs: the simulator, `summarize` or None, and whether the simulator takes batches."""


class StartError(RuntimeError):
    """The process for calls with a limit on time could not load the simulator."""


class _UnusableError(ValueError):
    """What a simulator returned cannot be used; the message is the reason of the failed row."""


class Result(NamedTuple):
    """What came of one simulation: summaries (s,), raw data if there are any, the reason if it failed, its time.

    `names` are those of the summaries, where they came in a dict or a pandas Series or frame.
    """

    x: NDArray[np.float64] | None
    raw: NDArray[np.float64] | None = None
    reason: str = ""
    seconds: float = 0.0
    names: tuple[str, ...] | None = None


def generator(seed: int, purpose: int, label: str, number: int) -> np.random.Generator:
    """Return the generator of one purpose, round and number: independent of all others, and always the same.

    Parameters
    ----------
    seed : int
        The seed that the user gave.
    purpose : int
        0 for parameters, 1 for a row, 2 for a batch.
    label : str
        The round.
    number : int
        The row, or the first row of a batch.
    """
    key = (purpose, zlib.crc32(label.encode()), number)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def call(functions: Functions, theta: NDArray[np.float64], rng: np.random.Generator) -> list[Result]:
    """Call the simulator once and return one result for each row.

    Parameters
    ----------
    functions : tuple
        The simulator, `summarize` or None, and whether the simulator takes batches.
    theta : ndarray of shape (b, d)
        One row of parameters, or a batch.
    rng : numpy.random.Generator
        The generator of this call.
    """
    simulator, summarize, batched = functions
    start = time.perf_counter()
    try:
        output = simulator(theta.copy() if batched else theta[0].copy(), rng)
        outputs = _split(output, len(theta)) if batched else [output]
        common = names_of(output, batch=True) if batched else None
        results = [_result(item, common or names_of(item), summarize) for item in outputs]
    except (Exception, SystemExit) as error:
        results = [Result(None, reason=describe(error))] * len(theta)
    seconds = (time.perf_counter() - start) / len(theta)
    return [result._replace(seconds=seconds) for result in results]


def in_order(result: Result, names: Sequence[str] | None) -> Result:
    """Return a result with its summaries in the order of `names`, which are those of the first simulation.

    One with as many values under other names has failed.

    Parameters
    ----------
    result : Result
        What a call returned.
    names : sequence of str, optional
        The names of so many summaries in the first simulation.

    Examples
    --------
    >>> in_order(Result(np.array([1.0, 2.0]), names=("sd", "mean")), ["mean", "sd"]).x
    array([2., 1.])
    """
    found = result.names
    if found is None or names is None or result.x is None or list(found) == list(names):
        return result
    if sorted(found) != sorted(names):
        reason = f"returned {', '.join(found)} where the first simulation has {', '.join(names)}"
        return result._replace(x=None, reason=result.reason or reason)
    return result._replace(x=result.x[[found.index(name) for name in names]], names=tuple(names))


def summarized(raw: NDArray[np.float64], summarize: Simulator) -> Result:
    """Return the summaries of raw data, or a reason why there are none.

    Parameters
    ----------
    raw : ndarray
        The raw data of one simulation, of any shape.
    summarize : callable
        Turns them into summaries (s,).
    """
    try:
        output = summarize(raw.copy())
        return _summaries(_numbers(output), names_of(output))._replace(raw=raw)
    except _UnusableError as error:
        return Result(None, raw, str(error))
    except (Exception, SystemExit) as error:
        return Result(None, raw, f"summarize: {describe(error)}")


def describe(error: BaseException) -> str:
    """Return type and message of an error, on one short line."""
    try:
        text = " ".join(str(error).translate(CONTROLS).split())
    except Exception:  # an error that cannot even be shown
        text = ""
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__


def names_of(output: object, *, batch: bool = False) -> tuple[str, ...] | None:
    """Return the names of values: keys of a dict, columns of a frame, or the index of a Series unless it is a batch.

    Numbers are names as keys of a dict only: in pandas they count rows.

    Parameters
    ----------
    output : object
        What a simulator or `summarize` returned.
    batch : bool
        Whether it holds one row for each simulation of a batch.

    Examples
    --------
    >>> names_of({1: 0.5, 0: 2.0}), names_of([0.5, 2.0])
    (('1', '0'), None)
    """
    if isinstance(output, Mapping):
        return tuple(str(name) for name in output) or None
    if not hasattr(output, "to_numpy"):
        return None
    names = list(getattr(output, "columns", [] if batch else getattr(output, "index", [])))
    return tuple(names) if names and all(isinstance(name, str) for name in names) else None


def _split(output: Any, n: int) -> list[Any]:
    """Return the rows of a batch; a dict has one column of them under each name."""
    if isinstance(output, Mapping):
        columns = [np.asarray(column) for column in output.values()]
        for name, column in zip(output, columns, strict=True):
            if column.shape not in ((n,), (n, 1)):
                raise ValueError(
                    f"returned a dict whose {name!r} has shape {column.shape}; of a batch each name needs a column, "
                    "one number for each row of theta"
                )
        return list(np.column_stack(columns)) if columns else [[]] * n
    if hasattr(output, "to_numpy"):  # iterating a pandas frame would give its columns
        output = output.to_numpy()
    rows = len(output) if hasattr(output, "__len__") else 0
    if rows != n:
        raise ValueError(f"returned {rows} rows for a batch of {n}")
    return list(output)


def _result(output: object, names: tuple[str, ...] | None, summarize: Simulator | None) -> Result:
    try:
        numbers = _numbers(output)
        if summarize is None:
            return _summaries(numbers, names)
        if names is not None:
            raise _UnusableError(f"returned raw data with names ({', '.join(names)}), and summarize gets values only")
    except _UnusableError as error:
        return Result(None, reason=str(error))
    return summarized(numbers, summarize)


def _summaries(x: NDArray[np.float64], names: tuple[str, ...] | None) -> Result:
    if x.ndim > 1:
        raise _UnusableError(f"returned shape {x.shape}; summaries are flat (give summarize=... for raw data)")
    if x.size == 0:
        raise _UnusableError("returned an empty array")
    if names is not None and len(set(names)) < len(names):
        raise _UnusableError(f"returned {', '.join(names)}, where a name stands twice")
    return Result(np.atleast_1d(x), None, "" if np.isfinite(x).all() else NOT_FINITE, names=names)


def _numbers(output: object) -> NDArray[np.float64]:
    if output is None:
        raise _UnusableError("returned None")
    if np.ma.is_masked(output):  # what stands under the mask is no result
        raise _UnusableError("returned masked values")
    try:
        array = np.asarray(list(output.values()) if isinstance(output, Mapping) else output)
        if array.dtype.kind in "biufO":
            return array.astype(np.float64)
    except Exception as error:  # whatever the object does when it is read is one failed simulation
        why = "" if isinstance(error, TypeError | ValueError) else f" ({describe(error)})"
        raise _UnusableError(f"returned {type(output).__name__} that is no array of numbers{why}") from None
    raise _UnusableError(f"returned values of type {array.dtype}; numbers are needed")


# ---- processes -----------------------------------------------------------------------------------------------


@functools.cache
def companion() -> Callable[[int], None]:
    """Return what ends its process, and what that leads, soon after the parent that started it has died.

    A parent that is killed can tell nobody. Its child then belongs to another process. It is a local function, which
    is sent by value: a worker watches before it imports decond, which takes a while on a busy machine.
    """

    def end_with(parent: int) -> None:
        import os
        import signal
        import threading
        import time

        def watch() -> None:
            while os.getppid() == parent:
                time.sleep(0.5)  # seconds
            if os.getpgrp() == os.getpid():
                os.killpg(os.getpid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

        if os.name == "posix":
            threading.Thread(target=watch, daemon=True).start()

    return end_with


@dataclass(frozen=True)
class WorkerSettings:
    """When a worker process ends by itself."""

    idle: float = 3.0
    """Seconds without a call; workers of joblib are not told when a run is over. A start takes a tenth of that."""

    grace: float = 1.0
    """Seconds beyond the limit on time after which a call ends itself, since its caller must be dead."""

    attempts: int = 3
    """How often a call is sent anew to a worker that ended while it was idle; once is enough unless it cannot run."""


class WorkerProcess:
    """Calls the simulator in another process, which is ended when a call takes longer than `limit` seconds.

    Ending the process works for code that never comes back to the interpreter, and for programs that the simulator
    started. The process is kept for the next call; a new one replaces it after it was ended, crashed or was idle.
    Every reply carries the number of its call; a reply to another call is ignored.

    Parameters
    ----------
    payload : bytes
        What the process is to run: `Functions`, pickled by value.
    limit : float
        Seconds for one call.
    settings : WorkerSettings
        When the process ends by itself.
    """

    def __init__(self, payload: bytes, limit: float, settings: WorkerSettings | None = None) -> None:
        self.payload = payload
        self.limit = limit
        self.settings = settings or WorkerSettings()
        self._process: subprocess.Popen[bytes] | None = None
        self._number = 0

    def __call__(self, theta: NDArray[np.float64], rng: np.random.Generator) -> list[Result]:
        """Return one result for each row.

        Parameters
        ----------
        theta : ndarray of shape (b, d)
            One row of parameters, or a batch.
        rng : numpy.random.Generator
            The generator of this call.
        """
        self._number += 1
        start = time.perf_counter()
        reason = ""
        for _ in range(self.settings.attempts):
            found = self._attempt(self._running(), pickle.dumps((self._number, theta, rng)))
            if isinstance(found, list):
                return found
            reason = found or "its process could not be reached"
            if found:
                break
        seconds = (time.perf_counter() - start) / len(theta)
        return [Result(None, None, reason, seconds)] * len(theta)

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        _end(process.pid)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                _pipe(pipe).close()

    def __del__(self) -> None:
        """End the process with the thread that it works for."""
        self.close()

    def _attempt(self, process: "subprocess.Popen[bytes]", request: bytes) -> list[Result] | str:
        """Return the results of a call, or why there are none: an empty text if it did not begin."""
        overdue = threading.Event()

        def end() -> None:
            overdue.set()
            _end(process.pid)

        timer = threading.Timer(self.limit, end)
        timer.daemon = True
        timer.start()
        try:
            found = self._reply(process, request)
        finally:
            timer.cancel()
            timer.join()
        if overdue.is_set() or not isinstance(found, list):
            self.close()
        return f"took longer than {self.limit:g} s" if overdue.is_set() and not isinstance(found, list) else found

    def _reply(self, process: "subprocess.Popen[bytes]", request: bytes) -> list[Result] | str:
        try:
            _pipe(process.stdin).write(request)
            _pipe(process.stdin).flush()
        except OSError:  # it ended before this call
            return ""
        try:
            while (reply := pickle.load(_pipe(process.stdout))) is not None:
                number, results = reply
                if number == self._number:
                    return [Result(*parts) for parts in results]
        except (EOFError, OSError):
            return _ending(process.wait())
        except Exception as error:
            return f"its process replied with something else ({describe(error)})"
        return ""

    def _running(self) -> "subprocess.Popen[bytes]":
        """Return the process; start one if there is none, or if it ended."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        program = f"import runpy; runpy.run_path({os.path.abspath(__file__)!r}, run_name='__main__')"
        self._process = process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        try:
            ends = (self.limit + self.settings.grace, self.settings.idle)
            _send(_pipe(process.stdin), (os.getpid(), sys.path, self.payload, *ends))
            problem = pickle.load(_pipe(process.stdout))
        except (EOFError, OSError) as error:
            problem = _ending(process.wait()) or describe(error)
        if problem:
            self.close()
            raise StartError(
                f"the simulator cannot be run in a process of its own, which timeout needs: {problem}. Define it in "
                "a module that can be imported, or leave timeout out."
            )
        return process


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def _end(pid: int) -> None:
    """End a process and, where it leads a group, every program that it started."""
    with contextlib.suppress(OSError):
        if os.name != "posix":
            os.kill(pid, signal.SIGTERM)
        elif os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)


def _ending(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


def _serve() -> None:
    """Reply to calls until nobody calls any more; what the simulator prints goes to standard error."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    own = os.getpid()
    parent, sys.path[:], payload, limit, idle = pickle.load(requests)
    companion()(parent)
    try:
        functions = pickle.loads(payload)
    except Exception as error:
        _send(replies, describe(error))
        return
    _send(replies, "")
    with contextlib.suppress(EOFError, OSError):  # the caller has ended this run, or is dead
        while os.name != "posix" or select.select([requests], [], [], idle)[0]:
            number, theta, rng = pickle.load(requests)
            _set_alarm(limit)
            results = call(functions, theta, rng)
            if os.getpid() != own:  # a child that the simulator started has come back here
                os._exit(0)
            _set_alarm(0.0)
            _send(replies, (number, [tuple(result) for result in results]))
        _send(replies, None)
    sys.stdout.flush()
    _end(own)


def _set_alarm(seconds: float) -> None:
    """End this process if nobody else does: the one that set the limit may have died."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _send(pipe: IO[bytes], message: object) -> None:
    pipe.write(pickle.dumps(message))
    pipe.flush()


if __name__ == "__main__":
    _serve()
