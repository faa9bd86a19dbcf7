"""The rows of a SQLiteStore: what is written of an event, once, and how a decision is read back."""

import json
import sqlite3
from typing import NamedTuple

from oddsmith.decision import Decision
from oddsmith.encoding import decode, encode
from oddsmith.errors import Conflict, InvalidInput
from oddsmith.storage.base import Erased, Line, Receipt, line_of
from oddsmith.storage.events import DecisionMade, Event

__all__ = ["Row", "insert", "read_decision", "row_of"]

_INSERT = (
    "insert into events (kind, id, key, value, time, deferred, seen) values (?, ?, ?, ?, ?, ?, ?) "
    "on conflict (id, kind, key) do nothing returning position"
)


class Row(NamedTuple):
    """An event's line, and for a decision the JSON of its body and of its context."""

    line: Line
    body: str | None = None
    context: str | None = None


def row_of(event: Event) -> Row:
    """What is written of an event; whatever cannot be written is refused here."""
    if not isinstance(event, DecisionMade):
        return Row(line_of(event))
    context = event.decision.context
    body = event.decision._replace(context=None).to_json()
    return Row(line_of(event), body, None if context is None else json.dumps(encode(context), allow_nan=False))


def insert(connection: sqlite3.Connection, row: Row) -> Receipt:
    """Write a row if it is not there yet, inside a transaction."""
    line = row.line
    if line.kind == "correction" and not _rewarded(connection, line.id):
        return Receipt(0, False, InvalidInput(f"decision {line.id!r} must have a reward to correct; it has none"))
    written = connection.execute(_INSERT, line[1:]).fetchone()
    if written is None:
        return _repeated(connection, line)
    position: int = written[0]
    if row.body is not None:
        had = row.context is not None
        connection.execute("insert into decisions values (?, ?, ?)", (position, row.body, had))
        if had:
            connection.execute("insert into contexts values (?, ?, ?)", (position, line.time, row.context))
    return Receipt(position, True)


def read_decision(body: str, had_context: int, context: str | None) -> Decision:
    """The decision that was written, with its context, or `Erased` in its place."""
    decision = Decision.from_json(body)
    if not had_context:
        return decision
    return decision._replace(context=Erased() if context is None else decode(json.loads(context)))


def _rewarded(connection: sqlite3.Connection, decision: str) -> bool:
    query = "select 1 from events where id = ? and kind in ('reward', 'default') limit 1"
    return connection.execute(query, (decision,)).fetchone() is not None


def _repeated(connection: sqlite3.Connection, line: Line) -> Receipt:
    query = "select position, value from events where id = ? and kind = ? and key = ?"
    position, value = connection.execute(query, (line.id, line.kind, line.key)).fetchone()
    if value == line.value:
        return Receipt(position, False)
    key = f" with key {line.key!r}" if line.key else ""
    conflict = Conflict(f"{line.kind} of {line.id!r}{key} must be {value:g}, as it was first; got {line.value:g}")
    return Receipt(position, False, conflict)
