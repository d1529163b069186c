"""The simulation store: every finished simulation in one file that survives crashes and is shared by processes."""

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from decond.checks import as_count
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.database import Database
from decond.lfi.draws import drawn_parameters
from decond.lfi.exceptions import StoreError, StoreMismatchError, StoreWarning
from decond.lfi.execution import Result
from decond.lfi.fingerprint import changed
from decond.lfi.names import NAMED, RAW, in_first_order, names_by_number, told_in_order
from decond.lfi.plans import ADDED, ASKED, METHOD, RESERVED, Plan, enter_round, plans, write_plan
from decond.lfi.prior import Prior
from decond.lfi.records import Record, assembled, blob, finish, insert, parameters, resummarize, told
from decond.lfi.simulations import Simulations
from decond.messages import warn

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SimulationStore", "opened"]

FIRST = "0"
"""The round of draws from the prior, whose length of x the other rounds are judged by."""

USUAL_WIDTH = (
    "SELECT length(x) / 8 FROM simulations WHERE round = ? AND status = 'done' "
    "GROUP BY length(x) ORDER BY count(*) DESC, min(row) LIMIT 1"
)
"""The length of x in most finished rows of a round."""


class SimulationStore:
    """Simulations in one SQLite file: written as they finish, read as arrays or as a pandas frame.

    `simulate(..., store=...)` fills it. Simulations that run elsewhere, on a cluster or in a laboratory, go through
    `ask` and `tell`; `add` takes those that exist already. Rows belong to rounds: "0" for draws from the prior,
    the labels given to `simulate` for proposals, "asked" and "added", and "method" for those that a method of `infer`
    ran itself. Rows of another length than those of round 0 are failed simulations.

    Several processes of one machine may use a file at once. Close the store before you copy the file.

    Args:
        path: The file; it is created if it does not exist. ":memory:" keeps everything in memory.
        prior: The prior; it may be left out for reading.
        seed: Fixes the parameters that `ask` draws.

    >>> from scipy import stats
    >>> store = SimulationStore(":memory:", Prior({"rate": stats.gamma(2)}))
    >>> theta = store.ask(3)
    >>> store.tell(theta, [[0.1], [0.2], [np.nan]])
    >>> store.simulations().failures
    {'returned NaN or infinity': 1}
    >>> store.frame()[["x1", "valid", "round"]]
         x1  valid  round
    id
    1   0.1   True  asked
    2   0.2   True  asked
    3   NaN  False  asked
    >>> store.close()
    """

    def __init__(self, path: str | os.PathLike[str], prior: Prior | None = None, *, seed: int = 0) -> None:
        self.database = Database(path)
        self.path = self.database.path
        self.seed = seed
        self.prior = prior
        try:
            self.names = self._agreed_names(prior)
        except BaseException:
            self.close()
            raise

    # ---- simulations made elsewhere ------------------------------------------------------------------------------

    def ask(self, n: int) -> np.ndarray:
        """Reserve n new draws from the prior for running elsewhere; return them (n, d)."""
        prior = self._known_prior("ask")
        count = as_count(n, "n")
        with self.database.transaction() as connection:
            start = _length(connection, ASKED)
            theta = drawn_parameters(prior, self.seed, ASKED, start + count)
            self._plan(connection, ASKED, theta, Plan(self.seed), "asked")
        return theta[start:]

    def tell(self, which: Any, x: Any, reasons: Sequence[str] | None = None) -> None:
        """Record the results of rows that `ask` returned, in one transaction.

        Args:
            which: The parameters (n, d) as `ask` returned them, or the ids of the rows (whole numbers; the index of
                `pending` or `frame`).
            x: Summaries (n, s); a row with NaN, or None instead of a row, is a failed simulation. A frame or a list
                of dicts has the names of the store's other simulations, in any order.
            reasons: Why rows failed, "" for those that did not; optional.
        """
        pending = self._pending()
        ids = self._ids(which, pending)
        results = told(x, reasons, len(ids), "the rows told")
        with self.database.transaction() as connection:
            for identifier, result in zip(ids, told_in_order(connection, results), strict=True):
                if not finish(connection, "id = ? AND status = 'asked'", (identifier,), result):
                    raise ArgumentError(
                        "which", f"row {identifier} was told already; nothing of this call was recorded."
                    )

    def pending(self) -> "pd.DataFrame":
        """Return the rows that were asked for and not told yet, as a frame of parameters whose index are the ids."""
        import pandas as pd

        rows = self._pending()
        theta = parameters([stored for _, stored in rows], len(self.names))
        return pd.DataFrame(theta, columns=list(self.names), index=pd.Index([i for i, _ in rows], name="id"))

    def add(self, theta: Any, x: Any, reasons: Sequence[str] | None = None) -> None:
        """Add simulations that exist already: parameters (n, d) from any proposal, and x as `tell` takes it."""
        parameters = self._parameters(theta, "theta")
        results = told(x, reasons, len(parameters), "theta")
        with self.database.transaction() as connection:
            start = _length(connection, ADDED)
            enter_round(connection, ADDED, Plan(self.seed), self.path)
            insert(connection, ADDED, start, parameters, "asked")
            for row, result in enumerate(told_in_order(connection, results), start):
                finish(connection, "round = ? AND row = ?", (ADDED, row), result)

    # ---- reading -------------------------------------------------------------------------------------------------

    def simulations(self, round: int | str | None = None, n: int | None = None) -> Simulations:
        """Return the finished simulations: of one round or of all, and of its first n rows or of all."""
        rows = self._finished(round, n)
        if not rows:
            where = "no finished simulations" if round is None else f"no finished simulations in round {round}"
            raise StoreError(
                f"the store {self.path} holds {where} yet; run simulate(...) or tell results first.",
                path=self.path,
                round=None if round is None else str(round),
            )
        return self._assembled(rows, round)

    def frame(self) -> "pd.DataFrame":
        """Return the finished simulations as a pandas frame: parameters, x1, x2, …, valid, reason, round, seconds."""
        import pandas as pd

        rows = self._finished(None, None)
        frame = (
            self._assembled(rows, None).frame() if rows else pd.DataFrame(columns=[*self.names, "valid", "reason"])
        )
        frame["round"] = [row.round for row in rows]
        frame["seconds"] = np.array([row.seconds for row in rows], dtype=np.float64)
        frame.index = pd.Index([row.id for row in rows], name="id")
        return frame

    def parameters(self, round: int | str = 0) -> np.ndarray | None:
        """Return the parameters planned for a round (n, d), finished or not; None if there is no such round."""
        blobs = self.database.rows("SELECT theta FROM simulations WHERE round = ? ORDER BY row", (str(round),))
        return parameters([stored for (stored,) in blobs], len(self.names)) if blobs else None

    def counts(self) -> dict[str, int]:
        """Return how many rows are open, running, asked, done and failed."""
        found = dict(self.database.rows("SELECT status, count(*) FROM simulations GROUP BY status"))
        return {status: found.get(status, 0) for status in ("open", "running", "asked", "done", "failed")}

    # ---- second thoughts -----------------------------------------------------------------------------------------

    def retry_failures(self, round: int | str = 0) -> int:
        """Open the failed rows of a round, so that the next `simulate` runs them again; return their number.

        Rows of the wrong length count as failed. The simulator may be another one then: the next one is not compared
        with that of before.
        """
        label = str(round)
        if label in RESERVED:
            return 0
        with self.database.transaction() as connection:
            found = connection.execute(USUAL_WIDTH, (label,)).fetchone()
            width = self._width(label) or (found[0] if found else 0)
            opened = connection.execute(
                "UPDATE simulations SET status = 'open', x = NULL, raw = NULL, raw_shape = NULL, reason = '', "
                "seconds = NULL WHERE round = ? AND (status = 'failed' OR (status = 'done' AND length(x) != ?))",
                (label, 8 * width),
            ).rowcount
            if opened:
                for _, plan in plans(connection, label):
                    write_plan(connection, label, plan._replace(simulator="", code=None))
        return opened

    def resummarize(self, summarize: Callable[[np.ndarray], Any]) -> None:
        """Compute the summaries of every stored raw data set again, with another function, in one transaction."""
        with self.database.transaction() as connection:
            resummarize(connection, summarize)

    def close(self) -> None:
        """Close the file."""
        self.database.close()

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

    # ---- for `simulate` ------------------------------------------------------------------------------------------

    def plan(
        self,
        label: str,
        theta: np.ndarray,
        plan: Plan,
        summarize: Callable[[np.ndarray], Any] | None = None,
    ) -> None:
        """Enter the rows of a round; those that are there must have been made in the same way.

        If they were summarized by another function, their summaries are computed again from the raw data.
        """
        with self.database.transaction() as connection:
            before = self._plan(connection, label, theta, plan, "open")
            again = changed(before.summary, plan.summary) and summarize is not None
            number = resummarize(connection, summarize) if again and summarize is not None else 0
        if again:
            message = (
                f"the store {self.path} was filled with another summarize. The summaries of its {number} simulations "
                "with raw data were computed again with the one given now."
            )
            warn(StoreWarning(message, argument="summarize", path=self.path, n_recomputed=number))

    def keeper(self) -> Callable[[np.ndarray, Sequence[Result]], list[Result]]:
        """Return a function that appends simulations which a method ran itself, without those that are there.

        A chain that runs again, from the same seed, gives what an earlier run has written. The function returns the
        results with their values in the order of the store's other simulations.
        """
        there = set(self.database.rows("SELECT theta, x FROM simulations WHERE round = ?", (METHOD,)))

        def keep(theta: np.ndarray, results: Sequence[Result]) -> list[Result]:
            with self.database.transaction() as connection:
                enter_round(connection, METHOD, Plan(self.seed), self.path)
                ordered = in_first_order(connection, results)
                for values, result in zip(theta, ordered, strict=True):
                    if (blob(values), None if result.x is None else blob(result.x)) not in there:
                        last = "SELECT coalesce(max(row) + 1, 0) FROM simulations WHERE round = ?"
                        row = connection.execute(last, (METHOD,)).fetchone()[0]
                        insert(connection, METHOD, row, values[None, :], "asked")
                        finish(connection, "round = ? AND row = ?", (METHOD, row), result)
            return ordered

        return keep

    def observation_of(self, label: str, mark: str) -> str:
        """Return the mark of the observation that a round was proposed for; if there is no such round, note this."""
        key = f"observation of round {label}"
        with self.database.transaction() as connection:
            if _length(connection, label) == 0:
                connection.execute("INSERT OR REPLACE INTO header VALUES (?, ?)", (key, mark))
                return mark
            found = connection.execute("SELECT value FROM header WHERE key = ?", (key,)).fetchone()
        return mark if found is None else str(found[0])  # it was not noted always

    def raw_names(self, number: int) -> list[str] | None:
        """Return the names of so many raw values, in the order in which the simulator returned them first."""
        found = self.database.rows("SELECT value FROM header WHERE key = ?", (RAW.format(number),))
        return list(json.loads(found[0][0])) if found else None

    def finish(self, label: str, rows: Sequence[int], results: Sequence[Result]) -> None:
        """Record results, all in one transaction; a row that another process finished first stays as it is."""
        with self.database.transaction() as connection:
            for row, result in zip(rows, in_first_order(connection, results), strict=True):
                where = "round = ? AND row = ? AND status IN ('open', 'running')"
                finish(connection, where, (label, row), result)

    def tally(self, label: str, n: int) -> tuple[int, int]:
        """Return how many of the first n rows of a round are finished, and how many of these failed."""
        return self.database.rows(
            "SELECT count(*), coalesce(sum(status = 'failed'), 0) FROM simulations "
            "WHERE round = ? AND row < ? AND status IN ('done', 'failed')",
            (label, n),
        )[0]

    # ---- inside --------------------------------------------------------------------------------------------------

    def _agreed_names(self, prior: Prior | None) -> tuple[str, ...]:
        find = "SELECT value FROM header WHERE key = 'names'"
        found = self.database.rows(find)
        if not found:
            if prior is None:
                raise ArgumentError(
                    "prior", f"the store {self.path} is new; give the prior, SimulationStore(path, prior)."
                )
            with self.database.transaction() as connection:
                connection.execute(
                    "INSERT OR IGNORE INTO header VALUES ('names', ?)", (json.dumps(list(prior.names)),)
                )
            found = self.database.rows(find)
        names = tuple(json.loads(found[0][0]))
        if prior is not None and tuple(prior.names) != names:
            raise StoreMismatchError(
                f"the store {self.path} holds simulations with the parameters {', '.join(names)}, but the prior has "
                f"{', '.join(prior.names)}. Use a new file for another question.",
                argument="prior",
                path=self.path,
            )
        return names

    def _known_prior(self, what: str) -> Prior:
        if self.prior is None:
            raise ArgumentError(
                "prior", f"{what} draws from the prior; open the store with it, SimulationStore(path, prior)."
            )
        return self.prior

    def _assembled(self, rows: list[Record], round: int | str | None) -> Simulations:
        return assembled(rows, self.names, self._width(round), names_by_number(self.database.rows(NAMED)))

    def _width(self, round: int | str | None) -> int | None:
        """Return the length that x must have in a round other than the first; None if that of most rows decides."""
        if round is not None and str(round) == FIRST:
            return None
        found = self.database.rows(USUAL_WIDTH, (FIRST,))
        return int(found[0][0]) if found else None

    def _plan(self, connection: sqlite3.Connection, label: str, theta: np.ndarray, plan: Plan, status: str) -> Plan:
        before = enter_round(connection, label, plan, self.path)
        stored = connection.execute(
            "SELECT theta FROM simulations WHERE round = ? ORDER BY row LIMIT ?", (label, len(theta))
        ).fetchall()
        there = parameters([item for (item,) in stored], len(self.names))
        differs = ~np.isclose(there, theta[: len(stored)], rtol=1e-9, atol=0.0).all(axis=1)
        if differs.any():
            source = "proposal" if plan.proposal else "prior"
            raise StoreMismatchError(
                f"the store {self.path} holds round {label} with other parameters (first at row {differs.argmax()}): "
                f"it was filled from another {source}. Use a new file, or the {source} of before.",
                argument=source,
                path=self.path,
                round=label,
            )
        insert(connection, label, len(stored), theta[len(stored) :], status)
        return before

    def _pending(self) -> list[tuple[int, bytes]]:
        return self.database.rows("SELECT id, theta FROM simulations WHERE status = 'asked' ORDER BY id")

    def _ids(self, which: Any, pending: list[tuple[int, bytes]]) -> list[int]:
        """Return the ids of rows given by id or by parameters; refuse those that nobody asked for."""
        given = np.asarray(which)
        if given.dtype.kind in "iu" and given.ndim == 1:
            ids = [int(item) for item in given]
            unknown = [item for item in ids if item not in dict(pending)]
        else:
            parameters = self._parameters(which, "which")
            by_parameters = {stored: identifier for identifier, stored in reversed(pending)}
            found = [by_parameters.get(blob(row)) for row in parameters]
            ids = [item for item in found if item is not None]
            unknown = [i for i, item in enumerate(found) if item is None]
        if unknown:
            raise ArgumentError(
                "which",
                f"{len(unknown)} of the rows told were not asked for, or were told already (first: {unknown[0]}). "
                "Use add(theta, x) for simulations with parameters of your own.",
            )
        if len(set(ids)) != len(ids):
            raise ArgumentError("which", "the same row is told twice in one call; give each once.")
        return ids

    def _parameters(self, theta: Any, name: str) -> np.ndarray:
        rows = np.asarray(theta, dtype=np.float64)
        rows = rows.reshape(-1, 1) if rows.ndim == 1 and len(self.names) == 1 else np.atleast_2d(rows)
        if rows.ndim != 2 or rows.shape[1] != len(self.names) or not np.isfinite(rows).all():
            raise ArgumentError(
                name,
                f"{name} has shape {np.shape(theta)}; give finite rows (n, {len(self.names)}) of the parameters "
                f"{', '.join(self.names)}.",
            )
        return rows

    def _finished(self, round: int | str | None, n: int | None) -> list[Record]:
        statement = (
            "SELECT s.id, s.round, s.theta, s.x, s.raw, s.raw_shape, s.status = 'done', s.reason, s.seconds "
            "FROM simulations s JOIN rounds r ON r.label = s.round WHERE s.status IN ('done', 'failed') "
            "AND (? IS NULL OR s.round = ?) AND (? IS NULL OR s.row < ?) ORDER BY r.position, s.row"
        )
        label = None if round is None else str(round)
        return [Record(*row) for row in self.database.rows(statement, (label, label, n, n))]


def _length(connection: sqlite3.Connection, label: str) -> int:
    return int(connection.execute("SELECT count(*) FROM simulations WHERE round = ?", (label,)).fetchone()[0])


@contextlib.contextmanager
def opened(store: "SimulationStore | str | os.PathLike[str] | None", prior: Prior) -> Iterator[SimulationStore]:
    """Yield the store that was given, or one at the path that was given, or one in memory; close what was opened."""
    if isinstance(store, SimulationStore):
        store._agreed_names(prior)
        yield store
        return
    if store is not None and not isinstance(store, str | os.PathLike):
        raise ArgumentTypeError(
            "store", f"store is {store!r}; give the name of a file, such as 'runs.sqlite', or a SimulationStore."
        )
    with SimulationStore(":memory:" if store is None else store, prior) as own:
        yield own
