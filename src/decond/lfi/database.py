"""The file behind the simulation store: one SQLite database, its tables, its transactions, its errors."""

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from decond.lfi.exceptions import StoreBusyError, StoreDamagedError, StoreError, StoreFormatError

__all__ = ["Database"]

APPLICATION = 0x64636E64
"""Marks the file as ours ("dcnd"), in SQLite's field for that."""

VERSION = 1
"""The version of the tables below."""

WAIT = 60.0
"""Seconds to wait for another process that is writing."""

CHECKED_BYTES = 2**26
"""Files up to this size are checked for damage when they are opened; in larger ones damage shows when it is met."""

TABLES = (
    "CREATE TABLE header (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE rounds (label TEXT PRIMARY KEY, position INTEGER NOT NULL, plan TEXT NOT NULL)",
    "CREATE TABLE workers (token TEXT PRIMARY KEY, machine TEXT, pid INTEGER, born TEXT, beat INTEGER NOT NULL)",
    """CREATE TABLE simulations (
        id INTEGER PRIMARY KEY, round TEXT NOT NULL, row INTEGER NOT NULL, theta BLOB NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('open', 'running', 'asked', 'done', 'failed')),
        x BLOB, raw BLOB, raw_shape TEXT, reason TEXT NOT NULL DEFAULT '', seconds REAL, owner TEXT,
        UNIQUE (round, row))""",
    "CREATE INDEX open_rows ON simulations (round, row) WHERE status = 'open'",
    "CREATE INDEX running_rows ON simulations (owner) WHERE status = 'running'",
)


class Database:
    """One connection, shared by the threads of this process; every change is a transaction.

    Changes survive the death of the process at any moment. Readers never wait, and writers wait for each other.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._lock = threading.RLock()
        self._check_place()
        with self._errors():
            self._connection = sqlite3.connect(self.path, timeout=WAIT, isolation_level=None, check_same_thread=False)
        self.close = weakref.finalize(self, self._connection.close)
        try:
            self._identify()
            self._tune()
        except BaseException:
            self.close()
            raise

    def transaction(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """Give the connection; all changes in the block are made together, or none of them."""
        return self._transaction("BEGIN IMMEDIATE")

    def rows(self, statement: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows that a statement selects."""
        with self._lock, self._errors():
            return self._connection.execute(statement, arguments).fetchall()

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, self._errors():
            try:  # an interrupt may come as soon as the transaction has begun
                self._connection.execute(begin)
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _check_place(self) -> None:
        if self.path == ":memory:":
            return
        place = Path(self.path)
        if place.is_dir():
            raise StoreError(
                f"the store {self.path} is a folder; give the name of a file, such as runs.sqlite.", path=self.path
            )
        if not place.parent.is_dir():
            raise StoreError(
                f"the store {self.path} lies in a folder that does not exist; create {place.parent} first.",
                path=self.path,
            )
        if place.exists() and place.stat().st_size > 0:
            with place.open("rb") as file:
                start = file.read(16)
            if start != b"SQLite format 3\0":
                raise StoreFormatError(
                    f"{self.path} is not a simulation store: it is not a SQLite file. Give another name; this file "
                    "was left as it is.",
                    path=self.path,
                )

    def _identify(self) -> None:
        """Check that the file is a store that this version can read; make the tables if it is empty."""
        with self._transaction("BEGIN"):
            known = self._is_ours()
        if not known:
            with self.transaction() as connection:
                if not self._is_ours():  # another process may have been quicker
                    for statement in TABLES:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {VERSION}")
        version = self.rows("PRAGMA user_version")[0][0]
        if version > VERSION:
            raise StoreFormatError(
                f"the store {self.path} was written by a newer version of decond (format {version}; this one reads "
                f"up to {VERSION}). Update decond, or use a new file.",
                path=self.path,
                version=version,
            )
        if self.path != ":memory:" and Path(self.path).stat().st_size <= CHECKED_BYTES:
            found = self.rows("PRAGMA quick_check(1)")[0][0]
            if found != "ok":
                raise _damaged(self.path, found)

    def _is_ours(self) -> bool:
        """Tell a store from an empty file, within a transaction; refuse what is neither."""
        application = self.rows("PRAGMA application_id")[0][0]
        if application == APPLICATION:
            return True
        if application != 0 or self.rows("SELECT count(*) FROM sqlite_master")[0][0] > 0:
            raise StoreFormatError(
                f"{self.path} is a SQLite file of another program, not a simulation store. Give another name; this "
                "file was left as it is.",
                path=self.path,
            )
        return False

    def _tune(self) -> None:
        """Use the write-ahead log where the file system allows it: reading then never waits for writing."""
        for _ in range(100):
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError:  # another process is using the file just now
                time.sleep(0.02)
        self._connection.execute("PRAGMA synchronous = NORMAL")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Say in words what SQLite says in its own."""
        try:
            yield
        except sqlite3.ProgrammingError as error:
            raise StoreError(
                f"the store {self.path} was closed; open it again with SimulationStore(...).", path=self.path
            ) from error
        except sqlite3.DatabaseError as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                raise StoreBusyError(
                    f"the store {self.path} was held by another process for more than {WAIT:g} s; wait for it, or "
                    "end it.",
                    path=self.path,
                ) from error
            if "malformed" in text or "not a database" in text or "corrupt" in text:
                raise _damaged(self.path, text) from error
            raise StoreError(
                f"the store {self.path} could not be used: {text}. Check that the file and its folder may be written "
                "and that the disk is not full.",
                path=self.path,
            ) from error


def _damaged(path: str, what: str) -> StoreDamagedError:
    return StoreDamagedError(
        f"the store {path} is damaged ({' '.join(what.split())}). Go back to a copy of it, or rescue what is left "
        f"with the SQLite program: sqlite3 {path} .recover",
        path=path,
    )
