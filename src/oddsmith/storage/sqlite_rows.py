"""The rows of a SQLiteStore: what is written of an event, once, and how a decision is read back.

A decision is a line of JSON and its numbers as they lie in memory (float64, little-endian): exact as `to_json` is, in
half the room and half the time. The context is kept apart, so that it can be erased.
"""

import json
import sqlite3
from typing import Any, NamedTuple

import numpy as np

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


_NUMBERS = ("propensities", "advice", "bonus", "log_weights")


class Row(NamedTuple):
    """An event's line, and for a decision its JSON, its numbers, and the JSON of its context."""

    line: Line
    body: str | None = None
    numbers: bytes = b""
    context: str | None = None


def row_of(event: Event) -> Row:
    """What is written of an event; whatever cannot be written is refused here."""
    if not isinstance(event, DecisionMade):
        return Row(line_of(event))
    decision = event.decision
    arrays = {name: values for name in _NUMBERS if (values := getattr(decision, name)) is not None}
    plain = {name: _plain(getattr(decision, name)) for name in ("step", "eligible", "arm", "index")}
    counts = {name: len(values) for name, values in arrays.items()}
    try:
        body = json.dumps(plain | {"numbers": counts}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"decision must have a step, arm and eligible arms that JSON can hold; {error}") from error
    numbers = b"".join(np.asarray(values, dtype="<f8").tobytes() for values in arrays.values())
    context = None if decision.context is None else json.dumps(encode(decision.context), allow_nan=False)
    return Row(line_of(event), body, numbers, context)


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
        connection.execute("insert into decisions values (?, ?, ?, ?)", (position, row.body, row.numbers, had))
        if had:
            connection.execute("insert into contexts values (?, ?, ?)", (position, line.time, row.context))
    return Receipt(position, True)


def read_decision(body: str, numbers: bytes, had_context: int, context: str | None) -> Decision:
    """The decision that was written, with its context, or `Erased` in its place."""
    plain: dict[str, Any] = json.loads(body)
    values, end = np.frombuffer(numbers, dtype="<f8").astype(np.float64), 0  # a copy that may be written to
    for name, length in plain.pop("numbers").items():
        plain[name], end = values[end : end + length], end + length
    if plain["eligible"] is not None:
        plain["eligible"] = np.array(plain["eligible"])
    if not had_context:
        return Decision(context=None, **plain)
    return Decision(context=Erased() if context is None else decode(json.loads(context)), **plain)


def _plain(value: Any) -> Any:
    """A number or name, or an array of them as a list."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


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
