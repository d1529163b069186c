"""How the rows of each round of a store are made, and whether rows made now belong with them."""

import json
import sqlite3
from typing import NamedTuple, Self

from decond.lfi.exceptions import StoreMismatchError, StoreWarning
from decond.lfi.fingerprint import NONE, changed
from decond.messages import warn

__all__ = ["ADDED", "ASKED", "METHOD", "RESERVED", "Plan", "enter_round", "plans", "write_plan"]

ASKED = "asked"
ADDED = "added"
METHOD = "method"
RESERVED = (ASKED, ADDED, METHOD)
"""Rounds whose rows are not run by `simulate`."""


class Plan(NamedTuple):
    """How the rows of one round are made; a store refuses to mix rows that were made differently.

    `code` and `summary` are the fingerprints of the simulator and of summarize; None where they are unknown.
    """

    seed: int
    batched: bool = False
    proposal: bool = False
    simulator: str = ""
    code: str | None = None
    summary: str | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """Return a plan from its text; what other versions wrote, or did not write, is left out."""
        fields = {name: value for name, value in json.loads(text).items() if name in cls._fields}
        return cls(**{**fields, "seed": int(fields["seed"])})

    def text(self) -> str:
        """Return the plan as it is stored."""
        return json.dumps({**self._asdict(), "seed": str(self.seed)})


def enter_round(connection: sqlite3.Connection, label: str, plan: Plan, path: str) -> Plan:
    """Note how a round is made, or compare with the note that is there; return what was noted before, or is now."""
    noted_plans = plans(connection, label)
    if not noted_plans:
        position = connection.execute("SELECT count(*) FROM rounds").fetchone()[0]
        connection.execute("INSERT INTO rounds VALUES (?, ?, ?)", (label, position, plan.text()))
        return plan
    noted = noted_plans[0][1]
    if label in (ADDED, METHOD):
        return noted
    _check_alike(noted, plan, label, path)
    write_plan(connection, label, _completed(noted, plan))
    if noted.simulator and noted.simulator != plan.simulator:
        what = f"by the simulator {noted.simulator}, and now {plan.simulator} is given"
    elif changed(noted.code, plan.code):
        what = f"by {noted.simulator} with other code than it has now"
    else:
        return noted
    message = (
        f"the store {path} was filled {what}. What is stored is kept, and rows of both would be mixed; use a new "
        "file unless the two give the same."
    )
    warn(StoreWarning(message, argument="simulator", path=path))
    return noted


def _completed(noted: Plan, plan: Plan) -> Plan:
    """Return a note with what was unknown until now."""
    name, code, summary = noted.simulator or plan.simulator, noted.code, noted.summary
    if code is None and name == plan.simulator:
        code = plan.code
    if summary is None and plan.summary != NONE:
        summary = plan.summary
    return noted._replace(simulator=name, code=code, summary=summary)


def _check_alike(noted: Plan, plan: Plan, label: str, path: str) -> None:
    """Raise if rows made in these two ways do not belong together."""
    for name in ("seed", "batched", "proposal", "summary"):
        then, now = getattr(noted, name), getattr(plan, name)
        what = f"{name} = {then}, and now {name} = {now} is asked for"
        if name == "proposal":
            what = f"parameters from {'a proposal' if then else 'the prior'}, and now it is the other way round"
        if name == "summary":
            if None in (then, now) or NONE not in (then, now):
                continue
            what = f"{'no' if then == NONE else 'a'} summarize, and now {'none' if now == NONE else 'one'} is given"
        if then != now:
            raise StoreMismatchError(
                f"the store {path} holds round {label} made with {what}. Ask as before to go on, or use a new file "
                "or another round.",
                argument="summarize" if name == "summary" else name,
                path=path,
                round=label,
            )


def plans(connection: sqlite3.Connection, label: str | None = None) -> list[tuple[str, Plan]]:
    """Return the notes on one round or on all."""
    found = connection.execute("SELECT label, plan FROM rounds WHERE ? IS NULL OR label = ?", (label, label))
    return [(name, Plan.read(text)) for name, text in found.fetchall()]


def write_plan(connection: sqlite3.Connection, label: str, plan: Plan) -> None:
    """Replace the note on one round."""
    connection.execute("UPDATE rounds SET plan = ? WHERE label = ?", (plan.text(), label))
