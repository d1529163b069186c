"""Who runs which simulation: several processes share one store, and the work of a dead one is taken over."""

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from decond.lfi.database import Database
from decond.lfi.exceptions import StoreError

__all__ = ["Claimant"]

_AT_WORK: set[str] = set()
"""The calls that are running in this process."""


class Claimant:
    """One running call of `simulate`: it claims rows before it runs them, so that no other call runs the same.

    A process of this machine is dead if the operating system does not know it. For processes elsewhere, in another
    container for example, a counter that stands still for 30 seconds of our own clock means dead.

    Args:
        database: The store's database.
        heartbeat: Seconds between two signs of life.
        silence: Seconds without a sign of life after which a process that cannot be looked up is taken for dead.
        silence_here: The same for a process that is there: its simulator may keep it from giving signs.
    """

    def __init__(
        self, database: Database, *, heartbeat: float = 5.0, silence: float = 30.0, silence_here: float = 600.0
    ) -> None:
        self.database = database
        self.heartbeat, self.silence, self.silence_here = heartbeat, silence, silence_here
        self.token = uuid.uuid4().hex
        self._heard: dict[str, tuple[int, float]] = {}

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Be known to other processes; afterwards give back what was claimed and not finished."""
        with self.database.transaction() as connection:
            connection.execute(
                "INSERT INTO workers VALUES (?, ?, ?, ?, 0)",
                (self.token, _machine(), os.getpid(), _born(os.getpid())),
            )
        _AT_WORK.add(self.token)
        done = threading.Event()
        pulse = threading.Thread(target=self._beat, args=(done,), daemon=True)
        pulse.start()
        try:
            yield
        finally:
            _AT_WORK.discard(self.token)
            done.set()
            pulse.join()
            self._bury(self.token)

    def claim(self, label: str, n: int, batch: int) -> list[tuple[int, bytes]]:
        """Take the first open row below n, or with batches all open rows of its batch; return (row, theta) pairs."""
        with self.database.transaction() as connection:
            (first,) = connection.execute(
                "SELECT min(row) FROM simulations WHERE round = ? AND status = 'open' AND row < ?", (label, n)
            ).fetchone()
            if first is None:
                return []
            where = "WHERE round = ? AND status = 'open' AND row >= ? AND row < ?"
            span = (label, first, (first // batch + 1) * batch)
            rows = connection.execute(f"SELECT row, theta FROM simulations {where} ORDER BY row", span).fetchall()
            connection.execute(f"UPDATE simulations SET status = 'running', owner = ? {where}", (self.token, *span))
        return rows

    def release_dead(self) -> None:
        """Open the rows that dead processes had claimed."""
        owners = self.database.rows(
            "SELECT owner FROM simulations WHERE status = 'running' UNION SELECT token FROM workers"
        )
        for (owner,) in owners:
            if owner != self.token and not self._alive(owner):
                self._bury(owner)

    def _alive(self, owner: str) -> bool:
        found = self.database.rows("SELECT machine, pid, born, beat FROM workers WHERE token = ?", (owner,))
        if not found:
            return False
        machine, pid, born, beat = found[0]
        patience = self.silence
        if os.name == "posix" and machine == _machine():
            if not _exists(pid) or _born(pid) != born or (pid == os.getpid() and owner not in _AT_WORK):
                return False
            patience = self.silence_here
        last_beat, since = self._heard.setdefault(owner, (beat, time.monotonic()))
        if beat != last_beat:
            self._heard[owner] = (beat, time.monotonic())
            return True
        return time.monotonic() - since < patience

    def _bury(self, owner: str) -> None:
        with self.database.transaction() as connection:
            connection.execute(
                "UPDATE simulations SET status = 'open', owner = NULL WHERE status = 'running' AND owner = ?",
                (owner,),
            )
            connection.execute("DELETE FROM workers WHERE token = ?", (owner,))

    def _beat(self, done: threading.Event) -> None:
        while not done.wait(self.heartbeat):
            with contextlib.suppress(StoreError), self.database.transaction() as connection:
                connection.execute("UPDATE workers SET beat = beat + 1 WHERE token = ?", (self.token,))


def _machine() -> str:
    """Return what tells this machine, since its last start and within its container, from others."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with contextlib.suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return "/".join(parts)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _born(pid: int) -> str:
    """Return when a process started, where the system tells: a number may be given to a new process later."""
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "dead" if fields[0] == "Z" else fields[19]
    return ""
