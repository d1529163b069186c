"""The simulation store: every finished simulation in one file that survives crashes and is shared by processes.

All SQL of decond is here. A worker leases the rows that it runs, and renews its leases while it lives. Rows whose
lease has expired are run by others.
"""

import contextlib
import hashlib
import inspect
import json
import os
import sqlite3
import threading
import time
import uuid
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.exceptions import (
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFormatError,
    StoreMismatchError,
    StoreWarning,
)
from decond.lfi.prior import Prior
from decond.lfi.simulation.worker import BATCH_SIZE, Result, generator, in_order, summarized
from decond.lfi.simulations import Simulations
from decond.messages import warn

__all__ = ["RESERVED", "Plan", "SimulationStore", "StoreSettings", "drawn_parameters", "open_store"]

RESERVED = ("method",)
"""Rounds whose rows are not run by `simulate`."""

FORMAT = (0x64636E64, 3)
"""What marks a file as ours ("dcnd", in SQLite's field for that), and the version of the tables below."""

TABLES = """
CREATE TABLE header (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE rounds (label TEXT PRIMARY KEY, position INTEGER NOT NULL, plan TEXT NOT NULL);
CREATE TABLE simulations (
    id INTEGER PRIMARY KEY, round TEXT NOT NULL, row INTEGER NOT NULL, theta BLOB NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'running', 'done', 'failed')),
    x BLOB, raw BLOB, raw_shape TEXT, reason TEXT NOT NULL DEFAULT '', seconds REAL,
    worker TEXT, lease REAL, checksum INTEGER NOT NULL, UNIQUE (round, row));
CREATE INDEX open_rows ON simulations (round, row) WHERE status = 'open';
CREATE INDEX leased_rows ON simulations (worker) WHERE status = 'running';
"""

INTACT = "checksum = row_checksum(round, row, theta, x, raw, raw_shape, reason)"


@dataclass(frozen=True)
class StoreSettings:
    """Times and sizes of a store."""

    lease: float = 20.0
    """Seconds after which the rows of a silent worker are run by others: four heartbeats."""

    heartbeat: float = 5.0
    """Seconds between two renewals of a lease: many times what a busy disk takes."""

    poll: float = 0.1
    """Seconds between two looks at what other processes are still running."""

    busy: float = 60.0
    """Seconds to wait for another process that is writing."""

    checked_bytes: int = 2**26
    """Files up to this size are checked as a whole when they are opened, which takes half a second."""


class Plan(NamedTuple):
    """How the rows of one round are made; a store refuses to mix rows that were made differently.

    `simulator` and `summarize` are the signatures of these functions: their name and a hash of their source text.
    """

    seed: int
    batched: bool = False
    proposal: bool = False
    simulator: str = ""
    summarize: str = ""

    @classmethod
    def of(
        cls,
        seed: int,
        batched: bool,
        proposal: bool,
        simulator: Callable[..., Any],
        summarize: Callable[..., Any] | None,
    ) -> Self:
        """Return the plan of a round.

        Parameters
        ----------
        seed : int
            Fixes parameters and generators.
        batched : bool
            Whether the simulator takes batches.
        proposal : bool
            Whether parameters were given.
        simulator, summarize : callable
            What runs; `summarize` may be None.
        """
        return cls(seed, batched, proposal, _signature(simulator), _signature(summarize))


class _Row(NamedTuple):
    """One finished simulation as it is stored."""

    theta: bytes
    x: bytes | None
    raw: bytes | None
    raw_shape: str | None
    reason: str
    intact: int


class SimulationStore:
    """Simulations in one SQLite file: written as they finish, read as `Simulations`.

    `simulate(..., store=...)` fills it. Rows belong to rounds: "0" for draws from the prior, the labels given to
    `simulate` for proposals, and "method" for those that a method of `infer` ran itself. Rows of another length than
    those of round 0 are failed simulations. Simulations made elsewhere need no store: see `Simulations`.

    Several processes of one machine may use a file at once. Close the store before you copy the file. A checksum is
    kept with each row and compared when it is read.

    Parameters
    ----------
    path : path-like
        The file; it is created if it does not exist. ":memory:" keeps everything in memory.
    prior : Prior, optional
        The prior; it may be left out for reading.
    settings : StoreSettings, optional
        How long workers hold rows, and how long to wait for others.

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi import simulate
    >>> prior = Prior({"rate": stats.gamma(2)})
    >>> with SimulationStore(":memory:", prior) as store:
    ...     _ = simulate(lambda theta, rng: theta + rng.random(), prior, 3, store=store)
    ...     store.counts()["done"], store.simulations().x.shape
    (3, (3, 1))
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        prior: Prior | None = None,
        *,
        settings: StoreSettings | None = None,
    ) -> None:
        self.path, self.prior = os.fspath(path), prior
        self.settings = settings or StoreSettings()
        self._lock = threading.RLock()
        self._read_only = _is_read_only(self.path)
        place = f"{Path(self.path).absolute().as_uri()}?immutable=1" if self._read_only else self.path
        with self._errors():
            self._connection = sqlite3.connect(
                place, self.settings.busy, isolation_level=None, check_same_thread=False, uri=self._read_only
            )
            self._connection.create_function("row_checksum", 7, _checksum, deterministic=True)
        self._close = weakref.finalize(self, self._connection.close)
        try:
            self._identify()
            self._tune()
            self.names = self.agree(prior)
        except BaseException:
            self.close()
            raise

    # ---- reading -------------------------------------------------------------------------------------------------

    def simulations(self, round: int | str | None = None, n: int | None = None) -> Simulations:
        """Return the finished simulations.

        Parameters
        ----------
        round : int or str, optional
            The round; all rounds without it.
        n : int, optional
            Only its first n rows.
        """
        rows = self._finished(round, n)
        if not rows:
            where = "" if round is None else f" in round {round}"
            raise StoreError(
                f"the store {self.path} holds no finished simulations{where} yet; run simulate(..., store=...) "
                "first.",
                path=self.path,
                round=None if round is None else str(round),
            )
        return self._assembled(rows, round)

    def parameters(self, round: int | str = 0) -> NDArray[np.float64] | None:
        """Return the parameters planned for a round (n, d), finished or not; None if there is no such round."""
        found = self._execute(f"SELECT theta, {INTACT} FROM simulations WHERE round = ? ORDER BY row", (str(round),))
        return self._theta(found) if found else None

    def counts(self) -> dict[str, int]:
        """Return how many rows are open, running, done and failed."""
        found = dict(self._execute("SELECT status, count(*) FROM simulations GROUP BY status"))
        return {status: found.get(status, 0) for status in ("open", "running", "done", "failed")}

    # ---- second thoughts -----------------------------------------------------------------------------------------

    def retry_failures(self, round: int | str = 0) -> int:
        """Open the failed rows of a round, so that the next `simulate` runs them again; return their number.

        Rows of the wrong length count as failed. The simulator may be another one then: the next one is not compared
        with that of before.
        """
        label = str(round)
        if label in RESERVED:
            return 0
        with self._transaction() as connection:
            width = self._required_width(label) or self._usual_width(label) or 0
            n = connection.execute(
                "UPDATE simulations SET status = 'open', x = NULL, raw = NULL, raw_shape = NULL, reason = '', "
                "seconds = NULL, checksum = row_checksum(round, row, theta, NULL, NULL, NULL, '') "
                "WHERE round = ? AND (status = 'failed' OR (status = 'done' AND length(x) != ?))",
                (label, 8 * width),
            ).rowcount
            if n:
                self._write_plan(label, self._plans()[label]._replace(simulator=""))
        return n

    def close(self) -> None:
        """Close the file."""
        self._close()

    def __enter__(self) -> Self:
        """Use the store in a `with` block, which closes it at its end."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        self.close()

    def __repr__(self) -> str:
        """Show the file and what it holds."""
        counts = ", ".join(f"{number} {status}" for status, number in self.counts().items() if number)
        return f"SimulationStore({self.path!r}: {counts or 'empty'})"

    # ---- running: what `simulate` and `infer` ask --------------------------------------------------------------

    def agree(self, prior: Prior | None) -> tuple[str, ...]:
        """Return the names of the parameters; raise if the prior has others."""
        found = self._header("names")
        if found is None:
            if prior is None:
                raise ArgumentError(
                    "prior", f"the store {self.path} is new; give the prior, SimulationStore(path, prior)."
                )
            found = self._note("names", json.dumps(prior.names))
        names = tuple(json.loads(found))
        if prior is not None and tuple(prior.names) != names:
            raise StoreMismatchError(
                f"the store {self.path} holds simulations with the parameters {', '.join(names)}, but the prior has "
                f"{', '.join(prior.names)}. Use a new file for another question.",
                argument="prior",
                path=self.path,
            )
        return names

    def open_round(
        self, label: str, theta: NDArray[np.float64], plan: Plan, summarize: Callable[..., Any] | None = None
    ) -> None:
        """Enter the rows of a round; those that are there must have been made in the same way.

        If rows of the store, of whatever round, were summarized by another function, their summaries are computed
        again from the raw data.

        Parameters
        ----------
        label : str
            The round.
        theta : ndarray of shape (n, d)
            Its parameters.
        plan : Plan
            How it is made.
        summarize : callable, optional
            Makes summaries of raw data.
        """
        with self._transaction():
            before = [noted.summarize for noted in self._plans().values() if noted.summarize]
            self._enter_rows(label, theta, plan)
            if summarize is None or not any(_differ(then, plan.summarize) for then in before):
                return
            number = self._resummarize(summarize)
        message = (
            f"the store {self.path} was filled with another summarize. The summaries of its {number} simulations "
            "with raw data were computed again with the one given now."
        )
        warn(StoreWarning(message, argument="summarize", path=self.path, n_recomputed=number))

    @contextlib.contextmanager
    def worker(self) -> Iterator[str]:
        """Yield the name of a new worker, whose leases are renewed until the end of the block."""
        name, done = uuid.uuid4().hex, threading.Event()

        def renew() -> None:
            while not done.wait(self.settings.heartbeat):
                with contextlib.suppress(StoreError), self._transaction() as connection:
                    connection.execute(
                        "UPDATE simulations SET lease = ? WHERE worker = ? AND status = 'running'",
                        (time.time() + self.settings.lease, name),
                    )

        heartbeat = threading.Thread(target=renew, daemon=True)
        heartbeat.start()
        try:
            yield name
        finally:
            done.set()
            heartbeat.join()
            with self._transaction() as connection:
                connection.execute(
                    "UPDATE simulations SET status = 'open', worker = NULL, lease = NULL "
                    "WHERE status = 'running' AND worker = ?",
                    (name,),
                )

    def lease(self, worker: str, label: str, n: int, size: int) -> tuple[list[int], NDArray[np.float64]] | None:
        """Lease the first open row, or with batches all open rows of its batch; None if there is none.

        Rows whose lease has expired are open again. So are those whose lease ends in the far future: the clock of its
        worker must have been wrong.

        Parameters
        ----------
        worker : str
            Who will run the rows.
        label : str
            The round.
        n : int
            Only rows before this one.
        size : int
            The size of a batch.

        Returns
        -------
        tuple of list and ndarray, or None
            Row numbers and their parameters (b, d).
        """
        now = time.time()
        with self._transaction() as connection:
            connection.execute(
                "UPDATE simulations SET status = 'open' WHERE status = 'running' AND lease NOT BETWEEN ? AND ?",
                (now, now + 10.0 * self.settings.lease),
            )
            (first,) = connection.execute(
                "SELECT min(row) FROM simulations WHERE round = ? AND status = 'open' AND row < ?", (label, n)
            ).fetchone()
            if first is None:
                self._check_progress(label, n, now)
                return None
            where = "WHERE round = ? AND status = 'open' AND row >= ? AND row < ?"
            batch = (label, first, (first // size + 1) * size)
            found = connection.execute(
                f"SELECT row, theta, {INTACT} FROM simulations {where} ORDER BY row", batch
            ).fetchall()
            taken = connection.execute(
                f"UPDATE simulations SET status = 'running', worker = ?, lease = ? {where}",
                (worker, now + self.settings.lease, *batch),
            ).rowcount
            if taken != len(found) or not found:
                raise self._damaged(f"rows of round {label} cannot be leased")
        return [row for row, *_ in found], self._theta([(stored, intact) for _, stored, intact in found])

    def _check_progress(self, label: str, n: int, now: float) -> None:
        """Raise if a row is neither finished nor held by a worker: an index is damaged, and waiting would not end."""
        (right,) = self._execute(
            "SELECT count(*) FROM simulations NOT INDEXED WHERE round = ? AND row < ? AND "
            "(status IN ('done', 'failed') OR (status = 'running' AND lease BETWEEN ? AND ?))",
            (label, n, now, now + 10.0 * self.settings.lease),
        )[0]
        if right < n:
            raise self._damaged(f"{n - right} row(s) of round {label} cannot be found")

    def finish(self, label: str, rows: Sequence[int], results: Sequence[Result]) -> None:
        """Record results, all in one transaction; a row that another worker finished first stays as it is.

        Parameters
        ----------
        label : str
            The round.
        rows : sequence of int
            Row numbers.
        results : sequence of Result
            One for each row.
        """
        with self._transaction() as connection:
            for row, result in zip(rows, self._in_first_order(results), strict=True):
                where = "round = :label AND row = :row AND status IN ('open', 'running')"
                _finish(connection, where, result, label=label, row=row)

    def tally(self, label: str, n: int) -> tuple[int, int]:
        """Return how many of the first n rows of a round are finished, and how many of these failed.

        Parameters
        ----------
        label : str
            The round.
        n : int
            How many rows are looked at.
        """
        statement = "SELECT status, count(*) FROM simulations WHERE round = ? AND row < ? GROUP BY status"
        counts = dict(self._execute(statement, (label, n)))
        failed = counts.get("failed", 0)
        return counts.get("done", 0) + failed, failed

    def keeper(self) -> Callable[[NDArray[np.float64], Sequence[Result]], list[Result]]:
        """Return a function that appends simulations which a method ran itself, without those that are there.

        A chain that runs again, from the same seed, gives what an earlier run has written. The function returns the
        results with their values in the order of the store's other simulations.
        """
        there = set(self._execute("SELECT theta, x FROM simulations WHERE round = 'method'"))

        def _keep(theta: NDArray[np.float64], results: Sequence[Result]) -> list[Result]:
            with self._transaction() as connection:
                self._enter_round("method", Plan(0))
                ordered = self._in_first_order(results)
                for values, result in zip(theta, ordered, strict=True):
                    if (_blob(values), _blob(result.x)) not in there:
                        row = _length(connection, "method")
                        _insert(connection, "method", row, values[None, :])
                        _finish(connection, "round = 'method' AND row = :row", result, row=row)
            return ordered

        return _keep

    def observation_of(self, label: str, mark: str) -> str:
        """Return the mark of the observation that a round was proposed for; if there is no such round, note this.

        Parameters
        ----------
        label : str
            The round.
        mark : str
            A short text that tells this observation from others.
        """
        key = f"observation of round {label}"
        with self._transaction() as connection:
            if _length(connection, label) == 0:
                connection.execute("DELETE FROM header WHERE key = ?", (key,))
                return self._note(key, mark)
            return self._header(key) or mark

    def _resummarize(self, summarize: Callable[[NDArray[np.float64]], Any]) -> int:
        """Compute the summaries of every stored raw data set again, with another function; return their number."""
        with self._transaction() as connection:
            found = connection.execute(
                "SELECT id, raw, raw_shape, seconds FROM simulations WHERE raw IS NOT NULL"
            ).fetchall()
            results = [
                summarized(_array(raw, shape), summarize)._replace(seconds=seconds)
                for _, raw, shape, seconds in found
            ]
            known = {len(r.names): sorted(r.names) for r in reversed(results) if r.names and not r.reason}
            for number, names in self._summary_names().items():
                if known.get(number) != sorted(names):
                    connection.execute("DELETE FROM header WHERE key = ?", (f"names of {number} summaries",))
            for (identifier, *_), result in zip(found, self._in_first_order(results), strict=True):
                _finish(connection, "id = :id", result, id=identifier)
            for label, plan in self._plans().items():
                if plan.summarize:
                    self._write_plan(label, plan._replace(summarize=_signature(summarize)))
        return len(found)

    # ---- rounds and their plans --------------------------------------------------------------------------------

    def _plans(self) -> dict[str, Plan]:
        found = self._execute("SELECT label, plan FROM rounds")
        return {label: Plan(**json.loads(self._opened(text))) for label, text in found}

    def _write_plan(self, label: str, plan: Plan) -> None:
        self._execute("UPDATE rounds SET plan = ? WHERE label = ?", (_sealed(json.dumps(plan._asdict())), label))

    def _enter_round(self, label: str, plan: Plan) -> Plan:
        """Note how a round is made, or compare with the note that is there; return the note."""
        plans = self._plans()
        if label not in plans:
            text = _sealed(json.dumps(plan._asdict()))
            self._execute("INSERT INTO rounds VALUES (?, ?, ?)", (label, len(plans), text))
            return plan
        noted = plans[label]
        if label in RESERVED:
            return noted
        self._check_alike(label, noted, plan)
        if not noted.simulator:
            self._write_plan(label, noted._replace(simulator=plan.simulator))
        elif _differ(noted.simulator, plan.simulator):
            names = [signature.partition(":")[0] for signature in (noted.simulator, plan.simulator)]
            what = "the simulator {}, and now {} is given".format(*names)
            if names[0] == names[1]:
                what = f"{names[0]} with other code than it has now"
            message = (
                f"the store {self.path} was filled by {what}. What is stored is kept, and rows of both would be "
                "mixed; use a new file unless the two give the same."
            )
            warn(StoreWarning(message, argument="simulator", path=self.path))
        return noted

    def _check_alike(self, label: str, noted: Plan, plan: Plan) -> None:
        """Raise if rows made in these two ways do not belong together."""
        for name in ("seed", "batched", "proposal", "summarize"):
            then, now = getattr(noted, name), getattr(plan, name)
            what = f"{name} = {then}, and now {name} = {now} is asked for"
            if name == "proposal":
                what = f"parameters from {'a proposal' if then else 'the prior'}, and now it is the other way round"
            if name == "summarize":
                then, now = bool(then), bool(now)
                what = f"{'a' if then else 'no'} summarize, and now {'one' if now else 'none'} is given"
            if then != now:
                raise StoreMismatchError(
                    f"the store {self.path} holds round {label} made with {what}. Ask as before to go on, or use a "
                    "new file or another round.",
                    argument=name,
                    path=self.path,
                    round=label,
                )

    def _enter_rows(self, label: str, theta: NDArray[np.float64], plan: Plan) -> None:
        """Append the rows of a round that are not there yet."""
        self._enter_round(label, plan)
        statement = f"SELECT theta, {INTACT} FROM simulations WHERE round = ? ORDER BY row LIMIT ?"
        there = self._theta(self._execute(statement, (label, len(theta))))
        differs = ~np.isclose(there, theta[: len(there)], rtol=1e-9, atol=0.0).all(axis=1)
        if differs.any():
            source = "proposal" if plan.proposal else "prior"
            raise StoreMismatchError(
                f"the store {self.path} holds round {label} with other parameters (first at row {differs.argmax()}): "
                f"it was filled from another {source}. Use a new file, or the {source} of before.",
                argument=source,
                path=self.path,
                round=label,
            )
        _insert(self._connection, label, len(there), theta[len(there) :])

    # ---- names of summaries: the order in which so many of them come first holds for all others -------------------

    def _summary_names(self) -> dict[int, list[str]]:
        """Return the names of summaries for each number of them that simulations returned."""
        found = self._execute("SELECT value FROM header WHERE key LIKE 'names of % summaries'")
        orders = [list(json.loads(self._opened(value))) for (value,) in found]
        return {len(names): names for names in orders}

    def _in_first_order(self, results: Sequence[Result]) -> list[Result]:
        """Return results whose named values are in the order that came first, which is noted; see `in_order`."""
        ordered = []
        for result in results:
            if result.names is not None:
                key = f"names of {len(result.names)} summaries"
                noted = self._header(key) if result.reason else self._note(key, json.dumps(result.names))
                result = in_order(result, json.loads(noted or "null"))
            ordered.append(result)
        return ordered

    # ---- rows and arrays -----------------------------------------------------------------------------------------

    def _finished(self, round: int | str | None, n: int | None) -> list[_Row]:
        label = None if round is None else str(round)
        found = self._execute(
            f"SELECT theta, x, raw, raw_shape, reason, {INTACT} FROM simulations "
            "JOIN rounds ON label = round WHERE status IN ('done', 'failed') AND (?1 IS NULL OR round = ?1) "
            "AND (?2 IS NULL OR row < ?2) ORDER BY position, row",
            (label, n),
        )
        return [_Row(*row) for row in found]

    def _assembled(self, rows: list[_Row], round: int | str | None) -> Simulations:
        """Return rows as arrays; x has the length of round 0, or that of most rows, whichever came first."""
        theta = self._theta([(row.theta, row.intact) for row in rows])
        widths = [0 if row.x is None or row.reason else len(row.x) // 8 for row in rows]
        width = self._required_width(round)
        others = "most returned" if width is None else "the first round has"
        s = width or next((s for s, _ in Counter(filter(None, widths)).most_common(1)), 1)
        reasons = [
            f"returned {own} values where {others} {s}" if own not in (0, s) else row.reason
            for own, row in zip(widths, rows, strict=True)
        ]
        valid = np.array(widths) == s
        x = np.full((len(rows), s), np.nan)
        for i in np.flatnonzero(valid):
            x[i] = _array(rows[i].x or b"")
        return Simulations(theta, x, valid, reasons, _raw(rows, valid), self.names, self._summary_names().get(s))

    def _theta(self, found: Sequence[tuple[bytes, int]]) -> NDArray[np.float64]:
        """Return stored parameters as rows (n, d); raise if a checksum is wrong."""
        damaged = [i for i, (_, intact) in enumerate(found) if not intact]
        if damaged:
            raise self._damaged(f"the checksum of {len(damaged)} row(s) is wrong")
        return _array(b"".join(stored for stored, _ in found)).reshape(len(found), len(self.names))

    def _required_width(self, round: int | str | None) -> int | None:
        """Return the length that x must have in a round other than the first; None if that of most rows decides."""
        return None if str(round) == "0" else self._usual_width("0")

    def _usual_width(self, label: str) -> int | None:
        """Return the length of x in most finished rows of a round."""
        found = self._execute(
            "SELECT length(x) / 8 FROM simulations WHERE round = ? AND status = 'done' "
            "GROUP BY length(x) ORDER BY count(*) DESC, min(row) LIMIT 1",
            (label,),
        )
        return int(found[0][0]) if found else None

    # ---- the file ------------------------------------------------------------------------------------------------

    def _header(self, key: str) -> str | None:
        found = self._execute("SELECT value FROM header WHERE key = ?", (key,))
        return self._opened(found[0][0]) if found else None

    def _note(self, key: str, value: str) -> str:
        """Note a value under a key, and return what is noted there: the value that came first."""
        self._execute("INSERT OR IGNORE INTO header VALUES (?, ?)", (key, _sealed(value)))
        return self._header(key) or value

    def _opened(self, sealed: str) -> str:
        """Return a text without its checksum; raise if that is wrong."""
        text = sealed[8:]
        if _sealed(text) != sealed:
            raise self._damaged("the checksum of a note is wrong")
        return text

    def _execute(self, statement: str, arguments: Sequence[Any] = ()) -> list[Any]:
        """Run one statement, and return the rows that it selects, if any."""
        with self._lock, self._errors():
            return self._connection.execute(statement, arguments).fetchall()

    @contextlib.contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """Give the connection; all changes in the block are made together, or none of them."""
        begin = "BEGIN" if self._read_only else begin
        with self._lock, self._errors():
            if self._connection.in_transaction:  # of a caller
                yield self._connection
                return
            try:  # an interrupt may come as soon as the transaction has begun
                self._connection.execute(begin)
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _identify(self) -> None:
        """Check that the file is a store that this version can read; make the tables if it is empty."""
        with self._transaction("BEGIN"):
            known = self._is_ours()
        if not known:
            with self._transaction() as connection:
                if not self._is_ours():  # another process may have been quicker
                    for statement in TABLES.split(";")[:-1]:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {FORMAT[0]}")
                    connection.execute(f"PRAGMA user_version = {FORMAT[1]}")
        version = self._execute("PRAGMA user_version")[0][0]
        if version != FORMAT[1]:
            raise StoreFormatError(
                f"the store {self.path} was written by another version of decond (format {version}; this one reads "
                f"{FORMAT[1]}). Read it with that version, or use a new file.",
                path=self.path,
                version=version,
            )
        if self.path != ":memory:" and Path(self.path).stat().st_size <= self.settings.checked_bytes:
            found = self._execute("PRAGMA integrity_check(1)")[0][0]
            if found != "ok":
                raise self._damaged(found)

    def _is_ours(self) -> bool:
        """Tell a store from an empty file, within a transaction; refuse what is neither."""
        application = self._execute("PRAGMA application_id")[0][0]
        if application == FORMAT[0]:
            return True
        if application != 0 or self._execute("SELECT count(*) FROM sqlite_master")[0][0] > 0:
            raise self._foreign()
        return False

    def _tune(self) -> None:
        """Use the write-ahead log where the file system allows it: reading then never waits for writing."""
        if self._read_only:
            return
        with contextlib.suppress(sqlite3.OperationalError):  # another process is doing the same just now
            self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise our own errors, with a remedy, for those of SQLite."""
        try:
            yield
        except sqlite3.ProgrammingError as error:
            raise StoreError(
                f"the store {self.path} was closed; open it again with SimulationStore(...).", path=self.path
            ) from error
        except UnicodeDecodeError as error:
            raise self._damaged(str(error)) from error
        except sqlite3.DatabaseError as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                raise StoreBusyError(
                    f"the store {self.path} was held by another process for more than {self.settings.busy:g} s; wait "
                    "for it, or end it.",
                    path=self.path,
                ) from error
            if "readonly" in text:
                raise StoreError(
                    f"the store {self.path} may only be read, and something is left to be written. Copy it to where "
                    "you may write.",
                    path=self.path,
                ) from error
            if "not a database" in text:
                raise self._foreign() from error
            if any(word in text for word in ("malformed", "corrupt", "disk image", "UTF-8", "user-defined function")):
                raise self._damaged(text) from error
            raise StoreError(
                f"the store {self.path} could not be used: {text}. Check that the file and its folder may be written "
                "and that the disk is not full.",
                path=self.path,
            ) from error

    def _foreign(self) -> StoreFormatError:
        return StoreFormatError(
            f"{self.path} is not a simulation store. Give another name; this file was left as it is.", path=self.path
        )

    def _damaged(self, what: str) -> StoreDamagedError:
        return StoreDamagedError(
            f"the store {self.path} is damaged ({' '.join(what.split())}). Go back to a copy of it, or rescue what "
            f"is left with the SQLite program: sqlite3 {self.path} .recover",
            path=self.path,
        )


@contextlib.contextmanager
def open_store(store: SimulationStore | str | os.PathLike[str] | None, prior: Prior) -> Iterator[SimulationStore]:
    """Yield the store that was given, or one at the path that was given, or one in memory; close what was opened.

    Parameters
    ----------
    store : SimulationStore, path-like or None
        The store.
    prior : Prior
        The prior, whose parameters have to be those of the store.
    """
    if isinstance(store, SimulationStore):
        store.agree(prior)
        yield store
        return
    if store is not None and not isinstance(store, str | os.PathLike):
        raise ArgumentTypeError(
            "store", f"store is {store!r}; give the name of a file, such as 'runs.sqlite', or a SimulationStore."
        )
    with SimulationStore(":memory:" if store is None else store, prior) as own:
        yield own


def drawn_parameters(prior: Prior, seed: int, label: str, n: int) -> NDArray[np.float64]:
    """Return the first n rows of the prior's draws for a round; a row does not depend on n.

    Parameters
    ----------
    prior : Prior
        The prior.
    seed : int
        Fixes the draws.
    label : str
        The round.
    n : int
        The number of rows.

    Examples
    --------
    >>> from scipy import stats
    >>> prior = Prior({"rate": stats.gamma(2)})
    >>> few, many = (drawn_parameters(prior, 0, "0", n) for n in (3, 300))
    >>> bool((few == many[:3]).all())
    True
    """
    chunks = [prior.sample(BATCH_SIZE, generator(seed, 0, label, i)) for i in range(-(-n // BATCH_SIZE))]
    return np.concatenate(chunks)[:n]


def _is_read_only(path: str) -> bool:
    """Return whether a store may only be read; raise unless there may be one there: a pipe would wait for ever."""
    place = Path(path)
    if path == ":memory:" or not place.exists():
        return False
    if not place.is_file():
        raise StoreError(
            f"the store {path} is a folder or a device; give the name of a file, such as runs.sqlite.", path=path
        )
    if os.access(place, os.W_OK) and os.access(place.parent, os.W_OK):
        return False
    log = place.with_name(f"{place.name}-wal")
    if log.exists() and log.stat().st_size > 0:
        raise StoreError(
            f"the store {path} may only be read, and it was not closed. Copy it to where you may write, together "
            f"with {log.name}.",
            path=path,
        )
    return True


# ---- how values are stored -----------------------------------------------------------------------------------


def _signature(function: Callable[..., Any] | None) -> str:
    """Return the name of a function and a hash of its source text, where that is known; "" for none."""
    if function is None:
        return ""
    name = str(getattr(function, "__qualname__", type(function).__qualname__))
    try:
        return f"{name}:{hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:16]}"
    except (OSError, TypeError):
        return f"{name}:"


def _differ(then: str, now: str) -> bool:
    """Tell whether two signatures are of different functions."""
    (name, _, source), (other, _, text) = then.partition(":"), now.partition(":")
    return name != other or (bool(source and text) and source != text)


def _checksum(
    round: str, row: int, theta: bytes, x: bytes | None, raw: bytes | None, shape: str | None, reason: str
) -> int:
    text = f"{round} {row} {shape} {reason} {x is None} {len(theta)} {len(x or b'')}"
    return zlib.crc32(b"".join([text.encode(), theta, x or b"", raw or b""]))


def _sealed(text: str) -> str:
    """Return a text with its checksum before it."""
    return f"{zlib.crc32(text.encode()):08x}{text}"


def _length(connection: sqlite3.Connection, label: str) -> int:
    return int(connection.execute("SELECT count(*) FROM simulations WHERE round = ?", (label,)).fetchone()[0])


def _insert(connection: sqlite3.Connection, label: str, start: int, theta: NDArray[np.float64]) -> None:
    """Append rows of parameters to a round."""
    connection.executemany(
        "INSERT INTO simulations (round, row, theta, status, checksum) "
        "VALUES (?1, ?2, ?3, 'open', row_checksum(?1, ?2, ?3, NULL, NULL, NULL, ''))",
        ((label, row, _blob(values)) for row, values in enumerate(theta, start)),
    )


def _finish(connection: sqlite3.Connection, where: str, result: Result, **which: Any) -> None:
    """Write a result into the row that `which` selects, if there is one."""
    found = {
        "x": _blob(result.x),
        "raw": _blob(result.raw),
        "shape": None if result.raw is None else json.dumps(result.raw.shape),
        "reason": result.reason,
        "seconds": result.seconds,
        "status": "failed" if result.reason else "done",
    }
    connection.execute(
        "UPDATE simulations SET status = :status, x = :x, raw = :raw, raw_shape = :shape, reason = :reason, "
        "seconds = :seconds, worker = NULL, lease = NULL, "
        f"checksum = row_checksum(round, row, theta, :x, :raw, :shape, :reason) WHERE {where}",
        {**found, **which},
    )


def _blob(values: NDArray[np.float64] | None) -> bytes | None:
    """Return numbers as they are stored: float64, little-endian."""
    return None if values is None else np.ascontiguousarray(values, dtype="<f8").tobytes()


def _array(stored: bytes, shape: str | None = None) -> NDArray[np.float64]:
    """Return stored numbers."""
    found = np.frombuffer(stored, dtype="<f8").astype(np.float64)
    return found if shape is None else found.reshape(json.loads(shape))


def _raw(rows: Sequence[_Row], valid: NDArray[np.bool_]) -> NDArray[Any] | None:
    """Return raw data as one array, NaN where there are none; an array of arrays if their shapes differ."""
    arrays = [None if row.raw is None else _array(row.raw, row.raw_shape) for row in rows]
    if not any(array is not None for array in arrays):
        return None
    shapes = {array.shape for array, use in zip(arrays, valid, strict=True) if array is not None and use}
    if len(shapes) == 1:
        shape = shapes.pop()
        return np.array([np.full(shape, np.nan) if a is None or a.shape != shape else a for a in arrays])
    ragged = np.empty(len(rows), dtype=object)
    ragged[:] = arrays
    return ragged
