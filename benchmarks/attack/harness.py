"""How tries are made: in a child process with a limit on memory, and one on the time of each try."""

import multiprocessing
import resource
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

CONTEXT = multiprocessing.get_context("fork")

Try = Callable[[int], str]
"""From a seed to what went wrong; an empty text if nothing did."""

MEMORY = 6 * 2**30
"""Bytes that a try may have: beyond them it gets a MemoryError, and the machine lives on."""


def attacked(attempt: Try, seeds: Sequence[int], limit: float) -> Iterator[tuple[int, str]]:
    """Yield each seed with what went wrong; a child process tries, and a new one where it hangs or dies."""
    left = list(seeds)
    while left:
        ours, theirs = CONTEXT.Pipe(duplex=False)
        child = CONTEXT.Process(target=_child, args=(attempt, left, theirs))
        child.start()
        theirs.close()
        alive = True
        while left and alive:
            alive, problem = ours.poll(limit), f"hangs for {limit:g} s"
            if alive:
                try:
                    problem = ours.recv()
                except EOFError:
                    child.join()
                    alive, problem = False, f"the process ended with {child.exitcode}"
            yield left.pop(0), problem
        child.kill()
        child.join()


def _child(attempt: Try, seeds: Sequence[int], results: Connection) -> None:
    """Try every seed, quietly, and send what went wrong."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for seed in seeds:
        try:
            results.send(attempt(seed))
        except BaseException as error:
            results.send("" if _is_ours(error) else foreign(error))


def _is_ours(error: BaseException) -> bool:
    """Tell errors of decond, and those of scikit-learn's own checks, from all others."""
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    of_checks = isinstance(error, TypeError | ValueError) and "sklearn/utils/" in frames[-1]
    return type(error).__module__.startswith("decond") or of_checks


def foreign(error: BaseException) -> str:
    """Return type, place and message of an exception that is not ours."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/decond/" in frame.filename] or frames
    place = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "?"
    return f"{type(error).__name__} in {place}: {' '.join(str(error).split())[:110]}"
