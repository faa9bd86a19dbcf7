"""What the file of a SQLiteStore has of a row that comes again, and what is erased; inside a transaction."""

import sqlite3

from oddsmith.storage.base import EventKind, Receipt
from oddsmith.storage.contents import LEASE, parts_of
from oddsmith.storage.rows import EventRow, repeated
from oddsmith.storage.slates import not_kept

__all__ = ["erase", "has", "receipt_again"]

_NEAREST = "select features from contexts where time >= ? and time < ? and features is not null"
_NEEDED = "update features set time = ? where digest = ? and time < ?"


def erase(connection: sqlite3.Connection, before: float) -> int:
    """Erase contexts from before that time, and features that no other needs, inside a transaction; returns how many.

    Those whose time is earlier may have been offered again, within their lease.
    """
    nearest = connection.execute(_NEAREST, (before, before + LEASE))
    needed = {digest for (joined,) in nearest for digest in parts_of(joined)}
    connection.executemany(_NEEDED, ((before, digest, before) for digest in needed))
    connection.execute("delete from features where time < ?", (before,))
    return connection.execute("delete from contexts where time < ?", (before,)).rowcount


def receipt_again(connection: sqlite3.Connection, row: EventRow, *, parked: bool) -> Receipt:
    """The receipt of a row that was there before: with its id, or for its unit or its slate."""
    line, known = row.line, row.known_by
    for where, names in (
        ("id = ? and kind = ? and key = ?", known[:3]),
        ("unit = ? and turn = ?", known[3:5]),
        ("slate = ? and slot = ?", known[5:]),
    ):
        found = connection.execute(f"select position, value, body from events where {where}", names).fetchone()
        if found is not None:
            return repeated(line, *found, parked=parked)
    return not_kept(row)


def has(connection: sqlite3.Connection, decision: str, *kinds: EventKind) -> bool:
    """Whether there is an event of one of these kinds about a decision."""
    query = f"select 1 from events where id = ? and kind in ({', '.join('?' * len(kinds))}) limit 1"
    return connection.execute(query, (decision, *kinds)).fetchone() is not None
