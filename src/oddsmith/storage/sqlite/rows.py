"""How a row gets into a SQLiteStore, once."""

import sqlite3

from oddsmith.storage.base import Receipt
from oddsmith.storage.rows import Row, repeated, unrewarded, waits

__all__ = ["insert"]

_INSERT = (
    "insert into events (kind, id, key, value, time, deferred, seen) values (?, ?, ?, ?, ?, ?, ?) "
    "on conflict (id, kind, key) do nothing returning position"
)


def insert(connection: sqlite3.Connection, row: Row) -> Receipt:
    """Write a row if it is not there yet, inside a transaction."""
    line = row.line
    if line.kind == "correction" and not _rewarded(connection, line.id):
        return unrewarded(line)
    parked = waits(line) and not _decided(connection, line.id)
    written = connection.execute(_INSERT, line[1:]).fetchone()
    if written is None:
        query = "select position, value from events where id = ? and kind = ? and key = ?"
        return repeated(line, *connection.execute(query, (line.id, line.kind, line.key)).fetchone(), parked=parked)
    position: int = written[0]
    if row.body is not None:
        had = row.context is not None
        connection.execute("insert into decisions values (?, ?, ?, ?)", (position, row.body, row.numbers, had))
        if had:
            connection.execute("insert into contexts values (?, ?, ?)", (position, line.time, row.context))
    return Receipt(position, True, parked=parked)


def _decided(connection: sqlite3.Connection, decision: str) -> bool:
    query = "select 1 from events where id = ? and kind = 'decision' limit 1"
    return connection.execute(query, (decision,)).fetchone() is not None


def _rewarded(connection: sqlite3.Connection, decision: str) -> bool:
    query = "select 1 from events where id = ? and kind in ('reward', 'default') limit 1"
    return connection.execute(query, (decision,)).fetchone() is not None
