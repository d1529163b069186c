"""What tests of processes share: waiting for a condition, looking whether a process lives, and Ctrl-C."""

import contextlib
import signal
import sqlite3
import time
from pathlib import Path

import pytest

DEADLINE = 180.0
"""Seconds after which a test that hangs fails; nothing else depends on it."""


def wait_until(condition, what="a condition"):
    """Wait until a condition holds; fail the test if it never does."""
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"waited too long for {what}")
        time.sleep(0.01)


def alive(pid):
    """Tell whether a process runs; one that ended and was not collected by its parent does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def n_stored(path):
    """Return how many simulations a store holds, also one that another process is filling or has yet to make."""
    if not Path(path).exists():
        return 0
    with contextlib.closing(sqlite3.connect(path, timeout=DEADLINE)) as connection:
        try:
            statement = "SELECT count(*) FROM simulations WHERE status IN ('done', 'failed')"
            return connection.execute(statement).fetchone()[0]
        except sqlite3.OperationalError:  # it has no tables yet
            return 0


@contextlib.contextmanager
def interruptible():
    """Let SIGINT raise KeyboardInterrupt in this process: below a job in the background of a shell it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
